//! Kernels on demand: the trait that the runtime asks, and the pool of compiler
//! processes that stands behind it.
//!
//! Compilation runs in processes of its own, so that the runtime needs no LLVM and
//! an abort inside LLVM costs one kernel and not the server.

mod error;
pub mod fingerprint;
pub mod frame;
mod locate;
mod pool;
mod process;

use std::{
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use phobos_artifact::{Artifact, CompileRequest};

pub use error::CompileError;
pub use pool::{WorkerOptions, WorkerPool};

/// Where a compiled kernel comes from: a pool of workers, a cache in front of one, or
/// the compiler in the same process.
pub trait KernelSource: Send + Sync {
    /// The artifact of `request`. Blocks until it is there; callable from many threads.
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError>;

    /// How many requests are worth asking at the same time.
    fn parallelism(&self) -> usize {
        available_parallelism()
    }
}

impl<S: KernelSource + ?Sized> KernelSource for &S {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        (**self).get(request)
    }

    fn parallelism(&self) -> usize {
        (**self).parallelism()
    }
}

impl<S: KernelSource + ?Sized> KernelSource for std::sync::Arc<S> {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        (**self).get(request)
    }

    fn parallelism(&self) -> usize {
        (**self).parallelism()
    }
}

impl<S: KernelSource + ?Sized> KernelSource for Box<S> {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        (**self).get(request)
    }

    fn parallelism(&self) -> usize {
        (**self).parallelism()
    }
}

fn available_parallelism() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Asks `source` for every request, several at a time, and returns the results in
/// the order of the requests. `progress` is called on this thread with the number of
/// requests answered and their total, first with 0. Once the compiler proves
/// unusable (absent, another build), the rest are not tried and share that error.
pub fn compile_all<S: KernelSource + ?Sized>(
    source: &S,
    requests: &[CompileRequest],
    progress: &dyn Fn(usize, usize),
) -> Vec<Result<Artifact, CompileError>> {
    let total = requests.len();
    let mut results: Vec<Option<Result<Artifact, CompileError>>> = Vec::new();
    results.resize_with(total, || None);
    let mut unusable: Option<CompileError> = None;
    progress(0, total);

    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (answers, answered) = mpsc::channel();
        let run = |answers: mpsc::Sender<(usize, Result<Artifact, CompileError>)>| {
            while let Some((index, request)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                requests.get(index).map(|request| (index, request))
            } {
                if answers.send((index, source.get(request))).is_err() {
                    break;
                }
            }
        };
        let mut threads = 0;
        for _ in 0..source.parallelism().clamp(1, total.max(1)) {
            let answers = answers.clone();
            match thread::Builder::new().spawn_scoped(scope, move || run(answers)) {
                Ok(_) => threads += 1,
                // A system out of threads: those that there are do the work.
                Err(_) => break,
            }
        }
        if threads == 0 {
            run(answers.clone());
        }
        drop(answers);
        let mut done = 0;
        for (index, result) in answered {
            if let Err(error) = &result
                && error.is_setup()
            {
                next.store(total, Ordering::Relaxed);
                unusable = Some(error.clone());
            }
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(result);
            }
            done += 1;
            progress(done, total);
        }
    });

    let requests = requests.iter();
    results
        .into_iter()
        .zip(requests)
        .map(|(result, request)| {
            result.unwrap_or_else(|| match &unusable {
                Some(error) => Err(error.clone()),
                // Only a panic in `source` leaves a request without an answer.
                None => Err(CompileError::protocol(request, "the request was not answered", "")),
            })
        })
        .collect()
}
