//! Names with `*` as the only wildcard.

use std::{convert::Infallible, str::FromStr};

/// A name in which each `*` stands for any characters, none included.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(String);

impl FromStr for Pattern {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Pattern, Infallible> {
        Ok(Pattern(text.to_owned()))
    }
}

impl Pattern {
    /// Whether the whole of `name` fits.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(mut name) = name.strip_prefix(first) else {
            return false;
        };
        // The earliest place for each part leaves the most for those behind it.
        let mut parts = rest.split('*').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return name.ends_with(part);
            }
            match name.find(part) {
                Some(at) => name = &name[at + part.len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_only() {
        for (pattern, name, expected) in [
            ("gemm", "gemm", true),
            ("gemm", "gemm_f16", false),
            ("gemm*", "gemm", true),
            ("gemm*", "a_gemm", false),
            ("*gemm", "a_gemm", true),
            ("*", "", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "ac", false),
            ("a*a", "a", false),
            ("*ab*ab", "ab", false),
            ("*ab*ab", "abab", true),
            ("a**c", "abc", true),
            ("g?mm", "gemm", false),
            ("[a-z]*", "gemm", false),
        ] {
            assert_eq!(pattern.parse::<Pattern>().unwrap().matches(name), expected, "{pattern} {name}");
        }
    }
}
