//! Every message, drawn where it stands: `tests/diagnostics/*.ph`.
//!
//! A file holds programs split by `// -----`. A line of carets in a comment is what
//! the checker must say of the line above:
//! ```text
//!   c = a + b
//!   //  ^^^^^ PH0020: `+` of f16 and f32
//!   //  help: write a cast: `f32(a)`
//! ```
//! `// bind F=q4_0` on a program's first line binds a generic parameter. All kernels
//! of a program are checked. `PHOBOS_BLESS=1` rewrites the files.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{collections::BTreeMap, env, fs, path::Path};

use phobos_artifact::Element;
use phobos_lang::{Code, Diagnostic, SourceFile, check, parse};

const SPLIT: &str = "// -----";

/// The diagnostics of a program.
fn diagnostics(source: &SourceFile, bindings: &BTreeMap<String, Element>) -> Vec<Diagnostic> {
    let (module, mut all) = parse(source);
    let kernels: Vec<&str> = check::kernels(&module).map(|kernel| kernel.name.name.as_str()).collect();
    for kernel in &kernels {
        for diagnostic in check(&module, kernel, bindings).diagnostics {
            if !all.contains(&diagnostic) {
                all.push(diagnostic);
            }
        }
    }
    if kernels.is_empty() {
        all.extend(check(&module, "k", bindings).diagnostics);
    }
    all.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.code));
    all
}

fn is_note(line: &str) -> bool {
    let text = line.trim_start().strip_prefix("//").map(str::trim_start);
    text.is_some_and(|text| text.starts_with('^') || text.starts_with("help: ") || text.starts_with("note: "))
}

/// The program without notes, and with the notes that the checker's messages make.
fn annotate(program: &str, codes: &mut Vec<Code>) -> String {
    let plain: String = program.split_inclusive('\n').filter(|line| !is_note(line)).collect();
    let bindings = plain
        .lines()
        .find_map(|line| line.strip_prefix("// bind "))
        .map(|line| line.split(' ').filter_map(|pair| pair.split_once('=')))
        .into_iter()
        .flatten()
        .map(|(name, element)| (name.to_owned(), element.parse().unwrap()))
        .collect();
    let source = SourceFile::new("k.ph", &plain);
    let found = diagnostics(&source, &bindings);
    let mut out = String::new();
    for (index, line) in plain.split_inclusive('\n').enumerate() {
        out.push_str(line);
        for diagnostic in &found {
            let location = source.location(diagnostic.span.start);
            if location.line != index + 1 {
                continue;
            }
            codes.push(diagnostic.code);
            let rest = line.trim_end().chars().count().saturating_sub(location.column - 1);
            let width = source.slice(diagnostic.span).chars().count().min(rest).max(1);
            let column = (location.column - 1).max(3);
            let pad = " ".repeat(column - 2);
            let label = diagnostic.label.as_ref().map(|label| format!(" [{label}]")).unwrap_or_default();
            out.push_str(&format!(
                "//{pad}{} {}: {}{label}\n",
                "^".repeat(width),
                diagnostic.code,
                diagnostic.message
            ));
            for related in &diagnostic.related {
                let at = source.location(related.span.start);
                out.push_str(&format!("//{pad}note: {}:{}: {}\n", at.line, at.column, related.message));
            }
            if let Some(help) = &diagnostic.help {
                out.push_str(&format!("//{pad}help: {help}\n"));
            }
        }
    }
    out
}

#[test]
fn messages_are_as_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let bless = env::var_os("PHOBOS_BLESS").is_some();
    let mut codes = Vec::new();
    let mut wrong = String::new();
    let mut paths: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let separator = format!("{SPLIT}\n");
        let programs: Vec<&str> = text.split(separator.as_str()).collect();
        let annotated: Vec<String> = programs.iter().map(|program| annotate(program, &mut codes)).collect();
        if bless {
            fs::write(&path, annotated.join(&separator)).unwrap();
            continue;
        }
        for (program, annotated) in programs.iter().zip(&annotated) {
            if *program != annotated {
                wrong += &format!("{}: wanted\n{program}\nbut got\n{annotated}\n", path.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let drawn_elsewhere = [Code::TextTooLarge, Code::TooDeep, Code::RefusedValues, Code::Internal];
    let missing: Vec<&Code> =
        Code::ALL.iter().filter(|code| !codes.contains(code) && !drawn_elsewhere.contains(code)).collect();
    assert!(missing.is_empty(), "no program shows {missing:?}");
}

/// Names that stand before `(` in backticks: what messages tell people to call.
fn calls(text: &str, found: &mut Vec<String>) {
    for quoted in text.split('`').skip(1).step_by(2) {
        for (at, _) in quoted.match_indices('(') {
            let before = quoted.get(..at).unwrap_or_default();
            let name = before.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '@')).next();
            if let Some(name) = name.filter(|name| !name.is_empty() && !name.starts_with('@')) {
                found.push(name.to_owned());
            }
        }
    }
}

#[test]
fn every_function_that_a_help_names_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        text.lines()
            .filter_map(|line| line.split_once("help: "))
            .for_each(|(_, help)| calls(help, &mut found));
    }
    Code::ALL.iter().for_each(|code| calls(code.rule(), &mut found));
    // Forms of the language that are no builtins.
    let forms = ["range", "where"];
    for name in &found {
        let known = check::BUILTINS.iter().any(|info| info.name == name)
            || name.parse::<Element>().is_ok()
            || forms.contains(&name.as_str());
        assert!(known, "no function is called `{name}`");
    }
    assert!(found.iter().any(|name| name == "dot") && found.iter().any(|name| name == "f32"));
    // What is not available yet is no advice.
    for name in ["atomic_add", "print", "concat", "grid_barrier"] {
        assert!(!found.iter().any(|found| found == name), "{name}");
    }
}
