//! The gemm of the examples beside OpenBLAS through numpy.

use super::Host;
use super::report::{Bar, Report};
use crate::bench::json_number;
use crate::error::{Error, Result};
use crate::process;
use crate::progress::step;
use crate::setup;
use crate::workspace::Workspace;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const KERNEL: &str = "examples/gemm_fp32.ph";
const SIZE: &str = "1024";
/// Found by measuring on one core of an AMD EPYC with AVX-512. The compiler chooses by volume alone, from the
/// candidates that the kernel names, and without these would take 64x128x32.
const TILES: [&str; 3] = ["TILE_M=128", "TILE_N=256", "TILE_K=256"];
/// The newest numpy for the Python of Debian 12.
const NUMPY: [&str; 2] = ["numpy==2.4.6", "threadpoolctl==3.6.0"];
const SCRIPT: &str = include_str!("../openblas_gemm.py");

/// Rows with our tiles, and with those of the compiler.
pub fn rows(host: &Host<'_>, report: &mut Report) {
    let Some(numpy) = report.have("gemm", || Numpy::prepare(host)) else { return };
    let choices: [(&str, &[&str], Option<Bar>); 2] =
        [("", &TILES, Some(Bar::AtLeast(0.9))), (", tiles of the compiler's choice", &[], None)];
    for &threads in &host.options.threads {
        let label = "gemm_fp32 1024x1024x1024";
        report.rows(&format!("{label}, {threads} thread(s)"), || {
            let mut rows = Vec::new();
            for (suffix, tiles, bar) in choices {
                let what = format!("{label}{suffix}");
                let turns =
                    host.turns(&what, threads, || ours(host, threads, tiles), || numpy.gflops(threads))?;
                rows.push(turns.row(&what, "GFLOP/s", "OpenBLAS", bar));
            }
            Ok(rows)
        });
    }
    report.remark(format!(
        "gemm: `{KERNEL}` compiled with {}; OpenBLAS is that of {}: {}.",
        TILES.join(" "),
        NUMPY[0],
        numpy.library
    ));
}

fn ours(host: &Host<'_>, threads: usize, tiles: &[&str]) -> Result<f64> {
    let mut command = Command::new(host.program("examples/gemm"));
    command.arg(host.workspace.root().join(KERNEL)).args([&threads.to_string(), SIZE]).args(tiles);
    let text = process::capture(&mut command)?;
    json_number(&text, "median_gflops").ok_or_else(|| Error::Output {
        command: process::show(&command),
        expected: "median_gflops".to_owned(),
    })
}

/// numpy in a folder of its own, and the script that runs it.
struct Numpy {
    site: PathBuf,
    script: PathBuf,
    /// Version and kernels of OpenBLAS.
    library: String,
}

impl Numpy {
    /// Builds our program too: either alone gives no row.
    fn prepare(host: &Host<'_>) -> Result<Self> {
        process::run(&mut process::cargo(
            host.workspace,
            // As in `binaries`, the workspace and no part of it.
            &["build", "--release", "--workspace", "--exclude", "xtask", "--example", "gemm"],
        ))?;
        let site = install(host.workspace)?;
        let script = host.workspace.bench().join("numpy/gemm.py");
        fs::write(&script, SCRIPT).map_err(Error::io("write", &script))?;
        let mut numpy = Self { site, script, library: String::new() };
        let (command, text) = numpy.run(1)?;
        numpy.library = field(&text, "library").ok_or_else(|| Error::Output {
            command: process::show(&command),
            expected: "which OpenBLAS it ran".to_owned(),
        })?;
        Ok(numpy)
    }

    fn gflops(&self, threads: usize) -> Result<f64> {
        let (command, text) = self.run(threads)?;
        field(&text, "gflops")
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| Error::Output { command: process::show(&command), expected: "gflops".to_owned() })
    }

    fn run(&self, threads: usize) -> Result<(Command, String)> {
        let mut command = Command::new("python3");
        command.arg(&self.script).args([SIZE, &threads.to_string()]).env("PYTHONPATH", &self.site);
        command.env("OPENBLAS_NUM_THREADS", threads.to_string());
        // Where these are set for older libraries, they take the better kernels from this one.
        command.env_remove("OPENBLAS_CORETYPE").env_remove("OPENBLAS_L2_SIZE");
        let text = process::capture(&mut command)?;
        Ok((command, text))
    }
}

/// The rest of the line that begins with `name`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.trim().to_owned()))
}

/// Into a folder, which takes no more than pip, where a virtual environment takes a package of Debian's.
fn install(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.bench().join("numpy");
    let site = folder.join("site");
    if site.join("numpy").is_dir() {
        return Ok(site);
    }
    setup::ensure(&[setup::PIP])?;
    step(&format!("fetch {} from PyPI", NUMPY.join(" and ")), || {
        let unfinished = folder.join("unfinished");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--quiet", "--upgrade", "--target"]).arg(&unfinished).args(NUMPY);
        process::run_aside(&mut pip)?;
        fs::rename(&unfinished, &site).map_err(Error::io("rename", &unfinished))
    })?;
    Ok(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_prints() {
        let text = "library OpenBLAS 0.3.31, SkylakeX\ngflops 243.1\n";
        assert_eq!(field(text, "library").as_deref(), Some("OpenBLAS 0.3.31, SkylakeX"));
        assert_eq!(field(text, "gflops").as_deref(), Some("243.1"));
        assert_eq!(field("gflopsy 1\n", "gflops"), None);
    }
}
