//! Damaged PTX must be refused or run, never panic, hang or allocate without
//! bound. `PHOBOS_FUZZ_CASES=1000000 cargo test --release -p phobos-emulator --test
//! fuzz` runs longer; `PHOBOS_FUZZ_SEED` starts elsewhere.
#![allow(clippy::unwrap_used)]

mod common;

use common::Data;
use phobos_emulator::{Emulator, Options, Program, Schedule};

const CORPUS: [&str; 6] = [
    include_str!("foreign/kernels.ptx"),
    include_str!("foreign/kernels80.ptx"),
    include_str!("foreign/triton_fp16.ptx"),
    include_str!("data/modern.ptx"),
    include_str!("foreign/functions.ptx"),
    ".version 8.0\n.target sm_90\n.address_size 64\n.const .u32 t[2] = {1, 0x10};\n.func (.reg .b32 %o) f(.reg .b32 %i)\n{\nadd.u32 %o, %i, 1;\nret;\n}\n\
     .entry k(.param .u64 a)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n.shared .b8 s[64];\nld.param.u64 %rd0, [a];\n\
     {\n.reg .b32 %x;\nmov.u32 %x, s;\n}\nLOOP:\n@%p1 bra LOOP;\nts: .branchtargets LOOP, END;\nbrx.idx %r1, ts;\ncall (%r2), f, (%r3);\nEND:\nbar.sync 0;\nret;\n}\n",
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Pieces that steer a parser into corners.
const PIECES: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ";",
    ",",
    "<99999999999>",
    "[18446744073709551615]",
    ".align 0",
    ".v4",
    "0x",
    "0f0",
    "1e999",
    "%tid.x",
    "@!%p",
    ".reg .b32 %r<65537>;",
    ".local .b8 l[999999999];",
    "/*",
    "\"",
    "-",
    ".loc 1 2 3, inlined_at",
    "\u{fffd}",
];

fn damage(text: &str, data: &mut Data) -> String {
    // Keep the header: without it everything ends at the first line.
    let lines: Vec<&str> = text.lines().collect();
    let body = lines.iter().position(|line| line.contains(".entry")).unwrap_or(0);
    let start = body + data.bits() as usize % (lines.len() - body);
    let span = 5 + data.bits() as usize % 60;
    let mut bytes = text.as_bytes().to_vec();
    let offset: usize = lines[..start].iter().map(|line| line.len() + 1).sum();
    for _ in 0..1 + data.bits() % 6 {
        let at = (offset + data.bits() as usize % (span * 30)).min(bytes.len().saturating_sub(1));
        match data.bits() % 6 {
            0 => bytes[at] = (data.bits() % 127) as u8,
            1 => {
                bytes.remove(at);
            }
            2 => {
                let piece = PIECES[data.bits() as usize % PIECES.len()];
                bytes.splice(at..at, piece.bytes());
            }
            3 => {
                let end = (at + data.bits() as usize % 200).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + data.bits() as usize % 100).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => bytes.truncate(at + 1),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn damaged_text_is_refused_or_decoded() {
    let cases = setting("PHOBOS_FUZZ_CASES", 3000);
    let seed = setting("PHOBOS_FUZZ_SEED", 1);
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..cases {
        let mut data = Data::new(seed.wrapping_mul(1_000_003) + case);
        let text = damage(CORPUS[case as usize % CORPUS.len()], &mut data);
        match Program::load("fuzz.ptx", &text, 0x7f00_0000_0000) {
            Ok(_) => accepted += 1,
            Err(error) => {
                refused += 1;
                assert!(error.pos.line >= 1 && !error.message.is_empty());
            }
        }
    }
    eprintln!("{accepted} accepted, {refused} refused");
    assert!(cases < 100 || (accepted > 0 && refused > 0));
}

#[test]
fn damaged_kernels_run_to_an_end() {
    // One operand or word of one instruction changes: most still decode, and run
    // into every kind of fault.
    let cases = setting("PHOBOS_FUZZ_CASES", 3000) / 10;
    let seed = setting("PHOBOS_FUZZ_SEED", 1);
    // Every kernel of the corpus, with the header of its file.
    let mut kernels = Vec::new();
    for source in &CORPUS[..4] {
        let lines: Vec<&str> = source.lines().collect();
        let address = lines.iter().position(|l| l.contains("address_size")).unwrap();
        let mut header = lines[..=address].join("\n");
        // Module variables of the files, for the kernels that name them.
        for line in lines.iter().filter(|l| l.starts_with(".global") || l.starts_with(".extern .shared")) {
            header += &format!("\n{line}");
        }
        for first in (0..lines.len()).filter(|i| lines[*i].contains(".entry")) {
            let length = lines[first..].iter().position(|line| line.starts_with('}')).unwrap();
            kernels.push((header.clone(), lines[first..=first + length].to_vec()));
        }
    }
    let mut ran = 0;
    for case in 0..cases {
        let mut data = Data::new(seed.wrapping_mul(7_000_003) + case);
        let (header, lines) = &kernels[case as usize % kernels.len()];
        let mut body: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for _ in 0..1 + data.bits() % 2 {
            let at = 8 + data.bits() as usize % (body.len() - 9);
            match data.bits() % 4 {
                0 => body[at] = String::new(),
                1 => {
                    let other = 8 + data.bits() as usize % (body.len() - 9);
                    if !body[other].trim_start().starts_with('$') {
                        body[at] = body[other].clone();
                    }
                }
                2 => body[at] = body[at].replace("%r1", "%r2").replace("%rd1", "%rd2"),
                _ => body[at] = body[at].replacen(|c: char| c.is_ascii_digit(), "7", 1),
            }
        }
        let text = format!("{header}\n{}\n", body.join("\n"));
        let mut emulator = Emulator::new(0);
        let Ok(program) = emulator.load("fuzz.ptx", &text) else { continue };
        let Some(kernel) = program.kernels.first().cloned() else { continue };
        let base = emulator.memory.allocate(4 * 32 * 32, true, "a").unwrap();
        let mut params = vec![0u8; kernel.param_bytes as usize];
        for param in &kernel.params {
            // Pointers to one buffer, sizes that fit it.
            let value = if param.bytes == 8 { base } else { 32 };
            let (at, n) = (param.offset as usize, param.bytes.min(8) as usize);
            params[at..at + n].copy_from_slice(&value.to_le_bytes()[..n]);
        }
        let block = if text.contains("%tid.y") { [16, 16, 1] } else { [128, 1, 1] };
        let shared = if text.contains(".extern") { 16384 } else { 0 };
        let options = Options {
            schedule: if case % 2 == 0 { Schedule::Converged } else { Schedule::Adversarial(case) },
            max_instructions: 20_000,
            workers: 1,
            ..Options::default()
        };
        if emulator.launch(&program, &kernel.name, [2, 1, 1], block, shared, &params, &options).is_ok() {
            ran += 1;
        }
    }
    eprintln!("{ran} of {cases} ran");
    assert!(cases < 100 || ran > 0);
}
