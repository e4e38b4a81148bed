//! Constants, and arithmetic on literals while checking.

use super::{Checker, operand::Operand};
use crate::{
    diagnostics::{Code, Diagnostic},
    span::Span,
    tree,
    typed::{BinaryOp, ExprKind, Type},
};

impl Checker<'_> {
    /// The value of a `const` item.
    pub(super) fn constant(&mut self, item: &tree::Const) -> Option<Operand> {
        let mut value = self.operand(&item.value)?;
        if let Some(ty) = &item.ty {
            match self.type_of(ty)? {
                Type::Tile(_) => {
                    return self.fail(
                        Diagnostic::error(Code::NotConstant, ty.span, "a constant is a scalar")
                            .help("make the tile from the scalar where it is used"),
                    );
                }
                ty => value = Operand::Expr(self.coerce(value, &ty, "the constant")?),
            }
        }
        match &value {
            Operand::Int(..) | Operand::Float(..) => Some(value),
            Operand::Expr(expr) => match expr.kind {
                ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => Some(value),
                _ => self.fail(Diagnostic::error(
                    Code::NotConstant,
                    item.value.span,
                    format!("the value of `{}` is not a constant", item.name.name),
                )),
            },
        }
    }

    /// An integer that is known while checking.
    pub(super) fn constant_int(&mut self, expr: &tree::Expr, what: &str) -> Option<i128> {
        let operand = self.operand(expr)?;
        self.constant_int_of(operand, what)
    }

    pub(super) fn constant_int_of(&mut self, operand: Operand, what: &str) -> Option<i128> {
        match operand {
            Operand::Int(value, _) => Some(value),
            Operand::Expr(crate::typed::Expr { kind: ExprKind::Int(value), .. }) => Some(value.into()),
            other => {
                let message = format!("{what} is an integer constant, not {}", other.describe());
                self.fail(Diagnostic::error(Code::NotConstant, other.span(), message))
            }
        }
    }
}

/// `a op b` of two literals, when the result is a literal.
pub(super) fn fold(op: BinaryOp, a: &Operand, b: &Operand, span: Span) -> Option<Operand> {
    let int = |value: Option<i128>| value.map(|value| Operand::Int(value, span));
    match (a, b) {
        (Operand::Int(a, _), Operand::Int(b, _)) => {
            let (a, b) = (*a, *b);
            match op {
                BinaryOp::Add => int(a.checked_add(b)),
                BinaryOp::Sub => int(a.checked_sub(b)),
                BinaryOp::Mul => int(a.checked_mul(b)),
                BinaryOp::Div if b == 0 => int(Some(0)),
                BinaryOp::Div => int(a.checked_div(b)),
                BinaryOp::Rem if b == 0 => int(Some(a)),
                BinaryOp::Rem => int(a.checked_rem(b)),
                BinaryOp::Min => int(Some(a.min(b))),
                BinaryOp::Max => int(Some(a.max(b))),
                BinaryOp::BitAnd => int(Some(a & b)),
                BinaryOp::BitOr => int(Some(a | b)),
                BinaryOp::BitXor => int(Some(a ^ b)),
                BinaryOp::Shl if (0..64).contains(&b) && a.abs() <= i128::from(u64::MAX) => int(Some(a << b)),
                BinaryOp::Shr if (0..127).contains(&b) => int(Some(a >> b)),
                _ => None,
            }
        }
        _ => {
            let (a, b) = (as_float(a)?, as_float(b)?);
            let value = match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                _ => return None,
            };
            Some(Operand::Float(value, span))
        }
    }
}

fn as_float(operand: &Operand) -> Option<f64> {
    match operand {
        Operand::Int(value, _) => Some(*value as f64),
        Operand::Float(value, _) => Some(*value),
        Operand::Expr(_) => None,
    }
}
