//! `q5_k`: 256 elements in 176 bytes, in eight sub-blocks of 32. f16 `d`, f16 `dmin`,
//! 12 bytes with a scale `s` and a minimum `m` of each sub-block, 32 bytes of high
//! bits, then 128 bytes of nibbles: 32 bytes hold two sub-blocks, the first in the low
//! nibbles. Bit `b` of high byte `l` is bit 4 of element `l` of sub-block `b`. Value
//! `d * s * q - dmin * m`. Source: the GGUF format as written by `gguf-py` (`Q5_K`).

use super::{
    Expr::{Add, And, Bytes, F16, Int, Mul, Neg, Or, Shl, Shr, ToFloat},
    Format, Segment,
    k_scales::{MINIMA, SCALES},
    layout::{Layout::Interleaved, pieces},
};

/// A sub-block, whose low four bits are `$nibbles`.
macro_rules! segment {
    ($sub_block:literal, $nibbles:expr) => {
        Segment {
            start: 32 * $sub_block,
            count: 32,
            value: Add(
                &Mul(
                    &Mul(&F16(0), &ToFloat(&SCALES[$sub_block])),
                    &ToFloat(&Or(&$nibbles, &Shl(&And(&Shr(&Bytes(16), $sub_block), &Int(1)), 4))),
                ),
                &Neg(&Mul(&F16(2), &ToFloat(&MINIMA[$sub_block]))),
            ),
        }
    };
}

pub(super) static FORMAT: Format = Format {
    name: "q5_k",
    ggml_type: Some(13),
    elements: 256,
    bytes: 176,
    layout: Interleaved(&pieces::<45>(176, &[0, 2])),
    segments: &[
        segment!(0, And(&Bytes(48), &Int(15))),
        segment!(1, Shr(&Bytes(48), 4)),
        segment!(2, And(&Bytes(80), &Int(15))),
        segment!(3, Shr(&Bytes(80), 4)),
        segment!(4, And(&Bytes(112), &Int(15))),
        segment!(5, Shr(&Bytes(112), 4)),
        segment!(6, And(&Bytes(144), &Int(15))),
        segment!(7, Shr(&Bytes(144), 4)),
    ],
};
