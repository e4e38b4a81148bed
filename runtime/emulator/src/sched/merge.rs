//! Races between CTAs that ran in waves: no two of them are ordered, so any
//! conflicting pair of accesses is one.

use std::collections::HashMap;

use crate::{
    decode::Kernel,
    launch::Geometry,
    memory::{
        global::GlobalMemory,
        overlay::{Changes, PAGE_WORDS},
        race::Record,
    },
    report::{Fault, FaultKind, Faults, Side},
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
const PC: u32 = (1 << 25) - 1;
const LOCAL: u32 = 1 << 25;
const STRONG: u32 = 1 << 27;

impl Brief {
    fn of(record: &Record) -> Brief {
        let strong = if record.strong() { STRONG } else { 0 };
        let local = if record.local() { LOCAL } else { 0 };
        Brief { thread: record.thread, meta: record.pc() | strong | local | u32::from(record.mask()) << 28 }
    }

    fn exists(&self) -> bool {
        self.thread != NOBODY
    }

    fn pc(&self) -> u32 {
        self.meta & PC
    }

    fn strong(&self) -> bool {
        self.meta & STRONG != 0
    }

    fn local(&self) -> bool {
        self.meta & LOCAL != 0
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
        kernel: &Kernel,
        geometry: &Geometry,
        changes: &Changes,
        faults: &mut Faults,
    ) {
        let threads = geometry.threads();
        for page in &changes.pages {
            let known = self.pages.entry((page.allocation, page.start)).or_default();
            let allocation = memory.allocation(page.allocation);
            let base = allocation.map_or(0, |allocation| allocation.base) + page.start;
            // Whether the CTA leaves bytes of a word as those before it did.
            let same = |word: u32, mask: u8| {
                let bytes =
                    (0..4usize).filter(|byte| mask >> byte & 1 == 1).map(|byte| word as usize * 4 + byte);
                bytes.into_iter().all(|at| {
                    let before = allocation.and_then(|held| held.bytes.get(page.start as usize + at));
                    before == page.data.get(at)
                })
            };
            page.shadow.for_each(|word, record, wrote| {
                let cta = record.thread / threads;
                if let Some((other, other_wrote)) = known.conflict(word, record, wrote, cta, threads) {
                    let plain = !record.strong() && !other.strong();
                    let kind = if wrote && other_wrote && plain && same(word, record.mask() & other.mask()) {
                        FaultKind::SameValueRace
                    } else if (!wrote && kernel.unread(record.pc()))
                        || (!other_wrote && kernel.unread(other.pc()))
                    {
                        FaultKind::DeadReadRace
                    } else {
                        FaultKind::CtaRace
                    };
                    let address = base + 4 * u64::from(word);
                    report(kind, geometry, address, record, wrote, &other, other_wrote, faults);
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
                && (!old.strong() || !new.strong() || old.local() || new.local())
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

#[allow(clippy::too_many_arguments)]
fn report(
    kind: FaultKind,
    geometry: &Geometry,
    address: u64,
    record: &Record,
    wrote: bool,
    other: &Brief,
    other_wrote: bool,
    faults: &mut Faults,
) {
    let threads = geometry.threads();
    let place = |thread: u32| geometry.place(thread / threads, thread % threads);
    let verb = |wrote: bool| if wrote { "written" } else { "read" };
    let done = match (other.strong(), other.local()) {
        (true, true) => format!("{} at CTA scope", verb(other_wrote)),
        (true, false) => format!("atomically {}", verb(other_wrote)),
        _ => verb(other_wrote).to_owned(),
    };
    let how = if record.strong() { "atomically " } else { "" };
    faults.report(kind, record.pc(), other.pc(), || Fault {
        kind,
        pc: record.pc(),
        thread: place(record.thread),
        address: Some(address),
        message: format!(
            "{how}{} global memory that another CTA has {done}, and nothing orders the two",
            if wrote { "writes" } else { "reads" },
        ),
        others: vec![Side { pc: other.pc(), thread: place(other.thread), what: format!("{done} by") }],
        count: 1,
    });
}
