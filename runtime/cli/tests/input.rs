//! Standard input as prompt and as conversation, and the files that stop only one of them.
#![allow(clippy::unwrap_used)]

mod common;

use std::{path::Path, process::Output};

use common::{
    command, golden, lacks_compiler, piped, prompts, string, text, with_keys, with_template, with_value,
};

/// Every message with its role, then the answer.
const PLAIN: &str = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}";

fn run(cache: &Path, model: &Path, args: &[&str], input: &[u8]) -> Option<Output> {
    let all = [&["--gguf", model.to_str().unwrap(), "-t", "0", "-n", "2"], args].concat();
    let output = piped(command(Some(cache), &all), input);
    (!lacks_compiler(&output)).then_some(output)
}

#[test]
fn what_is_piped_is_one_prompt_joined_with_the_argument() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, model) = (folder.path(), golden("llama-f32.gguf"));
    let tokens = |args: &[&str], input: &[u8]| {
        let output = run(cache, &model, &[&["--raw"], args].concat(), input)?;
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        Some((prompts(&output), output.stdout))
    };
    let Some(whole) = tokens(&["  hello\n\n  world"], b"") else { return };
    assert_eq!(tokens(&[], b"  hello\n\n  world\n").unwrap(), whole);
    assert_eq!(tokens(&["-"], b"  hello\n\n  world\n").unwrap(), whole);
    assert_eq!(tokens(&["  hello"], b"  world\n").unwrap(), whole);
    assert_eq!(whole.0.len(), 1, "one answer");
}

#[test]
fn no_prompt_at_all_is_the_users_to_change() {
    for (args, input, expected) in [
        (&[][..], &b" \n"[..], "error: no PROMPT, and standard input is empty\n"),
        (&["-"], b"", "error: no PROMPT, and standard input is empty\n"),
        (&["hi"], b"a\nb\xff\n", "error: standard input: line 2, byte 2: not UTF-8\n"),
    ] {
        let model = golden("llama-f32.gguf");
        let output = piped(command(None, &[&["--gguf", model.to_str().unwrap()], args].concat()), input);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
    }
}

#[test]
fn each_line_is_a_turn_when_asked_and_unknown_commands_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_template(folder.path(), PLAIN);
    let input = b"/etc/passwd - what?\n\xff\nhello\n/reset\n/help\nhello\n/exit\nnever\n";
    let Some(output) = run(folder.path(), &model, &["--lines"], input) else { return };
    let stderr = text(&output.stderr);
    let prompts = prompts(&output);
    assert_eq!(prompts.len(), 3, "{stderr}");
    assert!(prompts[1] > prompts[2], "the second has the first before it, the third is alone: {prompts:?}");
    assert!(stderr.contains("error: standard input: line 2, byte 1: not UTF-8\n"), "{stderr}");
    assert!(stderr.contains("\n/reset  starts a new conversation\n"), "{stderr}");
    assert!(stderr.ends_with("error: turns without an answer: 1\n"), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_template_that_refuses_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_template(folder.path(), "{{ raise_exception('no') }}");
    for (args, input) in [(&["--lines"][..], &b"x\ny\n"[..]), (&[], b"x\ny\n")] {
        let Some(output) = run(folder.path(), &model, args, input) else { return };
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("the chat template refuses the messages: no"));
    }
}

#[test]
fn a_full_conversation_says_what_to_do_and_goes_on_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_template(folder.path(), PLAIN);
    let turn = "hello world hello world\n";
    let input = [turn, turn, turn, "/drop\n", turn].concat();
    let Some(output) = run(folder.path(), &model, &["--lines", "--ctx", "40"], input.as_bytes()) else {
        return;
    };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("and the context 40 (--ctx): /reset starts a new conversation, /drop "),
        "{stderr}"
    );
    assert!(stderr.ends_with("error: turns without an answer: 1\n"), "/drop made room: {stderr}");

    let args = ["--lines", "--ctx", "40", "--drop-oldest"];
    let output = run(folder.path(), &model, &args, input.as_bytes()).unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), prompts(&output).len()), (Some(0), 4), "{stderr}");
    assert!(stderr.contains("note: the oldest turns were dropped (1)"), "{stderr}");
    // A turn that does not fit alone is no full conversation.
    let long = turn.trim().repeat(9);
    let output = run(folder.path(), &model, &args, long.as_bytes()).unwrap();
    assert!(text(&output.stderr).contains("and the context 40 (--ctx)\n"), "{}", text(&output.stderr));
}

#[test]
fn a_template_that_is_no_text_stops_chat_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind, value) in [("type", 4, vec![1, 0, 0, 0]), ("bytes", 8, string(b"\xff\xfe"))] {
        let model = with_keys(folder.path(), name, &[("tokenizer.chat_template", kind, value)]);
        let Some(output) = run(folder.path(), &model, &["--raw", "hello"], b"") else { return };
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let output = run(folder.path(), &model, &["hello"], b"").unwrap();
        assert_eq!(output.status.code(), Some(2));
        let stderr = text(&output.stderr);
        assert!(stderr.contains("chat template: wanted a UTF-8 string, found "), "{stderr}");
    }
}

#[test]
fn special_ids_outside_the_vocabulary_are_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_value(folder.path(), "tokenizer.ggml.padding_token_id", u32::MAX);
    let Some(output) = run(folder.path(), &model, &["--raw", "hello"], b"") else { return };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let warnings: Vec<&str> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{stderr}");
    assert!(warnings[0].contains("tokenizer: pad: id 4294967295 is outside the vocabulary"), "{stderr}");
}

#[test]
fn keys_that_the_graph_does_not_know_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let one = 1u32.to_le_bytes().to_vec();
    let model = with_keys(folder.path(), "keys.gguf", &[("llama.attention.novelty", 4, one)]);
    let Some(output) = run(folder.path(), &model, &["--raw", "hello"], b"") else { return };
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let expected = "keys.gguf: metadata key `llama.attention.novelty`: not known, and left aside\n";
    assert!(stderr.contains(expected), "{stderr}");
}

#[test]
fn a_raw_prompt_does_not_end_before_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let model = with_keys(folder.path(), "eos.gguf", &[("tokenizer.ggml.add_eos_token", 7, vec![1])]);
    let plain = golden("llama-f32.gguf");
    let Some(output) = run(folder.path(), &model, &["--raw", "hello"], b"") else { return };
    let expected = run(folder.path(), &plain, &["--raw", "hello"], b"").unwrap();
    assert_eq!((prompts(&output), &output.stdout), (prompts(&expected), &expected.stdout));
}
