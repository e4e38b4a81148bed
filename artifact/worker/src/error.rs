//! Why a kernel could not be had.

use std::{io, path::PathBuf, process::ExitStatus, sync::Arc, time::Duration};

use phobos_artifact::CompileRequest;

use crate::frame::CompileFailure;

/// Why a kernel could not be had. `kernel` is [`CompileRequest::label`]; `stderr` is
/// the end of what the worker printed for this request, each line indented on a line
/// of its own.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompileError {
    /// The source or the request is wrong.
    #[error("kernel {kernel} does not compile:\n{}", failure.rendered.trim_end())]
    Rejected {
        /// What was to be compiled.
        kernel: String,
        /// The diagnostics.
        failure: Box<CompileFailure>,
    },
    /// The compiler met a fault of its own and lives on.
    #[error("internal error of the compiler on kernel {kernel}:\n{}", failure.rendered.trim_end())]
    Internal {
        /// What was to be compiled.
        kernel: String,
        /// What it says.
        failure: Box<CompileFailure>,
    },
    /// The worker process ended before it answered.
    #[error("the compiler died on kernel {kernel} ({status}){stderr}")]
    Died {
        /// What was to be compiled.
        kernel: String,
        /// The signal or exit code.
        status: ExitStatus,
        /// Its last words.
        stderr: String,
    },
    /// The worker took too long and was killed.
    #[error("the compiler was stopped after {}s on kernel {kernel}{stderr}", limit.as_secs_f32())]
    Timeout {
        /// What was to be compiled.
        kernel: String,
        /// The time it had.
        limit: Duration,
        /// Its last words.
        stderr: String,
    },
    /// The worker said something that makes no sense and was killed.
    #[error("the compiler's answer for kernel {kernel} makes no sense: {message}{stderr}")]
    Protocol {
        /// What was to be compiled.
        kernel: String,
        /// What is wrong with the answer.
        message: String,
        /// Its last words.
        stderr: String,
    },
    /// There is no worker program.
    #[error(
        "phobos-compile, which compiles kernels, was not found (looked at {}); \
         build it with `cargo build --release -p phobos-driver` or point PHOBOS_COMPILE at it",
        tried.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NotFound {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// The worker program cannot be started.
    #[error("{}: cannot start the compiler: {error}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        error: Arc<io::Error>,
    },
    /// The worker is another build than this program.
    #[error(
        "{} is another build of the compiler (fingerprint {theirs}, this program has {ours}); \
         rebuild both with `cargo build --release`",
        program.display()
    )]
    OtherBuild {
        /// The program.
        program: PathBuf,
        /// The fingerprint of this program, short.
        ours: String,
        /// The fingerprint that it said, short.
        theirs: String,
    },
}

impl CompileError {
    /// Whether the kernel or the request is at fault: exit code 2 for a person who wrote it.
    pub fn is_user_error(&self) -> bool {
        matches!(self, CompileError::Rejected { .. })
    }

    /// Whether the compiler as a whole is unusable, so that other requests fail alike.
    pub fn is_setup(&self) -> bool {
        match self {
            CompileError::NotFound { .. } | CompileError::Spawn { .. } | CompileError::OtherBuild { .. } => {
                true
            }
            CompileError::Rejected { .. }
            | CompileError::Internal { .. }
            | CompileError::Died { .. }
            | CompileError::Timeout { .. }
            | CompileError::Protocol { .. } => false,
        }
    }

    /// Whether the worker that said so is in order and can take the next request.
    pub(super) fn worker_lives(&self) -> bool {
        matches!(self, CompileError::Rejected { .. } | CompileError::Internal { .. })
    }

    pub(super) fn protocol(
        request: &CompileRequest,
        message: impl Into<String>,
        stderr: impl Into<String>,
    ) -> CompileError {
        CompileError::Protocol { kernel: request.label(), message: message.into(), stderr: stderr.into() }
    }
}
