//! `phobos-simplify`: canonicalise what is no tile.
//!
//! ```text
//! %i = arith.muli %c2, %c32 : index          ==>  %i = arith.constant 64 : index
//! %z = arith.subi %x, %x : tensor<8xi32>     ==>  the same
//! ```
//! A tile has more than its elements: how much of it is valid follows from the operands of
//! its operations. MLIR's folds know nothing of that, and would make `x - x` a constant, which
//! is wholly valid. So arith and math on tiles are left alone; in a `phobos.map` they are on
//! scalars, and what the map reads stays its input. A branch between tiles stays a branch,
//! since a select is only valid where both are. Scalar code, loops and branches are simplified as
//! by canonicalize. Test: lit-tests/passes/simplify.mlir.

use phobos_dialect::{
    Op, PassError, ir,
    pass::{Options, Pass},
};

pub(crate) const PASS: Pass = Pass {
    name: "phobos-simplify",
    description: "Canonicalise scalar code and control flow, and leave tiles as they are",
    anchor: "phobos.kernel",
    options: &[],
    run,
};

fn run<'c>(kernel: Op<'c>, _options: &Options<'_>) -> Result<(), PassError> {
    ir::simplify(kernel);
    Ok(())
}
