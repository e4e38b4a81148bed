//! The table: its rows as they come, then what is not in it and why.

use crate::bench::machine::Peak;
use crate::bench::spread;
use crate::error::{Error, Result};
use crate::progress::note;

/// What the ratio of a row is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// Of speeds.
    AtLeast(f64),
    /// Of times and sizes.
    AtMost(f64),
}

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub what: String,
    /// Absent where they do not matter.
    pub threads: Option<usize>,
    /// Of the values of both.
    pub unit: &'static str,
    pub ours: Vec<f64>,
    /// What Phobos is measured beside.
    pub peer: String,
    pub theirs: Vec<f64>,
    /// Ours by theirs.
    pub ratio: f64,
    pub bar: Option<Bar>,
    /// Measured in the same turns.
    pub peak: Option<Peak>,
    /// The machine had other work, and the row is to be measured again.
    pub disturbed: bool,
}

impl Bar {
    /// What the bar says, and whether `ratio` is on its right side. Of NaN it is not.
    fn columns(self, ratio: f64) -> (String, &'static str) {
        let (text, met) = match self {
            Self::AtLeast(bar) => (format!("≥ {bar:.1}"), ratio >= bar),
            Self::AtMost(bar) => (format!("≤ {bar:.1}"), ratio <= bar),
        };
        (text, if met { "met" } else { "not met" })
    }
}

const HEAD: &str = "\
| what | threads | Phobos | beside | its value | ratio | bar | | f32 peak, GFLOP/s | read, GB/s |
| --- | ---: | ---: | --- | ---: | ---: | ---: | --- | ---: | ---: |";

const DISTURBED: &str = "\
Disturbed: something else had the cores, since other processes kept too many busy or the f32 peak was more than a \
tenth below the best of this table. That need not meet both programs alike, so the row decides nothing: measure it \
again.";

impl Row {
    fn markdown(&self) -> String {
        let Self { what, threads, unit, ours, peer, theirs, ratio, bar, peak, disturbed } = self;
        let threads = threads.map(|threads| threads.to_string()).unwrap_or_default();
        let value = |values: &[f64]| {
            let decimals = if values.iter().all(|value| *value < 10.0) { 2 } else { 1 };
            match values {
                [only] => format!("{only:.decimals$} {unit}"),
                _ => format!("{} {unit}", spread(values, decimals)),
            }
        };
        let (bar, met) = bar.map_or_else(Default::default, |bar| bar.columns(*ratio));
        let verdict = match (met, disturbed) {
            (met, false) => met.to_owned(),
            ("", true) => "disturbed".to_owned(),
            (met, true) => format!("{met}, but disturbed"),
        };
        let peaks = match peak {
            Some(peak) => format!("{:.1} | {:.1}", peak.gflops, peak.read_gb_per_s),
            None => " | ".to_owned(),
        };
        let (ours, theirs) = (value(ours), value(theirs));
        format!(
            "| {what} | {threads} | {ours} | {peer} | {theirs} | {ratio:.2} | {bar} | {verdict} | {peaks} |"
        )
    }
}

/// What was printed and what there is yet to say.
#[derive(Debug, Default)]
pub struct Report {
    remarks: Vec<String>,
    missing: Vec<String>,
}

impl Report {
    /// Prints the head of the table.
    pub fn begin() -> Self {
        println!("{HEAD}");
        Self::default()
    }

    /// Measures rows and prints them, or remembers why there are none.
    pub fn rows(&mut self, what: &str, measure: impl FnOnce() -> Result<Vec<Row>>) {
        for row in self.have(what, measure).unwrap_or_default() {
            if row.disturbed {
                self.remark(DISTURBED.to_owned());
            }
            println!("{}", row.markdown());
        }
    }

    /// What the rows of `what` need; where it cannot be had, they are missing.
    pub fn have<T>(&mut self, what: &str, get: impl FnOnce() -> Result<T>) -> Option<T> {
        match get() {
            Ok(value) => Some(value),
            Err(error) => {
                // Now, for who waits, and in the end, for who reads the table.
                note(&format!("{what}: {error}"));
                self.missing.push(format!("{what}: {error}"));
                None
            }
        }
    }

    /// A line below the table, once.
    pub fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    /// Prints what stands below the table; fails where a row is missing.
    pub fn end(self) -> Result<()> {
        println!();
        for remark in &self.remarks {
            println!("- {remark}");
        }
        for missing in &self.missing {
            println!("- Not measured: {}", missing.replace('\n', " "));
        }
        if self.missing.is_empty() { Ok(()) } else { Err(Error::Unmeasured { rows: self.missing.len() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            what: "decode 64".to_owned(),
            threads: Some(2),
            unit: "tokens/s",
            ours: vec![50.0, 40.0, 45.0],
            peer: "llama.cpp".to_owned(),
            theirs: vec![90.0, 80.0, 100.0],
            ratio: 0.5,
            bar: Some(Bar::AtLeast(2.0)),
            peak: Some(Peak { threads: 2, gflops: 538.04, read_gb_per_s: 40.66 }),
            disturbed: false,
        }
    }

    #[test]
    fn a_row_says_whether_its_bar_is_met() {
        let text = "| decode 64 | 2 | 45.0 (40.0 to 50.0) tokens/s | llama.cpp | 90.0 (80.0 to 100.0) tokens/s \
                    | 0.50 | ≥ 2.0 | not met | 538.0 | 40.7 |";
        assert_eq!(row().markdown(), text);
        let met = Row { bar: Some(Bar::AtMost(0.5)), ..row() };
        assert!(met.markdown().contains("| 0.50 | ≤ 0.5 | met |"), "{}", met.markdown());
    }

    #[test]
    fn what_a_row_has_not_is_empty() {
        let bare =
            Row { threads: None, bar: None, peak: None, ours: vec![0.125], theirs: vec![0.25], ..row() };
        assert_eq!(
            bare.markdown(),
            "| decode 64 |  | 0.12 tokens/s | llama.cpp | 0.25 tokens/s | 0.50 |  |  |  |  |"
        );
    }

    #[test]
    fn a_disturbed_row_says_so() {
        let disturbed = Row { disturbed: true, ..row() };
        assert!(disturbed.markdown().contains("| not met, but disturbed |"), "{}", disturbed.markdown());
        assert!(Row { bar: None, ..disturbed }.markdown().contains("|  | disturbed |"));
    }

    #[test]
    fn a_ratio_below_its_bar_is_not_rounded_up_to_it() {
        assert_eq!(Bar::AtLeast(2.0).columns(1.999).1, "not met");
        assert_eq!(Bar::AtMost(1.0).columns(1.001).1, "not met");
        assert_eq!(Bar::AtLeast(2.0).columns(2.0).1, "met");
        assert_eq!(Bar::AtLeast(2.0).columns(f64::NAN).1, "not met");
    }

    #[test]
    fn columns_of_head_and_rows() {
        let bars = |line: &str| line.matches('|').count();
        assert!(HEAD.lines().chain([row().markdown().as_str()]).all(|line| bars(line) == 11));
    }

    #[test]
    fn a_missing_row_costs_no_other_and_ends_in_a_failure() {
        let mut report = Report::default();
        assert_eq!(report.have("a", || Ok(1)), Some(1));
        assert!(Report::default().end().is_ok());
        assert_eq!(report.have("b", || Err::<u32, _>(Error::Setup("no network".to_owned()))), None);
        report.rows("c", || Ok(vec![row()]));
        assert_eq!(report.missing, ["b: no network"]);
        assert!(matches!(report.end(), Err(Error::Unmeasured { rows: 1 })));
    }
}
