//! What the tests of the programs share.
#![allow(dead_code, clippy::unwrap_used)]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub const CLI: &str = env!("CARGO_BIN_EXE_phobos-cli");

/// A file of the models' reference data.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tests/goldens").join(name)
}

/// A command with nothing of the caller's environment that matters; kernels are cached in
/// `cache`, where there is one.
pub fn command(cache: Option<&Path>, args: &[&str]) -> Command {
    let mut command = Command::new(CLI);
    command.args(args).env_remove("PHOBOS_DEVICE").stdin(Stdio::null());
    command.env("PHOBOS_KERNEL_CACHE_DIR", cache.unwrap_or(Path::new("")));
    command
}

/// Runs with `input` on a pipe.
pub fn piped(mut command: Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may end before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The real compiler is needed: whether it is not there, which a word on standard error says.
pub fn lacks_compiler(output: &Output) -> bool {
    let stderr = text(&output.stderr);
    let lacks = stderr.contains("phobos-compile, which compiles kernels, was not found");
    if lacks {
        assert!(std::env::var_os("PHOBOS_REQUIRE_COMPILER").is_none_or(|v| v != "1"), "{stderr}");
        eprintln!("skipped: {stderr}");
    }
    lacks
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Where a value of a GGUF file begins, behind its key and its type.
fn value_of(bytes: &[u8], key: &str) -> usize {
    let at = bytes.windows(key.len()).position(|window| window == key.as_bytes()).unwrap();
    at + key.len() + 4
}

/// The tiny llama model with a chat template (and what else `more` adds, a string value each);
/// its answers are noise.
pub fn with_keys(folder: &Path, name: &str, more: &[(&str, u32, Vec<u8>)]) -> PathBuf {
    let original = fs::read(golden("llama-f32.gguf")).unwrap();
    // The new keys go in front of the first; the data section moves by a multiple of its
    // alignment, which a key of padding sees to.
    const KEYS_AT: usize = 24;
    let count = u64::from_le_bytes(original[16..24].try_into().unwrap());
    let mut keys = Vec::new();
    let mut add = |key: &str, kind: u32, value: &[u8]| {
        keys.extend((key.len() as u64).to_le_bytes());
        keys.extend(key.as_bytes());
        keys.extend(kind.to_le_bytes());
        keys.extend(value);
        keys.len()
    };
    let mut length = 0;
    for (key, kind, value) in more {
        length = add(key, *kind, value);
    }
    let padding = (length + 8 + 7 + 4 + 8).next_multiple_of(32) - (length + 8 + 7 + 4 + 8);
    add("padding", 8, &string(&vec![b' '; padding]));
    let mut bytes = original[..16].to_vec();
    bytes.extend((count + more.len() as u64 + 1).to_le_bytes());
    bytes.extend(keys);
    bytes.extend(&original[KEYS_AT..]);
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// A string value.
pub fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// The tiny model with this chat template.
pub fn with_template(folder: &Path, template: &str) -> PathBuf {
    with_keys(folder, "chat.gguf", &[("tokenizer.chat_template", 8, string(template.as_bytes()))])
}

/// The tiny model with another value of a key of four bytes.
pub fn with_value(folder: &Path, key: &str, value: u32) -> PathBuf {
    let mut bytes = fs::read(golden("llama-f32.gguf")).unwrap();
    let at = value_of(&bytes, key);
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let path = folder.join("changed.gguf");
    fs::write(&path, bytes).unwrap();
    path
}

/// How many tokens the prompt had, of each answer.
pub fn prompts(output: &Output) -> Vec<u32> {
    let lines = text(&output.stderr).lines().filter_map(|line| line.strip_prefix("prompt "));
    lines.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}
