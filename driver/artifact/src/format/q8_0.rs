//! `q8_0`: 32 elements in 34 bytes. f16 scale `d`, then 32 signed bytes. Value
//! `d * q`. Source: the GGUF format as written by `gguf-py` (`Q8_0`).

use super::{
    Expr::{F16, Mul, SignedBytes, ToFloat},
    Format, Piece, Segment,
};

pub(super) static FORMAT: Format = Format {
    name: "q8_0",
    ggml_type: 8,
    elements: 32,
    bytes: 34,
    pieces: &[
        Piece { offset: 0, bytes: 2 },
        Piece { offset: 2, bytes: 4 },
        Piece { offset: 6, bytes: 4 },
        Piece { offset: 10, bytes: 4 },
        Piece { offset: 14, bytes: 4 },
        Piece { offset: 18, bytes: 4 },
        Piece { offset: 22, bytes: 4 },
        Piece { offset: 26, bytes: 4 },
        Piece { offset: 30, bytes: 4 },
    ],
    segments: &[Segment { start: 0, count: 32, value: Mul(&F16(0), &ToFloat(&SignedBytes(2))) }],
};
