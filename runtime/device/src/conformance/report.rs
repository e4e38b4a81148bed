//! What failed.

use std::fmt;

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases that were run.
    pub cases: usize,
    /// Cases that were not run, because their kernel did not compile or load.
    pub skipped: usize,
    /// Everything that is wrong.
    pub failures: Vec<Failure>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The operation.
    pub op: String,
    /// The shapes and parameters.
    pub case: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// The kernel does not compile; said once per kernel, with the first case that wants it.
    Compile(String),
    /// The device refuses the artifact; said once per kernel.
    Load(String),
    /// The device failed to allocate, copy or launch.
    Run(String),
    /// An output has a wrong element.
    Value {
        /// The output.
        tensor: String,
        /// The index of the first wrong element, outermost first.
        index: Vec<u64>,
        /// The reference.
        wanted: f64,
        /// The result.
        found: f64,
        /// How many elements are wrong.
        wrong: usize,
        /// Of how many.
        of: usize,
    },
    /// A byte outside a tensor was written.
    Guard {
        /// The tensor.
        tensor: String,
        /// The first such byte, relative to the tensor's first.
        offset: i64,
    },
    /// A tensor that is only read was changed.
    InputChanged {
        /// The tensor.
        tensor: String,
        /// The first changed byte.
        offset: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Compile(message) => write!(f, "does not compile: {message}"),
            Problem::Load(message) => write!(f, "does not load: {message}"),
            Problem::Run(message) => write!(f, "does not run: {message}"),
            Problem::Value { tensor, index, wanted, found, wrong, of } => {
                write!(f, "{tensor}{index:?} is {found:e}, {wanted:e} is wanted ({wrong} of {of} are wrong)")
            }
            Problem::Guard { tensor, offset } => {
                write!(f, "a byte outside {tensor} was written, at {offset} from its start")
            }
            Problem::InputChanged { tensor, offset } => {
                write!(f, "{tensor}, which is only read, was changed at byte {offset}")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases, {} failures", self.cases, self.failures.len())?;
        if self.skipped != 0 {
            write!(f, ", {} cases without a kernel", self.skipped)?;
        }
        for Failure { op, case, problem } in &self.failures {
            write!(f, "\n{op}: {case}: {problem}")?;
        }
        Ok(())
    }
}
