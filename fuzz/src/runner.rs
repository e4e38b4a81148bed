//! Many programs: generated, judged, and what is wrong written out.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use phobos_artifact::HostLevel;

use crate::{
    execute::Executor,
    generate::generate,
    judge::{Fault, Skip, prepare},
    program::Program,
    shrink::shrink,
};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that is an executor when it is given [`crate::execute::EXECUTOR`].
    pub executor: PathBuf,
    /// How many programs.
    pub programs: u64,
    /// The seed of the first; the next has the next.
    pub seed: u64,
    /// The levels, of which a program runs at one, chosen by its seed; not empty.
    pub levels: Vec<HostLevel>,
    /// Where to write what is wrong; nowhere without.
    pub out: Option<PathBuf>,
    /// Faults whose text has one of these in it are counted and no more.
    pub known: Vec<String>,
    /// End after so many faults.
    pub most_faults: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Programs that were compiled and compared.
    pub compared: u64,
    /// Programs that the oracle says nothing of, by its reason.
    pub stopped: BTreeMap<String, u64>,
    /// Programs that the checker refused, with what it said: faults of the generator.
    pub refused: Vec<(u64, String)>,
    /// Faults that were known.
    pub known: u64,
    /// What is wrong: the seed, the program cut down, and how.
    pub faults: Vec<(u64, String, Fault)>,
}

/// The levels that this CPU has, the least first.
pub fn available_levels() -> Vec<HostLevel> {
    let best = HostLevel::detect();
    HostLevel::BEST_FIRST.into_iter().rev().filter(|level| best >= Some(*level)).collect()
}

/// Runs programs one after the other.
///
/// # Errors
/// When no executor can be started, or what is wrong cannot be written.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> io::Result<Summary> {
    let mut executor = Executor::new(&options.executor);
    let mut summary = Summary::default();
    for seed in (0..options.programs).map(|at| options.seed.wrapping_add(at)) {
        if seed != options.seed && seed.is_multiple_of(1000) {
            progress(&format!("seed {seed} ..."));
        }
        let program = generate(seed);
        let prepared = match prepare(&program) {
            Ok(prepared) => prepared,
            Err(Skip::Refused(text)) => {
                progress(&format!("seed {seed}: refused: {text}"));
                summary.refused.push((seed, format!("{text}{}", program.text())));
                continue;
            }
            Err(Skip::Stopped(stop)) => {
                *summary.stopped.entry(stop.to_string()).or_default() += 1;
                continue;
            }
        };
        // A quarter of the programs has every slice outside; of these a few are enough.
        if !seed.is_multiple_of(8) && !prepared.wanted.iter().any(|tensor| tensor.written.contains(&true)) {
            *summary.stopped.entry("it writes nothing".to_owned()).or_default() += 1;
            continue;
        }
        summary.compared += 1;
        let Some(level) = options.levels.get((seed % options.levels.len().max(1) as u64) as usize) else {
            continue;
        };
        let Some(fault) = prepared.judge(*level, &mut executor)? else { continue };
        if options.known.iter().any(|known| fault.to_string().contains(known)) {
            summary.known += 1;
            continue;
        }
        let small = cut_down(&program, &fault, *level, &mut executor);
        let (text, fault) = match prepare(&small) {
            Ok(prepared) => {
                let found = prepared.judge(*level, &mut executor)?.unwrap_or(fault);
                (describe(&small, &found, seed, *level), found)
            }
            Err(_) => (describe(&program, &fault, seed, *level), fault),
        };
        progress(&format!("seed {seed}: {fault}"));
        if let Some(out) = &options.out {
            write(out, seed, &small, &text)?;
        }
        summary.faults.push((seed, text, fault));
        if summary.faults.len() >= options.most_faults {
            break;
        }
    }
    Ok(summary)
}

/// The smallest program that is wrong in the same way.
fn cut_down(program: &Program, fault: &Fault, level: HostLevel, executor: &mut Executor) -> Program {
    if *fault == Fault::Hang {
        // Each try would wait as long.
        return program.clone();
    }
    shrink(program, &mut |candidate| {
        let Ok(prepared) = prepare(candidate) else { return false };
        matches!(prepared.judge(level, executor), Ok(Some(found)) if found.resembles(fault))
    })
}

/// The program, what it ran with, and what is wrong.
fn describe(program: &Program, fault: &Fault, seed: u64, level: HostLevel) -> String {
    let mut text = format!("seed {seed} at host-x86-64-{}\n{}", level.name(), program.text());
    for (name, value) in program.names() {
        let _ = writeln!(text, "{name} = {value}");
    }
    for scalar in &program.scalars {
        let _ = writeln!(text, "{} = {}", scalar.name, scalar.value);
    }
    for tensor in &program.tensors {
        let shape = program.shape(tensor);
        let bytes = tensor.fill.bytes(tensor.element, &shape);
        let values: Vec<String> = crate::oracle::memory::decode(tensor.element, &bytes)
            .iter()
            .take(64)
            .map(|value| match value {
                crate::number::Number::Int(value) => value.to_string(),
                other => other.ends().map_or("NaN".to_owned(), |(value, _)| value.to_string()),
            })
            .collect();
        let _ = writeln!(text, "{}: {} {shape:?} = {}", tensor.name, tensor.element, values.join(" "));
    }
    let _ = writeln!(text, "{fault}");
    text
}

fn write(out: &Path, seed: u64, program: &Program, text: &str) -> io::Result<()> {
    fs::create_dir_all(out)?;
    fs::write(out.join(format!("{seed}.ph")), program.text())?;
    fs::write(out.join(format!("{seed}.txt")), text)
}
