//! Events of the txg engine: the configuration was written, the history grew, leaves changed their
//! state.
//!
//! States are compared after each txg, and when the pool stops. So all changes are reported in one
//! place, whatever caused them. Facts: vdev_set_state, spa_history_log_notify (module/zfs).

use super::spa::Shared;
use crate::config::VdevConfig;
use crate::facts;
use block::vdev::{Aux, Leaf, Vdev};
use block::zevent::class;
use ondisk::history::keys;
use ondisk::nvlist::Nvlist;
use std::collections::HashMap;

/// `VDEV_STATE_UNKNOWN` and `VDEV_STATE_HEALTHY`.
const UNKNOWN: u64 = 0;
const HEALTHY: u64 = 7;

/// Names in a history record, with their names in events, in the order of events.
const HISTORY: [(&str, &str); 11] = [
    (keys::COMMAND, "history_command"),
    (keys::INTERNAL_NAME, "history_internal_name"),
    (keys::ZONE, "history_zone"),
    (keys::HOST, "history_hostname"),
    (keys::DATASET_NAME, "history_dsname"),
    (keys::INTERNAL_TEXT, "history_internal_str"),
    (keys::IOCTL, "history_ioctl"),
    (keys::DATASET_ID, "history_dsid"),
    (keys::TXG, "history_txg"),
    (keys::TIME, "history_time"),
    (keys::WHO, "history_who"),
];

impl Shared {
    /// Reports the pool's new name or guid.
    pub(crate) fn report_identity(&self) {
        let identity = self.config.identity.lock();
        self.store.reporter().set_identity(&identity.name, identity.guid);
    }

    /// Sets the property `failmode` as of opening the pool.
    pub(crate) fn report_failmode(&self) {
        let set = self.views.base.as_ref().and_then(|base| base.set_properties().ok()).unwrap_or_default();
        let mode = set.iter().find(|(name, _)| name == "failmode").and_then(|(_, value)| value.as_u64());
        self.store.reporter().set_failmode(mode.unwrap_or(0));
    }

    /// Reports that the configuration is in the labels.
    pub(crate) fn report_config(&self) {
        self.store.reporter().sysevent(class::CONFIG_SYNC, |_| ());
    }

    /// Reports an event of a leaf.
    pub(crate) fn report_leaf(&self, class: &str, leaf: &Leaf) {
        self.report_vdev(class, leaf.guid, facts::state_number(leaf), Some(&leaf.path));
    }

    /// Reports an event of a top-level device.
    pub(crate) fn report_top(&self, class: &str, config: &VdevConfig, top: Option<&Vdev>) {
        self.report_vdev(class, config.guid, facts::device_state(config, top), config.path.as_deref());
    }

    fn report_vdev(&self, class: &str, guid: u64, state: u64, path: Option<&str>) {
        self.store.reporter().sysevent(class, |list| {
            list.put("vdev_guid", guid);
            list.put("vdev_state", state);
            if let Some(path) = path {
                list.put("vdev_path", path);
            }
        });
    }

    /// Reports that devices were added.
    pub(crate) fn report_added(&self) {
        self.store.reporter().sysevent(class::VDEV_ADD, |_| ());
    }

    /// Reports that a scan began, ended or was paused.
    pub(crate) fn report_scan(&self, class: &str) {
        self.store.reporter().sysevent(class, |list| {
            if matches!(class, class::RESILVER_START | class::RESILVER_FINISH) {
                list.put("resilver_type", "healing");
            }
        });
    }

    /// Reports that a sequential rebuild began or ended.
    pub(crate) fn report_rebuild(&self, class: &str) {
        self.store.reporter().sysevent(class, |list| {
            list.put("resilver_type", "sequential");
        });
    }

    /// Reports a new record of the history.
    pub(crate) fn report_history(&self, record: &Nvlist) {
        self.store.reporter().sysevent(class::HISTORY_EVENT, |list| {
            for (from, to) in HISTORY {
                if let Some(value) = record.get(from) {
                    list.put(to, value.clone());
                }
            }
        });
    }

    /// Reports the leaves whose state changed. A leaf that was unknown before is reported only if
    /// it is not healthy.
    pub(crate) fn report_states(&self) {
        let tree = self.store.tree();
        let mut known = self.states.lock();
        let mut now = HashMap::new();
        for leaf in tree.all_leaves() {
            let state = facts::state_number(leaf);
            let before = known.get(&leaf.guid).copied();
            if before.map_or(state != HEALTHY, |before| before != state) {
                let path = self.config.root.lock().find(leaf.guid).and_then(|c| c.phys_path().map(str::to_owned));
                let (reporter, about) = (self.store.reporter(), leaf.about());
                reporter.state_change(&about, state, before.unwrap_or(UNKNOWN), path.as_deref());
                if let Some(class) = leaf.aux().and_then(cannot_open) {
                    reporter.open_report(class, &about);
                }
            }
            now.insert(leaf.guid, state);
        }
        *known = now;
    }
}

/// Event class for a leaf that cannot be opened.
fn cannot_open(aux: Aux) -> Option<&'static str> {
    match aux {
        Aux::NotFound => Some(class::OPEN_FAILED),
        Aux::TooSmall => Some(class::TOO_SMALL),
        Aux::CorruptLabel => Some(class::BAD_LABEL),
        Aux::Offline | Aux::Removed | Aux::Faulted => None,
    }
}
