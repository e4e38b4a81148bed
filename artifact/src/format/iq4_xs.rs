//! `iq4_xs`: 256 elements in 136 bytes, in eight sub-blocks of 32. f16 `d`, two bytes
//! with the high two bits of the 6-bit scale `s` of each sub-block, four bytes of
//! nibbles with the low four bits, then 16 bytes of nibbles for each sub-block: the low
//! nibbles are its elements 0..16, the high nibbles 16..32. Value
//! `d * (s - 32) * LEVELS[q]` with the levels of [`iq4_nl`](super::iq4_nl).
//! Source: the GGUF format as written by `gguf-py` (`IQ4_XS`).

use super::{
    Expr::{And, Byte, Bytes, F16, Int, Lookup, Mul, Or, Shl, Shr, Sub, ToFloat},
    Format, Segment,
    iq4_nl::LEVELS,
    layout::{Layout::Interleaved, pieces},
};

/// Half `$half` of a sub-block, in nibbles `$nibbles`.
macro_rules! segment {
    ($sub_block:literal, $half:literal, $nibbles:expr) => {
        Segment {
            start: 32 * $sub_block + 16 * $half,
            count: 16,
            value: Mul(
                &Mul(
                    &F16(0),
                    &ToFloat(&Sub(
                        &Or(
                            &And(&Shr(&Byte(4 + $sub_block / 2), $sub_block % 2 * 4), &Int(15)),
                            &Shl(&And(&Shr(&Byte(2 + $sub_block / 4), $sub_block % 4 * 2), &Int(3)), 4),
                        ),
                        &Int(32),
                    )),
                ),
                &ToFloat(&Lookup(&LEVELS, &$nibbles)),
            ),
        }
    };
}

pub(super) static FORMAT: Format = Format {
    name: "iq4_xs",
    ggml_type: Some(23),
    elements: 256,
    bytes: 136,
    layout: Interleaved(&pieces::<35>(136, &[0, 2])),
    segments: &[
        segment!(0, 0, And(&Bytes(8), &Int(15))),
        segment!(0, 1, Shr(&Bytes(8), 4)),
        segment!(1, 0, And(&Bytes(24), &Int(15))),
        segment!(1, 1, Shr(&Bytes(24), 4)),
        segment!(2, 0, And(&Bytes(40), &Int(15))),
        segment!(2, 1, Shr(&Bytes(40), 4)),
        segment!(3, 0, And(&Bytes(56), &Int(15))),
        segment!(3, 1, Shr(&Bytes(56), 4)),
        segment!(4, 0, And(&Bytes(72), &Int(15))),
        segment!(4, 1, Shr(&Bytes(72), 4)),
        segment!(5, 0, And(&Bytes(88), &Int(15))),
        segment!(5, 1, Shr(&Bytes(88), 4)),
        segment!(6, 0, And(&Bytes(104), &Int(15))),
        segment!(6, 1, Shr(&Bytes(104), 4)),
        segment!(7, 0, And(&Bytes(120), &Int(15))),
        segment!(7, 1, Shr(&Bytes(120), 4)),
    ],
};
