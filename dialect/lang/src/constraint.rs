//! Evaluation of `where` conditions and parameter multiples for a candidate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use phobos_artifact::DType;

use crate::{
    SourceFile,
    typed::{BinaryOp, Expr, ExprKind, Kernel, ParamConstraint, ParamMultiple, Type, UnaryOp},
};

/// Why a choice of parameters is not allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal<'a> {
    /// A condition of `where` is false.
    False(&'a ParamConstraint),
    /// The value of a condition is beyond any integer that is computed with.
    Overflow(&'a ParamConstraint),
    /// A parameter is no multiple of what it must be one of.
    NoMultiple(&'a ParamMultiple),
    /// A parameter has no value.
    Missing(&'a str),
}

impl Kernel {
    /// Whether a choice of all parameters satisfies the `where` conditions and the
    /// multiples that block formats need.
    pub fn accepts(&self, params: &BTreeMap<String, u64>) -> bool {
        self.refusal(params).is_none()
    }

    /// Why a choice of parameters is not allowed; `None` when it is.
    pub fn refusal(&self, params: &BTreeMap<String, u64>) -> Option<Refusal<'_>> {
        if let Some(missing) = self.params.iter().find(|param| !params.contains_key(&param.name)) {
            return Some(Refusal::Missing(&missing.name));
        }
        let multiple = self.param_multiples.iter().find(|multiple| {
            let value = params.get(&multiple.param).copied().unwrap_or_default();
            value.checked_rem(multiple.of) != Some(0)
        });
        if let Some(multiple) = multiple {
            return Some(Refusal::NoMultiple(multiple));
        }
        self.constraints.iter().find_map(|constraint| match constraint.holds(params) {
            Some(true) => None,
            Some(false) => Some(Refusal::False(constraint)),
            None => Some(Refusal::Overflow(constraint)),
        })
    }
}

impl Refusal<'_> {
    /// Whether the value of this parameter plays a part.
    pub fn concerns(&self, name: &str) -> bool {
        match self {
            Refusal::False(constraint) | Refusal::Overflow(constraint) => {
                constraint.parameters().contains(name)
            }
            Refusal::NoMultiple(multiple) => multiple.param == name,
            Refusal::Missing(missing) => *missing == name,
        }
    }

    /// The reason in words, with the condition as it is written and the values that it was asked for.
    pub fn explain<'a>(
        &'a self,
        source: &'a SourceFile,
        params: &'a BTreeMap<String, u64>,
    ) -> impl fmt::Display + 'a {
        Explained { refusal: self, source, params }
    }
}

struct Explained<'a> {
    refusal: &'a Refusal<'a>,
    source: &'a SourceFile,
    params: &'a BTreeMap<String, u64>,
}

impl Explained<'_> {
    fn condition(&self, f: &mut fmt::Formatter<'_>, constraint: &ParamConstraint, what: &str) -> fmt::Result {
        let written: Vec<&str> = self.source.slice(constraint.span).split_whitespace().collect();
        write!(f, "`{}` {what}", written.join(" "))?;
        for (number, name) in constraint.parameters().into_iter().enumerate() {
            let before = if number == 0 { " for" } else { "," };
            let value = self.params.get(name).copied().unwrap_or_default();
            write!(f, "{before} {name} = {value}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal {
            Refusal::False(constraint) => self.condition(f, constraint, "is false"),
            Refusal::Overflow(constraint) => self.condition(f, constraint, "overflows"),
            Refusal::NoMultiple(multiple) => {
                let value = self.params.get(&multiple.param).copied().unwrap_or_default();
                write!(f, "{} = {value} is no multiple of the block of {}", multiple.param, multiple.of)
            }
            Refusal::Missing(name) => write!(f, "{name} has no value"),
        }
    }
}

impl ParamConstraint {
    /// Whether the condition holds; `None` when a parameter is missing or the
    /// arithmetic overflows.
    pub fn holds(&self, params: &BTreeMap<String, u64>) -> Option<bool> {
        eval(&self.condition, params).map(|value| value != 0)
    }

    /// The parameters that the condition names.
    pub fn parameters(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.condition.walk(&mut |expr| {
            if let ExprKind::Param(name) = &expr.kind {
                names.insert(name.as_str());
            }
        });
        names
    }
}

/// Whether the value of an expression can be computed when parameters are chosen: what
/// [`eval`] knows, and nothing else.
pub(crate) fn is_static(expr: &Expr) -> bool {
    let integer = match &expr.ty {
        Type::Index => true,
        Type::Scalar(dtype) => !dtype.is_float(),
        Type::Tile(_) | Type::Unit => false,
    };
    let kind = matches!(
        expr.kind,
        ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Param(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Cast(_)
    );
    integer && kind
}

/// The value of a condition's expression by the rules of the language; `bool` is 0 or 1.
/// An `index` does not wrap, and the other types do.
fn eval(expr: &Expr, params: &BTreeMap<String, u64>) -> Option<i128> {
    let value = match &expr.kind {
        ExprKind::Int(value) => (*value).into(),
        ExprKind::Bool(value) => (*value).into(),
        ExprKind::Param(name) => params.get(name).map(|value| i128::from(*value))?,
        ExprKind::Cast(operand) => match (eval(operand, params)?, &expr.ty) {
            (value, Type::Scalar(DType::Bool)) => (value != 0).into(),
            (value, _) => value,
        },
        ExprKind::Unary { op, operand } => {
            let value = eval(operand, params)?;
            match op {
                UnaryOp::Neg => value.checked_neg()?,
                UnaryOp::Not => (value == 0).into(),
                UnaryOp::BitNot => !value,
            }
        }
        ExprKind::Binary { op, lhs, rhs } => {
            let (a, b) = (eval(lhs, params)?, eval(rhs, params)?);
            let bits = width(&expr.ty);
            match op {
                BinaryOp::Add => a.checked_add(b)?,
                BinaryOp::Sub => a.checked_sub(b)?,
                BinaryOp::Mul => a.checked_mul(b)?,
                BinaryOp::Div if b == 0 => 0,
                BinaryOp::Div => a.checked_div(b)?,
                BinaryOp::Rem if b == 0 => a,
                BinaryOp::Rem => a.checked_rem(b)?,
                BinaryOp::Min => a.min(b),
                BinaryOp::Max => a.max(b),
                BinaryOp::Eq => (a == b).into(),
                BinaryOp::Ne => (a != b).into(),
                BinaryOp::Lt => (a < b).into(),
                BinaryOp::Le => (a <= b).into(),
                BinaryOp::Gt => (a > b).into(),
                BinaryOp::Ge => (a >= b).into(),
                BinaryOp::And | BinaryOp::BitAnd => a & b,
                BinaryOp::Or | BinaryOp::BitOr => a | b,
                BinaryOp::BitXor => a ^ b,
                BinaryOp::Shl => match shift(b, bits) {
                    Some(by) => a.checked_mul(1i128 << by)?,
                    None => 0,
                },
                BinaryOp::Shr => match shift(b, bits) {
                    Some(by) => a >> by,
                    None => i128::from(a >= 0) - 1,
                },
            }
        }
        _ => return None,
    };
    Some(wrapped(value, &expr.ty))
}

/// The bits of an integer type.
fn width(ty: &Type) -> u32 {
    match ty {
        Type::Scalar(DType::Bool) => 1,
        Type::Scalar(dtype) => 8 * dtype.bytes() as u32,
        _ => 64,
    }
}

/// The distance of a shift; `None` where nothing of the operand is left.
fn shift(by: i128, bits: u32) -> Option<u32> {
    u32::try_from(by).ok().filter(|by| *by < bits)
}

/// The value of a type that has these low bits.
fn wrapped(value: i128, ty: &Type) -> i128 {
    match ty {
        Type::Scalar(DType::I8) => (value as i8).into(),
        Type::Scalar(DType::U8) => (value as u8).into(),
        Type::Scalar(DType::I16) => (value as i16).into(),
        Type::Scalar(DType::I32) => (value as i32).into(),
        Type::Scalar(DType::U32) => (value as u32).into(),
        Type::Scalar(DType::I64) => (value as i64).into(),
        _ => value,
    }
}
