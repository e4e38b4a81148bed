//! `q5_1`: 32 elements in 24 bytes. f16 scale `d`, f16 minimum `m`, then 32 high bits,
//! then 16 bytes of nibbles: the low nibbles are elements 0..16, the high ones 16..32,
//! and bit `j` of the high bits is bit 4 of element `j`. Value `d * q + m`.
//! Source: the GGUF format as written by `gguf-py` (`Q5_1`).

use super::{
    Expr::{Add, And, Bits, Bytes, F16, Int, Mul, Or, Shl, Shr, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

pub(super) static FORMAT: Format = Format {
    name: "q5_1",
    ggml_type: Some(7),
    elements: 32,
    bytes: 24,
    layout: Interleaved(&pieces::<7>(24, &[0, 2])),
    segments: &[
        Segment {
            start: 0,
            count: 16,
            value: Add(&Mul(&F16(0), &ToFloat(&Or(&And(&Bytes(8), &Int(15)), &Shl(&Bits(4), 4)))), &F16(2)),
        },
        Segment {
            start: 16,
            count: 16,
            value: Add(&Mul(&F16(0), &ToFloat(&Or(&Shr(&Bytes(8), 4), &Shl(&Bits(6), 4)))), &F16(2)),
        },
    ],
};
