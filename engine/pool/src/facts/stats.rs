//! The pool's statistics.

use crate::Pool;
use crate::space::{DeviceSpace, Space};
use crate::stats::PoolStats;
use errors::Result;
use object::zap::Zap;
use ondisk::dsl_dir::DslDir;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::{bpobj, brt, ddt, spacemap};

impl Pool {
    /// Space and ratios, from the headers of all space maps.
    pub fn stats(&self) -> Result<PoolStats> {
        let space = Space::totals(self)?;
        self.stats_of(&space)
    }

    /// Space and ratios, from space maps that are already loaded.
    pub fn stats_of(&self, space: &Space) -> Result<PoolStats> {
        let mut stats = PoolStats::default();
        let tree = self.store().tree();
        for device in &space.devices {
            let Some(top) = self.root_vdev().children.iter().find(|t| t.id == device.vdev) else { continue };
            if top.number(config::IS_LOG) == 0 {
                stats.size_bytes += device.size_bytes;
                let in_tree = tree.tops.get(top.id as usize).map(|v| &**v);
                stats.expandsize_bytes += super::vdevs::expand_bytes(top, in_tree);
                stats.allocated_bytes += device.allocated_bytes();
            }
            stats.checkpoint_bytes += self.checkpoint_bytes(top)?;
        }
        stats.free_bytes = stats.size_bytes.saturating_sub(stats.allocated_bytes);
        stats.fragmentation_percent = self.fragmentation(space)?;
        stats.freeing_bytes = self.freeing_bytes()?;
        let total = self.dedup_histogram()?.iter().fold(ddt::Stat::default(), |mut sum, row| {
            sum.dsize_bytes = sum.dsize_bytes.wrapping_add(row.dsize_bytes);
            sum.referenced_dsize_bytes = sum.referenced_dsize_bytes.wrapping_add(row.referenced_dsize_bytes);
            sum
        });
        if total.dsize_bytes > 0 {
            stats.dedup_ratio = ratio(total.referenced_dsize_bytes, total.dsize_bytes);
        }
        stats.dedup_table_bytes = self.dedup_status()?.disk_bytes;
        self.clone_stats(&mut stats)?;
        stats.last_scrubbed_txg = self.directory().lookup_u64(directory::LAST_SCRUBBED_TXG)?.unwrap_or(0);
        Ok(stats)
    }

    /// Bytes of destroyed datasets that are not freed yet (`freeing`).
    pub fn freeing_bytes(&self) -> Result<u64> {
        let root = self.mos().object(self.root_dir()?)?;
        let root = DslDir::parse(root.bonus(), root.endian())?;
        if root.children_zap != 0
            && let Some(id) = Zap::open(self.mos().object(root.children_zap)?)?.lookup_u64("$FREE")?
        {
            let free = self.mos().object(id)?;
            return Ok(DslDir::parse(free.bonus(), free.endian())?.used_bytes);
        }
        match self.directory().lookup_u64(directory::FREE_BPOBJ)?.filter(|id| *id != 0) {
            Some(id) => {
                let object = self.mos().object(id)?;
                Ok(bpobj::Header::parse(object.bonus(), object.endian())?.used_bytes)
            }
            None => Ok(0),
        }
    }

    /// Bytes on a device that only the checkpoint still holds.
    pub(crate) fn checkpoint_bytes(&self, top: &crate::config::VdevConfig) -> Result<u64> {
        let zap = top.number(config::VDEV_TOP_ZAP);
        if zap == 0 {
            return Ok(0);
        }
        match Zap::open(self.mos().object(zap)?)?.lookup_u64(vdev_top::POOL_CHECKPOINT_SM)? {
            None | Some(0) => Ok(0),
            Some(id) => {
                let object = self.mos().object(id)?;
                Ok(spacemap::Header::parse(object.bonus(), object.endian())?.allocated_bytes.unsigned_abs())
            }
        }
    }

    /// Fragmentation of the normal class in percent: the mean of its devices, weighted by size
    /// (metaslab_class_fragmentation). `None` if one device has no value.
    fn fragmentation(&self, space: &Space) -> Result<Option<u64>> {
        let (mut weighted, mut total) = (0u128, 0u128);
        for device in &space.devices {
            if self.class(device.vdev) != crate::status::VdevClass::Normal {
                continue;
            }
            let Some(percent) = device.fragmentation_percent else { return Ok(None) };
            weighted += u128::from(percent) * u128::from(device.size_bytes);
            total += u128::from(device.size_bytes);
        }
        Ok(weighted.checked_div(total).map(|p| p as u64))
    }

    /// The sum of the histograms of all dedup tables: blocks by number of references.
    pub(crate) fn dedup_histogram(&self) -> Result<Vec<ddt::Stat>> {
        let mut rows = vec![ddt::Stat::default(); 64];
        let Some(id) = self.directory().lookup_u64(directory::DDT_STATS)?.filter(|id| *id != 0) else {
            return Ok(rows);
        };
        for entry in Zap::open(self.mos().object(id)?)?.entries()? {
            let Ok(table) = ddt::histogram_from_words(&entry.value.ints) else { continue };
            for (sum, row) in rows.iter_mut().zip(table) {
                sum.blocks = sum.blocks.wrapping_add(row.blocks);
                sum.lsize_bytes = sum.lsize_bytes.wrapping_add(row.lsize_bytes);
                sum.psize_bytes = sum.psize_bytes.wrapping_add(row.psize_bytes);
                sum.dsize_bytes = sum.dsize_bytes.wrapping_add(row.dsize_bytes);
                sum.referenced_blocks = sum.referenced_blocks.wrapping_add(row.referenced_blocks);
                sum.referenced_lsize_bytes = sum.referenced_lsize_bytes.wrapping_add(row.referenced_lsize_bytes);
                sum.referenced_psize_bytes = sum.referenced_psize_bytes.wrapping_add(row.referenced_psize_bytes);
                sum.referenced_dsize_bytes = sum.referenced_dsize_bytes.wrapping_add(row.referenced_dsize_bytes);
            }
        }
        Ok(rows)
    }

    fn clone_stats(&self, stats: &mut PoolStats) -> Result<()> {
        for (_, id) in crate::clones::tables(self)? {
            let object = self.mos().object(id)?;
            let header = brt::Header::parse(object.bonus(), object.endian())?;
            stats.clone_used_bytes = stats.clone_used_bytes.saturating_add(header.used_bytes);
            stats.clone_saved_bytes = stats.clone_saved_bytes.saturating_add(header.saved_bytes);
        }
        if stats.clone_used_bytes > 0 {
            stats.clone_ratio =
                ratio(stats.clone_used_bytes.saturating_add(stats.clone_saved_bytes), stats.clone_used_bytes);
        }
        Ok(())
    }
}

fn ratio(a: u64, b: u64) -> u64 {
    (u128::from(a) * 100 / u128::from(b.max(1))) as u64
}

impl DeviceSpace {
    /// Allocated bytes: counted from the space maps, or taken from their headers if only those were
    /// read.
    pub fn allocated_bytes(&self) -> u64 {
        match self.allocated.units() {
            0 => self.header_bytes.max(0).cast_unsigned(),
            _ => self.allocated.count() << self.shift,
        }
    }
}
