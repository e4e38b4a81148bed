//! `mbarrier` objects, and the barrier of a cluster of one CTA.

use super::{At, Executor, lanes_of};
use crate::{
    decode::inst::{Mbarrier, MbarrierAction, NONE, Scope},
    machine::{Cta, Group, Phases, State},
    memory::race::Access,
    ptx::ast::Space,
    report::FaultKind,
};

/// Where the cluster's barrier is kept among the others.
pub(super) const CLUSTER: u32 = u32::MAX;
/// The most arrivals that an `mbarrier` counts.
const MOST: u64 = (1 << 20) - 1;

impl Executor<'_> {
    /// The shared address of an operand.
    fn object(&mut self, cta: &Cta, at: At, op: &Mbarrier) -> Option<u32> {
        let address = cta.warps[at.warp].get(op.address.base, at.lane).wrapping_add_signed(op.address.offset);
        let (space, place) = self.resolve(cta, at, op.space, address, 8, 8, true)?;
        if space != Space::Shared {
            self.fault(cta, at, FaultKind::BadBarrier, Some(address), || {
                "an mbarrier outside of shared memory".to_owned()
            });
            return None;
        }
        Some(place as u32)
    }

    fn known(&mut self, cta: &mut Cta, at: At, place: u32) -> bool {
        if cta.phases.contains_key(&place) {
            // Its initialisation is a write like others: it must have happened before.
            self.race(cta, at, Space::Shared, place.into(), 8, Access::READ);
            return true;
        }
        self.fault(cta, at, FaultKind::BadBarrier, Some(place.into()), || {
            "no mbarrier was initialised there".to_owned()
        });
        false
    }

    /// An `mbarrier` instruction that does not wait.
    pub(super) fn mbarrier(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, op: &Mbarrier) {
        for slot in [op.address.base, op.count, op.tx] {
            self.check_defined(cta, w, slot, active, pc, FaultKind::UninitializedAddress, "an operand");
        }
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            let operand =
                |cta: &Cta, slot, default| if slot == NONE { default } else { cta.warps[w].get(slot, lane) };
            if op.action == MbarrierAction::Pending {
                let pending = operand(cta, op.count, 0) & 0xffff_ffff;
                cta.warps[w].set(op.dst, lane, pending);
                continue;
            }
            if op.action == MbarrierAction::ClusterArrive {
                self.cluster_arrive(cta, at);
                continue;
            }
            let Some(place) = self.object(cta, at, op) else { continue };
            let count = operand(cta, op.count, 1) & 0xffff_ffff;
            let tx = operand(cta, op.tx, 0);
            match op.action {
                MbarrierAction::Init => {
                    if count == 0 || count > MOST {
                        self.fault(cta, at, FaultKind::BadBarrier, Some(place.into()), || {
                            format!("an mbarrier for {count} arrivals: there may be 1 to {MOST}")
                        });
                        continue;
                    }
                    self.write(cta, at, Space::Shared, place.into(), 8, count, 0, Access::WRITE);
                    cta.phases.insert(place, Phases::new(count as i64));
                }
                _ if !self.known(cta, at, place) => {}
                MbarrierAction::Invalidate => {
                    cta.phases.remove(&place);
                }
                MbarrierAction::ExpectTx => self.transactions(cta, place, tx as u32 as i64),
                MbarrierAction::CompleteTx => self.transactions(cta, place, -(tx as u32 as i64)),
                MbarrierAction::Arrive { drop } => {
                    if op.tx != NONE
                        && let Some(phases) = cta.phases.get_mut(&place)
                    {
                        phases.transactions += tx as u32 as i64;
                    }
                    let token = self.arrive_at(cta, at, place, count as i64, drop);
                    cta.warps[w].set(op.dst, lane, token);
                }
                MbarrierAction::CopyArrive { counted } => {
                    // Its copies have landed when it arrives.
                    self.wait_group(cta, w, 1 << lane, None);
                    if counted && let Some(phases) = cta.phases.get_mut(&place) {
                        phases.pending += 1;
                    }
                    self.arrive_at(cta, at, place, 1, false);
                }
                MbarrierAction::Wait { parity } => {
                    self.land_copies_of(cta, place);
                    let state = operand(cta, op.count, 0);
                    let done = self.phase_done(cta, at, place, parity, state);
                    cta.warps[w].set(op.dst, lane, done.into());
                }
                _ => {}
            }
        }
    }

    /// An instruction that may wait: lanes whose phase is complete go on.
    pub(super) fn wait_phase(
        &mut self,
        cta: &mut Cta,
        w: usize,
        mut group: Group,
        op: &Mbarrier,
    ) -> Option<Group> {
        let pc = group.pc;
        for slot in [op.address.base, op.count] {
            self.check_defined(cta, w, slot, group.mask, pc, FaultKind::UninitializedAddress, "an operand");
        }
        let cluster = op.action == MbarrierAction::ClusterWait;
        let mut asked = Vec::with_capacity(32);
        for lane in lanes_of(group.mask) {
            let at = At { warp: w, lane, pc };
            let place = if cluster { Some(CLUSTER) } else { self.object(cta, at, op) };
            let known = match place {
                Some(place) if !cluster => self.known(cta, at, place),
                Some(place) => cta.phases.contains_key(&place),
                None => false,
            };
            asked.push((lane, place.filter(|_| known)));
        }
        // What lands completes phases: all of it before any lane is told.
        let mut landed = Vec::new();
        for place in asked.iter().filter_map(|(_, place)| *place) {
            if !landed.contains(&place) {
                landed.push(place);
                self.land_copies_of(cta, place);
            }
        }
        let (mut done, mut waits) = (0u32, Vec::new());
        for (lane, place) in asked {
            let at = At { warp: w, lane, pc };
            let Some(place) = place else {
                // Nothing to wait for: reported, or a wait without an arrival.
                done |= 1 << lane;
                cta.warps[w].set(op.dst, lane, 1);
                continue;
            };
            let state = match op.action {
                MbarrierAction::ClusterWait => cta.tokens.get(&at.thread()).copied().unwrap_or(0),
                _ => cta.warps[w].get(op.count, lane),
            };
            let parity = matches!(op.action, MbarrierAction::BlockingWait { parity: true });
            if self.phase_done(cta, at, place, parity, state) {
                done |= 1 << lane;
                cta.warps[w].set(op.dst, lane, 1);
            } else {
                waits.push((place, lane));
            }
        }
        for (place, lane) in waits {
            let same = |other: &Group| {
                other.state == State::Phase(place) && other.pc == pc && other.stack == group.stack
            };
            match cta.warps[w].groups.iter_mut().find(|other| same(other)) {
                Some(other) => other.mask |= 1 << lane,
                None => {
                    let waiting = Group { mask: 1 << lane, state: State::Phase(place), ..group.clone() };
                    cta.warps[w].groups.push(waiting);
                }
            }
        }
        group.mask = done;
        group.pc += 1;
        if done == 0 { None } else { Some(group) }
    }

    /// Whether the phase of a token (or of a parity) is complete; then its thread
    /// sees what was done before the arrivals.
    fn phase_done(&mut self, cta: &mut Cta, at: At, place: u32, parity: bool, state: u64) -> bool {
        let Some(phases) = cta.phases.get(&place) else { return true };
        let done = if parity { phases.phase & 1 != state & 1 } else { phases.phase > state >> 32 };
        if done
            && self.strict
            && let Some(clock) = cta.clocks.get_mut(at.thread() as usize)
        {
            clock.acquire(&phases.visible, true, Scope::Cta, cta.index, cta.threads);
        }
        done
    }

    /// Arrives: gives the token of the phase arrived at.
    fn arrive_at(&mut self, cta: &mut Cta, at: At, place: u32, count: i64, drop: bool) -> u64 {
        let released = if self.strict {
            cta.clocks
                .get_mut(at.thread() as usize)
                .map(|clock| clock.release(true, Scope::Cta, cta.index, at.thread()))
        } else {
            None
        };
        let Some(phases) = cta.phases.get_mut(&place) else { return 0 };
        if let Some(released) = released {
            phases.arrived = released.after(&phases.arrived);
        }
        let token = phases.phase << 32 | phases.pending as u64 & 0xffff_ffff;
        phases.pending -= count;
        if drop {
            phases.expected -= count;
        }
        let (left, expected) = (phases.pending, phases.expected);
        if left < 0 {
            self.fault(cta, at, FaultKind::BadBarrier, Some(place.into()), || {
                format!("more arrivals at an mbarrier than its phase waits for ({expected})")
            });
            if let Some(phases) = cta.phases.get_mut(&place) {
                phases.pending = 0;
            }
        }
        self.settle(cta, place);
        token
    }

    /// Adds expected (or takes off complete) bytes.
    pub(super) fn transactions(&mut self, cta: &mut Cta, place: u32, bytes: i64) {
        if let Some(phases) = cta.phases.get_mut(&place) {
            phases.transactions += bytes;
        }
        self.settle(cta, place);
    }

    /// Completes a phase that nothing is missing from, and wakes who waits for it.
    fn settle(&mut self, cta: &mut Cta, place: u32) {
        let Some(phases) = cta.phases.get_mut(&place) else { return };
        if phases.pending != 0 || phases.transactions != 0 {
            return;
        }
        phases.phase += 1;
        phases.pending = phases.expected;
        phases.visible = std::mem::take(&mut phases.arrived).after(&phases.visible);
        self.idle = false;
        for group in cta.warps.iter_mut().flat_map(|warp| &mut warp.groups) {
            if group.state == State::Phase(place) {
                group.state = State::Ready;
            }
        }
    }

    /// `barrier.cluster.arrive`: in a cluster of one CTA all of its threads meet.
    fn cluster_arrive(&mut self, cta: &mut Cta, at: At) {
        let live = i64::from(cta.live_threads());
        cta.phases.entry(CLUSTER).or_insert_with(|| Phases::new(live));
        let token = self.arrive_at(cta, at, CLUSTER, 1, false);
        cta.tokens.insert(at.thread(), token);
    }

    /// Threads that have exited are not waited for.
    pub(super) fn leave_cluster(&mut self, cta: &mut Cta, lanes: u32) {
        if let Some(phases) = cta.phases.get_mut(&CLUSTER) {
            let gone = i64::from(lanes.count_ones());
            phases.pending -= gone;
            phases.expected -= gone;
            self.settle(cta, CLUSTER);
        }
    }
}
