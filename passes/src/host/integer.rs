//! Integer products: the codes of a format of weights as bytes, and the instructions that
//! multiply them with activations.
//!
//! A vector of 32-bit words has, for each row, four codes as unsigned bytes. Signed codes
//! get a bias that makes them unsigned, which is taken off later in the sum: `vpdpbusd`
//! and `vpmaddubsw` take unsigned bytes on one side. The activations are a word for all
//! rows: four bytes of `q8_1`, or two 16-bit codes of `q16_1`.

use melior::ir::ValueLike;
use phobos_artifact::format::{Expr, Format};
use phobos_dialect::{PassError, Val, build::lanes};

use super::{
    Lowering,
    format::{Place, RowsPlace},
};

/// How a target multiplies integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerDot {
    /// Arithmetic on whole vectors, which LLVM matches as it can.
    Generic,
    /// `vpmaddubsw` and `vpmaddwd`.
    Pairs,
    /// `vpdpbusd` and `vpdpwssd`.
    Vnni,
}

impl IntegerDot {
    /// What multiplies bytes.
    pub(super) fn of_bytes(self, range: CodeRange) -> &'static str {
        match self {
            IntegerDot::Generic => "generic vectors",
            IntegerDot::Pairs if range.max <= MAX_PAIRED => "vpmaddubsw",
            IntegerDot::Pairs => "vpmaddwd, since products of these codes overflow vpmaddubsw",
            IntegerDot::Vnni => "vpdpbusd",
        }
    }

    /// What multiplies 16-bit codes.
    pub(super) fn of_shorts(self) -> &'static str {
        match self {
            IntegerDot::Generic => "generic vectors",
            IntegerDot::Pairs => "vpmaddwd",
            IntegerDot::Vnni => "vpdpwssd",
        }
    }
}

/// The largest unsigned code whose products with two codes of `q8_1` fit 16 bits.
const MAX_PAIRED: i64 = 127;
/// The largest magnitude of a code of `q8_1`.
const MAX_ACTIVATION: i64 = 127;

/// What the codes of a format are as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeRange {
    /// The code of a byte is the byte minus this.
    pub bias: i64,
    /// The largest byte.
    pub max: i64,
}

/// The range of a format's codes; `None` when they do not fit bytes.
pub(super) fn code_range(format: &Format) -> Option<CodeRange> {
    let mut ranges = format.segments.iter().map(|segment| {
        let (bytes, bias) = biased(segment.affine()?.codes);
        Some(CodeRange { bias, max: largest_byte(bytes)? })
    });
    let first = ranges.next()??;
    ranges.all(|range| range == Some(first)).then_some(first)
}

/// An expression of unsigned bytes, and what to take off.
fn biased(codes: &Expr) -> (&Expr, i64) {
    match codes {
        Expr::Sub(bytes, Expr::Int(bias)) => (bytes, i64::from(*bias)),
        Expr::SignedBytes(_) | Expr::Lookup(..) => (codes, 128),
        _ => (codes, 0),
    }
}

fn largest_byte(bytes: &Expr) -> Option<i64> {
    match bytes {
        Expr::Bytes(_) | Expr::SignedBytes(_) | Expr::Lookup(..) => Some(255),
        Expr::Bits(_) => Some(1),
        Expr::And(a, Expr::Int(mask)) => Some(largest_byte(a)?.min(i64::from(*mask))),
        Expr::Or(a, b) => {
            let either = largest_byte(a)? | largest_byte(b)?;
            Some((1 << (64 - either.leading_zeros())) - 1)
        }
        Expr::Shr(a, by) => Some(largest_byte(a)? >> by),
        Expr::Shl(a, by) => Some(largest_byte(a)? << by).filter(|max| *max <= 255),
        _ => None,
    }
}

/// A sum of products that is being made.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum<'c> {
    words: Option<Val<'c>>,
    /// Sums of 16 bits that still fit, and how many products are in each.
    shorts: Option<(Val<'c>, i64)>,
}

impl<'c> Lowering<'c> {
    /// Four codes of each row from `element` of a segment on, as bytes of 32-bit words,
    /// with the bias of [`code_range`].
    pub(super) fn packed_codes(
        &mut self,
        format: &Format,
        codes: &Expr,
        place: &mut Place<'c>,
        element: usize,
    ) -> Result<Val<'c>, PassError> {
        let Place::Rows(place) = place else {
            return Err(PassError::new(self.b.location(), "internal error: codes are packed along a row"));
        };
        self.packed(format, biased(codes).0, place, element)
    }

    fn packed(
        &mut self,
        format: &Format,
        expr: &Expr,
        place: &mut RowsPlace<'c>,
        element: usize,
    ) -> Result<Val<'c>, PassError> {
        match expr {
            Expr::Bytes(offset) => self.word_of_codes(format, offset + element, place),
            Expr::SignedBytes(offset) => {
                let word = self.word_of_codes(format, offset + element, place)?;
                self.b.binary("arith.xori", word, self.bytes_of(word, 0x80)?)
            }
            Expr::Bits(offset) => {
                let (word, _, at) = self.rows_word(format, offset + element / 8, place)?;
                let shifted = self.shift_right(word, (8 * at + element % 8) as u32)?;
                let four = self.b.binary("arith.andi", shifted, self.b.integer(word.r#type(), 15)?)?;
                // Bit n to the lowest bit of byte n: the copies do not overlap.
                let copies = self.b.integer(word.r#type(), 0x0020_4081)?;
                let spread = self.b.binary("arith.muli", four, copies)?;
                self.b.binary("arith.andi", spread, self.bytes_of(word, 1)?)
            }
            Expr::And(a, Expr::Int(mask)) => {
                let a = self.packed(format, a, place, element)?;
                self.b.binary("arith.andi", a, self.bytes_of(a, i64::from(*mask))?)
            }
            Expr::Or(a, b) => {
                let a = self.packed(format, a, place, element)?;
                let b = self.packed(format, b, place, element)?;
                self.b.binary("arith.ori", a, b)
            }
            Expr::Shr(a, by) => {
                let a = self.packed(format, a, place, element)?;
                let shifted = self.shift_right(a, *by)?;
                self.b.binary("arith.andi", shifted, self.bytes_of(a, 255 >> by)?)
            }
            Expr::Shl(a, by) => {
                // No bit leaves its byte: `largest_byte`.
                let a = self.packed(format, a, place, element)?;
                self.b.binary("arith.shli", a, self.b.integer(a.r#type(), i64::from(*by))?)
            }
            Expr::Lookup(table, a) => {
                let a = self.packed(format, a, place, element)?;
                self.look_up_bytes(table, a)
            }
            _ => Err(PassError::new(self.b.location(), format!("internal error: {expr:?} has no bytes"))),
        }
    }

    /// The four bytes at `offset` of the block of each row.
    fn word_of_codes(
        &mut self,
        format: &Format,
        offset: usize,
        place: &mut RowsPlace<'c>,
    ) -> Result<Val<'c>, PassError> {
        let (word, bytes, at) = self.rows_word(format, offset, place)?;
        if (bytes, at) != (4, 0) {
            return Err(self.bad_layout(format, offset));
        }
        Ok(word)
    }

    /// A vector like `like` with the same byte everywhere.
    fn bytes_of(&self, like: Val<'c>, byte: i64) -> Result<Val<'c>, PassError> {
        self.b.integer(like.r#type(), byte * 0x0101_0101)
    }

    /// Entries of a table of 16 signed bytes, plus 128, for indices in bytes.
    fn look_up_bytes(&self, table: &[i8; 16], indices: Val<'c>) -> Result<Val<'c>, PassError> {
        let width = 4 * lanes(indices.r#type());
        let ty = self.b.vector(width, self.b.int(8));
        let entries: Vec<i64> = table
            .iter()
            .cycle()
            .take(width as usize)
            .map(|entry| i64::from((*entry as u8 ^ 0x80) as i8))
            .collect();
        let table = self.b.integer_vector(ty, &entries)?;
        let indices = self.b.value("vector.bitcast", &[indices], ty, &[])?;
        let name = match width {
            16 => "llvm.x86.ssse3.pshuf.b.128",
            32 => "llvm.x86.avx2.pshuf.b",
            _ => "llvm.x86.avx512.pshuf.b.512",
        };
        let bytes = self.intrinsic(name, &[table, indices], ty)?;
        self.b.value("vector.bitcast", &[bytes], self.b.vector(width / 4, self.b.int(32)), &[])
    }

    /// Adds the products of four bytes of weights, at most `max`, with four signed bytes.
    pub(super) fn add_bytes(
        &self,
        sum: &mut Sum<'c>,
        weights: Val<'c>,
        x: Val<'c>,
        max: i64,
    ) -> Result<(), PassError> {
        let ty = weights.r#type();
        let width = lanes(ty);
        match self.target.integer {
            IntegerDot::Vnni => {
                let before = self.words_of(sum, width)?;
                let bytes = self.b.vector(4 * width, self.b.int(8));
                let (weights, x) = (self.recast(weights, bytes)?, self.recast(x, bytes)?);
                sum.words =
                    Some(self.intrinsic("llvm.x86.avx512.vpdpbusd.512", &[before, weights, x], ty)?);
            }
            IntegerDot::Pairs if max <= MAX_PAIRED => {
                let name = match width {
                    4 => "llvm.x86.ssse3.pmadd.ub.sw.128",
                    8 => "llvm.x86.avx2.pmadd.ub.sw",
                    _ => "llvm.x86.avx512.pmaddubs.w.512",
                };
                let bytes = self.b.vector(4 * width, self.b.int(8));
                let shorts = self.b.vector(2 * width, self.b.int(16));
                let (weights, x) = (self.recast(weights, bytes)?, self.recast(x, bytes)?);
                let products = self.intrinsic(name, &[weights, x], shorts)?;
                let fits = i64::from(i16::MAX) / (2 * max * MAX_ACTIVATION);
                sum.shorts = Some(match sum.shorts.take() {
                    Some((before, count)) if count < fits => {
                        (self.b.binary("arith.addi", before, products)?, count + 1)
                    }
                    full => {
                        sum.shorts = full;
                        self.flush_shorts(sum)?;
                        (products, 1)
                    }
                });
            }
            _ => {
                let (even, odd) = self.halves(weights)?;
                let shorts = self.b.vector(2 * width, self.b.int(16));
                let x = self.recast(x, shorts)?;
                let eight = self.b.integer(shorts, 8)?;
                let low = self.b.binary("arith.shli", x, eight)?;
                let low = self.b.binary("arith.shrsi", low, eight)?;
                let high = self.b.binary("arith.shrsi", x, eight)?;
                self.add_shorts(sum, even, low)?;
                self.add_shorts(sum, odd, high)?;
            }
        }
        Ok(())
    }

    /// The bytes 0 and 2, and the bytes 1 and 3, of words of unsigned bytes, as 16-bit
    /// numbers.
    pub(super) fn halves(&self, words: Val<'c>) -> Result<(Val<'c>, Val<'c>), PassError> {
        let ty = words.r#type();
        let mask = self.b.integer(ty, 0x00ff_00ff)?;
        let even = self.b.binary("arith.andi", words, mask)?;
        let odd = self.b.binary("arith.andi", self.shift_right(words, 8)?, mask)?;
        Ok((even, odd))
    }

    /// Adds the products of pairs of 16-bit numbers, both sides in words.
    pub(super) fn add_shorts(
        &self,
        sum: &mut Sum<'c>,
        weights: Val<'c>,
        x: Val<'c>,
    ) -> Result<(), PassError> {
        let words = match lanes(weights.r#type()) {
            // As shorts already, or as words.
            count if element_bits(weights) == 16 => count / 2,
            count => count,
        };
        let shorts = self.b.vector(2 * words, self.b.int(16));
        let ty = self.b.vector(words, self.b.int(32));
        let (weights, x) = (self.recast(weights, shorts)?, self.recast(x, shorts)?);
        if self.target.integer == IntegerDot::Vnni {
            let before = self.words_of(sum, words)?;
            sum.words = Some(self.intrinsic("llvm.x86.avx512.vpdpwssd.512", &[before, weights, x], ty)?);
            return Ok(());
        }
        let products = self.pair_products(weights, x, words)?;
        sum.words = Some(match sum.words {
            Some(before) => self.b.binary("arith.addi", before, products)?,
            None => products,
        });
        Ok(())
    }

    /// `a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]` of 16-bit numbers.
    fn pair_products(&self, a: Val<'c>, b: Val<'c>, words: u64) -> Result<Val<'c>, PassError> {
        let ty = self.b.vector(words, self.b.int(32));
        if self.target.integer == IntegerDot::Generic {
            // One product of all lanes, then the pairs: the form that LLVM knows as pmaddwd.
            let wide = self.b.vector(2 * words, self.b.int(32));
            let a = self.b.value("arith.extsi", &[a], wide, &[])?;
            let b = self.b.value("arith.extsi", &[b], wide, &[])?;
            let products = self.b.binary("arith.muli", a, b)?;
            let even: Vec<i64> = (0..words as i64).map(|lane| 2 * lane).collect();
            let odd: Vec<i64> = even.iter().map(|lane| lane + 1).collect();
            let even = self.shuffle(products, products, &even)?;
            let odd = self.shuffle(products, products, &odd)?;
            return self.b.binary("arith.addi", even, odd);
        }
        let name = match words {
            4 => "llvm.x86.sse2.pmadd.wd",
            8 => "llvm.x86.avx2.pmadd.wd",
            _ => "llvm.x86.avx512.pmaddw.d.512",
        };
        self.intrinsic(name, &[a, b], ty)
    }

    /// Adds the 16-bit sums to the 32-bit ones.
    fn flush_shorts(&self, sum: &mut Sum<'c>) -> Result<(), PassError> {
        let Some((shorts, _)) = sum.shorts.take() else { return Ok(()) };
        let words = lanes(shorts.r#type()) / 2;
        let ones = self.b.integer(shorts.r#type(), 1)?;
        let wide = self.pair_products(shorts, ones, words)?;
        sum.words = Some(match sum.words {
            Some(before) => self.b.binary("arith.addi", before, wide)?,
            None => wide,
        });
        Ok(())
    }

    /// The finished sum of `width` rows, as 32-bit integers.
    pub(super) fn finish(&self, mut sum: Sum<'c>, width: u64) -> Result<Val<'c>, PassError> {
        self.flush_shorts(&mut sum)?;
        self.words_of(&sum, width)
    }

    fn words_of(&self, sum: &Sum<'c>, width: u64) -> Result<Val<'c>, PassError> {
        match sum.words {
            Some(words) => Ok(words),
            None => self.b.integer(self.b.vector(width, self.b.int(32)), 0),
        }
    }

    fn recast(&self, value: Val<'c>, ty: phobos_dialect::Type<'c>) -> Result<Val<'c>, PassError> {
        if value.r#type() == ty { Ok(value) } else { self.b.value("vector.bitcast", &[value], ty, &[]) }
    }

    /// A call of an intrinsic of the target. One that the target lacks aborts LLVM: the
    /// names follow from [`super::Target`].
    fn intrinsic(
        &self,
        name: &str,
        operands: &[Val<'c>],
        ty: phobos_dialect::Type<'c>,
    ) -> Result<Val<'c>, PassError> {
        let count = operands.len();
        self.b.value(
            "llvm.call_intrinsic",
            operands,
            ty,
            &[
                ("intrin", self.b.string_attribute(name)),
                ("operandSegmentSizes", self.b.parsed_attribute(&format!("array<i32: {count}, 0>"))?),
                ("op_bundle_sizes", self.b.parsed_attribute("array<i32>")?),
            ],
        )
    }
}

fn element_bits(value: Val<'_>) -> u32 {
    phobos_dialect::ir::bit_width(phobos_dialect::build::element_type(value.r#type())).unwrap_or(32)
}

#[cfg(test)]
mod tests {
    use phobos_artifact::format::{ALL, by_name};

    use super::*;

    #[test]
    fn every_format_of_weights_has_codes_in_bytes() {
        for format in ALL {
            let range = code_range(format).expect(format.name);
            assert!(range.max <= 255 && (0..=128).contains(&range.bias), "{} {range:?}", format.name);
        }
    }

    #[test]
    fn ranges() {
        let range = |name| code_range(by_name(name).unwrap()).unwrap();
        assert_eq!(range("q4_0"), CodeRange { bias: 8, max: 15 });
        assert_eq!(range("q4_1"), CodeRange { bias: 0, max: 15 });
        assert_eq!(range("q5_0"), CodeRange { bias: 16, max: 31 });
        assert_eq!(range("q8_0"), CodeRange { bias: 128, max: 255 });
        assert_eq!(range("q3_k"), CodeRange { bias: 4, max: 7 });
        assert_eq!(range("q6_k"), CodeRange { bias: 32, max: 63 });
        assert_eq!(range("iq4_nl"), CodeRange { bias: 128, max: 255 });
    }
}
