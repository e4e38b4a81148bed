//! The lexer: a text to tokens, with Go's rule for line ends.
//!
//! A line end is a [`TokenKind::Newline`] when the line's last token can end a
//! statement (a name, a literal, `true`, `false`, `)`, `]`, `}`); the parser skips
//! them between round and square brackets. `;` is a `Newline` too.

use crate::{
    diagnostics::{Code, Diagnostic, Sink},
    source::{SourceFile, is_marker},
    span::Span,
};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    /// Which.
    pub kind: TokenKind,
    /// Where.
    pub span: Span,
}

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum TokenKind {
    Name,
    Int(u64),
    Float(f64),
    Text,
    Keyword(Keyword),
    /// An operator or bracket, as written.
    Symbol(&'static str),
    Newline,
    End,
}

/// Words that cannot be names. (`fn`, `const`, `import`, `return` and `where` are
/// special only where they can stand.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Keyword {
    Kernel,
    Let,
    Var,
    For,
    In,
    While,
    If,
    Else,
    True,
    False,
}

impl Keyword {
    fn of(word: &str) -> Option<Keyword> {
        Some(match word {
            "kernel" => Keyword::Kernel,
            "let" => Keyword::Let,
            "var" => Keyword::Var,
            "for" => Keyword::For,
            "in" => Keyword::In,
            "while" => Keyword::While,
            "if" => Keyword::If,
            "else" => Keyword::Else,
            "true" => Keyword::True,
            "false" => Keyword::False,
            _ => return None,
        })
    }
}

/// Operators and brackets, longer ones before their prefixes.
const SYMBOLS: [&str; 41] = [
    ":+", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "&&", "||", "->", "+", "-", "*", "/",
    "%", "=", "<", ">", "!", "~", "&", "|", "^", "(", ")", "[", "]", "{", "}", ",", ":", ";", "@", ".", "?",
    "#", "$",
];

/// The tokens of a text, ending in [`TokenKind::End`]. What is no token is reported
/// and skipped.
pub(crate) fn lex(source: &SourceFile, sink: &mut Sink) -> Vec<Token> {
    let mut lexer = Lexer { text: source.text(), at: 0, tokens: Vec::new(), sink };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    sink: &'a mut Sink,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn span(&self, start: usize) -> Span {
        Span::new(start as u32, self.at as u32)
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        self.tokens.push(Token { kind, span: self.span(start) });
    }

    /// The length of the run of bytes that satisfy `f`.
    fn run_of(&self, f: impl Fn(u8) -> bool) -> usize {
        self.rest().bytes().take_while(|byte| f(*byte)).count()
    }

    fn run(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            match c {
                '\n' => {
                    self.at += 1;
                    if self.ends_statement() {
                        self.push(TokenKind::Newline, start);
                    }
                }
                ' ' | '\t' | '\r' | '\u{feff}' => self.at += c.len_utf8(),
                '#' if self.at_marker() => self.at += self.run_of(|byte| byte != b'\n'),
                '/' if self.rest().starts_with("//") => self.at += self.run_of(|byte| byte != b'\n'),
                'a'..='z' | 'A'..='Z' | '_' => self.word(),
                '0'..='9' => self.number(),
                '"' => self.quoted(),
                _ => self.symbol(c),
            }
        }
        let start = self.at;
        if self.ends_statement() {
            self.push(TokenKind::Newline, start);
        }
        self.push(TokenKind::End, start);
    }

    fn ends_statement(&self) -> bool {
        match self.tokens.last().map(|token| token.kind) {
            Some(TokenKind::Name | TokenKind::Int(_) | TokenKind::Float(_) | TokenKind::Text) => true,
            Some(TokenKind::Keyword(keyword)) => matches!(keyword, Keyword::True | Keyword::False),
            Some(TokenKind::Symbol(symbol)) => matches!(symbol, ")" | "]" | "}"),
            _ => false,
        }
    }

    fn at_marker(&self) -> bool {
        let at_line_start = self.at == 0 || self.text.as_bytes().get(self.at - 1) == Some(&b'\n');
        at_line_start && self.rest().lines().next().is_some_and(is_marker)
    }

    fn word(&mut self) {
        let start = self.at;
        self.at += self.run_of(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let word = self.text.get(start..self.at).unwrap_or_default();
        self.push(Keyword::of(word).map_or(TokenKind::Name, TokenKind::Keyword), start);
    }

    fn number(&mut self) {
        let start = self.at;
        let digits = |byte: u8| byte.is_ascii_digit() || byte == b'_';
        let hex = self.rest().starts_with("0x") || self.rest().starts_with("0X");
        let mut float = false;
        if hex {
            self.at += 2;
            self.at += self.run_of(|byte| byte.is_ascii_hexdigit() || byte == b'_');
        } else {
            self.at += self.run_of(digits);
            let mut next = self.rest().bytes();
            if next.next() == Some(b'.') {
                float = true;
                self.at += 1;
                self.at += self.run_of(digits);
            }
            let rest = self.rest();
            if rest.starts_with(['e', 'E']) {
                let signed = usize::from(rest.get(1..).is_some_and(|rest| rest.starts_with(['+', '-'])));
                if rest.as_bytes().get(1 + signed).is_some_and(u8::is_ascii_digit) {
                    float = true;
                    self.at += 1 + signed;
                    self.at += self.run_of(digits);
                }
            }
        }
        let number_end = self.at;
        self.at += self.run_of(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let clean: String =
            self.text.get(start..number_end).unwrap_or_default().chars().filter(|c| *c != '_').collect();
        let kind = if float {
            clean.parse().ok().map(TokenKind::Float)
        } else if hex {
            u64::from_str_radix(clean.get(2..).unwrap_or_default(), 16).ok().map(TokenKind::Int)
        } else {
            clean.parse().ok().map(TokenKind::Int)
        };
        let suffix = self.text.get(number_end..self.at).unwrap_or_default();
        if !suffix.is_empty() {
            self.sink.push(
                Diagnostic::error(Code::BadNumber, self.span(start), format!("`{suffix}` behind a number"))
                    .help("a literal takes its type from its use; write a cast such as `f16(1.5)` to choose one"),
            );
        } else if kind.is_none() {
            self.sink.push(Diagnostic::error(
                Code::BadNumber,
                self.span(start),
                if clean.len() > 2 {
                    "integer does not fit 64 bits"
                } else {
                    "a hexadecimal number needs digits"
                },
            ));
        }
        self.push(kind.unwrap_or(TokenKind::Int(1)), start);
    }

    fn quoted(&mut self) {
        let start = self.at;
        self.at += 1;
        self.at += self.run_of(|byte| byte != b'"' && byte != b'\n');
        if self.rest().starts_with('"') {
            self.at += 1;
        } else {
            self.sink.push(
                Diagnostic::error(Code::UnterminatedText, self.span(start), "text without a closing quote")
                    .help("close it with `\"` on the same line"),
            );
        }
        self.push(TokenKind::Text, start);
    }

    fn symbol(&mut self, c: char) {
        let start = self.at;
        match SYMBOLS.into_iter().find(|symbol| self.rest().starts_with(symbol)) {
            Some(";") => {
                self.at += 1;
                self.push(TokenKind::Newline, start);
            }
            Some(symbol @ ("?" | "#" | "$")) => {
                self.at += 1;
                self.unexpected(start, symbol);
            }
            Some(symbol) => {
                self.at += symbol.len();
                self.push(TokenKind::Symbol(symbol), start);
            }
            None => {
                self.at += c.len_utf8();
                self.unexpected(start, &c.escape_debug().to_string());
            }
        }
    }

    fn unexpected(&mut self, start: usize, shown: &str) {
        self.sink.push(Diagnostic::error(
            Code::UnexpectedCharacter,
            self.span(start),
            format!("unexpected character `{shown}`"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<TokenKind>, usize) {
        let mut sink = Sink::default();
        let tokens = lex(&SourceFile::new("t", text), &mut sink);
        (tokens.into_iter().map(|token| token.kind).collect(), sink.finish().len())
    }

    #[test]
    fn line_ends_follow_the_last_token() {
        use TokenKind::{End, Int, Name, Newline, Symbol};
        assert_eq!(
            kinds("a +\nb // c\n\n1;"),
            (vec![Name, Symbol("+"), Name, Newline, Int(1), Newline, End], 0)
        );
        assert_eq!(kinds("a\r\nb"), kinds("a\nb"));
    }

    #[test]
    fn numbers() {
        use TokenKind::{Float, Int};
        for (text, kind) in [
            ("1_000", Int(1000)),
            ("0x1F", Int(31)),
            ("1.5", Float(1.5)),
            ("2.", Float(2.0)),
            ("1e-6", Float(1e-6)),
            ("1.5E+2", Float(150.0)),
            ("18446744073709551615", Int(u64::MAX)),
        ] {
            assert_eq!(kinds(text).0[0], kind, "{text}");
            assert_eq!(kinds(text).1, 0, "{text}");
        }
        for text in ["1f", "0x", "18446744073709551616", "0xfffffffffffffffff", "1e", "1..e5x"] {
            assert!(kinds(text).1 > 0 || text == "1..e5x", "{text}");
        }
    }

    #[test]
    fn reports_and_skips_what_is_no_token() {
        let (tokens, errors) = kinds("a ? é $ b \"x");
        assert_eq!(errors, 4);
        assert_eq!(tokens.len(), 5);
    }
}
