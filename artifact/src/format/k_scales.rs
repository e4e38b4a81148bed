//! The 6-bit scales and minima of the eight sub-blocks of `q4_k` and `q5_k`, in the 12
//! bytes from [`AT`]. Those of the first four are the low six bits of bytes 0..4 and
//! 4..8. Those of the last four have their low four bits in the nibbles of bytes 8..12,
//! and their high two bits above the scale and the minimum four sub-blocks before.
//! Source: `Q4_K.get_scale_min` of `gguf-py`.

use super::Expr::{self, And, Byte, Int, Or, Shl, Shr};

/// Where the 12 bytes start in a block.
const AT: usize = 4;

/// The low six bits of a byte.
macro_rules! low_six {
    ($byte:literal) => {
        And(&Byte(AT + $byte), &Int(63))
    };
}

/// The high two bits of a byte, as bits 4 and 5.
macro_rules! high_two {
    ($byte:literal) => {
        Shl(&Shr(&Byte(AT + $byte), 6), 4)
    };
}

/// The scale of each sub-block, an integer.
pub(super) const SCALES: [Expr; 8] = [
    low_six!(0),
    low_six!(1),
    low_six!(2),
    low_six!(3),
    Or(&And(&Byte(AT + 8), &Int(15)), &high_two!(0)),
    Or(&And(&Byte(AT + 9), &Int(15)), &high_two!(1)),
    Or(&And(&Byte(AT + 10), &Int(15)), &high_two!(2)),
    Or(&And(&Byte(AT + 11), &Int(15)), &high_two!(3)),
];

/// The minimum of each sub-block, an integer.
pub(super) const MINIMA: [Expr; 8] = [
    low_six!(4),
    low_six!(5),
    low_six!(6),
    low_six!(7),
    Or(&Shr(&Byte(AT + 8), 4), &high_two!(4)),
    Or(&Shr(&Byte(AT + 9), 4), &high_two!(5)),
    Or(&Shr(&Byte(AT + 10), 4), &high_two!(6)),
    Or(&Shr(&Byte(AT + 11), 4), &high_two!(7)),
];
