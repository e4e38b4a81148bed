//! Expressions.

use phobos_artifact::{DType, Element};
use phobos_lang::typed::{BinaryOp, Dim, Expr, ExprKind, ReduceOp, Type, UnaryOp};

use super::{
    Axis, Oracle, Stop, Value, index_binary, place, slice_extents,
    tile::{self, Tile},
};
use crate::number::{self, Kind, Number};

/// The scalar type of an expression's elements.
fn kind_of(ty: &Type) -> Kind {
    match ty {
        Type::Scalar(dtype) => Some(*dtype),
        Type::Tile(ty) => scalar_kind(ty.element),
        Type::Index | Type::Unit => None,
    }
}

/// The type that elements are computed in: blocks decode to f32.
fn scalar_kind(element: Element) -> Kind {
    Some(match element {
        Element::Scalar(dtype) => dtype,
        Element::Block(_) => DType::F32,
    })
}

fn element_of(kind: Kind) -> Element {
    Element::Scalar(kind.unwrap_or(DType::I64))
}

impl Oracle<'_> {
    fn tile(&mut self, expr: &Expr) -> Result<Tile, Stop> {
        match self.eval(expr)? {
            Value::Tile(tile) => Ok(tile),
            Value::Scalar(..) => Err(Stop::Missing("scalar where a tile is")),
        }
    }

    fn number(&mut self, expr: &Expr) -> Result<Number, Stop> {
        match self.eval(expr)? {
            Value::Scalar(_, value) => Ok(value),
            Value::Tile(_) => Err(Stop::Missing("tile where a scalar is")),
        }
    }

    /// The dims of an expression's type.
    fn dims_of(&self, expr: &Expr) -> Result<Vec<usize>, Stop> {
        match &expr.ty {
            Type::Tile(ty) => self.dims(&ty.dims),
            _ => Ok(Vec::new()),
        }
    }

    /// Each lane, or the one scalar, through `value`.
    fn elementwise(
        &mut self,
        expr: &Expr,
        operand: &Expr,
        value: impl Fn(Number) -> Number,
    ) -> Result<Value, Stop> {
        let kind = kind_of(&expr.ty);
        match self.eval(operand)? {
            Value::Scalar(_, operand) => Ok(Value::Scalar(kind, value(operand))),
            Value::Tile(tile) => {
                self.step(tile.lanes.len())?;
                Ok(Value::Tile(tile.map(element_of(kind), value)))
            }
        }
    }

    pub(super) fn eval(&mut self, expr: &Expr) -> Result<Value, Stop> {
        let kind = kind_of(&expr.ty);
        let scalar = |value| Ok(Value::Scalar(kind, value));
        match &expr.kind {
            ExprKind::Int(value) => scalar(Number::Int(*value)),
            ExprKind::Float(value) => {
                scalar(Number::exact(kind.map_or(*value, |dtype| number::round(dtype, *value))))
            }
            ExprKind::Bool(value) => scalar(Number::bool(*value)),
            ExprKind::Var(var) => self.vars[var.0].clone().ok_or(Stop::Missing("value of a variable")),
            ExprKind::ScalarParam(id) => scalar(self.bindings.scalars[id.0]),
            ExprKind::Dim(name) => scalar(Number::Int(self.dim(&Dim::TensorDim(name.clone()))? as i64)),
            ExprKind::Param(name) => scalar(Number::Int(self.dim(&Dim::Param(name.clone()))? as i64)),
            ExprKind::ProgramId(axis) => scalar(Number::Int(self.program[usize::from(*axis)] as i64)),
            ExprKind::Unary { op, operand } => {
                let op = *op;
                self.elementwise(expr, operand, move |value| match (op, value) {
                    (UnaryOp::Neg, value) => number::negate(kind, value),
                    (UnaryOp::Not, value) => number::not(value),
                    (UnaryOp::BitNot, Number::Int(value)) => {
                        Number::Int(number::wrap(kind, !i128::from(value)))
                    }
                    (UnaryOp::BitNot, _) => Number::Unknown,
                })
            }
            ExprKind::Binary { op, lhs, rhs } => self.binary(expr, *op, lhs, rhs),
            ExprKind::Math { op, operand } => {
                let op = *op;
                self.elementwise(expr, operand, move |value| number::math(op, kind, value))
            }
            ExprKind::Fma { a, b, c } => self.fma(expr, a, b, c),
            ExprKind::Select { condition, then, otherwise } => {
                let condition = self.eval(condition)?;
                let (then, otherwise) = (self.eval(then)?, self.eval(otherwise)?);
                select(condition, then, otherwise)
            }
            ExprKind::Cast(operand) => {
                let from = kind_of(&operand.ty);
                self.elementwise(expr, operand, move |value| number::cast(from, kind, value))
            }
            ExprKind::Decode(operand) => {
                let tile = self.tile(operand)?;
                Ok(Value::Tile(tile.map(element_of(kind), |value| value)))
            }
            ExprKind::Quantize(operand) => {
                let Type::Tile(ty) = &expr.ty else { return Err(Stop::Missing("quantized scalar")) };
                let tile = self.tile(operand)?;
                self.step(tile.lanes.len())?;
                quantize(&tile, ty.element)
            }
            ExprKind::Broadcast(operand) => {
                let (dims, value) = (self.dims_of(expr)?, self.eval(operand)?);
                self.step(tile::count(&dims))?;
                Ok(Value::Tile(broadcast(value, dims, element_of(kind))))
            }
            ExprKind::Load { tensor, slice, fill } => {
                let axes = self.axes(slice)?;
                let fill = fill.as_ref().map(|fill| self.number(fill)).transpose()?;
                self.load(tensor.0, &axes, fill, kind)
            }
            ExprKind::TileSlice { tile, slice } => {
                let tile = self.tile(tile)?;
                let axes = self.axes(slice)?;
                tile_slice(&tile, &axes)
            }
            ExprKind::Dot { lhs, rhs, transposed, .. } => {
                let (lhs, rhs) = (self.tile(lhs)?, self.tile(rhs)?);
                let inner = lhs.dims.get(1).copied().unwrap_or(1);
                self.step(tile::count(&self.dims_of(expr)?) * inner)?;
                Ok(Value::Tile(dot(&lhs, &rhs, *transposed, kind)))
            }
            ExprKind::Reduce { op, operand, axis } => {
                let tile = self.tile(operand)?;
                self.step(tile.lanes.len())?;
                Ok(Value::Tile(reduce(&tile, *axis, kind, |values| combine(*op, kind, values))))
            }
            ExprKind::ArgReduce { max, operand, axis } => {
                let tile = self.tile(operand)?;
                self.step(tile.lanes.len())?;
                Ok(Value::Tile(reduce(&tile, *axis, kind, |values| best(values, *max))))
            }
            ExprKind::CumSum { operand, axis } => {
                let tile = self.tile(operand)?;
                self.step(tile.lanes.len() * tile.dims[*axis])?;
                Ok(Value::Tile(cumsum(&tile, *axis, kind)))
            }
            ExprKind::Tril(operand) => {
                let tile = self.tile(operand)?;
                Ok(Value::Tile(Tile::new(tile.element, tile.dims.clone(), tile.valid.clone(), |at| {
                    if at[1] > at[0] { Number::zero(kind) } else { tile.get(at) }
                })))
            }
            ExprKind::Transpose(operand) => {
                let tile = self.tile(operand)?;
                let swapped = |axes: &[usize]| vec![axes[1], axes[0]];
                Ok(Value::Tile(Tile::new(tile.element, swapped(&tile.dims), swapped(&tile.valid), |at| {
                    tile.get(&swapped(at))
                })))
            }
            ExprKind::Reshape(operand) => {
                let (tile, dims) = (self.tile(operand)?, self.dims_of(expr)?);
                reshape(&tile, dims)
            }
            ExprKind::Iota { axis } => {
                let dims = self.dims_of(expr)?;
                self.step(tile::count(&dims))?;
                Ok(Value::Tile(Tile::whole(element_of(kind), dims, |at| Number::Int(at[*axis] as i64))))
            }
            ExprKind::AtomicAdd { .. } => Err(Stop::Missing("atomic_add")),
        }
    }

    fn binary(&mut self, expr: &Expr, op: BinaryOp, lhs: &Expr, rhs: &Expr) -> Result<Value, Stop> {
        let (from, kind) = (kind_of(&lhs.ty), kind_of(&expr.ty));
        match (self.eval(lhs)?, self.eval(rhs)?) {
            (Value::Scalar(None, a), Value::Scalar(None, b)) => {
                Ok(Value::Scalar(kind, index_binary(op, a, b)?))
            }
            (Value::Scalar(_, a), Value::Scalar(_, b)) => {
                Ok(Value::Scalar(kind, number::binary(op, from, a, b)))
            }
            (Value::Tile(a), Value::Tile(b)) => {
                self.step(a.lanes.len())?;
                let mut tile = a.zip(&b, element_of(kind), |a, b| number::binary(op, from, a, b));
                if let (BinaryOp::Add, Some(dtype)) = (op, kind.filter(|dtype| dtype.is_float())) {
                    add_product(&mut tile, &a, &b, dtype);
                }
                Ok(Value::Tile(tile))
            }
            _ => Err(Stop::Missing("operator of a scalar and a tile")),
        }
    }

    fn fma(&mut self, expr: &Expr, a: &Expr, b: &Expr, c: &Expr) -> Result<Value, Stop> {
        let kind = kind_of(&expr.ty);
        let dtype = kind.ok_or(Stop::Missing("fma of indices"))?;
        match (self.eval(a)?, self.eval(b)?, self.eval(c)?) {
            (Value::Scalar(_, a), Value::Scalar(_, b), Value::Scalar(_, c)) => {
                Ok(Value::Scalar(kind, number::fma(dtype, a, b, c)))
            }
            (Value::Tile(a), Value::Tile(b), Value::Tile(c)) => {
                self.step(a.lanes.len())?;
                let valid = tile::meet(&tile::meet(&a.valid, &b.valid), &c.valid);
                Ok(Value::Tile(Tile::new(a.element, a.dims.clone(), valid, |at| {
                    number::fma(dtype, a.get(at), b.get(at), c.get(at))
                })))
            }
            _ => Err(Stop::Missing("fma of scalars and tiles")),
        }
    }

    /// A slice of a tensor. Lanes outside are invalid, or the fill; a scalar outside is 0, or the fill.
    fn load(
        &mut self,
        tensor: usize,
        axes: &[Axis],
        fill: Option<Number>,
        kind: Kind,
    ) -> Result<Value, Stop> {
        let element = self.memory[tensor].element;
        let dims: Vec<usize> = axes.iter().filter_map(|(_, extent)| *extent).collect();
        self.step(tile::count(&dims))?;
        if dims.is_empty() {
            let at: Vec<i64> = axes.iter().map(|(at, _)| *at).collect();
            let value = match self.memory[tensor].place(&at) {
                Some(lane) => self.memory[tensor].read(lane, self.number)?,
                None => fill.unwrap_or(Number::zero(kind)),
            };
            return Ok(Value::Scalar(kind, value));
        }
        let inside = slice_extents(axes, &self.memory[tensor].shape);
        let mut tile = Tile::whole(element, dims.clone(), |_| Number::Unknown);
        for at in tile::positions(&dims) {
            let lane = tile::lane(&dims, &at);
            if !tile::inside(&inside, &at) {
                tile.lanes[lane] = fill.unwrap_or(Number::Unknown);
                continue;
            }
            if let Some(cell) = self.memory[tensor].place(&place(axes, &at)) {
                tile.lanes[lane] = self.memory[tensor].read(cell, self.number)?;
            }
        }
        if fill.is_none() {
            tile.valid = inside;
        }
        Ok(Value::Tile(tile))
    }
}

fn select(condition: Value, then: Value, otherwise: Value) -> Result<Value, Stop> {
    let choose = |condition, a: Number, b: Number| match condition {
        Number::Int(0) => b,
        Number::Int(_) => a,
        _ => a.or(b),
    };
    match (condition, then, otherwise) {
        (Value::Scalar(_, condition), Value::Scalar(kind, a), Value::Scalar(_, b)) => {
            Ok(Value::Scalar(kind, choose(condition, a, b)))
        }
        (Value::Tile(condition), Value::Tile(a), Value::Tile(b)) => {
            let valid = tile::meet(&condition.valid, &tile::meet(&a.valid, &b.valid));
            Ok(Value::Tile(Tile::new(a.element, a.dims.clone(), valid, |at| {
                choose(condition.get(at), a.get(at), b.get(at))
            })))
        }
        _ => Err(Stop::Missing("`where` of scalars and tiles")),
    }
}

/// Axes meet from the last one; an axis of extent 1 stretches, and so does its validity.
fn broadcast(value: Value, dims: Vec<usize>, element: Element) -> Tile {
    let tile = match value {
        Value::Scalar(_, value) => return Tile::whole(element, dims, |_| value),
        Value::Tile(tile) => tile,
    };
    let missing = dims.len() - tile.dims.len();
    let mut valid = dims.clone();
    for (axis, extent) in tile.dims.iter().enumerate() {
        let stretched = *extent == 1 && dims[missing + axis] != 1;
        valid[missing + axis] = match (stretched, tile.valid[axis]) {
            (true, 1) => dims[missing + axis],
            (_, valid) => valid,
        };
    }
    Tile::new(element, dims, valid, |at| {
        let source: Vec<usize> = tile
            .dims
            .iter()
            .zip(&at[missing..])
            .map(|(extent, at)| if *extent == 1 { 0 } else { *at })
            .collect();
        tile.get(&source)
    })
}

fn tile_slice(tile: &Tile, axes: &[Axis]) -> Result<Value, Stop> {
    let dims: Vec<usize> = axes.iter().filter_map(|(_, extent)| *extent).collect();
    if dims.is_empty() {
        return Err(Stop::Missing("element of a tile"));
    }
    let valid = slice_extents(axes, &tile.valid);
    Ok(Value::Tile(Tile::new(tile.element, dims, valid, |at| {
        let place: Vec<usize> = place(axes, at).iter().map(|at| *at as usize).collect();
        tile.get(&place)
    })))
}

/// The same lanes in row-major order. Axes of extent 1 come and go; what was valid of one that
/// goes is kept on the first axis that is left.
fn reshape(tile: &Tile, dims: Vec<usize>) -> Result<Value, Stop> {
    let mut valid = dims.clone();
    if tile.valid != tile.dims {
        let (from, to) = (groups(&tile.dims), groups(&dims));
        if from.len() != to.len() {
            return Err(Stop::Missing("merged axes of a tile that is not whole"));
        }
        let mut emptied = false;
        for ((from_long, from_ones), (to_long, to_ones)) in from.into_iter().zip(to) {
            match (from_long, to_long) {
                (Some(from), Some(to)) if tile.dims[from] == dims[to] => valid[to] = tile.valid[from],
                (None, None) => {}
                _ => return Err(Stop::Missing("merged axes of a tile that is not whole")),
            }
            for (at, axis) in from_ones.iter().enumerate() {
                match to_ones.get(at) {
                    Some(kept) => valid[*kept] = tile.valid[*axis],
                    None => emptied |= tile.valid[*axis] == 0,
                }
            }
        }
        if emptied {
            valid[0] = 0;
        }
    }
    let lanes = dims.clone();
    Ok(Value::Tile(Tile::new(tile.element, dims, valid, |at| tile.lanes[tile::lane(&lanes, at)])))
}

/// Each axis longer than 1 with the axes of extent 1 before it, and those behind the last; from
/// the last axis to the first.
fn groups(dims: &[usize]) -> Vec<(Option<usize>, Vec<usize>)> {
    let mut groups = vec![(None, Vec::new())];
    for (axis, dim) in dims.iter().enumerate().rev() {
        match (*dim, groups.last_mut()) {
            (1, Some((_, ones))) => ones.push(axis),
            _ => groups.push((Some(axis), Vec::new())),
        }
    }
    groups
}

/// Blocks along the last axis by the reference encoder; invalid lanes count as 0.
fn quantize(tile: &Tile, element: Element) -> Result<Value, Stop> {
    let Element::Block(format) = element else { return Err(Stop::Missing("quantize to a scalar")) };
    let mut result = tile.map(element, |_| Number::Unknown);
    for start in (0..tile.lanes.len()).step_by(format.elements) {
        let values: Option<Vec<f32>> = (start..start + format.elements)
            .map(|lane| match tile.lanes[lane] {
                _ if !tile.is_valid(&tile::position(&tile.dims, lane)) => Some(0.0),
                Number::Float { lo, hi } if lo == hi && lo.is_finite() => Some(lo as f32),
                _ => None,
            })
            .collect();
        let block = values.and_then(|values| format.quantize(&values));
        if let Some(values) = block.as_ref().and_then(|block| format.decode(block)) {
            for (lane, value) in values.into_iter().enumerate() {
                result.lanes[start + lane] = Number::exact(value.into());
            }
        }
        result.blocks.push(block);
    }
    Ok(Value::Tile(result))
}

/// What rounding errors of a product with this tile are relative to: the lanes, or for blocks,
/// whose codes are scaled and offset after they are summed, what a scale and an offset of the
/// block can be. Random codes reach a good part of their range in each block.
fn sizes(tile: &Tile) -> Vec<f64> {
    let magnitudes: Vec<f64> = tile.lanes.iter().map(|value| value.magnitude()).collect();
    match tile.element {
        Element::Scalar(_) => magnitudes,
        Element::Block(format) => magnitudes
            .chunks(format.elements)
            .flat_map(|block| {
                let most = block.iter().copied().fold(0.0, f64::max);
                vec![4.0 * most; block.len()]
            })
            .collect(),
    }
}

/// `[M, K]` times `[K, N]`, or `[N, K]` transposed: rows valid in the left, columns valid in the
/// right, and products whose inner position is invalid in one of them left out.
fn dot(lhs: &Tile, rhs: &Tile, transposed: bool, kind: Kind) -> Tile {
    let (column_axis, inner_axis) = if transposed { (0, 1) } else { (1, 0) };
    let dims = vec![lhs.dims[0], rhs.dims[column_axis]];
    let valid = vec![lhs.valid[0], rhs.valid[column_axis]];
    let inner = lhs.valid[1].min(rhs.valid[inner_axis]);
    let (left_sizes, right_sizes) = (sizes(lhs), sizes(rhs));
    let blocks = [lhs, rhs].iter().any(|tile| matches!(tile.element, Element::Block(_)));
    // Half types accumulate in f32, and are rounded once with what is added to them.
    let wide = kind.map(|dtype| if dtype.is_float() { number::wide(dtype) } else { dtype });
    let mut magnitudes = vec![0.0; tile::count(&dims)];
    let whole = dims.clone();
    let mut result = Tile::new(element_of(kind), dims, valid, |at| {
        let mut terms = Vec::with_capacity(inner);
        let mut sizes = Vec::with_capacity(inner);
        for k in 0..inner {
            let left = tile::lane(&lhs.dims, &[at[0], k]);
            let right = if transposed { [at[1], k] } else { [k, at[1]] };
            let right = tile::lane(&rhs.dims, &right);
            terms.push(product(wide, lhs.lanes[left], rhs.lanes[right]));
            sizes.push(left_sizes[left] * right_sizes[right]);
        }
        magnitudes[tile::lane(&whole, at)] = sizes.iter().sum();
        let mut sum = number::sum(wide, &terms, &sizes, true);
        if blocks {
            // Scales are taken out of the sums, and what decoding rounds is not rounded there.
            sum = sum.widened((inner as f64 + 4.0) * number::unit(DType::F32) * sizes.iter().sum::<f64>());
        }
        if wide == kind { sum } else { kind.map_or(sum, |dtype| sum.or(sum.rounded(dtype))) }
    });
    if number::is_float(kind) {
        result.product = Some((inner, magnitudes));
    }
    result
}

/// A product as a sum takes it: unrounded.
fn product(kind: Kind, a: Number, b: Number) -> Number {
    let (Some(x), Some(y)) = (a.ends(), b.ends()) else { return number::binary(BinaryOp::Mul, kind, a, b) };
    let all = [x.0 * y.0, x.0 * y.1, x.1 * y.0, x.1 * y.1];
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if all.iter().any(|value| value.is_nan()) { Number::Unknown } else { Number::between(low, high) }
}

/// A sum with a product may start from the other operand: its roundings are then relative to
/// that as well.
fn add_product(tile: &mut Tile, a: &Tile, b: &Tile, dtype: DType) {
    for (product, other) in [(a, b), (b, a)] {
        let Some((terms, magnitudes)) = &product.product else { continue };
        for (lane, magnitude) in magnitudes.iter().enumerate() {
            let size = magnitude + other.lanes[lane].magnitude();
            let wide = number::wide(dtype);
            if !size.is_finite() {
                continue;
            }
            let step = number::spacing(wide, size);
            let whole =
                |value: Number| value.ends().is_some_and(|(lo, hi)| lo == hi && (lo / step).fract() == 0.0);
            if whole(product.lanes[lane]) && whole(other.lanes[lane]) {
                continue;
            }
            let error = (*terms as f64 + 2.0) * number::unit(wide) * other.lanes[lane].magnitude() * 2.0;
            tile.lanes[lane] =
                tile.lanes[lane].widened(error).or(tile.lanes[lane].widened(error).rounded(dtype));
        }
    }
}

/// One axis combined to extent 1 over its valid lanes, and then valid there.
fn reduce(tile: &Tile, axis: usize, kind: Kind, value: impl Fn(&[Number]) -> Number) -> Tile {
    let (mut dims, mut valid) = (tile.dims.clone(), tile.valid.clone());
    (dims[axis], valid[axis]) = (1, 1);
    Tile::new(element_of(kind), dims, valid, |at| {
        let values: Vec<Number> = (0..tile.valid[axis])
            .map(|along| {
                let mut at = at.to_vec();
                at[axis] = along;
                tile.get(&at)
            })
            .collect();
        value(&values)
    })
}

fn combine(op: ReduceOp, kind: Kind, values: &[Number]) -> Number {
    let fold = |op, identity| values.iter().copied().fold(identity, |a, b| number::binary(op, kind, a, b));
    let (least, greatest) = match kind {
        Some(dtype) if dtype.is_float() => (Number::exact(f64::NEG_INFINITY), Number::exact(f64::INFINITY)),
        kind => {
            let (least, greatest) = number::limits(kind);
            (Number::Int(least), Number::Int(greatest))
        }
    };
    match op {
        ReduceOp::Sum => {
            let sizes: Vec<f64> = values.iter().map(|value| value.magnitude()).collect();
            let sum = number::sum(kind, values, &sizes, false);
            kind.map_or(sum, |dtype| sum.rounded(dtype))
        }
        ReduceOp::Prod => number::product(kind, values),
        ReduceOp::Max => fold_extreme(values, BinaryOp::Max, kind, least),
        ReduceOp::Min => fold_extreme(values, BinaryOp::Min, kind, greatest),
        ReduceOp::Any => fold(BinaryOp::Or, Number::Int(0)),
        ReduceOp::All => fold(BinaryOp::And, Number::Int(1)),
    }
}

fn fold_extreme(values: &[Number], op: BinaryOp, kind: Kind, identity: Number) -> Number {
    values.iter().copied().reduce(|a, b| number::binary(op, kind, a, b)).unwrap_or(identity)
}

/// The position of the greatest or the least: the first of equals, or the first NaN.
fn best(values: &[Number], max: bool) -> Number {
    if values.contains(&Number::Unknown) {
        return Number::Unknown;
    }
    if let Some(at) = values.iter().position(|value| *value == Number::Nan) {
        return Number::Int(at as i64);
    }
    let ends = |value: &Number| match *value {
        Number::Int(value) => (i128::from(value), i128::from(value), true),
        // The order of floats as integers: positive ones by their bits, negative ones mirrored.
        Number::Float { lo, hi } => (ordered(lo), ordered(hi), lo == hi),
        Number::Nan | Number::Unknown => (0, 0, false),
    };
    let mut best: Option<(usize, (i128, i128, bool))> = None;
    for (at, value) in values.iter().enumerate() {
        let (lo, hi, exact) = ends(value);
        let (lo, hi) = if max { (lo, hi) } else { (-hi, -lo) };
        let Some((_, (best_lo, best_hi, best_exact))) = best else {
            best = Some((at, (lo, hi, exact)));
            continue;
        };
        let clear = hi < best_lo || lo > best_hi || exact && best_exact;
        if !clear {
            return Number::Unknown;
        }
        if lo > best_hi {
            best = Some((at, (lo, hi, exact)));
        }
    }
    Number::Int(best.map_or(0, |(at, _)| at as i64))
}

fn ordered(value: f64) -> i128 {
    let bits = i128::from(value.abs().to_bits());
    if value < 0.0 { -bits } else { bits }
}

/// The inclusive sum of the valid lanes up to each.
fn cumsum(tile: &Tile, axis: usize, kind: Kind) -> Tile {
    Tile::new(element_of(kind), tile.dims.clone(), tile.valid.clone(), |at| {
        let values: Vec<Number> = (0..=at[axis])
            .map(|along| {
                let mut at = at.to_vec();
                at[axis] = along;
                tile.get(&at)
            })
            .collect();
        combine(ReduceOp::Sum, kind, &values)
    })
}
