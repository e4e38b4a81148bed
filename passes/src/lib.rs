//! The Phobos compiler passes: one pass, one file.
