//! Why a model cannot be loaded or run.

use phobos_device::DeviceError;
use phobos_gguf::GgufError;

/// Why a model cannot be loaded or run. What is wrong with a file names the file and the
/// key or tensor.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The architecture has no forward pass here.
    #[error("{file}: metadata key `general.architecture`: `{name}` is not supported: expected {known}")]
    Architecture {
        /// The file.
        file: String,
        /// What it says.
        name: String,
        /// What would work.
        known: &'static str,
    },
    /// A metadata key or tensor is missing or of the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A tensor's bytes are not the matrix that its shape says.
    #[error(transparent)]
    Layout(#[from] phobos_artifact::format::LayoutError),
    /// A metadata key has a value that the model cannot have.
    #[error("{file}: metadata key `{key}`: {problem}")]
    Key {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// A tensor has the wrong shape or type, or is none of the model's.
    #[error("{file}: tensor `{name}`: {problem}")]
    Tensor {
        /// The file.
        file: String,
        /// The tensor.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A setting that this version cannot honour.
    #[error("{0}")]
    Setting(String),
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocabulary} tokens")]
    TokenId {
        /// The id.
        id: u32,
        /// The number of tokens.
        vocabulary: u64,
    },
    /// More tokens than the context has positions.
    #[error("the context is full: {used} + {new} tokens, and --ctx is {limit}")]
    ContextFull {
        /// Positions in use.
        used: u64,
        /// Positions asked for on top.
        new: u64,
        /// Positions there are.
        limit: u64,
    },
    /// The kernels given to the model lack one. A fault of the program.
    #[error("internal: no kernel was loaded for {role}")]
    MissingKernel {
        /// The kernel's role.
        role: String,
    },
    /// A graph asks for a weight that it did not look up in the file. A fault of the program.
    #[error("internal: the tensor at byte {start} of the file was not loaded")]
    MissingWeight {
        /// Where the tensor starts.
        start: usize,
    },
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl ModelError {
    /// Whether the file or a setting is at fault, and not the program or the machine.
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            ModelError::MissingKernel { .. } | ModelError::MissingWeight { .. } | ModelError::Device(_)
        )
    }
}
