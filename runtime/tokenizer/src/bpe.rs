//! Byte pair encoding of one piece of text.
//!
//! Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword Units", 2016,
//! over bytes (GPT-2): of all adjacent pairs the one of lowest rank is merged, the leftmost if
//! there are several, until no pair has a rank.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::alphabet;
use crate::vocab::{Vocabulary, VocabularyError};

/// Merge ranks of a vocabulary over symbols.
///
/// A symbol below the number of tokens is a token; the ones above are strings that occur in
/// merges but are no token (or are a control token, which merging must not yield).
#[derive(Clone, Debug)]
pub(crate) struct Merges {
    /// (left, right) -> (rank, merged).
    ranks: HashMap<(u32, u32), (u32, u32)>,
    /// The symbol of every byte.
    byte_symbols: [u32; 256],
    /// The token of every byte; `None` where the vocabulary has none.
    byte_tokens: [Option<u32>; 256],
    /// Number of tokens, and the strings of the symbols from there on.
    tokens: u32,
    extra: Vec<Box<[u8]>>,
    /// Tokens by their bytes, if whole pieces are looked up before merging.
    whole: Option<HashMap<Box<[u8]>, u32>>,
}

/// Buffers of [`Merges::encode`], kept between pieces.
#[derive(Default)]
pub(crate) struct Scratch {
    symbols: Vec<Symbol>,
    /// (rank, position of the left symbol, left, right).
    queue: BinaryHeap<Reverse<(u32, usize, u32, u32)>>,
}

/// A node of the linked list of symbols; `DEAD` once merged into its left neighbour.
#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    previous: usize,
    next: usize,
}

const NONE: usize = usize::MAX;
const DEAD: u32 = u32::MAX;

impl Merges {
    /// Ranks the merges of a file, `left right` in the byte alphabet, in order of rank.
    ///
    /// A merge whose parts are no tokens is kept, for other merges may yield them. One that is
    /// not written in the alphabet can never apply and is passed over.
    pub(crate) fn new(
        vocabulary: &Vocabulary,
        merges: &[Vec<u8>],
        ignore_merges: bool,
    ) -> Result<Merges, VocabularyError> {
        let tokens = u32::try_from(vocabulary.len())
            .map_err(|_| VocabularyError::TooMany { what: "tokens", count: vocabulary.len() })?;
        let mut ids = HashMap::with_capacity(vocabulary.len());
        ids.extend(vocabulary.spelled().map(|(id, bytes)| (Cow::Borrowed(bytes), id)));
        let owned = |(bytes, id): (&Cow<'_, [u8]>, &u32)| (Box::from(&**bytes), *id);
        let whole = ignore_merges.then(|| ids.iter().map(owned).collect());
        let mut symbols = Symbols { ids, tokens, extra: Vec::new() };

        let mut byte_tokens = [None; 256];
        for (id, byte) in vocabulary.byte_tokens() {
            byte_tokens[usize::from(byte)] = Some(id);
        }
        let mut byte_symbols = [0; 256];
        for byte in 0..=255u8 {
            let symbol = symbols.intern(&[byte])?;
            byte_symbols[usize::from(byte)] = symbol;
            if symbol < tokens {
                byte_tokens[usize::from(byte)] = Some(symbol);
            }
        }

        let mut ranks = HashMap::with_capacity(merges.len());
        let mut bytes = Vec::new();
        for (index, merge) in merges.iter().enumerate() {
            let rank = u32::try_from(index)
                .map_err(|_| VocabularyError::TooMany { what: "merges", count: merges.len() })?;
            let (left, right) = split_merge(merge).ok_or_else(|| VocabularyError::MergeSyntax {
                index,
                text: String::from_utf8_lossy(merge).into_owned(),
            })?;
            bytes.clear();
            if !alphabet::append_bytes_of(left, &mut bytes) {
                continue;
            }
            let middle = bytes.len();
            if !alphabet::append_bytes_of(right, &mut bytes) {
                continue;
            }
            let merged = symbols.intern(&bytes)?;
            let (left, right) = bytes.split_at(middle);
            let pair = (symbols.intern(left)?, symbols.intern(right)?);
            ranks.entry(pair).or_insert((rank, merged));
        }
        Ok(Merges { ranks, byte_symbols, byte_tokens, tokens, extra: symbols.extra, whole })
    }

    /// Bytes that no token expresses. They vanish from what is encoded, as in llama.cpp; in the
    /// vocabularies where there are any they are control characters and bytes that valid UTF-8
    /// has not, or hardly ever.
    pub(crate) fn missing_bytes(&self) -> impl Iterator<Item = u8> {
        (0..=255u8).zip(&self.byte_tokens).filter(|(_, token)| token.is_none()).map(|(byte, _)| byte)
    }

    /// Appends the tokens of one piece. O(n log n) in the length of the piece.
    pub(crate) fn encode(&self, piece: &[u8], scratch: &mut Scratch, out: &mut Vec<u32>) {
        if let Some(&token) = self.whole.as_ref().and_then(|whole| whole.get(piece)) {
            out.push(token);
            return;
        }
        let Scratch { symbols, queue } = scratch;
        queue.clear();
        symbols.clear();
        symbols.extend(piece.iter().enumerate().map(|(at, &byte)| Symbol {
            id: self.byte_symbols[usize::from(byte)],
            previous: at.checked_sub(1).unwrap_or(NONE),
            next: if at + 1 < piece.len() { at + 1 } else { NONE },
        }));
        for at in 0..symbols.len() {
            self.queue_pair(symbols, queue, at);
        }
        while let Some(Reverse((_, at, left, right))) = queue.pop() {
            let Some(&Symbol { id, next, .. }) = symbols.get(at) else { continue };
            let Some(&Symbol { id: next_id, next: after, .. }) = symbols.get(next) else { continue };
            // A pair that has been merged with something else since is stale.
            if id != left || next_id != right {
                continue;
            }
            let Some(&(_, merged)) = self.ranks.get(&(left, right)) else { continue };
            if let Some(symbol) = symbols.get_mut(at) {
                symbol.id = merged;
                symbol.next = after;
            }
            if let Some(symbol) = symbols.get_mut(next) {
                symbol.id = DEAD;
                symbol.next = NONE;
            }
            let previous = symbols.get(at).map_or(NONE, |symbol| symbol.previous);
            if let Some(symbol) = symbols.get_mut(after) {
                symbol.previous = at;
            }
            self.queue_pair(symbols, queue, at);
            self.queue_pair(symbols, queue, previous);
        }
        for symbol in symbols.iter().filter(|symbol| symbol.id != DEAD) {
            self.emit(symbol.id, out);
        }
    }

    /// Queues the pair whose left symbol is at `at`, if it has a rank.
    fn queue_pair(
        &self,
        symbols: &[Symbol],
        queue: &mut BinaryHeap<Reverse<(u32, usize, u32, u32)>>,
        at: usize,
    ) {
        let Some(left) = symbols.get(at) else { return };
        let Some(right) = symbols.get(left.next) else { return };
        if let Some(&(rank, _)) = self.ranks.get(&(left.id, right.id)) {
            queue.push(Reverse((rank, at, left.id, right.id)));
        }
    }

    /// A symbol that is no token falls back to the tokens of its bytes.
    fn emit(&self, symbol: u32, out: &mut Vec<u32>) {
        if symbol < self.tokens {
            out.push(symbol);
        } else if let Some(bytes) = self.extra.get((symbol - self.tokens) as usize) {
            out.extend(bytes.iter().filter_map(|&byte| self.byte_tokens[usize::from(byte)]));
        }
    }
}

/// Numbers strings: tokens keep their id, others get the next number.
struct Symbols<'a> {
    ids: HashMap<Cow<'a, [u8]>, u32>,
    tokens: u32,
    extra: Vec<Box<[u8]>>,
}

impl Symbols<'_> {
    fn intern(&mut self, bytes: &[u8]) -> Result<u32, VocabularyError> {
        if let Some(&id) = self.ids.get(bytes) {
            return Ok(id);
        }
        let id = u32::try_from(self.extra.len())
            .ok()
            .and_then(|extra| self.tokens.checked_add(extra))
            .filter(|&id| id != DEAD)
            .ok_or(VocabularyError::TooMany { what: "merges", count: self.extra.len() })?;
        self.extra.push(bytes.into());
        self.ids.insert(Cow::Owned(bytes.to_vec()), id);
        Ok(id)
    }
}

/// The parts of `left right`. The left part may begin with a space, never with nothing.
fn split_merge(merge: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = merge.iter().skip(1).position(|&byte| byte == b' ')? + 1;
    let right = merge.get(space + 1..).filter(|right| !right.is_empty())?;
    Some((merge.get(..space)?, right))
}
