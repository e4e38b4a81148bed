//! Integer instructions against formulas that share nothing with the emulator, on edge
//! values.
#![allow(clippy::unwrap_used, clippy::type_complexity)]

mod common;

use common::ops::*;

#[test]
fn integer_arithmetic_of_all_widths() {
    for (bits, t) in [(16, T::H), (32, T::W), (64, T::D)] {
        let rows = pairs(&ints(bits));
        let src = [t, t, t];
        for signed in [false, true] {
            let ty = format!("{}{bits}", if signed { "s" } else { "u" });
            let value = move |v: u64| if signed { sext(v, bits) } else { i128::from(v) };
            let two = |op: &str, g: &dyn Fn(i128, i128) -> i128| {
                check(&format!("{op}.{ty} %d, %a, %b;"), t, src, &rows, |a, b, _| {
                    cut(g(value(a), value(b)), bits)
                });
            };
            two("add", &|a, b| a + b);
            two("sub", &|a, b| a - b);
            two("mul.lo", &|a, b| a.wrapping_mul(b));
            two("min", &|a, b| a.min(b));
            two("max", &|a, b| a.max(b));
            two("div", &|a, b| if b == 0 { -1 } else { a / b });
            two("rem", &|a, b| if b == 0 { a } else { a % b });
            check(&format!("mul.hi.{ty} %d, %a, %b;"), t, src, &rows, |a, b, _| {
                if signed {
                    cut((value(a) * value(b)) >> bits, bits)
                } else {
                    ((u128::from(a) * u128::from(b)) >> bits) as u64
                }
            });
            let three = triples(&ints(bits).into_iter().step_by(3).collect::<Vec<_>>());
            check(&format!("mad.lo.{ty} %d, %a, %b, %c;"), t, src, &three, |a, b, c| {
                cut(value(a).wrapping_mul(value(b)).wrapping_add(value(c)), bits)
            });
            check(&format!("sad.{ty} %d, %a, %b, %c;"), t, src, &three, |a, b, c| {
                cut(value(c) + (value(a) - value(b)).abs(), bits)
            });
            if signed {
                check(&format!("abs.{ty} %d, %a;"), t, src, &rows, |a, _, _| cut(value(a).abs(), bits));
                check(&format!("neg.{ty} %d, %a;"), t, src, &rows, |a, _, _| cut(-value(a), bits));
            }
            if bits < 64 {
                let wide = if bits == 16 { T::W } else { T::D };
                check(&format!("mul.wide.{ty} %d, %a, %b;"), wide, src, &rows, |a, b, _| {
                    cut(value(a) * value(b), 2 * bits)
                });
                let rows: Vec<_> =
                    rows.iter().map(|[a, b, _]| [*a, *b, a.wrapping_mul(0x9e37_79b9_7f4a_7c15)]).collect();
                check(&format!("mad.wide.{ty} %d, %a, %b, %c;"), wide, [t, t, wide], &rows, |a, b, c| {
                    cut(value(a) * value(b) + sext(c, 64), 2 * bits)
                });
            }
        }
    }
    let rows = pairs(&ints(32));
    check("add.sat.s32 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        cut((sext(a, 32) + sext(b, 32)).clamp(i32::MIN.into(), i32::MAX.into()), 32)
    });
    check("sub.sat.s32 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        cut((sext(a, 32) - sext(b, 32)).clamp(i32::MIN.into(), i32::MAX.into()), 32)
    });
    for (op, signed, high) in
        [("u32", false, false), ("s32", true, false), ("u32", false, true), ("s32", true, true)]
    {
        let part = if high { "hi" } else { "lo" };
        let value = |v: u64| if signed { sext(v & 0xff_ffff, 24) } else { i128::from(v & 0xff_ffff) };
        let shift = if high { 16 } else { 0 };
        check(&format!("mul24.{part}.{op} %d, %a, %b;"), T::W, [T::W; 3], &rows, |a, b, _| {
            cut((value(a) * value(b)) >> shift, 32)
        });
    }
}

#[test]
fn carries() {
    let rows = pairs(&ints(32));
    let body = "add.cc.u32 %d, %a, %b;\naddc.u32 %d, %a, 0;";
    check(body, T::W, [T::W; 3], &rows, |a, b, _| (a + ((a + b) >> 32)) & 0xffff_ffff);
    check("sub.cc.u32 %d, %a, %b;\nsubc.u32 %d, 5, 0;", T::W, [T::W; 3], &rows, |a, b, _| {
        5 - u64::from(a < b)
    });
    let rows = pairs(&ints(64));
    check("add.cc.u64 %d, %a, %b;\naddc.u64 %d, 0, 0;", T::D, [T::D; 3], &rows, |a, b, _| {
        a.checked_add(b).is_none().into()
    });
    let body = "mad.lo.cc.u64 %d, %a, %b, %a;\nmadc.hi.u64 %d, %a, %b, 0;";
    check(body, T::D, [T::D; 3], &rows, |a, b, _| {
        ((u128::from(a) * u128::from(b) + u128::from(a)) >> 64) as u64
    });
}

#[test]
fn logic_and_shifts() {
    for (bits, t) in [(16, T::H), (32, T::W), (64, T::D)] {
        let rows = pairs(&ints(bits));
        let src = [t; 3];
        check(&format!("and.b{bits} %d, %a, %b;"), t, src, &rows, |a, b, _| a & b);
        check(&format!("or.b{bits} %d, %a, %b;"), t, src, &rows, |a, b, _| a | b);
        check(&format!("xor.b{bits} %d, %a, %b;"), t, src, &rows, |a, b, _| a ^ b);
        check(&format!("not.b{bits} %d, %a;"), t, src, &rows, |a, _, _| cut(!i128::from(a), bits));
        check(&format!("cnot.b{bits} %d, %a;"), t, src, &rows, |a, _, _| u64::from(a == 0));
        let amounts: Vec<[u64; 3]> = ints(bits)
            .into_iter()
            .flat_map(|a| {
                [0u64, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0xffff_ffff].map(|n| [a, n, 0])
            })
            .collect();
        let shift = [t, T::W, t];
        check(&format!("shl.b{bits} %d, %a, %b;"), t, shift, &amounts, |a, n, _| {
            if n >= bits.into() { 0 } else { cut(i128::from(a) << n, bits) }
        });
        check(&format!("shr.u{bits} %d, %a, %b;"), t, shift, &amounts, |a, n, _| {
            if n >= bits.into() { 0 } else { a >> n }
        });
        check(&format!("shr.s{bits} %d, %a, %b;"), t, shift, &amounts, |a, n, _| {
            cut(sext(a, bits) >> n.min(127), bits)
        });
    }
    let three = triples(&ints(32).into_iter().step_by(3).collect::<Vec<_>>());
    let src = [T::W; 3];
    let join = |a: u64, b: u64| u128::from(b << 32 | a);
    check("shf.l.wrap.b32 %d, %a, %b, %c;", T::W, src, &three, |a, b, c| {
        ((join(a, b) << (c & 31)) >> 32) as u32 as u64
    });
    check("shf.l.clamp.b32 %d, %a, %b, %c;", T::W, src, &three, |a, b, c| {
        ((join(a, b) << c.min(32)) >> 32) as u32 as u64
    });
    check("shf.r.wrap.b32 %d, %a, %b, %c;", T::W, src, &three, |a, b, c| {
        (join(a, b) >> (c & 31)) as u32 as u64
    });
    check("shf.r.clamp.b32 %d, %a, %b, %c;", T::W, src, &three, |a, b, c| {
        (join(a, b) >> c.min(32)) as u32 as u64
    });
    for (table, g) in [
        (0x96u32, (|a, b, c| a ^ b ^ c) as fn(u64, u64, u64) -> u64),
        (0xe8, |a, b, c| a & b | a & c | b & c),
        (0xca, |a, b, c| a & b | !a & c),
        (0x80, |a, b, c| a & b & c),
        (0x01, |a, b, c| !(a | b | c)),
    ] {
        check(&format!("lop3.b32 %d, %a, %b, %c, {table};"), T::W, src, &three, |a, b, c| {
            g(a, b, c) & 0xffff_ffff
        });
    }
}

#[test]
fn bit_fields() {
    for (bits, t) in [(32u32, T::W), (64, T::D)] {
        let values: Vec<[u64; 3]> = ints(bits).into_iter().map(|a| [a, 0, 0]).collect();
        let src = [t; 3];
        check(&format!("popc.b{bits} %d, %a;"), T::W, src, &values, |a, _, _| {
            (0..bits).map(|i| a >> i & 1).sum()
        });
        check(&format!("clz.b{bits} %d, %a;"), T::W, src, &values, |a, _, _| {
            (0..bits).rev().take_while(|i| a >> i & 1 == 0).count() as u64
        });
        check(&format!("brev.b{bits} %d, %a;"), t, src, &values, |a, _, _| {
            (0..bits).fold(0, |r, i| r | (a >> i & 1) << (bits - 1 - i))
        });
        for signed in [false, true] {
            let ty = format!("{}{bits}", if signed { "s" } else { "u" });
            let highest = |a: u64| {
                let v = if signed && a >> (bits - 1) == 1 { cut(!i128::from(a), bits) } else { a };
                (0..bits).rev().find(|i| v >> i & 1 == 1)
            };
            check(&format!("bfind.{ty} %d, %a;"), T::W, src, &values, |a, _, _| {
                highest(a).map_or(0xffff_ffff, u64::from)
            });
            check(&format!("bfind.shiftamt.{ty} %d, %a;"), T::W, src, &values, |a, _, _| {
                highest(a).map_or(0xffff_ffff, |at| u64::from(bits - 1 - at))
            });
            let fields: Vec<[u64; 3]> = ints(bits)
                .into_iter()
                .flat_map(|a| {
                    [0u64, 1, 7, 16, 30, 31, 32, 50, 63, 64, 200, 255]
                        .into_iter()
                        .flat_map(move |p| [0u64, 1, 5, 16, 31, 32, 33, 64, 255].map(|n| [a, p, n]))
                })
                .collect();
            check(&format!("bfe.{ty} %d, %a, %b, %c;"), t, [t, T::W, T::W], &fields, |a, p, n| {
                // Bit by bit, as the ISA describes it.
                let sign = if !signed || n == 0 { 0 } else { a >> (p + n - 1).min(u64::from(bits) - 1) & 1 };
                (0..u64::from(bits)).fold(0, |r, i| {
                    let bit = if i < n && p + i < u64::from(bits) { a >> (p + i) & 1 } else { sign };
                    r | bit << i
                })
            });
            if !signed {
                let body = format!("bfi.b{bits} %d, %a, 0x0f0f0f0f, %b, %c;");
                check(&body, t, [t, T::W, T::W], &fields, |a, p, n| {
                    (0..u64::from(bits)).fold(0, |r, i| {
                        let inside = i >= p && i < p + n;
                        let bit = if inside { a >> (i - p) & 1 } else { 0x0f0f_0f0fu64 >> i & 1 };
                        r | bit << i
                    })
                });
            }
        }
    }
    let amounts: Vec<[u64; 3]> =
        (0..40u64).flat_map(|p| [0u64, 1, 5, 31, 32, 40].map(|n| [p, n, 0])).collect();
    check("bmsk.clamp.b32 %d, %a, %b;", T::W, [T::W; 3], &amounts, |p, n, _| {
        (0..32u64).filter(|i| *i >= p && *i < p + n.min(32)).fold(0, |r, i| r | 1 << i)
    });
    let counts: Vec<[u64; 3]> =
        ints(32).into_iter().flat_map(|a| [0u64, 1, 8, 31, 32, 77].map(|n| [a, n, 0])).collect();
    check("szext.clamp.s32 %d, %a, %b;", T::W, [T::W; 3], &counts, |a, n, _| {
        if n == 0 { 0 } else { cut(sext(a, 32) << (128 - n.min(32)) >> (128 - n.min(32)), 32) }
    });
    let masks = [
        [0b1011_0000u64, 4, 0],
        [0b1011_0000, 4, 1],
        [0b1011_0000, 4, 2],
        [0b1011_0000, 7, 0xffff_fffe],
        [0, 3, 1],
    ];
    let expected = [4, 4, 5, 5, 0xffff_ffff];
    assert_eq!(run("fns.b32 %d, %a, %b, %c;", T::W, [T::W; 3], &masks), expected);
}

#[test]
fn permutes_and_selection() {
    let rows: Vec<[u64; 3]> = (0..400u64)
        .map(|i| {
            let r = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [r >> 32, r & 0xffff_ffff, (r >> 13) & 0xffff]
        })
        .collect();
    let byte = |a: u64, b: u64, i: u64| if i < 4 { a >> (8 * i) & 0xff } else { b >> (8 * (i - 4)) & 0xff };
    check("prmt.b32 %d, %a, %b, %c;", T::W, [T::W; 3], &rows, |a, b, c| {
        (0..4).fold(0, |r, i| {
            let s = c >> (4 * i) & 15;
            let v = byte(a, b, s & 7);
            r | (if s < 8 {
                v
            } else if v >= 128 {
                255
            } else {
                0
            }) << (8 * i)
        })
    });
    let modes: [(&str, fn(u64, u64) -> u64); 6] = [
        ("f4e", |i, c| i + c),
        ("b4e", |i, c| (8 + c - i) % 8),
        ("rc8", |_, c| c),
        ("ecl", |i, c| i.max(c)),
        ("ecr", |i, c| i.min(c)),
        ("rc16", |i, c| i % 2 + c % 2 * 2),
    ];
    for (mode, source) in modes {
        check(&format!("prmt.b32.{mode} %d, %a, %b, %c;"), T::W, [T::W; 3], &rows, |a, b, c| {
            (0..4).fold(0, |r, i| r | byte(a, b, source(i, c & 3)) << (8 * i))
        });
    }
    let rows = pairs(&ints(32));
    check("setp.ne.u32 %p, %b, 0;\nselp.b32 %d, %a, 77, %p;", T::W, [T::W; 3], &rows, |a, b, _| {
        if b != 0 { a } else { 77 }
    });
    check(
        "slct.u32.s32 %d, %a, 77, %b;",
        T::W,
        [T::W; 3],
        &rows,
        |a, b, _| if (b as i32) >= 0 { a } else { 77 },
    );
    let rows: Vec<_> = floats().into_iter().map(|b| [5, b, 0]).collect();
    check(
        "slct.u32.f32 %d, %a, 77, %b;",
        T::W,
        [T::W, T::F, T::W],
        &rows,
        |a, b, _| if f(b) >= 0.0 { a } else { 77 },
    );
}

#[test]
fn dot_products_and_packed_pairs() {
    let rows: Vec<[u64; 3]> = (1..500u64)
        .map(|i| {
            let r = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [r >> 32, r & 0xffff_ffff, (r >> 7) & 0xffff_ffff]
        })
        .chain([[0x8080_8080, 0x8080_8080, 0x7fff_ffff], [0xffff_ffff, 0xffff_ffff, 0]])
        .collect();
    let at = |v: u64, i: u32, width: u32, signed: bool| {
        let part = v >> (width * i) & ((1 << width) - 1);
        if signed { sext(part, width) } else { part.into() }
    };
    for (ta, sa) in [("u32", false), ("s32", true)] {
        for (tb, sb) in [("u32", false), ("s32", true)] {
            check(&format!("dp4a.{ta}.{tb} %d, %a, %b, %c;"), T::W, [T::W; 3], &rows, |a, b, c| {
                cut((0..4).map(|i| at(a, i, 8, sa) * at(b, i, 8, sb)).sum::<i128>() + i128::from(c), 32)
            });
            for (half, first) in [("lo", 0), ("hi", 2)] {
                check(
                    &format!("dp2a.{half}.{ta}.{tb} %d, %a, %b, %c;"),
                    T::W,
                    [T::W; 3],
                    &rows,
                    |a, b, c| {
                        let sum: i128 = (0..2).map(|i| at(a, i, 16, sa) * at(b, i + first, 8, sb)).sum();
                        cut(sum + i128::from(c), 32)
                    },
                );
            }
        }
    }
    for (ty, signed) in [("u16x2", false), ("s16x2", true)] {
        let ops: [(&str, fn(i128, i128) -> i128); 3] =
            [("add", |a, b| a + b), ("min", |a, b| a.min(b)), ("max", |a, b| a.max(b))];
        for (op, g) in ops {
            check(&format!("{op}.{ty} %d, %a, %b;"), T::W, [T::W; 3], &rows, |a, b, _| {
                (0..2).fold(0, |r, i| r | cut(g(at(a, i, 16, signed), at(b, i, 16, signed)), 16) << (16 * i))
            });
        }
    }
}

#[test]
fn conversions_between_integers() {
    let types = [("8", 8u32), ("16", 16), ("32", 32), ("64", 64)];
    for (_, from) in types {
        for (_, to) in types {
            for (sf, st) in [("u", "u"), ("u", "s"), ("s", "u"), ("s", "s")] {
                let t = |bits: u32| match bits {
                    8 | 16 => T::H,
                    32 => T::W,
                    _ => T::D,
                };
                let rows: Vec<[u64; 3]> = ints(from).into_iter().map(|a| [a, 0, 0]).collect();
                let value = |a: u64| if sf == "s" { sext(a, from) } else { a.into() };
                let register = if to == 8 { 16 } else { to };
                let extend = |v: u64| if st == "s" { cut(sext(v, to), register) } else { v };
                check(&format!("cvt.{st}{to}.{sf}{from} %d, %a;"), t(to), [t(from); 3], &rows, |a, _, _| {
                    extend(cut(value(a), to))
                });
                let (low, high) = if st == "s" {
                    (-(1i128 << (to - 1)), (1i128 << (to - 1)) - 1)
                } else {
                    (0, (1i128 << to) - 1)
                };
                check(
                    &format!("cvt.sat.{st}{to}.{sf}{from} %d, %a;"),
                    t(to),
                    [t(from); 3],
                    &rows,
                    |a, _, _| extend(cut(value(a).clamp(low, high), to)),
                );
            }
        }
    }
}

#[test]
fn moves_pack_and_unpack() {
    let rows = pairs(&ints(32));
    check("mov.b64 %d, {%a, %b};", T::D, [T::W; 3], &rows, |a, b, _| b << 32 | a);
    let wide: Vec<[u64; 3]> = ints(64).into_iter().map(|a| [a, 0, 0]).collect();
    check("mov.b64 {%r3, %r4}, %a;\nadd.u32 %d, %r3, %r4;", T::W, [T::D; 3], &wide, |a, _, _| {
        ((a >> 32) + (a & 0xffff_ffff)) & 0xffff_ffff
    });
    check("mov.b32 {%h1, %h2}, %a;\nmov.b32 %d, {%h2, %h1};", T::W, [T::W; 3], &rows, |a, _, _| {
        (a >> 16) | (a & 0xffff) << 16
    });
    check("mov.b64 {_, %r4}, %a;\nmov.u32 %d, %r4;", T::W, [T::D; 3], &wide, |a, _, _| a >> 32);
    check("mov.f32 %d, 0f3fC00000;", T::F, [T::F; 3], &[[0; 3]], |_, _, _| 0x3fc0_0000);
    check("mov.f64 %d, 0d3FF8000000000000;", T::G, [T::G; 3], &[[0; 3]], |_, _, _| 1.5f64.to_bits());
    check("mov.s32 %d, -5;", T::W, [T::W; 3], &[[0; 3]], |_, _, _| 0xffff_fffb);
}

#[test]
fn narrow_products_masks_and_extensions() {
    let three = triples(&ints(32).into_iter().step_by(3).collect::<Vec<_>>());
    let low24 = |v: u64| sext(v & 0xff_ffff, 24);
    check("mad24.lo.s32 %d, %a, %b, %c;", T::W, [T::W; 3], &three, |a, b, c| {
        cut(low24(a) * low24(b) + i128::from(c), 32)
    });
    check("mad24.hi.u32 %d, %a, %b, %c;", T::W, [T::W; 3], &three, |a, b, c| {
        cut(((i128::from(a & 0xff_ffff) * i128::from(b & 0xff_ffff)) >> 16) + i128::from(c), 32)
    });
    check("mad.hi.u32 %d, %a, %b, %c;", T::W, [T::W; 3], &three, |a, b, c| {
        (((a * b) >> 32) + c) & 0xffff_ffff
    });
    check("mad.hi.sat.s32 %d, %a, %b, %c;", T::W, [T::W; 3], &three, |a, b, c| {
        let sum = ((sext(a, 32) * sext(b, 32)) >> 32) + sext(c, 32);
        cut(sum.clamp(i32::MIN.into(), i32::MAX.into()), 32)
    });
    let amounts: Vec<[u64; 3]> =
        (0..40u64).flat_map(|p| [0u64, 1, 5, 31, 32, 40].map(|n| [p, n, 0])).collect();
    check("bmsk.wrap.b32 %d, %a, %b;", T::W, [T::W; 3], &amounts, |p, n, _| {
        (0..32u64).filter(|i| *i >= p % 32 && *i < p % 32 + n % 32).fold(0, |r, i| r | 1 << i)
    });
    let counts: Vec<[u64; 3]> =
        ints(32).into_iter().flat_map(|a| [0u64, 1, 8, 31, 32, 77].map(|n| [a, n, 0])).collect();
    check("szext.wrap.u32 %d, %a, %b;", T::W, [T::W; 3], &counts, |a, n, _| a & ((1 << (n % 32)) - 1));
    check("szext.clamp.u32 %d, %a, %b;", T::W, [T::W; 3], &counts, |a, n, _| a & ((1 << n.min(32)) - 1));
    for (op, max) in [("min", false), ("max", true)] {
        check(&format!("{op}.relu.s32 %d, %a, %b;"), T::W, [T::W; 3], &pairs(&ints(32)), |a, b, _| {
            let (x, y) = (a as i32, b as i32);
            u64::from((if max { x.max(y) } else { x.min(y) }).max(0) as u32)
        });
    }
}

#[test]
fn packed_saturation() {
    let rows = triples(&ints(32).into_iter().step_by(2).collect::<Vec<_>>());
    let clamp = |v: u64, low: i128, high: i128| sext(v, 32).clamp(low, high);
    check("cvt.pack.sat.s16.s32 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        cut(clamp(a, -32768, 32767), 16) << 16 | cut(clamp(b, -32768, 32767), 16)
    });
    check("cvt.pack.sat.u16.s32 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        cut(clamp(a, 0, 65535), 16) << 16 | cut(clamp(b, 0, 65535), 16)
    });
    check("cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", T::W, [T::W; 3], &rows, |a, b, c| {
        (c & 0xffff) << 16 | cut(clamp(a, -128, 127), 8) << 8 | cut(clamp(b, -128, 127), 8)
    });
    check("cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", T::W, [T::W; 3], &rows, |a, b, c| {
        (c & 0xffff) << 16 | cut(clamp(a, 0, 255), 8) << 8 | cut(clamp(b, 0, 255), 8)
    });
}

#[test]
fn unknown_instructions_are_named_with_their_line() {
    let error = |line: &str| {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{{\n.reg .b32 %r<4>;\n.reg .f32 %f<4>;\n.reg .b64 %rd<2>;\n{line}\nret;\n}}\n"
        );
        phobos_emulator::Program::load_whole("k.ptx", &text, 0).unwrap_err().to_string()
    };
    assert_eq!(error("frobnicate.u32 %r1, %r2;"), "k.ptx:9:1: unknown instruction `frobnicate.u32`");
    let named = "k.ptx:9:1: unknown instruction `add.sideways.u32`: it has no `.sideways`";
    assert_eq!(error("add.sideways.u32 %r1, %r2, %r3;"), named);
    // Types are words like others: none is dropped in silence.
    for (line, word) in [
        ("add.f32.f64 %f1, %f2, %f3;", "f64"),
        ("mov.u32.u64 %r1, %r2;", "u64"),
        ("ld.global.u32.f32 %r1, [%rd1];", "f32"),
        ("bar.sync.u32 0;", "u32"),
        ("prefetch.global.L2.u32 [%rd1];", "u32"),
        ("nanosleep.u32.u64 %r1;", "u64"),
        ("shfl.sync.idx.b32.u32 %r1, %r2, 0, 31, -1;", "u32"),
        ("cvta.to.global.u64.u32 %rd1, %rd1;", "u32"),
    ] {
        let text = error(line);
        assert!(
            text.contains("unknown instruction") && text.ends_with(&format!("it has no `.{word}`")),
            "{text}"
        );
    }
    assert_eq!(error("  add.u24 %r1, %r2, %r3;"), "k.ptx:9:3: unknown instruction `add.u24`");
    assert_eq!(error("ex2.f32 %f1, %f2;"), "k.ptx:9:1: unknown instruction `ex2.f32`");
    assert_eq!(error("add.u32 %r1, %r2;"), "k.ptx:9:1: `add.u32` takes 3 operands, 2 given");
    assert_eq!(error("add.u32 %r1, %r2, %r9;"), "k.ptx:9:1: `%r9` is not declared");
    assert_eq!(error("bra NOWHERE;"), "k.ptx:9:1: there is no label `NOWHERE`");
    assert_eq!(error(".reg .b32 %x;\n.reg .f32 %x;"), "k.ptx:10:11: `%x` is declared twice");
    assert_eq!(
        error(".shared .b32 s;\nld.global.u32 %r1, [s];"),
        "k.ptx:10:1: the variable lies in another state space"
    );
    assert!(error("wgmma.fence.sync.aligned;").ends_with("needs sm_90, the target is sm_80"));
    for other in [
        "tcgen05.fence::before_thread_sync;",
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f1}, [%rd1, {%f1,%f2}];",
        "tld4.r.2d.v4.f32.f32 {%f1,%f2,%f3,%f1}, [%rd1, {%f1,%f2}];",
        "txq.width.b32 %r1, [%rd1];",
        "suld.b.1d.b32.trap %r1, [%rd1, {%r1}];",
        "sust.b.1d.b32.trap [%rd1, {%r1}], %r1;",
        "suq.width.b32 %r1, [%rd1];",
    ] {
        let name = other.split_once(' ').map_or(other, |(name, _)| name).trim_end_matches(';');
        let text = error(other);
        assert!(text.contains(&format!("unknown instruction `{name}`")), "{text}");
    }
    assert!(
        error("mma.sync.aligned.m16n8k8.row.row.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};")
            .contains("unknown instruction `mma")
    );
    assert!(
        error("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1}, {%r1}, {%r1}, {%f1};")
            .contains("needs sm_89")
    );
}
