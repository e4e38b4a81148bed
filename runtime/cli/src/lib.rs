//! `phobos-cli` and `phobos-bench`: what stands behind their `main` functions.
//!
//! Flags become [`args`] (as typed), then [`options`] (resolved). Only results go to standard
//! output; everything else goes to standard error. Exit codes: 0 done, 1 the program or the
//! machine failed, 2 the user's input or usage is at fault, 130 interrupted, 143 terminated.

pub mod args;
pub mod bench;
pub mod chat;
pub mod failure;
pub mod input;
pub mod inspect;
pub mod interrupt;
pub mod options;
pub mod output;
pub mod progress;
pub mod terminal;

use std::{process::ExitCode, sync::Arc};

use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use failure::Failure;

/// Begins a program: parses the command line as a `T`; help goes to standard output, mistakes
/// are usage errors.
pub fn parse<T: Parser>() -> Result<T, ExitCode> {
    // A caught SIGXFSZ makes a write beyond `ulimit -f` an error instead of the end.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    T::try_parse().map_err(|error| {
        if let Some(ours) = other_programs_flag(&error) {
            output::note(&format!("error: {ours}"));
            return ExitCode::from(Failure::USAGE);
        }
        // Printing fails only when there is no one to read it.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { Failure::USAGE } else { 0 })
    })
}

/// What to write for a short flag that other programs have and these do not.
fn other_programs_flag(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let ours = match flag.as_str() {
        "-m" => "--gguf",
        "-c" => "--ctx",
        _ => return None,
    };
    (error.kind() == ErrorKind::UnknownArgument).then(|| format!("unexpected argument `{flag}`: use {ours}"))
}

/// Prints what went wrong and gives the exit code.
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                output::note(&format!("error: {}", failure.message));
            }
            ExitCode::from(failure.code)
        }
    }
}
