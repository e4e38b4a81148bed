//! Valid PTX beyond plain arithmetic: constant expressions, vector and 128-bit
//! registers, vector atomics, reserved registers and what libraries ask of them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, seeded, strict};

/// A kernel over the output `y` in `%rd0`, with an input `x` in `%rd1`.
fn kernel(chip: &str, body: &str) -> String {
    format!(
        ".version 8.8\n.target {chip}\n.address_size 64\n.const .u32 table[1+2*2] = {{1<<4, 7, (3>2)?5:6, -1, ~0}};\n\
         .visible .entry k(.param .u64 y, .param .u64 x)\n{{\n\
         .reg .pred %p<8>;\n.reg .b16 %h<20>;\n.reg .b32 %r<40>;\n.reg .f32 %f<20>;\n.reg .b64 %rd<20>;\n\
         .reg .b128 %q<6>;\n.reg .v4 .f32 %v;\n.reg .v2 .b32 %w;\n.shared .align 16 .b8 tile[16*64];\n\
         ld.param.u64 %rd0, [y];\nld.param.u64 %rd1, [x];\n{body}\nret;\n}}\n"
    )
}

/// Runs a body on one thread (or more) and gives the first words of the output,
/// which starts as 64 words that count from 100; the input counts from 1.
fn words(chip: &str, threads: u32, body: &str) -> Vec<u32> {
    let mut m = Machine::new("valid.ptx", &kernel(chip, body));
    let y = m.u32s(&(100..164).collect::<Vec<_>>());
    let x = m.u32s(&(1..65).collect::<Vec<_>>());
    let outcome = m.launch("k", [1, 1, 1], [threads, 1, 1], &[y, x], &strict());
    m.clean("k", &outcome);
    m.read_u32s(y, 64)
}

#[test]
fn constant_expressions() {
    let values = [
        ("3*4+(5<<2)-~1", 34u32),
        ("(7&3)|8^1", 11),
        ("1 ? 2 : 3", 2),
        ("-7/2", -3i32 as u32),
        ("-7 % 3", -1i32 as u32),
        ("0xffffffffffffffff >> 60", 15),
        ("(.s64)0xffffffffffffffff >> 60", u32::MAX),
        ("!0 + !5", 1),
        ("2 < 3 && 4 >= 4 || 0", 1),
        ("1U-2U > 0", 1),
        ("WARP_SZ-1", 31),
        ("-(3+4)", -7i32 as u32),
    ];
    for (expression, want) in values {
        let got = words("sm_80", 1, &format!("mov.u32 %r1, {expression};\nst.global.u32 [%rd0+4*2], %r1;"));
        assert_eq!(got[2], want, "{expression}");
    }
    let got = words(
        "sm_80",
        1,
        "mov.f32 %f1, 1.5+2.0*4.0;\nst.global.f32 [%rd0], %f1;\nld.global.u32 %r1, [%rd1+4*(1+2)-4];\nst.global.u32 [%rd0+4], %r1;",
    );
    assert_eq!((f32::from_bits(got[0]), got[1]), (9.5, 3));
    let copy: String = (0..5)
        .map(|i| format!("ld.const.u32 %r1, [table+4*{i}];\nst.global.u32 [%rd0+4*{i}], %r1;\n"))
        .collect();
    assert_eq!(words("sm_80", 1, &copy)[..5], [16, 7, 5, u32::MAX, u32::MAX]);
    for bad in ["1/0", "3*", "1.5 & 2", "1 << 64"] {
        let text = kernel("sm_80", &format!("mov.u32 %r1, {bad};"));
        assert!(phobos_emulator::Program::load_whole("k", &text, 0).is_err(), "{bad}");
    }
}

#[test]
fn the_mask_of_active_lanes() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 5;\n@!%p1 bra D;\nactivemask.b32 %r2;\nst.global.u32 [%rd0], %r2;\nD:";
    assert_eq!(words("sm_80", 32, body)[0], 31);
}

#[test]
fn vector_registers() {
    let body = "ld.global.v4.f32 %v, [%rd1];\nadd.rn.f32 %v.y, %v.x, %v.w;\nst.global.v4.f32 [%rd0], %v;\n\
                ld.global.v2.u32 %w, [%rd1+8];\nst.global.v2.u32 [%rd0+16], %w;";
    let got = words("sm_80", 1, body);
    assert_eq!([got[0], got[2], got[3], got[4], got[5]], [1, 3, 4, 3, 4]);
    assert_eq!(f32::from_bits(got[1]), f32::from_bits(1) + f32::from_bits(4));
}

#[test]
fn registers_of_128_bits() {
    let body = "ld.global.b128 %q0, [%rd1];\nmov.b128 %q1, %q0;\nmov.b128 {%rd2, %rd3}, %q1;\n\
                mov.b128 %q2, {%rd3, %rd2};\nst.global.b128 [%rd0], %q2;\n\
                atom.global.exch.b128 %q3, [%rd0+16], %q0;\nst.global.b128 [%rd0+32], %q3;\n\
                mov.u64 %rd4, 0x6d0000006c;\nmov.u64 %rd5, 0x6f0000006e;\nmov.b128 %q4, {%rd4, %rd5};\n\
                atom.global.cas.b128 %q5, [%rd0+48], %q4, %q0;\nst.global.b128 [%rd0+64], %q5;\n\
                atom.global.cas.b128 %q5, [%rd0+48], %q4, %q2;";
    let got = words("sm_90", 1, &body.replace("[%rd0+48]", "[%rd0+80]"));
    assert_eq!(got[..4], [3, 4, 1, 2]);
    assert_eq!(got[4..8], [1, 2, 3, 4]);
    assert_eq!(got[8..12], [104, 105, 106, 107]);
    // 120.. is not 108..: nothing is exchanged.
    assert_eq!((&got[16..20], &got[20..24]), (&[120, 121, 122, 123][..], &[120, 121, 122, 123][..]));
    let got = words(
        "sm_90",
        1,
        &body.replace("[%rd0+48]", "[%rd0+32]").replace("[%rd0+32], %q3", "[%rd0+96], %q3"),
    );
    assert_eq!((&got[8..12], &got[16..20]), (&[1, 2, 3, 4][..], &[108, 109, 110, 111][..]));
}

#[test]
fn vector_atomics() {
    let ones = "mov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f40000000;\nmov.u32 %r9, 0;\n\
                st.global.v4.u32 [%rd0], {%r9,%r9,%r9,%r9};\n";
    let body = format!(
        "{ones}atom.global.gpu.acq_rel.add.v4.f32 {{%f3,%f4,%f5,%f6}}, [%rd0], {{%f1,%f2,%f1,%f2}};\n\
         red.global.add.v2.f32 [%rd0+8], {{%f2,%f2}};\nst.global.v4.f32 [%rd0+16], {{%f3,%f4,%f5,%f6}};"
    );
    let got = words("sm_90", 1, &body);
    let floats: Vec<f32> = got[..8].iter().map(|bits| f32::from_bits(*bits)).collect();
    assert_eq!(floats, [1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
    // Halves: 1.0, 2.0 and a NaN, which gives way.
    let body = "mov.u32 %r1, 0x40003c00;\nmov.u32 %r2, 0x7fffc000;\nst.global.v2.u32 [%rd0], {%r1, %r1};\n\
                red.global.min.noftz.v2.f16x2 [%rd0], {%r2, %r1};\natom.global.max.noftz.v2.f16x2 {%r3,%r4}, [%rd0], {%r1, %r2};\n\
                st.global.v2.u32 [%rd0+8], {%r3, %r4};";
    assert_eq!(words("sm_90", 1, body)[..4], [0x4000_3c00, 0x4000_3c00, 0x4000_c000, 0x4000_3c00]);
    let text = kernel("sm_90", "red.global.min.noftz.f16 [%rd0], %h1;");
    assert!(
        phobos_emulator::Program::load_whole("k", &text, 0)
            .unwrap_err()
            .message
            .contains("unknown instruction")
    );
}

#[test]
fn float_reductions_of_a_warp() {
    let body = |op: &str| {
        format!(
            "mov.u32 %r1, %tid.x;\ncvt.rn.f32.s32 %f1, %r1;\nsub.f32 %f1, %f1, 0f41800000;\n\
             setp.eq.u32 %p1, %r1, 9;\nselp.f32 %f1, 0f7FC00000, %f1, %p1;\nredux.sync.{op}.f32 %f2, %f1, -1;\n\
             st.global.f32 [%rd0], %f2;"
        )
    };
    let run = |op: &str| {
        let mut m = Machine::new("redux.ptx", &kernel("sm_100", &body(op)));
        let y = m.u32s(&[0; 4]);
        let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[y, y], &strict());
        drop(outcome);
        m.read_f32s(y, 1)[0]
    };
    assert_eq!((run("min"), run("max")), (-16.0, 15.0));
    assert_eq!((run("min.abs"), run("max.abs")), (0.0, 16.0));
    assert!(run("min.NaN").is_nan() && run("max.abs.NaN").is_nan());
}

#[test]
fn reserved_registers_and_proxies() {
    let body = "mov.u32 %r1, %envreg0;\nmov.u32 %r2, %envreg31;\nmov.u32 %r3, %reserved_smem_offset_begin;\n\
                mov.u32 %r4, %reserved_smem_offset_end;\nsub.u32 %r4, %r4, %r3;\nmov.u32 %r5, %reserved_smem_offset_1;\n\
                st.shared.u32 [%r5], %r4;\nld.shared.u32 %r6, [%r5];\nst.global.v4.u32 [%rd0], {%r1,%r2,%r4,%r6};\n\
                fence.proxy.async;\nfence.proxy.async.shared::cta;\nfence.proxy.alias;\n\
                fence.mbarrier_init.release.cluster;";
    assert_eq!(words("sm_90", 1, body)[..4], [0, 0, 1024, 1024]);
}

/// Every CTA adds to a counter, waits for the grid, and reads the whole count.
const GRID_SYNC: &str = "mov.u32 %r1, %envreg1;\nmov.u32 %r2, %envreg2;\nmov.b64 %rd2, {%r2, %r1};\n\
     mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %nctaid.x;\nred.global.add.u32 [%rd1], 1;\nbar.sync 0;\n\
     mov.u32 %r5, %tid.x;\nsetp.ne.u32 %p1, %r5, 0;\n@%p1 bra WAITED;\n\
     setp.eq.u32 %p2, %r3, 0;\nsub.u32 %r6, 0x80000001, %r4;\nselp.u32 %r6, %r6, 1, %p2;\nmembar.gl;\n\
     atom.global.add.u32 %r7, [%rd2+4], %r6;\n\
     SPIN:\nld.volatile.global.u32 %r8, [%rd2+4];\nxor.b32 %r9, %r8, %r7;\nsetp.ge.s32 %p3, %r9, 0;\n@%p3 bra SPIN;\n\
     membar.gl;\nWAITED:\nbar.sync 0;\nld.global.u32 %r10, [%rd1];\nmul.wide.u32 %rd3, %r3, 4;\n\
     add.u64 %rd4, %rd0, %rd3;\n@!%p1 st.global.u32 [%rd4], %r10;";

#[test]
fn a_grid_barrier_of_cooperative_groups() {
    for options in std::iter::once(strict()).chain((0..20).map(seeded)) {
        let mut m = Machine::new("grid.ptx", &kernel("sm_80", GRID_SYNC));
        let (y, x) = (m.u32s(&[0; 8]), m.u32s(&[0]));
        for round in 1..3 {
            let outcome = m.launch("k", [6, 1, 1], [64, 1, 1], &[y, x], &options);
            m.clean("k", &outcome);
            assert_eq!(m.read_u32s(y, 6), [round * 6 * 64; 6]);
        }
    }
}
