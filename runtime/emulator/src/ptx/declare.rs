//! Declarations of variables and their initial values.

use super::{
    ast::{Init, Operand, Space, Variable},
    lexer::Token,
    parser::{MAX_DEPTH, Parsed, Parser},
};

impl<'s> Parser<'s> {
    pub(super) fn state_space(&mut self) -> Parsed<Space> {
        let space = match self.peek() {
            Token::Dot("global") => Space::Global,
            Token::Dot("shared" | "shared::cta") => Space::Shared,
            Token::Dot("local") => Space::Local,
            Token::Dot("param" | "param::entry" | "param::func") => Space::Param,
            Token::Dot("const") => Space::Const,
            Token::Dot("reg") => Space::Reg,
            _ => return self.expected("a state space"),
        };
        self.at += 1;
        Ok(space)
    }

    pub(super) fn number_of(&mut self) -> Parsed<u64> {
        self.int("a count")
    }

    /// One declaration without its `;`.
    pub(super) fn declaration(&mut self, external: bool) -> Parsed<Variable<'s>> {
        let space = self.state_space()?;
        self.declarator(space, external)
    }

    pub(super) fn declarator(&mut self, space: Space, external: bool) -> Parsed<Variable<'s>> {
        let mut align = None;
        let mut vector = 1;
        let mut ty = None;
        loop {
            match self.peek() {
                Token::Dot("align") => {
                    self.at += 1;
                    let pos = self.pos();
                    let bytes = self.int("an alignment")?;
                    if !bytes.is_power_of_two() || bytes > 1 << 20 {
                        return self
                            .fail(pos, format!("the alignment {bytes} is not a power of two below 2^20"));
                    }
                    align = Some(bytes);
                }
                // `.ptr .global .align 16` describes what a pointer parameter points to.
                Token::Dot("ptr") => {
                    self.at += 1;
                    while let Token::Dot(word) = self.peek() {
                        self.at += 1;
                        if word == "align" {
                            self.int("an alignment")?;
                        }
                    }
                }
                Token::Dot("v2") => {
                    self.at += 1;
                    vector = 2;
                }
                Token::Dot("v4") => {
                    self.at += 1;
                    vector = 4;
                }
                // `.attribute(.managed)`, `.attribute(.unified(1, 2))`: where the driver
                // keeps the variable.
                Token::Dot("attribute") => {
                    self.at += 1;
                    self.punct(b'(')?;
                    let mut depth = 1;
                    while depth > 0 {
                        match self.next() {
                            Token::Punct(b'(') => depth += 1,
                            Token::Punct(b')') => depth -= 1,
                            Token::End => return self.expected("`)`"),
                            _ => {}
                        }
                    }
                }
                Token::Dot(word) => {
                    self.at += 1;
                    ty = Some(word);
                }
                _ => break,
            }
        }
        let pos = self.pos();
        let name = self.word("a name")?;
        let Some(ty) = ty else { return self.fail(pos, format!("`{name}` has no type")) };
        let mut variable = Variable {
            pos,
            space,
            ty,
            vector,
            align,
            name,
            range: None,
            dims: Vec::new(),
            init: None,
            external,
        };
        self.declarator_tail(&mut variable)?;
        Ok(variable)
    }

    pub(super) fn declarator_tail(&mut self, variable: &mut Variable<'s>) -> Parsed<()> {
        if self.eat(b'<') {
            variable.range = Some(self.number_of()?);
            self.punct(b'>')?;
        }
        while self.eat(b'[') {
            if self.eat(b']') {
                variable.dims.push(None);
            } else {
                variable.dims.push(Some(self.whole("an extent")?));
                self.punct(b']')?;
            }
            if variable.dims.len() > 8 {
                return self.fail(variable.pos, "more than 8 array dimensions");
            }
        }
        if self.eat(b'=') {
            let mut values = Vec::new();
            self.initialiser(&mut values, 0)?;
            variable.init = Some(values);
        }
        Ok(())
    }

    /// Declarations up to and with the `;`: one space and type, several names.
    pub(super) fn variables(&mut self, external: bool) -> Parsed<Vec<Variable<'s>>> {
        let first = self.declaration(external)?;
        let mut variables = vec![first];
        while self.eat(b',') {
            let pos = self.pos();
            let name = self.word("a name")?;
            let Some(first) = variables.first() else { break };
            let mut next = Variable { pos, name, range: None, dims: Vec::new(), init: None, ..first.clone() };
            self.declarator_tail(&mut next)?;
            variables.push(next);
        }
        self.punct(b';')?;
        Ok(variables)
    }

    pub(super) fn initialiser(&mut self, values: &mut Vec<Init<'s>>, depth: u32) -> Parsed<()> {
        if depth > MAX_DEPTH {
            return self.fail(self.pos(), format!("braces nest more than {MAX_DEPTH} deep"));
        }
        if !self.eat(b'{') {
            values.push(self.initial_value()?);
            return Ok(());
        }
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            self.initialiser(values, depth + 1)?;
            if self.eat(b'}') {
                return Ok(());
            }
            self.punct(b',')?;
        }
    }

    pub(super) fn initial_value(&mut self) -> Parsed<Init<'s>> {
        if let Token::Word(word) = self.peek() {
            self.at += 1;
            let generic = word == "generic" && self.eat(b'(');
            let name = if generic { self.word("a name")? } else { word };
            if generic {
                self.punct(b')')?;
            }
            let offset = self.offset()?;
            return Ok(Init::Symbol { name, offset, generic });
        }
        Ok(match self.constant()? {
            Operand::F32(bits) => Init::F32(bits),
            Operand::F64(bits) => Init::F64(bits),
            Operand::Int(value) => Init::Int(value),
            _ => return self.expected("a constant"),
        })
    }
}
