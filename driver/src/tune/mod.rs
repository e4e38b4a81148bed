//! Choosing `@autotune` parameters without measuring.
//!
//! The candidates are the product of the lists, less those that a `where` condition or
//! a block format rules out, with the caller's overrides fixed. Among them the chip's
//! [`Rule`] takes the first of the best. A rule is a file here.

mod host;

use std::collections::BTreeMap;

pub use host::HostRule;
use phobos_lang::typed::{BinaryOp, Expr, ExprKind, Kernel, Param, UnaryOp};

/// The most combinations that are looked at.
const MAX_CANDIDATES: usize = 100_000;

/// Why no candidate is left, or an override is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuneError {
    /// An override that is no parameter of the kernel.
    #[error("kernel `{kernel}` has no @autotune parameter `{name}`{}", nearest.as_ref().map(|n| format!(": did you mean `{n}`?")).unwrap_or_default())]
    UnknownParam {
        /// The kernel.
        kernel: String,
        /// What was given.
        name: String,
        /// The closest parameter.
        nearest: Option<String>,
    },
    /// An override of 0.
    #[error("--param {name}=0: a parameter is at least 1")]
    Zero {
        /// The parameter.
        name: String,
    },
    /// Nothing fits the conditions.
    #[error("no candidate of kernel `{kernel}` satisfies its conditions: {why}")]
    NoCandidate {
        /// The kernel.
        kernel: String,
        /// The condition that ruled out the last one.
        why: String,
    },
    /// Too many combinations.
    #[error("kernel `{kernel}` has more than {MAX_CANDIDATES} combinations of parameters")]
    TooMany {
        /// The kernel.
        kernel: String,
    },
}

/// What a chip prefers.
pub trait Rule {
    /// The rank of a candidate, compared from its first number on: smaller is better.
    fn rank(&self, candidate: &BTreeMap<String, u64>) -> Vec<u128>;
}

/// The value of every parameter of `kernel`.
pub fn choose(
    kernel: &Kernel,
    overrides: &BTreeMap<String, u64>,
    first_of_each: bool,
    rule: &dyn Rule,
) -> Result<BTreeMap<String, u64>, TuneError> {
    check_overrides(kernel, overrides)?;
    let mut best: Option<(Vec<u128>, BTreeMap<String, u64>)> = None;
    let mut last_refusal = "its lists are empty".to_owned();
    for candidate in candidates(kernel, overrides, first_of_each)? {
        if let Some(why) = refusal(kernel, &candidate) {
            last_refusal = why;
            continue;
        }
        let rank = rule.rank(&candidate);
        if best.as_ref().is_none_or(|(other, _)| rank < *other) {
            best = Some((rank, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
        .ok_or_else(|| TuneError::NoCandidate { kernel: kernel.name.clone(), why: last_refusal })
}

fn check_overrides(kernel: &Kernel, overrides: &BTreeMap<String, u64>) -> Result<(), TuneError> {
    for (name, value) in overrides {
        if !kernel.params.iter().any(|param| param.name == *name) {
            let names = kernel.params.iter().map(|param| param.name.as_str());
            let nearest = phobos_lang::diagnostics::nearest(name, names).map(str::to_owned);
            return Err(TuneError::UnknownParam { kernel: kernel.name.clone(), name: name.clone(), nearest });
        }
        if *value == 0 {
            return Err(TuneError::Zero { name: name.clone() });
        }
    }
    Ok(())
}

fn candidates(
    kernel: &Kernel,
    overrides: &BTreeMap<String, u64>,
    first_of_each: bool,
) -> Result<Vec<BTreeMap<String, u64>>, TuneError> {
    let mut all = vec![BTreeMap::new()];
    for Param { name, values, .. } in &kernel.params {
        let values: Vec<u64> = match overrides.get(name) {
            Some(value) => vec![*value],
            None if first_of_each => values.first().copied().into_iter().collect(),
            None => values.clone(),
        };
        if all.len() * values.len() > MAX_CANDIDATES {
            return Err(TuneError::TooMany { kernel: kernel.name.clone() });
        }
        all = all
            .iter()
            .flat_map(|candidate| {
                values.iter().map(|value| {
                    let mut next: BTreeMap<String, u64> = candidate.clone();
                    next.insert(name.clone(), *value);
                    next
                })
            })
            .collect();
    }
    Ok(all)
}

/// Why a candidate is not allowed.
fn refusal(kernel: &Kernel, candidate: &BTreeMap<String, u64>) -> Option<String> {
    for multiple in &kernel.param_multiples {
        let value = candidate.get(&multiple.param).copied().unwrap_or(0);
        if value % multiple.of != 0 {
            return Some(format!(
                "{} = {value} is no multiple of the block of {}",
                multiple.param, multiple.of
            ));
        }
    }
    for constraint in &kernel.constraints {
        if evaluate(&constraint.condition, candidate) != Some(1) {
            return Some("a `where` condition is false".into());
        }
    }
    None
}

/// The value of a `where` expression; `None` when it overflows.
fn evaluate(expr: &Expr, candidate: &BTreeMap<String, u64>) -> Option<i128> {
    match &expr.kind {
        ExprKind::Int(value) => Some(i128::from(*value)),
        ExprKind::Bool(value) => Some(i128::from(*value)),
        ExprKind::Param(name) => candidate.get(name).map(|value| i128::from(*value)),
        ExprKind::Unary { op, operand } => {
            let value = evaluate(operand, candidate)?;
            match op {
                UnaryOp::Neg => value.checked_neg(),
                UnaryOp::Not => Some(i128::from(value == 0)),
                UnaryOp::BitNot => Some(!value),
            }
        }
        ExprKind::Binary { op, lhs, rhs } => {
            let (a, b) = (evaluate(lhs, candidate)?, evaluate(rhs, candidate)?);
            match op {
                BinaryOp::Add => a.checked_add(b),
                BinaryOp::Sub => a.checked_sub(b),
                BinaryOp::Mul => a.checked_mul(b),
                BinaryOp::Div => Some(if b == 0 { 0 } else { a.checked_div(b)? }),
                BinaryOp::Rem => Some(if b == 0 { a } else { a.checked_rem(b)? }),
                BinaryOp::Min => Some(a.min(b)),
                BinaryOp::Max => Some(a.max(b)),
                BinaryOp::Eq => Some(i128::from(a == b)),
                BinaryOp::Ne => Some(i128::from(a != b)),
                BinaryOp::Lt => Some(i128::from(a < b)),
                BinaryOp::Le => Some(i128::from(a <= b)),
                BinaryOp::Gt => Some(i128::from(a > b)),
                BinaryOp::Ge => Some(i128::from(a >= b)),
                BinaryOp::And => Some(i128::from(a != 0 && b != 0)),
                BinaryOp::Or => Some(i128::from(a != 0 || b != 0)),
                BinaryOp::BitAnd => Some(a & b),
                BinaryOp::BitOr => Some(a | b),
                BinaryOp::BitXor => Some(a ^ b),
                BinaryOp::Shl | BinaryOp::Shr => None,
            }
        }
        ExprKind::Cast(operand) => evaluate(operand, candidate),
        _ => None,
    }
}
