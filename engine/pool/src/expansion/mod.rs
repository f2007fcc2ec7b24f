//! Expands a raidz by one device: `zpool attach POOL raidz1-0 DEVICE`.
//!
//! ```text
//!   attach:  one more child in the configuration, marked as expanding
//!   then, at the end of each txg, between its data and its uberblock:
//!            no thread reads or writes the device
//!            ─> sectors are moved from their places in the old width to those in the new one
//!            ─> flush ─> the uberblock records the progress
//!            ─> other threads continue, with the new places
//!   first:   via the scratch area, the boot area of each child: otherwise a row would overwrite
//!            itself
//!   end:     the new width applies from some txg on; older blocks keep the width with which they
//!            were written
//! ```
//! OpenZFS moves sectors during other work, and writes to both places where writes meet the move.
//! Here the end of a txg moves them, in pieces short enough not to be noticed: all data is either
//! moved, or written to its final place.
//!
//! Format: docs/format/raidz.md, `ub_raidz_reflow_info`. Facts: module/zfs/vdev_raidz.c (from "Big
//! Theory Statement for how a RAIDZ VDEV is expanded" on), spa_vdev_attach (spa.c).
//!
//! Invariants:
//!   * sectors beyond the progress in the last uberblock are in their old places: after a power
//!     failure at any time all of them are readable
//!   * sectors are moved only while all children are available and their DTLs are empty
//!   * nothing is trimmed or initialized meanwhile, and there is no checkpoint

mod copy;
mod state;
mod step;

pub(crate) use state::Expansion;

use crate::config::VdevConfig;
use crate::scan::live::start_scrub_in;
use crate::space::alloc::Shape;
use crate::writer::background::{Background, WriteUberblock};
use crate::writer::grow::expand_one;
use crate::writer::new_leaf::{NewLeaf, TXGS_UNDER_WAY, check_fits, leaf_config};
use crate::writer::spa::{Shared, SyncTx, Writer};
use crate::writer::tree::{self, known};
use crate::writer::vdevs::{self, ByGuid};
use block::vdev::raidz::{Moving, Reflow};
use block::vdev::{Leaf, Vdev};
use errors::{Error, Result};
use ondisk::label::BOOT_BYTES;
use ondisk::nvlist::Value;
use ondisk::pool_dir::{config, vdev_top};
use state::Running;
use std::sync::Arc;
use std::time::Duration;
use step::step;

/// States in the device's ZAP: `DSS_SCANNING`, `DSS_FINISHED`.
const ACTIVE: u64 = 1;
const FINISHED: u64 = 2;
/// Interval at which to check whether all children are available again.
const PATIENCE: Duration = Duration::from_millis(500);
/// OpenZFS's message.
const IN_PROGRESS: &str = "raidz expansion in progress";

impl Writer {
    /// Starts the thread that runs expansions in the background.
    pub fn run_expansion(&self) -> Result<()> {
        let mut thread = self.shared.background.expansion.thread.lock();
        if thread.0.is_some() || thread.1 {
            return Ok(());
        }
        let shared = self.shared.clone();
        let spawned = host::threads::spawn("raidz-expand", move || run(&shared));
        thread.0 = Some(spawned.map_err(|e| Error::io(self.shared.store.name(), e))?);
        Ok(())
    }

    /// Whether a raidz is being expanded, and whether the expansion waits for its children.
    pub fn expansion_state(&self) -> (bool, bool) {
        let state = self.shared.background.expansion.state.lock();
        (state.is_some(), state.as_ref().is_some_and(|running| running.waits))
    }

    /// Waits for a change of [`Writer::expansion_state`], at most `longest`.
    pub fn wait_for_expansion(&self, longest: Duration) {
        let mut state = self.shared.background.expansion.state.lock();
        self.shared.background.expansion.changed.wait_for(&mut state, longest);
    }
}

impl Background for Expansion {
    /// Moves a piece. No thread reads or writes the device until the uberblock that records the
    /// piece is on disk.
    fn around_uberblock(&self, cx: &SyncTx<'_>, write: WriteUberblock<'_>) -> Result<bool> {
        // The next piece overwrites what the last uberblock on disk needs where it was.
        if cx.shared.is_frozen_at(cx.txg()) {
            return write();
        }
        let moving = self.moving();
        let Some(moved) = step(cx, moving.as_ref())? else { return write() };
        let progress = &cx.shared.config.uberblock;
        let before = std::mem::replace(&mut progress.lock().raidz_reflow, moved.word());
        let is_written = write()?;
        match is_written {
            true => moved.done(cx),
            // Nothing counts as moved: the same piece is moved again.
            false => progress.lock().raidz_reflow = before,
        }
        Ok(is_written)
    }

    fn stop(&self, _: &Shared) {
        let thread = {
            let mut thread = self.thread.lock();
            thread.1 = true;
            thread.0.take()
        };
        self.changed.notify_all();
        if let Some(thread) = thread.filter(|t| !t.is_current()) {
            let _ = thread.join();
        }
    }
}

/// Creates txgs as long as there is something to move; each of them moves a piece.
fn run(shared: &Arc<Shared>) {
    loop {
        if shared.background.expansion.thread.lock().1 {
            return;
        }
        let now = {
            let mut state = shared.background.expansion.state.lock();
            let tree = shared.store.tree();
            let is_whole = |r: &Running| tree.tops.get(r.vdev as usize).is_some_and(|top| step::is_whole(top));
            let found = state.as_mut().and_then(|r| {
                let whole = is_whole(r);
                let waited = std::mem::replace(&mut r.waits, !whole);
                (whole && !waited).then_some((r.vdev, r.synced_bytes, r.budget_bytes))
            });
            if found.is_none() {
                shared.background.expansion.changed.wait_for(&mut state, PATIENCE);
            }
            found
        };
        let Some((vdev, synced_bytes, budget_bytes)) = now else { continue };
        let result = match shared.allocator.end_bytes(vdev as u32) {
            Some(end) if synced_bytes >= end => shared.task(move |cx| cx.all_or_nothing(|| complete(cx, vdev))),
            Some(_) => {
                // Load the free ranges now: space maps must not be read while all other readers are
                // blocked.
                shared.allocator.load_slabs(vdev as u32, synced_bytes, budget_bytes);
                shared.task(move |cx| cx.all_or_nothing(|| note(cx, vdev)))
            }
            None => Err(Error::invalid(shared.store.name(), "the device that is to be widened has no metaslabs")),
        };
        if let Err(error) = result {
            tracing::warn!(pool = shared.store.name(), %error, "the raidz expansion is interrupted");
            let mut state = shared.background.expansion.state.lock();
            if !shared.background.expansion.thread.lock().1 {
                shared.background.expansion.changed.wait_for(&mut state, PATIENCE);
            }
        }
        shared.background.expansion.changed.notify_all();
    }
}

/// Records the number of bytes moved, for information only.
fn note(cx: &SyncTx<'_>, vdev: u64) -> Result<()> {
    let copied = cx.shared.background.expansion.state.lock().as_ref().map_or(0, |running| running.copied_bytes);
    vdevs::top_zap(cx, vdev)?.update_u64(cx.tx(), vdev_top::RAIDZ_EXPAND_BYTES_COPIED, copied)
}

/// Refuses an expansion that is impossible.
fn check(cx: &SyncTx<'_>, top: &VdevConfig, device: &Vdev, new: &NewLeaf) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    if !cx.feature_enabled("raidz_expansion") {
        return refuse("raidz_expansion feature must be enabled in order to attach a device to raidz");
    }
    if cx.shared.background.expansion.is_active() {
        return refuse(IN_PROGRESS);
    }
    let ashift = top.number(config::ASHIFT);
    if !step::is_whole(device) {
        return refuse("all devices of the raidz must be there and whole");
    }
    if (top.children.len() as u64 + 1) << ashift > BOOT_BYTES {
        return refuse("too many devices for the scratch area");
    }
    check_fits(new, top)
}

/// Adds `new` as a child of the raidz `to`, and starts to spread the existing data over it.
pub(crate) fn widen(cx: &SyncTx<'_>, to: u64, new: &NewLeaf) -> Result<()> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let no_device = || Error::invalid("", "no such device in pool");
    let mut root = shared.config.root.lock().clone();
    let top = root.children.iter().find(|top| top.guid == to && top.kind == "raidz").cloned().ok_or_else(no_device)?;
    let device = tree.tops.get(top.id as usize).cloned().ok_or_else(no_device)?;
    check(cx, &top, &device, new)?;

    let guid = vdevs::new_guid();
    let mut joining = leaf_config(new, guid, cx.txg());
    joining.all.remove(config::RESILVER_TXG);
    joining.all.put(config::CREATE_TXG, cx.txg());
    joining.set_id(top.children.len() as u64);
    let place = root.find_mut(to).ok_or_else(no_device)?;
    place.children.push(joining);
    place.all.put(config::RAIDZ_EXPANDING, Value::Boolean);
    let (width, top) = (place.children.len(), place.clone());
    let new_device = new.device.clone().ok_or_else(no_device)?;

    let identity = shared.config.identity.lock().clone();
    vdevs::initialize_leaf(&identity, root.guid, &top, guid, &ByGuid::from([(guid, new_device.clone())]))?;
    let mut leaves = known(&tree);
    leaves.insert(guid, Leaf::present(guid, new_device.clone()));
    cx.all_or_nothing(|| {
        let moving = Arc::new(Moving::new(Reflow::default()));
        let running = Running::new(top.id, moving, 0, Some(Arc::downgrade(&device)));
        *shared.background.expansion.state.lock() = Some(running);
        drop(device);
        cx.feature_increment("raidz_expansion")?;
        vdevs::make_zaps(cx, &mut root, &|_| None)?;
        tree::commit(cx, root, &leaves)?;
        let zap = vdevs::top_zap(cx, top.id)?;
        zap.update_u64(cx.tx(), vdev_top::RAIDZ_EXPAND_STATE, ACTIVE)?;
        zap.update_u64(cx.tx(), vdev_top::RAIDZ_EXPAND_START_TIME, shared.now())?;
        for name in [vdev_top::RAIDZ_EXPAND_END_TIME, vdev_top::RAIDZ_EXPAND_BYTES_COPIED] {
            if zap.lookup(name)?.is_some() {
                zap.remove(cx.tx(), name.as_bytes())?;
            }
        }
        let text = format!("{} vdev {} new width {width}", cx.pool_name(), top.id);
        cx.history("raidz vdev expansion started", None, &text)
    })
}

/// Completes the expansion: all sectors are moved, and the uberblock on disk records it.
fn complete(cx: &SyncTx<'_>, vdev: u64) -> Result<()> {
    let shared = cx.shared;
    let mut root = shared.config.root.lock().clone();
    let Some(top) = root.children.iter_mut().find(|top| top.id == vdev) else { return Ok(()) };
    let width = top.children.len();
    let mut txgs = top.all.get_u64_array(config::RAIDZ_EXPAND_TXGS).map(<[u64]>::to_vec).unwrap_or_default();
    // The new width applies once no thread works in an earlier txg.
    txgs.push(cx.txg() + TXGS_UNDER_WAY);
    top.all.put(config::RAIDZ_EXPAND_TXGS, txgs);
    top.all.remove(config::RAIDZ_EXPANDING);
    let Some(running) = shared.background.expansion.state.lock().take() else { return Ok(()) };
    shared.config.uberblock.lock().raidz_reflow = 0;
    let tree = cx.store().tree();
    tree::commit(cx, root, &known(&tree))?;
    let device = cx.store().tree().tops.get(vdev as usize).cloned();
    if let Some(shape) = device.and_then(|device| Shape::of(&device.kind)) {
        shared.allocator.set_shape(vdev as u32, shape);
    }
    let zap = vdevs::top_zap(cx, vdev)?;
    zap.update_u64(cx.tx(), vdev_top::RAIDZ_EXPAND_STATE, FINISHED)?;
    zap.update_u64(cx.tx(), vdev_top::RAIDZ_EXPAND_END_TIME, shared.now())?;
    zap.update_u64(cx.tx(), vdev_top::RAIDZ_EXPAND_BYTES_COPIED, running.copied_bytes)?;
    let text = format!("{} vdev {vdev} new width {width}", cx.pool_name());
    cx.history("raidz vdev expansion completed", None, &text)?;
    // Use the space of the new child, too.
    expand_one(cx, vdev);
    // The moved sectors have not been verified yet.
    start_scrub_in(cx)?;
    shared.background.sweeps.begin_again();
    Ok(())
}
