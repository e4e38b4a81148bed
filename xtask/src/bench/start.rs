//! A program from its start to the first byte that it prints.

use crate::error::{Error, Result};
use crate::process;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

/// When the first byte came, and what the program had to say beside.
#[derive(Debug)]
pub struct FirstByte {
    pub seconds: f64,
    pub stderr: String,
}

/// Runs a command to its end; the time is that to its first byte on stdout.
pub fn first_byte(command: &mut Command) -> Result<FirstByte> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child =
        command.spawn().map_err(|source| Error::Spawn { command: process::show(command), source })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (seconds, stderr) = thread::scope(|scope| {
        // Read meanwhile, or a program that has much to say would wait for it.
        let stderr = scope.spawn(move || {
            let mut text = Vec::new();
            stderr.map(|mut stream| stream.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let seconds = stdout.and_then(|mut stdout| {
            let mut byte = [0];
            stdout.read_exact(&mut byte).ok()?;
            let seconds = begin.elapsed().as_secs_f64();
            // The rest is nothing to anyone, but a program whose output is closed may call that a failure.
            stdout.read_to_end(&mut Vec::new()).ok()?;
            Some(seconds)
        });
        (seconds, stderr.join().unwrap_or_default())
    });
    let status = child.wait().map_err(|source| Error::Spawn { command: process::show(command), source })?;
    match seconds {
        Some(seconds) if status.success() => Ok(FirstByte { seconds, stderr }),
        _ => {
            eprint!("{stderr}");
            let command = process::show(command);
            Err(match status.success() {
                true => Error::Output { command, expected: "an answer".to_owned() },
                false => Error::Failed { command, status },
            })
        }
    }
}

/// Out of `kernels: 15 compiled, 0 cached`.
pub fn counts(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.strip_prefix("kernels: "))?;
    let (compiled, cached) = line.split_once(" compiled, ")?;
    Some((compiled.parse().ok()?, cached.strip_suffix(" cached")?.parse().ok()?))
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
    fn the_first_byte_and_what_stands_beside() {
        let start = first_byte(&mut sh("echo beside >&2; echo answer")).unwrap();
        assert_eq!(start.stderr, "beside\n");
        assert!(start.seconds > 0.0);
        // More beside than a pipe holds, before the answer.
        let much = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done";
        assert_eq!(first_byte(&mut sh(&format!("{much}; echo x"))).unwrap().stderr.len(), 3000 * 41);
    }

    #[test]
    fn no_answer_and_a_failure_are_told_apart() {
        assert!(matches!(first_byte(&mut sh("true")), Err(Error::Output { .. })));
        assert!(matches!(first_byte(&mut sh("echo x; exit 3")), Err(Error::Failed { .. })));
        assert!(matches!(first_byte(&mut Command::new("/nonexistent/x")), Err(Error::Spawn { .. })));
    }

    #[test]
    fn how_many_kernels_were_compiled() {
        assert_eq!(counts("warning: x\nkernels: 15 compiled, 2 cached\nprompt 3\n"), Some((15, 2)));
        assert_eq!(counts("kernels: many compiled, 2 cached\n"), None);
    }
}
