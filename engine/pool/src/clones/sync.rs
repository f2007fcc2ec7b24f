//! Writes the tables of cloned blocks in the syncing txg. Facts: brt_sync (module/zfs/brt.c).

use super::live::{Clones, Entry, Table, saved};
use crate::writer::SyncTx;
use errors::{Place, Result};
use object::NewObject;
use object::zap::{Zap, ZapSpec};
use ondisk::brt::Header;
use ondisk::pool_dir;
use ondisk::zap::{Flags as ZapFlags, Value as ZapValue};
use ondisk::{Endian, ObjectType};
use std::sync::atomic::Ordering;

/// The feature; its reference count is the number of tables.
const FEATURE: &str = "block_cloning";

/// log2 of the block size of a table's entries, and the block size of its counts, as in OpenZFS
/// (`brt_zap_default_bs`, `BRT_BLOCKSIZE`).
const ENTRIES_SHIFT: u8 = 12;
const COUNTS_BLOCK_BYTES: u32 = 32 << 10;

impl Clones {
    /// Writes the changes of the txg into the MOS.
    pub fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        let mut tables = self.tables.lock();
        let mut gone = Vec::new();
        for (vdev, table) in tables.iter_mut() {
            if !std::mem::take(&mut table.is_dirty) {
                table.touched.clear();
                continue;
            }
            let name = pool_dir::brt(u64::from(*vdev));
            if table.header.total_count == 0 {
                table.destroy(cx, &name).at(&name)?;
                gone.push(*vdev);
            } else {
                table.write(cx, &name, u64::from(*vdev)).at(&name)?;
            }
        }
        for vdev in gone {
            tables.remove(&vdev);
        }
        self.any.store(!tables.is_empty(), Ordering::Release);
        self.saved_bytes.store(saved(&tables), Ordering::Relaxed);
        Ok(())
    }
}

impl Table {
    /// Creates the objects of a table: the counts and the entries. Returns the object number of the
    /// counts, and the entries.
    fn create(cx: &SyncTx<'_>, name: &str) -> Result<(u64, Zap)> {
        let spec = ZapSpec {
            flags: ZapFlags::HASH64 | ZapFlags::UINT64_KEY,
            block_shift: ENTRIES_SHIFT,
            indirect_shift: ENTRIES_SHIFT,
            ..ZapSpec::new(ObjectType::OTN_ZAP_METADATA)
        };
        let entries = Zap::create(cx.mos(), cx.tx(), &spec)?;
        let new = NewObject::new(ObjectType::OTN_UINT64_METADATA, COUNTS_BLOCK_BYTES)
            .with_bonus(ObjectType::OTN_UINT64_METADATA, vec![0; Header::SIZE_BYTES]);
        let object = cx.mos().create_object(cx.tx(), &new)?;
        cx.directory()?.insert_u64(cx.tx(), name, object.id())?;
        cx.feature_increment(FEATURE)?;
        Ok((object.id(), entries))
    }

    fn write(&mut self, cx: &SyncTx<'_>, name: &str, vdev: u64) -> Result<()> {
        if self.places.is_none() {
            self.places = Some(Self::create(cx, name)?);
        }
        // The counts cover the whole device, so that other implementations find the size they
        // expect.
        let ranges = cx.device_bytes(vdev).div_ceil(self.header.range_bytes) as usize;
        if ranges > self.counts.len() {
            self.counts.resize(ranges, 0);
        }
        let Some((id, entries)) = &self.places else { return Ok(()) };
        for (offset, entry) in std::mem::take(&mut self.touched) {
            match entry {
                Entry { now, on_disk } if now == on_disk => {}
                Entry { now: 0, .. } => entries.remove_key(cx.tx(), &[offset])?,
                Entry { now, .. } => {
                    let ints = now.to_le_bytes().map(u64::from).to_vec();
                    entries.update_key(cx.tx(), &[offset], &ZapValue { int_bytes: 1, ints })?;
                }
            }
        }
        let object = cx.mos().object(*id)?;
        let bytes: Vec<u8> = self.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        object.write_at(cx.tx(), 0, &bytes)?;
        self.header.counts = self.counts.len() as u64;
        self.header.counts_endian = Endian::Little;
        self.header.entries_object = entries.id();
        object.set_bonus(cx.tx(), self.header.to_bytes(Endian::Little).to_vec())
    }

    /// Destroys the table's objects when no block of the device is cloned any more.
    fn destroy(&mut self, cx: &SyncTx<'_>, name: &str) -> Result<()> {
        self.touched.clear();
        let Some((id, entries)) = self.places.take() else { return Ok(()) };
        cx.mos().free_object(cx.tx(), entries.id())?;
        cx.mos().free_object(cx.tx(), id)?;
        cx.directory()?.remove(cx.tx(), name)?;
        cx.feature_decrement(FEATURE)
    }
}
