//! Matrix products: `dot` and `dot_t`, odd shapes, small K, tiles that are no powers of two.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    elementwise::grid,
};

/// (M, N, K): every K of interest, M and N around the tiles of 16 and 32. An empty sum is 0.
const SHAPES: [(u64, u64, u64); 17] = [
    (3, 33, 0),
    (1, 1, 1),
    (16, 32, 1),
    (17, 33, 1),
    (3, 7, 2),
    (17, 17, 2),
    (16, 32, 8),
    (1, 33, 8),
    (33, 1, 15),
    (15, 31, 15),
    (17, 33, 17),
    (1, 17, 17),
    (33, 65, 17),
    (3, 7, 64),
    (16, 32, 64),
    (17, 33, 64),
    (1, 1, 64),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(6);
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::F64] {
        for transposed in [false, true] {
            for (m, n, k) in SHAPES {
                cases.push(product(&mut random, dtype, transposed, (m, n, k), [16, 32, 16]));
            }
        }
    }
    // Other tiles: rows of one, no powers of two, K in one step.
    for tiles in [[1, 32, 64], [48, 48, 16], [16, 16, 96], [4, 24, 12]] {
        for transposed in [false, true] {
            for (m, n, k) in [(1, 33, 17), (3, 7, 64), (47, 49, 33), (49, 47, 97), (1, 1, 1)] {
                cases.push(product(&mut random, DType::F32, transposed, (m, n, k), tiles));
            }
        }
    }
    single(&mut cases, &mut random);
    chained(&mut cases, &mut random);
    cases
}

fn source(dtype: DType, transposed: bool) -> String {
    let accumulator = if dtype == DType::F64 { "f64" } else { "f32" };
    let (function, shape, slice) = match transposed {
        true => ("dot_t", "[N, K]", "n :+ TN, k :+ TK"),
        false => ("dot", "[K, N]", "k :+ TK, n :+ TN"),
    };
    format!(
        "@autotune(TM in [1, 4, 16, 48], TN in [16, 24, 32, 48], TK in [12, 16, 64, 96])
kernel product(A: tensor<{dtype}>[M, K], B: tensor<{dtype}>{shape}, C: tensor<{accumulator}>[M, N]) {{
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  var acc: tile<{accumulator}>[TM, TN] = 0.0
  for k in range(0, K, TK) {{
    acc += {function}(A[m :+ TM, k :+ TK], B[{slice}])
  }}
  C[m :+ TM, n :+ TN] = acc
}}
"
    )
}

fn product(
    random: &mut Random,
    dtype: DType,
    transposed: bool,
    (m, n, k): (u64, u64, u64),
    [tm, tn, tk]: [u64; 3],
) -> Case {
    let name = if transposed { "dot_t" } else { "dot" };
    let a = Data::random(Element::Scalar(dtype), &[m, k], random);
    let shape = if transposed { [n, k] } else { [k, n] };
    let b = Data::random(Element::Scalar(dtype), &shape, random);
    let wanted = matmul(&a.values, &b.values, (m, n, k), transposed);
    let (output, tolerance) = match dtype {
        DType::F64 => (DType::F64, Tolerance { absolute: 1e-13, relative: 1e-13 }),
        // Products of f16 and bf16 are exact in f32, and so is the tolerance of their sum.
        _ => (DType::F32, Tolerance::sum(k, 1.0)),
    };
    Case::new(format!("{name} {dtype}"), source(dtype, transposed), "product")
        .param("TM", tm)
        .param("TN", tn)
        .param("TK", tk)
        .input("A", &a)
        .input("B", &b)
        .typed_output("C", output, &[m, n], wanted, tolerance)
}

/// `a [m, k]` times `b [k, n]`, or `b [n, k]` transposed.
pub(super) fn matmul(a: &[f64], b: &[f64], (m, n, k): (u64, u64, u64), transposed: bool) -> Vec<f64> {
    let (n_, k_) = (n as usize, k as usize);
    grid(m, n, |i, j| {
        (0..k_).map(|l| a[i * k_ + l] * if transposed { b[j * k_ + l] } else { b[l * n_ + j] }).sum()
    })
}

/// One product without an accumulator.
fn single(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(T in [32])
kernel product(A: tensor<f32>[M, K], B: tensor<f32>[K, N], C: tensor<f32>[M, N]) {
  C[0 :+ T, 0 :+ T] = dot(A[0 :+ T, 0 :+ T], B[0 :+ T, 0 :+ T])
}
";
    for (m, n, k) in [(1, 1, 1), (17, 31, 2), (32, 32, 32), (31, 17, 15)] {
        let a = Data::random(Element::Scalar(DType::F32), &[m, k], random);
        let b = Data::random(Element::Scalar(DType::F32), &[k, n], random);
        let wanted = matmul(&a.values, &b.values, (m, n, k), false);
        cases.push(Case::new("dot once", source, "product").input("A", &a).input("B", &b).output(
            "C",
            &[m, n],
            wanted,
            Tolerance::sum(k, 1.0),
        ));
    }
}

/// Operands that are computed: what was outside must stay so through `exp`, which makes
/// 1 of 0, and through a product whose K is the ragged axis.
fn chained(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(T in [32])
kernel chain(A: tensor<f32>[M, K], B: tensor<f32>[N, K], V: tensor<f32>[N, D], C: tensor<f32>[M, D]) {
  let p = exp(dot_t(A[0 :+ T, 0 :+ T], B[0 :+ T, 0 :+ T]))
  C[0 :+ T, 0 :+ T] = dot(p, exp(V[0 :+ T, 0 :+ T]))
}
";
    for (m, n, k, d) in [(1, 1, 1, 1), (17, 17, 8, 17), (31, 5, 15, 32), (32, 32, 32, 32)] {
        let f32s = Element::Scalar(DType::F32);
        let a = Data::random(f32s, &[m, k], random);
        let b = Data::random(f32s, &[n, k], random);
        let v = Data::random(f32s, &[n, d], random);
        let p: Vec<f64> = matmul(&a.values, &b.values, (m, n, k), true).into_iter().map(f64::exp).collect();
        let e: Vec<f64> = v.values.iter().map(|v| v.exp()).collect();
        let wanted = matmul(&p, &e, (m, d, n), false);
        cases.push(
            Case::new("dot of exp", source, "chain").input("A", &a).input("B", &b).input("V", &v).output(
                "C",
                &[m, d],
                wanted,
                Tolerance { absolute: 1e-5, relative: 2e-5 },
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_agree() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 2.0, 0.0, 1.0, 1.0]);
        // [[1 2 3] [4 5 6]] x [[1 0 2] [0 1 1]]^T
        assert_eq!(matmul(&a, &b, (2, 2, 3), true), [7.0, 5.0, 16.0, 11.0]);
        let b = [1.0, 0.0, 0.0, 1.0, 2.0, 1.0];
        assert_eq!(matmul(&a, &b, (2, 2, 3), false), [7.0, 5.0, 16.0, 11.0]);
    }
}
