//! Evaluation of `where` conditions and parameter multiples for a candidate.

use std::collections::BTreeMap;

use crate::typed::{BinaryOp, Expr, ExprKind, Kernel, ParamConstraint, UnaryOp};

impl Kernel {
    /// Whether a choice of all parameters satisfies the `where` conditions and the
    /// multiples that block formats need. A missing parameter or an overflow is no.
    pub fn accepts(&self, params: &BTreeMap<String, u64>) -> bool {
        self.constraints.iter().all(|constraint| constraint.holds(params) == Some(true))
            && self.param_multiples.iter().all(|multiple| {
                params.get(&multiple.param).is_some_and(|value| value.checked_rem(multiple.of) == Some(0))
            })
    }
}

impl ParamConstraint {
    /// Whether the condition holds; `None` when a parameter is missing or the
    /// arithmetic overflows.
    pub fn holds(&self, params: &BTreeMap<String, u64>) -> Option<bool> {
        eval(&self.condition, params).map(|value| value != 0)
    }
}

/// The value of a condition's expression; `bool` is 0 or 1.
fn eval(expr: &Expr, params: &BTreeMap<String, u64>) -> Option<i128> {
    match &expr.kind {
        ExprKind::Int(value) => Some((*value).into()),
        ExprKind::Bool(value) => Some((*value).into()),
        ExprKind::Param(name) => params.get(name).map(|value| i128::from(*value)),
        ExprKind::Unary { op, operand } => {
            let value = eval(operand, params)?;
            match op {
                UnaryOp::Neg => value.checked_neg(),
                UnaryOp::Not => Some((value == 0).into()),
                UnaryOp::BitNot => Some(!value),
            }
        }
        ExprKind::Binary { op, lhs, rhs } => {
            let (a, b) = (eval(lhs, params)?, eval(rhs, params)?);
            match op {
                BinaryOp::Add => a.checked_add(b),
                BinaryOp::Sub => a.checked_sub(b),
                BinaryOp::Mul => a.checked_mul(b),
                BinaryOp::Div => {
                    if b == 0 {
                        Some(0)
                    } else {
                        a.checked_div(b)
                    }
                }
                BinaryOp::Rem => {
                    if b == 0 {
                        Some(a)
                    } else {
                        a.checked_rem(b)
                    }
                }
                BinaryOp::Min => Some(a.min(b)),
                BinaryOp::Max => Some(a.max(b)),
                BinaryOp::Eq => Some((a == b).into()),
                BinaryOp::Ne => Some((a != b).into()),
                BinaryOp::Lt => Some((a < b).into()),
                BinaryOp::Le => Some((a <= b).into()),
                BinaryOp::Gt => Some((a > b).into()),
                BinaryOp::Ge => Some((a >= b).into()),
                BinaryOp::And | BinaryOp::BitAnd => Some(a & b),
                BinaryOp::Or | BinaryOp::BitOr => Some(a | b),
                BinaryOp::BitXor => Some(a ^ b),
                BinaryOp::Shl => shift(b).and_then(|by| a.checked_mul(1i128.checked_shl(by)?)),
                BinaryOp::Shr => shift(b).map(|by| a >> by),
            }
        }
        _ => None,
    }
}

fn shift(by: i128) -> Option<u32> {
    u32::try_from(by).ok().filter(|by| *by < 64)
}
