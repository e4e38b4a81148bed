//! Hexadecimal text of 32-byte digests.

/// Text that is not the hex form of a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits, found `{0}`")]
pub struct HexError(pub String);

/// Lower-case hex digits of `bytes`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest that 64 lower-case hex digits stand for. Upper case is refused: one
/// digest has one text, since texts become file names.
pub(crate) fn decode(text: &str) -> Result<[u8; 32], HexError> {
    let error = || HexError(text.chars().take(80).collect());
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 64 {
        return Err(error());
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => *byte = high << 4 | low,
            _ => return Err(error()),
        }
    }
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusals() {
        let digest: [u8; 32] = std::array::from_fn(|i| (i * 37) as u8);
        let text = encode(&digest);
        assert_eq!(decode(&text), Ok(digest));
        assert!(decode(&text.to_uppercase()).is_err());
        assert!(decode(&text[1..]).is_err());
        assert!(decode(&format!("{}é", &text[2..])).is_err());
    }
}
