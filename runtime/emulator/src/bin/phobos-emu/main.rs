//! `phobos-emu`: run a kernel of a PTX file on the CPU and be told what is wrong
//! with it.

mod arguments;
mod output;

use std::{fs, path::PathBuf, process::ExitCode};

use arguments::{Argument, Extents, InputError};
use clap::Parser;
use phobos_emulator::{Emulator, Options, Schedule};

/// Runs a kernel of a PTX file on the CPU and reports races, out-of-bounds and
/// uninitialised accesses, deadlocks and what it cost.
///
/// Exit code 0: no faults; 1: faults, or results that differ from --check-out; 2:
/// the file or the command line cannot be used.
#[derive(Parser)]
#[command(name = "phobos-emu", version)]
struct Cli {
    /// The PTX file.
    file: PathBuf,
    /// The kernel; may be left out when the file has one.
    #[arg(long)]
    kernel: Option<String>,
    /// CTAs: X, X,Y or X,Y,Z.
    #[arg(long, default_value = "1")]
    grid: Extents,
    /// Threads of a CTA: X, X,Y or X,Y,Z.
    #[arg(long, default_value = "32")]
    block: Extents,
    /// Dynamic shared memory of a CTA in bytes.
    #[arg(long, default_value_t = 0)]
    shared: u32,
    /// An argument, in the order of the parameters. A buffer is TYPE:COUNT
    /// (uninitialised), TYPE:zero:COUNT, TYPE:iota:COUNT, TYPE:random:COUNT or
    /// TYPE:file:PATH; a scalar is TYPE=VALUE. Types: u8 i8 u16 i16 f16 bf16 u32
    /// i32 f32 u64 i64 f64.
    #[arg(long = "arg", value_name = "ARG")]
    args: Vec<Argument>,
    /// Compare the last buffer (or that of argument INDEX, from 0) with a file,
    /// byte by byte, after every schedule.
    #[arg(long, value_name = "[INDEX:]FILE")]
    check_out: Vec<String>,
    /// Write the last buffer (or that of argument INDEX, from 0) to a file.
    #[arg(long, value_name = "[INDEX:]FILE")]
    write_out: Vec<String>,
    /// Print the first values of every buffer after the run.
    #[arg(long, value_name = "COUNT")]
    print: Option<usize>,
    /// Schedules to run: the first is converged, as hardware mostly is, and gives
    /// the counters; the others are hostile.
    #[arg(long, default_value_t = 1)]
    schedules: u64,
    /// The seed of the hostile schedules and of random arguments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Check only bounds, alignment and deadlocks.
    #[arg(long)]
    no_strict: bool,
    /// Worker threads; 0 takes all cores. The results do not depend on it.
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Warp-instructions that a CTA may run before it is taken to hang.
    #[arg(long, default_value_t = 1 << 32)]
    max_instructions: u64,
    /// The chip whose limits hold, as sm_NN; that of the file by default.
    #[arg(long)]
    chip: Option<String>,
    /// Do not print the counters.
    #[arg(long)]
    no_counters: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Whether the run was free of faults and met its expectations.
fn run(cli: &Cli) -> Result<bool, InputError> {
    let name = cli.file.display().to_string();
    let text = fs::read_to_string(&cli.file).map_err(|error| InputError::new(format!("{name}: {error}")))?;
    let chip = match &cli.chip {
        None => 0,
        Some(chip) => match chip.strip_prefix("sm_").and_then(|digits| digits.parse().ok()) {
            Some(number) => number,
            None => return Err(InputError::new(format!("--chip {chip}: expected sm_NN"))),
        },
    };
    let mut report = output::Report::new(cli.json);
    let mut clean = true;
    for schedule in 0..cli.schedules.max(1) {
        // Each schedule starts from fresh memory: results may be compared.
        let mut emulator = Emulator::new(chip);
        let program = emulator.load(&name, &text).map_err(|error| InputError::new(error.to_string()))?;
        let kernel = match (&cli.kernel, program.kernels.as_slice()) {
            (Some(name), _) => name.clone(),
            (None, [only]) => only.name.clone(),
            (None, kernels) => {
                let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
                return Err(InputError::new(format!(
                    "{name}: --kernel is needed: the file has {}",
                    if names.is_empty() { "no kernels".to_owned() } else { names.join(", ") }
                )));
            }
        };
        let Some(entry) = program.kernel(&kernel).cloned() else {
            let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            return Err(InputError::new(format!(
                "{name}: no kernel `{kernel}`; it has {}",
                names.join(", ")
            )));
        };
        let bound = arguments::bind(&mut emulator, &entry, &cli.args, cli.seed)?;
        let options = Options {
            strict: !cli.no_strict,
            schedule: if schedule == 0 {
                Schedule::Converged
            } else {
                Schedule::Adversarial(cli.seed.wrapping_add(schedule - 1))
            },
            workers: cli.workers,
            max_instructions: cli.max_instructions,
        };
        let started = std::time::Instant::now();
        let outcome = emulator
            .launch(&program, &kernel, cli.grid.0, cli.block.0, cli.shared, &bound.params, &options)
            .map_err(|error| InputError::new(error.to_string()))?;
        let seconds = started.elapsed().as_secs_f64();
        clean &= outcome.faults.list.is_empty();
        report.run(&entry, &options, &outcome, seconds);
        if schedule == 0 {
            if !cli.no_counters {
                report.counters(&entry, &outcome.counters);
            }
            if let Some(count) = cli.print {
                report.values(&emulator, &bound, count);
            }
            for target in &cli.write_out {
                let (index, path) = bound.file_target(target)?;
                let bytes = bound.read(&emulator, index)?;
                fs::write(path, bytes).map_err(|error| InputError::new(format!("{path}: {error}")))?;
            }
        }
        for target in &cli.check_out {
            let (index, path) = bound.file_target(target)?;
            let want = fs::read(path).map_err(|error| InputError::new(format!("{path}: {error}")))?;
            let got = bound.read(&emulator, index)?;
            clean &= report.compare(index, path, &got, &want);
        }
    }
    report.finish();
    Ok(clean)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
