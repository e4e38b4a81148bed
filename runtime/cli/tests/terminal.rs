//! A conversation at a terminal.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::ffi::OsStrExt,
};

use common::{command, golden, lacks_compiler, piped, text, with_template};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Reads until `end` was shown for the `times`th time.
fn read_until(terminal: &mut File, shown: &mut String, end: &str, times: usize) {
    let mut buffer = [0; 4096];
    while shown.matches(end).count() < times {
        let count = terminal.read(&mut buffer).unwrap();
        shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

#[test]
fn what_is_pasted_is_one_turn() {
    let folder = tempfile::tempdir().unwrap();
    let plain = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}";
    let model = with_template(folder.path(), plain);
    let args = ["--gguf", model.to_str().unwrap(), "-t", "0", "-n", "1"];
    // Fills the kernel cache, or says that there is no compiler.
    let llama = golden("llama-f32.gguf");
    let raw = ["--gguf", llama.to_str().unwrap(), "--raw", "-n", "1", "a"];
    if lacks_compiler(&piped(command(Some(folder.path()), &raw), b"")) {
        return;
    }

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let other = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut child = command(Some(folder.path()), &args)
        .stdin(other.try_clone().unwrap())
        .stdout(other.try_clone().unwrap())
        .stderr(other)
        .spawn()
        .unwrap();

    let mut terminal = File::from(terminal);
    let mut shown = String::new();
    read_until(&mut terminal, &mut shown, "\u{1b}[?2004h", 1);
    read_until(&mut terminal, &mut shown, "\n> ", 1);
    // The last of the lines has no end of its own.
    terminal.write_all(b"\x1b[200~  one\n/exit\nthree\x1b[201~\n").unwrap();
    read_until(&mut terminal, &mut shown, "cut at --num", 1);
    read_until(&mut terminal, &mut shown, "\n> ", 2);
    terminal.write_all(b"/exit\n").unwrap();
    read_until(&mut terminal, &mut shown, "\u{1b}[?2004l", 1);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{shown}");
    assert_eq!(shown.matches("tokens/s, answer").count(), 1, "{shown}");

    let lone = piped(command(Some(folder.path()), &args), b"  one\n/exit\nthree");
    let tokens = |shown: &str| shown.split("prompt ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(tokens(&shown), tokens(text(&lone.stderr)), "{shown}");
}
