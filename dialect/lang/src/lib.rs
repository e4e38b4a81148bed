//! The .ph language: lexer, parser, checker and diagnostics. Knows nothing of MLIR.
//!
//! A text becomes a source tree ([`tree`]), and a kernel of it, with its generic
//! parameters bound, a typed tree ([`typed`]), which is what lowering reads. Nothing
//! here fails or does I/O: each step returns what it could make and [`Diagnostic`]s.
//!
//! ```
//! use std::collections::BTreeMap;
//! use phobos_lang::{check, diagnostics::{RenderOptions, render}, import, parse};
//!
//! let text = "kernel double(X: tensor<f32>[N]) {
//!   let i = program_id(0) * 64
//!   X[i :+ 64] = X[i :+ 64] * 2.0
//! }";
//! // The loader reads imported files; this text has none.
//! let (source, mut diagnostics) = import::expand("double.ph", text, &mut |path: &str| Err(format!("no {path}")));
//! let (module, found) = parse(&source);
//! diagnostics.extend(found);
//! let checked = check(&module, "double", &BTreeMap::new());
//! diagnostics.extend(checked.diagnostics);
//! for diagnostic in &diagnostics {
//!     eprint!("{}", render(diagnostic, &source, RenderOptions::default()));
//! }
//! let kernel = checked.kernel.expect("the program is correct");
//! assert_eq!(kernel.grid[0].to_string(), "ceil(N / 64)");
//! ```
//!
//! Invariants: every node of both trees has a [`Span`]; a kernel comes out only when
//! there is no error; [`parser::MAX_DEPTH`] and [`parser::MAX_HEIGHT`] bound every
//! recursion over the trees.

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
pub use constraint::Refusal;
pub use diagnostics::{Code, Diagnostic, Severity};
pub use parser::parse;
pub use source::{Location, MAX_TEXT, SourceFile};
pub use span::Span;
