//! Indices: positions, starts of slices, bounds of loops.

use super::{Elem, Generator, Ty};
use crate::program::Term;

impl Generator {
    /// An index of any kind, mostly small.
    pub(super) fn index(&mut self, depth: usize) -> Term {
        match self.random.weighted(&[25, 35, 10, 8, if depth > 0 { 22 } else { 0 }]) {
            0 => Term::text(self.random.between(0, 6).to_string()),
            1 => self.index_variable(),
            2 => self.index_parameter(),
            3 => {
                let mut extents = self.pool.clone();
                extents.extend(self.program.tensors.iter().flat_map(|tensor| tensor.dims.clone()));
                Term::extent(*self.random.pick(&extents))
            }
            _ => {
                let (a, b) = (self.index(depth - 1), self.index(depth - 1));
                let operator = *self.random.pick(&["+", "+", "-", "*", "%", "/"]);
                match operator {
                    "%" | "/" => Term::of(&format!("(# {operator} #)"), [a, Term::text("3")]),
                    _ => Term::of(&format!("(# {operator} #)"), [a, b]),
                }
            }
        }
    }

    /// A loop variable, a program id or a variable that is an index.
    pub(super) fn index_variable(&mut self) -> Term {
        let vars = self.vars(|var| var.ty.dims.is_empty() && var.ty.elem == Elem::Index);
        if let Some(var) = self.recent(&vars) {
            return Term::text(var.name);
        }
        match self.programs.len() {
            0 => Term::text(self.random.between(0, 4).to_string()),
            axes => self.program_id(axes - 1),
        }
    }

    /// An index that the checker knows nothing of: a loop variable, a program id, a parameter.
    fn runtime_index(&mut self) -> Term {
        let loops = self.vars(|var| var.ty == Ty::index() && var.name.starts_with('i'));
        match self.recent(&loops) {
            Some(var) if self.random.chance(60) => Term::text(var.name),
            _ if !self.programs.is_empty() && self.random.chance(50) => self.program_id(0),
            _ => self.index_parameter(),
        }
    }

    /// The id of this program on an axis.
    pub(super) fn program_id(&mut self, axis: usize) -> Term {
        let name = format!("p{axis}");
        let named = self.vars(|var| var.name == name).len() == 1;
        Term::text(if named { name } else { format!("program_id({axis})") })
    }

    /// The start of a span of `extent` on an axis of a tensor or tile of `whole`; constants
    /// stay inside if `inside`.
    pub(super) fn start(&mut self, extent: usize, whole: usize, inside: bool) -> Term {
        let room = self.value(whole).saturating_sub(self.value(extent)) as i64;
        let axes = self.programs.len();
        match self.random.weighted(&[34, if axes > 0 { 22 } else { 0 }, 12, 12, 8, 4, 8]) {
            0 => Term::text("0"),
            1 => {
                let axis = self.random.below(axes);
                let id = self.program_id(axis);
                let start = Term::of("# * #", [id, Term::extent(extent)]);
                match self.random.below(4) {
                    0 => Term::of("# + #", [start, Term::text(self.random.between(1, 3).to_string())]),
                    1 => Term::of("# - #", [start, Term::text("1")]),
                    _ => start,
                }
            }
            2 if inside => self.runtime_index(),
            2 => self.index_variable(),
            3 => Term::text(self.random.between(0, if inside { room } else { room + 3 }).to_string()),
            4 => {
                let n = self.index_parameter();
                match self.random.below(3) {
                    0 => Term::of("# - 3", [n]),
                    1 => Term::of("# + #", [n, self.runtime_index()]),
                    _ => n,
                }
            }
            5 if !inside => Term::text(format!("-{}", self.random.between(1, 3))),
            5 => Term::text("0"),
            _ if inside => self.runtime_index(),
            _ => self.index(1),
        }
    }

    /// A position on an axis of `whole`.
    pub(super) fn position(&mut self, whole: usize, inside: bool) -> Term {
        let extent = self.number(1);
        self.start(extent, whole, inside)
    }
}
