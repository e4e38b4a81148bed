//! The shape of the typed tree, as text.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, fmt::Write};

use phobos_artifact::{Access, Contract, Element};
use phobos_lang::{
    SourceFile, check, parse,
    typed::{AxisIndex, Block, Expr, ExprKind, Kernel, StmtKind, Type, VarId},
};

fn kernel(text: &str, bindings: &[(&str, &str)]) -> Kernel {
    let source = SourceFile::new("k.ph", text);
    let (module, errors) = parse(&source);
    assert_eq!(errors, []);
    let bindings: BTreeMap<String, Element> =
        bindings.iter().map(|(name, element)| ((*name).to_owned(), element.parse().unwrap())).collect();
    let checked = check(&module, "k", &bindings);
    assert_eq!(checked.diagnostics, []);
    checked.kernel.unwrap()
}

/// A body without its kernel: X [N, M] f32, H [N, M] f16, W [N, M] q8_0, I [N] i32.
fn body(text: &str) -> String {
    let kernel = kernel(
        &format!(
            "@autotune(T in [32, 64])\n@grid(1)\nkernel k(X: tensor<f32>[N, M], H: tensor<f16>[N, M], \
             W: tensor<q8_0>[N, M], I: tensor<i32>[N], s: f32, n: i32) {{\n{text}\n}}"
        ),
        &[],
    );
    let mut out = String::new();
    show_block(&kernel, &kernel.body, 0, &mut out);
    out
}

fn name(kernel: &Kernel, var: VarId) -> String {
    format!("{}.{}", kernel.vars[var.0].name, var.0)
}

fn show_slice(kernel: &Kernel, slice: &[AxisIndex]) -> String {
    let axes: Vec<String> = slice
        .iter()
        .map(|axis| match axis {
            AxisIndex::Point(at) => show(kernel, at),
            AxisIndex::Span { start, extent } => format!("{} :+ {extent}", show(kernel, start)),
        })
        .collect();
    format!("[{}]", axes.join(", "))
}

fn show(kernel: &Kernel, expr: &Expr) -> String {
    let mut operands = Vec::new();
    expr.for_each_child(&mut |child| operands.push(show(kernel, child)));
    let operands = operands.join(", ");
    match &expr.kind {
        ExprKind::Int(value) if expr.ty == Type::Index => value.to_string(),
        ExprKind::Int(value) => format!("{value}{}", expr.ty),
        ExprKind::Float(value) => format!("{value:?}{}", expr.ty),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Var(var) => name(kernel, *var),
        ExprKind::ScalarParam(id) => kernel.scalars[id.0].name.clone(),
        ExprKind::Dim(name) | ExprKind::Param(name) => name.clone(),
        ExprKind::ProgramId(axis) => format!("pid{axis}"),
        ExprKind::Unary { op, .. } => format!("{op:?}({operands})"),
        ExprKind::Binary { op, .. } => format!("{op:?}({operands})"),
        ExprKind::Math { op, .. } => format!("{op:?}({operands})"),
        ExprKind::Cast(_) => format!("({operands} as {})", expr.ty),
        ExprKind::Decode(_) => format!("decode({operands})"),
        ExprKind::Quantize(_) => format!("quantize({operands}): {}", expr.ty),
        ExprKind::Broadcast(_) => format!("({operands} to {})", expr.ty),
        ExprKind::Load { tensor, slice, fill } => {
            let fill = fill.iter().map(|fill| format!(" else {}", show(kernel, fill))).collect::<String>();
            format!("{}{}{fill}", kernel.tensors[tensor.0].name, show_slice(kernel, slice))
        }
        ExprKind::TileSlice { tile, slice } => format!("{}{}", show(kernel, tile), show_slice(kernel, slice)),
        ExprKind::Dot { transposed, precision, .. } => {
            format!("dot{}:{precision:?}({operands}): {}", if *transposed { "_t" } else { "" }, expr.ty)
        }
        ExprKind::Reduce { op, axis, .. } => format!("{op:?}{axis}({operands}): {}", expr.ty),
        ExprKind::AtomicAdd { tensor, .. } => {
            format!("atomic_add({}, {operands})", kernel.tensors[tensor.0].name)
        }
        ExprKind::Reshape(_) => format!("({operands} reshaped {})", expr.ty),
        ExprKind::Iota { axis } => format!("iota{axis}: {}", expr.ty),
        other => {
            format!("{}({operands})", format!("{other:?}").split([' ', '(', '{']).next().unwrap_or_default())
        }
    }
}

fn show_block(kernel: &Kernel, block: &Block, depth: usize, out: &mut String) {
    let carried = |carried: &[VarId]| {
        let names: Vec<String> = carried.iter().map(|var| name(kernel, *var)).collect();
        format!("carries [{}]", names.join(", "))
    };
    for statement in &block.statements {
        let pad = "  ".repeat(depth);
        let line = match &statement.kind {
            StmtKind::Let { var, value } => format!("let {} = {}", name(kernel, *var), show(kernel, value)),
            StmtKind::VarInit { var, value: Some(value) } => {
                format!("var {} = {}", name(kernel, *var), show(kernel, value))
            }
            StmtKind::VarInit { var, value: None } => {
                format!("var {}: {}", name(kernel, *var), kernel.vars[var.0].ty)
            }
            StmtKind::Assign { var, value } => format!("{} = {}", name(kernel, *var), show(kernel, value)),
            StmtKind::TileInsert { var, slice, value } => {
                format!("{}{} = {}", name(kernel, *var), show_slice(kernel, slice), show(kernel, value))
            }
            StmtKind::StoreSlice { tensor, slice, value } => {
                let tensor = &kernel.tensors[tensor.0].name;
                format!("{tensor}{} := {}", show_slice(kernel, slice), show(kernel, value))
            }
            StmtKind::StorePoint { tensor, indices, value } => {
                let indices: Vec<String> = indices.iter().map(|at| show(kernel, at)).collect();
                let tensor = &kernel.tensors[tensor.0].name;
                format!("{tensor}[{}] := {}", indices.join(", "), show(kernel, value))
            }
            StmtKind::For { var, start, end, step, carried: vars, body } => {
                let range = [start, end, step].map(|expr| show(kernel, expr)).join(", ");
                writeln!(out, "{pad}for {} in {range} {}", name(kernel, *var), carried(vars)).unwrap();
                show_block(kernel, body, depth + 1, out);
                continue;
            }
            StmtKind::While { condition, carried: vars, body } => {
                writeln!(out, "{pad}while {} {}", show(kernel, condition), carried(vars)).unwrap();
                show_block(kernel, body, depth + 1, out);
                continue;
            }
            StmtKind::If { condition, carried: vars, then, otherwise } => {
                writeln!(out, "{pad}if {} {}", show(kernel, condition), carried(vars)).unwrap();
                show_block(kernel, then, depth + 1, out);
                writeln!(out, "{pad}else").unwrap();
                show_block(kernel, otherwise, depth + 1, out);
                continue;
            }
            StmtKind::GridBarrier { tensor } => format!("barrier {}", kernel.tensors[tensor.0].name),
            StmtKind::Assert { condition, message } => {
                format!("assert {} {message:?}", show(kernel, condition))
            }
            StmtKind::Expr(value) => show(kernel, value),
        };
        writeln!(out, "{pad}{line}").unwrap();
    }
}

#[track_caller]
fn check_body(text: &str, expected: &str) {
    let got = body(text);
    assert_eq!(got.trim(), expected.trim(), "\n{got}");
}

#[test]
fn literals_take_the_type_of_their_use() {
    check_body("X[0, 1] = 1", "X[0, 1] := 1.0f32");
    check_body("let a = H[0, 0] * 2 + 0.5", "let a.0 = Add(Mul(H[0, 0], 2.0f16), 0.5f16)");
    check_body("let a = 3\nlet b = 3.0", "let a.0 = 3\nlet b.1 = 3.0f32");
    check_body("let a = n + 1", "let a.0 = Add(n, 1i32)");
    check_body("X[0, 0] = -inf", "X[0, 0] := -inff32");
    check_body("let a = f16(1 + 2 * 3)", "let a.0 = 7.0f16");
    check_body("let a = i32(2.75)", "let a.0 = (2.75f32 as i32)");
}

#[test]
fn index_meets_integers() {
    check_body("let a = n + N", "let a.0 = Add((n as index), N)");
    check_body("let a = I[I[n]]", "let a.0 = I[(I[(n as index)] as index)]");
    check_body(
        "let a = iota([T, 1], 0) + (n + program_id(0))",
        "let a.0 = Add(iota0: tile<i32>[T, 1], ((Add((n as index), pid0) as i32) to tile<i32>[T, 1]))",
    );
    check_body("I[0] = N", "I[0] := (N as i32)");
    check_body("let a = f32(N) * s", "let a.0 = Mul((N as f32), s)");
}

#[test]
fn broadcasts_are_nodes() {
    check_body(
        "let x = X[0 :+ T, 0 :+ 32]\nlet y = x * s - rowmax(x) + X[1, 0 :+ 32]",
        "let x.0 = X[0 :+ T, 0 :+ 32]
let y.1 = Add(Sub(Mul(x.0, (s to tile<f32>[T, 32])), (Max1(x.0): tile<f32>[T, 1] to tile<f32>[T, 32])), \
         (X[1, 0 :+ 32] to tile<f32>[T, 32]))",
    );
    check_body(
        "let c = X[0 :+ T, 0 :+ 1] < 0.0\nlet w = where(c, X[0, 0 :+ 8], inf)",
        "let c.0 = Lt(X[0 :+ T, 0 :+ 1], (0.0f32 to tile<f32>[T, 1]))
let w.1 = Select((c.0 to tile<bool>[T, 8]), (X[0, 0 :+ 8] to tile<f32>[T, 8]), ((inff32 to tile<f32>[8]) to \
         tile<f32>[T, 8]))",
    );
}

#[test]
fn slices_are_normalised() {
    check_body(
        "let a = X[n, :]\nlet b = X[n : n + 8, 4 : 4 + T] else 1\nlet c = b[0 : 2, 3]\nlet d = sum(c, 0)[0]",
        "let a.0 = X[(n as index), 0 :+ M]
let b.1 = X[(n as index) :+ 8, 4 :+ T] else 1.0f32
let c.2 = b.1[0 :+ 2, 3]
let d.3 = Sum0(c.2): tile<f32>[1][0]",
    );
    // A `let` is its value; a `var` is its value at that moment.
    check_body(
        "let t = T\nfor k in range(0, N) {\n let a = X[k * t : (k + 1) * t, 0]\n}",
        "let t.0 = T\nfor k.1 in 0, N, 1 carries []\n  let a.2 = X[Mul(k.1, t.0) :+ T, 0]",
    );
    check_body("var i = 0\nlet a = X[i : i + 4, 0]\ni = 8", "var i.0 = 0\nlet a.1 = X[i.0 :+ 4, 0]\ni.0 = 8");
}

#[test]
fn a_var_that_changed_is_not_its_old_value() {
    let text = "kernel k(X: tensor<f32>[N]) {\n var i = 0\n let j = i\n i = 4\n let a = X[j : i + 4]\n}";
    let (module, _) = parse(&SourceFile::new("k.ph", text));
    let checked = check(&module, "k", &BTreeMap::new());
    assert_eq!(checked.diagnostics[0].code.to_string(), "PH0031");
}

#[test]
fn assignments_are_desugared() {
    check_body(
        "var a: tile<f32>[4, 8]\na[0, :] = 1\na[1, :] += X[0, 0 :+ 8]\na *= 2\nX[0 :+ 4, 0 :+ 8] -= a",
        "var a.0: tile<f32>[4, 8]
a.0[0, 0 :+ 8] = (1.0f32 to tile<f32>[8])
a.0[1, 0 :+ 8] = Add(a.0[1, 0 :+ 8], X[0, 0 :+ 8])
a.0 = Mul(a.0, (2.0f32 to tile<f32>[4, 8]))
X[0 :+ 4, 0 :+ 8] := Sub(X[0 :+ 4, 0 :+ 8], a.0)",
    );
    check_body("X[0, 0] = sum(X[0, 0 :+ 8], 0)", "X[0, 0] := Sum0(X[0, 0 :+ 8]): tile<f32>[1][0]");
}

#[test]
fn bodies_list_what_they_carry() {
    check_body(
        "var a = 0
var b = 0.0
let c = 1
for i in range(0, N) {
  var d = 0
  d += 1
  a += d
  if a > c { b = 1 } else if a == 3 { a = 0 }
  while b < 9.0 { b += 1 }
}",
        "var a.0 = 0
var b.1 = 0.0f32
let c.2 = 1
for i.3 in 0, N, 1 carries [a.0, b.1]
  var d.4 = 0
  d.4 = Add(d.4, 1)
  a.0 = Add(a.0, d.4)
  if Gt(a.0, c.2) carries [a.0, b.1]
    b.1 = 1.0f32
  else
    if Eq(a.0, 3) carries [a.0]
      a.0 = 0
    else
  while Lt(b.1, 9.0f32) carries [b.1]
    b.1 = Add(b.1, 1.0f32)",
    );
}

#[test]
fn dots() {
    let tiles = "let x = X[0 :+ T, 0 :+ 32]\nlet h = H[0 :+ T, 0 :+ 32]\nlet w = W[0 :+ 16, 0 :+ 32]\n";
    let last =
        |text: &str| body(&format!("{tiles}{text}")).trim().lines().last().unwrap_or_default().to_owned();
    assert_eq!(last("let d = dot_t(x, w)"), "let d.3 = dot_t:Operands(x.0, w.2): tile<f32>[T, 16]");
    assert_eq!(last("let d = dot_t(h, w)"), "let d.3 = dot_t:Operands(h.1, w.2): tile<f32>[T, 16]");
    assert_eq!(
        last("let d = dot_t(x, h)"),
        "let d.3 = dot_t:Operands(x.0, (h.1 as tile<f32>[T, 32])): tile<f32>[T, T]"
    );
    assert_eq!(last("let d = dot_t(h, h)"), "let d.3 = dot_t:Operands(h.1, h.1): tile<f32>[T, T]");
    assert_eq!(
        last("var d: tile<f16>[T, T] = dot_t(h, h)"),
        "var d.3 = dot_t:Operands(h.1, h.1): tile<f16>[T, T]"
    );
    assert_eq!(
        last("let d = dot(transpose(x), x, precision = tf32)"),
        "let d.3 = dot:Tf32(Transpose(x.0), x.0): tile<f32>[32, 32]"
    );
    assert_eq!(
        last("let d = dot(w, transpose(x))"),
        "let d.3 = dot:Operands(decode(w.2), Transpose(x.0)): tile<f32>[16, T]"
    );
    assert_eq!(last("let d = f16(w)"), "let d.3 = (decode(w.2) as tile<f16>[16, 32])");
    assert_eq!(last("let d = f32(x)"), "let d.3 = x.0");
}

#[test]
fn quantised_tiles() {
    let tiles = "let x = X[0 :+ T, 0 :+ 64]\nlet w = W[0 :+ 16, 0 :+ 64]\n";
    let last =
        |text: &str| body(&format!("{tiles}{text}")).trim().lines().last().unwrap_or_default().to_owned();
    assert_eq!(last("let q = quantize(x, q16_1)"), "let q.2 = quantize(x.0): tile<q16_1>[T, 64]");
    // A plain cast, which is nothing from f32 to f32.
    assert_eq!(last("let q = quantize(x, f32)"), "let q.2 = x.0");
    assert_eq!(last("let q = quantize(x, bf16)"), "let q.2 = (x.0 as tile<bf16>[T, 64])");
    // Neither side of a product of codes is decoded; anything else decodes first.
    assert_eq!(
        last("let d = dot_t(quantize(x, q8_1), w)"),
        "let d.2 = dot_t:Operands(quantize(x.0): tile<q8_1>[T, 64], w.1): tile<f32>[T, 16]"
    );
    assert_eq!(
        last("let d = dot_t(f32(quantize(x, q8_1)), w)"),
        "let d.2 = dot_t:Operands(decode(quantize(x.0): tile<q8_1>[T, 64]), w.1): tile<f32>[T, 16]"
    );
    assert_eq!(last("let d = dot_t(w, x)"), "let d.2 = dot_t:Operands(decode(w.1), x.0): tile<f32>[16, T]");
    assert_eq!(
        last("let f = f16(quantize(x, q8_1))"),
        "let f.2 = (decode(quantize(x.0): tile<q8_1>[T, 64]) as tile<f16>[T, 64])"
    );
}

/// One source for quantised activations and for plain ones.
#[test]
fn kernels_are_generic_over_activations() {
    let text = "@autotune(T in [32, 48, 64])
kernel k[A: format](X: tensor<f32>[N, K], Y: tensor<A>[N, K], Z: tensor<A>[N, T]) {
  let n = program_id(0)
  Y[n, :] = quantize(X[n, :], A)
  Z[n, :] = quantize(X[n, 0 :+ T], A)
}";
    let multiple = |kernel: &Kernel| kernel.param_multiples.iter().map(|m| m.of).collect::<Vec<_>>();
    for format in ["q8_1", "q16_1"] {
        let kernel = kernel(text, &[("A", format)]);
        assert_eq!(kernel.contracts, [Contract::Multiple { dim: "K".into(), of: 32 }]);
        assert_eq!(multiple(&kernel), [32]);
        assert!(kernel.required_dims.contains_key("K"));
        assert_eq!(kernel.tensors[1].access, Access::Write);
    }
    for float in ["f32", "f16", "bf16"] {
        let kernel = kernel(text, &[("A", float)]);
        assert!(kernel.contracts.is_empty() && kernel.param_multiples.is_empty());
    }
}

/// The named extent of a tile is bound when compiling: that it is whole blocks is a contract.
#[test]
fn named_extents_of_quantised_tiles() {
    let of = |head: &str, element: &str| {
        let text = format!(
            "{head}kernel k(X: tensor<f32>[N, K], W: tensor<{element}>[M, K], Y: tensor<f32>[N, K]) {{
  Y[program_id(0), :] = f32(quantize(X[program_id(0), :], q8_1))
}}"
        );
        let source = SourceFile::new("k.ph", &text);
        let checked = check(&parse(&source).0, "k", &BTreeMap::new());
        assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
        checked.kernel.unwrap().contracts
    };
    let multiple = |of| Contract::Multiple { dim: "K".to_owned(), of };
    assert_eq!(of("", "f32"), [multiple(32)]);
    assert_eq!(of("@aligned(K = 96)\n", "f32"), [multiple(96), multiple(32)]);
    assert_eq!(of("", "q4_k"), [multiple(256), multiple(32)]);
}

#[test]
fn effects_keep_their_order() {
    check_body(
        "let a = atomic_add(I, 0, 1) + atomic_add(I, n, I[0])\natomic_add(I, 1, 2)\ngrid_barrier(I)",
        "let atomic_add.0 = atomic_add(I, 0, 1i32)
let atomic_add.1 = atomic_add(I, (n as index), I[0])
let a.2 = Add(atomic_add.0, atomic_add.1)
atomic_add(I, 1, 2i32)
barrier I",
    );
}

#[test]
fn subscripts_of_a_compound_assignment_are_evaluated_once() {
    check_body(
        "X[atomic_add(I, 0, 1), 0] += 1.0\nvar t: tile<f32>[4] = 0\nt[atomic_add(I, 0, 1)] += 1.0",
        "let atomic_add.0 = atomic_add(I, 0, 1i32)
X[(atomic_add.0 as index), 0] := Add(X[(atomic_add.0 as index), 0], 1.0f32)
var t.1 = (0.0f32 to tile<f32>[4])
let atomic_add.2 = atomic_add(I, 0, 1i32)
t.1[(atomic_add.2 as index)] = Add(t.1[(atomic_add.2 as index)], 1.0f32)",
    );
}

#[test]
fn functions_are_inlined_before_the_statement() {
    let kernel = kernel(
        "const TWO = 2
fn square(x: f32) -> f32 { return x * x }
fn norm[T: dtype](x: tile<T>[R, C], y: tile<f32>[C]) -> tile<f32>[R, C] {
  var acc = f32(x)
  for i in range(0, R) { acc[i, :] += y * square(TWO) }
  return acc / f32(C)
}
@autotune(T in [8])
kernel k(H: tensor<f16>[N, M], X: tensor<f32>[N, M]) {
  let x = 1
  X[0 :+ T, :] = norm(H[0 :+ T, :], X[x, :]) + 1
}",
        &[],
    );
    let mut out = String::new();
    show_block(&kernel, &kernel.body, 0, &mut out);
    let expected = "let x.0 = 1
let x.1 = H[0 :+ T, 0 :+ M]
let y.2 = X[x.0, 0 :+ M]
var acc.3 = (x.1 as tile<f32>[T, M])
for i.4 in 0, T, 1 carries [acc.3]
  let x.5 = 2.0f32
  acc.3[i.4, 0 :+ M] = Add(acc.3[i.4, 0 :+ M], Mul(y.2, (Mul(x.5, x.5) to tile<f32>[M])))
X[0 :+ T, 0 :+ M] := Add(Div(acc.3, ((M as f32) to tile<f32>[T, M])), (1.0f32 to tile<f32>[T, M]))
";
    assert_eq!(out, expected, "\n{out}");
}

#[test]
fn a_function_result_that_is_a_var_is_read_before_it_changes() {
    // Two calls in one expression have variables of their own.
    let kernel = kernel(
        "fn f(x: f32) -> f32 {\n var y = x\n y += 1.0\n return y\n}\nkernel k(X: tensor<f32>[N]) {\n X[0] = f(1.0) + f(2.0)\n}",
        &[],
    );
    let mut out = String::new();
    show_block(&kernel, &kernel.body, 0, &mut out);
    assert_eq!(out.lines().last(), Some("X[0] := Add(y.1, y.3)"));
}

#[test]
fn constraints_choose_candidates() {
    let kernel = kernel(
        "@autotune(A in [16, 64], B in [16, 64] where A * B <= 1024, A != 32 || B > 16)
kernel k(W: tensor<q8_0>[N, K], X: tensor<f32>[N, K]) {
  X[program_id(0) * A :+ A, 0 :+ B] = f32(W[0 :+ A, 0 :+ B])
}",
        &[],
    );
    let accepted = |a: u64, b: u64| kernel.accepts(&[("A".to_owned(), a), ("B".to_owned(), b)].into());
    assert!(accepted(16, 32) && accepted(16, 64) && accepted(32, 32));
    assert!(!accepted(64, 64), "too large");
    assert!(!accepted(16, 16), "not whole blocks");
    assert!(!kernel.accepts(&[("A".to_owned(), 16)].into()), "a parameter is missing");
}

#[test]
fn a_condition_takes_every_operator_that_is_checked() {
    let holds = |condition: &str, a: u64, b: u64| {
        let text = format!(
            "const LIMIT: i32 = 64\nconst SMALL: u8 = 200
@autotune(A in [1, 2], B in [1, 2] where {condition})
kernel k(X: tensor<f32>[N]) {{ X[program_id(0) * A :+ A] = broadcast(0.0, [A]) }}"
        );
        let kernel = kernel(&text, &[]);
        kernel.constraints[0].holds(&[("A".to_owned(), a), ("B".to_owned(), b)].into())
    };
    for (condition, a, b, wanted) in [
        ("A << 1 <= 64", 32, 1, true),
        ("A << 1 <= 64", 33, 1, false),
        ("A << B == 0", 5, 64, true),
        ("A << -1 == 0", 5, 1, true),
        ("A << 40 == 1 << 60", 1 << 20, 1, true),
        ("A >> 2 == 2", 11, 1, true),
        ("A >> 64 == 0 && -A >> 64 == -1 && -A >> 1 == -3", 5, 1, true),
        ("A & B == 4", 6, 12, true),
        ("A | B == 14", 6, 12, true),
        ("A ^ B == 10", 6, 12, true),
        ("~A == -7", 6, 1, true),
        ("A / 0 == 0 && A % 0 == A", 6, 1, true),
        ("A / B == 2 && A % B == 1", 5, 2, true),
        ("-A / B == -2 && -A % B == -1", 5, 2, true),
        ("min(A, B) == 2 && max(A, B) == 5 && !(A < B)", 5, 2, true),
        ("(A < B) == (B > A) && (A <= B) != (A > B)", 5, 2, true),
        // Typed constants: what has a type wraps as it does at run time.
        ("A <= LIMIT", 64, 1, true),
        ("A <= LIMIT", 65, 1, false),
        ("i32(A) < 0", 1 << 31, 1, true),
        ("u8(A) + SMALL == 0", 56, 1, true),
        ("u8(1) << 8 == 0", 1, 1, true),
        ("bool(A - B)", 3, 2, true),
        ("bool(A - B)", 2, 2, false),
    ] {
        assert_eq!(holds(condition, a, b), Some(wanted), "{condition} for A = {a}, B = {b}");
    }
    // An index does not wrap: what does not fit has no value.
    assert_eq!(holds("A * A * A * B * B > 0", 1 << 31, 1 << 31), None);
}
