//! `q4_1`: 32 elements in 20 bytes. f16 scale `d`, f16 minimum `m`, then 16 bytes
//! of nibbles: the low nibbles are elements 0..16, the high ones 16..32. Value
//! `d * q + m`. Source: the GGUF format as written by `gguf-py` (`Q4_1`).

use super::{
    Expr::{Add, And, Bytes, F16, Int, Mul, Shr, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

pub(super) static FORMAT: Format = Format {
    name: "q4_1",
    ggml_type: Some(3),
    elements: 32,
    bytes: 20,
    layout: Interleaved(&pieces::<6>(20, &[0, 2])),
    segments: &[
        Segment {
            start: 0,
            count: 16,
            value: Add(&Mul(&F16(0), &ToFloat(&And(&Bytes(4), &Int(15)))), &F16(2)),
        },
        Segment { start: 16, count: 16, value: Add(&Mul(&F16(0), &ToFloat(&Shr(&Bytes(4), 4))), &F16(2)) },
    ],
};
