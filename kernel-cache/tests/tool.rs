//! The `phobos-cache` program, with a fake compiler and a fake ptxas.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    env, fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{self, Command, Output},
};

use common::{FakeSource, artifact, cache, files, get_all, request, role};
use phobos_artifact::{Chip, CompileRequest, Fingerprint, HostLevel, ImageKind};
use phobos_kernel_cache::{CacheOptions, EntryId, Manifest, Store, fs::RealFileSystem};
use phobos_worker::frame::{CompileFailure, FailureKind, Hello, serve};

/// The fake compiler; nothing in the process of the tests. The test harness prints to
/// stdout, so the script that starts it gives it the pipe as file 3.
#[test]
fn child() {
    let Some((_, folder)) = role() else { return };
    let mut pipe = fs::File::options().write(true).open("/proc/self/fd/3").unwrap();
    let served = serve(&mut io::stdin().lock(), &mut pipe, Hello::current("fake"), |request| {
        fs::File::create(folder.join(format!("compiled-{}-{}", request.kernel, request.chip))).unwrap();
        match request.kernel.as_str() {
            "wrong" => Err(CompileFailure {
                kind: FailureKind::User,
                rendered: "wrong.ph:1:1: error: as the test wants".into(),
                json: serde_json::Value::Null,
            }),
            "crash" => process::abort(),
            _ => Ok(artifact(request)),
        }
    });
    served.unwrap();
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.at("bin")).unwrap();
        fs::create_dir(place.at("compiled")).unwrap();
        let script = format!(
            "#!/bin/sh\nexec 3>&1 >/dev/null\n{}=worker {}='{}' exec '{}' --exact child --nocapture\n",
            common::ROLE,
            common::FOLDER,
            place.at("compiled").display(),
            env::current_exe().unwrap().display()
        );
        place.program("bin/phobos-compile", &script);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn record(&self, manifest: &str, kernels: &[&str]) {
        let manifest = Manifest::new(std::sync::Arc::new(RealFileSystem), self.at(manifest));
        for kernel in kernels {
            manifest.record(&request(kernel, Chip::Sm(75))).unwrap();
        }
    }

    /// The tool with nothing of this machine's settings.
    fn tool(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_phobos-cache"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.at("home"))
            .env("PHOBOS_COMPILE", self.at("bin/phobos-compile"))
            .output()
            .unwrap()
    }

    fn store(&self, name: &str) -> Store {
        Store::new(std::sync::Arc::new(RealFileSystem), self.at(name))
    }

    fn compiled(&self) -> usize {
        files(&self.at("compiled")).len()
    }
}

fn text(output: &Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

#[track_caller]
fn succeeds(output: Output) -> String {
    let (stdout, stderr) = text(&output);
    assert!(output.status.success(), "{:?}\n{stdout}{stderr}", output.status);
    stdout
}

#[track_caller]
fn fails(code: i32, output: Output) -> (String, String) {
    let (stdout, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    (stdout, stderr)
}

fn id(request: &CompileRequest) -> EntryId {
    EntryId::new(request, &phobos_worker::fingerprint::current())
}

#[test]
fn warm_compiles_what_is_missing_for_every_chip() {
    let place = Place::new();
    place.record("m1", &["gemm", "rms_norm"]);
    place.record("m2", &["gemm", "softmax"]);
    let warm = |more: &[&str]| {
        let arguments = ["warm", "--dir", "cache", "--manifest", "m1", "--manifest", "m2"];
        place.tool(&[&arguments, more].concat())
    };
    let chips = ["--chip", "sm_89", "--chip", "host-x86-64-v3", "--no-ptxas"];
    let said = succeeds(warm(&chips));
    assert_eq!(said, "cache: 6 kernels compiled, 0 already there, 0 failed\n");
    for kernel in ["gemm", "rms_norm", "softmax"] {
        for chip in [Chip::Sm(89), Chip::Host(HostLevel::V3)] {
            let request = request(kernel, chip);
            let stored = place.store("cache").get(&id(&request)).unwrap().unwrap();
            assert_eq!(stored, artifact(&request));
        }
    }
    assert!(common::strays(&place.at("cache")).is_empty());

    let said = succeeds(warm(&[&chips[..], &["--chip", "host-x86-64-v2", "gemm"]].concat()));
    assert_eq!(said, "cache: 1 kernel compiled, 2 already there, 0 failed\n");
    // A lower level does not stand for a higher one here.
    let said = succeeds(warm(&["--chip", "host-x86-64-v4", "gemm"]));
    assert_eq!(said, "cache: 1 kernel compiled, 0 already there, 0 failed\n");
    fs::remove_dir_all(place.at("compiled")).unwrap();
    fs::create_dir(place.at("compiled")).unwrap();
    let said = succeeds(warm(&["--chip", "sm_89", "--no-ptxas", "--force", "--jobs", "2"]));
    assert_eq!(said, "cache: 3 kernels compiled, 0 already there, 0 failed\n");
    assert_eq!(place.compiled(), 3);
}

#[test]
fn warm_names_what_fails_and_goes_on() {
    let place = Place::new();
    place.record("m", &["a", "crash", "wrong", "z"]);
    fs::write(place.at("m/bad.json"), "{}").unwrap();
    let (stdout, stderr) =
        fails(1, place.tool(&["warm", "--dir", "cache", "--manifest", "m", "--chip", "host-x86-64-v2"]));
    assert_eq!(stdout, "cache: 2 kernels compiled, 0 already there, 2 failed\n");
    assert!(stderr.contains("the compiler died on kernel crash host-x86-64-v2 (signal: 6"), "{stderr}");
    assert!(stderr.contains("kernel wrong host-x86-64-v2 does not compile:\nwrong.ph:1:1"), "{stderr}");
    assert!(stderr.contains("m/bad.json: not a recipe"), "{stderr}");
}

#[test]
fn warm_assembles_ptx() {
    let place = Place::new();
    place.record("m", &["gemm"]);
    let ptxas = place.program("bin/ptxas", "#!/bin/sh\nprintf 'cubin %s' \"$1\" > \"$3\"\n");
    let cubin = |chip| {
        let stored = place.store("cache").get(&id(&request("gemm", chip))).unwrap().unwrap();
        let image = stored.images.into_iter().find(|image| image.kind == ImageKind::Cubin);
        image.map(|image| String::from_utf8(image.bytes).unwrap())
    };
    let warm = |chip: &str, more: &[&str]| {
        let arguments = ["warm", "--dir", "cache", "--manifest", "m", "--chip", chip];
        place.tool(&[&arguments, more].concat())
    };
    succeeds(warm("sm_86", &["--ptxas", ptxas.to_str().unwrap()]));
    assert_eq!(cubin(Chip::Sm(86)).as_deref(), Some("cubin -arch=sm_86"));
    succeeds(warm("host-x86-64-v2", &["--ptxas", ptxas.to_str().unwrap()]));
    assert_eq!(cubin(Chip::Host(HostLevel::V2)), None);
    succeeds(warm("sm_80", &["--no-ptxas"]));
    assert_eq!(cubin(Chip::Sm(80)), None);

    let broken = place.program("bin/broken", "#!/bin/sh\necho 'no such chip'; exit 255\n");
    let (_, stderr) = fails(1, warm("sm_90", &["--ptxas", broken.to_str().unwrap()]));
    assert!(stderr.contains("kernel gemm sm_90") && stderr.contains("no such chip"), "{stderr}");
    assert!(place.store("cache").get(&id(&request("gemm", Chip::Sm(90)))).unwrap().is_none());
    fails(2, warm("sm_90", &["--ptxas", "absent"]));
    fails(2, warm("sm_90", &["--ptxas", "absent", "--no-ptxas"]));
}

#[test]
fn warm_without_a_compiler_says_so_once() {
    let place = Place::new();
    place.record("m", &["a", "b", "c"]);
    fs::remove_file(place.at("bin/phobos-compile")).unwrap();
    let (_, stderr) = fails(1, place.tool(&["warm", "--dir", "c", "--manifest", "m", "--chip", "host"]));
    assert_eq!(stderr.matches("error:").count(), 1, "{stderr}");
    assert!(stderr.contains("cargo build --release"), "{stderr}");
    fails(1, place.tool(&["warm", "--dir", "c", "--manifest", "absent", "--chip", "host"]));
    fails(2, place.tool(&["warm", "--dir", "c", "--chip", "host"]));
    fails(2, place.tool(&["warm", "--dir", "c", "--manifest", "m", "--chip", "sm_70"]));
}

/// Three kernels, one of another build and one damaged.
fn filled(place: &Place, name: &str) {
    let root = place.at(name);
    let requests = [request("flash_fwd", Chip::Sm(86)), request("flash_bwd", Chip::Sm(89))];
    get_all(&cache(FakeSource::default(), CacheOptions::in_directory(&root)).0, &requests);
    let old = CacheOptions {
        fingerprint: Fingerprint::from_bytes([0xab; 32]),
        ..CacheOptions::in_directory(&root)
    };
    get_all(&cache(FakeSource::default(), old).0, &[request("gemm", Chip::Sm(86))]);
    let damaged = request("rms_norm", Chip::Sm(86));
    fs::write(place.store(name).path(&id(&damaged)), "damage").unwrap();
}

#[test]
fn list_shows_every_kernel_and_the_total() {
    let place = Place::new();
    filled(&place, "cache");
    let said = succeeds(place.tool(&["list", "--dir", "cache"]));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("sm_86           flash_fwd "), "{said}");
    assert!(lines[1].contains("gemm ") && lines[1].ends_with("(build abababababababab)"), "{said}");
    assert!(lines[2].contains("rms_norm ") && lines[2].ends_with("6 B  (damaged)"), "{said}");
    assert!(lines[3].starts_with("sm_89           flash_bwd "), "{said}");
    let bytes: u64 = place.store("cache").list().unwrap().iter().map(|entry| entry.bytes).sum();
    assert_eq!(lines[4], format!("cache: 4 kernels, {:.1} KiB", bytes as f64 / 1024.0));

    let said = succeeds(place.tool(&["list", "--dir", "cache", "--json", "--chip", "sm_86", "*m*"]));
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json[0]["count"], 2);
    assert_eq!(json[0]["kernels"][0]["kernel"], "gemm");
    assert_eq!(json[0]["kernels"][0]["current"], false);
    assert_eq!(json[0]["kernels"][1]["kernel"], "rms_norm");
    assert!(json[0]["kernels"][1]["damage"].is_string());
    assert_eq!(succeeds(place.tool(&["list", "--dir", "absent"])), "absent: 0 kernels, 0 B\n");
}

#[test]
fn clear_removes_by_chip_and_name() {
    let place = Place::new();
    filled(&place, "cache");
    let others = ["cache/notes.txt", "cache/sm_86/notes.txt"].map(|name| {
        fs::write(place.at(name), "mine").unwrap();
        place.at(name)
    });
    let before = files(&place.at("cache"));
    let said = succeeds(place.tool(&["clear", "--dir", "cache", "--dry-run"]));
    assert_eq!(said.matches("would remove").count(), 5, "{said}");
    assert_eq!(files(&place.at("cache")), before);

    let said = succeeds(place.tool(&["clear", "--dir", "cache", "--chip", "sm_86", "flash_*", "rms_norm"]));
    assert!(said.contains("removed sm_86           flash_fwd"), "{said}");
    assert!(said.contains("cache: removed 2 kernels, "), "{said}");
    let left = place.store("cache").list().unwrap();
    assert_eq!(left.len(), 2);

    for name in ["cache/old.phk", "cache/sm_86/.tmp-dead", "cache/sm_70/gone.phk"] {
        fs::create_dir_all(place.at(name).parent().unwrap()).unwrap();
        fs::write(place.at(name), "x").unwrap();
    }
    let said = succeeds(place.tool(&["clear", "--dir", "cache"]));
    assert!(said.contains("cache: removed 2 kernels and 3 stray files, "), "{said}");
    assert_eq!(files(&place.at("cache")), ["notes.txt", "sm_86/notes.txt"]);
    assert!(others.iter().all(|path| path.exists()));
}

#[test]
fn prune_keeps_what_the_manifests_ask_for() {
    let place = Place::new();
    filled(&place, "cache");
    place.record("m", &["flash_fwd", "gemm"]);
    let prune = |more: &[&str]| place.tool(&[&["prune", "--dir", "cache"], more].concat());
    let said = succeeds(prune(&["--manifest", "m", "--dry-run"]));
    assert!(
        said.ends_with(&format!("would remove 3 kernels, {}\n", said.rsplit(", ").next().unwrap().trim()))
    );
    let said = succeeds(prune(&["--manifest", "m"]));
    assert_eq!(said.matches("removed").count(), 4, "{said}");
    let left = place.store("cache").list().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].key, id(&request("flash_fwd", Chip::Sm(86))).key);

    // A manifest that is absent, empty or damaged removes nothing.
    fs::create_dir(place.at("empty")).unwrap();
    fails(2, prune(&[]));
    fails(1, prune(&["--manifest", "absent"]));
    let (_, stderr) = fails(1, prune(&["--manifest", "empty"]));
    assert!(stderr.contains("nothing was removed"), "{stderr}");
    fs::write(place.at("m/bad.json"), "{").unwrap();
    fails(1, prune(&["--manifest", "m"]));
    assert_eq!(place.store("cache").list().unwrap().len(), 1);
}

#[test]
fn the_directory_comes_from_the_environment() {
    let place = Place::new();
    let root = place.at("home/.phobos/kernel-cache");
    get_all(
        &cache(FakeSource::default(), CacheOptions::in_directory(&root)).0,
        &[request("gemm", Chip::Sm(86))],
    );
    let said = succeeds(place.tool(&["list"]));
    assert!(said.contains("gemm") && said.contains("home/.phobos/kernel-cache: 1 kernel,"), "{said}");
    let tool = |name: &str, value: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phobos-cache"));
        command.arg("list").env_clear().env(name, value).output().unwrap()
    };
    let (_, stderr) = fails(1, tool("HOME", ""));
    assert!(stderr.contains("HOME names no directory") && stderr.contains("--dir"), "{stderr}");
    let (_, stderr) = fails(1, tool("PHOBOS_KERNEL_CACHE_DIR", ""));
    assert!(stderr.contains("turned off"), "{stderr}");
    let said = succeeds(tool("PHOBOS_KERNEL_CACHE_DIR", root.to_str().unwrap()));
    assert!(said.contains("1 kernel,"), "{said}");
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_of_the_tool() {
    let place = Place::new();
    place.record("m", &["gemm"]);
    fs::write(place.at("file"), "x").unwrap();
    symlink(Path::new("loop"), place.at("loop")).unwrap();
    for dir in ["file", "file/below", "loop", "/proc/phobos"] {
        let warm = ["warm", "--manifest", "m", "--chip", "host-x86-64-v2", "--dir", dir];
        let (_, stderr) = fails(1, place.tool(&warm));
        assert!(stderr.contains(dir), "{stderr}");
    }
    fails(1, place.tool(&["list", "--dir", "file"]));
    fails(1, place.tool(&["clear", "--dir", "loop"]));
}

#[test]
fn version_help_and_completions() {
    let place = Place::new();
    let said = succeeds(place.tool(&["--version"]));
    assert_eq!(said.trim(), phobos_worker::fingerprint::version_line("phobos-cache"));
    for arguments in [&["--help"][..], &["warm", "--help"], &["list", "--help"], &["clear", "--help"]] {
        assert!(succeeds(place.tool(arguments)).contains("Examples:"), "{arguments:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = succeeds(place.tool(&["completions", shell]));
        assert!(script.contains("phobos-cache") && script.contains("warm"), "{shell}");
    }
    fails(2, place.tool(&[]));
    fails(2, place.tool(&["explode"]));
}
