//! The parser: recursive descent over the tokens, with recovery.
//!
//! It never fails: what cannot be read is reported and becomes an `Error` node, and
//! reading goes on at the next statement or item. Nesting is bounded by
//! [`MAX_DEPTH`] and [`MAX_HEIGHT`], so that neither this parser nor any walk over
//! its tree can run out of stack.

mod expr;
mod habit;
mod item;
mod stmt;

use std::{cell::OnceCell, collections::BTreeSet};

use crate::{
    diagnostics::{Code, Diagnostic, Sink},
    lexer::{Keyword, Token, TokenKind, lex},
    source::{MAX_TEXT, SourceFile},
    span::Span,
    tree::{Ident, Module},
};

/// Blocks and brackets nest at most this deep.
pub const MAX_DEPTH: usize = 64;
/// An expression tree is at most this high.
pub const MAX_HEIGHT: usize = 128;

/// Parses a text. The tree holds what could be read; the diagnostics are in source order.
pub fn parse(source: &SourceFile) -> (Module, Vec<Diagnostic>) {
    let mut sink = Sink::default();
    if source.text().len() > MAX_TEXT {
        let message = format!("the text has more than {MAX_TEXT} bytes");
        sink.push(Diagnostic::error(Code::TextTooLarge, Span::default(), message));
        return (Module { broken: true, ..Module::default() }, sink.finish());
    }
    let tokens = lex(source, &mut sink);
    let names = OnceCell::new();
    let mut parser = Parser { source, tokens, names, at: 0, sink, brackets: 0, depth: 0, height: 0 };
    let module = parser.module();
    (module, parser.sink.finish())
}

/// A syntax error was reported; the caller recovers.
struct Failed;

type Parse<T> = Result<T, Failed>;

struct Parser<'a> {
    source: &'a SourceFile,
    tokens: Vec<Token>,
    /// The names among them, once they are asked for.
    names: OnceCell<BTreeSet<&'a str>>,
    at: usize,
    sink: Sink,
    /// Open round and square brackets: inside them line ends mean nothing.
    brackets: usize,
    depth: usize,
    /// The height of the expression that was read last.
    height: usize,
}

impl<'a> Parser<'a> {
    /// The next token, which is not a line end between brackets.
    fn peek(&mut self) -> Token {
        if self.brackets > 0 {
            while self.raw(0).kind == TokenKind::Newline && self.text(self.raw(0).span) != ";" {
                self.at += 1;
            }
        }
        self.raw(0)
    }

    /// The token `ahead` of the next one, line ends included.
    fn raw(&self, ahead: usize) -> Token {
        let end = Token { kind: TokenKind::End, span: Span::default() };
        let index = self.at.saturating_add(ahead).min(self.tokens.len().saturating_sub(1));
        self.tokens.get(index).copied().unwrap_or(end)
    }

    fn bump(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn text(&self, span: Span) -> &'a str {
        self.source.slice(span)
    }

    /// The end of the last token read.
    fn last_span(&self) -> Span {
        self.at
            .checked_sub(1)
            .and_then(|last| self.tokens.get(last))
            .map_or(Span::default(), |token| token.span)
    }

    fn is(&mut self, symbol: &str) -> bool {
        matches!(self.peek().kind, TokenKind::Symbol(s) if s == symbol)
    }

    fn is_keyword(&mut self, keyword: Keyword) -> bool {
        self.peek().kind == TokenKind::Keyword(keyword)
    }

    /// Whether the next token is the name `word`, special here.
    fn is_word(&mut self, word: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Name && self.text(token.span) == word
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.bump();
        }
        found
    }

    fn skip_newlines(&mut self) {
        while self.raw(0).kind == TokenKind::Newline {
            self.at += 1;
        }
    }

    fn describe(&self, token: Token) -> String {
        match token.kind {
            TokenKind::Newline if self.text(token.span) != ";" => "the end of the line".to_owned(),
            TokenKind::End => "the end of the file".to_owned(),
            TokenKind::Keyword(_) => format!("the keyword `{}`", self.text(token.span)),
            _ => {
                let text = self.text(token.span);
                let short: String = text.chars().take(40).collect();
                format!("`{short}`")
            }
        }
    }

    /// Reports that `wanted` is not what is next.
    fn unexpected(&mut self, wanted: &str) -> Failed {
        let token = self.peek();
        let message = format!("expected {wanted}, found {}", self.describe(token));
        let span = if token.kind == TokenKind::Newline { self.last_span().after() } else { token.span };
        let help = self.habit(token);
        self.sink.push(Diagnostic::error(Code::UnexpectedToken, span, message).help_opt(help));
        Failed
    }

    fn expect(&mut self, symbol: &str) -> Parse<Token> {
        if self.is(symbol) { Ok(self.bump()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    /// Reads `symbol`, which closes the bracket at `open`.
    fn expect_close(&mut self, symbol: &str, open: Span) -> Parse<Token> {
        if self.is(symbol) {
            return Ok(self.bump());
        }
        let token = self.peek();
        let message = format!("expected `{symbol}`, found {}", self.describe(token));
        let help = self.habit(token);
        self.sink.push(
            Diagnostic::error(Code::UnclosedDelimiter, token.span, message)
                .related(open, format!("`{}` is open since here", self.text(open)))
                .help_opt(help),
        );
        Err(Failed)
    }

    fn name(&mut self, wanted: &str) -> Parse<Ident> {
        let token = self.peek();
        if token.kind == TokenKind::Name {
            self.bump();
            return Ok(Ident { name: self.text(token.span).to_owned(), span: token.span });
        }
        Err(self.unexpected(wanted))
    }

    /// Runs `f` one level deeper, or reports that there are too many.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&mut self) -> Failed {
        let span = self.peek().span;
        self.sink.push(
            Diagnostic::error(Code::TooDeep, span, "this is nested too deeply")
                .help("name parts of it with `let`"),
        );
        Failed
    }

    /// Reads a comma-separated list between brackets; a comma may follow the last.
    fn list<T>(
        &mut self,
        open: &'static str,
        close: &'static str,
        mut element: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<(Vec<T>, Span)> {
        let opened = self.expect(open)?.span;
        self.brackets += 1;
        let result = (|| {
            let mut list = Vec::new();
            while !self.is(close) {
                list.push(element(self)?);
                if !self.eat(",") {
                    break;
                }
            }
            let closed = self.expect_close(close, opened)?;
            Ok((list, opened.to(closed.span)))
        })();
        self.brackets -= 1;
        result
    }
}
