//! Scalar arguments.

use half::{bf16, f16};
use phobos_artifact::DType;

/// A scalar argument: a type and the bits, in the low bytes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    dtype: DType,
    bits: u64,
}

impl Scalar {
    /// The type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The bits; those above the type's size are 0.
    pub fn bits(self) -> u64 {
        self.bits
    }
}

macro_rules! scalar {
    ($($type:ty: $dtype:ident = |$value:ident| $bits:expr;)*) => {$(
        impl From<$type> for Scalar {
            fn from($value: $type) -> Scalar {
                Scalar { dtype: DType::$dtype, bits: $bits }
            }
        }
    )*};
}

scalar! {
    bool: Bool = |value| u64::from(value);
    i8: I8 = |value| u64::from(value as u8);
    u8: U8 = |value| u64::from(value);
    i16: I16 = |value| u64::from(value as u16);
    i32: I32 = |value| u64::from(value as u32);
    u32: U32 = |value| u64::from(value);
    i64: I64 = |value| value as u64;
    f16: F16 = |value| u64::from(value.to_bits());
    bf16: Bf16 = |value| u64::from(value.to_bits());
    f32: F32 = |value| u64::from(value.to_bits());
    f64: F64 = |value| value.to_bits();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_in_the_low_bytes() {
        assert_eq!(Scalar::from(-1i8).bits(), 0xff);
        assert_eq!(Scalar::from(-2i32), Scalar { dtype: DType::I32, bits: 0xffff_fffe });
        assert_eq!(Scalar::from(1.0f32).bits(), 0x3f80_0000);
        assert_eq!(Scalar::from(f16::ONE).bits(), 0x3c00);
        assert_eq!(Scalar::from(-1i64).bits(), u64::MAX);
    }
}
