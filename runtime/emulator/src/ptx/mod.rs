//! PTX text: lexer, syntax tree and parser.
//!
//! The parser knows the grammar and no instruction: an opcode is a word with its
//! dotted modifiers. What each instruction means is decided by [`crate::decode`].

pub mod ast;
mod declare;
mod expression;
mod lexer;
mod parser;

pub use parser::parse;

/// The largest PTX text accepted, in bytes.
pub const MAX_SOURCE_BYTES: usize = 256 << 20;

/// A place in a PTX file; both numbers start at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pos {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub col: u32,
}

/// PTX text that cannot be used, and where: `file.ptx:LINE:COL: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {message}", pos.line, pos.col)]
pub struct PtxError {
    /// The file's name as it was given.
    pub file: String,
    /// Where in the file.
    pub pos: Pos,
    /// What is wrong.
    pub message: String,
}
