//! `phobos-cache`: fills, shows and empties the kernel cache.
//!
//! Results go to stdout, everything else to stderr. Exit code 0: done; 2: the command
//! line is wrong; 1: something failed.

mod args;
mod list;
mod output;
mod pattern;
mod ptxas;
mod remove;
mod warm;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{CommandFactory, Parser};
use phobos_kernel_cache::{CacheOptions, Store, StoreError, fs::RealFileSystem, options::DIRECTORY_VARIABLE};

use args::{Arguments, Command};

/// Why a command did not do all that it was asked.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Something could not be done.
    #[error("{0}")]
    Failed(String),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stdout cannot be written.
    #[error("stdout: {0}")]
    Output(#[from] io::Error),
    /// Something could not be done, and that was said already.
    #[error("some kernels failed")]
    Reported,
}

fn main() -> ExitCode {
    // A caught SIGXFSZ makes a write beyond `ulimit -f` an error instead of the end.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let arguments = Arguments::parse();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let result = run(arguments.command, &mut out).and_then(|()| Ok(out.flush()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough, as `head` does.
        Err(ToolError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(ToolError::Reported) => {
            // What was done is still to be told.
            let _ = out.flush();
            ExitCode::FAILURE
        }
        Err(error) => {
            let _ = out.flush();
            eprintln!("error: {error}");
            ExitCode::from(if matches!(error, ToolError::Usage(_)) { 2 } else { 1 })
        }
    }
}

fn run(command: Command, out: &mut dyn Write) -> Result<(), ToolError> {
    match command {
        Command::Warm(arguments) => warm::run(arguments, out),
        Command::List(arguments) => list::run(arguments, out),
        Command::Clear(arguments) => remove::clear(arguments, out),
        Command::Prune(arguments) => remove::prune(arguments, out),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "phobos-cache", out);
            Ok(())
        }
    }
}

/// The store that is written: the one given, else the one of the environment.
fn writable(directory: Option<PathBuf>) -> Result<Store, ToolError> {
    let directory = match directory {
        Some(directory) => directory,
        None => {
            let (options, warnings) = CacheOptions::from_environment();
            options.writable.ok_or_else(|| {
                let why = warnings.first().map_or_else(
                    || format!("kernel cache: it is turned off ({DIRECTORY_VARIABLE} is empty)"),
                    ToString::to_string,
                );
                ToolError::Failed(format!("{why}; give --dir"))
            })?
        }
    };
    Ok(Store::new(Arc::new(RealFileSystem), directory))
}
