//! Half floats without hardware: f16 by integer arithmetic, for the level without F16C, and
//! the types themselves, which LLVM never sees where it would convert them by library calls.

use melior::ir::ValueLike;
use phobos_dialect::{
    Op, PassError, Type, Val,
    build::{Builder, FloatPredicate, IntegerPredicate, element_type, with_element},
    ir,
};

use super::Lowering;

impl<'c> Lowering<'c> {
    /// Gives every value of a half type without hardware the type of its bits. Arithmetic on
    /// them is on integers already, and what is left moves them: left to LLVM, a vector or a
    /// scalar that no register has a type for goes through f32 and back, by library calls.
    pub(super) fn halves_as_bits(&self, function: Op<'c>) -> Result<(), PassError> {
        let i16 = self.b.int(16);
        let without_hardware = |ty: Type<'c>| {
            let element = element_type(ty);
            self.is_bfloat(element) || !self.target.fma && element == Type::float16(self.b.context())
        };
        for op in ir::collect(function) {
            let arguments = ir::blocks(op).into_iter().flat_map(ir::arguments);
            for value in arguments.filter(|value| without_hardware(value.r#type())) {
                value.set_type(with_element(value.r#type(), i16));
            }
            let results = ir::results(op);
            if let [result] = results[..]
                && ir::name(op) == "arith.constant"
                && without_hardware(result.r#type())
            {
                // MLIR folds the cast.
                let builder = Builder::before(op)?;
                let number = builder.result(builder.copy(op, &[], &[result.r#type()])?, 0)?;
                let bits = with_element(result.r#type(), i16);
                ir::replace_uses(result, builder.value("arith.bitcast", &[number], bits, &[])?);
                ir::erase(op);
                continue;
            }
            for result in results.iter().filter(|result| without_hardware(result.r#type())) {
                result.set_type(with_element(result.r#type(), i16));
            }
            if let ([result], [operand]) = (&results[..], &ir::operands(op)[..])
                && ir::name(op) == "arith.bitcast"
                && result.r#type() == operand.r#type()
            {
                ir::replace_uses(*result, *operand);
                ir::erase(op);
            }
        }
        Ok(())
    }

    /// f16 to f32, exact: shift the bits into place and scale the exponent by a
    /// multiplication, which also normalises denormals.
    pub(super) fn half_to_float(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let bits = self.bitcast(value, self.b.int(16))?;
        let ty = with_element(bits.r#type(), self.b.int(32));
        let int = |number: i64| self.b.integer(ty, number);
        let wide = self.b.value("arith.extui", &[bits], ty, &[])?;
        let sign = self.b.binary("arith.shli", self.b.binary("arith.andi", wide, int(0x8000)?)?, int(16)?)?;
        let magnitude =
            self.b.binary("arith.shli", self.b.binary("arith.andi", wide, int(0x7fff)?)?, int(13)?)?;
        let small = self.bitcast(magnitude, self.b.f32())?;
        // 2^112 moves the bias from 15 to 127.
        let scaled = self.b.binary("arith.mulf", small, self.b.constant(small.r#type(), 2f64.powi(112))?)?;
        let scaled = self.bitcast(scaled, self.b.int(32))?;
        // Exponent 31 means infinity or NaN: set the wide exponent to 255.
        let special =
            self.b.compare_integers(IntegerPredicate::UnsignedGreaterEqual, magnitude, int(0x0f80_0000)?)?;
        let infinite = self.b.binary("arith.ori", magnitude, int(0x7f80_0000)?)?;
        let result = self.b.select(special, infinite, scaled)?;
        self.bitcast(self.b.binary("arith.ori", result, sign)?, self.b.f32())
    }

    /// f32 to f16, to nearest even.
    pub(super) fn float_to_half(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        let bits = self.bitcast(value, self.b.int(32))?;
        let ty = bits.r#type();
        let int = |number: i64| self.b.integer(ty, number);
        let sign =
            self.b.binary("arith.shrui", self.b.binary("arith.andi", bits, int(0x8000_0000)?)?, int(16)?)?;
        let magnitude = self.b.binary("arith.andi", bits, int(0x7fff_ffff)?)?;
        // Normal results: move the bias, round by adding half less 1, plus 1 if odd.
        let odd = self.b.binary("arith.andi", self.b.binary("arith.shrui", magnitude, int(13)?)?, int(1)?)?;
        let moved = self.b.binary("arith.subi", magnitude, int(112 << 23)?)?;
        let rounded = self.b.binary("arith.addi", self.b.binary("arith.addi", moved, int(0xfff)?)?, odd)?;
        let normal = self.b.binary("arith.shrui", rounded, int(13)?)?;
        // Denormal results: adding 0.5 leaves the rounded multiple of 2^-24 in the
        // low bits of the sum.
        let float = self.bitcast(magnitude, self.b.f32())?;
        let sum = self.b.binary("arith.addf", float, self.b.constant(float.r#type(), 0.5)?)?;
        let denormal = self.b.binary("arith.subi", self.bitcast(sum, self.b.int(32))?, int(0x3f00_0000)?)?;
        let is_small = self.b.compare_integers(IntegerPredicate::UnsignedLess, magnitude, int(113 << 23)?)?;
        let finite = self.b.select(is_small, denormal, normal)?;
        // 65520 and above round to infinity; NaN keeps its top payload bits, quiet.
        let is_big =
            self.b.compare_integers(IntegerPredicate::UnsignedGreaterEqual, magnitude, int(0x477f_f000)?)?;
        let finite = self.b.select(is_big, int(0x7c00)?, finite)?;
        let payload = self.b.binary(
            "arith.shrui",
            self.b.binary("arith.andi", magnitude, int(0x7f_ffff)?)?,
            int(13)?,
        )?;
        let nan = self.b.binary("arith.ori", payload, int(0x7e00)?)?;
        let is_nan = self.b.compare_floats(FloatPredicate::Unordered, value, value)?;
        let result = self.b.select(is_nan, nan, finite)?;
        let result = self.b.binary("arith.ori", result, sign)?;
        let narrow = self.b.value("arith.trunci", &[result], with_element(ty, self.b.int(16)), &[])?;
        self.bitcast(narrow, Type::float16(self.b.context()))
    }
}
