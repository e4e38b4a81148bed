//! What all schedules together found: each report once, with the schedules that
//! have it.

use std::collections::HashMap;

use phobos_emulator::{Fault, FaultKind, Kernel, report::Faults};
use serde_json::{Value, json};

use crate::policy::{Level, Policy};

/// A report with how many schedules have it.
pub struct Entry {
    pub fault: Fault,
    pub schedules: u64,
    /// The first schedule that has it.
    pub first: String,
}

/// A report about a result, which stands at no instruction.
pub struct Finding {
    pub kind: FaultKind,
    pub level: Level,
    pub message: String,
}

/// All reports so far.
#[derive(Default)]
pub struct Summary {
    pub entries: Vec<Entry>,
    pub findings: Vec<Finding>,
    index: HashMap<(FaultKind, u32, u32), usize>,
    /// Schedules run.
    pub schedules: u64,
    /// Reports at places that were not kept.
    pub dropped: u64,
}

impl Summary {
    /// Adds what a schedule found.
    pub fn add(&mut self, kernel: &Kernel, schedule: &str, faults: &Faults) {
        self.schedules += 1;
        self.dropped += faults.dropped;
        for fault in &faults.list {
            let place = |pc: u32| kernel.place_ids.get(pc as usize).copied().unwrap_or(pc);
            let here = place(fault.pc);
            let other = fault.others.first().filter(|_| fault.kind.is_race()).map(|side| place(side.pc));
            // A race is one place whichever side came last.
            let key = match other {
                Some(other) => (fault.kind, here.min(other), here.max(other)),
                None => (fault.kind, here, u32::MAX),
            };
            match self.index.get(&key).and_then(|at| self.entries.get_mut(*at)) {
                Some(entry) => entry.schedules += 1,
                None => {
                    self.index.insert(key, self.entries.len());
                    self.entries.push(Entry {
                        fault: fault.clone(),
                        schedules: 1,
                        first: schedule.to_owned(),
                    });
                }
            }
        }
    }

    /// Adds a report about a result, once.
    pub fn find(&mut self, kind: FaultKind, level: Level, message: String) {
        if !self.findings.iter().any(|finding| finding.kind == kind && finding.message == message) {
            self.findings.push(Finding { kind, level, message });
        }
    }

    /// Whether anything counts as a fault.
    pub fn failed(&self, kernel: &Kernel, policy: &Policy) -> bool {
        self.entries.iter().any(|entry| policy.level(kernel, &entry.fault) == Level::Fault)
            || self.findings.iter().any(|finding| finding.level == Level::Fault)
    }

    /// As text, faults before notes; what is allowed is only counted.
    pub fn text(&self, kernel: &Kernel, policy: &Policy) -> String {
        let mut text = String::new();
        let mut allowed = 0;
        for level in [Level::Fault, Level::Note] {
            for entry in self.entries.iter().filter(|entry| policy.level(kernel, &entry.fault) == level) {
                text.push_str(&entry.fault.render_as(kernel, level.word()));
                if self.schedules > 1 {
                    let first = &entry.first;
                    text.push_str(&format!(
                        "  in {} of {} schedules, first in {first}\n",
                        entry.schedules, self.schedules
                    ));
                }
            }
            for finding in self.findings.iter().filter(|finding| finding.level == level) {
                text.push_str(&format!("{}: {}: {}\n", level.word(), finding.kind.title(), finding.message));
            }
        }
        allowed +=
            self.entries.iter().filter(|entry| policy.level(kernel, &entry.fault) == Level::Allowed).count();
        allowed += self.findings.iter().filter(|finding| finding.level == Level::Allowed).count();
        if allowed > 0 {
            text.push_str(&format!("{allowed} allowed\n"));
        }
        if self.dropped > 0 {
            text.push_str(&format!("and {} more at other places\n", self.dropped));
        }
        text
    }

    /// As JSON.
    pub fn json(&self, kernel: &Kernel, policy: &Policy) -> Value {
        let entries = self.entries.iter().map(|entry| {
            let mut value = entry.fault.json(kernel);
            value["level"] = json!(policy.level(kernel, &entry.fault).word());
            value["schedules"] = json!(entry.schedules);
            value["first_schedule"] = json!(entry.first);
            value
        });
        let findings = self.findings.iter().map(|finding| {
            json!({ "kind": finding.kind, "level": finding.level.word(), "message": finding.message })
        });
        json!({
            "schedules": self.schedules,
            "reports": entries.collect::<Vec<_>>(),
            "findings": findings.collect::<Vec<_>>(),
            "dropped": self.dropped,
        })
    }
}
