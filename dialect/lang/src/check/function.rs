//! Calls of functions, inlined: the arguments become variables, the statements stand
//! before the statement of the call, and the value is the returned expression.
//!
//! A function sees its parameters, the dims that their types name, and constants;
//! nothing of the kernel. Its generic parameters and dims come from the arguments.

use std::collections::BTreeMap;

use phobos_artifact::{DType, Element};

use super::{
    Binding, Checker, VarFacts,
    convert::THROUGH_MEMORY,
    operand::{Kind, Operand},
};
use crate::{
    diagnostics::{Code, Diagnostic, count},
    span::Span,
    tree::{self, Arg, ExprKind as Source, GenericKind, StmtKind as SourceStmt, TypeKind},
    typed::{Dim, Expr, Stmt, StmtKind, TileType, Type, VarId, VarKind, Variable},
};

/// What a function body sees in place of the kernel's signature.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) elements: BTreeMap<String, Option<Element>>,
    pub(super) dims: BTreeMap<String, Dim>,
}

/// Calls nest at most this deep.
const MAX_CALL_DEPTH: usize = 16;
/// A kernel has at most this many calls after inlining.
const MAX_CALLS: usize = 1000;

impl<'a> Checker<'a> {
    pub(super) fn inline(
        &mut self,
        function: &'a tree::Function,
        args: &[Arg],
        span: Span,
    ) -> Option<Operand> {
        let name = &function.name.name;
        let operands: Vec<Option<Operand>> = args.iter().map(|arg| self.operand(&arg.value)).collect();
        if args.len() != function.params.len() {
            let message = format!(
                "`{name}` takes {}, not {}",
                count(function.params.len(), "argument", "arguments"),
                args.len()
            );
            return self.fail(
                Diagnostic::error(Code::ArgumentCount, span, message)
                    .related(function.name.span, "declared here"),
            );
        }
        let operands = operands.into_iter().collect::<Option<Vec<Operand>>>()?;
        self.inlined += 1;
        if let Some((message, help)) = self.too_many_calls(name) {
            return self.fail(Diagnostic::error(Code::TooDeep, span, message).help(help));
        }
        let elements = function.generics.iter().map(|generic| (generic.name.name.clone(), None)).collect();
        let mut frame = Frame { elements, dims: BTreeMap::new() };
        let mut values = Vec::with_capacity(operands.len());
        for (operand, param) in operands.into_iter().zip(&function.params) {
            values.push(self.argument(operand, param, function, &mut frame));
        }
        let values = values.into_iter().collect::<Option<Vec<Expr>>>()?;
        let outer_frame = self.frame.replace(frame);
        let outer_scopes = std::mem::replace(&mut self.scopes, vec![BTreeMap::new()]);
        for (value, param) in values.into_iter().zip(&function.params) {
            self.argument_variable(&param.name, value);
        }
        self.calling.push(name);
        let result = self.inlined_body(function, span);
        self.calling.pop();
        self.scopes = outer_scopes;
        self.frame = outer_frame;
        result
    }

    /// What to say of a call that goes beyond a limit.
    fn too_many_calls(&self, name: &str) -> Option<(String, &'static str)> {
        if self.calling.contains(&name) {
            let help = "functions are inlined, so they cannot be recursive";
            return Some((format!("calls of `{name}` do not end"), help));
        }
        if self.calling.len() >= MAX_CALL_DEPTH {
            let message =
                format!("calls nest at most {MAX_CALL_DEPTH} deep, and this one of `{name}` deeper");
            return Some((message, "write the inner functions where they are called"));
        }
        if self.inlined > MAX_CALLS {
            let message = format!("the kernel has more than {MAX_CALLS} calls of functions after inlining");
            return Some((
                message,
                "a function is inlined at each call: use loops, or make it several kernels",
            ));
        }
        None
    }

    fn argument_variable(&mut self, name: &tree::Ident, value: Expr) {
        let facts =
            VarFacts { poly: self.poly(&value), programs: self.programs_of(&value), ..VarFacts::default() };
        let (id, span, ty) = (VarId(self.vars.len()), value.span, value.ty.clone());
        self.vars.push(Variable { name: name.name.clone(), ty, kind: VarKind::Let, span: name.span });
        self.facts.push(facts);
        self.bind_name(name, Binding::Var(id));
        self.pending.push(Stmt { kind: StmtKind::Let { var: id, value }, span });
    }

    fn inlined_body(&mut self, function: &'a tree::Function, span: Span) -> Option<Operand> {
        let statements = &function.body.statements;
        let (value, before) = match statements.split_last() {
            Some((tree::Stmt { kind: SourceStmt::Return(Some(value)), .. }, before)) => (value, before),
            _ => {
                let message = format!("function `{}` does not end in `return value`", function.name.name);
                return self.fail(Diagnostic::error(Code::BadReturn, function.name.span, message));
            }
        };
        let mut out = std::mem::take(&mut self.pending);
        self.scopes.push(BTreeMap::new());
        self.statements(before, &mut out);
        self.pending = out;
        let result = self.operand(value);
        let result = match (&function.result, result) {
            (None, result) => result,
            (Some(ty), result) => match (self.type_of(ty), result) {
                (Some(ty), Some(result)) => self.coerce(result, &ty, "the result").map(Operand::Expr),
                _ => None,
            },
        };
        self.scopes.pop();
        result.map(|result| result.at(span))
    }

    /// An argument as a value of its parameter's type; binds generics and dims.
    fn argument(
        &mut self,
        operand: Operand,
        param: &tree::Param,
        function: &tree::Function,
        frame: &mut Frame,
    ) -> Option<Expr> {
        let what = format!("argument `{}`", param.name.name);
        match &param.ty.kind {
            TypeKind::Scalar(element) if element.name == "index" => self.coerce(operand, &Type::Index, &what),
            TypeKind::Scalar(element) => {
                let operand = self.scalar(operand, &what, THROUGH_MEMORY)?;
                let kind = operand.kind()?;
                let element = self.bind_element(element, kind, operand.span(), function, frame)?;
                let ty = Kind::of_element(element).with_dims(None);
                self.coerce(operand, &ty, &what)
            }
            TypeKind::Tile { element, dims } => {
                let Operand::Expr(Expr { ty: Type::Tile(tile), .. }) = &operand else {
                    let message = format!("{what} is a tile, not {}", operand.describe());
                    return self.fail(
                        Diagnostic::error(Code::BadArgument, operand.span(), message)
                            .help("`broadcast(x, [dims])` makes a tile of a scalar"),
                    );
                };
                let tile = tile.clone();
                let span = operand.span();
                let kind = Kind::of_element(tile.element);
                let element = self.bind_element(element, kind, span, function, frame)?;
                if dims.len() != tile.dims.len() {
                    let message =
                        format!("{what} has {}, not {}", count(dims.len(), "axis", "axes"), tile.dims.len());
                    return self.fail(
                        Diagnostic::error(Code::ShapeMismatch, span, message)
                            .related(param.span, "declared here"),
                    );
                }
                let mut bound = Vec::with_capacity(dims.len());
                for (expr, dim) in dims.iter().zip(&tile.dims) {
                    bound.push(self.bind_dim(expr, dim, frame)?);
                }
                if bound != tile.dims {
                    let wanted = Type::Tile(TileType { element, dims: bound });
                    let message = format!("{what} is {wanted}, not {}", operand.describe());
                    return self.fail(
                        Diagnostic::error(Code::ShapeMismatch, span, message)
                            .related(param.span, "declared here"),
                    );
                }
                self.coerce(operand, &Type::Tile(TileType { element, dims: bound }), &what)
            }
            TypeKind::Tensor { .. } => self.fail(
                Diagnostic::error(Code::NotYet, param.ty.span, "a tensor parameter of a function")
                    .help("pass a slice of it as a tile"),
            ),
            TypeKind::Error => None,
        }
    }

    fn bind_element(
        &mut self,
        name: &tree::Ident,
        kind: Kind,
        span: Span,
        function: &tree::Function,
        frame: &mut Frame,
    ) -> Option<Element> {
        let generic = function.generics.iter().find(|generic| generic.name.name == name.name);
        let Some(generic) = generic else {
            if let Ok(element) = name.name.parse() {
                return Some(element);
            }
            // For the message with the nearest name.
            return self.element(name);
        };
        if let Some(Some(bound)) = frame.elements.get(&name.name) {
            return Some(*bound);
        }
        let element = match kind {
            Kind::Scalar(dtype) => Element::Scalar(dtype),
            Kind::Float => Element::Scalar(DType::F32),
            Kind::Int => Element::Scalar(DType::I32),
            Kind::Block(format) if generic.kind == GenericKind::Format => Element::Block(format),
            Kind::Index | Kind::Block(_) => {
                let message = format!("`{}` cannot be {}", name.name, kind.name());
                return self.fail(Diagnostic::error(Code::BadArgument, span, message).help("write a cast"));
            }
        };
        frame.elements.insert(name.name.clone(), Some(element));
        Some(element)
    }

    /// A dim of a parameter's type: a name is bound by its first use.
    fn bind_dim(&mut self, expr: &tree::Expr, dim: &Dim, frame: &mut Frame) -> Option<Dim> {
        match &expr.kind {
            Source::Name(name) if !self.consts.contains_key(name.as_str()) => {
                Some(frame.dims.entry(name.clone()).or_insert_with(|| dim.clone()).clone())
            }
            _ => match self.constant_int(expr, "a dim of a parameter").map(u64::try_from)? {
                Ok(value) if value > 0 => Some(Dim::Const(value)),
                _ => self.fail(Diagnostic::error(Code::DimNotStatic, expr.span, "a dim is positive")),
            },
        }
    }
}
