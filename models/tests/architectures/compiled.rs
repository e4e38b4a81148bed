//! The llama graph with kernels from the compiler, on the host device.
//!
//! `phobos-compile` is looked for as the runtime does it: `PHOBOS_COMPILE`, beside the
//! test, `PATH`. Without it these tests say so and pass, unless
//! `PHOBOS_REQUIRE_COMPILER=1`.

use std::sync::Arc;

use phobos_artifact::{DType, Element};
use phobos_device::Device;
use phobos_models::{
    Activations, Logits, Settings,
    kernels::{Role, Rows},
};
use phobos_worker::{CompileError, KernelSource, WorkerOptions, WorkerPool};

use crate::{
    builder::{Builder, Value},
    golden::{Tiny, argmax, nmse, smollm2, smollm2_model},
    graph::{assert_matches, assert_other_shapes, load, load_file, settings},
};

/// A compiler and the host device, or why there are none.
pub fn compiler() -> Option<(WorkerPool, Arc<dyn Device>)> {
    let device = phobos_device::open("host", &phobos_device::OpenOptions::default()).unwrap();
    let pool = WorkerPool::new(WorkerOptions::default());
    let f32: Element = "f32".parse().unwrap();
    let probe = Role::Linear { from: f32, weight: f32, rows: Rows::One }.request(device.chips()[0]);
    match pool.get(&probe) {
        Err(error @ CompileError::NotFound { .. }) => {
            assert!(std::env::var_os("PHOBOS_REQUIRE_COMPILER").is_none_or(|v| v != "1"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
        _ => Some((pool, device)),
    }
}

#[test]
fn tiny_logits_match_llama_cpp_in_chunks_of_1_3_and_64() {
    let Some((source, device)) = compiler() else { return };
    let tiny = Tiny::load("llama");
    let tokens = tiny.tokens();
    let run = |chunk| {
        let model = load(&tiny.model, &settings(DType::F32, chunk), device.clone(), &source);
        model.sequence().unwrap().forward(&tokens, Logits::All).unwrap()
    };
    let single = run(1);
    assert_matches(&single, &tiny, 1e-8, "token by token");
    for chunk in [3, 64] {
        let chunked = run(chunk);
        assert_matches(&chunked, &tiny, 1e-8, &format!("chunk {chunk}"));
        let widen = |logits: &[f32]| logits.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
        let nmse = nmse(widen(&chunked), widen(&single));
        assert!(nmse < 1e-10, "chunk {chunk} against token by token: NMSE {nmse:e}");
    }
}

#[test]
fn other_shapes_match_the_plain_reference() {
    let Some((source, device)) = compiler() else { return };
    assert_other_shapes(device, &source, 1e-9);
}

#[test]
fn tiny_greedy_ids_are_llama_cpps() {
    let Some((source, device)) = compiler() else { return };
    let tiny = Tiny::load("llama");
    let model = load(&tiny.model, &settings(DType::F32, 64), device, &source);
    let mut sequence = model.sequence().unwrap();
    let mut logits = sequence.forward(&tiny.prompt, Logits::Last).unwrap();
    let mut ids = Vec::new();
    for _ in &tiny.greedy {
        let id = argmax(&logits) as u32;
        ids.push(id);
        logits = sequence.forward(&[id], Logits::Last).unwrap();
    }
    assert_eq!(ids, tiny.greedy);
}

#[test]
fn smollm2_logits_match_llama_cpp() {
    for activations in [Activations::F32, Activations::Q8] {
        smollm2_logits(activations);
    }
}

fn smollm2_logits(activations: Activations) {
    let Some(model) = smollm2_model() else { return };
    let Some((source, device)) = compiler() else { return };
    let model = load(&model, &Settings { activations, ..settings(DType::F32, 64) }, device, &source);
    for case in smollm2() {
        let mut sequence = model.clone().sequence().unwrap();
        let tokens = &case.tokens[..case.top5.len()];
        case.assert_matches(tokens.iter().map(|token| sequence.forward(&[*token], Logits::Last).unwrap()));
        // All at once: other kernels.
        let all = model.clone().sequence().unwrap().forward(tokens, Logits::All).unwrap();
        case.assert_matches(all.chunks(all.len() / tokens.len()).map(<[f32]>::to_vec));
    }
}

/// Rounding activations costs little: with 16 bits next to nothing (2e-8 when this was written),
/// with 8 bits about what llama.cpp loses (6e-4). Limits are on the mean square error of all
/// logits over their mean square.
#[test]
fn rounded_activations_stay_close_to_exact_ones() {
    let Some(file) = smollm2_model() else { return };
    let Some((source, device)) = compiler() else { return };
    let on = |activations, chunk| {
        load(&file, &Settings { activations, ..settings(DType::F32, chunk) }, device.clone(), &source)
    };
    let cases = smollm2();
    let tokens: Vec<u32> = cases.iter().flat_map(|case| case.tokens.clone()).take(60).collect();
    let widen = |logits: Vec<f32>| logits.into_iter().map(f64::from).collect::<Vec<_>>();
    let run = |activations, chunk, tokens: &[u32]| {
        widen(on(activations, chunk).sequence().unwrap().forward(tokens, Logits::All).unwrap())
    };
    for (chunk, count, limit) in [(1, 24, 1e-7), (20, 40, 1e-3), (64, 60, 1e-3)] {
        let tokens = &tokens[..count];
        let (exact, rounded) = (run(Activations::F32, chunk, tokens), run(Activations::Q8, chunk, tokens));
        let nmse = nmse(rounded, exact);
        eprintln!("{count} tokens in chunks of {chunk}: NMSE {nmse:e}");
        assert!(nmse < limit, "{count} tokens in chunks of {chunk}: NMSE {nmse:e}");
    }
}

/// From 1024 positions on, one row goes over them in parts: it finds what a batch finds.
#[test]
fn a_row_over_a_long_text_is_what_a_batch_gives() {
    let Some((source, device)) = compiler() else { return };
    let file = Builder::llama().key("llama.context_length", Value::U32(1100)).file();
    let settings = Settings { context: Some(1100), ..settings(DType::F32, 64) };
    let model = load_file(&file, &settings, device, &source);
    let tokens: Vec<u32> = (0..1030).map(|at| at * 7 % 10).collect();
    let batch = model.clone().sequence().unwrap().forward(&tokens, Logits::All).unwrap();
    let (mut sequence, mut worst) = (model.sequence().unwrap(), 0.0f64);
    sequence.forward(&tokens[..1020], Logits::None).unwrap();
    for (at, token) in tokens.iter().enumerate().skip(1020) {
        let row = sequence.forward(&[*token], Logits::Last).unwrap();
        let expected = batch[at * row.len()..][..row.len()].iter().map(|value| f64::from(*value));
        worst = worst.max(nmse(row.into_iter().map(f64::from), expected));
    }
    assert!(worst < 1e-9, "NMSE {worst:e}");
}
