//! What to compile. The digest of a request is the kernel cache's key, so a
//! request holds everything that decides the artifact and nothing that does not
//! (no paths, no time).

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    chip::Chip,
    dtype::Element,
    fingerprint::Fingerprint,
    hex::{self, HexError},
    range::DimRange,
};

/// A request to compile one kernel for one chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileRequest {
    /// The source text with its imports expanded.
    pub source: String,
    /// The kernel to compile out of `source`.
    pub kernel: String,
    /// Generic parameters of the kernel (`F: format`, `T: dtype`) by name.
    pub elements: BTreeMap<String, Element>,
    /// Named dims that are fixed at compile time, checked again at launch.
    pub dims: BTreeMap<String, u64>,
    /// What is known of dims that a launch gives: parameters are chosen for these values.
    pub ranges: BTreeMap<String, DimRange>,
    /// `@autotune` parameters that the caller chose.
    pub params: BTreeMap<String, u64>,
    /// Everything else that decides the code.
    pub options: CompileOptions,
    /// The target.
    pub chip: Chip,
}

/// Options of a compilation, all part of the key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileOptions {
    /// The width of index arithmetic; `None` lets the compiler prove what is enough.
    pub index_bits: Option<IndexBits>,
    /// Take the first value of each `@autotune` list instead of ranking candidates.
    pub no_tune: bool,
}

/// The width of index arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexBits {
    /// 32-bit indices.
    #[serde(rename = "32")]
    B32,
    /// 64-bit indices.
    #[serde(rename = "64")]
    B64,
}

impl IndexBits {
    /// The number of bits.
    pub fn bits(self) -> u32 {
        match self {
            IndexBits::B32 => 32,
            IndexBits::B64 => 64,
        }
    }
}

impl CompileRequest {
    /// The request as bytes: equal requests have equal bytes, different ones differ.
    /// The encoding is our own, so that no option of a JSON library is part of a key.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut bytes = self.canonical_bytes_without_chip();
        field(&mut bytes, self.chip.to_string().as_bytes());
        bytes
    }

    /// The same without the chip: what a manifest records, since the requests of a
    /// model are the same for every chip.
    pub fn canonical_bytes_without_chip(&self) -> Vec<u8> {
        // Destructured whole, so that a new member cannot be forgotten here.
        let CompileRequest { source, kernel, elements, dims, ranges, params, options, chip: _ } = self;
        let CompileOptions { index_bits, no_tune } = options;
        let mut bytes = Vec::with_capacity(source.len() + 256);
        field(&mut bytes, source.as_bytes());
        field(&mut bytes, kernel.as_bytes());
        count(&mut bytes, elements.len());
        for (name, element) in elements {
            field(&mut bytes, name.as_bytes());
            field(&mut bytes, element.name().as_bytes());
        }
        for map in [dims, params] {
            count(&mut bytes, map.len());
            for (name, value) in map {
                field(&mut bytes, name.as_bytes());
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        count(&mut bytes, ranges.len());
        for (name, range) in ranges {
            field(&mut bytes, name.as_bytes());
            bytes.extend_from_slice(&range.least().to_le_bytes());
            // No dim is compiled for 0, so 0 stands for no end.
            bytes.extend_from_slice(&range.most().unwrap_or(0).to_le_bytes());
        }
        bytes.extend_from_slice(&index_bits.map_or(0, IndexBits::bits).to_le_bytes());
        bytes.push(u8::from(*no_tune));
        bytes
    }

    /// The cache key of the request for the compiler with `fingerprint`.
    pub fn key(&self, fingerprint: &Fingerprint) -> RequestKey {
        let mut hasher = blake3::Hasher::new_derive_key("phobos compile request key 2");
        hasher.update(fingerprint.as_bytes()).update(&self.canonical_bytes());
        RequestKey(*hasher.finalize().as_bytes())
    }

    /// The digest of the request without chip and compiler: its name in a manifest.
    pub fn manifest_key(&self) -> RequestKey {
        let mut hasher = blake3::Hasher::new_derive_key("phobos manifest request key 2");
        hasher.update(&self.canonical_bytes_without_chip());
        RequestKey(*hasher.finalize().as_bytes())
    }

    /// The request in a few words for people: `linear[F=q4_1,D=64] host-x86-64-v3`.
    pub fn label(&self) -> String {
        let mut bound: Vec<String> = Vec::new();
        bound.extend(self.elements.iter().map(|(name, element)| format!("{name}={element}")));
        bound.extend(self.dims.iter().chain(&self.params).map(|(name, value)| format!("{name}={value}")));
        bound.extend(self.ranges.iter().map(|(name, range)| format!("{name}={range}")));
        bound.extend(self.options.index_bits.map(|bits| format!("index-bits={}", bits.bits())));
        bound.extend(self.options.no_tune.then(|| "no-tune".to_owned()));
        let bound = if bound.is_empty() { String::new() } else { format!("[{}]", bound.join(",")) };
        format!("{}{bound} {}", self.kernel, self.chip)
    }
}

/// Appends a length and that many bytes, so that no two lists of fields look alike.
fn field(bytes: &mut Vec<u8>, value: &[u8]) {
    count(bytes, value.len());
    bytes.extend_from_slice(value);
}

fn count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&(count as u64).to_le_bytes());
}

/// The digest of a request: the kernel cache's key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestKey([u8; 32]);

impl RequestKey {
    /// The key with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> RequestKey {
        RequestKey(bytes)
    }

    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for RequestKey {
    /// 64 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestKey({self})")
    }
}

impl FromStr for RequestKey {
    type Err = HexError;

    fn from_str(text: &str) -> Result<RequestKey, HexError> {
        hex::decode(text).map(RequestKey)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{DType, HostLevel};

    fn request() -> CompileRequest {
        CompileRequest {
            source: "kernel linear() {}".into(),
            kernel: "linear".into(),
            elements: BTreeMap::from([("F".into(), "q4_1".parse().unwrap())]),
            dims: BTreeMap::from([("D".into(), 64)]),
            ranges: BTreeMap::new(),
            params: BTreeMap::from([("TILE_N".into(), 32)]),
            options: CompileOptions::default(),
            chip: Chip::Host(HostLevel::V3),
        }
    }

    fn changed(change: impl FnOnce(&mut CompileRequest)) -> CompileRequest {
        let mut request = request();
        change(&mut request);
        request
    }

    #[test]
    fn whatever_decides_the_code_changes_the_key() {
        let variants = [
            request(),
            changed(|r| r.source.push(' ')),
            changed(|r| r.kernel = "linear2".into()),
            changed(|r| r.elements.clear()),
            changed(|r| r.elements = BTreeMap::from([("F".into(), Element::Scalar(DType::F32))])),
            changed(|r| r.elements = BTreeMap::from([("G".into(), "q4_1".parse().unwrap())])),
            changed(|r| r.dims = BTreeMap::from([("D".into(), 128)])),
            changed(|r| r.params = BTreeMap::from([("TILE_N".into(), 64)])),
            // The same pair as a dim instead of a parameter.
            changed(|r| {
                r.dims.append(&mut r.params);
            }),
            changed(|r| r.ranges = BTreeMap::from([("M".into(), "2..31".parse().unwrap())])),
            changed(|r| r.ranges = BTreeMap::from([("M".into(), "2..".parse().unwrap())])),
            changed(|r| r.ranges = BTreeMap::from([("N".into(), "2..".parse().unwrap())])),
            // The same letters, cut elsewhere.
            changed(|r| {
                r.source.push('l');
                r.kernel = "inear".into();
            }),
            changed(|r| r.options.index_bits = Some(IndexBits::B32)),
            changed(|r| r.options.index_bits = Some(IndexBits::B64)),
            changed(|r| r.options.no_tune = true),
            changed(|r| r.chip = Chip::Host(HostLevel::V4)),
            changed(|r| r.chip = Chip::Sm(75)),
        ];
        let fingerprints = [[0; 32], [1; 32]].map(Fingerprint::from_bytes);
        let keys: BTreeSet<RequestKey> =
            variants.iter().flat_map(|request| fingerprints.iter().map(|f| request.key(f))).collect();
        assert_eq!(keys.len(), variants.len() * fingerprints.len());
    }

    #[test]
    fn a_manifest_key_ignores_the_chip_only() {
        let base = request().manifest_key();
        assert_eq!(base, changed(|r| r.chip = Chip::Sm(120)).manifest_key());
        assert_ne!(base, changed(|r| r.options.no_tune = true).manifest_key());
        assert_ne!(base, request().key(&Fingerprint::from_bytes([0; 32])));
    }

    #[test]
    fn the_encoding_is_what_it_says() {
        let number = |value: u64| value.to_le_bytes().to_vec();
        let text = |text: &str| [number(text.len() as u64), text.as_bytes().to_vec()].concat();
        let mut request = request();
        request.options.index_bits = Some(IndexBits::B32);
        request.ranges =
            [("M", "2..31"), ("N", "32..")].map(|(name, text)| (name.into(), text.parse().unwrap())).into();
        let expected = [
            text("kernel linear() {}"),
            text("linear"),
            [number(1), text("F"), text("q4_1")].concat(),
            [number(1), text("D"), number(64)].concat(),
            [number(1), text("TILE_N"), number(32)].concat(),
            [number(2), text("M"), number(2), number(31), text("N"), number(32), number(0)].concat(),
            vec![32, 0, 0, 0, 0],
            text("host-x86-64-v3"),
        ];
        assert_eq!(request.canonical_bytes(), expected.concat());
        let key = request.key(&Fingerprint::from_bytes([7; 32]));
        assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn labels() {
        assert_eq!(request().label(), "linear[F=q4_1,D=64,TILE_N=32] host-x86-64-v3");
        let bare = changed(|r| {
            r.elements.clear();
            r.dims.clear();
            r.params.clear();
            r.chip = Chip::Sm(86);
        });
        assert_eq!(bare.label(), "linear sm_86");
        let options = changed(|r| {
            r.dims.clear();
            r.params.clear();
            r.ranges.insert("M".into(), "2..31".parse().unwrap());
            r.options = CompileOptions { index_bits: Some(IndexBits::B64), no_tune: true };
        });
        assert_eq!(options.label(), "linear[F=q4_1,M=2..31,index-bits=64,no-tune] host-x86-64-v3");
    }
}
