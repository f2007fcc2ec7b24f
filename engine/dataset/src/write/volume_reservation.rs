//! Space that a volume reserves: `refreservation=auto`, and reservations that follow the size.
//!
//! A volume that is not sparse reserves what it takes when every block is written. Facts:
//! `zvol_volsize_to_reservation`, `zfs_add_synthetic_resv`, `zfs_fix_auto_resv` in
//! lib/libzfs/libzfs_dataset.c.

use super::contents::{VOLUME_DATA, VOLUME_PROPERTIES};
use super::cx::Cx;
use super::props;
use super::tree::Node;
use super::values::{AUTO, Setting};
use crate::property::Value;
use block::vdev::Tree;
use errors::{Error, Result};
use object::{ObjectSet, Zap};
use ondisk::version;
use pool::Pool;

/// The property that reserves the space of new volumes: before pool version 9 it includes their
/// snapshots.
pub fn reservation_of_volumes(pool: &Pool) -> &'static str {
    if pool.version() < version::REFQUOTA { "reservation" } else { "refreservation" }
}

/// Maximum space of a volume of `size_bytes` with blocks of `block_bytes`, including metadata:
/// `refreservation` is set to this unless the volume is sparse.
pub fn volume_reservation(pool: &Pool, size_bytes: u64, block_bytes: u64, copies: u64) -> u64 {
    on_devices(&pool.store().tree(), size_bytes, block_bytes, copies)
}

fn on_devices(tree: &Tree, size_bytes: u64, block_bytes: u64, copies: u64) -> u64 {
    /// Pointers in an indirect block of 128 KiB, and that block's bytes.
    const POINTERS: u64 = 1024;
    const INDIRECT_BYTES: u64 = 128 << 10;
    let mut blocks = size_bytes / block_bytes.max(1);
    // On raidz, small blocks take more than their share of 128 KiB, the unit in which space is
    // counted.
    let scaled = tree.tops.iter().filter_map(|top| {
        let (small, usual) = (top.asize_bytes(block_bytes, 0)?, top.asize_bytes(INDIRECT_BYTES, 0)?);
        Some((blocks.saturating_mul(small) / (usual >> 9).max(1)).saturating_mul(INDIRECT_BYTES >> 9))
    });
    let data = scaled.max().unwrap_or(0).max(blocks.saturating_mul(block_bytes));
    // The dnode of dnodes has seven levels.
    let mut metadata_blocks = 7u64;
    while blocks > 1 {
        blocks = blocks.div_ceil(POINTERS);
        metadata_blocks += blocks;
    }
    let metadata = metadata_blocks.saturating_mul((copies + 1).min(3)).saturating_mul(INDIRECT_BYTES);
    data.saturating_mul(copies).saturating_add(metadata)
}

/// Replaces `auto` by the reservation of a volume with this size and these blocks, in bytes.
pub(super) fn resolve_auto(cx: &Cx<'_>, setting: &mut Setting, (size, block): (u64, u64), copies: u64) {
    if setting.name == "refreservation" && setting.number() == AUTO {
        setting.value = Value::Number(on_devices(&cx.mos().store().tree(), size, block, copies));
    }
}

/// The size of the volume whose dataset has object number `dataset`, and of its blocks, in bytes.
pub(super) fn size_of(cx: &Cx<'_>, dataset: u64) -> Result<(u64, u64)> {
    let root = cx.dataset(dataset)?.phys.bp;
    let objset = ObjectSet::open(cx.mos().store().clone(), &root, dataset, None)?;
    let size = Zap::open(objset.object(VOLUME_PROPERTIES)?)?.lookup_u64("size")?.unwrap_or(0);
    Ok((size, objset.object(VOLUME_DATA)?.block_bytes()))
}

/// Completes what is to be set on the existing volume `node`: `auto` becomes a number, and if the
/// volume reserves exactly what its size takes, a new size changes the reservation with it.
/// Rejects a size that is not a multiple of the block size.
pub(super) fn complete(cx: &Cx<'_>, node: &Node, settings: &mut Vec<Setting>) -> Result<()> {
    let sets = |name: &str| settings.iter().rev().find(|s| s.name == name).map(Setting::number);
    let (size, reservation) = (sets("volsize"), sets("refreservation"));
    if size.is_none() && reservation != Some(AUTO) {
        return Ok(());
    }
    let (old, block) = size_of(cx, node.head)?;
    if let Some(size) = size.filter(|size| !size.is_multiple_of(block.max(1))) {
        let what = format!("'volsize' must be a multiple of volume block size ({block}), not {size}");
        return Err(Error::invalid(&*node.name, what));
    }
    let needed = |size| on_devices(&cx.mos().store().tree(), size, block, 1);
    if let (Some(size), None) = (size, reservation)
        && props::own_number(cx, node.dir, "refreservation")? == needed(old)
    {
        settings.push(Setting { name: "refreservation".to_owned(), value: Value::Number(needed(size)) });
    }
    for setting in settings {
        resolve_auto(cx, setting, (size.unwrap_or(old), block), 1);
    }
    Ok(())
}
