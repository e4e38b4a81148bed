//! Instructions that wait for their member mask, and what lanes exchange in them.

use super::{At, Executor, lanes_of};
use crate::{
    decode::inst::{Inst, NONE, ReduxOp, ShuffleMode, Slot, VoteMode, WarpOp},
    machine::{Cta, Group, State},
    memory::clock,
    report::FaultKind,
};

impl WarpOp {
    /// Whether it needs all 32 lanes at the same instruction.
    fn whole_warp(&self) -> bool {
        matches!(
            self,
            WarpOp::Mma(_)
                | WarpOp::LoadMatrix(_)
                | WarpOp::StoreMatrix(_)
                | WarpOp::TransposeMatrix { .. }
                | WarpOp::Wmma(_)
                | WarpOp::Wgmma(_)
        )
    }
}

impl Executor<'_> {
    /// A group stands at a `.sync` instruction. It goes on, joined with the other
    /// lanes of its mask, if all of them are here; else it waits.
    pub(super) fn synchronise(
        &mut self,
        cta: &mut Cta,
        w: usize,
        mut group: Group,
        op: &WarpOp,
        mask_slot: Slot,
        inst: &Inst,
    ) -> Option<Group> {
        let pc = group.pc;
        let whole = op.whole_warp();
        let lane = group.mask.trailing_zeros() as usize;
        let at = At { warp: w, lane, pc };
        self.check_defined(
            cta,
            w,
            mask_slot,
            group.mask,
            pc,
            FaultKind::UninitializedBranch,
            "the member mask",
        );
        // Lanes with different masks are different meetings.
        let mask = cta.warps[w].get(mask_slot, lane) as u32;
        let same = lanes_of(group.mask)
            .filter(|lane| cta.warps[w].get(mask_slot, *lane) as u32 == mask)
            .fold(0u32, |lanes, lane| lanes | 1 << lane);
        if same != group.mask {
            let rest = Group { mask: group.mask & !same, ..group.clone() };
            cta.warps[w].groups.push(rest);
            group.mask = same;
        }
        let mut mask = mask;
        if group.mask & !mask != 0 {
            let outside = (group.mask & !mask).trailing_zeros() as usize;
            let at = At { lane: outside, ..at };
            self.fault(cta, at, FaultKind::MemberMask, None, || {
                format!("lane {outside} is not in its own member mask {mask:#010x}")
            });
            mask |= group.mask;
        }
        let warp = &cta.warps[w];
        let barrier = matches!(op, WarpOp::Barrier);
        let needed = mask & warp.live();
        let here = |other: &Group| {
            matches!(other.state, State::Sync(m) if m == mask)
                && (other.pc == pc
                    || (barrier
                        && matches!(
                            self.kernel.code.get(other.pc as usize).map(|inst| &inst.op),
                            Some(crate::decode::inst::Op::Warp { op: WarpOp::Barrier, .. })
                        )))
        };
        let present =
            warp.groups.iter().filter(|other| here(other)).fold(group.mask, |lanes, g| lanes | g.mask);
        if needed & !present != 0 {
            group.state = State::Sync(mask);
            cta.warps[w].groups.push(group);
            return None;
        }
        // All are here: they go on together, those from elsewhere by themselves.
        let mut others = Vec::new();
        let groups = std::mem::take(&mut cta.warps[w].groups);
        let mut kept = Vec::with_capacity(groups.len());
        for other in groups {
            if here(&other) { others.push(other) } else { kept.push(other) }
        }
        cta.warps[w].groups = kept;
        let mut elsewhere = Vec::new();
        for mut other in others {
            other.state = State::Ready;
            if other.pc == pc && other.stack == group.stack {
                group.mask |= other.mask;
            } else {
                elsewhere.push(other);
            }
        }
        let members = elsewhere.iter().fold(group.mask, |lanes, g| lanes | g.mask);
        if self.strict && !barrier {
            let exited = mask & cta.warps[w].exited;
            if whole && members != u32::MAX {
                self.fault(cta, at, FaultKind::MissingLanes, None, || {
                    format!("only lanes {members:#010x} run a matrix instruction that needs all 32")
                });
            } else if exited != 0 && !whole {
                self.fault(cta, at, FaultKind::MemberMask, None, || {
                    format!("the member mask {mask:#010x} names lanes {exited:#010x}, which have exited")
                });
            }
        }
        self.together(cta, w, members, pc, op, inst);
        for mut other in elsewhere {
            other.pc += 1;
            cta.warps[w].groups.push(other);
        }
        group.pc += 1;
        Some(group)
    }

    fn together(&mut self, cta: &mut Cta, w: usize, members: u32, pc: u32, op: &WarpOp, inst: &Inst) {
        match op {
            WarpOp::Barrier => {
                if self.strict {
                    let threads: Vec<u32> =
                        lanes_of(members).map(|lane| w as u32 * 32 + lane as u32).collect();
                    clock::join(&mut cta.clocks, &threads);
                }
            }
            WarpOp::Shuffle { mode, dst, valid, a, b, c } => {
                self.shuffle(cta, w, members, pc, *mode, [*dst, *valid, *a, *b, *c]);
            }
            WarpOp::Vote { mode, dst, predicate, negate } => {
                let warp = &mut cta.warps[w];
                let undefined = warp.undefined_lanes(*predicate) & members != 0;
                let holds = warp.predicate(*predicate, *negate, members);
                let value = match mode {
                    VoteMode::All => u64::from(holds == members),
                    VoteMode::Any => u64::from(holds != 0),
                    VoteMode::Uniform => u64::from(holds == members || holds == 0),
                    VoteMode::Ballot => holds.into(),
                };
                let bytes = if undefined { (1u8 << inst.width.min(4)) - 1 } else { 0 };
                for lane in lanes_of(members) {
                    warp.set_with(*dst, lane, value, bytes);
                }
            }
            WarpOp::Match { all, dst, valid, a } => {
                let warp = &mut cta.warps[w];
                let undefined = if warp.undefined_lanes(*a) & members != 0 { 0xf } else { 0 };
                let values: Vec<(usize, u64)> =
                    lanes_of(members).map(|lane| (lane, warp.get(*a, lane))).collect();
                for (lane, value) in &values {
                    let same = values
                        .iter()
                        .filter(|(_, other)| other == value)
                        .fold(0u32, |mask, (lane, _)| mask | 1 << lane);
                    let result = if !all || same == members { same } else { 0 };
                    warp.set_with(*dst, *lane, result.into(), undefined);
                    warp.set_with(*valid, *lane, u64::from(same == members), undefined & 1);
                }
            }
            WarpOp::Redux { op, dst, a } => {
                let warp = &mut cta.warps[w];
                let undefined = if warp.undefined_lanes(*a) & members != 0 { 0xf } else { 0 };
                let values = lanes_of(members).map(|lane| warp.get(*a, lane) as u32);
                let result = match op {
                    ReduxOp::And => values.fold(u32::MAX, |x, y| x & y),
                    ReduxOp::Or => values.fold(0, |x, y| x | y),
                    ReduxOp::Xor => values.fold(0, |x, y| x ^ y),
                    ReduxOp::Add => values.fold(0, u32::wrapping_add),
                    ReduxOp::MinUnsigned => values.fold(u32::MAX, u32::min),
                    ReduxOp::MaxUnsigned => values.fold(0, u32::max),
                    ReduxOp::MinSigned => values.fold(i32::MAX, |x, y| x.min(y as i32)) as u32,
                    ReduxOp::Float { largest, abs, nan } => {
                        let values = values.map(|bits| if *abs { bits & 0x7fff_ffff } else { bits });
                        extreme(values.map(f32::from_bits), *largest, *nan).to_bits()
                    }
                    ReduxOp::MaxSigned => values.fold(i32::MIN, |x, y| x.max(y as i32)) as u32,
                };
                for lane in lanes_of(members) {
                    warp.set_with(*dst, lane, result.into(), undefined);
                }
            }
            WarpOp::Elect { dst, valid } => {
                let leader = members.trailing_zeros();
                for lane in lanes_of(members) {
                    cta.warps[w].set(*dst, lane, leader.into());
                    cta.warps[w].set(*valid, lane, u64::from(lane as u32 == leader));
                }
            }
            WarpOp::Mma(mma) => self.multiply(cta, w, members, mma),
            WarpOp::LoadMatrix(moved) => self.load_matrix(cta, w, members, pc, moved),
            WarpOp::StoreMatrix(moved) => self.store_matrix(cta, w, members, pc, moved),
            WarpOp::TransposeMatrix { dst, a } => self.transpose(cta, w, members, *dst, *a),
            WarpOp::Wgmma(op) => self.warpgroup_multiply(cta, w, members, pc, op),
            WarpOp::Wmma(moved) => self.wmma_move(cta, w, members, pc, moved),
        }
    }

    /// `shfl.sync`: c holds the segment mask (bits 8..12) and the clamp (0..4).
    fn shuffle(
        &mut self,
        cta: &mut Cta,
        w: usize,
        members: u32,
        pc: u32,
        mode: ShuffleMode,
        slots: [Slot; 5],
    ) {
        let [dst, valid, a, b, c] = slots;
        let warp = &cta.warps[w];
        let mut results = [(0u64, 0u8, false); 32];
        let mut inactive = None;
        for lane in lanes_of(members) {
            let offset = warp.get(b, lane) as u32 & 31;
            let control = warp.get(c, lane) as u32;
            let (clamp, segment) = (control & 31, control >> 8 & 31);
            let own = lane as u32;
            let highest = own & segment | clamp & !segment;
            let lowest = own & segment;
            let (source, inside) = match mode {
                ShuffleMode::Up => {
                    let source = own as i32 - offset as i32;
                    (source, source >= highest as i32)
                }
                ShuffleMode::Down => ((own + offset) as i32, own + offset <= highest),
                ShuffleMode::Butterfly => ((own ^ offset) as i32, own ^ offset <= highest),
                ShuffleMode::Index => {
                    let source = lowest | offset & !segment;
                    (source as i32, source <= highest)
                }
            };
            let source = if inside { source as usize & 31 } else { lane };
            let taken = members >> source & 1 == 1;
            if !taken && inactive.is_none() {
                inactive = Some((lane, source));
            }
            let control_undefined = warp.undefined_bytes(b, lane) | warp.undefined_bytes(c, lane);
            let undefined =
                if !taken || control_undefined != 0 { 0xf } else { warp.undefined_bytes(a, source) & 0xf };
            results[lane] = (warp.get(a, source), undefined, inside);
        }
        if let Some((lane, source)) = inactive
            && self.strict
        {
            let at = At { warp: w, lane, pc };
            self.fault(cta, at, FaultKind::ShuffleSource, None, || {
                format!("lane {lane} reads lane {source}, which takes no part (mask {members:#010x})")
            });
        }
        let warp = &mut cta.warps[w];
        for lane in lanes_of(members) {
            let (value, undefined, inside) = results[lane];
            let undefined = if self.strict { undefined } else { 0 };
            warp.set_with(dst, lane, value, undefined);
            if valid != NONE {
                warp.set(valid, lane, inside.into());
            }
        }
    }
}

/// The smallest (or largest) of floats: NaNs are left out unless they decide.
fn extreme(values: impl Iterator<Item = f32>, largest: bool, nan: bool) -> f32 {
    const NAN: f32 = f32::from_bits(0x7fff_ffff);
    let better = |a: f32, b: f32| if largest { a.total_cmp(&b).is_gt() } else { a.total_cmp(&b).is_lt() };
    let mut best = None;
    for value in values {
        if value.is_nan() {
            if nan {
                return NAN;
            }
        } else if best.is_none_or(|best| better(value, best)) {
            best = Some(value);
        }
    }
    best.unwrap_or(NAN)
}
