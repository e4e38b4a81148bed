//! The llama graph on the oracle device: right launches in the right order, whatever compiles
//! the kernels.

use std::{path::Path, sync::Arc};

use phobos_artifact::{Chip, DType};
use phobos_device::Device;
use phobos_gguf::{GgufFile, OpenOptions};
use phobos_models::{Activations, Logits, Model, ModelError, Settings, kernels::KernelSet};
use phobos_worker::KernelSource;

use crate::{
    builder::{Builder, Value},
    golden::{Tiny, argmax, nmse},
    oracle::{OracleDevice, OracleSource},
    reference::Reference,
};

pub fn settings(kv: DType, chunk: u64) -> Settings {
    Settings { context: Some(64), kv, chunk, activations: Activations::F32 }
}

/// Loads the model with kernels of `source`, compiled for the device's best chip.
pub fn load(
    path: &Path,
    settings: &Settings,
    device: Arc<dyn Device>,
    source: &dyn KernelSource,
) -> Arc<dyn Model> {
    load_file(&GgufFile::open(path, OpenOptions::default()).unwrap(), settings, device, source)
}

pub fn load_file(
    file: &GgufFile,
    settings: &Settings,
    device: Arc<dyn Device>,
    source: &dyn KernelSource,
) -> Arc<dyn Model> {
    let model = phobos_models::open(file, settings).unwrap();
    let mut kernels = KernelSet::default();
    for (role, request) in model.roles().iter().zip(model.requests(device.chips()[0])) {
        let artifact = source.get(&request).unwrap();
        kernels.insert(*role, device.load(&artifact).unwrap());
    }
    model.load(file, device, &kernels, &|_, _| ()).unwrap()
}

fn on_oracle(settings: &Settings) -> (Arc<OracleDevice>, Arc<dyn Model>) {
    let device = Arc::new(OracleDevice::default());
    let model = load(&Tiny::load("llama").model, settings, device.clone(), &OracleSource::default());
    (device, model)
}

/// Checks logits row by row against llama.cpp's.
pub fn assert_matches(logits: &[f32], tiny: &Tiny, limit: f64, what: &str) {
    let vocabulary = tiny.logits[0].len();
    assert_eq!(logits.len() % vocabulary, 0);
    for (position, (found, expected)) in logits.chunks(vocabulary).zip(&tiny.logits).enumerate() {
        let widen = |row: &[f32]| row.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
        let nmse = nmse(widen(found), widen(expected));
        assert!(nmse < limit, "{what}, position {position}: NMSE {nmse:e}");
    }
}

#[test]
fn logits_match_llama_cpp_in_chunks_of_any_size() {
    let tiny = Tiny::load("llama");
    for chunk in [1, 3, 5, 64] {
        let (_, model) = on_oracle(&settings(DType::F32, chunk));
        let logits = model.sequence().unwrap().forward(&tiny.tokens(), Logits::All).unwrap();
        assert_eq!(logits.len(), tiny.logits.len() * 288);
        assert_matches(&logits, &tiny, 1e-8, &format!("chunk {chunk}"));
    }
}

/// Checks shapes that the tiny model has not against the plain reference.
pub fn assert_other_shapes(device: Arc<dyn Device>, source: &dyn KernelSource, limit: f64) {
    let llama = Builder::llama;
    let heads = |heads: u64, kv_heads: u64, head: u64| {
        let (q, k) = (heads * head, kv_heads * head);
        llama()
            .key("llama.attention.head_count", Value::U32(heads as u32))
            .key("llama.attention.head_count_kv", Value::U32(kv_heads as u32))
            .key("llama.attention.key_length", Value::U32(head as u32))
            .key("llama.attention.value_length", Value::U32(head as u32))
            .tensor("blk.0.attn_q.weight", &[q, 8])
            .tensor("blk.0.attn_k.weight", &[k, 8])
            .tensor("blk.0.attn_v.weight", &[k, 8])
            .tensor("blk.0.attn_output.weight", &[8, q])
    };
    for (name, builder) in [
        ("tied output", llama()),
        ("own output", llama().tensor("output.weight", &[10, 8])),
        ("heads wider than the model", heads(3, 3, 6)),
        ("one key head for six", heads(6, 1, 4)),
        ("two key heads for six", heads(6, 2, 4)),
        ("half of a head rotated", heads(2, 1, 8).key("llama.rope.dimension_count", Value::U32(4))),
        ("another rope base", llama().key("llama.rope.freq_base", Value::F32(50.0))),
    ] {
        let file = builder.file();
        let tokens = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];
        let settings = Settings { context: Some(16), kv: DType::F32, chunk: 5, ..Settings::default() };
        let model = load_file(&file, &settings, Arc::clone(&device), source);
        let logits = model.sequence().unwrap().forward(&tokens, Logits::All).unwrap();
        let expected = Reference::new(&file).forward(&tokens);
        let nmse = nmse(logits.into_iter().map(f64::from), expected.into_iter().flatten());
        assert!(nmse < limit, "{name}: NMSE {nmse:e}");
    }
}

#[test]
fn other_shapes_match_the_plain_reference() {
    assert_other_shapes(Arc::new(OracleDevice::default()), &OracleSource::default(), 1e-10);
}

#[test]
fn greedy_decoding_gives_the_reference_ids() {
    let tiny = Tiny::load("llama");
    let (_, model) = on_oracle(&settings(DType::F32, 64));
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
fn an_f16_cache_costs_little() {
    let tiny = Tiny::load("llama");
    let (_, model) = on_oracle(&settings(DType::F16, 64));
    let logits = model.sequence().unwrap().forward(&tiny.tokens(), Logits::All).unwrap();
    assert_matches(&logits, &tiny, 1e-5, "f16 cache");
}

#[test]
fn the_last_row_is_the_last_token_whatever_the_chunk() {
    let tiny = Tiny::load("llama");
    for chunk in [1, 3, 4, 12, 64] {
        let (_, model) = on_oracle(&settings(DType::F32, chunk));
        let mut sequence = model.sequence().unwrap();
        let logits = sequence.forward(&tiny.prompt, Logits::Last).unwrap();
        assert_eq!(argmax(&logits), tiny.greedy[0] as usize, "chunk {chunk}");
        assert_eq!(sequence.position(), 12);
    }
}

#[test]
fn truncating_forgets_and_sequences_do_not_share() {
    let tiny = Tiny::load("llama");
    let (_, model) = on_oracle(&settings(DType::F32, 64));
    let (mut a, mut b) = (model.clone().sequence().unwrap(), model.sequence().unwrap());
    let expected = a.forward(&tiny.prompt, Logits::Last).unwrap();
    b.forward(&[7; 20], Logits::None).unwrap();
    assert!(a.forward(&tiny.greedy[..1], Logits::None).unwrap().is_empty());

    b.truncate(0);
    assert_eq!(b.position(), 0);
    assert_eq!(b.forward(&tiny.prompt, Logits::Last).unwrap(), expected);
    a.truncate(11);
    assert_eq!(a.forward(&tiny.prompt[11..], Logits::Last).unwrap(), expected);
}

#[test]
fn a_full_context_and_unknown_tokens_are_refused_before_anything_is_read() {
    let (device, model) = on_oracle(&settings(DType::F32, 64));
    let mut sequence = model.sequence().unwrap();
    sequence.forward(&[1; 60], Logits::None).unwrap();
    let launches = device.launches("embed");
    let error = sequence.forward(&[1; 5], Logits::None).unwrap_err();
    assert_eq!(error.to_string(), "the context is full: 60 + 5 tokens, and --ctx is 64");
    let error = sequence.forward(&[1, 288], Logits::None).unwrap_err();
    assert_eq!(error.to_string(), "token id 288 is outside the vocabulary of 288 tokens");
    assert_eq!((sequence.position(), device.launches("embed")), (60, launches));
    sequence.forward(&[1; 4], Logits::None).unwrap();
}

#[test]
fn logits_are_computed_only_for_rows_that_need_them() {
    let (device, model) = on_oracle(&settings(DType::F32, 64));
    let mut sequence = model.sequence().unwrap();
    sequence.forward(&[1; 10], Logits::None).unwrap();
    assert_eq!((device.launches("qkv"), device.launches("linear")), (4, 0));
    sequence.forward(&[1; 10], Logits::Last).unwrap();
    assert_eq!((device.launches("qkv"), device.launches("linear")), (8, 1));
}

#[test]
fn requests_follow_from_file_and_settings_alone() {
    let file = GgufFile::open(&Tiny::load("llama").model, OpenOptions::default()).unwrap();
    let model = phobos_models::open(&file, &settings(DType::F16, 64)).unwrap();
    let again = phobos_models::open(&file, &settings(DType::F16, 64)).unwrap();
    let requests = model.requests(Chip::Sm(86));
    assert_eq!(requests, again.requests(Chip::Sm(86)));
    for (a, b) in requests.iter().enumerate().flat_map(|(i, a)| requests[i + 1..].iter().map(move |b| (a, b)))
    {
        assert_ne!(a, b, "requested twice");
    }
    let mut other = model.requests(Chip::Sm(120));
    other.iter_mut().for_each(|request| request.chip = Chip::Sm(86));
    assert_eq!(requests, other);
    // Decoding alone needs fewer.
    let decode = phobos_models::open(&file, &settings(DType::F16, 1)).unwrap();
    assert!(decode.roles().len() < model.roles().len());
    assert!(decode.roles().iter().all(|role| model.roles().contains(role)));
}

#[test]
fn settings_that_cannot_be_honoured_say_which_flag() {
    let file = GgufFile::open(&Tiny::load("llama").model, OpenOptions::default()).unwrap();
    let message = |settings: Settings| match phobos_models::open(&file, &settings) {
        Ok(_) => panic!("{settings:?} was accepted"),
        Err(error @ ModelError::Setting(_)) => error.to_string(),
        Err(other) => panic!("{other:?}"),
    };
    let base = Settings::default();
    assert_eq!(
        message(Settings { context: Some(513), ..base.clone() }),
        "--ctx 513: the model has 1 to 512 positions"
    );
    assert_eq!(message(Settings { kv: DType::I8, ..base.clone() }), "--kv i8: expected f16 or f32");
    assert_eq!(message(Settings { chunk: 0, ..base }), "chunks of 0 tokens: expected 1 to 4096");
}
