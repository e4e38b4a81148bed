//! Errors of devices and of launches.

use std::fmt;

use phobos_artifact::{Chip, DType, Element, grid::GridError};

/// Why a device could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no device of this name.
    #[error("unknown device `{0}`: expected `host`, `emulator:sm_XX` or `cuda[:N]`")]
    UnknownDevice(String),
    /// The device exists in the design but this program was built without it.
    #[error("device `{device}`: not built yet: {reason}; use `host`")]
    NotBuilt {
        /// The name that was asked for.
        device: String,
        /// What is missing.
        reason: &'static str,
    },
    /// The device cannot be used on this machine.
    #[error("device `{device}` cannot be used here: {reason}")]
    Unavailable {
        /// The device.
        device: String,
        /// Why.
        reason: String,
    },
    /// An allocation failed, or is larger than the device.
    #[error("device `{device}`: out of memory: {bytes} bytes were asked for, the device has {total}")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes the device has altogether.
        total: u64,
    },
    /// A byte range leaves its buffer.
    #[error("{action}: {bytes} bytes at offset {offset} leave a buffer of {len} bytes")]
    OutOfBounds {
        /// `read`, `write`, `copy from`, `copy to`, `import` or `view`.
        action: &'static str,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Bytes the buffer has.
        len: u64,
    },
    /// A tensor of a format of weights does not fit its buffer, which may hold a file's bytes.
    #[error(
        "a tensor of {element} of shape {shape:?} is {bytes} bytes on a device, where rows are interleaved in groups \
         (`Element::to_device` makes them of a file's bytes), and leaves a buffer of {len} bytes at offset {offset}"
    )]
    DeviceLayout {
        /// The element type.
        element: Element,
        /// The shape.
        shape: Vec<u64>,
        /// First byte in the buffer.
        offset: u64,
        /// Bytes in the device layout.
        bytes: u64,
        /// Bytes the buffer has.
        len: u64,
    },
    /// A tensor's shape has no size: it overflows, or its rows are not whole blocks.
    #[error(
        "a tensor of {element} cannot have the shape {shape:?}: its size is over 64 bits or its last axis is not a multiple of {block}"
    )]
    Shape {
        /// The element type.
        element: Element,
        /// The shape.
        shape: Vec<u64>,
        /// Elements of one block along the last axis.
        block: usize,
    },
    /// A write to a buffer that was imported read-only.
    #[error("{action}: the buffer was imported read-only")]
    ReadOnly {
        /// What was tried.
        action: &'static str,
    },
    /// A buffer or kernel of one device was given to another.
    #[error("device `{device}`: the {what} belongs to another device")]
    WrongDevice {
        /// The device that was asked.
        device: String,
        /// `buffer` or `kernel`.
        what: &'static str,
    },
    /// Bytes were to be moved while launches were recorded.
    #[error("device `{device}`: {action}: only launches can be recorded")]
    NotRecordable {
        /// The device.
        device: String,
        /// What was asked for: `write`, `read`, `copy`, `import`.
        action: &'static str,
    },
    /// The artifact was compiled for a chip that the device is not.
    #[error("kernel `{kernel}` was compiled for {chip}; device `{device}` runs {}", ChipList(.chips))]
    WrongChip {
        /// The kernel.
        kernel: String,
        /// The chip it was compiled for.
        chip: Chip,
        /// The device.
        device: String,
        /// What the device runs, best first.
        chips: Vec<Chip>,
    },
    /// The artifact cannot be used: its metadata or its image is wrong.
    #[error("kernel `{kernel}`: bad artifact: {reason}")]
    BadArtifact {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// The operating system refused something.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The error.
        source: std::io::Error,
    },
    /// A launch was refused.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A kernel failed while it ran (emulator and GPU only: on the host a kernel cannot fail).
    #[error("kernel `{kernel}`: {reason}")]
    Fault {
        /// The kernel.
        kernel: String,
        /// What it did, with the place in its code where known.
        reason: String,
    },
}

/// `host-x86-64-v4, host-x86-64-v3`.
struct ChipList<'a>(&'a [Chip]);

impl fmt::Display for ChipList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, chip) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{chip}")?;
        }
        Ok(())
    }
}

/// A launch that was refused. Nothing ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}`: {fault}")]
pub struct LaunchError {
    /// The kernel.
    pub kernel: String,
    /// What is wrong.
    pub fault: Box<LaunchFault>,
}

/// What is wrong with a launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    /// The kernel has no argument of this name.
    #[error("there is no argument `{argument}`; it has {expected}")]
    UnknownArgument {
        /// The name given.
        argument: String,
        /// The names the kernel has.
        expected: String,
    },
    /// An argument was given twice.
    #[error("argument `{argument}` is given twice")]
    DuplicateArgument {
        /// The argument.
        argument: String,
    },
    /// An argument was not given.
    #[error("argument `{argument}` is missing: a {wanted} is wanted")]
    MissingArgument {
        /// The argument.
        argument: String,
        /// `tensor`, `scalar` or `dim`.
        wanted: &'static str,
    },
    /// A tensor where a scalar is wanted, and so on.
    #[error("argument `{argument}`: a {wanted} is wanted, a {found} was given")]
    WrongKind {
        /// The argument.
        argument: String,
        /// `tensor`, `scalar` or `dim`.
        wanted: &'static str,
        /// `tensor`, `scalar` or `dim`.
        found: &'static str,
    },
    /// A scalar of another type.
    #[error("argument `{argument}`: a scalar {wanted} is wanted, {found} was given")]
    ScalarType {
        /// The argument.
        argument: String,
        /// The kernel's type.
        wanted: DType,
        /// The type given.
        found: DType,
    },
    /// A tensor of another element type.
    #[error("argument `{argument}`: a tensor of {wanted} is wanted, one of {found} was given")]
    ElementType {
        /// The argument.
        argument: String,
        /// The kernel's element type.
        wanted: Element,
        /// The element type given.
        found: Element,
    },
    /// A tensor with another number of axes.
    #[error("argument `{argument}`: rank {wanted} is wanted, rank {found} was given")]
    Rank {
        /// The argument.
        argument: String,
        /// The kernel's rank.
        wanted: usize,
        /// The rank given.
        found: usize,
    },
    /// An axis of constant extent has another extent.
    #[error("argument `{argument}`: axis {axis} must be {wanted}, it is {found}")]
    Extent {
        /// The argument.
        argument: String,
        /// The axis, 0 is the outermost.
        axis: usize,
        /// The kernel's extent.
        wanted: u64,
        /// The extent given.
        found: u64,
    },
    /// Two axes of the same name differ.
    #[error("dim `{dim}` is {wanted} in `{first}` and {found} in `{argument}` (axis {axis})")]
    DimMismatch {
        /// The dim.
        dim: String,
        /// The argument that named it first.
        first: String,
        /// Its extent there.
        wanted: u64,
        /// The argument that differs.
        argument: String,
        /// The axis of that argument, 0 is the outermost.
        axis: usize,
        /// Its extent there.
        found: u64,
    },
    /// A dim that was fixed at compile time has another value.
    #[error("dim `{dim}` was fixed at {wanted} when the kernel was compiled, it is {found}")]
    BoundDim {
        /// The dim.
        dim: String,
        /// The value compiled in.
        wanted: u64,
        /// The value given.
        found: u64,
    },
    /// A dim that no tensor names and that was not given.
    #[error("dim `{dim}` has no value: no tensor names it and it was not given")]
    UnknownDim {
        /// The dim.
        dim: String,
    },
    /// A dim is not a multiple of what the kernel relies on.
    #[error("dim `{dim}` must be a multiple of {of}, it is {found}")]
    NotAMultiple {
        /// The dim.
        dim: String,
        /// The divisor.
        of: u64,
        /// The value given.
        found: u64,
    },
    /// A dim is smaller than the kernel was compiled for.
    #[error("dim `{dim}` must be at least {limit}, it is {found}")]
    DimTooSmall {
        /// The dim.
        dim: String,
        /// The limit.
        limit: u64,
        /// The value given.
        found: u64,
    },
    /// A dim is larger than the kernel was compiled for, or than its index arithmetic allows.
    #[error("dim `{dim}` must be at most {limit}, it is {found}")]
    DimTooLarge {
        /// The dim.
        dim: String,
        /// The limit.
        limit: u64,
        /// The value given.
        found: u64,
    },
    /// A tensor is larger than the kernel's index arithmetic allows.
    #[error("argument `{argument}` must have at most {limit} elements, it has {found}")]
    TensorTooLarge {
        /// The argument.
        argument: String,
        /// The limit in elements.
        limit: u64,
        /// The elements given.
        found: u64,
    },
    /// The shape has no size: it overflows, or the last axis is not whole blocks.
    #[error("argument `{argument}`: a tensor of {element} cannot have the shape {shape:?}")]
    Shape {
        /// The argument.
        argument: String,
        /// The element type.
        element: Element,
        /// The shape given.
        shape: Vec<u64>,
    },
    /// The tensor leaves its buffer.
    #[error("argument `{argument}`: {bytes} bytes at offset {offset} leave a buffer of {len} bytes")]
    OutOfBounds {
        /// The argument.
        argument: String,
        /// First byte in the buffer.
        offset: u64,
        /// Bytes of the tensor.
        bytes: u64,
        /// Bytes of the buffer.
        len: u64,
    },
    /// The tensor does not start at a multiple of what its element needs.
    #[error(
        "argument `{argument}`: offset {offset} is not aligned to the {wanted} bytes that {element} needs"
    )]
    Misaligned {
        /// The argument.
        argument: String,
        /// First byte in the buffer.
        offset: u64,
        /// The element type.
        element: Element,
        /// The alignment in bytes.
        wanted: u64,
    },
    /// The kernel writes an argument whose buffer is read-only.
    #[error("argument `{argument}` is written, and its buffer was imported read-only")]
    ReadOnly {
        /// The argument.
        argument: String,
    },
    /// A written tensor shares bytes with another argument.
    #[error("argument `{argument}` is written and overlaps `{other}`")]
    Overlap {
        /// The written argument.
        argument: String,
        /// The other one.
        other: String,
    },
    /// The tensor's buffer belongs to another device than the kernel.
    #[error("argument `{argument}` lies on another device")]
    WrongDevice {
        /// The argument.
        argument: String,
    },
    /// The grid has no value.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The grid is larger than the device allows.
    #[error("the grid has {found} programs along {axis}, at most {limit} are possible")]
    GridTooLarge {
        /// `x`, `y`, `z`, or `all axes together`.
        axis: &'static str,
        /// Programs along it, `u64::MAX` when they overflow.
        found: u64,
        /// The limit.
        limit: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_is_wrong() {
        let error = LaunchError {
            kernel: "linear".into(),
            fault: Box::new(LaunchFault::Extent { argument: "X".into(), axis: 3, wanted: 2, found: 5 }),
        };
        assert_eq!(error.to_string(), "kernel `linear`: argument `X`: axis 3 must be 2, it is 5");
        let error = DeviceError::WrongChip {
            kernel: "k".into(),
            chip: Chip::Sm(86),
            device: "host".into(),
            chips: vec![
                Chip::Host(phobos_artifact::HostLevel::V3),
                Chip::Host(phobos_artifact::HostLevel::V2),
            ],
        };
        assert_eq!(
            error.to_string(),
            "kernel `k` was compiled for sm_86; device `host` runs host-x86-64-v3, host-x86-64-v2"
        );
    }
}
