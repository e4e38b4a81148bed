//! What the compiler and the runtime share, and nothing else: both halves of
//! Phobos depend on this crate, so it knows neither MLIR nor a device.
//!
//! - [`request`]: what to compile; its digest is the kernel cache's key.
//! - [`artifact`]: the compiled kernel, one self-describing blob.
//! - [`codec`]: its bytes; [`Fingerprint`]: the compiler that made it.
//! - [`facts`]: what chips can do.
//! - [`limits`]: what a kernel and its launch may have at most.
//! - [`chip`], [`dtype`], [`mod@format`]: the names of targets, element types and
//!   block formats, with everything both halves must agree on about them.

pub mod artifact;
pub mod chip;
pub mod codec;
pub mod dtype;
pub mod facts;
mod fingerprint;
pub mod format;
pub mod grid;
mod hex;
pub mod limits;
pub mod range;
pub mod request;

pub use artifact::{Access, ArgKind, Argument, Artifact, Contract, Extent, Image, ImageKind, Metadata};
pub use chip::{Chip, HostLevel};
pub use codec::DecodeError;
pub use dtype::{DType, Element};
pub use facts::{ChipFacts, GpuFacts, HostFacts};
pub use fingerprint::Fingerprint;
pub use grid::GridExpr;
pub use hex::HexError;
pub use range::DimRange;
pub use request::{CompileOptions, CompileRequest, IndexBits, RequestKey};
