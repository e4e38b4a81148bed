//! `convert-phobos-to-host`: one program instance as native code.
//!
//! ```text
//! phobos.kernel @k(tensors, scalars) { tiles }
//!   ==>
//! llvm.func @phobos_entry(args, program id, scratch) { loops over vectors }
//! ```
//! Tiles that must exist as a whole live in scratch memory; all others are computed,
//! a vector at a time, where they are read ([`source::Source`]). Validity extents are
//! loop bounds, so the interior runs without masks and nothing outside a tensor is
//! read. A dot is a register-blocked micro-kernel, or streams rows when it has few
//! ([`dot`]).
//!
//! Needs a masked kernel with static tiles (phobos-specialize, phobos-fuse,
//! phobos-mask). Test: lit-tests/passes/convert-to-host.mlir.

mod arg_reduce;
mod body;
mod convert;
mod dot;
mod dot_blocks;
mod dot_integer;
mod dot_remark;
mod emit;
mod format;
mod half;
mod integer;
mod integer_panel;
mod math;
mod micro_kernel;
mod outline;
mod quantize;
mod reduce;
mod region;
mod source;
mod tile;

use std::collections::BTreeMap;

use melior::ir::{
    Location, ValueLike,
    attribute::{ArrayAttribute, StringAttribute, TypeAttribute},
    operation::OperationLike,
};
use phobos_dialect::{
    Op, PassError, Type, Val,
    build::Builder,
    driver::file_line_column,
    ir,
    pass::{Options, Pass, PassOption},
    types::{Dim, MemoryTensor},
};

use emit::Size;
use integer::IntegerDot;
use source::{Memory, Source, format_of};

use crate::{range::Ranges, tile_ops::check_sizes};

pub(crate) const PASS: Pass = Pass {
    name: "convert-phobos-to-host",
    description: "Lower masked kernels to loops over vectors for the host",
    anchor: "builtin.module",
    options: &[PassOption {
        name: "level",
        description: "x86-64 level: v2, v3, v4 or v4-vnni",
        default: "v3",
    }],
    run,
};

/// The name of the function in the object.
pub const ENTRY: &str = "phobos_entry";
/// The attribute of the function that says how much scratch it needs, in bytes.
pub const SCRATCH_ATTRIBUTE: &str = "phobos.scratch_bytes";
/// The attribute of the function with the remarks for `--explain`.
pub const REMARKS_ATTRIBUTE: &str = "phobos.remarks";

/// What the code may use.
#[derive(Clone, Copy)]
struct Target {
    /// f32 lanes of a vector register.
    lanes: u64,
    /// Rows of the dot micro-kernel: with two vectors a row, its accumulators and
    /// operands fit the register file.
    rows: usize,
    /// FMA and F16C are there.
    fma: bool,
    /// What multiplies integers.
    integer: IntegerDot,
    /// Rows and vectors of columns of the micro-kernel for integers: each has a sum of
    /// integers and one of floats in registers.
    integer_tile: (usize, u64),
}

impl Target {
    fn of(level: &str) -> Option<Target> {
        match level {
            "v2" => Some(Target {
                lanes: 4,
                rows: 4,
                fma: false,
                integer: IntegerDot::Generic,
                integer_tile: (4, 1),
            }),
            "v3" => Some(Target {
                lanes: 8,
                rows: 6,
                fma: true,
                integer: IntegerDot::Pairs,
                integer_tile: (4, 1),
            }),
            "v4" => Some(Target {
                lanes: 16,
                rows: 8,
                fma: true,
                integer: IntegerDot::Pairs,
                integer_tile: (4, 2),
            }),
            "v4-vnni" => Some(Target {
                lanes: 16,
                rows: 8,
                fma: true,
                integer: IntegerDot::Vnni,
                integer_tile: (6, 2),
            }),
            _ => None,
        }
    }
}

/// The names of the dims that are passed at launch, in ABI order: by first use in
/// the tensors of a kernel's signature.
pub fn dim_names<'c>(kernel: Op<'c>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let Some(function) = ir::function_type(kernel) else { return names };
    for index in 0..function.input_count() {
        let Some(tensor) = function.input(index).ok().and_then(MemoryTensor::from_type) else { continue };
        for dim in tensor.dims {
            if let Dim::Name(name) = dim
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
    }
    names
}

fn run<'c>(module: Op<'c>, options: &Options<'_>) -> Result<(), PassError> {
    let level = options.get("level");
    let target = Target::of(level).ok_or_else(|| {
        PassError::at(module, format!("level: `{level}` is not one of v2, v3, v4, v4-vnni"))
    })?;
    let kernels: Vec<_> = ir::blocks(module)
        .into_iter()
        .flat_map(ir::operations)
        .filter(|op| ir::name(*op) == "phobos.kernel")
        .collect();
    if let [_, second, ..] = kernels[..] {
        return Err(PassError::at(
            second,
            format!("a second kernel: its function would be `{ENTRY}` too, so a module has one kernel here"),
        ));
    }
    for kernel in kernels {
        convert(kernel, target)?;
        ir::erase(kernel);
    }
    Ok(())
}

/// Lowers one kernel to a function before it.
fn convert<'c>(kernel: Op<'c>, target: Target) -> Result<(), PassError> {
    check_sizes(kernel)?;
    let outer = Builder::before(kernel)?;
    let pointer = outer.pointer();
    let signature = Type::parse(outer.context(), "!llvm.func<void (ptr, ptr, ptr)>")
        .ok_or_else(|| PassError::at(kernel, "internal error: function type"))?;
    let function = outer.op(
        "llvm.func",
        &[],
        &[],
        &[
            ("sym_name", outer.string_attribute(ENTRY)),
            ("function_type", TypeAttribute::new(signature).into()),
            ("linkage", outer.parsed_attribute("#llvm.linkage<external>")?),
            // LLVM must not turn loops into calls: the object may need no library.
            ("passthrough", outer.parsed_attribute("[\"no-builtins\"]")?),
            ("arg_attrs", outer.parsed_attribute("[{}, {}, {llvm.noalias}]")?),
        ],
        &[&[pointer, pointer, pointer]],
    )?;
    let entry =
        ir::body(function, 0).ok_or_else(|| PassError::at(kernel, "internal error: no entry block"))?;
    let arguments = ir::arguments(entry);
    let [args, program, scratch] = arguments[..] else {
        return Err(PassError::at(kernel, "internal error: entry arguments"));
    };
    let mut lowering = Lowering {
        b: outer.in_block(entry),
        target,
        values: BTreeMap::new(),
        tiles: BTreeMap::new(),
        memories: BTreeMap::new(),
        dims: BTreeMap::new(),
        block_dims: BTreeMap::new(),
        program_ids: Vec::new(),
        scratch,
        scratch_bytes: 0,
        remarks: Vec::new(),
        ranges: Ranges::default(),
    };
    lowering.entry(kernel, args, program)?;
    let body = ir::body(kernel, 0).ok_or_else(|| PassError::at(kernel, "a kernel without a body"))?;
    lowering.block(body)?;
    lowering.b.op("llvm.return", &[], &[], &[], &[])?;
    lowering.halves_as_bits(function)?;
    lowering.outline(function, kernel)?;
    ir::set_attribute(function, SCRATCH_ATTRIBUTE, lowering.b.i64_attribute(lowering.scratch_bytes as i64));
    let remarks: Vec<_> =
        lowering.remarks.iter().map(|text| StringAttribute::new(outer.context(), text).into()).collect();
    ir::set_attribute(function, REMARKS_ATTRIBUTE, ArrayAttribute::new(outer.context(), &remarks).into());
    Ok(())
}

/// The state of lowering one kernel.
struct Lowering<'c> {
    b: Builder<'c>,
    target: Target,
    /// New values of the kernel's scalars; `index` became `i64`.
    values: BTreeMap<usize, Val<'c>>,
    /// Where the kernel's tiles are read from.
    tiles: BTreeMap<usize, Source<'c>>,
    /// The kernel's tensors.
    memories: BTreeMap<usize, Memory<'c>>,
    /// The dims passed at launch.
    dims: BTreeMap<String, Val<'c>>,
    /// Those that a tensor of a block format ends in, and the elements of its blocks.
    block_dims: BTreeMap<String, i64>,
    program_ids: Vec<Val<'c>>,
    scratch: Val<'c>,
    scratch_bytes: u64,
    remarks: Vec<String>,
    ranges: Ranges,
}

impl<'c> Lowering<'c> {
    /// Reads the arguments: tensors, scalars, then dims, a slot of 8 bytes each.
    fn entry(&mut self, kernel: Op<'c>, args: Val<'c>, program: Val<'c>) -> Result<(), PassError> {
        let body = ir::body(kernel, 0).ok_or_else(|| PassError::at(kernel, "a kernel without a body"))?;
        let parameters = ir::arguments(body);
        let mut slot = 0;
        let mut pointers = Vec::new();
        for parameter in &parameters {
            let place = self.byte_offset(args, Size::Const(8 * slot))?;
            let ty = parameter.r#type();
            match MemoryTensor::from_type(ty) {
                Some(tensor) => {
                    pointers.push((*parameter, tensor, self.raw_load(place, self.b.pointer(), 8)?))
                }
                None => {
                    let value = self.load_element(place, ty)?;
                    self.values.insert(ir::value_key(*parameter), value);
                }
            }
            slot += 1;
        }
        for name in dim_names(kernel) {
            let place = self.byte_offset(args, Size::Const(8 * slot))?;
            let value = self.raw_load(place, self.b.int(64), 8)?;
            self.dims.insert(name, value);
            slot += 1;
        }
        for (parameter, tensor, pointer) in pointers {
            // A format that is not known is an error where a tile of it is loaded.
            if let (Ok(Some(format)), Some(Dim::Name(name))) =
                (format_of(kernel, tensor.element), tensor.dims.last())
            {
                let block = self.block_dims.entry(name.clone()).or_insert(1);
                // The sizes of blocks are powers of two.
                *block = (*block).max(format.elements as i64);
            }
            let dims = tensor.dims.iter().map(|dim| self.dim(kernel, dim)).collect::<Result<Vec<_>, _>>()?;
            let written = ir::users(parameter)
                .into_iter()
                .any(|user| matches!(ir::name(user), "phobos.store" | "phobos.store_scalar"));
            let memory = Memory { pointer, dims, element: tensor.element, written };
            self.memories.insert(ir::value_key(parameter), memory);
        }
        for axis in 0..3 {
            let place = self.byte_offset(program, Size::Const(8 * axis))?;
            let id = self.raw_load(place, self.b.int(64), 8)?;
            self.program_ids.push(id);
        }
        Ok(())
    }

    fn dim(&self, kernel: Op<'c>, dim: &Dim) -> Result<Size<'c>, PassError> {
        match dim {
            Dim::Const(extent) => Ok(Size::Const(*extent)),
            Dim::Name(name) => self
                .dims
                .get(name)
                .map(|value| Size::Value(*value))
                .ok_or_else(|| PassError::at(kernel, format!("internal error: dim {name} has no value"))),
        }
    }

    /// Says which path an operation took and why.
    fn remark(&mut self, op: Op<'c>, text: &str) {
        let place = location_text(op.location());
        self.remarks.push(format!("{place}: {text}"));
    }
}

/// `file:line:column`, or `?` for a place that has none.
fn location_text(location: Location<'_>) -> String {
    file_line_column(location)
        .map_or_else(|| "?".to_owned(), |(file, line, column)| format!("{file}:{line}:{column}"))
}
