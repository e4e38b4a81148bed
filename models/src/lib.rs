//! Forward passes, one file per architecture, and the kernels they launch.
//!
//! [`open`] understands a GGUF file and gives an [`Architecture`]: which kernels the model
//! needs ([`Architecture::requests`], a pure function of file and settings), and how to
//! put it on a device. A loaded [`Model`] starts [`Sequence`]s; [`Sequence::forward`] reads
//! tokens and gives logits. Every operation on the device is a Phobos kernel.
//!
//! To add an architecture: a file with its graph, an entry in [`open`], and where it
//! needs new operations, a kernel under `kernels/` with its [`kernels::Role`] and its
//! struct in `ops`.

mod attention;
mod config;
mod error;
mod gemma3;
pub mod kernels;
mod layer;
mod llama;
mod ops;
mod rope;
mod sequence;
mod weights;

use std::sync::Arc;

use phobos_artifact::{Chip, CompileRequest, DType};
use phobos_device::Device;
use phobos_gguf::GgufFile;

pub use config::Dims;
pub use error::ModelError;
pub use gemma3::{Gemma3Config, Gemma3File, Sliding};
use kernels::{KernelSet, Role};
pub use llama::{LlamaConfig, LlamaFile};
pub use rope::RopeConfig;

/// What a user chooses about how a model runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Positions of the context; `None` takes the model's own, at most
    /// [`Settings::DEFAULT_CONTEXT`].
    pub context: Option<u64>,
    /// Element of the key/value cache: `f16` or `f32`.
    pub kv: DType,
    /// The most tokens that run through the layers at once.
    pub chunk: u64,
    /// Precision of activations in products with quantised weights.
    pub activations: Activations,
}

/// Precision of activations in products with quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activations {
    /// f32: weights are decoded exactly.
    F32,
    /// Blocks of integers with a scale: 16 bits when decoding, 8 when reading a prompt. Only
    /// where all weights that an input is multiplied with are of a block format; other inputs
    /// stay f32.
    Q8,
}

impl Activations {
    /// The name, as `--act` has it.
    pub fn name(self) -> &'static str {
        match self {
            Activations::F32 => "f32",
            Activations::Q8 => "q8",
        }
    }
}

impl Settings {
    /// The largest context that is taken unasked.
    pub const DEFAULT_CONTEXT: u64 = 4096;
    /// The largest chunk.
    pub const MAX_CHUNK: u64 = 4096;

    fn validate(&self) -> Result<(), ModelError> {
        let error = |message: String| Err(ModelError::Setting(message));
        if !matches!(self.kv, DType::F16 | DType::F32) {
            return error(format!("--kv {}: expected f16 or f32", self.kv));
        }
        if self.chunk == 0 || self.chunk > Settings::MAX_CHUNK {
            return error(format!("chunks of {} tokens: expected 1 to {}", self.chunk, Settings::MAX_CHUNK));
        }
        Ok(())
    }

    /// The positions of the context for a model that was trained on `trained`.
    fn context(&self, trained: u64) -> Result<u64, ModelError> {
        let context = self.context.unwrap_or(trained.min(Settings::DEFAULT_CONTEXT));
        if context == 0 || context > trained {
            return Err(ModelError::Setting(format!(
                "--ctx {context}: the model has 1 to {trained} positions"
            )));
        }
        Ok(context)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { context: None, kv: DType::F16, chunk: 256, activations: Activations::F32 }
    }
}

/// A model file understood.
pub trait Architecture: Send + Sync {
    /// The name, as `general.architecture` has it.
    fn name(&self) -> &'static str;

    /// Positions of the context.
    fn context(&self) -> u64;

    /// Tokens of the vocabulary.
    fn vocabulary(&self) -> u64;

    /// The kernels that the model needs, each once. Follows from the file and the
    /// settings alone, never from the chip.
    fn roles(&self) -> &[Role];

    /// The compile requests of [`Architecture::roles`], in the same order, for `chip`.
    fn requests(&self, chip: Chip) -> Vec<CompileRequest> {
        self.roles().iter().map(|role| role.request(chip)).collect()
    }

    /// What the file says that the graph does not know, each a line without the file's name.
    fn warnings(&self) -> &[String];

    /// What the user chose.
    fn settings(&self) -> &Settings;

    /// The requests for `chip` that files of this shape with other weights would add: each
    /// kernel for weights in every element. Some are the model's own.
    fn requests_of_every_format(&self, chip: Chip) -> Vec<CompileRequest> {
        let mut roles = kernels::RoleSet::default();
        for role in self.roles() {
            kernels::weight_elements()
                .filter_map(|element| role.with_weights(element, self.settings()))
                .for_each(|r| roles.add(r));
        }
        roles.roles().iter().map(|role| role.request(chip)).collect()
    }

    /// Puts the model on `device`. Matrices of scalars are imported from the file's bytes: the
    /// host aliases them, other devices copy. Matrices of a block format are reordered into
    /// the device layout, and vectors copied; where nothing is aliased the file may be closed
    /// then. `kernels` holds every role. `progress` gets the bytes of weights copied and to be
    /// copied, on any thread.
    fn load(
        &self,
        file: &GgufFile,
        device: Arc<dyn Device>,
        kernels: &KernelSet,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Arc<dyn Model>, ModelError>;
}

/// Understands `file`. Errors name the key or tensor at fault.
pub fn open(file: &GgufFile, settings: &Settings) -> Result<Box<dyn Architecture>, ModelError> {
    settings.validate()?;
    match config::architecture(file)? {
        "llama" => Ok(Box::new(LlamaFile::new(file, settings)?)),
        "gemma3" => Ok(Box::new(Gemma3File::new(file, settings)?)),
        name => Err(ModelError::Architecture {
            file: file.name().to_owned(),
            name: name.escape_debug().to_string(),
            known: "llama or gemma3",
        }),
    }
}

/// A model on a device.
pub trait Model: Send + Sync {
    /// An empty sequence, with memory for the whole context.
    fn sequence(self: Arc<Self>) -> Result<Box<dyn Sequence>, ModelError>;
}

/// Which rows of a batch need logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// None.
    None,
    /// That of the last token.
    Last,
    /// Every token's.
    All,
}

/// A text being read and written: the state that a model keeps of it.
pub trait Sequence: Send {
    /// Tokens read so far.
    fn position(&self) -> u64;

    /// Tokens that can be read altogether.
    fn context(&self) -> u64;

    /// The most tokens that run through the layers at once.
    fn chunk(&self) -> u64;

    /// Forgets the tokens from `position` on.
    fn truncate(&mut self, position: u64);

    /// Reads `ids`; gives the logits asked for, row after row of
    /// [`Architecture::vocabulary`] values.
    ///
    /// # Errors
    /// Nothing was read when an id is outside the vocabulary or the context is too short.
    /// After an error of the device the tokens of complete chunks are read.
    fn forward(&mut self, ids: &[u32], logits: Logits) -> Result<Vec<f32>, ModelError>;
}
