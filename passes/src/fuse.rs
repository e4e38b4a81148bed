//! `phobos-fuse`: one `phobos.map` per elementwise tile that must exist.
//!
//! ```text
//! %a = arith.mulf %x, %x        ==>  %b = phobos.map(%x, %s) : ... {
//! %c = phobos.splat %s               ^bb0(%e: f32, %f: f32):
//! %b = arith.addf %a, %c               %g = arith.mulf %e, %e
//!                                      %h = arith.addf %g, %f
//!                                      phobos.yield %h
//!                                    }
//! ```
//! An elementwise tile is computed inside a map when all its users are in that map, in
//! the same block and of the same shape. Splats, iotas and
//! stretches are free and are repeated in every map that uses them. Everything else
//! (dot, reduce, loads, stores, loop-carried values) takes whole tiles.
//! Test: lit-tests/passes/fuse.mlir.

use std::collections::{BTreeMap, BTreeSet};

use melior::ir::{ValueLike, operation::OperationLike};
use phobos_dialect::{
    Op, PassError, Val,
    build::Builder,
    ir,
    pass::{Options, Pass},
    types::{Dim, Tile},
};

use crate::tile_ops::{is_elementwise, is_free, tile_of, tile_result};

pub(crate) const PASS: Pass = Pass {
    name: "phobos-fuse",
    description: "Gather elementwise operations on tiles into phobos.map",
    anchor: "phobos.kernel",
    options: &[],
    run,
};

fn run<'c>(kernel: Op<'c>, _options: &Options<'_>) -> Result<(), PassError> {
    for op in ir::collect(kernel) {
        splat_constant(op)?;
    }
    let all = ir::collect(kernel);
    let roots = find_roots(&all);
    let inlined: BTreeSet<usize> = roots.iter().filter(|(op, root)| op != root).map(|(op, _)| *op).collect();
    for root in all.iter().filter(|op| roots.get(&ir::op_key(**op)) == Some(&ir::op_key(**op))) {
        make_map(*root, &inlined)?;
    }
    // Uses come after definitions, so one sweep backwards finds everything unused.
    for op in all.into_iter().rev() {
        if (is_elementwise(op) || is_free(op)) && ir::results(op).into_iter().all(|r| ir::users(r).is_empty())
        {
            ir::erase(op);
        }
    }
    Ok(())
}

/// `arith.constant dense<v>` => `phobos.splat` of v. Folding makes such tiles.
fn splat_constant<'c>(op: Op<'c>) -> Result<(), PassError> {
    let (Some(element), Some((result, tile))) = (ir::constant_splat(op), tile_result(op)) else {
        return Ok(());
    };
    let builder = Builder::before(op)?;
    let scalar = builder.value("arith.constant", &[], tile.element, &[("value", element)])?;
    ir::replace_uses(result, builder.value("phobos.splat", &[scalar], result.r#type(), &[])?);
    ir::erase(op);
    Ok(())
}

/// For every elementwise operation the one whose map computes it: itself, or the map
/// that all its users are in.
fn find_roots(all: &[Op<'_>]) -> BTreeMap<usize, usize> {
    let mut roots = BTreeMap::new();
    // Users come after definitions: backwards, the users' roots are known.
    for op in all.iter().rev().filter(|op| is_elementwise(**op)) {
        let root = common_root(*op, &roots).unwrap_or(ir::op_key(*op));
        roots.insert(ir::op_key(*op), root);
    }
    roots
}

fn common_root(op: Op<'_>, roots: &BTreeMap<usize, usize>) -> Option<usize> {
    let (result, tile) = tile_result(op)?;
    let mut common = None;
    for user in ir::users(result) {
        let root = *roots.get(&ir::op_key(user))?;
        let same_loop =
            user.block() == op.block() && tile_result(user).is_some_and(|(_, other)| other.dims == tile.dims);
        if !same_loop || common.is_some_and(|common| common != root) {
            return None;
        }
        common = Some(root);
    }
    common
}

/// Builds the map of `root` before it and moves its uses there.
fn make_map<'c>(root: Op<'c>, inlined: &BTreeSet<usize>) -> Result<(), PassError> {
    let Some((result, tile)) = tile_result(root) else { return Ok(()) };
    let Content { inputs, operations } = content(root, inlined);
    let builder = Builder::before(root)?;
    let arguments: Vec<_> = inputs
        .iter()
        .map(|input| tile_of(*input).map_or_else(|| input.r#type(), |tile| tile.element))
        .collect();
    let segments = builder.segments(&[inputs.len(), 0]);
    let map = builder.op("phobos.map", &inputs, &[result.r#type()], &[segments], &[&arguments])?;
    let body = ir::body(map, 0).ok_or_else(|| PassError::at(root, "internal error: a map without a body"))?;
    let mut region = MapBody {
        builder: builder.in_block(body),
        dims: tile.dims,
        known: inputs
            .iter()
            .zip(ir::arguments(body))
            .map(|(input, value)| (ir::value_key(*input), value))
            .collect(),
    };
    for op in operations {
        let element = region.operation(op)?;
        for value in ir::results(op) {
            region.known.insert(ir::value_key(value), element);
        }
    }
    let value = region.element(root, result)?;
    region.builder.op("phobos.yield", &[value], &[], &[], &[])?;
    ir::replace_uses(result, builder.result(map, 0)?);
    Ok(())
}

/// What a map reads and computes.
struct Content<'c> {
    /// The values from outside, in order of first use.
    inputs: Vec<Val<'c>>,
    /// The operations of the body, each once and after what it reads; the root is last.
    operations: Vec<Op<'c>>,
}

/// The content of the map of `root`. Each operation is visited once, and on a stack of its
/// own: straight code is as deep as it is long.
fn content<'c>(root: Op<'c>, inlined: &BTreeSet<usize>) -> Content<'c> {
    let mut content = Content { inputs: Vec::new(), operations: Vec::new() };
    let mut seen = BTreeSet::from([ir::op_key(root)]);
    let mut seen_inputs = BTreeSet::new();
    let mut open = vec![(root, ir::operands(root).into_iter())];
    while let Some((op, operands)) = open.last_mut() {
        let Some(operand) = operands.next() else {
            content.operations.push(*op);
            open.pop();
            continue;
        };
        match inside(operand, inlined) {
            Some(definition) => {
                if seen.insert(ir::op_key(definition)) {
                    open.push((definition, ir::operands(definition).into_iter()));
                }
            }
            None => {
                if seen_inputs.insert(ir::value_key(operand)) {
                    content.inputs.push(operand);
                }
            }
        }
    }
    content
}

/// The operation that defines `value`, if its element is computed inside the map.
fn inside<'c>(value: Val<'c>, inlined: &BTreeSet<usize>) -> Option<Op<'c>> {
    ir::definition(value)
        .filter(|op| is_free(*op) || inlined.contains(&ir::op_key(*op)) || is_scalar_constant(*op))
}

fn is_scalar_constant(op: Op<'_>) -> bool {
    ir::name(op) == "arith.constant" && tile_result(op).is_none()
}

/// The body of a map under construction.
struct MapBody<'c> {
    builder: Builder<'c>,
    /// The dims of the map's result.
    dims: Vec<Dim>,
    /// The element of each value already computed or passed in.
    known: BTreeMap<usize, Val<'c>>,
}

impl<'c> MapBody<'c> {
    fn operation(&self, op: Op<'c>) -> Result<Val<'c>, PassError> {
        let mut operands = Vec::new();
        for operand in ir::operands(op) {
            operands.push(self.element(op, operand)?);
        }
        let builder = self.builder.with_location(op.location());
        match (ir::name(op), tile_result(op)) {
            // The element of a splat or a stretched tile is the operand's element.
            ("phobos.splat" | "phobos.broadcast", _) => operands
                .first()
                .copied()
                .ok_or_else(|| PassError::at(op, "internal error: a stretch without operand")),
            ("phobos.iota", Some((_, tile))) => self.lane(&builder, op, &tile),
            (_, Some((_, tile))) => {
                let copy = builder.copy(op, &operands, &[tile.element])?;
                builder.result(copy, 0)
            }
            _ if is_scalar_constant(op) => {
                let types: Vec<_> = ir::results(op).iter().map(ValueLike::r#type).collect();
                self.builder.result(self.builder.copy(op, &[], &types)?, 0)
            }
            _ => Err(PassError::at(op, format!("internal error: {} is not elementwise", ir::name(op)))),
        }
    }

    /// An iota's element: the lane of the map, or 0 where the map stretches it.
    fn lane(&self, builder: &Builder<'c>, op: Op<'c>, tile: &Tile<'c>) -> Result<Val<'c>, PassError> {
        let axis = ir::integer_attribute(op, "axis").unwrap_or(0) as usize;
        let lead = self.dims.len() - tile.dims.len();
        if tile.dims.get(axis) == Some(&Dim::Const(1)) {
            return builder.integer(tile.element, 0);
        }
        let axis = builder.i64_attribute((lead + axis) as i64);
        builder.value("phobos.lane", &[], tile.element, &[("axis", axis)])
    }

    /// The element of a value that `op` reads, or is.
    fn element(&self, op: Op<'c>, value: Val<'c>) -> Result<Val<'c>, PassError> {
        self.known.get(&ir::value_key(value)).copied().ok_or_else(|| {
            PassError::at(op, "internal error: a map reads a value that is not among its inputs")
        })
    }
}
