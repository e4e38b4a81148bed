//! Chat templates of published models against what Python's Jinja renders.
//!
//! The files are not part of this project. `PHOBOS_TEMPLATE_DIR` names a directory with
//! `templates/NAME` and `templates_rendered/NAME.json`, the latter `{"inputs": {case: variables},
//! "rendered": {case: text, or {"error": …}}}`.

#![allow(clippy::unwrap_used)]

use phobos_tokenizer::{ChatInput, ChatTemplate, SpecialTexts};
use serde_json::{Map, Value};

fn input(variables: &Map<String, Value>) -> ChatInput {
    let mut extra = variables.clone();
    ChatInput {
        messages: extra.remove("messages").unwrap(),
        tools: extra.remove("tools"),
        add_generation_prompt: extra.remove("add_generation_prompt") == Some(Value::Bool(true)),
        extra,
        now: None,
    }
}

#[test]
fn renderings_equal_the_reference() {
    let Some(directory) = std::env::var_os("PHOBOS_TEMPLATE_DIR").map(std::path::PathBuf::from) else {
        eprintln!("skipped: PHOBOS_TEMPLATE_DIR is not set");
        return;
    };
    let mut paths: Vec<_> = std::fs::read_dir(directory.join("templates_rendered"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let (mut equal, mut refused) = (0, 0);
    let mut failures = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let source = std::fs::read_to_string(directory.join("templates").join(name)).unwrap();
        let golden: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let control = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|turn>", "<turn|>", "<|eot_id|>"];
        let special = SpecialTexts {
            bos: Some("<s>".into()),
            eos: Some("</s>".into()),
            control: control.map(str::to_owned).to_vec(),
        };
        let template = ChatTemplate::new(&source, &special).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (case, variables) in golden["inputs"].as_object().unwrap() {
            let got = template.render(&input(variables.as_object().unwrap()));
            match (&golden["rendered"][case], got) {
                (Value::String(want), Ok(got)) if want == got.text() => equal += 1,
                (Value::Object(_), Err(error)) => {
                    eprintln!("{name} {case}: {error}");
                    refused += 1;
                }
                (want, got) => failures.push(format!("{name} {case}:\n want {want}\n got {got:?}")),
            }
        }
    }
    eprintln!("{equal} renderings equal, {refused} refused by both");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(equal > 0);
}
