//! `cargo xtask bench compile`: CPU seconds and memory of compiling: all kernels that the first start of a model
//! needs, by format of its weights, and long programs.

use super::machine::Machine;
use super::{json_number, median, number, print_commit, spread};
use crate::binaries;
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::note;
use crate::setup;
use crate::workspace::Workspace;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The format of the weights and the bar of their kernels, in CPU seconds.
const FORMATS: [(&str, f64); 6] =
    [("q8_0", 10.0), ("q4_0", 10.0), ("q3_k", 10.0), ("q4_k", 10.0), ("q6_k", 10.0), ("iq4_xs", 10.0)];
/// The bars of a long program: CPU seconds, and megabytes.
const LONG: (f64, f64) = (2.0, 500.0);
/// CPU time and memory of the processes that a process waited for, which the standard library does not tell.
const USAGE: &str = "\
import json, resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({'cpu_seconds': usage.ru_utime + usage.ru_stime, 'peak_kilobytes': usage.ru_maxrss}))
sys.exit(status)
";

/// What compiling came to.
#[derive(Debug, Clone, Copy)]
struct Usage {
    cpu_seconds: f64,
    /// Of the largest process.
    megabytes: f64,
}

/// Builds, measures and prints a table in Markdown.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let runs = parse(arguments)?;
    setup::ensure(&[setup::COMPILER, setup::RELEASE])?;
    binaries::build(workspace)?;
    let model = model::fetch_default(workspace)?;
    let machine = Machine::describe(workspace, &[])?;
    let scratch = workspace.bench().join("compile");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).map_err(Error::io("remove", &scratch))?;
    }
    fs::create_dir_all(&scratch).map_err(Error::io("create", &scratch))?;
    let bench = Bench { bin: workspace.bin(), root: workspace.root().to_owned(), scratch, runs };

    let mut lines = bench.formats(&model)?;
    lines.extend(bench.programs()?);
    fs::remove_dir_all(&bench.scratch).map_err(Error::io("remove", &bench.scratch))?;

    print_commit(workspace);
    println!(", median (lowest to highest) of {runs} runs each.");
    machine.print();
    println!("| what is compiled | CPU seconds | bar | | peak MB | bar | |");
    println!("| --- | ---: | ---: | --- | ---: | ---: | --- |");
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn parse(arguments: &[String]) -> Result<u32> {
    match arguments {
        [] => Ok(5),
        [name, value] if name == "--runs" => number(name, value, 1000),
        [name] if name == "--runs" => Err(Error::Usage("--runs needs a value".to_owned())),
        [name, ..] => Err(Error::Usage(format!("bench compile has no option `{name}`"))),
    }
}

struct Bench {
    bin: PathBuf,
    root: PathBuf,
    scratch: PathBuf,
    runs: u32,
}

impl Bench {
    /// The kernels of the default model's shape, for each format of weights, by one worker.
    fn formats(&self, model: &Path) -> Result<Vec<String>> {
        let manifest = self.scratch.join("manifest");
        let mut record = Command::new("python3");
        record.arg(self.root.join("scripts/record_kernels.py")).arg("--out").arg(&manifest);
        record.arg("--bench").arg(self.bin.join("phobos-bench")).arg(model);
        process::capture(record.env("PHOBOS_KERNEL_CACHE_DIR", self.scratch.join("recorded")))?;
        let mut lines = Vec::new();
        for (format, bar) in FORMATS {
            note(&format!("kernels of {format}"));
            let own = self.scratch.join(format);
            let kernels = only_format(&manifest, &own, format)?;
            if kernels == 0 {
                let command = process::show(&record);
                return Err(Error::Output { command, expected: format!("kernels of {format}") });
            }
            let usages = self.measured(|run| {
                let mut warm = self.command("phobos-cache");
                warm.args(["warm", "--no-ptxas", "--jobs", "1", "--manifest"]).arg(&own);
                warm.arg("--dir").arg(self.scratch.join(format!("{format}-{run}")));
                warm
            })?;
            let what = format!("first start, {format}: {kernels} kernels");
            lines.push(line(&what, &usages, bar, None));
        }
        Ok(lines)
    }

    fn programs(&self) -> Result<Vec<String>> {
        let programs = [
            ("Threefry2x32 of 20 rounds", threefry(20)),
            ("`gelu` nested 30 deep", nested_gelu(30)),
            ("3000 stores of slices", slice_stores(3000)),
        ];
        let mut lines = Vec::new();
        for (what, source) in programs {
            note(what);
            let file = self.scratch.join("long.ph");
            fs::write(&file, source).map_err(Error::io("write", &file))?;
            let usages = self.measured(|_| {
                let mut compile = self.command("phobos-compile");
                compile.arg(&file).args(["--chip", "host", "-o"]).arg(self.scratch.join("long"));
                compile
            })?;
            lines.push(line(what, &usages, LONG.0, Some(LONG.1)));
        }
        Ok(lines)
    }

    /// A program of ours under the one that tells what it used.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("python3");
        command.args(["-c", USAGE]).arg(self.bin.join(program));
        command.env("PHOBOS_COMPILE", self.bin.join("phobos-compile"));
        command.env_remove("PHOBOS_KERNEL_CACHE_MAX");
        command
    }

    fn measured(&self, command: impl Fn(u32) -> Command) -> Result<Vec<Usage>> {
        (0..self.runs)
            .map(|run| {
                let mut command = command(run);
                let text = process::capture(&mut command)?;
                let value = |name: &str| {
                    json_number(&text, name).ok_or_else(|| Error::Output {
                        command: process::show(&command),
                        expected: name.to_owned(),
                    })
                };
                let megabytes = value("peak_kilobytes")? * 1024.0 / 1e6;
                Ok(Usage { cpu_seconds: value("cpu_seconds")?, megabytes })
            })
            .collect()
    }
}

/// Copies the requests of a manifest that a model with weights of one format makes; gives how many.
fn only_format(manifest: &Path, to: &Path, format: &str) -> Result<usize> {
    fs::create_dir_all(to).map_err(Error::io("create", to))?;
    let mut count = 0;
    for entry in fs::read_dir(manifest).map_err(Error::io("read", manifest))? {
        let from = entry.map_err(Error::io("read", manifest))?.path();
        let Some(name) = from.file_name() else { continue };
        let text = fs::read_to_string(&from).map_err(Error::io("read", &from))?;
        if elements(&text).is_some_and(|all| all.iter().all(|&e| e == format || ["f32", "f16"].contains(&e)))
        {
            let to = to.join(name);
            fs::write(&to, text).map_err(Error::io("write", &to))?;
            count += 1;
        }
    }
    Ok(count)
}

/// The element types of a recorded request: the values in `"elements":{"A":"f32","F":"q4_k"}`.
fn elements(request: &str) -> Option<Vec<&str>> {
    let (_, rest) = request.split_once("\"elements\"")?;
    let (object, _) = rest.split_once('{')?.1.split_once('}')?;
    Some(object.split('"').skip(3).step_by(4).collect())
}

fn line(what: &str, usages: &[Usage], seconds: f64, megabytes: Option<f64>) -> String {
    let cell = |values: Vec<f64>, decimals: usize, bar: Option<f64>| {
        let spread = spread(&values, decimals);
        match bar {
            Some(bar) => {
                let verdict = if median(&values) <= bar { "met" } else { "not met" };
                format!("{spread} | ≤ {bar} | {verdict}")
            }
            None => format!("{spread} | |"),
        }
    };
    let cpu = cell(usages.iter().map(|usage| usage.cpu_seconds).collect(), 2, Some(seconds));
    let memory = cell(usages.iter().map(|usage| usage.megabytes).collect(), 0, megabytes);
    format!("| {what} | {cpu} | {memory} |")
}

fn kernel(ty: &str, body: &str) -> String {
    format!("@grid(1)\nkernel k(X: tensor<{ty}>[N], Y: tensor<{ty}>[N]) {{\n{body}}}\n")
}

/// JAX's generator of random numbers: two words that mix, in rounds, with a word of the key every fourth.
fn threefry(rounds: usize) -> String {
    let rotations = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let mut body = "  var a = X[0 :+ 64]\n  var b = X[64 :+ 64]\n  let key = X[128 :+ 64]\n".to_owned();
    for round in 0..rounds {
        let left = rotations[round / 4 % 2][round % 4];
        let right = 32 - left;
        // Writing to a String does not fail.
        writeln!(body, "  a = a + b\n  b = (b << u32({left})) | (b >> u32({right}))\n  b = a ^ b").ok();
        if round % 4 == 3 {
            writeln!(body, "  a = a + key\n  b = b + (key ^ u32({}))", round / 4 + 1).ok();
        }
    }
    kernel("u32", &format!("{body}  Y[0 :+ 64] = a\n  Y[64 :+ 64] = b\n"))
}

fn nested_gelu(depth: usize) -> String {
    let nested = (0..depth).fold("X[0 :+ 64]".to_owned(), |inner, _| format!("gelu({inner})"));
    kernel("f32", &format!("  Y[0 :+ 64] = {nested}\n"))
}

fn slice_stores(lines: usize) -> String {
    let body = (0..lines).fold(String::new(), |mut body, line| {
        writeln!(body, "  Y[{at} :+ 8] = X[{at} :+ 8] * {line}.0", at = 8 * line).ok();
        body
    });
    kernel("f32", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options() {
        assert_eq!(parse(&[]).unwrap(), 5);
        assert_eq!(parse(&words("--runs 3")).unwrap(), 3);
        for (line, text) in [
            ("--runs", "--runs needs a value"),
            ("--runs 0", "`0` is no number from 1 to 1000"),
            ("--fast 1", "no option `--fast`"),
        ] {
            assert!(parse(&words(line)).unwrap_err().to_string().contains(text), "{line}");
        }
    }

    #[test]
    fn elements_of_a_request() {
        let request =
            r#"{"source":"kernel k[F: \"x\"]","elements":{"A": "f32","F":"q4_k"},"dims":{"K":"no"}}"#;
        assert_eq!(elements(request).unwrap(), ["f32", "q4_k"]);
        assert_eq!(elements(r#"{"elements":{},"dims":{}}"#).unwrap(), [""; 0]);
        assert_eq!(elements("{}"), None);
    }

    #[test]
    fn a_line_says_whether_its_bars_are_met() {
        let usages = [1.0, 3.0, 2.0].map(|cpu_seconds| Usage { cpu_seconds, megabytes: 80.0 });
        assert_eq!(
            line("x", &usages, 2.0, Some(79.0)),
            "| x | 2.00 (1.00 to 3.00) | ≤ 2 | met | 80 (80 to 80) | ≤ 79 | not met |"
        );
        assert_eq!(
            line("x", &usages, 1.5, None),
            "| x | 2.00 (1.00 to 3.00) | ≤ 1.5 | not met | 80 (80 to 80) | | |"
        );
    }

    #[test]
    fn programs_have_their_length() {
        assert_eq!(threefry(20).matches(" ^ b").count(), 20);
        assert_eq!(threefry(20).matches("+ key").count(), 5);
        assert_eq!(nested_gelu(30).matches("gelu(").count(), 30);
        assert_eq!(slice_stores(3000).matches(" :+ 8] = X[").count(), 3000);
    }
}
