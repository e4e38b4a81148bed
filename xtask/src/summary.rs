//! What the test runners printed: how many tests passed, failed and were skipped, and why.

use std::collections::BTreeSet;
use std::ops::AddAssign;

/// Numbers of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that ran and passed.
    pub passed: u64,
    /// Tests that ran and failed, or could not be run.
    pub failed: u64,
    /// Tests that did not run here.
    pub skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Reads nextest's summary:
/// `Summary [   1.2s] 10 tests run: 8 passed (1 slow), 1 failed, 1 timed out, 3 skipped`.
pub fn nextest(text: &str) -> Option<Counts> {
    let line = text.lines().rfind(|line| line.trim_start().starts_with("Summary ["))?;
    let (_, items) = line.split_once(" run: ")?;
    let mut counts = Counts::default();
    for item in without_parentheses(items).split(',') {
        let (number, what) = item.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match what.trim() {
            "passed" => counts.passed += number,
            "skipped" => counts.skipped += number,
            // failed, exec failed, timed out, ...: whatever it is called, it is not a pass.
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

/// Adds up the result lines of `cargo test`:
/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
pub fn cargo_test(text: &str) -> Option<Counts> {
    let mut counts = None;
    for line in text.lines() {
        let Some((_, items)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            continue;
        };
        let counts = counts.get_or_insert_with(Counts::default);
        for item in items.split(';') {
            let Some((number, what)) = item.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => counts.passed += number,
                "failed" => counts.failed += number,
                "ignored" => counts.skipped += number,
                _ => {}
            }
        }
    }
    counts
}

/// Reads lit's summary: the lines `  Passed: 12 (80.00%)` after `Total Discovered Tests: 15`.
pub fn lit(text: &str) -> Option<Counts> {
    let (_, rows) = text.rsplit_once("Total Discovered Tests:")?;
    let mut counts = Counts::default();
    for line in rows.lines().skip(1) {
        let Some((what, number)) = line.split_once(':') else { continue };
        let Some(number) = number.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()) else {
            continue;
        };
        match what.trim() {
            "Passed" | "Passed With Retry" | "Flakily Passed" | "Expectedly Failed" => {
                counts.passed += number
            }
            "Unsupported" | "Skipped" | "Excluded" => counts.skipped += number,
            // Failed, Unexpectedly Passed, Timed Out, Unresolved.
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

/// The tests that lit did not run because this machine lacks what they require, as skips.
pub fn lit_unsupported(text: &str) -> Vec<Skip> {
    text.lines()
        .filter_map(|line| line.strip_prefix("UNSUPPORTED: "))
        .map(|rest| Skip {
            test: rest.split(" (").next().unwrap_or(rest).to_owned(),
            reason: "needs a feature that this machine lacks".to_owned(),
        })
        .collect()
}

/// One `SKIP: test: reason` line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// The test; with `[case]` at its end when only that case of it was left out.
    pub test: String,
    /// Why it did not run.
    pub reason: String,
}

/// The skips in a text, each once.
pub fn skips(text: &str) -> BTreeSet<Skip> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("SKIP: "))
        .map(|rest| match rest.split_once(": ") {
            Some((test, reason)) => Skip { test: test.to_owned(), reason: reason.to_owned() },
            None => Skip { test: rest.to_owned(), reason: "no reason given".to_owned() },
        })
        .collect()
}

/// How many whole tests those skips are. Their runners count each of them as passed.
pub fn whole_tests<'a>(skips: impl IntoIterator<Item = &'a Skip>) -> u64 {
    let names: BTreeSet<&str> =
        skips.into_iter().map(|skip| skip.test.as_str()).filter(|test| !test.ends_with(']')).collect();
    names.len() as u64
}

/// For tests of this crate that cannot run here; the convention is in CONTRIBUTING.md.
#[cfg(test)]
pub fn skip(test: &str, reason: &str) {
    use std::io::Write;
    eprintln!("SKIP: {test}: {reason}");
    if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "SKIP: {test}: {reason}").unwrap();
    }
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|&c| {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    #[test]
    fn nextest_summaries() {
        let ok = "   Compiling x\n     Summary [   0.012s] 5 tests run: 5 passed, 0 skipped\n";
        assert_eq!(nextest(ok), counts(5, 0, 0));
        let bad = "     Summary [   3.1s] 9 tests run: 6 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 4 skipped\n\
                   error: test run failed\n";
        assert_eq!(nextest(bad), counts(6, 3, 4));
        assert_eq!(
            nextest("     Summary [  1.0s] 2/9 tests run: 1 passed, 1 failed, 0 skipped"),
            counts(1, 1, 0)
        );
        assert_eq!(nextest("     Summary [  1.0s] 1 test run: 1 passed, 0 skipped"), counts(1, 0, 0));
        assert_eq!(nextest("error: could not compile `x`"), None);
    }

    #[test]
    fn cargo_test_results_are_added() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                    test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(cargo_test(text), counts(5, 1, 1));
        assert_eq!(cargo_test("nothing"), None);
    }

    #[test]
    fn lit_rows() {
        let text = "Testing Time: 0.02s\n\nTotal Discovered Tests: 7\n  Unsupported        : 1 (14.29%)\n  \
                    Passed             : 2 (28.57%)\n  Expectedly Failed  : 1 (14.29%)\n  Failed             : 2 (28.57%)\n  \
                    Unexpectedly Passed: 1 (14.29%)\n\n1 warning(s) in tests\n";
        assert_eq!(lit(text), counts(3, 3, 1));
        assert_eq!(lit("error: did not discover any tests for provided path(s)"), None);
        let run = "UNSUPPORTED: Phobos :: run/a.mlir (2 of 4)\nPASS: Phobos :: b.mlir (3 of 4)\n";
        let unsupported = lit_unsupported(run);
        assert_eq!(unsupported.len(), 1);
        assert_eq!(unsupported[0].test, "Phobos :: run/a.mlir");
    }

    #[test]
    fn skips_are_found_once_and_cases_are_not_tests() {
        let text = "SKIP: device::cuda: no GPU\nnoise\n    SKIP: device::cuda: no GPU\n\
                    SKIP: formats[q4_k]: no file\nSKIP: bare\n";
        let found = skips(text);
        assert_eq!(found.len(), 3);
        assert!(found.contains(&Skip { test: "device::cuda".into(), reason: "no GPU".into() }));
        assert_eq!(whole_tests(&found), 2);
    }
}
