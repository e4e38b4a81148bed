//! The typing of calls: builtins and casts.

mod dot;
mod effect;
mod quantize;
mod table;

use phobos_artifact::{DType, Element};

pub(super) use quantize::is_activation;
pub(super) use table::is_known;
pub use table::{BUILTINS, BuiltinInfo};
use table::{Builtin, is_cast};

use super::{
    Checker, convert,
    operand::{Kind, Operand},
    show::Dims,
};
use crate::{
    diagnostics::{Code, Diagnostic, nearest},
    span::Span,
    tree::{self, Arg, ExprKind as Source, Ident},
    typed::{Dim, Expr, ExprKind, MathOp, Precision, ReduceOp, TileType, Type},
};

/// An argument, evaluated.
enum Argument {
    Value(Option<Operand>, Span),
    /// A list of dims, and where it stands.
    Dims(Option<(Vec<Dim>, Span)>),
}

/// What the typing of a call needs beside its arguments.
struct Call<'a> {
    info: &'a BuiltinInfo,
    span: Span,
    precision: Precision,
    /// The element of the f16 tile that the value goes straight into.
    accumulator: Option<DType>,
}

impl Checker<'_> {
    pub(super) fn call(&mut self, callee: &Ident, args: &[Arg], span: Span) -> Option<Operand> {
        // An f16 accumulator is asked of a `dot` only, not of the arguments of a call.
        let accumulator = self.accumulator.take();
        let result = self.call_with(callee, args, span, accumulator);
        self.accumulator = accumulator;
        result
    }

    fn call_with(
        &mut self,
        callee: &Ident,
        args: &[Arg],
        span: Span,
        accumulator: Option<DType>,
    ) -> Option<Operand> {
        let name = callee.name.as_str();
        let Some(info) = BUILTINS.iter().find(|info| info.name == name) else {
            if let Some(function) = self.functions.get(name).copied() {
                self.no_keywords(args, name, "")?;
                return self.inline(function, args, span);
            }
            let generics = self.frame.as_ref().map_or(&self.elements, |frame| &frame.elements);
            if is_cast(name) || generics.contains_key(name) {
                return self.cast_call(callee, args, span);
            }
            return self.unknown_function(callee, args);
        };
        let (low, high) = info.arity;
        let positional = args.iter().filter(|arg| arg.keyword.is_none()).count();
        // A keyword that does not exist is no positional argument that is missing.
        let precision = match info.which {
            Builtin::Dot { .. } => self.precision(args)?,
            _ => {
                self.no_keywords(args, name, info.signature)?;
                Precision::Operands
            }
        };
        if positional < low || positional > high {
            return self.wrong_count(info, positional, span);
        }
        match info.which {
            Builtin::AtomicAdd => {
                let value = self.atomic_add(args, span)?;
                return Some(Operand::Expr(self.hoist("atomic_add", value)));
            }
            // Its second argument is no value.
            Builtin::Quantize => return self.quantize(args, span),
            Builtin::Statement => {
                let message = format!("`{name}` has no value");
                return self.fail(
                    Diagnostic::error(Code::WrongKind, span, message)
                        .help("write it as a statement of its own"),
                );
            }
            Builtin::NotYet => {
                let message = format!("`{name}` is not available yet");
                return self.fail(Diagnostic::error(Code::NotYet, span, message));
            }
            _ => {}
        }
        // Arguments are evaluated here and typed in `builtin`, whose frame is large, so
        // that nested calls do not need much stack.
        let values = args.iter().filter(|arg| arg.keyword.is_none());
        let values = values.map(|arg| self.evaluate(info, &arg.value)).collect();
        let call = Call { info, span, precision, accumulator };
        self.builtin(&call, values)
    }

    fn wrong_count(&mut self, info: &BuiltinInfo, count: usize, span: Span) -> Option<Operand> {
        let (name, (low, high)) = (info.name, info.arity);
        let wanted = if low == high { low.to_string() } else { format!("{low} to {high}") };
        let plural = if (low, high) == (1, 1) { "" } else { "s" };
        let message = format!("`{name}` takes {wanted} argument{plural}, not {count}");
        self.fail(
            Diagnostic::error(Code::ArgumentCount, span, message).help(format!("{name}{}", info.signature)),
        )
    }

    fn evaluate(&mut self, info: &BuiltinInfo, arg: &tree::Expr) -> Argument {
        let span = arg.span;
        match &arg.kind {
            Source::List(list)
                if matches!(info.which, Builtin::Reshape | Builtin::Broadcast | Builtin::Iota) =>
            {
                Argument::Dims(self.dims_list(list, span))
            }
            _ => Argument::Value(self.operand(arg), span),
        }
    }

    fn builtin(&mut self, call: &Call<'_>, values: Vec<Argument>) -> Option<Operand> {
        let (name, span) = (call.info.name, call.span);
        let mut values = values.into_iter();
        let (first, second, third) = (values.next()?, values.next(), values.next());
        let expr = match call.info.which {
            Builtin::ProgramId => self.program_id(first, span)?,
            Builtin::Dot { transposed } => {
                let (lhs, rhs) = (self.dot_operand(name, first), self.dot_operand(name, second?));
                self.dot(lhs?, rhs?, transposed, call)?
            }
            Builtin::Math(op) => {
                let operand = self.operand_of(first)?;
                self.math(name, op, operand, span)?
            }
            Builtin::Binary(op) => {
                let (a, b) = (self.operand_of(first), self.operand_of(second?));
                return self.binary(op, name, a?, b?, span);
            }
            Builtin::Where => {
                let (c, a, b) = (self.operand_of(first), self.operand_of(second?), self.operand_of(third?));
                self.choose(c?, a?, b?, span)?
            }
            Builtin::Fma => {
                let (a, b, c) = (self.operand_of(first), self.operand_of(second?), self.operand_of(third?));
                self.fma(vec![a?, b?, c?], span)?
            }
            Builtin::Reduce(op) => {
                let tile = self.tile(name, first)?;
                let axis = self.axis_of(second?, &tile.ty)?;
                self.reduce(name, op, tile, axis, span)?
            }
            Builtin::RowReduce(op) => {
                let tile = self.tile(name, first)?;
                let axis = tile.ty.dims()?.len().saturating_sub(1);
                self.reduce(name, op, tile, axis, span)?
            }
            Builtin::ArgReduce { max } => {
                let tile = self.number_tile(name, first)?;
                let axis = self.axis_of(second?, &tile.ty)?;
                let ty = reduced(&tile.ty, axis, Some(DType::I32))?;
                Expr { kind: ExprKind::ArgReduce { max, operand: Box::new(tile), axis }, ty, span }
            }
            Builtin::CumSum => {
                let tile = self.number_tile(name, first)?;
                let axis = match second {
                    Some(axis) => self.axis_of(axis, &tile.ty)?,
                    None => 0,
                };
                let ty = tile.ty.clone();
                Expr { kind: ExprKind::CumSum { operand: Box::new(tile), axis }, ty, span }
            }
            Builtin::Tril => {
                let tile = self.number_tile(name, first)?;
                self.rank_two(name, &tile)?;
                Expr { ty: tile.ty.clone(), kind: ExprKind::Tril(Box::new(tile)), span }
            }
            Builtin::Transpose => {
                let tile = self.tile(name, first)?;
                let [rows, columns] = self.rank_two(name, &tile)?;
                let ty = Kind::of(&tile.ty)?.with_dims(Some(vec![columns, rows]));
                Expr { kind: ExprKind::Transpose(Box::new(tile)), ty, span }
            }
            Builtin::Flat => {
                let tile = self.tile(name, first)?;
                self.flat(tile, span)?
            }
            Builtin::Reshape => {
                let (tile, dims) = (self.tile(name, first), self.dims_of(second?));
                self.reshape(tile?, dims?, span)?
            }
            Builtin::Broadcast => {
                let (value, dims) = (self.operand_of(first), self.dims_of(second?));
                self.broadcast(value?, dims?, span)?
            }
            Builtin::Iota => {
                let dims = self.dims_of(first)?;
                let ty = Type::Tile(TileType { element: Element::Scalar(DType::I32), dims });
                let axis = self.axis_of(second?, &ty)?;
                Expr { kind: ExprKind::Iota { axis }, ty, span }
            }
            Builtin::Statement | Builtin::AtomicAdd | Builtin::Quantize | Builtin::NotYet => return None,
        };
        Some(Operand::Expr(expr))
    }

    fn operand_of(&mut self, argument: Argument) -> Option<Operand> {
        match argument {
            Argument::Value(operand, _) => operand,
            Argument::Dims(dims) => {
                let (_, span) = dims?;
                let message = "a list is not a value";
                self.fail(Diagnostic::error(Code::WrongKind, span, message))
            }
        }
    }

    fn dims_of(&mut self, argument: Argument) -> Option<Vec<Dim>> {
        match argument {
            Argument::Dims(dims) => dims.map(|(dims, _)| dims),
            Argument::Value(operand, span) => {
                operand?;
                let message = "expected a list of dims";
                self.fail(Diagnostic::error(Code::BadArgument, span, message).help("write `[TILE_M, 1]`"))
            }
        }
    }

    fn flat(&mut self, tile: Expr, span: Span) -> Option<Expr> {
        let Some(count) = one_extent(tile.ty.dims()?) else {
            let message = format!("the elements of {} are not one static extent", tile.ty);
            return self.fail(
                Diagnostic::error(Code::DimNotStatic, span, message)
                    .help("at most one extent may be a parameter, and the others 1"),
            );
        };
        let ty = Kind::of(&tile.ty)?.with_dims(Some(vec![Dim::Const(1), count]));
        Some(Expr { kind: ExprKind::Reshape(Box::new(tile)), ty, span })
    }

    fn broadcast(&mut self, value: Operand, dims: Vec<Dim>, span: Span) -> Option<Expr> {
        let value = self.decide(value)?;
        if let Kind::Block(format) = Kind::of(&value.ty)? {
            return self.blocks("broadcast", format.name, value.span);
        }
        if value.ty == Type::Index {
            let message = "an index has no tile type";
            return self
                .fail(Diagnostic::error(Code::BadArgument, value.span, message).help("write `i32(x)`"));
        }
        let from = value.ty.dims().unwrap_or_default();
        if convert::broadcast_dims(from, &dims).ok().as_deref() != Some(dims.as_slice()) {
            let message = format!("{} does not stretch to {}", value.ty, Dims(&dims));
            return self.fail(Diagnostic::error(Code::ShapeMismatch, span, message));
        }
        Some(Expr { span, ..convert::stretch(value, &dims) })
    }

    /// `form` is what follows the name where the arguments are listed.
    fn no_keywords(&mut self, args: &[Arg], name: &str, form: &str) -> Option<()> {
        match args.iter().find_map(|arg| arg.keyword.as_ref()) {
            None => Some(()),
            Some(keyword) => {
                let message = format!("unknown keyword argument `{}`", keyword.name);
                self.fail(Diagnostic::error(Code::UnknownKeyword, keyword.span, message).help(format!(
                    "arguments of `{name}` stand in order, without names{}",
                    match form {
                        "" => String::new(),
                        form => format!(": {name}{form}"),
                    }
                )))
            }
        }
    }

    fn unknown_function(&mut self, callee: &Ident, args: &[Arg]) -> Option<Operand> {
        for arg in args {
            if !matches!(arg.value.kind, Source::List(_) | Source::Text(_)) {
                self.operand(&arg.value);
            }
        }
        let names = BUILTINS.iter().map(|info| info.name).chain(DType::ALL.iter().map(|dtype| dtype.name()));
        let names = names.chain(self.functions.keys().copied());
        let help = match (callee.name.as_str(), nearest(&callee.name, names)) {
            ("range", _) => "`range` stands in `for i in range(...)`".to_owned(),
            ("matmul" | "mm", _) => "the matrix product is `dot(a, b)`".to_owned(),
            ("not", _) => "negation is `!x`".to_owned(),
            ("pow", _) => "multiply, or write `exp(y * log(x))`".to_owned(),
            ("sin" | "cos" | "tan" | "erf", _) => {
                format!("there is no `{}`; SPEC.md lists the builtins", callee.name)
            }
            ("arange", _) => "`iota([n], 0)` has the positions".to_owned(),
            ("zeros" | "ones" | "full", _) => "a number fills a tile: `var t: tile<f32>[N] = 0.0`".to_owned(),
            (_, Some(meant)) => format!("did you mean `{meant}`?"),
            (_, None) => "SPEC.md lists the builtins".to_owned(),
        };
        let message = format!("unknown function `{}`", callee.name);
        self.fail(Diagnostic::error(Code::UnknownFunction, callee.span, message).help(help))
    }

    fn program_id(&mut self, axis: Argument, span: Span) -> Option<Expr> {
        let axis = self.operand_of(axis)?;
        let axis_span = axis.span();
        match self.constant_int_of(axis, "the axis of `program_id`")? {
            number @ 0..=2 => {
                let number = number as u8;
                self.programs |= 1 << number;
                if let Some(slot) = self.program_span.get_mut(usize::from(number)) {
                    slot.get_or_insert(span);
                }
                Some(Expr { kind: ExprKind::ProgramId(number), ty: Type::Index, span })
            }
            number => {
                let message = format!("a grid has the axes 0, 1 and 2, not {number}");
                self.fail(Diagnostic::error(Code::BadArgument, axis_span, message))
            }
        }
    }

    fn blocks<T>(&mut self, name: &str, format: &str, span: Span) -> Option<T> {
        let message = format!("`{name}` does not take {format} blocks");
        self.fail(
            Diagnostic::error(Code::BadArgument, span, message)
                .help("decode them first with a cast: `f32(x)`"),
        )
    }

    /// An argument that is a tile of scalars.
    fn tile(&mut self, name: &str, arg: Argument) -> Option<Expr> {
        match self.operand_of(arg)? {
            Operand::Expr(expr) if expr.ty.dims().is_some() => match Kind::of(&expr.ty)? {
                Kind::Block(format) => self.blocks(name, format.name, expr.span),
                _ => Some(expr),
            },
            other => {
                let message = format!("`{name}` takes a tile, not {}", other.describe());
                self.fail(Diagnostic::error(Code::BadArgument, other.span(), message))
            }
        }
    }

    fn number_tile(&mut self, name: &str, arg: Argument) -> Option<Expr> {
        let tile = self.tile(name, arg)?;
        if Kind::of(&tile.ty)?.is_number() {
            return Some(tile);
        }
        let message = format!("`{name}` takes a tile of numbers, not {}", tile.ty);
        self.fail(Diagnostic::error(Code::BadArgument, tile.span, message))
    }

    fn rank_two(&mut self, name: &str, tile: &Expr) -> Option<[Dim; 2]> {
        match tile.ty.dims()? {
            [rows, columns] => Some([rows.clone(), columns.clone()]),
            dims => {
                let count = dims.len();
                let message = format!("`{name}` takes a tile of 2 axes, not {count}");
                self.fail(
                    Diagnostic::error(Code::ShapeMismatch, tile.span, message)
                        .label(tile.ty.to_string())
                        .help("`reshape(x, [1, n])` adds an axis"),
                )
            }
        }
    }

    /// An axis number of a tile; negative ones count from the last.
    fn axis_of(&mut self, arg: Argument, ty: &Type) -> Option<usize> {
        let rank = ty.dims()?.len();
        let arg = self.operand_of(arg)?;
        let span = arg.span();
        let number = self.constant_int_of(arg, "an axis")?;
        let counted = if number < 0 { number + rank as i128 } else { number };
        match usize::try_from(counted) {
            Ok(axis) if axis < rank => Some(axis),
            _ => self.fail(
                Diagnostic::error(Code::OutOfBounds, span, format!("there is no axis {number}"))
                    .label(format!("{ty} has {rank}")),
            ),
        }
    }

    fn dims_list(&mut self, list: &[tree::Expr], span: Span) -> Option<(Vec<Dim>, Span)> {
        if list.is_empty() || list.len() > 4 {
            let message = format!("a tile has 1 to 4 axes, not {}", list.len());
            return self.fail(Diagnostic::error(Code::BadRank, span, message));
        }
        let dims: Vec<Option<Dim>> = list.iter().map(|dim| self.extent(dim)).collect();
        Some((dims.into_iter().collect::<Option<Vec<Dim>>>()?, span))
    }

    fn math(&mut self, name: &str, op: MathOp, operand: Operand, span: Span) -> Option<Expr> {
        let at = operand.span();
        let operand = match operand {
            Operand::Int(value, span) if op != MathOp::Abs => Operand::Float(value as f64, span),
            operand => operand,
        };
        let kind = operand.kind()?;
        if let Kind::Block(format) = kind {
            return self.blocks(name, format.name, at);
        }
        if !(kind.is_float() || op == MathOp::Abs && kind.is_integer()) {
            let message = format!("`{name}` takes floats, not {}", operand.describe());
            let help = if kind.is_bool() { "use `where(c, 1.0, 0.0)`" } else { "write a cast: `f32(x)`" };
            return self.fail(Diagnostic::error(Code::BadArgument, at, message).help(help));
        }
        let operand = self.decide(operand)?;
        Some(Expr { ty: operand.ty.clone(), kind: ExprKind::Math { op, operand: Box::new(operand) }, span })
    }

    fn choose(&mut self, condition: Operand, a: Operand, b: Operand, span: Span) -> Option<Expr> {
        if !condition.kind()?.is_bool() {
            let message = format!("the condition of `where` is bool, not {}", condition.describe());
            return self.fail(
                Diagnostic::error(Code::NotBool, condition.span(), message).help("compare with `!= 0`"),
            );
        }
        let (mut a, mut b) = (a, b);
        if condition.dims().is_some() && matches!((&a, &b), (Operand::Int(..), Operand::Int(..))) {
            // There are no index tiles: two integers become i32.
            let kind = Kind::Scalar(DType::I32);
            a = Operand::Expr(self.literal(a, kind)?);
            b = Operand::Expr(self.literal(b, kind)?);
        }
        let unified = self.unify("`where`", span, vec![a, b])?;
        let [then, otherwise] = <[Expr; 2]>::try_from(unified).ok()?;
        let condition = self.decide(condition)?;
        let (conditions, values) = (condition.ty.dims(), then.ty.dims());
        let dims = match (conditions, values) {
            (None, None) => None,
            (Some(dims), None) | (None, Some(dims)) => Some(dims.to_vec()),
            (Some(c), Some(v)) => match convert::broadcast_dims(c, v) {
                Ok(dims) => Some(dims),
                Err(_) => {
                    let message = format!("`where` of {} and {}", condition.ty, then.ty);
                    let label = format!("{} against {}", Dims(c), Dims(v));
                    return self.fail(Diagnostic::error(Code::ShapeMismatch, span, message).label(label));
                }
            },
        };
        let Some(dims) = dims else {
            let ty = then.ty.clone();
            let (condition, then, otherwise) = (Box::new(condition), Box::new(then), Box::new(otherwise));
            return Some(Expr { kind: ExprKind::Select { condition, then, otherwise }, ty, span });
        };
        if then.ty == Type::Index {
            let message = "`where` with a tile condition of index values";
            return self.fail(
                Diagnostic::error(Code::TypeMismatch, span, message)
                    .help("write a cast: `i32(...)` or `f32(...)`"),
            );
        }
        let condition = Box::new(convert::stretch(condition, &dims));
        let then = Box::new(convert::stretch(then, &dims));
        let otherwise = Box::new(convert::stretch(otherwise, &dims));
        let ty = then.ty.clone();
        Some(Expr { kind: ExprKind::Select { condition, then, otherwise }, ty, span })
    }

    fn fma(&mut self, operands: Vec<Operand>, span: Span) -> Option<Expr> {
        let unified = self.unify("`fma`", span, operands)?;
        let [a, b, c] = <[Expr; 3]>::try_from(unified).ok()?;
        if !Kind::of(&a.ty)?.is_float() {
            let message = format!("`fma` takes floats, not {}", a.ty);
            return self.fail(
                Diagnostic::error(Code::BadArgument, span, message).help("integers need no fma: `a * b + c`"),
            );
        }
        let ty = a.ty.clone();
        Some(Expr { kind: ExprKind::Fma { a: Box::new(a), b: Box::new(b), c: Box::new(c) }, ty, span })
    }

    fn reduce(&mut self, name: &str, op: ReduceOp, tile: Expr, axis: usize, span: Span) -> Option<Expr> {
        let logical = matches!(op, ReduceOp::Any | ReduceOp::All);
        if logical != Kind::of(&tile.ty)?.is_bool() {
            let wanted = if logical { "a bool tile" } else { "a tile of numbers" };
            let message = format!("`{name}` takes {wanted}, not {}", tile.ty);
            let help = logical.then(|| "compare first: `any(x != 0, 0)`".to_owned());
            return self.fail(Diagnostic::error(Code::BadArgument, tile.span, message).help_opt(help));
        }
        let ty = reduced(&tile.ty, axis, None)?;
        Some(Expr { kind: ExprKind::Reduce { op, operand: Box::new(tile), axis }, ty, span })
    }

    fn reshape(&mut self, tile: Expr, dims: Vec<Dim>, span: Span) -> Option<Expr> {
        let from = tile.ty.dims()?;
        if factors(from) != factors(&dims) {
            let message = format!("{} cannot become {}", tile.ty, Dims(&dims));
            return self.fail(
                Diagnostic::error(Code::ShapeMismatch, span, message)
                    .help("the numbers of elements must be equal whatever the parameters are"),
            );
        }
        let ty = Kind::of(&tile.ty)?.with_dims(Some(dims));
        Some(Expr { kind: ExprKind::Reshape(Box::new(tile)), ty, span })
    }

    /// `f32(x)`, `T(x)`: a conversion; block formats are decoded.
    fn cast_call(&mut self, callee: &Ident, args: &[Arg], span: Span) -> Option<Operand> {
        self.no_keywords(args, &callee.name, "(x)")?;
        let [arg] = args else {
            let message = format!("`{}` takes 1 argument, not {}", callee.name, args.len());
            return self.fail(
                Diagnostic::error(Code::ArgumentCount, span, message)
                    .help("a cast converts one value: `f32(x)`"),
            );
        };
        let element = self.element(callee);
        let operand = self.operand(&arg.value)?;
        let target = match element? {
            Element::Scalar(dtype) => dtype,
            Element::Block(format) => {
                let message = format!("a cast to {} blocks", format.name);
                let help = match is_activation(format) {
                    true => format!("write `quantize(x, {})`", callee.name),
                    false => "cast to f32 or f16, or quantise on the host".to_owned(),
                };
                return self.fail(Diagnostic::error(Code::NotYet, span, message).help(help));
            }
        };
        let kind = Kind::Scalar(target);
        let fits = match operand {
            Operand::Float(..) => target.is_float(),
            Operand::Int(..) => target != DType::Bool,
            Operand::Expr(_) => true,
        };
        let value = if fits { self.literal(operand, kind)? } else { self.decide(operand)? };
        let value = Expr { span, ..convert::cast(decoded(value), kind) };
        Some(Operand::Expr(value))
    }
}

/// A tile of blocks as f32; anything else as it is.
fn decoded(expr: Expr) -> Expr {
    match &expr.ty {
        Type::Tile(TileType { element: Element::Block(_), dims }) => {
            let ty = Kind::Scalar(DType::F32).with_dims(Some(dims.clone()));
            Expr { span: expr.span, ty, kind: ExprKind::Decode(Box::new(expr)) }
        }
        _ => expr,
    }
}

/// The type of a tile with one axis reduced.
fn reduced(ty: &Type, axis: usize, dtype: Option<DType>) -> Option<Type> {
    let mut dims = ty.dims()?.to_vec();
    *dims.get_mut(axis)? = Dim::Const(1);
    let kind = dtype.map_or_else(|| Kind::of(ty), |dtype| Some(Kind::Scalar(dtype)))?;
    Some(kind.with_dims(Some(dims)))
}

/// The number of elements as a constant and a sorted list of names.
fn factors(dims: &[Dim]) -> Option<(u64, Vec<&Dim>)> {
    let mut constant = 1u64;
    let mut names = Vec::new();
    for dim in dims {
        match dim {
            Dim::Const(value) => constant = constant.checked_mul(*value)?,
            named => names.push(named),
        }
    }
    names.sort();
    Some((constant, names))
}

/// The number of elements as one extent.
fn one_extent(dims: &[Dim]) -> Option<Dim> {
    match factors(dims)? {
        (constant, names) if names.is_empty() => Some(Dim::Const(constant)),
        (1, names) => match names.as_slice() {
            [one] => Some((*one).clone()),
            _ => None,
        },
        _ => None,
    }
}
