//! The compact instruction form: operands are register slots, constants have
//! slots of their own, labels are instruction indices.

use crate::{
    exec::alu::{Cvt, Cvt2, F1, F2, F3, F4, Shadow},
    ptx::ast::Space,
};

pub use super::parts::*;

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
    MapReplace(Box<MapReplace>),
    MapCopy {
        to: Address,
        from: Address,
    },
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
