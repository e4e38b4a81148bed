//! The conformance suite on the host, with kernels from the real compiler.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use phobos_artifact::{Artifact, Chip, CompileRequest, HostLevel, RequestKey, format::ACTIVATIONS};
use phobos_device::{
    HostDevice,
    conformance::{Report, requests, run},
};
use phobos_worker::{CompileError, KernelSource, WorkerOptions, WorkerPool};

type Compiled = BTreeMap<RequestKey, Result<Artifact, String>>;

/// Compiles all requests on all workers at once.
fn compile_all(pool: &WorkerPool, requests: &[CompileRequest]) -> Compiled {
    let fingerprint = phobos_worker::fingerprint::current();
    let next = AtomicUsize::new(0);
    let compiled = Mutex::new(Compiled::new());
    std::thread::scope(|scope| {
        for _ in 0..pool.parallelism() {
            scope.spawn(|| {
                while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = pool.get(request).map_err(|error| error.to_string());
                    compiled.lock().unwrap().insert(request.key(&fingerprint), result);
                }
            });
        }
    });
    compiled.into_inner().unwrap()
}

/// The operations `part` of the suite at a level; `None` when there is no compiler or no such
/// level, which is reported, and when no operation is asked for.
fn suite(level: HostLevel, test: &str, part: fn(&str) -> bool) -> Option<Report> {
    let filter = std::env::var("PHOBOS_CONFORMANCE").unwrap_or_default();
    let wanted = |op: &str| part(op) && op.contains(&filter);
    if HostLevel::detect().is_none_or(|best| best < level) {
        skip(test, &format!("this CPU has no {level:?}"));
        return None;
    }
    let pool = WorkerPool::new(WorkerOptions::default());
    let chip = Chip::Host(level);
    let all = requests(chip, &wanted);
    if let Err(error) = pool.get(all.first()?)
        && matches!(error, CompileError::NotFound { .. })
    {
        assert!(std::env::var_os("PHOBOS_REQUIRE_COMPILER").is_none(), "{error}");
        skip(test, &error.to_string());
        return None;
    }
    let compiled = compile_all(&pool, &all);
    let fingerprint = phobos_worker::fingerprint::current();
    let device = HostDevice::new(Some(2)).unwrap();
    let report = run(
        &device,
        &|request| {
            // The device looks from its best level down; the test pins one.
            let request = CompileRequest { chip, ..request.clone() };
            compiled.get(&request.key(&fingerprint)).cloned().unwrap_or_else(|| Err("not requested".into()))
        },
        &wanted,
    );
    eprintln!("{test}: {} kernels, {} cases", all.len(), report.cases);
    Some(report)
}

fn skip(test: &str, reason: &str) {
    let line = format!("SKIP: {test}: {reason}");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("PHOBOS_SKIP_LOG") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

/// Every operation.
fn whole(_: &str) -> bool {
    true
}

/// Operations that read or write a format of activations: this level is v4 with instructions
/// that products of integers alone use, so the code of all others is that of v4.
#[test]
fn host_v4_vnni() {
    let part = |op: &str| ACTIVATIONS.iter().any(|format| op.contains(format.name));
    if let Some(report) = suite(HostLevel::V4Vnni, "conformance::host_v4_vnni", part) {
        assert!(report.failures.is_empty(), "{report}");
    }
}

#[test]
fn host_v4() {
    if let Some(report) = suite(HostLevel::V4, "conformance::host_v4", whole) {
        assert!(report.failures.is_empty(), "{report}");
    }
}

#[test]
fn host_v3() {
    if let Some(report) = suite(HostLevel::V3, "conformance::host_v3", whole) {
        assert!(report.failures.is_empty(), "{report}");
    }
}

#[test]
fn host_v2() {
    if let Some(report) = suite(HostLevel::V2, "conformance::host_v2", whole) {
        assert!(report.failures.is_empty(), "{report}");
    }
}
