//! The emulator behind the [`Device`] trait: `emulator:sm_86`.
//!
//! Launches are synchronous and strict. A launch with faults returns
//! [`DeviceError::Fault`] with every report; what it wrote stays written.

use std::{
    fmt::Write as _,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use phobos_artifact::{ArgKind, Artifact, Chip, ImageKind, IndexBits};
use phobos_device::{
    Buffer, CheckedLaunch, Device, DeviceError, DeviceToken, Kernel, MemoryInfo, Permission, SharedBytes,
    image_to_load,
};

use crate::{
    Emulator, EmulatorError, Options, Params, Program,
    counters::Counters,
    memory::global::MemoryError,
    report::{Faults, Severity},
};

/// Emulated device memory that may be allocated, in bytes. The host's memory is
/// the real limit; this one makes a runaway request an error.
const TOTAL_BYTES: u64 = 64 << 30;
/// Faults that an error shows in full.
const FAULTS_SHOWN: usize = 8;

/// An emulated GPU.
pub struct EmulatorDevice {
    token: DeviceToken,
    name: String,
    chips: Vec<Chip>,
    options: Options,
    state: Arc<Mutex<State>>,
}

struct State {
    emulator: Emulator,
    /// Counters of the last launch.
    last: Option<(String, Counters)>,
}

/// What keeps a buffer's memory: its base address and the device it lies in.
struct Backing {
    base: u64,
    state: Arc<Mutex<State>>,
}

impl Drop for Backing {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The base came from this memory and is freed only here.
        let _ = state.emulator.memory.free(self.base);
    }
}

/// A loaded module.
struct Code {
    program: Program,
}

impl EmulatorDevice {
    /// A device of a GPU chip: artifacts for it and for older chips run on it.
    pub fn new(chip: Chip, options: Options) -> Result<EmulatorDevice, DeviceError> {
        let Chip::Sm(number) = chip else {
            return Err(DeviceError::UnknownDevice(format!("emulator:{chip}")));
        };
        let state = State { emulator: Emulator::new(number.into()), last: None };
        Ok(EmulatorDevice {
            token: DeviceToken::new(),
            name: format!("emulator:{chip}"),
            chips: chip.runnable(),
            options,
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The device of a name as people type it, such as `emulator:sm_86`.
    pub fn named(name: &str, options: Options) -> Result<EmulatorDevice, DeviceError> {
        let chip = name.strip_prefix("emulator:").and_then(|chip| chip.parse().ok());
        match chip {
            Some(chip) => EmulatorDevice::new(chip, options),
            None => Err(DeviceError::UnknownDevice(name.to_owned())),
        }
    }

    /// The kernel and counters of the last launch.
    pub fn last_counters(&self) -> Option<(String, Counters)> {
        self.lock().last.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backing<'b>(&self, buffer: &'b Buffer) -> Result<&'b Backing, DeviceError> {
        buffer
            .backing::<Backing>()
            .filter(|_| buffer.device() == self.token.id())
            .ok_or_else(|| DeviceError::WrongDevice { device: self.name.clone(), what: "buffer" })
    }

    fn out_of_memory(&self, bytes: u64) -> DeviceError {
        DeviceError::OutOfMemory { device: self.name.clone(), bytes, total: TOTAL_BYTES }
    }

    fn failed(&self, error: MemoryError, action: &'static str) -> DeviceError {
        match error {
            MemoryError::OutOfRange { offset, bytes, len } => {
                DeviceError::OutOfBounds { action, offset, bytes, len }
            }
            MemoryError::TooLarge(bytes) => self.out_of_memory(bytes),
            MemoryError::NotAllocated(_) => {
                DeviceError::WrongDevice { device: self.name.clone(), what: "buffer" }
            }
        }
    }

    fn new_buffer(
        &self,
        bytes: u64,
        permission: Permission,
        data: Option<&[u8]>,
    ) -> Result<Buffer, DeviceError> {
        let mut state = self.lock();
        let memory = &mut state.emulator.memory;
        if memory.live_bytes().saturating_add(bytes) > TOTAL_BYTES {
            return Err(self.out_of_memory(bytes));
        }
        let base =
            memory.allocate(bytes, true, "a buffer").map_err(|error| self.failed(error, "allocate"))?;
        if let Some(data) = data {
            memory.write(base, 0, data).map_err(|error| self.failed(error, "import"))?;
        }
        if permission == Permission::ReadOnly {
            memory.protect(base).map_err(|error| self.failed(error, "import"))?;
        }
        drop(state);
        let backing = Backing { base, state: Arc::clone(&self.state) };
        Ok(Buffer::new(&self.token, base, bytes, permission, Box::new(backing)))
    }
}

impl Device for EmulatorDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn chips(&self) -> &[Chip] {
        &self.chips
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        self.new_buffer(bytes, Permission::ReadWrite, None)
    }

    fn import(&self, bytes: SharedBytes, range: Range<usize>) -> Result<Buffer, DeviceError> {
        let all = (*bytes).as_ref();
        let data = all.get(range.clone()).ok_or_else(|| DeviceError::OutOfBounds {
            action: "import",
            offset: range.start as u64,
            bytes: range.end.saturating_sub(range.start) as u64,
            len: all.len() as u64,
        })?;
        self.new_buffer(data.len() as u64, Permission::ReadOnly, Some(data))
    }

    fn write(&self, buffer: &Buffer, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let backing = self.backing(buffer)?;
        buffer.check_writable("write")?;
        let mut state = self.lock();
        state.emulator.memory.write(backing.base, offset, data).map_err(|error| self.failed(error, "write"))
    }

    fn read(&self, buffer: &Buffer, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let backing = self.backing(buffer)?;
        let state = self.lock();
        state.emulator.memory.read(backing.base, offset, data).map_err(|error| self.failed(error, "read"))
    }

    fn copy(
        &self,
        from: &Buffer,
        from_offset: u64,
        to: &Buffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let (source, target) = (self.backing(from)?, self.backing(to)?);
        to.check_writable("copy to")?;
        from.check_range("copy from", from_offset, bytes)?;
        to.check_range("copy to", to_offset, bytes)?;
        let length = usize::try_from(bytes).map_err(|_| self.out_of_memory(bytes))?;
        let mut data = vec![0; length];
        let mut state = self.lock();
        let memory = &mut state.emulator.memory;
        memory.read(source.base, from_offset, &mut data).map_err(|error| self.failed(error, "copy from"))?;
        memory.write(target.base, to_offset, &data).map_err(|error| self.failed(error, "copy to"))
    }

    fn load(&self, artifact: &Artifact) -> Result<Kernel, DeviceError> {
        let metadata = &artifact.metadata;
        let bad = |reason| DeviceError::BadArtifact { kernel: metadata.kernel.clone(), reason };
        let image = image_to_load(self, artifact, ImageKind::Ptx, "it has no PTX")?;
        let text = std::str::from_utf8(&image.bytes)
            .map_err(|error| bad(format!("its PTX is not UTF-8: {error}")))?;
        Kernel::new(&self.token, metadata, || {
            let file = format!("{}.ptx", metadata.kernel);
            let program = self.lock().emulator.load(&file, text).map_err(|error| bad(error.to_string()))?;
            if let Some((_, error)) = program.refused.iter().find(|(name, _)| *name == metadata.kernel) {
                return Err(bad(error.to_string()));
            }
            let kernel = program
                .kernel(&metadata.kernel)
                .ok_or_else(|| bad(format!("its PTX has no entry `{}`", metadata.kernel)))?;
            if kernel.params.len() != metadata.arguments.len() {
                return Err(bad(format!(
                    "the entry takes {} parameters, the metadata has {} arguments",
                    kernel.params.len(),
                    metadata.arguments.len()
                )));
            }
            for (param, argument) in kernel.params.iter().zip(&metadata.arguments) {
                let wanted = match &argument.kind {
                    ArgKind::Tensor { .. } => 8,
                    ArgKind::Scalar { dtype } => dtype.bytes(),
                    ArgKind::Dim if metadata.index_bits == IndexBits::B32 => 4,
                    ArgKind::Dim => 8,
                };
                if param.bytes as usize != wanted {
                    return Err(bad(format!(
                        "argument `{}` takes {wanted} bytes, the entry's parameter `{}` has {}",
                        argument.name, param.name, param.bytes
                    )));
                }
            }
            Ok(Box::new(Code { program }))
        })
    }

    fn launch(&self, launch: &CheckedLaunch<'_>) -> Result<(), DeviceError> {
        let wrong = |what| DeviceError::WrongDevice { device: self.name.clone(), what };
        let kernel = launch.kernel();
        let code = kernel.code::<Code>().filter(|_| kernel.device() == self.token.id());
        let code = code.ok_or_else(|| wrong("kernel"))?;
        if launch.programs() == 0 {
            return Ok(());
        }
        let metadata = kernel.metadata();
        let fault = |reason| DeviceError::Fault { kernel: metadata.kernel.clone(), reason };
        let Some(entry) = code.program.kernel(&metadata.kernel) else { return Err(wrong("kernel")) };
        let mut grid = [0; 3];
        for (slot, extent) in grid.iter_mut().zip(launch.grid()) {
            *slot =
                u32::try_from(extent).map_err(|_| fault(format!("the grid extent {extent} is too large")))?;
        }
        let params =
            launch.slots().iter().fold(Params::new(entry), |params, slot| params.push(*slot)).build();
        // What the PTX does not declare itself is dynamic.
        let dynamic = u64::from(metadata.shared_bytes).saturating_sub(entry.shared_bytes) as u32;
        let block = [metadata.threads, 1, 1];
        let mut state = self.lock();
        // Reports name the tensor; a buffer under two of them has the later name.
        let names =
            metadata.arguments.iter().filter(|argument| matches!(argument.kind, ArgKind::Tensor { .. }));
        for (argument, tensor) in names.zip(launch.tensors()) {
            if let Ok(backing) = self.backing(&tensor.buffer) {
                let name = format!("the buffer of {}", argument.name);
                state
                    .emulator
                    .memory
                    .rename(backing.base, name)
                    .map_err(|error| self.failed(error, "launch"))?;
            }
        }
        let outcome = state
            .emulator
            .launch(&code.program, &metadata.kernel, grid, block, dynamic, &params, &self.options)
            .map_err(|error: EmulatorError| fault(error.to_string()))?;
        state.last = Some((metadata.kernel.clone(), outcome.counters));
        drop(state);
        if !outcome.faults.any_fault() { Ok(()) } else { Err(fault(describe(&outcome.faults, entry))) }
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        // Launches are synchronous; one of another thread holds the lock.
        drop(self.lock());
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        let allocated = self.lock().emulator.memory.live_bytes();
        MemoryInfo { total: TOTAL_BYTES, free: TOTAL_BYTES - allocated.min(TOTAL_BYTES), allocated }
    }
}

fn describe(faults: &Faults, kernel: &crate::Kernel) -> String {
    let faults: Vec<_> =
        faults.list.iter().filter(|fault| fault.kind.severity() == Severity::Fault).collect();
    let mut text = format!("{} faults\n", faults.len());
    for fault in faults.iter().take(FAULTS_SHOWN) {
        text.push_str(&fault.render(kernel));
    }
    if faults.len() > FAULTS_SHOWN {
        let _ = writeln!(text, "and {} more", faults.len() - FAULTS_SHOWN);
    }
    text.trim_end().to_owned()
}
