//! Schedules: which lanes of which warp of which CTA run next.
//!
//! A kernel whose CTAs cannot hear from each other runs its CTAs in waves on all
//! cores, each on memory as it was before the wave, committed in grid order. One
//! whose CTAs may communicate (through atomics whose result is used, or volatile,
//! relaxed or acquire loads of global memory) is interleaved on one thread over
//! one memory. Either way the outcome is a function of the launch and the seed.

mod coherence;
mod cta;
mod grid;
mod merge;

pub use grid::launch;
