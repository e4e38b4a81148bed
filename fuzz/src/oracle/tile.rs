//! Tiles as the oracle holds them: every lane, and how much of each axis is valid.

use phobos_artifact::Element;

use crate::number::Number;

/// A tile value.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// The element type.
    pub element: Element,
    /// `[d0, d1, ...]`, outermost first.
    pub dims: Vec<usize>,
    /// How many elements are valid on each axis, from 0 (SPEC.md section 7).
    pub valid: Vec<usize>,
    /// `d0 * d1 * ...` values in row-major order, of block formats decoded; unknown where invalid.
    pub lanes: Vec<Number>,
    /// Of a block format: the bytes of each block in row-major order, where they are known.
    pub blocks: Vec<Option<Vec<u8>>>,
    /// Of a product: how many terms each lane added, and the sum of their magnitudes for each
    /// lane. A sum with it may start from the other operand.
    pub product: Option<(usize, Vec<f64>)>,
}

/// Elements of `dims`.
pub fn count(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Every position of `dims` in row-major order.
pub fn positions(dims: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..count(dims)).map(|lane| position(dims, lane))
}

/// The position of a row-major lane.
pub fn position(dims: &[usize], mut lane: usize) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for (axis, dim) in dims.iter().enumerate().rev() {
        at[axis] = lane % dim;
        lane /= dim;
    }
    at
}

/// The row-major lane of a position.
pub fn lane(dims: &[usize], at: &[usize]) -> usize {
    dims.iter().zip(at).fold(0, |lane, (dim, at)| lane * dim + at)
}

impl Tile {
    /// A tile whose lanes are made from their positions, where `valid` lets them be.
    pub fn new(
        element: Element,
        dims: Vec<usize>,
        valid: Vec<usize>,
        mut value: impl FnMut(&[usize]) -> Number,
    ) -> Tile {
        let lanes = positions(&dims)
            .map(|at| if inside(&valid, &at) { value(&at) } else { Number::Unknown })
            .collect();
        Tile { element, dims, valid, lanes, blocks: Vec::new(), product: None }
    }

    /// A wholly valid tile.
    pub fn whole(element: Element, dims: Vec<usize>, value: impl FnMut(&[usize]) -> Number) -> Tile {
        let valid = dims.clone();
        Tile::new(element, dims, valid, value)
    }

    /// The value at a position.
    pub fn get(&self, at: &[usize]) -> Number {
        self.lanes[lane(&self.dims, at)]
    }

    /// Whether the element at a position is valid.
    pub fn is_valid(&self, at: &[usize]) -> bool {
        inside(&self.valid, at)
    }

    /// The same lanes of another element, each changed by `value`.
    pub fn map(&self, element: Element, mut value: impl FnMut(Number) -> Number) -> Tile {
        Tile::new(element, self.dims.clone(), self.valid.clone(), |at| value(self.get(at)))
    }

    /// Both tiles lane by lane: valid where both are. Their dims are equal.
    pub fn zip(
        &self,
        other: &Tile,
        element: Element,
        mut value: impl FnMut(Number, Number) -> Number,
    ) -> Tile {
        Tile::new(element, self.dims.clone(), meet(&self.valid, &other.valid), |at| {
            value(self.get(at), other.get(at))
        })
    }
}

/// The lesser of two extents on each axis.
pub fn meet(a: &[usize], b: &[usize]) -> Vec<usize> {
    a.iter().zip(b).map(|(a, b)| *a.min(b)).collect()
}

/// Whether a position lies before the extents.
pub fn inside(valid: &[usize], at: &[usize]) -> bool {
    valid.iter().zip(at).all(|(valid, at)| at < valid)
}
