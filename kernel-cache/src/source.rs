//! The cache as the runtime sees it: a [`KernelSource`] in front of another.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use phobos_artifact::{Artifact, Chip, CompileRequest, HostLevel, RequestKey};
use phobos_worker::{CompileError, KernelSource};

use crate::{
    entry::Header,
    evict,
    flight::Flights,
    fs::{FileSystem, RealFileSystem},
    lock::{self, KeyLock, Locked},
    manifest::Manifest,
    options::CacheOptions,
    store::{EntryId, Store, StoreError},
    warning::{self, Fault, Sink, Warner, Warning},
};

/// How requests were answered so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// From an entry on disk.
    pub hits: u64,
    /// Of these, how many with an entry of a lower host level.
    pub lower_level_hits: u64,
    /// By compiling.
    pub compiles: u64,
    /// With the result of another thread that asked for the same at that time.
    pub shared: u64,
    /// Entries written.
    pub stored: u64,
    /// Entries that could not be written.
    pub unstored: u64,
}

#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    lower_level_hits: AtomicU64,
    compiles: AtomicU64,
    shared: AtomicU64,
    stored: AtomicU64,
    unstored: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A kernel cache in front of `S`, which compiles.
///
/// A request is looked for in the writable directory, then in the shipped one. On a
/// miss the key is locked against other processes, looked for again, compiled and
/// stored. Faults of the cache are misses and a warning; the only errors are those of
/// `S`.
pub struct CachedSource<S> {
    source: S,
    options: CacheOptions,
    writable: Option<Store>,
    shipped: Option<Store>,
    manifest: Option<Manifest>,
    flights: Flights<RequestKey, Result<Artifact, CompileError>>,
    counters: Counters,
    warner: Warner,
}

impl<S: KernelSource> CachedSource<S> {
    /// The cache that `options` describe, with warnings on stderr.
    pub fn new(source: S, options: CacheOptions) -> CachedSource<S> {
        CachedSource::with(source, options, Arc::new(RealFileSystem), warning::to_stderr())
    }

    /// The cache that the environment asks for, with warnings on stderr.
    pub fn from_environment(source: S) -> CachedSource<S> {
        let (options, warnings) = CacheOptions::from_environment();
        let cache = CachedSource::new(source, options);
        for Warning { fault, message } in warnings {
            cache.warner.warn(fault, message);
        }
        cache
    }

    /// A cache on `fs` that gives its warnings to `sink`.
    pub fn with(source: S, options: CacheOptions, fs: Arc<dyn FileSystem>, sink: Sink) -> CachedSource<S> {
        CachedSource {
            source,
            writable: options.writable.clone().map(|root| Store::new(Arc::clone(&fs), root)),
            shipped: options.shipped.clone().map(|root| Store::new(Arc::clone(&fs), root)),
            manifest: options.manifest.clone().map(|root| Manifest::new(fs, root)),
            options,
            flights: Flights::default(),
            counters: Counters::default(),
            warner: Warner::new(sink),
        }
    }

    /// What stands behind the cache.
    pub fn inner(&self) -> &S {
        &self.source
    }

    /// How requests were answered so far.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            hits: read(&self.counters.hits),
            lower_level_hits: read(&self.counters.lower_level_hits),
            compiles: read(&self.counters.compiles),
            shared: read(&self.counters.shared),
            stored: read(&self.counters.stored),
            unstored: read(&self.counters.unstored),
        }
    }

    /// Whether this run has a manifest.
    pub fn is_recording(&self) -> bool {
        self.manifest.is_some()
    }

    /// Adds `request` to the manifest of this run, if it has one, without asking for it.
    pub fn record(&self, request: &CompileRequest) {
        if let Some(manifest) = &self.manifest
            && let Err(error) = manifest.record(request)
        {
            self.warner.warn(Fault::Manifest, error.to_string());
        }
    }

    /// Compiles `request` anew and replaces its entry.
    pub fn refresh(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        let id = EntryId::new(request, &self.options.fingerprint);
        let _lock = self.lock(&id);
        self.compile(request, &id)
    }

    /// Drops the entry of `request`, whose image the device refused because of `reason`,
    /// and compiles it anew. A caller that is refused again should give up.
    pub fn refused(
        &self,
        request: &CompileRequest,
        reason: &dyn fmt::Display,
    ) -> Result<Artifact, CompileError> {
        self.warner.warn(Fault::Refused, format!("the device refused {}: {reason}", request.label()));
        let id = EntryId::new(request, &self.options.fingerprint);
        if let Some(store) = &self.writable
            && let Err(error) = store.remove(&id)
        {
            self.warner.warn(Fault::Unwritable, error.to_string());
        }
        self.refresh(request)
    }

    fn fetch(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        let id = EntryId::new(request, &self.options.fingerprint);
        if let Some(artifact) = self.look_up(request, &id) {
            return Ok(artifact);
        }
        let _lock = self.lock(&id);
        // Whoever held the lock before us has probably stored it.
        if let Some(artifact) = self.read(self.writable.as_ref(), &id) {
            count(&self.counters.hits);
            return Ok(artifact);
        }
        self.compile(request, &id)
    }

    /// The entry of `request`, or of the same kernel for the best lower host level that
    /// has one.
    fn look_up(&self, request: &CompileRequest, id: &EntryId) -> Option<Artifact> {
        let stores = [self.writable.as_ref(), self.shipped.as_ref()];
        let find = |id: &EntryId| stores.into_iter().find_map(|store| self.read(store, id));
        let mut found = find(id);
        if let Chip::Host(asked) = request.chip
            && found.is_none()
            && self.options.lower_host_levels
        {
            found = HostLevel::BEST_FIRST.into_iter().filter(|level| *level < asked).find_map(|level| {
                let lower = CompileRequest { chip: Chip::Host(level), ..request.clone() };
                find(&EntryId::new(&lower, &self.options.fingerprint))
            });
            if found.is_some() {
                count(&self.counters.lower_level_hits);
            }
        }
        if found.is_some() {
            count(&self.counters.hits);
        }
        found
    }

    fn read(&self, store: Option<&Store>, id: &EntryId) -> Option<Artifact> {
        match store?.get(id) {
            Ok(artifact) => artifact,
            Err(error) => {
                let fault = match &error {
                    StoreError::Damaged { .. } => Fault::Damaged,
                    StoreError::Io { .. } => Fault::Unreadable,
                };
                self.warner.warn(fault, error.to_string());
                None
            }
        }
    }

    fn lock(&self, id: &EntryId) -> Option<KeyLock> {
        match lock::acquire(self.writable.as_ref()?, &id.key, self.options.lock_patience) {
            Ok(Locked::Held(lock)) => return Some(lock),
            Ok(Locked::Busy) => {
                let waited = self.options.lock_patience.as_secs();
                let message = format!("another process holds {} for {waited}s", id.file_name());
                self.warner.warn(Fault::Busy, message);
            }
            Ok(Locked::Unsupported(error)) => {
                self.warner.warn(Fault::NoLocks, format!("files cannot be locked: {error}"));
            }
            // Storing will fail for the same reason, and that is the same fault.
            Err(error) => self.warner.warn(Fault::Unwritable, error.to_string()),
        }
        None
    }

    fn compile(&self, request: &CompileRequest, id: &EntryId) -> Result<Artifact, CompileError> {
        count(&self.counters.compiles);
        let artifact = self.source.get(request)?;
        if let Some(store) = &self.writable {
            match store.put(id, &Header::new(request, &self.options.fingerprint), &artifact) {
                Ok(_) => count(&self.counters.stored),
                Err(error) => {
                    count(&self.counters.unstored);
                    self.warner.warn(Fault::Unwritable, error.to_string());
                }
            }
            store.sweep_key(id);
            if let Some(limit) = self.options.max_bytes
                && let Err(error) = evict::enforce(store, limit)
            {
                self.warner.warn(Fault::Unwritable, error.to_string());
            }
        }
        Ok(artifact)
    }
}

impl<S: KernelSource> KernelSource for CachedSource<S> {
    fn get(&self, request: &CompileRequest) -> Result<Artifact, CompileError> {
        self.record(request);
        let key = request.key(&self.options.fingerprint);
        let (result, shared) = self.flights.run(&key, || self.fetch(request));
        if shared {
            count(&self.counters.shared);
        }
        result
    }

    fn parallelism(&self) -> usize {
        self.source.parallelism()
    }
}

impl<S: fmt::Debug> fmt::Debug for CachedSource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedSource")
            .field("source", &self.source)
            .field("options", &self.options)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
