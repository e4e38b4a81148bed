//! What went wrong with the kernel caches of other projects, as tests of this one.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use common::{FakeSource, cache, child as spawn_child, get_all, request, requests, role, strays};
use phobos_artifact::{Artifact, Chip, CompileRequest, Element, Fingerprint, HostLevel, IndexBits};
use phobos_kernel_cache::{CacheOptions, EntryId, Store, evict, fs::RealFileSystem};
use phobos_worker::{CompileError, KernelSource};

/// What the processes that the tests start do; nothing in the process of the tests.
#[test]
fn child() {
    let Some((role, folder)) = role() else { return };
    let requests = requests(3);
    let (cache, warnings) = cache(FakeSource::default(), CacheOptions::in_directory(&folder));
    get_all(&cache, &requests);
    match role.as_str() {
        "unwritable" => {
            assert_eq!(cache.inner().count(), 3);
            assert!(warnings.only().contains("not kept"), "{}", warnings.only());
        }
        "hits" => {
            assert_eq!(cache.inner().count(), 0);
            assert!(warnings.all().is_empty(), "{:?}", warnings.all());
        }
        other => panic!("no role {other}"),
    }
}

fn entry_path(root: &Path, request: &CompileRequest) -> PathBuf {
    let store = Store::new(Arc::new(RealFileSystem), root);
    store.path(&EntryId::new(request, &phobos_worker::fingerprint::current()))
}

#[test]
fn k3_a_damaged_entry_is_recompiled_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let requests = requests(1);
    get_all(&cache(FakeSource::default(), CacheOptions::in_directory(folder.path())).0, &requests);
    let path = entry_path(folder.path(), &requests[0]);
    let good = fs::read(&path).unwrap();
    let write = |bytes: &[u8]| fs::write(&path, bytes).unwrap();

    type Damage<'a> = (&'static str, bool, Box<dyn Fn() + 'a>);
    let mut damages: Vec<Damage> = vec![
        ("empty", true, Box::new(|| write(&[]))),
        ("one byte", true, Box::new(|| write(&good[..1]))),
        ("half", true, Box::new(|| write(&good[..good.len() / 2]))),
        ("all but one byte", true, Box::new(|| write(&good[..good.len() - 1]))),
        ("one byte more", true, Box::new(|| write(&[&good[..], &[0]].concat()))),
        (
            "a directory",
            true,
            Box::new(|| {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
                fs::write(path.join("file"), "x").unwrap();
            }),
        ),
        (
            "a pipe",
            true,
            Box::new(|| {
                fs::remove_file(&path).unwrap();
                let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(made.success());
            }),
        ),
        // Nothing is there, so nothing is wrong.
        (
            "a dangling link",
            false,
            Box::new(|| {
                fs::remove_file(&path).unwrap();
                symlink("/nowhere", &path).unwrap();
            }),
        ),
        (
            "a link to itself",
            true,
            Box::new(|| {
                fs::remove_file(&path).unwrap();
                symlink(&path, &path).unwrap();
            }),
        ),
        (
            "the entry of another kernel",
            true,
            Box::new(|| {
                let other = tempfile::tempdir().unwrap();
                let stranger = [request("stranger", requests[0].chip)];
                get_all(&cache(FakeSource::default(), CacheOptions::in_directory(other.path())).0, &stranger);
                fs::copy(entry_path(other.path(), &stranger[0]), &path).unwrap();
            }),
        ),
    ];
    for bit in (0..good.len() * 8).step_by(997) {
        let (write, good) = (&write, &good);
        damages.push((
            "a flipped bit",
            true,
            Box::new(move || {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                write(&bytes);
            }),
        ));
    }
    for (name, warns, damage) in damages {
        damage();
        let options = || CacheOptions::in_directory(folder.path());
        let (first, warnings) = cache(FakeSource::default(), options());
        get_all(&first, &requests);
        get_all(&first, &requests);
        assert_eq!(first.inner().count(), 1, "{name}");
        assert_eq!(warnings.all().len(), usize::from(warns), "{name}: {:?}", warnings.all());
        let (second, warnings) = cache(FakeSource::default(), options());
        get_all(&second, &requests);
        assert_eq!((second.inner().count(), warnings.all().len()), (0, 0), "{name}");
        assert!(strays(folder.path()).is_empty(), "{name}: {:?}", strays(folder.path()));
        assert_eq!(fs::read(&path).unwrap(), good, "{name}");
    }
}

#[test]
fn k4_a_directory_that_cannot_be_used_costs_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for place in [file.clone(), file.join("below/it"), PathBuf::from("/proc/phobos/kernel-cache")] {
        let (cache, warnings) = cache(FakeSource::default(), CacheOptions::in_directory(&place));
        get_all(&cache, &requests(3));
        assert_eq!(cache.inner().count(), 3, "{}", place.display());
        assert!(warnings.only().contains("not kept"), "{}: {}", place.display(), warnings.only());
    }
    let (cache, warnings) =
        cache(FakeSource::default(), CacheOptions::in_directory(folder.path().join("two/levels/down")));
    get_all(&cache, &requests(3));
    get_all(&cache, &requests(3));
    assert_eq!((cache.inner().count(), warnings.all().len()), (3, 0));
}

#[test]
fn k4_a_read_only_directory_is_read_and_costs_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("cache");
    fs::create_dir(&root).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path(), 0o755);
    mode(&root, 0o555);
    let is_root = fs::write(root.join("probe"), "").is_ok();
    let run = |role: &str| {
        let mut command = spawn_child(role, &root);
        if is_root {
            // Root writes everywhere: be nobody.
            let _ = fs::remove_file(root.join("probe"));
            command.uid(65534).gid(65534);
        }
        match command.stderr(Stdio::piped()).output() {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                true
            }
            Err(error) => {
                eprintln!("skipped: this test cannot be run by another user: {error}");
                false
            }
        }
    };
    if !run("unwritable") {
        return;
    }
    mode(&root, 0o755);
    get_all(&cache(FakeSource::default(), CacheOptions::in_directory(&root)).0, &requests(3));
    for sub in [".locks", "sm_86"] {
        mode(&root.join(sub), 0o555);
    }
    mode(&root, 0o555);
    run("hits");
    for path in [root.clone(), root.join(".locks"), root.join("sm_86")] {
        mode(&path, 0o755);
    }
}

#[test]
fn k6_strays_stop_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let requests = requests(2);
    let key = requests[0].key(&phobos_worker::fingerprint::current()).to_string();
    let chip = folder.path().join("sm_86");
    let locks = folder.path().join(".locks");
    fs::create_dir_all(&chip).unwrap();
    fs::create_dir_all(&locks).unwrap();
    // A dead writer's file for this key, an unknown one, an old format, a dead owner's lock.
    fs::write(chip.join(format!(".tmp-{}-4194303-0000000000000000", &key[..16])), "half").unwrap();
    fs::write(chip.join(".tmp-of-an-older-version"), "x").unwrap();
    fs::write(entry_path(folder.path(), &requests[1]), "PHOBOSKC\0\0\0\0an old format").unwrap();
    fs::write(locks.join(format!("{key}.lock")), "4194303").unwrap();

    let (first, warnings) = cache(FakeSource::default(), CacheOptions::in_directory(folder.path()));
    get_all(&first, &requests);
    assert_eq!(first.inner().count(), 2);
    assert!(warnings.only().contains("entry format 0"), "{}", warnings.only());
    assert_eq!(strays(folder.path()), ["sm_86/.tmp-of-an-older-version"]);
    let (second, _) = cache(FakeSource::default(), CacheOptions::in_directory(folder.path()));
    get_all(&second, &requests);
    assert_eq!(second.inner().count(), 0);
    let store = Store::new(Arc::new(RealFileSystem), folder.path());
    assert_eq!(evict::sweep(&store, Duration::ZERO).unwrap().files, 1);
    assert!(strays(folder.path()).is_empty());
}

#[test]
fn k7_whatever_decides_the_code_misses() {
    let folder = tempfile::tempdir().unwrap();
    let base = request("kernel_0", Chip::Sm(86));
    let with = |change: &dyn Fn(&mut CompileRequest)| {
        let mut request = base.clone();
        change(&mut request);
        request
    };
    let variants = [
        base.clone(),
        with(&|r| r.options.index_bits = Some(IndexBits::B64)),
        with(&|r| r.options.no_tune = true),
        with(&|r| r.chip = Chip::Sm(89)),
        with(&|r| r.params.extend([("TILE_M".into(), 64)])),
        with(&|r| r.dims.extend([("D".into(), 64)])),
        with(&|r| r.elements.extend([("F".into(), "q4_0".parse::<Element>().unwrap())])),
        // The source has its imports expanded, so an edit of an imported file shows there.
        with(&|r| r.source.push_str("// imported")),
    ];
    let (cache_now, _) = cache(FakeSource::default(), CacheOptions::in_directory(folder.path()));
    for (index, request) in variants.iter().enumerate() {
        get_all(&cache_now, std::slice::from_ref(request));
        assert_eq!(cache_now.inner().count(), index as u64 + 1, "{}", request.label());
    }
    get_all(&cache_now, &variants);
    assert_eq!(cache_now.inner().count(), variants.len() as u64);

    let other_build = CacheOptions {
        fingerprint: Fingerprint::from_bytes([9; 32]),
        ..CacheOptions::in_directory(folder.path())
    };
    let (other, warnings) = cache(FakeSource::default(), other_build);
    get_all(&other, &variants);
    assert_eq!((other.inner().count(), warnings.all().len()), (variants.len() as u64, 0));
}

#[test]
fn k7_the_same_request_hits_from_another_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    get_all(&cache(FakeSource::default(), CacheOptions::in_directory(folder.path())).0, &requests(3));
    for place in [env::temp_dir(), PathBuf::from("/")] {
        let output =
            spawn_child("hits", folder.path()).current_dir(place).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

// Beyond the reports.

#[test]
fn a_host_takes_the_best_level_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let [_, v4, v3, v2] = HostLevel::BEST_FIRST.map(|level| request("k", Chip::Host(level)));
    let options = || CacheOptions::in_directory(folder.path());
    let exact = || CacheOptions { lower_host_levels: false, ..options() };
    for request in [&v2, &v3] {
        get_all(&cache(FakeSource::default(), exact()).0, std::slice::from_ref(request));
    }
    let (first, _) = cache(FakeSource::default(), options());
    assert_eq!(first.get(&v4).unwrap(), common::artifact(&v3));
    let statistics = first.statistics();
    assert_eq!((statistics.hits, statistics.lower_level_hits, statistics.compiles), (1, 1, 0));
    get_all(&cache(FakeSource::default(), exact()).0, std::slice::from_ref(&v4));
    get_all(&first, &[v4, v3, v2]);
    assert_eq!(first.inner().count(), 0);
}

#[test]
fn shipped_kernels_are_read_and_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let (shipped, own) = (folder.path().join("shipped"), folder.path().join("own"));
    get_all(&cache(FakeSource::default(), CacheOptions::in_directory(&shipped)).0, &requests(2));
    let before = common::files(&shipped);
    let options = || CacheOptions { shipped: Some(shipped.clone()), ..CacheOptions::in_directory(&own) };
    let (first, _) = cache(FakeSource::default(), options());
    get_all(&first, &requests(3));
    assert_eq!((first.statistics().hits, first.inner().count()), (2, 1));
    assert_eq!(common::files(&shipped), before);

    // One that is damaged or refused is compiled into the own directory, and found there first.
    fs::write(entry_path(&shipped, &requests(1)[0]), "damage").unwrap();
    let (second, warnings) = cache(FakeSource::default(), options());
    get_all(&second, &requests(3));
    assert_eq!((second.inner().count(), warnings.all().len()), (1, 1));
    second.refused(&requests(2)[1], &"error 209").unwrap();
    assert!(warnings.all()[1].contains("error 209"), "{:?}", warnings.all());
    let (third, warnings) = cache(FakeSource::default(), options());
    get_all(&third, &requests(3));
    assert_eq!((third.inner().count(), warnings.all().len()), (0, 0));
    assert_eq!(common::files(&own).len(), 3);
    assert_eq!(common::files(&shipped), before);
}

#[test]
fn a_cache_that_is_off_compiles_and_writes_nothing() {
    let (cache, warnings) = cache(FakeSource::default(), CacheOptions::off());
    get_all(&cache, &requests(2));
    get_all(&cache, &requests(2));
    assert_eq!((cache.inner().count(), warnings.all().len()), (4, 0));
}

#[test]
fn threads_that_ask_together_compile_once() {
    let folder = tempfile::tempdir().unwrap();
    let source = FakeSource { takes: Duration::from_millis(100), ..FakeSource::default() };
    let (cache, _) = cache(source, CacheOptions::in_directory(folder.path()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| get_all(&cache, &requests(1)));
        }
    });
    assert_eq!(cache.inner().count(), 1);
    let statistics = cache.statistics();
    assert_eq!(statistics.shared + statistics.hits, 7);
}

#[test]
fn errors_of_the_compiler_pass_and_nothing_is_stored() {
    struct Failing;
    impl KernelSource for Failing {
        fn get(&self, _: &CompileRequest) -> Result<Artifact, CompileError> {
            Err(CompileError::NotFound { tried: vec![] })
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (cache, warnings) = cache(Failing, CacheOptions::in_directory(folder.path()));
    assert!(matches!(cache.get(&requests(1)[0]), Err(CompileError::NotFound { .. })));
    assert!(warnings.all().is_empty());
    assert!(common::files(folder.path()).is_empty(), "{:?}", common::files(folder.path()));
}

#[test]
fn the_limit_holds_and_the_manifest_records_hits_too() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("manifest");
    let root = folder.path().join("cache");
    let options = || CacheOptions {
        manifest: Some(manifest.clone()),
        max_bytes: Some(4000),
        ..CacheOptions::in_directory(&root)
    };
    get_all(&cache(FakeSource::default(), options()).0, &requests(20));
    let total: u64 =
        Store::new(Arc::new(RealFileSystem), &root).list().unwrap().iter().map(|entry| entry.bytes).sum();
    assert!((1..=4000).contains(&total), "{total}");
    assert_eq!(common::files(&manifest).len(), 20);
    fs::remove_dir_all(&manifest).unwrap();
    let last = &requests(20)[19..];
    let (second, _) = cache(FakeSource::default(), options());
    get_all(&second, last);
    assert_eq!(second.inner().count(), 0);
    assert_eq!(common::files(&manifest).len(), 1);
}
