//! Reductions over either axis, by whole tiles, by whole rows, and over bound dims. Each
//! puts in its own identity for elements outside, so values are chosen that a wrong
//! one (0 for a maximum of negatives) would spoil.

use phobos_artifact::DType;

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
};

struct Op {
    name: &'static str,
    /// `{x}` reduced over axis `{axis}`.
    text: &'static str,
    identity: &'static str,
    combine: &'static str,
    from: (f64, f64),
    wanted: fn(&mut dyn Iterator<Item = f64>) -> f64,
    tolerance: Tolerance,
}

const SUM: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-6 };

const OPS: &[Op] = &[
    Op {
        name: "sum",
        text: "sum({x}, {axis})",
        identity: "0.0",
        combine: "acc + part",
        from: (-1.0, 1.0),
        wanted: |values| values.sum(),
        tolerance: SUM,
    },
    Op {
        name: "prod",
        text: "prod({x}, {axis})",
        identity: "1.0",
        combine: "acc * part",
        from: (0.9, 1.1),
        wanted: |values| values.product(),
        tolerance: Tolerance::relative(1e-5),
    },
    Op {
        name: "reduce_max",
        text: "reduce_max({x}, {axis})",
        identity: "-inf",
        combine: "max(acc, part)",
        from: (-9.0, -1.0),
        wanted: |values| values.fold(f64::NEG_INFINITY, f64::max),
        tolerance: Tolerance::EXACT,
    },
    Op {
        name: "reduce_min",
        text: "reduce_min({x}, {axis})",
        identity: "inf",
        combine: "min(acc, part)",
        from: (1.0, 9.0),
        wanted: |values| values.fold(f64::INFINITY, f64::min),
        tolerance: Tolerance::EXACT,
    },
];

/// The names of the reference language, for axis 1.
const ROWS: &[(&str, &str, usize)] = &[("rowsum", "rowsum({x})", 0), ("rowmax", "rowmax({x})", 2)];

/// Around a tile of 32 by 32.
const SHAPES: [(u64, u64); 9] =
    [(1, 1), (1, 33), (33, 1), (17, 17), (31, 31), (32, 32), (33, 33), (17, 65), (65, 17)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(3);
    for op in OPS {
        for axis in [0, 1] {
            let name = format!("{} axis {axis}", op.name);
            tiles(&mut cases, &mut random, &name, op, op.text, axis);
        }
        whole_rows(&mut cases, &mut random, op);
    }
    for (name, text, op) in ROWS {
        if let Some(op) = OPS.get(*op) {
            tiles(&mut cases, &mut random, name, op, text, 1);
        }
    }
    not_a_number(&mut cases);
    positions(&mut cases, &mut random);
    quantifiers(&mut cases, &mut random);
    mean(&mut cases, &mut random);
    other_types(&mut cases);
    cases
}

fn fill(template: &str, x: &str, axis: usize) -> String {
    template.replace("{x}", x).replace("{axis}", &axis.to_string())
}

/// Tile after tile along the axis, and for tiles of 48 as well.
fn tiles(cases: &mut Vec<Case>, random: &mut Random, name: &str, op: &Op, text: &str, axis: usize) {
    let reduce = fill(text, "X[m :+ TM, n :+ TN]", axis);
    let Op { identity, combine, .. } = op;
    let source = match axis {
        1 => format!(
            "@autotune(TM in [32, 48], TN in [32, 48])
kernel reduce(X: tensor<f32>[M, N], Y: tensor<f32>[M, 1]) {{
  let m = program_id(0) * TM
  var acc: tile<f32>[TM, 1] = {identity}
  for n in range(0, N, TN) {{
    let part = {reduce}
    acc = {combine}
  }}
  Y[m :+ TM, :] = acc
}}
"
        ),
        _ => format!(
            "@autotune(TM in [32, 48], TN in [32, 48])
kernel reduce(X: tensor<f32>[M, N], Y: tensor<f32>[1, N]) {{
  let n = program_id(0) * TN
  var acc: tile<f32>[1, TN] = {identity}
  for m in range(0, M, TM) {{
    let part = {reduce}
    acc = {combine}
  }}
  Y[:, n :+ TN] = acc
}}
"
        ),
    };
    let wide = [(17, 47), (47, 17), (48, 48), (49, 49)];
    let shapes = SHAPES.iter().map(|shape| (32, shape)).chain(wide.iter().map(|shape| (48, shape)));
    for (tile, &(m, n)) in shapes {
        let x = draw(random, &[m, n], op.from);
        let (shape, wanted) = along(&x, axis, op.wanted);
        cases.push(
            Case::new(name, source.clone(), "reduce")
                .param("TM", tile)
                .param("TN", tile)
                .input("X", &x)
                .output("Y", &shape, wanted, op.tolerance),
        );
    }
}

/// A whole row in one tile whose extent is a bound dim, as the norms have it.
fn whole_rows(cases: &mut Vec<Case>, random: &mut Random, op: &Op) {
    let reduce = fill(op.text, "X[m, :]", 0);
    let source = format!(
        "@grid(M)
kernel reduce(X: tensor<f32>[M, N], Y: tensor<f32>[M, 1]) {{
  let m = program_id(0)
  Y[m, :] = {reduce}
}}
"
    );
    for n in [1, 2, 7, 17, 31, 33, 64] {
        let x = draw(random, &[3, n], op.from);
        let (shape, wanted) = along(&x, 1, op.wanted);
        cases.push(
            Case::new(format!("{} row", op.name), source.clone(), "reduce")
                .bind("N", n)
                .input("X", &x)
                .output("Y", &shape, wanted, op.tolerance),
        );
    }
}

/// One NaN makes a maximum or minimum NaN, wherever it stands; infinities are values.
fn not_a_number(cases: &mut Vec<Case>) {
    for (op, place) in [
        ("reduce_max", 0),
        ("reduce_max", 17),
        ("reduce_max", 32),
        ("reduce_min", 5),
        ("reduce_min", 32),
        ("sum", 3),
    ] {
        let source = format!(
            "@autotune(TM in [4], TN in [64])
kernel reduce(X: tensor<f32>[M, N], Y: tensor<f32>[M, 1]) {{
  let m = program_id(0) * TM
  Y[m :+ TM, :] = {op}(X[m :+ TM, 0 :+ TN], 1)
}}
"
        );
        // Row 0 has the NaN, row 1 an infinity, row 2 neither.
        let mut values = vec![1.0; 3 * 33];
        values[place] = f64::NAN;
        let infinity = if op == "reduce_min" { f64::NEG_INFINITY } else { f64::INFINITY };
        values[33 + place] = infinity;
        let wanted = vec![f64::NAN, infinity, if op == "sum" { 33.0 } else { 1.0 }];
        cases.push(
            Case::new(format!("{op} NaN"), source, "reduce")
                .input("X", &Data::f32(&[3, 33], &values))
                .output("Y", &[3, 1], wanted, Tolerance::EXACT),
        );
    }
}

/// The position of the first largest or smallest element.
fn positions(cases: &mut Vec<Case>, random: &mut Random) {
    for (name, from) in [("argmax", (-9.0, -1.0)), ("argmin", (1.0, 9.0))] {
        let source = format!(
            "@autotune(TM in [8], TN in [64])
kernel position(X: tensor<f32>[M, N], Y: tensor<i32>[M, 1]) {{
  let m = program_id(0) * TM
  Y[m :+ TM, :] = {name}(X[m :+ TM, 0 :+ TN], 1)
}}
"
        );
        for n in [1, 17, 33, 63, 64] {
            let x = draw(random, &[9, n], from);
            // Each value twice, so that the first of equals matters.
            let values: Vec<f64> = x.values.iter().map(|value| value.round()).collect();
            let x = Data::f32(&[9, n], &values);
            let better = |a: f64, b: f64| if name == "argmax" { a > b } else { a < b };
            let wanted = values
                .chunks(n as usize)
                .map(|row| {
                    let mut best = 0;
                    for (index, value) in row.iter().enumerate() {
                        if better(*value, row[best]) {
                            best = index;
                        }
                    }
                    best as f64
                })
                .collect();
            cases.push(Case::new(name, source.clone(), "position").input("X", &x).typed_output(
                "Y",
                DType::I32,
                &[9, 1],
                wanted,
                Tolerance::EXACT,
            ));
        }
    }
}

/// Whether some or all elements of a row are positive: outside elements are no witness
/// either way.
fn quantifiers(cases: &mut Vec<Case>, random: &mut Random) {
    for (name, low, high) in [("any", -9.0, 0.5), ("all", -0.5, 9.0)] {
        let source = format!(
            "@autotune(TM in [8], TN in [64])
kernel quantify(X: tensor<f32>[M, N], Y: tensor<f32>[M, 1]) {{
  let m = program_id(0) * TM
  Y[m :+ TM, :] = where({name}(X[m :+ TM, 0 :+ TN] > 0.0, 1), 1.0, 0.0)
}}
"
        );
        for n in [1, 17, 33, 63, 64] {
            let x = draw(random, &[9, n], (low, high));
            let wanted = x
                .values
                .chunks(n as usize)
                .map(|row| {
                    let holds = match name {
                        "any" => row.iter().any(|x| *x > 0.0),
                        _ => row.iter().all(|x| *x > 0.0),
                    };
                    f64::from(u8::from(holds))
                })
                .collect();
            cases.push(Case::new(name, source.clone(), "quantify").input("X", &x).output(
                "Y",
                &[9, 1],
                wanted,
                Tolerance::EXACT,
            ));
        }
    }
}

/// Mean and variance over a ragged row: every term of outside elements must vanish,
/// also where it is not 0 by itself (`0 - mean`).
fn mean(cases: &mut Vec<Case>, random: &mut Random) {
    let source = "@autotune(TM in [4], TN in [64])
kernel moments(X: tensor<f32>[M, N], Y: tensor<f32>[M, 2]) {
  let m = program_id(0) * TM
  let x = X[m :+ TM, 0 :+ TN]
  let mean = sum(x, 1) / f32(N)
  let d = x - mean
  Y[m :+ TM, 0 :+ 1] = mean
  Y[m :+ TM, 1 :+ 1] = sum(d * d, 1) / f32(N)
}
";
    for n in [1, 17, 31, 33, 63, 64] {
        let x = draw(random, &[5, n], (2.0, 3.0));
        let wanted = x
            .values
            .chunks(n as usize)
            .flat_map(|row| {
                let mean = row.iter().sum::<f64>() / n as f64;
                [mean, row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64]
            })
            .collect();
        cases.push(Case::new("mean and variance", source, "moments").input("X", &x).output(
            "Y",
            &[5, 2],
            wanted,
            Tolerance { absolute: 1e-5, relative: 1e-5 },
        ));
    }
}

/// Integer reductions, whose identities are the extremes of the type.
fn other_types(cases: &mut Vec<Case>) {
    for (op, sign) in [("sum", 1.0), ("reduce_max", -1.0), ("reduce_min", 1.0)] {
        let source = format!(
            "@autotune(TM in [4], TN in [64])
kernel reduce(X: tensor<i32>[M, N], Y: tensor<i32>[M, 1]) {{
  let m = program_id(0) * TM
  Y[m :+ TM, :] = {op}(X[m :+ TM, 0 :+ TN], 1)
}}
"
        );
        let values: Vec<f64> = (0..5 * 33).map(|index| sign * f64::from(1000 + (index * 37) % 101)).collect();
        let rows = values.chunks(33);
        let wanted = match op {
            "sum" => rows.map(|row| row.iter().sum()).collect(),
            "reduce_max" => rows.map(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect(),
            _ => rows.map(|row| row.iter().copied().fold(f64::INFINITY, f64::min)).collect(),
        };
        cases.push(
            Case::new(format!("{op} i32"), source, "reduce")
                .input("X", &Data::new(DType::I32, &[5, 33], &values))
                .typed_output("Y", DType::I32, &[5, 1], wanted, Tolerance::EXACT),
        );
    }
}

fn draw(random: &mut Random, shape: &[u64], (low, high): (f64, f64)) -> Data {
    let count = super::data::count(shape);
    let values: Vec<f64> = (0..count).map(|_| random.between(low, high)).collect();
    Data::f32(shape, &values)
}

/// A matrix reduced over an axis, which stays with extent 1.
fn along(x: &Data, axis: usize, reduce: fn(&mut dyn Iterator<Item = f64>) -> f64) -> ([u64; 2], Vec<f64>) {
    let (m, n) = (x.shape[0] as usize, x.shape[1] as usize);
    match axis {
        1 => ([m as u64, 1], x.values.chunks(n).map(|row| reduce(&mut row.iter().copied())).collect()),
        _ => {
            let column = |j: usize| reduce(&mut x.values.iter().skip(j).step_by(n).copied());
            ([1, n as u64], (0..n).map(column).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_axes() {
        let x = Data::f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(along(&x, 1, |values| values.sum()), ([2, 1], vec![6.0, 15.0]));
        assert_eq!(along(&x, 0, |values| values.sum()), ([1, 3], vec![5.0, 7.0, 9.0]));
    }
}
