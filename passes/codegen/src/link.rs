//! From an object to a shared object.

use std::{fs, path::PathBuf, process::Command};

use object::{Object, ObjectSymbol};

use crate::CodegenError;

/// What a host kernel may need from the process that loads it.
const ALLOWED: [&str; 2] = ["memcpy", "memset"];

/// Links an object into a shared object with `ld.lld-22`.
pub fn link(object: &[u8]) -> Result<Vec<u8>, CodegenError> {
    let folder =
        tempfile::tempdir().map_err(|error| CodegenError::Link(format!("temporary folder: {error}")))?;
    let (input, output) = (folder.path().join("kernel.o"), folder.path().join("kernel.so"));
    fs::write(&input, object)
        .map_err(|error| CodegenError::Link(format!("cannot write {}: {error}", input.display())))?;
    let linker = linker();
    let run = Command::new(&linker)
        .args(["-shared", "--gc-sections", "--strip-debug", "--build-id=none", "-z", "noexecstack", "-o"])
        .arg(&output)
        .arg(&input)
        .output()
        .map_err(|error| {
            CodegenError::Link(format!("cannot run {}: {error}; install lld-22", linker.display()))
        })?;
    if !run.status.success() {
        let text = String::from_utf8_lossy(&run.stderr);
        return Err(CodegenError::Link(format!("{} failed: {}", linker.display(), text.trim())));
    }
    let image = fs::read(&output)
        .map_err(|error| CodegenError::Link(format!("cannot read {}: {error}", output.display())))?;
    check_symbols(&image)?;
    Ok(image)
}

fn linker() -> PathBuf {
    let beside_llvm = PathBuf::from("/usr/lib/llvm-22/bin/ld.lld");
    if beside_llvm.exists() { beside_llvm } else { PathBuf::from("ld.lld-22") }
}

fn check_symbols(image: &[u8]) -> Result<(), CodegenError> {
    let file =
        object::File::parse(image).map_err(|error| CodegenError::Link(format!("linked object: {error}")))?;
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_undefined()) {
        let name = symbol.name().unwrap_or("?");
        if !name.is_empty() && !ALLOWED.contains(&name) {
            return Err(CodegenError::UndefinedSymbol(name.to_owned()));
        }
    }
    Ok(())
}
