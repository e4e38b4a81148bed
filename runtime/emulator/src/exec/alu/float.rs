//! `f32`, packed pairs of them, and `f64` arithmetic.
//!
//! Approximate instructions are computed to within an ulp, which lies inside
//! every bound of the PTX ISA document; their special cases follow its tables.

use super::{Alu, Function};
use crate::{
    decode::types::{Modifiers, Ty},
    number::{F32, Round, exact, narrow, odd},
};
use Function::{One, Three, Two};

/// PTX's canonical `f32` NaN.
pub(super) const NAN32: u64 = 0x7fff_ffff;
/// The `f64` NaN that operations give.
const NAN64: u64 = 0x7fff_ffff_ffff_ffff;

/// The rounding words of arithmetic.
pub(super) const ROUNDS: [(&str, Round); 4] =
    [("rn", Round::NearestEven), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)];

#[inline(always)]
pub(super) fn flush(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { f32::from_bits(value.to_bits() & 0x8000_0000) } else { value }
}

#[inline(always)]
pub(super) fn input<const FTZ: bool>(bits: u64) -> f32 {
    let value = f32::from_bits(bits as u32);
    if FTZ { flush(value) } else { value }
}

#[inline(always)]
pub(super) fn output<const FTZ: bool, const SAT: bool>(value: f32) -> u64 {
    let value = if FTZ { flush(value) } else { value };
    if SAT {
        // A NaN saturates to +0.
        let value = if value > 0.0 { value } else { 0.0 };
        return u64::from((if value < 1.0 { value } else { 1.0 }).to_bits());
    }
    if value.is_nan() { NAN32 } else { u64::from(value.to_bits()) }
}

macro_rules! f32_1 {
    ($ftz:expr, $sat:expr, |$a:ident| $e:expr) => {
        match ($ftz, $sat) {
            (false, false) => f32_1!(@ false, false, |$a| $e),
            (true, false) => f32_1!(@ true, false, |$a| $e),
            (false, true) => f32_1!(@ false, true, |$a| $e),
            (true, true) => f32_1!(@ true, true, |$a| $e),
        }
    };
    (@ $f:literal, $s:literal, |$a:ident| $e:expr) => {
        lanes1!(|$a| { let $a = input::<$f>($a); output::<$f, $s>($e) })
    };
}

macro_rules! f32_2 {
    ($ftz:expr, $sat:expr, |$a:ident, $b:ident| $e:expr) => {
        match ($ftz, $sat) {
            (false, false) => f32_2!(@ false, false, |$a, $b| $e),
            (true, false) => f32_2!(@ true, false, |$a, $b| $e),
            (false, true) => f32_2!(@ false, true, |$a, $b| $e),
            (true, true) => f32_2!(@ true, true, |$a, $b| $e),
        }
    };
    (@ $f:literal, $s:literal, |$a:ident, $b:ident| $e:expr) => {
        lanes2!(|$a, $b| { let ($a, $b) = (input::<$f>($a), input::<$f>($b)); output::<$f, $s>($e) })
    };
}

macro_rules! f32_3 {
    ($ftz:expr, $sat:expr, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        match ($ftz, $sat) {
            (false, false) => f32_3!(@ false, false, |$a, $b, $c| $e),
            (true, false) => f32_3!(@ true, false, |$a, $b, $c| $e),
            (false, true) => f32_3!(@ false, true, |$a, $b, $c| $e),
            (true, true) => f32_3!(@ true, true, |$a, $b, $c| $e),
        }
    };
    (@ $f:literal, $s:literal, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        lanes3!(|$a, $b, $c| {
            let ($a, $b, $c) = (input::<$f>($a), input::<$f>($b), input::<$f>($c));
            output::<$f, $s>($e)
        })
    };
}

/// An odd-rounded `f64` to `f32` in a mode.
fn to_f32(value: f64, round: Round) -> f32 {
    f32::from_bits(narrow(value, F32, round) as u32)
}

/// `a + b`.
pub(super) fn add32(a: f32, b: f32, round: Round) -> f32 {
    let (a, b) = (f64::from(a), f64::from(b));
    let sum = odd::add(a, b);
    if sum == 0.0 { exact::exact_zero(a, b, round) as f32 } else { to_f32(sum, round) }
}

/// `a * b + c`; the product is exact.
pub(super) fn fma32(a: f32, b: f32, c: f32, round: Round) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = odd::add(product, c);
    if sum == 0.0 { exact::exact_zero(product, c, round) as f32 } else { to_f32(sum, round) }
}

fn mul32(a: f32, b: f32, round: Round) -> f32 {
    to_f32(f64::from(a) * f64::from(b), round)
}

#[inline(always)]
pub(super) fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
        a
    } else {
        b
    }
}

#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

#[inline(always)]
fn nan_or(a: f32, b: f32, otherwise: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { otherwise }
}

#[inline(always)]
fn xor_sign(a: f32, b: f32, magnitude: f32) -> f32 {
    f32::from_bits(magnitude.to_bits() & 0x7fff_ffff | (a.to_bits() ^ b.to_bits()) & 0x8000_0000)
}

/// `div.approx`: divisors above 2^126 give zero (NaN for an infinite dividend).
#[inline(always)]
fn div_approx(a: f32, b: f32) -> f32 {
    if b.is_finite() && b.abs() > f32::from_bits(0x7e80_0000) {
        return if a.is_finite() {
            f32::from_bits((a.to_bits() ^ b.to_bits()) & 0x8000_0000)
        } else {
            f32::NAN
        };
    }
    a / b
}

pub(super) fn select(base: &str, ty: Ty, mods: &mut Modifiers<'_>, sources: usize) -> Option<Alu> {
    if ty == Ty::F32x2 {
        return pairs(base, mods);
    }
    if ty == Ty::F32 && sources == 3 && matches!(base, "min" | "max") {
        return super::mixed::extreme_of_three(base, mods);
    }
    if ty == Ty::F32 && matches!(mods.peek_second(), Some(Ty::F16 | Ty::Bf16)) {
        return super::mixed::select(base, mods);
    }
    if base == "testp" {
        return test(ty, mods);
    }
    if base == "copysign" {
        let function = if ty == Ty::F32 {
            lanes2!(|a, b| a & 0x8000_0000 | b & 0x7fff_ffff)
        } else {
            lanes2!(|a, b| a & 1 << 63 | b & !(1 << 63))
        };
        return Some(Alu::uniform(Two(function), ty));
    }
    if ty == Ty::F64 { double(base, mods) } else { single(base, mods) }
}

fn single(base: &str, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let round = mods.choose(&ROUNDS);
    let (ftz, approx, full) = (mods.take("ftz"), mods.take("approx"), mods.take("full"));
    let sat = mods.take("sat");
    let mode = round.unwrap_or(Round::NearestEven);
    let nearest = mode == Round::NearestEven;
    let alu = |function| Some(Alu::uniform(function, Ty::F32));
    macro_rules! directed {
        ($f:ident, |$($x:ident),+| $e:expr, $slow:expr) => {
            match mode {
                Round::Zero => $f!(ftz, sat, |$($x),+| $slow($($x),+, Round::Zero)),
                Round::Down => $f!(ftz, sat, |$($x),+| $slow($($x),+, Round::Down)),
                Round::Up => $f!(ftz, sat, |$($x),+| $slow($($x),+, Round::Up)),
                _ => $f!(ftz, sat, |$($x),+| $e),
            }
        };
    }
    let arithmetic = matches!(base, "add" | "sub" | "mul" | "fma" | "mad");
    if (approx || full) && arithmetic {
        return None;
    }
    match base {
        "add" => alu(Two(directed!(f32_2, |a, b| a + b, add32))),
        "sub" => alu(Two(directed!(f32_2, |a, b| a - b, |a: f32, b: f32, r| add32(a, -b, r)))),
        "mul" => alu(Two(directed!(f32_2, |a, b| a * b, mul32))),
        "fma" | "mad" if round.is_some() => alu(Three(directed!(f32_3, |a, b, c| a.mul_add(b, c), fma32))),
        _ if sat => None,
        "div" if approx => alu(Two(f32_2!(ftz, false, |a, b| div_approx(a, b)))),
        "div" if full => alu(Two(f32_2!(ftz, false, |a, b| a / b))),
        "div" if round.is_some() => alu(Two(directed!(f32_2, |a, b| a / b, |a: f32, b: f32, r| to_f32(
            odd::div(a.into(), b.into()),
            r
        )))),
        "rcp" if approx || round.is_some() => {
            alu(One(directed!(f32_1, |a| 1.0 / a, |a: f32, r| to_f32(odd::div(1.0, a.into()), r))))
        }
        "sqrt" if approx || round.is_some() => {
            alu(One(directed!(f32_1, |a| a.sqrt(), |a: f32, r| to_f32(odd::sqrt(a.into()), r))))
        }
        _ if !nearest || round.is_some() => None,
        "rsqrt" if approx => alu(One(f32_1!(ftz, false, |a| (1.0 / f64::from(a).sqrt()) as f32))),
        "sin" if approx => alu(One(f32_1!(ftz, false, |a| a.sin()))),
        "cos" if approx => alu(One(f32_1!(ftz, false, |a| a.cos()))),
        "lg2" if approx => alu(One(f32_1!(ftz, false, |a| a.log2()))),
        "ex2" if approx => alu(One(f32_1!(ftz, false, |a| a.exp2()))),
        "tanh" if approx && !ftz => alu(One(f32_1!(ftz, false, |a| a.tanh()))),
        _ if approx || full => None,
        "abs" if ftz => alu(One(f32_1!(true, false, |a| a.abs()))),
        "abs" => alu(One(lanes1!(|a| a & 0x7fff_ffff))),
        "neg" if ftz => alu(One(f32_1!(true, false, |a| -a))),
        "neg" => alu(One(lanes1!(|a| a ^ 0x8000_0000))),
        "min" | "max" => {
            let nan = mods.take("NaN");
            let xorsign = mods.take("xorsign");
            if xorsign && !mods.take("abs") {
                return None;
            }
            alu(Two(match (base, nan, xorsign) {
                ("min", false, false) => f32_2!(ftz, false, |a, b| smaller(a, b)),
                ("min", true, false) => f32_2!(ftz, false, |a, b| nan_or(a, b, smaller(a, b))),
                ("min", false, true) => f32_2!(ftz, false, |a, b| xor_sign(a, b, smaller(a.abs(), b.abs()))),
                ("min", true, true) => {
                    f32_2!(ftz, false, |a, b| nan_or(a, b, xor_sign(a, b, smaller(a.abs(), b.abs()))))
                }
                (_, false, false) => f32_2!(ftz, false, |a, b| larger(a, b)),
                (_, true, false) => f32_2!(ftz, false, |a, b| nan_or(a, b, larger(a, b))),
                (_, false, true) => f32_2!(ftz, false, |a, b| xor_sign(a, b, larger(a.abs(), b.abs()))),
                (_, true, true) => {
                    f32_2!(ftz, false, |a, b| nan_or(a, b, xor_sign(a, b, larger(a.abs(), b.abs()))))
                }
            }))
        }
        _ => None,
    }
}

#[inline(always)]
fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

#[inline(always)]
fn bits(value: f64) -> u64 {
    if value.is_nan() { NAN64 } else { value.to_bits() }
}

/// The gross approximations read and give only the high word, subnormals flushed.
fn high_word(value: u64, f: impl Fn(f64) -> f64) -> u64 {
    let flushed = |bits: u64| if bits >> 52 & 0x7ff == 0 { bits & 1 << 63 } else { bits };
    let result = f(d(flushed(value & !0xffff_ffff)));
    flushed(bits(result) & !0xffff_ffff)
}

fn double(base: &str, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let round = mods.choose(&ROUNDS);
    let mode = round.unwrap_or(Round::NearestEven);
    let approx = mods.take("approx");
    let alu = |function| Some(Alu::uniform(function, Ty::F64));
    macro_rules! directed {
        ($f:ident, |$($x:ident),+| $e:expr, $slow:path) => {
            match mode {
                Round::Zero => $f!(|$($x),+| bits($slow($(d($x)),+, Round::Zero))),
                Round::Down => $f!(|$($x),+| bits($slow($(d($x)),+, Round::Down))),
                Round::Up => $f!(|$($x),+| bits($slow($(d($x)),+, Round::Up))),
                _ => $f!(|$($x),+| { $(let $x = d($x);)+ bits($e) }),
            }
        };
    }
    fn sub(a: f64, b: f64, round: Round) -> f64 {
        exact::add(a, -b, round)
    }
    fn reciprocal(a: f64, round: Round) -> f64 {
        exact::div(1.0, a, round)
    }
    match base {
        "rcp" if approx && mods.take("ftz") => return alu(One(lanes1!(|a| high_word(a, |a| 1.0 / a)))),
        "rsqrt" if approx && mods.take("ftz") => {
            return alu(One(lanes1!(|a| high_word(a, |a| 1.0 / a.sqrt()))));
        }
        "rsqrt" if approx => return alu(One(lanes1!(|a| bits(1.0 / d(a).sqrt())))),
        _ if approx => return None,
        _ => {}
    }
    match base {
        "add" => alu(Two(directed!(lanes2, |a, b| a + b, exact::add))),
        "sub" => alu(Two(directed!(lanes2, |a, b| a - b, sub))),
        "mul" => alu(Two(directed!(lanes2, |a, b| a * b, exact::mul))),
        "fma" | "mad" if round.is_some() => {
            alu(Three(directed!(lanes3, |a, b, c| a.mul_add(b, c), exact::fma)))
        }
        "div" if round.is_some() => alu(Two(directed!(lanes2, |a, b| a / b, exact::div))),
        "rcp" if round.is_some() => alu(One(directed!(lanes1, |a| 1.0 / a, reciprocal))),
        "sqrt" if round.is_some() => alu(One(directed!(lanes1, |a| a.sqrt(), exact::sqrt))),
        _ if round.is_some() => None,
        "abs" => alu(One(lanes1!(|a| a & !(1 << 63)))),
        "neg" => alu(One(lanes1!(|a| a ^ 1 << 63))),
        "min" => alu(Two(lanes2!(|a, b| {
            let (a, b) = (d(a), d(b));
            let first = b.is_nan() || a < b || (a == b && a.is_sign_negative());
            bits(if a.is_nan() || !first { b } else { a })
        }))),
        "max" => alu(Two(lanes2!(|a, b| {
            let (a, b) = (d(a), d(b));
            let first = b.is_nan() || a > b || (a == b && a.is_sign_positive());
            bits(if a.is_nan() || !first { b } else { a })
        }))),
        _ => None,
    }
}

fn test(ty: Ty, mods: &mut Modifiers<'_>) -> Option<Alu> {
    #[derive(Clone, Copy)]
    enum Class {
        Finite,
        Infinite,
        Number,
        NotANumber,
        Normal,
        Subnormal,
    }
    let class = mods.choose(&[
        ("finite", Class::Finite),
        ("infinite", Class::Infinite),
        ("number", Class::Number),
        ("notanumber", Class::NotANumber),
        ("normal", Class::Normal),
        ("subnormal", Class::Subnormal),
    ])?;
    macro_rules! classes {
        (|$v:ident: $t:ident| $from:expr) => {
            match class {
                Class::Finite => lanes1!(|$v| u64::from($from.is_finite())),
                Class::Infinite => lanes1!(|$v| u64::from($from.is_infinite())),
                Class::Number => lanes1!(|$v| u64::from(!$from.is_nan())),
                Class::NotANumber => lanes1!(|$v| u64::from($from.is_nan())),
                // The ISA counts zero as a normal number.
                Class::Normal => lanes1!(|$v| u64::from($from.is_normal() || $from == 0.0)),
                Class::Subnormal => lanes1!(|$v| u64::from($from.is_subnormal())),
            }
        };
    }
    let function = if ty == Ty::F32 {
        classes!(|v: f32| f32::from_bits(v as u32))
    } else {
        classes!(|v: f64| f64::from_bits(v))
    };
    Some(Alu::new(One(function), Ty::Pred, [ty; 4]))
}

#[inline(always)]
fn each(a: u64, b: u64, c: u64, f: impl Fn(f32, f32, f32) -> u64) -> u64 {
    let part = |v: u64, high: bool| f32::from_bits((if high { v >> 32 } else { v }) as u32);
    let low = f(part(a, false), part(b, false), part(c, false));
    let high = f(part(a, true), part(b, true), part(c, true));
    low | high << 32
}

/// Packed `f32` pairs, in every rounding and optionally flushing.
fn pairs(base: &str, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let round = mods.choose(&ROUNDS).unwrap_or(Round::NearestEven);
    let ftz = mods.take("ftz");
    macro_rules! part {
        ($z:literal, |$($x:ident),+| $e:expr) => {{
            let part = |$($x: f32),+| {
                $(let $x = if $z { flush($x) } else { $x };)+
                output::<$z, false>($e)
            };
            part
        }};
    }
    macro_rules! two {
        (|$a:ident, $b:ident| $e:expr) => {
            if ftz {
                Two(lanes2!(|x, y| each(x, y, 0, |a, b, _| part!(true, |$a, $b| $e)(a, b))))
            } else {
                Two(lanes2!(|x, y| each(x, y, 0, |a, b, _| part!(false, |$a, $b| $e)(a, b))))
            }
        };
    }
    macro_rules! three {
        (|$a:ident, $b:ident, $c:ident| $e:expr) => {
            if ftz {
                Three(lanes3!(|x, y, z| each(x, y, z, |a, b, c| part!(true, |$a, $b, $c| $e)(a, b, c))))
            } else {
                Three(lanes3!(|x, y, z| each(x, y, z, |a, b, c| part!(false, |$a, $b, $c| $e)(a, b, c))))
            }
        };
    }
    macro_rules! rounded {
        ($form:ident, |$($x:ident),+| $e:expr, $slow:ident($($y:expr),+)) => {
            match round {
                Round::Zero => $form!(|$($x),+| $slow($($y),+, Round::Zero)),
                Round::Down => $form!(|$($x),+| $slow($($y),+, Round::Down)),
                Round::Up => $form!(|$($x),+| $slow($($y),+, Round::Up)),
                _ => $form!(|$($x),+| $e),
            }
        };
    }
    let function = match base {
        "add" => rounded!(two, |a, b| a + b, add32(a, b)),
        "sub" => rounded!(two, |a, b| a - b, add32(a, -b)),
        "mul" => rounded!(two, |a, b| a * b, mul32(a, b)),
        "fma" => rounded!(three, |a, b, c| a.mul_add(b, c), fma32(a, b, c)),
        _ => return None,
    };
    Some(Alu::uniform(function, Ty::F32x2).shadow(super::Shadow::Words))
}
