//! Which instruction a statement is: arithmetic, moves, predicates and control.
//! Memory, warp and matrix instructions have files of their own.

use super::{
    body::Decoder,
    inst::{Carry, Class, Combine, NONE, Op, SetPredicate},
    types::{Modifiers, Ty},
};
use crate::{
    exec::alu::{self, Function, Shadow},
    memory::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW},
    ptx::{
        PtxError,
        ast::{Instruction, Operand, Space},
    },
};

/// The state spaces that a modifier can name.
pub(super) const SPACES: [(&str, Space); 9] = [
    ("global", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
    ("const", Space::Const),
    ("generic", Space::Generic),
];

impl<'m, 's> Decoder<'m, 's> {
    /// The error for an instruction that nobody knows, or not in this form.
    pub(super) fn unknown<T>(&self, instruction: &Instruction<'s>) -> Result<T, PtxError> {
        self.fail(format!("unknown instruction `{}`", instruction.opcode()))
    }

    /// Fails unless every modifier was taken and there are `count` operands.
    pub(super) fn done(
        &self,
        instruction: &Instruction<'s>,
        mods: &Modifiers<'s>,
        count: usize,
    ) -> Result<(), PtxError> {
        self.all_taken(instruction, mods)?;
        if instruction.operands.len() != count {
            return self.fail(format!(
                "`{}` takes {count} operands, {} given",
                instruction.opcode(),
                instruction.operands.len()
            ));
        }
        Ok(())
    }

    /// Fails unless every word of the opcode was taken: a word that nothing reads
    /// would change what the instruction means in silence.
    pub(super) fn all_taken(
        &self,
        instruction: &Instruction<'s>,
        mods: &Modifiers<'s>,
    ) -> Result<(), PtxError> {
        match mods.rest().next() {
            None => Ok(()),
            Some(word) => {
                self.fail(format!("unknown instruction `{}`: it has no `.{word}`", instruction.opcode()))
            }
        }
    }

    /// An operand by position.
    pub(super) fn operand<'i>(
        &self,
        instruction: &'i Instruction<'s>,
        index: usize,
    ) -> Result<&'i Operand<'s>, PtxError> {
        match instruction.operands.get(index) {
            Some(operand) => Ok(operand),
            None => self.fail(format!("`{}` lacks operands", instruction.opcode())),
        }
    }

    /// Decodes one instruction.
    pub(super) fn select(&mut self, instruction: &Instruction<'s>) -> Result<(), PtxError> {
        let mut mods = Modifiers::new(&instruction.modifiers);
        match instruction.base {
            "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "prefetch" | "prefetchu" | "membar" | "fence"
            | "discard" | "applypriority" | "createpolicy" => self.memory(instruction, &mut mods),
            "tensormap" => self.tensor_map(instruction, &mut mods),
            "mbarrier" => self.mbarrier(instruction, &mut mods),
            "barrier" if mods.take("cluster") => self.cluster_barrier(instruction, &mut mods),
            "mapa" | "getctarank" => self.cluster_address(instruction, &mut mods),
            "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => {
                self.warp(instruction, &mut mods)
            }
            "mma" | "wmma" | "wgmma" | "ldmatrix" | "stmatrix" | "movmatrix" => {
                self.matrix(instruction, &mut mods)
            }
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "pmevent"
            | "setmaxnreg" | "griddepcontrol" => self.control(instruction, &mut mods),
            "setp" | "set" => self.set(instruction, &mut mods),
            "lop3" if matches!(instruction.operands.first(), Some(Operand::Pair(..))) => {
                self.logic_predicate(instruction, &mut mods)
            }
            "mov" => self.mov(instruction, &mut mods),
            "cvta" | "isspacep" => self.windows(instruction, &mut mods),
            "addc" | "subc" | "madc" => self.carry(instruction, &mut mods),
            "add" | "sub" | "mad" if mods.take("cc") => {
                mods = Modifiers::new(&instruction.modifiers);
                self.carry(instruction, &mut mods)
            }
            _ => self.arithmetic(instruction, &mut mods),
        }
    }

    fn class(base: &str, ty: Ty) -> Class {
        match (base, ty) {
            ("mov" | "selp" | "slct", _) => Class::Move,
            ("cvt", _) => Class::Convert,
            (_, Ty::F32 | Ty::F32x2) => Class::Float32,
            (_, Ty::F64) => Class::Float64,
            (_, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2) => Class::Half,
            (_, Ty::Pred) => Class::Predicate,
            _ => Class::Integer,
        }
    }

    fn arithmetic(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let Some(first) = instruction.operands.first() else { return self.unknown(instruction) };
        // Only conversions look at the register's own width.
        let width = match first {
            Operand::Name(..) => self.destination(first).map_or(0, |register| register.ty.bytes()),
            _ => 0,
        };
        let given = instruction.operands.len() - 1;
        let Some(alu) = alu::select(instruction.base, mods, width, given) else {
            return self.unknown(instruction);
        };
        self.done(instruction, mods, alu.sources() + 1)?;
        let d = self.destination(first)?;
        if (d.ty == Ty::Pred) != (alu.dst == Ty::Pred) && d.slot != NONE {
            return self.fail(format!("the destination of `{}` has the wrong type", instruction.opcode()));
        }
        let mut sources = [NONE; 4];
        for (index, slot) in sources.iter_mut().enumerate().take(alu.sources()) {
            let operand = self.operand(instruction, index + 1)?;
            *slot = match (alu.src[index], operand) {
                // The choice by a negated predicate is the one between the other two.
                (Ty::Pred, Operand::Not(name)) if instruction.base == "selp" => self.register(name)?.slot,
                (ty, operand) => self.source(operand, ty)?,
            };
        }
        if instruction.base == "selp" && matches!(instruction.operands.get(3), Some(Operand::Not(_))) {
            sources.swap(0, 1);
        }
        let [a, b, c, e] = sources;
        let d_slot = d.slot;
        let op = match alu.function {
            Function::One(f) => Op::Map1 { f, d: d_slot, a },
            Function::Two(f) => Op::Map2 { f, d: d_slot, a, b },
            Function::Three(f) => Op::Map3 { f, d: d_slot, a, b, c },
            Function::Four(f) => Op::Map4 { f, d: d_slot, a, b, c, e },
            Function::Convert(f) => Op::Convert { f, d: d_slot, a },
            Function::Convert2(f) => Op::Convert2 { f, d: d_slot, a, b },
        };
        let class = Self::class(instruction.base, alu.dst);
        self.emit(op, class, alu.dst.bytes().max(d.ty.bytes().min(8)), alu.shadow);
        Ok(())
    }

    fn set(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let is_set = instruction.base == "set";
        let types = mods.all_types();
        let (result, ty) = match (is_set, types.as_slice()) {
            (false, [ty]) => (Ty::Pred, *ty),
            (true, [result, ty]) => (*result, *ty),
            _ => return self.unknown(instruction),
        };
        let combine = mods.choose(&[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)]);
        let Some(compare) = alu::compare(ty, mods) else { return self.unknown(instruction) };
        self.done(instruction, mods, if combine.is_some() { 4 } else { 3 })?;
        let combine = match combine {
            Some(combine) => {
                let (slot, negated) = self.predicate(self.operand(instruction, 3)?)?;
                Some((combine, slot, negated))
            }
            None => None,
        };
        let a = self.source(self.operand(instruction, 1)?, compare.ty)?;
        let b = self.source(self.operand(instruction, 2)?, compare.ty)?;
        let target = self.operand(instruction, 0)?;
        let (p, q, value) = if is_set {
            let value = match result {
                Ty::U32 | Ty::S32 => 0xffff_ffff,
                Ty::U16 | Ty::S16 => 0xffff,
                Ty::F32 => 0x3f80_0000,
                Ty::F16 | Ty::F16x2 => 0x3c00,
                Ty::Bf16 | Ty::Bf16x2 => 0x3f80,
                _ => return self.unknown(instruction),
            };
            if compare.high.is_some() != matches!(result, Ty::F16x2 | Ty::Bf16x2) {
                return self.unknown(instruction);
            }
            (self.destination(target)?.slot, NONE, Some(value))
        } else {
            let (p, q) = match target {
                Operand::Pair(p, q) => (self.destination(p)?, self.destination(q)?),
                single => {
                    let p = self.destination(single)?;
                    (p, super::body::Register { slot: NONE, ty: Ty::Pred })
                }
            };
            if (p.slot != NONE && p.ty != Ty::Pred) || (q.slot != NONE && q.ty != Ty::Pred) {
                return self.fail("the destination of `setp` must be a predicate");
            }
            (p.slot, q.slot, None)
        };
        let set = SetPredicate { low: compare.low, high: compare.high, p, q, a, b, combine, value };
        self.emit(Op::Set(Box::new(set)), Class::Predicate, result.bytes(), Shadow::Spread);
        Ok(())
    }

    fn windows(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        if instruction.base == "isspacep" {
            let space = if mods.take("shared::cluster") { Some(Space::Shared) } else { mods.choose(&SPACES) };
            let Some(space) = space else { return self.unknown(instruction) };
            self.done(instruction, mods, 2)?;
            let d = self.destination(self.operand(instruction, 0)?)?.slot;
            let a = self.source(self.operand(instruction, 1)?, Ty::U64)?;
            self.emit(Op::IsSpace { d, a, space }, Class::Predicate, 1, Shadow::Spread);
            return Ok(());
        }
        let to = mods.take("to");
        let cluster = mods.take("shared::cluster").then_some(Space::Shared);
        let Some(space) = cluster.or_else(|| mods.choose(&SPACES)) else { return self.unknown(instruction) };
        let Some(ty @ (Ty::U32 | Ty::U64)) = mods.ty() else {
            return self.unknown(instruction);
        };
        self.done(instruction, mods, 2)?;
        let d = self.destination(self.operand(instruction, 0)?)?.slot;
        let a = self.source(self.operand(instruction, 1)?, ty)?;
        let base = match space {
            Space::Global => 0,
            Space::Shared => SHARED_WINDOW,
            Space::Local => LOCAL_WINDOW,
            Space::Param => PARAM_WINDOW,
            // Constant memory lies in the upper half of the parameter window.
            Space::Const => PARAM_WINDOW + CONST_OFFSET,
            _ => return self.unknown(instruction),
        };
        if base == 0 {
            self.copy(d, a, ty);
        } else if to {
            self.emit(
                Op::FromGeneric { d, a, base, width: ty.bytes() },
                Class::Integer,
                ty.bytes(),
                Shadow::Spread,
            );
        } else {
            self.emit(Op::ToGeneric { d, a, base }, Class::Integer, ty.bytes(), Shadow::Spread);
        }
        Ok(())
    }

    fn carry(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        type Function = fn(u64, u64, u64, bool) -> (u64, bool);
        fn add32(a: u64, b: u64, _: u64, carry: bool) -> (u64, bool) {
            let sum = (a & 0xffff_ffff) + (b & 0xffff_ffff) + u64::from(carry);
            (sum & 0xffff_ffff, sum >> 32 != 0)
        }
        fn add64(a: u64, b: u64, _: u64, carry: bool) -> (u64, bool) {
            let sum = u128::from(a) + u128::from(b) + u128::from(carry);
            (sum as u64, sum >> 64 != 0)
        }
        fn sub32(a: u64, b: u64, _: u64, borrow: bool) -> (u64, bool) {
            let difference = (a & 0xffff_ffff).wrapping_sub(b & 0xffff_ffff).wrapping_sub(u64::from(borrow));
            (difference & 0xffff_ffff, difference >> 63 != 0)
        }
        fn sub64(a: u64, b: u64, _: u64, borrow: bool) -> (u64, bool) {
            let difference = i128::from(a) - i128::from(b) - i128::from(borrow);
            (difference as u64, difference < 0)
        }
        let writes = mods.take("cc");
        let high = mods.choose(&[("lo", false), ("hi", true)]);
        let Some(ty) = mods.ty() else { return self.unknown(instruction) };
        let long = match ty {
            Ty::U32 | Ty::S32 => false,
            Ty::U64 | Ty::S64 => true,
            _ => return self.unknown(instruction),
        };
        let multiply = instruction.base.starts_with("mad");
        if multiply != high.is_some() {
            return self.unknown(instruction);
        }
        // A product part, then the addition of c with the carry.
        let function: Function = match (instruction.base, high, ty) {
            ("add" | "addc", ..) => {
                if long {
                    add64
                } else {
                    add32
                }
            }
            ("sub" | "subc", ..) => {
                if long {
                    sub64
                } else {
                    sub32
                }
            }
            (_, Some(false), _) => {
                if long {
                    |a, b, c, carry| add64(a.wrapping_mul(b), c, 0, carry)
                } else {
                    |a, b, c, carry| add32((a as u32).wrapping_mul(b as u32).into(), c, 0, carry)
                }
            }
            (_, _, Ty::U32) => {
                |a, b, c, carry| add32((a as u32 as u64 * (b as u32 as u64)) >> 32, c, 0, carry)
            }
            (_, _, Ty::S32) => |a, b, c, carry| {
                add32(((a as i32 as i64).wrapping_mul(b as i32 as i64) >> 32) as u32 as u64, c, 0, carry)
            },
            (_, _, Ty::U64) => {
                |a, b, c, carry| add64(((u128::from(a) * u128::from(b)) >> 64) as u64, c, 0, carry)
            }
            _ => |a, b, c, carry| {
                add64(((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64, c, 0, carry)
            },
        };
        self.done(instruction, mods, if multiply { 4 } else { 3 })?;
        let dst = self.destination(self.operand(instruction, 0)?)?.slot;
        let a = self.source(self.operand(instruction, 1)?, ty)?;
        let b = self.source(self.operand(instruction, 2)?, ty)?;
        let c = if multiply { self.source(self.operand(instruction, 3)?, ty)? } else { NONE };
        let reads = matches!(instruction.base, "addc" | "subc" | "madc");
        let flag = self.carry_flag()?;
        let carry = Carry { function, dst, a, b, c, flag, reads, writes };
        self.emit(Op::Carry(Box::new(carry)), Class::Integer, ty.bytes(), Shadow::Spread);
        Ok(())
    }

    fn control(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let op = match instruction.base {
            "bra" => {
                mods.take("uni");
                self.done(instruction, mods, 1)?;
                Op::Branch { target: self.label(self.operand(instruction, 0)?)? }
            }
            "brx" if mods.take("idx") => {
                mods.take("uni");
                self.done(instruction, mods, 2)?;
                let index = self.source(self.operand(instruction, 0)?, Ty::U32)?;
                Op::BranchTable { targets: self.table(self.operand(instruction, 1)?)?, index }
            }
            "call" => {
                mods.take("uni");
                self.all_taken(instruction, mods)?;
                return self.call(&instruction.operands);
            }
            "ret" => {
                mods.take("uni");
                self.done(instruction, mods, 0)?;
                if self.in_entry() { Op::Exit } else { Op::Return }
            }
            "exit" => {
                self.done(instruction, mods, 0)?;
                Op::Exit
            }
            "trap" | "brkpt" => {
                self.done(instruction, mods, 0)?;
                Op::Trap
            }
            "nanosleep" => {
                if mods.ty() != Some(Ty::U32) {
                    return self.unknown(instruction);
                }
                self.done(instruction, mods, 1)?;
                self.source(self.operand(instruction, 0)?, Ty::U32)?;
                Op::Nop
            }
            // How many registers a warp may have changes nothing here.
            "setmaxnreg" => {
                let known = [mods.take("inc") || mods.take("dec"), mods.take("sync"), mods.take("aligned")];
                if known.contains(&false) || mods.ty() != Some(Ty::U32) {
                    return self.unknown(instruction);
                }
                self.done(instruction, mods, 1)?;
                Op::Nop
            }
            "pmevent" => {
                mods.take("mask");
                self.done(instruction, mods, 1)?;
                Op::Nop
            }
            // Launches run one after the other: what it waits for is done.
            "griddepcontrol" if mods.take("wait") || mods.take("launch_dependents") => {
                self.done(instruction, mods, 0)?;
                Op::Nop
            }
            _ => return self.unknown(instruction),
        };
        self.emit(op, Class::Control, 0, Shadow::Spread);
        Ok(())
    }
}

/// Where constant memory begins in the parameter window.
pub(crate) const CONST_OFFSET: u64 = 1 << 31;
