//! What chips can do: the numbers that launch checks, the emulator, the rules that choose
//! parameters and the lowerings share. Names for LLVM are `passes/codegen`'s.

use crate::chip::{Chip, HostLevel};

/// Limits of an NVIDIA GPU (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    /// Threads that run in step.
    pub warp: u32,
    /// Threads of a block.
    pub threads_per_block: u32,
    /// Blocks along x, y and z.
    pub grid: [u64; 3],
    /// Threads of a block along z.
    pub block_z: u32,
    /// 32-bit registers that one thread can have.
    pub registers_per_thread: u32,
    /// 32-bit registers of a multiprocessor, and the most that a block can have.
    pub registers: u32,
    /// Bytes of shared memory that PTX may declare; what is more is asked for at launch.
    pub static_shared: u32,
    /// Bytes of shared memory of a block.
    pub shared_per_block: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared: u32,
    /// Warps that a multiprocessor holds at once.
    pub warps: u32,
    /// Blocks that a multiprocessor holds at once.
    pub blocks: u32,
}

impl GpuFacts {
    /// Those of a compute capability, such as 86. One that is not listed has what the smallest
    /// of the newer ones have.
    pub const fn of(capability: u32) -> GpuFacts {
        // Kibibytes of a block and of a multiprocessor, warps, blocks.
        let (block, shared, warps, blocks) = match capability {
            70 => (96, 96, 64, 32),
            ..=75 => (64, 64, 32, 16),
            80 | 87 => {
                (163, 164, if capability == 80 { 64 } else { 48 }, if capability == 80 { 32 } else { 16 })
            }
            86 => (99, 100, 48, 16),
            90 | 100 | 101 | 103 => (227, 228, 64, 32),
            _ => (99, 100, 48, 24),
        };
        GpuFacts {
            warp: 32,
            threads_per_block: 1024,
            grid: [0x7fff_ffff, 0xffff, 0xffff],
            block_z: 64,
            registers_per_thread: 255,
            registers: 65536,
            static_shared: 48 << 10,
            shared_per_block: block << 10,
            shared: shared << 10,
            warps,
            blocks,
        }
    }
}

/// What a level of the host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// `f32` lanes of the widest vector.
    pub f32_lanes: u32,
    /// Vector registers.
    pub vectors: u32,
}

impl HostFacts {
    /// Those of a level.
    pub const fn of(level: HostLevel) -> HostFacts {
        let (f32_lanes, vectors) = match level {
            HostLevel::V2 => (4, 16),
            HostLevel::V3 => (8, 16),
            HostLevel::V4 | HostLevel::V4Vnni => (16, 32),
        };
        HostFacts { f32_lanes, vectors }
    }
}

/// What a chip can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipFacts {
    /// The CPU.
    Host(HostFacts),
    /// A GPU.
    Gpu(GpuFacts),
}

impl Chip {
    /// What the chip can do.
    pub fn facts(self) -> ChipFacts {
        match self {
            Chip::Host(level) => ChipFacts::Host(HostFacts::of(level)),
            Chip::Sm(number) => ChipFacts::Gpu(GpuFacts::of(number as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_fits_its_multiprocessor() {
        for chip in Chip::GPUS {
            let ChipFacts::Gpu(facts) = chip.facts() else { panic!("{chip} is no GPU") };
            assert!(facts.shared_per_block <= facts.shared && facts.static_shared <= facts.shared_per_block);
            assert!(facts.threads_per_block <= facts.warps * facts.warp, "{chip}");
        }
        assert_eq!(GpuFacts::of(120).shared_per_block, 99 << 10);
        assert!(matches!(Chip::Host(HostLevel::V3).facts(), ChipFacts::Host(HostFacts { f32_lanes: 8, .. })));
    }
}
