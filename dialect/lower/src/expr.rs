//! Expressions.

use melior::ir::ValueLike;
use phobos_artifact::{DType, Element};
use phobos_dialect::{
    Type, Val,
    build::IntegerPredicate,
    types::{Dim, ReduceKind, Tile},
};
use phobos_lang::typed::{self, AxisIndex, Expr, ExprKind, ReduceOp};

use crate::{LowerError, Lowering, Result, dim};

/// How a value of a tile becomes a scalar.
const THROUGH_MEMORY: &str =
    "store the tile to a tensor `S` and read the element back: `S[0 :+ 1] = t`, then `S[0]`";

impl<'c> Lowering<'c, '_> {
    /// The value of an expression.
    pub(crate) fn expr(&mut self, expr: &Expr) -> Result<Val<'c>> {
        let outer = self.builder;
        self.builder = self.at(expr.span);
        let value = self.expr_here(expr);
        self.builder = outer;
        value
    }

    fn expr_here(&mut self, expr: &Expr) -> Result<Val<'c>> {
        let unsupported =
            |what: &str, help| Err(LowerError::Unsupported { what: what.to_owned(), span: expr.span, help });
        let ty = self.ty(&expr.ty)?;
        match &expr.kind {
            ExprKind::Int(number) => Ok(self.builder.integer(ty, *number)?),
            ExprKind::Float(number) => Ok(self.builder.constant(ty, *number)?),
            ExprKind::Bool(value) => Ok(self.builder.integer(ty, i64::from(*value))?),
            ExprKind::Var(var) => self.var(*var),
            ExprKind::ScalarParam(scalar) => self
                .scalars
                .get(scalar.0)
                .copied()
                .ok_or_else(|| LowerError::Internal(format!("scalar {} does not exist", scalar.0))),
            ExprKind::Dim(name) => self.dim_value(name),
            ExprKind::Param(name) => self.param_value(name),
            ExprKind::ProgramId(axis) => {
                let axis = self.builder.i64_attribute(i64::from(*axis));
                Ok(self.builder.value("phobos.program_id", &[], ty, &[("axis", axis)])?)
            }
            ExprKind::Unary { op, operand } => {
                let dtype = scalar_type(&operand.ty);
                let operand = self.expr(operand)?;
                self.unary(*op, operand, dtype)
            }
            ExprKind::Binary { op: typed::BinaryOp::Add, lhs, rhs } if fuses(lhs, rhs) => {
                let acc = self.expr(lhs)?;
                self.dot(rhs, acc)
            }
            ExprKind::Binary { op: typed::BinaryOp::Add, lhs, rhs } if fuses(rhs, lhs) => {
                let acc = self.expr(rhs)?;
                self.dot(lhs, acc)
            }
            ExprKind::Binary { op, lhs, rhs } => {
                let dtype = scalar_type(&lhs.ty);
                let (a, b) = (self.expr(lhs)?, self.expr(rhs)?);
                self.binary(*op, a, b, dtype)
            }
            ExprKind::Math { op, operand } => {
                let dtype = scalar_type(&operand.ty);
                let operand = self.expr(operand)?;
                self.math(*op, operand, dtype)
            }
            ExprKind::Fma { a, b, c } => {
                let operands = [self.expr(a)?, self.expr(b)?, self.expr(c)?];
                Ok(self.builder.value("math.fma", &operands, ty, &[])?)
            }
            ExprKind::Select { condition, then, otherwise } => {
                let (condition, then, otherwise) =
                    (self.expr(condition)?, self.expr(then)?, self.expr(otherwise)?);
                Ok(self.builder.select(condition, then, otherwise)?)
            }
            ExprKind::Cast(operand) => {
                let (from, to) = (scalar_type(&operand.ty), scalar_type(&expr.ty));
                let value = self.expr(operand)?;
                self.cast(value, from, to)
            }
            ExprKind::Decode(operand) => {
                let value = self.expr(operand)?;
                Ok(self.builder.value("phobos.decode", &[value], ty, &[])?)
            }
            ExprKind::Quantize(operand) => {
                let value = self.expr(operand)?;
                Ok(self.builder.value("phobos.quantize", &[value], ty, &[])?)
            }
            ExprKind::Broadcast(operand) => {
                let value = self.expr(operand)?;
                let name = if matches!(operand.ty, typed::Type::Tile(_)) {
                    "phobos.broadcast"
                } else {
                    "phobos.splat"
                };
                Ok(self.builder.value(name, &[value], ty, &[])?)
            }
            ExprKind::Load { tensor, slice, fill } => self.load(*tensor, slice, fill.as_deref(), ty),
            ExprKind::TileSlice { tile, slice } => {
                if !matches!(expr.ty, typed::Type::Tile(_)) {
                    // What reads no element in the text is a tile where a scalar is needed.
                    let what = if tile.span == expr.span {
                        "a tile of one element where a scalar is needed"
                    } else {
                        "reading one element of a tile"
                    };
                    return unsupported(what, Some(THROUGH_MEMORY));
                }
                let tile = self.expr(tile)?;
                let (offsets, full) = self.slice(slice, element_of(tile)?)?;
                let mut operands = vec![tile];
                operands.extend(offsets);
                let value =
                    self.builder.value("phobos.extract", &operands, full.to_type(self.context), &[])?;
                self.without_points(value, slice, ty)
            }
            ExprKind::Dot { .. } => {
                let zero = self.builder.constant(self.element_type(&expr.ty)?, 0.0)?;
                let acc = self.builder.value("phobos.splat", &[zero], ty, &[])?;
                self.dot(expr, acc)
            }
            ExprKind::Reduce { op, operand, axis } => {
                let value = self.expr(operand)?;
                // The dialect's integers compare as signed.
                let (value, wide) = match op {
                    ReduceOp::Max | ReduceOp::Min => self.signed(value, scalar_type(&operand.ty))?,
                    _ => (value, None),
                };
                let kind = reduce_kind(*op).attribute(self.context);
                let axis = self.builder.i64_attribute(*axis as i64);
                let reduced = self.with_element_of(ty, value)?;
                let result = self.builder.value(
                    "phobos.reduce",
                    &[value],
                    reduced,
                    &[("kind", kind), ("axis", axis)],
                )?;
                self.cast(result, wide.or(scalar_type(&expr.ty)), scalar_type(&expr.ty))
            }
            ExprKind::CumSum { operand, axis } => {
                let value = self.expr(operand)?;
                let kind = ReduceKind::Sum.attribute(self.context);
                let axis = self.builder.i64_attribute(*axis as i64);
                Ok(self.builder.value("phobos.scan", &[value], ty, &[("kind", kind), ("axis", axis)])?)
            }
            ExprKind::Tril(operand) => {
                let value = self.expr(operand)?;
                self.tril(value)
            }
            ExprKind::Transpose(operand) => {
                let value = self.expr(operand)?;
                Ok(self.builder.value("phobos.transpose", &[value], ty, &[])?)
            }
            ExprKind::Reshape(operand) => {
                let value = self.expr(operand)?;
                self.reshape(value, ty)
            }
            ExprKind::Iota { axis } => {
                let axis = self.builder.i64_attribute(*axis as i64);
                Ok(self.builder.value("phobos.iota", &[], ty, &[("axis", axis)])?)
            }
            ExprKind::ArgReduce { max, operand, axis } => {
                let value = self.expr(operand)?;
                let (value, _) = self.signed(value, scalar_type(&operand.ty))?;
                let mut attributes = vec![("axis", self.builder.i64_attribute(*axis as i64))];
                if !max {
                    attributes.push(("smallest", self.builder.unit_attribute()));
                }
                Ok(self.builder.value("phobos.arg_reduce", &[value], ty, &attributes)?)
            }
            ExprKind::AtomicAdd { .. } => unsupported("atomic_add", None),
        }
    }

    fn dim_value(&self, name: &str) -> Result<Val<'c>> {
        let attribute = self.builder.string_attribute(name);
        Ok(self.builder.value("phobos.dim", &[], self.builder.index(), &[("name", attribute)])?)
    }

    fn param_value(&self, name: &str) -> Result<Val<'c>> {
        let attribute = self.builder.string_attribute(name);
        Ok(self.builder.value("phobos.param", &[], self.builder.index(), &[("name", attribute)])?)
    }

    /// The offsets of a slice, and the tile it makes with an axis of extent 1 for
    /// every point.
    pub(crate) fn slice(
        &mut self,
        slice: &[AxisIndex],
        element: Type<'c>,
    ) -> Result<(Vec<Val<'c>>, Tile<'c>)> {
        let (mut offsets, mut dims) = (Vec::new(), Vec::new());
        for axis in slice {
            match axis {
                AxisIndex::Point(index) => {
                    offsets.push(self.expr(index)?);
                    dims.push(Dim::Const(1));
                }
                AxisIndex::Span { start, extent } => {
                    offsets.push(self.expr(start)?);
                    dims.push(dim(extent));
                }
            }
        }
        Ok((offsets, Tile::new(dims, element)))
    }

    /// `value` (a tile without the axes of points, or a scalar) in the shape `full`.
    pub(crate) fn with_shape(&self, value: Val<'c>, full: &Tile<'c>) -> Result<Val<'c>> {
        let ty = full.to_type(self.context);
        if Tile::from_type(value.r#type()).is_none() {
            return Ok(self.builder.value("phobos.splat", &[value], ty, &[])?);
        }
        self.reshape(value, ty)
    }

    fn reshape(&self, value: Val<'c>, ty: Type<'c>) -> Result<Val<'c>> {
        if value.r#type() == ty {
            return Ok(value);
        }
        Ok(self.builder.value("phobos.reshape", &[value], ty, &[])?)
    }

    /// A slice without the axes of its points.
    fn without_points(&self, value: Val<'c>, slice: &[AxisIndex], ty: Type<'c>) -> Result<Val<'c>> {
        let points: Vec<String> = slice
            .iter()
            .enumerate()
            .filter(|(_, axis)| matches!(axis, AxisIndex::Point(_)))
            .map(|(number, _)| number.to_string())
            .collect();
        if points.is_empty() {
            return Ok(value);
        }
        let points = self.builder.parsed_attribute(&format!("array<i64: {}>", points.join(", ")))?;
        Ok(self.builder.value("phobos.reshape", &[value], ty, &[("points", points)])?)
    }

    fn load(
        &mut self,
        tensor: typed::TensorId,
        slice: &[AxisIndex],
        fill: Option<&Expr>,
        ty: Type<'c>,
    ) -> Result<Val<'c>> {
        let (tensor, declared) = self.tensor(tensor)?;
        let dims: Vec<Dim> = declared.dims.iter().map(dim).collect();
        let element = crate::element(&self.builder, declared.element);
        let fill = fill.map(|fill| self.expr(fill)).transpose()?;
        let (offsets, full) = self.slice(slice, element)?;
        if Tile::from_type(ty).is_none() {
            return self.load_scalar(tensor, &offsets, &dims, fill, ty);
        }
        let mut operands = vec![tensor];
        operands.extend(&offsets);
        operands.extend(fill);
        let segments = self.builder.segments(&[1, offsets.len(), usize::from(fill.is_some()), 0]);
        let value = self.builder.value("phobos.load", &operands, full.to_type(self.context), &[segments])?;
        self.without_points(value, slice, ty)
    }

    fn load_scalar(
        &self,
        tensor: Val<'c>,
        offsets: &[Val<'c>],
        dims: &[Dim],
        fill: Option<Val<'c>>,
        ty: Type<'c>,
    ) -> Result<Val<'c>> {
        let mut operands = vec![tensor];
        operands.extend(offsets);
        let value = self.builder.value("phobos.load_scalar", &operands, ty, &[])?;
        let Some(fill) = fill else { return Ok(value) };
        let mut inside = self.builder.integer(self.builder.int(1), 1)?;
        for (offset, dim) in offsets.iter().zip(dims) {
            let extent = match dim {
                Dim::Const(extent) => self.builder.index_constant(*extent)?,
                Dim::Name(name) if self.kernel.params.iter().any(|param| param.name == *name) => {
                    self.param_value(name)?
                }
                Dim::Name(name) => self.dim_value(name)?,
            };
            // Unsigned: a negative offset is outside too.
            let here = self.builder.compare_integers(IntegerPredicate::UnsignedLess, *offset, extent)?;
            inside = self.builder.binary("arith.andi", inside, here)?;
        }
        Ok(self.builder.select(inside, value, fill)?)
    }

    /// `acc + dot`, for a [`ExprKind::Dot`] node.
    fn dot(&mut self, dot: &Expr, acc: Val<'c>) -> Result<Val<'c>> {
        let ExprKind::Dot { lhs, rhs, transposed, .. } = &dot.kind else {
            return Err(LowerError::Internal("not a dot".into()));
        };
        let outer = self.builder;
        self.builder = self.at(dot.span);
        // Blocks on the left are activations, whose codes meet those of the weights: the
        // checker has decoded any others.
        let (a, b) = match is_block(&lhs.ty) {
            true => (self.expr(lhs)?, self.expr(rhs)?),
            false => (self.decoded(lhs)?, self.decoded(rhs)?),
        };
        let mut attributes = vec![];
        if *transposed {
            attributes.push(("transposed", self.builder.unit_attribute()));
        }
        let value = self.builder.value("phobos.dot", &[a, b, acc], acc.r#type(), &attributes)?;
        self.builder = outer;
        Ok(value)
    }

    /// A value that compares as its type does when read as a signed integer: u8 and u32
    /// become i32 and i64. The type it has then, if it changed.
    fn signed(&self, value: Val<'c>, scalar: Option<DType>) -> Result<(Val<'c>, Option<DType>)> {
        let wide = match scalar {
            Some(DType::U8) => DType::I32,
            Some(DType::U32) => DType::I64,
            _ => return Ok((value, None)),
        };
        Ok((self.cast(value, scalar, Some(wide))?, Some(wide)))
    }

    /// The tile type `ty` with the element of the tile `value`.
    fn with_element_of(&self, ty: Type<'c>, value: Val<'c>) -> Result<Type<'c>> {
        let tile =
            Tile::from_type(ty).ok_or_else(|| LowerError::Internal("a reduction to a scalar".into()))?;
        Ok(Tile::new(tile.dims, element_of(value)?).to_type(self.context))
    }

    /// An operand of a dot: a tile of a block format is decoded, exactly; u8 becomes i32,
    /// since the dialect's dot widens integers as signed.
    fn decoded(&mut self, operand: &Expr) -> Result<Val<'c>> {
        let value = self.expr(operand)?;
        if scalar_type(&operand.ty) == Some(DType::U8) {
            return self.cast(value, Some(DType::U8), Some(DType::I32));
        }
        let typed::Type::Tile(typed::TileType { element: Element::Block(_), dims }) = &operand.ty else {
            return Ok(value);
        };
        let tile = Tile::new(dims.iter().map(dim).collect(), self.builder.f32());
        Ok(self.builder.value("phobos.decode", &[value], tile.to_type(self.context), &[])?)
    }

    fn tril(&self, value: Val<'c>) -> Result<Val<'c>> {
        let tile =
            Tile::from_type(value.r#type()).ok_or_else(|| LowerError::Internal("tril of a scalar".into()))?;
        let positions = Tile::new(tile.dims.clone(), self.builder.int(32)).to_type(self.context);
        let iota = |axis: i64| {
            self.builder.value("phobos.iota", &[], positions, &[("axis", self.builder.i64_attribute(axis))])
        };
        let (row, column) = (iota(0)?, iota(1)?);
        let condition = Tile::new(tile.dims.clone(), self.builder.int(1)).to_type(self.context);
        let predicate = self.builder.i64_attribute(IntegerPredicate::SignedLessEqual as i64);
        let keep =
            self.builder.value("arith.cmpi", &[column, row], condition, &[("predicate", predicate)])?;
        let zero = self.builder.constant(tile.element, 0.0)?;
        let zeros = self.builder.value("phobos.splat", &[zero], value.r#type(), &[])?;
        Ok(self.builder.select(keep, value, zeros)?)
    }

    fn element_type(&self, ty: &typed::Type) -> Result<Type<'c>> {
        match ty {
            typed::Type::Tile(tile) => Ok(crate::element(&self.builder, tile.element)),
            other => self.ty(other),
        }
    }
}

/// Whether `acc + dot` can start the dot's accumulation at `acc`: the sum is the
/// same but for rounding, and no tile of zeros is needed. (Integer addition is exact.)
fn fuses(acc: &Expr, dot: &Expr) -> bool {
    matches!(dot.kind, ExprKind::Dot { .. }) && !matches!(acc.kind, ExprKind::Dot { .. }) && acc.ty == dot.ty
}

fn element_of<'c>(value: Val<'c>) -> Result<Type<'c>> {
    Tile::from_type(value.r#type())
        .map(|tile| tile.element)
        .ok_or_else(|| LowerError::Internal("a slice of a scalar".into()))
}

fn is_block(ty: &typed::Type) -> bool {
    matches!(ty, typed::Type::Tile(typed::TileType { element: Element::Block(_), .. }))
}

/// The scalar type that decides an operation's meaning; `None` for index.
fn scalar_type(ty: &typed::Type) -> Option<DType> {
    match ty {
        typed::Type::Scalar(dtype)
        | typed::Type::Tile(typed::TileType { element: Element::Scalar(dtype), .. }) => Some(*dtype),
        _ => None,
    }
}

fn reduce_kind(op: ReduceOp) -> ReduceKind {
    match op {
        ReduceOp::Sum => ReduceKind::Sum,
        ReduceOp::Prod => ReduceKind::Prod,
        ReduceOp::Max => ReduceKind::Max,
        ReduceOp::Min => ReduceKind::Min,
        ReduceOp::Any => ReduceKind::Any,
        ReduceOp::All => ReduceKind::All,
    }
}
