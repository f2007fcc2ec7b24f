//! Writes the dirty time logs of devices. Without them, old bytes on a device that comes back would
//! be taken as current.
//!
//! `block::vdev` notes for each leaf the txgs in which some block did not reach it. They become the
//! leaf's DTL (a space map whose offsets are txgs), which is rewritten whenever it grew, before the
//! uberblock of the missed txg. Import reads it (`import::stale`), and OpenZFS resilvers by it.
//!
//! Source: `vdev_dtl_sync` (module/zfs/vdev.c).

use super::maps::with_maps;
use super::spa::Shared;
use super::spa::SyncTx;
use crate::config::VdevConfig;
use crate::space::alloc::MapWriter;
use block::vdev::Leaf;
use errors::Result;
use ondisk::pool_dir::config;
use ondisk::spacemap::{Action, Entry, HISTOGRAM_BUCKETS, Header, Item};
use ondisk::{Endian, Txg};

/// Block size of a DTL (`zfs_vdev_dtl_sm_blksz`).
const BLOCK_BYTES: u32 = 4096;
/// Longest run of a one-word entry. Longer ranges are cut, so that pools without spacemap_v2 can
/// read the DTL too.
const RUN_MAX: u64 = 1 << 15;
/// Limit for the ranges of a DTL. If there are more, the first ones are merged, which only means
/// that more is resilvered than necessary.
const RANGES_MAX: usize = 1024;

/// Writes the DTLs that grew.
pub(crate) fn sync(cx: &SyncTx<'_>) -> Result<()> {
    let tree = cx.store().tree();
    tree.logs().into_iter().filter(|leaf| leaf.take_missed()).try_for_each(|leaf| write(cx, leaf))
}

/// Whether some DTL grew and is not written yet.
pub(crate) fn is_pending(shared: &Shared) -> bool {
    shared.store.tree().logs().iter().any(|leaf| leaf.has_missed_more())
}

fn write(cx: &SyncTx<'_>, leaf: &Leaf) -> Result<()> {
    let known = cx.shared.config.root.lock().find(leaf.guid).map(|c| c.number(config::DTL));
    // A leaf that is not in the configuration has no place for a DTL, and no reader of it.
    let Some(known) = known else { return Ok(()) };
    let with_histogram = cx.feature_enabled("spacemap_histogram");
    with_maps(cx, |maps| {
        let id = match known {
            0 => {
                let id = maps.create_map(BLOCK_BYTES, with_histogram)?;
                set_log(&mut cx.shared.config.root.lock(), leaf.guid, id);
                cx.config_changed();
                id
            }
            id => {
                maps.truncate_map(id)?;
                id
            }
        };
        let ranges = bounded(leaf.stale_ranges());
        let bytes = encode(&ranges, cx.txg());
        maps.write_map(id, 0, &bytes)?;
        // An old DTL keeps the kind of header with which it was created.
        let has_histogram = cx.mos().object(id)?.bonus().len() >= Header::SIZE_BYTES;
        maps.set_header(
            id,
            &Header {
                object: id,
                length_bytes: bytes.len() as u64,
                allocated_bytes: ranges.iter().map(|(first, last)| (last - first + 1) as i64).sum(),
                histogram: has_histogram.then_some([0; HISTOGRAM_BUCKETS]),
            },
        )
    })
}

fn set_log(vdev: &mut VdevConfig, guid: u64, id: u64) {
    if vdev.guid == guid {
        vdev.all.put(config::DTL, id);
    }
    vdev.children.iter_mut().for_each(|child| set_log(child, guid, id));
}

fn bounded(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    if ranges.len() > RANGES_MAX {
        let extra = ranges.len() - RANGES_MAX;
        let first = ranges[0].0;
        ranges.drain(..extra);
        ranges[0].0 = first;
    }
    ranges
}

fn encode(ranges: &[(u64, u64)], txg: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Item::Debug { action: Action::Alloc, pass: 1, txg: Txg(txg) }.write(&mut out, Endian::Little, BLOCK_BYTES as usize);
    for (first, last) in ranges {
        let mut at = *first;
        while at <= *last {
            let run_units = (last - at + 1).min(RUN_MAX);
            let entry = Entry { action: Action::Alloc, offset_units: at, run_units, vdev: None };
            Item::Range(entry).write(&mut out, Endian::Little, BLOCK_BYTES as usize);
            at += run_units;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_are_cut_and_many_become_fewer() {
        let bytes = encode(&[(5, 5), (10, 10 + 2 * RUN_MAX)], 70_000);
        let entries: Vec<_> = ondisk::spacemap::entries(&bytes, Endian::Little).map(|e| e.unwrap()).collect();
        let runs: Vec<_> = entries.iter().map(|e| (e.offset_units, e.run_units)).collect();
        assert_eq!(runs, [(5, 1), (10, RUN_MAX), (10 + RUN_MAX, RUN_MAX), (10 + 2 * RUN_MAX, 1)]);
        let many: Vec<_> = (0..3000).map(|n| (n * 3 + 1, n * 3 + 2)).collect();
        let few = bounded(many.clone());
        assert_eq!((few.len(), few[0].0, few.last()), (RANGES_MAX, 1, many.last()));
    }
}
