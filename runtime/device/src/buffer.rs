//! Device memory.

use std::{any::Any, fmt, sync::Arc};

use crate::{
    device::{DeviceId, DeviceToken},
    error::DeviceError,
};

/// A handle of a range of device memory. Clones share the memory, which is freed with
/// the last of them.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    device: DeviceId,
    address: u64,
    len: u64,
    permission: Permission,
    backing: Box<dyn Any + Send + Sync>,
}

/// Whether kernels and copies may write a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Imported bytes.
    ReadOnly,
    /// Allocated memory.
    ReadWrite,
}

impl Buffer {
    /// A buffer of the device that holds `token`, for implementations of
    /// [`crate::Device`].
    ///
    /// `address` is what a kernel gets as the pointer to the first byte. Address ranges
    /// of writable buffers that are alive at once must be disjoint from every other
    /// buffer of the device. `backing` owns the memory.
    pub fn new(
        token: &DeviceToken,
        address: u64,
        len: u64,
        permission: Permission,
        backing: Box<dyn Any + Send + Sync>,
    ) -> Buffer {
        Buffer(Arc::new(Inner { device: token.id(), address, len, permission, backing }))
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// The address of the first byte, in the device's address space.
    pub fn address(&self) -> u64 {
        self.0.address
    }

    /// Whether it may be written.
    pub fn permission(&self) -> Permission {
        self.0.permission
    }

    /// The device it belongs to.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// What owns the memory, when it is a `T`.
    pub fn backing<T: Any>(&self) -> Option<&T> {
        self.0.backing.downcast_ref()
    }

    /// Checks that `bytes` bytes from `offset` on lie inside.
    pub fn check_range(&self, action: &'static str, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(DeviceError::OutOfBounds { action, offset, bytes, len: self.len() }),
        }
    }

    /// Checks that it may be written.
    pub fn check_writable(&self, action: &'static str) -> Result<(), DeviceError> {
        match self.permission() {
            Permission::ReadWrite => Ok(()),
            Permission::ReadOnly => Err(DeviceError::ReadOnly { action }),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {:#x}, {:?})", self.len(), self.address(), self.permission())
    }
}
