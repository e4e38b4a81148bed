//! Exact arithmetic on binary fractions of any size, and its rounding to formats.
//! Nothing here is taken from the emulator.

use std::cmp::Ordering;

/// A rounding mode by its PTX word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Rn,
    Rz,
    Rm,
    Rp,
    /// Ties away from zero.
    Rna,
}

pub const MODES: [(&str, Mode); 4] = [("rn", Mode::Rn), ("rz", Mode::Rz), ("rm", Mode::Rm), ("rp", Mode::Rp)];

/// A natural number, 32 bits a limb, the lowest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Big(Vec<u32>);

impl Big {
    pub fn from(value: u128) -> Big {
        Big((0..4).map(|i| (value >> (32 * i)) as u32).collect()).trim()
    }
    fn trim(mut self) -> Big {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
    pub fn zero(&self) -> bool {
        self.0.is_empty()
    }
    pub fn bits(&self) -> i64 {
        self.0.last().map_or(0, |top| 32 * self.0.len() as i64 - i64::from(top.leading_zeros()))
    }
    fn bit(&self, at: i64) -> bool {
        at >= 0 && self.0.get(at as usize / 32).is_some_and(|limb| limb >> (at % 32) & 1 == 1)
    }
    fn shl(&self, by: usize) -> Big {
        let mut limbs = vec![0; by / 32];
        let mut carry = 0u64;
        for limb in &self.0 {
            let wide = u64::from(*limb) << (by % 32) | carry;
            limbs.push(wide as u32);
            carry = wide >> 32;
        }
        limbs.push(carry as u32);
        Big(limbs).trim()
    }
    fn add(&self, other: &Big) -> Big {
        let mut limbs = Vec::new();
        let mut carry = 0u64;
        for i in 0..=self.0.len().max(other.0.len()) {
            let at = |big: &Big| u64::from(big.0.get(i).copied().unwrap_or(0));
            let sum = at(self) + at(other) + carry;
            limbs.push(sum as u32);
            carry = sum >> 32;
        }
        Big(limbs).trim()
    }
    /// `self - other`, which must not be negative.
    fn sub(&self, other: &Big) -> Big {
        let mut limbs = Vec::new();
        let mut borrow = 0i64;
        for i in 0..self.0.len() {
            let mut limb = i64::from(self.0[i]) - i64::from(other.0.get(i).copied().unwrap_or(0)) - borrow;
            borrow = i64::from(limb < 0);
            limb += borrow << 32;
            limbs.push(limb as u32);
        }
        assert_eq!(borrow, 0);
        Big(limbs).trim()
    }
    fn cmp(&self, other: &Big) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
    /// The low 64 bits from bit `from` up, and whether a bit below is set.
    fn window(&self, from: i64) -> (u64, bool) {
        let value = (0..64).fold(0, |value, i| value | u64::from(self.bit(from + i)) << i);
        (value, (0..from.max(0)).any(|i| self.bit(i)))
    }
}

/// `(-1)^negative * magnitude * 2^exponent`, plus less than one unit of it if `more`.
#[derive(Clone, Debug)]
pub struct Real {
    pub negative: bool,
    pub magnitude: Big,
    pub exponent: i64,
    pub more: bool,
}

/// What a code of a format stands for.
#[derive(Clone, Debug)]
pub enum Number {
    Nan,
    Infinite(bool),
    /// A finite number; zeros have a sign.
    Finite(Real),
}

impl Real {
    pub fn new(negative: bool, magnitude: u128, exponent: i64) -> Real {
        Real { negative, magnitude: Big::from(magnitude), exponent, more: false }
    }
    pub fn int(value: i128) -> Real {
        Real::new(value < 0, value.unsigned_abs(), 0)
    }
    pub fn zero(&self) -> bool {
        self.magnitude.zero() && !self.more
    }
    pub fn negated(&self) -> Real {
        Real { negative: !self.negative, ..self.clone() }
    }
    /// The exact sum; what is exactly zero has the sign that `mode` gives it.
    pub fn add(&self, other: &Real, mode: Mode) -> Real {
        let exponent = self.exponent.min(other.exponent);
        let align = |real: &Real| real.magnitude.shl((real.exponent - exponent) as usize);
        let (a, b) = (align(self), align(other));
        let (negative, magnitude) = if self.negative == other.negative {
            (self.negative, a.add(&b))
        } else {
            match a.cmp(&b) {
                Ordering::Greater => (self.negative, a.sub(&b)),
                Ordering::Less => (other.negative, b.sub(&a)),
                Ordering::Equal => (mode == Mode::Rm, a.sub(&b)),
            }
        };
        Real { negative, magnitude, exponent, more: false }
    }
    fn small(&self) -> u128 {
        assert!(self.magnitude.bits() <= 64);
        self.magnitude.window(0).0.into()
    }
    pub fn mul(&self, other: &Real) -> Real {
        let product = self.small() * other.small();
        Real::new(self.negative != other.negative, product, self.exponent + other.exponent)
    }
    /// The quotient to more than 60 bits.
    pub fn div(&self, other: &Real) -> Real {
        let negative = self.negative != other.negative;
        let shift = 64 + other.magnitude.bits() - self.magnitude.bits();
        let a = self.magnitude.shl(shift.max(0) as usize);
        let wide = (0..128).fold(0u128, |value, i| value | u128::from(a.bit(i)) << i);
        let b = other.small();
        let mut real = Real::new(negative, wide / b, self.exponent - other.exponent - shift.max(0));
        real.more = wide % b != 0;
        real
    }
    /// The square root to 60 bits.
    pub fn sqrt(&self) -> Real {
        let mut shift = 120 - self.magnitude.bits();
        if (self.exponent - shift) % 2 != 0 {
            shift -= 1;
        }
        let wide = self.small() << shift;
        let mut root = 0u128;
        for bit in (0..64).rev() {
            let next = root | 1 << bit;
            if next * next <= wide {
                root = next;
            }
        }
        let mut real = Real::new(self.negative, root, (self.exponent - shift) / 2);
        real.more = root * root != wide;
        real
    }
    pub fn compare(&self, other: &Real) -> Ordering {
        let difference = self.add(&other.negated(), Mode::Rn);
        if difference.magnitude.zero() {
            Ordering::Equal
        } else if difference.negative {
            Ordering::Less
        } else {
            Ordering::Greater
        }
    }
    /// Rounded to a multiple of `2^unit`: the multiplier.
    fn to_multiple(&self, unit: i64, mode: Mode) -> u128 {
        let drop = unit - self.exponent;
        if drop <= 0 {
            let shifted = self.magnitude.shl((-drop) as usize);
            assert!(!self.more && shifted.bits() <= 128);
            return (0..128).fold(0, |value, i| value | u128::from(shifted.bit(i)) << i);
        }
        let kept = (0..127).fold(0u128, |value, i| value | u128::from(self.magnitude.bit(drop + i)) << i);
        let half = self.magnitude.bit(drop - 1);
        let rest = self.more || (drop > 1 && (0..drop - 1).any(|i| self.magnitude.bit(i)));
        let up = match mode {
            Mode::Rn => half && (rest || kept & 1 == 1),
            Mode::Rna => half,
            Mode::Rz => false,
            Mode::Rm => self.negative && (half || rest),
            Mode::Rp => !self.negative && (half || rest),
        };
        kept + u128::from(up)
    }
    /// Rounded to an integer, cut off at 2^127.
    pub fn to_int(&self, mode: Mode) -> i128 {
        if self.magnitude.bits() + self.exponent > 120 {
            return if self.negative { i128::MIN } else { i128::MAX };
        }
        let value = self.to_multiple(0, mode) as i128;
        if self.negative { -value } else { value }
    }
}

/// The codes of a format that are no numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Top {
    /// The largest exponent is infinity and NaN.
    Ieee,
    /// The all-ones code is NaN.
    Nan,
    /// There are none: too large becomes the largest.
    None,
}

/// A binary format: bits of the exponent and of the fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    pub e: i64,
    pub m: i64,
    pub top: Top,
}

const fn format(e: i64, m: i64, top: Top) -> Format {
    Format { e, m, top }
}
pub const F16: Format = format(5, 10, Top::Ieee);
pub const BF16: Format = format(8, 7, Top::Ieee);
pub const TF32: Format = format(8, 10, Top::Ieee);
pub const F32: Format = format(8, 23, Top::Ieee);
pub const F64: Format = format(11, 52, Top::Ieee);
pub const E4M3: Format = format(4, 3, Top::Nan);
pub const E5M2: Format = format(5, 2, Top::Ieee);
pub const E2M3: Format = format(2, 3, Top::None);
pub const E3M2: Format = format(3, 2, Top::None);
pub const E2M1: Format = format(2, 1, Top::None);

impl Format {
    pub fn bits(self) -> u32 {
        (1 + self.e + self.m) as u32
    }
    pub fn sign(self) -> u64 {
        1 << (self.e + self.m)
    }
    fn bias(self) -> i64 {
        (1 << (self.e - 1)) - 1
    }
    /// The all-ones magnitude: PTX's NaN.
    pub fn nan(self) -> u64 {
        self.sign() - 1
    }
    pub fn infinity(self) -> u64 {
        ((1 << self.e) - 1) << self.m
    }
    /// The largest finite magnitude.
    pub fn largest(self) -> u64 {
        match self.top {
            Top::Ieee => self.infinity() - 1,
            Top::Nan => self.nan() - 1,
            Top::None => self.nan(),
        }
    }
    pub fn subnormal(self, code: u64) -> bool {
        code & self.infinity() == 0
    }
    pub fn is_nan(self, code: u64) -> bool {
        matches!(self.decode(code), Number::Nan)
    }
    pub fn decode(self, code: u64) -> Number {
        let (negative, magnitude) = (code & self.sign() != 0, code & (self.sign() - 1));
        match self.top {
            Top::Ieee if magnitude == self.infinity() => return Number::Infinite(negative),
            Top::Ieee if magnitude > self.infinity() => return Number::Nan,
            Top::Nan if magnitude == self.nan() => return Number::Nan,
            _ => {}
        }
        let fraction = magnitude & ((1 << self.m) - 1);
        let field = (magnitude >> self.m) as i64;
        let (m, e) = if field == 0 { (fraction, 1) } else { (fraction | 1 << self.m, field) };
        Number::Finite(Real::new(negative, m.into(), e - self.bias() - self.m))
    }
    /// The code of a number, rounded; overflow is infinity (NaN where there is none),
    /// or the largest where the mode stops there.
    pub fn encode(self, number: &Number, mode: Mode) -> u64 {
        let signed = |negative: bool, code: u64| code | if negative { self.sign() } else { 0 };
        let beyond = |negative| {
            signed(negative, if self.top == Top::None { self.largest() } else { self.largest() + 1 })
        };
        let real = match number {
            Number::Nan => return self.nan(),
            Number::Infinite(negative) => return beyond(*negative),
            Number::Finite(real) => real,
        };
        if real.zero() {
            return signed(real.negative, 0);
        }
        // The unit in the last place at this size, not below that of subnormals.
        let top = real.magnitude.bits() + real.exponent - 1;
        let unit = (top - self.m).max(1 - self.bias() - self.m);
        let multiple = real.to_multiple(unit, mode) as u64;
        // Counting units from zero up runs through the codes of each binade in turn.
        let binade = unit - (1 - self.bias() - self.m);
        let code = multiple + ((binade as u64) << self.m);
        if code > self.largest() {
            let stop = match mode {
                Mode::Rz => true,
                Mode::Rm => !real.negative,
                Mode::Rp => real.negative,
                _ => false,
            };
            return if stop { signed(real.negative, self.largest()) } else { beyond(real.negative) };
        }
        signed(real.negative, code)
    }
}
