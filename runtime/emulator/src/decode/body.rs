//! Decoding of bodies: scopes, registers, labels, operands and calls.

use std::{collections::HashMap, sync::Arc};

use super::{
    Kernel, Param, error,
    inst::{Class, Frame, Inst, NONE, Op, Place, Slot, Special},
    layout::{self, Layout},
    source_files,
    types::Ty,
};
use crate::{
    exec::alu::Shadow,
    ptx::{
        Pos, PtxError,
        ast::{Function, Instruction, Module, Operand, Site, Space, Statement},
    },
};

/// The most registers of a kernel, constants included.
const MAX_SLOTS: u64 = 1 << 16;
/// Parameters of a kernel may take this many bytes.
const MAX_PARAM_BYTES: u64 = 32764;
/// The stack of a thread, where functions need one.
const STACK_BYTES: u64 = 16 << 10;
/// The most local memory of a thread.
pub(super) const MAX_LOCAL_BYTES: u64 = 512 << 10;

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
pub(super) struct Range<'s> {
    pub(super) prefix: &'s str,
    pub(super) count: u64,
    pub(super) first: Slot,
    pub(super) ty: Ty,
}

#[derive(Default)]
pub(super) struct Scope<'s> {
    pub(super) names: HashMap<String, Symbol>,
    pub(super) ranges: Vec<Range<'s>>,
}

/// A function whose code is placed once per kernel.
#[derive(Clone)]
pub(super) struct Placed {
    /// The label of its first instruction.
    pub(super) label: u32,
    pub(super) params: Vec<Passed>,
    pub(super) returns: Vec<Passed>,
}

/// How a parameter is passed.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    Register(Register),
    Local { address: u32, bytes: u32 },
}

/// Where the parameters and results of a framed function lie: offset and bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameLayout {
    pub(super) params: Vec<(u32, u32)>,
    pub(super) returns: Vec<(u32, u32)>,
    pub(super) bytes: u64,
}

pub(super) struct Decoder<'m, 's> {
    pub(super) file: &'m str,
    pub(super) functions: &'m HashMap<&'m str, &'m Function<'s>>,
    pub(super) layout: &'m Layout,
    pub(super) code: Vec<Inst>,
    pub(super) places: Vec<Place>,
    pub(super) slots: u64,
    pub(super) constants: HashMap<u64, Slot>,
    pub(super) specials: Vec<(Slot, Special)>,
    pub(super) scopes: Vec<Scope<'s>>,
    /// Instruction index of each label.
    pub(super) labels: Vec<Option<u32>>,
    pub(super) label_names: Vec<(Pos, String)>,
    /// Address slots of dynamic shared memory, patched at the end.
    pub(super) dynamic: Vec<(Slot, i64)>,
    pub(super) shared: u64,
    /// Where the shared memory set aside for libraries begins, once it is asked for.
    pub(super) reserved: Option<u64>,
    pub(super) local: u64,
    pub(super) placed: HashMap<&'m str, Placed>,
    pub(super) pending: Vec<&'m str>,
    /// Framed functions in the order of [`Kernel::frames`], with their first label.
    pub(super) frames: Vec<(&'m str, u32, FrameLayout, Frame)>,
    /// The frame and stack pointers, once they are needed.
    pub(super) stack_slots: [Slot; 2],
    /// Whether the function being decoded is framed.
    pub(super) framed: bool,
    /// `.callprototype`s and `.calltargets` of the function being decoded.
    pub(super) prototypes: HashMap<String, FrameLayout>,
    pub(super) call_targets: HashMap<String, &'s str>,
    pub(super) in_entry: bool,
    pub(super) loc: Option<(u32, u32)>,
    pub(super) chain: u32,
    pub(super) chains: Vec<Vec<(u32, u32)>>,
    /// Where code at a place of the function being decoded was inlined.
    pub(super) sites: HashMap<Site, Site>,
    pub(super) file_indices: HashMap<u32, u32>,
    pub(super) carry: Slot,
    pub(super) communicates: bool,
    pub(super) noncoherent: bool,
    pub(super) declared: u64,
    pub(super) target: u32,
    /// The guard of the instruction being decoded.
    pub(super) guard: (Slot, bool),
    pub(super) pos: Pos,
    pub(super) branch_targets: HashMap<String, Vec<&'s str>>,
    /// How often a name stands in the operands of the function being decoded.
    pub(super) uses: HashMap<&'s str, u32>,
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
        reserved: None,
        local: 0,
        placed: HashMap::new(),
        pending: Vec::new(),
        frames: Vec::new(),
        stack_slots: [NONE; 2],
        framed: false,
        prototypes: HashMap::new(),
        call_targets: HashMap::new(),
        in_entry: true,
        loc: None,
        chain: 0,
        chains: vec![Vec::new()],
        sites: HashMap::new(),
        file_indices,
        carry: NONE,
        communicates: false,
        noncoherent: false,
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
    decoder.finish(module.target, source, files, entry, params, param_bytes)
}

impl<'m, 's> Decoder<'m, 's> {
    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Result<T, PtxError> {
        error(self.file, self.pos, message)
    }

    pub(super) fn entry_params(&mut self, entry: &Function<'s>) -> Result<(Vec<Param>, u32), PtxError> {
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

    pub(super) fn define(&mut self, name: &str, symbol: Symbol) -> Result<(), PtxError> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        match scope.names.insert(name.to_owned(), symbol) {
            None => Ok(()),
            Some(_) => self.fail(format!("`{name}` is declared twice")),
        }
    }

    pub(super) fn new_slots(&mut self, count: u64) -> Result<Slot, PtxError> {
        let first = self.slots;
        self.slots = first.saturating_add(count);
        if self.slots > MAX_SLOTS {
            return self.fail(format!("the kernel has more than {MAX_SLOTS} registers"));
        }
        Ok(first as Slot)
    }

    /// The slot of the carry flag.
    pub(super) fn carry_flag(&mut self) -> Result<Slot, PtxError> {
        if self.carry == NONE {
            self.carry = self.new_slots(1)?;
        }
        Ok(self.carry)
    }

    pub(super) fn block(&mut self, statements: &[Statement<'s>]) -> Result<(), PtxError> {
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
                Statement::Prototype(..) | Statement::CallTargets(_) => {}
                Statement::Loc(site, inlined) => {
                    self.loc = self.file_indices.get(&site.file).map(|at| (*at, site.line));
                    self.chain = self.chain_of(*inlined);
                }
                Statement::Block(inner) => self.block(inner)?,
                Statement::Instruction(instruction) => self.instruction(instruction)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    /// The chain of callers that code inlined at a place has, kept once.
    fn chain_of(&mut self, mut site: Option<Site>) -> u32 {
        /// Compilers inline less deep than this.
        const DEEPEST: usize = 32;
        let mut chain = Vec::new();
        while let Some(at) = site.filter(|_| chain.len() < DEEPEST) {
            if let Some(file) = self.file_indices.get(&at.file) {
                chain.push((*file, at.line));
            }
            site = self.sites.get(&at).copied();
        }
        if let Some(known) = self.chains.iter().position(|known| *known == chain) {
            return known as u32;
        }
        self.chains.push(chain);
        self.chains.len() as u32 - 1
    }

    pub(super) fn function_body(&mut self, function: &'m Function<'s>) -> Result<(), PtxError> {
        self.loc = None;
        self.prototypes.clear();
        self.call_targets.clear();
        self.chain = 0;
        self.sites.clear();
        self.branch_targets.clear();
        // Tables of targets may stand after the branch: collect them first.
        if let Some(body) = &function.body {
            self.uses.clear();
            count_uses(body, &mut self.uses);
            self.collect_targets(body)?;
            self.block(body)?;
        }
        self.guard = (NONE, false);
        let end = if function.entry { Op::Exit } else { Op::Return };
        self.emit(end, Class::Control, 0, Shadow::Spread);
        Ok(())
    }

    pub(super) fn collect_targets(&mut self, body: &[Statement<'s>]) -> Result<(), PtxError> {
        let mut label = None;
        for statement in body {
            match statement {
                Statement::Label(_, name) => label = Some(*name),
                Statement::BranchTargets(targets) => {
                    if let Some(label) = label {
                        self.branch_targets.insert(label.to_owned(), targets.clone());
                    }
                }
                Statement::Loc(site, Some(inlined)) => {
                    self.sites.entry(*site).or_insert(*inlined);
                }
                Statement::Prototype(returns, params) => {
                    if let Some(label) = label {
                        let layout = self.frame_layout(params, returns)?;
                        self.prototypes.insert(label.to_owned(), layout);
                    }
                }
                Statement::CallTargets(targets) => {
                    if let (Some(label), Some(first)) = (label, targets.first()) {
                        self.call_targets.insert(label.to_owned(), first);
                    }
                }
                Statement::Block(inner) => self.collect_targets(inner)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn finish(
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
        let mut frames = Vec::new();
        for (name, label, _, frame) in &self.frames {
            let address = self.layout.functions.addresses.get(*name).copied().unwrap_or(0);
            frames.push(Frame { pc: resolve(*label)?, address, ..*frame });
        }
        let stack_base = self.local.next_multiple_of(16) as u32;
        let local_bytes = if frames.is_empty() { self.local } else { u64::from(stack_base) + STACK_BYTES };
        let mut constants: Vec<(Slot, u64)> =
            self.constants.iter().map(|(value, slot)| (*slot, *value)).collect();
        let dynamic_base = self.shared.next_multiple_of(16);
        for (slot, offset) in &self.dynamic {
            constants.push((*slot, dynamic_base.wrapping_add_signed(*offset)));
        }
        constants.sort_unstable();
        let mut first_of_line: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let place_ids = self
            .places
            .iter()
            .enumerate()
            .map(|(pc, place)| match place.loc {
                // Line 0 is code that no line stands for.
                Some((file, line)) if line > 0 => {
                    *first_of_line.entry((file, line, place.chain)).or_insert(pc as u32)
                }
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
            local_bytes: local_bytes as u32,
            frames,
            stack_base,
            stack_slots: self.stack_slots,
            max_threads: entry.max_threads,
            required_threads: entry.required_threads,
            max_registers: entry.max_registers,
            declared_registers: self.declared,
            communicates: self.communicates,
            noncoherent: self.noncoherent,
            uses_dynamic: !self.dynamic.is_empty(),
            source: source.clone(),
            file: self.file.to_owned(),
            files,
            chains: self.chains,
        })
    }

    pub(super) fn emit(&mut self, op: Op, class: Class, width: u8, shadow: Shadow) {
        let (guard, guard_not) = self.guard;
        self.code.push(Inst { op, guard, guard_not, width, shadow });
        self.places.push(Place { pos: self.pos, loc: self.loc, chain: self.chain, class });
    }

    /// Whether the code being decoded is the kernel's own, where `ld.param`
    /// reads the kernel's parameters.
    pub(super) fn in_entry(&self) -> bool {
        self.in_entry
    }

    pub(super) fn instruction(&mut self, instruction: &Instruction<'s>) -> Result<(), PtxError> {
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
            Operand::Tensor(map, items) => {
                operand(map, uses);
                items.iter().for_each(|item| operand(item, uses));
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
