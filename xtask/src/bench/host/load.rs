//! From the start of a program to the first byte of its answer, with the file in memory.

use super::Host;
use super::report::{Bar, Report};
use crate::bench::peer;
use crate::bench::start::{counts, first_byte};
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use std::path::Path;
use std::process::Command;

const PROMPT: &str = "The capital of France is";
/// Positions of the peer's context: what phobos-cli takes by itself for this model.
const CONTEXT: &str = "4096";

/// The row, measured with the most threads asked for.
pub fn rows(host: &Host<'_>, report: &mut Report) {
    let what = "SmolLM2 Q4_1, load to first token";
    report.rows(what, || {
        let threads = host.most_threads();
        let gguf = model::fetch_default(host.workspace)?;
        let program = peer::program(host.workspace, "llama-completion")?;
        // Unmeasured: the file is read from the disk, and kernels may have to be compiled.
        first_byte(&mut ours(host, &gguf, threads))?;
        first_byte(&mut theirs(&program, &gguf, threads))?;
        let turns = host.turns(
            what,
            threads,
            || seconds_of_ours(&mut ours(host, &gguf, threads)).map(|seconds| seconds * 1e3),
            || first_byte(&mut theirs(&program, &gguf, threads)).map(|start| start.seconds * 1e3),
        )?;
        Ok(vec![turns.row(what, "ms", &format!("{}, llama-completion", peer::NAME), Some(Bar::AtMost(1.0)))])
    });
    report.remark(format!(
        "Load to first token: from the start of `phobos-cli --raw -n 1 -t 0`, its kernels cached, and of \
         `llama-completion -n 1 --no-warmup -c {CONTEXT}` to the first byte of the answer, the file in memory."
    ));
}

fn ours(host: &Host<'_>, gguf: &Path, threads: usize) -> Command {
    let mut command = Command::new(host.program("phobos-cli"));
    command.arg("--gguf").arg(gguf).args(["--raw", "-n", "1", "-t", "0", "--threads", &threads.to_string()]);
    command.args(&host.options.ours).arg(PROMPT);
    command
}

/// Without the run to warm up that llama.cpp makes by default, since it would only delay the answer.
fn theirs(program: &Path, gguf: &Path, threads: usize) -> Command {
    let mut command = Command::new(program);
    command.arg("-m").arg(gguf).args(["-n", "1", "--temp", "0", "-t", &threads.to_string(), "-c", CONTEXT]);
    command.args(["-no-cnv", "--no-display-prompt", "--no-warmup", "-p", PROMPT]);
    command
}

fn seconds_of_ours(command: &mut Command) -> Result<f64> {
    let start = first_byte(command)?;
    match counts(&start.stderr) {
        Some((0, _)) => Ok(start.seconds),
        _ => {
            Err(Error::Output { command: process::show(command), expected: "0 compiled kernels".to_owned() })
        }
    }
}
