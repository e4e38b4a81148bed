//! The `llama` architecture: Llama 1 to 3, SmolLM2, MiniCPM5 and what else has this graph
//! (Touvron et al. 2023, arXiv:2302.13971; grouped queries: Ainslie et al. 2023,
//! arXiv:2305.13245).
//!
//! ```text
//! x = embed(ids)
//! for each layer:
//!   h = rmsnorm(x);  q, k, v = Wq h, Wk h, Wv h;  rope(q), rope(k)
//!   x += Wo attention(q, keys, values)
//!   h = rmsnorm(x);  x += Wdown (silu(Wgate h) * Wup h)
//! logits = Wout rmsnorm(x)
//! ```

use std::sync::Arc;

use phobos_device::{Device, Tensor};
use phobos_gguf::GgufFile;

use crate::{
    Architecture, Model, ModelError, RopeConfig, Settings,
    attention::Attention,
    config::{Dims, Keys},
    kernels::{KernelSet, Precision, Role, RoleSet},
    layer::{Ends, LayerKernels, Matrices, Precisions},
    ops::{Angles, Embedding, GatedUnit, Input, Linear, Qkv, RmsNorm, Rope},
    sequence::{Batch, Cache, Graph, Placement},
    weights::{Catalogue, Loaded, Weight},
};

/// Hyper-parameters of a `llama` model.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaConfig {
    /// Its extents.
    pub dims: Dims,
    /// Added to the mean square in RMSNorm.
    pub eps: f32,
    /// Rotary position embedding.
    pub rope: RopeConfig,
}

/// Keys whose meaning the graph lacks, and the one value that needs none.
const NEUTRAL: [(&str, f64); 7] = [
    ("expert_count", 0.0),
    ("expert_used_count", 0.0),
    ("attention.causal", 1.0),
    ("logit_scale", 1.0),
    ("residual_scale", 1.0),
    ("embedding_scale", 1.0),
    ("rope.scaling.attn_factor", 1.0),
];

impl LlamaConfig {
    /// Reads the `llama.*` keys of `file`.
    fn new(file: &GgufFile) -> Result<LlamaConfig, ModelError> {
        let keys = Keys::new(file)?;
        keys.expect_neutral(&NEUTRAL)?;
        let dims = keys.dims()?;
        Ok(LlamaConfig { eps: keys.eps()?, rope: keys.rope(dims.head)?, dims })
    }
}

/// A llama file understood: hyper-parameters, settings and where the weights are.
pub struct LlamaFile {
    config: LlamaConfig,
    settings: Settings,
    context: u64,
    weights: Weights,
    roles: RoleSet,
}

struct Weights {
    all: Vec<Weight>,
    ends: Ends,
    rope_freqs: Option<Weight>, // [pairs rotated]
    layers: Vec<LayerWeights>,
}

struct LayerWeights {
    attn_norm: Weight, // [E]
    matrices: Matrices,
    ffn_norm: Weight, // [E]
}

/// Both products that lead back are added to the residual stream.
const KERNELS: LayerKernels = LayerKernels {
    back: |from, weight, rows| Role::LinearAdd { from, weight, rows },
    gated: |from, to, [gate, up], rows| Role::SwiGlu { from, to, gate, up, rows },
};

impl LlamaFile {
    /// Reads the metadata and the tensor directory of `file`. Every tensor must be one
    /// that the graph uses, in the shape that the metadata implies.
    pub fn new(file: &GgufFile, settings: &Settings) -> Result<LlamaFile, ModelError> {
        let config = LlamaConfig::new(file)?;
        let context = settings.context(config.dims.context)?;
        let weights = Weights::new(file, &config)?;
        let roles = weights.roles(&config.dims, settings);
        Ok(LlamaFile { config, settings: settings.clone(), context, weights, roles })
    }

    /// The hyper-parameters.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }
}

impl Weights {
    fn new(file: &GgufFile, config: &LlamaConfig) -> Result<Weights, ModelError> {
        let c = &config.dims;
        let mut from = Catalogue::new(file);
        let ends = Ends::find(&mut from, c)?;
        let rope_freqs = match from.has("rope_freqs.weight") {
            true => Some(from.vector("rope_freqs.weight", config.rope.rotated / 2)?),
            false => None,
        };
        let mut layers = Vec::new();
        for layer in 0..c.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            layers.push(LayerWeights {
                attn_norm: from.vector(&name("attn_norm"), c.width)?,
                matrices: Matrices::find(&mut from, layer, c)?,
                ffn_norm: from.vector(&name("ffn_norm"), c.width)?,
            });
        }
        let all = from.finish()?;
        Ok(Weights { all, ends, rope_freqs, layers })
    }

    /// Every kernel of the graph.
    fn roles(&self, c: &Dims, settings: &Settings) -> RoleSet {
        let mut roles = RoleSet::default();
        self.ends.add_roles(&mut roles, c, settings);
        roles.add(Role::Rope { pairs: c.head / 2, head: c.head, cache: settings.kv });
        for layer in &self.layers {
            layer.matrices.add_roles(&mut roles, &KERNELS, c, settings);
        }
        roles
    }
}

impl Architecture for LlamaFile {
    fn name(&self) -> &'static str {
        "llama"
    }

    fn context(&self) -> u64 {
        self.context
    }

    fn vocabulary(&self) -> u64 {
        self.config.dims.vocabulary
    }

    fn roles(&self) -> &[Role] {
        self.roles.roles()
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn load(
        &self,
        file: &GgufFile,
        device: Arc<dyn Device>,
        kernels: &KernelSet,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Arc<dyn Model>, ModelError> {
        let (c, w, largest) = (&self.config.dims, &self.weights, self.settings.chunk);
        let loaded = Loaded::new(file, &*device, &w.all, progress)?;
        let import = |weight: &Weight| loaded.tensor(weight);
        let (cache, scale) = (self.settings.kv, 1.0 / (c.head as f64).sqrt());
        let adding = |weight, precision| Linear::adding(kernels, import(weight)?, precision, largest);
        let norm = |weight, precision: Precision, largest| {
            RmsNorm::new(kernels, import(weight)?, self.config.eps, &precision.elements(largest))
        };
        let gated = |layer: &Matrices, precisions| {
            let (gate, up) = (import(&layer.ffn_gate)?, import(&layer.ffn_up)?);
            GatedUnit::new(kernels, gate, up, largest, |rows| layer.gated(&KERNELS, precisions, rows))
        };
        let attention = |precision| Attention::new(kernels, c, cache, (precision, largest), scale, None);

        let mut layers = Vec::with_capacity(w.layers.len());
        for layer in &w.layers {
            let matrices = &layer.matrices;
            let precisions = matrices.precisions(c, &self.settings);
            let Precisions { attn, out, ffn, down } = precisions;
            let qkv = [import(&matrices.attn_q)?, import(&matrices.attn_k)?, import(&matrices.attn_v)?];
            layers.push(Layer {
                precisions,
                attn_norm: norm(&layer.attn_norm, attn, largest)?,
                qkv: Qkv::new(kernels, qkv, attn, largest)?,
                attention: attention(out)?,
                attn_output: adding(&matrices.attn_output, out)?,
                ffn_norm: norm(&layer.ffn_norm, ffn, largest)?,
                swiglu: gated(matrices, precisions)?,
                down: adding(&matrices.ffn_down, down)?,
            });
        }
        let factors = w.rope_freqs.as_ref().map(|weight| weight.read(file)).transpose()?;
        let angles = Angles::new(&*device, &self.config.rope, c.head, self.context, factors.as_deref())?;
        let table = import(&w.ends.token_embd)?;
        let output = w.ends.output.as_ref().map(import).transpose()?;
        let output = output.unwrap_or_else(|| table.clone());
        let precision = w.ends.precision(c, &self.settings);
        Ok(Arc::new(Llama {
            precision,
            output: Linear::new(kernels, output, precision, 1)?,
            embed: Embedding::new(kernels, table, c.width, 1.0)?,
            layers,
            rope: Rope::new(kernels, angles, c.head, cache)?,
            output_norm: norm(&w.ends.output_norm, precision, 1)?,
            placement: Placement { device, dims: c.clone(), context: self.context, chunk: largest, cache },
        }))
    }
}

/// The weights on a device, and the kernels.
struct Llama {
    placement: Placement,
    embed: Embedding,
    layers: Vec<Layer>,
    rope: Rope,
    output_norm: RmsNorm,
    output: Linear,
    /// Of the input of the output layer.
    precision: Precision,
}

struct Layer {
    precisions: Precisions,
    attn_norm: RmsNorm,
    qkv: Qkv,
    attention: Attention,
    attn_output: Linear,
    ffn_norm: RmsNorm,
    swiglu: GatedUnit,
    down: Linear,
}

impl Graph for Llama {
    fn placement(&self) -> &Placement {
        &self.placement
    }

    fn layers(&self, device: &dyn Device, batch: &Batch, caches: &[Cache]) -> Result<(), ModelError> {
        let Batch { ids, positions, x, h, q, k, v, heads, parts, o, act } = batch;

        self.embed.run(device, ids, x)?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let Precisions { attn, out, ffn, down } = layer.precisions;
            let (attn_in, ffn_in) = (h.of(attn), h.of(ffn));
            layer.attn_norm.run(device, x, attn_in)?;
            let caches = (&cache.keys, &cache.values);
            layer.qkv.run(device, attn_in, [q, k, v])?;
            self.rope.run(device, heads, caches, &positions.tensor)?;
            layer.attention.run(device, &heads.query, caches, (parts, o), positions)?;
            layer.attn_output.run(device, o.of(out), x)?;

            layer.ffn_norm.run(device, x, ffn_in)?;
            layer.swiglu.run(device, ffn_in, act.of(down))?;
            layer.down.run(device, act.of(down), x)?;
        }
        Ok(())
    }

    fn output(&self, device: &dyn Device, x: &Tensor, h: &Input, logits: &Tensor) -> Result<(), ModelError> {
        let h = h.of(self.precision);
        self.output_norm.run(device, x, h)?;
        self.output.run(device, h, logits)
    }
}
