//! Space maps as objects of the MOS, for the allocator.

use super::tx::SyncTx;
use crate::Result;
use crate::space::Allocator;
use crate::space::alloc::MapWriter;
use object::NewObject;
use object::zap::Zap;
use ondisk::pool_dir::{directory, vdev_top};
use ondisk::spacemap::Header;
use ondisk::{Endian, ObjectType};

/// log2 of the size of indirect blocks of space maps: small, since they are written in each txg (`space_map_ibs`).
const INDIRECT_SHIFT: u8 = 14;

impl Allocator {
    /// Brings what was allocated and freed in the txg since the last pass into the space maps; whether there was anything.
    pub(super) fn sync(&self, cx: &SyncTx<'_>) -> Result<bool> {
        let wrote = self.sync_maps(cx.txg(), &Maps(cx))?;
        Ok(wrote)
    }
}

pub(super) struct Maps<'a, 'b>(pub &'a SyncTx<'b>);

impl MapWriter for Maps<'_, '_> {
    fn create_map(&self, block_bytes: u32, with_histogram: bool) -> Result<u64> {
        let cx = self.0;
        let bytes = if with_histogram { Header::SIZE_BYTES } else { Header::SIZE_V0_BYTES };
        let mut new =
            NewObject::new(ObjectType::SPACE_MAP, block_bytes).with_bonus(ObjectType::SPACE_MAP_HEADER, vec![0; bytes]);
        new.indirect_shift = INDIRECT_SHIFT;
        let id = cx.mos().create_object(cx.tx(), &new)?.id();
        if with_histogram {
            cx.feature_increment("spacemap_histogram")?;
        }
        Ok(id)
    }

    fn write_map(&self, object: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.mos().object(object)?.write_at(self.0.tx(), offset, bytes)
    }

    fn truncate_map(&self, object: u64) -> Result<()> {
        self.0.mos().object(object)?.punch(self.0.tx(), 0, u64::MAX)
    }

    fn set_header(&self, object: u64, header: &Header) -> Result<()> {
        let object = self.0.mos().object(object)?;
        let mut bytes = header.to_bytes(Endian::Little);
        bytes.resize(object.bonus().len(), 0);
        object.set_bonus(self.0.tx(), bytes)
    }

    fn create_array(&self, count: u64) -> Result<u64> {
        let cx = self.0;
        // One block that grows with its array, as OpenZFS makes it.
        let bytes = (count * 8).next_multiple_of(512).clamp(512, 128 << 10) as u32;
        let object = cx.mos().create_object(cx.tx(), &NewObject::new(ObjectType::OBJECT_ARRAY, bytes))?;
        object.write_at(cx.tx(), 0, &vec![0; (count * 8) as usize])?;
        Ok(object.id())
    }

    fn write_array(&self, array: u64, index: u64, object: u64) -> Result<()> {
        self.0.mos().object(array)?.write_at(self.0.tx(), index * 8, &object.to_le_bytes())
    }

    fn destroy_logs(&self, devices: &[(u64, u64)]) -> Result<()> {
        let (cx, mos, tx) = (self.0, self.0.mos(), self.0.tx());
        let Some(id) = cx.directory_entry(directory::LOG_SPACEMAP_ZAP)? else { return Ok(()) };
        let zap = Zap::open(mos.object(id)?)?;
        for entry in zap.entries()? {
            if let Some(log) = entry.value.as_u64() {
                let with_histogram = mos.object(log)?.bonus().len() == Header::SIZE_BYTES;
                mos.free_object(tx, log)?;
                if with_histogram {
                    cx.feature_decrement("spacemap_histogram")?;
                }
            }
            zap.remove(tx, &entry.name)?;
        }
        for (top_zap, metaslabs) in devices.iter().filter(|d| d.0 != 0) {
            let zap = Zap::open(mos.object(*top_zap)?)?;
            let Some(id) = zap.lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS)? else { continue };
            // Everything that happened before this txg is in the maps.
            let words: Vec<u8> = (0..*metaslabs).flat_map(|_| cx.txg().to_le_bytes()).collect();
            mos.object(id)?.write_at(tx, 0, &words)?;
        }
        Ok(())
    }
}
