//! One case: a kernel, its arguments, and what must come out.

use std::collections::BTreeMap;

use phobos_artifact::{Chip, CompileOptions, CompileRequest, DType, Element, HostLevel};

use super::data::Data;
use crate::scalar::Scalar;

/// How far a result may lie from the reference: `absolute + relative * |reference|`.
/// NaN must be NaN, and an infinity the same one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The absolute part.
    pub absolute: f64,
    /// The relative part.
    pub relative: f64,
}

impl Tolerance {
    /// Equal values; zeros of either sign are equal.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

    /// Relative to the reference.
    pub const fn relative(relative: f64) -> Tolerance {
        Tolerance { absolute: 0.0, relative }
    }

    /// For a sum of `terms` products of factors up to `size`, added as `f32` in any order: half
    /// an ulp of the largest partial sum for each term, and as much again for the
    /// rounding of the products.
    pub fn sum(terms: u64, size: f64) -> Tolerance {
        let terms = terms.max(1) as f64;
        Tolerance { absolute: 2.0 * terms * size * f64::from(f32::EPSILON), relative: 1e-6 }
    }

    /// Whether `found` is good enough for `wanted`.
    pub fn accepts(self, wanted: f64, found: f64) -> bool {
        if wanted.is_nan() || found.is_nan() {
            return wanted.is_nan() && found.is_nan();
        }
        wanted == found
            || (wanted.is_finite() && (wanted - found).abs() <= self.absolute + self.relative * wanted.abs())
    }
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operation, by which cases are chosen: `dot_t f16`.
    pub op: String,
    pub(super) request: CompileRequest,
    pub(super) arguments: Vec<(String, Value)>,
}

/// An argument of a case.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Scalar(Scalar),
    /// A tensor that the kernel reads.
    Input(Data),
    /// A tensor that the kernel writes.
    Output(Output),
}

/// A tensor that the kernel writes, and what it must hold afterwards.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub element: Element,
    pub shape: Vec<u64>,
    /// The bytes before; poison without.
    pub before: Option<Vec<u8>>,
    pub wanted: Vec<f64>,
    pub tolerance: Tolerance,
    /// What each element may be further off, for errors that no one number bounds; none
    /// when it is empty.
    pub slack: Vec<f64>,
}

impl Case {
    /// A case of `kernel` in `source`.
    pub fn new(op: impl Into<String>, source: impl Into<String>, kernel: &str) -> Case {
        Case {
            op: op.into(),
            request: CompileRequest {
                source: source.into(),
                kernel: kernel.to_owned(),
                elements: BTreeMap::new(),
                dims: BTreeMap::new(),
                ranges: BTreeMap::new(),
                params: BTreeMap::new(),
                options: CompileOptions::default(),
                // `request_for` puts the device's chip here.
                chip: Chip::Host(HostLevel::V2),
            },
            arguments: Vec::new(),
        }
    }

    /// Binds a generic parameter.
    pub fn element(mut self, name: &str, element: Element) -> Case {
        self.request.elements.insert(name.to_owned(), element);
        self
    }

    /// Binds a dim at compile time.
    pub fn bind(mut self, name: &str, value: u64) -> Case {
        self.request.dims.insert(name.to_owned(), value);
        self
    }

    /// Chooses an `@autotune` parameter.
    pub fn param(mut self, name: &str, value: u64) -> Case {
        self.request.params.insert(name.to_owned(), value);
        self
    }

    /// A scalar argument.
    pub fn scalar(mut self, name: &str, value: impl Into<Scalar>) -> Case {
        self.arguments.push((name.to_owned(), Value::Scalar(value.into())));
        self
    }

    /// A tensor that is read.
    pub fn input(mut self, name: &str, data: &Data) -> Case {
        self.arguments.push((name.to_owned(), Value::Input(data.clone())));
        self
    }

    /// An `f32` tensor that is written whole.
    pub fn output(self, name: &str, shape: &[u64], wanted: Vec<f64>, tolerance: Tolerance) -> Case {
        self.typed_output(name, DType::F32, shape, wanted, tolerance)
    }

    /// A tensor that is written whole.
    pub fn typed_output(
        self,
        name: &str,
        dtype: DType,
        shape: &[u64],
        wanted: Vec<f64>,
        tolerance: Tolerance,
    ) -> Case {
        self.element_output(name, Element::Scalar(dtype), shape, wanted, tolerance)
    }

    /// A tensor that is written whole, compared by its decoded values. (Blocks in rows
    /// alone: no kernel writes others.)
    pub fn element_output(
        mut self,
        name: &str,
        element: Element,
        shape: &[u64],
        wanted: Vec<f64>,
        tolerance: Tolerance,
    ) -> Case {
        let slack = Vec::new();
        let output = Output { element, shape: shape.to_vec(), before: None, wanted, tolerance, slack };
        self.arguments.push((name.to_owned(), Value::Output(output)));
        self
    }

    /// Lets each element of the last output be off by so much more.
    pub fn within(mut self, slack: Vec<f64>) -> Case {
        if let Some((_, Value::Output(output))) = self.arguments.last_mut() {
            output.slack = slack;
        }
        self
    }

    /// A tensor that is updated in place, or written in part.
    pub fn update(mut self, name: &str, before: &Data, wanted: Vec<f64>, tolerance: Tolerance) -> Case {
        let output = Output {
            element: before.element,
            shape: before.shape.clone(),
            before: Some(before.bytes.clone()),
            wanted,
            tolerance,
            slack: Vec::new(),
        };
        self.arguments.push((name.to_owned(), Value::Output(output)));
        self
    }

    /// The request for the kernel on `chip`.
    pub fn request_for(&self, chip: Chip) -> CompileRequest {
        CompileRequest { chip, ..self.request.clone() }
    }

    /// The shapes, parameters and bound dims, for reports: `X[17, 33] Y[17, 1] TILE=32`.
    pub fn label(&self) -> String {
        let mut parts: Vec<String> = self
            .arguments
            .iter()
            .filter_map(|(name, value)| match value {
                Value::Input(data) => Some(format!("{name}{:?}", data.shape)),
                Value::Output(output) => Some(format!("{name}{:?}", output.shape)),
                Value::Scalar(_) => None,
            })
            .collect();
        parts.extend(
            self.request
                .params
                .iter()
                .chain(&self.request.dims)
                .map(|(name, value)| format!("{name}={value}")),
        );
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances() {
        let tolerance = Tolerance { absolute: 0.5, relative: 0.1 };
        assert!(tolerance.accepts(10.0, 11.5) && !tolerance.accepts(10.0, 11.6));
        assert!(tolerance.accepts(f64::NAN, f64::NAN) && !tolerance.accepts(1.0, f64::NAN));
        assert!(!tolerance.accepts(f64::NAN, 1.0) && !tolerance.accepts(1.0, f64::INFINITY));
        assert!(tolerance.accepts(f64::INFINITY, f64::INFINITY));
        assert!(!tolerance.accepts(f64::INFINITY, 1e30) && !tolerance.accepts(f64::INFINITY, -f64::INFINITY));
        assert!(Tolerance::EXACT.accepts(0.0, -0.0) && !Tolerance::EXACT.accepts(1.0, 1.0 + 1e-15));
    }
}
