//! The compiler's fingerprint: a digest of everything in this repository that decides what a
//! request compiles to, of the crates that this is built from, and of the version of LLVM.
//!
//! It covers relative paths and contents only, so two checkouts of the same tree have the
//! same fingerprint wherever they lie. What decides no byte of an artifact does not count,
//! since a new fingerprint empties every kernel cache: tests, the command lines of the
//! tools, the workers, dependencies of the runtime.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

/// What decides the code, relative to the root of the workspace.
const ROOTS: [&str; 4] = ["artifact", "dialect", "passes", "driver"];

/// What lies there and decides nothing: how the compiler is asked, and what tests it.
const NOT_COMPILER: [&str; 6] = [
    "artifact/worker",
    "driver/src/bin",
    "driver/src/worker.rs",
    "driver/src/phases.rs",
    "driver/plugin",
    "driver/fuzz",
];

/// Directories that decide nothing, wherever they lie.
const SKIPPED_DIRECTORIES: [&str; 5] = ["target", "tests", "benches", "Output", "__pycache__"];

/// The crates that make an artifact. What they are built from is read off the lock file;
/// the driver is not among them, since what it adds is its command line.
const COMPILER: [&str; 6] =
    ["phobos-artifact", "phobos-codegen", "phobos-dialect", "phobos-lang", "phobos-lower", "phobos-passes"];

/// The digest in hex, and every file that it covers. `version` is Phobos's, `llvm` LLVM's.
pub fn of_tree(root: &Path, version: &str, llvm: &str) -> io::Result<(String, Vec<PathBuf>)> {
    let mut files = Vec::new();
    for name in ROOTS {
        collect(&root.join(name), name, &mut files)?;
    }
    files.sort();

    let mut hasher = blake3::Hasher::new_derive_key("phobos compiler fingerprint 2");
    let mut field = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    field(version.as_bytes());
    field(llvm.as_bytes());
    let lock = root.join("Cargo.lock");
    for package in locked(&fs::read_to_string(&lock)?) {
        field(package.as_bytes());
    }
    for (name, path) in &files {
        field(name.as_bytes());
        field(&fs::read(path)?);
    }
    let digest = hasher.finalize().to_hex().to_string();
    Ok((digest, files.into_iter().map(|(_, path)| path).chain([lock]).collect()))
}

/// Adds the regular files at and below `path`, each with its name relative to the root.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if NOT_COMPILER.contains(&name) {
        return Ok(());
    }
    if kind.is_file() {
        files.push((name.to_owned(), path.to_owned()));
    } else if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let child = file_name.to_string_lossy();
            // Hidden files are an editor's, not ours.
            let skipped = child.starts_with('.') || child.ends_with('~');
            if !skipped && !SKIPPED_DIRECTORIES.contains(&child.as_ref()) {
                collect(&entry.path(), &format!("{name}/{child}"), files)?;
            }
        }
    }
    Ok(())
}

/// One package of a lock file.
#[derive(Default)]
struct Package {
    /// Its name, version and checksum as they stand there.
    text: String,
    /// Names in its list, without versions.
    dependencies: Vec<String>,
    /// Whether it comes from this workspace.
    is_member: bool,
}

/// Name, version and checksum of every package that the compiler's crates are built from,
/// in order. Other members of the workspace are no way to one: the lock file does not say
/// which dependencies are those of tests.
fn locked(lock: &str) -> BTreeSet<String> {
    let mut packages: BTreeMap<String, Vec<Package>> = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        let mut package = Package { is_member: true, ..Package::default() };
        let mut name = String::new();
        for line in block.lines() {
            if let Some(value) = line.strip_prefix("name = ") {
                name = unquoted(value).to_owned();
            } else if let Some(dependency) = line.strip_prefix(" \"") {
                let words = dependency.trim_end_matches("\",");
                package.dependencies.extend(words.split(' ').next().map(str::to_owned));
            }
            package.is_member &= !line.starts_with("source = ");
            if ["name = ", "version = ", "checksum = "].iter().any(|key| line.starts_with(key)) {
                package.text.push_str(line);
                package.text.push('\n');
            }
        }
        packages.entry(name).or_default().push(package);
    }
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = COMPILER.to_vec();
    while let Some(name) = open.pop() {
        // Of two versions of a crate both count: the list names one of them only at times.
        for package in packages.get(name).into_iter().flatten() {
            if !seen.insert((name, package.text.as_str())) || package.is_member && !COMPILER.contains(&name) {
                continue;
            }
            found.insert(package.text.clone());
            open.extend(package.dependencies.iter().map(String::as_str));
        }
    }
    found
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches('"')
}
