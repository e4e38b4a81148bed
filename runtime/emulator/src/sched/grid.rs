//! The schedule of CTAs.

use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use super::{coherence::Coherence, cta, merge::LaunchShadow};
use crate::{
    counters::Counters,
    decode::{Kernel, Program},
    exec::Executor,
    launch::{Geometry, Options, Outcome},
    machine::{Cta, Random},
    memory::{
        global::GlobalMemory,
        overlay::{Changes, Overlay},
    },
    report::Faults,
};

/// CTAs whose changes are committed together. Fixed: it may not depend on the
/// number of workers.
const WAVE: u32 = 16;
/// Memory that the CTAs alive at the same time may take.
const RESIDENT_BYTES: usize = 1 << 30;

/// What one CTA of a wave left behind.
struct CtaResult {
    changes: Changes,
    faults: Faults,
    needs_serial: bool,
    printed: String,
    /// It reached a limit: the launch ends with it.
    ended: bool,
}

/// Everything about a launch that its CTAs share.
struct Job<'a> {
    kernel: &'a Kernel,
    geometry: &'a Geometry,
    options: &'a Options,
    params: &'a [u8],
    constants: &'a [u8],
    /// The first CTA that reached a limit: those after it need not run.
    ended_at: AtomicU32,
}

impl<'a> Job<'a> {
    fn executor<'m>(&self, memory: &'m GlobalMemory) -> Executor<'m>
    where
        'a: 'm,
    {
        Executor::new(
            self.kernel,
            self.geometry,
            self.options,
            self.params,
            self.constants,
            Overlay::new(memory),
        )
    }

    fn cta(&self) -> Cta {
        Cta::new(self.kernel, self.geometry, self.options.strict)
    }

    fn start(&self, cta: &mut Cta, index: u32) {
        cta.start(self.kernel, self.geometry, index, self.options.seed(), self.options.strict);
    }
}

/// Runs a checked launch over `memory`.
pub fn launch(
    memory: &mut GlobalMemory,
    program: &Program,
    kernel: &Kernel,
    geometry: &Geometry,
    params: &[u8],
    options: &Options,
) -> Outcome {
    let job = Job {
        kernel,
        geometry,
        options,
        params,
        constants: &program.constants,
        ended_at: AtomicU32::new(u32::MAX),
    };
    if kernel.communicates { interleaved(memory, &job) } else { waves(memory, &job) }
}

fn workers(options: &Options) -> usize {
    if options.workers > 0 {
        return options.workers;
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn run_one(
    job: &Job<'_>,
    memory: &GlobalMemory,
    state: &mut Cta,
    index: u32,
    defer: bool,
    counters: &mut Counters,
) -> CtaResult {
    let mut exec = job.executor(memory);
    exec.defer = defer;
    job.start(state, index);
    while cta::run(&mut exec, state, 1 << 16) == cta::Progress::Running && !exec.needs_serial {
        if job.ended_at.load(Ordering::Relaxed) < index {
            break;
        }
    }
    if exec.ended {
        job.ended_at.fetch_min(index, Ordering::Relaxed);
    }
    if !exec.needs_serial {
        counters.merge(&exec.counters);
    }
    CtaResult {
        faults: exec.faults,
        needs_serial: exec.needs_serial,
        ended: exec.ended,
        printed: exec.printed,
        changes: exec.global.finish(),
    }
}

fn waves(memory: &mut GlobalMemory, job: &Job<'_>) -> Outcome {
    let total = job.geometry.ctas() as u32;
    let count = workers(job.options).clamp(1, WAVE.min(total) as usize);
    let mut states: Vec<Cta> = (0..count).map(|_| job.cta()).collect();
    let mut counters = Counters::new(job.kernel.code.len());
    let mut faults = Faults::new(job.kernel.place_ids.clone());
    let mut shadow = LaunchShadow::default();
    let mut coherence = Coherence::default();
    let mut printed = String::new();
    let mut first = 0;
    let mut ended = false;
    while first < total && !ended {
        let wave = WAVE.min(total - first);
        let results = run_wave(memory, job, &mut states, first, wave, &mut counters);
        for (offset, result) in results.into_iter().enumerate() {
            let index = first + offset as u32;
            let result = match result {
                Some(result) if !result.needs_serial => result,
                // It reads what it only queued: once more, on what is committed.
                _ => match states.first_mut() {
                    Some(state) => run_one(job, memory, state, index, false, &mut counters),
                    None => continue,
                },
            };
            if job.options.strict {
                shadow.check(memory, job.kernel, job.geometry, &result.changes, &mut faults);
            }
            if job.options.strict && job.kernel.noncoherent {
                coherence.add(&result.changes);
            }
            memory.commit(&result.changes);
            printed.push_str(&result.printed);
            faults.merge(result.faults);
            // What the CTAs after it did depends on how far they came: left out.
            ended = result.ended;
            if ended {
                break;
            }
        }
        first += wave;
    }
    coherence.report(memory, job.geometry, &mut faults);
    Outcome { faults, counters, ended, printed }
}

fn run_wave(
    memory: &GlobalMemory,
    job: &Job<'_>,
    states: &mut [Cta],
    first: u32,
    wave: u32,
    counters: &mut Counters,
) -> Vec<Option<CtaResult>> {
    let mut results: Vec<Option<CtaResult>> = (0..wave).map(|_| None).collect();
    if states.len() == 1 || wave == 1 {
        if let Some(state) = states.first_mut() {
            for (offset, slot) in results.iter_mut().enumerate() {
                *slot = Some(run_one(job, memory, state, first + offset as u32, true, counters));
            }
        }
        return results;
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new((results, counters));
    std::thread::scope(|scope| {
        for state in states.iter_mut() {
            let (next, done) = (&next, &done);
            scope.spawn(move || {
                let mut mine = Counters::new(job.kernel.code.len());
                loop {
                    let offset = next.fetch_add(1, Ordering::Relaxed);
                    if offset >= wave as usize {
                        break;
                    }
                    let result = run_one(job, memory, state, first + offset as u32, true, &mut mine);
                    if let Ok(mut done) = done.lock()
                        && let Some(slot) = done.0.get_mut(offset)
                    {
                        *slot = Some(result);
                    }
                }
                if let Ok(mut done) = done.lock() {
                    done.1.merge(&mine);
                }
            });
        }
    });
    done.into_inner().map_or_else(|poisoned| poisoned.into_inner().0, |(results, _)| results)
}

/// Bytes that a CTA takes on the host.
fn state_bytes(job: &Job<'_>) -> usize {
    let slots = job.kernel.slots as usize;
    let warps = job.geometry.threads().div_ceil(32) as usize;
    let register = if job.options.strict { 256 + 32 + 4 } else { 256 + 4 };
    let shared = job.geometry.shared_bytes as usize * if job.options.strict { 22 } else { 1 };
    warps * slots * register + shared + job.kernel.local_bytes as usize * job.geometry.threads() as usize
}

fn interleaved(memory: &mut GlobalMemory, job: &Job<'_>) -> Outcome {
    let total = job.geometry.ctas() as u32;
    let resident = (RESIDENT_BYTES / state_bytes(job).max(1)).clamp(1, total as usize);
    let mut exec = job.executor(memory);
    let mut random = Random::new(job.options.seed() ^ 0x5eed);
    let mut started = 0;
    let mut alive: Vec<Cta> = Vec::new();
    let mut spare: Vec<Cta> = Vec::new();
    let mut turn = 0;
    loop {
        while alive.len() < resident && started < total {
            let mut state = spare.pop().unwrap_or_else(|| job.cta());
            job.start(&mut state, started);
            alive.push(state);
            started += 1;
        }
        if alive.is_empty() {
            break;
        }
        let (chosen, quantum) = if job.options.adversarial() {
            (random.below(alive.len() as u32) as usize, u64::from(1 + random.below(4000)))
        } else {
            (turn % alive.len(), 4000)
        };
        turn = chosen + 1;
        let progress = cta::run(&mut exec, &mut alive[chosen], quantum);
        if exec.ended {
            break;
        }
        if progress == cta::Progress::Finished {
            spare.push(alive.remove(chosen));
            turn = chosen;
        }
    }
    let (mut faults, counters) = (std::mem::take(&mut exec.faults), std::mem::take(&mut exec.counters));
    let (ended, printed) = (exec.ended, std::mem::take(&mut exec.printed));
    let changes = exec.global.finish();
    memory.commit(&changes);
    if job.options.strict && job.kernel.noncoherent {
        let mut coherence = Coherence::default();
        coherence.add(&changes);
        coherence.report(memory, job.geometry, &mut faults);
    }
    Outcome { faults, counters, ended, printed }
}
