//! What the compiler and the runtime share, and nothing else: both halves of
//! Phobos depend on this crate, so it knows neither MLIR nor a device.
//!
//! - [`request`]: what to compile; its digest is the kernel cache's key.
//! - [`artifact`]: the compiled kernel, one self-describing blob.
//! - [`codec`]: its bytes; [`fingerprint`]: the compiler that made it.
//! - [`frame`], [`worker`]: how the runtime asks a `phobos-compile` process for one.
//! - [`limits`]: what a kernel and its launch may have at most.
//! - [`chip`], [`dtype`], [`mod@format`]: the names of targets, element types and
//!   block formats, with everything both halves must agree on about them.

pub mod artifact;
pub mod chip;
pub mod codec;
pub mod dtype;
pub mod fingerprint;
pub mod format;
pub mod frame;
pub mod grid;
mod hex;
pub mod limits;
pub mod request;
pub mod worker;

pub use artifact::{Access, ArgKind, Argument, Artifact, Contract, Extent, Image, ImageKind, Metadata};
pub use chip::{Chip, HostLevel};
pub use codec::DecodeError;
pub use dtype::{DType, Element};
pub use fingerprint::Fingerprint;
pub use grid::GridExpr;
pub use hex::HexError;
pub use request::{CompileOptions, CompileRequest, IndexBits, RequestKey};
pub use worker::{CompileError, KernelSource, WorkerOptions, WorkerPool};
