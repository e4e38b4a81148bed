//! `q5_0`: 32 elements in 22 bytes. f16 scale `d`, then 32 high bits, then 16 bytes
//! of nibbles: the low nibbles are elements 0..16, the high nibbles 16..32, and bit `j`
//! of the high bits is bit 4 of element `j`. Value `d * (q - 16)`.
//! Source: the GGUF format as written by `gguf-py` (`Q5_0`).

use super::{
    Expr::{And, Bits, Bytes, F16, Int, Mul, Or, Shl, Shr, Sub, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

pub(super) static FORMAT: Format = Format {
    name: "q5_0",
    ggml_type: Some(6),
    elements: 32,
    bytes: 22,
    layout: Interleaved(&pieces::<6>(22, &[0])),
    segments: &[
        Segment {
            start: 0,
            count: 16,
            value: Mul(&F16(0), &ToFloat(&Sub(&Or(&And(&Bytes(6), &Int(15)), &Shl(&Bits(2), 4)), &Int(16)))),
        },
        Segment {
            start: 16,
            count: 16,
            value: Mul(&F16(0), &ToFloat(&Sub(&Or(&Shr(&Bytes(6), 4), &Shl(&Bits(4), 4)), &Int(16)))),
        },
    ],
};
