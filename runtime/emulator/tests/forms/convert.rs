//! `cvt`: every pair of types, rounding, saturation and flushing.

use super::{
    Table, Want,
    common::ops::T,
    exact::{BF16, E2M1, E2M3, E3M2, E4M3, E5M2, F16, F32, F64, Format, MODES, Mode, Number, Real, TF32},
    float::{BRAIN, DOUBLE, Finish, HALF, Kind, PLAIN, SINGLE, edges},
    int::{self, Int, types},
};

fn one(values: Vec<u64>) -> Vec<[u64; 3]> {
    values.into_iter().map(|a| [a, 0, 0]).collect()
}

/// How an 8-bit integer is held and moved into a test register.
fn held(int: Int) -> T {
    int.t()
}

#[test]
fn between_integers() {
    let mut table = Table::default();
    for to in types(&[8, 16, 32, 64]) {
        for from in types(&[8, 16, 32, 64]) {
            let rows = one(int::edges(64));
            for sat in [false, true] {
                let word = if sat { ".sat" } else { "" };
                let body = format!("cvt{word}.{}.{} %d, %a;", to.name(), from.name());
                table.bits(&body, held(to), [held(from); 3], &rows, |[a, ..]| {
                    let value = from.value(a);
                    // Cut to the type, then extended to the register.
                    if sat { to.clamp(value) as u64 } else { to.value(value as u64) as u64 }
                });
            }
        }
    }
    table.finish(128);
}

fn kinds() -> [Kind; 4] {
    [SINGLE, DOUBLE, HALF, BRAIN]
}

#[test]
fn from_integers_to_floats() {
    let mut table = Table::default();
    for kind in kinds() {
        for from in types(&[8, 16, 32, 64]) {
            for (word, mode) in MODES {
                for (z, ftz) in [("", false), (".ftz", true)] {
                    if ftz && kind.format != F32 {
                        continue;
                    }
                    for (s, sat) in [("", false), (".sat", true)] {
                        if sat && kind.format == BF16 {
                            continue;
                        }
                        let finish = Finish { ftz, sat, relu: false };
                        let body = format!("cvt.{word}{z}{s}.{}.{} %d, %a;", kind.name, from.name());
                        let rows = one(int::edges(64));
                        table.bits(&body, kind.t, [held(from); 3], &rows, |[a, ..]| {
                            let number = Number::Finite(Real::int(from.value(a)));
                            finish.output(kind.format, kind.format.encode(&number, mode))
                        });
                    }
                }
            }
        }
    }
    table.finish(200);
}

const INTEGRAL: [(&str, Mode); 4] =
    [("rni", Mode::Rn), ("rzi", Mode::Rz), ("rmi", Mode::Rm), ("rpi", Mode::Rp)];

/// Edges of a format and of the integers in it.
fn with_integers(format: Format) -> Vec<u64> {
    let mut codes = edges(format);
    for bits in [7, 8, 15, 16, 31, 32, 63, 64] {
        for shift in [-1i128, 0, 1] {
            for sign in [1, -1] {
                let number = Number::Finite(Real::int(sign * ((1 << bits) + shift)));
                codes.push(format.encode(&number, Mode::Rn));
            }
        }
    }
    for halves in [1i128, 3, 5, 7, 251, 509] {
        for negative in [false, true] {
            codes.push(format.encode(&Number::Finite(Real::new(negative, halves as u128, -1)), Mode::Rn));
        }
    }
    codes
}

#[test]
fn from_floats_to_integers() {
    let mut table = Table::default();
    for kind in kinds() {
        let f = kind.format;
        for to in types(&[8, 16, 32, 64]) {
            for (word, mode) in INTEGRAL {
                for (words, ftz) in [("", false), (".ftz", true), (".sat", false), (".ftz.sat", true)] {
                    if ftz && f != F32 {
                        continue;
                    }
                    let body = format!("cvt.{word}{words}.{}.{} %d, %a;", to.name(), kind.name);
                    table.bits(&body, held(to), [kind.t; 3], &one(with_integers(f)), |[a, ..]| {
                        let (low, high) = to.range();
                        let value = match f.decode(if ftz && f.subnormal(a) { a & f.sign() } else { a }) {
                            // The ISA: zero from formats below f64 to types below
                            // 64 bits, else the top bit alone.
                            Number::Nan if f != F64 && to.bits < 64 => 0,
                            Number::Nan => to.value(1 << (to.bits - 1)),
                            Number::Infinite(true) => low,
                            Number::Infinite(false) => high,
                            Number::Finite(real) => to.clamp(real.to_int(mode)),
                        };
                        value as u64
                    });
                }
            }
        }
    }
    table.finish(300);
}

fn want(format: Format, code: u64) -> Want {
    if format == F64 && format.is_nan(code) { Want::AnyNan(F64) } else { Want::Bits(code) }
}

#[test]
fn between_floats() {
    let mut table = Table::default();
    for to in kinds() {
        for from in kinds() {
            let (f, g) = (from.format, to.format);
            let widens = g.e >= f.e && g.m >= f.m;
            let rows = one(with_integers(f));
            let single = f == F32 || g == F32;
            if f == g {
                continue;
            }
            let rounds: Vec<(String, Mode)> = if widens {
                vec![(String::new(), Mode::Rn)]
            } else {
                MODES.iter().map(|(word, mode)| (format!(".{word}"), *mode)).collect()
            };
            for (round, mode) in rounds {
                for (z, ftz) in [("", false), (".ftz", true)] {
                    for (s, sat) in [("", false), (".sat", true)] {
                        if (ftz && !single) || (sat && (g == BF16 || f == BF16)) {
                            continue;
                        }
                        // Flushing is of single precision alone.
                        let read = move |a: u64| {
                            f.decode(if ftz && f == F32 && f.subnormal(a) { a & f.sign() } else { a })
                        };
                        let finish = Finish { ftz: ftz && g == F32, sat, relu: false };
                        let body = format!("cvt{round}{z}{s}.{}.{} %d, %a;", to.name, from.name);
                        table.row(&body, to.t, [from.t; 3], &rows, |[a, ..]| {
                            want(g, finish.output(g, g.encode(&read(a), mode)))
                        });
                    }
                }
                if f == F32 && (g == F16 || g == BF16) && matches!(mode, Mode::Rn | Mode::Rz) {
                    let finish = Finish { relu: true, ..PLAIN };
                    let body = format!("cvt{round}.relu.{}.f32 %d, %a;", to.name);
                    table.row(&body, to.t, [from.t; 3], &rows, |[a, ..]| {
                        want(g, finish.output(g, g.encode(&f.decode(a), mode)))
                    });
                }
            }
        }
        // To an integral value of the same type.
        let f = to.format;
        if f == BF16 {
            continue;
        }
        for (word, mode) in INTEGRAL {
            for (z, ftz) in [("", false), (".ftz", true)] {
                if ftz && f != F32 {
                    continue;
                }
                let body = format!("cvt.{word}{z}.{0}.{0} %d, %a;", to.name);
                let finish = Finish { ftz, ..PLAIN };
                table.row(&body, to.t, [to.t; 3], &one(with_integers(f)), |[a, ..]| {
                    let code = if ftz && f.subnormal(a) { a & f.sign() } else { a };
                    want(
                        f,
                        finish.output(
                            f,
                            match f.decode(code) {
                                Number::Finite(real) if real.exponent < 0 => {
                                    let whole = real.to_int(mode);
                                    let number = Real::new(real.negative, whole.unsigned_abs(), 0);
                                    f.encode(&Number::Finite(number), Mode::Rn)
                                }
                                number => f.encode(&number, Mode::Rn),
                            },
                        ),
                    )
                });
            }
        }
    }
    table.finish(75);
}

#[test]
fn tensor_floats() {
    let mut table = Table::default();
    let rows = one(with_integers(F32));
    for (word, mode) in [("rna", Mode::Rna), ("rn", Mode::Rn), ("rz", Mode::Rz)] {
        for (words, finite, relu) in [
            ("", false, false),
            (".satfinite", true, false),
            (".relu", false, true),
            (".satfinite.relu", true, true),
        ] {
            if word == "rna" && relu {
                continue;
            }
            table.bits(&format!("cvt.{word}{words}.tf32.f32 %d, %a;"), T::W, [T::F; 3], &rows, |[a, ..]| {
                let mut code = TF32.encode(&F32.decode(a), mode);
                if finite && code & !TF32.sign() == TF32.infinity() {
                    code = code & TF32.sign() | TF32.largest();
                }
                Finish { relu, ..PLAIN }.output(TF32, code) << 13
            });
        }
    }
    table.finish(10);
}

/// A packed format: the type's word, the format, bits from one element to the next.
const SMALL: [(&str, Format, u32); 5] =
    [("e4m3x2", E4M3, 8), ("e5m2x2", E5M2, 8), ("e2m3x2", E2M3, 8), ("e3m2x2", E3M2, 8), ("e2m1x2", E2M1, 4)];

/// `cvt` of `a` and `b` (or of a pair in `a`) to a pair, read out into `%d`.
fn into_small(word: &str, opcode: &str, operands: &str) -> String {
    if word == "e2m1x2" {
        format!("{{\n.reg .b8 %x;\n{opcode} %x, {operands};\ncvt.u32.u8 %d, %x;\n}}")
    } else {
        format!("{{\n.reg .b16 %x;\n{opcode} %x, {operands};\ncvt.u32.u16 %d, %x;\n}}")
    }
}

#[test]
fn eight_six_and_four_bit_floats() {
    let mut table = Table::default();
    for (word, format, step) in SMALL {
        let singles = with_integers(F32);
        let rows: Vec<[u64; 3]> =
            singles.iter().zip(singles.iter().rev()).map(|(a, b)| [*a, *b, 0]).collect();
        for relu in [false, true] {
            let r = if relu { ".relu" } else { "" };
            let finish = Finish { relu, ..PLAIN };
            let element = move |number: &Number| {
                let code = format.encode(number, Mode::Rn);
                // Saturated to the largest; only a NaN stays one.
                let nan = matches!(number, Number::Nan);
                let code = if !nan && code & !format.sign() > format.largest() {
                    code & format.sign() | format.largest()
                } else {
                    code
                };
                finish.output(format, code)
            };
            let opcode = format!("cvt.rn.satfinite{r}.{word}.f32");
            table.bits(&into_small(word, &opcode, "%a, %b"), T::W, [T::F; 3], &rows, |[a, b, _]| {
                element(&F32.decode(a)) << step | element(&F32.decode(b))
            });
            for (name, half) in [("f16x2", F16), ("bf16x2", BF16)] {
                let halves = with_integers(half);
                let rows: Vec<[u64; 3]> =
                    halves.iter().zip(halves.iter().rev()).map(|(a, b)| [a << 16 | b, 0, 0]).collect();
                let opcode = format!("cvt.rn.satfinite{r}.{word}.{name}");
                table.bits(&into_small(word, &opcode, "%a"), T::W, [T::W; 3], &rows, |[a, ..]| {
                    element(&half.decode(a >> 16)) << step | element(&half.decode(a & 0xffff))
                });
            }
            // All codes back.
            let codes = one((0..1 << format.bits()).map(|code: u64| code | (code ^ 3) << step).collect());
            let body = if step == 4 {
                format!("{{\n.reg .b8 %x;\ncvt.u8.u32 %x, %a;\ncvt.rn{r}.f16x2.{word} %d, %x;\n}}")
            } else {
                format!("{{\n.reg .b16 %x;\ncvt.u16.u32 %x, %a;\ncvt.rn{r}.f16x2.{word} %d, %x;\n}}")
            };
            table.bits(&body, T::W, [T::W; 3], &codes, |[a, ..]| {
                let back = |code: u64| {
                    finish
                        .output(F16, F16.encode(&format.decode(code & ((1 << format.bits()) - 1)), Mode::Rn))
                };
                back(a >> step) << 16 | back(a)
            });
        }
    }
    table.finish(40);
}

#[test]
fn pairs_of_halves() {
    let mut table = Table::default();
    let singles = with_integers(F32);
    let rows: Vec<[u64; 3]> = singles.iter().zip(singles.iter().rev()).map(|(a, b)| [*a, *b, 0]).collect();
    for (name, format) in [("f16x2", F16), ("bf16x2", BF16)] {
        for (word, mode) in [("rn", Mode::Rn), ("rz", Mode::Rz)] {
            for (words, finite, relu) in [
                ("", false, false),
                (".satfinite", true, false),
                (".relu", false, true),
                (".relu.satfinite", true, true),
            ] {
                let element = move |code: u64| {
                    let mut half = format.encode(&F32.decode(code), mode);
                    if finite && half & !format.sign() == format.infinity() {
                        half = half & format.sign() | format.largest();
                    }
                    Finish { relu, ..PLAIN }.output(format, half)
                };
                let body = format!("cvt.{word}{words}.{name}.f32 %d, %a, %b;");
                table.bits(&body, T::W, [T::F; 3], &rows, |[a, b, _]| element(a) << 16 | element(b));
            }
        }
    }
    table.finish(16);
}

#[test]
fn scales() {
    let mut table = Table::default();
    // The power of two at or below (above) the magnitude, as an exponent.
    let scale = |number: Number, up: bool, finite: bool| match number {
        Number::Nan => 0xff,
        Number::Infinite(_) => 0xff - u64::from(finite),
        Number::Finite(real) if real.zero() => 0,
        Number::Finite(real) => {
            let top = real.magnitude.bits() + real.exponent - 1;
            let power = Real::new(false, 1, top);
            let size = Real { negative: false, ..real };
            let above = up && size.compare(&power).is_gt();
            match top + i64::from(above) + 127 {
                code if code > 0xfe => 0xff - u64::from(finite),
                code => code.max(0) as u64,
            }
        }
    };
    let singles = with_integers(F32);
    let rows: Vec<[u64; 3]> = singles.iter().zip(singles.iter().rev()).map(|(a, b)| [*a, *b, 0]).collect();
    for (word, up) in [("rz", false), ("rp", true)] {
        for (f, finite) in [("", false), (".satfinite", true)] {
            let opcode = format!("cvt.{word}{f}.ue8m0x2.f32");
            table.bits(&into_small("", &opcode, "%a, %b"), T::W, [T::F; 3], &rows, |[a, b, _]| {
                scale(F32.decode(a), up, finite) << 8 | scale(F32.decode(b), up, finite)
            });
            let opcode = format!("cvt.{word}{f}.ue8m0x2.bf16x2");
            let halves = one(edges(BF16).iter().map(|a| a << 16 | (a ^ 0x155)).collect());
            table.bits(&into_small("", &opcode, "%a"), T::W, [T::W; 3], &halves, |[a, ..]| {
                scale(BF16.decode(a >> 16), up, finite) << 8 | scale(BF16.decode(a & 0xffff), up, finite)
            });
        }
    }
    let codes = one((0..256).map(|code: u64| code << 8 | (255 - code)).collect());
    let body = "{\n.reg .b16 %x;\ncvt.u16.u32 %x, %a;\ncvt.rn.bf16x2.ue8m0x2 %d, %x;\n}";
    table.bits(body, T::W, [T::W; 3], &codes, |[a, ..]| {
        let back = |code: u64| match code & 255 {
            255 => BF16.nan(),
            code => BF16.encode(&Number::Finite(Real::new(false, 1, code as i64 - 127)), Mode::Rn),
        };
        back(a >> 8) << 16 | back(a)
    });
    table.finish(9);
}

#[test]
fn packed_integers() {
    let mut table = Table::default();
    let values =
        [0u64, 1, 2, 7, 8, 15, 16, 127, 128, 255, 40000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, 0xffff_ffff];
    let rows: Vec<[u64; 3]> = super::triples(&values);
    let s32 = Int { bits: 32, signed: true };
    for bits in [2u32, 4, 8, 16] {
        for signed in [false, true] {
            let part = Int { bits, signed };
            let mask = (1u64 << bits) - 1;
            let cut = move |code: u64| part.clamp(s32.value(code)) as u64 & mask;
            let (ty, c) = if bits == 16 { ("", "") } else { (".b32", ", %c") };
            let body = format!("cvt.pack.sat.{}.s32{ty} %d, %a, %b{c};", part.name());
            table.bits(&body, T::W, [T::W; 3], &rows, |[a, b, c]| {
                let above = if bits == 16 { 0 } else { c << (2 * bits) };
                above | cut(a) << bits | cut(b)
            });
        }
    }
    table.finish(8);
}
