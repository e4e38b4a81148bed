//! Logic, shifts, permutes, selection and comparisons.

use super::{
    Table,
    common::ops::T,
    exact::{F16, Number},
    float::{self, BRAIN, DOUBLE, HALF, Kind, SINGLE},
    int::{edges, types},
    pairs, triples,
};

fn few(bits: u32) -> Vec<u64> {
    edges(bits).into_iter().step_by(3).collect()
}

#[test]
fn logic_and_shifts() {
    let mut table = Table::default();
    for (bits, t) in [(16u32, T::H), (32, T::W), (64, T::D)] {
        let two = pairs(&edges(bits));
        let src = [t; 3];
        table.bits(&format!("and.b{bits} %d, %a, %b;"), t, src, &two, |[a, b, _]| a & b);
        table.bits(&format!("or.b{bits} %d, %a, %b;"), t, src, &two, |[a, b, _]| a | b);
        table.bits(&format!("xor.b{bits} %d, %a, %b;"), t, src, &two, |[a, b, _]| a ^ b);
        table.bits(&format!("not.b{bits} %d, %a;"), t, src, &two, |[a, ..]| !a);
        table.bits(&format!("cnot.b{bits} %d, %a;"), t, src, &two, |[a, ..]| u64::from(a == 0));
        table.bits(&format!("mov.b{bits} %d, %a;"), t, src, &two, |[a, ..]| a);
        let amounts = [0u64, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0xffff_ffff];
        let rows: Vec<[u64; 3]> = edges(bits).iter().flat_map(|a| amounts.map(|n| [*a, n, 0])).collect();
        let src = [t, T::W, T::W];
        let wide = |a: u64| u128::from(a);
        let over = move |n: u64| n >= bits.into();
        table.bits(&format!("shl.b{bits} %d, %a, %b;"), t, src, &rows, |[a, n, _]| {
            if over(n) { 0 } else { (wide(a) << n) as u64 }
        });
        for name in ["b", "u"] {
            table.bits(&format!("shr.{name}{bits} %d, %a, %b;"), t, src, &rows, |[a, n, _]| {
                if over(n) { 0 } else { a >> n }
            });
        }
        let signed = super::int::Int { bits, signed: true };
        table.bits(&format!("shr.s{bits} %d, %a, %b;"), t, src, &rows, |[a, n, _]| {
            (signed.value(a) >> n.min(120)) as u64
        });
    }
    let three = triples(&few(32));
    let w = [T::W; 3];
    for left in [true, false] {
        for wrap in [true, false] {
            let (side, how) = (if left { "l" } else { "r" }, if wrap { "wrap" } else { "clamp" });
            table.bits(&format!("shf.{side}.{how}.b32 %d, %a, %b, %c;"), T::W, w, &three, |[a, b, n]| {
                let n = if wrap { n & 31 } else { n.min(32) };
                let both = u128::from(b) << 32 | u128::from(a);
                if left { (both << n >> 32) as u64 } else { (both >> n) as u64 }
            });
        }
    }
    for lut in [0u64, 1, 0x1b, 0x3c, 0x80, 0x96, 0xca, 0xe8, 0xf0, 0xfe, 0xff] {
        let value = move |[a, b, c]: [u64; 3]| {
            (0..32).fold(0, |v, i| {
                let row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1;
                v | (lut >> row & 1) << i
            })
        };
        table.bits(&format!("lop3.b32 %d, %a, %b, %c, {lut};"), T::W, w, &three, value);
        // With a predicate: whether the result is not zero, and (or) another.
        for (combine, negated) in [("or", ""), ("or", "!"), ("and", ""), ("and", "!")] {
            let body = format!(
                "setp.lt.s32 %q, %a, 0;\nlop3.{combine}.b32 %r4|%p, %a, %b, %c, {lut}, {negated}%q;\n\
                 selp.u32 %r5, 2, 0, %p;\nsetp.ne.u32 %q, %r4, 0;\nselp.u32 %d, 1, 0, %q;\nadd.u32 %d, %d, %r5;"
            );
            table.bits(&body, T::W, w, &three, |row| {
                let some = value(row) != 0;
                let other = (row[0] >> 31 == 1) != (negated == "!");
                let p = if combine == "or" { some || other } else { some && other };
                u64::from(p) * 2 + u64::from(some)
            });
        }
    }
    for [p, q] in [["%p", "!%q"], ["!%p", "%q"], ["!%p", "!%q"]] {
        for op in ["and", "or", "xor"] {
            let body = format!(
                "setp.lt.s32 %p, %a, 0;\nsetp.lt.s32 %q, %b, 0;\n{op}.pred %p, {p}, {q};\nselp.u32 %d, 5, 6, !%p;"
            );
            table.bits(&body, T::W, w, &three, |[a, b, _]| {
                let x = (a >> 31 == 1) != p.starts_with('!');
                let y = (b >> 31 == 1) != q.starts_with('!');
                let p = match op {
                    "and" => x && y,
                    "or" => x || y,
                    _ => x != y,
                };
                if p { 6 } else { 5 }
            });
        }
    }
    table.bits(
        "setp.lt.s32 %p, %a, 0;\nmov.pred %q, !%p;\nselp.u32 %d, 5, 6, %q;",
        T::W,
        w,
        &three,
        |[a, ..]| {
            if a >> 31 == 1 { 6 } else { 5 }
        },
    );
    table.finish(90);
}

#[test]
fn permutes_and_choices() {
    let mut table = Table::default();
    let three = triples(&few(32));
    let w = [T::W; 3];
    let byte = |a: u64, b: u64, i: u64| (a | b << 32) >> (8 * (i & 7)) & 0xff;
    table.bits("prmt.b32 %d, %a, %b, %c;", T::W, w, &three, |[a, b, c]| {
        (0..4).fold(0, |v, i| {
            let selector = c >> (4 * i) & 15;
            let found = byte(a, b, selector);
            v | if selector < 8 { found } else { 0xff * (found >> 7) } << (8 * i)
        })
    });
    /// The byte that a mode takes for control value and result byte.
    type Source = fn(u64, u64) -> u64;
    let modes: [(&str, Source); 6] = [
        ("f4e", |n, i| n + i),
        ("b4e", |n, i| 8 + n - i),
        ("rc8", |n, _| n),
        ("ecl", |n, i| n.max(i)),
        ("ecr", |n, i| n.min(i)),
        ("rc16", |n, i| (n & 1) * 2 + i % 2),
    ];
    for (mode, source) in modes {
        table.bits(&format!("prmt.b32.{mode} %d, %a, %b, %c;"), T::W, w, &three, |[a, b, c]| {
            (0..4).fold(0, |v, i| v | byte(a, b, source(c & 3, i)) << (8 * i))
        });
    }
    for (bits, t) in [(16u32, T::H), (32, T::W), (64, T::D)] {
        let rows = triples(&few(bits));
        for kind in ["b", "u", "s", "f"] {
            if kind == "f" && bits == 16 {
                continue;
            }
            for negated in ["", "!"] {
                let body = format!("setp.eq.b{bits} %p, %c, %a;\nselp.{kind}{bits} %d, %a, %b, {negated}%p;");
                table.bits(
                    &body,
                    t,
                    [t; 3],
                    &rows,
                    |[a, b, c]| {
                        if (c == a) != (negated == "!") { a } else { b }
                    },
                );
            }
            if kind != "f" || bits == 32 {
                let body = format!("slct.{kind}{bits}.s32 %d, %a, %b, %c;");
                let rows: Vec<_> = rows.iter().map(|[a, b, c]| [*a, *b, *c ^ 0x8000_0000]).collect();
                table.bits(&body, t, [t, t, T::W], &rows, |[a, b, c]| if c >> 31 == 0 { a } else { b });
            }
        }
        // A subnormal flushed is a zero, and zeros of both signs choose a.
        for ftz in [false, true] {
            let rows: Vec<[u64; 3]> = float::edges(super::exact::F32).iter().map(|c| [5, 6, *c]).collect();
            let word = if ftz { ".ftz" } else { "" };
            table.bits(
                &format!("slct{word}.b{bits}.f32 %d, %a, %b, %c;"),
                t,
                [t, t, T::F],
                &rows,
                |[a, b, c]| {
                    let format = super::exact::F32;
                    let zero = c & !format.sign() == 0 || (ftz && format.subnormal(c));
                    if format.is_nan(c) || (c & format.sign() != 0 && !zero) { b } else { a }
                },
            );
        }
    }
    table.finish(45);
}

/// Whether a comparison holds of values in some order; `None` is unordered.
fn holds(word: &str, order: Option<std::cmp::Ordering>) -> bool {
    let plain = match word {
        "num" => return order.is_some(),
        "nan" => return order.is_none(),
        "lo" | "ltu" => "lt",
        "ls" | "leu" => "le",
        "hi" | "gtu" => "gt",
        "hs" | "geu" => "ge",
        "equ" => "eq",
        "neu" => "ne",
        word => word,
    };
    let Some(order) = order else { return word.ends_with('u') };
    match plain {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" => order.is_lt(),
        "le" => order.is_le(),
        "gt" => order.is_gt(),
        _ => order.is_ge(),
    }
}

fn order(kind: Kind, ftz: bool, a: u64, b: u64) -> Option<std::cmp::Ordering> {
    let read = |code: u64| {
        kind.format.decode(if ftz && kind.format.subnormal(code) { code & kind.format.sign() } else { code })
    };
    match (read(a), read(b)) {
        (Number::Nan, _) | (_, Number::Nan) => None,
        (Number::Infinite(a), Number::Infinite(b)) => Some(b.cmp(&a)),
        (Number::Infinite(negative), _) => {
            Some(if negative { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater })
        }
        (_, Number::Infinite(negative)) => {
            Some(if negative { std::cmp::Ordering::Greater } else { std::cmp::Ordering::Less })
        }
        (Number::Finite(a), Number::Finite(b)) => Some(a.compare(&b)),
    }
}

#[test]
fn comparisons() {
    let mut table = Table::default();
    let combines = ["", ".and", ".or", ".xor"];
    let combined = |combine: &str, holds: bool, other: bool| match combine {
        ".and" => holds && other,
        ".or" => holds || other,
        ".xor" => holds != other,
        _ => holds,
    };
    for int in types(&[16, 32, 64]) {
        let (t, two) = (int.t(), pairs(&edges(int.bits)));
        let unsigned = ["lo", "ls", "hi", "hs"];
        let words =
            ["eq", "ne", "lt", "le", "gt", "ge"].iter().chain(unsigned.iter().filter(|_| !int.signed));
        for (i, word) in words.enumerate() {
            let combine = combines[i % 4];
            let c = if combine.is_empty() { "" } else { ", !%q" };
            let body = format!(
                "setp.eq.b{} %q, %a, %b;\nsetp.{word}{combine}.{} %p|%q, %a, %b{c};\n\
                 selp.u32 %d, 1, 0, %p;\nselp.u32 %r4, 2, 0, %q;\nadd.u32 %d, %d, %r4;",
                int.bits,
                int.name()
            );
            table.bits(&body, T::W, [t; 3], &two, |[a, b, _]| {
                let truth = holds(word, Some(int.value(a).cmp(&int.value(b))));
                let other = a != b;
                u64::from(combined(combine, truth, other)) + 2 * u64::from(combined(combine, !truth, other))
            });
            for (result, yes) in [("u32", 0xffff_ffff), ("s32", 0xffff_ffff), ("f32", 0x3f80_0000u64)] {
                let d = if result == "f32" { T::F } else { T::W };
                let body = format!("set.{word}.{result}.{} %d, %a, %b;", int.name());
                table.bits(&body, d, [t; 3], &two, |[a, b, _]| {
                    if holds(word, Some(int.value(a).cmp(&int.value(b)))) { yes } else { 0 }
                });
            }
        }
    }
    let words = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
    for kind in [SINGLE, DOUBLE, HALF, BRAIN] {
        let two = pairs(&float::edges(kind.format));
        for word in words {
            for ftz in [false, true] {
                if ftz && kind.format != super::exact::F32 && kind.format != F16 {
                    continue;
                }
                let z = if ftz { ".ftz" } else { "" };
                let body = format!("setp.{word}{z}.{} %p, %a, %b;\nselp.u32 %d, 1, 0, %p;", kind.name);
                table.bits(&body, T::W, [kind.t; 3], &two, |[a, b, _]| {
                    u64::from(holds(word, order(kind, ftz, a, b)))
                });
                let body = format!("set.{word}{z}.u32.{} %d, %a, %b;", kind.name);
                table.bits(&body, T::W, [kind.t; 3], &two, |[a, b, _]| {
                    if holds(word, order(kind, ftz, a, b)) { 0xffff_ffff } else { 0 }
                });
            }
        }
    }
    table.finish(330);
}
