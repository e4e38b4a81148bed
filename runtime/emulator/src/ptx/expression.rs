//! Constant expressions: C's operators on 64-bit integers, and sums, differences,
//! products and quotients of floats.

use super::{
    ast::Operand,
    lexer::Token,
    parser::{Parsed, Parser},
};

/// Parentheses may nest this deep.
const MAX_DEPTH: u32 = 64;
/// The precedence above that of sums: products.
const PRODUCT: u32 = 10;

/// A value under evaluation.
#[derive(Clone, Copy, Debug)]
enum Value {
    Int(u64, bool),
    F32(u32),
    F64(f64),
}

/// The binary operators with their precedence, longest first.
const OPERATORS: [(&str, u32); 18] = [
    ("<<", 8),
    (">>", 8),
    ("<=", 7),
    (">=", 7),
    ("==", 6),
    ("!=", 6),
    ("&&", 2),
    ("||", 1),
    ("<", 7),
    (">", 7),
    ("&", 5),
    ("^", 4),
    ("|", 3),
    ("+", 9),
    ("-", 9),
    ("*", PRODUCT),
    ("/", PRODUCT),
    ("%", PRODUCT),
];

impl<'s> Parser<'s> {
    /// A constant expression as an operand.
    pub(super) fn constant(&mut self) -> Parsed<Operand<'s>> {
        Ok(match self.conditional(0)? {
            Value::Int(value, _) => Operand::Int(value),
            Value::F32(bits) => Operand::F32(bits),
            Value::F64(value) => Operand::F64(value.to_bits()),
        })
    }

    /// A constant expression that is an integer.
    pub(super) fn whole(&mut self, what: &str) -> Parsed<u64> {
        match self.conditional(0)? {
            Value::Int(value, _) => Ok(value),
            _ => self.expected(what),
        }
    }

    /// What may follow the sign of an offset: products of integers.
    pub(super) fn term(&mut self) -> Parsed<u64> {
        match self.binary(PRODUCT, 0)? {
            Value::Int(value, _) => Ok(value),
            _ => self.expected("an offset"),
        }
    }

    fn conditional(&mut self, depth: u32) -> Parsed<Value> {
        let condition = self.binary(0, depth)?;
        if !self.eat(b'?') {
            return Ok(condition);
        }
        let yes = self.conditional(depth + 1)?;
        self.punct(b':')?;
        let no = self.conditional(depth + 1)?;
        match condition {
            Value::Int(value, _) => Ok(if value != 0 { yes } else { no }),
            _ => self.expected("a condition that is an integer"),
        }
    }

    /// The operator that stands next, if it binds at least as tightly as `least`.
    fn operator(&self, least: u32) -> Option<(&'static str, u32)> {
        let is = |ahead: usize, byte: u8| self.peek_at(ahead) == Token::Punct(byte);
        let found = OPERATORS
            .iter()
            .find(|(text, _)| text.bytes().enumerate().all(|(ahead, byte)| is(ahead, byte)))?;
        (found.1 >= least).then_some(*found)
    }

    fn binary(&mut self, least: u32, depth: u32) -> Parsed<Value> {
        let mut left = self.unary(depth)?;
        while let Some((operator, precedence)) = self.operator(least) {
            let pos = self.pos();
            self.at += operator.len();
            let right = self.binary(precedence + 1, depth)?;
            left = match apply(operator, left, right) {
                Some(value) => value,
                None => {
                    return self.fail(pos, format!("`{operator}` cannot be applied to these constants"));
                }
            };
        }
        Ok(left)
    }

    fn unary(&mut self, depth: u32) -> Parsed<Value> {
        if depth > MAX_DEPTH {
            return self.fail(self.pos(), format!("expressions nest more than {MAX_DEPTH} deep"));
        }
        let pos = self.pos();
        match self.peek() {
            Token::Punct(sign @ (b'-' | b'+' | b'~' | b'!')) => {
                self.at += 1;
                let value = self.unary(depth + 1)?;
                match (sign, value) {
                    (b'+', value) => Ok(value),
                    (b'-', Value::Int(value, unsigned)) => Ok(Value::Int(value.wrapping_neg(), unsigned)),
                    (b'-', Value::F32(bits)) => Ok(Value::F32(bits ^ 1 << 31)),
                    (b'-', Value::F64(value)) => Ok(Value::F64(-value)),
                    (b'~', Value::Int(value, unsigned)) => Ok(Value::Int(!value, unsigned)),
                    (b'!', Value::Int(value, _)) => Ok(Value::Int(u64::from(value == 0), false)),
                    _ => self.fail(pos, format!("`{}` needs an integer", sign as char)),
                }
            }
            Token::Punct(b'(') => {
                self.at += 1;
                if let Token::Dot(word @ ("s64" | "u64")) = self.peek() {
                    self.at += 1;
                    self.punct(b')')?;
                    return match self.unary(depth + 1)? {
                        Value::Int(value, _) => Ok(Value::Int(value, word == "u64")),
                        _ => self.fail(pos, "casts are of integers"),
                    };
                }
                let value = self.conditional(depth + 1)?;
                self.punct(b')')?;
                Ok(value)
            }
            Token::Int(value, unsigned) => {
                self.at += 1;
                Ok(Value::Int(value, unsigned))
            }
            Token::F32(bits) => {
                self.at += 1;
                Ok(Value::F32(bits))
            }
            Token::F64(bits) => {
                self.at += 1;
                Ok(Value::F64(f64::from_bits(bits)))
            }
            Token::Word("WARP_SZ") => {
                self.at += 1;
                Ok(Value::Int(32, false))
            }
            _ => self.expected("an operand"),
        }
    }
}

/// The value of an operator, or `None` where it has none.
fn apply(operator: &str, left: Value, right: Value) -> Option<Value> {
    let (a, b, unsigned) = match (left, right) {
        (Value::Int(a, u), Value::Int(b, v)) => (a, b, u || v),
        (Value::F64(a), Value::F64(b)) => {
            return Some(Value::F64(match operator {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a / b,
                _ => return None,
            }));
        }
        _ => return None,
    };
    let (s, t) = (a as i64, b as i64);
    let truth = |value: bool| Some(Value::Int(value.into(), false));
    let order = if unsigned { a.cmp(&b) } else { s.cmp(&t) };
    let value = match operator {
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if unsigned => a.checked_div(b)?,
        "%" if unsigned => a.checked_rem(b)?,
        "/" => s.checked_div(t)? as u64,
        "%" => s.checked_rem(t)? as u64,
        "<<" => a.checked_shl(u32::try_from(b).ok()?)?,
        ">>" if matches!(left, Value::Int(_, true)) => a.checked_shr(u32::try_from(b).ok()?)?,
        ">>" => s.checked_shr(u32::try_from(b).ok()?)? as u64,
        "&" => a & b,
        "^" => a ^ b,
        "|" => a | b,
        "<" => return truth(order.is_lt()),
        "<=" => return truth(order.is_le()),
        ">" => return truth(order.is_gt()),
        ">=" => return truth(order.is_ge()),
        "==" => return truth(a == b),
        "!=" => return truth(a != b),
        "&&" => return truth(a != 0 && b != 0),
        "||" => return truth(a != 0 || b != 0),
        _ => return None,
    };
    // A shift has the type of what is shifted.
    let unsigned = match (operator, left) {
        ("<<" | ">>", Value::Int(_, unsigned)) => unsigned,
        _ => unsigned,
    };
    Some(Value::Int(value, unsigned))
}
