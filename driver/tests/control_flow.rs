//! Loops and positions at the ends of their ranges, run on the host device.
#![allow(clippy::unwrap_used)]

mod support;

use phobos_artifact::{DType, Element};
use phobos_device::{Device, DeviceExt, HostDevice, Launch, Plain, Scalar, Tensor};
use support::{levels, request};

/// Compiles the kernel `k` of `source` for every level that this CPU has and runs it on the
/// tensor `A`, between guards; gives what it leaves there, the same at each level.
fn run<T: Plain + PartialEq + std::fmt::Debug>(
    source: &str,
    (dtype, before): (DType, &[T]),
    guard: T,
    scalars: &[(&str, Scalar)],
) -> Vec<T> {
    const GUARD: usize = 64;
    let levels = levels();
    let mut results: Vec<Vec<T>> = levels
        .map(|level| {
            let request = request(source, level);
            let artifact = phobos_driver::compile(&request).unwrap_or_else(|failure| panic!("{failure}"));
            let device = HostDevice::new(Some(1)).unwrap();
            let kernel = device.load(&artifact).unwrap();
            let guarded = [&[guard; GUARD][..], before, &[guard; GUARD]].concat();
            let buffer = device.upload(phobos_device::as_bytes(&guarded)).unwrap();
            let start = (GUARD * size_of::<T>()) as u64;
            let shape = [before.len() as u64];
            let tensor = Tensor::new(&buffer, start, Element::Scalar(dtype), shape).unwrap();
            let mut launch = Launch::new(&kernel).tensor("A", &tensor);
            for (name, value) in scalars {
                launch = launch.scalar(name, *value);
            }
            launch.run(&device).unwrap();
            let mut after = guarded.clone();
            device.read_slice(&buffer, 0, &mut after).unwrap();
            let (head, rest) = after.split_at(GUARD);
            let (body, tail) = rest.split_at(before.len());
            assert_eq!((head, tail), (&guarded[..GUARD], &guarded[GUARD + before.len()..]), "{level:?}");
            body.to_vec()
        })
        .collect();
    let first = results.pop().unwrap();
    assert!(results.iter().all(|result| *result == first), "{results:?} {first:?}");
    first
}

fn floats(source: &str, before: &[f32], scalars: &[(&str, Scalar)]) -> Vec<f32> {
    run(source, (DType::F32, before), -77.0, scalars)
}

fn integers(source: &str, before: &[i32], scalars: &[(&str, Scalar)]) -> Vec<i32> {
    run(source, (DType::I32, before), -77, scalars)
}

/// The condition's variable is written in the body and not read there.
#[test]
fn while_with_a_condition_that_only_the_body_writes() {
    let newton = "
@grid(1)
kernel k(A: tensor<f32>[N]) {
  let a = A[0]
  var y: f32 = 1.0
  var err: f32 = 1.0
  while err > 1e-5 {
    let z = 0.5 * (y + a / y)
    err = abs(z - y)
    y = z
  }
  A[0] = y
}";
    assert_eq!(floats(newton, &[2.0], &[]), [std::f32::consts::SQRT_2]);
    assert_eq!(floats(newton, &[9.0], &[]), [3.0]);
}

#[test]
fn while_over_a_list_that_ends_with_zero() {
    let length = "
@grid(1)
kernel k(A: tensor<i32>[N]) {
  var a: i32 = 1
  var i: i32 = 0
  while a != 0 {
    a = A[i]
    i += 1
  }
  A[0] = i
}";
    assert_eq!(integers(length, &[5, 4, 3, 0, 9], &[]), [4, 4, 3, 0, 9]);
    assert_eq!(integers(length, &[0, 4], &[]), [1, 4]);
}

#[test]
fn while_with_flags() {
    for (condition, expected) in [("go", 12), ("go && n < 7", 9), ("go || n < 20", 21), ("!!go", 12)] {
        let source = format!(
            "
@grid(1)
kernel k(A: tensor<i32>[N]) {{
  var go = true
  var n: i32 = 0
  while {condition} {{
    n += 3
    go = n < 10
  }}
  A[0] = n
}}"
        );
        assert_eq!(integers(&source, &[0], &[]), [expected], "{condition}");
    }
}

/// Nothing but the condition's variable, which nothing reads afterwards.
#[test]
fn while_that_leaves_nothing() {
    let source = "
@grid(1)
kernel k(A: tensor<i32>[N]) {
  var n: i32 = 0
  while n < 3 {
    A[n] = 7
    n += 1
  }
}";
    assert_eq!(integers(source, &[0; 5], &[]), [7, 7, 7, 0, 0]);
}

/// Tiles that the condition passes on, partly outside of their tensor, exchanged in each
/// iteration, one of them read after the loop only.
#[test]
fn while_carries_tiles_beside_a_flag() {
    let source = "
@grid(1)
kernel k(A: tensor<i32>[N], n: i32) {
  var go = true
  var i: i32 = 0
  var t = A[0 :+ 4]
  var u = A[n :+ 4]
  var last = t
  while go && i < 100 {
    last = u
    let w = t
    t = u
    u = w + t
    i += 1
    go = i < 3
  }
  A[0 :+ 4] = t
  A[4 :+ 4] = last
}";
    // t, u = [1, 2, 3, 4], [7, 8, -, -] and then as the Fibonacci numbers, three times.
    assert_eq!(integers(source, &[1, 2, 3, 4, 5, 6, 7, 8], &[("n", 6.into())]), [15, 18, 3, 4, 15, 18, 7, 8]);
}

/// A tile that the condition itself computes from: it is read before and after.
#[test]
fn while_in_for_in_while() {
    let source = "
@grid(1)
kernel k(A: tensor<i32>[N]) {
  var total: i32 = 0
  var outer = true
  while outer {
    for j in range(3) {
      var c: i32 = 0
      while c < 2 {
        c += 1
        total += 1
      }
    }
    outer = total < 10
  }
  A[0] = total
}";
    assert_eq!(integers(source, &[0], &[]), [12]);
}

/// Loops whose step after the last iteration is no i64: they ran for ever, or not as often.
#[test]
fn for_at_the_end_of_i64() {
    let max = i64::MAX;
    let count = |range: &str, b: i64| {
        let source = format!(
            "
@grid(1)
kernel k(A: tensor<i64>[N], b: i64) {{
  var n: i64 = 0
  var last: i64 = 0
  for i in range({range}) {{
    n += 1
    last = i
  }}
  A[0] = n
  A[1] = last
}}"
        );
        let got = run(&source, (DType::I64, &[0i64, 0]), -77, &[("b", b.into())]);
        (got[0], got[1])
    };
    for (range, b, expected) in [
        ("9223372036854775800, 9223372036854775807, 5", 0, (2, max - 2)),
        ("b - 7, b, 5", max, (2, max - 2)),
        ("b - 7, b", max, (7, max - 1)),
        ("0, b, 4611686018427387905", max, (2, 1 << 62 | 1)),
        ("0, 9223372036854775807, 4611686018427387904", 0, (2, 1 << 62)),
        ("-9223372036854775807, b, 9223372036854775807", max, (2, 0)),
        ("b, b, 3", max, (0, 0)),
        ("b, 0, 3", max, (0, 0)),
        ("0, 10, b", max, (1, 0)),
        ("0, 10, b", -1, (0, 0)),
        ("0, 10, b", 0, (0, 0)),
        ("b, 10, 4", 1, (3, 9)),
    ] {
        assert_eq!(count(range, b), expected, "{range} with b = {b}");
    }
}

/// Products and sums that are no i64 are positions outside, and not what they wrap to.
#[test]
fn positions_do_not_wrap() {
    let source = "
@grid(1)
kernel k(A: tensor<f32>[N], n: i64, m: i32) {
  A[N * N * N * N * N :+ 4] = 1.0
  A[N * N * N * N * N :+ 4] = A[N * N * N * N * N :+ 4] else 3.0
  A[n + n] = 2.0
  A[n * 2 :+ 4] = 2.5
  A[n * n] = 3.0
  A[3 - n - n - n :+ 2] = 4.0
  A[n * n - n * n :+ 2] = 5.0
  A[m] = 9.0
  A[2305843009213693952] = 6.0
  A[9223372036854775807 :+ 4] = 7.0
  A[9223372036854775807] = 8.0
}";
    let mut expected = vec![0.0; 6800];
    expected[..2].fill(5.0);
    expected[3] = 9.0;
    for n in [i64::MIN, i64::MIN + 1, 1 << 62, -(1 << 62), i64::MAX] {
        let got = floats(source, &vec![0.0; 6800], &[("n", n.into()), ("m", 3.into())]);
        assert_eq!(got, expected, "{n}");
    }
}

/// So many loops and branches that they become functions of their own: values cross from one
/// to the next, in a loop too.
#[test]
fn long_straight_code() {
    let lines = (0..400).fold(String::new(), |text, at| {
        format!(
            "{text}    A[{at}] = x + {at}\n    x = A[n + {at}] + y\n    A[{at} :+ 2] = A[{at} :+ 2] + 1\n"
        )
    });
    let source = format!(
        "@grid(1)\nkernel k(A: tensor<i32>[N], n: i32) {{\n  var x: i32 = 0\n  let y = A[n]\n  for i in range(3) {{\n{lines}  }}\n{}  A[0] = x\n}}\n",
        lines.replace("    ", "  ")
    );
    let before: Vec<i32> = (0..390).collect();
    let mut expected = before.clone();
    let (mut x, y) = (0i32, expected[5]);
    for _ in 0..4 {
        for at in 0..400 {
            let value = x.wrapping_add(at as i32);
            expected.get_mut(at).into_iter().for_each(|place| *place = value);
            x = expected.get(at + 5).copied().unwrap_or(0).wrapping_add(y);
            expected.iter_mut().skip(at).take(2).for_each(|place| *place = place.wrapping_add(1));
        }
    }
    expected[0] = x;
    assert_eq!(integers(&source, &before, &[("n", 5.into())]), expected);
}
