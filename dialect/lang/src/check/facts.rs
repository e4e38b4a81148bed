//! Facts about index values: their polynomial, the program ids they depend on, and
//! whether they are multiples of a block.

use std::collections::BTreeSet;

use super::{
    Checker,
    operand::Kind,
    poly::{Atom, Poly},
};
use crate::typed::{BinaryOp, Dim, Expr, ExprKind, Type, UnaryOp, VarKind};

impl Checker<'_> {
    /// The polynomial of an integer scalar.
    pub(super) fn poly(&mut self, expr: &Expr) -> Option<Poly> {
        if expr.ty.dims().is_some() || !Kind::of(&expr.ty)?.is_integer() {
            return None;
        }
        Some(self.poly_of(expr))
    }

    fn poly_of(&mut self, expr: &Expr) -> Poly {
        let index = expr.ty == Type::Index;
        let known = match &expr.kind {
            ExprKind::Int(value) => Some(Poly::constant(i128::from(*value))),
            ExprKind::Param(name) => Some(Poly::atom(Atom::Param(name.clone()))),
            ExprKind::Dim(name) => Some(Poly::atom(Atom::Dim(name.clone()))),
            ExprKind::ProgramId(axis) => Some(Poly::atom(Atom::ProgramId(*axis))),
            ExprKind::ScalarParam(id) => Some(Poly::atom(Atom::Scalar(*id))),
            ExprKind::Var(id) => match self.vars.get(id.0).map(|var| var.kind) {
                Some(VarKind::Loop) => Some(Poly::atom(Atom::Loop(*id))),
                Some(VarKind::Var) => Some(Poly::atom(Atom::Var(*id, self.clock))),
                _ => self.facts.get(id.0).and_then(|facts| facts.poly.clone()),
            },
            // A conversion to index keeps the value.
            ExprKind::Cast(inner) if index && Kind::of(&inner.ty).is_some_and(Kind::is_integer) => {
                Some(self.poly_of(inner))
            }
            ExprKind::Unary { op: UnaryOp::Neg, operand } if index => {
                Poly::default().add(&self.poly_of(operand), -1)
            }
            ExprKind::Binary { op, lhs, rhs } if index => match op {
                BinaryOp::Add => {
                    let (a, b) = (self.poly_of(lhs), self.poly_of(rhs));
                    a.add(&b, 1)
                }
                BinaryOp::Sub => {
                    let (a, b) = (self.poly_of(lhs), self.poly_of(rhs));
                    a.add(&b, -1)
                }
                BinaryOp::Mul => {
                    let (a, b) = (self.poly_of(lhs), self.poly_of(rhs));
                    a.mul(&b)
                }
                _ => None,
            },
            _ => None,
        };
        known.unwrap_or_else(|| {
            self.clock += 1;
            Poly::atom(Atom::Opaque(self.clock))
        })
    }

    /// The program ids that a value depends on, as bits.
    pub(super) fn programs_of(&self, expr: &Expr) -> u8 {
        let mut programs = 0;
        expr.walk(&mut |expr| match &expr.kind {
            ExprKind::ProgramId(axis) => programs |= 1 << axis,
            // Each program gets another value.
            ExprKind::AtomicAdd { .. } => programs |= 0b111,
            ExprKind::Var(id) => programs |= self.facts.get(id.0).map_or(0, |facts| facts.programs),
            _ => {}
        });
        programs
    }

    /// Whether a value is a multiple of `of` whenever the returned parameters and dims are;
    /// dims in `whole` are. The dims are ones that must be bound when compiling.
    pub(super) fn multiple(&self, poly: &Poly, of: u64, whole: Option<&Dim>) -> Option<BTreeSet<String>> {
        self.multiple_within(poly, of, whole, &mut 1000)
    }

    /// `steps` bounds the work on loops that start at each other.
    fn multiple_within(
        &self,
        poly: &Poly,
        of: u64,
        whole: Option<&Dim>,
        steps: &mut usize,
    ) -> Option<BTreeSet<String>> {
        *steps = steps.checked_sub(1)?;
        let mut needed = BTreeSet::new();
        for (atoms, coefficient) in poly.terms() {
            if coefficient % i128::from(of) == 0 {
                continue;
            }
            let mut found = false;
            for atom in atoms {
                match atom {
                    Atom::Dim(name) if whole == Some(&Dim::TensorDim(name.clone())) => found = true,
                    Atom::Loop(id) => {
                        let range = self.facts.get(id.0).and_then(|facts| facts.range.as_ref());
                        let Some((start, step)) = range else { continue };
                        if let (Some(start), Some(step)) = (
                            self.multiple_within(start, of, whole, steps),
                            self.multiple_within(step, of, whole, steps),
                        ) {
                            needed.extend(start);
                            needed.extend(step);
                            found = true;
                        }
                    }
                    _ => {}
                }
                if found {
                    break;
                }
            }
            if !found {
                let param = atoms.iter().find_map(|atom| match atom {
                    Atom::Param(name) => Some(name.clone()),
                    Atom::Dim(name) if self.required_dims.contains_key(name) => Some(name.clone()),
                    _ => None,
                });
                needed.insert(param?);
            }
        }
        Some(needed)
    }
}
