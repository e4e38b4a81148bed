//! Kernels that the compiler once computed wrongly, run on the host device.
#![allow(clippy::unwrap_used)]

mod support;

use half::{bf16, f16};
use phobos_artifact::{DType, Element};
use phobos_device::{Device, DeviceExt, HostDevice, Launch, Plain, Scalar, Tensor};
use support::{levels, request};

/// Compiles the only kernel of `source` for every level that this CPU has, runs it, and
/// checks what it leaves in the tensor `out`.
fn check<T: Plain + PartialEq + std::fmt::Debug>(
    source: &str,
    inputs: &[(&str, Input<'_>)],
    out: (&str, DType, &[T], &[T]),
) {
    let levels = levels();
    for level in levels {
        let request = request(source, level);
        let artifact = phobos_driver::compile(&request).unwrap_or_else(|failure| panic!("{failure}"));
        let device = HostDevice::new(Some(1)).unwrap();
        let kernel = device.load(&artifact).unwrap();
        let (out_name, dtype, initial, expected) = out;
        let tensor = |dtype, bytes: &[u8], count: usize| {
            let buffer = device.upload(bytes).unwrap();
            Tensor::of(&buffer, Element::Scalar(dtype), [count as u64]).unwrap()
        };
        let result = tensor(dtype, phobos_device::as_bytes(initial), initial.len());
        let mut tensors = vec![(out_name, result.clone())];
        let mut launch = Launch::new(&kernel);
        for (name, input) in inputs {
            match input {
                Input::F32(data) => {
                    tensors.push((name, tensor(DType::F32, phobos_device::as_bytes(data), data.len())));
                }
                Input::F64(data) => {
                    tensors.push((name, tensor(DType::F64, phobos_device::as_bytes(data), data.len())));
                }
                Input::I32(data) => {
                    tensors.push((name, tensor(DType::I32, phobos_device::as_bytes(data), data.len())));
                }
                Input::Scalar(value) => launch = launch.scalar(name, *value),
            }
        }
        for (name, tensor) in &tensors {
            launch = launch.tensor(name, tensor);
        }
        launch.run(&device).unwrap();
        let mut got = expected.to_vec();
        device.read_slice(&result.buffer, 0, &mut got).unwrap();
        assert_eq!(got, expected, "{level:?}");
    }
}

enum Input<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I32(&'a [i32]),
    Scalar(Scalar),
}

fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|value| value as f32).collect()
}

/// A carried tile that takes a slice of another: the other's buffer was overwritten first.
#[test]
fn a_carried_tile_from_a_slice_of_another() {
    let source = "
@grid(1)
kernel k(A: tensor<f32>[8], B: tensor<f32>[4]) {
  var a = A[0 :+ 8]
  var b: tile<f32>[4] = 0.0
  for i in range(3) {
    b = a[4 :+ 4]
    a = a * 2.0
  }
  B[0 :+ 4] = b
}";
    check(
        source,
        &[("A", Input::F32(&counting(8)))],
        ("B", DType::F32, &[0.0f32; 4], &[16.0, 20.0, 24.0, 28.0]),
    );
}

/// A carried tile that becomes a view of itself: it was copied onto itself element by element.
#[test]
fn a_carried_tile_from_its_own_transpose() {
    let source = "
@grid(1)
kernel k(A: tensor<f32>[16], C: tensor<f32>[16]) {
  var a = reshape(A[0 :+ 16], [4, 4])
  for i in range(3) {
    a = transpose(a)
  }
  C[0 :+ 16] = reshape(a, [16])
}";
    let expected: Vec<f32> = (0..16).map(|at| (at % 4 * 4 + at / 4) as f32).collect();
    check(source, &[("A", Input::F32(&counting(16)))], ("C", DType::F32, &[0.0f32; 16], &expected));
}

/// Slices of a tile that start before it read and wrote outside of its memory.
#[test]
fn slices_of_a_tile_stay_inside() {
    let source = "
@grid(1)
kernel k(A: tensor<f32>[8], C: tensor<f32>[12], at: i32) {
  var a = A[0 :+ 8]
  C[8 :+ 4] = a[at :+ 4]
  a[at :+ 4] = f32(iota([4], 0)) + 100.0
  C[0 :+ 8] = a
}";
    let all = |text: &[f32]| text.to_vec();
    for (at, expected) in [
        (0, all(&[100.0, 101.0, 102.0, 103.0, 4.0, 5.0, 6.0, 7.0, 0.0, 1.0, 2.0, 3.0])),
        (6, all(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0, 101.0, 6.0, 7.0, -1.0, -1.0])),
        (9, all(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -1.0, -1.0, -1.0, -1.0])),
        (-1, all(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -1.0, -1.0, -1.0, -1.0])),
        (i32::MIN, all(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -1.0, -1.0, -1.0, -1.0])),
    ] {
        let inputs = [("A", Input::F32(&counting(8))), ("at", Input::Scalar(at.into()))];
        check(source, &inputs, ("C", DType::F32, &[-1.0f32; 12], &expected));
    }
}

/// Integer operations that fold to a constant tile did not compile.
#[test]
fn constant_tiles() {
    let source = "
@grid(1)
kernel k(A: tensor<i32>[16], C: tensor<f32>[16]) {
  let a = A[0 :+ 16]
  C[0 :+ 16] = where(a == a, f32((a ^ a) + 3), 1.0)
}";
    check(source, &[("A", Input::I32(&[7; 16]))], ("C", DType::F32, &[0.0f32; 16], &[3.0; 16]));
}

/// Nested loops that copy within scratch became calls of memmove.
#[test]
fn copies_within_scratch() {
    let source = "
@grid(1)
kernel k(A: tensor<f32>[64], B: tensor<f32>[16], n: i32) {
  var i: i32 = 0
  var a = A[0 :+ 16]
  while i < n {
    var j: i32 = 0
    while j < i {
      a = a + A[j :+ 16]
      j += 1
    }
    if i > 3 {
      a = A[i :+ 16]
    } else {
      a = a * 2.0
    }
    i += 1
  }
  B[0 :+ 16] = a
}";
    let a = counting(64);
    let mut expected: Vec<f32> = a[..16].to_vec();
    for i in 0..6usize {
        for lane in 0..16 {
            let sum: f32 = expected[lane] + (0..i).map(|j| a[j + lane]).sum::<f32>();
            expected[lane] = if i > 3 { a[i + lane] } else { sum * 2.0 };
        }
    }
    let inputs = [("A", Input::F32(&a)), ("n", Input::Scalar(6i32.into()))];
    check(source, &inputs, ("B", DType::F32, &[0.0f32; 16], &expected));
}

/// Half types are moved as bits, also by masked accesses, and rounded once.
#[test]
fn half_types_are_rounded_once() {
    // Just above and below the middle of two bf16 and of two f16 values: f32 would make it even.
    let middle = 1.0 + 1.0 / 256.0;
    let wide =
        [middle, middle + 1e-12, middle - 1e-12, f64::NAN, f64::INFINITY, 1e300, -1e-300, -middle - 1e-12];
    let source = |ty: &str| {
        format!(
            "
kernel k(A: tensor<f64>[N], C: tensor<{ty}>[N]) {{
  C[program_id(0) * 16 :+ 16] = {ty}(A[program_id(0) * 16 :+ 16])
}}"
        )
    };
    let inputs = [("A", Input::F64(&wide))];
    let bits: Vec<u16> = [0x3f80, 0x3f81, 0x3f80, 0x7fc0, 0x7f80, 0x7f80, 0x8000, 0xbf81].to_vec();
    check(&source("bf16"), &inputs, ("C", DType::Bf16, &[0u16; 8], &bits));
    let middle = 1.0 + 1.0 / 2048.0;
    let wide = [middle, middle + 1e-12, middle - 1e-12, 65519.999, 65520.0];
    let expected: Vec<u16> = [1.0, 1.0 + 1.0 / 1024.0, 1.0, 65504.0, f32::INFINITY]
        .iter()
        .map(|value| f16::from_f32(*value).to_bits())
        .collect();
    check(&source("f16"), &[("A", Input::F64(&wide))], ("C", DType::F16, &[0u16; 5], &expected));
    assert_eq!(bf16::from_f32(1.0).to_bits(), 0x3f80);
}

/// Integers become half types in one rounding too.
#[test]
fn integers_to_half_types() {
    let source = "
kernel k(A: tensor<i32>[N], C: tensor<bf16>[N]) {
  C[program_id(0) * 16 :+ 16] = bf16(A[program_id(0) * 16 :+ 16])
}";
    // 2^30 + 2^22 is the middle of two bf16 values, and f32 cannot hold one more.
    let numbers = [0, 1, -1, 257, 259, (1 << 30) + (1 << 22), (1 << 30) + (1 << 22) + 1, i32::MIN];
    let expected: [u16; 8] = [0, 0x3f80, 0xbf80, 0x4380, 0x4382, 0x4e80, 0x4e81, 0xcf00];
    check(source, &[("A", Input::I32(&numbers))], ("C", DType::Bf16, &[0u16; 8], &expected));
}

/// Unsigned elements compared, and widened for a product, as signed.
#[test]
fn unsigned_elements_compare_and_multiply_as_unsigned() {
    let source = "
@grid(1)
kernel k(A: tensor<i32>[6], Y: tensor<i32>[6]) {
  let a = u8(A[0 :+ 3])
  Y[0 :+ 1] = i32(reduce_max(a, 0))
  Y[1 :+ 1] = i32(reduce_min(a, 0))
  Y[2 :+ 1] = argmax(a, 0)
  Y[3 :+ 1] = argmin(u32(A[3 :+ 3]), 0)
  let row = reshape(a, [1, 3])
  Y[4 :+ 1] = reshape(dot_t(row, row), [1])
  Y[5 :+ 1] = i32(reduce_max(u32(A[3 :+ 3]), 0))
}
";
    let expected = [200, 1, 1, 2, 1 + 200 * 200 + 9, -1];
    check(source, &[("A", Input::I32(&[1, 200, 3, 7, -1, 5]))], ("Y", DType::I32, &[0; 6], &expected));
}

/// Sums of i32 values that meet an index in a subscript wrapped, and the checker did not know
/// the length of a span that they begin.
#[test]
fn sums_in_subscripts_are_index_arithmetic_where_they_meet_an_index() {
    let source = "
@autotune(T in [4])
@grid(1)
kernel k(A: tensor<f32>[N], C: tensor<f32>[8], at: i32) {
  C[0 :+ T] = A[at + at - N * 268435456 : (at + at) - N * 268435456 + T]
  C[4] = A[(at + at) - N * 268435456 + 5]
}";
    let inputs = [("A", Input::F32(&counting(8))), ("at", Input::Scalar((1i32 << 30).into()))];
    let expected = [0.0f32, 1.0, 2.0, 3.0, 5.0, -1.0, -1.0, -1.0];
    check(source, &inputs, ("C", DType::F32, &[-1.0f32; 8], &expected));
}

/// At v4 one valid lane of a narrowed tile was stored as wide as before it was narrowed, over its
/// neighbours: <https://github.com/llvm/llvm-project/issues/179489>, in LLVM 22.
#[test]
fn one_lane_that_is_narrowed_writes_one_element() {
    let source = "
@grid(1)
kernel k(A: tensor<i32>[5], C: tensor<bf16>[8]) {
  C[0 :+ 5] = bf16(A[4 :+ 5])
}";
    let mut expected = [0x3f80u16; 8];
    expected[0] = 0x40e0;
    let inputs = [("A", Input::I32(&[1, 2, 3, 4, 7]))];
    check(source, &inputs, ("C", DType::Bf16, &[0x3f80u16; 8], &expected));
    let source = source.replace("bf16", "u8");
    check(&source, &inputs, ("C", DType::U8, &[9u8; 8], &[7, 9, 9, 9, 9, 9, 9, 9]));
}
