//! `cargo xtask demo`: from a bare system to a model's answer.

use crate::binaries;
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::note;
use crate::setup;
use crate::workspace::Workspace;
use std::os::unix::process::CommandExt;
use std::process::Command;

const QUESTION: &str = "What is the capital of France?";

/// Sets up, builds, fetches the model, and asks it the first argument or a standing question.
///
/// Returns only on failure: on success the process has become phobos-cli, so that Ctrl-C and the exit code
/// are its own.
pub fn demo(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let question = match arguments {
        [] => QUESTION,
        [question] if !question.starts_with('-') => question,
        _ => return Err(Error::Usage("demo takes at most one argument, a question".to_owned())),
    };
    setup::ensure(&[setup::COMPILER, model::needs(workspace)])?;
    binaries::build(workspace)?;
    let model = model::fetch_default(workspace)?;
    let mut cli = Command::new(workspace.bin().join("phobos-cli"));
    cli.arg("--gguf").arg(model).arg(question).args(["-n", "48", "-t", "0"]).current_dir(workspace.root());
    note(&process::show(&cli));
    let command = process::show(&cli);
    Err(Error::Spawn { command, source: cli.exec() })
}
