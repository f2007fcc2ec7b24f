//! Feature flags of a pool: which are enabled and active, and whether Weir can read them.
//!
//! Two ZAPs map guid -> reference count: features that a reader must support (`features_for_read`)
//! and features that only a writer must support (`features_for_write`). Count 0 means enabled,
//! above 0 active. Format: module/zfs/zfeature.c.

use errors::{Error, Result};
use object::ObjectSet;
use object::zap::Zap;
use ondisk::feature::{self, Support};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{config, directory};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct Features {
    /// Reference count by guid, of features that matter for reading.
    pub for_read: BTreeMap<String, u64>,
    /// Reference count by guid, of features that matter only for writing.
    pub for_write: BTreeMap<String, u64>,
    /// Description by guid, from the writer, for features that are unknown here.
    pub descriptions: BTreeMap<String, String>,
}

impl Features {
    /// Loads the three ZAPs; pools of versions before 5000 have none.
    pub fn load(mos: &ObjectSet, dir: &Zap) -> Result<Self> {
        let zap = |name: &str| -> Result<Option<Zap>> {
            match dir.lookup_u64(name)? {
                Some(id) if id != 0 => Zap::open(mos.object(id)?).map(Some),
                _ => Ok(None),
            }
        };
        let counts = |name: &str| -> Result<BTreeMap<String, u64>> {
            let mut found = BTreeMap::new();
            if let Some(z) = zap(name)? {
                for e in z.entries()? {
                    found.insert(String::from_utf8_lossy(&e.name).into_owned(), e.value.as_u64().unwrap_or(0));
                }
            }
            Ok(found)
        };
        let mut descriptions = BTreeMap::new();
        if let Some(z) = zap(directory::FEATURE_DESCRIPTIONS)? {
            for e in z.entries()? {
                descriptions
                    .insert(String::from_utf8_lossy(&e.name).into_owned(), e.value.as_string().unwrap_or_default());
            }
        }
        Ok(Self {
            for_read: counts(directory::FEATURES_FOR_READ)?,
            for_write: counts(directory::FEATURES_FOR_WRITE)?,
            descriptions,
        })
    }

    /// Reference count of a feature; `None` if it is not enabled.
    pub fn count(&self, guid: &str) -> Option<u64> {
        self.for_read.get(guid).or_else(|| self.for_write.get(guid)).copied()
    }

    /// Whether a feature is active: its reference count is above 0.
    pub fn is_active(&self, guid: &str) -> bool {
        self.count(guid).is_some_and(|n| n > 0)
    }

    /// Refuses a pool with active features that cannot be read, with an error that names each of
    /// them.
    pub fn check_readable(&self, pool: &str) -> Result<()> {
        let unknown: Vec<String> = self
            .for_read
            .iter()
            .filter(|(guid, count)| **count > 0 && !readable(guid))
            .map(|(guid, _)| match self.descriptions.get(guid) {
                Some(text) => format!("{guid} ({text})"),
                None => guid.clone(),
            })
            .collect();
        refuse(pool, &unknown)
    }
}

/// Refuses a label that names unsupported features that are needed to read the MOS.
pub fn check_label(label: &Nvlist) -> Result<()> {
    let Some(list) = label.get_nvlist(config::FEATURES_FOR_READ) else { return Ok(()) };
    let unknown: Vec<String> =
        list.pairs.iter().map(|p| p.name_lossy().into_owned()).filter(|guid| !readable(guid)).collect();
    refuse("", &unknown)
}

/// Features whose invariants Weir cannot maintain as a writer: while active, they make a pool
/// read-only.
const NOT_WRITTEN: &[&str] = &["block_cloning_endian", "dynamic_gang_header", "draid_failure_domains"];

/// Names of the features that a new pool gets: those of OpenZFS 2.3 that Weir can write.
pub fn default_features() -> impl Iterator<Item = &'static str> {
    const LATER: [&str; 3] = ["block_cloning_endian", "physical_rewrite", "draid_failure_domains"];
    let names = feature::FEATURES.iter().map(|f| f.name);
    names.filter(|name| can_write(name) && !LATER.contains(name))
}

/// Whether a pool on which this feature is active can be written.
pub fn can_write(name: &str) -> bool {
    feature::by_name(name).is_some() && !NOT_WRITTEN.contains(&name)
}

/// Whether the feature of that name has this guid.
pub fn is_called(name: &str, guid: &str) -> bool {
    feature::by_name(name).is_some_and(|f| f.guid == guid)
}

fn readable(guid: &str) -> bool {
    feature::by_guid(guid).is_some_and(|f| f.support != Support::None)
}

fn refuse(place: &str, unknown: &[String]) -> Result<()> {
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(Error::unsupported(place, format!("feature(s): {}", unknown.join(", "))))
    }
}
