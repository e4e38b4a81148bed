//! Extents through control flow.
//!
//! Which axes of a carried tile may be partly invalid is found first ([`Partial`],
//! a fixpoint over flags that changes nothing); then loops and branches are rebuilt
//! with one more index value per such axis.

use std::collections::BTreeMap;

use melior::ir::{BlockLike, Location, ValueLike, operation::OperationLike};
use phobos_dialect::{
    Blk, Op, PassError, Val,
    build::Builder,
    ir,
    types::{Dim, MemoryTensor},
};

use super::{Extents, Mask, shape_of};
use crate::tile_ops::{is_elementwise, tile_of, unit_reshape};

/// Axes of one carried value that get an index value beside them.
struct Carried {
    /// Position among the carried values.
    position: usize,
    axis: usize,
    full: i64,
}

impl<'c> Mask<'c> {
    /// Rebuilds an `scf.for`, `scf.while` or `scf.if` with the extents of its carried
    /// tiles, and goes through its bodies.
    pub(super) fn control_flow(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let mut flags = Partial::new(self);
        flags.operation(op);
        let results = ir::results(op);
        let mut carried = Vec::new();
        for (position, result) in results.iter().enumerate() {
            for (axis, partial) in flags.of(*result).into_iter().enumerate() {
                if partial {
                    carried.push(Carried { position, axis, full: shape_of(op, *result)?[axis] });
                }
            }
        }
        if carried.is_empty() {
            for block in ir::blocks(op) {
                self.block(block)?;
            }
            return Ok(());
        }
        let op = self.rebuild_with(op, &carried)?;
        for (index, block) in ir::blocks(op).into_iter().enumerate() {
            // Arguments: [induction variable] carried values, then their extents.
            let first = usize::from(ir::name(op) == "scf.for");
            let arguments = ir::arguments(block);
            if arguments.len() > first {
                let (values, extents) = arguments[first..].split_at(results.len());
                self.adopt(values, extents, &carried);
            }
            self.block(block)?;
            self.extend_terminator(op, block, index, &carried, results.len())?;
        }
        let (values, extents): (Vec<_>, Vec<_>) = {
            let all = ir::results(op);
            (all[..results.len()].to_vec(), all[results.len()..].to_vec())
        };
        self.adopt(&values, &extents, &carried);
        Ok(())
    }

    /// Records that `extents[i]` is the extent that `carried[i]` names.
    fn adopt(&mut self, values: &[Val<'c>], extents: &[Val<'c>], carried: &[Carried]) {
        for (place, extent) in carried.iter().zip(extents) {
            let Some(value) = values.get(place.position) else { continue };
            let mut all = self.of(*value);
            if let Some(slot) = all.get_mut(place.axis) {
                *slot = Some(*extent);
            }
            self.set(*value, all);
        }
    }

    fn extents_of(
        &self,
        builder: &Builder<'c>,
        values: &[Val<'c>],
        carried: &[Carried],
    ) -> Result<Vec<Val<'c>>, PassError> {
        carried
            .iter()
            .map(|place| {
                let known: Extents<'c> =
                    values.get(place.position).map(|value| self.of(*value)).unwrap_or_default();
                known
                    .get(place.axis)
                    .copied()
                    .flatten()
                    .map_or_else(|| builder.index_constant(place.full), Ok)
            })
            .collect()
    }

    /// The same operation with an index operand, argument and result per extent.
    fn rebuild_with(&mut self, op: Op<'c>, carried: &[Carried]) -> Result<Op<'c>, PassError> {
        let builder = Builder::before(op)?;
        let results = ir::results(op);
        let mut operands = ir::operands(op);
        let is_if = ir::name(op) == "scf.if";
        if !is_if {
            let initial = operands[operands.len() - results.len()..].to_vec();
            operands.extend(self.extents_of(&builder, &initial, carried)?);
        }
        let mut types: Vec<_> = results.iter().map(ValueLike::r#type).collect();
        types.extend(carried.iter().map(|_| builder.index()));
        let regions = vec![&[][..]; op.region_count()];
        let new = builder.op(ir::name(op), &operands, &types, &[], &regions)?;
        for index in 0..op.region_count() {
            ir::take_region(new, op, index);
        }
        for block in ir::blocks(new) {
            if !is_if {
                for _ in carried {
                    block.add_argument(builder.index(), Location::unknown(builder.context()));
                }
            }
        }
        for (index, old) in results.iter().enumerate() {
            ir::replace_uses(*old, builder.result(new, index)?);
        }
        ir::erase(op);
        Ok(new)
    }

    /// Passes the extents on at the end of a body.
    fn extend_terminator(
        &self,
        op: Op<'c>,
        block: Blk<'c>,
        region: usize,
        carried: &[Carried],
        count: usize,
    ) -> Result<(), PassError> {
        let terminator = block
            .terminator()
            .ok_or_else(|| PassError::at(op, "internal error: a body without a terminator"))?;
        let builder = Builder::before(terminator)?;
        let mut operands = ir::operands(terminator);
        let first = usize::from(ir::name(op) == "scf.while" && region == 0);
        let values = operands[first..first + count].to_vec();
        operands.extend(self.extents_of(&builder, &values, carried)?);
        builder.copy(terminator, &operands, &[])?;
        ir::erase(terminator);
        Ok(())
    }
}

/// For each tile value, which axes may be partly invalid.
struct Partial<'m, 'c> {
    mask: &'m Mask<'c>,
    flags: BTreeMap<usize, Vec<bool>>,
}

impl<'m, 'c> Partial<'m, 'c> {
    fn new(mask: &'m Mask<'c>) -> Partial<'m, 'c> {
        Partial { mask, flags: BTreeMap::new() }
    }

    fn of(&self, value: Val<'c>) -> Vec<bool> {
        match self.flags.get(&ir::value_key(value)) {
            Some(flags) => flags.clone(),
            None => self.mask.of(value).iter().map(Option::is_some).collect(),
        }
    }

    /// Joins flags into a value; whether anything changed.
    fn join(&mut self, value: Val<'c>, flags: &[bool]) -> bool {
        let mut all = self.of(value);
        let before = all.clone();
        for (slot, flag) in all.iter_mut().zip(flags) {
            *slot |= *flag;
        }
        let changed = all != before;
        self.flags.insert(ir::value_key(value), all);
        changed
    }

    fn operation(&mut self, op: Op<'c>) {
        let operands = ir::operands(op);
        let results = ir::results(op);
        let (Some(result), flags) = (
            results.first().copied(),
            match ir::name(op) {
                "scf.for" | "scf.while" | "scf.if" => return self.control_flow(op),
                "phobos.load" => self.load(op),
                "phobos.dot" => {
                    let n = usize::from(!op.has_attribute("transposed"));
                    let (a, b, c) = (self.of(operands[0]), self.of(operands[1]), self.of(operands[2]));
                    vec![a[0] | c[0], b[n] | c[1]]
                }
                "phobos.reduce" | "phobos.arg_reduce" => {
                    let mut flags = self.of(operands[0]);
                    if let Some(flag) = flags.get_mut(ir::integer_attribute(op, "axis").unwrap_or(0) as usize)
                    {
                        *flag = false;
                    }
                    flags
                }
                "phobos.transpose" => {
                    let mut flags = self.of(operands[0]);
                    let rank = flags.len();
                    if rank >= 2 {
                        flags.swap(rank - 1, rank - 2);
                    }
                    flags
                }
                "phobos.scan" | "phobos.decode" | "phobos.quantize" => self.of(operands[0]),
                "phobos.insert" => self.of(operands[1]),
                // Any axis of the slice may end where the tile's validity does.
                "phobos.extract" => vec![true; self.of(operands[0]).len()],
                "phobos.reshape" => self.reshape(op),
                "phobos.map" | "phobos.broadcast" => self.stretched(op),
                _ if is_elementwise(op) => self.stretched(op),
                _ => return,
            },
        ) else {
            return;
        };
        self.join(result, &flags);
    }

    fn load(&self, op: Op<'c>) -> Vec<bool> {
        let segments = ir::operand_segments(op);
        let [tensor, offsets, other, ..] = &segments[..] else { return Vec::new() };
        let memory = tensor.first().and_then(|tensor| MemoryTensor::from_type(tensor.r#type()));
        let shape = ir::results(op).first().and_then(|tile| tile_of(*tile)).and_then(|tile| tile.shape());
        let (Some(memory), Some(shape)) = (memory, shape) else { return Vec::new() };
        memory
            .dims
            .iter()
            .zip(offsets)
            .zip(shape)
            .map(|((dim, offset), full): ((&Dim, &Val<'c>), i64)| {
                other.is_empty() && !self.mask.proven_inside(dim, *offset, full)
            })
            .collect()
    }

    fn reshape(&self, op: Op<'c>) -> Vec<bool> {
        let shape = |value: &Val<'c>| tile_of(*value).and_then(|tile| tile.shape()).unwrap_or_default();
        let (from, to) = match (&ir::operands(op)[..], &ir::results(op)[..]) {
            ([input], [result]) => (shape(input), shape(result)),
            _ => return Vec::new(),
        };
        let flags = ir::operands(op).first().map(|input| self.of(*input)).unwrap_or_default();
        let Some(axes) = unit_reshape(op, &from, &to) else {
            return vec![flags.contains(&true); to.len()];
        };
        let mut target: Vec<bool> =
            axes.kept.iter().map(|axis| axis.is_some_and(|axis| flags[axis])).collect();
        if let Some(first) = target.first_mut() {
            *first |= axes.dropped.iter().any(|axis| flags[*axis]);
        }
        target
    }

    fn stretched(&self, op: Op<'c>) -> Vec<bool> {
        let rank = ir::results(op).first().and_then(|tile| tile_of(*tile)).map_or(0, |tile| tile.dims.len());
        let mut flags = vec![false; rank];
        for operand in ir::operands(op) {
            let small = self.of(operand);
            let lead = rank.saturating_sub(small.len());
            for (slot, flag) in flags[lead..].iter_mut().zip(small) {
                *slot |= flag;
            }
        }
        flags
    }

    fn control_flow(&mut self, op: Op<'c>) {
        let results = ir::results(op);
        let first = usize::from(ir::name(op) == "scf.for");
        if ir::name(op) != "scf.if" {
            let operands = ir::operands(op);
            let initial = operands[operands.len() - results.len()..].to_vec();
            for (result, value) in results.iter().zip(initial) {
                self.join(*result, &self.of(value));
            }
        }
        // Flags only grow and are finite: the loop ends.
        loop {
            let mut changed = false;
            for block in ir::blocks(op) {
                for (argument, result) in ir::arguments(block).iter().skip(first).zip(&results) {
                    self.join(*argument, &self.of(*result));
                }
                for inner in ir::operations(block) {
                    self.operation(inner);
                }
                let Some(terminator) = block.terminator() else { continue };
                let skip = usize::from(ir::name(terminator) == "scf.condition");
                for (result, value) in results.iter().zip(ir::operands(terminator).into_iter().skip(skip)) {
                    changed |= self.join(*result, &self.of(value));
                }
            }
            if !changed {
                return;
            }
        }
    }
}
