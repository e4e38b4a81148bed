//! Which tiles the host's rule takes for the kernels of the models.

#![allow(clippy::unwrap_used)] // the lint's exception for tests does not reach their helpers

use std::collections::BTreeMap;

use phobos_driver::tune::{HostRule, choose};
use phobos_lang::SourceFile;

const ATTENTION: &str = include_str!("../../models/kernels/attention.ph");
const GEGLU: &str = include_str!("../../models/kernels/geglu.ph");
const LINEAR: &str = include_str!("../../models/kernels/linear.ph");
const QKV: &str = include_str!("../../models/kernels/qkv.ph");
const SWIGLU: &str = include_str!("../../models/kernels/swiglu.ph");
const GEMM: &str = include_str!("../../examples/gemm_fp32.ph");

/// The chosen parameters in the order of their names.
fn chosen(source: &str, kernel: &str, elements: &[(&str, &str)], ranges: &[(&str, &str)]) -> Vec<u64> {
    let file = SourceFile::new("k.ph", source);
    let (module, _) = phobos_lang::parse(&file);
    let elements: BTreeMap<_, _> =
        elements.iter().map(|(name, element)| ((*name).to_owned(), element.parse().unwrap())).collect();
    let ranges = ranges.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect();
    let kernel = phobos_lang::check(&module, kernel, &elements).kernel.unwrap();
    let rule = HostRule::new(&kernel, &ranges);
    choose(&kernel, &file, &BTreeMap::new(), false, &rule).unwrap().into_values().collect()
}

/// TILE_K, TILE_M and TILE_N of every product of the models, for every class of rows and
/// format of weights: those that were measured on the host (BENCHMARKS.md).
#[test]
fn products_of_the_models_take_the_tiles_that_were_measured() {
    let kernels =
        [(LINEAR, "linear"), (LINEAR, "linear_add"), (QKV, "qkv"), (SWIGLU, "swiglu"), (GEGLU, "geglu")];
    let wanted = [("1..1", [4096, 1, 32]), ("2..31", [512, 16, 64]), ("32..", [512, 128, 64])];
    let formats = phobos_artifact::format::ALL.map(|format| format.name);
    for (source, kernel) in kernels {
        for weight in formats.into_iter().chain(["f32", "f16", "bf16"]) {
            for input in ["f32", "q8_1", "q16_1"] {
                if input != "f32" && ["f32", "f16", "bf16"].contains(&weight) {
                    continue;
                }
                let to = if kernel == "qkv" { ("H", weight) } else { ("B", input) };
                let mut elements = vec![("A", input), ("F", weight)];
                if !kernel.starts_with("linear") {
                    elements.extend([("G", weight), to]);
                }
                for (rows, tiles) in wanted {
                    let found = chosen(source, kernel, &elements, &[("M", rows)]);
                    assert_eq!(found, tiles, "{kernel} {elements:?} M={rows}");
                }
            }
        }
    }
}

#[test]
fn attention_takes_the_largest_tile_of_queries() {
    let elements = [("T", "f16"), ("B", "f32")];
    assert_eq!(chosen(ATTENTION, "attention", &elements, &[]), [32, 64]);
}

#[test]
fn without_a_range_the_rule_aims_at_a_volume() {
    assert_eq!(chosen(GEMM, "gemm", &[], &[]).iter().product::<u64>(), 64 * 64 * 64);
    // A range of a dim that no parameter tiles decides nothing.
    let volume = chosen(LINEAR, "linear", &[("A", "f32"), ("F", "q4_0")], &[("K", "1..1")]);
    assert_eq!(volume, chosen(LINEAR, "linear", &[("A", "f32"), ("F", "q4_0")], &[]));
}
