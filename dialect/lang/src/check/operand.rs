//! Values while they are checked: literals do not have a type yet.

use phobos_artifact::{DType, Element, format::Format};

use crate::{
    span::Span,
    typed::{Dim, Expr, TileType, Type},
};

/// A value: an expression, or a constant that takes the type of its use.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Expr(Expr),
    Int(i128, Span),
    Float(f64, Span),
}

/// What the elements of a value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An integer literal.
    Int,
    /// A float literal.
    Float,
    Index,
    Scalar(DType),
    Block(&'static Format),
}

impl Kind {
    pub(super) fn of(ty: &Type) -> Option<Kind> {
        match ty {
            Type::Index => Some(Kind::Index),
            Type::Scalar(dtype) => Some(Kind::Scalar(*dtype)),
            Type::Tile(tile) => Some(Kind::of_element(tile.element)),
            Type::Unit => None,
        }
    }

    pub(super) fn of_element(element: Element) -> Kind {
        match element {
            Element::Scalar(dtype) => Kind::Scalar(dtype),
            Element::Block(format) => Kind::Block(format),
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Kind::Float) || matches!(self, Kind::Scalar(dtype) if dtype.is_float())
    }

    pub(super) fn is_bool(self) -> bool {
        self == Kind::Scalar(DType::Bool)
    }

    /// An integer type, an index or an integer literal.
    pub(super) fn is_integer(self) -> bool {
        match self {
            Kind::Int | Kind::Index => true,
            Kind::Scalar(dtype) => !dtype.is_float() && dtype != DType::Bool,
            Kind::Float | Kind::Block(_) => false,
        }
    }

    pub(super) fn is_number(self) -> bool {
        self.is_float() || self.is_integer()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Int => "an integer literal",
            Kind::Float => "a float literal",
            Kind::Index => "index",
            Kind::Scalar(dtype) => dtype.name(),
            Kind::Block(format) => format.name,
        }
    }

    /// The type of a value with these elements and dims (`None`: a scalar).
    pub(super) fn with_dims(self, dims: Option<Vec<Dim>>) -> Type {
        let element = match self {
            Kind::Index | Kind::Int => match dims {
                None => return Type::Index,
                // Index tiles do not exist; the checker never asks for one.
                Some(_) => Element::Scalar(DType::I64),
            },
            Kind::Float => Element::Scalar(DType::F32),
            Kind::Scalar(dtype) => Element::Scalar(dtype),
            Kind::Block(format) => Element::Block(format),
        };
        match (dims, element) {
            (Some(dims), element) => Type::Tile(TileType { element, dims }),
            (None, Element::Scalar(dtype)) => Type::Scalar(dtype),
            (None, Element::Block(_)) => Type::Unit,
        }
    }
}

impl Operand {
    pub(super) fn span(&self) -> Span {
        match self {
            Operand::Expr(expr) => expr.span,
            Operand::Int(_, span) | Operand::Float(_, span) => *span,
        }
    }

    /// With the span of a larger expression that is only this value.
    pub(super) fn at(self, span: Span) -> Operand {
        match self {
            Operand::Expr(expr) => Operand::Expr(Expr { span, ..expr }),
            Operand::Int(value, _) => Operand::Int(value, span),
            Operand::Float(value, _) => Operand::Float(value, span),
        }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Operand::Expr(expr) => Kind::of(&expr.ty),
            Operand::Int(..) => Some(Kind::Int),
            Operand::Float(..) => Some(Kind::Float),
        }
    }

    /// The dims of a tile.
    pub(super) fn dims(&self) -> Option<&[Dim]> {
        match self {
            Operand::Expr(expr) => expr.ty.dims(),
            _ => None,
        }
    }

    /// The type for a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Operand::Expr(expr) => expr.ty.to_string(),
            Operand::Int(..) => "an integer literal".to_owned(),
            Operand::Float(..) => "a float literal".to_owned(),
        }
    }
}

impl Type {
    /// The dims of a tile; `None` for a scalar.
    pub fn dims(&self) -> Option<&[Dim]> {
        match self {
            Type::Tile(tile) => Some(&tile.dims),
            _ => None,
        }
    }
}
