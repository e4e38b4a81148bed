//! `iq4_nl`: 32 elements in 18 bytes. f16 scale `d`, then 16 bytes of nibbles: the
//! low nibbles are elements 0..16, the high nibbles 16..32. Value `d * LEVELS[q]`.
//! Source: the GGUF format as written by `gguf-py` (`IQ4_NL`).

use super::{
    Expr::{And, Bytes, F16, Int, Lookup, Mul, Shr, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

/// What the sixteen codes of `iq4_nl` and `iq4_xs` stand for.
pub(super) static LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

pub(super) static FORMAT: Format = Format {
    name: "iq4_nl",
    ggml_type: Some(20),
    elements: 32,
    bytes: 18,
    layout: Interleaved(&pieces::<5>(18, &[0])),
    segments: &[
        Segment {
            start: 0,
            count: 16,
            value: Mul(&F16(0), &ToFloat(&Lookup(&LEVELS, &And(&Bytes(2), &Int(15))))),
        },
        Segment { start: 16, count: 16, value: Mul(&F16(0), &ToFloat(&Lookup(&LEVELS, &Shr(&Bytes(2), 4)))) },
    ],
};
