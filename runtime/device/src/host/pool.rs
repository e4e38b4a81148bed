//! Threads that stay, for parallel loops of a few microseconds.
//!
//! A loop is published in one atomic word: its generation, whether it is open, and how
//! many workers are inside. Workers enter while it is open, take chunks of indices
//! from a counter, and leave. The launching thread works too; when no index is left it
//! closes the loop and waits only for workers that are inside. A worker that is
//! asleep, or that the system has not scheduled, therefore delays nothing.
//!
//! Idle workers spin for [`SPIN`], for the next launch usually follows at once, then sleep.
#![allow(unsafe_code)]

use std::{
    any::Any,
    cell::UnsafeCell,
    hint::spin_loop,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::error::DeviceError;

/// The most threads of a pool.
pub(super) const MAX_THREADS: usize = 1024;

/// How long an idle worker watches for work before it sleeps.
const SPIN: Duration = Duration::from_micros(200);
/// Looks at the state between two looks at the clock.
const LOOKS: u32 = 64;
/// Chunks per thread. With one, a thread streams one part of the weights and what it
/// prefetches is its own; with eight, decoding on two threads was a quarter slower. A
/// thread that is late still finds its chunk taken by another.
const CHUNKS_PER_THREAD: u64 = 1;

/// The body of a loop: thread number and indices.
type Body<'a> = dyn Fn(usize, Range<u64>) + Sync + 'a;

/// The state word: bits 32.. the generation, bit 31 open, bit 30 shutdown, below it the
/// number of workers inside.
const OPEN: u64 = 1 << 31;
const SHUTDOWN: u64 = 1 << 30;
const INSIDE: u64 = SHUTDOWN - 1;

/// A thread pool. Dropping it ends its threads.
pub(super) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    generation: u32,
}

/// Keeps a hot word on a cache line of its own (two: x86 prefetches pairs).
#[repr(align(128))]
struct Padded<T>(T);

struct Shared {
    state: Padded<AtomicU64>,
    /// The next index to take.
    next: Padded<AtomicU64>,
    job: Padded<UnsafeCell<Job>>,
    /// Workers that sleep or are about to.
    sleepers: AtomicU32,
    sleep: Mutex<()>,
    wake: Condvar,
    /// What a body panicked with.
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

#[derive(Clone, Copy)]
struct Job {
    /// `None` before the first loop. The lifetime is erased: valid while the loop is
    /// open or workers are inside.
    body: Option<*const Body<'static>>,
    total: u64,
    chunk: u64,
}

// SAFETY: `job` is written by the launching thread only while the loop is closed and
// nobody is inside, and read by workers only while they are inside; entering and
// leaving are acquire and release operations on `state`. The body is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool of `threads` threads, the caller of [`Pool::run`] included.
    pub fn new(threads: usize) -> Result<Pool, DeviceError> {
        let shared = Arc::new(Shared {
            state: Padded(AtomicU64::new(0)),
            next: Padded(AtomicU64::new(0)),
            job: Padded(UnsafeCell::new(Job { body: None, total: 0, chunk: 1 })),
            sleepers: AtomicU32::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            panicked: Mutex::new(None),
        });
        // Made first, so that dropping it ends the threads already there if one fails.
        let mut pool = Pool { shared, workers: Vec::new(), generation: 0 };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let worker = thread::Builder::new()
                .name(format!("phobos-host-{index}"))
                .spawn(move || shared.work(index))
                .map_err(|source| DeviceError::System { action: "start a thread", source })?;
            pool.workers.push(worker);
        }
        Ok(pool)
    }

    /// Calls `body` so that every index below `total` is in one of the ranges, once.
    /// Thread numbers are below the pool's size, and no two calls at once have the same.
    /// Returns when all calls have. A body that panics makes this panic.
    ///
    /// `total` must be at most 2^62.
    pub fn run(&mut self, total: u64, body: &Body<'_>) {
        if self.workers.is_empty() || total <= 1 {
            if total > 0 {
                body(0, 0..total);
            }
            return;
        }
        let threads = self.workers.len() as u64 + 1;
        let chunk = (total / (threads * CHUNKS_PER_THREAD)).max(1);
        let shared = &*self.shared;

        // SAFETY: only the lifetime changes; `Loop` below ends every use before `body`'s ends.
        let body = unsafe { std::mem::transmute::<&Body<'_>, &'static Body<'static>>(body) };
        let job = Job { body: Some(body), total, chunk };
        // SAFETY: `&mut self` makes this the only launching thread, and the last loop was
        // closed and left by all (`Loop::drop`), so nobody reads the cell.
        unsafe { *shared.job.0.get() = job };
        shared.next.0.store(0, Ordering::Relaxed);
        self.generation = self.generation.wrapping_add(1);
        // Sequentially consistent with the worker's registration in `sleep_until_work`: either
        // we see the sleeper or it sees the open loop.
        shared.state.0.store((u64::from(self.generation) << 32) | OPEN, Ordering::SeqCst);
        let open = Loop(shared);
        shared.wake_for(total - 1);
        shared.take_chunks(0, &job);
        drop(open);

        let panicked = shared.panicked.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
    }
}

/// An open loop: closing it waits for everyone inside, also when the body panics.
struct Loop<'a>(&'a Shared);

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        let state = &self.0.state.0;
        let mut inside = state.fetch_and(!OPEN, Ordering::AcqRel) & INSIDE;
        let mut looks = 0u32;
        while inside != 0 {
            spin_loop();
            looks += 1;
            if looks > 10_000 {
                // More threads than free cores: let the worker have this one.
                thread::yield_now();
            }
            inside = state.load(Ordering::Acquire) & INSIDE;
            looks = looks.min(20_000);
        }
        if thread::panicking() {
            // The launching thread's own panic is on its way; a worker's must not wait for the
            // next loop.
            *self.0.panicked.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl Shared {
    /// Wakes as many sleepers as `programs` can use.
    fn wake_for(&self, programs: u64) {
        let sleepers = self.sleepers.load(Ordering::SeqCst);
        if sleepers == 0 {
            return;
        }
        // A sleeper holds the lock from its last look at the state until it waits.
        drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        if programs >= u64::from(sleepers) {
            self.wake.notify_all();
        } else {
            (0..programs).for_each(|_| self.wake.notify_one());
        }
    }

    fn take_chunks(&self, thread: usize, job: &Job) {
        let Some(body) = job.body else { return };
        // SAFETY: the caller is inside the open loop (or is the launching thread), so the
        // body is alive.
        let body = unsafe { &*body };
        loop {
            let start = self.next.0.fetch_add(job.chunk, Ordering::Relaxed);
            if start >= job.total {
                return;
            }
            body(thread, start..(start + job.chunk).min(job.total));
        }
    }

    /// A worker's life.
    fn work(&self, thread: usize) {
        let mut seen = 0;
        while let Some(generation) = self.enter(seen) {
            seen = generation;
            // SAFETY: inside an open loop, so the launching thread does not write the cell.
            let job = unsafe { *self.job.0.get() };
            let outcome = catch_unwind(AssertUnwindSafe(|| self.take_chunks(thread, &job)));
            if let Err(panic) = outcome {
                *self.panicked.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
            self.state.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for an open loop other than `seen` and enters it; `None` at shutdown.
    fn enter(&self, seen: u32) -> Option<u32> {
        let mut deadline = None;
        let mut looks = 0u32;
        loop {
            match self.try_enter(seen) {
                Entered::Inside(generation) => return Some(generation),
                Entered::Shutdown => return None,
                Entered::Nothing => {}
            }
            spin_loop();
            looks += 1;
            if looks.is_multiple_of(LOOKS) {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + SPIN) {
                    self.sleep_until_work(seen);
                    deadline = None;
                }
            }
            looks %= LOOKS;
        }
    }

    fn try_enter(&self, seen: u32) -> Entered {
        let mut state = self.state.0.load(Ordering::Relaxed);
        loop {
            if state & SHUTDOWN != 0 {
                return Entered::Shutdown;
            }
            let generation = (state >> 32) as u32;
            if state & OPEN == 0 || generation == seen {
                return Entered::Nothing;
            }
            match self.state.0.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Entered::Inside(generation),
                Err(now) => state = now,
            }
        }
    }

    fn sleep_until_work(&self, seen: u32) {
        let mut lock = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let state = self.state.0.load(Ordering::SeqCst);
            if state & SHUTDOWN != 0 || (state & OPEN != 0 && (state >> 32) as u32 != seen) {
                break;
            }
            lock = self.wake.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

enum Entered {
    Inside(u32),
    Nothing,
    Shutdown,
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.0.store(SHUTDOWN, Ordering::SeqCst);
        drop(self.shared.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches panics, so this is an `Ok`; nothing could be done otherwise.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_index_runs_once() {
        for threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(threads).unwrap();
            for total in [0u64, 1, 2, 3, 15, 16, 17, 1000] {
                let hits: Vec<AtomicUsize> = (0..total).map(|_| AtomicUsize::new(0)).collect();
                pool.run(total, &|thread, range| {
                    assert!(thread < threads);
                    for index in range {
                        hits[index as usize].fetch_add(1, Ordering::Relaxed);
                    }
                });
                assert!(hits.iter().all(|hit| hit.load(Ordering::Relaxed) == 1), "{threads} {total}");
            }
        }
    }

    #[test]
    fn thread_numbers_are_exclusive() {
        let mut pool = Pool::new(4).unwrap();
        let busy: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
        for _ in 0..200 {
            pool.run(64, &|thread, _| {
                assert_eq!(busy[thread].fetch_add(1, Ordering::SeqCst), 0);
                thread::yield_now();
                busy[thread].fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    #[test]
    fn sleepers_are_woken() {
        let mut pool = Pool::new(3).unwrap();
        for _ in 0..5 {
            thread::sleep(SPIN * 20);
            // Each waits for the other two, so all three must take part.
            let arrived = AtomicUsize::new(0);
            pool.run(3, &|_, _| {
                arrived.fetch_add(1, Ordering::SeqCst);
                let start = Instant::now();
                while arrived.load(Ordering::SeqCst) < 3 {
                    assert!(start.elapsed() < Duration::from_secs(20), "a sleeper was not woken");
                    thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn loops_in_a_row_see_each_others_writes() {
        let mut pool = Pool::new(3).unwrap();
        let values: Vec<AtomicU64> = (0..37).map(|_| AtomicU64::new(0)).collect();
        let rounds = 20_000;
        for round in 0..rounds {
            pool.run(37, &|_, range| {
                for index in range {
                    // Another index's value of the previous loop, through relaxed accesses only:
                    // the pool alone orders them.
                    let value = values[index as usize].load(Ordering::Relaxed);
                    assert_eq!(value, round);
                    values[index as usize].store(value + 1, Ordering::Relaxed);
                }
            });
        }
        assert!(values.iter().all(|value| value.load(Ordering::Relaxed) == rounds));
    }

    #[test]
    fn a_panic_reaches_the_launching_thread_and_the_pool_lives_on() {
        let mut pool = Pool::new(3).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, &|_, range| assert!(!range.contains(&50), "planted"));
        }));
        assert!(caught.is_err());
        let count = AtomicUsize::new(0);
        pool.run(100, &|_, range| {
            count.fetch_add((range.end - range.start) as usize, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 100);
    }
}
