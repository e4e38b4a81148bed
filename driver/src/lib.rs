//! From a compile request to an artifact.
//!
//! [`compile`] is the whole path: parse and check ([`phobos_lang`]), choose parameters
//! ([`tune`]), lower ([`phobos_lower`]), run the passes ([`phobos_passes`]), generate
//! code ([`phobos_codegen`]) and describe it ([`metadata`]). [`worker`] answers
//! requests over a pipe.
#![forbid(unsafe_code)]

pub mod compile;
pub mod metadata;
pub mod phases;
mod plant;
pub mod tune;
pub mod worker;

pub use compile::{Failure, Stage, compile, compile_to};
