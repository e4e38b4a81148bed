//! Races between CTAs that ran in waves: no two of them are ordered, so any
//! conflicting pair of accesses is one.

use std::collections::HashMap;

use crate::{
    launch::Geometry,
    memory::{
        global::GlobalMemory,
        overlay::{Changes, PAGE_WORDS},
        race::Record,
    },
    report::{Fault, FaultKind, Faults, Side, ThreadPlace},
};

/// An access of a committed CTA, in short.
#[derive(Clone, Copy)]
struct Brief {
    thread: u32,
    pc: u32,
    mask: u8,
    strong: bool,
    exists: bool,
}

const NONE: Brief = Brief { thread: 0, pc: 0, mask: 0, strong: false, exists: false };

/// What committed CTAs did in a page: for each word the newest write and the
/// newest reads of two CTAs; what does not fit goes to the overflow.
#[derive(Default)]
struct LaunchPage {
    writes: Vec<Brief>,
    reads: Vec<[Brief; 2]>,
    overflow: Vec<(u32, Brief, bool)>,
}

/// What all committed CTAs of a launch did in global memory.
#[derive(Default)]
pub struct LaunchShadow {
    pages: HashMap<(usize, u64), LaunchPage>,
}

impl LaunchShadow {
    /// Checks a CTA's accesses against those of the CTAs before it, then adds them.
    pub fn check(
        &mut self,
        memory: &GlobalMemory,
        geometry: &Geometry,
        changes: &Changes,
        faults: &mut Faults,
    ) {
        let threads = geometry.threads();
        for page in &changes.pages {
            let known = self.pages.entry((page.allocation, page.start)).or_default();
            let base =
                memory.allocation(page.allocation).map_or(0, |allocation| allocation.base) + page.start;
            page.shadow.for_each(|word, record, wrote| {
                let cta = record.thread / threads;
                if let Some((other, other_wrote)) = known.conflict(word, record, wrote, cta, threads) {
                    report(geometry, base + 4 * u64::from(word), record, wrote, &other, other_wrote, faults);
                }
            });
            page.shadow.for_each(|word, record, wrote| known.add(word, record, wrote, threads));
        }
    }
}

impl LaunchPage {
    fn conflict(
        &self,
        word: u32,
        new: &Record,
        wrote: bool,
        cta: u32,
        threads: u32,
    ) -> Option<(Brief, bool)> {
        let clashes = |old: &Brief, old_wrote: bool| {
            old.exists
                && old.thread / threads != cta
                && old.mask & new.mask() != 0
                && (wrote || old_wrote)
                && !(old.strong && new.strong())
        };
        if let Some(old) = self.writes.get(word as usize)
            && clashes(old, true)
        {
            return Some((*old, true));
        }
        if wrote && let Some(reads) = self.reads.get(word as usize) {
            for old in reads {
                if clashes(old, false) {
                    return Some((*old, false));
                }
            }
        }
        self.overflow
            .iter()
            .find(|(at, old, old_wrote)| *at == word && clashes(old, *old_wrote))
            .map(|(_, old, old_wrote)| (*old, *old_wrote))
    }

    fn add(&mut self, word: u32, new: &Record, wrote: bool, threads: u32) {
        let brief =
            Brief { thread: new.thread, pc: new.pc(), mask: new.mask(), strong: new.strong(), exists: true };
        let cta = |brief: &Brief| brief.thread / threads;
        if wrote {
            if self.writes.is_empty() {
                self.writes.resize(PAGE_WORDS, NONE);
            }
            let Some(slot) = self.writes.get_mut(word as usize) else { return };
            if slot.exists && (slot.mask & !brief.mask != 0 || slot.strong && !brief.strong) {
                if cta(slot) == cta(&brief) && slot.strong == brief.strong {
                    slot.mask |= brief.mask;
                    return;
                }
                if self.overflow.len() < 4096 {
                    self.overflow.push((word, *slot, true));
                }
            }
            if let Some(slot) = self.writes.get_mut(word as usize) {
                *slot = brief;
            }
        } else {
            if self.reads.is_empty() {
                self.reads.resize(PAGE_WORDS, [NONE; 2]);
            }
            let Some(reads) = self.reads.get_mut(word as usize) else { return };
            if let Some(same) = reads.iter_mut().find(|old| old.exists && cta(old) == cta(&brief)) {
                same.mask |= brief.mask;
            } else if let Some(free) = reads.iter_mut().find(|old| !old.exists) {
                *free = brief;
            } else if reads.iter().fold(0, |mask, old| mask & old.mask) & brief.mask != brief.mask
                && self.overflow.len() < 4096
                && reads.iter().any(|old| old.mask & brief.mask != brief.mask)
            {
                self.overflow.push((word, brief, false));
            }
        }
    }
}

fn place(geometry: &Geometry, thread: u32) -> ThreadPlace {
    let threads = geometry.threads();
    let (cta, thread) = (thread / threads, thread % threads);
    let [gx, gy, _] = geometry.grid;
    let [bx, by, _] = geometry.block;
    ThreadPlace {
        cta: [cta % gx, cta / gx % gy, cta / gx / gy],
        thread: [thread % bx, thread / bx % by, thread / bx / by],
        warp: thread / 32,
        lane: thread % 32,
    }
}

fn report(
    geometry: &Geometry,
    address: u64,
    record: &Record,
    wrote: bool,
    other: &Brief,
    other_wrote: bool,
    faults: &mut Faults,
) {
    let how = |strong: bool| if strong { "atomically " } else { "" };
    let verb = |wrote: bool| if wrote { "written" } else { "read" };
    faults.report(FaultKind::CtaRace, record.pc(), other.pc, || Fault {
        kind: FaultKind::CtaRace,
        pc: record.pc(),
        thread: place(geometry, record.thread),
        address: Some(address),
        message: format!(
            "{}{} global memory that another CTA has {}{}, and nothing orders the two",
            how(record.strong()),
            if wrote { "writes" } else { "reads" },
            how(other.strong),
            verb(other_wrote)
        ),
        others: vec![Side {
            pc: other.pc,
            thread: place(geometry, other.thread),
            what: format!("{}{} by", how(other.strong), verb(other_wrote)),
        }],
        count: 1,
    });
}
