//! The worker when the compiler dies under it, and what the driver promises of every
//! kernel: with the real `phobos-compile`.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use object::{Object, ObjectSymbol};
use phobos_artifact::{Chip, CompileOptions, CompileRequest, Element, HostLevel, ImageKind};
use phobos_worker::{CompileError, KernelSource, WorkerOptions, WorkerPool};

const LEVELS: [HostLevel; 4] = [HostLevel::V2, HostLevel::V3, HostLevel::V4, HostLevel::V4Vnni];
const FORMATS: [&str; 6] = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"];

const TWO_KERNELS: &str = "
kernel doomed(A: tensor<f32>[N], B: tensor<f32>[N]) {
  B[program_id(0) * 64 :+ 64] = A[program_id(0) * 64 :+ 64] * 2.0
}
kernel healthy(A: tensor<f32>[N], B: tensor<f32>[N]) {
  B[program_id(0) * 64 :+ 64] = A[program_id(0) * 64 :+ 64] + 2.0
}
";

fn compiler() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_phobos-compile"))
}

fn request(source: &str, kernel: &str, level: HostLevel) -> CompileRequest {
    CompileRequest {
        source: source.into(),
        kernel: kernel.into(),
        elements: BTreeMap::new(),
        dims: BTreeMap::new(),
        ranges: BTreeMap::new(),
        params: BTreeMap::new(),
        options: CompileOptions::default(),
        chip: Chip::Host(level),
    }
}

fn pool(program: &Path, workers: usize) -> WorkerPool {
    WorkerPool::new(WorkerOptions { program: Some(program.into()), workers, ..WorkerOptions::default() })
}

/// A program that runs phobos-compile after the shell has done `before`.
fn wrapper(folder: &Path, before: &str) -> PathBuf {
    let path = folder.join("phobos-compile");
    fs::write(&path, format!("#!/bin/sh\n{before}\nexec {} \"$@\"\n", compiler().display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(compiler()).current_dir(folder).args(arguments).output().unwrap()
}

fn signal(process: &str, name: &str) {
    // The shell's own kill: a small system has no other.
    assert!(Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap().success());
}

// ---- faults ----

#[test]
fn an_abort_of_llvm_costs_one_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&wrapper(folder.path(), "export PHOBOS_PLANT_ABORT=doomed"), 1);
    for level in [HostLevel::V2, HostLevel::V3] {
        let error = pool.get(&request(TWO_KERNELS, "doomed", level)).unwrap_err();
        assert!(matches!(error, CompileError::Died { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("kernel doomed host-x86-64-{}", level.name())), "{text}");
        assert!(text.contains("LLVM ERROR"), "LLVM's own words are part of the error: {text}");
        // The process lives on and so does the pool.
        let artifact = pool.get(&request(TWO_KERNELS, "healthy", level)).unwrap();
        assert_eq!(artifact.metadata.kernel, "healthy");
    }
    // v4 has the instruction: the plant is harmless there, so it is what was planted that aborted.
    pool.get(&request(TWO_KERNELS, "doomed", HostLevel::V4)).unwrap();
}

#[test]
fn many_aborts_at_once_lose_no_other_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool(&wrapper(folder.path(), "export PHOBOS_PLANT_ABORT=doomed"), 2);
    let requests: Vec<_> =
        (0..6).map(|n| request(TWO_KERNELS, ["doomed", "healthy"][n % 2], HostLevel::V3)).collect();
    let results = pool.compile_all(&requests, &|_, _| {});
    for (request, result) in requests.iter().zip(results) {
        assert_eq!(result.is_ok(), request.kernel == "healthy", "{}: {:?}", request.kernel, result.err());
    }
}

#[test]
fn a_killed_worker_costs_one_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("process");
    let pool = pool(&wrapper(folder.path(), &format!("echo $$ > {}", note.display())), 1);
    pool.get(&request(TWO_KERNELS, "healthy", HostLevel::V2)).unwrap();
    let process = fs::read_to_string(&note).unwrap().trim().to_owned();
    // Stopped, the worker is surely busy with the request when it dies.
    signal(&process, "STOP");
    let error = thread::scope(|scope| {
        let asked = scope.spawn(|| pool.get(&request(TWO_KERNELS, "doomed", HostLevel::V2)));
        thread::sleep(Duration::from_millis(200));
        assert!(!asked.is_finished());
        signal(&process, "KILL");
        asked.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, CompileError::Died { .. }), "{error}");
    assert!(error.to_string().contains("doomed host-x86-64-v2"), "{error}");
    assert!(error.to_string().contains("signal: 9"), "{error}");
    pool.get(&request(TWO_KERNELS, "doomed", HostLevel::V2)).unwrap();
    let second = fs::read_to_string(&note).unwrap();
    assert_ne!(second.trim(), process, "another process answered");
}

#[test]
fn an_error_in_the_source_leaves_the_worker_alive() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("processes");
    let pool = pool(&wrapper(folder.path(), &format!("echo $$ >> {}", note.display())), 1);
    let error =
        pool.get(&request("kernel k(A: tensor<f32>[N]) { A[0] = oops }", "k", HostLevel::V2)).unwrap_err();
    assert!(error.is_user_error() && error.to_string().contains("PH0010"), "{error}");
    let chip = Chip::Sm(75);
    let error =
        pool.get(&CompileRequest { chip, ..request(TWO_KERNELS, "healthy", HostLevel::V2) }).unwrap_err();
    assert!(error.is_user_error() && error.to_string().contains("use --chip host"), "{error}");
    pool.get(&request(TWO_KERNELS, "healthy", HostLevel::V2)).unwrap();
    assert_eq!(fs::read_to_string(&note).unwrap().lines().count(), 1, "one worker served all");
}

// ---- every kernel of the models ----

/// Requests for the kernels of models/kernels at a level, with every binding that models use.
fn model_requests(level: HostLevel) -> Vec<CompileRequest> {
    let embed = include_str!("../../models/kernels/embed.ph");
    let linear = include_str!("../../models/kernels/linear.ph");
    let qkv = include_str!("../../models/kernels/qkv.ph");
    let rmsnorm = include_str!("../../models/kernels/rmsnorm.ph");
    let rope = include_str!("../../models/kernels/rope.ph");
    let norm_rope = include_str!("../../models/kernels/norm_rope.ph");
    let attention = include_str!("../../models/kernels/attention.ph");
    let swiglu = include_str!("../../models/kernels/swiglu.ph");
    let geglu = include_str!("../../models/kernels/geglu.ph");
    let softcap = include_str!("../../models/kernels/softcap.ph");
    let mut all = Vec::new();
    // `elements` as `A=f32 F=q4_1`; tiles among `bound` are parameters, the others dims.
    let mut add = |source: &str, kernel: &str, elements: &str, bound: &[(&str, u64)]| {
        let named = |upper: bool| {
            let tile = move |name: &str| name.starts_with("TILE");
            bound
                .iter()
                .filter(|(name, _)| tile(name) == upper)
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect()
        };
        let elements = elements.split_whitespace().map(|pair| {
            let (name, element) = pair.split_once('=').unwrap();
            (name.to_owned(), element.parse().unwrap())
        });
        all.push(CompileRequest {
            elements: elements.collect(),
            ranges: BTreeMap::new(),
            params: named(true),
            dims: named(false),
            ..request(source, kernel, level)
        });
    };
    for weight in FORMATS {
        add(embed, "embed", &format!("F={weight}"), &[("E", 576)]);
        // The inputs of products and their tiles: exact, and rounded as the count of rows asks; of
        // those in panels the tile of 128, whose code that of 16 repeats less often.
        let blocks = weight.starts_with('q');
        let exact = [1, 16, 128].map(|rows| ("f32", rows));
        let rounded = [("q16_1", 1), ("q8_1", 128)];
        for (input, rows) in exact.into_iter().chain(rounded.into_iter().filter(|_| blocks)) {
            let depth = if rows == 1 { 4096 } else { 512 };
            let tiles = [("TILE_M", rows), ("TILE_N", if rows == 1 { 32 } else { 64 }), ("TILE_K", depth)];
            let layer = format!("A={input} F={weight}");
            add(linear, "linear", &layer, &tiles);
            add(linear, "linear_add", &layer, &tiles);
            let gated = format!("{layer} G={weight} B={input}");
            add(swiglu, "swiglu", &gated, &tiles);
            // As many products of one input as `swiglu` has, or one more: one format will do.
            if ["f16", "q4_1"].contains(&weight) {
                add(geglu, "geglu", &gated, &tiles);
                let mixed = if blocks { "G=q4_1 H=q8_0" } else { "G=f16 H=f32" };
                add(qkv, "qkv", &format!("{layer} {mixed}"), &tiles);
            }
        }
    }
    for cache in ["f32", "f16", "bf16"] {
        add(rope, "rope", &format!("T={cache}"), &[("R", 32), ("D", 64)]);
        add(norm_rope, "norm_rope", &format!("T={cache}"), &[("R", 32), ("D", 64)]);
        for output in ["f32", "q8_1"] {
            for rows in [1, 32] {
                let elements = format!("T={cache} B={output}");
                add(attention, "attention", &elements, &[("D", 64), ("TILE_Q", rows)]);
            }
        }
        for output in ["f32", "q16_1"] {
            add(attention, "attention_one", &format!("T={cache} B={output}"), &[("D", 64), ("R", 3)]);
        }
    }
    for output in ["f32", "q8_1", "q16_1"] {
        add(rmsnorm, "rmsnorm", &format!("B={output}"), &[("E", 576)]);
    }
    add(rmsnorm, "rmsnorm_add", "", &[("E", 576)]);
    add(softcap, "softcap", "", &[]);
    all
}

#[test]
fn the_kernels_of_the_models_compile_for_every_level() {
    let pool = pool(compiler(), thread::available_parallelism().map_or(1, usize::from));
    for level in LEVELS {
        let requests = model_requests(level);
        let results = pool.compile_all(&requests, &|_, _| {});
        for (request, result) in requests.iter().zip(results) {
            let artifact = result.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(artifact.metadata.fingerprint, phobos_worker::fingerprint::current().long());
            let [image] = &artifact.images[..] else { panic!("{}: images", request.label()) };
            assert_eq!(image.kind, ImageKind::SharedObject);
            let file = object::File::parse(&image.bytes[..]).unwrap();
            for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
                let symbol = symbol.name().unwrap();
                assert!(["", "memcpy", "memset"].contains(&symbol), "{} needs {symbol}", request.label());
            }
            let entry = file.dynamic_symbols().any(|symbol| symbol.name() == Ok("phobos_entry"));
            assert!(entry, "{}: phobos_entry", request.label());
        }
    }
}

#[test]
fn equal_requests_give_equal_bytes() {
    // Two processes: hash seeds and addresses differ.
    let (first, second) = (pool(compiler(), 1), pool(compiler(), 1));
    // All kernels but those that differ from another in one operation, the large ones with two formats
    // and without the tile in the middle.
    let [f16, q4_1]: [Element; 2] = ["f16", "q4_1"].map(|name| name.parse().unwrap());
    let wanted = |request: &&CompileRequest| {
        let bound = |name: &str, elements: &[Element]| {
            request.elements.get(name).is_none_or(|element| elements.contains(element))
        };
        !["linear_add", "geglu"].contains(&request.kernel.as_str())
            && request.params.get("TILE_M") != Some(&16)
            && bound("F", &[f16, q4_1])
            && bound("T", &[f16])
    };
    for request in model_requests(HostLevel::V3).iter().filter(wanted) {
        let (a, b) = (first.get(request).unwrap(), second.get(request).unwrap());
        assert!(a.encode() == b.encode(), "{}", request.label());
        // And again in a process that compiled others in between.
        assert!(first.get(request).unwrap().encode() == b.encode(), "{}", request.label());
    }
}

// ---- the program ----

#[test]
fn an_object_links_and_holds_only_the_entry() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.ph"), TWO_KERNELS).unwrap();
    let arguments = ["k.ph", "--kernel", "healthy", "--chip", "host-x86-64-v2", "--emit", "obj"];
    let output = run(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(folder.path().join("k.host-x86-64-v2.o")).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    assert_eq!(file.kind(), object::ObjectKind::Relocatable);
    assert_eq!(file.architecture(), object::Architecture::X86_64);
    let global: Vec<_> =
        file.symbols().filter(|symbol| symbol.is_global()).map(|symbol| symbol.name().unwrap()).collect();
    assert_eq!(global, ["phobos_entry"]);
}

#[test]
fn the_version_names_the_fingerprint() {
    let output = run(Path::new("."), &["--version"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let fingerprint = phobos_worker::fingerprint::current().long();
    assert!(text.starts_with("phobos-compile ") && text.contains(&fingerprint[..16]), "{text} {fingerprint}");
}

#[test]
fn a_hostile_source_ends_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let deep =
        format!("kernel k(A: tensor<f32>[N]) {{ A[0] = {}1.0{} }}", "(".repeat(50_000), ")".repeat(50_000));
    let many = "kernel k() {\n".repeat(20_000);
    let unclosed = "[".repeat(100_000);
    let large = " ".repeat((4 << 20) + 1);
    for (name, text) in [("deep", &deep), ("many", &many), ("unclosed", &unclosed), ("large", &large)] {
        let file = format!("{name}.ph");
        fs::write(folder.path().join(&file), text).unwrap();
        let output = run(folder.path(), &[&file, "--chip", "host", "--kernel", "k"]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // A file that never ends is read as far as a source may go.
    let output = run(folder.path(), &["/dev/zero", "--chip", "host", "--kernel", "k"]);
    assert_eq!(output.status.code(), Some(2));
}
