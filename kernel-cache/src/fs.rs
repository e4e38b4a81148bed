//! The file operations of the cache, behind a trait so that tests can make any one of
//! them fail.

use std::{
    ffi::OsString,
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    time::SystemTime,
};

/// The file operations that the cache needs.
pub trait FileSystem: Debug + Send + Sync {
    /// Reads a regular file of at most `limit` bytes; anything else is an error.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Contents>;
    /// Reads a regular file up to its first `limit` bytes, and says how long it is.
    fn read_start(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)>;
    /// Creates a directory and those above it; one that is there is fine.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Creates a file that must not be there yet.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;
    /// Renames a file, replacing another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory with what is in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// What is in a directory, in no order. Entries that vanish meanwhile are left out.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<Item>>;
    /// Sets a file's time of modification to now.
    fn touch(&self, path: &Path) -> io::Result<()>;
    /// Opens a lock file, creating it if need be.
    fn open_lock(&self, path: &Path) -> io::Result<Box<dyn LockFile>>;
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Contents {
    /// What is in it.
    pub bytes: Vec<u8>,
    /// When it was last written or touched.
    pub modified: SystemTime,
}

/// A file that is being written.
pub trait NewFile: Debug + Send {
    /// Appends `bytes`.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Brings what was written to the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// An open lock file. Dropping it releases the lock.
pub trait LockFile: Debug + Send {
    /// Tries to lock it for this owner alone; `false` when another owner has it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Whether `path` still leads to this file.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

/// A member of a directory.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name.
    pub name: OsString,
    /// What it is; symbolic links are not followed.
    pub kind: ItemKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written or touched.
    pub modified: SystemTime,
}

/// What a member of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ItemKind {
    File,
    Directory,
    Other,
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFileSystem;

impl FileSystem for RealFileSystem {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Contents> {
        let file = open_regular(path)?;
        let metadata = file.metadata()?;
        if metadata.len() > limit {
            return Err(io::Error::other(format!("{} bytes, the limit is {limit}", metadata.len())));
        }
        let mut bytes = Vec::new();
        // One byte more, so that a file which grows meanwhile is noticed as damage.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(Contents { bytes, modified: metadata.modified()? })
    }

    fn read_start(&self, path: &Path, limit: u64) -> io::Result<(Vec<u8>, u64)> {
        let file = open_regular(path)?;
        let length = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok((bytes, length))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let kind = match metadata.file_type() {
                kind if kind.is_file() => ItemKind::File,
                kind if kind.is_dir() => ItemKind::Directory,
                _ => ItemKind::Other,
            };
            let modified = metadata.modified()?;
            items.push(Item { name: entry.file_name(), kind, bytes: metadata.len(), modified });
        }
        Ok(items)
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().append(true).open(path)?.set_modified(SystemTime::now())
    }

    fn open_lock(&self, path: &Path) -> io::Result<Box<dyn LockFile>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Box::new(file))
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    // Looked at before opening: opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)
}

impl NewFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        Write::write_all(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl LockFile for File {
    fn try_lock(&self) -> io::Result<bool> {
        match fs4::FileExt::try_lock(self) {
            Ok(()) => Ok(true),
            Err(fs4::TryLockError::WouldBlock) => Ok(false),
            Err(fs4::TryLockError::Error(error)) => Err(error),
        }
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = self.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
