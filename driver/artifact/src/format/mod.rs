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
//! On a device a matrix of a format lies in another order than in a file, so that
//! vectors run across rows: see [`layout`].

pub mod layout;
mod q4_0;
mod q4_1;
mod q8_0;

pub use layout::{GROUP_ROWS, LayoutError, Piece};

/// A block format.
#[derive(Debug)]
pub struct Format {
    /// The name in the `.ph` language.
    pub name: &'static str,
    /// The tensor type id in a GGUF file.
    pub ggml_type: u32,
    /// Elements of one block.
    pub elements: usize,
    /// Bytes of one block.
    pub bytes: usize,
    /// The pieces of a block that stay together in the device layout, in its order.
    pub pieces: &'static [Piece],
    /// The decode rule: segments in element order that cover the block.
    pub segments: &'static [Segment],
}

/// `count` consecutive elements of a block that one expression decodes.
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
    /// The little-endian f16 at `offset`, widened to `f32`: the same in all lanes.
    F16(usize),
    /// An integer constant.
    Int(i32),
    /// Bitwise and of two integers.
    And(&'static Expr, &'static Expr),
    /// Logical shift right of an integer by a constant.
    Shr(&'static Expr, u32),
    /// Difference of two integers.
    Sub(&'static Expr, &'static Expr),
    /// An integer as `f32`, exact.
    ToFloat(&'static Expr),
    /// Product of two floats.
    Mul(&'static Expr, &'static Expr),
    /// Sum of two floats.
    Add(&'static Expr, &'static Expr),
}

/// Every format, in the order of their GGUF type ids.
pub const ALL: [&Format; 3] = [&q4_0::FORMAT, &q4_1::FORMAT, &q8_0::FORMAT];

/// The format called `name`.
pub fn by_name(name: &str) -> Option<&'static Format> {
    ALL.into_iter().find(|format| format.name == name)
}

/// The format with GGUF tensor type id `id`.
pub fn by_ggml_type(id: u32) -> Option<&'static Format> {
    ALL.into_iter().find(|format| format.ggml_type == id)
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
    fn eval(&self, block: &[u8], lane: usize) -> Lane {
        match *self {
            Expr::Bytes(offset) => Lane::Int(i32::from(block[offset + lane])),
            Expr::SignedBytes(offset) => Lane::Int(i32::from(block[offset + lane] as i8)),
            Expr::F16(offset) => {
                Lane::Float(half::f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32())
            }
            Expr::Int(value) => Lane::Int(value),
            Expr::And(a, b) => Lane::Int(a.eval(block, lane).as_int() & b.eval(block, lane).as_int()),
            Expr::Shr(a, by) => Lane::Int(((a.eval(block, lane).as_int() as u32) >> by) as i32),
            Expr::Sub(a, b) => {
                Lane::Int(a.eval(block, lane).as_int().wrapping_sub(b.eval(block, lane).as_int()))
            }
            Expr::ToFloat(a) => Lane::Float(a.eval(block, lane).as_int() as f32),
            Expr::Mul(a, b) => Lane::Float(a.eval(block, lane).as_float() * b.eval(block, lane).as_float()),
            Expr::Add(a, b) => Lane::Float(a.eval(block, lane).as_float() + b.eval(block, lane).as_float()),
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
            for piece in format.pieces {
                for taken in &mut bytes[piece.offset..piece.offset + piece.bytes] {
                    assert!(!*taken, "{}", format.name);
                    *taken = true;
                }
            }
            assert!(bytes.iter().all(|taken| *taken), "{}", format.name);
        }
    }

    #[test]
    fn segments_cover_each_block_once_and_stay_inside_it() {
        for format in ALL {
            let mut next = 0;
            for segment in format.segments {
                assert_eq!(segment.start, next, "{}", format.name);
                next += segment.count;
                assert_in_bounds(&segment.value, segment.count, format);
            }
            assert_eq!(next, format.elements, "{}", format.name);
        }
    }

    fn assert_in_bounds(expr: &Expr, count: usize, format: &Format) {
        match expr {
            Expr::Bytes(offset) | Expr::SignedBytes(offset) => assert!(offset + count <= format.bytes),
            Expr::F16(offset) => assert!(offset + 2 <= format.bytes),
            Expr::Int(_) => {}
            Expr::Shr(a, _) | Expr::ToFloat(a) => assert_in_bounds(a, count, format),
            Expr::And(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) | Expr::Add(a, b) => {
                assert_in_bounds(a, count, format);
                assert_in_bounds(b, count, format);
            }
        }
    }
}
