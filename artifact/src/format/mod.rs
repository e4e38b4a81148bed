//! Block formats: one file each, serving every backend and the loader.
//!
//! A format says how many elements a block has, its bytes, and how an element is
//! decoded. The decode rule is *data*, not code, so that the compiler can lower it
//! to vector code for any target and the reference decoder below can interpret it.
//!
//! A block is a list of [`Segment`]s: runs of consecutive elements that share one
//! [`Expr`]. Inside a segment of `n` elements, [`Expr::Bytes`] is a vector of the
//! `n` consecutive bytes at an offset in the block, and [`Expr::F16`] is one scalar
//! of the block, so every rule vectorises without gathers.
//!
//! Every value is affine in its codes: `scale * codes`, or `scale * codes + offset`,
//! where only the codes, which are integers, differ between the elements of a segment
//! ([`Segment::affine`]). A dot product can then be taken over the codes, and scaled
//! and offset once for each segment. Scale and codes have so few bits that their product
//! is exact in `f32`.
//!
//! On a device a matrix of weights lies in another order than in a file, so that
//! vectors run across rows: see [`layout`].
//!
//! Two formats are for activations ([`ACTIVATIONS`]): kernels make them, with
//! `quantize`, and no file has them: see [`activation`].

use std::fmt;

pub mod activation;
mod iq4_nl;
mod iq4_xs;
mod k_scales;
pub mod layout;
mod q16_1;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;

pub use layout::{GROUP_ROWS, Layout, LayoutError, Piece};

/// A block format.
pub struct Format {
    /// The name in the `.ph` language.
    pub name: &'static str,
    /// The tensor type id in a GGUF file; `None` for formats of activations.
    pub ggml_type: Option<u32>,
    /// Elements of one block.
    pub elements: usize,
    /// Bytes of one block.
    pub bytes: usize,
    /// How a matrix lies on a device.
    pub layout: Layout,
    /// The decode rule: segments in element order that cover the block.
    pub segments: &'static [Segment],
}

/// `count` consecutive elements of a block that one expression decodes: 16 or 32, so that
/// a vector of up to 16 lanes never crosses into the next segment.
#[derive(Debug)]
pub struct Segment {
    /// The first element.
    pub start: usize,
    /// How many elements.
    pub count: usize,
    /// The value of each element, as `f32`.
    pub value: Expr,
}

/// A decode expression. Integer leaves are `i32`; [`Expr::ToFloat`] turns an
/// integer into `f32`; float operations round as IEEE `f32`.
#[derive(Debug, PartialEq, Eq)]
pub enum Expr {
    /// The unsigned byte at `offset + lane`.
    Bytes(usize),
    /// The signed byte at `offset + lane`.
    SignedBytes(usize),
    /// The little-endian i16 of the lane in the list at `offset`, where the middle two of
    /// each four lanes are exchanged ([`activation::paired`]).
    PairedShorts(usize),
    /// Bit `lane % 8` of the byte at `offset + lane / 8`: 0 or 1.
    Bits(usize),
    /// The unsigned byte at `offset`: the same in all lanes.
    Byte(usize),
    /// The signed byte at `offset`: the same in all lanes.
    SignedByte(usize),
    /// The little-endian f16 at `offset`, widened to `f32`: the same in all lanes.
    F16(usize),
    /// The little-endian `f32` at `offset`: the same in all lanes.
    F32(usize),
    /// An integer constant.
    Int(i32),
    /// Bitwise and of two integers.
    And(&'static Expr, &'static Expr),
    /// Bitwise or of two integers.
    Or(&'static Expr, &'static Expr),
    /// Shift left of an integer by a constant.
    Shl(&'static Expr, u32),
    /// Logical shift right of an integer by a constant.
    Shr(&'static Expr, u32),
    /// Difference of two integers.
    Sub(&'static Expr, &'static Expr),
    /// The entry of a table at an integer from 0 to 15, as an integer.
    Lookup(&'static [i8; 16], &'static Expr),
    /// An integer as `f32`, exact.
    ToFloat(&'static Expr),
    /// Product of two floats.
    Mul(&'static Expr, &'static Expr),
    /// Sum of two floats.
    Add(&'static Expr, &'static Expr),
    /// A float with the other sign.
    Neg(&'static Expr),
}

/// The parts of a value `scale * ToFloat(codes) + offset`.
#[derive(Clone, Copy, Debug)]
pub struct Affine {
    /// A float, the same in all lanes.
    pub scale: &'static Expr,
    /// Integers.
    pub codes: &'static Expr,
    /// A float, the same in all lanes; nothing is added without one.
    pub offset: Option<&'static Expr>,
}

/// Every format of weights, in the order of their GGUF type ids.
pub const ALL: [&Format; 12] = [
    &q4_0::FORMAT,
    &q4_1::FORMAT,
    &q5_0::FORMAT,
    &q5_1::FORMAT,
    &q8_0::FORMAT,
    &q2_k::FORMAT,
    &q3_k::FORMAT,
    &q4_k::FORMAT,
    &q5_k::FORMAT,
    &q6_k::FORMAT,
    &iq4_nl::FORMAT,
    &iq4_xs::FORMAT,
];

/// The formats of activations, the coarser one first.
pub const ACTIVATIONS: [&Format; 2] = [&q8_1::FORMAT, &q16_1::FORMAT];

/// The format called `name`.
pub fn by_name(name: &str) -> Option<&'static Format> {
    ALL.into_iter().chain(ACTIVATIONS).find(|format| format.name == name)
}

/// The format with GGUF tensor type id `id`.
pub fn by_ggml_type(id: u32) -> Option<&'static Format> {
    ALL.into_iter().find(|format| format.ggml_type == Some(id))
}

/// The name stands for the rest, which is long.
impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl Format {
    /// The reference decoder: the elements of one block, by interpreting the rule.
    /// `None` when `block` is not exactly [`Format::bytes`] long.
    pub fn decode(&self, block: &[u8]) -> Option<Vec<f32>> {
        if block.len() != self.bytes {
            return None;
        }
        let mut values = Vec::with_capacity(self.elements);
        for segment in self.segments {
            for lane in 0..segment.count {
                values.push(segment.value.eval(block, lane).as_float());
            }
        }
        Some(values)
    }
}

impl Segment {
    /// The value as an affine function of its codes; every format has only such values.
    /// `None` for an expression of another shape.
    pub fn affine(&self) -> Option<Affine> {
        let (product, offset) = match self.value {
            Expr::Add(product, offset) => (product, Some(offset)),
            ref product => (product, None),
        };
        let Expr::Mul(scale, &Expr::ToFloat(codes)) = *product else { return None };
        let uniform = !scale.varies() && offset.is_none_or(|offset| !offset.varies());
        uniform.then_some(Affine { scale, codes, offset })
    }
}

/// The value of a decode expression in one lane.
#[derive(Clone, Copy)]
enum Lane {
    Int(i32),
    Float(f32),
}

impl Lane {
    fn as_int(self) -> i32 {
        match self {
            Lane::Int(value) => value,
            Lane::Float(value) => value as i32,
        }
    }

    fn as_float(self) -> f32 {
        match self {
            Lane::Int(value) => value as f32,
            Lane::Float(value) => value,
        }
    }
}

impl Expr {
    /// The expressions that this one is made of; none for leaves.
    pub fn operands(&self) -> impl Iterator<Item = &'static Expr> {
        let (first, second) = match *self {
            Expr::Bytes(_)
            | Expr::SignedBytes(_)
            | Expr::PairedShorts(_)
            | Expr::Bits(_)
            | Expr::Byte(_)
            | Expr::SignedByte(_)
            | Expr::F16(_)
            | Expr::F32(_)
            | Expr::Int(_) => (None, None),
            Expr::Shl(a, _) | Expr::Shr(a, _) | Expr::Lookup(_, a) | Expr::ToFloat(a) | Expr::Neg(a) => {
                (Some(a), None)
            }
            Expr::And(a, b) | Expr::Or(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) | Expr::Add(a, b) => {
                (Some(a), Some(b))
            }
        };
        first.into_iter().chain(second)
    }

    /// Whether the value may differ between the lanes of a segment.
    pub fn varies(&self) -> bool {
        matches!(self, Expr::Bytes(_) | Expr::SignedBytes(_) | Expr::PairedShorts(_) | Expr::Bits(_))
            || self.operands().any(Expr::varies)
    }

    fn eval(&self, block: &[u8], lane: usize) -> Lane {
        match *self {
            Expr::Bytes(offset) => Lane::Int(i32::from(block[offset + lane])),
            Expr::SignedBytes(offset) => Lane::Int(i32::from(block[offset + lane] as i8)),
            Expr::PairedShorts(offset) => {
                let at = offset + 2 * activation::paired(lane);
                Lane::Int(i32::from(i16::from_le_bytes([block[at], block[at + 1]])))
            }
            Expr::Bits(offset) => Lane::Int(i32::from((block[offset + lane / 8] >> (lane % 8)) & 1)),
            Expr::Byte(offset) => Lane::Int(i32::from(block[offset])),
            Expr::SignedByte(offset) => Lane::Int(i32::from(block[offset] as i8)),
            Expr::F16(offset) => {
                Lane::Float(half::f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32())
            }
            Expr::F32(offset) => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&block[offset..offset + 4]);
                Lane::Float(f32::from_le_bytes(bytes))
            }
            Expr::Int(value) => Lane::Int(value),
            Expr::And(a, b) => Lane::Int(a.eval(block, lane).as_int() & b.eval(block, lane).as_int()),
            Expr::Or(a, b) => Lane::Int(a.eval(block, lane).as_int() | b.eval(block, lane).as_int()),
            Expr::Shl(a, by) => Lane::Int(a.eval(block, lane).as_int() << by),
            Expr::Shr(a, by) => Lane::Int(((a.eval(block, lane).as_int() as u32) >> by) as i32),
            Expr::Sub(a, b) => {
                Lane::Int(a.eval(block, lane).as_int().wrapping_sub(b.eval(block, lane).as_int()))
            }
            Expr::Lookup(table, a) => {
                Lane::Int(i32::from(table[a.eval(block, lane).as_int() as usize % table.len()]))
            }
            Expr::ToFloat(a) => Lane::Float(a.eval(block, lane).as_int() as f32),
            Expr::Mul(a, b) => Lane::Float(a.eval(block, lane).as_float() * b.eval(block, lane).as_float()),
            Expr::Add(a, b) => Lane::Float(a.eval(block, lane).as_float() + b.eval(block, lane).as_float()),
            Expr::Neg(a) => Lane::Float(-a.eval(block, lane).as_float()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_each_block_once() {
        for format in ALL {
            let mut bytes = vec![false; format.bytes];
            for piece in format.pieces() {
                for taken in &mut bytes[piece.offset..piece.offset + piece.bytes] {
                    assert!(!*taken, "{}", format.name);
                    *taken = true;
                }
            }
            assert!(bytes.iter().all(|taken| *taken), "{}", format.name);
        }
    }

    #[test]
    fn segments_cover_each_block_once() {
        for format in ALL {
            let mut next = 0;
            for segment in format.segments {
                assert_eq!(segment.start, next, "{}", format.name);
                assert!([16, 32].contains(&segment.count), "{}", format.name);
                next += segment.count;
            }
            assert_eq!(next, format.elements, "{}", format.name);
        }
    }

    /// What a leaf reads lies in the block and is not torn apart by the device layout.
    #[test]
    fn leaves_read_whole_pieces() {
        for format in ALL {
            for_each(format, &mut |expr, count| {
                let piece = |offset| {
                    let (_, piece, at) = format.device_place(offset).expect(format.name);
                    (piece, at)
                };
                match *expr {
                    Expr::Bytes(offset) | Expr::SignedBytes(offset) => {
                        for lane in (0..count).step_by(4) {
                            let (piece, at) = piece(offset + lane);
                            assert_eq!((piece.bytes, at), (4, 0), "{} {expr:?}", format.name);
                        }
                    }
                    Expr::Bits(offset) => {
                        let (first, last) = (piece(offset), piece(offset + count / 8 - 1));
                        assert_eq!(first.0, last.0, "{} {expr:?}", format.name);
                    }
                    Expr::F16(offset) => {
                        let (piece, at) = piece(offset);
                        assert_eq!((piece.bytes, at), (2, 0), "{} {expr:?}", format.name);
                    }
                    Expr::Byte(offset) | Expr::SignedByte(offset) => {
                        piece(offset);
                    }
                    _ => {}
                }
            });
        }
    }

    /// Every expression of a format, with the lanes of its segment.
    fn for_each(format: &Format, seen: &mut dyn FnMut(&Expr, usize)) {
        fn visit(expr: &Expr, count: usize, seen: &mut dyn FnMut(&Expr, usize)) {
            seen(expr, count);
            expr.operands().for_each(|operand| visit(operand, count, seen));
        }
        format.segments.iter().for_each(|segment| visit(&segment.value, segment.count, seen));
    }

    fn is_float(expr: &Expr) -> bool {
        matches!(expr, Expr::F16(_) | Expr::ToFloat(_) | Expr::Mul(..) | Expr::Add(..) | Expr::Neg(_))
    }

    #[test]
    fn operands_have_the_types_that_expressions_state() {
        for format in ALL {
            for_each(format, &mut |expr, _| {
                let floats = matches!(expr, Expr::Mul(..) | Expr::Add(..) | Expr::Neg(_));
                assert!(
                    expr.operands().all(|operand| is_float(operand) == floats),
                    "{} {expr:?}",
                    format.name
                );
            });
        }
    }

    #[test]
    fn every_value_is_affine_in_its_codes() {
        for format in ALL {
            for segment in format.segments {
                let Affine { scale, codes, offset } = segment.affine().expect(format.name);
                assert!(is_float(scale) && !is_float(codes), "{}", format.name);
                assert!(offset.is_none_or(is_float), "{}", format.name);
                // Neither is taken from the other lanes by mistake.
                assert!(codes.varies() && !scale.varies(), "{}", format.name);

                for seed in 0..8 {
                    let block: Vec<u8> =
                        (0..format.bytes).map(|byte| (((byte + 1) * (37 + 26 * seed)) >> 2) as u8).collect();
                    let values = format.decode(&block).unwrap();
                    for lane in 0..segment.count {
                        let part = |part: &Expr| part.eval(&block, lane).as_float();
                        let product = part(scale) * part(codes);
                        let value = offset.map_or(product, |offset| product + part(offset));
                        let wanted = values[segment.start + lane];
                        assert_eq!(value.to_bits(), wanted.to_bits(), "{}", format.name);
                        // Exact, so that a fused multiply-add gives the same value.
                        let exact = f64::from(part(scale)) * f64::from(part(codes));
                        if exact.is_finite() {
                            assert_eq!(f64::from(product), exact, "{}", format.name);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn other_values_are_not_affine() {
        const CODES: Expr = Expr::ToFloat(&Expr::Bytes(2));
        let affine = |value| Segment { start: 0, count: 16, value }.affine();
        assert!(affine(Expr::Mul(&Expr::F16(0), &CODES)).is_some());
        assert!(affine(Expr::Mul(&CODES, &CODES)).is_none());
        assert!(affine(Expr::Mul(&CODES, &Expr::F16(0))).is_none());
        assert!(affine(Expr::Add(&Expr::Mul(&Expr::F16(0), &CODES), &CODES)).is_none());
        assert!(affine(Expr::ToFloat(&Expr::Bits(0))).is_none());
    }

    /// Two elements of each rule, by hand.
    #[test]
    fn values_of_single_elements() {
        let decode = |name: &str, bytes: &[(usize, u8)]| {
            let format = by_name(name).expect(name);
            let mut block = vec![0; format.bytes];
            bytes.iter().for_each(|(at, byte)| block[*at] = *byte);
            format.decode(&block).unwrap()
        };
        // The high byte of the f16 1.0; the low byte is 0.
        const ONE: u8 = 0x3c;
        // Bit 9 of the high bits, element 9; bit 31 of them, element 31.
        let values = decode("q5_0", &[(1, ONE), (3, 2), (5, 0x80), (6 + 9, 0x57)]);
        assert_eq!((values[9], values[25], values[31]), (7.0, 5.0 - 16.0, 0.0));
        let values = decode("q5_1", &[(1, ONE), (3, ONE), (5, 2), (7, 0x80), (8 + 9, 0x57)]);
        assert_eq!((values[9], values[25], values[31]), (24.0, 6.0, 17.0));
        // Element 128 + 64 + 17, sub-block 13: scale 3, minimum 5.
        let values = decode("q2_k", &[(13, 0x53), (16 + 32 + 17, 2 << 4), (81, ONE), (83, ONE)]);
        assert_eq!((values[209], values[210]), (3.0 * 2.0 - 5.0, -5.0));
        // The same element: scale 6 + 16 * 3, bit 6 of the high bits.
        let scales = [(96 + 5, 0x60), (104 + 1, 3 << 6), (109, ONE)];
        let values = decode("q3_k", &[&scales[..], &[(17, 1 << 6), (32 + 32 + 17, 2 << 4)]].concat());
        assert_eq!((values[209], values[210]), (22.0 * (6.0 - 4.0), 22.0 * -4.0));
        // Sub-block 5: scale 2 + 16 * 3, minimum 1 + 16 * 2.
        let scales = [(1, ONE), (3, ONE), (4 + 1, 0xc0), (4 + 5, 0x80), (4 + 9, 0x12)];
        let nibbles = (16 + 64 + 3, 0x90);
        let values = decode("q4_k", &[&scales[..], &[nibbles]].concat());
        assert_eq!((values[5 * 32 + 3], values[5 * 32 + 4]), (50.0 * 9.0 - 33.0, -33.0));
        let nibbles = (48 + 64 + 3, 0x90);
        let values = decode("q5_k", &[&scales[..], &[nibbles, (16 + 3, 1 << 5)]].concat());
        assert_eq!((values[5 * 32 + 3], values[5 * 32 + 4]), (50.0 * 25.0 - 33.0, -33.0));
        // Element 128 + 64 + 17, sub-block 13.
        let codes = [(64 + 17, 0xa0), (128 + 32 + 17, 3 << 4)];
        let values = decode("q6_k", &[&codes[..], &[(192 + 13, 0xfe), (209, ONE)]].concat());
        assert_eq!((values[209], values[210]), (-2.0 * (58.0 - 32.0), -2.0 * -32.0));
        let values = decode("iq4_nl", &[(1, ONE), (2 + 3, 0xf8)]);
        assert_eq!((values[3], values[19], values[20]), (1.0, 113.0, -127.0));
        // Sub-block 5: scale 4 + 16 * 3.
        let scales = [(1, ONE), (3, 3 << 2), (4 + 2, 0x40)];
        let values = decode("iq4_xs", &[&scales[..], &[(8 + 80 + 3, 0xf8)]].concat());
        assert_eq!((values[163], values[179], values[180]), (20.0, 20.0 * 113.0, 20.0 * -127.0));
    }
}
