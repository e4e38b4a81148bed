//! Float instructions, comparisons and conversions against formulas that share nothing with the emulator, on edge
//! values.
#![allow(clippy::unwrap_used, clippy::type_complexity)]

mod common;

use common::ops::*;

fn flush(v: f32) -> f32 {
    if v.is_subnormal() { 0.0f32.copysign(v) } else { v }
}

/// An exact value `n / 2^60`, rounded to `f32` in a mode, by integer arithmetic.
fn round_exact(n: i128, mode: &str) -> f32 {
    if n == 0 {
        return if mode == "rm" { -0.0 } else { 0.0 };
    }
    let (negative, magnitude) = (n < 0, n.unsigned_abs());
    let drop = (128 - magnitude.leading_zeros()).saturating_sub(24);
    let kept = magnitude >> drop;
    let rest = magnitude - (kept << drop);
    let up = match mode {
        "rz" => false,
        "rm" => negative && rest != 0,
        "rp" => !negative && rest != 0,
        _ => {
            let half = if drop == 0 { 0 } else { 1u128 << (drop - 1) };
            rest > half || (drop > 0 && rest == half && kept & 1 == 1)
        }
    };
    let value = (kept + u128::from(up)) as f64 * 2f64.powi(drop as i32 - 60);
    (if negative { -value } else { value }) as f32
}

fn halves() -> Vec<u64> {
    vec![
        0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x8400, 0x3c00, 0xbc00, 0x3c01, 0x3bff, 0x4248, 0x6400, 0x6801,
        0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x2e66, 0x5555, 0x9999,
    ]
}

/// A half's value, by the definition of the format.
fn half(code: u64) -> f64 {
    let (sign, e, m) = (code >> 15 & 1, code >> 10 & 31, (code & 1023) as f64);
    let magnitude = match e {
        31 => {
            if m == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        0 => m * 2f64.powi(-24),
        e => (1024.0 + m) * 2f64.powi(e as i32 - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The half nearest to an exact value, by search over all of them.
fn to_half(value: f64) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let v = value.abs();
    // Halves are ordered like their codes; above 65520 lies infinity.
    let (mut low, mut high) = (0u64, 0x7c00u64);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if half(middle) <= v { low = middle } else { high = middle }
    }
    let above = if high == 0x7c00 { 65536.0 } else { half(high) };
    let (down, up) = (v - half(low), above - v);
    if v.is_infinite() || up < down || (up == down && low & 1 == 1) { sign | high } else { sign | low }
}

fn brain(code: u64) -> f32 {
    f32::from_bits((code as u32) << 16)
}

/// The bf16 nearest to an f32: add half of the last place, ties to even.
fn to_brain(value: f32) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    let bits = value.to_bits();
    u64::from((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) as u32 >> 16)
}

#[test]
fn comparisons() {
    let flag = |cmp: &str, ty: &str| format!("setp.{cmp}.{ty} %p, %a, %b;\nselp.u32 %d, 1, 0, %p;");
    for (bits, t) in [(16, T::H), (32, T::W), (64, T::D)] {
        let rows = pairs(&ints(bits));
        let src = [t; 3];
        for (cmp, g) in [
            ("eq", (|a, b| a == b) as fn(i128, i128) -> bool),
            ("ne", |a, b| a != b),
            ("lt", |a, b| a < b),
            ("le", |a, b| a <= b),
            ("gt", |a, b| a > b),
            ("ge", |a, b| a >= b),
        ] {
            check(&flag(cmp, &format!("u{bits}")), T::W, src, &rows, |a, b, _| g(a.into(), b.into()).into());
            check(&flag(cmp, &format!("s{bits}")), T::W, src, &rows, |a, b, _| {
                g(sext(a, bits), sext(b, bits)).into()
            });
        }
        check(&flag("hi", &format!("u{bits}")), T::W, src, &rows, |a, b, _| (a > b).into());
        check(&flag("ls", &format!("u{bits}")), T::W, src, &rows, |a, b, _| (a <= b).into());
    }
    let table: [(&str, fn(Option<std::cmp::Ordering>) -> bool); 14] = {
        use std::cmp::Ordering::{Equal, Greater, Less};
        [
            ("eq", |o| o == Some(Equal)),
            ("ne", |o| matches!(o, Some(Less | Greater))),
            ("lt", |o| o == Some(Less)),
            ("le", |o| matches!(o, Some(Less | Equal))),
            ("gt", |o| o == Some(Greater)),
            ("ge", |o| matches!(o, Some(Greater | Equal))),
            ("equ", |o| matches!(o, None | Some(Equal))),
            ("neu", |o| o != Some(Equal)),
            ("ltu", |o| matches!(o, None | Some(Less))),
            ("leu", |o| o != Some(Greater)),
            ("gtu", |o| matches!(o, None | Some(Greater))),
            ("geu", |o| o != Some(Less)),
            ("num", |o| o.is_some()),
            ("nan", |o| o.is_none()),
        ]
    };
    for (cmp, g) in table {
        check(&flag(cmp, "f32"), T::W, [T::F; 3], &pairs(&floats()), |a, b, _| {
            g(f(a).partial_cmp(&f(b))).into()
        });
        check(&flag(cmp, "f64"), T::W, [T::G; 3], &pairs(&doubles()), |a, b, _| {
            g(d(a).partial_cmp(&d(b))).into()
        });
        check(&flag(cmp, "f16"), T::W, [T::H; 3], &pairs(&halves()), |a, b, _| {
            g(half(a).partial_cmp(&half(b))).into()
        });
    }
    // A second destination is the opposite; a third operand combines.
    let rows = pairs(&ints(32));
    check("setp.lt.u32 %p|%q, %a, %b;\nselp.u32 %d, 1, 0, %q;", T::W, [T::W; 3], &rows, |a, b, _| {
        (a >= b).into()
    });
    let body = "setp.gt.u32 %p0, %a, 40;\nsetp.lt.and.u32 %p|%q, %a, %b, !%p0;\nselp.u32 %r3, 1, 0, %p;\nselp.u32 %r4, 2, 0, %q;\nadd.u32 %d, %r3, %r4;";
    check(body, T::W, [T::W; 3], &rows, |a, b, _| {
        let other = a <= 40;
        u64::from(a < b && other) + 2 * u64::from(a >= b && other)
    });
    check(
        "setp.gt.u32 %p0, %a, 40;\nsetp.lt.xor.u32 %p, %a, %b, %p0;\nselp.u32 %d, 1, 0, %p;",
        T::W,
        [T::W; 3],
        &rows,
        |a, b, _| ((a < b) ^ (a > 40)).into(),
    );
    check("set.lt.u32.s32 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        if (a as i32) < b as i32 { 0xffff_ffff } else { 0 }
    });
    check(
        "set.lt.f32.u32 %d, %a, %b;",
        T::F,
        [T::W; 3],
        &rows,
        |a, b, _| if a < b { 0x3f80_0000 } else { 0 },
    );
    check(
        "setp.lt.ftz.f32 %p, %a, %b;\nselp.u32 %d, 1, 0, %p;",
        T::W,
        [T::F; 3],
        &pairs(&floats()),
        |a, b, _| (flush(f(a)) < flush(f(b))).into(),
    );
}

#[test]
fn single_precision() {
    let rows = pairs(&floats());
    let src = [T::F; 3];
    let two = |op: &str, g: fn(f32, f32) -> f32| {
        check(&format!("{op}.f32 %d, %a, %b;"), T::F, src, &rows, |a, b, _| fb(g(f(a), f(b))));
    };
    two("add", |a, b| a + b);
    two("add.rn", |a, b| a + b);
    two("sub.rn", |a, b| a - b);
    two("mul.rn", |a, b| a * b);
    two("div.rn", |a, b| a / b);
    two("add.ftz", |a, b| flush(flush(a) + flush(b)));
    two("mul.rn.ftz", |a, b| flush(flush(a) * flush(b)));
    let saturate = |v: f32| if v.is_nan() { 0.0 } else { v.clamp(0.0, 1.0) + 0.0 };
    check("add.sat.f32 %d, %a, %b;", T::F, src, &rows, |a, b, _| fb(saturate(f(a) + f(b))));
    check("mul.ftz.sat.f32 %d, %a, %b;", T::F, src, &rows, |a, b, _| {
        fb(saturate(flush(flush(f(a)) * flush(f(b)))))
    });
    check("copysign.f32 %d, %a, %b;", T::F, src, &rows, |a, b, _| a & 0x8000_0000 | b & 0x7fff_ffff);
    // min and max: a number beats a NaN, -0 is below +0.
    let key = |v: f32| {
        if v.is_sign_negative() { -i64::from(v.abs().to_bits()) - 1 } else { i64::from(v.to_bits()) }
    };
    let choose = move |a: f32, b: f32, max: bool| match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => {
            if (key(a) > key(b)) == max {
                a
            } else {
                b
            }
        }
    };
    for (op, max) in [("min", false), ("max", true)] {
        check(&format!("{op}.f32 %d, %a, %b;"), T::F, src, &rows, |a, b, _| fb(choose(f(a), f(b), max)));
        check(&format!("{op}.NaN.f32 %d, %a, %b;"), T::F, src, &rows, |a, b, _| {
            if f(a).is_nan() || f(b).is_nan() { 0x7fff_ffff } else { fb(choose(f(a), f(b), max)) }
        });
        check(&format!("{op}.xorsign.abs.f32 %d, %a, %b;"), T::F, src, &rows, |a, b, _| {
            let magnitude = choose(f(a).abs(), f(b).abs(), max);
            // The sign of a NaN operand counts as well.
            let negative = (a ^ b) >> 31 & 1 == 1;
            fb(if negative { -magnitude } else { magnitude })
        });
    }
    check("abs.f32 %d, %a;", T::F, src, &rows, |a, _, _| a & 0x7fff_ffff);
    check("neg.f32 %d, %a;", T::F, src, &rows, |a, _, _| a ^ 0x8000_0000);
    check("sqrt.rn.f32 %d, %a;", T::F, src, &rows, |a, _, _| fb(f(a).sqrt()));
    check("rcp.rn.f32 %d, %a;", T::F, src, &rows, |a, _, _| fb(1.0 / f(a)));
    let some: Vec<u64> = floats().into_iter().step_by(2).collect();
    check("fma.rn.f32 %d, %a, %b, %c;", T::F, src, &triples(&some), |a, b, c| fb(f(a).mul_add(f(b), f(c))));
    check("mad.rn.f32 %d, %a, %b, %c;", T::F, src, &triples(&some), |a, b, c| fb(f(a).mul_add(f(b), f(c))));
    for (class, g) in [
        ("finite", (|v| v.is_finite()) as fn(f32) -> bool),
        ("infinite", |v| v.is_infinite()),
        ("number", |v| !v.is_nan()),
        ("notanumber", |v| v.is_nan()),
        ("normal", |v| v.is_normal() || v == 0.0),
        ("subnormal", |v| v.is_subnormal()),
    ] {
        let body = format!("testp.{class}.f32 %p, %a;\nselp.u32 %d, 1, 0, %p;");
        check(&body, T::W, src, &rows, |a, _, _| g(f(a)).into());
    }
}

#[test]
fn directed_rounding() {
    // Multiples of 2^-30, so that sums and products are multiples of 2^-60.
    let values: Vec<u64> = [
        1i64,
        -1,
        3,
        12345677,
        -8388609,
        16777215,
        1 << 40,
        -(1 << 40) - (1 << 20),
        7 << 33,
        0x00ff_fff1 << 10,
    ]
    .into_iter()
    .map(|m| u64::from((m as f32 * 2f32.powi(-30)).to_bits()))
    .collect();
    let scaled = |bits: u64| (f64::from(f(bits)) * 2f64.powi(30)) as i128;
    let src = [T::F; 3];
    for mode in ["rn", "rz", "rm", "rp"] {
        check(&format!("add.{mode}.f32 %d, %a, %b;"), T::F, src, &pairs(&values), |a, b, _| {
            fb(round_exact((scaled(a) + scaled(b)) << 30, mode))
        });
        check(&format!("sub.{mode}.f32 %d, %a, %b;"), T::F, src, &pairs(&values), |a, b, _| {
            fb(round_exact((scaled(a) - scaled(b)) << 30, mode))
        });
        check(&format!("mul.{mode}.f32 %d, %a, %b;"), T::F, src, &pairs(&values), |a, b, _| {
            fb(round_exact(scaled(a) * scaled(b), mode))
        });
        check(&format!("fma.{mode}.f32 %d, %a, %b, %c;"), T::F, src, &triples(&values), |a, b, c| {
            fb(round_exact(scaled(a) * scaled(b) + (scaled(c) << 30), mode))
        });
        // The quotient q brackets a / b: check by multiplying back, exactly.
        let rows = pairs(&values);
        for (row, got) in rows.iter().zip(run(&format!("div.{mode}.f32 %d, %a, %b;"), T::F, src, &rows)) {
            let (a, b, q) = (f64::from(f(row[0])), f64::from(f(row[1])), f64::from(f(got)));
            // a - q b is exact enough in f64 here: q b has 48 bits.
            let low = (a - q * b) * b.signum();
            match mode {
                "rm" => assert!(low >= 0.0),
                "rp" => assert!(low <= 0.0),
                "rz" => assert!(low * q.signum() >= 0.0),
                _ => {}
            }
            let ulp = f64::from(f32::from_bits(got as u32 + 1)) - q;
            assert!(low.abs() <= (ulp * b).abs(), "{mode} {a:e} / {b:e} = {q:e}");
        }
    }
    // Overflow and the sign of an exact zero.
    let max = u64::from(f32::MAX.to_bits());
    assert_eq!(run("add.rz.f32 %d, %a, %a;", T::F, src, &[[max, 0, 0]]), [max]);
    assert_eq!(run("add.rp.f32 %d, %a, %a;", T::F, src, &[[max, 0, 0]]), [0x7f80_0000]);
    let one = 0x3f80_0000;
    assert_eq!(run("sub.rm.f32 %d, %a, %a;", T::F, src, &[[one, 0, 0]]), [0x8000_0000]);
}

#[test]
fn approximations_within_their_bounds() {
    let values: Vec<[u64; 3]> = (0..600)
        .map(|i| {
            let v = (i as f32 - 300.0) * 0.0371 + 0.001;
            [u64::from(v.to_bits()), u64::from((v * 1.7 + 0.3).to_bits()), 0]
        })
        .collect();
    let src = [T::F; 3];
    let relative = |op: &str, bound: f64, exact: &dyn Fn(f64, f64) -> f64| {
        let two = if op.starts_with("div") { ", %b" } else { "" };
        for (row, got) in values.iter().zip(run(&format!("{op}.f32 %d, %a{two};"), T::F, src, &values)) {
            let want = exact(f(row[0]).into(), f(row[1]).into());
            let got = f64::from(f(got));
            if want.is_nan() {
                assert!(got.is_nan(), "{op}");
            } else {
                assert!((got - want).abs() <= bound * want.abs(), "{op} {:e}: {got:e} {want:e}", f(row[0]));
            }
        }
    };
    let p = |e: i32| 2f64.powi(e);
    relative("ex2.approx", p(-22), &|a, _| a.exp2());
    relative("ex2.approx.ftz", p(-22), &|a, _| a.exp2());
    relative("rcp.approx", p(-23), &|a, _| 1.0 / a);
    relative("sqrt.approx", p(-23), &|a, _| a.sqrt());
    relative("rsqrt.approx", p(-22), &|a, _| 1.0 / a.sqrt());
    relative("tanh.approx", p(-11), &|a, _| a.tanh());
    relative("div.approx", p(-22), &|a, b| a / b);
    relative("div.full", p(-22), &|a, b| a / b);
    for (op, g) in [("sin", f64::sin as fn(f64) -> f64), ("cos", f64::cos)] {
        for (row, got) in values.iter().zip(run(&format!("{op}.approx.f32 %d, %a;"), T::F, src, &values)) {
            let a = f64::from(f(row[0]));
            if a.abs() <= std::f64::consts::PI {
                assert!((f64::from(f(got)) - g(a)).abs() <= 2f64.powf(-20.5), "{op} {a}");
            }
        }
    }
    for (row, got) in values.iter().zip(run("lg2.approx.f32 %d, %a;", T::F, src, &values)) {
        let a = f64::from(f(row[0]));
        if a > 0.0 {
            let (got, want) = (f64::from(f(got)), a.log2());
            let bound = if (0.5..=2.0).contains(&a) { p(-22) } else { p(-22) * want.abs() };
            assert!((got - want).abs() <= bound, "lg2 {a}: {got} {want}");
        } else {
            assert!(f(got).is_nan());
        }
    }
    // Special values of the tables.
    let inf = u64::from(f32::INFINITY.to_bits());
    let minus = u64::from(f32::NEG_INFINITY.to_bits());
    let rows = [[inf, 0, 0], [minus, 0, 0], [0, 0, 0], [0x8000_0000, 0, 0]];
    assert_eq!(run("ex2.approx.f32 %d, %a;", T::F, src, &rows), [inf, 0, 0x3f80_0000, 0x3f80_0000]);
    assert_eq!(run("rcp.approx.f32 %d, %a;", T::F, src, &rows), [0, 0x8000_0000, inf, minus]);
    assert_eq!(run("rsqrt.approx.f32 %d, %a;", T::F, src, &rows), [0, 0x7fff_ffff, inf, minus]);
    assert_eq!(run("lg2.approx.f32 %d, %a;", T::F, src, &rows), [inf, 0x7fff_ffff, minus, minus]);
    assert_eq!(run("tanh.approx.f32 %d, %a;", T::F, src, &rows), [0x3f80_0000, 0xbf80_0000, 0, 0x8000_0000]);
    assert_eq!(run("sin.approx.f32 %d, %a;", T::F, src, &rows), [0x7fff_ffff, 0x7fff_ffff, 0, 0x8000_0000]);
    let huge = u64::from(2f32.powi(127).to_bits());
    assert_eq!(
        run("div.approx.f32 %d, %a, %b;", T::F, src, &[[0x3f80_0000, huge, 0], [inf, huge, 0]]),
        [0, 0x7fff_ffff]
    );
    let doubles: Vec<[u64; 3]> = (1..200).map(|i| [(f64::from(i) * 0.37).to_bits(), 0, 0]).collect();
    for (op, g) in
        [("rcp.approx.ftz", (|a| 1.0 / a) as fn(f64) -> f64), ("rsqrt.approx.ftz", |a| 1.0 / a.sqrt())]
    {
        for (row, got) in doubles.iter().zip(run(&format!("{op}.f64 %d, %a;"), T::G, [T::G; 3], &doubles)) {
            assert_eq!(got & 0xffff_ffff, 0);
            assert!((d(got) / g(d(row[0])) - 1.0).abs() < 2f64.powi(-19));
        }
    }
}

#[test]
fn double_precision() {
    let rows = pairs(&doubles());
    let src = [T::G; 3];
    for (op, g) in [
        ("add", (|a, b| a + b) as fn(f64, f64) -> f64),
        ("sub", |a, b| a - b),
        ("mul", |a, b| a * b),
        ("div.rn", |a, b| a / b),
        ("min", |a, b| {
            if a.is_nan() {
                b
            } else if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
                a
            } else {
                b
            }
        }),
        ("max", |a, b| {
            if a.is_nan() {
                b
            } else if b.is_nan() || a > b || (a == b && a.is_sign_positive()) {
                a
            } else {
                b
            }
        }),
        ("copysign", |a, b| b.copysign(a)),
    ] {
        check(&format!("{op}.f64 %d, %a, %b;"), T::G, src, &rows, |a, b, _| {
            let want = g(d(a), d(b));
            if op == "copysign" { want.to_bits() } else { db(want) }
        });
    }
    check("sqrt.rn.f64 %d, %a;", T::G, src, &rows, |a, _, _| db(d(a).sqrt()));
    check("rcp.rn.f64 %d, %a;", T::G, src, &rows, |a, _, _| db(1.0 / d(a)));
    check("abs.f64 %d, %a;", T::G, src, &rows, |a, _, _| a & !(1 << 63));
    check("neg.f64 %d, %a;", T::G, src, &rows, |a, _, _| a ^ 1 << 63);
    let some: Vec<u64> = doubles().into_iter().step_by(2).collect();
    check("fma.rn.f64 %d, %a, %b, %c;", T::G, src, &triples(&some), |a, b, c| db(d(a).mul_add(d(b), d(c))));
    // Directed modes bracket the nearest result, at most one step away.
    for op in ["add", "mul", "div"] {
        let finite: Vec<[u64; 3]> =
            rows.iter().filter(|row| d(row[0]).is_finite() && d(row[1]).is_finite()).copied().collect();
        let nearest = run(&format!("{op}.rn.f64 %d, %a, %b;"), T::G, src, &finite);
        let down = run(&format!("{op}.rm.f64 %d, %a, %b;"), T::G, src, &finite);
        let up = run(&format!("{op}.rp.f64 %d, %a, %b;"), T::G, src, &finite);
        for i in 0..finite.len() {
            let (n, l, u) = (d(nearest[i]), d(down[i]), d(up[i]));
            if n.is_nan() {
                continue;
            }
            assert!(l <= n && n <= u, "{op} {l:e} {n:e} {u:e}");
            assert!(l == u || l == n || u == n);
        }
    }
    let (one, tiny) = (1f64.to_bits(), 1e-300f64.to_bits());
    assert_eq!(run("add.rp.f64 %d, %a, %b;", T::G, src, &[[one, tiny, 0]]), [one + 1]);
    assert_eq!(run("sub.rz.f64 %d, %a, %b;", T::G, src, &[[one, tiny, 0]]), [one - 1]);
    assert_eq!(run("fma.rm.f64 %d, %a, %a, %b;", T::G, src, &[[one, tiny, 0]]), [one]);
}

#[test]
fn half_precision() {
    let rows = pairs(&halves());
    let src = [T::H; 3];
    // Sums and products of halves are exact in f64.
    check("add.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| to_half(half(a) + half(b)));
    check("sub.rn.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| to_half(half(a) - half(b)));
    check("mul.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| to_half(half(a) * half(b)));
    let some: Vec<u64> = halves().into_iter().step_by(2).collect();
    // So are these: no two of these values are more than 2^53 apart.
    check("fma.rn.f16 %d, %a, %b, %c;", T::H, src, &triples(&some), |a, b, c| {
        to_half(half(a) * half(b) + half(c))
    });
    check("fma.rn.relu.f16 %d, %a, %b, %c;", T::H, src, &triples(&some), |a, b, c| {
        let r = to_half(half(a) * half(b) + half(c));
        if r & 0x8000 != 0 { 0 } else { r }
    });
    check("add.sat.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| {
        let sum = half(a) + half(b);
        if sum.is_nan() || sum <= 0.0 { 0 } else { to_half(sum.min(1.0)) }
    });
    let flush16 = |code: u64| if code & 0x7c00 == 0 { code & 0x8000 } else { code };
    check("mul.ftz.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| {
        flush16(to_half(half(flush16(a)) * half(flush16(b))))
    });
    check("neg.f16 %d, %a;", T::H, src, &rows, |a, _, _| a ^ 0x8000);
    check("abs.f16 %d, %a;", T::H, src, &rows, |a, _, _| a & 0x7fff);
    check("min.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| {
        let (x, y) = (half(a), half(b));
        let r = if x.is_nan() {
            b
        } else if y.is_nan() || x < y || (x == y && a & 0x8000 != 0) {
            a
        } else {
            b
        };
        if half(r).is_nan() { 0x7fff } else { r }
    });
    check("max.NaN.f16 %d, %a, %b;", T::H, src, &rows, |a, b, _| {
        let (x, y) = (half(a), half(b));
        if x.is_nan() || y.is_nan() {
            0x7fff
        } else if x > y || (x == y && a & 0x8000 == 0) {
            a
        } else {
            b
        }
    });
    // Pairs work element by element.
    let packed: Vec<[u64; 3]> =
        rows.iter().map(|[a, b, _]| [a | b << 16, b | a << 16, 0x3c00_4000]).collect();
    for (op, g) in [
        ("add", (|a, b, _| a + b) as fn(f64, f64, f64) -> f64),
        ("mul", |a, b, _| a * b),
        ("sub", |a, b, _| a - b),
    ] {
        check(&format!("{op}.f16x2 %d, %a, %b;"), T::W, [T::W; 3], &packed, |a, b, _| {
            to_half(g(half(a & 0xffff), half(b & 0xffff), 0.0))
                | to_half(g(half(a >> 16), half(b >> 16), 0.0)) << 16
        });
    }
    check("fma.rn.f16x2 %d, %a, %b, %c;", T::W, [T::W; 3], &packed, |a, b, c| {
        let at = |v: u64, i: u32| half(v >> (16 * i) & 0xffff);
        (0..2).fold(0, |r, i| r | to_half(at(a, i) * at(b, i) + at(c, i)) << (16 * i))
    });
    for (row, got) in rows.iter().zip(run("ex2.approx.f16 %d, %a;", T::H, src, &rows)) {
        let want = half(row[0]).exp2();
        if want < 65504.0 && want > 1e-4 {
            assert!((half(got) / want - 1.0).abs() < 2f64.powf(-9.9), "{want}");
        }
    }
    for (row, got) in rows.iter().zip(run("tanh.approx.f16 %d, %a;", T::H, src, &rows)) {
        let want = half(row[0]).tanh();
        assert!(want.is_nan() || (half(got) - want).abs() <= 2f64.powf(-10.987));
    }
}

#[test]
fn brain_floats() {
    let values = vec![
        0, 0x8000, 1, 0x7f, 0x80, 0x3f80, 0xbf80, 0x3f81, 0x4049, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0,
        0x4380,
    ];
    let rows = pairs(&values);
    let src = [T::H; 3];
    check("add.rn.bf16 %d, %a, %b;", T::H, src, &rows, |a, b, _| to_brain(brain(a) + brain(b)));
    // A product of two 8-bit significands is exact in f32 where it is normal.
    check("mul.rn.bf16 %d, %a, %b;", T::H, src, &rows, |a, b, _| {
        let product = f64::from(brain(a)) * f64::from(brain(b));
        if product != 0.0 && product.abs() < f64::from(f32::MIN_POSITIVE) {
            // Subnormals: units of 2^-133, ties to even.
            let units = (product * 2f64.powi(133)).round_ties_even();
            return (units.abs() as u64) | if product < 0.0 { 0x8000 } else { 0 };
        }
        to_brain(product as f32)
    });
    check(
        "fma.rn.bf16x2 %d, %a, %b, %c;",
        T::W,
        [T::W; 3],
        &[[0x3f80_4000, 0x4040_4040, 0x3f80_bf80]],
        |_, _, _| 0x4080_40a0,
    );
    let floats: Vec<[u64; 3]> = floats().into_iter().map(|a| [a, 0, 0]).collect();
    check("cvt.rn.bf16.f32 %d, %a;", T::H, [T::F; 3], &floats, |a, _, _| to_brain(f(a)));
    check(
        "cvt.rz.bf16.f32 %d, %a;",
        T::H,
        [T::F; 3],
        &floats,
        |a, _, _| if f(a).is_nan() { 0x7fff } else { a >> 16 },
    );
    check("cvt.f32.bf16 %d, %a;", T::F, [T::H; 3], &rows, |a, _, _| fb(brain(a)));
}

#[test]
fn conversions_between_floats_and_integers() {
    let singles: Vec<[u64; 3]> = floats().into_iter().map(|a| [a, 0, 0]).collect();
    let doubles: Vec<[u64; 3]> = doubles().into_iter().map(|a| [a, 0, 0]).collect();
    let modes: [(&str, fn(f64) -> f64); 4] =
        [("rni", f64::round_ties_even), ("rzi", f64::trunc), ("rmi", f64::floor), ("rpi", f64::ceil)];
    for (mode, g) in modes {
        check(&format!("cvt.{mode}.s32.f32 %d, %a;"), T::W, [T::F; 3], &singles, |a, _, _| {
            g(f(a).into()) as i32 as u32 as u64
        });
        check(&format!("cvt.{mode}.u32.f32 %d, %a;"), T::W, [T::F; 3], &singles, |a, _, _| {
            g(f(a).into()) as u32 as u64
        });
        check(&format!("cvt.{mode}.s64.f32 %d, %a;"), T::D, [T::F; 3], &singles, |a, _, _| {
            if f(a).is_nan() { 1 << 63 } else { g(f(a).into()) as i64 as u64 }
        });
        check(&format!("cvt.{mode}.u64.f64 %d, %a;"), T::D, [T::G; 3], &doubles, |a, _, _| {
            if d(a).is_nan() { 1 << 63 } else { g(d(a)) as u64 }
        });
        check(&format!("cvt.{mode}.s16.f64 %d, %a;"), T::H, [T::G; 3], &doubles, |a, _, _| {
            if d(a).is_nan() { 1 << 15 } else { g(d(a)) as i16 as u16 as u64 }
        });
        check(&format!("cvt.{mode}.f32.f32 %d, %a;"), T::F, [T::F; 3], &singles, |a, _, _| {
            fb(g(f(a).into()) as f32)
        });
        check(&format!("cvt.{mode}.f64.f64 %d, %a;"), T::G, [T::G; 3], &doubles, |a, _, _| {
            if d(a).is_nan() { a } else { g(d(a)).to_bits() }
        });
    }
    let wide: Vec<[u64; 3]> = ints(64).into_iter().map(|a| [a, 0, 0]).collect();
    let words: Vec<[u64; 3]> = ints(32).into_iter().map(|a| [a, 0, 0]).collect();
    check("cvt.rn.f32.s32 %d, %a;", T::F, [T::W; 3], &words, |a, _, _| fb(a as i32 as f32));
    check("cvt.rn.f32.u64 %d, %a;", T::F, [T::D; 3], &wide, |a, _, _| fb(a as f32));
    check("cvt.rn.f32.s64 %d, %a;", T::F, [T::D; 3], &wide, |a, _, _| fb(a as i64 as f32));
    check("cvt.rn.f64.u64 %d, %a;", T::G, [T::D; 3], &wide, |a, _, _| (a as f64).to_bits());
    check("cvt.rn.f16.s32 %d, %a;", T::H, [T::W; 3], &words, |a, _, _| to_half(f64::from(a as i32)));
    check("cvt.rz.f32.u32 %d, %a;", T::F, [T::W; 3], &words, |a, _, _| {
        let keep = 64 - a.leading_zeros().min(63);
        let cut = if keep > 24 { a >> (keep - 24) << (keep - 24) } else { a };
        fb(cut as f32)
    });
    check("cvt.rn.f32.f64 %d, %a;", T::F, [T::G; 3], &doubles, |a, _, _| fb(d(a) as f32));
    check("cvt.rz.f32.f64 %d, %a;", T::F, [T::G; 3], &doubles, |a, _, _| {
        let v = d(a);
        let near = v as f32;
        if near.is_nan() || v.is_infinite() {
            return fb(near);
        }
        // One step toward zero when rounding went away from it.
        fb(if f64::from(near).abs() > v.abs() { f32::from_bits(near.to_bits() - 1) } else { near })
    });
    check("cvt.f64.f32 %d, %a;", T::G, [T::F; 3], &singles, |a, _, _| db(f(a).into()));
    check("cvt.sat.f32.f32 %d, %a;", T::F, [T::F; 3], &singles, |a, _, _| {
        fb(if f(a).is_nan() { 0.0 } else { f(a).clamp(0.0, 1.0) + 0.0 })
    });
    check("cvt.ftz.f32.f16 %d, %a;", T::F, [T::H; 3], &pairs(&halves()), |a, _, _| fb(half(a) as f32));
    check("cvt.f32.f16 %d, %a;", T::F, [T::H; 3], &pairs(&halves()), |a, _, _| fb(half(a) as f32));
    check("cvt.rn.f16.f32 %d, %a;", T::H, [T::F; 3], &singles, |a, _, _| to_half(f(a).into()));
    check("cvt.rn.f16.f64 %d, %a;", T::H, [T::G; 3], &doubles, |a, _, _| to_half(d(a)));
    check("cvt.rni.s16.f16 %d, %a;", T::H, [T::H; 3], &pairs(&halves()), |a, _, _| {
        half(a).round_ties_even() as i16 as u16 as u64
    });
    // Every half, rounded from halves of its last place.
    let ties: Vec<[u64; 3]> = (0..0x7bff_u64)
        .step_by(7)
        .map(|code| [u64::from((((half(code) + half(code + 1)) / 2.0) as f32).to_bits()), 0, 0])
        .collect();
    check("cvt.rn.f16.f32 %d, %a;", T::H, [T::F; 3], &ties, |a, _, _| to_half(f(a).into()));
    check("cvt.rn.relu.f16.f32 %d, %a;", T::H, [T::F; 3], &singles, |a, _, _| {
        let r = to_half(f(a).into());
        if r & 0x8000 != 0 { 0 } else { r }
    });
    let rows = pairs(&floats());
    check("cvt.rn.f16x2.f32 %d, %a, %b;", T::W, [T::F; 3], &rows, |a, b, _| {
        to_half(f(a).into()) << 16 | to_half(f(b).into())
    });
    check("cvt.rn.bf16x2.f32 %d, %a, %b;", T::W, [T::F; 3], &rows, |a, b, _| {
        to_brain(f(a)) << 16 | to_brain(f(b))
    });
    check("cvt.rna.tf32.f32 %d, %a;", T::W, [T::F; 3], &singles, |a, _, _| {
        // Half of the last place is added; a NaN is the canonical one.
        if f(a).is_nan() {
            0x7fff_ffff & !0x1fff
        } else if f(a).is_infinite() {
            a
        } else {
            (a + 0x1000) & !0x1fff
        }
    });
}

#[test]
fn eight_bit_floats() {
    // By definition: E4M3 has bias 7 and no infinity, E5M2 is the top of a half.
    let e4m3 = |code: u64| {
        let (e, m) = (code >> 3 & 15, (code & 7) as f64);
        let v = if e == 0 { m * 2f64.powi(-9) } else { (8.0 + m) * 2f64.powi(e as i32 - 10) };
        if code & 0x7f == 0x7f {
            f64::NAN
        } else if code & 0x80 != 0 {
            -v
        } else {
            v
        }
    };
    let codes: Vec<[u64; 3]> = (0..256u64).map(|c| [c | (255 - c) << 8, 0, 0]).collect();
    check("cvt.rn.f16x2.e4m3x2 %d, %a;", T::W, [T::H; 3], &codes, |a, _, _| {
        to_half(e4m3(a & 255)) | to_half(e4m3(a >> 8)) << 16
    });
    check("cvt.rn.f16x2.e5m2x2 %d, %a;", T::W, [T::H; 3], &codes, |a, _, _| {
        to_half(half((a & 255) << 8)) | to_half(half(a & 0xff00)) << 16
    });
    let rows = pairs(&floats());
    check("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", T::H, [T::F; 3], &rows, |a, b, _| {
        let one = |v: f32| -> u64 {
            let v = f64::from(v);
            if v.is_nan() {
                return 0x7f;
            }
            let best = (0..0x7fu64).min_by(|x, y| {
                let (dx, dy) = ((e4m3(*x) - v.abs()).abs(), (e4m3(*y) - v.abs()).abs());
                dx.partial_cmp(&dy).unwrap().then((x & 1).cmp(&(y & 1)))
            });
            let best = if v.abs() > 448.0 { 0x7e } else { best.unwrap() };
            best | if v.is_sign_negative() { 0x80 } else { 0 }
        };
        one(f(a)) << 8 | one(f(b))
    });
}

#[test]
fn pairs_of_singles() {
    let rows: Vec<[u64; 3]> = triples(&floats().into_iter().step_by(3).collect::<Vec<_>>())
        .into_iter()
        .map(|[a, b, c]| [a | b << 32, b | c << 32, c | a << 32])
        .collect();
    let each = |a: u64, b: u64, c: u64, g: fn(f32, f32, f32) -> f32| {
        fb(g(f(a), f(b), f(c))) | fb(g(f(a >> 32), f(b >> 32), f(c >> 32))) << 32
    };
    check("fma.rn.f32x2 %d, %a, %b, %c;", T::D, [T::D; 3], &rows, |a, b, c| each(a, b, c, f32::mul_add));
    check("add.rn.f32x2 %d, %a, %b;", T::D, [T::D; 3], &rows, |a, b, c| each(a, b, c, |a, b, _| a + b));
    check("mul.rn.ftz.f32x2 %d, %a, %b;", T::D, [T::D; 3], &rows, |a, b, c| {
        each(a, b, c, |a, b, _| flush(flush(a) * flush(b)))
    });
    check("sub.f32x2 %d, %a, %b;", T::D, [T::D; 3], &rows, |a, b, c| each(a, b, c, |a, b, _| a - b));
}

#[test]
fn packed_halves_compare_and_choose() {
    let rows: Vec<[u64; 3]> =
        pairs(&halves()).into_iter().map(|[a, b, _]| [a | b << 16, b | a << 16, 0]).collect();
    let at = |v: u64, i: u32| v >> (16 * i) & 0xffff;
    let body = "setp.lt.f16x2 %p|%q, %a, %b;\nselp.u32 %r3, 1, 0, %p;\nselp.u32 %r4, 2, 0, %q;\nadd.u32 %d, %r3, %r4;";
    check(body, T::W, [T::W; 3], &rows, |a, b, _| {
        u64::from(half(at(a, 0)) < half(at(b, 0))) + 2 * u64::from(half(at(a, 1)) < half(at(b, 1)))
    });
    check("set.ge.f16x2.f16x2 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        (0..2).fold(0, |r, i| r | if half(at(a, i)) >= half(at(b, i)) { 0x3c00 << (16 * i) } else { 0 })
    });
    check("max.f16x2 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        (0..2).fold(0, |r, i| {
            let (x, y) = (at(a, i), at(b, i));
            let first = half(y).is_nan() || half(x) > half(y) || (half(x) == half(y) && x & 0x8000 == 0);
            let chosen = if half(x).is_nan() || !first { y } else { x };
            r | (if half(chosen).is_nan() { 0x7fff } else { chosen }) << (16 * i)
        })
    });
    check("neg.f16x2 %d, %a;", T::W, [T::W; 3], &rows, |a, _, _| a ^ 0x8000_8000);
    check("abs.bf16x2 %d, %a;", T::W, [T::W; 3], &rows, |a, _, _| a & 0x7fff_7fff);
    check("min.NaN.bf16x2 %d, %a, %b;", T::W, [T::W; 3], &rows, |a, b, _| {
        (0..2).fold(0, |r, i| {
            let (x, y) = (at(a, i), at(b, i));
            let first = brain(x) < brain(y) || (brain(x) == brain(y) && x & 0x8000 != 0);
            let nan = brain(x).is_nan() || brain(y).is_nan();
            r | (if nan {
                0x7fff
            } else if first {
                x
            } else {
                y
            }) << (16 * i)
        })
    });
    let body = "setp.gt.bf16 %p, %a, %b;\nselp.u32 %d, 1, 0, %p;";
    check(body, T::W, [T::H; 3], &pairs(&halves()), |a, b, _| (brain(a) > brain(b)).into());
    check(
        "mov.b32 {%h1, %h2}, %a;\nmul.rn.bf16x2 %d, %a, %b;",
        T::W,
        [T::W; 3],
        &[[0x4000_3f80, 0x4040_c040, 0]],
        |_, _, _| 0x40c0_c040,
    );
}

#[test]
fn eight_bit_floats_from_halves() {
    // A half to E5M2: the nearest of the 256 codes, ties to the even one.
    let rows: Vec<[u64; 3]> = pairs(&halves()).into_iter().map(|[a, b, _]| [a | b << 16, 0, 0]).collect();
    check("cvt.rn.satfinite.e5m2x2.f16x2 %d, %a;", T::H, [T::W; 3], &rows, |a, _, _| {
        let one = |code: u64| -> u64 {
            let v = half(code);
            if v.is_nan() {
                return 0x7f;
            }
            let sign = code >> 8 & 0x80;
            let best = (0..0x7cu64).min_by(|x, y| {
                let v = v.abs().min(57344.0);
                let (dx, dy) = ((half(x << 8) - v).abs(), (half(y << 8) - v).abs());
                dx.partial_cmp(&dy).unwrap().then((x & 1).cmp(&(y & 1)))
            });
            sign | best.unwrap()
        };
        one(a & 0xffff) | one(a >> 16) << 8
    });
}
