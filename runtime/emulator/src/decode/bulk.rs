//! `mbarrier`, bulk and tensor copies, and what is left of clusters when they have
//! one CTA.

use super::{
    body::{Decoder, Symbol},
    inst::{Address, AtomicOp, Bulk, Class, MapReplace, Mbarrier, MbarrierAction, NONE, Op},
    memory::cache_hint,
    select::SPACES,
    types::{Modifiers, Ty},
};
use crate::{
    exec::alu::Shadow,
    memory::PARAM_WINDOW,
    ptx::{
        PtxError,
        ast::{Instruction, Operand, Space},
    },
    tensor_map::Field,
};

const NOWHERE: Address = Address { base: NONE, offset: 0 };

/// A space of `mbarrier` and bulk copies: in a cluster of one CTA `shared::cluster`
/// is its own shared memory.
fn shared_space(mods: &mut Modifiers<'_>) -> Space {
    if mods.take("shared::cluster") { Space::Shared } else { mods.choose(&SPACES).unwrap_or(Space::Generic) }
}

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn mbarrier(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        self.needs(80, instruction)?;
        let (expect, complete) = (mods.take("expect_tx"), mods.take("complete_tx"));
        let parity = mods.take("parity");
        let action = match () {
            () if mods.take("init") => MbarrierAction::Init,
            () if mods.take("inval") => MbarrierAction::Invalidate,
            () if mods.take("arrive") => MbarrierAction::Arrive { drop: false },
            () if mods.take("arrive_drop") => MbarrierAction::Arrive { drop: true },
            () if mods.take("test_wait") => MbarrierAction::Wait { parity },
            () if mods.take("try_wait") => MbarrierAction::BlockingWait { parity },
            () if mods.take("pending_count") => MbarrierAction::Pending,
            () if expect => MbarrierAction::ExpectTx,
            () if complete => MbarrierAction::CompleteTx,
            () => return self.unknown(instruction),
        };
        mods.take("noComplete");
        // Orders and scopes: an exchange within the CTA whatever they say.
        mods.choose(&[("release", ()), ("acquire", ()), ("relaxed", ())]);
        mods.choose(&[("cta", ()), ("cluster", ())]);
        let space = shared_space(mods);
        if mods.ty() != Some(Ty::B64) || (parity && !action.waits()) {
            return self.unknown(instruction);
        }
        self.all_taken(instruction, mods)?;
        let operands = instruction.operands.as_slice();
        let mut op = Mbarrier { action, space, address: NOWHERE, dst: NONE, count: NONE, tx: NONE };
        let (address, rest) = match (action, operands) {
            (MbarrierAction::Pending, [dst, state]) => {
                op.dst = self.destination(dst)?.slot;
                op.count = self.source(state, Ty::B64)?;
                self.emit(Op::Mbarrier(Box::new(op)), Class::Barrier, 4, Shadow::Spread);
                return Ok(());
            }
            (
                MbarrierAction::Arrive { .. }
                | MbarrierAction::Wait { .. }
                | MbarrierAction::BlockingWait { .. },
                [dst, address, rest @ ..],
            ) => {
                op.dst = self.destination(dst)?.slot;
                (address, rest)
            }
            (_, [address, rest @ ..]) => (address, rest),
            _ => return self.unknown(instruction),
        };
        (op.address, op.space) = self.plain_address(address, space)?;
        match (action, rest) {
            (MbarrierAction::Init, [count]) => op.count = self.source(count, Ty::U32)?,
            (MbarrierAction::Invalidate, []) => {}
            (MbarrierAction::ExpectTx | MbarrierAction::CompleteTx, [tx]) => {
                op.tx = self.source(tx, Ty::U32)?
            }
            (MbarrierAction::Arrive { .. }, [tx]) if expect => op.tx = self.source(tx, Ty::U32)?,
            (MbarrierAction::Arrive { .. }, []) if !expect => {}
            (MbarrierAction::Arrive { .. }, [count]) => op.count = self.source(count, Ty::U32)?,
            (MbarrierAction::Wait { .. }, [state]) => {
                op.count = self.source(state, if parity { Ty::U32 } else { Ty::B64 })?;
            }
            // A hint says how long to wait at most: the emulator waits as long as need be.
            (MbarrierAction::BlockingWait { .. }, [state] | [state, _]) => {
                op.count = self.source(state, if parity { Ty::U32 } else { Ty::B64 })?;
            }
            _ => return self.fail(format!("`{}` has the wrong operands", instruction.opcode())),
        }
        let width = if action.waits() { 1 } else { 8 };
        self.emit(Op::Mbarrier(Box::new(op)), Class::Barrier, width, Shadow::Spread);
        Ok(())
    }

    /// `barrier.cluster.arrive` and `.wait`.
    pub(super) fn cluster_barrier(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        self.needs(90, instruction)?;
        let action = match () {
            () if mods.take("arrive") => MbarrierAction::ClusterArrive,
            () if mods.take("wait") => MbarrierAction::ClusterWait,
            () => return self.unknown(instruction),
        };
        mods.choose(&[("release", ()), ("acquire", ()), ("relaxed", ())]);
        mods.take("aligned");
        self.done(instruction, mods, 0)?;
        let op =
            Mbarrier { action, space: Space::Shared, address: NOWHERE, dst: NONE, count: NONE, tx: NONE };
        self.emit(Op::Mbarrier(Box::new(op)), Class::Barrier, 0, Shadow::Spread);
        Ok(())
    }

    /// `mapa` and `getctarank`: the only CTA of the cluster is this one.
    pub(super) fn cluster_address(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        self.needs(90, instruction)?;
        shared_space(mods);
        let Some(ty @ (Ty::U32 | Ty::U64)) = mods.ty() else { return self.unknown(instruction) };
        let map = instruction.base == "mapa";
        self.done(instruction, mods, if map { 3 } else { 2 })?;
        let d = self.destination(self.operand(instruction, 0)?)?.slot;
        let a = if map { self.source(self.operand(instruction, 1)?, ty)? } else { self.constant(0)? };
        self.copy_register(d, a, ty);
        Ok(())
    }

    /// `tensormap.replace` and `tensormap.cp_fenceproxy`.
    pub(super) fn tensor_map(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
    ) -> Result<(), PtxError> {
        self.needs(90, instruction)?;
        if mods.take("cp_fenceproxy") {
            let known = [
                mods.take("global"),
                mods.take("shared::cta"),
                mods.take("tensormap::generic"),
                mods.take("release"),
                mods.take("sync"),
                mods.take("aligned"),
            ];
            mods.drop_if(|word| matches!(word, "cta" | "cluster" | "gpu" | "sys"));
            if known.contains(&false) {
                return self.unknown(instruction);
            }
            self.done(instruction, mods, 3)?;
            let (to, _) = self.plain_address(self.operand(instruction, 0)?, Space::Global)?;
            let (from, _) = self.plain_address(self.operand(instruction, 1)?, Space::Shared)?;
            if self.operand(instruction, 2)? != &Operand::Int(128) {
                return self.fail("a tensor map has 128 bytes");
            }
            self.emit(Op::MapCopy { to, from }, Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        if !mods.take("replace") || !mods.take("tile") || !mods.take("b1024") {
            return self.unknown(instruction);
        }
        let indexed = instruction.operands.len() == 3;
        let index = match instruction.operands.get(1) {
            Some(Operand::Int(index @ 0..=4)) if indexed => *index as u8,
            _ if indexed => return self.fail("the dimension is a constant of 0 to 4"),
            _ => 0,
        };
        let field = match () {
            () if mods.take("global_address") => Field::Address,
            () if mods.take("rank") => Field::Rank,
            () if mods.take("elemtype") => Field::ElementType,
            () if mods.take("interleave_layout") => Field::Interleave,
            () if mods.take("swizzle_mode") => Field::Swizzle,
            () if mods.take("fill_mode") => Field::Fill,
            () if !indexed => return self.unknown(instruction),
            () if mods.take("box_dim") => Field::BoxDim(index),
            () if mods.take("global_dim") => Field::GlobalDim(index),
            () if mods.take("global_stride") => Field::GlobalStride(index.min(3)),
            () if mods.take("element_stride") => Field::ElementStride(index),
            () => return self.unknown(instruction),
        };
        let space = shared_space(mods);
        let Some(ty @ (Ty::B32 | Ty::B64)) = mods.ty() else { return self.unknown(instruction) };
        self.done(instruction, mods, if indexed { 3 } else { 2 })?;
        let (address, space) = self.plain_address(self.operand(instruction, 0)?, space)?;
        let value = self.source(self.operand(instruction, if indexed { 2 } else { 1 })?, ty)?;
        let replace = MapReplace { field, space, address, value };
        self.emit(Op::MapReplace(Box::new(replace)), Class::Async, 0, Shadow::Spread);
        Ok(())
    }

    /// `cp.async.bulk...` and `cp.reduce.async.bulk...`, behind those words.
    pub(super) fn bulk(
        &mut self,
        instruction: &Instruction<'s>,
        mods: &mut Modifiers<'s>,
        reduces: bool,
    ) -> Result<(), PtxError> {
        self.needs(90, instruction)?;
        if mods.take("commit_group") {
            self.done(instruction, mods, 0)?;
            self.emit(Op::BulkCommit, Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        if mods.take("wait_group") {
            mods.take("read");
            self.done(instruction, mods, 1)?;
            let Operand::Int(pending) = self.operand(instruction, 0)? else {
                return self.fail("the number of groups must be a constant");
            };
            let pending = u32::try_from(*pending).unwrap_or(u32::MAX);
            self.emit(Op::BulkWait(pending), Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        let tensor = mods.take("tensor");
        let rank = mods.choose(&[("1d", 1usize), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)]);
        if tensor != rank.is_some() {
            return self.unknown(instruction);
        }
        mods.take("tile");
        let reduce = if reduces {
            let op = mods.choose(&[
                ("add", AtomicOp::Add),
                ("min", AtomicOp::Min),
                ("max", AtomicOp::Max),
                ("inc", AtomicOp::Increment),
                ("dec", AtomicOp::Decrement),
                ("and", AtomicOp::And),
                ("or", AtomicOp::Or),
                ("xor", AtomicOp::Xor),
            ]);
            mods.take("noftz");
            // The type of a tensor's elements is the map's, and not known to it.
            match (op, mods.ty()) {
                (Some(op), Some(ty)) if !tensor => Some((op, ty)),
                _ => return self.unknown(instruction),
            }
        } else {
            None
        };
        if mods.take("prefetch") {
            mods.drop_if(cache_hint);
            mods.take("L2");
            mods.take("global");
            self.all_taken(instruction, mods)?;
            self.emit(Op::Prefetch, Class::Async, 0, Shadow::Spread);
            return Ok(());
        }
        let hint = mods.take("L2::cache_hint");
        mods.drop_if(cache_hint);
        let multicast = mods.take("multicast::cluster");
        let grouped = mods.take("bulk_group");
        let counted = mods.take("mbarrier::complete_tx::bytes");
        let (cluster, cta) = (mods.take("shared::cluster"), mods.take("shared::cta"));
        let global = mods.take("global");
        self.all_taken(instruction, mods)?;
        let (to_shared, source) = match (grouped, counted) {
            (true, false) if cta && global && !cluster => (false, Space::Shared),
            (false, true) if (cluster || cta) && global && !reduces => (true, Space::Global),
            (false, true) if cluster && cta && !reduces && !tensor => (true, Space::Shared),
            _ => return self.unknown(instruction),
        };
        let extra = usize::from(hint) + usize::from(multicast);
        let count = 2 + usize::from(!tensor) + usize::from(to_shared) + extra;
        if instruction.operands.len() != count {
            return self.fail(format!("`{}` takes {count} operands", instruction.opcode()));
        }
        let (first, second) = (self.operand(instruction, 0)?, self.operand(instruction, 1)?);
        let (here, there) = if to_shared { (first, second) } else { (second, first) };
        let (shared, _) = self.plain_address(here, Space::Shared)?;
        let (other, coordinates) = match (there, rank) {
            (Operand::Tensor(map, coordinates), Some(rank)) => {
                if coordinates.len() != rank {
                    return self.fail(format!("a tensor of {rank} dimensions has {rank} coordinates"));
                }
                // A parameter's own address is generic here, as `cvta` would make it.
                let (map, symbol) = self.address(map)?;
                let map = match (symbol, map) {
                    (Some(Symbol::Param(start)), _) => {
                        Address { base: self.constant(PARAM_WINDOW + u64::from(start))?, offset: 0 }
                    }
                    (_, map) => map,
                };
                let coordinates = coordinates
                    .iter()
                    .map(|item| self.source(item, Ty::U32))
                    .collect::<Result<Box<[_]>, _>>()?;
                (map, Some(coordinates))
            }
            (Operand::Address(..), None) => (self.plain_address(there, source)?.0, None),
            _ => return self.unknown(instruction),
        };
        let mut next = 2;
        let bytes = if tensor {
            NONE
        } else {
            next += 1;
            self.source(self.operand(instruction, 2)?, Ty::U32)?
        };
        let (mbarrier, mbarrier_space) = if to_shared {
            self.plain_address(self.operand(instruction, next)?, Space::Shared)?
        } else {
            (NOWHERE, Space::Shared)
        };
        let copy = Bulk {
            to_shared,
            source,
            shared,
            other,
            tensor: coordinates,
            bytes,
            mbarrier,
            mbarrier_space,
            reduce,
        };
        self.emit(Op::Bulk(Box::new(copy)), Class::Async, 0, Shadow::Spread);
        Ok(())
    }
}
