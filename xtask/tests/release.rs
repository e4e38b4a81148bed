//! A release, unpacked where there is no LLVM and no compiler, answers from the kernels that it brought.

#![allow(clippy::unwrap_used)] // the lint's exception for tests does not reach their helpers

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const LLVM_FOLDER: &str = "/usr/lib/llvm-22";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn skip(test: &str, reason: &str) {
    eprintln!("SKIP: {test}: {reason}");
    if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "SKIP: {test}: {reason}").unwrap();
    }
}

/// Whether the programs that a release is made of are built.
fn programs_are_built() -> bool {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let missing = ["phobos-cli", "phobos-bench", "phobos-cache", "phobos-compile", "phobos-opt"]
        .map(|program| root().join(&target).join("release").join(program))
        .into_iter()
        .find(|program| !program.exists());
    let Some(program) = missing else { return true };
    let reason = format!("{} is not built", program.display());
    assert!(std::env::var_os("PHOBOS_REQUIRE_COMPILER").is_none_or(|v| v != "1"), "{reason}");
    skip("release::an_unpacked_release_answers_without_llvm", &reason);
    false
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("xtask-release-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs programs of the release, where possible in a mount namespace that has no LLVM.
struct Hidden {
    home: PathBuf,
    hides: bool,
}

impl Hidden {
    const SCRIPT: &str = "mount -t tmpfs none \"$1\" || exit 125
        for library in \"$2\"/libLLVM* \"$2\"/libMLIR*; do
            [ ! -f \"$library\" ] || mount --bind /dev/null \"$library\" || exit 125
        done
        shift 2
        exec \"$@\"";

    fn new(home: PathBuf) -> Self {
        let hides = Self::namespace().arg("true").output().is_ok_and(|output| output.status.success());
        Self { home, hides }
    }

    fn namespace() -> Command {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", Self::SCRIPT, "sh", LLVM_FOLDER, LIBRARIES]);
        command
    }

    fn run(&self, program: &Path, arguments: &[&OsStr]) -> Output {
        let mut command = if self.hides { Self::namespace() } else { Command::new("env") };
        command.arg(program).args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.home);
        command.env("PHOBOS_COMPILE", "/nonexistent/phobos-compile").stdin(Stdio::null()).output().unwrap()
    }
}

fn needs_llvm(program: &Path) -> bool {
    let listing = succeeds(Command::new("readelf").arg("-d").arg(program).env("LC_ALL", "C"));
    assert!(listing.contains("(NEEDED)"), "{listing}");
    listing.lines().any(|l| l.contains("(NEEDED)") && (l.contains("[libLLVM") || l.contains("[libMLIR")))
}

#[test]
fn an_unpacked_release_answers_without_llvm() {
    if !programs_are_built() {
        return;
    }
    let folder = Folder::new();
    let tiny = root().join("models/tests/goldens/llama-f32.gguf");
    let mut release = Command::new(env!("CARGO_BIN_EXE_xtask"));
    release.args(["release", "--no-build", "--chip", "host", "--chip", "sm_80"]);
    release.arg("--gguf").arg(&tiny).arg("--out").arg(folder.at("out"));
    let printed = succeeds(release.env("HOME", folder.at("home")));
    let tarball = PathBuf::from(printed.split(" (").next().unwrap());
    assert_eq!(tarball.parent().unwrap(), folder.at("out"));
    assert_eq!(fs::read_dir(folder.at("out")).unwrap().count(), 1, "nothing but the tarball stays");

    succeeds(Command::new("tar").arg("-xzf").arg(&tarball).arg("-C").arg(&folder.0));
    let name = tarball.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.gz").to_owned();
    let unpacked = folder.at(&name);
    for program in ["phobos-cli", "phobos-bench", "phobos-cache"] {
        assert!(!needs_llvm(&unpacked.join(program)), "{program}");
    }
    for program in ["phobos-compile", "phobos-opt"] {
        assert!(needs_llvm(&unpacked.join(program)), "{program}: then this test proves nothing");
    }
    let readme = fs::read_to_string(unpacked.join("README.txt")).unwrap();
    assert!(readme.contains("apt-get install libmlir-22"), "{readme}");
    assert!(unpacked.join("LICENSE").is_file() && unpacked.join("examples/gemm_fp32.ph").is_file());
    assert!(!unpacked.join("kernel-cache/.locks").exists());
    // A chip is either filled or named as left out.
    assert_ne!(
        unpacked.join("kernel-cache/sm_80").is_dir(),
        readme.contains("Not in it: sm_80 ("),
        "{readme}"
    );

    let hidden = Hidden::new(folder.at("home"));
    if hidden.hides {
        let compile = hidden.run(&unpacked.join("phobos-compile"), &["--version".as_ref()]);
        assert_eq!(compile.status.code(), Some(127), "LLVM is not hidden: {}", text(&compile.stdout));
    } else {
        let reason = "mount namespaces are not allowed here: LLVM stays in sight";
        skip("release::an_unpacked_release_answers_without_llvm[hidden]", reason);
    }
    let arguments = ["--raw", "-n", "5", "-t", "0", "--gguf", tiny.to_str().unwrap(), "hello world"];
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let answer = hidden.run(&unpacked.join("phobos-cli"), &arguments);
    let stderr = text(&answer.stderr);
    assert_eq!(answer.status.code(), Some(0), "{stderr}");
    assert!(stderr.starts_with("kernels: 0 compiled, 17 cached\n"), "{stderr}");
    assert!(!folder.at("home/.phobos").exists(), "nothing was compiled, so nothing is kept");

    // The same answer as kernels compiled on the spot give.
    let built = compiled_answer(&folder, &arguments);
    assert_eq!(text(&answer.stdout), built);

    let list = hidden.run(&unpacked.join("phobos-cache"), &["list".as_ref()]);
    assert!(text(&list.stdout).contains("attention_one[B=f32,T=f16,D=16,R=2]"), "{}", text(&list.stdout));

    // It was the cache of the release that answered.
    fs::rename(unpacked.join("kernel-cache"), unpacked.join("elsewhere")).unwrap();
    let without = hidden.run(&unpacked.join("phobos-cli"), &arguments);
    assert_eq!(without.status.code(), Some(1));
    assert!(text(&without.stderr).contains("/nonexistent/phobos-compile"), "{}", text(&without.stderr));
}

/// What the built programs answer with a compiler and no cache.
fn compiled_answer(folder: &Folder, arguments: &[&OsStr]) -> String {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut cli = Command::new(root().join(target).join("release/phobos-cli"));
    cli.args(arguments).env("PHOBOS_KERNEL_CACHE_DIR", "").env("HOME", folder.at("home"));
    cli.env_remove("PHOBOS_COMPILE").env_remove("PHOBOS_DEVICE").env_remove("PHOBOS_KERNEL_MANIFEST");
    succeeds(&mut cli)
}
