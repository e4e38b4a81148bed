//! Why the engine cannot load a model or answer.

use phobos_device::DeviceError;
use phobos_gguf::GgufError;
use phobos_models::ModelError;
use phobos_tokenizer::{ChatError, VocabularyError};
use phobos_worker::CompileError;

use crate::sampler::SamplerError;

/// Why the engine cannot load a model or answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The file cannot be read or is no GGUF file.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The model cannot be loaded or run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The file's tokenizer cannot be used.
    #[error("{file}: tokenizer: {source}")]
    Tokenizer {
        /// The file.
        file: String,
        /// Why.
        source: VocabularyError,
    },
    /// The tokenizer can give ids that the model does not know.
    #[error("{file}: tokenizer: {tokens} tokens, and the model has {vocabulary}")]
    VocabularySize {
        /// The file.
        file: String,
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Tokens of the model.
        vocabulary: u64,
    },
    /// The file has no chat template.
    #[error("{file}: no chat template: use --raw")]
    NoChatTemplate {
        /// The file.
        file: String,
    },
    /// The chat template cannot be used, or refuses the conversation.
    #[error("{file}: {source}")]
    Chat {
        /// The file.
        file: String,
        /// Why.
        source: ChatError,
    },
    /// A kernel could not be had.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A token cannot be sampled.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The prompt is empty.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// The prompt does not fit the context.
    #[error("the prompt has {tokens} tokens, and the context {context} (--ctx)")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: u64,
        /// Positions of the context.
        context: u64,
    },
}

impl EngineError {
    /// Whether the user's file, prompt or settings are at fault, and not the program or
    /// the machine.
    pub fn is_input(&self) -> bool {
        match self {
            EngineError::Gguf(_)
            | EngineError::Tokenizer { .. }
            | EngineError::VocabularySize { .. }
            | EngineError::NoChatTemplate { .. }
            | EngineError::Chat { .. }
            | EngineError::EmptyPrompt
            | EngineError::PromptTooLong { .. } => true,
            EngineError::Model(error) => error.is_input(),
            EngineError::Sampler(error) => matches!(error, SamplerError::OutOfRange { .. }),
            EngineError::Device(error) => {
                matches!(error, DeviceError::UnknownDevice(_) | DeviceError::NotBuilt { .. })
            }
            EngineError::Compile(_) => false,
        }
    }
}
