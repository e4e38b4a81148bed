//! The worker: requests in, artifacts out, over stdin and stdout.

use std::{
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use phobos_artifact::{Artifact, CompileRequest};
use phobos_worker::frame::{CompileFailure, FailureKind, FrameError, Hello, serve};

/// Answers requests until stdin ends.
pub fn run() -> Result<(), FrameError> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let result = serve(&mut input, &mut output, Hello::current(phobos_codegen::loaded_libraries()), answer);
    // Frames are flushed as they are written; this is for the last one.
    output.flush().ok();
    result
}

/// Compiles one request. A panic in the compiler is an internal error of that request.
fn answer(request: &CompileRequest) -> Result<Artifact, CompileFailure> {
    match catch_unwind(AssertUnwindSafe(|| crate::compile(request))) {
        Ok(result) => result.map_err(|failure| failure.0),
        Err(_) => Err(CompileFailure {
            kind: FailureKind::Internal,
            rendered: format!("internal error: the compiler panicked on {}\n", request.label()),
            json: serde_json::Value::Null,
        }),
    }
}
