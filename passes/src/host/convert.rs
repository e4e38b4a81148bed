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
            if from != self.b.f32() {
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

    /// f64 to f32, inexact results with an odd last bit: rounding those again to a half
    /// type is the same as rounding once (Boldo and Melquiond 2008).
    fn round_to_odd(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let ty = with_element(value.r#type(), self.b.f32());
        let nearest = self.b.value("arith.truncf", &[value], ty, &[])?;
        let back = self.b.value("arith.extf", &[nearest], value.r#type(), &[])?;
        let (magnitude, exact) = (self.b.unary("math.absf", back)?, self.b.unary("math.absf", value)?);
        let over = self.b.compare_floats(FloatPredicate::OrderedGreater, magnitude, exact)?;
        let inexact = self.b.compare_floats(FloatPredicate::UnorderedNotEqual, back, value)?;
        let bits = self.bitcast(nearest, self.b.int(32))?;
        let over = self.b.value("arith.extui", &[over], bits.r#type(), &[])?;
        let inexact = self.b.value("arith.extui", &[inexact], bits.r#type(), &[])?;
        // Towards zero, then the sticky bit.
        let odd = self.b.binary("arith.ori", self.b.binary("arith.subi", bits, over)?, inexact)?;
        self.bitcast(odd, self.b.f32())
    }

    fn is_bfloat(&self, ty: Type<'c>) -> bool {
        ty == Type::bfloat16(self.b.context())
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
