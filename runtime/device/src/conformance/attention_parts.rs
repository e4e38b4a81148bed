//! The models' attention of one row over a long text: parts of the positions, and joining
//! them.

use phobos_artifact::{DType, Element, format::ACTIVATIONS};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random, positions},
    quantize::{named, written},
};

const SOURCE: &str = include_str!("../../../../models/kernels/attention.ph");
/// `TILE_S` of the kernel: parts are whole tiles of keys.
const TILE: usize = 64;
const TOLERANCE: Tolerance = Tolerance { absolute: 1e-5, relative: 1e-5 };

/// (position of the row, rows of the cache): one key, around a tile, several tiles a part.
const PLACES: [(usize, usize); 6] = [(0, 1), (62, 64), (63, 64), (64, 130), (191, 200), (700, 711)];
/// Parts: all in one, fewer and more than there are tiles.
const PARTS: [usize; 3] = [1, 4, 7];
/// (key/value heads, query heads of each, head size)
const HEADS: [(usize, usize, usize); 3] = [(2, 2, 32), (1, 4, 64), (3, 1, 17)];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(61);
    for (heads, dtype) in HEADS.into_iter().zip([DType::F16, DType::F32, DType::F16]) {
        for (pos, length) in PLACES {
            for parts in PARTS {
                for window in [None, Some(70)] {
                    let shape = Shape { heads, parts, pos, length, window };
                    cases.push(part(&mut random, dtype, shape));
                }
            }
        }
    }
    let outputs = ACTIVATIONS.map(Element::Block).into_iter().chain([Element::Scalar(DType::F32)]);
    for to in outputs {
        for heads in HEADS.into_iter().filter(|(_, _, d)| d.is_multiple_of(to.block_elements())) {
            for parts in PARTS {
                cases.push(join(&mut random, to, heads, parts));
            }
        }
    }
    cases
}

#[derive(Clone, Copy)]
struct Shape {
    heads: (usize, usize, usize),
    parts: usize,
    pos: usize,
    length: usize,
    window: Option<usize>,
}

/// What parts leave: sums not yet divided, largest scores, sums of weights.
struct Left {
    sums: Vec<f64>,
    largest: Vec<f64>,
    weights: Vec<f64>,
}

fn sizes(extents: &[usize]) -> Vec<u64> {
    extents.iter().map(|extent| *extent as u64).collect()
}

fn part(random: &mut Random, dtype: DType, shape: Shape) -> Case {
    let Shape { heads: (groups, group, d), parts, pos, length, window } = shape;
    let scale = 1.0 / (d as f32).sqrt();
    let q: Vec<f64> = (0..groups * group * d).map(|_| random.between(-2.0, 2.0)).collect();
    let q = Data::f32(&sizes(&[1, groups, group, d]), &q);
    let mut cache = || Data::random(Element::Scalar(dtype), &sizes(&[groups, length, d]), random);
    let (k, v) = (cache(), cache());
    let left = reference(&q.values, &k.values, &v.values, f64::from(scale), shape);
    let each = sizes(&[parts, groups, group, 1]);
    Case::new(format!("attention part {dtype}"), SOURCE, "attention_part")
        .element("T", Element::Scalar(dtype))
        .bind("D", d as u64)
        .bind("R", group as u64)
        .param("TILE_S", TILE as u64)
        .input("Q", &q)
        .input("K", &k)
        .input("V", &v)
        .input("Pos", &positions(pos as u64, 1))
        .output("O", &sizes(&[parts, groups, group, d]), left.sums, Tolerance { absolute: 1e-4, ..TOLERANCE })
        .output("M", &each, left.largest, TOLERANCE)
        .output("L", &each, left.weights, TOLERANCE)
        .scalar("window", window.map_or(i32::MAX, |window| window as i32))
        .scalar("scale", scale)
}

/// Each part by itself, in two passes over its keys.
fn reference(q: &[f64], k: &[f64], v: &[f64], scale: f64, shape: Shape) -> Left {
    let Shape { heads: (groups, group, d), parts, pos, length, window } = shape;
    let end = pos + 1;
    let start = end.saturating_sub(window.unwrap_or(end));
    let share = (end - start).div_ceil(TILE).div_ceil(parts) * TILE;
    let mut left = Left { sums: Vec::new(), largest: Vec::new(), weights: Vec::new() };
    for part in 0..parts {
        let first = (start + part * share).min(end);
        let keys = first..(first + share).min(end);
        for head in 0..groups * group {
            let row = |key: usize| (head / group * length + key) * d;
            let query = &q[head * d..][..d];
            let score =
                |key: usize| scale * query.iter().zip(&k[row(key)..][..d]).map(|(q, k)| q * k).sum::<f64>();
            let largest = keys.clone().map(score).fold(f64::NEG_INFINITY, f64::max);
            let weight = |key: usize| (score(key) - largest).exp();
            left.largest.push(largest);
            left.weights.push(keys.clone().map(weight).sum());
            left.sums
                .extend((0..d).map(|i| keys.clone().map(|key| weight(key) * v[row(key) + i]).sum::<f64>()));
        }
    }
    left
}

/// Parts with scores of all sizes; the last of several is one without positions.
fn join(random: &mut Random, to: Element, (groups, group, d): (usize, usize, usize), parts: usize) -> Case {
    let heads = groups * group;
    let empty = |index: usize| parts > 1 && index / heads == parts - 1;
    let largest: Vec<f64> = (0..parts * heads)
        .map(|index| if empty(index) { f64::NEG_INFINITY } else { random.between(-5.0, 5.0) })
        .collect();
    let weights: Vec<f64> =
        (0..parts * heads).map(|index| if empty(index) { 0.0 } else { random.between(1.0, 64.0) }).collect();
    let sums: Vec<f64> = (0..parts * heads * d)
        .map(|index| if empty(index / d) { 0.0 } else { random.between(-9.0, 9.0) })
        .collect();
    let each = sizes(&[parts, groups, group, 1]);
    let sums = Data::f32(&sizes(&[parts, groups, group, d]), &sums);
    let (largest, weights) = (Data::f32(&each, &largest), Data::f32(&each, &weights));
    let mut wanted = Vec::new();
    for head in 0..heads {
        let at = |part: usize| part * heads + head;
        let top = (0..parts).map(|part| largest.values[at(part)]).fold(f64::NEG_INFINITY, f64::max);
        let factor = |part: usize| (largest.values[at(part)] - top).exp();
        let total: f64 = (0..parts).map(|part| weights.values[at(part)] * factor(part)).sum();
        for i in 0..d {
            let sum: f64 = (0..parts).map(|part| sums.values[at(part) * d + i] * factor(part)).sum();
            wanted.push(sum / total);
        }
    }
    let case = Case::new(named("attention join", to), SOURCE, "attention_join")
        .element("B", to)
        .bind("D", d as u64)
        .bind("R", group as u64)
        .input("O", &sums)
        .input("M", &largest)
        .input("L", &weights);
    written(case, ("Y", to), &sizes(&[1, groups, group, d]), wanted, TOLERANCE, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 70 keys in two parts of whole tiles: 64 and 6; a third has none.
    #[test]
    fn parts_are_whole_tiles_and_the_last_may_be_empty() {
        let shape = Shape { heads: (1, 1, 1), parts: 3, pos: 69, length: 70, window: None };
        let left = reference(&[0.0], &[1.0; 70], &[2.0; 70], 1.0, shape);
        assert_eq!(left.weights, [64.0, 6.0, 0.0]);
        assert_eq!(left.sums, [128.0, 12.0, 0.0]);
        assert_eq!(left.largest, [0.0, 0.0, f64::NEG_INFINITY]);
    }
}
