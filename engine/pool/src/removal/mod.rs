//! Removal of top-level devices that hold data: `zpool remove`.
//!
//! ```text
//!   begin:   no new blocks on it ─> intent logs emptied ─> an empty mapping; the configuration marks the device as removing
//!   a txg:   from the end of the mapping on: allocated ranges ─> space on other devices ─> copied raw ─> ranges of the mapping
//!   end:     nothing is left beyond the end of the mapping ─> its space maps are destroyed, and the mapping takes its place
//! ```
//! Block pointers do not change: reads and frees go through the mapping
//! ([`block::vdev::indirect`]). The syncing thread does all of this, a part in each txg, so that a
//! thread that frees meanwhile need not know the progress. The next importer of the pool resumes an
//! interrupted removal, OpenZFS too.
//!
//! Parts: `begin` (checks and start), `copy` (a step), `end` (the last step, cancelling), `mapping`
//! and `objects`, `free` (deferred frees), `obsolete` (unused parts of a mapping, and condensing).
//!
//! Facts: module/zfs/vdev_removal.c, vdev_indirect.c, vdev_indirect_mapping.c,
//! vdev_indirect_births.c.
//!
//! Invariants:
//!   * below the end of the mapping, each allocated byte of the device is mapped; beyond it none is
//!   * `copied` of `to_copy` bytes are done: copied, or freed before their turn

mod begin;
mod copy;
mod end;
mod free;
mod mapping;
mod objects;
mod obsolete;
mod state;

pub(crate) use state::Evacuation;
pub(crate) use state::{RANGE_BYTES_MAX, SPAN_BYTES_MAX};

use crate::Pool;
use crate::config::VdevConfig;
use crate::writer::background::Background;
use crate::writer::spa::{SyncTx, Writer};
use block::vdev::Kind;
use copy::Step;
use errors::{Error, Refusal, Result};
use object::zap::Zap;
use ondisk::Dva;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::zap::Value as ZapValue;
use state::{removing, running};
use std::sync::atomic::Ordering;

/// Bytes copied in a txg: a few tenths of a second on a disk, an acceptable delay for threads that
/// wait for the txg. Guessed.
const STEP_BYTES: u64 = 32 << 20;

/// Makes the allocator defer frees on devices that are being or were removed.
pub(crate) fn inform_allocator(pool: &Pool, allocator: &crate::space::Allocator) -> Result<()> {
    let removed = pool.root_vdev().children.iter().filter(|top| top.kind == "indirect").map(|top| top.id as u32);
    for vdev in removed.chain(running(removing(pool)?.as_ref())) {
        allocator.set_evacuated(vdev, true);
        allocator.set_allocating(vdev, false);
    }
    Ok(())
}

/// Removes an entry that earlier releases left in the ZAPs of removed devices: the list of
/// unflushed txgs was freed with the space maps, and its object number may belong to another object
/// by now. OpenZFS removes the entry with the list (`vdev_destroy_ms_flush_data`).
pub(crate) fn remove_stale_entries(cx: &SyncTx<'_>) -> Result<()> {
    let is_removed = |top: &&VdevConfig| top.kind == "indirect" && top.number(config::VDEV_TOP_ZAP) != 0;
    let zaps: Vec<u64> = {
        let root = cx.shared.config.root.lock();
        root.children.iter().filter(is_removed).map(|top| top.number(config::VDEV_TOP_ZAP)).collect()
    };
    for zap in zaps {
        let zap = Zap::open(cx.mos().object(zap)?)?;
        if zap.lookup(vdev_top::MS_UNFLUSHED_PHYS_TXGS)?.is_some() {
            zap.remove(cx.tx(), vdev_top::MS_UNFLUSHED_PHYS_TXGS)?;
        }
    }
    Ok(())
}

impl Writer {
    /// Whether a device that holds data is being removed.
    pub fn is_removing(&self) -> bool {
        self.shared.background.evacuation.is_active()
    }

    /// Waits until no device is being removed, `is_given_up` returns true, or the pool cannot be
    /// written. Fails with [`Refusal::NoSpace`] if there is no space for the remaining data.
    pub fn finish_removal(&self, is_given_up: &dyn Fn() -> bool) -> Result<()> {
        while self.is_removing() && !is_given_up() {
            self.sync()?;
            if self.shared.background.evacuation.full.load(Ordering::SeqCst) {
                return Err(Refusal::NoSpace.at(self.name()));
            }
        }
        // The device leaves in the middle of a txg, which another thread may be syncing: wait until
        // that txg is on disk.
        if is_given_up() { Ok(()) } else { self.sync() }
    }

    /// Copies about `bytes` more of a device that is being removed, then pauses; `None`: does not
    /// pause.
    pub fn limit_removal(&self, bytes: Option<u64>) {
        self.shared.background.evacuation.allowance.store(bytes.unwrap_or(u64::MAX), Ordering::SeqCst);
        self.shared.push();
    }

    /// Condenses mappings of at least this many bytes when a quarter of them is obsolete.
    pub fn condense_from(&self, bytes: u64) {
        self.shared.background.evacuation.condense_bytes_min.store(bytes, Ordering::SeqCst);
    }

    /// Cancels the removal of a device (`zpool remove -s`): the device is used as before.
    pub fn cancel_removal(&self) -> Result<()> {
        if !self.is_removing() {
            return Err(Error::invalid(self.name(), "operation is not in progress"));
        }
        self.shared.background.evacuation.cancelled.store(true, Ordering::SeqCst);
        self.task(|_| Ok(()))
    }
}

impl SyncTx<'_> {
    /// Marks a range on a removed device as obsolete: no block pointer refers to it, though the
    /// target is still in use. Does nothing for other devices.
    pub fn mark_obsolete(&self, dva: &Dva) {
        let tree = self.store().tree();
        if matches!(tree.tops.get(dva.vdev as usize).map(|top| &top.kind), Some(Kind::Indirect(_))) {
            let mut state = self.shared.background.evacuation.state.lock();
            state.obsolete.entry(dva.vdev).or_default().push((dva.offset_bytes, dva.asize_bytes));
        }
    }
}

impl Background for Evacuation {
    fn is_dirty(&self) -> bool {
        self.is_active()
    }

    fn wants_txgs(&self) -> bool {
        self.can_continue()
    }

    /// The step of a txg, after all other changes except the frees of the MOS itself.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        self.sync_pass(cx)?;
        if self.is_active() {
            let mut state = self.state.lock();
            let allowance = self.allowance.load(Ordering::SeqCst);
            let before = state.growing.as_ref().map_or(0, |g| g.header.mapped_bytes);
            let went = match self.cancelled.swap(false, Ordering::SeqCst) {
                true => None,
                false if allowance == 0 => Some(Step::Copied),
                false => Some(cx.all_or_nothing(|| copy::step(cx, &mut state, allowance.min(STEP_BYTES)))?),
            };
            let copied = state.growing.as_ref().map_or(0, |g| g.header.mapped_bytes) - before;
            if allowance != u64::MAX {
                // If the limit was changed meanwhile, the new limit stays.
                let left = allowance.saturating_sub(copied);
                let _ = self.allowance.compare_exchange(allowance, left, Ordering::SeqCst, Ordering::SeqCst);
            }
            self.full.store(matches!(went, Some(Step::Full)), Ordering::SeqCst);
            match went {
                Some(Step::Copied | Step::Full) => {}
                Some(Step::Nothing) => end::finish(cx, &mut state)?,
                Some(Step::Failed(error)) => {
                    tracing::error!(%error, "{}: the removal of a device is canceled", cx.store().name());
                    end::give_up(cx, &mut state)?;
                }
                None => end::give_up(cx, &mut state)?,
            }
        }
        obsolete::condense(cx)
    }

    /// Applies deferred frees and writes the resulting changes.
    fn sync_pass(&self, cx: &SyncTx<'_>) -> Result<()> {
        free::sync(cx)?;
        let mut state = self.state.lock();
        obsolete::sync(cx, &mut state.obsolete)?;
        if std::mem::take(&mut state.is_changed)
            && let Some(removing) = &state.removing
        {
            let value = ZapValue { int_bytes: 8, ints: removing.to_words().to_vec() };
            cx.directory()?.update(cx.tx(), directory::REMOVING.as_bytes(), &value)?;
        }
        Ok(())
    }
}
