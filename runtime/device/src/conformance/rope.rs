//! The models' rotary embedding in place and into the cache, with and without a norm of each
//! head before it, and the store of values.

use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    norm,
};

const NORM_ROPE: &str = include_str!("../../../../models/kernels/norm_rope.ph");
const SOURCE: &str = include_str!("../../../../models/kernels/rope.ph");
const F32: Element = Element::Scalar(DType::F32);
/// Positions that the tables have.
const POSITIONS: u64 = 40;
/// Rows that the cache has.
const ROWS: u64 = 37;

/// (N, heads, R, pos): R is half a head.
const SHAPES: [(u64, u64, u64, u64); 7] = [
    (1, 1, 1, 0),
    (1, 3, 16, 5),
    (3, 2, 17, 0),
    (17, 1, 33, 20),
    (1, 9, 32, 36),
    (5, 2, 31, 7),
    (2, 3, 32, 1),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(9);
    for shape in SHAPES {
        let (n, heads, r, pos) = shape;
        let x = Data::random(F32, &[n, heads, r, 2], &mut random);
        let (cos, sin) = tables(r);
        let rotated = rotate(&x.values, &cos.values, &sin.values, shape);
        let tolerance = Tolerance { absolute: 3e-7, relative: 3e-7 };
        cases.push(
            Case::new("rope", SOURCE, "rope")
                .bind("R", r)
                .update("X", &x, rotated.clone(), tolerance)
                .input("Cos", &cos)
                .input("Sin", &sin)
                .scalar("pos", pos as i32),
        );
        for (dtype, step) in [(DType::F32, 0.0), (DType::F16, 1e-3)] {
            let cache = Data::random(Element::Scalar(dtype), &[ROWS, heads, r, 2], &mut random);
            let wanted = placed(&cache, &rotated, (heads * r * 2 * pos) as usize);
            cases.push(
                Case::new(format!("rope_store {dtype}"), SOURCE, "rope_store")
                    .element("T", Element::Scalar(dtype))
                    .bind("R", r)
                    .input("X", &x)
                    .input("Cos", &cos)
                    .input("Sin", &sin)
                    .update("Cache", &cache, wanted, Tolerance { relative: step, ..tolerance })
                    .scalar("pos", pos as i32),
            );
            let e = heads * r * 2;
            let flat = |data: &Data, rows: u64| Data { shape: vec![rows, e], ..data.clone() };
            let rounded = Data::new(dtype, &[n, e], &x.values).values;
            cases.push(
                Case::new(format!("store {dtype}"), SOURCE, "store")
                    .element("T", Element::Scalar(dtype))
                    .bind("E", e)
                    .input("X", &flat(&x, n))
                    .update(
                        "Cache",
                        &flat(&cache, ROWS),
                        placed(&cache, &rounded, (e * pos) as usize),
                        Tolerance::EXACT,
                    )
                    .scalar("pos", pos as i32),
            );
        }
        cases.extend(norm_rope(&mut random, shape));
    }
    cases
}

fn norm_rope(random: &mut Random, shape: (u64, u64, u64, u64)) -> Vec<Case> {
    let (n, heads, r, pos) = shape;
    let eps = 1e-5f32;
    let x = Data::random(F32, &[n, heads, 2, r], random);
    let w = Data::random(F32, &[2, r], random);
    let (cos, sin) = tables(r);
    // Pairs (i, R + i) brought together, turned, and brought back.
    let half = r as usize;
    let normed = norm::reference(&x.values, &w.values, f64::from(eps));
    let paired: Vec<f64> = normed
        .chunks(half * 2)
        .flat_map(|head| (0..half).flat_map(move |i| [head[i], head[half + i]]))
        .collect();
    let turned: Vec<f64> = rotate(&paired, &cos.values, &sin.values, shape)
        .chunks(half * 2)
        .flat_map(|head| (0..half * 2).map(move |i| head[i % half * 2 + i / half]))
        .collect();
    let tolerance = Tolerance { absolute: 3e-6, relative: 4e-6 };
    let arguments = |case: Case| {
        case.bind("R", r)
            .input("W", &w)
            .input("Cos", &cos)
            .input("Sin", &sin)
            .scalar("pos", pos as i32)
            .scalar("eps", eps)
    };
    let in_place = Case::new("norm_rope", NORM_ROPE, "norm_rope").update("X", &x, turned.clone(), tolerance);
    let mut cases = vec![arguments(in_place)];
    for (dtype, step) in [(DType::F32, 4e-6), (DType::F16, 1e-3)] {
        let cache = Data::random(Element::Scalar(dtype), &[ROWS, heads, 2, r], random);
        let wanted = placed(&cache, &turned, (heads * r * 2 * pos) as usize);
        let stored = Case::new(format!("norm_rope_store {dtype}"), NORM_ROPE, "norm_rope_store")
            .element("T", Element::Scalar(dtype))
            .input("X", &x)
            .update("Cache", &cache, wanted, Tolerance { relative: step, ..tolerance });
        cases.push(arguments(stored));
    }
    cases
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

/// Pairs (2i, 2i + 1) turned by the angle of their row's position.
fn rotate(x: &[f64], cos: &[f64], sin: &[f64], (_, heads, r, pos): (u64, u64, u64, u64)) -> Vec<f64> {
    let (heads, r) = (heads as usize, r as usize);
    x.as_chunks::<2>()
        .0
        .iter()
        .enumerate()
        .flat_map(|(at, [a, b])| {
            let row = at / (heads * r) + pos as usize;
            let (c, s) = (cos[row * r + at % r], sin[row * r + at % r]);
            [a * c - b * s, a * s + b * c]
        })
        .collect()
}

/// The cache with `values` from element `start` on; what lies past its end is dropped.
fn placed(cache: &Data, values: &[f64], start: usize) -> Vec<f64> {
    let mut all = cache.values.clone();
    for (slot, value) in all.iter_mut().skip(start).zip(values) {
        *slot = *value;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn() {
        // One head, R = 1: position 1 turns (1, 0) by one radian.
        let (cos, sin) = tables(1);
        let turned = rotate(&[1.0, 0.0], &cos.values, &sin.values, (1, 1, 1, 1));
        assert!((turned[0] - 1f64.cos()).abs() < 1e-7 && (turned[1] - 1f64.sin()).abs() < 1e-7);
    }
}
