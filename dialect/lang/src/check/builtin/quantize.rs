//! `quantize(x, F)`: a tile in a format of activations, or in a float type.

use phobos_artifact::{
    DType, Element,
    format::{ACTIVATIONS, Format},
};

use super::super::{
    Checker, convert,
    operand::{Kind, Operand},
};
use crate::{
    diagnostics::{Code, Diagnostic},
    span::Span,
    tree::{self, Arg, ExprKind as Source, Ident},
    typed::{Dim, Expr, ExprKind, TileType, Type},
};

/// The scalar types that `quantize` makes, so that a kernel for a format also serves
/// without one. Not f64: nothing is wider than what is quantised.
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

impl Checker<'_> {
    pub(super) fn quantize(&mut self, args: &[Arg], span: Span) -> Option<Operand> {
        let [value, target] = args else { return None };
        let at = target.value.span;
        let (tile, element) = (self.f32_tile(&value.value), self.target(&target.value));
        let (tile, element) = (tile?, element?);
        let Type::Tile(TileType { dims, .. }) = &tile.ty else { return None };
        match element {
            Element::Scalar(dtype) if FLOATS.contains(&dtype) => {
                Some(Operand::Expr(Expr { span, ..convert::cast(tile, Kind::Scalar(dtype)) }))
            }
            Element::Block(format) if is_activation(format) => {
                self.whole_tile(format, dims.last(), tile.span)?;
                let ty = Type::Tile(TileType { element, dims: dims.clone() });
                Some(Operand::Expr(Expr { kind: ExprKind::Quantize(Box::new(tile)), ty, span }))
            }
            other => {
                let formats = ACTIVATIONS.map(|format| format.name).join(", ");
                let message = format!("{other} cannot be made by `quantize`");
                self.fail(
                    Diagnostic::error(Code::BadArgument, at, message)
                        .help(format!("expected {formats}, or a float type: f32, f16, bf16")),
                )
            }
        }
    }

    fn f32_tile(&mut self, value: &tree::Expr) -> Option<Expr> {
        match self.operand(value)? {
            Operand::Expr(expr)
                if expr.ty.dims().is_some() && Kind::of(&expr.ty) == Some(Kind::Scalar(DType::F32)) =>
            {
                Some(expr)
            }
            other => {
                let message = format!("`quantize` takes a tile of f32, not {}", other.describe());
                let help = other.dims().map(|_| "write a cast: `f32(x)`".to_owned());
                self.fail(Diagnostic::error(Code::BadArgument, other.span(), message).help_opt(help))
            }
        }
    }

    /// The element that the second argument names.
    fn target(&mut self, target: &tree::Expr) -> Option<Element> {
        let Source::Name(name) = &target.kind else {
            // What is wrong inside it is of no use: nothing there could be right.
            let message = "the second argument of `quantize` is the name of an element";
            return self.fail(
                Diagnostic::error(Code::BadArgument, target.span, message)
                    .help("write `q8_1`, or a generic parameter of the kernel"),
            );
        };
        self.element(&Ident { name: name.clone(), span: target.span })
    }

    /// Checks that a tile whose last extent is `dim` is whole blocks.
    fn whole_tile(&mut self, format: &Format, dim: Option<&Dim>, span: Span) -> Option<()> {
        let of = format.elements as u64;
        let dim = dim?;
        match dim {
            Dim::Const(extent) if extent.is_multiple_of(of) => return Some(()),
            Dim::Const(_) => {}
            // The extent of a tile is bound when compiling.
            Dim::Param(name) | Dim::TensorDim(name) => {
                self.need_multiple(name, of, span);
                return Some(());
            }
        }
        self.fail(
            Diagnostic::error(
                Code::BlockAlignment,
                span,
                format!("the last extent of this tile, {dim}, is not provably a multiple of {of}"),
            )
            .label(format!("a block of {} has {of} elements", format.name))
            .help(format!("use a multiple of {of}, or an `@autotune` parameter")),
        )
    }
}

/// Whether kernels make the format, with `quantize`.
pub(in crate::check) fn is_activation(format: &Format) -> bool {
    ACTIVATIONS.contains(&format)
}
