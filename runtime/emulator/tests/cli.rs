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
        out.contains("schedule converged: no faults") && out.contains("2 hostile schedules: no faults"),
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

/// A PTX file of its own for a test.
fn file(name: &str, body: &str) -> String {
    let folder = std::env::temp_dir().join(format!("phobos-emu-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("k.ptx");
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry _Z4spinPj(.param .u64 y)\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n.shared .align 4 .b8 tile[128];\n\
         ld.param.u64 %rd0, [y];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, 4;\nadd.u64 %rd1, %rd0, %rd1;\n\
         shl.b32 %r1, %r0, 2;\nmov.u32 %r2, tile;\nadd.u32 %r1, %r1, %r2;\n{body}\nret;\n}}\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Exchanges neighbours through shared memory, with `between` in the middle.
fn exchange(between: &str) -> String {
    format!(
        "st.shared.u32 [%r1], %r0;\n{between}\nxor.b32 %r3, %r1, 4;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd1], %r4;"
    )
}

#[test]
fn one_summary_over_all_schedules() {
    let racy = file("summary", &exchange(""));
    let args = ["--arg", "u32:32", "--no-counters", "--schedules", "51"];
    let run = |extra: &[&str]| emu(&[&[racy.as_str()], &args[..], extra].concat());
    let (code, out, _) = run(&[]);
    assert_eq!((code, out.matches("race within a warp").count()), (1, 1), "{out}");
    assert!(out.contains("in 51 of 51 schedules, first in converged"), "{out}");
    assert!(
        out.contains("kernel spin(unsigned int*)") && out.contains("50 hostile schedules: faults in 50"),
        "{out}"
    );
    // What is allowed passes, by kind, by file and by line.
    let line =
        fs::read_to_string(&racy).unwrap().lines().position(|line| line.starts_with("ld.shared")).unwrap()
            + 1;
    for spec in ["warp_race", "k.ptx", &format!("k.ptx:{line}"), &format!("warp_race@k.ptx:{line}")] {
        let (code, out, _) = run(&["--allow", spec, "--allow", "schedule_dependent"]);
        assert!(code == 0 && out.contains(" allowed\n"), "{spec}: {out}");
    }
    for spec in ["shared_race", "other.ptx", "warp_race@k.ptx:1"] {
        assert_eq!(run(&["--allow", spec]).0, 1, "{spec}");
    }
    assert!(run(&["--allow", "warprace"]).2.contains("neither a kind of report nor a file"));
    let (_, out, _) = run(&["--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let report = &json["summary"]["reports"][0];
    assert_eq!((&json["version"], &report["schedules"]), (&Value::from(1), &Value::from(51)));
    assert_eq!((report["kind"].as_str(), report["level"].as_str()), (Some("warp_race"), Some("fault")));
}

#[test]
fn notes_fail_only_when_asked() {
    let path = file("notes", &exchange("bar.sync 0;").replace("%r4;", "%r8;"));
    let args = [path.as_str(), "--kernel", "spin", "--arg", "u32:32", "--no-counters"];
    let run = |extra: &[&str]| emu(&[&args[..], extra].concat());
    let (code, out, _) = run(&[]);
    assert!(
        code == 0 && out.contains("no faults, 1 note") && out.contains("note: uninitialised value stored"),
        "{out}"
    );
    assert_eq!(run(&["--deny", "notes"]).0, 1);
    assert_eq!(run(&["--deny", "uninitialized_store"]).0, 1);
    assert_eq!(run(&["--deny", "same_value_race"]).0, 0);
    // Compared output is no padding.
    let other = format!("{path}.out");
    fs::write(&other, vec![0; 128]).unwrap();
    let (code, out, _) = run(&["--check-out", &other]);
    assert!(
        code == 1 && out.contains("fault: uninitialised output: argument 0 is compared and 128 of its bytes"),
        "{out}"
    );
}

#[test]
fn a_replay_keeps_the_data_and_changes_the_schedule() {
    let path = file(
        "replay",
        &exchange("").replace("st.shared", "st.volatile.shared").replace("ld.shared", "ld.volatile.shared"),
    );
    let out = |extra: &[&str]| {
        let args = [path.as_str(), "--arg", "u32:random:32", "--no-counters", "--print", "32"];
        emu(&[&args[..], extra].concat()).1
    };
    let printed = |text: &str| text.lines().find(|line| line.starts_with("argument 0:")).unwrap().to_owned();
    let seeds: Vec<String> = (1..12).map(|seed| printed(&out(&["--replay", &seed.to_string()]))).collect();
    assert!(seeds.iter().any(|line| *line != seeds[0]));
    assert_eq!(printed(&out(&["--replay", "3"])), seeds[2]);
    assert!(out(&["--replay", "3"]).contains("schedule hostile, seed 3"));
    let text = out(&["--schedules", "12"]);
    assert!(
        text.contains("fault: output depends on the schedule: argument 0 is not the same in hostile, seed"),
        "{text}"
    );
}

#[test]
fn limits_print_what_was_found() {
    let path = file("endless", &format!("{}\nLOOP:\nbra LOOP;", exchange("")));
    let args = [path.as_str(), "--arg", "u32:32", "--no-counters"];
    let (code, out, _) = emu(&[&args[..], &["--max-instructions", "100000"]].concat());
    assert!(code == 1 && out.contains("race within a warp") && out.contains("in the loop:"), "{out}");
    let (code, out, _) = emu(&[&args[..], &["--timeout", "0"]].concat());
    assert!(code == 1 && out.contains("fault: interrupted: ended by its time limit"), "{out}");
}

#[test]
fn mutation_tells_needed_barriers_from_others() {
    let path = file(
        "mutate",
        &exchange("bar.sync 0;")
            .replace("xor.b32", "bar.warp.sync -1;\nxor.b32")
            .replace("st.global", "bar.sync 0;\nst.global"),
    );
    let args =
        [path.as_str(), "--arg", "u32:32", "--no-counters", "--mutate", "barriers", "--schedules", "3"];
    let (code, out, _) = emu(&args);
    assert_eq!(code, 0, "{out}");
    let verdicts: Vec<&str> = out.lines().filter(|line| line.contains("needed")).collect();
    assert_eq!(verdicts.len(), 3, "{out}");
    assert!(
        verdicts.iter().all(|line| line.contains("  not needed: the same without it in 3 schedules")),
        "{out}"
    );
    let single = file("mutate1", &exchange("bar.warp.sync -1;"));
    let args =
        [single.as_str(), "--arg", "u32:32", "--no-counters", "--mutate", "barriers", "--schedules", "3"];
    let (_, out, _) = emu(&args);
    assert!(out.contains("bar.warp.sync -1;  needed: without it race within a warp at line"), "{out}");
}

/// Fails where a value lacks what the schema requires of it.
fn conforms(value: &Value, schema: &Value, root: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).unwrap();
        return conforms(value, target, root, at);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        conforms(value, part, root, at);
    }
    if let Some(choices) = schema["enum"].as_array() {
        assert!(choices.contains(value), "{at}: {value}");
    }
    if let Some(types) = schema.get("type") {
        let list = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        let is = |name: &str| match name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            _ => value.is_null(),
        };
        assert!(list.iter().any(|name| is(name.as_str().unwrap())), "{at} is no {types}: {value}");
    }
    for name in schema["required"].as_array().into_iter().flatten().filter(|_| value.is_object()) {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at} lacks {name}");
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(inner) = value.get(name) {
            conforms(inner, part, root, &format!("{at}.{name}"));
        }
    }
    for inner in value.as_array().into_iter().flatten().filter(|_| schema.get("items").is_some()) {
        conforms(inner, &schema["items"], root, at);
    }
}

#[test]
fn the_json_keeps_to_its_schema() {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/emulator.schema.json")).unwrap();
    let path = file("schema", &exchange(""));
    let args = [
        path.as_str(),
        "--arg",
        "u32:32",
        "--json",
        "--schedules",
        "3",
        "--print",
        "2",
        "--mutate",
        "barriers",
    ];
    let (_, out, _) = emu(&args);
    let json: Value = serde_json::from_str(&out).unwrap();
    conforms(&json, &schema, &schema, "$");
    let names = |value: &Value| {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(&schema["properties"]), names(&json));
}
