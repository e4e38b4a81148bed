//! The models' gates, and their cap on logits.

use phobos_artifact::{DType, Element, format};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    elementwise::{gelu, sigmoid},
};

const SWIGLU: &str = include_str!("../../../../models/kernels/swiglu.ph");
const GEGLU: &str = include_str!("../../../../models/kernels/geglu.ph");
const SOFTCAP: &str = include_str!("../../../../models/kernels/softcap.ph");

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(11);
    let f32 = Element::Scalar(DType::F32);
    let [_, q4_1, _, _, q8_0, ..] = format::ALL.map(Element::Block);
    for (gate, up, depths) in
        [(f32, f32, [1, 17, 300]), (q4_1, q8_0, [32, 288, 576]), (q8_0, f32, [32, 64, 96])]
    {
        for (m, tile_m) in [(1, 1), (3, 16), (17, 16)] {
            for (n, k) in [1, 33, 64].into_iter().zip(depths) {
                let x = Data::random(f32, &[m, k], &mut random);
                let (g, u) =
                    (Data::random(gate, &[n, k], &mut random), Data::random(up, &[n, k], &mut random));
                let mut case = |source, kernel, function: fn(f64) -> f64, absolute| {
                    let (a, b) = (product(&x, &g, k), product(&x, &u, k));
                    // The error of the products grows with what they sum up to.
                    let size = a.iter().chain(&b).fold(1.0f64, |size, value| size.max(value.abs()));
                    let wanted = a.iter().zip(&b).map(|(a, b)| function(*a) * b).collect();
                    let tolerance = Tolerance { absolute: absolute * size * size, relative: 1e-5 };
                    cases.push(
                        Case::new(kernel, source, kernel)
                            .element("F", gate)
                            .element("G", up)
                            .param("TILE_M", tile_m)
                            .param("TILE_N", 64)
                            .param("TILE_K", 256)
                            .input("X", &x)
                            .input("Gate", &g)
                            .input("Up", &u)
                            .output("Y", &[m, n], wanted, tolerance),
                    );
                };
                case(SWIGLU, "swiglu", |g| g * sigmoid(g), 4e-6);
                case(GEGLU, "geglu", gelu, 8e-6);
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

/// `X Wᵀ` for rows of `k` elements.
fn product(x: &Data, w: &Data, k: u64) -> Vec<f64> {
    let (x, w) = (x.values.chunks(k as usize), w.values.chunks(k as usize));
    x.flat_map(|x| w.clone().map(|w| x.iter().zip(w).map(|(a, b)| a * b).sum())).collect()
}
