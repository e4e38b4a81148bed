//! Matrix products.

use phobos_artifact::{DType, format::Format};

use super::{
    super::{
        Checker, convert,
        operand::{Kind, Operand},
    },
    Argument, Call, decoded, is_activation,
};
use crate::{
    diagnostics::{Code, Diagnostic},
    span::Span,
    tree::{Arg, ExprKind as Source},
    typed::{Expr, ExprKind, Precision},
};

impl Checker<'_> {
    pub(super) fn precision(&mut self, args: &[Arg]) -> Option<Precision> {
        let mut precision = Precision::Operands;
        for arg in args {
            let Some(keyword) = &arg.keyword else { continue };
            if keyword.name != "precision" {
                let message = format!("unknown keyword argument `{}`", keyword.name);
                return self
                    .fail(Diagnostic::error(Code::UnknownKeyword, keyword.span, message).help(
                        "the operands stand in order, without names; the only keyword is `precision`",
                    ));
            }
            precision = match &arg.value.kind {
                Source::Name(name) if name == "tf32" => Precision::Tf32,
                Source::Name(name) if name == "tf32x3" => Precision::Tf32x3,
                Source::Name(name) if name == "f16" => Precision::F16,
                _ => {
                    let message = "a precision is tf32, tf32x3 or f16";
                    return self.fail(
                        Diagnostic::error(Code::BadArgument, arg.value.span, message)
                            .help("without one, operands keep their precision"),
                    );
                }
            };
        }
        Some(precision)
    }

    pub(super) fn dot_operand(&mut self, name: &str, arg: Argument) -> Option<Expr> {
        match self.operand_of(arg)? {
            Operand::Expr(expr) if expr.ty.dims().is_some() => Some(expr),
            other => {
                let message = format!("`{name}` takes tiles, not {}", other.describe());
                self.fail(Diagnostic::error(Code::BadArgument, other.span(), message))
            }
        }
    }

    pub(super) fn dot(&mut self, lhs: Expr, rhs: Expr, transposed: bool, call: &Call<'_>) -> Option<Expr> {
        let Call { span, precision, accumulator, .. } = *call;
        let name = call.info.name;
        let integers = transposed && is_product_of_codes(&lhs, &rhs);
        if !integers {
            self.no_activations(name, &lhs, &rhs, span)?;
        }
        let lhs = if integers { lhs } else { decoded(lhs) };
        // A block format runs along the last axis: the inner one of `dot_t` only.
        let rhs = if transposed { rhs } else { decoded(rhs) };
        let (left, right) = (self.rank_two(name, &lhs), self.rank_two(name, &rhs));
        let ([rows, inner], [first, second]) = (left?, right?);
        let (other, columns) = if transposed { (second, first) } else { (first, second) };
        if inner != other {
            return self.fail(
                Diagnostic::error(
                    Code::ShapeMismatch,
                    span,
                    format!("`{name}` of {} and {}", lhs.ty, rhs.ty),
                )
                .label(format!("inner extents {inner} and {other}"))
                .help(if transposed {
                    "`dot_t(a, b)` takes [M, K] and [N, K]; `dot(a, b)` takes [M, K] and [K, N]"
                } else {
                    "`dot(a, b)` takes [M, K] and [K, N]; `dot_t(a, b)` takes [M, K] and [N, K]"
                }),
            );
        }
        let (a, b) = (Kind::of(&lhs.ty)?, Kind::of(&rhs.ty)?);
        let problem =
            Diagnostic::error(Code::TypeMismatch, span, format!("`{name}` of {} and {}", lhs.ty, rhs.ty))
                .label(format!("{} and {}", a.name(), b.name()));
        let (lhs, rhs, result) = match (a, b) {
            (Kind::Scalar(x), Kind::Block(_)) if x.is_float() && x != DType::F64 => (lhs, rhs, DType::F32),
            (Kind::Block(_), Kind::Block(_)) => (lhs, rhs, DType::F32),
            (Kind::Scalar(x), Kind::Scalar(y)) if x.is_float() && y.is_float() => {
                let common = if x == y {
                    x
                } else if x.bytes() == y.bytes() {
                    DType::F32
                } else if x.bytes() > y.bytes() {
                    x
                } else {
                    y
                };
                let kind = Kind::Scalar(common);
                let result = match common {
                    DType::F16 if accumulator == Some(DType::F16) => DType::F16,
                    DType::F16 | DType::Bf16 => DType::F32,
                    other => other,
                };
                (convert::cast(lhs, kind), convert::cast(rhs, kind), result)
            }
            (Kind::Scalar(x), Kind::Scalar(y)) if x == y && a.is_integer() => {
                let result = match x {
                    DType::I8 | DType::U8 | DType::I16 => DType::I32,
                    other => other,
                };
                (lhs, rhs, result)
            }
            _ => {
                return self
                    .fail(problem.help("both operands are floats, or integers of one type; write a cast"));
            }
        };
        if precision != Precision::Operands && Kind::of(&lhs.ty)? != Kind::Scalar(DType::F32) {
            let message = format!("`precision` lowers f32 operands, and these are {}", a.name());
            return self.fail(Diagnostic::error(Code::BadArgument, span, message).help("remove `precision`"));
        }
        let ty = Kind::Scalar(result).with_dims(Some(vec![rows, columns]));
        let kind = ExprKind::Dot { lhs: Box::new(lhs), rhs: Box::new(rhs), transposed, precision };
        Some(Expr { kind, ty, span })
    }

    /// Checks that no operand is of a format of activations, which serve one kind of
    /// product alone.
    fn no_activations(&mut self, name: &str, lhs: &Expr, rhs: &Expr, span: Span) -> Option<()> {
        let Some(format) = activation_of(lhs).or(activation_of(rhs)) else { return Some(()) };
        let (a, b) = (Kind::of(&lhs.ty)?, Kind::of(&rhs.ty)?);
        self.fail(
            Diagnostic::error(Code::TypeMismatch, span, format!("`{name}` of {} and {}", lhs.ty, rhs.ty))
                .label(format!("{} and {}", a.name(), b.name()))
                .help(format!(
                    "decode the {} tile with `f32(x)`; as it is it meets blocks of weights: `dot_t(x, w)`",
                    format.name
                )),
        )
    }
}

/// The format of activations of a tile's element.
fn activation_of(tile: &Expr) -> Option<&'static Format> {
    match Kind::of(&tile.ty) {
        Some(Kind::Block(format)) if is_activation(format) => Some(format),
        _ => None,
    }
}

/// Whether a `dot_t` multiplies codes: activations by weights, neither decoded.
fn is_product_of_codes(lhs: &Expr, rhs: &Expr) -> bool {
    let weights = matches!(Kind::of(&rhs.ty), Some(Kind::Block(format)) if !is_activation(format));
    weights && activation_of(lhs).is_some()
}
