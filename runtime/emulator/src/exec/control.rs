//! Branches, calls and exits.

use super::{At, Executor};
use crate::{
    decode::inst::Op,
    machine::{Cta, Group, State},
    report::FaultKind,
};

impl Executor<'_> {
    /// Moves the program counter of a group: `active` are the lanes whose guard
    /// holds. Gives the group to go on with, if any lane is left.
    pub(super) fn transfer(
        &mut self,
        cta: &mut Cta,
        w: usize,
        mut group: Group,
        active: u32,
    ) -> Option<Group> {
        let kernel = self.kernel;
        let pc = group.pc;
        let inst = kernel.code.get(pc as usize)?;
        if active == 0 {
            group.pc += 1;
            return Some(group);
        }
        match &inst.op {
            Op::Branch { target } => {
                let rest = group.mask & !active;
                if rest == 0 {
                    group.pc = *target;
                    return Some(group);
                }
                let mut other =
                    Group { mask: rest, pc: pc + 1, stack: group.stack.clone(), state: State::Ready };
                group.mask = active;
                group.pc = *target;
                // Which side goes on first is the schedule's choice.
                if self.options.adversarial() && cta.random.bits() & 1 == 1 {
                    std::mem::swap(&mut group, &mut other);
                }
                cta.warps[w].groups.push(other);
                Some(group)
            }
            Op::BranchTable { targets, index } => {
                self.check_defined(
                    cta,
                    w,
                    *index,
                    active,
                    pc,
                    FaultKind::UninitializedBranch,
                    "the branch index",
                );
                if active != group.mask {
                    self.split(cta, w, &mut group, active);
                }
                let mut left = group.mask;
                let mut parts = Vec::new();
                while left != 0 {
                    let lane = left.trailing_zeros() as usize;
                    let value = cta.warps[w].get(*index, lane);
                    let same = super::lanes_of(left)
                        .filter(|lane| cta.warps[w].get(*index, *lane) == value)
                        .fold(0, |mask, lane| mask | 1 << lane);
                    left &= !same;
                    match usize::try_from(value).ok().and_then(|index| targets.get(index)) {
                        Some(target) => parts.push(Group { mask: same, pc: *target, ..group.clone() }),
                        None => {
                            let at = At { warp: w, lane, pc };
                            let count = targets.len();
                            self.fault(cta, at, FaultKind::OutOfBounds, None, || {
                                format!("the branch index {value} is outside a table of {count}")
                            });
                            self.exit(cta, w, same, pc);
                        }
                    }
                }
                let next = parts.pop();
                cta.warps[w].groups.append(&mut parts);
                next
            }
            Op::Call { target } => {
                if active != group.mask {
                    self.split(cta, w, &mut group, active);
                }
                group.stack.push(pc + 1);
                group.pc = *target;
                Some(group)
            }
            Op::CallFramed(call) => {
                if active != group.mask {
                    self.split(cta, w, &mut group, active);
                }
                self.call_framed(cta, w, group, call)
            }
            Op::Return => {
                if active != group.mask {
                    self.split(cta, w, &mut group, active);
                }
                match group.stack.pop() {
                    Some(back) => {
                        self.leave_frame(cta, w, group.mask, back);
                        group.pc = back;
                        Some(group)
                    }
                    None => {
                        self.exit(cta, w, group.mask, pc);
                        None
                    }
                }
            }
            _ => {
                self.exit(cta, w, active, pc);
                group.mask &= !active;
                group.pc += 1;
                if group.mask == 0 { None } else { Some(group) }
            }
        }
    }

    /// Ends lanes: others may have waited for them.
    pub(super) fn exit(&mut self, cta: &mut Cta, w: usize, lanes: u32, _pc: u32) {
        if self.strict && !cta.queues.is_empty() {
            self.check_waited(cta, w, lanes);
        }
        if !cta.bulk.is_empty() {
            self.bulk_exit(cta, w, lanes);
        }
        self.leave_cluster(cta, lanes);
        self.idle = false;
        let warp = &mut cta.warps[w];
        warp.exited |= lanes;
        for group in &mut warp.groups {
            if let State::Sync(_) = group.state {
                group.state = State::Ready;
            }
        }
        self.recheck_barriers(cta);
    }
}
