//! The gemma3 graph in plain Rust and f64, one token at a time: the oracle of its tests.

use std::collections::HashMap;

use phobos_gguf::{GgufFile, dequantize};

use crate::reference::{add, dot, linear, rmsnorm, softmax};

/// Logits [V] after each token of `ids`.
pub fn forward(file: &GgufFile, ids: &[u32]) -> Vec<Vec<f64>> {
    let keys = file.metadata();
    let number = |name: &str| keys.optional::<f64>(&format!("gemma3.{name}")).unwrap();
    let count = |name: &str| number(name).unwrap() as usize;
    let (layers, e, heads) = (count("block_count"), count("embedding_length"), count("attention.head_count"));
    let groups = count("attention.head_count_kv");
    let d = number("attention.key_length").map_or(e / heads, |d| d as usize);
    let eps = number("attention.layer_norm_rms_epsilon").unwrap();
    let window = number("attention.sliding_window").map(|window| window as usize);
    let pattern = number("attention.sliding_window_pattern").map_or(6, |pattern| pattern as usize);
    let base = number("rope.freq_base").unwrap_or(10_000.0);
    let sliding_base = number("rope.freq_base_swa").unwrap_or(10_000.0);
    let factor = number("rope.scaling.factor").unwrap_or(1.0);
    let cap = number("final_logit_softcapping");
    let weights: HashMap<&str, Vec<f32>> = file
        .tensors()
        .iter()
        .map(|tensor| {
            let values = dequantize(tensor.element().unwrap(), file.tensor_bytes(tensor)).unwrap();
            (tensor.name.as_str(), values)
        })
        .collect();

    let mut key_cache = vec![Vec::<Vec<f64>>::new(); layers]; // [layer][position][G D]
    let mut value_cache = key_cache.clone();
    let token = |(position, id): (usize, &u32)| {
        let table = &weights["token_embd.weight"]; // [V, E]
        let row = &table[*id as usize * e..][..e];
        let mut x: Vec<f64> = row.iter().map(|value| f64::from(*value) * (e as f64).sqrt()).collect();
        for layer in 0..layers {
            let w = |part: &str| weights[format!("blk.{layer}.{part}.weight").as_str()].as_slice();
            let slides = window.is_some() && layer % pattern != pattern - 1;
            let (base, factor) = if slides { (sliding_base, 1.0) } else { (base, factor) };

            let h = rmsnorm(&x, w("attn_norm"), eps); // [E]
            let turned = |weight: &str, norm: &str| -> Vec<f64> {
                let heads = linear(w(weight), &h);
                let heads = heads.chunks(d).map(|head| rmsnorm(head, w(norm), eps));
                heads.flat_map(|head| rope(&head, position as f64 / factor, base)).collect()
            };
            let q = turned("attn_q", "attn_q_norm"); // [H D]
            key_cache[layer].push(turned("attn_k", "attn_k_norm"));
            value_cache[layer].push(linear(w("attn_v"), &h));

            let seen = match window.filter(|_| slides) {
                Some(window) => (position + 1).saturating_sub(window)..=position,
                None => 0..=position,
            };
            let mut o = Vec::new(); // [H D]
            for (head, q) in q.chunks(d).enumerate() {
                let group = head / (heads / groups) * d;
                let keys = key_cache[layer][seen.clone()].iter().map(|k| &k[group..][..d]);
                let scores: Vec<f64> = keys.map(|k| dot(q, k) / (d as f64).sqrt()).collect();
                let weights = softmax(&scores);
                for i in 0..d {
                    let column = value_cache[layer][seen.clone()].iter().map(|v| v[group + i]);
                    o.push(weights.iter().zip(column).map(|(p, v)| p * v).sum());
                }
            }
            add(&mut x, &rmsnorm(&linear(w("attn_output"), &o), w("post_attention_norm"), eps));

            let h = rmsnorm(&x, w("ffn_norm"), eps); // [E]
            let (gate, up) = (linear(w("ffn_gate"), &h), linear(w("ffn_up"), &h)); // [F]
            let act: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| gelu(*g) * u).collect();
            add(&mut x, &rmsnorm(&linear(w("ffn_down"), &act), w("post_ffw_norm"), eps));
        }
        let h = rmsnorm(&x, &weights["output_norm.weight"], eps);
        let logits = linear(weights.get("output.weight").unwrap_or(table), &h);
        match cap {
            Some(cap) => logits.into_iter().map(|logit| cap * (logit / cap).tanh()).collect(),
            None => logits,
        }
    };
    ids.iter().enumerate().map(token).collect()
}

/// Turns the pairs (i, D / 2 + i).
fn rope(head: &[f64], position: f64, base: f64) -> Vec<f64> {
    let half = head.len() / 2;
    let angle = |i: usize| position * base.powf(-(i as f64) / half as f64);
    let turn = |i: usize| (head[i], head[half + i], angle(i).cos(), angle(i).sin());
    let first = (0..half).map(turn).map(|(a, b, cos, sin)| a * cos - b * sin);
    let second = (0..half).map(turn).map(|(a, b, cos, sin)| a * sin + b * cos);
    first.chain(second).collect()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}
