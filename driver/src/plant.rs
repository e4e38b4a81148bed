//! A fault planted for tests: `PHOBOS_PLANT_ABORT=KERNEL` makes LLVM abort the process
//! on that kernel, as it does on whatever it cannot select. Nothing else reads it.

use phobos_artifact::HostLevel;
use phobos_dialect::{Module, PassError, build::Builder, ir};

/// The variable that names the kernel.
pub const VARIABLE: &str = "PHOBOS_PLANT_ABORT";

/// Adds a call of an AVX-512 intrinsic to the function of the kernel that the
/// environment names. Below v4 no instruction can be selected for it.
pub fn abort(module: &Module<'_>, kernel: &str, level: HostLevel) -> Result<(), PassError> {
    if level >= HostLevel::V4 || std::env::var_os(VARIABLE).is_none_or(|name| name != kernel) {
        return Ok(());
    }
    let all = ir::collect(ir::module_operation(module));
    let function = all.into_iter().find(|op| ir::name(*op) == "llvm.func");
    let Some(entry) = function.and_then(|function| ir::body(function, 0)) else { return Ok(()) };
    let (operations, arguments) = (ir::operations(entry), ir::arguments(entry));
    let (Some(first), Some(scratch)) = (operations.first(), arguments.last()) else { return Ok(()) };
    let builder = Builder::before(*first)?;
    let ty = builder.vector(16, builder.f32());
    let constant = |ty, value: &str| {
        builder.value("llvm.mlir.constant", &[], ty, &[("value", builder.parsed_attribute(value)?)])
    };
    let zeros = constant(ty, "dense<0.0> : vector<16xf32>")?;
    // Rounding to nearest without exceptions: the current mode would fold to an addition.
    let rounding = constant(builder.int(32), "8 : i32")?;
    let sum = builder.value(
        "llvm.call_intrinsic",
        &[zeros, zeros, rounding],
        ty,
        &[
            ("intrin", builder.string_attribute("llvm.x86.avx512.add.ps.512")),
            ("operandSegmentSizes", builder.parsed_attribute("array<i32: 3, 0>")?),
            ("op_bundle_sizes", builder.parsed_attribute("array<i32>")?),
        ],
    )?;
    let alignment = [("alignment", builder.i64_attribute(4))];
    builder.op("llvm.store", &[sum, *scratch], &[], &alignment, &[])?;
    Ok(())
}
