//! Name-value lists (nvlists), used for labels, the pool configuration, history, boot environments,
//! extended attributes and stream headers.
//!
//! Above: everything that reads a configuration. Below: [`xdr`] and [`native`], the two encodings.
//!
//! A packed list begins with four bytes that describe its encoding:
//!
//! | offset | bytes | field        | meaning                                                   |
//! |--------|-------|--------------|-----------------------------------------------------------|
//! | 0x00   | 1     | nvh_encoding | 0: native (C structures of a 64-bit host), 1: XDR         |
//! | 0x01   | 1     | nvh_endian   | order of the writer: 1 little, 0 big; XDR is always big   |
//! | 0x02   | 2     | nvh_reserved | zero                                                      |
//! | 0x04   | 4     | nvl_version  | 0                                                         |
//! | 0x08   | 4     | nvl_nvflag   | 1: names are unique, 2: pairs of name and type are unique |
//! | 0x0c   |       |              | pairs, then an end mark                                   |
//!
//! Start of a label's list (XDR, little-endian writer): version 0, unique names, then the pair
//! `version`: 36 bytes packed, 32 unpacked, type 8 (uint64), one value, 5000.
//!
//! ```text
//! 00000000  01 01 00 00 00 00 00 00  00 00 00 01 00 00 00 24  |...............$|
//! 00000010  00 00 00 20 00 00 00 07  76 65 72 73 69 6f 6e 00  |... ....version.|
//! 00000020  00 00 00 08 00 00 00 01  00 00 00 00 00 00 13 88  |................|
//! ```
//!
//! Invariants:
//!   * order and duplicates are preserved: a list written by OpenZFS packs to the same bytes again
//!   * nesting is at most [`MAX_DEPTH`]; memory is at most a small multiple of the input
//!   * names and strings are bytes without NUL; they need not be UTF-8 (extended attributes)
//!
//! Source: include/sys/nvpair.h, module/nvpair/nvpair.c.

mod display;
pub mod native;
pub mod xdr;

use crate::endian::{Endian, need};
use crate::error::{Error, Result};

/// Maximum nesting depth: what OpenZFS accepts in user space (20 in the kernel).
pub const MAX_DEPTH: usize = 100;
/// Maximum size of a packed list in bytes, from the format (sizes are positive 32-bit numbers).
pub const MAX_BYTES: usize = i32::MAX as usize;
/// Bytes before the version: encoding and byte order.
pub const HEADER_BYTES: usize = 4;

/// Encoding of a packed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// C structures in the writer's byte order.
    Native,
    /// Big-endian, aligned to 4 bytes.
    Xdr,
}

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

    /// Size of the value in a native pair in bytes, before alignment.
    fn native_bytes(&self) -> usize {
        let n = self.element_count();
        match self {
            Self::Boolean => 0,
            Self::Byte(_) | Self::Int8(_) | Self::Uint8(_) => 1,
            Self::Int16(_) | Self::Uint16(_) => 2,
            Self::Int32(_) | Self::Uint32(_) | Self::BooleanValue(_) => 4,
            Self::Int64(_) | Self::Uint64(_) | Self::HrTime(_) | Self::Double(_) => 8,
            Self::String(s) => s.len() + 1,
            Self::ByteArray(_) | Self::Int8Array(_) | Self::Uint8Array(_) => n,
            Self::Int16Array(_) | Self::Uint16Array(_) => n * 2,
            Self::Int32Array(_) | Self::Uint32Array(_) | Self::BooleanArray(_) => n * 4,
            Self::Int64Array(_) | Self::Uint64Array(_) => n * 8,
            Self::StringArray(v) => n * 8 + v.iter().map(|s| s.len() + 1).sum::<usize>(),
            Self::Nvlist(_) => native::LIST_BYTES,
            Self::NvlistArray(_) => n * (8 + native::LIST_BYTES),
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

    /// Size in bytes of the pair in memory of a 64-bit host, which both encodings record.
    fn native_bytes(&self) -> usize {
        align8(native::PAIR_BYTES + self.name.len() + 1) + align8(self.value.native_bytes())
    }
}

/// A list of pairs in the order in which they were written.
#[derive(Debug, Clone, PartialEq)]
pub struct Nvlist {
    /// `nvl_nvflag`: [`Nvlist::UNIQUE_NAME`] nearly everywhere.
    pub flags: u32,
    pub pairs: Vec<Pair>,
}

/// An unpacked list and how it was packed.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    pub list: Nvlist,
    pub encoding: Encoding,
    /// Byte order of the host that packed it.
    pub endian: Endian,
    /// Size of the packed list in bytes. Data after it is ignored.
    pub size_bytes: usize,
}

impl Packed {
    /// Unpacks the list at the start of `bytes`, in either encoding and byte order.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        need("nvlist", bytes, HEADER_BYTES)?;
        let bytes = &bytes[..bytes.len().min(MAX_BYTES)];
        let endian = match bytes[1] {
            0 => Endian::Big,
            1 => Endian::Little,
            other => return Err(Error::corrupt("nvlist", "nvh_endian", other, "0 (big) or 1 (little)")),
        };
        let body = &bytes[HEADER_BYTES..];
        let (encoding, (list, used)) = match bytes[0] {
            0 => (Encoding::Native, native::parse(body, endian)?),
            1 => (Encoding::Xdr, xdr::parse(body)?),
            other => return Err(Error::corrupt("nvlist", "nvh_encoding", other, "0 (native) or 1 (XDR)")),
        };
        Ok(Self { list, encoding, endian, size_bytes: HEADER_BYTES + used })
    }
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

    /// Unpacks the list at the start of `bytes`; see [`Packed::parse`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Packed::parse(bytes).map(|p| p.list)
    }

    /// Packs as XDR. `writer` only fills the byte-order field of the header.
    pub fn to_xdr(&self, writer: Endian) -> Vec<u8> {
        let mut out = header(Encoding::Xdr, writer);
        xdr::write(&mut out, self);
        out
    }

    /// Packs as native structures of a 64-bit host with byte order `endian`.
    pub fn to_native(&self, endian: Endian) -> Vec<u8> {
        let mut out = header(Encoding::Native, endian);
        native::write(&mut out, self, endian);
        out
    }

    /// Packs in the given encoding and byte order.
    pub fn pack(&self, encoding: Encoding, endian: Endian) -> Vec<u8> {
        match encoding {
            Encoding::Native => self.to_native(endian),
            Encoding::Xdr => self.to_xdr(endian),
        }
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

    /// A nested list.
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

fn header(encoding: Encoding, endian: Endian) -> Vec<u8> {
    vec![(encoding == Encoding::Xdr).into(), (endian == Endian::Little).into(), 0, 0]
}

fn align8(n: usize) -> usize {
    n.next_multiple_of(8)
}

/// Rejects an element count that is invalid for the type, as OpenZFS does.
fn check_count(type_number: u32, count: usize) -> Result<()> {
    let expected = match type_number {
        1 => 0,
        2..=9 | 18 | 19 | 21..=23 | 27 => 1,
        10..=17 | 20 | 24..=26 => return Ok(()),
        other => return Err(Error::corrupt("nvpair", "nvp_type", other, "1 to 27")),
    };
    if count != expected {
        return Err(Error::corrupt("nvpair", "nvp_value_elem", count, expected));
    }
    Ok(())
}

fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::corrupt("nvlist", "depth", depth, format_args!("at most {MAX_DEPTH}")));
    }
    Ok(())
}

fn check_version(version: u32) -> Result<()> {
    if version != 0 {
        return Err(Error::Unsupported { structure: "nvlist", what: format!("nvl_version {version}") });
    }
    Ok(())
}

fn boolean(raw: u32) -> Result<bool> {
    match raw {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::corrupt("nvpair", "boolean", other, "0 or 1")),
    }
}

#[cfg(test)]
mod tests;
