//! What to compile. The digest of a request is the kernel cache's key, so a
//! request holds everything that decides the artifact and nothing that does not
//! (no paths, no time).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{chip::Chip, dtype::Element};

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
