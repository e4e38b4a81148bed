//! Types and dims as they are written.

use std::fmt;

use crate::typed::{Dim, TileType, Type};

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Const(value) => write!(f, "{value}"),
            Dim::Param(name) | Dim::TensorDim(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile<{}>{}", self.element, Dims(&self.dims))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Index => f.write_str("index"),
            Type::Scalar(dtype) => write!(f, "{dtype}"),
            Type::Tile(tile) => write!(f, "{tile}"),
            Type::Unit => f.write_str("no value"),
        }
    }
}

/// Dims between brackets.
pub(super) struct Dims<'a>(pub &'a [Dim]);

impl fmt::Display for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}
