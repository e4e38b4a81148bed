//! `cargo xtask bench model`: tokens per second beside llama.cpp, on the same file with the same threads.
//!
//! The two programs take turns, so that what else the machine does meets both alike, and the table gives the
//! median of each.

use super::machine::Machine;
use super::{Speed, json_number, median, number, peer, print_commit, spread};
use crate::binaries;
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::note;
use crate::setup;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    gguf: Option<PathBuf>,
    threads: Vec<usize>,
    runs: u32,
    prompt: u32,
    generate: u32,
    /// Further arguments of phobos-bench.
    ours: Vec<String>,
}

/// Parses the options, builds both programs, measures, and prints a table in Markdown.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    setup::ensure(&[setup::COMPILER])?;
    binaries::build(workspace)?;
    let gguf = match &options.gguf {
        Some(path) => path.clone(),
        None => model::fetch_default(workspace)?,
    };
    let ours = workspace.bin().join("phobos-bench");
    let theirs = peer::build(workspace)?;
    let machine = Machine::describe(workspace, &options.threads)?;
    let mut rows = Vec::new();
    for &threads in &options.threads {
        let (mut us, mut them) = (Vec::new(), Vec::new());
        for run in 1..=options.runs {
            note(&format!("{threads} thread(s), run {run} of {}", options.runs));
            us.push(measure(&ours, &gguf, &options, threads)?);
            them.push(peer::measure(&theirs, &gguf, options.prompt, options.generate, threads)?);
        }
        let prefill = |speeds: &[Speed]| speeds.iter().map(|speed| speed.prefill).collect::<Vec<_>>();
        let decode = |speeds: &[Speed]| speeds.iter().map(|speed| speed.decode).collect::<Vec<_>>();
        rows.push(row(&format!("prefill {}", options.prompt), threads, &prefill(&us), &prefill(&them)));
        rows.push(row(&format!("decode {}", options.generate), threads, &decode(&us), &decode(&them)));
    }
    print_table(workspace, &gguf, &options, &machine, &rows);
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        gguf: None,
        threads: if cores == 1 { vec![1] } else { vec![1, cores] },
        runs: 5,
        prompt: 512,
        generate: 64,
        ours: Vec::new(),
    };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        if name == "--" {
            options.ours = rest.cloned().collect();
            break;
        }
        if !["--gguf", "--threads", "--runs", "--prompt-tokens", "--gen-tokens"].contains(&name.as_str()) {
            return Err(Error::Usage(format!("bench model has no option `{name}`")));
        }
        let value = rest.next().ok_or_else(|| Error::Usage(format!("{name} needs a value")))?;
        match name.as_str() {
            "--gguf" => options.gguf = Some(PathBuf::from(value)),
            "--threads" => {
                options.threads =
                    value.split(',').map(|part| number(name, part, 1024)).collect::<Result<Vec<usize>>>()?;
            }
            "--runs" => options.runs = number(name, value, 1000)?,
            "--prompt-tokens" => options.prompt = number(name, value, 1 << 20)?,
            _ => options.generate = number(name, value, 1 << 20)?,
        }
    }
    Ok(options)
}

fn measure(program: &Path, gguf: &Path, options: &Options, threads: usize) -> Result<Speed> {
    let mut command = Command::new(program);
    command.arg("--gguf").arg(gguf).args(["--repeat", "1", "--json", "--threads", &threads.to_string()]);
    command.args(["--prompt-tokens", &options.prompt.to_string()]);
    command.args(["--gen-tokens", &options.generate.to_string()]).args(&options.ours);
    let text = process::capture(&mut command)?;
    parse_ours(&text).ok_or_else(|| Error::Output {
        command: process::show(&command),
        expected: "the medians of a prompt and a generation as JSON".to_owned(),
    })
}

/// `{"prompt": {"median_tokens_per_second": 1.5, ...}, "generation": {...}, ...}`.
fn parse_ours(json: &str) -> Option<Speed> {
    Some(Speed { prefill: rate(json, "prompt")?, decode: rate(json, "generation")? })
}

/// Tokens per second of one part of what phobos-bench prints, `prompt` or `generation`.
pub fn rate(json: &str, part: &str) -> Option<f64> {
    let (_, object) = json.split_once(&format!("\"{part}\""))?;
    json_number(object.split('}').next()?, "median_tokens_per_second")
}

fn row(test: &str, threads: usize, us: &[f64], them: &[f64]) -> String {
    let ratio = median(us) / median(them);
    format!("| {test} | {threads} | {} | {} | {ratio:.2} |", spread(us, 1), spread(them, 1))
}

fn print_table(workspace: &Workspace, gguf: &Path, options: &Options, machine: &Machine, rows: &[String]) {
    let name = gguf.file_name().unwrap_or_default().to_string_lossy().into_owned();
    print_commit(workspace);
    println!(", {name}, median (lowest to highest) of {} runs each, in turns.", options.runs);
    if !options.ours.is_empty() {
        println!("phobos-bench {}", options.ours.join(" "));
    }
    machine.print();
    println!("| test | threads | Phobos, tokens/s | {}, tokens/s | ratio |", peer::NAME);
    println!("| --- | ---: | ---: | ---: | ---: |");
    for row in rows {
        println!("{row}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options() {
        let options =
            parse(&words("--gguf m.gguf --threads 1,4 --runs 3 --gen-tokens 32 -- --act q8")).unwrap();
        assert_eq!(options.gguf, Some(PathBuf::from("m.gguf")));
        assert_eq!((options.threads, options.runs), (vec![1, 4], 3));
        assert_eq!((options.prompt, options.generate), (512, 32));
        assert_eq!(options.ours, ["--act", "q8"]);
    }

    #[test]
    fn what_phobos_bench_prints() {
        let json = r#"{
          "file": "m.gguf",
          "prompt": { "tokens": 512, "median_tokens_per_second": 300.5, "tokens_per_second": [300.5] },
          "generation": { "tokens": 64, "median_tokens_per_second": 99.25, "tokens_per_second": [99.25] }
        }"#;
        assert_eq!(parse_ours(json), Some(Speed { prefill: 300.5, decode: 99.25 }));
        assert_eq!(parse_ours(&json.replace("99.25", "null")), None);
        assert_eq!(parse_ours(""), None);
    }

    #[test]
    fn bad_options_are_named() {
        for (line, text) in [
            ("--runs", "--runs needs a value"),
            ("--runs 0", "`0` is no number from 1 to 1000"),
            ("--threads 1,x", "`x` is no number from 1 to 1024"),
            ("--speed 1", "no option `--speed`"),
        ] {
            let error = parse(&words(line)).unwrap_err();
            assert!(error.to_string().contains(text), "{line}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_row_has_medians_spreads_and_their_ratio() {
        let text = row("decode 64", 2, &[50.0, 40.0, 45.0], &[90.0, 80.0, 100.0]);
        assert_eq!(text, "| decode 64 | 2 | 45.0 (40.0 to 50.0) | 90.0 (80.0 to 100.0) | 0.50 |");
    }
}
