//! The launch grid: written with `@grid`, or derived from the kernel's slices.
//!
//! A slice gives axis a of the grid when it starts at `program_id(a) * T` with
//! length T on a dim D (`ceil(D / T)` programs), or takes the point `program_id(a)`
//! on D (D programs). Stores decide; loads are asked for axes that no store gives.
//! All slices that are asked must agree.

use phobos_artifact::GridExpr;

use super::{Checker, operand::Operand, poly::Poly};
use crate::{
    diagnostics::{Code, Diagnostic, count},
    span::Span,
    tree::{self, AttributeArg, ExprKind as Source},
    typed::{Dim, ExprKind, Group},
};

/// A slice of a tensor.
#[derive(Debug)]
pub(super) struct SliceUse {
    pub(super) store: bool,
    pub(super) axes: Vec<AxisUse>,
    pub(super) span: Span,
}

/// One axis of it.
#[derive(Debug)]
pub(super) struct AxisUse {
    /// The extent of the tensor's axis.
    pub(super) dim: Dim,
    /// The point or the start.
    pub(super) at: Poly,
    /// The length; `None` for a point.
    pub(super) extent: Option<Dim>,
}

/// `tensor[...] op= value`
#[derive(Debug)]
pub(super) struct Update {
    /// The program ids that the place or a condition around it depends on, as bits.
    pub(super) programs: u8,
    pub(super) span: Span,
}

impl AxisUse {
    /// The grid axis and its number of programs that this use gives.
    fn gives(&self) -> Option<(u8, GridExpr)> {
        match &self.extent {
            None => Some((self.at.as_program_id()?, expr(&self.dim))),
            Some(extent) => {
                let axis = self.at.as_tile_start(extent)?;
                let count = match extent {
                    Dim::Const(1) => expr(&self.dim),
                    extent => GridExpr::CeilDiv(Box::new(expr(&self.dim)), Box::new(expr(extent))),
                };
                Some((axis, count))
            }
        }
    }
}

fn expr(dim: &Dim) -> GridExpr {
    match dim {
        Dim::Const(value) => GridExpr::Const(*value),
        Dim::Param(name) | Dim::TensorDim(name) => GridExpr::Name(name.clone()),
    }
}

impl Checker<'_> {
    pub(super) fn grid(&mut self, ast: &tree::Kernel) -> Option<[GridExpr; 3]> {
        let written = ast.attributes.iter().find(|attribute| attribute.name.name == "grid");
        match written {
            Some(attribute) => self.written_grid(attribute),
            None => self.derived_grid(ast),
        }
    }

    fn derived_grid(&mut self, ast: &tree::Kernel) -> Option<[GridExpr; 3]> {
        if self.sink.has_errors() {
            // The slice that decides may be the one that is wrong.
            return None;
        }
        let mut grid = [GridExpr::Const(1), GridExpr::Const(1), GridExpr::Const(1)];
        let mut failed = false;
        for (axis, count) in (0u8..).zip(grid.iter_mut()) {
            if self.programs & (1 << axis) == 0 {
                continue;
            }
            let given = |store: bool| -> Vec<(GridExpr, Span)> {
                let slices = self.slices.iter().filter(|slice| slice.store == store);
                slices
                    .flat_map(|slice| slice.axes.iter().map(|axis| (axis, slice.span)))
                    .filter_map(|(axis, span)| axis.gives().map(|(at, count)| (at, count, span)))
                    .filter(|(at, _, _)| *at == axis)
                    .map(|(_, count, span)| (count, span))
                    .collect()
            };
            let mut candidates = given(true);
            if candidates.is_empty() {
                candidates = given(false);
            }
            let span = self.program_span.get(usize::from(axis)).copied().flatten().unwrap_or(ast.name.span);
            let problem = Diagnostic::error(
                Code::GridNotDerived,
                span,
                format!("the number of programs on axis {axis} cannot be derived"),
            );
            let Some((first, first_span)) = candidates.first() else {
                failed = true;
                self.error(
                    problem
                        .label(format!("no slice starts at `program_id({axis}) * T` with length T"))
                        .help(format!("write `@grid(...)` above kernel `{}`", ast.name.name)),
                );
                continue;
            };
            match candidates.iter().find(|(other, _)| other != first) {
                Some((other, other_span)) => {
                    failed = true;
                    self.error(
                        problem
                            .related(*first_span, format!("this slice gives {first}"))
                            .related(*other_span, format!("this slice gives {other}"))
                            .help(format!("write `@grid(...)` above kernel `{}`", ast.name.name)),
                    );
                }
                None => *count = first.clone(),
            }
        }
        (!failed).then_some(grid)
    }

    fn written_grid(&mut self, attribute: &tree::Attribute) -> Option<[GridExpr; 3]> {
        let mut grid = [GridExpr::Const(1), GridExpr::Const(1), GridExpr::Const(1)];
        let form = "write `@grid(ceil(M / T), N)`: one to three expressions";
        if attribute.args.is_empty() || attribute.args.len() > grid.len() || !attribute.constraints.is_empty()
        {
            let message = format!("`@grid` has 1 to 3 arguments, not {}", attribute.args.len());
            return self.fail(Diagnostic::error(Code::BadGrid, attribute.span, message).help(form));
        }
        let mut broken = false;
        for (slot, arg) in grid.iter_mut().zip(&attribute.args) {
            let AttributeArg::Value(value) = arg else {
                let message = "an argument of `@grid` is an expression";
                return self.fail(Diagnostic::error(Code::BadGrid, attribute.span, message).help(form));
            };
            match self.grid_expr(value) {
                Some(count) => *slot = count,
                None => broken = true,
            }
        }
        for axis in attribute.args.len()..3 {
            if self.programs & (1 << axis) != 0 {
                let span = self.program_span.get(axis).copied().flatten().unwrap_or(attribute.span);
                broken = true;
                self.error(
                    Diagnostic::error(Code::BadGrid, span, format!("the kernel reads program_id({axis})"))
                        .related(
                            attribute.span,
                            format!("the grid has {}", count(attribute.args.len(), "axis", "axes")),
                        )
                        .help("add an expression to `@grid`"),
                );
            }
        }
        (!broken).then_some(grid)
    }

    fn grid_expr(&mut self, value: &tree::Expr) -> Option<GridExpr> {
        let problem = |message: &str| {
            Diagnostic::error(Code::BadGrid, value.span, message)
                .help("a grid is made of integers, dims, parameters, `+`, `*` and `ceil(a / b)`")
        };
        match &value.kind {
            Source::Binary { op: tree::BinaryOp::Add, lhs, rhs, .. } => {
                let (a, b) = (self.grid_expr(lhs), self.grid_expr(rhs));
                Some(GridExpr::Add(Box::new(a?), Box::new(b?)))
            }
            Source::Binary { op: tree::BinaryOp::Mul, lhs, rhs, .. } => {
                let (a, b) = (self.grid_expr(lhs), self.grid_expr(rhs));
                Some(GridExpr::Mul(Box::new(a?), Box::new(b?)))
            }
            Source::Call { callee, args } if callee.name == "ceil" && args.len() == 1 => {
                let quotient = args.first().map(|arg| &arg.value.kind);
                let Some(Source::Binary { op: tree::BinaryOp::Div, lhs, rhs, .. }) = quotient else {
                    return self.fail(problem("`ceil` in a grid is of a quotient: `ceil(a / b)`"));
                };
                let (a, b) = (self.grid_expr(lhs), self.grid_expr(rhs));
                Some(GridExpr::CeilDiv(Box::new(a?), Box::new(b?)))
            }
            Source::Binary { op: tree::BinaryOp::Div, .. } => {
                self.fail(problem("a quotient in a grid says how it rounds").help("write `ceil(a / b)`"))
            }
            Source::Int(_) | Source::Name(_) => {
                let operand = self.operand(value)?;
                let found = match &operand {
                    Operand::Int(value, _) => u64::try_from(*value).ok().map(GridExpr::Const),
                    Operand::Expr(expr) => match &expr.kind {
                        ExprKind::Dim(name) | ExprKind::Param(name) => Some(GridExpr::Name(name.clone())),
                        ExprKind::Int(value) => u64::try_from(*value).ok().map(GridExpr::Const),
                        _ => None,
                    },
                    Operand::Float(..) => None,
                };
                match found {
                    Some(found) => Some(found),
                    None => {
                        let message = format!("{} is not known before the launch", operand.describe());
                        self.fail(problem(&message))
                    }
                }
            }
            Source::Error => None,
            _ => self.fail(problem("this is not a grid expression")),
        }
    }

    /// Reports updates that several programs make to one place.
    pub(super) fn shared_updates(&mut self, grid: Option<&[GridExpr; 3]>) {
        let mut several = self.programs;
        for (axis, count) in grid.into_iter().flatten().enumerate() {
            several |= u8::from(*count != GridExpr::Const(1)) << axis;
        }
        for update in std::mem::take(&mut self.updates) {
            let missing: Vec<String> = (0..3)
                .filter(|axis| several & !update.programs & (1 << axis) != 0)
                .map(|axis| format!("program_id({axis})"))
                .collect();
            if !missing.is_empty() {
                self.error(
                    Diagnostic::error(Code::SharedUpdate, update.span, "several programs update this place")
                        .label(format!("it does not depend on {}", missing.join(", ")))
                        .help("give each program its own place, and combine them in a second kernel or in one program"),
                );
            }
        }
    }

    /// `@group(pm, 8)`: pm is bound to a program id in the kernel's body.
    pub(super) fn group(&mut self, attribute: &tree::Attribute, ast: &tree::Kernel) -> Option<Group> {
        let problem =
            Diagnostic::error(Code::BadAttribute, attribute.span, "`@group` takes an axis and a size")
                .help("write `@group(pm, 8)` with `let pm = program_id(...)` in the body");
        let [AttributeArg::Value(axis), AttributeArg::Value(size)] = attribute.args.as_slice() else {
            return self.fail(problem);
        };
        let size = self.constant_int(size, "the size of a group")?;
        let axis = match &axis.kind {
            Source::Int(axis) => Some(*axis),
            Source::Name(name) => ast.body.statements.iter().find_map(|statement| match &statement.kind {
                tree::StmtKind::Let { name: declared, value, .. } if declared.name == *name => {
                    program_axis(value)
                }
                _ => None,
            }),
            _ => None,
        };
        match (axis.and_then(|axis| u8::try_from(axis).ok()), u32::try_from(size)) {
            (Some(axis), Ok(size)) if axis < 3 && size > 0 => Some(Group { axis, size }),
            _ => self.fail(problem),
        }
    }
}

fn program_axis(value: &tree::Expr) -> Option<u64> {
    match &value.kind {
        Source::Call { callee, args } if callee.name == "program_id" => {
            match args.first().map(|arg| &arg.value.kind) {
                Some(Source::Int(axis)) => Some(*axis),
                _ => None,
            }
        }
        _ => None,
    }
}
