//! Tensor bytes as `f32`, by the reference decoders: an oracle for tests, not a
//! path that inference takes.

use half::f16;
use phobos_artifact::{DType, Element};

/// Why bytes cannot be dequantised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a whole number of blocks.
    #[error("{element}: wanted a multiple of {block} bytes, found {found}")]
    Length {
        /// The element.
        element: &'static str,
        /// Bytes of a block.
        block: usize,
        /// The bytes given.
        found: usize,
    },
    /// The element is not one that weights are stored in.
    #[error("{0}: wanted f32, f16, bf16 or a block format")]
    Element(&'static str),
}

/// The elements of a tensor in the order of its bytes. Exact: an f16, bf16 or f32
/// keeps its value, and a block format rounds as its rule states.
///
/// # Errors
/// [`DecodeError`] when the length does not fit or the element is another scalar.
pub fn dequantize(element: Element, bytes: &[u8]) -> Result<Vec<f32>, DecodeError> {
    let length =
        || DecodeError::Length { element: element.name(), block: element.block_bytes(), found: bytes.len() };
    if !bytes.len().is_multiple_of(element.block_bytes()) {
        return Err(length());
    }
    let mut values = Vec::with_capacity(bytes.len() / element.block_bytes() * element.block_elements());
    match element {
        Element::Scalar(DType::F32) => {
            let (chunks, _) = bytes.as_chunks::<4>();
            values.extend(chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)));
        }
        Element::Scalar(DType::F16) => {
            let (chunks, _) = bytes.as_chunks::<2>();
            values.extend(chunks.iter().map(|chunk| f16::from_le_bytes(*chunk).to_f32()));
        }
        Element::Scalar(DType::Bf16) => {
            let (chunks, _) = bytes.as_chunks::<2>();
            // The upper half of an f32, NaN payload included.
            values.extend(
                chunks.iter().map(|chunk| f32::from_bits(u32::from(u16::from_le_bytes(*chunk)) << 16)),
            );
        }
        Element::Scalar(other) => return Err(DecodeError::Element(other.name())),
        Element::Block(format) => {
            for block in bytes.chunks_exact(format.bytes) {
                values.extend(format.decode(block).ok_or_else(length)?);
            }
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_widen_exactly() {
        let f16 = Element::Scalar(DType::F16);
        // One, the smallest subnormal, -inf.
        assert_eq!(
            dequantize(f16, &[0x00, 0x3c, 0x01, 0x00, 0x00, 0xfc]),
            Ok(vec![1.0, 2f32.powi(-24), f32::NEG_INFINITY])
        );
        let bf16 = Element::Scalar(DType::Bf16);
        assert_eq!(dequantize(bf16, &[0x80, 0x3f, 0x49, 0xc0]), Ok(vec![1.0, -3.140625]));
        assert_eq!(dequantize(bf16, &[0xa0, 0x7f]).unwrap()[0].to_bits(), 0x7fa0_0000);
    }

    #[test]
    fn partial_blocks_and_other_scalars_are_errors() {
        let q4_1: Element = "q4_1".parse().unwrap();
        assert_eq!(
            dequantize(q4_1, &[0; 30]).unwrap_err().to_string(),
            "q4_1: wanted a multiple of 20 bytes, found 30"
        );
        assert_eq!(dequantize(Element::Scalar(DType::I32), &[0; 4]), Err(DecodeError::Element("i32")));
        assert_eq!(dequantize(q4_1, &[]), Ok(vec![]));
    }
}
