//! `q4_0`: 32 elements in 18 bytes. f16 scale `d`, then 16 bytes of nibbles: the
//! low nibbles are elements 0..16, the high nibbles 16..32. Value `d * (q - 8)`.
//! Source: the GGUF format as written by `gguf-py` (`Q4_0`).

use super::{
    Expr::{And, Bytes, F16, Int, Mul, Shr, Sub, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

pub(super) static FORMAT: Format = Format {
    name: "q4_0",
    ggml_type: Some(2),
    elements: 32,
    bytes: 18,
    layout: Interleaved(&pieces::<5>(18, &[0])),
    segments: &[
        Segment {
            start: 0,
            count: 16,
            value: Mul(&F16(0), &ToFloat(&Sub(&And(&Bytes(2), &Int(15)), &Int(8)))),
        },
        Segment { start: 16, count: 16, value: Mul(&F16(0), &ToFloat(&Sub(&Shr(&Bytes(2), 4), &Int(8)))) },
    ],
};
