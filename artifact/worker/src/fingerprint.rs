//! Which compiler this is. The fingerprint is part of every cache key, and a worker
//! repeats it in its hello, so an artifact of another build is never taken for ours.

use std::sync::LazyLock;

use phobos_artifact::Fingerprint;

static CURRENT: LazyLock<Fingerprint> = LazyLock::new(|| {
    // The build script writes 64 hex digits; the test below holds it to that.
    env!("PHOBOS_FINGERPRINT").parse().unwrap_or(Fingerprint::from_bytes([0; 32]))
});

static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} (fingerprint {})", env!("CARGO_PKG_VERSION"), current()));

/// The fingerprint of the compiler of this build, computed by this crate's build script:
/// programs of one build agree on it.
pub fn current() -> Fingerprint {
    *CURRENT
}

/// The version of LLVM that was installed when this crate was built; `none` without one.
pub fn llvm_version() -> &'static str {
    env!("PHOBOS_LLVM_VERSION")
}

/// `0.1.0 (fingerprint 0123456789abcdef)`: what follows a program's name in `--version`.
pub fn version() -> &'static str {
    &VERSION
}

/// The line that `--version` of `program` prints: `phobos-cli 0.1.0 (fingerprint 0123456789abcdef)`.
pub fn version_line(program: &str) -> String {
    format!("{program} {}", version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_script_left_a_digest_and_a_version() {
        let built: Fingerprint = env!("PHOBOS_FINGERPRINT").parse().unwrap();
        assert_eq!(current(), built);
        assert_ne!(built, Fingerprint::from_bytes([0; 32]));
        assert!(llvm_version() == "none" || llvm_version().starts_with(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn a_version_line_names_the_program_and_the_fingerprint() {
        let line = version_line("phobos-x");
        assert!(line.starts_with("phobos-x 0."), "{line}");
        assert!(line.ends_with(&format!("(fingerprint {})", current())), "{line}");
    }
}
