//! Reductions and scans: the valid lanes only, in a fixed order.

use melior::ir::ValueLike;
use phobos_dialect::{Op, PassError, Type, Val, build::lanes, ir, types::ReduceKind};

use super::{
    Lowering,
    emit::Size,
    source::{Chunk, Kind, Source},
};

/// What combines two elements, and the identity.
#[derive(Clone, Copy)]
pub(super) struct Combine {
    name: &'static str,
    identity: f64,
}

impl Combine {
    /// `None` for kinds that an element type does not have.
    fn of(kind: ReduceKind, element: Type<'_>) -> Option<Combine> {
        let float = ir::is_float(element);
        let bits = ir::bit_width(element)?;
        let (least, greatest) = match bits {
            1 => (0.0, 1.0),
            bits => (-(2f64.powi(bits as i32 - 1)), 2f64.powi(bits as i32 - 1) - 1.0),
        };
        let (name, identity) = match (kind, float) {
            (ReduceKind::Sum, true) => ("arith.addf", 0.0),
            (ReduceKind::Sum, false) => ("arith.addi", 0.0),
            (ReduceKind::Prod, true) => ("arith.mulf", 1.0),
            (ReduceKind::Prod, false) => ("arith.muli", 1.0),
            (ReduceKind::Max, true) => ("arith.maximumf", f64::NEG_INFINITY),
            (ReduceKind::Max, false) => ("arith.maxsi", least),
            (ReduceKind::Min, true) => ("arith.minimumf", f64::INFINITY),
            (ReduceKind::Min, false) => ("arith.minsi", greatest),
            (ReduceKind::Any, false) if bits == 1 => ("arith.ori", 0.0),
            (ReduceKind::All, false) if bits == 1 => ("arith.andi", 1.0),
            (ReduceKind::Any | ReduceKind::All, _) => return None,
        };
        Some(Combine { name, identity })
    }
}

impl<'c> Lowering<'c> {
    pub(super) fn combine_of(&self, op: Op<'c>, element: Type<'c>) -> Result<Combine, PassError> {
        use melior::ir::operation::OperationLike;
        op.attribute("kind")
            .ok()
            .and_then(ReduceKind::from_attribute)
            .and_then(|kind| Combine::of(kind, element))
            .ok_or_else(|| PassError::at(op, "this reduction does not exist for the element type"))
    }

    /// Combines two values of the type that is accumulated in.
    fn combine(&self, combine: Combine, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>, PassError> {
        self.b.binary(combine.name, a, b)
    }

    /// The type that a reduction accumulates in: f32 for half types.
    fn accumulator(&self, element: Type<'c>) -> Type<'c> {
        if ir::is_float(element) && ir::bit_width(element) == Some(16) { self.b.f32() } else { element }
    }

    fn widen(&self, value: Val<'c>, element: Type<'c>) -> Result<Val<'c>, PassError> {
        if ir::is_float(element) { self.convert_float(value, element) } else { Ok(value) }
    }

    /// All lanes of a vector combined: halves against each other, then quarters, ...
    pub(super) fn across(&self, combine: Combine, mut vector: Val<'c>) -> Result<Val<'c>, PassError> {
        let mut width = lanes(vector.r#type()) as i64;
        while width > 1 {
            width /= 2;
            let low: Vec<i64> = (0..width).collect();
            let high: Vec<i64> = (width..2 * width).collect();
            let (a, b) = (self.shuffle(vector, vector, &low)?, self.shuffle(vector, vector, &high)?);
            vector = self.combine(combine, a, b)?;
        }
        self.lane(vector, 0)
    }

    /// The largest lane of a vector of integers.
    pub(super) fn largest_across(&self, vector: Val<'c>) -> Result<Val<'c>, PassError> {
        self.across(Combine { name: "arith.maxsi", identity: 0.0 }, vector)
    }

    pub(super) fn sum_across(&self, vector: Val<'c>) -> Result<Val<'c>, PassError> {
        let name = if ir::is_float(phobos_dialect::build::element_type(vector.r#type())) {
            "arith.addf"
        } else {
            "arith.addi"
        };
        self.across(Combine { name, identity: 0.0 }, vector)
    }

    pub(super) fn reduce(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let mut input = self.source(operands[0])?;
        input.extents = self.extents(&input.shape, &operands[1..])?;
        let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        let combine = self.combine_of(op, element)?;
        let wide = self.accumulator(element);
        let view = self.scratch_tile(&shape, element)?;
        let lane_axis = input.lane_axis();
        let (in_shape, extents) = (input.shape.clone(), input.extents.clone());
        if axis == lane_axis {
            self.for_outer(&in_shape, &extents, &[axis], &mut |lowering, index| {
                let total = lowering.reduce_row(&input, combine, wide, axis, index)?;
                let total = lowering.widen(total, element)?;
                let mut place = index.to_vec();
                place[axis] = Size::Const(0);
                let pointer = lowering.address(&view, &place)?;
                lowering.store_element(total, pointer, None)
            })?;
        } else {
            // Lanes stay apart: one vector runs down the axis.
            self.for_outer(&in_shape, &extents, &[axis, lane_axis], &mut |lowering, index| {
                lowering.for_lanes(
                    &in_shape,
                    &extents,
                    lane_axis,
                    input.granularity(),
                    index,
                    &mut |lowering, chunk| {
                        let ty = lowering.b.vector(chunk.width, wide);
                        let first = vec![lowering.b.constant(ty, combine.identity)?; chunk.vectors];
                        let totals = lowering.for_loop(
                            Size::Const(0),
                            extents[axis],
                            1,
                            &first,
                            |lowering, position, sums| {
                                let mut here = chunk.clone();
                                here.index[axis] = position;
                                let values = lowering.read(&input, &here)?;
                                values
                                    .iter()
                                    .zip(sums)
                                    .map(|(value, sum)| {
                                        let value = lowering.widen(*value, wide)?;
                                        lowering.combine(combine, *sum, value)
                                    })
                                    .collect()
                            },
                        )?;
                        let totals = totals
                            .into_iter()
                            .map(|total| lowering.widen(total, element))
                            .collect::<Result<Vec<_>, _>>()?;
                        let mut place = chunk.clone();
                        place.index[axis] = Size::Const(0);
                        lowering.write(&view, &place, &totals)
                    },
                )
            })?;
        }
        let mut source = Source::whole(Kind::View(view), element, shape);
        for (other, extent) in input.extents.iter().enumerate() {
            if other != axis {
                source.extents[other] = *extent;
            }
        }
        self.define(result, source);
        Ok(())
    }

    /// One row combined to a scalar of type `wide`.
    fn reduce_row(
        &mut self,
        input: &Source<'c>,
        combine: Combine,
        wide: Type<'c>,
        axis: usize,
        index: &[Size<'c>],
    ) -> Result<Val<'c>, PassError> {
        let width = self.target.lanes.min((input.shape[axis] as u64).next_power_of_two());
        let unit = width.max(input.granularity());
        let vectors = (unit / width) as usize;
        let ty = self.b.vector(width, wide);
        let identity = self.b.constant(ty, combine.identity)?;
        let extent = input.extents[axis];
        let whole = self.round_down(extent, unit as i64)?;
        let chunk_at = |position: Size<'c>| {
            let mut index = index.to_vec();
            index[axis] = position;
            Chunk { index, axis, width, vectors, tail: None }
        };
        let sums =
            self.for_loop(Size::Const(0), whole, unit as i64, &[identity], |lowering, position, sums| {
                let mut sum = sums[0];
                for value in lowering.read(input, &chunk_at(position))? {
                    let value = lowering.widen(value, wide)?;
                    sum = lowering.combine(combine, sum, value)?;
                }
                Ok(vec![sum])
            })?;
        let mut sum = sums[0];
        if !self.is_multiple(extent, unit as i64) {
            // The tail, with the identity in the lanes beyond. No iteration or one.
            let tails = self.for_loop(whole, extent, unit as i64, &[sum], |lowering, position, sums| {
                let left =
                    lowering.b.binary("arith.subi", lowering.value(extent)?, lowering.value(position)?)?;
                let mask = lowering.mask_below(left, width)?;
                let mut chunk = chunk_at(position);
                chunk.tail = Some((mask, left));
                let mut sum = sums[0];
                for (vector, value) in lowering.read(input, &chunk)?.into_iter().enumerate() {
                    let value = lowering.widen(value, wide)?;
                    let inside = lowering.tail_mask(&chunk, vector)?.unwrap_or(mask);
                    let value = lowering.b.select(inside, value, identity)?;
                    sum = lowering.combine(combine, sum, value)?;
                }
                Ok(vec![sum])
            })?;
            sum = tails[0];
        }
        self.across(combine, sum)
    }

    /// The running combination along an axis.
    pub(super) fn scan(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let mut input = self.source(operands[0])?;
        input.extents = self.extents(&input.shape, &operands[1..])?;
        let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
        let (shape, element) = self.shape(ir::results(op)[0])?;
        let combine = self.combine_of(op, element)?;
        let wide = self.accumulator(element);
        if input.granularity() > 1 {
            input = self.materialize(&input)?;
        }
        let view = self.scratch_tile(&shape, element)?;
        let extents = input.extents.clone();
        let lane_axis = input.lane_axis();
        let mut step = |lowering: &mut Self, chunk: &Chunk<'c>| -> Result<(), PassError> {
            let ty = lowering.b.vector(chunk.width, wide);
            let first = lowering.b.constant(ty, combine.identity)?;
            lowering.for_loop(Size::Const(0), extents[axis], 1, &[first], |lowering, position, sums| {
                let mut here = chunk.clone();
                here.index[axis] = position;
                let values = lowering.read(&input, &here)?;
                let value = lowering.widen(values[0], wide)?;
                let sum = lowering.combine(combine, sums[0], value)?;
                let rounded = lowering.widen(sum, element)?;
                lowering.write(&view, &here, &[rounded])?;
                Ok(vec![sum])
            })?;
            Ok(())
        };
        if axis == lane_axis {
            self.for_outer(&shape, &extents, &[axis], &mut |lowering, index| {
                step(lowering, &Chunk { index: index.to_vec(), axis, width: 1, vectors: 1, tail: None })
            })?;
        } else {
            self.for_outer(&shape, &extents, &[axis, lane_axis], &mut |lowering, index| {
                lowering.for_lanes(&shape, &extents, lane_axis, 1, index, &mut step)
            })?;
        }
        let source =
            Source { kind: Kind::View(view), element, shape: shape.clone(), extents: extents.clone() };
        self.define(ir::results(op)[0], source);
        Ok(())
    }
}
