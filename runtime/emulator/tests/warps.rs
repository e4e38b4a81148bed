//! Warp instructions, atomics, spaces, calls and control flow.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, seeded, strict};
use phobos_emulator::Options;

/// A kernel of one warp that stores `%d` (b32) of each thread to `out`; `in` has
/// 64 words.
fn run(body: &str, input: &[u32], options: &Options) -> Vec<u32> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .pred %p<8>;\n.reg .b16 %h<4>;\n.reg .b32 %r<24>, %d, %t, %a;\n.reg .f32 %f<4>;\n.reg .b64 %rd<12>;\n.shared .align 16 .b8 tile[512];\n\
         ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %rd2, %t, 4, %rd0;\n\
         mad.wide.u32 %rd3, %t, 4, %rd1;\nld.global.u32 %a, [%rd2];\n{body}\nst.global.u32 [%rd3], %d;\nret;\n}}\n"
    );
    let mut m = Machine::new("warp.ptx", &text);
    let (pin, pout) = (m.u32s(input), m.output(128));
    let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[pin, pout], options);
    m.clean("k", &outcome);
    m.read_u32s(pout, 32)
}

fn input() -> Vec<u32> {
    (0..64u32).map(|i| i.wrapping_mul(2_654_435_761) ^ 0x5a5a).collect()
}

#[track_caller]
fn each(body: &str, want: impl Fn(usize) -> u32) {
    let want: Vec<u32> = (0..32).map(want).collect();
    for options in std::iter::once(strict()).chain((0..6).map(seeded)) {
        assert_eq!(run(body, &input(), &options), want, "{body}");
    }
}

#[test]
fn shuffles() {
    let x = input();
    each("shfl.sync.idx.b32 %d, %a, 5, 31, -1;", |_| x[5]);
    each("shfl.sync.bfly.b32 %d, %a, 3, 31, -1;", |i| x[i ^ 3]);
    each("shfl.sync.up.b32 %d, %a, 4, 0, -1;", |i| if i < 4 { x[i] } else { x[i - 4] });
    each("shfl.sync.down.b32 %d, %a, 7, 31, -1;", |i| if i + 7 > 31 { x[i] } else { x[i + 7] });
    // Segments of 8 lanes: c = (32 - 8) << 8 | clamp.
    each("shfl.sync.down.b32 %d, %a, 2, 0x181f, -1;", |i| if i % 8 + 2 > 7 { x[i] } else { x[i + 2] });
    each("shfl.sync.up.b32 %d, %a, 1, 0x1800, -1;", |i| if i % 8 == 0 { x[i] } else { x[i - 1] });
    each("shfl.sync.idx.b32 %d, %a, 3, 0x181f, -1;", |i| x[i / 8 * 8 + 3]);
    let body = "shfl.sync.down.b32 %r1|%p1, %a, 16, 31, -1;\nselp.u32 %d, 1, 0, %p1;";
    each(body, |i| u32::from(i + 16 <= 31));
    // The halves of the warp shuffle apart.
    let body = "setp.lt.u32 %p1, %t, 16;\nselp.b32 %r2, 0xffff, 0xffff0000, %p1;\nshfl.sync.bfly.b32 %d, %a, 1, 31, %r2;";
    each(body, |i| x[i ^ 1]);
}

#[test]
fn votes_matches_and_reductions() {
    let x = input();
    let odd = x.iter().take(32).enumerate().fold(0u32, |m, (i, v)| m | (v & 1) << i);
    let test = "and.b32 %r1, %a, 1;\nsetp.eq.u32 %p1, %r1, 1;\n";
    each(&format!("{test}vote.sync.ballot.b32 %d, %p1, -1;"), |_| odd);
    each(&format!("{test}vote.sync.ballot.b32 %d, !%p1, -1;"), |_| !odd);
    for (mode, want) in [("all", false), ("any", true), ("uni", false)] {
        each(&format!("{test}vote.sync.{mode}.pred %p2, %p1, -1;\nselp.u32 %d, 1, 0, %p2;"), |_| want.into());
    }
    let same = |i: usize| (0..32).filter(|j| x[*j] % 3 == x[i] % 3).fold(0u32, |m, j| m | 1 << j);
    each("rem.u32 %r1, %a, 3;\nmatch.any.sync.b32 %d, %r1, -1;", same);
    each("match.all.sync.b32 %d|%p1, %a, -1;", |_| 0);
    each("mov.u32 %r1, 4;\nmatch.all.sync.b32 %d|%p1, %r1, -1;", |_| u32::MAX);
    let warp = &x[..32];
    each("redux.sync.add.s32 %d, %a, -1;", |_| warp.iter().fold(0u32, |s, v| s.wrapping_add(*v)));
    each("redux.sync.min.s32 %d, %a, -1;", |_| warp.iter().map(|v| *v as i32).min().unwrap() as u32);
    each("redux.sync.max.u32 %d, %a, -1;", |_| *warp.iter().max().unwrap());
    each("redux.sync.xor.b32 %d, %a, -1;", |_| warp.iter().fold(0, |s, v| s ^ v));
    each("redux.sync.and.b32 %d, %a, -1;", |_| warp.iter().fold(u32::MAX, |s, v| s & v));
    each("elect.sync %r1|%p1, -1;\nselp.u32 %d, %r1, 7, %p1;", |i| if i == 0 { 0 } else { 7 });
}

#[test]
fn special_registers() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 out)\n{\n.reg .b32 %r<24>;\n.reg .b64 %rd<4>;\n\
        ld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %tid.y;\nmov.u32 %r2, %tid.z;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %ntid.y;\n\
        mov.u32 %r5, %ctaid.x;\nmov.u32 %r6, %ctaid.y;\nmov.u32 %r7, %nctaid.x;\nmov.u32 %r8, %laneid;\nmov.u32 %r9, %warpid;\n\
        mov.u32 %r10, %lanemask_lt;\nmov.u32 %r11, %lanemask_ge;\nmov.u32 %r12, WARP_SZ;\n\
        mad.lo.u32 %r13, %r2, %r4, %r1;\nmad.lo.u32 %r13, %r13, %r3, %r0;\nmad.lo.u32 %r14, %r6, %r7, %r5;\nmul.lo.u32 %r15, %r14, 60;\nadd.u32 %r15, %r15, %r13;\n\
        mul.wide.u32 %rd1, %r15, 32;\nadd.u64 %rd2, %rd0, %rd1;\n\
        st.global.v4.u32 [%rd2], {%r13, %r14, %r8, %r9};\nst.global.v4.u32 [%rd2+16], {%r10, %r11, %r12, %r2};\nret;\n}\n";
    let mut m = Machine::new("special.ptx", text);
    let out = m.output(6 * 60 * 32);
    let outcome = m.launch("k", [3, 2, 1], [5, 4, 3], &[out], &strict());
    m.clean("k", &outcome);
    for (i, row) in m.read_u32s(out, 6 * 60 * 8).chunks(8).enumerate() {
        let (cta, thread) = (i as u32 / 60, i as u32 % 60);
        let lane = thread % 32;
        let below = (1u64 << lane) as u32 - 1;
        assert_eq!(row, [thread, cta, lane, thread / 32, below, !below, 32, thread / 20]);
    }
}

#[test]
fn atomics_of_every_type() {
    // (operation, type, bytes, start, operand of lane i, result of a fold)
    type Fold = fn(u64, u64) -> u64;
    let cases: [(&str, &str, u64, u64, Fold); 18] = [
        ("add", "u32", 4, 5, |m, v| u64::from((m as u32).wrapping_add(v as u32))),
        ("add", "s32", 4, 5, |m, v| u64::from((m as u32).wrapping_add(v as u32))),
        ("add", "u64", 8, 1 << 40, u64::wrapping_add),
        ("min", "u32", 4, u32::MAX.into(), |m, v| m.min(u64::from(v as u32))),
        ("max", "u32", 4, 0, |m, v| m.max(u64::from(v as u32))),
        ("min", "s32", 4, 9, |m, v| u64::from((m as i32).min(v as i32) as u32)),
        ("max", "s32", 4, 0xffff_0000, |m, v| u64::from((m as i32).max(v as i32) as u32)),
        ("min", "u64", 8, u64::MAX, u64::min),
        ("max", "s64", 8, 1 << 63, |m, v| (m as i64).max(v as i64) as u64),
        ("min", "s64", 8, 77, |m, v| (m as i64).min(v as i64) as u64),
        ("and", "b32", 4, 0xffff_ffff, |m, v| m & u64::from(v as u32)),
        ("or", "b32", 4, 0, |m, v| m | u64::from(v as u32)),
        ("xor", "b64", 8, 3, |m, v| m ^ v),
        ("and", "b64", 8, u64::MAX, |m, v| m & v),
        ("inc", "u32", 4, 0, |m, v| if m >= u64::from(v as u32) { 0 } else { m + 1 }),
        ("dec", "u32", 4, 3, |m, v| if m == 0 || m > u64::from(v as u32) { v as u32 as u64 } else { m - 1 }),
        ("add", "f32", 4, 0, |m, v| {
            u64::from((f32::from_bits(m as u32) + f32::from_bits(v as u32)).to_bits())
        }),
        ("add", "f64", 8, 0, |m, v| (f64::from_bits(m) + f64::from_bits(v)).to_bits()),
    ];
    for (op, ty, bytes, start, fold) in cases {
        for space in ["global", "shared"] {
            for red in [false, true] {
                let class = if bytes == 8 { "b64" } else { "b32" };
                let base = if space == "global" { "%rd1" } else { "%s" };
                let atom = if red {
                    format!("red.{space}.{op}.{ty} [{base}], %v;")
                } else {
                    format!("atom.{space}.{op}.{ty} %o, [{base}], %v;\nst.global.{class} [%rd3], %o;")
                };
                let text = format!(
                    ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{{\n.reg .pred %p;\n.reg .b32 %t, %s;\n\
                     .reg .{class} %v, %o;\n.reg .b64 %rd<6>;\n.shared .align 8 .b8 cell[8];\nmov.u32 %s, cell;\nld.param.u64 %rd0, [in];\n\
                     ld.param.u64 %rd1, [out];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %rd2, %t, 8, %rd0;\nmad.wide.u32 %rd3, %t, 8, %rd1;\nadd.u64 %rd3, %rd3, 8;\n\
                     ld.global.{class} %v, [%rd2];\nsetp.ne.u32 %p, %t, 0;\n@%p bra GO;\nld.global.{class} %o, [%rd1];\nst.shared.{class} [%s], %o;\nGO:\nbar.sync 0;\n\
                     {atom}\nbar.sync 0;\n@%p bra DONE;\nld.shared.{class} %o, [%s];\nst.global.{class} [%rd1+264], %o;\nDONE:\nret;\n}}\n"
                );
                let value = |i: u64| match ty {
                    "f32" => u64::from((i as f32 * 0.5).to_bits()),
                    "f64" => (i as f64 * 0.25).to_bits(),
                    _ if op == "inc" || op == "dec" => 6,
                    _ => i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 8 * bytes),
                };
                let values: Vec<u64> = (0..32).map(value).collect();
                let mut m = Machine::new("atomic.ptx", &text);
                let mut out = vec![0u64; 40];
                out[0] = start;
                let (pin, pout) = (m.u64s(&values), m.u64s(&out));
                let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[pin, pout], &seeded(3));
                m.clean("k", &outcome);
                let got = m.read_u64s(pout, 40);
                let mask = if bytes == 8 { u64::MAX } else { 0xffff_ffff };
                let want = values.iter().fold(start, |m, v| fold(m, *v)) & mask;
                let cell = if space == "global" { got[0] } else { got[33] };
                assert_eq!(cell & mask, want, "{space} {op}.{ty} red {red}");
                if !red && op == "add" && ty == "u32" {
                    // The old values are the partial sums in some order.
                    let mut olds: Vec<u64> = got[1..33].iter().map(|v| v & mask).collect();
                    assert!(olds.contains(&start));
                    olds.dedup();
                    assert!(olds.len() > 16);
                }
            }
        }
    }
}

#[test]
fn compare_and_swap_takes_a_lock() {
    // Each lane in turn takes the lock and adds to a plain word.
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 lock, .param .u64 sum)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\n\
        ld.param.u64 %rd0, [lock];\nld.param.u64 %rd1, [sum];\nmov.u32 %r0, %tid.x;\n\
        SPIN:\natom.acquire.gpu.global.cas.b32 %r1, [%rd0], 0, 1;\nsetp.ne.u32 %p0, %r1, 0;\n@%p0 bra SPIN;\n\
        ld.global.u32 %r2, [%rd1];\nadd.u32 %r2, %r2, 1;\nst.global.u32 [%rd1], %r2;\n\
        st.release.gpu.global.u32 [%rd0], 0;\nret;\n}\n";
    for seed in 0..6 {
        let mut m = Machine::new("lock.ptx", text);
        let (lock, sum) = (m.u32s(&[0]), m.u32s(&[0]));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("k", [2, 1, 1], [34, 1, 1], &[lock, sum], &options);
        m.clean("k", &outcome);
        assert_eq!(m.read_u32s(sum, 1), [68]);
    }
    let mut m = Machine::new(
        "lock.ptx",
        &text.replace("acquire.gpu.", "relaxed.gpu.").replace("st.release.gpu", "st.relaxed.gpu"),
    );
    let (lock, sum) = (m.u32s(&[0]), m.u32s(&[0]));
    let outcome = m.launch("k", [2, 1, 1], [34, 1, 1], &[lock, sum], &strict());
    assert!(!outcome.faults.list.is_empty(), "a lock that orders nothing must be reported");
}

#[test]
fn a_grid_barrier_needs_all_ctas_alive() {
    // Each CTA writes, all meet at a counter in global memory, each reads its neighbour's.
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 count, .param .u64 data, .param .u64 out)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<9>;\n\
        ld.param.u64 %rd0, [count];\nld.param.u64 %rd1, [data];\nld.param.u64 %rd2, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %nctaid.x;\n\
        mad.lo.u32 %r3, %r1, 64, %r0;\nmad.wide.u32 %rd3, %r3, 4, %rd1;\nst.global.u32 [%rd3], %r3;\n\
        bar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra MET;\nmembar.gl;\natom.global.add.u32 %r4, [%rd0], 1;\n\
        SPIN:\nld.volatile.global.u32 %r4, [%rd0];\nsetp.lt.u32 %p1, %r4, %r2;\n@%p1 bra SPIN;\nmembar.gl;\nMET:\nbar.sync 0;\n\
        add.u32 %r5, %r1, 1;\nrem.u32 %r5, %r5, %r2;\nmad.lo.u32 %r5, %r5, 64, %r0;\nmad.wide.u32 %rd4, %r5, 4, %rd1;\nld.global.u32 %r6, [%rd4];\n\
        mad.wide.u32 %rd5, %r3, 4, %rd2;\nst.global.u32 [%rd5], %r6;\nret;\n}\n";
    for seed in 0..8 {
        let mut m = Machine::new("grid.ptx", text);
        let (count, data, out) = (m.u32s(&[0]), m.output(12 * 256), m.output(12 * 256));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("k", [12, 1, 1], [64, 1, 1], &[count, data, out], &options);
        m.clean("k", &outcome);
        let want: Vec<u32> = (0..768).map(|i| (i / 64 + 1) % 12 * 64 + i % 64).collect();
        assert_eq!(m.read_u32s(out, 768), want);
    }
}

#[test]
fn barriers_of_some_warps_and_reductions() {
    // Warp 1 arrives, warp 0 waits: producer and consumer with two barriers.
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 out)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.shared .b32 cell;\n\
        ld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\nsetp.ge.u32 %p0, %r0, 32;\n@%p0 bra PRODUCE;\nbar.sync 1, 64;\nld.shared.u32 %r1, [cell];\n\
        mad.wide.u32 %rd1, %r0, 4, %rd0;\nst.global.u32 [%rd1], %r1;\nbra REDUCE;\n\
        PRODUCE:\nsetp.ne.u32 %p1, %r0, 32;\n@%p1 bra ARRIVE;\nmov.u32 %r1, 4711;\nst.shared.u32 [cell], %r1;\nARRIVE:\nbar.arrive 1, 64;\n\
        REDUCE:\nsetp.lt.u32 %p2, %r0, 10;\nbarrier.red.popc.u32 %r2, 0, %p2;\nbar.red.or.pred %p3, 2, %p2;\nselp.u32 %r3, 1000, 0, %p3;\nadd.u32 %r2, %r2, %r3;\n\
        bar.red.and.pred %p3, 2, !%p2;\nselp.u32 %r3, 5000, 0, %p3;\nadd.u32 %r2, %r2, %r3;\n\
        mad.wide.u32 %rd1, %r0, 4, %rd0;\nst.global.u32 [%rd1+128], %r2;\nret;\n}\n";
    for seed in 0..20 {
        let mut m = Machine::new("barrier.ptx", text);
        let out = m.output(128 + 256);
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("k", [1, 1, 1], [64, 1, 1], &[out], &options);
        m.clean("k", &outcome);
        let got = m.read_u32s(out, 96);
        assert!(got[..32].iter().all(|v| *v == 4711), "{got:?}");
        assert!(got[32..].iter().all(|v| *v == 1010), "{got:?}");
    }
}

#[test]
fn spaces_and_generic_addresses() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .const .align 4 .u32 table[4] = {10, 20, 30, 40};\n.global .align 8 .b8 name[6] = {104, 105, 0};\n.global .f64 pi = 0d400921FB54442D18;\n\
        .global .u64 where[1] = {generic(name)};\n.extern .shared .align 16 .b8 dynamic[];\n\
        .entry k(.param .u64 out, .param .align 4 .b8 pair[8])\n{\n.local .align 8 .b8 frame[16];\n.shared .align 4 .b8 fixed[8];\n.reg .pred %p<6>;\n.reg .b32 %r<16>;\n.reg .b16 %h<2>;\n.reg .b64 %rd<16>;\n.reg .f64 %g<2>;\n\
        ld.param.u64 %rd0, [out];\nld.param.u32 %r1, [pair+4];\n\
        mov.u64 %rd1, frame;\ncvta.local.u64 %rd2, %rd1;\nst.u32 [%rd2+8], %r1;\nld.local.u32 %r2, [frame+8];\n\
        mov.u64 %rd3, dynamic;\ncvta.shared.u64 %rd4, %rd3;\nst.u32 [%rd4], %r2;\nld.shared.u32 %r3, [dynamic];\n\
        cvta.to.shared.u64 %rd5, %rd4;\nld.shared.u32 %r4, [%rd5];\nld.const.u32 %r5, [table+8];\n\
        mov.u64 %rd6, table;\ncvta.const.u64 %rd7, %rd6;\nld.u32 %r6, [%rd7+12];\n\
        ld.global.u64 %rd8, [where];\nld.u8 %r7, [%rd8+1];\nld.global.f64 %g0, [pi];\ncvt.rzi.s32.f64 %r8, %g0;\n\
        isspacep.shared %p0, %rd4;\nisspacep.local %p1, %rd2;\nisspacep.global %p2, %rd8;\nselp.u32 %r9, 1, 0, %p0;\nselp.u32 %r10, 2, 0, %p1;\nselp.u32 %r11, 4, 0, %p2;\n\
        add.u32 %r9, %r9, %r10;\nadd.u32 %r9, %r9, %r11;\n\
        st.global.v4.u32 [%rd0], {%r2, %r3, %r4, %r5};\nst.global.v4.u32 [%rd0+16], {%r6, %r7, %r8, %r9};\nret;\n}\n";
    let mut m = Machine::new("spaces.ptx", text);
    let out = m.output(32);
    let kernel = m.program.kernel("k").unwrap();
    let mut params = vec![0; kernel.param_bytes as usize];
    params[..8].copy_from_slice(&out.to_le_bytes());
    params[12..16].copy_from_slice(&99u32.to_le_bytes());
    let outcome = m.emulator.launch(&m.program, "k", [1, 1, 1], [1, 1, 1], 64, &params, &strict()).unwrap();
    m.clean("k", &outcome);
    assert_eq!(m.read_u32s(out, 8), [99, 99, 99, 30, 40, 105, 3, 7]);
}

#[test]
fn calls_with_registers_and_params() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .func (.reg .b32 %out) triple(.reg .b32 %in)\n{\n.reg .b32 %x;\nadd.u32 %x, %in, %in;\nadd.u32 %out, %x, %in;\nret;\n}\n\
        .func (.param .b32 result) mix(.param .b32 a, .param .align 4 .b8 pair[8])\n{\n.reg .b32 %r<6>;\n.reg .pred %p;\nld.param.b32 %r0, [a];\nld.param.b32 %r1, [pair];\nld.param.b32 %r2, [pair+4];\n\
        setp.lt.u32 %p, %r0, 8;\n@%p bra SMALL;\nsub.u32 %r3, %r1, %r2;\nst.param.b32 [result], %r3;\nret;\nSMALL:\ncall (%r3), triple, (%r1);\nadd.u32 %r3, %r3, %r2;\nst.param.b32 [result], %r3;\nret;\n}\n\
        .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\nmul.lo.u32 %r1, %r0, 100;\n\
        {\n.param .b32 p0;\n.param .align 4 .b8 p1[8];\n.param .b32 r0;\nst.param.b32 [p0], %r0;\nst.param.b32 [p1], %r1;\nst.param.b32 [p1+4], 7;\ncall.uni (r0), mix, (p0, p1);\nld.param.b32 %r2, [r0];\n}\n\
        mad.wide.u32 %rd1, %r0, 4, %rd0;\nst.global.u32 [%rd1], %r2;\nret;\n}\n";
    for options in [strict(), seeded(1), seeded(7)] {
        let mut m = Machine::new("calls.ptx", text);
        let out = m.output(64);
        let outcome = m.launch("k", [1, 1, 1], [16, 1, 1], &[out], &options);
        m.clean("k", &outcome);
        let want: Vec<u32> =
            (0..16u32).map(|i| if i < 8 { 300 * i + 7 } else { (100 * i).wrapping_sub(7) }).collect();
        assert_eq!(m.read_u32s(out, 16), want);
    }
}

#[test]
fn limits_are_checked_at_launch() {
    let text = |directives: &str, shared: u32| {
        format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(){directives}\n{{\n.shared .b8 big[{shared}];\n.reg .b32 %r;\nmov.u32 %r, big;\nret;\n}}\n"
        )
    };
    let launch = |directives: &str, shared: u32, block: u32, dynamic: u32| {
        let mut m = Machine::new("limits.ptx", &text(directives, shared));
        m.emulator
            .launch(&m.program, "k", [1, 1, 1], [block, 1, 1], dynamic, &[], &strict())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(launch("", 1024, 32, 0), Ok(()));
    assert_eq!(launch(".maxntid 64", 16, 64, 0), Ok(()));
    let wrong = |result: Result<(), String>, part: &str| {
        let message = result.unwrap_err();
        assert!(message.contains(part), "{message}");
    };
    wrong(launch("", 16, 1025, 0), "the number of threads is 1025, the limit of sm_75 is 1024");
    wrong(launch("", 1024, 32, 65536), "shared memory in bytes is 66560");
    wrong(launch(".maxntid 64", 16, 65, 0), "`.maxntid [64, 1, 1]`");
    wrong(launch(".reqntid 32, 2", 16, 64, 0), "`.reqntid [32, 2, 1]`");
    wrong(launch(".maxnreg 128", 16, 1024, 0), "`.maxnreg` times the threads");
    wrong(launch("", 16, 0, 0), "extent of 0");
    wrong(launch("", 16, u32::MAX, 0), "the number of threads is 4294967295");
    let most = ".maxntid 4294967295, 4294967295, 4294967295";
    assert_eq!(launch(most, 16, 64, 0), Ok(()));
}

#[test]
fn coalescing_and_conflicts_are_counted() {
    let count = |body: &str| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 in)\n{{\n.reg .pred %p;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.shared .align 16 .b8 tile[8192];\n\
             ld.param.u64 %rd0, [in];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, tile;\n{body}\nret;\n}}\n"
        );
        let mut m = Machine::new("count.ptx", &text);
        let input = m.u32s(&[0; 2048]);
        let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[input], &strict());
        m.clean("k", &outcome);
        outcome.counters.total()
    };
    let load =
        |stride: u32| count(&format!("mad.wide.u32 %rd1, %r0, {stride}, %rd0;\nld.global.u32 %r2, [%rd1];"));
    assert_eq!((load(4).global_requests, load(4).global_sectors, load(4).global_bytes), (1, 4, 128));
    assert_eq!((load(32).global_sectors, load(128).global_sectors, load(8).global_sectors), (32, 32, 8));
    let store =
        |stride: u32| count(&format!("mad.lo.u32 %r3, %r0, {stride}, %r1;\nst.shared.u32 [%r3], %r0;"));
    assert_eq!((store(4).shared_passes, store(4).bank_conflicts), (1, 0));
    assert_eq!((store(128).shared_passes, store(128).bank_conflicts), (32, 31));
    assert_eq!((store(132).bank_conflicts, store(8).bank_conflicts), (0, 1));
    let divergent = count(
        "setp.lt.u32 %p, %r0, 8;\n@!%p bra ELSE;\nadd.u32 %r2, %r0, 1;\nbra DONE;\nELSE:\nadd.u32 %r2, %r0, 2;\nDONE:\nadd.u32 %r3, %r2, 1;",
    );
    // A guarded instruction counts the lanes whose guard holds. The last instructions
    // run together again: 32 lanes in one warp-instruction.
    assert_eq!(divergent.lane_instructions, 32 * 4 + 24 + 8 * 2 + 24 + 32 * 2);
    assert_eq!(divergent.warp_instructions, 5 + 3 + 2);
}

#[test]
fn atomics_on_halves() {
    // Sums of small integers are exact in any order.
    for (ty, one, start, want) in [
        ("f16x2", 0x4000_3c00u64, 0u64, 0x5400_5000u64),
        ("bf16x2", 0x4000_3f80, 0, 0x4280_4200),
        ("f16", 0x3c00, 0x3c00, 0x5020),
        ("bf16", 0x3f80, 0x3f80, 0x4204),
    ] {
        let (class, load) = if ty.ends_with("x2") { ("b32", "u32") } else { ("b16", "u16") };
        for space in ["global", "shared"] {
            let base = if space == "global" { "%rd0" } else { "%s" };
            let text = format!(
                ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 cell, .param .u64 value)\n{{\n.reg .pred %p;\n.reg .b32 %t, %s;\n.reg .{class} %v, %o;\n.reg .b64 %rd<3>;\n.shared .align 4 .b8 word[4];\n\
                 mov.u32 %s, word;\nld.param.u64 %rd0, [cell];\nld.param.u64 %rd1, [value];\nmov.u32 %t, %tid.x;\nsetp.ne.u32 %p, %t, 0;\nld.global.{load} %v, [%rd1];\n\
                 @%p bra GO;\nld.global.{load} %o, [%rd0];\nst.shared.{load} [%s], %o;\nGO:\nbar.sync 0;\n\
                 atom.{space}.add.noftz.{ty} %o, [{base}], %v;\nbar.sync 0;\n@%p bra DONE;\nld.shared.{load} %v, [%s];\n{}\nDONE:\nret;\n}}\n",
                if space == "shared" { format!("st.global.{load} [%rd0], %v;") } else { String::new() }
            );
            let mut m = Machine::new("atomic.ptx", &text);
            let (cell, value) = (m.u32s(&[start as u32]), m.u32s(&[one as u32]));
            let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[cell, value], &seeded(2));
            m.clean("k", &outcome);
            assert_eq!(u64::from(m.read_u32s(cell, 1)[0]), want, "{space} {ty}");
        }
    }
}

#[test]
fn asynchronous_copies_of_every_size() {
    // (modifiers, bytes, extra operand, bytes copied)
    for (op, bytes, extra, copied) in [
        ("ca", 4usize, "", 4usize),
        ("ca", 8, "", 8),
        ("ca", 16, "", 16),
        ("cg", 16, "", 16),
        ("cg", 16, ", 0", 0),
        ("ca", 16, ", 7", 7),
        ("cg", 16, ", %r5", 12),
        ("ca", 8, ", %p1", 0),
        ("ca", 8, ", !%p1", 8),
    ] {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<12>;\n.reg .b64 %rd<6>;\n.shared .align 16 .b8 tile[512];\n\
             ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r5, 12;\nsetp.ge.u32 %p1, %r0, 0;\n\
             mad.wide.u32 %rd2, %r0, 16, %rd0;\nmad.wide.u32 %rd3, %r0, 16, %rd1;\nmov.u32 %r1, tile;\nmad.lo.u32 %r1, %r0, 16, %r1;\n\
             mov.u32 %r2, -1;\nst.shared.v4.u32 [%r1], {{%r2, %r2, %r2, %r2}};\n\
             cp.async.{op}.shared.global.L2::128B [%r1], [%rd2], {bytes}{extra};\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
             ld.shared.v4.u32 {{%r6, %r7, %r8, %r9}}, [%r1];\nst.global.v4.u32 [%rd3], {{%r6, %r7, %r8, %r9}};\nret;\n}}\n"
        );
        let mut m = Machine::new("copy.ptx", &text);
        let input: Vec<u8> = (0..512).map(|i| (i * 7 + 1) as u8).collect();
        let (pin, pout) = (m.bytes(&input), m.output(512));
        let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[pin, pout], &strict());
        m.clean("k", &outcome);
        let want: Vec<u8> = (0..512)
            .map(|i| match i % 16 {
                j if j < copied => input[i],
                j if j < bytes => 0,
                _ => 0xff,
            })
            .collect();
        assert_eq!(m.read_bytes(pout, 512), want, "{op} {bytes}{extra}");
    }
}

#[test]
fn queued_reductions_are_seen_by_the_cta_that_made_them() {
    // Each CTA counts its threads in a cell of its own, then reads it back.
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 cells, .param .u64 out)\n{\n.reg .pred %p;\n.reg .b32 %r<6>;\n.reg .b64 %rd<6>;\n\
        ld.param.u64 %rd0, [cells];\nld.param.u64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmad.wide.u32 %rd2, %r1, 4, %rd0;\n\
        red.global.add.u32 [%rd2], 1;\nbar.sync 0;\nsetp.ne.u32 %p, %r0, 0;\n@%p bra DONE;\nld.global.u32 %r2, [%rd2];\n\
        mad.wide.u32 %rd3, %r1, 4, %rd1;\nst.global.u32 [%rd3], %r2;\nDONE:\nret;\n}\n";
    for workers in [1, 4] {
        let mut m = Machine::new("queued.ptx", text);
        let (cells, out) = (m.u32s(&[0; 40]), m.output(160));
        let options = Options { workers, ..strict() };
        let outcome = m.launch("k", [40, 1, 1], [96, 1, 1], &[cells, out], &options);
        m.clean("k", &outcome);
        assert_eq!(m.read_u32s(out, 40), [96; 40]);
        assert_eq!(m.read_u32s(cells, 40), [96; 40]);
    }
}
