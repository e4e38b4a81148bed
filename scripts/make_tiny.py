#!/usr/bin/env python3
"""Writes a tiny model of models/tests/goldens: random weights, a real tokenizer.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0 numpy
    venv/bin/python scripts/make_tiny.py llama models/tests/goldens/llama-f32.gguf
    venv/bin/python scripts/make_tiny.py gemma3 models/tests/goldens/gemma3-f32.gguf

The output is a function of the seed below: running this again gives the same bytes.
The reference logits beside it (*-f32.logits.f32, ids in refs.json) came from
llama.cpp with an f32 KV cache and flash attention off: one row of 288 f32 for each of
the 12 prompt tokens, then one for each of 8 greedy steps.

llama-window-f32.gguf is not written here: 3 layers, random weights and a sliding window of
8 that llama.cpp leaves aside; its logits came from a NumPy forward pass that honours it.
"""

import sys

import gguf
import numpy

EMBEDDING, LAYERS, HEADS, KV_HEADS, FEED_FORWARD = 64, 4, 4, 2, 192
HEAD = {"llama": EMBEDDING // HEADS, "gemma3": 32}
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "i n", "t h", "th e"]
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def byte_alphabet():
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_in = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in stand_in:
            stand_in[byte] = chr(256 + len(stand_in) - len(printable))
    return [stand_in[byte] for byte in range(256)]


def vocabulary():
    """(text, type) of every token: bytes, merges, specials, then padding to a multiple of 32."""
    tokens = [(text, NORMAL) for text in byte_alphabet()]
    tokens += [(merge.replace(" ", ""), NORMAL) for merge in MERGES]
    tokens += [("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL)]
    tokens += [("<think>", USER_DEFINED)]
    while len(tokens) % 32:
        tokens.append((f"[PAD{len(tokens)}]", UNUSED))
    return tokens


def main(architecture, path):
    gemma, head = architecture == "gemma3", HEAD[architecture]
    random = numpy.random.default_rng(1)
    tokens = vocabulary()
    out = gguf.GGUFWriter(path, architecture)

    out.add_name("tiny-" + architecture)
    out.add_file_type(0)
    out.add_block_count(LAYERS)
    out.add_context_length(512)
    out.add_embedding_length(EMBEDDING)
    out.add_vocab_size(len(tokens))
    out.add_feed_forward_length(FEED_FORWARD)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(1e4)
    if gemma:
        out.add_key_length(head)
        out.add_value_length(head)
        out.add_sliding_window(8)
    else:
        out.add_rope_dimension_count(head)

    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("default" if gemma else "smollm")
    out.add_token_list([text for text, _ in tokens])
    out.add_token_types([kind for _, kind in tokens])
    out.add_token_merges(MERGES)
    out.add_bos_token_id(268)
    out.add_eos_token_id(270)
    out.add_pad_token_id(268)
    out.add_add_bos_token(False)

    def matrix(name, rows, columns):
        out.add_tensor(name, (random.standard_normal((rows, columns)) * 0.08).astype(numpy.float32))

    def norm(name, length=EMBEDDING):
        out.add_tensor(name, (1.0 + 0.1 * random.standard_normal(length)).astype(numpy.float32))

    # The order of these calls is the order of the random draws: keep it.
    matrix("token_embd.weight", len(tokens), EMBEDDING)
    if not gemma:
        matrix("output.weight", len(tokens), EMBEDDING)
    norm("output_norm.weight")
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        norm(block + "ffn_norm.weight")
        if gemma:
            norm(block + "post_attention_norm.weight")
            norm(block + "post_ffw_norm.weight")
        matrix(block + "attn_q.weight", HEADS * head, EMBEDDING)
        matrix(block + "attn_k.weight", KV_HEADS * head, EMBEDDING)
        matrix(block + "attn_v.weight", KV_HEADS * head, EMBEDDING)
        matrix(block + "attn_output.weight", EMBEDDING, HEADS * head)
        if gemma:
            norm(block + "attn_q_norm.weight", head)
            norm(block + "attn_k_norm.weight", head)
        matrix(block + "ffn_gate.weight", FEED_FORWARD, EMBEDDING)
        matrix(block + "ffn_up.weight", FEED_FORWARD, EMBEDDING)
        matrix(block + "ffn_down.weight", EMBEDDING, FEED_FORWARD)

    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in HEAD:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
