//! Loads, stores, atomics and fences of a warp, and the traffic they make.

use super::{
    At, Executor,
    access::{access_of, little_endian, undefined_of},
    lanes_of,
};
use crate::{
    counters,
    decode::{
        inst::{Address, AtomicOp, Load, NONE, Order, Scope, Store},
        types::Ty,
    },
    machine::Cta,
    memory::{
        global::PAGE,
        overlay::Deferred,
        race::{Access, Record, Relation},
    },
    ptx::ast::Space,
    report::FaultKind,
};

impl Executor<'_> {
    pub(super) fn load(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, load: &Load) {
        self.check_defined(
            cta,
            w,
            load.address.base,
            active,
            pc,
            FaultKind::UninitializedAddress,
            "the address",
        );
        let total = u64::from(load.bytes) * load.dst.len() as u64;
        if load.space == Space::Shared
            && load.order == Order::Weak
            && self.load_words(cta, w, active, pc, load)
        {
            return;
        }
        let access = access_of(load.order, load.scope, false);
        let (mut global, mut shared) = (Addresses::new(), Addresses::new());
        let mut local = 0;
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            let address = cta.warps[w].get(load.address.base, lane).wrapping_add_signed(load.address.offset);
            let Some((space, place)) = self.resolve(cta, at, load.space, address, total, total, false) else {
                for slot in load.dst.iter().filter(|slot| **slot != NONE) {
                    cta.warps[w].set(*slot, lane, 0);
                }
                continue;
            };
            match space {
                Space::Global => global.push(place),
                Space::Shared => shared.push(place),
                Space::Local => local += total,
                _ => {}
            }
            for (index, (slot, width)) in load.dst.iter().zip(&load.widths).enumerate() {
                let element = place + index as u64 * u64::from(load.bytes);
                if load.order != Order::Weak {
                    self.acquire(cta, at, space, element, load.order, load.scope);
                }
                let (mut value, mut undefined) = self.read(cta, at, space, element, load.bytes, access);
                if load.noncoherent && space == Space::Global {
                    self.global.note_noncoherent(element, load.bytes, pc, (cta.index, at.thread()));
                }
                if *slot == NONE {
                    continue;
                }
                if *width > load.bytes {
                    (value, undefined) = extend(value, undefined, load.bytes, *width, load.signed);
                }
                cta.warps[w].set_with(*slot, lane, value, undefined);
            }
        }
        self.count_global(pc, global.as_slice(), total);
        self.count_shared(pc, shared.as_slice(), total);
        self.counters.by_pc[pc as usize].local_bytes += local;
    }

    /// The frequent plain load of 32-bit words from shared memory, when nothing is
    /// wrong with any lane's address; false leaves it to [`Executor::load`].
    fn load_words(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, load: &Load) -> bool {
        if load.bytes != 4 || load.widths.iter().any(|width| *width != 4) {
            return false;
        }
        let total = 4 * load.dst.len() as u64;
        let size = cta.shared.len() as u64;
        let mut places = Addresses::new();
        for lane in lanes_of(active) {
            let place = cta.warps[w].get(load.address.base, lane).wrapping_add_signed(load.address.offset);
            if place & (total - 1) != 0 || place >= size || size - place < total {
                return false;
            }
            places.push(place);
        }
        let Cta { warps, clocks, shared, shared_defined, shared_shadow, .. } = cta;
        let warp = &mut warps[w];
        let mut conflicts = Vec::new();
        for (lane, place) in lanes_of(active).zip(places.as_slice()) {
            let thread = (w * 32 + lane) as u32;
            for (index, slot) in load.dst.iter().enumerate() {
                let element = place + 4 * index as u64;
                let mut undefined = 0;
                if self.strict
                    && let Some(clock) = clocks.get(thread as usize)
                {
                    let record = Record::new(thread, clock.epoch, clock.clock, pc, 0xf, Access::READ);
                    let relation = |old: &Record| {
                        let ordered = clock.knows_local(old, old.thread == thread, old.thread);
                        if ordered { Relation::Ordered } else { Relation::Cta }
                    };
                    let found = shared_shadow.access((element / 4) as u32, record, Access::READ, relation);
                    if let Some(conflict) = found {
                        conflicts.push((lane, element, conflict));
                    }
                    undefined = undefined_of(shared_defined, element, 4);
                }
                if *slot != NONE {
                    warp.set_with(*slot, lane, little_endian(shared, element, 4), undefined);
                }
            }
        }
        for (lane, element, conflict) in conflicts {
            let at = At { warp: w, lane, pc };
            self.report_race(cta, at, Space::Shared, element, Access::READ, &conflict, false);
        }
        if cta.flying > 0 {
            for (lane, place) in lanes_of(active).zip(places.as_slice()) {
                self.check_flight(cta, At { warp: w, lane, pc }, *place, total, false);
            }
        }
        self.count_shared(pc, places.as_slice(), total);
        true
    }

    pub(super) fn store(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, store: &Store) {
        self.check_defined(
            cta,
            w,
            store.address.base,
            active,
            pc,
            FaultKind::UninitializedAddress,
            "the address",
        );
        let total = u64::from(store.bytes) * store.src.len() as u64;
        let access = access_of(store.order, store.scope, true);
        let (mut global, mut shared) = (Addresses::new(), Addresses::new());
        let mut local = 0;
        let stored = ((1u16 << store.bytes) - 1) as u8;
        for lane in lanes_of(active) {
            let at = At { warp: w, lane, pc };
            let address =
                cta.warps[w].get(store.address.base, lane).wrapping_add_signed(store.address.offset);
            let Some((space, place)) = self.resolve(cta, at, store.space, address, total, total, true) else {
                continue;
            };
            match space {
                Space::Global => global.push(place),
                Space::Shared => shared.push(place),
                Space::Local => local += total,
                _ => {}
            }
            for (index, slot) in store.src.iter().enumerate() {
                let element = place + index as u64 * u64::from(store.bytes);
                let value = cta.warps[w].get(*slot, lane);
                let undefined = cta.warps[w].undefined_bytes(*slot, lane) & stored;
                if undefined != 0 && space == Space::Global {
                    self.undefined_stored(cta, at, element);
                }
                // What a plain store overwrites is no longer released.
                self.release(cta, at, space, element, store.order, store.scope, false);
                self.write(cta, at, space, element, store.bytes, value, undefined, access);
            }
        }
        self.count_global(pc, global.as_slice(), total);
        self.count_shared(pc, shared.as_slice(), total);
        self.counters.by_pc[pc as usize].local_bytes += local;
    }

    pub(super) fn atomic(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        pc: u32,
        atomic: &crate::decode::inst::Atomic,
    ) {
        self.check_defined(
            cta,
            w,
            atomic.address.base,
            active,
            pc,
            FaultKind::UninitializedAddress,
            "the address",
        );
        let bytes = atomic.ty.bytes();
        let total = u64::from(bytes) * atomic.b.len() as u64;
        let (mut global, mut shared) = (Addresses::new(), Addresses::new());
        // The order of the lanes is open: the schedule rotates it.
        let turn = if self.options.adversarial() { cta.random.below(32) } else { 0 };
        for index in 0..32u32 {
            let lane = ((index + turn) % 32) as usize;
            if active >> lane & 1 == 0 {
                continue;
            }
            let at = At { warp: w, lane, pc };
            let address =
                cta.warps[w].get(atomic.address.base, lane).wrapping_add_signed(atomic.address.offset);
            let Some((space, place)) = self.resolve(cta, at, atomic.space, address, total, total, true)
            else {
                continue;
            };
            match space {
                Space::Global => global.push(place),
                Space::Shared => shared.push(place),
                _ => continue,
            }
            self.atomic_lane(cta, at, atomic, space, place);
        }
        self.count_global(pc, global.as_slice(), total);
        self.count_shared(pc, shared.as_slice(), total);
    }

    /// Notes undefined bytes that leave for global memory. They are no fault yet:
    /// it is when someone compares them that they count.
    pub(super) fn undefined_stored(&mut self, cta: &Cta, at: At, address: u64) {
        self.fault(cta, at, FaultKind::UninitializedStore, Some(address), || {
            "stores bytes that are not initialised to global memory; a comparison of them will be a fault"
                .to_owned()
        });
    }

    /// An atomic of one lane: its elements one by one, or both halves of 128 bits.
    fn atomic_lane(
        &mut self,
        cta: &mut Cta,
        at: At,
        atomic: &crate::decode::inst::Atomic,
        space: Space,
        place: u64,
    ) {
        let bytes = atomic.ty.bytes();
        let lane = at.lane;
        let element = |index: usize| place + index as u64 * u64::from(bytes);
        let operands = |cta: &Cta, index: usize| {
            let warp = &cta.warps[at.warp];
            let slot = |slots: &[u32]| slots.get(index).copied().unwrap_or(NONE);
            let (b, c) = (slot(&atomic.b), slot(&atomic.c));
            let undefined = warp.undefined_bytes(b, lane) | warp.undefined_bytes(c, lane);
            (warp.get(b, lane), warp.get(c, lane), undefined & ((1u16 << bytes) - 1) as u8)
        };
        let mut olds = Vec::with_capacity(atomic.b.len());
        for index in 0..atomic.b.len() {
            let (b, _, undefined) = operands(cta, index);
            let place = element(index);
            if undefined != 0 {
                self.fault(cta, at, FaultKind::UninitializedAtomic, Some(place), || {
                    "an atomic with an operand that is not initialised".to_owned()
                });
            }
            let swaps = matches!(atomic.op, AtomicOp::Cas | AtomicOp::Exchange);
            let access = access_of(atomic.order, atomic.scope, true);
            if space == Space::Global && self.defer && atomic.dst.is_empty() && !swaps {
                self.idle = false;
                self.race(cta, at, space, place, bytes, access);
                self.check_updated(cta, at, place, bytes);
                self.defer_update(place, atomic.op, atomic.ty, b);
                continue;
            }
            self.acquire(cta, at, space, place, atomic.order, atomic.scope);
            let (old, undefined) = self.read(cta, at, space, place, bytes, access);
            if undefined != 0 {
                self.fault(cta, at, FaultKind::UninitializedAtomic, Some(place), || {
                    "an atomic updates memory that is not initialised".to_owned()
                });
            }
            olds.push(old);
        }
        let equal = olds.iter().enumerate().all(|(index, old)| *old == operands(cta, index).0);
        for (index, old) in olds.iter().enumerate() {
            let (b, c, _) = operands(cta, index);
            let new = match atomic.op {
                AtomicOp::Cas if atomic.double => {
                    if equal {
                        c
                    } else {
                        *old
                    }
                }
                op => super::atomic::apply(op, atomic.ty, *old, b, c),
            };
            self.release(cta, at, space, element(index), atomic.order, atomic.scope, true);
            let access = access_of(atomic.order, atomic.scope, true);
            self.write(cta, at, space, element(index), bytes, new, 0, access);
        }
        for (slot, old) in atomic.dst.iter().zip(&olds) {
            cta.warps[at.warp].set(*slot, lane, *old);
        }
    }

    /// Queues a reduction to global memory for the commit.
    pub(super) fn defer_update(&mut self, address: u64, atomic: AtomicOp, ty: Ty, operand: u64) {
        if !self.deferred_pages.contains(&(address / PAGE)) {
            self.deferred_pages.push(address / PAGE);
        }
        self.global.deferred.push(Deferred { address, atomic, ty, operand });
    }

    /// A deferred reduction still updates memory that must be defined.
    fn check_updated(&mut self, cta: &Cta, at: At, address: u64, bytes: u8) {
        if !self.strict {
            return;
        }
        let Ok((allocation, offset)) = self.global.locate(address, bytes.into()) else { return };
        let Some(page) = self.global.page_mut(address, allocation, offset) else { return };
        let bit = (offset % PAGE) as usize;
        let mask = (1u64 << bytes) - 1;
        if page.defined[bit / 64] >> (bit % 64) & mask != mask {
            self.fault(cta, at, FaultKind::UninitializedAtomic, Some(address), || {
                "an atomic updates memory that is not initialised".to_owned()
            });
        }
    }

    pub(super) fn copy_local(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        from: Address,
        to: Address,
        bytes: u32,
    ) {
        for lane in lanes_of(active) {
            let place =
                |address: Address| cta.warps[w].get(address.base, lane).wrapping_add_signed(address.offset);
            let (from, to) = (place(from), place(to));
            Self::copy_in_lane(cta, w, lane, from, to, bytes.into());
        }
    }

    pub(super) fn fence(&mut self, cta: &mut Cta, w: usize, active: u32, scope: Scope) {
        if !self.strict {
            return;
        }
        for lane in lanes_of(active) {
            let thread = w * 32 + lane;
            if let Some(clock) = cta.clocks.get_mut(thread) {
                clock.fence(scope, cta.index, thread as u32, cta.threads);
            }
        }
    }

    pub(super) fn count_global(&mut self, pc: u32, addresses: &[u64], bytes: u64) {
        if addresses.is_empty() {
            return;
        }
        let counts = &mut self.counters.by_pc[pc as usize];
        counts.global_requests += 1;
        counts.global_sectors += counters::sectors(addresses, bytes);
        counts.global_bytes += addresses.len() as u64 * bytes;
    }

    pub(super) fn count_shared(&mut self, pc: u32, addresses: &[u64], bytes: u64) {
        if addresses.is_empty() {
            return;
        }
        let (taken, fewest) = counters::passes(addresses, bytes);
        let counts = &mut self.counters.by_pc[pc as usize];
        counts.shared_requests += 1;
        counts.shared_passes += taken;
        counts.bank_conflicts += taken - fewest;
        counts.shared_bytes += addresses.len() as u64 * bytes;
    }
}

/// Sign- or zero-extends a loaded value to its register.
fn extend(value: u64, undefined: u8, bytes: u8, width: u8, signed: bool) -> (u64, u8) {
    if !signed {
        return (value, undefined);
    }
    let shift = 64 - u32::from(bytes) * 8;
    let extended = ((value << shift) as i64 >> shift) as u64;
    let keep = if width >= 8 { u64::MAX } else { (1 << (width * 8)) - 1 };
    let top = undefined >> (bytes - 1) & 1 == 1;
    let high = if top { (0xffu16 << bytes) as u8 } else { 0 };
    let width_mask = if width >= 8 { 0xff } else { (1u8 << width) - 1 };
    (extended & keep, (undefined | high) & width_mask)
}

/// The addresses of a request, in lane order.
struct Addresses {
    list: [u64; 32],
    len: usize,
}

impl Addresses {
    fn new() -> Addresses {
        Addresses { list: [0; 32], len: 0 }
    }

    fn push(&mut self, address: u64) {
        if let Some(slot) = self.list.get_mut(self.len) {
            *slot = address;
            self.len += 1;
        }
    }

    fn as_slice(&self) -> &[u64] {
        &self.list[..self.len]
    }
}
