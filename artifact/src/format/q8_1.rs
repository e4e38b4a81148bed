//! `q8_1`: activations of 32 elements in 48 bytes, 8 bits each: see [`super::activation`].
//! The name is that of llama.cpp's format for the same use, which has f16 where this
//! has f32.

use super::{
    Expr::{F32, Mul, SignedBytes, ToFloat},
    Format, Segment,
    activation::{CODES, SCALE},
    layout::Layout,
};

pub(super) static FORMAT: Format = Format {
    name: "q8_1",
    ggml_type: None,
    elements: 32,
    bytes: CODES + 32,
    layout: Layout::Rows,
    segments: &[Segment { start: 0, count: 32, value: Mul(&F32(SCALE), &ToFloat(&SignedBytes(CODES))) }],
};
