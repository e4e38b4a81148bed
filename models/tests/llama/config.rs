//! Files that the architecture must refuse, each with an error that names the place.

use std::sync::Arc;

use phobos_gguf::GgufFile;
use phobos_models::Settings;

/// A GGUF file in memory: scalar keys and f32 tensors of zeros.
struct Builder {
    keys: Vec<(String, Value)>,
    tensors: Vec<(String, Vec<u64>)>, // outermost axis first
}

#[derive(Clone)]
enum Value {
    U32(u32),
    F32(f32),
    Text(&'static str),
    U32s(Vec<u32>),
}

impl Builder {
    /// One layer: E 8, H 2, G 1, D 4, F 16, V 10.
    fn llama() -> Builder {
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

    fn key(mut self, key: &str, value: Value) -> Builder {
        self.keys.retain(|(name, _)| name != key);
        self.keys.push((key.to_owned(), value));
        self
    }

    fn without_key(mut self, key: &str) -> Builder {
        self.keys.retain(|(name, _)| name != key);
        self
    }

    fn tensor(mut self, name: &str, shape: &[u64]) -> Builder {
        self.tensors.retain(|(other, _)| other != name);
        self.tensors.push((name.to_owned(), shape.to_vec()));
        self
    }

    fn without_tensor(mut self, name: &str) -> Builder {
        self.tensors.retain(|(other, _)| other != name);
        self
    }

    fn bytes(&self) -> Vec<u8> {
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
        out.resize(out.len().next_multiple_of(32) + offset as usize, 0);
        out
    }

    /// The error, or nothing when the file is accepted.
    fn error(&self) -> String {
        let file = GgufFile::parse("m.gguf", Arc::new(self.bytes())).unwrap();
        match phobos_models::open(&file, &Settings::default()) {
            Ok(_) => String::new(),
            Err(error) => {
                assert!(error.is_input());
                error.to_string()
            }
        }
    }
}

#[track_caller]
fn refused(builder: Builder, expected: &str) {
    assert_eq!(builder.error(), format!("m.gguf: {expected}"));
}

#[test]
fn the_smallest_model_is_accepted() {
    assert_eq!(Builder::llama().error(), "");
    assert_eq!(Builder::llama().tensor("output.weight", &[10, 8]).error(), "");
    assert_eq!(Builder::llama().tensor("rope_freqs.weight", &[2]).error(), "");
    assert_eq!(Builder::llama().key("llama.attention.head_count_kv", Value::U32s(vec![1])).error(), "");
    assert_eq!(Builder::llama().key("llama.rope.scaling.type", Value::Text("none")).error(), "");
}

#[test]
fn the_head_size_need_not_divide_the_width() {
    let wide = Builder::llama()
        .key("llama.attention.key_length", Value::U32(6))
        .key("llama.attention.value_length", Value::U32(6))
        .tensor("blk.0.attn_q.weight", &[12, 8])
        .tensor("blk.0.attn_k.weight", &[6, 8])
        .tensor("blk.0.attn_v.weight", &[6, 8])
        .tensor("blk.0.attn_output.weight", &[8, 12]);
    assert_eq!(wide.error(), "");
}

#[test]
fn keys_that_the_graph_cannot_honour() {
    let llama = Builder::llama;
    refused(
        llama().key("general.architecture", Value::Text("bert")),
        "metadata key `general.architecture`: `bert` is not supported: expected llama",
    );
    let error = llama().without_key("llama.block_count").error();
    assert!(error.starts_with("m.gguf: metadata key `llama.block_count`: wanted an integer"), "{error}");
    refused(
        llama().key("llama.embedding_length", Value::U32(0)),
        "metadata key `llama.embedding_length`: 0 is not in 1 to 1073741824",
    );
    refused(
        llama().key("llama.attention.head_count_kv", Value::U32(3)),
        "metadata key `llama.attention.head_count_kv`: 3 does not divide the 2 query heads",
    );
    refused(
        llama().key("llama.attention.value_length", Value::U32(2)),
        "metadata key `llama.attention.value_length`: 2 differs from the key length 4, which is not supported",
    );
    refused(
        llama().key("llama.rope.dimension_count", Value::U32(6)),
        "metadata key `llama.rope.dimension_count`: 6 is not an even number up to the head size 4",
    );
    refused(
        llama().key("llama.rope.scaling.type", Value::Text("yarn")),
        "metadata key `llama.rope.scaling.type`: `yarn` is not supported: expected none or linear",
    );
    refused(
        llama().key("llama.rope.freq_base", Value::F32(f32::NAN)),
        "metadata key `llama.rope.freq_base`: NaN is out of range",
    );
    refused(
        llama().key("llama.expert_count", Value::U32(8)),
        "metadata key `llama.expert_count`: this version's llama graph has no use for it",
    );
    refused(
        llama().key("llama.logit_scale", Value::F32(0.5)),
        "metadata key `llama.logit_scale`: this version's llama graph has no use for it",
    );
}

#[test]
fn layers_that_differ() {
    let mut two = Builder::llama().key("llama.block_count", Value::U32(2));
    let second: Vec<_> = two.tensors.iter().filter(|(name, _)| name.starts_with("blk.0.")).cloned().collect();
    two.tensors.extend(second.into_iter().map(|(name, shape)| (name.replace("blk.0", "blk.1"), shape)));
    assert_eq!(two.error(), "");
    refused(
        two.key("llama.feed_forward_length", Value::U32s(vec![16, 24])),
        "metadata key `llama.feed_forward_length`: layers differ (16 and 24), which is not supported",
    );
}

#[test]
fn tensors_that_the_graph_cannot_take() {
    let llama = Builder::llama;
    let error = llama().without_tensor("blk.0.ffn_up.weight").error();
    assert!(error.starts_with("m.gguf: tensor `blk.0.ffn_up.weight`: not "), "{error}");
    refused(
        llama().tensor("blk.0.attn_k.weight", &[8, 8]),
        "tensor `blk.0.attn_k.weight`: has shape [8, 8], the metadata implies [4, 8] (outermost first)",
    );
    refused(
        llama().tensor("blk.0.attn_q.bias", &[8]),
        "tensor `blk.0.attn_q.bias`: biases are not supported in this architecture",
    );
    refused(
        llama().tensor("blk.0.attn_qkv.weight", &[16, 8]),
        "tensor `blk.0.attn_qkv.weight`: fused query, key and value weights are not supported",
    );
    refused(
        llama().tensor("blk.7.attn_norm.weight", &[8]),
        "tensor `blk.7.attn_norm.weight`: is no part of this architecture's graph",
    );
    let error = llama().tensor("token_embd.weight", &[0, 8]).error();
    assert!(error.starts_with("m.gguf: tensor `token_embd.weight`: wanted a row for each"), "{error}");
    // A count of layers that only a missing tensor ends.
    let error = llama().key("llama.block_count", Value::U32(1 << 30)).error();
    assert!(error.starts_with("m.gguf: tensor `blk.1.attn_norm.weight`: not "), "{error}");
}
