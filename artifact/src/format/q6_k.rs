//! `q6_k`: 256 elements in 210 bytes, in sixteen sub-blocks of 16. 128 bytes of
//! nibbles, 64 bytes of high bits, a signed byte `s` for each sub-block, then f16 `d`.
//! Each half of the elements has 64 bytes of nibbles, the low ones first, and 32 bytes
//! of high bits: bits `2 p` and `2 p + 1` of byte `l` are bits 4 and 5 of element
//! `32 p + l`. Value `d * s * (q - 32)`.
//! Source: the GGUF format as written by `gguf-py` (`Q6_K`).

use super::{
    Expr::{And, Bytes, F16, Int, Mul, Or, Shl, Shr, SignedByte, Sub, ToFloat},
    Format, Segment,
    layout::{Layout::Interleaved, pieces},
};

/// A sub-block, whose low four bits are `$nibbles` and whose high bits are in the bytes
/// from `$high`, at `$shift` of each.
macro_rules! segment {
    ($sub_block:literal, $nibbles:expr, $high:literal, $shift:literal) => {
        Segment {
            start: 16 * $sub_block,
            count: 16,
            value: Mul(
                &Mul(&F16(208), &ToFloat(&SignedByte(192 + $sub_block))),
                &ToFloat(&Sub(&Or(&$nibbles, &Shl(&And(&Shr(&Bytes($high), $shift), &Int(3)), 4)), &Int(32))),
            ),
        }
    };
}

pub(super) static FORMAT: Format = Format {
    name: "q6_k",
    ggml_type: Some(14),
    elements: 256,
    bytes: 210,
    layout: Interleaved(&pieces::<53>(210, &[208])),
    segments: &[
        segment!(0, And(&Bytes(0), &Int(15)), 128, 0),
        segment!(1, And(&Bytes(16), &Int(15)), 144, 0),
        segment!(2, And(&Bytes(32), &Int(15)), 128, 2),
        segment!(3, And(&Bytes(48), &Int(15)), 144, 2),
        segment!(4, Shr(&Bytes(0), 4), 128, 4),
        segment!(5, Shr(&Bytes(16), 4), 144, 4),
        segment!(6, Shr(&Bytes(32), 4), 128, 6),
        segment!(7, Shr(&Bytes(48), 4), 144, 6),
        segment!(8, And(&Bytes(64), &Int(15)), 160, 0),
        segment!(9, And(&Bytes(80), &Int(15)), 176, 0),
        segment!(10, And(&Bytes(96), &Int(15)), 160, 2),
        segment!(11, And(&Bytes(112), &Int(15)), 176, 2),
        segment!(12, Shr(&Bytes(64), 4), 160, 4),
        segment!(13, Shr(&Bytes(80), 4), 176, 4),
        segment!(14, Shr(&Bytes(96), 4), 160, 6),
        segment!(15, Shr(&Bytes(112), 4), 176, 6),
    ],
};
