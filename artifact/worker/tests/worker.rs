//! The worker pool against workers that answer, hang, die and lie.
//!
//! The worker is this same executable: called with `--worker` it serves requests and
//! does what the name of the kernel says. How it starts is decided by the name it is
//! called under, so each test makes a link.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{self, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{self, Command, ExitCode},
    sync::Mutex,
    thread,
    time::Duration,
};

use phobos_artifact::{
    Artifact, Chip, CompileOptions, CompileRequest, Fingerprint, GridExpr, HostLevel, Image, ImageKind,
    IndexBits, Metadata,
};
use phobos_worker::{
    CompileError, KernelSource, WorkerOptions, WorkerPool, compile_all,
    frame::{CompileFailure, FailureKind, Hello, Message, serve, write_frame},
};

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--worker") {
        return fake_worker();
    }
    let filters: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let tests: &[(&str, fn())] = &[
        ("a_worker_serves_many_requests", a_worker_serves_many_requests),
        ("failures_of_a_kernel_leave_the_worker_alive", failures_of_a_kernel_leave_the_worker_alive),
        ("a_worker_that_dies_is_replaced", a_worker_that_dies_is_replaced),
        (
            "a_worker_that_died_idle_is_not_blamed_on_the_next",
            a_worker_that_died_idle_is_not_blamed_on_the_next,
        ),
        ("a_hanging_worker_is_killed", a_hanging_worker_is_killed),
        ("a_worker_that_does_not_read_is_killed", a_worker_that_does_not_read_is_killed),
        ("nonsense_is_refused", nonsense_is_refused),
        ("bad_starts", bad_starts),
        ("the_log_is_bounded", the_log_is_bounded),
        ("many_threads_share_few_workers", many_threads_share_few_workers),
        ("compile_all_keeps_the_order", compile_all_keeps_the_order),
        ("compile_all_gives_up_without_a_compiler", compile_all_gives_up_without_a_compiler),
        ("dropping_the_pool_reaps_its_workers", dropping_the_pool_reaps_its_workers),
    ];
    let asked = |option: &str| env::args().any(|argument| argument == option);
    if asked("--list") {
        // nextest asks for the ignored tests apart: a test that is in both lists never runs.
        for (name, _) in tests.iter().filter(|_| !asked("--ignored")) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in tests {
        let matches =
            |filter: &String| if asked("--exact") { name == filter } else { name.contains(filter.as_str()) };
        if !filters.is_empty() && !filters.iter().any(matches) {
            continue;
        }
        let passed = thread::spawn(test).join().is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += usize::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

// The worker.

/// Longer than anyone waits for a test: what is held up by a worker that sleeps so is seen to hang.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn fake_worker() -> ExitCode {
    let mut stdin = io::stdin().lock();
    let mut stdout = io::stdout().lock();
    let program = env::args().next().unwrap_or_default();
    let mut hello = Hello::current("fake");
    match Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "other-build" => hello.fingerprint = Fingerprint::from_bytes([0xab; 32]).long(),
        "other-protocol" => hello.protocol += 1,
        "no-hello" => return ExitCode::from(3),
        "mute" => thread::sleep(FOR_EVER),
        "deaf" => {
            Message::Hello(hello).write(&mut stdout).unwrap();
            thread::sleep(FOR_EVER);
            return ExitCode::SUCCESS;
        }
        "garbage-hello" => {
            stdout.write_all(b"Hello, I print to stdout\n").unwrap();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let served = serve(&mut stdin, &mut stdout, hello, |request| {
        eprintln!("log of {}", request.kernel);
        let failure = |kind| CompileFailure {
            kind,
            rendered: format!("{}.ph:1:1: error: as asked\n", request.kernel),
            json: serde_json::json!({ "line": 1 }),
        };
        // `serve` has locked stdout; a second handle of the same pipe misbehaves for it.
        let raw = || fs::OpenOptions::new().append(true).open("/proc/self/fd/1").unwrap();
        match request.kernel.as_str() {
            "user_error" => return Err(failure(FailureKind::User)),
            "internal_error" => return Err(failure(FailureKind::Internal)),
            "abort" => process::abort(),
            "exit" => process::exit(9),
            "hang" => thread::sleep(FOR_EVER),
            "loud" => {
                for _ in 0..10_000 {
                    eprintln!("a line of the log that repeats");
                }
                eprintln!("the last line");
                process::exit(1);
            }
            "text" => raw().write_all(b"LLVM ERROR: printed where it must not be").unwrap(),
            "huge" => raw().write_all(&u32::MAX.to_le_bytes()).unwrap(),
            "cut" => {
                raw().write_all(&[100, 0, 0, 0, 3]).unwrap();
                process::exit(0);
            }
            "wrong_id" => {
                let bytes = artifact(request).encode();
                let answer = Message::Artifact { id: 1000, bytes }.encode().unwrap();
                write_frame(&mut raw(), &answer).unwrap();
            }
            "damaged" => {
                let mut bytes = artifact(request).encode();
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                let answer = Message::Artifact { id: 1, bytes }.encode().unwrap();
                write_frame(&mut raw(), &answer).unwrap();
            }
            "another" => {
                let other = CompileRequest { kernel: "answer".into(), ..request.clone() };
                return Ok(artifact(&other));
            }
            name if name.starts_with("slow") => thread::sleep(Duration::from_millis(30)),
            _ => {}
        }
        Ok(artifact(request))
    });
    match served {
        Ok(()) => {
            fs::write(format!("{program}.ended-{}", process::id()), "").unwrap();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("worker: {error}");
            ExitCode::FAILURE
        }
    }
}

/// An artifact that says which request and which process it comes from.
fn artifact(request: &CompileRequest) -> Artifact {
    Artifact {
        metadata: Metadata {
            kernel: request.kernel.clone(),
            chip: request.chip,
            fingerprint: phobos_worker::fingerprint::current().long(),
            arguments: vec![],
            grid: [GridExpr::Const(1), GridExpr::Const(1), GridExpr::Const(1)],
            threads: 1,
            shared_bytes: 0,
            scratch_bytes: 0,
            index_bits: IndexBits::B64,
            params: request.params.clone(),
            bound_dims: BTreeMap::new(),
            contracts: vec![],
            remarks: env::args().skip(1).collect(),
        },
        images: vec![Image { kind: ImageKind::SharedObject, bytes: process::id().to_string().into_bytes() }],
    }
}

fn worker_id(artifact: &Artifact) -> u32 {
    String::from_utf8(artifact.images[0].bytes.clone()).unwrap().parse().unwrap()
}

// What the tests share.

struct Workers {
    folder: tempfile::TempDir,
}

impl Workers {
    fn new() -> Workers {
        Workers { folder: tempfile::tempdir().unwrap() }
    }

    /// The worker program that starts in the way `name` says.
    fn program(&self, name: &str) -> PathBuf {
        let link = self.folder.path().join(name);
        if !link.is_symlink() {
            symlink(env::current_exe().unwrap(), &link).unwrap();
        }
        link
    }

    fn pool(&self, name: &str, workers: usize) -> WorkerPool {
        self.pool_with(name, workers, Duration::from_secs(30))
    }

    fn pool_with(&self, name: &str, workers: usize, timeout: Duration) -> WorkerPool {
        WorkerPool::new(WorkerOptions {
            program: Some(self.program(name)),
            workers,
            timeout,
            memory_limit: Some(123_456_789),
            background: false,
            echo_log: false,
        })
    }
}

fn request(kernel: &str) -> CompileRequest {
    CompileRequest {
        source: String::new(),
        kernel: kernel.into(),
        elements: BTreeMap::new(),
        dims: BTreeMap::new(),
        ranges: BTreeMap::new(),
        params: BTreeMap::new(),
        options: CompileOptions::default(),
        chip: Chip::Host(HostLevel::V3),
    }
}

fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

// The tests.

fn a_worker_serves_many_requests() {
    let workers = Workers::new();
    let pool = workers.pool("good", 4);
    let ids: BTreeSet<u32> = (0..5).map(|_| worker_id(&pool.get(&request("answer")).unwrap())).collect();
    assert_eq!(ids.len(), 1, "one request at a time needs one process");
    let answer = pool.get(&request("answer")).unwrap();
    assert_eq!(answer.metadata.remarks, ["--worker", "--memory-limit", "123456789"]);
}

fn failures_of_a_kernel_leave_the_worker_alive() {
    let workers = Workers::new();
    let pool = workers.pool("good", 1);
    let before = worker_id(&pool.get(&request("answer")).unwrap());
    let error = pool.get(&request("user_error")).unwrap_err();
    assert!(error.is_user_error(), "{error:?}");
    assert!(error.to_string().contains("user_error.ph:1:1: error: as asked"), "{error}");
    match pool.get(&request("internal_error")).unwrap_err() {
        CompileError::Internal { kernel, failure } => {
            assert_eq!(kernel, "internal_error host-x86-64-v3");
            assert_eq!(failure.json, serde_json::json!({ "line": 1 }));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(worker_id(&pool.get(&request("answer")).unwrap()), before);
}

fn a_worker_that_dies_is_replaced() {
    let workers = Workers::new();
    let pool = workers.pool("good", 1);
    let before = worker_id(&pool.get(&request("answer")).unwrap());
    for (kernel, how) in [("abort", "signal: 6"), ("exit", "exit status: 9"), ("cut", "exit status: 0")] {
        let error = pool.get(&request(kernel)).unwrap_err();
        let CompileError::Died { kernel: label, status, stderr } = &error else { panic!("{error:?}") };
        assert_eq!(*label, format!("{kernel} host-x86-64-v3"));
        assert!(status.to_string().starts_with(how), "{status}");
        assert_eq!(stderr.trim(), format!("log of {kernel}"));
        assert!(error.to_string().contains(label.as_str()) && error.to_string().contains(how), "{error}");
        assert!(!error.is_user_error() && !error.is_setup());
        let after = worker_id(&pool.get(&request("answer")).unwrap());
        assert_ne!(after, before);
    }
}

fn a_worker_that_died_idle_is_not_blamed_on_the_next() {
    let workers = Workers::new();
    let pool = workers.pool("good", 1);
    let before = worker_id(&pool.get(&request("answer")).unwrap());
    // The shell's own kill: a small system has no other.
    assert!(Command::new("sh").args(["-c", &format!("kill -9 {before}")]).status().unwrap().success());
    // It stays a zombie of this process until the pool looks; wait until it is one.
    let stat = format!("/proc/{before}/stat");
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_ne!(worker_id(&pool.get(&request("answer")).unwrap()), before);
}

fn a_hanging_worker_is_killed() {
    let workers = Workers::new();
    let pool = workers.pool_with("good", 1, Duration::from_millis(4000));
    let id = worker_id(&pool.get(&request("answer")).unwrap());
    let error = pool.get(&request("hang")).unwrap_err();
    let CompileError::Timeout { kernel, limit, stderr } = &error else { panic!("{error:?}") };
    assert_eq!((kernel.as_str(), limit.as_millis()), ("hang host-x86-64-v3", 4000));
    assert_eq!(stderr.trim(), "log of hang");
    assert!(!exists(id), "the worker must be killed and reaped");
    assert_ne!(worker_id(&pool.get(&request("answer")).unwrap()), id);
}

fn a_worker_that_does_not_read_is_killed() {
    let workers = Workers::new();
    let pool = workers.pool_with("deaf", 1, Duration::from_millis(400));
    // Far more than a pipe holds.
    let request = CompileRequest { source: "x".repeat(4 << 20), ..request("answer") };
    let error = pool.get(&request).unwrap_err();
    assert!(matches!(error, CompileError::Timeout { .. }), "{error:?}");
}

fn nonsense_is_refused() {
    let workers = Workers::new();
    for (kernel, message) in [
        ("text", "a frame of"),
        ("huge", "the limit is 67108864"),
        ("wrong_id", "it is no answer to the request"),
        ("damaged", "damaged artifact"),
        ("another", "it is kernel answer for host-x86-64-v3"),
    ] {
        let pool = workers.pool("good", 1);
        let error = pool.get(&request(kernel)).unwrap_err();
        let CompileError::Protocol { kernel: label, message: found, .. } = &error else {
            panic!("{kernel}: {error:?}")
        };
        assert_eq!(*label, format!("{kernel} host-x86-64-v3"));
        assert!(found.contains(message), "{kernel}: {found}");
        pool.get(&request("answer")).unwrap();
    }
}

fn bad_starts() {
    let workers = Workers::new();
    let get = |name: &str| {
        let timeout = Duration::from_millis(if name == "mute" { 300 } else { 30_000 });
        workers.pool_with(name, 1, timeout).get(&request("answer")).unwrap_err()
    };
    for name in ["other-build", "other-protocol"] {
        let error = get(name);
        assert!(matches!(error, CompileError::OtherBuild { .. }), "{error:?}");
        assert!(error.is_setup());
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("rebuild both with `cargo build"), "{text}");
        assert!(text.contains(&phobos_worker::fingerprint::current().to_string()), "{text}");
    }
    assert!(get("other-build").to_string().contains("abababababababab, this program"));
    let error = get("no-hello");
    assert!(matches!(&error, CompileError::Died { status, .. } if status.code() == Some(3)), "{error:?}");
    assert!(matches!(get("mute"), CompileError::Timeout { .. }));
    let error = get("garbage-hello");
    assert!(matches!(error, CompileError::Protocol { .. }), "{error:?}");

    let options = WorkerOptions { program: Some("/nowhere/at/all".into()), ..WorkerOptions::default() };
    let error = WorkerPool::new(options).get(&request("answer")).unwrap_err();
    assert!(matches!(error, CompileError::Spawn { .. }) && error.is_setup(), "{error:?}");
    assert!(error.to_string().starts_with("/nowhere/at/all: cannot start the compiler"), "{error}");
}

fn the_log_is_bounded() {
    let workers = Workers::new();
    let error = workers.pool("good", 1).get(&request("loud")).unwrap_err();
    let CompileError::Died { stderr, .. } = error else { panic!("{error:?}") };
    assert!(stderr.ends_with("the last line"), "{stderr}");
    assert!(stderr.len() < 20_000, "{} bytes", stderr.len());
}

fn many_threads_share_few_workers() {
    let workers = Workers::new();
    let pool = workers.pool("good", 3);
    let ids = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for thread in 0..12 {
            let (pool, ids) = (&pool, &ids);
            scope.spawn(move || {
                for round in 0..4 {
                    let kernel = format!("slow_{thread}_{round}");
                    let artifact = pool.get(&request(&kernel)).unwrap();
                    assert_eq!(artifact.metadata.kernel, kernel);
                    ids.lock().unwrap().insert(worker_id(&artifact));
                }
            });
        }
    });
    let ids = ids.into_inner().unwrap();
    assert!((2..=3).contains(&ids.len()), "{ids:?}");
}

fn compile_all_keeps_the_order() {
    let workers = Workers::new();
    let pool = workers.pool("good", 3);
    let names: Vec<String> = (0..20)
        .map(|i| if i % 7 == 3 { "abort".into() } else { format!("{}{i}", ["slow_", "k"][i % 2]) })
        .collect();
    let requests: Vec<CompileRequest> = names.iter().map(|name| request(name)).collect();
    let seen = Mutex::new(Vec::new());
    let results = pool.compile_all(&requests, &|done, total| seen.lock().unwrap().push((done, total)));
    // What failed is no progress: three of them abort.
    assert_eq!(seen.into_inner().unwrap(), (0..=17).map(|done| (done, 20)).collect::<Vec<_>>());
    for (name, result) in names.iter().zip(results) {
        match result {
            Ok(artifact) => assert_eq!(artifact.metadata.kernel, *name),
            Err(error) => {
                assert_eq!(name, "abort", "{error}");
                assert!(matches!(error, CompileError::Died { .. }), "{error:?}");
            }
        }
    }
    assert!(pool.compile_all(&[], &|_, _| {}).is_empty());
}

fn compile_all_gives_up_without_a_compiler() {
    struct Absent(Mutex<usize>);
    impl KernelSource for Absent {
        fn get(&self, _: &CompileRequest) -> Result<Artifact, CompileError> {
            *self.0.lock().unwrap() += 1;
            Err(CompileError::NotFound { tried: vec![] })
        }
        fn parallelism(&self) -> usize {
            1
        }
    }
    let source = Absent(Mutex::new(0));
    let results = compile_all(&source, &vec![request("answer"); 50_000], &|_, _| {});
    assert_eq!(results.len(), 50_000);
    assert!(results.iter().all(|result| matches!(result, Err(CompileError::NotFound { .. }))));
    assert!(*source.0.lock().unwrap() < 50_000);
}

fn dropping_the_pool_reaps_its_workers() {
    let workers = Workers::new();
    let pool = workers.pool("good", 3);
    let requests: Vec<CompileRequest> = (0..6).map(|i| request(&format!("slow_{i}"))).collect();
    let ids: BTreeSet<u32> = pool
        .compile_all(&requests, &|_, _| {})
        .into_iter()
        .map(|result| worker_id(&result.unwrap()))
        .collect();
    assert!(ids.iter().all(|id| exists(*id)));
    drop(pool);
    assert!(ids.iter().all(|id| !exists(*id)));
    let ended = |id: &u32| workers.folder.path().join(format!("good.ended-{id}")).exists();
    assert!(ids.iter().all(ended), "they exit when told, and are not killed");
}
