//! Items: kernels with their attributes, functions, constants, imports; types.

use super::{Failed, Parse, Parser};
use crate::{
    diagnostics::{Code, Diagnostic, nearest},
    lexer::{Keyword, TokenKind},
    span::Span,
    tree::{
        Attribute, AttributeArg, Const, Expr, Function, Generic, GenericKind, Ident, Import, Item, Kernel,
        Module, Param, TypeExpr, TypeKind,
    },
};

impl Parser<'_> {
    pub(super) fn module(&mut self) -> Module {
        let mut items = Vec::new();
        loop {
            self.skip_newlines();
            if self.peek().kind == TokenKind::End {
                break;
            }
            match self.item() {
                Ok(item) => items.push(item),
                Err(Failed) => self.recover_to_item(),
            }
        }
        let span = Span::new(0, self.source.text().len() as u32);
        Module { items, span, broken: self.sink.has_errors() }
    }

    /// Skips to a token that begins an item at the start of a line.
    fn recover_to_item(&mut self) {
        self.brackets = 0;
        self.depth = 0;
        loop {
            self.at += 1;
            let token = self.raw(0);
            let (_, line) = self.source.line_at(token.span.start);
            let first = token.span.start == line;
            let begins = match token.kind {
                TokenKind::End => return,
                TokenKind::Keyword(Keyword::Kernel) => true,
                TokenKind::Symbol("@") => first,
                TokenKind::Name => first && matches!(self.text(token.span), "fn" | "const" | "import"),
                _ => false,
            };
            if begins {
                return;
            }
        }
    }

    fn item(&mut self) -> Parse<Item> {
        let start = self.peek().span;
        let mut attributes = Vec::new();
        while self.is("@") {
            attributes.push(self.attribute()?);
            self.skip_newlines();
        }
        if self.is_keyword(Keyword::Kernel) {
            return self.kernel(attributes, start).map(Item::Kernel);
        }
        if !attributes.is_empty() {
            return Err(self.unexpected("`kernel` behind its attributes"));
        }
        let token = self.peek();
        if token.kind == TokenKind::Name {
            match self.text(token.span) {
                "fn" => return self.function().map(Item::Function),
                "const" => return self.constant().map(Item::Const),
                "import" => return self.import().map(Item::Import),
                word => {
                    if let Some(meant) = nearest(word, ["kernel", "fn", "const", "import"]) {
                        let message = format!("expected an item, found `{word}`");
                        self.sink.push(
                            Diagnostic::error(Code::UnexpectedToken, token.span, message)
                                .help(format!("did you mean `{meant}`?")),
                        );
                        return Err(Failed);
                    }
                }
            }
        }
        Err(self.unexpected("`kernel`, `fn`, `const`, `import` or an attribute"))
    }

    fn attribute(&mut self) -> Parse<Attribute> {
        let at = self.expect("@")?.span;
        let name = self.name("the name of an attribute")?;
        let mut attribute =
            Attribute { span: at.to(name.span), name, args: Vec::new(), constraints: Vec::new() };
        if !self.is("(") {
            return Ok(attribute);
        }
        let open = self.bump().span;
        self.brackets += 1;
        let result = self.attribute_args(&mut attribute, open);
        self.brackets -= 1;
        result?;
        attribute.span = attribute.span.to(self.last_span());
        Ok(attribute)
    }

    fn attribute_args(&mut self, attribute: &mut Attribute, open: Span) -> Parse<()> {
        while !self.is(")") && !self.is_word("where") {
            attribute.args.push(self.attribute_arg()?);
            if !self.eat(",") {
                break;
            }
        }
        if self.is_word("where") {
            self.bump();
            loop {
                attribute.constraints.push(self.expr()?);
                if !self.eat(",") || self.is(")") {
                    break;
                }
            }
        }
        self.expect_close(")", open)?;
        Ok(())
    }

    fn attribute_arg(&mut self) -> Parse<AttributeArg> {
        let token = self.peek();
        if token.kind == TokenKind::Name {
            let ident = Ident { name: self.text(token.span).to_owned(), span: token.span };
            match self.raw(1).kind {
                TokenKind::Keyword(Keyword::In) => {
                    self.bump();
                    self.bump();
                    let (values, list) = self.list("[", "]", Parser::expr)?;
                    return Ok(AttributeArg::In { span: ident.span.to(list), name: ident, values });
                }
                TokenKind::Symbol("=") => {
                    self.bump();
                    self.bump();
                    let value = self.expr()?;
                    return Ok(AttributeArg::Named { span: ident.span.to(value.span), name: ident, value });
                }
                _ => {}
            }
        }
        self.expr().map(AttributeArg::Value)
    }

    fn kernel(&mut self, attributes: Vec<Attribute>, start: Span) -> Parse<Kernel> {
        self.bump();
        let name = self.name("the name of the kernel")?;
        let generics = self.generics()?;
        let (params, _) = self.list("(", ")", Parser::param)?;
        self.skip_newlines();
        let body = self.block()?;
        Ok(Kernel { span: start.to(body.span), attributes, name, generics, params, body })
    }

    fn function(&mut self) -> Parse<Function> {
        let start = self.bump().span;
        let name = self.name("the name of the function")?;
        let generics = self.generics()?;
        let (params, _) = self.list("(", ")", Parser::param)?;
        let result = if self.eat("->") { Some(self.type_expr()?) } else { None };
        self.skip_newlines();
        let body = self.block()?;
        Ok(Function { span: start.to(body.span), name, generics, params, result, body })
    }

    fn constant(&mut self) -> Parse<Const> {
        let start = self.bump().span;
        let name = self.name("the name of the constant")?;
        let ty = if self.eat(":") { Some(self.type_expr()?) } else { None };
        self.expect("=")?;
        let value = self.expr()?;
        self.end_of_statement("constant")?;
        Ok(Const { span: start.to(value.span), name, ty, value })
    }

    fn import(&mut self) -> Parse<Import> {
        let start = self.bump().span;
        let token = self.peek();
        if token.kind != TokenKind::Text {
            return Err(self.unexpected("the path of a file between double quotes"));
        }
        self.bump();
        self.end_of_statement("import")?;
        let path = self.text(token.span).trim_matches('"').to_owned();
        Ok(Import { path, span: start.to(token.span) })
    }

    fn generics(&mut self) -> Parse<Vec<Generic>> {
        if !self.is("[") {
            return Ok(Vec::new());
        }
        let (generics, _) = self.list("[", "]", |parser| {
            let name = parser.name("the name of a generic parameter")?;
            parser.expect(":")?;
            let kind_name = parser.name("`format` or `dtype`")?;
            let kind = match kind_name.name.as_str() {
                "format" => GenericKind::Format,
                "dtype" => GenericKind::DType,
                other => {
                    let message = format!("expected `format` or `dtype`, found `{other}`");
                    parser.sink.push(
                        Diagnostic::error(Code::UnexpectedToken, kind_name.span, message)
                            .help("`format` is any tensor element, `dtype` a scalar type"),
                    );
                    GenericKind::Format
                }
            };
            Ok(Generic { span: name.span.to(kind_name.span), name, kind })
        })?;
        Ok(generics)
    }

    fn param(&mut self) -> Parse<Param> {
        let name = self.name("the name of a parameter")?;
        self.expect(":")?;
        let ty = self.type_expr()?;
        Ok(Param { span: name.span.to(ty.span), name, ty })
    }

    pub(super) fn type_expr(&mut self) -> Parse<TypeExpr> {
        let name = self.name("a type")?;
        if !matches!(name.name.as_str(), "tile" | "tensor") || !self.is("<") {
            return Ok(TypeExpr { span: name.span, kind: TypeKind::Scalar(name) });
        }
        self.bump();
        let element = self.name("an element type")?;
        self.expect(">")?;
        let (dims, list) = self.list("[", "]", Parser::expr)?;
        let span = name.span.to(list);
        let kind = if name.name == "tile" {
            TypeKind::Tile { element, dims }
        } else {
            TypeKind::Tensor { element, dims }
        };
        Ok(TypeExpr { kind, span })
    }

    /// Reads a line end or `;`; a closing brace ends a statement as well.
    pub(super) fn end_of_statement(&mut self, what: &str) -> Parse<()> {
        self.comment_for_division();
        let token = self.peek();
        match token.kind {
            TokenKind::Newline => {
                self.bump();
                Ok(())
            }
            TokenKind::End | TokenKind::Symbol("}") | TokenKind::Keyword(Keyword::Kernel) => Ok(()),
            TokenKind::Symbol("@") if self.begins_attribute(token) => Ok(()),
            _ => Err(self.unexpected(&format!("the end of the {what}"))),
        }
    }

    /// A name as an expression.
    pub(super) fn name_expr(ident: Ident) -> Expr {
        Expr { kind: crate::tree::ExprKind::Name(ident.name), span: ident.span }
    }
}
