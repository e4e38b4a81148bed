//! Loads and stores: spaces, bounds, definedness, races, traffic counts.

use super::{At, Executor, lanes_of};
use crate::{
    counters,
    decode::{
        inst::{Load, NONE, Order, Store},
        select::CONST_OFFSET,
    },
    machine::Cta,
    memory::{
        LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES,
        clock::merge_snapshots,
        global::PAGE,
        overlay::BadAddress,
        race::{Access, Conflict, Record},
    },
    ptx::ast::Space,
    report::{FaultKind, Side},
};

/// The space of a generic address, and the address within it.
#[inline]
pub(super) fn space_of(address: u64) -> (Space, u64) {
    if address.wrapping_sub(SHARED_WINDOW) < 3 * WINDOW_BYTES {
        return match address {
            a if a >= PARAM_WINDOW + CONST_OFFSET => (Space::Const, a - PARAM_WINDOW - CONST_OFFSET),
            a if a >= PARAM_WINDOW => (Space::Param, a - PARAM_WINDOW),
            a if a >= LOCAL_WINDOW => (Space::Local, a - LOCAL_WINDOW),
            a => (Space::Shared, a - SHARED_WINDOW),
        };
    }
    (Space::Global, address)
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Param => "parameter",
        Space::Const => "constant",
        _ => "global",
    }
}

fn access_of(order: Order, write: bool) -> Access {
    match (order == Order::Weak, write) {
        (true, false) => Access::Read,
        (false, false) => Access::StrongRead,
        (true, true) => Access::Write,
        (false, true) => Access::StrongWrite,
    }
}

/// The value of `bytes` bytes at `at`, little-endian, zero where there are none.
#[inline]
fn little_endian(memory: &[u8], at: u64, bytes: u8) -> u64 {
    let at = at as usize;
    macro_rules! value {
        ($t:ty, $n:literal) => {
            match memory.get(at..).and_then(|rest| rest.first_chunk::<$n>()) {
                Some(bytes) => <$t>::from_le_bytes(*bytes).into(),
                None => 0,
            }
        };
    }
    match bytes {
        4 => value!(u32, 4),
        2 => value!(u16, 2),
        1 => value!(u8, 1),
        _ => value!(u64, 8),
    }
}

#[inline]
fn undefined_of(flags: &[u8], at: u64, bytes: u8) -> u8 {
    let all = match bytes {
        4 => 0x0101_0101,
        8 => 0x0101_0101_0101_0101,
        2 => 0x0101,
        _ => 1,
    };
    if little_endian(flags, at, bytes) == all {
        return 0;
    }
    let mut undefined = 0;
    for byte in 0..u64::from(bytes) {
        if flags.get((at + byte) as usize) == Some(&0) {
            undefined |= 1 << byte;
        }
    }
    undefined
}

impl Executor<'_> {
    /// Whether all of an access lies in one object; reports it otherwise.
    pub(super) fn check_range(
        &mut self,
        cta: &Cta,
        at: At,
        space: Space,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> bool {
        let size = match space {
            Space::Shared => cta.shared.len() as u64,
            Space::Local => cta.local_bytes.into(),
            Space::Param => self.params.len() as u64,
            Space::Const => self.constants.len() as u64,
            _ => match self.global.locate(address, bytes) {
                Ok((allocation, _)) if write && self.global.read_only(allocation) => {
                    self.bad_global(cta, at, address, bytes, write, BadAddress::ReadOnly);
                    return false;
                }
                Ok(_) => return true,
                Err(bad) => {
                    self.bad_global(cta, at, address, bytes, write, bad);
                    return false;
                }
            },
        };
        if address.checked_add(bytes).is_some_and(|end| end <= size) {
            return true;
        }
        let verb = if write { "write" } else { "read" };
        let name = space_name(space);
        self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || {
            format!("{verb} of {bytes} bytes at {name} address {address:#x}: there are {size} bytes")
        });
        false
    }

    fn bad_global(&mut self, cta: &Cta, at: At, address: u64, bytes: u64, write: bool, bad: BadAddress) {
        let verb = if write { "write" } else { "read" };
        let nearest = self.global.memory().nearest(address).map(|near| {
            let end = near.base + near.len;
            if address >= end {
                format!("{} bytes past the end of `{}` ({} bytes)", address - end, near.name, near.len)
            } else if address >= near.base {
                format!("at byte {} of `{}` ({} bytes)", address - near.base, near.name, near.len)
            } else {
                "below every allocation".to_owned()
            }
        });
        let nearest = nearest.unwrap_or_else(|| "no memory is allocated".to_owned());
        let kind = match bad {
            BadAddress::OutOfBounds => FaultKind::OutOfBounds,
            BadAddress::Freed => FaultKind::UseAfterFree,
            BadAddress::ReadOnly => FaultKind::ReadOnly,
        };
        self.fault(cta, at, kind, Some(address), || {
            format!("{verb} of {bytes} bytes at {address:#x}, {nearest}")
        });
    }

    /// Reads up to 8 bytes of an access whose range was checked, with its
    /// undefined bytes, and records it for the race detector.
    #[inline]
    pub(super) fn read(
        &mut self,
        cta: &mut Cta,
        at: At,
        space: Space,
        address: u64,
        bytes: u8,
        access: Access,
    ) -> (u64, u8) {
        match space {
            Space::Shared => {
                if self.strict {
                    self.race(cta, at, space, address, bytes, access);
                    self.check_flight(cta, at, address, bytes.into(), false);
                }
                let undefined =
                    if self.strict { undefined_of(&cta.shared_defined, address, bytes) } else { 0 };
                (little_endian(&cta.shared, address, bytes), undefined)
            }
            Space::Local => {
                let start = (at.warp * 32 + at.lane) as u64 * u64::from(cta.local_bytes);
                let undefined =
                    if self.strict { undefined_of(&cta.local_defined, start + address, bytes) } else { 0 };
                (little_endian(&cta.local, start + address, bytes), undefined)
            }
            Space::Param => (little_endian(self.params, address, bytes), 0),
            Space::Const => (little_endian(self.constants, address, bytes), 0),
            _ => {
                let Ok((allocation, offset)) = self.global.locate(address, bytes.into()) else {
                    return (0, 0);
                };
                if !self.deferred_pages.is_empty() && self.deferred_pages.contains(&(address / PAGE)) {
                    self.needs_serial = true;
                }
                let mut undefined = 0;
                // Nobody writes read-only memory, and it is wholly defined.
                if self.strict && !self.global.read_only(allocation) {
                    self.race(cta, at, space, address, bytes, access);
                    if let Some(page) = self.global.page_mut(address, allocation, offset) {
                        let bit = (offset % PAGE) as usize;
                        let defined = page.defined[bit / 64] >> (bit % 64);
                        undefined = !defined as u8 & ((1u16 << bytes) - 1) as u8;
                    }
                }
                (self.global.read(address, allocation, offset, bytes), undefined)
            }
        }
    }

    /// Writes up to 8 bytes of an access whose range was checked.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(super) fn write(
        &mut self,
        cta: &mut Cta,
        at: At,
        space: Space,
        address: u64,
        bytes: u8,
        value: u64,
        undefined: u8,
        access: Access,
    ) {
        let n = usize::from(bytes);
        match space {
            Space::Shared | Space::Local => {
                let (memory, flags, start) = if space == Space::Shared {
                    if self.strict {
                        self.race(cta, at, space, address, bytes, access);
                        self.check_flight(cta, at, address, bytes.into(), true);
                    }
                    (&mut cta.shared, &mut cta.shared_defined, address as usize)
                } else {
                    let first = (at.warp * 32 + at.lane) * cta.local_bytes as usize;
                    (&mut cta.local, &mut cta.local_defined, first + address as usize)
                };
                if let Some(target) = memory.get_mut(start..start + n) {
                    target.copy_from_slice(&value.to_le_bytes()[..n]);
                }
                if self.strict
                    && let Some(target) = flags.get_mut(start..start + n)
                {
                    for (byte, flag) in target.iter_mut().enumerate() {
                        *flag = u8::from(undefined >> byte & 1 == 0);
                    }
                }
            }
            Space::Param | Space::Const => {}
            _ => {
                let Ok((allocation, offset)) = self.global.locate(address, bytes.into()) else { return };
                if !self.deferred_pages.is_empty() && self.deferred_pages.contains(&(address / PAGE)) {
                    self.needs_serial = true;
                }
                if self.strict {
                    self.race(cta, at, space, address, bytes, access);
                }
                self.global.write(address, allocation, offset, bytes, value, !undefined);
            }
        }
    }

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
                let ordered = |old: &Record| clock.knows_local(old, old.thread == thread, old.thread);
                cta.shared_shadow.access((next / 4) as u32, record, access, ordered)
            } else {
                let record = Record::new(me, clock.epoch, clock.clock, at.pc, mask as u8, access);
                let ordered = |old: &Record| clock.knows(old, me, index, threads);
                let located = self.global.locate(next, step);
                let page = located.ok().and_then(|(allocation, offset)| {
                    self.global.page_mut(next, allocation, offset).map(|page| (page, offset))
                });
                page.and_then(|(page, offset)| {
                    page.shadow.access((offset % PAGE / 4) as u32, record, access, ordered)
                })
            };
            if let Some(conflict) = found {
                self.report_race(cta, at, space, next, access, &conflict);
                return;
            }
            next += step;
            left -= step;
        }
    }

    fn report_race(
        &mut self,
        cta: &Cta,
        at: At,
        space: Space,
        address: u64,
        access: Access,
        conflict: &Conflict,
    ) {
        let threads = cta.threads.max(1);
        let (other_cta, other) = if space == Space::Shared {
            (cta.index, conflict.other.thread)
        } else {
            (conflict.other.thread / threads, conflict.other.thread % threads)
        };
        let kind = match space {
            Space::Shared if other / 32 == at.warp as u32 => FaultKind::WarpRace,
            Space::Shared => FaultKind::SharedRace,
            _ if other_cta != cta.index => FaultKind::CtaRace,
            _ => FaultKind::GlobalRace,
        };
        let strong = if conflict.other.strong() { "atomically " } else { "" };
        let verb = if conflict.other_writes { "written" } else { "read" };
        let side = Side {
            pc: conflict.other.pc(),
            thread: self.thread_place(other_cta, other),
            what: format!("{strong}{verb} by"),
        };
        let mine = if access.writes() { "writes" } else { "reads" };
        let name = space_name(space);
        self.fault_with(cta, at, kind, Some(address), vec![side], || {
            format!("{mine} {name} memory that another thread has {strong}{verb}, and nothing orders the two")
        });
    }

    /// A strong read sees what the write it reads from released.
    fn acquire(&mut self, cta: &mut Cta, at: At, space: Space, address: u64, order: Order) {
        if !self.strict || order == Order::Weak {
            return;
        }
        let released = if space == Space::Shared { &cta.released } else { &self.global.released };
        if let Some(snapshot) = released.get(&(address / 4)).cloned()
            && let Some(clock) = cta.clocks.get_mut(at.warp * 32 + at.lane)
        {
            clock.acquire(&snapshot, order.acquires(), cta.index, cta.threads);
        }
    }

    /// A strong write releases what its thread made ready; an update keeps what
    /// earlier writes released (a release sequence).
    fn release(&mut self, cta: &mut Cta, at: At, space: Space, address: u64, order: Order, update: bool) {
        if !self.strict {
            return;
        }
        let thread = at.warp * 32 + at.lane;
        let snapshot = if order == Order::Weak {
            None
        } else {
            cta.clocks
                .get_mut(thread)
                .and_then(|clock| clock.release(order.releases(), cta.index, thread as u32))
        };
        let released = if space == Space::Shared { &mut cta.released } else { &mut self.global.released };
        let key = address / 4;
        match snapshot {
            Some(snapshot) => {
                let merged = match released.get(&key) {
                    Some(old) if update => merge_snapshots(Some(old.clone()), &snapshot),
                    _ => snapshot,
                };
                released.insert(key, merged);
            }
            None if !update && !released.is_empty() => {
                released.remove(&key);
            }
            None => {}
        }
    }

    /// The space and address of an access, checked to be aligned and in bounds.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(super) fn resolve(
        &mut self,
        cta: &Cta,
        at: At,
        space: Space,
        address: u64,
        align: u64,
        bytes: u64,
        write: bool,
    ) -> Option<(Space, u64)> {
        let (space, local) = if space == Space::Generic { space_of(address) } else { (space, address) };
        // Access sizes are powers of two.
        if local & (align - 1) != 0 {
            let verb = if write { "write" } else { "read" };
            self.fault(cta, at, FaultKind::Misaligned, Some(address), || {
                format!("{verb} of {bytes} bytes at {address:#x}, which is not a multiple of {align}")
            });
            return None;
        }
        if self.check_range(cta, at, space, local, bytes, write) { Some((space, local)) } else { None }
    }

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
        let access = access_of(load.order, false);
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
                    self.acquire(cta, at, space, element, load.order);
                }
                let (mut value, mut undefined) = self.read(cta, at, space, element, load.bytes, access);
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
                    let record = Record::new(thread, clock.epoch, clock.clock, pc, 0xf, Access::Read);
                    let ordered = |old: &Record| clock.knows_local(old, old.thread == thread, old.thread);
                    let found = shared_shadow.access((element / 4) as u32, record, Access::Read, ordered);
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
            self.report_race(cta, at, Space::Shared, element, Access::Read, &conflict);
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
        let access = access_of(store.order, true);
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
                if undefined != 0 && space != Space::Local {
                    let name = space_name(space);
                    self.fault(cta, at, FaultKind::UninitializedStore, Some(element), || {
                        format!("stores a value that is not initialised to {name} memory")
                    });
                }
                // What a plain store overwrites is no longer released.
                self.release(cta, at, space, element, store.order, false);
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
            let Some((space, place)) =
                self.resolve(cta, at, atomic.space, address, bytes.into(), bytes.into(), true)
            else {
                continue;
            };
            let warp = &cta.warps[w];
            let (b, c) = (warp.get(atomic.b, lane), warp.get(atomic.c, lane));
            let undefined = warp.undefined_bytes(atomic.b, lane) | warp.undefined_bytes(atomic.c, lane);
            if undefined & ((1u16 << bytes) - 1) as u8 != 0 {
                self.fault(cta, at, FaultKind::UninitializedStore, Some(address), || {
                    "an atomic with an operand that is not initialised".to_owned()
                });
            }
            match space {
                Space::Global => global.push(place),
                Space::Shared => shared.push(place),
                _ => continue,
            }
            if space == Space::Global && self.defer && atomic.dst == NONE {
                self.race(cta, at, space, place, bytes, Access::StrongWrite);
                self.check_updated(cta, at, place, bytes);
                if !self.deferred_pages.contains(&(place / PAGE)) {
                    self.deferred_pages.push(place / PAGE);
                }
                self.global.deferred.push(crate::memory::overlay::Deferred {
                    address: place,
                    atomic: atomic.op,
                    ty: atomic.ty,
                    operand: b,
                });
                continue;
            }
            self.acquire(cta, at, space, place, atomic.order);
            let (old, undefined) = self.read(cta, at, space, place, bytes, Access::StrongWrite);
            if undefined != 0 {
                self.fault(cta, at, FaultKind::UninitializedStore, Some(address), || {
                    "an atomic updates memory that is not initialised".to_owned()
                });
            }
            let new = super::atomic::apply(atomic.op, atomic.ty, old, b, c);
            self.release(cta, at, space, place, atomic.order, true);
            self.write(cta, at, space, place, bytes, new, 0, Access::StrongWrite);
            if atomic.dst != NONE {
                cta.warps[w].set(atomic.dst, lane, old);
            }
        }
        self.count_global(pc, global.as_slice(), bytes.into());
        self.count_shared(pc, shared.as_slice(), bytes.into());
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
            self.fault(cta, at, FaultKind::UninitializedStore, Some(address), || {
                "an atomic updates memory that is not initialised".to_owned()
            });
        }
    }

    pub(super) fn copy_local(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        from: u32,
        to: u32,
        bytes: u32,
    ) {
        for lane in lanes_of(active) {
            let start = (w * 32 + lane) * cta.local_bytes as usize;
            let (from, to) = (start + from as usize, start + to as usize);
            let n = bytes as usize;
            for memory in [&mut cta.local, &mut cta.local_defined] {
                if from + n <= memory.len() && to + n <= memory.len() {
                    memory.copy_within(from..from + n, to);
                }
            }
        }
    }

    pub(super) fn fence(&mut self, cta: &mut Cta, w: usize, active: u32, _cta_only: bool) {
        if !self.strict {
            return;
        }
        for lane in lanes_of(active) {
            let thread = w * 32 + lane;
            if let Some(clock) = cta.clocks.get_mut(thread) {
                clock.fence(cta.index, thread as u32, cta.threads);
            }
        }
    }

    /// Reads for a report, without effects.
    pub(super) fn peek(&mut self, cta: &Cta, at: At, space: Space, address: u64, bytes: u8) -> u64 {
        let (space, address) = if space == Space::Generic { space_of(address) } else { (space, address) };
        match space {
            Space::Shared => little_endian(&cta.shared, address, bytes),
            Space::Local => {
                let start = (at.warp * 32 + at.lane) as u64 * u64::from(cta.local_bytes);
                little_endian(&cta.local, start + address, bytes)
            }
            Space::Param => little_endian(self.params, address, bytes),
            Space::Const => little_endian(self.constants, address, bytes),
            _ => match self.global.locate(address, bytes.into()) {
                Ok((allocation, offset)) => self.global.read(address, allocation, offset, bytes),
                Err(_) => 0,
            },
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
