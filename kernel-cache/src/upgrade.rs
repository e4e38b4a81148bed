//! Compiling beside a run what the run uses stand-ins for.

use std::{
    io,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use phobos_artifact::CompileRequest;

/// A thread that compiles kernels for which stand-ins were used. Dropped, it ends after the
/// kernel that it is at, and nobody waits for it: what it did not come to, a later run does.
#[derive(Debug)]
pub struct Upgrade {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upgrade {
    pub(crate) fn start(
        compile: impl Fn(&CompileRequest) -> ControlFlow<()> + Send + 'static,
        requests: Vec<CompileRequest>,
    ) -> io::Result<Upgrade> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            for request in &requests {
                if stopped.load(Ordering::Relaxed) || compile(request).is_break() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("kernel upgrade".to_owned()).spawn(work)?;
        Ok(Upgrade { stop, thread: Some(thread) })
    }

    /// Waits until everything that can be compiled is.
    pub fn wait(mut self) {
        // A panic there has been printed, and took nothing else along.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Upgrade {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
