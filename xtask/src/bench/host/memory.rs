//! The most memory that a run of Phobos has in use, the pages of the mapped file included.

use super::Host;
use super::file::File;
use super::report::{Bar, Report, Row};
use crate::bench::{json_number, median};
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::note;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Positions of the context, all of which phobos-bench fills.
const CONTEXT: u32 = 512;
/// What a run may take beside the file and the keys and values: programs, kernels, activations, logits.
const ALLOWANCE: f64 = 60e6;
const PROMPT: &str = "The capital of France is";

/// For both models, of both programs.
pub fn rows(host: &Host<'_>, report: &mut Report) {
    let models: [(&str, &dyn Fn() -> Result<PathBuf>); 2] = [
        ("SmolLM2 Q4_1", &|| model::fetch_default(host.workspace)),
        ("gemma3-270m Q4_K_M", &|| model::fetch_gemma3(host.workspace)),
    ];
    for (name, fetch) in models {
        let subject = || {
            let gguf = fetch()?;
            let file = File::inspect(host, &gguf)?;
            Ok((gguf, file))
        };
        let Some((gguf, file)) = report.have(&format!("memory, {name}"), subject) else { continue };
        let programs: [(&str, &dyn Fn() -> Result<f64>); 2] =
            [("phobos-cli", &|| of_cli(host, &gguf)), ("phobos-bench", &|| of_bench(host, &gguf))];
        for (program, peak) in programs {
            let what = format!("{name}, peak of resident memory, {program}");
            report.rows(&what, || {
                let runs = (1..=host.options.runs).map(|run| {
                    note(&format!("{what}, run {run} of {}", host.options.runs));
                    peak()
                });
                let bytes = runs.collect::<Result<Vec<f64>>>()?;
                Ok(vec![row(&what, host.most_threads(), &bytes, bound(&file, &host.options.ours))])
            });
        }
    }
    report.remark(format!(
        "Memory: `phobos-cli -n 64` and `phobos-bench` with a prompt of {CONTEXT} tokens, each with a context of \
         {CONTEXT} positions; the pages of the mapped file count. MB are 10^6 bytes."
    ));
}

fn row(what: &str, threads: usize, bytes: &[f64], bound: f64) -> Row {
    Row {
        what: what.to_owned(),
        threads: Some(threads),
        unit: "MB",
        ours: bytes.iter().map(|bytes| bytes / 1e6).collect(),
        peer: format!("file + KV cache + {:.0} MB", ALLOWANCE / 1e6),
        theirs: vec![bound / 1e6],
        ratio: median(bytes) / bound,
        bar: Some(Bar::AtMost(1.0)),
        peak: None,
        disturbed: false,
    }
}

/// What a run may have in use.
fn bound(file: &File, ours: &[String]) -> f64 {
    let wide = ours.windows(2).any(|words| words == ["--kv", "f32"]) || ours.iter().any(|w| w == "--kv=f32");
    let kept = file.kept_per_position * f64::from(CONTEXT) * if wide { 2.0 } else { 1.0 };
    file.bytes + kept + ALLOWANCE
}

fn command(host: &Host<'_>, program: &str, gguf: &Path) -> Command {
    let mut command = Command::new(host.program(program));
    command.arg("--gguf").arg(gguf).args(["--threads", &host.most_threads().to_string()]);
    command.args(["--ctx", &CONTEXT.to_string()]).args(&host.options.ours);
    command
}

/// phobos-bench says it itself.
fn of_bench(host: &Host<'_>, gguf: &Path) -> Result<f64> {
    let mut command = command(host, "phobos-bench", gguf);
    command.args(["--prompt-tokens", &CONTEXT.to_string(), "--gen-tokens", "64", "--repeat", "1", "--json"]);
    let text = process::capture(&mut command)?;
    json_number(&text, "peak_resident_bytes").ok_or_else(|| Error::Output {
        command: process::show(&command),
        expected: "peak_resident_bytes".to_owned(),
    })
}

fn of_cli(host: &Host<'_>, gguf: &Path) -> Result<f64> {
    watch(command(host, "phobos-cli", gguf).args(["--raw", "-n", "64", "-t", "0", PROMPT]))
}

/// Runs a command to its end, and reads its mark of most memory again and again: it only rises, so what is read
/// last is what matters, and it is gone when the process is.
fn watch(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|source| Error::Spawn { command: process::show(command), source })?;
    let stderr = child.stderr.take();
    let (bytes, text) = thread::scope(|scope| {
        let text = scope.spawn(move || {
            let mut text = String::new();
            stderr.map(|mut stream| stream.read_to_string(&mut text));
            text
        });
        (highest(&mut child), text.join().unwrap_or_default())
    });
    let status = child.wait().map_err(|source| Error::Spawn { command: process::show(command), source })?;
    match bytes {
        Some(bytes) if status.success() => Ok(bytes),
        _ => {
            eprint!("{text}");
            let command = process::show(command);
            Err(match status.success() {
                true => Error::Output { command, expected: "its use of memory in /proc".to_owned() },
                false => Error::Failed { command, status },
            })
        }
    }
}

fn highest(child: &mut Child) -> Option<f64> {
    let path = format!("/proc/{}/status", child.id());
    let mut last = None;
    while let Ok(None) = child.try_wait() {
        last = fs::read_to_string(&path).ok().and_then(|text| high_water_mark(&text)).or(last);
        thread::sleep(Duration::from_millis(1));
    }
    last
}

/// Bytes out of `VmHWM:     20404 kB`.
fn high_water_mark(status: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark() {
        assert_eq!(high_water_mark("VmPeak:\t 9 kB\nVmHWM:\t   20404 kB\n"), Some(20404.0 * 1024.0));
        assert_eq!(high_water_mark("Name:\tzombie\n"), None);
    }

    #[test]
    fn a_command_is_watched_to_its_end() {
        let mut sleep = Command::new("sh");
        assert!(watch(sleep.args(["-c", "sleep 0.05"])).unwrap() > 1e4);
        assert!(matches!(watch(Command::new("sh").args(["-c", "exit 3"])), Err(Error::Failed { .. })));
    }

    #[test]
    fn keys_and_values_in_f32_are_twice_as_large() {
        let file = File { bytes: 1e8, read_per_token: 0.0, kept_per_position: 1000.0 };
        let ours = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(bound(&file, &[]), 160_512_000.0);
        assert_eq!(bound(&file, &ours("--act q8 --kv f32")), 161_024_000.0);
        assert_eq!(bound(&file, &ours("--kv=f32")), 161_024_000.0);
    }

    #[test]
    fn a_row_in_megabytes() {
        let row = row("m", 2, &[150e6], 160e6);
        assert_eq!((row.ours, row.theirs, row.ratio), (vec![150.0], vec![160.0], 0.9375));
    }
}
