//! Elementary functions as arithmetic on f32 and f64 scalars and vectors, without libm.
//!
//! | function | method | error at most (ulp) |
//! |---|---|---|
//! | exp, exp2 | 2^n e^r, r in ±ln2/2, polynomial | 2 |
//! | log, log2 | mantissa in [√½, √2), 2 atanh(f / (2 + f)) | 3 |
//! | tanh | t / (t + 2), t = expm1(2 abs x) | 4 |
//! | rsqrt | 1 / sqrt | 2 |
//!
//! Polynomial coefficients: least-squares fits at 200 Chebyshev nodes for f32, made for
//! this file; Taylor terms for f64. Special values follow IEEE 754: exp(-inf) = 0, log(0) = -inf, log(x < 0) =
//! NaN, NaN stays NaN; results below the least normal number are denormal or 0.

use melior::ir::ValueLike;
use phobos_dialect::{
    Op, PassError, Type, Val,
    build::{FloatPredicate, element_type},
    ir,
};

use super::Lowering;

/// What the methods need of an IEEE 754 format.
struct Format {
    bits: u32,
    mantissa_bits: i64,
    bias: i64,
    /// 1.5 · 2^mantissa_bits: adding it rounds to an integer, which is then in the low
    /// bits. The second is its bit pattern.
    round: (f64, i64),
    /// ln 2 in two parts; the first has bits to spare, so its multiples are exact.
    ln2: (f64, f64),
    /// (e^r - 1 - r) / r² on ±ln2/2, lowest power first.
    exp_tail: &'static [f64],
    /// 2 atanh(s) / s³ - 2 / s² in s², lowest power first.
    log_terms: usize,
    /// Arguments of exp beyond which the result is 0 or infinite.
    exp_limits: (f64, f64),
    /// The same for exp2.
    exp2_limits: (f64, f64),
    /// From here on tanh of half of it is 1.
    tanh_limit: f64,
    /// The bit pattern of √½.
    root_half: i64,
    least_normal: f64,
    /// Bits by which denormals are scaled up.
    denormal_shift: i64,
}

static F32: Format = Format {
    bits: 32,
    mantissa_bits: 23,
    bias: 127,
    round: (12_582_912.0, 0x4b40_0000),
    ln2: (0.693_145_751_953_125, 1.428_606_765_330_187e-6),
    exp_tail: &[
        0.5,
        0.166_666_671_633_720_4,
        0.041_666_463_017_463_68,
        0.008_333_298_377_692_7,
        0.001_393_368_816_934_526,
        0.000_198_993_337_107_822_1,
    ],
    log_terms: 4,
    exp_limits: (-104.0, 89.0),
    exp2_limits: (-151.0, 129.0),
    tanh_limit: 40.0,
    root_half: 0x3f35_04f3,
    least_normal: f32::MIN_POSITIVE as f64,
    denormal_shift: 23,
};

static F64: Format = Format {
    bits: 64,
    mantissa_bits: 52,
    bias: 1023,
    round: (6_755_399_441_055_744.0, 0x4338_0000_0000_0000),
    ln2: (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10),
    // The Taylor coefficients 1/k! from k = 2: the next term is below 1e-17.
    exp_tail: &[
        0.5,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5_040.0,
        1.0 / 40_320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
    ],
    log_terms: 11,
    exp_limits: (-746.0, 710.0),
    exp2_limits: (-1076.0, 1025.0),
    tanh_limit: 80.0,
    root_half: 0x3fe6_a09e_667f_3bcd,
    least_normal: f64::MIN_POSITIVE,
    denormal_shift: 54,
};

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
            "math.absf" if ir::bit_width(element) == Some(16) => {
                let bits = self.bitcast(x, self.b.int(16))?;
                let mask = self.b.integer(bits.r#type(), 0x7fff)?;
                return self.bitcast(self.b.binary("arith.andi", bits, mask)?, element);
            }
            "math.sqrt" | "math.absf" | "math.absi" | "math.floor" | "math.ceil" | "math.roundeven" => {
                return self.b.unary(name, x);
            }
            _ => {}
        }
        let format = match ir::bit_width(element) {
            Some(32) => &F32,
            Some(64) => &F64,
            _ => return Err(PassError::at(op, format!("internal error: {name} of {element}"))),
        };
        match name {
            "math.exp" => self.exp(format, x),
            "math.exp2" => self.exp2(format, x),
            "math.log" => self.log(format, x, false),
            "math.log2" => self.log(format, x, true),
            "math.tanh" => self.tanh(format, x),
            _ => Err(PassError::at(op, format!("{name} is not available on the host yet"))),
        }
    }

    fn number(&self, like: Val<'c>, number: f64) -> Result<Val<'c>, PassError> {
        self.b.constant(like.r#type(), number)
    }

    /// `a * b + c` rounded once where there is an instruction for it. A half type is
    /// computed in f32, and without FMA an f32 in f64, where the product is exact: two
    /// roundings of the sum. An f64 has no such way.
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

    /// The nearest integer of `x * factor`, as a float and as an integer.
    fn nearest(&self, format: &Format, x: Val<'c>, factor: f64) -> Result<(Val<'c>, Val<'c>), PassError> {
        let magic = self.number(x, format.round.0)?;
        let shifted = self.multiply_add(x, self.number(x, factor)?, magic)?;
        let float = self.b.binary("arith.subf", shifted, magic)?;
        let bits = self.bitcast(shifted, self.b.int(format.bits))?;
        let base = self.b.integer(bits.r#type(), format.round.1)?;
        Ok((float, self.b.binary("arith.subi", bits, base)?))
    }

    /// 2^n for n in the exponents of normal numbers.
    fn power_of_two(&self, format: &Format, n: Val<'c>) -> Result<Val<'c>, PassError> {
        let ty = n.r#type();
        let biased = self.b.binary("arith.addi", n, self.b.integer(ty, format.bias)?)?;
        let bits = self.b.binary("arith.shli", biased, self.b.integer(ty, format.mantissa_bits)?)?;
        self.bitcast(bits, self.float(format))
    }

    fn float(&self, format: &Format) -> Type<'c> {
        if format.bits == 64 { Type::float64(self.b.context()) } else { self.b.f32() }
    }

    /// `y * 2^n`, in two steps so that each power is a normal number.
    fn scale(&self, format: &Format, y: Val<'c>, n: Val<'c>) -> Result<Val<'c>, PassError> {
        let one = self.b.integer(n.r#type(), 1)?;
        let half = self.b.binary("arith.shrsi", n, one)?;
        let rest = self.b.binary("arith.subi", n, half)?;
        let y = self.b.binary("arith.mulf", y, self.power_of_two(format, half)?)?;
        self.b.binary("arith.mulf", y, self.power_of_two(format, rest)?)
    }

    /// r = x - n ln2, e^r - 1 and n.
    fn reduced_exp(&self, format: &Format, x: Val<'c>) -> Result<(Val<'c>, Val<'c>), PassError> {
        let (n, n_integer) = self.nearest(format, x, std::f64::consts::LOG2_E)?;
        let r = self.multiply_add(n, self.number(x, -format.ln2.0)?, x)?;
        let r = self.multiply_add(n, self.number(x, -format.ln2.1)?, r)?;
        Ok((self.expm1_small(format, r)?, n_integer))
    }

    /// e^r - 1 for r in ±ln2/2.
    fn expm1_small(&self, format: &Format, r: Val<'c>) -> Result<Val<'c>, PassError> {
        let tail = self.polynomial(r, format.exp_tail)?;
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

    fn exp(&self, format: &Format, x: Val<'c>) -> Result<Val<'c>, PassError> {
        let x = self.limit(x, format.exp_limits.0, format.exp_limits.1)?;
        let (less_one, n) = self.reduced_exp(format, x)?;
        let y = self.b.binary("arith.addf", less_one, self.number(x, 1.0)?)?;
        self.scale(format, y, n)
    }

    fn exp2(&self, format: &Format, x: Val<'c>) -> Result<Val<'c>, PassError> {
        let x = self.limit(x, format.exp2_limits.0, format.exp2_limits.1)?;
        let (n, n_integer) = self.nearest(format, x, 1.0)?;
        let r = self.b.binary("arith.subf", x, n)?;
        let r = self.b.binary("arith.mulf", r, self.number(x, std::f64::consts::LN_2)?)?;
        let y = self.b.binary("arith.addf", self.expm1_small(format, r)?, self.number(x, 1.0)?)?;
        self.scale(format, y, n_integer)
    }

    /// t / (t + 2) with t = e^{2|x|} - 1, which keeps its relative accuracy near 0.
    fn tanh(&self, format: &Format, x: Val<'c>) -> Result<Val<'c>, PassError> {
        let magnitude = self.b.unary("math.absf", x)?;
        let double = self.b.binary("arith.addf", magnitude, magnitude)?;
        let double = self.limit(double, 0.0, format.tanh_limit)?;
        let (less_one, n) = self.reduced_exp(format, double)?;
        // 2^n (e^r - 1) + (2^n - 1)
        let power = self.power_of_two(format, n)?;
        let power_less_one = self.b.binary("arith.subf", power, self.number(x, 1.0)?)?;
        let t = self.multiply_add(power, less_one, power_less_one)?;
        let result = self.b.binary("arith.divf", t, self.b.binary("arith.addf", t, self.number(x, 2.0)?)?)?;
        let integer = self.b.int(format.bits);
        let bits = self.bitcast(x, integer)?;
        let sign = if format.bits == 64 { i64::MIN } else { 0x8000_0000 };
        let sign = self.b.binary("arith.andi", bits, self.b.integer(bits.r#type(), sign)?)?;
        let joined = self.b.binary("arith.ori", self.bitcast(result, integer)?, sign)?;
        self.bitcast(joined, self.float(format))
    }

    /// The logarithm, natural or to base 2.
    fn log(&self, format: &Format, x: Val<'c>, base_two: bool) -> Result<Val<'c>, PassError> {
        // Denormals are scaled to normal numbers first.
        let least = self.number(x, format.least_normal)?;
        let is_small = self.b.compare_floats(FloatPredicate::OrderedLess, x, least)?;
        let factor = 2f64.powi(format.denormal_shift as i32);
        let scaled = self.b.binary("arith.mulf", x, self.number(x, factor)?)?;
        let normal = self.b.select(is_small, scaled, x)?;
        let bits = self.bitcast(normal, self.b.int(format.bits))?;
        let ty = bits.r#type();
        let int = |number: i64| self.b.integer(ty, number);
        // Offset so that the mantissa lands in [√½, √2).
        let offset = self.b.binary("arith.subi", bits, int(format.root_half)?)?;
        let exponent = self.b.binary("arith.shrsi", offset, int(format.mantissa_bits)?)?;
        let shifted = self.b.binary("arith.shli", exponent, int(format.mantissa_bits)?)?;
        let mantissa = self.bitcast(self.b.binary("arith.subi", bits, shifted)?, self.float(format))?;
        let adjust = self.b.select(is_small, int(-format.denormal_shift)?, int(0)?)?;
        let exponent = self.b.binary("arith.addi", exponent, adjust)?;
        let e = self.b.value("arith.sitofp", &[exponent], x.r#type(), &[])?;
        let f = self.b.binary("arith.subf", mantissa, self.number(x, 1.0)?)?;
        let s = self.b.binary("arith.divf", f, self.b.binary("arith.addf", f, self.number(x, 2.0)?)?)?;
        let z = self.b.binary("arith.mulf", s, s)?;
        // 2 atanh(s) = 2s + s z (2/3 + 2/5 z + ...); 2s = f - s f, which saves a rounding.
        let terms: Vec<f64> = (1..=format.log_terms).map(|term| 2.0 / (2 * term + 1) as f64).collect();
        let tail = self.b.binary("arith.mulf", z, self.polynomial(z, &terms)?)?;
        let correction = self.b.binary("arith.subf", f, tail)?;
        let small = self.b.binary("arith.mulf", s, correction)?;
        let log_mantissa = self.b.binary("arith.subf", f, small)?;
        let result = if base_two {
            self.multiply_add(log_mantissa, self.number(x, std::f64::consts::LOG2_E)?, e)?
        } else {
            let low = self.multiply_add(e, self.number(x, format.ln2.1)?, log_mantissa)?;
            self.multiply_add(e, self.number(x, format.ln2.0)?, low)?
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
        let below = self.b.compare_floats(FloatPredicate::OrderedLess, x, zero)?;
        let is_nan = self.b.compare_floats(FloatPredicate::Unordered, x, x)?;
        let bad = self.b.binary("arith.ori", below, is_nan)?;
        self.b.select(bad, self.number(x, f64::NAN)?, result)
    }
}
