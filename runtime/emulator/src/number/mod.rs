//! Floating-point formats narrower than the host's, and correct rounding in
//! every PTX mode.
//!
//! The narrow formats and the directed modes go through one route: form the exact
//! result as an `f64` rounded to odd ([`odd`]), which keeps enough to round once
//! more without error (Boldo and Melquiond, "When double rounding is odd"), then
//! [`pack`] it. Directed `f64` uses exact residuals ([`exact`]).

pub mod exact;

/// A rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To nearest, ties to even.
    NearestEven,
    /// To nearest, ties away from zero.
    NearestAway,
    /// Toward zero.
    Zero,
    /// Toward minus infinity.
    Down,
    /// Toward plus infinity.
    Up,
}

/// A binary interchange-like format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent field.
    pub exponent: u32,
    /// Bits of the stored significand.
    pub mantissa: u32,
    /// What the codes at the top of the range mean.
    pub specials: Specials,
}

/// The codes of a format that are no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// The largest exponent holds infinities and NaNs.
    Ieee,
    /// Only the all-ones code is a NaN (E4M3).
    Nan,
    /// Every code is a number: what is too large, and NaN, become the largest.
    None,
}

/// IEEE binary16.
pub const F16: Format = Format { exponent: 5, mantissa: 10, specials: Specials::Ieee };
/// bfloat16.
pub const BF16: Format = Format { exponent: 8, mantissa: 7, specials: Specials::Ieee };
/// TF32, without its unused 13 low bits.
pub const TF32: Format = Format { exponent: 8, mantissa: 10, specials: Specials::Ieee };
/// IEEE binary32.
pub const F32: Format = Format { exponent: 8, mantissa: 23, specials: Specials::Ieee };
/// IEEE binary64.
pub const F64: Format = Format { exponent: 11, mantissa: 52, specials: Specials::Ieee };
/// FP8 with 4 exponent bits.
pub const E4M3: Format = Format { exponent: 4, mantissa: 3, specials: Specials::Nan };
/// FP8 with 5 exponent bits.
pub const E5M2: Format = Format { exponent: 5, mantissa: 2, specials: Specials::Ieee };
/// FP6 with 2 exponent bits.
pub const E2M3: Format = Format { exponent: 2, mantissa: 3, specials: Specials::None };
/// FP6 with 3 exponent bits.
pub const E3M2: Format = Format { exponent: 3, mantissa: 2, specials: Specials::None };
/// FP4.
pub const E2M1: Format = Format { exponent: 2, mantissa: 1, specials: Specials::None };

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The code of plus infinity: the one above the largest number.
    pub const fn infinity(self) -> u64 {
        match self.specials {
            Specials::Ieee => ((1 << self.exponent) - 1) << self.mantissa,
            Specials::Nan => self.nan(),
            Specials::None => self.sign(),
        }
    }

    /// The code of the largest finite value.
    pub const fn largest(self) -> u64 {
        self.infinity() - 1
    }

    /// PTX's canonical NaN: all ones below the sign, which is the largest number
    /// where there is none.
    pub const fn nan(self) -> u64 {
        (1 << (self.exponent + self.mantissa)) - 1
    }

    /// The sign bit.
    pub const fn sign(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }
}

/// Rounds `mantissa * 2^exponent` (plus a bit below it when `sticky`) to `format`.
/// Overflow gives infinity or the largest value as the mode asks.
pub fn pack(negative: bool, mantissa: u64, exponent: i32, sticky: bool, format: Format, round: Round) -> u64 {
    let sign = if negative { format.sign() } else { 0 };
    if mantissa == 0 && !sticky {
        return sign;
    }
    // Normalise to bit 63, so that the value is m * 2^(e - 63).
    let shift = if mantissa == 0 { 63 } else { mantissa.leading_zeros() };
    let m = mantissa << shift;
    let e = exponent - shift as i32 + 63;
    let emin = 1 - format.bias();
    // Bits to drop: down to the significand, more below the normal range.
    let below = if e < emin { (emin - e) as u32 } else { 0 };
    let drop = 63 - format.mantissa + below.min(130);
    let (kept, half, rest) = if drop >= 65 {
        (0, false, true)
    } else if drop == 64 {
        (0, m >> 63 == 1, m << 1 != 0 || sticky)
    } else {
        (m >> drop, m >> (drop - 1) & 1 == 1, m & ((1 << (drop - 1)) - 1) != 0 || sticky)
    };
    let inexact = half || rest;
    let up = match round {
        Round::NearestEven => half && (rest || kept & 1 == 1),
        Round::NearestAway => half,
        Round::Zero => false,
        Round::Down => negative && inexact,
        Round::Up => !negative && inexact,
    };
    // A normal `kept` has the hidden bit, which adds one to the exponent field.
    let field = if e < emin { 0 } else { (e + format.bias() - 1) as u64 };
    let code = (field << format.mantissa) + kept + u64::from(up);
    if code >= format.infinity() {
        let to_largest = match round {
            _ if format.specials == Specials::None => true,
            Round::Zero => true,
            Round::Down => !negative,
            Round::Up => negative,
            _ => false,
        };
        return sign | if to_largest { format.largest() } else { format.infinity() };
    }
    sign | code
}

/// An `f64` to `format`; NaN gives the canonical NaN without a sign.
pub fn narrow(value: f64, format: Format, round: Round) -> u64 {
    let bits = value.to_bits();
    let negative = bits >> 63 == 1;
    let field = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0x7ff {
        if fraction != 0 {
            return format.nan();
        }
        let infinity = if format.specials == Specials::None { format.largest() } else { format.infinity() };
        return infinity | if negative { format.sign() } else { 0 };
    }
    let (mantissa, exponent) =
        if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
    pack(negative, mantissa, exponent, false, format, round)
}

/// A code of `format` as `f64`, exactly.
pub fn widen(code: u64, format: Format) -> f64 {
    let negative = code & format.sign() != 0;
    let magnitude = code & (format.sign() - 1);
    let value = if magnitude == format.nan() && format.specials == Specials::Nan {
        f64::NAN
    } else if format.specials == Specials::Ieee && magnitude >= format.infinity() {
        if magnitude == format.infinity() { f64::INFINITY } else { f64::NAN }
    } else {
        let field = (magnitude >> format.mantissa) as i32;
        let fraction = magnitude & ((1 << format.mantissa) - 1);
        let (m, e) = if field == 0 {
            (fraction, 1 - format.bias())
        } else {
            (fraction | 1 << format.mantissa, field - format.bias())
        };
        m as f64 * power_of_two(e - format.mantissa as i32)
    };
    if negative { -value } else { value }
}

/// `2^e` for exponents of normal `f64`s.
fn power_of_two(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// A code of UE8M0, the scales of microscaling formats, as `f64`.
pub fn widen_scale(code: u64) -> f64 {
    if code & 0xff == 0xff { f64::NAN } else { power_of_two((code & 0xff) as i32 - 127) }
}

/// The UE8M0 code of the power of two at or below (or above, for [`Round::Up`])
/// the magnitude of a value; beyond the range the largest when `finite`, else NaN.
pub fn narrow_scale(value: f64, round: Round, finite: bool) -> u64 {
    let bits = value.abs().to_bits();
    if value.is_nan() {
        return 0xff;
    }
    let above = round == Round::Up && bits & ((1 << 52) - 1) != 0;
    let exponent = (bits >> 52) as i64 - 1023 + i64::from(above);
    match exponent + 127 {
        code if code > 0xfe => 0xfe + u64::from(!finite),
        code => code.max(0) as u64,
    }
}

/// binary16 to `f32`, without branches: the compiler vectorises it.
#[inline(always)]
pub fn f16_to_f32(code: u16) -> f32 {
    let shifted = u32::from(code & 0x7fff) << 13;
    let finite = f32::from_bits(shifted) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(shifted | 0x7f80_0000);
    let magnitude = if code & 0x7c00 == 0x7c00 { special } else { finite };
    f32::from_bits(magnitude.to_bits() | u32::from(code & 0x8000) << 16)
}

/// bfloat16 to `f32`.
#[inline(always)]
pub fn bf16_to_f32(code: u16) -> f32 {
    f32::from_bits(u32::from(code) << 16)
}

/// `value` plus an error of the sign of `error`, rounded to odd.
#[inline]
fn to_odd(value: f64, error: f64) -> f64 {
    if error == 0.0 || !value.is_finite() || error.is_nan() || value.to_bits() & 1 == 1 {
        return value;
    }
    let toward_zero = (error < 0.0) != (value < 0.0);
    let bits = value.to_bits();
    f64::from_bits(if toward_zero { bits - 1 } else { bits + 1 })
}

/// Operations on values no wider than `f32`, as `f64` rounded to odd.
pub mod odd {
    use super::to_odd;

    /// `a + b`.
    #[inline]
    pub fn add(a: f64, b: f64) -> f64 {
        let sum = a + b;
        let b_part = sum - a;
        let error = (a - (sum - b_part)) + (b - b_part);
        if sum == 0.0 { sum } else { to_odd(sum, error) }
    }

    /// `a * b + c`; the product of two `f32`s is exact in `f64`.
    #[inline]
    pub fn fma(a: f64, b: f64, c: f64) -> f64 {
        add(a * b, c)
    }

    /// `a / b`.
    #[inline]
    pub fn div(a: f64, b: f64) -> f64 {
        let quotient = a / b;
        if quotient == 0.0 || !quotient.is_finite() {
            return quotient;
        }
        let residual = (-quotient).mul_add(b, a);
        to_odd(quotient, if b < 0.0 { -residual } else { residual })
    }

    /// The square root.
    #[inline]
    pub fn sqrt(a: f64) -> f64 {
        let root = a.sqrt();
        if root == 0.0 || !root.is_finite() { root } else { to_odd(root, (-root).mul_add(root, a)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_round_trips() {
        for code in 0..=u16::MAX {
            let value = widen(code.into(), F16);
            if value.is_nan() {
                assert!(f16_to_f32(code).is_nan());
                continue;
            }
            assert_eq!(f64::from(f16_to_f32(code)), value, "{code:#x}");
            for round in [Round::NearestEven, Round::Zero, Round::Up, Round::Down, Round::NearestAway] {
                assert_eq!(narrow(value, F16, round), u64::from(code), "{code:#x} {round:?}");
            }
        }
    }

    #[test]
    fn narrowing_to_f32_agrees_with_the_host() {
        for seed in 0..200_000u64 {
            let bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ seed << 40;
            let value = f64::from_bits(bits);
            // Most random exponents are out of range: fold them near f32's.
            let value = if value.is_finite() { value.signum() * value.abs().powf(0.14) } else { value };
            let host = value as f32;
            if !host.is_nan() {
                assert_eq!(narrow(value, F32, Round::NearestEven) as u32, host.to_bits(), "{value:e}");
            }
        }
    }

    #[test]
    fn ties_and_directions() {
        // 2049 lies half way between the halves 2048 and 2050.
        assert_eq!(narrow(2049.0, F16, Round::NearestEven), 0x6800);
        assert_eq!(narrow(2049.0, F16, Round::NearestAway), 0x6801);
        assert_eq!(narrow(-2049.0, F16, Round::Down), 0xe801);
        assert_eq!(narrow(-2049.0, F16, Round::Up), 0xe800);
        assert_eq!(narrow(65520.0, F16, Round::NearestEven), F16.infinity());
        assert_eq!(narrow(65519.9, F16, Round::NearestEven), 0x7bff);
        assert_eq!(narrow(1e9, F16, Round::Zero), 0x7bff);
        // Half of the least subnormal ties to zero; anything above rounds up.
        assert_eq!(narrow(2f64.powi(-25), F16, Round::NearestEven), 0);
        assert_eq!(narrow(2f64.powi(-25) * 1.001, F16, Round::NearestEven), 1);
        assert_eq!(narrow(1e-300, F16, Round::Up), 1);
        assert_eq!(narrow(448.0, E4M3, Round::NearestEven), 0x7e);
        assert_eq!(widen(0x7e, E4M3), 448.0);
        assert_eq!(widen(0x01, E4M3), 2f64.powi(-9));
    }

    #[test]
    fn odd_rounding_makes_a_correct_f32_fma() {
        let values = [1.0f32, 1.0 + f32::EPSILON, -3.5e-20, 7.1e19, 1.0e-38, 3.0e-41, -0.1, 16777217.0];
        for a in values {
            for b in values {
                for c in values {
                    let ours = narrow(odd::fma(a.into(), b.into(), c.into()), F32, Round::NearestEven) as u32;
                    assert_eq!(ours, a.mul_add(b, c).to_bits(), "{a:e} {b:e} {c:e}");
                }
            }
        }
    }
}
