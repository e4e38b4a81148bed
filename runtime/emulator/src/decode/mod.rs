//! From the syntax tree to the compact form that runs.
//!
//! A kernel and the functions it calls become one list of [`Inst`]s. Everything
//! that can be known is settled here: registers are slots, constants and special
//! registers have slots of their own, labels are indices, variables have
//! addresses, and each arithmetic instruction is the function that computes it.

mod body;
mod bulk;
mod call;
mod declare;
mod functions;
pub mod inst;
mod layout;
mod matrix;
mod memory;
mod moves;
mod operand;
mod parts;
pub(crate) mod select;
pub mod types;
mod warp;

use std::{collections::HashMap, sync::Arc};

use crate::ptx::{
    self, Pos, PtxError,
    ast::{Function, Module},
};
use inst::{Inst, Place, Slot, Special};

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type word: `u64`, `f32`, `b8`, ...
    pub ty: String,
    /// Its first byte in the parameter buffer.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u32,
}

/// A module-scope variable with a place in constant or global memory.
#[derive(Clone, Debug)]
pub struct ModuleVariable {
    /// Its name.
    pub name: String,
    /// Its first byte in the module's block of that space.
    pub offset: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A kernel ready to run.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// The chip the module was made for, as in `sm_NN`.
    pub target: u32,
    /// Its instructions, functions included; it starts at 0.
    pub code: Vec<Inst>,
    /// Where each stands.
    pub places: Vec<Place>,
    /// By instruction: the first one with the same source line, or itself.
    pub place_ids: Arc<[u32]>,
    /// Registers of a warp.
    pub slots: u32,
    /// Slots with a constant.
    pub constants: Vec<(Slot, u64)>,
    /// Slots with a special register.
    pub specials: Vec<(Slot, Special)>,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Bytes of all parameters.
    pub param_bytes: u32,
    /// Bytes of statically declared shared memory.
    pub shared_bytes: u64,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Functions with frames.
    pub frames: Vec<inst::Frame>,
    /// Where the stack begins in local memory.
    pub stack_base: u32,
    /// The slots of the frame pointer and the stack pointer.
    pub stack_slots: [Slot; 2],
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// 32-bit registers that the entry and its callees declare, an upper bound on
    /// nothing but the text: assemblers allocate far fewer.
    pub declared_registers: u64,
    /// Whether CTAs may wait for one another, so that they must be interleaved.
    pub communicates: bool,
    /// Whether it has non-coherent loads of global memory.
    pub noncoherent: bool,
    /// Whether it names shared memory whose size the launch gives.
    pub uses_dynamic: bool,
    /// The PTX text, for reports.
    pub source: Arc<str>,
    /// The PTX file's name.
    pub file: String,
    /// Source files of `.loc`.
    pub files: Vec<String>,
    /// Chains of inlining: file and line, the innermost caller first. The first
    /// chain is empty.
    pub chains: Vec<Vec<(u32, u32)>>,
}

impl Kernel {
    /// The name as its source has it: C++ names demangled.
    pub fn shown(&self) -> String {
        demangled(&self.name).unwrap_or_else(|| self.name.clone())
    }

    /// Whether an instruction is a load whose value nothing uses.
    pub fn unread(&self, pc: u32) -> bool {
        matches!(self.code.get(pc as usize).map(|inst| &inst.op), Some(inst::Op::Load(load)) if load.unread)
    }

    /// The text of a line of the PTX file, trimmed.
    pub fn line_text(&self, line: u32) -> &str {
        self.source.lines().nth(line.saturating_sub(1) as usize).unwrap_or("").trim()
    }
}

/// A parsed and decoded PTX module.
#[derive(Debug)]
pub struct Program {
    /// Its kernels.
    pub kernels: Vec<Arc<Kernel>>,
    /// Kernels that cannot run, by name: what is wrong with one stops no other.
    pub refused: Vec<(String, PtxError)>,
    /// Bytes of `.global` variables with their initial values.
    pub globals: Vec<u8>,
    /// Where they lie.
    pub global_variables: Vec<ModuleVariable>,
    /// Bytes of `.const` variables.
    pub constants: Vec<u8>,
    /// The address that the `.global` block was linked at.
    pub global_base: u64,
}

impl Program {
    /// Parses a PTX file and decodes its kernels, each by itself; `.global` variables are
    /// linked to lie at `global_base`.
    pub fn load(file: &str, text: &str, global_base: u64) -> Result<Program, PtxError> {
        let module = ptx::parse(file, text)?;
        let source: Arc<str> = text.into();
        let layout = layout::Layout::of(file, &module, global_base)?;
        let mut by_name: HashMap<&str, &Function<'_>> = HashMap::new();
        for function in &module.functions {
            // A definition wins over its declarations.
            let defined = function.body.is_some() || function.broken.is_some();
            if defined || !by_name.contains_key(function.name) {
                by_name.insert(function.name, function);
            }
        }
        for (name, target) in &module.aliases {
            if let Some(function) = by_name.get(target).copied() {
                by_name.insert(name, function);
            }
        }
        let (mut kernels, mut refused) = (Vec::new(), Vec::new());
        for function in module.functions.iter().filter(|function| function.entry) {
            let decoded = match &function.broken {
                Some(error) => Err(error.clone()),
                None if function.body.is_none() => continue,
                None => body::decode(file, &source, &module, &layout, &by_name, function),
            };
            match decoded {
                Ok(kernel) => kernels.push(Arc::new(kernel)),
                Err(error) => refused.push((function.name.to_owned(), error)),
            }
        }
        Ok(Program {
            kernels,
            refused,
            globals: layout.globals,
            global_variables: layout.global_variables,
            constants: layout.constants,
            global_base,
        })
    }

    /// [`Program::load`], with an error where any kernel is refused.
    pub fn load_whole(file: &str, text: &str, global_base: u64) -> Result<Program, PtxError> {
        let program = Program::load(file, text, global_base)?;
        match program.refused.first() {
            Some((_, error)) => Err(error.clone()),
            None => Ok(program),
        }
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Arc<Kernel>> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// A C++ name as its source has it, of a mangled one.
pub fn demangled(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    cpp_demangle::Symbol::new(name).ok()?.demangle().ok()
}

/// An error at a place of a file.
fn error<T>(file: &str, pos: Pos, message: impl Into<String>) -> Result<T, PtxError> {
    Err(PtxError { file: file.to_owned(), pos, message: message.into() })
}

/// Source files of `.loc`, by position, with the index that `.file` gives them.
fn source_files(module: &Module<'_>) -> (Vec<String>, HashMap<u32, u32>) {
    let names = module.files.iter().map(|(_, name)| (*name).to_owned()).collect();
    let indices = module.files.iter().enumerate().map(|(at, (index, _))| (*index, at as u32)).collect();
    (names, indices)
}
