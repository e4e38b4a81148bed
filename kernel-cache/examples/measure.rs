//! Parts of `cargo xtask bench cache` that need the cache in their own process.
//!
//! ```text
//! measure lookup CACHE MANIFEST CHIP   microseconds per kernel, as lines `NAME VALUE`
//! measure fill CACHE FROM MANIFEST COUNT
//!                                      COUNT entries in CACHE, copies of those in FROM under other keys
//! measure gemm MANIFEST SOURCE TILES   records the kernel `gemm` once per tile `MxNxK` of a list with commas
//! ```
#![allow(clippy::unwrap_used)] // a measurement: what goes wrong ends it

use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use phobos_artifact::{Artifact, Chip, CompileOptions, CompileRequest, HostLevel};
use phobos_kernel_cache::{
    CacheOptions, CachedSource, EntryId, Manifest, Store,
    entry::{Header, encode},
    fs::RealFileSystem,
    warning,
};
use phobos_worker::{CompileError, KernelSource};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["lookup", cache, manifest, chip] => lookup(Path::new(cache), manifest, chip.parse().unwrap()),
        ["fill", cache, from, manifest, count] => {
            fill(Path::new(cache), Path::new(from), manifest, count.parse().unwrap());
        }
        ["gemm", manifest, source, tiles] => gemm(manifest, source, tiles),
        _ => panic!("usage: measure lookup|fill|gemm, see the head of the source"),
    }
}

/// What stands behind the cache where nothing may be compiled.
struct Nothing;

impl KernelSource for Nothing {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        panic!("{} is not in the cache", request.label())
    }
}

fn requests(manifest: &str, chip: Chip) -> Vec<CompileRequest> {
    let recipes = Manifest::new(Arc::new(RealFileSystem), manifest).read().unwrap();
    recipes.into_iter().map(|recipe| recipe.unwrap().request(chip)).collect()
}

fn store(root: &Path) -> Store {
    Store::new(Arc::new(RealFileSystem), root)
}

/// What is there of `requests`: not every kernel compiles for every chip.
fn present(cache: &Path, requests: Vec<CompileRequest>) -> Vec<CompileRequest> {
    let store = store(cache);
    let is_there = |request: &CompileRequest| {
        store.get(&EntryId::new(request, &phobos_worker::fingerprint::current())).unwrap().is_some()
    };
    requests.into_iter().filter(is_there).collect()
}

/// The median time of a request, over all requests and many rounds.
fn time(options: &CacheOptions, requests: &[CompileRequest]) -> f64 {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        // As a process that starts: nothing is kept in memory.
        let cache =
            CachedSource::with(Nothing, options.clone(), Arc::new(RealFileSystem), warning::to_stderr());
        for request in requests {
            let start = Instant::now();
            std::hint::black_box(cache.get(request).unwrap());
            times.push(start.elapsed());
        }
    }
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn lookup(cache: &Path, manifest: &str, chip: Chip) {
    let requests = present(cache, requests(manifest, chip));
    let bytes: u64 = store(cache).list().unwrap().iter().filter(|e| e.chip == chip).map(|e| e.bytes).sum();
    println!("kernels {}", requests.len());
    println!("kilobytes {:.1}", bytes as f64 / requests.len() as f64 / 1e3);
    println!("own {:.1}", time(&CacheOptions::in_directory(cache), &requests));
    let empty = env::temp_dir().join(format!("phobos-measure-{}", std::process::id()));
    let shipped = CacheOptions { shipped: Some(cache.to_owned()), ..CacheOptions::in_directory(&empty) };
    println!("shipped {:.1}", time(&shipped, &requests));
    // As on a machine of a better level than the cache was filled for.
    if let Chip::Host(level) = chip
        && let Some(better) = HostLevel::BEST_FIRST.into_iter().rfind(|better| *better > level)
    {
        let asked = |r: &CompileRequest| CompileRequest { chip: Chip::Host(better), ..r.clone() };
        let asked: Vec<CompileRequest> = requests.iter().map(asked).collect();
        if present(cache, asked.clone()).is_empty() {
            println!("lower_level {:.1}", time(&shipped, &asked));
        }
    }
    let start = Instant::now();
    for _ in 0..200 {
        for request in &requests {
            std::hint::black_box(request.key(&phobos_worker::fingerprint::current()));
        }
    }
    println!("key {:.1}", start.elapsed().as_secs_f64() * 1e6 / 200.0 / requests.len() as f64);
}

fn fill(cache: &Path, from: &Path, manifest: &str, count: usize) {
    let from = store(from);
    let chips: Vec<Chip> = HostLevel::BEST_FIRST.map(Chip::Host).to_vec();
    let fingerprint = phobos_worker::fingerprint::current();
    let templates: Vec<(CompileRequest, Artifact)> = chips
        .iter()
        .flat_map(|chip| requests(manifest, *chip))
        .filter_map(|request| Some((request.clone(), from.get(&EntryId::new(&request, &fingerprint)).ok()??)))
        .collect();
    for (index, (request, artifact)) in templates.iter().cycle().take(count).enumerate() {
        let mut request = request.clone();
        request.params.insert("INDEX".into(), index as u64);
        let id = EntryId::new(&request, &fingerprint);
        let folder = cache.join(id.chip.to_string());
        fs::create_dir_all(&folder).unwrap();
        // Without the store: ten thousand syncs are not what is measured.
        fs::write(folder.join(id.file_name()), encode(&Header::new(&request, &fingerprint), artifact))
            .unwrap();
    }
}

fn gemm(manifest: &str, source: &str, tiles: &str) {
    let source = fs::read_to_string(source).unwrap();
    let manifest = Manifest::new(Arc::new(RealFileSystem), manifest);
    for tile in tiles.split(',') {
        let sizes = tile.split('x').map(|size| size.parse().unwrap());
        let params: BTreeMap<String, u64> =
            ["TILE_M", "TILE_N", "TILE_K"].map(str::to_owned).into_iter().zip(sizes).collect();
        let request = CompileRequest {
            source: source.clone(),
            kernel: "gemm".into(),
            elements: BTreeMap::new(),
            dims: BTreeMap::new(),
            ranges: BTreeMap::new(),
            params,
            options: CompileOptions::default(),
            chip: Chip::Host(HostLevel::V2),
        };
        manifest.record(&request).unwrap();
    }
}
