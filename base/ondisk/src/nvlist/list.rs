//! A list in memory: names, values, and access by name.

use crate::error::{Error, Result};

/// A value. Each variant is one `data_type_t`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Named like the types of the format.
pub enum Value {
    /// A name without a value: true if present.
    Boolean,
    Byte(u8),
    Int16(i16),
    Uint16(u16),
    Int32(i32),
    Uint32(u32),
    Int64(i64),
    Uint64(u64),
    String(Vec<u8>),
    ByteArray(Vec<u8>),
    Int16Array(Vec<i16>),
    Uint16Array(Vec<u16>),
    Int32Array(Vec<i32>),
    Uint32Array(Vec<u32>),
    Int64Array(Vec<i64>),
    Uint64Array(Vec<u64>),
    StringArray(Vec<Vec<u8>>),
    /// A clock value in nanoseconds.
    HrTime(i64),
    Nvlist(Nvlist),
    NvlistArray(Vec<Nvlist>),
    BooleanValue(bool),
    Int8(i8),
    Uint8(u8),
    BooleanArray(Vec<bool>),
    Int8Array(Vec<i8>),
    Uint8Array(Vec<u8>),
    Double(f64),
}

impl Value {
    /// The `data_type_t` number on disk.
    pub fn type_number(&self) -> u32 {
        match self {
            Self::Boolean => 1,
            Self::Byte(_) => 2,
            Self::Int16(_) => 3,
            Self::Uint16(_) => 4,
            Self::Int32(_) => 5,
            Self::Uint32(_) => 6,
            Self::Int64(_) => 7,
            Self::Uint64(_) => 8,
            Self::String(_) => 9,
            Self::ByteArray(_) => 10,
            Self::Int16Array(_) => 11,
            Self::Uint16Array(_) => 12,
            Self::Int32Array(_) => 13,
            Self::Uint32Array(_) => 14,
            Self::Int64Array(_) => 15,
            Self::Uint64Array(_) => 16,
            Self::StringArray(_) => 17,
            Self::HrTime(_) => 18,
            Self::Nvlist(_) => 19,
            Self::NvlistArray(_) => 20,
            Self::BooleanValue(_) => 21,
            Self::Int8(_) => 22,
            Self::Uint8(_) => 23,
            Self::BooleanArray(_) => 24,
            Self::Int8Array(_) => 25,
            Self::Uint8Array(_) => 26,
            Self::Double(_) => 27,
        }
    }

    /// Number of elements as recorded in the pair: 0 for [`Value::Boolean`], 1 for other scalars.
    pub fn element_count(&self) -> usize {
        match self {
            Self::Boolean => 0,
            Self::ByteArray(v) | Self::Uint8Array(v) => v.len(),
            Self::Int8Array(v) => v.len(),
            Self::Int16Array(v) => v.len(),
            Self::Uint16Array(v) => v.len(),
            Self::Int32Array(v) => v.len(),
            Self::Uint32Array(v) => v.len(),
            Self::Int64Array(v) => v.len(),
            Self::Uint64Array(v) => v.len(),
            Self::StringArray(v) => v.len(),
            Self::NvlistArray(v) => v.len(),
            Self::BooleanArray(v) => v.len(),
            _ => 1,
        }
    }

    /// The value as `u64`, if it is an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Uint64(v) => Some(v),
            Self::Byte(v) | Self::Uint8(v) => Some(v.into()),
            Self::Uint16(v) => Some(v.into()),
            Self::Uint32(v) => Some(v.into()),
            Self::Int8(v) => v.try_into().ok(),
            Self::Int16(v) => v.try_into().ok(),
            Self::Int32(v) => v.try_into().ok(),
            Self::Int64(v) | Self::HrTime(v) => v.try_into().ok(),
            _ => None,
        }
    }
}

impl From<u64> for Value {
    fn from(v: u64) -> Self {
        Self::Uint64(v)
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::BooleanValue(v)
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Self::String(v.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Self::String(v.into_bytes())
    }
}

impl From<Nvlist> for Value {
    fn from(v: Nvlist) -> Self {
        Self::Nvlist(v)
    }
}

impl From<Vec<Nvlist>> for Value {
    fn from(v: Vec<Nvlist>) -> Self {
        Self::NvlistArray(v)
    }
}

impl From<Vec<u64>> for Value {
    fn from(v: Vec<u64>) -> Self {
        Self::Uint64Array(v)
    }
}

/// A name and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The name, without its NUL.
    pub name: Vec<u8>,
    pub value: Value,
}

impl Pair {
    /// The name for display.
    pub fn name_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }
}

/// A list of pairs in the order in which they were written.
#[derive(Debug, Clone, PartialEq)]
pub struct Nvlist {
    /// `nvl_nvflag`: [`Nvlist::UNIQUE_NAME`] nearly everywhere.
    pub flags: u32,
    pub pairs: Vec<Pair>,
}

impl Default for Nvlist {
    fn default() -> Self {
        Self::new()
    }
}

impl Nvlist {
    /// `nvl_nvflag`: no two pairs have the same name.
    pub const UNIQUE_NAME: u32 = 1;
    /// `nvl_nvflag`: no two pairs have the same name and type.
    pub const UNIQUE_NAME_TYPE: u32 = 2;

    /// An empty list of unique names.
    pub fn new() -> Self {
        Self { flags: Self::UNIQUE_NAME, pairs: Vec::new() }
    }

    /// The value of `name`. If there are several, the last one, as in OpenZFS's lookups.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&Value> {
        let name = name.as_ref();
        self.pairs.iter().rev().find(|p| p.name == name).map(|p| &p.value)
    }

    /// Whether there is a pair `name` of any type.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A number of any unsigned type, or of a signed type if not negative.
    pub fn get_u64(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// A required number. If it is missing, the error names it.
    pub fn need_u64(&self, name: &'static str) -> Result<u64> {
        self.get_u64(name).ok_or_else(|| self.missing(name, "a number"))
    }

    /// A string, if it is UTF-8.
    pub fn get_str(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.get_string(name)?).ok()
    }

    /// A required UTF-8 string. If it is missing, the error names it.
    pub fn need_str(&self, name: &'static str) -> Result<&str> {
        self.get_str(name).ok_or_else(|| self.missing(name, "a string"))
    }

    /// A string as bytes.
    pub fn get_string(&self, name: &str) -> Option<&[u8]> {
        match self.get(name)? {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// A boolean value, or `true` for a plain boolean, which is true by being present.
    pub fn get_bool(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::BooleanValue(v) => Some(*v),
            Value::Boolean => Some(true),
            _ => None,
        }
    }

    /// `None` if it is missing or has another type.
    pub fn get_nvlist(&self, name: &str) -> Option<&Nvlist> {
        match self.get(name)? {
            Value::Nvlist(v) => Some(v),
            _ => None,
        }
    }

    /// A required nested list. If it is missing, the error names it.
    pub fn need_nvlist(&self, name: &'static str) -> Result<&Nvlist> {
        self.get_nvlist(name).ok_or_else(|| self.missing(name, "an nvlist"))
    }

    /// An array of lists; empty if missing.
    pub fn get_nvlist_array(&self, name: &str) -> &[Nvlist] {
        match self.get(name) {
            Some(Value::NvlistArray(v)) => v,
            _ => &[],
        }
    }

    /// An array of 64-bit numbers.
    pub fn get_u64_array(&self, name: &str) -> Option<&[u64]> {
        match self.get(name)? {
            Value::Uint64Array(v) => Some(v),
            _ => None,
        }
    }

    /// An array of bytes, of type byte or uint8.
    pub fn get_bytes(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        match self.get(name)? {
            Value::ByteArray(v) | Value::Uint8Array(v) => Some(v),
            _ => None,
        }
    }

    /// An array of strings.
    pub fn get_string_array(&self, name: &str) -> Option<&[Vec<u8>]> {
        match self.get(name)? {
            Value::StringArray(v) => Some(v),
            _ => None,
        }
    }

    fn missing(&self, name: &'static str, expected: &str) -> Error {
        match self.get(name) {
            None => Error::corrupt("nvlist", name, "missing", expected),
            Some(v) => Error::corrupt("nvlist", name, format_args!("of type {}", v.type_number()), expected),
        }
    }

    /// Sets `name`. Removes earlier pairs with that name if names are unique.
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        if self.flags & Self::UNIQUE_NAME != 0 {
            self.remove(name);
        }
        self.pairs.push(Pair { name: name.as_bytes().to_vec(), value: value.into() });
    }

    /// Removes every pair called `name`. Returns whether there was one.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let before = self.pairs.len();
        self.pairs.retain(|p| p.name != name.as_ref());
        self.pairs.len() != before
    }
}
