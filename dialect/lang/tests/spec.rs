//! The generated tables of SPEC.md are up to date; `PHOBOS_BLESS=1` rewrites them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{env, fs, path::Path};

use phobos_lang::{Code, check::BUILTINS};

fn section(name: &str, text: &str) -> String {
    format!("<!-- {name} -->\n{text}<!-- end {name} -->")
}

fn replaced(spec: &str, name: &str, text: &str) -> String {
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->"));
    let from = spec.find(&start).expect("the section begins");
    let to = spec.find(&end).expect("the section ends") + end.len();
    format!("{}{}{}", &spec[..from], section(name, text), &spec[to..])
}

#[test]
fn tables_of_the_specification_are_those_of_the_checker() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SPEC.md");
    let spec = fs::read_to_string(&path).unwrap();
    let cell = |text: &str| text.replace('|', "\\|");
    let mut builtins = "| builtin | |\n|---|---|\n".to_owned();
    for info in BUILTINS {
        builtins += &format!("| `{}{}` | {} |\n", info.name, cell(info.signature), cell(info.doc));
    }
    let mut codes = "| code | title | rule |\n|---|---|---|\n".to_owned();
    for code in Code::ALL {
        codes += &format!("| {code} | {} | {} |\n", cell(code.title()), cell(code.rule()));
    }
    let wanted = replaced(&replaced(&spec, "builtins", &builtins), "codes", &codes);
    if env::var_os("PHOBOS_BLESS").is_some() {
        fs::write(&path, wanted).unwrap();
    } else {
        assert!(spec == wanted, "SPEC.md has old tables: run this test with PHOBOS_BLESS=1");
    }
}
