//! What a run did: instructions, memory traffic, divergence.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::decode::{Kernel, inst::Class};

/// Counts of one instruction, or sums of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Times a warp (a group of its lanes) ran it.
    pub warp_instructions: u64,
    /// Lanes that ran it.
    pub lane_instructions: u64,
    /// Global memory requests.
    pub global_requests: u64,
    /// 32-byte sectors those touched: 4 a request is a coalesced 32-bit access.
    pub global_sectors: u64,
    /// Shared memory requests.
    pub shared_requests: u64,
    /// Passes over the 32 banks those took: 1 a request is free of conflicts
    /// (2 and 4 for 64- and 128-bit accesses).
    pub shared_passes: u64,
    /// Passes beyond the fewest possible.
    pub bank_conflicts: u64,
    /// Bytes read or written in global memory.
    pub global_bytes: u64,
    /// Bytes read or written in shared memory.
    pub shared_bytes: u64,
    /// Bytes read or written in local memory.
    pub local_bytes: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        self.warp_instructions += other.warp_instructions;
        self.lane_instructions += other.lane_instructions;
        self.global_requests += other.global_requests;
        self.global_sectors += other.global_sectors;
        self.shared_requests += other.shared_requests;
        self.shared_passes += other.shared_passes;
        self.bank_conflicts += other.bank_conflicts;
        self.global_bytes += other.global_bytes;
        self.shared_bytes += other.shared_bytes;
        self.local_bytes += other.local_bytes;
    }

    /// Lanes that ran of those that could have: 1 is no divergence.
    pub fn warp_efficiency(&self) -> f64 {
        if self.warp_instructions == 0 {
            return 1.0;
        }
        self.lane_instructions as f64 / (self.warp_instructions as f64 * 32.0)
    }
}

/// Counts by instruction.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// By index into the kernel's code.
    pub by_pc: Vec<Counts>,
}

/// Counts of a source line (or of a PTX line without one).
#[derive(Clone, Debug, Serialize)]
pub struct LineCounts {
    /// The source file; `None` is the PTX file.
    pub file: Option<String>,
    /// The line.
    pub line: u32,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counts,
}

impl Counters {
    /// No counts yet, for a kernel of `len` instructions.
    pub fn new(len: usize) -> Counters {
        Counters { by_pc: vec![Counts::default(); len] }
    }

    /// Adds the counts of another part of the run.
    pub fn merge(&mut self, other: &Counters) {
        for (mine, theirs) in self.by_pc.iter_mut().zip(&other.by_pc) {
            mine.add(theirs);
        }
    }

    /// The sum over all instructions.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.by_pc.iter().for_each(|counts| total.add(counts));
        total
    }

    /// Lane-instructions by class.
    pub fn by_class(&self, kernel: &Kernel) -> BTreeMap<Class, u64> {
        let mut classes = BTreeMap::new();
        for (counts, place) in self.by_pc.iter().zip(&kernel.places) {
            if counts.lane_instructions > 0 {
                *classes.entry(place.class).or_insert(0) += counts.lane_instructions;
            }
        }
        classes
    }

    /// Counts by source line, or by PTX line where there is no `.loc`.
    pub fn by_line(&self, kernel: &Kernel) -> Vec<LineCounts> {
        let mut lines: BTreeMap<(Option<u32>, u32), Counts> = BTreeMap::new();
        for (counts, place) in self.by_pc.iter().zip(&kernel.places) {
            if counts.warp_instructions > 0 {
                let key = match place.loc {
                    Some((file, line)) => (Some(file), line),
                    None => (None, place.pos.line),
                };
                lines.entry(key).or_default().add(counts);
            }
        }
        lines
            .into_iter()
            .map(|((file, line), counts)| LineCounts {
                file: file.and_then(|file| kernel.files.get(file as usize).cloned()),
                line,
                counts,
            })
            .collect()
    }

    /// A table of totals, classes and source lines.
    pub fn table(&self, kernel: &Kernel) -> String {
        use std::fmt::Write as _;
        let total = self.total();
        let mut text = String::new();
        let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        let _ = writeln!(
            text,
            "{} lane-instructions in {} warp-instructions, warp efficiency {:.1} %",
            total.lane_instructions,
            total.warp_instructions,
            total.warp_efficiency() * 100.0
        );
        let _ = writeln!(
            text,
            "global: {} requests, {:.2} sectors a request, {} bytes",
            total.global_requests,
            ratio(total.global_sectors, total.global_requests),
            total.global_bytes
        );
        let _ = writeln!(
            text,
            "shared: {} requests, {:.2} passes a request, {} bank conflicts, {} bytes",
            total.shared_requests,
            ratio(total.shared_passes, total.shared_requests),
            total.bank_conflicts,
            total.shared_bytes
        );
        let _ = writeln!(text, "local: {} bytes", total.local_bytes);
        for (class, lanes) in self.by_class(kernel) {
            let name = serde_json::to_value(class).ok().and_then(|v| v.as_str().map(str::to_owned));
            let _ = writeln!(text, "  {:<14} {lanes:>14}", name.unwrap_or_default());
        }
        let _ = writeln!(
            text,
            "{:<28} {:>14} {:>7} {:>10} {:>8} {:>10} {:>9}",
            "line", "lane-instr", "eff %", "gl.req", "sec/req", "sh.req", "conflicts"
        );
        for line in self.by_line(kernel) {
            let name = match &line.file {
                Some(file) => format!("{}:{}", file.rsplit('/').next().unwrap_or(file), line.line),
                None => format!("{}:{}", kernel.file.rsplit('/').next().unwrap_or(&kernel.file), line.line),
            };
            let counts = &line.counts;
            let _ = writeln!(
                text,
                "{name:<28} {:>14} {:>7.1} {:>10} {:>8.2} {:>10} {:>9}",
                counts.lane_instructions,
                counts.warp_efficiency() * 100.0,
                counts.global_requests,
                ratio(counts.global_sectors, counts.global_requests),
                counts.shared_requests,
                counts.bank_conflicts
            );
        }
        text
    }
}

/// Distinct 32-byte sectors of the accesses of a request.
pub fn sectors(addresses: &[u64], bytes: u64) -> u64 {
    // Neighbouring lanes mostly share sectors in order: count steps first.
    let mut list = [u64::MAX; 64];
    let mut n = 0;
    let mut sorted = true;
    for address in addresses {
        let (first, last) = (address / 32, (address + bytes - 1) / 32);
        for sector in first..=last {
            if n > 0 && list[n - 1] == sector {
                continue;
            }
            if n < list.len() {
                sorted &= n == 0 || list[n - 1] < sector;
                list[n] = sector;
                n += 1;
            }
        }
    }
    let list = &mut list[..n];
    if !sorted {
        list.sort_unstable();
        let mut distinct = 0;
        let mut previous = u64::MAX;
        for sector in list.iter() {
            if *sector != previous {
                distinct += 1;
                previous = *sector;
            }
        }
        return distinct;
    }
    n as u64
}

/// Passes over the banks that a shared request takes, and the fewest possible.
/// 64-bit accesses go in two halves of the warp and 128-bit ones in four quarters.
pub fn passes(addresses: &[u64], bytes: u64) -> (u64, u64) {
    let phases = (bytes / 4).clamp(1, 4) as usize;
    let lanes = 32 / phases;
    let (mut taken, mut fewest) = (0, 0);
    for chunk in addresses.chunks(lanes) {
        let words_each = bytes.div_ceil(4);
        // Within 32 neighbouring words no two share a bank.
        let low = chunk.iter().min().map_or(0, |address| address / 4);
        let high = chunk.iter().max().map_or(0, |address| address / 4 + words_each);
        if high - low <= 32 {
            taken += 1;
            fewest += 1;
            continue;
        }
        let mut words = [0u64; 32];
        let mut n = 0;
        let mut sorted = true;
        for address in chunk {
            for word in 0..words_each {
                let word = address / 4 + word;
                if n > 0 && words[n - 1] == word {
                    continue;
                }
                if n < 32 {
                    sorted &= n == 0 || words[n - 1] < word;
                    words[n] = word;
                    n += 1;
                }
            }
        }
        let words = &mut words[..n];
        if !sorted {
            words.sort_unstable();
        }
        let mut banks = [0u8; 32];
        let mut worst = 0;
        let mut previous = u64::MAX;
        for word in words.iter() {
            if *word != previous {
                let bank = &mut banks[(*word % 32) as usize];
                *bank += 1;
                worst = worst.max(*bank);
                previous = *word;
            }
        }
        taken += u64::from(worst.max(1));
        fewest += 1;
    }
    (taken, fewest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalescing() {
        let unit: Vec<u64> = (0..32).map(|i| 0x1000 + 4 * i).collect();
        assert_eq!(sectors(&unit, 4), 4);
        let reversed: Vec<u64> = unit.iter().rev().copied().collect();
        assert_eq!(sectors(&reversed, 4), 4);
        let strided: Vec<u64> = (0..32).map(|i| 0x1000 + 128 * i).collect();
        assert_eq!(sectors(&strided, 4), 32);
        let vector: Vec<u64> = (0..32).map(|i| 0x1000 + 16 * i).collect();
        assert_eq!(sectors(&vector, 16), 16);
    }

    #[test]
    fn banks() {
        let unit: Vec<u64> = (0..32).map(|i| 4 * i).collect();
        assert_eq!(passes(&unit, 4), (1, 1));
        let same: Vec<u64> = vec![64; 32];
        assert_eq!(passes(&same, 4), (1, 1));
        let column: Vec<u64> = (0..32).map(|i| 128 * i).collect();
        assert_eq!(passes(&column, 4), (32, 1));
        let padded: Vec<u64> = (0..32).map(|i| 132 * i).collect();
        assert_eq!(passes(&padded, 4), (1, 1));
        let wide: Vec<u64> = (0..32).map(|i| 16 * i).collect();
        assert_eq!(passes(&wide, 16), (4, 4));
    }
}
