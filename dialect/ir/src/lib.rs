//! The phobos MLIR dialect: ODS definitions, a thin C++ shim, and safe Rust wrappers.
