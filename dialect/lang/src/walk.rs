//! Walks over the typed tree.

use crate::typed::{AxisIndex, Block, Expr, ExprKind, Stmt, StmtKind};

impl AxisIndex {
    /// The point, or the start of the span.
    pub fn position(&self) -> &Expr {
        match self {
            AxisIndex::Point(at) => at,
            AxisIndex::Span { start, .. } => start,
        }
    }
}

impl Expr {
    /// Calls `f` on each direct operand, in order of evaluation.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Var(_)
            | ExprKind::ScalarParam(_)
            | ExprKind::Dim(_)
            | ExprKind::Param(_)
            | ExprKind::ProgramId(_)
            | ExprKind::Iota { .. } => {}
            ExprKind::Unary { operand, .. }
            | ExprKind::Math { operand, .. }
            | ExprKind::Cast(operand)
            | ExprKind::Decode(operand)
            | ExprKind::Quantize(operand)
            | ExprKind::Broadcast(operand)
            | ExprKind::Reduce { operand, .. }
            | ExprKind::ArgReduce { operand, .. }
            | ExprKind::CumSum { operand, .. }
            | ExprKind::Tril(operand)
            | ExprKind::Transpose(operand)
            | ExprKind::Reshape(operand) => f(operand),
            ExprKind::Binary { lhs, rhs, .. } | ExprKind::Dot { lhs, rhs, .. } => {
                f(lhs);
                f(rhs);
            }
            ExprKind::Fma { a, b, c } => [a, b, c].into_iter().for_each(|operand| f(operand)),
            ExprKind::Select { condition, then, otherwise } => {
                [condition, then, otherwise].into_iter().for_each(|operand| f(operand));
            }
            ExprKind::Load { slice, fill, .. } => {
                slice.iter().for_each(|axis| f(axis.position()));
                fill.iter().for_each(|fill| f(fill));
            }
            ExprKind::TileSlice { tile, slice } => {
                f(tile);
                slice.iter().for_each(|axis| f(axis.position()));
            }
            ExprKind::AtomicAdd { indices, value, .. } => {
                indices.iter().for_each(&mut *f);
                f(value);
            }
        }
    }

    /// Calls `f` on this expression and on everything below it.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(self);
        self.for_each_child(&mut |child| child.walk(f));
    }
}

impl Stmt {
    /// Calls `f` on each expression of the statement itself, not of nested blocks.
    pub fn for_each_expr<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            StmtKind::Let { value, .. } | StmtKind::Assign { value, .. } | StmtKind::Expr(value) => f(value),
            StmtKind::VarInit { value, .. } => value.iter().for_each(f),
            StmtKind::TileInsert { slice, value, .. } | StmtKind::StoreSlice { slice, value, .. } => {
                slice.iter().for_each(|axis| f(axis.position()));
                f(value);
            }
            StmtKind::StorePoint { indices, value, .. } => {
                indices.iter().for_each(&mut *f);
                f(value);
            }
            StmtKind::For { start, end, step, .. } => [start, end, step].into_iter().for_each(f),
            StmtKind::While { condition, .. }
            | StmtKind::If { condition, .. }
            | StmtKind::Assert { condition, .. } => f(condition),
            StmtKind::GridBarrier { .. } => {}
        }
    }
}

impl Block {
    /// Calls `f` on every statement, nested ones included, in source order.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        for statement in &self.statements {
            f(statement);
            match &statement.kind {
                StmtKind::For { body, .. } | StmtKind::While { body, .. } => body.walk(f),
                StmtKind::If { then, otherwise, .. } => {
                    then.walk(f);
                    otherwise.walk(f);
                }
                _ => {}
            }
        }
    }
}
