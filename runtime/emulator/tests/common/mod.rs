//! What the integration tests share.
#![allow(dead_code, clippy::unwrap_used)]

pub mod ops;

use phobos_emulator::{Emulator, Fault, FaultKind, Options, Outcome, Params, Program, Schedule};

/// An emulator with one module.
pub struct Machine {
    pub emulator: Emulator,
    pub program: Program,
}

impl Machine {
    pub fn new(file: &str, text: &str) -> Machine {
        let mut emulator = Emulator::new(0);
        let program = emulator.load(file, text).unwrap_or_else(|error| panic!("{error}"));
        Machine { emulator, program }
    }

    pub fn bytes(&mut self, data: &[u8]) -> u64 {
        let base = self.emulator.memory.allocate(data.len() as u64, true, "input").unwrap();
        self.emulator.memory.write(base, 0, data).unwrap();
        base
    }

    pub fn f32s(&mut self, data: &[f32]) -> u64 {
        self.bytes(&data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn u32s(&mut self, data: &[u32]) -> u64 {
        self.bytes(&data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn u64s(&mut self, data: &[u64]) -> u64 {
        self.bytes(&data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn u16s(&mut self, data: &[u16]) -> u64 {
        self.bytes(&data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    /// An output: reading it before it is written is a fault.
    pub fn output(&mut self, bytes: u64) -> u64 {
        self.emulator.memory.allocate(bytes, false, "output").unwrap()
    }

    pub fn read_bytes(&self, base: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.emulator.memory.read(base, 0, &mut data).unwrap();
        data
    }

    pub fn read_u32s(&self, base: u64, count: usize) -> Vec<u32> {
        self.read_bytes(base, 4 * count)
            .chunks(4)
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub fn read_u64s(&self, base: u64, count: usize) -> Vec<u64> {
        self.read_bytes(base, 8 * count)
            .chunks(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
            .collect()
    }

    pub fn read_f32s(&self, base: u64, count: usize) -> Vec<f32> {
        self.read_u32s(base, count).into_iter().map(f32::from_bits).collect()
    }

    pub fn launch(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[u64],
        options: &Options,
    ) -> Outcome {
        self.launch_shared(kernel, grid, block, 0, args, options)
    }

    pub fn launch_shared(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[u64],
        options: &Options,
    ) -> Outcome {
        let entry = self.program.kernel(kernel).unwrap_or_else(|| panic!("no kernel {kernel}"));
        let params = args.iter().fold(Params::new(entry), |params, arg| params.push(*arg)).build();
        self.emulator
            .launch(&self.program, kernel, grid, block, shared, &params, options)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn render(&self, kernel: &str, outcome: &Outcome) -> String {
        let kernel = self.program.kernel(kernel).unwrap();
        outcome.faults.list.iter().map(|fault| fault.render(kernel)).collect()
    }

    /// Fails with the rendered reports unless there are none.
    pub fn clean(&self, kernel: &str, outcome: &Outcome) {
        assert!(outcome.faults.list.is_empty(), "{}", self.render(kernel, outcome));
    }
}

pub fn kinds(outcome: &Outcome) -> Vec<FaultKind> {
    outcome.faults.list.iter().map(|fault: &Fault| fault.kind).collect()
}

pub fn strict() -> Options {
    Options::default()
}

pub fn seeded(seed: u64) -> Options {
    Options { schedule: Schedule::Adversarial(seed), ..Options::default() }
}

/// A small generator for test data.
pub struct Data(u64);

impl Data {
    pub fn new(seed: u64) -> Data {
        Data(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in -1..1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
}
