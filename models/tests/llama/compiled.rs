//! The graph with kernels from the compiler, on the host device.
//!
//! `phobos-compile` is looked for as the runtime does it: `PHOBOS_COMPILE`, beside the
//! test, `PATH`. Without it these tests say so and pass, unless
//! `PHOBOS_REQUIRE_COMPILER=1`.

use std::{path::Path, sync::Arc};

use phobos_artifact::{CompileError, DType, KernelSource, WorkerOptions, WorkerPool};
use phobos_device::Device;
use phobos_models::{
    Logits,
    kernels::{Role, Rows},
};

use crate::{
    golden::{Tiny, argmax, nmse, smollm2},
    graph::{assert_matches, load, settings},
};

/// A compiler and the host device, or why there are none.
fn compiler() -> Option<(WorkerPool, Arc<dyn Device>)> {
    let device = phobos_device::open("host", &phobos_device::OpenOptions::default()).unwrap();
    let pool = WorkerPool::new(WorkerOptions::default());
    let probe = Role::Linear { weight: "f32".parse().unwrap(), rows: Rows::One }.request(device.chips()[0]);
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
    let tiny = Tiny::load();
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
fn tiny_greedy_ids_are_llama_cpps() {
    let Some((source, device)) = compiler() else { return };
    let tiny = Tiny::load();
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

/// llama.cpp quantises activations to 8 bits on this file, so its logits carry that noise:
/// exact products differ from it by an NMSE of about 2e-3. The reference data has the
/// five best logits of each step, so the NMSE here is over those, of all steps together.
#[test]
fn smollm2_logits_match_llama_cpp() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.is_file() {
        eprintln!("skipped: {} is not there; `cargo xtask demo` fetches it", model.display());
        return;
    }
    let Some((source, device)) = compiler() else { return };
    let model = load(&model, &settings(DType::F32, 64), device, &source);
    for case in smollm2() {
        let mut sequence = model.clone().sequence().unwrap();
        let (mut found, mut expected, mut decided) = (Vec::new(), Vec::new(), 0);
        for (token, top5) in case.tokens.iter().zip(&case.top5) {
            let logits = sequence.forward(&[*token], Logits::Last).unwrap();
            found.extend(top5.iter().map(|(id, _)| f64::from(logits[*id])));
            expected.extend(top5.iter().map(|(_, logit)| *logit));
            if top5[0].1 - top5[1].1 > 1.0 {
                assert_eq!(argmax(&logits), top5[0].0, "{}", case.name);
                decided += 1;
            }
        }
        assert!(decided >= 10, "{}: {decided} steps have a clear winner", case.name);
        let nmse = nmse(found, expected);
        assert!(nmse < 5e-3, "{}: NMSE {nmse:e}", case.name);
    }
}
