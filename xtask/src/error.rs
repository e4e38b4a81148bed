//! The one error type of the tasks: what was tried, on what, and why it did not work.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The result of every task and step.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a task stopped.
#[derive(Debug)]
pub enum Error {
    /// The command line is wrong; the text says how.
    Usage(String),
    /// Packages are missing and may not be installed from here; the text says what to do.
    Setup(String),
    /// A program could not be started.
    Spawn {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// A program ran and failed.
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A program printed something else than was expected of it.
    Output {
        /// The command line.
        command: String,
        /// What was looked for and not found.
        expected: String,
    },
    /// A file operation failed.
    Io {
        /// What was being done: "create", "rename", ...
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A downloaded file is not the one named here.
    Checksum {
        /// The file.
        path: PathBuf,
        /// The SHA-256 that it must have, in hexadecimal.
        expected: String,
        /// The SHA-256 that it has.
        found: String,
    },
    /// A program for people without the compiler's libraries needs them.
    NeedsLlvm {
        /// The program.
        program: PathBuf,
        /// The libraries.
        libraries: Vec<String>,
    },
    /// Kernels that a release has to hold did not compile; each has been named.
    Kernels {
        /// How many.
        failed: usize,
    },
    /// Some rows of a benchmark are not in its table, which names them and says why.
    Unmeasured {
        /// How many.
        rows: usize,
    },
    /// Some stage of `cargo xtask test` failed; the report has been printed.
    Tests(Vec<&'static str>),
}

impl Error {
    /// 2 when the user has to change something, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Setup(_) => 2,
            _ => 1,
        }
    }

    /// For `map_err` after a file operation.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => write!(f, "{text}; `cargo xtask help` lists what there is"),
            Self::Setup(text) => f.write_str(text),
            Self::Spawn { command, source } => write!(f, "cannot start `{command}`: {source}"),
            Self::Failed { command, status } => write!(f, "`{command}` failed: {status}"),
            Self::Output { command, expected } => write!(f, "`{command}` did not print {expected}"),
            Self::Io { action, path, source } => write!(f, "cannot {action} {}: {source}", path.display()),
            Self::Checksum { path, expected, found } => {
                write!(f, "{}: SHA-256 is {found}, expected {expected}", path.display())
            }
            Self::NeedsLlvm { program, libraries } => {
                write!(f, "{} must run without LLVM and needs {}", program.display(), libraries.join(", "))
            }
            Self::Kernels { failed } => {
                write!(f, "{failed} kernels did not compile; `--partial` packs a release without them")
            }
            Self::Unmeasured { rows } => write!(f, "{rows} of the rows could not be measured"),
            Self::Tests(stages) => write!(f, "failed: {}", stages.join(", ")),
        }
    }
}

impl std::error::Error for Error {}
