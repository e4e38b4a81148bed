//! Expressions by precedence climbing.
//!
//! From loosest to tightest: `||`, `&&`, comparisons (not chained), `|`, `^`, `&`,
//! `<< >>`, `+ -`, `* / %`, prefix `- ! ~`, subscripts and calls.

use super::{Failed, MAX_HEIGHT, Parse, Parser};
use crate::{
    diagnostics::{Code, Diagnostic},
    lexer::{Keyword, TokenKind},
    span::Span,
    tree::{Arg, BinaryOp, Expr, ExprKind, Ident, Subscript, SubscriptKind, UnaryOp},
};

fn binary_op(symbol: &str) -> Option<(BinaryOp, u8)> {
    Some(match symbol {
        "||" => (BinaryOp::Or, 1),
        "&&" => (BinaryOp::And, 2),
        "==" => (BinaryOp::Eq, 3),
        "!=" => (BinaryOp::Ne, 3),
        "<" => (BinaryOp::Lt, 3),
        "<=" => (BinaryOp::Le, 3),
        ">" => (BinaryOp::Gt, 3),
        ">=" => (BinaryOp::Ge, 3),
        "|" => (BinaryOp::BitOr, 4),
        "^" => (BinaryOp::BitXor, 5),
        "&" => (BinaryOp::BitAnd, 6),
        "<<" => (BinaryOp::Shl, 7),
        ">>" => (BinaryOp::Shr, 7),
        "+" => (BinaryOp::Add, 8),
        "-" => (BinaryOp::Sub, 8),
        "*" => (BinaryOp::Mul, 9),
        "/" => (BinaryOp::Div, 9),
        "%" => (BinaryOp::Rem, 9),
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        self.nested(|parser| parser.binary(0))
    }

    /// Notes that an expression of height `below` got an operator on top.
    fn grow(&mut self, below: usize) -> Parse<()> {
        self.height = below + 1;
        if self.height > MAX_HEIGHT { Err(self.too_deep()) } else { Ok(()) }
    }

    /// An expression of operators that bind tighter than `floor`.
    fn binary(&mut self, floor: u8) -> Parse<Expr> {
        let mut lhs = self.unary()?;
        let mut height = self.height;
        loop {
            let token = self.peek();
            let TokenKind::Symbol(symbol) = token.kind else { break };
            let Some((op, power)) = binary_op(symbol) else { break };
            if power <= floor {
                break;
            }
            if op.is_comparison()
                && matches!(&lhs.kind, ExprKind::Binary { op, .. } if op.is_comparison())
                && !self.text(lhs.span).starts_with('(')
            {
                self.sink.push(
                    Diagnostic::error(Code::UnexpectedToken, token.span, "comparisons cannot be chained")
                        .help("write `a < b && b < c`"),
                );
                return Err(Failed);
            }
            self.bump();
            let rhs = self.nested(|parser| parser.binary(power))?;
            self.grow(height.max(self.height))?;
            height = self.height;
            lhs = Expr {
                span: lhs.span.to(rhs.span),
                kind: ExprKind::Binary { op, op_span: token.span, lhs: Box::new(lhs), rhs: Box::new(rhs) },
            };
        }
        self.height = height;
        Ok(lhs)
    }

    fn unary(&mut self) -> Parse<Expr> {
        let token = self.peek();
        let op = match token.kind {
            TokenKind::Symbol("-") => UnaryOp::Neg,
            TokenKind::Symbol("!") => UnaryOp::Not,
            TokenKind::Symbol("~") => UnaryOp::BitNot,
            _ => return self.postfix(),
        };
        self.bump();
        let operand = self.nested(Parser::unary)?;
        self.grow(self.height)?;
        Ok(Expr {
            span: token.span.to(operand.span),
            kind: ExprKind::Unary { op, operand: Box::new(operand) },
        })
    }

    fn postfix(&mut self) -> Parse<Expr> {
        let mut expr = self.primary()?;
        loop {
            let height = self.height;
            if self.is("[") {
                let mut highest = height;
                let (subscripts, list) = self.list("[", "]", |parser| {
                    let subscript = parser.subscript()?;
                    highest = highest.max(parser.height);
                    Ok(subscript)
                })?;
                self.grow(highest)?;
                let span = expr.span.to(list);
                expr = Expr { kind: ExprKind::Index { base: Box::new(expr), subscripts }, span };
            } else if self.is_keyword(Keyword::Else) && matches!(expr.kind, ExprKind::Index { .. }) {
                self.bump();
                let fill = self.nested(Parser::unary)?;
                self.grow(height.max(self.height))?;
                let span = expr.span.to(fill.span);
                expr = Expr { kind: ExprKind::Else { slice: Box::new(expr), fill: Box::new(fill) }, span };
            } else if self.is("(") {
                let span = self.peek().span;
                self.sink.push(Diagnostic::error(Code::UnexpectedToken, span, "only a name can be called"));
                return Err(Failed);
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Parse<Expr> {
        self.height = 1;
        let token = self.peek();
        let kind = match token.kind {
            TokenKind::Int(value) => ExprKind::Int(value),
            TokenKind::Float(value) => ExprKind::Float(value),
            TokenKind::Keyword(Keyword::True) => ExprKind::Bool(true),
            TokenKind::Keyword(Keyword::False) => ExprKind::Bool(false),
            TokenKind::Text => ExprKind::Text(self.text(token.span).trim_matches('"').to_owned()),
            TokenKind::Name => return self.name_or_call(),
            TokenKind::Symbol("(") => return self.parenthesised(),
            TokenKind::Symbol("[") => {
                let mut highest = 0;
                let (list, span) = self.list("[", "]", |parser| {
                    let expr = parser.expr()?;
                    highest = highest.max(parser.height);
                    Ok(expr)
                })?;
                self.grow(highest)?;
                return Ok(Expr { kind: ExprKind::List(list), span });
            }
            TokenKind::Symbol("+") => {
                let help = self.habit(token).unwrap_or_else(|| "remove it".to_owned());
                let message = "there is no prefix `+`";
                self.sink.push(Diagnostic::error(Code::UnexpectedToken, token.span, message).help(help));
                return Err(Failed);
            }
            TokenKind::Symbol(".") => {
                self.sink.push(
                    Diagnostic::error(Code::UnexpectedToken, token.span, "a number does not begin with `.`")
                        .help("write `0.5`"),
                );
                return Err(Failed);
            }
            _ => return Err(self.unexpected("an expression")),
        };
        self.bump();
        Ok(Expr { kind, span: token.span })
    }

    fn parenthesised(&mut self) -> Parse<Expr> {
        let open = self.bump().span;
        self.brackets += 1;
        let result = self.expr().and_then(|inner| Ok((inner, self.expect_close(")", open)?.span)));
        self.brackets -= 1;
        let (inner, close) = result?;
        Ok(Expr { kind: inner.kind, span: open.to(close) })
    }

    fn name_or_call(&mut self) -> Parse<Expr> {
        let callee = self.name("a name")?;
        if !self.is("(") {
            return Ok(Parser::name_expr(callee));
        }
        let mut highest = 0;
        let (args, list) = self.list("(", ")", |parser| {
            let arg = parser.argument()?;
            highest = highest.max(parser.height);
            Ok(arg)
        })?;
        self.grow(highest)?;
        Ok(Expr { span: callee.span.to(list), kind: ExprKind::Call { callee, args } })
    }

    fn argument(&mut self) -> Parse<Arg> {
        let token = self.peek();
        if token.kind == TokenKind::Name && self.raw(1).kind == TokenKind::Symbol("=") {
            let keyword = Ident { name: self.text(token.span).to_owned(), span: token.span };
            self.bump();
            self.bump();
            return Ok(Arg { keyword: Some(keyword), value: self.expr()? });
        }
        Ok(Arg { keyword: None, value: self.expr()? })
    }

    fn subscript(&mut self) -> Parse<Subscript> {
        self.height = 0;
        let start = self.peek().span;
        if self.eat(":") {
            if !self.is(",") && !self.is("]") {
                self.half_open(start, "0 : end")?;
            }
            return Ok(Subscript { kind: SubscriptKind::Full, span: start });
        }
        let first = self.expr()?;
        let height = self.height;
        if self.eat(":+") {
            let length = self.expr()?;
            self.height = self.height.max(height);
            let span = first.span.to(length.span);
            return Ok(Subscript { kind: SubscriptKind::Span(first, length), span });
        }
        if self.is(":") {
            let colon = self.bump().span;
            if self.is(",") || self.is("]") {
                self.half_open(colon, "start :+ length")?;
            }
            let end = self.expr()?;
            self.height = self.height.max(height);
            let span = first.span.to(end.span);
            return Ok(Subscript { kind: SubscriptKind::Range(first, end), span });
        }
        Ok(Subscript { span: first.span, kind: SubscriptKind::Point(first) })
    }

    fn half_open(&mut self, at: Span, instead: &str) -> Parse<()> {
        self.sink.push(
            Diagnostic::error(Code::UnexpectedToken, at, "a range needs both ends")
                .help(format!("write `{instead}`, or `:` alone for the whole axis")),
        );
        Err(Failed)
    }
}
