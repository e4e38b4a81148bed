//! The host device: kernels as native code, run by a thread pool.
//!
//! Launches are synchronous. One lock orders launches, reads, writes and copies of a
//! device, so kernels see memory as their callers left it, and two threads that use one
//! device take turns. Programs of one launch run at once and in any order; that they
//! do not write what another reads is the kernel's promise.

mod cores;
mod elf;
mod memory;
mod object;
mod pool;

use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use phobos_artifact::{Artifact, Chip, HostLevel, ImageKind};

use crate::{
    buffer::{Buffer, Permission},
    device::{Device, DeviceToken, MemoryInfo, SharedBytes, image_to_load},
    error::DeviceError,
    kernel::Kernel,
    launch::CheckedLaunch,
    upload::{Piece, Wanted},
};
use memory::HostMemory;
use object::Object;
use pool::{MAX_THREADS, Pool};

const NAME: &str = "host";

/// The CPU as a device.
pub struct HostDevice {
    token: DeviceToken,
    chips: Vec<Chip>,
    threads: usize,
    /// Bytes in allocated buffers.
    allocated: Arc<AtomicU64>,
    running: Mutex<Running>,
}

/// What one launch at a time uses.
struct Running {
    pool: Pool,
    /// Scratch of all threads, one stride each; grows when a kernel wants more.
    scratch: HostMemory,
}

impl HostDevice {
    /// A device with `threads` threads, the launching one included; `None` takes one
    /// for each physical core. Results do not depend on the number.
    pub fn new(threads: Option<usize>) -> Result<HostDevice, DeviceError> {
        let best = HostLevel::detect().ok_or_else(|| DeviceError::Unavailable {
            device: NAME.to_owned(),
            reason: "kernels need an x86-64-v2 CPU (SSE4.2 and POPCNT)".to_owned(),
        })?;
        let threads = threads.unwrap_or_else(cores::physical);
        if threads == 0 || threads > MAX_THREADS {
            return Err(DeviceError::Unavailable {
                device: NAME.to_owned(),
                reason: format!("{threads} threads were asked for, 1 to {MAX_THREADS} are possible"),
            });
        }
        let chips = HostLevel::BEST_FIRST.into_iter().filter(|level| *level <= best).map(Chip::Host);
        Ok(HostDevice {
            token: DeviceToken::new(),
            chips: chips.collect(),
            threads,
            allocated: Arc::default(),
            running: Mutex::new(Running { pool: Pool::new(threads)?, scratch: HostMemory::empty() }),
        })
    }

    /// Threads that run a launch, the launching one included.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The lock that orders everything which touches memory.
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory_of<'b>(&self, buffer: &'b Buffer) -> Result<&'b HostMemory, DeviceError> {
        buffer
            .backing::<HostMemory>()
            .filter(|_| buffer.device() == self.token.id())
            .ok_or_else(|| self.wrong_device("buffer"))
    }

    fn wrong_device(&self, what: &'static str) -> DeviceError {
        DeviceError::WrongDevice { device: NAME.to_owned(), what }
    }
}

impl Device for HostDevice {
    fn name(&self) -> &str {
        NAME
    }

    fn chips(&self) -> &[Chip] {
        &self.chips
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        let memory = HostMemory::zeroed(bytes, Some(Arc::clone(&self.allocated)))?;
        Ok(Buffer::new(&self.token, memory.address(), bytes, Permission::ReadWrite, Box::new(memory)))
    }

    fn allocate_filled(
        &self,
        wanted: &[Wanted],
        fill: &mut dyn FnMut(Vec<Piece<'_>>),
    ) -> Result<Vec<Buffer>, DeviceError> {
        let lengths: Vec<u64> = wanted.iter().map(|wanted| wanted.bytes).collect();
        let parts = HostMemory::filled(&lengths, &self.allocated, &mut |slices| {
            let pieces = slices.into_iter().enumerate();
            fill(pieces.map(|(index, bytes)| Piece { index, offset: 0, bytes }).collect());
        })?;
        let buffer = |memory: HostMemory| {
            let (address, len) = (memory.address(), memory.len() as u64);
            Buffer::new(&self.token, address, len, Permission::ReadWrite, Box::new(memory))
        };
        Ok(parts.into_iter().map(buffer).collect())
    }

    fn import(&self, bytes: SharedBytes, range: Range<usize>) -> Result<Buffer, DeviceError> {
        let memory = HostMemory::shared(bytes, range)?;
        let len = memory.len() as u64;
        Ok(Buffer::new(&self.token, memory.address(), len, Permission::ReadOnly, Box::new(memory)))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let memory = self.memory_of(buffer)?;
        buffer.check_writable("write")?;
        let _order = self.lock();
        memory.write(offset, data)
    }

    fn read(&self, buffer: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let memory = self.memory_of(buffer)?;
        let _order = self.lock();
        memory.read(offset, data)
    }

    fn copy(
        &self,
        from: &Buffer,
        from_offset: u64,
        to: &Buffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let (source, target) = (self.memory_of(from)?, self.memory_of(to)?);
        to.check_writable("copy to")?;
        let _order = self.lock();
        target.copy_from(to_offset, source, from_offset, bytes)
    }

    fn load(&self, artifact: &Artifact) -> Result<Kernel, DeviceError> {
        let metadata = &artifact.metadata;
        let bad = |reason| DeviceError::BadArtifact { kernel: metadata.kernel.clone(), reason };
        let image = image_to_load(self, artifact, ImageKind::SharedObject, "it has no shared object")?;
        Kernel::new(&self.token, metadata, || {
            elf::check(&image.bytes).map_err(&bad)?;
            Ok(Box::new(Object::load(&image.bytes, &metadata.kernel).map_err(&bad)?))
        })
    }

    fn launch(&self, launch: &CheckedLaunch<'_>) -> Result<(), DeviceError> {
        let kernel = launch.kernel();
        let code = kernel.code::<Object>().filter(|_| kernel.device() == self.token.id());
        let object = code.ok_or_else(|| self.wrong_device("kernel"))?;
        let programs = launch.programs();
        if programs == 0 {
            return Ok(());
        }
        let mut running = self.lock();
        let Running { pool, scratch } = &mut *running;
        let stride = scratch_stride(kernel.metadata().scratch_bytes, self.threads)?;
        if scratch.len() < stride * self.threads {
            // The old block goes first: both at once might not fit.
            *scratch = HostMemory::empty();
            *scratch = HostMemory::zeroed((stride * self.threads) as u64, None)?;
        }
        let (slots, grid) = (launch.slots(), launch.grid());
        let scratch = &*scratch;
        pool.run(programs, &|thread, range| object.run(slots, grid, range, scratch, thread * stride));
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        // Launches are synchronous; one that another thread has begun holds the lock.
        drop(self.lock());
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        let (total, free) = (memory::total(), memory::available());
        MemoryInfo { total, free, allocated: self.allocated.load(Ordering::Relaxed) }
    }
}

/// Bytes between the scratch of two threads: whole pages, so that no two share a line
/// and each page is first touched by its own thread.
fn scratch_stride(bytes: u64, threads: usize) -> Result<usize, DeviceError> {
    usize::try_from(bytes)
        .ok()
        .and_then(|bytes| bytes.checked_next_multiple_of(4096))
        .filter(|stride| stride.checked_mul(threads).is_some())
        .ok_or_else(|| memory::out_of_memory(bytes))
}
