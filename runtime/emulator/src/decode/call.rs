//! Calls: functions are placed once a kernel, their parameters are registers or
//! local memory of the thread.

use super::{
    body::{Decoder, MAX_LOCAL_BYTES, Passed, Placed, Register, Scope, Symbol},
    error,
    inst::{Class, NONE, Op, Slot},
    layout,
    types::Ty,
};
use crate::{
    exec::alu::Shadow,
    ptx::{
        PtxError,
        ast::{Function, Operand, Space, Variable},
    },
};

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn reject_recursion(&self, entry: &Function<'s>) -> Result<(), PtxError> {
        // A depth-first walk; a function on the path again is recursion.
        let mut path = vec![(entry.name, 0usize)];
        let mut done: Vec<&str> = Vec::new();
        while let Some((name, next)) = path.last_mut() {
            let callee = self.calls.get(name).and_then(|callees| callees.get(*next)).copied();
            *next += 1;
            match callee {
                None => {
                    done.push(name);
                    path.pop();
                }
                Some(callee) if path.iter().any(|(on, _)| *on == callee) => {
                    let pos = self.functions.get(callee).map_or(entry.pos, |function| function.pos);
                    return error(self.file, pos, format!("`{callee}` is recursive, which is not supported"));
                }
                Some(callee) if done.contains(&callee) => {}
                Some(callee) => path.push((callee, 0)),
            }
        }
        Ok(())
    }

    pub(super) fn place_function(&mut self, name: &str) -> Result<Placed, PtxError> {
        let Some((key, function)) = self.functions.get_key_value(name) else {
            return self.fail(format!("the function `{name}` is not declared"));
        };
        let (key, function): (&'m str, &'m Function<'s>) = (key, function);
        self.calls.entry(self.current).or_default().push(key);
        if let Some(placed) = self.placed.get(key) {
            return Ok(placed.clone());
        }
        if let Some(error) = &function.broken {
            return Err(error.clone());
        }
        if function.body.is_none() {
            return self.fail(format!("the function `{name}` has no body in this module"));
        }
        let label = self.labels.len() as u32;
        self.labels.push(None);
        self.label_names.push((function.pos, name.to_owned()));
        let params = self.passed(&function.params)?;
        let returns = self.passed(&function.returns)?;
        let placed = Placed { label, params, returns };
        self.placed.insert(key, placed.clone());
        self.pending.push(key);
        Ok(placed)
    }

    pub(super) fn passed(&mut self, variables: &[Variable<'s>]) -> Result<Vec<Passed>, PtxError> {
        let mut passed = Vec::new();
        for variable in variables {
            let (bytes, align) = layout::extent(self.file, variable)?;
            if variable.space == Space::Reg {
                let Some(ty) = Ty::parse(variable.ty) else { return self.fail("unsupported parameter type") };
                passed.push(Passed::Register(Register { slot: self.new_slots(1)?, ty }));
            } else {
                match layout::place(&mut self.local, bytes, align) {
                    Some(address) if self.local <= MAX_LOCAL_BYTES => {
                        passed.push(Passed::Local { address: address as u32, bytes: bytes as u32 });
                    }
                    _ => return self.fail("the parameters do not fit local memory"),
                }
            }
        }
        Ok(passed)
    }

    pub(super) fn placed_body(&mut self, name: &'m str) -> Result<(), PtxError> {
        let (Some(function), Some(placed)) =
            (self.functions.get(name).copied(), self.placed.get(name).cloned())
        else {
            return Ok(());
        };
        self.labels[placed.label as usize] = Some(self.code.len() as u32);
        self.scopes.truncate(1);
        self.scopes.push(Scope::default());
        let variables = function.params.iter().chain(&function.returns);
        for (variable, passed) in variables.zip(placed.params.iter().chain(&placed.returns)) {
            let symbol = match *passed {
                Passed::Register(register) => Symbol::Register(register),
                Passed::Local { address, .. } => {
                    Symbol::Variable { space: Space::Local, address: address.into(), dynamic: false }
                }
            };
            self.define(variable.name, symbol)?;
        }
        self.function_body(function)?;
        self.scopes.pop();
        Ok(())
    }

    /// `call (returns), function, (arguments);` with each part optional.
    pub(super) fn call(&mut self, operands: &[Operand<'s>]) -> Result<(), PtxError> {
        let mut rest = operands;
        let mut returns: &[Operand<'s>] = &[];
        if let [Operand::List(list), tail @ ..] = rest {
            returns = list;
            rest = tail;
        }
        let [Operand::Name(name, None), tail @ ..] = rest else {
            return self.fail("expected the called function's name");
        };
        let arguments: &[Operand<'s>] = match tail {
            [] => &[],
            [Operand::List(list)] => list,
            _ => return self.fail("calls through a register are not supported"),
        };
        if *name == "__assertfail" {
            let message = match arguments.first() {
                Some(Operand::Name(param, None)) => match self.lookup(param) {
                    Some(Symbol::Variable { address, .. }) => self.constant(address)?,
                    _ => NONE,
                },
                _ => NONE,
            };
            self.emit(Op::Assert { message }, Class::Control, 0, Shadow::Spread);
            return Ok(());
        }
        if matches!(self.lookup(name), Some(Symbol::Register(_))) {
            return self.fail("calls through a register are not supported");
        }
        let placed = self.place_function(name)?;
        if placed.params.len() != arguments.len() || placed.returns.len() != returns.len() {
            return self.fail(format!(
                "`{name}` takes {} arguments and returns {}, the call has {} and {}",
                placed.params.len(),
                placed.returns.len(),
                arguments.len(),
                returns.len()
            ));
        }
        for (argument, param) in arguments.iter().zip(&placed.params) {
            match *param {
                Passed::Register(register) => {
                    let a = self.source(argument, register.ty)?;
                    self.copy_register(register.slot, a, register.ty);
                }
                Passed::Local { address, bytes } => {
                    let from = self.local_address(argument)?;
                    self.emit(Op::CopyLocal { from, to: address, bytes }, Class::Move, 0, Shadow::Bytes);
                }
            }
        }
        self.emit(Op::Call { target: placed.label }, Class::Control, 0, Shadow::Spread);
        for (result, passed) in returns.iter().zip(&placed.returns) {
            match *passed {
                Passed::Register(register) => {
                    let d = self.destination(result)?;
                    self.copy_register(d.slot, register.slot, register.ty);
                }
                Passed::Local { address, bytes } => {
                    let to = self.local_address(result)?;
                    self.emit(Op::CopyLocal { from: address, to, bytes }, Class::Move, 0, Shadow::Bytes);
                }
            }
        }
        Ok(())
    }

    pub(super) fn copy_register(&mut self, d: Slot, a: Slot, ty: Ty) {
        let f: crate::exec::alu::F1 = |a, d| *d = *a;
        self.emit(Op::Map1 { f, d, a }, Class::Move, ty.bytes(), Shadow::Bytes);
    }

    pub(super) fn local_address(&mut self, operand: &Operand<'s>) -> Result<u32, PtxError> {
        match operand {
            Operand::Name(name, None) => match self.lookup(name) {
                Some(Symbol::Variable { space: Space::Local, address, .. }) => Ok(address as u32),
                _ => self.fail(format!("`{name}` is not a `.param` variable")),
            },
            _ => self.fail("expected a `.param` variable"),
        }
    }
}
