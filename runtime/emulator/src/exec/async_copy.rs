//! `cp.async`: data land in shared memory when the thread waits for them.

use super::{At, Executor, lanes_of};
use crate::{
    decode::inst::{AsyncCopy, NONE},
    machine::{AsyncQueue, Cta, PendingCopy},
    memory::race::Access,
    ptx::ast::Space,
    report::{FaultKind, Side},
};

impl Executor<'_> {
    pub(super) fn async_copy(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, copy: &AsyncCopy) {
        if cta.queues.is_empty() {
            cta.queues = vec![AsyncQueue::default(); cta.threads as usize];
        }
        self.prepare_flight(cta);
        let slots = [copy.dst.base, copy.src.base, copy.src_bytes];
        for slot in slots {
            self.check_defined(
                cta,
                w,
                slot,
                active,
                pc,
                FaultKind::UninitializedAddress,
                "an operand of `cp.async`",
            );
        }
        let ignored = if copy.ignore == NONE {
            0
        } else {
            self.check_defined(
                cta,
                w,
                copy.ignore,
                active,
                pc,
                FaultKind::UninitializedBranch,
                "the ignore predicate",
            );
            cta.warps[w].predicate(copy.ignore, copy.ignore_not, active)
        };
        let bytes = u64::from(copy.bytes);
        let (mut sources, mut targets) = (Vec::with_capacity(32), Vec::with_capacity(32));
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            let warp = &cta.warps[w];
            let dst = warp.get(copy.dst.base, lane).wrapping_add_signed(copy.dst.offset);
            let src = warp.get(copy.src.base, lane).wrapping_add_signed(copy.src.offset);
            let wanted = if ignored >> lane & 1 == 1 {
                0
            } else if copy.src_bytes == NONE {
                bytes
            } else {
                warp.get(copy.src_bytes, lane).min(bytes)
            };
            if !self.check_range(cta, at, Space::Shared, dst, bytes, true) {
                continue;
            }
            // A copy that reads nothing has no source address to check.
            let mut data = [0u8; 16];
            let mut defined = u16::MAX;
            if wanted > 0 {
                if !src.is_multiple_of(bytes) {
                    self.fault(cta, at, FaultKind::Misaligned, Some(src), || {
                        format!("the source of a {bytes}-byte `cp.async` is not a multiple of {bytes}")
                    });
                    continue;
                }
                if !self.check_range(cta, at, Space::Global, src, wanted, false) {
                    continue;
                }
                sources.push(src);
                let mut done = 0;
                while done < wanted {
                    let step = (wanted - done).min(4) as u8;
                    let step = if step == 3 { 1 } else { step };
                    let (value, undefined) =
                        self.read(cta, at, Space::Global, src + done, step, Access::READ);
                    let from = done as usize;
                    data[from..from + usize::from(step)]
                        .copy_from_slice(&value.to_le_bytes()[..usize::from(step)]);
                    defined &= !(u16::from(undefined) << done);
                    done += u64::from(step);
                }
            }
            targets.push(dst);
            if self.strict {
                for word in 0..bytes / 4 {
                    // Racing accesses before the issue are found now, later ones
                    // by the mark that the words are in flight.
                    self.race(cta, at, Space::Shared, dst + 4 * word, 4, Access::WRITE);
                    self.check_flight(cta, at, dst + 4 * word, 4, true);
                    if let Some(slot) = cta.in_flight.get_mut((dst / 4 + word) as usize) {
                        if slot.0 == 0 {
                            cta.flying += 1;
                        }
                        *slot = (1 + w as u32 * 32 + lane as u32, pc);
                    }
                }
            }
            let pending = PendingCopy {
                dst: dst as u32,
                bytes: copy.bytes,
                src,
                wanted: wanted as u8,
                data,
                defined,
                pc,
            };
            if let Some(queue) = cta.queues.get_mut(w * 32 + lane) {
                queue.open.push(pending);
            }
        }
        self.count_global(pc, &sources, bytes);
        self.count_shared(pc, &targets, bytes);
    }

    /// Makes room for marks of what is in flight.
    pub(super) fn prepare_flight(&mut self, cta: &mut Cta) {
        if self.strict && cta.in_flight.is_empty() {
            cta.in_flight = vec![(0, 0); cta.shared.len().div_ceil(4)];
        }
    }

    pub(super) fn commit_group(&mut self, cta: &mut Cta, w: usize, active: u32) {
        if cta.queues.is_empty() {
            return;
        }
        for lane in lanes_of(active) {
            if let Some(queue) = cta.queues.get_mut(w * 32 + lane) {
                let open = std::mem::take(&mut queue.open);
                queue.groups.push_back(open);
            }
        }
    }

    pub(super) fn wait_group(&mut self, cta: &mut Cta, w: usize, active: u32, pending: Option<u32>) {
        if cta.queues.is_empty() {
            return;
        }
        for lane in lanes_of(active) {
            let Some(queue) = cta.queues.get_mut(w * 32 + lane) else { continue };
            let mut landing = Vec::new();
            let keep = pending.unwrap_or(0) as usize;
            while queue.groups.len() > keep {
                landing.extend(queue.groups.pop_front().unwrap_or_default());
            }
            if pending.is_none() {
                landing.append(&mut queue.open);
            }
            for copy in landing {
                self.land(cta, w, lane, &copy);
            }
        }
    }

    fn land(&mut self, cta: &mut Cta, w: usize, lane: usize, copy: &PendingCopy) {
        let at = At { warp: w, lane, pc: copy.pc };
        let (start, bytes) = (copy.dst as usize, usize::from(copy.bytes));
        self.check_source(cta, at, copy);
        if let Some(target) = cta.shared.get_mut(start..start + bytes) {
            target.copy_from_slice(&copy.data[..bytes]);
        }
        if !self.strict {
            return;
        }
        for byte in 0..bytes {
            if let Some(slot) = cta.shared_defined.get_mut(start + byte) {
                *slot = u8::from(copy.defined >> byte & 1 == 1);
            }
        }
        for word in 0..bytes / 4 {
            if let Some(slot) = cta.in_flight.get_mut(start / 4 + word)
                && slot.0 == 1 + w as u32 * 32 + lane as u32
            {
                cta.flying = cta.flying.saturating_sub(1);
                *slot = (0, 0);
            }
            self.race(cta, at, Space::Shared, (start + 4 * word) as u64, 4, Access::WRITE);
        }
    }

    /// Reports a source that no longer holds what the copy was issued for.
    fn check_source(&mut self, cta: &Cta, at: At, copy: &PendingCopy) {
        let wanted = u64::from(copy.wanted);
        let (mut done, mut changed) = (0, None);
        while done < wanted && changed.is_none() {
            // The source is aligned to the size of the copy.
            let step = if wanted - done >= 8 { 8 } else { 1 };
            let from = done as usize;
            let mut then = [0; 8];
            then[..step].copy_from_slice(&copy.data[from..from + step]);
            if self.peek(cta, at, Space::Global, copy.src + done, step as u8) != u64::from_le_bytes(then) {
                changed = Some(done);
            }
            done += step as u64;
        }
        if let Some(byte) = changed {
            self.fault(cta, at, FaultKind::AsyncSource, Some(copy.src + byte), || {
                "the source of the copy was overwritten before the copy was waited for".to_owned()
            });
        }
    }

    /// Reports an access to shared words that a copy is still writing.
    #[inline]
    pub(super) fn check_flight(&mut self, cta: &Cta, at: At, address: u64, bytes: u64, write: bool) {
        if cta.flying == 0 {
            return;
        }
        for word in address / 4..=(address + bytes - 1) / 4 {
            let Some((thread, pc)) = cta.in_flight.get(word as usize).copied().filter(|slot| slot.0 != 0)
            else {
                continue;
            };
            let other = self.thread_place(cta.index, thread - 1);
            let sides = vec![Side { pc, thread: other, what: "copied by".to_owned() }];
            let verb = if write { "writes" } else { "reads" };
            self.fault_with(cta, at, FaultKind::AsyncInFlight, Some(word * 4), sides, || {
                format!(
                    "{verb} shared memory that an asynchronous copy is still writing: it was not waited for"
                )
            });
            return;
        }
    }

    /// Reports copies that exiting lanes never waited for.
    pub(super) fn check_waited(&mut self, cta: &Cta, w: usize, lanes: u32) {
        for lane in lanes_of(lanes) {
            let Some(queue) = cta.queues.get(w * 32 + lane) else { continue };
            let committed = queue.groups.iter().flatten().next();
            let Some(copy) = queue.open.first().or(committed) else { continue };
            let what =
                if queue.open.is_empty() { "committed but never waited for" } else { "never committed" };
            let at = At { warp: w, lane, pc: copy.pc };
            self.fault(cta, at, FaultKind::AsyncNotWaited, Some(copy.dst.into()), || {
                format!("the thread exits with copies to shared memory that were {what}")
            });
        }
    }
}
