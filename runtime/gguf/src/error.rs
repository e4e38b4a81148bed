//! What can be wrong with a GGUF file, always with file, place and limit.

use std::io;

use crate::{MAX_ARRAY_DEPTH, MAX_NAME_BYTES};

/// Why a GGUF file was refused. `Display` is one line, without `error:`.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file cannot be opened, mapped or read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file breaks a rule of the format or a limit of this reader.
    #[error("{file}: at byte {offset}: {field}: {fault}")]
    Malformed {
        /// The file.
        file: String,
        /// Where in the file the field is.
        offset: u64,
        /// The field, such as `tensor count`.
        field: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// One part of a split file that is not the first, which has the metadata.
    #[error("{file}: part {part} of {count} of a split file: give the first, {first}")]
    NotFirstPart {
        /// The file.
        file: String,
        /// Which part it is, from 1.
        part: u64,
        /// How many there are.
        count: u64,
        /// The first one's name.
        first: String,
    },
    /// The first part of a split file whose other parts cannot be had.
    #[error("{file}: the first of the {count} parts of a split file: {problem}")]
    Split {
        /// The file.
        file: String,
        /// How many there are.
        count: u64,
        /// What is wrong with another part, or with their number.
        problem: String,
    },
    /// The metadata lacks a key that the caller needs.
    #[error("{file}: metadata key `{key}`: wanted {wanted}, found no such key")]
    MissingKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// What the caller asked for.
        wanted: String,
    },
    /// A metadata value is of another kind, or out of range, for what the caller needs.
    #[error("{file}: at byte {offset}: metadata key `{key}`: wanted {wanted}, found {found}")]
    WrongValue {
        /// The file.
        file: String,
        /// Where in the file the value is.
        offset: u64,
        /// The key.
        key: String,
        /// What the caller asked for.
        wanted: String,
        /// The value in the file.
        found: String,
    },
    /// The file has no tensor of this name.
    #[error("{file}: tensor `{tensor}`: not found among the {count} of the file")]
    MissingTensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// How many tensors the file has.
        count: usize,
    },
    /// Phobos has no kernels for the tensor's type.
    #[error(
        "{file}: at byte {offset}: tensor `{tensor}`: wanted one of {supported}, found the type {found}, \
         which Phobos cannot run"
    )]
    UnsupportedType {
        /// The file.
        file: String,
        /// Where in the file the tensor's entry is.
        offset: u64,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: &'static str,
        /// The types that can be run.
        supported: String,
    },
}

/// What is wrong with one field of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file does not start with the magic; holds the bytes it starts with, escaped.
    #[error("wanted \"GGUF\", found \"{0}\": not a GGUF file")]
    NotGguf(String),
    /// A version with another layout.
    #[error("wanted 2 or 3 (little endian), found {0}")]
    Version(u32),
    /// The bytes of every number are in the other order; holds the version.
    #[error("wanted 2 or 3, found {0} in big-endian order: convert the file to little endian")]
    BigEndian(u32),
    /// The field, or what it describes, reaches past the end of the file.
    #[error("needs {needs} bytes, file has {has}")]
    Truncated {
        /// The size the file would need, saturated at `u64::MAX`.
        needs: u64,
        /// The size it has.
        has: u64,
    },
    /// A count for which the rest of the file is too small.
    #[error("wanted at most {limit} ({left} bytes are left, each takes {each} or more), found {count}")]
    Count {
        /// The count in the file.
        count: u64,
        /// The bytes from here to the end of the file.
        left: u64,
        /// The fewest bytes that one can take.
        each: u64,
        /// How many fit.
        limit: u64,
    },
    /// More keys or tensors than this reader takes.
    #[error("wanted at most {limit}, found {count}")]
    TooMany {
        /// The count in the file.
        count: u64,
        /// The limit of this reader.
        limit: u64,
    },
    /// A key or tensor name over the limit.
    #[error("wanted at most {MAX_NAME_BYTES}, found {0}")]
    NameLength(u64),
    /// A key or tensor name that is not UTF-8; holds its escaped start.
    #[error("wanted UTF-8, found \"{0}\"")]
    NotUtf8(String),
    /// An unknown metadata type.
    #[error("wanted a value type from 0 to 12, found {0}")]
    ValueType(u32),
    /// A bool that is neither 0 nor 1.
    #[error("wanted a bool of 0 or 1, found {0}")]
    Bool(u8),
    /// Arrays inside arrays beyond the limit.
    #[error("wanted at most {MAX_ARRAY_DEPTH} levels of arrays, found more")]
    ArrayDepth,
    /// A key or tensor name that occurs twice.
    #[error("wanted each name once, found it also at byte {first}")]
    Duplicate {
        /// Where it occurs first.
        first: u64,
    },
    /// An alignment that is not a u32 power of two; holds the value.
    #[error("wanted a u32 that is a power of two, found {0}")]
    Alignment(String),
    /// Too many dimensions.
    #[error("wanted at most 4 dims, found {0}")]
    Dimensions(u32),
    /// The product of the dimensions, or the size in bytes, is not representable.
    #[error("element count overflows: wanted at most 2^63 - 1 elements and bytes, found dims {0}")]
    ElementCount(String),
    /// A tensor type that is unknown or retired.
    #[error("wanted a known tensor type, found {0}")]
    TensorType(u32),
    /// Rows that are not a whole number of blocks.
    #[error("wanted rows of a multiple of {block} elements for type {name}, found {row}")]
    Row {
        /// Elements of a row (ggml `ne[0]`).
        row: u64,
        /// Elements of a block.
        block: u64,
        /// The tensor type.
        name: &'static str,
    },
    /// A tensor that is not aligned in the data section.
    #[error("wanted a multiple of the alignment {alignment}, found {offset}")]
    Misaligned {
        /// The tensor's offset in the data section.
        offset: u64,
        /// The alignment of the file.
        alignment: u64,
    },
    /// Two tensors that share bytes.
    #[error("wanted bytes of its own, found bytes {start}..{end} overlap those of tensor `{other}`")]
    Overlap {
        /// The first byte in the file.
        start: u64,
        /// One past the last byte in the file.
        end: u64,
        /// The other tensor, escaped.
        other: String,
    },
}
