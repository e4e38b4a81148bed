//! `phobos.quantize`: f32 tiles rounded to a format of activations
//! ([`phobos_artifact::format::activation`] has the rule).
//!
//! The result is written straight into a tensor when a store is its only reader, else
//! into scratch.

use std::rc::Rc;

use melior::ir::{ValueLike, operation::OperationLike};
use phobos_artifact::format::{
    Format,
    activation::{CODES, HALF_SUMS, SCALE, SMALLEST, SUM, paired},
};
use phobos_dialect::{
    Op, PassError, Val,
    build::{FloatPredicate, with_element},
    ir,
};

use super::{
    Lowering,
    emit::Size,
    format::Blocks,
    source::{Chunk, Kind, Source, format_of},
};

/// Bytes that blocks are copied by: a multiple of it is every block's size.
const PIECE: usize = 16;

impl<'c> Lowering<'c> {
    pub(super) fn quantize(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        let format = format_of(op, element)?
            .filter(|format| format.largest_code().is_some())
            .ok_or_else(|| PassError::at(op, "only q8_1 and q16_1 can be made by quantize"))?;
        let mut source = self.source(ir::operands(op)[0])?;
        if source.granularity() > format.elements as u64 {
            source = self.materialize(&source)?;
        }
        let extents = source.extents.clone();
        let source = self.whole_blocks(source, format)?;
        let users = ir::users(result);
        if let [user] = users[..]
            && ir::name(user) == "phobos.store"
            && user.block() == op.block()
        {
            let kind = Kind::Quantize(Rc::new(source), format);
            self.define(result, Source { kind, element, shape, extents });
            return Ok(());
        }
        let blocks = self.scratch_blocks(op, format, &shape)?;
        self.quantize_into(&source, format, &blocks)?;
        self.define(result, Source { kind: Kind::Blocks(blocks), element, shape, extents });
        Ok(())
    }

    /// A source whose last block is whole: lanes beyond its extent are 0.
    fn whole_blocks(&mut self, source: Source<'c>, format: &Format) -> Result<Source<'c>, PassError> {
        let last = source.shape.len() - 1;
        if self.is_multiple(source.extents[last], format.elements as i64) {
            return Ok(source);
        }
        let view = self.scratch_tile(&source.shape, source.element)?;
        self.copy_padded(&source, &view)?;
        let mut whole = Source::whole(Kind::View(view), source.element, source.shape);
        whole.extents[..last].clone_from_slice(&source.extents[..last]);
        Ok(whole)
    }

    /// Scratch for the blocks of a tile.
    pub(super) fn scratch_blocks(
        &mut self,
        op: Op<'c>,
        format: &'static Format,
        shape: &[i64],
    ) -> Result<Blocks<'c>, PassError> {
        let column_axis = shape.len() - 1;
        let row_axis = column_axis.checked_sub(1);
        if shape[..row_axis.unwrap_or(0)].iter().any(|extent| *extent != 1) {
            return Err(PassError::at(
                op,
                "a tile of several matrices of a block format is not available yet",
            ));
        }
        let rows = row_axis.map_or(1, |axis| shape[axis]);
        let per_row = shape[column_axis] / format.elements as i64;
        let pointer = self.allocate((rows * per_row) as u64 * format.bytes as u64)?;
        Ok(Blocks {
            pointer,
            format,
            blocks_per_row: Size::Const(per_row),
            row: Size::Const(0),
            block: Size::Const(0),
            row_axis,
            column_axis,
            aligned: true,
        })
    }

    /// Writes a tile of a format of activations to a window of a tensor.
    pub(super) fn store_blocks(&mut self, source: &Source<'c>, target: &Blocks<'c>) -> Result<(), PassError> {
        match &source.kind {
            Kind::Quantize(values, format) => {
                let mut values = (**values).clone();
                let last = values.shape.len() - 1;
                values.extents[..last].clone_from_slice(&source.extents[..last]);
                values.extents[last] = self.round_up(source.extents[last], format.elements as i64)?;
                self.quantize_into(&values, format, target)
            }
            Kind::Blocks(from) => self.copy_blocks(source, from, target),
            _ => Err(PassError::new(self.b.location(), "internal error: a store of no blocks")),
        }
    }

    fn copy_blocks(
        &mut self,
        source: &Source<'c>,
        from: &Blocks<'c>,
        to: &Blocks<'c>,
    ) -> Result<(), PassError> {
        let (shape, extents) = (&source.shape, &source.extents);
        let last = shape.len() - 1;
        let elements = from.format.elements as i64;
        let blocks = self.divide(self.round_up(extents[last], elements)?, elements)?;
        self.for_outer(shape, extents, &[last], &mut |lowering, index| {
            let index = index.to_vec();
            lowering.for_loop(Size::Const(0), blocks, 1, &[], |lowering, block, _| {
                let source = lowering.block_address(from, &index, block)?;
                let target = lowering.block_address(to, &index, block)?;
                let ty = lowering.b.vector(PIECE as u64 / 4, lowering.b.int(32));
                for piece in (0..from.format.bytes).step_by(PIECE) {
                    let place = lowering.byte_offset(source, Size::Const(piece as i64))?;
                    let words = lowering.raw_load(place, ty, 4)?;
                    let place = lowering.byte_offset(target, Size::Const(piece as i64))?;
                    lowering.store_element(words, place, None)?;
                }
                Ok(Vec::new())
            })?;
            Ok(())
        })
    }

    /// Where a block of a format in rows is: `block` of the row that `index` names.
    fn block_address(
        &self,
        blocks: &Blocks<'c>,
        index: &[Size<'c>],
        block: Size<'c>,
    ) -> Result<Val<'c>, PassError> {
        let row = match blocks.row_axis {
            Some(axis) => self.add(blocks.row, index[axis])?,
            None => blocks.row,
        };
        let number = self.add(self.multiply(row, blocks.blocks_per_row)?, self.add(blocks.block, block)?)?;
        let bytes = Size::Const(blocks.format.bytes as i64);
        self.byte_offset(blocks.pointer, self.multiply(number, bytes)?)
    }

    /// Quantises the valid rows of `source`, whose last extent is of whole blocks.
    fn quantize_into(
        &mut self,
        source: &Source<'c>,
        format: &'static Format,
        target: &Blocks<'c>,
    ) -> Result<(), PassError> {
        let last = source.shape.len() - 1;
        let blocks = self.divide(source.extents[last], format.elements as i64)?;
        let width = self.target.lanes.min(16);
        self.for_outer(&source.shape, &source.extents, &[last], &mut |lowering, index| {
            let index = index.to_vec();
            lowering.for_loop(Size::Const(0), blocks, 1, &[], |lowering, block, _| {
                let mut first = index.clone();
                first[last] = lowering.multiply(block, Size::Const(format.elements as i64))?;
                let vectors = format.elements / width as usize;
                let chunk = Chunk { index: first, axis: last, width, vectors, tail: None };
                let values = lowering.read(source, &chunk)?;
                let pointer = lowering.block_address(target, &index, block)?;
                lowering.quantize_block(format, &values, pointer)?;
                Ok(Vec::new())
            })?;
            Ok(())
        })
    }

    /// One block from its 32 values.
    fn quantize_block(
        &mut self,
        format: &Format,
        values: &[Val<'c>],
        pointer: Val<'c>,
    ) -> Result<(), PassError> {
        let f32 = self.b.f32();
        let top = f64::from(format.largest_code().unwrap_or(127));
        let float = |lowering: &Self, number: f64| lowering.b.constant(f32, number);
        // Magnitudes as integers: NaN is above infinity, and so is not lost.
        let mut largest: Option<Val<'c>> = None;
        for value in values {
            let bits = self.bitcast(*value, self.b.int(32))?;
            let magnitude = self.b.binary("arith.andi", bits, self.b.integer(bits.r#type(), 0x7fff_ffff)?)?;
            largest = Some(match largest {
                Some(before) => self.b.binary("arith.maxsi", before, magnitude)?,
                None => magnitude,
            });
        }
        let Some(largest) = largest else { return Ok(()) };
        let largest = self.bitcast(self.largest_across(largest)?, f32)?;
        let tiny =
            self.b.compare_floats(FloatPredicate::OrderedLess, largest, float(self, f64::from(SMALLEST))?)?;
        let zero = float(self, 0.0)?;
        let scale = self.b.binary("arith.divf", largest, float(self, top)?)?;
        let scale = self.b.select(tiny, zero, scale)?;
        let inverse = self.b.binary("arith.divf", float(self, top)?, largest)?;
        let inverse = self.b.select(tiny, zero, inverse)?;

        let mut codes = Vec::new();
        for value in values {
            codes.push(self.round_code(*value, inverse, top)?);
        }
        let halves = codes.len() / 2;
        let mut sums = Vec::new();
        for half in codes.chunks(halves.max(1)) {
            let mut sum = half[0];
            for more in &half[1..] {
                sum = self.b.binary("arith.addi", sum, *more)?;
            }
            sums.push(self.sum_across(sum)?);
        }
        let all = self.b.binary("arith.addi", sums[0], sums[1])?;
        self.store_element(scale, self.byte_offset(pointer, Size::Const(SCALE as i64))?, None)?;
        for (sum, at) in [(all, SUM), (sums[0], HALF_SUMS[0]), (sums[1], HALF_SUMS[1])] {
            let sum = self.b.binary("arith.mulf", self.to_float(sum)?, scale)?;
            self.store_element(sum, self.byte_offset(pointer, Size::Const(at as i64))?, None)?;
        }
        let bytes = if top > 127.0 { 2 } else { 1 };
        for (number, code) in codes.into_iter().enumerate() {
            let width = phobos_dialect::build::lanes(code.r#type());
            let code = if bytes == 2 {
                let order: Vec<i64> = (0..width as usize).map(|lane| paired(lane) as i64).collect();
                self.shuffle(code, code, &order)?
            } else {
                code
            };
            let narrow = with_element(code.r#type(), self.b.int(8 * bytes));
            let code = self.b.value("arith.trunci", &[code], narrow, &[])?;
            let at = CODES + number * width as usize * bytes as usize;
            let place = self.byte_offset(pointer, Size::Const(at as i64))?;
            self.store_element(code, place, None)?;
        }
        Ok(())
    }

    /// `value * inverse`, rounded to an integer of at most `top`; NaN is the least.
    fn round_code(&self, value: Val<'c>, inverse: Val<'c>, top: f64) -> Result<Val<'c>, PassError> {
        let ty = value.r#type();
        let width = phobos_dialect::build::lanes(ty);
        let scaled = self.b.binary("arith.mulf", value, self.splat(inverse, width)?)?;
        let (least, most) = (self.b.constant(ty, -top)?, self.b.constant(ty, top)?);
        let above = self.b.compare_floats(FloatPredicate::OrderedGreater, scaled, least)?;
        let scaled = self.b.select(above, scaled, least)?;
        let below = self.b.compare_floats(FloatPredicate::OrderedLess, scaled, most)?;
        let scaled = self.b.select(below, scaled, most)?;
        let rounded = self.b.unary("llvm.intr.rint", scaled)?;
        self.b.value("arith.fptosi", &[rounded], with_element(ty, self.b.int(32)), &[])
    }
}
