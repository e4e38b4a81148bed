//! What a model file says about the bytes that a run moves and keeps.

use super::Host;
use crate::bench::json_number;
use crate::error::{Error, Result};
use crate::process;
use std::path::Path;
use std::process::Command;

/// Of one model file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct File {
    pub bytes: f64,
    /// The weights that generating one token reads.
    pub read_per_token: f64,
    /// Keys and values of one position, in f16.
    pub kept_per_position: f64,
}

impl File {
    /// As `phobos-cli inspect` tells it.
    pub fn inspect(host: &Host<'_>, gguf: &Path) -> Result<Self> {
        let mut command = Command::new(host.program("phobos-cli"));
        let text = process::capture(command.args(["inspect", "--tensors", "--json"]).arg(gguf))?;
        parse(&text).ok_or_else(|| Error::Output {
            command: process::show(&command),
            expected: "tensors and the shape of the attention".to_owned(),
        })
    }
}

fn parse(json: &str) -> Option<File> {
    let (head, tensors) = json.split_once("\"tensors\": [")?;
    let value = |name: &str| json_number(head.split_once(&format!("{name}\""))?.1, "value");
    let (mut read, mut table, mut output) = (0.0, 0.0, false);
    for tensor in tensors.split("\"name\":").skip(1) {
        let name = tensor.trim_start().strip_prefix('"')?.split('"').next()?;
        let bytes = json_number(tensor, "bytes")?;
        match name {
            "token_embd.weight" => table = bytes,
            "output.weight" => output = true,
            _ => {}
        }
        read += bytes;
    }
    // One row of the table is looked up, which is nothing; all of it is read where it is the output layer too.
    let read_per_token = if output { read - table } else { read };
    let heads = value(".attention.head_count_kv")?;
    let width = match value(".attention.key_length") {
        Some(width) => width,
        None => value(".embedding_length")? / value(".attention.head_count")?,
    };
    let kept_per_position = value(".block_count")? * heads * width * 2.0 * 2.0;
    Some(File { bytes: json_number(head, "bytes")?, read_per_token, kept_per_position })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
      "file": "m.gguf", "version": 3, "bytes": 1000,
      "types": { "F32": { "tensors": 61, "elements": 35136, "bytes": 140544 } },
      "metadata": {
        "llama.block_count": { "type": "u32", "value": 30 },
        "llama.embedding_length": { "type": "u32", "value": 576 },
        "llama.attention.head_count": { "type": "u32", "value": 9 },
        "llama.attention.head_count_kv": { "type": "u32", "value": 3 }
      },
      "tensors": [
        { "name": "token_embd.weight", "shape": [576, 9], "type": "Q8_0", "bytes": 600, "offset": 0 },
        { "name": "blk.0.attn_q.weight", "shape": [576], "type": "Q4_1", "bytes": 300, "offset": 600 }
      ]
    }"#;

    #[test]
    fn a_tied_table_is_read_as_the_output_layer() {
        let file = parse(JSON).unwrap();
        assert_eq!(file.bytes, 1000.0);
        assert_eq!(file.read_per_token, 900.0);
        // 30 blocks of 3 heads of 64 keys and 64 values of 2 bytes.
        assert_eq!(file.kept_per_position, 23040.0);
    }

    #[test]
    fn a_table_beside_an_output_layer_is_not_read() {
        let json = JSON.replace("blk.0.attn_q.weight", "output.weight");
        assert_eq!(parse(&json).unwrap().read_per_token, 300.0);
    }

    #[test]
    fn heads_may_have_a_width_of_their_own() {
        let json = JSON
            .replace("\"metadata\": {", r#""metadata": { "llama.attention.key_length": { "value": 256 },"#);
        assert_eq!(parse(&json).unwrap().kept_per_position, 30.0 * 3.0 * 256.0 * 4.0);
        assert_eq!(parse("{}"), None);
        assert_eq!(parse(&JSON.replace("head_count_kv", "heads")), None);
    }
}
