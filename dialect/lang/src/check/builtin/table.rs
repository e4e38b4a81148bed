//! The table of builtins.

use phobos_artifact::Element;

use crate::typed::{BinaryOp, MathOp, ReduceOp};

/// What SPEC.md and `--explain` say of a builtin.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinInfo {
    /// The name.
    pub name: &'static str,
    /// The parameters and the result.
    pub signature: &'static str,
    /// What it computes.
    pub doc: &'static str,
    pub(super) which: Builtin,
    /// The fewest and the most positional arguments.
    pub(super) arity: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    ProgramId,
    Dot {
        transposed: bool,
    },
    Math(MathOp),
    Binary(BinaryOp),
    Where,
    Fma,
    Reduce(ReduceOp),
    RowReduce(ReduceOp),
    ArgReduce {
        max: bool,
    },
    CumSum,
    Tril,
    Transpose,
    Flat,
    Reshape,
    Broadcast,
    Iota,
    Quantize,
    AtomicAdd,
    /// A statement and not a value.
    Statement,
    /// Known, but not implemented.
    NotYet,
}

const fn entry(
    name: &'static str,
    which: Builtin,
    arity: (usize, usize),
    signature: &'static str,
    doc: &'static str,
) -> BuiltinInfo {
    BuiltinInfo { name, signature, doc, which, arity }
}

const fn math(name: &'static str, op: MathOp, doc: &'static str) -> BuiltinInfo {
    entry(name, Builtin::Math(op), (1, 1), "(x: float) -> float", doc)
}

const fn reduce(name: &'static str, op: ReduceOp, doc: &'static str) -> BuiltinInfo {
    entry(name, Builtin::Reduce(op), (2, 2), "(x: tile, axis: int) -> tile", doc)
}

/// Every builtin. Where a signature says `float` or `number`, scalars and tiles of
/// any rank are meant, broadcast together.
pub const BUILTINS: &[BuiltinInfo] = &[
    entry(
        "program_id",
        Builtin::ProgramId,
        (1, 1),
        "(axis: 0, 1 or 2) -> index",
        "The position of this program in the grid.",
    ),
    entry(
        "dot",
        Builtin::Dot { transposed: false },
        (2, 2),
        "(a: tile[M, K], b: tile[K, N], precision = tf32 | tf32x3 | f16) -> tile[M, N]",
        "Matrix product. The narrower float operand widens exactly; f16, bf16 and block operands accumulate in f32 (in f16 into a declared f16 tile), i8, u8 and i16 in i32.",
    ),
    entry(
        "dot_t",
        Builtin::Dot { transposed: true },
        (2, 2),
        "(a: tile[M, K], b: tile[N, K], precision = tf32 | tf32x3 | f16) -> tile[M, N]",
        "Matrix product with b transposed; b may be a tile of a block format, and a then one of q8_1 or q16_1.",
    ),
    math("exp", MathOp::Exp, "e to the x."),
    math("exp2", MathOp::Exp2, "2 to the x."),
    math("log", MathOp::Log, "The natural logarithm; NaN below 0, -inf at 0."),
    math("sqrt", MathOp::Sqrt, "The square root; NaN below 0."),
    math("rsqrt", MathOp::Rsqrt, "1 / sqrt(x)."),
    math("tanh", MathOp::Tanh, "The hyperbolic tangent."),
    math("sigmoid", MathOp::Sigmoid, "1 / (1 + exp(-x))."),
    math("silu", MathOp::Silu, "x * sigmoid(x)."),
    math("gelu", MathOp::Gelu, "The tanh form of GELU: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."),
    math("floor", MathOp::Floor, "The greatest integer that is not greater."),
    math("ceil", MathOp::Ceil, "The least integer that is not less."),
    math("round", MathOp::Round, "The nearest integer, ties to even."),
    entry(
        "abs",
        Builtin::Math(MathOp::Abs),
        (1, 1),
        "(x: number) -> number",
        "The absolute value; the least integer stays itself.",
    ),
    entry(
        "min",
        Builtin::Binary(BinaryOp::Min),
        (2, 2),
        "(a: number, b: number) -> number",
        "The smaller, elementwise; NaN if one is NaN.",
    ),
    entry(
        "max",
        Builtin::Binary(BinaryOp::Max),
        (2, 2),
        "(a: number, b: number) -> number",
        "The greater, elementwise; NaN if one is NaN.",
    ),
    entry("tmax", Builtin::Binary(BinaryOp::Max), (2, 2), "(a: tile, b: tile) -> tile", "The same as max."),
    entry(
        "where",
        Builtin::Where,
        (3, 3),
        "(c: bool, a, b) -> a or b",
        "a where c holds and b elsewhere, elementwise; both are evaluated.",
    ),
    entry("fma", Builtin::Fma, (3, 3), "(a: float, b: float, c: float) -> float", "a * b + c, rounded once."),
    entry(
        "rowmax",
        Builtin::RowReduce(ReduceOp::Max),
        (1, 1),
        "(x: tile) -> tile",
        "The greatest along the last axis, which stays with extent 1.",
    ),
    entry(
        "rowsum",
        Builtin::RowReduce(ReduceOp::Sum),
        (1, 1),
        "(x: tile) -> tile",
        "The sum along the last axis, which stays with extent 1.",
    ),
    reduce("sum", ReduceOp::Sum, "The sum along an axis, which stays with extent 1."),
    reduce("prod", ReduceOp::Prod, "The product along an axis."),
    reduce("reduce_max", ReduceOp::Max, "The greatest along an axis; NaN if one is NaN."),
    reduce("reduce_min", ReduceOp::Min, "The least along an axis; NaN if one is NaN."),
    reduce("any", ReduceOp::Any, "Whether one element of a bool tile holds, along an axis."),
    reduce("all", ReduceOp::All, "Whether every element of a bool tile holds, along an axis."),
    entry(
        "argmax",
        Builtin::ArgReduce { max: true },
        (2, 2),
        "(x: tile, axis: int) -> tile<i32>",
        "The position of the greatest along an axis: the first of equals, or the first NaN.",
    ),
    entry(
        "argmin",
        Builtin::ArgReduce { max: false },
        (2, 2),
        "(x: tile, axis: int) -> tile<i32>",
        "The position of the least along an axis: the first of equals, or the first NaN.",
    ),
    entry(
        "cumsum",
        Builtin::CumSum,
        (1, 2),
        "(x: tile, axis: int = 0) -> tile",
        "The inclusive sum along an axis; down the rows without one.",
    ),
    entry(
        "tril",
        Builtin::Tril,
        (1, 1),
        "(x: tile[R, C]) -> tile[R, C]",
        "The lower triangle with the diagonal, 0 above it.",
    ),
    entry("transpose", Builtin::Transpose, (1, 1), "(x: tile[R, C]) -> tile[C, R]", "The axes swapped."),
    entry(
        "flat",
        Builtin::Flat,
        (1, 1),
        "(x: tile) -> tile[1, n]",
        "The tile as one row, in row-major order.",
    ),
    entry(
        "reshape",
        Builtin::Reshape,
        (2, 2),
        "(x: tile, [dims]) -> tile[dims]",
        "The same elements in row-major order; the numbers of elements are equal.",
    ),
    entry(
        "broadcast",
        Builtin::Broadcast,
        (2, 2),
        "(x, [dims]) -> tile[dims]",
        "A scalar, or a tile with axes of extent 1, stretched.",
    ),
    entry(
        "iota",
        Builtin::Iota,
        (2, 2),
        "([dims], axis: int) -> tile<i32>[dims]",
        "The position along an axis.",
    ),
    entry(
        "quantize",
        Builtin::Quantize,
        (2, 2),
        "(x: tile<f32>, F) -> tile<F>",
        "Rounds to a format of activations, q8_1 or q16_1; to f32, f16 and bf16 it is the cast.",
    ),
    entry(
        "atomic_add",
        Builtin::AtomicAdd,
        (3, 9),
        "(t: tensor<i32>, i, ..., v: i32) -> i32",
        "Adds v to the element t[i, ...] as one step; the value before.",
    ),
    entry(
        "grid_barrier",
        Builtin::Statement,
        (1, 1),
        "(bar: tensor<i32>)",
        "Waits for all programs of the grid; bar has 2 or more elements, 0 at first. All programs must be resident at once.",
    ),
    entry(
        "assert",
        Builtin::Statement,
        (2, 2),
        "(c: bool, \"text\")",
        "Stops the launch with the text in debug builds when c does not hold.",
    ),
    entry("print", Builtin::NotYet, (0, 9), "(...)", "Prints values in debug builds."),
    entry(
        "qdot_t",
        Builtin::NotYet,
        (2, 9),
        "(a, b, ...) -> tile",
        "Integer dot of Q8_0 operands with a scale per 32.",
    ),
    entry("qmma_t", Builtin::NotYet, (2, 9), "(a, b, ...) -> tile", "The same on tensor cores."),
    entry("concat", Builtin::NotYet, (2, 9), "(a: tile, b: tile, axis: int) -> tile", "Tiles side by side."),
];

/// The element types are casts.
pub(super) fn is_cast(name: &str) -> bool {
    name.parse::<Element>().is_ok()
}

/// Whether a function cannot have this name.
pub(in crate::check) fn is_known(name: &str) -> bool {
    is_cast(name) || BUILTINS.iter().any(|info| info.name == name)
}
