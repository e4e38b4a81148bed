//! The on-disk kernel cache.
