//! The source tree: what was written, with a [`Span`] on every node. Names are
//! not resolved and nothing has a type yet; [`crate::typed`] is the checked form.

use crate::span::Span;

/// A whole source text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// The top-level items in source order.
    pub items: Vec<Item>,
    /// The whole text.
    pub span: Span,
    /// Whether parts could not be read (and were reported): no kernel checks then.
    pub broken: bool,
}

/// A top-level item.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Item {
    Kernel(Kernel),
    Function(Function),
    Const(Const),
    Import(Import),
}

/// A name as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// The text.
    pub name: String,
    /// Where.
    pub span: Span,
}

/// `@autotune(...) kernel name[F: format](X: tensor<F>[M, K], s: f32) { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The attributes in source order.
    pub attributes: Vec<Attribute>,
    /// The name.
    pub name: Ident,
    /// `[F: format, T: dtype]`.
    pub generics: Vec<Generic>,
    /// The parameters.
    pub params: Vec<Param>,
    /// The body.
    pub body: Block,
    /// From the first attribute to the closing brace.
    pub span: Span,
}

/// `fn name[T: dtype](x: tile<T>[M, N]) -> tile<T>[M, N] { ... return x }`
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The name.
    pub name: Ident,
    /// `[T: dtype]`.
    pub generics: Vec<Generic>,
    /// The parameters.
    pub params: Vec<Param>,
    /// The result type, if stated.
    pub result: Option<TypeExpr>,
    /// The body.
    pub body: Block,
    /// From `fn` to the closing brace.
    pub span: Span,
}

/// `const NAME = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    /// The name.
    pub name: Ident,
    /// The type, if stated.
    pub ty: Option<TypeExpr>,
    /// The value.
    pub value: Expr,
    /// The whole item.
    pub span: Span,
}

/// `import "path.ph"`: only left in a tree whose text was not expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The path between the quotes.
    pub path: String,
    /// The whole item.
    pub span: Span,
}

/// A generic parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generic {
    /// The name.
    pub name: Ident,
    /// What it may be bound to.
    pub kind: GenericKind,
    /// `F: format`.
    pub span: Span,
}

/// What a generic parameter may be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenericKind {
    /// `format`: any tensor element, a scalar type or a block format.
    Format,
    /// `dtype`: a scalar type.
    DType,
}

/// A parameter of a kernel or function.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// The name.
    pub name: Ident,
    /// The type.
    pub ty: TypeExpr,
    /// `name: type`.
    pub span: Span,
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// Which.
    pub kind: TypeKind,
    /// The whole type.
    pub span: Span,
}

/// The forms of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `f32`, or the name of a `dtype` generic.
    Scalar(Ident),
    /// `tile<element>[dims]`
    Tile {
        /// The element type.
        element: Ident,
        /// The extents, outermost first.
        dims: Vec<Expr>,
    },
    /// `tensor<element>[dims]`
    Tensor {
        /// The element type.
        element: Ident,
        /// The extents, outermost first.
        dims: Vec<Expr>,
    },
    /// Not a type; a diagnostic was reported.
    Error,
}

/// `@name` or `@name(args where constraint, constraint)`
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name without the `@`.
    pub name: Ident,
    /// The arguments.
    pub args: Vec<AttributeArg>,
    /// The conditions behind `where`.
    pub constraints: Vec<Expr>,
    /// The whole attribute.
    pub span: Span,
}

/// An argument of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeArg {
    /// `NAME in [a, b, ...]`
    In {
        /// The name.
        name: Ident,
        /// The list.
        values: Vec<Expr>,
        /// The whole argument.
        span: Span,
    },
    /// `NAME = value`
    Named {
        /// The name.
        name: Ident,
        /// The value.
        value: Expr,
        /// The whole argument.
        span: Span,
    },
    /// `value`
    Value(Expr),
}

/// `{ ... }`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The statements.
    pub statements: Vec<Stmt>,
    /// With the braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Which.
    pub kind: StmtKind,
    /// The whole statement.
    pub span: Span,
}

/// The forms of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let name: type = value`
    Let {
        /// The name.
        name: Ident,
        /// The type, if stated.
        ty: Option<TypeExpr>,
        /// The value.
        value: Expr,
    },
    /// `var name: type = value`; the value may be absent when the type is there.
    Var {
        /// The name.
        name: Ident,
        /// The type, if stated.
        ty: Option<TypeExpr>,
        /// The value, if any.
        value: Option<Expr>,
    },
    /// `target = value`, `target += value`, ...
    Assign {
        /// The left side: a name or a subscripted name.
        target: Expr,
        /// The operator of a compound assignment.
        op: Option<BinaryOp>,
        /// The right side.
        value: Expr,
    },
    /// `for name in range(start, end[, step]) { ... }`; `range(end)` starts at 0.
    For {
        /// The loop variable.
        name: Ident,
        /// The first value; absent means 0.
        start: Option<Expr>,
        /// One past the last value.
        end: Expr,
        /// The step; absent means 1.
        step: Option<Expr>,
        /// The body.
        body: Block,
    },
    /// `while condition { ... }`
    While {
        /// The condition.
        condition: Expr,
        /// The body.
        body: Block,
    },
    /// `if condition { ... } else { ... }`
    If {
        /// The condition.
        condition: Expr,
        /// The body when it holds.
        then: Block,
        /// The body when it does not; `else if` is a block of one `if`.
        otherwise: Option<Block>,
    },
    /// `return value`, in functions.
    Return(Option<Expr>),
    /// An expression for its effect.
    Expr(Expr),
    /// Not a statement; a diagnostic was reported.
    Error,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Which.
    pub kind: ExprKind,
    /// The whole expression.
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal.
    Int(u64),
    /// A literal with a point or an exponent. (`inf` is a name.)
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A string literal, in `assert`.
    Text(String),
    /// A name.
    Name(String),
    /// A prefix operator.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// The operand.
        operand: Box<Expr>,
    },
    /// An infix operator.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Where the operator stands.
        op_span: Span,
        /// The left operand.
        lhs: Box<Expr>,
        /// The right operand.
        rhs: Box<Expr>,
    },
    /// `callee(args)`
    Call {
        /// The builtin, cast or function.
        callee: Ident,
        /// The arguments.
        args: Vec<Arg>,
    },
    /// `base[subscripts]`
    Index {
        /// What is subscripted.
        base: Box<Expr>,
        /// One per axis.
        subscripts: Vec<Subscript>,
    },
    /// `base[subscripts] else fill`
    Else {
        /// The slice.
        slice: Box<Expr>,
        /// The value outside the tensor.
        fill: Box<Expr>,
    },
    /// `[a, b]`: the dims argument of `iota`, `reshape` and `broadcast`.
    List(Vec<Expr>),
    /// Not an expression; a diagnostic was reported.
    Error,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// The keyword of `keyword = value`.
    pub keyword: Option<Ident>,
    /// The value.
    pub value: Expr,
}

/// One axis of a subscript.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscript {
    /// Which.
    pub kind: SubscriptKind,
    /// The whole subscript.
    pub span: Span,
}

/// The forms of a subscript.
#[derive(Clone, Debug, PartialEq)]
pub enum SubscriptKind {
    /// `i`: one position.
    Point(Expr),
    /// `a : b`: positions a up to but not including b.
    Range(Expr, Expr),
    /// `a :+ n`: n positions from a.
    Span(Expr, Expr),
    /// `:`: the whole axis.
    Full,
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
    /// `~`
    BitNot,
}

/// Infix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
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

impl BinaryOp {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
        }
    }

    /// Whether the result is `bool` whatever the operands are.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}
