//! Integer arithmetic and bit fields.

use super::{Table, common::ops::T, pairs, triples};

/// A type: bits, signedness, how it is held.
#[derive(Clone, Copy)]
pub struct Int {
    pub bits: u32,
    pub signed: bool,
}

impl Int {
    pub fn name(self) -> String {
        format!("{}{}", if self.signed { "s" } else { "u" }, self.bits)
    }
    pub fn t(self) -> T {
        match self.bits {
            64 => T::D,
            32 => T::W,
            _ => T::H,
        }
    }
    pub fn value(self, code: u64) -> i128 {
        let code = if self.bits == 64 { code } else { code & ((1 << self.bits) - 1) };
        if self.signed && code >> (self.bits - 1) & 1 == 1 {
            i128::from(code) - (1 << self.bits)
        } else {
            code.into()
        }
    }
    pub fn range(self) -> (i128, i128) {
        if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }
    pub fn clamp(self, value: i128) -> i128 {
        let (low, high) = self.range();
        value.clamp(low, high)
    }
}

pub fn types(bits: &[u32]) -> Vec<Int> {
    bits.iter().flat_map(|bits| [false, true].map(|signed| Int { bits: *bits, signed })).collect()
}

pub fn edges(bits: u32) -> Vec<u64> {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let top = 1u64 << (bits - 1);
    let list = [0, 1, 2, 5, 31, 32, 33, 0x80, 0xff, 0x8000, top, top - 1, top + 1, mask, mask - 1, mask - 9];
    let patterns =
        [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0xaaaa_aaaa_aaaa_aaaa, 0x00ff_ff00_f00f_0ff0];
    list.into_iter().chain(patterns).map(|v| v & mask).collect()
}

fn few(bits: u32) -> Vec<u64> {
    edges(bits).into_iter().enumerate().filter(|(i, _)| i % 2 == 0).map(|(_, v)| v).collect()
}

const MASK: u128 = u64::MAX as u128;

/// The low half of the exact product's bits, whatever the sign.
fn low(a: i128, b: i128) -> u64 {
    ((a as u128 & MASK).wrapping_mul(b as u128 & MASK) & MASK) as u64
}

#[test]
fn sums_products_and_quotients() {
    let mut table = Table::default();
    for int in types(&[16, 32, 64]) {
        let (t, name, bits) = (int.t(), int.name(), int.bits);
        let (two, three) = (pairs(&edges(bits)), triples(&few(bits)));
        let v = move |code| int.value(code);
        let mut form = |op: &str, g: &dyn Fn(i128, i128) -> i128| {
            table
                .bits(&format!("{op}.{name} %d, %a, %b;"), t, [t; 3], &two, |[a, b, _]| g(v(a), v(b)) as u64);
        };
        form("add", &|a, b| a + b);
        form("sub", &|a, b| a - b);
        form("mul.lo", &|a, b| low(a, b).into());
        form("min", &|a, b| if a < b { a } else { b });
        form("max", &|a, b| if a > b { a } else { b });
        // What the hardware gives for a divisor of zero, which the ISA leaves open.
        form("div", &|a, b| if b == 0 { -1 } else { a / b });
        form("rem", &|a, b| if b == 0 { a } else { a % b });
        let high = move |a: i128, b: i128| {
            if int.signed { ((a * b) >> bits) as u64 } else { ((a as u128 * b as u128) >> bits) as u64 }
        };
        form("mul.hi", &|a, b| high(a, b).into());
        table.bits(&format!("mad.lo.{name} %d, %a, %b, %c;"), t, [t; 3], &three, |[a, b, c]| {
            low(v(a), v(b)).wrapping_add(c)
        });
        table.bits(&format!("mad.hi.{name} %d, %a, %b, %c;"), t, [t; 3], &three, |[a, b, c]| {
            high(v(a), v(b)).wrapping_add(c)
        });
        table.bits(&format!("sad.{name} %d, %a, %b, %c;"), t, [t; 3], &three, |[a, b, c]| {
            (v(c) + (v(a) - v(b)).abs()) as u64
        });
        if int.signed {
            table.bits(&format!("abs.{name} %d, %a;"), t, [t; 3], &two, |[a, ..]| v(a).unsigned_abs() as u64);
            table.bits(&format!("neg.{name} %d, %a;"), t, [t; 3], &two, |[a, ..]| -v(a) as u64);
        }
        if bits < 64 {
            let wide = if bits == 16 { T::W } else { T::D };
            table.bits(&format!("mul.wide.{name} %d, %a, %b;"), wide, [t; 3], &two, |[a, b, _]| {
                (v(a) * v(b)) as u64
            });
            let src = [t, t, wide];
            let rows: Vec<_> =
                three.iter().map(|[a, b, c]| [*a, *b, c.wrapping_mul(0x9e37_79b9_7f4a_7c15)]).collect();
            table.bits(&format!("mad.wide.{name} %d, %a, %b, %c;"), wide, src, &rows, |[a, b, c]| {
                ((v(a) * v(b)) as u64).wrapping_add(c)
            });
        }
    }
    let s32 = Int { bits: 32, signed: true };
    let (two, three) = (pairs(&edges(32)), triples(&few(32)));
    let w = [T::W; 3];
    let v = move |code| s32.value(code);
    table.bits("add.sat.s32 %d, %a, %b;", T::W, w, &two, |[a, b, _]| s32.clamp(v(a) + v(b)) as u64);
    table.bits("sub.sat.s32 %d, %a, %b;", T::W, w, &two, |[a, b, _]| s32.clamp(v(a) - v(b)) as u64);
    table.bits("mad.hi.sat.s32 %d, %a, %b, %c;", T::W, w, &three, |[a, b, c]| {
        s32.clamp(((v(a) * v(b)) >> 32) + v(c)) as u64
    });
    table.bits("min.relu.s32 %d, %a, %b;", T::W, w, &two, |[a, b, _]| v(a).min(v(b)).max(0) as u64);
    table.bits("max.relu.s32 %d, %a, %b;", T::W, w, &two, |[a, b, _]| v(a).max(v(b)).max(0) as u64);
    for signed in [false, true] {
        let name = if signed { "s32" } else { "u32" };
        let part = Int { bits: 24, signed };
        let v = move |code| part.value(code);
        for (word, shift) in [("lo", 0), ("hi", 16)] {
            table.bits(&format!("mul24.{word}.{name} %d, %a, %b;"), T::W, w, &two, |[a, b, _]| {
                ((v(a) * v(b)) >> shift) as u64
            });
            table.bits(&format!("mad24.{word}.{name} %d, %a, %b, %c;"), T::W, w, &three, |[a, b, c]| {
                (((v(a) * v(b)) >> shift) as u64).wrapping_add(c)
            });
        }
    }
    let part = Int { bits: 24, signed: true };
    table.bits("mad24.hi.sat.s32 %d, %a, %b, %c;", T::W, w, &three, |[a, b, c]| {
        // The part has 32 bits before c is added.
        let high = s32.value(((part.value(a) * part.value(b)) >> 16) as u64);
        s32.clamp(high + s32.value(c)) as u64
    });
    table.finish(90);
}

#[test]
fn packed_halves_and_dot_products() {
    let mut table = Table::default();
    let w = [T::W; 3];
    let (two, three) = (pairs(&edges(32)), triples(&few(32)));
    let each = |a: u64, b: u64, signed: bool, g: &dyn Fn(i128, i128) -> i128| {
        let half = Int { bits: 16, signed };
        let at = |v: u64, i: u32| half.value(v >> (16 * i));
        (0..2).fold(0, |result, i| result | (g(at(a, i), at(b, i)) as u64 & 0xffff) << (16 * i))
    };
    for signed in [false, true] {
        let name = if signed { "s16x2" } else { "u16x2" };
        for (op, g) in [
            ("add", (|a, b| a + b) as fn(i128, i128) -> i128),
            ("min", |a, b| a.min(b)),
            ("max", |a, b| a.max(b)),
        ] {
            table
                .bits(&format!("{op}.{name} %d, %a, %b;"), T::W, w, &two, |[a, b, _]| each(a, b, signed, &g));
        }
    }
    table.bits("min.relu.s16x2 %d, %a, %b;", T::W, w, &two, |[a, b, _]| {
        each(a, b, true, &|a, b| a.min(b).max(0))
    });
    table.bits("max.relu.s16x2 %d, %a, %b;", T::W, w, &two, |[a, b, _]| {
        each(a, b, true, &|a, b| a.max(b).max(0))
    });
    for a_signed in [false, true] {
        for b_signed in [false, true] {
            let name = |signed| if signed { "s32" } else { "u32" };
            let byte = |v: u64, i: u32, signed| Int { bits: 8, signed }.value(v >> (8 * i));
            let half = |v: u64, i: u32, signed| Int { bits: 16, signed }.value(v >> (16 * i));
            let types = format!("{}.{}", name(a_signed), name(b_signed));
            table.bits(&format!("dp4a.{types} %d, %a, %b, %c;"), T::W, w, &three, |[a, b, c]| {
                (0..4)
                    .fold(c, |sum, i| sum.wrapping_add((byte(a, i, a_signed) * byte(b, i, b_signed)) as u64))
            });
            for (part, first) in [("lo", 0), ("hi", 2)] {
                table.bits(&format!("dp2a.{part}.{types} %d, %a, %b, %c;"), T::W, w, &three, |[a, b, c]| {
                    (0..2).fold(c, |sum, i| {
                        sum.wrapping_add((half(a, i, a_signed) * byte(b, first + i, b_signed)) as u64)
                    })
                });
            }
        }
    }
    table.finish(20);
}

#[test]
fn carries() {
    let mut table = Table::default();
    for (bits, t) in [(32u32, T::W), (64, T::D)] {
        let (two, three) = (pairs(&edges(bits)), triples(&few(bits)));
        let mask = if bits == 64 { MASK } else { (1 << bits) - 1 };
        let wide = |v: u64| u128::from(v) & mask;
        for sign in ["u", "s"] {
            let ty = format!("{sign}{bits}");
            let out = |carry: u128| carry as u64;
            // The flag that an instruction leaves, read by the next.
            let flag = format!("addc.{ty} %d, 0, 0;");
            table.bits(&format!("add.cc.{ty} %d, %a, %b;\n{flag}"), t, [t; 3], &two, |[a, b, _]| {
                out((wide(a) + wide(b)) >> bits)
            });
            table.bits(
                &format!("add.cc.{ty} %d, %a, %b;\naddc.{ty} %d, %a, %c;"),
                t,
                [t; 3],
                &three,
                |[a, b, c]| a.wrapping_add(c).wrapping_add(out((wide(a) + wide(b)) >> bits)),
            );
            let twice = format!("add.cc.{ty} %d, %a, %b;\naddc.cc.{ty} %d, %a, %c;\n{flag}");
            table.bits(&twice, t, [t; 3], &three, |[a, b, c]| {
                out((wide(a) + wide(c) + ((wide(a) + wide(b)) >> bits)) >> bits)
            });
            let borrow = |a: u64, b: u64| u64::from(wide(a) < wide(b));
            table.bits(
                &format!("sub.cc.{ty} %d, %a, %b;\nsubc.{ty} %d, %c, %b;"),
                t,
                [t; 3],
                &three,
                |[a, b, c]| c.wrapping_sub(b).wrapping_sub(borrow(a, b)),
            );
            let int = Int { bits, signed: sign == "s" };
            let high = move |a: u64, b: u64| {
                if int.signed {
                    ((int.value(a) * int.value(b)) >> bits) as u64
                } else {
                    ((wide(a) * wide(b)) >> bits) as u64
                }
            };
            table.bits(&format!("mad.lo.cc.{ty} %d, %a, %b, %c;\n{flag}"), t, [t; 3], &three, |[a, b, c]| {
                out((wide(low(wide(a) as i128, wide(b) as i128)) + wide(c)) >> bits)
            });
            table.bits(
                &format!("add.cc.{ty} %d, %a, %b;\nmadc.hi.{ty} %d, %a, %b, %c;"),
                t,
                [t; 3],
                &three,
                |[a, b, c]| high(a, b).wrapping_add(c).wrapping_add(out((wide(a) + wide(b)) >> bits)),
            );
            table.bits(
                &format!("add.cc.{ty} %d, %a, %b;\nmadc.lo.{ty} %d, %a, %b, %c;"),
                t,
                [t; 3],
                &three,
                |[a, b, c]| {
                    low(wide(a) as i128, wide(b) as i128)
                        .wrapping_add(c)
                        .wrapping_add(out((wide(a) + wide(b)) >> bits))
                },
            );
        }
    }
    table.finish(28);
}

#[test]
fn bit_fields() {
    let mut table = Table::default();
    for (bits, t) in [(32u32, T::W), (64, T::D)] {
        let rows = pairs(&edges(bits));
        let bit = |v: u64, i: u32| v >> i & 1;
        let count = |v: u64| (0..bits).filter(|i| bit(v, *i) == 1).count() as u64;
        let first = |v: u64| (0..bits).rev().find(|i| bit(v, *i) == 1);
        let src = [t; 3];
        table.bits(&format!("popc.b{bits} %d, %a;"), T::W, src, &rows, |[a, ..]| count(a));
        table.bits(&format!("clz.b{bits} %d, %a;"), T::W, src, &rows, |[a, ..]| {
            first(a).map_or(bits, |at| bits - 1 - at).into()
        });
        table.bits(&format!("brev.b{bits} %d, %a;"), t, src, &rows, |[a, ..]| {
            (0..bits).fold(0, |v, i| v | bit(a, i) << (bits - 1 - i))
        });
        for signed in [false, true] {
            let int = Int { bits, signed };
            let name = int.name();
            let found = move |a: u64| first(if int.value(a) < 0 { !a & int.range().1 as u64 } else { a });
            table.bits(&format!("bfind.{name} %d, %a;"), T::W, src, &rows, |[a, ..]| {
                found(a).map_or(u64::MAX, u64::from)
            });
            table.bits(&format!("bfind.shiftamt.{name} %d, %a;"), T::W, src, &rows, |[a, ..]| {
                found(a).map_or(u64::MAX, |at| (bits - 1 - at).into())
            });
            let fields: Vec<[u64; 3]> = few(bits)
                .into_iter()
                .flat_map(|a| {
                    let places = [0u64, 1, 7, 31, 32, 40, 63, 64, 255, 256];
                    places.into_iter().flat_map(move |p| places.map(|n| [a, p, n]))
                })
                .collect();
            // Bit by bit: past the field, and past the value, stands the sign.
            table.bits(&format!("bfe.{name} %d, %a, %b, %c;"), t, [t, T::W, T::W], &fields, |[a, p, n]| {
                let (p, n) = ((p & 255) as u32, (n & 255) as u32);
                let sign = if !signed || n == 0 { 0 } else { bit(a, (p + n - 1).min(bits - 1)) };
                (0..bits).fold(0, |v, i| v | if i < n && p + i < bits { bit(a, p + i) } else { sign } << i)
            });
            if signed {
                continue;
            }
            let body = format!("bfi.b{bits} %d, %a, %a, %b, %c;").replace("%a, %a", "%a, 0");
            table.bits(&body, t, [t, T::W, T::W], &fields, |[a, p, n]| {
                let (p, n) = ((p & 255) as u32, (n & 255) as u32);
                (0..bits).fold(0, |v, i| v | if i >= p && i < p + n { bit(a, i - p) << i } else { 0 })
            });
            let body = format!("bfi.b{bits} %d, 0, %a, %b, %c;");
            table.bits(&body, t, [t, T::W, T::W], &fields, |[a, p, n]| {
                let (p, n) = ((p & 255) as u32, (n & 255) as u32);
                (0..bits).fold(0, |v, i| v | if i >= p && i < p + n { 0 } else { bit(a, i) << i })
            });
        }
    }
    let counts = [0u64, 1, 5, 31, 32, 33, 64, 0xffff_ffff];
    let rows: Vec<[u64; 3]> = counts.iter().flat_map(|p| counts.map(|n| [*p, n, 0])).collect();
    for clamp in [false, true] {
        let word = if clamp { "clamp" } else { "wrap" };
        let limit = move |v: u64| if clamp { v.min(32) } else { v & 31 };
        table.bits(&format!("bmsk.{word}.b32 %d, %a, %b;"), T::W, [T::W; 3], &rows, |[p, n, _]| {
            (0..32).filter(|i| *i >= limit(p) && *i < limit(p) + limit(n)).fold(0, |v, i| v | 1 << i)
        });
        let values: Vec<[u64; 3]> = edges(32).iter().flat_map(|a| counts.map(|n| [*a, n, 0])).collect();
        for signed in [false, true] {
            let name = if signed { "s32" } else { "u32" };
            table.bits(&format!("szext.{word}.{name} %d, %a, %b;"), T::W, [T::W; 3], &values, |[a, n, _]| {
                let n = limit(n) as u32;
                let sign = if signed && n > 0 { a >> (n - 1) & 1 } else { 0 };
                (0..32).fold(0, |v, i| v | if i < n { a >> i & 1 } else { sign } << i)
            });
        }
    }
    let offsets = [0u64, 1, 2, 5, 0xffff_ffff, 0xffff_fffe, 0xffff_fff0, 40];
    let rows: Vec<[u64; 3]> = edges(32)
        .into_iter()
        .flat_map(|m| [0u64, 3, 16, 31].into_iter().flat_map(move |b| offsets.map(|o| [m, b, o])))
        .collect();
    table.bits("fns.b32 %d, %a, %b, %c;", T::W, [T::W; 3], &rows, |[m, base, offset]| {
        let offset = offset as u32 as i32;
        let set = |i: &i64| m >> i & 1 == 1;
        let base = base as i64;
        let nth = match offset {
            0 => return if set(&base) { base as u64 } else { u64::MAX },
            n if n > 0 => (base..32).filter(set).nth(n as usize - 1),
            n => (0..=base).rev().filter(set).nth(n.unsigned_abs() as usize - 1),
        };
        nth.map_or(u64::MAX, |at| at as u64)
    });
    table.finish(27);
}
