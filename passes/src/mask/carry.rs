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

/// An axis of a carried value that gets an index value beside it.
struct Carried {
    /// Position among the carried values.
    position: usize,
    axis: usize,
    full: i64,
}

/// The values that control flow passes in and on. An `scf.while` passes two lists of their
/// own lengths and types: one to its condition, one from there to its body and its results.
struct Carry {
    /// What the operands and the last body's end pass to the first body.
    in_: Vec<Carried>,
    /// What becomes the results.
    out: Vec<Carried>,
}

/// What a body of control flow is given, and what its end passes on.
struct Passage<'a> {
    arguments: &'a [Carried],
    end: &'a [Carried],
}

impl Carry {
    fn passage(&self, op: Op<'_>, region: usize) -> Passage<'_> {
        match (ir::name(op), region) {
            ("scf.while", 0) => Passage { arguments: &self.in_, end: &self.out },
            ("scf.while", _) => Passage { arguments: &self.out, end: &self.in_ },
            ("scf.for", _) => Passage { arguments: &self.out, end: &self.out },
            _ => Passage { arguments: &[], end: &self.out },
        }
    }
}

/// The values that enter the first body.
fn initial(op: Op<'_>) -> Vec<Val<'_>> {
    let operands = ir::operands(op);
    match ir::name(op) {
        "scf.for" => operands[3..].to_vec(),
        "scf.while" => operands,
        _ => Vec::new(),
    }
}

/// The arguments of a body without the induction variable.
fn entering<'c>(op: Op<'c>, block: Blk<'c>) -> Vec<Val<'c>> {
    ir::arguments(block).split_off(usize::from(ir::name(op) == "scf.for"))
}

/// The values that a body's end passes on.
fn leaving(terminator: Op<'_>) -> Vec<Val<'_>> {
    ir::operands(terminator).split_off(usize::from(ir::name(terminator) == "scf.condition"))
}

impl<'c> Mask<'c> {
    /// Rebuilds an `scf.for`, `scf.while` or `scf.if` with the extents of its carried
    /// tiles, and goes through its bodies.
    pub(super) fn control_flow(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let mut flags = Partial::new(self);
        // Flags only grow and are finite: the loop ends. Loops inside take part in each
        // round, so that their number of rounds is not multiplied.
        while flags.operation(op) {}
        let carried = |values: &[Val<'c>]| -> Result<Vec<Carried>, PassError> {
            let mut carried = Vec::new();
            for (position, value) in values.iter().enumerate() {
                for (axis, partial) in flags.of(*value).into_iter().enumerate() {
                    if partial {
                        carried.push(Carried { position, axis, full: shape_of(op, *value)?[axis] });
                    }
                }
            }
            Ok(carried)
        };
        let results = ir::results(op);
        let first = ir::body(op, 0).filter(|_| ir::name(op) == "scf.while");
        let carry =
            Carry { in_: carried(&first.map(ir::arguments).unwrap_or_default())?, out: carried(&results)? };
        if carry.in_.is_empty() && carry.out.is_empty() {
            for block in ir::blocks(op) {
                self.block(block)?;
            }
            return Ok(());
        }
        let op = self.rebuild_with(op, &carry)?;
        for index in 0..op.region_count() {
            let Some(block) = ir::body(op, index) else { continue };
            let passage = carry.passage(op, index);
            let arguments = entering(op, block);
            let (values, extents) = arguments.split_at(arguments.len() - passage.arguments.len());
            self.adopt(values, extents, passage.arguments);
            self.block(block)?;
            self.extend_terminator(op, block, passage.end)?;
        }
        let all = ir::results(op);
        let (values, extents) = all.split_at(results.len());
        self.adopt(values, extents, &carry.out);
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
    fn rebuild_with(&mut self, op: Op<'c>, carry: &Carry) -> Result<Op<'c>, PassError> {
        let builder = Builder::before(op)?;
        let results = ir::results(op);
        let mut operands = ir::operands(op);
        let entered = match ir::name(op) {
            "scf.while" => &carry.in_[..],
            "scf.for" => &carry.out[..],
            _ => &[],
        };
        operands.extend(self.extents_of(&builder, &initial(op), entered)?);
        let mut types: Vec<_> = results.iter().map(ValueLike::r#type).collect();
        types.extend(carry.out.iter().map(|_| builder.index()));
        let regions = vec![&[][..]; op.region_count()];
        let new = builder.op(ir::name(op), &operands, &types, &[], &regions)?;
        for index in 0..op.region_count() {
            ir::take_region(new, op, index);
            let Some(block) = ir::body(new, index) else { continue };
            for _ in carry.passage(op, index).arguments {
                block.add_argument(builder.index(), Location::unknown(builder.context()));
            }
        }
        for (index, old) in results.iter().enumerate() {
            ir::replace_uses(*old, builder.result(new, index)?);
        }
        ir::erase(op);
        Ok(new)
    }

    /// Passes the extents on at the end of a body.
    fn extend_terminator(&self, op: Op<'c>, block: Blk<'c>, carried: &[Carried]) -> Result<(), PassError> {
        let terminator = block
            .terminator()
            .ok_or_else(|| PassError::at(op, "internal error: a body without a terminator"))?;
        let builder = Builder::before(terminator)?;
        let mut operands = ir::operands(terminator);
        operands.extend(self.extents_of(&builder, &leaving(terminator), carried)?);
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

    /// Finds the flags of an operation's results; whether anything changed.
    fn operation(&mut self, op: Op<'c>) -> bool {
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
                _ => return false,
            },
        ) else {
            return false;
        };
        self.join(result, &flags)
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

    /// One round through the bodies.
    fn control_flow(&mut self, op: Op<'c>) -> bool {
        let results = ir::results(op);
        let looped = ir::name(op) != "scf.if";
        let mut changed = false;
        let mut entry = initial(op);
        let mut ends = Vec::new();
        for index in 0..op.region_count() {
            let Some(block) = ir::body(op, index) else { continue };
            if looped {
                changed |= self.join_all(&entering(op, block), &entry);
            }
            for inner in ir::operations(block) {
                changed |= self.operation(inner);
            }
            let Some(terminator) = block.terminator() else { continue };
            entry = leaving(terminator);
            ends.push(entry.clone());
        }
        // The end of the last body is an entry of the first.
        if let Some(first) = ir::body(op, 0).filter(|_| looped) {
            changed |= self.join_all(&entering(op, first), &entry);
        }
        if ir::name(op) == "scf.while" {
            ends.truncate(1);
        }
        if ir::name(op) == "scf.for" {
            ends.push(initial(op));
        }
        for end in ends {
            changed |= self.join_all(&results, &end);
        }
        changed
    }

    fn join_all(&mut self, values: &[Val<'c>], others: &[Val<'c>]) -> bool {
        let mut changed = false;
        for (value, other) in values.iter().zip(others) {
            changed |= self.join(*value, &self.of(*other));
        }
        changed
    }
}
