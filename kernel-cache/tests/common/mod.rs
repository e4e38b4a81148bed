//! Requests, artifacts and sources for the tests of the cache.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use phobos_artifact::{
    Artifact, Chip, CompileOptions, CompileRequest, GridExpr, Image, ImageKind, IndexBits, Metadata,
};
use phobos_kernel_cache::{CacheOptions, CachedSource, fs::RealFileSystem, warning::Sink};
use phobos_worker::{CompileError, KernelSource};

/// What a process started by a test is to do.
pub const ROLE: &str = "PHOBOS_TEST_ROLE";
/// Where it is to do it.
pub const FOLDER: &str = "PHOBOS_TEST_FOLDER";

pub fn request(kernel: &str, chip: Chip) -> CompileRequest {
    CompileRequest {
        source: format!("kernel {kernel}() {{}}"),
        kernel: kernel.into(),
        elements: BTreeMap::new(),
        dims: BTreeMap::new(),
        ranges: BTreeMap::new(),
        params: BTreeMap::new(),
        options: CompileOptions::default(),
        chip,
    }
}

pub fn requests(count: usize) -> Vec<CompileRequest> {
    (0..count).map(|i| request(&format!("kernel_{i}"), Chip::Sm(86))).collect()
}

/// The only right answer to `request`: its code is the request itself.
pub fn artifact(request: &CompileRequest) -> Artifact {
    let kind = if request.chip.is_host() { ImageKind::SharedObject } else { ImageKind::Ptx };
    Artifact {
        metadata: Metadata {
            kernel: request.kernel.clone(),
            chip: request.chip,
            fingerprint: phobos_worker::fingerprint::current().long(),
            arguments: vec![],
            grid: [GridExpr::Const(1), GridExpr::Const(1), GridExpr::Const(1)],
            threads: 32,
            shared_bytes: 0,
            scratch_bytes: 0,
            index_bits: IndexBits::B32,
            params: request.params.clone(),
            bound_dims: BTreeMap::new(),
            contracts: vec![],
            remarks: vec![],
        },
        images: vec![Image { kind, bytes: request.canonical_bytes() }],
    }
}

/// The same with a code of many kilobytes, so that writing it takes a while.
pub fn large_artifact(request: &CompileRequest, fill: u8) -> Artifact {
    let mut artifact = artifact(request);
    artifact.images[0].bytes.resize(300_000, fill);
    artifact
}

/// Compiles by [`artifact`] and counts.
#[derive(Debug, Default)]
pub struct FakeSource {
    pub compiles: AtomicU64,
    pub takes: Duration,
    pub large: bool,
    /// Where each compile leaves a file of its own, to count across processes.
    pub tally: Option<PathBuf>,
}

impl FakeSource {
    pub fn count(&self) -> u64 {
        self.compiles.load(Ordering::SeqCst)
    }
}

impl KernelSource for FakeSource {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        let nth = self.compiles.fetch_add(1, Ordering::SeqCst);
        if let Some(tally) = &self.tally {
            let name = format!("{}-{}", request.kernel, request.chip);
            let once = fs::File::create_new(tally.join(&name));
            if once.is_err() {
                fs::File::create_new(tally.join(format!("again-{name}-{}-{nth}", process::id()))).unwrap();
            }
        }
        thread::sleep(self.takes);
        Ok(if self.large { large_artifact(request, b'x') } else { artifact(request) })
    }
}

/// A cache over `source` and the warnings that it gives.
pub fn cache<S: KernelSource>(source: S, options: CacheOptions) -> (CachedSource<S>, Warnings) {
    let warnings = Warnings::default();
    (CachedSource::with(source, options, Arc::new(RealFileSystem), warnings.sink()), warnings)
}

#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    pub fn sink(&self) -> Sink {
        let list = Arc::clone(&self.0);
        Arc::new(move |warning| list.lock().unwrap().push(warning.to_string()))
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The only warning that was given.
    pub fn only(&self) -> String {
        let all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }
}

/// Asks for every request and checks each answer.
pub fn get_all<S: KernelSource>(cache: &CachedSource<S>, requests: &[CompileRequest]) {
    for request in requests {
        assert_eq!(cache.get(request).unwrap(), artifact(request), "{}", request.label());
    }
}

/// Every file below `root`, by path relative to it.
pub fn files(root: &Path) -> Vec<String> {
    fn walk(root: &Path, folder: &Path, files: &mut Vec<String>) {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                walk(root, &path, files);
            } else {
                files.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut files_found = Vec::new();
    walk(root, root, &mut files_found);
    files_found.sort();
    files_found
}

/// The files below `root` that are not entries.
pub fn strays(root: &Path) -> Vec<String> {
    files(root).into_iter().filter(|name| !name.ends_with(".phk")).collect()
}

/// This test binary again, in a process of its own that runs only the test `child` and
/// finds there what its role is.
pub fn child(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(FOLDER, folder);
    command.stdout(process::Stdio::null());
    command
}

/// The role of this process; `None` in the process that runs the tests.
pub fn role() -> Option<(String, PathBuf)> {
    Some((env::var(ROLE).ok()?, PathBuf::from(env::var_os(FOLDER)?)))
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
