//! Space maps in the MOS, as the syncing txg changes them.
//!
//! Facts: `space_map_alloc`, `space_map_truncate` (module/zfs/space_map.c),
//! `metaslab_update_ondisk_flush_data` (metaslab.c), `spa_generate_syncing_log_sm`,
//! `spa_cleanup_old_sm_logs` (spa_log_spacemap.c).

use super::maps::MapWriter;
use errors::{Error, Result};
use object::zap::{Zap, ZapSpec};
use object::{NewObject, ObjectSet, Tx};
use ondisk::ObjectType;
use ondisk::pool_dir::{DIRECTORY_OBJECT, directory, vdev_top};
use ondisk::spacemap::Header;
use std::sync::Arc;

/// log2 of the indirect block size of space maps: small, because few blocks of a long map change in
/// a txg.
const INDIRECT_SHIFT: u8 = 14;
/// Limit for the block size of the array of space maps: one block for most devices, and a small one
/// for small devices.
const ARRAY_BLOCK_BYTES_MAX: u64 = 16 << 10;

/// Block size of the list of unflushed txgs. As OpenZFS: it is nearly always one block.
const UNFLUSHED_BLOCK_BYTES: u32 = 128 << 10;

/// The MOS in a txg.
pub struct LiveMaps<'a> {
    /// The pool's own object set.
    pub mos: &'a Arc<ObjectSet>,
    /// The syncing txg.
    pub tx: &'a Tx,
    /// Adds to the reference count of a feature, by name.
    pub count_feature: &'a dyn Fn(&str, i64) -> Result<()>,
}

impl LiveMaps<'_> {
    /// Destroys a space map.
    pub(crate) fn free_map(&self, id: u64) -> Result<()> {
        let has_histogram = self.mos.object(id)?.bonus().len() >= Header::SIZE_BYTES;
        self.mos.free_object(self.tx, id)?;
        if has_histogram { (self.count_feature)("spacemap_histogram", -1) } else { Ok(()) }
    }
}

impl MapWriter for LiveMaps<'_> {
    fn create_map(&self, block_bytes: u32, with_histogram: bool) -> Result<u64> {
        let size = if with_histogram { Header::SIZE_BYTES } else { Header::SIZE_V0_BYTES };
        let new =
            NewObject::new(ObjectType::SPACE_MAP, block_bytes).with_bonus(ObjectType::SPACE_MAP_HEADER, vec![0; size]);
        let object = self.mos.create_object(self.tx, &NewObject { indirect_shift: INDIRECT_SHIFT, ..new })?;
        if with_histogram {
            (self.count_feature)("spacemap_histogram", 1)?;
        }
        Ok(object.id())
    }

    fn write_map(&self, object: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        self.mos.object(object)?.write_at(self.tx, offset, bytes)
    }

    fn truncate_map(&self, object: u64) -> Result<()> {
        self.mos.object(object)?.punch(self.tx, 0, u64::MAX)
    }

    fn set_header(&self, object: u64, header: &Header) -> Result<()> {
        let object = self.mos.object(object)?;
        object.set_bonus(self.tx, header.to_bytes(object.endian()))
    }

    fn create_array(&self, count: u64) -> Result<u64> {
        let bytes = (count * 8).next_multiple_of(512).clamp(512, ARRAY_BLOCK_BYTES_MAX);
        let object = self.mos.create_object(self.tx, &NewObject::new(ObjectType::OBJECT_ARRAY, bytes as u32))?;
        // The array gets its full length even before the first metaslab is used.
        object.write_at(self.tx, count * 8 - 8, &[0; 8])?;
        Ok(object.id())
    }

    fn write_array(&self, array: u64, index: u64, object: u64) -> Result<()> {
        let array = self.mos.object(array)?;
        let mut word = [0; 8];
        array.endian().put_u64(&mut word, object);
        array.write_at(self.tx, index * 8, &word)
    }

    fn create_log(&self, txg: u64, block_bytes: u32, with_histogram: bool) -> Result<u64> {
        let root = Zap::open(self.mos.object(DIRECTORY_OBJECT)?)?;
        let logs = match root.lookup_u64(directory::LOG_SPACEMAP_ZAP)?.filter(|id| *id != 0) {
            Some(id) => Zap::open(self.mos.object(id)?)?,
            None => {
                let spec = ZapSpec::new(ObjectType::OTN_ZAP_METADATA);
                let logs = Zap::create(self.mos, self.tx, &spec)?;
                root.update_u64(self.tx, directory::LOG_SPACEMAP_ZAP, logs.id())?;
                (self.count_feature)("log_spacemap", 1)?;
                logs
            }
        };
        let object = self.create_map(block_bytes, with_histogram)?;
        logs.insert_u64(self.tx, format!("{txg:x}"), object)?;
        Ok(object)
    }

    fn remove_log(&self, txg: u64, object: u64) -> Result<()> {
        let root = Zap::open(self.mos.object(DIRECTORY_OBJECT)?)?;
        let id = root.lookup_u64(directory::LOG_SPACEMAP_ZAP)?.filter(|id| *id != 0);
        let id = id.ok_or_else(|| Error::corrupt("the object directory", "no list of log space maps"))?;
        Zap::open(self.mos.object(id)?)?.remove(self.tx, format!("{txg:x}"))?;
        self.free_map(object)
    }

    fn set_checkpoint_map(&self, top_zap: u64, object: Option<u64>) -> Result<()> {
        let zap = Zap::open(self.mos.object(top_zap)?)?;
        match object {
            Some(object) => zap.insert_u64(self.tx, vdev_top::POOL_CHECKPOINT_SM, object),
            None => {
                if let Some(before) = zap.lookup_u64(vdev_top::POOL_CHECKPOINT_SM)? {
                    zap.remove(self.tx, vdev_top::POOL_CHECKPOINT_SM)?;
                    self.free_map(before)?;
                }
                Ok(())
            }
        }
    }

    fn write_unflushed(&self, top_zap: u64, count: u64, metaslabs: &[u32], txg: u64) -> Result<()> {
        let zap = Zap::open(self.mos.object(top_zap)?)?;
        let list = match zap.lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS)?.filter(|id| *id != 0) {
            Some(id) => self.mos.object(id)?,
            None => {
                let new = NewObject::new(ObjectType::OTN_UINT64_METADATA, UNFLUSHED_BLOCK_BYTES);
                let list = self.mos.create_object(self.tx, &new)?;
                list.write_at(self.tx, count * 8 - 8, &[0; 8])?;
                zap.update_u64(self.tx, vdev_top::MS_UNFLUSHED_PHYS_TXGS, list.id())?;
                list
            }
        };
        let mut word = [0; 8];
        list.endian().put_u64(&mut word, txg);
        metaslabs.iter().try_for_each(|id| list.write_at(self.tx, u64::from(*id) * 8, &word))
    }
}
