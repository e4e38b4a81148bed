//! `q16_1`: activations of 32 elements in 80 bytes, 16 bits each: see [`super::activation`].

use super::{
    Expr::{F32, Mul, PairedShorts, ToFloat},
    Format, Segment,
    activation::{CODES, SCALE},
    layout::Layout,
};

pub(super) static FORMAT: Format = Format {
    name: "q16_1",
    ggml_type: None,
    elements: 32,
    bytes: CODES + 64,
    layout: Layout::Rows,
    segments: &[Segment { start: 0, count: 32, value: Mul(&F32(SCALE), &ToFloat(&PairedShorts(CODES))) }],
};
