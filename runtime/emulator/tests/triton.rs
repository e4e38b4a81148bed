//! Kernels by Triton (`foreign/triton/kernels.py`): right values and no fault, and a
//! fault where a barrier is taken out.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Data, Machine, seeded, strict};
use phobos_emulator::{FaultKind, Options, Severity};

/// A kernel with its text, and the launch that its first line names.
struct Kernel {
    text: String,
    name: &'static str,
    shared: u32,
    threads: u32,
}

macro_rules! kernel {
    ($name:literal, $chip:literal) => {
        Kernel::new($name, include_str!(concat!("foreign/triton/", $name, "_", $chip, ".ptx")))
    };
}

impl Kernel {
    fn new(name: &'static str, text: &str) -> Kernel {
        let words: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
        Kernel {
            text: text.to_owned(),
            name,
            shared: words[2].parse().unwrap(),
            threads: words[4].parse().unwrap(),
        }
    }

    /// Runs it over inputs and an output; `scalars` follow. Gives the output and the
    /// kinds of report.
    fn run(
        &self,
        grid: [u32; 3],
        inputs: &[Vec<u8>],
        output: &[u8],
        scalars: &[u64],
        options: &Options,
    ) -> (Vec<u8>, Vec<FaultKind>, String) {
        let mut m = Machine::new(self.name, &self.text);
        let mut args: Vec<u64> = inputs.iter().map(|bytes| m.bytes(bytes)).collect();
        let out = m.bytes(output);
        args.push(out);
        args.extend(scalars);
        // Triton's own pointers, to scratch memory of the launch and of a profiler.
        let scratch = m.output(4096);
        args.extend([scratch, scratch]);
        let outcome = m.launch_shared(self.name, grid, [self.threads, 1, 1], self.shared, &args, options);
        let kinds = outcome.faults.list.iter().map(|fault| fault.kind).collect();
        (m.read_bytes(out, output.len()), kinds, m.render(self.name, &outcome))
    }

    /// Runs every schedule; there may be notes, and no faults.
    #[track_caller]
    fn check(
        &self,
        grid: [u32; 3],
        inputs: &[Vec<u8>],
        output: &[u8],
        scalars: &[u64],
        right: impl Fn(&[u8]),
    ) {
        for options in std::iter::once(strict()).chain((0..6).map(seeded)) {
            let (values, kinds, text) = self.run(grid, inputs, output, scalars, &options);
            assert!(kinds.iter().all(|kind| kind.severity() == Severity::Note), "{text}");
            right(&values);
        }
    }

    /// Takes out each barrier alone; at least `least` of those twins must be faulty.
    #[track_caller]
    fn twins(&self, grid: [u32; 3], inputs: &[Vec<u8>], output: &[u8], scalars: &[u64], least: usize) {
        let lines: Vec<&str> = self.text.lines().collect();
        let barriers: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains("bar.sync")).collect();
        let mut caught = 0;
        for barrier in &barriers {
            let mut twin = lines.clone();
            twin[*barrier] = "";
            let twin = Kernel { text: twin.join("\n"), ..*self };
            let faulty = std::iter::once(strict()).chain((0..4).map(seeded)).any(|options| {
                let (_, kinds, _) = twin.run(grid, inputs, output, scalars, &options);
                kinds.iter().any(|kind| kind.severity() == Severity::Fault)
            });
            caught += usize::from(faulty);
        }
        assert!(caught >= least, "{}: {caught} of {} barriers are missed", self.name, barriers.len());
    }
}

fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| to(*value)).collect()
}
fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}
fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[track_caller]
fn near(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() <= tolerance, "{at}: {got}, want {want}");
    }
}

const ONE: [u32; 3] = [1, 1, 1];

#[test]
fn rows_of_softmax_and_layernorm() {
    let (rows, n) = (3, 1000usize);
    let x = Data::new(1).units(rows * n);
    let input = [bytes(&x, f32::to_le_bytes)];
    let output = vec![0; 4 * rows * n];
    let scalars = [n as u64, n as u64];
    let grid = [rows as u32, 1, 1];
    let of = |f: &dyn Fn(&[f64]) -> Vec<f64>| -> Vec<f64> {
        x.chunks(n).flat_map(|row| f(&row.iter().map(|v| f64::from(*v)).collect::<Vec<_>>())).collect()
    };
    let softmax = of(&|row| {
        let sum: f64 = row.iter().map(|v| v.exp()).sum();
        row.iter().map(|v| v.exp() / sum).collect()
    });
    let layernorm = of(&|row| {
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
        row.iter().map(|v| (v - mean) / (variance + 1e-5).sqrt()).collect()
    });
    for (kernel, want) in [(kernel!("softmax", "90"), softmax), (kernel!("layernorm", "90"), layernorm)] {
        kernel.check(grid, &input, &output, &scalars, |out| near(&floats(out), &want, 1e-5));
        kernel.twins(grid, &input, &output, &scalars, 1);
    }
}

#[test]
fn sorts_scans_and_searches() {
    let x = Data::new(2).units(1024);
    let input = [bytes(&x[..256], f32::to_le_bytes)];
    let sort = kernel!("sort", "90");
    sort.check(ONE, &input, &[0; 1024], &[], |out| {
        let mut want = x[..256].to_vec();
        want.sort_by(f32::total_cmp);
        assert_eq!(floats(out), want);
    });
    sort.twins(ONE, &input, &[0; 1024], &[], 1);
    let whole: Vec<i32> = x.iter().map(|v| (v * 100.0) as i32).collect();
    let input = [bytes(&whole, i32::to_le_bytes)];
    let scan = kernel!("scan", "90");
    scan.check(ONE, &input, &[0; 4096], &[], |out| {
        let sums = whole.iter().scan(0, |sum, v| {
            *sum += v;
            Some(*sum)
        });
        assert_eq!(ints(out), sums.collect::<Vec<_>>());
    });
    scan.twins(ONE, &input, &[0; 4096], &[], 1);
    let input = [bytes(&x, f32::to_le_bytes)];
    let argmax = kernel!("argmax", "90");
    argmax.check([2, 1, 1], &input, &[0; 8], &[], |out| {
        let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap() as i32;
        assert_eq!(ints(out), [best(&x[..512]), best(&x[512..])]);
    });
    argmax.twins([2, 1, 1], &input, &[0; 8], &[], 1);
}

#[test]
fn counts_sums_and_choices() {
    let mut data = Data::new(3);
    let bins: Vec<i32> = (0..512).map(|_| (data.bits() % 64) as i32).collect();
    kernel!("histogram", "90").check(ONE, &[bytes(&bins, i32::to_le_bytes)], &[0; 256], &[], |out| {
        let count = |bin: i32| bins.iter().filter(|v| **v == bin).count() as i32;
        assert_eq!(ints(out), (0..64).map(count).collect::<Vec<_>>());
    });
    let x = data.units(1024);
    kernel!("atomics", "90").check([4, 1, 1], &[bytes(&x, f32::to_le_bytes)], &[0; 28], &[], |out| {
        let sum = |lane: usize| x.iter().skip(lane).step_by(7).map(|v| f64::from(*v)).sum();
        near(&floats(out), &(0..7).map(sum).collect::<Vec<_>>(), 1e-4);
    });
    let places: Vec<i32> = (0..256).map(|_| (data.bits() % 256) as i32).collect();
    let inputs = [bytes(&x[..256], f32::to_le_bytes), bytes(&places, i32::to_le_bytes)];
    kernel!("gather", "90").check(ONE, &inputs, &[0; 1024], &[], |out| {
        assert_eq!(floats(out), places.iter().map(|at| x[*at as usize]).collect::<Vec<_>>());
    });
}

/// The first word of Philox 4x32 with 10 rounds, as a float in 0..1.
fn philox(seed: u32, offset: u32) -> f32 {
    let high = |a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    let (mut c, mut k) = ([offset, 0, 0, 0u32], [seed, 0u32]);
    for _ in 0..10 {
        let (first, second) = (0xd251_1f53u32, 0xcd9e_8d57u32);
        c = [
            high(second, c[2]) ^ c[1] ^ k[0],
            second.wrapping_mul(c[2]),
            high(first, c[0]) ^ c[3] ^ k[1],
            first.wrapping_mul(c[0]),
        ];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    let word = c[0] as i32;
    (if word < 0 { -word.wrapping_add(1) } else { word }) as f32 * 4.656_612_7e-10
}

#[test]
fn dropout_by_philox() {
    let x = Data::new(4).units(512);
    let scalars = [u64::from(0.5f32.to_bits()), 48];
    let input = [bytes(&x, f32::to_le_bytes)];
    kernel!("dropout", "90").check([2, 1, 1], &input, &[0; 2048], &scalars, |out| {
        let want = |(at, v): (usize, &f32)| if philox(48, at as u32) > 0.5 { v * 2.0 } else { 0.0 };
        assert_eq!(floats(out), x.iter().enumerate().map(want).collect::<Vec<_>>());
    });
}

/// Small multiples of 1/8: exact in halves, with exact sums.
fn eighths(data: &mut Data, count: usize) -> Vec<f32> {
    (0..count).map(|_| (data.bits() % 33) as f32 / 8.0 - 2.0).collect()
}
fn half_bytes(values: &[f32]) -> Vec<u8> {
    let narrow = |v: f32| {
        let bits = v.to_bits();
        let exponent = (bits >> 23 & 0xff) as i32 - 112;
        let magnitude = if exponent <= 0 { 0 } else { (exponent as u32) << 10 | bits >> 13 & 0x3ff };
        ((bits >> 16 & 0x8000 | magnitude) as u16).to_le_bytes()
    };
    bytes(values, narrow)
}
fn half(bytes: &[u8]) -> f32 {
    let code = u32::from(u16::from_le_bytes(bytes.try_into().unwrap()));
    if code & 0x7fff == 0 {
        return 0.0;
    }
    f32::from_bits(((code & 0x8000) << 16) | (((code & 0x7fff) << 13) + (112 << 23)))
}

fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let element = |at: usize| {
        let (row, column) = (at / n, at % n);
        (0..k).map(|i| f64::from(a[row * k + i]) * f64::from(b[i * n + column])).sum()
    };
    (0..m * n).map(element).collect()
}

#[test]
fn matmuls_by_pointers_and_by_tensor_maps() {
    let mut data = Data::new(5);
    let size @ [m, n, k] = [128, 64, 128];
    let (a, b) = (eighths(&mut data, m * k), eighths(&mut data, k * n));
    let inputs = [half_bytes(&a), half_bytes(&b)];
    let want = product(&a, &b, size);
    let scalars = [k, k, n, n].map(|v| v as u64);
    let output = vec![0; 4 * m * n];
    for kernel in [kernel!("matmul", "80"), kernel!("matmul", "90"), kernel!("matmul", "120")] {
        kernel.check([2, 1, 1], &inputs, &output, &scalars, |out| near(&floats(out), &want, 0.0));
        kernel.twins([1, 1, 1], &inputs, &output, &scalars, 1);
    }
    let scalars = [m, n, k].map(|v| v as u64);
    let output = vec![0; 2 * m * n];
    for kernel in [kernel!("tensors", "90"), kernel!("tensors", "120")] {
        kernel.check([1, 1, 1], &inputs, &output, &scalars, |out| {
            let got: Vec<f32> = out.chunks(2).map(half).collect();
            near(&got[..64 * n], &want[..64 * n], 0.07);
        });
    }
}

#[test]
fn flash_attention_with_a_mask() {
    let mut data = Data::new(6);
    let (n, d) = (128usize, 64usize);
    let [q, k, v] = [(); 3].map(|()| eighths(&mut data, n * d));
    let inputs = [half_bytes(&q), half_bytes(&k), half_bytes(&v)];
    let mut want = Vec::new();
    for row in 0..n {
        let score = |other: usize| {
            (0..d).map(|i| f64::from(q[row * d + i]) * f64::from(k[other * d + i])).sum::<f64>() * 0.125
        };
        let scores: Vec<f64> = (0..=row).map(score).collect();
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        for i in 0..d {
            let sum: f64 = weights.iter().enumerate().map(|(at, w)| w * f64::from(v[at * d + i])).sum();
            want.push(sum / total);
        }
    }
    let output = vec![0; 4 * n * d];
    for kernel in [kernel!("flash", "80"), kernel!("flash", "90"), kernel!("flash", "120")] {
        kernel.check([2, 1, 1], &inputs, &output, &[n as u64], |out| near(&floats(out), &want, 5e-3));
    }
}
