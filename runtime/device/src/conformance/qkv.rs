//! The models' products of an attention layer: queries, keys and values from one input.

use phobos_artifact::{
    DType, Element,
    format::{ACTIVATIONS, ALL},
};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
    dot_quantized,
    linear::TILES,
};

const SOURCE: &str = include_str!("../../../../models/kernels/qkv.ph");

/// N queries, and P keys and values: one program of each, columns that do not fill a tile, and
/// more keys than queries.
const WIDTHS: [(u64, u64); 4] = [(1, 1), (70, 33), (50, 50), (64, 96)];

/// What a kernel is bound to.
#[derive(Clone, Copy)]
struct Bound {
    input: Element,
    weights: [Element; 3],
    tiles: [u64; 3],
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(41);
    let [f32, f16, bf16] = [DType::F32, DType::F16, DType::Bf16].map(Element::Scalar);
    let [q8_1, q16_1] = ACTIVATIONS.map(Element::Block);
    let [_, q4_1, q5_0, _, q8_0, _, _, q4_k, _, q6_k, ..] = ALL.map(Element::Block);
    let [one, few, many] = TILES.map(|(tiles, _)| tiles);
    let (scalars, small, large) = ([f32, f16, bf16], [q4_1, q5_0, q8_0], [q4_k, q4_k, q6_k]);
    for (input, weights, tiles) in [
        (f32, scalars, one),
        (f32, scalars, few),
        (f32, small, one),
        (f32, small, many),
        (q16_1, small, one),
        (q16_1, large, one),
        (q16_1, small, few),
        (q8_1, small, one),
        (q8_1, small, few),
        (q8_1, small, many),
        (q8_1, large, many),
    ] {
        let depths = if weights == large { [256, 768] } else { [32, 576] };
        for m in [1, 5, 130] {
            for (n, p) in WIDTHS {
                // A row of one block, and several of more than a tile of 512.
                let k = depths[usize::from(n > 1)];
                cases.push(case(&mut random, Bound { input, weights, tiles }, (m, k), (n, p)));
            }
        }
    }
    cases
}

fn case(random: &mut Random, bound: Bound, (m, k): (u64, u64), (n, p): (u64, u64)) -> Case {
    let Bound { input, weights: [wq, wk, wv], tiles } = bound;
    let x = Data::random(input, &[m, k], random);
    let [wq, wk, wv] = [(wq, n), (wk, p), (wv, p)].map(|(w, rows)| Data::random(w, &[rows, k], random));
    let name = match input {
        Element::Block(format) => format!("qkv {} {}", format.name, wv.element),
        Element::Scalar(_) => format!("qkv {}", wv.element),
    };
    let case = Case::new(name, SOURCE, "qkv")
        .element("A", input)
        .element("F", wq.element)
        .element("G", wk.element)
        .element("H", wv.element)
        .param("TILE_M", tiles[0])
        .param("TILE_N", tiles[1])
        .param("TILE_K", tiles[2])
        .input("X", &x)
        .input("Wq", &wq)
        .input("Wk", &wk)
        .input("Wv", &wv);
    [("Q", &wq), ("Key", &wk), ("Value", &wv)].into_iter().fold(case, |case, (name, w)| {
        let sizes = (m, w.shape[0], k);
        let product = matmul(&x.values, &w.values, sizes, true);
        let slack = match input {
            Element::Block(_) => dot_quantized::slack(&x.values, &w.values, sizes),
            Element::Scalar(_) => {
                let largest = w.values.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
                vec![Tolerance::sum(k, largest).absolute; product.len()]
            }
        };
        let rounded = Tolerance { absolute: 1e-6, relative: 1e-6 };
        case.output(name, &[m, w.shape[0]], product, rounded).within(slack)
    })
}
