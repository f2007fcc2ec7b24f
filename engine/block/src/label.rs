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

pub use write::{Which, initialize, sync_configs, sync_uberblock, wipe, write_config, write_uberblock};

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
    /// All valid uberblocks.
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
    let mut found = Labels { labels: Vec::new(), uberblocks: Vec::new() };
    let places: Vec<(usize, u64)> =
        (0..LABELS).filter_map(|index| Some((index, label::label_offset(device.size_bytes(), index)?))).collect();
    found.labels = on_all(places.len(), |number| {
        let (index, offset) = places[number];
        FoundLabel { index, offset, config: read_config(device, offset) }
    });
    let ashift = found.configs().find_map(|c| c.get_nvlist("vdev_tree")?.get_u64("ashift"));
    if all || found.configs().next().is_some() {
        let rings = on_all(found.labels.len(), |number| {
            let mut uberblocks = Vec::new();
            read_ring(device, found.labels[number].index, found.labels[number].offset, ashift, &mut uberblocks);
            uberblocks
        });
        found.uberblocks = rings.into_iter().flatten().collect();
    }
    found
}

/// Calls `work` for the first of `count` labels of a device, and then for the others; at the same
/// time if the first one had to wait for the device.
fn on_all<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if count == 0 {
        return Vec::new();
    }
    let (latency, clock) = (Latency::default(), Stopwatch::start());
    let mut results = vec![work(0)];
    latency.note(clock.ns());
    match latency.is_slow() {
        true => results.extend(host::work::each(count - 1, |number| work(number + 1))),
        false => results.extend((1..count).map(work)),
    }
    results
}

fn read_config(device: &dyn Device, label_offset: u64) -> Result<Nvlist, String> {
    let at = label_offset + CONFIG_OFFSET;
    let mut part = vec![0; CONFIG_BYTES];
    device.read_at(at, &mut part).map_err(|e| e.to_string())?;
    if part.iter().all(|b| *b == 0) {
        return Err("empty".into());
    }
    if embedded_trailer(Kind::Label, &part, [at, 0, 0, 0], false).is_none() {
        return Err("checksum mismatch".into());
    }
    label::parse_config(&part).map(|p| p.list).map_err(|e| e.to_string())
}

/// Uberblock slots are as large as a sector. If the label has no ashift, or a wrong one, all slot
/// sizes are tried.
fn read_ring(
    device: &dyn Device,
    index: usize,
    label_offset: u64,
    ashift: Option<u64>,
    found: &mut Vec<FoundUberblock>,
) {
    let start = label_offset + RING_OFFSET;
    let mut ring = vec![0; RING_BYTES as usize];
    if device.read_at(start, &mut ring).is_err() {
        return;
    }
    let known = ashift.map(|a| label::slot_shift(a.min(64) as u32));
    let before = found.len();
    known.into_iter().for_each(|shift| slots(index, start, &ring, shift, found));
    if found.len() == before {
        (label::SLOT_SHIFT_MIN..=label::SLOT_SHIFT_MAX).for_each(|shift| slots(index, start, &ring, shift, found));
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
