//! Barriers and the instructions in which lanes exchange values.

use super::{
    body::Decoder,
    inst::{Barrier, BarrierKind, Class, NONE, Op, ReduxOp, ShuffleMode, Slot, VoteMode, WarpOp},
    types::{Modifiers, Ty},
};
use crate::{
    exec::alu::Shadow,
    ptx::{
        PtxError,
        ast::{Instruction, Operand},
    },
};

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn warp(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        match instruction.base {
            "bar" if mods.take("warp") => {
                if !mods.take("sync") {
                    return self.unknown(instruction);
                }
                self.done(instruction, mods, 1)?;
                let mask = self.source(self.operand(instruction, 0)?, Ty::B32)?;
                self.emit_warp(WarpOp::Barrier, mask, Class::Barrier, 0);
                Ok(())
            }
            "bar" | "barrier" => self.barrier(instruction, mods),
            "activemask" => {
                if mods.ty() != Some(Ty::B32) {
                    return self.unknown(instruction);
                }
                self.done(instruction, mods, 1)?;
                let d = self.destination(self.operand(instruction, 0)?)?.slot;
                self.emit(Op::ActiveMask { d }, Class::Warp, 4, Shadow::Spread);
                Ok(())
            }
            // Everything else here is `.sync`.
            _ if !mods.take("sync") => self.unknown(instruction),
            "shfl" => self.shuffle(instruction, mods),
            "vote" => self.vote(instruction, mods),
            "match" => {
                let all = mods.choose(&[("any", false), ("all", true)]);
                let (Some(all), Some(ty @ (Ty::B32 | Ty::B64))) = (all, mods.ty()) else {
                    return self.unknown(instruction);
                };
                self.done(instruction, mods, 3)?;
                let (dst, valid) = self.pair(self.operand(instruction, 0)?)?;
                let a = self.source(self.operand(instruction, 1)?, ty)?;
                let mask = self.source(self.operand(instruction, 2)?, Ty::B32)?;
                self.emit_warp(WarpOp::Match { all, dst, valid, a }, mask, Class::Warp, 4);
                Ok(())
            }
            "redux" => {
                let word = mods.shift();
                let float = matches!((word, mods.ty()), (Some("min" | "max"), Some(Ty::F32)));
                let (abs, nan) = (float && mods.take("abs"), float && mods.take("NaN"));
                if float {
                    self.needs(100, instruction)?;
                }
                let op = match (word, mods.ty()) {
                    (Some(word), Some(Ty::F32)) if float => {
                        ReduxOp::Float { largest: word == "max", abs, nan }
                    }
                    (Some("and"), Some(Ty::B32)) => ReduxOp::And,
                    (Some("or"), Some(Ty::B32)) => ReduxOp::Or,
                    (Some("xor"), Some(Ty::B32)) => ReduxOp::Xor,
                    (Some("add"), Some(Ty::U32 | Ty::S32)) => ReduxOp::Add,
                    (Some("min"), Some(Ty::U32)) => ReduxOp::MinUnsigned,
                    (Some("max"), Some(Ty::U32)) => ReduxOp::MaxUnsigned,
                    (Some("min"), Some(Ty::S32)) => ReduxOp::MinSigned,
                    (Some("max"), Some(Ty::S32)) => ReduxOp::MaxSigned,
                    _ => return self.unknown(instruction),
                };
                self.needs(80, instruction)?;
                self.done(instruction, mods, 3)?;
                let dst = self.destination(self.operand(instruction, 0)?)?.slot;
                let a = self.source(self.operand(instruction, 1)?, Ty::B32)?;
                let mask = self.source(self.operand(instruction, 2)?, Ty::B32)?;
                self.emit_warp(WarpOp::Redux { op, dst, a }, mask, Class::Warp, 4);
                Ok(())
            }
            "elect" => {
                self.needs(90, instruction)?;
                self.done(instruction, mods, 2)?;
                let (dst, valid) = self.pair(self.operand(instruction, 0)?)?;
                let mask = self.source(self.operand(instruction, 1)?, Ty::B32)?;
                self.emit_warp(WarpOp::Elect { dst, valid }, mask, Class::Warp, 4);
                Ok(())
            }
            _ => self.unknown(instruction),
        }
    }

    /// Fails unless the module's target has the instruction.
    pub(super) fn needs(&self, chip: u32, instruction: &Instruction<'s>) -> Result<(), PtxError> {
        if self.target < chip {
            return self.fail(format!(
                "`{}` needs sm_{chip}, the target is sm_{}",
                instruction.opcode(),
                self.target
            ));
        }
        Ok(())
    }

    pub(super) fn emit_warp(&mut self, op: WarpOp, mask: Slot, class: Class, width: u8) {
        self.emit(Op::Warp { op, mask }, class, width, Shadow::Spread);
    }

    /// `d|p`, the predicate being optional.
    fn pair(&mut self, operand: &Operand<'s>) -> Result<(Slot, Slot), PtxError> {
        match operand {
            Operand::Pair(d, p) => Ok((self.destination(d)?.slot, self.destination(p)?.slot)),
            single => Ok((self.destination(single)?.slot, NONE)),
        }
    }

    fn shuffle(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let mode = mods.choose(&[
            ("up", ShuffleMode::Up),
            ("down", ShuffleMode::Down),
            ("bfly", ShuffleMode::Butterfly),
            ("idx", ShuffleMode::Index),
        ]);
        let (Some(mode), Some(Ty::B32)) = (mode, mods.ty()) else { return self.unknown(instruction) };
        self.done(instruction, mods, 5)?;
        let (dst, valid) = self.pair(self.operand(instruction, 0)?)?;
        let a = self.source(self.operand(instruction, 1)?, Ty::B32)?;
        let b = self.source(self.operand(instruction, 2)?, Ty::B32)?;
        let c = self.source(self.operand(instruction, 3)?, Ty::B32)?;
        let mask = self.source(self.operand(instruction, 4)?, Ty::B32)?;
        self.emit_warp(WarpOp::Shuffle { mode, dst, valid, a, b, c }, mask, Class::Warp, 4);
        Ok(())
    }

    fn vote(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let mode = mods.choose(&[
            ("all", VoteMode::All),
            ("any", VoteMode::Any),
            ("uni", VoteMode::Uniform),
            ("ballot", VoteMode::Ballot),
        ]);
        let Some(mode) = mode else { return self.unknown(instruction) };
        let wanted = if mode == VoteMode::Ballot { Ty::B32 } else { Ty::Pred };
        if mods.ty() != Some(wanted) {
            return self.unknown(instruction);
        }
        self.done(instruction, mods, 3)?;
        let dst = self.destination(self.operand(instruction, 0)?)?.slot;
        let (predicate, negate) = self.predicate(self.operand(instruction, 1)?)?;
        let mask = self.source(self.operand(instruction, 2)?, Ty::B32)?;
        self.emit_warp(WarpOp::Vote { mode, dst, predicate, negate }, mask, Class::Warp, wanted.bytes());
        Ok(())
    }

    fn barrier(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        mods.take("cta");
        let aligned = instruction.base == "bar" || mods.take("aligned");
        let kind = if mods.take("sync") {
            BarrierKind::Sync
        } else if mods.take("arrive") {
            BarrierKind::Arrive
        } else if mods.take("red") {
            let kind = mods.choose(&[
                ("popc", BarrierKind::Popc),
                ("and", BarrierKind::And),
                ("or", BarrierKind::Or),
            ]);
            let wanted = if kind == Some(BarrierKind::Popc) { Ty::U32 } else { Ty::Pred };
            match kind {
                Some(kind) if mods.ty() == Some(wanted) => kind,
                _ => return self.unknown(instruction),
            }
        } else {
            return self.unknown(instruction);
        };
        self.all_taken(instruction, mods)?;
        let operands = instruction.operands.as_slice();
        let mut barrier =
            Barrier { kind, id: NONE, count: NONE, aligned, dst: NONE, predicate: NONE, negate: false };
        let numbers = match (kind, operands) {
            (BarrierKind::Sync | BarrierKind::Arrive, numbers) => numbers,
            (_, [dst, numbers @ .., predicate]) => {
                barrier.dst = self.destination(dst)?.slot;
                (barrier.predicate, barrier.negate) = self.predicate(predicate)?;
                numbers
            }
            _ => return self.unknown(instruction),
        };
        match numbers {
            [id] if kind != BarrierKind::Arrive => barrier.id = self.source(id, Ty::U32)?,
            [id, count] => {
                barrier.id = self.source(id, Ty::U32)?;
                barrier.count = self.source(count, Ty::U32)?;
            }
            _ => return self.fail(format!("`{}` has the wrong operands", instruction.opcode())),
        }
        let width = if kind == BarrierKind::Popc { 4 } else { 1 };
        self.emit(Op::Barrier(Box::new(barrier)), Class::Barrier, width, Shadow::Spread);
        Ok(())
    }
}
