//! One directory of the cache: a folder per chip, a file per kernel.
//!
//! A file appears under its name only by a rename of a file that was written and
//! synced under another name in the same folder, so a reader sees a whole entry or
//! none. Files are read, never mapped: an entry that is replaced or evicted while it
//! is in use harms nobody.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    time::{Duration, SystemTime},
};

use phobos_artifact::{Artifact, Chip, CompileRequest, Fingerprint, RequestKey};

use crate::{
    entry::{self, EntryError, Header, MAX_ENTRY_BYTES},
    fs::{FileSystem, Item, ItemKind},
};

/// The ending of an entry's name.
pub(crate) const SUFFIX: &str = ".phk";
/// The beginning of a temporary file's name.
pub(crate) const TEMPORARY: &str = ".tmp-";
/// The folder of the lock files.
pub(crate) const LOCKS: &str = ".locks";

/// How much of a kernel's name is part of a file's name, in bytes.
const NAME_LIMIT: usize = 48;

/// How old an entry's time of use may become before a hit renews it.
const TOUCH_AFTER: Duration = Duration::from_secs(600);

/// Which entry of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryId {
    /// The chip, whose folder the entry lies in.
    pub chip: Chip,
    /// The digest of request and compiler.
    pub key: RequestKey,
    /// The name of the file.
    name: String,
}

impl EntryId {
    /// The entry of `request` as the compiler with `fingerprint` answers it.
    pub fn new(request: &CompileRequest, fingerprint: &Fingerprint) -> EntryId {
        let key = request.key(fingerprint);
        let name = format!("{}-{key}{SUFFIX}", file_name_part(&request.kernel));
        EntryId { chip: request.chip, key, name }
    }

    /// The name of its file.
    pub fn file_name(&self) -> &str {
        &self.name
    }
}

/// `kernel` as a part of a file name: letters, digits and `_`, cut to a limit, so that
/// no name leads out of a folder. The key behind it tells apart what this merges.
pub(crate) fn file_name_part(kernel: &str) -> String {
    kernel.chars().take(NAME_LIMIT).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// The key in the name of an entry's file; `None` for other files.
pub(crate) fn key_of(file_name: &str) -> Option<RequestKey> {
    file_name.strip_suffix(SUFFIX)?.rsplit_once('-')?.1.parse().ok()
}

/// The key in the name of a temporary file; `None` for other files.
pub(crate) fn key_of_temporary(file_name: &str) -> Option<RequestKey> {
    file_name.strip_prefix(TEMPORARY)?.split_once('-')?.0.parse().ok()
}

/// What went wrong in a store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("{}: cannot {action}: {error}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        error: Arc<io::Error>,
    },
    /// A file is there and it is not the entry that its name says.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: EntryError,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> StoreError {
        StoreError::Io { action, path: path.to_owned(), error: Arc::new(error) }
    }
}

/// An entry as [`Store::list`] finds it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its file.
    pub path: PathBuf,
    /// The chip whose folder it lies in.
    pub chip: Chip,
    /// The key in its name.
    pub key: RequestKey,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// When it was last used, give or take ten minutes.
    pub used: SystemTime,
}

/// One directory of the cache.
#[derive(Clone, Debug)]
pub struct Store {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
}

impl Store {
    /// The store in the directory `root`, which need not exist yet.
    pub fn new(fs: Arc<dyn FileSystem>, root: impl Into<PathBuf>) -> Store {
        Store { fs, root: root.into() }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Where the entry of `id` lies.
    pub fn path(&self, id: &EntryId) -> PathBuf {
        self.folder(id.chip).join(&id.name)
    }

    pub(crate) fn folder(&self, chip: Chip) -> PathBuf {
        self.root.join(chip.to_string())
    }

    /// Reads an entry; `None` when there is none.
    pub fn get(&self, id: &EntryId) -> Result<Option<Artifact>, StoreError> {
        let path = self.path(id);
        let contents = match self.fs.read(&path, MAX_ENTRY_BYTES) {
            Ok(contents) => contents,
            // A file where a directory should be is reported by those who want to write.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(StoreError::io("read", &path, error)),
        };
        match entry::decode_for(&contents.bytes, &id.key) {
            Ok(artifact) => {
                let idle = SystemTime::now().duration_since(contents.modified).unwrap_or_default();
                if idle > TOUCH_AFTER {
                    // A read-only cache has no times of use, and needs none.
                    let _ = self.fs.touch(&path);
                }
                Ok(Some(artifact))
            }
            Err(error) => Err(StoreError::Damaged { path, error }),
        }
    }

    /// Writes the entry of `id`, replacing what is there, and returns its size in bytes.
    pub fn put(&self, id: &EntryId, header: &Header, artifact: &Artifact) -> Result<u64, StoreError> {
        let bytes = entry::encode(header, artifact);
        let folder = self.folder(id.chip);
        let path = folder.join(&id.name);
        let mut result = self.write(&folder, &path, id, &bytes);
        if let Err(StoreError::Io { error, .. }) = &result
            && error.kind() == io::ErrorKind::NotFound
        {
            // Someone removed the directory meanwhile.
            result = self.write(&folder, &path, id, &bytes);
        }
        result.map(|()| bytes.len() as u64)
    }

    fn write(&self, folder: &Path, path: &Path, id: &EntryId, bytes: &[u8]) -> Result<(), StoreError> {
        self.fs.create_dir_all(folder).map_err(|error| StoreError::io("create", folder, error))?;
        let random = RandomState::new().hash_one(process::id());
        // With the key, by whose lock a sweep knows whether the writer lives.
        let name = format!("{TEMPORARY}{}-{}-{random:016x}", id.key, process::id());
        let temporary = folder.join(name);
        let written = (|| {
            let mut file = self.fs.create_new(&temporary)?;
            file.write_all(bytes)?;
            file.sync()
        })();
        let published = written
            .map_err(|error| StoreError::io("write", &temporary, error))
            .and_then(|()| self.publish(&temporary, path));
        if published.is_err() {
            let _ = self.fs.remove_file(&temporary);
        }
        published
    }

    fn publish(&self, temporary: &Path, path: &Path) -> Result<(), StoreError> {
        let renamed = match self.fs.rename(temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                // Nobody but us makes this name, so the directory is damage.
                self.fs.remove_dir_all(path).and_then(|()| self.fs.rename(temporary, path))
            }
            renamed => renamed,
        };
        renamed.map_err(|error| StoreError::io("rename a new entry to", path, error))
    }

    /// Removes the entry of `id`; one that is not there is fine.
    pub fn remove(&self, id: &EntryId) -> Result<(), StoreError> {
        self.remove_file(&self.path(id))
    }

    /// Removes a file of the store that was listed; one that is not there is fine.
    pub fn remove_file(&self, path: &Path) -> Result<(), StoreError> {
        match self.fs.remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.fs.remove_dir_all(path).map_err(|error| StoreError::io("remove", path, error))
            }
            removed => removed.map_err(|error| StoreError::io("remove", path, error)),
        }
    }

    /// Removes the temporary files that dead writers of `id` left. The caller holds the
    /// key's lock, so no writer of it lives.
    pub(crate) fn sweep_key(&self, id: &EntryId) {
        let folder = self.folder(id.chip);
        let key = id.key.to_string();
        let prefix = format!("{TEMPORARY}{}", &key[..16]);
        for item in self.fs.read_dir(&folder).unwrap_or_default() {
            if item.name.to_str().is_some_and(|name| name.starts_with(&prefix)) {
                let _ = self.fs.remove_file(&folder.join(&item.name));
            }
        }
    }

    /// The folders of chips that are there, each with what it holds. A store that does
    /// not exist is empty.
    pub(crate) fn folders(&self) -> Result<Vec<(Chip, PathBuf, Vec<Item>)>, StoreError> {
        let mut folders = Vec::new();
        for item in self.items(&self.root)? {
            let chip = item.name.to_str().and_then(|name| {
                let chip: Chip = name.parse().ok()?;
                // `host` parses too, as an alias.
                (chip.to_string() == name).then_some(chip)
            });
            if let Some(chip) = chip
                && item.kind == ItemKind::Directory
            {
                let folder = self.root.join(&item.name);
                let items = self.items(&folder)?;
                folders.push((chip, folder, items));
            }
        }
        folders.sort_by_key(|(chip, ..)| *chip);
        Ok(folders)
    }

    /// What a directory holds; nothing when it does not exist.
    pub(crate) fn items(&self, folder: &Path) -> Result<Vec<Item>, StoreError> {
        match self.fs.read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            items => items.map_err(|error| StoreError::io("list", folder, error)),
        }
    }

    /// Every entry, by chip and name. What the files hold is not looked at.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut entries = Vec::new();
        for (chip, folder, items) in self.folders()? {
            for item in items {
                if let Some(key) = item.name.to_str().and_then(key_of) {
                    let path = folder.join(&item.name);
                    entries.push(Listed { path, chip, key, bytes: item.bytes, used: item.modified });
                }
            }
        }
        entries.sort_by(|a, b| (a.chip, &a.path).cmp(&(b.chip, &b.path)));
        Ok(entries)
    }

    /// The header of an entry that [`Store::list`] found. The digest is not checked.
    pub fn header(&self, listed: &Listed) -> Result<Header, StoreError> {
        let damaged = |error| StoreError::Damaged { path: listed.path.clone(), error };
        let read = |limit| {
            self.fs
                .read_start(&listed.path, limit)
                .map_err(|error| StoreError::io("read", &listed.path, error))
        };
        let (beginning, length) = read(4096)?;
        let header = match entry::peek(&beginning, length).map_err(damaged)? {
            Some(header) => header,
            None => {
                let (bytes, length) = read(MAX_ENTRY_BYTES)?;
                let header = entry::peek(&bytes, length).map_err(damaged)?;
                header.ok_or_else(|| damaged(EntryError::Header("it is cut".into())))?
            }
        };
        if header.key != listed.key.to_string() {
            return Err(damaged(EntryError::OtherKey { key: header.key, label: header.label }));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        entry::tests::{artifact, request},
        fs::RealFileSystem,
    };

    #[test]
    fn names_stay_in_their_folder_and_keep_their_key() {
        let fingerprint = Fingerprint::from_bytes([1; 32]);
        for kernel in ["gemm_f16", "../../etc/passwd", "/abs", "", "a\0b", "ünï-cödé", &"x".repeat(10_000)]
        {
            let id = EntryId::new(&request(kernel), &fingerprint);
            let name = id.file_name();
            assert!(name.len() <= NAME_LIMIT + 70, "{name}");
            assert_eq!(Path::new(name).components().count(), 1, "{name}");
            assert!(!name.starts_with('.') && !name.contains(['/', '\0']), "{name}");
            assert_eq!(key_of(name), Some(id.key));
        }
        assert!(EntryId::new(&request("gemm"), &fingerprint).file_name().starts_with("gemm-"));
        assert_eq!(key_of("gemm-12.phk"), None);
        assert_eq!(key_of(".tmp-0123-1-1"), None);
    }

    #[test]
    fn put_get_list_remove() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(Arc::new(RealFileSystem), root.path().join("two/levels"));
        let fingerprint = Fingerprint::from_bytes([1; 32]);
        assert!(store.list().unwrap().is_empty());
        let request = request("gemm");
        let id = EntryId::new(&request, &fingerprint);
        assert_eq!(store.get(&id).unwrap(), None);
        let header = Header::new(&request, &fingerprint);
        let bytes = store.put(&id, &header, &artifact(&request)).unwrap();
        assert_eq!(store.get(&id).unwrap(), Some(artifact(&request)));
        let listed = store.list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].chip, listed[0].key, listed[0].bytes), (request.chip, id.key, bytes));
        assert_eq!(store.header(&listed[0]).unwrap(), header);
        store.remove(&id).unwrap();
        store.remove(&id).unwrap();
        assert_eq!(store.get(&id).unwrap(), None);
        assert!(store.list().unwrap().is_empty());
    }
}
