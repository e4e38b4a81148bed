//! Which compiler this is. The fingerprint is part of every cache key, and a worker
//! repeats it in its hello, so an artifact of another build is never taken for ours.

use std::{fmt, str::FromStr, sync::LazyLock};

use crate::hex::{self, HexError};

/// A digest of the compiler's sources, its dependencies' versions and its LLVM,
/// computed by this crate's build script. Both halves of Phobos depend on this
/// crate, so binaries of one build agree on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

static CURRENT: LazyLock<Fingerprint> = LazyLock::new(|| {
    // The build script writes 64 hex digits; the test below holds it to that.
    env!("PHOBOS_FINGERPRINT").parse().unwrap_or(Fingerprint([0; 32]))
});

static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (fingerprint {})", env!("CARGO_PKG_VERSION"), Fingerprint::current()));

impl Fingerprint {
    /// The fingerprint of the build that this code belongs to.
    pub fn current() -> Fingerprint {
        *CURRENT
    }

    /// A fingerprint of given bytes, for tests of what happens between two builds.
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

/// The version of LLVM that was installed when this crate was built; `none` without one.
pub fn llvm_version() -> &'static str {
    env!("PHOBOS_LLVM_VERSION")
}

/// `0.1.0 (fingerprint 0123456789abcdef)`: what follows a binary's name in `--version`.
pub fn version() -> &'static str {
    &VERSION
}

/// The line that `--version` of `binary` prints: `phobos-cli 0.1.0 (fingerprint 0123456789abcdef)`.
pub fn version_line(binary: &str) -> String {
    format!("{binary} {}", version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_script_left_a_digest_and_a_version() {
        let current: Fingerprint = env!("PHOBOS_FINGERPRINT").parse().unwrap();
        assert_eq!(Fingerprint::current(), current);
        assert_ne!(current, Fingerprint([0; 32]));
        assert!(llvm_version() == "none" || llvm_version().starts_with(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn short_and_long_forms() {
        let fingerprint = Fingerprint::from_bytes(std::array::from_fn(|i| i as u8));
        assert_eq!(fingerprint.to_string(), "0001020304050607");
        assert_eq!(fingerprint.long().len(), 64);
        assert_eq!(fingerprint.long().parse(), Ok(fingerprint));
        assert!("0001".parse::<Fingerprint>().is_err());
    }

    #[test]
    fn a_version_line_names_the_binary_and_the_fingerprint() {
        let line = version_line("phobos-x");
        assert!(line.starts_with("phobos-x 0."), "{line}");
        assert!(line.ends_with(&format!("(fingerprint {})", Fingerprint::current())), "{line}");
    }
}
