//! Assembles PTX into a cubin, so that a start pays for no compilation by the driver.

use std::{
    env,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{self, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use phobos_artifact::{Artifact, CompileRequest, Image, ImageKind};
use phobos_worker::{
    CompileError, KernelSource,
    frame::{CompileFailure, FailureKind},
};

/// The most time for one kernel.
const LIMIT: Duration = Duration::from_secs(300);

/// How much of what ptxas prints goes into an error, in bytes.
const LOG_LIMIT: usize = 4096;

/// The ptxas on `PATH`, else the one under `CUDA_PATH`.
pub(crate) fn find() -> Option<PathBuf> {
    search(
        env::split_paths(&env::var_os("PATH").unwrap_or_default()),
        env::var_os("CUDA_PATH").map(PathBuf::from),
    )
}

fn search(path: impl Iterator<Item = PathBuf>, cuda: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|folder| folder.is_absolute())
        .chain(cuda.map(|cuda| cuda.join("bin")))
        .map(|folder| folder.join("ptxas"))
        .find(|program| is_program(program))
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Adds a cubin to each artifact with PTX.
pub(crate) struct Assembling<S> {
    pub(crate) source: S,
    /// Without one, artifacts pass as they are.
    pub(crate) ptxas: Option<PathBuf>,
}

impl<S: KernelSource> KernelSource for Assembling<S> {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        let mut artifact = self.source.get(request)?;
        let ptx = artifact.images.iter().find(|image| image.kind == ImageKind::Ptx);
        let assembled = artifact.images.iter().any(|image| image.kind == ImageKind::Cubin);
        if let (Some(ptxas), Some(ptx), false) = (&self.ptxas, ptx, assembled) {
            let bytes = assemble(ptxas, &request.chip.to_string(), &ptx.bytes).map_err(|message| {
                let failure = CompileFailure {
                    kind: FailureKind::Internal,
                    rendered: format!("{}: {message} (--no-ptxas stores PTX only)", ptxas.display()),
                    json: serde_json::Value::Null,
                };
                CompileError::Internal { kernel: request.label(), failure: Box::new(failure) }
            })?;
            artifact.images.push(Image { kind: ImageKind::Cubin, bytes });
        }
        Ok(artifact)
    }

    fn parallelism(&self) -> usize {
        self.source.parallelism()
    }
}

fn assemble(ptxas: &Path, chip: &str, ptx: &[u8]) -> Result<Vec<u8>, String> {
    let folder = Scratch::new().map_err(|error| format!("no temporary directory: {error}"))?;
    let file = |name: &str| folder.0.join(name);
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("{what}: {error}")
    };
    fs::write(file("kernel.ptx"), ptx).map_err(failed("cannot write the PTX"))?;
    // Into a file: a pipe that nobody reads would block it.
    let log = File::create(file("log")).map_err(failed("cannot create a log"))?;
    let log_too = log.try_clone().map_err(failed("cannot create a log"))?;
    let mut command = Command::new(ptxas);
    command.arg(format!("-arch={chip}")).arg("-o").arg(file("kernel.cubin")).arg(file("kernel.ptx"));
    command.stdin(Stdio::null()).stdout(log).stderr(log_too);
    let status = run(&mut command).map_err(failed("cannot be run"))?;
    if !status.is_some_and(|status| status.success()) {
        let log = fs::read(file("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[..log.len().min(LOG_LIMIT)]).trim().to_owned();
        let how = match status {
            Some(status) => status.to_string(),
            None => format!("stopped after {}s", LIMIT.as_secs()),
        };
        return Err(format!("{how}\n{log}"));
    }
    match fs::read(file("kernel.cubin")) {
        Ok(cubin) if !cubin.is_empty() => Ok(cubin),
        Ok(_) => Err("it wrote an empty cubin".into()),
        Err(error) => Err(format!("it wrote no cubin: {error}")),
    }
}

/// Runs `command` to its end; `None` when it was stopped at the limit.
fn run(command: &mut Command) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(3));
    }
}

/// A directory of our own that goes with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("phobos-ptxas-{}-{count}", process::id()));
            // Made, never reused: what lies there already may be a stranger's.
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Scratch(path)),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("ptxas");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Retried: a thread that forks meanwhile may hold the fresh script open for writing.
    fn assemble_with(script: &Path) -> Result<Vec<u8>, String> {
        loop {
            match assemble(script, "sm_86", b"the ptx") {
                Err(message) if message.contains("busy") => thread::sleep(Duration::from_millis(5)),
                result => return result,
            }
        }
    }

    #[test]
    fn a_fake_assembler_is_asked_for_the_chip() {
        let folder = tempfile::tempdir().unwrap();
        // $1 -arch, $2 -o, $3 output, $4 input
        let script = script(folder.path(), r#"printf 'cubin %s ' "$1" > "$3"; cat "$4" >> "$3""#);
        assert_eq!(assemble_with(&script).unwrap(), b"cubin -arch=sm_86 the ptx");
    }

    #[test]
    fn its_failures_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let fail = script(folder.path(), "echo 'line 3: no such register' >&2; exit 4");
        let message = assemble_with(&fail).unwrap_err();
        assert!(
            message.contains("exit status: 4") && message.contains("line 3: no such register"),
            "{message}"
        );
        let lazy = script(folder.path(), "exit 0");
        assert!(assemble_with(&lazy).unwrap_err().contains("it wrote no cubin"));
        let absent = assemble(&folder.path().join("absent"), "sm_86", b"").unwrap_err();
        assert!(absent.contains("cannot be run"), "{absent}");
        assert_eq!(scratch_left(), 0);
    }

    fn scratch_left() -> usize {
        // The other test of this process may have one at this moment.
        let prefix = format!("phobos-ptxas-{}-", process::id());
        let left = || {
            fs::read_dir(env::temp_dir())
                .unwrap()
                .filter(|item| item.as_ref().unwrap().file_name().to_string_lossy().starts_with(&prefix))
                .count()
        };
        let begin = Instant::now();
        while left() > 0 && begin.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        left()
    }

    #[test]
    fn where_it_is_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["one", "two", "cuda/bin"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let find = || search([at("one"), at("two")].into_iter(), Some(at("cuda")));
        assert_eq!(find(), None);
        let cuda = script(&at("cuda/bin"), "");
        assert_eq!(find(), Some(cuda));
        let two = script(&at("two"), "");
        assert_eq!(find(), Some(two.clone()));
        fs::write(at("one").join("ptxas"), "not executable").unwrap();
        assert_eq!(find(), Some(two));
    }
}
