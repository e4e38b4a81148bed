//! `q8_0`: 32 elements in 34 bytes. f16 scale `d`, then 32 signed bytes. Value
//! `d * q`. Source: the GGUF format as written by `gguf-py` (`Q8_0`).

use super::{
    Expr::{F16, Mul, SignedBytes, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

pub(super) static FORMAT: Format = Format {
    name: "q8_0",
    ggml_type: Some(8),
    elements: 32,
    bytes: 34,
    layout: Interleaved(&pieces::<9>(34, &[0])),
    segments: &[Segment { start: 0, count: 32, value: Mul(&F16(0), &ToFloat(&SignedBytes(2))) }],
};
