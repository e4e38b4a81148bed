//! Which operations are what, for the passes on tiles.

use melior::ir::ValueLike;
use phobos_artifact::limits::MAX_TILE;
use phobos_dialect::{Op, PassError, Val, ir, types::Tile};

/// The tile type of a value, if it is a tile.
pub(crate) fn tile_of<'c>(value: Val<'c>) -> Option<Tile<'c>> {
    Tile::from_type(value.r#type())
}

/// The single tile result of an operation.
pub(crate) fn tile_result<'c>(op: Op<'c>) -> Option<(Val<'c>, Tile<'c>)> {
    let [result] = ir::results(op)[..] else { return None };
    Some((result, tile_of(result)?))
}

/// Whether the operation computes each element from the elements at the same index:
/// arith and math on tiles.
pub(crate) fn is_elementwise(op: Op<'_>) -> bool {
    let name = ir::name(op);
    (name.starts_with("arith.") || name.starts_with("math."))
        && name != "arith.constant"
        && tile_result(op).is_some()
}

/// How a reshape that only adds and drops axes of extent 1 takes axes over.
pub(crate) struct UnitReshape {
    /// For each axis of the result the axis that it was; a new one is whole.
    pub kept: Vec<Option<usize>>,
    /// What goes. One of these that is invalid empties the result's first axis.
    pub dropped: Vec<usize>,
}

/// `None` where the reshape `op` of static tiles merges or splits axes. Axes of extent 1
/// that are no points meet from the last one.
pub(crate) fn unit_reshape(op: Op<'_>, from: &[i64], to: &[i64]) -> Option<UnitReshape> {
    let points = ir::i64_array_attribute(op, "points");
    let mut kept = vec![None; to.len()];
    let mut dropped = Vec::new();
    let mut new = to.len();
    for (axis, extent) in from.iter().enumerate().rev() {
        if points.contains(&(axis as i64)) {
            dropped.push(axis);
            continue;
        }
        // New axes stand between longer ones.
        while *extent != 1 && new > 0 && to[new - 1] == 1 {
            new -= 1;
        }
        if new > 0 && to[new - 1] == *extent {
            new -= 1;
            kept[new] = Some(axis);
        } else if *extent == 1 {
            dropped.push(axis);
        } else {
            return None;
        }
    }
    to[..new].iter().all(|extent| *extent == 1).then_some(UnitReshape { kept, dropped })
}

/// Whether a tile's elements cost nothing to make again wherever they are used.
pub(crate) fn is_free(op: Op<'_>) -> bool {
    matches!(ir::name(op), "phobos.splat" | "phobos.iota" | "phobos.broadcast")
}

/// Refuses tiles of more elements than a tile may have, so that sizes and strides of tiles
/// can be computed without checks.
pub(crate) fn check_sizes(kernel: Op<'_>) -> Result<(), PassError> {
    for op in ir::collect(kernel) {
        let values = ir::results(op).into_iter().chain(ir::blocks(op).into_iter().flat_map(ir::arguments));
        for shape in values.filter_map(tile_of).filter_map(|tile| tile.shape()) {
            let count = shape.iter().try_fold(1u64, |product, extent| {
                product.checked_mul(u64::try_from(*extent).ok()?).filter(|product| *product <= MAX_TILE)
            });
            if count.is_none() {
                let shape = shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
                return Err(PassError::at(
                    op,
                    format!("a tile of [{shape}] elements: a tile has at most {MAX_TILE}"),
                ));
            }
        }
    }
    Ok(())
}
