//! What choosing a token costs: prints µs per token for vocabularies of 49152 and 262144.
//!
//! `cargo run --release -p phobos-engine --example sample_cost`

use std::time::Instant;

use phobos_engine::sampler::{Sampler, SamplerError, SamplingParams};

fn main() -> Result<(), SamplerError> {
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let cases = [
        ("greedy", greedy.clone()),
        ("greedy, repetition penalty", SamplingParams { repetition_penalty: 1.1, ..greedy }),
        ("defaults", SamplingParams::default()),
        ("top-p 0.95 only", SamplingParams { top_k: 0, min_p: 0.0, ..SamplingParams::default() }),
    ];
    for vocabulary in [49_152u32, 262_144] {
        // A bell, as logits are: the sum of four uniform numbers.
        let mut state = 1u32;
        let mut uniform = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32
        };
        let logits: Vec<f32> =
            (0..vocabulary).map(|_| 6.0 * (uniform() + uniform() + uniform() + uniform() - 2.0)).collect();
        for (name, params) in &cases {
            let prompt: Vec<u32> = (0..500).map(|index| index * 97 % vocabulary).collect();
            let mut sampler = Sampler::new(params.clone(), &prompt)?;
            // The best of some rounds: others use this machine too.
            let (mut best, mut sum) = (f64::INFINITY, 0u64);
            for _ in 0..20 {
                let start = Instant::now();
                for _ in 0..20 {
                    sum += u64::from(sampler.sample(&logits)?);
                }
                best = best.min(start.elapsed().as_secs_f64() / 20.0);
            }
            println!("{vocabulary:6} tokens, {name:27} {:8.1} µs   (sum of ids {sum})", best * 1e6);
        }
    }
    Ok(())
}
