//! The bytes of one file of the cache.
//!
//! All integers are little-endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `PHOBOSKC` |
//! | 8 | 4 | format version |
//! | 12 | 4 | length of the header |
//! | 16 | 8 | length of the artifact |
//! | 24 | 32 | blake3 of bytes 8..24, the header and the artifact |
//! | 56 | | the header: [`Header`] as JSON |
//! | | | the artifact: [`Artifact::encode`] |

use phobos_artifact::{Artifact, Chip, CompileRequest, DecodeError, Fingerprint, RequestKey};
use serde::{Deserialize, Serialize};

/// The version of the format that this build writes and reads.
pub const ENTRY_VERSION: u32 = 1;

/// The largest file that is taken for an entry, in bytes.
pub const MAX_ENTRY_BYTES: u64 = 128 << 20;

const MAGIC: [u8; 8] = *b"PHOBOSKC";
const FIXED: usize = 56;

/// What an entry says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The digest of request and compiler, 64 hex digits.
    pub key: String,
    /// The kernel's name.
    pub kernel: String,
    /// The request in a few words.
    pub label: String,
    /// The chip that the artifact is for.
    pub chip: Chip,
    /// [`Fingerprint::long`] of the compiler.
    pub fingerprint: String,
}

impl Header {
    /// The header of the entry for `request`.
    pub fn new(request: &CompileRequest, fingerprint: &Fingerprint) -> Header {
        Header {
            key: request.key(fingerprint).to_string(),
            kernel: request.kernel.clone(),
            label: request.label(),
            chip: request.chip,
            fingerprint: fingerprint.long(),
        }
    }
}

/// Why bytes are not the entry that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Some other kind of file.
    #[error("not an entry of the kernel cache")]
    Magic,
    /// Written by another version of the format.
    #[error("entry format {0}; this build reads format {ENTRY_VERSION}")]
    Version(u32),
    /// Shorter or longer than it says.
    #[error("{found} bytes, the entry says {expected}")]
    Length {
        /// The size that the entry says.
        expected: u64,
        /// The size of the file.
        found: u64,
    },
    /// The contents are not those that were written.
    #[error("the digest does not match the contents")]
    Digest,
    /// The digest matches and yet the header cannot be read.
    #[error("its header cannot be read: {0}")]
    Header(String),
    /// A whole entry, but of another key.
    #[error("it is the entry of {label}, key {key}")]
    OtherKey {
        /// Its key.
        key: String,
        /// Its label.
        label: String,
    },
    /// The digest matches and yet the artifact cannot be read.
    #[error(transparent)]
    Artifact(DecodeError),
}

/// The bytes of the entry that holds `artifact`.
pub fn encode(header: &Header, artifact: &Artifact) -> Vec<u8> {
    #[expect(clippy::expect_used, reason = "strings in a struct: nothing can fail")]
    let header = serde_json::to_vec(header).expect("a header is plain data");
    let artifact = artifact.encode();
    let mut bytes = Vec::with_capacity(FIXED + header.len() + artifact.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&ENTRY_VERSION.to_le_bytes());
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(artifact.len() as u64).to_le_bytes());
    let digest = blake3::Hasher::new().update(&bytes[8..24]).update(&header).update(&artifact).finalize();
    bytes.extend_from_slice(digest.as_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&artifact);
    bytes
}

/// The first fields of an entry.
struct Start<'a> {
    digest: &'a [u8; 32],
    header_length: usize,
    /// What is there behind the digest.
    body: &'a [u8],
}

/// Reads the first fields of an entry out of its beginning, `length` being its whole size.
fn start(bytes: &[u8], length: u64) -> Result<Start<'_>, EntryError> {
    let short = EntryError::Length { expected: FIXED as u64, found: length };
    let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(short.clone())?;
    if *magic != MAGIC {
        return Err(EntryError::Magic);
    }
    let (version, rest) = rest.split_first_chunk().ok_or(short.clone())?;
    let version = u32::from_le_bytes(*version);
    if version != ENTRY_VERSION {
        return Err(EntryError::Version(version));
    }
    let (header_length, rest) = rest.split_first_chunk().ok_or(short.clone())?;
    let (artifact_length, rest) = rest.split_first_chunk().ok_or(short.clone())?;
    let (digest, body) = rest.split_first_chunk().ok_or(short)?;
    let header_length = u32::from_le_bytes(*header_length);
    let expected =
        u64::from_le_bytes(*artifact_length).saturating_add(u64::from(header_length) + FIXED as u64);
    if expected != length {
        return Err(EntryError::Length { expected, found: length });
    }
    Ok(Start { digest, header_length: header_length as usize, body })
}

fn header(json: &[u8]) -> Result<Header, EntryError> {
    serde_json::from_slice(json).map_err(|error| EntryError::Header(error.to_string()))
}

/// Reads an entry and checks its digest.
pub fn decode(bytes: &[u8]) -> Result<(Header, Artifact), EntryError> {
    let length = bytes.len() as u64;
    let Start { digest, header_length, body } = start(bytes, length)?;
    if blake3::Hasher::new().update(&bytes[8..24]).update(body).finalize() != *digest {
        return Err(EntryError::Digest);
    }
    let (json, artifact) = body
        .split_at_checked(header_length)
        .ok_or(EntryError::Length { expected: (FIXED + header_length) as u64, found: length })?;
    Ok((header(json)?, Artifact::decode(artifact).map_err(EntryError::Artifact)?))
}

/// Reads the header out of the beginning of an entry of `length` bytes, without
/// checking the digest; `None` when the beginning is too short for that.
pub fn peek(beginning: &[u8], length: u64) -> Result<Option<Header>, EntryError> {
    let Start { header_length, body, .. } = start(beginning, length)?;
    body.get(..header_length).map(header).transpose()
}

/// Reads an entry that must be the one of `key`.
pub fn decode_for(bytes: &[u8], key: &RequestKey) -> Result<Artifact, EntryError> {
    let (header, artifact) = decode(bytes)?;
    if header.key != key.to_string() {
        return Err(EntryError::OtherKey { key: header.key, label: header.label });
    }
    Ok(artifact)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use phobos_artifact::{CompileOptions, GridExpr, Image, ImageKind, IndexBits, Metadata};

    use super::*;

    pub(crate) fn request(kernel: &str) -> CompileRequest {
        CompileRequest {
            source: format!("kernel {kernel}() {{}}"),
            kernel: kernel.into(),
            elements: BTreeMap::new(),
            dims: BTreeMap::new(),
            ranges: BTreeMap::new(),
            params: BTreeMap::new(),
            options: CompileOptions::default(),
            chip: Chip::Sm(86),
        }
    }

    pub(crate) fn artifact(request: &CompileRequest) -> Artifact {
        Artifact {
            metadata: Metadata {
                kernel: request.kernel.clone(),
                chip: request.chip,
                fingerprint: String::new(),
                arguments: vec![],
                grid: [GridExpr::Const(1), GridExpr::Const(1), GridExpr::Const(1)],
                threads: 32,
                shared_bytes: 0,
                scratch_bytes: 0,
                index_bits: IndexBits::B32,
                params: BTreeMap::new(),
                bound_dims: BTreeMap::new(),
                contracts: vec![],
                remarks: vec![],
            },
            images: vec![Image { kind: ImageKind::Ptx, bytes: b".version 7.1".to_vec() }],
        }
    }

    fn sample() -> (CompileRequest, Fingerprint, Vec<u8>) {
        let request = request("gemm");
        let fingerprint = Fingerprint::from_bytes([3; 32]);
        let bytes = encode(&Header::new(&request, &fingerprint), &artifact(&request));
        (request, fingerprint, bytes)
    }

    #[test]
    fn round_trip_for_its_key_only() {
        let (request, fingerprint, bytes) = sample();
        assert_eq!(decode_for(&bytes, &request.key(&fingerprint)), Ok(artifact(&request)));
        let other = request.key(&Fingerprint::from_bytes([4; 32]));
        assert!(matches!(decode_for(&bytes, &other), Err(EntryError::OtherKey { .. })));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        let (_, _, bytes) = sample();
        for length in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..length]), Err(EntryError::Length { .. })), "cut at {length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = decode(&damaged).expect_err(&format!("bit {bit}"));
            let right = match bit / 8 {
                0..8 => error == EntryError::Magic,
                8..12 => matches!(error, EntryError::Version(_)),
                12..24 => matches!(error, EntryError::Length { .. }),
                _ => error == EntryError::Digest,
            };
            assert!(right, "bit {bit}: {error:?}");
        }
        let (start, length) = (&bytes[..bytes.len() - 10], bytes.len() as u64);
        assert_eq!(peek(start, length).unwrap().unwrap().kernel, "gemm");
        assert_eq!(peek(&bytes[..60], length), Ok(None));
        assert!(matches!(peek(start, length + 1), Err(EntryError::Length { .. })));
        let longer = [&bytes[..], b"x"].concat();
        assert!(matches!(decode(&longer), Err(EntryError::Length { .. })));
    }
}
