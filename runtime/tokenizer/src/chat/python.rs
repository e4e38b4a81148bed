//! What templates take from Python beyond what the Jinja engine has: methods of `str` and the
//! constructor `dict`.

use minijinja::value::{Kwargs, Value, from_args};
use minijinja::{Error, ErrorKind, State};

/// Longest text that a method pads to.
const MAX_WIDTH: usize = 1 << 16;

/// A method that the engine does not know.
pub(super) fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => match string_method(text, name, args) {
            None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
            Some(result) => result,
        },
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// `None` where it is none of these.
fn string_method(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match name {
        "removeprefix" => {
            from_args(args).map(|(prefix,): (&str,)| Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            from_args(args).map(|(suffix,): (&str,)| Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" => from_args(args).and_then(|(separator,): (&str,)| partition(text, separator, false)),
        "rpartition" => from_args(args).and_then(|(separator,): (&str,)| partition(text, separator, true)),
        "rsplit" => from_args(args).map(|(separator, most)| rsplit(text, separator, most)),
        "index" | "rindex" => from_args(args).and_then(|(part,): (&str,)| {
            let at = if name == "index" { text.find(part) } else { text.rfind(part) };
            let before = at.and_then(|at| text.get(..at)).ok_or_else(|| error("substring not found"))?;
            Ok(Value::from(before.chars().count()))
        }),
        "zfill" => from_args(args).and_then(|(width,): (usize,)| {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            Ok(Value::from(format!("{sign}{}{digits}", fill(text, width, "0")?)))
        }),
        "ljust" => justify(text, args, |text, fill| format!("{text}{fill}")),
        "rjust" => justify(text, args, |text, fill| format!("{fill}{text}")),
        "swapcase" => {
            from_args(args).map(|()| Value::from(text.chars().flat_map(swapped).collect::<String>()))
        }
        "casefold" => from_args(args).map(|()| Value::from(text.to_lowercase().replace('ß', "ss"))),
        _ => return None,
    })
}

fn error(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Text before `separator`, it, and text behind it; where it is not, all is before it, or
/// behind it when it is looked for from the end.
fn partition(text: &str, separator: &str, from_the_end: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(error("empty separator"));
    }
    let parts = match from_the_end {
        false => text.split_once(separator).map_or([text, "", ""], |(a, b)| [a, separator, b]),
        true => text.rsplit_once(separator).map_or(["", "", text], |(a, b)| [a, separator, b]),
    };
    Ok(Value::from_iter(parts))
}

/// The parts of `text`, at most `most` of them cut off its end.
fn rsplit(text: &str, separator: Option<&str>, most: Option<i64>) -> Value {
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = text;
    match separator {
        Some(separator) if !separator.is_empty() => {
            while parts.len() < most
                && let Some((before, part)) = rest.rsplit_once(separator)
            {
                parts.push(part);
                rest = before;
            }
            parts.push(rest);
        }
        _ => {
            rest = rest.trim_end();
            while parts.len() < most
                && let Some((before, part)) = rest.rsplit_once(char::is_whitespace)
            {
                parts.push(part);
                rest = before.trim_end();
            }
            // What is left has no whitespace at its start unless the limit ended the loop.
            let rest = if parts.len() < most { rest.trim_start() } else { rest };
            parts.extend((!rest.is_empty()).then_some(rest));
        }
    }
    parts.reverse();
    Value::from_iter(parts)
}

fn justify(text: &str, args: &[Value], join: fn(&str, &str) -> String) -> Result<Value, Error> {
    let (width, with): (usize, Option<&str>) = from_args(args)?;
    let with = with.unwrap_or(" ");
    match with.chars().count() {
        1 => Ok(Value::from(join(text, &fill(text, width, with)?))),
        _ => Err(error("the fill must be one character")),
    }
}

/// What `text` lacks to have `width` characters.
fn fill(text: &str, width: usize, with: &str) -> Result<String, Error> {
    if width > MAX_WIDTH {
        return Err(error("the width is over 65536"));
    }
    Ok(with.repeat(width.saturating_sub(text.chars().count())))
}

/// A character in the other case; often one, sometimes several.
fn swapped(c: char) -> Vec<char> {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// `dict`: of a mapping, or of a list of pairs, and of what is named.
pub(super) fn dict(from: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    match from {
        None => {}
        Some(map) if map.kind() == minijinja::value::ValueKind::Map => {
            for key in map.try_iter()? {
                let value = map.get_item(&key)?;
                pairs.push((key, value));
            }
        }
        Some(list) => {
            for pair in list.try_iter()? {
                let items: Vec<Value> = pair.try_iter()?.collect();
                let [key, value] = <[Value; 2]>::try_from(items)
                    .map_err(|_| error("dict of a list wants pairs of a key and a value"))?;
                pairs.push((key, value));
            }
        }
    }
    for name in named.args() {
        pairs.push((Value::from(name), named.get(name)?));
    }
    Ok(Value::from_pairs(pairs))
}
