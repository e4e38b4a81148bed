//! How undefined bytes of sources reach results.

use super::{
    Executor,
    alu::{Lanes, Shadow},
    lanes_of,
};
use crate::{
    decode::inst::{NONE, Slot},
    machine::Warp,
};

/// Bits of the bytes in a byte mask.
fn expand(bytes: u8) -> u64 {
    let mut bits = 0;
    for byte in 0..8 {
        if bytes >> byte & 1 == 1 {
            bits |= 0xff << (8 * byte);
        }
    }
    bits
}

/// The bytes with any bit set.
fn collapse(bits: u64) -> u8 {
    let mut bytes = 0;
    for byte in 0..8 {
        if bits >> (8 * byte) & 0xff != 0 {
            bytes |= 1 << byte;
        }
    }
    bytes
}

fn width_mask(width: u8) -> u8 {
    if width >= 8 { 0xff } else { (1 << width) - 1 }
}

impl Executor<'_> {
    /// Writes a result and its undefined bytes.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn finish(
        &mut self,
        warp: &mut Warp,
        d: Slot,
        sources: [Slot; 4],
        result: &Lanes,
        active: u32,
        width: u8,
        rule: Shadow,
    ) {
        if d == NONE {
            return;
        }
        let mut undefined = 0;
        if self.strict {
            for slot in sources {
                undefined |= warp.undefined_lanes(slot);
            }
            undefined &= active;
        }
        if undefined == 0 {
            warp.write(d, result, active);
            warp.undefined[d as usize] &= !active;
            return;
        }
        // The sources may be overwritten: work out the bytes first.
        let mut bytes = [0u8; 32];
        for lane in lanes_of(undefined) {
            bytes[lane] = propagate(warp, sources, lane, width, rule);
        }
        warp.write(d, result, active);
        warp.undefined[d as usize] &= !active;
        for lane in lanes_of(undefined) {
            warp.mark(d, lane, bytes[lane]);
        }
    }
}

/// The undefined bytes of a result of `width` bytes.
fn propagate(warp: &Warp, sources: [Slot; 4], lane: usize, width: u8, rule: Shadow) -> u8 {
    let full = width_mask(width);
    let undefined = sources.map(|slot| warp.undefined_bytes(slot, lane));
    let value = |index: usize| warp.get(sources[index], lane);
    let union = undefined[0] | undefined[1] | undefined[2] | undefined[3];
    match rule {
        Shadow::Spread => full,
        Shadow::Bytes => union & full,
        Shadow::And | Shadow::Or => {
            // A byte of the other operand may force the result.
            let neutral = |value: u64| if rule == Shadow::And { value } else { !value };
            let forced = |value: u64, undefined: u8| !collapse(neutral(value)) & !undefined;
            (undefined[0] & !forced(value(1), undefined[1]) | undefined[1] & !forced(value(0), undefined[0]))
                & full
        }
        Shadow::Halves => {
            let low = if union & 0b0011 != 0 { 0b0011 } else { 0 };
            let high = if union & 0b1100 != 0 { 0b1100 } else { 0 };
            low | high
        }
        Shadow::Words => {
            let low = if union & 0x0f != 0 { 0x0f } else { 0 };
            let high = if union & 0xf0 != 0 { 0xf0 } else { 0 };
            low | high
        }
        Shadow::ShiftLeft | Shadow::ShiftRight if undefined[1] == 0 => {
            let amount = value(1) as u32;
            let bits = expand(undefined[0] & full);
            let shifted = if amount > 63 {
                0
            } else if rule == Shadow::ShiftLeft {
                bits << amount
            } else {
                bits >> amount
            };
            collapse(shifted) & full
        }
        Shadow::ShiftLeft | Shadow::ShiftRight => full,
        Shadow::Extract if undefined[1] == 0 && undefined[2] == 0 => {
            let (position, length) = (value(1) as u32 & 0xff, value(2) as u32 & 0xff);
            let field = if length > 63 { u64::MAX } else { (1 << length) - 1 };
            let bits = if position > 63 { 0 } else { expand(undefined[0]) >> position & field };
            if bits == 0 { 0 } else { full }
        }
        Shadow::Extract => full,
        Shadow::Permute if undefined[2] == 0 => {
            let both = undefined[0] & 0xf | undefined[1] << 4;
            let mut result = 0;
            for byte in 0..4 {
                let selector = value(2) >> (4 * byte) & 7;
                if both >> selector & 1 == 1 {
                    result |= 1 << byte;
                }
            }
            result
        }
        Shadow::Permute => full,
        Shadow::Select => {
            if undefined[2] != 0 {
                full
            } else if value(2) != 0 {
                undefined[0] & full
            } else {
                undefined[1] & full
            }
        }
        Shadow::Extend { from, signed } => {
            let kept = undefined[0] & width_mask(from);
            if signed && from > 0 && kept >> (from - 1) & 1 == 1 {
                (kept | !width_mask(from)) & full
            } else {
                kept
            }
        }
    }
}
