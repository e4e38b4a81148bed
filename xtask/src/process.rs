//! Child processes: run, capture, or show and keep what they print.

use crate::error::{Error, Result};
use crate::workspace::Workspace;
use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

/// What a command printed (stdout and stderr together, by line) and whether it succeeded.
#[derive(Debug)]
pub struct Transcript {
    /// Its lines, stdout first.
    pub text: String,
    /// Whether it exited with 0.
    pub success: bool,
}

/// `cargo` in the root of the checkout, without what `cargo run` adds to the environment of xtask.
pub fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root()).args(arguments);
    // A build script that watches one of these would run again whenever xtask, not the user, calls cargo.
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The command line as a person would type it.
pub fn show(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or(&program).to_owned();
    let mut text = program;
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        text.push(' ');
        if argument.is_empty() || argument.contains([' ', '\'', '"', ';', '$']) {
            text.push_str(&format!("{argument:?}"));
        } else {
            text.push_str(&argument);
        }
    }
    text
}

/// Runs a command whose output the user sees. Its standard input is empty.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|source| Error::Spawn { command: show(command), source })?;
    if status.success() { Ok(()) } else { Err(Error::Failed { command: show(command), status }) }
}

/// Runs a command whose output is progress and no result: all of it goes to stderr.
pub fn run_aside(command: &mut Command) -> Result<()> {
    run(command.stdout(io::stderr()))
}

/// Runs a command and returns its stdout; the user sees its stderr.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Spawn { command: show(command), source })?;
    if !output.status.success() {
        return Err(Error::Failed { command: show(command), status: output.status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a command can be run and exits with 0; it prints nothing.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Runs a command, shows what it prints as it prints it (all on stderr), and keeps it.
///
/// A failure of the command is no error here: the transcript says it.
pub fn tee(command: &mut Command) -> Result<Transcript> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| Error::Spawn { command: show(command), source })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let text = thread::scope(|scope| {
        let out = scope.spawn(|| stdout.map(pass_on).unwrap_or_default());
        let err = stderr.map(pass_on).unwrap_or_default();
        let mut text = out.join().unwrap_or_default();
        text.push_str(&err);
        text
    });
    let status = child.wait().map_err(|source| Error::Spawn { command: show(command), source })?;
    Ok(Transcript { text, success: status.success() })
}

fn pass_on(stream: impl Read) -> String {
    let mut kept = String::new();
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(n) = reader.read_until(b'\n', &mut line) {
        if n == 0 {
            break;
        }
        // Nobody may be reading our stderr any more; the child must still be drained.
        io::stderr().write_all(&line).ok();
        kept.push_str(&String::from_utf8_lossy(&line));
        line.clear();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tee_keeps_both_streams_and_the_status() {
        let transcript = tee(&mut sh("echo one; echo two >&2; exit 3")).unwrap();
        assert_eq!(transcript.text, "one\ntwo\n");
        assert!(!transcript.success);
    }

    #[test]
    fn a_failed_command_is_named() {
        let error = run(&mut sh("exit 4")).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c \"exit 4\"` failed: exit status: 4");
        let error = run(&mut Command::new("/nonexistent/tool")).unwrap_err();
        assert!(error.to_string().starts_with("cannot start `tool`: "), "{error}");
    }

    #[test]
    fn capture_returns_stdout() {
        assert_eq!(capture(&mut sh("printf a")).unwrap(), "a");
        assert!(capture(&mut sh("false")).is_err());
    }
}
