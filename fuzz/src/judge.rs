//! One program: checked, run by the oracle and by the compiler, and compared.

use std::{collections::BTreeMap, fmt, io};

use phobos_artifact::{Chip, CompileOptions, CompileRequest, Element, HostLevel};
use phobos_lang::{
    SourceFile,
    diagnostics::{RenderOptions, render},
    typed::Kernel,
};

use crate::{
    data::encode,
    execute::{Executor, Job, Reply, ScalarArgument, TensorArgument},
    number::Number,
    oracle::{
        self, Bindings, Stop,
        memory::{self, Memory},
        tile,
    },
    program::{KERNEL, Program},
};

/// A program that means something, and what it must leave.
pub struct Prepared {
    /// The text.
    pub source: String,
    /// The tensors afterwards.
    pub wanted: Vec<Memory>,
    job: Job,
}

/// Why a program is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// The checker refuses it: a fault of the generator.
    #[error("{0}")]
    Refused(String),
    /// The oracle cannot say what it does.
    #[error("{0}")]
    Stopped(#[from] Stop),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An element is not what it must be.
    Value {
        /// The tensor.
        tensor: String,
        /// The position.
        at: Vec<usize>,
        /// What the oracle says.
        wanted: Number,
        /// What the kernel left.
        found: Number,
        /// Whether the kernel writes the element at all.
        written: bool,
        /// How many elements are wrong.
        wrong: usize,
    },
    /// A correct program does not compile.
    Compile(String),
    /// It does not load or launch.
    Run(String),
    /// It wrote outside a tensor.
    Guard(String),
    /// The compiler or the kernel ended the process.
    Crash(String),
    /// The compiler or the kernel does not end.
    Hang,
}

impl Fault {
    /// Whether two faults may well be one: the shrinker keeps to it.
    pub fn resembles(&self, other: &Fault) -> bool {
        match (self, other) {
            (Fault::Compile(a), Fault::Compile(b)) | (Fault::Run(a), Fault::Run(b)) => {
                outline(a) == outline(b)
            }
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// One line that names it, without what differs from program to program.
    pub fn outline(&self) -> String {
        match self {
            Fault::Value { .. } => "wrong value".to_owned(),
            Fault::Compile(text) => outline(text),
            Fault::Run(text) => format!("run: {}", outline(text)),
            Fault::Guard(_) => "wrote outside".to_owned(),
            Fault::Crash(text) => format!("crash: {}", outline(text)),
            Fault::Hang => "no end".to_owned(),
        }
    }
}

/// The first line without numbers and names in quotes.
fn outline(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect::<String>()
        .replace("00", "0")
        .replace("00", "0")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Value { tensor, at, wanted, found, written, wrong } => {
                let what = if *written { "" } else { ", which the kernel does not write" };
                write!(
                    f,
                    "{tensor}{at:?}{what}: wanted {wanted:?}, found {found:?} ({wrong} elements are wrong)"
                )
            }
            Fault::Compile(text) | Fault::Run(text) | Fault::Guard(text) | Fault::Crash(text) => {
                f.write_str(text)
            }
            Fault::Hang => f.write_str("it does not end"),
        }
    }
}

/// Checks a program and runs it by the oracle.
pub fn prepare(program: &Program) -> Result<Prepared, Skip> {
    let source = program.text();
    let kernel = check(&source)?;
    let mut tensors = Vec::new();
    let mut wanted = Vec::new();
    for tensor in &program.tensors {
        let shape = program.shape(tensor);
        let bytes = tensor.fill.bytes(tensor.element, &shape);
        wanted.push(Memory::new(tensor.element, &shape, &bytes));
        tensors.push(TensorArgument { name: tensor.name.clone(), element: tensor.element, shape, bytes });
    }
    let scalars: Vec<ScalarArgument> = program
        .scalars
        .iter()
        .map(|scalar| ScalarArgument {
            name: scalar.name.clone(),
            dtype: scalar.dtype,
            bytes: encode(scalar.dtype, scalar.value),
        })
        .collect();
    let bindings = Bindings {
        names: program.names(),
        scalars: scalars.iter().map(|scalar| memory::scalar(scalar.dtype, &scalar.bytes)).collect(),
    };
    oracle::run(&kernel, &bindings, &mut wanted)?;
    let request = CompileRequest {
        source: source.clone(),
        kernel: KERNEL.to_owned(),
        elements: BTreeMap::new(),
        dims: program.bound_dims(),
        ranges: BTreeMap::new(),
        params: program.params(),
        options: CompileOptions::default(),
        chip: Chip::Host(HostLevel::V2),
    };
    Ok(Prepared { source, wanted, job: Job { request, tensors, scalars } })
}

/// The kernel of a text, or what the checker says first.
pub fn check(text: &str) -> Result<Kernel, Skip> {
    let source = SourceFile::new("kernel.ph", text);
    let (module, mut diagnostics) = phobos_lang::parse(&source);
    let checked = phobos_lang::check(&module, KERNEL, &BTreeMap::new());
    diagnostics.extend(checked.diagnostics);
    checked.kernel.ok_or_else(|| {
        let text = diagnostics.first().map(|first| render(first, &source, RenderOptions::default()));
        Skip::Refused(text.unwrap_or_default())
    })
}

impl Prepared {
    /// What is wrong with the program at a level, if anything.
    ///
    /// # Errors
    /// When no executor can be started.
    pub fn judge(&self, level: HostLevel, executor: &mut Executor) -> io::Result<Option<Fault>> {
        let mut job = self.job.clone();
        job.request.chip = Chip::Host(level);
        Ok(match executor.run(&job)? {
            Reply::Done(outputs) => self.compare(&outputs),
            Reply::Compile { text, .. } => Some(Fault::Compile(text)),
            Reply::Run(text) => Some(Fault::Run(text)),
            Reply::Guard { tensor, offset } => {
                Some(Fault::Guard(format!("wrote at byte {offset} of {tensor}")))
            }
            Reply::Crash(text) => Some(Fault::Crash(text)),
            Reply::Hang => Some(Fault::Hang),
        })
    }

    fn compare(&self, outputs: &[Vec<u8>]) -> Option<Fault> {
        let tensors = self.job.tensors.iter().zip(&self.wanted).zip(outputs);
        tensors.filter_map(|((tensor, wanted), bytes)| compare(tensor, wanted, bytes)).next()
    }
}

fn compare(tensor: &TensorArgument, wanted: &Memory, bytes: &[u8]) -> Option<Fault> {
    let touched = wanted.written.contains(&true);
    let as_it_was = crate::execute::device_layout(tensor)?;
    if !touched && as_it_was == bytes {
        return None;
    }
    // Weights are not written by kernels, so what is decoded here lies in rows.
    let found = match tensor.element {
        Element::Block(format) if format.largest_code().is_none() => Vec::new(),
        element => memory::decode(element, bytes),
    };
    let mut first = None;
    let mut wrong = 0;
    for (lane, value) in wanted.cells.iter().enumerate() {
        let found = found.get(lane).copied().unwrap_or(Number::Unknown);
        let right = accepts(*value, found) && same_block(tensor.element, wanted, lane, bytes);
        if !right {
            wrong += 1;
            first = first.or(Some((lane, *value, found)));
        }
    }
    let (lane, value, found) = first?;
    Some(Fault::Value {
        tensor: tensor.name.clone(),
        at: tile::position(&wanted.shape, lane),
        wanted: value,
        found,
        written: wanted.written[lane],
        wrong,
    })
}

/// Whether a result is one that the language allows.
fn accepts(wanted: Number, found: Number) -> bool {
    match (wanted, found) {
        (Number::Unknown, _) => true,
        (Number::Float { lo, hi }, Number::Float { lo: value, .. }) => (lo..=hi).contains(&value),
        (wanted, found) => wanted == found,
    }
}

/// Blocks that kernels make are compared by their bytes, where these are known: the sums that
/// they hold are not among the decoded elements.
fn same_block(element: Element, wanted: &Memory, lane: usize, bytes: &[u8]) -> bool {
    let Element::Block(format) = element else { return true };
    let block = lane / format.elements;
    match wanted.blocks.get(block) {
        Some(Some(wanted)) => bytes.get(block * format.bytes..(block + 1) * format.bytes) == Some(wanted),
        _ => true,
    }
}
