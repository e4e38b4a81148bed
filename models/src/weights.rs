//! The tensors of a file, against what a graph expects.

use std::{
    collections::BTreeSet,
    fmt::Display,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use phobos_artifact::{
    DType, Element,
    format::{Format, GROUP_ROWS},
};
use phobos_device::{Buffer, Device, Tensor};
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
    /// The tensor on `device`: scalars imported from the file's bytes, a matrix of a
    /// block format reordered into the device layout, after which its pages of the file
    /// are given back.
    pub fn import(&self, file: &GgufFile, device: &dyn Device) -> Result<Tensor, ModelError> {
        let buffer = match (self.element, &self.shape[..]) {
            (Element::Block(format), [rows, columns]) => {
                let blocks = *columns as usize / format.elements;
                let source = file.bytes().get(self.bytes.clone()).unwrap_or_default();
                let buffer = repack(format, *rows as usize, blocks, source, device)?;
                file.release(self.bytes.clone());
                buffer
            }
            _ => device.import(file.shared_bytes(), self.bytes.clone())?,
        };
        Ok(Tensor::of(&buffer, self.element, self.shape.clone())?)
    }

    /// The values of a vector of f32.
    pub fn read(&self, file: &GgufFile) -> Result<Vec<f32>, ModelError> {
        let bytes = file.bytes().get(self.bytes.clone()).unwrap_or_default();
        let (values, _) = bytes.as_chunks::<4>();
        Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }
}

/// How many bytes are reordered at a time by one thread.
const REPACK_BYTES: usize = 4 << 20;

/// A matrix in the device layout, made by several threads a few groups at a time.
fn repack(
    format: &'static Format,
    rows: usize,
    blocks: usize,
    source: &[u8],
    device: &dyn Device,
) -> Result<Buffer, ModelError> {
    let group_bytes = GROUP_ROWS * blocks * format.bytes;
    let bytes = rows.div_ceil(GROUP_ROWS) * group_bytes;
    let buffer = device.allocate(bytes as u64)?;
    let part = (REPACK_BYTES / group_bytes.max(1)).max(1) * group_bytes;
    let parts: Vec<(usize, &[u8])> = source.chunks(part.max(1)).enumerate().collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), ModelError> {
        while let Some((index, source)) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let rows = source.len() / (blocks * format.bytes);
            let mut reordered = vec![0; rows.div_ceil(GROUP_ROWS) * group_bytes];
            format.to_device(rows, blocks, source, &mut reordered)?;
            device.write(&buffer, (index * part) as u64, &reordered)?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(parts.len());
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for other in others {
            result = result.and(other.join().unwrap_or(Ok(())));
        }
        result
    })?;
    Ok(buffer)
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
