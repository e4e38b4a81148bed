//! What is valid stays so, and nothing else becomes it: kernels on ragged tiles, run on the
//! host device, with places that must keep what they hold.
#![allow(clippy::unwrap_used)]

mod support;

use phobos_artifact::{DType, Element, HostLevel};
use phobos_device::{Buffer, Device, DeviceExt, HostDevice, Launch, Plain, Scalar, Tensor};
use support::{levels, request};

/// A tensor argument: its type and shape, and its content in the order of memory.
struct Data {
    dtype: DType,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

fn data<T: Plain>(dtype: DType, shape: &[u64], values: &[T]) -> Data {
    Data { dtype, shape: shape.to_vec(), bytes: phobos_device::as_bytes(values).to_vec() }
}

fn i32s(values: &[i32]) -> Data {
    data(DType::I32, &[values.len() as u64], values)
}

fn f32s(shape: &[u64], values: &[f32]) -> Data {
    data(DType::F32, shape, values)
}

/// Compiles the kernel `k` of `source` for every level that this CPU has, runs it, and checks
/// what it leaves in the tensor `Y`, which holds `before`.
fn check<T: Plain + PartialEq + std::fmt::Debug>(
    source: &str,
    inputs: &[(&str, &Data)],
    scalars: &[(&str, Scalar)],
    before: &Data,
    wanted: &[T],
) {
    for level in levels() {
        let artifact = phobos_driver::compile(&request(source, level))
            .unwrap_or_else(|failure| panic!("{failure}\n{source}"));
        let device = HostDevice::new(Some(1)).unwrap();
        let kernel = device.load(&artifact).unwrap();
        let tensor = |data: &Data| {
            let buffer: Buffer = device.upload(&data.bytes).unwrap();
            Tensor::of(&buffer, Element::Scalar(data.dtype), data.shape.clone()).unwrap()
        };
        let result = tensor(before);
        let inputs: Vec<_> = inputs.iter().map(|(name, data)| (*name, tensor(data))).collect();
        let mut launch = Launch::new(&kernel).tensor("Y", &result);
        for (name, tensor) in &inputs {
            launch = launch.tensor(name, tensor);
        }
        for (name, value) in scalars {
            launch = launch.scalar(name, *value);
        }
        launch.run(&device).unwrap();
        let mut got = wanted.to_vec();
        device.read_slice(&result.buffer, 0, &mut got).unwrap();
        assert_eq!(got, wanted, "{level:?}\n{source}");
    }
}

/// Expressions that are the same for every x were folded to constants, which are wholly valid.
#[test]
fn what_x_does_not_decide_is_as_valid_as_x() {
    for (expression, value) in [
        ("x - x", 0),
        ("x ^ x", 0),
        ("x / 0", 0),
        ("x + (-x)", 0),
        ("(x + 3) - x", 3),
        ("x * 0", 0),
        ("x & 0", 0),
        ("x | -1", -1),
        ("x % 1", 0),
        ("min(x, x) - x", 0),
        ("x >> 40", 0),
        ("where(x > 3, 4, 4)", 4),
        ("where(x == x, 5, x)", 5),
        ("where(x != x, x, 6)", 6),
        ("i32(x == x)", 1),
        ("i32(x < x)", 0),
        ("i32(x <= x)", 1),
        ("i32(bool(x) == bool(x))", 1),
        ("i32(x == 0 || x != 0)", 1),
        ("i32(x == 0 && x != 0)", 0),
        ("i32(f32(x) - f32(x))", 0),
        ("where(f32(x) > 0.0, 1, 1)", 1),
    ] {
        let source = format!(
            "@grid(1)
kernel k(X: tensor<i32>[N], Y: tensor<i32>[M]) {{
  let x = X[0 :+ 8]
  Y[0 :+ 8] = {expression}
  Y[8 :+ 1] = sum({expression}, 0)
}}"
        );
        let wanted: Vec<i32> = [value; 5].into_iter().chain([9; 3]).chain([5 * value]).collect();
        check(&source, &[("X", &i32s(&[1, 2, 3, 4, 5]))], &[], &i32s(&[9; 9]), &wanted);
    }
}

/// What one of two tiles cancels still cuts the result.
#[test]
fn a_tile_that_cancels_still_cuts() {
    for expression in ["(x + z) - z", "(x - z) + z", "(x ^ z) ^ z", "where(z > 0, x, x)", "x + (z - z)"] {
        let source = format!(
            "@grid(1)
kernel k(X: tensor<i32>[N], Z: tensor<i32>[P], Y: tensor<i32>[M]) {{
  let x = X[0 :+ 8]
  let z = Z[0 :+ 8]
  Y[0 :+ 8] = {expression}
}}"
        );
        let (x, z) = (i32s(&[1, 2, 3, 4, 5, 6, 7]), i32s(&[3, -1, 4]));
        check(&source, &[("X", &x), ("Z", &z)], &[], &i32s(&[9; 8]), &[1, 2, 3, 9, 9, 9, 9, 9]);
    }
}

/// A sum counted the lanes beyond the tensor's end.
#[test]
fn counting_by_a_comparison() {
    let source = "@grid(1)
kernel k(X: tensor<i32>[N], Y: tensor<i32>[1]) {
  var n: tile<i32>[1] = 0
  for i in range(0, N, 8) {
    let x = X[i :+ 8]
    n += sum(i32(x == x), 0)
  }
  Y[0 :+ 1] = n
}";
    for count in [1, 7, 8, 9, 13] {
        check(source, &[("X", &i32s(&vec![7; count]))], &[], &i32s(&[0]), &[count as i32]);
    }
}

/// A branch between tiles became a select, which is valid only where both are.
#[test]
fn a_branch_is_as_valid_as_the_way_it_took() {
    let source = "@grid(1)
kernel k(X: tensor<i32>[N], Z: tensor<i32>[P], Y: tensor<i32>[M], n: i32) {
  let x = X[0 :+ 8]
  let z = Z[0 :+ 8]
  var y = x
  if n > 3 {
    y = z
  }
  Y[0 :+ 8] = y
}";
    let (x, z) = (i32s(&[1, 2, 3, 4, 5]), i32s(&[11, 12, 13]));
    for (n, wanted) in [(0, [1, 2, 3, 4, 5, 9, 9, 9]), (4, [11, 12, 13, 9, 9, 9, 9, 9])] {
        check(source, &[("X", &x), ("Z", &z)], &[("n", n.into())], &i32s(&[9; 8]), &wanted);
    }
}

/// Branches in branches became one with a select.
#[test]
fn nested_branches() {
    let source = "@grid(1)
kernel k(X: tensor<i32>[N], Z: tensor<i32>[P], Y: tensor<i32>[M], n: i32) {
  let x = X[0 :+ 8]
  let z = Z[0 :+ 8]
  var y = x
  if n > 3 {
    if n > 5 {
      y = z
    }
  }
  Y[0 :+ 8] = y
}";
    let (x, z) = (i32s(&[1, 2, 3, 4, 5]), i32s(&[11, 12, 13]));
    let (first, second) = ([1, 2, 3, 4, 5, 9, 9, 9], [11, 12, 13, 9, 9, 9, 9, 9]);
    for (n, wanted) in [(0, first), (4, first), (6, second)] {
        check(source, &[("X", &x), ("Z", &z)], &[("n", n.into())], &i32s(&[9; 8]), &wanted);
    }
}

/// With a branch whose way is known when it is compiled, and a loop of one iteration.
#[test]
fn control_flow_that_folds() {
    let source = "@autotune(T in [8])
@grid(1)
kernel k(X: tensor<i32>[N], Y: tensor<i32>[M]) {
  let x = X[0 :+ 8]
  var y: tile<i32>[8] = 1
  if T == 8 {
    y = x - x
  }
  for i in range(0, T, 8) {
    y = y + (x ^ x)
  }
  Y[0 :+ 8] = y
}";
    check(source, &[("X", &i32s(&[1, 2, 3]))], &[], &i32s(&[9; 8]), &[0, 0, 0, 9, 9, 9, 9, 9]);
}

/// An axis of extent 1 that is kept keeps its own validity when the axis of a point goes.
#[test]
fn a_unit_axis_stays_invalid_beside_a_point() {
    // The slice and the axis that it is summed along; whether the other axis is outside.
    for (slice, axis, kept) in [
        ("X[0, 0 :+ 2, n :+ 1]", 0, false),
        ("X[0, 0 :+ 2, n :+ 1]", 1, true),
        ("X[0, 0 :+ 1, n :+ 1]", 0, false),
        ("X[0, 0 :+ 1, n :+ 1]", 1, true),
        ("X[0, n :+ 1, 0 :+ 1]", 0, true),
        ("X[0, n :+ 1, 0 :+ 1]", 1, false),
        ("X[0 :+ 1, n :+ 1, 0]", 0, false),
        ("X[0 :+ 1, n :+ 1, 0]", 1, true),
        ("X[n :+ 1, 0 :+ 1, 0]", 0, true),
        ("X[n :+ 1, 0 :+ 1, 0]", 1, false),
        ("X[0 :+ 1, 0, n :+ 1]", 0, false),
        ("X[0 :+ 1, 0, n :+ 1]", 1, true),
        // A point outside empties the first axis.
        ("X[n, 0 :+ 1, 0 :+ 1]", 0, true),
        ("X[n, 0 :+ 1, 0 :+ 1]", 1, false),
        ("X[0 :+ 1, 0 :+ 1, n]", 0, true),
        ("X[0 :+ 1, 0 :+ 1, n]", 1, false),
    ] {
        let source = format!(
            "@grid(1)
kernel k(X: tensor<f32>[R, P, Q], Y: tensor<f32>[2, 2], n: i32) {{
  Y[0 :+ 1, 0 :+ 1] = sum({slice}, {axis})[0 :+ 1, 0 :+ 1]
}}"
        );
        let x = f32s(&[3, 3, 3], &[1.0; 27]);
        // An empty sum is 0; where the other axis is empty nothing is stored.
        let first = if kept { 0.0f32 } else { -1.0 };
        let before = f32s(&[2, 2], &[-1.0; 4]);
        check(&source, &[("X", &x)], &[("n", 3.into())], &before, &[first, -1.0, -1.0, -1.0]);
    }
}

/// The same of a product, and through a loop that carries it.
#[test]
fn a_product_beside_a_point() {
    let source = "@grid(1)
kernel k(A: tensor<f32>[2, 8], D: tensor<f32>[R, P, Q], Y: tensor<f32>[2, 1], n: i32, times: i32) {
  var d = D[0, 0 :+ 8, 0 :+ 1]
  for i in range(times) {
    d = D[0, 0 :+ 8, n :+ 1]
  }
  Y[0 :+ 2, 0 :+ 1] = dot(A[:, :], d)
}";
    let (a, d) = (f32s(&[2, 8], &[1.0; 16]), f32s(&[1, 8, 3], &[2.0; 24]));
    for (n, times, wanted) in [(3, 1, -1.0f32), (3, 0, 16.0), (2, 1, 16.0)] {
        let scalars = [("n", Scalar::from(n)), ("times", times.into())];
        check(source, &[("A", &a), ("D", &d)], &scalars, &f32s(&[2, 1], &[-1.0; 2]), &[wanted; 2]);
    }
}

/// The absolute value of an unsigned integer is itself, in tiles and scalars.
#[test]
fn functions_of_unsigned_integers() {
    let source = "@grid(1)
kernel k(X: tensor<u8>[8], Y: tensor<u8>[8]) {
  Y[:] = max(abs(X[:]), min(X[:], abs(X[0])))
}";
    let values = [1u8, 127, 128, 200, 255, 0, 129, 254];
    let unsigned = |values: &[u8]| data(DType::U8, &[values.len() as u64], values);
    check(source, &[("X", &unsigned(&values))], &[], &unsigned(&[9; 8]), &values);
    let source = "@grid(1)
kernel k(X: tensor<u32>[2], Y: tensor<u32>[4], a: u32) {
  Y[0 :+ 2] = abs(X[:])
  Y[2] = abs(a)
  Y[3] = abs(X[0])
}";
    let values = [4_294_967_294u32, 2_147_483_648];
    let wide = |values: &[u32]| data(DType::U32, &[values.len() as u64], values);
    let wanted = [values[0], values[1], values[0], values[0]];
    check(source, &[("X", &wide(&values))], &[("a", values[0].into())], &wide(&[9; 4]), &wanted);
}

/// A parameter that a caller fixes is held to the kernel's conditions.
#[test]
fn a_fixed_parameter_keeps_the_conditions() {
    let attention = include_str!("../../models/kernels/attention.ph");
    let mut request = request(attention, HostLevel::V3);
    request.kernel = "attention".into();
    request.elements = [("T", DType::F32), ("B", DType::F32)]
        .map(|(name, dtype)| (name.to_owned(), Element::Scalar(dtype)))
        .into();
    request.dims = [("D".to_owned(), 64)].into();
    for (value, fits) in [(64, true), (128, false)] {
        request.params = [("TILE_Q".to_owned(), value)].into();
        let outcome = phobos_driver::compile(&request);
        assert_eq!(outcome.is_ok(), fits, "{value}");
        if let Err(failure) = outcome {
            assert!(failure.0.rendered.contains("conditions"), "{failure}");
        }
    }
}
