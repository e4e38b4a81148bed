//! Executes PTX text on the CPU and reports what is wrong with it.
//!
//! [`Emulator`] is the whole of it: load a module, allocate, launch, read back.
//! A launch gives the faults that strict mode found and counters of what ran.
//! `docs/emulator.md` describes the model and what it promises.
//!
//! The parts, in the order in which text goes through them: [`ptx`] (syntax),
//! [`decode`] (a compact form with everything resolved), [`exec`] (what each
//! instruction does to a warp), [`machine`] (the state of a CTA), [`memory`]
//! (allocations, overlays, shadows, races), [`sched`] (who runs next), and
//! [`report`] and [`counters`] (what comes out).

pub mod counters;
pub mod decode;
pub mod device;
mod emulator;
pub mod exec;
pub mod launch;
pub mod machine;
pub mod memory;
pub mod number;
pub mod ptx;
pub mod report;
pub mod sched;
pub mod tensor_map;

pub use decode::{Kernel, Program};
pub use device::EmulatorDevice;
pub use emulator::{Emulator, EmulatorError, Params};
pub use launch::{Options, Outcome, Schedule};
pub use ptx::PtxError;
pub use report::{Fault, FaultKind, Severity};
