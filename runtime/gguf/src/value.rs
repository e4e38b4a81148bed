//! Metadata values: scalars by value, strings and arrays in place.

use std::{fmt, ops::Range};

use crate::{
    error::{Fault, GgufError},
    escape::{MESSAGE_LIMIT, escaped},
    reader::Cursor,
};

/// How deep arrays may nest: an array of numbers has depth 1.
pub const MAX_ARRAY_DEPTH: usize = 4;

/// The type of a metadata value, with the id it has in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The type with this id in a file.
    pub fn from_id(id: u32) -> Option<ValueType> {
        ValueType::ALL.into_iter().find(|kind| *kind as u32 == id)
    }

    /// The name in messages: `u32`, `string`, ...
    pub fn name(self) -> &'static str {
        match self {
            ValueType::U8 => "u8",
            ValueType::I8 => "i8",
            ValueType::U16 => "u16",
            ValueType::I16 => "i16",
            ValueType::U32 => "u32",
            ValueType::I32 => "i32",
            ValueType::F32 => "f32",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::Array => "array",
            ValueType::U64 => "u64",
            ValueType::I64 => "i64",
            ValueType::F64 => "f64",
        }
    }

    /// The bytes of a value: exact for scalars, the least possible for strings (a
    /// length) and arrays (an element type and a count).
    fn least_bytes(self) -> u64 {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::String => 8,
            ValueType::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A metadata value, borrowed from the file. `Display` is its type and an escaped,
/// shortened form of it, as messages show it.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// Bytes; often, but not always, UTF-8.
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value<'_> {
    /// The type in the file.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// The value when it is an integer of any width.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            Value::F32(_) | Value::F64(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) => None,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.value_type();
        match self {
            Value::U8(value) => write!(f, "{kind} {value}"),
            Value::I8(value) => write!(f, "{kind} {value}"),
            Value::U16(value) => write!(f, "{kind} {value}"),
            Value::I16(value) => write!(f, "{kind} {value}"),
            Value::U32(value) => write!(f, "{kind} {value}"),
            Value::I32(value) => write!(f, "{kind} {value}"),
            Value::F32(value) => write!(f, "{kind} {value:?}"),
            Value::Bool(value) => write!(f, "{kind} {value}"),
            Value::U64(value) => write!(f, "{kind} {value}"),
            Value::I64(value) => write!(f, "{kind} {value}"),
            Value::F64(value) => write!(f, "{kind} {value:?}"),
            Value::String(bytes) => write!(f, "{kind} \"{}\"", escaped(bytes, MESSAGE_LIMIT)),
            Value::Array(array) => write!(f, "an array of {} {} values", array.len(), array.element),
        }
    }
}

/// A metadata array, read in place: its extent was validated when the file was
/// parsed, and an element is decoded when it is asked for.
#[derive(Clone, Copy)]
pub struct Array<'a> {
    element: ValueType,
    count: usize,
    depth: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The type of the elements.
    pub fn element_type(&self) -> ValueType {
        self.element
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The elements in order. Ends early only when the file was changed under a
    /// mapping (see the crate's documentation).
    pub fn iter(&self) -> ArrayIter<'a> {
        ArrayIter {
            element: self.element,
            left: self.count,
            depth: self.depth,
            cursor: Cursor::new("", self.bytes),
        }
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = ArrayIter<'a>;
    fn into_iter(self) -> ArrayIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} x {})", self.count, self.element)
    }
}

/// The elements of an [`Array`].
#[derive(Clone, Debug)]
pub struct ArrayIter<'a> {
    element: ValueType,
    left: usize,
    depth: usize,
    cursor: Cursor<'a>,
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let field = format_args!("element");
        let stored = StoredValue::read(&mut self.cursor, self.element, self.depth, field).ok()?;
        Some(stored.view(self.cursor.bytes()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

/// A value as the parsed file keeps it: a scalar, or where it is in the file.
#[derive(Clone, Debug)]
pub(crate) enum StoredValue {
    Scalar(Value<'static>),
    String(Range<usize>),
    Array { element: ValueType, count: usize, depth: usize, range: Range<usize> },
}

impl StoredValue {
    /// Reads and validates a value of type `kind` that is `depth` arrays deep.
    pub(crate) fn read(
        cursor: &mut Cursor<'_>,
        kind: ValueType,
        depth: usize,
        field: fmt::Arguments<'_>,
    ) -> Result<StoredValue, GgufError> {
        let scalar = match kind {
            ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.take(field)?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.take(field)?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.take(field)?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.take(field)?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.take(field)?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.take(field)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.take(field)?)),
            ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.take(field)?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.take(field)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.take(field)?)),
            ValueType::Bool => {
                let offset = cursor.position();
                match cursor.take(field)? {
                    [0] => Value::Bool(false),
                    [1] => Value::Bool(true),
                    [other] => return Err(cursor.error(offset, field, Fault::Bool(other))),
                }
            }
            ValueType::String => return cursor.string(field).map(StoredValue::String),
            ValueType::Array => return StoredValue::read_array(cursor, depth, field),
        };
        Ok(StoredValue::Scalar(scalar))
    }

    fn read_array(
        cursor: &mut Cursor<'_>,
        depth: usize,
        field: fmt::Arguments<'_>,
    ) -> Result<StoredValue, GgufError> {
        let offset = cursor.position();
        let depth = depth + 1;
        if depth > MAX_ARRAY_DEPTH {
            return Err(cursor.error(offset, field, Fault::ArrayDepth));
        }
        let element = read_value_type(cursor, format_args!("{field} element type"))?;
        let count = cursor.count(element.least_bytes(), format_args!("{field} element count"))?;
        let start = cursor.position();
        match element {
            ValueType::Bool | ValueType::String | ValueType::Array => {
                for index in 0..count {
                    StoredValue::read(cursor, element, depth, format_args!("{field}[{index}]"))?;
                }
            }
            // The count was checked against the bytes left, so the product fits.
            _ => {
                cursor.skip(count * element.least_bytes(), offset, field)?;
            }
        }
        // Each element takes a byte or more, so the count fits as the length does.
        Ok(StoredValue::Array { element, count: count as usize, depth, range: start..cursor.position() })
    }

    /// The value, given all bytes that the cursor read it from.
    pub(crate) fn view<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        match self {
            StoredValue::Scalar(value) => *value,
            StoredValue::String(range) => Value::String(bytes.get(range.clone()).unwrap_or_default()),
            StoredValue::Array { element, count, depth, range } => Value::Array(Array {
                element: *element,
                count: *count,
                depth: *depth,
                bytes: bytes.get(range.clone()).unwrap_or_default(),
            }),
        }
    }
}

/// Reads the id of a value type.
pub(crate) fn read_value_type(
    cursor: &mut Cursor<'_>,
    field: fmt::Arguments<'_>,
) -> Result<ValueType, GgufError> {
    let offset = cursor.position();
    let id = cursor.u32(field)?;
    ValueType::from_id(id).ok_or_else(|| cursor.error(offset, field, Fault::ValueType(id)))
}
