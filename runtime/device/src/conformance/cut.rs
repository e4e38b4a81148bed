//! Tiles of blocks that another tensor's extent cuts, so that they end inside a block, by
//! everything that reads a row of one.

use phobos_artifact::{DType, Element, format::by_name};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
};

const SOURCE: &str = "@autotune(T in [32])
@grid(1)
kernel stored[F: format](W: tensor<F>[N, K], Y: tensor<f32>[N, J]) {
  Y[0 :+ 4, 0 :+ T] = f32(W[0 :+ 4, 0 :+ T])
}
@autotune(T in [32])
@grid(1)
kernel scaled[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[N, J]) {
  Y[0 :+ 4, 0 :+ T] = f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T]
}
@autotune(T in [32])
@grid(1)
kernel turned[F: format](W: tensor<F>[N, K], X: tensor<f32>[J, N], Y: tensor<f32>[N, J]) {
  Y[0 :+ 4, 0 :+ T] = f32(W[0 :+ 4, 0 :+ T]) * transpose(X[0 :+ T, 0 :+ 4])
}
@autotune(T in [32])
@grid(1)
kernel summed[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[N, 1]) {
  Y[0 :+ 4, :] = sum(f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T], 1)
}
@autotune(T in [32])
@grid(1)
kernel greatest[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[N, 1]) {
  Y[0 :+ 4, :] = reduce_max(f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T] - 100.0, 1)
}
@autotune(T in [32])
@grid(1)
kernel columns[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[1, J]) {
  Y[:, 0 :+ T] = sum(f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T], 0)
}
@autotune(T in [32])
@grid(1)
kernel inserted[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[4, 512]) {
  var y: tile<f32>[4, 512] = 7.0
  y[0 :+ 4, 0 :+ T] = f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T]
  Y[:, :] = y
}
@autotune(T in [32])
@grid(1)
kernel running[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[N, J]) {
  Y[0 :+ 4, 0 :+ T] = cumsum(f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T], 1)
}
@autotune(T in [32])
@grid(1)
kernel carried[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[N, J], times: i32) {
  var y: tile<f32>[4, T] = 0.0
  for i in range(times) {
    y += f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T]
  }
  Y[0 :+ 4, 0 :+ T] = y
}
@autotune(T in [32])
@grid(1)
kernel rounded[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Y: tensor<f32>[N, J]) {
  let x = f32(W[0 :+ 4, 0 :+ T]) * X[0 :+ 4, 0 :+ T]
  Y[0 :+ 4, 0 :+ T] = f32(quantize(x, q16_1))
}
@autotune(T in [32])
@grid(1)
kernel across[F: format](W: tensor<F>[N, K], X: tensor<f32>[J, N], Y: tensor<f32>[J, N]) {
  Y[0 :+ T, 0 :+ 4] = transpose(f32(W[0 :+ 4, 0 :+ T])) * X[0 :+ T, 0 :+ 4]
}
@autotune(T in [32])
@grid(1)
kernel added[F: format](W: tensor<F>[N, K], A: tensor<f32>[N, 2], B: tensor<f32>[2, J], Y: tensor<f32>[N, J]) {
  Y[0 :+ 4, 0 :+ T] = f32(W[0 :+ 4, 0 :+ T]) + dot(A[0 :+ 4, 0 :+ 2], B[0 :+ 2, 0 :+ T])
}
@grid(1)
kernel mixed(W: tensor<q8_0>[N, K], V: tensor<q4_k>[N, L], Z: tensor<f32>[1, L], Y: tensor<f32>[N, K],
             S: tensor<f32>[1, N]) {
  let w = f32(W[0 :+ 4, 0 :+ 256]) * f32(V[0 :+ 4, 0 :+ 256])
  Y[0 :+ 4, 0 :+ 256] = w
  S[:, 0 :+ 4] = dot_t(Z[:, 0 :+ 256], w)
}
@autotune(T in [32], M in [1, 4, 16])
@grid(1)
kernel left[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Z: tensor<f32>[P, J], Y: tensor<f32>[N, P]) {
  Y[0 :+ M, 0 :+ 32] = dot_t(f32(W[0 :+ M, 0 :+ T]) * X[0 :+ M, 0 :+ T], Z[0 :+ 32, 0 :+ T])
}
@autotune(T in [32], M in [1, 4, 16])
@grid(1)
kernel right[F: format](W: tensor<F>[N, K], X: tensor<f32>[N, J], Z: tensor<f32>[P, J], Y: tensor<f32>[P, N]) {
  Y[0 :+ M, 0 :+ 32] = dot_t(Z[0 :+ M, 0 :+ T], f32(W[0 :+ 32, 0 :+ T]) * X[0 :+ 32, 0 :+ T])
}
";

/// Rows of W: the tiles have 4.
const N: u64 = 3;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(61);
    for (name, k, cuts) in [
        ("q8_0", 64, &[1, 17, 31, 32, 33, 40, 63, 64][..]),
        ("q4_1", 64, &[5, 36, 60]),
        ("q4_k", 512, &[33, 300]),
    ] {
        let Some(format) = by_name(name).map(Element::Block) else { continue };
        for &j in cuts {
            rows(&mut cases, &mut random, format, k, j);
            for (m, height) in [(1, 1), (3, 4), (13, 16)] {
                products(&mut cases, &mut random, format, (k, j), (m, height));
            }
        }
    }
    for k in [32, 96, 224] {
        mixed(&mut cases, &mut random, k);
    }
    cases
}

/// Two formats, of which one has more and smaller blocks and ends sooner.
fn mixed(cases: &mut Vec<Case>, random: &mut Random, k: u64) {
    let (Some(small), Some(large)) = (by_name("q8_0"), by_name("q4_k")) else { return };
    let w = Data::random(Element::Block(small), &[N, k], random);
    let v = Data::random(Element::Block(large), &[N, 256], random);
    let z = Data::random(Element::Scalar(DType::F32), &[1, 256], random);
    let product: Vec<f64> = w.values.iter().zip(cut(&v.values, 256, k)).map(|(w, v)| w * v).collect();
    let size = product.iter().fold(1.0f64, |most, value| most.max(value.abs()));
    let sums = matmul(&cut(&z.values, 256, k), &product, (1, N, k), true);
    let once = Tolerance { absolute: 1e-6 * size, relative: 1e-6 };
    cases.push(
        Case::new("cut mixed", SOURCE, "mixed")
            .input("W", &w)
            .input("V", &v)
            .input("Z", &z)
            .output("Y", &[N, k], product, once)
            .output("S", &[1, N], sums, Tolerance::sum(k, size)),
    );
}

/// What goes over the rows of one tile.
fn rows(cases: &mut Vec<Case>, random: &mut Random, format: Element, k: u64, j: u64) {
    let float = Element::Scalar(DType::F32);
    let w = Data::random(format, &[N, k], random);
    let x = Data::random(float, &[N, j], random);
    let wide = cut(&w.values, k, j);
    let scaled: Vec<f64> = wide.iter().zip(&x.values).map(|(w, x)| w * x).collect();
    let size = scaled.iter().chain(&wide).fold(1.0f64, |most, value| most.max(value.abs()));
    let once = Tolerance { absolute: 1e-6 * size, relative: 1e-6 };
    let sum = Tolerance::sum(j + 2, size);
    let case = |kernel: &str| {
        Case::new(format!("cut {kernel} {format}"), SOURCE, kernel)
            .element("F", format)
            .param("T", k)
            .input("W", &w)
    };
    let row = |fold: &dyn Fn(&[f64]) -> f64| scaled.chunks(j as usize).map(fold).collect::<Vec<_>>();
    cases.push(case("stored").output("Y", &[N, j], wide.clone(), once));
    cases.push(case("scaled").input("X", &x).output("Y", &[N, j], scaled.clone(), once));
    let turn = |values: &[f64]| -> Vec<f64> {
        (0..j).flat_map(|c| (0..N).map(move |r| (r * j + c) as usize)).map(|at| values[at]).collect()
    };
    let turned = Data::f32(&[j, N], &turn(&x.values));
    cases.push(case("turned").input("X", &turned).output("Y", &[N, j], scaled.clone(), once));
    cases.push(case("across").input("X", &turned).output("Y", &[j, N], turn(&scaled), once));
    let (a, b) = (Data::random(float, &[N, 2], random), Data::random(float, &[2, j], random));
    let added = matmul(&a.values, &b.values, (N, j, 2), false);
    let added = wide.iter().zip(added).map(|(w, product)| w + product).collect();
    cases.push(case("added").input("A", &a).input("B", &b).output("Y", &[N, j], added, sum));
    let sums = row(&|row| row.iter().sum());
    cases.push(case("summed").input("X", &x).output("Y", &[N, 1], sums, sum));
    let most = row(&|row| row.iter().fold(f64::NEG_INFINITY, |most, value| most.max(*value)) - 100.0);
    let near = Tolerance { absolute: 1e-5 * (size + 100.0), relative: 0.0 };
    cases.push(case("greatest").input("X", &x).output("Y", &[N, 1], most, near));
    let columns = (0..j as usize).map(|at| scaled.iter().skip(at).step_by(j as usize).sum()).collect();
    cases.push(case("columns").input("X", &x).output("Y", &[1, j], columns, sum));
    // Beyond what is valid a part that is replaced becomes 0.
    let inserted: Vec<f64> = (0..4 * 512u64)
        .map(|at| match (at / 512, at % 512) {
            (row, column) if row < N && column < j => scaled[(row * j + column) as usize],
            (_, column) if column < k => 0.0,
            _ => 7.0,
        })
        .collect();
    cases.push(case("inserted").input("X", &x).output("Y", &[4, 512], inserted, once));
    let mut running = scaled.clone();
    for row in running.chunks_mut(j as usize) {
        for at in 1..row.len() {
            row[at] += row[at - 1];
        }
    }
    cases.push(case("running").input("X", &x).output("Y", &[N, j], running, sum));
    let twice = scaled.iter().map(|value| 2.0 * value).collect();
    cases.push(case("carried").input("X", &x).scalar("times", 2).output("Y", &[N, j], twice, sum));
    // Half a step of the codes.
    let step = Tolerance { absolute: size / 32767.0, relative: 0.0 };
    cases.push(case("rounded").input("X", &x).output("Y", &[N, j], scaled, step));
}

/// Products of which one side is such a tile.
fn products(
    cases: &mut Vec<Case>,
    random: &mut Random,
    format: Element,
    (k, j): (u64, u64),
    (m, height): (u64, u64),
) {
    let float = Element::Scalar(DType::F32);
    for kernel in ["left", "right"] {
        let (blocks, floats) = if kernel == "left" { (m, 19) } else { (19, m) };
        let w = Data::random(format, &[blocks, k], random);
        let x = Data::random(float, &[blocks, j], random);
        let z = Data::random(float, &[floats, j], random);
        let scaled: Vec<f64> = cut(&w.values, k, j).iter().zip(&x.values).map(|(w, x)| w * x).collect();
        let size = scaled.iter().fold(1.0f64, |most, value| most.max(value.abs()));
        let wanted = match kernel {
            "left" => matmul(&scaled, &z.values, (m, 19, j), true),
            _ => matmul(&z.values, &scaled, (m, 19, j), true),
        };
        let case = Case::new(format!("cut {kernel} {format}"), SOURCE, kernel)
            .element("F", format)
            .param("T", k)
            .param("M", height)
            .input("W", &w)
            .input("X", &x)
            .input("Z", &z)
            .output("Y", &[m, 19], wanted, Tolerance::sum(j, size));
        cases.push(case);
    }
}

/// The first `j` of each `k` values.
fn cut(values: &[f64], k: u64, j: u64) -> Vec<f64> {
    values.chunks(k as usize).flat_map(|row| &row[..j as usize]).copied().collect()
}
