//! Tiles of block formats: where their blocks are in the device layout
//! ([`phobos_artifact::format::layout`]), and decoding them into vectors that run along
//! a row or across rows.
//!
//! Scales and codes have so few bits that their products are exact in f32: a fused
//! multiply-add gives what the reference decoder's product and sum give.

use std::collections::BTreeMap;

use melior::ir::ValueLike;
use phobos_artifact::format::{Expr, Format, GROUP_ROWS};
use phobos_dialect::{PassError, Type, Val, build::with_element};

use super::{Lowering, emit::Size, source::Chunk};

/// A window of a matrix of a block format.
#[derive(Clone)]
pub(super) struct Blocks<'c> {
    /// The matrix.
    pub pointer: Val<'c>,
    pub format: &'static Format,
    pub blocks_per_row: Size<'c>,
    /// The window's first row, and its first block in each row.
    pub row: Size<'c>,
    pub block: Size<'c>,
    /// The tile's axes; no row axis when the tile is one row.
    pub row_axis: Option<usize>,
    pub column_axis: usize,
    /// Whether the first row is known to start a group.
    pub aligned: bool,
}

/// A decode expression `scale * codes + offset`, with scale and offset the same for all
/// elements of a segment.
pub(super) struct Affine<'e> {
    pub scale: &'e Expr,
    pub codes: &'e Expr,
    pub offset: Option<&'e Expr>,
}

impl<'e> Affine<'e> {
    /// Splits a rule of that form.
    pub(super) fn of(expr: &'e Expr) -> Option<Affine<'e>> {
        let (product, offset) = match expr {
            Expr::Add(product, offset) => (*product, Some(*offset)),
            product => (product, None),
        };
        let Expr::Mul(scale, codes) = product else { return None };
        let Expr::ToFloat(codes) = codes else { return None };
        Some(Affine { scale, codes, offset })
    }
}

/// Consecutive rows of one block column, a row to a lane.
pub(super) struct RowsPlace<'c> {
    /// The block column of the group.
    column: Val<'c>,
    /// The first row in the group.
    row: Size<'c>,
    width: u64,
    /// What was loaded already, by piece and kind.
    loaded: BTreeMap<(usize, bool), Val<'c>>,
}

/// Some consecutive elements of one block of one row.
struct RowPlace<'c> {
    column: Val<'c>,
    row: Size<'c>,
    /// The first element in its segment.
    lane: usize,
    width: u64,
}

impl<'c> Blocks<'c> {
    /// The window after axes of extent 1 came or went; `axes` gives the new place of each
    /// old axis that is longer than 1.
    pub(super) fn renumbered(&self, axes: &BTreeMap<usize, usize>) -> Blocks<'c> {
        Blocks {
            row_axis: self.row_axis.and_then(|axis| axes.get(&axis).copied()),
            column_axis: axes.get(&self.column_axis).copied().unwrap_or(0),
            ..self.clone()
        }
    }
}

impl<'c> Lowering<'c> {
    /// The block column of the group that holds `row`, and the row's place in it.
    fn group(
        &self,
        blocks: &Blocks<'c>,
        row: Size<'c>,
        block: Size<'c>,
    ) -> Result<(Val<'c>, Size<'c>), PassError> {
        let group = self.divide(row, GROUP_ROWS as i64)?;
        let inside = match row {
            Size::Const(row) => Size::Const(row % GROUP_ROWS as i64),
            Size::Value(row) => {
                Size::Value(self.b.binary("arith.remui", row, self.b.i64(GROUP_ROWS as i64)?)?)
            }
        };
        let column = self.add(self.multiply(group, blocks.blocks_per_row)?, block)?;
        let bytes = (GROUP_ROWS * blocks.format.bytes) as i64;
        let pointer = self.byte_offset(blocks.pointer, self.multiply(column, Size::Const(bytes))?)?;
        Ok((pointer, inside))
    }

    /// The chunk's elements: whole blocks along the columns of one row.
    pub(super) fn decode(
        &mut self,
        blocks: &Blocks<'c>,
        chunk: &Chunk<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let format = blocks.format;
        let read = chunk.width as usize * chunk.vectors;
        if chunk.axis != blocks.column_axis || chunk.tail.is_some() || !read.is_multiple_of(format.elements) {
            return Err(PassError::new(
                self.b.location(),
                format!(
                    "internal error: {read} elements of {} are read at once, not whole blocks",
                    format.name
                ),
            ));
        }
        let row = match blocks.row_axis {
            Some(axis) => self.add(blocks.row, chunk.index[axis])?,
            None => blocks.row,
        };
        let first = self.add(blocks.block, self.divide(chunk.index[chunk.axis], format.elements as i64)?)?;
        let mut vectors = Vec::new();
        for block in 0..read / format.elements {
            let block = self.add(first, Size::Const(block as i64))?;
            let (column, row) = self.group(blocks, row, block)?;
            for segment in format.segments {
                for lane in (0..segment.count).step_by(chunk.width as usize) {
                    let place = RowPlace { column, row, lane, width: chunk.width };
                    let value = self.row_expr(format, &segment.value, &place)?;
                    vectors.push(value);
                }
            }
        }
        Ok(vectors)
    }

    /// A decode expression along a row.
    fn row_expr(&mut self, format: &Format, expr: &Expr, place: &RowPlace<'c>) -> Result<Val<'c>, PassError> {
        let integers = self.b.vector(place.width, self.b.int(32));
        match expr {
            Expr::Bytes(offset) => self.row_bytes(format, *offset, place, "arith.extui"),
            Expr::SignedBytes(offset) => self.row_bytes(format, *offset, place, "arith.extsi"),
            Expr::F16(offset) => {
                let pointer = self.piece_address(format, *offset, place.column, place.row)?.0;
                let half = self.raw_load(pointer, Type::float16(self.b.context()), 2)?;
                let wide = self.extend_float(half, self.b.f32())?;
                self.splat(wide, place.width)
            }
            Expr::Int(number) => self.b.integer(integers, i64::from(*number)),
            Expr::ToFloat(a) => {
                let a = self.row_expr(format, a, place)?;
                self.to_float(a)
            }
            Expr::Shr(a, by) => {
                let a = self.row_expr(format, a, place)?;
                self.shift_right(a, *by)
            }
            Expr::Add(Expr::Mul(a, b), c) => {
                let (a, b) = (self.row_expr(format, a, place)?, self.row_expr(format, b, place)?);
                let c = self.row_expr(format, c, place)?;
                self.multiply_add(a, b, c)
            }
            Expr::And(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) | Expr::Add(a, b) => {
                let (x, y) = (self.row_expr(format, a, place)?, self.row_expr(format, b, place)?);
                self.decode_binary(expr, x, y)
            }
        }
    }

    /// Consecutive bytes of a block, which are apart in the layout: four at a time.
    fn row_bytes(
        &mut self,
        format: &Format,
        offset: usize,
        place: &RowPlace<'c>,
        extend: &str,
    ) -> Result<Val<'c>, PassError> {
        let words = self.b.vector(place.width / 4, self.b.int(32));
        let mut gathered = self.b.integer(words, 0)?;
        for word in 0..place.width / 4 {
            let byte = offset + place.lane + 4 * word as usize;
            let (pointer, piece_bytes, at) = self.piece_address(format, byte, place.column, place.row)?;
            if piece_bytes != 4 || at != 0 {
                return Err(self.bad_layout(format, byte));
            }
            let loaded = self.raw_load(pointer, self.b.int(32), 4)?;
            let position = self.b.parsed_attribute(&format!("array<i64: {word}>"))?;
            gathered = self.b.value(
                "vector.insert",
                &[loaded, gathered],
                words,
                &[("static_position", position)],
            )?;
        }
        let bytes = self.b.vector(place.width, self.b.int(8));
        let bytes = self.b.value("vector.bitcast", &[gathered], bytes, &[])?;
        self.b.value(extend, &[bytes], self.b.vector(place.width, self.b.int(32)), &[])
    }

    /// The address of the piece of `row` that holds byte `offset`, its size, and the
    /// byte's place in it.
    fn piece_address(
        &self,
        format: &Format,
        offset: usize,
        column: Val<'c>,
        row: Size<'c>,
    ) -> Result<(Val<'c>, usize, usize), PassError> {
        let (before, piece, at) =
            format.device_place(offset).ok_or_else(|| self.bad_layout(format, offset))?;
        let in_piece = self.multiply(row, Size::Const(piece.bytes as i64))?;
        let place = self.add(Size::Const((before * GROUP_ROWS) as i64), in_piece)?;
        Ok((self.byte_offset(column, place)?, piece.bytes, at))
    }

    fn bad_layout(&self, format: &Format, offset: usize) -> PassError {
        PassError::new(
            self.b.location(),
            format!("internal error: byte {offset} of {} cannot be read from its device layout", format.name),
        )
    }

    // ---- across rows ----

    /// `width` rows from `row` on (which must not cross a group) in one block column.
    pub(super) fn rows_place(
        &self,
        blocks: &Blocks<'c>,
        row: Size<'c>,
        block: Size<'c>,
        width: u64,
    ) -> Result<RowsPlace<'c>, PassError> {
        let block = self.add(blocks.block, block)?;
        let (column, row) = self.group(blocks, self.add(blocks.row, row)?, block)?;
        Ok(RowsPlace { column, row, width, loaded: BTreeMap::new() })
    }

    /// A decode expression for element `element` of a segment, a row to a lane.
    pub(super) fn rows_expr(
        &mut self,
        format: &Format,
        expr: &Expr,
        place: &mut RowsPlace<'c>,
        element: usize,
    ) -> Result<Val<'c>, PassError> {
        let integers = self.b.vector(place.width, self.b.int(32));
        match expr {
            Expr::Bytes(offset) => {
                let (word, at) = self.rows_word(format, offset + element, place)?;
                let shifted = self.shift_right(word, 8 * at as u32)?;
                if at == 3 {
                    return Ok(shifted);
                }
                self.b.binary("arith.andi", shifted, self.b.integer(integers, 255)?)
            }
            Expr::SignedBytes(offset) => {
                let (word, at) = self.rows_word(format, offset + element, place)?;
                let up = self.b.binary("arith.shli", word, self.b.integer(integers, 24 - 8 * at as i64)?)?;
                self.b.binary("arith.shrsi", up, self.b.integer(integers, 24)?)
            }
            Expr::F16(offset) => {
                if let Some(known) = place.loaded.get(&(*offset, true)) {
                    return Ok(*known);
                }
                let (pointer, _, _) = self.piece_address(format, *offset, place.column, place.row)?;
                let halves = self.b.vector(place.width, Type::float16(self.b.context()));
                let loaded = self.raw_load(pointer, halves, 2)?;
                let wide = self.extend_float(loaded, self.b.f32())?;
                place.loaded.insert((*offset, true), wide);
                Ok(wide)
            }
            Expr::Int(number) => self.b.integer(integers, i64::from(*number)),
            Expr::ToFloat(a) => {
                let a = self.rows_expr(format, a, place, element)?;
                self.to_float(a)
            }
            Expr::Shr(a, by) => {
                let a = self.rows_expr(format, a, place, element)?;
                self.shift_right(a, *by)
            }
            Expr::Add(Expr::Mul(a, b), c) => {
                let a = self.rows_expr(format, a, place, element)?;
                let b = self.rows_expr(format, b, place, element)?;
                let c = self.rows_expr(format, c, place, element)?;
                self.multiply_add(a, b, c)
            }
            Expr::And(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) | Expr::Add(a, b) => {
                let x = self.rows_expr(format, a, place, element)?;
                let y = self.rows_expr(format, b, place, element)?;
                self.decode_binary(expr, x, y)
            }
        }
    }

    /// The 4-byte pieces of all rows that hold byte `offset`, and its place in them.
    fn rows_word(
        &mut self,
        format: &Format,
        offset: usize,
        place: &mut RowsPlace<'c>,
    ) -> Result<(Val<'c>, usize), PassError> {
        let (pointer, bytes, at) = self.piece_address(format, offset, place.column, place.row)?;
        if bytes != 4 {
            return Err(self.bad_layout(format, offset));
        }
        let key = (offset - at, false);
        if let Some(known) = place.loaded.get(&key) {
            return Ok((*known, at));
        }
        let word = self.raw_load(pointer, self.b.vector(place.width, self.b.int(32)), 4)?;
        place.loaded.insert(key, word);
        Ok((word, at))
    }

    // ---- both ----

    pub(super) fn to_float(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        self.b.value("arith.sitofp", &[value], with_element(value.r#type(), self.b.f32()), &[])
    }

    fn shift_right(&self, value: Val<'c>, by: u32) -> Result<Val<'c>, PassError> {
        if by == 0 {
            return Ok(value);
        }
        self.b.binary("arith.shrui", value, self.b.integer(value.r#type(), i64::from(by))?)
    }

    fn decode_binary(&self, expr: &Expr, a: Val<'c>, b: Val<'c>) -> Result<Val<'c>, PassError> {
        let name = match expr {
            Expr::And(..) => "arith.andi",
            Expr::Sub(..) => "arith.subi",
            Expr::Mul(..) => "arith.mulf",
            _ => "arith.addf",
        };
        self.b.binary(name, a, b)
    }

    /// All elements of one block column of `width` rows, a vector of rows for each.
    pub(super) fn decode_rows(
        &mut self,
        format: &'static Format,
        place: &mut RowsPlace<'c>,
        store: &mut dyn FnMut(&mut Self, usize, Val<'c>) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        for segment in format.segments {
            for element in 0..segment.count {
                let value = self.rows_expr(format, &segment.value, place, element)?;
                store(self, segment.start + element, value)?;
            }
        }
        Ok(())
    }
}
