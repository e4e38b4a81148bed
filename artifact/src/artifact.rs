//! The compiled kernel as one self-describing blob.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    chip::Chip,
    dtype::{DType, Element},
    grid::GridExpr,
    request::IndexBits,
};

/// A compiled kernel: what a launch must know, and the code.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// What a launch must know.
    pub metadata: Metadata,
    /// The code. The first image is the one the compiler made; others (a cubin
    /// beside its PTX) are optional extras.
    pub images: Vec<Image>,
}

/// Code in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The form.
    pub kind: ImageKind,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The forms of code in an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageKind {
    /// An x86-64 ELF shared object that exports `phobos_entry`.
    SharedObject,
    /// PTX text.
    Ptx,
    /// A cubin assembled from the PTX for exactly the artifact's chip.
    Cubin,
}

/// What a launch must know about a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The kernel's name in the source; the PTX entry has the same name.
    pub kernel: String,
    /// The target.
    pub chip: Chip,
    /// The compiler that made it.
    pub fingerprint: String,
    /// Arguments in ABI order: tensors, then scalars, then dims.
    pub arguments: Vec<Argument>,
    /// Programs per grid axis (x, y, z), over the unbound dims.
    pub grid: [GridExpr; 3],
    /// Threads of a block on a GPU; 1 on the host.
    pub threads: u32,
    /// Shared memory of a block in bytes; 0 on the host.
    pub shared_bytes: u32,
    /// Scratch of one program instance in bytes, 64-byte aligned; 0 on a GPU.
    pub scratch_bytes: u64,
    /// The width of index arithmetic.
    pub index_bits: IndexBits,
    /// The value of every `@autotune` parameter.
    pub params: BTreeMap<String, u64>,
    /// Dims that were fixed at compile time: a launch with another value is refused.
    pub bound_dims: BTreeMap<String, u64>,
    /// What a launch must check about the dims.
    pub contracts: Vec<Contract>,
    /// Which path each `dot` and loop took and why (`--explain`).
    pub remarks: Vec<String>,
}

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// The parameter's name in the source, or the dim's name.
    pub name: String,
    /// What it is.
    pub kind: ArgKind,
}

/// What an argument is. On the host each takes one slot of 8 bytes; a GPU kernel has a parameter
/// of its own size for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArgKind {
    /// A pointer to a contiguous row-major tensor.
    Tensor {
        /// The element type.
        element: Element,
        /// The extent of each axis, outermost first: a name or a constant.
        shape: Vec<Extent>,
        /// What the kernel does with it.
        access: Access,
    },
    /// A scalar passed by value; on the host in the low bytes of its slot.
    Scalar {
        /// Its type.
        dtype: DType,
    },
    /// The value of a named dim, as a 64-bit integer.
    Dim,
}

/// The extent of a tensor axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Extent {
    /// A fixed extent.
    Const(u64),
    /// A named dim, bound at launch and equal wherever the name occurs.
    Name(String),
}

/// How a kernel uses a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

impl Access {
    /// Whether the kernel writes the tensor.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// What a launch must check about the dims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Contract {
    /// `dim % of == 0`: whole blocks of a format, or an `@aligned` promise.
    Multiple {
        /// The dim's name.
        dim: String,
        /// The divisor.
        of: u64,
    },
    /// `dim >= limit`: the kernel was compiled for these values.
    AtLeast {
        /// The dim's name.
        dim: String,
        /// The least value.
        limit: u64,
    },
    /// `dim <= limit`: the kernel was compiled for these values, or index arithmetic of the
    /// chosen width stays exact.
    AtMost {
        /// The dim's name.
        dim: String,
        /// The largest value.
        limit: u64,
    },
    /// The tensor has at most this many elements, for the same reason.
    TensorElements {
        /// The tensor's name.
        tensor: String,
        /// The largest count.
        limit: u64,
    },
}
