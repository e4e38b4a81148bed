//! Keeping a store small: a limit on its size, and what crashes and older versions
//! left in it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    fs::{Item, ItemKind},
    lock::{self, Locked},
    store::{LOCKS, SUFFIX, Store, StoreError, TEMPORARY, key_of, key_of_temporary},
};

/// How old a temporary file must be to count as left by a crash.
pub const STALE_AFTER: Duration = Duration::from_secs(3600);

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many files.
    pub files: u64,
    /// Their sizes together, in bytes.
    pub bytes: u64,
}

impl Removed {
    /// Counts one more file.
    pub fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Removes the least recently used entries until the rest have at most `limit` bytes.
/// Does nothing while another process does the same. Readers are not disturbed: they
/// hold their file open or find it gone, which is a miss.
pub fn enforce(store: &Store, limit: u64) -> Result<Removed, StoreError> {
    let path = store.root().join(LOCKS).join("evict.lock");
    let _lock = match lock::lock_file(store.fs(), path, Duration::ZERO)? {
        Locked::Held(lock) => Some(lock),
        Locked::Busy => return Ok(Removed::default()),
        Locked::Unsupported(_) => None,
    };
    let mut entries = store.list()?;
    let mut total = entries.iter().fold(0u64, |total, entry| total.saturating_add(entry.bytes));
    let mut removed = Removed::default();
    entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    for entry in entries {
        if total <= limit {
            break;
        }
        store.remove_file(&entry.path)?;
        total = total.saturating_sub(entry.bytes);
        removed.add(entry.bytes);
    }
    Ok(removed)
}

/// A file that is no entry and can go.
#[derive(Clone, Debug)]
pub struct Stray {
    /// Where it lies.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Temporary files at least `age` old, and entries that are not where, or not named as,
/// this version puts them. Files of other kinds are not the cache's, and not listed.
pub fn strays(store: &Store, age: Duration) -> Result<Vec<Stray>, StoreError> {
    let mut strays = Vec::new();
    let mut stray = |folder: &Path, item: &Item| {
        strays.push(Stray { path: folder.join(&item.name), bytes: item.bytes });
    };
    let known: Vec<PathBuf> = store.folders()?.into_iter().map(|(_, folder, _)| folder).collect();
    for item in store.items(store.root())? {
        if item.kind != ItemKind::Directory {
            if is_temporary(&item, age) || is_entry(&item) {
                stray(store.root(), &item);
            }
            continue;
        }
        let folder = store.root().join(&item.name);
        let of_a_chip =
            item.name.to_str().is_some_and(|name| name.starts_with("sm_") || name.starts_with("host"));
        if !of_a_chip {
            continue;
        }
        let known = known.contains(&folder);
        for item in store.items(&folder)? {
            let misnamed = is_entry(&item) && item.name.to_str().and_then(key_of).is_none();
            if is_temporary(&item, age) || misnamed || (!known && is_entry(&item)) {
                stray(&folder, &item);
            }
        }
    }
    strays.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(strays)
}

fn is_temporary(item: &Item, age: Duration) -> bool {
    let old = SystemTime::now().duration_since(item.modified).unwrap_or_default() >= age;
    old && item.kind == ItemKind::File && item.name.to_str().is_some_and(|name| name.starts_with(TEMPORARY))
}

fn is_entry(item: &Item) -> bool {
    item.name.to_str().is_some_and(|name| name.ends_with(SUFFIX))
}

/// Removes strays and the lock files of dead owners.
pub fn sweep(store: &Store, age: Duration) -> Result<Removed, StoreError> {
    let mut removed = Removed::default();
    for stray in strays(store, age)? {
        store.remove_file(&stray.path)?;
        removed.add(stray.bytes);
    }
    sweep_locks(store)?;
    Ok(removed)
}

/// Removes the temporary files of dead writers, of any age. A writer holds the lock of its
/// key, so a file whose key can be locked has none; without locks nothing is removed.
pub fn sweep_dead(store: &Store) -> Result<(), StoreError> {
    for (_, folder, items) in store.folders()? {
        for item in items {
            if let Some(key) = item.name.to_str().and_then(key_of_temporary)
                && let Locked::Held(_lock) = lock::acquire(store, &key, Duration::ZERO)?
            {
                store.remove_file(&folder.join(&item.name))?;
            }
        }
    }
    Ok(())
}

/// Removes the lock files of dead owners and returns their number.
pub fn sweep_locks(store: &Store) -> Result<u64, StoreError> {
    lock::sweep(store)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use phobos_artifact::Fingerprint;

    use super::*;
    use crate::{
        EntryId,
        entry::{
            Header,
            tests::{artifact, request},
        },
        fs::RealFileSystem,
    };

    fn filled(root: &Path, kernels: &[&str]) -> (Store, Vec<PathBuf>, u64) {
        let store = Store::new(Arc::new(RealFileSystem), root);
        let fingerprint = Fingerprint::from_bytes([1; 32]);
        let mut bytes = 0;
        let paths = kernels.iter().enumerate().map(|(age, kernel)| {
            let request = request(kernel);
            let id = EntryId::new(&request, &fingerprint);
            bytes = store.put(&id, &Header::new(&request, &fingerprint), &artifact(&request)).unwrap();
            let path = store.path(&id);
            let used = SystemTime::now() - Duration::from_secs(10_000 - age as u64);
            fs::File::options().append(true).open(&path).unwrap().set_modified(used).unwrap();
            path
        });
        let paths = paths.collect();
        fs::create_dir_all(root.join(LOCKS)).unwrap();
        (store, paths, bytes)
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let root = tempfile::tempdir().unwrap();
        let (store, paths, bytes) = filled(root.path(), &["k0", "k1", "k2", "k3"]);
        assert_eq!(enforce(&store, 4 * bytes).unwrap(), Removed::default());
        // A hit makes the oldest the newest.
        let id = EntryId::new(&request("k0"), &Fingerprint::from_bytes([1; 32]));
        store.get(&id).unwrap().unwrap();
        assert_eq!(enforce(&store, 2 * bytes).unwrap(), Removed { files: 2, bytes: 2 * bytes });
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [true, false, false, true]);
        enforce(&store, 0).unwrap();
        assert!(store.list().unwrap().is_empty());
    }

    #[test]
    fn only_one_process_evicts() {
        let root = tempfile::tempdir().unwrap();
        let (store, ..) = filled(root.path(), &["k0"]);
        let path = root.path().join(LOCKS).join("evict.lock");
        let lock = lock::lock_file(store.fs(), path, Duration::ZERO).unwrap();
        assert_eq!(enforce(&store, 0).unwrap(), Removed::default());
        drop(lock);
        assert_eq!(enforce(&store, 0).unwrap().files, 1);
    }

    #[test]
    fn strays_go_and_the_files_of_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let (store, paths, _) = filled(root.path(), &["k0"]);
        let write = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            path
        };
        let strays = ["sm_86/.tmp-0123-1-2", "sm_86/gemm.phk", "sm_70/old.phk", "old.phk"].map(write);
        let others = ["notes.txt", "sm_86/notes.txt", "src/a.phk", ".locks/readme"].map(write);
        write(".locks/dead.lock");
        assert_eq!(sweep(&store, STALE_AFTER).unwrap().files, 3, "the temporary file is young");
        assert!(strays[0].exists());
        assert_eq!(sweep(&store, Duration::ZERO).unwrap(), Removed { files: 1, bytes: 1 });
        assert!(strays.iter().all(|path| !path.exists()));
        assert!(others.iter().chain(&paths).all(|path| path.exists()));
        assert!(!root.path().join(".locks/dead.lock").exists());
    }
}
