//! `dot_t` of quantised activations with weights of every format: products of codes.

use phobos_artifact::{
    Element,
    format::{ACTIVATIONS, ALL, Format},
};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
    dot::matmul,
};

/// Activations from memory, and activations that the kernel itself quantises.
const SOURCE: &str = "@autotune(TM in [1, 4, 16, 64], TN in [16, 64], TK in [32, 64, 256, 512])
kernel product[A: format, F: format](X: tensor<A>[M, K], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  var acc: tile<f32>[TM, TN] = 0.0
  for k in range(0, K, TK) {
    acc += dot_t(X[m :+ TM, k :+ TK], W[n :+ TN, k :+ TK])
  }
  Y[m :+ TM, n :+ TN] = acc
}

@autotune(TM in [1, 4, 16, 64], TN in [16, 64], TK in [32, 64, 256, 512])
kernel quantized[A: format, F: format](X: tensor<f32>[M, K], W: tensor<F>[N, K], Y: tensor<f32>[M, N]) {
  let m = program_id(0) * TM
  let n = program_id(1) * TN
  var acc: tile<f32>[TM, TN] = 1.0
  for k in range(0, K, TK) {
    let q = quantize(X[m :+ TM, k :+ TK], A)
    acc += dot_t(q, W[n :+ TN, k :+ TK])
  }
  Y[m :+ TM, n :+ TN] = acc
}
";

/// Formats with tiles and shapes of all sorts: one of each kind of decode rule. (Without
/// and with offsets in blocks of 32; with offsets for 16 and 32 of 256; without, for 16.)
const KINDS: [&str; 6] = ["q4_0", "q4_1", "q8_0", "q2_k", "q4_k", "q6_k"];

/// (M, tile): one row is streamed, a few rows too, many go in panels.
const HEIGHTS: [(u64, u64); 6] = [(1, 1), (3, 4), (5, 4), (17, 16), (64, 16), (3, 16)];

const WIDTHS: [u64; 4] = [1, 16, 33, 64];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(37);
    for activations in ACTIVATIONS {
        for weights in ALL {
            let mut make = Maker { cases: &mut cases, random: &mut random, activations, weights };
            make.all();
        }
    }
    cases
}

struct Maker<'a> {
    cases: &'a mut Vec<Case>,
    random: &'a mut Random,
    activations: &'static Format,
    weights: &'static Format,
}

/// The extents of a product, and its tiles.
#[derive(Clone, Copy)]
struct Sizes {
    shape: (u64, u64, u64),
    tiles: [u64; 3],
}

impl Maker<'_> {
    fn all(&mut self) {
        let kind = KINDS.contains(&self.weights.name);
        let block = self.weights.elements as u64;
        for (m, tm) in HEIGHTS {
            for n in WIDTHS.into_iter().filter(|n| kind || *n == 33) {
                // One block, one tile, several tiles.
                let depths: &[u64] = if kind { &[block, 256, 768] } else { &[block, 768] };
                for k in depths {
                    self.product(Sizes { shape: (m, n, *k), tiles: [tm, 16, 256] });
                }
            }
        }
        for (m, tm) in [(1, 1), (17, 16)] {
            self.quantized(Sizes { shape: (m, 33, 768), tiles: [tm, 16, 256] });
        }
        if !kind {
            return;
        }
        for (m, n) in [(64, 64), (17, 33), (1, 1)] {
            self.product(Sizes { shape: (m, n, 768), tiles: [64, 64, 256] });
        }
        self.quantized(Sizes { shape: (5, 16, 256), tiles: [4, 16, 256] });
        // The last tile is half a tile of whole blocks, or less.
        let (k, tk) = if block == 32 { (288, 64) } else { (768, 512) };
        for (m, tm) in [(1, 1), (5, 4), (17, 16)] {
            self.product(Sizes { shape: (m, 17, k), tiles: [tm, 16, tk] });
            self.quantized(Sizes { shape: (m, 17, k), tiles: [tm, 16, tk] });
        }
        if block == 32 {
            self.product(Sizes { shape: (5, 33, 96), tiles: [4, 16, 32] });
        }
    }

    fn product(&mut self, sizes: Sizes) {
        let (m, _, k) = sizes.shape;
        let x = Data::random(Element::Block(self.activations), &[m, k], self.random);
        let case = self.case("dot_t", "product", &x, &x, 0.0, sizes);
        self.cases.push(case);
    }

    fn quantized(&mut self, sizes: Sizes) {
        let (m, _, k) = sizes.shape;
        let values: Vec<f64> = (0..m * k).map(|_| self.random.between(-1.0, 1.0)).collect();
        let x = Data::f32(&[m, k], &values);
        // The codes are defined to the last bit, so the reference may round ahead of the kernel.
        let rounded = Data::quantized(self.activations, &[m, k], &x.values);
        let case = self.case("dot_t of quantize", "quantized", &x, &rounded, 1.0, sizes);
        self.cases.push(case);
    }

    /// The kernel reads `x`, whose values are those of `rounded` in the product.
    fn case(
        &mut self,
        op: &str,
        kernel: &str,
        x: &Data,
        rounded: &Data,
        start: f64,
        Sizes { shape: (m, n, k), tiles: [tm, tn, tk] }: Sizes,
    ) -> Case {
        let w = Data::random(Element::Block(self.weights), &[n, k], self.random);
        let product = matmul(&rounded.values, &w.values, (m, n, k), true);
        let wanted = product.iter().map(|value| start + value).collect();
        let name = format!("{op} {} {}", self.activations.name, self.weights.name);
        Case::new(name, SOURCE, kernel)
            .element("A", Element::Block(self.activations))
            .element("F", Element::Block(self.weights))
            .param("TM", tm)
            .param("TN", tn)
            .param("TK", tk)
            .input("X", x)
            .input("W", &w)
            .output("Y", &[m, n], wanted, Tolerance { absolute: 1e-6, relative: 0.0 })
            .within(slack(&rounded.values, &w.values, (m, n, k)))
    }
}

/// How far each element of `x [m, k]` times `w [n, k]` transposed may be off: 1e-5 of the
/// sum of the magnitudes, where those of w are taken for the largest of their row, since
/// the parts `scale * code` and `offset` of a value may be larger than itself.
///
/// Sums of codes are exact. What rounds is 4 operations for each run of 16 or more
/// elements, and one addition: at K = 768 at most (48 + 4) / 2^24 of that sum, 3e-6, and
/// more than 1e-5 only where the rows are deeper than 2600. Codes taken for their
/// neighbours, a scale or a sum of another run, are 1e-3 of it and more.
pub(super) fn slack(x: &[f64], w: &[f64], (m, n, k): (u64, u64, u64)) -> Vec<f64> {
    let part = f64::max(1e-5, (k / 16 + 4) as f64 / (1u64 << 24) as f64);
    let rows = |values: &[f64], rows: u64, of: fn(f64, f64) -> f64| -> Vec<f64> {
        let row = |row: &[f64]| row.iter().fold(0.0, |total, value| of(total, value.abs()));
        values.chunks((k as usize).max(1)).take(rows as usize).map(row).collect()
    };
    let sums = rows(x, m, |total, value| total + value);
    let largest = rows(w, n, f64::max);
    sums.iter().flat_map(|sum| largest.iter().map(move |largest| part * sum * largest)).collect()
}

#[cfg(test)]
mod tests {
    use phobos_artifact::format::by_name;

    use super::*;

    #[test]
    fn slack_is_of_each_row_and_column() {
        let slack = slack(&[1.0, -3.0, 0.5, 0.0], &[-2.0, 1.0, 0.0, 0.25, 8.0, 8.0], (2, 3, 2));
        let wanted = [8.0, 1.0, 32.0, 1.0, 0.125, 4.0].map(|value| value * 1e-5);
        assert!(slack.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{slack:?}");
    }

    /// The product as it is specified, of codes in i32 and the rest in f32, is well within the
    /// slack: in blocks of 32 with one scale, and an offset or none.
    #[test]
    fn products_of_codes_pass() {
        let mut random = Random::new(5);
        let (m, n, k) = (3, 5, 768);
        for (weights, offset) in [("q8_0", false), ("q4_1", true)] {
            for activations in ACTIVATIONS {
                let weights = by_name(weights).unwrap();
                let x = Data::random(Element::Block(activations), &[m, k], &mut random);
                let w = Data::random(Element::Block(weights), &[n, k], &mut random);
                let wanted = matmul(&x.values, &w.values, (m, n, k), true);
                let slack = slack(&x.values, &w.values, (m, n, k));
                let blocks = (k / 32) as usize;
                for (at, (wanted, slack)) in wanted.iter().zip(&slack).enumerate() {
                    let (i, j) = (at / n as usize, at % n as usize);
                    let mut sum = 0.0f32;
                    for b in 0..blocks {
                        let x = &x.bytes[(i * blocks + b) * activations.bytes..][..activations.bytes];
                        let w = &w.bytes[(j * blocks + b) * weights.bytes..][..weights.bytes];
                        sum += block_product(x, w, offset);
                    }
                    let error = (f64::from(sum) - wanted).abs();
                    assert!(error < slack / 4.0, "{} {}: {error} {slack}", activations.name, weights.name);
                }
            }
        }
    }

    fn block_product(x: &[u8], w: &[u8], offset: bool) -> f32 {
        use half::f16;
        use phobos_artifact::format::activation::{CODES, SCALE, SUM, paired};
        let float = |at: usize| f32::from_le_bytes(x[at..at + 4].try_into().unwrap());
        let narrow = |at: usize| f16::from_le_bytes([w[at], w[at + 1]]).to_f32();
        let code_x = |lane: usize| match x.len() {
            48 => i32::from(x[CODES + lane] as i8),
            _ => {
                let at = CODES + 2 * paired(lane);
                i32::from(i16::from_le_bytes([x[at], x[at + 1]]))
            }
        };
        let code_w = |lane: usize| match offset {
            false => i32::from(w[2 + lane] as i8),
            true if lane < 16 => i32::from(w[4 + lane] & 15),
            true => i32::from(w[4 + lane - 16] >> 4),
        };
        let codes: i32 = (0..32).map(|lane| code_w(lane) * code_x(lane)).sum();
        let product = float(SCALE) * (narrow(0) * codes as f32);
        if offset { product + narrow(2) * float(SUM) } else { product }
    }
}
