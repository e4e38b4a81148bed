//! Lowering of a checked `.ph` kernel to symbolic tile IR in the phobos dialect.
//!
//! Tiles become tensors whose dims may be names, `var` becomes SSA values carried by
//! `scf.for`, `scf.while` and `scf.if`, and every operation gets the location of its
//! `.ph` source. Reuses arith, math and scf; only what they lack is a phobos op.
//!
//! - [`Lowering`] walks statements ([`stmt`]) and expressions ([`expr`]);
//! - [`arith`] spells the language's scalar semantics (division by zero, saturating
//!   casts, shifts) in arith operations.

mod arith;
mod expr;
mod stmt;

use melior::ir::operation::OperationLike;
use phobos_artifact::{DType, Element};
use phobos_dialect::{
    Blk, Context, Location, Module, Op, PassError, Type, Val,
    build::Builder,
    ir,
    types::{Dim, MemoryTensor, Tile, block_type},
};
use phobos_lang::{Span, typed};

/// Where a span is, for MLIR: file, line and column from 1.
pub trait Locate {
    /// The place of the first byte of `span`.
    fn locate(&self, span: Span) -> (String, usize, usize);
}

/// A construct that the checker accepts and the compiler cannot do yet.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LowerError {
    /// Not available yet.
    #[error("{what} is not available yet")]
    Unsupported {
        /// The construct.
        what: String,
        /// Where it stands.
        span: Span,
        /// What to do instead.
        help: Option<&'static str>,
    },
    /// A bug: the typed tree broke one of its promises, or MLIR refused an operation.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<PassError> for LowerError {
    fn from(error: PassError) -> LowerError {
        LowerError::Internal(error.to_string())
    }
}

type Result<T> = std::result::Result<T, LowerError>;

/// Lowers `kernel` to a module that holds one `phobos.kernel`.
pub fn lower<'c>(context: &'c Context, kernel: &typed::Kernel, places: &dyn Locate) -> Result<Module<'c>> {
    let module = Module::new(location(context, places, kernel.span));
    // The module's body lives as long as the module; handles into it are dropped
    // before it is returned.
    let root: Op<'c> = ir::module_operation(&module);
    let body = ir::body(root, 0).ok_or_else(|| LowerError::Internal("a module without a body".into()))?;
    let builder = Builder::at_end(context, body, location(context, places, kernel.span));
    let (op, entry) = build_kernel(&builder, kernel)?;
    let arguments = ir::arguments(entry);
    let (tensors, scalars) = arguments.split_at(kernel.tensors.len());
    let mut lowering = Lowering {
        context,
        places,
        kernel,
        builder: builder.in_block(entry),
        tensors: tensors.to_vec(),
        scalars: scalars.to_vec(),
        vars: vec![None; kernel.vars.len()],
    };
    lowering.block(&kernel.body)?;
    lowering.builder.op("phobos.return", &[], &[], &[], &[])?;
    if !op.verify() {
        return Err(LowerError::Internal(format!("kernel `{}` does not verify", kernel.name)));
    }
    Ok(module)
}

fn location<'c>(context: &'c Context, places: &dyn Locate, span: Span) -> Location<'c> {
    let (file, line, column) = places.locate(span);
    Location::new(context, &file, line, column)
}

/// The `phobos.kernel` operation with an empty entry block.
fn build_kernel<'c>(builder: &Builder<'c>, kernel: &typed::Kernel) -> Result<(Op<'c>, Blk<'c>)> {
    let context = builder.context();
    let mut arguments = Vec::new();
    for tensor in &kernel.tensors {
        let dims = tensor.dims.iter().map(dim).collect();
        arguments.push(MemoryTensor { dims, element: element(builder, tensor.element) }.to_type(context));
    }
    arguments.extend(kernel.scalars.iter().map(|scalar| dtype(builder, scalar.dtype)));
    let function = melior::ir::r#type::FunctionType::new(context, &arguments, &[]);
    let params: Vec<_> = kernel
        .params
        .iter()
        .map(|param| {
            let values: Vec<_> =
                param.values.iter().map(|value| builder.i64_attribute(*value as i64)).collect();
            let values = melior::ir::attribute::ArrayAttribute::new(context, &values);
            (melior::ir::Identifier::new(context, &param.name), values.into())
        })
        .collect();
    let grid: Vec<_> = kernel.grid.iter().map(|axis| builder.string_attribute(&axis.to_string())).collect();
    let mut attributes = vec![
        ("sym_name", builder.string_attribute(&kernel.name)),
        ("function_type", melior::ir::attribute::TypeAttribute::new(function.into()).into()),
        ("grid", melior::ir::attribute::ArrayAttribute::new(context, &grid).into()),
    ];
    if !params.is_empty() {
        attributes.push(("params", melior::ir::attribute::DictionaryAttribute::new(context, &params).into()));
    }
    let op = builder.op("phobos.kernel", &[], &[], &attributes, &[&arguments])?;
    let entry = ir::body(op, 0).ok_or_else(|| LowerError::Internal("a kernel without a body".into()))?;
    Ok((op, entry))
}

/// The state of a lowering.
struct Lowering<'c, 'k> {
    context: &'c Context,
    places: &'k dyn Locate,
    kernel: &'k typed::Kernel,
    builder: Builder<'c>,
    tensors: Vec<Val<'c>>,
    scalars: Vec<Val<'c>>,
    vars: Vec<Option<Val<'c>>>,
}

impl<'c> Lowering<'c, '_> {
    /// The builder at the current place, with the location of `span`.
    fn at(&self, span: Span) -> Builder<'c> {
        self.builder.with_location(location(self.context, self.places, span))
    }

    fn var(&self, var: typed::VarId) -> Result<Val<'c>> {
        self.vars
            .get(var.0)
            .copied()
            .flatten()
            .ok_or_else(|| LowerError::Internal(format!("variable {} is read before it has a value", var.0)))
    }

    fn set_var(&mut self, var: typed::VarId, value: Val<'c>) {
        if let Some(slot) = self.vars.get_mut(var.0) {
            *slot = Some(value);
        }
    }

    fn tensor(&self, tensor: typed::TensorId) -> Result<(Val<'c>, &typed::Tensor)> {
        match (self.tensors.get(tensor.0), self.kernel.tensors.get(tensor.0)) {
            (Some(value), Some(declared)) => Ok((*value, declared)),
            _ => Err(LowerError::Internal(format!("tensor {} does not exist", tensor.0))),
        }
    }

    /// The MLIR type of a value.
    fn ty(&self, ty: &typed::Type) -> Result<Type<'c>> {
        match ty {
            typed::Type::Index => Ok(self.builder.index()),
            typed::Type::Scalar(scalar) => Ok(dtype(&self.builder, *scalar)),
            typed::Type::Tile(tile) => Ok(self.tile(tile).to_type(self.context)),
            typed::Type::Unit => Err(LowerError::Internal("a value of type unit".into())),
        }
    }

    fn tile(&self, tile: &typed::TileType) -> Tile<'c> {
        Tile::new(tile.dims.iter().map(dim).collect(), element(&self.builder, tile.element))
    }
}

fn dim(dim: &typed::Dim) -> Dim {
    match dim {
        typed::Dim::Const(extent) => Dim::Const(*extent as i64),
        typed::Dim::Param(name) | typed::Dim::TensorDim(name) => Dim::Name(name.clone()),
    }
}

fn dtype<'c>(builder: &Builder<'c>, dtype: DType) -> Type<'c> {
    match dtype {
        DType::Bool => builder.int(1),
        DType::I8 | DType::U8 => builder.int(8),
        DType::I16 => builder.int(16),
        DType::I32 | DType::U32 => builder.int(32),
        DType::I64 => builder.int(64),
        DType::F16 => Type::float16(builder.context()),
        DType::Bf16 => Type::bfloat16(builder.context()),
        DType::F32 => Type::float32(builder.context()),
        DType::F64 => Type::float64(builder.context()),
    }
}

fn element<'c>(builder: &Builder<'c>, element: Element) -> Type<'c> {
    match element {
        Element::Scalar(scalar) => dtype(builder, scalar),
        Element::Block(format) => block_type(builder.context(), format.name),
    }
}
