//! Scalars.

use phobos_artifact::DType;

use super::{Elem, Generator, Ty};
use crate::{
    number,
    program::{Scalar, Term},
};

/// Functions of one float.
pub(super) const MATH: [&str; 13] = [
    "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "silu", "gelu", "floor", "ceil", "round", "abs",
];

impl Generator {
    /// A literal of a type, written so that it has it anywhere.
    pub(super) fn literal(&mut self, dtype: DType) -> Term {
        if dtype == DType::Bool {
            return Term::text(if self.random.chance(50) { "true" } else { "false" });
        }
        Term::text(format!("{dtype}({})", self.bare_literal(dtype)))
    }

    /// A literal that takes its type from its use.
    pub(super) fn bare_literal(&mut self, dtype: DType) -> String {
        if dtype.is_float() {
            let value =
                *self.random.pick(&["0.0", "1.0", "2.0", "0.5", "-1.0", "-0.25", "3.0", "1.5", "-2.0"]);
            return value.to_owned();
        }
        let (least, most) = number::limits(Some(dtype));
        self.random.between(-3, 9).clamp(least, most).to_string()
    }

    /// A scalar parameter of a type.
    pub(super) fn scalar_parameter(&mut self, dtype: DType) -> Term {
        let known: Vec<String> = self
            .program
            .scalars
            .iter()
            .filter(|scalar| scalar.dtype == dtype)
            .map(|scalar| scalar.name.clone())
            .collect();
        if !known.is_empty() && self.random.chance(70) {
            return Term::text(self.random.pick(&known).clone());
        }
        if self.program.scalars.len() >= 4 {
            return self.literal(dtype);
        }
        self.add_scalar(dtype)
    }

    /// A scalar parameter that positions are made of.
    pub(super) fn index_parameter(&mut self) -> Term {
        let known = self.program.scalars.iter().find(|scalar| scalar.dtype == DType::I32);
        match known.map(|scalar| scalar.name.clone()) {
            Some(name) => Term::text(name),
            None => self.add_scalar(DType::I32),
        }
    }

    fn add_scalar(&mut self, dtype: DType) -> Term {
        let name = self.fresh("s");
        let value = match dtype {
            DType::Bool => self.random.below(2) as f64,
            dtype if dtype.is_float() => self.random.between(-24, 24) as f64 / 8.0,
            DType::U8 | DType::U32 => self.random.between(0, 12) as f64,
            _ => self.random.between(-4, 12) as f64,
        };
        self.program.scalars.push(Scalar { name: name.clone(), dtype, value });
        Term::text(name)
    }

    /// A scalar of a type.
    pub(super) fn scalar(&mut self, dtype: DType, depth: usize) -> Term {
        let vars = self.vars(|var| var.ty == Ty::scalar(dtype));
        let deep = if depth > 0 { 10 } else { 0 };
        match self.random.weighted(&[
            12,
            if vars.is_empty() { 0 } else { 30 },
            12,
            14,
            deep,
            deep,
            deep / 2,
            deep / 2,
        ]) {
            0 => self.literal(dtype),
            1 => self.recent(&vars).map_or_else(|| self.literal(dtype), |var| Term::text(var.name)),
            2 => self.scalar_parameter(dtype),
            3 => self.point_load(dtype),
            4 => self.operator(&Ty::scalar(dtype), depth),
            5 => self.conversion(&Ty::scalar(dtype), depth),
            6 => {
                let condition = self.scalar(DType::Bool, depth - 1);
                let (a, b) = (self.scalar(dtype, depth - 1), self.scalar(dtype, depth - 1));
                Term::of("where(#, #, #)", [condition, a, b])
            }
            _ => self.function(&Ty::scalar(dtype), depth),
        }
    }

    /// A value of a type that is no index.
    pub(super) fn expression(&mut self, ty: &Ty, depth: usize) -> Term {
        match ty.elem {
            Elem::Index => self.index(depth),
            Elem::Scalar(dtype) if ty.dims.is_empty() => self.scalar(dtype, depth),
            Elem::Scalar(dtype) => self.tile(dtype, &ty.dims, depth),
            Elem::Block(format) => self.block_load(format, &ty.dims),
        }
    }

    /// A value of the type from another type.
    pub(super) fn conversion(&mut self, ty: &Ty, depth: usize) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(depth) };
        if ty.dims.is_empty() && self.random.chance(30) {
            let index = self.index(depth - 1);
            return Term::of(&format!("{dtype}(#)"), [index]);
        }
        let from = self.kind();
        let operand = self.expression(&Ty { elem: Elem::Scalar(from), dims: ty.dims.clone() }, depth - 1);
        Term::of(&format!("{dtype}(#)"), [operand])
    }

    /// A function of one or more operands of the type.
    pub(super) fn function(&mut self, ty: &Ty, depth: usize) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(depth) };
        let operand = self.expression(ty, depth - 1);
        if dtype == DType::Bool {
            return Term::of("!#", [operand]);
        }
        if !dtype.is_float() {
            let template = *self.random.pick(&["abs(#)", "abs(#)", "(-#)", "(~#)", "min(#, #)", "max(#, #)"]);
            let other = self.expression(ty, depth - 1);
            return Term::of(template, [operand, other]);
        }
        match self.random.below(10) {
            0 => Term::of("(-#)", [operand]),
            1..=2 => {
                let other = self.expression(ty, depth - 1);
                let name = *self.random.pick(&["min", "max"]);
                Term::of(&format!("{name}(#, #)"), [operand, other])
            }
            3 => {
                let (b, c) = (self.expression(ty, depth - 1), self.expression(ty, depth - 1));
                // fma of f64 is not there at every level.
                if dtype == DType::F64 { operand } else { Term::of("fma(#, #, #)", [operand, b, c]) }
            }
            _ => {
                let name = *self.random.pick(&MATH);
                Term::of(&format!("{name}(#)"), [operand])
            }
        }
    }

    /// A binary operator that gives the type; sometimes of one operand with itself.
    pub(super) fn operator(&mut self, ty: &Ty, depth: usize) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(depth) };
        let compare = dtype == DType::Bool && self.random.chance(75);
        let operand_type = if compare { self.kind() } else { dtype };
        let operands = Ty { elem: Elem::Scalar(operand_type), dims: ty.dims.clone() };
        let left = self.expression(&operands, depth - 1);
        let right = match self.random.below(12) {
            0..=1 => left.clone(),
            2..=3 if operand_type != DType::Bool => {
                Term::text(format!("({})", self.bare_literal(operand_type)))
            }
            4..=6 => self.narrower(&operands, depth - 1),
            _ => self.expression(&operands, depth - 1),
        };
        let operators: &[&str] = match (compare, operand_type) {
            (true, DType::Bool) => &["==", "!="],
            (true, _) => &["==", "!=", "<", "<=", ">", ">="],
            (false, DType::Bool) => &["&&", "||"],
            (false, dtype) if dtype.is_float() => &["+", "+", "-", "*", "*", "/"],
            (false, _) => &["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"],
        };
        let operator = *self.random.pick(operators);
        let swap = self.random.chance(30);
        let pair = if swap { [right, left] } else { [left, right] };
        Term::of(&format!("(# {operator} #)"), pair)
    }
}
