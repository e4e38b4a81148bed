//! Loading: file, tokenizer, kernels, device, model.

use std::{path::Path, sync::Arc};

use phobos_artifact::CompileRequest;
use phobos_device::{Device, DeviceError};
use phobos_gguf::{GgufFile, OpenOptions};
use phobos_kernel_cache::CachedSource;
use phobos_models::{Architecture, Model, Settings};
use phobos_tokenizer::{AddSpecial, ChatError, ChatInput, ChatTemplate, Tokenizer};
use phobos_worker::{KernelSource, WorkerOptions, WorkerPool};

use crate::{
    EngineError, Session,
    kernels::{KernelCounts, Kernels, Meter, Metered, Progress},
    vocabulary,
};

/// How a model runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The device, as [`phobos_device::open`] takes it.
    pub device: String,
    /// Threads of the host device; `None` takes what the machine has.
    pub threads: Option<usize>,
    /// Map the file instead of reading it.
    pub mmap: bool,
    /// Context, cache and batches.
    pub settings: Settings,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { device: "host".to_owned(), threads: None, mmap: true, settings: Settings::default() }
    }
}

/// Who says something in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name that chat templates know.
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whose it is.
    pub role: Role,
    /// Its text; names of control tokens in it are ordinary text.
    pub content: String,
}

/// A model, ready to answer.
pub struct Engine {
    file: String,
    tokenizer: Tokenizer,
    template: Option<Result<ChatTemplate, ChatError>>,
    architecture: Box<dyn Architecture>,
    model: Arc<dyn Model>,
    device: Arc<dyn Device>,
    kernels: KernelCounts,
}

/// A device by name. The emulator is its own crate, which `phobos_device::open` does not
/// know.
fn open_device(name: &str, threads: Option<usize>) -> Result<Arc<dyn Device>, DeviceError> {
    if name.starts_with("emulator:") {
        let options = phobos_emulator::Options::default();
        return Ok(Arc::new(phobos_emulator::EmulatorDevice::named(name, options)?));
    }
    phobos_device::open(name, &phobos_device::OpenOptions { threads })
}

impl Engine {
    /// Loads the model at `path` on the device of `options`. Kernels come from the kernel
    /// cache, and from `phobos-compile` workers where it lacks them; `progress` is called
    /// once there is one to compile, and as weights are copied, on any thread. Where the environment asks for a
    /// manifest, the requests are recorded, and those of the other weight formats.
    ///
    /// # Errors
    /// What is wrong with the file is found before a kernel is compiled.
    pub fn load(
        path: &Path,
        options: &EngineOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Engine, EngineError> {
        let device = open_device(&options.device, options.threads)?;
        let meter = Meter::new(progress);
        let pool = WorkerPool::new(WorkerOptions::default());
        let source = CachedSource::from_environment(Metered { source: pool, meter: &meter });
        let again = |request: &CompileRequest, reason: &DeviceError| source.refused(request, reason);
        let record = |request: &CompileRequest| source.record(request);
        let record: Option<&dyn Fn(&CompileRequest)> = source.is_recording().then_some(&record);
        let kernels = Kernels { source: &source, record, again: &again, meter: &meter };
        Engine::assemble(path, options, device, &kernels)
    }

    /// Loads the model at `path` on `device`, with kernels of `source`.
    pub fn load_with(
        path: &Path,
        options: &EngineOptions,
        device: Arc<dyn Device>,
        source: &dyn KernelSource,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Engine, EngineError> {
        let meter = Meter::new(progress);
        let source = Metered { source, meter: &meter };
        let again = |request: &CompileRequest, _: &DeviceError| source.get(request);
        let kernels = Kernels { source: &source, record: None, again: &again, meter: &meter };
        Engine::assemble(path, options, device, &kernels)
    }

    fn assemble(
        path: &Path,
        options: &EngineOptions,
        device: Arc<dyn Device>,
        kernels: &Kernels<'_>,
    ) -> Result<Engine, EngineError> {
        let file = GgufFile::open(path, OpenOptions { mmap: options.mmap })?;
        let architecture = phobos_models::open(&file, &options.settings)?;
        let tokenizer = vocabulary::tokenizer(&file)?;
        let (tokens, vocabulary) = (tokenizer.vocabulary().len(), architecture.vocabulary());
        if tokens as u64 > vocabulary {
            return Err(EngineError::VocabularySize { file: file.name().to_owned(), tokens, vocabulary });
        }
        let set = kernels.load(&*architecture, &*device)?;
        let copied = |done, total| kernels.meter.copied(done, total);
        let model = architecture.load(&file, Arc::clone(&device), &set, &copied)?;
        let template = tokenizer.chat_template();
        let file = file.name().to_owned();
        let kernels = kernels.meter.counts();
        Ok(Engine { file, tokenizer, template, architecture, model, device, kernels })
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// How many kernels were compiled for this model, and how many were there.
    pub fn kernels(&self) -> KernelCounts {
        self.kernels
    }

    /// Positions of the context.
    pub fn context(&self) -> u64 {
        self.architecture.context()
    }

    /// Tokens of the model's vocabulary; it may be padded beyond the tokenizer's.
    pub fn vocabulary(&self) -> u64 {
        self.architecture.vocabulary()
    }

    /// Whether the file has a chat template; base models have none.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    /// The tokens of a conversation, up to where the model's answer begins.
    ///
    /// # Errors
    /// [`EngineError::NoChatTemplate`], and what the template says against the messages.
    pub fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>, EngineError> {
        let file = || self.file.clone();
        let template = match &self.template {
            None => return Err(EngineError::NoChatTemplate { file: file() }),
            Some(Err(source)) => return Err(EngineError::Chat { file: file(), source: source.clone() }),
            Some(Ok(template)) => template,
        };
        let messages = messages
            .iter()
            .map(|message| serde_json::json!({ "role": message.role.name(), "content": message.content }));
        let input =
            ChatInput { messages: messages.collect(), add_generation_prompt: true, ..ChatInput::default() };
        let prompt = template.render(&input).map_err(|source| EngineError::Chat { file: file(), source })?;
        Ok(self.tokenizer.encode_prompt(&prompt))
    }

    /// The tokens of `text` as a prompt of its own. Names of control tokens in it are
    /// ordinary text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, AddSpecial::Yes)
    }

    /// A session with nothing read.
    pub fn session(&self) -> Result<Session, EngineError> {
        Ok(Session::new(Arc::clone(&self.model).sequence()?))
    }
}
