//! A volume: one data object, and its size stored with it.
//!
//! ```text
//!   NBD, .zfs/volume ─> Volume ─ reading: the object, including changes not on disk yet
//!                              └ writing (`write`): transaction ─> size lock ─> range lock ─> object
//!                                                  ─> intent log record
//! ```
//! Below: `object`, and `dataset::live` for a writable volume. ZFS name: zvol. Object 1 holds the
//! data, object 2 is a ZAP with `size`.
//!
//! Invariants:
//!   * a volume is open for writing only once ([`LiveDataset`]); all its users see a write as soon
//!     as it is acknowledged
//!   * changes to the same bytes are in the intent log in the order in which they were made

mod range;
mod write;

use bytes::Bytes;
use dataset::live::LiveDataset;
use errors::{Error, Place, Refusal, Result};
use object::{Extent, Object, ObjectSet, Part, Zap};
use range::Ranges;
use std::sync::Arc;

const DATA_OBJECT: u64 = 1;
const PROPERTIES_OBJECT: u64 = 2;

/// A volume, open read-only or for writing.
pub struct Volume {
    name: String,
    data: Object,
    /// Used while the volume is open read-only.
    size: u64,
    live: Option<Live>,
}

/// State of a writable volume.
struct Live {
    dataset: Arc<LiveDataset>,
    /// Byte ranges that are being changed.
    ranges: Ranges,
}

impl Volume {
    /// Opens the volume in an object set; `name` is for messages.
    pub fn open(objset: &Arc<ObjectSet>, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        check_kind(objset, &name)?;
        let properties = objset.object(PROPERTIES_OBJECT).and_then(Zap::open).at(&name)?;
        let size = properties.lookup_u64("size").at(&name)?;
        let size = size.ok_or_else(|| Error::corrupt(name.clone(), "the volume has no size"))?;
        let data = objset.object(DATA_OBJECT).at(&name)?;
        Ok(Self { name, data, size, live: None })
    }

    /// Opens a live volume for writing and replays its intent log.
    pub fn open_live(dataset: &Arc<LiveDataset>) -> Result<Self> {
        let name = dataset.name();
        check_kind(dataset.objset(), &name)?;
        let data = dataset.objset().object(DATA_OBJECT).at(&name)?;
        let live = Some(Live { dataset: dataset.clone(), ranges: Ranges::default() });
        let this = Self { name, data, size: 0, live };
        this.replay()?;
        Ok(this)
    }

    fn name(&self) -> String {
        self.live.as_ref().map_or_else(|| self.name.clone(), |live| live.dataset.name())
    }

    /// Size in bytes. The size of a volume that is open for writing may change at any time.
    pub fn size(&self) -> u64 {
        self.live.as_ref().map_or(self.size, |live| *live.dataset.volume_bytes())
    }

    /// `volblocksize`.
    pub fn block_bytes(&self) -> u64 {
        self.data.block_bytes()
    }

    /// Checks that the volume is still open. After it is closed, its block pointers must not be
    /// used: the blocks may have been reallocated.
    fn check_open(&self) -> Result<()> {
        match &self.live {
            Some(live) if live.dataset.is_closed() => Err(Refusal::Stale.at(self.name())),
            _ => Ok(()),
        }
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        self.check_open()?;
        let size = self.size();
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let what = format!("bytes {offset} to {} of {size}", offset.saturating_add(len));
            return Err(Error::invalid(self.name(), what));
        }
        Ok(())
    }

    /// Up to `len` bytes from `offset`; shorter only at the end.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        self.check_open()?;
        let rest = self.size().saturating_sub(offset);
        let len = len.min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(Bytes::new());
        }
        self.data.read_bytes(offset, len).at_with(|| self.name())
    }

    /// Fills `buf` with the bytes starting at `offset`; the range must not extend beyond the end.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check_range(offset, buf.len() as u64)?;
        self.data.read_at(offset, buf).at_with(|| self.name())
    }

    /// Returns the same bytes as the blocks held in memory, without a copy.
    pub fn read_parts(&self, offset: u64, len: usize) -> Result<Vec<Part>> {
        self.check_range(offset, len as u64)?;
        self.data.read_parts(offset, len).at_with(|| self.name())
    }

    /// Like the above, but only if no device read is needed; otherwise `None`.
    pub fn parts_in_memory(&self, offset: u64, len: usize) -> Result<Option<Vec<Part>>> {
        self.check_range(offset, len as u64)?;
        self.data.parts_in_memory(offset, len).at_with(|| self.name())
    }

    /// The data and hole runs in the `len` bytes starting at `offset`: at most `max` runs.
    pub fn extents(&self, offset: u64, len: u64, max: usize) -> Result<Vec<Extent>> {
        self.check_range(offset, len)?;
        self.data.extents(offset, offset + len, max).at_with(|| self.name())
    }

    /// First data offset at or after `offset`; `None` after the last.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        self.check_open()?;
        let size = self.size();
        if offset >= size {
            return Ok(None);
        }
        Ok(self.data.next_data(offset).at_with(|| self.name())?.filter(|at| *at < size))
    }

    /// First hole offset at or after `offset`; the size if there is none.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.check_open()?;
        let size = self.size();
        if offset >= size {
            return Ok(size);
        }
        Ok(self.data.next_hole(offset).at_with(|| self.name())?.min(size))
    }

    /// Prefetches a range in the background.
    pub fn prefetch(&self, offset: u64, len: u64) {
        self.data.prefetch(offset, len.min(self.size().saturating_sub(offset)));
    }
}

fn check_kind(objset: &ObjectSet, name: &str) -> Result<()> {
    match objset.phys().kind {
        ondisk::ObjsetKind::Volume => Ok(()),
        kind => Err(Error::invalid(name, format!("is not a volume: its object set is {kind:?}"))),
    }
}
