//! Operands: names to slots, constants and addresses.

use super::{
    body::{Decoder, Register, Symbol},
    inst::{Address, Class, NONE, Op, Slot, Special},
    layout,
    types::Ty,
};
use crate::{
    exec::alu::Shadow,
    ptx::{
        PtxError,
        ast::{Operand, Space},
    },
};

/// Shared memory set aside, for kernels that ask where it is.
const RESERVED_BYTES: u64 = 1024;

impl<'m, 's> Decoder<'m, 's> {
    /// The slot that holds a constant.
    pub(super) fn constant(&mut self, value: u64) -> Result<Slot, PtxError> {
        if let Some(slot) = self.constants.get(&value) {
            return Ok(*slot);
        }
        let slot = self.new_slots(1)?;
        self.constants.insert(value, slot);
        Ok(slot)
    }

    /// The slot that holds a special register.
    pub(super) fn special(&mut self, special: Special) -> Result<Slot, PtxError> {
        if let Some((slot, _)) = self.specials.iter().find(|(_, known)| *known == special) {
            return Ok(*slot);
        }
        let slot = self.new_slots(1)?;
        self.specials.push((slot, special));
        Ok(slot)
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Symbol> {
        for scope in self.scopes.iter().rev() {
            if let Some(symbol) = scope.names.get(name) {
                return Some(*symbol);
            }
            for range in &scope.ranges {
                let Some(digits) = name.strip_prefix(range.prefix) else { continue };
                if digits.len() > 1 && digits.starts_with('0') {
                    continue;
                }
                if let Ok(index) = digits.parse::<u64>()
                    && index < range.count
                {
                    return Some(Symbol::Register(Register {
                        slot: range.first + index as Slot * if range.ty == Ty::B128 { 2 } else { 1 },
                        ty: range.ty,
                    }));
                }
            }
        }
        let placed = self.layout.variables.get(name)?;
        Some(Symbol::Variable { space: placed.space, address: placed.address, dynamic: placed.dynamic })
    }

    pub(super) fn register(&self, name: &str) -> Result<Register, PtxError> {
        match self.lookup(name) {
            Some(Symbol::Register(register)) => Ok(register),
            Some(_) => self.fail(format!("`{name}` is not a register")),
            None => self.undeclared(name),
        }
    }

    /// The error for a name without a meaning, or with a variable behind it that
    /// cannot be used.
    fn undeclared<T>(&self, name: &str) -> Result<T, PtxError> {
        match self.layout.broken.get(name) {
            Some(why) => self.fail(why),
            None => self.fail(format!("`{name}` is not declared")),
        }
    }

    /// The slot of a destination; `_` is [`NONE`].
    pub(super) fn destination(&mut self, operand: &Operand<'s>) -> Result<Register, PtxError> {
        match operand {
            Operand::Name("_", None) => Ok(Register { slot: NONE, ty: Ty::B64 }),
            Operand::Name(name, None) => self.register(name),
            Operand::Name(name, Some(component)) => self.register(&format!("{name}.{component}")),
            _ => self.fail("the destination must be a register"),
        }
    }

    /// The slot of an address constant, made for this offset.
    pub(super) fn variable_address(
        &mut self,
        address: u64,
        dynamic: bool,
        offset: i64,
    ) -> Result<Slot, PtxError> {
        if dynamic {
            let slot = self.new_slots(1)?;
            self.dynamic.push((slot, offset));
            return Ok(slot);
        }
        self.constant(address.wrapping_add_signed(offset))
    }

    /// The slot of a source operand read at type `ty`.
    pub(super) fn source(&mut self, operand: &Operand<'s>, ty: Ty) -> Result<Slot, PtxError> {
        let mask = match ty.bytes() {
            _ if ty == Ty::Pred => 1,
            1 => 0xff,
            2 => 0xffff,
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        match operand {
            Operand::Not(name) if ty == Ty::Pred => {
                let a = self.register(name)?.slot;
                let d = self.new_slots(1)?;
                let f: crate::exec::alu::F1 = |a, d| {
                    for (d, a) in d.iter_mut().zip(a) {
                        *d = u64::from(*a == 0);
                    }
                };
                self.emit(Op::Map1 { f, d, a }, Class::Predicate, 1, Shadow::Bytes);
                Ok(d)
            }
            Operand::Int(value) => match ty {
                // An integer where a float is wanted is its value.
                Ty::F32 => self.constant(u64::from((*value as i64 as f32).to_bits())),
                Ty::F64 => self.constant((*value as i64 as f64).to_bits()),
                _ => self.constant(value & mask),
            },
            Operand::F32(bits) => self.constant(if ty == Ty::F64 {
                f64::from(f32::from_bits(*bits)).to_bits()
            } else {
                u64::from(*bits)
            }),
            Operand::F64(bits) => self.constant(match ty.bytes() {
                8 => *bits,
                2 => crate::number::narrow(
                    f64::from_bits(*bits),
                    if ty == Ty::Bf16 { crate::number::BF16 } else { crate::number::F16 },
                    crate::number::Round::NearestEven,
                ),
                _ => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            }),
            Operand::Name("WARP_SZ", None) => self.constant(32),
            Operand::Name(name, component) => {
                let full;
                let name: &str = match component {
                    Some(component) => {
                        full = format!("{name}.{component}");
                        &full
                    }
                    None => name,
                };
                if let Some(symbol) = self.lookup(name) {
                    return match symbol {
                        Symbol::Register(register) => Ok(register.slot),
                        Symbol::Variable { space: Space::Local, address, dynamic: true } => {
                            self.frame_address(address)
                        }
                        Symbol::Variable { address, dynamic, .. } => {
                            self.variable_address(address, dynamic, 0)
                        }
                        Symbol::Param(offset) => self.constant(offset.into()),
                        Symbol::Label(_) => self.fail(format!("the label `{name}` is not a value")),
                    };
                }
                if let Some(place) = name.strip_prefix("%reserved_smem_offset_") {
                    return self.reserved(place);
                }
                if let Some(address) = self.layout.functions.addresses.get(name) {
                    return self.constant(*address);
                }
                match special_named(name) {
                    Some(special) => self.special(special),
                    None => self.undeclared(name),
                }
            }
            Operand::Offset(name, offset) => match self.lookup(name) {
                Some(Symbol::Variable { space: Space::Local, address, dynamic: true }) => {
                    self.frame_address(address.wrapping_add_signed(*offset))
                }
                Some(Symbol::Variable { address, dynamic, .. }) => {
                    self.variable_address(address, dynamic, *offset)
                }
                Some(Symbol::Param(start)) => self.constant(u64::from(start).wrapping_add_signed(*offset)),
                _ => self.fail(format!("`{name}` is not a variable")),
            },
            _ => self.fail("this operand is not a value"),
        }
    }

    /// An offset into the shared memory that is set aside for libraries.
    fn reserved(&mut self, place: &str) -> Result<Slot, PtxError> {
        let start = match self.reserved {
            Some(start) => start,
            None => match layout::place(&mut self.shared, RESERVED_BYTES, 128) {
                Some(start) => *self.reserved.insert(start),
                None => return self.fail("the reserved shared memory does not fit"),
            },
        };
        match place {
            "begin" | "0" => self.constant(start),
            "1" => self.constant(start + RESERVED_BYTES / 2),
            "end" | "cap" => self.constant(start + RESERVED_BYTES),
            _ => self.fail(format!("there is no `%reserved_smem_offset_{place}`")),
        }
    }

    /// A predicate operand and whether it is negated.
    pub(super) fn predicate(&mut self, operand: &Operand<'s>) -> Result<(Slot, bool), PtxError> {
        match operand {
            Operand::Not(name) => Ok((self.register(name)?.slot, true)),
            Operand::Name(name, None) => Ok((self.register(name)?.slot, false)),
            Operand::Int(value) => Ok((self.constant(u64::from(*value != 0))?, false)),
            _ => self.fail("expected a predicate"),
        }
    }

    /// An address operand, with the space of the variable that it names.
    pub(super) fn address(&mut self, operand: &Operand<'s>) -> Result<(Address, Option<Symbol>), PtxError> {
        let Operand::Address(base, offset) = operand else {
            return self.fail("expected an address in brackets");
        };
        let Some(name) = base else {
            let base = self.constant(*offset as u64)?;
            return Ok((Address { base, offset: 0 }, None));
        };
        match self.lookup(name) {
            Some(Symbol::Register(register)) => Ok((Address { base: register.slot, offset: *offset }, None)),
            Some(symbol @ Symbol::Variable { space: Space::Local, address, dynamic: true }) => {
                Ok((self.in_frame(address.wrapping_add_signed(*offset))?, Some(symbol)))
            }
            Some(symbol @ Symbol::Variable { address, dynamic, .. }) => {
                let base = self.variable_address(address, dynamic, *offset)?;
                Ok((Address { base, offset: 0 }, Some(symbol)))
            }
            Some(symbol @ Symbol::Param(start)) => {
                let base = self.constant(u64::from(start).wrapping_add_signed(*offset))?;
                Ok((Address { base, offset: 0 }, Some(symbol)))
            }
            _ => self.undeclared(name),
        }
    }

    /// Whether a register stands in one operand only: written and never read.
    pub(super) fn used_once(&self, name: &str) -> bool {
        self.uses.get(name) == Some(&1)
    }

    /// The label of a branch target.
    pub(super) fn label(&self, operand: &Operand<'s>) -> Result<u32, PtxError> {
        match operand {
            Operand::Name(name, None) => self.label_named(name),
            _ => self.fail("expected a label"),
        }
    }

    pub(super) fn label_named(&self, name: &str) -> Result<u32, PtxError> {
        match self.lookup(name) {
            Some(Symbol::Label(label)) => Ok(label),
            _ => self.fail(format!("there is no label `{name}`")),
        }
    }

    /// The labels of a `.branchtargets` table.
    pub(super) fn table(&self, operand: &Operand<'s>) -> Result<Box<[u32]>, PtxError> {
        let Operand::Name(name, None) = operand else { return self.fail("expected a table of labels") };
        let Some(targets) = self.branch_targets.get(*name) else {
            return self.fail(format!("`{name}` is not a table of branch targets"));
        };
        targets.iter().map(|target| self.label_named(target)).collect()
    }
}

/// The special register of a name.
fn special_named(name: &str) -> Option<Special> {
    let axis = |axis: &str| match axis {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    if let Some((base, component)) = name.split_once('.') {
        let axis = axis(component)?;
        return Some(match base {
            "%tid" => Special::ThreadId(axis),
            "%ntid" => Special::ThreadCount(axis),
            "%ctaid" | "%clusterid" => Special::CtaId(axis),
            "%nctaid" | "%nclusterid" => Special::CtaCount(axis),
            "%cluster_ctaid" => Special::ClusterZero,
            "%cluster_nctaid" => Special::ClusterOne,
            _ => return None,
        });
    }
    if let Some(index) = name.strip_prefix("%envreg").and_then(|digits| digits.parse::<u8>().ok()) {
        return (index < 32).then_some(Special::Environment(index));
    }
    Some(match name {
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::WarpCount,
        "%smid" => Special::SmId,
        "%nsmid" => Special::SmCount,
        "%gridid" | "%current_graph_exec" => Special::GridId,
        "%is_explicit_cluster" => Special::ClusterZero,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        "%cluster_ctarank" => Special::ClusterZero,
        "%cluster_nctarank" => Special::ClusterOne,
        "%aggr_smem_size" => Special::TotalSharedBytes,
        "WARP_SZ" => Special::WarpSize,
        _ => return None,
    })
}
