//! Random kernels, compiled and run on the host, against an interpreter of the language.
//!
//! [`generate`] makes a well-typed kernel from a seed. [`oracle`] says what it must leave in
//! memory, by the rules of SPEC.md and with none of the compiler's code behind the checker.
//! [`execute`] compiles and runs it in a process of its own, [`judge`] compares, and what is
//! wrong is cut down by [`shrink`] and written out by [`runner`].
#![forbid(unsafe_code)]

pub mod data;
pub mod execute;
pub mod generate;
pub mod judge;
pub mod number;
pub mod oracle;
pub mod program;
pub mod random;
pub mod runner;
pub mod shrink;
