//! The tensors of a file, against what a graph expects.

use std::{collections::BTreeSet, fmt::Display, ops::Range};

use phobos_artifact::{DType, Element};
use phobos_device::{Device, Tensor};
use phobos_gguf::GgufFile;

use crate::ModelError;

/// A tensor of the file that the graph uses.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    /// Its element.
    pub element: Element,
    shape: Vec<u64>,
    bytes: Range<usize>,
}

impl Weight {
    /// The tensor on `device`, imported from the file's bytes.
    pub fn import(&self, file: &GgufFile, device: &dyn Device) -> Result<Tensor, ModelError> {
        let buffer = device.import(file.shared_bytes(), self.bytes.clone())?;
        Ok(Tensor::of(&buffer, self.element, self.shape.clone())?)
    }

    /// The values of a vector of f32.
    pub fn read(&self, file: &GgufFile) -> Result<Vec<f32>, ModelError> {
        let bytes = file.bytes().get(self.bytes.clone()).unwrap_or_default();
        let (values, _) = bytes.as_chunks::<4>();
        Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }
}

/// Finds the tensors of a graph in a file, and knows which were left over.
pub(crate) struct Catalogue<'a> {
    file: &'a GgufFile,
    used: BTreeSet<String>,
}

impl<'a> Catalogue<'a> {
    pub fn new(file: &'a GgufFile) -> Catalogue<'a> {
        Catalogue { file, used: BTreeSet::new() }
    }

    /// Whether the file has this tensor.
    pub fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// A matrix [rows, columns] in any element that kernels take.
    pub fn matrix(&mut self, name: &str, rows: u64, columns: u64) -> Result<Weight, ModelError> {
        self.find(name, &[rows, columns])
    }

    /// A vector of f32.
    pub fn vector(&mut self, name: &str, length: u64) -> Result<Weight, ModelError> {
        let weight = self.find(name, &[length])?;
        match weight.element {
            Element::Scalar(DType::F32) => Ok(weight),
            other => Err(self.error(name, format!("is {other}, expected f32"))),
        }
    }

    fn find(&mut self, name: &str, shape: &[u64]) -> Result<Weight, ModelError> {
        let tensor = self.file.require_tensor(name)?;
        let found = tensor.rows_shape();
        if found != shape {
            let problem = format!("has shape {found:?}, the metadata implies {shape:?} (outermost first)");
            return Err(self.error(name, problem));
        }
        let element = tensor.element()?;
        self.used.insert(name.to_owned());
        Ok(Weight { element, shape: found, bytes: tensor.range.clone() })
    }

    /// Checks that no tensor is left: one that the graph does not know would change the
    /// model's answer if it were ignored.
    pub fn finish(self) -> Result<(), ModelError> {
        for tensor in self.file.tensors() {
            let name = tensor.name.as_str();
            // Frequencies that old converters stored; they follow from the metadata.
            let derived = name.ends_with(".attn_rot_embd") || name.ends_with(".rotary_emb.inv_freq");
            if derived || self.used.contains(name) {
                continue;
            }
            let problem = match name.rsplit_once('.') {
                Some((_, "bias")) => "biases are not supported in this architecture",
                _ if name.contains("attn_qkv") => "fused query, key and value weights are not supported",
                _ if name.contains("_exps.") => "experts are not supported in this architecture",
                _ => "is no part of this architecture's graph",
            };
            return Err(self.error(name, problem));
        }
        Ok(())
    }

    fn error(&self, name: &str, problem: impl Display) -> ModelError {
        ModelError::Tensor {
            file: self.file.name().to_owned(),
            name: name.escape_debug().to_string(),
            problem: problem.to_string(),
        }
    }
}
