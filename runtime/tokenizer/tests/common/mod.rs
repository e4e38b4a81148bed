//! A small vocabulary in the layout of the real ones: 256 bytes, a few merges, control tokens.

#![allow(dead_code, clippy::unwrap_used)]

use phobos_tokenizer::{TokenType, Tokenizer, TokenizerSpec};

/// The byte alphabet of GPT-2, written out here on its own account.
pub fn spell(bytes: &[u8]) -> String {
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    bytes
        .iter()
        .map(|&byte| {
            let byte = u32::from(byte);
            let code = match printable(byte) {
                true => byte,
                false => 256 + (0..byte).filter(|&below| !printable(below)).count() as u32,
            };
            char::from_u32(code).unwrap()
        })
        .collect()
}

const MERGES: &[(&str, &str)] = &[
    ("h", "e"),
    ("l", "l"),
    ("he", "ll"),
    ("hell", "o"),
    (" ", "hello"),
    ("i", "m"),
    ("\t", "\t"),
    ("\t\t", "\t"),
    ("t", "e"),
    ("te", "s"),
    ("tes", "t"),
    (" ", " "),
    ("  ", "  "),
    ("<", "|"),
    ("|", ">"),
    ("us", "er"),
    ("u", "s"),
    ("e", "r"),
];

/// Control tokens and how many ids stand before them.
pub const IM_START: &str = "<|im_start|>";
pub const IM_END: &str = "<|im_end|>";
pub const THINK: &str = "<think>";

pub fn spec(pre: &str) -> TokenizerSpec {
    let mut tokens: Vec<Vec<u8>> = (0..=255u8).map(|byte| spell(&[byte]).into_bytes()).collect();
    let mut merges = Vec::new();
    for (left, right) in MERGES {
        let (left, right) = (spell(left.as_bytes()), spell(right.as_bytes()));
        merges.push(format!("{left} {right}").into_bytes());
        tokens.push(format!("{left}{right}").into_bytes());
    }
    let mut types = vec![TokenType::Normal; tokens.len()];
    for (text, kind) in [
        (IM_START, TokenType::Control),
        (IM_END, TokenType::Control),
        ("<s>", TokenType::Control),
        (THINK, TokenType::UserDefined),
    ] {
        tokens.push(text.as_bytes().to_vec());
        types.push(kind);
    }
    let id = |text: &str| tokens.iter().position(|token| token == text.as_bytes()).map(|id| id as u32);
    let (bos, eos) = (id("<s>"), id(IM_END));
    TokenizerSpec {
        model: "gpt2".into(),
        pre: pre.into(),
        tokens,
        types,
        merges,
        bos: bos.map(i64::from),
        eos: eos.map(i64::from),
        ..Default::default()
    }
}

pub fn tokenizer(pre: &str) -> Tokenizer {
    Tokenizer::new(&spec(pre)).unwrap()
}

/// The texts of the tokens of an encoding.
pub fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| String::from_utf8_lossy(&tokenizer.decode(&[id], false)).into_owned()).collect()
}

/// A small deterministic generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Text of up to `max` characters, from plain to odd.
    pub fn text(&mut self, max: u64) -> String {
        let length = self.below(max + 1);
        (0..length)
            .map(|_| match self.below(8) {
                0 => ' ',
                1 => ['\t', '\n', '\r', '\u{a0}', '\u{3000}', '\u{85}'][self.below(6) as usize],
                2 => ['\'', '<', '|', '>', '_', '!', '\u{301}', '\u{200d}'][self.below(8) as usize],
                3 => char::from(b'0' + self.below(10) as u8),
                4 | 5 => ['h', 'e', 'l', 'o', 't', 's', 'i', 'm', 'u', 'r'][self.below(10) as usize],
                _ => char::from_u32(self.below(0x11_0000) as u32).unwrap_or('é'),
            })
            .collect()
    }
}
