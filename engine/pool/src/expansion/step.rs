//! One piece of an expansion: the sectors that the end of a txg moves.

use super::copy::{Area, Mover};
use super::state::BUDGET_BYTES;
use crate::writer::SyncTx;
use block::vdev::raidz::Reflow;
use block::vdev::{Kind, Leaf, Vdev};
use errors::Result;
use host::clock::Instant;
use host::sync::RwLockWriteGuard;
use ondisk::label::BOOT_BYTES;
use std::sync::Arc;
use std::time::Duration;

/// Time that other threads should have to wait for it.
const AIM: Duration = Duration::from_millis(300);
/// A free gap shorter than this, per child, is moved too: another read would cost more.
const GAP_BYTES: u64 = 64 << 10;

/// Sectors were moved. No thread reads or writes the device until the uberblock records it and this
/// value is dropped.
pub(super) struct Step<'m> {
    guard: RwLockWriteGuard<'m, Reflow>,
    next: Reflow,
    copied_bytes: u64,
}

impl Step<'_> {
    /// Called when the uberblock that records the step is on disk.
    pub fn done(mut self, cx: &SyncTx<'_>) {
        *self.guard = self.next;
        if let Some(running) = cx.shared.background.expansion.state.lock().as_mut() {
            running.copied_bytes += self.copied_bytes;
            running.synced_bytes = if self.next.in_scratch { 0 } else { self.next.offset_bytes };
        }
        cx.shared.background.expansion.changed.notify_all();
    }

    /// Progress word for the uberblock.
    pub fn word(&self) -> u64 {
        self.next.to_uberblock()
    }
}

/// Moves a piece, if an expansion is running and can continue. All data of the txg was flushed
/// before. If a device fails, nothing counts as moved.
pub(super) fn step<'m>(
    cx: &SyncTx<'_>,
    moving: Option<&'m Arc<block::vdev::raidz::Moving>>,
) -> Result<Option<Step<'m>>> {
    let Some(moving) = moving else { return Ok(None) };
    let (vdev, budget) = {
        let mut state = cx.shared.background.expansion.state.lock();
        let Some(running) = state.as_mut() else { return Ok(None) };
        if running.before.as_ref().is_some_and(|before| before.strong_count() > 0) {
            return Ok(None);
        }
        running.before = None;
        (running.vdev, running.budget_bytes)
    };
    let tree = cx.store().tree();
    let Some(top) = tree.tops.get(vdev as usize) else { return Ok(None) };
    if !is_whole(top) {
        wait(cx);
        return Ok(None);
    }
    let guard = moving.stop();
    let started = Instant::now();
    let now = *guard;
    let result = piece(cx, top, now, budget).and_then(|moved| {
        let Some((next, bytes)) = moved else { return Ok(None) };
        let flushed = tree.flush_tops(&[vdev as u32]);
        flushed.map_err(|f| f.into_write_error(top.name.clone()))?;
        Ok(Some((next, bytes)))
    });
    match result {
        // A failed flush may have added to a child's DTL.
        Ok(Some((next, copied_bytes))) if is_whole(top) => {
            learn(cx, copied_bytes, started.elapsed());
            Ok(Some(Step { guard, next, copied_bytes }))
        }
        Ok(None) => Ok(None),
        Ok(Some(_)) => {
            wait(cx);
            Ok(None)
        }
        Err(error) => {
            tracing::warn!(pool = cx.pool_name(), %error, "the raidz expansion waits");
            wait(cx);
            Ok(None)
        }
    }
}

/// Whether all children are available and their DTLs are empty.
pub(super) fn is_whole(top: &Vdev) -> bool {
    top.children.iter().all(|c| c.leaf().is_some_and(Leaf::is_whole))
}

fn wait(cx: &SyncTx<'_>) {
    if let Some(running) = cx.shared.background.expansion.state.lock().as_mut() {
        running.waits = true;
    }
}

fn learn(cx: &SyncTx<'_>, bytes: u64, took: Duration) {
    let fits = bytes as f64 * AIM.as_secs_f64() / took.as_secs_f64().max(0.001);
    if let Some(running) = cx.shared.background.expansion.state.lock().as_mut().filter(|_| bytes > 0) {
        let most = running.budget_bytes.saturating_mul(2).min(BUDGET_BYTES.end);
        running.budget_bytes = (fits as u64).clamp(BUDGET_BYTES.start / 4, most);
    }
}

/// Moves a piece. Returns the new progress, and the number of bytes moved.
fn piece(cx: &SyncTx<'_>, top: &Vdev, now: Reflow, budget: u64) -> Result<Option<(Reflow, u64)>> {
    let Kind::Raidz(_) = &top.kind else { return Ok(None) };
    let mover = Mover::new(top, cx.txg());
    let sector = 1u64 << top.ashift;
    let scratch_bytes = BOOT_BYTES / sector * sector * top.children.len() as u64;
    if now.offset_bytes == 0 {
        // The first rows of all children, whether they are in use or not.
        mover.move_range(0, scratch_bytes, Area::Scratch)?;
        return Ok(Some((Reflow { offset_bytes: scratch_bytes, in_scratch: true }, 0)));
    }
    if now.in_scratch {
        mover.empty_scratch(now.offset_bytes)?;
        return Ok(Some((Reflow { in_scratch: false, ..now }, now.offset_bytes)));
    }
    let vdev = top.id as u32;
    let Some(end) = cx.shared.allocator.end_bytes(vdev).filter(|end| now.offset_bytes < *end) else { return Ok(None) };
    // Stops before the sectors that the uberblock on disk still needs in their old places, and one
    // row earlier.
    let old = top.children.len() as u64 - 1;
    let done = now.offset_bytes / sector;
    let limit = ((done + done / old).saturating_sub(old) * sector).min(end);
    if limit <= now.offset_bytes {
        return Ok(None);
    }
    let (mut to, mut copied) = (limit, 0);
    for (from, range_end) in joined(cx, vdev, now.offset_bytes, limit, GAP_BYTES * old) {
        if copied >= budget {
            to = from;
            break;
        }
        let part = (budget - copied).next_multiple_of(sector).min(range_end - from);
        mover.move_range(from, from + part, Area::Data)?;
        copied += part;
        if part < range_end - from {
            to = from + part;
            break;
        }
    }
    Ok(Some((Reflow { offset_bytes: to, in_scratch: false }, copied)))
}

/// The ranges between two offsets of the device that are not free, joined across short gaps.
fn joined(cx: &SyncTx<'_>, vdev: u32, from: u64, to: u64, gap: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, end) in cx.shared.allocator.not_free(vdev, from, to) {
        match all.last_mut() {
            Some((_, last)) if start <= last.saturating_add(gap) => *last = end.max(*last),
            _ => all.push((start, end)),
        }
    }
    all
}
