//! The compact instruction form: operands are register slots, constants have
//! slots of their own, labels are instruction indices.

use crate::{
    exec::alu::{Cvt, Cvt2, F1, F2, F3, F4, Shadow},
    exec::mma::{MmaShape, Tables},
    ptx::ast::Space,
};

/// The index of a register in a warp's register file.
pub type Slot = u32;
/// No register: an absent or ignored (`_`) operand.
pub const NONE: Slot = u32::MAX;

/// One decoded instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// Its guard predicate, or [`NONE`].
    pub guard: Slot,
    /// Whether the guard is negated.
    pub guard_not: bool,
    /// Bytes of the result's register, for undefined-byte masks.
    pub width: u8,
    /// How undefined bytes of the sources reach the result.
    pub shadow: Shadow,
}

/// A memory address: a register plus a constant.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Address {
    pub base: Slot,
    pub offset: i64,
}

/// How an access orders with those of other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A plain access: racing with another is an error.
    Weak,
    /// Volatile: relaxed, but not meant for an exchange with other threads.
    Volatile,
    /// Relaxed.
    Relaxed,
    /// An acquire load, or an atomic that acquires.
    Acquire,
    /// A release store, or an atomic that releases.
    Release,
    /// Both.
    AcquireRelease,
}

impl Order {
    /// Whether later accesses see what the matching release made visible.
    pub fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcquireRelease)
    }

    /// Whether earlier accesses become visible to the matching acquire.
    pub fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcquireRelease)
    }
}

/// The threads that an access or fence orders with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Scope {
    Cta,
    /// The cluster, the device or the system.
    Device,
}

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

/// What a CTA barrier instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BarrierKind {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
}

/// `bar` and `barrier`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Barrier {
    pub kind: BarrierKind,
    pub id: Slot,
    pub count: Slot,
    pub aligned: bool,
    pub dst: Slot,
    pub predicate: Slot,
    pub negate: bool,
}

/// How `shfl` chooses its source lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What `vote` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What `redux` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduxOp {
    And,
    Or,
    Xor,
    Add,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    /// Of `f32`s: the smaller (or larger), of magnitudes, with NaN deciding.
    Float {
        largest: bool,
        abs: bool,
        nan: bool,
    },
}

/// Instructions in which the lanes of a warp work together.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum WarpOp {
    Barrier,
    Shuffle { mode: ShuffleMode, dst: Slot, valid: Slot, a: Slot, b: Slot, c: Slot },
    Vote { mode: VoteMode, dst: Slot, predicate: Slot, negate: bool },
    Match { all: bool, dst: Slot, valid: Slot, a: Slot },
    Redux { op: ReduxOp, dst: Slot, a: Slot },
    Elect { dst: Slot, valid: Slot },
    Mma(Box<Mma>),
    LoadMatrix(Box<MatrixMove>),
    StoreMatrix(Box<MatrixMove>),
    TransposeMatrix { dst: Slot, a: Slot },
    Wmma(Box<WmmaMove>),
    Wgmma(Box<Wgmma>),
}

/// How `setp` combines its comparison with a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Combine {
    And,
    Or,
    Xor,
}

/// `setp` and `set`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct SetPredicate {
    pub low: F2,
    pub high: Option<F2>,
    pub p: Slot,
    pub q: Slot,
    pub a: Slot,
    pub b: Slot,
    pub combine: Option<(Combine, Slot, bool)>,
    /// `set`: the value for true; the destination is a plain register.
    pub value: Option<u64>,
}

/// Arithmetic with the carry flag.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Carry {
    /// (a, b, c, carry in) to (result, carry out).
    pub function: fn(u64, u64, u64, bool) -> (u64, bool),
    pub dst: Slot,
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
    pub flag: Slot,
    pub reads: bool,
    pub writes: bool,
}

/// Registers whose value changes while a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Clock {
    Clock32,
    ClockHigh,
    Clock64,
}

/// What an instruction does.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Map1 {
        f: F1,
        d: Slot,
        a: Slot,
    },
    Map2 {
        f: F2,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Map3 {
        f: F3,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Map4 {
        f: F4,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        e: Slot,
    },
    Convert {
        f: Cvt,
        d: Slot,
        a: Slot,
    },
    Convert2 {
        f: Cvt2,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Set(Box<SetPredicate>),
    Carry(Box<Carry>),
    Pack {
        d: Slot,
        parts: Box<[Slot]>,
        bits: u32,
    },
    Unpack {
        parts: Box<[Slot]>,
        a: Slot,
        bits: u32,
    },
    /// Copies both halves of a 128-bit register.
    CopyPair {
        d: [Slot; 2],
        a: [Slot; 2],
    },
    Clock {
        d: Slot,
        clock: Clock,
    },
    ActiveMask {
        d: Slot,
    },
    ToGeneric {
        d: Slot,
        a: Slot,
        base: u64,
    },
    FromGeneric {
        d: Slot,
        a: Slot,
        base: u64,
        width: u8,
    },
    IsSpace {
        d: Slot,
        a: Slot,
        space: Space,
    },
    Load(Box<Load>),
    Store(Box<Store>),
    Atomic(Box<Atomic>),
    AsyncCopy(Box<AsyncCopy>),
    Mbarrier(Box<Mbarrier>),
    Bulk(Box<Bulk>),
    BulkCommit,
    /// Waits until at most this many committed groups of bulk copies are pending.
    BulkWait(u32),
    CommitGroup,
    /// Waits until at most this many committed groups are pending; `None` waits
    /// for everything, uncommitted copies too.
    WaitGroup(Option<u32>),
    /// Copies bytes within local memory: arguments and results of a call.
    CopyLocal {
        from: Address,
        to: Address,
        bytes: u32,
    },
    Print(Box<Print>),
    /// Touches an address only to check it (prefetch).
    Prefetch,
    Branch {
        target: u32,
    },
    BranchTable {
        targets: Box<[u32]>,
        index: Slot,
    },
    Call {
        target: u32,
    },
    CallFramed(Box<FramedCall>),
    Return,
    Exit,
    Trap,
    Assert {
        message: Slot,
    },
    Barrier(Box<Barrier>),
    Warp {
        op: WarpOp,
        mask: Slot,
    },
    Fence {
        scope: Scope,
    },
    Nop,
}

/// Groups of instructions that the counters tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Class {
    Integer,
    Float32,
    Float64,
    Half,
    Convert,
    Move,
    Predicate,
    Control,
    Barrier,
    Warp,
    Matrix,
    LoadGlobal,
    StoreGlobal,
    LoadShared,
    StoreShared,
    OtherMemory,
    Atomic,
    Async,
    Other,
}

/// Where an instruction stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its place in the PTX text.
    pub pos: crate::ptx::Pos,
    /// The source file (index into [`super::Kernel::files`]) and line of the
    /// `.loc` before it.
    pub loc: Option<(u32, u32)>,
    /// Where the code was inlined: an index into [`super::Kernel::chains`].
    pub chain: u32,
    /// What the counters count it as.
    pub class: Class,
}

/// Special registers with one value a lane for the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Special {
    ThreadId(u8),
    ThreadCount(u8),
    CtaId(u8),
    CtaCount(u8),
    LaneId,
    WarpId,
    WarpCount,
    SmId,
    SmCount,
    GridId,
    WarpSize,
    LaneMaskEq,
    LaneMaskLt,
    LaneMaskLe,
    LaneMaskGt,
    LaneMaskGe,
    DynamicSharedBytes,
    TotalSharedBytes,
    ClusterZero,
    ClusterOne,
    /// Where a thread's frame and the free part of its stack begin: 0 is nowhere yet.
    FramePointer,
    StackPointer,
    /// What a driver puts there; 1 and 2 hold the workspace of grid barriers.
    Environment(u8),
}
