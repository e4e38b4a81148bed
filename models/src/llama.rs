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
    kernels::{KernelSet, Precision, Role, RoleSet, Rows},
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

/// Shapes are [rows, columns] of `y = W x`.
struct Weights {
    all: Vec<Weight>,
    token_embd: Weight,         // [V, E]
    output: Option<Weight>,     // [V, E]; none: the embedding
    output_norm: Weight,        // [E]
    rope_freqs: Option<Weight>, // [pairs rotated]
    layers: Vec<LayerWeights>,
}

struct LayerWeights {
    attn_norm: Weight,   // [E]
    attn_q: Weight,      // [H D, E]
    attn_k: Weight,      // [G D, E]
    attn_v: Weight,      // [G D, E]
    attn_output: Weight, // [E, H D]
    ffn_norm: Weight,    // [E]
    ffn_gate: Weight,    // [F, E]
    ffn_up: Weight,      // [F, E]
    ffn_down: Weight,    // [E, F]
}

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
        let token_embd = from.matrix("token_embd.weight", c.vocabulary, c.width)?;
        let output = match from.has("output.weight") {
            true => Some(from.matrix("output.weight", c.vocabulary, c.width)?),
            false => None,
        };
        let output_norm = from.vector("output_norm.weight", c.width)?;
        let rope_freqs = match from.has("rope_freqs.weight") {
            true => Some(from.vector("rope_freqs.weight", config.rope.rotated / 2)?),
            false => None,
        };
        let mut layers = Vec::new();
        for layer in 0..c.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let (queries, keys) = (c.queries(), c.keys());
            layers.push(LayerWeights {
                attn_norm: from.vector(&name("attn_norm"), c.width)?,
                attn_q: from.matrix(&name("attn_q"), queries, c.width)?,
                attn_k: from.matrix(&name("attn_k"), keys, c.width)?,
                attn_v: from.matrix(&name("attn_v"), keys, c.width)?,
                attn_output: from.matrix(&name("attn_output"), c.width, queries)?,
                ffn_norm: from.vector(&name("ffn_norm"), c.width)?,
                ffn_gate: from.matrix(&name("ffn_gate"), c.feed_forward, c.width)?,
                ffn_up: from.matrix(&name("ffn_up"), c.feed_forward, c.width)?,
                ffn_down: from.matrix(&name("ffn_down"), c.width, c.feed_forward)?,
            });
        }
        let all = from.finish()?;
        Ok(Weights { all, token_embd, output, output_norm, rope_freqs, layers })
    }

    /// Every kernel of the graph, in the order of the graph.
    fn roles(&self, c: &Dims, settings: &Settings) -> RoleSet {
        let (head, cache) = (c.head, settings.kv);
        let mut roles = RoleSet::default();
        roles.add(Role::Embed { table: self.token_embd.element, width: c.width });
        roles.add(Role::Rope { pairs: head / 2, head, cache });
        for layer in &self.layers {
            let precisions = layer.precisions(c, settings);
            let [attn, out, ffn, down] = precisions;
            for precision in [attn, ffn] {
                for to in precision.elements(settings.chunk) {
                    roles.add(Role::RmsNorm { width: c.width, to });
                }
            }
            for rows in Rows::up_to(settings.chunk) {
                let (rows, to) = (*rows, out.element(*rows));
                Attention::roles(c, cache, rows, to).into_iter().for_each(|role| roles.add(role));
                let weights = [layer.attn_q.element, layer.attn_k.element, layer.attn_v.element];
                roles.add(Role::Qkv { from: attn.element(rows), weights, rows });
                for (weight, precision) in [(&layer.attn_output, out), (&layer.ffn_down, down)] {
                    let from = precision.element(rows);
                    roles.add(Role::LinearAdd { from, weight: weight.element, rows });
                }
                roles.add(layer.swiglu(precisions, rows));
            }
        }
        let precision = self.output_precision(c, settings);
        roles.add(Role::RmsNorm { width: c.width, to: precision.element(Rows::One) });
        let (weight, from) = (self.output().element, precision.element(Rows::One));
        roles.add(Role::Linear { from, weight, rows: Rows::One });
        roles
    }

    fn output(&self) -> &Weight {
        self.output.as_ref().unwrap_or(&self.token_embd)
    }

    fn output_precision(&self, c: &Dims, settings: &Settings) -> Precision {
        Precision::of(settings, c.width, &[self.output().element])
    }
}

impl LayerWeights {
    /// Of the inputs of the attention's first products, of its output, of the gated unit, and
    /// of what leads back from it.
    fn precisions(&self, c: &Dims, settings: &Settings) -> [Precision; 4] {
        let attn = [&self.attn_q, &self.attn_k, &self.attn_v];
        let ffn = [&self.ffn_gate, &self.ffn_up];
        Precision::of_layer(settings, c, &attn, &self.attn_output, &ffn, &self.ffn_down)
    }

    fn swiglu(&self, [_, _, ffn, down]: [Precision; 4], rows: Rows) -> Role {
        Role::SwiGlu {
            from: ffn.element(rows),
            to: down.element(rows),
            gate: self.ffn_gate.element,
            up: self.ffn_up.element,
            rows,
        }
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
        let gated = |layer: &LayerWeights, precisions| {
            let (gate, up) = (import(&layer.ffn_gate)?, import(&layer.ffn_up)?);
            GatedUnit::new(kernels, gate, up, largest, |rows| layer.swiglu(precisions, rows))
        };
        let attention = |precision| Attention::new(kernels, c, cache, (precision, largest), scale, None);

        let mut layers = Vec::with_capacity(w.layers.len());
        for layer in &w.layers {
            let precisions = layer.precisions(c, &self.settings);
            let [attn, out, ffn, down] = precisions;
            let qkv = [import(&layer.attn_q)?, import(&layer.attn_k)?, import(&layer.attn_v)?];
            layers.push(Layer {
                precisions,
                attn_norm: norm(&layer.attn_norm, attn, largest)?,
                qkv: Qkv::new(kernels, qkv, attn, largest)?,
                attention: attention(out)?,
                attn_output: adding(&layer.attn_output, out)?,
                ffn_norm: norm(&layer.ffn_norm, ffn, largest)?,
                swiglu: gated(layer, precisions)?,
                down: adding(&layer.ffn_down, down)?,
            });
        }
        let factors = w.rope_freqs.as_ref().map(|weight| weight.read(file)).transpose()?;
        let angles = Angles::new(&*device, &self.config.rope, c.head, self.context, factors.as_deref())?;
        let table = import(&w.token_embd)?;
        let output = w.output.as_ref().map(import).transpose()?;
        let output = output.unwrap_or_else(|| table.clone());
        let precision = w.output_precision(c, &self.settings);
        Ok(Arc::new(Llama {
            precision,
            output: Linear::new(kernels, output, precision, 1)?,
            embed: Embedding::new(kernels, table, c.width, 1.0)?,
            layers,
            rope: Rope::new(kernels, angles, c.head, cache)?,
            output_norm: norm(&w.output_norm, precision, 1)?,
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
    precisions: [Precision; 4],
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

    fn layers(&self, batch: &Batch, caches: &[Cache], pos: i32) -> Result<(), ModelError> {
        let device = &*self.placement.device;
        let Batch { ids, x, h, q, k, v, heads, parts, o, act } = batch;

        self.embed.run(device, ids, x)?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let [attn, out, ffn, down] = layer.precisions;
            let (attn_in, ffn_in) = (h.of(attn), h.of(ffn));
            layer.attn_norm.run(device, x, attn_in)?;
            let caches = (&cache.keys, &cache.values);
            layer.qkv.run(device, attn_in, [q, k, v])?;
            self.rope.run(device, heads, caches, pos)?;
            layer.attention.run(device, &heads.query, caches, (parts, o), pos)?;
            layer.attn_output.run(device, o.of(out), x)?;

            layer.ffn_norm.run(device, x, ffn_in)?;
            layer.swiglu.run(device, ffn_in, act.of(down))?;
            layer.down.run(device, act.of(down), x)?;
        }
        Ok(())
    }

    fn output(&self, x: &Tensor, h: &Input, logits: &Tensor) -> Result<(), ModelError> {
        let device = &*self.placement.device;
        let h = h.of(self.precision);
        self.output_norm.run(device, x, h)?;
        self.output.run(device, h, logits)
    }
}
