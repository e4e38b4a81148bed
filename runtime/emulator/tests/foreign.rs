//! PTX that other compilers made: NVIDIA's from our CUDA kernels, Triton's from
//! our matmul. `tests/foreign/make.sh` makes the files.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, Machine, kinds, seeded, strict};
use phobos_emulator::{
    FaultKind,
    number::{F16, Round, f16_to_f32, narrow},
};

const KERNELS: &str = include_str!("foreign/kernels.ptx");
const KERNELS80: &str = include_str!("foreign/kernels80.ptx");

fn machine() -> Machine {
    Machine::new("kernels.ptx", KERNELS)
}

fn to_half(value: f32) -> u16 {
    narrow(value.into(), F16, Round::NearestEven) as u16
}

#[test]
fn block_reduction_with_atomics() {
    for seed in 0..6 {
        let mut m = machine();
        let x = Data::new(seed).units(5000);
        let (px, out) = (m.f32s(&x), m.f32s(&[0.0]));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("block_reduce", [7, 1, 1], [256, 1, 1], &[px, out, 5000], &options);
        m.clean("block_reduce", &outcome);
        let expected: f64 = x.iter().map(|v| f64::from(*v)).sum();
        let sum = f64::from(m.read_f32s(out, 1)[0]);
        assert!((sum - expected).abs() < 1e-3, "{sum} {expected}");
    }
}

#[test]
fn float_atomics_do_not_depend_on_the_number_of_workers() {
    let sum = |workers: usize| {
        let mut m = machine();
        let x = Data::new(8).units(20000);
        let (px, out) = (m.f32s(&x), m.f32s(&[0.0]));
        let options = phobos_emulator::Options { workers, ..strict() };
        let outcome = m.launch("block_reduce", [70, 1, 1], [256, 1, 1], &[px, out, 20000], &options);
        m.clean("block_reduce", &outcome);
        m.read_u32s(out, 1)[0]
    };
    assert!([2, 3, 8].into_iter().all(|workers| sum(workers) == sum(1)));
}

#[test]
fn shared_histogram() {
    for seed in 0..4 {
        let mut m = machine();
        let mut data = Data::new(seed);
        let x: Vec<u8> = (0..4001).map(|_| (data.bits() >> 33) as u8 & (data.bits() >> 40) as u8).collect();
        let (px, counts) = (m.bytes(&x), m.u32s(&[0; 256]));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("histogram", [3, 1, 1], [128, 1, 1], &[px, counts, 4001], &options);
        m.clean("histogram", &outcome);
        let mut expected = vec![0u32; 256];
        x.iter().for_each(|v| expected[usize::from(*v)] += 1);
        assert_eq!(m.read_u32s(counts, 256), expected);
    }
}

#[test]
fn divergent_loop() {
    let mut m = machine();
    let x: Vec<u32> = (1..=200).collect();
    let (px, out) = (m.u32s(&x), m.output(800));
    for options in [strict(), seeded(3), seeded(11)] {
        let outcome = m.launch("collatz", [2, 1, 1], [128, 1, 1], &[px, out, 200], &options);
        m.clean("collatz", &outcome);
        let steps = |mut v: u32| {
            let mut count = 0;
            while v > 1 {
                v = if v.is_multiple_of(2) { v / 2 } else { 3 * v + 1 };
                count += 1;
            }
            count
        };
        assert_eq!(m.read_u32s(out, 200), x.iter().map(|v| steps(*v)).collect::<Vec<u32>>());
        assert!(outcome.counters.total().warp_efficiency() < 0.9);
    }
}

#[test]
fn half_and_double_math() {
    let mut m = machine();
    let mut data = Data::new(5);
    let halves: Vec<u16> = (0..200).map(|_| to_half(data.unit() * 4.0)).collect();
    let (x, y, z) = (m.u16s(&halves), m.output(400), m.output(800));
    let (a, b) = (1.5f32, -0.3f32);
    let args = [x, y, z, a.to_bits().into(), b.to_bits().into(), 100];
    let outcome = m.launch("half_and_double", [1, 1, 1], [128, 1, 1], &args, &strict());
    m.clean("half_and_double", &outcome);
    let (ha, hb) = (f64::from(f16_to_f32(to_half(a))), f64::from(f16_to_f32(to_half(b))));
    let got = m.read_bytes(y, 400);
    for (i, half) in halves.iter().enumerate() {
        // Products and sums of halves are exact in f64.
        let expected = narrow(f64::from(f16_to_f32(*half)) * ha + hb, F16, Round::NearestEven) as u16;
        assert_eq!(u16::from_le_bytes([got[2 * i], got[2 * i + 1]]), expected, "{i}");
    }
    for (i, bits) in m.read_u64s(z, 100).into_iter().enumerate() {
        let d = f64::from(f16_to_f32(halves[2 * i]));
        // The compiler contracts 1 + d * d.
        assert_eq!(f64::from_bits(bits), d.abs().sqrt() / d.mul_add(d, 1.0), "{i}");
    }
}

#[test]
fn integer_division() {
    let mut m = machine();
    let mut data = Data::new(9);
    let mut a: Vec<u64> = (0..60).map(|i| data.bits() >> (i % 60)).collect();
    let mut b: Vec<u64> = (0..60).map(|i| (data.bits() >> ((i * 7) % 61)) | 1).collect();
    a.extend([i64::MIN as u64, i64::MAX as u64, u64::MAX, 0, 5]);
    b.extend([3, u64::MAX, 2, 9, i64::MIN as u64]);
    let n = a.len();
    let (pa, pb, out) = (m.u64s(&a), m.u64s(&b), m.output(48 * n as u64));
    let outcome = m.launch("divisions", [2, 1, 1], [64, 1, 1], &[pa, pb, out, n as u64], &strict());
    m.clean("divisions", &outcome);
    let got = m.read_u64s(out, 6 * n);
    for i in 0..n {
        let (x, y) = (a[i] as i64, b[i] as i64);
        assert_eq!(got[6 * i] as i64, x.wrapping_div(y));
        assert_eq!(got[6 * i + 1] as i64, x.wrapping_rem(y));
        assert_eq!(got[6 * i + 2], a[i] / b[i]);
        assert_eq!(got[6 * i + 3] as i64, i64::from((x as i32).wrapping_div(y as i32 | 1)));
        assert_eq!(got[6 * i + 4], u64::from(a[i] as u32 % (b[i] as u32 | 1)));
        let high = ((i128::from(x) * i128::from(y)) >> 64) as i64;
        assert_eq!(got[6 * i + 5] as i64, (x / 10).wrapping_add(high));
    }
}

#[test]
fn warp_votes() {
    let mut m = machine();
    let mut data = Data::new(2);
    let x: Vec<i32> = (0..64).map(|_| (data.bits() % 20) as i32 - 10).collect();
    let (px, out) = (m.u32s(&x.iter().map(|v| *v as u32).collect::<Vec<_>>()), m.output(16 * 64));
    for options in [strict(), seeded(1), seeded(2)] {
        let outcome = m.launch("votes", [1, 1, 1], [64, 1, 1], &[px, out], &options);
        m.clean("votes", &outcome);
        let got = m.read_u32s(out, 256);
        for i in 0..64 {
            let warp = &x[i / 32 * 32..i / 32 * 32 + 32];
            let mask = |f: &dyn Fn(i32) -> bool| {
                warp.iter().enumerate().fold(0u32, |mask, (lane, v)| mask | u32::from(f(*v)) << lane)
            };
            let ballot = mask(&|v| v > 0);
            assert_eq!(got[4 * i], ballot);
            assert_eq!(got[4 * i + 1], 2 + u32::from(warp.contains(&7)));
            assert_eq!(got[4 * i + 2], mask(&|v| v == x[i]));
            assert_eq!(got[4 * i + 3], (ballot & ((1u32 << (i % 32)) - 1)).count_ones());
        }
    }
}

fn matmul_reference(a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let mut c = vec![0.0; n * n];
    for row in 0..n {
        for column in 0..n {
            c[row * n + column] =
                (0..n).fold(0.0f32, |sum, k| a[row * n + k].mul_add(b[k * n + column], sum));
        }
    }
    c
}

#[test]
fn tiled_matmul() {
    let n = 48;
    let (a, b) = (Data::new(1).units(n * n), Data::new(2).units(n * n));
    let expected = matmul_reference(&a, &b, n);
    for seed in 0..8 {
        let mut m = machine();
        let (pa, pb, pc) = (m.f32s(&a), m.f32s(&b), m.output(4 * (n * n) as u64));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("tiled_matmul", [3, 3, 1], [16, 16, 1], &[pa, pb, pc, n as u64], &options);
        m.clean("tiled_matmul", &outcome);
        assert_eq!(m.read_f32s(pc, n * n), expected);
    }
}

#[test]
fn a_removed_barrier_is_a_race_that_names_both_lines() {
    let n = 48;
    let (a, b) = (Data::new(1).units(n * n), Data::new(2).units(n * n));
    // The source lines of the store to the tile and of the multiplication.
    let source = include_str!("foreign/kernels.cu");
    let racy = source.find("racy_matmul").unwrap();
    let line = |text: &str| source[..racy + source[racy..].find(text).unwrap()].lines().count() as u32;
    let (store, load) = (line("ta[threadIdx.y][threadIdx.x] ="), line("sum += ta"));
    for seed in 0..8 {
        let mut m = machine();
        let (pa, pb, pc) = (m.f32s(&a), m.f32s(&b), m.output(4 * (n * n) as u64));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("racy_matmul", [3, 3, 1], [16, 16, 1], &[pa, pb, pc, n as u64], &options);
        let races: Vec<_> = outcome
            .faults
            .list
            .iter()
            .filter(|fault| matches!(fault.kind, FaultKind::SharedRace | FaultKind::WarpRace))
            .collect();
        assert!(!races.is_empty(), "seed {seed}: {:?}", kinds(&outcome));
        let kernel = m.program.kernel("racy_matmul").unwrap();
        let lines = |pc: u32| kernel.places[pc as usize].loc.map(|(_, line)| line).unwrap();
        let found = races.iter().any(|race| {
            let pair = [lines(race.pc), lines(race.others[0].pc)];
            pair.contains(&store) && pair.contains(&load)
        });
        assert!(found, "{}", m.render("racy_matmul", &outcome));
        let text = races[0].render(kernel);
        assert!(
            text.contains("kernels.cu:") && text.contains("st.shared") && text.contains("ld.shared"),
            "{text}"
        );
    }
}

#[test]
fn last_block_pattern_is_ordered_by_its_fences() {
    for seed in 0..10 {
        let mut m = machine();
        let x: Vec<f32> = (0..1000).map(|i| (i % 17) as f32).collect();
        let (px, partial, out) = (m.f32s(&x), m.output(32), m.output(4));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("last_block_sum", [8, 1, 1], [128, 1, 1], &[px, partial, out, 1000], &options);
        m.clean("last_block_sum", &outcome);
        assert_eq!(m.read_f32s(out, 1)[0], x.iter().sum::<f32>());
    }
}

#[test]
fn calls_and_local_memory() {
    let mut m = machine();
    let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let (px, py) = (m.f32s(&x), m.output(512));
    for options in [strict(), seeded(4)] {
        let outcome = m.launch("calls", [1, 1, 1], [32, 1, 1], &[px, py, 3], &options);
        m.clean("calls", &outcome);
        let expected: Vec<f32> = (0..128).map(|j| x[j / 4 * 4 + ((j % 4) + 3 + j / 4) % 4]).collect();
        assert_eq!(m.read_f32s(py, 128), expected);
    }
}

#[test]
fn a_switch() {
    let mut m = machine();
    let x: Vec<u32> = (0..32).map(|i| i % 10).collect();
    let y: Vec<i32> = (0..32).map(|i| i * 37 - 400).collect();
    let (px, py) = (m.u32s(&x), m.u32s(&y.iter().map(|v| *v as u32).collect::<Vec<_>>()));
    let outcome = m.launch("table", [1, 1, 1], [32, 1, 1], &[px, py], &seeded(3));
    m.clean("table", &outcome);
    let expected: Vec<u32> = x
        .iter()
        .zip(&y)
        .map(|(x, y)| match x {
            0 => y + 11,
            1 => y * 3,
            2 => y ^ 0x55,
            3 => y - 9,
            4 => y << 2,
            5 => y / 7,
            6 => !y,
            7 => y | 1024,
            _ => -1,
        } as u32)
        .collect();
    assert_eq!(m.read_u32s(py, 32), expected);
}

#[test]
fn asynchronous_pipeline() {
    for seed in 0..6 {
        let mut m = Machine::new("kernels80.ptx", KERNELS80);
        let tiles = 7usize;
        let x = Data::new(seed).units(256 * tiles);
        let (px, py) = (m.f32s(&x), m.output(1024 * tiles as u64));
        let options = if seed == 0 { strict() } else { seeded(seed) };
        let outcome = m.launch("async_pipeline", [1, 1, 1], [64, 1, 1], &[px, py, tiles as u64], &options);
        m.clean("async_pipeline", &outcome);
        let expected: Vec<f32> =
            (0..256 * tiles).map(|i| 2.0 * x[i / 256 * 256 + (63 - i % 256 / 4) * 4 + i % 4]).collect();
        assert_eq!(m.read_f32s(py, 256 * tiles), expected);
    }
}

#[test]
fn wmma_matmul() {
    let n = 48;
    let mut data = Data::new(7);
    let a: Vec<u16> = (0..n * n).map(|_| to_half(data.unit())).collect();
    let b: Vec<u16> = (0..n * n).map(|_| to_half(data.unit())).collect();
    let mut m = Machine::new("kernels80.ptx", KERNELS80);
    let (pa, pb, pc) = (m.u16s(&a), m.u16s(&b), m.output(4 * (n * n) as u64));
    for options in [strict(), seeded(2)] {
        let outcome = m.launch("wmma_matmul", [3, 3, 1], [32, 1, 1], &[pa, pb, pc, n as u64], &options);
        m.clean("wmma_matmul", &outcome);
        for (i, got) in m.read_f32s(pc, n * n).into_iter().enumerate() {
            let (row, column) = (i / n, i % n);
            let exact: f64 = (0..n)
                .map(|k| f64::from(f16_to_f32(a[row * n + k])) * f64::from(f16_to_f32(b[column * n + k])))
                .sum();
            assert!((f64::from(got) - exact).abs() < 1e-5, "{i}: {got} {exact}");
        }
    }
}

fn triton(name: &str, text: &str, half: bool) {
    let (rows, columns, k) = (128usize, 64usize, 96usize);
    let mut data = Data::new(3);
    let round = |v: f32| if half { f16_to_f32(to_half(v)) } else { v };
    let a: Vec<f32> = (0..rows * k).map(|_| round(data.unit())).collect();
    let b: Vec<f32> = (0..columns * k).map(|_| round(data.unit())).collect();
    let shared = text.split_whitespace().nth(2).unwrap().parse().unwrap();
    let mut m = Machine::new(name, text);
    let upload = |m: &mut Machine, v: &[f32]| {
        if half { m.u16s(&v.iter().map(|v| to_half(*v)).collect::<Vec<_>>()) } else { m.f32s(v) }
    };
    let (pa, pb, pc) = (upload(&mut m, &a), upload(&mut m, &b), m.output((4 * rows * columns) as u64));
    let (k64, n64) = (k as u64, columns as u64);
    let args = [pa, pb, pc, k64, k64, k64, n64, 0, 0];
    for options in [strict(), seeded(1)] {
        let outcome = m.launch_shared("matmul", [2, 1, 1], [128, 1, 1], shared, &args, &options);
        m.clean("matmul", &outcome);
        for (i, got) in m.read_f32s(pc, rows * columns).into_iter().enumerate() {
            let (row, column) = (i / columns, i % columns);
            let exact: f64 = (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[column * k + i])).sum();
            assert!((f64::from(got) - exact).abs() < 2e-5, "{i}: {got} {exact}");
        }
    }
}

#[test]
fn triton_half_matmul() {
    triton("triton_fp16.ptx", include_str!("foreign/triton_fp16.ptx"), true);
}

#[test]
fn triton_float_matmul() {
    triton("triton_fp32.ptx", include_str!("foreign/triton_fp32.ptx"), false);
}
