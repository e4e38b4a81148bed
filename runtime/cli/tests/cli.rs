//! The real binaries: exit codes, what goes to which stream, what a person reads.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use phobos_worker::fingerprint::version_line;

const CLI: &str = env!("CARGO_BIN_EXE_phobos-cli");
const BENCH: &str = env!("CARGO_BIN_EXE_phobos-bench");

fn tiny() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tests/goldens/llama-f32.gguf");
    path.to_str().unwrap().to_owned()
}

/// A command with nothing of the caller's environment that matters, and no kernel cache.
fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_remove("PHOBOS_DEVICE").env("PHOBOS_KERNEL_CACHE_DIR", "").stdin(Stdio::null());
    command
}

fn cli(args: &[&str]) -> Output {
    command(CLI, args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks for a failure of `code` whose one line on standard error begins with `error: ` and
/// has all of `parts`, and for an empty standard output.
#[track_caller]
fn assert_fails(output: &Output, code: i32, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    let told = |line: &&str| !line.starts_with("compiling kernels ") && !line.starts_with("kernels: ");
    let errors: Vec<&str> = stderr.lines().filter(told).collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    assert!(errors[0].starts_with("error: "), "{stderr}");
    for part in parts {
        assert!(errors[0].contains(part), "`{part}` is not in: {stderr}");
    }
}

/// A hostile GGUF file: counts far beyond its 4 KiB.
fn hostile(folder: &Path) -> String {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.resize(4096, 0xff);
    let path = folder.join("hostile.gguf");
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_hostile_file_ends_in_one_line_that_names_file_place_and_field() {
    let folder = tempfile::tempdir().unwrap();
    let path = hostile(folder.path());
    for args in [&["inspect", &path][..], &["--gguf", &path, "hi"], &["--gguf", &path, "--no-mmap", "hi"]] {
        // With 1 GiB of address space an allocation from the counts would abort.
        let limited = ["-c", "ulimit -v 1048576; exec \"$0\" \"$@\"", CLI];
        let output = command("sh", &[&limited[..], args].concat()).output().unwrap();
        assert_fails(&output, 2, &["hostile.gguf: at byte 8: tensor count: "]);
    }
}

#[test]
fn files_that_cannot_be_opened() {
    for args in [&["--gguf", "/nowhere/m.gguf", "hi"][..], &["inspect", "/nowhere/m.gguf"]] {
        assert_fails(&cli(args), 2, &["/nowhere/m.gguf: "]);
    }
    assert_fails(&cli(&["inspect", "/"]), 2, &["/: "]);
}

#[test]
fn wrong_flags_exit_with_2_and_say_so_on_standard_error() {
    for args in [
        &["--gguf", "m", "--frobnicate"][..],
        &["--gguf", "m", "-n", "0", "x"],
        &["--gguf", "m", "--threads", "0", "x"],
        &["--gguf", "m", "--act", "q4", "x"],
        &["--gguf", "m", "--kv", "i8", "x"],
        &[],
        &["inspect"],
    ] {
        let output = cli(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{args:?}");
    }
    assert_fails(&cli(&["--gguf", "m", "-t", "-1", "x"]), 2, &["temperature is -1: "]);
    assert_fails(&cli(&["--gguf", "m", "--repetition-penalty", "0", "x"]), 2, &["repetition penalty is 0: "]);
    assert_fails(&cli(&["--gguf", "m", "--raw"]), 2, &["--raw needs a PROMPT"]);
}

#[test]
fn what_cannot_be_honoured_names_flag_and_way_out() {
    let tiny = tiny();
    let fails = |args: &[&str], parts: &[&str]| {
        assert_fails(&cli(&[&["--gguf", tiny.as_str(), "hi"], args].concat()), 2, parts);
    };
    fails(&["--ctx", "513"], &["--ctx 513: the model has 1 to 512 positions"]);
    fails(&["--device", "gpu"], &["unknown device `gpu`"]);
    let output = command(CLI, &["--gguf", &tiny, "hi"]).env("PHOBOS_DEVICE", "gpu").output().unwrap();
    assert_fails(&output, 2, &["unknown device `gpu`"]);
}

#[test]
fn version_and_help() {
    for (program, name) in [(CLI, "phobos-cli"), (BENCH, "phobos-bench")] {
        for flag in ["--version", "-V"] {
            let output = command(program, &[flag]).output().unwrap();
            assert!(output.status.success());
            assert_eq!(text(&output.stdout), format!("{}\n", version_line(name)));
        }
        let output = command(program, &["--help"]).output().unwrap();
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(&format!("{name} --gguf model.gguf")));
    }
}

#[test]
fn inspect_prints_text_and_json() {
    let output = cli(&["inspect", &tiny(), "--tensors"]);
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("llama.block_count"));
    assert!(text(&output.stdout).contains("blk.3.ffn_down.weight"));
    assert!(!text(cli(&["inspect", &tiny()]).stdout.as_slice()).contains("blk.3.ffn_down.weight"));

    let output = cli(&["inspect", &tiny(), "--json", "--tensors"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["tensors"].as_array().unwrap().len(), 39);
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = cli(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("repetition-penalty"), "{shell}");
    }
}

/// `phobos-cli ... | head` is no error.
#[test]
fn a_reader_that_is_gone_ends_the_program_quietly() {
    for args in [&["inspect", &tiny(), "--tensors"][..], &["completions", "zsh"], &["--version"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(CLI, args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn without_a_compiler_the_error_says_how_to_build_it() {
    let mut command = command(CLI, &["--gguf", &tiny(), "hi"]);
    let output = command.env("PHOBOS_COMPILE", "/nowhere/phobos-compile").output().unwrap();
    assert_fails(&output, 1, &["/nowhere/phobos-compile", "cargo build --release -p phobos-driver"]);
}

/// An executable that takes requests and never answers; it ends with its input.
fn silent_compiler(folder: &Path) -> PathBuf {
    let path = folder.join("phobos-compile");
    fs::write(&path, "#!/bin/sh\nexec cat > /dev/null\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn ctrl_c_while_kernels_are_compiled_exits_with_130() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = silent_compiler(folder.path());
    let mut child = command(CLI, &["--gguf", &tiny(), "hi"])
        .env("PHOBOS_COMPILE", compiler)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("compiling kernels 0/"), "{line}");
    // The shell's own kill: a small system has no other.
    let killed = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(130), ""));
}

/// Runs with the real compiler and a kernel cache; `None`, and a word on standard error, when
/// there is no compiler.
fn with_compiler(cache: &Path, args: &[&str], input: &str) -> Option<Output> {
    program_with_compiler(CLI, cache, args, input)
}

fn program_with_compiler(program: &str, cache: &Path, args: &[&str], input: &str) -> Option<Output> {
    let mut child = command(program, args)
        .env("PHOBOS_KERNEL_CACHE_DIR", cache)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    if stderr.contains("phobos-compile, which compiles kernels, was not found") {
        assert!(std::env::var_os("PHOBOS_REQUIRE_COMPILER").is_none_or(|v| v != "1"), "{stderr}");
        eprintln!("skipped: {stderr}");
        return None;
    }
    Some(output)
}

#[test]
fn only_the_models_text_goes_to_standard_output() {
    let (tiny, cache) = (tiny(), tempfile::tempdir().unwrap());
    let args = ["--gguf", &tiny, "--raw", "-n", "5", "-t", "0", "--kv", "f32", "hello world"];
    let Some(cold) = with_compiler(cache.path(), &args, "") else { return };
    let stderr = text(&cold.stderr);
    assert!(cold.status.success(), "{stderr}");
    assert!(stderr.starts_with("compiling kernels 0/"), "{stderr}");
    assert!(stderr.contains("tokens/s") && stderr.contains("cut at --num"), "{stderr}");
    assert!(text(&cold.stdout).ends_with('\n'));
    assert!(!text(&cold.stdout).contains("compiling"));

    // The same answer from a warm cache, with another number of threads and without a map.
    let more = [&args[..], &["--threads", "1", "--no-mmap"]].concat();
    let warm = with_compiler(cache.path(), &more, "").unwrap();
    assert_eq!(warm.stdout, cold.stdout);
    let stderr = text(&warm.stderr);
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    assert!(stderr.starts_with("kernels: 0 compiled, 17 cached\nprompt "), "{stderr}");
}

/// The `kernels: N compiled, M cached` of a run.
fn kernels(output: &Output) -> (u32, u32) {
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line = stderr.lines().find_map(|line| line.strip_prefix("kernels: ")).unwrap();
    let (compiled, cached) = line.split_once(" compiled, ").unwrap();
    (compiled.parse().unwrap(), cached.strip_suffix(" cached").unwrap().parse().unwrap())
}

#[test]
fn two_programs_that_start_together_compile_each_kernel_once() {
    let (tiny, cache) = (tiny(), tempfile::tempdir().unwrap());
    let args = ["--gguf", &tiny, "--raw", "-n", "3", "-t", "0", "hello world"];
    let start = || with_compiler(cache.path(), &args, "");
    let (one, two) = std::thread::scope(|scope| {
        let two = scope.spawn(start);
        (start(), two.join().unwrap())
    });
    let (Some(one), Some(two)) = (one, two) else { return };
    assert_eq!(one.stdout, two.stdout);
    let (one, two) = (kernels(&one), kernels(&two));
    assert_eq!((one.0 + one.1, two.0 + two.1, one.0 + two.0), (17, 17, 17), "{one:?} {two:?}");
    assert_eq!(kernels(&start().unwrap()), (0, 17));
}

/// What is recorded is decided before anything is compiled, so no compiler is needed.
#[test]
fn a_manifest_has_the_kernels_of_every_format_and_no_chip() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = tiny();
    let record = |program: &str, args: &[&str], device: &str| {
        let manifest = folder.path().join(format!("{}-{device}", program.rsplit('/').next().unwrap()));
        let output = command(program, &[&["--gguf", &tiny, "--device", device], args].concat())
            .env("PHOBOS_COMPILE", "/nowhere/phobos-compile")
            .env("PHOBOS_KERNEL_MANIFEST", &manifest)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let mut files: Vec<(String, String)> = fs::read_dir(manifest)
            .unwrap()
            .map(|item| item.unwrap())
            .map(|item| (item.file_name().into_string().unwrap(), fs::read_to_string(item.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let files = record(CLI, &["-n", "1", "hi"], "host");
    assert_eq!(record(BENCH, &["--prompt-tokens", "1", "--gen-tokens", "1"], "host"), files);
    // In 15 elements: 3 batch sizes of 2 linear kernels and a gated unit, and the output layer;
    // a table of 64 columns in the 9 whose blocks divide them, and 6 kernels without weights.
    assert_eq!(files.len(), (3 * 3 + 1) * 15 + 9 + 6);
    for element in ["f32", "f16", "bf16", "q4_0", "q4_1", "q8_0"] {
        let of = |kernel: &str| {
            let has = |(name, recipe): &&(String, String)| {
                name.starts_with(&format!("{kernel}-")) && recipe.contains(&format!("\"F\": \"{element}\""))
            };
            files.iter().filter(has).count()
        };
        let kernels = ["embed", "linear", "qkv", "linear_add", "swiglu"];
        assert_eq!(kernels.map(of), [1, 1, 3, 3, 3], "{element}");
    }
    assert!(files.iter().all(|(_, recipe)| !recipe.contains("x86-64") && !recipe.contains("chip")));
}

/// Which precision is asked for decides kernels, not their number: a q8 run of a model of
/// scalars records those of quantised ones too.
#[test]
fn a_manifest_of_rounded_activations_has_their_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("manifest");
    let tiny = tiny();
    let output = command(CLI, &["--gguf", &tiny, "--act", "q8", "-n", "1", "hi"])
        .env("PHOBOS_COMPILE", "/nowhere/phobos-compile")
        .env("PHOBOS_KERNEL_MANIFEST", &manifest)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let recipes: Vec<String> = fs::read_dir(manifest)
        .unwrap()
        .map(|item| fs::read_to_string(item.unwrap().path()).unwrap())
        .collect();
    let count = |parts: &[&str]| {
        recipes.iter().filter(|recipe| parts.iter().all(|part| recipe.contains(part))).count()
    };
    // Products with q4_1 of one row, and of a few and many; with f16 none.
    let weights = "\"F\": \"q4_1\"";
    assert_eq!(count(&[weights, "\"A\": \"q16_1\""]), 4);
    assert_eq!(count(&[weights, "\"A\": \"q8_1\""]), 6);
    assert_eq!(count(&["\"F\": \"f16\"", "\"A\": \"q"]), 0);
    // The producers: norm, attention of one row and joined, gated unit.
    assert!(count(&["\"B\": \"q16_1\""]) >= 4 && count(&["\"B\": \"q8_1\""]) >= 4);
}

#[test]
fn a_bench_fills_the_context_to_its_depth() {
    let (tiny, cache) = (tiny(), tempfile::tempdir().unwrap());
    let measured = ["--prompt-tokens", "3", "--gen-tokens", "2", "--repeat", "2", "--json"];
    let bench = |more: &[&str]| {
        let args = [&["--gguf", &tiny], &measured[..], more].concat();
        program_with_compiler(BENCH, cache.path(), &args, "")
    };
    let Some(output) = bench(&["--depth", "9"]) else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["depth"], &json["act"]), (&9.into(), &"f32".into()));
    assert!(json["peak_resident_bytes"].as_u64().unwrap() > 1 << 20);
    for part in ["prompt", "generation"] {
        assert_eq!(json[part]["tokens_per_second"].as_array().unwrap().len(), 2);
    }
    // 9 tokens and 3 more need 12 positions, and no pass starts with what the one before left.
    assert!(bench(&["--depth", "9", "--ctx", "12"]).unwrap().status.success());
    assert!(!bench(&["--depth", "9", "--ctx", "11"]).unwrap().status.success());
}

#[test]
fn a_model_without_a_chat_template_has_no_conversation() {
    let cache = tempfile::tempdir().unwrap();
    let Some(output) = with_compiler(cache.path(), &["--gguf", &tiny()], "hello\n") else { return };
    assert_fails(&output, 2, &["llama-f32.gguf: no chat template"]);
}

#[test]
fn a_conversation_with_smollm2() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.is_file() {
        eprintln!("skipped: {} is not there; `cargo xtask demo` fetches it", model.display());
        return;
    }
    let args = ["--gguf", model.to_str().unwrap(), "-t", "0", "-n", "8"];
    let question = "What is the capital of France?";
    let lines = format!("{question}\nAnd of Italy?\n/wat\n/reset\n{question}\n/exit\nnever read\n");
    let cache = tempfile::tempdir().unwrap();
    let Some(output) = with_compiler(cache.path(), &args, &lines) else { return };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let rates: Vec<&str> = stderr.lines().filter(|line| line.contains("tokens/s")).collect();
    assert_eq!(rates.len(), 3, "{stderr}");
    assert!(rates[1].contains(" known)"), "the second turn reads the first again: {stderr}");
    assert!(!rates[2].contains(" known)"), "/reset forgets: {stderr}");
    assert!(stderr.contains("error: unknown command `/wat`"), "{stderr}");
    assert!(stdout.contains("Paris"), "{stdout}");
}
