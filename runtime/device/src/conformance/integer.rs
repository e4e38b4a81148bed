//! Integer arithmetic: wrapping, division by zero, shifts and bits.

use phobos_artifact::DType;

use super::{
    case::{Case, Tolerance},
    data::Data,
    elementwise::{binary, binary_source, unary, unary_source},
};

struct Op {
    name: &'static str,
    text: &'static str,
    wanted: fn(i32, i32) -> i32,
}

const OPS: &[Op] = &[
    Op { name: "i32 add", text: "a + b", wanted: i32::wrapping_add },
    Op { name: "i32 sub", text: "a - b", wanted: i32::wrapping_sub },
    Op { name: "i32 mul", text: "a * b", wanted: i32::wrapping_mul },
    // Truncates; x / 0 is 0.
    Op { name: "i32 div", text: "a / b", wanted: |a, b| if b == 0 { 0 } else { a.wrapping_div(b) } },
    // The sign of the dividend; x % 0 is x.
    Op { name: "i32 rem", text: "a % b", wanted: |a, b| if b == 0 { a } else { a.wrapping_rem(b) } },
    Op { name: "i32 min", text: "min(a, b)", wanted: |a, b| a.min(b) },
    Op { name: "i32 max", text: "max(a, b)", wanted: |a, b| a.max(b) },
    Op { name: "i32 and", text: "a & b", wanted: |a, b| a & b },
    Op { name: "i32 or", text: "a | b", wanted: |a, b| a | b },
    Op { name: "i32 xor", text: "a ^ b", wanted: |a, b| a ^ b },
    Op { name: "i32 shl", text: "a << (b & 63)", wanted: |a, b| shift_left(a, b & 63) },
    Op { name: "i32 shr", text: "a >> (b & 63)", wanted: |a, b| a >> (b & 63).min(31) },
    Op {
        name: "i32 where",
        text: "where(a < b, a, b + 1)",
        wanted: |a, b| if a < b { a } else { b.wrapping_add(1) },
    },
];

fn shift_left(a: i32, by: i32) -> i32 {
    if by >= 32 { 0 } else { a.wrapping_shl(by as u32) }
}

/// Values with all signs, zeros, the extremes, and no overflowing quotient.
const A: [i32; 17] =
    [0, 1, -1, 7, -7, 7, -7, i32::MAX, i32::MIN, 123_456_789, -123_456_789, 5, 1 << 30, 3, -8, i32::MAX, 9];
const B: [i32; 17] = [0, 0, 0, 2, 2, -2, -2, 3, 5, 1000, -1000, 40, 4, 63, 33, i32::MAX, 31];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in OPS {
        let source = binary_source("i32", op.text);
        for n in [1usize, 17, 33] {
            let a: Vec<i32> = A.iter().copied().cycle().take(n).collect();
            let b: Vec<i32> = B.iter().copied().cycle().take(n).collect();
            let wanted = a.iter().zip(&b).map(|(a, b)| f64::from((op.wanted)(*a, *b))).collect();
            let data = |values: &[i32]| {
                let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                Data::new(DType::I32, &[n as u64], &values)
            };
            let (a, b) = (data(&a), data(&b));
            cases.push(binary(op.name, &source, DType::I32, &a, &b, wanted, Tolerance::EXACT));
        }
    }
    for (name, text, wanted) in [
        ("i32 neg", "-a", (|a: i32| a.wrapping_neg()) as fn(i32) -> i32),
        ("i32 not", "~a", |a| !a),
        ("i32 abs", "abs(a)", i32::wrapping_abs),
    ] {
        let values: Vec<f64> = A.iter().map(|value| f64::from(*value)).collect();
        let a = Data::new(DType::I32, &[17], &values);
        let wanted = A.iter().map(|a| f64::from(wanted(*a))).collect();
        cases.push(unary(name, &unary_source("i32", text), DType::I32, &a, wanted, Tolerance::EXACT));
    }
    // 64 bits are kept: the product needs 62.
    let a = Data::new(DType::I64, &[3], &[2f64.powi(31) - 1.0, -3.0, 2f64.powi(40)]);
    let b = Data::new(DType::I64, &[3], &[2f64.powi(21), 5.0, 4096.0]);
    let wanted = a.values.iter().zip(&b.values).map(|(a, b)| a * b).collect();
    let source = binary_source("i64", "a * b");
    cases.push(binary("i64 mul", &source, DType::I64, &a, &b, wanted, Tolerance::EXACT));
    cases
}
