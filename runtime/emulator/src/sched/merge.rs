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

/// An access of a committed CTA, in short: 8 bytes, for there is one for each word
/// of memory that a launch touches.
#[derive(Clone, Copy)]
struct Brief {
    thread: u32,
    meta: u32,
}

const NOBODY: u32 = u32::MAX;
const NONE: Brief = Brief { thread: NOBODY, meta: 0 };
const STRONG: u32 = 1 << 27;

impl Brief {
    fn of(record: &Record) -> Brief {
        let strong = if record.strong() { STRONG } else { 0 };
        Brief { thread: record.thread, meta: record.pc() | strong | u32::from(record.mask()) << 28 }
    }

    fn exists(&self) -> bool {
        self.thread != NOBODY
    }

    fn pc(&self) -> u32 {
        self.meta & (STRONG - 1)
    }

    fn strong(&self) -> bool {
        self.meta & STRONG != 0
    }

    fn mask(&self) -> u8 {
        (self.meta >> 28) as u8
    }

    fn widen(&mut self, mask: u8) {
        self.meta |= u32::from(mask) << 28;
    }
}

/// What committed CTAs did in a page: for each word the newest write and the
/// first reads of two CTAs; what does not fit goes to the overflow.
#[derive(Default)]
struct LaunchPage {
    writes: Vec<Brief>,
    reads: Vec<Brief>,
    more_reads: Vec<Brief>,
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

/// Overflow entries kept for a page.
const OVERFLOW: usize = 4096;

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
            old.exists()
                && old.thread / threads != cta
                && old.mask() & new.mask() != 0
                && (wrote || old_wrote)
                && !(old.strong() && new.strong())
        };
        let at = word as usize;
        let writes = self.writes.get(at).map(|old| (old, true));
        let reads =
            [self.reads.get(at), self.more_reads.get(at)].into_iter().flatten().map(|old| (old, false));
        let overflow =
            self.overflow.iter().filter(|(at, ..)| *at == word).map(|(_, old, wrote)| (old, *wrote));
        writes
            .into_iter()
            .chain(reads)
            .chain(overflow)
            .find(|(old, old_wrote)| clashes(old, *old_wrote))
            .map(|(old, old_wrote)| (*old, old_wrote))
    }

    fn spill(&mut self, word: u32, brief: Brief, wrote: bool) {
        if self.overflow.len() < OVERFLOW {
            self.overflow.push((word, brief, wrote));
        }
    }

    fn add(&mut self, word: u32, new: &Record, wrote: bool, threads: u32) {
        let brief = Brief::of(new);
        let same_cta = |old: &Brief| old.thread / threads == brief.thread / threads;
        let at = word as usize;
        if wrote {
            if self.writes.is_empty() {
                self.writes.resize(PAGE_WORDS, NONE);
            }
            let Some(slot) = self.writes.get_mut(at) else { return };
            let old = *slot;
            let loses = old.mask() & !brief.mask() != 0 || old.strong() != brief.strong();
            if old.exists() && loses {
                if same_cta(&old) && old.strong() == brief.strong() {
                    slot.widen(brief.mask());
                    return;
                }
                *slot = brief;
                self.spill(word, old, true);
                return;
            }
            *slot = brief;
            return;
        }
        for reads in [&mut self.reads, &mut self.more_reads] {
            if reads.is_empty() {
                reads.resize(PAGE_WORDS, NONE);
            }
            let Some(slot) = reads.get_mut(at) else { return };
            if !slot.exists() {
                *slot = brief;
                return;
            }
            if same_cta(slot) {
                slot.widen(brief.mask());
                return;
            }
            // Two CTAs that read all of it stand for every other.
        }
        let covered = [&self.reads, &self.more_reads]
            .into_iter()
            .all(|reads| reads.get(at).is_some_and(|old| brief.mask() & !old.mask() == 0));
        if !covered {
            self.spill(word, brief, false);
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
    faults.report(FaultKind::CtaRace, record.pc(), other.pc(), || Fault {
        kind: FaultKind::CtaRace,
        pc: record.pc(),
        thread: place(geometry, record.thread),
        address: Some(address),
        message: format!(
            "{}{} global memory that another CTA has {}{}, and nothing orders the two",
            how(record.strong()),
            if wrote { "writes" } else { "reads" },
            how(other.strong()),
            verb(other_wrote)
        ),
        others: vec![Side {
            pc: other.pc(),
            thread: place(geometry, other.thread),
            what: format!("{}{} by", how(other.strong()), verb(other_wrote)),
        }],
        count: 1,
    });
}
