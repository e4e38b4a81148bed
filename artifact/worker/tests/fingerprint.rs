//! What empties kernel caches, and what does not.

#![allow(clippy::unwrap_used)] // the lint's exception for tests does not reach their helpers

#[path = "../build/fingerprint.rs"]
mod fingerprint;

use std::{
    fs,
    path::{Path, PathBuf},
};

const LOCK: &str = r#"version = 4

[[package]]
name = "axum"
version = "0.8.0"
source = "registry+x"
checksum = "aa"

[[package]]
name = "melior"
version = "0.27.8"
source = "registry+x"
checksum = "bb"
dependencies = [
 "mlir-sys",
]

[[package]]
name = "mlir-sys"
version = "220.0.2"
source = "registry+x"
checksum = "cc"

[[package]]
name = "phobos-cli"
version = "0.1.0"
dependencies = [
 "axum",
]

[[package]]
name = "phobos-passes"
version = "0.1.0"
dependencies = [
 "melior",
 "phobos-cli",
]
"#;

/// A tree with a file of each kind.
fn tree(root: &Path) {
    for name in [
        "artifact/src/codec.rs",
        "artifact/worker/src/pool.rs",
        "dialect/lang/src/lib.rs",
        "dialect/lang/tests/typed.rs",
        "driver/src/bin/phobos-compile.rs",
        "driver/src/compile.rs",
        "driver/src/worker.rs",
        "passes/src/fuse.rs",
        "runtime/cli/src/args.rs",
    ] {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    fs::write(root.join("Cargo.lock"), LOCK).unwrap();
}

fn digest(root: &Path) -> String {
    fingerprint::of_tree(root, "0.1.0", "22.1.0").unwrap().0
}

/// The digest after `change`, and before.
fn around(change: impl FnOnce(&Path)) -> (String, String) {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let before = digest(root.path());
    change(root.path());
    (before, digest(root.path()))
}

#[test]
fn what_decides_the_code_counts() {
    for name in
        ["artifact/src/codec.rs", "dialect/lang/src/lib.rs", "driver/src/compile.rs", "passes/src/fuse.rs"]
    {
        let (before, after) = around(|root| fs::write(root.join(name), "other").unwrap());
        assert_ne!(before, after, "{name}");
    }
    let (before, after) = around(|root| fs::write(root.join("passes/src/new.rs"), "").unwrap());
    assert_ne!(before, after, "a new file");
    let crates = |root: &Path| fs::write(root.join("Cargo.lock"), LOCK.replace("\"cc\"", "\"cd\"")).unwrap();
    let (before, after) = around(crates);
    assert_ne!(before, after, "a crate that the compiler is built from");
}

#[test]
fn what_decides_nothing_does_not_count() {
    for name in [
        "artifact/worker/src/pool.rs",
        "dialect/lang/tests/typed.rs",
        "driver/src/bin/phobos-compile.rs",
        "driver/src/worker.rs",
        "runtime/cli/src/args.rs",
    ] {
        let (before, after) = around(|root| fs::write(root.join(name), "other").unwrap());
        assert_eq!(before, after, "{name}");
    }
    let crates = |root: &Path| fs::write(root.join("Cargo.lock"), LOCK.replace("\"aa\"", "\"ab\"")).unwrap();
    let (before, after) = around(crates);
    assert_eq!(before, after, "a crate of the runtime alone");
}

#[test]
fn the_versions_count_and_the_place_does_not() {
    let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    roots.iter().for_each(|root| tree(root.path()));
    assert_eq!(digest(roots[0].path()), digest(roots[1].path()));
    let root = roots[0].path();
    assert_ne!(digest(root), fingerprint::of_tree(root, "0.1.1", "22.1.0").unwrap().0);
    assert_ne!(digest(root), fingerprint::of_tree(root, "0.1.0", "22.1.1").unwrap().0);
}

/// The build script and this test are the same code; this ties the test's tree to the real one.
#[test]
fn the_real_tree_has_every_root_and_the_digest_of_the_build() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned();
    let llvm = phobos_worker::fingerprint::llvm_version();
    let (digest, files) = fingerprint::of_tree(&root, env!("CARGO_PKG_VERSION"), llvm).unwrap();
    assert_eq!(digest, phobos_worker::fingerprint::current().long());
    for name in ["Cargo.lock", "artifact/src/lib.rs", "driver/src/compile.rs", "dialect/ir/ods/PhobosOps.td"]
    {
        assert!(files.contains(&root.join(name)), "{name}");
    }
}
