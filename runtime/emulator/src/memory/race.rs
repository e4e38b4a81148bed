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
const STRONG: u32 = 1 << 27;

impl Record {
    const EMPTY: Record = Record { thread: NOBODY, epoch: 0, clock: 0, meta: 0 };

    /// A record of an access to the bytes in `mask` of its word.
    pub fn new(thread: u32, epoch: u32, clock: u32, pc: u32, mask: u8, kind: Access) -> Record {
        let strong = if matches!(kind, Access::StrongRead | Access::StrongWrite) { STRONG } else { 0 };
        Record { thread, epoch, clock, meta: pc & (STRONG - 1) | strong | u32::from(mask) << 28 }
    }

    /// The instruction.
    pub fn pc(&self) -> u32 {
        self.meta & (STRONG - 1)
    }

    /// Whether there is an access at all.
    pub fn exists(&self) -> bool {
        self.thread != NOBODY
    }

    /// Whether it was atomic, volatile or otherwise strong.
    pub fn strong(&self) -> bool {
        self.meta & STRONG != 0
    }

    /// The bytes of the word that it touched.
    pub fn mask(&self) -> u8 {
        (self.meta >> 28) as u8
    }

    fn overlaps(&self, other: &Record) -> bool {
        self.exists() && self.mask() & other.mask() != 0
    }
}

/// The kinds of access that conflict differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A plain load.
    Read,
    /// A volatile, relaxed or acquire load.
    StrongRead,
    /// A plain store.
    Write,
    /// An atomic, or a volatile, relaxed or release store.
    StrongWrite,
}

impl Access {
    /// Whether it writes.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::StrongWrite)
    }
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
}

/// The shadow of a range of words.
#[derive(Debug, Default)]
pub struct Shadow {
    words: usize,
    reads: Vec<[Record; 2]>,
    writes: Vec<[Record; 3]>,
    split: HashMap<u32, Box<[Cell; 4]>>,
}

/// Finds the conflict of `new` with what a cell holds.
#[inline]
fn conflict(
    reads: &[Record; 2],
    writes: &[Record; 3],
    new: &Record,
    kind: Access,
    ordered: &impl Fn(&Record) -> bool,
) -> Option<Conflict> {
    for (index, old) in writes.iter().enumerate() {
        let applies = index < 2 || matches!(kind, Access::Read | Access::Write);
        if applies && old.overlaps(new) && !ordered(old) {
            return Some(Conflict { other: *old, other_writes: true });
        }
    }
    if kind.writes() {
        for old in reads {
            let applies = kind == Access::Write || !old.strong();
            if applies && old.overlaps(new) && !ordered(old) {
                return Some(Conflict { other: *old, other_writes: false });
            }
        }
    }
    None
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
    match kind {
        Access::Read | Access::StrongRead => insert(reads, new),
        Access::Write => insert(&mut writes[..2], new),
        Access::StrongWrite => insert(&mut writes[2..], new),
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
        ordered: impl Fn(&Record) -> bool,
    ) -> Option<Conflict> {
        let at = word as usize;
        if at >= self.words {
            return None;
        }
        if self.reads.is_empty() {
            self.reads.resize(self.words, NO_READS);
        }
        if self.writes.is_empty() {
            if !kind.writes() {
                // Only reads so far: nothing to conflict with.
                if insert(&mut self.reads[at], new) {
                    return None;
                }
            }
            self.writes.resize(self.words, NO_WRITES);
        }
        if self.split.is_empty() || !self.split.contains_key(&word) {
            let (reads, writes) = (&mut self.reads[at], &mut self.writes[at]);
            let found = conflict(reads, writes, &new, kind, &ordered);
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
                found = conflict(&cell.reads, &cell.writes, &new, kind, &ordered);
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
            let byte = Record { meta: new.meta & !(0xf << 28) | 1 << (28 + i), ..new };
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

    fn unordered(me: u32) -> impl Fn(&Record) -> bool {
        move |old| old.thread == me
    }

    #[test]
    fn neighbouring_bytes_do_not_conflict() {
        let mut shadow = Shadow::new(1);
        for thread in 0..4u32 {
            let new = record(thread, 1 << thread, Access::Write);
            assert_eq!(shadow.access(0, new, Access::Write, unordered(thread)), None);
        }
        let new = record(9, 0b0100, Access::Read);
        let found = shadow.access(0, new, Access::Read, unordered(9)).unwrap();
        assert_eq!((found.other.thread, found.other_writes), (2, true));
    }

    #[test]
    fn atomics_conflict_with_plain_accesses_only() {
        let mut shadow = Shadow::new(1);
        for thread in 0..3 {
            let new = record(thread, 15, Access::StrongWrite);
            assert_eq!(shadow.access(0, new, Access::StrongWrite, unordered(thread)), None);
        }
        let new = record(5, 15, Access::StrongRead);
        assert_eq!(shadow.access(0, new, Access::StrongRead, unordered(5)), None);
        let new = record(6, 15, Access::Write);
        assert!(shadow.access(0, new, Access::Write, unordered(6)).is_some());
    }

    #[test]
    fn a_write_conflicts_with_a_read_of_another_thread() {
        let mut shadow = Shadow::new(2);
        for thread in [7, 3] {
            shadow.access(1, record(thread, 15, Access::Read), Access::Read, unordered(thread));
        }
        let new = record(3, 15, Access::Write);
        let found = shadow.access(1, new, Access::Write, unordered(3)).unwrap();
        assert_eq!((found.other.thread, found.other_writes), (7, false));
    }
}
