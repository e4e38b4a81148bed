//! Which operations are what, for the passes on tiles.

use melior::ir::ValueLike;
use phobos_dialect::{Op, Val, ir, types::Tile};

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

/// Whether a tile's elements cost nothing to make again wherever they are used.
pub(crate) fn is_free(op: Op<'_>) -> bool {
    matches!(ir::name(op), "phobos.splat" | "phobos.iota" | "phobos.broadcast")
}
