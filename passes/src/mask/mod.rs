//! `phobos-mask`: make validity explicit (ARCHITECTURE.md, decision 4).
//!
//! A tile's lanes beyond the edge of its tensor are invalid. This pass gives every
//! operation whose tile may be partly invalid its `valid` extents, and proves what
//! it can full.
//!
//! ```text
//! %t = phobos.load %A[%i] : !phobos.tensor<[N], f32> -> tensor<64xf32>
//!   ==>
//! %n = phobos.dim "N"
//! %r = arith.subi %n, %i
//! %e = arith.minsi(arith.maxsi %r, 0), 64
//! %t = phobos.load %A[%i] valid [%e] : ...
//! ```
//! - loads set the extents, `else` makes a tile wholly valid;
//! - `phobos.map` (and arith on tiles) intersects its inputs' extents;
//! - dot gives (lhs rows, rhs columns) and sums over the valid k of both;
//! - reduce and scan see the valid lanes only;
//! - stores write the valid lanes that are inside the tensor;
//! - loop-carried and branch results get their extents beside them ([`carry`]).
//!
//! Runs after phobos-specialize: tiles are static. Test: lit-tests/passes/mask.mlir.

mod bounds;
mod carry;
mod rules;

use std::{cell::RefCell, collections::BTreeMap};

use phobos_dialect::{
    Op, PassError, Val,
    build::Builder,
    ir,
    pass::{Options, Pass},
};

use crate::{
    range::Ranges,
    tile_ops::{self, tile_of},
};

pub(crate) const PASS: Pass = Pass {
    name: "phobos-mask",
    description: "Make the validity extents of tiles explicit",
    anchor: "phobos.kernel",
    options: &[],
    run,
};

/// The validity of each axis of a tile: an index value, or `None` when full.
type Extents<'c> = Vec<Option<Val<'c>>>;

/// The state of the pass over one kernel.
struct Mask<'c> {
    kernel: Op<'c>,
    extents: BTreeMap<usize, Extents<'c>>,
    ranges: RefCell<Ranges>,
}

fn run<'c>(kernel: Op<'c>, _options: &Options<'_>) -> Result<(), PassError> {
    tile_ops::check_sizes(kernel)?;
    let mut mask = Mask { kernel, extents: BTreeMap::new(), ranges: RefCell::default() };
    for block in ir::blocks(kernel) {
        mask.block(block)?;
    }
    Ok(())
}

impl<'c> Mask<'c> {
    fn block(&mut self, block: phobos_dialect::Blk<'c>) -> Result<(), PassError> {
        for op in ir::operations(block) {
            self.operation(op)?;
        }
        Ok(())
    }

    /// The extents of a tile value; all full if nothing is recorded.
    fn of(&self, value: Val<'c>) -> Extents<'c> {
        let rank = tile_of(value).map_or(0, |tile| tile.dims.len());
        self.extents.get(&ir::value_key(value)).cloned().unwrap_or_else(|| vec![None; rank])
    }

    fn set(&mut self, value: Val<'c>, extents: Extents<'c>) {
        if extents.iter().any(Option::is_some) {
            self.extents.insert(ir::value_key(value), extents);
        }
    }

    /// The smaller of two extents of an axis.
    fn meet(
        builder: &Builder<'c>,
        a: Option<Val<'c>>,
        b: Option<Val<'c>>,
    ) -> Result<Option<Val<'c>>, PassError> {
        match (a, b) {
            (Some(a), Some(b)) if a != b => Ok(Some(builder.binary("arith.minsi", a, b)?)),
            (Some(extent), _) | (None, Some(extent)) => Ok(Some(extent)),
            (None, None) => Ok(None),
        }
    }

    /// The `valid` operands for extents: none if all are full.
    fn operands(
        builder: &Builder<'c>,
        extents: &Extents<'c>,
        shape: &[i64],
    ) -> Result<Vec<Val<'c>>, PassError> {
        if extents.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        extents
            .iter()
            .zip(shape)
            .map(|(extent, full)| extent.map_or_else(|| builder.index_constant(*full), Ok))
            .collect()
    }
}

/// The static shape of a tile value.
fn shape_of(op: Op<'_>, value: Val<'_>) -> Result<Vec<i64>, PassError> {
    tile_of(value).and_then(|tile| tile.shape()).ok_or_else(|| {
        PassError::at(
            op,
            format!("{} has a tile that is not static: run phobos-specialize first", ir::name(op)),
        )
    })
}
