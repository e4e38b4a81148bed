//! Well-typed kernels from a seed.
//!
//! What is generated follows the types: an expression of a type is made from parts that give
//! that type, down to loads, variables and literals. Tensors come into being where one is
//! wanted. Extents are small and odd, so that every tail is met, and slices begin before,
//! inside and beyond their tensors. Whether two programs touch one place is left to the
//! oracle, which refuses such kernels; stores are only made so that most do not.

mod index;
mod memory;
mod scalar;
mod statement;
mod tile;

use phobos_artifact::{DType, format::Format};

use crate::{
    data::{Fill, Values},
    program::{Extent, ExtentName, Program, Statement, Term},
    random::Random,
};

/// An element type of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Elem {
    Index,
    Scalar(DType),
    Block(&'static Format),
}

/// The type of a value; without dims a scalar.
#[derive(Clone, Debug, PartialEq)]
struct Ty {
    elem: Elem,
    /// Extents by number.
    dims: Vec<usize>,
}

impl Ty {
    fn index() -> Ty {
        Ty { elem: Elem::Index, dims: Vec::new() }
    }

    fn scalar(dtype: DType) -> Ty {
        Ty { elem: Elem::Scalar(dtype), dims: Vec::new() }
    }

    fn tile(dtype: DType, dims: &[usize]) -> Ty {
        Ty { elem: Elem::Scalar(dtype), dims: dims.to_vec() }
    }
}

/// A variable in scope.
#[derive(Clone, Debug)]
struct Var {
    name: String,
    ty: Ty,
    mutable: bool,
}

/// The most elements of a tile: vectors, their tails, and kernels that compile at once.
const MOST_ELEMENTS: u64 = 640;

struct Generator {
    random: Random,
    program: Program,
    scopes: Vec<Vec<Var>>,
    names: usize,
    /// Axes of the grid whose programs the kernel tells apart, each with how many.
    programs: Vec<u64>,
    /// Extents of this kernel's tiles.
    pool: Vec<usize>,
    /// Element types of this kernel, the most frequent first.
    kinds: Vec<DType>,
    /// Whether tensors that are written may be read.
    in_place: bool,
    written: Vec<usize>,
    /// Statements that may still be made.
    budget: usize,
    loops: usize,
}

/// The program of a seed.
pub fn generate(seed: u64) -> Program {
    let mut random = Random::new(seed);
    random.bits();
    let mut generator = Generator {
        random,
        program: Program::default(),
        scopes: vec![Vec::new()],
        names: 0,
        programs: Vec::new(),
        pool: Vec::new(),
        kinds: Vec::new(),
        in_place: false,
        written: Vec::new(),
        budget: 0,
        loops: 0,
    };
    generator.kernel();
    generator.program
}

impl Generator {
    fn kernel(&mut self) {
        self.in_place = self.random.chance(25);
        self.budget = 2 + self.random.below(9);
        self.choose_kinds();
        self.choose_pool();
        let axes = self.random.weighted(&[40, 45, 15]);
        for axis in 0..axes {
            let count = 1 + self.random.below(3) as u64;
            self.programs.push(count);
            let term = if self.random.chance(50) {
                Term::text(count.to_string())
            } else {
                let name = format!("G{axis}");
                Term::extent(self.add_extent(ExtentName::Dim(name, false), count))
            };
            self.program.grid.push(term);
        }
        if axes == 0 {
            self.program.grid.push(Term::text("1"));
        }
        let mut body = Vec::new();
        for axis in 0..axes {
            if self.random.chance(70) {
                let name = format!("p{axis}");
                body.push(Statement::Line(Term::text(format!("let {name} = program_id({axis})"))));
                self.declare(name, Ty::index(), false);
            }
        }
        while self.budget > 0 {
            self.statement(&mut body, 0);
        }
        let stores = 1 + self.random.below(2);
        for _ in 0..stores {
            self.store(&mut body);
        }
        self.program.body = body;
        self.bind_loose_dims();
        if self.random.chance(30) {
            // Where the stores say it, the grid need not be written.
            let derived = Program { grid: Vec::new(), ..self.program.clone() };
            if crate::judge::check(&derived.text()).is_ok() {
                self.program = derived;
            }
        }
    }

    fn choose_kinds(&mut self) {
        const FLOATS: [DType; 4] = [DType::F32, DType::F16, DType::Bf16, DType::F64];
        const INTEGERS: [DType; 6] = [DType::I32, DType::U8, DType::I8, DType::I16, DType::U32, DType::I64];
        let mut kinds = vec![DType::F32];
        for _ in 0..1 + self.random.below(3) {
            let list: &[DType] = if self.random.chance(50) { &FLOATS } else { &INTEGERS };
            kinds.push(*self.random.pick(list));
        }
        if self.random.chance(40) {
            kinds.swap_remove(0);
        }
        self.kinds = kinds;
    }

    fn choose_pool(&mut self) {
        const TILES: [u64; 14] = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 20, 32, 33];
        for at in 0..2 + self.random.below(2) {
            let value = *self.random.pick(&TILES);
            let id = match self.random.below(10) {
                0..=1 => {
                    let other = *self.random.pick(&TILES);
                    let mut values = vec![value, other];
                    values.sort_unstable();
                    values.dedup();
                    // Two values are a range; a third makes it a list.
                    if values.len() == 2 {
                        values.push(64);
                    }
                    self.add_extent(ExtentName::Param(format!("T{at}"), values), value)
                }
                2 => self.add_extent(ExtentName::Dim(format!("D{at}"), true), value),
                _ => self.number(value),
            };
            self.pool.push(id);
        }
        if self.random.chance(35) {
            // Whole blocks, more often than the others.
            let value = *self.random.pick(&[32, 32, 64]);
            let id = self.number(value);
            self.pool.push(id);
            self.pool.push(id);
        }
        let one = self.number(1);
        if self.random.chance(30) {
            self.pool.push(one);
        }
    }

    /// Dims that no tensor has cannot be bound by a launch.
    fn bind_loose_dims(&mut self) {
        let used: Vec<usize> = self.program.tensors.iter().flat_map(|tensor| tensor.dims.clone()).collect();
        for (id, extent) in self.program.extents.iter_mut().enumerate() {
            if matches!(extent.name, ExtentName::Dim(..)) && !used.contains(&id) {
                extent.name = ExtentName::Number;
            }
        }
    }

    fn add_extent(&mut self, name: ExtentName, value: u64) -> usize {
        self.program.extents.push(Extent { name, value });
        self.program.extents.len() - 1
    }

    /// The extent that is written as this number.
    fn number(&mut self, value: u64) -> usize {
        let found = self
            .program
            .extents
            .iter()
            .position(|extent| extent.name == ExtentName::Number && extent.value == value);
        found.unwrap_or_else(|| self.add_extent(ExtentName::Number, value))
    }

    fn value(&self, extent: usize) -> u64 {
        self.program.extents[extent].value
    }

    fn is_number(&self, extent: usize, value: u64) -> bool {
        self.program.extents[extent].name == ExtentName::Number && self.value(extent) == value
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn declare(&mut self, name: String, ty: Ty, mutable: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(Var { name, ty, mutable });
        }
    }

    fn vars(&self, choose: impl Fn(&Var) -> bool) -> Vec<Var> {
        self.scopes.iter().flatten().filter(|var| choose(var)).cloned().collect()
    }

    /// The latest variables come more often: what was just made is used.
    fn recent(&mut self, vars: &[Var]) -> Option<Var> {
        if vars.is_empty() {
            return None;
        }
        let from = if self.random.chance(50) { vars.len().saturating_sub(2) } else { 0 };
        Some(vars[from + self.random.below(vars.len() - from)].clone())
    }

    fn kind(&mut self) -> DType {
        let kinds = self.kinds.clone();
        if self.random.chance(8) { DType::Bool } else { *self.random.pick(&kinds) }
    }

    fn extent(&mut self) -> usize {
        let pool = self.pool.clone();
        *self.random.pick(&pool)
    }

    /// Dims of a new tile.
    fn dims(&mut self) -> Vec<usize> {
        let rank = 1 + self.random.weighted(&[35, 50, 12, 3]);
        let mut dims = Vec::new();
        for _ in 0..rank {
            dims.push(self.extent());
        }
        if self.random.chance(20) {
            // Axes of extent 1 stretch, are dropped, and keep a validity of their own.
            let at = self.random.below(rank);
            dims[at] = self.number(1);
        }
        self.limit(&mut dims);
        dims
    }

    /// Makes axes shorter until the tile is small enough.
    fn limit(&mut self, dims: &mut [usize]) {
        for axis in 0..dims.len() {
            if dims.iter().map(|dim| self.value(*dim)).product::<u64>() <= MOST_ELEMENTS {
                return;
            }
            dims[axis] = self.number(2 + axis as u64 % 2);
        }
    }

    fn fill(&mut self) -> Fill {
        let values = [Values::Integers, Values::Eighths, Values::Spread, Values::Edges];
        let at = self.random.weighted(&[45, 25, 20, 10]);
        Fill { seed: self.random.bits(), values: values[at] }
    }

    /// `[a, b]` of extents.
    fn list(&self, dims: &[usize]) -> Term {
        let template = format!("[{}]", vec!["#"; dims.len()].join(", "));
        Term::of(&template, dims.iter().map(|dim| Term::extent(*dim)))
    }
}
