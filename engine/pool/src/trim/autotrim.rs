//! Trims freed space automatically: the property `autotrim`.
//!
//! Ranges that txgs free are collected until they are allocatable, and for some txgs more, so that
//! neighbours become one range. Devices that are being replaced, and those with a spare attached,
//! are skipped, as in OpenZFS.

use super::run::{TRIM_BYTES_MIN, trim};
use crate::space::alloc::{RangeKind, Sweep};
use crate::writer::Shared;
use block::vdev::{DATA_START_BYTES, Kind, Leaf, MirrorKind, Vdev};
use errors::Result;
use std::sync::Arc;
use std::time::Duration;

/// Txgs between two rounds (`zfs_trim_txg_batch`).
const TXGS: u64 = 32;
/// Interval at which to check whether they have passed.
const LOOK: Duration = Duration::from_secs(1);

/// Runs until the pool is closed. Also resumes interrupted work on leaves that come back.
pub(super) fn run(shared: &Arc<Shared>) {
    let mut last = shared.txgs.progress.synced();
    loop {
        {
            let mut state = shared.background.sweeps.state.lock();
            if state.stop {
                return;
            }
            shared.background.sweeps.changed.wait_for(&mut state, LOOK);
        }
        // Leaves that came back resume their interrupted work.
        if let Err(error) = shared.start_sweeps() {
            tracing::debug!(pool = shared.store.name(), %error, "automatic trim is interrupted");
        }
        let now = shared.txgs.progress.synced();
        if now < last + TXGS || !shared.allocator.notes_untrimmed() {
            continue;
        }
        last = now;
        if let Err(error) = all(shared) {
            tracing::debug!(pool = shared.store.name(), %error, "not all that was freed was trimmed");
        }
    }
}

/// Trims all ranges that were freed since the last round.
pub(super) fn all(shared: &Shared) -> Result<()> {
    let tree = shared.store.tree();
    for top in &tree.tops {
        let mut leaves = top.leaves_by_child();
        leaves.retain(|(_, leaf)| leaf.can_discard() && !is_in_trouble(top, leaf.guid));
        if leaves.is_empty() || top.places(0, 0, 1 << 30).is_empty() {
            continue;
        }
        let mut at = Sweep::default();
        while let Some(mut held) = shared.allocator.hold_next(top.id as u32, &mut at, u64::MAX, RangeKind::Untrimmed)? {
            for (child, leaf) in &leaves {
                trim_range(top, *child, leaf, held.offset_bytes, held.size_bytes);
            }
            held.mark_trimmed();
            if shared.background.sweeps.state.lock().stop {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn trim_range(top: &Vdev, child: usize, leaf: &Leaf, offset: u64, len: u64) {
    for (at, len) in top.places(child, offset, len).into_iter().filter(|(_, len)| *len >= TRIM_BYTES_MIN) {
        trim(leaf, DATA_START_BYTES + at, len);
    }
}

/// Whether the leaf is below `replacing` or `spare`.
fn is_in_trouble(vdev: &Vdev, guid: u64) -> bool {
    let is_pair = matches!(vdev.kind, Kind::Mirror(MirrorKind::Replacing | MirrorKind::Spare));
    vdev.children.iter().any(|c| c.find(guid).is_some() && (is_pair || is_in_trouble(c, guid)))
}
