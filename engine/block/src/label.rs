//! The labels of a device: four copies of the configuration and four uberblock rings. This file
//! reads them, `write` writes them.
//!
//! Below: `host::device`, `ondisk::{label, uberblock}`. Above: pool search and import; the pool's
//! writer.
//!
//! Invariants:
//!   * only parts whose embedded checksum is right are returned
//!   * what is wrong with a label is reported, not hidden, because data recovery needs to know

mod write;

pub use write::{
    Which, initialize, put_heartbeat, sync_configs, sync_uberblock, wipe, write_config, write_heartbeat,
    write_uberblock,
};

use crate::zio::check::embedded_trailer;
use host::clock::Stopwatch;
use host::device::Device;
use host::device::latency::Latency;
use ondisk::label::{self, CONFIG_BYTES, CONFIG_OFFSET, LABELS, RING_BYTES, RING_OFFSET};
use ondisk::nvlist::Nvlist;
use ondisk::uberblock::Uberblock;
use transform::checksum::embedded::Kind;

/// An uberblock and the place where it was found.
#[derive(Debug, Clone)]
pub struct FoundUberblock {
    /// Label number, 0 to 3.
    pub label: usize,
    /// Slot in the label's ring.
    pub slot: u64,
    /// The uberblock, with a verified checksum.
    pub uberblock: Uberblock,
}

/// Contents of one label.
#[derive(Debug, Clone)]
pub struct FoundLabel {
    /// Label number, 0 to 3.
    pub index: usize,
    /// Offset on the device, in bytes.
    pub offset: u64,
    /// The configuration, or the reason why it cannot be read.
    pub config: Result<Nvlist, String>,
}

/// Contents of all labels of a device.
#[derive(Debug, Clone)]
pub struct Labels {
    /// The labels that fit on the device, up to four.
    pub labels: Vec<FoundLabel>,
    /// Those whose checksum matches and that can be parsed, by label and slot.
    pub uberblocks: Vec<FoundUberblock>,
}

impl Labels {
    /// The configurations that were readable.
    pub fn configs(&self) -> impl Iterator<Item = &Nvlist> {
        self.labels.iter().filter_map(|l| l.config.as_ref().ok())
    }
}

/// Reads the labels of `device`. Looks for uberblocks only if some configuration is readable or
/// `all` is set, so that a search through many foreign disks stays fast.
pub fn read(device: &dyn Device, all: bool) -> Labels {
    let places: Vec<(usize, u64)> =
        (0..LABELS).filter_map(|index| Some((index, label::label_offset(device.size_bytes(), index)?))).collect();
    let latency = Latency::default();
    let found = |number: usize, config| FoundLabel { index: places[number].0, offset: places[number].1, config };
    // The first one shows whether the device has labels, and whether it is slow.
    let mut labels = on_all(&latency, places.len().min(1), |n| found(n, read_config(device, places[n].1)));
    let rings: Vec<Option<Vec<u8>>> = if all || labels.iter().any(|l| l.config.is_ok()) {
        // A device that is slow then answers all the rest within one round trip.
        let rest = on_all(&latency, places.len(), |number| match number {
            0 => (None, read_ring(device, places[0].1)),
            _ => {
                let (config, ring) = read_config_and_ring(device, places[number].1);
                (Some(found(number, config)), ring)
            }
        });
        let (rest, rings): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
        labels.extend(rest.into_iter().flatten());
        rings
    } else {
        let others = places.len().saturating_sub(1);
        labels.extend(on_all(&latency, others, |n| found(n + 1, read_config(device, places[n + 1].1))));
        match labels.iter().any(|l| l.config.is_ok()) {
            true => on_all(&latency, places.len(), |number| read_ring(device, places[number].1)),
            false => Vec::new(),
        }
    };
    let mut found = Labels { labels, uberblocks: Vec::new() };
    let ashift = found.configs().find_map(|c| c.get_nvlist("vdev_tree")?.get_u64("ashift"));
    for ((index, offset), ring) in places.iter().zip(rings) {
        if let Some(ring) = ring {
            search_ring(*index, *offset, &ring, ashift, &mut found.uberblocks);
        }
    }
    found
}

/// Calls `work` for `count` parts of a device; at the same time if operations wait for the device.
fn on_all<T: Send>(latency: &Latency, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut results = Vec::with_capacity(count);
    while results.len() < count {
        let done = results.len();
        if latency.is_slow() {
            results.extend(host::work::each(count - done, |number| work(done + number)));
        } else {
            let clock = Stopwatch::start();
            results.push(work(done));
            latency.note(clock.ns());
        }
    }
    results
}

/// Reads configuration and ring, which are neighbours, in one operation; separately if that fails.
fn read_config_and_ring(device: &dyn Device, label_offset: u64) -> (Result<Nvlist, String>, Option<Vec<u8>>) {
    let at = label_offset + CONFIG_OFFSET;
    let mut both = vec![0; CONFIG_BYTES + RING_BYTES as usize];
    match device.read_at(at, &mut both) {
        Ok(()) => {
            let ring = both.split_off(CONFIG_BYTES);
            (parse_config(at, &both), Some(ring))
        }
        Err(_) => (read_config(device, label_offset), read_ring(device, label_offset)),
    }
}

fn read_config(device: &dyn Device, label_offset: u64) -> Result<Nvlist, String> {
    let at = label_offset + CONFIG_OFFSET;
    let mut part = vec![0; CONFIG_BYTES];
    device.read_at(at, &mut part).map_err(|e| e.to_string())?;
    parse_config(at, &part)
}

/// Parses the configuration that was read from offset `at`.
fn parse_config(at: u64, part: &[u8]) -> Result<Nvlist, String> {
    if part.iter().all(|b| *b == 0) {
        return Err("empty".into());
    }
    if embedded_trailer(Kind::Label, part, [at, 0, 0, 0], false).is_none() {
        return Err("checksum mismatch".into());
    }
    label::parse_config(part).map(|p| p.list).map_err(|e| e.to_string())
}

/// Reads an uberblock ring.
fn read_ring(device: &dyn Device, label_offset: u64) -> Option<Vec<u8>> {
    let mut ring = vec![0; RING_BYTES as usize];
    device.read_at(label_offset + RING_OFFSET, &mut ring).ok()?;
    Some(ring)
}

/// Adds the valid uberblocks of a ring. Slots are as large as a sector. If the label has no ashift,
/// or a wrong one, all slot sizes are tried.
fn search_ring(index: usize, label_offset: u64, ring: &[u8], ashift: Option<u64>, found: &mut Vec<FoundUberblock>) {
    let start = label_offset + RING_OFFSET;
    let known = ashift.map(|a| label::slot_shift(a.min(64) as u32));
    let before = found.len();
    known.into_iter().for_each(|shift| slots(index, start, ring, shift, found));
    if found.len() == before {
        (label::SLOT_SHIFT_MIN..=label::SLOT_SHIFT_MAX).for_each(|shift| slots(index, start, ring, shift, found));
    }
}

fn slots(index: usize, start: u64, ring: &[u8], shift: u32, found: &mut Vec<FoundUberblock>) {
    for (slot, bytes) in ring.chunks_exact(1 << shift).enumerate() {
        let at = start + ((slot as u64) << shift);
        // Empty slots are common and a SHA-256 is not cheap.
        if bytes.iter().all(|b| *b == 0) || embedded_trailer(Kind::Label, bytes, [at, 0, 0, 0], false).is_none() {
            continue;
        }
        if let Ok(uberblock) = Uberblock::parse(bytes) {
            found.push(FoundUberblock { label: index, slot: slot as u64, uberblock });
        }
    }
}
