//! Whose fault an error is, and what `phobos-compile` says on the way: with the real program.
#![allow(clippy::unwrap_used)]

use phobos_dialect::{
    Module, Op, PassError,
    driver::{new_context, register_mlir_passes, run_pipeline},
    ir,
    pass::{Fault, Options, Pass, PassFn, register},
};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn compile(folder: &Path, text: &str, arguments: &[&str]) -> Output {
    fs::write(folder.join("k.ph"), text).unwrap();
    run(folder, &[&["k.ph", "--chip", "host", "-o", "out"], arguments].concat())
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_phobos-compile");
    Command::new(program).current_dir(folder).args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn conditions_choose_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = "@autotune(T in [16, 32, 64, 128], S in [16, 32] where T << 1 <= 64, S <= T)
kernel k(X: tensor<f32>[N]) {
  let i = program_id(0) * T
  X[i :+ T] = f32(sum(iota([S], 0), 0))
}";
    let output = compile(folder.path(), text, &["--explain"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("S=32 T=32"), "{}", stderr(&output));
    for (flags, wanted) in [
        (
            ["--param", "T=64"].as_slice(),
            "--param T=64: no candidate of kernel `k` satisfies its conditions: `T << 1 <= 64` is false for T = 64",
        ),
        (
            &["--param", "T=16", "--param", "S=32"],
            "--param S=32 --param T=16: no candidate of kernel `k` satisfies its conditions: `S <= T` is false for S = 32, T = 16",
        ),
        (&["--param", "S=64"], "`S <= T` is false for S = 64, T = 32"),
    ] {
        let output = compile(folder.path(), text, flags);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
}

#[test]
fn a_fault_has_its_code_and_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    for (text, code, wanted) in [
        // The program is right and its bound values are not.
        (
            "@autotune(T in [8])
kernel k(X: tensor<f32>[N, K], Y: tensor<f32>[N, K]) {
  let i = program_id(0) * 4
  Y[i :+ 4, 0 :+ 8] = reshape(reshape(X[i :+ 4, 0 :+ 8], [8, 4]), [4, 8])
}",
            2,
            "error[PH0062]: this reshape merges or splits axes",
        ),
        // A dim that must be bound stands where it is an extent.
        (
            "@grid(1)
kernel k(X: tensor<f32>[N, D], Y: tensor<f32>[D]) {
  Y[:] = X[0, :]
}",
            2,
            "error[PH0030]: the dim `D` is the extent of a tile here and is not bound\n --> k.ph:3:5",
        ),
        // What is missing says the way around it.
        (
            "@grid(1)
kernel k(X: tensor<f32>[N], Y: tensor<f32>[1]) {
  let x = X[0 :+ 8]
  let m: f32 = sum(x, 0)
  Y[0] = m
}",
            2,
            "error[PH0060]: a tile of one element where a scalar is needed is not available yet",
        ),
        (
            "@grid(1)
kernel k(X: tensor<f32>[N], Y: tensor<f32>[1]) {
  let x = X[0 :+ 8]
  Y[0] = x[0]
}",
            2,
            "error[PH0060]: reading one element of a tile is not available yet",
        ),
    ] {
        let output = compile(folder.path(), text, &[]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "{wanted}: {}", stderr(&output));
    }
}

#[test]
fn paths_are_explained_at_every_stage_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let text = "kernel k(X: tensor<f32>[N]) { X[program_id(0) * 8 :+ 8] = 1.0 }";
    for stage in ["host", "llvm", "asm", "obj"] {
        let output = compile(folder.path(), text, &["--explain", "--emit", stage]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("k for host-") && stderr(&output).contains("  grid "), "{stage}");
    }
    for stage in ["tile", "specialized"] {
        let output = compile(folder.path(), text, &["--explain", "--emit", stage]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(&format!("--explain: `--emit {stage}`")), "{}", stderr(&output));
    }
    // The place of the flag changes nothing, and a code stands where a file does.
    for order in [["--explain", "k.ph"], ["k.ph", "--explain"]] {
        let output = run(folder.path(), &[&order[..], &["--chip", "host", "-o", "out"]].concat());
        assert!(output.status.success() && stderr(&output).contains("  grid "), "{}", stderr(&output));
    }
    for order in [["--explain", "PH0012"], ["PH0012", "--explain"]] {
        let output = run(folder.path(), &order);
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("PH0012: "), "{}", stderr(&output));
    }
    assert_eq!(run(folder.path(), &["--explain", "PH0012", "k.ph"]).status.code(), Some(2));
    assert_eq!(run(folder.path(), &["--explain", "PH9999"]).status.code(), Some(2));
}

#[test]
fn a_file_under_several_paths_is_imported_once() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("imp");
    fs::create_dir(&inner).unwrap();
    std::os::unix::fs::symlink("c2.ph", inner.join("link.ph")).unwrap();
    fs::write(inner.join("c2.ph"), "import \"self.ph\"\nconst C = 2.0\n").unwrap();
    let text = "import \"self.ph\"\nimport \"c2.ph\"\nimport \"../imp/c2.ph\"\nimport \"link.ph\"
@grid(1)
kernel k(X: tensor<f32>[N]) { X[0] = C }";
    fs::write(inner.join("self.ph"), text).unwrap();
    for (from, path) in
        [(folder.path(), "imp/self.ph"), (inner.as_path(), "self.ph"), (inner.as_path(), "../imp/self.ph")]
    {
        let output = run(from, &[path, "--chip", "host", "-o", "out"]);
        assert!(output.status.success(), "{path}: {}", stderr(&output));
    }
}

#[test]
fn warnings_leave_the_result_and_the_exit_status_alone() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = |comment: &str| {
        format!("kernel k(X: tensor<f32>[N]) {{\n  let i = program_id(0) {comment}\n  X[i :+ 1] = 1.0\n}}")
    };
    let emit = |comment: &str, more: &[&str]| {
        fs::write(folder.path().join("k.ph"), kernel(comment)).unwrap();
        run(folder.path(), &[&["k.ph", "--chip", "host", "--emit", "llvm"], more].concat())
    };
    let (plain, warned, json) =
        (emit("// the place", &[]), emit("// 2", &[]), emit("// 2", &["--message-format", "json"]));
    assert!(plain.status.success() && warned.status.success() && json.status.success());
    assert!(!plain.stdout.is_empty() && plain.stdout == warned.stdout && plain.stdout == json.stdout);
    assert_eq!(stderr(&plain), "");
    assert!(stderr(&warned).starts_with("warning[PH0070]"), "{}", stderr(&warned));
    let lines: Vec<serde_json::Value> =
        stderr(&json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["severity"], "warning");
}

const fn pass(name: &'static str, run: PassFn) -> Pass {
    Pass { name, description: "", anchor: "builtin.module", options: &[], run }
}

fn broken<'c>(module: Op<'c>, _: &Options<'_>) -> Result<(), PassError> {
    for op in ir::collect(module).into_iter().filter(|op| ir::name(*op) == "func.return") {
        ir::erase(op);
    }
    Ok(())
}

static PASSES: [Pass; 6] = [
    pass("fault-user", |op, _| Err(PassError::user(op, "internal error: is what it says"))),
    pass("fault-unsupported", |op, _| Err(PassError::unsupported(op, "not yet"))),
    pass("fault-internal", |op, _| Err(PassError::internal(op, "a promise"))),
    pass("fault-legacy", |op, _| Err(PassError::at(op, "internal error: a promise"))),
    pass("fault-legacy-text", |op, _| Err(PassError::at(op, "not yet"))),
    // What no pass reports, a verifier say, is the compiler's fault.
    pass("fault-broken", broken),
];

#[test]
fn reports_carry_whose_fault_they_are() {
    register(&PASSES);
    register_mlir_passes();
    let context = new_context();
    for (name, fault, message) in [
        ("fault-user", Fault::User, "internal error: is what it says"),
        ("fault-unsupported", Fault::Unsupported, "not yet"),
        ("fault-internal", Fault::Internal, "a promise"),
        ("fault-legacy", Fault::Internal, "a promise"),
        ("fault-legacy-text", Fault::Unsupported, "not yet"),
        ("fault-broken", Fault::Internal, "block"),
        ("no-such-pass", Fault::Internal, "no-such-pass"),
    ] {
        let text = "func.func @f() { func.return }";
        let mut module = Module::parse(&context, text).expect("the text is a module");
        let error = run_pipeline(&context, &mut module, &format!("builtin.module({name})"));
        let reports = error.expect_err("every one of these passes fails").0;
        assert!(!reports.is_empty() && reports.iter().all(|report| report.fault == fault), "{reports:?}");
        assert!(reports[0].message.contains(message), "{reports:?}");
    }
}
