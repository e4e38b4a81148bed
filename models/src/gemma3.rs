//! The `gemma3` architecture, text only (Gemma Team 2025, arXiv:2503.19786).
//!
//! ```text
//! x = embed(ids) * sqrt(E)
//! for each layer:
//!   h = rmsnorm(x);  q, k, v = Wq h, Wk h, Wv h
//!   q, k = rope(rmsnorm of each head)
//!   x += rmsnorm(Wo attention(q, keys, values))
//!   h = rmsnorm(x)
//!   x += rmsnorm(Wdown (gelu(Wgate h) * Wup h))
//! logits = Wout rmsnorm(x)
//! ```
//! All but every sixth layer see a window of the last positions alone, and rotate with a
//! base of their own. Rotary pairs are (i, D / 2 + i). The file's norm weights have the 1 of
//! `(1 + w)` in them.

use std::sync::Arc;

use phobos_device::{Device, Tensor};
use phobos_gguf::GgufFile;

use crate::{
    Architecture, Model, ModelError, RopeConfig, Settings,
    attention::Attention,
    config::{Dims, Keys},
    kernels::{KernelSet, Precision, Role, RoleSet},
    layer::{Ends, LayerKernels, Matrices, Precisions},
    ops::{Angles, Embedding, GatedUnit, Input, Linear, NormRope, Qkv, RmsNorm, Softcap},
    sequence::{Batch, Cache, Graph, Placement},
    weights::{Catalogue, Loaded, Weight},
};

/// Hyper-parameters of a `gemma3` model.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemma3Config {
    /// Its extents.
    pub dims: Dims,
    /// Added to the mean square in RMSNorm.
    pub eps: f32,
    /// Rotary position embedding of the layers that see all positions.
    pub rope: RopeConfig,
    /// The layers that do not.
    pub sliding: Option<Sliding>,
    /// What attention scores are multiplied by.
    pub scale: f64,
    /// The logits are brought into (-softcap, softcap).
    pub softcap: Option<f32>,
}

/// Layers that see a window of positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Sliding {
    /// How many positions, the query's own among them.
    pub window: u64,
    /// Every how manieth layer sees all positions.
    pub pattern: u64,
    /// Rotary position embedding of these layers.
    pub rope: RopeConfig,
}

/// Keys whose meaning the graph lacks, and the one value that needs none.
const NEUTRAL: [(&str, f64); 5] = [
    ("expert_count", 0.0),
    ("expert_used_count", 0.0),
    ("attention.causal", 1.0),
    ("attn_logit_softcapping", 0.0),
    ("rope.scaling.attn_factor", 1.0),
];

/// Layers of the 27B model, the only one to scale queries by width and not by head size.
/// The file has no key for it.
const LAYERS_27B: u64 = 62;

impl Gemma3Config {
    /// Reads the `gemma3.*` keys of `file`.
    fn new(file: &GgufFile) -> Result<Gemma3Config, ModelError> {
        let keys = Keys::new(file)?;
        keys.expect_neutral(&NEUTRAL)?;
        let dims = keys.dims()?;
        let rope = keys.rope(dims.head)?;
        if rope.rotated != dims.head {
            let problem = format!("{} is not the head size {}", rope.rotated, dims.head);
            return Err(keys.error("rope.dimension_count", problem));
        }
        let window = keys.optional::<u64>("attention.sliding_window")?.filter(|window| *window > 0);
        let sliding = match window {
            None => None,
            Some(_) => Some(Sliding {
                window: keys.count("attention.sliding_window", None)?,
                pattern: keys.count("attention.sliding_window_pattern", Some(6))?,
                rope: RopeConfig {
                    base: keys.number("rope.freq_base_swa", Some(10_000.0), |base| {
                        base.is_finite() && base > 0.0
                    })?,
                    rotated: dims.head,
                    // Only the layers that see all positions are stretched.
                    factor: 1.0,
                },
            }),
        };
        let per_query = match dims.layers {
            LAYERS_27B => dims.width as f64 / dims.heads as f64,
            _ => dims.head as f64,
        };
        let softcap =
            keys.number("final_logit_softcapping", Some(0.0), |cap| cap.is_finite() && cap >= 0.0)? as f32;
        Ok(Gemma3Config {
            eps: keys.eps()?,
            rope,
            sliding,
            scale: 1.0 / per_query.sqrt(),
            softcap: Some(softcap).filter(|cap| *cap > 0.0),
            dims,
        })
    }

    /// Whether layer `layer` sees a window alone.
    fn slides(&self, layer: usize) -> bool {
        self.sliding.as_ref().is_some_and(|sliding| !(layer as u64 + 1).is_multiple_of(sliding.pattern))
    }
}

/// A gemma3 file understood: hyper-parameters, settings and where the weights are.
pub struct Gemma3File {
    config: Gemma3Config,
    settings: Settings,
    context: u64,
    weights: Weights,
    roles: RoleSet,
}

struct Weights {
    all: Vec<Weight>,
    ends: Ends,
    layers: Vec<LayerWeights>,
}

struct LayerWeights {
    attn_norm: Weight, // [E]
    matrices: Matrices,
    attn_q_norm: Weight,         // [D]
    attn_k_norm: Weight,         // [D]
    post_attention_norm: Weight, // [E]
    ffn_norm: Weight,            // [E]
    post_ffw_norm: Weight,       // [E]
}

/// A norm stands between the products that lead back and the residual stream.
const KERNELS: LayerKernels = LayerKernels {
    back: |from, weight, rows| Role::Linear { from, weight, rows },
    gated: |from, to, [gate, up], rows| Role::GeGlu { from, to, gate, up, rows },
};

impl Gemma3File {
    /// Reads the metadata and the tensor directory of `file`. Every tensor must be one
    /// that the graph uses, in the shape that the metadata implies.
    pub fn new(file: &GgufFile, settings: &Settings) -> Result<Gemma3File, ModelError> {
        let config = Gemma3Config::new(file)?;
        let context = settings.context(config.dims.context)?;
        let weights = Weights::new(file, &config.dims)?;
        let roles = weights.roles(&config, settings);
        Ok(Gemma3File { config, settings: settings.clone(), context, weights, roles })
    }

    /// The hyper-parameters.
    pub fn config(&self) -> &Gemma3Config {
        &self.config
    }
}

impl Weights {
    fn new(file: &GgufFile, c: &Dims) -> Result<Weights, ModelError> {
        let mut from = Catalogue::new(file);
        let ends = Ends::find(&mut from, c)?;
        let mut layers = Vec::new();
        for layer in 0..c.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            layers.push(LayerWeights {
                attn_norm: from.vector(&name("attn_norm"), c.width)?,
                matrices: Matrices::find(&mut from, layer, c)?,
                attn_q_norm: from.vector(&name("attn_q_norm"), c.head)?,
                attn_k_norm: from.vector(&name("attn_k_norm"), c.head)?,
                post_attention_norm: from.vector(&name("post_attention_norm"), c.width)?,
                ffn_norm: from.vector(&name("ffn_norm"), c.width)?,
                post_ffw_norm: from.vector(&name("post_ffw_norm"), c.width)?,
            });
        }
        let all = from.finish()?;
        Ok(Weights { all, ends, layers })
    }

    /// Every kernel of the graph.
    fn roles(&self, config: &Gemma3Config, settings: &Settings) -> RoleSet {
        let c = &config.dims;
        let mut roles = RoleSet::default();
        self.ends.add_roles(&mut roles, c, settings);
        roles.add(Role::NormRope { pairs: c.head / 2, head: c.head, cache: settings.kv });
        roles.add(Role::RmsNormAdd { width: c.width });
        for layer in &self.layers {
            layer.matrices.add_roles(&mut roles, &KERNELS, c, settings);
        }
        if config.softcap.is_some() {
            roles.add(Role::Softcap);
        }
        roles
    }
}

impl Architecture for Gemma3File {
    fn name(&self) -> &'static str {
        "gemma3"
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
        let (config, c, w, largest) = (&self.config, &self.config.dims, &self.weights, self.settings.chunk);
        let (eps, cache) = (config.eps, self.settings.kv);
        let loaded = Loaded::new(file, &*device, &w.all, progress)?;
        let import = |weight: &Weight| loaded.tensor(weight);
        let linear = |weight, precision| Linear::new(kernels, import(weight)?, precision, largest);
        let norm = |weight, precision: Precision, largest| {
            RmsNorm::new(kernels, import(weight)?, eps, &precision.elements(largest))
        };
        let adding = |weight| RmsNorm::adding(kernels, import(weight)?, eps);
        let gated = |layer: &Matrices, precisions| {
            let (gate, up) = (import(&layer.ffn_gate)?, import(&layer.ffn_up)?);
            GatedUnit::new(kernels, gate, up, largest, |rows| layer.gated(&KERNELS, precisions, rows))
        };
        let attention = |slides, precision| {
            let window = config.sliding.as_ref().filter(|_| slides).map(|sliding| sliding.window);
            Attention::new(kernels, c, cache, (precision, largest), config.scale, window)
        };

        let mut layers = Vec::with_capacity(w.layers.len());
        for (index, layer) in w.layers.iter().enumerate() {
            let matrices = &layer.matrices;
            let precisions = matrices.precisions(c, &self.settings);
            let Precisions { attn, out, ffn, down } = precisions;
            let slides = config.slides(index);
            let qkv = [import(&matrices.attn_q)?, import(&matrices.attn_k)?, import(&matrices.attn_v)?];
            let norms = (import(&layer.attn_q_norm)?, import(&layer.attn_k_norm)?);
            layers.push(Layer {
                precisions,
                slides,
                attn_norm: norm(&layer.attn_norm, attn, largest)?,
                qkv: Qkv::new(kernels, qkv, attn, largest)?,
                norm_rope: NormRope::new(kernels, &norms.0, &norms.1, eps, cache)?,
                attention: attention(slides, out)?,
                attn_output: linear(&matrices.attn_output, out)?,
                post_attention_norm: adding(&layer.post_attention_norm)?,
                ffn_norm: norm(&layer.ffn_norm, ffn, largest)?,
                geglu: gated(matrices, precisions)?,
                down: linear(&matrices.ffn_down, down)?,
                post_ffw_norm: adding(&layer.post_ffw_norm)?,
            });
        }
        let angles = |rope: &RopeConfig| Angles::new(&*device, rope, c.head, self.context, None);
        let sliding = config.sliding.as_ref();
        let table = import(&w.ends.token_embd)?;
        let output = w.ends.output.as_ref().map(import).transpose()?;
        let output = output.unwrap_or_else(|| table.clone());
        let precision = w.ends.precision(c, &self.settings);
        Ok(Arc::new(Gemma3 {
            precision,
            output: Linear::new(kernels, output, precision, 1)?,
            embed: Embedding::new(kernels, table, c.width, (c.width as f32).sqrt())?,
            layers,
            full: angles(&config.rope)?,
            sliding: sliding.map(|sliding| angles(&sliding.rope)).transpose()?,
            output_norm: norm(&w.ends.output_norm, precision, 1)?,
            softcap: config.softcap.map(|cap| Softcap::new(kernels, cap)).transpose()?,
            placement: Placement { device, dims: c.clone(), context: self.context, chunk: largest, cache },
        }))
    }
}

/// The weights on a device, and the kernels.
struct Gemma3 {
    placement: Placement,
    embed: Embedding,
    layers: Vec<Layer>,
    /// Of layers that see all positions.
    full: Angles,
    /// Of layers that see a window.
    sliding: Option<Angles>,
    output_norm: RmsNorm,
    output: Linear,
    /// Of the input of the output layer.
    precision: Precision,
    softcap: Option<Softcap>,
}

struct Layer {
    precisions: Precisions,
    slides: bool,
    attn_norm: RmsNorm,
    qkv: Qkv,
    norm_rope: NormRope,
    attention: Attention,
    attn_output: Linear,
    post_attention_norm: RmsNorm,
    ffn_norm: RmsNorm,
    geglu: GatedUnit,
    down: Linear,
    post_ffw_norm: RmsNorm,
}

impl Graph for Gemma3 {
    fn placement(&self) -> &Placement {
        &self.placement
    }

    fn layers(&self, device: &dyn Device, batch: &Batch, caches: &[Cache]) -> Result<(), ModelError> {
        let Batch { ids, positions, x, h, q, k, v, heads, parts, o, act } = batch;

        self.embed.run(device, ids, x)?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let angles = self.sliding.as_ref().filter(|_| layer.slides).unwrap_or(&self.full);
            let Precisions { attn, out, ffn, down } = layer.precisions;
            let (attn_in, ffn_in) = (h.of(attn), h.of(ffn));
            layer.attn_norm.run(device, x, attn_in)?;
            let caches = (&cache.keys, &cache.values);
            layer.qkv.run(device, attn_in, [q, k, v])?;
            layer.norm_rope.run(device, angles, heads, caches, &positions.tensor)?;
            layer.attention.run(device, &heads.query, caches, (parts, o), positions)?;
            layer.attn_output.run(device, o.of(out), h.exact())?;
            layer.post_attention_norm.run(device, h.exact(), x)?;

            layer.ffn_norm.run(device, x, ffn_in)?;
            layer.geglu.run(device, ffn_in, act.of(down))?;
            layer.down.run(device, act.of(down), h.exact())?;
            layer.post_ffw_norm.run(device, h.exact(), x)?;
        }
        Ok(())
    }

    fn output(&self, device: &dyn Device, x: &Tensor, h: &Input, logits: &Tensor) -> Result<(), ModelError> {
        let h = h.of(self.precision);
        self.output_norm.run(device, x, h)?;
        self.output.run(device, h, logits)?;
        match &self.softcap {
            Some(softcap) => softcap.run(device, logits),
            None => Ok(()),
        }
    }
}
