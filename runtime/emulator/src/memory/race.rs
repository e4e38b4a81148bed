//! The race detector's shadow of a memory.
//!
//! Each 32-bit word keeps the last plain writes, atomics and reads with the
//! thread, its clocks and the instruction. An access that is not ordered after
//! a conflicting one by barriers, fences or atomics is a race, in whichever order
//! the schedule ran them. Words hold few records: where byte-sized accesses of
//! several threads would push one out, the word is split into bytes.

use std::collections::HashMap;

/// A past access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The thread's index in the grid.
    pub thread: u32,
    /// The number of whole-CTA barriers the thread had passed.
    pub epoch: u32,
    /// The thread's own clock.
    pub clock: u32,
    /// Instruction, strength and the bytes touched.
    meta: u32,
}

const NOBODY: u32 = u32::MAX;
/// The bits of a record's instruction; above them stand three flags and the mask.
const PC: u32 = (1 << 25) - 1;
/// Of CTA scope: no exchange with other CTAs.
const LOCAL: u32 = 1 << 25;
/// Volatile, and not an atomic.
const VOLATILE: u32 = 1 << 26;
const STRONG: u32 = 1 << 27;

impl Record {
    const EMPTY: Record = Record { thread: NOBODY, epoch: 0, clock: 0, meta: 0 };

    /// A record of an access to the bytes in `mask` of its word.
    pub fn new(thread: u32, epoch: u32, clock: u32, pc: u32, mask: u8, kind: Access) -> Record {
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let flags = flag(kind.strong, STRONG) | flag(kind.local, LOCAL) | flag(kind.volatile, VOLATILE);
        Record { thread, epoch, clock, meta: pc & PC | flags | u32::from(mask) << 28 }
    }

    /// The instruction.
    pub fn pc(&self) -> u32 {
        self.meta & PC
    }

    /// Whether there is an access at all.
    pub fn exists(&self) -> bool {
        self.thread != NOBODY
    }

    /// Whether it was atomic, volatile or otherwise strong.
    pub fn strong(&self) -> bool {
        self.meta & STRONG != 0
    }

    /// Whether it was strong at CTA scope only.
    pub fn local(&self) -> bool {
        self.meta & LOCAL != 0
    }

    /// Whether it was volatile.
    pub fn volatile(&self) -> bool {
        self.meta & VOLATILE != 0
    }

    /// The bytes of the word that it touched.
    pub fn mask(&self) -> u8 {
        (self.meta >> 28) as u8
    }

    /// The part of it that touched byte `i`.
    fn only(&self, i: u32) -> Record {
        Record { meta: self.meta & !(0xf << 28) | 1 << (28 + i), ..*self }
    }

    fn overlaps(&self, other: &Record) -> bool {
        self.exists() && self.mask() & other.mask() != 0
    }
}

/// What makes accesses conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// A store or update.
    pub write: bool,
    /// Atomic, volatile, relaxed, acquire or release.
    pub strong: bool,
    /// Strong at CTA scope only.
    pub local: bool,
    /// Strong for being volatile.
    pub volatile: bool,
}

impl Access {
    /// A plain load.
    pub const READ: Access = Access { write: false, strong: false, local: false, volatile: false };
    /// A plain store.
    pub const WRITE: Access = Access { write: true, ..Access::READ };
    /// A volatile, relaxed or acquire load.
    pub const STRONG_READ: Access = Access { strong: true, ..Access::READ };
    /// An atomic, or a volatile, relaxed or release store.
    pub const STRONG_WRITE: Access = Access { strong: true, ..Access::WRITE };
}

/// How the thread of an earlier access stands to that of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The earlier access happened before.
    Ordered,
    /// Unordered lanes of one warp.
    Warp,
    /// Unordered threads of one CTA.
    Cta,
    /// Unordered threads of different CTAs.
    Grid,
}

/// What is kept for a word or byte.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The newest reads, of two threads.
    pub reads: [Record; 2],
    /// The newest plain writes, and the newest strong write last.
    pub writes: [Record; 3],
}

const NO_READS: [Record; 2] = [Record::EMPTY; 2];
const NO_WRITES: [Record; 3] = [Record::EMPTY; 3];

/// The unordered access that a new one conflicts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The earlier access.
    pub other: Record,
    /// Whether it wrote.
    pub other_writes: bool,
    /// Both are volatile, of one warp: an exchange that only volatile orders.
    pub volatile: bool,
}

/// The shadow of a range of words.
#[derive(Debug, Default)]
pub struct Shadow {
    words: usize,
    reads: Vec<[Record; 2]>,
    writes: Vec<[Record; 3]>,
    split: HashMap<u32, Box<[Cell; 4]>>,
}

/// Finds the conflict of `new` with what a cell holds: a race before a volatile
/// exchange.
#[inline]
fn conflict(
    reads: &[Record; 2],
    writes: &[Record; 3],
    new: &Record,
    kind: Access,
    relation: &impl Fn(&Record) -> Relation,
) -> Option<Conflict> {
    let mut exchange = None;
    let mut test = |old: &Record, other_writes: bool| {
        if !old.overlaps(new) {
            return None;
        }
        let both = old.strong() && kind.strong;
        if both && !(old.local() || kind.local) && !(old.volatile() && kind.volatile) {
            return None;
        }
        let volatile = match relation(old) {
            Relation::Ordered => return None,
            _ if !both => false,
            // Atomics of CTA scope are none to another CTA.
            Relation::Grid if old.local() || kind.local => false,
            Relation::Warp if old.volatile() && kind.volatile => true,
            _ => return None,
        };
        let found = Conflict { other: *old, other_writes, volatile };
        if volatile {
            exchange.get_or_insert(found);
            return None;
        }
        Some(found)
    };
    for old in writes {
        if let Some(found) = test(old, true) {
            return Some(found);
        }
    }
    if kind.write {
        for old in reads {
            if let Some(found) = test(old, false) {
                return Some(found);
            }
        }
    }
    exchange
}

/// Stores `new` as the newest of `slots`; false when that would lose a record of
/// bytes that `new` does not cover.
#[inline]
fn insert(slots: &mut [Record], new: Record) -> bool {
    let covered = |old: &Record| !old.exists() || old.mask() & !new.mask() == 0;
    let Some((newest, older)) = slots.split_first_mut() else { return true };
    let same = newest.thread == new.thread;
    if same && covered(newest) {
        *newest = new;
        return true;
    }
    let Some(last) = older.first_mut() else {
        let keep = covered(newest);
        if keep {
            *newest = new;
        }
        return keep;
    };
    if last.thread == new.thread && covered(last) {
        *last = *newest;
        *newest = new;
        return true;
    }
    // Reads by other threads may drop out when their bytes are all covered.
    if covered(last) {
        *last = *newest;
        *newest = new;
        return true;
    }
    if covered(newest) {
        *newest = new;
        return true;
    }
    false
}

fn update(reads: &mut [Record; 2], writes: &mut [Record; 3], new: Record, kind: Access) -> bool {
    match (kind.write, kind.strong) {
        (false, _) => insert(reads, new),
        (true, false) => insert(&mut writes[..2], new),
        (true, true) => insert(&mut writes[2..], new),
    }
}

impl Shadow {
    /// The shadow of `words` words, nothing accessed.
    pub fn new(words: usize) -> Shadow {
        Shadow { words, ..Shadow::default() }
    }

    /// Forgets every access.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.split.clear();
    }

    /// Records an access and gives the conflict it makes, if any.
    #[inline]
    pub fn access(
        &mut self,
        word: u32,
        new: Record,
        kind: Access,
        relation: impl Fn(&Record) -> Relation,
    ) -> Option<Conflict> {
        let at = word as usize;
        if at >= self.words {
            return None;
        }
        if self.reads.is_empty() {
            self.reads.resize(self.words, NO_READS);
        }
        if self.writes.is_empty() {
            if !kind.write {
                // Only reads so far: nothing to conflict with.
                if insert(&mut self.reads[at], new) {
                    return None;
                }
            }
            self.writes.resize(self.words, NO_WRITES);
        }
        if self.split.is_empty() || !self.split.contains_key(&word) {
            let (reads, writes) = (&mut self.reads[at], &mut self.writes[at]);
            let found = conflict(reads, writes, &new, kind, &relation);
            if !update(reads, writes, new, kind) {
                let cell = Cell { reads: *reads, writes: *writes };
                let byte = |i: u32| {
                    let only = |record: &Record| {
                        if record.mask() >> i & 1 == 1 { *record } else { Record::EMPTY }
                    };
                    Cell {
                        reads: [only(&cell.reads[0]), only(&cell.reads[1])],
                        writes: [only(&cell.writes[0]), only(&cell.writes[1]), only(&cell.writes[2])],
                    }
                };
                let mut cells = Box::new([byte(0), byte(1), byte(2), byte(3)]);
                record_bytes(&mut cells, new, kind);
                self.split.insert(word, cells);
            }
            return found;
        }
        let cells = self.split.get_mut(&word)?;
        let mut found = None;
        for (i, cell) in cells.iter().enumerate() {
            if new.mask() >> i & 1 == 1 && found.is_none() {
                let byte = new.only(i as u32);
                found = conflict(&cell.reads, &cell.writes, &byte, kind, &relation);
            }
        }
        record_bytes(cells, new, kind);
        found
    }

    /// Every record of the shadow with its word and whether it wrote.
    pub fn for_each(&self, mut visit: impl FnMut(u32, &Record, bool)) {
        for (word, reads) in self.reads.iter().enumerate() {
            for record in reads.iter().filter(|record| record.exists()) {
                visit(word as u32, record, false);
            }
        }
        for (word, writes) in self.writes.iter().enumerate() {
            for record in writes.iter().filter(|record| record.exists()) {
                visit(word as u32, record, true);
            }
        }
        let mut split: Vec<_> = self.split.iter().collect();
        split.sort_by_key(|(word, _)| **word);
        for (word, cells) in split {
            for cell in cells.iter() {
                for record in cell.reads.iter().filter(|record| record.exists()) {
                    visit(*word, record, false);
                }
                for record in cell.writes.iter().filter(|record| record.exists()) {
                    visit(*word, record, true);
                }
            }
        }
    }
}

fn record_bytes(cells: &mut [Cell; 4], new: Record, kind: Access) {
    for (i, cell) in cells.iter_mut().enumerate() {
        if new.mask() >> i & 1 == 1 {
            // Byte cells see whole-byte records only: covered by construction.
            let byte = new.only(i as u32);
            let single = |record: &mut Record| {
                if record.exists() {
                    record.meta = record.meta & !(0xf << 28) | 1 << (28 + i);
                }
            };
            cell.reads.iter_mut().for_each(single);
            cell.writes.iter_mut().for_each(single);
            update(&mut cell.reads, &mut cell.writes, byte, kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(thread: u32, mask: u8, kind: Access) -> Record {
        Record::new(thread, 0, 0, thread, mask, kind)
    }

    fn unordered(me: u32) -> impl Fn(&Record) -> Relation {
        move |old| if old.thread == me { Relation::Ordered } else { Relation::Cta }
    }

    #[test]
    fn neighbouring_bytes_do_not_conflict() {
        let mut shadow = Shadow::new(1);
        for thread in 0..4u32 {
            let new = record(thread, 1 << thread, Access::WRITE);
            assert_eq!(shadow.access(0, new, Access::WRITE, unordered(thread)), None);
        }
        let new = record(9, 0b0100, Access::READ);
        let found = shadow.access(0, new, Access::READ, unordered(9)).unwrap();
        assert_eq!((found.other.thread, found.other_writes), (2, true));
    }

    #[test]
    fn atomics_conflict_with_plain_accesses_only() {
        let mut shadow = Shadow::new(1);
        for thread in 0..3 {
            let new = record(thread, 15, Access::STRONG_WRITE);
            assert_eq!(shadow.access(0, new, Access::STRONG_WRITE, unordered(thread)), None);
        }
        let new = record(5, 15, Access::STRONG_READ);
        assert_eq!(shadow.access(0, new, Access::STRONG_READ, unordered(5)), None);
        let new = record(6, 15, Access::WRITE);
        assert!(shadow.access(0, new, Access::WRITE, unordered(6)).is_some());
    }

    #[test]
    fn a_write_conflicts_with_a_read_of_another_thread() {
        let mut shadow = Shadow::new(2);
        for thread in [7, 3] {
            shadow.access(1, record(thread, 15, Access::READ), Access::READ, unordered(thread));
        }
        let new = record(3, 15, Access::WRITE);
        let found = shadow.access(1, new, Access::WRITE, unordered(3)).unwrap();
        assert_eq!((found.other.thread, found.other_writes), (7, false));
    }

    #[test]
    fn scopes_and_volatile_exchanges() {
        let from = |relation: Relation| move |_: &Record| relation;
        let local = Access { local: true, ..Access::STRONG_WRITE };
        let mut shadow = Shadow::new(1);
        shadow.access(0, record(0, 15, local), local, from(Relation::Ordered));
        let new = record(1, 15, Access::STRONG_WRITE);
        assert!(shadow.access(0, new, Access::STRONG_WRITE, from(Relation::Cta)).is_none());
        shadow.access(0, record(0, 15, local), local, from(Relation::Ordered));
        assert!(shadow.access(0, new, Access::STRONG_WRITE, from(Relation::Grid)).is_some());
        let volatile = |access: Access| Access { volatile: true, ..access };
        let mut shadow = Shadow::new(1);
        let write = volatile(Access::STRONG_WRITE);
        shadow.access(0, record(0, 15, write), write, from(Relation::Ordered));
        let read = volatile(Access::STRONG_READ);
        let found = shadow.access(0, record(1, 15, read), read, from(Relation::Warp)).unwrap();
        assert!(found.volatile && found.other_writes);
        assert!(shadow.access(0, record(40, 15, read), read, from(Relation::Cta)).is_none());
    }
}
