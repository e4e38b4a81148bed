//! CTA barriers.

use super::{At, Executor, lanes_of};
use crate::{
    decode::inst::{Barrier, BarrierKind, NONE},
    machine::{BarrierState, Cta, Group, State},
    memory::clock,
    report::{FaultKind, Side},
};

impl Executor<'_> {
    /// A group arrives at a barrier. Gives it back when it need not wait.
    pub(super) fn arrive(
        &mut self,
        cta: &mut Cta,
        w: usize,
        mut group: Group,
        barrier: &Barrier,
    ) -> Option<Group> {
        let pc = group.pc;
        let lane = group.mask.trailing_zeros() as usize;
        let at = At { warp: w, lane, pc };
        for slot in [barrier.id, barrier.count] {
            self.check_defined(
                cta,
                w,
                slot,
                group.mask,
                pc,
                FaultKind::UninitializedBranch,
                "the barrier operand",
            );
        }
        let warp = &cta.warps[w];
        let id = warp.get(barrier.id, lane);
        let count = if barrier.count == NONE { None } else { Some(warp.get(barrier.count, lane)) };
        let bad_count = count.is_some_and(|count| {
            count == 0 || count % 32 != 0 || count > u64::from(cta.threads.next_multiple_of(32))
        });
        if id >= 16 || bad_count {
            let count = count.map_or(String::new(), |count| format!(" for {count} threads"));
            self.fault(cta, at, FaultKind::BadBarrier, None, || {
                format!("barrier {id}{count}: there are 16 barriers, and counts are multiples of 32 within the CTA")
            });
            group.pc += 1;
            return Some(group);
        }
        let warps = cta.warps.len();
        let index = id as usize;
        if cta.barriers[index].arrived.is_empty() {
            cta.barriers[index] = BarrierState {
                arrived: vec![0; warps],
                expected: count.map(|count| count as u32),
                places: vec![(0, u32::MAX); warps],
                ..BarrierState::default()
            };
        }
        if self.strict && barrier.aligned {
            let (mask, place) = cta.barriers[index].places[w];
            if place != u32::MAX && place != pc && mask != 0 {
                let other = self.thread_place(cta.index, w as u32 * 32 + mask.trailing_zeros());
                let sides =
                    vec![Side { pc: place, thread: other, what: "other lanes arrived by".to_owned() }];
                self.fault_with(cta, at, FaultKind::BarrierDivergence, None, sides, || {
                    format!("lanes of warp {w} arrive at aligned barrier {id} from different instructions")
                });
            }
        }
        let votes = if barrier.predicate == NONE {
            0
        } else {
            self.check_defined(
                cta,
                w,
                barrier.predicate,
                group.mask,
                pc,
                FaultKind::UninitializedBranch,
                "the predicate",
            );
            cta.warps[w].predicate(barrier.predicate, barrier.negate, group.mask)
        };
        let state = &mut cta.barriers[index];
        state.arrived[w] |= group.mask;
        state.places[w] = (state.places[w].0 | group.mask, pc);
        state.kind.get_or_insert(barrier.kind);
        if barrier.predicate != NONE {
            state.true_count += votes.count_ones();
            state.voters += group.mask.count_ones();
        }
        if barrier.kind == BarrierKind::Arrive {
            group.pc += 1;
            cta.warps[w].groups.push(group);
        } else {
            group.state = State::Barrier(index as u8);
            cta.warps[w].groups.push(group);
        }
        self.complete(cta, index);
        None
    }

    /// Exits may complete barriers: nobody waits for threads that are gone.
    pub(super) fn recheck_barriers(&mut self, cta: &mut Cta) {
        for index in 0..cta.barriers.len() {
            if !cta.barriers[index].arrived.is_empty() {
                self.complete(cta, index);
            }
        }
    }

    /// Releases a barrier if all that it waits for have arrived.
    fn complete(&mut self, cta: &mut Cta, index: usize) {
        let state = &cta.barriers[index];
        let everyone = state.expected.is_none() || state.expected == Some(cta.threads.next_multiple_of(32));
        let arrived: u32 = state
            .arrived
            .iter()
            .zip(&cta.warps)
            // A warp of which nobody else can come counts whole: counts are of warps.
            .map(|(arrived, warp)| {
                let whole = *arrived != 0 && warp.live() & !arrived == 0;
                if whole { 32 } else { arrived.count_ones() }
            })
            .sum();
        let full = match state.expected {
            Some(expected) => arrived >= expected,
            None => state.arrived.iter().zip(&cta.warps).all(|(arrived, warp)| warp.live() & !arrived == 0),
        };
        if !full {
            return;
        }
        let missing: u32 = if everyone {
            state
                .arrived
                .iter()
                .zip(&cta.warps)
                .map(|(arrived, warp)| (warp.populated & !arrived).count_ones())
                .sum()
        } else {
            0
        };
        self.idle = false;
        let state = std::mem::take(&mut cta.barriers[index]);
        if self.strict && missing > 0 && state.expected.is_none() {
            self.missed(cta, index, &state, missing);
        }
        if self.strict {
            if everyone {
                clock::barrier(&mut cta.clocks);
            } else {
                let members: Vec<u32> = state
                    .arrived
                    .iter()
                    .enumerate()
                    .flat_map(|(w, arrived)| lanes_of(*arrived).map(move |lane| w as u32 * 32 + lane as u32))
                    .collect();
                clock::join(&mut cta.clocks, &members);
            }
        }
        let kernel = self.kernel;
        for w in 0..cta.warps.len() {
            let mut released: Vec<Group> = Vec::new();
            let mut kept = Vec::new();
            for mut group in std::mem::take(&mut cta.warps[w].groups) {
                if group.state != State::Barrier(index as u8) {
                    kept.push(group);
                    continue;
                }
                if let Some(crate::decode::inst::Op::Barrier(barrier)) =
                    kernel.code.get(group.pc as usize).map(|inst| &inst.op)
                    && barrier.dst != NONE
                {
                    let value = match barrier.kind {
                        BarrierKind::Popc => u64::from(state.true_count),
                        BarrierKind::And => u64::from(state.true_count == state.voters),
                        _ => u64::from(state.true_count > 0),
                    };
                    for lane in lanes_of(group.mask) {
                        cta.warps[w].set(barrier.dst, lane, value);
                    }
                }
                group.state = State::Ready;
                group.pc += 1;
                // Lanes that waited together go on together.
                match released.iter_mut().find(|other| other.pc == group.pc && other.stack == group.stack) {
                    Some(other) => other.mask |= group.mask,
                    None => released.push(group),
                }
            }
            kept.append(&mut released);
            cta.warps[w].groups = kept;
        }
    }

    fn missed(&mut self, cta: &Cta, index: usize, state: &BarrierState, missing: u32) {
        let Some(w) = state.arrived.iter().position(|arrived| *arrived != 0) else { return };
        let at = At { warp: w, lane: state.arrived[w].trailing_zeros() as usize, pc: state.places[w].1 };
        let first = state.arrived.iter().zip(&cta.warps).enumerate().find_map(|(w, (arrived, warp))| {
            let missing = warp.populated & !arrived;
            if missing == 0 { None } else { Some(w as u32 * 32 + missing.trailing_zeros()) }
        });
        let total = cta.threads;
        self.fault(cta, at, FaultKind::BarrierExited, None, || {
            format!(
                "{missing} of {total} threads exited without reaching barrier {index}, the first is thread {}",
                first.unwrap_or(0)
            )
        });
    }
}
