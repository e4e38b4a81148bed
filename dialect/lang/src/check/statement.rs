//! Statements: declarations, assignments and stores, loops and branches.

use std::collections::{BTreeMap, BTreeSet};

use phobos_artifact::{DType, Element};

use super::{
    Binding, Body, Checker, VarFacts,
    builtin::is_activation,
    expr::binary_op,
    grid::Update,
    operand::{Kind, Operand},
};
use crate::{
    diagnostics::{Code, Diagnostic, nearest},
    span::Span,
    tree::{self, ExprKind as Source, StmtKind as SourceStmt},
    typed::{Block, Expr, ExprKind, Stmt, StmtKind, TensorId, Type, VarId, VarKind},
};

impl Checker<'_> {
    /// The statements of a block, in the current scope.
    pub(super) fn block_inside(&mut self, block: &tree::Block) -> Block {
        let mut statements = Vec::new();
        self.statements(&block.statements, &mut statements);
        Block { statements }
    }

    pub(super) fn statements(&mut self, source: &[tree::Stmt], out: &mut Vec<Stmt>) {
        for statement in source {
            let outer = std::mem::take(&mut self.pending);
            let kind = self.deeper(statement.span, |checker| checker.statement(statement));
            out.append(&mut self.pending);
            self.pending = outer;
            match kind {
                Some(kind) => out.push(Stmt { kind, span: statement.span }),
                None if std::mem::take(&mut self.dropped) => {}
                None => self.unexplained(statement.span),
            }
        }
    }

    /// Holds the promise that no kernel comes out of a program with a part missing.
    fn unexplained(&mut self, span: Span) {
        if !self.sink.has_errors() && !self.module.broken {
            self.error(
                Diagnostic::error(Code::Internal, span, "this statement was refused without a reason")
                    .help("please report the program"),
            );
        }
    }

    fn scoped_block(&mut self, block: &tree::Block) -> Block {
        self.scopes.push(BTreeMap::new());
        let block = self.block_inside(block);
        self.scopes.pop();
        block
    }

    fn statement(&mut self, statement: &tree::Stmt) -> Option<StmtKind> {
        match &statement.kind {
            SourceStmt::Let { name, ty, value } => {
                let value = self.initial(name, ty.as_ref(), value)?;
                let facts = VarFacts {
                    poly: self.poly(&value),
                    programs: self.programs_of(&value),
                    view: matches!(value.kind, ExprKind::Load { .. } | ExprKind::TileSlice { .. }),
                    ..VarFacts::default()
                };
                let var = self.declare(name, value.ty.clone(), VarKind::Let);
                self.set_facts(var, facts);
                Some(StmtKind::Let { var, value })
            }
            SourceStmt::Var { name, ty, value: Some(value) } => {
                let value = self.initial(name, ty.as_ref(), value)?;
                self.changeable(name, &value.ty)?;
                let programs = self.programs_of(&value);
                let var = self.declare(name, value.ty.clone(), VarKind::Var);
                self.set_facts(var, VarFacts { programs, ..VarFacts::default() });
                Some(StmtKind::VarInit { var, value: Some(value) })
            }
            SourceStmt::Var { name, ty, value: None } => {
                let Some(ty) = ty.as_ref().and_then(|ty| self.type_of(ty)) else {
                    self.bind_name(name, Binding::Broken);
                    return None;
                };
                self.changeable(name, &ty)?;
                let var = self.declare(name, ty, VarKind::Var);
                self.undefined.insert(var);
                Some(StmtKind::VarInit { var, value: None })
            }
            SourceStmt::Assign { target, op, value } => self.assign(target, *op, value, statement.span),
            SourceStmt::For { name, start, end, step, body } => {
                self.for_loop(name, start.as_ref(), end, step.as_ref(), body)
            }
            SourceStmt::While { condition, body } => self.while_loop(condition, body),
            SourceStmt::If { condition, then, otherwise } => self.branch(condition, then, otherwise.as_ref()),
            SourceStmt::Return(_) => {
                let (message, help) = match self.frame {
                    Some(_) => {
                        ("`return` is the last statement of a function", "use `where`, or `if` with a `var`")
                    }
                    None => ("a kernel returns nothing", "store the result to a tensor"),
                };
                self.fail(Diagnostic::error(Code::BadReturn, statement.span, message).help(help))
            }
            SourceStmt::Expr(expr) => self.effect(expr),
            SourceStmt::Error => None,
        }
    }

    /// Checks that a `var` can have this type; binds its name as broken when not.
    fn changeable(&mut self, name: &tree::Ident, ty: &Type) -> Option<()> {
        let Some(Kind::Block(format)) = Kind::of(ty) else { return Some(()) };
        self.bind_name(name, Binding::Broken);
        let message = format!("a `var` of {} blocks", format.name);
        self.fail(
            Diagnostic::error(Code::NotYet, name.span, message)
                .help("blocks do not change: bind them with `let`, or decode them: `f32(x)`"),
        )
    }

    fn set_facts(&mut self, var: VarId, facts: VarFacts) {
        if let Some(slot) = self.facts.get_mut(var.0) {
            *slot = facts;
        }
    }

    /// The first value of a variable; binds its name as broken when there is none.
    fn initial(
        &mut self,
        name: &tree::Ident,
        ty: Option<&tree::TypeExpr>,
        value: &tree::Expr,
    ) -> Option<Expr> {
        let stated = match ty.map(|ty| self.type_of(ty)) {
            None => None,
            Some(Some(ty)) => Some(ty),
            Some(None) => {
                self.operand(value);
                self.bind_name(name, Binding::Broken);
                return None;
            }
        };
        self.accumulator = stated.as_ref().and_then(half_tile);
        let operand = self.operand(value);
        self.accumulator = None;
        let value = operand.and_then(|operand| match &stated {
            Some(ty) => self.coerce(operand, ty, &format!("`{}`", name.name)),
            None => self.decide(operand),
        });
        let value = value.filter(|value| value.ty != Type::Unit);
        if value.is_none() {
            self.bind_name(name, Binding::Broken);
        }
        value
    }

    fn assign(
        &mut self,
        target: &tree::Expr,
        op: Option<tree::BinaryOp>,
        value: &tree::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        match &target.kind {
            Source::Name(name) => self.assign_variable(name, target, op, value, span),
            Source::Index { base, subscripts } => match &base.kind {
                Source::Name(name) => match self.tensor_named(name) {
                    Some(tensor) => self.store(tensor, target, subscripts, op, value, span),
                    None => self.insert(name, base.span, target, subscripts, op, value, span),
                },
                _ => self.bad_target(target, value),
            },
            Source::Error => {
                self.operand(value);
                None
            }
            _ => self.bad_target(target, value),
        }
    }

    fn bad_target(&mut self, target: &tree::Expr, value: &tree::Expr) -> Option<StmtKind> {
        self.operand(value);
        self.fail(
            Diagnostic::error(Code::BadTarget, target.span, "this cannot be assigned")
                .help("assign a variable, `tile[...]` or `tensor[...]`"),
        )
    }

    /// The variable that an assignment to `name` changes.
    fn assignable(&mut self, name: &str, span: Span, sliced: bool) -> Option<VarId> {
        match self.lookup(name) {
            Some(Binding::Broken) => None,
            Some(Binding::Var(id)) => {
                let variable = self.vars.get(id.0)?;
                if variable.kind == VarKind::Var {
                    return Some(id);
                }
                let declared = variable.span;
                let view = self.facts.get(id.0).is_some_and(|facts| facts.view);
                let (what, help) = match variable.kind {
                    VarKind::Loop => ("a loop variable".to_owned(), "copy it: `var i = ...`".to_owned()),
                    _ if view && sliced => (
                        format!("the view `{name}`"),
                        format!(
                            "`var {name} = ...` makes a copy that can be assigned; assign the tensor to store"
                        ),
                    ),
                    _ => (format!("the `let` `{name}`"), format!("declare it as `var {name}`")),
                };
                self.fail(
                    Diagnostic::error(Code::AssignToLet, span, format!("{what} cannot be assigned"))
                        .related(declared, "declared here")
                        .help(help),
                )
            }
            None => self.not_a_variable(name, span),
        }
    }

    fn not_a_variable(&mut self, name: &str, span: Span) -> Option<VarId> {
        let outer = self.frame.is_none();
        let what = if outer && self.scalars.iter().any(|scalar| scalar.name == name) {
            "the parameter"
        } else if outer && self.dims.iter().any(|dim| dim == name) {
            "the dim"
        } else if outer && self.params.iter().any(|param| param.name == name) {
            "the `@autotune` parameter"
        } else if self.consts.contains_key(name) {
            "the constant"
        } else if self.tensor_named(name).is_some() {
            let message = format!("the tensor `{name}` cannot be assigned as a whole");
            return self.fail(
                Diagnostic::error(Code::AssignToParameter, span, message)
                    .help(format!("store to a slice: `{name}[...] = ...`")),
            );
        } else if outer && self.broken_params.contains(name) {
            return None;
        } else {
            let variables: Vec<&str> =
                self.scopes.iter().flat_map(|scope| scope.keys()).map(String::as_str).collect();
            let help = match nearest(name, variables) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("declare it: `var {name} = ...`"),
            };
            let message = format!("unknown name `{name}`");
            return self.fail(Diagnostic::error(Code::UnknownName, span, message).help(help));
        };
        self.fail(
            Diagnostic::error(Code::AssignToParameter, span, format!("{what} `{name}` cannot be assigned"))
                .help(format!("copy it: `var x = {name}`")),
        )
    }

    fn assign_variable(
        &mut self,
        name: &str,
        target: &tree::Expr,
        op: Option<tree::BinaryOp>,
        value: &tree::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let Some(var) = self.assignable(name, target.span, false) else {
            self.operand(value);
            return None;
        };
        let ty = self.vars.get(var.0)?.ty.clone();
        let old = match op {
            Some(_) => self.operand(target),
            None => None,
        };
        // Whatever is wrong with the value, the variable has one from here.
        self.undefined.remove(&var);
        self.accumulator = half_tile(&ty);
        let new = self.operand(value);
        self.accumulator = None;
        if op.is_some() && old.is_none() {
            return None;
        }
        let new = self.updated(old, op, new?, span)?;
        let value = self.coerce(new, &ty, &format!("`{name}`"))?;
        self.assigned(var, &value, false);
        Some(StmtKind::Assign { var, value })
    }

    /// `old op new`, or `new` of a plain assignment.
    fn updated(
        &mut self,
        old: Option<Operand>,
        op: Option<tree::BinaryOp>,
        new: Operand,
        span: Span,
    ) -> Option<Operand> {
        match (old, op) {
            (Some(old), Some(op)) => self.binary(binary_op(op), &format!("{}=", op.symbol()), old, new, span),
            _ => Some(new),
        }
    }

    /// Notes that a variable changes.
    fn assigned(&mut self, var: VarId, value: &Expr, partly: bool) {
        self.clock += 1;
        let programs = self.programs_of(value);
        if let Some(facts) = self.facts.get_mut(var.0) {
            facts.programs |= programs;
        }
        self.undefined.remove(&var);
        for body in self.bodies.iter_mut().filter(|body| var.0 < body.first) {
            body.assigned.insert(var);
            if partly {
                body.partly.insert(var);
            }
        }
    }

    /// `tile[subscripts] op= value`
    #[allow(clippy::too_many_arguments)]
    fn insert(
        &mut self,
        name: &str,
        name_span: Span,
        target: &tree::Expr,
        subscripts: &[tree::Subscript],
        op: Option<tree::BinaryOp>,
        value: &tree::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        let Some(var) = self.assignable(name, name_span, true) else {
            self.operand(value);
            return None;
        };
        let ty = self.vars.get(var.0)?.ty.clone();
        let Type::Tile(tile) = &ty else {
            let message = format!("`{name}` is {ty} and has no axes to slice");
            return self.fail(Diagnostic::error(Code::WrongKind, target.span, message));
        };
        let slice = self.slice(&format!("`{name}`"), &tile.dims, subscripts, target.span);
        let whole = match op {
            Some(_) => self.operand(&tree::Expr { kind: Source::Name(name.to_owned()), span: name_span }),
            None => None,
        };
        let new = self.operand(value);
        let slice = slice?;
        self.inside(&slice, &tile.dims, subscripts)?;
        let part = slice.ty(tile.element);
        let old = match (op, whole) {
            (None, _) => None,
            (Some(_), Some(Operand::Expr(tile))) => {
                let kind = ExprKind::TileSlice { tile: Box::new(tile), slice: slice.axes.clone() };
                Some(Operand::Expr(Expr { kind, ty: part.clone(), span: target.span }))
            }
            (Some(_), _) => return None,
        };
        let new = self.updated(old, op, new?, span)?;
        let value = self.coerce(new, &part, "the assigned part")?;
        self.assigned(var, &value, true);
        Some(StmtKind::TileInsert { var, slice: slice.axes, value })
    }

    /// `tensor[subscripts] op= value`
    fn store(
        &mut self,
        id: TensorId,
        target: &tree::Expr,
        subscripts: &[tree::Subscript],
        op: Option<tree::BinaryOp>,
        value: &tree::Expr,
        span: Span,
    ) -> Option<StmtKind> {
        if let Some(written) = self.writes.get_mut(id.0) {
            *written = true;
        }
        let element = self.tensors.get(id.0)?.element;
        let name = self.tensors.get(id.0)?.name.clone();
        let slice = self.tensor_slice(id, subscripts, target.span, true);
        if let (Some(_), Some(read)) = (op, self.reads.get_mut(id.0)) {
            *read = true;
        }
        let new = self.operand(value);
        if let Element::Block(format) = element {
            if !is_activation(format) {
                let message = format!("a store to a tensor of {} blocks", format.name);
                return self.fail(
                    Diagnostic::error(Code::NotYet, span, message).help("quantise on the host, or store f16"),
                );
            }
            if let Some(op) = op {
                let message = format!("`{}=` into a tensor of {} blocks", op.symbol(), format.name);
                return self.fail(
                    Diagnostic::error(Code::TypeMismatch, span, message)
                        .help(format!("compute in f32 and store `quantize(x, {})`", format.name)),
                );
            }
        }
        let slice = slice?;
        if op.is_some() {
            let programs = slice
                .axes
                .iter()
                .map(|axis| self.programs_of(axis.position()))
                .fold(self.guards, |a, b| a | b);
            self.updates.push(Update { programs, span });
        }
        let part = slice.ty(element);
        let old = op.map(|_| {
            let kind = ExprKind::Load { tensor: id, slice: slice.axes.clone(), fill: None };
            Operand::Expr(Expr { kind, ty: part.clone(), span: target.span })
        });
        let new = self.updated(old, op, new?, span)?;
        let value = self.coerce(new, &part, &format!("this part of `{name}`"))?;
        Some(match slice.points() {
            Ok(indices) => StmtKind::StorePoint { tensor: id, indices, value },
            Err(slice) => StmtKind::StoreSlice { tensor: id, slice, value },
        })
    }

    /// An expression for its effect.
    fn effect(&mut self, expr: &tree::Expr) -> Option<StmtKind> {
        if let Source::Call { callee, args } = &expr.kind {
            match callee.name.as_str() {
                "grid_barrier" => return self.grid_barrier(args, expr.span),
                "assert" => return self.assertion(args, expr.span),
                "atomic_add" => return self.atomic_add(args, expr.span).map(StmtKind::Expr),
                _ => {}
            }
        }
        let operand = self.operand(expr)?;
        if self.pending.iter().any(|statement| !matches!(statement.kind, StmtKind::Let { .. })) {
            // An inlined function with effects, whose value nobody needs.
            self.dropped = true;
            return None;
        }
        self.fail(
            Diagnostic::error(Code::NoEffect, expr.span, "this value is computed and dropped")
                .label(operand.describe())
                .help("assign it, or remove the line"),
        )
    }

    /// Enters a loop or branch.
    fn enter(&mut self) {
        self.clock += 1;
        self.bodies.push(Body { first: self.vars.len(), assigned: BTreeSet::new(), partly: BTreeSet::new() });
    }

    /// Leaves it; the variables assigned inside and those assigned by slices.
    fn leave(&mut self) -> (Vec<VarId>, BTreeSet<VarId>) {
        self.clock += 1;
        match self.bodies.pop() {
            Some(body) => (body.assigned.into_iter().collect(), body.partly),
            None => Default::default(),
        }
    }

    fn for_loop(
        &mut self,
        name: &tree::Ident,
        start: Option<&tree::Expr>,
        end: &tree::Expr,
        step: Option<&tree::Expr>,
        body: &tree::Block,
    ) -> Option<StmtKind> {
        let number = |value| Expr { kind: ExprKind::Int(value), ty: Type::Index, span: end.span };
        let start = match start {
            Some(start) => self.index(start, "the start of a range"),
            None => Some(number(0)),
        };
        let end = self.index(end, "the end of a range");
        let step = match step {
            Some(source) => self.index(source, "the step of a range").and_then(|step| match step.kind {
                ExprKind::Int(value) if value <= 0 => self.fail(
                    Diagnostic::error(
                        Code::BadArgument,
                        source.span,
                        format!("a step is positive, not {value}"),
                    )
                    .help("count up, and compute the other direction from the variable"),
                ),
                _ => Some(step),
            }),
            None => Some(number(1)),
        };
        let range = match (&start, &step) {
            (Some(start), Some(step)) => self.poly(start).zip(self.poly(step)),
            _ => None,
        };
        let programs =
            [&start, &end].into_iter().flatten().map(|e| self.programs_of(e)).fold(0, |a, b| a | b);
        self.scopes.push(BTreeMap::new());
        let var = self.declare(name, Type::Index, VarKind::Loop);
        self.set_facts(var, VarFacts { range, programs, ..VarFacts::default() });
        let undefined = self.undefined.clone();
        self.enter();
        let body = self.scoped_block(body);
        let (carried, partly) = self.leave();
        self.scopes.pop();
        self.undefined = undefined.difference(&partly).copied().collect();
        Some(StmtKind::For { var, start: start?, end: end?, step: step?, carried, body })
    }

    fn while_loop(&mut self, condition: &tree::Expr, body: &tree::Block) -> Option<StmtKind> {
        let before = self.pending.len();
        let typed = self.condition(condition, "the condition of `while`");
        if self.pending.len() > before {
            self.pending.truncate(before);
            self.error(
                Diagnostic::error(
                    Code::NotYet,
                    condition.span,
                    "a function call or atomic_add in the condition of `while`",
                )
                .help("assign it to a `var` before the loop and at the end of the body"),
            );
        }
        let undefined = self.undefined.clone();
        self.enter();
        let body = self.scoped_block(body);
        let (carried, partly) = self.leave();
        self.undefined = undefined.difference(&partly).copied().collect();
        Some(StmtKind::While { condition: typed?, carried, body })
    }

    fn branch(
        &mut self,
        condition: &tree::Expr,
        then: &tree::Block,
        otherwise: Option<&tree::Block>,
    ) -> Option<StmtKind> {
        let condition = self.condition(condition, "the condition of `if`");
        let guards = self.guards;
        self.guards |= condition.as_ref().map_or(0, |condition| self.programs_of(condition));
        let undefined = self.undefined.clone();
        self.enter();
        let then = self.scoped_block(then);
        let after_then = std::mem::replace(&mut self.undefined, undefined);
        self.clock += 1;
        let otherwise = otherwise.map(|block| self.scoped_block(block)).unwrap_or_default();
        let (carried, _) = self.leave();
        self.guards = guards;
        self.undefined.extend(after_then);
        Some(StmtKind::If { condition: condition?, carried, then, otherwise })
    }
}

/// The accumulator type that a declared f16 or bf16 tile asks a `dot` for.
fn half_tile(ty: &Type) -> Option<DType> {
    match (ty, Kind::of(ty)) {
        (Type::Tile(_), Some(Kind::Scalar(dtype @ DType::F16))) => Some(dtype),
        _ => None,
    }
}
