//! Warps: registers by lane and the groups of lanes that run together.

use crate::{
    decode::{
        Kernel,
        inst::{NONE, Slot},
    },
    exec::alu::Lanes,
};

/// Why a group does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can run.
    Ready,
    /// It stands at a `.sync` instruction and waits for the lanes of this mask.
    Sync(u32),
    /// It stands at a CTA barrier.
    Barrier(u8),
    /// It waits for a phase of the mbarrier at this shared address.
    Phase(u32),
}

/// Lanes with the same program counter that run together for now.
#[derive(Clone, Debug)]
pub struct Group {
    /// The lanes.
    pub mask: u32,
    /// Their program counter.
    pub pc: u32,
    /// Return addresses.
    pub stack: Vec<u32>,
    /// Whether they can run.
    pub state: State,
}

/// What a framed function's caller had in its registers.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Saved {
    pub fp: u64,
    pub sp: u64,
    pub first: Slot,
    pub values: Vec<u64>,
    pub undefined: Vec<u8>,
}

/// A warp.
#[derive(Debug)]
pub struct Warp {
    /// Registers: value by slot and lane.
    pub regs: Vec<Lanes>,
    /// By slot: the lanes with an undefined byte.
    pub undefined: Vec<u32>,
    /// By slot and lane: the undefined bytes, where `undefined` has the lane.
    pub bytes: Vec<[u8; 32]>,
    /// By lane: the frames of its calls, the outermost first.
    pub frames: [Vec<Saved>; 32],
    /// Lanes that exist.
    pub populated: u32,
    /// Lanes that have exited.
    pub exited: u32,
    /// The groups; together they are the lanes that have not exited.
    pub groups: Vec<Group>,
}

impl Warp {
    /// A warp with the kernel's constants in place.
    pub fn new(kernel: &Kernel, strict: bool) -> Warp {
        let slots = kernel.slots as usize;
        let mut warp = Warp {
            regs: vec![[0; 32]; slots],
            undefined: vec![0; slots],
            bytes: if strict { vec![[0; 32]; slots] } else { Vec::new() },
            frames: Default::default(),
            populated: 0,
            exited: 0,
            groups: Vec::new(),
        };
        for (slot, value) in &kernel.constants {
            warp.regs[*slot as usize] = [*value; 32];
        }
        warp
    }

    /// Makes every register undefined and puts `populated` lanes at the start.
    pub fn reset(&mut self, kernel: &Kernel, populated: u32, strict: bool) {
        let mut fixed = vec![false; self.regs.len()];
        for (slot, _) in &kernel.constants {
            fixed[*slot as usize] = true;
        }
        for (slot, fixed) in fixed.iter().enumerate() {
            if !fixed {
                self.regs[slot] = [0; 32];
                if strict {
                    self.undefined[slot] = u32::MAX;
                    self.bytes[slot] = [0xff; 32];
                }
            }
        }
        self.frames.iter_mut().for_each(Vec::clear);
        self.populated = populated;
        self.exited = 0;
        self.groups.clear();
        self.groups.push(Group { mask: populated, pc: 0, stack: Vec::new(), state: State::Ready });
    }

    /// The lanes that still run or wait.
    pub fn live(&self) -> u32 {
        self.populated & !self.exited
    }

    /// A lane's value of a register; an absent one is 0.
    #[inline]
    pub fn get(&self, slot: Slot, lane: usize) -> u64 {
        self.regs.get(slot as usize).map_or(0, |lanes| lanes[lane])
    }

    /// Sets a lane's value of a register, defined.
    #[inline]
    pub fn set(&mut self, slot: Slot, lane: usize, value: u64) {
        if let Some(lanes) = self.regs.get_mut(slot as usize) {
            lanes[lane] = value;
            self.undefined[slot as usize] &= !(1 << lane);
        }
    }

    /// Sets a lane's value with its undefined bytes.
    #[inline]
    pub fn set_with(&mut self, slot: Slot, lane: usize, value: u64, undefined: u8) {
        self.set(slot, lane, value);
        if undefined != 0 {
            self.mark(slot, lane, undefined);
        }
    }

    /// The lanes in which a register is not wholly defined.
    #[inline]
    pub fn undefined_lanes(&self, slot: Slot) -> u32 {
        if slot == NONE { 0 } else { self.undefined[slot as usize] }
    }

    /// The undefined bytes of a lane's register.
    #[inline]
    pub fn undefined_bytes(&self, slot: Slot, lane: usize) -> u8 {
        if self.undefined_lanes(slot) >> lane & 1 == 0 { 0 } else { self.bytes[slot as usize][lane] }
    }

    /// Sets the undefined bytes of a lane's register.
    #[inline]
    pub fn mark(&mut self, slot: Slot, lane: usize, undefined: u8) {
        let Some(lanes) = self.undefined.get_mut(slot as usize) else { return };
        if undefined == 0 {
            *lanes &= !(1 << lane);
        } else if let Some(bytes) = self.bytes.get_mut(slot as usize) {
            *lanes |= 1 << lane;
            bytes[lane] = undefined;
        }
    }

    /// The lanes of `mask` in which a predicate holds.
    #[inline]
    pub fn predicate(&self, slot: Slot, negate: bool, mask: u32) -> u32 {
        let lanes = &self.regs[slot as usize];
        let mut holds = 0;
        for (lane, value) in lanes.iter().enumerate() {
            holds |= u32::from(*value != 0) << lane;
        }
        (if negate { !holds } else { holds }) & mask
    }

    /// Writes a result to the lanes of `active`.
    #[inline]
    pub fn write(&mut self, slot: Slot, result: &Lanes, active: u32) {
        let Some(lanes) = self.regs.get_mut(slot as usize) else { return };
        if active == u32::MAX {
            *lanes = *result;
        } else {
            for (lane, (old, new)) in lanes.iter_mut().zip(result).enumerate() {
                *old = if active >> lane & 1 == 1 { *new } else { *old };
            }
        }
    }
}
