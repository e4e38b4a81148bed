//! The printable alphabet of byte-level BPE (GPT-2): every byte has one character, so that token
//! strings and merges are valid, visible text.
//!
//! Bytes 33–126, 161–172 and 174–255 stand for the character of the same number; the other 68
//! take U+0100, U+0101, … in order.

fn is_printable(byte: u8) -> bool {
    matches!(byte, 33..=126 | 161..=172 | 174..=255)
}

/// The byte that a character of the alphabet stands for.
pub(crate) fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ 0..=0xff => u8::try_from(code).ok().filter(|&byte| is_printable(byte)),
        code @ 0x100..=0x143 => {
            // The unprintable bytes in order are 0..=32, 127..=160, 173.
            let nth = u8::try_from(code - 0x100).ok()?;
            Some(match nth {
                0..=32 => nth,
                33..=66 => nth - 33 + 127,
                _ => 173,
            })
        }
        _ => None,
    }
}

/// The bytes that a token string stands for; `None` if it is not written in the alphabet.
pub(crate) fn bytes_of(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    append_bytes_of(text, &mut bytes).then_some(bytes)
}

/// Appends the bytes that a token string stands for; false, and some of them, if it is not
/// written in the alphabet.
pub(crate) fn append_bytes_of(text: &[u8], bytes: &mut Vec<u8>) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    text.chars().all(|c| byte_of(c).map(|byte| bytes.push(byte)).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_exactly_one_character() {
        let mut seen = [0u32; 256];
        for byte in ('\0'..='\u{ffff}').filter_map(byte_of) {
            seen[usize::from(byte)] += 1;
        }
        assert_eq!(seen, [1; 256]);
    }

    #[test]
    fn well_known_characters() {
        assert_eq!(bytes_of("Ġhello".as_bytes()), Some(b" hello".to_vec()));
        assert_eq!(bytes_of("Ċ".as_bytes()), Some(b"\n".to_vec()));
        assert_eq!(bytes_of("Ã©".as_bytes()), Some("é".as_bytes().to_vec()));
        assert_eq!(bytes_of("a b".as_bytes()), None);
        assert_eq!(bytes_of(&[0xff]), None);
    }
}
