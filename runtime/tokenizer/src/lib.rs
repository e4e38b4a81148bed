//! Tokenizers and chat templates.
//!
//! [`Tokenizer`] is a byte-level BPE or SentencePiece tokenizer built from plain data
//! ([`TokenizerSpec`]), which is what a GGUF file carries under `tokenizer.ggml.*`. [`ChatTemplate`] renders a Jinja chat
//! template to a [`RenderedPrompt`].
//!
//! Invariant: text that a user wrote never becomes a control token. [`Tokenizer::encode`] knows
//! no control tokens at all, and a [`RenderedPrompt`] carries the places that no control token
//! may span, so that [`Tokenizer::encode_prompt`] yields control tokens for the template's own
//! text only.
//!
//! ```
//! use phobos_tokenizer::{AddSpecial, Tokenizer, TokenizerSpec};
//!
//! let spec = TokenizerSpec {
//!     model: "gpt2".into(),
//!     pre: "gpt-2".into(),
//!     tokens: ["a", "b", "ab"].map(Into::into).to_vec(),
//!     merges: vec!["a b".into()],
//!     ..TokenizerSpec::default()
//! };
//! let tokenizer = Tokenizer::new(&spec)?;
//! assert_eq!(tokenizer.encode("abb", AddSpecial::No), [2, 1]);
//! assert_eq!(tokenizer.decode(&[2, 1], true), b"abb");
//! # Ok::<(), phobos_tokenizer::VocabularyError>(())
//! ```
//!
//! Not here: unigram and WordPiece models, Unicode normalisation (the models are run without
//! it), and the `lstrip`/`rstrip` token attributes, which GGUF does not carry.

mod alphabet;
mod bpe;
mod chat;
mod decode;
mod end_of_generation;
mod pretokenize;
mod special;
mod spm;
mod tokenizer;
mod trie;
mod unicode;
mod vocab;

pub use chat::{ChatError, ChatInput, ChatTemplate, RenderedPrompt, SpecialTexts};
pub use decode::StreamDecoder;
pub use pretokenize::Pretokenizer;
pub use tokenizer::{AddSpecial, Tokenizer};
pub use vocab::{IdOutOfRange, TokenType, TokenizerSpec, Vocabulary, VocabularyError};
