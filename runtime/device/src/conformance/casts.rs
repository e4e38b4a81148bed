//! Conversions between every two scalar types: float to integer truncates, saturates and
//! gives 0 for NaN; integers wrap; to `bool` is `!= 0`; floats round to nearest even.

use half::{bf16, f16};
use phobos_artifact::{DType, Element};

use super::{
    case::{Case, Tolerance},
    data::{Data, Random},
};

const SOURCE: &str = "@autotune(TILE in [32])
kernel cast[A: dtype, B: dtype](X: tensor<A>[N], Y: tensor<B>[N]) {
  let i = program_id(0) * TILE
  Y[i :+ TILE] = B(X[i :+ TILE])
}
";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut random = Random::new(2);
    for from in DType::ALL {
        for to in DType::ALL.into_iter().filter(|to| *to != from) {
            for n in [17, 33] {
                let x = Data::new(from, &[n], &values(from, n as usize, &mut random));
                let wanted = x.values.iter().map(|value| convert(*value, from, to)).collect();
                cases.push(
                    Case::new(format!("cast {from} to {to}"), SOURCE, "cast")
                        .element("A", Element::Scalar(from))
                        .element("B", Element::Scalar(to))
                        .input("X", &x)
                        .typed_output("Y", to, &[n], wanted, Tolerance::EXACT),
                );
            }
        }
    }
    cases
}

fn values(from: DType, count: usize, random: &mut Random) -> Vec<f64> {
    let special: &[f64] = match from {
        DType::Bool => &[0.0, 1.0],
        _ if from.is_float() => &[
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.75,
            300.0,
            -300.0,
            40000.0,
            1e10,
            -1e10,
            3e20,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ],
        // Integers saturate when they are encoded, so these are the extremes as well.
        _ => &[0.0, 1.0, -1.0, 127.0, 128.0, -129.0, 255.0, 40000.0, 70000.0, 3e9, -3e9, 1e15],
    };
    let drawn = (0..).map(|_| if from == DType::Bool { 1.0 } else { random.between(-200.0, 200.0) });
    special.iter().copied().chain(drawn).take(count).collect()
}

/// The value in `to` of `value`, which is exact in `from`.
fn convert(value: f64, from: DType, to: DType) -> f64 {
    if to == DType::Bool {
        return f64::from(u8::from(value != 0.0));
    }
    if from.is_float() || to.is_float() {
        return match to {
            DType::F16 => f16::from_f64(value).to_f64(),
            DType::Bf16 => bf16::from_f64(value).to_f64(),
            DType::F32 => f64::from(value as f32),
            DType::F64 => value,
            _ => saturate(value, to),
        };
    }
    let value = value as i64;
    match to {
        DType::I8 => f64::from(value as i8),
        DType::U8 => f64::from(value as u8),
        DType::I16 => f64::from(value as i16),
        DType::I32 => f64::from(value as i32),
        DType::U32 => f64::from(value as u32),
        _ => value as f64,
    }
}

/// Rust's `as` from floats is the language's rule.
fn saturate(value: f64, to: DType) -> f64 {
    match to {
        DType::I8 => f64::from(value as i8),
        DType::U8 => f64::from(value as u8),
        DType::I16 => f64::from(value as i16),
        DType::I32 => f64::from(value as i32),
        DType::U32 => f64::from(value as u32),
        _ => (value as i64) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions() {
        assert_eq!(convert(300.0, DType::F32, DType::I8), 127.0);
        assert_eq!(convert(300.0, DType::I32, DType::I8), 44.0);
        assert_eq!(convert(f64::NAN, DType::F32, DType::I32), 0.0);
        assert_eq!(convert(-1.0, DType::I8, DType::U32), 4_294_967_295.0);
        assert_eq!(convert(-1.5, DType::F64, DType::U8), 0.0);
        assert_eq!(convert(f64::NAN, DType::F32, DType::Bool), 1.0);
        assert_eq!(convert(70000.0, DType::I32, DType::F16), f64::INFINITY);
        assert_eq!(convert(16_777_217.0, DType::I32, DType::F32), 16_777_216.0);
    }
}
