//! The space that a pool offers its datasets.
//!
//! ```text
//!   normal devices, whole metaslabs, without parity        raw_bytes
//! + savings by dedup and cloning                           saved_bytes
//! - space held only by the checkpoint, deferred frees      held_bytes
//! - slop: 1/32 reserved so that a full pool can be freed   slop_bytes
//! = for_datasets()
//! ```
//! "Without parity" is the format's deflation: bytes on a device are scaled by the ratio in which a
//! block of 128 KiB is larger on it, whatever the size of the actual block. Facts:
//! `spa_update_dspace`, `spa_get_slop_space` (module/zfs/spa_misc.c), `dsl_pool_adjustedsize`
//! (dsl_pool.c), `vdev_set_deflate_ratio` (vdev.c).

use crate::Pool;
use crate::config::VdevConfig;
use block::vdev::raidz::Geometry;
use errors::{Error, Place, Result};
use object::bpobj::Bpobj;
use object::zap::Zap;
use ondisk::BlkPtr;
use ondisk::label::{END_BYTES, START_BYTES, usable_bytes};
use ondisk::pool_dir::{config, directory};
use std::sync::Arc;

/// Minimum slop, unless that is more than half of the pool.
const SLOP_MIN_BYTES: u64 = 128 << 20;
/// Maximum slop, in bytes.
const SLOP_MAX_BYTES: u64 = 128 << 30;
/// A device with more metaslabs than this reserves one of them for the intent log.
pub(crate) const EMBEDDED_LOG_METASLABS_MIN: u64 = 64;

/// Limit for the metaslabs of a device (OpenZFS creates at most 2^17); more would be damage, and
/// are not walked.
pub(crate) const METASLABS_MAX: u64 = 1 << 20;

/// The terms of the sum above, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsableSpace {
    /// Capacity of the normal devices.
    pub raw_bytes: u64,
    /// Savings by dedup and cloning.
    pub saved_bytes: u64,
    /// Space held by the checkpoint and deferred frees.
    pub held_bytes: u64,
    /// Slop space: reserved so that a full pool can be freed.
    pub slop_bytes: u64,
}

impl UsableSpace {
    /// Space for all datasets together.
    pub fn for_datasets(&self) -> u64 {
        let all = self.raw_bytes.saturating_add(self.saved_bytes);
        all.saturating_sub(self.held_bytes).saturating_sub(self.slop_bytes)
    }
}

/// Bytes that 128 KiB take on a top-level device.
fn bytes_for_128k(top: &VdevConfig) -> u64 {
    let ashift = top.number(config::ASHIFT).clamp(9, 24);
    let sectors = ((1u64 << 17) >> ashift).max(1);
    let parity = top.number(config::NPARITY).min(3);
    let on_device = match top.kind.as_str() {
        "raidz" => {
            // An expanded device keeps the ratio of its original width.
            let added = top.all.get_u64_array(config::RAIDZ_EXPAND_TXGS).map_or(0, <[u64]>::len)
                + usize::from(top.all.contains(config::RAIDZ_EXPANDING));
            let width = top.children.len().saturating_sub(added) as u64;
            let data = width.saturating_sub(parity).max(1);
            let whole = sectors.saturating_add(parity.saturating_mul(sectors.div_ceil(data)));
            whole.next_multiple_of(parity + 1)
        }
        "draid" => {
            let data = top.number(config::DRAID_NDATA).clamp(1, 1 << 16);
            sectors.div_ceil(data).saturating_mul(data + parity)
        }
        _ => sectors,
    };
    on_device << ashift
}

/// Deflate ratio of a top-level device, in 512ths.
pub(crate) fn deflate_ratio(top: &VdevConfig) -> u64 {
    (1 << 17) / (bytes_for_128k(top) >> 9).max(1)
}

/// Slop of normal devices of `raw` bytes, which reserve `embedded_log` bytes besides.
pub(crate) fn slop_bytes(raw: u64, embedded_log: u64) -> u64 {
    let mut slop = (raw >> 5).min(SLOP_MAX_BYTES);
    slop -= embedded_log.min(slop >> 1);
    slop.max(SLOP_MIN_BYTES.min(raw >> 1))
}

/// Bytes of the first `count` metaslabs of `1 << shift` bytes each. On dRAID they are cut to whole
/// stripes.
fn metaslab_bytes(top: &VdevConfig, shift: u64, count: u64) -> u64 {
    let whole = count << shift;
    let data = top.number(config::DRAID_NDATA).clamp(1, 1 << 16);
    let stripe = (data + top.number(config::NPARITY).min(3)) << top.number(config::ASHIFT).clamp(9, 24);
    if top.kind != "draid" || stripe > 1 << shift || count > METASLABS_MAX {
        return whole;
    }
    let cut = |start: u64| ((1 << shift) - (start.next_multiple_of(stripe) - start)) / stripe * stripe;
    (0..count).map(|i| cut(i << shift)).sum()
}

impl Pool {
    /// Whether bytes are counted deflated: pools since version 3.
    pub(crate) fn deflates(&self) -> bool {
        matches!(self.directory().lookup_u64(directory::DEFLATE), Ok(Some(n)) if n != 0)
    }

    /// Deflate ratios by number of the top-level device: bytes that users see for 512 allocated
    /// bytes. `used` and similar properties are in these units, so that they do not include parity.
    pub fn deflate_ratios(&self) -> Vec<u64> {
        let deflates = self.deflates();
        let ratio = |v: &Arc<block::vdev::Vdev>| match self.root_vdev().children.iter().find(|top| top.id == v.id) {
            Some(top) if deflates => deflate_ratio(top),
            _ => 512,
        };
        self.store().tree().tops.iter().map(ratio).collect()
    }

    /// Space that a block takes on the devices, as datasets count it.
    pub fn deflated_bytes(&self, bp: &BlkPtr) -> u64 {
        if bp.is_hole() || bp.is_embedded() {
            return 0;
        }
        if !self.deflates() {
            return bp.asize_bytes();
        }
        let one = |dva: ondisk::Dva| {
            let bytes = dva.asize_bytes;
            let top = self.root_vdev().children.iter().find(|top| top.id == u64::from(dva.vdev));
            top.map_or(bytes, |top| (bytes >> 9).saturating_mul(deflate_ratio(top)))
        };
        bp.dvas().map(one).fold(0, u64::saturating_add)
    }

    /// Space for datasets, term by term.
    pub fn usable_space(&self) -> Result<UsableSpace> {
        let deflate = self.deflates();
        let (mut raw, mut embedded_log) = (0u64, 0u64);
        for top in &self.root_vdev().children {
            let kind = top.kind.as_str();
            let unused = top.number(config::IS_LOG) != 0
                || top.number(config::NONALLOCATING) != 0
                || top.number(config::REMOVING) != 0
                || matches!(kind, "hole" | "missing" | "indirect");
            if unused || self.has_class(top)? {
                continue;
            }
            let shift = top.number(config::METASLAB_SHIFT);
            if !(9..63).contains(&shift) {
                let what = format!("metaslab_shift of {} is {shift}, expected 9 to 62", top.display_name());
                return Err(Error::corrupt(self.name(), what));
            }
            add_top(top, deflate, &mut raw, &mut embedded_log);
        }
        let slop_bytes = slop_bytes(raw, embedded_log);
        let saved_bytes = self.saved_by_dedup()?.saturating_add(self.saved_by_cloning()?);
        let held_bytes = self.held_by_checkpoint()?.saturating_add(self.deferred_frees()?);
        Ok(UsableSpace { raw_bytes: raw, saved_bytes, held_bytes, slop_bytes })
    }

    /// Whether a top-level device is reserved for special or deduplicated blocks, or the log.
    fn has_class(&self, top: &VdevConfig) -> Result<bool> {
        if let Some(bias) = top.all.get_str(config::ALLOCATION_BIAS) {
            return Ok(matches!(bias, "special" | "dedup" | "log"));
        }
        let id = top.number(config::VDEV_TOP_ZAP);
        if id == 0 {
            return Ok(false);
        }
        let zap = self.mos().object(id).and_then(Zap::open).at(self.name())?;
        Ok(zap.lookup(ondisk::pool_dir::vdev_top::ALLOCATION_BIAS).at(self.name())?.is_some())
    }

    /// Bytes that the pool would need in addition if every reference to a deduplicated block were a
    /// copy.
    fn saved_by_dedup(&self) -> Result<u64> {
        let mut saved = 0u64;
        for row in self.dedup_histogram().at(self.name())? {
            saved = saved.wrapping_add(row.referenced_dsize_bytes.wrapping_sub(row.dsize_bytes));
        }
        Ok(saved)
    }

    /// Bytes that the pool would need in addition if every clone of a block were a copy.
    fn saved_by_cloning(&self) -> Result<u64> {
        /// Offset of bvp_savedspace in the bonus buffer of a device's block reference table.
        const SAVED_AT: usize = 48;
        let mut saved = 0u64;
        for (_, id) in crate::clones::tables(self)? {
            let object = self.mos().object(id).at(self.name())?;
            let bytes = object.bonus().get(SAVED_AT..SAVED_AT + 8).ok_or_else(|| {
                Error::corrupt(object.place(), format!("bonus of {} bytes, expected 56", object.bonus().len()))
            })?;
            saved = saved.saturating_add(object.endian().u64(bytes));
        }
        Ok(saved)
    }

    /// Bytes freed since the checkpoint, which it still holds.
    fn held_by_checkpoint(&self) -> Result<u64> {
        let mut held = 0u64;
        for top in &self.root_vdev().children {
            held = held.saturating_add(self.checkpoint_bytes(top).at(self.name())?);
        }
        Ok(held)
    }

    /// Bytes that the next txg will free.
    fn deferred_frees(&self) -> Result<u64> {
        match self.directory().lookup_u64(directory::SYNC_BPOBJ)?.filter(|id| *id != 0) {
            Some(id) => Ok(Bpobj::open(self.mos(), id).at(self.name())?.header().used_bytes),
            None => Ok(0),
        }
    }
}

/// A top-level device of a pool that is being planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Parity of a raidz; 0: a mirror, or a single device.
    pub parity: u64,
    pub leaves: u64,
    /// Size of the smallest leaf.
    pub leaf_bytes: u64,
    /// log2 of the allocation unit in bytes.
    pub ashift: u8,
}

impl Planned {
    fn config(&self) -> VdevConfig {
        let mut all = ondisk::nvlist::Nvlist::new();
        let leaf = usable_bytes(self.leaf_bytes).saturating_sub(START_BYTES + END_BYTES);
        let asize = match self.parity {
            0 => leaf,
            _ => (leaf >> self.ashift << self.ashift).saturating_mul(self.leaves),
        };
        all.put(config::ASHIFT, u64::from(self.ashift));
        all.put(config::ASIZE, asize);
        all.put(config::METASLAB_SHIFT, u64::from(crate::space::alloc::metaslab_shift(asize)));
        all.put(config::NPARITY, self.parity);
        let kind = if self.parity == 0 { "mirror" } else { "raidz" };
        let children = vec![VdevConfig::default(); self.leaves as usize];
        VdevConfig { kind: kind.into(), all, children, ..VdevConfig::default() }
    }

    /// Bytes that a block of `bytes` takes on all leaves together: copies, parity and padding.
    pub fn bytes_on_leaves(&self, bytes: u64) -> Result<u64> {
        match self.parity {
            0 => Ok(bytes.next_multiple_of(1 << self.ashift).saturating_mul(self.leaves)),
            parity => {
                let geometry = Geometry::new(self.ashift, self.leaves as usize, parity as usize)?;
                Ok(geometry.asize_bytes(bytes, 0))
            }
        }
    }
}

/// Space that a new pool of these devices offers its datasets.
pub fn planned(devices: &[Planned]) -> UsableSpace {
    let configs: Vec<VdevConfig> = devices.iter().map(Planned::config).collect();
    let (mut raw, mut embedded_log) = (0u64, 0u64);
    configs.iter().for_each(|top| add_top(top, true, &mut raw, &mut embedded_log));
    UsableSpace { raw_bytes: raw, slop_bytes: slop_bytes(raw, embedded_log), ..UsableSpace::default() }
}

/// Adds the capacity of a normal device, and the part of it that is reserved for the intent log.
fn add_top(top: &VdevConfig, deflate: bool, raw: &mut u64, embedded_log: &mut u64) {
    let shift = top.number(config::METASLAB_SHIFT);
    let deflated = |bytes: u64| if deflate { (bytes >> 9).saturating_mul(deflate_ratio(top)) } else { bytes };
    let count = top.number(config::ASIZE) >> shift;
    *raw = raw.saturating_add(deflated(metaslab_bytes(top, shift, count)));
    if count > EMBEDDED_LOG_METASLABS_MIN {
        let one = deflated(metaslab_bytes(top, shift, count) / count);
        *raw = raw.saturating_sub(one);
        *embedded_log = embedded_log.saturating_add(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::nvlist::Nvlist;

    fn top(kind: &str, children: usize, numbers: &[(&str, u64)]) -> VdevConfig {
        let mut all = Nvlist::new();
        for (name, n) in numbers {
            all.put(name, *n);
        }
        let children = vec![VdevConfig::default(); children];
        VdevConfig { kind: kind.into(), all, children, ..VdevConfig::default() }
    }

    #[test]
    fn parity_is_taken_out_as_for_blocks_of_128_kib() {
        assert_eq!(deflate_ratio(&top("mirror", 3, &[("ashift", 9)])), 512);
        // 3 wide, 1 parity: 256 sectors become 384.
        assert_eq!(deflate_ratio(&top("raidz", 3, &[("ashift", 9), ("nparity", 1)])), 341);
        // 5 wide, 2 parity, 4 KiB sectors: 32 + 2 * 11 = 54, a multiple of 3.
        assert_eq!(deflate_ratio(&top("raidz", 5, &[("ashift", 12), ("nparity", 2)])), 303);
        // 4 data, 2 parity: half as much again.
        assert_eq!(deflate_ratio(&top("draid", 8, &[("ashift", 12), ("nparity", 2), ("draid_ndata", 4)])), 341);
    }

    #[test]
    fn half_of_a_tiny_pool_is_kept_back_at_most() {
        let space = UsableSpace { raw_bytes: 100, slop_bytes: 50, ..UsableSpace::default() };
        assert_eq!(space.for_datasets(), 50);
    }
}
