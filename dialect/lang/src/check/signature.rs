//! Parameters of a kernel, and types as written.

use phobos_artifact::{Access, Element};

use super::{Checker, operand::Operand};
use crate::{
    diagnostics::{Code, Diagnostic, nearest},
    tree::{self, ExprKind as Source, TypeKind},
    typed::{Dim, Scalar, Tensor, TileType, Type},
};

/// The highest rank of a tensor.
const MAX_TENSOR_RANK: usize = 8;

impl Checker<'_> {
    /// Declares the parameters: tensors, scalars, and the dims that tensors name.
    pub(super) fn signature(&mut self, ast: &tree::Kernel) {
        for param in &ast.params {
            let name = &param.name;
            let taken = self.tensors.iter().find(|tensor| tensor.name == name.name).map(|tensor| tensor.span);
            let taken = taken.or_else(|| {
                self.scalars.iter().find(|scalar| scalar.name == name.name).map(|scalar| scalar.span)
            });
            if let Some(first) = taken {
                let message = format!("parameter `{}` is declared twice", name.name);
                self.error(
                    Diagnostic::error(Code::DuplicateName, name.span, message)
                        .related(first, "the first declaration"),
                );
                continue;
            }
            if self.parameter(name, &param.ty).is_none() {
                self.broken_params.insert(name.name.clone());
            }
        }
        let clash = self.scalars.iter().find(|scalar| {
            self.dims.contains(&scalar.name) || self.params.iter().any(|param| param.name == scalar.name)
        });
        if let Some(scalar) = clash {
            let message = format!("`{}` is both a parameter and a dim or `@autotune` name", scalar.name);
            let span = scalar.span;
            self.error(
                Diagnostic::error(Code::DuplicateName, span, message)
                    .help("dims come from the tensors; remove or rename the parameter"),
            );
        }
        let dims: Vec<&str> =
            self.tensors.iter().flat_map(|tensor| &tensor.dims).filter_map(dim_name).collect();
        for param in &mut self.params {
            param.binds_dim = dims.contains(&param.name.as_str());
        }
    }

    fn parameter(&mut self, name: &tree::Ident, ty: &tree::TypeExpr) -> Option<()> {
        match &ty.kind {
            TypeKind::Tensor { element, dims } => {
                let element = self.element(element);
                let dims = self.tensor_dims(dims, ty)?;
                let element = element?;
                self.block_contract(name, element, &dims);
                let tensor =
                    Tensor { name: name.name.clone(), element, dims, access: Access::Read, span: name.span };
                self.tensors.push(tensor);
                self.reads.push(false);
                self.writes.push(false);
                Some(())
            }
            TypeKind::Scalar(element) => match self.element(element)? {
                Element::Scalar(dtype) => {
                    self.scalars.push(Scalar { name: name.name.clone(), dtype, span: name.span });
                    Some(())
                }
                Element::Block(format) => {
                    let message = format!("a parameter cannot be one {} block", format.name);
                    self.fail(
                        Diagnostic::error(Code::UnknownType, ty.span, message)
                            .help(format!("pass a tensor: `tensor<{}>[N, K]`", format.name)),
                    )
                }
            },
            TypeKind::Tile { .. } => self.fail(
                Diagnostic::error(Code::UnknownType, ty.span, "a kernel has no tile parameters")
                    .help("pass a tensor and slice it"),
            ),
            TypeKind::Error => None,
        }
    }

    fn tensor_dims(&mut self, exprs: &[tree::Expr], ty: &tree::TypeExpr) -> Option<Vec<Dim>> {
        if exprs.is_empty() || exprs.len() > MAX_TENSOR_RANK {
            let message = format!("a tensor has 1 to {MAX_TENSOR_RANK} axes, not {}", exprs.len());
            return self.fail(Diagnostic::error(Code::BadRank, ty.span, message));
        }
        let mut dims = Vec::with_capacity(exprs.len());
        for expr in exprs {
            dims.push(match &expr.kind {
                Source::Name(name) if self.params.iter().any(|param| param.name == *name) => {
                    Dim::Param(name.clone())
                }
                Source::Name(name) if !self.consts.contains_key(name.as_str()) => {
                    if !self.dims.contains(name) {
                        self.dims.push(name.clone());
                    }
                    Dim::TensorDim(name.clone())
                }
                _ => match self.constant_operand(expr)? {
                    Operand::Int(value, _) if value > 0 && u64::try_from(value).is_ok() => {
                        Dim::Const(u64::try_from(value).ok()?)
                    }
                    _ => {
                        return self.fail(
                            Diagnostic::error(
                                Code::DimNotStatic,
                                expr.span,
                                "a tensor dim is a name or a positive integer",
                            )
                            .help("name it: the value comes from the tensor at launch"),
                        );
                    }
                },
            });
        }
        Some(dims)
    }

    /// The value of an expression of literals and constants.
    fn constant_operand(&mut self, expr: &tree::Expr) -> Option<Operand> {
        if self.is_constant(expr) {
            return self.operand(expr);
        }
        let message = "a tensor dim is a name or a positive integer";
        self.fail(
            Diagnostic::error(Code::DimNotStatic, expr.span, message)
                .help("name it: the value comes from the tensor at launch"),
        )
    }

    fn is_constant(&self, expr: &tree::Expr) -> bool {
        match &expr.kind {
            Source::Int(_) | Source::Float(_) | Source::Bool(_) => true,
            Source::Name(name) => self.consts.contains_key(name.as_str()),
            Source::Unary { operand, .. } => self.is_constant(operand),
            Source::Binary { lhs, rhs, .. } => self.is_constant(lhs) && self.is_constant(rhs),
            _ => false,
        }
    }

    /// A type of a variable.
    pub(super) fn type_of(&mut self, ty: &tree::TypeExpr) -> Option<Type> {
        match &ty.kind {
            TypeKind::Scalar(name) if name.name == "index" => Some(Type::Index),
            TypeKind::Scalar(name) => match self.element(name)? {
                Element::Scalar(dtype) => Some(Type::Scalar(dtype)),
                Element::Block(format) => {
                    let message = format!("a variable cannot be one {} block", format.name);
                    self.fail(
                        Diagnostic::error(Code::UnknownType, ty.span, message)
                            .help("blocks are decoded when they are read: `f32(W[n, :])`"),
                    )
                }
            },
            TypeKind::Tile { element, dims } => {
                let element = self.element(element);
                if dims.is_empty() || dims.len() > 4 {
                    let message = format!("a tile has 1 to 4 axes, not {}", dims.len());
                    return self.fail(Diagnostic::error(Code::BadRank, ty.span, message));
                }
                let dims: Vec<Option<Dim>> = dims.iter().map(|dim| self.extent(dim)).collect();
                let dims = dims.into_iter().collect::<Option<Vec<Dim>>>()?;
                Some(Type::Tile(TileType { element: element?, dims }))
            }
            TypeKind::Tensor { .. } => self.fail(
                Diagnostic::error(Code::UnknownType, ty.span, "only a parameter of a kernel is a tensor")
                    .help("a variable is a tile or a scalar"),
            ),
            TypeKind::Error => None,
        }
    }

    /// The tensor dim that a name of an attribute means.
    pub(super) fn known_dim(&mut self, name: &tree::Ident) -> Option<()> {
        if self.dims.contains(&name.name) {
            return Some(());
        }
        let help = nearest(&name.name, self.dims.iter().map(String::as_str))
            .map(|meant| format!("did you mean `{meant}`?"))
            .unwrap_or_else(|| format!("dims are {}", self.dims.join(", ")));
        let message = format!("no tensor has a dim `{}`", name.name);
        self.fail(Diagnostic::error(Code::UnknownName, name.span, message).help(help))
    }
}

fn dim_name(dim: &Dim) -> Option<&str> {
    match dim {
        Dim::Const(_) => None,
        Dim::Param(name) | Dim::TensorDim(name) => Some(name),
    }
}
