//! `mbarrier`, bulk and tensor copies, and clusters of one CTA.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, kinds, seeded, strict};
use phobos_emulator::{
    FaultKind, Options, Outcome, Params,
    tensor_map::{Swizzle, TensorMap},
};

/// A kernel with `x` in `%rd0`, `y` in `%rd1`, the thread in `%t` and its word of `y` in
/// `%rd2`; a tile of 4 KiB and two mbarriers. The first thread initialises them for
/// `arrivals`.
fn kernel(arrivals: u32, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 x, .param .u64 y, .param .align 64 .b8 map[128])\n{{\n\
         .reg .pred %p<8>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<16>;\n.reg .b32 %t, %s;\n\
         .shared .align 1024 .b8 tile[4096];\n.shared .align 8 .b64 full[2];\n.shared .align 8 .b64 empty[2];\n\
         ld.param.u64 %rd0, [x];\nld.param.u64 %rd1, [y];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %rd2, %t, 4;\n\
         add.u64 %rd2, %rd1, %rd2;\nmov.u32 %s, tile;\nmad.lo.u32 %s, %t, 4, %s;\nsetp.ne.u32 %p0, %t, 0;\n\
         @%p0 bra READY;\nmbarrier.init.shared::cta.b64 [full], {arrivals};\nmbarrier.init.shared::cta.b64 [full+8], {arrivals};\n\
         mbarrier.init.shared::cta.b64 [empty], 64;\nmbarrier.init.shared::cta.b64 [empty+8], 64;\n\
         fence.mbarrier_init.release.cluster;\nREADY:\nbar.sync 0;\n{body}\nret;\n}}\n"
    )
}

fn run(text: &str, block: u32, map: &TensorMap, options: &Options) -> (Machine, Vec<u32>, Outcome) {
    let mut m = Machine::new("copies.ptx", text);
    let x = m.u32s(&(0..1024).map(|i| 1000 + i).collect::<Vec<_>>());
    let y = m.u32s(&[7; 1024]);
    let map = TensorMap { base: if map.base == 1 { y } else { x }, ..map.clone() };
    let entry = m.program.kernel("k").unwrap();
    let params = Params::new(entry).push(x).push(y).push_bytes(&map.encode()).build();
    let outcome = m.emulator.launch(&m.program, "k", [1; 3], [block, 1, 1], 0, &params, options).unwrap();
    let values = m.read_u32s(y, 1024);
    (m, values, outcome)
}

fn schedules() -> impl Iterator<Item = Options> {
    std::iter::once(strict()).chain((0..60).map(seeded))
}

/// The output under every schedule, without a report.
#[track_caller]
fn clean(text: &str, block: u32, map: &TensorMap, want: &[u32]) {
    for options in schedules() {
        let (m, values, outcome) = run(text, block, map, &options);
        assert!(outcome.faults.list.is_empty(), "{:?}\n{}", options.schedule, m.render("k", &outcome));
        assert_eq!(&values[..want.len()], want, "{:?}", options.schedule);
    }
}

/// Some schedule makes a report of one of these kinds.
#[track_caller]
fn caught(text: &str, block: u32, some: &[FaultKind]) {
    let none = TensorMap::default();
    let found = schedules().any(|options| {
        let (_, _, outcome) = run(text, block, &none, &options);
        kinds(&outcome).iter().any(|kind| some.contains(kind))
    });
    assert!(found, "{some:?}");
}

const WAIT: &str = "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;\n@!%p1 bra WAIT;\n";
const COPY: &str =
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 256, [full];\n";
const SHOW: &str = "ld.shared.u32 %r2, [%s];\nst.global.u32 [%rd2], %r2;";

fn produce(expect: &str, wait: &str) -> String {
    kernel(1, &format!("@%p0 bra COPIED;\n{expect}\n{COPY}COPIED:\n{wait}{SHOW}"))
}

#[test]
fn a_bulk_copy_is_there_when_its_barrier_says_so() {
    let expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;";
    let want: Vec<u32> = (1000..1064).collect();
    let none = TensorMap::default();
    clean(&produce(expect, WAIT), 64, &none, &want);
    let tested = WAIT.replace("try_wait", "test_wait");
    clean(&produce(expect, &tested), 64, &none, &want);
    let token = "mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [full], 256;";
    let by_token = "@%p0 bra AGAIN;\nFIRST:\nmbarrier.try_wait.shared::cta.b64 %p1, [full], %rd5;\n@!%p1 bra FIRST;\n\
                    AGAIN:\nbar.sync 0;\n";
    clean(&produce(token, by_token), 64, &none, &want);
    // Nobody waits; the bytes are not expected; the barrier is not initialised.
    caught(&produce(expect, ""), 64, &[FaultKind::AsyncInFlight, FaultKind::SharedRace]);
    let arrive = "mbarrier.arrive.shared::cta.b64 _, [full];";
    caught(&produce(arrive, WAIT), 64, &[FaultKind::AsyncInFlight]);
    let forgot = produce(expect, WAIT).replace("mbarrier.init.shared::cta.b64 [full], 1;\n", "");
    caught(&forgot, 64, &[FaultKind::BadBarrier]);
    // Bytes that never come, and arrivals beyond the count.
    let more = expect.replace("256", "512");
    caught(&produce(&more, WAIT), 64, &[FaultKind::Deadlock]);
    caught(&kernel(1, &arrive.replace("[full]", "[full], 2")), 64, &[FaultKind::BadBarrier]);
    // The source changes before the copy is waited for.
    let changed = produce(expect, &format!("@!%p0 st.global.u32 [%rd0], %t;\n{WAIT}"));
    caught(&changed, 64, &[FaultKind::AsyncSource]);
    // An initialisation that nothing orders before its use.
    let early = produce(expect, WAIT).replace("READY:\nbar.sync 0;", "READY:");
    caught(&early, 64, &[FaultKind::SharedRace, FaultKind::WarpRace, FaultKind::BadBarrier]);
}

#[test]
fn arrivals_order_what_was_done_before_them() {
    let body = |wait: &str| {
        format!(
            "st.shared.u32 [%s], %t;\nmbarrier.arrive.shared::cta.b64 %rd5, [full];\n{wait}xor.b32 %r3, %s, 252;\n\
             ld.shared.u32 %r2, [%r3];\nst.global.u32 [%rd2], %r2;"
        )
    };
    let want: Vec<u32> = (0..64).map(|t| 63 - t).collect();
    let none = TensorMap::default();
    clean(&kernel(64, &body(WAIT)), 64, &none, &want);
    caught(&kernel(64, &body("")), 64, &[FaultKind::SharedRace]);
    // A thread that leaves takes its arrival with it.
    let drops = "setp.eq.u32 %p2, %t, 63;\n@%p2 mbarrier.arrive_drop.shared::cta.b64 _, [full];\n@%p2 exit;\n\
                 mbarrier.arrive.shared::cta.b64 %rd5, [full];\nmbarrier.pending_count.b64 %r4, %rd5;\n\
                 W:\nmbarrier.test_wait.shared::cta.b64 %p1, [full], %rd5;\n@!%p1 bra W;\n\
                 mbarrier.arrive.shared::cta.b64 %rd6, [full];\n\
                 V:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 1;\n@!%p1 bra V;\nst.global.u32 [%rd2], %t;";
    clean(&kernel(64, drops), 64, &none, &(0..63).collect::<Vec<_>>());
    // As a barrier of the cluster.
    let cluster = body("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n");
    clean(&kernel(64, &cluster), 64, &none, &want);
}

#[test]
fn copies_of_threads_arrive_too() {
    let body = "mad.lo.u32 %r5, %t, 12, %s;\nmul.wide.u32 %rd4, %t, 16;\nadd.u64 %rd4, %rd0, %rd4;\n\
                cp.async.cg.shared.global [%r5], [%rd4], 16;\ncp.async.mbarrier.arrive.noinc.shared.b64 [full];\n\
                WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0;\n@!%p1 bra WAIT;\n\
                xor.b32 %r3, %s, 252;\nld.shared.u32 %r2, [%r3];\nst.global.u32 [%rd2], %r2;";
    let want: Vec<u32> = (0..64).map(|t| 1063 - t).collect();
    clean(&kernel(64, body), 64, &TensorMap::default(), &want);
}

/// Four blocks of 256 bytes through two stages: warp 0's first lane copies, all 64
/// threads read and hand the stage back.
fn pipeline(give_back: &str) -> String {
    let mut body = String::new();
    let stage = |i: u32| (i % 2, i / 2 % 2);
    let issue = |body: &mut String, i: u32| {
        let (s, phase) = stage(i);
        *body += &format!("@%p0 bra I{i};\n");
        if i >= 2 {
            let before = (phase + 1) % 2;
            *body += &format!(
                "E{i}:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [empty+{}], {before};\n@!%p1 bra E{i};\n",
                8 * s
            );
        }
        *body += &format!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full+{0}], 256;\n\
             cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+{1}], [%rd0+{2}], 256, [full+{0}];\nI{i}:\n",
            8 * s,
            256 * s,
            256 * i
        );
    };
    issue(&mut body, 0);
    issue(&mut body, 1);
    for i in 0..4 {
        let (s, phase) = stage(i);
        body += &format!(
            "F{i}:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [full+{0}], {phase};\n@!%p1 bra F{i};\n\
             ld.shared.u32 %r2, [%s+{1}];\nst.global.u32 [%rd2+{2}], %r2;\n{3}\n",
            8 * s,
            256 * s,
            256 * i,
            give_back.replace("[empty]", &format!("[empty+{}]", 8 * s))
        );
        if i + 2 < 4 {
            issue(&mut body, i + 2);
        }
    }
    kernel(1, &body)
}

#[test]
fn a_pipeline_of_stages() {
    let text = pipeline("mbarrier.arrive.shared::cta.b64 _, [empty];");
    clean(&text, 64, &TensorMap::default(), &(1000..1256).collect::<Vec<_>>());
    // Handed back before it is read: the next copy races with the reads.
    let early =
        text.replace("%p1 bra F0;\nld", "%p1 bra F0;\nmbarrier.arrive.shared::cta.b64 _, [empty+0];\nld");
    let early = early.replacen("%r2;\nmbarrier.arrive.shared::cta.b64 _, [empty+0];", "%r2;", 1);
    caught(&early, 64, &[FaultKind::SharedRace, FaultKind::AsyncInFlight]);
}

#[test]
fn bulk_copies_to_global_memory() {
    let body = |wait: &str| {
        format!(
            "add.u32 %r2, %t, 5;\nst.shared.u32 [%s], %r2;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p0 bra D;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 128;\n\
             cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1+128], [tile+128], 128;\n\
             cp.async.bulk.commit_group;\n{wait}D:\n"
        )
    };
    let want: Vec<u32> = (0..64).map(|i| if i < 32 { i + 5 } else { i + 12 }).collect();
    clean(&kernel(1, &body("cp.async.bulk.wait_group.read 0;\n")), 64, &TensorMap::default(), &want);
    caught(&kernel(1, &body("")), 64, &[FaultKind::AsyncNotWaited]);
    let overwritten = body("st.shared.u32 [tile], %t;\ncp.async.bulk.wait_group.read 0;\n");
    caught(&kernel(1, &overwritten), 64, &[FaultKind::AsyncSource]);
    caught(&kernel(1, &body("").replace("128;", "120;")), 64, &[FaultKind::Misaligned]);
}

#[test]
fn groups_of_bulk_copies_are_waited_for_in_order() {
    // Two stages: the first is written again when all but one group have been read.
    let body = |pending: u32| {
        format!(
            "@%p0 bra D;\nst.shared.u32 [tile], 1;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 16;\n\
             cp.async.bulk.commit_group;\nst.shared.u32 [tile+16], 2;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd1+16], [tile+16], 16;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group.read {pending};\nst.shared.u32 [tile], 3;\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd1+32], [tile], 16;\ncp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group.read 0;\nD:"
        )
    };
    let defined = |text: String| text.replace("READY:\n", "READY:\nst.shared.u32 [%s], 0;\n");
    let (m, values, outcome) = run(&defined(kernel(1, &body(1))), 64, &TensorMap::default(), &strict());
    m.clean("k", &outcome);
    assert_eq!((values[0], values[4], values[8]), (1, 2, 3));
    caught(&defined(kernel(1, &body(2))), 64, &[FaultKind::AsyncSource]);
}

/// Loads a box at (`c0`, `c1`) and shows the first 256 words of the tile.
fn load_box(c0: i32, c1: i32, bytes: u32) -> String {
    kernel(
        1,
        &format!(
            "@%p0 bra COPIED;\nmov.u32 %r1, {c0};\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {bytes};\n\
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [map, {{%r1, {c1}}}], [full];\n\
             COPIED:\n{WAIT}\
             ld.shared.u32 %r2, [%s];\nst.global.u32 [%rd2], %r2;\nld.shared.u32 %r2, [%s+512];\nst.global.u32 [%rd2+512], %r2;"
        ),
    )
}

#[test]
fn boxes_of_a_tensor() {
    // 28 words a row in rows of 32, 30 rows; boxes of 32 words by 8 rows.
    let map = TensorMap {
        element: 4,
        base: 0,
        sizes: vec![28, 30],
        strides: vec![128],
        extents: vec![32, 8],
        swizzle: Swizzle::None,
        fill: 0,
    };
    let value = |c0: i64, c1: i64| {
        if (0..28).contains(&c0) && (0..30).contains(&c1) { (1000 + 32 * c1 + c0) as u32 } else { 0 }
    };
    for (swizzle, mask) in [(Swizzle::None, 0), (Swizzle::Bytes128, 7)] {
        for (c0, c1) in [(0, 0), (4, 2), (-3, 25), (20, -5)] {
            let mut want = vec![0; 256];
            for row in 0..8usize {
                for column in 0..32usize {
                    // The 16-byte pieces of a row change places by the row's number.
                    let piece = (column / 4) ^ (row & mask);
                    want[32 * row + 4 * piece + column % 4] = value(c0 + column as i64, c1 + row as i64);
                }
            }
            // The same bytes as elements of 4, 2 and 1.
            for part in [1, 2, 4u32] {
                let map = TensorMap {
                    swizzle,
                    element: (4 / part) as u8,
                    sizes: vec![28 * u64::from(part), 30],
                    extents: vec![32 * part, 8],
                    ..map.clone()
                };
                let text = load_box(c0 as i32 * part as i32, c1 as i32, 1024);
                let (m, values, outcome) = run(&text, 128, &map, &strict());
                m.clean("k", &outcome);
                assert_eq!(values[..256], want, "{swizzle:?} {c0} {c1} {part}");
            }
        }
    }
    let narrow = TensorMap { extents: vec![16, 8], swizzle: Swizzle::Bytes64, ..map.clone() };
    let (m, values, outcome) = run(&load_box(0, 0, 512).replace("[%s+512]", "[%s]"), 128, &narrow, &strict());
    m.clean("k", &outcome);
    // Rows of 64 bytes: two in 128, of which the pair's number permutes four pieces.
    assert_eq!((values[32], values[36]), (value(4, 2), value(0, 2)));
}

#[test]
fn boxes_into_a_tensor() {
    let map = TensorMap {
        element: 4,
        base: 1,
        sizes: vec![28, 30],
        strides: vec![128],
        extents: vec![32, 2],
        swizzle: Swizzle::None,
        fill: 0,
    };
    let text = kernel(
        1,
        "st.shared.u32 [%s], %t;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n@%p0 bra D;\n\
         cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {-2, 3}], [tile];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nD:",
    );
    let (m, values, outcome) = run(&text, 64, &map, &strict());
    m.clean("k", &outcome);
    for row in 0..2 {
        for column in 0..32 {
            let want = if column < 28 { 32 * row + column + 2 } else { 7 };
            assert_eq!(
                values[(96 + 32 * row + column) as usize],
                if column < 28 && column + 2 < 32 { want } else { 7 }
            );
        }
    }
    let (_, _, outcome) = run(&text, 64, &TensorMap { element: 3, ..map }, &strict());
    assert_eq!(kinds(&outcome), [FaultKind::OutOfBounds]);
}

#[test]
fn a_map_made_by_the_kernel() {
    let replace = |field: &str, ty: &str, rest: &str| {
        format!("tensormap.replace.tile.{field}.shared::cta.b1024.{ty} [tile+2048], {rest};\n")
    };
    let mut made = String::new();
    for (field, ty, rest) in [
        ("global_address", "b64", "%rd0"),
        ("rank", "b32", "1"),
        ("box_dim", "b32", "0, 16"),
        ("box_dim", "b32", "1, 4"),
        ("global_dim", "b32", "0, 28"),
        ("global_dim", "b32", "1, 30"),
        ("global_stride", "b64", "0, 128"),
        ("element_stride", "b32", "0, 1"),
        ("element_stride", "b32", "1, 1"),
        ("elemtype", "b32", "2"),
        ("interleave_layout", "b32", "0"),
        ("swizzle_mode", "b32", "0"),
        ("fill_mode", "b32", "0"),
    ] {
        made += &replace(field, ty, rest);
    }
    let text = kernel(
        1,
        &format!(
            "@%p0 bra COPIED;\n{made}\
             tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1+1024], [tile+2048], 128;\n\
             fence.proxy.tensormap::generic.acquire.gpu [%rd1+1024], 128;\nadd.u64 %rd5, %rd1, 1024;\n\
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;\n\
             cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd5, {{20, 2}}], [full];\n\
             COPIED:\n{WAIT}{SHOW}"
        ),
    );
    let want: Vec<u32> =
        (0..64).map(|i| if i % 16 < 8 { 1000 + 32 * (2 + i / 16) + 20 + i % 16 } else { 0 }).collect();
    clean(&text, 64, &TensorMap::default(), &want);
    let odd = text.replace("[tile+2048], 2;", "[tile+2048], 13;");
    caught(&odd, 64, &[FaultKind::OutOfBounds]);
}
