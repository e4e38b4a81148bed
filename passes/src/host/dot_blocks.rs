//! Dot with a right side of a block format, whose rows are interleaved on the device:
//! vectors run across rows, and nothing is transposed.

use phobos_artifact::format::{Format, GROUP_ROWS, Segment};
use phobos_dialect::{PassError, Val};

use super::{
    Lowering,
    dot::Dot,
    emit::Size,
    format::{Blocks, Elements, Place, looks_up},
    source::{Chunk, View},
};

/// How far ahead in the stream of weights lines are asked for: enough to cover memory's
/// latency at its bandwidth. Less costs up to 15 % of decode speed, more gains nothing.
const PREFETCH_BYTES: usize = 8192;
const CACHE_LINE: usize = 64;

/// Partial sums of a row's products, so that additions overlap.
const CHAINS: usize = 4;

/// Whether every segment of the format is `scale * codes + offset`.
pub(super) fn splits(blocks: &Blocks<'_>) -> bool {
    blocks.format.segments.iter().all(|segment| segment.affine().is_some())
}

/// Consecutive segments of a block with the same scale and offset.
pub(super) struct Run {
    pub segments: &'static [Segment],
    pub start: usize,
    pub count: usize,
}

pub(super) fn runs(format: &'static Format) -> Vec<Run> {
    let same = |a: &Segment, b: &Segment| match (a.affine(), b.affine()) {
        (Some(a), Some(b)) => a.scale == b.scale && a.offset == b.offset,
        _ => false,
    };
    format
        .segments
        .chunk_by(same)
        .map(|segments| Run {
            segments,
            start: segments[0].start,
            count: segments.iter().map(|segment| segment.count).sum(),
        })
        .collect()
}

impl<'c> Lowering<'c> {
    /// Few rows on the left: for each group of interleaved rows, `scale * (codes · x) +
    /// offset * sum(x)` block by block. The sums of x are made once.
    pub(super) fn dot_block_rows(&mut self, dot: &mut Dot<'c>, blocks: &Blocks<'c>) -> Result<(), PassError> {
        let times = self.settle_rows(dot)?;
        let dot = &*dot;
        let runs = runs(blocks.format);
        self.for_loop(Size::Const(0), times, 1, &[], |lowering, _, _| {
            let sums = lowering.block_sums(dot, blocks.format, &runs)?;
            let width = lowering.target.lanes;
            lowering.for_loop(Size::Const(0), dot.n, width as i64, &[], |lowering, first, _| {
                let totals = lowering.group_totals(dot, blocks, &runs, sums.as_ref(), first)?;
                let left = lowering.b.binary("arith.subi", lowering.value(dot.n)?, lowering.value(first)?)?;
                let mask = lowering.mask_below(left, width)?;
                for (row, total) in totals.into_iter().enumerate() {
                    let index = vec![Size::Const(row as i64), first];
                    let place = Chunk { index, axis: 1, width, vectors: 1, tail: Some((mask, left)) };
                    let before = lowering.read(&dot.acc, &place)?[0];
                    let before = lowering.operand_element(before, dot.element)?;
                    let total = lowering.b.binary("arith.addf", before, total)?;
                    let total = lowering.narrow(total, dot.out.element)?;
                    lowering.write(&dot.out, &place, &[total])?;
                }
                Ok(Vec::new())
            })
        })?;
        Ok(())
    }

    /// Asks for the block column that is [`PREFETCH_BYTES`] ahead in the stream: the
    /// hardware's own prefetchers stop at page borders and start late.
    pub(super) fn prefetch_ahead(&self, place: &Place<'c>, format: &Format) -> Result<(), PassError> {
        let number = |value: i64| self.b.parsed_attribute(&format!("{value} : i32"));
        let attributes = [("rw", number(0)?), ("hint", number(3)?), ("cache", number(1)?)];
        for line in (0..GROUP_ROWS * format.bytes).step_by(CACHE_LINE) {
            let pointer = self.byte_offset(place.column(), Size::Const((PREFETCH_BYTES + line) as i64))?;
            self.b.op("llvm.intr.prefetch", &[pointer], &[], &attributes, &[])?;
        }
        Ok(())
    }

    fn block_count(&self, dot: &Dot<'c>, format: &Format) -> Result<Size<'c>, PassError> {
        self.divide(dot.k, format.elements as i64)
    }

    /// The sum of x over every run of every block, [rows, blocks * runs]; `None` for
    /// formats without offsets.
    fn block_sums(
        &mut self,
        dot: &Dot<'c>,
        format: &'static Format,
        runs: &[Run],
    ) -> Result<Option<View<'c>>, PassError> {
        let has_offset = |run: &Run| run.segments[0].affine().is_some_and(|affine| affine.offset.is_some());
        if !runs.iter().any(has_offset) {
            return Ok(None);
        }
        let [rows, _, depth] = dot.shape;
        let per_row = (depth as usize).div_ceil(format.elements) * runs.len();
        let sums = self.scratch_tile(&[rows, per_row as i64], dot.element)?;
        let count = self.block_count(dot, format)?;
        self.for_loop(Size::Const(0), count, 1, &[], |lowering, block, _| {
            let first = lowering.multiply(block, Size::Const(format.elements as i64))?;
            for row in 0..rows {
                for (number, run) in runs.iter().enumerate() {
                    let k = lowering.add(first, Size::Const(run.start as i64))?;
                    let width = lowering.target.lanes.min(run.count as u64);
                    let vectors = run.count / width as usize;
                    let chunk =
                        Chunk { index: vec![Size::Const(row), k], axis: 1, width, vectors, tail: None };
                    let mut values = lowering.read(&dot.lhs, &chunk)?.into_iter();
                    let Some(mut sum) = values.next() else { continue };
                    for value in values {
                        sum = lowering.b.binary("arith.addf", sum, value)?;
                    }
                    let sum = lowering.sum_across(sum)?;
                    let place = lowering.run_place(block, runs.len(), number)?;
                    let pointer = lowering.address(&sums, &[Size::Const(row), place])?;
                    lowering.store_element(sum, pointer, None)?;
                }
            }
            Ok(Vec::new())
        })?;
        Ok(Some(sums))
    }

    fn run_place(&self, block: Size<'c>, runs: usize, number: usize) -> Result<Size<'c>, PassError> {
        let first = self.multiply(block, Size::Const(runs as i64))?;
        self.add(first, Size::Const(number as i64))
    }

    /// For the interleaved rows from `first` on, the sum over all blocks for each row on
    /// the left.
    fn group_totals(
        &mut self,
        dot: &Dot<'c>,
        blocks: &Blocks<'c>,
        runs: &[Run],
        sums: Option<&View<'c>>,
        first: Size<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let format = blocks.format;
        let rows = dot.shape[0];
        let width = self.target.lanes;
        let ty = self.b.vector(width, dot.element);
        let zero = self.b.constant(ty, 0.0)?;
        let count = self.block_count(dot, format)?;
        let initial = vec![zero; rows as usize];
        self.for_loop(Size::Const(0), count, 1, &initial, |lowering, block, totals| {
            let mut totals = totals.to_vec();
            let mut place = lowering.rows_place(blocks, first, block, width)?;
            lowering.prefetch_ahead(&place, format)?;
            let k = lowering.multiply(block, Size::Const(format.elements as i64))?;
            for (number, run) in runs.iter().enumerate() {
                let parts = lowering.run_products(dot, format, run, &mut place, k)?;
                let Some(affine) = run.segments[0].affine() else { continue };
                let scale = lowering.decode_expr(format, affine.scale, &mut place, 0)?;
                for (row, total) in totals.iter_mut().enumerate() {
                    *total = lowering.multiply_add(scale, parts[row], *total)?;
                    let (Some(offset), Some(sums)) = (affine.offset, sums) else { continue };
                    let offset = lowering.decode_expr(format, offset, &mut place, 0)?;
                    let at = lowering.run_place(block, runs.len(), number)?;
                    let pointer = lowering.address(sums, &[Size::Const(row as i64), at])?;
                    let sum = lowering.load_element(pointer, dot.element)?;
                    let sum = lowering.splat(sum, width)?;
                    *total = lowering.multiply_add(offset, sum, *total)?;
                }
            }
            Ok(totals)
        })
    }

    /// The products of a run's codes with x, summed, for each row on the left.
    fn run_products(
        &mut self,
        dot: &Dot<'c>,
        format: &'static Format,
        run: &Run,
        place: &mut Place<'c>,
        k: Size<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let rows = dot.shape[0] as usize;
        let chains = if rows == 1 { CHAINS } else { 1 };
        let zero = self.b.constant(self.b.vector(self.target.lanes, dot.element), 0.0)?;
        let mut parts = vec![zero; rows * chains];
        for segment in run.segments {
            let Some(affine) = segment.affine() else { continue };
            // Of one row, a loop costs up to a tenth of the speed, and its code is small anyway
            // unless codes are looked up.
            let rolled = rows > 1 || looks_up(affine.codes);
            let codes = Elements { format, segment, expr: affine.codes, rolled };
            parts =
                self.for_elements(&codes, place, &parts, &mut |lowering, place, element, ahead, parts| {
                    let codes = lowering.decode_expr(format, affine.codes, place, element)?;
                    let codes = lowering.to_float(codes)?;
                    let at = lowering.add(k, Size::Const((segment.start + element) as i64))?;
                    let at = lowering.add(at, ahead)?;
                    for row in 0..rows {
                        let x = lowering.read_scalar(&dot.lhs, &[Size::Const(row as i64), at])?;
                        let x = lowering.splat(x, lowering.target.lanes)?;
                        let slot = row * chains + element % chains;
                        parts[slot] = lowering.multiply_add(codes, x, parts[slot])?;
                    }
                    Ok(())
                })?;
        }
        parts
            .chunks(chains)
            .map(|chain| {
                let mut all = chain.iter().copied();
                let first = all
                    .next()
                    .ok_or_else(|| PassError::new(self.b.location(), "internal error: an empty run"))?;
                all.try_fold(first, |sum, part| self.b.binary("arith.addf", sum, part))
            })
            .collect()
    }

    /// Fills a panel [K, 2 vectors] with the columns from `first` on, decoded. Rows of
    /// the matrix beyond its last group are not read: the last vector is repeated.
    pub(super) fn pack_blocks(
        &mut self,
        dot: &Dot<'c>,
        blocks: &Blocks<'c>,
        first: Size<'c>,
        panel: &View<'c>,
    ) -> Result<(), PassError> {
        let format = blocks.format;
        let width = self.target.lanes;
        let last = self.b.binary("arith.subi", self.value(dot.n)?, self.b.i64(1)?)?;
        let last = self.value(self.round_down(Size::Value(last), width as i64)?)?;
        let count = self.block_count(dot, format)?;
        self.for_loop(Size::Const(0), count, 1, &[], |lowering, block, _| {
            let k = lowering.multiply(block, Size::Const(format.elements as i64))?;
            let columns = Size::Const(2 * width as i64);
            lowering.for_loop_rolled(Size::Const(0), columns, width as i64, &[], |lowering, column, _| {
                let row = lowering.value(lowering.add(first, column)?)?;
                let row = lowering.b.binary("arith.minsi", row, last)?;
                let mut place = lowering.rows_place(blocks, Size::Value(row), block, width)?;
                lowering.decode_rows(format, &mut place, &mut |lowering, element, value| {
                    let at = lowering.add(k, element)?;
                    let pointer = lowering.address(panel, &[at, column])?;
                    lowering.store_element(value, pointer, None)
                })?;
                Ok(Vec::new())
            })?;
            Ok(Vec::new())
        })?;
        Ok(())
    }
}
