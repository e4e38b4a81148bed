//! The name of a compiler. It is part of every cache key.

use std::{fmt, str::FromStr};

use crate::hex::{self, HexError};

/// A digest of a compiler's sources, its dependencies' versions and its LLVM. Which one a
/// program was built with, `phobos_worker::fingerprint` says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// A fingerprint of given bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// All 64 hex digits: the form in [`Metadata::fingerprint`](crate::Metadata::fingerprint)
    /// and in a worker's hello.
    pub fn long(&self) -> String {
        hex::encode(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    /// The first 16 hex digits, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0[..8]))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", self.long())
    }
}

impl FromStr for Fingerprint {
    type Err = HexError;

    /// Parses the long form.
    fn from_str(text: &str) -> Result<Fingerprint, HexError> {
        hex::decode(text).map(Fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_forms() {
        let fingerprint = Fingerprint::from_bytes(std::array::from_fn(|i| i as u8));
        assert_eq!(fingerprint.to_string(), "0001020304050607");
        assert_eq!(fingerprint.long().len(), 64);
        assert_eq!(fingerprint.long().parse(), Ok(fingerprint));
        assert!("0001".parse::<Fingerprint>().is_err());
    }
}
