//! `cargo xtask test`: everything that has to hold, in stages.

use crate::binaries;
use crate::error::{Error, Result};
use crate::model;
use crate::process::{self, Transcript};
use crate::progress::{note, seconds};
use crate::setup;
use crate::summary::{self, Counts, Skip};
use crate::workspace::Workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIT: &str = "/usr/lib/llvm-22/bin/lit";

/// The stages, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Setup,
    Model,
    Format,
    Clippy,
    Build,
    Unit,
    Doc,
    Lit,
}

impl Stage {
    const ALL: [Self; 8] =
        [Self::Setup, Self::Model, Self::Format, Self::Clippy, Self::Build, Self::Unit, Self::Doc, Self::Lit];

    fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Model => "model",
            Self::Format => "fmt",
            Self::Clippy => "clippy",
            Self::Build => "build",
            Self::Unit => "unit",
            Self::Doc => "doc",
            Self::Lit => "lit",
        }
    }

    /// Without what nothing after it can work.
    fn is_a_condition(self) -> bool {
        matches!(self, Self::Setup | Self::Model | Self::Build)
    }

    /// What a stage that the user asks for by name has to have before it.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Setup | Self::Model | Self::Format => &[],
            Self::Clippy | Self::Build | Self::Doc => &[Self::Setup],
            Self::Unit | Self::Lit => &[Self::Setup, Self::Model, Self::Build],
        }
    }
}

/// What a stage found.
#[derive(Debug, Default)]
struct Outcome {
    failed: bool,
    counts: Counts,
    skips: BTreeSet<Skip>,
}

/// Runs all stages, or those named and what they need, and prints a report that ends in
/// `N passed, N failed, N skipped` alone on its line.
pub fn test(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let stages = select(arguments)?;
    // Tests append here, since nextest shows nothing of a test that passes.
    let log = workspace.target().join("skipped-tests.log");
    let mut report = Report::default();
    for stage in stages {
        note(&format!("== {} ==", stage.name()));
        let start = Instant::now();
        let outcome = run(stage, workspace, &log).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            Outcome { failed: true, ..Outcome::default() }
        });
        let failed = outcome.failed;
        report.add(stage, start.elapsed(), outcome);
        if failed && stage.is_a_condition() {
            break;
        }
    }
    print!("{}", report.text());
    if report.failed.is_empty() { Ok(()) } else { Err(Error::Tests(report.failed)) }
}

/// `cargo xtask fmt-check`.
pub fn format_check(workspace: &Workspace) -> Result<()> {
    process::run(&mut process::cargo(workspace, &["fmt", "--all", "--check"]))
}

fn select(arguments: &[String]) -> Result<Vec<Stage>> {
    if arguments.is_empty() {
        return Ok(Stage::ALL.to_vec());
    }
    let mut wanted = Vec::new();
    for argument in arguments {
        let Some(stage) = Stage::ALL.into_iter().find(|stage| stage.name() == argument) else {
            let names: Vec<&str> = Stage::ALL.iter().map(|stage| stage.name()).collect();
            return Err(Error::Usage(format!("no test stage `{argument}` (there are {})", names.join(", "))));
        };
        wanted.push(stage);
        wanted.extend(stage.needs());
    }
    Ok(Stage::ALL.into_iter().filter(|stage| wanted.contains(stage)).collect())
}

fn run(stage: Stage, workspace: &Workspace, log: &Path) -> Result<Outcome> {
    let done = |()| Outcome::default();
    match stage {
        Stage::Setup => setup::ensure(&[setup::COMPILER, model::needs(workspace)]).map(done),
        Stage::Model => model::fetch_default(workspace).map(|_| Outcome::default()),
        Stage::Format => format_check(workspace).map(done),
        Stage::Clippy => {
            let arguments = ["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"];
            process::run(&mut process::cargo(workspace, &arguments)).map(done)
        }
        Stage::Build => binaries::build(workspace).map(done),
        Stage::Unit => unit(workspace, log),
        Stage::Doc => doc(workspace),
        Stage::Lit => lit(workspace),
    }
}

fn unit(workspace: &Workspace, log: &Path) -> Result<Outcome> {
    fs::create_dir_all(workspace.target()).map_err(Error::io("create", workspace.target()))?;
    fs::write(log, "").map_err(Error::io("empty", log))?;
    let nextest = process::succeeds(&mut process::cargo(workspace, &["nextest", "--version"]));
    let arguments: &[&str] = if nextest {
        &["nextest", "run", "--release", "--workspace", "--no-fail-fast", "--status-level", "slow"]
    } else {
        note("cargo-nextest is not installed: using `cargo test`, which is slower and shows skips inline");
        &["test", "--release", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]
    };
    let mut command = process::cargo(workspace, arguments);
    command
        .env("PHOBOS_REQUIRE_COMPILER", "1")
        .env("PHOBOS_COMPILE", workspace.bin().join("phobos-compile"))
        .env("PHOBOS_SKIP_LOG", log);
    let transcript = process::tee(&mut command)?;
    let read = if nextest { summary::nextest } else { summary::cargo_test };
    let mut outcome = judge(&transcript, read(&transcript.text));
    let logged = fs::read_to_string(log).map_err(Error::io("read", log))?;
    outcome.skips = summary::skips(&(transcript.text + "\n" + &logged));
    // To its runner a test that skips itself has passed.
    let skipped = summary::whole_tests(&outcome.skips).min(outcome.counts.passed);
    outcome.counts.passed -= skipped;
    outcome.counts.skipped += skipped;
    Ok(outcome)
}

fn doc(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo(workspace, &["test", "--doc", "--release", "--workspace"]);
    let transcript = process::tee(&mut command)?;
    Ok(judge(&transcript, summary::cargo_test(&transcript.text)))
}

fn lit(workspace: &Workspace) -> Result<Outcome> {
    let directory: PathBuf = workspace.root().join("lit-tests");
    let mut command = Command::new(LIT);
    command.args(["-v", "--show-unsupported"]).arg(directory).env("PHOBOS_BIN", workspace.bin());
    let transcript = process::tee(&mut command)?;
    let mut outcome = judge(&transcript, summary::lit(&transcript.text));
    outcome.skips = summary::lit_unsupported(&transcript.text).into_iter().collect();
    Ok(outcome)
}

/// A runner that failed without counting a failure, or that counted nothing, has failed.
fn judge(transcript: &Transcript, counts: Option<Counts>) -> Outcome {
    let failed = !transcript.success || counts.is_none_or(|counts| counts.failed > 0);
    Outcome { failed, counts: counts.unwrap_or_default(), skips: BTreeSet::new() }
}

#[derive(Debug, Default)]
struct Report {
    rows: Vec<String>,
    counts: Counts,
    skips: BTreeSet<Skip>,
    failed: Vec<&'static str>,
    time: Duration,
}

impl Report {
    fn add(&mut self, stage: Stage, time: Duration, outcome: Outcome) {
        let state = if outcome.failed { "FAILED" } else { "ok" };
        self.rows.push(format!("{:<8} {state:<6} {:>12}", stage.name(), seconds(time)));
        if outcome.failed {
            self.failed.push(stage.name());
        }
        self.counts += outcome.counts;
        self.skips.extend(outcome.skips);
        self.time += time;
    }

    fn text(&self) -> String {
        let mut text = String::from("\n");
        for row in &self.rows {
            text.push_str(&format!("{row}\n"));
        }
        text.push_str(&format!("{:<8} {:<6} {:>12}\n", "total", "", seconds(self.time)));
        if !self.skips.is_empty() {
            text.push_str("\nskipped here:\n");
            for skip in &self.skips {
                text.push_str(&format!("  {}: {}\n", skip.test, skip.reason));
            }
        }
        let Counts { passed, failed, skipped } = self.counts;
        text.push_str(&format!("\n{passed} passed, {failed} failed, {skipped} skipped\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        select(&arguments).unwrap().into_iter().map(Stage::name).collect()
    }

    #[test]
    fn a_named_stage_brings_what_it_needs_in_order() {
        assert_eq!(names(&[]).len(), 8);
        assert_eq!(names(&["fmt"]), ["fmt"]);
        assert_eq!(names(&["lit", "fmt"]), ["setup", "model", "fmt", "build", "lit"]);
        let error = select(&["lints".to_owned()]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn a_runner_that_counts_nothing_has_failed() {
        let quiet = Transcript { text: String::new(), success: true };
        assert!(judge(&quiet, None).failed);
        let crashed = Transcript { text: String::new(), success: false };
        assert!(judge(&crashed, Some(Counts { passed: 1, ..Counts::default() })).failed);
        assert!(!judge(&quiet, Some(Counts { passed: 1, ..Counts::default() })).failed);
    }

    #[test]
    fn the_report_closes_with_the_counts_alone_on_a_line() {
        let mut report = Report::default();
        let counts = Counts { passed: 3, failed: 1, skipped: 1 };
        let skips = BTreeSet::from([Skip { test: "a::b".into(), reason: "no GPU".into() }]);
        report.add(Stage::Unit, Duration::from_secs(2), Outcome { failed: true, counts, skips });
        report.add(Stage::Lit, Duration::from_secs(1), Outcome { counts, ..Outcome::default() });
        let text = report.text();
        assert_eq!(text.lines().last(), Some("6 passed, 2 failed, 2 skipped"));
        assert!(text.contains("  a::b: no GPU\n"), "{text}");
        assert!(text.contains("unit     FAILED        2.0 s\n"), "{text}");
        assert_eq!(report.failed, ["unit"]);
    }
}
