//! One access of one lane: its space, bounds, definedness, race and order.

use super::{At, Executor};
use crate::{
    decode::{
        inst::{Order, Scope},
        select::CONST_OFFSET,
    },
    machine::Cta,
    memory::{
        LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, clock::Released, global::PAGE,
        overlay::BadAddress, race::Access,
    },
    ptx::ast::Space,
    report::FaultKind,
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

pub(super) fn space_name(space: Space) -> &'static str {
    match space {
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Param => "parameter",
        Space::Const => "constant",
        _ => "global",
    }
}

pub(super) fn access_of(order: Order, scope: Scope, write: bool) -> Access {
    let strong = order != Order::Weak;
    Access { write, strong, local: strong && scope == Scope::Cta, volatile: order == Order::Volatile }
}

/// The value of `bytes` bytes at `at`, little-endian, zero where there are none.
#[inline]
pub(super) fn little_endian(memory: &[u8], at: u64, bytes: u8) -> u64 {
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
pub(super) fn undefined_of(flags: &[u8], at: u64, bytes: u8) -> u8 {
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
        let hint = space == Space::Shared && self.kernel.uses_dynamic && self.geometry.dynamic_shared == 0;
        self.fault(cta, at, FaultKind::OutOfBounds, Some(address), || {
            let text =
                format!("{verb} of {bytes} bytes at {name} address {address:#x}: there are {size} bytes");
            if hint {
                return text
                    + "; the kernel has dynamic shared memory and the launch gave none (`--shared BYTES`)";
            }
            text
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
        let keep = if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 };
        match space {
            Space::Shared | Space::Local => {
                let (memory, flags, start) = if space == Space::Shared {
                    let changed = little_endian(&cta.shared, address, bytes) ^ value & keep;
                    self.idle &= changed == 0;
                    if self.strict {
                        self.race_with(cta, at, space, address, bytes, access, changed);
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
                let changed = self.global.read(address, allocation, offset, bytes) ^ value & keep;
                self.idle &= changed == 0;
                if self.strict {
                    self.race_with(cta, at, space, address, bytes, access, changed);
                }
                self.global.write(address, allocation, offset, bytes, value, !undefined);
            }
        }
    }

    /// A strong read sees what the write it reads from released.
    pub(super) fn acquire(
        &mut self,
        cta: &mut Cta,
        at: At,
        space: Space,
        address: u64,
        order: Order,
        scope: Scope,
    ) {
        if !self.strict || order == Order::Weak {
            return;
        }
        let released = if space == Space::Shared { &cta.released } else { &self.global.released };
        if let Some(snapshot) = released.get(&(address / 4)).cloned()
            && let Some(clock) = cta.clocks.get_mut(at.warp * 32 + at.lane)
        {
            clock.acquire(&snapshot, order.acquires(), scope, cta.index, cta.threads);
        }
    }

    /// A strong write releases what its thread made ready; an update keeps what
    /// earlier writes released (a release sequence).
    #[allow(clippy::too_many_arguments)]
    pub(super) fn release(
        &mut self,
        cta: &mut Cta,
        at: At,
        space: Space,
        address: u64,
        order: Order,
        scope: Scope,
        update: bool,
    ) {
        if !self.strict {
            return;
        }
        let thread = at.warp * 32 + at.lane;
        let snapshot = match cta.clocks.get_mut(thread) {
            Some(clock) if order != Order::Weak => {
                clock.release(order.releases(), scope, cta.index, thread as u32)
            }
            _ => Released::default(),
        };
        let released = if space == Space::Shared { &mut cta.released } else { &mut self.global.released };
        let key = address / 4;
        if !snapshot.nothing() {
            let merged = match released.get(&key) {
                Some(old) if update => snapshot.after(old),
                _ => snapshot,
            };
            released.insert(key, merged);
        } else if !update && !released.is_empty() {
            released.remove(&key);
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
}
