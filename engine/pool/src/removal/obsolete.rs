//! Obsolete parts of a mapping: recorded in a space map of the device, and omitted when the mapping
//! is condensed.
//!
//! OpenZFS condenses over many txgs and records its progress. Here a mapping is rewritten within
//! one txg. If OpenZFS was interrupted while condensing, condensing starts again.
//!
//! Facts: vdev_indirect_sync_obsolete, vdev_indirect_should_condense,
//! spa_condense_indirect_complete_sync (module/zfs/vdev_indirect.c).
//!
//! Invariants:
//!   * counts and space map together give the bytes of each range that are in use, as the feature
//!     `obsolete_counts` requires

use super::mapping::NewRange;
use super::objects::{append, create_object, destroy_object};
use super::state::OBSOLETE_COUNTS;
use crate::space::alloc::MapWriter;
use crate::space::entries::{Spot, encode_runs};
use crate::space::for_each_entry;
use crate::writer::maps::with_maps;
use crate::writer::spa::SyncTx;
use crate::writer::vdevs::top_zap;
use block::vdev::Kind;
use block::vdev::indirect::Mapping;
use errors::{Error, Place, Result};
use ondisk::Dva;
use ondisk::indirect::MappingHeader;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::removal::Condensing;
use ondisk::spacemap::{Action, Header};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Block size of such a space map. As OpenZFS (zfs_vdev_standard_sm_blksz).
const BLOCK_BYTES: u32 = 128 << 10;
/// A mapping is condensed if at least so many percent of it are obsolete. As OpenZFS.
const CONDENSE_PERCENT: u64 = 25;

/// Records the new obsolete ranges.
pub(super) fn sync(cx: &SyncTx<'_>, all: &mut BTreeMap<u32, Vec<(u64, u64)>>) -> Result<()> {
    for (vdev, mut runs) in std::mem::take(all) {
        if !cx.feature_enabled(OBSOLETE_COUNTS) {
            continue;
        }
        runs.sort_unstable();
        // Merge neighbouring ranges.
        runs.dedup_by(|next, run| {
            let joins = run.0 + run.1 == next.0;
            if joins {
                run.1 += next.1;
            }
            joins
        });
        write(cx, vdev, &runs)?;
    }
    Ok(())
}

fn write(cx: &SyncTx<'_>, vdev: u32, runs: &[(u64, u64)]) -> Result<()> {
    let zap = top_zap(cx, vdev.into())?;
    let id = match zap.lookup_u64(vdev_top::INDIRECT_OBSOLETE_SM)?.filter(|id| *id != 0) {
        Some(id) => id,
        None => {
            let id = with_maps(cx, |maps| maps.create_map(BLOCK_BYTES, cx.feature_enabled("spacemap_histogram")))?;
            zap.insert_u64(cx.tx(), vdev_top::INDIRECT_OBSOLETE_SM, id)?;
            cx.feature_increment(OBSOLETE_COUNTS)?;
            id
        }
    };
    let object = cx.mos().object(id)?;
    let mut header = Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
    let spot = Spot {
        txg: cx.txg(),
        pass: 1,
        length_bytes: header.length_bytes,
        block_bytes: object.block_bytes(),
        two_words: cx.feature_active("spacemap_v2"),
        start_units: 0,
    };
    // The unit of this map is the byte.
    let bytes = encode_runs(runs.iter().copied(), Action::Alloc, &spot);
    object.write_at(cx.tx(), header.length_bytes, &bytes)?;
    header.object = id;
    header.length_bytes += bytes.len() as u64;
    header.allocated_bytes += runs.iter().map(|(_, len)| *len as i64).sum::<i64>();
    with_maps(cx, |maps| maps.set_header(id, &header))
}

/// Destroys a device's space map of obsolete ranges, if it has one.
pub(super) fn destroy(cx: &SyncTx<'_>, vdev: u32) -> Result<()> {
    let zap = top_zap(cx, vdev.into())?;
    if let Some(id) = zap.lookup_u64(vdev_top::INDIRECT_OBSOLETE_SM)?.filter(|id| *id != 0) {
        zap.remove(cx.tx(), vdev_top::INDIRECT_OBSOLETE_SM)?;
        destroy_map(cx, id)?;
    }
    Ok(())
}

fn destroy_map(cx: &SyncTx<'_>, id: u64) -> Result<()> {
    with_maps(cx, |maps| maps.free_map(id))?;
    cx.feature_decrement(OBSOLETE_COUNTS)
}

/// Rewrites one mapping without its obsolete ranges, if that is worth it or OpenZFS has begun to.
pub(super) fn condense(cx: &SyncTx<'_>) -> Result<()> {
    let tree = cx.store().tree();
    let removed = |top: &&Arc<block::vdev::Vdev>| matches!(top.kind, Kind::Indirect(_));
    if !tree.tops.iter().any(|top| removed(&top)) || !cx.feature_active(OBSOLETE_COUNTS) {
        return Ok(());
    }
    let begun = match cx.directory()?.lookup(directory::CONDENSING_INDIRECT)? {
        Some(value) => Some(Condensing::from_words(&value.ints)?),
        None => None,
    };
    for top in tree.tops.iter().filter(removed) {
        let begun = begun.filter(|c| c.vdev == top.id);
        let vdev = top.id as u32;
        let Kind::Indirect(slot) = &top.kind else { continue };
        let mapping = slot.read().clone().unwrap_or_default();
        if begun.is_some() || is_worth_it(cx, vdev, &mapping)? {
            let condensed = cx.all_or_nothing(|| rewrite(cx, vdev, &mapping, begun))?;
            *slot.write() = Some(Arc::new(condensed));
            return Ok(());
        }
    }
    Ok(())
}

fn is_worth_it(cx: &SyncTx<'_>, vdev: u32, mapping: &Mapping) -> Result<bool> {
    let bytes = mapping.entries().len() as u64 * ondisk::indirect::MappingEntry::SIZE_BYTES as u64;
    if bytes <= cx.shared.background.evacuation.condense_bytes_min.load(Ordering::SeqCst) {
        return Ok(false);
    }
    let Some(id) = top_zap(cx, vdev.into())?.lookup_u64(vdev_top::INDIRECT_OBSOLETE_SM)?.filter(|id| *id != 0) else {
        return Ok(false);
    };
    let map = cx.mos().object(id)?;
    let obsolete = Header::parse(map.bonus(), map.endian())?.allocated_bytes.max(0) as u64;
    let mapped: u64 = mapping.entries().iter().map(|e| e.size_bytes).sum();
    Ok(obsolete.saturating_mul(100) / mapped.max(1) >= CONDENSE_PERCENT)
}

/// Writes the mapping without completely obsolete ranges to a new object, which replaces the old
/// one.
fn rewrite(cx: &SyncTx<'_>, vdev: u32, mapping: &Mapping, begun: Option<Condensing>) -> Result<Mapping> {
    let old = {
        let root = cx.shared.config.root.lock();
        let top = root.children.iter().find(|top| top.id == u64::from(vdev));
        top.map_or(0, |top| top.number(config::INDIRECT_OBJECT))
    };
    let object = cx.mos().object(old)?;
    let before = MappingHeader::parse(object.bonus(), object.endian())?;
    let mut counts = counts(cx, &before, mapping)?;
    if let Some(begun) = begun {
        add(cx, begun.previous_obsolete_space_map, mapping, &mut counts)?;
        destroy_map(cx, begun.previous_obsolete_space_map)?;
        let half = cx.mos().object(begun.next_mapping)?;
        let header = MappingHeader::parse(half.bonus(), half.endian())?;
        destroy_object(cx, begun.next_mapping, &header)?;
        cx.directory()?.remove(cx.tx(), directory::CONDENSING_INDIRECT)?;
    }
    if let Some(id) = top_zap(cx, vdev.into())?.lookup_u64(vdev_top::INDIRECT_OBSOLETE_SM)?.filter(|id| *id != 0) {
        add(cx, id, mapping, &mut counts)?;
        destroy(cx, vdev)?;
    }
    let left = mapping.entries().iter().zip(&counts).filter(|(e, count)| **count < e.size_bytes);
    let ranges: Vec<NewRange> = left
        .map(|(e, count)| NewRange {
            source_bytes: e.source_bytes,
            target: Dva { vdev: e.vdev, offset_bytes: e.offset_bytes, asize_bytes: e.size_bytes, is_gang: false },
            obsolete_bytes: *count as u32,
        })
        .collect();
    let (new, mut header) = create_object(cx)?;
    append(cx, new, &mut header, &ranges)?;
    destroy_object(cx, old, &before)?;
    if let Some(top) = cx.shared.config.root.lock().children.get_mut(vdev as usize) {
        top.all.put(config::INDIRECT_OBJECT, new);
    }
    cx.config_changed();
    let kept = mapping.entries().iter().zip(&counts).filter(|(e, count)| **count < e.size_bytes);
    Mapping::new(kept.map(|(e, _)| *e).collect()).map_err(|what| Error::invalid(cx.store().name(), what))
}

/// Obsolete bytes of each range when the mapping was written.
fn counts(cx: &SyncTx<'_>, header: &MappingHeader, mapping: &Mapping) -> Result<Vec<u64>> {
    let count = mapping.entries().len();
    let Some(id) = header.counts_object.filter(|id| *id != 0) else { return Ok(vec![0; count]) };
    let object = cx.mos().object(id)?;
    let bytes = object.read_vec(0, count * 4)?;
    Ok(ondisk::indirect::obsolete_counts(&bytes, object.endian()).map(u64::from).collect())
}

/// Adds the contents of a space map of obsolete ranges.
fn add(cx: &SyncTx<'_>, map: u64, mapping: &Mapping, counts: &mut [u64]) -> Result<()> {
    let entries = mapping.entries();
    let mut wrong = None;
    for_each_entry(&cx.mos().object(map)?, |e| match mapping.resolve(e.offset, e.run) {
        Ok(pieces) => {
            for piece in pieces {
                let at = entries.partition_point(|range| range.source_bytes + range.size_bytes <= piece.source_bytes);
                counts[at] += piece.size_bytes;
            }
        }
        Err(at) => drop(wrong.get_or_insert(at)),
    })?;
    match wrong {
        Some(at) => Err(Error::corrupt(format!("space map {map}"), format!("{at:#x} is obsolete and not mapped"))),
        None => Ok(()),
    }
}
