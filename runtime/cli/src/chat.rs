//! Answers: one, or a conversation.

use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
};

use phobos_engine::{
    Engine, EngineError, Finish, GenerateParams, Message, Piece, Role, Session, Stats, generate,
};

use crate::{
    failure::Failure,
    input, interrupt,
    options::CliOptions,
    output::{self, Written},
    progress::Reporter,
    terminal,
};

/// Loads the model and answers.
pub fn run(options: &CliOptions) -> Result<(), Failure> {
    // What cannot be asked is found before the model is loaded.
    let prompt = if options.lines { None } else { input::prompt(options.prompt.as_deref())? };
    if options.raw && prompt.is_none() {
        return Err(Failure::usage("--raw needs a PROMPT: a conversation follows the chat template"));
    }
    interrupt::install()?;
    let reporter = Reporter::default();
    let device = options.place.open()?;
    let engine = Engine::load(&options.gguf, &options.engine, device, &|progress| reporter.report(progress))
        .map_err(|error| {
            reporter.clear();
            Failure::of_loading(error, &options.place.device)
        })?;
    reporter.loaded(engine.kernels());
    for warning in engine.warnings() {
        output::note(&format!("warning: {warning}"));
    }
    match prompt {
        Some(prompt) => once(&engine, &prompt, options),
        None => Conversation::new(&engine, options)?.run(),
    }
}

/// Answers one prompt.
fn once(engine: &Engine, prompt: &str, options: &CliOptions) -> Result<(), Failure> {
    let raw = options.raw || !engine.has_chat_template();
    let tokens = if raw {
        if !options.raw {
            output::note("note: the file has no chat template; the prompt is taken as it is");
        }
        engine.encode(prompt)
    } else {
        engine.encode_chat(&[user(prompt)])?
    };
    let mut session = engine.session()?;
    let answer = answer(engine, &mut session, &tokens, &options.generate)?;
    match interrupt::pressed() {
        Some(signal) if answer.finish == Finish::Cancelled => Err(signal),
        _ => Ok(()),
    }
}

fn user(text: &str) -> Message {
    Message { role: Role::User, content: text.to_owned() }
}

const HELP: &str = "\
/reset  starts a new conversation
/drop   forgets the oldest question and its answer
/exit   ends, as Ctrl-D does
Any other text is said to the model; what is pasted is one turn.";

/// Questions and answers.
struct Conversation<'a> {
    engine: &'a Engine,
    options: &'a CliOptions,
    session: Session,
    messages: Vec<Message>,
    /// Whether it is typed, and its commands are known.
    is_typed: bool,
    /// Turns that had no answer.
    failed: usize,
}

impl<'a> Conversation<'a> {
    fn new(engine: &'a Engine, options: &'a CliOptions) -> Result<Conversation<'a>, Failure> {
        if !engine.has_chat_template() {
            let problem = "no chat template, so no conversation: give a PROMPT";
            return Err(Failure::usage(format!("{}: {problem}", engine.file())));
        }
        let session = engine.session()?;
        let is_typed = io::stdin().is_terminal();
        Ok(Conversation { engine, options, session, messages: Vec::new(), is_typed, failed: 0 })
    }

    /// Answers turn after turn, until the end of the input.
    fn run(mut self) -> Result<(), Failure> {
        let _marks = self.is_typed.then(terminal::Marks::ask);
        if self.is_typed {
            output::note("/help lists the commands, Ctrl-D ends.");
        }
        let mut turns = if self.is_typed { input::typed() } else { input::lines() };
        loop {
            if self.is_typed {
                let _ = write!(io::stderr(), "> ").and_then(|()| io::stderr().flush());
            }
            let Some(turn) = turns.read()? else {
                if self.is_typed {
                    output::note("");
                }
                break;
            };
            let flow = match turn {
                Ok(text) => self.turn(&text)?,
                Err(bytes) => self.fail(Failure::from(bytes))?,
            };
            if flow.is_break() {
                break;
            }
        }
        match self.failed {
            // Whoever types has read what was wrong.
            0 => Ok(()),
            _ if self.is_typed => Ok(()),
            failed => Err(Failure::usage(format!("turns without an answer: {failed}"))),
        }
    }

    /// Does what a turn says.
    fn turn(&mut self, text: &str) -> Result<ControlFlow<()>, Failure> {
        match text.trim() {
            "" => return Ok(ControlFlow::Continue(())),
            "/exit" => return Ok(ControlFlow::Break(())),
            "/help" => output::note(HELP),
            "/reset" => {
                self.session.reset();
                self.messages.clear();
            }
            "/drop" if self.drop_oldest() => {}
            "/drop" => output::note("note: there is nothing to forget"),
            _ => return self.ask(text),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn ask(&mut self, text: &str) -> Result<ControlFlow<()>, Failure> {
        self.messages.push(user(text));
        let mut dropped = 0;
        let result = loop {
            let result = self.answer();
            match result {
                Err(Unanswered::TooLong(_)) if self.options.drop_oldest && self.drop_oldest() => dropped += 1,
                result => break result,
            }
        };
        if dropped > 0 {
            output::note(&format!("note: the oldest turns were dropped ({dropped}): the context is full"));
        }
        match result {
            Ok(answer) => {
                self.messages.push(Message { role: Role::Assistant, content: answer.text });
                if let Some(signal) = interrupt::terminated() {
                    return Err(signal);
                }
                let reader_is_gone = answer.finish == Finish::Cancelled && interrupt::pressed().is_none();
                Ok(if reader_is_gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }
            Err(unanswered) => {
                self.messages.pop();
                let advice = match unanswered {
                    Unanswered::TooLong(_) if !self.messages.is_empty() => {
                        ": /reset starts a new conversation, /drop forgets the oldest turn, and \
                         --drop-oldest does so when it must"
                    }
                    _ => "",
                };
                let (Unanswered::TooLong(mut failure) | Unanswered::Other(mut failure)) = unanswered;
                failure.message.push_str(advice);
                self.fail(failure)
            }
        }
    }

    fn answer(&mut self) -> Result<Answer, Unanswered> {
        let tokens = self.engine.encode_chat(&self.messages)?;
        let (found, context) = (tokens.len() as u64, self.session.context());
        // Without a position after the prompt there is an answer of one token.
        if self.options.drop_oldest && self.messages.len() > 1 && found == context {
            return Err(EngineError::PromptTooLong { tokens: found, context }.into());
        }
        Ok(answer(self.engine, &mut self.session, &tokens, &self.options.generate)?)
    }

    /// Forgets the oldest question and its answer; the question that has none yet stays.
    fn drop_oldest(&mut self) -> bool {
        let answered = self.messages.len() > 1;
        if answered {
            self.messages.drain(..2);
        }
        answered
    }

    /// Says what was wrong with a turn: the next may do right.
    fn fail(&mut self, failure: Failure) -> Result<ControlFlow<()>, Failure> {
        if failure.code != Failure::USAGE {
            return Err(failure);
        }
        output::note(&format!("error: {}", failure.message));
        self.failed += 1;
        Ok(ControlFlow::Continue(()))
    }
}

/// Why a turn has no answer.
enum Unanswered {
    /// The conversation does not fit the context.
    TooLong(Failure),
    Other(Failure),
}

impl From<EngineError> for Unanswered {
    fn from(error: EngineError) -> Unanswered {
        match error.is_full_context() {
            true => Unanswered::TooLong(error.into()),
            false => Unanswered::Other(error.into()),
        }
    }
}

impl From<Unfinished> for Unanswered {
    fn from(unfinished: Unfinished) -> Unanswered {
        match unfinished {
            Unfinished::Engine(error) => error.into(),
            Unfinished::Output(failure) => Unanswered::Other(failure),
        }
    }
}

/// What ended an answer in the middle.
enum Unfinished {
    Engine(EngineError),
    Output(Failure),
}

impl From<EngineError> for Unfinished {
    fn from(error: EngineError) -> Unfinished {
        Unfinished::Engine(error)
    }
}

impl From<Failure> for Unfinished {
    fn from(failure: Failure) -> Unfinished {
        Unfinished::Output(failure)
    }
}

impl From<Unfinished> for Failure {
    fn from(unfinished: Unfinished) -> Failure {
        match unfinished {
            Unfinished::Engine(error) => error.into(),
            Unfinished::Output(failure) => failure,
        }
    }
}

struct Answer {
    text: String,
    finish: Finish,
}

/// Generates to standard output, then says on standard error what it took.
fn answer(
    engine: &Engine,
    session: &mut Session,
    prompt: &[u32],
    params: &GenerateParams,
) -> Result<Answer, Unfinished> {
    let mut text = String::new();
    let mut failure = None;
    let mut take = |piece: Piece<'_>| {
        text.push_str(piece.text);
        match output::write(piece.text) {
            Ok(Written::Yes) => return ControlFlow::Continue(()),
            Ok(Written::NoReader) => {}
            Err(error) => failure = Some(error),
        }
        ControlFlow::Break(())
    };
    let result =
        interrupt::while_answering(|cancel| generate(engine, session, prompt, params, cancel, &mut take));
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    // The newline ends what was printed, also before an error.
    let ended = if text.is_empty() { Written::Yes } else { output::write("\n")? };
    let (finish, stats) = result?;
    if ended == Written::Yes {
        output::note(&summary(finish, &stats, params));
    }
    Ok(Answer { text, finish })
}

fn summary(finish: Finish, stats: &Stats, params: &GenerateParams) -> String {
    let reused = match stats.reused_tokens {
        0 => String::new(),
        tokens => format!(" ({tokens} known)"),
    };
    let seed = match params.sampling.temperature {
        0.0 => String::new(),
        _ => format!(", seed {}", params.sampling.seed),
    };
    let end = match finish {
        Finish::EndOfText => "",
        Finish::MaxTokens => ", cut at --num",
        Finish::ContextFull => ", cut at the end of the context (--ctx)",
        Finish::Cancelled => ", stopped",
    };
    format!(
        "prompt {} tokens{reused} {:.1} tokens/s, answer {} tokens {:.1} tokens/s{seed}{end}",
        stats.prompt_tokens,
        stats.prefill_rate(),
        stats.answer_tokens,
        stats.decode_rate(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_summary_says_what_a_run_took() {
        let stats = Stats {
            prompt_tokens: 30,
            reused_tokens: 10,
            prefill: Duration::from_millis(500),
            answer_tokens: 9,
            decoded_tokens: 8,
            decode: Duration::from_secs(2),
        };
        let mut params = GenerateParams::default();
        params.sampling.seed = 7;
        assert_eq!(
            summary(Finish::MaxTokens, &stats, &params),
            "prompt 30 tokens (10 known) 40.0 tokens/s, answer 9 tokens 4.0 tokens/s, seed 7, cut at --num"
        );
        params.sampling.temperature = 0.0;
        let stats = Stats { reused_tokens: 0, ..stats };
        assert_eq!(
            summary(Finish::EndOfText, &stats, &params),
            "prompt 30 tokens 60.0 tokens/s, answer 9 tokens 4.0 tokens/s"
        );
    }
}
