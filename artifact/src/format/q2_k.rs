//! `q2_k`: 256 elements in 84 bytes, in sixteen sub-blocks of 16. A byte for each
//! sub-block, with a scale `s` in its low nibble and a minimum `m` in the high one, 64
//! bytes of codes, f16 `d`, f16 `dmin`. Each half of the elements has 32 bytes of codes:
//! bits `2 p` and `2 p + 1` of byte `l` are element `32 p + l`. Value
//! `d * s * q - dmin * m`. Source: the GGUF format as written by `gguf-py` (`Q2_K`).

use super::{
    Expr::{Add, And, Byte, Bytes, F16, Int, Mul, Neg, Shr, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

/// A sub-block, whose codes are in the bytes from `$codes`, at `$shift` of each.
macro_rules! segment {
    ($sub_block:literal, $codes:literal, $shift:literal) => {
        Segment {
            start: 16 * $sub_block,
            count: 16,
            value: Add(
                &Mul(
                    &Mul(&F16(80), &ToFloat(&And(&Byte($sub_block), &Int(15)))),
                    &ToFloat(&And(&Shr(&Bytes($codes), $shift), &Int(3))),
                ),
                &Neg(&Mul(&F16(82), &ToFloat(&Shr(&Byte($sub_block), 4)))),
            ),
        }
    };
}

pub(super) static FORMAT: Format = Format {
    name: "q2_k",
    ggml_type: Some(10),
    elements: 256,
    bytes: 84,
    layout: Interleaved(&pieces::<22>(84, &[80, 82])),
    segments: &[
        segment!(0, 16, 0),
        segment!(1, 32, 0),
        segment!(2, 16, 2),
        segment!(3, 32, 2),
        segment!(4, 16, 4),
        segment!(5, 32, 4),
        segment!(6, 16, 6),
        segment!(7, 32, 6),
        segment!(8, 48, 0),
        segment!(9, 64, 0),
        segment!(10, 48, 2),
        segment!(11, 64, 2),
        segment!(12, 48, 4),
        segment!(13, 64, 4),
        segment!(14, 48, 6),
        segment!(15, 64, 6),
    ],
};
