//! The models' causal attention over the cache.

use std::ops::Range;

use phobos_artifact::{DType, Element, format::ACTIVATIONS};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random, positions},
    quantize::{named, written},
};

const SOURCE: &str = include_str!("../../../../models/kernels/attention.ph");
const F32: Element = Element::Scalar(DType::F32);

/// (queries N, position of the first, rows of the cache S): chunks of 1, 3, around a tile of 32,
/// positions around a tile of 64 keys, caches with and without room.
const PLACES: [(u64, u64, u64); 12] = [
    (1, 0, 1),
    (1, 0, 128),
    (1, 31, 33),
    (1, 63, 64),
    (1, 64, 65),
    (1, 100, 192),
    (3, 0, 17),
    (3, 62, 70),
    (31, 1, 64),
    (32, 32, 64),
    (33, 0, 33),
    (65, 40, 130),
];
/// Windows: all positions, one, less than a tile of keys, more.
const WINDOWS: [Option<u64>; 4] = [None, Some(1), Some(30), Some(70)];
/// (query heads, key/value heads, head size)
const HEADS: [(u64, u64, u64); 4] = [(1, 1, 8), (4, 2, 32), (9, 3, 64), (3, 3, 17)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(10);
    for dtype in [DType::F32, DType::F16] {
        for (heads, groups, d) in HEADS {
            for (n, pos, s) in PLACES {
                for tile in [1, 32] {
                    // A tile per query serves decoding; prefill is covered by the other.
                    if tile == 1 && n > 3 {
                        continue;
                    }
                    for window in WINDOWS {
                        // The mask does not depend on heads or elements.
                        if window.is_some() && (dtype, d) != (DType::F16, 32) {
                            continue;
                        }
                        let shape = Shape { n, heads, groups, d, s, pos, window };
                        cases.push(case(&mut random, (dtype, F32), Some(tile), shape));
                        if n == 1 && tile == 1 {
                            cases.push(case(&mut random, (dtype, F32), None, shape));
                        }
                    }
                }
            }
        }
    }
    // Blocks: a head is one or two of them.
    for to in ACTIVATIONS.map(Element::Block) {
        for (heads, groups, d) in HEADS.into_iter().filter(|(_, _, d)| d.is_multiple_of(32)) {
            for (n, pos, s) in PLACES {
                let shape = Shape { n, heads, groups, d, s, pos, window: None };
                cases.push(case(&mut random, (DType::F16, to), Some(32), shape));
                if n == 1 {
                    cases.push(case(&mut random, (DType::F16, to), None, shape));
                }
            }
        }
    }
    cases
}

#[derive(Clone, Copy)]
struct Shape {
    n: u64,
    heads: u64,
    groups: u64,
    d: u64,
    s: u64,
    pos: u64,
    /// How many positions a query sees.
    window: Option<u64>,
}

impl Shape {
    /// The keys that the query of row `row` sees.
    fn seen(self, row: u64) -> Range<usize> {
        let end = self.pos + row + 1;
        let start = end.saturating_sub(self.window.unwrap_or(end));
        start as usize..end as usize
    }
}

/// `attention` with a tile of query rows, or `attention_one` without; caches of `dtype`, and
/// an output of `to`.
fn case(random: &mut Random, (dtype, to): (DType, Element), tile: Option<u64>, shape: Shape) -> Case {
    let Shape { n, heads, groups, d, s, pos, window } = shape;
    let scale = 1.0 / (d as f32).sqrt();
    let q: Vec<f64> = (0..n * heads * d).map(|_| random.between(-2.0, 2.0)).collect();
    let (rows, output) = match tile {
        Some(_) => (vec![n, heads, d], vec![n, heads * d]),
        None => (vec![n, groups, heads / groups, d], vec![n, groups, heads / groups, d]),
    };
    let q = Data::f32(&rows, &q);
    let mut cache = || {
        let mut data = Data::random(Element::Scalar(dtype), &[groups, s, d], random);
        // Rows that no query may see hold what an earlier sequence left, or are out of its
        // window: finite, and large enough to show.
        let seen = shape.seen(0).start..shape.seen(n - 1).end;
        let key = |at: usize| at / d as usize % s as usize;
        let values: Vec<f64> = data
            .values
            .iter()
            .enumerate()
            .map(|(at, value)| if seen.contains(&key(at)) { *value } else { 1000.0 })
            .collect();
        data = Data::new(dtype, &data.shape, &values);
        data
    };
    let (k, v) = (cache(), cache());
    let wanted = reference(&q.values, &k.values, &v.values, f64::from(scale), shape);
    let case = match tile {
        Some(tile) => {
            Case::new(named(&format!("attention {dtype}"), to), SOURCE, "attention").param("TILE_Q", tile)
        }
        None => Case::new(named(&format!("attention one {dtype}"), to), SOURCE, "attention_one")
            .bind("R", heads / groups),
    };
    let case = case
        .element("T", Element::Scalar(dtype))
        .element("B", to)
        .bind("D", d)
        .param("TILE_S", 64)
        .input("Q", &q)
        .input("K", &k)
        .input("V", &v)
        .input("Pos", &positions(pos, n));
    written(case, ("O", to), &output, wanted, Tolerance { absolute: 1e-5, relative: 1e-5 }, &[])
        .scalar("window", window.map_or(i32::MAX, |window| window as i32))
        .scalar("scale", scale)
}

/// Softmax over the keys that a query sees, in two passes.
fn reference(q: &[f64], k: &[f64], v: &[f64], scale: f64, shape: Shape) -> Vec<f64> {
    let Shape { n, heads, groups, d, s, .. } = shape;
    let [n, heads, groups, d, s] = [n, heads, groups, d, s].map(|extent| extent as usize);
    let mut out = Vec::with_capacity(n * heads * d);
    for row in 0..n {
        for head in 0..heads {
            let group = head / (heads / groups);
            let query = &q[(row * heads + head) * d..][..d];
            let at = |key: usize| (group * s + key) * d;
            let seen = shape.seen(row as u64);
            let scores: Vec<f64> = seen
                .clone()
                .map(|key| scale * query.iter().zip(&k[at(key)..][..d]).map(|(q, k)| q * k).sum::<f64>())
                .collect();
            out.extend(weighted(&scores, d, |key, i| v[at(seen.start + key) + i]));
        }
    }
    out
}

/// The mean of `value(key, i)` for each `i` below `d`, weighted by the softmax of `scores`.
pub(super) fn weighted(scores: &[f64], d: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    (0..d)
        .map(|i| weights.iter().enumerate().map(|(key, weight)| weight * value(key, i)).sum::<f64>() / total)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_give_the_mean_and_the_mask_is_causal() {
        // One head of size 1, two queries of 0: weights are equal over visible keys.
        let shape = Shape { n: 2, heads: 1, groups: 1, d: 1, s: 4, pos: 1, window: None };
        let v = [1.0, 3.0, 8.0, 1000.0];
        assert_eq!(reference(&[0.0, 0.0], &[1.0; 4], &v, 1.0, shape), [2.0, 4.0]);
    }

    #[test]
    fn a_window_ends_at_the_querys_own_position() {
        let shape = Shape { n: 2, heads: 1, groups: 1, d: 1, s: 4, pos: 1, window: Some(2) };
        assert_eq!(reference(&[0.0, 0.0], &[1.0; 4], &[1.0, 3.0, 8.0, 1000.0], 1.0, shape), [2.0, 5.5]);
    }

    #[test]
    fn query_heads_share_their_group() {
        let shape = Shape { n: 1, heads: 4, groups: 2, d: 1, s: 1, pos: 0, window: None };
        assert_eq!(reference(&[0.0; 4], &[1.0; 2], &[5.0, 7.0], 1.0, shape), [5.0, 5.0, 7.0, 7.0]);
    }
}
