//! Statements and blocks.

use super::{Failed, Parse, Parser};
use crate::{
    diagnostics::{Code, Diagnostic},
    lexer::{Keyword, TokenKind},
    span::Span,
    tree::{BinaryOp, Block, Stmt, StmtKind},
};

impl Parser<'_> {
    pub(super) fn block(&mut self) -> Parse<Block> {
        let open = self.expect("{")?.span;
        self.nested(|parser| {
            let mut statements = Vec::new();
            loop {
                parser.skip_newlines();
                let token = parser.peek();
                match token.kind {
                    TokenKind::Symbol("}") => {
                        parser.bump();
                        return Ok(Block { statements, span: open.to(token.span) });
                    }
                    TokenKind::End | TokenKind::Keyword(Keyword::Kernel) | TokenKind::Symbol("@") => {
                        // What was read stands; outer blocks end here too, reported once.
                        let _ = parser.expect_close("}", open);
                        return Ok(Block { statements, span: open.to(parser.last_span()) });
                    }
                    _ => statements.push(parser.statement_or_recover()),
                }
            }
        })
    }

    fn statement_or_recover(&mut self) -> Stmt {
        let start = self.peek().span;
        let (brackets, depth, at) = (self.brackets, self.depth, self.at);
        match self.statement() {
            Ok(statement) => statement,
            Err(Failed) => {
                self.brackets = brackets;
                self.depth = depth;
                if self.at == at {
                    self.at += 1;
                }
                self.recover_to_statement();
                Stmt { kind: StmtKind::Error, span: start.to(self.last_span()) }
            }
        }
    }

    /// Skips to the end of the statement: a line end or a closing brace that are not
    /// inside braces opened on the way, or the next item.
    fn recover_to_statement(&mut self) {
        let mut braces = 0usize;
        loop {
            let behind_line_end = self
                .at
                .checked_sub(1)
                .and_then(|at| self.tokens.get(at))
                .is_some_and(|t| t.kind == TokenKind::Newline);
            match self.raw(0).kind {
                TokenKind::Keyword(
                    Keyword::Let | Keyword::Var | Keyword::For | Keyword::While | Keyword::If,
                ) if braces == 0 && behind_line_end => {
                    return;
                }
                TokenKind::End | TokenKind::Keyword(Keyword::Kernel) => return,
                TokenKind::Symbol("@") if self.begins_attribute(self.raw(0)) => return,
                TokenKind::Newline if braces == 0 => return,
                TokenKind::Symbol("{") => braces += 1,
                TokenKind::Symbol("}") => {
                    if braces == 0 {
                        return;
                    }
                    braces -= 1;
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn statement(&mut self) -> Parse<Stmt> {
        let token = self.peek();
        let start = token.span;
        let kind = match token.kind {
            TokenKind::Keyword(Keyword::Let) => self.binding(false)?,
            TokenKind::Keyword(Keyword::Var) => self.binding(true)?,
            TokenKind::Keyword(Keyword::For) => self.for_loop()?,
            TokenKind::Keyword(Keyword::While) => {
                self.bump();
                let condition = self.expr()?;
                let body = self.block()?;
                StmtKind::While { condition, body }
            }
            TokenKind::Keyword(Keyword::If) => self.if_chain()?,
            TokenKind::Name if self.text(start) == "return" && self.begins_return() => {
                self.bump();
                let value = if matches!(self.peek().kind, TokenKind::Newline | TokenKind::Symbol("}")) {
                    None
                } else {
                    Some(self.expr()?)
                };
                StmtKind::Return(value)
            }
            _ => self.assignment_or_expr()?,
        };
        let span = start.to(self.last_span());
        self.end_of_statement("statement")?;
        Ok(Stmt { kind, span })
    }

    /// Whether `return` here is the statement and not a variable of that name.
    fn begins_return(&self) -> bool {
        let next = self.raw(1).kind;
        !matches!(next, TokenKind::Symbol("=" | "+=" | "-=" | "*=" | "/="))
    }

    fn binding(&mut self, var: bool) -> Parse<StmtKind> {
        self.bump();
        let name = self.name("the name of the variable")?;
        let ty = if self.eat(":") { Some(self.type_expr()?) } else { None };
        if var && ty.is_some() && !self.is("=") {
            return Ok(StmtKind::Var { name, ty, value: None });
        }
        if self.is(",") {
            let message = format!("expected `=`, found `,` behind `{}`", name.name);
            let span = self.peek().span;
            self.sink.push(
                Diagnostic::error(Code::UnexpectedToken, span, message)
                    .help("one name per `let` or `var`: write a line for each"),
            );
            return Err(Failed);
        }
        if !self.is("=") && !self.is(":") {
            let end = name.span.after();
            let what = if var { "`var` without a type needs a value" } else { "`let` needs a value" };
            self.sink.push(
                Diagnostic::error(Code::UnexpectedToken, end, what)
                    .help(format!("write `= ...` behind `{}`", name.name)),
            );
            return Err(Failed);
        }
        self.expect("=")?;
        let value = self.expr()?;
        Ok(if var {
            StmtKind::Var { name, ty, value: Some(value) }
        } else {
            StmtKind::Let { name, ty, value }
        })
    }

    fn for_loop(&mut self) -> Parse<StmtKind> {
        self.bump();
        let name = self.name("the loop variable")?;
        if !self.is_keyword(Keyword::In) {
            return Err(self.unexpected("`in`"));
        }
        self.bump();
        if !self.is_word("range") {
            return Err(self.unexpected("`range(start, end[, step])`"));
        }
        let word = self.bump().span;
        let (args, list) = self.list("(", ")", Parser::expr)?;
        let count = args.len();
        let mut args = args.into_iter();
        let (start, end, step) = match (count, args.next(), args.next(), args.next()) {
            (1, Some(end), _, _) => (None, end, None),
            (2, Some(start), Some(end), _) => (Some(start), end, None),
            (3, Some(start), Some(end), step) => (Some(start), end, step),
            _ => {
                let message = format!("`range` takes 1 to 3 arguments, not {count}");
                self.sink.push(
                    Diagnostic::error(Code::ArgumentCount, word.to(list), message)
                        .help("range(end), range(start, end) or range(start, end, step)"),
                );
                return Err(Failed);
            }
        };
        let body = self.block()?;
        Ok(StmtKind::For { name, start, end, step, body })
    }

    /// `if` with all its `else if`: read in a loop, so that a long chain does not nest
    /// the parser; the tree still nests, so the length counts as depth.
    fn if_chain(&mut self) -> Parse<StmtKind> {
        let mut arms = Vec::new();
        let mut otherwise = None;
        loop {
            let start = self.bump().span;
            let condition = self.expr()?;
            let then = self.block()?;
            arms.push((start, condition, then));
            if self.depth + arms.len() > super::MAX_DEPTH {
                return Err(self.too_deep());
            }
            let mut ahead = 0;
            while self.raw(ahead).kind == TokenKind::Newline && self.text(self.raw(ahead).span) != ";" {
                ahead += 1;
            }
            if self.raw(ahead).kind != TokenKind::Keyword(Keyword::Else) {
                break;
            }
            self.at += ahead + 1;
            if !self.is_keyword(Keyword::If) {
                otherwise = Some(self.block()?);
                break;
            }
        }
        let end = self.last_span();
        let mut kind = None;
        while let Some((start, condition, then)) = arms.pop() {
            let otherwise = match kind.take() {
                Some((kind, start)) => Some(one_statement(kind, Span::to(start, end))),
                None => otherwise.take(),
            };
            kind = Some((StmtKind::If { condition, then, otherwise }, start));
        }
        kind.map(|(kind, _)| kind).ok_or(Failed)
    }

    fn assignment_or_expr(&mut self) -> Parse<StmtKind> {
        let target = self.expr()?;
        let op = match self.peek().kind {
            TokenKind::Symbol("=") => None,
            TokenKind::Symbol("+=") => Some(BinaryOp::Add),
            TokenKind::Symbol("-=") => Some(BinaryOp::Sub),
            TokenKind::Symbol("*=") => Some(BinaryOp::Mul),
            TokenKind::Symbol("/=") => Some(BinaryOp::Div),
            _ => return Ok(StmtKind::Expr(target)),
        };
        self.bump();
        let value = self.expr()?;
        Ok(StmtKind::Assign { target, op, value })
    }
}

fn one_statement(kind: StmtKind, span: Span) -> Block {
    Block { statements: vec![Stmt { kind, span }], span }
}
