//! The .ph language: lexer, parser, checker and diagnostics. Knows nothing of MLIR.

pub mod check;
mod constraint;
pub mod diagnostics;
pub mod import;
mod lexer;
pub mod parser;
mod source;
pub mod span;
pub mod tree;
pub mod typed;
mod walk;

pub use check::{Checked, check};
pub use diagnostics::{Code, Diagnostic, Severity};
pub use parser::parse;
pub use source::{Location, MAX_TEXT, SourceFile};
pub use span::Span;
