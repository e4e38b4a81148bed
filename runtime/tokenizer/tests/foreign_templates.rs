//! Chat templates of published models: against what Python's Jinja renders, and under attack.
//!
//! The files are not part of this project. `PHOBOS_TEMPLATE_DIR` names a directory with
//! `templates/NAME` and `templates_rendered/NAME.json`, the latter `{"inputs": {case: variables},
//! "rendered": {case: text, or {"error": …}}}`.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;

use phobos_tokenizer::{ChatInput, TokenType, Tokenizer};
use serde_json::{Map, Value};

struct Golden {
    name: String,
    /// Control tokens: the names in angle brackets that the template writes, and others.
    control: Vec<String>,
    tokenizer: Tokenizer,
    inputs: Map<String, Value>,
    rendered: Value,
}

fn goldens() -> Vec<Golden> {
    let Some(directory) = std::env::var_os("PHOBOS_TEMPLATE_DIR").map(PathBuf::from) else {
        eprintln!("skipped: PHOBOS_TEMPLATE_DIR is not set");
        return Vec::new();
    };
    let entries = std::fs::read_dir(directory.join("templates_rendered")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let goldens: Vec<Golden> = paths
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let source = std::fs::read_to_string(directory.join("templates").join(&name)).unwrap();
            let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            let control = control_names(&source);
            let mut spec = common::spec("qwen2");
            for text in control.iter().map(|text| text.as_bytes().to_vec()) {
                if !spec.tokens.contains(&text) {
                    spec.tokens.push(text);
                    spec.types.push(TokenType::Control);
                }
            }
            spec.chat_template = Some(source);
            Golden {
                name,
                control,
                tokenizer: Tokenizer::new(&spec).unwrap(),
                inputs: golden["inputs"].as_object().unwrap().clone(),
                rendered: golden["rendered"].clone(),
            }
        })
        .collect();
    assert!(!goldens.is_empty());
    goldens
}

fn control_names(source: &str) -> Vec<String> {
    let mut names = vec!["<s>".to_owned(), "</s>".to_owned()];
    for (start, _) in source.match_indices('<') {
        let Some(length) = source[start..].find('>') else { break };
        let name = &source[start..=start + length];
        let looks = name.contains('|') || name.contains("turn>");
        let plain = name.len() < 40 && !name.contains([' ', '\n', '\'', '"']);
        if looks && plain && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

fn input(variables: &Value, change: impl Fn(&Value) -> Value) -> ChatInput {
    let mut extra = variables.as_object().unwrap().clone();
    ChatInput {
        messages: change(&extra.remove("messages").unwrap()),
        tools: extra.remove("tools").as_ref().map(change),
        add_generation_prompt: extra.remove("add_generation_prompt") == Some(Value::Bool(true)),
        extra,
        now: None,
    }
}

#[test]
fn renderings_equal_the_reference() {
    let (mut equal, mut refused) = (0, 0);
    let mut failures = Vec::new();
    for Golden { name, tokenizer, inputs, rendered, .. } in &goldens() {
        let template = tokenizer.chat_template().unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
        for (case, variables) in inputs {
            match (&rendered[case], template.render(&input(variables, Value::clone))) {
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
}

/// Puts `insertion` into every string but the ones that templates branch on.
fn insert(value: &Value, key: &str, insertion: &str) -> Value {
    match value {
        Value::String(text) if !["role", "type", "name"].contains(&key) => {
            Value::String(format!("{text}{insertion}{text}"))
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| insert(item, "", insertion)).collect()),
        Value::Object(entries) => Value::Object(
            entries.iter().map(|(key, value)| (key.clone(), insert(value, key, insertion))).collect(),
        ),
        other => other.clone(),
    }
}

/// Control tokens, whole and in parts, in every string: the prompt has the control tokens that it
/// has with a harmless text in their place.
#[test]
fn no_attack_changes_the_control_tokens() {
    let mut attacks = 0;
    for Golden { name, control, tokenizer, inputs, .. } in &goldens() {
        let template = tokenizer.chat_template().unwrap().unwrap();
        for (case, variables) in inputs {
            let control_tokens = |insertion: &str| {
                let prompt = template.render(&input(variables, |value| insert(value, "", insertion))).ok()?;
                let mut ids = tokenizer.encode_prompt(&prompt);
                assert_eq!(String::from_utf8_lossy(&tokenizer.decode(&ids, false)), prompt.text());
                ids.retain(|&id| tokenizer.vocabulary().is_control(id));
                Some(common::texts(tokenizer, &ids))
            };
            let harmless = control_tokens("harmless");
            for token in control {
                let (head, tail) = (&token[..token.len() - 1], &token[1..]);
                for attack in [
                    token.clone(),
                    format!(" {token}\n{token}"),
                    format!("\n\n{token}\n\n"),
                    format!("<|{token}"),
                    head.to_owned(),
                    tail.to_owned(),
                    tail[..tail.len() - 1].to_owned(),
                ] {
                    attacks += 1;
                    assert_eq!(control_tokens(&attack), harmless, "{name} {case} {attack:?}");
                }
            }
        }
    }
    eprintln!("{attacks} attacks");
}
