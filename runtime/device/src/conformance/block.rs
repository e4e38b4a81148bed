//! Blocks of a format with chosen scales. The places of the scales are read from the
//! format's decode rule, so a new format needs nothing here.

use std::collections::BTreeSet;

use half::f16;
use phobos_artifact::format::{
    Expr, Format,
    activation::{HALF_SUMS, SCALE, SUM},
};

use super::data::Random;

/// `count` blocks of random bytes with scales in [0.01, 0.1); a 32nd of that where the
/// block multiplies them by integers of its own, so that values stay about as large. Of a
/// format of activations, whose blocks hold sums of their codes, encoded values in [-1, 1).
pub(super) fn random(format: &Format, count: usize, random: &mut Random) -> Vec<u8> {
    let values: Vec<f32> = match format.largest_code() {
        Some(_) => (0..count * format.elements).map(|_| random.between(-1.0, 1.0) as f32).collect(),
        None => Vec::new(),
    };
    if let Some(bytes) = format.quantize(&values) {
        return bytes;
    }
    let scales = scales(format);
    let unit = if leaves(format).any(|leaf| matches!(leaf, Expr::Byte(_) | Expr::SignedByte(_))) {
        1.0 / 32.0
    } else {
        1.0
    };
    let mut bytes = Vec::with_capacity(count * format.bytes);
    for _ in 0..count {
        let mut block: Vec<u8> = (0..format.bytes).map(|_| random.bits() as u8).collect();
        for offset in &scales {
            put(&mut block, *offset, f16::from_f64(unit * random.between(0.01, 0.1)));
        }
        bytes.extend(block);
    }
    bytes
}

/// One block all of whose elements are NaN, and the sums that it holds.
pub(super) fn poison(format: &Format) -> Vec<u8> {
    let mut block = vec![0xc5; format.bytes];
    if format.largest_code().is_some() {
        let header = [SCALE, SUM, HALF_SUMS[0], HALF_SUMS[1]];
        for offset in header {
            if let Some(bytes) = block.get_mut(offset..offset + 4) {
                bytes.copy_from_slice(&0x7fc5_c5c5u32.to_le_bytes());
            }
        }
    }
    for offset in scales(format) {
        put(&mut block, offset, f16::from_bits(0x7ec5));
    }
    block
}

fn put(block: &mut [u8], offset: usize, value: f16) {
    if let Some(bytes) = block.get_mut(offset..offset + 2) {
        bytes.copy_from_slice(&value.to_le_bytes());
    }
}

/// The offsets of the f16 scalars of a block.
fn scales(format: &Format) -> BTreeSet<usize> {
    leaves(format)
        .filter_map(|leaf| match leaf {
            Expr::F16(offset) => Some(*offset),
            _ => None,
        })
        .collect()
}

/// What the decode rule reads, and its constants.
fn leaves(format: &Format) -> impl Iterator<Item = &'static Expr> {
    let mut open: Vec<&'static Expr> = format.segments.iter().map(|segment| &segment.value).collect();
    std::iter::from_fn(move || {
        loop {
            let expr = open.pop()?;
            let before = open.len();
            open.extend(expr.operands());
            if open.len() == before {
                return Some(expr);
            }
        }
    })
}
