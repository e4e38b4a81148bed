//! One compile per key across processes.
//!
//! A lock is a file in `.locks/`, locked with `flock`: the system releases it when its
//! owner dies, so a dead owner blocks nobody. The owner removes the file when it is
//! done. Someone who waited for a file that was removed holds a lock on nothing, while
//! a third may have made and locked a new file of that name; so after locking, the
//! file must still be the one under its name, else it is opened anew.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use phobos_artifact::RequestKey;

use crate::{
    fs::{FileSystem, LockFile},
    store::{LOCKS, Store, StoreError},
};

/// A lock that is held until dropped.
#[derive(Debug)]
pub struct KeyLock {
    fs: Arc<dyn FileSystem>,
    file: Box<dyn LockFile>,
    path: PathBuf,
}

/// How trying to lock ended.
#[derive(Debug)]
pub enum Locked {
    /// The lock is ours.
    Held(KeyLock),
    /// Its owner kept it longer than we wait.
    Busy,
    /// The file system has no locks.
    Unsupported(io::Error),
}

/// Takes the lock of `key` in `store`, waiting for its owner at most `patience`.
pub fn acquire(store: &Store, key: &RequestKey, patience: Duration) -> Result<Locked, StoreError> {
    let folder = store.root().join(LOCKS);
    store.fs().create_dir_all(&folder).map_err(|error| StoreError::io("create", &folder, error))?;
    lock_file(store.fs(), folder.join(format!("{key}.lock")), patience)
}

/// Locks the file at `path` as described above.
pub(crate) fn lock_file(
    fs: &Arc<dyn FileSystem>,
    path: PathBuf,
    patience: Duration,
) -> Result<Locked, StoreError> {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut file: Option<Box<dyn LockFile>> = None;
    loop {
        let candidate = match file.take() {
            Some(file) => file,
            None => fs.open_lock(&path).map_err(|error| StoreError::io("open", &path, error))?,
        };
        match candidate.try_lock() {
            Ok(true) => {
                let current =
                    candidate.is_at(&path).map_err(|error| StoreError::io("examine", &path, error))?;
                if current {
                    return Ok(Locked::Held(KeyLock { fs: Arc::clone(fs), file: candidate, path }));
                }
                // Removed by the owner before us: open the file that is there now.
                continue;
            }
            Ok(false) => {}
            Err(error) if is_unsupported(&error) => return Ok(Locked::Unsupported(error)),
            Err(error) => return Err(StoreError::io("lock", &path, error)),
        }
        if begin.elapsed() >= patience {
            return Ok(Locked::Busy);
        }
        // Polled, not waited for in the kernel: an owner that is stopped or hangs must
        // not hold us beyond our patience.
        thread::sleep(pause.min(patience));
        pause = (pause * 2).min(Duration::from_millis(30));
        file = Some(candidate);
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    /// No locks available: what a network file system without a lock server says.
    const ENOLCK: i32 = 37;
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(ENOLCK)
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        // Removed while it is locked, so that nobody can lock this file and believe it
        // to be the current one. Not ours any more: leave it.
        if self.file.is_at(&self.path).unwrap_or(false) {
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

/// Removes the lock files that dead owners left. Those of living owners stay.
pub(crate) fn sweep(store: &Store) -> Result<u64, StoreError> {
    let folder = store.root().join(LOCKS);
    let mut removed = 0;
    for item in store.items(&folder)? {
        if Path::new(&item.name).extension().is_some_and(|extension| extension == "lock")
            && let Ok(Locked::Held(lock)) = lock_file(store.fs(), folder.join(&item.name), Duration::ZERO)
        {
            drop(lock);
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;
    use crate::fs::RealFileSystem;

    fn store(root: &Path) -> Store {
        Store::new(Arc::new(RealFileSystem), root)
    }

    fn held(locked: Locked) -> KeyLock {
        match locked {
            Locked::Held(lock) => lock,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_one_owner_although_each_removes_the_file() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let key = RequestKey::from_bytes([1; 32]);
        let (owners, entered, barrier) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(8));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..25 {
                        let lock = held(acquire(&store, &key, Duration::from_secs(600)).unwrap());
                        assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                        entered.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        owners.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 200);
        assert_eq!(std::fs::read_dir(root.path().join(LOCKS)).unwrap().count(), 0);
    }

    #[test]
    fn waiting_for_an_owner_ends() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let key = RequestKey::from_bytes([1; 32]);
        let lock = held(acquire(&store, &key, Duration::ZERO).unwrap());
        assert!(matches!(acquire(&store, &key, Duration::from_millis(20)), Ok(Locked::Busy)));
        let other = RequestKey::from_bytes([2; 32]);
        held(acquire(&store, &other, Duration::ZERO).unwrap());
        drop(lock);
        held(acquire(&store, &key, Duration::ZERO).unwrap());
    }

    #[test]
    fn a_removed_lock_file_does_not_split_the_owners() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let key = RequestKey::from_bytes([1; 32]);
        let path = root.path().join(LOCKS).join(format!("{key}.lock"));
        let first = held(acquire(&store, &key, Duration::ZERO).unwrap());
        std::fs::remove_file(&path).unwrap();
        let second = held(acquire(&store, &key, Duration::ZERO).unwrap());
        drop(first);
        assert!(path.exists(), "the first owner must not remove the second one's file");
        assert!(matches!(acquire(&store, &key, Duration::ZERO), Ok(Locked::Busy)));
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_owners_file_does_not_block_and_is_swept() {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let locks = root.path().join(LOCKS);
        std::fs::create_dir(&locks).unwrap();
        let key = RequestKey::from_bytes([1; 32]);
        std::fs::write(locks.join(format!("{key}.lock")), "4194303").unwrap();
        drop(held(acquire(&store, &key, Duration::ZERO).unwrap()));

        std::fs::write(locks.join("stray.lock"), "4194303").unwrap();
        let living = held(acquire(&store, &key, Duration::ZERO).unwrap());
        assert_eq!(sweep(&store).unwrap(), 1);
        assert_eq!(std::fs::read_dir(&locks).unwrap().count(), 1);
        drop(living);
    }
}
