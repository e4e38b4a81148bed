//! A CTA: its warps, memories, barriers and asynchronous copies.

use std::collections::{HashMap, VecDeque};

use super::{Random, State, Warp};
use crate::{
    decode::{
        Kernel,
        inst::{AtomicOp, BarrierKind, Special},
        types::Ty,
    },
    launch::Geometry,
    memory::{
        clock::{Released, ThreadClock},
        race::Shadow,
    },
    ptx::ast::Space,
};

/// A barrier that threads have arrived at.
#[derive(Clone, Debug, Default)]
pub struct BarrierState {
    /// Arrived lanes by warp.
    pub arrived: Vec<u32>,
    /// Threads that it waits for; `None` is all that have not exited.
    pub expected: Option<u32>,
    /// How many threads of a reduction had a true predicate.
    pub true_count: u32,
    /// How many took part in the reduction.
    pub voters: u32,
    /// What the barrier does, from the first arrival.
    pub kind: Option<BarrierKind>,
    /// Where each warp arrived (aligned barriers must agree).
    pub places: Vec<(u32, u32)>,
}

/// An asynchronous copy that has not landed.
#[derive(Clone, Copy, Debug)]
pub struct PendingCopy {
    /// Shared address.
    pub dst: u32,
    /// Bytes.
    pub bytes: u8,
    /// Global address of the source, and how many bytes of it are read.
    pub src: u64,
    /// The bytes read; the rest is zero.
    pub wanted: u8,
    /// The data read at issue.
    pub data: [u8; 16],
    /// A bit a byte: defined.
    pub defined: u16,
    /// The `cp.async`.
    pub pc: u32,
}

/// A thread's asynchronous copies.
#[derive(Clone, Debug, Default)]
pub struct AsyncQueue {
    /// Not yet in a group.
    pub open: Vec<PendingCopy>,
    /// Committed groups, the oldest first.
    pub groups: VecDeque<Vec<PendingCopy>>,
}

/// An `mbarrier`.
#[derive(Clone, Debug)]
pub struct Phases {
    /// Arrivals that a phase waits for.
    pub expected: i64,
    /// Arrivals still missing.
    pub pending: i64,
    /// Bytes of copies still missing.
    pub transactions: i64,
    /// Phases completed.
    pub phase: u64,
    /// What the arrivals of this phase released.
    pub arrived: Released,
    /// What the completed phases made visible.
    pub visible: Released,
}

impl Phases {
    /// One that waits for so many arrivals.
    pub fn new(expected: i64) -> Phases {
        Phases {
            expected,
            pending: expected,
            transactions: 0,
            phase: 0,
            arrived: Released::default(),
            visible: Released::default(),
        }
    }
}

/// A piece of a bulk copy: where it goes, where it came from, its value, its undefined
/// bytes and its size.
pub type Piece = (u64, Option<(Space, u64)>, u64, u8, u8);

/// A bulk copy in flight.
#[derive(Clone, Debug)]
pub struct BulkCopy {
    /// The thread that issued it.
    pub thread: u32,
    /// The instruction.
    pub pc: u32,
    /// Whether it writes shared memory (else global memory).
    pub to_shared: bool,
    /// What it writes.
    pub pieces: Vec<Piece>,
    /// The mbarrier that counts its bytes.
    pub mbarrier: Option<u32>,
    /// Bytes that the mbarrier counts.
    pub total: i64,
    /// A reduction in place of a store.
    pub reduce: Option<(AtomicOp, Ty)>,
    /// The number of its group among those of its thread; 0 is none yet.
    pub group: u32,
}

/// A running CTA.
#[derive(Debug)]
pub struct Cta {
    /// Its linear index in the grid.
    pub index: u32,
    /// Its place in the grid.
    pub place: [u32; 3],
    /// Threads.
    pub threads: u32,
    /// Its warps.
    pub warps: Vec<Warp>,
    /// Shared memory.
    pub shared: Vec<u8>,
    /// A byte each: whether the byte of shared memory is defined.
    pub shared_defined: Vec<u8>,
    /// Who accessed shared memory.
    pub shared_shadow: Shadow,
    /// Clocks by thread.
    pub clocks: Vec<ThreadClock>,
    /// What released writes to shared memory made visible.
    pub released: HashMap<u64, Released>,
    /// Local memory, thread after thread.
    pub local: Vec<u8>,
    /// A byte each: whether defined.
    pub local_defined: Vec<u8>,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Barriers in use.
    pub barriers: Vec<BarrierState>,
    /// `mbarrier`s by shared address.
    pub phases: HashMap<u32, Phases>,
    /// By thread: the phase of the cluster's barrier that it arrived at.
    pub tokens: HashMap<u32, u64>,
    /// Bulk copies in flight, the oldest first.
    pub bulk: Vec<BulkCopy>,
    /// By thread: groups of bulk copies committed.
    pub bulk_groups: HashMap<u32, u32>,
    /// Asynchronous copies by thread.
    pub queues: Vec<AsyncQueue>,
    /// By word of shared memory: 1 + thread and the instruction of a copy in flight.
    pub in_flight: Vec<(u32, u32)>,
    /// How many words are in flight.
    pub flying: u32,
    /// Warp-instructions run.
    pub executed: u64,
    /// The source of its schedule.
    pub random: Random,
    /// The warp that ran last.
    pub last_warp: usize,
    /// Whether a group just used up its turn while others could run.
    pub starved: bool,
    /// Whether it was ended by a fault.
    pub aborted: bool,
}

impl Cta {
    /// A CTA without a place, to be [`Cta::start`]ed.
    pub fn new(kernel: &Kernel, geometry: &Geometry, strict: bool) -> Cta {
        let threads = geometry.threads();
        let warps = threads.div_ceil(32) as usize;
        let shared = geometry.shared_bytes as usize;
        let local = kernel.local_bytes as usize * threads as usize;
        let flags = |bytes: usize| if strict { vec![0; bytes] } else { Vec::new() };
        Cta {
            index: 0,
            place: [0; 3],
            threads,
            warps: (0..warps).map(|_| Warp::new(kernel, strict)).collect(),
            shared: vec![0; shared],
            shared_defined: flags(shared),
            shared_shadow: Shadow::new(if strict { shared.div_ceil(4) } else { 0 }),
            clocks: if strict { vec![ThreadClock::default(); threads as usize] } else { Vec::new() },
            released: HashMap::new(),
            local: vec![0; local],
            local_defined: flags(local),
            local_bytes: kernel.local_bytes,
            barriers: vec![BarrierState::default(); 16],
            phases: HashMap::new(),
            tokens: HashMap::new(),
            bulk: Vec::new(),
            bulk_groups: HashMap::new(),
            queues: Vec::new(),
            in_flight: Vec::new(),
            flying: 0,
            executed: 0,
            random: Random::new(0),
            last_warp: 0,
            starved: false,
            aborted: false,
        }
    }

    /// Puts the CTA at the start of its run as number `index` of the grid.
    pub fn start(&mut self, kernel: &Kernel, geometry: &Geometry, index: u32, seed: u64, strict: bool) {
        self.index = index;
        let [x, y, _] = geometry.grid;
        self.place = [index % x, index / x % y, index / x / y];
        self.shared.fill(0);
        self.shared_defined.fill(0);
        self.shared_shadow.clear();
        self.clocks.fill(ThreadClock::default());
        self.released.clear();
        self.local.fill(0);
        self.local_defined.fill(0);
        self.barriers.fill(BarrierState::default());
        self.phases.clear();
        self.tokens.clear();
        self.bulk.clear();
        self.bulk_groups.clear();
        self.queues.clear();
        self.in_flight.clear();
        self.flying = 0;
        self.executed = 0;
        self.last_warp = 0;
        self.starved = false;
        self.aborted = false;
        self.random = Random::new(seed ^ u64::from(index).wrapping_mul(0xd6e8_feb8_6659_fd93));
        for w in 0..self.warps.len() {
            let first = w as u32 * 32;
            let count = (self.threads - first).min(32);
            let populated = if count == 32 { u32::MAX } else { (1 << count) - 1 };
            let warp = &mut self.warps[w];
            warp.reset(kernel, populated, strict);
            for (slot, special) in &kernel.specials {
                for lane in 0..32 {
                    let value = special_value(*special, geometry, self.place, index, first, lane);
                    warp.set(*slot, lane as usize, value);
                }
            }
        }
    }

    /// Whether every thread has exited.
    pub fn finished(&self) -> bool {
        self.aborted || self.warps.iter().all(|warp| warp.groups.is_empty())
    }

    /// Whether some group can run.
    pub fn runnable(&self) -> bool {
        self.warps.iter().any(|warp| warp.groups.iter().any(|group| group.state == State::Ready))
    }

    /// Threads that have not exited.
    pub fn live_threads(&self) -> u32 {
        self.warps.iter().map(|warp| warp.live().count_ones()).sum()
    }
}

fn special_value(
    special: Special,
    geometry: &Geometry,
    place: [u32; 3],
    cta: u32,
    first: u32,
    lane: u32,
) -> u64 {
    let thread = first + lane;
    let [bx, by, _] = geometry.block;
    let value = match special {
        Special::ThreadId(0) => thread % bx,
        Special::ThreadId(1) => thread / bx % by,
        Special::ThreadId(_) => thread / bx / by,
        Special::ThreadCount(axis) => geometry.block[usize::from(axis.min(2))],
        Special::CtaId(axis) => place[usize::from(axis.min(2))],
        Special::CtaCount(axis) => geometry.grid[usize::from(axis.min(2))],
        Special::LaneId => lane,
        Special::WarpId => first / 32,
        Special::WarpCount => geometry.threads().div_ceil(32),
        Special::SmId => cta % 16,
        Special::SmCount => 16,
        Special::Environment(index) => match index {
            1 => (geometry.workspace >> 32) as u32,
            2 => geometry.workspace as u32,
            _ => 0,
        },
        Special::GridId | Special::ClusterZero | Special::FramePointer | Special::StackPointer => 0,
        Special::WarpSize => 32,
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskLe => u32::MAX >> (31 - lane),
        Special::LaneMaskGt => !(u32::MAX >> (31 - lane)),
        Special::LaneMaskGe => !((1 << lane) - 1),
        Special::DynamicSharedBytes => geometry.dynamic_shared,
        Special::TotalSharedBytes => geometry.shared_bytes,
        Special::ClusterOne => 1,
    };
    value.into()
}
