//! The codes: one entry per rule, with the text of `--explain`.

use std::{fmt, str::FromStr};

macro_rules! codes {
    ($($variant:ident = $number:literal, $title:literal, $rule:literal;)*) => {
        /// Which rule a diagnostic is about; shown as `PH0012`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Code {
            $(#[doc = $title] $variant = $number,)*
        }

        impl Code {
            /// Every code in order.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The number.
            pub fn number(self) -> u16 {
                self as u16
            }

            /// A short title.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }

            /// The rule in two sentences: what must hold, and what to do.
            pub fn rule(self) -> &'static str {
                match self { $(Code::$variant => $rule,)* }
            }
        }
    };
}

codes! {
    UnexpectedCharacter = 1, "unexpected character",
        "A source text is made of names, numbers, operators and `//` comments in ASCII (comments may hold any \
         text). Remove the character.";
    BadNumber = 2, "malformed number",
        "A number is decimal (`12`, `1_000`), hexadecimal (`0x1f`), or a float (`1.5`, `1e-6`), without a suffix, \
         and an integer fits 64 bits. The type of a literal comes from where it is used; write a cast to choose.";
    UnterminatedText = 3, "unterminated text",
        "A text between double quotes ends on the line on which it began. Add the closing quote.";
    UnexpectedToken = 4, "unexpected token",
        "The grammar allows something else at this place. A statement ends at the end of its line unless the line \
         ends in an operator, a comma or an open bracket.";
    UnclosedDelimiter = 5, "unclosed delimiter",
        "Every `(`, `[` and `{` needs its closing partner. The message names the place of the one that is open.";
    TooDeep = 6, "nested too deeply",
        "Blocks and expressions nest at most 64 levels, an expression is at most 128 operators high, calls nest at most 16 \
         deep, and a kernel has at most 1000 calls after inlining. Name parts of it with `let`, or make it several kernels.";
    ImportFailed = 7, "import failed",
        "`import \"path.ph\"` names a file relative to the importing one, and imports nest at most 32 levels. Each \
         file is read once however often it is imported.";
    TextTooLarge = 8, "text too large",
        "A source text with its imports has at most 4 MiB. Split the program.";

    UnknownName = 10, "unknown name",
        "A name must be a variable, a parameter, a tensor dim, an `@autotune` parameter or a `const` that is visible \
         here. Variables are visible from their declaration to the end of its block.";
    UnknownFunction = 11, "unknown function",
        "A call names a builtin, a cast (`f32(x)`), or an `fn` of this file or its imports. SPEC.md lists the \
         builtins.";
    UnknownAttribute = 12, "unknown attribute",
        "An attribute is one of autotune, cluster, launch, pipeline, tensorcore, aligned, dynshared, persistent, grid \
         and group. An unknown one is an error because a misspelt one would be lost in silence.";
    UnknownType = 13, "unknown type",
        "A type is a scalar type (f32, i32, ...), `tile<element>[dims]`, or `tensor<element>[dims]` for a parameter of \
         a kernel. An element is a scalar type, a block format (q8_0, ...) or a generic parameter.";
    DuplicateName = 14, "duplicate name",
        "Names of kernels, functions and constants are unique in a text, and names of parameters in a kernel. A \
         variable may shadow one of an outer block but not one of its own.";
    UnknownKernel = 15, "unknown kernel",
        "The kernel asked for is not in the source text. The message lists those that are.";
    BadGeneric = 16, "generic parameter not bound",
        "A kernel with generic parameters is checked for one binding of each: a scalar type for `dtype`, a scalar type \
         or block format for `format`. Bindings come from the compile request.";
    ClusterWithoutAutotune = 17, "cluster name without autotune",
        "A name of `@cluster` is also a name of `@autotune`: it sets the size of a supertile of tiles of that \
         parameter. Add the name to `@autotune`.";
    BadAttribute = 18, "malformed attribute",
        "Each attribute has its own form of arguments, listed in SPEC.md. `@autotune` and `@cluster` take \
         `NAME in [values]` with positive integers in increasing pairs or lists.";
    UnknownKeyword = 19, "unknown keyword argument",
        "Only `dot` and `dot_t` take a keyword: `precision = tf32`, `tf32x3` or `f16`. Other arguments are positional.";

    TypeMismatch = 20, "types do not match",
        "Both sides of an operator and both sides of an assignment have the same element type; literals adapt, and \
         index values adapt to i32 and i64. Write a cast to convert.";
    ShapeMismatch = 21, "shapes do not match",
        "Tiles meet axis by axis from the last one: extents are equal, or one of them is 1 and stretches. For `dot` \
         the inner extents are equal.";
    RankMismatch = 22, "wrong number of axes",
        "A subscript list has one entry per axis of what it slices. Write `:` for a whole axis.";
    ArgumentCount = 23, "wrong number of arguments",
        "A builtin or function is called with as many arguments as it has parameters. SPEC.md lists each signature.";
    BadArgument = 24, "unsuitable argument",
        "The argument is not of a kind that the builtin takes. The message says which kinds it takes.";
    WrongKind = 25, "not usable here",
        "A scalar, a tile and a tensor are different things: a tensor is read through subscripts, and a condition, a \
         subscript or a bound is a scalar. A tile becomes a scalar through memory: store it, and read one \
         element of the tensor.";
    LiteralOutOfRange = 26, "literal out of range",
        "An integer literal must fit the type that its place gives it. Widen the type or change the number.";
    NotBool = 27, "condition is not bool",
        "A condition is a `bool` scalar; numbers are not conditions. Compare with `!= 0`, or reduce a tile with `any` \
         or `all`.";

    DimNotStatic = 30, "tile dim is not static",
        "The extents of a tile are known at compile time: an integer, a constant, an `@autotune` parameter, or a tensor \
         dim (which then must be bound by `--dim`). A runtime value cannot be one.";
    SpanNotStatic = 31, "slice span is not static",
        "The length of a slice `a : b` must be a static extent whatever the variables hold, as in `k : k + 8`. Write \
         `a :+ n` with a static n and let the masks handle the edge.";
    BlockAlignment = 32, "not made of whole blocks",
        "The last axis of a tensor of a block format is sliced in whole blocks, and the last axis of what \
         `quantize` takes is whole blocks: start and length are provable multiples of the block's elements. Parameters that must be \
         multiples are recorded and checked.";
    BadElse = 33, "`else` without a slice",
        "`A[...] else v` gives the value of elements outside the tensor A. It stands behind a slice of a tensor and v \
         is a scalar.";
    BadRank = 34, "unsupported rank",
        "A tile has 1 to 4 axes; a tensor has 1 to 8. Slice some of the axes with points.";
    OutOfBounds = 35, "outside the tile",
        "A constant subscript of a tile must lie inside it, and an axis number is less than the rank. Slices of tensors \
         are masked instead.";

    AssignToLet = 40, "assignment to a `let`",
        "A `let` and a loop variable never change, and a `let` of a slice is a read-only view. Declare it with `var` to \
         get a copy that can be assigned.";
    AssignToParameter = 41, "assignment to a parameter",
        "Scalar parameters, dims and `@autotune` parameters never change, and a tensor is assigned only through \
         subscripts. Copy it to a `var`.";
    UseBeforeDefinition = 42, "use before definition",
        "A `var` declared without a value must be assigned on every path before it is read. Give it a value where it is \
         declared.";
    NoEffect = 43, "statement has no effect",
        "An expression statement is one of the calls with an effect: atomic_add, grid_barrier, assert. Assign the value \
         or remove the line.";
    BadTarget = 44, "not assignable",
        "The left side of an assignment is a variable, a slice of a tile variable, or a slice of a tensor. Nothing else \
         has a place.";
    SharedUpdate = 45, "several programs update one place",
        "`A[i] op= v` reads, computes and writes, so its subscripts must depend on every program id that the kernel \
         uses. Give each program its own place, and combine the places in a second kernel or in one program.";
    BadReturn = 46, "misplaced return",
        "A function ends in exactly one `return value`, and a kernel has none. Use `where` or `if` with a `var` for \
         early results.";

    GridNotDerived = 50, "grid cannot be derived",
        "The grid follows from stores of the form `C[program_id(0) * T :+ T, ...]` or `C[program_id(0), ...]`, and all \
         must agree. Write `@grid(ceil(M / T), ...)` above the kernel.";
    BadGrid = 51, "malformed grid",
        "`@grid` has one to three expressions made of integers, dims, parameters, `+`, `*` and `ceil(a / b)`. It covers \
         every axis that a program_id of the kernel reads.";

    NotYet = 60, "not available yet",
        "The language defines this, but this compiler does not have it. SPEC.md lists what is missing.";
    NotConstant = 61, "not a constant",
        "The value must be known while checking: a literal, a constant, or arithmetic on them. Runtime values and \
         parameters are not.";

    RefusedValues = 62, "refused for these values",
        "The kernel is well formed, and what it needs does not hold, or cannot be proven, for the parameters, dims and \
         element types of this request. Change the request or the kernel as the message says.";

    CommentInExpression = 70, "comment in place of a division",
        "`//` begins a comment, and what follows it here reads like a divisor. Write `/`, which rounds integers towards \
         zero, or words behind the `//`.";
    SliceOutside = 71, "slice outside the tensor",
        "A constant position before 0, or at or behind the end of a constant extent, lies outside whatever the sizes \
         are: it reads nothing and writes nothing. Positions do not count from the end.";

    Internal = 99, "fault of the checker",
        "The checker refused a statement without saying why, which is a fault of the checker. Please report the program.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PH{:04}", self.number())
    }
}

/// A text that is not a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCode(pub String);

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown diagnostic code `{}`: codes look like `PH0012`", self.0)
    }
}

impl std::error::Error for UnknownCode {}

impl FromStr for Code {
    type Err = UnknownCode;

    /// Reads `PH0012`, in either case.
    fn from_str(text: &str) -> Result<Code, UnknownCode> {
        Code::ALL
            .iter()
            .copied()
            .find(|code| code.to_string().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

impl Code {
    /// The text of `--explain`.
    pub fn explain(self) -> String {
        format!("{self}: {}\n\n{}\n", self.title(), self.rule())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_has_a_rule_of_two_sentences() {
        for code in Code::ALL {
            assert_eq!(code.to_string().parse::<Code>(), Ok(*code));
            assert!(code.rule().ends_with('.') && code.rule().matches(". ").count() >= 1, "{code}");
        }
        assert_eq!("ph0012".parse::<Code>(), Ok(Code::UnknownAttribute));
        assert!("PH9999".parse::<Code>().is_err());
    }
}
