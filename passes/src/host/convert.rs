//! Float conversions that LLVM would turn into library calls on some level: the
//! object must not need any.

use melior::ir::ValueLike;
use phobos_dialect::{
    PassError, Type, Val,
    build::{FloatPredicate, element_type, with_element},
    ir,
};

use super::Lowering;

impl<'c> Lowering<'c> {
    /// A float scalar or vector in a wider or narrower float type, rounded to nearest
    /// even.
    pub(super) fn convert_float(&self, value: Val<'c>, to: Type<'c>) -> Result<Val<'c>, PassError> {
        let from = element_type(value.r#type());
        let (have, want) = (ir::bit_width(from).unwrap_or(0), ir::bit_width(to).unwrap_or(0));
        if from == to {
            Ok(value)
        } else if want > have {
            self.extend_float(value, to)
        } else {
            self.truncate_float(value, to)
        }
    }

    /// To a wider float type; exact.
    pub(super) fn extend_float(&self, value: Val<'c>, to: Type<'c>) -> Result<Val<'c>, PassError> {
        let from = element_type(value.r#type());
        if ir::bit_width(from) == Some(16) {
            let f32 = self.b.f32();
            let wide = if self.is_bfloat(from) {
                self.bfloat_to_float(value)?
            } else if self.target.fma {
                self.b.value("arith.extf", &[value], with_element(value.r#type(), f32), &[])?
            } else {
                self.half_to_float(value)?
            };
            return if to == f32 { Ok(wide) } else { self.extend_float(wide, to) };
        }
        if from == to {
            return Ok(value);
        }
        self.b.value("arith.extf", &[value], with_element(value.r#type(), to), &[])
    }

    /// To a narrower float type.
    pub(super) fn truncate_float(&self, value: Val<'c>, to: Type<'c>) -> Result<Val<'c>, PassError> {
        let from = element_type(value.r#type());
        if ir::bit_width(to) == Some(16) {
            let f32 = self.b.f32();
            if from != f32 {
                let single = self.round_to_odd(value)?;
                return self.truncate_float(single, to);
            }
            return if self.is_bfloat(to) {
                self.float_to_bfloat(value)
            } else if self.target.fma {
                self.b.value("arith.truncf", &[value], with_element(value.r#type(), to), &[])
            } else {
                self.float_to_half(value)
            };
        }
        self.b.value("arith.truncf", &[value], with_element(value.r#type(), to), &[])
    }

    pub(super) fn is_bfloat(&self, ty: Type<'c>) -> bool {
        ty == Type::bfloat16(self.b.context())
    }

    /// f64 to f32, where an inexact result gets an odd last bit. Rounding that to a
    /// half type gives what rounding once would (Boldo and Melquiond 2008): f32 has
    /// more than two bits beyond either.
    fn round_to_odd(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let i32 = self.b.int(32);
        let nearest =
            self.b.value("arith.truncf", &[value], with_element(value.r#type(), self.b.f32()), &[])?;
        let back = self.b.value("arith.extf", &[nearest], value.r#type(), &[])?;
        let (size, back_size) = (self.b.unary("math.absf", value)?, self.b.unary("math.absf", back)?);
        let over = self.b.compare_floats(FloatPredicate::OrderedGreater, back_size, size)?;
        let inexact = self.b.compare_floats(FloatPredicate::OrderedLess, back_size, size)?;
        let inexact = self.b.binary("arith.ori", over, inexact)?;
        let bits = self.bitcast(nearest, i32)?;
        let one = self.b.integer(bits.r#type(), 1)?;
        let toward_zero = self.b.select(over, self.b.binary("arith.subi", bits, one)?, bits)?;
        let odd = self.b.binary("arith.ori", toward_zero, one)?;
        self.bitcast(self.b.select(inexact, odd, bits)?, self.b.f32())
    }

    /// An integer as a half type, rounded once: through f64, which holds integers of
    /// up to 53 bits. Larger ones are rounded to 53 bits first.
    pub(super) fn integer_to_half(
        &self,
        name: &str,
        value: Val<'c>,
        to: Type<'c>,
    ) -> Result<Val<'c>, PassError> {
        let f64 = Type::float64(self.b.context());
        let wide = self.b.value(name, &[value], with_element(value.r#type(), f64), &[])?;
        self.truncate_float(wide, to)
    }

    /// A bitwise reinterpretation with another element of the same width.
    pub(super) fn bitcast(&self, value: Val<'c>, element: Type<'c>) -> Result<Val<'c>, PassError> {
        self.b.value("arith.bitcast", &[value], with_element(value.r#type(), element), &[])
    }

    fn bfloat_to_float(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let (i16, i32) = (self.b.int(16), self.b.int(32));
        let bits = self.bitcast(value, i16)?;
        let wide = self.b.value("arith.extui", &[bits], with_element(bits.r#type(), i32), &[])?;
        let high = self.b.binary("arith.shli", wide, self.b.integer(wide.r#type(), 16)?)?;
        self.bitcast(high, self.b.f32())
    }

    fn float_to_bfloat(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let (i16, i32) = (self.b.int(16), self.b.int(32));
        let bits = self.bitcast(value, i32)?;
        let ty = bits.r#type();
        // Round to nearest even by adding half of the dropped part, less 1 when the
        // kept part is even. A NaN stays one: its payload is cut, its quiet bit set.
        let kept = self.b.binary("arith.shrui", bits, self.b.integer(ty, 16)?)?;
        let odd = self.b.binary("arith.andi", kept, self.b.integer(ty, 1)?)?;
        let bias = self.b.binary("arith.addi", odd, self.b.integer(ty, 0x7fff)?)?;
        let rounded = self.b.binary("arith.addi", bits, bias)?;
        let rounded = self.b.binary("arith.shrui", rounded, self.b.integer(ty, 16)?)?;
        let quiet = self.b.binary("arith.ori", kept, self.b.integer(ty, 0x40)?)?;
        let is_nan = self.b.compare_floats(FloatPredicate::Unordered, value, value)?;
        let chosen = self.b.select(is_nan, quiet, rounded)?;
        let narrow = self.b.value("arith.trunci", &[chosen], with_element(ty, i16), &[])?;
        self.bitcast(narrow, Type::bfloat16(self.b.context()))
    }
}
