//! What straight-line programs cost: sizes of what the passes make, which have no clock, and
//! that no object needs a library.
#![allow(clippy::unwrap_used)]

mod support;

use std::fmt::Write;

use phobos_artifact::HostLevel;
use phobos_driver::{
    Stage,
    compile::{Compiled, Output},
    compile_to,
};
use phobos_lang::diagnostics::RenderOptions;
use support::request;

fn text(source: &str, stage: Stage) -> String {
    match compile_to(&request(source, HostLevel::V3), "k.ph", stage, RenderOptions::default()) {
        Ok(Compiled { output: Output::Text(text), .. }) => text,
        Ok(_) => panic!("no text"),
        Err(failure) => panic!("{failure}"),
    }
}

/// How many operations the host code of a program has: lines, less those that all have.
fn operations(source: &str) -> usize {
    text(source, Stage::Host).lines().count()
}

fn kernel(body: &str) -> String {
    format!("@grid(1)\nkernel k(X: tensor<f32>[N], Y: tensor<f32>[N]) {{\n{body}}}\n")
}

/// Twice the lines make twice the code, up to a sixteenth.
fn assert_linear(lines: usize, program: impl Fn(usize) -> String) {
    let (one, two) = (operations(&program(lines)), operations(&program(2 * lines)));
    assert!(8 * two <= 17 * one && two > one, "{one} operations of {lines} lines, {two} of twice as many");
}

/// Each value is read three times: followed without memory, 3^400 paths.
#[test]
fn elementwise_lines_are_fused_once() {
    assert_linear(200, |lines| {
        let body = "  x = where(x > 0.5, x * 0.5, x + 1.0)\n".repeat(lines);
        kernel(&format!("  var x = X[0 :+ 64]\n{body}  Y[0 :+ 64] = x\n"))
    });
}

/// Two values that mix, as in a generator of random numbers.
#[test]
fn rounds_of_a_hash_are_fused_once() {
    assert_linear(40, |rounds| {
        let round = "  a = a + b\n  b = (b << u32(13)) | (b >> u32(19))\n  b = a ^ b\n".repeat(rounds);
        format!(
            "@grid(1)\nkernel k(X: tensor<u32>[N], Y: tensor<u32>[N]) {{\n  var a = X[0 :+ 64]\n  var b = X[64 :+ 64]\n\
             {round}  Y[0 :+ 64] = a\n  Y[64 :+ 64] = b\n}}\n"
        )
    });
}

/// Operations within operations, deeper than what a stack would hold at a frame of some
/// kilobytes for each.
#[test]
fn deep_expressions() {
    let nested = (0..30).fold("X[0 :+ 64]".to_owned(), |inner, _| format!("gelu({inner})"));
    assert!(operations(&kernel(&format!("  Y[0 :+ 64] = {nested}\n"))) > 30);
    let sum = "  x = x * 1.5 + x * x\n".repeat(3000);
    assert!(operations(&kernel(&format!("  var x = X[0 :+ 64]\n{sum}  Y[0 :+ 64] = x\n"))) > 9000);
}

#[test]
fn slice_stores_are_linear() {
    assert_linear(50, |lines| {
        kernel(&(0..lines).fold(String::new(), |mut body, line| {
            writeln!(body, "  Y[{at} :+ 8] = X[{at} :+ 8] * {line}.0", at = 8 * line).unwrap();
            body
        }))
    });
}

/// Each position is made of the last one twice: 2^200 paths to a proof.
#[test]
fn positions_are_proven_once() {
    let kernel = |lines: usize| {
        let body = "  i = i + i\n  Y[i :+ 8] = 1.0\n".repeat(lines);
        format!("@grid(1)\nkernel k(Y: tensor<f32>[N], n: i32) {{\n  var i = N + n\n{body}}}\n")
    };
    assert_linear(100, kernel);
}

/// Loops in loops: the rounds of the inner ones are not multiplied by those of the outer.
#[test]
fn loops_in_loops() {
    let nested = |depth: usize| {
        let open = (0..depth).fold(String::new(), |mut text, level| {
            writeln!(text, "for i{level} in range(2) {{ t = u\nu = t + 1.0").unwrap();
            text
        });
        let close = "}\n".repeat(depth);
        kernel(&format!("var t = X[0 :+ 8]\nvar u = X[N - 4 :+ 8]\n{open}{close}Y[0 :+ 8] = t\n"))
    };
    assert!(operations(&nested(24)) > operations(&nested(12)));
}

/// Objects link against nothing: LLVM must not be left a conversion that it calls a library for.
#[test]
fn no_operation_needs_a_library() {
    for ty in ["bf16", "f16", "f32", "f64", "i8", "u8", "i16", "i32", "u32", "i64"] {
        let float = ty.contains('f');
        let half = ty.ends_with("f16");
        // What only moves and reduces is the same of all other types.
        let levels: &[_] =
            if half { &[HostLevel::V2, HostLevel::V3, HostLevel::V4] } else { &[HostLevel::V2] };
        for level in levels.iter().copied() {
            for source in
                [scalars(ty, float), tiles(ty, float), shapes(ty)].into_iter().take(2 + usize::from(half))
            {
                if let Err(failure) = phobos_driver::compile(&request(&source, level)) {
                    panic!("{ty} at {}: {failure}\n{source}", level.name());
                }
            }
        }
    }
}

/// Every operator, function and cast of `x`, `y` and the scalar `s` of a type.
fn expressions(ty: &str, float: bool) -> Vec<String> {
    let mut all: Vec<String> =
        ["x + y", "x * s", "s - x", "min(x, s)", "max(y, x)", "abs(x)", "-x"].map(Into::into).into();
    all.extend(["<", "<=", ">", ">=", "==", "!="].map(|op| format!("where(x {op} s, x, s)")));
    all.push("where(x > y, y, x * x)".into());
    all.push("x / y".into());
    let casts = ["bf16", "f16", "f32", "f64", "i8", "u8", "i16", "i32", "u32", "i64", "bool"];
    all.extend(casts.map(|to| format!("{ty}({to}(x)) + {ty}({to}(s))")));
    if float {
        let functions = [
            "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "silu", "gelu", "floor", "ceil",
            "round",
        ];
        all.extend(functions.map(|name| format!("{name}(x) + {name}(s)")));
        if ty != "f64" {
            all.push("fma(x, y, s)".into());
        }
    } else {
        all.extend(["x % y", "x & s", "x | y", "x ^ s", "~x", "x << y", "x >> s"].map(Into::into));
    }
    all
}

fn scalars(ty: &str, float: bool) -> String {
    let mut body = format!("  let x = X[n]\n  let y = X[n + 1]\n  var c: {ty} = s\n");
    for (at, expression) in expressions(ty, float).iter().enumerate() {
        writeln!(body, "  Y[{at}] = {expression}").unwrap();
    }
    writeln!(body, "  for i in range(n) {{ c = c * X[i] + {ty}(i) }}\n  if n > 3 {{ c = s }}").unwrap();
    writeln!(
        body,
        "  while c < s {{ c = c + s }}\n  Y[99] = c\n  Y[98] = {ty}(n) + {ty}(N) + {ty}(program_id(0))"
    )
    .unwrap();
    format!("@grid(1)\nkernel k(X: tensor<{ty}>[N], Y: tensor<{ty}>[N], s: {ty}, n: i32) {{\n{body}}}\n")
}

fn tiles(ty: &str, float: bool) -> String {
    let mut body = format!("  let x = X[n :+ 24]\n  let y = X[n + 3 :+ 24] else {ty}(1)\n");
    for (at, expression) in expressions(ty, float).iter().enumerate() {
        writeln!(body, "  Y[{} :+ 24] = {expression}", 24 * at).unwrap();
    }
    writeln!(body, "  Y[0 :+ 24] = x + {ty}(iota([24], 0)) + X[0]").unwrap();
    format!("@grid(1)\nkernel k(X: tensor<{ty}>[N], Y: tensor<{ty}>[N], s: {ty}, n: i32) {{\n{body}}}\n")
}

/// Reductions, carried tiles, transposes and slices of columns, of odd and of large widths.
fn shapes(ty: &str) -> String {
    let mut body = format!(
        "  var c: tile<{ty}>[20] = s\n  for i in range(n) {{ c = c * s + X[i, 0 :+ 20] }}\n  Y[0, 0 :+ 20] = c\n"
    );
    for (rows, columns) in [(1, 7), (16, 64)] {
        let name = format!("t{columns}");
        writeln!(body, "  let {name} = X[n :+ {rows}, 0 :+ {columns}]").unwrap();
        for axis in [0, 1] {
            for reduce in ["sum", "reduce_max"] {
                writeln!(body, "  Y[0 :+ {rows}, 0 :+ {columns}] = {name} - {reduce}({name}, {axis})")
                    .unwrap();
            }
            writeln!(body, "  Y[0 :+ {rows}, 0 :+ {columns}] = cumsum({name}, {axis})").unwrap();
            writeln!(body, "  Y[0 :+ {rows}, 0 :+ {columns}] = {name} * {ty}(argmax({name} * s, {axis}))")
                .unwrap();
        }
        writeln!(
            body,
            "  Y[0 :+ {columns}, 0 :+ {rows}] = transpose({name}) + X[0 :+ {columns}, 0 :+ {rows}]"
        )
        .unwrap();
        writeln!(body, "  Y[0 :+ {rows}, 3] = X[0 :+ {rows}, 3] + X[0, 0 :+ {rows}] * s").unwrap();
    }
    format!(
        "@grid(1)\nkernel k(X: tensor<{ty}>[N, M], Y: tensor<{ty}>[N, M], s: {ty}, n: i32) {{\n{body}}}\n"
    )
}

/// Numbers of any size give code or an error with its place, and no panic.
#[test]
fn huge_numbers() {
    for body in [
        "A[2305843009213693952] = 1.0",
        "A[9223372036854775807] = 1.0",
        "A[9223372036854775807 :+ 4] = 1.0",
        "A[9223372036854775800 :+ 4] = A[9223372036854775807 :+ 4] + 1.0",
        "for i in range(9223372036854775807) { A[i :+ 9] = 1.0 }",
    ] {
        let source = format!("@grid(1)\nkernel k(A: tensor<f32>[N]) {{ {body} }}\n");
        if let Err(failure) = phobos_driver::compile(&request(&source, HostLevel::V3)) {
            panic!("{body}: {failure}");
        }
    }
    for (extents, body) in [
        ("N", "A[0 :+ 4611686018427387904] = A[0 :+ 4611686018427387904] + 1.0"),
        ("N", "A[0 :+ 9223372036854775807] = 1.0"),
        ("N", "A[0 :+ 4294967297] = f32(iota([4294967297], 0))"),
        (
            "N, N, N, N",
            "A[0 :+ 65536, 0 :+ 65536, 0 :+ 65536, 0 :+ 65536] = A[0 :+ 65536, 0 :+ 65536, 0 :+ 65536, 0 :+ 65536] + 1.0",
        ),
    ] {
        let source = format!("@grid(1)\nkernel k(A: tensor<f32>[{extents}]) {{ {body} }}\n");
        let failure = phobos_driver::compile(&request(&source, HostLevel::V3)).unwrap_err().to_string();
        assert!(
            failure.contains("a tile has at most 4294967296") && failure.contains("kernel.ph:2:"),
            "{body}: {failure}"
        );
    }
}

/// What no device loads is refused with the number.
#[test]
fn limits_are_named() {
    let compile = |source: &str| phobos_driver::compile(&request(source, HostLevel::V2));
    let scalars = |count: usize| (0..count).fold(String::new(), |text, at| format!("{text}, s{at}: i32"));
    let source =
        |count: usize| format!("@grid(1)\nkernel k(A: tensor<i32>[N]{}) {{ A[0] = 1 }}\n", scalars(count));
    assert!(compile(&source(46)).is_ok());
    let failure = compile(&source(47)).unwrap_err().to_string();
    assert!(
        failure.contains("49 arguments")
            && failure.contains("at most 48")
            && failure.contains("kernel.ph:2:"),
        "{failure}"
    );
    let dims = (0..33).map(|at| format!("D{at}")).collect::<Vec<_>>();
    let tensors = dims.iter().enumerate().map(|(at, dim)| format!("A{at}: tensor<i32>[{dim}]"));
    let many = format!("@grid(1)\nkernel k({}) {{ A0[0] = 1 }}\n", tensors.collect::<Vec<_>>().join(", "));
    assert!(compile(&many).unwrap_err().to_string().contains("at most"));
}
