//! `dot_t` with weights that are wider than the left side: the depth ends inside a block of
//! theirs, and what is beyond the left side counts as zeros. The same with half types.

use phobos_artifact::{
    DType, Element,
    format::{ACTIVATIONS, by_name},
};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
};

const SOURCE: &str = "@autotune(TM in [1, 4, 16], TK in [64, 256])
kernel narrow[A: format, F: format](X: tensor<A>[M, J], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let m = program_id(0) * TM
  let n = program_id(1) * 16
  var acc: tile<f32>[TM, 16] = 0.0
  for k in range(0, K, TK) {
    acc += dot_t(X[m :+ TM, k :+ TK], W[n :+ 16, k :+ TK])
  }
  Y[m :+ TM, n :+ 16] = acc
}

@autotune(TM in [1, 4, 16])
kernel across[F: format](X: tensor<f32>[M, K], W: tensor<F>[K, N], Y: tensor<f32>[M, N]) {
  let m = program_id(0) * TM
  let n = program_id(1) * 64
  var acc: tile<f32>[TM, 64] = 0.0
  for k in range(0, K, 64) {
    acc += dot(X[m :+ TM, k :+ 64], f32(W[k :+ 64, n :+ 64]))
  }
  Y[m :+ TM, n :+ 64] = acc
}
";

/// (M, tile): streamed, a few rows, panels.
const HEIGHTS: [(u64, u64); 3] = [(1, 1), (3, 4), (17, 16)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(53);
    // J is no multiple of 32 with floats, and one with activations, which are whole blocks.
    for (weights, k, tk, exact, rounded) in [
        ("q8_0", 128, 64, 40, 96),
        ("q4_1", 64, 64, 1, 32),
        ("q4_k", 512, 256, 300, 288),
        ("q6_k", 256, 256, 100, 32),
    ] {
        let Some(weights) = by_name(weights).map(Element::Block) else { continue };
        let halves = [DType::F16, DType::Bf16].map(Element::Scalar);
        let floats = [(Element::Scalar(DType::F32), exact), (halves[0], exact), (halves[1], exact)];
        // Half types also with rows that are whole: they are widened on the way.
        let whole = halves.map(|half| (half, k));
        let blocks = ACTIVATIONS.map(|format| (Element::Block(format), rounded));
        for (left, j) in blocks.into_iter().chain(floats).chain(whole) {
            for (m, tm) in HEIGHTS {
                let x = Data::random(left, &[m, j], &mut random);
                let w = Data::random(weights, &[19, k], &mut random);
                let product = matmul(&x.values, &columns(&w.values, k, j), (m, 19, j), true);
                // As for dot_t of whole rows: 1e-5 of the sum of magnitudes.
                let magnitude = |values: &[f64]| values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                let slack = 1e-5 * j as f64 * magnitude(&x.values) * magnitude(&w.values);
                let case = Case::new(format!("dot_t of narrow {left} {weights}"), SOURCE, "narrow")
                    .element("A", left)
                    .element("F", weights)
                    .param("TM", tm)
                    .param("TK", tk)
                    .input("X", &x)
                    .input("W", &w)
                    .output("Y", &[m, 19], product, Tolerance { absolute: 1e-6 + slack, relative: 0.0 });
                cases.push(case);
            }
        }
    }
    // Blocks across the depth: it may end anywhere, and no row of W beyond it is read.
    for weights in ["q8_0", "q4_1"].into_iter().filter_map(by_name).map(Element::Block) {
        for k in [1, 40, 64, 100] {
            for (m, tm) in HEIGHTS {
                let x = Data::random(Element::Scalar(DType::F32), &[m, k], &mut random);
                let w = Data::random(weights, &[k, 96], &mut random);
                let product = matmul(&x.values, &w.values, (m, 96, k), false);
                let magnitude = |values: &[f64]| values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
                let slack = 1e-5 * k as f64 * magnitude(&x.values) * magnitude(&w.values);
                let case = Case::new(format!("dot of narrow {weights}"), SOURCE, "across")
                    .element("F", weights)
                    .param("TM", tm)
                    .input("X", &x)
                    .input("W", &w)
                    .output("Y", &[m, 96], product, Tolerance { absolute: 1e-6 + slack, relative: 0.0 });
                cases.push(case);
            }
        }
    }
    cases
}

/// The first `j` of each `k` values.
fn columns(values: &[f64], k: u64, j: u64) -> Vec<f64> {
    values.chunks(k as usize).flat_map(|row| &row[..j as usize]).copied().collect()
}
