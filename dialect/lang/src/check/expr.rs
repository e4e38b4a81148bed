//! Expressions: names, operators, subscripts.

use phobos_artifact::{DType, Element};

use super::{
    Binding, Checker, constant, convert,
    operand::{Kind, Operand},
};
use crate::{
    diagnostics::{Code, Diagnostic, nearest},
    span::Span,
    tree::{self, ExprKind as Source},
    typed::{self, BinaryOp, Dim, Expr, ExprKind, TileType, Type, UnaryOp},
};

/// The words for the kinds of value that a tensor takes the place of.
const READ_TENSOR: &str = "read a part of it: `A[i, j]`, `A[i :+ n, :]`";

impl Checker<'_> {
    /// The value of an expression; literals stay open.
    pub(super) fn operand(&mut self, expr: &tree::Expr) -> Option<Operand> {
        self.deeper(expr.span, |checker| checker.operand_inside(expr))
    }

    fn operand_inside(&mut self, expr: &tree::Expr) -> Option<Operand> {
        let span = expr.span;
        match &expr.kind {
            Source::Int(value) => Some(Operand::Int(i128::from(*value), span)),
            Source::Float(value) => Some(Operand::Float(*value, span)),
            Source::Bool(value) => Some(Operand::Expr(Expr {
                kind: ExprKind::Bool(*value),
                ty: Type::Scalar(DType::Bool),
                span,
            })),
            Source::Text(_) => self.fail(
                Diagnostic::error(Code::WrongKind, span, "a text is not a value")
                    .help("texts stand in `assert(condition, \"text\")`"),
            ),
            Source::Name(name) => self.name(name, span),
            Source::Unary { op, operand } => {
                let operand = self.operand(operand)?;
                self.unary(*op, operand, span)
            }
            Source::Binary { op, lhs, rhs, .. } => {
                let (lhs, rhs) = (self.operand(lhs), self.operand(rhs));
                self.binary(binary_op(*op), op.symbol(), lhs?, rhs?, span)
            }
            Source::Call { callee, args } => self.call(callee, args, span),
            Source::Index { base, subscripts } => self.subscripted(base, subscripts, None, span),
            Source::Else { slice, fill } => match &slice.kind {
                Source::Index { base, subscripts } => self.subscripted(base, subscripts, Some(fill), span),
                _ => self.fail(Diagnostic::error(Code::BadElse, span, "`else` stands behind a slice")),
            },
            Source::List(_) => self.fail(
                Diagnostic::error(Code::WrongKind, span, "a list is not a value")
                    .help("lists of dims stand in `iota`, `reshape` and `broadcast`"),
            ),
            Source::Error => None,
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Option<Operand> {
        match self.lookup(name) {
            Some(Binding::Var(id)) => {
                let variable = self.vars.get(id.0)?;
                let (ty, declared) = (variable.ty.clone(), variable.span);
                // Reported once.
                if self.undefined.remove(&id) {
                    return self.fail(
                        Diagnostic::error(
                            Code::UseBeforeDefinition,
                            span,
                            format!("`{name}` may be read before it has a value"),
                        )
                        .related(declared, "declared here without a value")
                        .help("give it a value where it is declared"),
                    );
                }
                return Some(Operand::Expr(Expr { kind: ExprKind::Var(id), ty, span }));
            }
            Some(Binding::Broken) => return None,
            None => {}
        }
        if let Some(frame) = &self.frame {
            if let Some(dim) = frame.dims.get(name) {
                return Some(dim_value(&dim.clone(), span));
            }
        } else if let Some(found) = self.kernel_name(name, span) {
            return found;
        }
        if let Some(constant) = self.consts.get(name) {
            return constant.clone().map(|operand| operand.at(span));
        }
        if name == "inf" {
            return Some(Operand::Float(f64::INFINITY, span));
        }
        self.unknown_name(name, span)
    }

    /// A name of the kernel's signature.
    fn kernel_name(&mut self, name: &str, span: Span) -> Option<Option<Operand>> {
        if let Some(at) = self.scalars.iter().position(|scalar| scalar.name == name) {
            let ty = Type::Scalar(self.scalars.get(at)?.dtype);
            let kind = ExprKind::ScalarParam(typed::ScalarId(at));
            return Some(Some(Operand::Expr(Expr { kind, ty, span })));
        }
        if self.params.iter().any(|param| param.name == name) {
            return Some(Some(dim_value(&Dim::Param(name.to_owned()), span)));
        }
        if self.dims.iter().any(|dim| dim == name) {
            return Some(Some(dim_value(&Dim::TensorDim(name.to_owned()), span)));
        }
        if self.broken_params.contains(name) {
            return Some(None);
        }
        if self.tensor_named(name).is_some() {
            return Some(
                self.fail(
                    Diagnostic::error(Code::WrongKind, span, format!("`{name}` is a tensor and not a value"))
                        .help(READ_TENSOR),
                ),
            );
        }
        None
    }

    fn unknown_name<T>(&mut self, name: &str, span: Span) -> Option<T> {
        let mut known: Vec<&str> =
            self.scopes.iter().rev().flat_map(|scope| scope.keys()).map(String::as_str).collect();
        match &self.frame {
            Some(frame) => known.extend(frame.dims.keys().map(String::as_str)),
            None => {
                known.extend(self.scalars.iter().map(|scalar| scalar.name.as_str()));
                known.extend(self.params.iter().map(|param| param.name.as_str()));
                known.extend(self.dims.iter().map(String::as_str));
                known.extend(self.tensors.iter().map(|tensor| tensor.name.as_str()));
            }
        }
        known.extend(self.consts.keys());
        let help = match name {
            "break" | "continue" | "pass" => {
                Some("a loop ends by its range, or by the condition of `while`: use `if` inside".to_owned())
            }
            "True" | "False" => Some(format!("write `{}`", name.to_lowercase())),
            _ => nearest(name, known).map(|meant| format!("did you mean `{meant}`?")),
        };
        self.fail(Diagnostic::error(Code::UnknownName, span, format!("unknown name `{name}`")).help_opt(help))
    }

    fn unary(&mut self, op: tree::UnaryOp, operand: Operand, span: Span) -> Option<Operand> {
        let kind = operand.kind()?;
        let (op, fits, wanted) = match op {
            tree::UnaryOp::Neg => (UnaryOp::Neg, kind.is_number(), "a number"),
            tree::UnaryOp::Not => (UnaryOp::Not, kind.is_bool(), "bool"),
            tree::UnaryOp::BitNot => (UnaryOp::BitNot, kind.is_integer(), "an integer"),
        };
        if !fits {
            let symbol = match op {
                UnaryOp::Neg => "-",
                UnaryOp::Not => "!",
                UnaryOp::BitNot => "~",
            };
            let message = format!("`{symbol}` takes {wanted}, not {}", operand.describe());
            let help = match op {
                UnaryOp::Not => Some("compare first: `!(x != 0)`".to_owned()),
                _ => None,
            };
            return self.fail(Diagnostic::error(Code::TypeMismatch, span, message).help_opt(help));
        }
        match (op, operand) {
            (UnaryOp::Neg, Operand::Int(value, _)) => Some(Operand::Int(value.checked_neg()?, span)),
            (UnaryOp::Neg, Operand::Float(value, _)) => Some(Operand::Float(-value, span)),
            (UnaryOp::BitNot, Operand::Int(value, _)) => Some(Operand::Int(!value, span)),
            (op, operand) => {
                let operand = self.decide(operand)?;
                let ty = operand.ty.clone();
                Some(Operand::Expr(Expr {
                    kind: ExprKind::Unary { op, operand: Box::new(operand) },
                    ty,
                    span,
                }))
            }
        }
    }

    /// `lhs op rhs`; `written` is the operator or builtin for messages.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        written: &str,
        lhs: Operand,
        rhs: Operand,
        span: Span,
    ) -> Option<Operand> {
        if let Some(folded) = constant::fold(op, &lhs, &rhs, span) {
            return Some(folded);
        }
        let what = format!("`{written}`");
        let logical = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Eq | BinaryOp::Ne);
        let is_bool = |operand: &Operand| operand.kind().is_some_and(Kind::is_bool);
        if !logical && (is_bool(&lhs) || is_bool(&rhs)) {
            let help = match op {
                BinaryOp::BitAnd => "write `&&`",
                BinaryOp::BitOr => "write `||`",
                _ => "use `where(c, a, b)` to turn a condition into numbers",
            };
            let message = format!("{what} of {} and {}", lhs.describe(), rhs.describe());
            return self.fail(
                Diagnostic::error(Code::TypeMismatch, span, message).label("bool is not a number").help(help),
            );
        }
        // What never fits is said before a cast is asked for that would not help.
        let strict = is_bool(&lhs) || is_bool(&rhs) || !is_float_too(op);
        for operand in [&lhs, &rhs].into_iter().filter(|_| strict) {
            let kind = operand.kind()?;
            if !matches!(kind, Kind::Block(_)) && !takes(op, kind).0 {
                return self.unfit(op, &what, kind, span);
            }
        }
        let unified = self.unify(&what, span, vec![lhs, rhs])?;
        let [lhs, rhs] = <[Expr; 2]>::try_from(unified).ok()?;
        let kind = Kind::of(&lhs.ty)?;
        if !takes(op, kind).0 {
            return self.unfit(op, &what, kind, span);
        }
        let comparison = matches!(
            op,
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
        );
        let ty = match (&lhs.ty, comparison) {
            (Type::Tile(tile), true) => {
                Type::Tile(TileType { element: Element::Scalar(DType::Bool), dims: tile.dims.clone() })
            }
            (_, true) => Type::Scalar(DType::Bool),
            (ty, false) => ty.clone(),
        };
        let kind = ExprKind::Binary { op, lhs: Box::new(lhs), rhs: Box::new(rhs) };
        Some(Operand::Expr(Expr { kind, ty, span }))
    }

    fn unfit<T>(&mut self, op: BinaryOp, what: &str, kind: Kind, span: Span) -> Option<T> {
        let help = match op {
            BinaryOp::And | BinaryOp::Or => Some("compare first: `x != 0`"),
            BinaryOp::Rem if kind.is_float() => Some("write `x - floor(x / y) * y`"),
            _ if kind.is_bool() => Some("use `where(c, a, b)` to turn a condition into numbers"),
            _ => None,
        };
        let message = format!("{what} takes {}, not {}", takes(op, kind).1, kind.name());
        self.fail(Diagnostic::error(Code::TypeMismatch, span, message).help_opt(help.map(str::to_owned)))
    }

    fn subscripted(
        &mut self,
        base: &tree::Expr,
        subscripts: &[tree::Subscript],
        fill: Option<&tree::Expr>,
        span: Span,
    ) -> Option<Operand> {
        if let Source::Name(name) = &base.kind {
            if let Some(tensor) = self.tensor_named(name) {
                return self.load(tensor, subscripts, fill, span).map(Operand::Expr);
            }
            if self.frame.is_none() && self.lookup(name).is_none() && self.broken_params.contains(name) {
                return None;
            }
        }
        if let Some(fill) = fill {
            let diagnostic =
                Diagnostic::error(Code::BadElse, fill.span, "`else` stands behind a slice of a tensor");
            return self.fail(diagnostic.help("use `where` to choose elements of a tile"));
        }
        let tile = self.operand(base)?;
        self.tile_slice(tile, subscripts, span).map(Operand::Expr)
    }

    /// A condition: a `bool` scalar.
    pub(super) fn condition(&mut self, expr: &tree::Expr, what: &str) -> Option<Expr> {
        let operand = self.operand(expr)?;
        let operand = self.scalar(operand, what, convert::THROUGH_MEMORY)?;
        match operand {
            Operand::Expr(expr) if expr.ty == Type::Scalar(DType::Bool) => Some(expr),
            other => {
                let message = format!("{what} is bool, not {}", other.describe());
                self.fail(Diagnostic::error(Code::NotBool, expr.span, message).help("compare with `!= 0`"))
            }
        }
    }

    /// An index: a subscript, a bound of a loop.
    pub(super) fn index(&mut self, expr: &tree::Expr, what: &str) -> Option<Expr> {
        let operand = self.operand(expr)?;
        let help = if what.contains("range") { convert::THROUGH_MEMORY } else { convert::NO_GATHER };
        let operand = self.scalar(operand, what, help)?;
        let kind = operand.kind()?;
        if !kind.is_integer() {
            let message = format!("{what} is an integer, not {}", operand.describe());
            return self.fail(Diagnostic::error(Code::WrongKind, expr.span, message).help("write `i32(x)`"));
        }
        let value = self.literal(operand, Kind::Index)?;
        Some(widened(value))
    }
}

/// Whether an operator takes this kind of operand, and which it takes.
fn takes(op: BinaryOp, kind: Kind) -> (bool, &'static str) {
    match op {
        BinaryOp::And | BinaryOp::Or => (kind.is_bool(), "bool"),
        BinaryOp::Eq | BinaryOp::Ne => (kind.is_bool() || kind.is_number(), "numbers or bool"),
        _ if is_float_too(op) => (kind.is_number(), "numbers"),
        _ => (kind.is_integer(), "integers"),
    }
}

/// Whether an operator of numbers takes floats.
fn is_float_too(op: BinaryOp) -> bool {
    use BinaryOp::{BitAnd, BitOr, BitXor, Rem, Shl, Shr};
    !matches!(op, BitAnd | BitOr | BitXor | Shl | Shr | Rem)
}

/// An integer as an index. Sums, differences and products of i32 and i64 become index
/// arithmetic: in a subscript or a bound they do not wrap, so that the length of
/// `n : n + 8` is 8 whatever n is.
fn widened(expr: Expr) -> Expr {
    let (ty, span) = (Type::Index, expr.span);
    if !matches!(expr.ty, Type::Scalar(DType::I32 | DType::I64)) {
        return convert::cast(expr, Kind::Index);
    }
    match expr.kind {
        ExprKind::Int(value) => Expr { kind: ExprKind::Int(value), ty, span },
        ExprKind::Unary { op: UnaryOp::Neg, operand } => Expr {
            kind: ExprKind::Unary { op: UnaryOp::Neg, operand: Box::new(widened(*operand)) },
            ty,
            span,
        },
        ExprKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), lhs, rhs } => {
            let (lhs, rhs) = (Box::new(widened(*lhs)), Box::new(widened(*rhs)));
            Expr { kind: ExprKind::Binary { op, lhs, rhs }, ty, span }
        }
        kind => convert::cast(Expr { kind, ..expr }, Kind::Index),
    }
}

/// A dim as an index value.
fn dim_value(dim: &Dim, span: Span) -> Operand {
    let kind = match dim {
        Dim::Const(value) => return Operand::Int(i128::from(*value), span),
        Dim::Param(name) => ExprKind::Param(name.clone()),
        Dim::TensorDim(name) => ExprKind::Dim(name.clone()),
    };
    Operand::Expr(Expr { kind, ty: Type::Index, span })
}

pub(super) fn binary_op(op: tree::BinaryOp) -> BinaryOp {
    use tree::BinaryOp as B;
    match op {
        B::Add => BinaryOp::Add,
        B::Sub => BinaryOp::Sub,
        B::Mul => BinaryOp::Mul,
        B::Div => BinaryOp::Div,
        B::Rem => BinaryOp::Rem,
        B::Eq => BinaryOp::Eq,
        B::Ne => BinaryOp::Ne,
        B::Lt => BinaryOp::Lt,
        B::Le => BinaryOp::Le,
        B::Gt => BinaryOp::Gt,
        B::Ge => BinaryOp::Ge,
        B::And => BinaryOp::And,
        B::Or => BinaryOp::Or,
        B::BitAnd => BinaryOp::BitAnd,
        B::BitOr => BinaryOp::BitOr,
        B::BitXor => BinaryOp::BitXor,
        B::Shl => BinaryOp::Shl,
        B::Shr => BinaryOp::Shr,
    }
}
