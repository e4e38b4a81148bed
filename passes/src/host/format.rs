//! Decoding block formats into vectors, by their rule ([`phobos_artifact::format`]).

use melior::ir::ValueLike;
use phobos_artifact::format::{Expr, Format};
use phobos_dialect::{PassError, Type, Val, build::with_element};

use super::{
    Lowering,
    emit::Size,
    source::{Chunk, View},
};

/// Where a decode expression is evaluated: some lanes of one block.
struct Place<'c> {
    block: Val<'c>,
    /// The first lane of the vector in its segment.
    lane: usize,
    width: u64,
}

impl<'c> Lowering<'c> {
    /// The chunk's elements, which are whole blocks along the last axis, or a single
    /// vector or element inside one segment of a block at a known position.
    pub(super) fn decode(
        &mut self,
        view: &View<'c>,
        format: &'static Format,
        chunk: &Chunk<'c>,
    ) -> Result<Vec<Val<'c>>, PassError> {
        let last = view.strides.len() - 1;
        let elements = format.elements;
        let read = chunk.width as usize * chunk.vectors;
        if chunk.axis != last || chunk.tail.is_some() || !read.is_multiple_of(elements) {
            return Err(PassError::new(
                self.b.location(),
                format!(
                    "internal error: {read} elements of {} are read at once, not whole blocks",
                    format.name
                ),
            ));
        }
        let mut vectors = Vec::new();
        for block in 0..read / elements {
            let mut index = chunk.index.clone();
            let first = self.divide(index[last], elements as i64)?;
            index[last] = self.add(first, Size::Const(block as i64))?;
            let pointer = self.address(view, &index)?;
            for segment in format.segments {
                for lane in (0..segment.count).step_by(chunk.width as usize) {
                    if lane + chunk.width as usize > segment.count {
                        return Err(PassError::new(
                            self.b.location(),
                            format!(
                                "internal error: a segment of {} is no whole number of vectors",
                                format.name
                            ),
                        ));
                    }
                    let place = Place { block: pointer, lane, width: chunk.width };
                    let value = self.decode_expr(&segment.value, &place)?;
                    vectors.push(value);
                }
            }
        }
        Ok(vectors)
    }

    fn decode_expr(&mut self, expr: &Expr, place: &Place<'c>) -> Result<Val<'c>, PassError> {
        let integers = self.b.vector(place.width, self.b.int(32));
        match expr {
            Expr::Bytes(offset) => self.decode_bytes(*offset, place, integers, "arith.extui"),
            Expr::SignedBytes(offset) => self.decode_bytes(*offset, place, integers, "arith.extsi"),
            Expr::F16(offset) => {
                let pointer = self.byte_offset(place.block, Size::Const(*offset as i64))?;
                let half = self.raw_load(pointer, Type::float16(self.b.context()), 1)?;
                let wide = self.extend_float(half, self.b.f32())?;
                self.splat(wide, place.width)
            }
            Expr::Int(number) => self.b.integer(integers, i64::from(*number)),
            Expr::And(a, b) => self.decode_binary("arith.andi", a, b, place),
            Expr::Sub(a, b) => self.decode_binary("arith.subi", a, b, place),
            Expr::Mul(a, b) => self.decode_binary("arith.mulf", a, b, place),
            Expr::Add(a, b) => self.decode_binary("arith.addf", a, b, place),
            Expr::Shr(a, by) => {
                let a = self.decode_expr(a, place)?;
                let by = self.b.integer(a.r#type(), i64::from(*by))?;
                self.b.binary("arith.shrui", a, by)
            }
            Expr::ToFloat(a) => {
                let a = self.decode_expr(a, place)?;
                self.b.value("arith.sitofp", &[a], with_element(a.r#type(), self.b.f32()), &[])
            }
        }
    }

    fn decode_bytes(
        &mut self,
        offset: usize,
        place: &Place<'c>,
        integers: Type<'c>,
        extend: &str,
    ) -> Result<Val<'c>, PassError> {
        let pointer = self.byte_offset(place.block, Size::Const((offset + place.lane) as i64))?;
        let bytes = self.raw_load(pointer, self.b.vector(place.width, self.b.int(8)), 1)?;
        self.b.value(extend, &[bytes], integers, &[])
    }

    fn decode_binary(
        &mut self,
        name: &str,
        a: &Expr,
        b: &Expr,
        place: &Place<'c>,
    ) -> Result<Val<'c>, PassError> {
        let a = self.decode_expr(a, place)?;
        let b = self.decode_expr(b, place)?;
        self.b.binary(name, a, b)
    }
}
