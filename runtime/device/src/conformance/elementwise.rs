//! Elementwise arithmetic, functions, comparisons, `where`, broadcasting and compound
//! assignment on floats.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
};

/// Around a tile of 32, and more than two tiles.
pub(super) const SIZES: [u64; 6] = [1, 17, 31, 32, 33, 65];

/// An expression over `a` and `b`.
struct Op {
    name: &'static str,
    text: &'static str,
    /// What `a` and `b` are drawn from.
    from: (f64, f64),
    wanted: fn(f64, f64) -> f64,
    tolerance: Tolerance,
}

const fn op(
    name: &'static str,
    text: &'static str,
    from: (f64, f64),
    wanted: fn(f64, f64) -> f64,
    tolerance: Tolerance,
) -> Op {
    Op { name, text, from, wanted, tolerance }
}

const UNIT: (f64, f64) = (-1.0, 1.0);
const WIDE: (f64, f64) = (-8.0, 8.0);
const POSITIVE: (f64, f64) = (0.01, 100.0);
const EXACT: Tolerance = Tolerance::EXACT;
/// One ulp of f32, or two for a quotient of approximations.
const ULP: Tolerance = Tolerance::relative(1.3e-7);
const TWO_ULP: Tolerance = Tolerance::relative(3e-7);
/// exp over [-8, 8] from a 2-ulp exp2: the rounding of the scaled argument counts most.
const EXP: Tolerance = Tolerance::relative(2e-6);
/// Functions made of exp, where terms cancel near 0.
const FROM_EXP: Tolerance = Tolerance { absolute: 5e-7, relative: 3e-6 };
const LOG: Tolerance = Tolerance { absolute: 5e-7, relative: 5e-7 };

const UNARY: &[Op] = &[
    op("copy", "a", UNIT, |a, _| a, EXACT),
    op("neg", "-a", UNIT, |a, _| -a, EXACT),
    op("abs", "abs(a)", UNIT, |a, _| a.abs(), EXACT),
    op("floor", "floor(a)", WIDE, |a, _| a.floor(), EXACT),
    op("ceil", "ceil(a)", WIDE, |a, _| a.ceil(), EXACT),
    op("round", "round(a * 2.0) / 2.0", WIDE, |a, _| (a * 2.0).round_ties_even() / 2.0, EXACT),
    op("exp", "exp(a)", WIDE, |a, _| a.exp(), EXP),
    op("exp2", "exp2(a)", WIDE, |a, _| a.exp2(), EXP),
    op("log", "log(a)", POSITIVE, |a, _| a.ln(), LOG),
    op("sqrt", "sqrt(a)", POSITIVE, |a, _| a.sqrt(), TWO_ULP),
    op("rsqrt", "rsqrt(a)", POSITIVE, |a, _| 1.0 / a.sqrt(), TWO_ULP),
    op("tanh", "tanh(a)", WIDE, |a, _| a.tanh(), FROM_EXP),
    op("sigmoid", "sigmoid(a)", WIDE, |a, _| sigmoid(a), FROM_EXP),
    op("silu", "silu(a)", WIDE, |a, _| a * sigmoid(a), FROM_EXP),
    op("gelu", "gelu(a)", WIDE, |a, _| gelu(a), Tolerance { absolute: 4e-6, relative: 3e-6 }),
    op("literals", "a * 2 + 0.5 - 1e-1", UNIT, |a, _| a * 2.0 + 0.5 - 0.1, FROM_EXP),
];

const BINARY: &[Op] = &[
    op("add", "a + b", UNIT, |a, b| a + b, EXACT),
    op("sub", "a - b", UNIT, |a, b| a - b, EXACT),
    op("mul", "a * b", UNIT, |a, b| a * b, EXACT),
    op("div", "a / b", POSITIVE, |a, b| a / b, TWO_ULP),
    op("min", "min(a, b)", UNIT, f64::min, EXACT),
    op("max", "max(a, b)", UNIT, f64::max, EXACT),
    op("fma", "fma(a, b, a)", UNIT, |a, b| a.mul_add(b, a), ULP),
    op("where <", "where(a < b, a, b * 2.0)", UNIT, |a, b| if a < b { a } else { b * 2.0 }, EXACT),
    op("where <=", "where(a <= b, a, -b)", UNIT, |a, b| if a <= b { a } else { -b }, EXACT),
    op("where >", "where(a > b, 1.0, 0.0)", UNIT, |a, b| f64::from(u8::from(a > b)), EXACT),
    op("where >=", "where(a >= 0.0, b, a)", UNIT, |a, b| if a >= 0.0 { b } else { a }, EXACT),
    op("where ==", "where(floor(a) == floor(b), 1.0, 2.0)", UNIT, |a, b| equal(a, b, 1.0, 2.0), EXACT),
    op("where !=", "where(floor(a) != floor(b), 1.0, 2.0)", UNIT, |a, b| equal(a, b, 2.0, 1.0), EXACT),
    op(
        "where && || !",
        "where(a < 0.0 && b < 0.0 || !(a < 0.5), a, b)",
        UNIT,
        |a, b| if (a < 0.0 && b < 0.0) || a >= 0.5 { a } else { b },
        EXACT,
    ),
];

fn equal(a: f64, b: f64, yes: f64, no: f64) -> f64 {
    if a.floor() == b.floor() { yes } else { no }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The tanh approximation.
pub(super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(1);
    for op in UNARY {
        let source = unary_source("f32", op.text);
        for n in SIZES {
            let a = draw(&mut random, DType::F32, n, op.from);
            let wanted = a.values.iter().map(|a| (op.wanted)(*a, 0.0)).collect();
            cases.push(unary(op.name, &source, DType::F32, &a, wanted, op.tolerance));
        }
    }
    for op in BINARY {
        let source = binary_source("f32", op.text);
        for n in SIZES {
            let (a, b) =
                (draw(&mut random, DType::F32, n, op.from), draw(&mut random, DType::F32, n, op.from));
            let wanted = pairs(&a, &b, op.wanted);
            cases.push(binary(op.name, &source, DType::F32, &a, &b, wanted, op.tolerance));
        }
    }
    other_types(&mut cases, &mut random);
    specials(&mut cases);
    broadcasts(&mut cases, &mut random);
    compound(&mut cases, &mut random);
    scalars(&mut cases, &mut random);
    cases
}

pub(super) fn unary_source(dtype: &str, text: &str) -> String {
    format!(
        "@autotune(TILE in [32])
kernel unary(A: tensor<{dtype}>[N], Y: tensor<{dtype}>[N]) {{
  let i = program_id(0) * TILE
  let a = A[i :+ TILE]
  Y[i :+ TILE] = {text}
}}
"
    )
}

pub(super) fn binary_source(dtype: &str, text: &str) -> String {
    format!(
        "@autotune(TILE in [32])
kernel binary(A: tensor<{dtype}>[N], B: tensor<{dtype}>[N], Y: tensor<{dtype}>[N]) {{
  let i = program_id(0) * TILE
  let a = A[i :+ TILE]
  let b = B[i :+ TILE]
  Y[i :+ TILE] = {text}
}}
"
    )
}

pub(super) fn unary(
    name: &str,
    source: &str,
    dtype: DType,
    a: &Data,
    wanted: Vec<f64>,
    tolerance: Tolerance,
) -> Case {
    let wanted = Data::new(dtype, &a.shape, &wanted).values;
    Case::new(name, source, "unary").input("A", a).typed_output("Y", dtype, &a.shape, wanted, tolerance)
}

pub(super) fn binary(
    name: &str,
    source: &str,
    dtype: DType,
    a: &Data,
    b: &Data,
    wanted: Vec<f64>,
    tolerance: Tolerance,
) -> Case {
    let wanted = Data::new(dtype, &a.shape, &wanted).values;
    Case::new(name, source, "binary")
        .input("A", a)
        .input("B", b)
        .typed_output("Y", dtype, &a.shape, wanted, tolerance)
}

fn draw(random: &mut Random, dtype: DType, n: u64, (low, high): (f64, f64)) -> Data {
    let values: Vec<f64> = (0..n).map(|_| random.between(low, high)).collect();
    Data::new(dtype, &[n], &values)
}

pub(super) fn pairs(a: &Data, b: &Data, wanted: fn(f64, f64) -> f64) -> Vec<f64> {
    a.values.iter().zip(&b.values).map(|(a, b)| wanted(*a, *b)).collect()
}

/// Sums and products round once, so they are exact in every type.
fn other_types(cases: &mut Vec<Case>, random: &mut Random) {
    for dtype in [DType::F16, DType::Bf16, DType::F64] {
        for op in BINARY.iter().filter(|op| ["add", "sub", "mul", "max", "where <"].contains(&op.name)) {
            let source = binary_source(dtype.name(), op.text);
            for n in [1, 17, 33] {
                let (a, b) = (draw(random, dtype, n, op.from), draw(random, dtype, n, op.from));
                let wanted = pairs(&a, &b, op.wanted);
                cases.push(binary(&format!("{} {dtype}", op.name), &source, dtype, &a, &b, wanted, EXACT));
            }
        }
    }
    // Functions of f64 keep its precision.
    for op in UNARY.iter().filter(|op| ["exp", "log", "sqrt", "rsqrt", "tanh"].contains(&op.name)) {
        let a = draw(random, DType::F64, 33, op.from);
        let wanted = a.values.iter().map(|a| (op.wanted)(*a, 0.0)).collect();
        let source = unary_source("f64", op.text);
        let tolerance = Tolerance { absolute: 1e-13, relative: 1e-13 };
        cases.push(unary(&format!("{} f64", op.name), &source, DType::F64, &a, wanted, tolerance));
    }
}

/// NaN, infinities and overflow.
fn specials(cases: &mut Vec<Case>) {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let a = Data::f32(&[8], &[1.0, nan, 3.0, inf, -inf, nan, 0.0, -0.0]);
    let b = Data::f32(&[8], &[nan, 2.0, 2.0, 1.0, 1.0, nan, -0.0, 0.0]);
    let nan_wins = |a: f64, b: f64, pick: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { pick };
    let both = |text: &str, name: &str, wanted: Vec<f64>| {
        binary(name, &binary_source("f32", text), DType::F32, &a, &b, wanted, EXACT)
    };
    let wanted = |pick: fn(f64, f64) -> f64| {
        a.values.iter().zip(&b.values).map(|(a, b)| nan_wins(*a, *b, pick(*a, *b))).collect()
    };
    cases.push(both("max(a, b)", "max NaN", wanted(f64::max)));
    cases.push(both("min(a, b)", "min NaN", wanted(f64::min)));
    cases.push(both("a + b", "add NaN", wanted(|a, b| a + b)));
    // Comparisons with NaN are false, `!=` is true.
    let flag = |yes: fn(f64, f64) -> bool| {
        a.values.iter().zip(&b.values).map(|(a, b)| f64::from(u8::from(yes(*a, *b)))).collect()
    };
    cases.push(both("where(a < b, 1.0, 0.0)", "where < NaN", flag(|a, b| a < b)));
    cases.push(both("where(a == b, 1.0, 0.0)", "where == NaN", flag(|a, b| a == b)));
    cases.push(both("where(a != b, 1.0, 0.0)", "where != NaN", flag(|a, b| a != b)));

    let x = Data::f32(&[7], &[inf, -inf, nan, 1000.0, -1000.0, 0.0, 88.0]);
    for (name, text, function) in [
        ("exp special", "exp(a)", f64::exp as fn(f64) -> f64),
        ("tanh special", "tanh(a)", f64::tanh),
        ("sigmoid special", "sigmoid(a)", sigmoid),
    ] {
        let wanted = x.values.iter().map(|x| function(*x)).collect();
        let tolerance = Tolerance { absolute: 5e-7, relative: 1e-5 };
        cases.push(unary(name, &unary_source("f32", text), DType::F32, &x, wanted, tolerance));
    }
    let x = Data::f32(&[5], &[0.0, inf, nan, -1.0, 1.0]);
    let wanted = vec![-inf, inf, nan, nan, 0.0];
    cases.push(unary("log special", &unary_source("f32", "log(a)"), DType::F32, &x, wanted, EXACT));
}

/// A row, a column and a scalar against a tile.
fn broadcasts(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TM in [16], TN in [32])
kernel broadcast(X: tensor<f32>[M, N], R: tensor<f32>[N], C: tensor<f32>[M, 1], Y: tensor<f32>[M, N], s: f32) {
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  let row = R[n :+ TN]
  let column = C[m :+ TM, :]
  Y[m :+ TM, n :+ TN] = (X[m :+ TM, n :+ TN] + row) * column - s
}
";
    let f32s = Element::Scalar(DType::F32);
    for (m, n) in [(1, 1), (17, 33), (15, 31), (16, 32), (33, 17)] {
        let x = Data::random(f32s, &[m, n], random);
        let (r, c) = (Data::random(f32s, &[n], random), Data::random(f32s, &[m, 1], random));
        let wanted = grid(m, n, |i, j| (x.values[i * n as usize + j] + r.values[j]) * c.values[i] - 0.25);
        cases.push(
            Case::new("broadcast", source, "broadcast")
                .input("X", &x)
                .input("R", &r)
                .input("C", &c)
                .output("Y", &[m, n], wanted, Tolerance { absolute: 5e-7, relative: 1e-6 })
                .scalar("s", 0.25f32),
        );
    }
}

fn compound(cases: &mut Vec<Case>, random: &mut Random) {
    for (operator, wanted) in [
        ("+=", (|y, a| y + a) as fn(f64, f64) -> f64),
        ("-=", |y, a| y - a),
        ("*=", |y, a| y * a),
        ("/=", |y, a| y / a),
    ] {
        let source = format!(
            "@autotune(TILE in [32])
kernel compound(A: tensor<f32>[N], Y: tensor<f32>[N]) {{
  let i = program_id(0) * TILE
  Y[i :+ TILE] {operator} A[i :+ TILE]
}}
"
        );
        for n in SIZES {
            let (a, y) = (draw(random, DType::F32, n, POSITIVE), draw(random, DType::F32, n, UNIT));
            let values = y.values.iter().zip(&a.values).map(|(y, a)| wanted(*y, *a)).collect();
            cases.push(
                Case::new(format!("compound {operator}"), source.clone(), "compound")
                    .input("A", &a)
                    .update("Y", &y, values, TWO_ULP),
            );
        }
    }
}

/// Scalars of every numeric type arrive as they were passed.
fn scalars(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TILE in [32])
kernel scalars(X: tensor<f32>[N], Y: tensor<f32>[N], a: f32, b: f64, c: i32, d: i64, e: f16) {
  let i = program_id(0) * TILE
  Y[i :+ TILE] = X[i :+ TILE] * a + f32(b) + f32(c) + f32(d) + f32(e) + f32(N)
}
";
    for n in [1, 33] {
        let x = draw(random, DType::F32, n, UNIT);
        let wanted = x.values.iter().map(|x| x * 0.5 + 0.125 - 3.0 - 40.0 + 1.5 + n as f64).collect();
        cases.push(
            Case::new("scalars", source, "scalars")
                .input("X", &x)
                .output("Y", &[n], wanted, Tolerance { absolute: 1e-4, relative: 0.0 })
                .scalar("a", 0.5f32)
                .scalar("b", 0.125f64)
                .scalar("c", -3i32)
                .scalar("d", -40i64)
                .scalar("e", half::f16::from_f32(1.5)),
        );
    }
}

/// Row-major values of an `[m, n]` tensor.
pub(super) fn grid(m: u64, n: u64, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let value = &value;
    (0..m as usize).flat_map(|i| (0..n as usize).map(move |j| value(i, j))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        assert!((gelu(1.0) - 0.841_192).abs() < 1e-6);
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!(grid(2, 3, |i, j| (10 * i + j) as f64), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
    }
}
