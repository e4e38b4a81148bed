//! `phobos-specialize`: bind parameters and dims, so that tiles are static.
//!
//! ```text
//! %t = phobos.param "TILE_M" : tensor<?x32xf32, #phobos.dims<[TILE_M, 32]>>
//!   ==> bind=TILE_M=64
//! %t = arith.constant 64     : tensor<64x32xf32>
//! ```
//! Every parameter must be bound, and every dim that a tile has as an extent. Other
//! dims stay names and are bound at launch. What is quantised must then be whole blocks.
//! Test: lit-tests/passes/specialize.mlir.

use std::collections::BTreeMap;

use melior::ir::{ValueLike, attribute::TypeAttribute, r#type::FunctionType};
use phobos_artifact::format;
use phobos_dialect::{
    Op, PassError, Type,
    build::Builder,
    ir,
    pass::{Options, Pass, PassOption},
    types::{Dim, MemoryTensor, Tile, block_format},
};

use crate::tile_ops::tile_result;

pub(crate) const PASS: Pass = Pass {
    name: "phobos-specialize",
    description: "Bind parameters and dims, so that tiles are static",
    anchor: "phobos.kernel",
    options: &[PassOption { name: "bind", description: "NAME=VALUE,NAME=VALUE,...", default: "" }],
    run,
};

fn run<'c>(kernel: Op<'c>, options: &Options<'_>) -> Result<(), PassError> {
    let values = parse_bindings(options.get("bind")).map_err(|message| PassError::user(kernel, message))?;
    let context = ir::context(kernel);
    for op in ir::collect(kernel) {
        let values_here =
            ir::results(op).into_iter().chain(ir::blocks(op).into_iter().flat_map(ir::arguments));
        for value in values_here {
            let bound = bind_type(value.r#type(), &values, context);
            if let Some(name) = Tile::from_type(bound).and_then(|tile| unbound(&tile)) {
                return Err(PassError::user(
                    op,
                    format!("`{name}` is the extent of a tile and has no value: bind it with {name}=VALUE"),
                ));
            }
            value.set_type(bound);
        }
    }
    if let Some(function) = ir::function_type(kernel) {
        let inputs: Vec<_> = (0..function.input_count())
            .filter_map(|index| function.input(index).ok())
            .map(|ty| bind_type(ty, &values, context))
            .collect();
        let bound = FunctionType::new(context, &inputs, &[]);
        ir::set_attribute(kernel, "function_type", TypeAttribute::new(bound.into()).into());
    }
    for op in ir::collect(kernel).into_iter().filter(|op| ir::name(*op) == "phobos.quantize") {
        whole_blocks(op)?;
    }
    for op in ir::collect(kernel) {
        let name = ir::name(op);
        if name != "phobos.param" && name != "phobos.dim" {
            continue;
        }
        let symbol = ir::string_attribute(op, "name").unwrap_or("");
        match values.get(symbol) {
            Some(value) => {
                let constant = Builder::before(op)?.index_constant(*value)?;
                for result in ir::results(op) {
                    ir::replace_uses(result, constant);
                }
                ir::erase(op);
            }
            None if name == "phobos.param" => {
                return Err(PassError::user(
                    op,
                    format!("parameter `{symbol}` has no value: bind it with {symbol}=VALUE"),
                ));
            }
            None => {}
        }
    }
    Ok(())
}

/// Checks that what a `phobos.quantize` makes is whole blocks of a format of activations.
/// A dim may be bound to a value that only the check of a launch would refuse.
fn whole_blocks(op: Op<'_>) -> Result<(), PassError> {
    let Some((_, tile)) = tile_result(op) else { return Ok(()) };
    let name = block_format(tile.element).unwrap_or_default();
    let Some(format) = format::ACTIVATIONS.into_iter().find(|format| format.name == name) else {
        return Err(PassError::user(op, format!("{name} cannot be made by phobos.quantize")));
    };
    match tile.shape().as_deref() {
        Some([.., last]) if *last % format.elements as i64 != 0 => Err(PassError::user(
            op,
            format!(
                "a tile of extent {last} is not made of whole blocks of {}, which have {}",
                format.name, format.elements
            ),
        )),
        _ => Ok(()),
    }
}

fn bind_type<'c>(
    ty: Type<'c>,
    values: &BTreeMap<String, i64>,
    context: &'c phobos_dialect::Context,
) -> Type<'c> {
    if let Some(tensor) = MemoryTensor::from_type(ty) {
        return tensor.bind(values).to_type(context);
    }
    match Tile::from_type(ty) {
        Some(tile) if unbound(&tile).is_some() => tile.bind(values).to_type(context),
        _ => ty,
    }
}

fn unbound(tile: &Tile<'_>) -> Option<String> {
    tile.dims.iter().find_map(|dim| match dim {
        Dim::Name(name) => Some(name.clone()),
        Dim::Const(_) => None,
    })
}

fn parse_bindings(text: &str) -> Result<BTreeMap<String, i64>, String> {
    let mut values = BTreeMap::new();
    for binding in text.split(',').filter(|binding| !binding.is_empty()) {
        let parsed =
            binding.split_once('=').and_then(|(name, value)| Some((name, value.parse::<i64>().ok()?)));
        match parsed {
            Some((name, value)) if value > 0 => {
                if values.insert(name.to_owned(), value).is_some() {
                    return Err(format!("bind: `{name}` is bound twice"));
                }
            }
            _ => return Err(format!("bind: `{binding}` is not NAME=VALUE with a positive integer value")),
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_names_and_positive_integers() {
        assert_eq!(parse_bindings("A=1,B=20").map(|map| map.len()), Ok(2));
        for bad in ["A", "A=", "A=0", "A=-1", "A=x", "A=1,A=2"] {
            assert!(parse_bindings(bad).is_err(), "{bad}");
        }
    }
}
