//! `f16` and `bf16`, single and packed in pairs.
//!
//! Every operation is computed in `f64` rounded to odd and rounded once to the
//! format, which is exact for these widths.

use super::{Alu, Function, Shadow};
use crate::{
    decode::types::{Modifiers, Ty},
    number::{BF16, F16, Format, Round, bf16_to_f32, f16_to_f32, narrow, odd},
};
use Function::{One, Three, Two};

/// What a half operation does besides its arithmetic.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finish {
    Plain,
    Flush,
    Saturate,
    FlushSaturate,
    Relu,
    FlushRelu,
}

fn finish_of(mods: &mut Modifiers<'_>) -> Option<Finish> {
    let (ftz, sat, relu) = (mods.take("ftz"), mods.take("sat"), mods.take("relu"));
    Some(match (ftz, sat, relu) {
        (false, false, false) => Finish::Plain,
        (true, false, false) => Finish::Flush,
        (false, true, false) => Finish::Saturate,
        (true, true, false) => Finish::FlushSaturate,
        (false, false, true) => Finish::Relu,
        (true, false, true) => Finish::FlushRelu,
        _ => return None,
    })
}

#[inline(always)]
fn flush(code: u16, format: Format) -> u16 {
    if u64::from(code) & format.infinity() == 0 { code & 0x8000 } else { code }
}

#[inline(always)]
fn read(code: u16, bf: bool) -> f64 {
    f64::from(if bf { bf16_to_f32(code) } else { f16_to_f32(code) })
}

#[inline(always)]
fn write(value: f64, bf: bool) -> u16 {
    narrow(value, if bf { BF16 } else { F16 }, Round::NearestEven) as u16
}

fn apply(code: u16, bf: bool, finish: u8) -> u16 {
    let format = if bf { BF16 } else { F16 };
    let ftz = finish == Finish::Flush as u8
        || finish == Finish::FlushSaturate as u8
        || finish == Finish::FlushRelu as u8;
    let code = if ftz { flush(code, format) } else { code };
    let nan = u64::from(code & 0x7fff) > format.infinity();
    if finish == Finish::Saturate as u8 || finish == Finish::FlushSaturate as u8 {
        let one = if bf { 0x3f80 } else { 0x3c00 };
        return if nan || code & 0x8000 != 0 { 0 } else { code.min(one) };
    }
    if finish == Finish::Relu as u8 || finish == Finish::FlushRelu as u8 {
        return if nan {
            0x7fff
        } else if code & 0x8000 != 0 {
            0
        } else {
            code
        };
    }
    code
}

#[inline(always)]
fn element<const BF: bool, const FINISH: u8>(a: u16, b: u16, c: u16, f: fn(f64, f64, f64) -> f64) -> u16 {
    let ftz = FINISH == Finish::Flush as u8
        || FINISH == Finish::FlushSaturate as u8
        || FINISH == Finish::FlushRelu as u8;
    let format = if BF { BF16 } else { F16 };
    let load = |code| read(if ftz { flush(code, format) } else { code }, BF);
    apply(write(f(load(a), load(b), load(c)), BF), BF, FINISH)
}

#[inline(always)]
fn packed<const BF: bool, const FINISH: u8>(a: u64, b: u64, c: u64, f: fn(f64, f64, f64) -> f64) -> u64 {
    let low = element::<BF, FINISH>(a as u16, b as u16, c as u16, f);
    let high = element::<BF, FINISH>((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16, f);
    u64::from(low) | u64::from(high) << 16
}

/// A function of each element, for one format, pairing and finish.
macro_rules! elements {
    ($lanes:ident, $bf:expr, $pair:expr, $finish:expr, |$($x:ident),+| ($a:expr, $b:expr, $c:expr), $f:expr) => {
        match $finish {
            Finish::Plain => elements!(@ $lanes, $bf, $pair, 0, |$($x),+| ($a, $b, $c), $f),
            Finish::Flush => elements!(@ $lanes, $bf, $pair, 1, |$($x),+| ($a, $b, $c), $f),
            Finish::Saturate => elements!(@ $lanes, $bf, $pair, 2, |$($x),+| ($a, $b, $c), $f),
            Finish::FlushSaturate => elements!(@ $lanes, $bf, $pair, 3, |$($x),+| ($a, $b, $c), $f),
            Finish::Relu => elements!(@ $lanes, $bf, $pair, 4, |$($x),+| ($a, $b, $c), $f),
            Finish::FlushRelu => elements!(@ $lanes, $bf, $pair, 5, |$($x),+| ($a, $b, $c), $f),
        }
    };
    (@ $lanes:ident, $bf:expr, $pair:expr, $n:literal, |$($x:ident),+| ($a:expr, $b:expr, $c:expr), $f:expr) => {
        match ($bf, $pair) {
            (false, false) => {
                $lanes!(|$($x),+| u64::from(element::<false, $n>($a as u16, $b as u16, $c as u16, $f)))
            }
            (true, false) => $lanes!(|$($x),+| u64::from(element::<true, $n>($a as u16, $b as u16, $c as u16, $f))),
            (false, true) => $lanes!(|$($x),+| packed::<false, $n>($a, $b, $c, $f)),
            (true, true) => $lanes!(|$($x),+| packed::<true, $n>($a, $b, $c, $f)),
        }
    };
}

fn smaller(a: f64, b: f64, _: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

fn larger(a: f64, b: f64, _: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

fn with_nan(a: f64, b: f64, f: fn(f64, f64, f64) -> f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { f(a, b, 0.0) }
}

fn xor_sign(a: f64, b: f64, f: fn(f64, f64, f64) -> f64) -> f64 {
    let magnitude = f(a.abs(), b.abs(), 0.0);
    if a.is_sign_negative() != b.is_sign_negative() { -magnitude } else { magnitude }
}

fn smaller_nan(a: f64, b: f64, _: f64) -> f64 {
    with_nan(a, b, smaller)
}

fn larger_nan(a: f64, b: f64, _: f64) -> f64 {
    with_nan(a, b, larger)
}

pub(super) fn select(base: &str, ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let bf = matches!(ty, Ty::Bf16 | Ty::Bf16x2);
    let pair = matches!(ty, Ty::F16x2 | Ty::Bf16x2);
    let alu = |function| {
        let alu = Alu::uniform(function, ty);
        Some(if pair { alu.shadow(Shadow::Halves) } else { alu })
    };
    if matches!(base, "abs" | "neg") {
        let ftz = mods.take("ftz");
        if ftz {
            return alu(One(if base == "abs" {
                elements!(lanes1, bf, pair, Finish::Flush, |a| (a, 0u64, 0u64), |a, _, _| a.abs())
            } else {
                elements!(lanes1, bf, pair, Finish::Flush, |a| (a, 0u64, 0u64), |a, _, _| -a)
            }));
        }
        return alu(One(match (base, pair) {
            ("abs", false) => lanes1!(|a| a & 0x7fff),
            ("abs", true) => lanes1!(|a| a & 0x7fff_7fff),
            (_, false) => lanes1!(|a| a ^ 0x8000),
            (_, true) => lanes1!(|a| a ^ 0x8000_8000),
        }));
    }
    if matches!(base, "ex2" | "tanh") {
        if !mods.take("approx") {
            return None;
        }
        let finish = finish_of(mods)?;
        return alu(One(if base == "ex2" {
            elements!(lanes1, bf, pair, finish, |a| (a, 0u64, 0u64), |a, _, _| a.exp2())
        } else {
            elements!(lanes1, bf, pair, finish, |a| (a, 0u64, 0u64), |a, _, _| a.tanh())
        }));
    }
    if matches!(base, "min" | "max") {
        let nan = mods.take("NaN");
        let xorsign = mods.take("xorsign");
        if xorsign && !mods.take("abs") {
            return None;
        }
        let finish = finish_of(mods)?;
        return alu(Two(match (base, nan, xorsign) {
            ("min", false, false) => elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), smaller),
            ("min", true, false) => elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), smaller_nan),
            ("min", false, true) => {
                elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| xor_sign(a, b, smaller))
            }
            ("min", true, true) => {
                elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| xor_sign(
                    a,
                    b,
                    smaller_nan
                ))
            }
            (_, false, false) => elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), larger),
            (_, true, false) => elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), larger_nan),
            (_, false, true) => {
                elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| xor_sign(a, b, larger))
            }
            (_, true, true) => {
                elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| xor_sign(a, b, larger_nan))
            }
        }));
    }
    mods.take("rn");
    let finish = finish_of(mods)?;
    match base {
        "add" => alu(Two(elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| odd::add(a, b)))),
        "sub" => {
            alu(Two(elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| odd::add(a, -b))))
        }
        "mul" => alu(Two(elements!(lanes2, bf, pair, finish, |a, b| (a, b, 0u64), |a, b, _| a * b))),
        "fma" => alu(Three(elements!(lanes3, bf, pair, finish, |a, b, c| (a, b, c), odd::fma))),
        _ => None,
    }
}
