//! Integer arithmetic: all widths, the wide and high products, dot products of
//! packed bytes, and packed 16-bit pairs.

use super::{Alu, Function, Shadow};
use crate::decode::types::{Modifiers, Ty};

/// The type twice as wide.
fn wide(ty: Ty) -> Option<Ty> {
    Some(match ty {
        Ty::U16 => Ty::U32,
        Ty::S16 => Ty::S32,
        Ty::U32 => Ty::U64,
        Ty::S32 => Ty::S64,
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: [(&str, Part); 3] = [("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

pub(super) fn select(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    use Function::{One, Three, Two};
    let two = |f| Some(Alu::uniform(Two(f), ty));
    match base {
        "add" | "sub" if mods.take("sat") => {
            if ty != Ty::S32 {
                return None;
            }
            two(if base == "add" {
                int2!(ty, |a, b| a.saturating_add(b))?
            } else {
                int2!(ty, |a, b| a.saturating_sub(b))?
            })
        }
        "add" | "sub" | "min" | "max" if matches!(ty, Ty::U16x2 | Ty::S16x2) => pairs(base, ty, mods),
        "add" => two(int2!(ty, |a, b| a.wrapping_add(b))?),
        "sub" => two(int2!(ty, |a, b| a.wrapping_sub(b))?),
        "min" | "max" if mods.take("relu") => {
            if ty != Ty::S32 {
                return None;
            }
            two(if base == "min" {
                lanes2!(|a, b| (a as i32).min(b as i32).max(0) as u64)
            } else {
                lanes2!(|a, b| (a as i32).max(b as i32).max(0) as u64)
            })
        }
        "min" => two(int2!(ty, |a, b| a.min(b))?),
        "max" => two(int2!(ty, |a, b| a.max(b))?),
        // The ISA leaves x / 0 open; this is what the hardware gives.
        "div" => two(int2!(ty, |a, b| if b == 0 { !0 } else { a.wrapping_div(b) })?),
        "rem" => two(int2!(ty, |a, b| if b == 0 { a } else { a.wrapping_rem(b) })?),
        "abs" if ty.signed() => Some(Alu::uniform(
            One(int1!(ty, |a| if (a as i64) < 0 { (0 as T).wrapping_sub(a) } else { a })?),
            ty,
        )),
        "neg" if ty.signed() => Some(Alu::uniform(One(int1!(ty, |a| (0 as T).wrapping_sub(a))?), ty)),
        "sad" => Some(Alu::uniform(Three(int3!(ty, |a, b, c| c.wrapping_add(a.abs_diff(b) as T))?), ty)),
        "mul" => {
            let part = mods.choose(&PARTS)?;
            let function = match part {
                Part::Low => int2!(ty, |a, b| a.wrapping_mul(b))?,
                Part::High => int2!(ty, |a, b| (((a as i128).wrapping_mul(b as i128)) >> T::BITS) as T)?,
                Part::Wide => {
                    let dst = wide(ty)?;
                    let function = match ty {
                        Ty::U16 => lanes2!(|a, b| u64::from(a as u16 as u32 * b as u16 as u32)),
                        Ty::S16 => lanes2!(|a, b| (i32::from(a as i16) * i32::from(b as i16)) as u32 as u64),
                        Ty::U32 => lanes2!(|a, b| (a as u32 as u64).wrapping_mul(b as u32 as u64)),
                        _ => lanes2!(|a, b| (a as i32 as i64).wrapping_mul(b as i32 as i64) as u64),
                    };
                    return Some(Alu::new(Two(function), dst, [ty; 4]));
                }
            };
            two(function)
        }
        "mad" => {
            let part = mods.choose(&PARTS)?;
            let sat = mods.take("sat");
            if sat && (part != Part::High || ty != Ty::S32) {
                return None;
            }
            let function = match part {
                Part::Low => int3!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c))?,
                Part::High if sat => {
                    int3!(ty, |a, b, c| ((((a as i128).wrapping_mul(b as i128)) >> T::BITS) as T)
                        .saturating_add(c))?
                }
                Part::High => int3!(ty, |a, b, c| ((((a as i128).wrapping_mul(b as i128)) >> T::BITS) as T)
                    .wrapping_add(c))?,
                Part::Wide => {
                    let dst = wide(ty)?;
                    let function = match ty {
                        Ty::U16 => {
                            lanes3!(
                                |a, b, c| (a as u16 as u32 * b as u16 as u32).wrapping_add(c as u32) as u64
                            )
                        }
                        Ty::S16 => lanes3!(|a, b, c| (i32::from(a as i16) * i32::from(b as i16))
                            .wrapping_add(c as i32)
                            as u32 as u64),
                        Ty::U32 => {
                            lanes3!(|a, b, c| (a as u32 as u64).wrapping_mul(b as u32 as u64).wrapping_add(c))
                        }
                        _ => lanes3!(|a, b, c| ((a as i32 as i64).wrapping_mul(b as i32 as i64) as u64)
                            .wrapping_add(c)),
                    };
                    return Some(Alu::new(Three(function), dst, [ty, ty, dst, ty]));
                }
            };
            Some(Alu::uniform(Three(function), ty))
        }
        "mul24" | "mad24" => product24(base, ty, mods),
        "dp4a" | "dp2a" => dot(base, ty, mods),
        _ => None,
    }
}

/// The 48-bit product of the low 24 bits: bits 31..0 or 47..16 of it.
fn product24(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    fn unsigned(a: u64, b: u64) -> u64 {
        (a & 0xff_ffff) * (b & 0xff_ffff)
    }
    fn signed(a: u64, b: u64) -> u64 {
        let extend = |v: u64| i64::from(((v as u32) << 8) as i32 >> 8);
        extend(a).wrapping_mul(extend(b)) as u64
    }
    let high = mods.choose(&[("lo", false), ("hi", true)])?;
    if base == "mad24" && mods.take("sat") {
        if (ty, high) != (Ty::S32, true) {
            return None;
        }
        let function =
            lanes3!(|a, b, c| ((signed(a, b) >> 16) as i32).saturating_add(c as i32) as u32 as u64);
        return Some(Alu::uniform(Function::Three(function), ty));
    }
    let function = match (base, ty, high) {
        ("mul24", Ty::U32, false) => Function::Two(lanes2!(|a, b| unsigned(a, b) as u32 as u64)),
        ("mul24", Ty::U32, true) => Function::Two(lanes2!(|a, b| (unsigned(a, b) >> 16) as u32 as u64)),
        ("mul24", Ty::S32, false) => Function::Two(lanes2!(|a, b| signed(a, b) as u32 as u64)),
        ("mul24", Ty::S32, true) => Function::Two(lanes2!(|a, b| (signed(a, b) >> 16) as u32 as u64)),
        ("mad24", Ty::U32, false) => {
            Function::Three(lanes3!(|a, b, c| (unsigned(a, b) as u32).wrapping_add(c as u32) as u64))
        }
        ("mad24", Ty::U32, true) => {
            Function::Three(lanes3!(|a, b, c| ((unsigned(a, b) >> 16) as u32).wrapping_add(c as u32) as u64))
        }
        ("mad24", Ty::S32, false) => {
            Function::Three(lanes3!(|a, b, c| (signed(a, b) as u32).wrapping_add(c as u32) as u64))
        }
        ("mad24", Ty::S32, true) => {
            Function::Three(lanes3!(|a, b, c| ((signed(a, b) >> 16) as u32).wrapping_add(c as u32) as u64))
        }
        _ => return None,
    };
    Some(Alu::uniform(function, ty))
}

/// Byte `i` of `v` as the signedness says.
#[inline(always)]
fn byte(v: u64, i: u32, signed: bool) -> i32 {
    let byte = (v >> (8 * i)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

/// Half `i` of `v` as the signedness says.
#[inline(always)]
fn half(v: u64, i: u32, signed: bool) -> i32 {
    let half = (v >> (16 * i)) as u16;
    if signed { i32::from(half as i16) } else { i32::from(half) }
}

#[inline(always)]
fn dot4(a: u64, b: u64, c: u64, sa: bool, sb: bool) -> u64 {
    let mut sum = c as u32 as i32;
    for i in 0..4 {
        sum = sum.wrapping_add(byte(a, i, sa) * byte(b, i, sb));
    }
    sum as u32 as u64
}

#[inline(always)]
fn dot2(a: u64, b: u64, c: u64, sa: bool, sb: bool, high: u32) -> u64 {
    let mut sum = c as u32 as i32;
    for i in 0..2 {
        sum = sum.wrapping_add(half(a, i, sa).wrapping_mul(byte(b, i + 2 * high, sb)));
    }
    sum as u32 as u64
}

fn dot(base: &str, a: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let b = mods.type_at(1)?;
    let signed = |ty| match ty {
        Ty::S32 => Some(true),
        Ty::U32 => Some(false),
        _ => None,
    };
    let function = if base == "dp4a" {
        match (signed(a)?, signed(b)?) {
            (false, false) => lanes3!(|a, b, c| dot4(a, b, c, false, false)),
            (false, true) => lanes3!(|a, b, c| dot4(a, b, c, false, true)),
            (true, false) => lanes3!(|a, b, c| dot4(a, b, c, true, false)),
            (true, true) => lanes3!(|a, b, c| dot4(a, b, c, true, true)),
        }
    } else {
        match (signed(a)?, signed(b)?, mods.choose(&[("lo", false), ("hi", true)])?) {
            (false, false, false) => lanes3!(|a, b, c| dot2(a, b, c, false, false, 0)),
            (false, true, false) => lanes3!(|a, b, c| dot2(a, b, c, false, true, 0)),
            (true, false, false) => lanes3!(|a, b, c| dot2(a, b, c, true, false, 0)),
            (true, true, false) => lanes3!(|a, b, c| dot2(a, b, c, true, true, 0)),
            (false, false, true) => lanes3!(|a, b, c| dot2(a, b, c, false, false, 1)),
            (false, true, true) => lanes3!(|a, b, c| dot2(a, b, c, false, true, 1)),
            (true, false, true) => lanes3!(|a, b, c| dot2(a, b, c, true, false, 1)),
            (true, true, true) => lanes3!(|a, b, c| dot2(a, b, c, true, true, 1)),
        }
    };
    Some(Alu::new(Function::Three(function), Ty::U32, [Ty::U32; 4]))
}

#[inline(always)]
fn each_half(a: u64, b: u64, f: impl Fn(u16, u16) -> u16) -> u64 {
    let low = f(a as u16, b as u16);
    let high = f((a >> 16) as u16, (b >> 16) as u16);
    u64::from(low) | u64::from(high) << 16
}

fn pairs(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let signed = ty == Ty::S16x2;
    let relu = mods.take("relu");
    if relu && !(signed && matches!(base, "min" | "max")) {
        return None;
    }
    let function = match (base, signed, relu) {
        ("add", ..) => lanes2!(|a, b| each_half(a, b, |a, b| a.wrapping_add(b))),
        ("min", false, _) => lanes2!(|a, b| each_half(a, b, |a, b| a.min(b))),
        ("max", false, _) => lanes2!(|a, b| each_half(a, b, |a, b| a.max(b))),
        ("min", true, false) => lanes2!(|a, b| each_half(a, b, |a, b| (a as i16).min(b as i16) as u16)),
        ("max", true, false) => lanes2!(|a, b| each_half(a, b, |a, b| (a as i16).max(b as i16) as u16)),
        ("min", true, true) => lanes2!(|a, b| each_half(a, b, |a, b| (a as i16).min(b as i16).max(0) as u16)),
        ("max", true, true) => lanes2!(|a, b| each_half(a, b, |a, b| (a as i16).max(b as i16).max(0) as u16)),
        _ => return None,
    };
    Some(Alu::uniform(Function::Two(function), ty).shadow(Shadow::Halves))
}
