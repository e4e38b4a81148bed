//! Launches that are checked once and run many times.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use phobos_artifact::{Artifact, Chip};

use crate::{
    buffer::Buffer,
    device::{Device, MemoryInfo, SharedBytes},
    error::DeviceError,
    kernel::Kernel,
    launch::{CheckedLaunch, OwnedLaunch},
};

/// Launches in the order in which they were made. It keeps their memory and kernels alive,
/// so what was checked stays true.
#[derive(Default)]
pub struct Recording {
    launches: Vec<OwnedLaunch>,
}

impl Recording {
    /// The launches that `work` makes on the device it is given, which checks and keeps them
    /// and runs none. That device refuses to move bytes: a replay would not repeat it.
    pub fn of<E: From<DeviceError>>(
        device: &dyn Device,
        work: impl FnOnce(&dyn Device) -> Result<(), E>,
    ) -> Result<Recording, E> {
        let recorder = Recorder { device, launches: Mutex::default() };
        work(&recorder)?;
        Ok(Recording { launches: recorder.launches.into_inner().unwrap_or_else(PoisonError::into_inner) })
    }

    /// The launches, in order.
    pub fn launches(&self) -> impl ExactSizeIterator<Item = CheckedLaunch<'_>> {
        self.launches.iter().map(OwnedLaunch::checked)
    }
}

/// A device that keeps launches in place of running them.
struct Recorder<'a> {
    device: &'a dyn Device,
    launches: Mutex<Vec<OwnedLaunch>>,
}

impl Recorder<'_> {
    fn refuse<T>(&self, action: &'static str) -> Result<T, DeviceError> {
        Err(DeviceError::NotRecordable { device: self.device.name().to_owned(), action })
    }
}

impl Device for Recorder<'_> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn chips(&self) -> &[Chip] {
        self.device.chips()
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        self.device.allocate(bytes)
    }

    fn import(&self, _bytes: SharedBytes, _range: Range<usize>) -> Result<Buffer, DeviceError> {
        self.refuse("import")
    }

    fn write(&self, _buffer: &Buffer, _offset: u64, _data: &[u8]) -> Result<(), DeviceError> {
        self.refuse("write")
    }

    fn read(&self, _buffer: &Buffer, _offset: u64, _data: &mut [u8]) -> Result<(), DeviceError> {
        self.refuse("read")
    }

    fn copy(
        &self,
        _from: &Buffer,
        _from_offset: u64,
        _to: &Buffer,
        _to_offset: u64,
        _bytes: u64,
    ) -> Result<(), DeviceError> {
        self.refuse("copy")
    }

    fn load(&self, artifact: &Artifact) -> Result<Kernel, DeviceError> {
        self.device.load(artifact)
    }

    fn launch(&self, launch: &CheckedLaunch<'_>) -> Result<(), DeviceError> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).push(launch.to_owned());
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        self.device.memory()
    }
}
