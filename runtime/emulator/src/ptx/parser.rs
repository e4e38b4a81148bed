//! The parser: tokens to a [`Module`].

use super::{
    MAX_SOURCE_BYTES, Pos, PtxError,
    ast::{Function, Instruction, Module, Operand, Site, Statement, Variable},
    lexer::{Spanned, Token, tokens},
};

/// Blocks may nest this deep; no compiler comes near it.
pub(super) const MAX_DEPTH: u32 = 64;

/// Parses the text of a PTX file; `file` names it in errors.
pub fn parse<'s>(file: &'s str, text: &'s str) -> Result<Module<'s>, PtxError> {
    if text.len() > MAX_SOURCE_BYTES {
        return Err(PtxError {
            file: file.to_owned(),
            pos: Pos { line: 1, col: 1 },
            message: format!("the file has {} bytes; the limit is {MAX_SOURCE_BYTES}", text.len()),
        });
    }
    Parser { file, tokens: tokens(file, text)?, at: 0, depth: 0 }.module()
}

pub(super) struct Parser<'s> {
    file: &'s str,
    tokens: Vec<Spanned<'s>>,
    pub(super) at: usize,
    depth: u32,
}

pub(super) type Parsed<T> = Result<T, PtxError>;

fn describe(token: Token<'_>) -> String {
    match token {
        Token::Word(word) => format!("`{word}`"),
        Token::Dot(word) => format!("`.{word}`"),
        Token::Int(value, _) => format!("`{value}`"),
        Token::F32(_) | Token::F64(_) => "a float constant".to_owned(),
        Token::Text(_) => "a string".to_owned(),
        Token::Punct(byte) => format!("`{}`", byte as char),
        Token::End => "the end of the file".to_owned(),
    }
}

impl<'s> Parser<'s> {
    pub(super) fn peek(&self) -> Token<'s> {
        self.tokens.get(self.at).map_or(Token::End, |spanned| spanned.token)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Token<'s> {
        self.tokens.get(self.at + ahead).map_or(Token::End, |spanned| spanned.token)
    }

    pub(super) fn pos(&self) -> Pos {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(Pos::default(), |spanned| spanned.pos)
    }

    pub(super) fn glued(&self) -> bool {
        self.tokens.get(self.at).is_some_and(|spanned| spanned.glued)
    }

    pub(super) fn next(&mut self) -> Token<'s> {
        let token = self.peek();
        if token != Token::End {
            self.at += 1;
        }
        token
    }

    pub(super) fn fail<T>(&self, pos: Pos, message: impl Into<String>) -> Parsed<T> {
        Err(PtxError { file: self.file.to_owned(), pos, message: message.into() })
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        self.fail(self.pos(), format!("expected {what}, found {}", describe(self.peek())))
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Token::Punct(byte);
        if found {
            self.at += 1;
        }
        found
    }

    fn eat_dot(&mut self, word: &str) -> bool {
        let found = self.peek() == Token::Dot(word);
        if found {
            self.at += 1;
        }
        found
    }

    pub(super) fn punct(&mut self, byte: u8) -> Parsed<()> {
        if self.eat(byte) { Ok(()) } else { self.expected(&format!("`{}`", byte as char)) }
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<&'s str> {
        match self.peek() {
            Token::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    pub(super) fn int(&mut self, what: &str) -> Parsed<u64> {
        match self.peek() {
            Token::Int(value, _) => {
                self.at += 1;
                Ok(value)
            }
            _ => self.expected(what),
        }
    }

    fn small(&mut self, what: &str) -> Parsed<u32> {
        let pos = self.pos();
        let value = self.int(what)?;
        u32::try_from(value).or_else(|_| self.fail(pos, format!("{what} {value} does not fit 32 bits")))
    }

    fn module(mut self) -> Parsed<Module<'s>> {
        let mut module = Module { address_size: 64, ..Module::default() };
        if !self.eat_dot("version") {
            return self.expected("`.version`");
        }
        module.version = self.version()?;
        if !self.eat_dot("target") {
            return self.expected("`.target`");
        }
        let pos = self.pos();
        let target = self.word("a target such as sm_80")?;
        let digits =
            target.strip_prefix("sm_").unwrap_or("").trim_end_matches(|c: char| c.is_ascii_lowercase());
        module.target = match digits.parse() {
            Ok(number) => number,
            Err(_) => return self.fail(pos, format!("unknown target `{target}`: expected sm_NN")),
        };
        while self.eat(b',') {
            let pos = self.pos();
            let option = self.word("a target option")?;
            if !matches!(option, "debug" | "texmode_independent" | "texmode_unified") {
                return self.fail(pos, format!("unknown target option `{option}`"));
            }
        }
        while self.peek() != Token::End {
            self.top_level(&mut module)?;
        }
        Ok(module)
    }

    fn version(&mut self) -> Parsed<(u32, u32)> {
        let pos = self.pos();
        // `6.3` is lexed as one decimal number.
        let version = match self.next() {
            Token::F64(bits) => {
                let tenths = (f64::from_bits(bits) * 10.0).round();
                if (0.0..10000.0).contains(&tenths) {
                    Some((tenths as u32 / 10, tenths as u32 % 10))
                } else {
                    None
                }
            }
            _ => None,
        };
        match version {
            Some(version) if ((6, 0)..(10, 0)).contains(&version) => Ok(version),
            Some((major, minor)) => {
                self.fail(pos, format!("PTX ISA version {major}.{minor} is not one of 6.0 to 9.9"))
            }
            None => self.fail(pos, "expected a version such as 7.0"),
        }
    }

    fn top_level(&mut self, module: &mut Module<'s>) -> Parsed<()> {
        let mut external = false;
        loop {
            let pos = self.pos();
            let Token::Dot(directive) = self.peek() else {
                if external || !self.eat(b';') {
                    return self.expected("a directive");
                }
                return Ok(());
            };
            match directive {
                "extern" => {
                    external = true;
                    self.at += 1;
                }
                "visible" | "weak" | "common" => self.at += 1,
                "address_size" => {
                    self.at += 1;
                    module.address_size = self.small("an address size")?;
                    if module.address_size != 64 {
                        return self.fail(pos, "only 64-bit addresses are supported");
                    }
                    return Ok(());
                }
                "file" => {
                    self.at += 1;
                    let index = self.small("a file index")?;
                    match self.next() {
                        Token::Text(name) => module.files.push((index, name)),
                        _ => return self.fail(pos, "expected the file's name in quotes"),
                    }
                    while self.eat(b',') {
                        self.int("a number")?;
                    }
                    return Ok(());
                }
                "section" => return self.section(),
                "pragma" => {
                    self.at += 1;
                    return self.skip_to_semicolon();
                }
                "alias" => {
                    self.at += 1;
                    let name = self.word("a function's name")?;
                    self.punct(b',')?;
                    module.aliases.push((name, self.word("a function's name")?));
                    return self.punct(b';');
                }
                "entry" | "func" => {
                    self.at += 1;
                    let function = self.function(directive == "entry")?;
                    module.functions.push(function);
                    return Ok(());
                }
                "global" | "const" | "shared" => {
                    let variables = self.variables(external)?;
                    module.variables.extend(variables);
                    return Ok(());
                }
                _ => return self.fail(pos, format!("unknown directive `.{directive}`")),
            }
        }
    }

    fn skip_to_semicolon(&mut self) -> Parsed<()> {
        while self.peek() != Token::Punct(b';') {
            if self.peek() == Token::End {
                return self.expected("`;`");
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// Debug sections hold DWARF data, which reports do not need.
    fn section(&mut self) -> Parsed<()> {
        while self.peek() != Token::Punct(b'{') {
            if self.peek() == Token::End {
                return self.expected("`{`");
            }
            self.at += 1;
        }
        let mut depth = 0u64;
        loop {
            match self.next() {
                Token::Punct(b'{') => depth += 1,
                Token::Punct(b'}') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Token::End => return self.expected("`}`"),
                _ => {}
            }
        }
    }

    fn function(&mut self, entry: bool) -> Parsed<Function<'s>> {
        let mut returns = Vec::new();
        if !entry && self.peek() == Token::Punct(b'(') {
            returns = self.parameters()?;
        }
        let pos = self.pos();
        let name = self.word("a function's name")?;
        let params = if self.peek() == Token::Punct(b'(') { self.parameters()? } else { Vec::new() };
        let mut function = Function {
            pos,
            name,
            entry,
            returns,
            params,
            max_threads: None,
            required_threads: None,
            max_registers: None,
            body: None,
            broken: None,
        };
        loop {
            let pos = self.pos();
            match self.peek() {
                Token::Punct(b';') => {
                    self.at += 1;
                    return Ok(function);
                }
                Token::Punct(b'{') => {
                    let (at, depth) = (self.at, self.depth);
                    match self.block() {
                        Ok(body) => function.body = Some(body),
                        Err(error) => {
                            (self.at, self.depth) = (at, depth);
                            if !self.skip_block() {
                                return Err(error);
                            }
                            function.broken = Some(error);
                        }
                    }
                    return Ok(function);
                }
                Token::Dot(directive) => {
                    self.at += 1;
                    match directive {
                        "maxntid" => function.max_threads = Some(self.extents()?),
                        "reqntid" => function.required_threads = Some(self.extents()?),
                        "maxnreg" => function.max_registers = Some(self.small("a count")?),
                        "minnctapersm" | "maxnctapersm" => {
                            self.small("a count")?;
                        }
                        "noreturn" | "explicitcluster" => {}
                        "maxclusterrank" => {
                            self.small("a count")?;
                        }
                        "reqnctapercluster" => {
                            if self.extents()? != [1; 3] {
                                return self.fail(pos, "clusters of several CTAs are not supported");
                            }
                        }
                        "pragma" => self.skip_to_semicolon()?,
                        _ => return self.fail(pos, format!("unknown directive `.{directive}`")),
                    }
                }
                _ => return self.expected("the function's body"),
            }
        }
    }

    /// Skips to behind the brace that closes the one that stands here.
    fn skip_block(&mut self) -> bool {
        let mut depth = 0u64;
        loop {
            match self.next() {
                Token::Punct(b'{') => depth += 1,
                Token::Punct(b'}') if depth <= 1 => return true,
                Token::Punct(b'}') => depth -= 1,
                Token::End => return false,
                _ => {}
            }
        }
    }

    fn extents(&mut self) -> Parsed<[u32; 3]> {
        let mut extents = [1; 3];
        for extent in &mut extents {
            *extent = self.small("an extent")?;
            if !self.eat(b',') {
                break;
            }
        }
        Ok(extents)
    }

    fn parameters(&mut self) -> Parsed<Vec<Variable<'s>>> {
        self.punct(b'(')?;
        let mut params = Vec::new();
        if self.eat(b')') {
            return Ok(params);
        }
        loop {
            params.push(self.declaration(false)?);
            if self.eat(b')') {
                return Ok(params);
            }
            self.punct(b',')?;
        }
    }

    /// `+ 4`, `- 4`, `+ -4`, `+ 4 * 2` or nothing.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        let mut total = 0i64;
        loop {
            let negative = match self.peek() {
                Token::Punct(b'+') => false,
                Token::Punct(b'-') => true,
                _ => return Ok(total),
            };
            self.at += 1;
            let value = self.term()? as i64;
            total = total.wrapping_add(if negative { value.wrapping_neg() } else { value });
        }
    }

    fn block(&mut self) -> Parsed<Vec<Statement<'s>>> {
        self.punct(b'{')?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(self.pos(), format!("blocks nest more than {MAX_DEPTH} deep"));
        }
        let mut body = Vec::new();
        while !self.eat(b'}') {
            self.statement(&mut body)?;
        }
        self.depth -= 1;
        Ok(body)
    }

    fn statement(&mut self, body: &mut Vec<Statement<'s>>) -> Parsed<()> {
        let pos = self.pos();
        match self.peek() {
            Token::Punct(b';') => {
                self.at += 1;
                Ok(())
            }
            Token::Punct(b'{') => {
                let block = self.block()?;
                body.push(Statement::Block(block));
                Ok(())
            }
            Token::Word(name) if self.peek_at(1) == Token::Punct(b':') => {
                self.at += 2;
                body.push(Statement::Label(pos, name));
                Ok(())
            }
            Token::Dot(directive) => self.body_directive(directive, body),
            Token::Word(_) | Token::Punct(b'@') => {
                let instruction = self.instruction()?;
                body.push(Statement::Instruction(instruction));
                Ok(())
            }
            _ => self.expected("a statement"),
        }
    }

    fn body_directive(&mut self, directive: &'s str, body: &mut Vec<Statement<'s>>) -> Parsed<()> {
        let pos = self.pos();
        match directive {
            "reg" | "shared" | "local" | "param" | "global" | "const" => {
                let variables = self.variables(false)?;
                body.extend(variables.into_iter().map(Statement::Variable));
                Ok(())
            }
            "loc" => {
                self.at += 1;
                let site = self.site()?;
                // `, function_name $L, inlined_at 1 2 3` fills the rest of the line.
                let mut inlined = None;
                while self.pos().line == pos.line && self.peek() != Token::End {
                    let word = self.next();
                    if word == Token::Word("inlined_at") {
                        inlined = Some(self.site()?);
                    }
                }
                body.push(Statement::Loc(site, inlined));
                Ok(())
            }
            "pragma" => {
                self.at += 1;
                self.skip_to_semicolon()
            }
            "branchtargets" | "calltargets" => {
                self.at += 1;
                let mut names = vec![self.word("a name")?];
                while self.eat(b',') {
                    names.push(self.word("a name")?);
                }
                self.punct(b';')?;
                body.push(if directive == "branchtargets" {
                    Statement::BranchTargets(names)
                } else {
                    Statement::CallTargets(names)
                });
                Ok(())
            }
            "callprototype" => {
                self.at += 1;
                let returns = if self.peek() == Token::Punct(b'(') { self.parameters()? } else { Vec::new() };
                self.word("`_`")?;
                let params = if self.peek() == Token::Punct(b'(') { self.parameters()? } else { Vec::new() };
                self.skip_to_semicolon()?;
                body.push(Statement::Prototype(returns, params));
                Ok(())
            }
            _ => self.fail(pos, format!("`.{directive}` is not supported here")),
        }
    }

    fn site(&mut self) -> Parsed<Site> {
        let file = self.small("a file index")?;
        let line = self.small("a line")?;
        Ok(Site { file, line, column: self.small("a column")? })
    }

    fn instruction(&mut self) -> Parsed<Instruction<'s>> {
        let guard = if self.eat(b'@') {
            let negated = self.eat(b'!');
            Some((self.word("a predicate")?, negated))
        } else {
            None
        };
        let pos = self.pos();
        let base = self.word("an instruction")?;
        let mut modifiers = Vec::new();
        while let Token::Dot(word) = self.peek() {
            modifiers.push(word);
            self.at += 1;
        }
        let mut operands = Vec::new();
        if !self.eat(b';') {
            loop {
                operands.push(self.operand(0, base == "call")?);
                if self.eat(b';') {
                    break;
                }
                self.punct(b',')?;
            }
        }
        Ok(Instruction { pos, guard, base, modifiers, operands })
    }

    /// `lists`: a parenthesis opens a list of arguments, not an expression.
    fn operand(&mut self, depth: u32, lists: bool) -> Parsed<Operand<'s>> {
        if depth > 4 {
            return self.fail(self.pos(), "operands nest too deep");
        }
        match self.peek() {
            Token::Punct(b'[') => self.address(),
            Token::Punct(open @ (b'{' | b'(')) if open == b'{' || lists => {
                self.at += 1;
                let close = if open == b'{' { b'}' } else { b')' };
                let mut items = Vec::new();
                if !self.eat(close) {
                    loop {
                        items.push(self.operand(depth + 1, lists)?);
                        if self.eat(close) {
                            break;
                        }
                        self.punct(b',')?;
                    }
                }
                Ok(if open == b'{' { Operand::Vector(items) } else { Operand::List(items) })
            }
            Token::Punct(b'!') => match self.peek_at(1) {
                Token::Word(name) if name != "WARP_SZ" => {
                    self.at += 2;
                    Ok(Operand::Not(name))
                }
                _ => self.constant(),
            },
            Token::Word(name) if name != "WARP_SZ" => {
                self.at += 1;
                let first = self.named(name)?;
                if self.eat(b'|') {
                    let second = self.operand(depth + 1, lists)?;
                    return Ok(Operand::Pair(Box::new(first), Box::new(second)));
                }
                Ok(first)
            }
            _ => self.constant(),
        }
    }

    fn named(&mut self, name: &'s str) -> Parsed<Operand<'s>> {
        if let Token::Dot(component) = self.peek()
            && self.glued()
        {
            self.at += 1;
            return Ok(Operand::Name(name, Some(component)));
        }
        match self.peek() {
            Token::Punct(b'+' | b'-') => Ok(Operand::Offset(name, self.offset()?)),
            _ => Ok(Operand::Name(name, None)),
        }
    }

    fn address(&mut self) -> Parsed<Operand<'s>> {
        self.punct(b'[')?;
        let address = match self.peek() {
            Token::Word(name) => {
                self.at += 1;
                let offset = self.offset()?;
                Operand::Address(Some(name), offset)
            }
            _ => match self.constant()? {
                Operand::Int(value) => Operand::Address(None, value as i64),
                _ => return self.expected("an address"),
            },
        };
        if self.eat(b',') {
            let Operand::Vector(coordinates) = self.operand(1, false)? else {
                return self.expected("coordinates in braces");
            };
            self.punct(b']')?;
            return Ok(Operand::Tensor(Box::new(address), coordinates));
        }
        self.punct(b']')?;
        Ok(address)
    }
}
