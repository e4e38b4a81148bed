//! The machine under a benchmark, so that its numbers can be compared with others.

use crate::error::{Error, Result};
use crate::process;
use crate::progress::step;
use crate::workspace::Workspace;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

/// The flags of /proc/cpuinfo on which the speed of kernels depends.
const FLAGS: [&str; 9] =
    ["avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_int8"];

/// What the CPU is and what it can do at most.
#[derive(Debug)]
pub struct Machine {
    cpu: String,
    cores: usize,
    flags: Vec<&'static str>,
    load: String,
    peaks: Vec<Peak>,
}

/// The measured limits of a number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    pub threads: usize,
    /// Multiply-adds of f32 from registers; each is two operations.
    pub gflops: f64,
    /// Reads of memory that is in no cache, in 10^9 bytes.
    pub read_gb_per_s: f64,
}

/// The program that measures peaks, built for this CPU.
#[derive(Debug)]
pub struct Calibration {
    program: PathBuf,
}

impl Machine {
    /// Reads /proc, and measures the peaks for each number of threads.
    pub fn describe(workspace: &Workspace, threads: &[usize]) -> Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").map_err(Error::io("read", "/proc/cpuinfo"))?;
        // Before the calibration, which is load itself.
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("unknown").to_owned();
        Ok(Self {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            flags: known_flags(&cpuinfo),
            load,
            peaks: if threads.is_empty() { Vec::new() } else { calibrate(workspace, threads)? },
        })
    }

    /// The measured peaks.
    pub fn peaks(&self) -> &[Peak] {
        &self.peaks
    }

    /// On stdout, as lines of Markdown.
    pub fn print(&self) {
        println!(
            "CPU: {}, {} cores, {}; load before {}",
            self.cpu,
            self.cores,
            self.flags.join(" "),
            self.load
        );
        for Peak { threads, gflops, read_gb_per_s } in &self.peaks {
            println!(
                "- {threads} thread(s): {gflops:.1} GFLOP/s of f32 multiply-adds, {read_gb_per_s:.1} GB/s read"
            );
        }
        println!();
    }
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn known_flags(cpuinfo: &str) -> Vec<&'static str> {
    let present: Vec<&str> = field(cpuinfo, "flags").unwrap_or_default().split_whitespace().collect();
    FLAGS.into_iter().filter(|flag| present.contains(flag)).collect()
}

fn calibrate(workspace: &Workspace, threads: &[usize]) -> Result<Vec<Peak>> {
    step("measure the peaks of this CPU", || {
        let calibration = Calibration::build(workspace)?;
        threads.iter().map(|&threads| calibration.peak(threads)).collect()
    })
}

impl Calibration {
    /// Builds the program.
    pub fn build(workspace: &Workspace) -> Result<Self> {
        // A target directory of its own: other flags would rebuild everything in the shared one.
        let target = workspace.bench().join("calibrate");
        let mut build = process::cargo(workspace, &["build", "--quiet", "--release", "--package", "xtask"]);
        build.args(["--example", "calibrate", "--target-dir"]).arg(&target);
        build.env("RUSTFLAGS", "-C target-cpu=native").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3");
        process::run(&mut build)?;
        Ok(Self { program: target.join("release/examples/calibrate") })
    }

    /// Measures, which takes a second or two.
    pub fn peak(&self, threads: usize) -> Result<Peak> {
        let mut command = Command::new(&self.program);
        let text = process::capture(command.arg(threads.to_string()))?;
        let number = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
                .ok_or_else(|| Error::Output { command: process::show(&command), expected: name.to_owned() })
        };
        Ok(Peak { threads, gflops: number("gflops")?, read_gb_per_s: number("read_gb_per_s")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_fields() {
        let text =
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 fma avx512f\n\nprocessor\t: 1\n";
        assert_eq!(field(text, "model name"), Some("AMD EPYC"));
        assert_eq!(known_flags(text), ["avx2", "fma", "avx512f"]);
        assert!(known_flags("").is_empty());
    }
}
