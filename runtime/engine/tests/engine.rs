//! Loading and generating on a device without a compiler.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../models/tests/architectures/oracle.rs"]
mod oracle;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use oracle::{OracleDevice, OracleSource};
use phobos_artifact::DType;
use phobos_engine::{
    Engine, EngineError, EngineOptions, Finish, GenerateParams, KernelCounts, Message, Progress, Role,
    SamplingParams, Session, generate,
};
use phobos_models::Settings;

/// The prompt and the greedy answer of models/tests/goldens/refs.json.
const PROMPT: [u32; 12] = [1, 5, 9, 200, 256, 261, 33, 80, 90, 100, 7, 3];
const GREEDY: [u32; 8] = [85, 201, 262, 201, 201, 201, 201, 201];

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tests/goldens/llama-f32.gguf")
}

fn options(context: u64, chunk: u64) -> EngineOptions {
    let settings = Settings { context: Some(context), kv: DType::F32, chunk, ..Settings::default() };
    EngineOptions { settings, ..EngineOptions::default() }
}

fn load(options: &EngineOptions) -> Engine {
    let device = Arc::new(OracleDevice::default());
    Engine::load_with(&tiny(), options, device, &OracleSource::default(), &|_| {}).unwrap()
}

fn greedy(max_tokens: Option<u64>) -> GenerateParams {
    let sampling = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    GenerateParams { sampling, max_tokens }
}

/// Generates to the end; gives the ids, the text and what `generate` gave.
fn run(
    engine: &Engine,
    session: &mut Session,
    prompt: &[u32],
    params: &GenerateParams,
) -> (Vec<u32>, String, Finish, phobos_engine::Stats) {
    let (mut ids, mut text) = (Vec::new(), String::new());
    let cancel = AtomicBool::new(false);
    let (finish, stats) = generate(engine, session, prompt, params, &cancel, &mut |piece| {
        ids.push(piece.id);
        text.push_str(piece.text);
        ControlFlow::Continue(())
    })
    .unwrap();
    (ids, text, finish, stats)
}

#[test]
fn greedy_answers_are_the_reference_whatever_the_chunk() {
    for chunk in [1, 3, 64] {
        let engine = load(&options(64, chunk));
        let mut session = engine.session().unwrap();
        let (ids, text, finish, stats) = run(&engine, &mut session, &PROMPT, &greedy(Some(8)));
        assert_eq!((ids.as_slice(), finish), (GREEDY.as_slice(), Finish::MaxTokens), "chunk {chunk}");
        // The last token begins a character that the answer does not finish: it is left out.
        let bytes = engine.tokenizer().decode(&ids, true);
        assert_eq!(format!("{text}\u{fffd}"), String::from_utf8_lossy(&bytes), "chunk {chunk}");
        assert_eq!((stats.prompt_tokens, stats.answer_tokens, stats.decoded_tokens), (12, 8, 7));
        // The last token of the answer has not been read.
        assert_eq!(session.tokens(), [&PROMPT[..], &GREEDY[..7]].concat());
    }
}

#[test]
fn a_longer_prompt_reuses_what_the_session_knows() {
    let engine = load(&options(64, 64));
    let mut session = engine.session().unwrap();
    run(&engine, &mut session, &PROMPT[..8], &greedy(Some(1)));
    let (ids, _, _, stats) = run(&engine, &mut session, &PROMPT, &greedy(Some(8)));
    assert_eq!((ids.as_slice(), stats.reused_tokens), (GREEDY.as_slice(), 8));
    // The same prompt again: all but its last token are known.
    let (ids, _, _, stats) = run(&engine, &mut session, &PROMPT, &greedy(Some(8)));
    assert_eq!((ids.as_slice(), stats.reused_tokens), (GREEDY.as_slice(), 11));
    // Another text shares nothing.
    let (_, _, _, stats) = run(&engine, &mut session, &[9, 8, 7], &greedy(Some(1)));
    assert_eq!(stats.reused_tokens, 0);
}

#[test]
fn the_context_ends_an_answer_and_refuses_a_longer_prompt() {
    let engine = load(&options(16, 64));
    let mut session = engine.session().unwrap();
    let (ids, _, finish, _) = run(&engine, &mut session, &PROMPT, &greedy(None));
    // Four tokens are read after the prompt; the fifth is known from the last.
    assert_eq!((ids.as_slice(), finish), (&GREEDY[..5], Finish::ContextFull));

    let error =
        generate(&engine, &mut session, &[1; 17], &greedy(None), &AtomicBool::new(false), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "the prompt has 17 tokens, and the context 16 (--ctx)");
    assert!(error.is_input());
    // The session is as it was.
    assert_eq!(session.tokens().len(), 16);
}

#[test]
fn a_cancelled_answer_stops_at_the_next_token() {
    let engine = load(&options(64, 5));
    let mut session = engine.session().unwrap();
    let cancel = AtomicBool::new(false);
    let mut ids = Vec::new();
    let (finish, _) = generate(&engine, &mut session, &PROMPT, &greedy(None), &cancel, &mut |piece| {
        ids.push(piece.id);
        cancel.store(ids.len() == 3, Ordering::Relaxed);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((ids.as_slice(), finish), (&GREEDY[..3], Finish::Cancelled));

    // Before the prompt is read.
    cancel.store(true, Ordering::Relaxed);
    session.reset();
    let result =
        generate(&engine, &mut session, &PROMPT, &greedy(None), &cancel, &mut |_| ControlFlow::Continue(()));
    assert_eq!(result.unwrap().0, Finish::Cancelled);
    assert!(session.tokens().is_empty());
}

#[test]
fn whoever_takes_the_tokens_can_stop() {
    let engine = load(&options(64, 64));
    let mut session = engine.session().unwrap();
    let mut taken = 0;
    let cancel = AtomicBool::new(false);
    let (finish, stats) = generate(&engine, &mut session, &PROMPT, &greedy(None), &cancel, &mut |_| {
        taken += 1;
        if taken == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!((finish, taken, stats.answer_tokens), (Finish::Cancelled, 2, 2));
}

#[test]
fn the_seed_decides_a_sampled_answer() {
    let engine = load(&options(64, 64));
    let answer = |seed| {
        let sampling = SamplingParams {
            temperature: 2.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed,
            ..SamplingParams::default()
        };
        let params = GenerateParams { sampling, max_tokens: Some(6) };
        run(&engine, &mut engine.session().unwrap(), &PROMPT, &params).0
    };
    assert_eq!(answer(1), answer(1));
    assert_ne!(answer(1), answer(2));
}

#[test]
fn an_empty_prompt_is_an_error() {
    let engine = load(&options(64, 64));
    let mut session = engine.session().unwrap();
    let error = generate(&engine, &mut session, &[], &greedy(None), &AtomicBool::new(false), &mut |_| {
        ControlFlow::Continue(())
    });
    assert!(matches!(error, Err(EngineError::EmptyPrompt)));
}

#[test]
fn every_kernel_is_requested_once_and_reported() {
    let source = OracleSource::default();
    let reports = Mutex::new(Vec::new());
    let progress = |report| {
        let Progress::Kernels { done, total } = report else { return };
        reports.lock().unwrap().push((done, total));
    };
    let device = Arc::new(OracleDevice::default());
    let engine = Engine::load_with(&tiny(), &options(64, 64), device, &source, &progress).unwrap();
    let total = source.requests.load(Ordering::Relaxed);
    assert!(total > 10);
    assert_eq!(engine.kernels(), KernelCounts { compiled: total, cached: 0, stand_ins: 0 });
    let reports = reports.into_inner().unwrap();
    assert!(reports.iter().all(|report| report.1 == total));
    for done in 1..=total {
        assert!(reports.contains(&(done, total)), "{done} of {total} in {reports:?}");
    }
}

#[test]
fn an_artifact_that_the_device_refuses_is_asked_for_once_more() {
    let result = |refusals: usize| {
        let device = Arc::new(OracleDevice::default());
        device.refusals.store(refusals, Ordering::Relaxed);
        let source = OracleSource::default();
        let engine = Engine::load_with(&tiny(), &options(64, 1), device, &source, &|_| {});
        (engine.map(|_| ()), source.requests.load(Ordering::Relaxed))
    };
    let (ok, requests) = result(0);
    ok.unwrap();
    let (ok, again) = result(1);
    ok.unwrap();
    assert_eq!(again, requests + 1);
    let (error, _) = result(2);
    let error = error.unwrap_err();
    assert!(!error.is_input() && error.to_string().contains("bad artifact: refused"), "{error}");
}

#[test]
fn text_and_conversations_become_tokens() {
    let engine = load(&options(64, 64));
    // h e l l o is merged to token 259 of the tiny vocabulary.
    assert_eq!(engine.encode("hello"), [259]);
    assert!(!engine.has_chat_template());
    let message = Message { role: Role::User, content: "hello".to_owned() };
    let error = engine.encode_chat(&[message]).unwrap_err();
    assert!(error.to_string().ends_with("llama-f32.gguf: no chat template: use --raw"), "{error}");
}

#[test]
fn a_sentencepiece_vocabulary_is_read_from_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/gemma3-270m-q4_k_m.gguf");
    if !path.is_file() {
        eprintln!("skipped: {} is not there; `cargo xtask fetch gemma3` fetches it", path.display());
        return;
    }
    let file = phobos_gguf::GgufFile::open(&path, phobos_gguf::OpenOptions::default()).unwrap();
    let tokenizer = phobos_engine::tokenizer(&file).unwrap();
    // The ids that llama.cpp gives; the file asks for BOS (2) and for no space in front.
    let encode = |text| tokenizer.encode(text, phobos_tokenizer::AddSpecial::Yes);
    assert_eq!(encode("The capital of France is"), [2, 818, 5279, 529, 7001, 563]);
    let text = " Größe 12345 🦙  x";
    let digits = [236743, 236770, 236778, 236800, 236812, 236810, 236743];
    let ids = [&[2, 112880], &digits[..], &[478, 397, 404, 391, 138, 236781]].concat();
    assert_eq!(encode(text), ids);
    assert_eq!(tokenizer.decode(&ids, true), text.as_bytes());
}

#[test]
fn mistakes_of_the_user_are_told_from_faults() {
    let device = || Arc::new(OracleDevice::default());
    let error = |path: &Path, options: &EngineOptions| match Engine::load_with(
        path,
        options,
        device(),
        &OracleSource::default(),
        &|_| {},
    ) {
        Ok(_) => panic!("{} was loaded", path.display()),
        Err(error) => error,
    };
    let missing = error(Path::new("/nowhere/m.gguf"), &options(64, 64));
    assert!(missing.is_input() && missing.to_string().starts_with("/nowhere/m.gguf: "), "{missing}");
    assert!(error(&tiny(), &options(100_000, 64)).is_input());
    assert!(EngineError::from(phobos_device::DeviceError::UnknownDevice("gpu".to_owned())).is_input());
}
