//! Builtins with an effect: atomics, barriers, assertions.

use phobos_artifact::{DType, Element};

use super::super::{Checker, convert::THROUGH_MEMORY};
use crate::{
    diagnostics::{Code, Diagnostic, count},
    span::Span,
    tree::{self, Arg, ExprKind as Source},
    typed::{Expr, ExprKind, StmtKind, TensorId, Type},
};

impl Checker<'_> {
    fn tensor_argument(&mut self, name: &str, arg: &tree::Expr) -> Option<TensorId> {
        let tensor = match &arg.kind {
            Source::Name(tensor) => self.tensor_named(tensor),
            _ => None,
        };
        let Some(id) = tensor else {
            if let Source::Name(tensor) = &arg.kind
                && self.broken_params.contains(tensor)
            {
                return None;
            }
            let message = format!("the first argument of `{name}` is the name of a tensor parameter");
            return self.fail(Diagnostic::error(Code::BadArgument, arg.span, message));
        };
        let element = self.tensors.get(id.0)?.element;
        for used in [&mut self.reads, &mut self.writes] {
            if let Some(used) = used.get_mut(id.0) {
                *used = true;
            }
        }
        if element != Element::Scalar(DType::I32) {
            let code = if element == Element::Scalar(DType::F32) { Code::NotYet } else { Code::BadArgument };
            let message = format!("`{name}` takes an i32 tensor, not {element}");
            return self.fail(Diagnostic::error(code, arg.span, message));
        }
        Some(id)
    }

    /// The call as an expression, not yet placed in the order of statements.
    pub(in crate::check) fn atomic_add(&mut self, args: &[Arg], span: Span) -> Option<Expr> {
        self.no_keywords(args, "atomic_add", "(t, i, v)")?;
        let values: Vec<&tree::Expr> = args.iter().map(|arg| &arg.value).collect();
        let (Some((tensor, rest)), true) = (values.split_first(), values.len() >= 3) else {
            let message =
                format!("`atomic_add` takes a tensor, a place and a value, not {} arguments", args.len());
            return self
                .fail(Diagnostic::error(Code::ArgumentCount, span, message).help("atomic_add(t, i, v)"));
        };
        let id = self.tensor_argument("atomic_add", tensor)?;
        let (value, places) = rest.split_last()?;
        let (rank, name) = self.tensors.get(id.0).map(|tensor| (tensor.dims.len(), tensor.name.clone()))?;
        if places.len() != rank {
            let message = format!(
                "tensor `{name}` has {}, this place has {}",
                count(rank, "axis", "axes"),
                places.len()
            );
            return self.fail(
                Diagnostic::error(Code::RankMismatch, span, message).help("write one position per axis"),
            );
        }
        let indices: Vec<Option<Expr>> = places.iter().map(|place| self.index(place, "a position")).collect();
        let value = self.operand(value)?;
        let value = self.scalar(value, "the value of `atomic_add`", THROUGH_MEMORY)?;
        let ty = Type::Scalar(DType::I32);
        let value = Box::new(self.coerce(value, &ty, "the value of `atomic_add`")?);
        let indices = indices.into_iter().collect::<Option<Vec<Expr>>>()?;
        Some(Expr { kind: ExprKind::AtomicAdd { tensor: id, indices, value }, ty, span })
    }

    pub(in crate::check) fn grid_barrier(&mut self, args: &[Arg], span: Span) -> Option<StmtKind> {
        self.no_keywords(args, "grid_barrier", "(bar)")?;
        let [arg] = args else {
            let message = format!("`grid_barrier` takes 1 argument, not {}", args.len());
            return self
                .fail(Diagnostic::error(Code::ArgumentCount, span, message).help("grid_barrier(bar)"));
        };
        let tensor = self.tensor_argument("grid_barrier", &arg.value)?;
        Some(StmtKind::GridBarrier { tensor })
    }

    pub(in crate::check) fn assertion(&mut self, args: &[Arg], span: Span) -> Option<StmtKind> {
        self.no_keywords(args, "assert", "(condition, \"text\")")?;
        let [condition, message] = args else {
            let message = format!("`assert` takes 2 arguments, not {}", args.len());
            return self.fail(
                Diagnostic::error(Code::ArgumentCount, span, message).help("assert(condition, \"text\")"),
            );
        };
        let condition = self.condition(&condition.value, "the condition of `assert`")?;
        match &message.value.kind {
            Source::Text(text) => Some(StmtKind::Assert { condition, message: text.clone() }),
            _ => self.fail(
                Diagnostic::error(
                    Code::BadArgument,
                    message.value.span,
                    "the second argument of `assert` is a text",
                )
                .help("assert(condition, \"text\")"),
            ),
        }
    }
}
