//! LLVM code generation through the C API: a shared object for the host (PTX text
//! for a GPU comes with the GPU back end).
//!
//! [`Translated`] is a module in LLVM IR; [`Translated::optimize`] and
//! [`Translated::emit`] work on it; [`link`] makes the shared object.
//!
//! LLVM's back end aborts the process on what it cannot select. Callers run in a
//! worker process, so that an abort costs one compilation.

mod host;
mod link;
mod llvm;

pub use link::link;
pub use llvm::{FileKind, Translated, loaded_libraries};

/// What went wrong in code generation.
#[derive(Debug, thiserror::Error)]
pub enum CodegenError {
    /// MLIR could not translate the module.
    #[error("the module cannot be translated to LLVM IR: {0}")]
    Translate(String),
    /// LLVM reported an error.
    #[error("LLVM: {0}")]
    Llvm(String),
    /// The linker is missing or failed.
    #[error("{0}")]
    Link(String),
    /// The object needs something that a host kernel may not.
    #[error("the object needs `{0}`: host kernels may need memcpy and memset only")]
    UndefinedSymbol(String),
}
