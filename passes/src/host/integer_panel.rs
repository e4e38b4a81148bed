//! Panels for products with `q8_1` activations: the weights of some columns of the result
//! unpacked to bytes once, then multiplied with all rows by a register-blocked
//! micro-kernel.
//!
//! For each 32 elements of depth a panel holds, one vector of rows of weights after the
//! other: eight words of four biased codes, then the scale of each run, then its offset
//! with the bias in it (`offset - bias * scale`), if there is one.

use phobos_artifact::format::activation::SCALE;
use phobos_dialect::{PassError, Val};

use super::{
    Lowering,
    dot_blocks::{Run, runs},
    dot_integer::{Product, sum_place},
    emit::Size,
    integer::Sum,
    source::Chunk,
};

/// Words of a vector's codes in a block of depth.
const WORDS: usize = 8;

/// How a panel lies in scratch.
struct Panel<'c> {
    pointer: Val<'c>,
    lanes: usize,
    vectors: usize,
    /// Runs in 32 elements: 1 or 2.
    runs: usize,
    offsets: bool,
}

impl Panel<'_> {
    fn vector_bytes(&self) -> usize {
        4 * self.lanes
    }

    /// Bytes of 32 elements of depth.
    fn block_bytes(&self) -> usize {
        let scales = if self.offsets { 2 * self.runs } else { self.runs };
        (WORDS + scales) * self.vectors * self.vector_bytes()
    }

    fn word(&self, word: usize, vector: usize) -> usize {
        (word * self.vectors + vector) * self.vector_bytes()
    }

    fn scale(&self, run: usize, vector: usize) -> usize {
        self.word(WORDS + run, vector)
    }

    fn offset(&self, run: usize, vector: usize) -> usize {
        self.word(WORDS + self.runs + run, vector)
    }
}

impl<'c> Lowering<'c> {
    pub(super) fn dot_integer_panels(&mut self, product: &Product<'_, 'c>) -> Result<(), PassError> {
        let Product { dot, weights, x, range } = *product;
        let format = weights.format;
        let all = runs(format);
        let (rows, vectors) = self.target.integer_tile;
        let offsets = range.bias != 0
            || all.iter().any(|run| run.segments[0].affine().is_some_and(|a| a.offset.is_some()));
        let lanes = self.target.lanes as usize;
        let mut panel = Panel {
            pointer: self.scratch,
            lanes,
            vectors: vectors as usize,
            runs: x.format.elements / all.first().map_or(32, |run| run.count),
            offsets,
        };
        let depth = (dot.shape[2] as usize).div_ceil(x.format.elements);
        panel.pointer = self.allocate((depth * panel.block_bytes()) as u64)?;
        let columns = (panel.vectors * lanes) as i64;
        let panel = &panel;
        self.for_loop(Size::Const(0), dot.n, columns, &[], |lowering, first, _| {
            lowering.pack_codes(product, first, panel, &all)?;
            lowering.for_row_tiles(dot.m, rows, &mut |lowering, row, rows| {
                lowering.integer_tile(product, (row, rows), first, panel)
            })?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Fills the panel of the columns from `first` on. Beyond the last group the last
    /// vector is repeated.
    fn pack_codes(
        &mut self,
        product: &Product<'_, 'c>,
        first: Size<'c>,
        panel: &Panel<'c>,
        all: &[Run],
    ) -> Result<(), PassError> {
        let Product { dot, weights, range, .. } = *product;
        let format = weights.format;
        let width = panel.lanes as i64;
        let last = self.b.binary("arith.subi", self.value(dot.n)?, self.b.i64(1)?)?;
        let last = self.value(self.round_down(Size::Value(last), width)?)?;
        let count = self.weight_blocks(dot, format)?;
        let per_block = (format.elements / 32 * panel.block_bytes()) as i64;
        self.for_loop(Size::Const(0), count, 1, &[], |lowering, block, _| {
            let start =
                lowering.byte_offset(panel.pointer, lowering.multiply(block, Size::Const(per_block))?)?;
            for vector in 0..panel.vectors {
                let row = lowering.value(lowering.add(first, Size::Const(vector as i64 * width))?)?;
                let row = lowering.b.binary("arith.minsi", row, last)?;
                let mut place = lowering.rows_place(weights, Size::Value(row), block, width as u64)?;
                lowering.prefetch_ahead(&place, format)?;
                for (number, run) in all.iter().enumerate() {
                    let Some(affine) = run.segments[0].affine() else { continue };
                    let (block, in_block) = (run.start / 32, number % panel.runs);
                    let at = |offset: usize| Size::Const((block * panel.block_bytes() + offset) as i64);
                    for segment in run.segments {
                        let Some(affine) = segment.affine() else { continue };
                        for element in (0..segment.count).step_by(4) {
                            let codes = lowering.packed_codes(format, affine.codes, &mut place, element)?;
                            let word = (segment.start + element) % 32 / 4;
                            let target = lowering.byte_offset(start, at(panel.word(word, vector)))?;
                            lowering.store_element(codes, target, None)?;
                        }
                    }
                    let scale = lowering.decode_expr(format, affine.scale, &mut place, 0)?;
                    let target = lowering.byte_offset(start, at(panel.scale(in_block, vector)))?;
                    lowering.store_element(scale, target, None)?;
                    if panel.offsets {
                        let ty = lowering.b.vector(width as u64, lowering.b.f32());
                        let mut offset = match affine.offset {
                            Some(offset) => lowering.decode_expr(format, offset, &mut place, 0)?,
                            None => lowering.b.constant(ty, 0.0)?,
                        };
                        if range.bias != 0 {
                            let bias = lowering.b.constant(ty, -(range.bias as f64))?;
                            offset = lowering.multiply_add(scale, bias, offset)?;
                        }
                        let target = lowering.byte_offset(start, at(panel.offset(in_block, vector)))?;
                        lowering.store_element(offset, target, None)?;
                    }
                }
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Some rows of the left side with a panel, summed in registers over the depth.
    fn integer_tile(
        &mut self,
        product: &Product<'_, 'c>,
        (row, rows): (Size<'c>, usize),
        first: Size<'c>,
        panel: &Panel<'c>,
    ) -> Result<(), PassError> {
        let Product { dot, weights, x, .. } = *product;
        let format = weights.format;
        let width = self.target.lanes;
        let mut starts = Vec::new();
        for number in 0..rows {
            let row = self.add(row, Size::Const(number as i64))?;
            starts.push(self.activation_row(x, row)?);
        }
        let mut places = Vec::new();
        let mut initial = Vec::new();
        for number in 0..rows {
            for vector in 0..panel.vectors {
                let column = self.add(first, Size::Const((vector * panel.lanes) as i64))?;
                let left = self.b.binary("arith.subi", self.value(dot.n)?, self.value(column)?)?;
                let mask = self.mask_below(left, width)?;
                let index = vec![self.add(row, Size::Const(number as i64))?, column];
                let place = Chunk { index, axis: 1, width, vectors: 1, tail: Some((mask, left)) };
                let before = self.read(&dot.acc, &place)?[0];
                initial.push(self.operand_element(before, dot.element)?);
                places.push(place);
            }
        }
        let per_weight = (format.elements / x.format.elements) as i64;
        let count = self.multiply(self.weight_blocks(dot, format)?, Size::Const(per_weight))?;
        let totals = self.for_loop(Size::Const(0), count, 1, &initial, |lowering, block, totals| {
            let bytes = lowering.multiply(block, Size::Const(panel.block_bytes() as i64))?;
            let weights = lowering.byte_offset(panel.pointer, bytes)?;
            let bytes = lowering.multiply(block, Size::Const(x.format.bytes as i64))?;
            let blocks = starts
                .iter()
                .map(|start| lowering.byte_offset(*start, bytes))
                .collect::<Result<Vec<_>, _>>()?;
            lowering.tile_block(product, panel, weights, &blocks, totals)
        })?;
        for (place, total) in places.iter().zip(totals) {
            let total = self.narrow(total, dot.out.element)?;
            self.write(&dot.out, place, &[total])?;
        }
        Ok(())
    }

    /// 32 elements of depth: a total for each row and vector.
    fn tile_block(
        &mut self,
        product: &Product<'_, 'c>,
        panel: &Panel<'c>,
        weights: Val<'c>,
        blocks: &[Val<'c>],
        totals: &[Val<'c>],
    ) -> Result<Vec<Val<'c>>, PassError> {
        let Product { x, range, .. } = *product;
        let width = self.target.lanes;
        let words = self.b.vector(width, self.b.int(32));
        let floats = self.b.vector(width, self.b.f32());
        let load = |lowering: &Self, ty, at: usize| {
            let place = lowering.byte_offset(weights, Size::Const(at as i64))?;
            lowering.raw_load(place, ty, 4)
        };
        let mut totals = totals.to_vec();
        let in_run = WORDS / panel.runs;
        for run in 0..panel.runs {
            let mut sums = vec![Sum::default(); blocks.len() * panel.vectors];
            for word in run * in_run..(run + 1) * in_run {
                let mut codes = Vec::new();
                for vector in 0..panel.vectors {
                    codes.push(load(self, words, panel.word(word, vector))?);
                }
                for (row, block) in blocks.iter().enumerate() {
                    let x = self.activation_word(x, *block, 4 * word)?;
                    for (vector, codes) in codes.iter().enumerate() {
                        self.add_bytes(&mut sums[row * panel.vectors + vector], *codes, x, range.max)?;
                    }
                }
            }
            let elements = 32 / panel.runs;
            let sum_at = sum_place(run * elements, elements, x.format);
            for vector in 0..panel.vectors {
                let scale = load(self, floats, panel.scale(run, vector))?;
                let offset =
                    if panel.offsets { Some(load(self, floats, panel.offset(run, vector))?) } else { None };
                for (row, block) in blocks.iter().enumerate() {
                    let slot = row * panel.vectors + vector;
                    let sum = self.to_float(self.finish(sums[slot], width)?)?;
                    let d = self.activation_header(*block, SCALE)?;
                    let product = self.b.binary("arith.mulf", sum, d)?;
                    totals[slot] = self.multiply_add(scale, product, totals[slot])?;
                    if let Some(offset) = offset {
                        let x = self.activation_header(*block, sum_at)?;
                        totals[slot] = self.multiply_add(offset, x, totals[slot])?;
                    }
                }
            }
        }
        Ok(totals)
    }
}
