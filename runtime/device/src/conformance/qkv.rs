//! The models' products of an attention layer: queries, keys, and values into their cache.

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

/// Rows from `pos` on, of N queries and P keys and values, in a cache of S rows: one program,
/// a program of each, tiles that are cut on both axes, a cache that ends within a tile of rows
/// and one that has room behind them. P is smaller than N, as large, and larger.
const PLACES: [Place; 4] = [
    Place { n: 1, p: 1, pos: 0, room: 0 },
    Place { n: 70, p: 33, pos: 3, room: 90 },
    Place { n: 50, p: 50, pos: 17, room: 2 },
    Place { n: 64, p: 96, pos: 1, room: 0 },
];

#[derive(Clone, Copy)]
struct Place {
    n: u64,
    p: u64,
    pos: u64,
    /// Rows of the cache behind the last that is written.
    room: u64,
}

/// What a kernel is bound to.
#[derive(Clone, Copy)]
struct Bound {
    input: Element,
    weights: [Element; 3],
    cache: DType,
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
    for (input, weights, cache, tiles) in [
        (f32, scalars, DType::F16, one),
        (f32, scalars, DType::F32, few),
        (f32, small, DType::F16, one),
        (f32, small, DType::F16, many),
        (q16_1, small, DType::F16, one),
        (q16_1, large, DType::F32, one),
        (q16_1, small, DType::F16, few),
        (q8_1, small, DType::F32, one),
        (q8_1, small, DType::F16, few),
        (q8_1, small, DType::F32, many),
        (q8_1, large, DType::F16, many),
    ] {
        let depths = if weights == large { [256, 768] } else { [32, 576] };
        for m in [1, 5, 70] {
            for place in PLACES {
                // A row of one block, and several of more than a tile of 512.
                let k = depths[usize::from(place.n > 1)];
                let bound = Bound { input, weights, cache, tiles };
                cases.push(case(&mut random, bound, (m, k), place));
            }
        }
    }
    cases
}

fn case(random: &mut Random, bound: Bound, (m, k): (u64, u64), Place { n, p, pos, room }: Place) -> Case {
    let Bound { input, weights: [wq, wk, wv], cache, tiles } = bound;
    let x = Data::random(input, &[m, k], random);
    let [wq, wk, wv] = [(wq, n), (wk, p), (wv, p)].map(|(w, rows)| Data::random(w, &[rows, k], random));
    let product = |w: &Data| matmul(&x.values, &w.values, (m, w.shape[0], k), true);
    let slack = |w: &Data| match input {
        Element::Block(_) => dot_quantized::slack(&x.values, &w.values, (m, w.shape[0], k)),
        Element::Scalar(_) => {
            let largest = w.values.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
            vec![Tolerance::sum(k, largest).absolute; (m * w.shape[0]) as usize]
        }
    };
    let rounded = Tolerance { absolute: 1e-6, relative: 1e-6 };
    // No row but those from `pos` on is written: elsewhere the cache is what it was, exactly.
    let before = Data::random(Element::Scalar(cache), &[pos + m + room, p], random);
    let (mut after, mut after_slack) = (before.values.clone(), vec![0.0; before.values.len()]);
    let step = if cache == DType::F16 { 1e-3 } else { 1e-6 };
    let start = (pos * p) as usize;
    for (at, (value, slack)) in product(&wv).iter().zip(slack(&wv)).enumerate() {
        after[start + at] = *value;
        after_slack[start + at] = slack + 1e-6 + step * value.abs();
    }
    let name = match input {
        Element::Block(format) => format!("qkv {} {cache}", format.name),
        Element::Scalar(_) => format!("qkv {} {cache}", wq.element),
    };
    Case::new(name, SOURCE, "qkv")
        .element("A", input)
        .element("F", wq.element)
        .element("G", wk.element)
        .element("H", wv.element)
        .element("T", Element::Scalar(cache))
        .param("TILE_M", tiles[0])
        .param("TILE_N", tiles[1])
        .param("TILE_K", tiles[2])
        .input("X", &x)
        .input("Wq", &wq)
        .input("Wk", &wk)
        .input("Wv", &wv)
        .output("Q", &[m, n], product(&wq), rounded)
        .within(slack(&wq))
        .output("Key", &[m, p], product(&wk), rounded)
        .within(slack(&wk))
        .update("Cache", &before, after, Tolerance::EXACT)
        .within(after_slack)
        .scalar("pos", pos as i32)
}
