//! `phobos.dot`: which way it is computed.
//!
//! - **rows**: with few rows and a transposed right side (a matrix times a vector),
//!   each row of the right side is streamed once and multiplied as it is decoded.
//! - **outer**: the right side is [K, N] with N contiguous: the micro-kernel reads it
//!   in place, or decodes as it goes when every element is needed once.
//! - **packed**: the right side is transposed and used by many rows: a panel of it is
//!   decoded and transposed into scratch, then the micro-kernel runs on the panel.

use melior::ir::{ValueLike, operation::OperationLike};
use phobos_dialect::{Op, PassError, Type, Val, build::IntegerPredicate, ir};

use super::{
    Lowering,
    dot_blocks::splits,
    emit::Size,
    format::Blocks,
    source::{Chunk, Kind, Source, View},
    tile::only_here,
};

/// Rows of the left side up to which the right side is streamed.
const MAX_STREAMED_ROWS: i64 = 4;
/// Vectors of a row that are summed apart, so that additions overlap.
const CHAINS: usize = 4;

/// The pieces of a dot.
pub(super) struct Dot<'c> {
    pub lhs: Source<'c>,
    pub rhs: Source<'c>,
    /// The initial value of each element.
    pub acc: Source<'c>,
    /// Where the result goes.
    pub out: View<'c>,
    /// Valid rows, columns and depth.
    pub m: Size<'c>,
    pub n: Size<'c>,
    pub k: Size<'c>,
    /// Static shape of the result and the depth.
    pub shape: [i64; 3],
    /// The type that products are summed in.
    pub element: Type<'c>,
}

/// The way of a dot with decoded sides.
pub(super) enum Way<'c> {
    /// Rows of blocks are streamed, vectors across interleaved rows.
    BlockRows(Blocks<'c>),
    /// Rows of the right side are streamed.
    Rows,
    /// Panels of the transposed right side.
    Packed,
    /// The right side as it is.
    Outer,
}

impl<'c> Way<'c> {
    fn of(dot: &Dot<'c>, transposed: bool) -> Way<'c> {
        let blocks = dot.rhs.aligned_blocks().filter(|blocks| splits(blocks));
        match (transposed, dot.shape[0] <= MAX_STREAMED_ROWS, blocks) {
            (true, true, Some(blocks)) => Way::BlockRows(blocks.clone()),
            (true, true, None) => Way::Rows,
            (true, false, _) => Way::Packed,
            (false, ..) => Way::Outer,
        }
    }
}

impl<'c> Lowering<'c> {
    pub(super) fn dot(&mut self, op: Op<'c>) -> Result<(), PassError> {
        let operands = ir::operands(op);
        let (lhs, rhs, mut acc) =
            (self.source(operands[0])?, self.source(operands[1])?, self.source(operands[2])?);
        if acc.granularity() > 1 {
            // It is read a few elements at a time.
            acc = self.materialize(&acc)?;
        }
        let result = ir::results(op)[0];
        let (shape, element) = self.shape(result)?;
        let shape = [shape[0], shape[1], lhs.shape[1]];
        let extents = self.extents(&shape, &operands[3..])?;
        let half = ir::is_float(element) && ir::bit_width(element) == Some(16);
        let wide = if half { self.b.f32() } else { element };
        if half {
            self.remark(op, "dot: f16 accumulator: each sum is made in f32 and rounded when it is stored");
        }
        let out = match acc.view() {
            Some(view) if view.owned && only_here(operands[2], op) => view.clone(),
            _ => match self.reusable(&acc) {
                Some(view) => view,
                None => self.scratch_tile(&shape[..2], element)?,
            },
        };
        let mut dot =
            Dot { lhs, rhs, acc, out, m: extents[0], n: extents[1], k: extents[2], shape, element: wide };
        if matches!(dot.lhs.kind, Kind::Blocks(_)) && self.dot_quantized(op, &mut dot)? {
            return self.define_dot(result, dot, &shape, element);
        }
        let transposed = op.has_attribute("transposed");
        let way = Way::of(&dot, transposed);
        self.remark(op, &self.dot_remark(&dot, &way));
        if transposed {
            self.pad_depth(&mut dot)?;
        }
        match &way {
            Way::BlockRows(blocks) => self.dot_block_rows(&mut dot, blocks)?,
            Way::Rows => self.dot_rows(&mut dot)?,
            Way::Packed => self.dot_packed(&mut dot)?,
            Way::Outer => self.dot_outer(&mut dot)?,
        }
        self.define_dot(result, dot, &shape, element)
    }

    fn define_dot(
        &mut self,
        result: Val<'c>,
        dot: Dot<'c>,
        shape: &[i64; 3],
        element: Type<'c>,
    ) -> Result<(), PassError> {
        let mut source = Source::whole(Kind::View(dot.out), element, shape[..2].to_vec());
        source.extents = vec![dot.m, dot.n];
        self.define(result, source);
        Ok(())
    }

    /// The left side as something whose elements can be read again and again, in the type
    /// that products are summed in.
    fn settle_lhs(&mut self, dot: &mut Dot<'c>) -> Result<(), PassError> {
        dot.lhs.extents = vec![dot.m, dot.k];
        if dot.lhs.element == dot.element {
            dot.lhs = self.materialize(&dot.lhs)?;
            return Ok(());
        }
        let (source, element) = (dot.lhs.clone(), dot.element);
        let view = self.scratch_tile(&source.shape, element)?;
        self.for_chunks(
            &source.shape,
            &source.extents,
            source.lane_axis(),
            source.granularity(),
            &mut |lowering, chunk| {
                let mut values = lowering.read(&source, chunk)?;
                for value in &mut values {
                    *value = lowering.operand_element(*value, element)?;
                }
                lowering.write(&view, chunk, &values)
            },
        )?;
        dot.lhs = Source { kind: Kind::View(view), element, ..source };
        Ok(())
    }

    /// Blocks of a transposed right side lie along the depth and are multiplied whole. Where it
    /// ends inside one, because the left side is narrower, the left side is copied and
    /// followed by zeros; a right side that reads more than such blocks is computed first.
    fn pad_depth(&mut self, dot: &mut Dot<'c>) -> Result<(), PassError> {
        let whole = dot.rhs.granularity() as i64;
        if whole == 1 || self.is_multiple(dot.k, whole) {
            return Ok(());
        }
        if !dot.rhs.has_whole_blocks(1, whole as u64) {
            dot.rhs.extents = vec![dot.n, dot.k];
            dot.rhs = self.materialize(&dot.rhs)?;
            return Ok(());
        }
        self.settle_lhs(dot)?;
        let Some(view) = dot.lhs.view().cloned() else { return Ok(()) };
        let copy = self.scratch_tile(&dot.lhs.shape.clone(), dot.lhs.element)?;
        let lhs = Source { extents: vec![dot.m, dot.k], ..dot.lhs.clone() };
        let left = self.b.binary("arith.remui", self.value(dot.k)?, self.b.i64(whole)?)?;
        let ragged = self.b.compare_integers(IntegerPredicate::NotEqual, left, self.b.i64(0)?)?;
        self.if_then(ragged, |lowering| lowering.copy_padded(&lhs, &copy))?;
        let strides = view
            .strides
            .iter()
            .zip(&copy.strides)
            .map(|(direct, copied)| match direct == copied {
                true => Ok(*direct),
                false => {
                    let chosen = self.b.select(ragged, self.value(*copied)?, self.value(*direct)?)?;
                    Ok(Size::Value(chosen))
                }
            })
            .collect::<Result<_, PassError>>()?;
        let pointer = self.b.select(ragged, copy.pointer, view.pointer)?;
        dot.lhs.kind = Kind::View(View { pointer, strides, owned: false, ..view });
        dot.k = self.round_up(dot.k, whole)?;
        Ok(())
    }

    /// A value of an operand in the type that products are summed in.
    pub(super) fn operand_element(&self, value: Val<'c>, element: Type<'c>) -> Result<Val<'c>, PassError> {
        let from = phobos_dialect::build::element_type(value.r#type());
        if ir::is_float(element) {
            return self.convert_float(value, element);
        }
        if from == element {
            return Ok(value);
        }
        self.b.value(
            "arith.extsi",
            &[value],
            phobos_dialect::build::with_element(value.r#type(), element),
            &[],
        )
    }

    /// `a * b + c`
    pub(super) fn multiply_add(&self, a: Val<'c>, b: Val<'c>, c: Val<'c>) -> Result<Val<'c>, PassError> {
        let float = ir::is_float(phobos_dialect::build::element_type(a.r#type()));
        if float && self.target.fma {
            return self.b.value("llvm.intr.fma", &[a, b, c], a.r#type(), &[]);
        }
        let (multiply, add) = if float { ("arith.mulf", "arith.addf") } else { ("arith.muli", "arith.addi") };
        let product = self.b.binary(multiply, a, b)?;
        self.b.binary(add, product, c)
    }

    /// Makes the rows of the left side readable together, and returns how often to go
    /// over all of them. With one row its validity is the loop's; with several all are
    /// computed, from scratch, which may be read beyond what is valid.
    pub(super) fn settle_rows(&mut self, dot: &mut Dot<'c>) -> Result<Size<'c>, PassError> {
        self.settle_lhs(dot)?;
        if dot.shape[0] == 1 {
            return Ok(dot.m);
        }
        if dot.lhs.view().is_none_or(|view| !view.owned) {
            dot.lhs.extents = vec![dot.m, dot.k];
            let view = self.scratch_tile(&dot.lhs.shape.clone(), dot.lhs.element)?;
            self.copy_into(&dot.lhs, &view)?;
            dot.lhs.kind = Kind::View(view);
        }
        Ok(Size::Const(1))
    }

    /// Each element of the result as the sum of one row of each side.
    fn dot_rows(&mut self, dot: &mut Dot<'c>) -> Result<(), PassError> {
        let [rows, _, depth] = dot.shape;
        let m = self.settle_rows(dot)?;
        let dot = &*dot;
        let width = self.target.lanes.min((depth as u64).next_power_of_two());
        let unit = (width * CHAINS as u64).max(dot.rhs.granularity());
        let row_ids: Vec<i64> = (0..rows).collect();
        self.for_loop(Size::Const(0), m, 1, &[], |lowering, _, _| {
            lowering.for_loop(Size::Const(0), dot.n, 1, &[], |lowering, column, _| {
                let sums = lowering.row_sums(dot, &row_ids, column, width, unit)?;
                for (row, sum) in row_ids.iter().zip(sums) {
                    let place = [Size::Const(*row), column];
                    let first = lowering.read_scalar(&dot.acc, &place)?;
                    let first = lowering.operand_element(first, dot.element)?;
                    let name = if ir::is_float(dot.element) { "arith.addf" } else { "arith.addi" };
                    let total = lowering.b.binary(name, first, sum)?;
                    let total = lowering.narrow(total, dot.out.element)?;
                    let pointer = lowering.address(&dot.out, &place)?;
                    lowering.store_element(total, pointer, None)?;
                }
                Ok(Vec::new())
            })
        })?;
        Ok(())
    }

    pub(super) fn narrow(&self, value: Val<'c>, element: Type<'c>) -> Result<Val<'c>, PassError> {
        if ir::is_float(element) { self.convert_float(value, element) } else { Ok(value) }
    }

    /// For one column, the sum over k for each row.
    fn row_sums(
        &mut self,
        dot: &Dot<'c>,
        rows: &[i64],
        column: Size<'c>,
        width: u64,
        unit: u64,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let vectors = (unit / width) as usize;
        let chains = vectors.min(CHAINS);
        let ty = self.b.vector(width, dot.element);
        let zero = self.b.constant(ty, 0.0)?;
        let whole = self.round_down(dot.k, unit as i64)?;
        let chunk = |row: Size<'c>, k: Size<'c>, vectors: usize, tail| Chunk {
            index: vec![row, k],
            axis: 1,
            width,
            vectors,
            tail,
        };
        let step = |lowering: &mut Self, k: Size<'c>, vectors: usize, tail, sums: &[Val<'c>]| {
            let weights = lowering.read(&dot.rhs, &chunk(column, k, vectors, tail))?;
            let mut next = sums.to_vec();
            for row in rows {
                let values = lowering.read(&dot.lhs, &chunk(Size::Const(*row), k, vectors, tail))?;
                for (vector, (a, b)) in values.into_iter().zip(&weights).enumerate() {
                    let a = lowering.operand_element(a, dot.element)?;
                    let b = lowering.operand_element(*b, dot.element)?;
                    let slot = *row as usize * chains + vector % chains;
                    next[slot] = lowering.multiply_add(a, b, next[slot])?;
                }
            }
            Ok::<_, PassError>(next)
        };
        let initial = vec![zero; rows.len() * chains];
        let mut sums = self.for_loop(Size::Const(0), whole, unit as i64, &initial, |lowering, k, sums| {
            step(lowering, k, vectors, None, sums)
        })?;
        let exact = self.is_multiple(dot.k, unit as i64);
        let block = dot.rhs.granularity();
        if block > 1 && block < unit && !exact {
            // Single blocks that fill no unit.
            sums = self.for_loop(whole, dot.k, block as i64, &sums, |lowering, k, sums| {
                step(lowering, k, (block / width) as usize, None, sums)
            })?;
        }
        if block == 1 && !exact {
            // The lanes of a masked read beyond k are 0 on both sides.
            sums = self.for_loop(whole, dot.k, width as i64, &sums, |lowering, k, sums| {
                let left = lowering.b.binary("arith.subi", lowering.value(dot.k)?, lowering.value(k)?)?;
                let mask = lowering.mask_below(left, width)?;
                let before = sums.to_vec();
                let next = step(lowering, k, 1, Some((mask, left)), sums)?;
                // A computed operand is not 0 beyond the mask: keep the sum there.
                next.into_iter()
                    .zip(before)
                    .map(|(next, before)| lowering.b.select(mask, next, before))
                    .collect()
            })?;
        }
        let name = if ir::is_float(dot.element) { "arith.addf" } else { "arith.addi" };
        rows.iter()
            .map(|row| {
                let mut parts = sums[*row as usize * chains..(*row as usize + 1) * chains].to_vec();
                while parts.len() > 1 {
                    let half = parts.len() / 2;
                    let (low, high) = parts.split_at(half);
                    let mut next = Vec::new();
                    for (a, b) in low.iter().zip(high) {
                        next.push(self.b.binary(name, *a, *b)?);
                    }
                    next.extend(&high[half..]);
                    parts = next;
                }
                self.sum_across(parts[0])
            })
            .collect()
    }

    /// The right side is [K, N].
    fn dot_outer(&mut self, dot: &mut Dot<'c>) -> Result<(), PassError> {
        self.settle_lhs(dot)?;
        let reused = dot.shape[0] > self.target.rows as i64;
        let contiguous = dot.rhs.view().is_some_and(|view| view.strides[1] == Size::Const(1));
        let narrow = dot.rhs.element != dot.element;
        if dot.rhs.granularity() > 1 || (reused && (!contiguous || narrow)) {
            dot.rhs.extents = vec![dot.k, dot.n];
            let view = self.scratch_tile(&dot.rhs.shape.clone(), dot.rhs.element)?;
            self.copy_into(&dot.rhs, &view)?;
            dot.rhs.kind = Kind::View(view);
        }
        self.micro_kernel(dot, Size::Const(0), dot.n, &dot.rhs.clone())
    }

    /// The right side is [N, K]: decoded and transposed a panel at a time.
    fn dot_packed(&mut self, dot: &mut Dot<'c>) -> Result<(), PassError> {
        self.settle_lhs(dot)?;
        let lanes = self.target.lanes;
        let columns = 2 * lanes as i64;
        let depth = (dot.shape[2] as u64).next_multiple_of(lanes) as i64;
        let panel = self.scratch_tile(&[depth, columns], dot.element)?;
        let packed = Source::whole(Kind::View(panel.clone()), dot.element, vec![depth, columns]);
        let dot = &*dot;
        let blocks = dot.rhs.aligned_blocks();
        self.for_loop(Size::Const(0), dot.n, columns, &[], |lowering, first, _| {
            match blocks {
                Some(blocks) => lowering.pack_blocks(dot, blocks, first, &panel)?,
                None => lowering.pack(dot, first, &panel)?,
            }
            let left = lowering.b.binary("arith.subi", lowering.value(dot.n)?, lowering.value(first)?)?;
            let here = lowering.b.binary("arith.minsi", left, lowering.b.i64(columns)?)?;
            lowering.micro_kernel(dot, first, Size::Value(here), &packed)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Fills a panel [K, 2 vectors] with the columns from `first` on. Columns beyond n
    /// repeat the last: their results are not stored.
    fn pack(&mut self, dot: &Dot<'c>, first: Size<'c>, panel: &View<'c>) -> Result<(), PassError> {
        let width = self.target.lanes;
        let unit = width.max(dot.rhs.granularity());
        let vectors = (unit / width) as usize;
        let last = self.b.binary("arith.subi", self.value(dot.n)?, self.b.i64(1)?)?;
        for group in 0..2 {
            let mut rows = Vec::new();
            for row in 0..width as i64 {
                let row = self.value(self.add(first, Size::Const(group * width as i64 + row))?)?;
                rows.push(Size::Value(self.b.binary("arith.minsi", row, last)?));
            }
            let store =
                |lowering: &mut Self, k: Size<'c>, vectors: usize, tail: Option<(Val<'c>, Val<'c>)>| {
                    let mut block = Vec::new();
                    for row in &rows {
                        let chunk = Chunk { index: vec![*row, k], axis: 1, width, vectors, tail };
                        block.push(lowering.read(&dot.rhs, &chunk)?);
                    }
                    for vector in 0..vectors {
                        let mut square = Vec::new();
                        for values in &block {
                            square.push(lowering.operand_element(values[vector], dot.element)?);
                        }
                        for (step, values) in lowering.transpose(square)?.into_iter().enumerate() {
                            let depth =
                                lowering.add(k, Size::Const(vector as i64 * width as i64 + step as i64))?;
                            let place =
                                lowering.address(panel, &[depth, Size::Const(group * width as i64)])?;
                            lowering.store_element(values, place, None)?;
                        }
                    }
                    Ok::<_, PassError>(())
                };
            let whole = self.round_down(dot.k, unit as i64)?;
            self.for_loop(Size::Const(0), whole, unit as i64, &[], |lowering, k, _| {
                store(lowering, k, vectors, None)?;
                Ok(Vec::new())
            })?;
            if !self.is_multiple(dot.k, unit as i64) {
                self.for_loop(whole, dot.k, unit as i64, &[], |lowering, k, _| {
                    let left = lowering.b.binary("arith.subi", lowering.value(dot.k)?, lowering.value(k)?)?;
                    let mask = lowering.mask_below(left, width)?;
                    store(lowering, k, 1, Some((mask, left)))?;
                    Ok(Vec::new())
                })?;
            }
        }
        Ok(())
    }
}
