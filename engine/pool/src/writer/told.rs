//! What the txg engine tells of a pool: its configuration was written, its history grew, leaves changed their state.
//!
//! States are compared after each txg, and when the pool stops: so whatever changes them is told, in one place.
//! Facts: vdev_set_state, spa_history_log_notify (module/zfs).

use super::Shared;
use crate::config::VdevConfig;
use crate::facts;
use block::vdev::{Aux, Leaf, Vdev};
use block::zevent::class;
use ondisk::history::keys;
use ondisk::nvlist::Nvlist;
use parking_lot::Mutex;
use std::collections::HashMap;

/// By guid: the state that was last told (`vdev_state_t`).
#[derive(Default)]
pub(super) struct States(Mutex<HashMap<u64, u64>>);

/// `VDEV_STATE_UNKNOWN` and `VDEV_STATE_HEALTHY`.
const UNKNOWN: u64 = 0;
const HEALTHY: u64 = 7;

/// Names of a record of the history, and what events call them, in the order of events.
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
    /// The pool's name or identity is another one.
    pub(super) fn tell_identity(&self) {
        let identity = self.identity.lock();
        self.store.reporter().set_identity(&identity.name, identity.guid);
    }

    /// What the property says, as the pool was opened.
    pub(super) fn tell_failmode(&self) {
        let set = self.base.as_ref().and_then(|base| base.set_properties().ok()).unwrap_or_default();
        let mode = set.iter().find(|(name, _)| name == "failmode").and_then(|(_, value)| value.as_u64());
        self.store.reporter().set_failmode(mode.unwrap_or(0));
    }

    /// The configuration is in the labels.
    pub(super) fn tell_config(&self) {
        self.store.reporter().sysevent(class::CONFIG_SYNC, |_| ());
    }

    /// Something was done to a leaf.
    pub(super) fn tell_leaf(&self, class: &str, leaf: &Leaf) {
        self.tell_vdev(class, leaf.guid, facts::state_number(leaf), Some(&leaf.path));
    }

    /// Something was done to a top-level device that is configured so.
    pub(super) fn tell_top(&self, class: &str, config: &VdevConfig, top: Option<&Vdev>) {
        self.tell_vdev(class, config.guid, facts::device_state(config, top), config.path.as_deref());
    }

    fn tell_vdev(&self, class: &str, guid: u64, state: u64, path: Option<&str>) {
        self.store.reporter().sysevent(class, |list| {
            list.put("vdev_guid", guid);
            list.put("vdev_state", state);
            if let Some(path) = path {
                list.put("vdev_path", path);
            }
        });
    }

    /// Devices joined that stand beside those there were.
    pub(super) fn tell_added(&self) {
        self.store.reporter().sysevent(class::VDEV_ADD, |_| ());
    }

    /// A scan began, ended, or rests.
    pub(super) fn tell_scan(&self, class: &str) {
        self.store.reporter().sysevent(class, |list| {
            if matches!(class, class::RESILVER_START | class::RESILVER_FINISH) {
                list.put("resilver_type", "healing");
            }
        });
    }

    /// A sequential rebuild begins or ends.
    pub(super) fn tell_rebuild(&self, class: &str) {
        self.store.reporter().sysevent(class, |list| {
            list.put("resilver_type", "sequential");
        });
    }

    /// A record stands in the history.
    pub(super) fn tell_history(&self, record: &Nvlist) {
        self.store.reporter().sysevent(class::HISTORY_EVENT, |list| {
            for (from, to) in HISTORY {
                if let Some(value) = record.get(from) {
                    list.put(to, value.clone());
                }
            }
        });
    }

    /// Tells which leaves are in another state than before. Of one that was not known, only that it is not well.
    pub(super) fn tell_states(&self) {
        let tree = self.store.tree();
        let mut known = self.states.0.lock();
        let mut now = HashMap::new();
        for leaf in tree.all_leaves() {
            let state = facts::state_number(leaf);
            let before = known.get(&leaf.guid).copied();
            if before.map_or(state != HEALTHY, |before| before != state) {
                let path = self.root.lock().find(leaf.guid).and_then(|c| c.phys_path().map(str::to_owned));
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

/// The report of a leaf that cannot be opened.
fn cannot_open(aux: Aux) -> Option<&'static str> {
    match aux {
        Aux::NotFound => Some(class::OPEN_FAILED),
        Aux::TooSmall => Some(class::TOO_SMALL),
        Aux::CorruptLabel => Some(class::BAD_LABEL),
        Aux::Offline | Aux::Removed | Aux::Faulted => None,
    }
}
