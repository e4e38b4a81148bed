//! What the cache says when something is wrong with it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The ways in which a cache can fail. Each is told once per process, since what fails
/// for one kernel mostly fails for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An entry is damaged; it was compiled anew.
    Damaged,
    /// An entry cannot be read.
    Unreadable,
    /// Entries cannot be written, so that the next run compiles again.
    Unwritable,
    /// The file system has no locks, so that two processes may compile the same kernel.
    NoLocks,
    /// Another process holds a kernel's lock for too long.
    Busy,
    /// The manifest cannot be written.
    Manifest,
    /// The device refused an image; it was compiled anew.
    Refused,
    /// What a stand-in was used for does not compile.
    Upgrade,
    /// A setting cannot be used.
    Setting,
}

/// How many kinds there are.
const FAULTS: usize = Fault::Setting as usize + 1;

/// A fault with its circumstances.
#[derive(Clone, Debug)]
pub struct Warning {
    /// The kind.
    pub fault: Fault,
    /// What happened where.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consequence = match self.fault {
            Fault::Damaged => "the kernel is compiled anew",
            Fault::Unreadable => "it counts as absent",
            Fault::Unwritable => "kernels compiled now are not kept",
            Fault::NoLocks => "processes that start together may compile the same kernel",
            Fault::Busy => "going on without it",
            Fault::Manifest => "the requests of this run are not recorded",
            Fault::Refused => "the kernel is compiled anew",
            Fault::Upgrade => "the stand-in stays in use",
            Fault::Setting => "it is not used",
        };
        write!(f, "kernel cache: {}; {consequence}", self.message)
    }
}

/// Where warnings go.
pub type Sink = Arc<dyn Fn(&Warning) + Send + Sync>;

/// Prints `warning: ...` to stderr.
pub fn to_stderr() -> Sink {
    Arc::new(|warning| eprintln!("warning: {warning}"))
}

/// Passes on the first fault of each kind.
pub(crate) struct Warner {
    sink: Sink,
    told: [AtomicBool; FAULTS],
}

impl Warner {
    pub(crate) fn new(sink: Sink) -> Warner {
        Warner { sink, told: Default::default() }
    }

    pub(crate) fn warn(&self, fault: Fault, message: impl Into<String>) {
        if !self.told[fault as usize].swap(true, Ordering::Relaxed) {
            (self.sink)(&Warning { fault, message: message.into() });
        }
    }
}

impl fmt::Debug for Warner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warner").field("told", &self.told).finish_non_exhaustive()
    }
}
