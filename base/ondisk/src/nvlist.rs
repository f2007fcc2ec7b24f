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

mod check;
mod display;
mod list;
pub mod native;
pub mod xdr;

pub use check::MAX_DEPTH;
pub use list::{Nvlist, Pair, Value};

use crate::endian::{Endian, need};
use crate::error::{Error, Result};

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

impl Nvlist {
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
}

fn header(encoding: Encoding, endian: Endian) -> Vec<u8> {
    vec![(encoding == Encoding::Xdr).into(), (endian == Endian::Little).into(), 0, 0]
}

#[cfg(test)]
mod tests;
