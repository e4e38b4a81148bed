//! The kernel cache: compile once, ever.
//!
//! [`CachedSource`] stands in front of any [`KernelSource`](phobos_worker::KernelSource)
//! and is one too. It looks for an artifact on disk under the digest of the request
//! and of the compiler, and compiles, once per key across threads and processes, what
//! is not there.
//!
//! The cache decides speed, never success: each fault in it is a miss and a warning.
//! `docs/kernel-cache.md` says what is promised and what is not.
//!
//! - [`entry`]: the bytes of a file of the cache.
//! - [`store`]: one directory of such files.
//! - [`lock`]: one compile per key across processes.
//! - [`evict`]: a limit on the size, and what crashes leave behind.
//! - [`manifest`]: the requests that a run asked for, to warm a cache with.
//! - [`source`], [`options`], [`warning`]: the cache as the runtime sees it.
//! - [`fs`]: the file system behind a trait, so that tests can make it fail.

pub mod entry;
pub mod evict;
mod flight;
pub mod fs;
pub mod lock;
pub mod manifest;
pub mod options;
pub mod source;
pub mod store;
pub mod warning;

pub use manifest::{Manifest, Recipe};
pub use options::CacheOptions;
pub use source::{CachedSource, Statistics};
pub use store::{EntryId, Store, StoreError};
pub use warning::{Fault, Warning};
