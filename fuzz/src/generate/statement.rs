//! Statements other than stores.

use phobos_artifact::{DType, Element, format::ACTIVATIONS};

use super::{Elem, Generator, Ty};
use crate::program::{ExtentName, Statement, Term};

/// The deepest nest of loops and branches.
const DEEPEST: usize = 3;

impl Generator {
    /// One statement, and what it needs.
    pub(super) fn statement(&mut self, block: &mut Vec<Statement>, depth: usize) {
        self.budget = self.budget.saturating_sub(1);
        let mutable = self.vars(|var| var.mutable);
        let tiles = mutable.iter().filter(|var| !var.ty.dims.is_empty()).count();
        let nest = if depth < DEEPEST { 1 } else { 0 };
        let weights = [
            24,
            16,
            if mutable.is_empty() { 0 } else { 20 },
            if tiles == 0 { 0 } else { 10 },
            14 * nest,
            10 * nest,
            5 * nest,
            6,
            if depth == 0 { 0 } else { 6 },
            8 * nest,
            6 * nest,
        ];
        match self.random.weighted(&weights) {
            0 => self.binding(block),
            1 => self.variable(block),
            2 => self.assignment(block),
            3 => self.insertion(block),
            4 => self.counted_loop(block, depth),
            5 => self.branch(block, depth),
            6 => self.while_loop(block, depth),
            7 => self.blocks(block),
            9 => self.product_loop(block),
            10 => self.reduction_loop(block),
            _ => self.store(block),
        }
    }

    fn line(block: &mut Vec<Statement>, template: &str, terms: impl IntoIterator<Item = Term>) {
        block.push(Statement::Line(Term::of(template, terms)));
    }

    /// A type for a new variable.
    fn ty(&mut self) -> Ty {
        match self.random.below(8) {
            0 => Ty::index(),
            1..=2 => Ty::scalar(self.kind()),
            _ => {
                let dims = self.dims();
                Ty { elem: Elem::Scalar(self.kind()), dims }
            }
        }
    }

    fn binding(&mut self, block: &mut Vec<Statement>) {
        let ty = self.ty();
        let depth = 1 + self.random.below(3);
        let (name, value) = (self.fresh("v"), self.expression(&ty, depth));
        Self::line(block, &format!("let {name} = #"), [value]);
        self.declare(name, ty, false);
    }

    fn variable(&mut self, block: &mut Vec<Statement>) {
        let ty = self.ty();
        let name = self.fresh("a");
        match (ty.elem, ty.dims.as_slice()) {
            (Elem::Scalar(dtype), dims @ [_, ..]) if self.random.chance(35) => {
                let list = self.list(dims);
                let literal = match dtype {
                    DType::Bool => "false".to_owned(),
                    dtype => self.bare_literal(dtype),
                };
                Self::line(block, &format!("var {name}: tile<{dtype}># = {literal}"), [list]);
            }
            _ => {
                let depth = self.random.below(3);
                let value = self.expression(&ty, depth);
                Self::line(block, &format!("var {name} = #"), [value]);
            }
        }
        self.declare(name, ty, true);
    }

    fn assignment(&mut self, block: &mut Vec<Statement>) {
        let mutable = self.vars(|var| var.mutable);
        let Some(var) = self.recent(&mutable) else { return };
        let depth = 1 + self.random.below(2);
        let operator = match var.ty.elem {
            Elem::Scalar(DType::Bool) => "=",
            _ => *self.random.pick(&["=", "=", "+=", "+=", "-=", "*="]),
        };
        let value = match var.ty.elem {
            Elem::Scalar(_) if operator != "=" && self.random.chance(30) => self.narrower(&var.ty, depth),
            _ => self.expression(&var.ty, depth),
        };
        // Indices grow slowly, so that they mean something.
        let operator = if var.ty.elem == Elem::Index && operator == "*=" { "+=" } else { operator };
        Self::line(block, &format!("{} {operator} #", var.name), [value]);
    }

    fn insertion(&mut self, block: &mut Vec<Statement>) {
        let tiles = self.vars(|var| var.mutable && !var.ty.dims.is_empty());
        let Some(var) = self.recent(&tiles) else { return };
        let Elem::Scalar(dtype) = var.ty.elem else { return };
        let (mut template, mut terms, mut dims) = (format!("{}[", var.name), Vec::new(), Vec::new());
        for (axis, whole) in var.ty.dims.clone().into_iter().enumerate() {
            template.push_str(if axis > 0 { ", #" } else { "#" });
            let rest = var.ty.dims.len() - axis;
            if self.random.chance(35) && (rest > 1 || !dims.is_empty()) {
                terms.push(self.position(whole, true));
                continue;
            }
            let length = 1 + self.random.below(self.value(whole) as usize) as u64;
            let part = if self.random.chance(30) { whole } else { self.number(length) };
            dims.push(part);
            terms.push(self.span(part, whole, true));
        }
        let depth = self.random.below(2);
        let operator = if dtype != DType::Bool && self.random.chance(30) { "+=" } else { "=" };
        let value = if dims.is_empty() { self.scalar(dtype, depth) } else { self.tile(dtype, &dims, depth) };
        terms.push(value);
        Self::line(block, &format!("{template}] {operator} #"), terms);
    }

    /// The statements of a nested block.
    fn body(&mut self, depth: usize) -> Vec<Statement> {
        self.scopes.push(Vec::new());
        let mut body = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            self.statement(&mut body, depth + 1);
        }
        self.scopes.pop();
        body
    }

    fn counted_loop(&mut self, block: &mut Vec<Statement>, depth: usize) {
        let name = self.fresh("i");
        let small = Term::text(self.random.between(0, 4).to_string());
        let range = match self.random.below(6) {
            0 => Term::of("#", [small]),
            1 => {
                let from = self.random.between(-2, 2);
                Term::of(&format!("{from}, {from} + #, 1"), [small])
            }
            2 => {
                let extent = self.extent();
                let step = self.value(extent).div_ceil(3);
                Term::of(&format!("0, #, {step}"), [Term::extent(extent)])
            }
            3 => {
                let n = self.index_parameter();
                Term::of("0, min(#, 3)", [n])
            }
            4 => {
                let (a, b) = (self.index(0), self.index(0));
                Term::of("#, #, 3", [a, b])
            }
            _ => Term::of("0, #, 2", [small]),
        };
        let head = Term::of(&format!("for {name} in range(#)"), [range]);
        self.scopes.push(Vec::new());
        self.declare(name, Ty::index(), false);
        self.loops += 1;
        let body = self.body(depth);
        self.loops -= 1;
        self.scopes.pop();
        block.push(Statement::Block { head, body, otherwise: None });
    }

    fn branch(&mut self, block: &mut Vec<Statement>, depth: usize) {
        let condition = if self.random.chance(50) {
            let operator = *self.random.pick(&["<", "<=", ">", "==", "!="]);
            let (a, b) = (self.index_variable(), self.index(0));
            Term::of(&format!("(# {operator} #)"), [a, b])
        } else {
            self.scalar(DType::Bool, 1)
        };
        let head = Term::of("if #", [condition]);
        let body = self.body(depth);
        let otherwise = if self.random.chance(50) { Some(self.body(depth)) } else { None };
        block.push(Statement::Block { head, body, otherwise });
    }

    /// A loop that ends: a counter of its own, or a flag that one keeps.
    fn while_loop(&mut self, block: &mut Vec<Statement>, depth: usize) {
        let (counter, limit) = (self.fresh("c"), self.random.between(0, 4));
        Self::line(block, &format!("var {counter}: i32 = 0"), []);
        let flag = self.random.chance(30).then(|| self.fresh("g"));
        let head = match &flag {
            Some(flag) => {
                Self::line(block, &format!("var {flag} = true"), []);
                Term::text(format!("while {flag}"))
            }
            None => Term::text(format!("while {counter} < {limit}")),
        };
        self.scopes.push(Vec::new());
        if self.random.chance(60) {
            self.declare(counter.clone(), Ty::scalar(DType::I32), false);
        }
        let mut body = self.body(depth);
        self.scopes.pop();
        Self::line(&mut body, &format!("{counter} += 1"), []);
        if let Some(flag) = flag {
            Self::line(&mut body, &format!("{flag} = {counter} < {limit}"), []);
        }
        block.push(Statement::Block { head, body, otherwise: None });
        if self.random.chance(40) {
            self.declare(counter, Ty::scalar(DType::I32), false);
        }
    }

    /// A tile of blocks, to be used later.
    fn blocks(&mut self, block: &mut Vec<Statement>) {
        let rows = self.extent();
        let name = self.fresh("w");
        if self.random.chance(40) {
            let format = *self.random.pick(&ACTIVATIONS);
            let count = 1 + self.random.below(2) as u64;
            let columns = self.number(32 * count);
            let value = self.tile(DType::F32, &[rows, columns], 1);
            Self::line(block, &format!("let {name} = quantize(#, {})", format.name), [value]);
            self.declare(name, Ty { elem: Elem::Block(format), dims: vec![rows, columns] }, false);
            return;
        }
        let format = self.weights();
        let columns = self.block_extent(format);
        let value = self.block_load(format, &[rows, columns]);
        Self::line(block, &format!("let {name} = #"), [value]);
        self.declare(name, Ty { elem: Elem::Block(format), dims: vec![rows, columns] }, false);
    }

    /// A matrix product in steps of the inner axis, as kernels write it; the last step may reach
    /// beyond the operands.
    fn product_loop(&mut self, block: &mut Vec<Statement>) {
        use DType::{Bf16, F16, F32, F64, I8, I32};
        let (rows, columns) = (self.extent(), self.extent());
        let (left, right, result) = *self.random.pick(&[
            (F32, Some(F32), F32),
            (F32, Some(F32), F32),
            (F16, Some(F16), F32),
            (F16, Some(F16), F16),
            (Bf16, Some(Bf16), F32),
            (F64, Some(F64), F64),
            (I8, Some(I8), I32),
            (F32, None, F32),
            (F32, None, F32),
            (F16, None, F32),
            (Bf16, None, F32),
        ]);
        let format = right.is_none().then(|| self.weights());
        let step = match format {
            Some(format) => self.block_extent(format),
            None => self.extent(),
        };
        let length = self.value(step) * (1 + self.random.below(3) as u64);
        let whole = match format {
            Some(_) => length,
            None => (length as i64 + self.random.between(-3, 1)).max(1) as u64,
        };
        let inner = match self.random.below(2) {
            0 => self.number(whole),
            _ => {
                let name = self.fresh("N");
                self.add_extent(ExtentName::Dim(name, false), whole)
            }
        };
        let transposed = format.is_some() || self.random.chance(50);
        let around = |generator: &mut Self, extent: usize| {
            let near = (generator.value(extent) as i64 + generator.random.between(-2, 3)).max(1) as u64;
            generator.number(near)
        };
        let (outer_rows, outer_columns) = (around(self, rows), around(self, columns));
        let x = self.add_tensor("X", Element::Scalar(left), vec![outer_rows, inner]);
        let dims = if transposed { vec![outer_columns, inner] } else { vec![inner, outer_columns] };
        let w = self.add_tensor("W", right.map_or(Element::Scalar(F32), Element::Scalar), dims);
        if let Some(format) = format {
            self.program.tensors[w].element = Element::Block(format);
        }
        let (x, w) = (self.program.tensors[x].name.clone(), self.program.tensors[w].name.clone());
        let (acc, k) = (self.fresh("a"), self.fresh("i"));
        let list = self.list(&[rows, columns]);
        Self::line(block, &format!("var {acc}: tile<{result}># = 0.0"), [list]);
        if result == I32 {
            block.pop();
            let list = self.list(&[rows, columns]);
            Self::line(block, &format!("var {acc}: tile<i32># = 0"), [list]);
        }
        let (start_rows, start_columns) =
            (self.start(rows, outer_rows, false), self.start(columns, outer_columns, false));
        let operand =
            Term::of(&format!("{x}[# :+ #, {k} :+ #]"), [start_rows, Term::extent(rows), Term::extent(step)]);
        let operand = match format {
            Some(_) if left == F32 && self.random.chance(50) => {
                let format = *self.random.pick(&ACTIVATIONS);
                Term::of(&format!("quantize(#, {})", format.name), [operand])
            }
            _ => operand,
        };
        let (first, second) = ((start_columns, Term::extent(columns)), Term::extent(step));
        let (name, right) = if transposed {
            ("dot_t", Term::of(&format!("{w}[# :+ #, {k} :+ #]"), [first.0, first.1, second]))
        } else {
            ("dot", Term::of(&format!("{w}[{k} :+ #, # :+ #]"), [second, first.0, first.1]))
        };
        let update = Statement::Line(Term::of(&format!("{acc} += {name}(#, #)"), [operand, right]));
        let head = Term::of(&format!("for {k} in range(0, #, #)"), [Term::extent(inner), Term::extent(step)]);
        block.push(Statement::Block { head, body: vec![update], otherwise: None });
        self.declare(acc, Ty::tile(result, &[rows, columns]), true);
    }

    /// A tensor walked along an axis in tiles, the last of which may be cut.
    fn reduction_loop(&mut self, block: &mut Vec<Statement>) {
        let dims = self.dims();
        let dtype = self.number_kind();
        let (axis, one) = (self.random.below(dims.len()), self.number(1));
        let step = dims[axis];
        let length = (self.value(step) * 2) as i64 + self.random.between(-3, 3);
        let name = self.fresh("N");
        let whole = self.add_extent(ExtentName::Dim(name, false), length.max(1) as u64);
        let mut shape = dims.clone();
        shape[axis] = whole;
        let tensor = self.add_tensor("X", Element::Scalar(dtype), shape);
        let tensor = self.program.tensors[tensor].name.clone();
        let (acc, i) = (self.fresh("a"), self.fresh("i"));
        let mut narrow = dims.clone();
        narrow[axis] = one;
        let (list, literal) = (self.list(&narrow), self.bare_literal(dtype));
        Self::line(block, &format!("var {acc}: tile<{dtype}># = {literal}"), [list]);
        let spans: Vec<String> = (0..dims.len())
            .map(|at| if at == axis { format!("{i} :+ #") } else { "0 :+ #".to_owned() })
            .collect();
        let load =
            Term::of(&format!("{tensor}[{}]", spans.join(", ")), dims.iter().map(|dim| Term::extent(*dim)));
        let value = match self.random.below(3) {
            0 => Term::of("# * #", [load.clone(), load]),
            1 => Term::of("# - #", [load, Term::text(acc.clone())]),
            _ => load,
        };
        let update = match self.random.below(4) {
            0 => Term::of(&format!("{acc} = max({acc}, reduce_max(#, {axis}))"), [value]),
            1 => Term::of(&format!("{acc} = min({acc}, reduce_min(#, {axis}))"), [value]),
            _ => Term::of(&format!("{acc} += sum(#, {axis})"), [value]),
        };
        let head = Term::of(&format!("for {i} in range(0, #, #)"), [Term::extent(whole), Term::extent(step)]);
        block.push(Statement::Block { head, body: vec![Statement::Line(update)], otherwise: None });
        self.declare(acc, Ty::tile(dtype, &narrow), true);
    }
}
