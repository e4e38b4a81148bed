//! Files that the architecture must refuse, each with an error that names the place.

use phobos_models::Settings;

use crate::builder::{Builder, Value};

/// The error of opening the file, or nothing when it is accepted.
pub fn refusal(builder: &Builder) -> String {
    match phobos_models::open(&builder.file(), &Settings::default()) {
        Ok(_) => String::new(),
        Err(error) => {
            assert!(error.is_input());
            error.to_string()
        }
    }
}

#[track_caller]
pub fn refused(builder: Builder, expected: &str) {
    assert_eq!(refusal(&builder), format!("m.gguf: {expected}"));
}

#[test]
fn the_smallest_model_is_accepted() {
    assert_eq!(refusal(&Builder::llama()), "");
    assert_eq!(refusal(&Builder::llama().tensor("output.weight", &[10, 8])), "");
    assert_eq!(refusal(&Builder::llama().tensor("rope_freqs.weight", &[2])), "");
    assert_eq!(refusal(&Builder::llama().key("llama.attention.head_count_kv", Value::U32s(vec![1]))), "");
    assert_eq!(refusal(&Builder::llama().key("llama.rope.scaling.type", Value::Text("none"))), "");
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
    assert_eq!(refusal(&wide), "");
}

#[test]
fn keys_that_the_graph_cannot_honour() {
    let llama = Builder::llama;
    refused(
        llama().key("general.architecture", Value::Text("bert")),
        "metadata key `general.architecture`: `bert` is not supported: expected llama or gemma3",
    );
    let error = refusal(&llama().without_key("llama.block_count"));
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
    assert_eq!(refusal(&two), "");
    refused(
        two.key("llama.feed_forward_length", Value::U32s(vec![16, 24])),
        "metadata key `llama.feed_forward_length`: layers differ (16 and 24), which is not supported",
    );
}

#[test]
fn tensors_that_the_graph_cannot_take() {
    let llama = Builder::llama;
    let error = refusal(&llama().without_tensor("blk.0.ffn_up.weight"));
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
    let error = refusal(&llama().tensor("token_embd.weight", &[0, 8]));
    assert!(error.starts_with("m.gguf: tensor `token_embd.weight`: wanted a row for each"), "{error}");
    // A count of layers that only a missing tensor ends.
    let error = refusal(&llama().key("llama.block_count", Value::U32(1 << 30)));
    assert!(error.starts_with("m.gguf: tensor `blk.1.attn_norm.weight`: not "), "{error}");
}
