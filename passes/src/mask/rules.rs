//! The rule of each operation: its extents from its operands' extents.

use melior::ir::{ValueLike, operation::OperationLike};
use phobos_dialect::{Op, PassError, Type, Val, build::Builder, ir};

use super::{Extents, Mask, bounds::fits, shape_of};
use crate::tile_ops::{is_elementwise, tile_of, unit_reshape};

impl<'c> Mask<'c> {
    pub(super) fn operation(&mut self, op: Op<'c>) -> Result<(), PassError> {
        match ir::name(op) {
            "phobos.load" => self.load(op),
            "phobos.store" => self.store(op),
            "phobos.map" => self.map(op),
            "phobos.dot" => self.dot(op),
            "phobos.reduce" | "phobos.arg_reduce" => self.reduce(op),
            "phobos.scan" => self.scan(op),
            "phobos.broadcast" => self.broadcast(op),
            "phobos.reshape" => self.reshape(op),
            "phobos.transpose" => self.transpose(op),
            "phobos.decode" | "phobos.quantize" => {
                let extents = self.of(operand(op, 0)?);
                self.set(result(op)?, extents);
                Ok(())
            }
            "phobos.extract" => self.extract(op),
            "phobos.insert" => self.insert(op),
            "scf.for" | "scf.while" | "scf.if" => self.control_flow(op),
            _ if is_elementwise(op) => {
                let builder = Builder::before(op)?;
                let tiles: Vec<_> =
                    ir::operands(op).into_iter().filter(|value| tile_of(*value).is_some()).collect();
                let extents = self.intersect(&builder, op, &tiles)?;
                self.set(result(op)?, extents);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn load(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [tensor, offsets, other, valid] = &segments[..] else { return malformed(op) };
        let ([tensor], []) = (&tensor[..], &valid[..]) else { return already(op) };
        let builder = Builder::before(op)?;
        let tile = result(op)?;
        let extents = self.inside(&builder, op, *tensor, offsets, tile)?;
        let valid = Self::operands(&builder, &extents, &shape_of(op, tile)?)?;
        let mut operands = vec![*tensor];
        operands.extend(offsets);
        operands.extend(other);
        operands.extend(&valid);
        let sizes = builder.segments(&[1, offsets.len(), other.len(), valid.len()]);
        let masked = self.rebuild(&builder, op, &operands, &[sizes])?;
        if other.is_empty() {
            self.set(masked, extents);
        }
        Ok(())
    }

    fn store(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [value, tensor, offsets, valid] = &segments[..] else { return malformed(op) };
        let ([value], [tensor], []) = (&value[..], &tensor[..], &valid[..]) else { return already(op) };
        let builder = Builder::before(op)?;
        let mut extents = self.inside(&builder, op, *tensor, offsets, *value)?;
        for (extent, lanes) in extents.iter_mut().zip(self.of(*value)) {
            *extent = Self::meet(&builder, *extent, lanes)?;
        }
        let valid = Self::operands(&builder, &extents, &shape_of(op, *value)?)?;
        let mut operands = vec![*value, *tensor];
        operands.extend(offsets);
        operands.extend(&valid);
        let sizes = builder.segments(&[1, 1, offsets.len(), valid.len()]);
        builder.op("phobos.store", &operands, &[], &[sizes], &[])?;
        ir::erase(op);
        Ok(())
    }

    fn map(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [inputs, valid] = &segments[..] else { return malformed(op) };
        if !valid.is_empty() {
            return already(op);
        }
        let builder = Builder::before(op)?;
        let tiles: Vec<_> = inputs.iter().copied().filter(|input| tile_of(*input).is_some()).collect();
        let tile = result(op)?;
        let extents = self.intersect(&builder, op, &tiles)?;
        let valid = Self::operands(&builder, &extents, &shape_of(op, tile)?)?;
        if valid.is_empty() {
            return Ok(());
        }
        let mut operands = inputs.clone();
        operands.extend(&valid);
        let sizes = builder.segments(&[inputs.len(), valid.len()]);
        let masked = builder.op("phobos.map", &operands, &[tile.r#type()], &[sizes], &[&[]])?;
        ir::take_region(masked, op, 0);
        self.replace(op, builder.result(masked, 0)?, extents)
    }

    /// The meet of tiles' extents in the shape of `op`'s result, with stretching.
    fn intersect(
        &self,
        builder: &Builder<'c>,
        op: Op<'c>,
        tiles: &[Val<'c>],
    ) -> Result<Extents<'c>, PassError> {
        let shape = shape_of(op, result(op)?)?;
        let mut extents: Extents<'c> = vec![None; shape.len()];
        for tile in tiles {
            let stretched = self.stretched(builder, op, *tile, &shape)?;
            for (extent, other) in extents.iter_mut().zip(stretched) {
                *extent = Self::meet(builder, *extent, other)?;
            }
        }
        Ok(extents)
    }

    /// A tile's extents after stretching to `shape`: where an axis of extent 1 was
    /// stretched, its one lane decides about all.
    fn stretched(
        &self,
        builder: &Builder<'c>,
        op: Op<'c>,
        tile: Val<'c>,
        shape: &[i64],
    ) -> Result<Extents<'c>, PassError> {
        let small = shape_of(op, tile)?;
        let lead = shape.len().saturating_sub(small.len());
        let mut extents = vec![None; lead];
        for (axis, extent) in self.of(tile).into_iter().enumerate() {
            let full = shape.get(lead + axis).copied().unwrap_or(1);
            extents.push(match extent {
                Some(lane) if small.get(axis) == Some(&1) && full != 1 => {
                    Some(builder.binary("arith.muli", lane, builder.index_constant(full)?)?)
                }
                other => other,
            });
        }
        Ok(extents)
    }

    fn broadcast(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let builder = Builder::before(op)?;
        let shape = shape_of(op, result(op)?)?;
        let extents = self.stretched(&builder, op, operand(op, 0)?, &shape)?;
        self.set(result(op)?, extents);
        Ok(())
    }

    fn dot(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let [lhs, rhs, acc] = operands[..] else { return already(op) };
        let builder = Builder::before(op)?;
        let transposed = op.has_attribute("transposed");
        let (a, b, c) = (self.of(lhs), self.of(rhs), self.of(acc));
        let (n, k) = if transposed { (0, 1) } else { (1, 0) };
        let m = Self::meet(&builder, a[0], c[0])?;
        let n = Self::meet(&builder, b[n], c[1])?;
        let k = Self::meet(&builder, a[1], b[k])?;
        let shape = shape_of(op, acc)?;
        let depth = shape_of(op, lhs)?[1];
        let valid = Self::operands(&builder, &vec![m, n, k], &[shape[0], shape[1], depth])?;
        let mut all = vec![lhs, rhs, acc];
        all.extend(&valid);
        let masked = self.rebuild(&builder, op, &all, &[])?;
        self.set(masked, vec![m, n]);
        Ok(())
    }

    fn reduce(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let [input] = operands[..] else { return already(op) };
        let builder = Builder::before(op)?;
        let mut extents = self.of(input);
        let valid = Self::operands(&builder, &extents, &shape_of(op, input)?)?;
        let mut all = vec![input];
        all.extend(&valid);
        let masked = self.rebuild(&builder, op, &all, &[])?;
        let axis = ir::integer_attribute(op_of(masked)?, "axis").unwrap_or(0) as usize;
        if let Some(extent) = extents.get_mut(axis) {
            // An empty sum is the identity: the reduced axis is always valid.
            *extent = None;
        }
        self.set(masked, extents);
        Ok(())
    }

    fn scan(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let [input] = operands[..] else { return already(op) };
        let builder = Builder::before(op)?;
        let extents = self.of(input);
        let valid = Self::operands(&builder, &extents, &shape_of(op, input)?)?;
        let mut all = vec![input];
        all.extend(&valid);
        let masked = self.rebuild(&builder, op, &all, &[])?;
        self.set(masked, extents);
        Ok(())
    }

    fn transpose(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let mut extents = self.of(operand(op, 0)?);
        let rank = extents.len();
        if rank >= 2 {
            extents.swap(rank - 1, rank - 2);
        }
        self.set(result(op)?, extents);
        Ok(())
    }

    /// Axes of extent 1 may come and go ([`unit_reshape`]). Merging or splitting other
    /// axes needs a whole tile.
    fn reshape(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let builder = Builder::before(op)?;
        let input = operand(op, 0)?;
        let (from, to) = (shape_of(op, input)?, shape_of(op, result(op)?)?);
        let extents = self.of(input);
        if extents.iter().all(Option::is_none) {
            return Ok(());
        }
        let Some(axes) = unit_reshape(op, &from, &to) else {
            return Err(PassError::user(
                op,
                "this reshape merges or splits axes of a tile that may be partly outside its tensor: give the load an \
                 `else` value, or make the extents divide",
            ));
        };
        let mut target: Extents<'c> =
            axes.kept.iter().map(|axis| axis.and_then(|axis| extents[axis])).collect();
        for lane in axes.dropped.iter().filter_map(|axis| extents[*axis]) {
            let first = target[0].map_or_else(|| builder.index_constant(to[0]), Ok)?;
            target[0] = Some(builder.binary("arith.muli", first, lane)?);
        }
        self.set(result(op)?, target);
        Ok(())
    }

    fn extract(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let builder = Builder::before(op)?;
        let operands = ir::operands(op);
        let Some((input, offsets)) = operands.split_first() else { return malformed(op) };
        let (whole, slice) = (shape_of(op, *input)?, shape_of(op, result(op)?)?);
        let mut extents = Vec::new();
        for (axis, valid) in self.of(*input).into_iter().enumerate() {
            extents.push(if valid.is_none() && fits(offsets[axis], slice[axis], whole[axis]) {
                None
            } else {
                let end = valid.map_or_else(|| builder.index_constant(whole[axis]), Ok)?;
                Some(self.lanes_before(&builder, end, offsets[axis], slice[axis])?)
            });
        }
        self.set(result(op)?, extents);
        Ok(())
    }

    /// The invalid lanes of the new part become 0; the tile stays as valid as it was.
    fn insert(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [value, dest, offsets, valid] = &segments[..] else { return malformed(op) };
        let ([value], [dest], []) = (&value[..], &dest[..], &valid[..]) else { return already(op) };
        let builder = Builder::before(op)?;
        let valid = Self::operands(&builder, &self.of(*value), &shape_of(op, *value)?)?;
        let mut operands = vec![*value, *dest];
        operands.extend(offsets);
        operands.extend(&valid);
        let sizes = builder.segments(&[1, 1, offsets.len(), valid.len()]);
        let extents = self.of(*dest);
        let masked = self.rebuild(&builder, op, &operands, &[sizes])?;
        self.set(masked, extents);
        Ok(())
    }

    /// A copy of `op` with other operands in its place; returns its result.
    fn rebuild(
        &mut self,
        builder: &Builder<'c>,
        op: Op<'c>,
        operands: &[Val<'c>],
        overrides: &[(&'static str, phobos_dialect::Attribute<'c>)],
    ) -> Result<Val<'c>, PassError> {
        let types: Vec<Type<'c>> = ir::results(op).iter().map(ValueLike::r#type).collect();
        let copy = builder.copy(op, operands, &types)?;
        for (name, value) in overrides {
            ir::set_attribute(copy, name, *value);
        }
        let value = builder.result(copy, 0)?;
        ir::replace_uses(result(op)?, value);
        ir::erase(op);
        Ok(value)
    }

    fn replace(&mut self, op: Op<'c>, value: Val<'c>, extents: Extents<'c>) -> Result<(), PassError> {
        ir::replace_uses(result(op)?, value);
        ir::erase(op);
        self.set(value, extents);
        Ok(())
    }
}

fn result<'c>(op: Op<'c>) -> Result<Val<'c>, PassError> {
    ir::results(op)
        .first()
        .copied()
        .ok_or_else(|| PassError::at(op, format!("internal error: {} has no result", ir::name(op))))
}

fn operand<'c>(op: Op<'c>, index: usize) -> Result<Val<'c>, PassError> {
    op.operand(index)
        .map_err(|_| PassError::at(op, format!("internal error: {} has no operand", ir::name(op))))
}

fn op_of<'c>(value: Val<'c>) -> Result<Op<'c>, PassError> {
    ir::definition(value).ok_or_else(|| PassError::new(value.location(), "internal error: not a result"))
}

fn malformed(op: Op<'_>) -> Result<(), PassError> {
    Err(PassError::at(op, format!("internal error: {} has unexpected operands", ir::name(op))))
}

fn already(op: Op<'_>) -> Result<(), PassError> {
    Err(PassError::at(op, format!("{} already has valid extents: phobos-mask runs once", ir::name(op))))
}
