//! Properties of the pool and of its devices, as they are kept: in the object `pool_props`, in the configuration, in the
//! devices' ZAPs.
//!
//! Source: `spa_sync_props` (module/zfs/spa.c), `vdev_props_set_sync` (module/zfs/vdev.c).

use super::tx::SyncTx;
use crate::property::SetValue;
use crate::{Error, Result};
use object::ZapValue;
use object::zap::{Zap, ZapSpec};
use ondisk::ObjectType;
use ondisk::pool_dir::{config, directory};

fn on_disk(value: &SetValue) -> ZapValue {
    match value {
        SetValue::Number(n) => ZapValue::one(*n),
        SetValue::Text(text) => ZapValue { int_bytes: 1, ints: text.bytes().chain([0]).map(u64::from).collect() },
    }
}

fn shown(value: &SetValue) -> String {
    match value {
        SetValue::Number(n) => (*n as i64).to_string(),
        SetValue::Text(text) => text.clone(),
    }
}

impl SyncTx<'_> {
    /// Sets a property of the pool, known to be a good one: comment and compatibility stand in the configuration, all others
    /// in an object of their own. An empty text takes a user property away.
    pub fn set_pool_property(&self, name: &str, value: &SetValue) -> Result<()> {
        let text = match value {
            SetValue::Text(text) => Some(text.clone()),
            SetValue::Number(_) => None,
        };
        let filled = text.clone().filter(|t| !t.is_empty());
        match name {
            "comment" => {
                self.shared.identity.lock().comment = filled;
                self.config_changed();
            }
            "compatibility" => {
                self.shared.identity.lock().compatibility = filled.filter(|t| t != "off");
                self.config_changed();
            }
            _ => {
                let zap = self.linked_zap(directory::PROPS)?;
                if text.is_some() && filled.is_none() {
                    if zap.lookup(name)?.is_some() {
                        zap.remove(self.tx(), name.as_bytes())?;
                    }
                } else {
                    zap.update(self.tx(), name.as_bytes(), &on_disk(value))?;
                }
            }
        }
        self.history("set", None, &format!("{name}={}", shown(value)))
    }

    /// Enables a feature, and says so in the history.
    pub fn enable_feature_property(&self, name: &str) -> Result<()> {
        self.feature_enable(name)?;
        self.history("set", None, &format!("feature@{name}=enabled"))
    }

    /// Sets a property of the device with identity `guid` (0: of all together).
    pub fn set_vdev_property(&self, guid: u64, name: &str, value: &SetValue) -> Result<()> {
        let zap = {
            let root = self.shared.root.lock();
            let vdev = if guid == 0 { Some(&*root) } else { root.find(guid) };
            let vdev = vdev.ok_or_else(|| Error::not_found(guid.to_string(), "the device"))?;
            let names = [config::VDEV_ROOT_ZAP, config::VDEV_TOP_ZAP, config::VDEV_LEAF_ZAP];
            names.iter().map(|name| vdev.number(name)).find(|id| *id != 0)
        };
        let Some(zap) = zap else {
            return Err(Error::unsupported(guid.to_string(), "properties of a device that has no place for them"));
        };
        let zap = Zap::open(self.mos().object(zap)?)?;
        match value {
            SetValue::Text(text) if text.is_empty() => {
                if zap.lookup(name)?.is_some() {
                    zap.remove(self.tx(), name.as_bytes())?;
                }
            }
            value => zap.update(self.tx(), name.as_bytes(), &on_disk(value))?,
        }
        self.history("vdev set", None, &format!("vdev_guid={guid}: {name}={}", shown(value)))
    }

    fn linked_zap(&self, name: &str) -> Result<Zap> {
        match self.directory_entry(name)? {
            Some(id) => Zap::open(self.mos().object(id)?),
            None => Zap::create_linked(
                self.mos(),
                self.tx(),
                &ZapSpec::new(ObjectType::POOL_PROPS),
                &self.directory()?,
                name,
            ),
        }
    }
}
