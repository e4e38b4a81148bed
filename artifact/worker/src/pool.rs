//! The pool of worker processes.

use std::{
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{CompileError, KernelSource, available_parallelism, compile_all, locate, process::Worker};
use phobos_artifact::{Artifact, CompileRequest};

/// How a [`WorkerPool`] runs its workers.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The worker program; `None` looks for it (`PHOBOS_COMPILE`, beside this
    /// executable or one folder up, `PATH`).
    pub program: Option<PathBuf>,
    /// The most processes at a time; 0 counts as 1.
    pub workers: usize,
    /// The most time for one kernel, and for a worker to start.
    pub timeout: Duration,
    /// The most memory of a worker in bytes, passed on as `--memory-limit`: the
    /// worker sets the limit on itself.
    pub memory_limit: Option<u64>,
    /// Whether the worker's log also goes to this process's stderr.
    pub echo_log: bool,
}

impl Default for WorkerOptions {
    /// A worker per CPU, 5 minutes, 8 GiB.
    fn default() -> WorkerOptions {
        WorkerOptions {
            program: None,
            workers: available_parallelism(),
            timeout: Duration::from_secs(300),
            memory_limit: Some(8 << 30),
            echo_log: false,
        }
    }
}

/// Compiles in `phobos-compile --worker` processes, started when first needed and kept
/// for the next request. A worker that dies, hangs or talks nonsense costs the
/// request it was working on an error, and the next request gets a new worker.
/// Dropping the pool ends all of them.
#[derive(Debug)]
pub struct WorkerPool {
    options: WorkerOptions,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Requests being worked on.
    busy: usize,
    /// Workers that wait for one.
    idle: Vec<Worker>,
}

impl WorkerPool {
    /// A pool without a process yet.
    pub fn new(options: WorkerOptions) -> WorkerPool {
        WorkerPool { options, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Compiles all of `requests` on all workers: see [`compile_all`].
    pub fn compile_all(
        &self,
        requests: &[CompileRequest],
        progress: &dyn Fn(usize, usize),
    ) -> Vec<Result<Artifact, CompileError>> {
        compile_all(self, requests, progress)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its turn and takes an idle worker if one lives.
    fn take(&self) -> (Turn<'_>, Option<Worker>) {
        let mut state = self.lock();
        while state.busy >= self.parallelism() {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.busy += 1;
        let mut worker = state.idle.pop();
        drop(state);
        let turn = Turn(self);
        // One that died while idle must not be blamed on the next kernel.
        while worker.as_mut().is_some_and(|worker| !worker.is_alive()) {
            worker = self.lock().idle.pop();
        }
        (turn, worker)
    }
}

impl KernelSource for WorkerPool {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        let (_turn, worker) = self.take();
        let mut worker = match worker {
            Some(worker) => worker,
            None => {
                let program = match &self.options.program {
                    Some(program) => program.clone(),
                    None => locate::locate()?,
                };
                Worker::start(program, &self.options, request)?
            }
        };
        let result = worker.ask(request, self.options.timeout);
        match &result {
            Err(error) if !error.worker_lives() => worker.kill(),
            _ => self.lock().idle.push(worker),
        }
        result
    }

    fn parallelism(&self) -> usize {
        self.options.workers.max(1)
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let mut idle = std::mem::take(&mut self.lock().idle);
        // All are told before the first is waited for.
        for worker in &mut idle {
            worker.hang_up();
        }
    }
}

/// The right to keep one worker busy, given back when dropped.
struct Turn<'a>(&'a WorkerPool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.freed.notify_one();
    }
}
