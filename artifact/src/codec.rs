//! The bytes of an artifact.
//!
//! All integers are little-endian.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | magic `\x89PHOBOS\n` |
//! | 8 | 4 | format version |
//! | 12 | 8 | length of the body |
//! | 20 | 32 | blake3 of bytes 8..20 and the body |
//! | 52 | | body |
//!
//! The body: length of the metadata (8), metadata as JSON, number of images (4), and
//! of each image its kind (4), length (8) and bytes. Nothing follows.
//!
//! The decoder trusts no length before it has compared it with the bytes that are
//! there, so a damaged file costs no more memory than its own size.

use crate::artifact::{Artifact, Image, ImageKind, Metadata};

/// The version of the format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"\x89PHOBOS\n";
const HEADER: usize = 52;

/// Why bytes are not an artifact. Offsets are in bytes from the start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The magic is missing: some other kind of file.
    #[error("not a Phobos artifact: the first 8 bytes are not its magic")]
    Magic,
    /// Written by another version of the format.
    #[error("artifact format {found} at offset 8; this build reads format {FORMAT_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The bytes end too early.
    #[error("truncated artifact: {what} at offset {offset} needs {needed} bytes, {available} are left")]
    Truncated {
        /// The field that is cut.
        what: &'static str,
        /// Where the field begins.
        offset: usize,
        /// Its size.
        needed: u64,
        /// How many bytes are there.
        available: usize,
    },
    /// Bytes follow the end.
    #[error("{extra} bytes after the end of the artifact at offset {offset}")]
    Trailing {
        /// Where the artifact ends.
        offset: usize,
        /// How many bytes follow.
        extra: usize,
    },
    /// The contents are not those that were written.
    #[error("damaged artifact: the digest at offset 20 does not match the contents")]
    Digest,
    /// The digest matches and yet the metadata cannot be read.
    #[error("metadata at offset {offset}: {message}")]
    Metadata {
        /// Where the metadata begins.
        offset: usize,
        /// What the JSON reader says.
        message: String,
    },
    /// A kind of image that this build does not know.
    #[error("unknown kind of image {kind} at offset {offset}")]
    ImageKind {
        /// Where the kind lies.
        offset: usize,
        /// The kind found.
        kind: u32,
    },
}

impl ImageKind {
    fn code(self) -> u32 {
        match self {
            ImageKind::SharedObject => 1,
            ImageKind::Ptx => 2,
            ImageKind::Cubin => 3,
        }
    }

    fn from_code(code: u32) -> Option<ImageKind> {
        [ImageKind::SharedObject, ImageKind::Ptx, ImageKind::Cubin]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

impl Artifact {
    /// The artifact as one blob. Equal artifacts have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        #[expect(clippy::expect_used, reason = "string keys, derived impls and no I/O: nothing can fail")]
        let metadata = serde_json::to_vec(&self.metadata).expect("metadata is plain data");
        let mut body = Vec::new();
        body.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
        body.extend_from_slice(&metadata);
        body.extend_from_slice(&(self.images.len() as u32).to_le_bytes());
        for image in &self.images {
            body.extend_from_slice(&image.kind.code().to_le_bytes());
            body.extend_from_slice(&(image.bytes.len() as u64).to_le_bytes());
            body.extend_from_slice(&image.bytes);
        }

        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        let digest = digest(&bytes[8..20], &body);
        bytes.extend_from_slice(&digest);
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads the blob that [`Artifact::encode`] wrote; `bytes` must hold it and no more.
    pub fn decode(bytes: &[u8]) -> Result<Artifact, DecodeError> {
        let mut header = Reader { bytes, offset: 0 };
        if header.array::<8>("magic")? != MAGIC {
            return Err(DecodeError::Magic);
        }
        let version = header.u32("format version")?;
        if version != FORMAT_VERSION {
            return Err(DecodeError::Version { found: version });
        }
        let body_length = header.u64("length of the body")?;
        let expected = header.array::<32>("digest")?;
        let body = header.take("body", body_length)?;
        header.finish()?;
        if digest(&bytes[8..20], body) != expected {
            return Err(DecodeError::Digest);
        }

        let mut reader = Reader { bytes, offset: HEADER };
        let length = reader.u64("length of the metadata")?;
        let offset = reader.offset;
        let json = reader.take("metadata", length)?;
        let metadata: Metadata = serde_json::from_slice(json)
            .map_err(|error| DecodeError::Metadata { offset, message: error.to_string() })?;
        let count = reader.u32("number of images")?;
        let mut images = Vec::new();
        for _ in 0..count {
            let offset = reader.offset;
            let kind = reader.u32("kind of image")?;
            let kind = ImageKind::from_code(kind).ok_or(DecodeError::ImageKind { offset, kind })?;
            let length = reader.u64("length of an image")?;
            images.push(Image { kind, bytes: reader.take("image", length)?.to_vec() });
        }
        reader.finish()?;
        Ok(Artifact { metadata, images })
    }
}

fn digest(header: &[u8], body: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new().update(header).update(body).finalize().as_bytes()
}

/// Reads fields in order and knows where it is.
struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, what: &'static str, length: u64) -> Result<&'a [u8], DecodeError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let field = usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or(
            DecodeError::Truncated { what, offset: self.offset, needed: length, available: rest.len() },
        )?;
        self.offset += field.len();
        Ok(field)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N as u64)?);
        Ok(array)
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn finish(&self) -> Result<(), DecodeError> {
        match self.bytes.len().saturating_sub(self.offset) {
            0 => Ok(()),
            extra => Err(DecodeError::Trailing { offset: self.offset, extra }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        Access, ArgKind, Argument, Chip, Contract, DType, Element, Extent, GridExpr, HostLevel, IndexBits,
    };

    fn sample() -> Artifact {
        let name = |name: &str| GridExpr::Name(name.into());
        Artifact {
            metadata: Metadata {
                kernel: "linear".into(),
                chip: Chip::Host(HostLevel::V3),
                fingerprint: "00ff".into(),
                arguments: vec![
                    Argument {
                        name: "W".into(),
                        kind: ArgKind::Tensor {
                            element: "q4_1".parse().unwrap(),
                            shape: vec![Extent::Name("N".into()), Extent::Const(64)],
                            access: Access::Read,
                        },
                    },
                    Argument {
                        name: "Y".into(),
                        kind: ArgKind::Tensor {
                            element: Element::Scalar(DType::F32),
                            shape: vec![],
                            access: Access::Write,
                        },
                    },
                    Argument { name: "eps".into(), kind: ArgKind::Scalar { dtype: DType::F32 } },
                    Argument { name: "N".into(), kind: ArgKind::Dim },
                ],
                grid: [
                    GridExpr::CeilDiv(Box::new(name("N")), Box::new(GridExpr::Const(8))),
                    GridExpr::Mul(Box::new(name("N")), Box::new(name("M"))),
                    GridExpr::Const(1),
                ],
                threads: 1,
                shared_bytes: 0,
                scratch_bytes: u64::MAX,
                index_bits: IndexBits::B64,
                params: BTreeMap::from([("TILE_N".into(), 8)]),
                bound_dims: BTreeMap::from([("D".into(), 64)]),
                contracts: vec![
                    Contract::Multiple { dim: "K".into(), of: 32 },
                    Contract::AtMost { dim: "N".into(), limit: 1 << 31 },
                    Contract::TensorElements { tensor: "W".into(), limit: 1 << 31 },
                ],
                remarks: vec!["dot at 3:5: \"packed\" ½".into()],
            },
            images: vec![
                Image { kind: ImageKind::SharedObject, bytes: b"\x7fELF".to_vec() },
                Image { kind: ImageKind::Cubin, bytes: vec![] },
            ],
        }
    }

    /// `bytes` with its body length and digest put right, so that the test sees the inner checks.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let body = (bytes.len() - HEADER) as u64;
        bytes[12..20].copy_from_slice(&body.to_le_bytes());
        let digest = digest(&bytes[8..20], &bytes[HEADER..]);
        bytes[20..52].copy_from_slice(&digest);
        bytes
    }

    fn metadata_length(bytes: &[u8]) -> usize {
        u64::from_le_bytes(bytes[HEADER..HEADER + 8].try_into().unwrap()) as usize
    }

    #[test]
    fn round_trip() {
        let artifact = sample();
        let bytes = artifact.encode();
        assert_eq!(Artifact::decode(&bytes), Ok(artifact.clone()));
        assert_eq!(Artifact::decode(&bytes).unwrap().encode(), bytes);
        for kind in [ImageKind::SharedObject, ImageKind::Ptx, ImageKind::Cubin] {
            assert_eq!(ImageKind::from_code(kind.code()), Some(kind));
        }
    }

    #[test]
    fn every_truncation_is_called_one() {
        let bytes = sample().encode();
        for length in 0..bytes.len() {
            match Artifact::decode(&bytes[..length]) {
                Err(DecodeError::Truncated { offset, needed, available, .. }) => {
                    assert!(offset <= length && needed > available as u64, "cut at {length}");
                    assert_eq!(offset + available, length);
                }
                other => panic!("cut at {length}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = sample().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = Artifact::decode(&damaged).expect_err(&format!("bit {bit}"));
            let right = match bit / 8 {
                0..8 => error == DecodeError::Magic,
                8..12 => matches!(error, DecodeError::Version { found } if found != FORMAT_VERSION),
                12..20 => matches!(error, DecodeError::Truncated { .. } | DecodeError::Trailing { .. }),
                _ => error == DecodeError::Digest,
            };
            assert!(right, "bit {bit}: {error:?}");
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = sample().encode();
        bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
        let error = Artifact::decode(&sealed(bytes)).unwrap_err();
        assert_eq!(error, DecodeError::Version { found: 2 });
        assert!(error.to_string().contains("this build reads format 1"), "{error}");
    }

    #[test]
    fn trailing_bytes_are_refused_inside_and_outside_the_body() {
        let bytes = sample().encode();
        let end = bytes.len();
        let longer = [&bytes[..], &[0]].concat();
        let expected = Err(DecodeError::Trailing { offset: end, extra: 1 });
        assert_eq!(Artifact::decode(&longer), expected);
        assert_eq!(Artifact::decode(&sealed(longer)), expected);
    }

    #[test]
    fn absurd_lengths_allocate_nothing() {
        let bytes = sample().encode();
        let images_at = HEADER + 8 + metadata_length(&bytes);
        for (offset, what) in
            [(HEADER, "metadata"), (images_at + 8, "image"), (images_at + 8 + 8 + 4 + 4, "image")]
        {
            for length in [u64::MAX, u64::MAX / 2, 1 << 40, bytes.len() as u64] {
                let mut damaged = bytes.clone();
                damaged[offset..offset + 8].copy_from_slice(&length.to_le_bytes());
                match Artifact::decode(&sealed(damaged)) {
                    Err(DecodeError::Truncated { what: field, needed, .. }) => {
                        assert_eq!((field, needed), (what, length));
                    }
                    other => panic!("length {length} at {offset}: {other:?}"),
                }
            }
        }
        let mut damaged = bytes;
        damaged[images_at..images_at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = Artifact::decode(&sealed(damaged)).unwrap_err();
        assert!(matches!(error, DecodeError::Truncated { what: "kind of image", .. }), "{error:?}");
    }

    #[test]
    fn unreadable_contents_under_a_right_digest_have_an_offset() {
        let bytes = sample().encode();
        let images_at = HEADER + 8 + metadata_length(&bytes);
        let mut damaged = bytes.clone();
        damaged[HEADER + 8] = b'[';
        let error = Artifact::decode(&sealed(damaged)).unwrap_err();
        assert!(matches!(error, DecodeError::Metadata { offset: 60, .. }), "{error:?}");

        let mut damaged = bytes;
        damaged[images_at + 4] = 9;
        let error = Artifact::decode(&sealed(damaged)).unwrap_err();
        assert_eq!(error, DecodeError::ImageKind { offset: images_at + 4, kind: 9 });
    }

    #[test]
    fn deeply_nested_metadata_does_not_exhaust_the_stack() {
        let json = "[".repeat(1 << 20);
        let mut bytes = sample().encode();
        bytes.truncate(HEADER);
        bytes.extend_from_slice(&(json.len() as u64).to_le_bytes());
        bytes.extend_from_slice(json.as_bytes());
        let error = Artifact::decode(&sealed(bytes)).unwrap_err();
        assert!(matches!(error, DecodeError::Metadata { .. }), "{error:?}");
    }
}
