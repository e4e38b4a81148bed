//! Blocks and control flow. Scalars are carried by `scf` operations as before; every
//! carried tile gets a scratch buffer that each iteration updates.

use melior::ir::{BlockLike, ValueLike, operation::OperationLike};
use phobos_dialect::{Blk, Op, PassError, Val, build::IntegerPredicate, ir, types::Tile};

use super::{
    Lowering,
    source::{Kind, MapInput, Source},
};

impl<'c> Lowering<'c> {
    pub(super) fn block(&mut self, block: Blk<'c>) -> Result<(), PassError> {
        for op in ir::operations(block) {
            let outer = self.b;
            self.b = outer.with_location(op.location());
            self.operation(op)?;
            self.b = outer;
        }
        Ok(())
    }

    fn operation(&mut self, op: Op<'c>) -> Result<(), PassError> {
        match ir::name(op) {
            // Terminators are made by whoever lowers the region.
            "phobos.return" | "scf.yield" | "scf.condition" => Ok(()),
            "scf.for" => self.lower_for(op),
            "scf.if" => self.lower_if(op),
            "scf.while" => self.lower_while(op),
            "phobos.program_id" => {
                let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
                let value = self.program_ids.get(axis).copied();
                let value = value.ok_or_else(|| PassError::at(op, "internal error: no such grid axis"))?;
                self.values.insert(ir::value_key(ir::results(op)[0]), value);
                Ok(())
            }
            "phobos.dim" => {
                let name = ir::string_attribute(op, "name").unwrap_or("");
                let value = self.dims.get(name).copied();
                let value = value
                    .ok_or_else(|| PassError::at(op, format!("internal error: dim {name} is unknown")))?;
                self.values.insert(ir::value_key(ir::results(op)[0]), value);
                Ok(())
            }
            "phobos.load" => self.load(op),
            "phobos.store" => self.store(op),
            "phobos.load_scalar" => self.load_point(op),
            "phobos.store_scalar" => self.store_point(op),
            "phobos.splat" => {
                let result = ir::results(op)[0];
                let (shape, element) = self.shape(result)?;
                let scalar = self.scalar(ir::operands(op)[0])?;
                self.define(result, Source::whole(Kind::Splat(scalar), element, shape));
                Ok(())
            }
            "phobos.undef" => {
                let result = ir::results(op)[0];
                let (shape, element) = self.shape(result)?;
                let view = self.scratch_tile(&shape, element)?;
                self.define(result, Source::whole(Kind::View(view), element, shape));
                Ok(())
            }
            "phobos.iota" => {
                let result = ir::results(op)[0];
                let (shape, element) = self.shape(result)?;
                let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
                self.define(result, Source::whole(Kind::Iota(axis), element, shape));
                Ok(())
            }
            "phobos.map" => self.map(op),
            "phobos.decode" => self.decode_tile(op),
            "phobos.quantize" => self.quantize(op),
            "phobos.broadcast" | "phobos.reshape" | "phobos.transpose" | "phobos.extract" => {
                self.rearrange(op)
            }
            "phobos.insert" => self.insert(op),
            "phobos.dot" => self.dot(op),
            "phobos.reduce" => self.reduce(op),
            "phobos.arg_reduce" => self.arg_reduce(op),
            "phobos.scan" => self.scan(op),
            name if name.starts_with("arith.") || name.starts_with("math.") => {
                let operands = ir::operands(op);
                if operands
                    .iter()
                    .chain(&ir::results(op))
                    .any(|value| Tile::from_type(value.r#type()).is_some())
                {
                    return Err(PassError::at(op, format!("{name} on a tile: run phobos-fuse first")));
                }
                let operands =
                    operands.into_iter().map(|value| self.scalar(value)).collect::<Result<Vec<_>, _>>()?;
                let value = self.compute(op, &operands, None)?;
                self.values.insert(ir::value_key(ir::results(op)[0]), value);
                Ok(())
            }
            name => Err(PassError::at(op, format!("{name} is not available on the host yet"))),
        }
    }

    // ---- carried values ----

    /// Splits values into scalars and tiles by type, keeping their positions.
    fn split(values: &[Val<'c>]) -> (Vec<usize>, Vec<usize>) {
        (0..values.len()).partition(|index| Tile::from_type(values[*index].r#type()).is_none())
    }

    /// A buffer for each carried tile, with the initial value copied in.
    fn buffers(
        &mut self,
        values: &[Val<'c>],
        tiles: &[usize],
        initial: Option<&[Val<'c>]>,
    ) -> Result<Vec<Source<'c>>, PassError> {
        let mut buffers = Vec::new();
        for index in tiles {
            let (shape, element) = self.shape(values[*index])?;
            let view = self.scratch_tile(&shape, element)?;
            if let Some(initial) = initial {
                let source = self.source(initial[*index])?;
                self.copy_into(&source, &view)?;
            }
            buffers.push(Source::whole(Kind::View(view), element, shape));
        }
        Ok(buffers)
    }

    /// Ends a body: copies its tiles into the buffers and yields its scalars.
    fn yield_values(
        &mut self,
        terminator: &str,
        leading: &[Val<'c>],
        values: &[Val<'c>],
        buffers: &[Source<'c>],
    ) -> Result<(), PassError> {
        let (scalars, tiles) = Self::split(values);
        // A buffer may be read by the new value of another: evaluate all before
        // copying any.
        let mut pending = Vec::new();
        for (index, buffer) in tiles.iter().zip(buffers) {
            let source = self.source(values[*index])?;
            let Some(to) = buffer.view() else { continue };
            if matches!(&source.kind, Kind::View(view) if view.pointer == to.pointer && view.strides == to.strides)
            {
                continue;
            }
            // A slice or transpose of the buffer itself counts too.
            let source = if reads_any(&source, buffers) || !is_simple(&source) {
                let copy = self.scratch_tile(&source.shape, source.element)?;
                self.copy_into(&source, &copy)?;
                Source { kind: Kind::View(copy), ..source }
            } else {
                source
            };
            pending.push((source, to.clone()));
        }
        for (source, view) in pending {
            self.copy_into(&source, &view)?;
        }
        let mut operands = leading.to_vec();
        for index in scalars {
            operands.push(self.scalar(values[index])?);
        }
        self.b.op(terminator, &operands, &[], &[], &[])?;
        Ok(())
    }

    /// Defines the values that stand for carried ones inside or after a loop.
    fn define_carried(&mut self, values: &[Val<'c>], scalars: &[Val<'c>], buffers: &[Source<'c>]) {
        let (scalar_positions, tiles) = Self::split(values);
        for (index, value) in scalar_positions.into_iter().zip(scalars) {
            self.values.insert(ir::value_key(values[index]), *value);
        }
        for (index, buffer) in tiles.into_iter().zip(buffers) {
            self.define(values[index], buffer.clone());
        }
    }

    fn terminator(op: Op<'c>, block: Blk<'c>) -> Result<Vec<Val<'c>>, PassError> {
        block
            .terminator()
            .map(ir::operands)
            .ok_or_else(|| PassError::at(op, "internal error: a body without a terminator"))
    }

    fn lower_for(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let (bounds, initial) = operands.split_at(3);
        let results = ir::results(op);
        let (scalars, tiles) = Self::split(initial);
        let buffers = self.buffers(&results, &tiles, Some(initial))?;
        let old_bounds = bounds.iter().map(|bound| self.scalar(*bound)).collect::<Result<Vec<_>, _>>()?;
        let plain = self.steps_stay_inside(bounds);
        let mut new_operands = match old_bounds[..] {
            [start, end, step] if !plain => self.counted(start, end, step)?,
            _ => old_bounds.clone(),
        };
        for index in &scalars {
            new_operands.push(self.scalar(initial[*index])?);
        }
        let types: Vec<_> = new_operands[3..].iter().map(ValueLike::r#type).collect();
        let mut arguments = vec![self.b.int(64)];
        arguments.extend(&types);
        let new = self.b.op("scf.for", &new_operands, &types, &[], &[&arguments])?;
        let (old_body, new_body) = bodies(op, new, 0)?;
        let old_arguments = ir::arguments(old_body);
        let new_arguments = ir::arguments(new_body);
        self.define_carried(&old_arguments[1..], &new_arguments[1..], &buffers);
        let outer = self.b;
        self.b = outer.in_block(new_body);
        let mut position = new_arguments[0];
        if !plain {
            let done = self.b.binary("arith.subi", position, self.b.i64(i64::MIN)?)?;
            let passed = self.b.binary("arith.muli", done, old_bounds[2])?;
            position = self.b.binary("arith.addi", old_bounds[0], passed)?;
        }
        self.values.insert(ir::value_key(old_arguments[0]), position);
        self.block(old_body)?;
        self.yield_values("scf.yield", &[], &Self::terminator(op, old_body)?, &buffers)?;
        self.b = outer;
        self.define_carried(&results, &ir::results(new), &buffers);
        Ok(())
    }

    /// Whether the step after the last iteration of a loop surely is an i64.
    fn steps_stay_inside(&mut self, bounds: &[Val<'c>]) -> bool {
        let [_, end, step] = bounds else { return true };
        let (end, step) = (self.ranges.of(*end).high, self.ranges.of(*step).high);
        end.saturating_sub(1).checked_add(step).is_some()
    }

    /// Bounds that count the iterations of a loop whose last step may leave i64: from the
    /// least i64, so that every number of iterations can be counted.
    fn counted(&self, start: Val<'c>, end: Val<'c>, step: Val<'c>) -> Result<Vec<Val<'c>>, PassError> {
        let (zero, one, least) = (self.b.i64(0)?, self.b.i64(1)?, self.b.i64(i64::MIN)?);
        let some = self.b.compare_integers(IntegerPredicate::SignedLess, start, end)?;
        // The distance is a u64; ceil(distance / step) without the carry of a sum.
        let distance = self.b.binary("arith.subi", end, start)?;
        let below = self.b.binary("arith.subi", distance, one)?;
        let count = self.b.binary("arith.addi", self.b.binary("arith.divui", below, step)?, one)?;
        let count = self.b.select(some, count, zero)?;
        Ok(vec![least, self.b.binary("arith.addi", least, count)?, one])
    }

    fn lower_if(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let condition = self.scalar(ir::operands(op)[0])?;
        let results = ir::results(op);
        let (scalars, tiles) = Self::split(&results);
        let buffers = self.buffers(&results, &tiles, None)?;
        let types: Vec<_> = scalars.iter().map(|index| self.scalar_type(results[*index].r#type())).collect();
        let new = self.b.op("scf.if", &[condition], &types, &[], &[&[], &[]])?;
        let outer = self.b;
        for index in 0..2 {
            let new_body = ir::blocks(new)[index];
            self.b = outer.in_block(new_body);
            match op.region(index).ok().and_then(|region| melior::ir::RegionLike::first_block(&region)) {
                Some(old_body) => {
                    self.block(old_body)?;
                    self.yield_values("scf.yield", &[], &Self::terminator(op, old_body)?, &buffers)?;
                }
                None => self.yield_values("scf.yield", &[], &[], &[])?,
            }
        }
        self.b = outer;
        self.define_carried(&results, &ir::results(new), &buffers);
        Ok(())
    }

    /// The condition takes one list of values and passes another to the body and the
    /// results: canonicalisation leaves out what a side does not read, so neither their
    /// number nor their types agree.
    fn lower_while(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let initial = ir::operands(op);
        let results = ir::results(op);
        let (scalars, tiles) = Self::split(&initial);
        let taken = self.buffers(&initial, &tiles, Some(&initial))?;
        let new_operands =
            scalars.iter().map(|index| self.scalar(initial[*index])).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = new_operands.iter().map(ValueLike::r#type).collect();
        let passed_types: Vec<_> =
            Self::split(&results).0.iter().map(|index| self.scalar_type(results[*index].r#type())).collect();
        let passed = self.passed_buffers(op, &taken)?;
        let new = self.b.op("scf.while", &new_operands, &passed_types, &[], &[&types, &passed_types])?;
        let outer = self.b;
        for (index, given) in [&taken, &passed].into_iter().enumerate() {
            let (old_body, new_body) = bodies(op, new, index)?;
            self.define_carried(&ir::arguments(old_body), &ir::arguments(new_body), given);
            self.b = outer.in_block(new_body);
            self.block(old_body)?;
            let ends = Self::terminator(op, old_body)?;
            match ends.split_first() {
                Some((condition, ends)) if index == 0 => {
                    let condition = self.scalar(*condition)?;
                    self.yield_values("scf.condition", &[condition], ends, &passed)?;
                }
                _ => self.yield_values("scf.yield", &[], &ends, &taken)?,
            }
        }
        self.b = outer;
        self.define_carried(&results, &ir::results(new), &passed);
        Ok(())
    }

    /// The buffers of the tiles that the condition of a loop passes on: those that it was
    /// given where it passes them as they are, which needs no copy. Each is used once, as the
    /// body may overwrite it.
    fn passed_buffers(&mut self, op: Op<'c>, taken: &[Source<'c>]) -> Result<Vec<Source<'c>>, PassError> {
        let body =
            ir::body(op, 0).ok_or_else(|| PassError::at(op, "internal error: a loop without a condition"))?;
        let arguments = ir::arguments(body);
        let tiles = Self::split(&arguments).1;
        let ends = Self::terminator(op, body)?;
        let results = ir::results(op);
        let mut free: Vec<_> = tiles.iter().map(|index| arguments[*index]).zip(taken).collect();
        let mut passed = Vec::new();
        for index in Self::split(&results).1 {
            let given = ends.get(index + 1).and_then(|end| free.iter().position(|(value, _)| value == end));
            passed.push(match given {
                Some(given) => free.swap_remove(given).1.clone(),
                None => {
                    let (shape, element) = self.shape(results[index])?;
                    Source::whole(Kind::View(self.scratch_tile(&shape, element)?), element, shape)
                }
            });
        }
        Ok(passed)
    }
}

fn bodies<'c>(old: Op<'c>, new: Op<'c>, index: usize) -> Result<(Blk<'c>, Blk<'c>), PassError> {
    match (ir::body(old, index), ir::body(new, index)) {
        (Some(old), Some(new)) => Ok((old, new)),
        _ => Err(PassError::at(old, "internal error: a region without a body")),
    }
}

/// Whether evaluating a source late reads one of `buffers`.
fn reads_any(source: &Source<'_>, buffers: &[Source<'_>]) -> bool {
    match &source.kind {
        Kind::View(view) => buffers.iter().filter_map(Source::view).any(|other| other.root == view.root),
        Kind::Map(map) => map.inputs.iter().any(|input| match input {
            MapInput::Tile { source, .. } => reads_any(source, buffers),
            MapInput::Scalar(_) => false,
        }),
        Kind::Quantize(values, _) => reads_any(values, buffers),
        Kind::Splat(_) | Kind::Iota(_) | Kind::Decode(_) | Kind::Blocks(_) => false,
    }
}

/// A source whose later copy reads what it would read now.
fn is_simple(source: &Source<'_>) -> bool {
    !matches!(source.kind, Kind::Map(_) | Kind::Quantize(..))
}
