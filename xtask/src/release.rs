//! `cargo xtask release`: the programs, and a kernel cache that answers without a compiler.
//!
//! What runs models needs neither LLVM nor a toolchain: every kernel that the recorded models ask for lies in
//! `kernel-cache/` beside the programs. The compiler's own programs come along for everything else and name the
//! packages that they need.

use crate::binaries;
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::{note, step};
use crate::setup;
use crate::workspace::Workspace;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that run without LLVM.
const RUNTIME: [&str; 3] = ["phobos-cli", "phobos-bench", "phobos-cache"];
/// The programs that link it.
const COMPILER: [&str; 2] = ["phobos-compile", "phobos-opt"];

/// Every chip of a release.
const CHIPS: [&str; 10] = [
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_89",
    "sm_90",
    "sm_120",
    "host-x86-64-v2",
    "host-x86-64-v3",
    "host-x86-64-v4",
    "host-x86-64-v4-vnni",
];

/// A kernel that any chip with code generation can compile.
const PROBE: &str = "examples/saxpy_fp32.ph";

/// What to pack.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// The models whose kernels go in; none for all under models/.
    gguf: Vec<PathBuf>,
    chips: Vec<String>,
    out: Option<PathBuf>,
    build: bool,
    /// Pack also when kernels do not compile.
    partial: bool,
}

/// What of the kernels is in the release and what is not.
#[derive(Debug, Default)]
struct Kernels {
    chips: Vec<String>,
    /// Chips without code generation, each with what the compiler said.
    left_out: Vec<(String, String)>,
    /// What the compiler said of each kernel that did not compile.
    failed: Vec<String>,
}

/// Packs a release and prints where it is.
pub fn release(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    if options.build {
        setup::ensure(&[setup::COMPILER, setup::RELEASE, model::needs(workspace)])?;
        binaries::build(workspace)?;
    }
    if options.gguf.is_empty() {
        model::fetch_default(workspace)?;
    }
    let out = options.out.clone().unwrap_or_else(|| workspace.target().join("release-tarball"));
    let out = std::path::absolute(&out).map_err(Error::io("find", &out))?;
    let work = out.join("work");
    remove(&work)?;
    let name = format!("phobos-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let stage = work.join(&name);
    fs::create_dir_all(&stage).map_err(Error::io("create", &stage))?;

    for program in RUNTIME.into_iter().chain(COMPILER) {
        install(&workspace.bin().join(program), &stage.join(program))?;
    }
    for program in RUNTIME.map(|program| stage.join(program)) {
        let libraries: Vec<String> = needed(&program)?.into_iter().filter(|name| is_llvm(name)).collect();
        if !libraries.is_empty() {
            return Err(Error::NeedsLlvm { program, libraries });
        }
    }
    copy(&workspace.root().join("LICENSE"), &stage.join("LICENSE"))?;
    copy(&workspace.root().join("docs/kernel-cache.md"), &stage.join("kernel-cache.md"))?;
    copy_all(&workspace.root().join("examples"), &stage.join("examples"))?;

    step("record the kernels of the models", || record(workspace, &options.gguf, &stage, &work))?;
    let kernels = step("compile them for every chip", || warm(workspace, &options.chips, &stage, &work))?;
    for (chip, why) in &kernels.left_out {
        note(&format!("left out {chip}: {why}"));
    }
    if !kernels.failed.is_empty() {
        if !options.partial {
            return Err(Error::Kernels { failed: kernels.failed.len() });
        }
        note(&format!("left out {} kernels that did not compile", kernels.failed.len()));
    }
    let version = process::capture(Command::new(stage.join("phobos-cli")).arg("--version"))?;
    let readme = stage.join("README.txt");
    fs::write(&readme, readme_text(version.trim(), &kernels)).map_err(Error::io("write", &readme))?;

    let tarball = out.join(format!("{name}.tar.gz"));
    step("pack", || pack(workspace, &work, &name, &tarball))?;
    let bytes = fs::metadata(&tarball).map_err(Error::io("read", &tarball))?.len();
    remove(&work)?;
    println!("{} ({:.1} MB)", tarball.display(), bytes as f64 / 1e6);
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { gguf: Vec::new(), chips: Vec::new(), out: None, build: true, partial: false };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--no-build" => options.build = false,
            "--partial" => options.partial = true,
            "--gguf" | "--chip" | "--out" => {
                let value = rest.next().ok_or_else(|| Error::Usage(format!("{name} needs a value")))?;
                match name.as_str() {
                    "--gguf" => options.gguf.push(PathBuf::from(value)),
                    "--chip" => options.chips.push(value.clone()),
                    _ => options.out = Some(PathBuf::from(value)),
                }
            }
            _ => return Err(Error::Usage(format!("release has no option `{name}`"))),
        }
    }
    if options.chips.is_empty() {
        options.chips = CHIPS.map(str::to_owned).to_vec();
    }
    Ok(options)
}

/// Runs each model once for the requests that it makes.
fn record(workspace: &Workspace, gguf: &[PathBuf], stage: &Path, work: &Path) -> Result<()> {
    let mut script = Command::new("python3");
    script.arg(workspace.root().join("scripts/record_kernels.py"));
    script.arg("--out").arg(stage.join("manifest")).arg("--bench").arg(workspace.bin().join("phobos-bench"));
    script.args(gguf);
    script.env("PHOBOS_KERNEL_CACHE_DIR", work.join("cache")).env_remove("PHOBOS_DEVICE");
    script.env("PHOBOS_COMPILE", workspace.bin().join("phobos-compile"));
    // Its lines are progress; ours on stdout is the result.
    let listing = process::capture(&mut script)?;
    listing.lines().for_each(note);
    Ok(())
}

/// Compiles what was recorded for every chip that code can be generated for.
fn warm(workspace: &Workspace, chips: &[String], stage: &Path, work: &Path) -> Result<Kernels> {
    let compiler = workspace.bin().join("phobos-compile");
    let mut kernels = Kernels::default();
    for chip in chips {
        match left_out_because(workspace, &compiler, chip, work)? {
            Some(why) => kernels.left_out.push((chip.clone(), why)),
            None => kernels.chips.push(chip.clone()),
        }
    }
    if kernels.chips.is_empty() {
        return Err(Error::Usage("code can be generated for none of these chips".to_owned()));
    }
    let cache = stage.join("kernel-cache");
    let mut command = Command::new(stage.join("phobos-cache"));
    command.arg("warm").arg("--dir").arg(&cache).arg("--manifest").arg(stage.join("manifest"));
    command.args(kernels.chips.iter().flat_map(|chip| ["--chip", chip]));
    // A limit is for a person's own cache.
    command.env("PHOBOS_COMPILE", &compiler).env_remove("PHOBOS_KERNEL_CACHE_MAX");
    let transcript = process::tee(&mut command)?;
    kernels.failed = failures(&transcript.text);
    if !transcript.success && kernels.failed.is_empty() {
        return Err(Error::Output {
            command: process::show(&command),
            expected: "which kernels failed".into(),
        });
    }
    remove(&cache.join(".locks"))?;
    Ok(kernels)
}

/// Why no code can be generated for `chip`; `None` where it can.
fn left_out_because(
    workspace: &Workspace,
    compiler: &Path,
    chip: &str,
    work: &Path,
) -> Result<Option<String>> {
    let mut command = Command::new(compiler);
    command.arg(workspace.root().join(PROBE)).args(["--chip", chip, "-o"]);
    // The compiler replaces what it writes, so never a device such as /dev/null.
    command.arg(work.join("probe"));
    let output =
        command.output().map_err(|source| Error::Spawn { command: process::show(&command), source })?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(None);
    }
    match text.lines().find(|line| line.contains("is not available yet")) {
        Some(line) => {
            let why = line.trim_start_matches("error: ");
            // What follows is advice to who compiles a kernel.
            Ok(Some(why.split_once(": ").map_or(why, |(why, _)| why).to_owned()))
        }
        None => {
            eprint!("{text}");
            Err(Error::Failed { command: process::show(&command), status: output.status })
        }
    }
}

/// The kernels that `phobos-cache warm` says it could not compile, in order and once each.
fn failures(transcript: &str) -> Vec<String> {
    let mut failed: Vec<String> = transcript
        .lines()
        .filter_map(|line| line.strip_prefix("error: "))
        .filter(|line| line.contains("kernel ") && line.ends_with(':'))
        .map(|line| line.trim_end_matches(':').to_owned())
        .collect();
    failed.sort();
    failed.dedup();
    failed
}

/// Copies a program without its debug information.
fn install(program: &Path, to: &Path) -> Result<()> {
    process::run(Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(program))
}

/// The shared libraries that a program names.
fn needed(program: &Path) -> Result<Vec<String>> {
    let listing = process::capture(Command::new("readelf").arg("-d").arg(program).env("LC_ALL", "C"))?;
    Ok(listing.lines().filter(|line| line.contains("(NEEDED)")).filter_map(bracketed).collect())
}

fn bracketed(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn is_llvm(library: &str) -> bool {
    ["libLLVM", "libMLIR", "libclang", "liblld"].iter().any(|name| library.starts_with(name))
}

fn readme_text(version: &str, kernels: &Kernels) -> String {
    let packages: Vec<&str> = setup::RUN_COMPILER.iter().map(|need| need.package).collect();
    let packages = packages.join(" ");
    let mut text = format!(
        "{version}

Programs for x86-64 Linux with glibc 2.36 or later (Debian 12).

    ./phobos-cli --gguf model.gguf \"What is the capital of France?\"

phobos-cli     answers a prompt, or holds a conversation
phobos-bench   measures tokens per second
phobos-cache   fills, shows and empties the kernel cache
phobos-compile compiles a kernel
phobos-opt     runs passes of the compiler

phobos-cli, phobos-bench and phobos-cache need nothing else. phobos-compile and phobos-opt need LLVM, MLIR and
its linker. On Debian 12:

    apt-get install {packages}

kernel-cache/ holds the kernels that manifest/ lists; keep it beside the programs. For these no compiler is
started. Other kernels are compiled by phobos-compile when they are first used, and kept in
~/.phobos/kernel-cache. kernel-cache.md says more. examples/ holds kernels to read and compile.

In the kernel cache: {}.
",
        kernels.chips.join(", ")
    );
    for (chip, why) in &kernels.left_out {
        text.push_str(&format!("Not in it: {chip} ({why}).\n"));
    }
    for kernel in &kernels.failed {
        text.push_str(&format!("Not in it: {kernel}.\n"));
    }
    text.push_str("\nLicence: LICENSE (Apache-2.0).\n");
    text
}

/// Equal contents give equal bytes: names sorted, no owner, the time of the commit.
fn pack(workspace: &Workspace, work: &Path, name: &str, tarball: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(workspace.root());
    let time = process::capture(&mut git).unwrap_or_default();
    let time = time.trim().parse::<u64>().unwrap_or(0);
    let unfinished = tarball.with_extension("gz.part");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+rw,a-s"]);
    tar.arg(format!("--mtime=@{time}")).arg("--use-compress-program=gzip -n").arg("-cf").arg(&unfinished);
    tar.arg("-C").arg(work).arg(name);
    process::run(&mut tar)?;
    fs::rename(&unfinished, tarball).map_err(Error::io("rename", &unfinished))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).map_err(Error::io("copy", from))
}

/// Copies the files of a folder.
fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::io("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::io("list", from))? {
        let path = entry.map_err(Error::io("list", from))?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Removes a folder that may not be there.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::io("remove", folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options() {
        let options = parse(&words("--gguf a.gguf --chip host --gguf b.gguf --out o --partial")).unwrap();
        assert_eq!(options.gguf, [PathBuf::from("a.gguf"), PathBuf::from("b.gguf")]);
        assert_eq!((options.chips, options.out), (words("host"), Some(PathBuf::from("o"))));
        assert!(options.build && options.partial);
        assert_eq!(parse(&[]).unwrap().chips, CHIPS);
        for (line, text) in [("--chip", "--chip needs a value"), ("--fast", "no option `--fast`")] {
            let error = parse(&words(line)).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn failed_kernels_out_of_what_warm_says() {
        let text = "dir: 3 kernels compiled, 0 already there, 2 failed\n\
                    error: kernel b[E=8] sm_80 does not compile:\n\
                    error: b.ph:1:1: something\n\
                    error: internal error of the compiler on kernel a host-x86-64-v2:\n\
                    error: kernel b[E=8] sm_80 does not compile:\n";
        assert_eq!(
            failures(text),
            [
                "internal error of the compiler on kernel a host-x86-64-v2",
                "kernel b[E=8] sm_80 does not compile"
            ]
        );
    }

    #[test]
    fn the_readme_names_packages_and_what_is_missing() {
        let kernels = Kernels {
            chips: words("host-x86-64-v2 host-x86-64-v3"),
            left_out: vec![("sm_80".into(), "code generation for sm_80 is not available yet".into())],
            failed: vec!["kernel k host-x86-64-v2 does not compile".into()],
        };
        let text = readme_text("phobos-cli 0.1.0", &kernels);
        for part in [
            "apt-get install libmlir-22 libllvm22 lld-22\n",
            "In the kernel cache: host-x86-64-v2, host-x86-64-v3.\n",
            "Not in it: sm_80 (code generation for sm_80 is not available yet).\n",
            "Not in it: kernel k host-x86-64-v2 does not compile.\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn libraries_out_of_readelf() {
        let line = " 0x0000000000000001 (NEEDED)  Shared library: [libMLIR.so.22.1]";
        assert_eq!(bracketed(line).as_deref(), Some("libMLIR.so.22.1"));
        assert!(is_llvm("libMLIR.so.22.1") && is_llvm("libLLVM.so.22.1") && !is_llvm("libm.so.6"));
    }
}
