//! Calls: functions are placed once a kernel, their parameters are registers or
//! local memory of the thread.

use super::{
    body::{Decoder, FrameLayout, MAX_LOCAL_BYTES, Passed, Placed, Register, Scope, Symbol},
    inst::{Address, Class, Frame, FramedCall, NONE, Op, Print, Slot, Special},
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
    /// Where a framed function finds its parameters and leaves its results.
    pub(super) fn frame_layout(
        &self,
        params: &[Variable<'s>],
        returns: &[Variable<'s>],
    ) -> Result<FrameLayout, PtxError> {
        let mut frame = FrameLayout::default();
        for (variables, places) in [(params, &mut frame.params), (returns, &mut frame.returns)] {
            for variable in variables {
                if variable.space == Space::Reg {
                    return self.fail("functions that recur or are called through registers pass `.param`s");
                }
                let (bytes, align) = layout::extent(self.file, variable)?;
                match layout::place(&mut frame.bytes, bytes, align) {
                    Some(offset) if frame.bytes <= MAX_LOCAL_BYTES => {
                        places.push((offset as u32, bytes as u32))
                    }
                    _ => return self.fail("the parameters do not fit local memory"),
                }
            }
        }
        Ok(frame)
    }

    /// The slots of the frame pointer and of the stack pointer.
    fn stack(&mut self) -> Result<[Slot; 2], PtxError> {
        if self.stack_slots[0] == NONE {
            self.stack_slots = [self.special(Special::FramePointer)?, self.special(Special::StackPointer)?];
        }
        Ok(self.stack_slots)
    }

    /// The slot with the address of a place in the frame.
    pub(super) fn frame_address(&mut self, offset: u64) -> Result<Slot, PtxError> {
        let [a, _] = self.stack()?;
        let b = self.constant(offset)?;
        let d = self.new_slots(1)?;
        let f: crate::exec::alu::F2 = |a, b, d| {
            for ((d, a), b) in d.iter_mut().zip(a).zip(b) {
                *d = a.wrapping_add(*b);
            }
        };
        self.emit(Op::Map2 { f, d, a, b }, Class::Integer, 8, Shadow::Spread);
        Ok(d)
    }

    /// A place in the frame as an address.
    pub(super) fn in_frame(&mut self, offset: u64) -> Result<Address, PtxError> {
        let [base, _] = self.stack()?;
        Ok(Address { base, offset: offset as i64 })
    }

    /// The index of a framed function, to be decoded if it was not yet.
    fn framed_function(&mut self, name: &str) -> Result<u32, PtxError> {
        if let Some(index) = self.frames.iter().position(|(known, ..)| *known == name) {
            return Ok(index as u32);
        }
        let Some((key, function)) = self.functions.get_key_value(name) else {
            return self.fail(format!("the function `{name}` is not declared"));
        };
        let (key, function): (&'m str, &'m Function<'s>) = (key, function);
        self.usable(function)?;
        self.stack()?;
        let label = self.labels.len() as u32;
        self.labels.push(None);
        self.label_names.push((function.pos, name.to_owned()));
        let frame = self.frame_layout(&function.params, &function.returns)?;
        self.frames.push((key, label, frame, Frame::default()));
        self.pending.push(key);
        Ok(self.frames.len() as u32 - 1)
    }

    /// Fails unless a function has a body that could be read.
    fn usable(&self, function: &Function<'s>) -> Result<(), PtxError> {
        match (&function.broken, &function.body) {
            (Some(error), _) => Err(error.clone()),
            (_, None) => self.fail(format!("the function `{}` has no body in this module", function.name)),
            _ => Ok(()),
        }
    }

    fn framed_body(&mut self, index: usize, function: &'m Function<'s>) -> Result<(), PtxError> {
        let Some((_, label, layout, _)) = self.frames.get(index).cloned() else { return Ok(()) };
        self.labels[label as usize] = Some(self.code.len() as u32);
        self.scopes.truncate(1);
        self.scopes.push(Scope::default());
        let variables = function.params.iter().chain(&function.returns);
        for (variable, (offset, _)) in variables.zip(layout.params.iter().chain(&layout.returns)) {
            let address = u64::from(*offset);
            self.define(variable.name, Symbol::Variable { space: Space::Local, address, dynamic: true })?;
        }
        let outside = std::mem::replace(&mut self.local, layout.bytes);
        self.framed = true;
        let first = self.slots;
        self.function_body(function)?;
        self.framed = false;
        self.scopes.pop();
        let bytes = std::mem::replace(&mut self.local, outside).next_multiple_of(16);
        if let Some((.., frame)) = self.frames.get_mut(index) {
            let slots = (self.slots - first) as u32;
            *frame = Frame { bytes: bytes as u32, first: first as Slot, slots, ..Frame::default() };
        }
        Ok(())
    }

    /// A call of a framed function, or through a register.
    fn call_framed(
        &mut self,
        target: Result<u32, Slot>,
        layout: &FrameLayout,
        arguments: &[Operand<'s>],
        returns: &[Operand<'s>],
    ) -> Result<(), PtxError> {
        if layout.params.len() != arguments.len() || layout.returns.len() != returns.len() {
            return self.fail(format!(
                "the function takes {} arguments and returns {}, the call has {} and {}",
                layout.params.len(),
                layout.returns.len(),
                arguments.len(),
                returns.len()
            ));
        }
        let mut places = |operands: &[Operand<'s>], places: &[(u32, u32)]| {
            let paired = operands.iter().zip(places);
            paired
                .map(|(operand, (offset, bytes))| Ok((self.local_address(operand)?, *offset, *bytes)))
                .collect::<Result<Box<[_]>, PtxError>>()
        };
        let arguments = places(arguments, &layout.params)?;
        let results = places(returns, &layout.returns)?;
        let call = FramedCall { target, arguments, results };
        self.emit(Op::CallFramed(Box::new(call)), Class::Control, 0, Shadow::Spread);
        Ok(())
    }

    /// `call (results), %address, (arguments), prototype;`
    fn call_through(
        &mut self,
        slot: Slot,
        tail: &[Operand<'s>],
        returns: &[Operand<'s>],
    ) -> Result<(), PtxError> {
        let (arguments, prototype): (&[Operand<'s>], _) = match tail {
            [Operand::List(list), Operand::Name(name, None)] => (list, *name),
            [Operand::Name(name, None)] => (&[], *name),
            _ => return self.fail("a call through a register needs a prototype or its targets"),
        };
        let layout = match (self.prototypes.get(prototype), self.call_targets.get(prototype).copied()) {
            (Some(layout), _) => layout.clone(),
            (None, Some(first)) => match self.functions.get(first).copied() {
                Some(function) => self.frame_layout(&function.params, &function.returns)?,
                None => return self.fail(format!("the function `{first}` is not declared")),
            },
            _ => return self.fail(format!("there is no prototype `{prototype}`")),
        };
        // Any function whose address is taken may be the one.
        for name in &self.layout.functions.taken {
            if self.functions.get(name.as_str()).is_some_and(|function| function.body.is_some()) {
                self.framed_function(name)?;
            }
        }
        self.stack()?;
        self.call_framed(Err(slot), &layout, arguments, returns)
    }

    pub(super) fn place_function(&mut self, name: &str) -> Result<Placed, PtxError> {
        let Some((key, function)) = self.functions.get_key_value(name) else {
            return self.fail(format!("the function `{name}` is not declared"));
        };
        let (key, function): (&'m str, &'m Function<'s>) = (key, function);
        if let Some(placed) = self.placed.get(key) {
            return Ok(placed.clone());
        }
        self.usable(function)?;
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
        if let Some(index) = self.frames.iter().position(|(known, ..)| *known == name) {
            return match self.functions.get(name).copied() {
                Some(function) => self.framed_body(index, function),
                None => Ok(()),
            };
        }
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
        if let Some(Symbol::Register(register)) = self.lookup(name) {
            return self.call_through(register.slot, tail, returns);
        }
        let arguments: &[Operand<'s>] = match tail {
            [] => &[],
            [Operand::List(list)] => list,
            _ => return self.fail("expected the arguments of the call"),
        };
        let defined = self.functions.get(name).is_some_and(|function| function.body.is_some());
        if *name == "vprintf" && !defined {
            let [format, values] = arguments else { return self.fail("`vprintf` takes two arguments") };
            let print = Print {
                format: self.local_address(format)?,
                arguments: self.local_address(values)?,
                result: returns.first().map(|result| self.local_address(result)).transpose()?,
            };
            self.emit(Op::Print(Box::new(print)), Class::Other, 0, Shadow::Spread);
            return Ok(());
        }
        if *name == "__assertfail" {
            let message = match arguments.first() {
                Some(Operand::Name(param, None)) => match self.lookup(param) {
                    Some(Symbol::Variable { address, dynamic: true, .. }) => self.frame_address(address)?,
                    Some(Symbol::Variable { address, .. }) => self.constant(address)?,
                    _ => NONE,
                },
                _ => NONE,
            };
            self.emit(Op::Assert { message }, Class::Control, 0, Shadow::Spread);
            return Ok(());
        }
        if self.layout.functions.framed.contains(*name) {
            let index = self.framed_function(name)?;
            let layout = self.frames.get(index as usize).map(|(_, _, layout, _)| layout.clone());
            return self.call_framed(Ok(index), &layout.unwrap_or_default(), arguments, returns);
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
                    let to = Address { base: NONE, offset: address.into() };
                    self.emit(Op::CopyLocal { from, to, bytes }, Class::Move, 0, Shadow::Bytes);
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
                    let from = Address { base: NONE, offset: address.into() };
                    self.emit(Op::CopyLocal { from, to, bytes }, Class::Move, 0, Shadow::Bytes);
                }
            }
        }
        Ok(())
    }

    pub(super) fn copy_register(&mut self, d: Slot, a: Slot, ty: Ty) {
        let f: crate::exec::alu::F1 = |a, d| *d = *a;
        self.emit(Op::Map1 { f, d, a }, Class::Move, ty.bytes(), Shadow::Bytes);
    }

    pub(super) fn local_address(&mut self, operand: &Operand<'s>) -> Result<Address, PtxError> {
        match operand {
            Operand::Name(name, None) => match self.lookup(name) {
                Some(Symbol::Variable { space: Space::Local, address, dynamic: true }) => {
                    self.in_frame(address)
                }
                Some(Symbol::Variable { space: Space::Local, address, .. }) => {
                    Ok(Address { base: NONE, offset: address as i64 })
                }
                _ => self.fail(format!("`{name}` is not a `.param` variable")),
            },
            _ => self.fail("expected a `.param` variable"),
        }
    }
}
