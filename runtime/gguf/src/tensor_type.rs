//! The tensor types of GGUF files: id, name, block size. Source: the table of ggml
//! 0.25 (ids 4, 5, 31 to 33 and 36 to 38 are retired), and the two types of the
//! PrismML fork of llama.cpp.

use std::fmt;

use phobos_artifact::{DType, Element, format};

/// The type of a tensor: how many bytes a block of how many elements takes. Every
/// type is known here, also those that Phobos cannot run, so that any file can be
/// inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    id: u32,
    name: &'static str,
    block_elements: u32,
    block_bytes: u32,
}

const fn row(id: u32, name: &'static str, block_elements: u32, block_bytes: u32) -> TensorType {
    TensorType { id, name, block_elements, block_bytes }
}

impl TensorType {
    /// Every type, by id.
    pub const ALL: &[TensorType] = &[
        row(0, "F32", 1, 4),
        row(1, "F16", 1, 2),
        row(2, "Q4_0", 32, 18),
        row(3, "Q4_1", 32, 20),
        row(6, "Q5_0", 32, 22),
        row(7, "Q5_1", 32, 24),
        row(8, "Q8_0", 32, 34),
        row(9, "Q8_1", 32, 36),
        row(10, "Q2_K", 256, 84),
        row(11, "Q3_K", 256, 110),
        row(12, "Q4_K", 256, 144),
        row(13, "Q5_K", 256, 176),
        row(14, "Q6_K", 256, 210),
        row(15, "Q8_K", 256, 292),
        row(16, "IQ2_XXS", 256, 66),
        row(17, "IQ2_XS", 256, 74),
        row(18, "IQ3_XXS", 256, 98),
        row(19, "IQ1_S", 256, 50),
        row(20, "IQ4_NL", 32, 18),
        row(21, "IQ3_S", 256, 110),
        row(22, "IQ2_S", 256, 82),
        row(23, "IQ4_XS", 256, 136),
        row(24, "I8", 1, 1),
        row(25, "I16", 1, 2),
        row(26, "I32", 1, 4),
        row(27, "I64", 1, 8),
        row(28, "F64", 1, 8),
        row(29, "IQ1_M", 256, 56),
        row(30, "BF16", 1, 2),
        row(34, "TQ1_0", 256, 54),
        row(35, "TQ2_0", 256, 66),
        row(39, "MXFP4", 32, 17),
        row(40, "NVFP4", 64, 36),
        row(41, "Q1_0", 128, 18),
        row(42, "Q2_0", 64, 18),
        row(142, "PQ2_0", 128, 34),
        row(143, "PTQ1_0", 128, 28),
    ];

    /// The type with this id in a file; `None` when it is unknown or retired.
    pub fn from_id(id: u32) -> Option<TensorType> {
        TensorType::ALL.iter().copied().find(|tensor_type| tensor_type.id == id)
    }

    /// The id in a file.
    pub fn id(self) -> u32 {
        self.id
    }

    /// The name, as ggml spells it in upper case.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Elements of one block along a row; 1 for scalars.
    pub fn block_elements(self) -> u64 {
        self.block_elements.into()
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> u64 {
        self.block_bytes.into()
    }

    /// The element that kernels see, or `None` when Phobos cannot run the type.
    pub fn element(self) -> Option<Element> {
        match self.name {
            "F32" => Some(Element::Scalar(DType::F32)),
            "F16" => Some(Element::Scalar(DType::F16)),
            "BF16" => Some(Element::Scalar(DType::Bf16)),
            _ => format::by_ggml_type(self.id).map(Element::Block),
        }
    }

    /// The names of the types that Phobos can run, for messages.
    pub(crate) fn runnable() -> String {
        let names: Vec<&str> = TensorType::ALL
            .iter()
            .filter(|tensor_type| tensor_type.element().is_some())
            .map(|tensor_type| tensor_type.name)
            .collect();
        names.join(", ")
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_runs_has_the_block_of_its_element() {
        let mut formats = 0;
        for tensor_type in TensorType::ALL {
            let Some(element) = tensor_type.element() else { continue };
            assert_eq!(element.block_elements() as u64, tensor_type.block_elements(), "{tensor_type}");
            assert_eq!(element.block_bytes() as u64, tensor_type.block_bytes(), "{tensor_type}");
            assert_eq!(element.name(), tensor_type.name().to_lowercase());
            formats += usize::from(matches!(element, Element::Block(_)));
        }
        assert_eq!(formats, format::ALL.len(), "a format has a type id that is not in the table");
    }

    #[test]
    fn ids_ascend_and_retired_ids_are_unknown() {
        assert!(TensorType::ALL.windows(2).all(|pair| pair[0].id < pair[1].id));
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 43, 141, 144, u32::MAX] {
            assert_eq!(TensorType::from_id(id), None, "{id}");
        }
        assert_eq!(TensorType::from_id(143).map(TensorType::name), Some("PTQ1_0"));
    }
}
