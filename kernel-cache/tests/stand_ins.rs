//! Entries of other chips as stand-ins, and the compiling of what they stand in for.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    path::Path,
    sync::{Mutex, mpsc},
};

use common::{FakeSource, cache, get_all, request};
use phobos_artifact::{Artifact, Chip, CompileRequest, HostLevel};
use phobos_kernel_cache::CacheOptions;
use phobos_worker::{CompileError, KernelSource};

fn options(folder: &Path) -> CacheOptions {
    CacheOptions::in_directory(folder)
}

/// Puts the entries of `requests` into `folder`, each for its own chip.
fn fill(folder: &Path, requests: &[CompileRequest]) {
    let exact = CacheOptions { stand_ins: false, ..options(folder) };
    get_all(&cache(FakeSource::default(), exact).0, requests);
}

/// `count` requests for the level v4, in a directory that has them for v2 only.
fn lower_only(folder: &Path, count: usize) -> Vec<CompileRequest> {
    let of = |level| -> Vec<CompileRequest> {
        (0..count).map(|i| request(&format!("k{i}"), Chip::Host(level))).collect()
    };
    fill(folder, &of(HostLevel::V2));
    of(HostLevel::V4)
}

#[test]
fn a_chip_takes_the_best_of_what_runs_on_it() {
    let hosts = HostLevel::BEST_FIRST.map(|level| request("k", Chip::Host(level)));
    let gpus = [120, 86, 80, 75].map(|number| request("k", Chip::Sm(number)));
    for [above, asked, lower, lowest] in [hosts, gpus] {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path(), &[above, lowest.clone(), lower.clone()]);
        let (first, warnings) = cache(FakeSource::default(), options(folder.path()));
        assert_eq!(first.get(&asked).unwrap(), common::artifact(&lower));
        let statistics = first.statistics();
        assert_eq!((statistics.hits, statistics.stand_ins, statistics.compiles), (1, 1, 0));
        fill(folder.path(), std::slice::from_ref(&asked));
        get_all(&first, &[asked, lower, lowest]);
        assert_eq!((first.inner().count(), first.statistics().stand_ins), (0, 1));
        assert!(warnings.all().is_empty(), "{:?}", warnings.all());
    }
}

#[test]
fn what_stand_ins_answered_is_compiled_beside_the_run_and_found_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let asked = lower_only(folder.path(), 3);
    let (first, warnings) = cache(FakeSource::default(), options(folder.path()));
    assert!(first.upgrade(FakeSource::default()).is_none());
    // One twice, as models ask; its entry is written once.
    for request in asked.iter().chain(&asked[..1]) {
        assert_eq!(first.get(request).unwrap().metadata.chip, Chip::Host(HostLevel::V2));
    }
    let compiler = std::sync::Arc::new(FakeSource::default());
    first.upgrade(std::sync::Arc::clone(&compiler)).unwrap().wait();
    assert_eq!((compiler.count(), first.inner().count()), (3, 0));
    assert!(first.upgrade(FakeSource::default()).is_none());

    let (second, more) = cache(FakeSource::default(), options(folder.path()));
    get_all(&second, &asked);
    let statistics = second.statistics();
    assert_eq!((statistics.hits, statistics.stand_ins, statistics.compiles), (3, 0, 0));
    assert!(second.upgrade(FakeSource::default()).is_none());
    assert!(warnings.all().is_empty() && more.all().is_empty());
    assert!(common::strays(folder.path()).is_empty());
}

/// Says when it begins, and then waits to be let go.
struct Gated {
    begun: mpsc::Sender<()>,
    go: Mutex<mpsc::Receiver<()>>,
}

impl KernelSource for Gated {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        self.begun.send(()).unwrap();
        self.go.lock().unwrap().recv().unwrap();
        Ok(common::artifact(request))
    }
}

#[test]
fn who_drops_it_waits_for_nothing_and_the_rest_is_left_to_a_later_run() {
    let folder = tempfile::tempdir().unwrap();
    let asked = lower_only(folder.path(), 3);
    let (run, _) = cache(FakeSource::default(), options(folder.path()));
    asked.iter().for_each(|request| drop(run.get(request).unwrap()));
    let ((begun, beginnings), (go, gate)) = (mpsc::channel(), mpsc::channel());
    let upgrade = run.upgrade(Gated { begun, go: Mutex::new(gate) }).unwrap();
    beginnings.recv().unwrap();
    // If this waited for the compiler it would wait for ever.
    drop(upgrade);
    go.send(()).unwrap();
    // The compiler is gone without having begun another.
    assert_eq!(beginnings.recv(), Err(mpsc::RecvError));
    let (next, _) = cache(FakeSource::default(), options(folder.path()));
    asked.iter().for_each(|request| drop(next.get(request).unwrap()));
    assert_eq!((next.statistics().hits, next.statistics().stand_ins), (3, 2));
}

#[test]
fn nothing_is_compiled_that_cannot_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = folder.path().join("shipped");
    let asked = lower_only(&shipped, 3);
    let ask = |writable| {
        let options = CacheOptions { writable, shipped: Some(shipped.clone()), ..CacheOptions::off() };
        let (run, warnings) = cache(FakeSource::default(), options);
        asked.iter().for_each(|request| drop(run.get(request).unwrap()));
        assert_eq!(run.statistics().stand_ins, 3);
        (run, warnings)
    };
    assert!(ask(None).0.upgrade(FakeSource::default()).is_none());

    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let (run, _) = ask(Some(file));
    let compiler = std::sync::Arc::new(FakeSource::default());
    run.upgrade(std::sync::Arc::clone(&compiler)).unwrap().wait();
    assert_eq!(compiler.count(), 1);
}

/// Fails for every kernel with an error that `0` makes, and counts.
struct Failing(fn(&CompileRequest) -> CompileError, std::sync::Arc<FakeSource>);

impl KernelSource for Failing {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        self.1.get(request)?;
        Err(self.0(request))
    }
}

#[test]
fn a_kernel_that_does_not_compile_is_a_warning_and_no_compiler_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let asked = lower_only(folder.path(), 3);
    let upgrade = |error| {
        let (run, warnings) = cache(FakeSource::default(), options(folder.path()));
        asked.iter().for_each(|request| drop(run.get(request).unwrap()));
        let compiler = std::sync::Arc::new(FakeSource::default());
        run.upgrade(Failing(error, std::sync::Arc::clone(&compiler))).unwrap().wait();
        (compiler.count(), warnings)
    };
    let (tried, warnings) = upgrade(|request| CompileError::Timeout {
        kernel: request.label(),
        limit: std::time::Duration::from_secs(1),
        stderr: String::new(),
    });
    assert_eq!(tried, 3);
    assert!(warnings.only().contains("k0 host-x86-64-v4"), "{}", warnings.only());
    assert!(warnings.only().ends_with("the stand-in stays in use"), "{}", warnings.only());

    let (tried, warnings) = upgrade(|_| CompileError::NotFound { tried: vec![] });
    assert_eq!((tried, warnings.all().len()), (1, 0));
}
