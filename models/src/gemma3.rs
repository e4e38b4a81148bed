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
    kernels::{KernelSet, Precision, Role, RoleSet, Rows},
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

/// Shapes are [rows, columns] of `y = W x`.
struct Weights {
    all: Vec<Weight>,
    token_embd: Weight,     // [V, E]
    output: Option<Weight>, // [V, E]; none: the embedding
    output_norm: Weight,    // [E]
    layers: Vec<LayerWeights>,
}

struct LayerWeights {
    attn_norm: Weight,           // [E]
    attn_q: Weight,              // [H D, E]
    attn_k: Weight,              // [G D, E]
    attn_v: Weight,              // [G D, E]
    attn_q_norm: Weight,         // [D]
    attn_k_norm: Weight,         // [D]
    attn_output: Weight,         // [E, H D]
    post_attention_norm: Weight, // [E]
    ffn_norm: Weight,            // [E]
    ffn_gate: Weight,            // [F, E]
    ffn_up: Weight,              // [F, E]
    ffn_down: Weight,            // [E, F]
    post_ffw_norm: Weight,       // [E]
}

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
        let token_embd = from.matrix("token_embd.weight", c.vocabulary, c.width)?;
        let output = match from.has("output.weight") {
            true => Some(from.matrix("output.weight", c.vocabulary, c.width)?),
            false => None,
        };
        let output_norm = from.vector("output_norm.weight", c.width)?;
        let mut layers = Vec::new();
        for layer in 0..c.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let (queries, keys) = (c.queries(), c.keys());
            layers.push(LayerWeights {
                attn_norm: from.vector(&name("attn_norm"), c.width)?,
                attn_q: from.matrix(&name("attn_q"), queries, c.width)?,
                attn_k: from.matrix(&name("attn_k"), keys, c.width)?,
                attn_v: from.matrix(&name("attn_v"), keys, c.width)?,
                attn_q_norm: from.vector(&name("attn_q_norm"), c.head)?,
                attn_k_norm: from.vector(&name("attn_k_norm"), c.head)?,
                attn_output: from.matrix(&name("attn_output"), c.width, queries)?,
                post_attention_norm: from.vector(&name("post_attention_norm"), c.width)?,
                ffn_norm: from.vector(&name("ffn_norm"), c.width)?,
                ffn_gate: from.matrix(&name("ffn_gate"), c.feed_forward, c.width)?,
                ffn_up: from.matrix(&name("ffn_up"), c.feed_forward, c.width)?,
                ffn_down: from.matrix(&name("ffn_down"), c.width, c.feed_forward)?,
                post_ffw_norm: from.vector(&name("post_ffw_norm"), c.width)?,
            });
        }
        let all = from.finish()?;
        Ok(Weights { all, token_embd, output, output_norm, layers })
    }

    /// Every kernel of the graph, in the order of the graph.
    fn roles(&self, config: &Gemma3Config, settings: &Settings) -> RoleSet {
        let c = &config.dims;
        let (head, cache) = (c.head, settings.kv);
        let mut roles = RoleSet::default();
        roles.add(Role::Embed { table: self.token_embd.element, width: c.width });
        roles.add(Role::NormRope { pairs: head / 2, head, cache });
        roles.add(Role::RmsNormAdd { width: c.width });
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
                    roles.add(Role::Linear { from, weight: weight.element, rows });
                }
                roles.add(layer.geglu(precisions, rows));
            }
        }
        let precision = self.output_precision(c, settings);
        roles.add(Role::RmsNorm { width: c.width, to: precision.element(Rows::One) });
        let (weight, from) = (self.output().element, precision.element(Rows::One));
        roles.add(Role::Linear { from, weight, rows: Rows::One });
        if config.softcap.is_some() {
            roles.add(Role::Softcap);
        }
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

    fn geglu(&self, [_, _, ffn, down]: [Precision; 4], rows: Rows) -> Role {
        Role::GeGlu {
            from: ffn.element(rows),
            to: down.element(rows),
            gate: self.ffn_gate.element,
            up: self.ffn_up.element,
            rows,
        }
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
        let gated = |layer: &LayerWeights, precisions| {
            let (gate, up) = (import(&layer.ffn_gate)?, import(&layer.ffn_up)?);
            GatedUnit::new(kernels, gate, up, largest, |rows| layer.geglu(precisions, rows))
        };
        let attention = |slides, precision| {
            let window = config.sliding.as_ref().filter(|_| slides).map(|sliding| sliding.window);
            Attention::new(kernels, c, cache, (precision, largest), config.scale, window)
        };

        let mut layers = Vec::with_capacity(w.layers.len());
        for (index, layer) in w.layers.iter().enumerate() {
            let precisions = layer.precisions(c, &self.settings);
            let [attn, out, ffn, down] = precisions;
            let slides = config.slides(index);
            let qkv = [import(&layer.attn_q)?, import(&layer.attn_k)?, import(&layer.attn_v)?];
            let norms = (import(&layer.attn_q_norm)?, import(&layer.attn_k_norm)?);
            layers.push(Layer {
                precisions,
                slides,
                attn_norm: norm(&layer.attn_norm, attn, largest)?,
                qkv: Qkv::new(kernels, qkv, attn, largest)?,
                norm_rope: NormRope::new(kernels, &norms.0, &norms.1, eps, cache)?,
                attention: attention(slides, out)?,
                attn_output: linear(&layer.attn_output, out)?,
                post_attention_norm: adding(&layer.post_attention_norm)?,
                ffn_norm: norm(&layer.ffn_norm, ffn, largest)?,
                geglu: gated(layer, precisions)?,
                down: linear(&layer.ffn_down, down)?,
                post_ffw_norm: adding(&layer.post_ffw_norm)?,
            });
        }
        let angles = |rope: &RopeConfig| Angles::new(&*device, rope, c.head, self.context, None);
        let sliding = config.sliding.as_ref();
        let table = import(&w.token_embd)?;
        let output = w.output.as_ref().map(import).transpose()?;
        let output = output.unwrap_or_else(|| table.clone());
        let precision = w.output_precision(c, &self.settings);
        Ok(Arc::new(Gemma3 {
            precision,
            output: Linear::new(kernels, output, precision, 1)?,
            embed: Embedding::new(kernels, table, c.width, (c.width as f32).sqrt())?,
            layers,
            full: angles(&config.rope)?,
            sliding: sliding.map(|sliding| angles(&sliding.rope)).transpose()?,
            output_norm: norm(&w.output_norm, precision, 1)?,
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
    precisions: [Precision; 4],
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

    fn layers(&self, batch: &Batch, caches: &[Cache], pos: i32) -> Result<(), ModelError> {
        let device = &*self.placement.device;
        let Batch { ids, x, h, q, k, v, heads, parts, o, act } = batch;

        self.embed.run(device, ids, x)?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let angles = self.sliding.as_ref().filter(|_| layer.slides).unwrap_or(&self.full);
            let [attn, out, ffn, down] = layer.precisions;
            let (attn_in, ffn_in) = (h.of(attn), h.of(ffn));
            layer.attn_norm.run(device, x, attn_in)?;
            let caches = (&cache.keys, &cache.values);
            layer.qkv.run(device, attn_in, [q, k, v])?;
            layer.norm_rope.run(device, angles, heads, caches, pos)?;
            layer.attention.run(device, &heads.query, caches, (parts, o), pos)?;
            layer.attn_output.run(device, o.of(out), h.exact())?;
            layer.post_attention_norm.run(device, h.exact(), x)?;

            layer.ffn_norm.run(device, x, ffn_in)?;
            layer.geglu.run(device, ffn_in, act.of(down))?;
            layer.down.run(device, act.of(down), h.exact())?;
            layer.post_ffw_norm.run(device, h.exact(), x)?;
        }
        Ok(())
    }

    fn output(&self, x: &Tensor, h: &Input, logits: &Tensor) -> Result<(), ModelError> {
        let device = &*self.placement.device;
        let h = h.of(self.precision);
        self.output_norm.run(device, x, h)?;
        self.output.run(device, h, logits)?;
        match &self.softcap {
            Some(softcap) => softcap.run(device, logits),
            None => Ok(()),
        }
    }
}
