//! Reference counts of features, as the syncing txg changes them.
//!
//! Invariant: the counts in memory equal those in the MOS at any time within the sync.

use crate::feature::Features;
use errors::{Error, Place, Result};
use host::sync::Mutex;
use object::zap::{Zap, ZapSpec};
use object::{ObjectSet, Tx};
use ondisk::feature::{self, Feature};
use ondisk::nvlist::{Nvlist, Value};
use ondisk::pool_dir::directory;
use ondisk::{ObjectType, pool_dir};
use std::sync::Arc;

pub(crate) struct LiveFeatures {
    counts: Mutex<Features>,
    /// The labels must be updated, because the list of active features needed to read the MOS
    /// changed.
    pub label_changed: std::sync::atomic::AtomicBool,
}

impl LiveFeatures {
    pub fn new(counts: Features) -> Self {
        Self { counts: Mutex::new(counts), label_changed: false.into() }
    }

    pub fn count(&self, guid: &str) -> Option<u64> {
        self.counts.lock().count(guid)
    }

    /// Creates those of the three ZAPs that a pool lacks: all if it is new
    /// (`spa_feature_create_zap_objects`).
    pub fn create_zaps(mos: &Arc<ObjectSet>, tx: &Tx) -> Result<()> {
        let directory = Zap::open(mos.object(pool_dir::DIRECTORY_OBJECT)?)?;
        let names = [directory::FEATURES_FOR_READ, directory::FEATURES_FOR_WRITE, directory::FEATURE_DESCRIPTIONS];
        for name in names {
            if directory.lookup(name)?.is_some() {
                continue;
            }
            let zap = Zap::create(mos, tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA))?;
            directory.update_u64(tx, name.as_bytes(), zap.id())?;
        }
        Ok(())
    }

    fn zap(mos: &Arc<ObjectSet>, name: &str) -> Result<Zap> {
        let directory = Zap::open(mos.object(pool_dir::DIRECTORY_OBJECT)?)?;
        let id =
            directory.lookup_u64(name)?.ok_or_else(|| Error::corrupt("the object directory", format!("no {name}")))?;
        Zap::open(mos.object(id)?).at(name)
    }

    /// Enables a feature and its dependencies. Does nothing if it is already enabled.
    pub fn enable(&self, mos: &Arc<ObjectSet>, tx: &Tx, feature: &'static Feature) -> Result<()> {
        if self.count(feature.guid).is_some() {
            return Ok(());
        }
        for name in feature.dependencies {
            let needed = feature::by_name(name).ok_or_else(|| Error::invalid(feature.name, format!("needs {name}")))?;
            self.enable(mos, tx, needed)?;
        }
        let mut description = feature.summary.as_bytes().to_vec();
        description.push(0);
        let value = ondisk::zap::Value { int_bytes: 1, ints: description.into_iter().map(u64::from).collect() };
        Self::zap(mos, directory::FEATURE_DESCRIPTIONS)?.update(tx, feature.guid.as_bytes(), &value)?;
        self.set(mos, tx, feature, u64::from(feature.flags.is_activated_on_enable()))?;
        let enabled_txg = feature::by_name("enabled_txg").expect("in the table");
        if self.count(enabled_txg.guid).is_some() {
            let directory = Zap::open(mos.object(pool_dir::DIRECTORY_OBJECT)?)?;
            let zap = match directory.lookup_u64(directory::FEATURE_ENABLED_TXG)? {
                Some(id) => Zap::open(mos.object(id)?)?,
                None => {
                    let zap = Zap::create(mos, tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA))?;
                    directory.update_u64(tx, directory::FEATURE_ENABLED_TXG.as_bytes(), zap.id())?;
                    zap
                }
            };
            zap.update_u64(tx, feature.guid.as_bytes(), tx.txg())?;
            self.add(mos, tx, enabled_txg, 1)?;
        }
        Ok(())
    }

    /// Adds to the reference count of a feature. Fails if the feature is not enabled, or the count
    /// would become negative.
    pub fn add(&self, mos: &Arc<ObjectSet>, tx: &Tx, feature: &'static Feature, delta: i64) -> Result<()> {
        let count = self
            .count(feature.guid)
            .ok_or_else(|| Error::invalid(format!("feature@{}", feature.name), "is not enabled on this pool"))?;
        let count = count
            .checked_add_signed(delta)
            .ok_or_else(|| Error::corrupt(format!("feature@{}", feature.name), "is in use less than 0 times"))?;
        self.set(mos, tx, feature, count)
    }

    fn set(&self, mos: &Arc<ObjectSet>, tx: &Tx, feature: &'static Feature, count: u64) -> Result<()> {
        let for_write = feature.flags.is_readonly_compatible();
        let name = if for_write { directory::FEATURES_FOR_WRITE } else { directory::FEATURES_FOR_READ };
        Self::zap(mos, name)?.update_u64(tx, feature.guid.as_bytes(), count)?;
        let mut counts = self.counts.lock();
        let map = if for_write { &mut counts.for_write } else { &mut counts.for_read };
        let before = map.insert(feature.guid.to_owned(), count).unwrap_or(0);
        if feature.flags.is_needed_for_mos() && (before > 0) != (count > 0) {
            self.label_changed.store(true, std::sync::atomic::Ordering::SeqCst);
        }
        Ok(())
    }

    /// The list for labels: active features that are needed to read the MOS.
    pub fn for_label(&self) -> Nvlist {
        let counts = self.counts.lock();
        let mut list = Nvlist::new();
        for feature in feature::FEATURES {
            if feature.flags.is_needed_for_mos() && counts.is_active(feature.guid) {
                list.put(feature.guid, Value::Boolean);
            }
        }
        list
    }
}
