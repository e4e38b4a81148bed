//! Pre-tokenizers: how text is cut into pieces before BPE merges inside each piece.
//!
//! A pre-tokenizer is published as a list of regular expressions applied in sequence: each cuts
//! every piece of the one before, and text that it leaves unmatched stays a piece. Here each
//! expression is a hand-written scanner: linear in the text whatever it holds, where a
//! backtracking engine is not.

use crate::unicode::Class;

/// A named pre-tokenizer (`tokenizer.ggml.pre`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pretokenizer {
    scanners: &'static [Scanner],
    /// A piece that is a token as a whole is taken without merging.
    pub(crate) ignore_merges: bool,
    /// Whether BOS is added when the file does not say.
    pub(crate) add_bos: bool,
}

/// One expression of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scanner {
    /// `\p{N}{1,max}`.
    Digits { max: usize },
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`.
    Gpt2,
    /// `'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,digits}`
    /// `| ?[^\sW\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` with `W` = `\p{L}`, or `[\p{L}\p{M}]` if
    /// `marks`.
    Llama { digits: usize, marks: bool },
}

/// Names and what they mean. Aliases are names under which the same sequence is published.
const NAMED: &[(&str, Pretokenizer)] = &[
    ("gpt-2", plain(&[Scanner::Gpt2])),
    ("smollm", SINGLE_DIGITS),
    ("starcoder", SINGLE_DIGITS),
    ("refact", SINGLE_DIGITS),
    ("command-r", SINGLE_DIGITS),
    ("llama-bpe", LLAMA),
    ("llama3", LLAMA),
    ("llama-v3", LLAMA),
    ("qwen2", QWEN2),
    ("deepseek-r1-qwen", QWEN2),
    ("qwen35", plain(&[Scanner::Llama { digits: 1, marks: true }])),
    (
        "minicpm5",
        Pretokenizer {
            scanners: &[Scanner::Digits { max: 3 }, Scanner::Llama { digits: usize::MAX, marks: false }],
            ignore_merges: true,
            add_bos: false,
        },
    ),
];

const SINGLE_DIGITS: Pretokenizer = plain(&[Scanner::Digits { max: 1 }, Scanner::Gpt2]);
const LLAMA: Pretokenizer = Pretokenizer {
    scanners: &[Scanner::Llama { digits: 3, marks: false }],
    ignore_merges: true,
    add_bos: true,
};
const QWEN2: Pretokenizer = plain(&[Scanner::Llama { digits: 1, marks: false }]);

const fn plain(scanners: &'static [Scanner]) -> Pretokenizer {
    Pretokenizer { scanners, ignore_merges: false, add_bos: false }
}

impl Pretokenizer {
    /// The pre-tokenizer of that name; there is no default.
    pub fn named(name: &str) -> Option<Pretokenizer> {
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, pretokenizer)| *pretokenizer)
    }

    /// The names that [`Pretokenizer::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// Calls `emit` with the pieces of `text` in order; together they are the text.
    pub fn split<'t>(&self, text: &'t str, emit: &mut dyn FnMut(&'t str)) {
        split_with(self.scanners, text, emit);
    }
}

fn split_with<'t>(scanners: &[Scanner], text: &'t str, emit: &mut dyn FnMut(&'t str)) {
    let Some((first, rest)) = scanners.split_first() else {
        emit(text);
        return;
    };
    let mut left = text;
    while !left.is_empty() {
        let (piece, tail) = left.split_at(first.piece(left));
        split_with(rest, piece, emit);
        left = tail;
    }
}

impl Scanner {
    /// Length in bytes of the first piece of `text`, which is not empty; at least one character.
    fn piece(self, text: &str) -> usize {
        match self {
            Scanner::Digits { max } => digits_piece(text, max),
            Scanner::Gpt2 => gpt2_piece(text),
            Scanner::Llama { digits, marks } => llama_piece(text, digits, marks),
        }
    }
}

/// Length of the longest prefix of `text` whose characters satisfy `test`.
fn run(text: &str, test: impl Fn(char) -> bool) -> usize {
    text.find(|c| !test(c)).unwrap_or(text.len())
}

/// Like [`run`], at most `max` characters.
fn run_up_to(text: &str, max: usize, test: impl Fn(char) -> bool) -> usize {
    text.char_indices()
        .enumerate()
        .find(|&(count, (_, c))| count >= max || !test(c))
        .map_or(text.len(), |(_, (at, _))| at)
}

fn is_number(c: char) -> bool {
    Class::of(c) == Class::Number
}

fn is_space(c: char) -> bool {
    Class::of(c) == Class::Space
}

fn is_newline(c: char) -> bool {
    c == '\r' || c == '\n'
}

fn digits_piece(text: &str, max: usize) -> usize {
    match run_up_to(text, max, is_number) {
        0 => run(text, |c| !is_number(c)),
        length => length,
    }
}

fn gpt2_piece(text: &str) -> usize {
    if let Some(length) = contraction(text, false) {
        return length;
    }
    // ` ?X+`: the space counts only if an X follows.
    let body = text.strip_prefix(' ').unwrap_or(text);
    let space = text.len() - body.len();
    let class = body.chars().next().map_or(Class::Space, Class::of);
    match class {
        Class::Space => whitespace(text),
        Class::Letter | Class::Number => space + run(body, |c| Class::of(c) == class),
        Class::Mark | Class::Other => {
            space + run(body, |c| matches!(Class::of(c), Class::Mark | Class::Other))
        }
    }
}

fn llama_piece(text: &str, digits: usize, marks: bool) -> usize {
    let is_word = |c| match Class::of(c) {
        Class::Letter => true,
        Class::Mark => marks,
        _ => false,
    };
    if let Some(length) = contraction(text, true) {
        return length;
    }
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return 0 };
    let after = chars.as_str();
    let class = Class::of(first);
    // `[^\r\n\p{L}\p{N}]?W+`
    let may_lead = !is_newline(first) && !matches!(class, Class::Letter | Class::Number);
    let leads = may_lead && chars.next().is_some_and(is_word);
    if leads || is_word(first) {
        return first.len_utf8() + run(after, is_word);
    }
    if class == Class::Number {
        return run_up_to(text, digits, is_number);
    }
    // ` ?[^\sW\p{N}]+[\r\n]*`
    let body = text.strip_prefix(' ').unwrap_or(text);
    let symbols = run(body, |c| !is_word(c) && !matches!(Class::of(c), Class::Number | Class::Space));
    if symbols > 0 {
        let end = text.len() - body.len() + symbols;
        return end + run(text.get(end..).unwrap_or(""), is_newline);
    }
    // `\s*[\r\n]+`: up to the last newline of the whitespace.
    let spaces = text.get(..run(text, is_space)).unwrap_or("");
    match spaces.rfind(is_newline) {
        Some(last) => last + 1,
        None => whitespace(text),
    }
}

/// `\s+(?!\S)`, else `\s+`: a run of whitespace without its last character if something follows,
/// for that one belongs to the next word.
fn whitespace(text: &str) -> usize {
    let length = run(text, is_space);
    if length == text.len() {
        return length;
    }
    let spaces = text.get(..length).unwrap_or("");
    match spaces.char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => length,
    }
}

/// An English contraction at the start of `text`: 's 't 're 've 'm 'll 'd.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let rest = text.strip_prefix('\'')?.as_bytes();
    let letter =
        |at: usize| rest.get(at).map_or(0, |&byte| if any_case { byte.to_ascii_lowercase() } else { byte });
    match (letter(0), letter(1)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', b'e') | (b'l', b'l') => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        let mut out = Vec::new();
        Pretokenizer::named(name).unwrap().split(text, &mut |piece| out.push(piece));
        out
    }

    #[test]
    fn gpt2_words_numbers_symbols_and_spaces() {
        assert_eq!(
            pieces("gpt-2", "I'll pay $12,5 'Re  now\n"),
            ["I", "'ll", " pay", " $", "12", ",", "5", " '", "Re", " ", " now", "\n"]
        );
        assert_eq!(pieces("gpt-2", "a\nb"), ["a", "\n", "b"]);
        assert_eq!(pieces("gpt-2", "x\n \n y"), ["x", "\n \n", " y"]);
    }

    #[test]
    fn smollm_cuts_every_digit_first() {
        assert_eq!(pieces("smollm", "in 2024 ok"), ["in", " ", "2", "0", "2", "4", " ok"]);
        // The cut before a digit counts as the end of the text for the second expression.
        assert_eq!(pieces("smollm", "a  1"), ["a", "  ", "1"]);
    }

    #[test]
    fn llama_groups_three_digits_and_keeps_newlines_with_symbols() {
        assert_eq!(
            pieces("llama-bpe", "It'S 12345!\n\n ok\r\n  x"),
            ["It", "'S", " ", "123", "45", "!\n\n", " ok", "\r\n", " ", " x"]
        );
        assert_eq!(pieces("llama-bpe", "(word) \t tail "), ["(word", ")", " \t", " tail", " "]);
    }

    #[test]
    fn qwen2_takes_one_digit_and_qwen35_keeps_marks_with_letters() {
        assert_eq!(pieces("qwen2", "v12"), ["v", "1", "2"]);
        let text = "e\u{301}t \u{301}x";
        assert_eq!(pieces("qwen2", text), ["e", "\u{301}t", " \u{301}", "x"]);
        assert_eq!(pieces("qwen35", text), ["e\u{301}t", " \u{301}x"]);
    }

    #[test]
    fn minicpm5_cuts_threes_first() {
        assert_eq!(pieces("minicpm5", "n1234 x"), ["n", "123", "4", " x"]);
    }

    /// ggml-org/llama.cpp#8338: a run of tabs before a word gives its last tab to the word.
    #[test]
    fn whitespace_before_a_word() {
        for name in ["llama-bpe", "qwen2", "qwen35", "minicpm5"] {
            assert_eq!(pieces(name, "\t\t\t\t\t\ttest"), ["\t\t\t\t\t", "\ttest"], "{name}");
        }
        for name in ["gpt-2", "smollm"] {
            assert_eq!(pieces(name, "\t\t\t\t\t\ttest"), ["\t\t\t\t\t", "\t", "test"], "{name}");
        }
        for name in Pretokenizer::names() {
            for length in 1..10 {
                let text = format!("{}x", " ".repeat(length));
                let want: Vec<&str> = match length {
                    1 => vec![" x"],
                    _ => vec![&text[..length - 1], " x"],
                };
                assert_eq!(pieces(name, &text), want, "{name} {length}");
            }
        }
    }

    #[test]
    fn no_name_no_pretokenizer() {
        assert_eq!(Pretokenizer::named("default"), None);
        assert_eq!(Pretokenizer::named(""), None);
    }
}
