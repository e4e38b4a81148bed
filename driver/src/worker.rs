//! The worker: requests in, artifacts out, over stdin and stdout.

use std::{
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use phobos_artifact::{Artifact, CompileRequest};
use phobos_worker::frame::{CompileFailure, FailureKind, FrameError, Hello, serve};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Signal, getpid, kill_process},
};

/// Answers requests until stdin ends, or no one is left to read the answers.
pub fn run() -> Result<(), FrameError> {
    // Without the watch a worker works as well; it only may outlive who started it.
    let _ = thread::Builder::new().name("reader watch".to_owned()).spawn(end_with_the_reader);
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let result = serve(&mut input, &mut output, Hello::current(phobos_codegen::loaded_libraries()), answer);
    // Frames are flushed as they are written; this is for the last one.
    output.flush().ok();
    result
}

/// Ends this process once the other end of its stdout is closed, as it is when the process
/// that asked was killed: what is being compiled then, perhaps without end, is for no one.
fn end_with_the_reader() {
    let stdout = io::stdout();
    loop {
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        let [stdout] = watched;
        if stdout.revents().contains(PollFlags::ERR) {
            // No exit handlers: the compiler runs on in another thread meanwhile.
            let _ = kill_process(getpid(), Signal::KILL);
        }
        return;
    }
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
