//! What a kernel and its launch may have at most: the compiler refuses more, the runtime
//! checks it, and generated code relies on it.

/// The most arguments of a kernel: tensors, scalars, and dims that are not bound.
pub const MAX_ARGUMENTS: usize = 48;
/// The most named dims of a kernel.
pub const MAX_DIMS: usize = 32;
/// The most axes of a tensor.
pub const MAX_RANK: usize = 8;
/// The largest value of a dim. No tensor with elements has a longer axis, as addresses have
/// 47 bits and no format has less than 2 bits an element; so most index arithmetic
/// provably stays within 64 bits.
pub const MAX_EXTENT: u64 = 1 << 50;
/// The most programs of a launch on the host, and along an axis.
pub const MAX_PROGRAMS: u64 = 1 << 50;
/// The most elements of a tile.
pub const MAX_TILE: u64 = 1 << 32;
