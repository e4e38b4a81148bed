//! Functions that kernels approximate, and sums and products in an order of their own.

use phobos_artifact::DType;
use phobos_lang::typed::{BinaryOp, MathOp};

use super::{
    Kind, Number, binary, corners, float_binary, format, greatest, negate, power, round, spacing, unit,
    unsigned, wide, wrap,
};

/// `op` of a value; integers have `abs` alone.
pub fn math(op: MathOp, kind: Kind, value: Number) -> Number {
    let dtype = match (kind, value) {
        (_, Number::Unknown | Number::Nan) => return value,
        (kind, Number::Int(value)) => {
            let magnitude = if unsigned(kind) { value.into() } else { i128::from(value).abs() };
            return Number::Int(wrap(kind, magnitude));
        }
        (Some(dtype), _) => dtype,
        (None, _) => return Number::Unknown,
    };
    let Some((lo, hi)) = value.ends() else { return Number::Unknown };
    // Half types are computed in f32 and rounded once.
    let wide = wide(dtype);
    let result = match op {
        MathOp::Abs => {
            let least = if lo <= 0.0 && hi >= 0.0 { 0.0 } else { lo.abs().min(hi.abs()) };
            return Number::between(least, lo.abs().max(hi.abs()));
        }
        MathOp::Floor => return Number::between(lo.floor(), hi.floor()),
        MathOp::Ceil => return Number::between(lo.ceil(), hi.ceil()),
        MathOp::Round => return Number::between(lo.round_ties_even(), hi.round_ties_even()),
        MathOp::Sqrt if hi < 0.0 => Number::Nan,
        MathOp::Sqrt if lo < 0.0 => Number::Unknown,
        MathOp::Sqrt => Number::between(round(wide, lo.sqrt()), round(wide, hi.sqrt())),
        MathOp::Rsqrt if hi < 0.0 => Number::Nan,
        MathOp::Rsqrt if lo <= 0.0 => Number::Unknown,
        MathOp::Rsqrt => near(wide, 2, 1.0 / lo.sqrt(), 1.0 / hi.sqrt()),
        MathOp::Exp => near(wide, 2, lo.exp(), hi.exp()),
        MathOp::Exp2 => near(wide, 2, lo.exp2(), hi.exp2()),
        MathOp::Log if hi < 0.0 => Number::Nan,
        MathOp::Log if lo < 0.0 || lo == 0.0 && hi > 0.0 => Number::Unknown,
        MathOp::Log => near(wide, 3, lo.ln(), hi.ln()),
        MathOp::Tanh => near(wide, 4, lo.tanh(), hi.tanh()),
        MathOp::Sigmoid => divide_numbers(wide, Number::exact(1.0), one_plus_exp_minus(wide, value)),
        MathOp::Silu => divide_numbers(wide, value, one_plus_exp_minus(wide, value)),
        MathOp::Gelu => gelu(wide, value),
    };
    result.rounded(dtype)
}

/// Two approximated ends, each off by so many units of the last place of `dtype`.
fn near(dtype: DType, units: i32, a: f64, b: f64) -> Number {
    // Our own functions are off by a unit of f64 too.
    let units = f64::from(units) + if dtype == DType::F64 { 2.0 } else { 0.01 };
    let (lo, hi) = (a.min(b), a.max(b));
    let most = greatest(dtype);
    if lo.is_nan() || hi.is_nan() {
        return Number::Unknown;
    }
    if lo == hi && lo.is_infinite() || lo > most * (1.0 + 1e-6) {
        return Number::exact(lo.signum() * f64::INFINITY);
    }
    if hi.abs().max(lo.abs()) > most * (1.0 - 1e-6) {
        return Number::Unknown;
    }
    Number::between(lo - units * spacing(dtype, lo), hi + units * spacing(dtype, hi))
}

fn divide_numbers(dtype: DType, a: Number, b: Number) -> Number {
    float_binary(BinaryOp::Div, dtype, a, b)
}

fn one_plus_exp_minus(dtype: DType, value: Number) -> Number {
    let exponential = math(MathOp::Exp, Some(dtype), negate(Some(dtype), value));
    float_binary(BinaryOp::Add, dtype, Number::exact(1.0), exponential)
}

/// The formula of section 10, each step as it may be rounded.
fn gelu(dtype: DType, x: Number) -> Number {
    let constant = |value: f64| Number::exact(round(dtype, value));
    let times = |a, b| float_binary(BinaryOp::Mul, dtype, a, b);
    let plus = |a, b| float_binary(BinaryOp::Add, dtype, a, b);
    let cubic = times(times(times(x, x), x), constant(0.044_715));
    let scaled = times(plus(x, cubic), constant((2.0 / std::f64::consts::PI).sqrt()));
    let factor = plus(constant(1.0), math(MathOp::Tanh, Some(dtype), scaled));
    times(times(x, constant(0.5)), factor)
}

/// The sum of values in any order; with `products`, each was multiplied where it was added.
/// `sizes` are the magnitudes that rounding errors are relative to: those of the values at least.
pub fn sum(kind: Kind, values: &[Number], sizes: &[f64], products: bool) -> Number {
    let Some(dtype) = kind.filter(|dtype| dtype.is_float()) else {
        return values
            .iter()
            .copied()
            .fold(Number::Int(0), |sum, value| binary(BinaryOp::Add, kind, sum, value));
    };
    if values.contains(&Number::Nan) {
        return Number::Nan;
    }
    let (mut lo, mut hi, mut exact) = (0.0, 0.0, true);
    for value in values {
        let Some(ends) = value.ends() else { return Number::Unknown };
        lo += ends.0;
        hi += ends.1;
        exact &= ends.0 == ends.1;
    }
    let wide = wide(dtype);
    let size: f64 = sizes.iter().sum();
    if !size.is_finite() {
        // Infinities add up in any order; with opposite ones it is NaN.
        return if lo.is_nan() { Number::Nan } else { Number::between(lo, hi) };
    }
    if size > greatest(wide) {
        return Number::Unknown;
    }
    let step = spacing(wide, size);
    // Multiples of a step that all partial sums have: no order rounds.
    if exact && values.iter().all(|value| value.ends().is_some_and(|(end, _)| (end / step).fract() == 0.0)) {
        return Number::exact(lo);
    }
    let roundings = values.len() as f64 + if products { 2.0 } else { 0.0 };
    // The oracle's own sum is in f64, which doubles the error there.
    let own = if wide == DType::F64 { 2.0 } else { 1.0 };
    Number::between(lo, hi).widened(roundings * own * unit(wide) * size * 1.01)
}

/// The product of values in any order.
pub fn product(kind: Kind, values: &[Number]) -> Number {
    let Some(dtype) = kind.filter(|dtype| dtype.is_float()) else {
        return values
            .iter()
            .copied()
            .fold(Number::Int(1), |sum, value| binary(BinaryOp::Mul, kind, sum, value));
    };
    if values.contains(&Number::Nan) {
        return Number::Nan;
    }
    let wide = wide(dtype);
    let (mut all, mut above, mut below, mut digits) = ((1.0, 1.0), 1.0f64, 1.0f64, 0);
    for value in values {
        let Some(ends) = value.ends() else { return Number::Unknown };
        let Number::Float { lo, hi } = corners(all, ends, |a, b| a * b) else { return Number::Unknown };
        all = (lo, hi);
        above *= value.magnitude().max(1.0);
        below *= ends.0.abs().min(ends.1.abs()).min(1.0);
        digits += if ends.0 == ends.1 { significant(ends.0) } else { 64 };
    }
    let smallest = power(format(wide).1);
    if above > greatest(wide) || below < smallest && below != 0.0 || !above.is_finite() {
        return Number::Unknown;
    }
    let whole = Number::between(all.0, all.1);
    if digits <= format(wide).0 {
        return whole.rounded(dtype);
    }
    let own = if wide == DType::F64 { 2.0 } else { 1.0 };
    whole.widened(values.len() as f64 * own * unit(wide) * whole.magnitude() * 1.01).rounded(dtype)
}

/// Binary digits of a value.
fn significant(value: f64) -> i32 {
    if value == 0.0 { 0 } else { 53 - (value.to_bits() | 1 << 52).trailing_zeros().min(52) as i32 }
}
