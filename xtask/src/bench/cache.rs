//! `cargo xtask bench cache`: what the kernel cache saves at a start, what it costs, and how fast it is filled,
//! beside Triton compiling the same kernel.

use super::machine::Machine;
use super::start::{FirstByte, counts, first_byte};
use super::{number, print_commit, spread};
use crate::binaries;
use crate::error::{Error, Result};
use crate::model;
use crate::process;
use crate::progress::{note, step};
use crate::setup;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const QUESTION: &str = "What is the capital of France?";
const TRITON: &str = "triton==3.9.0";
const TRITON_GEMM: &str = include_str!("triton_gemm.py");
/// The same for both compilers, so that each has as much to unroll.
const TILES: &str = "32x32x32,64x32x32,32x64x32,64x64x16,64x64x32,128x64x32,64x128x32,32x128x32";
const GEMM: &str = "examples/gemm_fp32.ph";
const GEMM_GPU: &str = "sm_80";
/// Processes that compile at the same time.
const JOBS: &str = "2";

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    runs: u32,
    entries: u32,
    /// Leave Triton out.
    alone: bool,
}

/// Builds, measures and prints a table in Markdown.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    setup::ensure(&[setup::COMPILER, setup::RELEASE])?;
    binaries::build(workspace)?;
    process::run(&mut process::cargo(
        workspace,
        &["build", "--release", "--workspace", "--exclude", "xtask", "--example", "measure"],
    ))?;
    let model = model::fetch_default(workspace)?;
    let triton = if options.alone { None } else { Some(install_triton(workspace)?) };
    let machine = Machine::describe(workspace, &[])?;
    let bench = Bench::new(workspace, model, options.runs)?;

    let mut rows = bench.starts()?;
    rows.extend(bench.lookups()?);
    rows.extend(bench.list(options.entries)?);
    rows.extend(bench.throughput()?);
    rows.extend(bench.gemm(workspace, triton.as_deref())?);
    fs::remove_dir_all(&bench.scratch).map_err(Error::io("remove", &bench.scratch))?;

    print_commit(workspace);
    println!(", median (lowest to highest) of {} runs each.", options.runs);
    machine.print();
    println!("| what | value |");
    println!("| --- | ---: |");
    for (what, value) in rows {
        println!("| {what} | {value} |");
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { runs: 5, entries: 10_000, alone: false };
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        match name.as_str() {
            "--alone" => options.alone = true,
            "--runs" | "--entries" => {
                let value = rest.next().ok_or_else(|| Error::Usage(format!("{name} needs a value")))?;
                match name.as_str() {
                    "--runs" => options.runs = number(name, value, 1000)?,
                    _ => options.entries = number(name, value, 1_000_000)?,
                }
            }
            _ => return Err(Error::Usage(format!("bench cache has no option `{name}`"))),
        }
    }
    Ok(options)
}

type Rows = Vec<(String, String)>;

struct Bench {
    bin: PathBuf,
    root: PathBuf,
    model: PathBuf,
    scratch: PathBuf,
    runs: u32,
}

/// What the start of a model came to.
struct Start {
    /// To the first byte of the answer.
    seconds: f64,
    /// As in `kernels: 15 compiled, 0 cached`.
    compiled: u32,
    cached: u32,
}

impl Bench {
    fn new(workspace: &Workspace, model: PathBuf, runs: u32) -> Result<Self> {
        let scratch = workspace.bench().join("cache");
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(Error::io("remove", &scratch))?;
        }
        fs::create_dir_all(&scratch).map_err(Error::io("create", &scratch))?;
        Ok(Self { bin: workspace.bin(), root: workspace.root().to_owned(), model, scratch, runs })
    }

    /// Start to first token: with nothing cached, with everything, and as shipped.
    fn starts(&self) -> Result<Rows> {
        let (mut cold, mut warm, mut shipped) = (Vec::new(), Vec::new(), Vec::new());
        let folder = self.scratch.join("shipped");
        fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
        let cli = folder.join("phobos-cli");
        fs::copy(self.bin.join("phobos-cli"), &cli).map_err(Error::io("copy", &cli))?;
        let mut kernels = 0;
        for run in 0..=self.runs {
            note(&format!("starts, run {run} of {}", self.runs));
            let cache = self.scratch.join(format!("cold-{run}"));
            let own = |cache: &Path| {
                let mut command = Command::new(self.bin.join("phobos-cli"));
                command.env("PHOBOS_KERNEL_CACHE_DIR", cache);
                self.start(&mut command)
            };
            let (first, second) = (own(&cache)?, own(&cache)?);
            if run == 0 {
                // Unmeasured: the file is read from the disk. Its kernels are those that ship.
                fs::rename(&cache, folder.join("kernel-cache")).map_err(Error::io("rename", &cache))?;
            }
            let mut command = Command::new(&cli);
            command.env_remove("PHOBOS_KERNEL_CACHE_DIR").env("HOME", self.scratch.join("home"));
            let third = self.start(command.env("PHOBOS_COMPILE", "/nonexistent/phobos-compile"))?;
            kernels = first.compiled;
            for (start, compiled) in [(&first, kernels), (&second, 0), (&third, 0)] {
                if (start.compiled, start.cached) != (compiled, kernels - compiled) {
                    return Err(Error::Output {
                        command: "phobos-cli".into(),
                        expected: "these counts".into(),
                    });
                }
            }
            if run > 0 {
                cold.push(first.seconds);
                warm.push(second.seconds);
                shipped.push(third.seconds);
            }
        }
        let row = |what: &str, values: &[f64]| {
            (format!("start to first token, {what}"), format!("{} s", spread(values, 2)))
        };
        Ok(vec![
            row(&format!("nothing cached ({kernels} kernels compiled by {} workers)", workers()), &cold),
            row("second start (0 compiled)", &warm),
            row("shipped cache, no compiler (0 compiled)", &shipped),
        ])
    }

    fn start(&self, command: &mut Command) -> Result<Start> {
        command.arg("--gguf").arg(&self.model).args(["-n", "1", "-t", "0", QUESTION]);
        command.env_remove("PHOBOS_KERNEL_MANIFEST").env_remove("PHOBOS_DEVICE");
        let FirstByte { seconds, stderr } = first_byte(command)?;
        match counts(&stderr) {
            Some((compiled, cached)) => Ok(Start { seconds, compiled, cached }),
            None => {
                eprint!("{stderr}");
                let expected = "how many kernels were compiled".to_owned();
                Err(Error::Output { command: process::show(command), expected })
            }
        }
    }

    fn measure(&self) -> Command {
        Command::new(self.bin.join("examples/measure"))
    }

    /// Microseconds of a kernel's look-up.
    fn lookups(&self) -> Result<Rows> {
        let manifest = self.scratch.join("manifest");
        let mut record = Command::new("python3");
        record.arg(self.root.join("scripts/record_kernels.py")).arg("--out").arg(&manifest);
        record.arg("--bench").arg(self.bin.join("phobos-bench")).arg(&self.model);
        process::capture(record.env("PHOBOS_KERNEL_CACHE_DIR", self.scratch.join("shipped/kernel-cache")))?;
        let mut rows = Vec::new();
        let cache = self.scratch.join("warm");
        // From the lowest level up, since a look-up goes down.
        for chip in ["host-x86-64-v2", "host-x86-64-v4"] {
            self.warm(&cache, &manifest, chip)?;
            let mut command = self.measure();
            command.arg("lookup").arg(&cache).arg(&manifest).arg(chip);
            let text = process::capture(&mut command)?;
            let value = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
            };
            let mut row = |what: &str, name: &str| {
                rows.extend(
                    value(name).map(|us| (format!("look-up of a kernel, {what}"), format!("{us:.0} µs"))),
                );
            };
            if chip == "host-x86-64-v2" {
                row("from the shipped cache, of the next lower host level", "lower_level");
            } else {
                let kilobytes = value("kilobytes").unwrap_or_default();
                row(&format!("from one's own cache ({kilobytes:.0} kB on average, in memory)"), "own");
                row("from the shipped cache", "shipped");
                row("of this, the key", "key");
            }
        }
        Ok(rows)
    }

    /// `phobos-cache list` on many entries.
    fn list(&self, entries: u32) -> Result<Rows> {
        let many = self.scratch.join("many");
        let mut fill = self.measure();
        fill.arg("fill").arg(&many).arg(self.scratch.join("warm")).arg(self.scratch.join("manifest"));
        process::run(fill.arg(entries.to_string()))?;
        let mut times = Vec::new();
        for run in 0..=self.runs {
            let mut list = Command::new(self.bin.join("phobos-cache"));
            list.arg("list").arg("--dir").arg(&many);
            let begin = Instant::now();
            let lines = process::capture(&mut list)?.lines().count();
            let seconds = begin.elapsed().as_secs_f64();
            if lines != entries as usize + 1 {
                let expected = format!("{entries} kernels and their sum");
                return Err(Error::Output { command: process::show(&list), expected });
            }
            if run > 0 {
                times.push(seconds * 1e3);
            }
        }
        Ok(vec![(format!("`phobos-cache list` of {entries} entries"), format!("{} ms", spread(&times, 0)))])
    }

    /// Compiles a manifest for a chip, all of it, by two workers; gives kernels and seconds.
    fn warm(&self, cache: &Path, manifest: &Path, chip: &str) -> Result<(u32, f64)> {
        let mut warm = Command::new(self.bin.join("phobos-cache"));
        warm.args(["warm", "--force", "--no-ptxas", "--jobs", JOBS, "--chip", chip]);
        warm.arg("--dir").arg(cache).arg("--manifest").arg(manifest).env_remove("PHOBOS_KERNEL_CACHE_MAX");
        warm.env("PHOBOS_COMPILE", self.bin.join("phobos-compile"));
        let begin = Instant::now();
        // Kernels that do not compile are named and not counted.
        let transcript = process::tee(&mut warm)?;
        let seconds = begin.elapsed().as_secs_f64();
        match compiled(&transcript.text) {
            Some(kernels) if kernels > 0 => Ok((kernels, seconds)),
            _ => {
                Err(Error::Output { command: process::show(&warm), expected: "compiled kernels".to_owned() })
            }
        }
    }

    /// How fast `phobos-cache warm` compiles the default model's kernels.
    fn throughput(&self) -> Result<Rows> {
        let (cache, manifest) = (self.scratch.join("warm"), self.scratch.join("manifest"));
        let (mut rates, mut kernels) = (Vec::new(), 0);
        for _ in 0..self.runs {
            let (compiled, seconds) = self.warm(&cache, &manifest, "host-x86-64-v4")?;
            kernels = compiled;
            rates.push(f64::from(compiled) / seconds);
        }
        Ok(vec![(
            format!("`warm`, {kernels} kernels of the model in every format, host-x86-64-v4, {JOBS} workers"),
            format!("{} kernels/s", spread(&rates, 1)),
        )])
    }

    /// The same gemm in the same tile sizes, by us and by Triton.
    fn gemm(&self, workspace: &Workspace, triton: Option<&Path>) -> Result<Rows> {
        let manifest = self.scratch.join("gemm");
        let mut record = self.measure();
        record.arg("gemm").arg(&manifest).arg(self.root.join(GEMM)).arg(TILES);
        process::run(&mut record)?;
        let chip = if self.compiles_for_gpus()? { GEMM_GPU } else { "host-x86-64-v4" };
        let count = TILES.split(',').count();
        // In turns, so that what else the machine does meets both alike.
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for run in 1..=self.runs {
            note(&format!("gemm, run {run} of {}", self.runs));
            let (kernels, seconds) = self.warm(&self.scratch.join("gemm-cache"), &manifest, chip)?;
            ours.push(f64::from(kernels) / seconds);
            if let Some(site) = triton {
                theirs.push(triton_gemm(&workspace.bench().join("triton"), site)?);
            }
        }
        let what = if chip == GEMM_GPU { "PTX" } else { "a shared object; no GPU code yet" };
        let mut rows = vec![(
            format!("`warm`, f32 gemm in {count} tile sizes, {chip} ({what}), {JOBS} workers"),
            format!("{} kernels/s", spread(&ours, 1)),
        )];
        if triton.is_some() {
            rows.push((
                format!(
                    "Triton 3.9.0, the same gemm and tile sizes, {GEMM_GPU} (PTX and cubin), {JOBS} workers"
                ),
                format!("{} kernels/s", spread(&theirs, 1)),
            ));
        }
        Ok(rows)
    }

    /// Whether code can be generated for GPUs.
    fn compiles_for_gpus(&self) -> Result<bool> {
        let mut command = Command::new(self.bin.join("phobos-compile"));
        // The compiler replaces what it writes, so this is a file of ours.
        command.arg(self.root.join(GEMM)).args(["--chip", GEMM_GPU, "-o"]).arg(self.scratch.join("probe"));
        let output =
            command.output().map_err(|source| Error::Spawn { command: process::show(&command), source })?;
        Ok(output.status.success())
    }
}

/// Kernels a second of Triton on the gemm.
fn triton_gemm(folder: &Path, site: &Path) -> Result<f64> {
    let script = folder.join("triton_gemm.py");
    fs::write(&script, TRITON_GEMM).map_err(Error::io("write", &script))?;
    let mut command = Command::new("python3");
    command.arg(script).args([JOBS, GEMM_GPU.trim_start_matches("sm_"), TILES]).env("PYTHONPATH", site);
    let text = process::capture(&mut command)?;
    text.strip_prefix("kernels_per_second ").and_then(|rate| rate.trim().parse().ok()).ok_or_else(|| {
        Error::Output { command: process::show(&command), expected: "kernels_per_second".to_owned() }
    })
}

fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Out of `DIR: 43 kernels compiled, 0 already there, 6 failed`.
fn compiled(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.contains(" compiled, ") && line.contains(" already there, "))?;
    let (before, _) = line.split_once(" kernel")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Triton and nothing that it depends on only to run.
fn install_triton(workspace: &Workspace) -> Result<PathBuf> {
    let site = workspace.bench().join("triton/site");
    if site.join("triton").is_dir() {
        return Ok(site);
    }
    setup::ensure(&[setup::PIP])?;
    step(&format!("fetch {TRITON} from PyPI (286 MB)"), || {
        let unfinished = workspace.bench().join("triton/unfinished");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--quiet", "--upgrade", "--target"]).arg(&unfinished).arg(TRITON);
        process::run(&mut pip)?;
        fs::rename(&unfinished, &site).map_err(Error::io("rename", &unfinished))
    })?;
    Ok(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options() {
        let options = parse(&words("--runs 3 --alone --entries 100")).unwrap();
        assert_eq!(options, Options { runs: 3, entries: 100, alone: true });
        for (line, text) in [
            ("--runs", "--runs needs a value"),
            ("--entries 0", "`0` is no number from 1 to 1000000"),
            ("--fast", "no option `--fast`"),
        ] {
            assert!(parse(&words(line)).unwrap_err().to_string().contains(text), "{line}");
        }
    }

    #[test]
    fn what_the_programs_print() {
        assert_eq!(compiled("error: x\n/a b/c: 43 kernels compiled, 0 already there, 6 failed\n"), Some(43));
        assert_eq!(compiled("/c: 1 kernel compiled, 0 already there, 0 failed\n"), Some(1));
        assert_eq!(compiled("no such line"), None);
    }

    #[test]
    fn every_tile_has_three_sizes() {
        assert!(
            TILES.split(',').all(|tile| tile.split('x').filter_map(|s| s.parse::<u32>().ok()).count() == 3)
        );
    }
}
