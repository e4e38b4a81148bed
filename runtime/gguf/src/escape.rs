//! Text from a file, made safe for one line of a terminal.

use std::fmt::{self, Write};

/// Characters of text from a file that a message shows.
pub(crate) const MESSAGE_LIMIT: usize = 64;

/// Bytes from a file: printable characters as they are, the rest escaped, at most
/// `limit` characters of the original and then `...`.
pub(crate) struct Escaped<'a> {
    bytes: &'a [u8],
    limit: usize,
}

/// `bytes`, escaped and cut to `limit` characters.
pub(crate) fn escaped(bytes: &[u8], limit: usize) -> Escaped<'_> {
    Escaped { bytes, limit }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.limit;
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                if left == 0 {
                    return f.write_str("...");
                }
                left -= 1;
                match character {
                    '\'' => f.write_char(character)?,
                    _ => write!(f, "{}", character.escape_debug())?,
                }
            }
            for byte in chunk.invalid() {
                if left == 0 {
                    return f.write_str("...");
                }
                left -= 1;
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_and_bad_bytes_are_escaped() {
        let text = escaped("a\nb\u{1b}[31m\u{202e}\"é".as_bytes(), 64).to_string();
        assert_eq!(text, "a\\nb\\u{1b}[31m\\u{202e}\\\"é");
        assert_eq!(escaped(b"x\xff\xc3y", 64).to_string(), "x\\xff\\xc3y");
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        assert_eq!(escaped(b"abcdef", 6).to_string(), "abcdef");
        assert_eq!(escaped(b"abcdefg", 6).to_string(), "abcdef...");
        assert_eq!(escaped(b"\xff\xff\xff", 2).to_string(), "\\xff\\xff...");
    }
}
