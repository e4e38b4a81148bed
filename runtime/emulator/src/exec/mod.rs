//! Execution of decoded instructions, one file for each family.

mod access;
pub mod alu;
mod async_copy;
pub mod atomic;
mod barrier;
mod bulk;
mod control;
mod frames;
mod matrix;
mod mbarrier;
mod memory;
pub mod mma;
mod print;
mod races;
mod set;
mod shadow;
mod warp;
mod wgmma;

use crate::{
    counters::Counters,
    decode::{
        Kernel,
        inst::{Clock, NONE, Op, Slot},
    },
    launch::{Geometry, Options},
    machine::{Cta, Group, State},
    memory::overlay::Overlay,
    ptx::ast::Space,
    report::{Fault, FaultKind, Faults, Side, ThreadPlace},
};
use alu::Lanes;

/// Runs instructions of one launch on one worker.
pub struct Executor<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The launch.
    pub geometry: &'a Geometry,
    /// How it is run.
    pub options: &'a Options,
    /// The parameter buffer.
    pub params: &'a [u8],
    /// The module's constant memory.
    pub constants: &'a [u8],
    /// Global memory.
    pub global: Overlay<'a>,
    /// Faults so far.
    pub faults: Faults,
    /// Counts so far.
    pub counters: Counters,
    /// What the kernel printed.
    pub printed: String,
    /// Whether unread reductions to global memory wait for the commit.
    pub defer: bool,
    /// Set when the CTA touches what it deferred: it must run on its own.
    pub needs_serial: bool,
    /// Converged schedules: a group stops here for others to catch up.
    pub until: u32,
    /// Whether nothing in memory changed since it was last set, nor any thread
    /// exited or passed a barrier: all that runs may be an endless loop.
    pub idle: bool,
    /// Warp-instructions since `idle` was last refuted.
    pub idle_for: u64,
    /// How often each instruction had run some time before a limit is reached.
    pub mark: Option<Vec<u64>>,
    /// Whether the launch is over, finished or not.
    pub ended: bool,
    scratch: mma::Scratch,
    deferred_pages: Vec<u64>,
    strict: bool,
    clock: u64,
}

/// What an access is, for faults and races.
#[derive(Clone, Copy)]
pub(crate) struct At {
    warp: usize,
    lane: usize,
    pc: u32,
}

impl At {
    /// The thread in its CTA.
    fn thread(self) -> u32 {
        self.warp as u32 * 32 + self.lane as u32
    }
}

impl<'a> Executor<'a> {
    /// An executor over a view of global memory.
    pub fn new(
        kernel: &'a Kernel,
        geometry: &'a Geometry,
        options: &'a Options,
        params: &'a [u8],
        constants: &'a [u8],
        global: Overlay<'a>,
    ) -> Executor<'a> {
        Executor {
            kernel,
            geometry,
            options,
            params,
            constants,
            global,
            faults: Faults::new(kernel.place_ids.clone()),
            counters: Counters::new(kernel.code.len()),
            printed: String::new(),
            defer: false,
            needs_serial: false,
            until: u32::MAX,
            idle: false,
            idle_for: 0,
            mark: None,
            ended: false,
            scratch: mma::Scratch::default(),
            deferred_pages: Vec::new(),
            strict: options.strict,
            clock: 0,
        }
    }

    /// A thread's place, from its CTA's linear index.
    pub(crate) fn thread_place(&self, cta: u32, thread: u32) -> ThreadPlace {
        self.geometry.place(cta, thread)
    }

    /// Reports a fault of one lane.
    pub(crate) fn fault(
        &mut self,
        cta: &Cta,
        at: At,
        kind: FaultKind,
        address: Option<u64>,
        message: impl FnOnce() -> String,
    ) {
        let thread = self.thread_place(cta.index, at.warp as u32 * 32 + at.lane as u32);
        self.faults.report(kind, at.pc, u32::MAX, || Fault {
            kind,
            pc: at.pc,
            thread,
            address,
            message: message(),
            others: Vec::new(),
            count: 1,
        });
    }

    /// Reports a fault with other sides; only races are told apart by them.
    pub(crate) fn fault_with(
        &mut self,
        cta: &Cta,
        at: At,
        kind: FaultKind,
        address: Option<u64>,
        others: Vec<Side>,
        message: impl FnOnce() -> String,
    ) {
        let thread = self.thread_place(cta.index, at.warp as u32 * 32 + at.lane as u32);
        let other = others.first().filter(|_| kind.is_race()).map_or(u32::MAX, |side| side.pc);
        self.faults.report(kind, at.pc, other, || Fault {
            kind,
            pc: at.pc,
            thread,
            address,
            message: message(),
            others,
            count: 1,
        });
    }

    /// Reports lanes in which a value that decides something is undefined.
    #[allow(clippy::too_many_arguments)]
    fn check_defined(
        &mut self,
        cta: &Cta,
        w: usize,
        slot: Slot,
        lanes: u32,
        pc: u32,
        kind: FaultKind,
        what: &str,
    ) {
        if !self.strict || slot == NONE {
            return;
        }
        let undefined = cta.warps[w].undefined_lanes(slot) & lanes;
        if undefined != 0 {
            let at = At { warp: w, lane: undefined.trailing_zeros() as usize, pc };
            self.fault(cta, at, kind, None, || format!("{what} is not initialised"));
        }
    }

    /// Runs a group of a warp for up to `budget` instructions. Groups that it
    /// splits off, and what is left of it, go back to the warp.
    pub fn run(&mut self, cta: &mut Cta, w: usize, g: usize, budget: u32) {
        let kernel = self.kernel;
        let mut group = cta.warps[w].groups.swap_remove(g);
        let converge = !self.options.adversarial();
        let groups = cta.warps[w].groups.len();
        for step in 0..budget {
            let pc = group.pc;
            // Lanes that split off, or that stand ahead, may join again here.
            if converge && step > 0 && (pc >= self.until || cta.warps[w].groups.len() > groups) {
                break;
            }
            let Some(inst) = kernel.code.get(pc as usize) else {
                // The decoder ends every body, so this is the end of the kernel.
                self.exit(cta, w, group.mask, pc);
                return;
            };
            cta.executed += 1;
            let mut active = group.mask;
            if inst.guard != NONE {
                self.check_defined(
                    cta,
                    w,
                    inst.guard,
                    active,
                    pc,
                    FaultKind::UninitializedBranch,
                    "the guard predicate",
                );
                active = cta.warps[w].predicate(inst.guard, inst.guard_not, active);
            }
            let counts = &mut self.counters.by_pc[pc as usize];
            counts.warp_instructions += 1;
            counts.lane_instructions += u64::from(active.count_ones());
            match &inst.op {
                Op::Branch { .. }
                | Op::BranchTable { .. }
                | Op::Call { .. }
                | Op::CallFramed(_)
                | Op::Return
                | Op::Exit => {
                    match self.transfer(cta, w, group, active) {
                        Some(next) => group = next,
                        None => return,
                    }
                    continue;
                }
                Op::Warp { op, mask } => {
                    if active != 0 {
                        if active != group.mask {
                            self.split(cta, w, &mut group, active);
                        }
                        match self.synchronise(cta, w, group, op, *mask, inst) {
                            Some(next) => group = next,
                            None => return,
                        }
                        continue;
                    }
                }
                Op::Barrier(barrier) => {
                    if active != 0 {
                        if active != group.mask {
                            self.split(cta, w, &mut group, active);
                        }
                        match self.arrive(cta, w, group, barrier) {
                            Some(next) => group = next,
                            None => return,
                        }
                        continue;
                    }
                }
                Op::Mbarrier(op) if op.action.blocks() => {
                    if active != 0 {
                        if active != group.mask {
                            self.split(cta, w, &mut group, active);
                        }
                        match self.wait_phase(cta, w, group, op) {
                            Some(next) => group = next,
                            None => return,
                        }
                        continue;
                    }
                }
                Op::Trap => {
                    if active != 0 {
                        let at = At { warp: w, lane: active.trailing_zeros() as usize, pc };
                        self.fault(cta, at, FaultKind::Trap, None, || "the kernel trapped".to_owned());
                        cta.aborted = true;
                        return;
                    }
                }
                Op::Assert { message } => {
                    if active != 0 {
                        self.assertion(cta, w, active, pc, *message);
                        cta.aborted = true;
                        return;
                    }
                }
                op => {
                    if active != 0 {
                        self.lanes(cta, w, active, pc, op, inst.width, inst.shadow);
                        if cta.aborted {
                            return;
                        }
                    }
                }
            }
            group.pc = pc + 1;
        }
        cta.warps[w].groups.push(group);
    }

    /// Leaves the lanes of `group` outside `keep` to go on after the instruction.
    fn split(&mut self, cta: &mut Cta, w: usize, group: &mut Group, keep: u32) {
        let rest = Group {
            mask: group.mask & !keep,
            pc: group.pc + 1,
            stack: group.stack.clone(),
            state: State::Ready,
        };
        group.mask &= keep;
        cta.warps[w].groups.push(rest);
    }

    /// An instruction that every lane does for itself.
    #[allow(clippy::too_many_arguments)]
    fn lanes(
        &mut self,
        cta: &mut Cta,
        w: usize,
        active: u32,
        pc: u32,
        op: &Op,
        width: u8,
        rule: alu::Shadow,
    ) {
        let warp = &mut cta.warps[w];
        let mut result: Lanes = [0; 32];
        match op {
            Op::Map1 { f, d, a } => {
                f(&warp.regs[*a as usize], &mut result);
                self.finish(warp, *d, [*a, NONE, NONE, NONE], &result, active, width, rule);
            }
            Op::Map2 { f, d, a, b } => {
                f(&warp.regs[*a as usize], &warp.regs[*b as usize], &mut result);
                self.finish(warp, *d, [*a, *b, NONE, NONE], &result, active, width, rule);
            }
            Op::Map3 { f, d, a, b, c } => {
                f(&warp.regs[*a as usize], &warp.regs[*b as usize], &warp.regs[*c as usize], &mut result);
                self.finish(warp, *d, [*a, *b, *c, NONE], &result, active, width, rule);
            }
            Op::Map4 { f, d, a, b, c, e } => {
                let regs = &warp.regs;
                f(
                    &regs[*a as usize],
                    &regs[*b as usize],
                    &regs[*c as usize],
                    &regs[*e as usize],
                    &mut result,
                );
                self.finish(warp, *d, [*a, *b, *c, *e], &result, active, width, rule);
            }
            Op::Convert { f, d, a } => {
                f.run(&warp.regs[*a as usize], &mut result);
                self.finish(warp, *d, [*a, NONE, NONE, NONE], &result, active, width, rule);
            }
            Op::Convert2 { f, d, a, b } => {
                f.run(&warp.regs[*a as usize], &warp.regs[*b as usize], &mut result);
                self.finish(warp, *d, [*a, *b, NONE, NONE], &result, active, width, rule);
            }
            Op::Set(set) => self.set_predicate(cta, w, active, set, width),
            Op::Carry(carry) => {
                let sources = [carry.a, carry.b, carry.c, if carry.reads { carry.flag } else { NONE }];
                let mut flags: Lanes = [0; 32];
                for lane in 0..32 {
                    let flag = carry.reads && warp.get(carry.flag, lane) != 0;
                    let (value, out) = (carry.function)(
                        warp.get(carry.a, lane),
                        warp.get(carry.b, lane),
                        warp.get(carry.c, lane),
                        flag,
                    );
                    result[lane] = value;
                    flags[lane] = out.into();
                }
                // The flag first: it has the same sources as the result.
                if carry.writes {
                    self.finish(warp, carry.flag, sources, &flags, active, 1, alu::Shadow::Spread);
                    let sources = [carry.a, carry.b, carry.c, if carry.reads { carry.flag } else { NONE }];
                    self.finish(warp, carry.dst, sources, &result, active, width, rule);
                } else {
                    self.finish(warp, carry.dst, sources, &result, active, width, rule);
                }
            }
            Op::Pack { d, parts, bits } => {
                let mut undefined = [0u8; 32];
                let mut any = 0;
                for (index, part) in parts.iter().enumerate() {
                    let shift = index as u32 * bits;
                    let keep = u64::MAX >> (64 - bits);
                    for (lane, slot) in result.iter_mut().enumerate() {
                        *slot |= (warp.get(*part, lane) & keep) << shift;
                    }
                    any |= warp.undefined_lanes(*part);
                }
                if any & active != 0 {
                    for (index, part) in parts.iter().enumerate() {
                        for (lane, slot) in undefined.iter_mut().enumerate() {
                            let bytes = warp.undefined_bytes(*part, lane) & (0xff >> (8 - bits / 8));
                            *slot |= bytes << (index as u32 * bits / 8);
                        }
                    }
                }
                warp.write(*d, &result, active);
                if *d != NONE {
                    warp.undefined[*d as usize] &= !active;
                    if any & active != 0 {
                        for lane in lanes_of(active) {
                            warp.mark(*d, lane, undefined[lane]);
                        }
                    }
                }
            }
            Op::Unpack { parts, a, bits } => {
                let source = warp.regs[*a as usize];
                let undefined = warp.undefined_lanes(*a);
                let bytes: [u8; 32] = std::array::from_fn(|lane| warp.undefined_bytes(*a, lane));
                for (index, part) in parts.iter().enumerate() {
                    if *part == NONE {
                        continue;
                    }
                    let shift = index as u32 * bits;
                    let keep = u64::MAX >> (64 - bits);
                    for (slot, value) in result.iter_mut().zip(&source) {
                        *slot = value >> shift & keep;
                    }
                    warp.write(*part, &result, active);
                    warp.undefined[*part as usize] &= !active;
                    if undefined & active != 0 {
                        for lane in lanes_of(active) {
                            warp.mark(*part, lane, bytes[lane] >> (shift / 8) & (0xff >> (8 - bits / 8)));
                        }
                    }
                }
            }
            Op::CopyPair { d, a } => {
                let halves = a.map(|slot| warp.regs[slot as usize]);
                let undefined = a.map(|slot| (warp.undefined_lanes(slot), slot));
                let bytes = undefined.map(|(lanes, slot)| {
                    let lanes = lanes & active;
                    std::array::from_fn::<u8, 32, _>(|lane| {
                        if lanes >> lane & 1 == 1 { warp.undefined_bytes(slot, lane) } else { 0 }
                    })
                });
                for ((slot, half), bytes) in d.iter().zip(&halves).zip(&bytes) {
                    if *slot == NONE {
                        continue;
                    }
                    warp.write(*slot, half, active);
                    for lane in lanes_of(active) {
                        warp.mark(*slot, lane, bytes[lane]);
                    }
                }
            }
            Op::Clock { d, clock } => {
                // A clock that never stands still: each warp-instruction is a tick.
                let ticks = self.clock + cta.executed * 4;
                let value = match clock {
                    Clock::Clock32 => ticks & 0xffff_ffff,
                    Clock::ClockHigh => ticks >> 32,
                    Clock::Clock64 => ticks,
                };
                self.finish(warp, *d, [NONE; 4], &[value; 32], active, width, rule);
            }
            Op::ActiveMask { d } => self.finish(warp, *d, [NONE; 4], &[active.into(); 32], active, 4, rule),
            Op::ToGeneric { d, a, base } => {
                for (slot, value) in result.iter_mut().zip(&warp.regs[*a as usize]) {
                    *slot = value.wrapping_add(*base);
                }
                self.finish(warp, *d, [*a, NONE, NONE, NONE], &result, active, width, rule);
            }
            Op::FromGeneric { d, a, base, width: bytes } => {
                let keep = if *bytes == 4 { 0xffff_ffff } else { u64::MAX };
                for (slot, value) in result.iter_mut().zip(&warp.regs[*a as usize]) {
                    *slot = value.wrapping_sub(*base) & keep;
                }
                self.finish(warp, *d, [*a, NONE, NONE, NONE], &result, active, width, rule);
            }
            Op::IsSpace { d, a, space } => {
                for (slot, value) in result.iter_mut().zip(&warp.regs[*a as usize]) {
                    *slot = u64::from(access::space_of(*value).0 == *space);
                }
                self.finish(warp, *d, [*a, NONE, NONE, NONE], &result, active, 1, rule);
            }
            Op::Load(load) => self.load(cta, w, active, pc, load),
            Op::Store(store) => self.store(cta, w, active, pc, store),
            Op::Atomic(atomic) => self.atomic(cta, w, active, pc, atomic),
            Op::AsyncCopy(copy) => self.async_copy(cta, w, active, pc, copy),
            Op::Mbarrier(op) => self.mbarrier(cta, w, active, pc, op),
            Op::Bulk(copy) => self.bulk(cta, w, active, pc, copy),
            Op::MapReplace(replace) => self.map_replace(cta, w, active, pc, replace),
            Op::MapCopy { to, from } => self.map_copy(cta, w, active, pc, *to, *from),
            Op::BulkCommit => self.bulk_commit(cta, w, active),
            Op::BulkWait(pending) => self.bulk_wait(cta, w, active, *pending),
            Op::CommitGroup => self.commit_group(cta, w, active),
            Op::WaitGroup(pending) => self.wait_group(cta, w, active, *pending),
            Op::CopyLocal { from, to, bytes } => self.copy_local(cta, w, active, *from, *to, *bytes),
            Op::Print(print) => self.print(cta, w, active, pc, print),
            Op::Fence { scope } => self.fence(cta, w, active, *scope),
            Op::Prefetch | Op::Nop => {}
            Op::Branch { .. }
            | Op::BranchTable { .. }
            | Op::Call { .. }
            | Op::CallFramed(_)
            | Op::Return
            | Op::Exit
            | Op::Trap
            | Op::Assert { .. }
            | Op::Barrier(_)
            | Op::Warp { .. } => {}
        }
    }

    fn assertion(&mut self, cta: &mut Cta, w: usize, active: u32, pc: u32, message: Slot) {
        let lane = active.trailing_zeros() as usize;
        let at = At { warp: w, lane, pc };
        let mut text = String::new();
        if message != NONE {
            // The argument is a pointer to a string, kept in local memory.
            let address = cta.warps[w].get(message, lane);
            let pointer = self.peek(cta, at, Space::Local, address, 8);
            for offset in 0..256 {
                match self.peek(cta, at, Space::Generic, pointer.wrapping_add(offset), 1) as u8 {
                    0 => break,
                    byte => text.push(byte as char),
                }
            }
        }
        self.fault(cta, at, FaultKind::Assert, None, || text);
    }
}

/// The lanes of a mask.
#[inline]
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}
