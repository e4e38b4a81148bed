//! Calls of framed functions: the thread's stack, and registers put aside.

use super::{At, Executor, lanes_of};
use crate::{
    decode::inst::{Address, FramedCall, Op, Slot},
    machine::{Cta, Group, Saved},
    report::FaultKind,
};

impl Executor<'_> {
    fn place_of(cta: &Cta, w: usize, lane: usize, address: Address) -> u64 {
        cta.warps[w].get(address.base, lane).wrapping_add_signed(address.offset)
    }

    /// Copies bytes within a lane's local memory, with what is known of them.
    pub(super) fn copy_in_lane(cta: &mut Cta, w: usize, lane: usize, from: u64, to: u64, bytes: u64) {
        let start = (w * 32 + lane) * cta.local_bytes as usize;
        let size = u64::from(cta.local_bytes);
        if from.saturating_add(bytes) > size || to.saturating_add(bytes) > size {
            return;
        }
        let (from, to, n) = (start + from as usize, start + to as usize, bytes as usize);
        for memory in [&mut cta.local, &mut cta.local_defined] {
            if from + n <= memory.len() && to + n <= memory.len() {
                memory.copy_within(from..from + n, to);
            }
        }
    }

    /// Calls a framed function, one group for each function called.
    pub(super) fn call_framed(
        &mut self,
        cta: &mut Cta,
        w: usize,
        group: Group,
        call: &FramedCall,
    ) -> Option<Group> {
        let pc = group.pc;
        let kernel = self.kernel;
        let mut parts: Vec<(usize, u32)> = Vec::new();
        match call.target {
            Ok(index) => parts.push((index as usize, group.mask)),
            Err(slot) => {
                self.check_defined(
                    cta,
                    w,
                    slot,
                    group.mask,
                    pc,
                    FaultKind::UninitializedBranch,
                    "the called address",
                );
                let mut lost = 0;
                for lane in lanes_of(group.mask) {
                    let address = cta.warps[w].get(slot, lane);
                    let Some(index) = kernel.frames.iter().position(|frame| frame.address == address) else {
                        let at = At { warp: w, lane, pc };
                        self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || {
                            "a call of an address that is no function's".to_owned()
                        });
                        lost |= 1 << lane;
                        continue;
                    };
                    match parts.iter_mut().find(|(known, _)| *known == index) {
                        Some((_, mask)) => *mask |= 1 << lane,
                        None => parts.push((index, 1 << lane)),
                    }
                }
                if lost != 0 {
                    self.exit(cta, w, lost, pc);
                }
            }
        }
        let mut next = None;
        for (index, mask) in parts {
            let frame = kernel.frames[index];
            let mut entered = 0;
            for lane in lanes_of(mask) {
                if self.enter(cta, w, lane, pc, call, index) {
                    entered |= 1 << lane;
                }
            }
            if mask & !entered != 0 {
                self.exit(cta, w, mask & !entered, pc);
            }
            if entered == 0 {
                continue;
            }
            let mut inner = Group { mask: entered, pc: frame.pc, ..group.clone() };
            inner.stack.push(pc + 1);
            if let Some(other) = next.replace(inner) {
                cta.warps[w].groups.push(other);
            }
        }
        next
    }

    /// Makes a lane's frame; false when the stack is full.
    fn enter(
        &mut self,
        cta: &mut Cta,
        w: usize,
        lane: usize,
        pc: u32,
        call: &FramedCall,
        index: usize,
    ) -> bool {
        let kernel = self.kernel;
        let frame = kernel.frames[index];
        let [fp, sp] = kernel.stack_slots;
        let warp = &cta.warps[w];
        let base = warp.get(sp, lane).max(kernel.stack_base.into());
        let end = base + u64::from(frame.bytes);
        if end > cta.local_bytes.into() {
            let at = At { warp: w, lane, pc };
            let deep = cta.warps[w].frames[lane].len();
            self.fault(cta, at, FaultKind::OutOfBounds, None, || {
                format!("the stack of the thread is full, {deep} calls deep")
            });
            return false;
        }
        let slots = frame.first..frame.first + frame.slots;
        let saved = Saved {
            fp: warp.get(fp, lane),
            sp: warp.get(sp, lane),
            values: slots.clone().map(|slot| warp.get(slot, lane)).collect(),
            undefined: slots.map(|slot| warp.undefined_bytes(slot, lane)).collect(),
            first: frame.first,
        };
        if self.strict {
            let start = (w * 32 + lane) * cta.local_bytes as usize;
            if let Some(flags) = cta.local_defined.get_mut(start + base as usize..start + end as usize) {
                flags.fill(0);
            }
        }
        for (from, offset, bytes) in &call.arguments {
            let from = Self::place_of(cta, w, lane, *from);
            Self::copy_in_lane(cta, w, lane, from, base + u64::from(*offset), (*bytes).into());
        }
        let warp = &mut cta.warps[w];
        warp.frames[lane].push(saved);
        warp.set(fp, lane, base);
        warp.set(sp, lane, end);
        true
    }

    /// Undoes frames of lanes that return to behind `back - 1`, if it made any.
    pub(super) fn leave_frame(&mut self, cta: &mut Cta, w: usize, lanes: u32, back: u32) {
        let kernel = self.kernel;
        let Some(Op::CallFramed(call)) = kernel.code.get(back.wrapping_sub(1) as usize).map(|inst| &inst.op)
        else {
            return;
        };
        let [fp, sp] = kernel.stack_slots;
        for lane in lanes_of(lanes) {
            let warp = &mut cta.warps[w];
            let base = warp.get(fp, lane);
            let Some(saved) = warp.frames[lane].pop() else { continue };
            for (at, (value, undefined)) in saved.values.iter().zip(&saved.undefined).enumerate() {
                warp.set_with(saved.first + at as Slot, lane, *value, *undefined);
            }
            warp.set(fp, lane, saved.fp);
            warp.set(sp, lane, saved.sp);
            for (to, offset, bytes) in &call.results {
                let to = Self::place_of(cta, w, lane, *to);
                Self::copy_in_lane(cta, w, lane, base + u64::from(*offset), to, (*bytes).into());
            }
        }
    }
}
