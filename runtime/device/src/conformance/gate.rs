//! The models' gates, and their cap on logits.

use phobos_artifact::{
    DType, Element,
    format::{ACTIVATIONS, ALL},
};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
    dot_quantized::slack,
    elementwise::{gelu, sigmoid},
    linear::TILES,
    quantize::{named, written},
};

const SWIGLU: &str = include_str!("../../../../models/kernels/swiglu.ph");
const GEGLU: &str = include_str!("../../../../models/kernels/geglu.ph");
const SOFTCAP: &str = include_str!("../../../../models/kernels/softcap.ph");

/// A kernel, its gate, and what the gate's slope is less than: how far it spreads an error.
type Gate = (&'static str, &'static str, fn(f64) -> f64, f64);

const GATES: [Gate; 2] = [("swiglu", SWIGLU, |x| x * sigmoid(x), 1.1), ("geglu", GEGLU, gelu, 1.2)];

/// What a kernel is bound to.
#[derive(Clone, Copy)]
struct Bound {
    input: Element,
    gate: Element,
    up: Element,
    output: Element,
    tiles: [u64; 3],
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(11);
    let f32 = Element::Scalar(DType::F32);
    let [q8_1, q16_1] = ACTIVATIONS.map(Element::Block);
    let [_, q4_1, _, _, q8_0, ..] = ALL.map(Element::Block);
    for (gate, up, depths) in
        [(f32, f32, [1, 17, 300]), (q4_1, q8_0, [32, 288, 576]), (q8_0, f32, [32, 64, 96])]
    {
        for (m, tile_m) in [(1, 1), (3, 16), (17, 16)] {
            for (n, k) in [1, 33, 64].into_iter().zip(depths) {
                let bound = Bound { input: f32, gate, up, output: f32, tiles: [tile_m, 64, 256] };
                cases.extend(GATES.map(|function| case(&mut random, function, bound, (m, n, k))));
            }
        }
    }
    // Inputs and outputs of the models, in their tiles; N is whole blocks of the output.
    let [one, few, many] = TILES;
    for (input, output, (tiles, heights)) in
        [(q16_1, q16_1, one), (q8_1, q8_1, few), (q8_1, q8_1, many), (q8_1, f32, few), (f32, q8_1, few)]
    {
        let bound = Bound { input, gate: q4_1, up: q8_0, output, tiles };
        for m in heights {
            for (n, k) in [(32, 32), (96, 576), (64, 288)] {
                cases.extend(GATES.map(|function| case(&mut random, function, bound, (*m, n, k))));
            }
        }
    }
    for (n, v, cap) in [(1, 1, 1.0f32), (1, 1023, 30.0), (3, 1025, 0.5)] {
        let x: Vec<f64> = (0..n * v).map(|_| random.between(-60.0, 60.0)).collect();
        let x = Data::f32(&[n, v], &x);
        let limit = f64::from(cap);
        let capped = x.values.iter().map(|x| limit * (x / limit).tanh()).collect();
        cases.push(
            Case::new("softcap", SOFTCAP, "softcap")
                .update("X", &x, capped, Tolerance { absolute: 1e-6, relative: 2e-6 })
                .scalar("cap", cap),
        );
    }
    cases
}

fn case(
    random: &mut Random,
    (kernel, source, function, slope): Gate,
    Bound { input, gate, up, output, tiles }: Bound,
    (m, n, k): (u64, u64, u64),
) -> Case {
    let x = Data::random(input, &[m, k], random);
    let (g, u) = (Data::random(gate, &[n, k], random), Data::random(up, &[n, k], random));
    let product = |w: &Data| matmul(&x.values, &w.values, (m, n, k), true);
    let (a, b) = (product(&g), product(&u));
    let wanted = a.iter().zip(&b).map(|(a, b)| function(*a) * b).collect();
    let (tolerance, slack) = match input {
        Element::Block(_) => {
            let slack = |w: &Data| slack(&x.values, &w.values, (m, n, k));
            // Of f(a) b, where a and b are off by so much, and |f(a)| is at most |a|.
            let errors = a.iter().zip(&b).zip(slack(&g).into_iter().zip(slack(&u)));
            let spread = errors.map(|((a, b), (da, db))| slope * da * (b.abs() + db) + a.abs() * db);
            (Tolerance { absolute: 8e-6, relative: 1e-5 }, spread.collect())
        }
        Element::Scalar(_) => {
            // The error of the products grows with what they sum up to.
            let size = a.iter().chain(&b).fold(1.0f64, |size, value| size.max(value.abs()));
            (Tolerance { absolute: 8e-6 * size * size, relative: 1e-5 }, Vec::new())
        }
    };
    let formats = [input, output].into_iter().find(|element| matches!(element, Element::Block(_)));
    let case = Case::new(named(kernel, formats.unwrap_or(input)), source, kernel)
        .element("A", input)
        .element("F", gate)
        .element("G", up)
        .element("B", output)
        .param("TILE_M", tiles[0])
        .param("TILE_N", tiles[1])
        .param("TILE_K", tiles[2])
        .input("X", &x)
        .input("Gate", &g)
        .input("Up", &u);
    written(case, ("Y", output), &[m, n], wanted, tolerance, &slack)
}
