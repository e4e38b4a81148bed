//! Every file operation of the cache fails in turn, once and from then on: the answers
//! stay right, and the next run repairs what is left.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use common::{FakeSource, Warnings, get_all, requests, strays};
use phobos_artifact::CompileRequest;
use phobos_kernel_cache::{
    CacheOptions, CachedSource, EntryId, Store,
    entry::Header,
    fs::{Contents, FileSystem, Item, LockFile, NewFile, RealFileSystem},
};

const EIO: i32 = 5;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOSPC: i32 = 28;
const ENOLCK: i32 = 37;

/// Which operation fails, and how.
#[derive(Debug)]
struct Plan {
    fail_at: u64,
    for_ever: bool,
    code: i32,
    done: AtomicU64,
}

impl Plan {
    fn step(&self) -> io::Result<()> {
        let number = self.done.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.fail_at || (self.for_ever && number > self.fail_at) {
            return Err(io::Error::from_raw_os_error(self.code));
        }
        Ok(())
    }

    /// Nothing fails.
    fn none() -> Arc<Plan> {
        Arc::new(Plan { fail_at: u64::MAX, for_ever: false, code: 0, done: AtomicU64::new(0) })
    }

    fn fired(&self) -> bool {
        self.done.load(Ordering::SeqCst) >= self.fail_at
    }
}

#[derive(Clone, Debug)]
struct FaultyFileSystem(Arc<Plan>);

#[derive(Debug)]
struct Faulty<T: ?Sized>(Arc<Plan>, Box<T>);

impl FileSystem for FaultyFileSystem {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Contents> {
        self.0.step()?;
        RealFileSystem.read(path, limit)
    }
    fn read_start(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        self.0.step()?;
        RealFileSystem.read_start(path, limit)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.step()?;
        RealFileSystem.create_dir_all(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.0.step()?;
        Ok(Box::new(Faulty(Arc::clone(&self.0), RealFileSystem.create_new(path)?)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step()?;
        RealFileSystem.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.step()?;
        RealFileSystem.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.step()?;
        RealFileSystem.remove_dir_all(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Item>> {
        self.0.step()?;
        RealFileSystem.read_dir(path)
    }
    fn touch(&self, path: &Path) -> io::Result<()> {
        self.0.step()?;
        RealFileSystem.touch(path)
    }
    fn open_lock(&self, path: &Path) -> io::Result<Box<dyn LockFile>> {
        self.0.step()?;
        Ok(Box::new(Faulty(Arc::clone(&self.0), RealFileSystem.open_lock(path)?)))
    }
}

impl NewFile for Faulty<dyn NewFile> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.0.step() {
            // A disk that fills up takes a part.
            self.1.write_all(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.1.write_all(bytes)
    }
    fn sync(&mut self) -> io::Result<()> {
        // No power fails in a test, and a real sync is most of its time.
        self.0.step()
    }
}

impl LockFile for Faulty<dyn LockFile> {
    fn try_lock(&self) -> io::Result<bool> {
        self.0.step()?;
        self.1.try_lock()
    }
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.0.step()?;
        self.1.is_at(path)
    }
}

/// A cache with a good entry long unused, a damaged one, a directory in place of one,
/// and none for the fourth request.
fn prepare(root: &Path, requests: &[CompileRequest]) {
    let store = Store::new(Arc::new(FaultyFileSystem(Plan::none())), root);
    let fingerprint = phobos_worker::fingerprint::current();
    let path = |i: usize| store.path(&EntryId::new(&requests[i], &fingerprint));
    for request in &requests[..2] {
        let id = EntryId::new(request, &fingerprint);
        store.put(&id, &Header::new(request, &fingerprint), &common::artifact(request)).unwrap();
    }
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    fs::File::options().append(true).open(path(0)).unwrap().set_modified(long_ago).unwrap();
    let mut bytes = fs::read(path(1)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path(1), bytes).unwrap();
    fs::create_dir(path(2)).unwrap();
    fs::write(path(2).join("file"), "x").unwrap();
}

/// Runs the scenario with the `fail_at`-th operation failing; `false` when there are
/// not so many.
fn scenario(fail_at: u64, for_ever: bool, code: i32, max_bytes: u64) -> bool {
    let what = format!("operation {fail_at} fails with {code}, for ever: {for_ever}");
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("cache");
    let requests = requests(4);
    prepare(&root, &requests);
    let options = |manifest: &str| CacheOptions {
        manifest: Some(folder.path().join(manifest)),
        max_bytes: Some(max_bytes),
        ..CacheOptions::in_directory(&root)
    };
    let plan = Arc::new(Plan { fail_at, for_ever, code, done: AtomicU64::new(0) });
    let open = |plan: &Arc<Plan>, manifest: &str| {
        let warnings = Warnings::default();
        let fs = Arc::new(FaultyFileSystem(Arc::clone(plan)));
        let source = FakeSource::default();
        (CachedSource::with(source, options(manifest), fs, warnings.sink()), warnings)
    };
    for _ in 0..2 {
        let (cache, warnings) = open(&plan, "manifest");
        get_all(&cache, &requests);
        let refreshed = cache.refused(&requests[0], &"as the test wants").unwrap();
        assert_eq!(refreshed, common::artifact(&requests[0]), "{what}");
        // One warning per kind of fault, although all may fail for ever.
        let all = warnings.all();
        assert!(all.len() <= 5, "{what}: {all:?}");
    }

    // A clean run repairs the cache, and after it nothing is compiled. (A tight limit
    // evicts, so there it is only the answers that count.)
    let (clean, _) = open(&Plan::none(), "clean");
    get_all(&clean, &requests);
    if max_bytes == u64::MAX {
        let (second, warnings) = open(&Plan::none(), "clean");
        get_all(&second, &requests);
        assert_eq!(second.inner().count(), 0, "{what}");
        assert!(warnings.all().is_empty(), "{what}: {:?}", warnings.all());
        phobos_kernel_cache::evict::sweep_locks(&Store::new(Arc::new(RealFileSystem), &root)).unwrap();
        // The first entry may have been refreshed by a writer that could not clean up
        // and then hit; the sweep by age takes that one.
        let left: Vec<String> = strays(&root)
            .into_iter()
            .filter(|name| !name.contains(&format!(".tmp-{}", first_key(&requests))))
            .collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
    plan.fired()
}

fn first_key(requests: &[CompileRequest]) -> String {
    requests[0].key(&phobos_worker::fingerprint::current()).to_string()[..16].to_owned()
}

fn every_operation_fails(code: i32, for_ever: bool, max_bytes: u64) {
    let mut fail_at = 1;
    while scenario(fail_at, for_ever, code, max_bytes) {
        fail_at += 1;
        assert!(fail_at < 1000, "the scenario does not end");
    }
    // The scenario reads, locks, writes, renames, lists and removes.
    assert!(fail_at > 60, "only {fail_at} operations: the scenario does not reach much");
}

#[test]
fn each_operation_fails_once() {
    every_operation_fails(EIO, false, u64::MAX);
    every_operation_fails(ENOENT, false, u64::MAX);
}

#[test]
fn each_operation_fails_for_ever() {
    every_operation_fails(ENOSPC, true, u64::MAX);
    every_operation_fails(EACCES, true, u64::MAX);
}

#[test]
fn each_operation_fails_while_entries_are_evicted() {
    every_operation_fails(EIO, false, 2000);
    every_operation_fails(EIO, true, 2000);
}

#[test]
fn a_file_system_without_locks_is_told_once() {
    #[derive(Debug)]
    struct NoLocks(i32);
    #[derive(Debug)]
    struct NoLock(i32);
    impl LockFile for NoLock {
        fn try_lock(&self) -> io::Result<bool> {
            Err(io::Error::from_raw_os_error(self.0))
        }
        fn is_at(&self, _: &Path) -> io::Result<bool> {
            Ok(true)
        }
    }
    impl FileSystem for NoLocks {
        fn read(&self, path: &Path, limit: u64) -> io::Result<Contents> {
            RealFileSystem.read(path, limit)
        }
        fn read_start(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)> {
            RealFileSystem.read_start(path, limit)
        }
        fn create_dir_all(&self, path: &Path) -> io::Result<()> {
            RealFileSystem.create_dir_all(path)
        }
        fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
            RealFileSystem.create_new(path)
        }
        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            RealFileSystem.rename(from, to)
        }
        fn remove_file(&self, path: &Path) -> io::Result<()> {
            RealFileSystem.remove_file(path)
        }
        fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
            RealFileSystem.remove_dir_all(path)
        }
        fn read_dir(&self, path: &Path) -> io::Result<Vec<Item>> {
            RealFileSystem.read_dir(path)
        }
        fn touch(&self, path: &Path) -> io::Result<()> {
            RealFileSystem.touch(path)
        }
        fn open_lock(&self, _: &Path) -> io::Result<Box<dyn LockFile>> {
            Ok(Box::new(NoLock(self.0)))
        }
    }
    const ENOSYS: i32 = 38;
    const EOPNOTSUPP: i32 = 95;
    for code in [ENOLCK, ENOSYS, EOPNOTSUPP] {
        let folder = tempfile::tempdir().unwrap();
        let warnings = Warnings::default();
        let options = CacheOptions { max_bytes: Some(1 << 20), ..CacheOptions::in_directory(folder.path()) };
        let fs = Arc::new(NoLocks(code));
        let cache = CachedSource::with(FakeSource::default(), options, fs, warnings.sink());
        get_all(&cache, &requests(3));
        get_all(&cache, &requests(3));
        assert_eq!(cache.inner().count(), 3);
        assert!(warnings.only().contains("cannot be locked"), "{}", warnings.only());
    }
}
