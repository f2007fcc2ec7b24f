//! The members at the start of each pool or device object in JSON output.

use crate::json::{Object, number};
use admin::health;
use admin::vdev_names::{NameOptions, vdev_name};
use pool::status::{PoolStatus, VdevStatus};

/// The members of a pool: name, type, state, guid, versions.
pub fn pool(status: &PoolStatus, with_type: bool, as_int: bool) -> Object {
    let mut object = Object::new();
    object.insert("name".into(), status.name.clone().into());
    if with_type {
        object.insert("type".into(), "POOL".into());
    }
    object.insert("state".into(), health::pool_state(status).into());
    object.insert("pool_guid".into(), number(status.guid, as_int));
    if status.config_txg != 0 {
        object.insert("txg".into(), number(status.config_txg, as_int));
    }
    object.insert("spa_version".into(), number(5000, as_int));
    object.insert("zpl_version".into(), number(5, as_int));
    object
}

/// The members of a device: name, type, guid, path, class, state.
pub fn vdev(vdev: &VdevStatus, name: &str, with_type: bool, as_int: bool) -> Object {
    let mut object = Object::new();
    object.insert("name".into(), name.into());
    if with_type {
        object.insert("type".into(), "VDEV".into());
    }
    object.insert("vdev_type".into(), vdev.kind.clone().into());
    object.insert("guid".into(), number(vdev.guid, as_int));
    let texts = [("path", vdev.path.as_ref().filter(|_| vdev.is_leaf())), ("phys_path", vdev.phys_path.as_ref())];
    for (key, text) in texts.into_iter().chain([("devid", vdev.devid.as_ref())]) {
        if let Some(text) = text {
            object.insert(key.into(), text.clone().into());
        }
    }
    object.insert("class".into(), vdev.class.json_name().into());
    object.insert("state".into(), vdev.state.json_name().into());
    object
}

/// The name of a device in JSON output. The root has the pool's name.
pub fn name(vdev: &VdevStatus, status: &PoolStatus, options: NameOptions) -> String {
    if vdev.kind == "root" && !options.guid { status.name.clone() } else { vdev_name(vdev, options) }
}
