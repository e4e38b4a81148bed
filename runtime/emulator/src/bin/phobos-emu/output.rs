//! What `phobos-emu` prints: results to stdout, as text or as one JSON object.

use std::{fmt::Write as _, io::Write as _};

use phobos_emulator::{Emulator, Kernel, Outcome, Schedule, counters::Counters, decode::inst::Op};
use serde_json::{Value, json};

use crate::{
    arguments::{Bound, Type},
    mutate::Mutation,
    policy::{Level, Policy},
    summary::Summary,
};

/// The version of the JSON: `docs/emulator.schema.json` describes it.
const JSON_VERSION: u32 = 1;

/// How a schedule is named.
pub fn schedule_name(schedule: Schedule) -> String {
    match schedule {
        Schedule::Converged => "converged".to_owned(),
        Schedule::Adversarial(seed) => format!("hostile, seed {seed}"),
    }
}

/// Whether sums of floats are formed in the order of the schedule.
pub fn tolerant(kernel: &Kernel) -> bool {
    kernel.code.iter().any(|inst| matches!(&inst.op, Op::Atomic(atomic) if atomic.ty.float()))
}

/// Whether results of atomics are used: an order that differs may be meant.
pub fn ordered_by_atomics(kernel: &Kernel) -> bool {
    kernel.code.iter().any(|inst| matches!(&inst.op, Op::Atomic(atomic) if !atomic.dst.is_empty()))
}

/// A buffer after a run.
pub struct Values {
    /// The argument.
    pub index: usize,
    ty: Type,
    bytes: Vec<u8>,
}

impl Values {
    /// Every buffer.
    pub fn all(emulator: &Emulator, bound: &Bound) -> Vec<Values> {
        let read = |buffer: &crate::arguments::BoundBuffer| {
            let bytes = bound.read(emulator, buffer.index).ok()?;
            Some(Values { index: buffer.index, ty: buffer.ty, bytes })
        };
        bound.buffers.iter().filter_map(read).collect()
    }

    /// The first element that another run gives otherwise, and how many do.
    pub fn differs(&self, other: &Values, tolerant: bool) -> Option<String> {
        if self.bytes == other.bytes {
            return None;
        }
        let size = self.ty.bytes();
        let elements = self.bytes.chunks(size).zip(other.bytes.chunks(size)).enumerate();
        let mut unlike = elements.filter(|(_, (a, b))| a != b && !(tolerant && self.ty.near(a, b)));
        let (at, (a, b)) = unlike.next()?;
        let (a, b) = (self.ty.show(a), self.ty.show(b));
        Some(format!("element {at} is {b}, and was {a} in the first schedule; {} differ", 1 + unlike.count()))
    }
}

/// Collects what is shown.
pub struct Report {
    json: bool,
    text: String,
    /// What follows the reports: values and counters.
    tail: String,
    runs: Vec<Value>,
    counters: Value,
    values: Value,
    comparisons: Vec<Value>,
    summary: Value,
    mutations: Vec<Value>,
    hostile: (u64, u64),
}

impl Report {
    /// An empty report; with `json` everything waits for [`Report::finish`].
    pub fn new(json: bool) -> Report {
        Report {
            json,
            text: String::new(),
            tail: String::new(),
            runs: Vec::new(),
            counters: Value::Null,
            values: Value::Null,
            comparisons: Vec::new(),
            summary: Value::Null,
            mutations: Vec::new(),
            hostile: (0, 0),
        }
    }

    /// One schedule's outcome. As text hostile ones are only counted.
    pub fn run(
        &mut self,
        kernel: &Kernel,
        schedule: Schedule,
        outcome: &Outcome,
        seconds: f64,
        policy: &Policy,
    ) {
        let total = outcome.counters.total();
        let rate = total.lane_instructions as f64 / seconds.max(1e-9);
        let at = |level: Level| {
            outcome.faults.list.iter().filter(|fault| policy.level(kernel, fault) == level).count()
        };
        let faults = at(Level::Fault);
        if self.json {
            self.runs.push(json!({
                "schedule": schedule_name(schedule),
                "seconds": seconds,
                "lane_instructions": total.lane_instructions,
                "faults": outcome.faults.list.iter().map(|fault| fault.json(kernel)).collect::<Vec<_>>(),
                "faults_dropped": outcome.faults.dropped,
                "ended": outcome.ended,
                "printed": outcome.printed,
            }));
            return;
        }
        if !self.runs.is_empty() {
            self.hostile.0 += 1;
            self.hostile.1 += u64::from(faults > 0);
            return;
        }
        self.runs.push(Value::Null);
        self.text.push_str(&outcome.printed);
        let notes = match at(Level::Note) {
            0 => String::new(),
            1 => ", 1 note".to_owned(),
            n => format!(", {n} notes"),
        };
        let _ = writeln!(
            self.text,
            "kernel {}, schedule {}: {}{notes}, {} lane-instructions in {seconds:.3} s ({:.1} M/s)",
            kernel.shown(),
            schedule_name(schedule),
            match faults {
                0 => "no faults".to_owned(),
                1 => "1 fault".to_owned(),
                n => format!("{n} faults"),
            },
            total.lane_instructions,
            rate / 1e6
        );
    }

    /// What all schedules together found.
    pub fn summary(&mut self, kernel: &Kernel, summary: &Summary, policy: &Policy) {
        if self.json {
            self.summary = summary.json(kernel, policy);
            return;
        }
        let (count, faulty) = self.hostile;
        if count > 0 {
            let found = if faulty == 0 { "no faults".to_owned() } else { format!("faults in {faulty}") };
            let _ = writeln!(self.text, "{count} hostile schedules: {found}");
        }
        self.text.push_str(&summary.text(kernel, policy));
    }

    /// What leaving out an instruction showed.
    pub fn mutation(&mut self, kernel: &Kernel, mutation: &Mutation, schedules: u64) {
        if self.json {
            self.mutations.push(mutation.json(kernel));
            return;
        }
        if self.mutations.is_empty() {
            self.text.push_str("barriers, waits, commits and fences, each left out:\n");
            self.mutations.push(Value::Null);
        }
        self.text.push_str(&mutation.text(kernel, schedules));
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
            let _ = write!(self.tail, "{}", counters.table(kernel));
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
                let _ = writeln!(self.tail, "argument {}: {}", buffer.index, list.join(" "));
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
        self.text.push_str(&self.tail);
        if self.json {
            let object = json!({
                "version": JSON_VERSION,
                "summary": self.summary,
                "mutations": self.mutations,
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
