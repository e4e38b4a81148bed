//! Scalar element types, and the element of a tensor: a scalar or a block format.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::format::{self, Format, LayoutError};

/// A scalar element type, under its name in the `.ph` language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I8,
    U8,
    I16,
    I32,
    U32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl DType {
    /// Every scalar type.
    pub const ALL: [DType; 11] = [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
    ];

    /// The name in the `.ph` language.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// Bytes of one element in memory; a `bool` takes one.
    pub fn bytes(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::F16 | DType::Bf16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is neither a scalar type nor a block format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type `{0}`")]
pub struct UnknownElement(pub String);

impl FromStr for DType {
    type Err = UnknownElement;
    fn from_str(name: &str) -> Result<DType, UnknownElement> {
        DType::ALL
            .into_iter()
            .find(|dtype| dtype.name() == name)
            .ok_or_else(|| UnknownElement(name.to_owned()))
    }
}

/// The element of a tensor: a scalar, or a block format such as `q4_1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Element {
    /// One scalar per element.
    Scalar(DType),
    /// Blocks of elements along the last axis.
    Block(&'static Format),
}

impl Element {
    /// The name in the `.ph` language: `f32`, `q4_1`, ...
    pub fn name(self) -> &'static str {
        match self {
            Element::Scalar(dtype) => dtype.name(),
            Element::Block(format) => format.name,
        }
    }

    /// Elements per block along the last axis: 1 for scalars.
    pub fn block_elements(self) -> usize {
        match self {
            Element::Scalar(_) => 1,
            Element::Block(format) => format.elements,
        }
    }

    /// Bytes of one block (of one element, for scalars).
    pub fn block_bytes(self) -> usize {
        match self {
            Element::Scalar(dtype) => dtype.bytes(),
            Element::Block(format) => format.bytes,
        }
    }

    /// Bytes of a contiguous tensor of `shape` (outermost first) on a device, where the
    /// rows of block formats are padded and interleaved ([`format::layout`]); `None` as
    /// for [`Element::tensor_bytes`].
    pub fn device_bytes(self, shape: &[u64]) -> Option<u64> {
        let Element::Block(format) = self else { return self.tensor_bytes(shape) };
        let (columns, outer) = shape.split_last()?;
        let (rows, outer) = outer.split_last().unwrap_or((&1, &[]));
        if columns % format.elements as u64 != 0 {
            return None;
        }
        let matrix = format.device_matrix_bytes(*rows, columns / format.elements as u64)?;
        outer.iter().try_fold(matrix, |size, dim| size.checked_mul(*dim))
    }

    /// The bytes of a tensor of `shape` (outermost first) as a kernel reads them, from those
    /// that a file holds: scalars and activations as they are, and the rows of formats of
    /// weights padded and interleaved ([`format::layout`](crate::format::layout)).
    /// [`Element::from_device`] is the way back.
    ///
    /// ```
    /// use phobos_artifact::Element;
    ///
    /// let q8_0: Element = "q8_0".parse()?;
    /// // Three rows of 64 columns: two blocks of 34 bytes in each.
    /// let file: Vec<u8> = (0..3 * 2 * 34).map(|byte| byte as u8).collect();
    /// let device = q8_0.to_device(&[3, 64], &file)?;
    /// // Rows are filled up to 16. The scale of the first block of each row comes first.
    /// assert_eq!(device.len(), 16 * 2 * 34);
    /// assert_eq!(device[..6], [file[0], file[1], file[68], file[69], file[136], file[137]]);
    /// assert_eq!(q8_0.from_device(&[3, 64], &device)?, file);
    ///
    /// let error = q8_0.to_device(&[3, 64], &file[1..]).unwrap_err();
    /// assert_eq!(error.to_string(), "a tensor of q8_0 of shape [3, 64] is 204 bytes in the file, not 203");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_device(self, shape: &[u64], file: &[u8]) -> Result<Vec<u8>, LayoutError> {
        self.relaid(shape, file, true)
    }

    /// The bytes of a tensor of `shape` in the order of a file, from those of a buffer that
    /// kernels read: the inverse of [`Element::to_device`].
    pub fn from_device(self, shape: &[u64], device: &[u8]) -> Result<Vec<u8>, LayoutError> {
        self.relaid(shape, device, false)
    }

    fn relaid(self, shape: &[u64], source: &[u8], to_device: bool) -> Result<Vec<u8>, LayoutError> {
        let no_shape = || LayoutError::Shape { element: self, shape: shape.to_vec() };
        let size =
            |bytes: Option<u64>| bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(no_shape);
        let (file, device) = (size(self.tensor_bytes(shape))?, size(self.device_bytes(shape))?);
        let (place, wanted, target) =
            if to_device { ("the file", file, device) } else { ("the device layout", device, file) };
        if source.len() != wanted {
            let (shape, wanted, found) = (shape.to_vec(), wanted as u64, source.len());
            return Err(LayoutError::Tensor { element: self, shape, place, wanted, found });
        }
        let Element::Block(format) = self else { return Ok(source.to_vec()) };
        let matrices = shape.get(..shape.len().saturating_sub(2)).unwrap_or_default();
        let matrices = size(matrices.iter().try_fold(1, |product: u64, dim| product.checked_mul(*dim)))?;
        let mut result = vec![0; target];
        if matrices == 0 || target == 0 {
            return Ok(result);
        }
        let axis = |back: usize| shape.len().checked_sub(back).and_then(|axis| shape.get(axis)).copied();
        let (rows, columns) = (size(Some(axis(2).unwrap_or(1)))?, size(axis(1))?);
        let blocks = columns / format.elements;
        let parts = source.chunks_exact(wanted / matrices).zip(result.chunks_exact_mut(target / matrices));
        for (source, target) in parts {
            if to_device {
                format.to_device(rows, blocks, source, target)?;
            } else {
                format.from_device(rows, blocks, source, target)?;
            }
        }
        Ok(result)
    }

    /// Bytes of a contiguous tensor of `shape` (outermost first) as a file holds it, or
    /// `None` when the size overflows or the last axis is not a whole number of blocks.
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let per_block = self.block_elements() as u64;
        let (last, outer) = match shape.split_last() {
            Some((last, outer)) => (*last, outer),
            None => (1, &[][..]),
        };
        if last % per_block != 0 {
            return None;
        }
        outer
            .iter()
            .try_fold(last / per_block, |size, dim| size.checked_mul(*dim))?
            .checked_mul(self.block_bytes() as u64)
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Element {
    type Err = UnknownElement;
    fn from_str(name: &str) -> Result<Element, UnknownElement> {
        match name.parse::<DType>() {
            Ok(dtype) => Ok(Element::Scalar(dtype)),
            Err(unknown) => format::by_name(name).map(Element::Block).ok_or(unknown),
        }
    }
}

impl TryFrom<String> for Element {
    type Error = UnknownElement;
    fn try_from(name: String) -> Result<Element, UnknownElement> {
        name.parse()
    }
}

impl From<Element> for String {
    fn from(element: Element) -> String {
        element.name().to_owned()
    }
}
