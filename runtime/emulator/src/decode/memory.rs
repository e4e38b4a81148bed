//! Loads, stores, atomics, asynchronous copies and fences.

use super::{
    body::{Decoder, Register, Symbol},
    inst::{
        Address, AsyncCopy, Atomic, AtomicOp, Class, Load, Mbarrier, MbarrierAction, NONE, Op, Order, Scope,
        Slot, Store,
    },
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

const SCOPES: [(&str, Scope); 4] =
    [("cta", Scope::Cta), ("cluster", Scope::Device), ("gpu", Scope::Device), ("sys", Scope::Device)];

/// Words that only hint at caching.
pub(super) fn cache_hint(word: &str) -> bool {
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
                mods.choose(&SPACES);
                mods.take("tensormap");
                mods.drop_if(|word| word == "L1" || word == "L2" || word.starts_with("L2::"));
                let sized = matches!(instruction.base, "discard" | "applypriority");
                self.done(instruction, mods, if sized { 2 } else { 1 })?;
                self.address(self.operand(instruction, 0)?)?;
                self.emit(Op::Prefetch, Class::Other, 0, Shadow::Spread);
                Ok(())
            }
            // A cache policy is opaque: any value will do.
            "createpolicy" => {
                let how = mods.choose(&[("fractional", ()), ("range", ()), ("cvt", ())]);
                mods.take("global");
                mods.drop_if(|word| word == "L2" || word.starts_with("L2::"));
                if how.is_none() || mods.ty() != Some(Ty::B64) {
                    return self.unknown(instruction);
                }
                self.all_taken(instruction, mods)?;
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

    fn order(mods: &mut Modifiers<'_>) -> (Order, Scope) {
        let order = mods.choose(&[
            ("volatile", Order::Volatile),
            ("relaxed", Order::Relaxed),
            ("mmio", Order::Relaxed),
            ("acquire", Order::Acquire),
            ("release", Order::Release),
            ("acq_rel", Order::AcquireRelease),
        ]);
        // `.mmio` stands beside `.relaxed`.
        mods.take("mmio");
        mods.take("weak");
        let scope = mods.choose(&SCOPES).unwrap_or(Scope::Device);
        (order.unwrap_or(Order::Weak), scope)
    }

    /// The registers of a vector operand: a list in braces, a vector register, or
    /// one register; a 128-bit one counts as its two halves.
    fn elements(&mut self, operand: &Operand<'s>, ty: Ty, written: bool) -> Result<Vec<Register>, PtxError> {
        let items = match operand {
            Operand::Vector(items) => items.as_slice(),
            Operand::Name(name, None) if self.lookup(&format!("{name}.x")).is_some() => {
                let names = ["x", "y", "z", "w"].map(|component| format!("{name}.{component}"));
                let found = names.iter().filter_map(|name| self.register(name).ok());
                return Ok(found.collect());
            }
            single => std::slice::from_ref(single),
        };
        let mut registers = Vec::new();
        for item in items {
            let register =
                if written { self.destination(item)? } else { Register { slot: self.source(item, ty)?, ty } };
            if ty == Ty::B128 {
                if register.slot != NONE && !self.is_double(item) {
                    return self.fail("a register of type `.b128` is needed here");
                }
                let half = |slot| Register { slot, ty: Ty::B64 };
                let slot = register.slot;
                registers.extend([half(slot), half(if slot == NONE { NONE } else { slot + 1 })]);
            } else {
                registers.push(register);
            }
        }
        Ok(registers)
    }

    /// Whether an operand is a 128-bit register.
    pub(super) fn is_double(&self, operand: &Operand<'s>) -> bool {
        matches!(operand, Operand::Name(name, None)
            if self.register(name).is_ok_and(|register| register.ty == Ty::B128))
    }

    fn load_store(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let store = instruction.base == "st";
        let (order, scope) = Self::order(mods);
        let space = mods.choose(&SPACES).unwrap_or(Space::Generic);
        let vector = mods.choose(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
        let noncoherent = !store && mods.take("nc");
        self.noncoherent |= noncoherent;
        mods.drop_if(cache_hint);
        let hint = mods.take("L2::cache_hint");
        let Some(ty) = mods.ty() else { return self.unknown(instruction) };
        if matches!(ty, Ty::Pred | Ty::Tf32) || (ty.float() && !matches!(ty, Ty::F32 | Ty::F64)) {
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
        let elements = self.elements(data, ty, !store)?;
        let halves = if ty == Ty::B128 { 2 } else { 1 };
        if elements.len() != vector * halves {
            return self.fail(format!(
                "`{}` moves {vector} values, {} given",
                instruction.opcode(),
                elements.len() / halves
            ));
        }
        let bytes = ty.bytes().min(8);
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
            let src = elements.iter().map(|register| register.slot).collect();
            let store = Store { space, bytes, src, address, order, scope };
            self.emit(Op::Store(Box::new(store)), class, 0, Shadow::Spread);
        } else {
            let used_once = |item: &Operand<'s>| match item {
                Operand::Name(name, None) => *name == "_" || self.used_once(name),
                _ => false,
            };
            let unread = match data {
                Operand::Vector(items) => items.iter().all(used_once),
                single => used_once(single),
            };
            let load = Load {
                space,
                bytes,
                signed: ty.signed(),
                dst: elements.iter().map(|register| register.slot).collect(),
                widths: elements.iter().map(|register| register.ty.bytes().max(bytes)).collect(),
                address,
                order,
                scope,
                noncoherent,
                unread,
            };
            self.emit(Op::Load(Box::new(load)), class, bytes, Shadow::Spread);
        }
        Ok(())
    }

    fn atomic(&mut self, instruction: &Instruction<'s>, mods: &mut Modifiers<'s>) -> Result<(), PtxError> {
        let red = instruction.base == "red";
        let (order, scope) = Self::order(mods);
        // Without words of its own an atomic is relaxed.
        let order = if order == Order::Weak { Order::Relaxed } else { order };
        let space = mods.choose(&SPACES).unwrap_or(Space::Generic);
        mods.drop_if(cache_hint);
        let hint = mods.take("L2::cache_hint");
        mods.take("noftz");
        let vector = mods.choose(&[("v2", 2), ("v4", 4), ("v8", 8)]);
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
        let Some(ty) = mods.ty() else { return self.unknown(instruction) };
        let legal = match vector {
            None => crate::exec::atomic::legal(op, ty),
            Some(count) => {
                self.needs(90, instruction)?;
                crate::exec::atomic::legal_vector(op, ty, count) && space == Space::Global
            }
        };
        if !legal || (red && matches!(op, AtomicOp::Cas | AtomicOp::Exchange)) {
            return self.unknown(instruction);
        }
        let cas = op == AtomicOp::Cas;
        let count = if red { 2 } else { 3 } + usize::from(cas) + usize::from(hint);
        self.done(instruction, mods, count)?;
        let first = usize::from(!red);
        let double = ty == Ty::B128;
        let elements = if double { 2 } else { vector.unwrap_or(1) };
        let slots = |this: &mut Self, index: usize, written: bool| -> Result<Box<[Slot]>, PtxError> {
            let found = this.elements(this.operand(instruction, index)?, ty, written)?;
            if found.len() != elements {
                return this.fail(format!("`{}` takes {elements} values", instruction.opcode()));
            }
            Ok(found.iter().map(|register| register.slot).collect())
        };
        let dst = if red { Box::default() } else { slots(self, 0, true)? };
        let b = slots(self, first + 1, false)?;
        let c = if cas { slots(self, first + 2, false)? } else { Box::default() };
        let (address, symbol) = self.address(self.operand(instruction, first)?)?;
        let space = self.param_space(space, symbol)?;
        if !matches!(space, Space::Global | Space::Shared | Space::Generic) {
            return self.unknown(instruction);
        }
        let unused = dst.iter().all(|slot| *slot == NONE)
            || matches!(instruction.operands.first(), Some(Operand::Name(name, None)) if self.used_once(name));
        let swaps = matches!(op, AtomicOp::Cas | AtomicOp::Exchange);
        let dst = if unused && !swaps { Box::default() } else { dst };
        if space != Space::Shared && (!dst.is_empty() || swaps) {
            self.communicates = true;
        }
        let ty = if double { Ty::B64 } else { ty };
        let atomic = Atomic { op, ty, space, dst, address, b, c, double, order, scope };
        self.emit(Op::Atomic(Box::new(atomic)), Class::Atomic, ty.bytes(), Shadow::Spread);
        Ok(())
    }

    fn copy_async(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        let reduces = mods.take("reduce");
        if !mods.take("async") {
            return self.unknown(instruction);
        }
        if mods.take("bulk") {
            return self.bulk(instruction, mods, reduces);
        }
        if mods.take("mbarrier") {
            let counted = !mods.take("noinc");
            let space = mods.choose(&SPACES).unwrap_or(Space::Generic);
            if reduces || !mods.take("arrive") || mods.ty() != Some(Ty::B64) {
                return self.unknown(instruction);
            }
            self.done(instruction, mods, 1)?;
            let (address, space) = self.plain_address(self.operand(instruction, 0)?, space)?;
            let action = MbarrierAction::CopyArrive { counted };
            let op = Mbarrier { action, space, address, dst: NONE, count: NONE, tx: NONE };
            self.emit(Op::Mbarrier(Box::new(op)), Class::Async, 0, Shadow::Spread);
            return Ok(());
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
        self.all_taken(instruction, mods)?;
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
        // The asynchronous proxy sees memory in program order here, as the others do.
        if mods.take("proxy") {
            mods.drop_if(|word| {
                matches!(word, "alias" | "async" | "acquire" | "release" | "sync_restrict::shared::cta")
                    || matches!(word, "global" | "shared::cta" | "shared::cluster")
                    || matches!(word, "sync_restrict::shared::cluster")
                    || word.starts_with("async")
                    || word.starts_with("tensormap::")
            });
            mods.choose(&SCOPES);
            self.all_taken(instruction, mods)?;
            self.emit(Op::Nop, Class::Other, 0, Shadow::Spread);
            return Ok(());
        }
        mods.take("mbarrier_init");
        mods.drop_if(|word| word.starts_with("sync_restrict::"));
        let scope = if instruction.base == "membar" {
            mods.choose(&[("cta", Scope::Cta), ("gl", Scope::Device), ("sys", Scope::Device)])
        } else {
            mods.choose(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
            mods.choose(&SCOPES)
        };
        let Some(scope) = scope else { return self.unknown(instruction) };
        self.done(instruction, mods, 0)?;
        self.emit(Op::Fence { scope }, Class::Other, 0, Shadow::Spread);
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
