//! Attention as an operation: which of its kernels a batch takes.

use phobos_artifact::{DType, Element};
use phobos_device::{Device, Kernel, Launch, Tensor};

use crate::{
    ModelError,
    config::Dims,
    kernels::{KernelSet, Precision, Role, Rows},
    ops::{F32, Input, rows},
};

/// Parts of the positions that one row of a long text is cut into: enough programs for the
/// threads of a large machine, even with few heads.
const PARTS: u64 = 4;
/// Positions seen from which one row is cut: shorter texts are done before it pays.
const LONG: i32 = 1024;

/// The positions of a batch.
pub struct Positions {
    /// [N] i32, each one above the one before.
    pub tensor: Tensor,
    /// Whether a text that ends there is worth cutting into parts.
    pub reach: Reach,
}

/// How far back the last row of a batch can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// One program for each key/value head is enough.
    Short,
    /// A row is cut into parts.
    Long,
}

impl Reach {
    /// Of a batch whose last row stands at `position`.
    pub fn of(position: u64) -> Reach {
        if position < LONG as u64 { Reach::Short } else { Reach::Long }
    }
}

/// What the parts of a row leave: sums, and for each head the largest score and the sum of
/// weights.
pub struct Parts {
    sums: Tensor,    // [C, G, R, D]
    largest: Tensor, // [C, G, R, 1]
    weights: Tensor, // [C, G, R, 1]
}

impl Parts {
    /// Memory for the heads of `dims`.
    pub fn new(device: &dyn Device, dims: &Dims) -> Result<Parts, ModelError> {
        let group = dims.heads / dims.kv_heads;
        let tensor = |width: u64| -> Result<Tensor, ModelError> {
            let shape = [PARTS, dims.kv_heads, group, width];
            let bytes = F32.tensor_bytes(&shape).ok_or_else(|| {
                ModelError::Setting(format!("{} heads of {width} do not fit in 64 bits", dims.heads))
            })?;
            Ok(Tensor::of(&device.allocate(bytes)?, F32, shape)?)
        };
        Ok(Parts { sums: tensor(dims.head)?, largest: tensor(1)?, weights: tensor(1)? })
    }
}

/// Causal grouped-query attention over a cache.
pub struct Attention {
    scale: f32,
    window: i32,
    /// G, R and D.
    groups: [u64; 3],
    one: Kernel,
    part: Kernel,
    join: Kernel,
    batch: Option<Kernel>,
    /// Of the output.
    precision: Precision,
}

impl Attention {
    /// The kernels for launches of `rows` rows that write `to`.
    pub fn roles(dims: &Dims, cache: DType, rows: Rows, to: Element) -> Vec<Role> {
        let (head, group) = (dims.head, dims.heads / dims.kv_heads);
        match rows {
            Rows::One => vec![
                Role::AttentionOne { head, group, cache, to },
                Role::AttentionPart { head, group, cache },
                Role::AttentionJoin { head, group, to },
            ],
            _ => vec![Role::Attention { head, cache, to }],
        }
    }

    /// For the heads of `dims`, outputs of `precision` and at most `largest` rows. Scores are
    /// scaled by `scale`; a query sees the last `window` positions, its own among them, or all.
    pub fn new(
        kernels: &KernelSet,
        dims: &Dims,
        cache: DType,
        (precision, largest): (Precision, u64),
        scale: f64,
        window: Option<u64>,
    ) -> Result<Attention, ModelError> {
        let (head, group) = (dims.head, dims.heads / dims.kv_heads);
        let to = |rows| precision.element(rows);
        let one = kernels.get(Role::AttentionOne { head, group, cache, to: to(Rows::One) })?;
        let part = kernels.get(Role::AttentionPart { head, group, cache })?;
        let join = kernels.get(Role::AttentionJoin { head, group, to: to(Rows::One) })?;
        let batch = match largest {
            0 | 1 => None,
            _ => Some(kernels.get(Role::Attention { head, cache, to: to(Rows::Many) })?),
        };
        let window = window.and_then(|window| i32::try_from(window).ok()).unwrap_or(i32::MAX);
        let groups = [dims.kv_heads, group, head];
        Ok(Attention { scale: scale as f32, window, groups, one, part, join, batch, precision })
    }

    /// Q [N, H, D], caches [G, S, D] -> O [N, H D].
    pub fn run(
        &self,
        device: &dyn Device,
        q: &Tensor,
        (keys, values): (&Tensor, &Tensor),
        (parts, o): (&Parts, &Input),
        positions: &Positions,
    ) -> Result<(), ModelError> {
        let o = o.of(self.precision);
        let [groups, group, head] = self.groups;
        let grouped = [1, groups, group, head];
        let inputs = |launch: Launch<'_>| -> Result<(), ModelError> {
            let launch = launch.tensor("Pos", &positions.tensor).scalar("window", self.window);
            Ok(launch.scalar("scale", self.scale).run(device)?)
        };
        if let (Some(batch), true) = (&self.batch, rows(q) > 1) {
            let launch = Launch::new(batch).tensor("Q", q).tensor("K", keys);
            return inputs(launch.tensor("V", values).tensor("O", o));
        }
        let (q, o) = (q.reshape(grouped)?, o.reshape(grouped)?);
        if self.window < LONG || positions.reach == Reach::Short {
            let launch = Launch::new(&self.one).tensor("Q", &q).tensor("K", keys);
            return inputs(launch.tensor("V", values).tensor("O", &o));
        }
        let Parts { sums, largest, weights } = parts;
        let launch = Launch::new(&self.part).tensor("Q", &q).tensor("K", keys).tensor("V", values);
        inputs(launch.tensor("O", sums).tensor("M", largest).tensor("L", weights))?;
        let launch = Launch::new(&self.join).tensor("O", sums).tensor("M", largest);
        Ok(launch.tensor("L", weights).tensor("Y", &o).run(device)?)
    }
}
