//! A bounds-checked little-endian cursor: each step names its field, so that an
//! error can say what was being read and where.

use std::{fmt, ops::Range};

use crate::{
    error::{Fault, GgufError},
    escape::{MESSAGE_LIMIT, escaped},
};

/// The longest key or tensor name, in bytes (the specification's limit for keys).
pub const MAX_NAME_BYTES: u64 = 65535;

/// A position in the bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of `bytes`, which errors attribute to `file`.
    pub(crate) fn new(file: &'a str, bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { file, bytes, at: 0 }
    }

    /// The offset of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// All bytes, from the start.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes from here to the end.
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// An error about `field` at `offset`.
    pub(crate) fn error(&self, offset: usize, field: fmt::Arguments<'_>, fault: Fault) -> GgufError {
        GgufError::Malformed {
            file: self.file.to_owned(),
            offset: offset as u64,
            field: field.to_string(),
            fault,
        }
    }

    fn truncated(&self, offset: usize, field: fmt::Arguments<'_>, len: u64) -> GgufError {
        let needs = (self.at as u64).saturating_add(len);
        self.error(offset, field, Fault::Truncated { needs, has: self.bytes.len() as u64 })
    }

    /// Skips `len` bytes and returns their range. An error is blamed on `offset`,
    /// where the length was read.
    pub(crate) fn skip(
        &mut self,
        len: u64,
        offset: usize,
        field: fmt::Arguments<'_>,
    ) -> Result<Range<usize>, GgufError> {
        if len > self.left() {
            return Err(self.truncated(offset, field, len));
        }
        let start = self.at;
        // `len` is at most the length of a slice, so it fits.
        self.at += len as usize;
        Ok(start..self.at)
    }

    /// The next `N` bytes.
    pub(crate) fn take<const N: usize>(&mut self, field: fmt::Arguments<'_>) -> Result<[u8; N], GgufError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(self.at, field, N as u64)),
        }
    }

    /// The next four bytes as a number.
    pub(crate) fn u32(&mut self, field: fmt::Arguments<'_>) -> Result<u32, GgufError> {
        self.take(field).map(u32::from_le_bytes)
    }

    /// The next eight bytes as a number.
    pub(crate) fn u64(&mut self, field: fmt::Arguments<'_>) -> Result<u64, GgufError> {
        self.take(field).map(u64::from_le_bytes)
    }

    /// A count of things that take at least `each` (not zero) bytes of the rest of
    /// the file. The rest is what follows the count.
    pub(crate) fn count(&mut self, each: u64, field: fmt::Arguments<'_>) -> Result<u64, GgufError> {
        let offset = self.at;
        let count = self.u64(field)?;
        self.check_count(count, each, offset, field)?;
        Ok(count)
    }

    /// The check of [`Cursor::count`] for a count that was read at `offset`.
    pub(crate) fn check_count(
        &self,
        count: u64,
        each: u64,
        offset: usize,
        field: fmt::Arguments<'_>,
    ) -> Result<(), GgufError> {
        let left = self.left();
        let limit = left / each;
        if count > limit {
            return Err(self.error(offset, field, Fault::Count { count, left, each, limit }));
        }
        Ok(())
    }

    /// A string: its length, then its bytes, whose range this returns.
    pub(crate) fn string(&mut self, field: fmt::Arguments<'_>) -> Result<Range<usize>, GgufError> {
        let offset = self.at;
        let length = self.u64(format_args!("{field} length"))?;
        self.skip(length, offset, format_args!("{field} length"))
    }

    /// A key or a tensor name: short UTF-8.
    pub(crate) fn name(&mut self, field: fmt::Arguments<'_>) -> Result<&'a str, GgufError> {
        let offset = self.at;
        let range = self.string(field)?;
        let length = range.len() as u64;
        if length > MAX_NAME_BYTES {
            return Err(self.error(offset, format_args!("{field} length"), Fault::NameLength(length)));
        }
        let start = range.start;
        let bytes = self.bytes.get(range).unwrap_or_default();
        std::str::from_utf8(bytes)
            .map_err(|_| self.error(start, field, Fault::NotUtf8(escaped(bytes, MESSAGE_LIMIT).to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_past_the_end_says_what_it_needs_and_moves_nothing() {
        let mut cursor = Cursor::new("f", &[1, 0, 0, 0, 9]);
        assert_eq!(cursor.u32(format_args!("version")).unwrap(), 1);
        let error = cursor.u64(format_args!("tensor count")).unwrap_err();
        assert_eq!(error.to_string(), "f: at byte 4: tensor count: needs 12 bytes, file has 5");
        assert_eq!(cursor.position(), 4);
    }

    #[test]
    fn a_length_near_the_largest_number_saturates() {
        let mut cursor = Cursor::new("f", &[255; 8]);
        let error = cursor.string(format_args!("key")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f: at byte 0: key length: needs 18446744073709551615 bytes, file has 8"
        );
    }

    #[test]
    fn names_are_utf8_and_short() {
        let mut bytes = 2u64.to_le_bytes().to_vec();
        bytes.extend([0xff, b'a']);
        let error = Cursor::new("f", &bytes).name(format_args!("key")).unwrap_err();
        assert_eq!(error.to_string(), "f: at byte 8: key: wanted UTF-8, found \"\\xffa\"");

        let mut bytes = 65536u64.to_le_bytes().to_vec();
        bytes.resize(8 + 65536, b'a');
        let error = Cursor::new("f", &bytes).name(format_args!("key")).unwrap_err();
        assert_eq!(error.to_string(), "f: at byte 0: key length: wanted at most 65535, found 65536");
    }
}
