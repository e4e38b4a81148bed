//! What atomics compute.

use crate::{
    decode::{inst::AtomicOp, types::Ty},
    number::{BF16, F16, Round, bf16_to_f32, f16_to_f32, narrow, odd},
};

/// Whether the ISA has an operation at a type.
pub fn legal(op: AtomicOp, ty: Ty) -> bool {
    use AtomicOp::{Add, And, Cas, Decrement, Exchange, Increment, Max, Min, Or, Xor};
    match ty {
        Ty::B16 => op == Cas,
        Ty::B128 => matches!(op, Cas | Exchange),
        Ty::B32 | Ty::B64 => matches!(op, And | Or | Xor | Cas | Exchange),
        Ty::U32 => matches!(op, Add | Increment | Decrement | Min | Max),
        Ty::U64 | Ty::S32 | Ty::S64 => matches!(op, Add | Min | Max),
        Ty::F32 | Ty::F64 | Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 => op == Add,
        _ => false,
    }
}

/// Whether the ISA has an operation on vectors of `count` elements of a type.
pub fn legal_vector(op: AtomicOp, ty: Ty, count: usize) -> bool {
    use AtomicOp::{Add, Max, Min};
    match ty {
        Ty::F32 => op == Add && count <= 4,
        Ty::F16x2 | Ty::Bf16x2 => matches!(op, Add | Min | Max) && count <= 4,
        Ty::F16 | Ty::Bf16 => matches!(op, Add | Min | Max),
        _ => false,
    }
}

/// The smaller or larger of two halves; a NaN gives way to a number.
fn choose_half(a: u16, b: u16, bf: bool, largest: bool) -> u16 {
    let read = |code| if bf { bf16_to_f32(code) } else { f16_to_f32(code) };
    let (x, y) = (read(a), read(b));
    if x.is_nan() || y.is_nan() {
        return if !y.is_nan() {
            b
        } else if !x.is_nan() {
            a
        } else {
            0x7fff
        };
    }
    // Zeros compare by sign.
    let first = x < y || (x == y && x.is_sign_negative());
    if first != largest { a } else { b }
}

fn halves(ty: Ty, old: u64, b: u64, f: impl Fn(u16, u16, bool) -> u16) -> u64 {
    let bf = matches!(ty, Ty::Bf16 | Ty::Bf16x2);
    let low = u64::from(f(old as u16, b as u16, bf));
    if matches!(ty, Ty::F16x2 | Ty::Bf16x2) {
        low | u64::from(f((old >> 16) as u16, (b >> 16) as u16, bf)) << 16
    } else {
        low
    }
}

fn add_half(a: u16, b: u16, bf: bool) -> u16 {
    let read = |code| f64::from(if bf { bf16_to_f32(code) } else { f16_to_f32(code) });
    narrow(odd::add(read(a), read(b)), if bf { BF16 } else { F16 }, Round::NearestEven) as u16
}

/// The new value of memory that holds `old`.
pub fn apply(op: AtomicOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    let mask = if ty.bytes() >= 8 { u64::MAX } else { (1 << (ty.bytes() * 8)) - 1 };
    let signed = |v: u64| if ty == Ty::S32 { i64::from(v as u32 as i32) } else { v as i64 };
    let (old, b, c) = (old & mask, b & mask, c & mask);
    let new = match op {
        AtomicOp::And => old & b,
        AtomicOp::Or => old | b,
        AtomicOp::Xor => old ^ b,
        AtomicOp::Exchange => b,
        AtomicOp::Cas => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomicOp::Increment => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Decrement => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        AtomicOp::Min | AtomicOp::Max if ty.float() => {
            halves(ty, old, b, |a, b, bf| choose_half(a, b, bf, op == AtomicOp::Max))
        }
        AtomicOp::Min if ty.signed() => signed(old).min(signed(b)) as u64,
        AtomicOp::Max if ty.signed() => signed(old).max(signed(b)) as u64,
        AtomicOp::Min => old.min(b),
        AtomicOp::Max => old.max(b),
        AtomicOp::Add => match ty {
            Ty::F32 => {
                let sum = f32::from_bits(old as u32) + f32::from_bits(b as u32);
                u64::from(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() })
            }
            Ty::F64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
            Ty::F16 | Ty::Bf16 | Ty::F16x2 | Ty::Bf16x2 => halves(ty, old, b, add_half),
            _ => old.wrapping_add(b),
        },
    };
    new & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_counters() {
        assert_eq!(apply(AtomicOp::Increment, Ty::U32, 7, 7, 0), 0);
        assert_eq!(apply(AtomicOp::Increment, Ty::U32, 6, 7, 0), 7);
        assert_eq!(apply(AtomicOp::Decrement, Ty::U32, 0, 7, 0), 7);
        assert_eq!(apply(AtomicOp::Decrement, Ty::U32, 9, 7, 0), 7);
        assert_eq!(apply(AtomicOp::Decrement, Ty::U32, 3, 7, 0), 2);
    }

    #[test]
    fn signs_and_halves() {
        assert_eq!(apply(AtomicOp::Min, Ty::S32, 5, 0xffff_ffff, 0), 0xffff_ffff);
        assert_eq!(apply(AtomicOp::Min, Ty::U32, 5, 0xffff_ffff, 0), 5);
        assert_eq!(apply(AtomicOp::Max, Ty::S64, 5, u64::MAX, 0), 5);
        assert_eq!(apply(AtomicOp::Add, Ty::F16x2, 0x3c00_4000, 0x3c00_c000, 0), 0x4000_0000);
        assert_eq!(apply(AtomicOp::Add, Ty::U32, 0xffff_ffff, 1, 0), 0);
    }
}
