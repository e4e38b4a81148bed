//! Blocks of a format with chosen scales. The places of the scales are read from the
//! format's decode rule, so a new format needs nothing here.

use half::f16;
use phobos_artifact::format::{Expr, Format};

use super::data::Random;

/// `count` blocks of random bytes with scales in [0.01, 0.1).
pub(super) fn random(format: &Format, count: usize, random: &mut Random) -> Vec<u8> {
    let scales = scales(format);
    let mut bytes = Vec::with_capacity(count * format.bytes);
    for _ in 0..count {
        let mut block: Vec<u8> = (0..format.bytes).map(|_| random.bits() as u8).collect();
        for offset in &scales {
            put(&mut block, *offset, f16::from_f64(random.between(0.01, 0.1)));
        }
        bytes.extend(block);
    }
    bytes
}

/// One block all of whose elements are NaN.
pub(super) fn poison(format: &Format) -> Vec<u8> {
    let mut block = vec![0xc5; format.bytes];
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
fn scales(format: &Format) -> Vec<usize> {
    fn visit(expr: &Expr, found: &mut Vec<usize>) {
        match expr {
            Expr::F16(offset) => found.push(*offset),
            Expr::Bytes(_) | Expr::SignedBytes(_) | Expr::Int(_) => {}
            Expr::Shr(a, _) | Expr::ToFloat(a) => visit(a, found),
            Expr::And(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) | Expr::Add(a, b) => {
                visit(a, found);
                visit(b, found);
            }
        }
    }
    let mut found = Vec::new();
    format.segments.iter().for_each(|segment| visit(&segment.value, &mut found));
    found.sort_unstable();
    found.dedup();
    found
}
