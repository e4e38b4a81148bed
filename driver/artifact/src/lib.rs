//! What the compiler and the runtime share, and nothing else: both halves of
//! Phobos depend on this crate, so it knows neither MLIR nor a device.
//!
//! - [`request`]: what to compile; its digest is the kernel cache's key.
//! - [`artifact`]: the compiled kernel, one self-describing blob.
//! - [`chip`], [`dtype`], [`format`]: the names of targets, element types and
//!   block formats, with everything both halves must agree on about them.

pub mod artifact;
pub mod chip;
pub mod dtype;
pub mod format;
pub mod grid;
pub mod request;

pub use artifact::{Access, ArgKind, Argument, Artifact, Contract, Extent, Image, ImageKind, Metadata};
pub use chip::{Chip, HostLevel};
pub use dtype::{DType, Element};
pub use grid::GridExpr;
pub use request::{CompileOptions, CompileRequest, IndexBits};
