//! Tiles as a whole: loads, stores, scratch copies, and operations that only move
//! elements.

use std::{collections::BTreeMap, rc::Rc};

use melior::ir::ValueLike;
use phobos_artifact::format::Format;
use phobos_dialect::{Op, PassError, Type, Val, build::IntegerPredicate, ir, types::Tile};

use super::{
    Lowering,
    emit::{Size, element_bytes},
    format::Blocks,
    source::{Kind, MapInput, MapSource, Source, View, format_of, lane_axis},
};
use crate::tile_ops::unit_reshape;

impl<'c> Lowering<'c> {
    /// The source of a tile value.
    pub(super) fn source(&self, value: Val<'c>) -> Result<Source<'c>, PassError> {
        self.tiles.get(&ir::value_key(value)).cloned().ok_or_else(|| {
            PassError::new(value.location(), "internal error: a tile is read before it is made")
        })
    }

    pub(super) fn define(&mut self, value: Val<'c>, source: Source<'c>) {
        self.tiles.insert(ir::value_key(value), source);
    }

    /// The static shape and element of a tile value.
    pub(super) fn shape(&self, value: Val<'c>) -> Result<(Vec<i64>, Type<'c>), PassError> {
        Tile::from_type(value.r#type()).and_then(|tile| Some((tile.shape()?, tile.element))).ok_or_else(
            || PassError::new(value.location(), "a tile is not static here: run phobos-specialize first"),
        )
    }

    /// The extents from `valid` operands; the whole shape without any.
    pub(super) fn extents(&self, shape: &[i64], valid: &[Val<'c>]) -> Result<Vec<Size<'c>>, PassError> {
        if valid.is_empty() {
            return Ok(shape.iter().map(|extent| Size::Const(*extent)).collect());
        }
        valid.iter().map(|extent| Ok(self.size(self.scalar(*extent)?))).collect()
    }

    /// The new value of a scalar of the kernel.
    pub(super) fn scalar(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        self.values.get(&ir::value_key(value)).copied().ok_or_else(|| {
            PassError::new(value.location(), "internal error: a scalar is read before it is made")
        })
    }

    /// A new scratch tile.
    pub(super) fn scratch_tile(&mut self, shape: &[i64], element: Type<'c>) -> Result<View<'c>, PassError> {
        let elements: i64 = shape.iter().product();
        let pointer = self.allocate(elements as u64 * u64::from(element_bytes(element)))?;
        Ok(View { pointer, root: pointer, element, strides: row_major(shape), owned: true })
    }

    /// Evaluates a source into a view of the same shape.
    pub(super) fn copy_into(&mut self, source: &Source<'c>, view: &View<'c>) -> Result<(), PassError> {
        let axis = source.lane_axis();
        let (shape, extents) = (source.shape.clone(), source.extents.clone());
        self.for_chunks(&shape, &extents, axis, source.granularity(), &mut |lowering, chunk| {
            let values = lowering.read(source, chunk)?;
            lowering.write(view, chunk, &values)
        })
    }

    /// The same with zeros where the source is not valid.
    pub(super) fn copy_padded(&mut self, source: &Source<'c>, view: &View<'c>) -> Result<(), PassError> {
        let zero = self.b.constant(source.element, 0.0)?;
        let zeros = Source::whole(Kind::Splat(zero), source.element, source.shape.clone());
        self.copy_into(&zeros, view)?;
        self.copy_into(source, view)
    }

    /// The tile in memory. A map may reuse the scratch of an input that nothing else
    /// reads ([`Self::reusable`]).
    pub(super) fn materialize(&mut self, source: &Source<'c>) -> Result<Source<'c>, PassError> {
        if source.view().is_some() {
            return Ok(source.clone());
        }
        let view = match self.reusable(source) {
            Some(view) => view,
            None => self.scratch_tile(&source.shape, source.element)?,
        };
        self.copy_into(source, &view)?;
        Ok(Source { kind: Kind::View(view), ..source.clone() })
    }

    /// The scratch of an input of a map that the map may overwrite: same shape and
    /// element, and the map is its only reader. Elements are read before they are
    /// written, index by index.
    pub(super) fn reusable(&self, source: &Source<'c>) -> Option<View<'c>> {
        let Kind::Map(map) = &source.kind else { return None };
        map.inputs.iter().find_map(|input| {
            let MapInput::Tile { source: input, value } = input else { return None };
            let view = input.view()?;
            let same = input.shape == source.shape && view.element == source.element;
            (same && view.owned && only_here(*value, map.op)).then(|| view.clone())
        })
    }

    // ---- operations ----

    pub(super) fn load(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [tensor, offsets, other, valid] = &segments[..] else { return unexpected(op) };
        let memory = self.memory(op, tensor)?;
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        if let Some(format) = format_of(op, element)? {
            if memory.written {
                return Err(PassError::at(
                    op,
                    "a tensor of a block format that the kernel writes cannot be read in it",
                ));
            }
            let blocks = self.block_window(op, &memory, offsets, format, &shape)?;
            let mut source = Source::whole(Kind::Blocks(blocks), element, shape.clone());
            source.extents = self.extents(&shape, valid)?;
            self.define(result, source);
            return Ok(());
        }
        let view = self.window(&memory, offsets)?;
        let mut source = Source::whole(Kind::View(view.clone()), element, shape.clone());
        source.extents = self.extents(&shape, valid)?;
        if let Some(fill) = other.first() {
            let fill = self.scalar(*fill)?;
            let whole = Source::whole(Kind::Splat(fill), element, shape.clone());
            let copy = self.scratch_tile(&shape, element)?;
            self.copy_into(&whole, &copy)?;
            self.copy_into(&source, &copy)?;
            self.define(result, Source::whole(Kind::View(copy), element, shape));
        } else if memory.written {
            // A later store must not change what was read.
            let copy = self.scratch_tile(&shape, element)?;
            self.copy_into(&source, &copy)?;
            self.define(result, Source { kind: Kind::View(copy), ..source });
        } else {
            self.define(result, source);
        }
        Ok(())
    }

    pub(super) fn store(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [value, tensor, offsets, valid] = &segments[..] else { return unexpected(op) };
        let [value] = value[..] else { return unexpected(op) };
        let memory = self.memory(op, tensor)?;
        let mut source = self.source(value)?;
        source.extents = self.extents(&source.shape, valid)?;
        if let Some(format) = format_of(op, memory.element)? {
            let shape = source.shape.clone();
            let target = self.block_window(op, &memory, offsets, format, &shape)?;
            return self.store_blocks(&source, &target);
        }
        let view = self.window(&memory, offsets)?;
        self.copy_into(&source, &view)
    }

    fn memory(&self, op: Op<'c>, tensor: &[Val<'c>]) -> Result<super::source::Memory<'c>, PassError> {
        tensor
            .first()
            .and_then(|tensor| self.memories.get(&ir::value_key(*tensor)))
            .cloned()
            .ok_or_else(|| PassError::at(op, "internal error: an access to no tensor of the kernel"))
    }

    /// The view of a tensor from `offsets` on.
    fn window(
        &mut self,
        memory: &super::source::Memory<'c>,
        offsets: &[Val<'c>],
    ) -> Result<View<'c>, PassError> {
        let mut strides = vec![Size::Const(1); memory.dims.len()];
        let mut stride = Size::Const(1);
        for axis in (0..memory.dims.len()).rev() {
            strides[axis] = stride;
            stride = self.multiply(stride, memory.dims[axis])?;
        }
        let (pointer, element) = (memory.pointer, memory.element);
        let base = View { pointer, root: pointer, element, strides, owned: false };
        let index = offsets
            .iter()
            .map(|offset| Ok(self.size(self.scalar(*offset)?)))
            .collect::<Result<Vec<_>, _>>()?;
        let pointer = self.address(&base, &index)?;
        Ok(View { pointer, ..base })
    }

    /// The window of a tensor of a block format from `offsets` on.
    fn block_window(
        &mut self,
        op: Op<'c>,
        memory: &super::source::Memory<'c>,
        offsets: &[Val<'c>],
        format: &'static Format,
        shape: &[i64],
    ) -> Result<Blocks<'c>, PassError> {
        let column_axis = memory.dims.len() - 1;
        let blocks_per_row = self.divide(memory.dims[column_axis], format.elements as i64)?;
        let column = self.size(self.scalar(offsets[column_axis])?);
        let mut blocks = Blocks {
            pointer: memory.pointer,
            format,
            blocks_per_row,
            row: Size::Const(0),
            block: self.divide(column, format.elements as i64)?,
            row_axis: None,
            column_axis,
            aligned: true,
        };
        let Some(row_axis) = column_axis.checked_sub(1) else { return Ok(blocks) };
        blocks.row_axis = Some(row_axis);
        blocks.row = self.size(self.scalar(offsets[row_axis])?);
        let together = format.group_rows() as i64;
        blocks.aligned = self.is_multiple(blocks.row, together);
        // Leading axes are whole matrices one after the other.
        let rows = self.add(memory.dims[row_axis], Size::Const(together - 1))?;
        let groups = self.divide(rows, together)?;
        let bytes = Size::Const(together * format.bytes as i64);
        let mut stride = self.multiply(self.multiply(groups, blocks_per_row)?, bytes)?;
        for axis in (0..row_axis).rev() {
            if shape[axis] != 1 {
                return Err(PassError::at(
                    op,
                    "a tile of several matrices of a block format is not available yet",
                ));
            }
            let offset = self.size(self.scalar(offsets[axis])?);
            blocks.pointer = self.byte_offset(blocks.pointer, self.multiply(offset, stride)?)?;
            stride = self.multiply(stride, memory.dims[axis])?;
        }
        Ok(blocks)
    }

    /// Whether a point is inside its tensor.
    fn point_inside(&self, dims: &[Size<'c>], index: &[Size<'c>]) -> Result<Val<'c>, PassError> {
        let mut inside = self.b.integer(self.b.int(1), 1)?;
        for (dim, position) in dims.iter().zip(index) {
            let (dim, position) = (self.value(*dim)?, self.value(*position)?);
            // Unsigned: a negative position is outside too.
            let here = self.b.compare_integers(IntegerPredicate::UnsignedLess, position, dim)?;
            inside = self.b.binary("arith.andi", inside, here)?;
        }
        Ok(inside)
    }

    pub(super) fn load_point(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let memory = self.memory(op, &operands[..1])?;
        let result = ir::results(op)[0];
        let index =
            operands[1..].iter().map(|o| Ok(self.size(self.scalar(*o)?))).collect::<Result<Vec<_>, _>>()?;
        let inside = self.point_inside(&memory.dims, &index)?;
        let ty = result.r#type();
        let branch = self.b.op("scf.if", &[inside], &[ty], &[], &[&[], &[]])?;
        let outer = self.b;
        for (number, block) in ir::blocks(branch).into_iter().enumerate() {
            self.b = outer.in_block(block);
            let value = if number == 0 {
                let view = self.window(&memory, &operands[1..])?;
                self.load_element(view.pointer, ty)?
            } else {
                self.b.constant(ty, 0.0)?
            };
            self.b.op("scf.yield", &[value], &[], &[], &[])?;
        }
        self.b = outer;
        self.values.insert(ir::value_key(result), self.b.result(branch, 0)?);
        Ok(())
    }

    pub(super) fn store_point(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let value = self.scalar(operands[0])?;
        let memory = self.memory(op, &operands[1..2])?;
        let index =
            operands[2..].iter().map(|o| Ok(self.size(self.scalar(*o)?))).collect::<Result<Vec<_>, _>>()?;
        let inside = self.point_inside(&memory.dims, &index)?;
        self.if_then(inside, |lowering| {
            let view = lowering.window(&memory, &operands[2..])?;
            lowering.store_element(value, view.pointer, None)
        })
    }

    /// A map is computed where it is read if that is one place in the same block;
    /// else here.
    pub(super) fn map(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [inputs, valid] = &segments[..] else { return unexpected(op) };
        let mut sources = Vec::new();
        for input in inputs {
            sources.push(match Tile::from_type(input.r#type()) {
                Some(_) => MapInput::Tile { source: self.source(*input)?, value: *input },
                None => MapInput::Scalar(self.scalar(*input)?),
            });
        }
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        let extents = self.extents(&shape, valid)?;
        let kind = Kind::Map(Rc::new(MapSource { op, inputs: sources }));
        let mut source = Source { kind, element, shape, extents };
        if !self.read_once(op, result) {
            source = self.materialize(&source)?;
        }
        self.define(result, source);
        Ok(())
    }

    fn read_once(&self, op: Op<'c>, result: Val<'c>) -> bool {
        use melior::ir::operation::OperationLike;
        let users = ir::users(result);
        let [user] = users[..] else { return false };
        user.block() == op.block()
            && matches!(
                ir::name(user),
                "phobos.store"
                    | "phobos.reduce"
                    | "phobos.arg_reduce"
                    | "phobos.dot"
                    | "phobos.scan"
                    | "phobos.insert"
                    | "phobos.quantize"
            )
    }

    /// Operations that only rename elements: views with other strides where the tile
    /// is in memory, else a copy first.
    pub(super) fn rearrange(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        let input = self.source(ir::operands(op)[0])?;
        if let Kind::Splat(_) = input.kind
            && ir::name(op) != "phobos.extract"
        {
            self.define(result, Source::whole(input.kind, element, shape));
            return Ok(());
        }
        let name = ir::name(op);
        if let Kind::Blocks(blocks) | Kind::Decode(blocks) = &input.kind
            && let Some(source) = self.rearranged_blocks(op, &input, blocks, &shape)?
        {
            self.define(result, source);
            return Ok(());
        }
        let contiguous = input.view().is_some_and(|view| is_row_major(view, &input.shape));
        let unit_only = significant(&input.shape) == significant(&shape);
        let source = match (&input.kind, name) {
            (Kind::View(_), "phobos.reshape") if !unit_only && !contiguous => self.copied(&input)?,
            (Kind::View(_), _) => input,
            (Kind::Blocks(_), _) => {
                return Err(PassError::at(op, format!("{name} of a block-format tile is not available yet")));
            }
            _ => self.materialize(&input)?,
        };
        let Some(view) = source.view() else { return unexpected(op) };
        let (strides, extents, pointer) = match name {
            "phobos.broadcast" => self.stretch(&source, view, &shape)?,
            "phobos.transpose" => {
                let (mut strides, mut extents) = (view.strides.clone(), source.extents.clone());
                let rank = strides.len();
                strides.swap(rank - 1, rank - 2);
                extents.swap(rank - 1, rank - 2);
                (strides, extents, view.pointer)
            }
            "phobos.extract" => {
                let offsets = ir::operands(op)[1..].to_vec();
                let mut index = Vec::new();
                let mut extents = Vec::new();
                for (axis, offset) in offsets.into_iter().enumerate() {
                    let offset = self.size(self.scalar(offset)?);
                    index.push(offset);
                    extents.push(self.remaining(source.extents[axis], offset, shape[axis])?);
                }
                let pointer = self.address(view, &index)?;
                (view.strides.clone(), extents, pointer)
            }
            "phobos.reshape" if unit_only => self.reshape_units(op, &source, view, &shape)?,
            "phobos.reshape" => {
                (row_major(&shape), shape.iter().map(|e| Size::Const(*e)).collect(), view.pointer)
            }
            _ => return unexpected(op),
        };
        let view = View { pointer, root: view.root, element: view.element, strides, owned: false };
        self.define(result, Source { kind: Kind::View(view), element, shape, extents });
        Ok(())
    }

    /// A window of blocks with axes exchanged, or with axes of extent 1 added or dropped;
    /// `None` for anything else.
    fn rearranged_blocks(
        &self,
        op: Op<'c>,
        input: &Source<'c>,
        blocks: &Blocks<'c>,
        shape: &[i64],
    ) -> Result<Option<Source<'c>>, PassError> {
        let mut axes = BTreeMap::new();
        let extents = match ir::name(op) {
            "phobos.transpose" => {
                let rank = shape.len();
                let exchange = |axis: usize| if axis + 2 >= rank { 2 * rank - 3 - axis } else { axis };
                if lane_axis(shape) != exchange(blocks.column_axis) {
                    // Blocks are decoded along their own axis: into memory, which is then read across.
                    return Ok(None);
                }
                axes.extend((0..rank).map(|axis| (axis, exchange(axis))));
                (0..rank).map(|axis| input.extents[exchange(axis)]).collect()
            }
            "phobos.reshape" if significant(&input.shape) == significant(shape) => {
                let old = (0..input.shape.len()).filter(|axis| input.shape[*axis] != 1);
                axes.extend(old.zip((0..shape.len()).filter(|axis| shape[*axis] != 1)));
                self.unit_extents(op, input, shape)?
            }
            _ => return Ok(None),
        };
        let blocks = blocks.renumbered(&axes);
        let kind = match input.kind {
            Kind::Blocks(_) => Kind::Blocks(blocks),
            _ => Kind::Decode(blocks),
        };
        Ok(Some(Source { kind, element: input.element, shape: shape.to_vec(), extents }))
    }

    fn copied(&mut self, source: &Source<'c>) -> Result<Source<'c>, PassError> {
        let view = self.scratch_tile(&source.shape, source.element)?;
        self.copy_into(source, &view)?;
        Ok(Source { kind: Kind::View(view), ..source.clone() })
    }

    /// `clamp(extent - offset, 0, full)`, and 0 for a negative offset.
    fn remaining(&self, extent: Size<'c>, offset: Size<'c>, full: i64) -> Result<Size<'c>, PassError> {
        if let (Size::Const(extent), Size::Const(offset)) = (extent, offset) {
            let left = if offset < 0 { 0 } else { extent.saturating_sub(offset) };
            return Ok(Size::Const(left.clamp(0, full)));
        }
        let zero = self.b.i64(0)?;
        let offset = self.value(offset)?;
        let left = self.b.binary("arith.subi", self.value(extent)?, offset)?;
        let positive = self.b.binary("arith.maxsi", left, zero)?;
        let clamped = self.b.binary("arith.minsi", positive, self.b.i64(full)?)?;
        let negative = self.b.compare_integers(IntegerPredicate::SignedLess, offset, zero)?;
        Ok(Size::Value(self.b.select(negative, zero, clamped)?))
    }

    #[allow(clippy::type_complexity)]
    fn stretch(
        &self,
        source: &Source<'c>,
        view: &View<'c>,
        shape: &[i64],
    ) -> Result<(Vec<Size<'c>>, Vec<Size<'c>>, Val<'c>), PassError> {
        let lead = shape.len() - source.shape.len();
        let mut strides = vec![Size::Const(0); lead];
        let mut extents: Vec<Size<'c>> = shape[..lead].iter().map(|extent| Size::Const(*extent)).collect();
        for (axis, extent) in source.shape.iter().enumerate() {
            let full = shape[lead + axis];
            if *extent == 1 && full != 1 {
                strides.push(Size::Const(0));
                extents.push(self.multiply(source.extents[axis], Size::Const(full))?);
            } else {
                strides.push(view.strides[axis]);
                extents.push(source.extents[axis]);
            }
        }
        Ok((strides, extents, view.pointer))
    }

    #[allow(clippy::type_complexity)]
    fn reshape_units(
        &self,
        op: Op<'c>,
        source: &Source<'c>,
        view: &View<'c>,
        shape: &[i64],
    ) -> Result<(Vec<Size<'c>>, Vec<Size<'c>>, Val<'c>), PassError> {
        let mut strides = source.shape.iter().zip(&view.strides).filter(|(extent, _)| **extent != 1);
        let strides = shape
            .iter()
            .map(|extent| {
                (*extent != 1).then(|| strides.next()).flatten().map_or(Size::Const(1), |(_, stride)| *stride)
            })
            .collect();
        Ok((strides, self.unit_extents(op, source, shape)?, view.pointer))
    }

    /// Extents after axes of extent 1 came and went.
    fn unit_extents(
        &self,
        op: Op<'c>,
        source: &Source<'c>,
        shape: &[i64],
    ) -> Result<Vec<Size<'c>>, PassError> {
        let Some(axes) = unit_reshape(op, &source.shape, shape) else { return unexpected(op) };
        let mut extents: Vec<Size<'c>> =
            axes.kept.iter().map(|axis| axis.map_or(Size::Const(1), |axis| source.extents[axis])).collect();
        for axis in axes.dropped {
            extents[0] = self.multiply(extents[0], source.extents[axis])?;
        }
        Ok(extents)
    }

    pub(super) fn decode_tile(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        let source = self.source(ir::operands(op)[0])?;
        let Kind::Blocks(blocks) = source.kind else { return unexpected(op) };
        self.define(result, Source { kind: Kind::Decode(blocks), element, shape, extents: source.extents });
        Ok(())
    }

    pub(super) fn insert(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let segments = ir::operand_segments(op);
        let [value, dest, offsets, valid] = &segments[..] else { return unexpected(op) };
        let ([value], [dest_value]) = (&value[..], &dest[..]) else { return unexpected(op) };
        let (value, dest) = (self.source(*value)?, self.source(*dest_value)?);
        let view = match dest.view() {
            Some(view) if view.owned && only_here(*dest_value, op) => view.clone(),
            _ => {
                let view = self.scratch_tile(&dest.shape, dest.element)?;
                self.copy_into(&dest, &view)?;
                view
            }
        };
        let valid = self.extents(&value.shape, valid)?;
        let (mut index, mut inside, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, offset) in offsets.iter().enumerate() {
            let offset = self.size(self.scalar(*offset)?);
            index.push(offset);
            let room = self.remaining(Size::Const(dest.shape[axis]), offset, value.shape[axis])?;
            inside.push(room);
            extents.push(self.smaller(room, valid[axis])?);
        }
        let pointer = self.address(&view, &index)?;
        let slice = View { pointer, owned: false, ..view.clone() };
        if extents != inside {
            let zero = self.b.constant(value.element, 0.0)?;
            let zeros = Source::whole(Kind::Splat(zero), value.element, value.shape.clone());
            self.copy_into(&Source { extents: inside, ..zeros }, &slice)?;
        }
        self.copy_into(&Source { extents, ..value }, &slice)?;
        self.define(ir::results(op)[0], Source { kind: Kind::View(view), ..dest });
        Ok(())
    }

    fn smaller(&self, a: Size<'c>, b: Size<'c>) -> Result<Size<'c>, PassError> {
        match (a, b) {
            (Size::Const(a), Size::Const(b)) => Ok(Size::Const(a.min(b))),
            _ if a == b => Ok(a),
            _ => Ok(Size::Value(self.b.binary("arith.minsi", self.value(a)?, self.value(b)?)?)),
        }
    }
}

/// The strides of a contiguous tile.
pub(super) fn row_major<'c>(shape: &[i64]) -> Vec<Size<'c>> {
    let mut strides = vec![Size::Const(1); shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        if let Size::Const(inner) = strides[axis + 1] {
            strides[axis] = Size::Const(inner * shape[axis + 1]);
        }
    }
    strides
}

fn is_row_major(view: &View<'_>, shape: &[i64]) -> bool {
    row_major(shape).iter().zip(&view.strides).zip(shape).all(|((a, b), extent)| *extent == 1 || a == b)
}

fn significant(shape: &[i64]) -> Vec<i64> {
    shape.iter().copied().filter(|extent| *extent != 1).collect()
}

/// Whether `op` is the only reader of a tile and in the block that made it, so that
/// it may overwrite the tile: in a loop inside, it would spoil the next iteration.
pub(super) fn only_here<'c>(value: Val<'c>, op: Op<'c>) -> bool {
    use melior::ir::operation::OperationLike;
    let made_in = match ir::definition(value) {
        Some(definition) => definition.block(),
        None => ir::argument_of(value).map(|(block, _)| block),
    };
    ir::users(value).len() == 1 && made_in.is_some() && made_in == op.block()
}

fn unexpected<T>(op: Op<'_>) -> Result<T, PassError> {
    Err(PassError::at(op, format!("internal error: {} has unexpected operands", ir::name(op))))
}
