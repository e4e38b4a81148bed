//! A text and the state that the model keeps of it.

use phobos_models::{Logits, Sequence};

use crate::EngineError;

/// The tokens that a model has read, and what it remembers of them.
pub struct Session {
    sequence: Box<dyn Sequence>,
    tokens: Vec<u32>,
}

impl Session {
    pub(crate) fn new(sequence: Box<dyn Sequence>) -> Session {
        Session { sequence, tokens: Vec::new() }
    }

    /// The tokens read.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Positions of the context.
    pub fn context(&self) -> u64 {
        self.sequence.context()
    }

    /// Tokens that can still be read.
    pub fn room(&self) -> u64 {
        self.context() - self.sequence.position()
    }

    /// The most tokens that the model reads at once.
    pub fn chunk(&self) -> usize {
        self.sequence.chunk() as usize
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.truncate(0);
    }

    /// Keeps the longest beginning that `prompt` shares with what was read, but at most
    /// all of `prompt` but its last token; gives its length.
    pub fn keep_prefix(&mut self, prompt: &[u32]) -> usize {
        let shared = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let kept = shared.min(prompt.len().saturating_sub(1));
        self.truncate(kept);
        kept
    }

    /// Reads `ids`; gives the logits after the last of them when `logits` is set, else nothing.
    pub fn read(&mut self, ids: &[u32], logits: bool) -> Result<Vec<f32>, EngineError> {
        let wanted = if logits { Logits::Last } else { Logits::None };
        let result = self.sequence.forward(ids, wanted);
        // After an error, what was read is what the model says was read.
        let read = (self.sequence.position() as usize).saturating_sub(self.tokens.len());
        self.tokens.extend(ids.iter().take(read));
        Ok(result?)
    }

    fn truncate(&mut self, length: usize) {
        self.sequence.truncate(length as u64);
        self.tokens.truncate(length);
    }
}
