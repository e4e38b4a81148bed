//! The [`Device`] trait and its implementations: everything that touches memory
//! or runs code on behalf of a kernel.
//!
//! - [`Device`] allocates [`Buffer`]s, loads artifacts as [`Kernel`]s and runs them.
//! - [`Launch`] collects the arguments of one launch by name and checks them against
//!   the kernel's metadata; the outcome, a [`CheckedLaunch`], is all that a device sees,
//!   so every device enforces the same rules. A [`Recording`] repeats some without checking again.
//! - [`host::HostDevice`] runs native code on a thread pool.
//! - [`open()`] finds a device by the name that people type.
//! - `conformance` (feature `conformance`) is the suite that every device must pass.

mod buffer;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod device;
mod error;
pub mod host;
mod kernel;
mod launch;
mod open;
mod plain;
mod recording;
mod scalar;
mod signature;
mod tensor;
mod upload;

pub use buffer::{Buffer, Permission};
pub use device::{Device, DeviceExt, DeviceId, DeviceToken, MemoryInfo, SharedBytes, image_to_load};
pub use error::{DeviceError, LaunchError, LaunchFault};
pub use host::HostDevice;
pub use kernel::Kernel;
pub use launch::{CheckedLaunch, Launch, OwnedLaunch};
pub use open::{OpenOptions, open};
pub use plain::{Plain, as_bytes, as_bytes_mut};
pub use recording::Recording;
pub use scalar::Scalar;
pub use signature::{MAX_ARGUMENTS, MAX_DIMS, MAX_RANK};
pub use tensor::Tensor;
pub use upload::{Piece, STAGING_BYTES, Wanted};
