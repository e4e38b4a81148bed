//! Formats of activations: what the two have in common, and their reference encoder.
//!
//! A block holds 32 elements as a header of four `f32` and the codes:
//!
//! ```text
//! scale | scale * sum of all codes | the same of the first 16 | of the last 16 | codes
//! ```
//! The sums serve weights with offsets, whose product with the activations is
//! `scale_w * (codes_w . x) + offset_w * sum(x)`. With `top` the largest code (127 or
//! 32767) and `m` the largest magnitude of the block, `scale = m / top` and each code is
//! `x * (top / m)` rounded to the nearest, ties to even. A block with `m` below
//! [`SMALLEST`] is all zeros; one that holds a value that is not finite decodes to none
//! that is.

use super::{Expr, Format};

/// Where the scale is in a block.
pub const SCALE: usize = 0;
/// Where the scaled sum of all codes is.
pub const SUM: usize = 4;
/// Where the scaled sums of the two halves are.
pub const HALF_SUMS: [usize; 2] = [8, 12];
/// Where the codes start.
pub const CODES: usize = 16;
/// Blocks whose magnitudes all are below this, `2^-100`, are zero: `top / m` stays finite.
pub const SMALLEST: f32 = f32::from_bits((127 - 100) << 23);

/// The place of element `lane` in a list of 16-bit codes: the middle two of each four are
/// exchanged, so that the pair of bytes 0 and 2 of a word of weights (one mask) meets
/// neighbours, and that of bytes 1 and 3 (one shift and one mask) too.
pub const fn paired(lane: usize) -> usize {
    match lane % 4 {
        1 => lane + 1,
        2 => lane - 1,
        _ => lane,
    }
}

impl Format {
    /// The largest code of a format of activations; `None` for others.
    pub fn largest_code(&self) -> Option<i32> {
        if self.ggml_type.is_some() {
            return None;
        }
        match self.segments.first()?.affine()?.codes {
            Expr::PairedShorts(_) => Some(32767),
            _ => Some(127),
        }
    }

    /// The blocks of `values`, a multiple of 32 of them, in a format of activations. `None`
    /// for other formats and lengths.
    pub fn quantize(&self, values: &[f32]) -> Option<Vec<u8>> {
        let top = self.largest_code()?;
        if !values.len().is_multiple_of(self.elements) {
            return None;
        }
        let mut bytes = Vec::with_capacity(values.len() / self.elements * self.bytes);
        for block in values.chunks_exact(self.elements) {
            quantize_block(block, top, &mut bytes);
        }
        Some(bytes)
    }
}

fn quantize_block(block: &[f32], top: i32, bytes: &mut Vec<u8>) {
    let (mut largest, top_float) = (0.0f32, top as f32);
    for value in block {
        let magnitude = value.abs();
        // NaN stays, unlike with f32::max.
        if magnitude > largest || magnitude.is_nan() {
            largest = magnitude;
        }
    }
    let zero = largest < SMALLEST;
    let scale = if zero { 0.0 } else { largest / top_float };
    let inverse = if zero { 0.0 } else { top_float / largest };
    let codes: Vec<i32> = block
        .iter()
        .map(|value| (value * inverse).round_ties_even().max(-top_float).min(top_float) as i32)
        .collect();
    let sum = |codes: &[i32]| scale * codes.iter().sum::<i32>() as f32;
    for header in [scale, sum(&codes), sum(&codes[..16]), sum(&codes[16..])] {
        bytes.extend(header.to_le_bytes());
    }
    if top == 127 {
        bytes.extend(codes.iter().map(|code| *code as u8));
    } else {
        for place in 0..codes.len() {
            // The exchange is its own inverse.
            bytes.extend((codes[paired(place)] as i16).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ACTIVATIONS, ALL};
    use super::*;

    fn block(seed: usize) -> Vec<f32> {
        (0..32).map(|lane| ((lane * 37 + seed * 11) % 64) as f32 - 31.5).collect()
    }

    #[test]
    fn decoding_gives_values_back_to_half_a_step() {
        for format in ACTIVATIONS {
            let top = format.largest_code().unwrap() as f32;
            for seed in 0..8 {
                let values = block(seed);
                let bytes = format.quantize(&values).unwrap();
                assert_eq!(bytes.len(), format.bytes);
                let step = values.iter().fold(0.0f32, |m, v| m.max(v.abs())) / top;
                for (value, decoded) in values.iter().zip(format.decode(&bytes).unwrap()) {
                    assert!((value - decoded).abs() <= step * 0.51, "{} {value} {decoded}", format.name);
                }
            }
        }
    }

    #[test]
    fn the_header_has_the_scaled_sums() {
        for format in ACTIVATIONS {
            let bytes = format.quantize(&block(3)).unwrap();
            let float = |at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let values = format.decode(&bytes).unwrap();
            let near = |a: f32, b: f32| assert!((a - b).abs() <= 1e-4 * 32.0, "{a} {b}");
            near(float(SUM), values.iter().sum());
            near(float(HALF_SUMS[0]), values[..16].iter().sum());
            near(float(HALF_SUMS[1]), values[16..].iter().sum());
        }
    }

    #[test]
    fn tiny_and_broken_blocks() {
        for format in ACTIVATIONS {
            let tiny = format.quantize(&[1e-38; 32]).unwrap();
            assert!(tiny.iter().all(|byte| *byte == 0), "{}", format.name);
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = block(1);
                values[7] = bad;
                let decoded = format.decode(&format.quantize(&values).unwrap()).unwrap();
                assert!(decoded.iter().all(|value| !value.is_finite()), "{} {bad}", format.name);
            }
        }
    }

    #[test]
    fn only_activations_are_encoded() {
        assert!(ALL.iter().all(|format| format.quantize(&[0.0; 256]).is_none()));
        assert!(ACTIVATIONS.iter().all(|format| format.quantize(&[0.0; 33]).is_none()));
    }
}
