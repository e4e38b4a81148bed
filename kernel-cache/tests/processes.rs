//! Many processes on one directory.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    env, fs,
    path::Path,
    process::{Child, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use common::{FakeSource, cache, child as spawn_child, files, get_all, requests, role, strays, wait_until};
use phobos_kernel_cache::{
    CacheOptions, EntryId, Store, entry::Header, evict::sweep_locks, fs::RealFileSystem,
};
use phobos_worker::KernelSource;

/// What the processes that the tests start do; nothing in the process of the tests.
#[test]
fn child() {
    let Some((role, folder)) = role() else { return };
    let (role, number) = role.split_once(' ').unwrap();
    let number: usize = number.parse().unwrap();
    match role {
        "compile" => compile_forty(&folder, number),
        "rounds" => compile_in_rounds(&folder, number),
        "churn" => churn(&folder),
        "replace" => replace(&folder, number),
        other => panic!("no role {other}"),
    }
}

fn real(root: &Path) -> Store {
    Store::new(Arc::new(RealFileSystem), root)
}

fn tallying(folder: &Path, takes: Duration) -> FakeSource {
    FakeSource { takes, tally: Some(folder.join("tally")), ..FakeSource::default() }
}

fn assert_success(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Each process asks for the same keys in another order.
fn compile_forty(folder: &Path, number: usize) {
    let mut requests = requests(40);
    requests.rotate_left(number * 5 % 40);
    let options = CacheOptions::in_directory(folder.join("cache"));
    let (cache, warnings) = cache(tallying(folder, Duration::from_millis(2)), options);
    fs::File::create(folder.join(format!("ready-{number}"))).unwrap();
    wait_until("the start", || folder.join("go").exists());
    get_all(&cache, &requests);
    assert!(warnings.all().is_empty(), "{:?}", warnings.all());
}

#[test]
fn sixteen_processes_and_forty_keys_are_forty_compiles() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tally")).unwrap();
    let children: Vec<Child> = (0..16)
        .map(|number| {
            let mut command = spawn_child(&format!("compile {number}"), folder.path());
            command.stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    wait_until("all processes", || (0..16).all(|i| folder.path().join(format!("ready-{i}")).exists()));
    fs::File::create(folder.path().join("go")).unwrap();
    assert_success(children);

    let compiled = files(&folder.path().join("tally"));
    assert_eq!(compiled.len(), 40, "{compiled:?}");
    assert!(!compiled.iter().any(|name| name.starts_with("again")), "{compiled:?}");
    let root = folder.path().join("cache");
    assert_eq!(real(&root).list().unwrap().len(), 40);
    assert!(strays(&root).is_empty(), "{:?}", strays(&root));
}

/// Rounds with an empty directory each, begun together (K1).
fn compile_in_rounds(folder: &Path, number: usize) {
    for round in 0..20 {
        let place = folder.join(format!("round-{round}"));
        fs::create_dir_all(place.join("tally")).unwrap();
        fs::File::create(place.join(format!("ready-{number}"))).unwrap();
        wait_until("the others", || (0..8).all(|i| place.join(format!("ready-{i}")).exists()));
        let options = CacheOptions::in_directory(place.join("cache"));
        let (cache, warnings) = cache(tallying(&place, Duration::from_millis(1)), options);
        get_all(&cache, &requests(8));
        assert!(warnings.all().is_empty(), "{:?}", warnings.all());
    }
}

#[test]
fn k1_processes_that_start_together_on_an_empty_directory() {
    let folder = tempfile::tempdir().unwrap();
    let children = (0..8)
        .map(|number| {
            let mut command = spawn_child(&format!("rounds {number}"), folder.path());
            command.stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    assert_success(children);
    for round in 0..20 {
        let place = folder.path().join(format!("round-{round}"));
        let compiled = files(&place.join("tally"));
        assert_eq!(compiled.len(), 8, "{compiled:?}");
        assert!(strays(&place.join("cache")).is_empty(), "{:?}", strays(&place.join("cache")));
    }
}

/// Removes and compiles entries for ever.
fn churn(folder: &Path) {
    let store = real(folder);
    let (cache, _) =
        cache(FakeSource { large: true, ..FakeSource::default() }, CacheOptions::in_directory(folder));
    loop {
        for request in requests(6) {
            store.remove(&EntryId::new(&request, &phobos_worker::fingerprint::current())).unwrap();
            cache.get(&request).unwrap();
        }
    }
}

#[test]
fn killed_writers_leave_whole_entries_or_none() {
    let kills = if env::var_os("PHOBOS_STRESS").is_some() { 500 } else { 60 };
    let folder = tempfile::tempdir().unwrap();
    let store = real(folder.path());
    let requests = requests(6);
    let start = || spawn_child("churn 0", folder.path()).stderr(Stdio::null()).spawn().unwrap();
    // Two at a time, so that one often waits for the lock of the one that is killed.
    let mut writers = [start(), start()];
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut whole, mut absent) = (0, 0);
    for kill in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros(8_000 + (random >> 33) % 25_000));
        let writer = &mut writers[kill % 2];
        writer.kill().unwrap();
        writer.wait().unwrap();
        for request in &requests {
            match store.get(&EntryId::new(request, &phobos_worker::fingerprint::current())).unwrap() {
                Some(artifact) => {
                    assert_eq!(artifact, common::large_artifact(request, b'x'));
                    whole += 1;
                }
                None => absent += 1,
            }
        }
        *writer = start();
    }
    for writer in &mut writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    assert!(whole > 0, "no writer came to writing: {absent} absent");

    // The next run is blocked by nobody and leaves nothing of the dead behind.
    let source = FakeSource { large: true, ..FakeSource::default() };
    let (cache, warnings) = cache(source, CacheOptions::in_directory(folder.path()));
    let begin = Instant::now();
    for request in &requests {
        assert_eq!(cache.get(request).unwrap(), common::large_artifact(request, b'x'));
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(warnings.all().is_empty(), "{:?}", warnings.all());
    sweep_locks(&store).unwrap();
    assert!(strays(folder.path()).is_empty(), "{:?}", strays(folder.path()));
}

/// Replaces one entry for ever with another content of the same size.
fn replace(folder: &Path, number: usize) {
    let store = real(folder);
    let request = &requests(1)[0];
    let id = EntryId::new(request, &phobos_worker::fingerprint::current());
    let header = Header::new(request, &phobos_worker::fingerprint::current());
    let artifact = common::large_artifact(request, b'a' + number as u8);
    loop {
        store.put(&id, &header, &artifact).unwrap();
    }
}

#[test]
fn a_reader_beside_two_writers_never_sees_a_mix() {
    let folder = tempfile::tempdir().unwrap();
    let store = real(folder.path());
    let request = &requests(1)[0];
    let id = EntryId::new(request, &phobos_worker::fingerprint::current());
    let variants = [b'a', b'b'].map(|fill| common::large_artifact(request, fill));
    let mut writers: Vec<Child> = (0..2)
        .map(|number| {
            let mut command = spawn_child(&format!("replace {number}"), folder.path());
            command.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let mut seen = [0, 0];
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) || seen.contains(&0) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the writers do not write: {seen:?}");
        if let Some(artifact) = store.get(&id).unwrap() {
            let which = variants.iter().position(|variant| *variant == artifact);
            seen[which.expect("a mix of two entries")] += 1;
        }
    }
    for writer in &mut writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
}
