//! `phobos-emu`: run a kernel of a PTX file on the CPU and be told what is wrong
//! with it.

mod arguments;
mod mutate;
mod output;
mod policy;
mod summary;

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use arguments::{Argument, Bound, Extents, InputError};
use clap::{Parser, ValueEnum};
use phobos_artifact::write_whole;
use phobos_emulator::{Emulator, FaultKind, Kernel, Options, Outcome, Program, Schedule, decode::demangled};
use policy::{Denied, Level, Policy, Rule};
use summary::Summary;

/// Runs a kernel of a PTX file on the CPU and reports races, out-of-bounds and
/// uninitialised accesses, deadlocks and what it cost.
///
/// Exit code 0: no faults (notes are none); 1: faults, or results that differ from
/// --check-out; 2: the file or the command line cannot be used.
#[derive(Parser)]
#[command(name = "phobos-emu", version)]
struct Cli {
    /// The PTX file.
    file: PathBuf,
    /// The kernel, by its name in the file or in its C++ source; may be left out when
    /// the file has one.
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
    /// Run the hostile schedule of this seed alone, on the data of --seed.
    #[arg(long, value_name = "SEED", conflicts_with = "schedules")]
    replay: Option<u64>,
    /// Let reports pass: KIND, FILE, FILE:LINE or KIND@FILE[:LINE]; a file is the PTX
    /// or one that its line information names.
    #[arg(long, value_name = "SPEC")]
    allow: Vec<Rule>,
    /// Count the notes of a kind as faults; `notes` is all of them.
    #[arg(long, value_name = "KIND")]
    deny: Vec<Denied>,
    /// Leave out barriers, waits, commits and fences one by one, and say which are
    /// needed.
    #[arg(long)]
    mutate: Option<Mutate>,
    /// Check only bounds, alignment and deadlocks.
    #[arg(long)]
    no_strict: bool,
    /// Worker threads; 0 takes all cores. The results do not depend on it.
    #[arg(long, default_value_t = 0)]
    workers: usize,
    /// Warp-instructions that a CTA may run before it is taken to hang.
    #[arg(long, default_value_t = 1 << 30)]
    max_instructions: u64,
    /// Seconds after which the run is ended; what was found is printed.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
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

/// What `--mutate` leaves out.
#[derive(Clone, Copy, ValueEnum)]
enum Mutate {
    Barriers,
}

/// The kernel that a name means: as the file has it, or as C++ does.
fn kernel_named(cli: &Cli, program: &Program) -> Result<String, InputError> {
    let file = cli.file.display();
    let refused = |name: &str| program.refused.iter().find(|(refused, _)| refused == name);
    let names: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let all = names.iter().copied().chain(program.refused.iter().map(|(name, _)| name.as_str()));
    let found = match &cli.kernel {
        None => match (names.as_slice(), program.refused.as_slice()) {
            ([only], _) => (*only).to_owned(),
            ([], [(only, _)]) => only.clone(),
            _ => {
                let names: Vec<&str> = all.collect();
                let names = if names.is_empty() { "no kernels".to_owned() } else { names.join(", ") };
                return Err(InputError::new(format!("{file}: --kernel is needed: the file has {names}")));
            }
        },
        Some(wanted) => {
            let named = |name: &str| {
                name == wanted
                    || demangled(name).is_some_and(|shown| {
                        shown == *wanted || shown.split_once('(').is_some_and(|(base, _)| base == wanted)
                    })
            };
            let matches: Vec<&str> = all.filter(|name| named(name)).collect();
            match matches.as_slice() {
                [only] => (*only).to_owned(),
                [] => {
                    let names = names.join(", ");
                    return Err(InputError::new(format!("{file}: no kernel `{wanted}`; it has {names}")));
                }
                several => {
                    let several = several.join(", ");
                    return Err(InputError::new(format!("{file}: `{wanted}` is any of {several}")));
                }
            }
        }
    };
    match refused(&found) {
        Some((_, error)) => Err(InputError::new(error.to_string())),
        None => Ok(found),
    }
}

/// A command that has been read: what is the same for each run.
struct Session<'c> {
    cli: &'c Cli,
    name: String,
    text: String,
    chip: u32,
    deadline: Option<Instant>,
    stop: Arc<AtomicBool>,
}

/// A finished run with its memory.
struct Run {
    kernel: Arc<Kernel>,
    emulator: Emulator,
    bound: Bound,
    outcome: Outcome,
    seconds: f64,
}

impl Session<'_> {
    fn options(&self, schedule: Schedule) -> Options {
        Options {
            strict: !self.cli.no_strict,
            schedule,
            workers: self.cli.workers,
            max_instructions: self.cli.max_instructions,
            deadline: self.deadline,
            stop: Some(self.stop.clone()),
            ..Options::default()
        }
    }

    /// Runs one schedule on fresh memory; `without` leaves out an instruction.
    fn run(&self, schedule: Schedule, without: Option<u32>) -> Result<Run, InputError> {
        let cli = self.cli;
        let failed = |error: phobos_emulator::EmulatorError| InputError::new(error.to_string());
        let mut emulator = Emulator::new(self.chip);
        let program = emulator.load(&self.name, &self.text).map_err(failed)?;
        let name = kernel_named(cli, &program)?;
        let Some(kernel) = program.kernel(&name).cloned() else {
            return Err(InputError::new(format!("no kernel `{name}`")));
        };
        let kernel = match without {
            Some(pc) => Arc::new(mutate::without(&kernel, pc)),
            None => kernel,
        };
        let bound = arguments::bind(&mut emulator, &kernel, &cli.args, cli.seed)?;
        let options = self.options(schedule);
        let started = Instant::now();
        let outcome = emulator
            .launch_kernel(&program, &kernel, cli.grid.0, cli.block.0, cli.shared, &bound.params, &options)
            .map_err(failed)?;
        Ok(Run { kernel, emulator, bound, outcome, seconds: started.elapsed().as_secs_f64() })
    }

    fn schedules(&self) -> Vec<Schedule> {
        match self.cli.replay {
            Some(seed) => vec![Schedule::Adversarial(seed)],
            None => std::iter::once(Schedule::Converged)
                .chain(
                    (1..self.cli.schedules.max(1))
                        .map(|at| Schedule::Adversarial(self.cli.seed.wrapping_add(at - 1))),
                )
                .collect(),
        }
    }

    /// Runs every schedule. `each` sees the runs in order.
    fn all(
        &self,
        policy: &Policy,
        without: Option<u32>,
        mut each: impl FnMut(usize, &Run, &mut Summary) -> Result<(), InputError>,
    ) -> Result<Summary, InputError> {
        let mut summary = Summary::default();
        let mut first: Option<Vec<output::Values>> = None;
        for (index, schedule) in self.schedules().into_iter().enumerate() {
            let run = self.run(schedule, without)?;
            summary.add(&run.kernel, &output::schedule_name(schedule), &run.outcome.faults);
            each(index, &run, &mut summary)?;
            if run.outcome.ended {
                break;
            }
            let values = output::Values::all(&run.emulator, &run.bound);
            let Some(first) = &first else {
                first = Some(values);
                continue;
            };
            for (then, now) in first.iter().zip(&values) {
                if let Some(text) = then.differs(now, output::tolerant(&run.kernel)) {
                    // With atomics whose results are used the order may be meant.
                    let mut level = policy.level_of(FaultKind::ScheduleDependent);
                    if output::ordered_by_atomics(&run.kernel) && level == Level::Fault {
                        level = Level::Note;
                    }
                    let name = output::schedule_name(schedule);
                    let known = summary
                        .findings
                        .iter()
                        .any(|known| known.message.starts_with(&format!("argument {} ", then.index)));
                    if !known {
                        summary.find(
                            FaultKind::ScheduleDependent,
                            level,
                            format!("argument {} is not the same in {name}: {text}", then.index),
                        );
                    }
                }
            }
        }
        Ok(summary)
    }
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
    let deadline = match cli.timeout {
        None => None,
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(after) => Instant::now().checked_add(after),
            Err(_) => return Err(InputError::new(format!("--timeout {seconds}: expected seconds"))),
        },
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Without a handler a signal ends the program, which is no error of the run.
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    let session = Session { cli, name, text, chip, deadline, stop };
    let policy = Policy { allow: cli.allow.clone(), deny: cli.deny.clone() };
    let mut report = output::Report::new(cli.json);
    let mut clean = true;
    let mut kernel = None;
    let summary = session.all(&policy, None, |index, run, summary| {
        let schedule = session.schedules()[index];
        report.run(&run.kernel, schedule, &run.outcome, run.seconds, &policy);
        if index == 0 {
            if !cli.no_counters {
                report.counters(&run.kernel, &run.outcome.counters);
            }
            if let Some(count) = cli.print {
                report.values(&run.emulator, &run.bound, count);
            }
            for target in &cli.write_out {
                let (index, path) = run.bound.file_target(target)?;
                let bytes = run.bound.read(&run.emulator, index)?;
                write_whole(path.as_ref(), &bytes)
                    .map_err(|error| InputError::new(format!("{path}: {error}")))?;
            }
            kernel = Some(run.kernel.clone());
        }
        for target in &cli.check_out {
            let (index, path) = run.bound.file_target(target)?;
            let want = fs::read(path).map_err(|error| InputError::new(format!("{path}: {error}")))?;
            let got = run.bound.read(&run.emulator, index)?;
            clean &= report.compare(index, path, &got, &want);
            if let Some((count, first)) = run.bound.undefined(&run.emulator, index) {
                let message = format!(
                    "argument {index} is compared and {count} of its bytes are not initialised, the first is {first}"
                );
                let level = policy.level_of(FaultKind::UninitializedOutput);
                summary.find(FaultKind::UninitializedOutput, level, message);
            }
        }
        Ok(())
    })?;
    let Some(kernel) = kernel else { return Ok(clean) };
    report.summary(&kernel, &summary, &policy);
    clean &= !summary.failed(&kernel, &policy);
    if let Some(Mutate::Barriers) = cli.mutate {
        for pc in mutate::targets(&kernel) {
            let changed = session.all(&policy, Some(pc), |_, _, _| Ok(()))?;
            report.mutation(
                &kernel,
                &mutate::Mutation::of(&kernel, pc, &summary, &changed),
                changed.schedules,
            );
        }
    }
    report.finish();
    Ok(clean)
}

fn main() -> ExitCode {
    // A caught SIGXFSZ makes a write beyond `ulimit -f` an error instead of the end.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
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
