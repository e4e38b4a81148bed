//! The models' embedding and linear layers, for weights in every format, and linear layers of
//! rounded inputs.

use phobos_artifact::{
    DType, Element,
    format::{ACTIVATIONS, ALL, Format},
};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
    dot_quantized::slack,
};

const EMBED: &str = include_str!("../../../../models/kernels/embed.ph");
const LINEAR: &str = include_str!("../../../../models/kernels/linear.ph");

fn weights() -> impl Iterator<Item = Element> {
    let scalars = [DType::F32, DType::F16, DType::Bf16].into_iter().map(Element::Scalar);
    scalars.chain(ALL.into_iter().map(Element::Block))
}

/// Whether an element sees every shape. Formats differ in nothing but their decode rule,
/// so one of each kind does, and the others see an odd shape each.
fn every_shape(element: Element) -> bool {
    match element {
        Element::Scalar(_) => true,
        Element::Block(format) => ["q4_0", "q4_1", "q8_0"].contains(&format.name),
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(7);
    for element in weights() {
        embed(&mut cases, &mut random, element);
        linear(&mut cases, &mut random, element);
    }
    // Of every format `dot_quantized` has the products: here are the tiles of the models.
    for inputs in ACTIVATIONS {
        for weights in ALL.into_iter().filter(|format| ROUNDED.contains(&format.name)) {
            rounded(&mut cases, &mut random, inputs, weights);
        }
    }
    cases
}

fn embed(cases: &mut Vec<Case>, random: &mut Random, element: Element) {
    let block = element.block_elements() as u64;
    let widths: &[u64] = match block {
        1 => &[1, 17, 33, 64],
        _ if every_shape(element) => &[1, 2, 3],
        _ => &[3],
    };
    for width in widths {
        let e = width * block;
        let w = Data::random(element, &[11, e], random);
        for n in [1, 17] {
            let ids: Vec<f64> =
                (0..n).map(|at| if at == 0 { 10.0 } else { random.below(11) as f64 }).collect();
            cases.push(lookup(format!("embed {element}"), &w, &ids));
        }
        // An id outside the table reads nothing, so its row stays as it was.
        cases.push(lookup(format!("embed outside {element}"), &w, &[3.0, 11.0, -1.0, 2.0]));
    }
}

/// A power of two: scaling by it rounds nothing.
const SCALE: f32 = 4.0;

fn lookup(op: String, w: &Data, ids: &[f64]) -> Case {
    let (v, e, n) = (w.shape[0], w.shape[1], ids.len() as u64);
    let before = Data::f32(&[n, e], &vec![-77.0; (n * e) as usize]);
    let mut wanted = before.values.clone();
    for (row, id) in wanted.chunks_mut(e as usize).zip(ids) {
        if *id >= 0.0 && *id < v as f64 {
            let values = &w.values[*id as usize * e as usize..][..e as usize];
            row.iter_mut().zip(values).for_each(|(x, value)| *x = value * f64::from(SCALE));
        }
    }
    Case::new(op, EMBED, "embed")
        .element("F", w.element)
        .bind("E", e)
        .input("Ids", &Data::new(DType::I32, &[n], ids))
        .input("W", w)
        .update("X", &before, wanted, Tolerance::EXACT)
        .scalar("scale", SCALE)
}

/// Decode (M = 1) and prefill, N around a tile of 16, K around a tile of 256.
fn linear(cases: &mut Vec<Case>, random: &mut Random, element: Element) {
    let block = element.block_elements() as u64;
    let every_shape = every_shape(element);
    let depths: &[u64] = match block {
        1 => &[1, 17, 255, 256, 257],
        32 => &[32, 256, 288],
        _ => &[256, 768],
    };
    let (heights, widths): (&[_], &[_]) = if every_shape {
        (&[(1, 1), (1, 16), (3, 4), (15, 16), (16, 16), (17, 16)], &[1, 15, 16, 17, 33])
    } else {
        (&[(1, 1), (17, 16)], &[33])
    };
    for &(m, tile_m) in heights {
        for &n in widths {
            for k in depths {
                let x = Data::random(Element::Scalar(DType::F32), &[m, *k], random);
                let w = Data::random(element, &[n, *k], random);
                let product = matmul(&x.values, &w.values, (m, n, *k), true);
                let largest = w.values.iter().fold(1.0f64, |largest, value| largest.max(value.abs()));
                let tolerance = Tolerance::sum(*k, largest);
                let case = |kernel: &str| {
                    Case::new(format!("{kernel} {element}"), LINEAR, kernel)
                        .element("A", Element::Scalar(DType::F32))
                        .element("F", element)
                        .param("TILE_M", tile_m)
                        .param("TILE_N", 16)
                        .param("TILE_K", 256)
                        .input("X", &x)
                        .input("W", &w)
                };
                if every_shape {
                    let y = Data::random(Element::Scalar(DType::F32), &[m, n], random);
                    let sums = product.iter().zip(&y.values).map(|(product, y)| product + y).collect();
                    cases.push(case("linear_add").update("Y", &y, sums, tolerance));
                }
                cases.push(case("linear").output("Y", &[m, n], product, tolerance));
            }
        }
    }
}

/// Weights of linear layers whose inputs are rounded: in blocks of 32 with and without
/// offsets, and in blocks of 256.
const ROUNDED: [&str; 3] = ["q4_1", "q8_0", "q4_k"];

/// The tiles (M, N, K) that models choose, and heights that fill and do not fill them.
pub(super) const TILES: [([u64; 3], &[u64]); 3] =
    [([1, 32, 4096], &[1, 3]), ([16, 64, 512], &[5, 16, 17]), ([128, 64, 512], &[5, 128, 130])];

fn rounded(cases: &mut Vec<Case>, random: &mut Random, inputs: &'static Format, weights: &'static Format) {
    // One block; more than a tile of 512, which the depth ends within; more than one of 4096.
    let depths: [u64; 3] = if weights.elements == 32 { [32, 576, 4128] } else { [256, 768, 4352] };
    for (tiles, heights) in TILES {
        for m in heights {
            for n in [1, 33, 50, 64] {
                for k in depths {
                    // Deep rows are for the tile that is deep.
                    if k < 4096 || (tiles[0], n) == (1, 50) {
                        layer(cases, random, (inputs, weights), (*m, n, k), tiles);
                    }
                }
            }
        }
    }
}

fn layer(
    cases: &mut Vec<Case>,
    random: &mut Random,
    (inputs, weights): (&'static Format, &'static Format),
    (m, n, k): (u64, u64, u64),
    tiles: [u64; 3],
) {
    let x = Data::random(Element::Block(inputs), &[m, k], random);
    let w = Data::random(Element::Block(weights), &[n, k], random);
    let product = matmul(&x.values, &w.values, (m, n, k), true);
    let slack = slack(&x.values, &w.values, (m, n, k));
    let tolerance = Tolerance { absolute: 1e-6, relative: 1e-6 };
    let case = |kernel: &str| {
        Case::new(format!("{kernel} {} {}", inputs.name, weights.name), LINEAR, kernel)
            .element("A", x.element)
            .element("F", w.element)
            .param("TILE_M", tiles[0])
            .param("TILE_N", tiles[1])
            .param("TILE_K", tiles[2])
            .input("X", &x)
            .input("W", &w)
    };
    // The two differ in their store alone.
    if weights.name == "q4_1" {
        let y = Data::random(Element::Scalar(DType::F32), &[m, n], random);
        let sums = product.iter().zip(&y.values).map(|(product, y)| product + y).collect();
        cases.push(case("linear_add").update("Y", &y, sums, tolerance).within(slack.clone()));
    }
    cases.push(case("linear").output("Y", &[m, n], product, tolerance).within(slack));
}
