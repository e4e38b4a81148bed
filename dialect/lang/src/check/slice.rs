//! Slices of tensors and tiles, normalised to one entry per axis.

use phobos_artifact::{Contract, Element};

use super::{
    Checker,
    grid::{AxisUse, SliceUse},
    operand::{Kind, Operand},
    show::Dims,
};
use crate::{
    diagnostics::{Code, Diagnostic, count},
    span::Span,
    tree::{self, SubscriptKind},
    typed::{AxisIndex, Dim, Expr, ExprKind, ParamMultiple, TensorId, TileType, Type},
};

/// A slice and the dims of what it takes (`None` when all axes are points).
pub(super) struct Slice {
    pub(super) axes: Vec<AxisIndex>,
    pub(super) dims: Option<Vec<Dim>>,
}

impl Slice {
    /// The type of a slice of something with this element.
    pub(super) fn ty(&self, element: Element) -> Type {
        match (&self.dims, element) {
            (Some(dims), element) => Type::Tile(TileType { element, dims: dims.clone() }),
            (None, element) => Kind::of_element(element).with_dims(None),
        }
    }

    /// The positions when all axes are points.
    pub(super) fn points(self) -> Result<Vec<Expr>, Vec<AxisIndex>> {
        if self.dims.is_some() {
            return Err(self.axes);
        }
        Ok(self
            .axes
            .into_iter()
            .map(|axis| match axis {
                AxisIndex::Point(at) | AxisIndex::Span { start: at, .. } => at,
            })
            .collect())
    }
}

impl Checker<'_> {
    /// A static extent.
    pub(super) fn extent(&mut self, expr: &tree::Expr) -> Option<Dim> {
        let operand = self.operand(expr)?;
        let dim = match &operand {
            Operand::Int(value, _) if *value > 0 => u64::try_from(*value).ok().map(Dim::Const),
            Operand::Int(value, _) => {
                let message = format!("an extent is positive, not {value}");
                return self.fail(Diagnostic::error(Code::DimNotStatic, expr.span, message));
            }
            Operand::Float(..) => None,
            Operand::Expr(value) => self.poly(&value.clone()).and_then(|poly| poly.as_dim()),
        };
        match dim {
            Some(dim) if dim != Dim::Const(0) => {
                self.require(&dim, expr.span);
                Some(dim)
            }
            _ => self.fail(
                Diagnostic::error(Code::DimNotStatic, expr.span, "this extent is not known at compile time")
                    .label(operand.describe())
                    .help("use an integer, a constant, an `@autotune` parameter or a tensor dim"),
            ),
        }
    }

    /// The axes of a subscript list over something with `dims`.
    pub(super) fn slice(
        &mut self,
        what: &str,
        dims: &[Dim],
        subscripts: &[tree::Subscript],
        span: Span,
    ) -> Option<Slice> {
        if subscripts.len() != dims.len() {
            let count = |number| count(number, "axis", "axes");
            return self.fail(
                Diagnostic::error(
                    Code::RankMismatch,
                    span,
                    format!("{what} has {}, this slice has {}", count(dims.len()), count(subscripts.len())),
                )
                .label(format!("dims are {}", Dims(dims)))
                .help("write one subscript per axis; `:` is a whole axis"),
            );
        }
        let mut axes = Vec::with_capacity(dims.len());
        let mut kept = Vec::new();
        let mut broken = false;
        for (subscript, dim) in subscripts.iter().zip(dims) {
            match self.axis(subscript, dim) {
                Some(axis) => {
                    if let AxisIndex::Span { extent, .. } = &axis {
                        kept.push(extent.clone());
                    }
                    axes.push(axis);
                }
                None => broken = true,
            }
        }
        if broken {
            return None;
        }
        if kept.len() > 4 {
            return self.fail(
                Diagnostic::error(Code::BadRank, span, format!("this slice has {} axes", kept.len()))
                    .help("a tile has at most 4; take points on the others"),
            );
        }
        Some(Slice { axes, dims: (!kept.is_empty()).then_some(kept) })
    }

    fn axis(&mut self, subscript: &tree::Subscript, dim: &Dim) -> Option<AxisIndex> {
        match &subscript.kind {
            SubscriptKind::Point(at) => self.index(at, "a subscript").map(AxisIndex::Point),
            SubscriptKind::Span(start, length) => {
                let start = self.index(start, "the start of a slice");
                let extent = self.extent(length);
                Some(AxisIndex::Span { start: start?, extent: extent? })
            }
            SubscriptKind::Full => {
                self.require(dim, subscript.span);
                let start = Expr { kind: ExprKind::Int(0), ty: Type::Index, span: subscript.span };
                Some(AxisIndex::Span { start, extent: dim.clone() })
            }
            SubscriptKind::Range(start, end) => {
                let (from, to) =
                    (self.index(start, "the start of a slice"), self.index(end, "the end of a slice"));
                let (from, to) = (from?, to?);
                let length = match (self.poly(&from), self.poly(&to)) {
                    (Some(from), Some(to)) => to.add(&from, -1),
                    _ => None,
                };
                let constant = length.as_ref().and_then(|length| length.as_constant());
                match length.and_then(|length| length.as_dim()) {
                    Some(extent) if extent != Dim::Const(0) => {
                        self.require(&extent, subscript.span);
                        Some(AxisIndex::Span { start: from, extent })
                    }
                    _ => {
                        let message = match constant {
                            Some(length) => format!("this slice has length {length}"),
                            None => "the length of this slice is not known at compile time".to_owned(),
                        };
                        self.fail(
                            Diagnostic::error(Code::SpanNotStatic, subscript.span, message)
                                .help("write `start :+ n` with a static n"),
                        )
                    }
                }
            }
        }
    }

    /// `tensor[subscripts] else fill`
    pub(super) fn load(
        &mut self,
        id: TensorId,
        subscripts: &[tree::Subscript],
        fill: Option<&tree::Expr>,
        span: Span,
    ) -> Option<Expr> {
        let slice = self.tensor_slice(id, subscripts, span, false);
        let element = self.tensors.get(id.0)?.element;
        if let Some(read) = self.reads.get_mut(id.0) {
            *read = true;
        }
        let fill = match (fill, element) {
            (None, _) => None,
            (Some(fill), Element::Block(format)) => {
                let message = format!("`else` on a slice of {} blocks", format.name);
                return self.fail(
                    Diagnostic::error(Code::NotYet, fill.span, message)
                        .help("decode the slice with `f32(...)` and use `where`"),
                );
            }
            (Some(fill), element) => {
                let value = self.operand(fill)?;
                let ty = Kind::of_element(element).with_dims(None);
                Some(Box::new(self.coerce(value, &ty, "the value behind `else`")?))
            }
        };
        let slice = slice?;
        let ty = slice.ty(element);
        Some(Expr { kind: ExprKind::Load { tensor: id, slice: slice.axes, fill }, ty, span })
    }

    /// A slice of a tensor, noted for the grid and the contracts.
    pub(super) fn tensor_slice(
        &mut self,
        id: TensorId,
        subscripts: &[tree::Subscript],
        span: Span,
        store: bool,
    ) -> Option<Slice> {
        let tensor = self.tensors.get(id.0)?;
        let (name, element, dims) = (tensor.name.clone(), tensor.element, tensor.dims.clone());
        let slice = self.slice(&format!("tensor `{name}`"), &dims, subscripts, span)?;
        if let Element::Block(format) = element {
            self.whole_blocks(format, &dims, &slice, subscripts, span)?;
        }
        let mut axes = Vec::with_capacity(dims.len());
        for (axis, dim) in slice.axes.iter().zip(dims) {
            let at = self.poly(axis.position()).unwrap_or_default();
            axes.push(match axis {
                AxisIndex::Point(_) => AxisUse { dim, at, extent: None },
                AxisIndex::Span { extent, .. } => AxisUse { dim, at, extent: Some(extent.clone()) },
            });
        }
        self.outside(&axes, subscripts);
        self.slices.push(SliceUse { store, axes, span });
        Some(slice)
    }

    /// Warns of positions that lie outside the tensor whatever its sizes are.
    fn outside(&mut self, axes: &[AxisUse], subscripts: &[tree::Subscript]) {
        for (AxisUse { dim, at, .. }, subscript) in axes.iter().zip(subscripts) {
            let Some(start) = at.as_constant() else { continue };
            let beyond = matches!(dim, Dim::Const(extent) if start >= i128::from(*extent));
            if start >= 0 && !beyond {
                continue;
            }
            let message = "this lies outside the tensor as a whole: it reads nothing and writes nothing";
            let from_end = (start < 0)
                .then(|| format!("positions do not count from the end: the last one is `{dim} - 1`"));
            self.error(
                Diagnostic::warning(Code::SliceOutside, subscript.span, message)
                    .label(format!("the axis has extent {dim}"))
                    .help_opt(from_end),
            );
        }
    }

    /// Checks that the last axis is taken in whole blocks.
    fn whole_blocks(
        &mut self,
        format: &'static phobos_artifact::format::Format,
        dims: &[Dim],
        slice: &Slice,
        subscripts: &[tree::Subscript],
        span: Span,
    ) -> Option<()> {
        let of = format.elements as u64;
        let span = subscripts.last().map_or(span, |subscript| subscript.span);
        let dim = dims.last();
        let problem = |message: String| {
            Diagnostic::error(Code::BlockAlignment, span, message)
                .label(format!("a block of {} has {of} elements", format.name))
        };
        let Some(AxisIndex::Span { start, extent }) = slice.axes.last() else {
            let message = format!("one element of a {} tensor", format.name);
            return self
                .fail(problem(message).help("slice whole blocks and decode them: `f32(W[n, k :+ 32])`"));
        };
        let start = self.poly(start).unwrap_or_default();
        let starts = self.multiple(&start, of, dim);
        let lengths = match extent {
            Dim::Const(length) => length.is_multiple_of(of).then(Default::default),
            Dim::Param(name) => Some([name.clone()].into()),
            // A whole axis, which the tensor's contract covers; or the extent of a tile, which
            // is bound when compiling.
            Dim::TensorDim(_) if Some(extent) == dim => Some(Default::default()),
            Dim::TensorDim(name) => Some([name.clone()].into()),
        };
        let (Some(starts), Some(lengths)) = (&starts, &lengths) else {
            let part = if starts.is_none() { "start" } else { "length" };
            let message = format!("the {part} of this slice is not provably a multiple of {of}");
            return self.fail(
                problem(message).help(format!("use multiples of {of}, or of an `@autotune` parameter")),
            );
        };
        for name in starts.union(lengths) {
            self.need_multiple(name, of, span);
        }
        Some(())
    }

    /// Records that a parameter, or a dim that is bound when compiling, is a multiple of `of`.
    pub(super) fn need_multiple(&mut self, name: &str, of: u64, span: Span) {
        if !self.dims.iter().any(|dim| dim == name) {
            self.multiples.push(ParamMultiple { param: name.to_owned(), of, span });
            return;
        }
        let contract = Contract::Multiple { dim: name.to_owned(), of };
        if !self.contracts.contains(&contract) {
            self.contracts.push(contract);
        }
    }

    /// The launch contract of a block-format tensor.
    pub(super) fn block_contract(&mut self, name: &tree::Ident, element: Element, dims: &[Dim]) {
        let Element::Block(format) = element else { return };
        let of = format.elements as u64;
        match dims.last() {
            Some(Dim::TensorDim(dim)) => {
                let contract = Contract::Multiple { dim: dim.clone(), of };
                if !self.contracts.contains(&contract) {
                    self.contracts.push(contract);
                }
            }
            Some(Dim::Param(param)) => {
                self.multiples.push(ParamMultiple { param: param.clone(), of, span: name.span });
            }
            Some(Dim::Const(extent)) if !extent.is_multiple_of(of) => {
                let message =
                    format!("the last dim of `{}` is not whole blocks: {extent} % {of} != 0", name.name);
                self.error(
                    Diagnostic::error(Code::BlockAlignment, name.span, message)
                        .label(format!("a block of {} has {of} elements", format.name)),
                );
            }
            _ => {}
        }
    }

    /// `tile[subscripts]`
    pub(super) fn tile_slice(
        &mut self,
        tile: Operand,
        subscripts: &[tree::Subscript],
        span: Span,
    ) -> Option<Expr> {
        let (Operand::Expr(tile), Some(dims)) = (&tile, tile.dims()) else {
            let message = format!("{} has no axes to slice", tile.describe());
            return self.fail(Diagnostic::error(Code::WrongKind, span, message));
        };
        let dims = dims.to_vec();
        let tile = tile.clone();
        let Type::Tile(TileType { element, .. }) = &tile.ty else { return None };
        if let Element::Block(format) = element {
            let message = format!("a slice of a tile of {} blocks", format.name);
            return self.fail(
                Diagnostic::error(Code::NotYet, span, message)
                    .help("slice the tensor, or decode first: `f32(w)`"),
            );
        }
        let slice = self.slice(&format!("this {}", tile.ty), &dims, subscripts, span)?;
        self.inside(&slice, &dims, subscripts)?;
        let ty = slice.ty(*element);
        Some(Expr { kind: ExprKind::TileSlice { tile: Box::new(tile), slice: slice.axes }, ty, span })
    }

    /// Checks that constant positions lie inside a tile.
    pub(super) fn inside(
        &mut self,
        slice: &Slice,
        dims: &[Dim],
        subscripts: &[tree::Subscript],
    ) -> Option<()> {
        for ((axis, dim), subscript) in slice.axes.iter().zip(dims).zip(subscripts) {
            let Some(start) = self.poly(axis.position()).and_then(|at| at.as_constant()) else { continue };
            let length = match axis {
                AxisIndex::Span { extent: Dim::Const(extent), .. } => i128::from(*extent),
                // At least one, however long.
                AxisIndex::Point(_) | AxisIndex::Span { .. } => 1,
            };
            let beyond = matches!(dim, Dim::Const(extent) if start + length > i128::from(*extent));
            if start < 0 || beyond {
                return self.fail(
                    Diagnostic::error(Code::OutOfBounds, subscript.span, "this lies outside the tile")
                        .label(format!("the axis has extent {dim}")),
                );
            }
        }
        Some(())
    }
}
