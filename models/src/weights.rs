//! The tensors of a file, against what a graph expects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use phobos_artifact::{
    DType, Element,
    format::{Format, GROUP_ROWS},
};
use phobos_device::{Device, Piece, Tensor, Wanted};
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
    /// The values of a vector of f32.
    pub fn read(&self, file: &GgufFile) -> Result<Vec<f32>, ModelError> {
        let bytes = file.bytes().get(self.bytes.clone()).unwrap_or_default();
        let (values, _) = bytes.as_chunks::<4>();
        Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }

    fn way(&self) -> Way {
        match (self.element, &self.shape[..]) {
            (Element::Block(format), [_, columns]) => {
                Way::Reorder { format, blocks: *columns as usize / format.elements }
            }
            (_, [_]) => Way::Copy,
            _ => Way::Import,
        }
    }

    fn key(&self) -> (usize, usize) {
        (self.bytes.start, self.bytes.end)
    }
}

/// How a tensor comes to a device.
#[derive(Clone, Copy)]
enum Way {
    /// A matrix of a block format, reordered into the device layout.
    Reorder { format: &'static Format, blocks: usize },
    /// A vector: so little that it shall not keep the file open.
    Copy,
    /// A matrix of scalars, which the host takes from the file's bytes in place.
    Import,
}

impl Way {
    /// The bytes that are only written together.
    fn group_bytes(self) -> usize {
        match self {
            Way::Reorder { format, blocks } => (GROUP_ROWS * blocks * format.bytes).max(1),
            Way::Copy | Way::Import => 1,
        }
    }
}

/// The weights of a graph on a device.
pub(crate) struct Loaded {
    tensors: BTreeMap<(usize, usize), Tensor>,
}

impl Loaded {
    /// Puts `weights` on `device`. What is copied is copied by several threads, a part at a
    /// time, and the pages of the file that a part was read from are given back at once: so
    /// no more of the file is in memory than the parts at work. `progress` gets the bytes
    /// done and wanted, on any thread.
    pub fn new(
        file: &GgufFile,
        device: &dyn Device,
        weights: &[Weight],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Loaded, ModelError> {
        let mut tensors = BTreeMap::new();
        let (imported, mut copied): (Vec<&Weight>, Vec<&Weight>) =
            weights.iter().partition(|weight| matches!(weight.way(), Way::Import));
        for weight in imported {
            let buffer = device.import(file.shared_bytes(), weight.bytes.clone())?;
            tensors.insert(weight.key(), Tensor::of(&buffer, weight.element, weight.shape.clone())?);
        }

        // In the order of the file, which is read once from front to back.
        copied.sort_by_key(|weight| weight.key());
        copied.dedup_by_key(|weight| weight.key());
        let wanted = |weight: &&Weight| Wanted {
            // A tensor that lies in a file has a size; padded to whole groups it may not.
            bytes: weight.element.device_bytes(&weight.shape).unwrap_or(u64::MAX),
            unit: weight.way().group_bytes() as u64,
        };
        let wanted: Vec<Wanted> = copied.iter().map(wanted).collect();
        let total = copied.iter().map(|weight| weight.bytes.len() as u64).sum();
        let done = AtomicU64::new(0);
        let count = |bytes: u64| progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
        let mut outcome = Ok(());
        let buffers = device.allocate_filled(&wanted, &mut |pieces| {
            if outcome.is_ok() {
                outcome = copy(file, parts(file, &copied, pieces), &count);
            }
        })?;
        outcome?;
        for (weight, buffer) in copied.iter().zip(&buffers) {
            tensors.insert(weight.key(), Tensor::of(buffer, weight.element, weight.shape.clone())?);
        }
        Ok(Loaded { tensors })
    }

    /// One of the weights.
    pub fn tensor(&self, weight: &Weight) -> Result<Tensor, ModelError> {
        let tensor = self.tensors.get(&weight.key()).cloned();
        tensor.ok_or(ModelError::MissingWeight { start: weight.bytes.start })
    }
}

/// How many bytes are copied before their pages are given back.
const PART_BYTES: usize = 1 << 20;
/// How many neighbouring bytes one thread takes: two huge pages, so that few are touched
/// first, and filled with zeros, by two threads at once.
const RUN_BYTES: usize = 4 << 20;

/// Rows of a tensor to be copied.
struct Part<'a> {
    way: Way,
    /// Where they are in the file.
    range: Range<usize>,
    source: &'a [u8],
    target: &'a mut [u8],
}

impl Part<'_> {
    fn copy(self) -> Result<(), ModelError> {
        match self.way {
            Way::Reorder { format, blocks } => {
                let rows = self.source.len() / (blocks * format.bytes).max(1);
                format.to_device(rows, blocks, self.source, self.target)?;
            }
            Way::Copy | Way::Import => {
                for (target, source) in self.target.iter_mut().zip(self.source) {
                    *target = *source;
                }
            }
        }
        Ok(())
    }
}

/// Pieces of the tensors in parts of about [`PART_BYTES`], and these in runs of about
/// [`RUN_BYTES`].
fn parts<'a>(file: &'a GgufFile, weights: &[&Weight], pieces: Vec<Piece<'a>>) -> Vec<Vec<Part<'a>>> {
    let mut runs = Vec::new();
    let (mut run, mut run_bytes) = (Vec::new(), 0);
    for Piece { index, offset, bytes: target } in pieces {
        let Some(weight) = weights.get(index) else { continue };
        let way = weight.way();
        // A group has as many bytes in the file as on the device, but for the last, which is
        // padded there; a piece begins with a group.
        let first = weight.bytes.start.saturating_add(offset as usize).min(weight.bytes.end);
        let end = first.saturating_add(target.len()).min(weight.bytes.end);
        let source = file.bytes().get(first..end).unwrap_or_default();
        let group = way.group_bytes();
        let size = (PART_BYTES / group).max(1) * group;
        for (index, (source, target)) in source.chunks(size).zip(target.chunks_mut(size)).enumerate() {
            let start = first + index * size;
            run.push(Part { way, range: start..start + source.len(), source, target });
            run_bytes += source.len();
            if run_bytes >= RUN_BYTES {
                runs.push(std::mem::take(&mut run));
                run_bytes = 0;
            }
        }
    }
    runs.push(run);
    runs
}

/// Copies every part. `count` gets the bytes of each, on any thread.
fn copy(file: &GgufFile, runs: Vec<Vec<Part<'_>>>, count: &(dyn Fn(u64) + Sync)) -> Result<(), ModelError> {
    let all = || runs.iter().flatten().map(|part| &part.range);
    let ends = (all().map(|range| range.start).min(), all().map(|range| range.end).max());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    let queue = Mutex::new(runs.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Result<(), ModelError> {
        while let Some(run) = next() {
            for part in run {
                let range = part.range.clone();
                part.copy()?;
                let bytes = range.len() as u64;
                file.release(range);
                count(bytes);
            }
        }
        Ok(())
    };
    let outcome = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut outcome = work();
        for other in others {
            match other.join() {
                Ok(other) => outcome = outcome.and(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        outcome
    });
    // Reading at one page maps its neighbours too, those that were given back among them.
    if let (Some(start), Some(end)) = ends {
        file.release(start..end);
    }
    outcome
}

/// Finds the tensors of a graph in a file, and knows which were left over.
pub(crate) struct Catalogue<'a> {
    file: &'a GgufFile,
    used: BTreeSet<String>,
    found: Vec<Weight>,
}

impl<'a> Catalogue<'a> {
    pub fn new(file: &'a GgufFile) -> Catalogue<'a> {
        Catalogue { file, used: BTreeSet::new(), found: Vec::new() }
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
        let weight = Weight { element, shape: found, bytes: tensor.range.clone() };
        self.found.push(weight.clone());
        Ok(weight)
    }

    /// Every tensor that was found. Checks that none is left: one that the graph does not know
    /// would change the model's answer if it were ignored.
    pub fn finish(self) -> Result<Vec<Weight>, ModelError> {
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
        Ok(self.found)
    }

    fn error(&self, name: &str, problem: impl Display) -> ModelError {
        ModelError::Tensor {
            file: self.file.name().to_owned(),
            name: name.escape_debug().to_string(),
            problem: problem.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write, process::Command};

    use phobos_device::HostDevice;
    use phobos_gguf::OpenOptions;

    use super::*;

    /// Tells a person, and `cargo xtask test`, that a test did not run.
    fn skip(test: &str, reason: &str) {
        eprintln!("SKIP: {test}: {reason}");
        if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
            let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
            writeln!(log, "SKIP: {test}: {reason}").unwrap();
        }
    }

    /// A file with tensors of zeros: name, rows, columns, GGUF type and bytes of each.
    fn file_of_zeros(tensors: &[(&str, u64, u64, u32, u64)]) -> tempfile::NamedTempFile {
        let mut head = b"GGUF\x03\0\0\0".to_vec();
        head.extend((tensors.len() as u64).to_le_bytes());
        head.extend(0u64.to_le_bytes());
        let mut offset = 0u64;
        for (name, rows, columns, ggml_type, bytes) in tensors {
            head.extend((name.len() as u64).to_le_bytes());
            head.extend(name.as_bytes());
            head.extend(2u32.to_le_bytes());
            head.extend([columns.to_le_bytes(), rows.to_le_bytes()].concat());
            head.extend(ggml_type.to_le_bytes());
            head.extend(offset.to_le_bytes());
            offset += bytes.next_multiple_of(32);
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&head).unwrap();
        File::set_len(file.as_file(), (head.len() as u64).next_multiple_of(32) + offset).unwrap();
        file
    }

    /// The most memory that this process has had at once, in bytes.
    fn peak() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }

    /// A matrix that is most of its file takes its own size and no more: the file's pages go
    /// as it is copied. Measured in a process that does nothing else.
    #[test]
    fn the_file_is_not_in_memory_beside_its_copy() {
        const TEST: &str = "weights::tests::the_file_is_not_in_memory_beside_its_copy";
        const CHILD: &str = "PHOBOS_TEST_PEAK";
        // Of q8_0: 34 bytes for 32 elements.
        let (rows, columns) = (1u64 << 17, 1024);
        let bytes = rows * columns / 32 * 34;
        if std::env::var_os(CHILD).is_none() {
            if peak().is_none() {
                return skip(TEST, "/proc does not tell the peak of memory");
            }
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", TEST, "--nocapture"])
                .env(CHILD, "1")
                .output()
                .unwrap();
            assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
            return;
        }
        let path = file_of_zeros(&[("w", rows, columns, 8, bytes)]);
        let file = GgufFile::open(path.path(), OpenOptions::default()).unwrap();
        let mut from = Catalogue::new(&file);
        let weight = from.matrix("w", rows, columns).unwrap();
        let device = HostDevice::new(Some(1)).unwrap();
        let before = peak().unwrap();
        let done = AtomicU64::new(0);
        let progress = |now: u64, total: u64| {
            assert_eq!(total, bytes);
            done.fetch_max(now, Ordering::Relaxed);
        };
        let loaded = Loaded::new(&file, &device, &from.finish().unwrap(), &progress).unwrap();
        assert_eq!(loaded.tensor(&weight).unwrap().bytes().unwrap(), bytes);
        assert_eq!(done.into_inner(), bytes);
        // Each thread has one part of the file in memory, and there are many threads at most.
        let more = peak().unwrap() - before;
        assert!((bytes..bytes + bytes / 2).contains(&more), "{more} bytes for a matrix of {bytes}");
    }

    #[test]
    fn tensors_are_copied_whole_whatever_their_size() {
        let device = HostDevice::new(Some(1)).unwrap();
        // q4_0 (18 bytes a block) of 21 rows, f32 of 3 x 5, q8_0 over several runs.
        let large = 40_000u64;
        let tensors = [
            ("a", 21u64, 64u64, 2u32, 21 * 2 * 18u64),
            ("b", 3, 5, 0, 60),
            ("c", large, 160, 8, large * 5 * 34),
        ];
        let temporary = file_of_zeros(&tensors);
        let mut content = std::fs::read(temporary.path()).unwrap();
        let start = content.len() - tensors.iter().map(|t| t.4.next_multiple_of(32) as usize).sum::<usize>();
        for (index, byte) in content.iter_mut().enumerate().skip(start) {
            *byte = (index * 7 + index / 251) as u8;
        }
        std::fs::write(temporary.path(), &content).unwrap();
        for mmap in [true, false] {
            let file = GgufFile::open(temporary.path(), OpenOptions { mmap }).unwrap();
            let mut from = Catalogue::new(&file);
            let weights = tensors.map(|(name, rows, columns, ..)| from.matrix(name, rows, columns).unwrap());
            let loaded = Loaded::new(&file, &device, &from.finish().unwrap(), &|_, _| ()).unwrap();
            for weight in weights {
                let source = &content[weight.bytes.clone()];
                let expected = match weight.element {
                    Element::Block(format) => {
                        let rows = weight.shape[0] as usize;
                        let blocks = weight.shape[1] as usize / format.elements;
                        let bytes = format.device_matrix_bytes(rows as u64, blocks as u64).unwrap();
                        let mut expected = vec![0; bytes as usize];
                        format.to_device(rows, blocks, source, &mut expected).unwrap();
                        expected
                    }
                    Element::Scalar(_) => source.to_vec(),
                };
                let mut found = vec![0; expected.len()];
                let tensor = loaded.tensor(&weight).unwrap();
                device.read(&tensor.buffer, tensor.offset, &mut found).unwrap();
                assert!(found == expected, "{:?} mmap {mmap}", weight.element);
            }
        }
    }
}
