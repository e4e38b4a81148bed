//! How much code the models' kernels are: a first start compiles it, so its time grows with
//! it, and sizes have no clock.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use phobos_artifact::{Chip, CompileOptions, CompileRequest, HostLevel, format::ALL};

const LINEAR: &str = include_str!("../../models/kernels/linear.ph");
const QKV: &str = include_str!("../../models/kernels/qkv.ph");
const SWIGLU: &str = include_str!("../../models/kernels/swiglu.ph");

/// Bytes of the object of a kernel whose weights are all of one format, with the parameters
/// that the models choose.
fn bytes(source: &str, kernel: &str, format: &str, [depth, rows, columns]: [u64; 3]) -> usize {
    let weights: &[&str] = match kernel {
        "qkv" => &["F", "G", "H"],
        "swiglu" => &["F", "G"],
        _ => &["F"],
    };
    let mut elements: BTreeMap<String, _> =
        weights.iter().map(|name| ((*name).to_owned(), format.parse().unwrap())).collect();
    elements.insert("A".into(), "f32".parse().unwrap());
    if kernel == "swiglu" {
        elements.insert("B".into(), "f32".parse().unwrap());
    }
    let request = CompileRequest {
        source: source.into(),
        kernel: kernel.into(),
        elements,
        dims: BTreeMap::new(),
        ranges: BTreeMap::new(),
        params: [("TILE_K", depth), ("TILE_M", rows), ("TILE_N", columns)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        options: CompileOptions::default(),
        chip: Chip::Host(HostLevel::V3),
    };
    match phobos_driver::compile(&request) {
        Ok(artifact) => artifact.images[0].bytes.len(),
        Err(failure) => panic!("{kernel} of {format}: {failure}"),
    }
}

/// Blocks of 256 elements are eight times what blocks of 32 are, and their code is not: each
/// product of a kernel is at most so many bytes. Of one row elements are written out unless
/// they are looked up, which would be more code.
#[test]
fn products_with_large_blocks_stay_small() {
    const BOUND: usize = 24_000;
    for format in ALL.iter().filter(|format| format.elements == 256) {
        for (source, kernel, products, tile) in [
            (LINEAR, "linear", 1, [4096, 1, 32]),
            (LINEAR, "linear_add", 1, [512, 16, 64]),
            (SWIGLU, "swiglu", 2, [512, 128, 64]),
            (QKV, "qkv", 3, [512, 16, 64]),
        ] {
            let bytes = bytes(source, kernel, format.name, tile);
            assert!(bytes <= products * BOUND, "{kernel} of {}, {tile:?}: {bytes}", format.name);
        }
    }
}
