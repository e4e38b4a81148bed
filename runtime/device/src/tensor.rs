//! A typed view of a buffer.

use phobos_artifact::Element;

use crate::{buffer::Buffer, error::DeviceError};

/// A contiguous view of a buffer: row-major, but for formats of weights, whose rows are
/// interleaved (section 3.2 of SPEC.md); [`Element::to_device`] makes their bytes of a file's.
///
/// The constructors check that it lies inside the buffer. Fields are open, so a
/// launch checks again.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The memory.
    pub buffer: Buffer,
    /// The first byte in the buffer.
    pub offset: u64,
    /// The element type.
    pub element: Element,
    /// The extent of each axis in elements, outermost first.
    pub shape: Vec<u64>,
}

impl Tensor {
    /// The view of `shape` elements that starts at byte `offset`.
    pub fn new(
        buffer: &Buffer,
        offset: u64,
        element: Element,
        shape: impl Into<Vec<u64>>,
    ) -> Result<Tensor, DeviceError> {
        let tensor = Tensor { buffer: buffer.clone(), offset, element, shape: shape.into() };
        let bytes = tensor.bytes()?;
        buffer.check_range("view", offset, bytes).map_err(|error| match element {
            Element::Block(format) if format.group_rows() > 1 => DeviceError::DeviceLayout {
                element,
                shape: tensor.shape.clone(),
                offset,
                bytes,
                len: buffer.len(),
            },
            _ => error,
        })?;
        Ok(tensor)
    }

    /// The view of `shape` elements from the buffer's first byte on.
    pub fn of(buffer: &Buffer, element: Element, shape: impl Into<Vec<u64>>) -> Result<Tensor, DeviceError> {
        Tensor::new(buffer, 0, element, shape)
    }

    /// The same bytes under another shape with as many bytes at most.
    pub fn reshape(&self, shape: impl Into<Vec<u64>>) -> Result<Tensor, DeviceError> {
        Tensor::new(&self.buffer, self.offset, self.element, shape)
    }

    /// Bytes of the view.
    pub fn bytes(&self) -> Result<u64, DeviceError> {
        self.element.device_bytes(&self.shape).ok_or_else(|| DeviceError::Shape {
            element: self.element,
            shape: self.shape.clone(),
            block: self.element.block_elements(),
        })
    }

    /// The alignment in bytes that kernels rely on for `element`: the size of a scalar;
    /// for a block the largest power of two that divides its size, 16 at most.
    pub fn alignment(element: Element) -> u64 {
        let bytes = element.block_bytes() as u64;
        (1 << bytes.trailing_zeros().min(4)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phobos_artifact::DType;

    #[test]
    fn alignment_is_what_every_block_of_a_row_keeps() {
        let alignment = |name: &str| Tensor::alignment(name.parse().unwrap());
        assert_eq!(["i8", "f16", "f32", "f64"].map(alignment), [1, 2, 4, 8]);
        assert_eq!(["q4_0", "q4_1", "q8_0", "q4_k", "q6_k"].map(alignment), [2, 4, 2, 16, 2]);
        assert_eq!(Tensor::alignment(Element::Scalar(DType::Bool)), 1);
    }
}
