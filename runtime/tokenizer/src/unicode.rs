//! The four character classes that the pre-tokenizers tell apart.
//!
//! `\p{L}`, `\p{M}`, `\p{N}` are the general categories of the Unicode Character Database; `\s`
//! is the White_Space property. A code point is in at most one of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class as HirClass, HirKind};

/// What a pre-tokenizer needs to know of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `\p{L}`.
    Letter,
    /// `\p{M}`, combining marks.
    Mark,
    /// `\p{N}`.
    Number,
    /// `\s`.
    Space,
    /// Everything else, unassigned code points included.
    Other,
}

const BLOCK: usize = 256;
const BLOCKS: usize = 0x11_0000 / BLOCK;

/// Two-level table: `blocks[index[c / 256]][c % 256]`. Equal blocks are stored once.
struct Table {
    index: Vec<u16>,
    blocks: Vec<[Class; BLOCK]>,
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::build);

impl Class {
    /// The class of `c`.
    pub(crate) fn of(c: char) -> Class {
        let table = &*TABLE;
        let code = c as usize;
        let block = table.index.get(code / BLOCK).map_or(0, |&block| usize::from(block));
        table.blocks.get(block).map_or(Class::Other, |block| block[code % BLOCK])
    }
}

impl Table {
    fn build() -> Table {
        let mut flat = vec![Class::Other; BLOCKS * BLOCK];
        for (pattern, class) in
            [(r"\p{L}", Class::Letter), (r"\p{M}", Class::Mark), (r"\p{N}", Class::Number)]
        {
            for (first, last) in ranges(pattern) {
                for slot in flat.iter_mut().take(last as usize + 1).skip(first as usize) {
                    *slot = class;
                }
            }
        }
        for (code, slot) in flat.iter_mut().enumerate() {
            let whitespace =
                u32::try_from(code).ok().and_then(char::from_u32).is_some_and(char::is_whitespace);
            if whitespace {
                *slot = Class::Space;
            }
        }
        let mut index = Vec::with_capacity(BLOCKS);
        let mut blocks: Vec<[Class; BLOCK]> = Vec::new();
        let mut seen: HashMap<Vec<u8>, u16> = HashMap::new();
        for chunk in flat.chunks_exact(BLOCK) {
            let key: Vec<u8> = chunk.iter().map(|&class| class as u8).collect();
            let next = u16::try_from(blocks.len()).unwrap_or(0);
            let block = *seen.entry(key).or_insert_with(|| {
                let mut block = [Class::Other; BLOCK];
                block.copy_from_slice(chunk);
                blocks.push(block);
                next
            });
            index.push(block);
        }
        Table { index, blocks }
    }
}

/// The code point ranges of a one-class pattern; empty if the pattern is not one class, which
/// the tests below exclude for the patterns in use.
fn ranges(pattern: &str) -> Vec<(u32, u32)> {
    let Ok(hir) = ParserBuilder::new().build().parse(pattern) else { return Vec::new() };
    match hir.kind() {
        HirKind::Class(HirClass::Unicode(class)) => {
            class.ranges().iter().map(|range| (range.start() as u32, range.end() as u32)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_known_characters() {
        for (text, class) in [
            ("aZéßΩжאあ中한", Class::Letter),
            ("\u{301}\u{93f}\u{20dd}\u{fe0f}", Class::Mark),
            ("09²½Ⅷ٣〇", Class::Number),
            (" \t\n\r\u{b}\u{c}\u{85}\u{a0}\u{2028}\u{3000}", Class::Space),
            ("!_$🦙\u{0}\u{200d}\u{10ffff}\u{378}", Class::Other),
        ] {
            for c in text.chars() {
                assert_eq!(Class::of(c), class, "{c:?}");
            }
        }
    }

    #[test]
    fn numbers_agree_with_the_standard_library() {
        // std ships its own Unicode tables; a newer version may add a few code points.
        let differ =
            ('\0'..=char::MAX).filter(|&c| (Class::of(c) == Class::Number) != c.is_numeric()).count();
        assert!(differ < 64, "{differ} code points differ");
    }
}
