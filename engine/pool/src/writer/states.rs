//! Devices that an administrator takes offline and brings back: `zpool offline`, `online`,
//! `reopen`, and forced faults.
//!
//! The txgs that a device misses meanwhile are in its DTL (`dtl`), by which it is resilvered.
//! Facts: vdev_offline, vdev_online, vdev_fault, vdev_clear (module/zfs/vdev.c); configuration
//! entries: vdev_config_generate (vdev_label.c).
//!
//! Invariants:
//!   * no device is taken offline that is needed to read some block, unless it is a log
//!   * a device that comes back is the one that left: its labels contain the pool's guid and its
//!     own

use super::spa::{Shared, SyncTx, Writer};
use super::tree::{NO_REPLICAS, find_leaf, is_required, judge_writable};
use crate::import::build;
use crate::trim;
use block::vdev::{Aux, Leaf};
use block::zevent::class;
use errors::{Error, Result};
use host::device::Device;
use ondisk::label::START_BYTES;
use ondisk::pool_dir::config;
use std::sync::Arc;

/// How long a device stays offline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasts {
    /// Until it is brought back.
    Always,
    /// Until the next import of the pool, or until it is brought back.
    UntilImport,
}

/// Opens the device at a path for writing.
pub type Opener<'a> = dyn Fn(&str) -> Result<Arc<dyn Device>> + 'a;

impl Writer {
    /// Takes a device offline (`zpool offline`). Refused if it is needed to read some block.
    pub fn offline(&self, guid: u64, lasts: Lasts) -> Result<()> {
        self.task(move |cx| offline(cx, guid, lasts))
    }

    /// Faults a device (`zpool offline -f`). A device that is needed is only marked as degraded.
    pub fn fault(&self, guid: u64, lasts: Lasts) -> Result<()> {
        self.task(move |cx| fault(cx, guid, lasts))
    }

    /// Marks a device as degraded, as a diagnosis does that found errors on it: it is used further
    /// (`vdev_degrade`).
    pub fn degrade(&self, guid: u64) -> Result<()> {
        self.task(move |cx| {
            let tree = cx.store().tree();
            let (_, leaf) = find_leaf(&tree, guid)?;
            if leaf.aux() != Some(Aux::Faulted) {
                mark(cx.shared, guid, &[(config::DEGRADED, Some(1))]);
                cx.config_changed();
            }
            Ok(())
        })
    }

    /// Brings back a device that was taken offline or disappeared (`zpool online`). Returns whether
    /// it is in use now; a fault must be cleared first.
    pub fn online(&self, guid: u64, open: &Opener<'_>) -> Result<bool> {
        let tree = self.shared.store.tree();
        let (_, leaf) = find_leaf(&tree, guid)?;
        if leaf.aux() != Some(Aux::Faulted) && (!leaf.is_open() || leaf.has_failed()) {
            self.open_again(leaf, open);
        }
        let is_used = self.task(move |cx| online(cx, guid))?;
        self.shared.resume_sweeps()?;
        Ok(is_used)
    }

    /// Checks that all devices in use still have their labels, as at the start of a scrub
    /// (`vdev_validate`). A device that was overwritten is closed, unless it is needed to read some
    /// block. Returns the number of closed devices.
    ///
    /// A log device is read only when the pool is opened: without this check, one that was
    /// overwritten would look healthy until then.
    pub fn validate_labels(&self) -> Result<usize> {
        self.task(validate_labels)
    }

    /// Tries to reopen all unavailable devices except offline and faulted ones (`zpool reopen`),
    /// and checks the labels of the others. Devices that disappeared meanwhile are noticed when
    /// they are used. Returns the number of devices that came back.
    pub fn reopen(&self, open: &Opener<'_>) -> Result<usize> {
        self.validate_labels()?;
        let tree = self.shared.store.tree();
        let is_away = |leaf: &&Leaf| {
            let may_come = |aux| matches!(aux, Aux::NotFound | Aux::CorruptLabel | Aux::TooSmall | Aux::Removed);
            leaf.aux().map_or(leaf.has_failed(), may_come)
        };
        let away: Vec<&Leaf> = tree.leaves().into_iter().filter(is_away).collect();
        let count = away.into_iter().filter(|leaf| self.open_again(leaf, open)).count();
        if count > 0 {
            self.task(|cx| {
                come_back(cx);
                cx.config_changed();
                Ok(())
            })?;
            self.shared.resume_sweeps()?;
        }
        Ok(count)
    }

    /// Reopens the device of a leaf, if it is available and the right one. Returns whether it is.
    pub(crate) fn open_again(&self, leaf: &Leaf, open: &Opener<'_>) -> bool {
        let path = self.shared.config.root.lock().find(leaf.guid).and_then(|c| c.path.clone());
        let path = path.unwrap_or_else(|| leaf.path.clone());
        // The device may be locked by this very process; nothing is written to the old handle any
        // more.
        if let Some(device) = leaf.device() {
            device.release();
        }
        let device = open(&path).inspect_err(|error| tracing::warn!(path, %error, "cannot be opened")).ok();
        let is_used = use_again(&self.shared, leaf, device);
        // The pool was closed meanwhile, and released its devices before this one was among them.
        if self.shared.txgs.progress.is_stopped()
            && let Some(device) = leaf.device()
        {
            device.release();
        }
        is_used
    }
}

/// Sets entries in the configuration of a leaf; entries with `None` are removed.
fn mark(shared: &Shared, guid: u64, marks: &[(&str, Option<u64>)]) {
    let mut root = shared.config.root.lock();
    let Some(c) = root.find_mut(guid) else { return };
    for (key, value) in marks {
        match value {
            Some(value) => c.all.put(key, *value),
            None => drop(c.all.remove(key)),
        }
    }
}

fn offline(cx: &SyncTx<'_>, guid: u64, lasts: Lasts) -> Result<()> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let (top, leaf) = find_leaf(&tree, guid)?;
    let is_log = shared.is_log(top.id);
    if leaf.aux() != Some(Aux::Offline) {
        if !is_log && is_required(top, guid) {
            return Err(Error::invalid(leaf.path.as_str(), NO_REPLICAS));
        }
        leaf.close(Aux::Offline);
    }
    mark(shared, guid, &[(config::OFFLINE, (lasts == Lasts::Always).then_some(1))]);
    judge_writable(cx);
    cx.config_changed();
    Ok(())
}

fn fault(cx: &SyncTx<'_>, guid: u64, lasts: Lasts) -> Result<()> {
    let shared = cx.shared;
    let tree = cx.store().tree();
    let (top, leaf) = find_leaf(&tree, guid)?;
    let is_needed = !shared.is_log(top.id) && is_required(top, guid);
    if is_needed {
        // OpenZFS also writes the reason, and then treats the device as faulted at the next import,
        // which makes the pool unusable. So only the mark is set here.
        mark(shared, guid, &[(config::FAULTED, None), (config::DEGRADED, Some(1))]);
    } else {
        leaf.close(Aux::Faulted);
        trim::forget_active(cx, guid)?;
        mark(shared, guid, &[(config::FAULTED, Some(1)), (config::DEGRADED, None)]);
        if let (Lasts::Always, Some(c)) = (lasts, shared.config.root.lock().find_mut(guid)) {
            c.all.put(config::AUX_STATE, config::AUX_EXTERNAL);
        }
    }
    judge_writable(cx);
    cx.config_changed();
    Ok(())
}

fn online(cx: &SyncTx<'_>, guid: u64) -> Result<bool> {
    let tree = cx.store().tree();
    let (_, leaf) = find_leaf(&tree, guid)?;
    mark(cx.shared, guid, &[(config::OFFLINE, None), (config::REMOVED, None)]);
    come_back(cx);
    cx.config_changed();
    cx.shared.report_leaf(class::VDEV_ONLINE, leaf);
    Ok(leaf.is_open() && !leaf.has_failed())
}

/// Devices are in use again: they take blocks, and a resilver brings them the data they missed.
pub(crate) fn come_back(cx: &SyncTx<'_>) {
    judge_writable(cx);
    cx.shared.background.sweeps.begin_again();
    if cx.store().tree().logs().iter().any(|leaf| leaf.is_open() && !leaf.stale_ranges().is_empty()) {
        cx.shared.background.scan.resilver_wanted();
    }
}

fn validate_labels(cx: &SyncTx<'_>) -> Result<usize> {
    let shared = cx.shared;
    if shared.config.is_dirty() {
        // The labels change with this txg, and are not written yet.
        return Ok(0);
    }
    let (tree, mut found) = (cx.store().tree(), 0);
    for top in &tree.tops {
        let is_log = shared.is_log(top.id);
        for leaf in top.leaves().into_iter().filter(|leaf| leaf.is_open() && !leaf.has_failed()) {
            let Some(device) = leaf.device() else { continue };
            // A device that cannot be read is a different failure.
            let is_other = device.probe().is_ok() && !has_label(device.as_ref(), leaf.guid);
            if is_other && (is_log || !is_required(top, leaf.guid)) {
                tracing::error!(
                    device = leaf.path,
                    "its labels are missing or belong to another device: it is no longer used"
                );
                leaf.close(Aux::CorruptLabel);
                found += 1;
            }
        }
    }
    if found > 0 {
        judge_writable(cx);
        cx.config_changed();
    }
    Ok(found)
}

/// Whether a label of the device is that of leaf `guid`, of any pool: the pool's own guid may just
/// be changing.
fn has_label(device: &dyn Device, guid: u64) -> bool {
    block::label::read(device, true).configs().any(|c| c.get_u64(config::GUID) == Some(guid))
}

/// Puts a device into use again, if it is the right one. Returns whether it is.
fn use_again(shared: &Shared, leaf: &Leaf, device: Option<Arc<dyn Device>>) -> bool {
    let Some(device) = device else {
        leaf.set_aux(Aux::NotFound);
        return false;
    };
    let labels = block::label::read(device.as_ref(), true);
    let pool = shared.config.identity.lock().guid;
    let is_it = labels.configs().any(|c| {
        let number = |key| c.get_u64(key);
        number(config::GUID) == Some(leaf.guid) && number(config::POOL_GUID) == Some(pool)
    });
    if !is_it {
        tracing::warn!(device = device.name(), "its labels are another device's");
        leaf.set_aux(Aux::CorruptLabel);
        return false;
    }
    let root = shared.config.root.lock();
    let is_large_enough =
        root.top_of(leaf.guid).is_none_or(|top| device.size_bytes() >= build::needed_bytes(top).max(START_BYTES));
    drop(root);
    if !is_large_enough {
        leaf.set_aux(Aux::TooSmall);
        return false;
    }
    leaf.open(device);
    if !leaf.stale_ranges().is_empty() {
        shared.background.scan.resilver_wanted();
    }
    true
}
