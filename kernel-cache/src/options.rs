//! The settings of the cache, from the environment or given.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use phobos_artifact::Fingerprint;

use crate::warning::{Fault, Warning};

/// One directory instead of the two; the empty string turns the cache off.
pub const DIRECTORY_VARIABLE: &str = "PHOBOS_KERNEL_CACHE_DIR";
/// The limit on the size of the directory that is written.
pub const LIMIT_VARIABLE: &str = "PHOBOS_KERNEL_CACHE_MAX";
/// Where the requests of a run are recorded.
pub const MANIFEST_VARIABLE: &str = "PHOBOS_KERNEL_MANIFEST";

/// Where a [`CachedSource`](crate::CachedSource) looks and how it behaves.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The directory that is read and written.
    pub writable: Option<PathBuf>,
    /// A directory that is only read: the kernels that came with the program.
    pub shipped: Option<PathBuf>,
    /// Where every request is recorded.
    pub manifest: Option<PathBuf>,
    /// The most bytes of entries in the writable directory.
    pub max_bytes: Option<u64>,
    /// Whether a request for a host level may be answered with an entry of a lower one.
    /// The result is a kernel that runs everywhere the asked one does, only slower.
    pub lower_host_levels: bool,
    /// How long another process may keep a kernel's lock before this one goes on without.
    pub lock_patience: Duration,
    /// The compiler whose entries are looked for.
    pub fingerprint: Fingerprint,
}

impl CacheOptions {
    /// No directory at all: every request is compiled.
    pub fn off() -> CacheOptions {
        CacheOptions {
            writable: None,
            shipped: None,
            manifest: None,
            max_bytes: None,
            lower_host_levels: true,
            lock_patience: Duration::from_secs(600),
            fingerprint: phobos_worker::fingerprint::current(),
        }
    }

    /// One directory, read and written.
    pub fn in_directory(directory: impl Into<PathBuf>) -> CacheOptions {
        CacheOptions { writable: Some(directory.into()), ..CacheOptions::off() }
    }

    /// What the environment asks for, and what in it cannot be followed.
    pub fn from_environment() -> (CacheOptions, Vec<Warning>) {
        from(&Environment {
            directory: env::var_os(DIRECTORY_VARIABLE),
            limit: env::var_os(LIMIT_VARIABLE),
            manifest: env::var_os(MANIFEST_VARIABLE),
            home: env::var_os("HOME"),
            executable: env::current_exe().ok(),
        })
    }
}

/// What the settings are made of, so that it can be tested without a process.
struct Environment {
    directory: Option<OsString>,
    limit: Option<OsString>,
    manifest: Option<OsString>,
    home: Option<OsString>,
    executable: Option<PathBuf>,
}

fn from(environment: &Environment) -> (CacheOptions, Vec<Warning>) {
    let mut options = CacheOptions::off();
    let mut warnings = Vec::new();
    match &environment.directory {
        Some(directory) if directory.is_empty() => {}
        Some(directory) => options.writable = Some(absolute(directory)),
        None => {
            let shipped = environment.executable.as_deref().and_then(Path::parent);
            options.shipped =
                shipped.map(|folder| folder.join("kernel-cache")).filter(|folder| folder.is_dir());
            let home = environment.home.as_deref().map(Path::new).filter(|home| home.is_absolute());
            options.writable = home.map(|home| home.join(".phobos").join("kernel-cache"));
            if options.writable.is_none() {
                let message = format!("HOME names no directory and {DIRECTORY_VARIABLE} is not set");
                warnings.push(Warning { fault: Fault::Unwritable, message });
            }
        }
    }
    if let Some(limit) = environment.limit.as_deref().filter(|limit| !limit.is_empty()) {
        match limit.to_str().and_then(parse_size) {
            Some(bytes) => options.max_bytes = Some(bytes),
            None => {
                let message =
                    format!("{LIMIT_VARIABLE}={} is not a size such as 500M or 2G", limit.to_string_lossy());
                warnings.push(Warning { fault: Fault::Setting, message });
            }
        }
    }
    let manifest = environment.manifest.as_deref().filter(|manifest| !manifest.is_empty());
    options.manifest = manifest.map(absolute);
    (options, warnings)
}

/// Fixed now, so that a change of the working directory does not move the cache.
fn absolute(path: &OsStr) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// A size in bytes, or with a suffix K, M, G or T (powers of 1024; `KiB` and `KB` mean the same).
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.trim().to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            directory: None,
            limit: None,
            manifest: None,
            home: Some("/home/u".into()),
            executable: None,
        }
    }

    #[test]
    fn two_places_by_default() {
        let root = tempfile::tempdir().unwrap();
        let executable = Some(root.path().join("phobos-cli"));
        let (options, warnings) = from(&Environment { executable: executable.clone(), ..environment() });
        assert_eq!(options.writable.unwrap(), Path::new("/home/u/.phobos/kernel-cache"));
        assert_eq!((options.shipped, warnings.len()), (None, 0));
        std::fs::create_dir(root.path().join("kernel-cache")).unwrap();
        let (options, _) = from(&Environment { executable, ..environment() });
        assert_eq!(options.shipped.unwrap(), root.path().join("kernel-cache"));
    }

    #[test]
    fn the_variable_replaces_both_and_empty_turns_off() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("kernel-cache")).unwrap();
        let with = |directory: &str| {
            let executable = Some(root.path().join("phobos-cli"));
            let directory = Some(directory.into());
            from(&Environment { directory, executable, home: None, ..environment() })
        };
        let (options, warnings) = with("/cache");
        assert_eq!(options.writable.unwrap(), Path::new("/cache"));
        assert_eq!((options.shipped, warnings.len()), (None, 0));
        assert!(with("relative").0.writable.unwrap().is_absolute());
        let (options, warnings) = with("");
        assert_eq!((options.writable, options.shipped, warnings.len()), (None, None, 0));
    }

    #[test]
    fn no_home_is_one_warning() {
        for home in [None, Some(""), Some("relative")] {
            let (options, warnings) = from(&Environment { home: home.map(OsString::from), ..environment() });
            assert_eq!(options.writable, None);
            assert_eq!(warnings.len(), 1);
            assert!(warnings[0].to_string().contains("HOME"), "{}", warnings[0]);
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("0", 0), ("123", 123), ("4K", 4096), ("2 GiB", 2 << 30), ("1mb", 1 << 20)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "G", "1.5G", "-1", "1X", "99999999999999999999", "18446744073709551615K"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        let (options, warnings) = from(&Environment { limit: Some("many".into()), ..environment() });
        assert_eq!((options.max_bytes, warnings.len()), (None, 1));
    }
}
