//! The loop: read the prompt, then sample and read token by token.

use std::{
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use phobos_tokenizer::StreamDecoder;

use crate::{
    Engine, EngineError, Session,
    sampler::{Sampler, SamplingParams},
};

/// What to generate.
#[derive(Clone, Debug, Default)]
pub struct GenerateParams {
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// The most tokens of the answer; `None` stops at the end of the context.
    pub max_tokens: Option<u64>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    EndOfText,
    /// It has as many tokens as were asked for.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// It was cancelled, or whoever takes the tokens wanted no more.
    Cancelled,
}

/// What an answer took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, tokens that the session still knew.
    pub reused_tokens: usize,
    /// The time for reading the others.
    pub prefill: Duration,
    /// Tokens of the answer, the one that ended it included.
    pub answer_tokens: usize,
    /// Tokens of the answer that were read again to get the next.
    pub decoded_tokens: usize,
    /// The time for these.
    pub decode: Duration,
}

impl Stats {
    /// Prompt tokens read per second; 0 when none were.
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prompt_tokens - self.reused_tokens, self.prefill)
    }

    /// Answer tokens per second; 0 for an answer of one token.
    pub fn decode_rate(&self) -> f64 {
        rate(self.decoded_tokens, self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if tokens == 0 { 0.0 } else { tokens as f64 / time.as_secs_f64().max(1e-9) }
}

/// A token of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its id.
    pub id: u32,
    /// The characters that it completes, often none.
    pub text: &'a str,
}

/// Answers `prompt`, the whole text so far: what `session` shares with it is not read
/// again. `on_token` gets each token as it is chosen; control tokens have no text. The token
/// that ends the answer is not given to it and not read. Of a character that the end cuts
/// nothing is given.
///
/// `cancel` is looked at before each token and each chunk of the prompt.
///
/// # Errors
/// Also when the prompt is empty or longer than the context. After an error the session
/// knows what was read and can be used on.
pub fn generate(
    engine: &Engine,
    session: &mut Session,
    prompt: &[u32],
    params: &GenerateParams,
    cancel: &AtomicBool,
    on_token: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
) -> Result<(Finish, Stats), EngineError> {
    let (tokens, context) = (prompt.len() as u64, session.context());
    if tokens > context {
        return Err(EngineError::PromptTooLong { tokens, context });
    }
    let mut sampler = Sampler::new(params.sampling.clone(), prompt)?;
    let vocabulary = engine.tokenizer().vocabulary();
    let mut decoder = StreamDecoder::new(true);

    let start = Instant::now();
    let reused_tokens = session.keep_prefix(prompt);
    let mut stats = Stats {
        prompt_tokens: prompt.len(),
        reused_tokens,
        prefill: Duration::ZERO,
        answer_tokens: 0,
        decoded_tokens: 0,
        decode: Duration::ZERO,
    };
    let new = prompt.get(reused_tokens..).unwrap_or_default();
    let mut logits = None;
    let mut chunks = new.chunks(session.chunk().max(1)).peekable();
    while let Some(chunk) = chunks.next() {
        if cancel.load(Ordering::Relaxed) {
            stats.prompt_tokens = session.tokens().len();
            stats.prefill = start.elapsed();
            return Ok((Finish::Cancelled, stats));
        }
        logits = Some(session.read(chunk, chunks.peek().is_none())?);
    }
    let mut logits = logits.ok_or(EngineError::EmptyPrompt)?;
    stats.prefill = start.elapsed();

    let start = Instant::now();
    let finish = loop {
        if params.max_tokens.is_some_and(|most| stats.answer_tokens as u64 >= most) {
            break Finish::MaxTokens;
        }
        if cancel.load(Ordering::Relaxed) {
            break Finish::Cancelled;
        }
        let id = sampler.sample(&logits)?;
        stats.answer_tokens += 1;
        if vocabulary.is_end_of_generation(id) {
            break Finish::EndOfText;
        }
        let text = decoder.push(vocabulary, id);
        if on_token(Piece { id, text: &text }).is_break() {
            break Finish::Cancelled;
        }
        if params.max_tokens.is_some_and(|most| stats.answer_tokens as u64 >= most) {
            break Finish::MaxTokens;
        }
        if session.room() == 0 {
            break Finish::ContextFull;
        }
        logits = session.read(&[id], true)?;
        stats.decoded_tokens += 1;
    };
    stats.decode = start.elapsed();
    Ok((finish, stats))
}
