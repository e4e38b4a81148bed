//! Moves, logic, shifts, bit fields, permutes and selection.

use super::{Alu, Function, Shadow};
use crate::decode::types::{Modifiers, Ty};
use Function::{Four, One, Three, Two};

pub(super) fn select(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    match base {
        "mov" => Some(Alu::uniform(One(lanes1!(|a| a)), ty).shadow(Shadow::Bytes)),
        "and" | "or" | "xor" | "not" | "cnot" => logic(base, ty),
        "lop3" if ty == Ty::B32 => Some(
            Alu::new(Four(lanes4!(|a, b, c, table| lop3(a, b, c, table))), ty, [ty, ty, ty, Ty::U32])
                .shadow(Shadow::Bytes),
        ),
        "shl" | "shr" | "shf" => shift(base, ty, mods),
        "bfe" | "bfi" | "bfind" | "popc" | "clz" | "brev" | "bmsk" | "szext" | "fns" => field(base, ty, mods),
        "prmt" if ty == Ty::B32 => permute(mods),
        "selp" => Some(
            Alu::new(Three(lanes3!(|a, b, p| if p != 0 { a } else { b })), ty, [ty, ty, Ty::Pred, ty])
                .shadow(Shadow::Select),
        ),
        "slct" => {
            let ftz = mods.take("ftz");
            let by = mods.type_at(1)?;
            let function = match by {
                Ty::S32 => lanes3!(|a, b, c| if c as u32 as i32 >= 0 { a } else { b }),
                // A subnormal compares as it would as a zero unless it is negative.
                Ty::F32 if ftz => lanes3!(|a, b, c| {
                    let c = f32::from_bits(c as u32);
                    if c >= 0.0 || c.is_subnormal() { a } else { b }
                }),
                Ty::F32 => lanes3!(|a, b, c| if f32::from_bits(c as u32) >= 0.0 { a } else { b }),
                _ => return None,
            };
            Some(Alu::new(Three(function), ty, [ty, ty, by, ty]))
        }
        _ => None,
    }
}

fn mask(ty: Ty) -> u64 {
    match ty.bytes() {
        1 => 1,
        2 => 0xffff,
        4 => 0xffff_ffff,
        _ => u64::MAX,
    }
}

fn logic(base: &str, ty: Ty) -> Option<Alu> {
    if !matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64) {
        return None;
    }
    Some(match base {
        "and" => Alu::uniform(Two(lanes2!(|a, b| a & b)), ty).shadow(Shadow::And),
        "or" => Alu::uniform(Two(lanes2!(|a, b| a | b)), ty).shadow(Shadow::Or),
        "xor" => Alu::uniform(Two(lanes2!(|a, b| a ^ b)), ty).shadow(Shadow::Bytes),
        "not" => {
            let function = match mask(ty) {
                1 => lanes1!(|a| a ^ 1),
                0xffff => lanes1!(|a| a ^ 0xffff),
                0xffff_ffff => lanes1!(|a| a ^ 0xffff_ffff),
                _ => lanes1!(|a| !a),
            };
            Alu::uniform(One(function), ty).shadow(Shadow::Bytes)
        }
        _ if ty == Ty::Pred => return None,
        _ => Alu::uniform(One(lanes1!(|a| u64::from(a == 0))), ty),
    })
}

#[inline(always)]
fn lop3(a: u64, b: u64, c: u64, table: u64) -> u64 {
    let mut result = 0;
    for row in 0..8 {
        if table >> row & 1 == 1 {
            let x = if row & 4 != 0 { a } else { !a };
            let y = if row & 2 != 0 { b } else { !b };
            let z = if row & 1 != 0 { c } else { !c };
            result |= x & y & z;
        }
    }
    result as u32 as u64
}

fn shift(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let src = [ty, Ty::U32, ty, ty];
    match base {
        "shl" => {
            let function = match ty {
                Ty::B16 => {
                    lanes2!(|a, n| if n as u32 > 15 { 0 } else { (a as u16).wrapping_shl(n as u32) as u64 })
                }
                Ty::B32 => {
                    lanes2!(|a, n| if n as u32 > 31 { 0 } else { (a as u32).wrapping_shl(n as u32) as u64 })
                }
                Ty::B64 => lanes2!(|a, n| if n as u32 > 63 { 0 } else { a.wrapping_shl(n as u32) }),
                _ => return None,
            };
            Some(Alu::new(Two(function), ty, src).shadow(Shadow::ShiftLeft))
        }
        "shr" => {
            let function = match ty {
                Ty::B16 | Ty::U16 => {
                    lanes2!(|a, n| if n as u32 > 15 { 0 } else { (a as u16).wrapping_shr(n as u32) as u64 })
                }
                Ty::B32 | Ty::U32 => {
                    lanes2!(|a, n| if n as u32 > 31 { 0 } else { (a as u32).wrapping_shr(n as u32) as u64 })
                }
                Ty::B64 | Ty::U64 => lanes2!(|a, n| if n as u32 > 63 { 0 } else { a.wrapping_shr(n as u32) }),
                Ty::S16 => lanes2!(|a, n| (a as i16).wrapping_shr((n as u32).min(15)) as u16 as u64),
                Ty::S32 => lanes2!(|a, n| (a as i32).wrapping_shr((n as u32).min(31)) as u32 as u64),
                Ty::S64 => lanes2!(|a, n| (a as i64).wrapping_shr((n as u32).min(63)) as u64),
                _ => return None,
            };
            let shadow = if ty.signed() { Shadow::Spread } else { Shadow::ShiftRight };
            Some(Alu::new(Two(function), ty, src).shadow(shadow))
        }
        // Funnel shift of {b, a}: left keeps the high word, right the low one.
        "shf" if ty == Ty::B32 => {
            let left = mods.choose(&[("l", true), ("r", false)])?;
            let wrap = mods.choose(&[("wrap", true), ("clamp", false)])?;
            let function = match (left, wrap) {
                (true, true) => lanes3!(|a, b, n| funnel(a, b) << (n & 31) >> 32),
                (true, false) => {
                    lanes3!(|a, b, n| ((u128::from(funnel(a, b)) << (n as u32).min(32)) >> 32) as u32 as u64)
                }
                (false, true) => lanes3!(|a, b, n| (funnel(a, b) >> (n & 31)) as u32 as u64),
                (false, false) => lanes3!(|a, b, n| (funnel(a, b) >> (n as u32).min(32)) as u32 as u64),
            };
            Some(Alu::new(Three(function), ty, [ty, ty, Ty::U32, ty]))
        }
        _ => None,
    }
}

#[inline(always)]
fn funnel(a: u64, b: u64) -> u64 {
    b << 32 | a
}

/// Bits `pos..pos+len` of a value of `bits` bits; the sign bit of the field, or
/// of the value when the field reaches past it, fills the rest.
#[inline(always)]
fn extract(value: u64, pos: u64, len: u64, bits: u32, signed: bool) -> u64 {
    let (pos, len) = ((pos & 0xff) as u32, (len & 0xff) as u32);
    let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let shifted = if pos >= bits { 0 } else { value >> pos };
    let field = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let sign = if signed && len > 0 {
        let at = (pos + len - 1).min(bits - 1);
        value >> at & 1 == 1
    } else {
        false
    };
    // The field ends at the value's end when it reaches past it.
    let real = len.min(bits.saturating_sub(pos));
    let kept = if real >= 64 { u64::MAX } else { (1u64 << real) - 1 };
    let low = shifted & field & kept;
    (if sign { low | !kept } else { low }) & all
}

#[inline(always)]
fn insert(a: u64, b: u64, pos: u64, len: u64, bits: u32) -> u64 {
    let (pos, len) = ((pos & 0xff) as u32, (len & 0xff) as u32);
    let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    if pos >= bits {
        return b;
    }
    let field = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let placed = field << pos & all;
    (b & !placed) | (a << pos & placed)
}

/// The most significant set bit (for negative signed values: clear bit), or all
/// ones if there is none.
#[inline(always)]
fn find(value: u64, bits: u32, signed: bool, amount: bool) -> u64 {
    let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let value = if signed && value >> (bits - 1) & 1 == 1 { !value & all } else { value & all };
    if value == 0 {
        return 0xffff_ffff;
    }
    let at = 63 - value.leading_zeros();
    u64::from(if amount { bits - 1 - at } else { at })
}

/// The position of the `offset`-th set bit of `mask` from `base`, or all ones.
fn nth_set(mask: u64, base: u64, offset: u64) -> u64 {
    let (mask, base, offset) = (mask as u32, (base as u32 & 31) as i64, i64::from(offset as u32 as i32));
    let set = |at: i64| mask >> at & 1 == 1;
    let none = 0xffff_ffff;
    if offset == 0 {
        return if set(base) { base as u64 } else { none };
    }
    let step = offset.signum();
    let mut left = offset.abs();
    let mut at = base;
    while (0..32).contains(&at) {
        if set(at) {
            left -= 1;
            if left == 0 {
                return at as u64;
            }
        }
        at += step;
    }
    none
}

fn field(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let spread = |function, dst, src| Some(Alu::new(function, dst, src));
    match base {
        "popc" => match ty {
            Ty::B32 | Ty::B64 => spread(One(lanes1!(|a| a.count_ones() as u64)), Ty::U32, [ty; 4]),
            _ => None,
        },
        "clz" => match ty {
            Ty::B32 => spread(One(lanes1!(|a| (a as u32).leading_zeros() as u64)), Ty::U32, [ty; 4]),
            Ty::B64 => spread(One(lanes1!(|a| a.leading_zeros() as u64)), Ty::U32, [ty; 4]),
            _ => None,
        },
        "brev" => match ty {
            Ty::B32 => spread(One(lanes1!(|a| (a as u32).reverse_bits() as u64)), ty, [ty; 4]),
            Ty::B64 => spread(One(lanes1!(|a| a.reverse_bits())), ty, [ty; 4]),
            _ => None,
        },
        "bfind" => {
            let function = match (ty, mods.take("shiftamt")) {
                (Ty::U32, false) => lanes1!(|a| find(a, 32, false, false)),
                (Ty::U32, true) => lanes1!(|a| find(a, 32, false, true)),
                (Ty::S32, false) => lanes1!(|a| find(a, 32, true, false)),
                (Ty::S32, true) => lanes1!(|a| find(a, 32, true, true)),
                (Ty::U64, false) => lanes1!(|a| find(a, 64, false, false)),
                (Ty::U64, true) => lanes1!(|a| find(a, 64, false, true)),
                (Ty::S64, false) => lanes1!(|a| find(a, 64, true, false)),
                (Ty::S64, true) => lanes1!(|a| find(a, 64, true, true)),
                _ => return None,
            };
            spread(One(function), Ty::U32, [ty; 4])
        }
        "bfe" => {
            let function = match ty {
                Ty::U32 => lanes3!(|a, p, n| extract(a, p, n, 32, false)),
                Ty::S32 => lanes3!(|a, p, n| extract(a, p, n, 32, true)),
                Ty::U64 => lanes3!(|a, p, n| extract(a, p, n, 64, false)),
                Ty::S64 => lanes3!(|a, p, n| extract(a, p, n, 64, true)),
                _ => return None,
            };
            Some(Alu::new(Three(function), ty, [ty, Ty::U32, Ty::U32, ty]).shadow(Shadow::Extract))
        }
        "bfi" => {
            let function = match ty {
                Ty::B32 => lanes4!(|a, b, p, n| insert(a, b, p, n, 32)),
                Ty::B64 => lanes4!(|a, b, p, n| insert(a, b, p, n, 64)),
                _ => return None,
            };
            spread(Four(function), ty, [ty, ty, Ty::U32, Ty::U32])
        }
        "bmsk" if ty == Ty::B32 => {
            let clamp = mods.choose(&[("clamp", true), ("wrap", false)])?;
            let function = if clamp {
                lanes2!(|p, n| {
                    let (p, n) = ((p as u32).min(32), (n as u32).min(32));
                    (((1u64 << n) - 1) << p) as u32 as u64
                })
            } else {
                lanes2!(|p, n| (((1u64 << (n & 31)) - 1) << (p & 31)) as u32 as u64)
            };
            spread(Two(function), ty, [Ty::U32; 4])
        }
        "szext" => {
            let clamp = mods.choose(&[("clamp", true), ("wrap", false)])?;
            let function = match (ty, clamp) {
                (Ty::U32, true) => lanes2!(|a, n| extract(a, 0, (n as u32).min(32) as u64, 32, false)),
                (Ty::S32, true) => lanes2!(|a, n| extract(a, 0, (n as u32).min(32) as u64, 32, true)),
                (Ty::U32, false) => lanes2!(|a, n| extract(a, 0, n & 31, 32, false)),
                (Ty::S32, false) => lanes2!(|a, n| extract(a, 0, n & 31, 32, true)),
                _ => return None,
            };
            spread(Two(function), ty, [ty, Ty::U32, ty, ty])
        }
        "fns" if ty == Ty::B32 => spread(Three(lanes3!(|m, b, o| nth_set(m, b, o))), ty, [ty; 4]),
        _ => None,
    }
}

/// Four selectors of four bits each: three pick a byte of {b, a}, the top one
/// replicates that byte's sign.
fn select_bytes(a: u64, b: u64, selectors: u64) -> u64 {
    let bytes = a & 0xffff_ffff | b << 32;
    let mut result = 0;
    for i in 0..4 {
        let selector = selectors >> (4 * i) & 0xf;
        let byte = bytes >> (8 * (selector & 7)) & 0xff;
        let byte = if selector & 8 == 0 {
            byte
        } else if byte & 0x80 != 0 {
            0xff
        } else {
            0
        };
        result |= byte << (8 * i);
    }
    result
}

/// The selectors of a named mode for control value `c & 3`.
const fn mode(name: Mode, c: u64) -> u64 {
    let table: [u64; 4] = match name {
        Mode::ForwardFour => [0x3210, 0x4321, 0x5432, 0x6543],
        Mode::BackwardFour => [0x5670, 0x6701, 0x7012, 0x0123],
        Mode::ReplicateByte => [0x0000, 0x1111, 0x2222, 0x3333],
        Mode::EdgeLeft => [0x3210, 0x3211, 0x3222, 0x3333],
        Mode::EdgeRight => [0x0000, 0x1110, 0x2210, 0x3210],
        Mode::ReplicateHalf => [0x1010, 0x3232, 0x1010, 0x3232],
    };
    table[(c & 3) as usize]
}

#[derive(Clone, Copy)]
enum Mode {
    ForwardFour,
    BackwardFour,
    ReplicateByte,
    EdgeLeft,
    EdgeRight,
    ReplicateHalf,
}

fn permute(mods: &mut Modifiers<'_>) -> Option<Alu> {
    let named = mods.choose(&[
        ("f4e", Mode::ForwardFour),
        ("b4e", Mode::BackwardFour),
        ("rc8", Mode::ReplicateByte),
        ("ecl", Mode::EdgeLeft),
        ("ecr", Mode::EdgeRight),
        ("rc16", Mode::ReplicateHalf),
    ]);
    let function = match named {
        None => lanes3!(|a, b, c| select_bytes(a, b, c)),
        Some(Mode::ForwardFour) => lanes3!(|a, b, c| select_bytes(a, b, mode(Mode::ForwardFour, c))),
        Some(Mode::BackwardFour) => lanes3!(|a, b, c| select_bytes(a, b, mode(Mode::BackwardFour, c))),
        Some(Mode::ReplicateByte) => lanes3!(|a, b, c| select_bytes(a, b, mode(Mode::ReplicateByte, c))),
        Some(Mode::EdgeLeft) => lanes3!(|a, b, c| select_bytes(a, b, mode(Mode::EdgeLeft, c))),
        Some(Mode::EdgeRight) => lanes3!(|a, b, c| select_bytes(a, b, mode(Mode::EdgeRight, c))),
        Some(Mode::ReplicateHalf) => lanes3!(|a, b, c| select_bytes(a, b, mode(Mode::ReplicateHalf, c))),
    };
    let shadow = if named.is_none() { Shadow::Permute } else { Shadow::Spread };
    Some(Alu::uniform(Three(function), Ty::B32).shadow(shadow))
}
