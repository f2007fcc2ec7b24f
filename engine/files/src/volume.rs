//! A volume: one object of bytes, and beside it its size.
//!
//! Below: `object`. Above: NBD, and files under `.zfs/volume`. ZFS name: zvol. Object 1 holds the data, object 2 is a ZAP
//! with `size`.

use crate::{Error, Result};
use bytes::Bytes;
use object::{Object, ObjectSet, Place, Zap};
use std::sync::Arc;

const DATA_OBJECT: u64 = 1;
const PROPERTIES_OBJECT: u64 = 2;

/// A volume, open for reading.
pub struct Volume {
    name: String,
    data: Object,
    size: u64,
}

impl Volume {
    /// Opens the volume in an object set; `name` is for messages.
    pub fn open(objset: &Arc<ObjectSet>, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        if objset.phys().kind != ondisk::ObjsetKind::Volume {
            return Err(Error::invalid(name, format!("is no volume: its object set is {:?}", objset.phys().kind)));
        }
        let properties = objset.object(PROPERTIES_OBJECT).and_then(Zap::open).at(&name)?;
        let size = properties.lookup_u64("size").at(&name)?;
        let size = size.ok_or_else(|| Error::corrupt(name.clone(), "the volume has no size"))?;
        let data = objset.object(DATA_OBJECT).at(&name)?;
        Ok(Self { name, data, size })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `volblocksize`.
    pub fn block_bytes(&self) -> u64 {
        self.data.block_bytes()
    }

    /// Up to `len` bytes from `offset`; shorter only at the end.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let rest = self.size.saturating_sub(offset);
        let len = len.min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(Bytes::new());
        }
        self.data.read_bytes(offset, len).at(&self.name)
    }

    /// Fills `buf` with the bytes from `offset` on, which must not reach beyond the end.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            let what = format!("bytes {offset} to {} of {}", offset.saturating_add(buf.len() as u64), self.size);
            return Err(Error::invalid(self.name.clone(), what));
        }
        self.data.read_at(offset, buf).at(&self.name)
    }

    /// First offset at or behind `offset` that is data; `None` beyond the last.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        if offset >= self.size {
            return Ok(None);
        }
        Ok(self.data.next_data(offset).at(&self.name)?.filter(|at| *at < self.size))
    }

    /// First offset at or behind `offset` that is a hole; the size when there is none.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        if offset >= self.size {
            return Ok(self.size);
        }
        Ok(self.data.next_hole(offset).at(&self.name)?.min(self.size))
    }

    /// Starts to read a range in the background.
    pub fn prefetch(&self, offset: u64, len: u64) {
        self.data.prefetch(offset, len.min(self.size.saturating_sub(offset)));
    }
}
