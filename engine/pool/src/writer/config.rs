//! The pool's configuration as written: complete in the MOS, one top-level device in each label.
//!
//! Source: module/zfs/spa_config.c (spa_config_generate), module/zfs/vdev_label.c
//! (vdev_config_generate).

use crate::config::VdevConfig;
use ondisk::Endian;
use ondisk::nvlist::{Nvlist, Value};
use ondisk::pool_dir::config as key;

/// Entries of a device that are stored only in the MOS (`VDEV_CONFIG_MOS`).
const MOS_ONLY: [&str; 3] = [key::VDEV_ROOT_ZAP, key::VDEV_TOP_ZAP, key::VDEV_LEAF_ZAP];
/// XDR data has the same byte order on all machines, but its header records one.
const WRITER: Endian = Endian::Little;

/// Pool states in labels (`POOL_STATE_*`).
pub(crate) const ACTIVE: u64 = 0;
pub(crate) const EXPORTED: u64 = 1;
pub(crate) const DESTROYED: u64 = 2;

/// The pool's configuration without its devices.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Name under which the pool is imported.
    pub name: String,
    /// Name on disk: different while the pool is imported under a temporary name.
    pub label_name: String,
    pub version: u64,
    pub guid: u64,
    /// 0 active, 1 exported, 2 destroyed.
    pub state: u64,
    pub hostid: u64,
    pub hostname: String,
    pub comment: Option<String>,
    pub compatibility: Option<String>,
    pub errata: u64,
}

impl Identity {
    /// Takes the values from a configuration in the MOS.
    pub fn of(config: &Nvlist, name: &str) -> Self {
        let number = |name| config.get_u64(name).unwrap_or(0);
        Self {
            name: name.to_owned(),
            label_name: config.get_str(key::POOL_NAME).unwrap_or(name).to_owned(),
            version: number(key::VERSION),
            guid: number(key::POOL_GUID),
            state: number(key::POOL_STATE),
            hostid: number(key::HOSTID),
            hostname: config.get_str(key::HOSTNAME).unwrap_or_default().to_owned(),
            comment: config.get_str(key::COMMENT).map(str::to_owned),
            compatibility: config.get_str(key::COMPATIBILITY).map(str::to_owned),
            errata: number(key::ERRATA),
        }
    }

    fn head(&self, txg: u64) -> Nvlist {
        let mut list = Nvlist::new();
        list.put(key::VERSION, self.version);
        list.put(key::POOL_NAME, self.label_name.as_str());
        list.put(key::POOL_STATE, self.state);
        list.put(key::POOL_TXG, txg);
        list.put(key::POOL_GUID, self.guid);
        list.put(key::ERRATA, self.errata);
        if let Some(comment) = &self.comment {
            list.put(key::COMMENT, comment.as_str());
        }
        if let Some(compatibility) = &self.compatibility {
            list.put(key::COMPATIBILITY, compatibility.as_str());
        }
        if self.hostid != 0 {
            list.put(key::HOSTID, self.hostid);
        }
        list.put(key::HOSTNAME, self.hostname.as_str());
        list
    }
}

/// A device as an nvlist, with the entries for the MOS or for a label.
fn tree(v: &VdevConfig, for_mos: bool) -> Nvlist {
    let mut list = v.all.clone();
    if !for_mos {
        for name in MOS_ONLY {
            list.remove(name);
        }
    }
    if !v.children.is_empty() {
        list.put(key::CHILDREN, v.children.iter().map(|c| tree(c, for_mos)).collect::<Vec<_>>());
    }
    list
}

fn tops(list: &mut Nvlist, root: &VdevConfig) {
    list.put(key::VDEV_CHILDREN, root.children.len() as u64);
    let holes: Vec<u64> = root.children.iter().filter(|c| c.kind == "hole").map(|c| c.id).collect();
    if !holes.is_empty() {
        list.put(key::HOLE_ARRAY, holes);
    }
}

/// The configuration for the MOS, packed.
pub(crate) fn for_mos(identity: &Identity, root: &VdevConfig, features: Nvlist, txg: u64) -> Vec<u8> {
    let mut list = identity.head(txg);
    if has_zaps(root) {
        list.put(key::HAS_PER_VDEV_ZAPS, Value::Boolean);
    }
    tops(&mut list, root);
    list.put(key::VDEV_TREE, tree(root, true));
    list.put(key::FEATURES_FOR_READ, features);
    list.to_xdr(WRITER)
}

fn has_zaps(root: &VdevConfig) -> bool {
    root.children.iter().any(|c| c.all.contains(key::VDEV_TOP_ZAP))
}

/// The configuration for the label of leaf `guid` below `top`.
pub(crate) fn for_label(
    identity: &Identity,
    root: &VdevConfig,
    top: &VdevConfig,
    guid: u64,
    features: Nvlist,
    txg: u64,
) -> Nvlist {
    let mut list = identity.head(txg);
    list.put(key::TOP_GUID, top.guid);
    list.put(key::GUID, guid);
    if top.number(key::IS_LOG) != 0 {
        list.put(key::IS_LOG, 1u64);
    }
    tops(&mut list, root);
    list.put(key::VDEV_TREE, tree(top, false));
    list.put(key::FEATURES_FOR_READ, features);
    list
}

/// This machine's hostid (0 unless /etc/hostid exists) and name.
pub(crate) fn this_host() -> (u64, String) {
    (host::id().map_or(0, u64::from), host::name())
}
