//! Floating-point arithmetic.

use super::{
    Table, Want,
    common::ops::T,
    exact::{BF16, F16, F32, F64, Format, MODES, Mode, Number, Real},
    pairs, triples,
};

/// A format with the way it is written and held.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    pub format: Format,
    pub t: T,
}

pub const SINGLE: Kind = Kind { name: "f32", format: F32, t: T::F };
pub const DOUBLE: Kind = Kind { name: "f64", format: F64, t: T::G };
pub const HALF: Kind = Kind { name: "f16", format: F16, t: T::H };
pub const BRAIN: Kind = Kind { name: "bf16", format: BF16, t: T::H };

/// Codes at the edges: zeros, the ends of subnormals and normals, ones and their
/// neighbours, halves that tie, infinities, a NaN.
pub fn edges(format: Format) -> Vec<u64> {
    let one = format.infinity() / 2 / (1 << format.m) * (1 << format.m);
    let normal = 1 << format.m;
    let positive = [
        0,
        1,
        normal - 1,
        normal,
        normal + 1,
        normal + normal / 2 + 1,
        one - 1,
        one,
        one + 1,
        one + normal / 2,
        one + normal + normal / 4,
        one - 2 * normal,
        one + (format.m as u64) * normal,
        one + (format.m as u64 + 1) * normal + 1,
        one + 3 * normal + 0x15,
        format.largest(),
        format.largest() - 1,
        format.infinity(),
    ];
    let signed = positive.into_iter().flat_map(|code| [code, code | format.sign()]);
    signed.chain([format.nan(), format.infinity() | 1]).collect()
}

/// Fewer of them, for three operands.
pub fn few(format: Format) -> Vec<u64> {
    edges(format).into_iter().enumerate().filter(|(i, _)| i % 3 != 1).map(|(_, code)| code).collect()
}

#[derive(Clone, Copy)]
pub struct Finish {
    pub ftz: bool,
    pub sat: bool,
    pub relu: bool,
}

pub const PLAIN: Finish = Finish { ftz: false, sat: false, relu: false };

impl Finish {
    fn input(self, format: Format, code: u64) -> Number {
        if self.ftz && format.subnormal(code) {
            return Number::Finite(Real::new(code & format.sign() != 0, 0, 0));
        }
        format.decode(code)
    }
    pub fn output(self, format: Format, code: u64) -> u64 {
        let code = if self.ftz && format.subnormal(code) { code & format.sign() } else { code };
        let nan = format.is_nan(code);
        let negative = code & format.sign() != 0;
        let one = format.encode(&Number::Finite(Real::int(1)), Mode::Rn);
        match self {
            Finish { sat: true, .. } if nan || negative => 0,
            Finish { sat: true, .. } => code.min(one),
            Finish { relu: true, .. } if negative && !nan => 0,
            _ => code,
        }
    }
    fn want(self, format: Format, number: &Number, mode: Mode) -> Want {
        let code = self.output(format, format.encode(number, mode));
        if format == F64 && format.is_nan(code) { Want::AnyNan(format) } else { Want::Bits(code) }
    }
}

pub fn sum(a: &Number, b: &Number, mode: Mode) -> Number {
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinite(a), Number::Infinite(b)) if a != b => Number::Nan,
        (Number::Infinite(a), _) | (_, Number::Infinite(a)) => Number::Infinite(*a),
        (Number::Finite(a), Number::Finite(b)) => Number::Finite(a.add(b, mode)),
    }
}

pub fn negative(number: &Number) -> bool {
    match number {
        Number::Nan => false,
        Number::Infinite(negative) => *negative,
        Number::Finite(real) => real.negative,
    }
}

pub fn minus(number: &Number) -> Number {
    match number {
        Number::Nan => Number::Nan,
        Number::Infinite(negative) => Number::Infinite(!negative),
        Number::Finite(real) => Number::Finite(real.negated()),
    }
}

pub fn product(a: &Number, b: &Number) -> Number {
    let sign = negative(a) != negative(b);
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinite(_), Number::Finite(x)) | (Number::Finite(x), Number::Infinite(_)) if x.zero() => {
            Number::Nan
        }
        (Number::Infinite(_), _) | (_, Number::Infinite(_)) => Number::Infinite(sign),
        (Number::Finite(a), Number::Finite(b)) => Number::Finite(a.mul(b)),
    }
}

fn quotient(a: &Number, b: &Number) -> Number {
    let sign = negative(a) != negative(b);
    match (a, b) {
        (Number::Nan, _) | (_, Number::Nan) | (Number::Infinite(_), Number::Infinite(_)) => Number::Nan,
        (Number::Infinite(_), _) => Number::Infinite(sign),
        (_, Number::Infinite(_)) => Number::Finite(Real::new(sign, 0, 0)),
        (Number::Finite(a), Number::Finite(b)) => match (a.zero(), b.zero()) {
            (true, true) => Number::Nan,
            (true, false) => Number::Finite(Real::new(sign, 0, 0)),
            (false, true) => Number::Infinite(sign),
            (false, false) => Number::Finite(a.div(b)),
        },
    }
}

fn root(a: &Number) -> Number {
    match a {
        Number::Infinite(false) => Number::Infinite(false),
        Number::Finite(real) if real.zero() => a.clone(),
        Number::Finite(real) if !real.negative => Number::Finite(real.sqrt()),
        _ => Number::Nan,
    }
}

/// The smaller (or larger) of two: a NaN gives way, zeros compare by sign.
pub fn choose(a: &Number, b: &Number, largest: bool) -> Number {
    let less = match (a, b) {
        (Number::Nan, _) => return b.clone(),
        (_, Number::Nan) => return a.clone(),
        (Number::Infinite(negative), _) => *negative,
        (_, Number::Infinite(negative)) => !negative,
        (Number::Finite(x), Number::Finite(y)) => match x.compare(y) {
            std::cmp::Ordering::Equal => x.negative,
            order => order.is_lt(),
        },
    };
    if less != largest { a.clone() } else { b.clone() }
}

fn magnitude(number: &Number) -> Number {
    if negative(number) { minus(number) } else { number.clone() }
}

/// Roundings with no word among them, which is to nearest.
fn roundings() -> Vec<(String, Mode)> {
    let words = MODES.iter().map(|(word, mode)| (format!(".{word}"), *mode));
    std::iter::once((String::new(), Mode::Rn)).chain(words).collect()
}

fn finishes(ftz: bool, sat: bool) -> Vec<(String, Finish)> {
    let mut list = Vec::new();
    for f in [false, true] {
        for s in [false, true] {
            if (!f || ftz) && (!s || sat) {
                let words = format!("{}{}", if f { ".ftz" } else { "" }, if s { ".sat" } else { "" });
                list.push((words, Finish { ftz: f, sat: s, relu: false }));
            }
        }
    }
    list
}

#[test]
fn sums_and_products() {
    let mut table = Table::default();
    for kind in [SINGLE, DOUBLE] {
        let (f, t, name) = (kind.format, kind.t, kind.name);
        let (two, three) = (pairs(&edges(f)), triples(&few(f)));
        let single = f == F32;
        for (round, mode) in roundings() {
            for (words, finish) in finishes(single, single) {
                let read = move |code| finish.input(f, code);
                let form = |op: &str, operands: &str| format!("{op}{round}{words}.{name} %d, {operands};");
                table.row(&form("add", "%a, %b"), t, [t; 3], &two, |[a, b, _]| {
                    finish.want(f, &sum(&read(a), &read(b), mode), mode)
                });
                table.row(&form("sub", "%a, %b"), t, [t; 3], &two, |[a, b, _]| {
                    finish.want(f, &sum(&read(a), &minus(&read(b)), mode), mode)
                });
                table.row(&form("mul", "%a, %b"), t, [t; 3], &two, |[a, b, _]| {
                    finish.want(f, &product(&read(a), &read(b)), mode)
                });
                if !round.is_empty() {
                    for op in ["fma", "mad"] {
                        table.row(&form(op, "%a, %b, %c"), t, [t; 3], &three, |[a, b, c]| {
                            finish.want(f, &sum(&product(&read(a), &read(b)), &read(c), mode), mode)
                        });
                    }
                }
                if !round.is_empty() && !finish.sat {
                    table.row(&form("div", "%a, %b"), t, [t; 3], &two, |[a, b, _]| {
                        finish.want(f, &quotient(&read(a), &read(b)), mode)
                    });
                    let one = Number::Finite(Real::int(1));
                    table.row(&form("rcp", "%a"), t, [t; 3], &two, |[a, ..]| {
                        finish.want(f, &quotient(&one, &read(a)), mode)
                    });
                    table.row(&form("sqrt", "%a"), t, [t; 3], &two, |[a, ..]| {
                        finish.want(f, &root(&read(a)), mode)
                    });
                }
            }
        }
    }
    table.finish(150);
}

/// Packs each row's halves: the second element of a pair runs through the rows
/// backwards.
fn packed(rows: &[[u64; 3]], bits: u32) -> Vec<[u64; 3]> {
    rows.iter()
        .zip(rows.iter().rev())
        .map(|(low, high)| [0, 1, 2].map(|i| low[i] | high[i] << bits))
        .collect()
}

/// A row of a packed form from the value of one element.
fn row_of_pairs(
    table: &mut Table,
    body: &str,
    t: T,
    bits: u32,
    rows: &[[u64; 3]],
    element: impl Fn([u64; 3]) -> u64,
) {
    let mask = (1u64 << bits) - 1;
    table.bits(body, t, [t; 3], &packed(rows, bits), |row| {
        element(row.map(|v| v & mask)) | element(row.map(|v| v >> bits)) << bits
    });
}

#[test]
fn pairs_of_singles() {
    let mut table = Table::default();
    let (two, three) = (pairs(&edges(F32)), triples(&few(F32)));
    for (round, mode) in roundings() {
        for (words, finish) in finishes(true, false) {
            let read = move |code| finish.input(F32, code);
            let done = move |number: &Number| finish.output(F32, F32.encode(number, mode));
            let form = |op: &str, operands: &str| format!("{op}{round}{words}.f32x2 %d, {operands};");
            let t = T::D;
            row_of_pairs(&mut table, &form("add", "%a, %b"), t, 32, &two, |[a, b, _]| {
                done(&sum(&read(a), &read(b), mode))
            });
            row_of_pairs(&mut table, &form("sub", "%a, %b"), t, 32, &two, |[a, b, _]| {
                done(&sum(&read(a), &minus(&read(b)), mode))
            });
            row_of_pairs(&mut table, &form("mul", "%a, %b"), t, 32, &two, |[a, b, _]| {
                done(&product(&read(a), &read(b)))
            });
            if !round.is_empty() {
                row_of_pairs(&mut table, &form("fma", "%a, %b, %c"), t, 32, &three, |[a, b, c]| {
                    done(&sum(&product(&read(a), &read(b)), &read(c), mode))
                });
            }
        }
    }
    table.finish(38);
}

#[test]
fn halves() {
    let mut table = Table::default();
    for kind in [HALF, BRAIN] {
        let (f, name) = (kind.format, kind.name);
        let (two, three) = (pairs(&edges(f)), triples(&few(f)));
        let half = f == F16;
        let mut forms: Vec<(String, Finish)> = finishes(half, half);
        for ftz in [false, true] {
            if !ftz || half {
                let words = if ftz { ".ftz.relu" } else { ".relu" };
                forms.push((words.to_owned(), Finish { ftz, sat: false, relu: true }));
            }
        }
        for (words, finish) in forms {
            for pair in [false, true] {
                let read = move |code| finish.input(f, code);
                let done = move |number: &Number| finish.output(f, f.encode(number, Mode::Rn));
                let ty = if pair { format!("{name}x2") } else { name.to_owned() };
                let mut row = |body: String, rows: &[[u64; 3]], element: &dyn Fn([u64; 3]) -> u64| {
                    if pair {
                        row_of_pairs(&mut table, &body, T::W, 16, rows, element);
                    } else {
                        table.bits(&body, T::H, [T::H; 3], rows, element);
                    }
                };
                for round in ["", ".rn"] {
                    if !finish.relu {
                        row(format!("add{round}{words}.{ty} %d, %a, %b;"), &two, &|[a, b, _]| {
                            done(&sum(&read(a), &read(b), Mode::Rn))
                        });
                        row(format!("sub{round}{words}.{ty} %d, %a, %b;"), &two, &|[a, b, _]| {
                            done(&sum(&read(a), &minus(&read(b)), Mode::Rn))
                        });
                        row(format!("mul{round}{words}.{ty} %d, %a, %b;"), &two, &|[a, b, _]| {
                            done(&product(&read(a), &read(b)))
                        });
                    }
                }
                row(format!("fma.rn{words}.{ty} %d, %a, %b, %c;"), &three, &|[a, b, c]| {
                    done(&sum(&product(&read(a), &read(b)), &read(c), Mode::Rn))
                });
            }
        }
    }
    table.finish(76);
}

#[test]
fn minima_and_maxima() {
    let mut table = Table::default();
    for kind in [SINGLE, DOUBLE, HALF, BRAIN] {
        let (f, t, name) = (kind.format, kind.t, kind.name);
        let two = pairs(&edges(f));
        for (op, largest) in [("min", false), ("max", true)] {
            for flags in 0..8 {
                let (ftz, nan, xorsign) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
                if (f == F64 && flags != 0) || (f == BF16 && ftz) {
                    continue;
                }
                let finish = Finish { ftz, ..PLAIN };
                let words = format!(
                    "{}{}{}",
                    if ftz { ".ftz" } else { "" },
                    if nan { ".NaN" } else { "" },
                    if xorsign { ".xorsign.abs" } else { "" }
                );
                let result = move |a: &Number, b: &Number| {
                    if nan && (matches!(a, Number::Nan) || matches!(b, Number::Nan)) {
                        return Number::Nan;
                    }
                    if !xorsign {
                        return choose(a, b, largest);
                    }
                    choose(&magnitude(a), &magnitude(b), largest)
                };
                let value = move |[a, b, _]: [u64; 3]| {
                    let (x, y) = (finish.input(f, a), finish.input(f, b));
                    let code = f.encode(&result(&x, &y), Mode::Rn);
                    // The sign is that of the operands' bits, a NaN's too.
                    if xorsign && !f.is_nan(code) { code | (a ^ b) & f.sign() } else { code }
                };
                table.row(&format!("{op}{words}.{name} %d, %a, %b;"), t, [t; 3], &two, |row| {
                    let code = value(row);
                    if f == F64 && f.is_nan(code) { Want::AnyNan(f) } else { Want::Bits(code) }
                });
                if f == F16 || f == BF16 {
                    let body = format!("{op}{words}.{name}x2 %d, %a, %b;");
                    row_of_pairs(&mut table, &body, T::W, 16, &two, value);
                }
            }
        }
    }
    // Of three.
    let three = triples(&few(F32));
    for (op, largest) in [("min", false), ("max", true)] {
        for flags in 0..8 {
            let (ftz, nan, abs) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            let words = format!(
                "{}{}{}",
                if ftz { ".ftz" } else { "" },
                if nan { ".NaN" } else { "" },
                if abs { ".abs" } else { "" }
            );
            let finish = Finish { ftz, ..PLAIN };
            table.row(&format!("{op}{words}.f32 %d, %a, %b, %c;"), T::F, [T::F; 3], &three, |row| {
                let numbers = row.map(|code| finish.input(F32, code));
                let any = numbers.iter().any(|number| matches!(number, Number::Nan));
                let [a, b, c] = numbers.map(|number| if abs { magnitude(&number) } else { number });
                let chosen = choose(&choose(&a, &b, largest), &c, largest);
                finish.want(F32, if nan && any { &Number::Nan } else { &chosen }, Mode::Rn)
            });
        }
    }
    table.finish(60);
}

#[test]
fn singles_with_half_operands() {
    let mut table = Table::default();
    for kind in [HALF, BRAIN] {
        let (f, name) = (kind.format, kind.name);
        let mixed: Vec<[u64; 3]> =
            edges(f).iter().flat_map(|a| edges(F32).into_iter().map(move |c| [*a, c, 0])).collect();
        let three: Vec<[u64; 3]> = pairs(&few(f))
            .into_iter()
            .flat_map(|[a, b, _]| few(F32).into_iter().map(move |c| [a, b, c]))
            .collect();
        for (round, mode) in roundings() {
            for (words, finish) in finishes(false, true) {
                let form =
                    |op: &str, operands: &str| format!("{op}{round}{words}.f32.{name} %d, {operands};");
                let src = [T::H, T::F, T::F];
                table.row(&form("add", "%a, %b"), T::F, src, &mixed, |[a, c, _]| {
                    finish.want(F32, &sum(&f.decode(a), &F32.decode(c), mode), mode)
                });
                table.row(&form("sub", "%a, %b"), T::F, src, &mixed, |[a, c, _]| {
                    finish.want(F32, &sum(&f.decode(a), &minus(&F32.decode(c)), mode), mode)
                });
                if !round.is_empty() {
                    let src = [T::H, T::H, T::F];
                    table.row(&form("fma", "%a, %b, %c"), T::F, src, &three, |[a, b, c]| {
                        let exact = product(&f.decode(a), &f.decode(b));
                        finish.want(F32, &sum(&exact, &F32.decode(c), mode), mode)
                    });
                }
            }
        }
    }
    table.finish(56);
}

#[test]
fn signs_and_classes() {
    let mut table = Table::default();
    for kind in [SINGLE, DOUBLE, HALF, BRAIN] {
        let (f, t, name) = (kind.format, kind.t, kind.name);
        let two = pairs(&edges(f));
        let flushes = f == F32 || f == F16;
        for (words, finish) in finishes(flushes, false) {
            for op in ["abs", "neg"] {
                table.row(&format!("{op}{words}.{name} %d, %a;"), t, [t; 3], &two, |[a, ..]| {
                    if f.is_nan(a) {
                        return Want::AnyNan(f);
                    }
                    let code = if op == "abs" { a & !f.sign() } else { a ^ f.sign() };
                    Want::Bits(finish.output(f, code))
                });
            }
        }
        if f != F32 && f != F64 {
            continue;
        }
        table.bits(&format!("copysign.{name} %d, %a, %b;"), t, [t; 3], &two, |[a, b, _]| {
            a & f.sign() | b & !f.sign()
        });
        for class in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
            let body = format!("testp.{class}.{name} %p, %a;\nselp.u32 %d, 1, 0, %p;");
            table.bits(&body, T::W, [t; 3], &two, |[a, ..]| {
                let number = f.decode(a);
                let finite = matches!(number, Number::Finite(_));
                let below = f.subnormal(a) && a & !f.sign() != 0;
                u64::from(match class {
                    "finite" => finite,
                    "infinite" => matches!(number, Number::Infinite(_)),
                    "number" => !f.is_nan(a),
                    "notanumber" => f.is_nan(a),
                    "normal" => finite && !below,
                    _ => below,
                })
            });
        }
    }
    table.finish(26);
}
