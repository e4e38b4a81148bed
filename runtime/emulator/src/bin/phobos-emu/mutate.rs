//! `--mutate barriers`: which barriers, waits, commits and fences are needed.

use phobos_emulator::{
    Kernel,
    decode::inst::{Op, WarpOp},
};
use serde_json::{Value, json};

use crate::summary::Summary;

/// What a run with one instruction left out showed.
pub struct Mutation {
    pc: u32,
    /// Why it is needed, if it is.
    reason: Option<String>,
}

/// The instructions that `--mutate barriers` leaves out one by one.
pub fn targets(kernel: &Kernel) -> Vec<u32> {
    let waits = |op: &Op| {
        matches!(
            op,
            Op::Barrier(_)
                | Op::Warp { op: WarpOp::Barrier, .. }
                | Op::WaitGroup(_)
                | Op::CommitGroup
                | Op::BulkCommit
                | Op::BulkWait(_)
                | Op::Fence { .. }
        )
    };
    kernel.code.iter().enumerate().filter(|(_, inst)| waits(&inst.op)).map(|(pc, _)| pc as u32).collect()
}

/// The kernel without one of its instructions.
pub fn without(kernel: &Kernel, pc: u32) -> Kernel {
    let mut changed = kernel.clone();
    if let Some(inst) = changed.code.get_mut(pc as usize) {
        inst.op = Op::Nop;
    }
    changed
}

impl Mutation {
    /// What `with` and `without` the instruction was found.
    pub fn of(kernel: &Kernel, pc: u32, with: &Summary, without: &Summary) -> Mutation {
        let new = without.entries.iter().find(|entry| {
            let known = |other: &crate::summary::Entry| {
                other.fault.kind == entry.fault.kind && other.fault.pc == entry.fault.pc
            };
            !with.entries.iter().any(known)
        });
        let reason = match new {
            Some(entry) => {
                let line = kernel.places.get(entry.fault.pc as usize).map_or(0, |place| place.pos.line);
                Some(format!("{} at line {line}", entry.fault.kind.title()))
            }
            None => without.findings.first().map(|finding| finding.message.clone()),
        };
        Mutation { pc, reason }
    }

    fn line(&self, kernel: &Kernel) -> u32 {
        kernel.places.get(self.pc as usize).map_or(0, |place| place.pos.line)
    }

    /// One line.
    pub fn text(&self, kernel: &Kernel, schedules: u64) -> String {
        let line = self.line(kernel);
        let what = match &self.reason {
            Some(reason) => format!("needed: without it {reason}"),
            None => format!("not needed: the same without it in {schedules} schedules"),
        };
        format!("  {}:{line}: {}  {what}\n", kernel.file, kernel.line_text(line))
    }

    /// The same as JSON.
    pub fn json(&self, kernel: &Kernel) -> Value {
        let line = self.line(kernel);
        json!({
            "line": line,
            "text": kernel.line_text(line),
            "needed": self.reason.is_some(),
            "reason": self.reason,
        })
    }
}
