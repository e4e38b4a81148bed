//! Tiles of block formats: where their blocks are in the device layout
//! ([`phobos_artifact::format::layout`]), and decoding them into vectors that run along
//! a row or across rows.
//!
//! Scales and codes have so few bits that their products are exact in f32: a fused
//! multiply-add gives what the reference decoder's product and sum give.

use std::collections::BTreeMap;

use melior::ir::ValueLike;
use phobos_artifact::format::{Expr, Format, GROUP_ROWS, Layout, Segment, activation::paired};
use phobos_dialect::{
    PassError, Type, Val,
    build::{IntegerPredicate, with_element},
};

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

/// Consecutive rows of one block column, a row to a lane.
pub(super) struct RowsPlace<'c> {
    /// The block column of the group.
    column: Val<'c>,
    /// The first row in the group.
    row: Size<'c>,
    width: u64,
    /// What was loaded already, by piece and kind.
    loaded: BTreeMap<(usize, bool), Val<'c>>,
    /// What holds for all elements of a segment, by the address of its expression.
    known: BTreeMap<usize, Val<'c>>,
    /// In a loop over a segment: how far the iteration's word is behind the segment's first,
    /// in elements.
    ahead: Size<'c>,
}

/// What is decoded for all elements of a segment.
pub(super) struct Elements<'s> {
    pub format: &'static Format,
    pub segment: &'s Segment,
    pub expr: &'static Expr,
    /// Whether a long segment whose codes lie in consecutive words is looped over a word at a
    /// time, which keeps the code of formats with many elements small.
    pub rolled: bool,
}

/// Some consecutive elements of one block of one row.
pub(super) struct RowPlace<'c> {
    column: Val<'c>,
    row: Size<'c>,
    /// The first element in its segment.
    lane: usize,
    width: u64,
}

/// Which lanes a decode expression is evaluated in.
pub(super) enum Place<'c> {
    /// Along a row.
    Row(RowPlace<'c>),
    /// Across rows.
    Rows(RowsPlace<'c>),
}

impl<'c> Place<'c> {
    /// The block column.
    pub(super) fn column(&self) -> Val<'c> {
        match self {
            Place::Row(place) => place.column,
            Place::Rows(place) => place.column,
        }
    }
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
        let together = blocks.format.group_rows() as i64;
        let group = self.divide(row, together)?;
        let inside = match row {
            Size::Const(row) => Size::Const(row % together),
            Size::Value(_) if together == 1 => Size::Const(0),
            Size::Value(row) => Size::Value(self.b.binary("arith.remui", row, self.b.i64(together)?)?),
        };
        let column = self.add(self.multiply(group, blocks.blocks_per_row)?, block)?;
        let bytes = together * blocks.format.bytes as i64;
        let pointer = self.byte_offset(blocks.pointer, self.multiply(column, Size::Const(bytes))?)?;
        Ok((pointer, inside))
    }

    /// The chunk's elements: whole blocks along the columns of one row, also where a tail ends
    /// inside one.
    pub(super) fn decode(
        &mut self,
        blocks: &Blocks<'c>,
        chunk: &Chunk<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let format = blocks.format;
        let read = chunk.width as usize * chunk.vectors;
        if chunk.axis != blocks.column_axis || !read.is_multiple_of(format.elements) {
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
            let mut block = Size::Const(block as i64);
            if let (Some((_, left)), Size::Const(1..)) = (chunk.tail, block) {
                // Blocks behind the one that the tail ends in may not be there: that one stands for them.
                let last = self.b.binary("arith.subi", left, self.b.i64(1)?)?;
                let last = self.value(self.divide(Size::Value(last), format.elements as i64)?)?;
                block = Size::Value(self.b.binary("arith.minsi", self.value(block)?, last)?);
            }
            let block = self.add(first, block)?;
            let (column, row) = self.group(blocks, row, block)?;
            for segment in format.segments {
                for lane in (0..segment.count).step_by(chunk.width as usize) {
                    let mut place = Place::Row(RowPlace { column, row, lane, width: chunk.width });
                    let value = self.decode_expr(format, &segment.value, &mut place, lane)?;
                    vectors.push(value);
                }
            }
        }
        Ok(vectors)
    }

    /// A decode expression in the lanes of `place`; across rows, for element `element`
    /// of the segment.
    pub(super) fn decode_expr(
        &mut self,
        format: &Format,
        expr: &Expr,
        place: &mut Place<'c>,
        element: usize,
    ) -> Result<Val<'c>, PassError> {
        if let Place::Rows(place) = place
            && let Some(known) = place.known.get(&address(expr))
        {
            return Ok(*known);
        }
        // A product that is added to something needs no value of its own.
        if let Expr::Add(Expr::Mul(a, b), c) = expr {
            let (a, b) =
                (self.decode_expr(format, a, place, element)?, self.decode_expr(format, b, place, element)?);
            let c = self.decode_expr(format, c, place, element)?;
            return self.multiply_add(a, b, c);
        }
        let mut operands = Vec::new();
        for operand in expr.operands() {
            operands.push(self.decode_expr(format, operand, place, element)?);
        }
        match (expr, &operands[..]) {
            (Expr::ToFloat(_), [a]) => self.to_float(*a),
            (Expr::Neg(_), [a]) => self.b.unary("arith.negf", *a),
            (Expr::Shr(_, by), [a]) => self.shift_right(*a, *by),
            (Expr::Shl(_, by), [a]) => {
                self.b.binary("arith.shli", *a, self.b.integer(a.r#type(), i64::from(*by))?)
            }
            (Expr::Lookup(table, _), [a]) => self.look_up(table, *a),
            (Expr::And(..), [a, b]) => self.b.binary("arith.andi", *a, *b),
            (Expr::Or(..), [a, b]) => self.b.binary("arith.ori", *a, *b),
            (Expr::Sub(..), [a, b]) => self.b.binary("arith.subi", *a, *b),
            (Expr::Mul(..), [a, b]) => self.b.binary("arith.mulf", *a, *b),
            (Expr::Add(..), [a, b]) => self.b.binary("arith.addf", *a, *b),
            _ => match place {
                Place::Row(place) => self.row_leaf(format, expr, place),
                Place::Rows(place) => self.rows_leaf(format, expr, place, element),
            },
        }
    }

    /// An entry of a table of 16 signed bytes: the word that holds it, then the byte.
    fn look_up(&self, table: &[i8; 16], index: Val<'c>) -> Result<Val<'c>, PassError> {
        let ty = index.r#type();
        let int = |number: i64| self.b.integer(ty, number);
        let word = |at: usize| {
            let bytes = [table[at], table[at + 1], table[at + 2], table[at + 3]].map(|byte| byte as u8);
            int(i64::from(i32::from_le_bytes(bytes)))
        };
        let mut chosen = word(12)?;
        for quarter in (0..3usize).rev() {
            let below = self.b.compare_integers(
                IntegerPredicate::UnsignedLess,
                index,
                int(4 * quarter as i64 + 4)?,
            )?;
            chosen = self.b.select(below, word(4 * quarter)?, chosen)?;
        }
        let byte = self.b.binary("arith.andi", index, int(3)?)?;
        let bits = self.b.binary("arith.shli", byte, int(3)?)?;
        let shifted = self.b.binary("arith.shrui", chosen, bits)?;
        let up = self.b.binary("arith.shli", shifted, int(24)?)?;
        self.b.binary("arith.shrsi", up, int(24)?)
    }

    /// A leaf of a decode expression along a row.
    fn row_leaf(&mut self, format: &Format, expr: &Expr, place: &RowPlace<'c>) -> Result<Val<'c>, PassError> {
        let integers = self.b.vector(place.width, self.b.int(32));
        if format.layout == Layout::Rows {
            return self.plain_leaf(expr, place);
        }
        match expr {
            Expr::Bytes(offset) => self.row_bytes(format, *offset, place, "arith.extui"),
            Expr::SignedBytes(offset) => self.row_bytes(format, *offset, place, "arith.extsi"),
            Expr::Bits(offset) => {
                let byte = offset + place.lane / 8;
                let (pointer, bytes, at) = self.piece_address(format, byte, place.column, place.row)?;
                let first = 8 * at + place.lane % 8;
                if bytes != 4 || first + place.width as usize > 32 {
                    return Err(self.bad_layout(format, byte));
                }
                let word = self.raw_load(pointer, self.b.int(32), 4)?;
                let words = self.splat(word, place.width)?;
                let by: Vec<i64> = (0..place.width as i64).map(|lane| first as i64 + lane).collect();
                let shifted = self.b.binary("arith.shrui", words, self.b.integer_vector(integers, &by)?)?;
                self.b.binary("arith.andi", shifted, self.b.integer(integers, 1)?)
            }
            Expr::Byte(offset) | Expr::SignedByte(offset) => {
                let (pointer, _, at) = self.piece_address(format, *offset, place.column, place.row)?;
                let pointer = self.byte_offset(pointer, Size::Const(at as i64))?;
                let byte = self.raw_load(pointer, self.b.int(8), 1)?;
                let extend = if matches!(expr, Expr::Byte(_)) { "arith.extui" } else { "arith.extsi" };
                let wide = self.b.value(extend, &[byte], self.b.int(32), &[])?;
                self.splat(wide, place.width)
            }
            Expr::F16(offset) => {
                let pointer = self.piece_address(format, *offset, place.column, place.row)?.0;
                let half = self.raw_load(pointer, Type::float16(self.b.context()), 2)?;
                let wide = self.extend_float(half, self.b.f32())?;
                self.splat(wide, place.width)
            }
            Expr::Int(number) => self.b.integer(integers, i64::from(*number)),
            _ => Err(PassError::new(self.b.location(), format!("internal error: {expr:?} is no leaf"))),
        }
    }

    /// A leaf of a format in rows, whose blocks lie as they are.
    fn plain_leaf(&mut self, expr: &Expr, place: &RowPlace<'c>) -> Result<Val<'c>, PassError> {
        let integers = self.b.vector(place.width, self.b.int(32));
        let at =
            |lowering: &Self, offset: usize| lowering.byte_offset(place.column, Size::Const(offset as i64));
        match expr {
            Expr::SignedBytes(offset) => {
                let ty = self.b.vector(place.width, self.b.int(8));
                let bytes = self.raw_load(at(self, offset + place.lane)?, ty, 1)?;
                self.b.value("arith.extsi", &[bytes], integers, &[])
            }
            Expr::PairedShorts(offset) => {
                let ty = self.b.vector(place.width, self.b.int(16));
                let shorts = self.raw_load(at(self, offset + 2 * place.lane)?, ty, 2)?;
                let order: Vec<i64> = (0..place.width as usize).map(|lane| paired(lane) as i64).collect();
                let shorts = self.shuffle(shorts, shorts, &order)?;
                self.b.value("arith.extsi", &[shorts], integers, &[])
            }
            Expr::F32(offset) => {
                let number = self.raw_load(at(self, *offset)?, self.b.f32(), 4)?;
                self.splat(number, place.width)
            }
            _ => Err(PassError::new(self.b.location(), format!("internal error: {expr:?} is in no row"))),
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

    pub(super) fn bad_layout(&self, format: &Format, offset: usize) -> PassError {
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
    ) -> Result<Place<'c>, PassError> {
        let block = self.add(blocks.block, block)?;
        let (column, row) = self.group(blocks, self.add(blocks.row, row)?, block)?;
        Ok(Place::Rows(RowsPlace {
            column,
            row,
            width,
            loaded: BTreeMap::new(),
            known: BTreeMap::new(),
            ahead: Size::Const(0),
        }))
    }

    /// A leaf of a decode expression for element `element` of a segment, a row to a lane.
    fn rows_leaf(
        &mut self,
        format: &Format,
        expr: &Expr,
        place: &mut RowsPlace<'c>,
        element: usize,
    ) -> Result<Val<'c>, PassError> {
        let integers = self.b.vector(place.width, self.b.int(32));
        match expr {
            Expr::Bytes(offset) => self.rows_byte(format, offset + element, place, false),
            Expr::SignedBytes(offset) => self.rows_byte(format, offset + element, place, true),
            Expr::Byte(offset) => self.rows_byte(format, *offset, place, false),
            Expr::SignedByte(offset) => self.rows_byte(format, *offset, place, true),
            Expr::Bits(offset) => {
                let (word, _, at) = self.rows_word(format, offset + element / 8, place)?;
                let shifted = self.shift_right(word, (8 * at + element % 8) as u32)?;
                self.b.binary("arith.andi", shifted, self.b.integer(integers, 1)?)
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
            _ => Err(PassError::new(self.b.location(), format!("internal error: {expr:?} is no leaf"))),
        }
    }

    /// Byte `offset` of the block of each row, as 32-bit integers.
    fn rows_byte(
        &mut self,
        format: &Format,
        offset: usize,
        place: &mut RowsPlace<'c>,
        signed: bool,
    ) -> Result<Val<'c>, PassError> {
        let (word, bytes, at) = self.rows_word(format, offset, place)?;
        let ty = word.r#type();
        if signed {
            let up = self.b.binary("arith.shli", word, self.b.integer(ty, 24 - 8 * at as i64)?)?;
            return self.b.binary("arith.shrsi", up, self.b.integer(ty, 24)?);
        }
        let shifted = self.shift_right(word, 8 * at as u32)?;
        if at + 1 == bytes {
            return Ok(shifted);
        }
        self.b.binary("arith.andi", shifted, self.b.integer(ty, 255)?)
    }

    /// The pieces of all rows that hold byte `offset`, as 32-bit integers; their size, and
    /// the byte's place in them.
    pub(super) fn rows_word(
        &mut self,
        format: &Format,
        offset: usize,
        place: &mut RowsPlace<'c>,
    ) -> Result<(Val<'c>, usize, usize), PassError> {
        let (pointer, bytes, at) = self.piece_address(format, offset, place.column, place.row)?;
        let key = (offset - at, false);
        if let Some(known) = place.loaded.get(&key) {
            return Ok((*known, bytes, at));
        }
        // Only the words of codes are read in a loop over a segment.
        let pointer =
            self.byte_offset(pointer, self.multiply(place.ahead, Size::Const(GROUP_ROWS as i64))?)?;
        let wide = self.b.vector(place.width, self.b.int(32));
        let word = match bytes {
            4 => self.raw_load(pointer, wide, 4)?,
            2 => {
                let halves = self.raw_load(pointer, self.b.vector(place.width, self.b.int(16)), 2)?;
                self.b.value("arith.extui", &[halves], wide, &[])?
            }
            _ => return Err(self.bad_layout(format, offset)),
        };
        place.loaded.insert(key, word);
        Ok((word, bytes, at))
    }

    // ---- both ----

    pub(super) fn to_float(&self, value: Val<'c>) -> Result<Val<'c>, PassError> {
        self.b.value("arith.sitofp", &[value], with_element(value.r#type(), self.b.f32()), &[])
    }

    pub(super) fn shift_right(&self, value: Val<'c>, by: u32) -> Result<Val<'c>, PassError> {
        if by == 0 {
            return Ok(value);
        }
        self.b.binary("arith.shrui", value, self.b.integer(value.r#type(), i64::from(by))?)
    }

    /// Runs `body` for all elements of a segment, a row to a lane: with the element as far
    /// as it is known, and what a loop adds to it.
    pub(super) fn for_elements(
        &mut self,
        &Elements { format, segment, expr, rolled }: &Elements<'_>,
        place: &mut Place<'c>,
        initial: &[Val<'c>],
        body: AtElement<'_, 'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        if !rolled || !loops(format, segment, expr) {
            let mut carried = initial.to_vec();
            for element in 0..segment.count {
                body(self, place, element, Size::Const(0), &mut carried)?;
            }
            return Ok(carried);
        }
        self.decode_invariants(format, expr, place)?;
        self.for_loop_rolled(
            Size::Const(0),
            Size::Const(segment.count as i64),
            WORD as i64,
            initial,
            |lowering, ahead, carried| {
                let mut carried = carried.to_vec();
                let Place::Rows(outside) = place else {
                    return Err(PassError::new(lowering.b.location(), "internal error: a loop along a row"));
                };
                let inside =
                    RowsPlace { loaded: BTreeMap::new(), ahead, known: outside.known.clone(), ..*outside };
                let mut inside = Place::Rows(inside);
                for element in 0..WORD {
                    body(lowering, &mut inside, element, ahead, &mut carried)?;
                }
                Ok(carried)
            },
        )
    }

    /// Decodes the parts of an expression that hold for all elements of a segment.
    fn decode_invariants(
        &mut self,
        format: &Format,
        expr: &'static Expr,
        place: &mut Place<'c>,
    ) -> Result<(), PassError> {
        if !varies(expr) {
            let value = self.decode_expr(format, expr, place, 0)?;
            if let Place::Rows(place) = place {
                place.known.insert(address(expr), value);
            }
            return Ok(());
        }
        expr.operands().try_for_each(|operand| self.decode_invariants(format, operand, place))
    }

    /// All elements of one block column of `width` rows, a vector of rows for each.
    pub(super) fn decode_rows(
        &mut self,
        format: &'static Format,
        place: &mut Place<'c>,
        store: &mut dyn FnMut(&mut Self, Size<'c>, Val<'c>) -> Result<(), PassError>,
    ) -> Result<(), PassError> {
        for segment in format.segments {
            let values = Elements { format, segment, expr: &segment.value, rolled: true };
            self.for_elements(&values, place, &[], &mut |lowering, place, element, ahead, _| {
                let value = lowering.decode_expr(format, &segment.value, place, element)?;
                let at = lowering.add(ahead, Size::Const((segment.start + element) as i64))?;
                store(lowering, at, value)
            })?;
        }
        Ok(())
    }
}

/// What is done for an element of a segment; it updates the carried values.
type AtElement<'f, 'c> = &'f mut dyn FnMut(
    &mut Lowering<'c>,
    &mut Place<'c>,
    usize,
    Size<'c>,
    &mut Vec<Val<'c>>,
) -> Result<(), PassError>;

/// The codes that are read at once.
const WORD: usize = 4;

/// Elements of a block from which on its segments are looped over; smaller blocks are
/// small code, and the loop over blocks is enough.
const LOOPED_ELEMENTS: usize = 256;

/// Names an expression of a format, which is static.
fn address(expr: &Expr) -> usize {
    std::ptr::from_ref(expr).addr()
}

/// Whether an expression differs between the elements of a segment.
fn varies(expr: &Expr) -> bool {
    matches!(expr, Expr::Bytes(_) | Expr::SignedBytes(_) | Expr::Bits(_) | Expr::PairedShorts(_))
        || expr.operands().any(varies)
}

/// Whether an expression reads a table, which is much code for an element.
pub(super) fn looks_up(expr: &Expr) -> bool {
    matches!(expr, Expr::Lookup(..)) || expr.operands().any(looks_up)
}

/// Whether a segment's expression is decoded in a loop over the words of its codes.
fn loops(format: &Format, segment: &Segment, expr: &Expr) -> bool {
    fn in_words(format: &Format, count: usize, expr: &Expr) -> bool {
        match expr {
            Expr::Bytes(offset) | Expr::SignedBytes(offset) => {
                let Some((first, _, _)) = format.device_place(*offset) else { return false };
                (0..count).step_by(WORD).all(|element| {
                    format.device_place(offset + element).is_some_and(|(before, piece, at)| {
                        before == first + element && piece.bytes == WORD && at == 0
                    })
                })
            }
            Expr::Bits(_) | Expr::PairedShorts(_) => false,
            _ => expr.operands().all(|operand| in_words(format, count, operand)),
        }
    }
    format.elements >= LOOPED_ELEMENTS
        && segment.count.is_multiple_of(WORD)
        && in_words(format, segment.count, expr)
}
