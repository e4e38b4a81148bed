//! What the oracle knows of one scalar, and the arithmetic of SPEC.md section 11 on it.
//!
//! A float is an interval: a kernel may contract `a * b + c`, approximates `exp`, and adds
//! in an order of its own, so that several results are right. Every operation here gives the
//! least and the greatest result that the language allows, rounded to the type. Most values
//! stay exact, and are then compared bit for bit but for the sign of zero.

mod function;

use phobos_artifact::DType;
use phobos_lang::typed::BinaryOp;

pub use function::{math, product, sum};

/// The type of a scalar: `None` is index.
pub type Kind = Option<DType>;

/// What is known of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer of the type, an index, or a bool as 0 or 1.
    Int(i64),
    /// A float from `lo` to `hi`. Infinities are exact: `lo` is `hi`.
    Float {
        /// The least.
        lo: f64,
        /// The greatest.
        hi: f64,
    },
    /// A float that is not a number.
    Nan,
    /// Anything: the language does not say, or the oracle cannot tell.
    Unknown,
}

/// Binary digits of the significand, the least exponent of a normal value, the greatest exponent.
fn format(dtype: DType) -> (i32, i32, i32) {
    match dtype {
        DType::F16 => (11, -14, 15),
        DType::Bf16 => (8, -126, 127),
        DType::F64 => (53, -1022, 1023),
        _ => (24, -126, 127),
    }
}

/// The type that functions and sums of a float type are computed in.
pub fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

fn power(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

/// The distance between neighbours of `dtype` at `value`, which is finite.
pub fn spacing(dtype: DType, value: f64) -> f64 {
    let (digits, least, _) = format(dtype);
    let bits = (value.abs().to_bits() >> 52) as i32;
    let exponent = if bits == 0 { -1022 } else { bits - 1023 };
    // The smallest step of f64 itself is below what powi reaches in one go.
    power(exponent.max(least)) * power(1 - digits)
}

/// Half the relative distance between neighbours: the error of one rounding.
pub fn unit(dtype: DType) -> f64 {
    power(-format(dtype).0)
}

/// The greatest finite value.
pub fn greatest(dtype: DType) -> f64 {
    let (digits, _, most) = format(dtype);
    (2.0 - power(1 - digits)) * power(most)
}

/// `value` in `dtype`: nearest, ties to even.
pub fn round(dtype: DType, value: f64) -> f64 {
    if !value.is_finite() || dtype == DType::F64 {
        return value;
    }
    let step = spacing(dtype, value);
    // Division and multiplication by a power of two are exact here.
    let rounded = (value / step).round_ties_even() * step;
    if rounded.abs() > greatest(dtype) { f64::INFINITY.copysign(value) } else { rounded }
}

/// An integer in a float type: nearest, ties to even, in one rounding.
fn integer_to_float(dtype: DType, value: i64) -> f64 {
    let near = value as f64;
    if dtype == DType::F64 {
        return near;
    }
    let difference = i128::from(value) - near as i128;
    // What f64 dropped decides ties of the narrower type: a step towards it keeps the side.
    let sticky = match difference.signum() {
        0 => near,
        1 => near.next_up(),
        _ => near.next_down(),
    };
    round(dtype, sticky)
}

/// Whether `>>`, `/`, comparisons and widening of the type are those of unsigned integers.
pub fn unsigned(kind: Kind) -> bool {
    matches!(kind, Some(DType::Bool | DType::U8 | DType::U32))
}

/// Whether the type is a float.
pub fn is_float(kind: Kind) -> bool {
    kind.is_some_and(DType::is_float)
}

/// The low bits of an integer as a value of the type.
pub fn wrap(kind: Kind, value: i128) -> i64 {
    match kind {
        Some(DType::Bool) => (value & 1) as i64,
        Some(DType::I8) => i64::from(value as i8),
        Some(DType::U8) => i64::from(value as u8),
        Some(DType::I16) => i64::from(value as i16),
        Some(DType::I32) => i64::from(value as i32),
        Some(DType::U32) => i64::from(value as u32),
        _ => value as i64,
    }
}

/// The least and the greatest value of an integer type.
pub fn limits(kind: Kind) -> (i64, i64) {
    match kind {
        Some(DType::Bool) => (0, 1),
        Some(DType::I8) => (i8::MIN.into(), i8::MAX.into()),
        Some(DType::U8) => (0, u8::MAX.into()),
        Some(DType::I16) => (i16::MIN.into(), i16::MAX.into()),
        Some(DType::I32) => (i32::MIN.into(), i32::MAX.into()),
        Some(DType::U32) => (0, u32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Number {
    /// A float that is known.
    pub fn exact(value: f64) -> Number {
        Number::between(value, value)
    }

    /// A float between two values, which may be in any order.
    pub fn between(a: f64, b: f64) -> Number {
        if a.is_nan() && b.is_nan() {
            Number::Nan
        } else if a.is_nan() || b.is_nan() || a != b && !(a.is_finite() && b.is_finite()) {
            Number::Unknown
        } else {
            Number::Float { lo: a.min(b), hi: a.max(b) }
        }
    }

    /// A bool.
    pub fn bool(value: bool) -> Number {
        Number::Int(value.into())
    }

    /// The zero of a type.
    pub fn zero(kind: Kind) -> Number {
        if is_float(kind) { Number::exact(0.0) } else { Number::Int(0) }
    }

    /// The ends of a float.
    pub fn ends(self) -> Option<(f64, f64)> {
        match self {
            Number::Float { lo, hi } => Some((lo, hi)),
            _ => None,
        }
    }

    /// The greatest magnitude of a float; 0 for what is none.
    pub fn magnitude(self) -> f64 {
        self.ends().map_or(0.0, |(lo, hi)| lo.abs().max(hi.abs()))
    }

    /// The same value, or one at most `by` away.
    pub fn widened(self, by: f64) -> Number {
        match self {
            Number::Float { lo, hi } if lo.is_finite() && by > 0.0 => Number::between(lo - by, hi + by),
            other => other,
        }
    }

    /// Both ends rounded to a type.
    pub fn rounded(self, dtype: DType) -> Number {
        match self {
            Number::Float { lo, hi } => Number::between(round(dtype, lo), round(dtype, hi)),
            other => other,
        }
    }

    /// Either of two values.
    pub fn or(self, other: Number) -> Number {
        match (self, other) {
            (Number::Float { lo: a, hi: b }, Number::Float { lo: c, hi: d })
                if [a, b, c, d].iter().all(|end| end.is_finite()) =>
            {
                Number::between(a.min(c), b.max(d))
            }
            (a, b) if a == b => a,
            _ => Number::Unknown,
        }
    }
}

/// `f` over the ends of two intervals: right for functions that are monotone in each.
fn corners(a: (f64, f64), b: (f64, f64), f: impl Fn(f64, f64) -> f64) -> Number {
    let all = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
    if all.iter().any(|value| value.is_nan()) {
        return if a.0 == a.1 && b.0 == b.1 { Number::Nan } else { Number::Unknown };
    }
    Number::between(
        all.iter().copied().fold(f64::INFINITY, f64::min),
        all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}

/// A binary operator on two values of one type.
pub fn binary(op: BinaryOp, kind: Kind, a: Number, b: Number) -> Number {
    match kind {
        Some(dtype) if dtype.is_float() => float_binary(op, dtype, a, b),
        kind => match (a, b) {
            (Number::Int(a), Number::Int(b)) => Number::Int(integer_binary(op, kind, a, b)),
            _ => Number::Unknown,
        },
    }
}

fn integer_binary(op: BinaryOp, kind: Kind, a: i64, b: i64) -> i64 {
    let (x, y) = (i128::from(a), i128::from(b));
    let bits = match kind {
        Some(DType::Bool) => 1,
        Some(dtype) => dtype.bytes() as i64 * 8,
        None => 64,
    };
    let beyond = !(0..bits).contains(&b);
    wrap(
        kind,
        match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div if y == 0 => 0,
            BinaryOp::Div => x / y,
            BinaryOp::Rem if y == 0 => x,
            BinaryOp::Rem => x % y,
            BinaryOp::Min => x.min(y),
            BinaryOp::Max => x.max(y),
            BinaryOp::Eq => (x == y).into(),
            BinaryOp::Ne => (x != y).into(),
            BinaryOp::Lt => (x < y).into(),
            BinaryOp::Le => (x <= y).into(),
            BinaryOp::Gt => (x > y).into(),
            BinaryOp::Ge => (x >= y).into(),
            BinaryOp::And | BinaryOp::BitAnd => x & y,
            BinaryOp::Or | BinaryOp::BitOr => x | y,
            BinaryOp::BitXor => x ^ y,
            BinaryOp::Shl if beyond => 0,
            BinaryOp::Shl => x << y,
            BinaryOp::Shr if beyond => {
                if x < 0 {
                    -1
                } else {
                    0
                }
            }
            BinaryOp::Shr => x >> y,
        },
    )
}

fn float_binary(op: BinaryOp, dtype: DType, a: Number, b: Number) -> Number {
    use Number::{Nan, Unknown};
    let compare =
        matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge);
    match (a, b) {
        // NaN wins over whatever the other is.
        (Nan, _) | (_, Nan) if compare => return Number::bool(op == BinaryOp::Ne),
        (Nan, _) | (_, Nan) => return Nan,
        (Unknown, _) | (_, Unknown) => return Unknown,
        _ => {}
    }
    let (Some(x), Some(y)) = (a.ends(), b.ends()) else { return Unknown };
    match op {
        BinaryOp::Add => corners(x, y, |a, b| round(dtype, a + b)),
        BinaryOp::Sub => corners(x, y, |a, b| round(dtype, a - b)),
        BinaryOp::Mul => multiply(dtype, x, y),
        BinaryOp::Div => divide(dtype, x, y),
        BinaryOp::Min => Number::between(x.0.min(y.0), x.1.min(y.1)),
        BinaryOp::Max => Number::between(x.0.max(y.0), x.1.max(y.1)),
        BinaryOp::Eq | BinaryOp::Ne => {
            let same = if x.0 == x.1 && x == y {
                true
            } else if x.1 < y.0 || y.1 < x.0 {
                false
            } else {
                return Unknown;
            };
            Number::bool(same == (op == BinaryOp::Eq))
        }
        BinaryOp::Lt => less(x, y),
        BinaryOp::Gt => less(y, x),
        BinaryOp::Le => not(less(y, x)),
        BinaryOp::Ge => not(less(x, y)),
        _ => Unknown,
    }
}

fn less(x: (f64, f64), y: (f64, f64)) -> Number {
    if x.1 < y.0 {
        Number::Int(1)
    } else if x.0 >= y.1 {
        Number::Int(0)
    } else {
        Number::Unknown
    }
}

/// The negation of a bool.
pub fn not(value: Number) -> Number {
    match value {
        Number::Int(value) => Number::Int(1 - value),
        other => other,
    }
}

/// A product, as it is rounded, or as it is where an addition takes it unrounded.
fn multiply(dtype: DType, x: (f64, f64), y: (f64, f64)) -> Number {
    let rounded = corners(x, y, |a, b| round(dtype, a * b));
    let finite = [x.0, x.1, y.0, y.1].iter().all(|end| end.is_finite());
    if !finite {
        return rounded;
    }
    // f64 products are not exact here: a step to either side where they were rounded.
    let unrounded = match dtype {
        DType::F64 => {
            let low =
                corners(x, y, |a, b| if a.mul_add(b, -(a * b)) < 0.0 { (a * b).next_down() } else { a * b });
            let high =
                corners(x, y, |a, b| if a.mul_add(b, -(a * b)) > 0.0 { (a * b).next_up() } else { a * b });
            low.or(high)
        }
        _ => corners(x, y, |a, b| a * b),
    };
    // A product that overflows may, unrounded, meet a sum that does not.
    match rounded {
        Number::Float { lo, hi } if lo.is_finite() && hi.is_finite() => rounded.or(unrounded),
        _ => Number::Unknown,
    }
}

fn divide(dtype: DType, x: (f64, f64), y: (f64, f64)) -> Number {
    if y.0 <= 0.0 && y.1 >= 0.0 {
        // The sign of zero is not followed, so neither is that of infinity.
        return if x == (0.0, 0.0) && y == (0.0, 0.0) { Number::Nan } else { Number::Unknown };
    }
    corners(x, y, |a, b| round(dtype, a / b))
}

/// `a * b + c` rounded once, or twice as section 11.1 allows.
pub fn fma(dtype: DType, a: Number, b: Number, c: Number) -> Number {
    if [a, b, c].contains(&Number::Nan) {
        return Number::Nan;
    }
    let (Some(x), Some(y), Some(z)) = (a.ends(), b.ends(), c.ends()) else { return Number::Unknown };
    let once = |a: f64, b: f64, c: f64| round(dtype, a.mul_add(b, c));
    let twice = |a: f64, b: f64, c: f64| round(dtype, round(wide(dtype), a.mul_add(b, c)));
    let low = corners(x, y, |a, b| once(a, b, z.0)).or(corners(x, y, |a, b| twice(a, b, z.0)));
    let high = corners(x, y, |a, b| once(a, b, z.1)).or(corners(x, y, |a, b| twice(a, b, z.1)));
    low.or(high)
}

/// Prefix `-`.
pub fn negate(kind: Kind, value: Number) -> Number {
    match value {
        Number::Int(value) => Number::Int(wrap(kind, -i128::from(value))),
        Number::Float { lo, hi } => Number::Float { lo: -hi, hi: -lo },
        other => other,
    }
}

/// A conversion.
pub fn cast(from: Kind, to: Kind, value: Number) -> Number {
    let float = is_float(from);
    match (value, to) {
        (Number::Unknown, _) => Number::Unknown,
        (Number::Nan, Some(DType::Bool)) => Number::Int(1),
        (Number::Nan, to) if !is_float(to) => Number::Int(0),
        (Number::Nan, _) => Number::Nan,
        (Number::Int(value), Some(DType::Bool)) => Number::bool(value != 0),
        (Number::Int(value), Some(dtype)) if dtype.is_float() => {
            Number::exact(integer_to_float(dtype, value))
        }
        (Number::Int(value), to) => Number::Int(wrap(to, value.into())),
        (Number::Float { lo, hi }, Some(DType::Bool)) => match (lo > 0.0 || hi < 0.0, lo == 0.0 && hi == 0.0)
        {
            (true, _) => Number::Int(1),
            (_, true) => Number::Int(0),
            _ => Number::Unknown,
        },
        (value @ Number::Float { .. }, Some(dtype)) if dtype.is_float() => {
            debug_assert!(float);
            value.rounded(dtype)
        }
        (Number::Float { lo, hi }, to) => {
            let (least, most) = limits(to);
            // `as` truncates and saturates at i64; the type's own ends are nearer.
            let truncated = |value: f64| (value as i64).clamp(least, most);
            if truncated(lo) == truncated(hi) { Number::Int(truncated(lo)) } else { Number::Unknown }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use phobos_lang::typed::MathOp;

    use super::*;

    #[test]
    fn rounding_is_that_of_the_types() {
        for bits in 0..=u16::MAX {
            let value = f64::from(f16::from_bits(bits));
            assert!(value.is_nan() || round(DType::F16, value) == value, "{value}");
            let value = f64::from(bf16::from_bits(bits));
            assert!(value.is_nan() || round(DType::Bf16, value) == value, "{value}");
        }
        for value in [0.1, 1e-40, -3.4e38, 3.5e38, 1e-46, 16777217.0, 1e300] {
            assert_eq!(round(DType::F32, value), f64::from(value as f32), "{value}");
        }
        assert_eq!(round(DType::F16, 65519.999), 65504.0);
        assert_eq!(round(DType::F16, 65520.0), f64::INFINITY);
        assert_eq!(round(DType::Bf16, 1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round(DType::Bf16, 1.0 + 1.0 / 256.0 + 1e-15), 1.0 + 1.0 / 128.0);
        assert_eq!(integer_to_float(DType::Bf16, (1 << 62) + (1 << 54) + 1), power(62) + power(55));
        assert_eq!(integer_to_float(DType::F32, i64::MAX), power(63));
    }

    #[test]
    fn integers_are_those_of_section_11() {
        let i8s = |op, a, b| binary(op, Some(DType::I8), Number::Int(a), Number::Int(b));
        assert_eq!(i8s(BinaryOp::Add, 127, 1), Number::Int(-128));
        assert_eq!(i8s(BinaryOp::Div, -128, -1), Number::Int(-128));
        assert_eq!(i8s(BinaryOp::Rem, -128, -1), Number::Int(0));
        assert_eq!(i8s(BinaryOp::Div, 5, 0), Number::Int(0));
        assert_eq!(i8s(BinaryOp::Rem, 5, 0), Number::Int(5));
        assert_eq!(i8s(BinaryOp::Shr, -5, 8), Number::Int(-1));
        assert_eq!(i8s(BinaryOp::Shr, -5, -1), Number::Int(-1));
        assert_eq!(i8s(BinaryOp::Shl, 3, 7), Number::Int(-128));
        assert_eq!(math(MathOp::Abs, Some(DType::I8), Number::Int(-128)), Number::Int(-128));
        assert_eq!(math(MathOp::Abs, Some(DType::U8), Number::Int(200)), Number::Int(200));
        let to_u8 = |value| cast(Some(DType::F32), Some(DType::U8), Number::exact(value));
        assert_eq!(to_u8(-3.0), Number::Int(0));
        assert_eq!(to_u8(300.0), Number::Int(255));
        assert_eq!(cast(Some(DType::F32), Some(DType::I64), Number::exact(1e30)), Number::Int(i64::MAX));
    }

    #[test]
    fn sums_that_cannot_round_are_exact() {
        let values: Vec<Number> = [0.5, -3.25, 7.0].map(Number::exact).to_vec();
        let sizes = [0.5, 3.25, 7.0];
        assert_eq!(sum(Some(DType::F32), &values, &sizes, false), Number::exact(4.25));
        let values = [0.1, 0.2].map(|value| Number::exact(round(DType::F32, value)));
        let Number::Float { lo, hi } = sum(Some(DType::F32), &values, &[0.1, 0.2], false) else {
            unreachable!()
        };
        assert!(lo < 0.3 && hi > 0.3 && hi - lo < 1e-6);
    }

    #[test]
    fn contraction_is_allowed_and_bounded() {
        let x = Number::exact(1.0 + power(-23));
        let Number::Float { lo, hi } = binary(BinaryOp::Mul, Some(DType::F32), x, x) else { unreachable!() };
        assert_eq!((lo, hi), (1.0 + power(-22), 1.0 + power(-22) + power(-46)));
    }
}
