//! Stores properties of the pool in the object `pool_props` and in the configuration.
//!
//! Source: `spa_sync_props` (module/zfs/spa.c).

use super::spa::SyncTx;
use crate::property::SetValue;
use errors::{Error, Result};
use object::zap::{Zap, ZapSpec};
use ondisk::ObjectType;
use ondisk::pool_dir::directory;
use ondisk::uberblock::VERSION_FEATURES;
use ondisk::zap::Value as ZapValue;

pub(crate) fn on_disk(value: &SetValue) -> ZapValue {
    match value {
        SetValue::Number(n) => ZapValue::one(*n),
        SetValue::Text(text) => ZapValue { int_bytes: 1, ints: text.bytes().chain([0]).map(u64::from).collect() },
    }
}

pub(crate) fn shown(value: &SetValue) -> String {
    match value {
        SetValue::Number(n) => (*n as i64).to_string(),
        SetValue::Text(text) => text.clone(),
    }
}

impl SyncTx<'_> {
    /// Sets a property of the pool. The value must be valid. Comment and compatibility are stored
    /// in the configuration, all others in an object of their own. An empty text removes a user
    /// property.
    pub fn set_pool_property(&self, name: &str, value: &SetValue) -> Result<()> {
        let text = match value {
            SetValue::Text(text) => Some(text.clone()),
            SetValue::Number(_) => None,
        };
        let filled = text.clone().filter(|t| !t.is_empty());
        match name {
            "comment" => {
                self.shared.config.identity.lock().comment = filled;
                self.config_changed();
            }
            "compatibility" => {
                self.shared.config.identity.lock().compatibility = filled.filter(|t| t != "off");
                self.config_changed();
            }
            _ => {
                let zap = self.linked_zap(directory::PROPS)?;
                if text.is_some() && filled.is_none() {
                    if zap.lookup(name)?.is_some() {
                        zap.remove(self.tx(), name.as_bytes())?;
                    }
                } else {
                    if let ("dedup_table_quota", SetValue::Number(bytes)) = (name, value) {
                        self.shared.accounting.dedup.set_quota(*bytes);
                    }
                    if let ("failmode", SetValue::Number(mode)) = (name, value) {
                        self.store().reporter().set_failmode(*mode);
                    }
                    zap.update(self.tx(), name.as_bytes(), &on_disk(value))?;
                    if let ("autotrim", SetValue::Number(on)) = (name, value) {
                        self.shared.allocator.note_untrimmed(*on != 0);
                    }
                    if let ("multihost", SetValue::Number(on)) = (name, value) {
                        // From this txg on, uberblocks have multihost fields, or not.
                        self.shared.background.heartbeats.switch(*on != 0)?;
                    }
                    if ("autoexpand", &SetValue::Number(1)) == (name, value) {
                        super::grow::expand_all(self);
                    }
                }
            }
        }
        self.history("set", None, &format!("{name}={}", shown(value)))
    }

    /// Value of a numeric property, if it is set.
    pub(crate) fn pool_number(&self, name: &str) -> Result<Option<u64>> {
        match self.directory_entry(directory::PROPS)?.filter(|id| *id != 0) {
            Some(id) => Zap::open(self.mos().object(id)?)?.lookup_u64(name),
            None => Ok(None),
        }
    }

    /// Enables a feature and records it in the history. The pool must have feature flags.
    pub fn enable_feature_property(&self, name: &str) -> Result<()> {
        if ondisk::feature::by_name(name).is_none() {
            return Err(Error::invalid(name, "is no feature"));
        }
        if self.version() < VERSION_FEATURES {
            return Err(Error::invalid(self.pool_name(), "has no feature flags, and must be upgraded first"));
        }
        self.all_or_nothing(|| {
            self.feature_enable(name)?;
            self.history("set", None, &format!("feature@{name}=enabled"))
        })
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
