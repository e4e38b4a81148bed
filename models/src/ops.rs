//! The operations that forward passes are made of: each holds its weights and its
//! kernels, so that a forward pass reads like the graph.

use phobos_artifact::{DType, Element};
use phobos_device::{Device, Kernel, Launch, Tensor};

use crate::{
    ModelError,
    kernels::{KernelSet, Role, Rows},
};

/// The extent of axis 0.
fn rows(x: &Tensor) -> u64 {
    x.shape.first().copied().unwrap_or(0)
}

/// `x = table[ids]`.
pub struct Embedding {
    table: Tensor,
    kernel: Kernel,
}

impl Embedding {
    /// Table [V, E].
    pub fn new(kernels: &KernelSet, table: Tensor, width: u64) -> Result<Embedding, ModelError> {
        let kernel = kernels.get(Role::Embed { table: table.element, width })?;
        Ok(Embedding { table, kernel })
    }

    /// Ids [N] i32, all below V -> X [N, E].
    pub fn run(&self, device: &dyn Device, ids: &Tensor, x: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(&self.kernel).tensor("Ids", ids).tensor("W", &self.table).tensor("X", x);
        Ok(launch.run(device)?)
    }
}

/// Root mean square norm with a learnt scale.
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

    /// X [N, E] -> Y [N, E].
    pub fn run(&self, device: &dyn Device, x: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        let launch = Launch::new(&self.kernel).tensor("X", x).tensor("W", &self.weight).tensor("Y", y);
        Ok(launch.scalar("eps", self.eps).run(device)?)
    }
}

/// `y = x Wᵀ`, or `y += x Wᵀ`.
pub struct Linear {
    weight: Tensor,
    kernels: Vec<(Rows, Kernel)>,
}

impl Linear {
    /// Weight [N, K], for batches of at most `largest` rows.
    pub fn new(kernels: &KernelSet, weight: Tensor, largest: u64) -> Result<Linear, ModelError> {
        let element = weight.element;
        Linear::with(kernels, weight, largest, |rows| Role::Linear { weight: element, rows })
    }

    /// The same, adding to what Y holds.
    pub fn adding(kernels: &KernelSet, weight: Tensor, largest: u64) -> Result<Linear, ModelError> {
        let element = weight.element;
        Linear::with(kernels, weight, largest, |rows| Role::LinearAdd { weight: element, rows })
    }

    fn with(
        kernels: &KernelSet,
        weight: Tensor,
        largest: u64,
        role: impl Fn(Rows) -> Role,
    ) -> Result<Linear, ModelError> {
        let kernels = Rows::up_to(largest)
            .iter()
            .map(|rows| Ok((*rows, kernels.get(role(*rows))?)))
            .collect::<Result<_, ModelError>>()?;
        Ok(Linear { weight, kernels })
    }

    /// X [M, K] -> Y [M, N].
    pub fn run(&self, device: &dyn Device, x: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        let class = Rows::of(rows(x));
        let (_, kernel) =
            self.kernels.iter().find(|(rows, _)| *rows == class).ok_or_else(|| {
                ModelError::MissingKernel { role: format!("a linear layer of {class:?} rows") }
            })?;
        Ok(Launch::new(kernel).tensor("X", x).tensor("W", &self.weight).tensor("Y", y).run(device)?)
    }
}

/// Rotary position embedding: the angles, and the kernels that apply them.
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
    rotate: Kernel,
    store: Kernel,
}

impl Rope {
    /// Tables Cos and Sin [P, R].
    pub fn new(
        kernels: &KernelSet,
        cos: Tensor,
        sin: Tensor,
        pairs: u64,
        cache: DType,
    ) -> Result<Rope, ModelError> {
        let rotate = kernels.get(Role::Rope { pairs })?;
        let store = kernels.get(Role::StoreKeys { pairs, cache })?;
        Ok(Rope { cos, sin, rotate, store })
    }

    /// Rotates X [N, H, R, 2] in place, row n to position pos + n.
    pub fn rotate(&self, device: &dyn Device, x: &Tensor, pos: i32) -> Result<(), ModelError> {
        let launch = Launch::new(&self.rotate).tensor("X", x).tensor("Cos", &self.cos);
        Ok(launch.tensor("Sin", &self.sin).scalar("pos", pos).run(device)?)
    }

    /// Rotates X [N, G, R, 2] into rows pos + n of a cache [S, G, R, 2].
    pub fn store(&self, device: &dyn Device, x: &Tensor, cache: &Tensor, pos: i32) -> Result<(), ModelError> {
        let launch = Launch::new(&self.store).tensor("X", x).tensor("Cos", &self.cos);
        let launch = launch.tensor("Sin", &self.sin).tensor("Cache", cache);
        Ok(launch.scalar("pos", pos).run(device)?)
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
    decode: Kernel,
    batch: Option<Kernel>,
}

impl Attention {
    /// Heads of `head` elements, scaled by its inverse square root, for batches of at
    /// most `largest` rows.
    pub fn new(kernels: &KernelSet, head: u64, cache: DType, largest: u64) -> Result<Attention, ModelError> {
        let scale = (1.0 / (head as f64).sqrt()) as f32;
        let decode = kernels.get(Role::Attention { head, cache, decode: true })?;
        let batch = match largest {
            0 | 1 => None,
            _ => Some(kernels.get(Role::Attention { head, cache, decode: false })?),
        };
        Ok(Attention { scale, decode, batch })
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
        let kernel = match &self.batch {
            Some(batch) if rows(q) > 1 => batch,
            _ => &self.decode,
        };
        let launch = Launch::new(kernel).tensor("Q", q).tensor("K", keys).tensor("V", values).tensor("O", o);
        Ok(launch.scalar("pos", pos).scalar("scale", self.scale).run(device)?)
    }
}

/// `y = silu(gate) * up`.
pub struct SwiGlu {
    kernel: Kernel,
}

impl SwiGlu {
    /// The operation.
    pub fn new(kernels: &KernelSet) -> Result<SwiGlu, ModelError> {
        Ok(SwiGlu { kernel: kernels.get(Role::SwiGlu)? })
    }

    /// Gate, Up [N, F] -> Y [N, F].
    pub fn run(&self, device: &dyn Device, gate: &Tensor, up: &Tensor, y: &Tensor) -> Result<(), ModelError> {
        Ok(Launch::new(&self.kernel).tensor("Gate", gate).tensor("Up", up).tensor("Y", y).run(device)?)
    }
}

/// `f32` as a tensor element.
pub const F32: Element = Element::Scalar(DType::F32);
