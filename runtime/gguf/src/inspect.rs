//! What `phobos-cli inspect` shows of a file, as text and as JSON.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Map, Value as Json, json};

use crate::{
    escape::escaped,
    file::GgufFile,
    tensor::shown_shape,
    tensor_type::TensorType,
    value::{Array, Value},
};

/// Elements of an array that are shown before the rest is only counted.
const SHOWN_ELEMENTS: usize = 8;

/// Characters of a string that the text form shows.
const SHOWN_CHARACTERS: usize = 72;

/// The longest string, in bytes, that the JSON form holds whole: above the chat
/// templates in use.
const WHOLE_STRING_BYTES: usize = 64 * 1024;

/// How many tensors of one type a file has.
struct TypeShare {
    tensors: usize,
    elements: u64,
    bytes: u64,
}

fn type_shares(file: &GgufFile) -> BTreeMap<u32, TypeShare> {
    let mut shares: BTreeMap<u32, TypeShare> = BTreeMap::new();
    for tensor in file.tensors() {
        let share =
            shares.entry(tensor.tensor_type.id()).or_insert(TypeShare { tensors: 0, elements: 0, bytes: 0 });
        share.tensors += 1;
        share.elements = share.elements.saturating_add(tensor.elements());
        share.bytes += tensor.range.len() as u64;
    }
    shares
}

fn type_name(id: u32) -> &'static str {
    TensorType::from_id(id).map_or("?", TensorType::name)
}

/// The file as lines of text: sizes, the types of its tensors, its metadata with
/// long values abbreviated, and with `tensors` every tensor (shape in ggml order,
/// the contiguous axis first). Text from the file is escaped.
pub fn render_text(file: &GgufFile, tensors: bool) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, file, tensors);
    out
}

fn write_text(out: &mut String, file: &GgufFile, tensors: bool) -> std::fmt::Result {
    let metadata = file.metadata();
    writeln!(
        out,
        "{}: GGUF version {}, {} bytes, {} metadata keys, {} tensors, alignment {}",
        file.name(),
        file.version(),
        file.bytes().len(),
        metadata.len(),
        file.tensors().len(),
        file.alignment()
    )?;

    writeln!(out, "\ntypes:")?;
    for (id, share) in type_shares(file) {
        let runs = TensorType::from_id(id).is_some_and(|tensor_type| tensor_type.element().is_some());
        writeln!(
            out,
            "  {:<8} {:>6} tensors {:>16} elements {:>16} bytes{}",
            type_name(id),
            share.tensors,
            share.elements,
            share.bytes,
            if runs { "" } else { "  (Phobos cannot run this type)" }
        )?;
    }

    writeln!(out, "\nmetadata:")?;
    for (key, value) in metadata.iter() {
        let key = escaped(key.as_bytes(), SHOWN_CHARACTERS);
        write!(out, "  {key}: {} = ", text_type(&value))?;
        write_value(out, &value)?;
        out.push('\n');
    }

    if tensors {
        writeln!(out, "\ntensors:")?;
        for tensor in file.tensors() {
            writeln!(
                out,
                "  {}: {} {}, {} bytes at {}",
                escaped(tensor.name.as_bytes(), SHOWN_CHARACTERS),
                tensor.tensor_type,
                shown_shape(&tensor.shape),
                tensor.range.len(),
                tensor.range.start
            )?;
        }
    }
    Ok(())
}

fn text_type(value: &Value<'_>) -> String {
    match value {
        Value::Array(array) => format!("{}[{}]", array.element_type(), array.len()),
        other => other.value_type().to_string(),
    }
}

fn write_value(out: &mut String, value: &Value<'_>) -> std::fmt::Result {
    match value {
        Value::U8(value) => write!(out, "{value}"),
        Value::I8(value) => write!(out, "{value}"),
        Value::U16(value) => write!(out, "{value}"),
        Value::I16(value) => write!(out, "{value}"),
        Value::U32(value) => write!(out, "{value}"),
        Value::I32(value) => write!(out, "{value}"),
        Value::U64(value) => write!(out, "{value}"),
        Value::I64(value) => write!(out, "{value}"),
        Value::F32(value) => write!(out, "{value:?}"),
        Value::F64(value) => write!(out, "{value:?}"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::String(bytes) => write!(out, "\"{}\"", escaped(bytes, SHOWN_CHARACTERS)),
        Value::Array(array) => write_array(out, array),
    }
}

fn write_array(out: &mut String, array: &Array<'_>) -> std::fmt::Result {
    out.push('[');
    for (index, element) in array.iter().take(SHOWN_ELEMENTS).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_value(out, &element)?;
    }
    match array.len().checked_sub(SHOWN_ELEMENTS) {
        None | Some(0) => {}
        Some(more) => write!(out, ", ... {more} more")?,
    }
    out.push(']');
    Ok(())
}

/// The file as one JSON object: `file`, `version`, `bytes`, `alignment`,
/// `data_start`, `types` (per type: `tensors`, `elements`, `bytes`), `metadata`
/// (per key: `type`, `value`), and with `tensors` the list `tensors` (`name`,
/// `shape` in ggml order, `type`, `bytes`, and `offset` from the start of the file).
///
/// Arrays of more than eight elements are `{"type", "count", "first"}`; strings
/// that are not UTF-8, or over 64 KiB, are `{"bytes", "start"}` with an escaped
/// start; numbers that JSON lacks are `"NaN"`, `"inf"` and `"-inf"`.
pub fn render_json(file: &GgufFile, tensors: bool) -> Json {
    let types: Map<String, Json> = type_shares(file)
        .into_iter()
        .map(|(id, share)| {
            let share = json!({ "tensors": share.tensors, "elements": share.elements, "bytes": share.bytes });
            (type_name(id).to_owned(), share)
        })
        .collect();
    let metadata: Map<String, Json> = file
        .metadata()
        .iter()
        .map(|(key, value)| {
            (key.to_owned(), json!({ "type": value.value_type().name(), "value": json_value(&value) }))
        })
        .collect();
    let mut object = json!({
        "file": file.name(),
        "version": file.version(),
        "bytes": file.bytes().len(),
        "alignment": file.alignment(),
        "data_start": file.data_start(),
        "types": types,
        "metadata": metadata,
    });
    if tensors && let Some(fields) = object.as_object_mut() {
        let list: Vec<Json> = file
            .tensors()
            .iter()
            .map(|tensor| {
                json!({
                    "name": tensor.name,
                    "shape": tensor.shape,
                    "type": tensor.tensor_type.name(),
                    "bytes": tensor.range.len(),
                    "offset": tensor.range.start,
                })
            })
            .collect();
        fields.insert("tensors".to_owned(), list.into());
    }
    object
}

fn json_value(value: &Value<'_>) -> Json {
    match *value {
        Value::U8(value) => value.into(),
        Value::I8(value) => value.into(),
        Value::U16(value) => value.into(),
        Value::I16(value) => value.into(),
        Value::U32(value) => value.into(),
        Value::I32(value) => value.into(),
        Value::U64(value) => value.into(),
        Value::I64(value) => value.into(),
        // The shortest decimal of the f32, not that of its widened value.
        Value::F32(value) => json_float(value.to_string().parse().unwrap_or(f64::from(value))),
        Value::F64(value) => json_float(value),
        Value::Bool(value) => value.into(),
        Value::String(bytes) => json_string(bytes),
        Value::Array(array) => {
            let shown: Vec<Json> =
                array.iter().take(SHOWN_ELEMENTS).map(|element| json_value(&element)).collect();
            if array.len() <= SHOWN_ELEMENTS {
                shown.into()
            } else {
                json!({ "type": array.element_type().name(), "count": array.len(), "first": shown })
            }
        }
    }
}

fn json_float(value: f64) -> Json {
    serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Json::Number)
}

fn json_string(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= WHOLE_STRING_BYTES => text.into(),
        _ => json!({ "bytes": bytes.len(), "start": escaped(bytes, SHOWN_CHARACTERS).to_string() }),
    }
}
