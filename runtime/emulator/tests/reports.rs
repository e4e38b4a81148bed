//! Reports that one can trust: what people do on purpose is not accused, what is
//! wrong is found, and what cannot run stops nothing else.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, kinds, seeded, strict};
use phobos_emulator::{FaultKind, Options, Outcome, Severity};

/// A kernel with `x` in `%rd0` and `y` in `%rd1`, thread and CTA in `%t` and `%c`, and
/// their places in `y` in `%rd2` (by thread) and in `tile` in `%s`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y)\n{{\n\
         .reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<40>;\n.reg .f32 %f<16>;\n.reg .b64 %rd<16>;\n\
         .reg .b32 %t, %c, %s;\n.shared .align 16 .b8 tile[1024];\n\
         ld.param.u64 %rd0, [x];\nld.param.u64 %rd1, [y];\nmov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\n\
         mul.wide.u32 %rd2, %t, 4;\nadd.u64 %rd2, %rd1, %rd2;\nmov.u32 %s, tile;\nmad.lo.u32 %s, %t, 4, %s;\n\
         {body}\nDONE:\nret;\n}}\n"
    )
}

/// Runs a body; `x` and `y` are 256 words of zeros.
fn run(grid: u32, block: u32, body: &str, options: &Options) -> (Machine, [u64; 2], Outcome) {
    let mut m = Machine::new("reports.ptx", &kernel(body));
    let (x, y) = (m.u32s(&[0; 256]), m.u32s(&[0; 256]));
    let outcome = m.launch("k", [grid, 1, 1], [block, 1, 1], &[x, y], options);
    (m, [x, y], outcome)
}

fn schedules() -> impl Iterator<Item = Options> {
    std::iter::once(strict()).chain((0..50).map(seeded))
}

/// Under every schedule the reports are of this kind alone (or there are none).
#[track_caller]
fn only(grid: u32, block: u32, body: &str, kind: Option<FaultKind>) {
    for options in schedules() {
        let (m, _, outcome) = run(grid, block, body, &options);
        let found = kinds(&outcome);
        let right = match kind {
            None => found.is_empty(),
            Some(kind) => !found.is_empty() && found.iter().all(|found| *found == kind),
        };
        assert!(right, "{:?}: {found:?}\n{}", options.schedule, m.render("k", &outcome));
    }
}

#[track_caller]
fn note(grid: u32, block: u32, body: &str, kind: FaultKind) {
    assert_eq!(kind.severity(), Severity::Note);
    only(grid, block, body, Some(kind));
}

#[track_caller]
fn fault(grid: u32, block: u32, body: &str, kind: FaultKind) {
    assert_eq!(kind.severity(), Severity::Fault);
    only(grid, block, body, Some(kind));
}

#[test]
fn lanes_that_store_one_value_do_not_race() {
    only(
        1,
        32,
        "st.shared.u32 [tile], 7;\nbar.sync 0;\nld.shared.u32 %r1, [tile];\nst.global.u32 [%rd1], %r1;",
        None,
    );
    fault(1, 32, "st.shared.u32 [tile], %t;", FaultKind::WarpRace);
    // By two instructions, by two warps and by two CTAs it is worth a note.
    let halves = "setp.lt.u32 %p1, %t, 16;\n@%p1 st.shared.u32 [tile], 7;\n@!%p1 st.shared.u32 [tile], 7;";
    note(1, 32, halves, FaultKind::SameValueRace);
    note(1, 64, "st.shared.u32 [tile], 7;", FaultKind::SameValueRace);
    note(3, 32, "st.global.u32 [%rd1], 7;", FaultKind::SameValueRace);
    fault(3, 1, "st.global.u32 [%rd1], %c;", FaultKind::CtaRace);
    // A byte of a word that another thread writes otherwise.
    let parts = "mov.u16 %h1, 7;\nsetp.lt.u32 %p1, %t, 1;\n@%p1 st.shared.u32 [tile], 0x01000007;\n\
                 @!%p1 st.shared.u8 [tile], %h1;";
    note(1, 2, parts, FaultKind::SameValueRace);
    fault(1, 2, &parts.replace("%h1, 7", "%h1, 8"), FaultKind::WarpRace);
}

#[test]
fn a_race_with_a_value_that_nothing_uses_is_a_note() {
    let body = "setp.lt.u32 %p1, %t, 32;\n@%p1 st.shared.u32 [tile], 5;\n@!%p1 ld.shared.u32 %r9, [tile];";
    note(1, 64, body, FaultKind::DeadReadRace);
    let (_, _, outcome) = run(1, 64, &format!("{body}\n@!%p1 st.global.u32 [%rd2], %r9;"), &strict());
    assert_eq!(kinds(&outcome), [FaultKind::SharedRace]);
    let between = "mov.u32 %r1, 5;\nsetp.eq.u32 %p1, %c, 0;\n@%p1 st.global.u32 [%rd1], %r1;\n@!%p1 ld.global.u32 %r9, [%rd1];";
    note(2, 1, between, FaultKind::DeadReadRace);
}

#[test]
fn threads_that_have_exited_do_not_hold_up_a_barrier() {
    let body = "setp.ge.u32 %p1, %t, 32;\n@%p1 exit;\nbar.sync 0;";
    note(1, 64, body, FaultKind::BarrierExited);
    note(1, 64, "setp.ge.u32 %p1, %t, 40;\n@%p1 exit;\nbarrier.sync 0;", FaultKind::BarrierExited);
}

#[test]
fn padding_may_be_copied() {
    let copy = "mov.u32 %r1, 1;\nst.shared.v2.u32 [tile], {%r1, %r1};\nst.shared.u32 [tile+8], %r1;\n\
                ld.shared.v4.u32 {%r2,%r3,%r4,%r5}, [tile];\nst.global.v4.u32 [%rd1], {%r2,%r3,%r4,%r5};";
    note(1, 1, copy, FaultKind::UninitializedStore);
    let decided = format!("{copy}\nsetp.eq.u32 %p1, %r5, 1;\n@%p1 bra DONE;");
    let (_, _, outcome) = run(1, 1, &decided, &strict());
    assert_eq!(kinds(&outcome), [FaultKind::UninitializedStore, FaultKind::UninitializedBranch]);
    // What an atomic makes of it is no copy.
    fault(1, 1, "red.global.add.u32 [%rd1], %r9;", FaultKind::UninitializedAtomic);
}

/// The last CTA to arrive sums up what all wrote.
fn last_block(second: &str) -> String {
    format!(
        "mad.lo.u32 %r3, %c, 64, %t;\nmul.wide.u32 %rd4, %r3, 4;\nadd.s64 %rd4, %rd0, %rd4;\nst.global.u32 [%rd4], %r3;\n\
         membar.gl;\nbar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra A;\natom.global.add.u32 %r4, [%rd0+1020], 1;\n\
         st.shared.u32 [tile], %r4;\nA:\nbar.sync 0;\nld.shared.u32 %r5, [tile];\nsetp.ne.u32 %p2, %r5, 1;\n@%p2 bra DONE;\n\
         {second}\nsub.u32 %r6, 127, %t;\nmul.wide.u32 %rd5, %r6, 4;\nadd.s64 %rd5, %rd0, %rd5;\nld.global.u32 %r7, [%rd5];\n\
         sub.u32 %r6, 63, %t;\nmul.wide.u32 %rd5, %r6, 4;\nadd.s64 %rd5, %rd0, %rd5;\nld.global.u32 %r8, [%rd5];\n\
         add.u32 %r7, %r7, %r8;\nst.global.u32 [%rd2], %r7;"
    )
}

#[test]
fn any_thread_behind_a_barrier_may_complete_the_acquire() {
    only(2, 64, &last_block("membar.gl;"), None);
    fault(2, 64, &last_block(""), FaultKind::CtaRace);
    fault(2, 64, &last_block("membar.cta;"), FaultKind::CtaRace);
}

#[test]
fn volatile_within_a_warp_is_a_note() {
    let body = |meet: &str| {
        format!(
            "xor.b32 %r4, %t, 31;\nmov.u32 %r5, tile;\nmad.lo.u32 %r4, %r4, 4, %r5;\nmov.u32 %r6, 0;\n\
             st.volatile.shared.u32 [%s], %r6;\nbar.warp.sync -1;\nst.volatile.shared.u32 [%s], %t;\n{meet}\n\
             ld.volatile.shared.u32 %r7, [%r4];\nst.global.u32 [%rd2], %r7;"
        )
    };
    note(1, 32, &body(""), FaultKind::VolatileExchange);
    only(1, 32, &body("bar.warp.sync -1;"), None);
    // Values differ from schedule to schedule, which the command compares.
    let read = |options: &Options| {
        let (m, [_, y], _) = run(1, 32, &body(""), options);
        m.read_u32s(y, 32)
    };
    assert!((0..20).any(|seed| read(&seeded(seed)) != read(&strict())));
}

/// CTA 0 writes and raises a flag, the others wait for it and read.
fn message(release: &str, acquire: &str) -> String {
    format!(
        "setp.ne.u32 %p1, %c, 0;\n@%p1 bra R;\nmov.u32 %r2, 7;\nst.global.u32 [%rd0], %r2;\n{release} [%rd0+64], 1;\nbra DONE;\n\
         R:\n{acquire} %r4, [%rd0+64];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra R;\nld.global.u32 %r5, [%rd0];\nst.global.u32 [%rd1], %r5;"
    )
}

#[test]
fn scopes_count() {
    only(2, 1, &message("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"), None);
    for (release, acquire) in [("cta", "gpu"), ("gpu", "cta"), ("cta", "cta")] {
        let body =
            message(&format!("st.release.{release}.global.u32"), &format!("ld.acquire.{acquire}.global.u32"));
        // Neither the flag nor the data are ordered.
        fault(2, 1, &body, FaultKind::CtaRace);
    }
    fault(2, 1, "atom.cta.global.add.u32 %r1, [%rd0], 1;", FaultKind::CtaRace);
    fault(2, 1, "atom.cta.global.add.u32 %r1, [%rd0], 1;\nst.global.u32 [%rd0+4], %r1;", FaultKind::CtaRace);
    only(2, 1, "atom.gpu.global.add.u32 %r1, [%rd0], 1;", None);
    only(1, 64, "atom.cta.global.add.u32 %r1, [%rd0], 1;", None);
    only(1, 64, "atom.cta.shared.exch.b32 %r1, [tile], 1;", Some(FaultKind::UninitializedAtomic));
    // A fence of CTA scope before the flag.
    let fenced = |scope: &str| {
        message(&format!("fence.acq_rel.{scope};\nst.relaxed.gpu.global.u32"), "ld.acquire.gpu.global.u32")
    };
    only(2, 1, &fenced("gpu"), None);
    fault(2, 1, &fenced("cta"), FaultKind::CtaRace);
}

#[test]
fn non_coherent_loads_of_memory_that_is_written() {
    let body = "st.global.u32 [%rd2], %t;\nld.global.nc.u32 %r2, [%rd2];\nst.global.u32 [%rd2+512], %r2;";
    fault(1, 32, body, FaultKind::NonCoherentRead);
    only(1, 32, &body.replace(".nc", ""), None);
    only(1, 32, "ld.global.nc.u32 %r2, [%rd0];\nst.global.u32 [%rd2], %r2;", None);
    // Read by one CTA, written by another: in waves, and interleaved.
    let across = "setp.eq.u32 %p1, %c, 0;\n@%p1 ld.global.nc.u32 %r2, [%rd0];\n@!%p1 st.global.u32 [%rd0], %t;\nst.global.u32 [%rd2], %r2;";
    for more in ["", "\natom.global.add.u32 %r3, [%rd0+64], 1;\nadd.u32 %r3, %r3, 1;"] {
        let (_, _, outcome) = run(2, 1, &format!("mov.u32 %r2, 0;\n{across}{more}"), &strict());
        assert!(kinds(&outcome).contains(&FaultKind::NonCoherentRead), "{:?}", kinds(&outcome));
    }
}

#[test]
fn the_source_of_an_asynchronous_copy_stays_until_its_wait() {
    let body = |before: &str, after: &str| {
        format!(
            "mul.wide.u32 %rd4, %t, 4;\nadd.u64 %rd3, %rd0, %rd4;\ncp.async.ca.shared.global [%s], [%rd3], 4;\n\
             {before}cp.async.wait_all;\n{after}ld.shared.u32 %r2, [%s];\nst.global.u32 [%rd2], %r2;"
        )
    };
    let write = "add.u32 %r3, %t, 1;\nst.global.u32 [%rd3], %r3;\n";
    fault(1, 32, &body(write, ""), FaultKind::AsyncSource);
    only(1, 32, &body("", write), None);
}

#[test]
fn an_endless_kernel_ends_and_shows_its_loop() {
    let spin = "setp.ne.u32 %p1, %c, 0;\n@%p1 bra R;\nst.global.u32 [%rd0], 1;\nbra DONE;\n\
                R:\nld.global.u32 %r4, [%rd0];\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra R;";
    let (m, _, outcome) = run(4, 1, spin, &Options { max_idle: 200_000, ..strict() });
    assert!(outcome.ended);
    let text = m.render("k", &outcome);
    assert!(text.contains("instruction limit reached") && text.contains("no memory changed"), "{text}");
    assert!(text.contains("in the loop:") && text.contains("ld.global.u32 %r4, [%rd0];"), "{text}");
    // What was found before is there: the flag is read and written without order.
    assert!(kinds(&outcome).contains(&FaultKind::CtaRace), "{text}");
    for options in [strict(), seeded(3)] {
        let (_, _, outcome) = run(1, 32, "LOOP:\nbra LOOP;", &Options { max_idle: 100_000, ..options });
        assert_eq!(kinds(&outcome), [FaultKind::InstructionLimit]);
    }
    // The first endless CTA is the one reported, on any number of workers.
    for workers in [1, 3] {
        let body = "setp.lt.u32 %p1, %c, 2;\n@%p1 bra DONE;\nLOOP:\nbra LOOP;";
        let (_, _, outcome) = run(6, 32, body, &Options { workers, max_idle: 100_000, ..strict() });
        assert_eq!((outcome.faults.list.len(), outcome.faults.list[0].thread.cta), (1, [2, 0, 0]));
    }
    // A long computation that stores in the end is none.
    let long = "mov.u32 %r1, 0;\nL:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 100000;\n@%p1 bra L;\nst.global.u32 [%rd2], %r1;";
    only(1, 1, long, None);
}

#[test]
fn a_run_can_be_interrupted() {
    let options = Options { deadline: Some(std::time::Instant::now()), ..strict() };
    let (_, _, outcome) = run(1, 32, "LOOP:\nbra LOOP;", &options);
    assert_eq!((kinds(&outcome).as_slice(), outcome.ended), (&[FaultKind::Interrupted][..], true));
    // By a signal, which sets a flag; what was found stays.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let options = Options { stop: Some(stop), ..strict() };
    let (m, _, outcome) = run(1, 32, "LOOP:\nbra LOOP;", &options);
    assert_eq!(kinds(&outcome), [FaultKind::Interrupted]);
    let text = m.render("k", &outcome);
    assert!(text.contains("ended by a signal") && text.contains("in the loop:"), "{text}");
}

const MODULE: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .extern .global .u32 elsewhere;\n.global .u64 table = nowhere;\n.extern .func gone();\n\
    .visible .entry good(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n.reg .b32 %r<2>;\nld.param.u64 %rd1, [p];\n\
    mov.u32 %r1, 5;\nst.global.u32 [%rd1], %r1;\nret;\n}\n\
    .visible .entry bad(.param .u64 p)\n{\nfrobnicate.u32;\nret;\n}\n\
    .visible .entry garbled(.param .u64 p)\n{\n.reg .b32 %r<2;\nret;\n}\n\
    .visible .entry outside(.param .u64 p)\n{\n.reg .b32 %r<2>;\nld.global.u32 %r1, [elsewhere];\nret;\n}\n\
    .visible .entry tabled(.param .u64 p)\n{\n.reg .b64 %rd<2>;\nld.global.u64 %rd1, [table];\nret;\n}\n\
    .visible .entry calls(.param .u64 p)\n{\ncall gone;\nret;\n}\n";

#[test]
fn what_cannot_run_stops_nothing_else() {
    let mut m = Machine::new("module.ptx", MODULE);
    let y = m.u32s(&[0]);
    let outcome = m.launch("good", [1, 1, 1], [1, 1, 1], &[y], &strict());
    m.clean("good", &outcome);
    assert_eq!(m.read_u32s(y, 1), [5]);
    for (kernel, why) in [
        ("bad", "module.ptx:18:1: unknown instruction `frobnicate.u32`"),
        ("garbled", "module.ptx:23:15: expected `>`, found `;`"),
        ("outside", "`elsewhere` has no definition in this module"),
        ("tabled", "the initialiser names unknown `nowhere`"),
        ("calls", "the function `gone` has no body in this module"),
    ] {
        let refused = m
            .emulator
            .launch(&m.program, kernel, [1; 3], [1; 3], 0, &y.to_le_bytes(), &strict())
            .unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[test]
fn chains_of_inlining_lead_to_the_users_line() {
    let body = "ld.global.u32 %r1, [%rd0+4096];";
    let text = kernel(&format!(
        ".loc 1 40 5\nmov.u32 %r2, 1;\n.loc 1 12 3, function_name $L__info_string0, inlined_at 1 40 5\nmov.u32 %r3, 1;\n\
         .loc 2 7 1, function_name $L__info_string0+20, inlined_at 1 12 3\n{body}"
    ));
    let text = text.replace("\n.visible", "\n.file 1 \"user.cu\"\n.file 2 \"lib.cuh\"\n.visible");
    let mut m = Machine::new("inlined.ptx", &text);
    let x = m.u32s(&[0; 4]);
    let outcome = m.launch("k", [1, 1, 1], [1, 1, 1], &[x, x], &strict());
    let rendered = m.render("k", &outcome);
    let chain = "(lib.cuh:7, inlined at user.cu:12, inlined at user.cu:40)";
    assert!(rendered.contains(chain), "{rendered}");
    let json = outcome.faults.list[0].json(m.program.kernel("k").unwrap());
    assert_eq!(json["ptx"]["inlined_at"][1], serde_json::json!({ "file": "user.cu", "line": 40 }));
}

#[test]
fn cpp_names_are_shown_as_in_the_source() {
    let text = kernel("ld.global.u32 %r1, [%rd0+4096];").replace("entry k(", "entry _Z5scalePKfPfi(");
    let mut m = Machine::new("cpp.ptx", &text);
    let x = m.u32s(&[0; 4]);
    let outcome = m.launch("_Z5scalePKfPfi", [1, 1, 1], [1, 1, 1], &[x, x], &strict());
    let rendered = m.render("_Z5scalePKfPfi", &outcome);
    assert!(rendered.contains("kernel scale(float const*, float*, int) cta"), "{rendered}");
}

#[test]
fn missing_dynamic_shared_memory_is_hinted_at() {
    let text = kernel("st.shared.u32 [dynamic], 1;")
        .replace("\n.visible", "\n.extern .shared .align 4 .b8 dynamic[];\n.visible");
    let mut m = Machine::new("dynamic.ptx", &text);
    let x = m.u32s(&[0; 4]);
    let outcome = m.launch("k", [1, 1, 1], [1, 1, 1], &[x, x], &strict());
    let rendered = m.render("k", &outcome);
    assert!(rendered.contains("the launch gave none (`--shared BYTES`)"), "{rendered}");
    let outcome = m.launch_shared("k", [1, 1, 1], [1, 1, 1], 4, &[x, x], &strict());
    m.clean("k", &outcome);
}

#[test]
fn names_of_kinds_can_be_typed() {
    for kind in FaultKind::ALL {
        assert_eq!(FaultKind::named(&kind.name()), Some(*kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    assert_eq!(FaultKind::WarpRace.name(), "warp_race");
}
