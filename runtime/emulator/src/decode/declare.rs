//! Declarations in bodies: registers and the variables of functions.

use super::{
    body::{Decoder, MAX_LOCAL_BYTES, Range, Register, Symbol},
    error,
    inst::Slot,
    layout,
    types::Ty,
};
use crate::{
    memory::MAX_SHARED_BYTES,
    ptx::{
        PtxError,
        ast::{Space, Variable},
    },
};

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn declare_registers(&mut self, variable: &Variable<'s>) -> Result<(), PtxError> {
        let Some(ty) = Ty::parse(variable.ty) else {
            return error(
                self.file,
                variable.pos,
                format!("registers of type `.{}` are not supported", variable.ty),
            );
        };
        self.pos = variable.pos;
        let count = variable.range.unwrap_or(1);
        // A 128-bit register is two slots, the low half first.
        let slots = if ty == Ty::B128 { 2 } else { 1 };
        let first = self.new_slots(count.saturating_mul(variable.vector.into()).saturating_mul(slots))?;
        if ty != Ty::Pred {
            self.declared += count * u64::from(variable.vector) * u64::from(ty.bytes().div_ceil(4));
        }
        if variable.range.is_some() && variable.vector == 1 {
            let range = Range { prefix: variable.name, count, first, ty };
            if let Some(scope) = self.scopes.last_mut() {
                scope.ranges.push(range);
            }
        } else if variable.vector == 1 {
            self.define(variable.name, Symbol::Register(Register { slot: first, ty }))?;
        } else if variable.range.is_some() {
            return self.fail("ranges of vector registers are not supported");
        } else {
            for (index, component) in
                ["x", "y", "z", "w"].into_iter().enumerate().take(variable.vector as usize)
            {
                let slot = first + index as Slot;
                self.define(
                    &format!("{}.{component}", variable.name),
                    Symbol::Register(Register { slot, ty }),
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn declare(&mut self, variable: &Variable<'s>) -> Result<(), PtxError> {
        if variable.space == Space::Reg {
            return self.declare_registers(variable);
        }
        let (bytes, align) = layout::extent(self.file, variable)?;
        self.pos = variable.pos;
        if variable.init.is_some() {
            return self
                .fail(format!("`{}`: variables in functions cannot have initial values", variable.name));
        }
        let (used, limit, space) = match variable.space {
            Space::Shared => (&mut self.shared, MAX_SHARED_BYTES, Space::Shared),
            // Arguments of calls live beside the local variables.
            Space::Local | Space::Param => (&mut self.local, MAX_LOCAL_BYTES, Space::Local),
            _ => return self.fail(format!("`{}` cannot be declared in a function", variable.name)),
        };
        match layout::place(used, bytes, align.max(1)) {
            Some(address) if *used <= limit => {
                // In a framed function local addresses are relative to the frame.
                let dynamic = match space {
                    Space::Shared => variable.external,
                    _ => self.framed,
                };
                self.define(variable.name, Symbol::Variable { space, address, dynamic })
            }
            _ => self.fail(format!("`{}` does not fit: the space has {limit} bytes", variable.name)),
        }
    }
}
