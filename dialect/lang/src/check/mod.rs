//! The checker: a source tree to a typed tree, or the reasons why not.
//!
//! A kernel is checked for one binding of its generic parameters. Dims and
//! `@autotune` parameters stay symbolic. A part that is wrong is reported once and
//! has no value (`None`); what depends on it is not reported again.

mod attributes;
mod builtin;
mod constant;
mod convert;
mod expr;
mod facts;
mod function;
mod grid;
mod operand;
mod poly;
mod show;
mod signature;
mod slice;
mod statement;

use std::collections::{BTreeMap, BTreeSet};

use phobos_artifact::{Access, Contract, DType, Element, format};

pub use builtin::{BUILTINS, BuiltinInfo};

use crate::{
    diagnostics::{Code, Diagnostic, Severity, Sink, nearest},
    parser::{MAX_DEPTH, MAX_HEIGHT},
    span::Span,
    tree::{self, GenericKind, Item, Module},
    typed::{
        self, Attributes, Dim, Expr, ParamConstraint, ParamMultiple, Stmt, Type, VarId, VarKind, Variable,
    },
};
use function::Frame;
use operand::Operand;
use poly::Poly;

/// The result of [`check`].
#[derive(Clone, Debug)]
pub struct Checked {
    /// The kernel, when neither the parser nor the checker found an error.
    pub kernel: Option<typed::Kernel>,
    /// In source order.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks one kernel of a module with its generic parameters bound.
pub fn check(module: &Module, kernel: &str, bindings: &BTreeMap<String, Element>) -> Checked {
    let mut checker = Checker::new(module);
    checker.module_names();
    let found = kernels(module).find(|candidate| candidate.name.name == kernel);
    let checked = match found {
        Some(ast) => checker.kernel(ast, bindings),
        None => {
            let names: Vec<&str> = kernels(module).map(|kernel| kernel.name.name.as_str()).collect();
            let listed = match names.is_empty() {
                true => "the text has no kernel".to_owned(),
                false => format!("kernels of the text: {}", names.join(", ")),
            };
            let meant = nearest(kernel, names).map(|meant| format!("did you mean `{meant}`?"));
            checker.error(
                Diagnostic::error(
                    Code::UnknownKernel,
                    Span::default(),
                    format!("there is no kernel `{kernel}`"),
                )
                .help(meant.unwrap_or(listed)),
            );
            None
        }
    };
    let failed = module.broken || checker.sink.has_errors();
    Checked { kernel: checked.filter(|_| !failed), diagnostics: checker.sink.finish() }
}

/// The kernels of a module in source order.
pub fn kernels(module: &Module) -> impl Iterator<Item = &tree::Kernel> {
    module.items.iter().filter_map(|item| match item {
        Item::Kernel(kernel) => Some(kernel),
        _ => None,
    })
}

/// Whether any of them is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// Statements, expressions and calls nest at most this deep: what the parser lets
/// through without functions always fits.
const MAX_LEVEL: usize = MAX_DEPTH + MAX_HEIGHT + 20;

/// What a variable name stands for.
#[derive(Clone, Copy, Debug)]
enum Binding {
    Var(VarId),
    /// Its declaration was wrong and was reported.
    Broken,
}

/// What the checker knows about a variable beside its type.
#[derive(Clone, Debug, Default)]
struct VarFacts {
    /// The value of an unchanging index variable.
    poly: Option<Poly>,
    /// A loop variable's first value and step.
    range: Option<(Poly, Poly)>,
    /// The program ids that the value depends on, as bits.
    programs: u8,
    /// A `let` whose value is a slice of a tensor.
    view: bool,
}

/// A loop or branch being checked.
#[derive(Debug)]
struct Body {
    /// Variables from this number on are declared inside.
    first: usize,
    assigned: BTreeSet<VarId>,
    /// Variables assigned through a slice.
    partly: BTreeSet<VarId>,
}

struct Checker<'a> {
    module: &'a Module,
    sink: Sink,
    functions: BTreeMap<&'a str, &'a tree::Function>,
    consts: BTreeMap<&'a str, Option<Operand>>,
    elements: BTreeMap<String, Option<Element>>,
    tensors: Vec<typed::Tensor>,
    reads: Vec<bool>,
    writes: Vec<bool>,
    /// Names of parameters whose declaration was wrong and was reported.
    broken_params: BTreeSet<String>,
    scalars: Vec<typed::Scalar>,
    dims: Vec<String>,
    required_dims: BTreeMap<String, Span>,
    params: Vec<typed::Param>,
    constraints: Vec<ParamConstraint>,
    multiples: Vec<ParamMultiple>,
    contracts: Vec<Contract>,
    attributes: Attributes,
    vars: Vec<Variable>,
    facts: Vec<VarFacts>,
    scopes: Vec<BTreeMap<String, Binding>>,
    bodies: Vec<Body>,
    /// Variables that may have no value yet.
    undefined: BTreeSet<VarId>,
    /// Statements that belong before the one being checked.
    pending: Vec<Stmt>,
    /// The moment, for [`poly::Atom::Var`]; also numbers opaque values.
    clock: u64,
    /// The function being inlined.
    frame: Option<Frame>,
    inlined: usize,
    /// The functions being inlined, from the outermost.
    calling: Vec<&'a str>,
    /// The value of the statement just checked is not needed.
    dropped: bool,
    /// Nested statements, expressions and calls being checked.
    level: usize,
    /// The program ids that the conditions around the current statement depend on, as bits.
    guards: u8,
    /// The element of the f16 tile that the value being checked goes to.
    accumulator: Option<DType>,
    slices: Vec<grid::SliceUse>,
    updates: Vec<grid::Update>,
    /// The program ids that the kernel reads, as bits.
    programs: u8,
    program_span: [Option<Span>; 3],
}

impl<'a> Checker<'a> {
    fn new(module: &'a Module) -> Checker<'a> {
        Checker {
            module,
            sink: Sink::default(),
            functions: BTreeMap::new(),
            consts: BTreeMap::new(),
            elements: BTreeMap::new(),
            tensors: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            broken_params: BTreeSet::new(),
            scalars: Vec::new(),
            dims: Vec::new(),
            required_dims: BTreeMap::new(),
            params: Vec::new(),
            constraints: Vec::new(),
            multiples: Vec::new(),
            contracts: Vec::new(),
            attributes: Attributes::default(),
            vars: Vec::new(),
            facts: Vec::new(),
            scopes: Vec::new(),
            bodies: Vec::new(),
            undefined: BTreeSet::new(),
            pending: Vec::new(),
            clock: 0,
            frame: None,
            inlined: 0,
            calling: Vec::new(),
            dropped: false,
            level: 0,
            guards: 0,
            accumulator: None,
            slices: Vec::new(),
            updates: Vec::new(),
            programs: 0,
            program_span: [None; 3],
        }
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        self.sink.push(diagnostic);
    }

    /// Runs `f` one level deeper. The parser bounds the nesting of what was written;
    /// this bounds what functions make of it.
    fn deeper<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.level >= MAX_LEVEL {
            return self.fail(
                Diagnostic::error(
                    Code::TooDeep,
                    span,
                    "this is nested too deeply once functions are inlined",
                )
                .help("name parts of it with `let`"),
            );
        }
        self.level += 1;
        let result = f(self);
        self.level -= 1;
        result
    }

    /// Reports and has no value.
    fn fail<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.sink.push(diagnostic);
        None
    }

    /// Collects functions and constants, and reports names used twice.
    fn module_names(&mut self) {
        let mut seen: BTreeMap<(bool, &str), Span> = BTreeMap::new();
        for item in &self.module.items {
            let (ident, kernel) = match item {
                Item::Kernel(kernel) => (&kernel.name, true),
                Item::Function(function) => (&function.name, false),
                Item::Const(constant) => (&constant.name, false),
                Item::Import(import) => {
                    self.error(
                        Diagnostic::error(Code::ImportFailed, import.span, "this import was not expanded")
                            .help("give the text through `import::expand`"),
                    );
                    continue;
                }
            };
            match seen.get(&(kernel, ident.name.as_str())) {
                Some(first) => {
                    let message = format!("`{}` is defined twice", ident.name);
                    let first = *first;
                    self.error(
                        Diagnostic::error(Code::DuplicateName, ident.span, message)
                            .related(first, "the first definition"),
                    );
                    continue;
                }
                None => drop(seen.insert((kernel, &ident.name), ident.span)),
            }
            match item {
                Item::Function(function) => {
                    self.function_name(function);
                }
                Item::Const(constant) => {
                    let value = self.constant(constant);
                    self.consts.insert(&constant.name.name, value);
                }
                _ => {}
            }
        }
    }

    fn function_name(&mut self, function: &'a tree::Function) {
        let name = function.name.name.as_str();
        if builtin::is_known(name) {
            let message = format!("`{name}` is the name of a builtin");
            self.error(
                Diagnostic::error(Code::DuplicateName, function.name.span, message)
                    .help("choose another name"),
            );
        } else {
            self.functions.insert(name, function);
        }
    }

    fn kernel(
        &mut self,
        ast: &'a tree::Kernel,
        bindings: &BTreeMap<String, Element>,
    ) -> Option<typed::Kernel> {
        let generics = self.bind_generics(ast, bindings);
        self.tuning_attributes(&ast.attributes);
        self.signature(ast);
        self.other_attributes(ast);
        self.scopes.push(BTreeMap::new());
        let body = self.block_inside(&ast.body);
        let grid = self.grid(ast);
        self.shared_updates(grid.as_ref());
        for (tensor, (read, written)) in self.tensors.iter_mut().zip(self.reads.iter().zip(&self.writes)) {
            tensor.access = match (read, written) {
                (_, false) => Access::Read,
                (false, true) => Access::Write,
                (true, true) => Access::ReadWrite,
            };
        }
        self.multiples.sort();
        self.multiples.dedup_by(|a, b| a.param == b.param && a.of == b.of);
        Some(typed::Kernel {
            name: ast.name.name.clone(),
            span: ast.name.span,
            generics,
            tensors: std::mem::take(&mut self.tensors),
            scalars: std::mem::take(&mut self.scalars),
            dims: std::mem::take(&mut self.dims),
            required_dims: std::mem::take(&mut self.required_dims),
            params: std::mem::take(&mut self.params),
            constraints: std::mem::take(&mut self.constraints),
            param_multiples: std::mem::take(&mut self.multiples),
            contracts: std::mem::take(&mut self.contracts),
            grid: grid?,
            attributes: std::mem::take(&mut self.attributes),
            vars: std::mem::take(&mut self.vars),
            body,
        })
    }

    fn bind_generics(
        &mut self,
        ast: &tree::Kernel,
        bindings: &BTreeMap<String, Element>,
    ) -> Vec<(String, Element)> {
        let mut bound = Vec::new();
        for generic in &ast.generics {
            let name = &generic.name.name;
            let element = bindings.get(name).copied();
            match (element, generic.kind) {
                (None, _) => {
                    let what =
                        if generic.kind == GenericKind::DType { "a scalar type" } else { "an element type" };
                    self.error(
                        Diagnostic::error(Code::BadGeneric, generic.span, format!("`{name}` is not bound"))
                            .help(format!("the request binds it to {what}, as in `--type {name}=f32`")),
                    );
                }
                (Some(Element::Block(format)), GenericKind::DType) => {
                    let message =
                        format!("`{name}` is a dtype and cannot be the block format {}", format.name);
                    self.error(
                        Diagnostic::error(Code::BadGeneric, generic.span, message)
                            .help(format!("declare `{name}: format`, or bind a scalar type")),
                    );
                }
                (Some(element), _) => bound.push((name.clone(), element)),
            }
            let usable = bound.last().filter(|(last, _)| last == name).map(|(_, element)| *element);
            if self.elements.insert(name.clone(), usable).is_some() {
                let message = format!("generic parameter `{name}` is declared twice");
                self.error(Diagnostic::error(Code::DuplicateName, generic.span, message));
            }
        }
        for name in bindings.keys().filter(|name| !self.elements.contains_key(*name)) {
            let message = format!("kernel `{}` has no generic parameter `{name}`", ast.name.name);
            self.sink.push(Diagnostic::error(Code::BadGeneric, ast.name.span, message));
        }
        bound
    }

    fn declare(&mut self, name: &tree::Ident, ty: Type, kind: VarKind) -> VarId {
        let id = VarId(self.vars.len());
        self.vars.push(Variable { name: name.name.clone(), ty, kind, span: name.span });
        self.facts.push(VarFacts::default());
        self.bind_name(name, Binding::Var(id));
        id
    }

    fn bind_name(&mut self, name: &tree::Ident, binding: Binding) {
        let Some(scope) = self.scopes.last_mut() else { return };
        let before = scope.insert(name.name.clone(), binding);
        if let Some(Binding::Var(before)) = before {
            let message = format!("`{}` is already declared in this block", name.name);
            let mut diagnostic = Diagnostic::error(Code::DuplicateName, name.span, message)
                .help("choose another name, or assign to it if it is a `var`");
            if let Some(first) = self.vars.get(before.0) {
                diagnostic = diagnostic.related(first.span, "the first declaration");
            }
            self.error(diagnostic);
        }
    }

    fn lookup(&self, name: &str) -> Option<Binding> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    fn tensor_named(&self, name: &str) -> Option<typed::TensorId> {
        if self.frame.is_some() || self.lookup(name).is_some() {
            return None;
        }
        self.tensors.iter().position(|tensor| tensor.name == name).map(typed::TensorId)
    }

    /// The name of an element: a scalar type, a block format or a generic parameter.
    fn element(&mut self, name: &tree::Ident) -> Option<Element> {
        let generics = self.frame.as_ref().map_or(&self.elements, |frame| &frame.elements);
        if let Some(element) = generics.get(&name.name) {
            return *element;
        }
        if let Ok(element) = name.name.parse() {
            return Some(element);
        }
        let known = DType::ALL.iter().map(|dtype| dtype.name());
        let known = known.chain(format::ALL.iter().map(|format| format.name));
        let known = known.chain(format::ACTIVATIONS.iter().map(|format| format.name));
        let known: Vec<&str> = known.chain(generics.keys().map(String::as_str)).collect();
        let help = match nearest(&name.name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known elements: {}", known.join(", ")),
        };
        let message = format!("unknown element type `{}`", name.name);
        self.fail(Diagnostic::error(Code::UnknownType, name.span, message).help(help))
    }

    /// Notes that a tile has this extent, which must therefore be known at compile time.
    fn require(&mut self, dim: &Dim, span: Span) {
        if let Dim::TensorDim(name) = dim {
            self.required_dims.entry(name.clone()).or_insert(span);
        }
    }

    /// A new variable without a name in the source, whose value is evaluated before
    /// the current statement.
    fn hoist(&mut self, name: &str, value: Expr) -> Expr {
        let (span, ty) = (value.span, value.ty.clone());
        let id = VarId(self.vars.len());
        self.vars.push(Variable { name: name.to_owned(), ty: ty.clone(), kind: VarKind::Let, span });
        let facts =
            VarFacts { poly: self.poly(&value), programs: self.programs_of(&value), ..VarFacts::default() };
        self.facts.push(facts);
        self.pending.push(Stmt { kind: typed::StmtKind::Let { var: id, value }, span });
        Expr { kind: typed::ExprKind::Var(id), ty, span }
    }
}
