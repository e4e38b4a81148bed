//! Matrix multiply-accumulate: fragment maps and the arithmetic of `mma.sync`
//! and `wmma`.
//!
//! The `mma.sync` layouts are those of the PTX ISA's "Matrix Fragments for mma"
//! sections. With g = lane / 4, t = lane % 4 and e elements in a 32-bit register
//! they are all one rule, except for the Volta shape m8n8k4.f16:
//!
//! - A, register r, element i: row g + 8 (r % 2), column t e + i + 4 e (r / 2)
//!   (8 rows: row g, column t e + i + 4 e r);
//! - B, register r, element i: row t e + i + 4 e r, column g;
//! - C and D, element i: row g + 8 (i / 2), column 2 t + i % 2.
//!
//! Products are exact and are summed with the accumulator in `f64`, then rounded
//! once: at least the precision that the ISA asks for.

use crate::number::{
    BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, Round, TF32, bf16_to_f32, f16_to_f32, narrow, widen,
};

/// The element types of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    E2m3,
    E3m2,
    /// In the middle of a byte.
    E2m1,
    /// Two in a byte.
    E2m1Packed,
    S8,
    U8,
    S4,
    U4,
    S32,
}

impl Element {
    /// The type of a modifier word.
    pub fn parse(word: &str) -> Option<Element> {
        Some(match word {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "tf32" => Element::Tf32,
            "f32" => Element::F32,
            "f64" => Element::F64,
            "e4m3" => Element::E4m3,
            "e5m2" => Element::E5m2,
            "e2m3" => Element::E2m3,
            "e3m2" => Element::E3m2,
            "e2m1" => Element::E2m1,
            "s8" => Element::S8,
            "u8" => Element::U8,
            "s4" => Element::S4,
            "u4" => Element::U4,
            "s32" => Element::S32,
            _ => return None,
        })
    }

    /// Bits of an element.
    pub fn bits(self) -> u32 {
        match self {
            Element::S4 | Element::U4 | Element::E2m1Packed => 4,
            Element::S8
            | Element::U8
            | Element::E4m3
            | Element::E5m2
            | Element::E2m3
            | Element::E3m2
            | Element::E2m1 => 8,
            Element::F16 | Element::Bf16 => 16,
            Element::F64 => 64,
            _ => 32,
        }
    }

    /// Elements in one register of a fragment.
    pub fn per_register(self) -> u32 {
        (32 / self.bits()).max(1)
    }

    fn integer(self) -> bool {
        matches!(self, Element::S8 | Element::U8 | Element::S4 | Element::U4 | Element::S32)
    }

    /// The value of a code.
    pub(super) fn value(self, code: u64) -> f64 {
        match self {
            Element::F16 => f16_to_f32(code as u16).into(),
            Element::Bf16 => bf16_to_f32(code as u16).into(),
            // The low 13 bits of a TF32 register do not count.
            Element::Tf32 => widen(code >> 13 & 0x7_ffff, TF32),
            Element::F32 => f32::from_bits(code as u32).into(),
            Element::F64 => f64::from_bits(code),
            Element::E4m3 => widen(code & 0xff, E4M3),
            Element::E5m2 => widen(code & 0xff, E5M2),
            Element::E2m3 => widen(code & 0x3f, E2M3),
            Element::E3m2 => widen(code & 0x3f, E3M2),
            Element::E2m1 => widen(code >> 2 & 0xf, E2M1),
            Element::E2m1Packed => widen(code & 0xf, E2M1),
            Element::S8 => (code as i8).into(),
            Element::U8 => (code as u8).into(),
            Element::S4 => (((code << 4) as i8) >> 4).into(),
            Element::U4 => ((code & 0xf) as u8).into(),
            Element::S32 => (code as i32).into(),
        }
    }
}

/// Which matrix a fragment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Part {
    A,
    B,
    C,
}

/// A shape with its element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaShape {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// The type of A.
    pub a: Element,
    /// The type of B.
    pub b: Element,
    /// The type of C.
    pub c: Element,
    /// The type of D.
    pub d: Element,
    /// Whether A is column-major (m8n8k4 and wmma only).
    pub a_column: bool,
    /// Whether B is column-major, as it is except for m8n8k4 and wmma.
    pub b_column: bool,
    /// Clamp integer results.
    pub saturate: bool,
    /// A `wmma` shape, whose fragment layout is ours to choose.
    pub wmma: bool,
}

impl MmaShape {
    /// Whether it is one of the shapes of `mma.sync`, with its types.
    pub fn known(&self) -> bool {
        use Element::{
            Bf16, E2m1, E2m1Packed, E2m3, E3m2, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8,
        };
        let half_sums = matches!((self.c, self.d), (F16 | F32, F16 | F32));
        let shape = (self.m, self.n, self.k);
        let fp8 = |e| matches!(e, E4m3 | E5m2);
        let narrow = |e| fp8(e) || matches!(e, E2m3 | E3m2 | E2m1);
        match (self.a, self.b) {
            (F16, F16) if shape == (8, 8, 4) => half_sums && (self.c == F16 || self.d == F32),
            (F16, F16) => half_sums && self.c == self.d && matches!(shape, (16, 8, 8 | 16)),
            (Bf16, Bf16) => (self.c, self.d) == (F32, F32) && matches!(shape, (16, 8, 8 | 16)),
            (Tf32, Tf32) => (self.c, self.d) == (F32, F32) && matches!(shape, (16, 8, 4 | 8)),
            (F64, F64) => (self.c, self.d) == (F64, F64) && matches!(shape, (8, 8, 4) | (16, 8, 4 | 8 | 16)),
            (a, b) if fp8(a) && fp8(b) => half_sums && self.c == self.d && matches!(shape, (16, 8, 16 | 32)),
            (a, b) if narrow(a) && narrow(b) => half_sums && self.c == self.d && shape == (16, 8, 32),
            (E2m1Packed, E2m1Packed) => (self.c, self.d) == (F32, F32) && shape == (16, 8, 64),
            (S8 | U8, S8 | U8) => {
                (self.c, self.d) == (S32, S32) && matches!(shape, (8, 8, 16) | (16, 8, 16 | 32))
            }
            (S4 | U4, S4 | U4) => {
                (self.c, self.d) == (S32, S32) && matches!(shape, (8, 8, 32) | (16, 8, 32 | 64))
            }
            _ => false,
        }
    }

    fn volta(&self) -> bool {
        !self.wmma && self.a == Element::F16 && self.k == 4
    }

    /// The type of a matrix.
    pub fn element(&self, part: Part, result: bool) -> Element {
        match part {
            Part::A => self.a,
            Part::B => self.b,
            Part::C if result => self.d,
            Part::C => self.c,
        }
    }

    /// Elements of a lane's fragment.
    pub fn elements(&self, part: Part) -> u32 {
        if self.volta() {
            return if part == Part::C { 8 } else { 4 };
        }
        if self.wmma {
            // The f16 operands of m16n16k16-like shapes are held twice, as the
            // register counts of the ISA ask.
            return match part {
                Part::A | Part::B if self.a == Element::F16 || self.a == Element::Bf16 => {
                    if self.a == Element::Bf16 { self.rows(part) * self.columns(part) / 32 } else { 16 }
                }
                _ => self.rows(part) * self.columns(part) / 32,
            };
        }
        self.rows(part) * self.columns(part) / 32
    }

    /// Registers of a lane's fragment.
    pub fn registers(&self, part: Part, result: bool) -> u32 {
        self.elements(part).div_ceil(self.element(part, result).per_register())
    }

    /// Rows of a matrix.
    pub fn rows(&self, part: Part) -> u32 {
        if part == Part::B { self.k } else { self.m }
    }

    /// Columns of a matrix.
    pub fn columns(&self, part: Part) -> u32 {
        if part == Part::A { self.k } else { self.n }
    }

    /// The row and column of element `i` of a lane's fragment. For m8n8k4 the
    /// matrices are those of the lane's quad pair.
    pub fn place(&self, part: Part, lane: u32, i: u32) -> (u32, u32) {
        let upper = lane / 16 * 4;
        if self.volta() {
            let quad = lane % 4;
            return match (part, if part == Part::A { self.a_column } else { self.b_column }) {
                (Part::A, false) => (quad + upper, i),
                (Part::A, true) => (i + upper, quad),
                (Part::B, false) => (quad, i + upper),
                (Part::B, true) => (i, quad + upper),
                (Part::C, _) => (quad + upper, i),
            };
        }
        if self.wmma {
            let (rows, columns) = (self.rows(part), self.columns(part));
            let flat = (lane + 32 * i) % (rows * columns);
            return (flat / columns, flat % columns);
        }
        let (g, t) = (lane / 4, lane % 4);
        match part {
            Part::C => (g + 8 * (i / 2), 2 * t + i % 2),
            Part::A | Part::B => {
                let e = self.element(part, false).per_register();
                let (r, i) = (i / e, i % e);
                if part == Part::B {
                    (t * e + i + 4 * e * r, g)
                } else if self.m == 8 {
                    (g, t * e + i + 4 * e * r)
                } else {
                    (g + 8 * (r % 2), t * e + i + 4 * e * (r / 2))
                }
            }
        }
    }

    /// The place of an accumulator element; `f32` accumulators of m8n8k4 differ.
    pub fn accumulator(&self, element: Element, lane: u32, i: u32) -> (u32, u32) {
        if self.volta() && element == Element::F32 {
            let upper = lane / 16 * 4;
            return ((lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1));
        }
        self.place(Part::C, lane, i)
    }

    /// How many multiplications the warp does at once: four for m8n8k4.
    fn matrices(&self) -> u32 {
        if self.volta() { 4 } else { 1 }
    }

    fn matrix_of(&self, lane: u32) -> u32 {
        if self.volta() { lane % 16 / 4 } else { 0 }
    }

    /// Where each fragment element lies in the matrices that
    /// [`MmaShape::multiply`] works on.
    pub fn tables(&self) -> Tables {
        let (m, n, k) = (self.m, self.n, self.k);
        let fill = |part: Part, result: bool| {
            let element = self.element(part, result);
            let count = self.registers(part, result) * element.per_register();
            let mut table = Vec::with_capacity(32 * count as usize);
            for lane in 0..32 {
                let matrix = self.matrix_of(lane);
                for i in 0..count {
                    table.push(match part {
                        // B is kept transposed: both operands are walked along k.
                        Part::A => {
                            let (row, column) = self.place(part, lane, i);
                            matrix * m * k + row * k + column
                        }
                        Part::B => {
                            let (row, column) = self.place(part, lane, i);
                            matrix * k * n + column * k + row
                        }
                        Part::C => {
                            let (row, column) = self.accumulator(element, lane, i);
                            matrix * m * n + row * n + column
                        }
                    } as u16);
                }
            }
            table
        };
        Tables {
            a: fill(Part::A, false),
            b: fill(Part::B, false),
            c: fill(Part::C, false),
            d: fill(Part::C, true),
        }
    }

    /// Computes D = A B + C. `read(part, register, lane)` gives fragment registers,
    /// `write(register, lane, value)` takes those of D.
    pub fn multiply(
        &self,
        tables: &Tables,
        scratch: &mut Scratch,
        scales: Option<&[Vec<f64>; 2]>,
        read: impl Fn(Part, u32, u32) -> u64,
        mut write: impl FnMut(u32, u32, u64),
    ) {
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let count = self.matrices() as usize;
        let Scratch { a, b, c } = scratch;
        a.resize(count * m * k, 0.0);
        b.resize(count * k * n, 0.0);
        c.resize(count * m * n, 0.0);
        for (part, table, matrix) in
            [(Part::A, &tables.a, &mut *a), (Part::B, &tables.b, &mut *b), (Part::C, &tables.c, &mut *c)]
        {
            let element = self.element(part, false);
            let registers = self.registers(part, false);
            macro_rules! unpack {
                ($bits:expr, $value:expr) => {{
                    let per = (32 / $bits).max(1) as usize;
                    let value = $value;
                    for lane in 0..32 {
                        let places = &table[lane as usize * registers as usize * per..];
                        for register in 0..registers {
                            let word: u64 = read(part, register, lane);
                            for i in 0..per {
                                let code =
                                    if $bits >= 32 { word } else { word >> ($bits * i) & ((1 << $bits) - 1) };
                                matrix[places[register as usize * per + i] as usize] = value(code);
                            }
                        }
                    }
                }};
            }
            // The type is settled outside of the loops.
            match element {
                Element::F16 => unpack!(16usize, |code: u64| f64::from(f16_to_f32(code as u16))),
                Element::Bf16 => unpack!(16usize, |code: u64| f64::from(bf16_to_f32(code as u16))),
                Element::F32 => unpack!(32usize, |code: u64| f64::from(f32::from_bits(code as u32))),
                Element::S8 => unpack!(8usize, |code: u64| f64::from(code as i8)),
                Element::U8 => unpack!(8usize, |code: u64| f64::from(code as u8)),
                Element::S32 => unpack!(32usize, |code: u64| f64::from(code as u32 as i32)),
                other => unpack!(other.bits() as usize, |code: u64| other.value(code)),
            }
        }
        // A scale stands for a stretch of k of a row of A or a column of B.
        if let Some(scales) = scales {
            for (matrix, scales) in [&mut *a, &mut *b].into_iter().zip(scales) {
                let lines = matrix.len() / k;
                let stretch = k * lines / scales.len().max(1);
                for (part, scale) in matrix.chunks_mut(stretch.max(1)).zip(scales) {
                    part.iter_mut().for_each(|value| *value *= scale);
                }
            }
        }
        for matrix in 0..count {
            for row in 0..m {
                let left = &a[matrix * m * k + row * k..][..k];
                for column in 0..n {
                    let right = &b[matrix * k * n + column * k..][..k];
                    // Four partial sums vectorise; all are exact or nearly so.
                    let mut sums = [0.0f64; 4];
                    for (x, y) in left.chunks_exact(4).zip(right.chunks_exact(4)) {
                        for i in 0..4 {
                            sums[i] += x[i] * y[i];
                        }
                    }
                    c[matrix * m * n + row * n + column] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
                }
            }
        }
        let element = self.d;
        let per = element.per_register();
        let registers = self.registers(Part::C, true);
        for lane in 0..32 {
            let places = &tables.d[(lane * registers * per) as usize..];
            for register in 0..registers {
                let mut word = 0;
                for i in 0..per {
                    let value = c[places[(register * per + i) as usize] as usize];
                    word |= self.encode(value) << (element.bits() % 64 * i);
                }
                write(register, lane, word);
            }
        }
    }

    /// No undefined element: an entry for each row of A, column of B and element of C.
    pub fn no_undefined(&self) -> Undefined {
        let (m, n, count) = (self.m as usize, self.n as usize, self.matrices() as usize);
        Undefined {
            rows: vec![false; count * m],
            columns: vec![false; count * n],
            sums: vec![false; count * m * n],
        }
    }

    /// Notes the undefined `bytes` of a fragment register: an element of A reaches
    /// its row of D, one of B its column, one of C itself.
    pub fn spread_undefined(
        &self,
        tables: &Tables,
        known: &mut Undefined,
        part: Part,
        register: usize,
        lane: usize,
        bytes: u8,
    ) {
        let element = self.element(part, false);
        let (per, bits) = (element.per_register() as usize, element.bits() as usize);
        let count = self.registers(part, false) as usize * per;
        let k = self.k as usize;
        for i in 0..per {
            let first = bits * i / 8;
            let mask = ((1u16 << bits.div_ceil(8)) - 1) << first;
            if u16::from(bytes) & mask == 0 {
                continue;
            }
            let (table, target, divisor) = match part {
                Part::A => (&tables.a, &mut known.rows, k),
                Part::B => (&tables.b, &mut known.columns, k),
                Part::C => (&tables.c, &mut known.sums, 1),
            };
            let place = table.get(lane * count + register * per + i).copied().unwrap_or(0);
            if let Some(slot) = target.get_mut(usize::from(place) / divisor) {
                *slot = true;
            }
        }
    }

    /// The undefined bytes of a register of D.
    pub fn undefined_result(&self, tables: &Tables, known: &Undefined, register: usize, lane: usize) -> u8 {
        let (per, bits) = (self.d.per_register() as usize, self.d.bits() as usize);
        let count = self.registers(Part::C, true) as usize * per;
        let (m, n) = (self.m as usize, self.n as usize);
        let mut bytes = 0;
        for i in 0..per {
            let place = usize::from(tables.d.get(lane * count + register * per + i).copied().unwrap_or(0));
            let (matrix, row, column) = (place / (m * n), place / n % m, place % n);
            let at = |flags: &[bool], index: usize| flags.get(index).copied().unwrap_or(false);
            if at(&known.rows, matrix * m + row)
                || at(&known.columns, matrix * n + column)
                || at(&known.sums, place)
            {
                bytes |= ((1u16 << (bits / 8)) - 1) << (bits * i / 8);
            }
        }
        bytes as u8
    }

    pub(super) fn encode(&self, value: f64) -> u64 {
        match self.d {
            Element::F16 => narrow(value, F16, Round::NearestEven),
            Element::Bf16 => narrow(value, BF16, Round::NearestEven),
            Element::F64 => value.to_bits(),
            element if element.integer() => {
                let value = value as i64;
                let clamped = value.clamp(i32::MIN.into(), i32::MAX.into());
                u64::from(if self.saturate { clamped } else { value } as u32)
            }
            _ => {
                let value = value as f32;
                u64::from(if value.is_nan() { 0x7fff_ffff } else { value.to_bits() })
            }
        }
    }
}

/// Which parts of a product depend on undefined elements.
#[derive(Clone, Debug)]
pub struct Undefined {
    rows: Vec<bool>,
    columns: Vec<bool>,
    sums: Vec<bool>,
}

/// The flat index of each fragment element, by lane and element.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    a: Vec<u16>,
    b: Vec<u16>,
    c: Vec<u16>,
    d: Vec<u16>,
}

/// Matrices of one multiplication, kept to be reused.
#[derive(Debug, Default)]
pub struct Scratch {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}
