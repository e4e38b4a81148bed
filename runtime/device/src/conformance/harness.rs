//! Runs cases and looks at everything that they touched.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Compile,
    case::{Case, Output, Tolerance, Value},
    data::{decode_element, poison},
    report::{Failure, Problem, Report},
};
use crate::{
    buffer::Buffer, device::Device, error::DeviceError, kernel::Kernel, launch::Launch, tensor::Tensor,
};
use phobos_artifact::Element;

/// Elements or blocks of poison before and after every tensor. Whole multiples of 64
/// bytes for every element, so tensors stay aligned.
const GUARD: usize = 4096;

pub(super) struct Harness<'a> {
    device: &'a dyn Device,
    compile: Compile<'a>,
    /// Kernels by request; `None` once one has failed.
    kernels: BTreeMap<String, Option<Kernel>>,
    report: Report,
}

/// A tensor on the device between its guards.
struct Guarded {
    tensor: Tensor,
    before: Vec<u8>,
    guard: usize,
}

impl<'a> Harness<'a> {
    pub fn new(device: &'a dyn Device, compile: Compile<'a>) -> Harness<'a> {
        Harness { device, compile, kernels: BTreeMap::new(), report: Report::default() }
    }

    pub fn finish(self) -> Report {
        self.report
    }

    pub fn run(&mut self, case: &Case) {
        let Some(kernel) = self.kernel(case) else {
            self.report.skipped += 1;
            return;
        };
        self.report.cases += 1;
        match self.launch(case, &kernel) {
            Ok(problems) => problems.into_iter().for_each(|problem| self.fail(case, problem)),
            Err(error) => self.fail(case, Problem::Run(error.to_string())),
        }
    }

    fn fail(&mut self, case: &Case, problem: Problem) {
        self.report.failures.push(Failure { op: case.op.clone(), case: case.label(), problem });
    }

    /// The kernel of a case, compiled at the first use.
    fn kernel(&mut self, case: &Case) -> Option<Kernel> {
        let request = match self.device.chips().first() {
            Some(chip) => case.request_for(*chip),
            None => case.request.clone(),
        };
        let key = format!("{request:?}");
        if let Some(kernel) = self.kernels.get(&key) {
            return kernel.clone();
        }
        let loaded = (self.compile)(&request).map_err(Problem::Compile).and_then(|artifact| {
            self.device.load(&artifact).map_err(|error| Problem::Load(error.to_string()))
        });
        let kernel = match loaded {
            Ok(kernel) => Some(kernel),
            Err(problem) => {
                self.fail(case, problem);
                None
            }
        };
        self.kernels.insert(key, kernel.clone());
        kernel
    }

    fn launch(&self, case: &Case, kernel: &Kernel) -> Result<Vec<Problem>, DeviceError> {
        let mut tensors = BTreeMap::new();
        for (name, value) in &case.arguments {
            let guarded = match value {
                Value::Input(data) => self.place(data.element, &data.shape, Some(&data.bytes))?,
                Value::Output(output) => {
                    self.place(output.element, &output.shape, output.before.as_deref())?
                }
                Value::Scalar(_) => continue,
            };
            tensors.insert(name.as_str(), guarded);
        }
        let mut launch = Launch::new(kernel);
        for (name, value) in &case.arguments {
            launch = match (value, tensors.get(name.as_str())) {
                (Value::Scalar(scalar), _) => launch.scalar(name, *scalar),
                (_, Some(guarded)) => launch.tensor(name, &guarded.tensor),
                (_, None) => launch,
            };
        }
        launch.run(self.device)?;
        self.device.synchronize()?;

        let mut problems = Vec::new();
        for (name, value) in &case.arguments {
            let Some(guarded) = tensors.get(name.as_str()) else { continue };
            let mut after = vec![0; guarded.before.len()];
            self.device.read(&guarded.tensor.buffer, 0, &mut after)?;
            problems.extend(guarded.problems(name, value, &after));
        }
        Ok(problems)
    }

    fn place(&self, element: Element, shape: &[u64], content: Option<&[u8]>) -> Result<Guarded, DeviceError> {
        let poison = poison(element);
        let guard = GUARD * poison.len();
        let elements = super::data::count(shape) / element.block_elements();
        let mut before = poison.repeat(GUARD);
        match content {
            Some(content) => before.extend(device_layout(element, shape, content)?),
            None => before.extend(poison.repeat(elements)),
        }
        before.extend(poison.repeat(GUARD));
        let buffer: Buffer = self.device.allocate(before.len() as u64)?;
        self.device.write(&buffer, 0, &before)?;
        let tensor = Tensor::new(&buffer, guard as u64, element, shape)?;
        Ok(Guarded { tensor, before, guard })
    }
}

/// The bytes of a tensor in the order that kernels expect.
fn device_layout(element: Element, shape: &[u64], content: &[u8]) -> Result<Vec<u8>, DeviceError> {
    element.to_device(shape, content).map_err(|_| DeviceError::Shape {
        element,
        shape: shape.to_vec(),
        block: element.block_elements(),
    })
}

impl Guarded {
    /// What is wrong with the bytes `after` the launch.
    fn problems(&self, name: &str, value: &Value, after: &[u8]) -> Vec<Problem> {
        let (start, end) = (self.guard, self.before.len() - self.guard);
        let guards = [0..start, end..self.before.len()];
        let mut problems = Vec::new();
        if let Some(at) = guards.into_iter().find_map(|guard| self.changed(after, guard)) {
            let offset = at as i64 - start as i64;
            problems.push(Problem::Guard { tensor: name.to_owned(), offset });
        }
        match value {
            Value::Scalar(_) => {}
            Value::Input(_) => problems.extend(
                self.changed(after, start..end)
                    .map(|at| Problem::InputChanged { tensor: name.to_owned(), offset: at - start }),
            ),
            Value::Output(output) => {
                problems.extend(compare(name, output, after.get(start..end).unwrap_or_default()));
            }
        }
        problems
    }

    /// The first byte of `range` that the launch changed.
    fn changed(&self, after: &[u8], range: Range<usize>) -> Option<usize> {
        let (before, after) = (self.before.get(range.clone())?, after.get(range.clone())?);
        if before == after {
            return None;
        }
        before.iter().zip(after).position(|(before, after)| before != after).map(|at| range.start + at)
    }
}

/// Compares an output with its reference.
fn compare(name: &str, output: &Output, bytes: &[u8]) -> Option<Problem> {
    let found = decode_element(output.element, bytes);
    let mut wrong = output.wanted.iter().zip(&found).enumerate().filter(|(at, (wanted, found))| {
        let slack = output.slack.get(*at).copied().unwrap_or(0.0);
        let absolute = output.tolerance.absolute + slack;
        !Tolerance { absolute, ..output.tolerance }.accepts(**wanted, **found)
    });
    let (at, (wanted, found_first)) = match wrong.next() {
        Some(first) => first,
        // A reference of another length is a mistake of the case.
        None if output.wanted.len() == found.len() => return None,
        None => (output.wanted.len().min(found.len()), (&f64::NAN, &f64::NAN)),
    };
    Some(Problem::Value {
        tensor: name.to_owned(),
        index: position(at as u64, &output.shape),
        wanted: *wanted,
        found: *found_first,
        wrong: 1 + wrong.count(),
        of: found.len(),
    })
}

/// The index of the element at a row-major position.
fn position(mut at: u64, shape: &[u64]) -> Vec<u64> {
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let extent = (*extent).max(1);
            let along = at % extent;
            at /= extent;
            along
        })
        .collect();
    index.reverse();
    index
}
