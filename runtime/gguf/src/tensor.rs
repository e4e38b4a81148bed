//! The tensor directory: one entry per tensor, and the checks that make its bytes
//! safe to lend.

use std::{fmt::Write, ops::Range, sync::Arc};

use phobos_artifact::Element;

use crate::{
    error::{Fault, GgufError},
    escape::{MESSAGE_LIMIT, escaped},
    reader::Cursor,
    tensor_type::TensorType,
};

/// The most dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 4;

/// The fewest bytes of a directory entry: name length, dimension count, type, offset.
pub(crate) const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 4 + 8;

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// The name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Dimensions in ggml order: the contiguous axis first. A weight that maps
    /// `in` to `out` features has `[in, out]`.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub tensor_type: TensorType,
    /// Its bytes in the file: inside the file, disjoint from those of every other
    /// tensor, and starting at a multiple of the file's alignment (an empty range
    /// may start anywhere).
    pub range: Range<usize>,
    /// Which part of a split file these bytes are in; 0 in a file that is whole.
    pub part: usize,
    file: Arc<str>,
    entry_offset: usize,
}

impl TensorInfo {
    /// Dimensions outermost first, as kernels and NumPy count them: `[out, in]`.
    pub fn rows_shape(&self) -> Vec<u64> {
        self.shape.iter().rev().copied().collect()
    }

    /// How many elements; 1 for a scalar, 0 for an empty tensor.
    pub fn elements(&self) -> u64 {
        // The product was checked when the entry was read.
        self.shape.iter().product()
    }

    /// The element that kernels see.
    ///
    /// # Errors
    /// [`GgufError::UnsupportedType`] when Phobos cannot run the type.
    pub fn element(&self) -> Result<Element, GgufError> {
        self.tensor_type.element().ok_or_else(|| GgufError::UnsupportedType {
            file: self.file.to_string(),
            offset: self.entry_offset as u64,
            tensor: escaped(self.name.as_bytes(), MESSAGE_LIMIT).to_string(),
            found: self.tensor_type.name(),
            supported: TensorType::runnable(),
        })
    }
}

/// A directory entry before the data section is known.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) entry_offset: usize,
    shape: Vec<u64>,
    tensor_type: TensorType,
    bytes: u64,
    data_offset: u64,
    data_offset_at: usize,
}

impl Entry {
    /// Reads entry `index`.
    pub(crate) fn read(cursor: &mut Cursor<'_>, index: u64) -> Result<Entry, GgufError> {
        let entry_offset = cursor.position();
        let name = cursor.name(format_args!("tensor {index} name"))?;
        let shown = escaped(name.as_bytes(), MESSAGE_LIMIT);

        let at = cursor.position();
        let dimensions = cursor.u32(format_args!("tensor `{shown}` dimension count"))?;
        if dimensions > MAX_DIMENSIONS {
            let fault = Fault::Dimensions(dimensions);
            return Err(cursor.error(at, format_args!("tensor `{shown}` dimension count"), fault));
        }
        let shape_at = cursor.position();
        let mut shape = Vec::with_capacity(dimensions as usize);
        for axis in 0..dimensions {
            shape.push(cursor.u64(format_args!("tensor `{shown}` dimension {axis}"))?);
        }

        let at = cursor.position();
        let id = cursor.u32(format_args!("tensor `{shown}` type"))?;
        let Some(tensor_type) = TensorType::from_id(id) else {
            return Err(cursor.error(at, format_args!("tensor `{shown}` type"), Fault::TensorType(id)));
        };
        let bytes = size(&shape, tensor_type)
            .map_err(|fault| cursor.error(shape_at, format_args!("tensor `{shown}` dimensions"), fault))?;

        let data_offset_at = cursor.position();
        let data_offset = cursor.u64(format_args!("tensor `{shown}` offset"))?;
        let name = name.to_owned();
        Ok(Entry { name, entry_offset, shape, tensor_type, bytes, data_offset, data_offset_at })
    }

    /// Places the tensor in the file, whose data section starts at `data_start`.
    pub(crate) fn place(
        self,
        cursor: &Cursor<'_>,
        file: &Arc<str>,
        data_start: u64,
        alignment: u64,
    ) -> Result<TensorInfo, GgufError> {
        let fail = |field: &str, fault| {
            let shown = escaped(self.name.as_bytes(), MESSAGE_LIMIT);
            cursor.error(self.data_offset_at, format_args!("tensor `{shown}` {field}"), fault)
        };
        if !self.data_offset.is_multiple_of(alignment) {
            return Err(fail("offset", Fault::Misaligned { offset: self.data_offset, alignment }));
        }
        let file_bytes = cursor.bytes().len() as u64;
        let start = data_start.saturating_add(self.data_offset);
        let end = start.saturating_add(self.bytes);
        let range = if self.bytes == 0 {
            let start = start.min(file_bytes) as usize;
            start..start
        } else if end > file_bytes {
            return Err(fail("data", Fault::Truncated { needs: end, has: file_bytes }));
        } else {
            // Both are at most the length of a slice.
            start as usize..end as usize
        };
        Ok(TensorInfo {
            name: self.name,
            shape: self.shape,
            tensor_type: self.tensor_type,
            range,
            part: 0,
            file: Arc::clone(file),
            entry_offset: self.entry_offset,
        })
    }
}

/// The bytes of a tensor.
fn size(shape: &[u64], tensor_type: TensorType) -> Result<u64, Fault> {
    let representable = |value: &u64| i64::try_from(*value).is_ok();
    // Zero counts as one here: a shape whose other dimensions overflow would still
    // trip code that multiplies them first.
    shape
        .iter()
        .try_fold(1u64, |product, dimension| product.checked_mul((*dimension).max(1)).filter(representable))
        .ok_or_else(|| Fault::ElementCount(shown_shape(shape)))?;
    let row = shape.first().copied().unwrap_or(1);
    let block = tensor_type.block_elements();
    if !row.is_multiple_of(block) {
        return Err(Fault::Row { row, block, name: tensor_type.name() });
    }
    let blocks = shape.iter().skip(1).product::<u64>() * (row / block);
    blocks
        .checked_mul(tensor_type.block_bytes())
        .filter(representable)
        .ok_or_else(|| Fault::ElementCount(shown_shape(shape)))
}

/// A shape as messages show it: `[576, 49152]`.
pub(crate) fn shown_shape(shape: &[u64]) -> String {
    let mut text = String::from("[");
    for (axis, dimension) in shape.iter().enumerate() {
        let separator = if axis == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{dimension}");
    }
    text.push(']');
    text
}

/// Refuses tensors that share bytes.
pub(crate) fn check_overlap(cursor: &Cursor<'_>, tensors: &[TensorInfo]) -> Result<(), GgufError> {
    let mut by_start: Vec<&TensorInfo> = tensors.iter().filter(|tensor| !tensor.range.is_empty()).collect();
    by_start.sort_by_key(|tensor| tensor.range.start);
    for pair in by_start.windows(2) {
        let &[before, after] = pair else { continue };
        if before.range.end > after.range.start {
            let shown = escaped(after.name.as_bytes(), MESSAGE_LIMIT);
            let fault = Fault::Overlap {
                start: after.range.start as u64,
                end: after.range.end as u64,
                other: escaped(before.name.as_bytes(), MESSAGE_LIMIT).to_string(),
            };
            return Err(cursor.error(after.entry_offset, format_args!("tensor `{shown}` data"), fault));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(shape: &[u64], id: u32) -> Result<u64, Fault> {
        size(shape, TensorType::from_id(id).unwrap())
    }

    #[test]
    fn sizes_are_whole_blocks_and_zero_dims_take_nothing() {
        assert_eq!(bytes_of(&[], 0), Ok(4));
        assert_eq!(bytes_of(&[64, 3], 3), Ok(2 * 3 * 20));
        assert_eq!(bytes_of(&[256, 2, 2, 2], 12), Ok(8 * 144));
        assert_eq!(bytes_of(&[4, 0], 0), Ok(0));
        assert_eq!(bytes_of(&[0, 7], 8), Ok(0));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_even_when_the_product_wraps_to_something_small() {
        let overflow = |shape: &[u64]| Err(Fault::ElementCount(shown_shape(shape)));
        // 2^64 + 2^22 elements: 4 Mi after wrapping.
        assert_eq!(bytes_of(&[(1 << 42) + 1, 1 << 22], 24), overflow(&[(1 << 42) + 1, 1 << 22]));
        assert_eq!(bytes_of(&[i64::MAX as u64, 2], 24), overflow(&[i64::MAX as u64, 2]));
        // The elements fit, their bytes do not.
        assert_eq!(bytes_of(&[1 << 61], 28), overflow(&[1 << 61]));
        // Empty, but its other dimensions overflow.
        assert_eq!(bytes_of(&[1 << 40, 1 << 40, 0], 0), overflow(&[1 << 40, 1 << 40, 0]));
        assert_eq!(bytes_of(&[0, 1 << 40, 1 << 40], 0), overflow(&[0, 1 << 40, 1 << 40]));
        assert_eq!(bytes_of(&[33], 3), Err(Fault::Row { row: 33, block: 32, name: "Q4_1" }));
        assert_eq!(bytes_of(&[], 8), Err(Fault::Row { row: 1, block: 32, name: "Q8_0" }));
    }
}
