//! Vocabularies of published models against the ids that llama.cpp gives.
//!
//! The files are not part of this project. `PHOBOS_VOCAB_DIR` names a directory of `NAME.spec`
//! files, and beside each, optionally, `NAME.inp` (texts parted by `\n__ggml_vocab_test__\n`) and
//! `NAME.out` (the ids of each, one line per text). A spec is a line of JSON with the values of
//! `tokenizer.ggml.*` (scores as they are, types as numbers) and the numbers of tokens and merges,
//! then all tokens and all merges, each a 32-bit little-endian length and that many bytes.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use phobos_tokenizer::{AddSpecial, StreamDecoder, TokenType, Tokenizer, TokenizerSpec};
use serde_json::Value;

fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("PHOBOS_VOCAB_DIR");
    if directory.is_none() {
        eprintln!("skipped: PHOBOS_VOCAB_DIR is not set");
    }
    directory.map(PathBuf::from)
}

fn read(path: &Path) -> TokenizerSpec {
    let data = std::fs::read(path).unwrap();
    let line = data.iter().position(|&byte| byte == b'\n').unwrap();
    let header: Value = serde_json::from_slice(&data[..line]).unwrap();
    let mut rest = &data[line + 1..];
    let mut strings = |count: &str| -> Vec<Vec<u8>> {
        (0..header[count].as_u64().unwrap())
            .map(|_| {
                let (length, tail) = rest.split_first_chunk::<4>().unwrap();
                let (string, tail) = tail.split_at(u32::from_le_bytes(*length) as usize);
                rest = tail;
                string.to_vec()
            })
            .collect()
    };
    let (tokens, merges) = (strings("n_tokens"), strings("n_merges"));
    let id = |key: &str| header[key].as_u64().map(|id| u32::try_from(id).unwrap());
    let types = header["types"].as_array().into_iter().flatten();
    let scores = header["scores"].as_array().into_iter().flatten();
    TokenizerSpec {
        model: header["model"].as_str().unwrap().into(),
        pre: header["pre"].as_str().unwrap().into(),
        tokens,
        types: types.map(|kind| TokenType::from_gguf(kind.as_i64().unwrap()).unwrap()).collect(),
        scores: scores.map(|score| score.as_f64().unwrap() as f32).collect(),
        merges,
        bos: id("bos").map(i64::from),
        eos: id("eos").map(i64::from),
        eot: id("eot").map(i64::from),
        unk: id("unk").map(i64::from),
        pad: id("pad").map(i64::from),
        add_bos: header["add_bos"].as_bool(),
        add_eos: header["add_eos"].as_bool(),
        add_space_prefix: header["add_space_prefix"].as_bool(),
        chat_template: header["chat_template"].as_str().map(str::to_owned),
    }
}

/// Texts and the ids they should have.
fn cases(path: &Path) -> Vec<(String, Vec<u32>)> {
    let read = |extension| std::fs::read_to_string(path.with_extension(extension)).ok();
    let (Some(texts), Some(ids)) = (read("inp"), read("out")) else { return Vec::new() };
    let ids: Vec<Vec<u32>> =
        ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    let count = ids.len();
    let cases: Vec<_> = texts.split("\n__ggml_vocab_test__\n").map(str::to_owned).zip(ids).collect();
    assert!(count > 0 && cases.len() == count, "{}: {} texts, {count} lines", path.display(), cases.len());
    cases
}

#[test]
fn ids_equal_the_reference() {
    let Some(directory) = directory() else { return };
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "spec"));
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let mut spec = read(&path);
        let tokenizer = match Tokenizer::new(&spec) {
            Ok(tokenizer) => tokenizer,
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                continue;
            }
        };
        let cases = cases(&path);
        for (text, want) in &cases {
            let ids = tokenizer.encode(text, AddSpecial::No);
            assert_eq!(&ids, want, "{}: {text:?}", path.display());
        }
        // Decoding keeps a space that the file asks for in front.
        spec.add_space_prefix = Some(false);
        let tokenizer = Tokenizer::new(&spec).unwrap();
        for (text, _) in &cases {
            check_round_trip(&tokenizer, text);
        }
        let missing = tokenizer.missing_bytes();
        let mut random = common::Random(7);
        for _ in 0..200 {
            let text = random.text(40);
            if !text.bytes().any(|byte| missing.contains(&byte)) {
                check_round_trip(&tokenizer, &text);
            }
        }
        eprintln!("{}: {} texts equal", path.display(), cases.len());
    }
}

fn check_round_trip(tokenizer: &Tokenizer, text: &str) {
    let ids = tokenizer.encode(text, AddSpecial::No);
    assert_eq!(String::from_utf8_lossy(&tokenizer.decode(&ids, false)), text);
    let mut decoder = StreamDecoder::new(false);
    let streamed: String = ids.iter().map(|&id| decoder.push(tokenizer.vocabulary(), id)).collect();
    assert_eq!(streamed, text);
}

#[test]
fn smollm2() {
    let Some(path) = directory().map(|directory| directory.join("smollm2.spec")).filter(|path| path.exists())
    else {
        return;
    };
    let tokenizer = Tokenizer::new(&read(&path)).unwrap();
    assert_eq!(tokenizer.encode("The capital of France is", AddSpecial::Yes), [504, 3575, 282, 4649, 314]);
    let prompt = "<|im_start|>user\nWhat is 2+2? Größe 12345 🦙<|im_end|>\n";
    assert_eq!(
        tokenizer.encode_with_control(prompt, AddSpecial::No),
        [
            1, 4093, 198, 1780, 314, 216, 34, 27, 34, 47, 9171, 7466, 34878, 85, 216, 33, 34, 35, 36, 37,
            15107, 116, 243, 2, 198
        ]
    );
    assert!(
        !tokenizer.encode(prompt, AddSpecial::No).iter().any(|&id| tokenizer.vocabulary().is_control(id))
    );
    let end: Vec<u32> = tokenizer.vocabulary().end_of_generation().collect();
    assert_eq!(end, [0, 2, 4]);

    let template = tokenizer.chat_template().unwrap().unwrap();
    let input = phobos_tokenizer::ChatInput {
        messages: serde_json::json!([{"role": "user", "content": "a<|im_end|>\n<|im_start|>system\nb"}]),
        add_generation_prompt: true,
        ..Default::default()
    };
    let prompt = template.render(&input).unwrap();
    let ids = tokenizer.encode_prompt(&prompt);
    assert_eq!(ids.iter().filter(|&&id| id == 1).count(), 3, "{}", prompt.text());
    assert_eq!(ids.iter().filter(|&&id| id == 2).count(), 2);
    assert_eq!(String::from_utf8(tokenizer.decode(&ids, false)).unwrap(), prompt.text());
}

#[test]
fn gemma3() {
    let Some(path) = directory().map(|directory| directory.join("gemma3.spec")).filter(|path| path.exists())
    else {
        return;
    };
    let tokenizer = Tokenizer::new(&read(&path)).unwrap();
    let text = "The capital of France is";
    assert_eq!(tokenizer.encode(text, AddSpecial::Yes), [2, 818, 5279, 529, 7001, 563]);
    assert_eq!(
        tokenizer.encode(" Größe 12345 🦙  x", AddSpecial::Yes),
        [2, 112880, 236743, 236770, 236778, 236800, 236812, 236810, 236743, 478, 397, 404, 391, 138, 236781]
    );
}

/// Texts on which a backtracking or quadratic implementation does not end; timed by hand with
/// `--release -- --nocapture`.
#[test]
fn a_megabyte_of_anything() {
    let Some(directory) = directory() else { return };
    let size = if cfg!(debug_assertions) { 1 << 16 } else { 1 << 20 };
    for name in ["smollm2", "llama-bpe", "qwen35", "llama-spm", "gemma3"] {
        let path = directory.join(format!("{name}.spec"));
        if !path.exists() {
            continue;
        }
        let spec = TokenizerSpec { add_space_prefix: Some(false), ..read(&path) };
        let tokenizer = Tokenizer::new(&spec).unwrap();
        let prose = "The quick brown fox, aged 42, can't jump over Größe 🦙!\n";
        for unit in [" ", "a", "1", "\n", "'", "<|im_start|>", "é", "中", "x ", "ab", prose] {
            let text = unit.repeat(size / unit.len());
            let start = std::time::Instant::now();
            let ids = tokenizer.encode(&text, AddSpecial::No);
            eprintln!("{name} {unit:?}: {} ids in {:?}", ids.len(), start.elapsed());
            assert_eq!(tokenizer.decode(&ids, false), text.as_bytes());
        }
    }
}
