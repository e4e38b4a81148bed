//! The .ph language: lexer, parser, checker and diagnostics. Knows nothing of MLIR.

pub mod span;
pub mod tree;
pub mod typed;

pub use span::Span;
