//! Where the bytes of a file come from: a map, or a read into memory.

// The map and giving back its pages are the only unsafe operations of this crate.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::Path,
    sync::Arc,
};

/// Bytes that a device may hold on to after the file is closed.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Map the file instead of reading it into memory: loading costs no copy, and
    /// the file must not change while it is mapped (see the crate's documentation).
    pub mmap: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { mmap: true }
    }
}

/// The alignment of the first byte of a file that was read into memory, so that
/// tensors are aligned as they are in a map, up to a cache line.
const READ_ALIGNMENT: usize = 64;

/// The content of a file, its first byte aligned to [`READ_ALIGNMENT`].
struct AlignedBytes {
    buffer: Vec<u8>,
    start: usize,
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }
}

/// The bytes of an opened file.
#[derive(Clone)]
pub(crate) struct Source {
    pub bytes: SharedBytes,
    /// The map behind them, if they are mapped.
    map: Option<Arc<memmap2::Mmap>>,
}

impl Source {
    /// Bytes in memory.
    pub(crate) fn memory(bytes: SharedBytes) -> Source {
        Source { bytes, map: None }
    }

    /// Lets the system take back the pages of a range. They are read from the file again
    /// when they are next used, so a failure costs memory and nothing else.
    pub(crate) fn release(&self, range: Range<usize>) {
        let Some(map) = &self.map else { return };
        if range.end > map.len() || range.is_empty() {
            return;
        }
        // SAFETY: the map is of a file and never written: its pages hold nothing that the
        // file does not.
        let advised = unsafe {
            map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
        };
        drop(advised);
    }
}

/// Maps or reads the regular file at `path`.
pub(crate) fn open(path: &Path, options: OpenOptions) -> io::Result<Source> {
    // Checked before opening: opening a named pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "wanted a regular file, found something else",
        ));
    }
    let file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len())
        .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "file does not fit the address space"))?;
    if options.mmap { map(&file) } else { read(file, length) }
}

/// A map that is shared with those who release its pages.
struct Mapped(Arc<memmap2::Mmap>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn map(file: &File) -> io::Result<Source> {
    // SAFETY: the map is read-only and private to this process, and this crate hands
    // out nothing but shared slices of it. What remains is that another process
    // changes or truncates the file meanwhile; that cannot be prevented here, so it
    // is a documented requirement on whoever asks for a map, with
    // `OpenOptions { mmap: false }` as the way out.
    let map = Arc::new(unsafe { memmap2::Mmap::map(file)? });
    Ok(Source { bytes: Arc::new(Mapped(map.clone())), map: Some(map) })
}

fn read(file: File, length: usize) -> io::Result<Source> {
    let too_large = || {
        io::Error::new(io::ErrorKind::OutOfMemory, format!("cannot allocate the {length} bytes of the file"))
    };
    let capacity = length.checked_add(READ_ALIGNMENT).ok_or_else(too_large)?;
    let mut buffer: Vec<u8> = Vec::new();
    buffer.try_reserve_exact(capacity).map_err(|_| too_large())?;
    // The buffer never grows again, so the address it has now stays.
    let start = buffer.as_ptr().align_offset(READ_ALIGNMENT).min(READ_ALIGNMENT);
    buffer.resize(start, 0);
    file.take(length as u64).read_to_end(&mut buffer)?;
    if buffer.len() - start < length {
        let found = buffer.len() - start;
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("needs {length} bytes, file has {found}: it was cut while it was read"),
        ));
    }
    Ok(Source::memory(Arc::new(AlignedBytes { buffer, start })))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_map_and_a_read_give_the_same_aligned_bytes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&content).unwrap();
        for mmap in [true, false] {
            let source = open(file.path(), OpenOptions { mmap }).unwrap();
            let bytes: &[u8] = (*source.bytes).as_ref();
            assert!(bytes == content, "mmap {mmap}");
            source.release(100..9_000);
            assert!(bytes == content, "released, mmap {mmap}");
            assert_eq!(bytes.as_ptr() as usize % READ_ALIGNMENT, 0, "mmap {mmap}");
        }
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused() {
        for path in ["/", "/dev/zero"] {
            for mmap in [true, false] {
                let error = open(Path::new(path), OpenOptions { mmap }).err().unwrap();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
            }
        }
    }

    #[test]
    fn a_file_that_shrank_since_it_was_measured_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        let error = read(file.reopen().unwrap(), 9).err().unwrap();
        assert!(error.to_string().starts_with("needs 9 bytes, file has 5"), "{error}");
    }
}
