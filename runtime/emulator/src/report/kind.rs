//! The kinds of report and how serious they are.

use serde::Serialize;

/// How serious a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; the run still counts as clean.
    Note,
    /// The kernel is wrong.
    Fault,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $severity:ident, $title:literal;)*) => {
        /// The kinds of report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum FaultKind {
            $($(#[$doc])* $name,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$name),*];

            /// The name shown in reports.
            pub fn title(self) -> &'static str {
                match self {
                    $(FaultKind::$name => $title,)*
                }
            }

            /// How serious it is unless the user says otherwise.
            pub fn severity(self) -> Severity {
                match self {
                    $(FaultKind::$name => Severity::$severity,)*
                }
            }

            fn identifier(self) -> &'static str {
                match self {
                    $(FaultKind::$name => stringify!($name),)*
                }
            }
        }
    };
}

kinds! {
    /// An access outside of every allocation, or past the end of shared, local,
    /// parameter or constant memory.
    OutOfBounds: Fault, "out-of-bounds access";
    /// An access to a freed allocation.
    UseAfterFree: Fault, "use after free";
    /// A write to memory that kernels may only read.
    ReadOnly: Fault, "write to read-only memory";
    /// An address that is not a multiple of the access size.
    Misaligned: Fault, "misaligned access";
    /// An undefined value decides a branch, a guard or a mask.
    UninitializedBranch: Fault, "control depends on an uninitialised value";
    /// An undefined value is used as an address.
    UninitializedAddress: Fault, "uninitialised address";
    /// An undefined value is stored to global memory: padding, as long as nobody
    /// compares it.
    UninitializedStore: Note, "uninitialised value stored";
    /// An atomic updates memory, or by a value, that is undefined.
    UninitializedAtomic: Fault, "uninitialised value in an atomic";
    /// Output that someone compares is undefined.
    UninitializedOutput: Fault, "uninitialised output";
    /// Two threads of a warp access shared memory, one writes, nothing orders them.
    WarpRace: Fault, "race within a warp";
    /// The same of two warps.
    SharedRace: Fault, "race in shared memory";
    /// Two threads of a CTA race in global memory.
    GlobalRace: Fault, "race in global memory within a CTA";
    /// Two CTAs race in global memory.
    CtaRace: Fault, "race in global memory between CTAs";
    /// Unordered stores that write what was there already.
    SameValueRace: Note, "unordered stores of the same value";
    /// A race whose read gives a value that nothing uses.
    DeadReadRace: Note, "race with a read whose value is not used";
    /// Lanes of a warp exchange values through volatile accesses alone.
    VolatileExchange: Note, "volatile exchange within a warp";
    /// A non-coherent load of memory that the kernel writes.
    NonCoherentRead: Fault, "non-coherent load of memory that the kernel writes";
    /// An access to shared memory that an asynchronous copy is still writing.
    AsyncInFlight: Fault, "access to an unfinished asynchronous copy";
    /// The source of an asynchronous copy is overwritten before its wait.
    AsyncSource: Fault, "source of an unfinished asynchronous copy overwritten";
    /// A thread exits with asynchronous copies never waited for.
    AsyncNotWaited: Fault, "asynchronous copy never waited for";
    /// Lanes of a warp meet an aligned barrier at different instructions.
    BarrierDivergence: Fault, "divergent barrier";
    /// Threads exited without reaching a barrier that others waited at.
    BarrierExited: Note, "barrier not reached by all threads";
    /// A barrier number or thread count that does not exist.
    BadBarrier: Fault, "bad barrier operand";
    /// Nothing can run and threads still wait.
    Deadlock: Fault, "deadlock";
    /// A lane is not in its own member mask, or the mask names exited lanes.
    MemberMask: Fault, "wrong member mask";
    /// A matrix instruction without all 32 lanes.
    MissingLanes: Fault, "matrix instruction without all lanes";
    /// A shuffle reads a lane that takes no part.
    ShuffleSource: Fault, "shuffle from an inactive lane";
    /// `trap`.
    Trap: Fault, "trap";
    /// A failed `assert`.
    Assert: Fault, "assertion failed";
    /// The run did not end within its limit of instructions.
    InstructionLimit: Fault, "instruction limit reached";
    /// The run was ended by a time limit or a signal.
    Interrupted: Fault, "interrupted";
    /// Outputs differ from one schedule to the next.
    ScheduleDependent: Fault, "output depends on the schedule";
}

impl FaultKind {
    /// The name in JSON and on the command line: `warp_race`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in self.identifier().chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<FaultKind> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Whether reports of the kind have two sides that dedupe as a pair.
    pub fn is_race(self) -> bool {
        matches!(
            self,
            FaultKind::WarpRace
                | FaultKind::SharedRace
                | FaultKind::GlobalRace
                | FaultKind::CtaRace
                | FaultKind::SameValueRace
                | FaultKind::DeadReadRace
                | FaultKind::VolatileExchange
                | FaultKind::AsyncInFlight
        )
    }
}
