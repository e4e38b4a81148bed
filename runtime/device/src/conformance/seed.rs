//! Kernels of the reference language, which must compile as they stand: gemm, saxpy and
//! flash attention.

use phobos_artifact::{DType, Element};

use super::{
    attention::weighted,
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
};

const F32: Element = Element::Scalar(DType::F32);

const GEMM: &str = "@cluster(TILE_M in [16384, 65536], TILE_N in [16384, 65536], TILE_K in [16384, 65536])
@autotune(TILE_M in [32, 256], TILE_N in [32, 256], TILE_K in [4, 32])
kernel gemm(A: tensor<f32>[M, K],
            B: tensor<f32>[K, N],
            C: tensor<f32>[M, N],
            alpha: f32,
            beta: f32) {
  let pm = program_id(0)
  let pn = program_id(1)

  var acc: tile<f32>[TILE_M, TILE_N] = 0.0

  for kt in range(0, K, TILE_K) {
    var a = A[pm * TILE_M :+ TILE_M, kt :+ TILE_K]
    var b = B[kt :+ TILE_K, pn * TILE_N :+ TILE_N]
    acc += dot(a, b)
  }

  let c_old = C[pm * TILE_M :+ TILE_M, pn * TILE_N :+ TILE_N]
  C[pm * TILE_M :+ TILE_M, pn * TILE_N :+ TILE_N] = alpha * acc + beta * c_old
}
";

const SAXPY: &str = "@autotune(TILE in [256, 1024])
kernel saxpy_fp32(X: tensor<f32>[N], Y: tensor<f32>[N], a: f32) {
  let i = program_id(0) * TILE
  Y[i :+ TILE] = a * X[i :+ TILE] + Y[i :+ TILE]
}
";

/// Not causal, one head: the keys end inside a tile, and nothing but the validity of
/// loads keeps the rest of that tile out of the maximum, the sum and the product.
const FLASH: &str = "@autotune(TILE_Q in [16, 32], TILE_K in [32, 64])
kernel flash_attention_fp32(Q: tensor<f32>[Nq, D], K: tensor<f32>[Nk, D], V: tensor<f32>[Nk, D],
                            O: tensor<f32>[Nq, D], scale: f32) {
  let first = program_id(0) * TILE_Q
  let q = Q[first :+ TILE_Q, :] * scale

  var m: tile<f32>[TILE_Q, 1] = -inf
  var l: tile<f32>[TILE_Q, 1] = 0.0
  var acc: tile<f32>[TILE_Q, D] = 0.0
  for k in range(0, Nk, TILE_K) {
    let s = dot_t(q, K[k :+ TILE_K, :])
    let m_new = max(m, rowmax(s))
    let p = exp(s - m_new)
    let keep = exp(m - m_new)
    l = l * keep + rowsum(p)
    acc = acc * keep + dot(p, V[k :+ TILE_K, :])
    m = m_new
  }
  O[first :+ TILE_Q, :] = acc / l
}
";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(12);
    gemm(&mut cases, &mut random);
    saxpy(&mut cases, &mut random);
    flash(&mut cases, &mut random);
    cases
}

fn gemm(cases: &mut Vec<Case>, random: &mut Random) {
    for tiles in [None, Some((32, 32, 4)), Some((64, 32, 32))] {
        for (m, n, k) in [
            (1, 1, 1),
            (3, 7, 64),
            (17, 33, 1),
            (31, 32, 33),
            (32, 31, 2),
            (33, 17, 8),
            (33, 33, 15),
            (65, 1, 17),
            (129, 257, 33),
        ] {
            for (alpha, beta) in [(1.0f32, 0.0f32), (0.5, -2.0)] {
                let a = Data::random(F32, &[m, k], random);
                let b = Data::random(F32, &[k, n], random);
                let c = Data::random(F32, &[m, n], random);
                let wanted = matmul(&a.values, &b.values, (m, n, k), false)
                    .iter()
                    .zip(&c.values)
                    .map(|(product, c)| f64::from(alpha) * product + f64::from(beta) * c)
                    .collect();
                let mut case = Case::new("gemm", GEMM, "gemm")
                    .input("A", &a)
                    .input("B", &b)
                    .update("C", &c, wanted, Tolerance::sum(k + 2, 2.0))
                    .scalar("alpha", alpha)
                    .scalar("beta", beta);
                if let Some((tile_m, tile_n, tile_k)) = tiles {
                    case = case.param("TILE_M", tile_m).param("TILE_N", tile_n).param("TILE_K", tile_k);
                }
                cases.push(case);
            }
        }
    }
}

fn saxpy(cases: &mut Vec<Case>, random: &mut Random) {
    for n in [1, 17, 33, 255, 256, 257, 1025] {
        let (x, y) = (Data::random(F32, &[n], random), Data::random(F32, &[n], random));
        let wanted = x.values.iter().zip(&y.values).map(|(x, y)| 2.5 * x + y).collect();
        cases.push(
            Case::new("saxpy_fp32", SAXPY, "saxpy_fp32")
                .param("TILE", 256)
                .input("X", &x)
                .update("Y", &y, wanted, Tolerance { absolute: 3e-7, relative: 1.3e-7 })
                .scalar("a", 2.5f32),
        );
    }
}

fn flash(cases: &mut Vec<Case>, random: &mut Random) {
    for (nq, nk, d) in
        [(1, 1, 8), (1, 33, 64), (17, 17, 16), (16, 32, 32), (15, 31, 33), (33, 65, 64), (32, 100, 17)]
    {
        // Scores well below 0, so that a score of 0 from outside would win the maximum.
        let q = Data::f32(&[nq, d], &(0..nq * d).map(|_| random.between(0.5, 1.0)).collect::<Vec<f64>>());
        let k = Data::f32(&[nk, d], &(0..nk * d).map(|_| random.between(-4.0, -2.0)).collect::<Vec<f64>>());
        let v = Data::random(F32, &[nk, d], random);
        let scores = matmul(&q.values, &k.values, (nq, nk, d), true);
        let width = d as usize;
        let wanted = scores
            .chunks(nk as usize)
            .flat_map(|row| {
                let row: Vec<f64> = row.iter().map(|score| score * 0.25).collect();
                weighted(&row, width, |key, i| v.values[key * width + i])
            })
            .collect();
        for (tile_q, tile_k) in [(16, 32), (32, 64)] {
            cases.push(
                Case::new("flash_attention_fp32", FLASH, "flash_attention_fp32")
                    .bind("D", d)
                    .param("TILE_Q", tile_q)
                    .param("TILE_K", tile_k)
                    .input("Q", &q)
                    .input("K", &k)
                    .input("V", &v)
                    .output("O", &[nq, d], Vec::clone(&wanted), Tolerance { absolute: 2e-5, relative: 2e-5 })
                    .scalar("scale", 0.25f32),
            );
        }
    }
}
