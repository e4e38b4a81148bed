//! The llama graph in plain Rust and f64, one token at a time: the oracle of the tests.
//! No batches, no kernels, nothing shared with the crate under test.

use std::collections::HashMap;

use phobos_gguf::{GgufFile, OpenOptions, dequantize};

/// A model in memory, every weight as f32.
pub struct Reference {
    weights: HashMap<String, Vec<f32>>, // matrices [rows, columns] of y = W x
    layers: usize,
    width: usize,    // E
    heads: usize,    // H
    kv_heads: usize, // G
    head: usize,     // D
    rotated: usize,
    rope_base: f64,
    eps: f64,
}

impl Reference {
    pub fn open(path: &std::path::Path) -> Reference {
        Reference::new(&GgufFile::open(path, OpenOptions::default()).unwrap())
    }

    pub fn new(file: &GgufFile) -> Reference {
        let keys = file.metadata();
        let count = |name: &str| keys.require::<usize>(&format!("llama.{name}")).unwrap();
        let (width, heads) = (count("embedding_length"), count("attention.head_count"));
        let head = keys.optional("llama.attention.key_length").unwrap().unwrap_or(width / heads);
        let weights = file.tensors().iter().map(|tensor| {
            let values = dequantize(tensor.element().unwrap(), file.tensor_bytes(tensor)).unwrap();
            (tensor.name.clone(), values)
        });
        Reference {
            weights: weights.collect(),
            layers: count("block_count"),
            width,
            heads,
            kv_heads: count("attention.head_count_kv"),
            head,
            rotated: keys.optional("llama.rope.dimension_count").unwrap().unwrap_or(head),
            rope_base: keys.optional("llama.rope.freq_base").unwrap().unwrap_or(10_000.0),
            eps: keys.require("llama.attention.layer_norm_rms_epsilon").unwrap(),
        }
    }

    fn weight(&self, name: &str) -> &[f32] {
        &self.weights[name]
    }

    /// Logits [V] after each token of `ids`.
    pub fn forward(&self, ids: &[u32]) -> Vec<Vec<f64>> {
        let mut sequence = self.sequence();
        ids.iter().map(|id| sequence.token(*id)).collect()
    }

    pub fn sequence(&self) -> ReferenceSequence<'_> {
        ReferenceSequence { model: self, keys: vec![vec![]; self.layers], values: vec![vec![]; self.layers] }
    }
}

pub struct ReferenceSequence<'a> {
    model: &'a Reference,
    keys: Vec<Vec<Vec<f64>>>,   // [layer][position][G D]
    values: Vec<Vec<Vec<f64>>>, // [layer][position][G D]
}

impl ReferenceSequence<'_> {
    /// Logits [V] after one more token.
    pub fn token(&mut self, id: u32) -> Vec<f64> {
        let m = self.model;
        let (e, d) = (m.width, m.head);
        let table = m.weight("token_embd.weight"); // [V, E]
        let row = &table[id as usize * e..][..e];
        let mut x: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect(); // [E]

        for layer in 0..m.layers {
            let w = |part: &str| m.weight(&format!("blk.{layer}.{part}.weight"));
            let position = self.keys[layer].len();

            let h = rmsnorm(&x, w("attn_norm"), m.eps); // [E]
            let mut q = linear(w("attn_q"), &h); // [H D]
            let mut k = linear(w("attn_k"), &h); // [G D]
            let v = linear(w("attn_v"), &h); // [G D]
            for head in q.chunks_mut(d).chain(k.chunks_mut(d)) {
                rope(head, position, m.rotated, m.rope_base);
            }
            self.keys[layer].push(k);
            self.values[layer].push(v);

            let mut o = Vec::new(); // [H D]
            for (head, q) in q.chunks(d).enumerate() {
                let group = head / (m.heads / m.kv_heads) * d;
                let keys = self.keys[layer].iter().map(|k| &k[group..][..d]);
                let scores: Vec<f64> = keys.map(|k| dot(q, k) / (d as f64).sqrt()).collect(); // [S]
                let weights = softmax(&scores); // [S]
                for i in 0..d {
                    let column = self.values[layer].iter().map(|v| v[group + i]);
                    o.push(weights.iter().zip(column).map(|(p, v)| p * v).sum());
                }
            }
            add(&mut x, &linear(w("attn_output"), &o));

            let h = rmsnorm(&x, w("ffn_norm"), m.eps); // [E]
            let (gate, up) = (linear(w("ffn_gate"), &h), linear(w("ffn_up"), &h)); // [F]
            let act: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect(); // [F]
            add(&mut x, &linear(w("ffn_down"), &act));
        }

        let h = rmsnorm(&x, m.weight("output_norm.weight"), m.eps);
        linear(m.weights.get("output.weight").map_or(table, Vec::as_slice), &h)
    }
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// W [rows, columns], x [columns] -> [rows].
pub fn linear(w: &[f32], x: &[f64]) -> Vec<f64> {
    w.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

pub fn rmsnorm(x: &[f64], w: &[f32], eps: f64) -> Vec<f64> {
    let scale = (dot(x, x) / x.len() as f64 + eps).sqrt().recip();
    x.iter().zip(w).map(|(x, w)| x * scale * f64::from(*w)).collect()
}

/// Turns the pairs (2i, 2i + 1) of the first `rotated` elements.
fn rope(head: &mut [f64], position: usize, rotated: usize, base: f64) {
    for (i, pair) in head[..rotated].chunks_exact_mut(2).enumerate() {
        let angle = position as f64 * base.powf(-2.0 * i as f64 / rotated as f64);
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * angle.cos() - b * angle.sin();
        pair[1] = a * angle.sin() + b * angle.cos();
    }
}

pub fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}
