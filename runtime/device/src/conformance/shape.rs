//! Operations that place elements: iota, tril, cumulative sums, transpose, reshape,
//! slices of tiles, fills, points.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    elementwise::{SIZES, grid},
};

const EXACT: Tolerance = Tolerance::EXACT;
const F32: Element = Element::Scalar(DType::F32);

/// One program with a tile of 32 by 32 over the whole of X.
const SHAPES: [(u64, u64); 6] = [(1, 1), (17, 17), (17, 31), (31, 17), (32, 32), (1, 32)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(4);
    iota(&mut cases);
    for (name, text, wanted) in [
        ("tril", "tril(x)", tril as Reference),
        ("cumsum", "cumsum(x)", |x, m, n| grid(m, n, |i, j| (0..=i).map(|k| x[k * n as usize + j]).sum())),
        ("cumsum axis 0", "cumsum(x, 0)", |x, m, n| {
            grid(m, n, |i, j| (0..=i).map(|k| x[k * n as usize + j]).sum())
        }),
        ("cumsum axis 1", "cumsum(x, 1)", |x, m, n| {
            grid(m, n, |i, j| (0..=j).map(|k| x[i * n as usize + k]).sum())
        }),
        // Twice: the sum of a sum, of which no element outside may be part.
        ("cumsum both axes", "cumsum(cumsum(x, 0), 1)", |x, m, n| {
            grid(m, n, |i, j| (0..=i).flat_map(|k| (0..=j).map(move |l| x[k * n as usize + l])).sum())
        }),
        ("transpose twice", "transpose(transpose(x))", |x, _, _| x.to_vec()),
    ] {
        let source = format!(
            "@autotune(TM in [32], TN in [32])
kernel place(X: tensor<f32>[M, N], Y: tensor<f32>[M, N]) {{
  let x = X[0 :+ TM, 0 :+ TN]
  Y[0 :+ TM, 0 :+ TN] = {text}
}}
"
        );
        for (m, n) in SHAPES {
            let x = Data::random(F32, &[m, n], &mut random);
            let wanted = wanted(&x.values, m, n);
            let tolerance = if name.starts_with("cumsum") { Tolerance::sum(64, 1.0) } else { EXACT };
            cases.push(Case::new(name, source.clone(), "place").input("X", &x).output(
                "Y",
                &[m, n],
                wanted,
                tolerance,
            ));
        }
    }
    transpose(&mut cases, &mut random);
    fills(&mut cases, &mut random);
    tile_slices(&mut cases, &mut random);
    reshape(&mut cases, &mut random);
    points(&mut cases, &mut random);
    ranks(&mut cases, &mut random);
    cases
}

type Reference = fn(&[f64], u64, u64) -> Vec<f64>;

fn tril(x: &[f64], m: u64, n: u64) -> Vec<f64> {
    grid(m, n, |i, j| if j <= i { x[i * n as usize + j] } else { 0.0 })
}

fn iota(cases: &mut Vec<Case>) {
    let source = "@autotune(TILE in [32])
kernel count(Y: tensor<i32>[N], k: i32) {
  let i = program_id(0) * TILE
  Y[i :+ TILE] = iota([TILE], 0) * 3 + (i + k)
}
";
    for n in SIZES {
        // i is the start of the element's tile, and its place in the tile counts 3.
        let wanted = (0..n).map(|at| (3 * (at % 32) + at / 32 * 32) as f64 - 5.0).collect();
        cases.push(
            Case::new("iota", source, "count")
                .typed_output("Y", DType::I32, &[n], wanted, EXACT)
                .scalar("k", -5i32),
        );
    }
    let source = "@autotune(TM in [16], TN in [32])
kernel count(Y: tensor<f32>[M, N]) {
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  let row = iota([TM, 1], 0) + m
  let column = iota([1, TN], 1) + n
  Y[m :+ TM, n :+ TN] = where(column <= row, f32(row * 100 + column), -1.0)
}
";
    for (m, n) in [(1, 1), (17, 33), (33, 17), (16, 32)] {
        let wanted = grid(m, n, |i, j| if j <= i { (100 * i + j) as f64 } else { -1.0 });
        cases.push(Case::new("iota 2-D", source, "count").output("Y", &[m, n], wanted, EXACT));
    }
}

fn transpose(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TM in [16], TN in [32])
kernel swap(X: tensor<f32>[M, N], Y: tensor<f32>[N, M]) {
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  Y[n :+ TN, m :+ TM] = transpose(X[m :+ TM, n :+ TN])
}
";
    for (m, n) in [(1, 1), (1, 33), (33, 1), (15, 31), (16, 32), (17, 33), (65, 17)] {
        let x = Data::random(F32, &[m, n], random);
        let wanted = grid(n, m, |i, j| x.values[j * n as usize + i]);
        cases.push(Case::new("transpose", source, "swap").input("X", &x).output("Y", &[n, m], wanted, EXACT));
    }
}

/// `else v` gives elements outside a value and makes them valid.
fn fills(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TILE in [32])
kernel fill(X: tensor<f32>[N], Y: tensor<f32>[P], v: f32) {
  let i = program_id(0) * TILE
  let x = X[i :+ TILE] else v
  Y[i :+ TILE] = x
}
";
    for n in SIZES {
        let x = Data::random(F32, &[n], random);
        let padded = n.next_multiple_of(32);
        let mut wanted = x.values.clone();
        wanted.resize(padded as usize, 7.5);
        cases.push(
            Case::new("fill", source, "fill")
                .input("X", &x)
                .output("Y", &[padded], wanted, EXACT)
                .scalar("v", 7.5f32),
        );
    }
    // Filled elements count in a sum.
    let source = "@autotune(TILE in [64])
kernel fill(X: tensor<f32>[N], Y: tensor<f32>[1]) {
  let x = X[0 :+ TILE] else 1.0
  Y[:] = sum(x, 0)
}
";
    for n in [1, 17, 33, 64] {
        let x = Data::f32(&[n], &vec![2.0; n as usize]);
        let wanted = vec![64.0 + n as f64];
        cases.push(Case::new("fill sum", source, "fill").input("X", &x).output("Y", &[1], wanted, EXACT));
    }
}

/// Reading and writing parts of a tile.
fn tile_slices(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(T in [16])
kernel parts(X: tensor<f32>[M, N], Y: tensor<f32>[M, N]) {
  let x = X[0 :+ T, 0 :+ 32]
  var y: tile<f32>[T, 32] = 0.0
  y[:, 0 :+ 8] = x[:, 24 :+ 8]
  y[:, 8 :+ 24] = x[:, 0 :+ 24] * 2.0
  Y[0 :+ T, 0 :+ 32] = y
}
";
    let (m, n) = (16, 32);
    let x = Data::random(F32, &[m, n], random);
    let wanted =
        grid(m, n, |i, j| if j < 8 { x.values[i * 32 + 24 + j] } else { 2.0 * x.values[i * 32 + j - 8] });
    cases.push(Case::new("tile slices", source, "parts").input("X", &x).output("Y", &[m, n], wanted, EXACT));
}

fn reshape(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "kernel row(X: tensor<f32>[8, 4], Y: tensor<f32>[1, 32]) {
  let x = X[:, :]
  Y[:, :] = flat(x + 1.0)
}
";
    let x = Data::random(F32, &[8, 4], random);
    let wanted = x.values.iter().map(|x| f64::from((x + 1.0) as f32)).collect();
    cases.push(Case::new("flat", source, "row").input("X", &x).output("Y", &[1, 32], wanted, EXACT));
}

/// Single elements, read and written.
fn points(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@grid(N)
kernel gather(X: tensor<f32>[P], Ids: tensor<i32>[N], Y: tensor<f32>[N]) {
  let n = program_id(0)
  let id = Ids[n]
  Y[n] = X[id] * 2.0
}
";
    for n in [1, 17, 33] {
        let x = Data::random(F32, &[40], random);
        let ids: Vec<f64> = (0..n).map(|_| random.below(40) as f64).collect();
        let wanted = ids.iter().map(|id| 2.0 * x.values[*id as usize]).collect();
        cases.push(
            Case::new("points", source, "gather")
                .input("X", &x)
                .input("Ids", &Data::new(DType::I32, &[n], &ids))
                .output("Y", &[n], wanted, EXACT),
        );
    }
}

/// Tensors of rank 3 and 4 with points among the spans.
fn ranks(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(T in [8])
@grid(A, C)
kernel ranks(X: tensor<f32>[A, B, C, 3], Y: tensor<f32>[C, A, B]) {
  let a = program_id(0)
  let c = program_id(1)
  for b in range(0, B, T) {
    Y[c, a, b :+ T] = X[a, b :+ T, c, 2] - X[a, b :+ T, c, 0]
  }
}
";
    for (a, b, c) in [(1, 1, 1), (3, 7, 2), (2, 8, 5), (2, 9, 3), (5, 17, 2)] {
        let x = Data::random(F32, &[a, b, c, 3], random);
        let [a_, b_, c_] = [a, b, c].map(|extent| extent as usize);
        let at = |i: usize, j: usize, k: usize, l: usize| x.values[((i * b_ + j) * c_ + k) * 3 + l];
        let mut wanted = Vec::new();
        for k in 0..c_ {
            for i in 0..a_ {
                wanted.extend((0..b_).map(|j| f64::from((at(i, j, k, 2) - at(i, j, k, 0)) as f32)));
            }
        }
        cases.push(Case::new("rank 4", source, "ranks").input("X", &x).output(
            "Y",
            &[c, a, b],
            wanted,
            EXACT,
        ));
    }
}
