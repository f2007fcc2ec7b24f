//! The pool's properties: name, kind, default, column and values, in the order of `zpool get all`.
//!
//! A property is defined once, in [`CATALOGUE`]; lists, help and checks are derived from it. Values
//! come from [`PropertyContext`], plain data that an open pool supplies. Facts:
//! module/zcommon/zpool_prop.c and the output of OpenZFS 2.3.
//!
//! Invariants:
//!   * the order of the catalogue is that of OpenZFS, which only appends

use crate::feature::{Features, can_write};
use crate::stats::PoolStats;
use ondisk::feature::{FEATURES, Feature, by_name};
use std::collections::BTreeMap;

mod catalogue;
mod definition;
pub use catalogue::{CATALOGUE, FEATURES_2_3};
pub use definition::{Kind, PropertyDef};

/// The property of this name, or of this short name: the heading of its column in small letters.
pub fn find(name: &str) -> Option<&'static PropertyDef> {
    CATALOGUE.iter().find(|d| d.name == name || d.column.to_ascii_lowercase() == name)
}

/// The full name of a property that may be given by its short name. Returns other names (features,
/// user properties) unchanged.
pub fn full_name(name: &str) -> &str {
    find(name).map_or(name, |def| def.name)
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The property cannot be set: `-`.
    None,
    /// The property is not set.
    Default,
    /// Set on this pool.
    Local,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value: `-`.
    Absent,
    /// A number, printed as the definition's kind requires.
    Number(u64),
    /// A word or text.
    Text(String),
}

/// A property of a pool, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    pub name: String,
    /// `None` for features and user properties.
    pub def: Option<&'static PropertyDef>,
    pub value: Value,
    pub source: Source,
}

/// A property as stored in the pool's `pool_props` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetValue {
    /// A number, or the index of a word.
    Number(u64),
    Text(String),
}

/// The data from which property values are derived.
#[derive(Debug, Clone, Default)]
pub struct PropertyContext {
    /// Name of the pool.
    pub name: String,
    /// Guid of the pool.
    pub guid: u64,
    /// Guid of this import.
    pub load_guid: u64,
    /// On-disk version, 5000 with feature flags.
    pub version: u64,
    /// `ONLINE`, `DEGRADED` …
    pub health: String,
    /// The pool is imported read-only.
    pub readonly: bool,
    /// Prefix of all mount points, if given at import.
    pub altroot: Option<String>,
    /// Set at import: `none` or a path.
    pub cachefile: Option<String>,
    /// Comment of the pool, from its configuration.
    pub comment: Option<String>,
    /// `compatibility`, from its configuration.
    pub compatibility: Option<String>,
    /// Name of the dataset that `bootfs` refers to.
    pub bootfs: Option<String>,
    pub stats: PoolStats,
    /// Contents of the `pool_props` object; a name with a colon is a user property.
    pub set: BTreeMap<String, SetValue>,
    pub features: Features,
}

impl PropertyContext {
    /// The properties that `zpool get all` lists: native ones, user properties, features.
    pub fn all(&self) -> Vec<Property> {
        let native = CATALOGUE.iter().filter(|d| d.listed).filter_map(|d| self.get(d.name));
        let users = self.set.keys().filter(|k| k.contains(':')).filter_map(|k| self.get(k));
        let mut all: Vec<Property> = native.chain(users).collect();
        all.extend(listed_features(&self.features).filter_map(|f| self.get(&format!("feature@{}", f.name))));
        all.extend(self.unsupported());
        all
    }

    fn unsupported(&self) -> Vec<Property> {
        let unknown = |(guid, count): (&String, &u64), word: &str| Property {
            name: format!("unsupported@{guid}"),
            def: None,
            value: Value::Text(if *count > 0 { word } else { "inactive" }.into()),
            source: Source::Local,
        };
        let known = |guid: &str| ondisk::feature::by_guid(guid).is_some();
        let read = self.features.for_read.iter().filter(|f| !known(f.0)).map(|f| unknown(f, "readonly"));
        let write = self.features.for_write.iter().filter(|f| !known(f.0)).map(|f| unknown(f, "readonly"));
        read.chain(write).collect()
    }

    /// A property by name: native, `feature@`, `unsupported@`, or a user property.
    pub fn get(&self, name: &str) -> Option<Property> {
        if let Some(feature) = name.strip_prefix("feature@") {
            return self.feature(feature);
        }
        if name.starts_with("unsupported@") {
            return self.unsupported().into_iter().find(|p| p.name == name);
        }
        if name.contains(':') {
            let (value, source) = match self.set.get(name) {
                Some(SetValue::Text(text)) => (Value::Text(text.clone()), Source::Local),
                // As in OpenZFS, any user property has a value: `-`.
                _ => (Value::Absent, Source::Default),
            };
            return Some(Property { name: name.into(), def: None, value, source });
        }
        let def = find(name)?;
        let (value, source) = self.native(def);
        Some(Property { name: def.name.into(), def: Some(def), value, source })
    }

    fn feature(&self, name: &str) -> Option<Property> {
        let feature = FEATURES.iter().find(|f| f.name == name || f.guid == name)?;
        let state = match self.features.count(feature.guid) {
            None => "disabled",
            Some(0) => "enabled",
            Some(_) => "active",
        };
        let (name, value) = (format!("feature@{}", feature.name), Value::Text(state.into()));
        Some(Property { name, def: None, value, source: Source::Local })
    }

    fn native(&self, def: &'static PropertyDef) -> (Value, Source) {
        let stats = &self.stats;
        let number = |n: u64| (Value::Number(n), Source::None);
        let number_or_absent = |n: u64| (if n == 0 { Value::Absent } else { Value::Number(n) }, Source::None);
        let text = |t: &Option<String>| match t {
            Some(t) if !t.is_empty() => (Value::Text(t.clone()), Source::Local),
            _ => (Value::Absent, Source::Default),
        };
        match def.name {
            "name" => (Value::Text(self.name.clone()), Source::None),
            "size" => number(stats.size_bytes),
            "capacity" => number(stats.capacity_percent()),
            "altroot" => text(&self.altroot),
            "health" => (Value::Text(self.health.clone()), Source::None),
            "guid" => number(self.guid),
            "version" if self.version >= 1000 => (Value::Absent, Source::Default),
            "version" => (Value::Number(self.version), Source::Local),
            "bootfs" => text(&self.bootfs),
            "cachefile" => text(&self.cachefile),
            "comment" => text(&self.comment),
            "compatibility" => match text(&self.compatibility) {
                (Value::Absent, _) => (Value::Text("off".into()), Source::Default),
                set => set,
            },
            "dedupratio" => number(stats.dedup_ratio),
            "free" => number(stats.free_bytes),
            "allocated" => number(stats.allocated_bytes),
            "readonly" => (Value::Text(if self.readonly { "on" } else { "off" }.into()), Source::None),
            "expandsize" => number_or_absent(stats.expandsize_bytes),
            "freeing" => number(stats.freeing_bytes),
            "fragmentation" => (stats.fragmentation_percent.map_or(Value::Absent, Value::Number), Source::None),
            "leaked" => number(stats.leaked_bytes),
            "checkpoint" => number_or_absent(stats.checkpoint_bytes),
            "load_guid" => number(self.load_guid),
            "bcloneused" => number(stats.clone_used_bytes),
            "bclonesaved" => number(stats.clone_saved_bytes),
            "bcloneratio" => number(stats.clone_ratio),
            "dedup_table_size" => number(stats.dedup_table_bytes),
            "last_scrubbed_txg" => number(stats.last_scrubbed_txg),
            "maxblocksize" => {
                number(if self.features.count("org.open-zfs:large_blocks").is_some() { 16 << 20 } else { 128 << 10 })
            }
            "maxdnodesize" => {
                number(if self.features.count("org.zfsonlinux:large_dnode").is_some() { 16 << 10 } else { 512 })
            }
            _ => self.settable(def),
        }
    }

    /// Value of a property that is stored only in the `pool_props` object.
    fn settable(&self, def: &'static PropertyDef) -> (Value, Source) {
        let default = match def.name {
            "delegation" => 1,
            "dedup_table_quota" => u64::MAX,
            _ => 0,
        };
        let (number, source) = match self.set.get(def.name) {
            Some(SetValue::Number(n)) => (*n, Source::Local),
            Some(SetValue::Text(t)) => return (Value::Text(t.clone()), Source::Local),
            None => (default, Source::Default),
        };
        let value = match def.kind {
            Kind::Word(words) => match words.get(usize::try_from(number).unwrap_or(usize::MAX)) {
                Some(word) => Value::Text((*word).into()),
                None => Value::Number(number),
            },
            _ if def.name == "dedup_table_quota" && number == u64::MAX => Value::Text("auto".into()),
            _ if def.name == "dedup_table_quota" && number == 0 => Value::Text("none".into()),
            _ => Value::Number(number),
        };
        (value, source)
    }

    /// Whether a feature is disabled that both OpenZFS 2.3 and Weir enable on new pools, and that
    /// `is_requested` by the property `compatibility`.
    pub fn lacks_features(&self, is_requested: impl Fn(&str) -> bool) -> bool {
        let off = |name: &&str| by_name(name).is_none_or(|f| self.features.count(f.guid).is_none());
        self.version >= 5000 && FEATURES_2_3.iter().filter(|name| can_write(name) && is_requested(name)).any(off)
    }

    /// Whether a feature is enabled that the property `compatibility` does not request.
    pub fn has_superfluous_features(&self, is_requested: impl Fn(&str) -> bool) -> bool {
        FEATURES.iter().any(|f| self.features.count(f.guid).is_some() && !is_requested(f.name))
    }
}

/// Features to list: those of OpenZFS 2.3, and newer ones that the pool has.
fn listed_features(features: &Features) -> impl Iterator<Item = &'static Feature> {
    let newer = FEATURES.iter().filter(|f| !FEATURES_2_3.contains(&f.name) && features.count(f.guid).is_some());
    FEATURES_2_3.iter().filter_map(|name| by_name(name)).chain(newer)
}

#[cfg(test)]
mod tests;
