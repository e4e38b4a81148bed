//! `q3_k`: 256 elements in 110 bytes, in sixteen sub-blocks of 16. 32 bytes of high
//! bits, 64 bytes of low bits, 12 bytes with a 6-bit scale `s` of each sub-block, then
//! f16 `d`. Each half of the elements has 32 bytes of low bits: bits `2 p` and
//! `2 p + 1` of byte `l` are those of element `32 p + l`. Bit `b` of high byte `l` is bit
//! 2 of element `32 b + l`. The low nibbles of the first eight bytes of scales are the
//! low bits of scales 0..8, the high ones those of 8..16; bits `2 i` and `2 i + 1` of byte
//! `8 + j` are the high bits of scale `4 i + j`. Value `d * (s - 32) * (q - 4)`.
//! Source: the GGUF format as written by `gguf-py` (`Q3_K`).

use super::{
    Expr::{And, Byte, Bytes, F16, Int, Mul, Or, Shl, Shr, Sub, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

/// A sub-block, whose low bits are in the bytes from `$low`, at `$shift` of each, and
/// whose high bits are in the bytes from `$high`.
macro_rules! segment {
    ($sub_block:literal, $low:literal, $shift:literal, $high:literal) => {
        Segment {
            start: 16 * $sub_block,
            count: 16,
            value: Mul(
                &Mul(
                    &F16(108),
                    &ToFloat(&Sub(
                        &Or(
                            &And(&Shr(&Byte(96 + $sub_block % 8), $sub_block / 8 * 4), &Int(15)),
                            &Shl(&And(&Shr(&Byte(104 + $sub_block % 4), $sub_block / 4 * 2), &Int(3)), 4),
                        ),
                        &Int(32),
                    )),
                ),
                &ToFloat(&Sub(
                    &Or(
                        &And(&Shr(&Bytes($low), $shift), &Int(3)),
                        &Shl(&And(&Shr(&Bytes($high), $sub_block / 2), &Int(1)), 2),
                    ),
                    &Int(4),
                )),
            ),
        }
    };
}

pub(super) static FORMAT: Format = Format {
    name: "q3_k",
    ggml_type: Some(11),
    elements: 256,
    bytes: 110,
    layout: Interleaved(&pieces::<28>(110, &[108])),
    segments: &[
        segment!(0, 32, 0, 0),
        segment!(1, 48, 0, 16),
        segment!(2, 32, 2, 0),
        segment!(3, 48, 2, 16),
        segment!(4, 32, 4, 0),
        segment!(5, 48, 4, 16),
        segment!(6, 32, 6, 0),
        segment!(7, 48, 6, 16),
        segment!(8, 64, 0, 0),
        segment!(9, 80, 0, 16),
        segment!(10, 64, 2, 0),
        segment!(11, 80, 2, 16),
        segment!(12, 64, 4, 0),
        segment!(13, 80, 4, 16),
        segment!(14, 64, 6, 0),
        segment!(15, 80, 6, 16),
    ],
};
