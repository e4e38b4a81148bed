//! Comparisons: what `setp` and `set` test.
// With NaNs about, `x < y || x > y` is not `x != y`, nor `!(x < y)` the same as `x >= y`.
#![allow(clippy::double_comparisons, clippy::nonminimal_bool, clippy::neg_cmp_op_on_partial_ord)]

use super::F2;
use crate::{
    decode::types::{Modifiers, Ty},
    number::{bf16_to_f32, f16_to_f32},
};

/// A selected comparison; the functions give 0 or 1.
#[derive(Clone, Copy, Debug)]
pub struct Compare {
    /// The type compared.
    pub ty: Ty,
    /// The comparison (of the low halves, for packed types).
    pub low: F2,
    /// The comparison of the high halves of packed types.
    pub high: Option<F2>,
}

const ORDER: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan",
];

macro_rules! int_compare {
    ($word:expr, $t:ty) => {
        match $word {
            "eq" => Some(lanes2!(|a, b| u64::from(a as $t == b as $t))),
            "ne" => Some(lanes2!(|a, b| u64::from(a as $t != b as $t))),
            "lt" | "lo" => Some(lanes2!(|a, b| u64::from((a as $t) < b as $t))),
            "le" | "ls" => Some(lanes2!(|a, b| u64::from(a as $t <= b as $t))),
            "gt" | "hi" => Some(lanes2!(|a, b| u64::from(a as $t > b as $t))),
            "ge" | "hs" => Some(lanes2!(|a, b| u64::from(a as $t >= b as $t))),
            _ => None,
        }
    };
}

/// `$read` turns the bits of a lane into a float.
macro_rules! float_compare {
    ($word:expr, $read:path) => {{
        macro_rules! test {
            (|$x:ident, $y:ident| $e:expr) => {
                Some(lanes2!(|a, b| {
                    let ($x, $y) = ($read(a), $read(b));
                    u64::from($e)
                }))
            };
        }
        match $word {
            "eq" => test!(|x, y| x == y),
            "ne" => test!(|x, y| x < y || x > y),
            "lt" => test!(|x, y| x < y),
            "le" => test!(|x, y| x <= y),
            "gt" => test!(|x, y| x > y),
            "ge" => test!(|x, y| x >= y),
            "equ" => test!(|x, y| !(x < y || x > y)),
            "neu" => test!(|x, y| x != y),
            "ltu" => test!(|x, y| !(x >= y)),
            "leu" => test!(|x, y| !(x > y)),
            "gtu" => test!(|x, y| !(x <= y)),
            "geu" => test!(|x, y| !(x < y)),
            "num" => test!(|x, y| !x.is_nan() && !y.is_nan()),
            "nan" => test!(|x, y| x.is_nan() || y.is_nan()),
            _ => None,
        }
    }};
}

#[inline(always)]
fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[inline(always)]
fn single_flushed(bits: u64) -> f32 {
    let value = single(bits);
    if value.abs() < f32::MIN_POSITIVE { 0.0 } else { value }
}

#[inline(always)]
fn half(bits: u64) -> f32 {
    f16_to_f32(bits as u16)
}

#[inline(always)]
fn half_flushed(bits: u64) -> f32 {
    if bits & 0x7c00 == 0 { 0.0 } else { half(bits) }
}

#[inline(always)]
fn high_half(bits: u64) -> f32 {
    half(bits >> 16)
}

#[inline(always)]
fn high_half_flushed(bits: u64) -> f32 {
    half_flushed(bits >> 16)
}

#[inline(always)]
fn brain(bits: u64) -> f32 {
    bf16_to_f32(bits as u16)
}

#[inline(always)]
fn high_brain(bits: u64) -> f32 {
    bf16_to_f32((bits >> 16) as u16)
}

/// The comparison named in `mods` at type `ty`; takes its words.
pub fn compare(ty: Ty, mods: &mut Modifiers<'_>) -> Option<Compare> {
    let word = ORDER.into_iter().find(|word| mods.take(word))?;
    let bits_only = matches!(word, "eq" | "ne");
    let ordered = |f: Option<F2>| f.map(|low| Compare { ty, low, high: None });
    let ftz = matches!(ty, Ty::F32 | Ty::F16 | Ty::F16x2) && mods.take("ftz");
    match ty {
        Ty::B16 if bits_only => ordered(int_compare!(word, u16)),
        Ty::B32 if bits_only => ordered(int_compare!(word, u32)),
        Ty::B64 if bits_only => ordered(int_compare!(word, u64)),
        Ty::U16 => ordered(int_compare!(word, u16)),
        Ty::U32 => ordered(int_compare!(word, u32)),
        Ty::U64 => ordered(int_compare!(word, u64)),
        Ty::S16 => ordered(int_compare!(word, i16)),
        Ty::S32 => ordered(int_compare!(word, i32)),
        Ty::S64 => ordered(int_compare!(word, i64)),
        Ty::F32 if ftz => ordered(float_compare!(word, single_flushed)),
        Ty::F32 => ordered(float_compare!(word, single)),
        Ty::F64 => ordered(float_compare!(word, f64::from_bits)),
        Ty::F16 if ftz => ordered(float_compare!(word, half_flushed)),
        Ty::F16 => ordered(float_compare!(word, half)),
        Ty::Bf16 => ordered(float_compare!(word, brain)),
        Ty::F16x2 | Ty::Bf16x2 => {
            let (low, high) = match (ty, ftz) {
                (Ty::F16x2, false) => (float_compare!(word, half), float_compare!(word, high_half)),
                (Ty::F16x2, true) => {
                    (float_compare!(word, half_flushed), float_compare!(word, high_half_flushed))
                }
                _ => (float_compare!(word, brain), float_compare!(word, high_brain)),
            };
            Some(Compare { ty, low: low?, high })
        }
        _ => None,
    }
}
