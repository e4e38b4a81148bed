//! Scalar operations, one at a time or in vectors: the bodies of maps, and the
//! kernel's own scalar code.

use std::{collections::BTreeMap, rc::Rc};

use melior::ir::{ValueLike, operation::OperationLike};
use phobos_dialect::{
    Op, PassError, Type, Val,
    build::{IntegerPredicate, element_type},
    ir,
};

use super::{
    Lowering,
    source::{Chunk, MapInput, MapSource},
};

impl<'c> Lowering<'c> {
    /// The chunk of a map: its body in vectors over chunks of its inputs.
    pub(super) fn map_body(
        &mut self,
        map: &Rc<MapSource<'c>>,
        chunk: &Chunk<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let outer = self.b;
        self.b = outer.with_location(map.op.location());
        let mut inputs = Vec::new();
        for input in &map.inputs {
            inputs.push(match input {
                MapInput::Tile { source, .. } => self.read(source, chunk)?,
                MapInput::Scalar(value) => vec![self.splat(*value, chunk.width)?; chunk.vectors],
            });
        }
        let body = ir::body(map.op, 0)
            .ok_or_else(|| PassError::at(map.op, "internal error: a map without a body"))?;
        let mut results = Vec::new();
        for vector in 0..chunk.vectors {
            let mut known: BTreeMap<usize, Val<'c>> = ir::arguments(body)
                .iter()
                .zip(&inputs)
                .map(|(a, values)| (ir::value_key(*a), values[vector]))
                .collect();
            for op in ir::operations(body) {
                let operands = ir::operands(op)
                    .into_iter()
                    .map(|operand| {
                        known
                            .get(&ir::value_key(operand))
                            .copied()
                            .ok_or_else(|| PassError::at(op, "internal error: a map body reads from outside"))
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                if ir::name(op) == "phobos.yield" {
                    results.extend(operands);
                    break;
                }
                let result = ir::results(op)[0];
                self.b = outer.with_location(op.location());
                let value = if ir::name(op) == "phobos.lane" {
                    let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
                    self.lane_index(chunk, vector, axis, result.r#type())?
                } else {
                    let operands = self.guard_division(op, operands, chunk, vector)?;
                    self.compute(op, &operands, Some(chunk.width))?
                };
                known.insert(ir::value_key(result), value);
            }
        }
        self.b = outer;
        Ok(results)
    }

    /// Lanes beyond a tail hold anything, and the hardware traps on a division by 0:
    /// they divide by 1.
    fn guard_division(
        &self,
        op: Op<'c>,
        operands: Vec<Val<'c>>,
        chunk: &Chunk<'c>,
        vector: usize,
    ) -> Result<Vec<Val<'c>>, PassError> {
        match (ir::name(op), &operands[..], self.tail_mask(chunk, vector)?) {
            ("arith.divsi" | "arith.divui", [a, b], Some(mask)) => {
                let one = self.b.integer(b.r#type(), 1)?;
                Ok(vec![*a, self.b.select(mask, *b, one)?])
            }
            _ => Ok(operands),
        }
    }

    /// One arith or math operation on scalars, or on vectors of `width` lanes.
    pub(super) fn compute(
        &mut self,
        op: Op<'c>,
        operands: &[Val<'c>],
        width: Option<u64>,
    ) -> Result<Val<'c>, PassError> {
        let name = ir::name(op);
        let result = ir::results(op)
            .first()
            .copied()
            .ok_or_else(|| PassError::at(op, format!("internal error: {name} has no result")))?;
        let element = self.scalar_type(result.r#type());
        let ty = width.map_or(element, |width| self.b.vector(width, element));
        match (name, operands) {
            ("arith.constant", _) => self.constant_like(op, result, ty),
            ("arith.index_cast", [value]) => self.resize(*value, element),
            ("arith.index_castui", [value]) => {
                let (from, to) =
                    (ir::bit_width(value.r#type()).unwrap_or(64), ir::bit_width(element).unwrap_or(64));
                match from.cmp(&to) {
                    std::cmp::Ordering::Equal => Ok(*value),
                    std::cmp::Ordering::Less => self.b.value("arith.extui", operands, element, &[]),
                    std::cmp::Ordering::Greater => self.b.value("arith.trunci", operands, element, &[]),
                }
            }
            ("arith.addi" | "arith.subi" | "arith.muli", [a, b])
                if ir::is_index(result.r#type()) && !self.ranges.cannot_wrap(op) =>
            {
                self.saturating(name, *a, *b)
            }
            ("arith.extf" | "arith.truncf", [value]) => self.convert_float(*value, element),
            ("arith.sitofp" | "arith.uitofp", [value]) if ir::bit_width(element) == Some(16) => {
                self.integer_to_half(name, *value, element)
            }
            ("arith.remf", _) => {
                Err(PassError::at(op, "the remainder of floats is not available on the host yet"))
            }
            _ if name.starts_with("math.") => self.math(op, operands),
            _ if self.is_half_arithmetic(name, operands) => {
                let f32 = self.b.f32();
                let wide = operands
                    .iter()
                    .map(|value| self.convert_float(*value, f32))
                    .collect::<Result<Vec<_>, _>>()?;
                let wide_ty = phobos_dialect::build::with_element(ty, f32);
                if name == "arith.cmpf" {
                    return self.b.copy(op, &wide, &[ty]).and_then(|op| self.b.result(op, 0));
                }
                let computed = self.b.copy(op, &wide, &[wide_ty]).and_then(|op| self.b.result(op, 0))?;
                self.convert_float(computed, element)
            }
            _ if name.starts_with("arith.") => {
                self.b.copy(op, operands, &[ty]).and_then(|op| self.b.result(op, 0))
            }
            _ => Err(PassError::at(op, format!("{name} is not available on the host yet"))),
        }
    }

    /// Index arithmetic whose result may leave i64: the nearest i64 then.
    fn saturating(&self, name: &str, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>, PassError> {
        match name {
            "arith.addi" => return self.b.binary("llvm.intr.sadd.sat", a, b),
            "arith.subi" => return self.b.binary("llvm.intr.ssub.sat", a, b),
            _ => {}
        }
        let ty = a.r#type();
        let product = self.b.op("arith.mulsi_extended", &[a, b], &[ty, ty], &[], &[])?;
        let (low, high) = (self.b.result(product, 0)?, self.b.result(product, 1)?);
        let bits = self.b.i64(63)?;
        let sign = self.b.binary("arith.shrsi", low, bits)?;
        let wrapped = self.b.compare_integers(IntegerPredicate::NotEqual, high, sign)?;
        // All ones for a negative product.
        let negative = self.b.binary("arith.shrsi", high, bits)?;
        let nearest = self.b.binary("arith.xori", negative, self.b.i64(i64::MAX)?)?;
        self.b.select(wrapped, nearest, low)
    }

    /// `index` is `i64` on the host.
    pub(super) fn scalar_type(&self, ty: Type<'c>) -> Type<'c> {
        if ir::is_index(ty) { self.b.int(64) } else { ty }
    }

    fn constant_like(&self, op: Op<'c>, result: Val<'c>, ty: Type<'c>) -> Result<Val<'c>, PassError> {
        if let Some(number) = ir::constant_integer(result) {
            return self.b.integer(ty, number);
        }
        match ir::constant_float(result) {
            Some(number) => self.b.constant(ty, number),
            None => Err(PassError::at(op, "internal error: a constant that is no number")),
        }
    }

    /// Whether an operation computes in f16 or bf16: done in f32 and rounded once,
    /// as the hardware without half arithmetic would, without library calls.
    fn is_half_arithmetic(&self, name: &str, operands: &[Val<'c>]) -> bool {
        let half = |value: &Val<'c>| {
            let element = element_type(value.r#type());
            ir::is_float(element) && ir::bit_width(element) == Some(16)
        };
        let arithmetic = matches!(
            name,
            "arith.addf"
                | "arith.subf"
                | "arith.mulf"
                | "arith.divf"
                | "arith.negf"
                | "arith.maximumf"
                | "arith.minimumf"
                | "arith.cmpf"
        );
        arithmetic && operands.first().is_some_and(half)
    }
}
