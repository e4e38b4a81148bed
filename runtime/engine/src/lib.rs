//! Generation: sampling, sessions, and how a model gets its kernels.
//!
//! [`Engine::load`] reads a GGUF file, has its kernels compiled and puts it on a device.
//! A [`Session`] is a text that the model has read; [`generate`] continues it. Tokenising and
//! sampling run on the CPU, everything else is a Phobos kernel.
//!
//! Not promised: the same tokens on two devices. Kernels differ in the order of
//! their sums, and where two logits are close the better one may change. On one device,
//! the same seed, prompt and settings give the same tokens, whatever the number of threads.

mod engine;
mod error;
mod generate;
mod kernels;
pub mod random;
pub mod sampler;
mod session;
mod vocabulary;

pub use engine::{Engine, EngineOptions, Message, Role};
pub use error::EngineError;
pub use generate::{Finish, GenerateParams, Piece, Stats, generate};
pub use kernels::{KernelCounts, Progress};
pub use sampler::SamplingParams;
pub use session::Session;
pub use vocabulary::tokenizer;
