//! The oracle against values worked out by hand from SPEC.md.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use phobos_artifact::{DType, Element};
use phobos_fuzz::{
    data::encode,
    number::Number,
    oracle::{Bindings, Stop, memory::Memory, run},
};
use phobos_lang::{SourceFile, check, parse};

/// Runs a kernel over f32 tensors, in the order of its parameters, with one i32 scalar, and
/// gives the last tensor.
fn last(source: &str, tensors: &[(&[u64], &[f64])], scalar: i64) -> Result<Vec<f64>, Stop> {
    let text = SourceFile::new("k.ph", source);
    let kernel = check(&parse(&text).0, "k", &BTreeMap::new()).kernel.unwrap();
    let mut names = BTreeMap::new();
    let mut memory = Vec::new();
    for ((shape, values), tensor) in tensors.iter().zip(&kernel.tensors) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| encode(DType::F32, *value)).collect();
        memory.push(Memory::new(Element::Scalar(DType::F32), shape, &bytes));
        for (dim, extent) in tensor.dims.iter().zip(*shape) {
            names.insert(dim.to_string(), *extent);
        }
    }
    run(&kernel, &Bindings { names, scalars: vec![Number::Int(scalar)] }, &mut memory)?;
    let cells = &memory.last().unwrap().cells;
    Ok(cells.iter().map(|value| value.ends().map_or(f64::NAN, |(lo, hi)| (lo + hi) / 2.0)).collect())
}

const FIVE: (&[u64], &[f64]) = (&[5], &[1.0, 2.0, 4.0, 8.0, 16.0]);

#[test]
fn reductions_skip_what_lies_outside() {
    let source = "@grid(1) kernel k(X: tensor<f32>[N], Y: tensor<f32>[3], n: i32) {
        Y[0 :+ 1] = sum(X[0 :+ 8], 0)
        Y[1 :+ 1] = reduce_max(-X[0 :+ 8], 0)
        Y[2 :+ 1] = prod(X[7 :+ 8], 0) + f32(argmax(X[-1 :+ 8], 0))
    }";
    assert_eq!(last(source, &[FIVE, (&[3], &[9.0; 3])], 0).unwrap(), [31.0, -1.0, 1.0]);
}

#[test]
fn stores_write_what_is_valid_in_all_operands() {
    let source = "@grid(1) kernel k(X: tensor<f32>[N], Y: tensor<f32>[8], n: i32) {
        Y[0 :+ 8] = where(X[0 :+ 8] == X[0 :+ 8], 0.0, 0.0)
    }";
    let wanted = [0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0];
    assert_eq!(last(source, &[FIVE, (&[8], &[9.0; 8])], 0).unwrap(), wanted);
}

#[test]
fn a_slice_before_0_lies_outside_as_a_whole() {
    let source = "@grid(1) kernel k(X: tensor<f32>[N], Y: tensor<f32>[4], n: i32) {
        Y[0 :+ 4] = X[n :+ 4]
        Y[0 :+ 2] = X[n :+ 2] else 7.0
        Y[n :+ 4] = X[0 :+ 4]
    }";
    assert_eq!(last(source, &[FIVE, (&[4], &[9.0; 4])], -1).unwrap(), [7.0, 7.0, 9.0, 9.0]);
}

#[test]
fn insertions_write_zeros_and_keep_validity() {
    let source = "@grid(1) kernel k(X: tensor<f32>[N], Y: tensor<f32>[4], n: i32) {
        var t: tile<f32>[4] = 3.0
        t[1 :+ 3] = X[3 :+ 3]
        t[n :+ 4] = 5.0
        Y[0 :+ 4] = t
    }";
    assert_eq!(last(source, &[FIVE, (&[4], &[9.0; 4])], 3).unwrap(), [3.0, 8.0, 16.0, 5.0]);
    assert_eq!(last(source, &[FIVE, (&[4], &[9.0; 4])], -2).unwrap(), [3.0, 8.0, 16.0, 0.0]);
}

#[test]
fn axes_of_extent_1_keep_their_validity() {
    let source = "@grid(1) kernel k(X: tensor<f32>[1, 2, 3], Y: tensor<f32>[1, 1], n: i32) {
        Y[0 :+ 1, 0 :+ 1] = sum(X[0, 0 :+ 2, n :+ 1], 0)
    }";
    let x: (&[u64], &[f64]) = (&[1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(last(source, &[x, (&[1, 1], &[9.0])], 2).unwrap(), [9.0]);
    assert_eq!(last(source, &[x, (&[1, 1], &[9.0])], 3).unwrap(), [9.0]);
    // A point outside empties the first axis that is left, over which a sum is whole again.
    let source = source.replace("X[0, 0 :+ 2, n :+ 1]", "X[n, 0 :+ 2, 0 :+ 1]");
    assert_eq!(last(&source, &[x, (&[1, 1], &[9.0])], 0).unwrap(), [5.0]);
    assert_eq!(last(&source, &[x, (&[1, 1], &[9.0])], 1).unwrap(), [0.0]);
}

#[test]
fn products_leave_invalid_depths_out() {
    let source =
        "@grid(1) kernel k(X: tensor<f32>[1, 2], W: tensor<f32>[3, 2], Y: tensor<f32>[2, 4], n: i32) {
        Y[0 :+ 2, 0 :+ 4] = dot_t(X[0 :+ 2, 0 :+ 4], W[0 :+ 4, 0 :+ 4])
    }";
    let tensors: [(&[u64], &[f64]); 3] =
        [(&[1, 2], &[1.0, 10.0]), (&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), (&[2, 4], &[9.0; 8])];
    assert_eq!(last(source, &tensors, 0).unwrap(), [21.0, 43.0, 65.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
}

#[test]
fn loops_branches_and_points() {
    let source = "@grid(3) kernel k(X: tensor<f32>[N], Y: tensor<f32>[3], n: i32) {
        let p = program_id(0)
        var a: f32 = 0.0
        var i: i32 = 0
        while i < n {
            for j in range(p, N, 2) {
                a += X[j]
            }
            i += 1
        }
        if p == 1 {
            a = X[N] - 1.0
        }
        Y[p] = a
    }";
    assert_eq!(last(source, &[FIVE, (&[3], &[9.0; 3])], 2).unwrap(), [42.0, -1.0, 40.0]);
}

#[test]
fn what_two_programs_touch_is_refused() {
    let source = "@grid(2) kernel k(X: tensor<f32>[N], Y: tensor<f32>[3], n: i32) {
        Y[program_id(0) * n] = 1.0
    }";
    assert_eq!(last(source, &[FIVE, (&[3], &[9.0; 3])], 1).unwrap(), [1.0, 1.0, 9.0]);
    assert_eq!(last(source, &[FIVE, (&[3], &[9.0; 3])], 0), Err(Stop::Race));
    let read = source.replace("= 1.0", "= Y[2]");
    assert_eq!(last(&read, &[FIVE, (&[3], &[9.0; 3])], 2), Err(Stop::Race));
}

#[test]
fn what_is_not_specified_is_not_followed() {
    let source = "@grid(1) kernel k(X: tensor<f32>[N], Y: tensor<f32>[3], n: i32) {
        var t: tile<f32>[3]
        t[0 :+ 1] = 2.0
        Y[0 :+ 3] = t
        if Y[n] > 1.0 {
            Y[2] = 3.0
        }
    }";
    let found = last(source, &[FIVE, (&[3], &[9.0; 3])], 0).unwrap();
    assert!(found[0] == 2.0 && found[1].is_nan() && found[2] == 3.0);
    assert_eq!(last(source, &[FIVE, (&[3], &[9.0; 3])], 1), Err(Stop::Unspecified("a condition")));
}
