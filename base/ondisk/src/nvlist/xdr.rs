//! XDR encoding of an [`Nvlist`]: big-endian, everything aligned to 4 bytes. Used for labels, the
//! pool configuration, extended attributes in system attributes, and boot environments.
//!
//! A list is version, flags, pairs and 8 zero bytes. A nested list has the same form, in place of
//! the value. A pair:
//!
//! | offset | bytes | field          | meaning                                               |
//! |--------|-------|----------------|-------------------------------------------------------|
//! | 0      | 4     |                | size of the packed pair, including this field         |
//! | 4      | 4     | nvp_size       | size in memory of a 64-bit host; 0 ends the list      |
//! | 8      | 4     |                | bytes of the name, without NUL                        |
//! | 12     | n     | nvp_name       | name, padded with zeros to 4                          |
//! |        | 4     | nvp_type       | data type                                             |
//! |        | 4     | nvp_value_elem | elements; 1 for scalars                               |
//! |        |       |                | value: numbers below 64 bits take 4 bytes; all arrays |
//! |        |       |                | except byte arrays repeat the count                   |
//!
//! Quirk: an array without elements omits the repeated count, though the packed size includes it.
//! Like OpenZFS, the reader follows the data and not the two sizes.

use super::check::{boolean, check_count, check_depth, check_version};
use super::list::{Nvlist, Pair, Value};
use super::native::pair_bytes;
use crate::endian::Endian;
use crate::error::{Error, Result};

/// Unpacks the list at the start of `bytes`, which begins after the 4-byte header. Also returns the
/// number of bytes consumed.
pub fn parse(bytes: &[u8]) -> Result<(Nvlist, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let list = reader.list(0)?;
    Ok((list, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = self.bytes.len() - self.at;
        if count > rest {
            return Err(Error::short("nvlist", self.bytes.len(), self.at.saturating_add(count)));
        }
        let out = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(out)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(Endian::Big.u32(self.take(4)?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(Endian::Big.u64(self.take(8)?))
    }

    /// Bytes padded to a multiple of 4.
    fn opaque(&mut self, count: usize) -> Result<Vec<u8>> {
        let out = self.take(count)?.to_vec();
        // A buffer of odd length may truncate the last padding.
        let pad = (count.next_multiple_of(4) - count).min(self.bytes.len() - self.at);
        self.take(pad)?;
        Ok(out)
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        let count = self.u32()? as usize;
        let out = self.opaque(count)?;
        if out.contains(&0) {
            return Err(Error::corrupt("nvpair", "string", "a NUL inside", "none"));
        }
        Ok(out)
    }

    fn array<T>(&mut self, count: usize, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let again = self.u32()? as usize;
        if again != count {
            return Err(Error::corrupt("nvpair", "array count", again, count));
        }
        self.items(count, item)
    }

    fn items<T>(&mut self, count: usize, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        // Each element takes at least 4 bytes: a count that exceeds the input fails before anything
        // is allocated.
        if count > (self.bytes.len() - self.at) / 4 {
            return Err(Error::corrupt("nvpair", "nvp_value_elem", count, "no more than the list has room for"));
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn list(&mut self, depth: usize) -> Result<Nvlist> {
        check_depth(depth)?;
        check_version(self.u32()?)?;
        let flags = self.u32()?;
        let mut pairs = Vec::new();
        loop {
            let _packed = self.u32()?;
            if self.u32()? == 0 {
                return Ok(Nvlist { flags, pairs });
            }
            let name = self.string()?;
            let kind = self.u32()?;
            let count = self.u32()? as usize;
            check_count(kind, count)?;
            let value = self.value(kind, count, depth)?;
            pairs.push(Pair { name, value });
        }
    }

    fn value(&mut self, kind: u32, count: usize, depth: usize) -> Result<Value> {
        Ok(match kind {
            1 => Value::Boolean,
            2 => Value::Byte(self.u32()? as u8),
            3 => Value::Int16(self.u32()? as i16),
            4 => Value::Uint16(self.u32()? as u16),
            5 => Value::Int32(self.u32()? as i32),
            6 => Value::Uint32(self.u32()?),
            7 => Value::Int64(self.u64()? as i64),
            8 => Value::Uint64(self.u64()?),
            9 => Value::String(self.string()?),
            10 => Value::ByteArray(self.opaque(count)?),
            11 => Value::Int16Array(self.array(count, |r| Ok(r.u32()? as i16))?),
            12 => Value::Uint16Array(self.array(count, |r| Ok(r.u32()? as u16))?),
            13 => Value::Int32Array(self.array(count, |r| Ok(r.u32()? as i32))?),
            14 => Value::Uint32Array(self.array(count, Self::u32)?),
            15 => Value::Int64Array(self.array(count, |r| Ok(r.u64()? as i64))?),
            16 => Value::Uint64Array(self.array(count, Self::u64)?),
            17 => Value::StringArray(self.items(count, Self::string)?),
            18 => Value::HrTime(self.u64()? as i64),
            19 => Value::Nvlist(self.list(depth + 1)?),
            20 => Value::NvlistArray(self.items(count, |r| r.list(depth + 1))?),
            21 => Value::BooleanValue(boolean(self.u32()?)?),
            22 => Value::Int8(self.u32()? as i8),
            23 => Value::Uint8(self.u32()? as u8),
            24 => Value::BooleanArray(self.array(count, |r| boolean(r.u32()?))?),
            25 => Value::Int8Array(self.array(count, |r| Ok(r.u32()? as i8))?),
            26 => Value::Uint8Array(self.array(count, |r| Ok(r.u32()? as u8))?),
            27 => Value::Double(f64::from_bits(self.u64()?)),
            other => return Err(Error::corrupt("nvpair", "nvp_type", other, "1 to 27")),
        })
    }
}

/// Appends the packed list to `out`.
pub fn write(out: &mut Vec<u8>, list: &Nvlist) {
    word(out, 0);
    word(out, list.flags);
    for pair in &list.pairs {
        let start = out.len();
        word(out, 0); // filled in below
        word(out, pair_bytes(pair) as u32);
        string(out, &pair.name);
        word(out, pair.value.type_number());
        word(out, pair.value.element_count() as u32);
        write_value(out, &pair.value);
        let packed = out.len() - start + missing_count_bytes(&pair.value);
        Endian::Big.put_u32(&mut out[start..], packed as u32);
    }
    out.extend_from_slice(&[0; 8]);
}

/// Size of the count that an empty array omits but its packed size includes.
fn missing_count_bytes(value: &Value) -> usize {
    let counted = !matches!(value.type_number(), 1 | 10 | 17 | 20);
    if counted && value.element_count() == 0 { 4 } else { 0 }
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    word(out, bytes.len() as u32);
    opaque(out, bytes);
}

fn opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
}

fn words(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u32>) {
    if values.len() > 0 {
        word(out, values.len() as u32);
        values.for_each(|v| word(out, v));
    }
}

fn longs(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) {
    if values.len() > 0 {
        word(out, values.len() as u32);
        values.for_each(|v| out.extend_from_slice(&v.to_be_bytes()));
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Boolean => {}
        Value::Byte(v) | Value::Uint8(v) => word(out, (*v).into()),
        Value::Int8(v) => word(out, u32::from(*v as u8)),
        Value::Int16(v) => word(out, i32::from(*v) as u32),
        Value::Uint16(v) => word(out, (*v).into()),
        Value::Int32(v) => word(out, *v as u32),
        Value::Uint32(v) => word(out, *v),
        Value::Int64(v) | Value::HrTime(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Uint64(v) => out.extend_from_slice(&v.to_be_bytes()),
        Value::Double(v) => out.extend_from_slice(&v.to_bits().to_be_bytes()),
        Value::String(v) => string(out, v),
        Value::BooleanValue(v) => word(out, (*v).into()),
        Value::ByteArray(v) => opaque(out, v),
        Value::Uint8Array(v) => words(out, v.iter().map(|v| (*v).into())),
        Value::Int8Array(v) => words(out, v.iter().map(|v| u32::from(*v as u8))),
        Value::Int16Array(v) => words(out, v.iter().map(|v| i32::from(*v) as u32)),
        Value::Uint16Array(v) => words(out, v.iter().map(|v| (*v).into())),
        Value::Int32Array(v) => words(out, v.iter().map(|v| *v as u32)),
        Value::Uint32Array(v) => words(out, v.iter().copied()),
        Value::BooleanArray(v) => words(out, v.iter().map(|v| (*v).into())),
        Value::Int64Array(v) => longs(out, v.iter().map(|v| *v as u64)),
        Value::Uint64Array(v) => longs(out, v.iter().copied()),
        Value::StringArray(v) => v.iter().for_each(|s| string(out, s)),
        Value::Nvlist(v) => write(out, v),
        Value::NvlistArray(v) => v.iter().for_each(|l| write(out, l)),
    }
}
