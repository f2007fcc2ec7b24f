//! Native encoding of an [`Nvlist`]: the C structures of a 64-bit host with pointers zeroed. Used
//! for pool history, headers of send streams made by the kernel, resume tokens and `zpool.cache`.
//!
//! A list is version, flags, pairs and 4 zero bytes. A pair, a multiple of 8 bytes:
//!
//! | offset | bytes | field          | meaning                            |
//! |--------|-------|----------------|------------------------------------|
//! | 0      | 4     | nvp_size       | bytes of the pair; 0 ends the list |
//! | 4      | 2     | nvp_name_sz    | bytes of the name with its NUL     |
//! | 6      | 2     | nvp_reserve    | zero                               |
//! | 8      | 4     | nvp_value_elem | elements; 1 for scalars            |
//! | 12     | 4     | nvp_type       | data type                          |
//! | 16     | n     | nvp_name       | name and NUL, padded to 8          |
//! |        |       |                | value, padded to 8                 |
//!
//! String arrays begin with a pointer (zero) for each string. The value of a nested list is its
//! 24-byte header; an array of lists has a pointer (zero) for each list, then the headers. The
//! pairs and end marks of the nested lists follow the pair, without version and flags:
//!
//! | offset | bytes | field       | meaning       |
//! |--------|-------|-------------|---------------|
//! | 0      | 4     | nvl_version | 0             |
//! | 4      | 4     | nvl_nvflag  | flags         |
//! | 8      | 8     | nvl_priv    | pointer, zero |
//! | 16     | 4     | nvl_flag    | zero          |
//! | 20     | 4     | nvl_pad     | zero          |

use super::check::{boolean, check_count, check_depth, check_version};
use super::list::{Nvlist, Pair, Value};
use crate::endian::Endian;
use crate::error::{Error, Result};

/// Bytes of a pair before its name.
pub const PAIR_BYTES: usize = 16;
/// Size in bytes of a list's header inside a value.
pub const LIST_BYTES: usize = 24;

/// Size in bytes of the pair in memory of a 64-bit host, which both encodings record.
pub fn pair_bytes(pair: &Pair) -> usize {
    align8(PAIR_BYTES + pair.name.len() + 1) + align8(value_bytes(&pair.value))
}

/// Size of the value in a native pair in bytes, before alignment.
fn value_bytes(value: &Value) -> usize {
    let n = value.element_count();
    match value {
        Value::Boolean => 0,
        Value::Byte(_) | Value::Int8(_) | Value::Uint8(_) => 1,
        Value::Int16(_) | Value::Uint16(_) => 2,
        Value::Int32(_) | Value::Uint32(_) | Value::BooleanValue(_) => 4,
        Value::Int64(_) | Value::Uint64(_) | Value::HrTime(_) | Value::Double(_) => 8,
        Value::String(s) => s.len() + 1,
        Value::ByteArray(_) | Value::Int8Array(_) | Value::Uint8Array(_) => n,
        Value::Int16Array(_) | Value::Uint16Array(_) => n * 2,
        Value::Int32Array(_) | Value::Uint32Array(_) | Value::BooleanArray(_) => n * 4,
        Value::Int64Array(_) | Value::Uint64Array(_) => n * 8,
        Value::StringArray(v) => n * 8 + v.iter().map(|s| s.len() + 1).sum::<usize>(),
        Value::Nvlist(_) => LIST_BYTES,
        Value::NvlistArray(_) => n * (8 + LIST_BYTES),
    }
}

fn align8(n: usize) -> usize {
    n.next_multiple_of(8)
}

/// Unpacks the list at the start of `bytes`, which begins after the 4-byte header. Also returns the
/// number of bytes consumed.
pub fn parse(bytes: &[u8], endian: Endian) -> Result<(Nvlist, usize)> {
    if bytes.len() < 8 {
        return Err(Error::short("nvlist", bytes.len(), 8));
    }
    check_version(endian.u32(bytes))?;
    let mut reader = Reader { bytes, at: 8, endian };
    let pairs = reader.pairs(0)?;
    Ok((Nvlist { flags: endian.u32(&bytes[4..]), pairs }, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    endian: Endian,
}

impl<'a> Reader<'a> {
    fn pairs(&mut self, depth: usize) -> Result<Vec<Pair>> {
        check_depth(depth)?;
        let mut pairs = Vec::new();
        loop {
            let rest = &self.bytes[self.at..];
            if rest.len() < 4 {
                return Err(Error::short("nvlist", self.bytes.len(), self.at + 4));
            }
            let size = self.endian.u32(rest) as usize;
            if size == 0 {
                self.at += 4;
                return Ok(pairs);
            }
            let pair = rest.get(..size).filter(|p| p.len() >= PAIR_BYTES + 8).ok_or_else(|| {
                Error::corrupt("nvpair", "nvp_size", size, format_args!("24 to {} bytes", rest.len()))
            })?;
            self.at += size;
            pairs.push(self.pair(pair, depth)?);
        }
    }

    fn pair(&mut self, pair: &'a [u8], depth: usize) -> Result<Pair> {
        let endian = self.endian;
        let name_bytes = usize::from(endian.u16(&pair[4..]));
        let count = endian.u32(&pair[8..]) as usize;
        let kind = endian.u32(&pair[12..]);
        check_count(kind, count)?;
        let name = match pair[PAIR_BYTES..].get(..name_bytes) {
            Some([name @ .., 0]) if !name.contains(&0) => name.to_vec(),
            _ => return Err(Error::corrupt("nvpair", "nvp_name_sz", name_bytes, "a name that ends with its only NUL")),
        };
        let value = pair.get(align8(PAIR_BYTES + name_bytes)..).unwrap_or(&[]);
        let value = self.value(kind, count, value, depth)?;
        Ok(Pair { name, value })
    }

    fn value(&mut self, kind: u32, count: usize, value: &'a [u8], depth: usize) -> Result<Value> {
        let e = self.endian;
        Ok(match kind {
            1 => Value::Boolean,
            2 => Value::Byte(room(value, 1, 1)?[0]),
            3 => Value::Int16(e.u16(room(value, 1, 2)?) as i16),
            4 => Value::Uint16(e.u16(room(value, 1, 2)?)),
            5 => Value::Int32(e.u32(room(value, 1, 4)?) as i32),
            6 => Value::Uint32(e.u32(room(value, 1, 4)?)),
            7 => Value::Int64(e.u64(room(value, 1, 8)?) as i64),
            8 => Value::Uint64(e.u64(room(value, 1, 8)?)),
            9 => Value::String(string(value)?.to_vec()),
            10 => Value::ByteArray(room(value, count, 1)?.to_vec()),
            11 => Value::Int16Array(items(value, count, 2, |b| e.u16(b) as i16)?),
            12 => Value::Uint16Array(items(value, count, 2, |b| e.u16(b))?),
            13 => Value::Int32Array(items(value, count, 4, |b| e.u32(b) as i32)?),
            14 => Value::Uint32Array(items(value, count, 4, |b| e.u32(b))?),
            15 => Value::Int64Array(items(value, count, 8, |b| e.u64(b) as i64)?),
            16 => Value::Uint64Array(items(value, count, 8, |b| e.u64(b))?),
            17 => {
                let mut rest = &value[room(value, count, 8)?.len()..];
                let mut strings = Vec::new();
                for _ in 0..count {
                    let s = string(rest)?;
                    rest = &rest[s.len() + 1..];
                    strings.push(s.to_vec());
                }
                Value::StringArray(strings)
            }
            18 => Value::HrTime(e.u64(room(value, 1, 8)?) as i64),
            19 => Value::Nvlist(self.nested(room(value, 1, LIST_BYTES)?, depth)?),
            20 => {
                let headers = &room(value, count, 8 + LIST_BYTES)?[count * 8..];
                let lists = headers.chunks_exact(LIST_BYTES).map(|h| self.nested(h, depth));
                Value::NvlistArray(lists.collect::<Result<_>>()?)
            }
            21 => Value::BooleanValue(boolean(e.u32(room(value, 1, 4)?))?),
            22 => Value::Int8(room(value, 1, 1)?[0] as i8),
            23 => Value::Uint8(room(value, 1, 1)?[0]),
            24 => Value::BooleanArray(
                room(value, count, 4)?.chunks_exact(4).map(|b| boolean(e.u32(b))).collect::<Result<_>>()?,
            ),
            25 => Value::Int8Array(items(value, count, 1, |b| b[0] as i8)?),
            26 => Value::Uint8Array(room(value, count, 1)?.to_vec()),
            27 => Value::Double(f64::from_bits(e.u64(room(value, 1, 8)?))),
            other => return Err(Error::corrupt("nvpair", "nvp_type", other, "1 to 27")),
        })
    }

    fn nested(&mut self, header: &[u8], depth: usize) -> Result<Nvlist> {
        check_version(self.endian.u32(header))?;
        let flags = self.endian.u32(&header[4..]);
        Ok(Nvlist { flags, pairs: self.pairs(depth + 1)? })
    }
}

/// The first `count` elements of `size` bytes each.
fn room(value: &[u8], count: usize, size: usize) -> Result<&[u8]> {
    let bytes = count.saturating_mul(size);
    value.get(..bytes).ok_or_else(|| Error::short("nvpair", value.len(), bytes))
}

fn items<T>(value: &[u8], count: usize, size: usize, item: impl Fn(&[u8]) -> T) -> Result<Vec<T>> {
    Ok(room(value, count, size)?.chunks_exact(size).map(item).collect())
}

fn string(value: &[u8]) -> Result<&[u8]> {
    let end = value.iter().position(|b| *b == 0);
    end.map(|end| &value[..end]).ok_or_else(|| Error::corrupt("nvpair", "string", "without end", "a NUL"))
}

/// Appends the packed list to `out`.
pub fn write(out: &mut Vec<u8>, list: &Nvlist, endian: Endian) {
    put32(out, 0, endian);
    put32(out, list.flags, endian);
    write_pairs(out, list, endian);
}

fn put32(out: &mut Vec<u8>, value: u32, endian: Endian) {
    let at = out.len();
    out.resize(at + 4, 0);
    endian.put_u32(&mut out[at..], value);
}

fn put16(out: &mut Vec<u8>, value: u16, endian: Endian) {
    let at = out.len();
    out.resize(at + 2, 0);
    endian.put_u16(&mut out[at..], value);
}

fn put64(out: &mut Vec<u8>, value: u64, endian: Endian) {
    let at = out.len();
    out.resize(at + 8, 0);
    endian.put_u64(&mut out[at..], value);
}

fn write_pairs(out: &mut Vec<u8>, list: &Nvlist, endian: Endian) {
    for pair in &list.pairs {
        let start = out.len();
        let size = pair_bytes(pair);
        put32(out, size as u32, endian);
        put16(out, (pair.name.len() + 1) as u16, endian);
        put16(out, 0, endian);
        put32(out, pair.value.element_count() as u32, endian);
        put32(out, pair.value.type_number(), endian);
        out.extend_from_slice(&pair.name);
        out.resize(start + align8(PAIR_BYTES + pair.name.len() + 1), 0);
        write_value(out, &pair.value, endian);
        out.resize(start + size, 0);
        match &pair.value {
            Value::Nvlist(v) => write_pairs(out, v, endian),
            Value::NvlistArray(v) => v.iter().for_each(|l| write_pairs(out, l, endian)),
            _ => {}
        }
    }
    put32(out, 0, endian);
}

fn list_header(out: &mut Vec<u8>, list: &Nvlist, e: Endian) {
    put32(out, 0, e);
    put32(out, list.flags, e);
    out.resize(out.len() + 16, 0);
}

fn write_value(out: &mut Vec<u8>, value: &Value, e: Endian) {
    match value {
        Value::Boolean => {}
        Value::Byte(v) | Value::Uint8(v) => out.push(*v),
        Value::Int8(v) => out.push(*v as u8),
        Value::Int16(v) => put16(out, *v as u16, e),
        Value::Uint16(v) => put16(out, *v, e),
        Value::Int32(v) => put32(out, *v as u32, e),
        Value::Uint32(v) => put32(out, *v, e),
        Value::Int64(v) | Value::HrTime(v) => put64(out, *v as u64, e),
        Value::Uint64(v) => put64(out, *v, e),
        Value::Double(v) => put64(out, v.to_bits(), e),
        Value::String(v) => out.extend_from_slice(v), // the padding adds the NUL
        Value::BooleanValue(v) => put32(out, (*v).into(), e),
        Value::ByteArray(v) | Value::Uint8Array(v) => out.extend_from_slice(v),
        Value::Int8Array(v) => out.extend(v.iter().map(|v| *v as u8)),
        Value::Int16Array(v) => v.iter().for_each(|v| put16(out, *v as u16, e)),
        Value::Uint16Array(v) => v.iter().for_each(|v| put16(out, *v, e)),
        Value::Int32Array(v) => v.iter().for_each(|v| put32(out, *v as u32, e)),
        Value::Uint32Array(v) => v.iter().for_each(|v| put32(out, *v, e)),
        Value::BooleanArray(v) => v.iter().for_each(|v| put32(out, (*v).into(), e)),
        Value::Int64Array(v) => v.iter().for_each(|v| put64(out, *v as u64, e)),
        Value::Uint64Array(v) => v.iter().for_each(|v| put64(out, *v, e)),
        Value::StringArray(v) => {
            out.resize(out.len() + v.len() * 8, 0);
            for s in v {
                out.extend_from_slice(s);
                out.push(0);
            }
        }
        Value::Nvlist(v) => list_header(out, v, e),
        Value::NvlistArray(v) => {
            out.resize(out.len() + v.len() * 8, 0);
            v.iter().for_each(|l| list_header(out, l, e));
        }
    }
}
