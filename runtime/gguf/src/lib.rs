//! A safe GGUF reader: header, metadata and tensor directory of GGUF version 2
//! and 3, little endian. Source: the GGUF specification in the `ggml` repository
//! (`docs/gguf.md`) and the files that the PyPI package `gguf` writes.
//!
//! A file is input from a stranger. Every length and count is checked against the
//! bytes that are left before anything is allocated for it, all arithmetic on
//! sizes is checked, and every error is one line with the file, the byte offset,
//! the field, what was wanted and what was found; text from the file is escaped
//! and cut in messages. Arrays (token lists) are validated once and then read in
//! place, so that loading costs no copy of them.
//!
//! A file may be split into parts, `NAME-00001-of-00003.gguf` and so on, the first of which
//! has the metadata. [`GgufFile::open`] joins them.
//!
//! # What is accepted
//! - A tensor of zero dimensions is a scalar: one element, shape `[]`.
//! - A dimension of zero makes an empty tensor: no bytes, and its offset need only
//!   be aligned.
//! - More than four dimensions, an element count over `i64::MAX`, a row that is
//!   not a whole number of blocks, overlapping tensors, repeated keys or names,
//!   more than [`MAX_ENTRIES`] keys or tensors, and arrays nested deeper than
//!   [`MAX_ARRAY_DEPTH`] are errors.
//! - Keys and tensor names are UTF-8 of at most [`MAX_NAME_BYTES`]; other strings
//!   are bytes.
//!
//! # A file that is cut while it is mapped
//! [`GgufFile::open`] maps the file unless told otherwise. A file that another
//! process truncates while it is mapped makes the next read of the lost pages
//! raise SIGBUS, which ends the process; one that is rewritten in place changes
//! the weights. Nothing in this crate can prevent either. Where files may change
//! under a running process, open with `OpenOptions { mmap: false }` (`--no-mmap`
//! on the command line): the file is then read into memory before it is parsed.
//! Those bytes stay until the file is closed: [`GgufFile::release`] gives back pages of a map
//! only, since the bytes of a read could not be had again. A model whose weights are copied
//! to a device takes twice its size while it loads.

mod decode;
mod error;
mod escape;
mod file;
mod inspect;
mod metadata;
mod reader;
mod source;
mod split;
mod tensor;
mod tensor_type;
mod value;

pub use decode::{DecodeError, dequantize};
pub use error::{Fault, GgufError};
pub use file::{GgufFile, MAX_ENTRIES};
pub use inspect::{render_json, render_text};
pub use metadata::{FromValue, Metadata, PerLayer};
pub use reader::MAX_NAME_BYTES;
pub use source::{OpenOptions, SharedBytes};
pub use tensor::TensorInfo;
pub use tensor_type::TensorType;
pub use value::{Array, ArrayIter, MAX_ARRAY_DEPTH, Value, ValueType};
