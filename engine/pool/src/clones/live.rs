//! The tables of cloned blocks (BRT) of a pool that is open for writing.
//!
//! Below: `object`. Above: `block::WriteStore::free` asks whether it frees the last use of a block
//! ([`References`]); the syncing txg counts new uses ([`Clones::add`]) and writes the changes
//! (`sync`). ZFS name: BRT. Facts: module/zfs/brt.c (brt_pending_apply, brt_entry_decref,
//! brt_sync).
//!
//! Invariants:
//!   * all new uses of a txg are counted before the first block of that txg is freed
//!   * a block has an entry while it is used more than once; an entry that reaches 0 is removed in
//!     the same txg
//!   * counts, sums and entries on disk belong to the same txg

use crate::Pool;
use block::References;
use errors::{Error, Place, Result};
use host::sync::Mutex;
use object::ObjectSet;
use object::zap::Zap;
use ondisk::brt::{self, Header};
use ondisk::pool_dir::{self, config};
use ondisk::{BlkPtr, Endian};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of uses of a block beyond the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub now: u64,
    pub on_disk: u64,
}

/// The BRT of one top-level device.
pub(super) struct Table {
    /// The table's object and the ZAP of its entries; `None` until the first sync creates them.
    pub places: Option<(u64, Zap)>,
    /// Sums. `counts` and the object numbers are filled in when the header is written.
    pub header: Header,
    /// Number of blocks with entries, for each range of the device.
    pub counts: Vec<u16>,
    /// Entries that the current txg has looked up, by offset in bytes.
    pub touched: BTreeMap<u64, Entry>,
    pub is_dirty: bool,
}

/// All BRTs of a pool.
pub(crate) struct Clones {
    pub(super) tables: Mutex<BTreeMap<u32, Table>>,
    /// Whether any table exists. Most pools have none, and frees then skip the lookup.
    pub(super) any: AtomicBool,
    /// Bytes that the pool would need in addition if every use of a block were a copy, as of the
    /// last synced txg.
    pub(super) saved_bytes: AtomicU64,
    /// Space that a block takes, in bytes, without parity.
    space_bytes: Box<dyn Fn(&BlkPtr) -> u64 + Send + Sync>,
}

impl Clones {
    /// Loads the tables of a pool that is being opened for writing. `space_bytes` is OpenZFS's
    /// `bp_get_dsize`.
    pub fn load(
        pool: &Pool,
        mos: &Arc<ObjectSet>,
        space_bytes: impl Fn(&BlkPtr) -> u64 + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let mut tables = BTreeMap::new();
        for (top, id) in super::tables(pool)? {
            let name = pool_dir::brt(top.id);
            let vdev = u32::try_from(top.id).map_err(|_| Error::corrupt(name.clone(), "the number of its device"))?;
            tables.insert(vdev, Table::load(mos, id, top.number(config::ASIZE)).at(&name)?);
        }
        let any = AtomicBool::new(!tables.is_empty());
        let saved_bytes = AtomicU64::new(saved(&tables));
        Ok(Arc::new(Self { tables: Mutex::new(tables), any, saved_bytes, space_bytes: Box::new(space_bytes) }))
    }

    /// The empty set of tables, for a pool that is being created.
    pub fn none() -> Arc<Self> {
        Arc::new(Self {
            tables: Mutex::default(),
            any: AtomicBool::new(false),
            saved_bytes: AtomicU64::new(0),
            space_bytes: Box::new(|_| 0),
        })
    }

    /// Bytes that the pool would need in addition if every use of a block were a copy.
    pub fn saved_bytes(&self) -> u64 {
        self.saved_bytes.load(Ordering::Relaxed)
    }

    /// Counts one more use of a data block. Call this before any block is freed in the txg.
    pub fn add(&self, bp: &BlkPtr) -> Result<()> {
        let Some(dva) = bp.dvas().next() else { return Ok(()) };
        let mut tables = self.tables.lock();
        self.any.store(true, Ordering::Release);
        tables.entry(dva.vdev).or_insert_with(Table::new).add(dva.offset_bytes, (self.space_bytes)(bp))
    }
}

pub(super) fn saved(tables: &BTreeMap<u32, Table>) -> u64 {
    tables.values().map(|table| table.header.saved_bytes).fold(0, u64::saturating_add)
}

impl References for Clones {
    fn release(&self, bp: &BlkPtr) -> Result<bool> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(true);
        }
        let Some(dva) = bp.dvas().next() else { return Ok(true) };
        let mut tables = self.tables.lock();
        let Some(table) = tables.get_mut(&dva.vdev) else { return Ok(true) };
        table.release(dva.offset_bytes, (self.space_bytes)(bp))
    }
}

impl Table {
    fn new() -> Self {
        let header = Header {
            entries_object: 0,
            counts: 0,
            counts_endian: Endian::Little,
            total_count: 0,
            range_bytes: brt::RANGE_BYTES,
            used_bytes: 0,
            saved_bytes: 0,
        };
        Self { places: None, header, counts: Vec::new(), touched: BTreeMap::new(), is_dirty: false }
    }

    fn load(mos: &Arc<ObjectSet>, id: u64, device_bytes: u64) -> Result<Self> {
        let object = mos.object(id)?;
        let header = Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
        if header.range_bytes < 512 || header.counts > device_bytes.div_ceil(header.range_bytes) {
            let what = format!(
                "{} counts, one for each {} bytes of a device of {device_bytes}",
                header.counts, header.range_bytes
            );
            return Err(Error::corrupt(object.place(), what));
        }
        let bytes = object.read_vec(0, header.counts as usize * 2)?;
        let counts = brt::counts(&bytes, header.counts_endian).collect();
        let entries = Zap::open(mos.object(header.entries_object)?)?;
        Ok(Self { places: Some((id, entries)), header, counts, touched: BTreeMap::new(), is_dirty: false })
    }

    fn range(&self, offset: u64) -> usize {
        usize::try_from(offset / self.header.range_bytes).unwrap_or(usize::MAX)
    }

    /// The block's entry: from the current txg, else from disk. The disk is not read if the count
    /// of the block's range is 0.
    fn entry(&mut self, offset: u64) -> Result<Option<&mut Entry>> {
        if !self.touched.contains_key(&offset) {
            if self.counts.get(self.range(offset)).is_none_or(|count| *count == 0) {
                return Ok(None);
            }
            let Some((_, entries)) = &self.places else { return Ok(None) };
            let Some(value) = entries.lookup_key(&[offset])? else { return Ok(None) };
            let count = brt::reference_count(value.int_bytes, &value.ints, Endian::Little)
                .at_with(|| format!("the entry of offset {offset:#x}"))?;
            self.touched.insert(offset, Entry { now: count, on_disk: count });
        }
        Ok(self.touched.get_mut(&offset))
    }

    fn add(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let before = match self.entry(offset)? {
            Some(entry) => {
                let before = entry.now;
                entry.now = before.saturating_add(1);
                before
            }
            None => {
                self.touched.insert(offset, Entry { now: 1, on_disk: 0 });
                0
            }
        };
        self.is_dirty = true;
        let wrong = || Error::corrupt("the table of cloned blocks", "its sums are more than its entries");
        let header = &mut self.header;
        header.saved_bytes = header.saved_bytes.checked_add(bytes).ok_or_else(wrong)?;
        if before == 0 {
            let range = self.range(offset);
            if range >= self.counts.len() {
                self.counts.resize(range + 1, 0);
            }
            // 16 MiB of the smallest blocks are 32,768.
            self.counts[range] = self.counts[range].checked_add(1).ok_or_else(wrong)?;
            let header = &mut self.header;
            header.total_count = header.total_count.checked_add(1).ok_or_else(wrong)?;
            header.used_bytes = header.used_bytes.checked_add(bytes).ok_or_else(wrong)?;
        }
        Ok(())
    }

    fn release(&mut self, offset: u64, bytes: u64) -> Result<bool> {
        let left = match self.entry(offset)? {
            Some(entry) if entry.now > 0 => {
                entry.now -= 1;
                entry.now
            }
            _ => return Ok(true),
        };
        self.is_dirty = true;
        let range = self.range(offset);
        let wrong = || Error::corrupt("the table of cloned blocks", "its sums are less than its entries");
        let header = &mut self.header;
        header.saved_bytes = header.saved_bytes.checked_sub(bytes).ok_or_else(wrong)?;
        if left == 0 {
            header.used_bytes = header.used_bytes.checked_sub(bytes).ok_or_else(wrong)?;
            header.total_count = header.total_count.checked_sub(1).ok_or_else(wrong)?;
            let count = self.counts.get_mut(range).filter(|count| **count > 0).ok_or_else(wrong)?;
            *count -= 1;
        }
        Ok(false)
    }
}
