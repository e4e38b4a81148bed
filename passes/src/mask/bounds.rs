//! How much of a slice lies inside its tensor.

use melior::ir::{
    ValueLike, attribute::ArrayAttribute, attribute::StringAttribute, operation::OperationLike,
};
use phobos_dialect::{
    Op, PassError, Val,
    build::{Builder, IntegerPredicate},
    ir,
    types::{Dim, MemoryTensor},
};

use super::{Extents, Mask, shape_of};

impl<'c> Mask<'c> {
    /// The extents of the slice of `tile`'s shape at `offsets` inside `tensor`.
    pub(super) fn inside(
        &self,
        builder: &Builder<'c>,
        op: Op<'c>,
        tensor: Val<'c>,
        offsets: &[Val<'c>],
        tile: Val<'c>,
    ) -> Result<Extents<'c>, PassError> {
        let memory = MemoryTensor::from_type(tensor.r#type())
            .ok_or_else(|| PassError::at(op, "internal error: a slice of something that is no tensor"))?;
        let shape = shape_of(op, tile)?;
        let mut extents = Vec::new();
        for ((dim, offset), full) in memory.dims.iter().zip(offsets).zip(shape) {
            extents.push(if self.proven_inside(dim, *offset, full) {
                None
            } else {
                Some(self.extent(builder, dim, *offset, full)?)
            });
        }
        Ok(extents)
    }

    /// Whether all `full` lanes from `offset` are inside an axis of extent `dim`.
    pub(super) fn proven_inside(&self, dim: &Dim, offset: Val<'c>, full: i64) -> bool {
        match dim {
            Dim::Const(extent) => fits(offset, full, *extent),
            // The grid has exactly one program per position of the axis.
            Dim::Name(name) => full == 1 && self.is_program_of(offset, name),
        }
    }

    fn is_program_of(&self, offset: Val<'c>, dim: &str) -> bool {
        let Some(op) = ir::definition(offset).filter(|op| ir::name(*op) == "phobos.program_id") else {
            return false;
        };
        let axis = ir::integer_attribute(op, "axis").unwrap_or(3) as usize;
        let grid = self.kernel.attribute("grid").ok().and_then(|grid| ArrayAttribute::try_from(grid).ok());
        grid.and_then(|grid| grid.element(axis).ok())
            .and_then(|programs| StringAttribute::try_from(programs).ok())
            .is_some_and(|programs| programs.value() == dim)
    }
}

impl<'c> Mask<'c> {
    /// `clamp(end - offset, 0, full)`, and 0 for a negative offset.
    pub(super) fn lanes_before(
        &self,
        builder: &Builder<'c>,
        end: Val<'c>,
        offset: Val<'c>,
        full: i64,
    ) -> Result<Val<'c>, PassError> {
        let zero = builder.index_constant(0)?;
        let left = builder.binary("arith.subi", end, offset)?;
        let positive = builder.binary("arith.maxsi", left, zero)?;
        let clamped = builder.binary("arith.minsi", positive, builder.index_constant(full)?)?;
        if self.ranges.borrow_mut().of(offset).low >= 0 {
            return Ok(clamped);
        }
        let negative = builder.compare_integers(IntegerPredicate::SignedLess, offset, zero)?;
        builder.select(negative, zero, clamped)
    }

    /// The lanes of a slice of `full` at `offset` inside an axis of extent `dim`.
    fn extent(
        &self,
        builder: &Builder<'c>,
        dim: &Dim,
        offset: Val<'c>,
        full: i64,
    ) -> Result<Val<'c>, PassError> {
        let end = match dim {
            Dim::Const(extent) => builder.index_constant(*extent)?,
            Dim::Name(name) => builder.value(
                "phobos.dim",
                &[],
                builder.index(),
                &[("name", builder.string_attribute(name))],
            )?,
        };
        self.lanes_before(builder, end, offset, full)
    }
}

/// Whether `full` positions from a constant `offset` are inside `extent`.
pub(super) fn fits(offset: Val<'_>, full: i64, extent: i64) -> bool {
    ir::constant_integer(offset)
        .is_some_and(|offset| offset >= 0 && offset.checked_add(full).is_some_and(|end| end <= extent))
}
