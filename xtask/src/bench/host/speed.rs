//! Tokens per second beside llama.cpp, and how near decode comes to the bandwidth of the memory.

use super::file::File;
use super::report::{Bar, Report, Row};
use super::{Host, Turns};
use crate::bench::peer::{self, Test};
use crate::bench::{median, model as ours};
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::step;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DECODE: Test = Test { prompt: 0, generate: 64, depth: 0 };
const PREFILL: Test = Test { prompt: 512, generate: 0, depth: 0 };
const AT_CONTEXT: Test = Test { prompt: 0, generate: 64, depth: 2048 };
/// What the default model is requantised to.
const FORMATS: [&str; 3] = ["Q4_0", "Q8_0", "Q4_K_M"];
const DEFAULT_MODEL: &str = "SmolLM2 Q4_1";

/// A model and what it is measured with.
struct Subject {
    name: String,
    gguf: PathBuf,
    /// llama-bench.
    peer: PathBuf,
}

impl Subject {
    fn default_model(host: &Host<'_>) -> Result<Self> {
        let gguf = model::fetch_default(host.workspace)?;
        Ok(Self { name: DEFAULT_MODEL.to_owned(), gguf, peer: peer::build(host.workspace)? })
    }

    fn label(&self, test: Test) -> String {
        let Self { name, .. } = self;
        match test {
            Test { prompt, generate: 0, depth: 0 } => format!("{name}, prefill {prompt}"),
            Test { generate, depth: 0, .. } => format!("{name}, decode {generate}"),
            Test { generate, depth, .. } => format!("{name}, decode {generate} after {depth} tokens"),
        }
    }

    /// A row for each number of threads.
    fn rows(&self, host: &Host<'_>, report: &mut Report, test: Test, bar: Option<Bar>) {
        for &threads in &host.options.threads {
            report.rows(&format!("{}, {threads} thread(s)", self.label(test)), || {
                Ok(vec![self.row(&self.turns(host, test, threads)?, test, bar)])
            });
        }
    }

    fn row(&self, turns: &Turns, test: Test, bar: Option<Bar>) -> Row {
        turns.row(&self.label(test), "tokens/s", peer::NAME, bar)
    }

    fn turns(&self, host: &Host<'_>, test: Test, threads: usize) -> Result<Turns> {
        let ours = || rate(host, &self.gguf, test, threads);
        let theirs = || peer::rate(&self.peer, &self.gguf, test, threads);
        host.turns(&self.label(test), threads, ours, theirs)
    }
}

/// Tokens per second of one run of phobos-bench.
fn rate(host: &Host<'_>, gguf: &Path, test: Test, threads: usize) -> Result<f64> {
    let mut command = Command::new(host.program("phobos-bench"));
    command.arg("--gguf").arg(gguf).args(["--repeat", "1", "--json", "--threads", &threads.to_string()]);
    let numbers =
        [("--prompt-tokens", test.prompt), ("--gen-tokens", test.generate), ("--depth", test.depth)];
    for (flag, value) in numbers {
        command.args([flag, &value.to_string()]);
    }
    let text = process::capture(command.args(&host.options.ours))?;
    let part = if test.generate > 0 { "generation" } else { "prompt" };
    ours::rate(&text, part).ok_or_else(|| Error::Output {
        command: process::show(&command),
        expected: format!("the median of the {part} as JSON"),
    })
}

/// Decode of the default model, and its share of the bandwidth on one thread.
pub fn decode(host: &Host<'_>, report: &mut Report) {
    let Some(subject) = report.have("decode", || Subject::default_model(host)) else { return };
    let file = report.have("share of the read bandwidth", || File::inspect(host, &subject.gguf));
    for &threads in &host.options.threads {
        report.rows(&format!("{}, {threads} thread(s)", subject.label(DECODE)), || {
            let turns = subject.turns(host, DECODE, threads)?;
            let mut rows = vec![subject.row(&turns, DECODE, Some(Bar::AtLeast(2.0)))];
            rows.extend(file.filter(|_| threads == 1).map(|file| share(&turns, file.read_per_token)));
            Ok(rows)
        });
    }
    if let Some(file) = file {
        report.remark(format!(
            "Decode reads {:.1} MB for a token: every tensor of the file, but for a table of embeddings that is not \
             the output layer too. Keys, values and activations are left out.",
            file.read_per_token / 1e6
        ));
    }
}

/// The weights that were read in a second, beside what could be read at that time.
fn share(turns: &Turns, bytes: f64) -> Row {
    let read: Vec<f64> = turns.ours.iter().map(|rate| rate * bytes / 1e9).collect();
    let limit: Vec<f64> = turns.peaks.iter().map(|peak| peak.read_gb_per_s).collect();
    let ratio = median(&read) / median(&limit);
    Row {
        what: format!("{DEFAULT_MODEL}, weights read in decode"),
        threads: Some(turns.threads),
        unit: "GB/s",
        ours: read,
        peer: "read bandwidth".to_owned(),
        theirs: limit,
        ratio,
        bar: Some(Bar::AtLeast(0.8)),
        peak: turns.peak(),
        disturbed: turns.disturbed,
    }
}

/// Prefill of the default model.
pub fn prefill(host: &Host<'_>, report: &mut Report) {
    if let Some(subject) = report.have("prefill", || Subject::default_model(host)) {
        subject.rows(host, report, PREFILL, Some(Bar::AtLeast(4.0)));
    }
}

/// Decode after a long context.
pub fn context(host: &Host<'_>, report: &mut Report) {
    if let Some(subject) = report.have("context", || Subject::default_model(host)) {
        subject.rows(host, report, AT_CONTEXT, Some(Bar::AtLeast(2.0)));
    }
}

/// A model of another architecture, held to no bar.
pub fn gemma3(host: &Host<'_>, report: &mut Report) {
    let subject = || {
        let gguf = model::fetch_gemma3(host.workspace)?;
        let name = "gemma3-270m Q4_K_M".to_owned();
        Ok(Subject { name, gguf, peer: peer::build(host.workspace)? })
    };
    if let Some(subject) = report.have("gemma3", subject) {
        subject.rows(host, report, DECODE, None);
        subject.rows(host, report, PREFILL, None);
    }
}

/// The default model in other block formats.
pub fn formats(host: &Host<'_>, report: &mut Report) {
    for format in FORMATS {
        let subject = || {
            let gguf = requantised(host, format)?;
            Ok(Subject { name: format!("SmolLM2 {format}"), gguf, peer: peer::build(host.workspace)? })
        };
        if let Some(subject) = report.have(&format!("formats, {format}"), subject) {
            subject.rows(host, report, DECODE, Some(Bar::AtLeast(1.5)));
            subject.rows(host, report, PREFILL, Some(Bar::AtLeast(1.5)));
        }
    }
}

/// The default model in another format, made by llama.cpp's own quantiser unless it is there.
fn requantised(host: &Host<'_>, format: &str) -> Result<PathBuf> {
    let folder = host.workspace.bench().join("formats");
    let file = folder.join(format!("SmolLM2-135M-Instruct.Q4_1-to-{format}.gguf"));
    if file.exists() {
        return Ok(file);
    }
    let source = model::fetch_default(host.workspace)?;
    let quantise = peer::program(host.workspace, "llama-quantize")?;
    step(&format!("requantise SmolLM2 to {format}"), || {
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let unfinished = folder.join("unfinished.gguf");
        let mut command = Command::new(quantise);
        command.arg("--allow-requantize").arg(source).arg(&unfinished).arg(format);
        process::run_aside(&mut command)?;
        // Named only when whole.
        fs::rename(&unfinished, &file).map_err(Error::io("rename", &unfinished))
    })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::machine::Peak;

    #[test]
    fn labels_say_what_is_measured() {
        let subject = Subject { name: "m".to_owned(), gguf: PathBuf::new(), peer: PathBuf::new() };
        assert_eq!(subject.label(DECODE), "m, decode 64");
        assert_eq!(subject.label(PREFILL), "m, prefill 512");
        assert_eq!(subject.label(AT_CONTEXT), "m, decode 64 after 2048 tokens");
    }

    #[test]
    fn the_share_of_the_bandwidth() {
        let peak = Peak { threads: 1, gflops: 100.0, read_gb_per_s: 20.0 };
        let turns = Turns { ours: vec![150.0], peaks: vec![peak], ..Turns::new(1) };
        let row = share(&turns, 1e8);
        assert_eq!((row.ours, row.theirs), (vec![15.0], vec![20.0]));
        assert_eq!(row.ratio, 0.75);
    }
}
