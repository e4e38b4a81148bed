//! SentencePiece models: merging by score, spaces, byte tokens.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, texts};
use phobos_tokenizer::{AddSpecial, StreamDecoder, TokenType, Tokenizer, TokenizerSpec, VocabularyError};

/// Pieces and scores.
const PIECES: &[(&str, f32)] = &[
    ("▁", -1.0),
    ("h", -2.0),
    ("e", -3.0),
    ("l", -4.0),
    ("o", -5.0),
    ("é", -6.0),
    ("ll", -7.0),
    ("he", -8.0),
    ("▁h", -9.0),
    ("lo", -10.0),
    ("hello", -11.0),
    ("hell", -12.0),
    ("▁▁", -13.0),
    ("▁hello", -14.0),
    ("el", -15.0),
    ("eo", -15.0),
    ("oe", -15.0),
];

/// Ids 0 to 2 `<unk>`, `<s>`, `</s>`; 3 to 258 the bytes; then the pieces; then a control and a
/// user-defined token.
fn spec() -> TokenizerSpec {
    let mut spec = TokenizerSpec { model: "llama".into(), ..TokenizerSpec::default() };
    let mut add = |text: &str, score: f32, kind: TokenType| {
        spec.tokens.push(text.as_bytes().to_vec());
        spec.scores.push(score);
        spec.types.push(kind);
    };
    add("<unk>", 0.0, TokenType::Unknown);
    add("<s>", 0.0, TokenType::Control);
    add("</s>", 0.0, TokenType::Control);
    for byte in 0..=255 {
        add(&format!("<0x{byte:02X}>"), 0.0, TokenType::Byte);
    }
    for (text, score) in PIECES {
        add(text, *score, TokenType::Normal);
    }
    add("<turn>", 0.0, TokenType::Control);
    add("\n\n", 0.0, TokenType::UserDefined);
    TokenizerSpec { bos: Some(1), eos: Some(2), unk: Some(0), ..spec }
}

fn tokenizer(space_prefix: bool) -> Tokenizer {
    Tokenizer::new(&TokenizerSpec { add_space_prefix: Some(space_prefix), ..spec() }).unwrap()
}

fn pieces(tokenizer: &Tokenizer, text: &str) -> Vec<String> {
    texts(tokenizer, &tokenizer.encode(text, AddSpecial::No))
}

#[test]
fn merges_by_score() {
    let tokenizer = tokenizer(false);
    // `ll`, then `he`, then the two; `lo` has the better score than `hell`, but has lost its `l`.
    assert_eq!(pieces(&tokenizer, "hell"), ["hell"]);
    assert_eq!(pieces(&tokenizer, "hello"), ["hello"]);
    assert_eq!(pieces(&tokenizer, "lllo"), ["ll", "lo"]);
    assert_eq!(pieces(&tokenizer, "llll"), ["ll", "ll"]);
    // Equal scores: the leftmost.
    assert_eq!(pieces(&tokenizer, "eoe"), ["eo", "e"]);
    assert_eq!(pieces(&tokenizer, "oeo"), ["oe", "o"]);
    assert!(tokenizer.encode("", AddSpecial::No).is_empty());
}

#[test]
fn spaces_are_characters() {
    assert_eq!(pieces(&tokenizer(false), "he he"), ["he", " ", "he"]);
    assert_eq!(pieces(&tokenizer(false), "   e"), ["  ", " ", "e"]);
    // U+2581 in a text is one too.
    assert_eq!(pieces(&tokenizer(false), "e▁e"), ["e", " ", "e"]);
}

#[test]
fn a_space_goes_before_the_text_and_behind_special_tokens() {
    let tokenizer = tokenizer(true);
    assert_eq!(pieces(&tokenizer, "e"), [" ", "e"]);
    assert_eq!(pieces(&tokenizer, "e\n\ne"), [" ", "e", "\n\n", " ", "e"]);
    assert_eq!(pieces(&tokenizer, "\n\ne"), ["\n\n", " ", "e"]);
    assert!(tokenizer.encode("", AddSpecial::No).is_empty());
    // It is the default.
    assert_eq!(pieces(&Tokenizer::new(&spec()).unwrap(), "e"), [" ", "e"]);
}

#[test]
fn characters_without_a_piece_are_bytes() {
    let tokenizer = tokenizer(false);
    let id = |byte: u8| 3 + u32::from(byte);
    assert_eq!(tokenizer.encode("🦙\n", AddSpecial::No), b"\xf0\x9f\xa6\x99\n".map(id));
    assert_eq!(tokenizer.decode(&b"\xf0\x9f\xa6\x99\n".map(id), true), "🦙\n".as_bytes());
    assert_eq!(pieces(&tokenizer, "é"), ["é"]);
    // The name of a byte token is ordinary text.
    let ids = tokenizer.encode("<0x41>", AddSpecial::No);
    assert_eq!(ids, b"<0x41>".map(id));

    let mut decoder = StreamDecoder::new(true);
    let deltas = b"\xf0\x9f\xa6\x99".map(|byte| decoder.push(tokenizer.vocabulary(), id(byte)));
    assert_eq!(deltas, ["", "", "", "🦙"]);
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let mut spec = spec();
    for byte in [b'\n', b'h', b' '] {
        spec.types[3 + usize::from(byte)] = TokenType::Unused;
    }
    let tokenizer = Tokenizer::new(&TokenizerSpec { add_space_prefix: Some(false), ..spec }).unwrap();
    // `h` and the space have a piece.
    assert_eq!(tokenizer.missing_bytes(), *b"\n");
    assert_eq!(pieces(&tokenizer, "h e\ne"), ["h", " ", "e", "e"]);
}

#[test]
fn no_text_of_a_user_is_a_control_token() {
    let mut spec = spec();
    // One that merging could spell, with the best score of all.
    spec.tokens.push("eh".into());
    spec.types.push(TokenType::Control);
    spec.scores.push(100.0);
    let tokenizer = Tokenizer::new(&spec).unwrap();
    let control = spec.tokens.len() as u32 - 1;
    for text in ["eh", "<turn>", "<s>", "<unk>", "</s>e"] {
        let ids = tokenizer.encode(text, AddSpecial::No);
        assert!(ids.iter().all(|&id| !tokenizer.vocabulary().is_control(id)), "{text}: {ids:?}");
    }
    assert_eq!(tokenizer.encode_with_control("eh", AddSpecial::No), [control]);
}

#[test]
fn bos_is_added_unless_the_file_says_otherwise() {
    let first = |add_bos| {
        let tokenizer = Tokenizer::new(&TokenizerSpec { add_bos, ..spec() }).unwrap();
        tokenizer.encode("e", AddSpecial::Yes)[0]
    };
    assert_eq!(first(None), 1);
    assert_eq!(first(Some(true)), 1);
    assert_ne!(first(Some(false)), 1);
}

#[test]
fn damaged_specs_are_errors() {
    let error = |change: &dyn Fn(&mut TokenizerSpec)| {
        let mut spec = spec();
        change(&mut spec);
        Tokenizer::new(&spec).unwrap_err()
    };
    let tokens = spec().tokens.len();
    let e = error(&|spec| spec.scores.clear());
    assert_eq!(e, VocabularyError::ScoreCount { scores: 0, tokens });
    let e = error(&|spec| spec.scores[7] = f32::NAN);
    assert_eq!(e, VocabularyError::ScoreNotANumber { id: 7 });
    // No types: nothing is a byte, and all is text.
    let spec = TokenizerSpec { types: Vec::new(), ..spec() };
    let tokenizer = Tokenizer::new(&spec).unwrap();
    assert_eq!(tokenizer.decode(&tokenizer.encode("e\n", AddSpecial::No), true), b" e");
}

/// Merging one pair at a time, straight from the definition.
fn merge_slowly(text: &str) -> Vec<String> {
    let mut symbols: Vec<String> = text.replace(' ', "▁").chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for at in 1..symbols.len() {
            let pair = format!("{}{}", symbols[at - 1], symbols[at]);
            let Some((_, score)) = PIECES.iter().find(|(piece, _)| *piece == pair) else { continue };
            if best.is_none_or(|(most, _)| *score > most) {
                best = Some((*score, at));
            }
        }
        let Some((_, at)) = best else { break };
        let right = symbols.remove(at);
        symbols[at - 1] += &right;
    }
    symbols.into_iter().map(|symbol| symbol.replace('▁', " ")).collect()
}

#[test]
fn merging_agrees_with_its_definition() {
    let tokenizer = tokenizer(false);
    let mut random = Random(5);
    for _ in 0..2000 {
        let text: String = (0..=random.below(16))
            .map(|_| [' ', 'h', 'e', 'l', 'l', 'o', 'é'][random.below(7) as usize])
            .collect();
        assert_eq!(pieces(&tokenizer, &text), merge_slowly(&text), "{text:?}");
    }
}

#[test]
fn decoding_undoes_encoding() {
    let tokenizer = tokenizer(false);
    let mut random = Random(6);
    for _ in 0..500 {
        let text = random.text(30);
        let ids = tokenizer.encode(&text, AddSpecial::No);
        assert_eq!(String::from_utf8_lossy(&tokenizer.decode(&ids, false)), text);
    }
}

/// Time is linear, or nearly so, in text of any shape; a quadratic step would take minutes.
#[test]
fn long_runs_do_not_blow_up() {
    let tokenizer = tokenizer(false);
    for unit in [" ", "\n", "l", "hello ", "中"] {
        let text = unit.repeat(40_000);
        let ids = tokenizer.encode(&text, AddSpecial::No);
        assert_eq!(tokenizer.decode(&ids, false), text.as_bytes(), "{unit:?}");
    }
}
