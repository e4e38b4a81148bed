//! Two numbers to hold a benchmark against: the peak of f32 multiply-adds and the bandwidth of reads.
//!
//! `cargo xtask bench` builds this for the CPU at hand (`-C target-cpu=native`; otherwise `mul_add` is a
//! function call) and runs it as `calibrate THREADS`. It prints GFLOP/s (a multiply-add is two) and GB/s
//! (10^9 bytes), the best of several rounds, over all threads together.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Elements of one 256-bit vector, and vectors in flight: enough to hide the latency of a multiply-add on
/// two ports, few enough for sixteen registers.
const LANES: usize = 8;
const CHAINS: usize = 12;
const STEPS: usize = 20_000_000;
/// Bytes that each thread reads: far beyond any cache.
const BYTES: usize = 256 << 20;
const ROUNDS: usize = 3;

fn multiply_adds(seed: f32) -> f32 {
    let factor = [black_box(0.999_9_f32); LANES];
    let addend = [black_box(1e-4_f32); LANES];
    let mut sums = [[seed; LANES]; CHAINS];
    for _ in 0..STEPS {
        for sum in &mut sums {
            for lane in 0..LANES {
                sum[lane] = sum[lane].mul_add(factor[lane], addend[lane]);
            }
        }
    }
    sums.iter().flatten().sum()
}

fn read(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 32];
    for chunk in words.chunks_exact(sums.len()) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum ^= word;
        }
    }
    sums.iter().fold(0, |a, b| a ^ b)
}

/// The shortest time that `threads` threads took, each for one call of its own `work`.
fn best_seconds<W: FnMut()>(threads: usize, make: impl Fn(usize) -> W + Sync) -> f64 {
    let barrier = Barrier::new(threads + 1);
    let mut best = f64::INFINITY;
    thread::scope(|scope| {
        for index in 0..threads {
            let (barrier, make) = (&barrier, &make);
            scope.spawn(move || {
                let mut work = make(index);
                for _ in 0..ROUNDS {
                    barrier.wait();
                    work();
                    barrier.wait();
                }
            });
        }
        for _ in 0..ROUNDS {
            barrier.wait();
            let start = Instant::now();
            barrier.wait();
            best = best.min(start.elapsed().as_secs_f64());
        }
    });
    best
}

fn main() -> ExitCode {
    let Some(threads) =
        env::args().nth(1).and_then(|t| t.parse::<usize>().ok()).filter(|t| (1..=1024).contains(t))
    else {
        eprintln!("usage: calibrate THREADS");
        return ExitCode::from(2);
    };
    let operations = (2 * LANES * CHAINS * STEPS * threads) as f64;
    let seconds = best_seconds(threads, |index| {
        move || {
            black_box(multiply_adds(black_box(index as f32)));
        }
    });
    println!("gflops {:.1}", operations / seconds / 1e9);
    let seconds = best_seconds(threads, |index| {
        let words = vec![index as u64 + 1; BYTES / size_of::<u64>()];
        move || {
            black_box(read(black_box(&words)));
        }
    });
    println!("read_gb_per_s {:.1}", (BYTES * threads) as f64 / seconds / 1e9);
    ExitCode::SUCCESS
}
