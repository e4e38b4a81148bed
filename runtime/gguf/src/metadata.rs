//! Metadata by key, converted to what the caller needs: any integer width is taken
//! for an integer, and a per-layer value may be one value or one per layer.

use std::collections::{HashMap, hash_map::Entry as MapEntry};

use crate::{
    error::{Fault, GgufError},
    escape::{MESSAGE_LIMIT, escaped},
    reader::Cursor,
    value::{Array, StoredValue, Value, read_value_type},
};

/// The keys of a file in their order, and where each value is.
pub(crate) struct KeyTable {
    entries: Vec<KeyEntry>,
    by_key: HashMap<String, usize>,
}

struct KeyEntry {
    key: String,
    key_offset: usize,
    value_offset: usize,
    value: StoredValue,
}

impl KeyTable {
    /// The fewest bytes of an entry: key length, value type, a value of one byte.
    pub(crate) const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 1;

    /// Reads `count` entries.
    pub(crate) fn read(cursor: &mut Cursor<'_>, count: u64) -> Result<KeyTable, GgufError> {
        let mut table = KeyTable { entries: Vec::new(), by_key: HashMap::new() };
        for index in 0..count {
            let key_offset = cursor.position();
            let key = cursor.name(format_args!("metadata key {index}"))?;
            let shown = escaped(key.as_bytes(), MESSAGE_LIMIT);
            match table.by_key.entry(key.to_owned()) {
                MapEntry::Vacant(vacant) => {
                    vacant.insert(table.entries.len());
                }
                MapEntry::Occupied(earlier) => {
                    let first = table.entries.get(*earlier.get()).map_or(0, |first| first.key_offset as u64);
                    let fault = Fault::Duplicate { first };
                    return Err(cursor.error(key_offset, format_args!("metadata key `{shown}`"), fault));
                }
            }
            let kind = read_value_type(cursor, format_args!("metadata key `{shown}` type"))?;
            let value_offset = cursor.position();
            let value = StoredValue::read(cursor, kind, 0, format_args!("metadata key `{shown}`"))?;
            table.entries.push(KeyEntry { key: key.to_owned(), key_offset, value_offset, value });
        }
        Ok(table)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The offset and the value of `key` in a file of these bytes.
    pub(crate) fn find<'a>(&self, key: &str, bytes: &'a [u8]) -> Option<(usize, Value<'a>)> {
        let entry = self.entries.get(*self.by_key.get(key)?)?;
        Some((entry.value_offset, entry.value.view(bytes)))
    }
}

/// The metadata of a file.
#[derive(Clone, Copy)]
pub struct Metadata<'a> {
    file: &'a str,
    bytes: &'a [u8],
    table: &'a KeyTable,
}

impl<'a> Metadata<'a> {
    pub(crate) fn new(file: &'a str, bytes: &'a [u8], table: &'a KeyTable) -> Metadata<'a> {
        Metadata { file, bytes, table }
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every key with its value, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let bytes = self.bytes;
        self.table.entries.iter().map(move |entry| (entry.key.as_str(), entry.value.view(bytes)))
    }

    /// The value of `key` as it is in the file.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.table.find(key, self.bytes).map(|(_, value)| value)
    }

    /// The value of `key` as a `T`, or `None` when the file has no such key.
    ///
    /// # Errors
    /// [`GgufError::WrongValue`] when it is of another kind or does not fit.
    pub fn optional<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, GgufError> {
        let Some((offset, value)) = self.table.find(key, self.bytes) else {
            return Ok(None);
        };
        match T::from_value(value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(self.wrong(key, offset, T::wanted(), value.to_string())),
        }
    }

    /// The value of `key` as a `T`.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`], or as [`Metadata::optional`].
    pub fn require<T: FromValue<'a>>(&self, key: &str) -> Result<T, GgufError> {
        self.optional(key)?.ok_or_else(|| GgufError::MissingKey {
            file: self.file.to_owned(),
            key: escaped(key.as_bytes(), MESSAGE_LIMIT).to_string(),
            wanted: T::wanted(),
        })
    }

    /// A value that is either the same for all of `layers` layers or an array with
    /// one value for each; `None` when the file has no such key.
    ///
    /// # Errors
    /// [`GgufError::WrongValue`], also for an array of another length.
    pub fn per_layer<T: FromValue<'a>>(
        &self,
        key: &str,
        layers: usize,
    ) -> Result<Option<PerLayer<T>>, GgufError> {
        let Some((offset, value)) = self.table.find(key, self.bytes) else {
            return Ok(None);
        };
        let found = match value {
            Value::Array(array) => {
                (array.len() == layers).then(|| Vec::from_value(value)).flatten().map(PerLayer::Each)
            }
            _ => T::from_value(value).map(PerLayer::All),
        };
        let wanted = || format!("{} or an array of {layers} of them", T::wanted());
        found.map(Some).ok_or_else(|| self.wrong(key, offset, wanted(), value.to_string()))
    }

    fn wrong(&self, key: &str, offset: usize, wanted: String, found: String) -> GgufError {
        GgufError::WrongValue {
            file: self.file.to_owned(),
            offset: offset as u64,
            key: escaped(key.as_bytes(), MESSAGE_LIMIT).to_string(),
            wanted,
            found,
        }
    }
}

/// A value for each layer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerLayer<T> {
    /// The same for all layers.
    All(T),
    /// One for each layer.
    Each(Vec<T>),
}

impl<T> PerLayer<T> {
    /// The value of `layer`; `None` when an array ends before it.
    pub fn get(&self, layer: usize) -> Option<&T> {
        match self {
            PerLayer::All(value) => Some(value),
            PerLayer::Each(values) => values.get(layer),
        }
    }
}

/// A type that metadata values convert to without loss.
pub trait FromValue<'a>: Sized {
    /// What a message says was wanted.
    fn wanted() -> String;
    /// The value as this type, or `None` when it is of another kind or out of range.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

macro_rules! integers {
    ($($integer:ident)*) => {$(
        /// From an integer of any width that is in range.
        impl FromValue<'_> for $integer {
            fn wanted() -> String {
                format!("an integer from {} to {}", $integer::MIN, $integer::MAX)
            }
            fn from_value(value: Value<'_>) -> Option<$integer> {
                value.as_integer()?.try_into().ok()
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 usize i8 i16 i32 i64);

/// From any number. An f64 is rounded, one too large for an f32 is refused.
impl FromValue<'_> for f32 {
    fn wanted() -> String {
        "a number that fits an f32".to_owned()
    }
    fn from_value(value: Value<'_>) -> Option<f32> {
        match value {
            Value::F32(value) => Some(value),
            _ => {
                let wide = f64::from_value(value)?;
                let narrow = wide as f32;
                (narrow.is_finite() || !wide.is_finite()).then_some(narrow)
            }
        }
    }
}

/// From any number; integers beyond 2^53 are rounded.
impl FromValue<'_> for f64 {
    fn wanted() -> String {
        "a number".to_owned()
    }
    fn from_value(value: Value<'_>) -> Option<f64> {
        match value {
            Value::F32(value) => Some(value.into()),
            Value::F64(value) => Some(value),
            _ => value.as_integer().map(|integer| integer as f64),
        }
    }
}

/// From a bool, or an integer that is 0 or 1.
impl FromValue<'_> for bool {
    fn wanted() -> String {
        "a bool".to_owned()
    }
    fn from_value(value: Value<'_>) -> Option<bool> {
        match value {
            Value::Bool(value) => Some(value),
            _ => match value.as_integer()? {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
        }
    }
}

/// From a string of any bytes.
impl<'a> FromValue<'a> for &'a [u8] {
    fn wanted() -> String {
        "a string".to_owned()
    }
    fn from_value(value: Value<'a>) -> Option<&'a [u8]> {
        match value {
            Value::String(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// From a string that is UTF-8.
impl<'a> FromValue<'a> for &'a str {
    fn wanted() -> String {
        "a UTF-8 string".to_owned()
    }
    fn from_value(value: Value<'a>) -> Option<&'a str> {
        std::str::from_utf8(<&[u8]>::from_value(value)?).ok()
    }
}

/// From an array of anything.
impl<'a> FromValue<'a> for Array<'a> {
    fn wanted() -> String {
        "an array".to_owned()
    }
    fn from_value(value: Value<'a>) -> Option<Array<'a>> {
        match value {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

/// From an array whose elements all convert.
impl<'a, T: FromValue<'a>> FromValue<'a> for Vec<T> {
    fn wanted() -> String {
        format!("an array, each element {}", T::wanted())
    }
    fn from_value(value: Value<'a>) -> Option<Vec<T>> {
        let array = Array::from_value(value)?;
        let values: Vec<T> = array.iter().map(T::from_value).collect::<Option<_>>()?;
        (values.len() == array.len()).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_width_convert_when_they_fit() {
        assert_eq!(u32::from_value(Value::U64(7)), Some(7));
        assert_eq!(u32::from_value(Value::I8(7)), Some(7));
        assert_eq!(u32::from_value(Value::I32(-1)), None);
        assert_eq!(u32::from_value(Value::U64(1 << 32)), None);
        assert_eq!(i64::from_value(Value::U64(u64::MAX)), None);
        assert_eq!(u64::from_value(Value::U64(u64::MAX)), Some(u64::MAX));
        assert_eq!(u32::from_value(Value::F32(7.0)), None);
        assert_eq!(u32::from_value(Value::Bool(true)), None);
    }

    #[test]
    fn floats_take_any_number_and_bools_take_zero_and_one() {
        assert_eq!(f32::from_value(Value::F64(0.1)), Some(0.1f32));
        assert_eq!(f32::from_value(Value::I32(10_000)), Some(10_000.0));
        assert_eq!(f32::from_value(Value::F64(1e300)), None);
        assert_eq!(f32::from_value(Value::F64(f64::INFINITY)), Some(f32::INFINITY));
        assert_eq!(f32::from_value(Value::String(b"1")), None);
        assert_eq!(bool::from_value(Value::U8(1)), Some(true));
        assert_eq!(bool::from_value(Value::U8(2)), None);
    }
}
