//! The gemma3 architecture.
//!
//! llama.cpp looks GELU up in a table of f16, so its logits are those of the graph to an NMSE
//! of 1e-7 and no better; the bound here is 1e-6. The plain reference has no such table, and
//! kernels are held to it more tightly.

use std::sync::Arc;

use phobos_artifact::DType;
use phobos_device::Device;
use phobos_gguf::{GgufFile, OpenOptions};
use phobos_models::{Activations, Logits, Settings};
use phobos_worker::KernelSource;

use crate::{
    builder::{Builder, Value},
    compiled::compiler,
    config::{refusal, refused},
    gemma3_reference::forward,
    golden::{Tiny, argmax, gemma3_270m, gemma3_270m_model, nmse},
    graph::{assert_matches, load, load_file, settings},
    oracle::{OracleDevice, OracleSource},
};

const LLAMA_CPP: f64 = 1e-6;

fn widen(logits: &[f32]) -> impl Iterator<Item = f64> {
    logits.iter().map(|value| f64::from(*value))
}

fn oracle() -> (Arc<dyn Device>, OracleSource) {
    (Arc::new(OracleDevice::default()), OracleSource::default())
}

#[test]
fn the_plain_reference_matches_llama_cpp() {
    let tiny = Tiny::load("gemma3");
    let file = GgufFile::open(&tiny.model, OpenOptions::default()).unwrap();
    for (position, (found, expected)) in forward(&file, &tiny.tokens()).iter().zip(&tiny.logits).enumerate() {
        let nmse = nmse(found.iter().copied(), widen(expected));
        assert!(nmse < LLAMA_CPP, "position {position}: NMSE {nmse:e}");
    }
}

/// Chunks of 1, 3 and 64 against llama.cpp, the plain reference, and each other.
fn assert_tiny(device: &Arc<dyn Device>, source: &dyn KernelSource, limit: f64) {
    let tiny = Tiny::load("gemma3");
    let file = GgufFile::open(&tiny.model, OpenOptions::default()).unwrap();
    let tokens = tiny.tokens();
    let exact: Vec<f64> = forward(&file, &tokens).into_iter().flatten().collect();
    let mut single = Vec::new();
    for chunk in [1, 3, 64] {
        let model = load(&tiny.model, &settings(DType::F32, chunk), Arc::clone(device), source);
        let logits = model.sequence().unwrap().forward(&tokens, Logits::All).unwrap();
        assert_matches(&logits, &tiny, LLAMA_CPP, &format!("chunk {chunk}"));
        let nmse_exact = nmse(widen(&logits), exact.iter().copied());
        assert!(nmse_exact < limit, "chunk {chunk} against the plain reference: NMSE {nmse_exact:e}");
        if chunk == 1 {
            single = logits;
        } else {
            let nmse = nmse(widen(&logits), widen(&single));
            assert!(nmse < limit, "chunk {chunk} against token by token: NMSE {nmse:e}");
        }
    }
}

fn assert_greedy(device: &Arc<dyn Device>, source: &dyn KernelSource) {
    let tiny = Tiny::load("gemma3");
    let model = load(&tiny.model, &settings(DType::F32, 64), Arc::clone(device), source);
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

/// Shapes that the tiny model has not, against the plain reference.
fn assert_other_shapes(device: &Arc<dyn Device>, source: &dyn KernelSource, limit: f64) {
    let gemma = Builder::gemma3;
    let heads = |heads: u64, kv_heads: u64, head: u64| {
        let mut builder = gemma()
            .key("gemma3.attention.head_count", Value::U32(heads as u32))
            .key("gemma3.attention.head_count_kv", Value::U32(kv_heads as u32))
            .key("gemma3.attention.key_length", Value::U32(head as u32))
            .key("gemma3.attention.value_length", Value::U32(head as u32));
        for layer in 0..2 {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            builder = builder
                .tensor(&name("attn_q"), &[heads * head, 8])
                .tensor(&name("attn_k"), &[kv_heads * head, 8])
                .tensor(&name("attn_v"), &[kv_heads * head, 8])
                .tensor(&name("attn_q_norm"), &[head])
                .tensor(&name("attn_k_norm"), &[head])
                .tensor(&name("attn_output"), &[8, heads * head]);
        }
        builder
    };
    for (name, builder) in [
        ("two layers", gemma()),
        ("own output", gemma().tensor("output.weight", &[10, 8])),
        ("heads wider than the model", heads(3, 3, 6)),
        ("two key heads for six", heads(6, 2, 10)),
        ("a base for sliding layers", gemma().key("gemma3.rope.freq_base_swa", Value::F32(20.0))),
        ("a window of one", gemma().key("gemma3.attention.sliding_window", Value::U32(1))),
        ("no window", gemma().without_key("gemma3.attention.sliding_window")),
        ("every layer slides", gemma().without_key("gemma3.attention.sliding_window_pattern")),
        ("capped logits", gemma().key("gemma3.final_logit_softcapping", Value::F32(0.5))),
        (
            "stretched full layers",
            gemma()
                .key("gemma3.rope.freq_base", Value::F32(50.0))
                .key("gemma3.rope.scaling.type", Value::Text("linear"))
                .key("gemma3.rope.scaling.factor", Value::F32(8.0)),
        ),
    ] {
        let file = builder.file();
        let tokens = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];
        let settings = Settings { context: Some(16), kv: DType::F32, chunk: 5, ..Settings::default() };
        let model = load_file(&file, &settings, Arc::clone(device), source);
        let logits = model.sequence().unwrap().forward(&tokens, Logits::All).unwrap();
        let nmse = nmse(widen(&logits), forward(&file, &tokens).into_iter().flatten());
        assert!(nmse < limit, "{name}: NMSE {nmse:e}");
    }
}

/// A window whose first key lies inside and beyond blocks of keys, on a long text.
fn assert_long(device: &Arc<dyn Device>, source: &dyn KernelSource, limit: f64) {
    let file = Builder::gemma3()
        .key("gemma3.context_length", Value::U32(256))
        .key("gemma3.attention.sliding_window", Value::U32(70))
        .file();
    let tokens: Vec<u32> = (0..200).map(|at| at * at % 10).collect();
    let expected: Vec<f64> = forward(&file, &tokens).into_iter().flatten().collect();
    for chunk in [1, 64] {
        let settings = Settings { context: Some(256), kv: DType::F32, chunk, ..Settings::default() };
        let model = load_file(&file, &settings, Arc::clone(device), source);
        let logits = model.sequence().unwrap().forward(&tokens, Logits::All).unwrap();
        let nmse = nmse(widen(&logits), expected.iter().copied());
        assert!(nmse < limit, "chunk {chunk}: NMSE {nmse:e}");
    }
}

#[test]
fn tiny_logits_match_in_chunks_of_any_size() {
    let (device, source) = oracle();
    assert_tiny(&device, &source, 1e-10);
}

#[test]
fn greedy_decoding_gives_the_reference_ids() {
    let (device, source) = oracle();
    assert_greedy(&device, &source);
}

#[test]
fn other_shapes_match_the_plain_reference() {
    let (device, source) = oracle();
    assert_other_shapes(&device, &source, 1e-10);
    assert_long(&device, &source, 1e-10);
}

#[test]
fn compiled_tiny_logits_match_in_chunks_of_any_size() {
    let Some((source, device)) = compiler() else { return };
    assert_tiny(&device, &source, 1e-9);
}

#[test]
fn compiled_greedy_decoding_gives_the_reference_ids() {
    let Some((source, device)) = compiler() else { return };
    assert_greedy(&device, &source);
}

#[test]
fn compiled_other_shapes_match_the_plain_reference() {
    let Some((source, device)) = compiler() else { return };
    assert_other_shapes(&device, &source, 1e-9);
    assert_long(&device, &source, 1e-9);
}

#[test]
fn gemma3_270m_logits_match_llama_cpp() {
    let Some(model) = gemma3_270m_model() else { return };
    let Some((source, device)) = compiler() else { return };
    let case = gemma3_270m();
    let tokens = &case.tokens[..case.top5.len()];
    for activations in [Activations::F32, Activations::Q8] {
        let settings = Settings { activations, ..settings(DType::F32, 64) };
        let model = load(&model, &settings, device.clone(), &source);
        let mut sequence = model.clone().sequence().unwrap();
        case.assert_matches(tokens.iter().map(|token| sequence.forward(&[*token], Logits::Last).unwrap()));
        // All at once: other kernels.
        let all = model.sequence().unwrap().forward(tokens, Logits::All).unwrap();
        case.assert_matches(all.chunks(all.len() / tokens.len()).map(<[f32]>::to_vec));
    }
}

/// The numbers of [`gemma3_270m_logits_match_llama_cpp`] are those of exact arithmetic, and
/// not of the kernels.
#[test]
fn the_plain_reference_matches_llama_cpp_on_gemma3_270m() {
    if cfg!(debug_assertions) {
        eprintln!("skipped: too slow without optimisation; `cargo test --release` runs it");
        return;
    }
    let Some(model) = gemma3_270m_model() else { return };
    let file = GgufFile::open(&model, OpenOptions::default()).unwrap();
    let case = gemma3_270m();
    case.assert_matches(forward(&file, &case.tokens[..case.top5.len()]));
}

#[test]
fn files_that_the_graph_cannot_take() {
    let gemma = Builder::gemma3;
    assert_eq!(refusal(&gemma()), "");
    assert_eq!(refusal(&gemma().key("gemma3.attention.sliding_window", Value::U32(0))), "");
    refused(
        gemma().key("gemma3.rope.dimension_count", Value::U32(2)),
        "metadata key `gemma3.rope.dimension_count`: 2 is not the head size 4",
    );
    refused(
        gemma().key("gemma3.attention.sliding_window", Value::U32(1 << 31)),
        "metadata key `gemma3.attention.sliding_window`: 2147483648 is not in 1 to 1073741824",
    );
    refused(
        gemma().key("gemma3.attention.sliding_window_pattern", Value::U32(0)),
        "metadata key `gemma3.attention.sliding_window_pattern`: 0 is not in 1 to 1073741824",
    );
    refused(
        gemma().key("gemma3.final_logit_softcapping", Value::F32(-1.0)),
        "metadata key `gemma3.final_logit_softcapping`: -1 is out of range",
    );
    refused(
        gemma().key("gemma3.attn_logit_softcapping", Value::F32(50.0)),
        "metadata key `gemma3.attn_logit_softcapping`: this version's gemma3 graph has no use for it",
    );
    let error = refusal(&gemma().without_tensor("blk.1.post_ffw_norm.weight"));
    assert!(error.starts_with("m.gguf: tensor `blk.1.post_ffw_norm.weight`: not "), "{error}");
    refused(
        gemma().tensor("blk.0.attn_q_norm.weight", &[8]),
        "tensor `blk.0.attn_q_norm.weight`: has shape [8], the metadata implies [4] (outermost first)",
    );
}
