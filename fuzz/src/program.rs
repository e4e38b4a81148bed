//! A generated program: its text as a tree that can be cut down, and what it runs with.

use std::{collections::BTreeMap, fmt::Write};

use phobos_artifact::{DType, Element};

use crate::data::Fill;

/// A piece of text with terms in it, each of which could stand for the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Term {
    /// In order.
    pub parts: Vec<Part>,
}

/// A part of a term.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// A term within.
    Term(Term),
    /// The name or number of an extent.
    Extent(usize),
}

impl Term {
    /// A term of one text.
    pub fn text(text: impl Into<String>) -> Term {
        Term { parts: vec![Part::Text(text.into())] }
    }

    /// A template: `#` stands for the next of `terms`.
    pub fn of(template: &str, terms: impl IntoIterator<Item = Term>) -> Term {
        let mut terms = terms.into_iter();
        let mut parts = Vec::new();
        for (index, text) in template.split('#').enumerate() {
            if index > 0 {
                parts.extend(terms.next().map(Part::Term));
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
        }
        Term { parts }
    }

    /// An extent.
    pub fn extent(id: usize) -> Term {
        Term { parts: vec![Part::Extent(id)] }
    }

    /// The terms within.
    pub fn children(&self) -> impl Iterator<Item = &Term> {
        self.parts.iter().filter_map(|part| match part {
            Part::Term(term) => Some(term),
            _ => None,
        })
    }

    fn print(&self, extents: &[Extent], text: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Term(term) => term.print(extents, text),
                Part::Extent(id) => text.push_str(&extents[*id].text()),
            }
        }
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// One line.
    Line(Term),
    /// `head {` body `}` and perhaps `else {` otherwise `}`.
    Block {
        /// What stands before the brace.
        head: Term,
        /// The body.
        body: Vec<Statement>,
        /// Behind `else`.
        otherwise: Option<Vec<Statement>>,
    },
}

/// How an extent is written.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtentName {
    /// As its value.
    Number,
    /// As an `@autotune` parameter with these candidates; the value is the choice.
    Param(String, Vec<u64>),
    /// As a dim of tensors, bound when compiling or not.
    Dim(String, bool),
}

/// An extent of tiles and tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// How it is written.
    pub name: ExtentName,
    /// What it is.
    pub value: u64,
}

impl Extent {
    /// How it is written.
    pub fn text(&self) -> String {
        match &self.name {
            ExtentName::Number => self.value.to_string(),
            ExtentName::Param(name, _) | ExtentName::Dim(name, _) => name.clone(),
        }
    }
}

/// A tensor parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The name.
    pub name: String,
    /// The element type.
    pub element: Element,
    /// Extents, outermost first.
    pub dims: Vec<usize>,
    /// What it holds.
    pub fill: Fill,
}

/// A scalar parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    /// The name.
    pub name: String,
    /// The type.
    pub dtype: DType,
    /// The argument; rounded to the type.
    pub value: f64,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// All extents; terms name them by number.
    pub extents: Vec<Extent>,
    /// The tensor parameters.
    pub tensors: Vec<Tensor>,
    /// The scalar parameters.
    pub scalars: Vec<Scalar>,
    /// The arguments of `@grid`; without any it follows from the stores.
    pub grid: Vec<Term>,
    /// Functions before the kernel, as text.
    pub functions: Vec<String>,
    /// The kernel's body.
    pub body: Vec<Statement>,
}

/// The name of every kernel.
pub const KERNEL: &str = "k";

impl Program {
    /// The program as a `.ph` text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for function in &self.functions {
            text.push_str(function);
            text.push('\n');
        }
        let params: Vec<String> = self
            .extents
            .iter()
            .filter_map(|extent| match &extent.name {
                ExtentName::Param(name, values) => {
                    let values: Vec<String> = values.iter().map(u64::to_string).collect();
                    Some(format!("{name} in [{}]", values.join(", ")))
                }
                _ => None,
            })
            .collect();
        if !params.is_empty() {
            let _ = writeln!(text, "@autotune({})", params.join(", "));
        }
        if !self.grid.is_empty() {
            let grid: Vec<String> = self.grid.iter().map(|term| self.print(term)).collect();
            let _ = writeln!(text, "@grid({})", grid.join(", "));
        }
        let mut arguments: Vec<String> = self
            .tensors
            .iter()
            .map(|tensor| {
                let dims: Vec<String> = tensor.dims.iter().map(|id| self.extents[*id].text()).collect();
                format!("{}: tensor<{}>[{}]", tensor.name, tensor.element, dims.join(", "))
            })
            .collect();
        arguments.extend(self.scalars.iter().map(|scalar| format!("{}: {}", scalar.name, scalar.dtype)));
        let _ = writeln!(text, "kernel {KERNEL}({}) {{", arguments.join(", "));
        self.print_block(&self.body, 1, &mut text);
        text.push_str("}\n");
        text
    }

    /// A term as text.
    pub fn print(&self, term: &Term) -> String {
        let mut text = String::new();
        term.print(&self.extents, &mut text);
        text
    }

    fn print_block(&self, block: &[Statement], depth: usize, text: &mut String) {
        let indent = "  ".repeat(depth);
        for statement in block {
            match statement {
                Statement::Line(term) => {
                    let _ = writeln!(text, "{indent}{}", self.print(term));
                }
                Statement::Block { head, body, otherwise } => {
                    let _ = writeln!(text, "{indent}{} {{", self.print(head));
                    self.print_block(body, depth + 1, text);
                    if let Some(otherwise) = otherwise {
                        let _ = writeln!(text, "{indent}}} else {{");
                        self.print_block(otherwise, depth + 1, text);
                    }
                    let _ = writeln!(text, "{indent}}}");
                }
            }
        }
    }

    /// The extents of a tensor.
    pub fn shape(&self, tensor: &Tensor) -> Vec<u64> {
        tensor.dims.iter().map(|id| self.extents[*id].value).collect()
    }

    /// The `@autotune` parameters and their choices.
    pub fn params(&self) -> BTreeMap<String, u64> {
        self.named(|name| match name {
            ExtentName::Param(name, _) => Some(name),
            _ => None,
        })
    }

    /// The dims that are bound when compiling.
    pub fn bound_dims(&self) -> BTreeMap<String, u64> {
        self.named(|name| match name {
            ExtentName::Dim(name, true) => Some(name),
            _ => None,
        })
    }

    /// Every name of an extent.
    pub fn names(&self) -> BTreeMap<String, u64> {
        self.named(|name| match name {
            ExtentName::Param(name, _) | ExtentName::Dim(name, _) => Some(name),
            ExtentName::Number => None,
        })
    }

    fn named(&self, choose: impl Fn(&ExtentName) -> Option<&String>) -> BTreeMap<String, u64> {
        self.extents
            .iter()
            .filter_map(|extent| choose(&extent.name).map(|name| (name.clone(), extent.value)))
            .collect()
    }
}
