//! A real model, when it has been downloaded.

use std::path::Path;

use phobos_artifact::Element;
use phobos_gguf::{Array, GgufFile, OpenOptions, dequantize, render_json};

#[test]
fn the_default_model_parses() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !path.exists() {
        eprintln!("skipped: {} is absent; `cargo xtask demo` downloads it", path.display());
        return;
    }
    let file = GgufFile::open(&path, OpenOptions::default()).unwrap();
    let metadata = file.metadata();
    assert_eq!(metadata.require::<&str>("general.architecture").unwrap(), "llama");
    assert_eq!(metadata.require::<usize>("llama.block_count").unwrap(), 30);
    assert_eq!(metadata.require::<u64>("llama.embedding_length").unwrap(), 576);
    assert_eq!(metadata.require::<f32>("llama.rope.freq_base").unwrap(), 100_000.0);
    let tokens: Vec<&[u8]> = metadata.require("tokenizer.ggml.tokens").unwrap();
    assert_eq!((tokens.len(), tokens[1]), (49152, &b"<|im_start|>"[..]));
    assert_eq!(metadata.require::<Array<'_>>("tokenizer.ggml.merges").unwrap().len(), 48900);

    assert_eq!(file.tensors().len(), 272);
    let count = |name: &str| file.tensors().iter().filter(|tensor| tensor.tensor_type.name() == name).count();
    assert_eq!([count("Q8_0"), count("Q4_1"), count("F32")], [1, 210, 61]);
    for tensor in file.tensors() {
        tensor.element().unwrap();
    }
    let embedding = file.require_tensor("token_embd.weight").unwrap();
    assert_eq!(embedding.rows_shape(), [49152, 576]);
    let Element::Block(format) = embedding.element().unwrap() else { panic!("not a block format") };
    let row = &file.tensor_bytes(embedding)[..576 / format.elements * format.bytes];
    let row = dequantize(Element::Block(format), row).unwrap();
    assert!(row.iter().all(|value| value.is_finite()) && row.iter().any(|value| *value != 0.0));
    assert_eq!(render_json(&file, false)["types"]["Q4_1"]["tensors"], 210);
}
