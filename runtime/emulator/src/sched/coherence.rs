//! Non-coherent loads of memory that the same launch writes.

use std::collections::HashMap;

use crate::{
    launch::Geometry,
    memory::{
        global::GlobalMemory,
        overlay::{Changes, MAP, NonCoherent},
    },
    report::{Fault, FaultKind, Faults},
};

/// What the CTAs of a launch read by non-coherent loads, and what they wrote.
#[derive(Default)]
pub struct Coherence {
    pages: HashMap<(usize, u64), (Vec<NonCoherent>, [u64; MAP])>,
}

impl Coherence {
    /// Adds the accesses of a run.
    pub fn add(&mut self, changes: &Changes) {
        for page in &changes.pages {
            let (reads, written) =
                self.pages.entry((page.allocation, page.start)).or_insert((Vec::new(), [0; MAP]));
            for (all, new) in written.iter_mut().zip(&page.written) {
                *all |= new;
            }
            for new in &page.noncoherent {
                match reads.iter_mut().find(|read| read.pc == new.pc) {
                    Some(read) => {
                        for (all, new) in read.bytes.iter_mut().zip(&new.bytes) {
                            *all |= new;
                        }
                    }
                    None => reads.push(new.clone()),
                }
            }
        }
    }

    /// Reports every load that read bytes which some CTA wrote.
    pub fn report(self, memory: &GlobalMemory, geometry: &Geometry, faults: &mut Faults) {
        let mut pages: Vec<_> = self.pages.into_iter().collect();
        pages.sort_by_key(|(key, _)| *key);
        for ((allocation, start), (reads, written)) in pages {
            for read in reads {
                let both = read.bytes.iter().zip(&written).enumerate();
                let first =
                    both.map(|(at, (read, written))| (at, read & written)).find(|(_, both)| *both != 0);
                let Some((at, both)) = first else { continue };
                let base = memory.allocation(allocation).map_or(0, |allocation| allocation.base);
                let address = base + start + at as u64 * 64 + u64::from(both.trailing_zeros());
                let (cta, thread) = read.thread;
                faults.report(FaultKind::NonCoherentRead, read.pc, u32::MAX, || Fault {
                    kind: FaultKind::NonCoherentRead,
                    pc: read.pc,
                    thread: geometry.place(cta, thread),
                    address: Some(address),
                    message: "a load that may come from a stale cache reads memory that this launch writes"
                        .to_owned(),
                    others: Vec::new(),
                    count: 1,
                });
            }
        }
    }
}
