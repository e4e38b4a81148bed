//! Tokens of PTX text.

use super::{Pos, PtxError};

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// A name, `%` and `$` included.
    Word(&'s str),
    /// `.name` without the dot; may hold `::`.
    Dot(&'s str),
    /// An integer, and whether it is unsigned.
    Int(u64, bool),
    F32(u32),
    F64(u64),
    Text(&'s str),
    Punct(u8),
    End,
}

/// A token with its place; `glued` when no space stands before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spanned<'s> {
    pub token: Token<'s>,
    pub pos: Pos,
    pub glued: bool,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

struct Lexer<'s> {
    text: &'s str,
    at: usize,
    line: u32,
    line_start: usize,
    file: &'s str,
}

impl<'s> Lexer<'s> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn pos(&self) -> Pos {
        Pos { line: self.line, col: (self.at - self.line_start) as u32 + 1 }
    }

    fn error<T>(&self, pos: Pos, message: impl Into<String>) -> Result<T, PtxError> {
        Err(PtxError { file: self.file.to_owned(), pos, message: message.into() })
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    /// Skips blanks and comments; true when there were any.
    fn blanks(&mut self) -> Result<bool, PtxError> {
        let start = self.at;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) => self.newline(),
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    let open = self.pos();
                    self.at += 2;
                    while (self.peek(0), self.peek(1)) != (b'*', b'/') {
                        if self.at >= self.text.len() {
                            return self.error(open, "this comment is never closed");
                        }
                        if self.peek(0) == b'\n' { self.newline() } else { self.at += 1 }
                    }
                    self.at += 2;
                }
                _ => return Ok(self.at != start),
            }
        }
    }

    fn slice(&self, from: usize) -> &'s str {
        self.text.get(from..self.at).unwrap_or("")
    }

    fn word(&mut self) -> &'s str {
        let start = self.at;
        if self.peek(0) == b'%' {
            self.at += 1;
        }
        while is_word(self.peek(0)) {
            self.at += 1;
        }
        self.slice(start)
    }

    fn dotted(&mut self) -> &'s str {
        self.at += 1;
        let start = self.at;
        loop {
            if is_word(self.peek(0)) {
                self.at += 1;
            } else if self.peek(0) == b':' && self.peek(1) == b':' && is_word(self.peek(2)) {
                self.at += 2;
            } else {
                return self.slice(start);
            }
        }
    }

    fn number(&mut self) -> Result<Token<'s>, PtxError> {
        let pos = self.pos();
        let start = self.at;
        while is_word(self.peek(0)) {
            self.at += 1;
        }
        let text = self.slice(start);
        let second = text.as_bytes().get(1).copied().unwrap_or(0);
        if text.starts_with('0') && matches!(second, b'f' | b'F') && text.len() == 10 {
            return match u32::from_str_radix(&text[2..], 16) {
                Ok(bits) => Ok(Token::F32(bits)),
                Err(_) => self.error(pos, format!("`{text}` is not an f32 constant")),
            };
        }
        if text.starts_with('0') && matches!(second, b'd' | b'D') && text.len() == 18 {
            return match u64::from_str_radix(&text[2..], 16) {
                Ok(bits) => Ok(Token::F64(bits)),
                Err(_) => self.error(pos, format!("`{text}` is not an f64 constant")),
            };
        }
        let decimal = !matches!(second, b'x' | b'X' | b'b' | b'B');
        if decimal && (self.peek(0) == b'.' || text.contains(['e', 'E'])) {
            if self.peek(0) == b'.' {
                self.at += 1;
                while is_word(self.peek(0)) {
                    self.at += 1;
                }
            }
            let signed_exponent = self.slice(start).ends_with(['e', 'E']);
            if signed_exponent && matches!(self.peek(0), b'+' | b'-') {
                self.at += 1;
                while self.peek(0).is_ascii_digit() {
                    self.at += 1;
                }
            }
            let text = self.slice(start);
            return match text.parse::<f64>() {
                Ok(value) => Ok(Token::F64(value.to_bits())),
                Err(_) => self.error(pos, format!("`{text}` is not a number")),
            };
        }
        let digits = text.strip_suffix(['u', 'U']).unwrap_or(text);
        let value = match second {
            b'x' | b'X' => u64::from_str_radix(digits.get(2..).unwrap_or(""), 16),
            b'b' | b'B' => u64::from_str_radix(digits.get(2..).unwrap_or(""), 2),
            _ if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
            _ => digits.parse(),
        };
        match value {
            Ok(value) => Ok(Token::Int(value, digits.len() < text.len() || value > i64::MAX as u64)),
            Err(_) => self.error(pos, format!("`{text}` is not a 64-bit integer")),
        }
    }

    fn next(&mut self) -> Result<Token<'s>, PtxError> {
        let pos = self.pos();
        let byte = self.peek(0);
        match byte {
            0 if self.at >= self.text.len() => Ok(Token::End),
            b'0'..=b'9' => self.number(),
            b'%' if is_word(self.peek(1)) => Ok(Token::Word(self.word())),
            _ if is_word(byte) => Ok(Token::Word(self.word())),
            b'.' if is_word(self.peek(1)) => Ok(Token::Dot(self.dotted())),
            b'"' => {
                self.at += 1;
                let start = self.at;
                while self.peek(0) != b'"' {
                    if self.at >= self.text.len() || self.peek(0) == b'\n' {
                        return self.error(pos, "this string is never closed");
                    }
                    self.at += 1;
                }
                let text = self.slice(start);
                self.at += 1;
                Ok(Token::Text(text))
            }
            b',' | b';' | b':' | b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'@' | b'!' | b'+' | b'-'
            | b'|' | b'<' | b'>' | b'=' | b'~' | b'*' | b'/' | b'%' | b'&' | b'^' | b'?' => {
                self.at += 1;
                Ok(Token::Punct(byte))
            }
            _ => {
                let shown = self.text.get(self.at..).and_then(|rest| rest.chars().next()).unwrap_or('?');
                self.error(pos, format!("unexpected character {shown:?}"))
            }
        }
    }
}

/// All tokens of `text`, an [`Token::End`] last.
pub(super) fn tokens<'s>(file: &'s str, text: &'s str) -> Result<Vec<Spanned<'s>>, PtxError> {
    let mut lexer = Lexer { text, at: 0, line: 1, line_start: 0, file };
    let mut tokens = Vec::new();
    loop {
        let spaced = lexer.blanks()?;
        let pos = lexer.pos();
        let token = lexer.next()?;
        tokens.push(Spanned { token, pos, glued: !spaced });
        if token == Token::End {
            return Ok(tokens);
        }
    }
}
