//! Fragment maps of `mma.sync` and `ldmatrix`, written out here shape by shape
//! from the figures and formulas of the PTX ISA document, against the emulator:
//! planted matrices in which every element is a different value.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Machine, seeded, strict};
use phobos_emulator::number::{BF16, E4M3, E5M2, F16, Format, Round, TF32, narrow, widen};

/// The row and column of element `i` of a fragment in `lane`.
type Map = fn(lane: u32, i: u32) -> (u32, u32);

#[derive(Clone, Copy, PartialEq, Debug)]
enum E {
    Half(Format),
    Tf32,
    F64,
    Fp8(Format),
    Int { bits: u32, signed: bool },
}

impl E {
    fn bits(self) -> u32 {
        match self {
            E::Half(_) => 16,
            E::Tf32 => 32,
            E::F64 => 64,
            E::Fp8(_) => 8,
            E::Int { bits, .. } => bits,
        }
    }
    /// The code of a small integer.
    fn code(self, v: i64) -> u64 {
        match self {
            E::Half(format) | E::Fp8(format) => narrow(v as f64, format, Round::NearestEven),
            E::Tf32 => narrow(v as f64, TF32, Round::NearestEven) << 13,
            E::F64 => (v as f64).to_bits(),
            E::Int { bits, .. } => v as u64 & ((1 << bits) - 1),
        }
    }
}

/// Where the accumulators live.
#[derive(Clone, Copy, PartialEq)]
enum Acc {
    F32,
    F16,
    S32,
    F64,
}

struct Shape {
    op: &'static str,
    m: u32,
    n: u32,
    k: u32,
    e: E,
    acc: Acc,
    a: Map,
    b: Map,
    c: Map,
}

fn g(lane: u32) -> u32 {
    lane >> 2
}
fn t(lane: u32) -> u32 {
    lane % 4
}

// The accumulator of every m16n8 shape: c0 c1 in row g, c2 c3 in row g + 8.
fn c16(lane: u32, i: u32) -> (u32, u32) {
    (if i < 2 { g(lane) } else { g(lane) + 8 }, t(lane) * 2 + (i & 1))
}
// The accumulator of every m8n8 shape.
fn c8(lane: u32, i: u32) -> (u32, u32) {
    (g(lane), t(lane) * 2 + (i & 1))
}

const S8: E = E::Int { bits: 8, signed: true };
const U8: E = E::Int { bits: 8, signed: false };
const S4: E = E::Int { bits: 4, signed: true };

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let half16 = |op, e, acc| Shape {
        op,
        m: 16,
        n: 8,
        k: 16,
        e,
        acc,
        a: |lane, i| {
            let row = if i < 2 || (4..6).contains(&i) { g(lane) } else { g(lane) + 8 };
            (row, t(lane) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
        },
        b: |lane, i| (t(lane) * 2 + (i & 1) + if i < 2 { 0 } else { 8 }, g(lane)),
        c: c16,
    };
    shapes.push(half16("m16n8k16.row.col.f32.f16.f16.f32", E::Half(F16), Acc::F32));
    shapes.push(half16("m16n8k16.row.col.f16.f16.f16.f16", E::Half(F16), Acc::F16));
    shapes.push(half16("m16n8k16.row.col.f32.bf16.bf16.f32", E::Half(BF16), Acc::F32));
    let half8 = |op, e, acc| Shape {
        op,
        m: 16,
        n: 8,
        k: 8,
        e,
        acc,
        a: |lane, i| (if i < 2 { g(lane) } else { g(lane) + 8 }, t(lane) * 2 + (i & 1)),
        b: |lane, i| (t(lane) * 2 + i, g(lane)),
        c: c16,
    };
    shapes.push(half8("m16n8k8.row.col.f32.f16.f16.f32", E::Half(F16), Acc::F32));
    shapes.push(half8("m16n8k8.row.col.f16.f16.f16.f16", E::Half(F16), Acc::F16));
    shapes.push(half8("m16n8k8.row.col.f32.bf16.bf16.f32", E::Half(BF16), Acc::F32));
    shapes.push(Shape {
        op: "m16n8k4.row.col.f32.tf32.tf32.f32",
        m: 16,
        n: 8,
        k: 4,
        e: E::Tf32,
        acc: Acc::F32,
        a: |lane, i| (if i == 0 { g(lane) } else { g(lane) + 8 }, t(lane)),
        b: |lane, _| (t(lane), g(lane)),
        c: c16,
    });
    shapes.push(Shape {
        op: "m16n8k8.row.col.f32.tf32.tf32.f32",
        m: 16,
        n: 8,
        k: 8,
        e: E::Tf32,
        acc: Acc::F32,
        a: |lane, i| {
            (if i == 0 || i == 2 { g(lane) } else { g(lane) + 8 }, if i < 2 { t(lane) } else { t(lane) + 4 })
        },
        b: |lane, i| (if i == 0 { t(lane) } else { t(lane) + 4 }, g(lane)),
        c: c16,
    });
    for (op, e) in [("m8n8k16.row.col.s32.s8.s8.s32", S8), ("m8n8k16.row.col.s32.u8.u8.s32", U8)] {
        shapes.push(Shape {
            op,
            m: 8,
            n: 8,
            k: 16,
            e,
            acc: Acc::S32,
            a: |lane, i| (g(lane), t(lane) * 4 + i),
            b: |lane, i| (t(lane) * 4 + i, g(lane)),
            c: c8,
        });
    }
    shapes.push(Shape {
        op: "m16n8k16.row.col.s32.s8.s8.s32",
        m: 16,
        n: 8,
        k: 16,
        e: S8,
        acc: Acc::S32,
        a: |lane, i| (if i < 4 { g(lane) } else { g(lane) + 8 }, t(lane) * 4 + (i & 3)),
        b: |lane, i| (t(lane) * 4 + i, g(lane)),
        c: c16,
    });
    let bytes32 = |op, e, acc| Shape {
        op,
        m: 16,
        n: 8,
        k: 32,
        e,
        acc,
        a: |lane, i| {
            let row = if i < 4 || (8..12).contains(&i) { g(lane) } else { g(lane) + 8 };
            (row, t(lane) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
        },
        b: |lane, i| (t(lane) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, g(lane)),
        c: c16,
    };
    shapes.push(bytes32("m16n8k32.row.col.s32.s8.s8.s32", S8, Acc::S32));
    shapes.push(bytes32("m16n8k32.row.col.s32.u8.u8.s32", U8, Acc::S32));
    shapes.push(bytes32("m16n8k32.row.col.satfinite.s32.s8.s8.s32", S8, Acc::S32));
    shapes.push(bytes32("m16n8k32.row.col.f32.e4m3.e4m3.f32", E::Fp8(E4M3), Acc::F32));
    shapes.push(bytes32("m16n8k32.row.col.f32.e5m2.e5m2.f32", E::Fp8(E5M2), Acc::F32));
    shapes.push(bytes32("m16n8k32.row.col.f16.e4m3.e4m3.f16", E::Fp8(E4M3), Acc::F16));
    shapes.push(Shape {
        op: "m8n8k32.row.col.s32.s4.s4.s32",
        m: 8,
        n: 8,
        k: 32,
        e: S4,
        acc: Acc::S32,
        a: |lane, i| (g(lane), t(lane) * 8 + i),
        b: |lane, i| (t(lane) * 8 + i, g(lane)),
        c: c8,
    });
    shapes.push(Shape {
        op: "m16n8k64.row.col.s32.s4.s4.s32",
        m: 16,
        n: 8,
        k: 64,
        e: S4,
        acc: Acc::S32,
        a: |lane, i| {
            let row = if i < 8 || (16..24).contains(&i) { g(lane) } else { g(lane) + 8 };
            (row, t(lane) * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
        },
        b: |lane, i| (t(lane) * 8 + (i & 7) + if i < 8 { 0 } else { 32 }, g(lane)),
        c: c16,
    });
    shapes.push(Shape {
        op: "m8n8k4.row.col.f64.f64.f64.f64",
        m: 8,
        n: 8,
        k: 4,
        e: E::F64,
        acc: Acc::F64,
        a: |lane, _| (g(lane), t(lane)),
        b: |lane, _| (t(lane), g(lane)),
        c: c8,
    });
    shapes.push(Shape {
        op: "m16n8k8.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 8,
        e: E::F64,
        acc: Acc::F64,
        a: |lane, i| (if i % 2 == 0 { g(lane) } else { g(lane) + 8 }, t(lane) + 4 * (i / 2)),
        b: |lane, i| (t(lane) + 4 * i, g(lane)),
        c: c16,
    });
    shapes
}

/// Packs a lane's elements into 32-bit (or 64-bit) registers.
fn pack(codes: &[u64], bits: u32) -> Vec<u64> {
    let per = (32 / bits).max(1) as usize;
    codes
        .chunks(per)
        .map(|chunk| chunk.iter().rev().fold(0, |word, code| word << (bits % 64) | code))
        .collect()
}

/// Runs one `mma` with the given fragments (by lane) and gives D's registers.
fn run_mma(
    op: &str,
    wide: bool,
    acc64: bool,
    a: &[Vec<u64>],
    b: &[Vec<u64>],
    c: &[Vec<u64>],
    d: usize,
) -> Vec<Vec<u64>> {
    let (na, nb, nc) = (a[0].len(), b[0].len(), c[0].len());
    let class = |wide: bool| if wide { "f64" } else { "b32" };
    let names =
        |prefix: &str, n: usize| (0..n).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .{ab} %a<{na}>;\n.reg .{ab} %b<{nb}>;\n.reg .{cd} %c<{nc}>;\n.reg .{cd} %d<{d}>;\n.reg .b32 %t;\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\nmov.u32 %t, %tid.x;\n\
         mad.wide.u32 %rd2, %t, {}, %rd0;\nmad.wide.u32 %rd3, %t, {}, %rd1;\n",
        8 * (na + nb + nc),
        8 * d,
        ab = class(wide),
        cd = class(acc64),
    );
    let mut at = 0;
    for (prefix, n, wide) in [("a", na, wide), ("b", nb, wide), ("c", nc, acc64)] {
        for i in 0..n {
            text += &format!("ld.global.{} %{prefix}{i}, [%rd2+{at}];\n", class(wide));
            at += 8;
        }
    }
    text += &format!(
        "mma.sync.aligned.{op} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n",
        names("d", d),
        names("a", na),
        names("b", nb),
        names("c", nc)
    );
    for i in 0..d {
        text += &format!("st.global.{} [%rd3+{}], %d{i};\n", class(acc64), 8 * i);
    }
    text += "ret;\n}\n";
    let mut m = Machine::new("mma.ptx", &text);
    let mut input = Vec::new();
    for lane in 0..32 {
        input.extend(a[lane].iter().chain(&b[lane]).chain(&c[lane]).copied());
    }
    let (pin, pout) = (m.u64s(&input), m.u64s(&vec![0; 32 * d]));
    let mut first: Option<Vec<u64>> = None;
    for options in [strict(), seeded(4)] {
        let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[pin, pout], &options);
        m.clean("k", &outcome);
        let got = m.read_u64s(pout, 32 * d);
        assert!(first.as_ref().is_none_or(|first| *first == got));
        first = Some(got);
    }
    first.unwrap().chunks(d).map(<[u64]>::to_vec).collect()
}

fn fragment(map: Map, elements: u32, e: E, value: impl Fn(u32, u32) -> i64) -> Vec<Vec<u64>> {
    (0..32)
        .map(|lane| {
            let codes: Vec<u64> = (0..elements)
                .map(|i| {
                    let (row, column) = map(lane, i);
                    e.code(value(row, column))
                })
                .collect();
            pack(&codes, e.bits())
        })
        .collect()
}

fn acc_code(acc: Acc, v: i64) -> u64 {
    match acc {
        Acc::F32 => (v as f32).to_bits().into(),
        Acc::F16 => narrow(v as f64, F16, Round::NearestEven),
        Acc::S32 => v as i32 as u32 as u64,
        Acc::F64 => (v as f64).to_bits(),
    }
}

fn acc_value(acc: Acc, code: u64) -> i64 {
    match acc {
        Acc::F32 => f32::from_bits(code as u32) as i64,
        Acc::F16 => widen(code & 0xffff, F16) as i64,
        Acc::S32 => i64::from(code as u32 as i32),
        Acc::F64 => f64::from_bits(code) as i64,
    }
}

/// D from given A, B and C, checked element by element.
fn check(
    shape: &Shape,
    what: &str,
    a: impl Fn(u32, u32) -> i64,
    b: impl Fn(u32, u32) -> i64,
    c: impl Fn(u32, u32) -> i64,
) {
    let elements = |rows: u32, columns: u32| rows * columns / 32;
    let fa = fragment(shape.a, elements(shape.m, shape.k), shape.e, &a);
    let fb = fragment(shape.b, elements(shape.k, shape.n), shape.e, &b);
    let nc = elements(shape.m, shape.n);
    let acc_bits = match shape.acc {
        Acc::F16 => 16,
        Acc::F64 => 64,
        _ => 32,
    };
    let fc: Vec<Vec<u64>> = (0..32)
        .map(|lane| {
            let codes: Vec<u64> = (0..nc)
                .map(|i| {
                    let (row, column) = (shape.c)(lane, i);
                    acc_code(shape.acc, c(row, column))
                })
                .collect();
            pack(&codes, acc_bits)
        })
        .collect();
    let d = run_mma(shape.op, shape.e == E::F64, shape.acc == Acc::F64, &fa, &fb, &fc, fc[0].len());
    let mut seen = vec![false; (shape.m * shape.n) as usize];
    for lane in 0..32u32 {
        for i in 0..nc {
            let (row, column) = (shape.c)(lane, i);
            seen[(row * shape.n + column) as usize] = true;
            let per = (32 / acc_bits).max(1);
            let word = d[lane as usize][(i / per) as usize] >> (acc_bits % 64 * (i % per));
            let want: i64 = (0..shape.k).map(|k| a(row, k) * b(k, column)).sum::<i64>() + c(row, column);
            let want = acc_value(shape.acc, acc_code(shape.acc, want));
            assert_eq!(acc_value(shape.acc, word), want, "{} {what}: row {row} column {column}", shape.op);
        }
    }
    assert!(seen.iter().all(|seen| *seen), "{}: the map of C has holes", shape.op);
}

#[test]
fn fragments_of_every_shape() {
    for shape in shapes() {
        let (m, n, k) = (shape.m, shape.n, shape.k);
        let range = match shape.e {
            E::Int { bits: 4, .. } => 7,
            E::Fp8(_) => 8,
            E::Half(BF16) | E::Int { .. } => 100,
            _ => 400,
        };
        // The accumulator alone: every element a different value.
        check(&shape, "C", |_, _| 0, |_, _| 0, |r, c| i64::from(r * n + c));
        // A times a unit matrix window shows A, column by column; so does B.
        // Digits of the element's number keep values distinct in narrow types.
        let digits = |mut v: u32, digit: u32| {
            for _ in 0..digit {
                v /= range;
            }
            i64::from(v % range)
        };
        for digit in 0..4 {
            for window in (0..k).step_by(n as usize) {
                let unit = |r: u32, c: u32| i64::from(r == window + c);
                check(&shape, "A", |r, c| digits(r * k + c, digit), unit, |_, _| 0);
            }
            for window in (0..k).step_by(m as usize) {
                let unit = |r: u32, c: u32| i64::from(c == window + r);
                check(&shape, "B", unit, |r, c| digits(r * n + c, digit), |_, _| 0);
            }
        }
        // And a whole product of small values, signs included where there are any.
        let signed = !matches!(shape.e, E::Int { signed: false, .. });
        let value = |seed: u32| {
            move |r: u32, c: u32| {
                let v = i64::from((r * 7 + c * 13 + r * c + seed) % 7);
                if signed { v - 3 } else { v }
            }
        };
        check(&shape, "product", value(1), value(5), |r, c| i64::from(r) - i64::from(c));
    }
}

#[test]
fn extreme_integers_saturate_only_when_told() {
    let shape = &shapes().into_iter().find(|s| s.op == "m16n8k32.row.col.s32.s8.s8.s32").unwrap();
    let minimum = vec![vec![0x8080_8080u64; 4]; 32];
    let b = vec![vec![0x8080_8080u64; 2]; 32];
    let c = vec![vec![0x7fff_ffffu64; 4]; 32];
    let d = run_mma(shape.op, false, false, &minimum, &b, &c, 4);
    assert_eq!(d[5][2] as u32, 0x7fff_ffffu32.wrapping_add(32 * 128 * 128));
    let d = run_mma("m16n8k32.row.col.satfinite.s32.s8.s8.s32", false, false, &minimum, &b, &c, 4);
    assert_eq!(d[5][2], 0x7fff_ffff);
    // Mixed signs: 255 * -128.
    let ones = vec![vec![0xffff_ffffu64; 4]; 32];
    let zero = vec![vec![0u64; 4]; 32];
    let d = run_mma("m16n8k32.row.col.s32.u8.s8.s32", false, false, &ones, &b, &zero, 4);
    assert_eq!(d[9][0] as i32, 32 * 255 * -128);
}

#[test]
fn special_values_of_float_products() {
    let nan = vec![vec![0x7e00_3c00u64, 0x3c00_3c00]; 32];
    let b = vec![vec![0x3c00_3c00u64]; 32];
    let c = vec![vec![0u64; 4]; 32];
    let d = run_mma("m16n8k8.row.col.f32.f16.f16.f32", false, false, &nan, &b, &c, 4);
    assert!(f32::from_bits(d[0][0] as u32).is_nan() && f32::from_bits(d[0][2] as u32) == 8.0);
    let infinite = vec![vec![0x7c00_3c00u64, 0x3c00_3c00]; 32];
    let d = run_mma("m16n8k8.row.col.f32.f16.f16.f32", false, false, &infinite, &b, &c, 4);
    assert_eq!(f32::from_bits(d[0][0] as u32), f32::INFINITY);
    // The low 13 bits of a tf32 register do not count.
    let tf = vec![vec![0x3f80_1fffu64; 2]; 32];
    let one = vec![vec![0x3f80_0000u64]; 32];
    let d = run_mma("m16n8k4.row.col.f32.tf32.tf32.f32", false, false, &tf, &one, &c, 4);
    assert_eq!(f32::from_bits(d[3][1] as u32), 4.0);
}

#[test]
fn volta_shape_computes_four_products() {
    // m8n8k4: quad pairs {0-3, 16-19}, {4-7, 20-23}, ... each have their matrices.
    for (la, lb) in [("row", "col"), ("row", "row"), ("col", "row"), ("col", "col")] {
        for half in [false, true] {
            let a = |q: u32, r: u32, k: u32| i64::from((q * 31 + r * 4 + k) % 23) - 7;
            let b = |q: u32, k: u32, c: u32| i64::from((q * 17 + k * 8 + c) % 19) - 5;
            let cc = |q: u32, r: u32, c: u32| i64::from(q * 64 + r * 8 + c);
            let quad = |lane: u32| lane % 16 / 4;
            let low = |lane: u32| lane < 16;
            let code = |v: i64| narrow(v as f64, F16, Round::NearestEven);
            let fa: Vec<Vec<u64>> = (0..32u32)
                .map(|lane| {
                    let codes: Vec<u64> = (0..4u32)
                        .map(|i| {
                            let (r, k) = if la == "row" {
                                (lane % 4 + if low(lane) { 0 } else { 4 }, i)
                            } else {
                                (i % 4 + if low(lane) { 0 } else { 4 }, lane % 4)
                            };
                            code(a(quad(lane), r, k))
                        })
                        .collect();
                    pack(&codes, 16)
                })
                .collect();
            let fb: Vec<Vec<u64>> = (0..32u32)
                .map(|lane| {
                    let codes: Vec<u64> = (0..4u32)
                        .map(|i| {
                            let (k, c) = if lb == "row" {
                                (lane % 4, i + if low(lane) { 0 } else { 4 })
                            } else {
                                (i, lane % 4 + if low(lane) { 0 } else { 4 })
                            };
                            code(b(quad(lane), k, c))
                        })
                        .collect();
                    pack(&codes, 16)
                })
                .collect();
            let place = |lane: u32, i: u32| {
                if half {
                    (lane % 4 + if low(lane) { 0 } else { 4 }, i)
                } else {
                    let x = (lane & 1) + (i & 2);
                    (if low(lane) { x } else { x + 4 }, (i & 4) + (lane & 2) + (i & 1))
                }
            };
            let fc: Vec<Vec<u64>> = (0..32u32)
                .map(|lane| {
                    let codes: Vec<u64> = (0..8u32)
                        .map(|i| {
                            let (r, c) = place(lane, i);
                            let v = cc(quad(lane), r, c);
                            if half { code(v) } else { (v as f32).to_bits().into() }
                        })
                        .collect();
                    pack(&codes, if half { 16 } else { 32 })
                })
                .collect();
            let ty = if half { "f16" } else { "f32" };
            let op = format!("m8n8k4.{la}.{lb}.{ty}.f16.f16.{ty}");
            let d = run_mma(&op, false, false, &fa, &fb, &fc, fc[0].len());
            for lane in 0..32u32 {
                for i in 0..8u32 {
                    let ((r, c), q) = (place(lane, i), quad(lane));
                    let want = (0..4).map(|k| a(q, r, k) * b(q, k, c)).sum::<i64>() + cc(q, r, c);
                    let got = if half {
                        widen(d[lane as usize][(i / 2) as usize] >> (16 * (i % 2)) & 0xffff, F16) as i64
                    } else {
                        f32::from_bits(d[lane as usize][i as usize] as u32) as i64
                    };
                    assert_eq!(got, want, "{op} lane {lane} element {i}");
                }
            }
        }
    }
}

#[test]
fn ldmatrix_and_stmatrix_and_movmatrix() {
    for trans in [false, true] {
        for count in [1usize, 2, 4] {
            let suffix = if trans { ".trans" } else { "" };
            let list =
                |prefix: &str| (0..count).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>().join(", ");
            // Rows lie 24 bytes apart in a scrambled order... kept 16-byte aligned: 48.
            let text = format!(
                ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 in, .param .u64 out, .param .u64 back)\n{{\n\
                 .reg .b32 %r<8>, %m<4>;\n.reg .b16 %h;\n.reg .b64 %rd<8>;\n.reg .pred %p;\n.shared .align 16 .b8 tile[1536];\n.shared .align 16 .b8 other[512];\n\
                 ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\nld.param.u64 %rd5, [back];\nmov.u32 %r0, %tid.x;\n\
                 mov.u32 %r1, 0;\n\
                 LOOP:\nmad.lo.u32 %r2, %r1, 32, %r0;\nmul.wide.u32 %rd2, %r2, 2;\nadd.u64 %rd3, %rd0, %rd2;\nld.global.u16 %h, [%rd3];\n\
                 shr.u32 %r3, %r2, 3;\nand.b32 %r4, %r2, 7;\nmul.lo.u32 %r3, %r3, 48;\nmad.lo.u32 %r3, %r4, 2, %r3;\n\
                 mov.u32 %r5, tile;\nadd.u32 %r3, %r3, %r5;\nst.shared.u16 [%r3], %h;\n\
                 add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p, %r1, 8;\n@%p bra LOOP;\nbar.sync 0;\n\
                 mad.lo.u32 %r3, %r0, 48, %r5;\n\
                 ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {{{}}}, [%r3];\n",
                list("m")
            );
            let mut text = text;
            for i in 0..count {
                text += &format!(
                    "mad.wide.u32 %rd4, %r0, {}, %rd1;\nst.global.u32 [%rd4+{}], %m{i};\n",
                    4 * count,
                    4 * i
                );
            }
            // Stored back with the same shape, the rows must be the originals.
            text += &format!(
                "mov.u32 %r5, other;\nmad.lo.u32 %r3, %r0, 16, %r5;\n\
                 stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 [%r3], {{{}}};\nbar.sync 0;\n\
                 setp.ge.u32 %p, %r0, {};\n@%p bra DONE;\n\
                 ld.shared.v4.u32 {{%r1, %r2, %r4, %r6}}, [%r3];\nmad.wide.u32 %rd6, %r0, 16, %rd5;\nst.global.v4.u32 [%rd6], {{%r1, %r2, %r4, %r6}};\n\
                 DONE:\nret;\n}}\n",
                list("m"),
                8 * count
            );
            let mut m = Machine::new("ldmatrix.ptx", &text);
            let elements: Vec<u16> = (0..256).map(|i| 1000 + i).collect();
            for options in [strict(), seeded(2), seeded(9)] {
                let (pin, pout, back) = (m.u16s(&elements), m.output(32 * 4 * count as u64), m.output(512));
                let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[pin, pout, back], &options);
                m.clean("k", &outcome);
                let got = m.read_u32s(pout, 32 * count);
                for lane in 0..32 {
                    for matrix in 0..count {
                        for half in 0..2 {
                            let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                            let (row, column) = if trans { (column, row) } else { (row, column) };
                            let want = elements[matrix * 64 + row * 8 + column];
                            assert_eq!((got[lane * count + matrix] >> (16 * half)) as u16, want);
                        }
                    }
                }
                let bytes = m.read_bytes(back, 128 * count);
                let rows: Vec<u16> = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
                assert_eq!(rows, elements[..64 * count]);
            }
        }
    }
    let text = ".version 8.0\n.target sm_75\n.address_size 64\n.entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<3>;\n\
                ld.param.u64 %rd0, [out];\nmov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 1;\nadd.u32 %r2, %r1, 1;\nshl.b32 %r2, %r2, 16;\nor.b32 %r1, %r1, %r2;\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;\nmad.wide.u32 %rd1, %r0, 4, %rd0;\nst.global.u32 [%rd1], %r3;\nret;\n}\n";
    let mut m = Machine::new("movmatrix.ptx", text);
    let out = m.output(128);
    let outcome = m.launch("k", [1, 1, 1], [32, 1, 1], &[out], &strict());
    m.clean("k", &outcome);
    for (lane, word) in m.read_u32s(out, 32).into_iter().enumerate() {
        // Element (r, c) of the source is r * 8 + c.
        let (row, column) = (lane / 4, 2 * (lane % 4));
        assert_eq!(word, ((column * 8 + row) | ((column + 1) * 8 + row) << 16) as u32);
    }
}
