//! `phobos-cache warm`

use std::{
    collections::BTreeSet,
    fs,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use phobos_artifact::{Artifact, Chip, CompileRequest, HostLevel};
use phobos_kernel_cache::{
    CacheOptions, CachedSource, Manifest, Recipe,
    evict::{self, STALE_AFTER},
    fs::RealFileSystem,
};
use phobos_worker::{CompileError, KernelSource, WorkerOptions, WorkerPool, compile_all};

use crate::{
    ToolError,
    args::Warm,
    output::kernels,
    ptxas::{self, Assembling},
    writable,
};

pub(crate) fn run(arguments: Warm, out: &mut dyn Write) -> Result<(), ToolError> {
    let store = writable(arguments.dir)?;
    fs::create_dir_all(store.root())
        .map_err(|error| ToolError::Failed(format!("{}: {error}", store.root().display())))?;
    evict::sweep(&store, STALE_AFTER)?;

    let (recipes, bad_recipes) = recipes(&arguments.manifests)?;
    let chips = arguments.selection.chips(|| HostLevel::detect().map(Chip::Host).into_iter().collect());
    if chips.is_empty() {
        return Err(ToolError::Usage(
            "this CPU has no level that kernels are compiled for; give --chip".into(),
        ));
    }
    let mut keys = BTreeSet::new();
    let requests: Vec<CompileRequest> = chips
        .iter()
        .flat_map(|chip| recipes.iter().map(|recipe| recipe.request(*chip)))
        .filter(|request| arguments.selection.has_kernel(&request.kernel))
        .filter(|request| keys.insert(request.key(&phobos_worker::fingerprint::current())))
        .collect();

    let assembler = match (arguments.ptxas, arguments.no_ptxas) {
        (Some(path), _) if !ptxas::is_program(&path) => {
            return Err(ToolError::Usage(format!("--ptxas {}: not a program", path.display())));
        }
        (Some(path), _) => Some(path),
        (None, true) => None,
        (None, false) => ptxas::find(),
    };
    if let (None, false, Some(chip)) =
        (&assembler, arguments.no_ptxas, chips.iter().find(|chip| !chip.is_host()))
    {
        eprintln!("note: no ptxas on PATH or in CUDA_PATH: kernels for {chip} are stored as PTX only");
    }

    let defaults = WorkerOptions::default();
    let workers = arguments.jobs.map_or(defaults.workers, usize::from);
    let pool = WorkerPool::new(WorkerOptions { workers, ..defaults });
    let options = CacheOptions {
        max_bytes: CacheOptions::from_environment().0.max_bytes,
        // A lower level that is there must not stand for one that was asked for.
        lower_host_levels: false,
        ..CacheOptions::in_directory(store.root())
    };
    let bar = progress_bar(requests.len() as u64);
    let above = bar.clone();
    let cache = CachedSource::with(
        Assembling { source: pool, ptxas: assembler },
        options,
        Arc::new(RealFileSystem),
        Arc::new(move |warning| above.suspend(|| eprintln!("warning: {warning}"))),
    );
    let warming = Warming { cache, force: arguments.force };
    let results = compile_all(&warming, &requests, &|done, _| bar.set_position(done as u64));
    bar.finish_and_clear();

    let mut failed = 0;
    let mut setup_told = false;
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        failed += 1;
        if !error.is_setup() {
            eprintln!("error: {error}");
        } else if !setup_told {
            setup_told = true;
            eprintln!("error: {error}");
        }
    }
    let statistics = warming.cache.statistics();
    let compiled = (results.len() as u64).saturating_sub(failed).saturating_sub(statistics.hits);
    writeln!(
        out,
        "{}: {} compiled, {} already there, {failed} failed",
        store.root().display(),
        kernels(compiled),
        statistics.hits,
    )?;
    if failed > 0 || bad_recipes > 0 || statistics.unstored > 0 { Err(ToolError::Reported) } else { Ok(()) }
}

/// The recipes of all manifests, and how many files are none. Each such file is
/// reported; a manifest that cannot be read at all is an error.
pub(crate) fn recipes(manifests: &[PathBuf]) -> Result<(Vec<Recipe>, u64), ToolError> {
    let mut recipes = Vec::new();
    let mut bad = 0;
    for root in manifests {
        for recipe in Manifest::new(Arc::new(RealFileSystem), root).read()? {
            match recipe {
                Ok(recipe) => recipes.push(recipe),
                Err(error) => {
                    eprintln!("error: {error}");
                    bad += 1;
                }
            }
        }
    }
    Ok((recipes, bad))
}

/// Asks the cache and lets go of the code, of which there may be much.
struct Warming<S> {
    cache: CachedSource<S>,
    force: bool,
}

impl<S: KernelSource> KernelSource for Warming<S> {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        let result = if self.force { self.cache.refresh(request) } else { self.cache.get(request) };
        result.map(|artifact| Artifact { images: Vec::new(), ..artifact })
    }

    fn parallelism(&self) -> usize {
        self.cache.parallelism()
    }
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(total: u64) -> ProgressBar {
    let target = match io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    match ProgressStyle::with_template("compiling kernels {pos}/{len} {wide_bar} {elapsed}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
