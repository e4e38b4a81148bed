//! Tiles.

use phobos_artifact::{
    DType,
    format::{ACTIVATIONS, ALL, Format},
};

use super::{Elem, Generator, Ty};
use crate::program::Term;

impl Generator {
    /// A tile of scalars.
    pub(super) fn tile(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Term {
        let ty = Ty::tile(dtype, dims);
        let vars = self.vars(|var| var.ty == ty);
        if depth == 0 || self.random.chance(30) {
            return self.leaf(&ty);
        }
        if !vars.is_empty() && self.random.chance(20) {
            return self.leaf(&ty);
        }
        for _ in 0..4 {
            if let Some(term) = self.compound(dtype, dims, depth) {
                return term;
            }
        }
        self.operator(&ty, depth)
    }

    fn leaf(&mut self, ty: &Ty) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(0) };
        let vars = self.vars(|var| var.ty == *ty);
        match self.random.weighted(&[if vars.is_empty() { 0 } else { 60 }, 60, 6, 4, 4]) {
            0 => self.recent(&vars).map_or_else(|| self.load(ty), |var| Term::text(var.name)),
            1 => self.load(ty),
            2 => {
                let scalar = self.scalar(dtype, 0);
                let list = self.list(&ty.dims);
                Term::of("broadcast(#, #)", [scalar, list])
            }
            3 => self.narrow_broadcast(dtype, &ty.dims, 0),
            _ if dtype == DType::Bool => self.load(ty),
            _ => {
                let axis = self.random.below(ty.dims.len());
                let list = self.list(&ty.dims);
                let iota = Term::of(&format!("iota(#, {axis})"), [list]);
                if dtype == DType::I32 { iota } else { Term::of(&format!("{dtype}(#)"), [iota]) }
            }
        }
    }

    /// A tile with some axes of 1 or missing, stretched to the dims.
    fn narrow_broadcast(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Term {
        let narrow = self.narrow_dims(dims);
        let operand = self.expression(&Ty::tile(dtype, &narrow), depth);
        let list = self.list(dims);
        Term::of("broadcast(#, #)", [operand, list])
    }

    /// Dims that stretch to `dims`.
    fn narrow_dims(&mut self, dims: &[usize]) -> Vec<usize> {
        let one = self.number(1);
        let drop = self.random.below(dims.len());
        let mut narrow: Vec<usize> = dims[drop..].to_vec();
        for dim in &mut narrow {
            if self.random.chance(35) {
                *dim = one;
            }
        }
        narrow
    }

    /// A value that stretches to the type where both meet.
    pub(super) fn narrower(&mut self, ty: &Ty, depth: usize) -> Term {
        let Elem::Scalar(dtype) = ty.elem else { return self.index(depth) };
        if ty.dims.is_empty() || self.random.chance(30) {
            return self.scalar(dtype, depth.min(1));
        }
        let dims = self.narrow_dims(&ty.dims);
        self.expression(&Ty::tile(dtype, &dims), depth)
    }

    /// An operation of tiles; nothing where what was drawn does not give the type.
    fn compound(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Option<Term> {
        let ty = Ty::tile(dtype, dims);
        let number = dtype != DType::Bool;
        let inner = depth - 1;
        match self.random.weighted(&[30, 14, 8, 8, 16, 12, 5, 6, 8, 4, 4, 25, 6, 4]) {
            0 => Some(self.operator(&ty, depth)),
            1 => Some(self.function(&ty, depth)),
            2 => Some(self.conversion(&ty, depth)),
            3 => Some(self.choice(dtype, dims, inner)),
            4 => self.reduction(dtype, dims, inner),
            5 if dims.len() == 2 => self.product(dtype, dims, inner),
            6 if dims.len() == 2 => {
                let operand = self.tile(dtype, &[dims[1], dims[0]], inner);
                Some(Term::of("transpose(#)", [operand]))
            }
            7 => self.reshape(dtype, dims, inner),
            8 => Some(self.tile_slice(dtype, dims, inner)),
            9 if number => {
                let axis = self.random.below(dims.len());
                let operand = self.tile(dtype, dims, inner);
                Some(Term::of(&format!("cumsum(#, {axis})"), [operand]))
            }
            10 if dims.len() == 2 && number => {
                let operand = self.tile(dtype, dims, inner);
                Some(Term::of("tril(#)", [operand]))
            }
            11 if dtype == DType::F32 => self.decoded(dims, inner),
            12 if dims.len() == 2 && number => self.function_call(dtype, dims, inner),
            13 => Some(self.narrow_broadcast(dtype, dims, inner)),
            _ => None,
        }
    }

    /// `where`, sometimes with the same value on both sides.
    fn choice(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Term {
        let ty = Ty::tile(dtype, dims);
        let condition = match self.random.below(4) {
            0 => self.scalar(DType::Bool, depth),
            1 => self.narrower(&Ty::tile(DType::Bool, dims), depth),
            _ => self.tile(DType::Bool, dims, depth),
        };
        let then = self.tile(dtype, dims, depth);
        let otherwise = match self.random.below(6) {
            0 => then.clone(),
            1..=2 => self.narrower(&ty, depth),
            _ => self.tile(dtype, dims, depth),
        };
        Term::of("where(#, #, #)", [condition, then, otherwise])
    }

    /// A reduction to an axis of 1, or of an axis that is put back by stretching.
    fn reduction(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Option<Term> {
        let ones: Vec<usize> = (0..dims.len()).filter(|axis| self.is_number(dims[*axis], 1)).collect();
        if ones.is_empty() {
            let one = self.number(1);
            let axis = self.random.below(dims.len());
            let mut reduced = dims.to_vec();
            reduced[axis] = one;
            let operand = self.reduction(dtype, &reduced, depth)?;
            let list = self.list(dims);
            return Some(Term::of("broadcast(#, #)", [operand, list]));
        }
        let axis = *self.random.pick(&ones);
        let mut whole = dims.to_vec();
        whole[axis] = self.extent();
        if whole.iter().map(|dim| self.value(*dim)).product::<u64>() > super::MOST_ELEMENTS {
            return None;
        }
        let written = if self.random.chance(30) { axis as i64 - dims.len() as i64 } else { axis as i64 };
        if dtype == DType::Bool {
            let name = *self.random.pick(&["any", "all"]);
            let operand = self.tile(dtype, &whole, depth);
            return Some(Term::of(&format!("{name}(#, {written})"), [operand]));
        }
        if dtype == DType::I32 && self.random.chance(50) {
            let (name, from) = (*self.random.pick(&["argmax", "argmin"]), self.number_kind());
            let operand = self.tile(from, &whole, depth);
            return Some(Term::of(&format!("{name}(#, {written})"), [operand]));
        }
        let operand = self.tile(dtype, &whole, depth);
        if axis + 1 == dims.len() && self.random.chance(20) {
            let name = *self.random.pick(&["rowsum", "rowmax"]);
            return Some(Term::of(&format!("{name}(#)"), [operand]));
        }
        let name = *self.random.pick(&["sum", "sum", "reduce_max", "reduce_min", "prod"]);
        Some(Term::of(&format!("{name}(#, {written})"), [operand]))
    }

    pub(super) fn number_kind(&mut self) -> DType {
        loop {
            let kind = self.kind();
            if kind != DType::Bool {
                return kind;
            }
        }
    }

    /// A matrix product with a result of the type.
    fn product(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Option<Term> {
        use DType::{Bf16, F16, F32, I8, I16, I32, U8};
        let inner = self.extent();
        let transposed = self.random.chance(50);
        if dtype == F32 && self.random.chance(35) {
            return self.block_product(dims, depth);
        }
        let (a, b) = match dtype {
            F32 => *self.random.pick(&[
                (F32, F32),
                (F32, F32),
                (F16, F16),
                (Bf16, Bf16),
                (F16, Bf16),
                (F32, F16),
            ]),
            I32 => *self.random.pick(&[(I8, I8), (U8, U8), (I16, I16), (I32, I32)]),
            DType::F64 | DType::I64 | DType::U32 => (dtype, dtype),
            _ => return None,
        };
        let right = if transposed { [dims[1], inner] } else { [inner, dims[1]] };
        let (left, right) = (self.tile(a, &[dims[0], inner], depth), self.tile(b, &right, depth));
        let name = if transposed { "dot_t" } else { "dot" };
        // Which changes nothing on the host.
        let precision =
            if (a, b) == (F32, F32) && self.random.chance(10) { ", precision = tf32" } else { "" };
        Some(Term::of(&format!("{name}(#, #{precision})"), [left, right]))
    }

    /// A product with weights, in blocks or quantised on both sides.
    fn block_product(&mut self, dims: &[usize], depth: usize) -> Option<Term> {
        let format = self.weights();
        let inner = self.block_extent(format);
        let right = self.block_value(format, &[dims[1], inner]);
        let left = if self.random.chance(40) && self.value(inner).is_multiple_of(32) {
            let activations = *self.random.pick(&ACTIVATIONS);
            self.quantized(activations, &[dims[0], inner], depth)
        } else {
            let kind = *self.random.pick(&[DType::F32, DType::F32, DType::F32, DType::F16, DType::Bf16]);
            self.tile(kind, &[dims[0], inner], depth.min(1))
        };
        Some(Term::of("dot_t(#, #)", [left, right]))
    }

    fn quantized(&mut self, format: &'static Format, dims: &[usize], depth: usize) -> Term {
        let ty = Ty { elem: Elem::Block(format), dims: dims.to_vec() };
        let vars = self.vars(|var| var.ty == ty);
        if !vars.is_empty() && self.random.chance(30) {
            return Term::text(self.random.pick(&vars).name.clone());
        }
        let operand = self.tile(DType::F32, dims, depth.min(1));
        Term::of(&format!("quantize(#, {})", format.name), [operand])
    }

    pub(super) fn weights(&mut self) -> &'static Format {
        // Those with long blocks make long kernels.
        let short: Vec<&'static Format> = ALL.into_iter().filter(|format| format.elements == 32).collect();
        let list: &[&'static Format] = if self.random.chance(93) { &short } else { &ALL };
        list[self.random.below(list.len())]
    }

    /// An extent of whole blocks.
    pub(super) fn block_extent(&mut self, format: &Format) -> usize {
        let blocks = if format.elements > 32 { 1 } else { 1 + self.random.below(2) as u64 };
        self.number(format.elements as u64 * blocks)
    }

    /// A tile of a format: a variable or a load.
    fn block_value(&mut self, format: &'static Format, dims: &[usize]) -> Term {
        let ty = Ty { elem: Elem::Block(format), dims: dims.to_vec() };
        let vars = self.vars(|var| var.ty == ty);
        if !vars.is_empty() && self.random.chance(60) {
            return Term::text(self.random.pick(&vars).name.clone());
        }
        self.block_load(format, dims)
    }

    /// Blocks as f32, where the last extent is whole blocks.
    fn decoded(&mut self, dims: &[usize], depth: usize) -> Option<Term> {
        let last = *dims.last()?;
        if !matches!(self.program.extents[last].name, crate::program::ExtentName::Number) || dims.len() > 2 {
            return None;
        }
        let value = self.value(last);
        if !value.is_multiple_of(32) {
            return None;
        }
        let operand = if self.random.chance(30) {
            let format = *self.random.pick(&ACTIVATIONS);
            self.quantized(format, dims, depth)
        } else {
            let format = loop {
                let format = self.weights();
                if value.is_multiple_of(format.elements as u64) {
                    break format;
                }
            };
            self.block_value(format, dims)
        };
        Some(Term::of("f32(#)", [operand]))
    }

    /// Axes of 1 come and go; a tile that is whole may be folded otherwise.
    fn reshape(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Option<Term> {
        let list = self.list(dims);
        let ones: Vec<usize> = (0..dims.len()).filter(|axis| self.is_number(dims[*axis], 1)).collect();
        let mut from = dims.to_vec();
        match self.random.below(3) {
            0 if dims.len() < 4 => {
                let (one, at) = (self.number(1), self.random.below(dims.len() + 1));
                from.insert(at, one);
            }
            1 if !ones.is_empty() && dims.len() > 1 => {
                from.remove(*self.random.pick(&ones));
            }
            2 if dims.len() == 2 && dims.iter().all(|dim| self.plain(*dim)) => {
                let all = self.number(self.value(dims[0]) * self.value(dims[1]));
                let source = self.filled_load(&Ty::tile(dtype, &[all]));
                return Some(Term::of("reshape(#, #)", [source, list]));
            }
            _ if dims.len() == 2 && self.is_number(dims[0], 1) => {
                let operand = self.tile(dtype, &[dims[1]], depth);
                return Some(Term::of("flat(#)", [operand]));
            }
            _ => return None,
        }
        let operand = self.tile(dtype, &from, depth);
        Some(Term::of("reshape(#, #)", [operand, list]))
    }

    fn plain(&self, extent: usize) -> bool {
        self.program.extents[extent].name == crate::program::ExtentName::Number
    }

    /// A slice of a tile that is as long or longer on each axis, perhaps with an axis more.
    fn tile_slice(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Term {
        let mut whole = Vec::new();
        for dim in dims {
            let longer: Vec<usize> =
                self.pool.iter().copied().filter(|other| self.fits(*dim, *other)).collect();
            let longer = if longer.is_empty() { vec![*dim] } else { longer };
            whole.push(*self.random.pick(&longer));
        }
        let mut point = None;
        if dims.len() < 3 && self.random.chance(35) {
            let at = self.random.below(dims.len() + 1);
            let extent = self.extent();
            whole.insert(at, extent);
            point = Some(at);
        }
        if whole.iter().map(|dim| self.value(*dim)).product::<u64>() > super::MOST_ELEMENTS {
            return self.load(&Ty::tile(dtype, dims));
        }
        let ty = Ty::tile(dtype, &whole);
        let vars = self.vars(|var| var.ty == ty);
        let operand = match self.recent(&vars) {
            Some(var) if self.random.chance(70) => Term::text(var.name),
            _ => {
                let operand = self.tile(dtype, &whole, depth);
                Term::of("(#)", [operand])
            }
        };
        let mut terms = vec![operand];
        let mut template = "#[".to_owned();
        let mut spans = dims.iter();
        for (axis, extent) in whole.iter().enumerate() {
            if axis > 0 {
                template.push_str(", ");
            }
            template.push('#');
            if point == Some(axis) {
                terms.push(self.position(*extent, true));
                continue;
            }
            let Some(span) = spans.next() else { continue };
            terms.push(self.span(*span, *extent, true));
        }
        Term::of(&format!("{template}]"), terms)
    }

    /// Whether an axis of `whole` can be sliced to `part`, as far as the checker knows.
    fn fits(&self, part: usize, whole: usize) -> bool {
        part == whole || self.plain(part) && self.plain(whole) && self.value(part) <= self.value(whole)
    }

    /// A call of a function of the language.
    fn function_call(&mut self, dtype: DType, dims: &[usize], depth: usize) -> Option<Term> {
        const FUNCTIONS: [&str; 3] = [
            "fn scaled[T: dtype](x: tile<T>[R, C], y: tile<T>[R, 1], s: T) -> tile<T>[R, C] { return x * s + y }",
            "fn spread[T: dtype](x: tile<T>[R, C]) -> tile<T>[R, C] { let m = reduce_max(x, 1); return m - x }",
            "fn pick[T: dtype](x: tile<T>[R, C], y: tile<T>[R, C], i: index) {\n  var r = x\n  if i > 1 {\n    r = y\n  }\n  return where(x == y, r, x)\n}",
        ];
        let one = self.number(1);
        let x = self.tile(dtype, dims, depth);
        let which = self.random.below(FUNCTIONS.len());
        let call = match which {
            0 => {
                let y = self.tile(dtype, &[dims[0], one], depth);
                let s = self.scalar(dtype, 0);
                Term::of("scaled(#, #, #)", [x, y, s])
            }
            1 => Term::of("spread(#)", [x]),
            _ => {
                let y = self.tile(dtype, dims, depth);
                let i = self.index(0);
                Term::of("pick(#, #, #)", [x, y, i])
            }
        };
        let text = FUNCTIONS[which].to_owned();
        if !self.program.functions.contains(&text) {
            self.program.functions.push(text);
        }
        Some(call)
    }
}
