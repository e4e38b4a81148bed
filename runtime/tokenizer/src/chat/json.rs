//! `tojson` as Python's `json.dumps` writes it: `", "` and `": "` between items, keys in the order
//! of insertion, no HTML escapes, non-ASCII characters as they are.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Bytes that one call may write. A list that holds another twice, and so on, is small in memory
/// but large in text.
const MAX_BYTES: usize = 16 << 20;
/// How deep values may nest.
const MAX_DEPTH: usize = 128;
/// Spaces of indentation per level.
const MAX_INDENT: usize = 64;

/// How to write.
struct Style {
    ensure_ascii: bool,
    /// One level of indentation; `None` writes one line.
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
    /// Not escaped even if `ensure_ascii`.
    mark: Option<char>,
}

/// The filter. Arguments as in `transformers`: `ensure_ascii`, also by position, `indent`,
/// `separators`, `sort_keys`.
pub(super) fn to_json(
    value: &Value,
    positional: Option<bool>,
    options: &Kwargs,
    mark: Option<char>,
) -> Result<Value, Error> {
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.or(positional);
    let indent = match options.get::<Option<Value>>("indent")? {
        None => None,
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(indentation(&indent)?),
    };
    let (item, key) = match options.get::<Option<Vec<String>>>("separators")?.as_deref() {
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(invalid("tojson: separators are not a pair")),
    };
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let style = Style { ensure_ascii: ensure_ascii.unwrap_or(false), indent, item, key, sort_keys, mark };
    let mut out = String::new();
    style.write(value, 0, &mut out)?;
    Ok(Value::from_safe_string(out))
}

fn indentation(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str().filter(|text| text.len() <= MAX_INDENT) {
        return Ok(text.to_owned());
    }
    match value.as_usize().filter(|&width| width <= MAX_INDENT) {
        Some(width) => Ok(" ".repeat(width)),
        None => Err(invalid(format!("tojson: indent is neither a number up to {MAX_INDENT} nor a string"))),
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

impl Style {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid(format!("tojson: nested deeper than {MAX_DEPTH}")));
        }
        if out.len() > MAX_BYTES {
            return Err(invalid(format!("tojson: more than {MAX_BYTES} bytes")));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?;
                self.list(['[', ']'], items, depth, out, |style, item, out| {
                    style.write(&item, depth + 1, out)
                })
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.list(['{', '}'], keys.into_iter(), depth, out, |style, key, out| {
                    style.string(&key_text(&key)?, out);
                    out.push_str(&style.key);
                    style.write(&value.get_item(&key)?, depth + 1, out)
                })
            }
            ValueKind::String => {
                self.string(value.as_str().unwrap_or(""), out);
                Ok(())
            }
            _ => {
                out.push_str(&scalar(value)?);
                Ok(())
            }
        }
    }

    fn list(
        &self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = Value>,
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(&Style, Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let mut empty = true;
        for item in items {
            if !empty {
                out.push_str(&self.item);
            }
            empty = false;
            self.line(depth + 1, out);
            write(self, item, out)?;
        }
        if !empty {
            self.line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii() && Some(c) != self.mark) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A key: strings as they are, other scalars as they would be written.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => scalar(key),
    }
}

fn scalar(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if value.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number if value.is_integer() => Ok(value.to_string()),
        ValueKind::Number => Ok(float(f64::try_from(value.clone())?)),
        kind => Err(invalid(format!("tojson: {kind} is not JSON serializable"))),
    }
}

/// The shortest decimal that reads back the same, laid out as Python's `repr` does.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::value::Serde;
    use minijinja::{Environment, context};

    fn render(source: &str, value: serde_json::Value) -> Result<String, String> {
        let mut environment = Environment::new();
        environment.add_filter("tojson", |value: &Value, positional: Option<bool>, options: Kwargs| {
            to_json(value, positional, &options, Some('\u{fdd0}'))
        });
        environment
            .render_str(source, context! { x => Value::from(Serde(value)) })
            .map_err(|error| error.to_string())
    }

    /// EricLBuehler/mistral.rs#2363: as `json.dumps` writes it, not sorted and not for HTML.
    #[test]
    fn keys_keep_their_order_and_nothing_is_escaped_for_html() {
        let tool = serde_json::json!({
            "type": "function",
            "function": {"name": "f", "description": "a > b & 'c' <d> é 🦙", "arguments": {}},
            "list": [1, -2.5, true, null, []],
        });
        assert_eq!(
            render("{{ x | tojson }}", tool).unwrap(),
            r#"{"type": "function", "function": {"name": "f", "description": "a > b & 'c' <d> é 🦙", "arguments": {}}, "list": [1, -2.5, true, null, []]}"#
        );
    }

    #[test]
    fn options() {
        let value = serde_json::json!({"b": [1, "é🦙\u{fdd0}"], "a": {}});
        for (call, want) in [
            ("tojson(ensure_ascii=False)", "{\"b\": [1, \"é🦙\u{fdd0}\"], \"a\": {}}"),
            ("tojson(ensure_ascii=True)", "{\"b\": [1, \"\\u00e9\\ud83e\\udd99\u{fdd0}\"], \"a\": {}}"),
            ("tojson(true)", "{\"b\": [1, \"\\u00e9\\ud83e\\udd99\u{fdd0}\"], \"a\": {}}"),
            ("tojson(separators=(',', ':'))", "{\"b\":[1,\"é🦙\u{fdd0}\"],\"a\":{}}"),
            ("tojson(sort_keys=true)", "{\"a\": {}, \"b\": [1, \"é🦙\u{fdd0}\"]}"),
            ("tojson(indent=2)", "{\n  \"b\": [\n    1,\n    \"é🦙\u{fdd0}\"\n  ],\n  \"a\": {}\n}"),
            ("tojson(indent=none)", "{\"b\": [1, \"é🦙\u{fdd0}\"], \"a\": {}}"),
        ] {
            assert_eq!(render(&format!("{{{{ x | {call} }}}}"), value.clone()).unwrap(), want, "{call}");
        }
        assert!(render("{{ x | tojson(indent=100000) }}", value.clone()).unwrap_err().contains("indent"));
        assert!(render("{{ x | tojson(nonsense=1) }}", value).unwrap_err().contains("nonsense"));
    }

    #[test]
    fn control_characters_and_other_keys() {
        let value = serde_json::json!("\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}");
        assert_eq!(
            render("{{ x | tojson }}", value).unwrap(),
            r#""\"\\\n\r\t\b\f\u0001"#.to_owned() + "\u{7f}\""
        );
        assert_eq!(
            render("{{ {2: 1, true: none} | tojson }}", ().into()).unwrap(),
            r#"{"2": 1, "true": null}"#
        );
        assert!(render("{{ nothing | tojson }}", ().into()).is_err());
    }

    #[test]
    fn floats_are_laid_out_as_in_python() {
        for (value, want) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (123456.789, "123456.789"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(float(value), want);
        }
    }

    #[test]
    fn a_value_that_doubles_at_every_level_is_bounded() {
        let source = "{% set n = namespace(x='0123456789') %}{% for i in range(60) %}\
                      {% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x | tojson }}";
        assert!(render(source, ().into()).unwrap_err().contains("bytes"));
    }
}
