//! `cargo xtask bench host`: how fast Phobos is on the host beside its peers, row by row, each with its bar.
//!
//! Phobos and the peer of a row take turns, and the peaks of the machine are measured in every turn: so what
//! else the machine does meets all of them alike. A row is printed as soon as it is measured, and one that
//! cannot be measured costs no other.

mod file;
mod gemm;
mod load;
mod memory;
mod report;
mod speed;

use super::machine::{Calibration, Machine, Peak};
use super::others::{self, Watch};
use super::{median, number, print_commit};
use crate::binaries;
use crate::error::{Error, Result};
use crate::progress::{note, step};
use crate::setup;
use crate::workspace::Workspace;
use report::{Bar, Report, Row};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What phobos-bench and phobos-cli run a model with where nothing stands after `--`: quantised activations, as
/// llama.cpp has them.
const OURS_DEFAULT: &[&str] = &["--act", "q8"];

/// A row counts as disturbed where the peak beside it is below this part of the best of the whole run, as well as
/// where others left its threads too few cores. Neither sees all: the peak may be low from the start, and others
/// may be outside of what the system counts.
const QUIET: f64 = 0.9;

/// Rows that are measured together, and what `--only` calls them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Decode,
    Prefill,
    Formats,
    Context,
    Gemm,
    Load,
    Gemma3,
    Memory,
}

const GROUPS: [(&str, Group); 8] = [
    ("decode", Group::Decode),
    ("prefill", Group::Prefill),
    ("formats", Group::Formats),
    ("context", Group::Context),
    ("gemm", Group::Gemm),
    ("load", Group::Load),
    ("gemma3", Group::Gemma3),
    ("memory", Group::Memory),
];

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    threads: Vec<usize>,
    runs: u32,
    groups: Vec<Group>,
    /// How a model runs: arguments of phobos-bench and phobos-cli.
    ours: Vec<String>,
}

/// Builds, measures and prints a table in Markdown.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    setup::ensure(&[setup::COMPILER])?;
    binaries::build(workspace)?;
    let calibration = step("build the calibration", || Calibration::build(workspace))?;
    let machine = Machine::describe(workspace, &options.threads)?;
    let quiet = machine.peaks().iter().map(|peak| (peak.threads, peak.gflops)).collect();
    let host = Host { workspace, options, calibration, best: RefCell::new(quiet) };

    print_commit(workspace);
    println!(", median (lowest to highest) of {} runs each, in turns.", host.options.runs);
    match host.options.ours.join(" ") {
        ours if ours.is_empty() => println!("Phobos ran with its defaults."),
        ours => println!("Phobos ran with `{ours}`."),
    }
    machine.print();
    let mut report = Report::begin();
    for (_, group) in GROUPS.iter().filter(|(_, group)| host.options.groups.contains(group)) {
        match group {
            Group::Decode => speed::decode(&host, &mut report),
            Group::Prefill => speed::prefill(&host, &mut report),
            Group::Formats => speed::formats(&host, &mut report),
            Group::Context => speed::context(&host, &mut report),
            Group::Gemm => gemm::rows(&host, &mut report),
            Group::Load => load::rows(&host, &mut report),
            Group::Gemma3 => speed::gemma3(&host, &mut report),
            Group::Memory => memory::rows(&host, &mut report),
        }
    }
    report.end()
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        threads: vec![1, 2],
        runs: 5,
        groups: GROUPS.iter().map(|(_, group)| *group).collect(),
        ours: OURS_DEFAULT.iter().map(|&word| word.to_owned()).collect(),
    };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        if name == "--" {
            options.ours = rest.cloned().collect();
            break;
        }
        if !["--threads", "--runs", "--only"].contains(&name.as_str()) {
            return Err(Error::Usage(format!("bench host has no option `{name}`")));
        }
        let value = rest.next().ok_or_else(|| Error::Usage(format!("{name} needs a value")))?;
        match name.as_str() {
            "--threads" => {
                options.threads =
                    value.split(',').map(|part| number(name, part, 1024)).collect::<Result<Vec<usize>>>()?;
            }
            "--runs" => options.runs = number(name, value, 1000)?,
            _ => options.groups = value.split(',').map(group).collect::<Result<Vec<Group>>>()?,
        }
    }
    Ok(options)
}

fn group(name: &str) -> Result<Group> {
    let known = GROUPS.iter().find(|(known, _)| *known == name).map(|(_, group)| *group);
    known.ok_or_else(|| {
        let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        Error::Usage(format!("--only: there are no rows `{name}` (there are {})", names.join(", ")))
    })
}

/// What the groups share.
struct Host<'a> {
    workspace: &'a Workspace,
    options: Options,
    calibration: Calibration,
    /// The highest peak of multiply-adds so far, by number of threads.
    best: RefCell<BTreeMap<usize, f64>>,
}

impl Host<'_> {
    /// The path of a program of ours.
    fn program(&self, name: &str) -> PathBuf {
        self.workspace.bin().join(name)
    }

    /// The most threads of those asked for: where a row is measured with one number of them only.
    fn most_threads(&self) -> usize {
        self.options.threads.iter().copied().max().unwrap_or(1)
    }

    /// Measures Phobos, the peer and the machine, again and again one after the other.
    fn turns(
        &self,
        what: &str,
        threads: usize,
        mut ours: impl FnMut() -> Result<f64>,
        mut theirs: impl FnMut() -> Result<f64>,
    ) -> Result<Turns> {
        let mut turns = Turns::new(threads);
        let mut others = Vec::new();
        for run in 1..=self.options.runs {
            note(&format!("{what}, {threads} thread(s), run {run} of {}", self.options.runs));
            let watch = Watch::start();
            turns.ours.push(ours()?);
            turns.theirs.push(theirs()?);
            turns.peaks.push(self.calibration.peak(threads)?);
            others.extend(watch.busy_cores());
        }
        let peaks: Vec<f64> = turns.peaks.iter().map(|peak| peak.gflops).collect();
        let mut best = self.best.borrow_mut();
        let best = best.entry(threads).or_default();
        *best = peaks.iter().copied().fold(*best, f64::max);
        let busy = median(&others);
        // Of nothing the median is NaN, which crowds nobody.
        turns.disturbed = median(&peaks) < QUIET * *best || others::crowded(threads, busy);
        if turns.disturbed {
            note(&format!("{what}: disturbed; others kept {busy:.2} cores busy"));
        }
        Ok(turns)
    }
}

/// What the turns came to, run by run.
#[derive(Debug)]
struct Turns {
    threads: usize,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    peaks: Vec<Peak>,
    /// Something else had the cores. That need not meet both programs alike: one that waits for its threads in a
    /// loop loses far more by it than one that does not.
    disturbed: bool,
}

impl Turns {
    fn new(threads: usize) -> Self {
        Self { threads, ours: Vec::new(), theirs: Vec::new(), peaks: Vec::new(), disturbed: false }
    }

    fn row(&self, what: &str, unit: &'static str, peer: &str, bar: Option<Bar>) -> Row {
        Row {
            what: what.to_owned(),
            threads: Some(self.threads),
            unit,
            ours: self.ours.clone(),
            peer: peer.to_owned(),
            theirs: self.theirs.clone(),
            ratio: median(&self.ours) / median(&self.theirs),
            bar,
            peak: self.peak(),
            disturbed: self.disturbed,
        }
    }

    /// The median of each limit.
    fn peak(&self) -> Option<Peak> {
        let of = |limit: fn(&Peak) -> f64| median(&self.peaks.iter().map(limit).collect::<Vec<_>>());
        let (gflops, read_gb_per_s) = (of(|peak| peak.gflops), of(|peak| peak.read_gb_per_s));
        (!self.peaks.is_empty()).then_some(Peak { threads: self.threads, gflops, read_gb_per_s })
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
        let all = parse(&[]).unwrap();
        assert_eq!((all.threads, all.runs, all.groups.len()), (vec![1, 2], 5, GROUPS.len()));
        assert_eq!(all.ours, OURS_DEFAULT);
        let some = parse(&words("--runs 7 --threads 2 --only gemm,decode -- --act q8 --kv f32")).unwrap();
        assert_eq!((some.threads, some.runs), (vec![2], 7));
        assert_eq!(some.groups, [Group::Gemm, Group::Decode]);
        assert_eq!(some.ours, ["--act", "q8", "--kv", "f32"]);
        assert!(parse(&words("--runs 2 --")).unwrap().ours.is_empty());
    }

    #[test]
    fn bad_options_are_named() {
        for (line, text) in [
            ("--runs", "--runs needs a value"),
            ("--runs 0", "`0` is no number from 1 to 1000"),
            ("--threads 1,,2", "`` is no number from 1 to 1024"),
            ("--only decode,speed", "no rows `speed` (there are decode, prefill, formats,"),
            ("--fast", "no option `--fast`"),
        ] {
            let error = parse(&words(line)).unwrap_err();
            assert!(error.to_string().contains(text), "{line}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn a_row_out_of_turns_has_medians_of_all_three() {
        let peak = |gflops, read_gb_per_s| Peak { threads: 2, gflops, read_gb_per_s };
        let turns = Turns {
            threads: 2,
            ours: vec![50.0, 40.0, 45.0],
            theirs: vec![90.0, 80.0, 100.0],
            peaks: vec![peak(100.0, 9.0), peak(300.0, 8.0), peak(200.0, 7.0)],
            disturbed: true,
        };
        let row = turns.row("decode 64", "tokens/s", "a peer", Some(Bar::AtLeast(0.5)));
        assert_eq!(row.ratio, 0.5);
        assert_eq!(row.peak, Some(peak(200.0, 8.0)));
        assert_eq!((row.threads, row.disturbed), (Some(2), true));
    }
}
