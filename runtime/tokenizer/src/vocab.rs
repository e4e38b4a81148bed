//! The vocabulary: what each token id stands for.

use std::collections::HashMap;

use thiserror::Error;

use crate::alphabet;
use crate::end_of_generation;
use crate::pretokenize::Pretokenizer;
use crate::spm;

/// A tokenizer as a file states it: the values of the `tokenizer.ggml.*` keys of GGUF, unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenizerSpec {
    /// `tokenizer.ggml.model`: `gpt2` (byte-level BPE) or `llama` (SentencePiece, merged by score).
    pub model: String,
    /// `tokenizer.ggml.pre`; see [`Pretokenizer::names`]. Of no effect on SentencePiece.
    pub pre: String,
    /// `tokenizer.ggml.tokens`: the string of every id, not always valid UTF-8.
    pub tokens: Vec<Vec<u8>>,
    /// `tokenizer.ggml.token_type`, as many as tokens; empty if the file has none, then all are
    /// [`TokenType::Normal`].
    pub types: Vec<TokenType>,
    /// `tokenizer.ggml.scores` of SentencePiece, as many as tokens: the pair whose token has the
    /// highest is merged first.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.merges` of byte-level BPE: `left right` in order of rank.
    pub merges: Vec<Vec<u8>>,
    /// `tokenizer.ggml.bos_token_id`; like the other ids it may name no token.
    pub bos: Option<i64>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<i64>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<i64>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unk: Option<i64>,
    /// `tokenizer.ggml.padding_token_id`.
    pub pad: Option<i64>,
    /// `tokenizer.ggml.add_bos_token`; `None` takes the default of the pre-tokenizer, for
    /// SentencePiece yes.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`; `None` is no.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`; `None` is yes. Of no effect on byte-level BPE.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

/// `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenType {
    /// Found by merging.
    #[default]
    Normal,
    /// Stands for what the vocabulary cannot express.
    Unknown,
    /// Means something to the model beyond its text, such as the start of a turn.
    Control,
    /// Matched in any text before merging.
    UserDefined,
    /// Padding of the vocabulary.
    Unused,
    /// One byte, written `<0xXX>`.
    Byte,
}

impl TokenType {
    /// The type that GGUF writes as `number` (1 to 6).
    pub fn from_gguf(number: i64) -> Option<TokenType> {
        Some(match number {
            1 => TokenType::Normal,
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => return None,
        })
    }
}

/// Why a [`TokenizerSpec`] makes no tokenizer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum VocabularyError {
    /// The model is not implemented.
    #[error("tokenizer model `{name}` is not supported (supported: gpt2, llama)")]
    UnsupportedModel {
        /// The name found.
        name: String,
    },
    /// The pre-tokenizer is not implemented.
    #[error("pre-tokenizer `{name}` is not supported (supported: {})", supported_pretokenizers())]
    UnsupportedPretokenizer {
        /// The name found.
        name: String,
    },
    /// No tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// More tokens and merges than 32-bit ids can name.
    #[error("{what}: {count} are too many")]
    TooMany {
        /// `tokens` or `merges`.
        what: &'static str,
        /// How many there are.
        count: usize,
    },
    /// One type per token is needed.
    #[error("token types: {types} for {tokens} tokens")]
    TypeCount {
        /// Number of types.
        types: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// One score per token is needed.
    #[error("token scores: {scores} for {tokens} tokens")]
    ScoreCount {
        /// Number of scores.
        scores: usize,
        /// Number of tokens.
        tokens: usize,
    },
    /// A score has no place in an order.
    #[error("token {id}: its score is not a number")]
    ScoreNotANumber {
        /// The token.
        id: u32,
    },
    /// Two ids have the same string.
    #[error("token {second}: same string as token {first}: `{text}`")]
    DuplicateToken {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
        /// The string, lossily decoded.
        text: String,
    },
    /// A merge is not `left right`.
    #[error("merge {index}: `{text}` is not two strings parted by a space")]
    MergeSyntax {
        /// Position in the list.
        index: usize,
        /// The merge, lossily decoded.
        text: String,
    },
    /// A token is to be added to every text, but the file does not say which.
    #[error("the file asks to add {what}, but names no such token")]
    MissingSpecial {
        /// `bos` or `eos`.
        what: &'static str,
    },
}

/// A special id that names no token. The file then counts as having no such token: often it is
/// a number that stands for none, such as -1.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{what}: id {id} is outside the vocabulary of {tokens} tokens, and counts as absent")]
pub struct IdOutOfRange {
    /// `bos`, `eos`, `eot`, `unk` or `pad`.
    pub what: &'static str,
    /// The id found.
    pub id: i64,
    /// Number of tokens.
    pub tokens: usize,
}

fn supported_pretokenizers() -> String {
    Pretokenizer::names().collect::<Vec<_>>().join(", ")
}

/// Length of the longest token that is matched as text. It bounds the time per character of text;
/// real ones have a few dozen bytes.
const MAX_MATCHED_BYTES: usize = 1024;

/// The tokens of a model, checked.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    tokens: Vec<Token>,
    /// Every non-empty token string as the file writes it.
    by_text: HashMap<Box<[u8]>, u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    unk: Option<u32>,
    pad: Option<u32>,
    chat_template: Option<String>,
    warnings: Vec<IdOutOfRange>,
}

/// How the file writes the text of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// A character of the byte alphabet per byte.
    Bytes,
    /// As it is, but with U+2581 for a space.
    SentencePiece,
}

#[derive(Clone, Debug)]
struct Token {
    /// The bytes that the token stands for in text.
    bytes: Box<[u8]>,
    kind: TokenType,
    /// Reachable by merging.
    spelled: bool,
    ends_generation: bool,
}

impl Vocabulary {
    /// Checks and decodes the tokens of `spec`. Merges and scores are not looked at.
    ///
    /// A token whose text always ends a generation is a control token whatever its type says:
    /// some files get that wrong.
    pub(crate) fn new(spec: &TokenizerSpec, spelling: Spelling) -> Result<Vocabulary, VocabularyError> {
        let count = spec.tokens.len();
        if count == 0 {
            return Err(VocabularyError::Empty);
        }
        if u32::try_from(count).is_err() {
            return Err(VocabularyError::TooMany { what: "tokens", count });
        }
        if !spec.types.is_empty() && spec.types.len() != count {
            return Err(VocabularyError::TypeCount { types: spec.types.len(), tokens: count });
        }
        let mut warnings = Vec::new();
        let mut special = |what, id: Option<i64>| {
            let id = id?;
            let known = u32::try_from(id).ok().filter(|id| (*id as usize) < count);
            if known.is_none() {
                warnings.push(IdOutOfRange { what, id, tokens: count });
            }
            known
        };
        let (bos, eos, eot) = (special("bos", spec.bos), special("eos", spec.eos), special("eot", spec.eot));
        let (unk, pad) = (special("unk", spec.unk), special("pad", spec.pad));
        let mut by_text: HashMap<Box<[u8]>, u32> = HashMap::with_capacity(count);
        for (id, text) in (0u32..).zip(&spec.tokens) {
            if text.is_empty() {
                continue;
            }
            if let Some(first) = by_text.insert(text.as_slice().into(), id) {
                let text = String::from_utf8_lossy(text).into_owned();
                return Err(VocabularyError::DuplicateToken { first, second: id, text });
            }
        }

        let exceptions = end_of_generation::exceptions(|text| by_text.contains_key(text.as_bytes()));
        let types = spec.types.iter().copied().chain(std::iter::repeat(TokenType::Normal));
        let tokens = (0u32..)
            .zip(spec.tokens.iter().zip(types))
            .map(|(id, (text, kind))| {
                let named = std::str::from_utf8(text).ok().filter(|text| end_of_generation::is_named(text));
                let ends = named.is_some_and(|text| !exceptions.contains(&text));
                let kind = if ends { TokenType::Control } else { kind };
                let declared = eos == Some(id) || eot == Some(id);
                Token::new(text, spelling, kind, ends || declared)
            })
            .collect();
        Ok(Vocabulary {
            tokens,
            by_text,
            bos,
            eos,
            eot,
            unk,
            pad,
            chat_template: spec.chat_template.clone(),
            warnings,
        })
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are no tokens; a vocabulary never is empty.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The bytes that `id` stands for: those of its text if it is ordinary, its name if it is a
    /// control or unknown token, none if it is unused. `None` outside the vocabulary.
    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.token(id).map(|token| &*token.bytes)
    }

    /// The type of `id`; `None` outside the vocabulary.
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        self.token(id).map(|token| token.kind)
    }

    /// Whether `id` is a control token (or the unknown token), which no user text may yield.
    pub fn is_control(&self, id: u32) -> bool {
        self.token(id).is_some_and(Token::is_control)
    }

    /// Whether generation stops at `id`: the end-of-sequence and end-of-turn tokens that the file
    /// names, and the tokens whose text is known to end a turn, a message or a text.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.token(id).is_some_and(|token| token.ends_generation)
    }

    /// The ids of [`Vocabulary::is_end_of_generation`], ascending.
    pub fn end_of_generation(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.tokens).filter(|(_, token)| token.ends_generation).map(|(id, _)| id)
    }

    /// The id of the token that the file writes as `text`, such as `<|im_end|>`.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.by_text.get(text.as_bytes()).copied()
    }

    /// Beginning of sequence.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// End of sequence.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// End of turn, where the file names it apart from [`Vocabulary::eos`].
    pub fn eot(&self) -> Option<u32> {
        self.eot
    }

    /// The unknown token.
    pub fn unk(&self) -> Option<u32> {
        self.unk
    }

    /// Padding.
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// What the file says of special tokens that does not hold.
    pub fn warnings(&self) -> &[IdOutOfRange] {
        &self.warnings
    }

    /// The source of the chat template.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Tokens that are matched as text rather than merged: (id, text, whether it is a control
    /// token). Tokens of one character are left out of the control tokens: nothing could be put
    /// inside one to tell a user's text from a template's. Left out are also tokens longer than
    /// [`MAX_MATCHED_BYTES`].
    pub(crate) fn matched(&self) -> impl Iterator<Item = (u32, &str, bool)> {
        (0u32..).zip(&self.tokens).filter_map(|(id, token)| {
            let control = token.is_control();
            if !control && token.kind != TokenType::UserDefined {
                return None;
            }
            let text = std::str::from_utf8(&token.bytes).ok()?;
            let enough = if control { 2 } else { 1 };
            let fits = text.chars().count() >= enough && text.len() <= MAX_MATCHED_BYTES;
            fits.then_some((id, text, control))
        })
    }

    /// Tokens that merging may yield: (id, bytes).
    pub(crate) fn spelled(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0u32..).zip(&self.tokens).filter(|(_, token)| token.spelled).map(|(id, token)| (id, &*token.bytes))
    }

    /// Tokens of type [`TokenType::Byte`]: (id, the byte).
    pub(crate) fn byte_tokens(&self) -> impl Iterator<Item = (u32, u8)> {
        (0u32..).zip(&self.tokens).filter(|(_, token)| token.kind == TokenType::Byte).filter_map(
            |(id, token)| match *token.bytes {
                [byte] => Some((id, byte)),
                _ => None,
            },
        )
    }

    /// The token that merging yields for `spelling`, which is written as in the file.
    pub(crate) fn merged(&self, spelling: &[u8]) -> Option<u32> {
        let id = self.by_text.get(spelling).copied()?;
        self.token(id).filter(|token| token.spelled).map(|_| id)
    }

    fn token(&self, id: u32) -> Option<&Token> {
        self.tokens.get(id as usize)
    }
}

impl Token {
    fn new(text: &[u8], spelling: Spelling, kind: TokenType, ends_generation: bool) -> Token {
        let (spelled, ordinary) = match spelling {
            Spelling::Bytes => {
                let bytes = alphabet::bytes_of(text);
                // Characters outside the alphabet stand for themselves.
                (
                    bytes.as_ref().is_some_and(|bytes| !bytes.is_empty()),
                    bytes.unwrap_or_else(|| spell_out(text)),
                )
            }
            Spelling::SentencePiece => (!text.is_empty(), spm::with_spaces(text)),
        };
        let mergeable = matches!(kind, TokenType::Normal | TokenType::UserDefined);
        let bytes = match kind {
            TokenType::Normal => ordinary,
            TokenType::Byte => hex_byte(text).map_or_else(|| text.to_vec(), |byte| vec![byte]),
            TokenType::Unused => Vec::new(),
            TokenType::UserDefined | TokenType::Control | TokenType::Unknown => text.to_vec(),
        };
        Token { bytes: bytes.into(), kind, spelled: spelled && mergeable, ends_generation }
    }

    fn is_control(&self) -> bool {
        matches!(self.kind, TokenType::Control | TokenType::Unknown)
    }
}

/// The bytes of a string that is only partly in the byte alphabet.
fn spell_out(text: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match alphabet::byte_of(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out
}

/// The byte of `<0xXX>`.
fn hex_byte(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}
