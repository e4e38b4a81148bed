//! Which tokens end a generation.
//!
//! GGUF names one end-of-sequence token, yet models stop on others as well: the end of a turn, of
//! a message, of a file. They are known by their text, as in llama.cpp.

/// Texts of tokens that end a turn, a message or the text, or that follow a fill-in-the-middle
/// answer.
const NAMES: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// Whether a token of that text ends a generation in every vocabulary.
pub(crate) fn is_named(text: &str) -> bool {
    NAMES.contains(&text)
}

/// Texts of [`NAMES`] that do not end a generation in this vocabulary, given which it has.
///
/// Where a format ends its answers with `<|return|>` and `<|call|>` (or `<|calls|>` and
/// `<|flush|>`), `<|end|>` only ends a message; where it has `<|tool_response>`, `</s>` is a
/// plain HTML tag.
pub(crate) fn exceptions(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut out = Vec::new();
    let calls = has("<|call|>") || has("<|calls|>");
    if calls && (has("<|return|>") || has("<|flush|>")) {
        out.push("<|end|>");
    }
    if has("<|tool_response>") {
        out.push("</s>");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_depend_on_the_other_tokens() {
        let of = |texts: &[&str]| exceptions(|text| texts.contains(&text));
        assert!(of(&["<|end|>", "<|return|>"]).is_empty());
        assert_eq!(of(&["<|end|>", "<|return|>", "<|call|>"]), ["<|end|>"]);
        assert_eq!(of(&["<|end|>", "<|flush|>", "<|calls|>"]), ["<|end|>"]);
        assert_eq!(of(&["</s>", "<|tool_response>"]), ["</s>"]);
        assert!(is_named("<|im_end|>") && !is_named("<|im_start|>"));
    }
}
