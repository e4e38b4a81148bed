//! Slices of numbers as bytes and back.
#![allow(unsafe_code)]

use half::{bf16, f16};

/// Numbers whose bytes are their memory: no padding, every bit pattern legal.
///
/// # Safety
/// The type has no padding and every bit pattern is a value of it.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($type:ty)*) => {$(
        // SAFETY: a number without padding, every bit pattern of which is a value.
        unsafe impl Plain for $type {}
    )*};
}

plain!(i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64);

/// The bytes of `values`, in the machine's byte order.
pub fn as_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: the range is that of `values`, alive and shared for as long; `Plain`
    // says that all its bytes are initialised; bytes need no alignment.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The bytes of `values`, to be written.
pub fn as_bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`, exclusive because `values` is; whatever bytes are
    // written are values of `T` because it is `Plain`.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_both_ways() {
        let mut values = [1.0f32, -2.0];
        assert_eq!(as_bytes(&values)[4..], (-2.0f32).to_ne_bytes());
        as_bytes_mut(&mut values)[..4].copy_from_slice(&3.0f32.to_ne_bytes());
        assert_eq!(values, [3.0, -2.0]);
    }
}
