//! The shipped kernels and examples check clean, for every kind of binding.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, fs, path::Path};

use phobos_artifact::{Access, Contract, Element, GridExpr};
use phobos_lang::{
    SourceFile, check,
    diagnostics::{RenderOptions, render},
    parse,
    tree::{Generic, GenericKind},
    typed::Kernel,
};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn checked(path: &str, kernel: &str, bindings: &[(&str, &str)]) -> Kernel {
    checked_text(path, &read(path), kernel, bindings)
}

fn checked_text(path: &str, text: &str, kernel: &str, bindings: &[(&str, &str)]) -> Kernel {
    let source = SourceFile::new(path, text);
    let (module, mut diagnostics) = parse(&source);
    let bindings: BTreeMap<String, Element> =
        bindings.iter().map(|(name, element)| ((*name).to_owned(), element.parse().unwrap())).collect();
    let checked = check(&module, kernel, &bindings);
    diagnostics.extend(checked.diagnostics);
    let shown: String = diagnostics.iter().map(|d| render(d, &source, RenderOptions::default())).collect();
    assert!(diagnostics.is_empty(), "{shown}");
    checked.kernel.expect("no diagnostics and no kernel")
}

fn grid(kernel: &Kernel) -> Vec<String> {
    kernel.grid.iter().map(GridExpr::to_string).collect()
}

fn access(kernel: &Kernel) -> Vec<Access> {
    kernel.tensors.iter().map(|tensor| tensor.access).collect()
}

/// Whether a program quantises to the element that this generic parameter is bound to:
/// then it is one of activations where the others are weights.
fn is_made(program: &str, generic: &str) -> bool {
    let ending = format!(", {generic})");
    program.split("quantize(").skip(1).any(|call| call.lines().next().unwrap_or("").contains(&ending))
}

#[test]
fn every_shipped_kernel_checks_for_every_binding() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for folder in ["models/kernels", "examples", "dialect/lang/tests/clean"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "ph") {
                continue;
            }
            let path = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
            let text = read(&path);
            for (program, kernel) in text.split("// -----\n").flat_map(|program| {
                let (module, _) = parse(&SourceFile::new(&path, program));
                check::kernels(&module).cloned().map(|kernel| (program, kernel)).collect::<Vec<_>>()
            }) {
                let format = kernel.generics.iter().any(|generic| generic.kind == GenericKind::Format);
                // Only the models' kernels take blocks of any size.
                let most = if folder == "models/kernels" { usize::MAX } else { 32 };
                let formats = phobos_artifact::format::ALL
                    .iter()
                    .filter(|block| format && block.elements <= most)
                    .map(|block| block.name);
                // Products with codes of the kernel's own making want codes on the other side.
                let codes = folder == "examples" && is_made(program, "q8_1");
                let scalars = ["f32", "f16", "bf16"].into_iter().filter(|_| !codes);
                for element in scalars.chain(formats) {
                    let scalar = |generic: &Generic| generic.kind == GenericKind::DType;
                    let bindings: Vec<(&str, &str)> = kernel
                        .generics
                        .iter()
                        .map(|generic| {
                            let name = generic.name.name.as_str();
                            let element = match element.parse().unwrap() {
                                Element::Block(_) if scalar(generic) => "f16",
                                Element::Block(_) if is_made(program, name) => "q8_1",
                                _ => element,
                            };
                            (name, element)
                        })
                        .collect();
                    checked_text(&path, program, &kernel.name.name, &bindings);
                    count += 1;
                }
            }
        }
    }
    assert!(count >= 30, "{count}");
}

#[test]
fn gemm_facts() {
    let kernel = checked("examples/gemm_fp32.ph", "gemm", &[]);
    assert_eq!(grid(&kernel), ["ceil(M / TILE_M)", "ceil(N / TILE_N)", "1"]);
    assert_eq!(access(&kernel), [Access::Read, Access::Read, Access::ReadWrite]);
    assert_eq!(kernel.dims, ["M", "K", "N"]);
    assert!(kernel.required_dims.is_empty());
    assert_eq!(kernel.params[0].values, [32, 64, 128, 256]);
    assert_eq!(kernel.attributes.cluster[2].values, [16384, 32768, 65536]);
}

#[test]
fn linear_of_blocks_records_its_contracts() {
    let linear =
        |kernel, input, weight| checked("models/kernels/linear.ph", kernel, &[("A", input), ("F", weight)]);
    let kernel = linear("linear", "f32", "q4_1");
    assert_eq!(grid(&kernel), ["ceil(N / TILE_N)", "ceil(M / TILE_M)", "1"]);
    assert_eq!(kernel.contracts, [Contract::Multiple { dim: "K".into(), of: 32 }]);
    assert_eq!(multiples(&kernel), [("TILE_K", 32)]);
    let large = linear("linear", "q8_1", "q6_k");
    assert_eq!(large.contracts, [32, 256].map(|of| Contract::Multiple { dim: "K".into(), of }));
    let plain = linear("linear", "f32", "f32");
    assert!(plain.contracts.is_empty() && plain.param_multiples.is_empty());
    let added = linear("linear_add", "q16_1", "q8_0");
    assert_eq!(access(&added), [Access::Read, Access::Read, Access::ReadWrite]);
}

fn multiples(kernel: &Kernel) -> Vec<(&str, u64)> {
    kernel.param_multiples.iter().map(|multiple| (multiple.param.as_str(), multiple.of)).collect()
}

#[test]
fn qkv_serves_its_three_products_in_one_grid() {
    let bindings = [("A", "q8_1"), ("F", "q4_k"), ("G", "q4_1"), ("H", "q6_k")];
    let kernel = checked("models/kernels/qkv.ph", "qkv", &bindings);
    let tiles = "(ceil(N / TILE_N) + (2 * ceil(P / TILE_N)))";
    assert_eq!(grid(&kernel), [tiles, "ceil(M / TILE_M)", "1"]);
    assert_eq!(multiples(&kernel), [("TILE_K", 32), ("TILE_K", 256)]);
    assert_eq!(kernel.contracts, [32, 256].map(|of| Contract::Multiple { dim: "K".into(), of }));
    let written: Vec<&str> = kernel
        .tensors
        .iter()
        .filter(|tensor| tensor.access == Access::Write)
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(written, ["Q", "Key", "Value"]);
}

#[test]
fn attention_facts() {
    let kernel = checked("models/kernels/attention.ph", "attention", &[("T", "f16"), ("B", "f32")]);
    assert_eq!(grid(&kernel), ["ceil(N / TILE_Q)", "H", "1"]);
    assert_eq!(kernel.required_dims.keys().collect::<Vec<_>>(), ["D"]);
    let names: Vec<&str> = kernel.scalars.iter().map(|scalar| scalar.name.as_str()).collect();
    assert_eq!(names, ["pos", "window", "scale"]);
    // A head is whole blocks.
    let blocks = checked("models/kernels/attention.ph", "attention", &[("T", "f16"), ("B", "q8_1")]);
    assert!(blocks.contracts.contains(&Contract::Multiple { dim: "D".into(), of: 32 }));
}

#[test]
fn swiglu_grid_is_derived_through_lets() {
    let bindings = [("A", "q8_1"), ("F", "q4_1"), ("G", "q6_k"), ("B", "q8_1")];
    let kernel = checked("models/kernels/swiglu.ph", "swiglu", &bindings);
    assert_eq!(grid(&kernel), ["ceil(N / TILE_N)", "ceil(M / TILE_M)", "1"]);
    // Blocks of the weights, and of what is written.
    assert_eq!(multiples(&kernel), [("TILE_K", 32), ("TILE_K", 256), ("TILE_N", 32)]);
}
