//! The models' rotary embedding of queries in place and of keys into their cache, with and
//! without a norm of each head before it; values go into their cache as they are.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random, positions},
    norm,
};

const NORM_ROPE: &str = include_str!("../../../../models/kernels/norm_rope.ph");
const SOURCE: &str = include_str!("../../../../models/kernels/rope.ph");
const F32: Element = Element::Scalar(DType::F32);
/// Positions that the tables have.
const POSITIONS: u64 = 40;
/// Rows that the cache has.
const ROWS: u64 = 37;
/// Caches, and how far rounding to their element takes a value.
const CACHES: [(DType, f64); 2] = [(DType::F32, 0.0), (DType::F16, 1e-3)];

/// N rows from position `pos` on, of H query heads and G key heads, of R pairs each.
#[derive(Clone, Copy)]
struct Shape {
    n: u64,
    heads: u64,
    groups: u64,
    r: u64,
    pos: u64,
}

/// (N, H, G, R, pos): as many keys as queries, and fewer; in the last the cache ends before
/// the rows do.
const SHAPES: [(u64, u64, u64, u64, u64); 8] = [
    (1, 1, 1, 1, 0),
    (1, 3, 3, 16, 5),
    (3, 2, 1, 17, 0),
    (17, 4, 2, 33, 20),
    (1, 9, 3, 32, 36),
    (5, 2, 2, 31, 7),
    (2, 3, 1, 32, 1),
    (3, 4, 2, 16, 36),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(9);
    for (n, heads, groups, r, pos) in SHAPES {
        let shape = Shape { n, heads, groups, r, pos };
        for cache in CACHES {
            cases.push(rope(&mut random, shape, cache));
            cases.push(norm_rope(&mut random, shape, cache));
        }
    }
    cases
}

/// The heads of each row as a kernel splits them: `[r, 2]`, or `[2, r]`.
fn heads(random: &mut Random, shape: Shape, split: [u64; 2]) -> (Data, Data) {
    let mut of = |heads| Data::random(F32, &[shape.n, heads, split[0], split[1]], random);
    (of(shape.heads), of(shape.groups))
}

/// The arguments that both kernels have: Q in place, and caches in which no other row is
/// changed.
fn outputs(
    case: Case,
    random: &mut Random,
    shape: Shape,
    (dtype, step): (DType, f64),
    (q, queries, keys): (&Data, Vec<f64>, &[f64]),
    tolerance: Tolerance,
) -> Case {
    let Shape { n, groups, r, pos, .. } = shape;
    // D need not be 2 R.
    let d = 2 * r + r % 2;
    let value = Data::random(F32, &[n, groups, d], random);
    let rounded = Data::new(dtype, &value.shape, &value.values).values;
    let split = &q.shape[2..];
    let mut cache =
        |split: &[u64]| Data::random(Element::Scalar(dtype), &[&[groups, ROWS], split].concat(), random);
    let (key_cache, value_cache) = (cache(split), cache(&[d]));
    let stored = placed(&key_cache, keys, shape);
    let kept = placed(&value_cache, &rounded, shape);
    let (cos, sin) = tables(r);
    case.element("T", Element::Scalar(dtype))
        .bind("R", r)
        .bind("D", d)
        .input("Value", &value)
        .input("Cos", &cos)
        .input("Sin", &sin)
        .input("Pos", &positions(pos, n))
        .update("Q", q, queries, tolerance)
        .update("Keys", &key_cache, stored, Tolerance { relative: tolerance.relative.max(step), ..tolerance })
        .update("Values", &value_cache, kept, Tolerance::EXACT)
}

fn rope(random: &mut Random, shape: Shape, cache: (DType, f64)) -> Case {
    let (q, key) = heads(random, shape, [shape.r, 2]);
    let (queries, keys) = (rotate(&q.values, shape.heads, shape), rotate(&key.values, shape.groups, shape));
    let case = Case::new(format!("rope {}", cache.0), SOURCE, "rope").input("Key", &key);
    let tolerance = Tolerance { absolute: 3e-7, relative: 3e-7 };
    outputs(case, random, shape, cache, (&q, queries, &keys), tolerance)
}

fn norm_rope(random: &mut Random, shape: Shape, cache: (DType, f64)) -> Case {
    let eps = 1e-5f32;
    let (q, key) = heads(random, shape, [2, shape.r]);
    let (wq, wk) = (Data::random(F32, &[2, shape.r], random), Data::random(F32, &[2, shape.r], random));
    // Pairs (i, R + i) brought together, turned, and brought back.
    let half = shape.r as usize;
    let turned = |x: &Data, w: &Data, heads: u64| -> Vec<f64> {
        let normed = norm::reference(&x.values, &w.values, f64::from(eps));
        let paired: Vec<f64> = normed
            .chunks(half * 2)
            .flat_map(|head| (0..half).flat_map(move |i| [head[i], head[half + i]]))
            .collect();
        rotate(&paired, heads, shape)
            .chunks(half * 2)
            .flat_map(|head| (0..half * 2).map(move |i| head[i % half * 2 + i / half]))
            .collect()
    };
    let (queries, keys) = (turned(&q, &wq, shape.heads), turned(&key, &wk, shape.groups));
    let case = Case::new(format!("norm_rope {}", cache.0), NORM_ROPE, "norm_rope")
        .input("Key", &key)
        .input("Wq", &wq)
        .input("Wk", &wk)
        .scalar("eps", eps);
    let tolerance = Tolerance { absolute: 3e-6, relative: 4e-6 };
    outputs(case, random, shape, cache, (&q, queries, &keys), tolerance)
}

/// cos and sin of `position / 10000^(i / r)`, a row per position.
fn tables(r: u64) -> (Data, Data) {
    let angles: Vec<f64> = (0..POSITIONS)
        .flat_map(|position| (0..r).map(move |i| position as f64 / 10000f64.powf(i as f64 / r as f64)))
        .collect();
    let table = |function: fn(f64) -> f64| {
        let values: Vec<f64> = angles.iter().map(|angle| function(*angle)).collect();
        Data::f32(&[POSITIONS, r], &values)
    };
    (table(f64::cos), table(f64::sin))
}

/// Pairs (2i, 2i + 1) of `heads` heads turned by the angle of their row's position.
fn rotate(x: &[f64], heads: u64, Shape { r, pos, .. }: Shape) -> Vec<f64> {
    let (cos, sin) = tables(r);
    let (heads, r) = (heads as usize, r as usize);
    x.as_chunks::<2>()
        .0
        .iter()
        .enumerate()
        .flat_map(|(at, [a, b])| {
            let row = at / (heads * r) + pos as usize;
            let (c, s) = (cos.values[row * r + at % r], sin.values[row * r + at % r]);
            [a * c - b * s, a * s + b * c]
        })
        .collect()
}

/// The cache [G, S, ...] with the rows `values` [N, G, ...] at positions `pos` on; what lies past
/// its end is dropped.
fn placed(cache: &Data, values: &[f64], Shape { groups, pos, .. }: Shape) -> Vec<f64> {
    let mut all = cache.values.clone();
    let row = all.len() / (groups * ROWS) as usize;
    for (at, value) in values.chunks(row).enumerate() {
        let (position, group) = (at / groups as usize + pos as usize, at % groups as usize);
        if position < ROWS as usize {
            let start = (group * ROWS as usize + position) * row;
            all[start..start + row].copy_from_slice(value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn() {
        // One head, R = 1: position 1 turns (1, 0) by one radian.
        let shape = Shape { n: 1, heads: 1, groups: 1, r: 1, pos: 1 };
        let turned = rotate(&[1.0, 0.0], 1, shape);
        assert!((turned[0] - 1f64.cos()).abs() < 1e-7 && (turned[1] - 1f64.sin()).abs() < 1e-7);
    }
}
