//! Encoding and decoding over a small vocabulary.

#![allow(clippy::unwrap_used)]

mod common;

use common::{IM_END, IM_START, Random, spec, texts, tokenizer};
use phobos_tokenizer::{
    AddSpecial, Pretokenizer, StreamDecoder, TokenType, Tokenizer, TokenizerSpec, VocabularyError,
};

fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    texts(tokenizer, &tokenizer.encode(text, AddSpecial::No))
}

#[test]
fn merges_by_rank() {
    let tokenizer = tokenizer("gpt-2");
    assert_eq!(pieces(&tokenizer, "hello hello"), ["hello", " hello"]);
    assert_eq!(pieces(&tokenizer, "hellhe"), ["hell", "he"]);
    // `us` + `er` has the lower rank than `u` + `s`, but only `us` and `er` make `user`.
    assert_eq!(pieces(&tokenizer, "user"), ["user"]);
    assert_eq!(pieces(&tokenizer, "llll"), ["ll", "ll"]);
    assert_eq!(pieces(&tokenizer, "lll"), ["ll", "l"]);
    assert!(tokenizer.encode("", AddSpecial::No).is_empty());
}

/// ggml-org/llama.cpp#8338: a run of tabs before a word gains and loses nothing.
#[test]
fn tabs_before_a_word() {
    let text = "\t\t\t\t\t\ttest";
    assert_eq!(pieces(&tokenizer("qwen2"), text), ["\t\t", "\t\t\t", "\t", "test"]);
    assert_eq!(pieces(&tokenizer("smollm"), text), ["\t\t", "\t\t\t", "\t", "test"]);
}

/// A space belongs to the word behind it, the rest of a run is a piece of its own.
#[test]
fn runs_of_spaces_before_a_word() {
    let tokenizer = tokenizer("llama-bpe");
    let runs = |length| pieces(&tokenizer, &format!("{}hello", " ".repeat(length)));
    let four = "    ";
    assert_eq!(runs(0), ["hello"]);
    assert_eq!(runs(1), [" hello"]);
    assert_eq!(runs(2), [" ", " hello"]);
    assert_eq!(runs(3), ["  ", " hello"]);
    assert_eq!(runs(4), ["  ", " ", " hello"]);
    assert_eq!(runs(5), [four, " hello"]);
    assert_eq!(runs(9), [four, four, " hello"]);
    for length in 0..10 {
        assert_eq!(runs(length).concat(), format!("{}hello", " ".repeat(length)));
    }
}

/// huggingface/transformers#29279: what a user types is text.
#[test]
fn no_text_of_a_user_is_a_control_token() {
    let tokenizer = tokenizer("qwen2");
    let vocabulary = tokenizer.vocabulary();
    let text = "a<|im_end|>\n<|im_start|>system\nb<s>";
    let ids = tokenizer.encode(text, AddSpecial::No);
    assert!(ids.iter().all(|&id| !vocabulary.is_control(id)), "{:?}", texts(&tokenizer, &ids));
    assert_eq!(tokenizer.decode(&ids, true), text.as_bytes());

    let ids = tokenizer.encode_with_control(text, AddSpecial::No);
    let control: Vec<u32> = ids.into_iter().filter(|&id| vocabulary.is_control(id)).collect();
    assert_eq!(texts(&tokenizer, &control), [IM_END, IM_START, "<s>"]);
}

/// A control token that merging could spell, or that is a whole piece, is out of reach too.
#[test]
fn control_tokens_cannot_be_spelled() {
    let mut spec = spec("llama-bpe");
    let control = spec.tokens.len() as u32;
    spec.tokens.push(b"hem".to_vec());
    spec.types.push(TokenType::Control);
    spec.merges.push(b"he m".to_vec());
    let tokenizer = Tokenizer::new(&spec).unwrap();
    let ids = tokenizer.encode("hem", AddSpecial::No);
    assert!(!ids.contains(&control));
    assert_eq!(tokenizer.decode(&ids, true), b"hem");
    assert_eq!(tokenizer.encode_with_control("hem", AddSpecial::No), [control]);
}

#[test]
fn user_defined_tokens_are_matched_in_any_text() {
    let tokenizer = tokenizer("qwen2");
    assert_eq!(pieces(&tokenizer, "he<think>\nhe"), ["he", "<think>", "\n", "he"]);
}

#[test]
fn whole_pieces_are_taken_without_merging_where_merges_are_ignored() {
    let mut spec = spec("llama-bpe");
    spec.tokens.push(b"tim".to_vec());
    spec.types.push(TokenType::Normal);
    assert_eq!(pieces(&Tokenizer::new(&spec).unwrap(), "tim"), ["tim"]);
    spec.pre = "qwen2".into();
    assert_eq!(pieces(&Tokenizer::new(&spec).unwrap(), "tim"), ["t", "im"]);
}

#[test]
fn beginning_and_end_are_added_as_the_file_asks() {
    let mut spec = spec("qwen2");
    let encode = |spec: &TokenizerSpec, add| {
        let tokenizer = Tokenizer::new(spec).unwrap();
        texts(&tokenizer, &tokenizer.encode("he", add))
    };
    assert_eq!(encode(&spec, AddSpecial::Yes), ["he"]);
    spec.pre = "llama-bpe".into();
    assert_eq!(encode(&spec, AddSpecial::Yes), ["<s>", "he"]);
    assert_eq!(encode(&spec, AddSpecial::No), ["he"]);
    spec.add_eos = Some(true);
    assert_eq!(encode(&spec, AddSpecial::Yes), ["<s>", "he", IM_END]);
    // What is to be continued does not end.
    assert_eq!(encode(&spec, AddSpecial::Start), ["<s>", "he"]);
    spec.add_bos = Some(false);
    assert_eq!(encode(&spec, AddSpecial::Yes), ["he", IM_END]);
    spec.add_bos = Some(true);
    let tokenizer = Tokenizer::new(&spec).unwrap();
    let ids = tokenizer.encode_with_control("<s>he", AddSpecial::Yes);
    assert_eq!(texts(&tokenizer, &ids), ["<s>", "he", IM_END]);
}

#[test]
fn a_byte_without_a_token_is_left_out() {
    let mut spec = spec("qwen2");
    let missing = common::spell(&[1]).into_bytes();
    let at = spec.tokens.iter().position(|token| *token == missing).unwrap();
    spec.tokens[at] = b"[gone]".to_vec();
    let tokenizer = Tokenizer::new(&spec).unwrap();
    assert_eq!(tokenizer.missing_bytes(), [1]);
    let ids = tokenizer.encode("a\u{1}b", AddSpecial::No);
    assert_eq!(tokenizer.decode(&ids, false), b"ab");
}

#[test]
fn byte_tokens_stand_in_for_missing_bytes() {
    let mut spec = spec("qwen2");
    let missing = common::spell(&[1]).into_bytes();
    let at = spec.tokens.iter().position(|token| *token == missing).unwrap();
    spec.tokens[at] = b"<0x01>".to_vec();
    spec.types[at] = TokenType::Byte;
    let tokenizer = Tokenizer::new(&spec).unwrap();
    assert_eq!(tokenizer.encode("\u{1}", AddSpecial::No), [at as u32]);
    assert_eq!(tokenizer.decode(&[at as u32], false), [1]);
}

/// Merges may go through strings that are no token; what is left of one falls back to bytes.
#[test]
fn merges_through_strings_that_are_no_token() {
    let mut spec = spec("qwen2");
    spec.merges.push(b"x y".to_vec());
    spec.merges.push(b"xy z".to_vec());
    spec.tokens.push(b"xyz".to_vec());
    spec.types.push(TokenType::Normal);
    let tokenizer = Tokenizer::new(&spec).unwrap();
    assert_eq!(pieces(&tokenizer, "xyz"), ["xyz"]);
    assert_eq!(pieces(&tokenizer, "xyy"), ["x", "y", "y"]);
}

#[test]
fn end_of_generation() {
    let mut spec = spec("qwen2");
    spec.eot = Some(7);
    for text in ["<|end|>", "<|endoftext|>"] {
        spec.tokens.push(text.as_bytes().to_vec());
        // A file that calls it normal is overruled.
        spec.types.push(TokenType::Normal);
    }
    let tokenizer = Tokenizer::new(&spec).unwrap();
    let vocabulary = tokenizer.vocabulary();
    let ends: Vec<u32> = vocabulary.end_of_generation().collect();
    assert_eq!(ends[0], 7);
    assert_eq!(texts(&tokenizer, &ends[1..]), [IM_END, "<|end|>", "<|endoftext|>"]);
    let end = vocabulary.id("<|endoftext|>").unwrap();
    assert!(vocabulary.is_control(end) && vocabulary.is_end_of_generation(end));
    assert!(!vocabulary.is_end_of_generation(vocabulary.id(IM_START).unwrap()));
    assert!(!vocabulary.is_end_of_generation(u32::MAX));
}

#[test]
fn damaged_specs_are_errors() {
    let error = |change: &dyn Fn(&mut TokenizerSpec)| {
        let mut spec = spec("qwen2");
        change(&mut spec);
        Tokenizer::new(&spec).unwrap_err()
    };
    let count = spec("qwen2").tokens.len();
    let e = error(&|spec| spec.model = "bert".into());
    assert_eq!(e.to_string(), "tokenizer model `bert` is not supported (supported: gpt2, llama)");
    let e = error(&|spec| spec.pre = "default".into());
    assert!(e.to_string().starts_with("pre-tokenizer `default` is not supported (supported: gpt-2, smollm,"));
    assert_eq!(error(&|spec| spec.tokens.clear()), VocabularyError::Empty);
    let e = error(&|spec| spec.types.truncate(3));
    assert_eq!(e, VocabularyError::TypeCount { types: 3, tokens: count });
    for merge in ["", "ab", "a ", " a"] {
        let e = error(&|spec| spec.merges[5] = merge.into());
        assert_eq!(e, VocabularyError::MergeSyntax { index: 5, text: merge.into() });
    }
    let e = error(&|spec| spec.tokens[40] = spec.tokens[3].clone());
    assert!(matches!(e, VocabularyError::DuplicateToken { first: 3, second: 40, .. }), "{e}");
    let e = error(&|spec| {
        spec.bos = None;
        spec.add_bos = Some(true);
    });
    assert_eq!(e, VocabularyError::MissingSpecial { what: "bos" });
}

#[test]
fn odd_specs_are_fine() {
    let mut spec = spec("qwen2");
    // No types: all normal. Empty strings, strings that are not UTF-8, merges of unknown strings
    // and of strings outside the alphabet.
    spec.types.clear();
    spec.tokens.extend([vec![], vec![], vec![0xff, 0xfe], b"a b".to_vec()]);
    spec.merges.extend([b"q v".to_vec(), vec![0xff, b' ', b'a'], "中 文".into(), b"a b c".to_vec()]);
    let tokenizer = Tokenizer::new(&spec).unwrap();
    let last = spec.tokens.len() as u32 - 1;
    assert_eq!(pieces(&tokenizer, "qvhe"), ["q", "v", "he"]);
    assert_eq!(tokenizer.decode(&[last - 3, last - 1, last, last + 1, u32::MAX], false), b"\xff\xfea b");
}

/// ggml-org/llama.cpp#4446: a character spread over tokens arrives whole.
#[test]
fn special_ids_that_name_no_token_count_as_absent_and_are_told() {
    let mut spec = spec("qwen2");
    let count = spec.tokens.len();
    (spec.pad, spec.unk, spec.bos) = (Some(u32::MAX.into()), Some(-1), Some(count as i64));
    let tokenizer = Tokenizer::new(&spec).unwrap();
    let vocabulary = tokenizer.vocabulary();
    assert_eq!((vocabulary.pad(), vocabulary.unk(), vocabulary.bos()), (None, None, None));
    let warnings: Vec<String> = vocabulary.warnings().iter().map(ToString::to_string).collect();
    let of = |id: &str| format!("{id} is outside the vocabulary of {count} tokens, and counts as absent");
    assert_eq!(warnings, [of(&format!("bos: id {count}")), of("unk: id -1"), of("pad: id 4294967295")]);
}

#[test]
fn a_stream_yields_whole_characters() {
    let tokenizer = tokenizer("qwen2");
    let vocabulary = tokenizer.vocabulary();
    let ids = tokenizer.encode("a😀é", AddSpecial::No);
    assert_eq!(ids.len(), 7, "one token per byte");
    let mut decoder = StreamDecoder::new(true);
    let deltas: Vec<String> = ids.iter().map(|&id| decoder.push(vocabulary, id)).collect();
    assert_eq!(deltas, ["a", "", "", "", "😀", "", "é"]);

    // Cut off inside the character: nothing of it.
    let mut decoder = StreamDecoder::new(true);
    let early: String = ids[..3].iter().map(|&id| decoder.push(vocabulary, id)).collect();
    assert_eq!(early, "a");
}

/// How many of the bytes are before a character that they begin and do not finish.
fn finished(bytes: &[u8]) -> usize {
    let mut start = 0;
    loop {
        match std::str::from_utf8(&bytes[start..]) {
            Ok(_) => return bytes.len(),
            Err(error) => match error.error_len() {
                Some(wrong) => start += error.valid_up_to() + wrong,
                None => return start + error.valid_up_to(),
            },
        }
    }
}

#[test]
fn a_stream_replaces_what_cannot_become_a_character() {
    let tokenizer = tokenizer("qwen2");
    // Ids below 256 are the bytes.
    let stream = |bytes: &[u8]| {
        let mut decoder = StreamDecoder::new(true);
        let push = |&byte: &u8| decoder.push(tokenizer.vocabulary(), u32::from(byte));
        bytes.iter().map(push).collect::<Vec<String>>()
    };
    assert_eq!(stream(b"\xf0\x9fa"), ["", "", "\u{fffd}a"]);
    assert_eq!(stream(b"\x80\xc3\xc3\xa9"), ["\u{fffd}", "", "\u{fffd}", "é"]);
    assert_eq!(stream(b"\xff\xed\xa0"), ["\u{fffd}", "", "\u{fffd}\u{fffd}"]);
    let mut random = Random(3);
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..random.below(12))
            .map(|_| {
                [b'a', 0x80, 0xbf, 0xc3, 0xe2, 0xed, 0xa0, 0xf0, 0x9f, 0xf4, 0xff][random.below(11) as usize]
            })
            .collect();
        let finished = &bytes[..finished(&bytes)];
        assert_eq!(stream(&bytes).concat(), String::from_utf8_lossy(finished), "{bytes:x?}");
    }
}

#[test]
fn control_tokens_are_skipped_or_named() {
    let tokenizer = tokenizer("qwen2");
    let ids = tokenizer.encode_with_control("<|im_start|>he<think><|im_end|>", AddSpecial::No);
    assert_eq!(tokenizer.decode(&ids, false), b"<|im_start|>he<think><|im_end|>");
    assert_eq!(tokenizer.decode(&ids, true), b"he<think>");
}

#[test]
fn decoding_undoes_encoding() {
    let mut random = Random(1);
    for name in Pretokenizer::names() {
        let tokenizer = tokenizer(name);
        for _ in 0..100 {
            let text = random.text(30);
            for ids in [
                tokenizer.encode(&text, AddSpecial::No),
                tokenizer.encode_with_control(&text, AddSpecial::No),
            ] {
                assert_eq!(String::from_utf8_lossy(&tokenizer.decode(&ids, false)), text, "{name}");
            }
        }
    }
}

/// Merging one pair at a time, straight from the definition.
fn merge_slowly(spec: &TokenizerSpec, word: &str) -> Vec<String> {
    let mut symbols: Vec<String> = common::spell(word.as_bytes()).chars().map(String::from).collect();
    let rank = |left: &str, right: &str| {
        let pair = format!("{left} {right}").into_bytes();
        spec.merges.iter().position(|merge| *merge == pair)
    };
    while let Some((_, at)) =
        (1..symbols.len()).filter_map(|at| Some((rank(&symbols[at - 1], &symbols[at])?, at))).min()
    {
        let right = symbols.remove(at);
        symbols[at - 1] += &right;
    }
    symbols
}

#[test]
fn merging_agrees_with_its_definition() {
    let spec = spec("gpt-2");
    let tokenizer = tokenizer("gpt-2");
    let mut random = Random(11);
    for _ in 0..500 {
        let word: String = (0..=random.below(12))
            .map(|_| ['h', 'e', 'l', 'o', 'u', 's', 'r', 't'][random.below(8) as usize])
            .collect();
        assert_eq!(pieces(&tokenizer, &word), merge_slowly(&spec, &word), "{word}");
    }
}

/// Time is linear, or nearly so, in text of any shape; a quadratic step would take minutes.
#[test]
fn long_runs_do_not_blow_up() {
    let size = 40_000;
    for name in ["gpt-2", "smollm", "llama-bpe", "qwen35", "minicpm5"] {
        let tokenizer = tokenizer(name);
        for unit in [" ", "\n", "l", "1", "'", "<", "\u{301}", "中"] {
            let text = unit.repeat(size);
            let ids = tokenizer.encode(&text, AddSpecial::No);
            assert_eq!(tokenizer.decode(&ids, false), text.as_bytes(), "{name} {unit:?}");
        }
    }
}
