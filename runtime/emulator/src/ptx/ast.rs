//! The syntax tree of a PTX module. Names borrow from the source text.

use super::{Pos, PtxError};

/// A whole PTX file.
#[derive(Debug, Default)]
pub struct Module<'s> {
    /// `.version` as (major, minor).
    pub version: (u32, u32),
    /// The number in `.target sm_NN`.
    pub target: u32,
    /// `.address_size`, 64 unless stated.
    pub address_size: u32,
    /// `.file` entries: index and name.
    pub files: Vec<(u32, &'s str)>,
    /// Module-scope variables.
    pub variables: Vec<Variable<'s>>,
    /// `.alias` pairs: a name and the function it stands for.
    pub aliases: Vec<(&'s str, &'s str)>,
    /// Kernels and functions, declarations included.
    pub functions: Vec<Function<'s>>,
}

/// The state space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Param,
    Const,
    Reg,
}

/// A variable declaration, or a range of registers.
#[derive(Clone, Debug)]
pub struct Variable<'s> {
    /// Where the name stands.
    pub pos: Pos,
    /// Its state space.
    pub space: Space,
    /// Its type without the dot: `b32`, `f64`, `pred`, ...
    pub ty: &'s str,
    /// Elements of a `.v2`/`.v4` declaration, else 1.
    pub vector: u32,
    /// `.align`, if stated.
    pub align: Option<u64>,
    /// The name.
    pub name: &'s str,
    /// For `.reg .b32 %r<5>`: 5.
    pub range: Option<u64>,
    /// Array extents; `None` for an empty pair of brackets.
    pub dims: Vec<Option<u64>>,
    /// The initialiser's values in order.
    pub init: Option<Vec<Init<'s>>>,
    /// Declared `.extern`.
    pub external: bool,
}

/// One value of an initialiser.
#[derive(Clone, Debug)]
pub enum Init<'s> {
    /// An integer, in two's complement.
    Int(u64),
    /// Bits of an `f32`.
    F32(u32),
    /// Bits of an `f64`, also for a decimal float.
    F64(u64),
    /// The address of a variable plus an offset; `generic(name)` sets the flag.
    Symbol {
        /// The variable.
        name: &'s str,
        /// Bytes added.
        offset: i64,
        /// Whether the address is generic.
        generic: bool,
    },
}

/// A kernel (`.entry`) or function (`.func`).
#[derive(Debug)]
pub struct Function<'s> {
    /// Where the name stands.
    pub pos: Pos,
    /// The name.
    pub name: &'s str,
    /// Whether it is a kernel.
    pub entry: bool,
    /// Return values of a `.func`.
    pub returns: Vec<Variable<'s>>,
    /// Parameters.
    pub params: Vec<Variable<'s>>,
    /// `.maxntid`, missing axes 1.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`, missing axes 1.
    pub required_threads: Option<[u32; 3]>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// The body; `None` for a declaration.
    pub body: Option<Vec<Statement<'s>>>,
    /// Why its body could not be read: what uses it is refused, the rest is not.
    pub broken: Option<PtxError>,
}

/// A place in a source file: its index, line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Site {
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// One statement of a body.
#[derive(Debug)]
pub enum Statement<'s> {
    /// A register, shared, local, param, const or global declaration.
    Variable(Variable<'s>),
    /// `name:`
    Label(Pos, &'s str),
    /// An instruction.
    Instruction(Instruction<'s>),
    /// `{ ... }`
    Block(Vec<Statement<'s>>),
    /// `.loc file line column`, and where the code was inlined.
    Loc(Site, Option<Site>),
    /// `name: .branchtargets a, b, c;`
    BranchTargets(Vec<&'s str>),
    /// `name: .callprototype (results) _ (parameters);`
    Prototype(Vec<Variable<'s>>, Vec<Variable<'s>>),
    /// `name: .calltargets f, g;`
    CallTargets(Vec<&'s str>),
}

/// An instruction with its guard.
#[derive(Debug)]
pub struct Instruction<'s> {
    /// Where the opcode stands.
    pub pos: Pos,
    /// The guard predicate and whether it is negated.
    pub guard: Option<(&'s str, bool)>,
    /// The first word of the opcode.
    pub base: &'s str,
    /// The dotted words after it.
    pub modifiers: Vec<&'s str>,
    /// The operands.
    pub operands: Vec<Operand<'s>>,
}

impl Instruction<'_> {
    /// The opcode as written.
    pub fn opcode(&self) -> String {
        let mut text = self.base.to_owned();
        for modifier in &self.modifiers {
            text.push('.');
            text.push_str(modifier);
        }
        text
    }
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'s> {
    /// A register, variable, label, function or special register; with a
    /// component it is `%tid.x` or `v.y`.
    Name(&'s str, Option<&'s str>),
    /// A name plus a constant: `name+4`.
    Offset(&'s str, i64),
    /// An integer, in two's complement.
    Int(u64),
    /// Bits of an `f32`.
    F32(u32),
    /// Bits of an `f64`, also for a decimal float.
    F64(u64),
    /// `!p`
    Not(&'s str),
    /// `[base + offset]`; `None` is an absolute address.
    Address(Option<&'s str>, i64),
    /// `[map, {x, y, ...}]` of a tensor copy: the map's address and the coordinates.
    Tensor(Box<Operand<'s>>, Vec<Operand<'s>>),
    /// `{a, b, ...}`
    Vector(Vec<Operand<'s>>),
    /// `(a, b, ...)` of a call.
    List(Vec<Operand<'s>>),
    /// `p|q`
    Pair(Box<Operand<'s>>, Box<Operand<'s>>),
}
