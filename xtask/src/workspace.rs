//! Where things are in the checkout.

use std::env;
use std::path::{Path, PathBuf};

/// The paths that the tasks work with.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The checkout this xtask was built from.
    pub fn locate() -> Self {
        // `cargo run` sets the variable; the built-in path serves a run of the bare binary.
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf);
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |t| root.join(t));
        Self { root, target }
    }

    /// The root of the checkout.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's target directory.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where the built programs lie.
    pub fn bin(&self) -> PathBuf {
        self.target.join("release")
    }

    /// Where downloads and builds of the benchmarks lie.
    pub fn bench(&self) -> PathBuf {
        self.target.join("bench")
    }

    /// Where model files lie.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }
}
