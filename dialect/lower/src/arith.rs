//! The language's scalar semantics in arith and math operations. All functions take
//! scalars or tiles; `None` as a type means `index`.

use melior::ir::ValueLike;
use phobos_artifact::DType;
use phobos_dialect::{
    Type, Val,
    build::{FloatPredicate, IntegerPredicate},
    types::Tile,
};
use phobos_lang::typed::{BinaryOp, MathOp, UnaryOp};

use crate::{LowerError, Lowering, Result, dtype};

impl<'c> Lowering<'c, '_> {
    /// `ty` with another element: a tile keeps its dims.
    fn like(&self, ty: Type<'c>, element: Type<'c>) -> Type<'c> {
        match Tile::from_type(ty) {
            Some(tile) => Tile::new(tile.dims, element).to_type(self.context),
            None => element,
        }
    }

    fn element(&self, ty: Type<'c>) -> Type<'c> {
        Tile::from_type(ty).map_or(ty, |tile| tile.element)
    }

    /// A constant in the shape of `ty`.
    fn splat(&self, ty: Type<'c>, number: f64) -> Result<Val<'c>> {
        let scalar = self.builder.constant(self.element(ty), number)?;
        self.stretch(ty, scalar)
    }

    /// An integer constant in the shape of `ty`.
    fn splat_integer(&self, ty: Type<'c>, number: i64) -> Result<Val<'c>> {
        let scalar = self.builder.integer(self.element(ty), number)?;
        self.stretch(ty, scalar)
    }

    fn stretch(&self, ty: Type<'c>, scalar: Val<'c>) -> Result<Val<'c>> {
        if Tile::from_type(ty).is_none() {
            return Ok(scalar);
        }
        Ok(self.builder.value("phobos.splat", &[scalar], ty, &[])?)
    }

    fn compare(&self, predicate: IntegerPredicate, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>> {
        let ty = self.like(a.r#type(), self.builder.int(1));
        let predicate = self.builder.i64_attribute(predicate as i64);
        Ok(self.builder.value("arith.cmpi", &[a, b], ty, &[("predicate", predicate)])?)
    }

    fn compare_float(&self, predicate: FloatPredicate, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>> {
        let ty = self.like(a.r#type(), self.builder.int(1));
        let predicate = self.builder.i64_attribute(predicate as i64);
        Ok(self.builder.value("arith.cmpf", &[a, b], ty, &[("predicate", predicate)])?)
    }

    pub(crate) fn unary(&self, op: UnaryOp, value: Val<'c>, scalar: Option<DType>) -> Result<Val<'c>> {
        let ty = value.r#type();
        match op {
            UnaryOp::Neg if scalar.is_some_and(DType::is_float) => {
                Ok(self.builder.unary("arith.negf", value)?)
            }
            UnaryOp::Neg => Ok(self.builder.binary("arith.subi", self.splat_integer(ty, 0)?, value)?),
            UnaryOp::Not => Ok(self.builder.binary("arith.xori", value, self.splat_integer(ty, 1)?)?),
            UnaryOp::BitNot => Ok(self.builder.binary("arith.xori", value, self.splat_integer(ty, -1)?)?),
        }
    }

    pub(crate) fn binary(
        &self,
        op: BinaryOp,
        a: Val<'c>,
        b: Val<'c>,
        scalar: Option<DType>,
    ) -> Result<Val<'c>> {
        if scalar.is_some_and(DType::is_float) {
            return self.float_binary(op, a, b);
        }
        let unsigned = matches!(scalar, Some(DType::U8 | DType::U32 | DType::Bool));
        let pick =
            |signed: IntegerPredicate, without: IntegerPredicate| if unsigned { without } else { signed };
        use IntegerPredicate as P;
        match op {
            BinaryOp::Add => Ok(self.builder.binary("arith.addi", a, b)?),
            BinaryOp::Sub => Ok(self.builder.binary("arith.subi", a, b)?),
            BinaryOp::Mul => Ok(self.builder.binary("arith.muli", a, b)?),
            BinaryOp::Div => self.divide(a, b, unsigned),
            BinaryOp::Rem => {
                let quotient = self.divide(a, b, unsigned)?;
                let whole = self.builder.binary("arith.muli", quotient, b)?;
                Ok(self.builder.binary("arith.subi", a, whole)?)
            }
            BinaryOp::Min => {
                Ok(self.builder.binary(if unsigned { "arith.minui" } else { "arith.minsi" }, a, b)?)
            }
            BinaryOp::Max => {
                Ok(self.builder.binary(if unsigned { "arith.maxui" } else { "arith.maxsi" }, a, b)?)
            }
            BinaryOp::Eq => self.compare(P::Equal, a, b),
            BinaryOp::Ne => self.compare(P::NotEqual, a, b),
            BinaryOp::Lt => self.compare(pick(P::SignedLess, P::UnsignedLess), a, b),
            BinaryOp::Le => self.compare(pick(P::SignedLessEqual, P::UnsignedLessEqual), a, b),
            BinaryOp::Gt => self.compare(pick(P::SignedGreater, P::UnsignedGreater), a, b),
            BinaryOp::Ge => self.compare(pick(P::SignedGreaterEqual, P::UnsignedGreaterEqual), a, b),
            BinaryOp::And | BinaryOp::BitAnd => Ok(self.builder.binary("arith.andi", a, b)?),
            BinaryOp::Or | BinaryOp::BitOr => Ok(self.builder.binary("arith.ori", a, b)?),
            BinaryOp::BitXor => Ok(self.builder.binary("arith.xori", a, b)?),
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, a, b, unsigned),
        }
    }

    fn float_binary(&self, op: BinaryOp, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>> {
        use FloatPredicate as P;
        match op {
            BinaryOp::Add => Ok(self.builder.binary("arith.addf", a, b)?),
            BinaryOp::Sub => Ok(self.builder.binary("arith.subf", a, b)?),
            BinaryOp::Mul => Ok(self.builder.binary("arith.mulf", a, b)?),
            BinaryOp::Div => Ok(self.builder.binary("arith.divf", a, b)?),
            BinaryOp::Rem => Ok(self.builder.binary("arith.remf", a, b)?),
            BinaryOp::Min => Ok(self.builder.binary("arith.minimumf", a, b)?),
            BinaryOp::Max => Ok(self.builder.binary("arith.maximumf", a, b)?),
            BinaryOp::Eq => self.compare_float(P::OrderedEqual, a, b),
            BinaryOp::Ne => self.compare_float(P::UnorderedNotEqual, a, b),
            BinaryOp::Lt => self.compare_float(P::OrderedLess, a, b),
            BinaryOp::Le => self.compare_float(P::OrderedLessEqual, a, b),
            BinaryOp::Gt => self.compare_float(P::OrderedGreater, a, b),
            BinaryOp::Ge => self.compare_float(P::OrderedGreaterEqual, a, b),
            _ => Err(LowerError::Internal(format!("{op:?} of floats"))),
        }
    }

    /// `a / b` truncated, 0 for `b == 0`, wrapping for the least value over -1. The
    /// hardware traps on both, so they are taken out before dividing.
    fn divide(&self, a: Val<'c>, b: Val<'c>, unsigned: bool) -> Result<Val<'c>> {
        let ty = b.r#type();
        let name = if unsigned { "arith.divui" } else { "arith.divsi" };
        if phobos_dialect::ir::constant_integer(b).is_some_and(|b| b > 0) {
            return Ok(self.builder.binary(name, a, b)?);
        }
        let (zero, one) = (self.splat_integer(ty, 0)?, self.splat_integer(ty, 1)?);
        let by_zero = self.compare(IntegerPredicate::Equal, b, zero)?;
        if unsigned {
            let safe = self.builder.select(by_zero, one, b)?;
            let quotient = self.builder.binary(name, a, safe)?;
            return Ok(self.builder.select(by_zero, zero, quotient)?);
        }
        let by_minus_one = self.compare(IntegerPredicate::Equal, b, self.splat_integer(ty, -1)?)?;
        let special = self.builder.binary("arith.ori", by_zero, by_minus_one)?;
        let safe = self.builder.select(special, one, b)?;
        let quotient = self.builder.binary(name, a, safe)?;
        let negated = self.builder.binary("arith.subi", zero, a)?;
        let quotient = self.builder.select(by_minus_one, negated, quotient)?;
        Ok(self.builder.select(by_zero, zero, quotient)?)
    }

    /// Shifts by the width or more give 0, or -1 for negative values shifted right.
    fn shift(&self, op: BinaryOp, a: Val<'c>, b: Val<'c>, unsigned: bool) -> Result<Val<'c>> {
        let ty = a.r#type();
        let bits = i64::from(phobos_dialect::ir::bit_width(self.element(ty)).unwrap_or(64));
        let limit = self.splat_integer(ty, bits - 1)?;
        let fits = self.compare(IntegerPredicate::UnsignedLessEqual, b, limit)?;
        let by = self.builder.select(fits, b, limit)?;
        if op == BinaryOp::Shr && !unsigned {
            return Ok(self.builder.binary("arith.shrsi", a, by)?);
        }
        let name = if op == BinaryOp::Shl { "arith.shli" } else { "arith.shrui" };
        let shifted = self.builder.binary(name, a, by)?;
        Ok(self.builder.select(fits, shifted, self.splat_integer(ty, 0)?)?)
    }

    pub(crate) fn math(&self, op: MathOp, value: Val<'c>, scalar: Option<DType>) -> Result<Val<'c>> {
        if scalar.is_some_and(unsigned) {
            // Of integers there is `abs` alone.
            return Ok(value);
        }
        let ty = value.r#type();
        let element = self.element(ty);
        if !phobos_dialect::ir::is_float(element) {
            return Ok(self.builder.unary("math.absi", value)?);
        }
        let narrow = phobos_dialect::ir::bit_width(element) == Some(16);
        if narrow && !matches!(op, MathOp::Abs) {
            // Half types compute in f32 and round once.
            let wide = self.like(ty, self.builder.f32());
            let widened = self.builder.value("arith.extf", &[value], wide, &[])?;
            let result = self.math(op, widened, Some(DType::F32))?;
            return Ok(self.builder.value("arith.truncf", &[result], ty, &[])?);
        }
        let name = match op {
            MathOp::Exp => "math.exp",
            MathOp::Exp2 => "math.exp2",
            MathOp::Log => "math.log",
            MathOp::Sqrt => "math.sqrt",
            MathOp::Rsqrt => "math.rsqrt",
            MathOp::Tanh => "math.tanh",
            MathOp::Abs => "math.absf",
            MathOp::Floor => "math.floor",
            MathOp::Ceil => "math.ceil",
            MathOp::Round => "math.roundeven",
            MathOp::Sigmoid => {
                let one = self.splat(ty, 1.0)?;
                return Ok(self.builder.binary("arith.divf", one, self.one_plus_exp_minus(value)?)?);
            }
            MathOp::Silu => {
                return Ok(self.builder.binary("arith.divf", value, self.one_plus_exp_minus(value)?)?);
            }
            MathOp::Gelu => return self.gelu_tanh(value),
        };
        Ok(self.builder.unary(name, value)?)
    }

    /// `1 + exp(-x)`
    fn one_plus_exp_minus(&self, value: Val<'c>) -> Result<Val<'c>> {
        let negated = self.builder.unary("arith.negf", value)?;
        let exponential = self.builder.unary("math.exp", negated)?;
        Ok(self.builder.binary("arith.addf", self.splat(value.r#type(), 1.0)?, exponential)?)
    }

    /// `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    fn gelu_tanh(&self, x: Val<'c>) -> Result<Val<'c>> {
        let ty = x.r#type();
        let multiply = |a, b| self.builder.binary("arith.mulf", a, b);
        let square = multiply(x, x)?;
        let cubic = multiply(multiply(square, x)?, self.splat(ty, 0.044_715)?)?;
        let inner = self.builder.binary("arith.addf", x, cubic)?;
        let scaled = multiply(inner, self.splat(ty, (2.0 / std::f64::consts::PI).sqrt())?)?;
        let tanh = self.builder.unary("math.tanh", scaled)?;
        let factor = self.builder.binary("arith.addf", tanh, self.splat(ty, 1.0)?)?;
        Ok(multiply(multiply(x, self.splat(ty, 0.5)?)?, factor)?)
    }

    /// Conversion; `None` is index.
    pub(crate) fn cast(&self, value: Val<'c>, from: Option<DType>, to: Option<DType>) -> Result<Val<'c>> {
        let ty = value.r#type();
        let target = |to: DType| self.like(ty, dtype(&self.builder, to));
        match (from, to) {
            (from, to) if from == to => Ok(value),
            (None, Some(to)) if to.is_float() => {
                let wide = self.builder.value("arith.index_cast", &[value], self.builder.int(64), &[])?;
                self.cast(wide, Some(DType::I64), Some(to))
            }
            (None, Some(DType::Bool)) => {
                self.compare(IntegerPredicate::NotEqual, value, self.splat_integer(ty, 0)?)
            }
            (None, Some(to)) => Ok(self.builder.value("arith.index_cast", &[value], target(to), &[])?),
            (Some(from), None) if from.is_float() => {
                let wide = self.cast(value, Some(from), Some(DType::I64))?;
                Ok(self.builder.value("arith.index_cast", &[wide], self.builder.index(), &[])?)
            }
            (Some(from), None) => {
                let name = if unsigned(from) { "arith.index_castui" } else { "arith.index_cast" };
                Ok(self.builder.value(name, &[value], self.builder.index(), &[])?)
            }
            (Some(from), Some(DType::Bool)) if from.is_float() => {
                self.compare_float(FloatPredicate::UnorderedNotEqual, value, self.splat(ty, 0.0)?)
            }
            (Some(_), Some(DType::Bool)) => {
                self.compare(IntegerPredicate::NotEqual, value, self.splat_integer(ty, 0)?)
            }
            (Some(from), Some(to)) if from.is_float() && to.is_float() => self.float_cast(value, from, to),
            (Some(from), Some(to)) if from.is_float() => self.float_to_integer(value, from, to),
            (Some(from), Some(to)) if to.is_float() => {
                let name = if unsigned(from) { "arith.uitofp" } else { "arith.sitofp" };
                Ok(self.builder.value(name, &[value], target(to), &[])?)
            }
            (Some(from), Some(to)) => {
                let (have, want) = (bits(from), bits(to));
                let name = match want.cmp(&have) {
                    std::cmp::Ordering::Equal => return Ok(value),
                    std::cmp::Ordering::Less => "arith.trunci",
                    std::cmp::Ordering::Greater if unsigned(from) => "arith.extui",
                    std::cmp::Ordering::Greater => "arith.extsi",
                };
                Ok(self.builder.value(name, &[value], target(to), &[])?)
            }
            (None, None) => Ok(value),
        }
    }

    fn float_cast(&self, value: Val<'c>, from: DType, to: DType) -> Result<Val<'c>> {
        let target = self.like(value.r#type(), dtype(&self.builder, to));
        let name = match to.bytes().cmp(&from.bytes()) {
            std::cmp::Ordering::Greater => "arith.extf",
            std::cmp::Ordering::Less => "arith.truncf",
            // f16 and bf16: neither holds the other, f32 holds both.
            std::cmp::Ordering::Equal => {
                let wide = self.float_cast(value, from, DType::F32)?;
                return self.float_cast(wide, DType::F32, to);
            }
        };
        Ok(self.builder.value(name, &[value], target, &[])?)
    }

    /// Truncates, saturates, and gives 0 for NaN.
    fn float_to_integer(&self, value: Val<'c>, from: DType, to: DType) -> Result<Val<'c>> {
        if matches!(from, DType::F16 | DType::Bf16) {
            // The limits below are exact in f32 but not in half types.
            let wide = self.float_cast(value, from, DType::F32)?;
            return self.float_to_integer(wide, DType::F32, to);
        }
        let ty = value.r#type();
        let target = self.like(ty, dtype(&self.builder, to));
        let width = bits(to);
        let (low, high) = if unsigned(to) {
            (0.0, 2f64.powi(width as i32))
        } else {
            (-(2f64.powi(width as i32 - 1)), 2f64.powi(width as i32 - 1))
        };
        let (least, most) = match (unsigned(to), width) {
            (true, _) => (0, -1),
            (false, 64) => (i64::MIN, i64::MAX),
            (false, width) => (-(1 << (width - 1)), (1 << (width - 1)) - 1),
        };
        let (low, high) = (self.splat(ty, low)?, self.splat(ty, high)?);
        let above = self.compare_float(FloatPredicate::OrderedGreaterEqual, value, high)?;
        let below = self.compare_float(FloatPredicate::OrderedLess, value, low)?;
        let not_low = self.compare_float(FloatPredicate::OrderedGreaterEqual, value, low)?;
        let not_high = self.compare_float(FloatPredicate::OrderedLess, value, high)?;
        let inside = self.builder.binary("arith.andi", not_low, not_high)?;
        let safe = self.builder.select(inside, value, self.splat(ty, 0.0)?)?;
        let name = if unsigned(to) { "arith.fptoui" } else { "arith.fptosi" };
        let converted = self.builder.value(name, &[safe], target, &[])?;
        let capped = self.builder.select(above, self.splat_integer(target, most)?, converted)?;
        Ok(self.builder.select(below, self.splat_integer(target, least)?, capped)?)
    }
}

fn unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::Bool | DType::U8 | DType::U32)
}

fn bits(dtype: DType) -> u32 {
    if dtype == DType::Bool { 1 } else { dtype.bytes() as u32 * 8 }
}
