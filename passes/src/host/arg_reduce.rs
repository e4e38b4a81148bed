//! `phobos.arg_reduce`: positions of the largest or smallest elements.

use melior::ir::{ValueLike, operation::OperationLike};
use phobos_dialect::{
    Op, PassError, Type, Val,
    build::{FloatPredicate, IntegerPredicate, element_type},
    ir,
};

use super::{
    Lowering,
    emit::Size,
    source::{Chunk, Kind, Source},
};

impl<'c> Lowering<'c> {
    pub(super) fn arg_reduce(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let mut input = self.source(operands[0])?;
        input.extents = self.extents(&input.shape, &operands[1..])?;
        if input.granularity() > 1 {
            input = self.materialize(&input)?;
        }
        let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
        let smallest = op.has_attribute("smallest");
        let (shape, element) = self.shape(ir::results(op)[0])?;
        let view = self.scratch_tile(&shape, element)?;
        let (in_shape, extents, lane_axis) = (input.shape.clone(), input.extents.clone(), input.lane_axis());
        let mut step = |lowering: &mut Self, chunk: &Chunk<'c>| -> Result<(), PassError> {
            let positions = lowering.b.vector(chunk.width, element);
            // All elements equal to the identity leave position 0, the first.
            let worst = lowering.worst(input.element, smallest)?;
            let first = [lowering.splat(worst, chunk.width)?, lowering.b.integer(positions, 0)?];
            let found =
                lowering.for_loop(Size::Const(0), extents[axis], 1, &first, |lowering, at, found| {
                    let mut here = chunk.clone();
                    here.index[axis] = at;
                    let value = lowering.read(&input, &here)?[0];
                    let better = lowering.is_better(value, found[0], smallest)?;
                    let position = lowering.value(at)?;
                    let position = lowering.resize(position, element)?;
                    let position = lowering.splat(position, chunk.width)?;
                    Ok(vec![
                        lowering.b.select(better, value, found[0])?,
                        lowering.b.select(better, position, found[1])?,
                    ])
                })?;
            let mut start = chunk.clone();
            start.index[axis] = Size::Const(0);
            lowering.write(&view, &start, &found[1..])
        };
        if axis == lane_axis {
            self.for_outer(&in_shape, &extents, &[axis], &mut |lowering, index| {
                step(lowering, &Chunk { index: index.to_vec(), axis, width: 1, vectors: 1, tail: None })
            })?;
        } else {
            self.for_outer(&in_shape, &extents, &[axis, lane_axis], &mut |lowering, index| {
                lowering.for_lanes(&in_shape, &extents, lane_axis, 1, index, &mut step)
            })?;
        }
        let mut source = Source::whole(Kind::View(view), element, shape);
        for (other, extent) in extents.iter().enumerate().filter(|(other, _)| *other != axis) {
            source.extents[other] = *extent;
        }
        self.define(ir::results(op)[0], source);
        Ok(())
    }

    /// A scalar that no element is worse than.
    fn worst(&self, element: Type<'c>, smallest: bool) -> Result<Val<'c>, PassError> {
        if ir::is_float(element) {
            return self.b.constant(element, if smallest { f64::INFINITY } else { f64::NEG_INFINITY });
        }
        let bits = ir::bit_width(element).unwrap_or(32);
        let least = if bits == 64 { i64::MIN } else { -(1 << (bits - 1)) };
        self.b.integer(element, if smallest { !least } else { least })
    }

    /// Whether `value` beats `best`: larger (or smaller), or the first NaN.
    fn is_better(&self, value: Val<'c>, best: Val<'c>, smallest: bool) -> Result<Val<'c>, PassError> {
        let element = element_type(value.r#type());
        if !ir::is_float(element) {
            let predicate =
                if smallest { IntegerPredicate::SignedLess } else { IntegerPredicate::SignedGreater };
            return self.b.compare_integers(predicate, value, best);
        }
        let wide = if ir::bit_width(element) == Some(16) { self.b.f32() } else { element };
        let (value, best) = (self.convert_float(value, wide)?, self.convert_float(best, wide)?);
        let predicate = if smallest { FloatPredicate::OrderedLess } else { FloatPredicate::OrderedGreater };
        let beats = self.b.compare_floats(predicate, value, best)?;
        let is_nan = self.b.compare_floats(FloatPredicate::Unordered, value, value)?;
        let ordered = self.b.compare_floats(FloatPredicate::OrderedEqual, best, best)?;
        let first_nan = self.b.binary("arith.andi", is_nan, ordered)?;
        self.b.binary("arith.ori", beats, first_nan)
    }
}
