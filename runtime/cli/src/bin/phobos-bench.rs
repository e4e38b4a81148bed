//! `phobos-bench`: measures prompt processing and generation.

use std::process::ExitCode;

use phobos_cli::{
    args::BenchArgs,
    bench, exit,
    failure::Failure,
    options::{BenchOptions, Process},
    output, parse,
};
use phobos_worker::fingerprint::version_line;

fn main() -> ExitCode {
    match parse::<BenchArgs>() {
        Ok(args) => exit(run(args)),
        Err(code) => code,
    }
}

fn run(args: BenchArgs) -> Result<(), Failure> {
    if args.version {
        return output::print(&format!("{}\n", version_line("phobos-bench")));
    }
    bench::run(&BenchOptions::resolve(args, &Process)?)
}
