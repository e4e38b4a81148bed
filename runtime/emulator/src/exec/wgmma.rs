//! `wgmma`: each warp of four computes sixteen rows of a product of matrices in
//! shared memory (the left one may be in registers).
//!
//! A matrix in shared memory is described by a start, two byte offsets and a
//! swizzle. With `T` elements in 16 bytes and rows of `S` bytes (16 without a
//! swizzle), an element lies, before the swizzle of its address, at
//!
//! - k next to k: `start + mn/8 * stride + mn%8 * S + k`, and without a swizzle each
//!   16 bytes of k a leading offset on;
//! - mn next to mn: `start + mn%W + mn/W * leading + k%8 * S + k/8 * stride`, `W` being
//!   the elements of a row; without a swizzle the two offsets change places.

use super::{At, Executor, lanes_of, mma::MmaShape};
use crate::{
    decode::inst::{NONE, Wgmma, WgmmaLeft},
    machine::Cta,
    memory::race::Access,
    ptx::ast::Space,
    tensor_map::Swizzle,
};

/// A matrix descriptor.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    start: u64,
    leading: u64,
    stride: u64,
    swizzle: Swizzle,
}

impl Descriptor {
    fn of(bits: u64) -> Descriptor {
        let field = |at: u32| (bits >> at & 0x3fff) << 4;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        Descriptor { start: field(0), leading: field(16), stride: field(32), swizzle }
    }

    /// Where element (`mn`, `k`) of `bytes` bytes lies.
    fn place(&self, mn: u64, k: u64, bytes: u64, along_mn: bool) -> u64 {
        let span = self.swizzle.span();
        let plain = self.swizzle == Swizzle::None;
        let place = if along_mn {
            let width = span / bytes;
            let (outer, inner) =
                if plain { (self.stride, self.leading) } else { (self.leading, self.stride) };
            mn % width * bytes + mn / width * outer + k % 8 * span + k / 8 * inner
        } else {
            let k = k * bytes;
            let along = if plain { k / 16 * self.leading + k % 16 } else { k };
            mn / 8 * self.stride + mn % 8 * span + along
        };
        self.swizzle.apply(self.start + place)
    }
}

impl Executor<'_> {
    pub(super) fn warpgroup_multiply(&mut self, cta: &mut Cta, w: usize, members: u32, pc: u32, op: &Wgmma) {
        let (n, k) = (op.n as usize, op.k as usize);
        let at = At { warp: w, lane: members.trailing_zeros() as usize, pc };
        let bytes = u64::from(op.left.bits() / 8);
        let first = (w as u64 % 4) * 16;
        let mut left = vec![0.0; 16 * k];
        let (mut bad_rows, mut bad_columns) = ([false; 16], vec![false; n]);
        match &op.a {
            WgmmaLeft::Descriptor(slot) => {
                let descriptor = Descriptor::of(cta.warps[w].get(*slot, at.lane));
                for row in 0..16 {
                    for column in 0..k {
                        let place =
                            descriptor.place(first + row as u64, column as u64, bytes, op.left_along_m);
                        let (code, undefined) = self.matrix_element(cta, at, place, bytes as u8);
                        left[row * k + column] = op.left.value(code);
                        bad_rows[row] |= undefined;
                    }
                }
            }
            WgmmaLeft::Registers(slots) => {
                let per = op.left.per_register() as usize;
                for lane in 0..32 {
                    for (register, slot) in slots.iter().enumerate() {
                        let word = cta.warps[w].get(*slot, lane);
                        let undefined = cta.warps[w].undefined_bytes(*slot, lane) != 0;
                        for i in 0..per {
                            let row = lane / 4 + 8 * (register % 2);
                            let column = lane % 4 * per + i + 4 * per * (register / 2);
                            let code = word >> (op.left.bits() as usize * i);
                            left[row * k + column] = op.left.value(code);
                            bad_rows[row] |= undefined;
                        }
                    }
                }
            }
        }
        let descriptor = Descriptor::of(cta.warps[w].get(op.b, at.lane));
        let mut right = vec![0.0; n * k];
        for column in 0..n {
            for row in 0..k {
                let place = descriptor.place(column as u64, row as u64, bytes, op.right_along_n);
                let (code, undefined) = self.matrix_element(cta, at, place, bytes as u8);
                right[column * k + row] = op.right.value(code);
                bad_columns[column] |= undefined;
            }
        }
        let accumulate = match op.scale_d {
            (NONE, value) => value,
            (slot, negated) => cta.warps[w].predicate(slot, negated, 1 << at.lane) != 0,
        };
        let sign = if op.negate { -1.0 } else { 1.0 };
        let shape = MmaShape {
            m: 16,
            n: op.n,
            k: op.k,
            a: op.left,
            b: op.right,
            c: op.sum,
            d: op.sum,
            a_column: false,
            b_column: true,
            saturate: op.saturate,
            wmma: false,
        };
        let per = op.sum.per_register() as usize;
        for lane in lanes_of(members) {
            for (register, slot) in op.d.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
                let old = cta.warps[w].get(*slot, lane);
                let known = if accumulate { cta.warps[w].undefined_bytes(*slot, lane) } else { 0 };
                let (mut word, mut undefined) = (0, known);
                for part in 0..per {
                    let i = register * per + part;
                    let (row, column) = (lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2);
                    let shift = op.sum.bits() as usize * part;
                    let pairs = left[row * k..][..k].iter().zip(&right[column * k..][..k]);
                    let product: f64 = pairs.map(|(x, y)| x * y).sum();
                    let before = if accumulate { op.sum.value(old >> shift) } else { 0.0 };
                    word |= shape.encode(before + sign * product) << shift;
                    if bad_rows[row] || bad_columns[column] {
                        undefined |= (((1u16 << (op.sum.bits() / 8)) - 1) << (shift / 8)) as u8;
                    }
                }
                cta.warps[w].set_with(*slot, lane, word, if self.strict { undefined } else { 0 });
            }
        }
    }

    /// An element of a matrix in shared memory, and whether it is undefined.
    fn matrix_element(&mut self, cta: &mut Cta, at: At, place: u64, bytes: u8) -> (u64, bool) {
        if !self.check_range(cta, at, Space::Shared, place, bytes.into(), false) {
            return (0, false);
        }
        let (code, undefined) = self.read(cta, at, Space::Shared, place, bytes, Access::READ);
        (code, undefined != 0)
    }
}
