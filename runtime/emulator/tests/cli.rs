//! `phobos-emu` as people run it.
#![allow(clippy::unwrap_used)]

use std::{fs, process::Command};

use serde_json::Value;

fn foreign(name: &str) -> String {
    format!("{}/tests/foreign/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Exit code, stdout and stderr.
fn emu(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_phobos-emu")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn results_and_counters_of_a_foreign_kernel() {
    let file = foreign("kernels.ptx");
    let args = ["--kernel", "collatz", "--arg", "u32:iota:32", "--arg", "u32:32", "--arg", "i32=32"];
    let (code, out, _) = emu(&[&[file.as_str()], &args[..], &["--print", "12", "--schedules", "3"]].concat());
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("argument 1: 0 0 1 7 2 5 8 16 3 19 6 14\n"), "{out}");
    assert!(
        out.contains("schedule converged: no faults") && out.contains("hostile, seed 2: no faults"),
        "{out}"
    );
    assert!(out.contains("warp efficiency 17.2 %") && out.contains("kernels.cu:46"), "{out}");
    let (code, out, _) = emu(&[&[file.as_str()], &args[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json["counters"]["total"]["lane_instructions"], 5018);
    assert_eq!(json["counters"]["by_class"]["load_global"], 32);
    assert_eq!(json["runs"][0]["faults"], Value::Array(Vec::new()));
}

#[test]
fn a_race_is_reported_with_both_lines_and_exit_code_1() {
    let file = foreign("kernels.ptx");
    let args = |kernel: &'static str| {
        let list =
            ["--kernel", kernel, "--grid", "2,2", "--block", "16,16", "--arg", "f32:random:1024", "--arg"];
        [&list[..], &["f32:random:1024", "--arg", "f32:1024", "--arg", "i32=32"]].concat()
    };
    let (code, out, _) = emu(&[&[file.as_str(), "--no-counters"], &args("racy_matmul")[..]].concat());
    assert_eq!(code, 1);
    let race = out.split("fault: ").nth(1).unwrap();
    assert!(race.contains("(kernels.cu:115)") && race.contains("(kernels.cu:119)"), "{out}");
    assert!(race.contains("st.shared.f32") && race.contains("ld.shared.f32"), "{out}");
    let (code, out, _) = emu(&[&[file.as_str(), "--schedules", "4"], &args("tiled_matmul")[..]].concat());
    assert_eq!(code, 0, "{out}");
}

#[test]
fn outputs_to_files_and_comparison() {
    let folder = std::env::temp_dir().join(format!("phobos-emu-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("steps").display().to_string();
    let file = foreign("kernels.ptx");
    let args = ["--kernel", "collatz", "--arg", "u32:iota:32", "--arg", "u32:zero:32", "--no-counters"];
    let run = |extra: &[&str]| emu(&[&[file.as_str()], &args[..], extra].concat());
    assert_eq!(run(&["--arg", "i32=32", "--write-out", &path]).0, 0);
    let mut steps = fs::read(&path).unwrap();
    assert_eq!((steps.len(), steps[4 * 27]), (128, 111));
    let (code, out, _) = run(&["--arg", "i32=32", "--check-out", &format!("1:{path}"), "--schedules", "3"]);
    assert_eq!((code, out.matches("argument 1 equals").count()), (0, 3), "{out}");
    steps[12] ^= 1;
    fs::write(&path, steps).unwrap();
    let (code, out, _) = run(&["--arg", "i32=32", "--check-out", &path]);
    assert!(code == 1 && out.contains("at byte 12"), "{out}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_output_beyond_the_limit_of_files_is_an_error_and_not_half_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps");
    fs::write(&path, "before").unwrap();
    let script = format!(
        "ulimit -f 0; exec '{}' '{}' --kernel collatz --arg u32:iota:32 --arg u32:zero:32 --arg i32=32 \
         --no-counters --write-out '{}'",
        env!("CARGO_BIN_EXE_phobos-emu"),
        foreign("kernels.ptx"),
        path.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{:?} {stderr}", output.status);
    assert!(stderr.contains(&format!("{}: File too large", path.display())), "{stderr}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
}

#[test]
fn what_cannot_be_used_is_exit_code_2_and_one_line() {
    let file = foreign("kernels.ptx");
    let wrong = |args: &[&str], part: &str| {
        let (code, out, err) = emu(args);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(part), "{err}");
    };
    wrong(&["nothing.ptx"], "error: nothing.ptx: ");
    wrong(&[&file], "--kernel is needed: the file has block_reduce, histogram");
    wrong(&[&file, "--kernel", "nope"], "no kernel `nope`; it has block_reduce");
    wrong(&[&file, "--kernel", "collatz"], "takes 3 arguments, 0 given: collatz_param_0 (u64)");
    wrong(&[&file, "--kernel", "collatz", "--arg", "q7:3"], "unknown type `q7`");
    wrong(&[&file, "--grid", "1,2,3,4"], "more than three extents");
    let args = ["--kernel", "collatz", "--arg", "u32:1", "--arg", "u32:1"];
    wrong(&[&[file.as_str()], &args[..], &["--arg", "i64=1"]].concat(), "8 bytes for the parameter");
    wrong(
        &[&[file.as_str()], &args[..], &["--arg", "i32=1", "--block", "2000"]].concat(),
        "the limit of sm_75 is 1024",
    );
    let source = foreign("kernels.cu");
    wrong(&[&source], "kernels.cu:3:1: unexpected character '#'");
}
