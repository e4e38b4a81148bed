//! `cp.async.bulk`: copies of blocks and of tensor boxes between global and shared
//! memory. They are in flight from their issue on; a copy to shared memory lands
//! when a thread looks at its mbarrier or nothing else can run, one to global memory
//! when its thread waits for it or exits.

use super::{At, Executor, lanes_of};
use crate::{
    decode::inst::{Address, Bulk, MapReplace, Scope},
    machine::{BulkCopy, Cta},
    memory::race::Access,
    ptx::ast::Space,
    report::FaultKind,
    tensor_map::{self, TensorMap},
};

/// The most bytes of one copy.
const MOST: u64 = 1 << 20;

impl Executor<'_> {
    pub(super) fn bulk(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, copy: &Bulk) {
        for slot in [copy.shared.base, copy.other.base, copy.bytes, copy.mbarrier.base] {
            self.check_defined(
                cta,
                w,
                slot,
                active,
                pc,
                FaultKind::UninitializedAddress,
                "an operand of the copy",
            );
        }
        self.prepare_flight(cta);
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            self.issue(cta, at, copy);
        }
    }

    /// The map that a tensor copy names.
    fn tensor_map(&mut self, cta: &mut Cta, at: At, address: u64) -> Option<TensorMap> {
        let (space, place) =
            self.resolve(cta, at, Space::Generic, address, 64, tensor_map::BYTES as u64, false)?;
        let mut bytes = Vec::with_capacity(tensor_map::BYTES);
        for word in 0..tensor_map::BYTES as u64 / 8 {
            bytes.extend(self.read(cta, at, space, place + 8 * word, 8, Access::READ).0.to_le_bytes());
        }
        match TensorMap::decode(&bytes) {
            Ok(map) => Some(map),
            Err(why) => {
                self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || why);
                None
            }
        }
    }

    /// `tensormap.replace`: a field of a map in memory.
    pub(super) fn map_replace(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        pc: u32,
        replace: &MapReplace,
    ) {
        for slot in [replace.address.base, replace.value] {
            self.check_defined(cta, w, slot, active, pc, FaultKind::UninitializedAddress, "an operand");
        }
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            let warp = &cta.warps[w];
            let address = warp.get(replace.address.base, lane).wrapping_add_signed(replace.address.offset);
            let value = warp.get(replace.value, lane);
            let bytes = tensor_map::BYTES as u64;
            let Some((space, place)) = self.resolve(cta, at, replace.space, address, 64, bytes, true) else {
                continue;
            };
            let Some((offset, size, bits)) = replace.field.encode(value) else {
                let field = replace.field;
                self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || {
                    format!("a tensor map whose {field:?} is {value}, which is not modelled")
                });
                continue;
            };
            self.write(cta, at, space, place, 4, tensor_map::magic(), 0, Access::WRITE);
            self.write(cta, at, space, place + offset, size, bits, 0, Access::WRITE);
        }
    }

    /// `tensormap.cp_fenceproxy`: the warp copies a map from shared to global memory.
    pub(super) fn map_copy(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        pc: u32,
        to: Address,
        from: Address,
    ) {
        let at = At { warp: w, lane: active.trailing_zeros() as usize, pc };
        for slot in [to.base, from.base] {
            self.check_defined(cta, w, slot, active, pc, FaultKind::UninitializedAddress, "the address");
        }
        let place = |cta: &Cta, address: Address| {
            cta.warps[w].get(address.base, at.lane).wrapping_add_signed(address.offset)
        };
        let (to, from, bytes) = (place(cta, to), place(cta, from), tensor_map::BYTES as u64);
        let source = self.resolve(cta, at, Space::Shared, from, 64, bytes, false);
        let target = self.resolve(cta, at, Space::Global, to, 64, bytes, true);
        let (Some((_, from)), Some((_, to))) = (source, target) else { return };
        for word in 0..bytes / 8 {
            let (value, undefined) = self.read(cta, at, Space::Shared, from + 8 * word, 8, Access::READ);
            self.write(cta, at, Space::Global, to + 8 * word, 8, value, undefined, Access::WRITE);
        }
    }

    fn issue(&mut self, cta: &mut Cta, at: At, copy: &Bulk) {
        let value = |cta: &Cta, slot| cta.warps[at.warp].get(slot, at.lane);
        let shared = value(cta, copy.shared.base).wrapping_add_signed(copy.shared.offset);
        let other = value(cta, copy.other.base).wrapping_add_signed(copy.other.offset);
        // Pairs of an element's place in shared memory and elsewhere, and its bytes.
        let mut pairs: Vec<(u64, Option<u64>, u8)> = Vec::new();
        let mut fill = 0;
        let total = match &copy.tensor {
            None => {
                let bytes = value(cta, copy.bytes) & 0xffff_ffff;
                if bytes % 16 != 0 || shared % 16 != 0 || other % 16 != 0 || bytes > MOST {
                    self.fault(cta, at, FaultKind::Misaligned, Some(other), || {
                        format!("a bulk copy of {bytes} bytes: sizes and both addresses are multiples of 16")
                    });
                    return;
                }
                let other_space = if copy.to_shared { copy.source } else { Space::Global };
                if bytes == 0
                    || !self.check_range(cta, at, Space::Shared, shared, bytes, copy.to_shared)
                    || !self.check_range(cta, at, other_space, other, bytes, !copy.to_shared)
                {
                    return;
                }
                pairs.extend((0..bytes / 8).map(|i| (shared + 8 * i, Some(other + 8 * i), 8)));
                bytes
            }
            Some(coordinates) => {
                let Some(map) = self.tensor_map(cta, at, other) else { return };
                let start: Vec<i32> =
                    coordinates.iter().map(|slot| value(cta, *slot) as u32 as i32).collect();
                let inner =
                    u64::from(map.element) * map.extents.first().map_or(0, |extent| u64::from(*extent));
                let swizzled = map.swizzle != tensor_map::Swizzle::None;
                if start.len() != map.sizes.len()
                    || shared % 128 != 0
                    || inner % 16 != 0
                    || (swizzled && inner > map.swizzle.span())
                {
                    self.fault(cta, at, FaultKind::Misaligned, Some(shared), || {
                        format!(
                            "a tensor copy with {} coordinates to {shared:#x}: the map has {} dimensions and rows of \
                             {inner} bytes, shared addresses are multiples of 128",
                            start.len(),
                            map.sizes.len()
                        )
                    });
                    return;
                }
                // A swizzle moves pieces within rows of 128 bytes.
                let room = map.box_bytes().next_multiple_of(if swizzled { 128 } else { 1 });
                if !self.check_range(cta, at, Space::Shared, shared, room, copy.to_shared) {
                    return;
                }
                fill = map.fill;
                let element = u64::from(map.element);
                for (index, place) in map.elements(&start).into_iter().enumerate() {
                    pairs.push((map.swizzle.apply(shared + index as u64 * element), place, map.element));
                }
                map.box_bytes()
            }
        };
        let mut pending = BulkCopy {
            thread: at.thread(),
            pc: at.pc,
            to_shared: copy.to_shared,
            pieces: Vec::with_capacity(pairs.len()),
            mbarrier: None,
            total: total as i64,
            reduce: copy.reduce,
            group: 0,
        };
        if copy.to_shared {
            let address = value(cta, copy.mbarrier.base).wrapping_add_signed(copy.mbarrier.offset);
            let resolved = self.resolve(cta, at, copy.mbarrier_space, address, 8, 8, true);
            let Some((Space::Shared, place)) =
                resolved.filter(|(_, place)| cta.phases.contains_key(&(*place as u32)))
            else {
                self.fault(cta, at, FaultKind::BadBarrier, Some(address), || {
                    "a bulk copy names an mbarrier that was not initialised".to_owned()
                });
                return;
            };
            pending.mbarrier = Some(place as u32);
        }
        for (place, elsewhere, bytes) in pairs {
            let source = if copy.to_shared { elsewhere } else { Some(place) };
            let space = if copy.to_shared { copy.source } else { Space::Shared };
            let target = if copy.to_shared { Some(place) } else { elsewhere };
            let (data, undefined) = match source {
                Some(source) => {
                    if !self.check_range(cta, at, space, source, bytes.into(), false) {
                        return;
                    }
                    self.read(cta, at, space, source, bytes, Access::READ)
                }
                None => (fill, 0),
            };
            // What lies outside of the tensor is not stored.
            let Some(target) = target else { continue };
            if copy.to_shared {
                self.race(cta, at, Space::Shared, target, bytes, Access::WRITE);
                self.check_flight(cta, at, target, bytes.into(), true);
            } else if !self.check_range(cta, at, Space::Global, target, bytes.into(), true) {
                return;
            }
            pending.pieces.push((target, source.map(|source| (space, source)), data, undefined, bytes));
        }
        // Marked when all of it has been checked: elements may share a word.
        if copy.to_shared {
            for (target, _, _, _, bytes) in &pending.pieces {
                self.fly(cta, *target, (*bytes).into(), Some((1 + at.thread(), at.pc)));
            }
        }
        cta.bulk.push(pending);
    }

    /// Marks words of shared memory as in flight, or as landed.
    fn fly(&mut self, cta: &mut Cta, place: u64, bytes: u64, mark: Option<(u32, u32)>) {
        for word in place / 4..=(place + bytes - 1) / 4 {
            let Some(slot) = cta.in_flight.get_mut(word as usize) else { continue };
            match (slot.0 != 0, mark.is_some()) {
                (false, true) => cta.flying += 1,
                (true, false) => cta.flying = cta.flying.saturating_sub(1),
                _ => {}
            }
            *slot = mark.unwrap_or((0, 0));
        }
    }

    /// Lets the copies land that count on an mbarrier. Hostile schedules hold some of
    /// them back.
    pub(super) fn land_copies_of(&mut self, cta: &mut Cta, place: u32) {
        let mut index = 0;
        while index < cta.bulk.len() {
            let due = cta.bulk[index].mbarrier == Some(place);
            if due && (!self.options.adversarial() || cta.random.bits() & 1 == 1) {
                let copy = cta.bulk.remove(index);
                self.land_bulk(cta, copy);
            } else {
                index += 1;
            }
        }
    }

    /// Lets the oldest copy land; false when there is none.
    pub fn land_any(&mut self, cta: &mut Cta) -> bool {
        let Some(index) = cta.bulk.iter().position(|copy| copy.to_shared) else { return false };
        let copy = cta.bulk.remove(index);
        self.land_bulk(cta, copy);
        true
    }

    /// `cp.async.bulk.commit_group`.
    pub(super) fn bulk_commit(&mut self, cta: &mut Cta, w: usize, active: u32) {
        for lane in lanes_of(active) {
            let thread = w as u32 * 32 + lane as u32;
            let group = cta.bulk_groups.entry(thread).or_default();
            *group += 1;
            let open = |copy: &&mut BulkCopy| copy.thread == thread && !copy.to_shared && copy.group == 0;
            for copy in cta.bulk.iter_mut().filter(open) {
                copy.group = *group;
            }
        }
    }

    /// `cp.async.bulk.wait_group`: all but the newest `pending` groups land.
    pub(super) fn bulk_wait(&mut self, cta: &mut Cta, w: usize, active: u32, pending: u32) {
        for lane in lanes_of(active) {
            let thread = w as u32 * 32 + lane as u32;
            let last = cta.bulk_groups.get(&thread).copied().unwrap_or(0).saturating_sub(pending);
            self.land_stores(cta, |copy| copy.thread == thread && (1..=last).contains(&copy.group));
        }
    }

    /// Copies to global memory of threads that exit land then; a source that nobody
    /// waited for may be gone before it is read.
    pub(super) fn bulk_exit(&mut self, cta: &mut Cta, w: usize, lanes: u32) {
        for lane in lanes_of(lanes) {
            let thread = w as u32 * 32 + lane as u32;
            let open =
                cta.bulk.iter().find(|copy| copy.thread == thread && !copy.to_shared).map(|copy| copy.pc);
            if let Some(pc) = open {
                let at = At { warp: w, lane, pc };
                self.fault(cta, at, FaultKind::AsyncNotWaited, None, || {
                    "the thread exits with bulk copies from shared memory never waited for".to_owned()
                });
                self.land_stores(cta, |copy| copy.thread == thread);
            }
        }
    }

    fn land_stores(&mut self, cta: &mut Cta, due: impl Fn(&BulkCopy) -> bool) {
        let mut index = 0;
        while index < cta.bulk.len() {
            if !cta.bulk[index].to_shared && due(&cta.bulk[index]) {
                let copy = cta.bulk.remove(index);
                self.land_bulk(cta, copy);
            } else {
                index += 1;
            }
        }
    }

    fn land_bulk(&mut self, cta: &mut Cta, copy: BulkCopy) {
        let at = At { warp: copy.thread as usize / 32, lane: copy.thread as usize % 32, pc: copy.pc };
        let mut changed = None;
        for (target, source, data, undefined, bytes) in &copy.pieces {
            if let Some((space, source)) = source
                && changed.is_none()
                && self.peek(cta, at, *space, *source, *bytes) != *data
            {
                changed = Some(*source);
            }
            if copy.to_shared {
                self.fly(cta, *target, (*bytes).into(), None);
                self.write(cta, at, Space::Shared, *target, *bytes, *data, *undefined, Access::WRITE);
            } else if let Some((op, ty)) = copy.reduce {
                self.reduce(cta, at, *target, (op, ty), *data, *bytes);
            } else {
                self.write(cta, at, Space::Global, *target, *bytes, *data, *undefined, Access::WRITE);
            }
        }
        if let Some(source) = changed {
            self.fault(cta, at, FaultKind::AsyncSource, Some(source), || {
                "the source of the copy was overwritten before the copy was waited for".to_owned()
            });
        }
        let Some(place) = copy.mbarrier else { return };
        // Who sees the phase complete sees what has landed.
        if self.strict
            && let Some(clock) = cta.clocks.get_mut(copy.thread as usize)
        {
            let released = clock.release(true, Scope::Cta, cta.index, copy.thread);
            if let Some(phases) = cta.phases.get_mut(&place) {
                phases.arrived = released.after(&phases.arrived);
            }
        }
        self.transactions(cta, place, -copy.total);
    }

    /// Adds a piece of up to 8 bytes to global memory, element by element.
    fn reduce(
        &mut self,
        cta: &mut Cta,
        at: At,
        target: u64,
        (op, ty): (crate::decode::inst::AtomicOp, crate::decode::types::Ty),
        data: u64,
        bytes: u8,
    ) {
        let size = ty.bytes();
        for index in 0..u64::from(bytes / size.max(1)) {
            let place = target + index * u64::from(size);
            let operand = data >> (8 * u64::from(size) * index);
            let operand = if size >= 8 { operand } else { operand & ((1 << (8 * size)) - 1) };
            if self.defer {
                self.idle = false;
                self.race(cta, at, Space::Global, place, size, Access::STRONG_WRITE);
                self.defer_update(place, op, ty, operand);
                continue;
            }
            let (old, _) = self.read(cta, at, Space::Global, place, size, Access::STRONG_WRITE);
            let new = super::atomic::apply(op, ty, old, operand, 0);
            self.write(cta, at, Space::Global, place, size, new, 0, Access::STRONG_WRITE);
        }
    }
}
