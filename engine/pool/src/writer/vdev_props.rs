//! Stores properties of devices, and applies other changes of them: whether they take new blocks,
//! and clearing of faults.
//!
//! A property is stored in the device's own ZAP; whether a top-level device takes new blocks is
//! stored in the configuration too. Facts: vdev_props_set_sync, vdev_passivate, vdev_clear
//! (module/zfs/vdev.c, vdev_removal.c).

use super::detach::after_resilver;
use super::props::{on_disk, shown};
use super::spa::{Shared, SyncTx, Writer};
use super::states::{Opener, come_back};
use crate::Pool;
use crate::config::VdevConfig;
use crate::mmp::is_active_elsewhere;
use crate::property::SetValue;
use block::Class;
use block::vdev::Aux;
use errors::{Error, Refusal, Result};
use object::zap::Zap;
use ondisk::pool_dir::config;
use ondisk::zap::Value as ZapValue;

/// Entries that a fault leaves in a leaf's configuration.
const FAULTS: [&str; 3] = [config::FAULTED, config::DEGRADED, config::AUX_STATE];

/// Object number of the ZAP with a device's properties; 0: it has none.
fn zap_of(vdev: &VdevConfig) -> u64 {
    let keys = [config::VDEV_ROOT_ZAP, config::VDEV_TOP_ZAP, config::VDEV_LEAF_ZAP];
    keys.into_iter().map(|key| vdev.number(key)).find(|id| *id != 0).unwrap_or(0)
}

impl Pool {
    /// Name and value of all entries in a device's ZAP: properties, and state that OpenZFS stores
    /// there.
    pub fn set_vdev_properties(&self, guid: u64) -> Result<Vec<(String, SetValue)>> {
        match self.root_vdev().find(guid).map_or(0, zap_of) {
            0 => Ok(Vec::new()),
            id => {
                let entries = Zap::open(self.mos().object(id)?)?.entries()?;
                Ok(entries.iter().map(|e| (String::from_utf8_lossy(&e.name).into_owned(), kept(&e.value))).collect())
            }
        }
    }
}

fn kept(value: &ZapValue) -> SetValue {
    match value.as_u64().filter(|_| value.int_bytes == 8) {
        Some(number) => SetValue::Number(number),
        None => SetValue::Text(value.as_string().unwrap_or_default()),
    }
}

impl SyncTx<'_> {
    /// Sets a property of a device. The value must be valid. An empty text removes a user property.
    pub fn set_vdev_property(&self, guid: u64, name: &str, value: &SetValue) -> Result<()> {
        let id = self.shared.config.root.lock().find(guid).map_or(0, zap_of);
        if id == 0 {
            return Err(unsuitable());
        }
        let zap = Zap::open(self.mos().object(id)?)?;
        let is_gone = matches!(value, SetValue::Text(text) if text.is_empty()) && name.contains(':');
        if !is_gone {
            zap.update(self.tx(), name.as_bytes(), &on_disk(value))?;
        } else if zap.lookup(name)?.is_some() {
            zap.remove(self.tx(), name.as_bytes())?;
        }
        self.history("vdev set", None, &format!("vdev_guid={guid}: {name}={}", shown(value)))
    }

    /// Sets whether a top-level device takes new blocks. Refused for logs, and for the last normal
    /// device that takes blocks.
    pub fn set_allocating(&self, guid: u64, yes: bool) -> Result<()> {
        let shared = self.shared;
        let mut root = shared.config.root.lock();
        let Some(at) = root.children.iter().position(|top| top.guid == guid) else { return Err(unsuitable()) };
        let id = root.children[at].id as u32;
        match shared.allocator.class_of(id) {
            None | Some(Class::Log) => return Err(unsuitable()),
            Some(Class::Normal) if !yes && !shared.allocator.has_other_open(id) => {
                return Err(Error::invalid(shared.store.name(), "no other device of the pool accepts blocks"));
            }
            _ => {}
        }
        match yes {
            true => {
                root.children[at].all.remove(config::NONALLOCATING);
            }
            false => root.children[at].all.put(config::NONALLOCATING, 1u64),
        }
        drop(root);
        shared.allocator.set_allocating(id, yes);
        self.config_changed();
        self.set_vdev_property(guid, "allocating", &SetValue::Number(u64::from(yes)))
    }
}

fn unsuitable() -> Error {
    Error::invalid("", "property not supported for this vdev")
}

impl Writer {
    /// Clears the errors of a device, or of all, and retries writes that failed (`zpool clear`).
    /// Leaves that were faulted or failed are reopened.
    pub fn clear(&self, device: Option<u64>, open: &Opener<'_>) -> Result<()> {
        let tree = self.shared.store.tree();
        let leaves = match device {
            None => tree.tops.iter().chain(&tree.caches).chain(&tree.spares).flat_map(|v| v.leaves()).collect(),
            Some(guid) => {
                let missing = || Error::not_found(self.name(), format!("device {guid}"));
                tree.find(guid).ok_or_else(missing)?.leaves()
            }
        };
        let mut is_back = false;
        for leaf in leaves {
            leaf.clear_errors();
            let is_away = leaf.aux().is_some() || leaf.has_failed() || leaf.is_gone();
            let is_degraded =
                || self.shared.config.root.lock().find(leaf.guid).is_some_and(|c| c.number(config::DEGRADED) != 0);
            // A healthy device is not reported.
            let is_reported = is_away || is_degraded();
            // A suspended pool needs them before anything else can be done.
            if is_away && leaf.aux() != Some(Aux::Offline) {
                is_back |= self.open_again(leaf, open);
            }
            if is_reported {
                self.shared.report_leaf(block::zevent::class::VDEV_CLEAR, leaf);
            }
        }
        // One that is suspended from here on is not resumed: it was not checked.
        let is_suspended = self.shared.is_suspended();
        if is_suspended && self.shared.background.heartbeats.is_on() {
            self.check_alone()?;
        }
        if is_suspended {
            self.resume();
        }
        self.task(move |cx| {
            if forget_faults(cx.shared, device) | unspare(cx, device) || is_back {
                cx.config_changed();
            }
            come_back(cx);
            after_resilver(cx)
        })?;
        self.shared.resume_sweeps()
    }
}

impl Writer {
    /// Fails with [`Refusal::ImportedElsewhere`] unless no other host took over the pool while it
    /// was suspended. Waits as long as an import.
    fn check_alone(&self) -> Result<()> {
        let tree = self.shared.store.tree();
        let devices: Vec<_> = tree.leaves().into_iter().filter_map(|leaf| leaf.device()).collect();
        let (name, hostid) = {
            let identity = self.shared.config.identity.lock();
            (identity.name.clone(), identity.hostid)
        };
        let txg = self.shared.config.uberblock.lock().txg.0;
        match is_active_elsewhere(&name, &devices, hostid, txg)? {
            true => Err(Refusal::ImportedElsewhere.at(name)),
            false => Ok(()),
        }
    }
}

/// Marks devices that are healthy again and for which a spare is active: they take their places
/// back once they are resilvered.
fn unspare(cx: &SyncTx<'_>, within: Option<u64>) -> bool {
    fn mark(vdev: &mut VdevConfig, within: Option<u64>, is_good: &dyn Fn(u64) -> bool) -> bool {
        let within = within.filter(|guid| *guid != vdev.guid);
        let mut changed = false;
        if vdev.kind == "spare"
            && let Some(first) = vdev.children.first_mut()
            && within.is_none_or(|guid| guid == first.guid)
            && is_good(first.guid)
        {
            changed = first.number(config::UNSPARE) == 0;
            first.all.put(config::UNSPARE, 1u64);
        }
        vdev.children.iter_mut().fold(changed, |any, child| mark(child, within, is_good) || any)
    }
    let tree = cx.store().tree();
    let is_good = |guid| tree.find(guid).is_some_and(|v| v.leaves().iter().all(|l| l.is_open() && !l.has_failed()));
    mark(&mut cx.shared.config.root.lock(), within, &is_good)
}

fn forget_faults(shared: &Shared, device: Option<u64>) -> bool {
    fn forget(vdev: &mut VdevConfig, within: Option<u64>) -> bool {
        let within = within.filter(|guid| *guid != vdev.guid);
        let mut changed = false;
        if within.is_none() {
            for key in FAULTS.into_iter().filter(|key| vdev.all.contains(key)).collect::<Vec<_>>() {
                vdev.all.remove(key);
                changed = true;
            }
        }
        vdev.children.iter_mut().fold(changed, |any, child| forget(child, within) || any)
    }
    forget(&mut shared.config.root.lock(), device)
}
