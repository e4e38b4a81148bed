//! A kernel's metadata with every name resolved to an index, once at load, so that a
//! launch compares numbers only.

pub use phobos_artifact::limits::{MAX_ARGUMENTS, MAX_DIMS, MAX_RANK};
use phobos_artifact::{
    ArgKind, ChipFacts, Contract, DType, Element, Extent, GridExpr, IndexBits, Metadata,
    limits::{MAX_EXTENT, MAX_PROGRAMS},
};

pub(crate) struct Signature {
    /// In ABI order.
    pub arguments: Vec<ArgumentSpec>,
    pub dims: Vec<DimSpec>,
    pub checks: Vec<Check>,
    pub grid: [GridCode; 3],
    /// The most programs along each axis and altogether.
    pub grid_limits: [u64; 3],
    pub program_limit: u64,
}

pub(crate) struct ArgumentSpec {
    pub name: String,
    pub kind: ArgumentKind,
}

pub(crate) enum ArgumentKind {
    Tensor { element: Element, alignment: u64, shape: Vec<ExtentSpec>, writes: bool },
    Scalar(DType),
    Dim(usize),
}

impl ArgumentKind {
    pub fn noun(&self) -> &'static str {
        match self {
            ArgumentKind::Tensor { .. } => "tensor",
            ArgumentKind::Scalar(_) => "scalar",
            ArgumentKind::Dim(_) => "dim",
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum ExtentSpec {
    Const(u64),
    Dim(usize),
}

pub(crate) struct DimSpec {
    pub name: String,
    /// The value that was compiled in.
    pub bound: Option<u64>,
    /// The largest value that fits the kernel's index type.
    pub limit: u64,
}

/// A contract with its names resolved.
pub(crate) enum Check {
    Multiple { dim: usize, of: u64 },
    AtLeast { dim: usize, limit: u64 },
    AtMost { dim: usize, limit: u64 },
    Elements { argument: usize, limit: u64 },
}

/// A grid expression over dim indices.
pub(crate) enum GridCode {
    Const(u64),
    Dim(usize),
    CeilDiv(Box<GridCode>, Box<GridCode>),
    Mul(Box<GridCode>, Box<GridCode>),
    Add(Box<GridCode>, Box<GridCode>),
}

impl GridCode {
    /// The value; `None` on overflow and on division by zero.
    pub fn eval(&self, dims: &[u64]) -> Option<u64> {
        match self {
            GridCode::Const(value) => Some(*value),
            GridCode::Dim(index) => dims.get(*index).copied(),
            GridCode::CeilDiv(a, b) => {
                let (a, b) = (a.eval(dims)?, b.eval(dims)?);
                (b != 0).then(|| a.div_ceil(b))
            }
            GridCode::Mul(a, b) => a.eval(dims)?.checked_mul(b.eval(dims)?),
            GridCode::Add(a, b) => a.eval(dims)?.checked_add(b.eval(dims)?),
        }
    }
}

impl Signature {
    /// Resolves `metadata`; the error says what is wrong with it.
    pub fn resolve(metadata: &Metadata) -> Result<Signature, String> {
        if metadata.arguments.len() > MAX_ARGUMENTS {
            return Err(format!("{} arguments, at most {MAX_ARGUMENTS}", metadata.arguments.len()));
        }
        let mut dims = Dims { specs: Vec::new(), limit: index_limit(metadata.index_bits) };
        let mut arguments = Vec::with_capacity(metadata.arguments.len());
        let mut section = 0;
        for argument in &metadata.arguments {
            let name = &argument.name;
            if arguments.iter().any(|earlier: &ArgumentSpec| earlier.name == *name) {
                return Err(format!("two arguments are called `{name}`"));
            }
            let (place, kind) = match &argument.kind {
                ArgKind::Tensor { element, shape, access } => {
                    if shape.len() > MAX_RANK {
                        return Err(format!("`{name}` has {} axes, at most {MAX_RANK}", shape.len()));
                    }
                    let shape = shape
                        .iter()
                        .map(|extent| match extent {
                            Extent::Const(value) => Ok(ExtentSpec::Const(*value)),
                            Extent::Name(dim) => dims.index(dim).map(ExtentSpec::Dim),
                        })
                        .collect::<Result<_, _>>()?;
                    let alignment = crate::tensor::Tensor::alignment(*element);
                    (0, ArgumentKind::Tensor { element: *element, alignment, shape, writes: access.writes() })
                }
                ArgKind::Scalar { dtype } => (1, ArgumentKind::Scalar(*dtype)),
                ArgKind::Dim => (2, ArgumentKind::Dim(dims.index(name)?)),
            };
            if place < section {
                return Err(format!("`{name}` is out of order: tensors, then scalars, then dims"));
            }
            section = place;
            arguments.push(ArgumentSpec { name: name.clone(), kind });
        }
        for (name, value) in &metadata.bound_dims {
            let index = dims.index(name)?;
            if let Some(spec) = dims.specs.get_mut(index) {
                spec.bound = Some(*value);
            }
        }
        let checks = metadata
            .contracts
            .iter()
            .map(|contract| resolve_contract(contract, &dims, &arguments))
            .collect::<Result<_, _>>()?;
        let [x, y, z] = &metadata.grid;
        let code = |expr| resolve_grid(expr, metadata, &dims);
        let grid = [code(x)?, code(y)?, code(z)?];
        let host = metadata.chip.is_host();
        Ok(Signature {
            arguments,
            dims: dims.specs,
            checks,
            grid,
            grid_limits: match metadata.chip.facts() {
                ChipFacts::Host(_) => [MAX_PROGRAMS; 3],
                ChipFacts::Gpu(facts) => facts.grid,
            },
            program_limit: if host { MAX_PROGRAMS } else { u64::MAX },
        })
    }

    /// The index of the argument called `name`.
    pub fn argument(&self, name: &str) -> Option<usize> {
        self.arguments.iter().position(|argument| argument.name == name)
    }

    pub fn dim_name(&self, index: usize) -> String {
        self.dims.get(index).map(|dim| dim.name.clone()).unwrap_or_default()
    }
}

/// The largest dim that the index type holds. Sums and products have contracts of
/// their own.
fn index_limit(bits: IndexBits) -> u64 {
    match bits {
        IndexBits::B32 => i32::MAX as u64,
        IndexBits::B64 => MAX_EXTENT,
    }
}

struct Dims {
    specs: Vec<DimSpec>,
    limit: u64,
}

impl Dims {
    fn find(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|spec| spec.name == name)
    }

    /// The index of `name`, new if it was not seen before.
    fn index(&mut self, name: &str) -> Result<usize, String> {
        if let Some(index) = self.find(name) {
            return Ok(index);
        }
        if self.specs.len() == MAX_DIMS {
            return Err(format!("more than {MAX_DIMS} named dims"));
        }
        self.specs.push(DimSpec { name: name.to_owned(), bound: None, limit: self.limit });
        Ok(self.specs.len() - 1)
    }
}

fn resolve_contract(contract: &Contract, dims: &Dims, arguments: &[ArgumentSpec]) -> Result<Check, String> {
    let find = |dim: &str| dims.find(dim).ok_or_else(|| format!("a contract names the unknown dim `{dim}`"));
    match contract {
        Contract::Multiple { dim, of: 0 } => Err(format!("`{dim}` cannot be a multiple of 0")),
        Contract::Multiple { dim, of } => Ok(Check::Multiple { dim: find(dim)?, of: *of }),
        Contract::AtLeast { dim, limit } => Ok(Check::AtLeast { dim: find(dim)?, limit: *limit }),
        Contract::AtMost { dim, limit } => Ok(Check::AtMost { dim: find(dim)?, limit: *limit }),
        Contract::TensorElements { tensor, limit } => {
            let argument = arguments
                .iter()
                .position(|spec| spec.name == *tensor && matches!(spec.kind, ArgumentKind::Tensor { .. }))
                .ok_or_else(|| format!("a contract names the unknown tensor `{tensor}`"))?;
            Ok(Check::Elements { argument, limit: *limit })
        }
    }
}

fn resolve_grid(expr: &GridExpr, metadata: &Metadata, dims: &Dims) -> Result<GridCode, String> {
    let pair = |a: &GridExpr, b: &GridExpr| -> Result<_, String> {
        Ok((Box::new(resolve_grid(a, metadata, dims)?), Box::new(resolve_grid(b, metadata, dims)?)))
    };
    Ok(match expr {
        GridExpr::Const(value) => GridCode::Const(*value),
        GridExpr::Name(name) => {
            let known = metadata.bound_dims.get(name).or_else(|| metadata.params.get(name));
            match (known, dims.find(name)) {
                (Some(value), _) => GridCode::Const(*value),
                (None, Some(index)) => GridCode::Dim(index),
                (None, None) => return Err(format!("the grid names the unknown dim `{name}`")),
            }
        }
        GridExpr::CeilDiv(a, b) => {
            let (a, b) = pair(a, b)?;
            GridCode::CeilDiv(a, b)
        }
        GridExpr::Mul(a, b) => {
            let (a, b) = pair(a, b)?;
            GridCode::Mul(a, b)
        }
        GridExpr::Add(a, b) => {
            let (a, b) = pair(a, b)?;
            GridCode::Add(a, b)
        }
    })
}
