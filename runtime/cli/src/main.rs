//! `phobos-cli`: runs a language model from a GGUF file.

use std::process::ExitCode;

use clap::CommandFactory;
use phobos_cli::{
    args::{CliArgs, Command},
    chat, exit,
    failure::Failure,
    inspect,
    options::{CliOptions, Process},
    output, parse,
};
use phobos_worker::fingerprint::version_line;

fn main() -> ExitCode {
    match parse::<CliArgs>() {
        Ok(args) => exit(run(args)),
        Err(code) => code,
    }
}

fn run(args: CliArgs) -> Result<(), Failure> {
    if args.version {
        return output::print(&format!("{}\n", version_line("phobos-cli")));
    }
    match args.command {
        Some(Command::Inspect { file, tensors, json, no_mmap }) => {
            inspect::run(&file, tensors, json, !no_mmap)
        }
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CliArgs::command(), "phobos-cli", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
        None => chat::run(&CliOptions::resolve(args, &Process)?),
    }
}
