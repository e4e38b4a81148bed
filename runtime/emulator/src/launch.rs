//! A launch: its geometry, how it is run, what comes out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use phobos_artifact::GpuFacts;

use crate::{
    counters::Counters,
    decode::Kernel,
    memory::global::MemoryError,
    report::{Faults, ThreadPlace},
};

/// The extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// CTAs by axis.
    pub grid: [u32; 3],
    /// Threads of a CTA by axis.
    pub block: [u32; 3],
    /// Shared memory beyond what the kernel declares, in bytes.
    pub dynamic_shared: u32,
    /// All shared memory of a CTA in bytes.
    pub shared_bytes: u32,
    /// Where the barrier of the whole grid lies, for kernels that ask; else 0.
    pub workspace: u64,
}

impl Geometry {
    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// The place of a thread of a CTA, by their linear indices.
    pub fn place(&self, cta: u32, thread: u32) -> ThreadPlace {
        let [gx, gy, _] = self.grid;
        let [bx, by, _] = self.block;
        ThreadPlace {
            cta: [cta % gx, cta / gx % gy, cta / gx / gy],
            thread: [thread % bx, thread / bx % by, thread / bx / by],
            warp: thread / 32,
            lane: thread % 32,
        }
    }

    /// CTAs of the grid.
    pub fn ctas(&self) -> u64 {
        self.grid.iter().map(|extent| u64::from(*extent)).product()
    }
}

/// How the threads of a CTA are interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Lanes run together whenever they can, warps in turn: what hardware mostly
    /// does, and what the counters should be taken from.
    Converged,
    /// Seeded and hostile: lanes diverge anywhere and stay so until a `.sync` or
    /// a barrier joins them; warps are favoured and starved.
    Adversarial(u64),
}

/// How a launch is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Report uninitialised values, races and the like; without it only bounds,
    /// alignment and deadlocks are checked.
    pub strict: bool,
    /// The interleaving.
    pub schedule: Schedule,
    /// Worker threads; 0 takes one for each core.
    pub workers: usize,
    /// Warp-instructions that a CTA may run; a CTA beyond it is taken to hang.
    pub max_instructions: u64,
    /// Warp-instructions that may run without a change of memory, an exit or a
    /// barrier: beyond it they are taken for an endless loop.
    pub max_idle: u64,
    /// When the run is ended, finished or not.
    pub deadline: Option<Instant>,
    /// Set from elsewhere (a signal): the run is ended as soon as it is seen.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            strict: true,
            schedule: Schedule::Converged,
            workers: 0,
            max_instructions: 1 << 30,
            max_idle: 1 << 22,
            deadline: None,
            stop: None,
        }
    }
}

impl Options {
    /// Whether the schedule is hostile.
    pub fn adversarial(&self) -> bool {
        matches!(self.schedule, Schedule::Adversarial(_))
    }

    /// Why the run is to end now, if it is.
    pub fn interrupted(&self) -> Option<&'static str> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Some("by a signal");
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some("by its time limit")
    }

    /// The seed of the schedule.
    pub fn seed(&self) -> u64 {
        match self.schedule {
            Schedule::Converged => 0,
            Schedule::Adversarial(seed) => seed,
        }
    }
}

/// What a launch did. Its results are in global memory.
#[derive(Debug)]
pub struct Outcome {
    /// What went wrong.
    pub faults: Faults,
    /// What ran.
    pub counters: Counters,
    /// Whether it was ended before all CTAs had finished.
    pub ended: bool,
    /// What the kernel printed, CTA by CTA where they cannot hear from each other.
    pub printed: String,
}

/// Why a launch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// An extent is zero.
    #[error("kernel `{kernel}`: the {what} has an extent of 0")]
    Empty {
        /// The kernel.
        kernel: String,
        /// "grid" or "block".
        what: &'static str,
    },
    /// More than a chip takes.
    #[error("kernel `{kernel}`: {what} is {value}, the limit of sm_{chip} is {limit}")]
    Limit {
        /// The kernel.
        kernel: String,
        /// What is limited.
        what: &'static str,
        /// The value asked for.
        value: u64,
        /// The largest one.
        limit: u64,
        /// The chip.
        chip: u32,
    },
    /// Against the kernel's own directive.
    #[error("kernel `{kernel}`: a block of {block:?} threads, but it declares `{directive} {wanted:?}`")]
    Threads {
        /// The kernel.
        kernel: String,
        /// The block asked for.
        block: [u32; 3],
        /// `.reqntid` or `.maxntid`.
        directive: &'static str,
        /// Its extents.
        wanted: [u32; 3],
    },
    /// The parameter buffer has the wrong size.
    #[error("kernel `{kernel}`: its parameters take {wanted} bytes, {given} given")]
    Params {
        /// The kernel.
        kernel: String,
        /// Bytes of its parameters.
        wanted: u32,
        /// Bytes given.
        given: usize,
    },
    /// The host has no room.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Checks a launch against the kernel and the chip it runs on.
pub fn check(
    kernel: &Kernel,
    chip: u32,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    params: &[u8],
) -> Result<Geometry, LaunchError> {
    let name = || kernel.name.clone();
    for (extents, what) in [(grid, "grid"), (block, "block")] {
        if extents.contains(&0) {
            return Err(LaunchError::Empty { kernel: name(), what });
        }
    }
    let product = |extents: [u32; 3]| {
        extents.iter().fold(1u64, |product, extent| product.saturating_mul((*extent).into()))
    };
    let threads = product(block);
    let shared = if dynamic_shared == 0 {
        kernel.shared_bytes
    } else {
        kernel.shared_bytes.next_multiple_of(16) + u64::from(dynamic_shared)
    };
    let registers = u64::from(kernel.max_registers.unwrap_or(0)).saturating_mul(threads);
    let facts = GpuFacts::of(chip);
    let limits = [
        ("the number of threads", threads, facts.threads_per_block.into()),
        ("the block's z extent", block[2].into(), facts.block_z.into()),
        ("the grid's x extent", grid[0].into(), facts.grid[0]),
        ("the grid's y extent", grid[1].into(), facts.grid[1]),
        ("the grid's z extent", grid[2].into(), facts.grid[2]),
        ("shared memory in bytes", shared, facts.shared_per_block.into()),
        ("`.maxnreg` times the threads", registers, facts.registers.into()),
    ];
    for (what, value, limit) in limits {
        if value > limit {
            return Err(LaunchError::Limit { kernel: name(), what, value, limit, chip });
        }
    }
    // The race detector numbers the threads of a launch.
    let total = grid.iter().fold(threads, |total, extent| total.saturating_mul((*extent).into()));
    if total >= u32::MAX.into() {
        return Err(LaunchError::Limit {
            kernel: name(),
            what: "the number of threads of the launch (of this emulator)",
            value: total,
            limit: u32::MAX.into(),
            chip,
        });
    }
    if let Some(wanted) = kernel.required_threads
        && wanted != block
    {
        return Err(LaunchError::Threads { kernel: name(), block, directive: ".reqntid", wanted });
    }
    if let Some(wanted) = kernel.max_threads
        && threads > product(wanted)
    {
        return Err(LaunchError::Threads { kernel: name(), block, directive: ".maxntid", wanted });
    }
    if params.len() != kernel.param_bytes as usize {
        return Err(LaunchError::Params { kernel: name(), wanted: kernel.param_bytes, given: params.len() });
    }
    Ok(Geometry { grid, block, dynamic_shared, shared_bytes: shared as u32, workspace: 0 })
}
