//! The operations that forward passes are made of: each holds its weights and its
//! kernels, so that a forward pass reads like the graph.

use phobos_artifact::{DType, Element};
use phobos_device::{Device, DeviceExt, Kernel, Launch, Tensor};

use crate::{
    ModelError,
    config::Dims,
    kernels::{KernelSet, Role, Rows},
    rope::{RopeConfig, Tables},
};

/// The extent of axis 0.
fn rows(x: &Tensor) -> u64 {
    x.shape.first().copied().unwrap_or(0)
}

/// `x = table[ids] * scale`.
pub struct Embedding {
    table: Tensor,
    scale: f32,
    kernel: Kernel,
}

impl Embedding {
    /// Table [V, E].
    pub fn new(kernels: &KernelSet, table: Tensor, width: u64, scale: f32) -> Result<Embedding, ModelError> {
        let kernel = kernels.get(Role::Embed { table: table.element, width })?;
        Ok(Embedding { table, scale, kernel })
    }

    /// Ids [N] i32, all below V -> X [N, E].
    pub fn run(&self, device: &dyn Device, ids: &Tensor, x: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(&self.kernel).tensor("Ids", ids).tensor("W", &self.table).tensor("X", x);
        Ok(launch.scalar("scale", self.scale).run(device)?)
    }
}

/// Root mean square norm with a learnt scale: `y = norm(x)`, or `y += norm(x)`.
pub struct RmsNorm {
    weight: Tensor,
    eps: f32,
    kernel: Kernel,
}

impl RmsNorm {
    /// Weight [E].
    pub fn new(kernels: &KernelSet, weight: Tensor, eps: f32) -> Result<RmsNorm, ModelError> {
        let kernel = kernels.get(Role::RmsNorm { width: rows(&weight) })?;
        Ok(RmsNorm { weight, eps, kernel })
    }

    /// The same, adding to what Y holds.
    pub fn adding(kernels: &KernelSet, weight: Tensor, eps: f32) -> Result<RmsNorm, ModelError> {
        let kernel = kernels.get(Role::RmsNormAdd { width: rows(&weight) })?;
        Ok(RmsNorm { weight, eps, kernel })
    }

    /// X [N, E] -> Y [N, E].
    pub fn run(&self, device: &dyn Device, x: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(&self.kernel).tensor("X", x).tensor("W", &self.weight).tensor("Y", y);
        Ok(launch.scalar("eps", self.eps).run(device)?)
    }
}

/// The kernels of a layer that multiplies by weights, by how many rows a launch has.
struct ByRows {
    kernels: Vec<(Rows, Kernel)>,
}

impl ByRows {
    /// For batches of at most `largest` rows.
    fn new(kernels: &KernelSet, largest: u64, role: impl Fn(Rows) -> Role) -> Result<ByRows, ModelError> {
        let kernels = Rows::up_to(largest)
            .iter()
            .map(|rows| Ok((*rows, kernels.get(role(*rows))?)))
            .collect::<Result<_, ModelError>>()?;
        Ok(ByRows { kernels })
    }

    fn of(&self, x: &Tensor) -> Result<&Kernel, ModelError> {
        let class = Rows::of(rows(x));
        let found = self.kernels.iter().find(|(rows, _)| *rows == class);
        found
            .map(|(_, kernel)| kernel)
            .ok_or_else(|| ModelError::MissingKernel { role: format!("a product of {class:?} rows") })
    }
}

/// `y = x Wᵀ`, or `y += x Wᵀ`.
pub struct Linear {
    weight: Tensor,
    kernels: ByRows,
}

impl Linear {
    /// Weight [N, K], for batches of at most `largest` rows.
    pub fn new(kernels: &KernelSet, weight: Tensor, largest: u64) -> Result<Linear, ModelError> {
        let element = weight.element;
        let kernels = ByRows::new(kernels, largest, |rows| Role::Linear { weight: element, rows })?;
        Ok(Linear { weight, kernels })
    }

    /// The same, adding to what Y holds.
    pub fn adding(kernels: &KernelSet, weight: Tensor, largest: u64) -> Result<Linear, ModelError> {
        let element = weight.element;
        let kernels = ByRows::new(kernels, largest, |rows| Role::LinearAdd { weight: element, rows })?;
        Ok(Linear { weight, kernels })
    }

    /// X [M, K] -> Y [M, N].
    pub fn run(&self, device: &dyn Device, x: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(self.kernels.of(x)?).tensor("X", x).tensor("W", &self.weight).tensor("Y", y);
        Ok(launch.run(device)?)
    }
}

/// The angles of rotary position embedding on a device.
pub struct Angles {
    cos: Tensor, // [P, R]
    sin: Tensor, // [P, R]
}

impl Angles {
    /// For heads of `head` elements at positions below `positions`; see [`Tables::new`].
    pub fn new(
        device: &dyn Device,
        rope: &RopeConfig,
        head: u64,
        positions: u64,
        factors: Option<&[f32]>,
    ) -> Result<Angles, ModelError> {
        let tables = Tables::new(rope, head, positions, factors)?;
        let upload = |values: &[f32]| Tensor::of(&device.upload(values)?, F32, [positions, head / 2]);
        Ok(Angles { cos: upload(&tables.cos)?, sin: upload(&tables.sin)? })
    }
}

/// Rotary position embedding of the pairs (2i, 2i + 1).
pub struct Rope {
    angles: Angles,
    pairs: u64,
    rotate: Kernel,
    store: Kernel,
}

impl Rope {
    /// For heads of 2 `pairs` elements.
    pub fn new(kernels: &KernelSet, angles: Angles, pairs: u64, cache: DType) -> Result<Rope, ModelError> {
        let rotate = kernels.get(Role::Rope { pairs })?;
        let store = kernels.get(Role::StoreKeys { pairs, cache })?;
        Ok(Rope { angles, pairs, rotate, store })
    }

    /// Rotates X [N, H, D] in place, row n to position pos + n.
    pub fn rotate(&self, device: &dyn Device, x: &Tensor, pos: i32) -> Result<(), ModelError> {
        let x = split_heads(x, [self.pairs, 2])?;
        let launch = Launch::new(&self.rotate).tensor("X", &x).tensor("Cos", &self.angles.cos);
        Ok(launch.tensor("Sin", &self.angles.sin).scalar("pos", pos).run(device)?)
    }

    /// Rotates X [N, G, D] into rows pos + n of a cache [S, G, D].
    pub fn store(&self, device: &dyn Device, x: &Tensor, cache: &Tensor, pos: i32) -> Result<(), ModelError> {
        let (x, cache) = (split_heads(x, [self.pairs, 2])?, split_heads(cache, [self.pairs, 2])?);
        let launch = Launch::new(&self.store).tensor("X", &x).tensor("Cos", &self.angles.cos);
        let launch = launch.tensor("Sin", &self.angles.sin).tensor("Cache", &cache);
        Ok(launch.scalar("pos", pos).run(device)?)
    }
}

/// X [N, H, D] as [N, H, a, b].
fn split_heads(x: &Tensor, [a, b]: [u64; 2]) -> Result<Tensor, ModelError> {
    let heads = x.shape.get(1).copied().unwrap_or(1);
    Ok(x.reshape([rows(x), heads, a, b])?)
}

/// Root mean square norm of each head with a learnt scale, then rotary position embedding
/// of the pairs (i, D / 2 + i).
pub struct NormRope {
    weight: Tensor, // [2, R]
    eps: f32,
    pairs: u64,
    kernel: Kernel,
}

impl NormRope {
    /// In place, with weight [D].
    pub fn new(kernels: &KernelSet, weight: &Tensor, eps: f32) -> Result<NormRope, ModelError> {
        NormRope::with(weight, eps, |pairs| kernels.get(Role::NormRope { pairs }))
    }

    /// Into a cache, with weight [D].
    pub fn storing(
        kernels: &KernelSet,
        weight: &Tensor,
        eps: f32,
        cache: DType,
    ) -> Result<NormRope, ModelError> {
        NormRope::with(weight, eps, |pairs| kernels.get(Role::NormRopeStore { pairs, cache }))
    }

    fn with(
        weight: &Tensor,
        eps: f32,
        kernel: impl FnOnce(u64) -> Result<Kernel, ModelError>,
    ) -> Result<NormRope, ModelError> {
        let pairs = rows(weight) / 2;
        Ok(NormRope { weight: weight.reshape([2, pairs])?, eps, pairs, kernel: kernel(pairs)? })
    }

    /// X [N, H, D] at positions pos + n: in place, or to the same rows of a cache [S, H, D].
    pub fn run(
        &self,
        device: &dyn Device,
        angles: &Angles,
        x: &Tensor,
        cache: Option<&Tensor>,
        pos: i32,
    ) -> Result<(), ModelError> {
        let halves = [2, self.pairs];
        let x = split_heads(x, halves)?;
        let cache = cache.map(|cache| split_heads(cache, halves)).transpose()?;
        let mut launch = Launch::new(&self.kernel).tensor("X", &x).tensor("W", &self.weight);
        launch = launch.tensor("Cos", &angles.cos).tensor("Sin", &angles.sin);
        if let Some(cache) = &cache {
            launch = launch.tensor("Cache", cache);
        }
        Ok(launch.scalar("pos", pos).scalar("eps", self.eps).run(device)?)
    }
}

/// Copies rows into a value cache.
pub struct StoreValues {
    kernel: Kernel,
}

impl StoreValues {
    /// For rows of `width` elements.
    pub fn new(kernels: &KernelSet, width: u64, cache: DType) -> Result<StoreValues, ModelError> {
        Ok(StoreValues { kernel: kernels.get(Role::StoreValues { width, cache })? })
    }

    /// X [N, E] -> rows pos + n of a cache [S, E].
    pub fn run(&self, device: &dyn Device, x: &Tensor, cache: &Tensor, pos: i32) -> Result<(), ModelError> {
        let launch = Launch::new(&self.kernel).tensor("X", x).tensor("Cache", cache);
        Ok(launch.scalar("pos", pos).run(device)?)
    }
}

/// Causal grouped-query attention over a cache.
pub struct Attention {
    scale: f32,
    window: i32,
    /// G, R and D.
    groups: [u64; 3],
    one: Kernel,
    batch: Option<Kernel>,
}

impl Attention {
    /// For the heads of `dims` and batches of at most `largest` rows. Scores are scaled by
    /// `scale`; a query sees the last `window` positions, its own among them, or all.
    pub fn new(
        kernels: &KernelSet,
        dims: &Dims,
        cache: DType,
        largest: u64,
        scale: f64,
        window: Option<u64>,
    ) -> Result<Attention, ModelError> {
        let (head, group) = (dims.head, dims.heads / dims.kv_heads);
        let one = kernels.get(Role::AttentionOne { head, group, cache })?;
        let batch = match largest {
            0 | 1 => None,
            _ => Some(kernels.get(Role::Attention { head, cache })?),
        };
        let window = window.and_then(|window| i32::try_from(window).ok()).unwrap_or(i32::MAX);
        let groups = [dims.kv_heads, group, head];
        Ok(Attention { scale: scale as f32, window, groups, one, batch })
    }

    /// Q [N, H, D] at positions pos + n, caches [S, G, D] -> O [N, H, D].
    pub fn run(
        &self,
        device: &dyn Device,
        q: &Tensor,
        (keys, values): (&Tensor, &Tensor),
        o: &Tensor,
        pos: i32,
    ) -> Result<(), ModelError> {
        let [groups, group, head] = self.groups;
        let grouped = [1, groups, group, head];
        let (kernel, q, o) = match &self.batch {
            Some(batch) if rows(q) > 1 => (batch, q.clone(), o.clone()),
            _ => (&self.one, q.reshape(grouped)?, o.reshape(grouped)?),
        };
        let launch =
            Launch::new(kernel).tensor("Q", &q).tensor("K", keys).tensor("V", values).tensor("O", &o);
        let launch = launch.scalar("pos", pos).scalar("window", self.window);
        Ok(launch.scalar("scale", self.scale).run(device)?)
    }
}

/// `y = f(x Gateᵀ) * (x Upᵀ)`.
pub struct GatedUnit {
    gate: Tensor,
    up: Tensor,
    kernels: ByRows,
}

impl GatedUnit {
    /// Gate and Up [N, K] with the f of a role, for batches of at most `largest` rows.
    pub fn new(
        kernels: &KernelSet,
        gate: Tensor,
        up: Tensor,
        largest: u64,
        role: impl Fn(Element, Element, Rows) -> Role,
    ) -> Result<GatedUnit, ModelError> {
        let kernels = ByRows::new(kernels, largest, |rows| role(gate.element, up.element, rows))?;
        Ok(GatedUnit { gate, up, kernels })
    }

    /// X [M, K] -> Y [M, N].
    pub fn run(&self, device: &dyn Device, x: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(self.kernels.of(x)?).tensor("X", x).tensor("Y", y);
        Ok(launch.tensor("Gate", &self.gate).tensor("Up", &self.up).run(device)?)
    }
}

/// `x = cap * tanh(x / cap)`.
pub struct Softcap {
    cap: f32,
    kernel: Kernel,
}

impl Softcap {
    /// With values brought into (-cap, cap).
    pub fn new(kernels: &KernelSet, cap: f32) -> Result<Softcap, ModelError> {
        Ok(Softcap { cap, kernel: kernels.get(Role::Softcap)? })
    }

    /// X [N, V] in place.
    pub fn run(&self, device: &dyn Device, x: &Tensor) -> Result<(), ModelError> {
        Ok(Launch::new(&self.kernel).tensor("X", x).scalar("cap", self.cap).run(device)?)
    }
}

/// `f32` as a tensor element.
pub const F32: Element = Element::Scalar(DType::F32);
