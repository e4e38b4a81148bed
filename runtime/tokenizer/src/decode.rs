//! Token ids to text.

use crate::tokenizer::Tokenizer;
use crate::vocab::Vocabulary;

impl Tokenizer {
    /// The bytes of `ids`, which are whole UTF-8 only if the ids are a whole text. Control tokens
    /// are written by their names, or left out if `skip_control`. Unused ids and ids outside the
    /// vocabulary stand for nothing.
    pub fn decode(&self, ids: &[u32], skip_control: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for &id in ids {
            out.extend_from_slice(piece(self.vocabulary(), id, skip_control));
        }
        out
    }
}

fn piece(vocabulary: &Vocabulary, id: u32, skip_control: bool) -> &[u8] {
    if skip_control && vocabulary.is_control(id) {
        return &[];
    }
    vocabulary.bytes(id).unwrap_or(&[])
}

/// Decodes a stream of tokens to text, whole characters at a time.
///
/// The bytes of a character may be spread over tokens; they are held back until it is whole.
/// Bytes that can never become a character are replaced by U+FFFD at once, one for each maximal
/// prefix of a character, so that the concatenation of all that is returned is what
/// [`String::from_utf8_lossy`] makes of the whole, without a character that the end cuts.
#[derive(Clone, Debug, Default)]
pub struct StreamDecoder {
    /// A proper prefix of a character: at most 3 bytes.
    pending: Vec<u8>,
    skip_control: bool,
}

impl StreamDecoder {
    /// A decoder at the start of a text; see [`Tokenizer::decode`] for `skip_control`.
    pub fn new(skip_control: bool) -> StreamDecoder {
        StreamDecoder { pending: Vec::new(), skip_control }
    }

    /// The characters that `id` completes; often none, sometimes several.
    pub fn push(&mut self, vocabulary: &Vocabulary, id: u32) -> String {
        self.pending.extend_from_slice(piece(vocabulary, id, self.skip_control));
        let bytes = std::mem::take(&mut self.pending);
        let mut out = String::new();
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            out.push_str(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            if chunks.peek().is_none() && may_continue(invalid) {
                self.pending = invalid.to_vec();
            } else {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        out
    }
}

/// Whether `bytes`, which are no character, are the beginning of one.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
