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

use phobos_artifact::{DType, Element};
use phobos_device::{Buffer, Device, DeviceExt, Tensor};
use phobos_gguf::GgufFile;

use crate::{
    Architecture, Logits, Model, ModelError, Sequence, Settings,
    config::LlamaConfig,
    kernels::{KernelSet, Role, RoleSet, Rows},
    ops::{Attention, Embedding, F32, Linear, RmsNorm, Rope, StoreValues, SwiGlu},
    rope,
    weights::{Catalogue, Weight},
};

const I32: Element = Element::Scalar(DType::I32);

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
    token_embd: Weight,         // [V, E]
    output: Weight,             // [V, E]; the embedding when the file has none
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
        let context = settings.context(config.context)?;
        let weights = Weights::new(file, &config)?;
        let roles = weights.roles(&config, settings);
        Ok(LlamaFile { config, settings: settings.clone(), context, weights, roles })
    }

    /// The hyper-parameters.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }
}

impl Weights {
    fn new(file: &GgufFile, c: &LlamaConfig) -> Result<Weights, ModelError> {
        let mut from = Catalogue::new(file);
        let token_embd = from.matrix("token_embd.weight", c.vocabulary, c.width)?;
        let output = match from.has("output.weight") {
            true => from.matrix("output.weight", c.vocabulary, c.width)?,
            false => token_embd.clone(),
        };
        let output_norm = from.vector("output_norm.weight", c.width)?;
        let rope_freqs = match from.has("rope_freqs.weight") {
            true => Some(from.vector("rope_freqs.weight", c.rope.rotated / 2)?),
            false => None,
        };
        let mut layers = Vec::new();
        for layer in 0..c.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let (queries, keys) = (c.heads * c.head, c.kv_heads * c.head);
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
        from.finish()?;
        Ok(Weights { token_embd, output, output_norm, rope_freqs, layers })
    }

    /// Every kernel of the graph, in the order of the graph.
    fn roles(&self, c: &LlamaConfig, settings: &Settings) -> RoleSet {
        let (head, cache, pairs) = (c.head, settings.kv, c.head / 2);
        let mut roles = RoleSet::default();
        roles.add(Role::Embed { table: self.token_embd.element, width: c.width });
        roles.add(Role::RmsNorm { width: c.width });
        roles.add(Role::Rope { pairs });
        roles.add(Role::StoreKeys { pairs, cache });
        roles.add(Role::StoreValues { width: c.kv_heads * head, cache });
        roles.add(Role::Attention { head, cache, decode: true });
        if settings.chunk > 1 {
            roles.add(Role::Attention { head, cache, decode: false });
        }
        roles.add(Role::SwiGlu);
        for rows in Rows::up_to(settings.chunk) {
            for layer in &self.layers {
                for weight in [&layer.attn_q, &layer.attn_k, &layer.attn_v, &layer.ffn_gate, &layer.ffn_up] {
                    roles.add(Role::Linear { weight: weight.element, rows: *rows });
                }
                for weight in [&layer.attn_output, &layer.ffn_down] {
                    roles.add(Role::LinearAdd { weight: weight.element, rows: *rows });
                }
            }
        }
        roles.add(Role::Linear { weight: self.output.element, rows: Rows::One });
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
        self.config.vocabulary
    }

    fn roles(&self) -> &[Role] {
        self.roles.roles()
    }

    fn load(
        &self,
        file: &GgufFile,
        device: Arc<dyn Device>,
        kernels: &KernelSet,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let (c, w, largest) = (&self.config, &self.weights, self.settings.chunk);
        let import = |weight: &Weight| weight.import(file, &*device);
        let linear = |weight| Linear::new(kernels, import(weight)?, largest);
        let adding = |weight| Linear::adding(kernels, import(weight)?, largest);
        let norm = |weight| RmsNorm::new(kernels, import(weight)?, c.eps);

        let mut layers = Vec::with_capacity(w.layers.len());
        for layer in &w.layers {
            layers.push(Layer {
                attn_norm: norm(&layer.attn_norm)?,
                q: linear(&layer.attn_q)?,
                k: linear(&layer.attn_k)?,
                v: linear(&layer.attn_v)?,
                attn_output: adding(&layer.attn_output)?,
                ffn_norm: norm(&layer.ffn_norm)?,
                gate: linear(&layer.ffn_gate)?,
                up: linear(&layer.ffn_up)?,
                down: adding(&layer.ffn_down)?,
            });
        }
        let factors = w.rope_freqs.as_ref().map(|weight| weight.read(file)).transpose()?;
        let tables = rope::Tables::new(&c.rope, c.head, self.context, factors.as_deref())?;
        let pairs = c.head / 2;
        let upload = |values: &[f32]| Tensor::of(&device.upload(values)?, F32, [self.context, pairs]);
        let (cos, sin) = (upload(&tables.cos)?, upload(&tables.sin)?);

        let cache = self.settings.kv;
        Ok(Arc::new(Llama {
            embed: Embedding::new(kernels, import(&w.token_embd)?, c.width)?,
            layers,
            rope: Rope::new(kernels, cos, sin, pairs, cache)?,
            store_values: StoreValues::new(kernels, c.kv_heads * c.head, cache)?,
            attention: Attention::new(kernels, c.head, cache, largest)?,
            swiglu: SwiGlu::new(kernels)?,
            output_norm: norm(&w.output_norm)?,
            output: Linear::new(kernels, import(&w.output)?, 1)?,
            config: c.clone(),
            context: self.context,
            chunk: largest,
            cache,
            device,
        }))
    }
}

/// The weights on a device, and the kernels.
struct Llama {
    config: LlamaConfig,
    context: u64,
    chunk: u64,
    cache: DType,
    device: Arc<dyn Device>,
    embed: Embedding,
    layers: Vec<Layer>,
    rope: Rope,
    store_values: StoreValues,
    attention: Attention,
    swiglu: SwiGlu,
    output_norm: RmsNorm,
    output: Linear,
}

struct Layer {
    attn_norm: RmsNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    attn_output: Linear,
    ffn_norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Model for Llama {
    fn sequence(self: Arc<Self>) -> Result<Box<dyn Sequence>, ModelError> {
        let c = &self.config;
        let mut caches = Vec::with_capacity(self.layers.len());
        for _ in &self.layers {
            caches.push(Cache::new(&*self.device, c, self.context, self.cache)?);
        }
        let work = Work::new(&*self.device, c, self.chunk)?;
        Ok(Box::new(LlamaSequence { position: 0, caches, work, model: self }))
    }
}

/// Keys and values of one layer, under the shapes that the kernels see.
struct Cache {
    keys: Tensor,       // [S, G, D]
    key_pairs: Tensor,  // [S, G, D / 2, 2]
    values: Tensor,     // [S, G, D]
    value_rows: Tensor, // [S, G D]
}

impl Cache {
    fn new(device: &dyn Device, c: &LlamaConfig, s: u64, element: DType) -> Result<Cache, ModelError> {
        let element = Element::Scalar(element);
        let (g, d) = (c.kv_heads, c.head);
        let shape = [s, g, d];
        let bytes = element.tensor_bytes(&shape).ok_or_else(|| {
            ModelError::Setting(format!("--ctx {s}: the key/value cache does not fit in 64 bits"))
        })?;
        let keys = Tensor::of(&device.allocate(bytes)?, element, shape)?;
        let values = Tensor::of(&device.allocate(bytes)?, element, shape)?;
        Ok(Cache {
            key_pairs: keys.reshape([s, g, d / 2, 2])?,
            value_rows: values.reshape([s, g * d])?,
            keys,
            values,
        })
    }
}

/// Activations of one batch, allocated for the largest.
struct Work {
    ids: Buffer,    // [N] i32
    x: Buffer,      // [N, E]: the residual stream
    h: Buffer,      // [N, E]: its norm
    q: Buffer,      // [N, H, D]
    k: Buffer,      // [N, G, D]
    v: Buffer,      // [N, G, D]
    o: Buffer,      // [N, H, D]
    gate: Buffer,   // [N, F]
    up: Buffer,     // [N, F]
    act: Buffer,    // [N, F]
    logits: Buffer, // [V]
}

impl Work {
    fn new(device: &dyn Device, c: &LlamaConfig, n: u64) -> Result<Work, ModelError> {
        let rows = |n: u64, width: u64| -> Result<Buffer, ModelError> {
            let bytes = F32.tensor_bytes(&[n, width]).ok_or_else(|| {
                ModelError::Setting(format!("batches of {n} rows of {width} do not fit in 64 bits"))
            })?;
            Ok(device.allocate(bytes)?)
        };
        let (queries, keys) = (c.heads * c.head, c.kv_heads * c.head);
        Ok(Work {
            ids: rows(n, 1)?,
            x: rows(n, c.width)?,
            h: rows(n, c.width)?,
            q: rows(n, queries)?,
            k: rows(n, keys)?,
            v: rows(n, keys)?,
            o: rows(n, queries)?,
            gate: rows(n, c.feed_forward)?,
            up: rows(n, c.feed_forward)?,
            act: rows(n, c.feed_forward)?,
            logits: rows(1, c.vocabulary)?,
        })
    }
}

/// A text being read and written.
struct LlamaSequence {
    model: Arc<Llama>,
    position: u64,
    caches: Vec<Cache>,
    work: Work,
}

impl LlamaSequence {
    /// Runs `ids` (at most a chunk) through the layers; leaves the residual stream in
    /// `work.x` [N, E].
    fn layers(&self, ids: &[i32], pos: i32) -> Result<(), ModelError> {
        let (m, w, c) = (&*self.model, &self.work, &self.model.config);
        let device = &*m.device;
        let n = ids.len() as u64;
        let (e, f, r) = (c.width, c.feed_forward, c.head / 2);
        let (hd, gd) = (c.heads * c.head, c.kv_heads * c.head);

        device.write_slice(&w.ids, 0, ids)?;
        let ids = Tensor::of(&w.ids, I32, [n])?;
        let [x, h] = [&w.x, &w.h].map(|buffer| Tensor::of(buffer, F32, [n, e]));
        let (x, h) = (x?, h?);
        let [q, o] = [&w.q, &w.o].map(|buffer| Tensor::of(buffer, F32, [n, hd]));
        let (q, o) = (q?, o?);
        let [k, v] = [&w.k, &w.v].map(|buffer| Tensor::of(buffer, F32, [n, gd]));
        let (k, v) = (k?, v?);
        let [gate, up, act] = [&w.gate, &w.up, &w.act].map(|buffer| Tensor::of(buffer, F32, [n, f]));
        let (gate, up, act) = (gate?, up?, act?);
        let (q_heads, o_heads) = (q.reshape([n, c.heads, c.head])?, o.reshape([n, c.heads, c.head])?);
        let (q_pairs, k_pairs) = (q.reshape([n, c.heads, r, 2])?, k.reshape([n, c.kv_heads, r, 2])?);

        m.embed.run(device, &ids, &x)?;
        for (layer, cache) in m.layers.iter().zip(&self.caches) {
            layer.attn_norm.run(device, &x, &h)?;
            layer.q.run(device, &h, &q)?;
            layer.k.run(device, &h, &k)?;
            layer.v.run(device, &h, &v)?;
            m.rope.rotate(device, &q_pairs, pos)?;
            m.rope.store(device, &k_pairs, &cache.key_pairs, pos)?;
            m.store_values.run(device, &v, &cache.value_rows, pos)?;
            m.attention.run(device, &q_heads, (&cache.keys, &cache.values), &o_heads, pos)?;
            layer.attn_output.run(device, &o, &x)?;

            layer.ffn_norm.run(device, &x, &h)?;
            layer.gate.run(device, &h, &gate)?;
            layer.up.run(device, &h, &up)?;
            m.swiglu.run(device, &gate, &up, &act)?;
            layer.down.run(device, &act, &x)?;
        }
        Ok(())
    }

    /// Appends the logits of row `row` of the last batch to `out`.
    fn logits(&self, row: u64, out: &mut Vec<f32>) -> Result<(), ModelError> {
        let (m, w, c) = (&*self.model, &self.work, &self.model.config);
        let device = &*m.device;
        let row_bytes = c.width * F32.block_bytes() as u64;
        let x = Tensor::new(&w.x, row * row_bytes, F32, [1, c.width])?;
        let h = Tensor::of(&w.h, F32, [1, c.width])?;
        let logits = Tensor::of(&w.logits, F32, [1, c.vocabulary])?;
        m.output_norm.run(device, &x, &h)?;
        m.output.run(device, &h, &logits)?;
        let start = out.len();
        out.resize(start + c.vocabulary as usize, 0.0);
        if let Some(rows) = out.get_mut(start..) {
            device.read_slice(&w.logits, 0, rows)?;
        }
        Ok(())
    }
}

impl Sequence for LlamaSequence {
    fn position(&self) -> u64 {
        self.position
    }

    fn context(&self) -> u64 {
        self.model.context
    }

    fn chunk(&self) -> u64 {
        self.model.chunk
    }

    fn truncate(&mut self, position: u64) {
        // Rows above are overwritten before a query can see them.
        self.position = self.position.min(position);
    }

    fn forward(&mut self, ids: &[u32], logits: Logits) -> Result<Vec<f32>, ModelError> {
        let (vocabulary, limit) = (self.model.config.vocabulary, self.model.context);
        let new = ids.len() as u64;
        if new > limit - self.position {
            return Err(ModelError::ContextFull { used: self.position, new, limit });
        }
        let signed = |id: &u32| match i32::try_from(*id) {
            Ok(signed) if u64::from(*id) < vocabulary => Ok(signed),
            _ => Err(ModelError::TokenId { id: *id, vocabulary }),
        };
        let ids = ids.iter().map(signed).collect::<Result<Vec<i32>, ModelError>>()?;

        let mut out = Vec::new();
        for batch in ids.chunks(self.model.chunk as usize) {
            // The context has at most i32::MAX positions.
            self.layers(batch, self.position as i32)?;
            if logits == Logits::All {
                for row in 0..batch.len() as u64 {
                    self.logits(row, &mut out)?;
                }
            }
            self.position += batch.len() as u64;
        }
        if let (Logits::Last, Some(last)) = (logits, ids.len().checked_sub(1)) {
            self.logits(last as u64 % self.model.chunk, &mut out)?;
        }
        Ok(out)
    }
}
