//! The feed thread: writes blocks that the in-memory cache evicted to cache devices.

use super::L2;
use super::device::{CacheDevice, Stored};
use super::index::Address;
use super::rebuild::{Rebuilt, rebuild};
use crate::arc::Evicted;
use crate::store::Store;
use crate::zio;
use ondisk::Compression;
use ondisk::l2arc::{LogEntry, Nature};
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use transform::compress::{Algorithm as Packer, compress, zstd};

/// Interval at which the thread looks for blocks to write; it writes at most `BATCH_BYTES` at a
/// time. OpenZFS looks every second (`l2arc_feed_secs`) along the tails of its lists. Here, evicted
/// blocks wait in memory, of which there is little.
const TURN: Duration = Duration::from_millis(50);
/// Interval in a pool without cache devices: how soon a new one is used.
const IDLE: Duration = Duration::from_millis(500);
const BATCH_BYTES: u64 = 16 << 20;

impl L2 {
    /// Starts the feed thread: it rebuilds the index from the devices and, if `feeds`, writes
    /// evicted blocks to them.
    pub(crate) fn start(self: &Arc<Self>, store: &Arc<Store>, pool_guid: u64, feeds: bool) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            return Ok(());
        }
        *self.stop.lock() = false;
        let (l2, store) = (self.clone(), Arc::downgrade(store));
        let work = move || run(&l2, &store, pool_guid, feeds);
        *thread = Some(host::threads::spawn("l2arc", work)?);
        Ok(())
    }
}

/// Rebuilds the index from the devices, then feeds them until stopped.
fn run(l2: &Arc<L2>, store: &Weak<Store>, pool_guid: u64, feeds: bool) {
    let mut next = 0;
    loop {
        let Some(store) = store.upgrade() else { return };
        let known: Vec<u32> = l2.devices.read().iter().map(|d| d.number).collect();
        l2.follow(&store.tree().caches, pool_guid);
        let devices = l2.devices.read().clone();
        for device in devices.iter().filter(|d| !known.contains(&d.number)) {
            found(l2, device, feeds);
        }
        if feeds {
            store.cache().collect_evicted(!devices.is_empty());
            let more = feed(l2, &store, &devices, &mut next);
            if more {
                continue;
            }
        }
        drop(store);
        if l2.pause(if devices.is_empty() { IDLE } else { TURN }) {
            return;
        }
    }
}

fn found(l2: &L2, device: &CacheDevice, feeds: bool) {
    let path = &device.leaf().path;
    let feeds = feeds && device.leaf().device().is_some_and(|d| d.is_writable());
    device.ring.lock().failed |= !feeds;
    match rebuild(&l2.index, device, &|| l2.is_stopping()) {
        Rebuilt::All => {
            l2.index.counts.rebuilds.add(1);
            tracing::info!(device = path, blocks = device.ring.lock().entries.len(), "the cache device is warm");
        }
        Rebuilt::Part => {
            l2.index.counts.rebuild_failures.add(1);
            tracing::warn!(device = path, "only part of what the cache device holds was found again");
        }
        Rebuilt::Nothing => {
            l2.index.counts.rebuild_failures.add(1);
            tracing::info!(device = path, "the cache device holds nothing of this pool");
            if feeds {
                let mut ring = device.ring.lock();
                if let Err(error) = device.write_header(&ring) {
                    tracing::warn!(device = path, %error, "the cache device cannot be written, and is not used");
                    ring.failed = true;
                }
            }
        }
    }
}

/// Writes a batch to the next device in turn. Returns whether there is more to write.
fn feed(l2: &L2, store: &Store, devices: &[Arc<CacheDevice>], next: &mut usize) -> bool {
    let usable: Vec<&Arc<CacheDevice>> = devices.iter().filter(|d| !d.ring.lock().failed).collect();
    let Some(device) = usable.get(*next % usable.len().max(1)) else {
        // No device accepts writes.
        drop(store.cache().take_evicted(u64::MAX));
        return false;
    };
    *next += 1;
    l2.index.counts.feeds.add(1);
    let batch = BATCH_BYTES.min(device.batch_bytes_max());
    let (evicted, refused) = store.cache().take_evicted(batch);
    l2.index.counts.refused.add(refused);
    if evicted.is_empty() || l2.is_full(store.cache().counters().cap_bytes) {
        return false;
    }
    let mut blocks: Vec<Stored> = Vec::with_capacity(evicted.len());
    let mut taken = HashSet::new();
    for one in &evicted {
        let Some(address) = Address::of(&one.bp) else { continue };
        if l2.index.knows(&address) || !taken.insert(address) {
            continue;
        }
        let Some(bytes) = stored(store, one) else { continue };
        let bp = &one.bp;
        let Ok(compression) = bp.compression() else { continue };
        let sizes = (bp.lsize_bytes(), bytes.len() as u64);
        let nature =
            Nature { is_metadata: one.is_metadata, is_protected: bp.uses_crypt(), is_frequent: one.is_frequent };
        let entry = LogEntry::pack(bp.dva(0), bp.physical_birth(), sizes, compression, nature, 0);
        blocks.push(Stored { address, bytes, entry });
    }
    if blocks.is_empty() {
        return true;
    }
    if let Err(error) = device.write(&l2.index, blocks) {
        l2.index.counts.write_errors.add(1);
        tracing::warn!(device = device.leaf().path, %error, "the cache device no longer accepts writes");
    }
    true
}

/// The block's bytes as stored in the pool: recompressed, if that gives the same bytes according to
/// the checksum, and otherwise read.
fn stored(store: &Store, one: &Evicted) -> Option<Vec<u8>> {
    let bp = &one.bp;
    let psize = usize::try_from(bp.psize_bytes()).ok()?;
    if !bp.uses_crypt() {
        let packed = match bp.compression().ok()? {
            Compression::Off => Some(one.block.data.to_vec()),
            Compression::Lz4 => compress(Packer::Lz4, zstd::Level::DEFAULT, &one.block.data, psize),
            _ => None,
        };
        if let Some(mut packed) = packed.filter(|packed| packed.len() <= psize) {
            packed.resize(psize, 0);
            if zio::matches(store, bp, &packed) {
                return Some(packed);
            }
        }
    }
    let bytes = zio::stored_in_pool(store, bp, &std::cell::Cell::new(false)).ok()?;
    (bytes.len() == psize).then_some(bytes)
}
