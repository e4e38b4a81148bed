//! SentencePiece models that merge by score (`tokenizer.ggml.model` = `llama`).
//!
//! Kudo, Richardson, "SentencePiece: A simple and language independent subword tokenizer", 2018:
//! text is not cut into words; a space is the character U+2581 in the tokens. Starting from
//! characters, of all adjacent pairs that are a token the one of the highest score is merged,
//! the leftmost if there are several, until no pair is one. What is left and is no token is
//! written byte by byte, in tokens `<0xXX>`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::vocab::{Vocabulary, VocabularyError};

/// Stands for a space in token strings: U+2581, lower one eighth block.
const SPACE: &str = "\u{2581}";

/// What merging needs to know of the tokens beyond their strings.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    /// The place of every token in the order of scores, as [`ordered`] gives it.
    scores: Box<[u32]>,
    /// The token of every byte; `None` where the vocabulary has none.
    bytes: Box<[Option<u32>; 256]>,
    /// Length of the longest token that merging can yield.
    longest: usize,
    /// Text behind a special token, or at the start, gets a space in front.
    space_prefix: bool,
}

/// Buffers of [`Pieces::encode`], kept between fragments.
#[derive(Default)]
pub(crate) struct Scratch {
    text: String,
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Pair>,
}

/// A node of the linked list of symbols: the bytes `start..end` of the text, none once it has
/// been merged into its left neighbour.
#[derive(Clone, Copy)]
struct Symbol {
    start: usize,
    end: usize,
    previous: usize,
    next: usize,
}

/// Two neighbours that are a token together: (score, position of the left one, end of the right
/// one).
type Pair = (u32, Reverse<usize>, usize);

const NONE: usize = usize::MAX;

impl Pieces {
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        scores: &[f32],
        space_prefix: bool,
    ) -> Result<Pieces, VocabularyError> {
        if scores.len() != vocabulary.len() {
            return Err(VocabularyError::ScoreCount { scores: scores.len(), tokens: vocabulary.len() });
        }
        if let Some((id, _)) = (0u32..).zip(scores).find(|(_, score)| score.is_nan()) {
            return Err(VocabularyError::ScoreNotANumber { id });
        }
        let mut bytes = Box::new([None; 256]);
        for (id, byte) in vocabulary.byte_tokens() {
            bytes[usize::from(byte)] = Some(id);
        }
        // A space has one byte in the text of a token, and three in its string.
        let longest = vocabulary.spelled().map(|(_, text)| text.len()).max().unwrap_or(0);
        let longest = longest.saturating_mul(SPACE.len());
        Ok(Pieces { scores: scores.iter().copied().map(ordered).collect(), bytes, longest, space_prefix })
    }

    /// Bytes that are left out of what is encoded unless they are part of a character that has a
    /// token.
    pub(crate) fn missing_bytes(&self, vocabulary: &Vocabulary) -> Vec<u8> {
        let is_token = |byte: u8| match byte {
            b' ' => vocabulary.merged(SPACE.as_bytes()).is_some(),
            _ => vocabulary.merged(&[byte]).is_some(),
        };
        (0..=255).filter(|&byte| self.bytes[usize::from(byte)].is_none() && !is_token(byte)).collect()
    }

    /// Appends the tokens of a text that holds no special token. O(n log n) in its length.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        after_special: bool,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) {
        let Scratch { text: spelled, symbols, queue } = scratch;
        spelled.clear();
        if self.space_prefix && after_special {
            spelled.push_str(SPACE);
        }
        for (at, part) in text.split(' ').enumerate() {
            if at > 0 {
                spelled.push_str(SPACE);
            }
            spelled.push_str(part);
        }
        let merging = Merging { pieces: self, vocabulary, text: spelled.as_bytes() };

        symbols.clear();
        symbols.extend(spelled.char_indices().enumerate().map(|(at, (start, c))| Symbol {
            start,
            end: start + c.len_utf8(),
            previous: at.checked_sub(1).unwrap_or(NONE),
            next: at + 1,
        }));
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        queue.clear();
        queue.extend((0..symbols.len()).filter_map(|at| merging.pair(symbols, at)));
        while let Some((_, Reverse(at), end)) = queue.pop() {
            let Some(&Symbol { start, next, end: middle, previous }) = symbols.get(at) else { continue };
            let Some(&Symbol { end: right_end, next: after, .. }) = symbols.get(next) else { continue };
            // A pair that has been merged with something else since is stale.
            if start == middle || right_end != end {
                continue;
            }
            if let Some(symbol) = symbols.get_mut(at) {
                (symbol.end, symbol.next) = (end, after);
            }
            if let Some(symbol) = symbols.get_mut(next) {
                (symbol.end, symbol.next) = (symbol.start, NONE);
            }
            if let Some(symbol) = symbols.get_mut(after) {
                symbol.previous = at;
            }
            queue.extend(merging.pair(symbols, at));
            queue.extend(merging.pair(symbols, previous));
        }
        for symbol in symbols.iter().filter(|symbol| symbol.start < symbol.end) {
            merging.emit(symbol.start, symbol.end, out);
        }
    }
}

/// A text that is being merged.
#[derive(Clone, Copy)]
struct Merging<'a> {
    pieces: &'a Pieces,
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
}

impl Merging<'_> {
    fn token(&self, start: usize, end: usize) -> Option<u32> {
        if end - start > self.pieces.longest {
            return None;
        }
        self.vocabulary.merged(self.text.get(start..end)?)
    }

    /// The pair whose left symbol is at `at`, if it is a token.
    fn pair(&self, symbols: &[Symbol], at: usize) -> Option<Pair> {
        let left = symbols.get(at)?;
        let right = symbols.get(left.next)?;
        let token = self.token(left.start, right.end)?;
        let score = self.pieces.scores.get(token as usize)?;
        Some((*score, Reverse(at), right.end))
    }

    /// A symbol that is no token falls back to the tokens of its bytes.
    fn emit(&self, start: usize, end: usize, out: &mut Vec<u32>) {
        if let Some(token) = self.token(start, end) {
            out.push(token);
            return;
        }
        let bytes = self.text.get(start..end).unwrap_or(&[]);
        out.extend(bytes.iter().filter_map(|&byte| self.pieces.bytes[usize::from(byte)]));
    }
}

/// A number that is greater where the score is; the two zeros are equal.
fn ordered(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// The bytes of a token string, with its spaces.
pub(crate) fn with_spaces(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        match rest.strip_prefix(SPACE.as_bytes()) {
            Some(tail) => {
                out.push(b' ');
                rest = tail;
            }
            None => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_keep_their_order() {
        let scores = [f32::NEG_INFINITY, -1e9, -2.5, -1.0, -f32::MIN_POSITIVE, 0.0, 1e-9, 3.0, f32::INFINITY];
        assert!(scores.map(ordered).is_sorted_by(|a, b| a < b));
        assert_eq!(ordered(-0.0), ordered(0.0));
    }

    #[test]
    fn spaces_of_token_strings() {
        assert_eq!(with_spaces("▁a▁▁b".as_bytes()), b" a  b");
        // A part of the character, and bytes that are no UTF-8, stay.
        assert_eq!(with_spaces(b"\xe2\x96\xff\xe2\x96"), b"\xe2\x96\xff\xe2\x96");
        assert_eq!(with_spaces("é".as_bytes()), "é".as_bytes());
    }
}
