//! The invariants of ARCHITECTURE.md that can be read off the checkout: what depends on what, how long files
//! are, and that the documents point at things that exist.

#![allow(clippy::unwrap_used)] // the lint's exception for tests does not reach their helpers

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that bring LLVM or MLIR into a process.
const LLVM: [&str; 3] = ["llvm-sys", "melior", "mlir-sys"];
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];
const MOST_LINES: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Packages by id: name, folder under the root (members only), and ids of what it is built from.
struct Graph {
    packages: BTreeMap<String, Package>,
}

struct Package {
    name: String,
    folder: Option<String>,
    dependencies: Vec<String>,
}

impl Graph {
    fn of_workspace() -> Self {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::parse(&serde_json::from_slice(&output.stdout).unwrap(), &root())
    }

    fn parse(metadata: &Value, root: &Path) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let members: BTreeSet<String> =
            metadata["workspace_members"].as_array().unwrap().iter().map(text).collect();
        let mut packages = BTreeMap::new();
        for package in metadata["packages"].as_array().unwrap() {
            let id = text(&package["id"]);
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let folder = members.contains(&id).then(|| {
                manifest.parent().unwrap().strip_prefix(root).unwrap().to_string_lossy().into_owned()
            });
            let name = text(&package["name"]);
            packages.insert(id, Package { name, folder, dependencies: Vec::new() });
        }
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let dependencies = node["deps"].as_array().unwrap().iter().filter(|dependency| {
                dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"] != "dev")
            });
            packages.get_mut(node["id"].as_str().unwrap()).unwrap().dependencies =
                dependencies.map(|dependency| text(&dependency["pkg"])).collect();
        }
        Self { packages }
    }

    fn members(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.packages.iter().filter_map(|(id, p)| Some((id.as_str(), p.folder.as_deref()?, p.name.as_str())))
    }

    /// The names of all that is built for or into a package, itself included, with a way to each.
    fn closure(&self, id: &str) -> BTreeMap<&str, String> {
        let mut found = BTreeMap::new();
        let mut open = vec![(id, String::new())];
        while let Some((id, way)) = open.pop() {
            let package = &self.packages[id];
            if found.contains_key(package.name.as_str()) {
                continue;
            }
            let way = if way.is_empty() { package.name.clone() } else { format!("{way} > {}", package.name) };
            open.extend(package.dependencies.iter().map(|d| (d.as_str(), way.clone())));
            found.insert(package.name.as_str(), way);
        }
        found
    }
}

/// Faults: members in one of `folders` that are built from one of `forbidden`.
fn forbidden(graph: &Graph, folders: &[&str], forbidden: &[&str]) -> Vec<String> {
    let within = |folder: &str| folders.iter().any(|top| Path::new(folder).starts_with(top));
    graph
        .members()
        .filter(|(_, folder, _)| within(folder))
        .flat_map(|(id, _, _)| graph.closure(id).into_iter().collect::<Vec<_>>())
        .filter(|(name, _)| forbidden.contains(name))
        .map(|(_, way)| way)
        .collect()
}

#[test]
fn the_runtime_links_no_llvm_and_no_mlir() {
    let graph = Graph::of_workspace();
    let runtime = ["runtime", "models", "kernel-cache", "artifact", "xtask"];
    for folder in runtime {
        assert!(graph.members().any(|(_, f, _)| Path::new(f).starts_with(folder)), "no crate under {folder}");
    }
    assert_eq!(forbidden(&graph, &runtime, &LLVM), Vec::<String>::new());
}

#[test]
fn the_language_knows_nothing_of_mlir_and_passes() {
    let mut names = LLVM.to_vec();
    names.extend(["phobos-dialect", "phobos-passes", "phobos-codegen", "phobos-driver"]);
    assert_eq!(forbidden(&Graph::of_workspace(), &["dialect/lang"], &names), Vec::<String>::new());
}

#[test]
fn the_dialect_and_the_passes_know_nothing_of_devices() {
    let names = ["cudarc", "phobos-device", "phobos-emulator", "phobos-engine", "phobos-kernel-cache"];
    assert_eq!(forbidden(&Graph::of_workspace(), &["dialect", "passes"], &names), Vec::<String>::new());
}

/// A control: the search follows normal and build dependencies of dependencies, and no others.
#[test]
fn a_forbidden_dependency_would_be_found() {
    let node = |id: &str, deps: &[(&str, Value)]| -> Value {
        let deps: Vec<Value> = deps
            .iter()
            .map(|(pkg, kind)| serde_json::json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]}))
            .collect();
        serde_json::json!({"id": id, "deps": deps})
    };
    let package = |id: &str, path: &str| serde_json::json!({"id": id, "name": id, "manifest_path": path});
    let metadata = serde_json::json!({
        "workspace_members": ["cli", "test-only"],
        "packages": [
            package("cli", "/w/runtime/cli/Cargo.toml"),
            package("test-only", "/w/runtime/other/Cargo.toml"),
            package("middle", "/registry/middle/Cargo.toml"),
            package("melior", "/registry/melior/Cargo.toml"),
        ],
        "resolve": {"nodes": [
            node("cli", &[("middle", Value::Null)]),
            node("test-only", &[("middle", Value::from("dev"))]),
            node("middle", &[("melior", Value::from("build"))]),
            node("melior", &[]),
        ]},
    });
    let graph = Graph::parse(&metadata, Path::new("/w"));
    assert_eq!(forbidden(&graph, &["runtime"], &LLVM), ["cli > middle > melior"]);
    assert_eq!(forbidden(&graph, &["run"], &LLVM), Vec::<String>::new());
}

/// The files under version control, or nothing (and a line that says so) outside of a checkout.
fn tracked(test: &str) -> Vec<PathBuf> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    match output {
        Ok(output) if output.status.success() => {
            let names = String::from_utf8(output.stdout).unwrap();
            // A file removed and not yet committed is still listed.
            names.split_terminator('\0').map(|name| root().join(name)).filter(|path| path.is_file()).collect()
        }
        _ => {
            skip(test, "not a git checkout");
            Vec::new()
        }
    }
}

/// Tells a person, and `cargo xtask test`, that a test did not run.
fn skip(test: &str, reason: &str) {
    use std::io::Write;
    eprintln!("SKIP: {test}: {reason}");
    if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "SKIP: {test}: {reason}").unwrap();
    }
}

#[test]
fn no_source_file_is_too_long() {
    let mut long = Vec::new();
    for path in tracked("layout::no_source_file_is_too_long") {
        if path.extension().is_some_and(|e| e == "rs") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > MOST_LINES {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "over {MOST_LINES} lines, to be split by concept: {long:#?}");
}

#[test]
fn the_checkout_stands_alone() {
    // In two pieces, or this file would be the first to break the rule.
    let outside = ["..", "shared"].join("/");
    let mut faults = Vec::new();
    for path in tracked("layout::the_checkout_stands_alone") {
        let bytes = fs::read(&path).unwrap();
        if bytes.windows(outside.len()).any(|window| window == outside.as_bytes()) {
            faults.push(path);
        }
    }
    assert!(faults.is_empty(), "these mention {outside}, which no clone has: {faults:#?}");
}

#[test]
fn documents_point_at_what_exists() {
    let mut faults = Vec::new();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let paths = paths(&text);
        assert!(!paths.is_empty(), "{document} points at nothing: are links still recognised?");
        faults.extend(
            paths.into_iter().filter(|path| !root().join(path).exists()).map(|p| format!("{document}: {p}")),
        );
    }
    assert!(faults.is_empty(), "no such file or folder: {faults:#?}");
}

/// The paths into the checkout that a document names: targets of links, and code spans that begin with a
/// folder of the root. A span with a placeholder or a pattern in it names no path.
fn paths(markdown: &str) -> BTreeSet<String> {
    const FOLDERS: [&str; 9] = [
        "dialect",
        "driver",
        "examples",
        "kernel-cache",
        "lit-tests",
        "models",
        "passes",
        "runtime",
        "xtask",
    ];
    let mut found = BTreeSet::new();
    // Text and code take turns, whether the code is a span or a block.
    let text: String = markdown.split('`').step_by(2).collect();
    for piece in text.split("](").skip(1) {
        let target = piece.split([')', '#', ' ']).next().unwrap();
        if !target.is_empty() && !target.contains("://") {
            found.insert(target.to_owned());
        }
    }
    for span in markdown.split('`').skip(1).step_by(2) {
        let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        // A name in capitals stands for any: `passes/src/NAME.rs`.
        let named = !span
            .split(['/', '.'])
            .any(|part| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()));
        if plain && named && span.split_once('/').is_some_and(|(top, _)| FOLDERS.contains(&top)) {
            found.insert(span.to_owned());
        }
    }
    found
}

#[test]
fn paths_in_markdown() {
    let text = "See [the map](ARCHITECTURE.md#map), [a site](https://a.b/c), `runtime/gguf`, `passes/src/NAME.rs`, \
                `cargo run`, `lit-tests/*.mlir`, `f[T](x)`, [`code`](LICENSE) and `a/b`.\n```\na](b)\n```\n";
    let found: Vec<String> = paths(text).into_iter().collect();
    assert_eq!(found, ["ARCHITECTURE.md", "LICENSE", "runtime/gguf"]);
}
