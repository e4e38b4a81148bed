//! The real binaries and the kernel cache, where something is in the way.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use phobos_artifact::{Chip, CompileRequest, HostLevel};
use phobos_kernel_cache::{CacheOptions, CachedSource, Manifest, fs::RealFileSystem};
use phobos_worker::{WorkerOptions, WorkerPool, compile_all};

const CLI: &str = env!("CARGO_BIN_EXE_phobos-cli");

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tests/goldens/llama-f32.gguf")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Tells a person, and `cargo xtask test`, that a test did not run.
fn skip(test: &str, reason: &str) {
    eprintln!("SKIP: {test}: {reason}");
    if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "SKIP: {test}: {reason}").unwrap();
    }
}

/// Whether there is a compiler, as standard error says; a word on it when there is none.
fn has_compiler(stderr: &str) -> bool {
    let absent = stderr.contains("phobos-compile, which compiles kernels, was not found");
    if absent {
        assert!(std::env::var_os("PHOBOS_REQUIRE_COMPILER").is_none_or(|v| v != "1"), "{stderr}");
        eprintln!("skipped: {stderr}");
    }
    !absent
}

fn answer(cache: &Path) -> Command {
    let mut command = Command::new(CLI);
    command.args(["--raw", "-n", "2", "-t", "0", "hello world", "--gguf"]).arg(tiny());
    command.env_remove("PHOBOS_DEVICE").env("PHOBOS_KERNEL_CACHE_DIR", cache).stdin(Stdio::null());
    command
}

/// The files under `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(items) = fs::read_dir(folder) else { return Vec::new() };
    let paths = items.map(|item| item.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The limit lets every kernel be loaded, but not the file of the largest be written.
#[test]
fn a_limit_on_the_size_of_files_is_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, compiler) = (folder.path().join("cache"), folder.path().join("phobos-compile"));
    let full = answer(&cache).output().unwrap();
    if !has_compiler(text(&full.stderr)) {
        return;
    }
    let bytes = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let largest = files(&cache).into_iter().max_by_key(bytes).unwrap();
    let limit = (bytes(&largest) - 1) / 512;
    fs::remove_file(&largest).unwrap();

    // The limit is this program's alone: the compiler writes larger files.
    let real = Path::new(CLI).with_file_name("phobos-compile");
    let script = format!("#!/bin/sh\nulimit -S -f unlimited\nexec '{}' \"$@\"\n", real.display());
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let mut sh = Command::new("sh");
    sh.args(["-c", &format!("ulimit -S -f {limit}; exec \"$@\""), "sh", CLI]);
    sh.args(["--raw", "-n", "2", "-t", "0", "hello world", "--gguf"]).arg(tiny());
    sh.env_remove("PHOBOS_DEVICE").env("PHOBOS_KERNEL_CACHE_DIR", &cache).env("PHOBOS_COMPILE", compiler);
    let output = sh.stdin(Stdio::null()).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status);
    assert_eq!(output.stdout, full.stdout);
    assert!(stderr.contains("kernels: 1 compiled, 16 cached"), "{stderr}");
    assert_eq!(stderr.matches("warning: ").count(), 1, "{stderr}");
    assert!(stderr.contains("kernels compiled now are not kept"), "{stderr}");
    assert!(files(&cache).iter().all(|path| path.extension().is_some_and(|end| end == "phk")));
}

#[test]
fn the_own_level_is_compiled_while_stand_ins_answer() {
    let own = HostLevel::detect().map(Chip::Host);
    let Some(lower) = own.and_then(|own| own.runnable().get(1).copied()) else {
        return skip("the_own_level_is_compiled_while_stand_ins_answer", "this CPU has one host level only");
    };
    let (cache, manifest) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // What the model asks for is recorded before anything is compiled.
    let recorded = answer(cache.path())
        .env("PHOBOS_COMPILE", "/nowhere/phobos-compile")
        .env("PHOBOS_KERNEL_MANIFEST", manifest.path())
        .output()
        .unwrap();
    assert_eq!(recorded.status.code(), Some(1));
    let recipes = Manifest::new(Arc::new(RealFileSystem), manifest.path()).read().unwrap();
    let mut requests: Vec<CompileRequest> =
        recipes.into_iter().map(|recipe| recipe.unwrap().request(lower)).collect();
    // Of the kernels of every format those of this file's.
    requests.retain(|request| request.elements.get("F").is_none_or(|element| element.name() == "f32"));
    let exact = CacheOptions { stand_ins: false, ..CacheOptions::in_directory(cache.path()) };
    let source = CachedSource::new(WorkerPool::new(WorkerOptions::default()), exact);
    for result in compile_all(&source, &requests, &|_, _| {}) {
        if let Err(error) = result {
            assert!(!has_compiler(&error.to_string()), "{error}");
            return;
        }
    }

    // Standard output is full from the start, so that the run lives until it is read.
    let (mut reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&[b'.'; 1 << 16]).unwrap();
    let mut child = answer(cache.path()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let own_kernels = cache.path().join(own.unwrap().to_string());
    let begin = Instant::now();
    while files(&own_kernels).iter().filter(|path| path.extension().is_some_and(|end| end == "phk")).count()
        < 17
    {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        assert!(begin.elapsed() < Duration::from_secs(600), "{:?}", files(cache.path()));
        thread::sleep(Duration::from_millis(20));
    }
    let mut answered = Vec::new();
    reader.read_to_end(&mut answered).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success() && answered.len() > 1 << 16, "{stderr}");
    assert!(stderr.starts_with("kernels: 0 compiled, 17 cached, 17 of them stand-ins\nprompt "), "{stderr}");

    let next = answer(cache.path()).output().unwrap();
    let stderr = text(&next.stderr);
    assert!(stderr.starts_with("kernels: 0 compiled, 17 cached\nprompt "), "{stderr}");
}
