//! Each kind of fault, planted in hand-written PTX, is reported; the corrected
//! twin is not accused, under the converged schedule and 100 hostile ones.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, kinds, seeded, strict};
use phobos_emulator::{FaultKind, Options, Outcome};

/// A kernel with the parameters `x` and `y` in `%rd0` and `%rd1`, the thread in
/// `%t`, and `tile`, 1 KiB of shared memory at `%s`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u64 y)\n{{\n\
         .reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<40>;\n.reg .f32 %f<16>;\n.reg .b64 %rd<16>;\n\
         .reg .b32 %t, %s, %c;\n.shared .align 16 .b8 tile[1024];\n\
         ld.param.u64 %rd0, [x];\nld.param.u64 %rd1, [y];\nmov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\n\
         mov.u32 %s, tile;\n{body}\nret;\n}}\n"
    )
}

struct Case {
    grid: u32,
    block: u32,
}

const ONE_WARP: Case = Case { grid: 1, block: 32 };
const TWO_WARPS: Case = Case { grid: 1, block: 64 };
const CTAS: Case = Case { grid: 4, block: 32 };

/// Runs a body over an input of 256 words (their indices) and an output of 1 KiB.
fn run(case: &Case, body: &str, options: &Options) -> (Machine, Outcome) {
    let text = kernel(body);
    let mut m = Machine::new("planted.ptx", &text);
    let x = m.u32s(&(0..256).collect::<Vec<u32>>());
    let y = m.output(1024);
    let outcome = m.launch("k", [case.grid, 1, 1], [case.block, 1, 1], &[x, y], options);
    (m, outcome)
}

fn schedules() -> impl Iterator<Item = Options> {
    std::iter::once(strict()).chain((0..100).map(seeded))
}

/// The report must be made by every schedule; `line` is a part of the PTX line
/// that it must name (on either side of a race).
#[track_caller]
fn caught(case: &Case, body: &str, kind: FaultKind, line: &str) {
    for options in schedules().take(20) {
        let (m, outcome) = run(case, body, &options);
        let text = m.render("k", &outcome);
        let found = outcome.faults.list.iter().find(|fault| fault.kind == kind);
        let Some(fault) = found else {
            panic!("{:?}: expected {kind:?}, got {:?}\n{text}", options.schedule, kinds(&outcome))
        };
        let rendered = fault.render(m.program.kernel("k").unwrap());
        assert!(rendered.contains(line), "{rendered}");
    }
}

#[track_caller]
fn clean(case: &Case, body: &str) {
    for options in schedules() {
        let (m, outcome) = run(case, body, &options);
        assert!(outcome.faults.list.is_empty(), "{:?}\n{}", options.schedule, m.render("k", &outcome));
    }
}

const OWN: &str = "mul.wide.u32 %rd2, %t, 4;\nadd.u64 %rd3, %rd0, %rd2;\nadd.u64 %rd4, %rd1, %rd2;\n\
                   mad.lo.u32 %r0, %t, 4, %s;\n";

fn own(body: &str) -> String {
    format!("{OWN}{body}")
}

#[test]
fn global_out_of_bounds() {
    caught(&ONE_WARP, &own("ld.global.u32 %r1, [%rd3+1000];"), FaultKind::OutOfBounds, "ld.global.u32");
    caught(
        &ONE_WARP,
        &own("mov.u32 %r1, 0;\nst.global.u32 [%rd4-4], %r1;"),
        FaultKind::OutOfBounds,
        "st.global.u32",
    );
    clean(&ONE_WARP, &own("ld.global.u32 %r1, [%rd3+896];\nst.global.u32 [%rd4+896], %r1;"));
}

#[test]
fn shared_and_local_out_of_bounds() {
    caught(&ONE_WARP, &own("ld.shared.u32 %r1, [%r0+1000];"), FaultKind::OutOfBounds, "ld.shared.u32");
    let local = |offset: u32| {
        format!(".local .align 4 .b8 frame[16];\nmov.u32 %r1, frame;\nst.local.u32 [%r1+{offset}], %t;")
    };
    caught(&ONE_WARP, &local(16), FaultKind::OutOfBounds, "st.local.u32");
    clean(&ONE_WARP, &local(12));
}

#[test]
fn vectors_may_not_cross_the_end() {
    let read = |offset: u32| own(&format!("ld.global.v4.u32 {{%r1,%r2,%r3,%r4}}, [%rd0+{offset}];"));
    clean(&ONE_WARP, &read(1008));
    let body = ".global_is_no_directive";
    assert!(phobos_emulator::Program::load_whole("k", &kernel(body), 0).is_err());
    // 16 bytes at 1008 + 8 would be misaligned as well: both are refused.
    caught(&ONE_WARP, &read(1024), FaultKind::OutOfBounds, "ld.global.v4");
}

#[test]
fn misaligned() {
    caught(&ONE_WARP, &own("ld.global.u32 %r1, [%rd3+2];"), FaultKind::Misaligned, "[%rd3+2]");
    caught(&ONE_WARP, &own("ld.global.v2.u32 {%r1, %r2}, [%rd0+4];"), FaultKind::Misaligned, "v2");
    caught(&ONE_WARP, &own("st.shared.u32 [%r0+1], %t;"), FaultKind::Misaligned, "st.shared");
    clean(&ONE_WARP, &own("ld.global.v2.u32 {%r1, %r2}, [%rd0+8];"));
}

#[test]
fn use_after_free() {
    let text = kernel(&own("ld.global.u32 %r1, [%rd3];"));
    let mut m = Machine::new("planted.ptx", &text);
    let x = m.u32s(&[0; 32]);
    m.emulator.memory.free(x).unwrap();
    let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[x, x], &strict());
    assert_eq!(kinds(&outcome), [FaultKind::UseAfterFree]);
}

#[test]
fn writes_to_read_only_memory() {
    let text = kernel(&own("st.global.u32 [%rd3], %t;"));
    let mut m = Machine::new("planted.ptx", &text);
    let x = m.u32s(&[5; 32]);
    m.emulator.memory.protect(x).unwrap();
    let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[x, x], &strict());
    assert_eq!(kinds(&outcome), [FaultKind::ReadOnly]);
    assert_eq!(m.read_u32s(x, 32), [5; 32]);
}

#[test]
fn uninitialised_registers() {
    caught(
        &ONE_WARP,
        "setp.eq.u32 %p1, %r9, 3;\n@%p1 bra DONE;\nDONE:",
        FaultKind::UninitializedBranch,
        "bra DONE",
    );
    clean(&ONE_WARP, "mov.u32 %r9, 1;\nsetp.eq.u32 %p1, %r9, 3;\n@%p1 bra DONE;\nDONE:");
    caught(&ONE_WARP, "ld.global.u32 %r1, [%rd9];", FaultKind::UninitializedAddress, "[%rd9]");
    caught(&ONE_WARP, &own("st.global.u32 [%rd4], %r9;"), FaultKind::UninitializedStore, "st.global");
    // Shared memory takes it along, and global memory shows it.
    let carried = "add.u32 %r10, %r9, %t;\nst.shared.u32 [%r0], %r10;\nld.shared.u32 %r11, [%r0];\n";
    clean(&ONE_WARP, &own(carried));
    let stored = format!("{carried}st.global.u32 [%rd4], %r11;");
    caught(&ONE_WARP, &own(&stored), FaultKind::UninitializedStore, "st.global");
    let decides = format!("{carried}setp.eq.u32 %p1, %r11, 3;\n@%p1 bra DONE;\nDONE:");
    caught(&ONE_WARP, &own(&decides), FaultKind::UninitializedBranch, "bra DONE");
    clean(&ONE_WARP, &own("mov.u32 %r9, 1;\nadd.u32 %r10, %r9, %t;\nst.global.u32 [%rd4], %r10;"));
}

#[test]
fn uninitialised_memory() {
    let sum = "add.u32 %r1, %r1, 1;\nst.global.u32 [%rd4], %r1;";
    caught(
        &ONE_WARP,
        &own(&format!("ld.shared.u32 %r1, [%r0];\n{sum}")),
        FaultKind::UninitializedStore,
        "st.global",
    );
    clean(&ONE_WARP, &own(&format!("st.shared.u32 [%r0], %t;\nld.shared.u32 %r1, [%r0];\n{sum}")));
    // The output was never written: reading it back is the same fault.
    caught(
        &ONE_WARP,
        &own(&format!("ld.global.u32 %r1, [%rd4];\n{sum}")),
        FaultKind::UninitializedStore,
        "st.global",
    );
}

#[test]
fn undefined_bytes_are_told_apart() {
    // Half of a word is defined: using only that half is no fault.
    let body =
        own("mov.u32 %r5, 7;\ncvt.u16.u32 %h1, %r5;\nst.shared.u16 [%r0], %h1;\nld.shared.u32 %r1, [%r0];\n\
         and.b32 %r2, %r1, 65535;\nst.global.u32 [%rd4], %r2;");
    clean(&ONE_WARP, &body);
    let shifted = body.replace("and.b32 %r2, %r1, 65535", "shr.u32 %r2, %r1, 8");
    caught(&ONE_WARP, &shifted, FaultKind::UninitializedStore, "st.global");
    let unpacked =
        body.replace("and.b32 %r2, %r1, 65535;", "mov.b32 {%h2, %h3}, %r1;\ncvt.u32.u16 %r2, %h2;");
    clean(&ONE_WARP, &unpacked);
    caught(
        &ONE_WARP,
        &unpacked.replace("u16 %r2, %h2", "u16 %r2, %h3"),
        FaultKind::UninitializedStore,
        "st.global",
    );
}

#[test]
fn race_between_warps() {
    // Thread t reads what thread 63 - t wrote.
    let body = |between: &str| {
        own(&format!(
            "st.shared.u32 [%r0], %t;\n{between}\nxor.b32 %r1, %t, 63;\nmad.lo.u32 %r2, %r1, 4, %s;\n\
             ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd4], %r3;"
        ))
    };
    caught(&TWO_WARPS, &body(""), FaultKind::SharedRace, "ld.shared.u32 %r3");
    caught(&TWO_WARPS, &body("bar.warp.sync -1;"), FaultKind::SharedRace, "st.shared.u32");
    caught(&TWO_WARPS, &body("membar.cta;"), FaultKind::SharedRace, "st.shared.u32");
    clean(&TWO_WARPS, &body("bar.sync 0;"));
    clean(&TWO_WARPS, &body("barrier.sync 3, 64;"));
}

#[test]
fn race_within_a_warp() {
    let body = |between: &str| {
        own(&format!(
            "st.shared.u32 [%r0], %t;\n{between}\nxor.b32 %r1, %t, 1;\nmad.lo.u32 %r2, %r1, 4, %s;\n\
             ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd4], %r3;"
        ))
    };
    caught(&ONE_WARP, &body(""), FaultKind::WarpRace, "ld.shared.u32 %r3");
    // A shuffle makes lanes meet but orders no memory.
    caught(&ONE_WARP, &body("shfl.sync.bfly.b32 %r9, %t, 1, 31, -1;"), FaultKind::WarpRace, "st.shared.u32");
    clean(&ONE_WARP, &body("bar.warp.sync 0xffffffff;"));
    clean(&ONE_WARP, &body("bar.sync 0;"));
}

#[test]
fn write_after_read_is_a_race_too() {
    let body = |between: &str| {
        own(&format!(
            "st.shared.u32 [%r0], %t;\nbar.sync 0;\nxor.b32 %r1, %t, 32;\nmad.lo.u32 %r2, %r1, 4, %s;\n\
             ld.shared.u32 %r3, [%r2];\n{between}\nst.shared.u32 [%r0], %r3;"
        ))
    };
    caught(&TWO_WARPS, &body(""), FaultKind::SharedRace, "st.shared.u32 [%r0], %r3");
    clean(&TWO_WARPS, &body("bar.sync 1;"));
}

#[test]
fn two_writers_of_a_word_and_of_its_bytes() {
    let bytes = own("add.u32 %r1, %s, %t;\ncvt.u16.u32 %h1, %t;\nst.shared.u8 [%r1], %h1;");
    clean(&TWO_WARPS, &bytes);
    let same = bytes.replace("%s, %t", "%s, 5");
    caught(&ONE_WARP, &same, FaultKind::WarpRace, "st.shared.u8");
}

#[test]
fn atomics_beside_plain_accesses() {
    let body = |second: &str| {
        own(&format!(
            "mov.u32 %r1, 1;\nst.shared.u32 [%r0], %r1;\nbar.sync 0;\natom.shared.add.u32 %r2, [%s], 1;\n{second}"
        ))
    };
    clean(&TWO_WARPS, &body(""));
    clean(&TWO_WARPS, &body("bar.sync 0;\nld.shared.u32 %r3, [%s];"));
    caught(
        &TWO_WARPS,
        &body("ld.shared.u32 %r3, [%s];\nst.global.u32 [%rd4], %r3;"),
        FaultKind::SharedRace,
        "atom.shared",
    );
    caught(&TWO_WARPS, &body("st.shared.u32 [%s], %t;"), FaultKind::SharedRace, "st.shared.u32 [%s]");
}

#[test]
fn release_and_acquire_order_two_warps() {
    // Warp 0 writes, fences and raises a flag; warp 1 spins on it, fences, reads.
    let body = |fence: &str, read: &str| {
        own(&format!(
            "setp.ne.u32 %p1, %t, 0;\n@%p1 bra ZEROED;\nmov.u32 %r1, 0;\nst.shared.u32 [%s+512], %r1;\n\
             ZEROED:\nbar.sync 0;\nsetp.ne.u32 %p2, %t, 0;\n@%p2 bra READER;\n\
             mov.u32 %r1, 42;\nst.shared.u32 [%s+256], %r1;\n{fence}\nst.volatile.shared.u32 [%s+512], %r1;\nbra DONE;\n\
             READER:\nsetp.ne.u32 %p3, %t, 32;\n@%p3 bra DONE;\n\
             SPIN:\n{read} %r2, [%s+512];\nsetp.eq.u32 %p4, %r2, 0;\n@%p4 bra SPIN;\n{fence}\n\
             ld.shared.u32 %r3, [%s+256];\nst.global.u32 [%rd1], %r3;\nDONE:"
        ))
    };
    clean(&TWO_WARPS, &body("membar.cta;", "ld.volatile.shared.u32"));
    clean(&TWO_WARPS, &body("fence.acq_rel.cta;", "ld.relaxed.cta.shared.u32"));
    caught(&TWO_WARPS, &body("", "ld.volatile.shared.u32"), FaultKind::SharedRace, "ld.shared.u32 %r3");
}

#[test]
fn races_between_ctas() {
    let cell = "mad.lo.u32 %r1, %c, 32, %t;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd4, %rd1, %rd2;\n";
    clean(&CTAS, &format!("{cell}st.global.u32 [%rd4], %t;"));
    // Every CTA writes the same words.
    caught(&CTAS, &own("st.global.u32 [%rd4], %c;"), FaultKind::CtaRace, "st.global.u32");
    // One CTA reads what another writes.
    caught(
        &CTAS,
        &format!(
            "{cell}st.global.u32 [%rd4], %t;\nxor.b32 %r1, %c, 1;\nmad.lo.u32 %r1, %r1, 32, %t;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd5, %rd1, %rd2;\nld.global.u32 %r2, [%rd5];\nst.global.u32 [%rd4+512], %r2;"
        ),
        FaultKind::CtaRace,
        "ld.global.u32 %r2",
    );
    // Neighbouring bytes of one word are different memory.
    clean(
        &CTAS,
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra DONE;\ncvt.u64.u32 %rd2, %c;\nadd.u64 %rd3, %rd1, %rd2;\nmov.u32 %r5, 3;\ncvt.u16.u32 %h1, %r5;\nst.global.u8 [%rd3], %h1;\nDONE:",
    );
}

#[test]
fn atomics_between_ctas() {
    let zero = |m: &str| format!("setp.ne.u32 %p1, %t, 0;\n@%p1 bra DONE;\n{m}\nDONE:");
    clean(&CTAS, &zero("red.global.add.u32 [%rd0], 1;"));
    clean(&CTAS, &zero("atom.global.add.u32 %r1, [%rd0], 1;\nadd.u32 %r2, %r1, 1;"));
    // A plain store beside other CTAs' atomics, with the results unused and used.
    caught(
        &CTAS,
        &zero("red.global.add.u32 [%rd0], 1;\nst.global.u32 [%rd0], %t;"),
        FaultKind::CtaRace,
        "st.global",
    );
    caught(
        &CTAS,
        &zero("atom.global.add.u32 %r1, [%rd0], 1;\nadd.u32 %r2, %r1, 1;\nst.global.u32 [%rd0], %r2;"),
        FaultKind::CtaRace,
        "st.global",
    );
}

#[test]
fn message_between_ctas() {
    // CTA 0 writes and raises a flag; the others spin and read.
    let body = |fence: &str| {
        format!(
            "setp.ne.u32 %p1, %t, 0;\n@%p1 bra DONE;\nsetp.ne.u32 %p2, %c, 0;\n@%p2 bra READER;\n\
             mov.u32 %r1, 42;\nst.global.u32 [%rd0+8], %r1;\n{fence}\natom.global.exch.b32 %r2, [%rd0], 9;\nbra DONE;\n\
             READER:\nld.volatile.global.u32 %r3, [%rd0];\nsetp.ne.u32 %p3, %r3, 9;\n@%p3 bra READER;\n{fence}\n\
             ld.global.u32 %r4, [%rd0+8];\nmul.wide.u32 %rd2, %c, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r4;\nDONE:"
        )
    };
    clean(&CTAS, &body("membar.gl;"));
    caught(&CTAS, &body(""), FaultKind::CtaRace, "ld.global.u32 %r4");
    let (m, _) = run(&CTAS, &body("membar.gl;"), &seeded(5));
    let y = m.emulator.memory.allocation(1).unwrap().base;
    assert_eq!(m.read_u32s(y, 4)[1..], [42, 42, 42]);
}

#[test]
fn barriers_that_some_threads_miss() {
    let some = "setp.ge.u32 %p1, %t, 32;\n@%p1 bra DONE;\nbar.sync 0;\nDONE:";
    caught(&TWO_WARPS, some, FaultKind::BarrierExited, "bar.sync 0");
    clean(&TWO_WARPS, "setp.ge.u32 %p1, %t, 32;\n@%p1 bra DONE;\nbar.sync 1, 32;\nDONE:");
    // Each warp waits at a barrier of its own, for both.
    let crossed =
        "setp.ge.u32 %p1, %t, 32;\n@%p1 bra OTHER;\nbar.sync 0;\nbra DONE;\nOTHER:\nbar.sync 1;\nDONE:";
    caught(&TWO_WARPS, crossed, FaultKind::Deadlock, "bar.sync 1");
    caught(&TWO_WARPS, crossed, FaultKind::Deadlock, "bar.sync 0");
    caught(&ONE_WARP, "bar.sync 0, 64;", FaultKind::BadBarrier, "bar.sync 0, 64");
    caught(&ONE_WARP, "bar.sync 16;", FaultKind::BadBarrier, "bar.sync 16");
    caught(
        &TWO_WARPS,
        "setp.ge.u32 %p1, %t, 32;\n@%p1 bra DONE;\nbar.sync 0, 64;\nDONE:",
        FaultKind::Deadlock,
        "bar.sync 0, 64",
    );
}

#[test]
fn barriers_in_divergent_code() {
    let body =
        "setp.ge.u32 %p1, %t, 16;\n@%p1 bra OTHER;\nbar.sync 0;\nbra DONE;\nOTHER:\nbar.sync 0;\nDONE:";
    caught(&ONE_WARP, body, FaultKind::BarrierDivergence, "bar.sync 0");
    clean(&ONE_WARP, &body.replace("bar.sync", "barrier.sync"));
}

#[test]
fn member_masks() {
    caught(&ONE_WARP, "shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffff;", FaultKind::MemberMask, "shfl.sync");
    clean(
        &ONE_WARP,
        "setp.ge.u32 %p1, %t, 16;\n@%p1 bra DONE;\nshfl.sync.idx.b32 %r1, %t, 0, 31, 0xffff;\nDONE:",
    );
    // Half of the warp leaves, the mask names all of it.
    caught(
        &ONE_WARP,
        "setp.ge.u32 %p1, %t, 16;\n@%p1 bra DONE;\nvote.sync.ballot.b32 %r1, %p1, -1;\nDONE:",
        FaultKind::MemberMask,
        "vote.sync",
    );
    // The halves wait for each other at different instructions.
    caught(
        &ONE_WARP,
        "setp.ge.u32 %p1, %t, 16;\n@%p1 bra OTHER;\nshfl.sync.idx.b32 %r1, %t, 0, 31, -1;\nbra DONE;\n\
         OTHER:\nshfl.sync.idx.b32 %r1, %t, 1, 31, -1;\nDONE:",
        FaultKind::Deadlock,
        "shfl.sync.idx.b32 %r1, %t, 1",
    );
    caught(
        &ONE_WARP,
        "setp.ge.u32 %p1, %t, 16;\n@%p1 bra DONE;\nshfl.sync.idx.b32 %r1, %t, 20, 31, 0xffff;\nDONE:",
        FaultKind::ShuffleSource,
        "shfl.sync",
    );
}

const MMA: &str = "mov.u32 %r1, 0;\nmov.f32 %f1, 0f00000000;\n{GUARD}mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 \
                   {%f2,%f3,%f4,%f5}, {%r1,%r1}, {%r1}, {%f1,%f1,%f1,%f1};\nDONE:";

#[test]
fn matrix_instructions_without_all_lanes() {
    clean(&ONE_WARP, &MMA.replace("{GUARD}", ""));
    let exits = MMA.replace("{GUARD}", "setp.ge.u32 %p1, %t, 16;\n@%p1 bra DONE;\n");
    caught(&ONE_WARP, &exits, FaultKind::MissingLanes, "mma.sync");
    let waits = exits.replace("DONE:", "DONE:\nbar.sync 0;");
    caught(&ONE_WARP, &waits, FaultKind::MissingLanes, "mma.sync");
    let load = "setp.ge.u32 %p1, %t, 16;\n@%p1 bra DONE;\n\
                ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%s];\nDONE:";
    caught(&ONE_WARP, load, FaultKind::MissingLanes, "ldmatrix");
    caught(&Case { grid: 1, block: 16 }, &MMA.replace("{GUARD}", ""), FaultKind::MissingLanes, "mma.sync");
}

#[test]
fn undefined_rows_of_a_product_stay_rows() {
    // Rows 8 to 15 of A are undefined: so are the sums of lanes' upper halves only.
    let body = |stored: &str| {
        own(&format!(
            "mov.u32 %r1, 0;\nmov.f32 %f1, 0f00000000;\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 \
             {{%f2,%f3,%f4,%f5}}, {{%r1,%r30}}, {{%r1}}, {{%f1,%f1,%f1,%f1}};\nst.global.f32 [%rd4], {stored};"
        ))
    };
    clean(&ONE_WARP, &body("%f3"));
    caught(&ONE_WARP, &body("%f4"), FaultKind::UninitializedStore, "st.global.f32");
}

/// Each thread copies 16 bytes, then reads its own or another thread's.
fn copies(after: &str, partner: u32) -> String {
    format!(
        "mul.wide.u32 %rd2, %t, 16;\nadd.u64 %rd3, %rd0, %rd2;\nmad.lo.u32 %r0, %t, 16, %s;\n\
         xor.b32 %r1, %t, {partner};\nmad.lo.u32 %r2, %r1, 16, %s;\n\
         cp.async.cg.shared.global [%r0], [%rd3], 16;\n{after}\n\
         ld.shared.u32 %r3, [%r2];\nmul.wide.u32 %rd2, %t, 4;\nadd.u64 %rd4, %rd1, %rd2;\nst.global.u32 [%rd4], %r3;\n\
         cp.async.wait_all;"
    )
}

#[test]
fn asynchronous_copies() {
    clean(&TWO_WARPS, &copies("cp.async.wait_all;", 0));
    clean(&TWO_WARPS, &copies("cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;", 33));
    let racy = copies("", 0);
    caught(&TWO_WARPS, &racy, FaultKind::AsyncInFlight, "ld.shared.u32");
    caught(&TWO_WARPS, &racy, FaultKind::AsyncInFlight, "cp.async.cg");
    // Committed, but one group may still be pending.
    caught(
        &TWO_WARPS,
        &copies("cp.async.commit_group;\ncp.async.wait_group 1;", 0),
        FaultKind::AsyncInFlight,
        "ld.shared.u32",
    );
    // Waited for by the copying thread only: others need a barrier.
    caught(&TWO_WARPS, &copies("cp.async.wait_all;", 33), FaultKind::SharedRace, "ld.shared.u32");
    // Not committed: waiting for groups does not cover it.
    caught(&TWO_WARPS, &copies("cp.async.wait_group 0;", 0), FaultKind::AsyncInFlight, "ld.shared.u32");
}

#[test]
fn asynchronous_copies_never_waited_for() {
    let body = |tail: &str| {
        format!(
            "mul.wide.u32 %rd2, %t, 16;\nadd.u64 %rd3, %rd0, %rd2;\nmad.lo.u32 %r0, %t, 16, %s;\ncp.async.cg.shared.global [%r0], [%rd3], 16;\n{tail}"
        )
    };
    caught(&ONE_WARP, &body(""), FaultKind::AsyncNotWaited, "cp.async.cg");
    caught(&ONE_WARP, &body("cp.async.commit_group;"), FaultKind::AsyncNotWaited, "cp.async.cg");
    clean(&ONE_WARP, &body("cp.async.commit_group;\ncp.async.wait_group 0;"));
}

#[test]
fn traps_and_endless_loops() {
    caught(&ONE_WARP, "trap;", FaultKind::Trap, "trap");
    let options = Options { max_instructions: 10_000, ..strict() };
    let (_, outcome) = run(&ONE_WARP, "LOOP:\nbra LOOP;", &options);
    assert_eq!(kinds(&outcome), [FaultKind::InstructionLimit]);
}

#[test]
fn several_faults_of_one_run_each_once() {
    let body =
        own("ld.global.u32 %r1, [%rd3+1024];\nld.global.u32 %r2, [%rd3+2];\nst.global.u32 [%rd4], %r20;");
    let (_, outcome) = run(&TWO_WARPS, &body, &strict());
    assert_eq!(
        kinds(&outcome),
        [FaultKind::OutOfBounds, FaultKind::Misaligned, FaultKind::UninitializedStore]
    );
    assert!(outcome.faults.list.iter().all(|fault| fault.count == 64));
}

#[test]
fn the_same_seed_is_the_same_run_on_any_number_of_workers() {
    let body = own(
        "atom.shared.exch.b32 %r1, [%s], %t;\nst.global.u32 [%rd4], %r1;\nred.global.add.u32 [%rd0], %t;",
    );
    let zeroed = format!(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra GO;\nmov.u32 %r1, 0;\nst.shared.u32 [%s], %r1;\nGO:\nbar.sync 0;\n{body}"
    );
    let case = Case { grid: 9, block: 64 };
    let mut results = Vec::new();
    for workers in [1, 2, 3, 7] {
        let (m, outcome) = run(&case, &zeroed, &Options { workers, ..seeded(77) });
        let (x, y) =
            (m.emulator.memory.allocation(0).unwrap().base, m.emulator.memory.allocation(1).unwrap().base);
        results.push((m.read_u32s(x, 256), m.read_u32s(y, 64), m.render("k", &outcome)));
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    // Another seed gives another order of the lanes.
    let (m, _) = run(&case, &zeroed, &seeded(78));
    let y = m.emulator.memory.allocation(1).unwrap().base;
    assert_ne!(m.read_u32s(y, 64), results[0].1);
}

#[test]
fn without_strict_only_bounds_are_checked() {
    let options = Options { strict: false, ..strict() };
    let (_, outcome) =
        run(&TWO_WARPS, &own("st.shared.u32 [%s], %r20;\nld.global.u32 %r1, [%rd3+1024];"), &options);
    assert_eq!(kinds(&outcome), [FaultKind::OutOfBounds]);
}
