//! One launch: arguments by name, checked against the kernel's metadata.

use std::{collections::BTreeMap, ops::Range};

use phobos_artifact::grid::GridError;

use crate::{
    buffer::Permission,
    device::Device,
    error::{DeviceError, LaunchError, LaunchFault},
    kernel::Kernel,
    scalar::Scalar,
    signature::{ArgumentKind, ArgumentSpec, Check, ExtentSpec, MAX_ARGUMENTS, MAX_DIMS},
    tensor::Tensor,
};

/// Collects the arguments of a launch.
///
/// Dims need not be given where a tensor's shape has them. The first mistake is kept
/// and returned by [`Launch::check`] or [`Launch::run`].
///
/// ```no_run
/// # fn f(device: &dyn phobos_device::Device, kernel: &phobos_device::Kernel, x: &phobos_device::Tensor)
/// # -> Result<(), phobos_device::DeviceError> {
/// phobos_device::Launch::new(kernel).tensor("X", x).scalar("eps", 1e-5f32).run(device)
/// # }
/// ```
pub struct Launch<'a> {
    kernel: &'a Kernel,
    values: [Value<'a>; MAX_ARGUMENTS],
    mistake: Option<Box<LaunchFault>>,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Missing,
    Tensor(&'a Tensor),
    Scalar(Scalar),
    Dim(u64),
}

impl Value<'_> {
    fn noun(&self) -> &'static str {
        match self {
            Value::Missing => "nothing",
            Value::Tensor(_) => "tensor",
            Value::Scalar(_) => "scalar",
            Value::Dim(_) => "dim",
        }
    }
}

/// A launch that has passed every check: what a device runs.
///
/// Only [`Launch::check`] makes one, so a device may rely on what it states: every
/// tensor lies inside its buffer, aligned to its element, on the kernel's device;
/// written tensors are writable and share no byte with another argument; dims, bound
/// dims and contracts hold; the grid is within limits.
pub struct CheckedLaunch<'a> {
    kernel: &'a Kernel,
    slots: [u64; MAX_ARGUMENTS],
    tensors: [Option<&'a Tensor>; MAX_ARGUMENTS],
    grid: [u64; 3],
}

impl<'a> CheckedLaunch<'a> {
    /// The kernel that was checked against.
    pub fn kernel(&self) -> &'a Kernel {
        self.kernel
    }

    /// One slot per argument in ABI order: addresses, bits of scalars, dims.
    pub fn slots(&self) -> &[u64] {
        let count = self.kernel.signature().arguments.len();
        self.slots.get(..count).unwrap_or(&self.slots)
    }

    /// The tensors in ABI order, for devices that track memory by buffer.
    pub fn tensors(&self) -> impl Iterator<Item = &'a Tensor> + '_ {
        self.tensors.iter().flatten().copied()
    }

    /// Programs along x, y and z.
    pub fn grid(&self) -> [u64; 3] {
        self.grid
    }

    /// The same, alive for as long as it is wanted.
    pub fn to_owned(&self) -> OwnedLaunch {
        let tensors = self.tensors().cloned().collect();
        OwnedLaunch { kernel: self.kernel.clone(), slots: self.slots, tensors, grid: self.grid }
    }

    /// Programs altogether.
    pub fn programs(&self) -> u64 {
        self.grid.iter().fold(1, |product, extent| product.saturating_mul(*extent))
    }
}

/// A checked launch that holds its kernel and its tensors.
#[derive(Clone)]
pub struct OwnedLaunch {
    kernel: Kernel,
    slots: [u64; MAX_ARGUMENTS],
    tensors: Vec<Tensor>,
    grid: [u64; 3],
}

impl OwnedLaunch {
    /// The launch.
    pub fn checked(&self) -> CheckedLaunch<'_> {
        let mut tensors = [None; MAX_ARGUMENTS];
        for (slot, tensor) in tensors.iter_mut().zip(&self.tensors) {
            *slot = Some(tensor);
        }
        CheckedLaunch { kernel: &self.kernel, slots: self.slots, tensors, grid: self.grid }
    }
}

impl<'a> Launch<'a> {
    /// A launch of `kernel` without arguments.
    pub fn new(kernel: &'a Kernel) -> Launch<'a> {
        Launch { kernel, values: [Value::Missing; MAX_ARGUMENTS], mistake: None }
    }

    /// Gives a tensor.
    pub fn tensor(self, name: &str, tensor: &'a Tensor) -> Launch<'a> {
        self.give(name, Value::Tensor(tensor))
    }

    /// Gives a scalar. Its type must be the kernel's exactly.
    pub fn scalar(self, name: &str, value: impl Into<Scalar>) -> Launch<'a> {
        let value = value.into();
        self.give(name, Value::Scalar(value))
    }

    /// Gives a dim that no tensor's shape has, or states again one that a shape has.
    pub fn dim(self, name: &str, value: u64) -> Launch<'a> {
        self.give(name, Value::Dim(value))
    }

    fn give(mut self, name: &str, value: Value<'a>) -> Launch<'a> {
        let signature = self.kernel.signature();
        let index = signature.argument(name);
        let fault = match index.and_then(|index| self.values.get_mut(index)) {
            Some(slot @ Value::Missing) => {
                *slot = value;
                return self;
            }
            Some(_) => LaunchFault::DuplicateArgument { argument: name.to_owned() },
            None => LaunchFault::UnknownArgument {
                argument: name.to_owned(),
                expected: signature
                    .arguments
                    .iter()
                    .map(|argument| format!("`{}`", argument.name))
                    .collect::<Vec<_>>()
                    .join(", "),
            },
        };
        self.mistake.get_or_insert(Box::new(fault));
        self
    }

    /// Checks the arguments and launches.
    pub fn run(self, device: &dyn Device) -> Result<(), DeviceError> {
        let launch = self.check()?;
        device.launch(&launch)
    }

    /// Checks the arguments.
    pub fn check(mut self) -> Result<CheckedLaunch<'a>, LaunchError> {
        let kernel = self.kernel;
        let fail = |fault| LaunchError { kernel: kernel.metadata().kernel.clone(), fault };
        match self.mistake.take() {
            Some(fault) => Err(fail(fault)),
            None => self.checked().map_err(|fault| fail(Box::new(fault))),
        }
    }

    fn checked(&self) -> Result<CheckedLaunch<'a>, LaunchFault> {
        let signature = self.kernel.signature();
        let mut launch = CheckedLaunch {
            kernel: self.kernel,
            slots: [0; MAX_ARGUMENTS],
            tensors: [None; MAX_ARGUMENTS],
            grid: [0; 3],
        };
        let mut dims = DimValues { values: [0; MAX_DIMS], source: [Source::Unknown; MAX_DIMS] };
        let mut spans = [const { 0..0 }; MAX_ARGUMENTS];

        let slots = launch.slots.iter_mut().zip(&mut launch.tensors).zip(&mut spans);
        for (index, ((argument, value), ((slot, kept), span))) in
            signature.arguments.iter().zip(&self.values).zip(slots).enumerate()
        {
            match (&argument.kind, value) {
                (ArgumentKind::Tensor { .. }, Value::Tensor(tensor)) => {
                    *span = self.check_tensor(index, argument, tensor, &mut dims)?;
                    *slot = span.start;
                    *kept = Some(*tensor);
                }
                (ArgumentKind::Scalar(wanted), Value::Scalar(scalar)) => {
                    if scalar.dtype() != *wanted {
                        return Err(LaunchFault::ScalarType {
                            argument: argument.name.clone(),
                            wanted: *wanted,
                            found: scalar.dtype(),
                        });
                    }
                    *slot = scalar.bits();
                }
                (ArgumentKind::Dim(dim), Value::Dim(value)) => {
                    self.set_dim(&mut dims, *dim, *value, index, 0)?;
                }
                (ArgumentKind::Dim(_), Value::Missing) => {}
                (kind, Value::Missing) => {
                    return Err(LaunchFault::MissingArgument {
                        argument: argument.name.clone(),
                        wanted: kind.noun(),
                    });
                }
                (kind, value) => {
                    return Err(LaunchFault::WrongKind {
                        argument: argument.name.clone(),
                        wanted: kind.noun(),
                        found: value.noun(),
                    });
                }
            }
        }

        self.check_dims(&mut dims)?;
        for (argument, slot) in signature.arguments.iter().zip(&mut launch.slots) {
            if let ArgumentKind::Dim(dim) = argument.kind {
                *slot = dims.get(dim);
            }
        }
        self.check_contracts(&dims, &launch.tensors)?;
        self.check_overlap(&spans)?;
        launch.grid = self.grid(&dims)?;
        Ok(launch)
    }

    /// Checks one tensor and takes the dims from its shape. Returns its addresses.
    fn check_tensor(
        &self,
        index: usize,
        argument: &ArgumentSpec,
        tensor: &Tensor,
        dims: &mut DimValues,
    ) -> Result<Range<u64>, LaunchFault> {
        let name = || argument.name.clone();
        let ArgumentKind::Tensor { element, alignment, shape, writes } = &argument.kind else {
            return Err(LaunchFault::WrongKind { argument: name(), wanted: "tensor", found: "tensor" });
        };
        let buffer = &tensor.buffer;
        if buffer.device() != self.kernel.device() {
            return Err(LaunchFault::WrongDevice { argument: name() });
        }
        if tensor.element != *element {
            return Err(LaunchFault::ElementType {
                argument: name(),
                wanted: *element,
                found: tensor.element,
            });
        }
        if tensor.shape.len() != shape.len() {
            return Err(LaunchFault::Rank {
                argument: name(),
                wanted: shape.len(),
                found: tensor.shape.len(),
            });
        }
        for (axis, (wanted, found)) in shape.iter().zip(&tensor.shape).enumerate() {
            match *wanted {
                ExtentSpec::Const(wanted) if wanted == *found => {}
                ExtentSpec::Const(wanted) => {
                    return Err(LaunchFault::Extent { argument: name(), axis, wanted, found: *found });
                }
                ExtentSpec::Dim(dim) => self.set_dim(dims, dim, *found, index, axis)?,
            }
        }
        let bytes = element.device_bytes(&tensor.shape).ok_or_else(|| LaunchFault::Shape {
            argument: name(),
            element: *element,
            shape: tensor.shape.clone(),
        })?;
        if tensor.offset.checked_add(bytes).is_none_or(|end| end > buffer.len()) {
            return Err(LaunchFault::OutOfBounds {
                argument: name(),
                offset: tensor.offset,
                bytes,
                len: buffer.len(),
            });
        }
        let start = buffer.address().wrapping_add(tensor.offset);
        if start & (alignment - 1) != 0 {
            return Err(LaunchFault::Misaligned {
                argument: name(),
                offset: tensor.offset,
                element: *element,
                wanted: *alignment,
            });
        }
        if *writes && buffer.permission() == Permission::ReadOnly {
            return Err(LaunchFault::ReadOnly { argument: name() });
        }
        Ok(start..start.wrapping_add(bytes))
    }

    /// Sets a dim, or compares with the value it has.
    fn set_dim(
        &self,
        dims: &mut DimValues,
        dim: usize,
        found: u64,
        argument: usize,
        axis: usize,
    ) -> Result<(), LaunchFault> {
        let signature = self.kernel.signature();
        let (Some(value), Some(source)) = (dims.values.get_mut(dim), dims.source.get_mut(dim)) else {
            return Ok(());
        };
        match *source {
            Source::Unknown => {
                (*value, *source) = (found, Source::Argument(argument));
                Ok(())
            }
            Source::Argument(_) if *value == found => Ok(()),
            Source::Argument(first) => {
                let name =
                    |index| signature.arguments.get(index).map(|spec: &ArgumentSpec| spec.name.clone());
                Err(LaunchFault::DimMismatch {
                    dim: signature.dim_name(dim),
                    first: name(first).unwrap_or_default(),
                    wanted: *value,
                    argument: name(argument).unwrap_or_default(),
                    axis,
                    found,
                })
            }
        }
    }

    /// Bound dims, dims without a value, and the range of the index type.
    fn check_dims(&self, dims: &mut DimValues) -> Result<(), LaunchFault> {
        let values = dims.values.iter_mut().zip(&dims.source);
        for (spec, (value, source)) in self.kernel.signature().dims.iter().zip(values) {
            match (source, spec.bound) {
                (Source::Unknown, Some(bound)) => *value = bound,
                (Source::Unknown, None) => return Err(LaunchFault::UnknownDim { dim: spec.name.clone() }),
                (Source::Argument(_), Some(wanted)) if wanted != *value => {
                    return Err(LaunchFault::BoundDim { dim: spec.name.clone(), wanted, found: *value });
                }
                (Source::Argument(_), _) => {}
            }
            if *value > spec.limit {
                return Err(LaunchFault::DimTooLarge {
                    dim: spec.name.clone(),
                    limit: spec.limit,
                    found: *value,
                });
            }
        }
        Ok(())
    }

    fn check_contracts(
        &self,
        dims: &DimValues,
        tensors: &[Option<&Tensor>; MAX_ARGUMENTS],
    ) -> Result<(), LaunchFault> {
        let signature = self.kernel.signature();
        for check in &signature.checks {
            match *check {
                Check::Multiple { dim, of } => {
                    let found = dims.get(dim);
                    if !found.is_multiple_of(of) {
                        return Err(LaunchFault::NotAMultiple { dim: signature.dim_name(dim), of, found });
                    }
                }
                Check::AtLeast { dim, limit } => {
                    let found = dims.get(dim);
                    if found < limit {
                        return Err(LaunchFault::DimTooSmall { dim: signature.dim_name(dim), limit, found });
                    }
                }
                Check::AtMost { dim, limit } => {
                    let found = dims.get(dim);
                    if found > limit {
                        return Err(LaunchFault::DimTooLarge { dim: signature.dim_name(dim), limit, found });
                    }
                }
                Check::Elements { argument, limit } => {
                    let Some(Some(tensor)) = tensors.get(argument) else { continue };
                    let found =
                        tensor.shape.iter().fold(1u64, |product, extent| product.saturating_mul(*extent));
                    if found > limit {
                        let argument = signature.arguments.get(argument).map(|spec| spec.name.clone());
                        return Err(LaunchFault::TensorTooLarge {
                            argument: argument.unwrap_or_default(),
                            limit,
                            found,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// A written tensor may share no byte with any other. Buffers of a device have
    /// disjoint addresses unless they are read-only, so addresses decide.
    fn check_overlap(&self, spans: &[Range<u64>; MAX_ARGUMENTS]) -> Result<(), LaunchFault> {
        let arguments = &self.kernel.signature().arguments;
        for (index, (argument, span)) in arguments.iter().zip(spans).enumerate() {
            let ArgumentKind::Tensor { writes: true, .. } = argument.kind else { continue };
            for (other_index, (other, other_span)) in arguments.iter().zip(spans).enumerate() {
                let shared = span.start.max(other_span.start) < span.end.min(other_span.end);
                if shared && other_index != index {
                    return Err(LaunchFault::Overlap {
                        argument: argument.name.clone(),
                        other: other.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn grid(&self, dims: &DimValues) -> Result<[u64; 3], LaunchFault> {
        let signature = self.kernel.signature();
        let mut grid = [0; 3];
        let axes = ["x", "y", "z"].into_iter().zip(signature.grid_limits);
        for (index, ((code, extent), (axis, limit))) in
            signature.grid.iter().zip(&mut grid).zip(axes).enumerate()
        {
            *extent = match code.eval(&dims.values) {
                Some(extent) => extent,
                None => return Err(LaunchFault::Grid(self.grid_error(index, dims))),
            };
            if *extent > limit {
                return Err(LaunchFault::GridTooLarge { axis, found: *extent, limit });
            }
        }
        let programs = grid.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
        match programs {
            // An axis of 0 makes the product 0 whatever the others would have overflowed to.
            _ if grid.contains(&0) => Ok(grid),
            Some(programs) if programs <= signature.program_limit => Ok(grid),
            _ => Err(LaunchFault::GridTooLarge {
                axis: "all axes together",
                found: programs.unwrap_or(u64::MAX),
                limit: signature.program_limit,
            }),
        }
    }

    /// The reason why an axis has no value, from the expression as it was written.
    fn grid_error(&self, axis: usize, dims: &DimValues) -> GridError {
        let metadata = self.kernel.metadata();
        let mut names: BTreeMap<String, u64> = metadata.params.clone();
        names.extend(
            self.kernel
                .signature()
                .dims
                .iter()
                .zip(dims.values)
                .map(|(spec, value)| (spec.name.clone(), value)),
        );
        match metadata.grid.get(axis).map(|expr| (expr, expr.eval(&names))) {
            Some((_, Err(error))) => error,
            Some((expr, Ok(_))) => GridError::Overflow(expr.to_string()),
            None => GridError::Overflow(String::new()),
        }
    }
}

/// The values of dims by index, and where each came from.
struct DimValues {
    values: [u64; MAX_DIMS],
    source: [Source; MAX_DIMS],
}

#[derive(Clone, Copy)]
enum Source {
    Unknown,
    Argument(usize),
}

impl DimValues {
    fn get(&self, dim: usize) -> u64 {
        self.values.get(dim).copied().unwrap_or_default()
    }
}
