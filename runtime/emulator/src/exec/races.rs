//! Accesses told to the race detector, and what it finds.

use super::{At, Executor, access::space_name};
use crate::{
    machine::Cta,
    memory::{
        global::PAGE,
        race::{Access, Conflict, Record, Relation},
    },
    ptx::ast::Space,
    report::{FaultKind, Side},
};

impl Executor<'_> {
    /// Tells the race detector of an access and reports what it conflicts with.
    #[inline]
    pub(super) fn race(
        &mut self,
        cta: &mut Cta,
        at: At,
        space: Space,
        address: u64,
        bytes: u8,
        access: Access,
    ) {
        self.race_with(cta, at, space, address, bytes, access, u64::MAX);
    }

    /// The same of a write that changes the bits in `changed`.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(super) fn race_with(
        &mut self,
        cta: &mut Cta,
        at: At,
        space: Space,
        address: u64,
        bytes: u8,
        access: Access,
        changed: u64,
    ) {
        if !self.strict {
            return;
        }
        let thread = (at.warp * 32 + at.lane) as u32;
        let me = cta.index.wrapping_mul(cta.threads).wrapping_add(thread);
        let (index, threads) = (cta.index, cta.threads);
        let Some(clock) = cta.clocks.get(thread as usize) else { return };
        let mut left = u64::from(bytes);
        let mut next = address;
        while left > 0 {
            let in_word = (next % 4) as u32;
            let step = left.min(4 - u64::from(in_word));
            let mask = ((1u32 << step) - 1) << in_word;
            let found = if space == Space::Shared {
                // Threads of the CTA only: their numbers in it will do.
                let record = Record::new(thread, clock.epoch, clock.clock, at.pc, mask as u8, access);
                let relation = |old: &Record| {
                    if clock.knows_local(old, old.thread == thread, old.thread) {
                        Relation::Ordered
                    } else if old.thread / 32 == thread / 32 {
                        Relation::Warp
                    } else {
                        Relation::Cta
                    }
                };
                cta.shared_shadow.access((next / 4) as u32, record, access, relation)
            } else {
                let record = Record::new(me, clock.epoch, clock.clock, at.pc, mask as u8, access);
                let relation = |old: &Record| {
                    let within = old.thread.wrapping_sub(index.wrapping_mul(threads));
                    if clock.knows(old, me, index, threads) {
                        Relation::Ordered
                    } else if within >= threads {
                        Relation::Grid
                    } else if within / 32 == thread / 32 {
                        Relation::Warp
                    } else {
                        Relation::Cta
                    }
                };
                let located = self.global.locate(next, step);
                let page = located.ok().and_then(|(allocation, offset)| {
                    self.global.page_mut(next, allocation, offset).map(|page| (page, offset))
                });
                page.and_then(|(page, offset)| {
                    page.shadow.access((offset % PAGE / 4) as u32, record, access, relation)
                })
            };
            if let Some(conflict) = found {
                // Of the bytes that both touched.
                let overlap = conflict.other.mask() & mask as u8;
                let same = (0..4u64).filter(|byte| overlap >> byte & 1 == 1).all(|byte| {
                    let at = (next & !3) + byte - address;
                    changed >> (8 * at) & 0xff == 0
                });
                self.report_race(cta, at, space, next, access, &conflict, same);
                return;
            }
            next += step;
            left -= step;
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn report_race(
        &mut self,
        cta: &Cta,
        at: At,
        space: Space,
        address: u64,
        access: Access,
        conflict: &Conflict,
        same: bool,
    ) {
        let threads = cta.threads.max(1);
        let (other_cta, other) = if space == Space::Shared {
            (cta.index, conflict.other.thread)
        } else {
            (conflict.other.thread / threads, conflict.other.thread % threads)
        };
        let other_pc = conflict.other.pc();
        let one_warp = other_cta == cta.index && other / 32 == at.warp as u32;
        let same = same && access.write && conflict.other_writes && !access.strong;
        // Lanes that store one value by one instruction: any order gives the same.
        if same && one_warp && other_pc == at.pc {
            return;
        }
        let unread = if conflict.other_writes {
            !access.write && self.kernel.unread(at.pc)
        } else {
            self.kernel.unread(other_pc)
        };
        let kind = match space {
            _ if conflict.volatile => FaultKind::VolatileExchange,
            _ if same && !conflict.other.strong() => FaultKind::SameValueRace,
            _ if unread => FaultKind::DeadReadRace,
            Space::Shared if one_warp => FaultKind::WarpRace,
            Space::Shared => FaultKind::SharedRace,
            _ if other_cta != cta.index => FaultKind::CtaRace,
            _ => FaultKind::GlobalRace,
        };
        let verb = if conflict.other_writes { "written" } else { "read" };
        let done = match (conflict.other.strong(), conflict.other.local()) {
            (true, true) => format!("{verb} at CTA scope"),
            (true, false) => format!("atomically {verb}"),
            _ => verb.to_owned(),
        };
        let side =
            Side { pc: other_pc, thread: self.thread_place(other_cta, other), what: format!("{done} by") };
        let mine = if access.write { "writes" } else { "reads" };
        let name = space_name(space);
        self.fault_with(cta, at, kind, Some(address), vec![side], || match kind {
            FaultKind::VolatileExchange => format!(
                "{mine} {name} memory that another lane has {verb}: volatile alone does not make lanes meet, \
                 a `bar.warp.sync` between the two would"
            ),
            FaultKind::SameValueRace => {
                format!("writes to {name} memory what another thread has written, and nothing orders the two")
            }
            _ => format!("{mine} {name} memory that another thread has {done}, and nothing orders the two"),
        });
    }
}
