//! Files of the PyPI package `gguf` (see `scripts/make_gguf_fixtures.py`), which
//! shares nothing with this reader.

// Helpers of tests fail as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use phobos_artifact::{DType, Element};
use phobos_gguf::{
    Array, GgufFile, OpenOptions, PerLayer, Value, ValueType, dequantize, render_json, render_text,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(name: &str) -> GgufFile {
    GgufFile::open(&fixture(name), OpenOptions::default()).unwrap()
}

#[test]
fn a_file_of_one_tensor_loads_mapped_and_read() {
    for mmap in [true, false] {
        let file = GgufFile::open(&fixture("one.gguf"), OpenOptions { mmap }).unwrap();
        assert_eq!((file.version(), file.alignment()), (3, 32));
        let tensor = file.require_tensor("w").unwrap();
        assert_eq!(tensor.shape, [4, 3]);
        assert_eq!(tensor.rows_shape(), [3, 4]);
        let element = tensor.element().unwrap();
        assert_eq!(element, Element::Scalar(DType::F32));
        assert_eq!(element.tensor_bytes(&tensor.rows_shape()), Some(tensor.range.len() as u64));
        let values = dequantize(element, file.tensor_bytes(tensor)).unwrap();
        let expected: Vec<f32> = (0u8..12).map(|i| f32::from(i) / 8.0).collect();
        assert_eq!(values, expected);
        assert_eq!(
            (*file.shared_bytes(tensor.part)).as_ref()[tensor.range.clone()],
            *file.tensor_bytes(tensor)
        );
    }
}

#[test]
fn every_type_that_runs_decodes_to_the_very_bits() {
    let file = open("types.gguf");
    assert_eq!(file.tensors().len(), 3 + phobos_artifact::format::ALL.len());
    for tensor in file.tensors() {
        let element = tensor.element().unwrap();
        let name = element.name();
        assert_eq!(tensor.name, format!("{name}.weight"));
        let shape = if element.block_elements() == 256 { [256, 3] } else { [64, 6] };
        assert_eq!(tensor.shape, shape, "{name}");
        let values = dequantize(element, file.tensor_bytes(tensor)).unwrap();
        let expected = fs::read(fixture(&format!("types.{name}.f32"))).unwrap();
        let expected: Vec<u32> =
            expected.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect();
        assert_eq!(expected.len() as u64, shape[0] * shape[1]);
        for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(value.to_bits(), *expected, "{name}[{index}] = {value}");
        }
        assert_eq!(values.len(), expected.len(), "{name}");
    }
}

#[test]
fn scalars_of_every_type_have_the_values_that_were_written() {
    let file = open("metadata.gguf");
    let metadata = file.metadata();
    assert_eq!(metadata.len(), 24);
    assert_eq!(file.alignment(), 64);
    assert_eq!(metadata.require::<&str>("general.architecture").unwrap(), "qwen35");
    assert_eq!(metadata.require::<&str>("general.name").unwrap(), "Zoo \u{3b1}\nsecond line");
    assert_eq!(metadata.require::<u32>("zoo.u8").unwrap(), 255);
    assert_eq!(metadata.require::<i64>("zoo.i8").unwrap(), -128);
    assert_eq!(metadata.require::<u64>("zoo.u16").unwrap(), 65535);
    assert_eq!(metadata.require::<i32>("zoo.i16").unwrap(), -32768);
    assert_eq!(metadata.require::<usize>("zoo.u32").unwrap(), 4_294_967_295);
    assert_eq!(metadata.require::<i32>("zoo.i32").unwrap(), i32::MIN);
    assert_eq!(metadata.require::<u64>("zoo.u64").unwrap(), u64::MAX);
    assert_eq!(metadata.require::<i64>("zoo.i64").unwrap(), i64::MIN);
    assert_eq!(metadata.require::<f32>("zoo.f32").unwrap(), 0.1);
    assert_eq!(metadata.require::<f64>("zoo.f64").unwrap(), 0.1);
    assert_eq!(metadata.require::<f32>("zoo.f64").unwrap(), 0.1);
    assert!(metadata.require::<f32>("zoo.nan").unwrap().is_nan());
    assert!(metadata.require::<bool>("zoo.true").unwrap());
    assert!(!metadata.require::<bool>("zoo.false").unwrap());
    assert_eq!(metadata.require::<&[u8]>("zoo.empty").unwrap(), b"");
    assert_eq!(metadata.optional::<u32>("zoo.absent").unwrap(), None);
}

#[test]
fn arrays_are_read_in_place() {
    let file = open("metadata.gguf");
    let metadata = file.metadata();
    let strings: Vec<&[u8]> = metadata.require("zoo.strings").unwrap();
    assert_eq!(strings, [&b"plain"[..], b"\xff\xfe", b"\xe2\x98\x83", b"a\0b"]);
    assert_eq!(metadata.require::<Vec<u32>>("zoo.i32s").unwrap(), [11, 11, 10, 0]);
    assert_eq!(metadata.require::<Vec<f32>>("zoo.f32s").unwrap(), [0.5, -1.5]);
    assert_eq!(metadata.require::<Vec<bool>>("zoo.bools").unwrap(), [true, false, true]);
    let nested: Vec<Vec<i32>> = metadata.require("zoo.nested").unwrap();
    assert_eq!(nested, [vec![1, 2, 3], vec![-4]]);
    let long: Array<'_> = metadata.require("zoo.long").unwrap();
    assert_eq!((long.len(), long.element_type()), (1000, ValueType::I32));
    assert!(matches!(long.iter().last(), Some(Value::I32(999))));
    assert_eq!(long.iter().count(), 1000);
    let error = metadata.require::<Vec<&str>>("zoo.strings").unwrap_err().to_string();
    let wanted = "metadata key `zoo.strings`: wanted an array, each element a UTF-8 string, \
                  found an array of 4 string values";
    assert!(error.ends_with(wanted), "{error}");
}

#[test]
fn a_layer_value_is_a_scalar_or_an_array_of_the_right_length() {
    let file = open("metadata.gguf");
    let metadata = file.metadata();
    let scalar = metadata.per_layer::<u32>("zoo.u8", 4).unwrap().unwrap();
    assert_eq!(scalar, PerLayer::All(255));
    assert_eq!(scalar.get(3), Some(&255));
    let each = metadata.per_layer::<u32>("zoo.u16s", 4).unwrap().unwrap();
    assert_eq!(each, PerLayer::Each(vec![4, 4, 0, 4]));
    assert_eq!((each.get(2), each.get(4)), (Some(&0), None));
    assert_eq!(metadata.per_layer::<u32>("zoo.absent", 4).unwrap(), None);
    let error = metadata.per_layer::<u32>("zoo.u16s", 5).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "metadata key `zoo.u16s`: wanted an integer from 0 to 4294967295 or an array of 5 of them, \
             found an array of 4 u16 values"
        ),
        "{error}"
    );
}

#[test]
fn tensors_that_cannot_run_are_still_described() {
    let file = open("metadata.gguf");
    let blocks = file.require_tensor("blk.0.q8_k.weight").unwrap();
    assert_eq!((blocks.tensor_type.name(), &blocks.shape[..]), ("Q8_K", &[256, 2][..]));
    assert_eq!(blocks.range.len(), 584);
    assert_eq!(blocks.range.start % 64, 0);
    assert!(blocks.element().is_err());
    let four = file.require_tensor("four").unwrap();
    assert_eq!((four.tensor_type.name(), four.rows_shape()), ("I32", vec![1, 2, 3, 4]));
    let last: Vec<u8> = file.tensor_bytes(four)[92..].to_vec();
    assert_eq!(last, [23, 0, 0, 0]);
}

#[test]
fn the_text_form_shows_types_metadata_and_tensors_on_lines_of_their_own() {
    let file = open("metadata.gguf");
    let text = render_text(&file, true);
    let path = fixture("metadata.gguf");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        format!(
            "{}: GGUF version 3, {} bytes, 24 metadata keys, 3 tensors, alignment 64",
            path.display(),
            fs::metadata(&path).unwrap().len()
        )
    );
    let start = file.require_tensor("blk.0.q8_k.weight").unwrap().range.start;
    for line in [
        "  general.name: string = \"Zoo α\\nsecond line\"".to_owned(),
        "  zoo.i8: i8 = -128".to_owned(),
        "  zoo.f32: f32 = 0.1".to_owned(),
        "  zoo.strings: string[4] = [\"plain\", \"\\xff\\xfe\", \"☃\", \"a\\0b\"]".to_owned(),
        "  zoo.nested: array[2] = [[1, 2, 3], [-4]]".to_owned(),
        "  zoo.long: i32[1000] = [0, 1, 2, 3, 4, 5, 6, 7, ... 992 more]".to_owned(),
        format!("  blk.0.q8_k.weight: Q8_K [256, 2], 584 bytes at {start}"),
    ] {
        assert!(lines.contains(&line.as_str()), "{line}\nnot in\n{text}");
    }
    let share = lines.iter().find(|line| line.trim_start().starts_with("Q8_K")).unwrap();
    let words: Vec<&str> = share.split_whitespace().collect();
    assert_eq!(words[..7], ["Q8_K", "1", "tensors", "512", "elements", "584", "bytes"]);
    assert!(!render_text(&file, false).contains("blk.0"));
}

#[test]
fn the_json_form_has_the_same_facts() {
    let file = open("metadata.gguf");
    let json = render_json(&file, true);
    assert_eq!(json["version"], 3);
    assert_eq!(json["types"]["I32"], serde_json::json!({ "tensors": 1, "elements": 24, "bytes": 96 }));
    let metadata = &json["metadata"];
    assert_eq!(metadata["zoo.u64"], serde_json::json!({ "type": "u64", "value": u64::MAX }));
    assert_eq!(metadata["zoo.f32"].to_string(), r#"{"type":"f32","value":0.1}"#);
    assert_eq!(metadata["zoo.nan"]["value"], "NaN");
    assert_eq!(metadata["zoo.strings"]["value"][1]["start"], "\\xff\\xfe");
    assert_eq!(metadata["zoo.nested"]["value"], serde_json::json!([[1, 2, 3], [-4]]));
    assert_eq!(
        metadata["zoo.long"]["value"],
        serde_json::json!({ "type": "i32", "count": 1000, "first": [0, 1, 2, 3, 4, 5, 6, 7] })
    );
    let four = file.require_tensor("four").unwrap();
    assert_eq!(
        json["tensors"][2],
        serde_json::json!({
            "name": "four", "shape": [4, 3, 2, 1], "type": "I32", "bytes": 96, "offset": four.range.start
        })
    );
    assert!(render_json(&file, false).get("tensors").is_none());
}
