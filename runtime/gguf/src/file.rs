//! A parsed GGUF file.

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    fmt,
    path::Path,
    sync::Arc,
};

use crate::{
    error::{Fault, GgufError},
    escape::{MESSAGE_LIMIT, escaped},
    metadata::{KeyTable, Metadata},
    reader::Cursor,
    source::{self, OpenOptions, SharedBytes, Source},
    split,
    tensor::{self, Entry, TensorInfo},
    value::Value,
};

/// The most metadata keys, and the most tensors, of a file. The largest published
/// models have a few thousand tensors.
pub const MAX_ENTRIES: u64 = 1 << 16;

const MAGIC: [u8; 4] = *b"GGUF";
const DEFAULT_ALIGNMENT: u32 = 32;
const ALIGNMENT_KEY: &str = "general.alignment";

/// A GGUF file: metadata, tensor directory, and the bytes they point into.
pub struct GgufFile {
    name: Arc<str>,
    source: Source,
    /// The parts of a split file behind the first.
    others: Vec<Source>,
    version: u32,
    alignment: u32,
    data_start: u64,
    keys: KeyTable,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl GgufFile {
    /// Opens and parses the file at `path`, with the parts beside it when it is the first of a
    /// split file.
    ///
    /// # Errors
    /// [`GgufError::NotFirstPart`] and [`GgufError::Split`], otherwise as
    /// [`GgufFile::open_part`].
    pub fn open(path: &Path, options: OpenOptions) -> Result<GgufFile, GgufError> {
        let mut file = GgufFile::open_part(path, options)?;
        split::join(&mut file, path, options)?;
        Ok(file)
    }

    /// Opens and parses the file at `path` alone, be it a part of another or not.
    ///
    /// # Errors
    /// [`GgufError::Io`] when the file cannot be read or is not a regular file,
    /// otherwise as [`GgufFile::parse`].
    pub fn open_part(path: &Path, options: OpenOptions) -> Result<GgufFile, GgufError> {
        let name = path.to_string_lossy();
        let source = source::open(path, options)
            .map_err(|source| GgufError::Io { file: shown_name(&name), source })?;
        GgufFile::parse_source(&name, source)
    }

    /// Parses `bytes`, which messages call `name`.
    ///
    /// # Errors
    /// [`GgufError::Malformed`], with the offset and the field.
    pub fn parse(name: &str, bytes: SharedBytes) -> Result<GgufFile, GgufError> {
        GgufFile::parse_source(name, Source::memory(bytes))
    }

    fn parse_source(name: &str, source: Source) -> Result<GgufFile, GgufError> {
        let name: Arc<str> = shown_name(name).into();
        let content: &[u8] = (*source.bytes).as_ref();
        let mut cursor = Cursor::new(&name, content);

        read_magic(&mut cursor)?;
        let version = cursor.u32(format_args!("version"))?;
        if !(2..=3).contains(&version) {
            let fault = match version.swap_bytes() {
                swapped @ 1..=3 => Fault::BigEndian(swapped),
                _ => Fault::Version(version),
            };
            return Err(cursor.error(4, format_args!("version"), fault));
        }
        let tensor_count = read_count(&mut cursor, tensor::LEAST_ENTRY_BYTES, "tensor count")?;
        let key_count = read_count(&mut cursor, KeyTable::LEAST_ENTRY_BYTES, "metadata count")?;

        let keys = KeyTable::read(&mut cursor, key_count)?;
        let alignment = read_alignment(&cursor, &keys)?;

        let mut entries: Vec<Entry> = Vec::new();
        let mut by_name: HashMap<String, usize> = HashMap::new();
        for index in 0..tensor_count {
            let entry = Entry::read(&mut cursor, index)?;
            match by_name.entry(entry.name.clone()) {
                MapEntry::Vacant(vacant) => {
                    vacant.insert(entries.len());
                }
                MapEntry::Occupied(earlier) => {
                    let first = entries.get(*earlier.get()).map_or(0, |first| first.entry_offset as u64);
                    let shown = escaped(entry.name.as_bytes(), MESSAGE_LIMIT);
                    let fault = Fault::Duplicate { first };
                    return Err(cursor.error(
                        entry.entry_offset,
                        format_args!("tensor name `{shown}`"),
                        fault,
                    ));
                }
            }
            entries.push(entry);
        }

        let data_start = (cursor.position() as u64).next_multiple_of(u64::from(alignment));
        let tensors = entries
            .into_iter()
            .map(|entry| entry.place(&cursor, &name, data_start, u64::from(alignment)))
            .collect::<Result<Vec<TensorInfo>, GgufError>>()?;
        tensor::check_overlap(&cursor, &tensors)?;

        let others = Vec::new();
        Ok(GgufFile { name, source, others, version, alignment, data_start, keys, tensors, by_name })
    }

    /// The name in messages: the path it was opened with, escaped.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the layout: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The alignment of the data section and of each tensor in it, in bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Where the data section starts in the file.
    pub fn data_start(&self) -> u64 {
        self.data_start
    }

    /// All bytes of the file, of a split one those of its first part.
    pub fn bytes(&self) -> &[u8] {
        (*self.source.bytes).as_ref()
    }

    /// All bytes of a part of the file, to be lent to a device together with the range of a
    /// tensor of that part.
    pub fn shared_bytes(&self, part: usize) -> SharedBytes {
        Arc::clone(&self.part(part).bytes)
    }

    /// All bytes of a part of the file.
    pub fn part_bytes(&self, part: usize) -> &[u8] {
        (*self.part(part).bytes).as_ref()
    }

    /// Gives back the memory of a range of a part of a mapped file, which is read again when it
    /// is next used: for tensors that a device has its own copy of.
    pub fn release(&self, part: usize, range: std::ops::Range<usize>) {
        self.part(part).release(range);
    }

    /// A part; the first for a number that no tensor has.
    fn part(&self, part: usize) -> &Source {
        part.checked_sub(1).and_then(|other| self.others.get(other)).unwrap_or(&self.source)
    }

    /// Takes the tensors of the next part; the name of one that is there already is the error.
    pub(crate) fn append(&mut self, part: GgufFile) -> Result<(), String> {
        self.others.push(part.source);
        for mut tensor in part.tensors {
            tensor.part = self.others.len();
            if self.by_name.insert(tensor.name.clone(), self.tensors.len()).is_some() {
                return Err(tensor.name);
            }
            self.tensors.push(tensor);
        }
        Ok(())
    }

    /// The metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.name, self.bytes(), &self.keys)
    }

    /// Every tensor, in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`, for tensors that a model may lack.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(*self.by_name.get(name)?)
    }

    /// The tensor called `name`, for tensors that a model must have.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`].
    pub fn require_tensor(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        self.tensor(name).ok_or_else(|| GgufError::MissingTensor {
            file: self.name.to_string(),
            tensor: escaped(name.as_bytes(), MESSAGE_LIMIT).to_string(),
            count: self.tensors.len(),
        })
    }

    /// The bytes of a tensor of this file.
    pub fn tensor_bytes(&self, tensor: &TensorInfo) -> &[u8] {
        // Within the file since it was parsed.
        self.part_bytes(tensor.part).get(tensor.range.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for GgufFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GgufFile")
            .field("name", &self.name)
            .field("keys", &self.keys.len())
            .field("tensors", &self.tensors.len())
            .finish_non_exhaustive()
    }
}

/// A file name as messages show it: on one line, but never cut.
fn shown_name(name: &str) -> String {
    escaped(name.as_bytes(), usize::MAX).to_string()
}

fn read_magic(cursor: &mut Cursor<'_>) -> Result<(), GgufError> {
    let start = cursor.bytes();
    let start = start.get(..MAGIC.len()).unwrap_or(start);
    if start != MAGIC {
        let fault = Fault::NotGguf(escaped(start, MAGIC.len()).to_string());
        return Err(cursor.error(0, format_args!("magic"), fault));
    }
    cursor.skip(MAGIC.len() as u64, 0, format_args!("magic"))?;
    Ok(())
}

fn read_count(cursor: &mut Cursor<'_>, each: u64, field: &str) -> Result<u64, GgufError> {
    let offset = cursor.position();
    let count = cursor.count(each, format_args!("{field}"))?;
    if count > MAX_ENTRIES {
        let fault = Fault::TooMany { count, limit: MAX_ENTRIES };
        return Err(cursor.error(offset, format_args!("{field}"), fault));
    }
    Ok(count)
}

fn read_alignment(cursor: &Cursor<'_>, keys: &KeyTable) -> Result<u32, GgufError> {
    let Some((offset, value)) = keys.find(ALIGNMENT_KEY, cursor.bytes()) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    match value {
        Value::U32(alignment) if alignment.is_power_of_two() => Ok(alignment),
        other => {
            let fault = Fault::Alignment(other.to_string());
            Err(cursor.error(offset, format_args!("metadata key `{ALIGNMENT_KEY}`"), fault))
        }
    }
}
