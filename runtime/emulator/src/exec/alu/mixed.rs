//! `f32` arithmetic with a half-precision operand, and the minimum and maximum of
//! three.

use super::{
    Alu,
    Function::{Three, Two},
    float::{ROUNDS, add32, flush, fma32, larger, output, smaller},
};
use crate::{
    decode::types::{Modifiers, Ty},
    number::{Round, bf16_to_f32, f16_to_f32},
};

/// `add`, `sub` and `fma` of `f32` whose first operands (the factors, for `fma`)
/// are `f16` or `bf16`: they are widened, which is exact.
pub(super) fn select(base: &str, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let narrow = mods.type_at(1)?;
    let round = mods.choose(&ROUNDS);
    let sat = mods.take("sat");
    macro_rules! form {
        ($lanes:ident, |$($x:ident),+| $e:expr) => {
            if sat {
                $lanes!(|$($x),+| output::<false, true>($e))
            } else {
                $lanes!(|$($x),+| output::<false, false>($e))
            }
        };
    }
    macro_rules! rounded {
        ($lanes:ident, $read:ident, |$($x:ident),+| $f:ident($($y:expr),+)) => {
            match round.unwrap_or(Round::NearestEven) {
                Round::Zero => form!($lanes, |$($x),+| $f($($y),+, Round::Zero)),
                Round::Down => form!($lanes, |$($x),+| $f($($y),+, Round::Down)),
                Round::Up => form!($lanes, |$($x),+| $f($($y),+, Round::Up)),
                _ => form!($lanes, |$($x),+| $f($($y),+, Round::NearestEven)),
            }
        };
    }
    macro_rules! of {
        ($read:ident) => {
            match base {
                "add" => Two(rounded!(lanes2, $read, |a, c| add32($read(a as u16), single(c)))),
                "sub" => Two(rounded!(lanes2, $read, |a, c| add32($read(a as u16), -single(c)))),
                "fma" if round.is_some() => Three(rounded!(lanes3, $read, |a, b, c| fma32(
                    $read(a as u16),
                    $read(b as u16),
                    single(c)
                ))),
                _ => return None,
            }
        };
    }
    let function = if narrow == Ty::F16 { of!(f16_to_f32) } else { of!(bf16_to_f32) };
    let src =
        if base == "fma" { [narrow, narrow, Ty::F32, Ty::F32] } else { [narrow, Ty::F32, Ty::F32, Ty::F32] };
    Some(Alu::new(function, Ty::F32, src))
}

#[inline(always)]
fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// `min` and `max` of three `f32`s: NaNs are left out, unless one decides.
pub(super) fn extreme_of_three(base: &str, mods: &mut Modifiers<'_>) -> Option<Alu> {
    let (ftz, nan, abs) = (mods.take("ftz"), mods.take("NaN"), mods.take("abs"));
    fn of<const FTZ: bool, const NAN: bool, const ABS: bool>(
        values: [u64; 3],
        choose: fn(f32, f32) -> f32,
    ) -> u64 {
        let [a, b, c] = values.map(|bits| {
            let value = if FTZ { flush(single(bits)) } else { single(bits) };
            if ABS { value.abs() } else { value }
        });
        let any = a.is_nan() || b.is_nan() || c.is_nan();
        output::<FTZ, false>(if NAN && any { f32::NAN } else { choose(choose(a, b), c) })
    }
    macro_rules! form {
        ($z:literal, $n:literal, $a:literal) => {
            if base == "min" {
                lanes3!(|a, b, c| of::<$z, $n, $a>([a, b, c], smaller))
            } else {
                lanes3!(|a, b, c| of::<$z, $n, $a>([a, b, c], larger))
            }
        };
    }
    let function = match (ftz, nan, abs) {
        (false, false, false) => form!(false, false, false),
        (false, false, true) => form!(false, false, true),
        (false, true, false) => form!(false, true, false),
        (false, true, true) => form!(false, true, true),
        (true, false, false) => form!(true, false, false),
        (true, false, true) => form!(true, false, true),
        (true, true, false) => form!(true, true, false),
        (true, true, true) => form!(true, true, true),
    };
    Some(Alu::uniform(Three(function), Ty::F32))
}
