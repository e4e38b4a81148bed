//! What tensors hold before a launch.

use half::{bf16, f16};
use phobos_artifact::{DType, Element, format::Format};

use crate::{number::unsigned, random::Random};

/// How the elements of a tensor are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// The seed of the elements.
    pub seed: u64,
    /// Which values.
    pub values: Values,
}

/// Which values a tensor holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Small integers: sums and products of them are exact.
    Integers,
    /// Multiples of an eighth.
    Eighths,
    /// Anything from -2 to 2; for integers any bits.
    Spread,
    /// Small integers and edges: NaN, infinities, zeros, the least and greatest.
    Edges,
}

impl Fill {
    /// The bytes of a tensor, in the order of a file. An element depends on the seed and its
    /// place alone.
    pub fn bytes(self, element: Element, shape: &[u64]) -> Vec<u8> {
        let count = shape.iter().product::<u64>() as usize;
        match element {
            Element::Scalar(dtype) => (0..count).flat_map(|at| self.scalar(dtype, at)).collect(),
            Element::Block(format) => {
                (0..count / format.elements).flat_map(|at| self.block(format, at)).collect()
            }
        }
    }

    fn random(self, at: usize) -> Random {
        Random::new(self.seed ^ (at as u64).wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn scalar(self, dtype: DType, at: usize) -> Vec<u8> {
        let mut random = self.random(at);
        random.bits();
        let small = random.between(-6, 9) as f64;
        let value = match self.values {
            // Of unsigned types half the values have the highest bit set.
            Values::Integers
                if dtype.is_float() || random.chance(if unsigned(Some(dtype)) { 60 } else { 88 }) =>
            {
                small
            }
            Values::Integers => return bits(dtype, random.bits()),
            Values::Eighths => random.between(-24, 24) as f64 / 8.0,
            Values::Spread if dtype.is_float() => random.between(-2_000_000, 2_000_000) as f64 / 1e6,
            Values::Spread => return bits(dtype, random.bits()),
            Values::Edges if random.chance(70) => small,
            Values::Edges if dtype.is_float() => {
                let edges = [
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    0.0,
                    -0.0,
                    0.5,
                    -1.5,
                    2.5,
                    255.5,
                    300.0,
                    -129.0,
                    65504.0,
                    3e9,
                    -1e10,
                    1e-5,
                    88.0,
                ];
                *random.pick(&edges)
            }
            Values::Edges => {
                let edges =
                    [0, 1, u64::MAX, 1 << 63, u64::MAX >> 1, 1 << 31, (1 << 31) - 1, 128, 127, 1 << 15, 255];
                return bits(dtype, *random.pick(&edges));
            }
        };
        encode(dtype, value)
    }

    /// A block of random codes with scales in [1 / 64, 1 / 8), of which few bits are set.
    fn block(self, format: &Format, at: usize) -> Vec<u8> {
        let mut random = self.random(at);
        let values: Vec<f32> =
            (0..format.elements).map(|_| random.between(-128, 127) as f32 / 32.0).collect();
        if let Some(bytes) = format.quantize(&values) {
            return bytes;
        }
        let mut block: Vec<u8> = (0..format.bytes).map(|_| random.bits() as u8).collect();
        for piece in format.pieces().iter().filter(|piece| piece.bytes == 2) {
            // A K-quant multiplies it by integers of its own.
            let scale = random.between(8, 63) as f64 / 512.0 / if format.elements > 32 { 32.0 } else { 1.0 };
            if let Some(bytes) = block.get_mut(piece.offset..piece.offset + 2) {
                bytes.copy_from_slice(&f16::from_f64(scale).to_le_bytes());
            }
        }
        block
    }
}

/// The low bits as a value of an integer type.
fn bits(dtype: DType, bits: u64) -> Vec<u8> {
    if dtype == DType::Bool { vec![(bits & 1) as u8] } else { bits.to_le_bytes()[..dtype.bytes()].to_vec() }
}

/// A value in the bytes of a type: floats nearest, integers saturated.
pub fn encode(dtype: DType, value: f64) -> Vec<u8> {
    let nearest = crate::number::round(dtype, value);
    match dtype {
        DType::Bool => vec![u8::from(value > 0.0)],
        DType::I8 => (value as i8).to_le_bytes().to_vec(),
        DType::U8 => (value as u8).to_le_bytes().to_vec(),
        DType::I16 => (value as i16).to_le_bytes().to_vec(),
        DType::I32 => (value as i32).to_le_bytes().to_vec(),
        DType::U32 => (value as u32).to_le_bytes().to_vec(),
        DType::I64 => (value as i64).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(nearest).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(nearest).to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
    }
}
