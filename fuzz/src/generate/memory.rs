//! Tensors, and slices of them.

use phobos_artifact::{DType, Element, format::Format};

use super::{Elem, Generator, Ty};
use crate::program::{ExtentName, Statement, Tensor, Term};

/// The most tensors of a kernel.
const MOST_TENSORS: usize = 9;

impl Generator {
    /// The extent of a tensor's axis that slices of `extent` go along.
    fn axis(&mut self, extent: usize, blocks: u64) -> usize {
        let length = self.value(extent) as i64;
        let value = match self.random.below(5) {
            0 | 1 => length,
            2 => length + self.random.between(-2, 2),
            3 => length * self.random.between(1, 3) + self.random.between(-1, 3),
            _ => self.random.between(1, length + 4),
        };
        let value = (value.max(1) as u64).div_ceil(blocks) * blocks;
        match self.random.below(3) {
            0 if self.plain_or_bound(extent) => extent,
            1 => self.number(value),
            _ => {
                let known: Vec<usize> = (0..self.program.extents.len())
                    .filter(|id| {
                        let extent = &self.program.extents[*id];
                        matches!(&extent.name, ExtentName::Dim(name, _) if name.starts_with('N'))
                            && extent.value.is_multiple_of(blocks)
                    })
                    .collect();
                if !known.is_empty() && self.random.chance(40) {
                    return *self.random.pick(&known);
                }
                let name = self.fresh("N");
                let bound = self.random.chance(20);
                self.add_extent(ExtentName::Dim(name, bound), value)
            }
        }
    }

    fn plain_or_bound(&self, extent: usize) -> bool {
        !matches!(self.program.extents[extent].name, ExtentName::Dim(_, false))
    }

    pub(super) fn add_tensor(&mut self, prefix: &str, element: Element, dims: Vec<usize>) -> usize {
        let (name, fill) = (self.fresh(prefix), self.fill());
        self.program.tensors.push(Tensor { name, element, dims, fill });
        self.program.tensors.len() - 1
    }

    /// A tensor with an element that tiles of `rank` axes can be read from, and where points go.
    fn readable(&mut self, element: Element, dims: &[usize]) -> usize {
        let most = dims.len() + 1;
        let known: Vec<usize> = (0..self.program.tensors.len())
            .filter(|id| {
                let tensor = &self.program.tensors[*id];
                let rank = tensor.dims.len();
                tensor.element == element
                    && (dims.len()..=most).contains(&rank)
                    && (self.in_place || !self.written.contains(id))
            })
            .collect();
        let full = self.program.tensors.len() >= MOST_TENSORS;
        if !known.is_empty() && (full || self.random.chance(55)) {
            return *self.random.pick(&known);
        }
        let mut axes = Vec::new();
        for dim in dims {
            axes.push(self.axis(*dim, 1));
        }
        if dims.len() < 4 && self.random.chance(35) {
            let at = self.random.below(dims.len() + 1);
            let one = self.number(3);
            let extent = self.axis(one, 1);
            axes.insert(at, extent);
        }
        self.add_tensor("X", element, axes)
    }

    /// A span as it is written: `a :+ n`, `a : a + n`, or `:` for the whole axis.
    pub(super) fn span(&mut self, extent: usize, whole: usize, inside: bool) -> Term {
        if extent == whole && self.plain_or_bound(extent) && self.random.chance(25) {
            return Term::text(":");
        }
        let start = self.start(extent, whole, inside);
        // The checker follows sums and products, and of variables only those.
        let text = self.program.print(&start);
        if self.random.chance(8) && !text.contains(['%', '/', 'v', 'a']) {
            return Term::of("# : (#) + #", [start.clone(), start, Term::extent(extent)]);
        }
        Term::of("# :+ #", [start, Term::extent(extent)])
    }

    /// Subscripts of a tensor for a tile of `dims`: the axes left over are points.
    fn subscripts(&mut self, tensor: usize, dims: &[usize]) -> Vec<Term> {
        let axes = self.program.tensors[tensor].dims.clone();
        let mut points = axes.len() - dims.len();
        let mut spans = dims.iter();
        let mut terms = Vec::new();
        for (axis, whole) in axes.iter().enumerate() {
            let left = axes.len() - axis;
            if points > 0 && (points == left || self.random.chance(40)) {
                points -= 1;
                terms.push(self.position(*whole, false));
            } else if let Some(extent) = spans.next() {
                terms.push(self.span(*extent, *whole, false));
            }
        }
        terms
    }

    fn sliced(&self, tensor: usize, subscripts: Vec<Term>) -> Term {
        let name = &self.program.tensors[tensor].name;
        let places = vec!["#"; subscripts.len()].join(", ");
        Term::of(&format!("{name}[{places}]"), subscripts)
    }

    /// A slice of a tensor as a tile, sometimes filled.
    pub(super) fn load(&mut self, ty: &Ty) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(0) };
        if self.random.chance(12) {
            return self.filled_load(ty);
        }
        let tensor = self.readable(Element::Scalar(dtype), &ty.dims);
        let subscripts = self.subscripts(tensor, &ty.dims);
        self.sliced(tensor, subscripts)
    }

    /// `A[...] else v`
    pub(super) fn filled_load(&mut self, ty: &Ty) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(0) };
        let tensor = self.readable(Element::Scalar(dtype), &ty.dims);
        let subscripts = self.subscripts(tensor, &ty.dims);
        let slice = self.sliced(tensor, subscripts);
        let fill = self.scalar(dtype, 0);
        Term::of("(# else #)", [slice, fill])
    }

    /// One element of a tensor.
    pub(super) fn point_load(&mut self, dtype: DType) -> Term {
        let tensor = {
            let one = self.number(2);
            self.readable(Element::Scalar(dtype), &[one])
        };
        let axes = self.program.tensors[tensor].dims.clone();
        let mut terms = Vec::new();
        for axis in axes {
            terms.push(self.position(axis, false));
        }
        self.sliced(tensor, terms)
    }

    /// Whole blocks of a tensor of a format; `dims` end in whole blocks.
    pub(super) fn block_load(&mut self, format: &'static Format, dims: &[usize]) -> Term {
        let element = Element::Block(format);
        let blocks = format.elements as u64;
        let known: Vec<usize> = (0..self.program.tensors.len())
            .filter(|id| {
                let tensor = &self.program.tensors[*id];
                tensor.element == element && !self.written.contains(id) && tensor.dims.len() >= dims.len()
            })
            .collect();
        let full = self.program.tensors.len() >= MOST_TENSORS;
        let tensor = if !known.is_empty() && (full || self.random.chance(60)) {
            *self.random.pick(&known)
        } else {
            let mut axes = Vec::new();
            if dims.len() == 1 || self.random.chance(15) {
                let three = self.number(3);
                axes.push(self.axis(three, 1));
            }
            for (axis, dim) in dims.iter().enumerate() {
                let last = axis + 1 == dims.len();
                axes.push(self.axis(*dim, if last { blocks } else { 1 }));
            }
            self.add_tensor("W", element, axes)
        };
        let axes = self.program.tensors[tensor].dims.clone();
        let points = axes.len() - dims.len();
        let mut terms = Vec::new();
        for whole in &axes[..points] {
            terms.push(self.position(*whole, false));
        }
        for (axis, dim) in dims.iter().enumerate() {
            if axis + 1 < dims.len() {
                terms.push(self.span(*dim, axes[points + axis], false));
                continue;
            }
            let start = match self.random.below(6) {
                0..=2 => Term::text("0"),
                3 => Term::text(blocks.to_string()),
                _ => Term::of(&format!("# * {blocks}"), [self.index_variable()]),
            };
            terms.push(Term::of("# :+ #", [start, Term::extent(*dim)]));
        }
        self.sliced(tensor, terms)
    }

    /// A place to store a tile of `dims`, which each program has for itself; nothing where the
    /// dims have no place for a program.
    fn own_place(&mut self, element: Element, dims: &[usize], blocks: u64) -> Term {
        let mut axes: Vec<(usize, Option<usize>)> = dims.iter().map(|dim| (*dim, None)).collect();
        let mut points = Vec::new();
        for axis in 0..self.programs.len() {
            let free: Vec<usize> = (0..axes.len()).filter(|at| axes[*at].1.is_none()).collect();
            if !free.is_empty() && self.random.chance(60) {
                axes[*self.random.pick(&free)].1 = Some(axis);
            } else {
                points.push(axis);
            }
        }
        let (mut extents, mut terms) = (Vec::new(), Vec::new());
        for axis in points {
            let count = self.programs[axis];
            let number = self.number(count);
            extents.push(if self.random.chance(50) { number } else { self.axis(number, 1) });
            terms.push(self.program_id(axis));
        }
        for (at, (dim, program)) in axes.iter().enumerate() {
            let blocks = if at + 1 == axes.len() { blocks } else { 1 };
            let Some(program) = program else {
                let whole = self.axis(*dim, blocks);
                extents.push(whole);
                terms.push(match blocks {
                    1 => self.span(*dim, whole, false),
                    _ => Term::of("0 :+ #", [Term::extent(*dim)]),
                });
                continue;
            };
            let all = self.value(*dim) * self.programs[*program];
            let all = (all as i64 + self.random.between(-2, 2)).max(1) as u64;
            let all = all.div_ceil(blocks) * blocks;
            let name = self.fresh("N");
            let whole = if self.random.chance(50) {
                self.number(all)
            } else {
                self.add_extent(ExtentName::Dim(name, false), all)
            };
            extents.push(whole);
            let id = self.program_id(*program);
            terms.push(Term::of("# * # :+ #", [id, Term::extent(*dim), Term::extent(*dim)]));
        }
        let tensor = self.add_tensor("Y", element, extents);
        self.written.push(tensor);
        self.sliced(tensor, terms)
    }

    /// A store of some value, of all kinds.
    pub(super) fn store(&mut self, block: &mut Vec<Statement>) {
        let vars = self.vars(|var| !var.ty.dims.is_empty() && matches!(var.ty.elem, Elem::Scalar(_)));
        if !self.programs.is_empty() && self.random.chance(10) {
            let dtype = self.kind();
            let place = self.own_place(Element::Scalar(dtype), &[], 1);
            let value = self.scalar(dtype, 2);
            block.push(Statement::Line(Term::of("# = #", [place, value])));
            return;
        }
        let (dtype, dims) = match self.recent(&vars) {
            Some(var) if self.random.chance(75) => match var.ty.elem {
                Elem::Scalar(dtype) => (dtype, var.ty.dims),
                _ => return,
            },
            _ => (self.kind(), self.dims()),
        };
        let last = dims.last().map_or(1, |dim| self.value(*dim));
        let plain = dims.last().is_some_and(|dim| self.program.extents[*dim].name == ExtentName::Number);
        if dtype == DType::F32
            && plain
            && last.is_multiple_of(32)
            && dims.len() <= 2
            && self.random.chance(35)
        {
            let format = *self.random.pick(&phobos_artifact::format::ACTIVATIONS);
            let place = self.own_place(Element::Block(format), &dims, 32);
            let value = self.tile(dtype, &dims, 1);
            block.push(Statement::Line(Term::of(
                &format!("# = quantize(#, {})", format.name),
                [place, value],
            )));
            return;
        }
        let depth = self.random.below(3);
        let value = self.tile(dtype, &dims, depth);
        let place = self.own_place(Element::Scalar(dtype), &dims, 1);
        let operator = match self.random.below(8) {
            0 if dtype != DType::Bool => "+=",
            1 if dtype != DType::Bool => "*=",
            _ => "=",
        };
        block.push(Statement::Line(Term::of(&format!("# {operator} #"), [place, value])));
    }
}
