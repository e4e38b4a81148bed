//! The typed tree: a checked kernel with its generics bound, ready to be lowered.
//!
//! What a reader may rely on:
//! - every [`Expr`] has its type; names are resolved; literals have a concrete type;
//! - the operands of a [`ExprKind::Binary`], `Fma` or `Select` have equal dims (or
//!   are all scalars) and equal elements (`Select`'s condition is `bool`): every
//!   conversion and every stretch is a [`ExprKind::Cast`], [`ExprKind::Decode`] or
//!   [`ExprKind::Broadcast`] node;
//! - dims stay symbolic: two tiles have equal dims when their [`Dim`] lists are equal;
//! - compound assignment is desugared (`t[s] += v` is a store of a load plus `v`);
//! - a slice has one [`AxisIndex`] per axis of what it slices; the tile it makes has
//!   one axis per [`AxisIndex::Span`], in order (points drop their axis); a slice of
//!   points only is a scalar;
//! - bodies of loops and branches list the outer variables that they assign.

use std::collections::BTreeMap;

use phobos_artifact::{Access, Contract, DType, Element, GridExpr};

use crate::span::Span;

/// A checked kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The name.
    pub name: String,
    /// Where the name stands.
    pub span: Span,
    /// The generic parameters and what they are bound to, in source order.
    pub generics: Vec<(String, Element)>,
    /// The tensor parameters; a [`TensorId`] is an index here.
    pub tensors: Vec<Tensor>,
    /// The scalar parameters; a [`ScalarId`] is an index here.
    pub scalars: Vec<Scalar>,
    /// The named dims of the tensors in order of first use, without the names that
    /// are `@autotune` parameters.
    pub dims: Vec<String>,
    /// The named dims that must be bound at compile time, because a tile has them
    /// as an extent, and where one first does.
    pub required_dims: BTreeMap<String, Span>,
    /// The `@autotune` parameters in source order.
    pub params: Vec<Param>,
    /// The `where` conditions over them.
    pub constraints: Vec<ParamConstraint>,
    /// Parameters that must be multiples, because a block format is sliced by them.
    pub param_multiples: Vec<ParamMultiple>,
    /// What a launch must check about the dims: whole blocks, `@aligned` promises.
    pub contracts: Vec<Contract>,
    /// Programs per grid axis, over dims and parameters.
    pub grid: [GridExpr; 3],
    /// The other attributes.
    pub attributes: Attributes,
    /// Every variable of the body; a [`VarId`] is an index here.
    pub vars: Vec<Variable>,
    /// The body.
    pub body: Block,
}

/// Index of a tensor parameter in [`Kernel::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// Index of a scalar parameter in [`Kernel::scalars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(pub usize);

/// Index of a variable in [`Kernel::vars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub usize);

/// A tensor parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The name.
    pub name: String,
    /// The element type.
    pub element: Element,
    /// The extents, outermost first. [`Dim::Param`] where an `@autotune` name binds one.
    pub dims: Vec<Dim>,
    /// What the kernel does with it.
    pub access: Access,
    /// Where the name stands.
    pub span: Span,
}

/// A scalar parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
    /// Where the name stands.
    pub span: Span,
}

/// The extent of an axis, fixed once parameters and required dims are bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// A number.
    Const(u64),
    /// An `@autotune` parameter.
    Param(String),
    /// A named dim of a tensor parameter.
    TensorDim(String),
}

/// An `@autotune` (or `@cluster`) parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The name.
    pub name: String,
    /// The candidates in order, expanded, without duplicates, never empty.
    pub values: Vec<u64>,
    /// Whether a tensor dim has the same name, so that the choice binds it.
    pub binds_dim: bool,
    /// Where the name stands.
    pub span: Span,
}

/// A `where` condition of `@autotune`: a candidate for which it is false is dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamConstraint {
    /// A `bool` expression of [`ExprKind::Int`], `Bool`, `Param`, `Unary`, `Binary` and `Cast` nodes over integers.
    pub condition: Expr,
    /// Where it stands.
    pub span: Span,
}

/// `param % of == 0` must hold for a candidate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParamMultiple {
    /// The parameter.
    pub param: String,
    /// The divisor: the block of a format.
    pub of: u64,
    /// The slice that needs it.
    pub span: Span,
}

/// Attributes without a field of their own in [`Kernel`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `@launch(threads[, min_blocks[, max_registers]])`
    pub launch: Option<Launch>,
    /// `@pipeline`
    pub pipeline: bool,
    /// `@tensorcore`, `@tensorcore(sync)`, `@tensorcore(wmma)`
    pub tensorcore: Option<TensorCore>,
    /// `@aligned(DIM = n)`, also among the contracts.
    pub aligned: Vec<(String, u64)>,
    /// `@dynshared`
    pub dynshared: bool,
    /// `@persistent`
    pub persistent: bool,
    /// `@cluster(NAME in [...])`: supertile sizes, over names of `@autotune`.
    pub cluster: Vec<Param>,
    /// `@group(program_id variable's axis, n)`: programs are ordered in groups of n along an axis.
    pub group: Option<Group>,
}

/// `@launch(threads[, min_blocks[, max_registers]])`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that should fit one multiprocessor.
    pub min_blocks: Option<u32>,
    /// The most registers of a thread.
    pub max_registers: Option<u32>,
}

/// Which tensor-core path `@tensorcore` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorCore {
    /// The compiler's choice.
    Auto,
    /// `mma.sync`
    Sync,
    /// `wmma`
    Wmma,
}

/// `@group(axis, size)`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The grid axis that is walked in groups.
    pub axis: u8,
    /// Programs of a group.
    pub size: u32,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// The signed integer of addresses and sizes: dims, parameters, program ids,
    /// loop variables, subscripts.
    Index,
    /// A scalar.
    Scalar(DType),
    /// A tile.
    Tile(TileType),
    /// No value: an expression statement.
    Unit,
}

/// The type of a tile; rank 1 to 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileType {
    /// The element: a block format only for loads, `Quantize`, `let` variables of these,
    /// `Dot` operands, `Decode`, and stores of formats of activations.
    pub element: Element,
    /// The extents, outermost first.
    pub dims: Vec<Dim>,
}

/// A variable of the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// The name; not unique, since inner scopes may shadow.
    pub name: String,
    /// The type.
    pub ty: Type,
    /// How it was declared.
    pub kind: VarKind,
    /// Where the name stands.
    pub span: Span,
}

/// How a variable was declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// `let`, or a parameter of an inlined function: never assigned.
    Let,
    /// `var`.
    Var,
    /// The variable of a `for`: [`Type::Index`], never assigned.
    Loop,
}

/// A sequence of statements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// In order.
    pub statements: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Which.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

/// The forms of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// A `let`. A loaded value is read here.
    Let {
        /// The variable.
        var: VarId,
        /// Its value, of the variable's type.
        value: Expr,
    },
    /// A `var`. Without a value it is undefined, and the checker has proven that
    /// it is assigned before it is read. (Its first assignment may be a
    /// [`StmtKind::TileInsert`]; elements never written stay undefined.)
    VarInit {
        /// The variable.
        var: VarId,
        /// Its value, of the variable's type.
        value: Option<Expr>,
    },
    /// `var = value`
    Assign {
        /// A variable of kind [`VarKind::Var`].
        var: VarId,
        /// The value, of the variable's type.
        value: Expr,
    },
    /// `var[slice] = value`: the variable becomes itself with a part replaced.
    TileInsert {
        /// A tile variable of kind [`VarKind::Var`].
        var: VarId,
        /// Which part.
        slice: Vec<AxisIndex>,
        /// A tile with one axis per span, or a scalar when the slice is all points.
        value: Expr,
    },
    /// `tensor[slice] = value` with at least one span.
    StoreSlice {
        /// The tensor.
        tensor: TensorId,
        /// Which part.
        slice: Vec<AxisIndex>,
        /// A tile with one axis per span and the tensor's element type.
        value: Expr,
    },
    /// `tensor[i, j] = value`: one element, written once per program.
    StorePoint {
        /// The tensor.
        tensor: TensorId,
        /// One [`Type::Index`] expression per axis.
        indices: Vec<Expr>,
        /// A scalar of the tensor's element type.
        value: Expr,
    },
    /// `for var in range(start, end, step)`; no iteration when `start >= end`.
    For {
        /// The loop variable.
        var: VarId,
        /// The first value, [`Type::Index`].
        start: Expr,
        /// One past the last value, [`Type::Index`].
        end: Expr,
        /// The step, [`Type::Index`]: positive, or the loop does not run.
        step: Expr,
        /// Variables declared outside and assigned inside, in order of [`VarId`].
        carried: Vec<VarId>,
        /// The body.
        body: Block,
    },
    /// `while condition`
    While {
        /// A `bool` scalar, evaluated before each iteration.
        condition: Expr,
        /// As for `For`.
        carried: Vec<VarId>,
        /// The body.
        body: Block,
    },
    /// `if condition`
    If {
        /// A `bool` scalar.
        condition: Expr,
        /// Variables declared outside and assigned in either body, in order of [`VarId`].
        carried: Vec<VarId>,
        /// When it holds.
        then: Block,
        /// When it does not; empty without an `else`.
        otherwise: Block,
    },
    /// `grid_barrier(bar)`: every program of the grid arrives before any goes on.
    GridBarrier {
        /// An i32 tensor of two or more elements.
        tensor: TensorId,
    },
    /// `assert(condition, "text")`, in debug builds.
    Assert {
        /// A `bool` scalar.
        condition: Expr,
        /// What to say when it does not hold.
        message: String,
    },
    /// An expression for its effect: an [`ExprKind::AtomicAdd`].
    Expr(Expr),
}

/// One axis of a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum AxisIndex {
    /// One position, [`Type::Index`]: the axis is dropped.
    Point(Expr),
    /// `extent` positions from `start`. A whole axis has start `Int(0)` and the
    /// extent of the axis.
    Span {
        /// The first position, [`Type::Index`].
        start: Expr,
        /// How many.
        extent: Dim,
    },
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Which.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: Type,
    /// Where; implicit nodes have the span of what they wrap.
    pub span: Span,
}

/// The forms of an expression. Unless said otherwise operands are scalars or tiles
/// and the result has the operand's type.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer: [`Type::Index`] or an integer scalar, in range of it.
    Int(i64),
    /// A float scalar; infinity for `inf`. Round to the type once.
    Float(f64),
    /// A `bool` scalar.
    Bool(bool),
    /// A variable.
    Var(VarId),
    /// A scalar parameter.
    ScalarParam(ScalarId),
    /// A named dim of a tensor, [`Type::Index`].
    Dim(String),
    /// An `@autotune` parameter, [`Type::Index`].
    Param(String),
    /// `program_id(axis)`, axis 0 to 2, [`Type::Index`].
    ProgramId(u8),
    /// A prefix operator.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// The operand.
        operand: Box<Expr>,
    },
    /// An infix operator, `min` or `max`. Comparisons give `bool`. Both sides of
    /// `And` and `Or` are always evaluated.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand, of the same type.
        rhs: Box<Expr>,
    },
    /// An elementwise function of one float operand (`Abs` also of integers).
    Math {
        /// The function.
        op: MathOp,
        /// The operand.
        operand: Box<Expr>,
    },
    /// `a * b + c` rounded once; floats.
    Fma {
        /// First factor.
        a: Box<Expr>,
        /// Second factor.
        b: Box<Expr>,
        /// Addend.
        c: Box<Expr>,
    },
    /// `where(condition, then, otherwise)`, elementwise; both are evaluated.
    Select {
        /// `bool`, of the result's dims.
        condition: Box<Expr>,
        /// Where it holds.
        then: Box<Expr>,
        /// Where it does not.
        otherwise: Box<Expr>,
    },
    /// Conversion to the element of this node's type, dims unchanged. Between
    /// [`Type::Index`] and scalars as well. Float to integer truncates, saturates,
    /// and gives 0 for NaN; to `bool` is `!= 0`; between integers wraps.
    Cast(Box<Expr>),
    /// A tile of a block format as `f32`, exact.
    Decode(Box<Expr>),
    /// A tile of `f32` in the format of activations of this node's type, dims unchanged;
    /// the last extent is whole blocks.
    Quantize(Box<Expr>),
    /// The operand stretched to this node's dims: a scalar, or a tile whose axes
    /// align with the trailing axes of the result and are equal to them or 1.
    Broadcast(Box<Expr>),
    /// A slice of a tensor; a tile, or a scalar when all axes are points. `fill`
    /// (a scalar of the element type) is the value of what lies outside the tensor
    /// and makes the whole tile valid; without it those elements are invalid.
    Load {
        /// The tensor.
        tensor: TensorId,
        /// One per axis of the tensor.
        slice: Vec<AxisIndex>,
        /// The value outside.
        fill: Option<Box<Expr>>,
    },
    /// A slice of a tile value; a tile, or a scalar when all axes are points.
    /// Positions outside the tile are invalid elements.
    TileSlice {
        /// The tile.
        tile: Box<Expr>,
        /// One per axis of the tile.
        slice: Vec<AxisIndex>,
    },
    /// `dot(a, b)` of [M, K] and [K, N], or `dot_t(a, b)` of [M, K] and [N, K]; the
    /// result [M, N] has the accumulator's type. Of `dot_t`, `rhs` may be a tile of a block
    /// format, and `lhs` then one of a format of activations.
    Dot {
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand.
        rhs: Box<Expr>,
        /// `dot_t`: the right operand is given transposed.
        transposed: bool,
        /// What the operands may be rounded to.
        precision: Precision,
    },
    /// A reduction of one axis, which stays with extent 1.
    Reduce {
        /// The operation.
        op: ReduceOp,
        /// A tile; `bool` for `Any` and `All`.
        operand: Box<Expr>,
        /// The axis.
        axis: usize,
    },
    /// The position of the largest or smallest element along an axis (the first of
    /// equals; NaN wins), as an `i32` tile; the axis stays with extent 1.
    ArgReduce {
        /// Whether the largest.
        max: bool,
        /// A tile.
        operand: Box<Expr>,
        /// The axis.
        axis: usize,
    },
    /// The inclusive sum along an axis.
    CumSum {
        /// A tile.
        operand: Box<Expr>,
        /// The axis.
        axis: usize,
    },
    /// The lower triangle with the diagonal: elements with column > row are 0; rank 2.
    Tril(Box<Expr>),
    /// The two axes swapped; rank 2.
    Transpose(Box<Expr>),
    /// The same elements in row-major order with this node's dims (`reshape`, `flat`).
    Reshape(Box<Expr>),
    /// Position along an axis, as an `i32` tile of this node's dims.
    Iota {
        /// The axis.
        axis: usize,
    },
    /// Adds to one element of an `i32` tensor as one step; the old value.
    AtomicAdd {
        /// The tensor.
        tensor: TensorId,
        /// One [`Type::Index`] expression per axis.
        indices: Vec<Expr>,
        /// A scalar of the tensor's element type.
        value: Box<Expr>,
    },
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// Negation of a number; wraps for integers.
    Neg,
    /// Negation of a `bool`.
    Not,
    /// Complement of an integer.
    BitNot,
}

/// Infix operators, with `min` and `max`. Integer `Add`, `Sub`, `Mul` wrap; integer
/// `x / 0` is 0 and `x % 0` is x; integer division truncates. `Min` and `Max` give
/// NaN when an operand is NaN. A shift by the width or more gives 0 (-1 for
/// negative values shifted right). Float comparisons with NaN are false, `Ne` true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
}

/// Elementwise functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MathOp {
    Exp,
    Exp2,
    Log,
    Sqrt,
    Rsqrt,
    Tanh,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `x * sigmoid(x)`
    Silu,
    /// The tanh approximation: `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    Gelu,
    Abs,
    Floor,
    Ceil,
    /// To nearest, ties to even.
    Round,
}

/// Reductions. The identity (0, 1, -inf or the least value, +inf or the greatest,
/// false, true) stands in for invalid elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
    Any,
    All,
}

/// What a `dot` may round its operands to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Nothing: products of the operands as they are.
    Operands,
    /// `precision = tf32`
    Tf32,
    /// `precision = tf32x3`: three tf32 products, near f32.
    Tf32x3,
    /// `precision = f16`
    F16,
}
