//! The conversions that happen without being written, in one place:
//! literals take the type of their use; index and i32 or i64 meet; extents of 1
//! and missing leading axes stretch; a tile of one element is a scalar where one is
//! needed. Everything else is a mismatch.

use phobos_artifact::{DType, Element};

use super::{
    Checker,
    builtin::is_activation,
    operand::{Kind, Operand},
    show::Dims,
};
use crate::{
    diagnostics::{Code, Diagnostic},
    span::Span,
    typed::{AxisIndex, Dim, Expr, ExprKind, TileType, Type},
};

/// How values of a tile become scalars.
pub(super) const THROUGH_MEMORY: &str =
    "compute with tiles, as in `where(c, a, b)`, or store the tile to a tensor and read one element back";
/// How positions come from a tensor.
pub(super) const NO_GATHER: &str = "there is no gather: a position that lies in a tensor is read by itself, as in `X[I[i]]`, in a loop over i";

/// The values of an integer type.
fn range(dtype: DType) -> Option<(i128, i128)> {
    Some(match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::I64 => (i64::MIN.into(), i64::MAX.into()),
        DType::Bool | DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => return None,
    })
}

fn index_like(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// The dims of two tiles together, or the axes (from the last) that do not fit.
pub(super) fn broadcast_dims(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>, usize> {
    let rank = a.len().max(b.len());
    let one = Dim::Const(1);
    let mut dims = Vec::with_capacity(rank);
    for back in (1..=rank).rev() {
        let at = |dims: &[Dim]| dims.len().checked_sub(back).and_then(|at| dims.get(at)).cloned();
        let (x, y) = (at(a).unwrap_or(Dim::Const(1)), at(b).unwrap_or(Dim::Const(1)));
        dims.push(match (x, y) {
            (x, y) if x == y => x,
            (x, y) if y == one => x,
            (x, y) if x == one => y,
            _ => return Err(back),
        });
    }
    Ok(dims)
}

impl Checker<'_> {
    /// A literal as a value of `kind`, or another operand as it is.
    pub(super) fn literal(&mut self, operand: Operand, kind: Kind) -> Option<Expr> {
        match (operand, kind) {
            (Operand::Expr(expr), _) => Some(expr),
            (Operand::Int(value, span), Kind::Index | Kind::Int) => match i64::try_from(value) {
                Ok(value) => Some(Expr { kind: ExprKind::Int(value), ty: Type::Index, span }),
                Err(_) => self.fail(out_of_range(value, "index", span)),
            },
            (Operand::Int(value, span), Kind::Scalar(dtype)) if dtype.is_float() => {
                Some(Expr { kind: ExprKind::Float(value as f64), ty: Type::Scalar(dtype), span })
            }
            (Operand::Int(value, span), Kind::Float) => {
                Some(Expr { kind: ExprKind::Float(value as f64), ty: Type::Scalar(DType::F32), span })
            }
            (Operand::Int(value, span), Kind::Scalar(dtype)) => match (range(dtype), i64::try_from(value)) {
                (Some((low, high)), Ok(small)) if (low..=high).contains(&value) => {
                    Some(Expr { kind: ExprKind::Int(small), ty: Type::Scalar(dtype), span })
                }
                (None, _) => self.fail(
                    Diagnostic::error(Code::TypeMismatch, span, "an integer literal where bool is expected")
                        .help("write `true` or `false`"),
                ),
                _ => self.fail(out_of_range(value, dtype.name(), span)),
            },
            (Operand::Float(value, span), Kind::Float) => {
                Some(Expr { kind: ExprKind::Float(value), ty: Type::Scalar(DType::F32), span })
            }
            (Operand::Float(value, span), Kind::Scalar(dtype)) if dtype.is_float() => {
                Some(Expr { kind: ExprKind::Float(value), ty: Type::Scalar(dtype), span })
            }
            (operand, kind) => {
                let message = format!("{} where {} is expected", operand.describe(), kind.name());
                self.fail(Diagnostic::error(Code::TypeMismatch, operand.span(), message))
            }
        }
    }

    /// An operand whose type nothing decides: literals become index or f32.
    pub(super) fn decide(&mut self, operand: Operand) -> Option<Expr> {
        let kind = operand.kind()?;
        self.literal(operand, kind)
    }

    /// The operands of `what` with one common element and common dims.
    pub(super) fn unify(&mut self, what: &str, span: Span, operands: Vec<Operand>) -> Option<Vec<Expr>> {
        let kind = self.common_kind(what, span, &operands)?;
        let dims = self.common_dims(what, span, &operands)?;
        let mut unified = Vec::with_capacity(operands.len());
        for operand in operands {
            let expr = self.literal(operand, kind)?;
            let expr = cast(expr, kind);
            unified.push(match &dims {
                Some(dims) => stretch(expr, dims),
                None => expr,
            });
        }
        Some(unified)
    }

    fn common_kind(&mut self, what: &str, span: Span, operands: &[Operand]) -> Option<Kind> {
        let mut common: Option<Kind> = None;
        let mut index = None;
        let mut float_literal = false;
        for operand in operands {
            let kind = operand.kind()?;
            match kind {
                Kind::Int => {}
                Kind::Float => float_literal = true,
                Kind::Index => index = Some(operand),
                Kind::Block(format) => {
                    let message = format!("{what} of {}", operand.describe());
                    return self.fail(
                        Diagnostic::error(Code::TypeMismatch, operand.span(), message)
                            .help(format!("decode the {} tile first with a cast: `f32(x)`", format.name)),
                    );
                }
                Kind::Scalar(_) if common.is_none() => common = Some(kind),
                Kind::Scalar(_) if common == Some(kind) => {}
                Kind::Scalar(_) => return self.mismatch(what, span, operands),
            }
        }
        match (common, index) {
            (Some(Kind::Scalar(dtype)), Some(_)) => {
                let tile = operands.iter().any(|o| o.kind() == common && o.dims().is_some());
                match (index_like(dtype), tile) {
                    (false, _) => self.mismatch(what, span, operands),
                    (true, true) => Some(Kind::Scalar(dtype)),
                    (true, false) if float_literal => self.mismatch(what, span, operands),
                    (true, false) => Some(Kind::Index),
                }
            }
            (Some(kind), _) if float_literal && !kind.is_float() => self.mismatch(what, span, operands),
            (Some(kind), _) => Some(kind),
            (None, Some(_)) if float_literal => self.mismatch(what, span, operands),
            (None, Some(_)) => Some(Kind::Index),
            (None, None) => Some(if float_literal { Kind::Scalar(DType::F32) } else { Kind::Index }),
        }
    }

    fn mismatch<T>(&mut self, what: &str, span: Span, operands: &[Operand]) -> Option<T> {
        let types: Vec<String> = operands.iter().map(Operand::describe).collect();
        let kinds: Vec<Kind> = operands.iter().filter_map(Operand::kind).collect();
        let floats: Vec<Kind> =
            kinds.iter().copied().filter(|kind| kind.is_float() && *kind != Kind::Float).collect();
        let wide = floats.iter().max_by_key(|kind| match kind {
            Kind::Scalar(dtype) => dtype.bytes(),
            _ => 0,
        });
        let target = wide.map_or("f32", |kind| kind.name());
        let other = operands.iter().find(|operand| {
            operand
                .kind()
                .is_some_and(|kind| kind.name() != target && !matches!(kind, Kind::Int | Kind::Float))
        });
        let named = other.and_then(|operand| self.short_name(operand)).unwrap_or_else(|| "...".to_owned());
        let help = if kinds.iter().any(|kind| kind.is_bool()) {
            "use `where(c, a, b)` to turn a condition into numbers".to_owned()
        } else if kinds.iter().all(|kind| kind.is_integer()) {
            self.wider_integer(operands)
        } else {
            format!("write a cast: `{target}({named})`")
        };
        let label: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        self.fail(
            Diagnostic::error(Code::TypeMismatch, span, format!("{what} of {}", types.join(" and ")))
                .label(label.join(" and "))
                .help(help),
        )
    }

    /// The casts to the narrowest integer type that holds all values of the operands'.
    fn wider_integer(&self, operands: &[Operand]) -> String {
        let dtypes = operands.iter().filter_map(|operand| match operand.kind()? {
            Kind::Index => Some(DType::I64),
            Kind::Scalar(dtype) => Some(dtype),
            Kind::Int | Kind::Float | Kind::Block(_) => None,
        });
        let ranges: Vec<(i128, i128)> = dtypes.filter_map(range).collect();
        let holds = |dtype: &DType| {
            let holds = |(low, high)| ranges.iter().all(|(least, most)| low <= *least && *most <= high);
            range(*dtype).is_some_and(holds)
        };
        // All that two types span lies in i64: no type of 64 bits is unsigned.
        let integers = [DType::I8, DType::U8, DType::I16, DType::I32, DType::U32, DType::I64];
        let wide = integers.into_iter().find(holds).unwrap_or(DType::I64);
        let casts: Vec<String> = operands
            .iter()
            .filter(|operand| matches!(operand.kind(), Some(Kind::Scalar(dtype)) if dtype != wide))
            .map(|operand| format!("`{wide}({})`", self.short_name(operand).as_deref().unwrap_or("...")))
            .collect();
        let noun = if casts.len() == 1 { "a cast" } else { "casts" };
        format!("write {noun}: {}", casts.join(" and "))
    }

    /// The source form of a value when it is only a name.
    fn short_name(&self, operand: &Operand) -> Option<String> {
        let Operand::Expr(expr) = operand else { return None };
        match &expr.kind {
            ExprKind::Var(id) => self.vars.get(id.0).map(|var| var.name.clone()),
            ExprKind::ScalarParam(id) => self.scalars.get(id.0).map(|scalar| scalar.name.clone()),
            ExprKind::Dim(name) | ExprKind::Param(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn common_dims(&mut self, what: &str, span: Span, operands: &[Operand]) -> Option<Option<Vec<Dim>>> {
        let mut common: Option<Vec<Dim>> = None;
        for dims in operands.iter().filter_map(Operand::dims) {
            common = Some(match common {
                None => dims.to_vec(),
                Some(so_far) => match broadcast_dims(&so_far, dims) {
                    Ok(together) => together,
                    Err(back) => {
                        let types: Vec<String> =
                            operands.iter().filter(|o| o.dims().is_some()).map(Operand::describe).collect();
                        let extent = |dims: &[Dim]| {
                            dims.len().checked_sub(back).and_then(|at| dims.get(at)).map(Dim::to_string)
                        };
                        let (a, b) = (extent(&so_far).unwrap_or_default(), extent(dims).unwrap_or_default());
                        return self.fail(
                            Diagnostic::error(
                                Code::ShapeMismatch,
                                span,
                                format!("{what} of {}", types.join(" and ")),
                            )
                            .label(format!("{} against {}", Dims(&so_far), Dims(dims)))
                            .help(format!("axes meet from the last one: extent {a} does not meet {b}")),
                        );
                    }
                },
            });
        }
        Some(common)
    }

    /// An operand as a value of `target`; `what` names the place for messages.
    pub(super) fn coerce(&mut self, operand: Operand, target: &Type, what: &str) -> Option<Expr> {
        let span = operand.span();
        let (from, to) = (operand.kind()?, Kind::of(target)?);
        let described = operand.describe();
        let named = self.short_name(&operand).unwrap_or_else(|| "...".to_owned());
        let mismatch = |checker: &mut Self, code| {
            let mut diagnostic =
                Diagnostic::error(code, span, format!("{what} is {target}, not {described}"));
            let (a, b) = (Kind::of(target), from);
            if code == Code::TypeMismatch {
                let label = format!("{} where {} is expected", b.name(), a.map_or("", Kind::name));
                diagnostic = diagnostic.label(label);
                match a {
                    Some(Kind::Scalar(dtype)) if !b.is_bool() => {
                        diagnostic = diagnostic.help(format!("write a cast: `{dtype}({named})`"));
                    }
                    Some(Kind::Block(format)) if is_activation(format) => {
                        let value = match b {
                            Kind::Scalar(DType::F32) => named.clone(),
                            _ => format!("f32({named})"),
                        };
                        diagnostic = diagnostic.help(format!("write `quantize({value}, {})`", format.name));
                    }
                    _ => {}
                }
            }
            checker.fail(diagnostic)
        };
        let converts = match (from, to) {
            (Kind::Int | Kind::Float, _) => true,
            (a, b) if a == b => true,
            (Kind::Index, Kind::Scalar(dtype)) => index_like(dtype),
            (Kind::Scalar(dtype), Kind::Index) => index_like(dtype),
            _ => false,
        };
        if !converts {
            return mismatch(self, Code::TypeMismatch);
        }
        let expr = self.literal(operand, to)?;
        match (expr.ty.dims(), target.dims()) {
            (None, None) => Some(cast(expr, to)),
            (Some(_), None) => match self.single_element(expr) {
                Some(expr) => Some(cast(expr, to)),
                None => mismatch(self, Code::ShapeMismatch),
            },
            (None, Some(dims)) => Some(stretch(cast(expr, to), dims)),
            // Blocks do not stretch.
            (Some(from), Some(dims)) if matches!(to, Kind::Block(_)) && from != dims => {
                mismatch(self, Code::ShapeMismatch)
            }
            (Some(from), Some(dims)) => match broadcast_dims(from, dims) {
                Ok(together) if together == dims => Some(stretch(expr, dims)),
                _ => mismatch(self, Code::ShapeMismatch),
            },
        }
    }

    /// The element of a tile that has only one.
    fn single_element(&self, expr: Expr) -> Option<Expr> {
        let Type::Tile(TileType { element: Element::Scalar(dtype), dims }) = &expr.ty else { return None };
        if dims.iter().any(|dim| *dim != Dim::Const(1)) {
            return None;
        }
        let (span, ty) = (expr.span, Type::Scalar(*dtype));
        let zero = AxisIndex::Point(Expr { kind: ExprKind::Int(0), ty: Type::Index, span });
        let slice = vec![zero; dims.len()];
        Some(Expr { kind: ExprKind::TileSlice { tile: Box::new(expr), slice }, ty, span })
    }

    /// An operand as a scalar; a tile of one element is read. `help` is for other tiles.
    pub(super) fn scalar(&mut self, operand: Operand, what: &str, help: &str) -> Option<Operand> {
        match operand {
            Operand::Expr(expr) if expr.ty.dims().is_some() => {
                let (span, ty) = (expr.span, expr.ty.clone());
                match self.single_element(expr) {
                    Some(expr) => Some(Operand::Expr(expr)),
                    None => self.fail(
                        Diagnostic::error(Code::WrongKind, span, format!("{what} is a scalar, not {ty}"))
                            .help(help),
                    ),
                }
            }
            operand => Some(operand),
        }
    }
}

fn out_of_range(value: i128, name: &str, span: Span) -> Diagnostic {
    Diagnostic::error(Code::LiteralOutOfRange, span, format!("{value} does not fit {name}"))
}

/// The expression with elements of `kind`; no node when it has them.
pub(super) fn cast(expr: Expr, kind: Kind) -> Expr {
    if Kind::of(&expr.ty) == Some(kind) {
        return expr;
    }
    let ty = kind.with_dims(expr.ty.dims().map(<[Dim]>::to_vec));
    Expr { span: expr.span, ty, kind: ExprKind::Cast(Box::new(expr)) }
}

/// The expression with `dims`; no node when it has them. The dims must fit.
pub(super) fn stretch(expr: Expr, dims: &[Dim]) -> Expr {
    if expr.ty.dims() == Some(dims) {
        return expr;
    }
    let Some(kind) = Kind::of(&expr.ty) else { return expr };
    let ty = kind.with_dims(Some(dims.to_vec()));
    Expr { span: expr.span, ty, kind: ExprKind::Broadcast(Box::new(expr)) }
}
