//! The operands of memory, copy, matrix and call instructions.

use super::inst::{Address, Order, Scope, Slot};
use crate::{
    exec::mma::{MmaShape, Tables},
    ptx::ast::Space,
};

/// `ld`, also `ldu`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Load {
    pub space: Space,
    pub bytes: u8,
    pub signed: bool,
    pub dst: Box<[Slot]>,
    /// Bytes of each destination register.
    pub widths: Box<[u8]>,
    pub address: Address,
    pub order: Order,
    pub scope: Scope,
    /// `.nc`: not coherent with writes of the same launch.
    pub noncoherent: bool,
    /// Whether nothing reads what it loads.
    pub unread: bool,
}

/// `st`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Store {
    pub space: Space,
    pub bytes: u8,
    pub src: Box<[Slot]>,
    pub address: Address,
    pub order: Order,
    pub scope: Scope,
}

/// The operation of `atom` and `red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AtomicOp {
    And,
    Or,
    Xor,
    Cas,
    Exchange,
    Add,
    Increment,
    Decrement,
    Min,
    Max,
}

/// `atom` and `red`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Atomic {
    pub op: AtomicOp,
    pub ty: super::types::Ty,
    pub space: Space,
    /// For each element; empty when nobody reads the old value.
    pub dst: Box<[Slot]>,
    pub address: Address,
    /// For each element, as are those of `c` (which only `cas` has).
    pub b: Box<[Slot]>,
    pub c: Box<[Slot]>,
    /// One value of two 64-bit elements, compared as a whole.
    pub double: bool,
    pub order: Order,
    pub scope: Scope,
}

/// `cp.async`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct AsyncCopy {
    pub dst: Address,
    pub src: Address,
    pub bytes: u8,
    /// Bytes to read, the rest zero; [`NONE`] reads all.
    pub src_bytes: Slot,
    /// A predicate that ignores the source; [`NONE`] if absent.
    pub ignore: Slot,
    pub ignore_not: bool,
}

/// What an `mbarrier` instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MbarrierAction {
    Init,
    Invalidate,
    Arrive {
        drop: bool,
    },
    ExpectTx,
    CompleteTx,
    /// Tells whether a phase is complete.
    Wait {
        parity: bool,
    },
    /// Waits until it is.
    BlockingWait {
        parity: bool,
    },
    Pending,
    /// Arrives when the thread's copies have landed; `counted` ones add an arrival.
    CopyArrive {
        counted: bool,
    },
    ClusterArrive,
    ClusterWait,
}

impl MbarrierAction {
    /// Whether a thread may have to wait there.
    pub fn blocks(self) -> bool {
        matches!(self, MbarrierAction::BlockingWait { .. } | MbarrierAction::ClusterWait)
    }

    /// Whether it asks for a phase.
    pub fn waits(self) -> bool {
        matches!(self, MbarrierAction::Wait { .. } | MbarrierAction::BlockingWait { .. })
    }
}

/// `mbarrier` and `barrier.cluster`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Mbarrier {
    pub action: MbarrierAction,
    pub space: Space,
    pub address: Address,
    pub dst: Slot,
    /// Arrivals, or the token or parity that a wait is for.
    pub count: Slot,
    pub tx: Slot,
}

/// `tensormap.replace`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct MapReplace {
    pub field: crate::tensor_map::Field,
    pub space: Space,
    pub address: Address,
    pub value: Slot,
}

/// `cp.async.bulk` and `cp.reduce.async.bulk`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Bulk {
    pub to_shared: bool,
    /// The space that is read.
    pub source: Space,
    pub shared: Address,
    /// The other side, or the tensor map.
    pub other: Address,
    /// Coordinates of a tensor copy.
    pub tensor: Option<Box<[Slot]>>,
    pub bytes: Slot,
    pub mbarrier: Address,
    pub mbarrier_space: Space,
    pub reduce: Option<(AtomicOp, super::types::Ty)>,
}

/// `vprintf`: where in local memory its arguments and its result lie.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Print {
    pub format: Address,
    pub arguments: Address,
    pub result: Option<Address>,
}

/// A call of a function with a frame.
#[derive(Clone, Debug)]
pub struct FramedCall {
    /// An index into [`super::Kernel::frames`], or the register with an address.
    pub target: Result<u32, Slot>,
    /// Where each argument lies, its place in the frame and its bytes.
    pub arguments: Box<[(Address, u32, u32)]>,
    /// Where each result goes, its place in the frame and its bytes.
    pub results: Box<[(Address, u32, u32)]>,
}

/// A function with a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// Its first instruction.
    pub pc: u32,
    /// Bytes of its frame.
    pub bytes: u32,
    /// Its first register, and how many it has.
    pub first: Slot,
    /// How many registers it has.
    pub slots: u32,
    /// The address that stands for it.
    pub address: u64,
}

/// `ldmatrix` and `stmatrix` of 8x8 tiles of 16-bit elements.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct MatrixMove {
    pub registers: Box<[Slot]>,
    pub address: Address,
    pub space: Space,
    pub transposed: bool,
}

/// `mma.sync`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Mma {
    pub shape: MmaShape,
    pub tables: Tables,
    pub d: Box<[Slot]>,
    pub a: Box<[Slot]>,
    pub b: Box<[Slot]>,
    pub c: Box<[Slot]>,
    pub scales: Option<Scales>,
}

/// The left matrix of `wgmma`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum WgmmaLeft {
    Descriptor(Slot),
    Registers(Box<[Slot]>),
}

/// `wgmma.mma_async`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Wgmma {
    pub n: u32,
    pub k: u32,
    pub left: crate::exec::mma::Element,
    pub right: crate::exec::mma::Element,
    pub sum: crate::exec::mma::Element,
    pub d: Box<[Slot]>,
    pub a: WgmmaLeft,
    /// A descriptor.
    pub b: Slot,
    /// Whether the sum before counts: a predicate and its negation, or a constant.
    pub scale_d: (Slot, bool),
    /// Whether the product is taken off.
    pub negate: bool,
    pub left_along_m: bool,
    pub right_along_n: bool,
    pub saturate: bool,
}

/// The scales of a block-scaled `mma`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Scales {
    /// Scales along k of a row or column.
    pub count: u32,
    /// UE4M3 in place of UE8M0.
    pub fractional: bool,
    /// Registers with four scales each, for A and B.
    pub data: [Slot; 2],
    /// The first byte used.
    pub byte: [Slot; 2],
    /// Which lanes of a quad hold them.
    pub thread: [Slot; 2],
}

/// `wmma.load` and `wmma.store`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct WmmaMove {
    pub shape: MmaShape,
    pub part: crate::exec::mma::Part,
    pub registers: Box<[Slot]>,
    pub address: Address,
    pub space: Space,
    /// Elements between rows (or columns); [`NONE`] is packed.
    pub stride: Slot,
    pub column_major: bool,
    pub store: bool,
}
