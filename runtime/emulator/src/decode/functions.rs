//! Which functions need frames of their own, and where function addresses point.
//!
//! A function is placed once a kernel, with fixed local memory and registers. Where
//! two activations may be alive at once (recursion) or the caller does not know the
//! callee (calls through registers), the function is *framed*: its parameters,
//! results and local variables lie relative to a frame on the thread's stack, and its
//! registers are put aside while it runs.

use std::collections::{HashMap, HashSet};

use crate::ptx::ast::{Init, Instruction, Module, Operand, Statement};

/// The address of the first function; they are this far apart.
const BASE: u64 = 0x5f00_0000_0000;
const STEP: u64 = 64;

/// What is known of a module's functions before any is decoded.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// The address that stands for each.
    pub addresses: HashMap<String, u64>,
    /// Those whose address is taken, in order.
    pub taken: Vec<String>,
    /// Those that need frames.
    pub framed: HashSet<String>,
}

/// What a body names.
#[derive(Default)]
struct Names<'s> {
    calls: Vec<&'s str>,
    others: Vec<&'s str>,
}

fn collect<'s>(body: &[Statement<'s>], names: &mut Names<'s>) {
    for statement in body {
        match statement {
            Statement::Block(inner) => collect(inner, names),
            Statement::Instruction(instruction) => of_instruction(instruction, names),
            _ => {}
        }
    }
}

fn of_instruction<'s>(instruction: &Instruction<'s>, names: &mut Names<'s>) {
    let plain = instruction.operands.iter().filter_map(|operand| match operand {
        Operand::Name(name, None) => Some(*name),
        _ => None,
    });
    if instruction.base == "call" {
        names.calls.extend(plain.take(1));
    } else {
        names.others.extend(plain);
    }
}

impl Functions {
    pub fn of(module: &Module<'_>) -> Functions {
        let mut found = Functions::default();
        for function in module.functions.iter().filter(|function| !function.entry) {
            let next = BASE + found.addresses.len() as u64 * STEP;
            found.addresses.entry(function.name.to_owned()).or_insert(next);
        }
        let mut graph: HashMap<&str, Names<'_>> = HashMap::new();
        for function in &module.functions {
            if let Some(body) = &function.body {
                collect(body, graph.entry(function.name).or_default());
            }
        }
        let initial = module.variables.iter().filter_map(|variable| variable.init.as_ref()).flatten();
        let symbols = initial.filter_map(|value| match value {
            Init::Symbol { name, .. } => Some(*name),
            _ => None,
        });
        for name in symbols.chain(module.functions.iter().flat_map(|function| {
            graph.get(function.name).map(|names| names.others.as_slice()).unwrap_or_default().iter().copied()
        })) {
            if found.addresses.contains_key(name) && !found.taken.iter().any(|taken| taken == name) {
                found.taken.push(name.to_owned());
            }
        }
        found.framed.extend(found.taken.iter().cloned());
        // A call of what is no function is one through a register: of any of them.
        let callees = |name: &str| -> Vec<&str> {
            let Some(names) = graph.get(name) else { return Vec::new() };
            let mut list: Vec<&str> = Vec::new();
            for callee in &names.calls {
                if found.addresses.contains_key(*callee) {
                    list.push(callee);
                } else {
                    list.extend(found.taken.iter().map(String::as_str));
                }
            }
            list
        };
        for name in graph.keys() {
            let mut seen: HashSet<&str> = HashSet::new();
            let mut open = callees(name);
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(callees(next));
                }
            }
            if seen.contains(name) {
                found.framed.insert((*name).to_owned());
            }
        }
        found
    }
}
