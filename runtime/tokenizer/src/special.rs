//! Cutting text at the tokens that are matched as text.

use std::ops::Range;

use crate::trie::Trie;
use crate::vocab::Vocabulary;

/// Which tokens a text may be cut at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Matching<'a> {
    /// User-defined tokens only: the text is a user's.
    UserDefined,
    /// Control tokens too, unless one of these byte offsets, ascending, lies strictly inside the
    /// match.
    Control {
        /// See [`crate::RenderedPrompt`].
        barriers: &'a [usize],
    },
}

/// A part of a cut text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// Bytes of the text that are still to be tokenized.
    Text(Range<usize>),
    /// A token.
    Token(u32),
}

/// The control and user-defined tokens of a vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct SpecialTokens {
    /// Longest first, then by id.
    entries: Vec<Entry>,
    trie: Trie,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u32,
    text: Box<str>,
    control: bool,
}

impl SpecialTokens {
    pub(crate) fn new(vocabulary: &Vocabulary) -> SpecialTokens {
        let mut entries: Vec<Entry> = vocabulary
            .matched()
            .map(|(id, text, control)| Entry { id, text: text.into(), control })
            .collect();
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.text.len()), entry.id));
        let trie = Trie::new(entries.iter().map(|entry| entry.text.bytes()));
        SpecialTokens { entries, trie }
    }

    /// The texts of the control tokens.
    pub(crate) fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| entry.control).map(|entry| &*entry.text)
    }

    /// Cuts `text`. A longer token is taken wherever it occurs before a shorter one is looked
    /// for, so that overlapping matches go to the longest, not to the leftmost.
    pub(crate) fn cut(&self, text: &str, matching: Matching<'_>) -> Vec<Fragment> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut fragments = vec![Fragment::Text(0..text.len())];
        for entry in self.present(text, matching) {
            let barriers = match matching {
                Matching::Control { barriers } if entry.control => barriers,
                _ => &[],
            };
            fragments = fragments
                .into_iter()
                .flat_map(|fragment| match fragment {
                    Fragment::Token(_) => vec![fragment],
                    Fragment::Text(range) => entry.cut(text, range, barriers),
                })
                .collect();
        }
        fragments
    }

    /// The tokens that occur in `text`, in order of priority.
    fn present(&self, text: &str, matching: Matching<'_>) -> impl Iterator<Item = &Entry> {
        let mut present = vec![false; self.entries.len()];
        if !self.entries.is_empty() {
            let bytes = text.as_bytes();
            for at in 0..bytes.len() {
                let rest = bytes.get(at..).unwrap_or(&[]);
                for entry in self.trie.prefixes_of(rest.iter().copied()) {
                    if let Some(present) = present.get_mut(entry) {
                        *present = true;
                    }
                }
            }
        }
        let control = matches!(matching, Matching::Control { .. });
        self.entries
            .iter()
            .zip(present)
            .filter(move |(entry, present)| *present && (control || !entry.control))
            .map(|(entry, _)| entry)
    }
}

impl Entry {
    /// Cuts one fragment at every occurrence of this token that no barrier forbids.
    fn cut(&self, text: &str, range: Range<usize>, barriers: &[usize]) -> Vec<Fragment> {
        let mut out = Vec::new();
        let mut kept = range.start;
        let mut from = range.start;
        while let Some(found) = text.get(from..range.end).and_then(|rest| rest.find(&*self.text)) {
            let start = from + found;
            let end = start + self.text.len();
            if has_inside(barriers, start, end) {
                let step = self.text.chars().next().map_or(1, char::len_utf8);
                from = start + step;
                continue;
            }
            if kept < start {
                out.push(Fragment::Text(kept..start));
            }
            out.push(Fragment::Token(self.id));
            kept = end;
            from = end;
        }
        if kept < range.end {
            out.push(Fragment::Text(kept..range.end));
        }
        out
    }
}

/// Whether one of the ascending `offsets` lies strictly between `start` and `end`.
fn has_inside(offsets: &[usize], start: usize, end: usize) -> bool {
    let next = offsets.partition_point(|&offset| offset <= start);
    offsets.get(next).is_some_and(|&offset| offset < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::{Spelling, TokenType, TokenizerSpec};

    fn special(tokens: &[(&str, TokenType)]) -> SpecialTokens {
        let spec = TokenizerSpec {
            tokens: tokens.iter().map(|(text, _)| text.as_bytes().to_vec()).collect(),
            types: tokens.iter().map(|&(_, kind)| kind).collect(),
            ..TokenizerSpec::default()
        };
        SpecialTokens::new(&Vocabulary::new(&spec, Spelling::Bytes).unwrap())
    }

    #[test]
    fn the_longest_match_wins_over_the_leftmost() {
        let special = special(&[
            ("ab", TokenType::UserDefined),
            ("bcd", TokenType::UserDefined),
            ("<c>", TokenType::Control),
        ]);
        let cut = |text| special.cut(text, Matching::UserDefined);
        assert_eq!(cut("xabcdab"), [Fragment::Text(0..2), Fragment::Token(1), Fragment::Token(0)]);
        assert_eq!(cut("<c>"), [Fragment::Text(0..3)]);
        assert_eq!(cut(""), []);
    }

    #[test]
    fn barriers_stop_control_tokens_only() {
        let special = special(&[("uu", TokenType::UserDefined), ("<c>", TokenType::Control)]);
        let cut = |text, barriers: &[usize]| special.cut(text, Matching::Control { barriers });
        assert_eq!(cut("<c><c>", &[]), [Fragment::Token(1), Fragment::Token(1)]);
        // At the ends of a match a barrier forbids nothing.
        assert_eq!(cut("<c><c>", &[0, 3]), [Fragment::Token(1), Fragment::Token(1)]);
        assert_eq!(cut("<c><c>", &[1]), [Fragment::Text(0..3), Fragment::Token(1)]);
        assert_eq!(cut("<c><c>", &[5]), [Fragment::Token(1), Fragment::Text(3..6)]);
        assert_eq!(cut("uu", &[1]), [Fragment::Token(0)]);
    }
}
