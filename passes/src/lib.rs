//! The Phobos compiler passes: one pass, one file (or folder), named after its flag.
//!
//! The host pipeline is [`HOST_PIPELINE`]: specialise, fuse, mask, lower. No pass of MLIR that
//! folds runs on tiles (phobos-simplify says why). Passes do no I/O; what they report goes
//! through MLIR diagnostics at the `.ph` location.
#![forbid(unsafe_code)]

mod fuse;
pub mod host;
mod mask;
mod range;
mod simplify;
mod specialize;
mod tile_ops;

use phobos_dialect::pass::{self, Pass};

/// Every pass.
pub static PASSES: [Pass; 5] = [specialize::PASS, simplify::PASS, fuse::PASS, mask::PASS, host::PASS];

/// After specialisation: from tile IR to the `llvm` dialect for the host. `{level}`
/// is replaced by `v2`, `v3`, `v4` or `v4-vnni`.
pub const HOST_PIPELINE: &str = "builtin.module(phobos.kernel(phobos-simplify,cse,phobos-fuse,phobos-mask,phobos-simplify,cse),\
     convert-phobos-to-host{level={level}},canonicalize,cse,convert-scf-to-cf,convert-vector-to-llvm,\
     convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts,canonicalize,cse)";

/// The host pipeline for a level (`v2`, `v3`, `v4`, `v4-vnni`).
pub fn host_pipeline(level: &str) -> String {
    HOST_PIPELINE.replace("{level}", level)
}

/// Registers all passes and the pipelines `phobos-host-v2`, `-v3`, `-v4` and `-v4-vnni`. Call
/// once per process.
pub fn register() {
    pass::register(&PASSES);
    for level in ["v2", "v3", "v4", "v4-vnni"] {
        let text = host_pipeline(level);
        // A registered pipeline runs on the module it is given.
        let inner = text.strip_prefix("builtin.module(").and_then(|text| text.strip_suffix(')'));
        pass::register_pipeline(
            &format!("phobos-host-{level}"),
            "From specialised tile IR to the llvm dialect for the host",
            inner.unwrap_or(&text),
        );
    }
}
