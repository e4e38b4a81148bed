//! `quantize`: tiles in the formats of activations, stored and decoded again.

use phobos_artifact::{
    DType, Element,
    format::{ACTIVATIONS, Format, activation::SMALLEST},
};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random, count},
};

/// A row for each program: the tile has one axis, and is stored as it is.
const ROWS: &str = "
kernel rows[F: format](X: tensor<f32>[N, K], Y: tensor<F>[N, K]) {
  let n = program_id(0)
  Y[n, :] = quantize(X[n, :], F)
}
";

/// Tiles that reach beyond the tensor on both axes, and an operand that is computed.
const TILES: &str = "@autotune(TN in [4], TK in [32, 64])
kernel tiles[F: format](X: tensor<f32>[N, K], Y: tensor<F>[N, K], s: f32) {
  let n = program_id(0) * TN
  let k = program_id(1) * TK
  Y[n :+ TN, k :+ TK] = quantize(X[n :+ TN, k :+ TK] * s, F)
}
";

/// Blocks that never reach memory, read twice. So K need not be whole blocks.
const DECODED: &str = "@autotune(TN in [4], TK in [64])
kernel decoded[F: format](X: tensor<f32>[N, K], Y: tensor<f32>[N, K], Z: tensor<f32>[N, K]) {
  let n = program_id(0) * TN
  let k = program_id(1) * TK
  let q = quantize(X[n :+ TN, k :+ TK], F)
  Y[n :+ TN, k :+ TK] = f32(q)
  Z[n :+ TN, k :+ TK] = f32(q) + 0.0
}
";

/// 1 where an element is finite, 0 elsewhere.
const FINITE: &str = "@autotune(TN in [4], TK in [64])
kernel finite[F: format](X: tensor<f32>[N, K], Y: tensor<f32>[N, K]) {
  let n = program_id(0) * TN
  let k = program_id(1) * TK
  let v = f32(quantize(X[n :+ TN, k :+ TK], F))
  Y[n :+ TN, k :+ TK] = where(v - v == 0.0, 1.0, 0.0)
}
";

/// Odd rows around a tile of 4; widths of one block, of an odd number, and of many.
const SHAPES: [(u64, u64); 6] = [(1, 32), (3, 96), (5, 32), (5, 96), (17, 96), (3, 576)];

/// A power of two: scaling by it rounds nothing.
const SCALE: f32 = 0.25;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(31);
    for format in ACTIVATIONS {
        for (n, k) in SHAPES {
            let x = Data::f32(&[n, k], &values(count(&[n, k]), &mut random));
            rounded(&mut cases, format, &x);
        }
        for (n, k) in SHAPES.into_iter().chain([(5, 80), (3, 33), (1, 1)]) {
            let x = Data::f32(&[n, k], &values(count(&[n, k]), &mut random));
            decoded(&mut cases, format, &x);
        }
        broken(&mut cases, format, &mut random);
    }
    // The same sources where nothing is quantised: a plain cast.
    for dtype in [DType::F32, DType::F16, DType::Bf16] {
        let x = Data::random(Element::Scalar(DType::F32), &[5, 96], &mut random);
        let scaled: Vec<f64> = x.values.iter().map(|value| value * f64::from(SCALE)).collect();
        let wanted = Data::new(dtype, &[5, 96], &scaled).values;
        cases.push(
            Case::new(format!("quantize {dtype}"), TILES, "tiles")
                .element("F", Element::Scalar(dtype))
                .param("TK", 64)
                .input("X", &x)
                .typed_output("Y", dtype, &[5, 96], wanted, Tolerance::EXACT)
                .scalar("s", SCALE),
        );
    }
    cases
}

/// Blocks of 32 values whose largest magnitudes lie many orders apart, so that a block
/// that takes the scale of another shows; some of zeros, some too small for a scale.
fn values(count: usize, random: &mut Random) -> Vec<f64> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let size = match random.below(8) {
            0 => 0.0,
            1 => f64::from(SMALLEST) * 0.99,
            2 => f64::from(SMALLEST) * 16.0,
            3 => 1e30,
            _ => (random.below(40) as f64 - 20.0).exp2(),
        };
        values.extend((0..32).map(|_| size * random.between(-1.0, 1.0)));
    }
    values.truncate(count);
    values
}

/// What `quantize` makes of rows of `k` values: the values themselves, or zeros for a tiny
/// block; and how far each may be off. A last block that is cut has zeros where it ends.
fn reference(format: &Format, values: &[f64], k: u64) -> (Vec<f64>, Vec<f64>) {
    let top = f64::from(format.largest_code().unwrap_or(1));
    let (mut wanted, mut slack) = (Vec::new(), Vec::new());
    let rows = values.chunks((k as usize).max(1));
    for block in rows.flat_map(|row| row.chunks(format.elements)) {
        let largest = block.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let tiny = largest < f64::from(SMALLEST);
        wanted.extend(block.iter().map(|value| if tiny { 0.0 } else { *value }));
        // Half a step, and a fiftieth of that for what f32 rounds on the way to a code and
        // back: 3 roundings of a code of up to 2^15 are less than 2^-7 of a step.
        slack.extend(block.iter().map(|_| if tiny { 0.0 } else { 0.51 * largest / top }));
    }
    (wanted, slack)
}

/// The name of a case of `kernel` that reads or writes `element`: with the element, where it is
/// one of activations.
pub(super) fn named(kernel: &str, element: Element) -> String {
    match element {
        Element::Block(format) => format!("{kernel} {}", format.name),
        Element::Scalar(_) => kernel.to_owned(),
    }
}

/// An output of `wanted` whose last operation is `quantize` to `element`: as far off as
/// `tolerance` and `slack` (none when it is empty) let the operand be, and half a step more
/// where it is rounded to blocks.
pub(super) fn written(
    case: Case,
    (name, element): (&str, Element),
    shape: &[u64],
    wanted: Vec<f64>,
    tolerance: Tolerance,
    slack: &[f64],
) -> Case {
    let mut slack = slack.to_vec();
    if let (Element::Block(format), Some(k)) = (element, shape.last()) {
        slack.resize(wanted.len(), 0.0);
        // The step is the operand's, which is as far off itself.
        let errors = wanted
            .iter()
            .zip(&slack)
            .map(|(value, slack)| slack + tolerance.absolute + tolerance.relative * value.abs());
        let error = errors.fold(0.0, f64::max);
        let top = f64::from(format.largest_code().unwrap_or(1));
        let (_, steps) = reference(format, &wanted, *k);
        slack.iter_mut().zip(steps).for_each(|(slack, step)| *slack += step + error / top);
    }
    case.element_output(name, element, shape, wanted, tolerance).within(slack)
}

fn rounded(cases: &mut Vec<Case>, format: &'static Format, x: &Data) {
    let (name, element) = (format.name, Element::Block(format));
    let k = x.shape[1];
    let blocks = |case: Case, values: &[f64]| {
        let (wanted, slack) = reference(format, values, k);
        case.element_output("Y", element, &x.shape, wanted, Tolerance::EXACT).within(slack)
    };
    let rows = Case::new(format!("quantize rows {name}"), ROWS, "rows").element("F", element).bind("K", k);
    cases.push(blocks(rows.input("X", x), &x.values));
    let scaled: Vec<f64> = x.values.iter().map(|value| value * f64::from(SCALE)).collect();
    for tile in [32, 64] {
        let tiles = Case::new(format!("quantize {name}"), TILES, "tiles").element("F", element);
        let tiles = tiles.param("TK", tile).input("X", x);
        cases.push(blocks(tiles, &scaled).scalar("s", SCALE));
    }
}

fn decoded(cases: &mut Vec<Case>, format: &'static Format, x: &Data) {
    let (wanted, slack) = reference(format, &x.values, x.shape[1]);
    cases.push(
        Case::new(format!("decode of quantize {}", format.name), DECODED, "decoded")
            .element("F", Element::Block(format))
            .input("X", x)
            .output("Y", &x.shape, wanted.clone(), Tolerance::EXACT)
            .within(slack.clone())
            .output("Z", &x.shape, wanted, Tolerance::EXACT)
            .within(slack),
    );
}

/// A block with one value that is not finite has none that is; its neighbours are whole.
fn broken(cases: &mut Vec<Case>, format: &'static Format, random: &mut Random) {
    let shape = [5, 96];
    let mut values = Data::random(Element::Scalar(DType::F32), &shape, random).values;
    let mut wanted = vec![1.0; values.len()];
    for (block, bad) in [(1, f64::NAN), (3, f64::INFINITY), (4, f64::NEG_INFINITY), (14, f64::NAN)] {
        let start = block * format.elements;
        values[start + random.below(32) as usize] = bad;
        wanted[start..start + format.elements].fill(0.0);
    }
    cases.push(
        Case::new(format!("quantize not finite {}", format.name), FINITE, "finite")
            .element("F", Element::Block(format))
            .input("X", &Data::f32(&shape, &values))
            .output("Y", &shape, wanted, Tolerance::EXACT),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference encoder passes, and a code that is off by one does not.
    #[test]
    fn half_a_step_is_wide_enough_and_a_step_is_not() {
        let mut random = Random::new(2);
        for format in ACTIVATIONS {
            let x = Data::f32(&[32, 32], &values(1024, &mut random));
            let (wanted, slack) = reference(format, &x.values, 32);
            let found = Data::quantized(format, &[32, 32], &x.values).values;
            assert_eq!(wanted.len(), found.len());
            let mut zeros = 0;
            for ((wanted, found), slack) in wanted.iter().zip(&found).zip(slack) {
                assert!((wanted - found).abs() <= slack, "{} {wanted} {found} {slack}", format.name);
                let step = slack / 0.51;
                assert!(slack == 0.0 || (wanted - found).abs() + step > slack + step / 4.0);
                zeros += usize::from(*found == 0.0);
            }
            assert!(zeros > 32 && zeros < 512, "{zeros}");
        }
    }
}
