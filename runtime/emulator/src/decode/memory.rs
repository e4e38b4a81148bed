//! Loads, stores, atomics, asynchronous copies and fences.

use super::{
    body::{Decoder, Symbol},
    inst::{Address, AsyncCopy, Atomic, AtomicOp, Class, Load, NONE, Op, Order, Store},
    select::SPACES,
    types::{Modifiers, Ty},
};
use crate::{
    exec::alu::Shadow,
    ptx::{
        PtxError,
        ast::{Instruction, Operand, Space},
    },
};

const SCOPES: [(&str, bool); 4] = [("cta", true), ("cluster", false), ("gpu", false), ("sys", false)];

/// Words that only hint at caching.
fn cache_hint(word: &str) -> bool {
    matches!(word, "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt")
        || word.starts_with("L1::")
        || (word.starts_with("L2::") && word != "L2::cache_hint")
        || word.starts_with("level::")
}

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn memory(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        match instruction.base {
            "ld" | "ldu" | "st" => self.load_store(instruction, mods),
            "atom" | "red" => self.atomic(instruction, mods),
            "cp" => self.copy_async(instruction, mods),
            "membar" | "fence" => self.fence(instruction, mods),
            "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                self.emit(Op::Prefetch, Class::Other, 0, Shadow::Spread);
                Ok(())
            }
            // A cache policy is opaque: any value will do.
            "createpolicy" => {
                let d = self.destination(self.operand(instruction, 0)?)?.slot;
                let a = self.constant(0)?;
                let f: crate::exec::alu::F1 = |a, d| *d = *a;
                self.emit(Op::Map1 { f, d, a }, Class::Other, 8, Shadow::Bytes);
                Ok(())
            }
            _ => self.unknown(instruction),
        }
    }

    /// `.param` inside a function is local; the kernel's own is the parameters.
    fn param_space(&self, space: Space, symbol: Option<Symbol>) -> Result<Space, PtxError> {
        match (space, symbol) {
            (Space::Generic | Space::Param, Some(Symbol::Param(_))) => Ok(Space::Param),
            (Space::Param, Some(Symbol::Variable { space: Space::Local, .. })) => Ok(Space::Local),
            (Space::Param, None) if !self.in_entry() => Ok(Space::Local),
            (Space::Generic, Some(Symbol::Variable { space, .. })) => Ok(space),
            (space, Some(Symbol::Variable { space: other, .. })) if space != other => {
                self.fail("the variable lies in another state space")
            }
            (_, Some(Symbol::Param(_))) => self.fail("the variable lies in another state space"),
            _ => Ok(space),
        }
    }

    fn order(mods: &mut Modifiers<'_>) -> Order {
        let order = mods.choose(&[
            ("volatile", Order::Relaxed),
            ("relaxed", Order::Relaxed),
            ("mmio", Order::Relaxed),
            ("acquire", Order::Acquire),
            ("release", Order::Release),
            ("acq_rel", Order::AcquireRelease),
        ]);
        // `.mmio` stands beside `.relaxed`.
        mods.take("mmio");
        mods.take("weak");
        mods.choose(&SCOPES);
        order.unwrap_or(Order::Weak)
    }

    fn load_store(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let store = instruction.base == "st";
        let order = Self::order(mods);
        let space = mods.choose(&SPACES).unwrap_or(Space::Generic);
        let vector = mods.choose(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        mods.take("nc");
        mods.drop_if(cache_hint);
        let hint = mods.take("L2::cache_hint");
        let (Some(ty), 1) = (mods.ty(), mods.types.len()) else { return self.unknown(instruction) };
        if matches!(ty, Ty::Pred | Ty::B128 | Ty::Tf32) || (ty.float() && !matches!(ty, Ty::F32 | Ty::F64)) {
            return self.unknown(instruction);
        }
        self.done(instruction, mods, if hint { 3 } else { 2 })?;
        if (store && order.acquires()) || (!store && order.releases()) {
            return self.unknown(instruction);
        }
        let (first, second) = (self.operand(instruction, 0)?, self.operand(instruction, 1)?);
        let (address, data) = if store { (first, second) } else { (second, first) };
        let (address, symbol) = self.address(address)?;
        let space = self.param_space(space, symbol)?;
        let items: Vec<&Operand<'s>> = match data {
            Operand::Vector(items) => items.iter().collect(),
            single => vec![single],
        };
        if items.len() != vector {
            return self.fail(format!(
                "`{}` moves {vector} values, {} given",
                instruction.opcode(),
                items.len()
            ));
        }
        if order != Order::Weak && matches!(space, Space::Global | Space::Generic) {
            self.communicates = true;
        }
        let class = match (space, store) {
            (Space::Shared, false) => Class::LoadShared,
            (Space::Shared, true) => Class::StoreShared,
            (Space::Global | Space::Generic, false) => Class::LoadGlobal,
            (Space::Global | Space::Generic, true) => Class::StoreGlobal,
            _ => Class::OtherMemory,
        };
        if store {
            if matches!(space, Space::Const) || (space == Space::Param && self.in_entry()) {
                return self.fail("constants and kernel parameters cannot be stored to");
            }
            let src = items.iter().map(|item| self.source(item, ty)).collect::<Result<Box<[_]>, _>>()?;
            let store = Store { space, bytes: ty.bytes(), src, address, order };
            self.emit(Op::Store(Box::new(store)), class, 0, Shadow::Spread);
        } else {
            let registers = items.iter().map(|item| self.destination(item)).collect::<Result<Vec<_>, _>>()?;
            let load = Load {
                space,
                bytes: ty.bytes(),
                signed: ty.signed(),
                dst: registers.iter().map(|register| register.slot).collect(),
                widths: registers.iter().map(|register| register.ty.bytes().max(ty.bytes())).collect(),
                address,
                order,
            };
            self.emit(Op::Load(Box::new(load)), class, ty.bytes(), Shadow::Spread);
        }
        Ok(())
    }

    fn atomic(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let red = instruction.base == "red";
        let order = Self::order(mods);
        // Without words of its own an atomic is relaxed.
        let order = if order == Order::Weak { Order::Relaxed } else { order };
        let space = mods.choose(&SPACES).unwrap_or(Space::Generic);
        mods.drop_if(cache_hint);
        let hint = mods.take("L2::cache_hint");
        mods.take("noftz");
        let Some(op) = mods.choose(&[
            ("and", AtomicOp::And),
            ("or", AtomicOp::Or),
            ("xor", AtomicOp::Xor),
            ("cas", AtomicOp::Cas),
            ("exch", AtomicOp::Exchange),
            ("add", AtomicOp::Add),
            ("inc", AtomicOp::Increment),
            ("dec", AtomicOp::Decrement),
            ("min", AtomicOp::Min),
            ("max", AtomicOp::Max),
        ]) else {
            return self.unknown(instruction);
        };
        let (Some(ty), 1) = (mods.ty(), mods.types.len()) else { return self.unknown(instruction) };
        if !crate::exec::atomic::legal(op, ty) || (red && matches!(op, AtomicOp::Cas | AtomicOp::Exchange)) {
            return self.unknown(instruction);
        }
        let cas = op == AtomicOp::Cas;
        let count = if red { 2 } else { 3 } + usize::from(cas) + usize::from(hint);
        self.done(instruction, mods, count)?;
        let first = usize::from(!red);
        let dst = if red { NONE } else { self.destination(self.operand(instruction, 0)?)?.slot };
        let (address, symbol) = self.address(self.operand(instruction, first)?)?;
        let space = self.param_space(space, symbol)?;
        if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
            return self.unknown(instruction);
        }
        let b = self.source(self.operand(instruction, first + 1)?, ty)?;
        let c = if cas { self.source(self.operand(instruction, first + 2)?, ty)? } else { NONE };
        let unused =
            matches!(instruction.operands.first(), Some(Operand::Name(name, None)) if self.used_once(name));
        let dst = if unused && !matches!(op, AtomicOp::Cas | AtomicOp::Exchange) { NONE } else { dst };
        if space != Space::Shared && (dst != NONE || matches!(op, AtomicOp::Cas | AtomicOp::Exchange)) {
            self.communicates = true;
        }
        let atomic = Atomic { op, ty, space, dst, address, b, c, order };
        self.emit(Op::Atomic(Box::new(atomic)), Class::Atomic, ty.bytes(), Shadow::Spread);
        Ok(())
    }

    fn copy_async(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        if !mods.take("async") {
            return self.unknown(instruction);
        }
        if self.target < 80 {
            return self.fail(format!(
                "`{}` needs sm_80, the target is sm_{}",
                instruction.opcode(),
                self.target
            ));
        }
        if mods.take("commit_group") {
            self.done(instruction, mods, 0)?;
            self.emit(Op::CommitGroup, Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        if mods.take("wait_all") {
            self.done(instruction, mods, 0)?;
            self.emit(Op::WaitGroup(None), Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        if mods.take("wait_group") {
            self.done(instruction, mods, 1)?;
            let Operand::Int(pending) = self.operand(instruction, 0)? else {
                return self.fail("the number of groups must be a constant");
            };
            let pending = u32::try_from(*pending).unwrap_or(u32::MAX);
            self.emit(Op::WaitGroup(Some(pending)), Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        let bypass = match (mods.take("ca"), mods.take("cg")) {
            (true, false) => false,
            (false, true) => true,
            _ => return self.unknown(instruction),
        };
        if !(mods.take("shared") || mods.take("shared::cta")) || !mods.take("global") {
            return self.unknown(instruction);
        }
        mods.drop_if(cache_hint);
        let hint = mods.take("L2::cache_hint");
        if !mods.rest().is_empty() {
            return self.unknown(instruction);
        }
        let (dst, _) = self.plain_address(self.operand(instruction, 0)?, Space::Shared)?;
        let (src, _) = self.plain_address(self.operand(instruction, 1)?, Space::Global)?;
        let bytes = match self.operand(instruction, 2)? {
            Operand::Int(16) => 16,
            Operand::Int(bytes @ (4 | 8)) if !bypass => *bytes as u8,
            _ => return self.fail("`cp.async` copies 4, 8 or 16 bytes, and `.cg` only 16"),
        };
        let mut copy = AsyncCopy { dst, src, bytes, src_bytes: NONE, ignore: NONE, ignore_not: false };
        let extra = instruction.operands.len() - 3;
        if extra > 2 || extra < usize::from(hint) {
            return self.unknown(instruction);
        }
        if extra > usize::from(hint) {
            match self.operand(instruction, 3)? {
                operand @ Operand::Not(_) => (copy.ignore, copy.ignore_not) = self.predicate(operand)?,
                operand @ Operand::Name(name, None) => match self.lookup(name) {
                    Some(Symbol::Register(register)) if register.ty == Ty::Pred => {
                        copy.ignore = register.slot
                    }
                    _ => copy.src_bytes = self.source(operand, Ty::U32)?,
                },
                operand => copy.src_bytes = self.source(operand, Ty::U32)?,
            }
        }
        self.emit(Op::AsyncCopy(Box::new(copy)), Class::Async, 0, Shadow::Spread);
        Ok(())
    }

    fn fence(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let cta_only = if instruction.base == "membar" {
            mods.choose(&[("cta", true), ("gl", false), ("sys", false)])
        } else {
            mods.choose(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
            mods.choose(&SCOPES)
        };
        let Some(cta_only) = cta_only else { return self.unknown(instruction) };
        self.done(instruction, mods, 0)?;
        self.emit(Op::Fence { cta_only }, Class::Other, 0, Shadow::Spread);
        Ok(())
    }

    /// An address and the space it lies in, for instructions that name a space or
    /// take a generic address.
    pub(super) fn plain_address(
        &mut self,
        operand: &Operand<'s>,
        space: Space,
    ) -> Result<(Address, Space), PtxError> {
        let (address, symbol) = self.address(operand)?;
        Ok((address, self.param_space(space, symbol)?))
    }
}
