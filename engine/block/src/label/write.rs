//! Writes the labels of devices, in an order that survives a power cut at any moment.
//!
//! ```text
//!   blocks, flush | even labels, flush | uberblock into all four rings, flush | odd labels, flush
//! ```
//! Until the uberblock is written, the odd labels match the old uberblocks. Afterwards, the even
//! labels match the new one. If no configuration changed, only the uberblock is written. Above:
//! `pool::writer`, which calls the steps in turn.
//!
//! Invariants:
//!   * each step returns after its flush, so that the next may begin
//!   * a label's checksum includes its offset, so that a copy elsewhere is not a valid label
//!
//! ZFS names: vdev_config_sync, vdev_label_init, zpool_clear_label.

use crate::vdev::{Failure, Leaf, Tree, Vdev};
use errors::{Error, Result};
use host::device::Device;
use host::device::latency::Latency;
use ondisk::label::{
    self, BOOTENV_BYTES, BOOTENV_OFFSET, CONFIG_BYTES, CONFIG_OFFSET, LABEL_BYTES, LABELS, RING_BYTES,
};
use ondisk::label::{RING_OFFSET, START_BYTES, Trailer};
use ondisk::nvlist::Nvlist;
use ondisk::uberblock::Uberblock;
use ondisk::{Endian, l2arc};
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use transform::checksum::Order;
use transform::checksum::embedded::{self, Kind};

/// Selects among a device's four labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Labels 0 and 2: written before the uberblock.
    Even,
    /// Labels 1 and 3: written after the uberblock.
    Odd,
    /// All labels, for devices without labels worth keeping.
    All,
}

impl Which {
    fn includes(self, index: usize) -> bool {
        match self {
            Self::Even => index.is_multiple_of(2),
            Self::Odd => !index.is_multiple_of(2),
            Self::All => true,
        }
    }
}

/// Writes `config` into labels of a device. Fails if no label could be written, or if `config` is
/// too long for a label.
pub fn write_config(device: &dyn Device, which: Which, config: &Nvlist) -> io::Result<()> {
    put_config(device, &Latency::default(), which, config)
}

/// `latency`: of writes to the device.
fn put_config(device: &dyn Device, latency: &Latency, which: Which, config: &Nvlist) -> io::Result<()> {
    let part = config_part(config)?;
    each(device, latency, which, |offset| {
        let (mut part, at) = (part.clone(), offset + CONFIG_OFFSET);
        seal(&mut part, at)?;
        device.write_at(at, &part)
    })
}

/// The configuration as in a label, without its checksum.
fn config_part(config: &Nvlist) -> io::Result<Vec<u8>> {
    let mut part = config.to_xdr(Endian::Little);
    let room = CONFIG_BYTES - Trailer::SIZE_BYTES;
    if part.len() > room {
        let what = format!("the configuration has {} bytes, and a label has room for {room}", part.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    part.resize(CONFIG_BYTES, 0);
    Ok(part)
}

/// Writes an uberblock into its slot of all four rings; `ashift` determines the size of the slots.
/// Fails if no ring could be written.
pub fn write_uberblock(device: &dyn Device, ashift: u8, uberblock: &Uberblock, multihost: bool) -> io::Result<()> {
    put_uberblock(device, &Latency::default(), ashift, uberblock, multihost)
}

/// `latency`: of writes to the device.
fn put_uberblock(
    device: &dyn Device,
    latency: &Latency,
    ashift: u8,
    uberblock: &Uberblock,
    multihost: bool,
) -> io::Result<()> {
    let ashift = ashift.into();
    let at = label::slot_offset(ashift, label::slot_of_txg(ashift, uberblock.txg.0, multihost));
    let mut slot = uberblock.to_bytes().to_vec();
    slot.resize(1 << label::slot_shift(ashift), 0);
    each(device, latency, Which::All, |offset| {
        let (mut slot, at) = (slot.clone(), offset + at);
        seal(&mut slot, at)?;
        device.write_at(at, &slot)
    })
}

/// Initializes the labels of a device that joins a pool: the configuration, an empty uberblock ring
/// and an empty boot environment. The first 8 KiB of each label, which may hold a partition table,
/// are kept. Fails if any write, the read-back or the flush fails.
pub fn initialize(device: &dyn Device, config: &Nvlist) -> io::Result<()> {
    const PARTS_BYTES: usize = BOOTENV_BYTES + CONFIG_BYTES;
    const _: () = assert!(BOOTENV_OFFSET + BOOTENV_BYTES as u64 == CONFIG_OFFSET);
    let (size, latency) = (device.size_bytes(), Latency::default());
    let part = config_part(config)?;
    let offset_of = |index| label::label_offset(size, index).ok_or_else(too_small);
    let on_labels = |work: &(dyn Fn(u64) -> io::Result<()> + Sync)| {
        super::on_all(&latency, LABELS, |index| work(offset_of(index)?)).into_iter().collect::<io::Result<()>>()
    };
    // The rings are cleared first: an old uberblock next to a new configuration would pass for the
    // pool's.
    on_labels(&|offset| device.write_at(offset + RING_OFFSET, &vec![0; RING_BYTES as usize]))?;
    on_labels(&|offset| {
        let mut parts = vec![0; PARTS_BYTES];
        parts[BOOTENV_BYTES..].copy_from_slice(&part);
        let (boot, config) = parts.split_at_mut(BOOTENV_BYTES);
        seal(boot, offset + BOOTENV_OFFSET)?;
        seal(config, offset + CONFIG_OFFSET)?;
        device.write_at(offset + BOOTENV_OFFSET, &parts)
    })?;
    on_labels(&|offset| match super::read_config(device, offset) {
        Ok(_) => Ok(()),
        Err(what) => Err(io::Error::other(format!("the label at byte {offset} reads back as {what}"))),
    })?;
    device.flush()
}

/// Clears valid labels, and nothing where there is none: overwrites configurations and rings with
/// zeros, and the header of a cache device too. Returns how many were cleared.
pub fn wipe(device: &dyn Device) -> io::Result<usize> {
    const POOL_STATE_L2CACHE: u64 = 4;
    let found = super::read(device, false);
    let is_cache = found.configs().any(|config| config.get_u64("state") == Some(POOL_STATE_L2CACHE));
    let mut wiped = 0;
    for l in found.labels.iter().filter(|l| l.config.as_ref().is_ok_and(|c| c.get_u64("guid").is_some())) {
        device.write_at(l.offset + CONFIG_OFFSET, &vec![0; (LABEL_BYTES - CONFIG_OFFSET) as usize])?;
        wiped += 1;
    }
    if is_cache {
        device.write_at(START_BYTES, &[0; l2arc::Header::SIZE_BYTES])?;
    }
    device.flush()?;
    Ok(wiped)
}

/// Writes configurations to all leaves for which `config` returns one, and flushes. Each top-level
/// vdev for which `config` returned one must have been written on at least one leaf, unless
/// `may_fail` returns true for it, as for log devices.
pub fn sync_configs(
    tree: &Tree,
    which: Which,
    mut config: impl FnMut(&Vdev, &Leaf) -> Option<Nvlist>,
    may_fail: impl Fn(&Vdev) -> bool,
) -> Result<()> {
    for top in &tree.tops {
        let mut jobs = Vec::new();
        for leaf in top.leaves() {
            if let Some(list) = config(top, leaf) {
                jobs.push((leaf, list));
            }
        }
        if jobs.is_empty() {
            continue;
        }
        let results = on_leaves(&jobs, |leaf, list| {
            let device = writable(leaf)?;
            put_config(device.as_ref(), leaf.write_latency(), which, list)?;
            leaf.flush_labels()
        });
        one_good(&top.name, jobs.iter().map(|(leaf, _)| *leaf), results, || may_fail(top))?;
    }
    Ok(())
}

/// Writes the uberblock to all leaves of the top-level vdevs `tops`, and flushes. Succeeds if at
/// least one leaf was written.
pub fn sync_uberblock(tree: &Tree, tops: &[u32], uberblock: &Uberblock, multihost: bool) -> Result<()> {
    let jobs: Vec<(&Leaf, u8)> = tops
        .iter()
        .filter_map(|number| tree.tops.get(*number as usize))
        .flat_map(|top| top.leaves().into_iter().map(move |leaf| (leaf, top.ashift)))
        .collect();
    let results = on_leaves(&jobs, |leaf, ashift| {
        let device = writable(leaf)?;
        put_uberblock(device.as_ref(), leaf.write_latency(), *ashift, uberblock, multihost)?;
        leaf.flush_labels()
    });
    one_good("uberblock", jobs.iter().map(|(leaf, _)| *leaf), results, || false)
}

/// Writes a heartbeat: `uberblock`, into the slot of label `index` (0 to 3) that txgs leave free
/// while multihost is on. `ashift`: that of the top-level vdev. Does not flush: other hosts see
/// what is in the cache of the device.
pub fn write_heartbeat(leaf: &Leaf, ashift: u8, index: usize, uberblock: &Uberblock) -> io::Result<()> {
    leaf.check_fence()?;
    put_heartbeat(writable(leaf)?.as_ref(), ashift, index, uberblock)
}

/// As [`write_heartbeat`], on a device whose pool is not open.
pub fn put_heartbeat(device: &dyn Device, ashift: u8, index: usize, uberblock: &Uberblock) -> io::Result<()> {
    let shift = u32::from(ashift);
    let label = label::label_offset(device.size_bytes(), index).ok_or_else(too_small)?;
    let at = label + label::slot_offset(shift, label::slot_count(shift) - label::MMP_SLOTS);
    let mut slot = uberblock.to_bytes().to_vec();
    slot.resize(1 << label::slot_shift(shift), 0);
    seal(&mut slot, at)?;
    device.write_at(at, &slot)
}

/// Runs `job` for all leaves in parallel, since each one waits for its device.
fn on_leaves<T: Sync>(
    jobs: &[(&Leaf, T)],
    job: impl Fn(&Leaf, &T) -> io::Result<()> + Sync,
) -> Vec<Option<io::Result<()>>> {
    let run = |(leaf, what): &(&Leaf, T)| {
        // A device that is known to be missing is no error.
        if !leaf.is_open() {
            return None;
        }
        if let Err(error) = leaf.check_fence() {
            return Some(Err(error));
        }
        let result = job(leaf, what);
        if result.is_err() {
            leaf.count_write_error();
        }
        Some(result)
    };
    if let [one] = jobs {
        return vec![run(one)];
    }
    host::threads::scope(|scope| {
        let running: Vec<_> = jobs.iter().map(|job| scope.spawn(|| run(job))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn one_good<'a>(
    place: &str,
    leaves: impl Iterator<Item = &'a Leaf>,
    results: Vec<Option<io::Result<()>>>,
    may_fail: impl Fn() -> bool,
) -> Result<()> {
    if results.iter().any(|result| matches!(result, Some(Ok(())))) || may_fail() {
        return Ok(());
    }
    let mut failure = Failure::default();
    for (leaf, result) in leaves.zip(results) {
        match result {
            Some(Err(e)) => failure.io.push((leaf.path.clone(), Arc::new(e))),
            _ => failure.missing.push(leaf.path.clone()),
        }
    }
    match failure.into_write_error(place.to_owned()) {
        Error::Missing { place, what } if what.is_empty() => Err(Error::missing(place, "all devices")),
        e => Err(e),
    }
}

/// The device of a leaf, unless an earlier flush failed on it.
fn writable(leaf: &Leaf) -> io::Result<Arc<dyn Device>> {
    if leaf.has_failed() {
        return Err(io::Error::other("an earlier flush failed"));
    }
    leaf.device().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Writes to each selected label. Succeeds if at least one write does.
fn each(
    device: &dyn Device,
    latency: &Latency,
    which: Which,
    write: impl Fn(u64) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let mut good = false;
    let mut error = None;
    let labels: Vec<usize> = (0..LABELS).filter(|index| which.includes(*index)).collect();
    let results = super::on_all(latency, labels.len(), |number| {
        label::label_offset(device.size_bytes(), labels[number]).ok_or_else(too_small).and_then(&write)
    });
    for result in results {
        match result {
            Ok(()) => good = true,
            Err(e) => error = Some(e),
        }
    }
    match error {
        Some(e) if !good => Err(e),
        _ => Ok(()),
    }
}

/// Seals a part of a label with the checksum for its offset on the device, `at`.
fn seal(part: &mut [u8], at: u64) -> io::Result<()> {
    embedded::seal(Kind::Label, part, [at, 0, 0, 0], Order::Little, false).map_err(io::Error::other)
}

fn too_small() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the device is too small for labels")
}
