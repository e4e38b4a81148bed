//! The register-blocked micro-kernel of dot: some rows of the left side times two
//! vectors of columns of the right side, summed in registers over all of k.

use phobos_dialect::{PassError, Val};

use super::{
    Lowering,
    dot::Dot,
    emit::Size,
    source::{Chunk, Source},
};

/// A block of the result.
struct Block<'c> {
    row: Size<'c>,
    rows: usize,
    /// The first column in the result, and in the right side.
    column: Size<'c>,
    rhs_column: Size<'c>,
    width: u64,
    vectors: usize,
    tail: Option<(Val<'c>, Val<'c>)>,
}

/// Emits the code for a tile of rows: the first, and how many.
type AtRows<'f, 'c> = &'f mut dyn FnMut(&mut Lowering<'c>, Size<'c>, usize) -> Result<(), PassError>;

impl<'c> Lowering<'c> {
    /// Computes the result's columns `first..first + count` from the columns
    /// `0..count` of `rhs`, a [K, N] source.
    pub(super) fn micro_kernel(
        &mut self,
        dot: &Dot<'c>,
        first: Size<'c>,
        count: Size<'c>,
        rhs: &Source<'c>,
    ) -> Result<(), PassError> {
        let width = self.target.lanes.min((dot.shape[1] as u64).next_power_of_two());
        let wide = 2 * width as i64;
        let whole = if dot.shape[1] < wide { Size::Const(0) } else { self.round_down(count, wide)? };
        self.for_loop(Size::Const(0), whole, wide, &[], |lowering, at, _| {
            let column = lowering.add(first, at)?;
            let block =
                Block { row: Size::Const(0), rows: 0, column, rhs_column: at, width, vectors: 2, tail: None };
            lowering.row_blocks(dot, rhs, block)?;
            Ok(Vec::new())
        })?;
        let exact = matches!((count, whole), (Size::Const(a), Size::Const(b)) if a == b);
        if exact {
            return Ok(());
        }
        // What is left of the columns: one masked vector at a time.
        self.for_loop(whole, count, width as i64, &[], |lowering, at, _| {
            let column = lowering.add(first, at)?;
            let left = lowering.b.binary("arith.subi", lowering.value(count)?, lowering.value(at)?)?;
            let tail = if width == 1 { None } else { Some((lowering.mask_below(left, width)?, left)) };
            let block =
                Block { row: Size::Const(0), rows: 0, column, rhs_column: at, width, vectors: 1, tail };
            lowering.row_blocks(dot, rhs, block)?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// All rows of a block of columns.
    fn row_blocks(&mut self, dot: &Dot<'c>, rhs: &Source<'c>, block: Block<'c>) -> Result<(), PassError> {
        let full = self.target.rows.min(dot.shape[0] as usize);
        self.for_row_tiles(dot.m, full, &mut |lowering, row, rows| {
            lowering.register_block(dot, rhs, &Block { row, rows, ..block })
        })
    }

    /// `m` rows in tiles: tiles of `full` rows, then what is left four rows and one row at a
    /// time.
    pub(super) fn for_row_tiles(
        &mut self,
        m: Size<'c>,
        full: usize,
        body: AtRows<'_, 'c>,
    ) -> Result<(), PassError> {
        let mut done = Size::Const(0);
        for rows in [full, 4, 1] {
            if rows > full || (rows == full && done != Size::Const(0)) {
                continue;
            }
            let left = match (m, done) {
                (_, Size::Const(0)) => m,
                _ => self.size(self.b.binary("arith.subi", self.value(m)?, self.value(done)?)?),
            };
            let whole = self.add(done, self.round_down(left, rows as i64)?)?;
            self.for_loop(done, whole, rows as i64, &[], |lowering, row, _| {
                body(lowering, row, rows)?;
                Ok(Vec::new())
            })?;
            done = whole;
            if done == m {
                break;
            }
        }
        Ok(())
    }

    fn register_block(
        &mut self,
        dot: &Dot<'c>,
        rhs: &Source<'c>,
        block: &Block<'c>,
    ) -> Result<(), PassError> {
        let Block { width, vectors, tail, .. } = *block;
        let chunk = |index: Vec<Size<'c>>| Chunk { index, axis: 1, width, vectors, tail };
        let mut initial = Vec::new();
        let mut places = Vec::new();
        for row in 0..block.rows {
            let row = self.add(block.row, Size::Const(row as i64))?;
            let place = chunk(vec![row, block.column]);
            for value in self.read(&dot.acc, &place)? {
                initial.push(self.operand_element(value, dot.element)?);
            }
            places.push((row, place));
        }
        let sums = self.for_loop(Size::Const(0), dot.k, 1, &initial, |lowering, k, sums| {
            let mut columns = Vec::new();
            for value in lowering.read(rhs, &chunk(vec![k, block.rhs_column]))? {
                columns.push(lowering.operand_element(value, dot.element)?);
            }
            let mut next = Vec::new();
            for (index, (row, _)) in places.iter().enumerate() {
                let scalar = lowering.read_scalar(&dot.lhs, &[*row, k])?;
                let scalar = lowering.operand_element(scalar, dot.element)?;
                let value = lowering.splat(scalar, width)?;
                for (vector, column) in columns.iter().enumerate() {
                    let sum = sums[index * vectors + vector];
                    next.push(lowering.multiply_add(value, *column, sum)?);
                }
            }
            Ok(next)
        })?;
        for (index, (_, place)) in places.iter().enumerate() {
            let mut values = Vec::new();
            for sum in &sums[index * vectors..(index + 1) * vectors] {
                values.push(self.narrow(*sum, dot.out.element)?);
            }
            self.write(&dot.out, place, &values)?;
        }
        Ok(())
    }
}
