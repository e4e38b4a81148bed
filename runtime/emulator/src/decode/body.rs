//! Decoding of bodies: scopes, registers, labels, operands and calls.

use std::{collections::HashMap, sync::Arc};

use super::{
    Kernel, Param, error,
    inst::{Address, Class, Inst, NONE, Op, Place, Slot, Special},
    layout::{self, Layout},
    source_files,
    types::Ty,
};
use crate::{
    exec::alu::Shadow,
    memory::MAX_SHARED_BYTES,
    ptx::{
        Pos, PtxError,
        ast::{Function, Instruction, Module, Operand, Space, Statement, Variable},
    },
};

/// The most registers of a kernel, constants included.
const MAX_SLOTS: u64 = 1 << 16;
/// Parameters of a kernel may take this many bytes.
const MAX_PARAM_BYTES: u64 = 32764;
/// The most local memory of a thread.
const MAX_LOCAL_BYTES: u64 = 512 << 10;

/// A register.
#[derive(Clone, Copy, Debug)]
pub(super) struct Register {
    pub slot: Slot,
    pub ty: Ty,
}

/// What a name means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Symbol {
    Register(Register),
    Variable {
        space: Space,
        address: u64,
        dynamic: bool,
    },
    /// A parameter of the kernel.
    Param(u32),
    /// An index into the label table.
    Label(u32),
}

/// Registers declared as a range: `%r<5>`.
struct Range<'s> {
    prefix: &'s str,
    count: u64,
    first: Slot,
    ty: Ty,
}

#[derive(Default)]
struct Scope<'s> {
    names: HashMap<String, Symbol>,
    ranges: Vec<Range<'s>>,
}

/// A function whose code is placed once per kernel.
#[derive(Clone)]
struct Placed {
    /// The label of its first instruction.
    label: u32,
    params: Vec<Passed>,
    returns: Vec<Passed>,
}

/// How a parameter is passed.
#[derive(Clone, Copy)]
enum Passed {
    Register(Register),
    Local { address: u32, bytes: u32 },
}

pub(super) struct Decoder<'m, 's> {
    pub file: &'m str,
    functions: &'m HashMap<&'m str, &'m Function<'s>>,
    layout: &'m Layout,
    pub code: Vec<Inst>,
    places: Vec<Place>,
    pub slots: u64,
    constants: HashMap<u64, Slot>,
    specials: Vec<(Slot, Special)>,
    scopes: Vec<Scope<'s>>,
    /// Instruction index of each label.
    labels: Vec<Option<u32>>,
    label_names: Vec<(Pos, String)>,
    /// Address slots of dynamic shared memory, patched at the end.
    dynamic: Vec<(Slot, i64)>,
    shared: u64,
    local: u64,
    placed: HashMap<&'m str, Placed>,
    pending: Vec<&'m str>,
    calls: HashMap<&'m str, Vec<&'m str>>,
    current: &'m str,
    in_entry: bool,
    loc: Option<(u32, u32)>,
    file_indices: HashMap<u32, u32>,
    pub carry: Slot,
    pub communicates: bool,
    declared: u64,
    pub target: u32,
    /// The guard of the instruction being decoded.
    guard: (Slot, bool),
    pub pos: Pos,
    branch_targets: HashMap<String, Vec<&'s str>>,
    /// How often a name stands in the operands of the function being decoded.
    uses: HashMap<&'s str, u32>,
}

/// Decodes one kernel with everything it calls.
pub(super) fn decode<'m, 's>(
    file: &'m str,
    source: &Arc<str>,
    module: &'m Module<'s>,
    layout: &'m Layout,
    functions: &'m HashMap<&'m str, &'m Function<'s>>,
    entry: &'m Function<'s>,
) -> Result<Kernel, PtxError> {
    let (files, file_indices) = source_files(module);
    let mut decoder = Decoder {
        file,
        functions,
        layout,
        code: Vec::new(),
        places: Vec::new(),
        slots: 0,
        constants: HashMap::new(),
        specials: Vec::new(),
        scopes: vec![Scope::default()],
        labels: Vec::new(),
        label_names: Vec::new(),
        dynamic: Vec::new(),
        shared: layout.shared,
        local: 0,
        placed: HashMap::new(),
        pending: Vec::new(),
        calls: HashMap::new(),
        current: entry.name,
        in_entry: true,
        loc: None,
        file_indices,
        carry: NONE,
        communicates: false,
        declared: 0,
        target: module.target,
        guard: (NONE, false),
        pos: entry.pos,
        branch_targets: HashMap::new(),
        uses: HashMap::new(),
    };
    let (params, param_bytes) = decoder.entry_params(entry)?;
    decoder.function_body(entry)?;
    decoder.in_entry = false;
    while let Some(name) = decoder.pending.pop() {
        decoder.placed_body(name)?;
    }
    decoder.reject_recursion(entry)?;
    decoder.finish(module.target, source, files, entry, params, param_bytes)
}

impl<'m, 's> Decoder<'m, 's> {
    pub fn fail<T>(&self, message: impl Into<String>) -> Result<T, PtxError> {
        error(self.file, self.pos, message)
    }

    fn entry_params(&mut self, entry: &Function<'s>) -> Result<(Vec<Param>, u32), PtxError> {
        let mut params = Vec::new();
        let mut used = 0;
        for variable in &entry.params {
            let (bytes, align) = layout::extent(self.file, variable)?;
            let offset = match layout::place(&mut used, bytes, align) {
                Some(offset) if used <= MAX_PARAM_BYTES => offset as u32,
                _ => return error(self.file, variable.pos, "the parameters take more than 32764 bytes"),
            };
            self.pos = variable.pos;
            self.define(variable.name, Symbol::Param(offset))?;
            params.push(Param {
                name: variable.name.to_owned(),
                ty: variable.ty.to_owned(),
                offset,
                bytes: bytes as u32,
            });
        }
        Ok((params, used as u32))
    }

    fn define(&mut self, name: &str, symbol: Symbol) -> Result<(), PtxError> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match scope.names.insert(name.to_owned(), symbol) {
            None => Ok(()),
            Some(_) => self.fail(format!("`{name}` is declared twice")),
        }
    }

    fn new_slots(&mut self, count: u64) -> Result<Slot, PtxError> {
        let first = self.slots;
        self.slots = first.saturating_add(count);
        if self.slots > MAX_SLOTS {
            return self.fail(format!("the kernel has more than {MAX_SLOTS} registers"));
        }
        Ok(first as Slot)
    }

    /// The slot that holds a constant.
    pub fn constant(&mut self, value: u64) -> Result<Slot, PtxError> {
        if let Some(slot) = self.constants.get(&value) {
            return Ok(*slot);
        }
        let slot = self.new_slots(1)?;
        self.constants.insert(value, slot);
        Ok(slot)
    }

    /// The slot that holds a special register.
    pub fn special(&mut self, special: Special) -> Result<Slot, PtxError> {
        if let Some((slot, _)) = self.specials.iter().find(|(_, known)| *known == special) {
            return Ok(*slot);
        }
        let slot = self.new_slots(1)?;
        self.specials.push((slot, special));
        Ok(slot)
    }

    /// The slot of the carry flag.
    pub fn carry_flag(&mut self) -> Result<Slot, PtxError> {
        if self.carry == NONE {
            self.carry = self.new_slots(1)?;
        }
        Ok(self.carry)
    }

    fn declare_registers(&mut self, variable: &Variable<'s>) -> Result<(), PtxError> {
        let Some(ty) = Ty::parse(variable.ty) else {
            return error(
                self.file,
                variable.pos,
                format!("registers of type `.{}` are not supported", variable.ty),
            );
        };
        self.pos = variable.pos;
        if ty == Ty::B128 {
            return self.fail("registers of type `.b128` are not supported");
        }
        let count = variable.range.unwrap_or(1);
        let first = self.new_slots(count.saturating_mul(variable.vector.into()))?;
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

    fn declare(&mut self, variable: &Variable<'s>) -> Result<(), PtxError> {
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
                let dynamic = variable.external && space == Space::Shared;
                self.define(variable.name, Symbol::Variable { space, address, dynamic })
            }
            _ => self.fail(format!("`{}` does not fit: the space has {limit} bytes", variable.name)),
        }
    }

    fn block(&mut self, statements: &[Statement<'s>]) -> Result<(), PtxError> {
        self.scopes.push(Scope::default());
        for statement in statements {
            if let Statement::Label(pos, name) = statement {
                let label = self.labels.len() as u32;
                self.labels.push(None);
                self.label_names.push((*pos, (*name).to_owned()));
                self.pos = *pos;
                self.define(name, Symbol::Label(label))?;
            }
        }
        let mut last_label = None;
        for statement in statements {
            match statement {
                Statement::Variable(variable) => self.declare(variable)?,
                Statement::Label(_, name) => {
                    last_label = Some(*name);
                    if let Some(Symbol::Label(label)) = self.lookup(name) {
                        self.labels[label as usize] = Some(self.code.len() as u32);
                    }
                }
                Statement::BranchTargets(targets) => {
                    if let Some(name) = last_label {
                        self.branch_targets.insert(name.to_owned(), targets.clone());
                    }
                }
                Statement::Loc(file, line) => {
                    self.loc = self.file_indices.get(file).map(|at| (*at, *line));
                }
                Statement::Block(inner) => self.block(inner)?,
                Statement::Instruction(instruction) => self.instruction(instruction)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn function_body(&mut self, function: &'m Function<'s>) -> Result<(), PtxError> {
        self.current = function.name;
        self.loc = None;
        self.branch_targets.clear();
        // Tables of targets may stand after the branch: collect them first.
        if let Some(body) = &function.body {
            self.uses.clear();
            count_uses(body, &mut self.uses);
            self.collect_targets(body);
            self.block(body)?;
        }
        self.guard = (NONE, false);
        let end = if function.entry { Op::Exit } else { Op::Return };
        self.emit(end, Class::Control, 0, Shadow::Spread);
        Ok(())
    }

    fn collect_targets(&mut self, body: &[Statement<'s>]) {
        let mut label = None;
        for statement in body {
            match statement {
                Statement::Label(_, name) => label = Some(*name),
                Statement::BranchTargets(targets) => {
                    if let Some(label) = label {
                        self.branch_targets.insert(label.to_owned(), targets.clone());
                    }
                }
                Statement::Block(inner) => self.collect_targets(inner),
                _ => {}
            }
        }
    }

    fn reject_recursion(&self, entry: &Function<'s>) -> Result<(), PtxError> {
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

    fn finish(
        mut self,
        target: u32,
        source: &Arc<str>,
        files: Vec<String>,
        entry: &Function<'s>,
        params: Vec<Param>,
        param_bytes: u32,
    ) -> Result<Kernel, PtxError> {
        let mut code = std::mem::take(&mut self.code);
        let resolve = |label: u32| match self.labels.get(label as usize).copied().flatten() {
            Some(target) => Ok(target),
            None => {
                let (pos, name) = self.label_names.get(label as usize).cloned().unwrap_or_default();
                error(self.file, pos, format!("the label `{name}` is never placed"))
            }
        };
        for inst in &mut code {
            match &mut inst.op {
                Op::Branch { target } | Op::Call { target } => *target = resolve(*target)?,
                Op::BranchTable { targets, .. } => {
                    for target in targets.iter_mut() {
                        *target = resolve(*target)?;
                    }
                }
                _ => {}
            }
        }
        let mut constants: Vec<(Slot, u64)> =
            self.constants.iter().map(|(value, slot)| (*slot, *value)).collect();
        let dynamic_base = self.shared.next_multiple_of(16);
        for (slot, offset) in &self.dynamic {
            constants.push((*slot, dynamic_base.wrapping_add_signed(*offset)));
        }
        constants.sort_unstable();
        let mut first_of_line: HashMap<(u32, u32), u32> = HashMap::new();
        let place_ids = self
            .places
            .iter()
            .enumerate()
            .map(|(pc, place)| match place.loc {
                // Line 0 is code that no line stands for.
                Some((file, line)) if line > 0 => *first_of_line.entry((file, line)).or_insert(pc as u32),
                _ => pc as u32,
            })
            .collect();
        Ok(Kernel {
            place_ids,
            name: entry.name.to_owned(),
            target,
            code,
            places: self.places,
            slots: self.slots as u32,
            constants,
            specials: self.specials,
            params,
            param_bytes,
            shared_bytes: self.shared,
            local_bytes: self.local as u32,
            max_threads: entry.max_threads,
            required_threads: entry.required_threads,
            max_registers: entry.max_registers,
            declared_registers: self.declared,
            communicates: self.communicates,
            source: source.clone(),
            file: self.file.to_owned(),
            files,
        })
    }

    pub fn emit(&mut self, op: Op, class: Class, width: u8, shadow: Shadow) {
        let (guard, guard_not) = self.guard;
        self.code.push(Inst { op, guard, guard_not, width, shadow });
        self.places.push(Place { pos: self.pos, loc: self.loc, class });
    }

    pub fn lookup(&self, name: &str) -> Option<Symbol> {
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
                        slot: range.first + index as Slot,
                        ty: range.ty,
                    }));
                }
            }
        }
        let placed = self.layout.variables.get(name)?;
        Some(Symbol::Variable { space: placed.space, address: placed.address, dynamic: placed.dynamic })
    }

    pub fn register(&self, name: &str) -> Result<Register, PtxError> {
        match self.lookup(name) {
            Some(Symbol::Register(register)) => Ok(register),
            Some(_) => self.fail(format!("`{name}` is not a register")),
            None => self.fail(format!("`{name}` is not declared")),
        }
    }

    /// The slot of a destination; `_` is [`NONE`].
    pub fn destination(&mut self, operand: &Operand<'s>) -> Result<Register, PtxError> {
        match operand {
            Operand::Name("_", None) => Ok(Register { slot: NONE, ty: Ty::B64 }),
            Operand::Name(name, None) => self.register(name),
            Operand::Name(name, Some(component)) => self.register(&format!("{name}.{component}")),
            _ => self.fail("the destination must be a register"),
        }
    }

    /// The slot of an address constant, made for this offset.
    fn variable_address(&mut self, address: u64, dynamic: bool, offset: i64) -> Result<Slot, PtxError> {
        if dynamic {
            let slot = self.new_slots(1)?;
            self.dynamic.push((slot, offset));
            return Ok(slot);
        }
        self.constant(address.wrapping_add_signed(offset))
    }

    /// The slot of a source operand read at type `ty`.
    pub fn source(&mut self, operand: &Operand<'s>, ty: Ty) -> Result<Slot, PtxError> {
        let mask = match ty.bytes() {
            _ if ty == Ty::Pred => 1,
            1 => 0xff,
            2 => 0xffff,
            4 => 0xffff_ffff,
            _ => u64::MAX,
        };
        match operand {
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
                        Symbol::Variable { address, dynamic, .. } => {
                            self.variable_address(address, dynamic, 0)
                        }
                        Symbol::Param(offset) => self.constant(offset.into()),
                        Symbol::Label(_) => self.fail(format!("the label `{name}` is not a value")),
                    };
                }
                match special_named(name) {
                    Some(special) => self.special(special),
                    None => self.fail(format!("`{name}` is not declared")),
                }
            }
            Operand::Offset(name, offset) => match self.lookup(name) {
                Some(Symbol::Variable { address, dynamic, .. }) => {
                    self.variable_address(address, dynamic, *offset)
                }
                Some(Symbol::Param(start)) => self.constant(u64::from(start).wrapping_add_signed(*offset)),
                _ => self.fail(format!("`{name}` is not a variable")),
            },
            _ => self.fail("this operand is not a value"),
        }
    }

    /// A predicate operand and whether it is negated.
    pub fn predicate(&mut self, operand: &Operand<'s>) -> Result<(Slot, bool), PtxError> {
        match operand {
            Operand::Not(name) => Ok((self.register(name)?.slot, true)),
            Operand::Name(name, None) => Ok((self.register(name)?.slot, false)),
            Operand::Int(value) => Ok((self.constant(u64::from(*value != 0))?, false)),
            _ => self.fail("expected a predicate"),
        }
    }

    /// An address operand, with the space of the variable that it names.
    pub fn address(&mut self, operand: &Operand<'s>) -> Result<(Address, Option<Symbol>), PtxError> {
        let Operand::Address(base, offset) = operand else {
            return self.fail("expected an address in brackets");
        };
        let Some(name) = base else {
            let base = self.constant(*offset as u64)?;
            return Ok((Address { base, offset: 0 }, None));
        };
        match self.lookup(name) {
            Some(Symbol::Register(register)) => Ok((Address { base: register.slot, offset: *offset }, None)),
            Some(symbol @ Symbol::Variable { address, dynamic, .. }) => {
                let base = self.variable_address(address, dynamic, *offset)?;
                Ok((Address { base, offset: 0 }, Some(symbol)))
            }
            Some(symbol @ Symbol::Param(start)) => {
                let base = self.constant(u64::from(start).wrapping_add_signed(*offset))?;
                Ok((Address { base, offset: 0 }, Some(symbol)))
            }
            _ => self.fail(format!("`{name}` is not declared")),
        }
    }

    /// Whether a register stands in one operand only: written and never read.
    pub fn used_once(&self, name: &str) -> bool {
        self.uses.get(name) == Some(&1)
    }

    /// Whether the code being decoded is the kernel's own, where `ld.param`
    /// reads the kernel's parameters.
    pub fn in_entry(&self) -> bool {
        self.in_entry
    }

    fn instruction(&mut self, instruction: &Instruction<'s>) -> Result<(), PtxError> {
        self.pos = instruction.pos;
        self.guard = match instruction.guard {
            None => (NONE, false),
            Some((name, negated)) => {
                let register = self.register(name)?;
                if register.ty != Ty::Pred {
                    return self.fail(format!("the guard `{name}` is not a predicate"));
                }
                (register.slot, negated)
            }
        };
        self.select(instruction)
    }

    /// The label of a branch target.
    pub fn label(&self, operand: &Operand<'s>) -> Result<u32, PtxError> {
        match operand {
            Operand::Name(name, None) => self.label_named(name),
            _ => self.fail("expected a label"),
        }
    }

    fn label_named(&self, name: &str) -> Result<u32, PtxError> {
        match self.lookup(name) {
            Some(Symbol::Label(label)) => Ok(label),
            _ => self.fail(format!("there is no label `{name}`")),
        }
    }

    /// The labels of a `.branchtargets` table.
    pub fn table(&self, operand: &Operand<'s>) -> Result<Box<[u32]>, PtxError> {
        let Operand::Name(name, None) = operand else { return self.fail("expected a table of labels") };
        let Some(targets) = self.branch_targets.get(*name) else {
            return self.fail(format!("`{name}` is not a table of branch targets"));
        };
        targets.iter().map(|target| self.label_named(target)).collect()
    }

    fn place_function(&mut self, name: &str) -> Result<Placed, PtxError> {
        let Some((key, function)) = self.functions.get_key_value(name) else {
            return self.fail(format!("the function `{name}` is not declared"));
        };
        let (key, function): (&'m str, &'m Function<'s>) = (key, function);
        self.calls.entry(self.current).or_default().push(key);
        if let Some(placed) = self.placed.get(key) {
            return Ok(placed.clone());
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

    fn passed(&mut self, variables: &[Variable<'s>]) -> Result<Vec<Passed>, PtxError> {
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

    fn placed_body(&mut self, name: &'m str) -> Result<(), PtxError> {
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
    pub fn call(&mut self, operands: &[Operand<'s>]) -> Result<(), PtxError> {
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

    fn copy_register(&mut self, d: Slot, a: Slot, ty: Ty) {
        let f: crate::exec::alu::F1 = |a, d| *d = *a;
        self.emit(Op::Map1 { f, d, a }, Class::Move, ty.bytes(), Shadow::Bytes);
    }

    fn local_address(&mut self, operand: &Operand<'s>) -> Result<u32, PtxError> {
        match operand {
            Operand::Name(name, None) => match self.lookup(name) {
                Some(Symbol::Variable { space: Space::Local, address, .. }) => Ok(address as u32),
                _ => self.fail(format!("`{name}` is not a `.param` variable")),
            },
            _ => self.fail("expected a `.param` variable"),
        }
    }
}

/// Counts the names in the operands and guards of a body.
fn count_uses<'s>(body: &[Statement<'s>], uses: &mut HashMap<&'s str, u32>) {
    fn operand<'s>(operand_: &Operand<'s>, uses: &mut HashMap<&'s str, u32>) {
        match operand_ {
            Operand::Name(name, _) | Operand::Offset(name, _) | Operand::Not(name) => {
                *uses.entry(name).or_default() += 1;
            }
            Operand::Address(Some(name), _) => *uses.entry(name).or_default() += 1,
            Operand::Vector(items) | Operand::List(items) => {
                items.iter().for_each(|item| operand(item, uses))
            }
            Operand::Pair(a, b) => {
                operand(a, uses);
                operand(b, uses);
            }
            _ => {}
        }
    }
    for statement in body {
        match statement {
            Statement::Block(inner) => count_uses(inner, uses),
            Statement::Instruction(instruction) => {
                if let Some((guard, _)) = instruction.guard {
                    *uses.entry(guard).or_default() += 1;
                }
                instruction.operands.iter().for_each(|item| operand(item, uses));
            }
            _ => {}
        }
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
    Some(match name {
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::WarpCount,
        "%smid" => Special::SmId,
        "%nsmid" => Special::SmCount,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::LaneMaskEq,
        "%lanemask_lt" => Special::LaneMaskLt,
        "%lanemask_le" => Special::LaneMaskLe,
        "%lanemask_gt" => Special::LaneMaskGt,
        "%lanemask_ge" => Special::LaneMaskGe,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::TotalSharedBytes,
        "%cluster_ctarank" => Special::ClusterZero,
        "%cluster_nctarank" => Special::ClusterOne,
        "WARP_SZ" => Special::WarpSize,
        _ => return None,
    })
}
