//! The parser and checker meet anything: they end, do not panic, and what they call
//! correct has the promised form.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, fs, path::Path};

use phobos_artifact::{DType, Element};
use phobos_lang::{
    Code, SourceFile, check,
    diagnostics::{RenderOptions, render, to_json},
    parse,
    typed::{AxisIndex, BinaryOp, Dim, Expr, ExprKind, Kernel, Stmt, StmtKind, Type},
};

/// splitmix64
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

fn programs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for folder in ["../../models/kernels", "../../examples", "tests/diagnostics", "tests/clean"] {
        let mut paths: Vec<_> =
            fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in
            paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "ph"))
        {
            let text = fs::read_to_string(path).unwrap();
            all.extend(text.split("// -----\n").map(str::to_owned));
        }
    }
    all
}

/// Runs everything on a text; what checks clean is also verified.
fn run(text: &str) -> usize {
    let source = SourceFile::new("fuzz.ph", text);
    let (module, mut diagnostics) = parse(&source);
    let mut clean = 0;
    assert_eq!(module.broken, check::has_errors(&diagnostics));
    let names: Vec<String> = check::kernels(&module).map(|kernel| kernel.name.name.clone()).collect();
    for name in names.iter().take(4) {
        for element in ["f32", "q8_0", "q8_1"] {
            let kernel = check::kernels(&module).find(|kernel| kernel.name.name == *name).unwrap();
            let bindings: BTreeMap<String, Element> = kernel
                .generics
                .iter()
                .map(|generic| (generic.name.name.clone(), element.parse().unwrap()))
                .collect();
            let checked = check(&module, name, &bindings);
            let failed = module.broken || check::has_errors(&checked.diagnostics);
            assert_eq!(checked.kernel.is_none(), failed, "{text}");
            assert!(checked.diagnostics.iter().all(|d| d.code != Code::Internal), "{text}");
            if let Some(kernel) = checked.kernel {
                verify(&kernel);
                clean += 1;
            }
            diagnostics.extend(checked.diagnostics);
        }
    }
    for diagnostic in &diagnostics {
        assert!(diagnostic.span.end as usize <= text.len(), "{diagnostic:?}");
        assert!(!render(diagnostic, &source, RenderOptions { colour: true }).is_empty());
        assert!(to_json(diagnostic, &source).starts_with('{'));
    }
    clean
}

/// The promises of `typed`.
fn verify(kernel: &Kernel) {
    kernel.body.walk(&mut |stmt| {
        verify_stmt(kernel, stmt);
        stmt.for_each_expr(&mut |expr| expr.walk(&mut |expr| verify_expr(kernel, expr)));
    });
}

fn spans(slice: &[AxisIndex]) -> Vec<Dim> {
    slice
        .iter()
        .filter_map(|axis| match axis {
            AxisIndex::Point(_) => None,
            AxisIndex::Span { extent, .. } => Some(extent.clone()),
        })
        .collect()
}

fn verify_stmt(kernel: &Kernel, stmt: &Stmt) {
    match &stmt.kind {
        StmtKind::Let { var, value }
        | StmtKind::Assign { var, value }
        | StmtKind::VarInit { var, value: Some(value) } => {
            assert_eq!(kernel.vars[var.0].ty, value.ty);
        }
        StmtKind::TileInsert { var, slice, value } => {
            assert_eq!(slice.len(), kernel.vars[var.0].ty.dims().unwrap().len());
            assert_eq!(value.ty.dims().unwrap_or_default(), spans(slice));
        }
        StmtKind::StoreSlice { tensor, slice, value } => {
            let tensor = &kernel.tensors[tensor.0];
            assert!(tensor.access.writes());
            assert_eq!(slice.len(), tensor.dims.len());
            assert!(!spans(slice).is_empty());
            assert_eq!(value.ty.dims().unwrap(), spans(slice));
        }
        StmtKind::StorePoint { tensor, indices, value } => {
            assert_eq!(indices.len(), kernel.tensors[tensor.0].dims.len());
            assert!(value.ty.dims().is_none());
        }
        StmtKind::For { start, end, step, carried, .. } => {
            assert!([start, end, step].iter().all(|expr| expr.ty == Type::Index));
            assert!(carried.is_sorted());
        }
        StmtKind::While { condition, .. }
        | StmtKind::If { condition, .. }
        | StmtKind::Assert { condition, .. } => {
            assert_eq!(condition.ty, Type::Scalar(DType::Bool));
        }
        _ => {}
    }
}

fn verify_expr(kernel: &Kernel, expr: &Expr) {
    if let Type::Tile(tile) = &expr.ty {
        assert!((1..=4).contains(&tile.dims.len()));
        for dim in &tile.dims {
            match dim {
                Dim::Const(value) => assert!(*value > 0),
                Dim::Param(name) => assert!(kernel.params.iter().any(|param| param.name == *name)),
                Dim::TensorDim(name) => {
                    assert!(kernel.required_dims.contains_key(name), "{name}");
                    assert!(kernel.dims.contains(name));
                }
            }
        }
    }
    match &expr.kind {
        ExprKind::Var(id) => assert_eq!(kernel.vars[id.0].ty, expr.ty),
        ExprKind::Binary { op, lhs, rhs } => {
            assert_eq!(lhs.ty, rhs.ty);
            let comparison = matches!(
                op,
                BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
            );
            assert_eq!(lhs.ty.dims(), expr.ty.dims());
            assert!(comparison || lhs.ty == expr.ty);
        }
        ExprKind::Fma { a, b, c } => assert!(a.ty == expr.ty && b.ty == expr.ty && c.ty == expr.ty),
        ExprKind::Select { condition, then, otherwise } => {
            assert!(then.ty == expr.ty && otherwise.ty == expr.ty);
            assert_eq!(condition.ty.dims(), expr.ty.dims());
        }
        ExprKind::Cast(inner) => {
            assert_eq!(inner.ty.dims(), expr.ty.dims());
            assert_ne!(inner.ty, expr.ty);
        }
        ExprKind::Broadcast(inner) => {
            let (from, to) = (inner.ty.dims().unwrap_or_default(), expr.ty.dims().unwrap());
            assert!(from.len() <= to.len());
            for (a, b) in from.iter().rev().zip(to.iter().rev()) {
                assert!(a == b || *a == Dim::Const(1));
            }
        }
        ExprKind::Load { tensor, slice, .. } => {
            assert_eq!(slice.len(), kernel.tensors[tensor.0].dims.len());
            assert_eq!(expr.ty.dims().unwrap_or_default(), spans(slice));
            assert!(slice.iter().all(|axis| axis.position().ty == Type::Index));
        }
        ExprKind::TileSlice { tile, slice } => {
            assert_eq!(slice.len(), tile.ty.dims().unwrap().len());
            assert_eq!(expr.ty.dims().unwrap_or_default(), spans(slice));
        }
        ExprKind::Dot { lhs, rhs, transposed, .. } => {
            let (a, b, c) = (lhs.ty.dims().unwrap(), rhs.ty.dims().unwrap(), expr.ty.dims().unwrap());
            let (inner, columns) = if *transposed { (&b[1], &b[0]) } else { (&b[0], &b[1]) };
            assert!(a[1] == *inner && c == [a[0].clone(), columns.clone()]);
        }
        _ => {}
    }
}

#[test]
fn the_corpus_ends_and_what_is_clean_is_well_formed() {
    let clean: usize = programs().iter().map(|program| run(program)).sum();
    assert!(clean >= 20, "{clean}");
}

#[test]
fn crlf_and_tabs_change_nothing() {
    for program in programs() {
        let source = SourceFile::new("k.ph", &program);
        let crlf = SourceFile::new("k.ph", &program.replace('\n', "\r\n").replace("  ", "\t"));
        let codes = |source: &SourceFile| -> Vec<(Code, usize)> {
            let (module, mut diagnostics) = parse(source);
            for kernel in check::kernels(&module) {
                diagnostics.extend(check(&module, &kernel.name.name, &BTreeMap::new()).diagnostics);
            }
            diagnostics.iter().map(|d| (d.code, source.location(d.span.start).line)).collect()
        };
        assert_eq!(codes(&source), codes(&crlf));
    }
}

#[test]
fn deep_nesting_is_a_diagnostic() {
    let n = 20_000;
    let wrap = |body: &str| format!("kernel k(X: tensor<f32>[N]) {{\n{body}\n}}\n");
    let deep = [
        wrap(&format!("let x = {}1{}", "(".repeat(n), ")".repeat(n))),
        wrap(&format!("let x = 1{}", " + 1".repeat(n))),
        wrap(&format!("let x = 1{}", "[0]".repeat(n))),
        wrap(&format!("let x = {}1", "-".repeat(n))),
        wrap(&format!("let x = {}1{}", "exp(".repeat(n), ")".repeat(n))),
        wrap(&format!("let x = X[0]{}", " else X[0]".repeat(n))),
        wrap(&format!("{}{}", "if true {\n".repeat(n), "}\n".repeat(n))),
        wrap(&format!("if true {{ }} {}", "else if true { }".repeat(n))),
        wrap(&format!("let x = {}1{}", "[".repeat(n), "]".repeat(n))),
        wrap(&"(((((a + b".repeat(n / 10)),
    ];
    for text in deep {
        let source = SourceFile::new("k.ph", &text);
        let (_, diagnostics) = parse(&source);
        assert!(diagnostics.iter().any(|d| d.code == Code::TooDeep), "{}", &text[..60]);
        run(&text);
    }
    // The deepest that is allowed goes through the checker: mixed operators and brackets.
    let mut tree = "1.0".to_owned();
    for level in 0..60 {
        tree = if level % 2 == 0 { format!("({tree} + 1.0 * 2.0)") } else { format!("exp({tree})") };
    }
    let source = SourceFile::new("k.ph", &wrap(&format!("X[0] = {tree}")));
    assert_eq!(parse(&source).1, []);
    assert_eq!(run(source.text()), 3);
}

#[test]
fn deep_calls_of_deep_expressions_do_not_overflow() {
    let mut text = "fn f0(x: f32) -> f32 { return x }\n".to_owned();
    for n in 1..16 {
        let inner = format!("f{}(x)", n - 1);
        let body = format!("{}{inner}{}", "exp(".repeat(60), ")".repeat(60));
        text += &format!("fn f{n}(x: f32) -> f32 {{ return {body} }}\n");
    }
    text += "kernel k(X: tensor<f32>[N]) {\n";
    text += &"if X[0] > 0.0 {\n".repeat(60);
    text += "X[0] = f15(1.0)\n";
    text += &"}\n".repeat(61);
    let source = SourceFile::new("k.ph", &text);
    assert_eq!(parse(&source).1, []);
    run(&text);
}

#[test]
fn a_text_that_is_too_large_is_refused() {
    let text = " ".repeat(phobos_lang::MAX_TEXT + 100);
    let (_, diagnostics) = parse(&SourceFile::new("k.ph", &text));
    assert_eq!(diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), [Code::TextTooLarge]);
}

const WORDS: &[&str] = &[
    "kernel",
    "fn",
    "const",
    "import",
    "let",
    "var",
    "for",
    "in",
    "while",
    "if",
    "else",
    "return",
    "true",
    "inf",
    "range",
    "tile",
    "tensor",
    "f32",
    "f16",
    "i32",
    "i8",
    "q8_0",
    "q8_1",
    "quantize",
    "format",
    "dtype",
    "where",
    "X",
    "Y",
    "N",
    "M",
    "T",
    "program_id",
    "dot",
    "dot_t",
    "sum",
    "exp",
    "iota",
    "reshape",
    "max",
    "atomic_add",
    "grid_barrier",
    "0",
    "1",
    "16",
    "0.5",
    "1e9",
    "0x1f",
    "99999999999999999999",
    "\"a\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ":+",
    "=",
    "+=",
    "-=",
    "==",
    "<",
    "<=",
    ">>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "~",
    "&",
    "&&",
    "|",
    "^",
    "->",
    "@",
    "@autotune",
    "@grid",
    ";",
    "\n",
    "\n",
    "\n",
    " ",
    "\t",
    "\r\n",
    "//",
    "é",
    "\u{202e}",
    "#file \"x\" 3\n",
    "?",
    "\0",
];

#[test]
fn token_soup_and_mutations_do_not_panic() {
    let mut random = Random(1);
    for _ in 0..700 {
        let mut text = String::new();
        if random.below(2) == 0 {
            text += "@autotune(T in [16])\nkernel k(X: tensor<f32>[N, M], Y: tensor<i32>[N]) {\n";
        }
        for _ in 0..random.below(60) {
            text += random.pick(WORDS);
            text += if random.below(4) == 0 { "" } else { " " };
        }
        run(&text);
    }
    let programs = programs();
    let mut clean = 0;
    for _ in 0..700 {
        let mut text: Vec<char> = random.pick(&programs).chars().collect();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() + 1);
            let length = random.below(12).min(text.len() - at);
            match random.below(4) {
                0 => drop(text.drain(at..at + length)),
                1 => text.splice(at..at, random.pick(WORDS).chars()).for_each(drop),
                2 => {
                    let copy = text[at..at + length].to_vec();
                    let to = random.below(text.len() + 1);
                    text.splice(to..to, copy).for_each(drop);
                }
                _ => text.splice(at..at + length, random.pick(WORDS).chars()).for_each(drop),
            }
        }
        clean += run(&text.into_iter().collect::<String>());
    }
    assert!(clean > 20, "mutations of correct programs are sometimes correct: {clean}");
}

#[test]
fn huge_numbers_end_in_a_diagnostic_or_a_kernel() {
    let numbers = [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
        "99999999999999999999",
        "0xffffffffffffffff",
        "1 << 63",
        "1 << 64",
        "-(1 << 63) - 1",
        "1e308",
        "1e999",
        "18446744073709551615 * 18446744073709551615",
        "~18446744073709551615",
        "1 / 0",
        "1 % 0",
        "1 << -1",
        "-9223372036854775808 / -1",
        "BIG",
        "BIG * BIG",
        "-BIG * BIG * BIG",
        "(BIG * BIG - BIG * BIG - BIG) << 63",
    ];
    for number in numbers {
        for form in [
            "X[@] = 1.0",
            "X[@ :+ 4] = 1.0",
            "X[0 :+ @] = 1.0",
            "X[@ : @ + 4] = 1.0",
            "X[0 : @] = 1.0",
            "X[@ : @] = 1.0",
            "let a = reshape(X[0 :+ 4], [@, @])",
            "let a = broadcast(1.0, [@, @, @, @])",
            "let a = flat(broadcast(1.0, [@, @, @, @]))",
            "let a = iota([4], @)",
            "let a = sum(X[0 :+ 4], @)",
            "let a = program_id(@)",
            "for i in range(@, @, @) { X[i * (@)] = 1.0 }",
            "let a = i8(@)",
            "let a: u32 = @",
            "let a = X[0 :+ 4]\n let b = a[@]",
            "let a = X[0 :+ 4]\n let b = a[@ :+ 2]",
            "let a = n << (@)",
            "let a = f16(@)",
            "let a = X[(n + @) * (n - (@)) * (n * (@))]",
            "while @ > n { }",
            "let a: tile<f32>[@] = 1.0",
            "var a: tile<f32>[4] = 1.0\n a[@ :+ 2] = 2.0",
            "let a = min(@, n) + max(@, @) + abs(@)",
        ] {
            for attribute in [
                "",
                "#autotune(T in [@])",
                "#autotune(T in [1, 2] where T * (@) > (@) << T)",
                "#grid(@)",
                "#launch(@)",
                "#aligned(N = @)",
            ] {
                let text = format!(
                    "const BIG = 18446744073709551615\n{attribute}\nkernel k(X: tensor<f32>[N], n: i64) {{\n {form}\n X[program_id(0)] = 0.0\n}}"
                );
                run(&text.replace('@', &format!("({number})")).replace('#', "@"));
            }
            let text = "kernel k(X: tensor<f32>[@]) { X[0] = 1.0 }".replace('@', number);
            run(&text);
        }
    }
}
