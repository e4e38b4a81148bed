//! Computes the compiler's fingerprint: a digest of everything in this repository
//! that decides what a request compiles to, and the version of LLVM.
//!
//! The digest covers relative paths and contents only, so two checkouts of the same
//! tree have the same fingerprint wherever they lie. Directories of tests do not
//! count: editing a test must not empty every kernel cache.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// What decides the code, relative to the root of the workspace.
const ROOTS: [&str; 4] = ["dialect", "passes", "driver", "Cargo.lock"];

/// Directories that decide nothing, wherever they lie.
const SKIPPED_DIRECTORIES: [&str; 5] = ["target", "tests", "benches", "Output", "__pycache__"];

/// The LLVM that the compiler crates link.
const LLVM_CONFIG: &str = "/usr/lib/llvm-22/bin/llvm-config";

/// Changes whenever a Debian package is installed.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = manifest.ancestors().nth(2).unwrap_or(&manifest).to_path_buf();

    let mut files = Vec::new();
    for name in ROOTS {
        let path = root.join(name);
        // Absent in a packaged build.
        if path.exists() {
            collect(&path, name, &mut files)?;
        }
    }
    if files.is_empty() {
        collect(&manifest, "driver/artifact", &mut files)?;
    }
    files.sort();

    let llvm = llvm_version();
    let mut hasher = blake3::Hasher::new_derive_key("phobos compiler fingerprint 1");
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    field(env::var("CARGO_PKG_VERSION").unwrap_or_default().as_bytes());
    field(llvm.as_bytes());
    for (name, path) in &files {
        // File by file: watching a folder would watch its tests too. A new file matters
        // only once an old one mentions it.
        println!("cargo::rerun-if-changed={}", path.display());
        field(name.as_bytes());
        field(&fs::read(path)?);
    }
    println!("cargo::rustc-env=PHOBOS_FINGERPRINT={}", hasher.finalize().to_hex());
    println!("cargo::rustc-env=PHOBOS_LLVM_VERSION={llvm}");
    Ok(())
}

/// Adds the regular files at and below `path`, each with its name relative to the root.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_file() {
        files.push((name.to_owned(), path.to_owned()));
    } else if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let child = file_name.to_string_lossy();
            // Hidden files are an editor's, not ours.
            let skipped = child.starts_with('.') || child.ends_with('~');
            if !skipped && !SKIPPED_DIRECTORIES.contains(&child.as_ref()) {
                collect(&entry.path(), &format!("{name}/{child}"), files)?;
            }
        }
    }
    Ok(())
}

/// The full version of the LLVM on this machine, or `none`: the runtime builds without it.
fn llvm_version() -> String {
    if Path::new(LLVM_CONFIG).exists() {
        println!("cargo::rerun-if-changed={LLVM_CONFIG}");
    } else if Path::new(DPKG_STATUS).exists() {
        println!("cargo::rerun-if-changed={DPKG_STATUS}");
    }
    Command::new(LLVM_CONFIG)
        .arg("--version")
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|version| version.trim().to_owned())
        .filter(|version| !version.is_empty() && !version.contains(char::is_whitespace))
        .unwrap_or_else(|| "none".to_owned())
}
