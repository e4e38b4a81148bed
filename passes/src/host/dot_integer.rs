//! Dot of quantised activations with weights of a block format: sums of products of
//! integers, scaled once for each run of a block that shares its scale.
//!
//! With codes `c` (and bias `b`), scale `s` and offset `o` of a run of weights, and codes
//! `q` and scale `d` of the activations, a run adds
//! `s * (d * sum((c + b) q) - b * d * sum(q)) + o * d * sum(q)`; the activations' blocks
//! hold `d * sum(q)`. Sums of integers are exact. Here few rows on the left stream the
//! weights; more go through panels ([`super::integer_panel`]).

use phobos_artifact::format::{
    Affine, Format,
    activation::{CODES, HALF_SUMS, SCALE, SUM},
};
use phobos_dialect::{Op, PassError, Val, build::IntegerPredicate};

use super::{
    Lowering,
    dot::Dot,
    dot_blocks::{Run, runs},
    emit::Size,
    format::{Blocks, Place},
    integer::{CodeRange, Sum, code_range},
    source::{Chunk, Kind},
};

/// Rows of the left side up to which the weights are streamed.
const MAX_STREAMED_ROWS: i64 = 4;
/// Sums of a row's products, so that additions overlap.
const CHAINS: usize = 2;

/// The left side: blocks in rows, whole up to the depth of a block of weights.
#[derive(Clone, Copy)]
pub(super) struct Activations<'c> {
    pointer: Val<'c>,
    /// Bytes from one row to the next.
    row_bytes: Val<'c>,
    pub format: &'static Format,
}

impl Activations<'_> {
    /// Whether the codes have 16 bits.
    pub fn short(&self) -> bool {
        self.format.largest_code() != Some(127)
    }

    /// Bytes of a code.
    fn code_bytes(&self) -> i64 {
        if self.short() { 2 } else { 1 }
    }
}

/// A dot that integers can do.
pub(super) struct Product<'a, 'c> {
    pub dot: &'a Dot<'c>,
    pub weights: &'a Blocks<'c>,
    pub x: Activations<'c>,
    /// Of the weights' codes.
    pub range: CodeRange,
}

/// A run of 16 or 32 elements and where it is in a block of activations.
pub(super) struct RunPlace {
    /// The block of activations, counted from the first of a block of weights.
    pub block: usize,
    /// Where the scaled sum of the activations is.
    pub sum: usize,
}

impl RunPlace {
    pub fn of(run: &Run, activations: &Format) -> RunPlace {
        let (block, start) = (run.start / activations.elements, run.start % activations.elements);
        RunPlace { block, sum: sum_place(start, run.count, activations) }
    }
}

/// Where a block of activations has the scaled sum of `count` codes from `start` on: all, or a
/// half.
pub(super) fn sum_place(start: usize, count: usize, activations: &Format) -> usize {
    if count == activations.elements { SUM } else { HALF_SUMS[start / count] }
}

impl<'c> Lowering<'c> {
    /// Lowers a dot whose left side is quantised, if integers can do it; else both sides
    /// become decoded, and a remark says why.
    pub(super) fn dot_quantized(&mut self, op: Op<'c>, dot: &mut Dot<'c>) -> Result<bool, PassError> {
        let (Kind::Blocks(x), Kind::Blocks(weights)) = (dot.lhs.kind.clone(), dot.rhs.kind.clone()) else {
            return Err(PassError::at(op, "internal error: one side of a dot of blocks is decoded"));
        };
        let range = code_range(weights.format);
        let (left, right) = (x.format.name, weights.format.name);
        let stopped = if dot.rhs.aligned_blocks().is_none() {
            Some("the right side does not start at a multiple of 16 rows")
        } else if range.is_none() {
            Some("its codes do not fit bytes")
        } else if x.format.largest_code().is_none() {
            Some("the left side is no format of activations")
        } else {
            None
        };
        let (Some(range), None) = (range, stopped) else {
            let why = stopped.unwrap_or_default();
            self.remark(op, &format!("dot_t of {left} with {right}: both sides decoded to f32: {why}"));
            dot.lhs.kind = Kind::Decode(x);
            dot.rhs.kind = Kind::Decode(weights);
            (dot.lhs.element, dot.rhs.element) = (self.b.f32(), self.b.f32());
            return Ok(false);
        };
        let x = self.activations(op, dot, &x, &weights)?;
        let product = Product { dot, weights: &weights, x, range };
        let instruction =
            if x.short() { self.target.integer.of_shorts() } else { self.target.integer.of_bytes(range) };
        if dot.shape[0] <= MAX_STREAMED_ROWS || x.short() {
            let panels = if dot.shape[0] <= MAX_STREAMED_ROWS {
                "few rows on the left"
            } else {
                "16-bit codes have no panels: q8_1 has"
            };
            self.remark(
                op,
                &format!(
                    "dot_t of {left} with {right} (16 rows interleaved): integer products by {instruction}, \
                     streamed across {} rows: {panels}",
                    self.target.lanes
                ),
            );
            self.dot_integer_rows(&product)?;
        } else {
            let (rows, vectors) = self.target.integer_tile;
            self.remark(
                op,
                &format!(
                    "dot_t of {left} with {right} (16 rows interleaved): integer products by {instruction}, \
                     register tile of {rows} rows by {} columns over panels of the right side as bytes",
                    vectors * self.target.lanes
                ),
            );
            self.dot_integer_panels(&product)?;
        }
        Ok(true)
    }

    /// The left side, so that whole blocks of weights can be multiplied: where the depth
    /// ends inside one, the activations are copied and followed by zeros.
    fn activations(
        &mut self,
        op: Op<'c>,
        dot: &Dot<'c>,
        x: &Blocks<'c>,
        weights: &Blocks<'c>,
    ) -> Result<Activations<'c>, PassError> {
        let format = x.format;
        let row_bytes = |lowering: &Self, blocks: &Blocks<'c>| {
            let bytes = Size::Const(if blocks.row_axis.is_some() { format.bytes as i64 } else { 0 });
            lowering.value(lowering.multiply(blocks.blocks_per_row, bytes)?)
        };
        let first = self.add(self.multiply(x.row, x.blocks_per_row)?, x.block)?;
        let pointer = self.byte_offset(x.pointer, self.multiply(first, Size::Const(format.bytes as i64))?)?;
        let direct = Activations { pointer, row_bytes: row_bytes(self, x)?, format };
        let whole = weights.format.elements as i64;
        if self.is_multiple(dot.k, whole) || whole == format.elements as i64 {
            return Ok(direct);
        }
        let copy = self.scratch_blocks(op, format, &dot.lhs.shape)?;
        let left = self.b.binary("arith.remui", self.value(dot.k)?, self.b.i64(whole)?)?;
        let ragged = self.b.compare_integers(IntegerPredicate::NotEqual, left, self.b.i64(0)?)?;
        let mut source = dot.lhs.clone();
        source.extents = vec![dot.m, dot.k];
        let bytes = dot.lhs.shape[0] * dot.lhs.shape[1] / format.elements as i64 * format.bytes as i64;
        self.if_then(ragged, |lowering| {
            let zero = lowering.b.integer(lowering.b.vector(4, lowering.b.int(32)), 0)?;
            lowering.for_loop(Size::Const(0), Size::Const(bytes), 16, &[], |lowering, at, _| {
                lowering.store_element(zero, lowering.byte_offset(copy.pointer, at)?, None)?;
                Ok(Vec::new())
            })?;
            lowering.store_blocks(&source, &copy)
        })?;
        Ok(Activations {
            pointer: self.b.select(ragged, copy.pointer, direct.pointer)?,
            row_bytes: self.b.select(ragged, row_bytes(self, &copy)?, direct.row_bytes)?,
            format,
        })
    }

    /// Blocks of weights along the depth, the last one counted whole.
    pub(super) fn weight_blocks(&self, dot: &Dot<'c>, format: &Format) -> Result<Size<'c>, PassError> {
        let elements = format.elements as i64;
        self.divide(self.round_up(dot.k, elements)?, elements)
    }

    /// The first block of each of `rows` rows from `first` on; the last valid one stands
    /// for those beyond it.
    pub(super) fn activation_rows(
        &self,
        dot: &Dot<'c>,
        x: Activations<'c>,
        first: Size<'c>,
        rows: usize,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let valid = matches!(dot.m, Size::Const(m) if m == dot.shape[0]);
        let last = self.b.binary("arith.subi", self.value(dot.m)?, self.b.i64(1)?)?;
        (0..rows)
            .map(|row| {
                let mut row = self.add(first, Size::Const(row as i64))?;
                if !valid {
                    row = Size::Value(self.b.binary("arith.minsi", self.value(row)?, last)?);
                }
                self.activation_row(x, row)
            })
            .collect()
    }

    /// The first block of a row.
    pub(super) fn activation_row(&self, x: Activations<'c>, row: Size<'c>) -> Result<Val<'c>, PassError> {
        self.byte_offset(x.pointer, self.multiply(row, Size::Value(x.row_bytes))?)
    }

    /// A header field of a block of activations in every lane.
    pub(super) fn activation_header(&self, block: Val<'c>, at: usize) -> Result<Val<'c>, PassError> {
        let place = self.byte_offset(block, Size::Const(at as i64))?;
        let number = self.raw_load(place, self.b.f32(), 4)?;
        self.splat(number, self.target.lanes)
    }

    /// The word of codes from `element` on in every lane: four of 8 bits or two of 16.
    pub(super) fn activation_word(
        &self,
        x: Activations<'c>,
        block: Val<'c>,
        element: usize,
    ) -> Result<Val<'c>, PassError> {
        let at = CODES as i64 + element as i64 * x.code_bytes();
        let word = self.raw_load(self.byte_offset(block, Size::Const(at))?, self.b.int(32), 4)?;
        self.splat(word, self.target.lanes)
    }

    /// Few rows: each group of interleaved rows of weights is streamed once.
    fn dot_integer_rows(&mut self, product: &Product<'_, 'c>) -> Result<(), PassError> {
        let Product { dot, x, .. } = *product;
        let rows = (dot.shape[0] as usize).min(MAX_STREAMED_ROWS as usize);
        let width = self.target.lanes;
        // Without valid rows there is nothing to read.
        self.for_loop(Size::Const(0), dot.m, rows as i64, &[], |lowering, row, _| {
            let starts = lowering.activation_rows(dot, x, row, rows)?;
            lowering.for_loop(Size::Const(0), dot.n, width as i64, &[], |lowering, first, _| {
                let totals = lowering.integer_totals(product, &starts, first)?;
                let left = lowering.b.binary("arith.subi", lowering.value(dot.n)?, lowering.value(first)?)?;
                let mask = lowering.mask_below(left, width)?;
                for (number, total) in totals.into_iter().enumerate() {
                    let at = lowering.add(row, Size::Const(number as i64))?;
                    let place = Chunk {
                        index: vec![at, first],
                        axis: 1,
                        width,
                        vectors: 1,
                        tail: Some((mask, left)),
                    };
                    let inside = matches!(dot.m, Size::Const(m) if m % rows as i64 == 0);
                    let store = |lowering: &mut Self| lowering.add_total(dot, &place, total);
                    if inside {
                        store(lowering)?;
                    } else {
                        let valid = lowering.b.compare_integers(
                            IntegerPredicate::SignedLess,
                            lowering.value(at)?,
                            lowering.value(dot.m)?,
                        )?;
                        lowering.if_then(valid, store)?;
                    }
                }
                Ok(Vec::new())
            })
        })?;
        Ok(())
    }

    /// Adds a vector to the accumulator and writes it.
    fn add_total(&mut self, dot: &Dot<'c>, place: &Chunk<'c>, total: Val<'c>) -> Result<(), PassError> {
        let before = self.read(&dot.acc, place)?[0];
        let before = self.operand_element(before, dot.element)?;
        let total = self.b.binary("arith.addf", before, total)?;
        let total = self.narrow(total, dot.out.element)?;
        self.write(&dot.out, place, &[total])
    }

    /// For the interleaved rows from `first` on, the sum over all blocks for each row of
    /// activations.
    fn integer_totals(
        &mut self,
        product: &Product<'_, 'c>,
        starts: &[Val<'c>],
        first: Size<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let Product { dot, weights, x, .. } = *product;
        let format = weights.format;
        let width = self.target.lanes;
        let zero = self.b.constant(self.b.vector(width, dot.element), 0.0)?;
        let count = self.weight_blocks(dot, format)?;
        let per_block = format.elements / x.format.elements;
        let initial = vec![zero; starts.len()];
        self.for_loop(Size::Const(0), count, 1, &initial, |lowering, block, totals| {
            let mut totals = totals.to_vec();
            let mut place = lowering.rows_place(weights, first, block, width)?;
            lowering.prefetch_ahead(&place, format)?;
            let bytes = Size::Const((per_block * x.format.bytes) as i64);
            let offset = lowering.multiply(block, bytes)?;
            let blocks = starts
                .iter()
                .map(|start| lowering.byte_offset(*start, offset))
                .collect::<Result<Vec<_>, _>>()?;
            for run in &runs(format) {
                let Some(affine) = run.segments[0].affine() else { continue };
                let at = RunPlace::of(run, x.format);
                let blocks = blocks
                    .iter()
                    .map(|first| {
                        lowering.byte_offset(*first, Size::Const((at.block * x.format.bytes) as i64))
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                let sums = lowering.run_sums(product, run, &mut place, &blocks)?;
                lowering.scale_run(product, affine, &mut place, (&blocks, &sums, at.sum), &mut totals)?;
            }
            Ok(totals)
        })
    }

    /// The sum of a run's integer products for each row of activations.
    fn run_sums(
        &mut self,
        product: &Product<'_, 'c>,
        run: &Run,
        place: &mut Place<'c>,
        blocks: &[Val<'c>],
    ) -> Result<Vec<Val<'c>>, PassError> {
        let Product { weights, x, range, .. } = *product;
        let format = weights.format;
        let width = self.target.lanes;
        let chains = if blocks.len() == 1 { CHAINS } else { 1 };
        let mut sums = vec![Sum::default(); blocks.len() * chains];
        let mut word = 0;
        for segment in run.segments {
            let Some(affine) = segment.affine() else { continue };
            for element in (0..segment.count).step_by(4) {
                let codes = self.packed_codes(format, affine.codes, place, element)?;
                let at = (segment.start + element) % x.format.elements;
                let halves = if x.short() { Some(self.halves(codes)?) } else { None };
                for (row, block) in blocks.iter().enumerate() {
                    let sum = &mut sums[row * chains + word % chains];
                    match halves {
                        Some((even, odd)) => {
                            self.add_shorts(sum, even, self.activation_word(x, *block, at)?)?;
                            self.add_shorts(sum, odd, self.activation_word(x, *block, at + 2)?)?;
                        }
                        None => {
                            self.add_bytes(sum, codes, self.activation_word(x, *block, at)?, range.max)?;
                        }
                    }
                }
                word += 1;
            }
        }
        sums.chunks(chains)
            .map(|chain| {
                let mut total = self.finish(chain[0], width)?;
                for sum in &chain[1..] {
                    total = self.b.binary("arith.addi", total, self.finish(*sum, width)?)?;
                }
                Ok(total)
            })
            .collect()
    }

    /// Adds a run, scaled and offset, to the totals: for each row its block of activations and
    /// its sum of products; `at` is where the block has the sum of its codes.
    fn scale_run(
        &mut self,
        product: &Product<'_, 'c>,
        affine: Affine,
        place: &mut Place<'c>,
        (blocks, sums, at): (&[Val<'c>], &[Val<'c>], usize),
        totals: &mut [Val<'c>],
    ) -> Result<(), PassError> {
        let (format, range) = (product.weights.format, product.range);
        let scale = self.decode_expr(format, affine.scale, place, 0)?;
        let offset = match affine.offset {
            Some(offset) => Some(self.decode_expr(format, offset, place, 0)?),
            None => None,
        };
        for ((total, sum), block) in totals.iter_mut().zip(sums).zip(blocks) {
            let d = self.activation_header(*block, SCALE)?;
            let sum = self.to_float(*sum)?;
            let mut product = self.b.binary("arith.mulf", sum, d)?;
            if range.bias != 0 {
                let x = self.activation_header(*block, at)?;
                let bias =
                    self.b.constant(self.b.vector(self.target.lanes, self.b.f32()), -(range.bias as f64))?;
                // One rounding: the product of the sum is large beside the result.
                let taken = self.b.binary("arith.mulf", x, bias)?;
                product = self.multiply_add(sum, d, taken)?;
            }
            *total = self.multiply_add(scale, product, *total)?;
            if let Some(offset) = offset {
                let x = self.activation_header(*block, at)?;
                *total = self.multiply_add(offset, x, *total)?;
            }
        }
        Ok(())
    }
}
