//! What `phobos-emu` prints: results to stdout, as text or as one JSON object.

use std::{fmt::Write as _, io::Write as _};

use phobos_emulator::{Emulator, Kernel, Options, Outcome, Schedule, counters::Counters};
use serde_json::{Value, json};

use crate::arguments::Bound;

/// Collects what is shown.
pub struct Report {
    json: bool,
    text: String,
    runs: Vec<Value>,
    counters: Value,
    values: Value,
    comparisons: Vec<Value>,
}

impl Report {
    /// An empty report; with `json` everything waits for [`Report::finish`].
    pub fn new(json: bool) -> Report {
        Report {
            json,
            text: String::new(),
            runs: Vec::new(),
            counters: Value::Null,
            values: Value::Null,
            comparisons: Vec::new(),
        }
    }

    /// One schedule's outcome.
    pub fn run(&mut self, kernel: &Kernel, options: &Options, outcome: &Outcome, seconds: f64) {
        let schedule = match options.schedule {
            Schedule::Converged => "converged".to_owned(),
            Schedule::Adversarial(seed) => format!("hostile, seed {seed}"),
        };
        let total = outcome.counters.total();
        let rate = total.lane_instructions as f64 / seconds.max(1e-9);
        if self.json {
            self.runs.push(json!({
                "schedule": schedule,
                "seconds": seconds,
                "lane_instructions": total.lane_instructions,
                "faults": outcome.faults.list.iter().map(|fault| fault.json(kernel)).collect::<Vec<_>>(),
                "faults_dropped": outcome.faults.dropped,
            }));
            return;
        }
        let count = outcome.faults.list.len();
        let _ = writeln!(
            self.text,
            "kernel {}, schedule {schedule}: {}, {} lane-instructions in {seconds:.3} s ({:.1} M/s)",
            kernel.name,
            match count {
                0 => "no faults".to_owned(),
                1 => "1 fault".to_owned(),
                n => format!("{n} faults"),
            },
            total.lane_instructions,
            rate / 1e6
        );
        for fault in &outcome.faults.list {
            let _ = write!(self.text, "{}", fault.render(kernel));
        }
        if outcome.faults.dropped > 0 {
            let _ = writeln!(self.text, "and {} more at other places", outcome.faults.dropped);
        }
    }

    /// The counters of the converged schedule.
    pub fn counters(&mut self, kernel: &Kernel, counters: &Counters) {
        if self.json {
            self.counters = json!({
                "total": counters.total(),
                "warp_efficiency": counters.total().warp_efficiency(),
                "by_class": counters.by_class(kernel),
                "by_line": counters.by_line(kernel),
            });
        } else {
            let _ = write!(self.text, "{}", counters.table(kernel));
        }
    }

    /// The first values of each buffer.
    pub fn values(&mut self, emulator: &Emulator, bound: &Bound, count: usize) {
        let mut shown = serde_json::Map::new();
        for buffer in &bound.buffers {
            let Ok(bytes) = bound.read(emulator, buffer.index) else { continue };
            let list: Vec<String> = bytes
                .chunks_exact(buffer.ty.bytes())
                .take(count)
                .map(|bytes| buffer.ty.show(bytes))
                .collect();
            if self.json {
                shown.insert(buffer.index.to_string(), json!(list));
            } else {
                let _ = writeln!(self.text, "argument {}: {}", buffer.index, list.join(" "));
            }
        }
        self.values = Value::Object(shown);
    }

    /// Compares a buffer with expected bytes; true if they are equal.
    pub fn compare(&mut self, index: usize, path: &str, got: &[u8], want: &[u8]) -> bool {
        let first = got.iter().zip(want).position(|(a, b)| a != b);
        let equal = first.is_none() && got.len() == want.len();
        if self.json {
            self.comparisons
                .push(json!({ "argument": index, "file": path, "equal": equal, "first_difference": first }));
        } else if equal {
            let _ = writeln!(self.text, "argument {index} equals {path}");
        } else if let Some(at) = first {
            let _ = writeln!(
                self.text,
                "argument {index} differs from {path} at byte {at}: {:#04x}, expected {:#04x}",
                got[at], want[at]
            );
        } else {
            let _ =
                writeln!(self.text, "argument {index} has {} bytes, {path} has {}", got.len(), want.len());
        }
        equal
    }

    /// Prints everything. A reader that has gone away is no error.
    pub fn finish(mut self) {
        if self.json {
            let object = json!({
                "runs": self.runs,
                "counters": self.counters,
                "values": self.values,
                "comparisons": self.comparisons,
            });
            self.text = format!("{object:#}\n");
        }
        let _ = std::io::stdout().lock().write_all(self.text.as_bytes());
    }
}
