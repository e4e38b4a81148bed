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

/// Elements of one vector.
const LANES: usize = if cfg!(target_feature = "avx512f") { 16 } else { 8 };
/// Vectors in flight: enough to hide the latency of a multiply-add on two ports, few enough for sixteen registers.
const CHAINS: usize = 12;
const STEPS: usize = 20_000_000;
/// Bytes that each thread reads: far beyond any cache.
const BYTES: usize = 256 << 20;
const ROUNDS: usize = 3;

fn multiply_adds(seed: f32) -> f32 {
    let factor = black_box([0.999_9_f32; LANES]);
    let addend = black_box([1e-4_f32; LANES]);
    let step = |sum: &mut [f32; LANES]| {
        for lane in 0..LANES {
            sum[lane] = sum[lane].mul_add(factor[lane], addend[lane]);
        }
    };
    // Variables of their own, since an array of them would be kept in memory.
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h, mut i, mut j, mut k, mut l]: [_; CHAINS] =
        std::array::from_fn(|chain| [seed + chain as f32; LANES]);
    for _ in 0..STEPS {
        step(&mut a);
        step(&mut b);
        step(&mut c);
        step(&mut d);
        step(&mut e);
        step(&mut f);
        step(&mut g);
        step(&mut h);
        step(&mut i);
        step(&mut j);
        step(&mut k);
        step(&mut l);
    }
    [a, b, c, d, e, f, g, h, i, j, k, l].iter().flatten().sum()
}

fn read(words: &[u64]) -> u64 {
    words.iter().fold(0, |a, b| a ^ b)
}

/// The shortest time, over some rounds, from the first start to the last end of `threads` threads that each
/// call their own `work` once.
fn best_seconds<W: FnMut()>(threads: usize, make: impl Fn(usize) -> W + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let run = |index: usize| {
        let mut work = make(index);
        let round = |_| {
            barrier.wait();
            let start = Instant::now();
            work();
            (start, Instant::now())
        };
        (0..ROUNDS).map(round).collect()
    };
    let spans: Vec<Vec<(Instant, Instant)>> = thread::scope(|scope| {
        let run = &run;
        let handles: Vec<_> = (0..threads).map(|index| scope.spawn(move || run(index))).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let seconds = |round: usize| {
        let start = spans.iter().map(|of_thread| of_thread[round].0).min()?;
        let end = spans.iter().map(|of_thread| of_thread[round].1).max()?;
        Some((end - start).as_secs_f64())
    };
    (0..ROUNDS).filter_map(seconds).fold(f64::INFINITY, f64::min)
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
