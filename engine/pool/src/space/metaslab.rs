//! The space that is allocated in the space maps of all devices, as of the txg in use.
//!
//! Format: include/sys/metaslab_impl.h, include/sys/spa_log_spacemap.h.
//!
//! Invariants:
//!   * an entry of a log space map applies only to metaslabs that were not flushed since that txg

use super::bits::{Bits, Run};
use super::fragmentation::{Fragmentation, metaslab_fragmentation};
use super::{Entry, for_each_entry};
use crate::Pool;
use crate::config::VdevConfig;
use block::vdev::Kind;
use errors::{Error, Place, Result};
use object::zap::Zap;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::spacemap::Header;

/// Limit for the metaslabs of a device: OpenZFS stays below 2^17.
const METASLABS_MAX: u64 = 1 << 20;
/// Limit for the anomalies in the list.
const ANOMALIES_MAX: usize = 1000;

/// Allocated units of one top-level device.
pub struct DeviceSpace {
    /// Number of the device.
    pub vdev: u64,
    /// log2 of the allocation unit in bytes.
    pub shift: u8,
    /// Size of all its metaslabs.
    pub size_bytes: u64,
    /// The allocated units; empty if only totals were loaded.
    pub allocated: Bits,
    /// Sum of the allocated bytes in the space maps' headers, including log space maps.
    pub header_bytes: i64,
    /// Fragmentation of the free space, 0 to 100; `None` if the pool keeps no histograms.
    pub fragmentation_percent: Option<u64>,
}

/// The contents of all space maps.
#[derive(Default)]
pub struct Space {
    /// Devices that have metaslabs.
    pub devices: Vec<DeviceSpace>,
    /// Impossible entries: allocated twice, freed when free, beyond the device.
    pub anomalies: Vec<String>,
    totals_only: bool,
}

impl Space {
    /// Loads all space maps.
    pub fn load(pool: &Pool) -> Result<Self> {
        Self::load_as(pool, false)
    }

    /// Loads only the allocated bytes of each device, from the headers of the space maps and the
    /// logs. Entries of the maps are not read, so that a listing costs the same however fragmented
    /// a pool is.
    pub fn totals(pool: &Pool) -> Result<Self> {
        Self::load_as(pool, true)
    }

    fn load_as(pool: &Pool, totals_only: bool) -> Result<Self> {
        let mut space = Self { totals_only, ..Self::default() };
        let mut unflushed = Vec::new();
        for top in &pool.root_vdev().children {
            if top.number(config::METASLAB_ARRAY) != 0 {
                let place = || format!("{}: {}: metaslabs", pool.name(), top.display_name());
                unflushed.push((top.id, space.load_device(pool, top).at_with(place)?));
            }
        }
        space.replay_logs(pool, &unflushed).at_with(|| format!("{}: log space maps", pool.name()))?;
        Ok(space)
    }

    /// The device with this number.
    pub fn device(&self, vdev: u64) -> Option<&DeviceSpace> {
        self.devices.iter().find(|d| d.vdev == vdev)
    }

    fn anomaly(&mut self, what: String) {
        if self.anomalies.len() < ANOMALIES_MAX {
            self.anomalies.push(what);
        }
    }

    /// Loads the maps of one device. Returns, for each metaslab, the txg from which on log entries
    /// apply.
    fn load_device(&mut self, pool: &Pool, top: &VdevConfig) -> Result<Vec<u64>> {
        let shift = top.number(config::ASHIFT);
        let ms_shift = top.number(config::METASLAB_SHIFT);
        let asize = top.number(config::ASIZE);
        if !(9..=16).contains(&shift) || !(shift..=40).contains(&ms_shift) {
            return Err(Error::corrupt("", format!("ashift {shift} and metaslab shift {ms_shift}")));
        }
        let count = asize >> ms_shift;
        if count > METASLABS_MAX {
            return Err(Error::corrupt("", format!("{count} metaslabs, expected at most {METASLABS_MAX}")));
        }
        let array = pool.mos().object(top.number(config::METASLAB_ARRAY))?.read_words(count)?;
        let size_bytes = count << ms_shift;
        let mut device = DeviceSpace {
            vdev: top.id,
            shift: shift as u8,
            size_bytes,
            allocated: Bits::new(if self.totals_only { 0 } else { size_bytes >> shift }),
            header_bytes: 0,
            fragmentation_percent: None,
        };
        let mut fragmentation = Fragmentation::default();
        let has_histograms = pool.features().count("com.delphix:spacemap_histogram").is_some();
        let ms_units = 1u64 << (ms_shift - shift);
        let align_units = match pool.store().tree().tops.get(top.id as usize).map(|v| &v.kind) {
            Some(Kind::Draid(g)) => (g.alignment_bytes() >> shift).max(1),
            _ => 1,
        };
        for (ms, id) in array.into_iter().enumerate() {
            if id == 0 {
                // Never used: all of it is free, in one segment.
                fragmentation.note(has_histograms.then_some(0), ms_units);
                continue;
            }
            // dRAID moves the start of a metaslab up to the start of a row of a group.
            let base = (ms as u64 * ms_units).next_multiple_of(align_units);
            let object = pool.mos().object(id)?;
            let header = if self.totals_only {
                Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?
            } else {
                for_each_entry(&object, |e| {
                    if e.offset.saturating_add(e.run) > ms_units {
                        let what = format!(
                            "metaslab {ms} of {}: entry {:#x}+{:#x} is beyond its end",
                            top.display_name(),
                            e.offset,
                            e.run
                        );
                        self.anomaly(what);
                        return;
                    }
                    self.apply(&mut device, Run { start: base + e.offset, len: e.run }, e.is_alloc);
                })?
            };
            device.header_bytes = device.header_bytes.saturating_add(header.allocated_bytes);
            let free = ms_units.saturating_sub(header.allocated_bytes.max(0) as u64 >> shift);
            let percent = header.histogram.as_ref().map(|h| metaslab_fragmentation(h, shift as u8));
            fragmentation.note(percent, free);
        }
        device.fragmentation_percent = fragmentation.percent();
        if align_units > 1 {
            device.size_bytes = (0..count).map(|ms| usable_units(ms * ms_units, ms_units, align_units) << shift).sum();
        }
        self.devices.push(device);
        unflushed_txgs(pool, top.number(config::VDEV_TOP_ZAP), count)
    }

    fn apply(&mut self, device: &mut DeviceSpace, run: Run, is_alloc: bool) {
        if self.totals_only {
            return;
        }
        let already = device.allocated.set(run, is_alloc);
        if already > 0 {
            let what = if is_alloc { "allocated twice" } else { "freed when free" };
            let (at, len) = (run.start << device.shift, run.len << device.shift);
            self.anomaly(format!("device {}: {at:#x}+{len:#x} is {what}", device.vdev));
        }
    }

    fn replay_logs(&mut self, pool: &Pool, unflushed: &[(u64, Vec<u64>)]) -> Result<()> {
        for (txg, id) in logs(pool)? {
            for_each_entry(&pool.mos().object(id)?, |e| self.replay(pool, unflushed, txg, e))?;
        }
        Ok(())
    }

    /// Applies an entry of a log space map. Its units are 512 bytes of the whole device.
    fn replay(&mut self, pool: &Pool, unflushed: &[(u64, Vec<u64>)], txg: u64, e: Entry) {
        let vdev = u64::from(e.vdev.unwrap_or(u32::MAX));
        let Some(at) = self.devices.iter().position(|d| d.vdev == vdev) else {
            // The device was removed since: its metaslabs no longer exist.
            return;
        };
        let Some(top) = pool.root_vdev().children.iter().find(|t| t.id == vdev) else { return };
        let (offset, size) = (e.offset.saturating_mul(512), e.run.saturating_mul(512));
        let ms = offset >> top.number(config::METASLAB_SHIFT).min(63);
        let since = unflushed.iter().find(|(v, _)| *v == vdev).and_then(|(_, txgs)| txgs.get(ms as usize).copied());
        match since {
            None => self.anomaly(format!("log of txg {txg}: device {vdev} has no metaslab {ms}")),
            Some(since) if txg >= since => {
                let mut device = self.devices.swap_remove(at);
                let run = Run { start: offset >> device.shift, len: size >> device.shift };
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                device.header_bytes = device.header_bytes.saturating_add(if e.is_alloc { size } else { -size });
                self.apply(&mut device, run, e.is_alloc);
                self.devices.push(device);
            }
            Some(_) => {}
        }
    }
}

/// The txg from which on log entries apply, for each metaslab of the device with this ZAP.
pub(super) fn unflushed_txgs(pool: &Pool, top_zap: u64, count: u64) -> Result<Vec<u64>> {
    if top_zap == 0 {
        return Ok(vec![0; count as usize]);
    }
    match Zap::open(pool.mos().object(top_zap)?)?.lookup_u64(vdev_top::MS_UNFLUSHED_PHYS_TXGS)? {
        Some(id) if id != 0 => pool.mos().object(id)?.read_words(count),
        _ => Ok(vec![0; count as usize]),
    }
}

/// Txg and object number of the log space maps, oldest first.
pub(super) fn logs(pool: &Pool) -> Result<Vec<(u64, u64)>> {
    let Some(id) = pool.directory().lookup_u64(directory::LOG_SPACEMAP_ZAP)?.filter(|id| *id != 0) else {
        return Ok(Vec::new());
    };
    let mut logs: Vec<(u64, u64)> = Vec::new();
    for e in Zap::open(pool.mos().object(id)?)?.entries()? {
        // zap_add_int: the name is the number in hexadecimal.
        let txg = std::str::from_utf8(&e.name).ok().and_then(|n| u64::from_str_radix(n, 16).ok());
        let (Some(txg), Some(id)) = (txg, e.value.as_u64()) else {
            let name = String::from_utf8_lossy(&e.name).into_owned();
            return Err(Error::corrupt("", format!("entry {name:?}, expected a txg in hexadecimal and an object")));
        };
        logs.push((txg, id));
    }
    logs.sort_unstable();
    Ok(logs)
}

/// Units of a dRAID metaslab between the first and the last row that it contains completely.
fn usable_units(start: u64, len: u64, align: u64) -> u64 {
    let skipped = start.next_multiple_of(align) - start;
    len.saturating_sub(skipped) / align * align
}
