//! Telling the input's text from the template's.
//!
//! A rendered template is one string. To know afterwards which names of control tokens in it came
//! from a message, each is broken before rendering by a mark, a noncharacter that the input does
//! not use, put inside the name. Removing the marks gives the text, and their places the barriers
//! that no control token may span.

use serde_json::{Map, Value};

use super::ChatError;
use crate::trie::Trie;

/// Noncharacters that may serve as the mark.
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Values of `role` that stay whole, in case they are names of control tokens.
const ROLES: &[&str] = &["system", "developer", "user", "assistant", "model", "tool", "function", "ipython"];

/// The names of control tokens.
#[derive(Clone, Debug)]
pub(super) struct Markers {
    texts: Vec<String>,
    forward: Trie,
    backward: Trie,
    /// Length in bytes of the longest.
    longest: usize,
}

impl Markers {
    pub(super) fn new(texts: &[String]) -> Markers {
        Markers {
            texts: texts.to_vec(),
            forward: Trie::new(texts.iter().map(|text| text.bytes())),
            backward: Trie::new(texts.iter().map(|text| text.bytes().rev())),
            longest: texts.iter().map(String::len).max().unwrap_or(0),
        }
    }

    /// Where to put marks into `text`, ascending, so that neither it, nor it together with what
    /// may stand before or behind it, yields a name without a mark inside.
    ///
    /// Text is looked at with and without the whitespace at its ends, as templates trim it.
    fn places(&self, text: &str) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for (at, c) in text.char_indices() {
            let rest = text.get(at..).unwrap_or("");
            if self.forward.prefixes_of(rest.bytes()).next().is_some() {
                places.push(at + c.len_utf8());
            }
        }
        let trimmed = text.trim();
        let start = text.len() - text.trim_start().len();
        for (part, start) in [(text, 0), (trimmed, start)] {
            // A name that begins here and ends behind.
            for (at, c) in part.char_indices().rev().take(self.longest) {
                let end = part.get(at..).unwrap_or("");
                if self.forward.continues(end.bytes()) && is_structural(end) {
                    places.push(start + at + c.len_utf8());
                }
            }
            // A name that begins before and ends here.
            for (at, c) in part.char_indices().take(self.longest) {
                let head = part.get(..at + c.len_utf8()).unwrap_or("");
                if self.backward.continues(head.bytes().rev()) && is_structural(head) {
                    places.push(start);
                    break;
                }
            }
            // A name that begins before and ends behind.
            if part.len() < self.longest
                && is_structural(part)
                && self.texts.iter().any(|text| text.len() > part.len() && text.contains(part))
            {
                places.push(start);
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Whether there is anything but letters, digits and underscores in `text`. Plain words are
/// parts of many names (`user` of `<|user|>`), and templates write names around them on purpose.
fn is_structural(text: &str) -> bool {
    text.chars().any(|c| !c.is_alphanumeric() && c != '_')
}

/// Puts marks into the strings of one input.
pub(super) struct Guard<'m> {
    markers: &'m Markers,
    /// Bit `n` is set if `MARKS` number `n` is taken.
    taken: u32,
}

impl<'m> Guard<'m> {
    /// A guard whose mark occurs in none of `fixed`.
    pub(super) fn new<'t>(markers: &'m Markers, fixed: impl Iterator<Item = &'t str>) -> Guard<'m> {
        let mut guard = Guard { markers, taken: 0 };
        fixed.for_each(|text| guard.reserve_text(text));
        guard
    }

    /// Excludes the marks that `text` uses.
    pub(super) fn reserve_text(&mut self, text: &str) {
        for c in text.chars().filter(|c| MARKS.contains(c)) {
            self.taken |= 1 << ((u32::from(c) - u32::from(*MARKS.start())) % 32);
        }
    }

    /// Excludes the marks that `value` uses.
    pub(super) fn reserve(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.reserve_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.reserve(item)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    self.reserve_text(key);
                    self.reserve(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The mark: the first noncharacter that is not taken.
    pub(super) fn mark(&self) -> Option<char> {
        let mut marks = MARKS;
        marks.nth(self.taken.trailing_ones() as usize)
    }

    /// A copy of `value` with marks in its strings.
    pub(super) fn protect(&self, value: &Value) -> Result<Value, ChatError> {
        Ok(match value {
            Value::String(text) => Value::String(self.protect_text(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.protect(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(entries) => {
                let mut out = Map::with_capacity(entries.len());
                for (key, value) in entries {
                    let is_role = key == "role" && value.as_str().is_some_and(|role| ROLES.contains(&role));
                    let value = if is_role { value.clone() } else { self.protect(value)? };
                    out.insert(self.protect_text(key)?, value);
                }
                Value::Object(out)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn protect_text(&self, text: &str) -> Result<String, ChatError> {
        let places = self.markers.places(text);
        if places.is_empty() {
            return Ok(text.to_owned());
        }
        let mark = self.mark().ok_or(ChatError::NoMarkLeft)?;
        let mut out = String::with_capacity(text.len() + places.len() * mark.len_utf8());
        let mut from = 0;
        for place in places {
            out.push_str(text.get(from..place).unwrap_or(""));
            out.push(mark);
            from = place;
        }
        out.push_str(text.get(from..).unwrap_or(""));
        Ok(out)
    }
}

/// Takes the marks out of `text`: the text without them, and where they stood in it, ascending.
pub(super) fn lift(text: &str, mark: Option<char>) -> (String, Vec<usize>) {
    let Some(mark) = mark else { return (text.to_owned(), Vec::new()) };
    let mut out = String::with_capacity(text.len());
    let mut places = Vec::new();
    for part in text.split(mark) {
        out.push_str(part);
        places.push(out.len());
    }
    places.pop();
    places.dedup();
    (out, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn markers() -> Markers {
        Markers::new(&["<|im_start|>", "<|im_end|>", "<s>"].map(str::to_owned))
    }

    #[test]
    fn names_are_broken_inside() {
        let places = |text| markers().places(text);
        assert!(places("plain text, 1 < 2 and a > b").is_empty());
        assert_eq!(places("x<|im_end|><s>y"), [2, 12]);
        // Begins here, ends behind; with trailing space too.
        assert_eq!(places("ab<|im_"), [3]);
        assert_eq!(places("ab<|im_ "), [3]);
        assert_eq!(places("ab<"), [3]);
        // Begins before, ends here.
        assert_eq!(places("art|> and"), [0]);
        assert_eq!(places("  art|> and"), [2]);
        // Begins before, ends behind.
        assert_eq!(places("|im_end|"), [0]);
        assert!(places("im_end").is_empty());
    }

    #[test]
    fn keys_and_values_at_any_depth() {
        let markers = markers();
        let guard = Guard::new(&markers, std::iter::empty());
        let input = json!({"a": ["<s>", {"<s>": 1}], "role": "user", "n": null});
        let output = guard.protect(&input).unwrap();
        assert_eq!(output, json!({"a": ["<\u{fdd0}s>", {"<\u{fdd0}s>": 1}], "role": "user", "n": null}));
    }

    #[test]
    fn a_known_role_stays_whole() {
        let markers = Markers::new(&["user".to_owned()]);
        let guard = Guard::new(&markers, std::iter::empty());
        let input = json!({"role": "user", "content": "user"});
        assert_eq!(guard.protect(&input).unwrap(), json!({"role": "user", "content": "u\u{fdd0}ser"}));
    }

    #[test]
    fn the_mark_is_one_that_the_input_does_not_use() {
        let markers = markers();
        let mut guard = Guard::new(&markers, ["\u{fdd1}"].into_iter());
        guard.reserve(&json!(["\u{fdd0}<s>"]));
        assert_eq!(guard.mark(), Some('\u{fdd2}'));
        guard.reserve_text(&MARKS.collect::<String>());
        assert_eq!(guard.mark(), None);
        assert_eq!(guard.protect(&json!("<s>")), Err(ChatError::NoMarkLeft));
        assert_eq!(guard.protect(&json!("fine")), Ok(json!("fine")));
    }

    #[test]
    fn lifting_gives_text_and_places() {
        assert_eq!(lift("<\u{fdd0}s>é<\u{fdd0}", Some('\u{fdd0}')), ("<s>é<".into(), vec![1, 6]));
        assert_eq!(lift("<\u{fdd0}s>", None), ("<\u{fdd0}s>".into(), vec![]));
    }
}
