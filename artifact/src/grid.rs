//! The launch grid as an expression over named dims and parameters.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// How many programs an axis of the grid has, e.g. `ceil(M / 64)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridExpr {
    /// A constant.
    Const(u64),
    /// A named dim or, before specialisation, a parameter.
    Name(String),
    /// Quotient rounded up.
    CeilDiv(Box<GridExpr>, Box<GridExpr>),
    /// Product.
    Mul(Box<GridExpr>, Box<GridExpr>),
    /// Sum.
    Add(Box<GridExpr>, Box<GridExpr>),
}

/// Why a grid expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// A name without a value.
    #[error("the grid uses `{0}`, which has no value")]
    Unbound(String),
    /// A division by zero.
    #[error("the grid divides by zero: {0}")]
    DivisionByZero(String),
    /// The value does not fit 64 bits.
    #[error("the grid overflows: {0}")]
    Overflow(String),
}

impl GridExpr {
    /// The value with `names` bound.
    pub fn eval(&self, names: &BTreeMap<String, u64>) -> Result<u64, GridError> {
        let overflow = || GridError::Overflow(self.to_string());
        match self {
            GridExpr::Const(value) => Ok(*value),
            GridExpr::Name(name) => names.get(name).copied().ok_or_else(|| GridError::Unbound(name.clone())),
            GridExpr::CeilDiv(a, b) => {
                let (a, b) = (a.eval(names)?, b.eval(names)?);
                if b == 0 {
                    return Err(GridError::DivisionByZero(self.to_string()));
                }
                Ok(a.div_ceil(b))
            }
            GridExpr::Mul(a, b) => a.eval(names)?.checked_mul(b.eval(names)?).ok_or_else(overflow),
            GridExpr::Add(a, b) => a.eval(names)?.checked_add(b.eval(names)?).ok_or_else(overflow),
        }
    }

    /// The same expression with the names in `values` replaced by constants.
    pub fn bind(&self, values: &BTreeMap<String, u64>) -> GridExpr {
        let pair = |a: &GridExpr, b: &GridExpr| (Box::new(a.bind(values)), Box::new(b.bind(values)));
        match self {
            GridExpr::Const(value) => GridExpr::Const(*value),
            GridExpr::Name(name) => match values.get(name) {
                Some(value) => GridExpr::Const(*value),
                None => self.clone(),
            },
            GridExpr::CeilDiv(a, b) => {
                let (a, b) = pair(a, b);
                GridExpr::CeilDiv(a, b)
            }
            GridExpr::Mul(a, b) => {
                let (a, b) = pair(a, b);
                GridExpr::Mul(a, b)
            }
            GridExpr::Add(a, b) => {
                let (a, b) = pair(a, b);
                GridExpr::Add(a, b)
            }
        }
    }
}

impl fmt::Display for GridExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GridExpr::Const(value) => write!(f, "{value}"),
            GridExpr::Name(name) => f.write_str(name),
            GridExpr::CeilDiv(a, b) => write!(f, "ceil({a} / {b})"),
            GridExpr::Mul(a, b) => write!(f, "({a} * {b})"),
            GridExpr::Add(a, b) => write!(f, "({a} + {b})"),
        }
    }
}
