//! Text to token ids.

use crate::bpe::{self, Merges};
use crate::chat::{ChatError, ChatTemplate, RenderedPrompt, SpecialTexts};
use crate::pretokenize::Pretokenizer;
use crate::special::{Fragment, Matching, SpecialTokens};
use crate::spm::{self, Pieces};
use crate::vocab::{Spelling, TokenizerSpec, Vocabulary, VocabularyError};

/// Whether to add the BOS and EOS tokens that the file asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddSpecial {
    /// Tokens of the text only.
    No,
    /// BOS in front, as with [`AddSpecial::Yes`], but nothing behind: something is to follow.
    Start,
    /// BOS in front and EOS behind, each if the file (or, for BOS, else the default of its
    /// tokenizer) asks for it.
    Yes,
}

/// A tokenizer: byte-level BPE or SentencePiece.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    model: Model,
    /// Added in front, if anything is.
    bos: Option<u32>,
    /// Added behind, if anything is.
    eos: Option<u32>,
}

/// How text between the special tokens becomes tokens.
#[derive(Clone, Debug)]
enum Model {
    Bpe { pretokenizer: Pretokenizer, merges: Box<Merges> },
    SentencePiece(Pieces),
}

/// Buffers kept between the fragments of a text.
#[derive(Default)]
struct Scratch {
    bpe: bpe::Scratch,
    pieces: spm::Scratch,
}

impl Tokenizer {
    /// Checks `spec` and builds its tables.
    pub fn new(spec: &TokenizerSpec) -> Result<Tokenizer, VocabularyError> {
        let (vocabulary, model, add_bos) = match spec.model.as_str() {
            "gpt2" => {
                let pretokenizer = Pretokenizer::named(&spec.pre)
                    .ok_or_else(|| VocabularyError::UnsupportedPretokenizer { name: spec.pre.clone() })?;
                let vocabulary = Vocabulary::new(spec, Spelling::Bytes)?;
                let merges = Merges::new(&vocabulary, &spec.merges, pretokenizer.ignore_merges)?;
                (vocabulary, Model::Bpe { pretokenizer, merges: Box::new(merges) }, pretokenizer.add_bos)
            }
            "llama" => {
                let vocabulary = Vocabulary::new(spec, Spelling::SentencePiece)?;
                let pieces = Pieces::new(&vocabulary, &spec.scores, spec.add_space_prefix.unwrap_or(true))?;
                (vocabulary, Model::SentencePiece(pieces), true)
            }
            name => return Err(VocabularyError::UnsupportedModel { name: name.to_owned() }),
        };
        let bos = match (spec.add_bos, vocabulary.bos()) {
            (Some(true), None) => return Err(VocabularyError::MissingSpecial { what: "bos" }),
            (add, id) => id.filter(|_| add.unwrap_or(add_bos)),
        };
        let eos = match (spec.add_eos, vocabulary.eos()) {
            (Some(true), None) => return Err(VocabularyError::MissingSpecial { what: "eos" }),
            (add, id) => id.filter(|_| add.unwrap_or(false)),
        };
        let special = SpecialTokens::new(&vocabulary);
        Ok(Tokenizer { vocabulary, special, model, bos, eos })
    }

    /// The tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The file's chat template, `None` if it has none. A template that does not compile is an
    /// error of chat alone; the tokenizer works without it.
    pub fn chat_template(&self) -> Option<Result<ChatTemplate, ChatError>> {
        let source = self.vocabulary.chat_template()?;
        Some(ChatTemplate::new(source, &self.special_texts()))
    }

    /// The texts that a chat template needs to know of this vocabulary.
    pub fn special_texts(&self) -> SpecialTexts {
        let text = |id: Option<u32>| {
            let bytes = self.vocabulary.bytes(id?)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        SpecialTexts {
            bos: text(self.vocabulary.bos()),
            eos: text(self.vocabulary.eos()),
            control: self.special.control_texts().map(str::to_owned).collect(),
        }
    }

    /// Bytes that the vocabulary cannot express: they are left out of what is encoded.
    pub fn missing_bytes(&self) -> Vec<u8> {
        match &self.model {
            Model::Bpe { merges, .. } => merges.missing_bytes().collect(),
            Model::SentencePiece(pieces) => pieces.missing_bytes(&self.vocabulary),
        }
    }

    /// Encodes text of a user. No token of it is a control token, whatever it says; the ones
    /// that `add` adds are.
    pub fn encode(&self, text: &str, add: AddSpecial) -> Vec<u32> {
        self.finish(self.encode_matching(text, Matching::UserDefined), add)
    }

    /// Encodes text that is trusted as a whole: names of control tokens in it become control
    /// tokens. BOS is not added where the text already begins with it.
    pub fn encode_with_control(&self, text: &str, add: AddSpecial) -> Vec<u32> {
        self.finish(self.encode_matching(text, Matching::Control { barriers: &[] }), add)
    }

    /// Encodes a prompt: names of control tokens become control tokens where the template wrote
    /// them, and ordinary text where a message did.
    ///
    /// BOS is added if the file asks for it and the template has not written it; EOS never is,
    /// for the answer is to follow.
    pub fn encode_prompt(&self, prompt: &RenderedPrompt) -> Vec<u32> {
        let matching = Matching::Control { barriers: prompt.barriers() };
        let mut ids = self.encode_matching(prompt.text(), matching);
        self.add_bos(&mut ids);
        ids
    }

    fn encode_matching(&self, text: &str, matching: Matching<'_>) -> Vec<u32> {
        let mut out = Vec::new();
        let mut scratch = Scratch::default();
        // The start of a text counts as a special token before it.
        let mut after_special = true;
        for fragment in self.special.cut(text, matching) {
            match fragment {
                Fragment::Token(id) => {
                    out.push(id);
                    after_special = true;
                }
                Fragment::Text(range) => {
                    let text = text.get(range).unwrap_or("");
                    self.encode_ordinary(text, after_special, &mut scratch, &mut out);
                    after_special = false;
                }
            }
        }
        out
    }

    /// Appends the tokens of a text that holds no special token.
    fn encode_ordinary(&self, text: &str, after_special: bool, scratch: &mut Scratch, out: &mut Vec<u32>) {
        match &self.model {
            Model::Bpe { pretokenizer, merges } => pretokenizer.split(text, &mut |piece| {
                merges.encode(piece.as_bytes(), &mut scratch.bpe, out);
            }),
            Model::SentencePiece(pieces) => {
                pieces.encode(&self.vocabulary, text, after_special, &mut scratch.pieces, out);
            }
        }
    }

    fn finish(&self, mut ids: Vec<u32>, add: AddSpecial) -> Vec<u32> {
        if add != AddSpecial::No {
            self.add_bos(&mut ids);
        }
        if add == AddSpecial::Yes {
            ids.extend(self.eos);
        }
        ids
    }

    fn add_bos(&self, ids: &mut Vec<u32>) {
        if let Some(bos) = self.bos.filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
    }
}
