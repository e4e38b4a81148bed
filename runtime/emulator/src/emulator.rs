//! The emulated device.

use crate::{
    decode::{Kernel, Program, inst::Special},
    launch::{self, LaunchError, Options, Outcome},
    memory::global::{GlobalMemory, MemoryError},
    ptx::PtxError,
    sched,
};

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulatorError {
    /// The PTX text.
    #[error(transparent)]
    Ptx(#[from] PtxError),
    /// The launch.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Device memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The module has no kernel of that name.
    #[error("the module has no kernel `{name}`; it has {known}")]
    NoKernel {
        /// The name.
        name: String,
        /// The kernels there are.
        known: String,
    },
}

/// A device with its memory.
#[derive(Debug)]
pub struct Emulator {
    /// Its allocations.
    pub memory: GlobalMemory,
    /// The chip, as in `sm_NN`; 0 takes that of each module.
    pub chip: u32,
}

impl Emulator {
    /// A device of the given chip; 0 takes that of each module.
    pub fn new(chip: u32) -> Emulator {
        Emulator { memory: GlobalMemory::default(), chip }
    }

    /// Loads a module: parses and decodes it and allocates its variables.
    pub fn load(&mut self, file: &str, text: &str) -> Result<Program, EmulatorError> {
        let base = self.memory.next_base();
        let program = Program::load(file, text, base)?;
        if !program.globals.is_empty() {
            let allocated = self.memory.allocate(program.globals.len() as u64, true, "module variables")?;
            self.memory.write(allocated, 0, &program.globals)?;
        }
        Ok(program)
    }

    /// Runs a kernel. `params` is its parameter buffer ([`Params`] makes one).
    #[allow(clippy::too_many_arguments)]
    pub fn launch(
        &mut self,
        program: &Program,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        params: &[u8],
        options: &Options,
    ) -> Result<Outcome, EmulatorError> {
        let Some(kernel) = program.kernel(kernel) else {
            if let Some((_, error)) = program.refused.iter().find(|(name, _)| name == kernel) {
                return Err(error.clone().into());
            }
            let known: Vec<&str> = program.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            return Err(EmulatorError::NoKernel { name: kernel.to_owned(), known: known.join(", ") });
        };
        self.launch_kernel(program, kernel, grid, block, dynamic_shared, params, options)
    }

    /// Runs a kernel of the module, or a changed copy of one.
    #[allow(clippy::too_many_arguments)]
    pub fn launch_kernel(
        &mut self,
        program: &Program,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        params: &[u8],
        options: &Options,
    ) -> Result<Outcome, EmulatorError> {
        let chip = if self.chip == 0 { kernel.target } else { self.chip };
        let mut geometry = launch::check(kernel, chip, grid, block, dynamic_shared, params)?;
        let asks = |special: &Special| matches!(special, Special::Environment(1 | 2));
        if kernel.specials.iter().any(|(_, special)| asks(special)) {
            // The size of the workspace and the barrier of cooperative groups.
            geometry.workspace = self.memory.allocate(8, true, "the grid's workspace")?;
            self.memory.write(geometry.workspace, 0, &[8, 0, 0, 0])?;
        }
        let outcome = sched::launch(&mut self.memory, program, kernel, &geometry, params, options);
        if geometry.workspace != 0 {
            self.memory.free(geometry.workspace)?;
        }
        Ok(outcome)
    }
}

/// Builds a parameter buffer argument by argument.
#[derive(Debug)]
pub struct Params<'k> {
    kernel: &'k Kernel,
    bytes: Vec<u8>,
    next: usize,
}

impl<'k> Params<'k> {
    /// An empty buffer for a kernel.
    pub fn new(kernel: &'k Kernel) -> Params<'k> {
        Params { kernel, bytes: vec![0; kernel.param_bytes as usize], next: 0 }
    }

    /// Sets the next parameter from the low bytes of `value`; extra ones are dropped.
    pub fn push(mut self, value: u64) -> Params<'k> {
        if let Some(param) = self.kernel.params.get(self.next) {
            let (start, n) = (param.offset as usize, (param.bytes as usize).min(8));
            if let Some(target) = self.bytes.get_mut(start..start + n) {
                target.copy_from_slice(&value.to_le_bytes()[..n]);
            }
        }
        self.next += 1;
        self
    }

    /// Sets the next parameter, of any size, from bytes; what it does not take is
    /// dropped.
    pub fn push_bytes(mut self, bytes: &[u8]) -> Params<'k> {
        if let Some(param) = self.kernel.params.get(self.next) {
            let (start, n) = (param.offset as usize, (param.bytes as usize).min(bytes.len()));
            if let Some(target) = self.bytes.get_mut(start..start + n) {
                target.copy_from_slice(&bytes[..n]);
            }
        }
        self.next += 1;
        self
    }

    /// The buffer.
    pub fn build(self) -> Vec<u8> {
        self.bytes
    }
}
