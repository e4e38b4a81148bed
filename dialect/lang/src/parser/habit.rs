//! What someone who is used to Python, C or Triton meant by what is no Phobos.

use std::collections::BTreeSet;

use super::Parser;
use crate::{
    diagnostics::{Code, Diagnostic},
    lexer::{Token, TokenKind},
    span::Span,
};

const DIVISION: &str = "`//` begins a comment; the quotient of integers is `a / b`, rounded towards zero";

impl Parser<'_> {
    /// Help for a token that cannot stand where it does.
    pub(super) fn habit(&self, found: Token) -> Option<String> {
        let last = self.last_token();
        let last_text = last.map_or("", |token| self.text(token.span));
        let found_text = self.text(found.span);
        let help = match (last_text, found_text) {
            ("not", _) => "negation is `!x`",
            ("elif", _) | (_, "elif") => "write `else if`",
            (_, "and") => "write `a && b`",
            (_, "or") => "write `a || b`",
            ("*", "*") => "there is no power operator: multiply, or write `exp(y * log(x))`",
            ("+", "+") | ("-", "-") => "write `x += 1` or `x -= 1`",
            ("%" | "&" | "|" | "^" | "<<" | ">>", "=") => {
                "only `+= -= *= /=` assign with an operator: write `x = x % y`"
            }
            (_, "@") => "the matrix product is `dot(a, b)`",
            (_, ".") => "there are no modules and methods: call a builtin by its name",
            ("let" | "var", "(") => "one name per `let` or `var`: write a line for each",
            (_, "if") => "to choose a value write `where(c, a, b)`",
            (_, ":") if !matches!(last_text, "[" | ",") => {
                "a block stands in braces, `{ ... }`; a type stands behind the name of a variable"
            }
            _ => return last.and_then(|last| self.divisor_behind(last)).map(|_| DIVISION.to_owned()),
        };
        Some(help.to_owned())
    }

    /// The token read last that is no line end.
    fn last_token(&self) -> Option<Token> {
        let read = self.tokens.get(..self.at)?;
        read.iter().rev().find(|token| token.kind != TokenKind::Newline).copied()
    }

    /// Warns of a comment behind a statement's last operand that reads like a divisor.
    pub(super) fn comment_for_division(&mut self) {
        let Some(last) = self.last_token() else { return };
        if let Some(comment) = self.divisor_behind(last) {
            let message = "this comment stands where a divisor would";
            self.sink.push(Diagnostic::warning(Code::CommentInExpression, comment, message).help(DIVISION));
        }
    }

    /// The comment directly behind an operand, when it reads like another operand.
    fn divisor_behind(&self, operand: Token) -> Option<Span> {
        let ends = match operand.kind {
            TokenKind::Name | TokenKind::Int(_) | TokenKind::Float(_) => true,
            TokenKind::Symbol(symbol) => matches!(symbol, ")" | "]"),
            _ => false,
        };
        let from = operand.span.end;
        let (line, start) = self.source.line_at(from);
        let rest = line.get((from - start) as usize..)?;
        let comment = rest.trim();
        let expression = comment.strip_prefix("//").filter(|_| ends)?;
        if !self.reads_like_operand(expression) {
            return None;
        }
        let begin = from + (rest.len() - rest.trim_start().len()) as u32;
        Some(Span::new(begin, begin + comment.len() as u32))
    }

    /// Whether a text is operands with operators between them: numbers, and names that
    /// the program uses. What closes brackets and opens a block may follow.
    fn reads_like_operand(&self, text: &str) -> bool {
        let operator = |c: char| "+-*/%<>=!&|^".contains(c);
        let mut rest = text.trim();
        let mut wants_operand = true;
        let mut words = 0;
        while let Some(c) = rest.chars().next() {
            let length = match c {
                'a'..='z' | 'A'..='Z' | '_' | '0'..='9' if wants_operand => {
                    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
                    let length = rest.find(|c| !word(c)).unwrap_or(rest.len());
                    let operand = rest.get(..length).unwrap_or_default();
                    let number = c.is_ascii_digit() && operand.parse::<f64>().is_ok();
                    words += 1;
                    // A divisor is short; this also bounds the work on a long line.
                    if words > 8 || !(number || self.names().contains(operand)) {
                        return false;
                    }
                    wants_operand = false;
                    length
                }
                '(' if wants_operand => 1,
                ')' | ']' | ',' | ':' | '{' if !wants_operand => 1,
                _ if operator(c) && !wants_operand => {
                    wants_operand = true;
                    rest.find(|c| !operator(c)).unwrap_or(rest.len())
                }
                ' ' | '\t' => 1,
                _ => return false,
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        !wants_operand
    }

    /// The names in the program.
    fn names(&self) -> &BTreeSet<&str> {
        self.names.get_or_init(|| {
            let names = self.tokens.iter().filter(|token| token.kind == TokenKind::Name);
            names.map(|token| self.source.slice(token.span)).collect()
        })
    }

    /// Whether a token is the `@` of an attribute: the first of its line.
    pub(super) fn begins_attribute(&self, token: Token) -> bool {
        let (line, start) = self.source.line_at(token.span.start);
        let before = line.get(..(token.span.start - start) as usize).unwrap_or_default();
        token.kind == TokenKind::Symbol("@") && before.trim().is_empty()
    }
}
