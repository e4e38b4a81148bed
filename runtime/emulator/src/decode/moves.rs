//! Moves, packing and unpacking, and logic with a predicate.

use super::{
    body::Decoder,
    inst::{Class, Clock, Combine, NONE, Op, SetPredicate},
    types::{Modifiers, Ty},
};
use crate::{
    exec::alu::{self, Function, Shadow},
    ptx::{
        PtxError,
        ast::{Instruction, Operand},
    },
};

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn mov(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let Some(ty) = mods.ty() else { return self.unknown(instruction) };
        self.done(instruction, mods, 2)?;
        let (first, second) = (self.operand(instruction, 0)?, self.operand(instruction, 1)?);
        if ty == Ty::B128 {
            let d = self.halves(first, true)?;
            let a = self.halves(second, false)?;
            self.emit(Op::CopyPair { d, a }, Class::Move, 8, Shadow::Bytes);
            return Ok(());
        }
        match (first, second) {
            (Operand::Vector(parts), source) => {
                let bits = u32::from(ty.bytes()) * 8 / parts.len().max(1) as u32;
                if bits < 8 {
                    return self.unknown(instruction);
                }
                let a = self.source(source, ty)?;
                let parts = parts
                    .iter()
                    .map(|part| Ok(self.destination(part)?.slot))
                    .collect::<Result<Box<[_]>, _>>()?;
                self.emit(Op::Unpack { parts, a, bits }, Class::Move, (bits / 8) as u8, Shadow::Bytes);
                Ok(())
            }
            (target, Operand::Vector(parts)) => {
                let bits = u32::from(ty.bytes()) * 8 / parts.len().max(1) as u32;
                let part_ty = match bits {
                    8 => Ty::B8,
                    16 => Ty::B16,
                    32 => Ty::B32,
                    _ => return self.unknown(instruction),
                };
                let parts =
                    parts.iter().map(|part| self.source(part, part_ty)).collect::<Result<Box<[_]>, _>>()?;
                let d = self.destination(target)?.slot;
                self.emit(Op::Pack { d, parts, bits }, Class::Move, ty.bytes(), Shadow::Bytes);
                Ok(())
            }
            (target, source) => {
                let d = self.destination(target)?;
                let clock = match source {
                    Operand::Name("%clock", None) => Some(Clock::Clock32),
                    Operand::Name("%clock_hi" | "%globaltimer_hi", None) => Some(Clock::ClockHigh),
                    Operand::Name("%clock64" | "%globaltimer", None) => Some(Clock::Clock64),
                    Operand::Name("%globaltimer_lo", None) => Some(Clock::Clock32),
                    _ => None,
                };
                if let Some(clock) = clock {
                    self.emit(Op::Clock { d: d.slot, clock }, Class::Other, ty.bytes(), Shadow::Spread);
                    return Ok(());
                }
                if (d.ty == Ty::Pred) != (ty == Ty::Pred) && d.slot != NONE {
                    return self.fail("the destination of `mov` has the wrong type");
                }
                let a = self.source(source, ty)?;
                self.copy(d.slot, a, ty);
                Ok(())
            }
        }
    }

    /// The halves of a 128-bit operand: a register, or two 64-bit ones in braces.
    fn halves(&mut self, operand: &Operand<'s>, written: bool) -> Result<[u32; 2], PtxError> {
        let mut slot = |item: &Operand<'s>, ty| {
            if written { Ok(self.destination(item)?.slot) } else { self.source(item, ty) }
        };
        match operand {
            Operand::Vector(parts) => match parts.as_slice() {
                [low, high] => Ok([slot(low, Ty::B64)?, slot(high, Ty::B64)?]),
                _ => self.fail("128 bits are two registers of 64"),
            },
            single => {
                let low = slot(single, Ty::B128)?;
                if !self.is_double(single) {
                    return self.fail("a register of type `.b128` is needed here");
                }
                Ok([low, low + 1])
            }
        }
    }

    pub(super) fn copy(&mut self, d: u32, a: u32, ty: Ty) {
        let f: alu::F1 = |a, d| *d = *a;
        self.emit(Op::Map1 { f, d, a }, Class::Move, ty.bytes(), Shadow::Bytes);
    }

    /// `lop3.or.b32 d|p, a, b, c, table, q`: p is whether d is not zero, or q.
    pub(super) fn logic_predicate(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let combine = mods.choose(&[("and", Combine::And), ("or", Combine::Or)]);
        let (Some(combine), Operand::Pair(d, p), Some(q)) =
            (combine, self.operand(instruction, 0)?, instruction.operands.get(5))
        else {
            return self.unknown(instruction);
        };
        let Some(alu) = alu::select("lop3", mods, 4, 4) else { return self.unknown(instruction) };
        self.done(instruction, mods, 6)?;
        let mut a = [NONE; 4];
        for (slot, operand) in a.iter_mut().zip(&instruction.operands[1..]) {
            *slot = self.source(operand, Ty::B32)?;
        }
        let d = match self.destination(d)?.slot {
            NONE => self.new_slots(1)?,
            slot => slot,
        };
        let p = self.destination(p)?.slot;
        let (q, negated) = self.predicate(q)?;
        let Function::Four(f) = alu.function else { return self.unknown(instruction) };
        self.emit(Op::Map4 { f, d, a: a[0], b: a[1], c: a[2], e: a[3] }, Class::Integer, 4, alu.shadow);
        let low: alu::F2 = |a, b, d| {
            for ((d, a), b) in d.iter_mut().zip(a).zip(b) {
                *d = u64::from(a != b);
            }
        };
        let zero = self.constant(0)?;
        let set = SetPredicate {
            low,
            high: None,
            p,
            q: NONE,
            a: d,
            b: zero,
            combine: Some((combine, q, negated)),
            value: None,
        };
        self.emit(Op::Set(Box::new(set)), Class::Predicate, 1, Shadow::Spread);
        Ok(())
    }
}
