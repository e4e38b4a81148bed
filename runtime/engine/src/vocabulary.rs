//! From GGUF metadata to a tokenizer.

use phobos_gguf::{GgufError, GgufFile};
use phobos_tokenizer::{ChatError, ChatTemplate, TokenType, Tokenizer, TokenizerSpec};

use crate::EngineError;

/// The tokenizer that `file` describes under `tokenizer.ggml.*`.
pub fn tokenizer(file: &GgufFile) -> Result<Tokenizer, EngineError> {
    let spec = spec(file)?;
    Tokenizer::new(&spec).map_err(|source| EngineError::Tokenizer { file: file.name().to_owned(), source })
}

const TEMPLATE: &str = "tokenizer.chat_template";

/// The chat template of `file`, whose tokenizer is `tokenizer`; `None` if it has none. One that
/// cannot be used stops nothing but chat.
pub fn chat_template(file: &GgufFile, tokenizer: &Tokenizer) -> Option<Result<ChatTemplate, ChatError>> {
    match file.metadata().optional::<&str>(TEMPLATE) {
        Err(error) => {
            let message = match error {
                GgufError::WrongValue { wanted, found, .. } => format!("wanted {wanted}, found {found}"),
                other => other.to_string(),
            };
            Some(Err(ChatError::Compile { line: None, message }))
        }
        Ok(_) => tokenizer.chat_template(),
    }
}

/// The keys as they are in the file.
fn spec(file: &GgufFile) -> Result<TokenizerSpec, GgufError> {
    let keys = file.metadata();
    let ggml = |name: &str| format!("tokenizer.ggml.{name}");
    let owned = |strings: Vec<&[u8]>| strings.into_iter().map(<[u8]>::to_vec).collect();
    let id = |name: &str| keys.optional::<i64>(&ggml(name));
    let flag = |name: &str| keys.optional::<bool>(&ggml(name));
    let types = keys.optional::<Vec<i64>>(&ggml("token_type"))?.unwrap_or_default();
    Ok(TokenizerSpec {
        model: keys.require::<&str>(&ggml("model"))?.to_owned(),
        pre: keys.optional::<&str>(&ggml("pre"))?.unwrap_or("default").to_owned(),
        tokens: owned(keys.require(&ggml("tokens"))?),
        // A type that the format does not define is as good as an ordinary token.
        scores: keys.optional(&ggml("scores"))?.unwrap_or_default(),
        types: types.into_iter().map(|number| TokenType::from_gguf(number).unwrap_or_default()).collect(),
        merges: owned(keys.optional(&ggml("merges"))?.unwrap_or_default()),
        bos: id("bos_token_id")?,
        eos: id("eos_token_id")?,
        eot: id("eot_token_id")?,
        unk: id("unknown_token_id")?,
        pad: id("padding_token_id")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        // One that is no text is an error of chat alone.
        chat_template: keys.optional::<&str>(TEMPLATE).ok().flatten().map(str::to_owned),
    })
}
