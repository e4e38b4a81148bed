//! Elementary functions as arithmetic on f32 scalars and vectors, without libm.
//!
//! | function | method | error (ulp, measured in `runtime/device/tests`) |
//! |---|---|---|
//! | exp, exp2 | 2^n e^r, r in ±ln2/2, polynomial of degree 7 | 2 |
//! | log, log2 | mantissa in [√½, √2), 2 atanh(f / (2 + f)) | 3 |
//! | tanh | t / (t + 2), t = expm1(2 abs x) | 4 |
//! | rsqrt | 1 / sqrt | 1 |
//!
//! Polynomial coefficients: least-squares fits at 200 Chebyshev nodes, made for this
//! file. Special values follow IEEE 754: exp(-inf) = 0, log(0) = -inf, log(x < 0) =
//! NaN, NaN stays NaN; results below the least normal number are denormal or 0.

use melior::ir::ValueLike;
use phobos_dialect::{
    Op, PassError, Type, Val,
    build::{FloatPredicate, IntegerPredicate, element_type},
    ir,
};

use super::Lowering;

/// (e^r - 1 - r) / r² on ±ln2/2, lowest power first: error below 3e-10.
const EXP_TAIL: [f64; 6] = [
    0.5,
    0.166_666_671_633_720_4,
    0.041_666_463_017_463_68,
    0.008_333_298_377_692_7,
    0.001_393_368_816_934_526,
    0.000_198_993_337_107_822_1,
];
/// ln 2 in two parts; the first has 9 bits to spare, so its multiples are exact.
const LN2_HIGH: f64 = 0.693_145_751_953_125;
const LN2_LOW: f64 = 1.428_606_765_330_187e-6;
/// 1.5 · 2²³: adding it rounds to an integer, which is then in the low bits.
const ROUND: f64 = 12_582_912.0;

impl<'c> Lowering<'c> {
    /// A math operation on scalars or vectors.
    pub(super) fn math(&mut self, op: Op<'c>, operands: &[Val<'c>]) -> Result<Val<'c>, PassError> {
        let x = operands[0];
        let ty = x.r#type();
        let element = element_type(ty);
        let name = ir::name(op);
        match name {
            "math.fma" => return self.fused_multiply_add(op, operands),
            "math.rsqrt" => {
                let root = self.b.value("llvm.intr.sqrt", &[x], ty, &[])?;
                return self.b.binary("arith.divf", self.b.constant(ty, 1.0)?, root);
            }
            "math.sqrt" | "math.absf" | "math.absi" | "math.floor" | "math.ceil" | "math.roundeven" => {
                return self.b.unary(name, x);
            }
            _ => {}
        }
        if element != self.b.f32() {
            return Err(PassError::at(op, format!("{name} of {element} is not available on the host yet")));
        }
        match name {
            "math.exp" => self.exp(x),
            "math.exp2" => self.exp2(x),
            "math.log" => self.log(x, false),
            "math.log2" => self.log(x, true),
            "math.tanh" => self.tanh(x),
            _ => Err(PassError::at(op, format!("{name} is not available on the host yet"))),
        }
    }

    fn number(&self, like: Val<'c>, number: f64) -> Result<Val<'c>, PassError> {
        self.b.constant(like.r#type(), number)
    }

    /// `a * b + c` rounded once. Without FMA an f32 is computed in f64, where the
    /// product is exact; an f64 has no such way.
    fn fused_multiply_add(&self, op: Op<'c>, operands: &[Val<'c>]) -> Result<Val<'c>, PassError> {
        let [a, b, c] = operands else { return Err(PassError::at(op, "internal error: fma operands")) };
        let element = element_type(a.r#type());
        if self.target.fma {
            if ir::bit_width(element) == Some(16) {
                let f32 = self.b.f32();
                let (a, b, c) = (
                    self.convert_float(*a, f32)?,
                    self.convert_float(*b, f32)?,
                    self.convert_float(*c, f32)?,
                );
                return self.convert_float(self.multiply_add(a, b, c)?, element);
            }
            return self.multiply_add(*a, *b, *c);
        }
        let f64 = Type::float64(self.b.context());
        if element == f64 {
            return Err(PassError::at(op, "fma of f64 is not available below x86-64-v3"));
        }
        let (a, b, c) =
            (self.convert_float(*a, f64)?, self.convert_float(*b, f64)?, self.convert_float(*c, f64)?);
        let sum = self.b.binary("arith.addf", self.b.binary("arith.mulf", a, b)?, c)?;
        self.convert_float(sum, element)
    }

    /// x limited to [low, high]; NaN stays.
    fn limit(&self, x: Val<'c>, low: f64, high: f64) -> Result<Val<'c>, PassError> {
        let (low, high) = (self.number(x, low)?, self.number(x, high)?);
        let below = self.b.compare_floats(FloatPredicate::OrderedLess, x, low)?;
        let x = self.b.select(below, low, x)?;
        let above = self.b.compare_floats(FloatPredicate::OrderedGreater, x, high)?;
        self.b.select(above, high, x)
    }

    /// The nearest integer of `x * factor`, as a float and as an i32.
    fn nearest(&self, x: Val<'c>, factor: f64) -> Result<(Val<'c>, Val<'c>), PassError> {
        let magic = self.number(x, ROUND)?;
        let shifted = self.multiply_add(x, self.number(x, factor)?, magic)?;
        let float = self.b.binary("arith.subf", shifted, magic)?;
        let i32 = self.b.int(32);
        let bits = self.bitcast(shifted, i32)?;
        let base = self.b.integer(bits.r#type(), 0x4b40_0000)?;
        Ok((float, self.b.binary("arith.subi", bits, base)?))
    }

    /// 2^n for n in the exponents of normal numbers.
    fn power_of_two(&self, n: Val<'c>) -> Result<Val<'c>, PassError> {
        let ty = n.r#type();
        let biased = self.b.binary("arith.addi", n, self.b.integer(ty, 127)?)?;
        let bits = self.b.binary("arith.shli", biased, self.b.integer(ty, 23)?)?;
        self.bitcast(bits, self.b.f32())
    }

    /// `y * 2^n`, in two steps so that each power is a normal number.
    fn scale(&self, y: Val<'c>, n: Val<'c>) -> Result<Val<'c>, PassError> {
        let one = self.b.integer(n.r#type(), 1)?;
        let half = self.b.binary("arith.shrsi", n, one)?;
        let rest = self.b.binary("arith.subi", n, half)?;
        let y = self.b.binary("arith.mulf", y, self.power_of_two(half)?)?;
        self.b.binary("arith.mulf", y, self.power_of_two(rest)?)
    }

    /// r = x - n ln2, e^r - 1 and n.
    fn reduced_exp(&self, x: Val<'c>) -> Result<(Val<'c>, Val<'c>), PassError> {
        let (n, n_integer) = self.nearest(x, std::f64::consts::LOG2_E)?;
        let r = self.multiply_add(n, self.number(x, -LN2_HIGH)?, x)?;
        let r = self.multiply_add(n, self.number(x, -LN2_LOW)?, r)?;
        Ok((self.expm1_small(r)?, n_integer))
    }

    /// e^r - 1 for r in ±ln2/2.
    fn expm1_small(&self, r: Val<'c>) -> Result<Val<'c>, PassError> {
        let tail = self.polynomial(r, &EXP_TAIL)?;
        let square = self.b.binary("arith.mulf", r, r)?;
        self.multiply_add(tail, square, r)
    }

    /// A polynomial with coefficients from the lowest power on.
    fn polynomial(&self, x: Val<'c>, coefficients: &[f64]) -> Result<Val<'c>, PassError> {
        let (last, rest) = match coefficients.split_last() {
            Some(split) => split,
            None => return self.number(x, 0.0),
        };
        let mut value = self.number(x, *last)?;
        for coefficient in rest.iter().rev() {
            value = self.multiply_add(value, x, self.number(x, *coefficient)?)?;
        }
        Ok(value)
    }

    fn exp(&self, x: Val<'c>) -> Result<Val<'c>, PassError> {
        let x = self.limit(x, -104.0, 89.0)?;
        let (less_one, n) = self.reduced_exp(x)?;
        let y = self.b.binary("arith.addf", less_one, self.number(x, 1.0)?)?;
        self.scale(y, n)
    }

    fn exp2(&self, x: Val<'c>) -> Result<Val<'c>, PassError> {
        let x = self.limit(x, -151.0, 129.0)?;
        let (n, n_integer) = self.nearest(x, 1.0)?;
        let r = self.b.binary("arith.subf", x, n)?;
        let r = self.b.binary("arith.mulf", r, self.number(x, std::f64::consts::LN_2)?)?;
        let y = self.b.binary("arith.addf", self.expm1_small(r)?, self.number(x, 1.0)?)?;
        self.scale(y, n_integer)
    }

    /// t / (t + 2) with t = e^{2|x|} - 1, which keeps its relative accuracy near 0.
    fn tanh(&self, x: Val<'c>) -> Result<Val<'c>, PassError> {
        let magnitude = self.b.unary("math.absf", x)?;
        let double = self.b.binary("arith.addf", magnitude, magnitude)?;
        let double = self.limit(double, 0.0, 40.0)?;
        let (less_one, n) = self.reduced_exp(double)?;
        // 2^n (e^r - 1) + (2^n - 1)
        let power = self.power_of_two(n)?;
        let power_less_one = self.b.binary("arith.subf", power, self.number(x, 1.0)?)?;
        let t = self.multiply_add(power, less_one, power_less_one)?;
        let result = self.b.binary("arith.divf", t, self.b.binary("arith.addf", t, self.number(x, 2.0)?)?)?;
        let i32 = self.b.int(32);
        let bits = self.bitcast(x, i32)?;
        let sign = self.b.binary("arith.andi", bits, self.b.integer(bits.r#type(), 0x8000_0000)?)?;
        let joined = self.b.binary("arith.ori", self.bitcast(result, i32)?, sign)?;
        self.bitcast(joined, self.b.f32())
    }

    /// The logarithm, natural or to base 2.
    fn log(&self, x: Val<'c>, base_two: bool) -> Result<Val<'c>, PassError> {
        let i32 = self.b.int(32);
        // Denormals are scaled to normal numbers first.
        let least = self.number(x, f64::from(f32::MIN_POSITIVE))?;
        let is_small = self.b.compare_floats(FloatPredicate::OrderedLess, x, least)?;
        let scaled = self.b.binary("arith.mulf", x, self.number(x, 8_388_608.0)?)?;
        let normal = self.b.select(is_small, scaled, x)?;
        let bits = self.bitcast(normal, i32)?;
        let ty = bits.r#type();
        let int = |number: i64| self.b.integer(ty, number);
        // Offset so that the mantissa lands in [√½, √2).
        let offset = self.b.binary("arith.subi", bits, int(0x3f35_04f3)?)?;
        let exponent = self.b.binary("arith.shrsi", offset, int(23)?)?;
        let shifted = self.b.binary("arith.shli", exponent, int(23)?)?;
        let mantissa = self.bitcast(self.b.binary("arith.subi", bits, shifted)?, self.b.f32())?;
        let adjust = self.b.select(is_small, int(-23)?, int(0)?)?;
        let exponent = self.b.binary("arith.addi", exponent, adjust)?;
        let e = self.b.value("arith.sitofp", &[exponent], x.r#type(), &[])?;
        let f = self.b.binary("arith.subf", mantissa, self.number(x, 1.0)?)?;
        let s = self.b.binary("arith.divf", f, self.b.binary("arith.addf", f, self.number(x, 2.0)?)?)?;
        let z = self.b.binary("arith.mulf", s, s)?;
        // 2 atanh(s) = 2s + s z (2/3 + 2/5 z + ...); 2s = f - s f, which saves a rounding.
        let series = self.polynomial(z, &[2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0, 2.0 / 9.0])?;
        let tail = self.b.binary("arith.mulf", z, series)?;
        let correction = self.b.binary("arith.subf", f, tail)?;
        let small = self.b.binary("arith.mulf", s, correction)?;
        let log_mantissa = self.b.binary("arith.subf", f, small)?;
        let result = if base_two {
            self.multiply_add(log_mantissa, self.number(x, std::f64::consts::LOG2_E)?, e)?
        } else {
            let low = self.multiply_add(e, self.number(x, LN2_LOW)?, log_mantissa)?;
            self.multiply_add(e, self.number(x, LN2_HIGH)?, low)?
        };
        self.log_special(x, result)
    }

    fn log_special(&self, x: Val<'c>, result: Val<'c>) -> Result<Val<'c>, PassError> {
        let zero = self.number(x, 0.0)?;
        let infinity = self.number(x, f64::INFINITY)?;
        let is_zero = self.b.compare_floats(FloatPredicate::OrderedEqual, x, zero)?;
        let result = self.b.select(is_zero, self.number(x, f64::NEG_INFINITY)?, result)?;
        let is_infinite = self.b.compare_floats(FloatPredicate::OrderedEqual, x, infinity)?;
        let result = self.b.select(is_infinite, infinity, result)?;
        // Negative or NaN: x - x + NaN keeps no payload promise, NaN is enough.
        let bits = self.bitcast(x, self.b.int(32))?;
        let negative =
            self.b.compare_integers(IntegerPredicate::SignedLess, bits, self.b.integer(bits.r#type(), 0)?)?;
        let not_zero = self.b.compare_floats(FloatPredicate::UnorderedNotEqual, x, zero)?;
        let below = self.b.binary("arith.andi", negative, not_zero)?;
        let is_nan = self.b.compare_floats(FloatPredicate::Unordered, x, x)?;
        let bad = self.b.binary("arith.ori", below, is_nan)?;
        self.b.select(bad, self.number(x, f64::NAN)?, result)
    }
}
