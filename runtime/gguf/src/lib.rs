//! A safe GGUF reader.
