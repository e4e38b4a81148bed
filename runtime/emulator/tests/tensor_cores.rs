//! `wgmma` and block-scaled `mma`: planted matrices through layouts written out here
//! from the figures of the PTX ISA document.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, kinds, strict};
use phobos_emulator::FaultKind;

fn a(m: usize, k: usize) -> f32 {
    ((m * 7 + k * 3) % 11) as f32 - 5.0
}
fn b(k: usize, n: usize) -> f32 {
    ((k * 5 + n * 2) % 7) as f32 - 3.0
}

fn half(value: f32) -> [u8; 2] {
    // Small integers: exact.
    let bits = value.to_bits();
    if value == 0.0 {
        return [0, 0];
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    ((bits >> 16 & 0x8000) as u16 | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16).to_le_bytes()
}

/// How a matrix lies in shared memory, and the two offsets and the mode of its
/// descriptor.
#[derive(Clone, Copy, Debug)]
struct Layout {
    place: fn(mn: usize, k: usize) -> usize,
    leading: u64,
    stride: u64,
    mode: u64,
    along_mn: bool,
}

impl Layout {
    fn descriptor(&self, start: u64) -> u64 {
        start >> 4 | (self.leading >> 4) << 16 | (self.stride >> 4) << 32 | self.mode << 62
    }
}

/// Layouts of matrices of 16-bit elements, 16 along k.
const LAYOUTS: [Layout; 6] = [
    // Core matrices of 8 rows of 16 bytes: the two along k follow each other.
    Layout {
        place: |mn, k| mn / 8 * 256 + k / 8 * 128 + mn % 8 * 16 + k % 8 * 2,
        leading: 128,
        stride: 256,
        mode: 0,
        along_mn: false,
    },
    // Rows of 128, 64 and 32 bytes, whose 16-byte pieces are permuted.
    Layout {
        place: |mn, k| mn / 8 * 1024 + mn % 8 * 128 + ((k / 8) ^ (mn % 8)) * 16 + k % 8 * 2,
        leading: 0,
        stride: 1024,
        mode: 1,
        along_mn: false,
    },
    Layout {
        place: |mn, k| mn / 8 * 512 + mn % 8 * 64 + ((k / 8) ^ (mn % 8 / 2)) * 16 + k % 8 * 2,
        leading: 0,
        stride: 512,
        mode: 2,
        along_mn: false,
    },
    Layout {
        place: |mn, k| mn / 8 * 256 + mn % 8 * 32 + ((k / 8) ^ (mn % 8 / 4)) * 16 + k % 8 * 2,
        leading: 0,
        stride: 256,
        mode: 3,
        along_mn: false,
    },
    // Rows along m or n: 64 elements of each k, eight k a block.
    Layout {
        place: |mn, k| {
            mn / 64 * 2048 + k / 8 * 1024 + k % 8 * 128 + ((mn % 64 / 8) ^ (k % 8)) * 16 + mn % 8 * 2
        },
        leading: 2048,
        stride: 1024,
        mode: 1,
        along_mn: true,
    },
    // Core matrices of 8 k of 16 bytes: those along k follow each other.
    Layout {
        place: |mn, k| mn / 8 * 256 + k / 8 * 128 + k % 8 * 16 + mn % 8 * 2,
        leading: 128,
        stride: 256,
        mode: 0,
        along_mn: true,
    },
];

const N: usize = 96;
/// Where B begins in shared memory.
const B_START: usize = 16384;

/// Runs one `wgmma` over A and B in the given layouts and gives D.
fn product(left: Layout, right: Layout, operands: &str, sum_before: bool) -> (Vec<f32>, Vec<FaultKind>) {
    let count = N / 2;
    let list = |prefix: &str| (0..count).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(",");
    let mut text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 image, .param .u64 out, .param .u64 da, .param .u64 db)\n{{\n\
         .reg .pred %p<4>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<{count}>;\n.shared .align 1024 .b8 tile[32768];\n\
         ld.param.u64 %rd0, [image];\nld.param.u64 %rd1, [out];\nld.param.u64 %rd2, [da];\nld.param.u64 %rd3, [db];\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, %r0;\nmov.u32 %r2, tile;\nCOPY:\nmul.wide.u32 %rd4, %r1, 4;\n\
         add.u64 %rd4, %rd0, %rd4;\nld.global.u32 %r3, [%rd4];\nmad.lo.u32 %r4, %r1, 4, %r2;\nst.shared.u32 [%r4], %r3;\n\
         add.u32 %r1, %r1, 128;\nsetp.lt.u32 %p0, %r1, 8192;\n@%p0 bra COPY;\nfence.proxy.async;\nbar.sync 0;\n"
    );
    for i in 0..count {
        text += &format!("mov.f32 %f{i}, 0f{:08x};\n", if sum_before { 100f32.to_bits() } else { 0 });
    }
    text += &format!(
        "wgmma.fence.sync.aligned;\nsetp.eq.u32 %p1, %r2, %r2;\n\
         wgmma.mma_async.sync.aligned.m64n{N}k16.f32.f16.f16 {{{}}}, {operands};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nmul.wide.u32 %rd4, %r0, {};\nadd.u64 %rd4, %rd1, %rd4;\n",
        list("%f"),
        4 * count
    );
    for i in 0..count {
        text += &format!("st.global.f32 [%rd4+{}], %f{i};\n", 4 * i);
    }
    text += "ret;\n}\n";
    let mut image = vec![0u8; 32768];
    let mut put = |at: usize, value: f32| image[at..at + 2].copy_from_slice(&half(value));
    for k in 0..16 {
        for m in 0..64 {
            put((left.place)(m, k), a(m, k));
        }
        for n in 0..N {
            put(B_START + (right.place)(n, k), b(k, n));
        }
    }
    let mut m = Machine::new("wgmma.ptx", &text);
    let (image, out) = (m.bytes(&image), m.output(128 * 4 * count as u64));
    let args = [image, out, left.descriptor(0), right.descriptor(B_START as u64)];
    let outcome = m.launch("k", [1; 3], [128, 1, 1], &args, &strict());
    let fragments = m.read_f32s(out, 128 * count);
    let mut d = vec![f32::NAN; 64 * N];
    for thread in 0..128 {
        for i in 0..count {
            // Four lanes a row; a warp has 16 rows, the upper eight in every second pair.
            let row = thread / 32 * 16 + thread % 32 / 4 + if i % 4 >= 2 { 8 } else { 0 };
            let column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            d[row * N + column] = fragments[thread * count + i];
        }
    }
    (d, kinds(&outcome))
}

fn wanted(scale: f32, before: f32) -> Vec<f32> {
    let mut d = Vec::new();
    for m in 0..64 {
        for n in 0..N {
            d.push(before + scale * (0..16).map(|k| a(m, k) * b(k, n)).sum::<f32>());
        }
    }
    d
}

#[test]
fn warpgroup_products_of_every_layout() {
    for left in LAYOUTS {
        for right in LAYOUTS {
            let turned = |layout: Layout| u8::from(layout.along_mn);
            let operands = format!("%rd2, %rd3, %p1, 1, 1, {}, {}", turned(left), turned(right));
            let (d, reports) = product(left, right, &operands, true);
            assert_eq!((d, reports), (wanted(1.0, 100.0), vec![]), "{left:?} {right:?}");
        }
    }
    let [layout, ..] = LAYOUTS;
    let (d, _) = product(layout, layout, "%rd2, %rd3, 0, -1, 1, 0, 0", true);
    assert_eq!(d, wanted(-1.0, 0.0));
    let (d, _) = product(layout, layout, "%rd2, %rd3, !%p1, 1, 1, 0, 0", true);
    assert_eq!(d, wanted(1.0, 0.0));
}

#[test]
fn a_warpgroup_product_with_a_in_registers() {
    // Every lane's A is 1.0 in its first column, zero elsewhere.
    let [layout, ..] = LAYOUTS;
    let operands = "{%r20,%r21,%r22,%r22}, %rd3, 1, 1, 1, 0";
    let (d, reports) = product(layout, layout, operands, false);
    assert!(reports.contains(&FaultKind::UninitializedStore) && d.len() == 64 * N);
}

/// Codes of small numbers: E4M3 and E2M1.
fn e4m3(value: f32) -> u64 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 7;
    u64::from(bits >> 24 & 0x80) | (exponent as u64) << 3 | u64::from(bits >> 20 & 7)
}
fn e2m1(value: f32) -> u64 {
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let at = magnitudes.iter().position(|v| *v == value.abs()).unwrap() as u64;
    at | if value < 0.0 { 8 } else { 0 }
}

/// A block-scaled product: `k`, elements of a register, scales along k, and the rest of
/// the opcode with the identifiers.
struct Scaled {
    opcode: &'static str,
    k: usize,
    per: usize,
    scales: usize,
    code: fn(f32) -> u64,
    scale: fn(usize) -> (u64, f32),
    byte: [usize; 2],
    thread: [usize; 2],
}

fn power(index: usize) -> (u64, f32) {
    let exponent = index as i32 % 5 - 2;
    ((127 + exponent) as u64, 2f32.powi(exponent))
}

fn fractional(index: usize) -> (u64, f32) {
    let value = [1.0, 1.5, 0.25, 3.0, 0.5][index % 5];
    (e4m3(value), value)
}

#[test]
fn block_scaled_products() {
    let base = Scaled {
        opcode: "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
        k: 32,
        per: 4,
        scales: 1,
        code: e4m3,
        scale: power,
        byte: [0, 0],
        thread: [0, 0],
    };
    let four = Scaled {
        opcode: "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
        k: 64,
        per: 8,
        scales: 2,
        code: e2m1,
        byte: [2, 0],
        thread: [1, 3],
        ..base
    };
    let cases = [
        Scaled { byte: [3, 2], thread: [1, 2], ..base },
        Scaled {
            opcode: "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
            scales: 4,
            scale: fractional,
            byte: [0, 0],
            thread: [0, 1],
            ..four
        },
        base,
        four,
    ];
    for case in cases {
        let values = [0.5, -1.0, 2.0, 0.0, 1.5, -3.0, 4.0];
        let left = |m: usize, k: usize| values[(m * 3 + k * 2) % 7];
        let right = |k: usize, n: usize| values[(k * 5 + n) % 7];
        let stretch = case.k / case.scales;
        let mut fragments = vec![0u32; 32 * 8];
        for lane in 0..32 {
            let (g, t) = (lane / 4, lane % 4);
            let mut put =
                |word: usize, value: u64, shift: usize| fragments[lane * 8 + word] |= (value as u32) << shift;
            let bits = 32 / case.per;
            for i in 0..4 * case.per {
                // A: row g, then g + 8, then both again in the upper half of k.
                let (register, part) = (i / case.per, i % case.per);
                let row = if register % 2 == 0 { g } else { g + 8 };
                let column = t * case.per + part + if register >= 2 { case.k / 2 } else { 0 };
                put(register, (case.code)(left(row, column)), part * bits);
            }
            for i in 0..2 * case.per {
                let (register, part) = (i / case.per, i % case.per);
                let row = t * case.per + part + register * case.k / 2;
                put(4 + register, (case.code)(right(row, g)), part * bits);
            }
            // Scales of A: two lanes of each quad have rows g and g + 8; of B one has
            // column g. All other bytes are nonsense.
            for byte in 0..4 {
                let a_lane =
                    t / 2 == case.thread[0] && (case.byte[0]..case.byte[0] + case.scales).contains(&byte);
                let a_scale =
                    (case.scale)((g + 8 * (t % 2)) * case.scales + byte.wrapping_sub(case.byte[0]) % 4).0;
                put(6, if a_lane { a_scale } else { 0x55 }, 8 * byte);
                let b_lane =
                    t == case.thread[1] && (case.byte[1]..case.byte[1] + case.scales).contains(&byte);
                let b_scale = (case.scale)(3 + g * case.scales + byte.wrapping_sub(case.byte[1]) % 4).0;
                put(7, if b_lane { b_scale } else { 0x55 }, 8 * byte);
            }
        }
        let text = format!(
            ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
             .reg .b32 %r<20>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\n\
             mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 32;\nadd.u64 %rd2, %rd0, %rd2;\nmul.wide.u32 %rd3, %r0, 16;\n\
             add.u64 %rd3, %rd1, %rd3;\nld.global.v4.u32 {{%r1,%r2,%r3,%r4}}, [%rd2];\nld.global.v4.u32 {{%r5,%r6,%r7,%r8}}, [%rd2+16];\n\
             mov.f32 %f0, 0f3f800000;\nmma.sync.aligned.{} {{%f1,%f2,%f3,%f4}}, {{%r1,%r2,%r3,%r4}}, {{%r5,%r6}}, \
             {{%f0,%f0,%f0,%f0}}, %r7, {{{},{}}}, %r8, {{{},{}}};\nst.global.v4.f32 [%rd3], {{%f1,%f2,%f3,%f4}};\nret;\n}}\n",
            case.opcode, case.byte[0], case.thread[0], case.byte[1], case.thread[1]
        );
        let mut m = Machine::new("scaled.ptx", &text);
        let (input, out) = (m.u32s(&fragments), m.output(512));
        let outcome = m.launch("k", [1; 3], [32, 1, 1], &[input, out], &strict());
        m.clean("k", &outcome);
        let d = m.read_f32s(out, 128);
        for lane in 0..32 {
            for i in 0..4 {
                let (row, column) = (lane / 4 + if i >= 2 { 8 } else { 0 }, lane % 4 * 2 + i % 2);
                let want: f32 = 1.0
                    + (0..case.k)
                        .map(|k| {
                            let chunk = k / stretch;
                            let scale_a = (case.scale)(row * case.scales + chunk).1;
                            let scale_b = (case.scale)(3 + column * case.scales + chunk).1;
                            left(row, k) * scale_a * right(k, column) * scale_b
                        })
                        .sum::<f32>();
                assert_eq!(d[4 * lane + i], want, "{} row {row} column {column}", case.opcode);
            }
        }
    }
}

#[test]
fn products_of_small_floats_in_bytes() {
    // E2M1 stands in the middle of its byte, E3M2 at the bottom: 1.5 is 0b0011 and
    // 0b001110.
    let text = ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n\
        .reg .b32 %r<20>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd1, [out];\nmov.u32 %r1, 0x0c0c0c0c;\n\
        mov.u32 %r2, 0x0e0e0e0e;\nmov.f32 %f0, 0f00000000;\n\
        mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32 {%f1,%f2,%f3,%f4}, {%r1,%r1,%r1,%r1}, {%r2,%r2}, \
        {%f0,%f0,%f0,%f0};\nst.global.f32 [%rd1], %f4;\nret;\n}\n";
    let mut m = Machine::new("small.ptx", text);
    let out = m.output(4);
    m.launch("k", [1; 3], [32, 1, 1], &[out], &strict());
    assert_eq!(m.read_f32s(out, 1), [32.0 * 1.5 * 1.5]);
}
