//! Writes small files for the tests.

use std::sync::Arc;

use phobos_gguf::GgufFile;

/// A GGUF file in memory: keys, and f32 tensors of small arbitrary values.
pub struct Builder {
    pub keys: Vec<(String, Value)>,
    pub tensors: Vec<(String, Vec<u64>)>, // outermost axis first
}

#[derive(Clone)]
pub enum Value {
    U32(u32),
    F32(f32),
    Text(&'static str),
    U32s(Vec<u32>),
}

impl Builder {
    /// One layer: E 8, H 2, G 1, D 4, F 16, V 10.
    pub fn llama() -> Builder {
        let keys = [
            ("general.architecture", Value::Text("llama")),
            ("llama.block_count", Value::U32(1)),
            ("llama.context_length", Value::U32(32)),
            ("llama.embedding_length", Value::U32(8)),
            ("llama.feed_forward_length", Value::U32(16)),
            ("llama.attention.head_count", Value::U32(2)),
            ("llama.attention.head_count_kv", Value::U32(1)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ];
        let tensors: [(&str, &[u64]); 11] = [
            ("token_embd.weight", &[10, 8]),
            ("output_norm.weight", &[8]),
            ("blk.0.attn_norm.weight", &[8]),
            ("blk.0.attn_q.weight", &[8, 8]),
            ("blk.0.attn_k.weight", &[4, 8]),
            ("blk.0.attn_v.weight", &[4, 8]),
            ("blk.0.attn_output.weight", &[8, 8]),
            ("blk.0.ffn_norm.weight", &[8]),
            ("blk.0.ffn_gate.weight", &[16, 8]),
            ("blk.0.ffn_up.weight", &[16, 8]),
            ("blk.0.ffn_down.weight", &[8, 16]),
        ];
        Builder {
            keys: keys.map(|(key, value)| (key.to_owned(), value)).into(),
            tensors: tensors.map(|(name, shape)| (name.to_owned(), shape.to_vec())).into(),
        }
    }

    /// The same with two layers: the first sees 3 positions, the second all.
    pub fn gemma3() -> Builder {
        let keys = [
            ("general.architecture", Value::Text("gemma3")),
            ("gemma3.block_count", Value::U32(2)),
            ("gemma3.context_length", Value::U32(32)),
            ("gemma3.embedding_length", Value::U32(8)),
            ("gemma3.feed_forward_length", Value::U32(16)),
            ("gemma3.attention.head_count", Value::U32(2)),
            ("gemma3.attention.head_count_kv", Value::U32(1)),
            ("gemma3.attention.layer_norm_rms_epsilon", Value::F32(1e-6)),
            ("gemma3.attention.sliding_window", Value::U32(3)),
            ("gemma3.attention.sliding_window_pattern", Value::U32(2)),
            ("gemma3.rope.freq_base", Value::F32(1e6)),
        ];
        let mut builder = Builder {
            keys: keys.map(|(key, value)| (key.to_owned(), value)).into(),
            tensors: vec![
                ("token_embd.weight".to_owned(), vec![10, 8]),
                ("output_norm.weight".to_owned(), vec![8]),
            ],
        };
        for layer in 0..2 {
            let tensors: [(&str, &[u64]); 13] = [
                ("attn_norm", &[8]),
                ("attn_q", &[8, 8]),
                ("attn_k", &[4, 8]),
                ("attn_v", &[4, 8]),
                ("attn_q_norm", &[4]),
                ("attn_k_norm", &[4]),
                ("attn_output", &[8, 8]),
                ("post_attention_norm", &[8]),
                ("ffn_norm", &[8]),
                ("ffn_gate", &[16, 8]),
                ("ffn_up", &[16, 8]),
                ("ffn_down", &[8, 16]),
                ("post_ffw_norm", &[8]),
            ];
            for (name, shape) in tensors {
                builder.tensors.push((format!("blk.{layer}.{name}.weight"), shape.to_vec()));
            }
        }
        builder
    }

    pub fn key(mut self, key: &str, value: Value) -> Builder {
        self.keys.retain(|(name, _)| name != key);
        self.keys.push((key.to_owned(), value));
        self
    }

    pub fn without_key(mut self, key: &str) -> Builder {
        self.keys.retain(|(name, _)| name != key);
        self
    }

    pub fn tensor(mut self, name: &str, shape: &[u64]) -> Builder {
        self.tensors.retain(|(other, _)| other != name);
        self.tensors.push((name.to_owned(), shape.to_vec()));
        self
    }

    pub fn without_tensor(mut self, name: &str) -> Builder {
        self.tensors.retain(|(other, _)| other != name);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        let string = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        };
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            string(&mut out, key);
            let kind = match value {
                Value::U32(_) => 4u32,
                Value::F32(_) => 6,
                Value::Text(_) => 8,
                Value::U32s(_) => 9,
            };
            out.extend(kind.to_le_bytes());
            match value {
                Value::U32(value) => out.extend(value.to_le_bytes()),
                Value::F32(value) => out.extend(value.to_le_bytes()),
                Value::Text(text) => string(&mut out, text),
                Value::U32s(values) => {
                    out.extend(4u32.to_le_bytes());
                    out.extend((values.len() as u64).to_le_bytes());
                    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                }
            }
        }
        let mut offset = 0u64;
        for (name, shape) in &self.tensors {
            string(&mut out, name);
            out.extend((shape.len() as u32).to_le_bytes());
            out.extend(shape.iter().rev().flat_map(|extent| extent.to_le_bytes()));
            out.extend(0u32.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset = (offset + shape.iter().product::<u64>() * 4).next_multiple_of(32);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        let start = out.len();
        // A linear congruential sequence (Knuth's MMIX) in -0.5..0.5; norms are near 1.
        let mut state = 1u64;
        for (name, shape) in &self.tensors {
            let (shift, scale) = if name.contains("norm") { (1.0, 0.2) } else { (0.0, 1.0) };
            out.resize(start + (out.len() - start).next_multiple_of(32), 0);
            for _ in 0..shape.iter().product() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let value = (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5;
                out.extend((shift + scale * value).to_le_bytes());
            }
        }
        out.resize(start + offset as usize, 0);
        out
    }

    /// The file, parsed.
    pub fn file(&self) -> GgufFile {
        GgufFile::parse("m.gguf", Arc::new(self.bytes())).unwrap()
    }
}
