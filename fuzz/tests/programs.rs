//! A bounded run of random programs at every level that this CPU has, and controls: what is
//! wrong would be found.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use phobos_artifact::HostLevel;
use phobos_fuzz::{
    execute::Executor,
    generate::generate,
    judge::{Fault, Prepared, Skip, prepare},
    number::Number,
    program::Program,
    runner::{Options, available_levels, run},
    shrink::shrink,
};

/// Tells a person, and `cargo xtask test`, that a test did not run.
fn skip(test: &str, reason: &str) {
    use std::io::Write;
    eprintln!("SKIP: {test}: {reason}");
    if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(log, "SKIP: {test}: {reason}").unwrap();
    }
}

fn executor() -> PathBuf {
    env!("CARGO_BIN_EXE_phobos-fuzz").into()
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

#[test]
fn random_programs_do_what_the_language_says() {
    let levels = available_levels();
    if levels.is_empty() {
        return skip("programs::random_programs_do_what_the_language_says", "no x86-64-v2");
    }
    let programs = variable("PHOBOS_FUZZ_PROGRAMS", 300);
    let options = Options {
        executor: executor(),
        programs,
        seed: variable("PHOBOS_FUZZ_SEED", 1),
        levels,
        out: None,
        known: Vec::new(),
        most_faults: 5,
    };
    let summary = run(&options, &mut |line| eprintln!("{line}")).unwrap();
    let faults: Vec<&String> = summary.faults.iter().map(|(_, text, _)| text).collect();
    assert!(faults.is_empty(), "{}", faults.into_iter().cloned().collect::<String>());
    assert_eq!(summary.refused, [], "the generator makes programs that are not well-typed");
    assert!(summary.compared >= programs * 6 / 10, "{summary:?}");
}

/// Nearly every seed gives a program that the checker takes and the oracle can follow, and
/// together they have what the language has.
#[test]
fn generated_programs_are_well_typed_and_varied() {
    let (mut followed, mut texts) = (0, String::new());
    for seed in 1..=1500 {
        let program = generate(seed);
        match prepare(&program) {
            Ok(_) => followed += 1,
            Err(Skip::Refused(text)) => panic!("seed {seed}: {text}{}", program.text()),
            Err(Skip::Stopped(_)) => {}
        }
        texts.push_str(&program.text());
    }
    assert!(followed > 1400, "{followed}");
    let wanted = "sum( prod( reduce_max( reduce_min( any( all( argmax( argmin( cumsum( tril( transpose( flat( reshape( \
                  broadcast( iota( quantize( dot( dot_t( rowmax( rowsum( where( fma( min( exp( gelu( for while if else : \
                  @autotune( += [T: program_id(1) q4_0 q6_k iq4_xs q8_1 q16_1 bool i8 u8 i16 u32 i64 f16 bf16 f64";
    let missing: Vec<&str> = wanted.split_whitespace().filter(|text| !texts.contains(text)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn shrinking_keeps_what_it_is_asked_for() {
    let holds = |program: &Program| prepare(program).is_ok() && program.text().contains("sum(");
    let mut tried = 0;
    for program in (1..200).map(generate).filter(|program| holds(program)).take(10) {
        let small = shrink(&program, &mut |candidate| holds(candidate));
        assert!(holds(&small) && small.body.len() <= 2, "{}", small.text());
        tried += 1;
    }
    assert_eq!(tried, 10);
}

/// A program of which at least one written element is known exactly, and where that is.
fn a_program_with_a_value() -> (Prepared, usize, usize) {
    for seed in 1.. {
        let Ok(prepared) = prepare(&generate(seed)) else { continue };
        for (tensor, memory) in prepared.wanted.iter().enumerate() {
            let known = |lane: &usize| memory.written[*lane] && memory.cells[*lane] == Number::exact(2.0);
            if let Some(lane) = (0..memory.cells.len()).find(known) {
                return (prepared, tensor, lane);
            }
        }
    }
    unreachable!()
}

#[test]
fn a_wrong_value_is_found() {
    let Some(level) = available_levels().first().copied() else {
        return skip("programs::a_wrong_value_is_found", "no x86-64-v2");
    };
    let mut executor = Executor::new(&executor());
    let (mut prepared, tensor, lane) = a_program_with_a_value();
    assert_eq!(prepared.judge(level, &mut executor).unwrap(), None);
    prepared.wanted[tensor].cells[lane] = Number::exact(2.0f64.next_up());
    let fault = prepared.judge(level, &mut executor).unwrap();
    assert!(matches!(&fault, Some(Fault::Value { wrong: 1, written: true, .. })), "{fault:?}");
}

/// An abort of LLVM, planted in the compiler, ends one job, and the next one is answered.
#[test]
fn an_abort_is_found_and_survived() {
    let Some(level) = available_levels().into_iter().find(|level| *level < HostLevel::V4) else {
        return skip("programs::an_abort_is_found_and_survived", "no level below v4");
    };
    let mut executor = Executor::new(&executor()).with_variable("PHOBOS_PLANT_ABORT", "k");
    let (prepared, ..) = a_program_with_a_value();
    for _ in 0..2 {
        let fault = prepared.judge(level, &mut executor).unwrap();
        assert!(matches!(&fault, Some(Fault::Crash(text)) if text.contains("signal")), "{fault:?}");
    }
}

#[test]
fn the_program_says_what_it_does() {
    let run = |arguments: &[&str]| std::process::Command::new(executor()).args(arguments).output().unwrap();
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--programs"));
    let text = run(&["--print", "--seed", "7"]);
    assert_eq!(String::from_utf8_lossy(&text.stdout), generate(7).text());
    assert_eq!(run(&["--level", "v9"]).status.code(), Some(2));
}
