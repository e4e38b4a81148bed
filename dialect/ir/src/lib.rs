//! The phobos MLIR dialect: ODS definitions, a thin C++ shim, and safe Rust
//! wrappers.
//!
//! All of the project's unsafe code around MLIR is in this crate, so that lowering
//! and passes are safe Rust:
//!
//! - [`types`]: tiles, tensors in memory and block elements as Rust data.
//! - [`ir`]: walking and editing what is there.
//! - [`build`]: building operations.
//! - [`pass`]: passes written in Rust, registered by name with options.
//! - [`driver`]: a context with every dialect, running pipelines, `phobos-opt`.
//!
//! # Handles
//! [`Op`], [`Val`], [`Blk`] are MLIR's own pointers and are `Copy`. As everywhere
//! in MLIR, a handle to an erased operation must not be used: read what is needed
//! before erasing, and erase users before their operands' definitions.

pub mod build;
pub mod driver;
mod ffi;
pub mod ir;
pub mod pass;
pub mod types;

/// An operation.
pub type Op<'c> = melior::ir::operation::OperationRef<'c, 'c>;
/// An SSA value.
pub type Val<'c> = melior::ir::Value<'c, 'c>;
/// A block.
pub type Blk<'c> = melior::ir::BlockRef<'c, 'c>;

pub use melior::{
    Context,
    ir::{Attribute, Location, Module, Type},
};
pub use pass::PassError;
