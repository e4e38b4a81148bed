//! Index expressions as polynomials, so that facts about slices can be proven:
//! `b - a` is a static extent, `program_id(0) * T` starts a tile, a start is a
//! multiple of a block.
//!
//! Arithmetic is over the integers: index arithmetic does not wrap (its width is
//! chosen so).

use std::collections::BTreeMap;

use crate::typed::{Dim, ScalarId, VarId};

/// What a polynomial is over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Atom {
    ProgramId(u8),
    Param(String),
    Dim(String),
    Scalar(ScalarId),
    /// A loop variable.
    Loop(VarId),
    /// A `var` at one moment.
    Var(VarId, u64),
    /// A value that nothing is known about.
    Opaque(u64),
}

/// A sum of products with coefficients; the empty product is the constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Poly {
    terms: BTreeMap<Vec<Atom>, i128>,
}

/// Larger polynomials are given up.
const MAX_TERMS: usize = 32;
const MAX_DEGREE: usize = 8;
const MAX_COEFFICIENT: i128 = 1 << 64;

impl Poly {
    pub(super) fn constant(value: i128) -> Poly {
        Poly::term(Vec::new(), value)
    }

    pub(super) fn atom(atom: Atom) -> Poly {
        Poly::term(vec![atom], 1)
    }

    pub(super) fn dim(dim: &Dim) -> Poly {
        match dim {
            Dim::Const(value) => Poly::constant(i128::from(*value)),
            Dim::Param(name) => Poly::atom(Atom::Param(name.clone())),
            Dim::TensorDim(name) => Poly::atom(Atom::Dim(name.clone())),
        }
    }

    fn term(atoms: Vec<Atom>, coefficient: i128) -> Poly {
        let mut poly = Poly::default();
        if coefficient != 0 {
            poly.terms.insert(atoms, coefficient);
        }
        poly
    }

    pub(super) fn terms(&self) -> impl Iterator<Item = (&[Atom], i128)> {
        self.terms.iter().map(|(atoms, coefficient)| (atoms.as_slice(), *coefficient))
    }

    /// The sum with `other` times `factor`; `None` when it grows too large.
    pub(super) fn add(&self, other: &Poly, factor: i128) -> Option<Poly> {
        let mut sum = self.clone();
        for (atoms, coefficient) in &other.terms {
            let entry = sum.terms.entry(atoms.clone()).or_insert(0);
            *entry = entry.checked_add(coefficient.checked_mul(factor)?)?;
        }
        sum.bounded()
    }

    pub(super) fn mul(&self, other: &Poly) -> Option<Poly> {
        let mut product = Poly::default();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut atoms: Vec<Atom> = a.iter().chain(b).cloned().collect();
                if atoms.len() > MAX_DEGREE {
                    return None;
                }
                atoms.sort();
                let entry = product.terms.entry(atoms).or_insert(0);
                *entry = entry.checked_add(x.checked_mul(*y)?)?;
            }
        }
        product.bounded()
    }

    fn bounded(mut self) -> Option<Poly> {
        self.terms.retain(|_, coefficient| *coefficient != 0);
        let small = |coefficient: &i128| coefficient.abs() <= MAX_COEFFICIENT;
        (self.terms.len() <= MAX_TERMS && self.terms.values().all(small)).then_some(self)
    }

    /// The constant that this is.
    pub(super) fn as_constant(&self) -> Option<i128> {
        match self.single() {
            None => self.terms.is_empty().then_some(0),
            Some((atoms, value)) => atoms.is_empty().then_some(value),
        }
    }

    /// The only term.
    fn single(&self) -> Option<(&[Atom], i128)> {
        if self.terms.len() == 1 { self.terms().next() } else { None }
    }

    /// The static extent that this is: a constant, a parameter or a dim.
    pub(super) fn as_dim(&self) -> Option<Dim> {
        if let Some(value) = self.as_constant() {
            return u64::try_from(value).ok().map(Dim::Const);
        }
        match self.single()? {
            ([Atom::Param(name)], 1) => Some(Dim::Param(name.clone())),
            ([Atom::Dim(name)], 1) => Some(Dim::TensorDim(name.clone())),
            _ => None,
        }
    }

    /// The axis a, when this is exactly `program_id(a)`.
    pub(super) fn as_program_id(&self) -> Option<u8> {
        match self.single()? {
            ([Atom::ProgramId(axis)], 1) => Some(*axis),
            _ => None,
        }
    }

    /// The axis a, when this is exactly `program_id(a) * extent`.
    pub(super) fn as_tile_start(&self, extent: &Dim) -> Option<u8> {
        (0..3).find(|axis| {
            Poly::atom(Atom::ProgramId(*axis)).mul(&Poly::dim(extent)).is_some_and(|start| start == *self)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_products_are_normal_forms() {
        let k = Poly::atom(Atom::Loop(VarId(3)));
        let tile = Poly::dim(&Dim::Param("T".into()));
        let one = Poly::constant(1);
        // (k + 1) * T - k * T = T
        let end = k.add(&one, 1).unwrap().mul(&tile).unwrap();
        let extent = end.add(&k.mul(&tile).unwrap(), -1).unwrap();
        assert_eq!(extent.as_dim(), Some(Dim::Param("T".into())));
        assert_eq!(k.add(&k, -1).unwrap().as_constant(), Some(0));
        assert_eq!(k.as_dim(), None);
    }

    #[test]
    fn tile_starts() {
        let pid = Poly::atom(Atom::ProgramId(1));
        let tile = Dim::Param("T".into());
        assert_eq!(pid.mul(&Poly::dim(&tile)).unwrap().as_tile_start(&tile), Some(1));
        assert_eq!(pid.as_tile_start(&Dim::Const(1)), Some(1));
        assert_eq!(pid.mul(&Poly::constant(8)).unwrap().as_tile_start(&Dim::Const(8)), Some(1));
        assert_eq!(pid.mul(&Poly::constant(8)).unwrap().as_tile_start(&tile), None);
        assert_eq!(pid.as_program_id(), Some(1));
    }

    #[test]
    fn growth_is_bounded() {
        let mut sum = Poly::constant(1);
        let mut bounded = false;
        for n in 0..100 {
            match sum.add(&Poly::atom(Atom::Opaque(n)), 1).and_then(|sum| sum.mul(&sum)) {
                Some(next) => sum = next,
                None => bounded = true,
            }
        }
        assert!(bounded);
    }
}
