//! Control flow: variables carried by loops, branches, `while`, loops that do not run.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    elementwise::SIZES,
};

const F32: Element = Element::Scalar(DType::F32);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(5);
    swapped(&mut cases, &mut random);
    steps(&mut cases);
    branches(&mut cases, &mut random);
    loops(&mut cases);
    order(&mut cases, &mut random);
    cases
}

/// Two tiles that change places in every iteration, `k` times.
fn swapped(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TILE in [32])
kernel fibonacci(A: tensor<f32>[N], B: tensor<f32>[N], Y: tensor<f32>[N], k: i32) {
  let i = program_id(0) * TILE
  var a = A[i :+ TILE]
  var b = B[i :+ TILE]
  for step in range(0, k) {
    let next = a + b
    a = b
    b = next
  }
  Y[i :+ TILE] = a
}
";
    for n in SIZES {
        for k in [0, 1, 2, 10] {
            let (a, b) = (Data::random(F32, &[n], random), Data::random(F32, &[n], random));
            let wanted = a
                .values
                .iter()
                .zip(&b.values)
                .map(|(a, b)| (0..k).fold((*a, *b), |(a, b), _| (b, a + b)).0)
                .collect();
            cases.push(
                Case::new("loop-carried tiles", source, "fibonacci")
                    .input("A", &a)
                    .input("B", &b)
                    .output("Y", &[n], wanted, Tolerance { absolute: 2e-5, relative: 1e-6 })
                    .scalar("k", k),
            );
        }
    }
}

/// The number of iterations for every relation of bounds and step.
fn steps(cases: &mut Vec<Case>) {
    let source = "kernel count(Y: tensor<i32>[2], from: i32, to: i32, by: i32) {
  var count: i32 = 0
  var last: i32 = -1
  for i in range(from, to, by) {
    count += 1
    last = i32(i)
  }
  Y[0] = count
  Y[1] = last
}
";
    for (from, to, by) in
        [(0, 0, 1), (0, 1, 1), (0, 7, 3), (0, 6, 3), (2, 9, 4), (5, 2, 1), (-4, 4, 3), (0, 5, 100)]
    {
        let values: Vec<i32> = (from..to).step_by(by as usize).collect();
        let wanted = vec![values.len() as f64, f64::from(values.last().copied().unwrap_or(-1))];
        cases.push(
            Case::new("range", source, "count")
                .typed_output("Y", DType::I32, &[2], wanted, Tolerance::EXACT)
                .scalar("from", from)
                .scalar("to", to)
                .scalar("by", by),
        );
    }
}

/// `if`, `else if`, `else` on a program's number, with a tile assigned in some branches only.
fn branches(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TILE in [8])
kernel branch(X: tensor<f32>[N], Y: tensor<f32>[N], limit: i32) {
  let p = program_id(0)
  var x = X[p * TILE :+ TILE]
  if p == 0 {
    x = x * 2.0
  } else if p < limit {
    x = x + 1.0
    if p % 2 == 0 {
      x = -x
    }
  } else if p > limit {
    x = x * x
  }
  Y[p * TILE :+ TILE] = x
}
";
    for n in [1, 17, 33, 65] {
        for limit in [1, 3] {
            let x = Data::random(F32, &[n], random);
            let wanted = x.values.iter().zip(0..).map(|(x, at): (&f64, i32)| {
                let p = at / 8;
                let value = if p == 0 {
                    x * 2.0
                } else if p < limit {
                    if p % 2 == 0 { -(x + 1.0) } else { x + 1.0 }
                } else if p > limit {
                    x * x
                } else {
                    *x
                };
                f64::from(value as f32)
            });
            cases.push(
                Case::new("if else", source, "branch")
                    .input("X", &x)
                    .output("Y", &[n], wanted.collect(), Tolerance::EXACT)
                    .scalar("limit", limit),
            );
        }
    }
}

/// `while` over a scalar: Euclid's algorithm; and a loop in a loop.
fn loops(cases: &mut Vec<Case>) {
    let source = "@grid(N)
kernel gcd(A: tensor<i32>[N], B: tensor<i32>[N], Y: tensor<i32>[N]) {
  let n = program_id(0)
  var a = A[n]
  var b = B[n]
  while b != 0 {
    let rest = a % b
    a = b
    b = rest
  }
  Y[n] = a
}
";
    let a = Data::new(DType::I32, &[5], &[12.0, 7.0, 0.0, 46368.0, 9.0]);
    let b = Data::new(DType::I32, &[5], &[18.0, 0.0, 4.0, 28657.0, 9.0]);
    cases.push(Case::new("while", source, "gcd").input("A", &a).input("B", &b).typed_output(
        "Y",
        DType::I32,
        &[5],
        vec![6.0, 7.0, 4.0, 1.0, 9.0],
        Tolerance::EXACT,
    ));
    let source = "kernel nest(Y: tensor<i32>[1], n: i32) {
  var sum: i32 = 0
  for i in range(0, n) {
    for j in range(i, n) {
      sum += i32(i * j)
    }
  }
  Y[0] = sum
}
";
    for n in [0, 1, 5] {
        let wanted = (0..n).flat_map(|i| (i..n).map(move |j| f64::from(i * j))).sum();
        cases.push(
            Case::new("nested loops", source, "nest")
                .typed_output("Y", DType::I32, &[1], vec![wanted], Tolerance::EXACT)
                .scalar("n", n),
        );
    }
}

/// A load that stands before a store reads the old value, one that follows it the new.
fn order(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TILE in [32])
kernel order(X: tensor<f32>[N], Y: tensor<f32>[N], Z: tensor<f32>[N]) {
  let i = program_id(0) * TILE
  let old = Y[i :+ TILE]
  Y[i :+ TILE] = X[i :+ TILE]
  let new = Y[i :+ TILE]
  Y[i :+ TILE] = old * 4.0
  Z[i :+ TILE] = new + old
}
";
    for n in SIZES {
        let (x, y) = (Data::random(F32, &[n], random), Data::random(F32, &[n], random));
        let sums = x.values.iter().zip(&y.values).map(|(x, y)| f64::from((x + y) as f32)).collect();
        let scaled = y.values.iter().map(|y| y * 4.0).collect();
        cases.push(
            Case::new("order of loads and stores", source, "order")
                .input("X", &x)
                .update("Y", &y, scaled, Tolerance::EXACT)
                .output("Z", &[n], sums, Tolerance::EXACT),
        );
    }
}
