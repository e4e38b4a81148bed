//! Memory: global allocations, the pages a run writes, shadows and races.

pub mod clock;
pub mod global;
pub mod overlay;
pub mod race;

/// The address of the window through which shared memory is seen by generic
/// addresses; windows are 4 GiB.
pub const SHARED_WINDOW: u64 = 0x6e00_0000_0000;
/// The same for local memory.
pub const LOCAL_WINDOW: u64 = 0x6e01_0000_0000;
/// The same for kernel parameters.
pub const PARAM_WINDOW: u64 = 0x6e02_0000_0000;
/// The size of a window.
pub const WINDOW_BYTES: u64 = 1 << 32;
/// The lowest global address.
pub const GLOBAL_BASE: u64 = 0x7f00_0000_0000;
/// The largest shared memory of a CTA that any chip has.
pub const MAX_SHARED_BYTES: u64 = 228 << 10;
