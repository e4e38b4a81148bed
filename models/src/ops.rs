//! The operations that forward passes are made of: each holds its weights and its
//! kernels, so that a forward pass reads like the graph.

use phobos_artifact::{DType, Element};
use phobos_device::{Buffer, Device, DeviceExt, Kernel, Launch, Tensor};

use crate::{
    ModelError,
    kernels::{KernelSet, Precision, Role, Rows},
    rope::{RopeConfig, Tables},
};

/// The extent of axis 0.
pub(crate) fn rows(x: &Tensor) -> u64 {
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

/// The input of products: one memory, held as f32 or rounded to blocks.
pub struct Input {
    exact: Tensor,
    /// None where a row is no whole number of blocks.
    rounded: Option<Tensor>,
}

impl Input {
    /// Rows [N, K] of `buffer`, which has room for f32.
    pub fn new(buffer: &Buffer, n: u64, width: u64) -> Result<Input, ModelError> {
        let exact = Tensor::of(buffer, F32, [n, width])?;
        let element = Precision::Rounded.element(Rows::of(n));
        let whole = width.is_multiple_of(element.block_elements() as u64);
        let rounded = whole.then(|| Tensor::of(buffer, element, [n, width])).transpose()?;
        Ok(Input { exact, rounded })
    }

    /// The rows as f32.
    pub fn exact(&self) -> &Tensor {
        &self.exact
    }

    /// The rows as products of `precision` take them.
    pub fn of(&self, precision: Precision) -> &Tensor {
        match (precision, &self.rounded) {
            (Precision::Rounded, Some(rounded)) => rounded,
            _ => &self.exact,
        }
    }
}

/// The kernels of a producer, by the element that it writes.
struct ByElement {
    kernels: Vec<(Element, Kernel)>,
}

impl ByElement {
    fn new(
        kernels: &KernelSet,
        elements: &[Element],
        role: impl Fn(Element) -> Role,
    ) -> Result<ByElement, ModelError> {
        let kernels = elements
            .iter()
            .map(|element| Ok((*element, kernels.get(role(*element))?)))
            .collect::<Result<_, ModelError>>()?;
        Ok(ByElement { kernels })
    }

    fn of(&self, y: &Tensor) -> Result<&Kernel, ModelError> {
        let found = self.kernels.iter().find(|(element, _)| *element == y.element);
        found
            .map(|(_, kernel)| kernel)
            .ok_or_else(|| ModelError::MissingKernel { role: format!("a producer of {}", y.element) })
    }
}

/// Root mean square norm with a learnt scale: `y = norm(x)`, or `y += norm(x)`.
pub struct RmsNorm {
    weight: Tensor,
    eps: f32,
    kernels: ByElement,
}

impl RmsNorm {
    /// Weight [E]; Y may have any of the elements `to`.
    pub fn new(kernels: &KernelSet, weight: Tensor, eps: f32, to: &[Element]) -> Result<RmsNorm, ModelError> {
        let width = rows(&weight);
        let kernels = ByElement::new(kernels, to, |to| Role::RmsNorm { width, to })?;
        Ok(RmsNorm { weight, eps, kernels })
    }

    /// The same, adding to what Y holds as f32.
    pub fn adding(kernels: &KernelSet, weight: Tensor, eps: f32) -> Result<RmsNorm, ModelError> {
        let width = rows(&weight);
        let kernels = ByElement::new(kernels, &[F32], |_| Role::RmsNormAdd { width })?;
        Ok(RmsNorm { weight, eps, kernels })
    }

    /// X [N, E] -> Y [N, E].
    pub fn run(&self, device: &dyn Device, x: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(self.kernels.of(y)?).tensor("X", x).tensor("W", &self.weight).tensor("Y", y);
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
    /// Weight [N, K], for inputs of `precision` and at most `largest` rows.
    pub fn new(
        kernels: &KernelSet,
        weight: Tensor,
        precision: Precision,
        largest: u64,
    ) -> Result<Linear, ModelError> {
        let element = weight.element;
        let role = |rows| Role::Linear { from: precision.element(rows), weight: element, rows };
        Ok(Linear { weight, kernels: ByRows::new(kernels, largest, role)? })
    }

    /// The same, adding to what Y holds.
    pub fn adding(
        kernels: &KernelSet,
        weight: Tensor,
        precision: Precision,
        largest: u64,
    ) -> Result<Linear, ModelError> {
        let element = weight.element;
        let role = |rows| Role::LinearAdd { from: precision.element(rows), weight: element, rows };
        Ok(Linear { weight, kernels: ByRows::new(kernels, largest, role)? })
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

/// Queries, keys and values from one input.
pub struct Qkv {
    weights: [Tensor; 3],
    kernels: ByRows,
}

impl Qkv {
    /// Weights [N, K], [P, K] and [P, K], for inputs of `precision` and at most `largest` rows.
    pub fn new(
        kernels: &KernelSet,
        weights: [Tensor; 3],
        precision: Precision,
        largest: u64,
    ) -> Result<Qkv, ModelError> {
        let elements = [weights[0].element, weights[1].element, weights[2].element];
        let role = |rows| Role::Qkv { from: precision.element(rows), weights: elements, rows };
        Ok(Qkv { weights, kernels: ByRows::new(kernels, largest, role)? })
    }

    /// X [M, K] -> Q [M, N], Key and Value [M, P].
    pub fn run(
        &self,
        device: &dyn Device,
        x: &Tensor,
        [q, key, value]: [&Tensor; 3],
    ) -> Result<(), ModelError> {
        let [wq, wk, wv] = &self.weights;
        let launch = Launch::new(self.kernels.of(x)?).tensor("X", x);
        let launch = launch.tensor("Wq", wq).tensor("Wk", wk).tensor("Wv", wv);
        Ok(launch.tensor("Q", q).tensor("Key", key).tensor("Value", value).run(device)?)
    }
}

/// Rotary position embedding of the pairs (2i, 2i + 1).
pub struct Rope {
    angles: Angles,
    pairs: u64,
    kernel: Kernel,
}

impl Rope {
    /// For heads of `head` elements.
    pub fn new(kernels: &KernelSet, angles: Angles, head: u64, cache: DType) -> Result<Rope, ModelError> {
        let pairs = head / 2;
        Ok(Rope { angles, pairs, kernel: kernels.get(Role::Rope { pairs, head, cache })? })
    }

    /// Rotates queries [N, H, D] in place and keys [N, G, D] into their cache [G, S, D]; values
    /// [N, G, D] go into theirs. Row n stands at position positions[n].
    pub fn run(
        &self,
        device: &dyn Device,
        heads: &Heads,
        caches: (&Tensor, &Tensor),
        positions: &Tensor,
    ) -> Result<(), ModelError> {
        let split = heads.split([self.pairs, 2], caches.0)?;
        let launch = split.launch(&self.kernel, &heads.value, caches.1);
        let launch = launch.tensor("Cos", &self.angles.cos).tensor("Sin", &self.angles.sin);
        Ok(launch.tensor("Pos", positions).run(device)?)
    }
}

/// Queries [N, H, D], keys and values [N, G, D] of a batch.
pub struct Heads {
    /// [N, H, D]
    pub query: Tensor,
    /// [N, G, D]
    pub key: Tensor,
    /// [N, G, D]
    pub value: Tensor,
}

/// Queries, keys and their cache with heads split in two axes.
struct SplitHeads {
    query: Tensor,
    key: Tensor,
    cache: Tensor,
}

impl Heads {
    /// Heads of D as [a, b], also in the cache [G, S, D] of the keys.
    fn split(&self, [a, b]: [u64; 2], cache: &Tensor) -> Result<SplitHeads, ModelError> {
        let split = |x: &Tensor| {
            let axis = |axis: usize| x.shape.get(axis).copied().unwrap_or(1);
            x.reshape([axis(0), axis(1), a, b])
        };
        Ok(SplitHeads { query: split(&self.query)?, key: split(&self.key)?, cache: split(cache)? })
    }
}

impl SplitHeads {
    fn launch<'a>(&'a self, kernel: &'a Kernel, value: &'a Tensor, values: &'a Tensor) -> Launch<'a> {
        let launch = Launch::new(kernel).tensor("Q", &self.query).tensor("Key", &self.key);
        launch.tensor("Value", value).tensor("Keys", &self.cache).tensor("Values", values)
    }
}

/// Root mean square norm of each head with a learnt scale, then rotary position embedding
/// of the pairs (i, D / 2 + i).
pub struct NormRope {
    queries: Tensor, // [2, R]
    keys: Tensor,    // [2, R]
    eps: f32,
    pairs: u64,
    kernel: Kernel,
}

impl NormRope {
    /// With the weights [D] of queries and keys.
    pub fn new(
        kernels: &KernelSet,
        queries: &Tensor,
        keys: &Tensor,
        eps: f32,
        cache: DType,
    ) -> Result<NormRope, ModelError> {
        let pairs = rows(queries) / 2;
        Ok(NormRope {
            queries: queries.reshape([2, pairs])?,
            keys: keys.reshape([2, pairs])?,
            eps,
            pairs,
            kernel: kernels.get(Role::NormRope { pairs, head: 2 * pairs, cache })?,
        })
    }

    /// Queries [N, H, D] in place and keys [N, G, D] into their cache [G, S, D]; values
    /// [N, G, D] go into theirs. Row n stands at position positions[n].
    pub fn run(
        &self,
        device: &dyn Device,
        angles: &Angles,
        heads: &Heads,
        caches: (&Tensor, &Tensor),
        positions: &Tensor,
    ) -> Result<(), ModelError> {
        let split = heads.split([2, self.pairs], caches.0)?;
        let launch = split.launch(&self.kernel, &heads.value, caches.1);
        let launch = launch.tensor("Wq", &self.queries).tensor("Wk", &self.keys);
        let launch = launch.tensor("Cos", &angles.cos).tensor("Sin", &angles.sin);
        Ok(launch.tensor("Pos", positions).scalar("eps", self.eps).run(device)?)
    }
}

/// `y = f(x Gateᵀ) * (x Upᵀ)`.
pub struct GatedUnit {
    gate: Tensor,
    up: Tensor,
    kernels: ByRows,
}

impl GatedUnit {
    /// Gate and Up [N, K], for batches of at most `largest` rows; `role` has the f.
    pub fn new(
        kernels: &KernelSet,
        gate: Tensor,
        up: Tensor,
        largest: u64,
        role: impl Fn(Rows) -> Role,
    ) -> Result<GatedUnit, ModelError> {
        let kernels = ByRows::new(kernels, largest, role)?;
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
