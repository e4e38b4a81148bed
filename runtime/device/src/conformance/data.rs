//! Tensors of a case: their bytes, and the exact values that these mean.

use half::{bf16, f16};
use phobos_artifact::{DType, Element, format::Format};

use super::block;

/// A tensor's content.
#[derive(Clone, Debug)]
pub struct Data {
    /// The element type.
    pub element: Element,
    /// The extents, outermost first.
    pub shape: Vec<u64>,
    /// The bytes on the device.
    pub bytes: Vec<u8>,
    /// What they mean, decoded. Exact, but for integers over 2^53.
    pub values: Vec<f64>,
}

impl Data {
    /// `values` rounded to `dtype`. Integers saturate.
    pub fn new(dtype: DType, shape: &[u64], values: &[f64]) -> Data {
        let bytes: Vec<u8> = values.iter().flat_map(|value| encode(dtype, *value)).collect();
        let values = decode(dtype, &bytes);
        Data { element: Element::Scalar(dtype), shape: shape.to_vec(), bytes, values }
    }

    /// `f32` values.
    pub fn f32(shape: &[u64], values: &[f64]) -> Data {
        Data::new(DType::F32, shape, values)
    }

    /// `values` rounded to a format of activations by the reference encoder. Without
    /// content for other formats, and unless they are whole blocks: a mistake of the case.
    pub fn quantized(format: &'static Format, shape: &[u64], values: &[f64]) -> Data {
        let narrow: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let bytes = format.quantize(&narrow).unwrap_or_default();
        let element = Element::Block(format);
        let values = decode_element(element, &bytes);
        Data { element, shape: shape.to_vec(), bytes, values }
    }

    /// Random content: scalars in [-1, 1), blocks of weights with scales in [0.01, 0.1),
    /// blocks of activations of values in [-1, 1).
    pub fn random(element: Element, shape: &[u64], random: &mut Random) -> Data {
        let count = count(shape);
        match element {
            Element::Scalar(dtype) => {
                let values: Vec<f64> = (0..count).map(|_| random.between(-1.0, 1.0)).collect();
                Data::new(dtype, shape, &values)
            }
            Element::Block(format) => {
                let bytes = block::random(format, count / format.elements, random);
                let values = decode_element(element, &bytes);
                Data { element, shape: shape.to_vec(), bytes, values }
            }
        }
    }
}

/// `n` positions from `first` on.
pub(super) fn positions(first: u64, n: u64) -> Data {
    let values: Vec<f64> = (first..first + n).map(|position| position as f64).collect();
    Data::new(DType::I32, &[n], &values)
}

/// Elements of a shape.
pub(super) fn count(shape: &[u64]) -> usize {
    shape.iter().product::<u64>() as usize
}

/// The bytes of `value` in `dtype`, rounded to nearest even; integers saturate.
pub(super) fn encode(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::Bool => vec![u8::from(value != 0.0)],
        DType::I8 => (value as i8).to_le_bytes().to_vec(),
        DType::U8 => (value as u8).to_le_bytes().to_vec(),
        DType::I16 => (value as i16).to_le_bytes().to_vec(),
        DType::I32 => (value as i32).to_le_bytes().to_vec(),
        DType::U32 => (value as u32).to_le_bytes().to_vec(),
        DType::I64 => (value as i64).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
    }
}

/// The values of `bytes` in `dtype`.
fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], value: fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|chunk| value(*chunk)).collect()
    }
    match dtype {
        DType::Bool => each(bytes, |[byte]| f64::from(byte)),
        DType::I8 => each(bytes, |chunk| i8::from_le_bytes(chunk).into()),
        DType::U8 => each(bytes, |chunk| u8::from_le_bytes(chunk).into()),
        DType::I16 => each(bytes, |chunk| i16::from_le_bytes(chunk).into()),
        DType::I32 => each(bytes, |chunk| i32::from_le_bytes(chunk).into()),
        DType::U32 => each(bytes, |chunk| u32::from_le_bytes(chunk).into()),
        DType::I64 => each(bytes, |chunk| i64::from_le_bytes(chunk) as f64),
        DType::F16 => each(bytes, |chunk| f16::from_le_bytes(chunk).to_f64()),
        DType::Bf16 => each(bytes, |chunk| bf16::from_le_bytes(chunk).to_f64()),
        DType::F32 => each(bytes, |chunk| f32::from_le_bytes(chunk).into()),
        DType::F64 => each(bytes, f64::from_le_bytes),
    }
}

/// The values of whole elements or blocks.
pub(super) fn decode_element(element: Element, bytes: &[u8]) -> Vec<f64> {
    match element {
        Element::Scalar(dtype) => decode(dtype, bytes),
        Element::Block(format) => bytes
            .chunks(format.bytes)
            .filter_map(|block| format.decode(block))
            .flatten()
            .map(f64::from)
            .collect(),
    }
}

/// What fills guards and outputs: NaN with a payload that no computation makes; for
/// integers a byte pattern.
pub(super) fn poison(element: Element) -> Vec<u8> {
    match element {
        Element::Scalar(DType::F16) => 0x7ec5u16.to_le_bytes().to_vec(),
        Element::Scalar(DType::Bf16) => 0x7fc5u16.to_le_bytes().to_vec(),
        Element::Scalar(DType::F32) => 0x7fc5_c5c5u32.to_le_bytes().to_vec(),
        Element::Scalar(DType::F64) => 0x7ff8_c5c5_c5c5_c5c5u64.to_le_bytes().to_vec(),
        Element::Scalar(dtype) => vec![0xc5; dtype.bytes()],
        Element::Block(format) => block::poison(format),
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A value in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// An integer below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use phobos_artifact::format;

    use super::*;

    #[test]
    fn values_are_what_the_bytes_mean() {
        let data = Data::new(DType::F16, &[2], &[0.1, -70000.0]);
        assert_eq!(data.values, [f64::from(f16::from_f32(0.1)), f64::NEG_INFINITY]);
        assert_eq!(Data::new(DType::I8, &[2], &[-200.0, 7.9]).values, [-128.0, 7.0]);
        for dtype in DType::ALL {
            assert_eq!(Data::new(dtype, &[2], &[1.0, 0.0]).values, [1.0, 0.0], "{dtype}");
            assert_eq!(poison(Element::Scalar(dtype)).len(), dtype.bytes());
        }
    }

    #[test]
    fn poison_is_nan_wherever_there_is_one() {
        let scalars = [DType::F16, DType::Bf16, DType::F32, DType::F64].map(Element::Scalar);
        let formats = format::ALL.into_iter().chain(format::ACTIVATIONS);
        for element in scalars.into_iter().chain(formats.map(Element::Block)) {
            let values = decode_element(element, &poison(element));
            assert_eq!(values.len(), element.block_elements());
            assert!(values.iter().all(|value| value.is_nan()), "{element}");
        }
    }

    #[test]
    fn random_blocks_have_moderate_values() {
        for format in format::ALL.into_iter().chain(format::ACTIVATIONS) {
            let name = format.name;
            let data = Data::random(Element::Block(format), &[3, 256], &mut Random::new(1));
            assert_eq!(data.values.len(), 768);
            assert!(data.values.iter().all(|value| value.abs() < 13.0), "{name}");
            assert!(data.values.iter().any(|value| value.abs() > 0.05), "{name}");
        }
    }

    #[test]
    fn quantized_values_are_those_of_the_blocks() {
        for format in format::ACTIVATIONS {
            let values: Vec<f64> = (0..64).map(|at| f64::from(at) - 31.5).collect();
            let data = Data::quantized(format, &[2, 32], &values);
            assert_eq!((data.bytes.len(), data.values.len()), (2 * format.bytes, 64));
            let near = |(value, found): (&f64, &f64)| (value - found).abs() < 0.13;
            assert!(values.iter().zip(&data.values).all(near), "{}", format.name);
            assert!(Data::quantized(format, &[33], &[0.0; 33]).bytes.is_empty());
        }
        assert!(Data::quantized(format::ALL[0], &[32], &[0.0; 32]).bytes.is_empty());
    }
}
