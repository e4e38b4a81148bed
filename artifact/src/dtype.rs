//! Scalar element types, and the element of a tensor: a scalar or a block format.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::format::{self, Format};

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
