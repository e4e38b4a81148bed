//! The speed of `examples/gemm_fp32.ph` on the host, for `cargo xtask bench host`.
//!
//! ```text
//! gemm SOURCE THREADS SIZE [NAME=VALUE]...
//! ```
//!
//! Compiles the kernel as the engine compiles a model's (from the kernel cache, or by a worker), checks a
//! product against sums in f64, then times square products of `SIZE`. Each `NAME=VALUE` sets a parameter of the
//! kernel that would otherwise be chosen by the compiler. Prints JSON: the median in GFLOP/s (a multiply-add is
//! two operations) and the parameters that the kernel was compiled with.
#![allow(clippy::unwrap_used)] // a measurement: what goes wrong ends it

use std::{
    collections::BTreeMap,
    env, fs,
    time::{Duration, Instant},
};

use phobos_artifact::{CompileOptions, CompileRequest, DType, Element};
use phobos_device::{Device, DeviceError, DeviceExt, HostDevice, Kernel, Launch, Tensor};
use phobos_kernel_cache::CachedSource;
use phobos_worker::{KernelSource, WorkerOptions, WorkerPool};
use serde_json::json;

const KERNEL: &str = "gemm";
/// Long enough for a clock frequency to settle, short enough to take turns with a peer.
const TIME: Duration = Duration::from_millis(700);
const FEWEST: usize = 5;
/// Rows of the check; all columns of them are compared.
const CHECKED_ROWS: usize = 16;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [source, threads, size, params @ ..] = &arguments[..] else {
        panic!("usage: gemm SOURCE THREADS SIZE [NAME=VALUE]...");
    };
    let size: usize = size.parse().unwrap();
    let device = HostDevice::new(Some(threads.parse().unwrap())).unwrap();
    let request = CompileRequest {
        source: fs::read_to_string(source).unwrap(),
        kernel: KERNEL.to_owned(),
        elements: BTreeMap::new(),
        dims: BTreeMap::new(),
        ranges: BTreeMap::new(),
        params: params.iter().map(|param| override_of(param)).collect(),
        options: CompileOptions::default(),
        chip: device.chips()[0],
    };
    let artifact = CachedSource::from_environment(WorkerPool::new(WorkerOptions::default()))
        .get(&request)
        .unwrap_or_else(|error| panic!("{error}"));
    let kernel = device.load(&artifact).unwrap();

    let product = Product::new(&device, &kernel, size).unwrap();
    product.check();
    let seconds = product.time();
    let operations = 2.0 * (size as f64).powi(3);
    let result = json!({
        "size": size,
        "threads": device.threads(),
        "params": artifact.metadata.params,
        "runs": seconds.len(),
        "median_gflops": operations / median(&seconds) / 1e9,
    });
    println!("{result:#}");
}

/// `TILE_M=64`.
fn override_of(text: &str) -> (String, u64) {
    let (name, value) = text.split_once('=').unwrap_or_else(|| panic!("`{text}` is no NAME=VALUE"));
    (name.to_owned(), value.parse().unwrap())
}

/// `C = A * B` of square matrices on a device.
struct Product<'a> {
    device: &'a HostDevice,
    kernel: &'a Kernel,
    size: usize,
    left: Vec<f32>,
    right: Vec<f32>,
    a: Tensor,
    b: Tensor,
    c: Tensor,
}

impl<'a> Product<'a> {
    fn new(device: &'a HostDevice, kernel: &'a Kernel, size: usize) -> Result<Product<'a>, DeviceError> {
        let (left, right) = (values(size * size, 1), values(size * size, 2));
        let tensor = |values: &[f32]| {
            Tensor::of(&device.upload(values)?, Element::Scalar(DType::F32), [size as u64; 2])
        };
        let (a, b, c) = (tensor(&left)?, tensor(&right)?, tensor(&vec![0.0; size * size])?);
        Ok(Product { device, kernel, size, left, right, a, b, c })
    }

    fn run(&self) {
        let launch = Launch::new(self.kernel).tensor("A", &self.a).tensor("B", &self.b).tensor("C", &self.c);
        launch.scalar("alpha", 1.0f32).scalar("beta", 0.0f32).run(self.device).unwrap();
        self.device.synchronize().unwrap();
    }

    /// Some rows, spread over the matrix, against sums in f64.
    fn check(&self) {
        self.run();
        let size = self.size;
        let mut found = vec![0.0f32; size * size];
        self.device.read_slice(&self.c.buffer, 0, &mut found).unwrap();
        let rows = CHECKED_ROWS.min(size);
        for row in (0..rows).map(|index| index * (size - 1) / (rows - 1).max(1)) {
            let (mut wanted, mut magnitude) = (vec![0.0f64; size], vec![0.0f64; size]);
            for (k, a) in self.left[row * size..][..size].iter().enumerate() {
                for (column, b) in self.right[k * size..][..size].iter().enumerate() {
                    let term = f64::from(*a) * f64::from(*b);
                    wanted[column] += term;
                    magnitude[column] += term.abs();
                }
            }
            for column in 0..size {
                let (found, wanted) = (f64::from(found[row * size + column]), wanted[column]);
                // A sum of n rounded products in any order: Higham, Accuracy and Stability, section 3.1.
                let bound = magnitude[column] * (size as f64 + 1.0) * f64::from(f32::EPSILON / 2.0);
                assert!(
                    (found - wanted).abs() <= bound,
                    "C[{row}, {column}] is {found}, expected {wanted} within {bound}"
                );
            }
        }
    }

    /// Seconds of products one after the other.
    fn time(&self) -> Vec<f64> {
        let begin = Instant::now();
        let mut seconds = Vec::new();
        while seconds.len() < FEWEST || begin.elapsed() < TIME {
            let start = Instant::now();
            self.run();
            seconds.push(start.elapsed().as_secs_f64());
        }
        seconds
    }
}

/// Values in -0.5 to 0.5 that repeat only after the whole matrix: a linear congruential generator.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(next).collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
