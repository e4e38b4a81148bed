//! Leaves the compiler's fingerprint and the version of LLVM in the environment of this
//! crate: `PHOBOS_FINGERPRINT` and `PHOBOS_LLVM_VERSION`.

mod fingerprint;

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The LLVM that the compiler crates link.
const LLVM_CONFIG: &str = "/usr/lib/llvm-22/bin/llvm-config";

/// Changes whenever a Debian package is installed.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build");
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = manifest.ancestors().nth(2).unwrap_or(&manifest);
    let llvm = llvm_version();
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let (digest, files) = fingerprint::of_tree(root, &version, &llvm)?;
    // File by file: watching a folder would watch its tests too. A new file matters
    // only once an old one mentions it.
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    println!("cargo::rustc-env=PHOBOS_FINGERPRINT={digest}");
    println!("cargo::rustc-env=PHOBOS_LLVM_VERSION={llvm}");
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
