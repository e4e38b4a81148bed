//! Faults: what a run did wrong, where, and how it is shown.

mod kind;
mod render;

use std::{collections::HashMap, sync::Arc};

use serde::Serialize;

pub use kind::{FaultKind, Severity};

/// A thread's place in the launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadPlace {
    /// The CTA in the grid.
    pub cta: [u32; 3],
    /// The thread in the CTA.
    pub thread: [u32; 3],
    /// Its warp.
    pub warp: u32,
    /// Its lane.
    pub lane: u32,
}

/// The other side of a race, or who waits where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The instruction.
    pub pc: u32,
    /// The thread.
    pub thread: ThreadPlace,
    /// What it did: "wrote", "read", "waits", ...
    pub what: String,
}

/// One fault, of all those at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The instruction.
    pub pc: u32,
    /// The first thread it happened to.
    pub thread: ThreadPlace,
    /// The first address it happened at.
    pub address: Option<u64>,
    /// What happened.
    pub message: String,
    /// The other sides.
    pub others: Vec<Side>,
    /// How often it happened.
    pub count: u64,
}

/// The most distinct faults kept, and the most notes.
pub const MAX_FAULTS: usize = 100;
/// The most races of one kind kept that share a side: an unrolled loop would fill
/// the list.
const MAX_PARTNERS: u32 = 4;

/// Faults found so far, one for each kind and place: the source line where there
/// is one, else the instruction; for races the pair of them.
#[derive(Debug, Default)]
pub struct Faults {
    /// In order of discovery.
    pub list: Vec<Fault>,
    index: HashMap<(FaultKind, u32, u32), usize>,
    /// By instruction: the first one with the same source line.
    places: Arc<[u32]>,
    /// How many races were kept by kind and side.
    sides: HashMap<(FaultKind, u32), u32>,
    /// Faults at places that were not kept.
    pub dropped: u64,
}

impl Faults {
    /// No faults yet; `places` is [`crate::Kernel::place_ids`].
    pub fn new(places: Arc<[u32]>) -> Faults {
        Faults { places, ..Faults::default() }
    }

    fn key(&self, kind: FaultKind, pc: u32, other_pc: u32) -> (FaultKind, u32, u32) {
        let place = |pc: u32| self.places.get(pc as usize).copied().unwrap_or(pc);
        let (a, b) = (place(pc), place(other_pc));
        // A race is one place whichever side came last.
        if other_pc == u32::MAX { (kind, a, b) } else { (kind, a.min(b), a.max(b)) }
    }

    /// Counts a fault of `kind` at `pc` (against `other_pc`, for races); `make`
    /// builds it when it is the first there.
    pub fn report(&mut self, kind: FaultKind, pc: u32, other_pc: u32, make: impl FnOnce() -> Fault) {
        let key = self.key(kind, pc, other_pc);
        if let Some(at) = self.index.get(&key) {
            self.list[*at].count += 1;
        } else if self.admit(key) {
            self.index.insert(key, self.list.len());
            self.list.push(make());
        } else {
            self.dropped += 1;
        }
    }

    /// Whether a fault at a new place is kept.
    fn admit(&mut self, key: (FaultKind, u32, u32)) -> bool {
        let (kind, a, b) = key;
        // Notes may not crowd out faults.
        let alike = self.list.iter().filter(|fault| fault.kind.severity() == kind.severity()).count();
        if alike >= MAX_FAULTS {
            return false;
        }
        if !kind.is_race() {
            return true;
        }
        let count = |side| self.sides.get(&(kind, side)).copied().unwrap_or(0);
        if count(a).max(count(b)) >= MAX_PARTNERS {
            return false;
        }
        *self.sides.entry((kind, a)).or_default() += 1;
        if a != b {
            *self.sides.entry((kind, b)).or_default() += 1;
        }
        true
    }

    /// Whether any report is a fault and not a note.
    pub fn any_fault(&self) -> bool {
        self.list.iter().any(|fault| fault.kind.severity() == Severity::Fault)
    }

    /// Adds the faults of a later part of the run.
    pub fn merge(&mut self, later: Faults) {
        for fault in later.list {
            let other =
                fault.others.first().filter(|_| fault.kind.is_race()).map_or(u32::MAX, |side| side.pc);
            let key = self.key(fault.kind, fault.pc, other);
            if let Some(at) = self.index.get(&key) {
                self.list[*at].count += fault.count;
            } else if self.admit(key) {
                self.index.insert(key, self.list.len());
                self.list.push(fault);
            } else {
                self.dropped += fault.count;
            }
        }
        self.dropped += later.dropped;
    }
}
