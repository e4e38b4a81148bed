//! `phobos-fuzz`: random kernels at one host level, compared with the oracle.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use phobos_artifact::{Chip, HostLevel};
use phobos_fuzz::{
    execute::{EXECUTOR, serve},
    generate::generate,
    runner::{Options, Summary, available_levels, run},
};

/// Compiles and runs random kernels on the host, and compares what they leave in memory with an
/// interpreter of the language. Exit status 1 when something is wrong.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// How many programs
    #[arg(long, default_value_t = 1000)]
    programs: u64,
    /// The seed of the first program; each next has the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A host level: v2, v3, v4 or v4-vnni; programs take turns if several are given. All that
    /// this CPU has without
    #[arg(long)]
    level: Vec<String>,
    /// Where to write each fault: SEED.ph, the smallest program found, and SEED.txt
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only count faults whose text has this in it; may be given again
    #[arg(long)]
    known: Vec<String>,
    /// End after so many faults
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// Print the program of the seed and end
    #[arg(long)]
    print: bool,
    /// Serve jobs on stdin, as the fuzzer starts itself to
    #[arg(long, hide = true)]
    executor: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    debug_assert_eq!(EXECUTOR, "--executor");
    let result = if arguments.executor { serve().map(|()| true) } else { fuzz(&arguments) };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn fuzz(arguments: &Arguments) -> std::io::Result<bool> {
    if arguments.print {
        print!("{}", generate(arguments.seed).text());
        return Ok(true);
    }
    let options = Options {
        executor: std::env::current_exe()?,
        programs: arguments.programs,
        seed: arguments.seed,
        levels: levels(&arguments.level)?,
        out: arguments.out.clone(),
        known: arguments.known.clone(),
        most_faults: arguments.faults,
    };
    let summary = run(&options, &mut |line| eprintln!("{line}"))?;
    print_summary(&summary);
    Ok(summary.faults.is_empty() && summary.refused.is_empty())
}

fn levels(names: &[String]) -> std::io::Result<Vec<HostLevel>> {
    if names.is_empty() {
        return Ok(available_levels());
    }
    names
        .iter()
        .map(|name| match format!("host-x86-64-{name}").parse() {
            Ok(Chip::Host(level)) if available_levels().contains(&level) => Ok(level),
            Ok(_) => Err(std::io::Error::other(format!("this CPU does not have the level {name}"))),
            Err(error) => Err(std::io::Error::other(error)),
        })
        .collect()
}

fn print_summary(summary: &Summary) {
    println!("{} programs compared, {} faults", summary.compared, summary.faults.len());
    if summary.known > 0 {
        println!("{} known faults", summary.known);
    }
    for (reason, count) in &summary.stopped {
        println!("{count} not run: {reason}");
    }
    println!("{} refused by the checker", summary.refused.len());
}
