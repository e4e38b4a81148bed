//! The trait that every device implements.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use phobos_artifact::{Artifact, Chip, Image, ImageKind};

use crate::{
    buffer::Buffer,
    error::DeviceError,
    kernel::Kernel,
    launch::CheckedLaunch,
    plain::{Plain, as_bytes, as_bytes_mut},
    recording::Recording,
    upload::{self, Piece, Wanted},
};

/// Bytes that a device may alias for as long as it holds the handle: a mapped file,
/// a vector.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Something that kernels run on.
///
/// Operations of one device take effect in the order in which they were called.
/// A launch may still be running when it returns; [`Device::read`] waits for
/// what it depends on, and [`Device::synchronize`] for everything.
pub trait Device: Send + Sync {
    /// The name, as [`crate::open()`] takes it: `host`, `emulator:sm_86`.
    fn name(&self) -> &str;

    /// The chips whose artifacts it loads, the best first.
    fn chips(&self) -> &[Chip];

    /// A new buffer of `bytes` zeros, aligned to 64 bytes at least. A length of 0 is legal.
    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError>;

    /// Buffers of `wanted`, which `fill` writes before they are anyone's: for weights. It is
    /// called one or more times, each time with the next pieces of the buffers, zeros at
    /// first, in order and without a gap. The host lends the memory itself, one block in huge
    /// pages for all of them; others copy what was written, a bounded part at a time.
    fn allocate_filled(
        &self,
        wanted: &[Wanted],
        fill: &mut dyn FnMut(Vec<Piece<'_>>),
    ) -> Result<Vec<Buffer>, DeviceError> {
        upload::allocate_filled(self, wanted, fill)
    }

    /// A read-only buffer with the bytes of `range`. The host aliases them, so
    /// alignment is that of the bytes; other devices copy.
    fn import(&self, bytes: SharedBytes, range: Range<usize>) -> Result<Buffer, DeviceError>;

    /// Copies `data` into `buffer` from byte `offset` on.
    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError>;

    /// Fills `data` from `buffer`, from byte `offset` on.
    fn read(&self, buffer: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies bytes between two buffers of this device. The ranges may overlap.
    fn copy(
        &self,
        from: &Buffer,
        from_offset: u64,
        to: &Buffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError>;

    /// Loads an artifact that was compiled for one of [`Device::chips`].
    ///
    /// An artifact is code: loading one from a source that is not trusted gives that
    /// source the process.
    fn load(&self, artifact: &Artifact) -> Result<Kernel, DeviceError>;

    /// Runs a kernel over arguments that [`crate::Launch`] has checked. An empty
    /// grid does nothing.
    fn launch(&self, launch: &CheckedLaunch<'_>) -> Result<(), DeviceError>;

    /// Runs launches that were checked when they were recorded, in their order. They read
    /// what their tensors hold now.
    fn replay(&self, recording: &Recording) -> Result<(), DeviceError> {
        recording.launches().try_for_each(|launch| self.launch(&launch))
    }

    /// Waits for all launches.
    fn synchronize(&self) -> Result<(), DeviceError>;

    /// How much memory there is.
    fn memory(&self) -> MemoryInfo;
}

/// Typed reads and writes, for every device.
pub trait DeviceExt: Device {
    /// Copies `data` into `buffer` from byte `offset` on.
    fn write_slice<T: Plain>(&self, buffer: &Buffer, offset: u64, data: &[T]) -> Result<(), DeviceError> {
        self.write(buffer, offset, as_bytes(data))
    }

    /// Fills `data` from `buffer`, from byte `offset` on.
    fn read_slice<T: Plain>(&self, buffer: &Buffer, offset: u64, data: &mut [T]) -> Result<(), DeviceError> {
        self.read(buffer, offset, as_bytes_mut(data))
    }

    /// A new buffer that holds `data`.
    fn upload<T: Plain>(&self, data: &[T]) -> Result<Buffer, DeviceError> {
        let bytes = as_bytes(data);
        let buffer = self.allocate(bytes.len() as u64)?;
        self.write(&buffer, 0, bytes)?;
        Ok(buffer)
    }
}

impl<D: Device + ?Sized> DeviceExt for D {}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What the device has; 0 when unknown.
    pub total: u64,
    /// What could still be allocated; 0 when unknown.
    pub free: u64,
    /// What this process holds in buffers, imports that alias not counted.
    pub allocated: u64,
}

/// Which device a buffer or a kernel belongs to. Unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(u64);

/// The right to make buffers and kernels of a device.
///
/// A device holds its token privately: addresses in a buffer are then known to come
/// from that device, and what follows from them is safe.
#[derive(Debug)]
pub struct DeviceToken(DeviceId);

impl DeviceToken {
    /// A token of a new device.
    #[allow(clippy::new_without_default)]
    pub fn new() -> DeviceToken {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        DeviceToken(DeviceId(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The device's id.
    pub fn id(&self) -> DeviceId {
        self.0
    }
}

/// What every device checks before it loads an artifact: that its chip is one of the
/// device's, and that it has an image of the kind the device runs, which is returned.
///
/// # Errors
/// [`DeviceError::WrongChip`], or [`DeviceError::BadArtifact`] with `missing` as the reason.
pub fn image_to_load<'a>(
    device: &dyn Device,
    artifact: &'a Artifact,
    kind: ImageKind,
    missing: &str,
) -> Result<&'a Image, DeviceError> {
    let metadata = &artifact.metadata;
    if !device.chips().contains(&metadata.chip) {
        return Err(DeviceError::WrongChip {
            kernel: metadata.kernel.clone(),
            chip: metadata.chip,
            device: device.name().to_owned(),
            chips: device.chips().to_vec(),
        });
    }
    let found = artifact.images.iter().find(|image| image.kind == kind);
    found.ok_or_else(|| DeviceError::BadArtifact {
        kernel: metadata.kernel.clone(),
        reason: missing.to_owned(),
    })
}
