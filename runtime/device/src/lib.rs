//! The Device trait and its implementations.
