//! Generates the dialect from ODS, compiles the C++ shim, and makes MLIR linkable.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// mlir-tblgen generator, its input, and the file it makes.
const GENERATED: [(&str, &str, &str); 10] = [
    ("-gen-dialect-decls", "PhobosOps.td", "PhobosDialect.h.inc"),
    ("-gen-dialect-defs", "PhobosOps.td", "PhobosDialect.cpp.inc"),
    ("-gen-attrdef-decls", "PhobosOps.td", "PhobosAttrs.h.inc"),
    ("-gen-attrdef-defs", "PhobosOps.td", "PhobosAttrs.cpp.inc"),
    ("-gen-typedef-decls", "PhobosOps.td", "PhobosTypes.h.inc"),
    ("-gen-typedef-defs", "PhobosOps.td", "PhobosTypes.cpp.inc"),
    ("-gen-enum-decls", "PhobosOps.td", "PhobosEnums.h.inc"),
    ("-gen-enum-defs", "PhobosOps.td", "PhobosEnums.cpp.inc"),
    ("-gen-op-decls", "PhobosOps.td", "PhobosOps.h.inc"),
    ("-gen-op-defs", "PhobosOps.td", "PhobosOps.cpp.inc"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for watched in ["ods", "cpp", "build.rs"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    let prefix = PathBuf::from(env::var("MLIR_SYS_220_PREFIX").unwrap_or("/usr/lib/llvm-22".into()));
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let tblgen = prefix.join("bin/mlir-tblgen");
    if !tblgen.exists() {
        return Err(format!(
            "{} is missing: LLVM/MLIR 22 is needed to build the compiler half of Phobos; run `cargo xtask setup`",
            tblgen.display()
        )
        .into());
    }
    for (generator, input, output) in GENERATED {
        let mut command = Command::new(&tblgen);
        command.arg(generator).arg(Path::new("ods").join(input)).arg("-o").arg(out.join(output));
        command.args(["-I", "ods"]).arg("-I").arg(prefix.join("include"));
        if generator.starts_with("-gen-dialect") || generator.starts_with("-gen-attrdef") {
            command.args(["-dialect=phobos"].iter().filter(|_| generator.contains("dialect")));
            command.args(["-attrdefs-dialect=phobos"].iter().filter(|_| generator.contains("attrdef")));
        } else if generator.starts_with("-gen-typedef") {
            command.arg("-typedefs-dialect=phobos");
        }
        if !command.status()?.success() {
            return Err(format!("mlir-tblgen {generator} failed").into());
        }
    }
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .compiler(prefix.join("bin/clang++"))
        .flag("-fno-exceptions")
        .flag("-fvisibility-inlines-hidden")
        .flag("-w")
        .opt_level(1)
        .debug(false)
        .include(&out)
        .include("cpp")
        .include(prefix.join("include"))
        .files(
            ["Phobos.cpp", "PhobosOps.cpp", "PhobosCAPI.cpp", "PhobosOpt.cpp"]
                .map(|file| Path::new("cpp").join(file)),
        )
        .try_compile("phobos_dialect")?;
    write_mlir_c_library(&prefix.join("lib"), &out)?;
    println!("cargo:rustc-link-search=native={}", out.display());
    Ok(())
}

/// Debian has no `libMLIR-C.so`, which `mlir-sys` links to: the C API is only in
/// static archives. A linker script of that name joins them with the shared
/// libMLIR and the one shared libLLVM.
fn write_mlir_c_library(libraries: &Path, out: &Path) -> io::Result<()> {
    let mut archives = Vec::new();
    for entry in fs::read_dir(libraries)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("libMLIRCAPI") && name.ends_with(".a") {
            archives.push(path.display().to_string());
        }
    }
    archives.sort();
    fs::write(out.join("libMLIR-C.so"), format!("INPUT( {} -lMLIR -lLLVM-22 )\n", archives.join(" ")))
}
