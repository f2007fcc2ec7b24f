//! Frees on a device that is being or was removed.
//!
//! ```text
//!   being removed:   the device's own space map records the free. Below the end of the mapping,
//!                    the copy is freed too, and that part of the mapping is obsolete; beyond it,
//!                    there is less to copy
//!   removed:         the copy is freed, and that part of the mapping is obsolete
//! ```
//! Facts: free_from_removing_vdev (module/zfs/vdev_removal.c), metaslab_free_impl (metaslab.c).

use super::state::State;
use crate::space::alloc::RemovalFree;
use crate::writer::spa::SyncTx;
use block::Allocate;
use block::vdev::Kind;
use block::vdev::indirect::Mapping;
use errors::Result;
use ondisk::Dva;

/// Applies the deferred frees up to this txg, including those that they cause on other removed
/// devices.
pub(super) fn sync(cx: &SyncTx<'_>) -> Result<()> {
    let allocator = &cx.shared.allocator;
    loop {
        let all = allocator.take_deferred(cx.txg());
        if all.is_empty() {
            return Ok(());
        }
        let mut state = cx.shared.background.evacuation.state.lock();
        all.into_iter().for_each(|gone| free(cx, &mut state, &gone));
    }
}

fn free(cx: &SyncTx<'_>, state: &mut State, gone: &RemovalFree) {
    let (vdev, offset, size) = (gone.dva.vdev, gone.dva.offset_bytes, gone.dva.asize_bytes);
    let tree = cx.store().tree();
    match tree.tops.get(vdev as usize).map(|top| &top.kind) {
        Some(Kind::Indirect(mapping)) => {
            let mapping = mapping.read().clone().unwrap_or_default();
            free_copy(cx, state, gone, &mapping, (offset, size));
        }
        _ => {
            cx.shared.allocator.free_here(cx.txg(), gone.birth, &gone.dva);
            // Otherwise the removal has not begun yet.
            let Some(growing) = state.growing.as_ref().filter(|g| g.vdev == vdev) else { return };
            let end = growing.header.max_offset_bytes;
            let mapped = size.min(end.saturating_sub(offset));
            if mapped > 0 {
                let mapping = growing.mapping.clone();
                free_copy(cx, state, gone, &mapping, (offset, mapped));
            }
            if mapped < size
                && let Some(removing) = &mut state.removing
            {
                removing.copied_bytes += size - mapped;
                state.is_changed = true;
            }
        }
    }
}

fn free_copy(cx: &SyncTx<'_>, state: &mut State, gone: &RemovalFree, mapping: &Mapping, (offset, size): (u64, u64)) {
    match mapping.resolve(offset, size) {
        Ok(pieces) => {
            state.obsolete.entry(gone.dva.vdev).or_default().push((offset, size));
            for p in pieces {
                free_moved(cx, gone.birth, p.vdev, p.offset_bytes, p.size_bytes);
            }
        }
        Err(at) => tracing::error!(
            "{}: {}:{offset:#x}+{size:#x} cannot be freed: the mapping does not contain {at:#x}",
            cx.store().name(),
            gone.dva.vdev
        ),
    }
}

/// Frees the target of a range of a mapping, which may be on another device that was removed since.
pub(super) fn free_moved(cx: &SyncTx<'_>, birth: u64, vdev: u32, offset_bytes: u64, asize_bytes: u64) {
    let dva = Dva { vdev, offset_bytes, asize_bytes, is_gang: false };
    cx.shared.allocator.free(cx.txg(), birth, &dva);
}
