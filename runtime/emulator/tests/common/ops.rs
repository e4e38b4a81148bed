//! One instruction run on rows of operands.

use super::{Machine, strict};

/// Operand types of a test kernel: PTX type of the load, register class, bytes.
#[derive(Clone, Copy)]
pub enum T {
    H,
    W,
    D,
    F,
    G,
}

impl T {
    pub fn bytes(self) -> usize {
        match self {
            T::H => 2,
            T::W | T::F => 4,
            T::D | T::G => 8,
        }
    }
    pub fn reg(self) -> &'static str {
        match self {
            T::H => "b16",
            T::W => "b32",
            T::D => "b64",
            T::F => "f32",
            T::G => "f64",
        }
    }
}

/// Runs `body`, which computes `%d` from `%a`, `%b` and `%c`, for each row.
pub fn run(body: &str, d: T, sources: [T; 3], rows: &[[u64; 3]]) -> Vec<u64> {
    let mut text = format!(
        ".version 8.6\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{{\n\
         .reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .{} %d;\n.reg .{} %a;\n.reg .{} %b;\n.reg .{} %c;\n\
         .reg .pred %p, %q;\n\
         ld.param.u64 %rd0, [in];\nld.param.u64 %rd1, [out];\nld.param.u32 %r2, [n];\n\
         mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.x;\nmad.lo.u32 %r0, %r0, 128, %r1;\n\
         setp.ge.u32 %p0, %r0, %r2;\n@%p0 bra DONE;\nmad.wide.u32 %rd2, %r0, 24, %rd0;\nmad.wide.u32 %rd3, %r0, 8, %rd1;\n",
        d.reg(),
        sources[0].reg(),
        sources[1].reg(),
        sources[2].reg()
    );
    for (i, name) in ["a", "b", "c"].iter().enumerate() {
        text += &format!("ld.global.{} %{name}, [%rd2+{}];\n", sources[i].reg(), 8 * i);
    }
    text += &format!("{body}\nst.global.{} [%rd3], %d;\nDONE:\nret;\n}}\n", d.reg());
    let mut m = Machine::new("op.ptx", &text);
    let flat: Vec<u64> = rows.iter().flatten().copied().collect();
    let (input, output) = (m.u64s(&flat), m.u64s(&vec![0; rows.len()]));
    let grid = rows.len().div_ceil(128) as u32;
    let outcome = m.launch("k", [grid, 1, 1], [128, 1, 1], &[input, output, rows.len() as u64], &strict());
    m.clean("k", &outcome);
    let mask = if d.bytes() == 8 { u64::MAX } else { (1 << (8 * d.bytes())) - 1 };
    m.read_u64s(output, rows.len()).into_iter().map(|v| v & mask).collect()
}

#[track_caller]
pub fn check(body: &str, d: T, sources: [T; 3], rows: &[[u64; 3]], expected: impl Fn(u64, u64, u64) -> u64) {
    for (row, got) in rows.iter().zip(run(body, d, sources, rows)) {
        let [a, b, c] = *row;
        let want = expected(a, b, c);
        assert_eq!(got, want, "{body}: a {a:#x} b {b:#x} c {c:#x}: got {got:#x}, want {want:#x}");
    }
}

pub fn ints(bits: u32) -> Vec<u64> {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let top = 1u64 << (bits - 1);
    [
        0,
        1,
        2,
        3,
        7,
        10,
        31,
        32,
        33,
        63,
        64,
        0x55,
        0x1234,
        0x8765_4321_0fed_cba9,
        top,
        top - 1,
        top + 1,
        mask,
        mask - 1,
        mask - 9,
        0xaaaa_aaaa_aaaa_aaaa,
        0x00ff_00ff_00ff_00ff,
    ]
    .into_iter()
    .map(|v| v & mask)
    .collect()
}

pub fn pairs(values: &[u64]) -> Vec<[u64; 3]> {
    values.iter().flat_map(|a| values.iter().map(move |b| [*a, *b, 0])).collect()
}

pub fn triples(values: &[u64]) -> Vec<[u64; 3]> {
    values
        .iter()
        .flat_map(|a| values.iter().flat_map(move |b| values.iter().map(move |c| [*a, *b, *c])))
        .collect()
}

pub fn floats() -> Vec<u64> {
    [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        0.1,
        -0.3,
        1.0 + f32::EPSILON,
        16777217.0,
        8388609.0,
        1e-20,
        -3e20,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        f32::MAX,
        -f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
        -1e-45,
        std::f32::consts::PI,
        2147483648.0,
        -2147483648.0,
        4294967295.0,
        65504.0,
        65520.0,
        1e10,
    ]
    .iter()
    .map(|v| u64::from(v.to_bits()))
    .collect()
}

pub fn doubles() -> Vec<u64> {
    [
        0.0f64,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        -2.5,
        0.1,
        1.0 + f64::EPSILON,
        9007199254740993.0,
        1e-300,
        -3e200,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        5e-324,
        -1e-310,
        1e19,
        -1e19,
        2147483647.5,
        3.4028235e38,
        1e39,
    ]
    .iter()
    .map(|v| v.to_bits())
    .collect()
}

pub fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

pub fn fb(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
}

pub fn db(value: f64) -> u64 {
    if value.is_nan() { 0x7fff_ffff_ffff_ffff } else { value.to_bits() }
}

pub fn sext(v: u64, bits: u32) -> i128 {
    i128::from((v << (64 - bits)) as i64 >> (64 - bits))
}

pub fn cut(v: i128, bits: u32) -> u64 {
    if bits == 64 { v as u64 } else { v as u64 & ((1 << bits) - 1) }
}
