//! phobos-cli and phobos-bench.
