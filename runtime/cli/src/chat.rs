//! Answers: one, or a conversation.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    ops::ControlFlow,
};

use phobos_engine::{Engine, Finish, GenerateParams, Message, Piece, Role, Session, Stats, generate};

use crate::{
    failure::Failure,
    interrupt,
    options::CliOptions,
    output::{self, Written},
    progress::Reporter,
};

/// Loads the model and answers.
pub fn run(options: &CliOptions) -> Result<(), Failure> {
    interrupt::install()?;
    let reporter = Reporter::default();
    let engine = Engine::load(&options.gguf, &options.engine, &|progress| reporter.report(progress))
        .inspect_err(|_| reporter.clear())?;
    reporter.loaded(engine.kernels());
    match &options.prompt {
        Some(prompt) => once(&engine, prompt, options),
        None => conversation(&engine, options),
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
    match answer.finish {
        Finish::Cancelled if interrupt::pressed() => Err(Failure::interrupted()),
        _ => Ok(()),
    }
}

fn user(text: &str) -> Message {
    Message { role: Role::User, content: text.to_owned() }
}

/// Reads lines and answers each, until the end of the input.
fn conversation(engine: &Engine, options: &CliOptions) -> Result<(), Failure> {
    if !engine.has_chat_template() {
        let file = engine.file();
        return Err(Failure::usage(format!("{file}: no chat template, so no conversation: give a PROMPT")));
    }
    let terminal = io::stdin().is_terminal();
    if terminal {
        output::note("/reset starts a new conversation, /exit or Ctrl-D ends.");
    }
    let mut session = engine.session()?;
    let mut messages: Vec<Message> = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        if terminal {
            let _ = write!(io::stderr(), "> ").and_then(|()| io::stderr().flush());
        }
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) => {
                if terminal {
                    output::note("");
                }
                return Ok(());
            }
            Ok(_) => {}
            Err(error) => return Err(Failure::usage(format!("standard input: {error}"))),
        }
        match line.trim() {
            "" => continue,
            "/exit" => return Ok(()),
            "/reset" => {
                session.reset();
                messages.clear();
                continue;
            }
            text if text.starts_with('/') => {
                output::note(&format!("error: unknown command `{text}`: /reset and /exit are known"));
                continue;
            }
            text => messages.push(user(text)),
        }
        let result = engine
            .encode_chat(&messages)
            .map_err(Failure::from)
            .and_then(|tokens| answer(engine, &mut session, &tokens, &options.generate));
        match result {
            Ok(Answer { finish: Finish::Cancelled, .. }) if !interrupt::pressed() => return Ok(()),
            Ok(answer) => messages.push(Message { role: Role::Assistant, content: answer.text }),
            // What this turn did wrong (too long, say) the next may do right.
            Err(failure) if failure.code == Failure::USAGE => {
                output::note(&format!("error: {}", failure.message));
                messages.pop();
            }
            Err(failure) => return Err(failure),
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
) -> Result<Answer, Failure> {
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
        return Err(failure);
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
