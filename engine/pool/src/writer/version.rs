//! Raising the version of a pool.
//!
//! Facts: spa_sync_version, spa_sync_upgrades, spa_sync_config_object (module/zfs/spa.c).
//!
//! Invariants:
//!   * the datasets are converted, and the version rises, in one txg

use super::features::LiveFeatures;
use super::spa::SyncTx;
use errors::{Error, Result};
use ondisk::pool_dir::directory;
use ondisk::version;
use ondisk::zap::Value as ZapValue;

/// Version of pools with feature flags.
pub const VERSION_FEATURES: u64 = ondisk::uberblock::VERSION_FEATURES;
/// The last version before feature flags.
pub const VERSION_LAST_NUMBERED: u64 = version::LAST_NUMBERED;

/// Whether there is such a version.
pub fn is_version(version: u64) -> bool {
    (1..=VERSION_LAST_NUMBERED).contains(&version) || version == VERSION_FEATURES
}

/// Copies that blocks may have in a pool of this version (`spa_max_replication`).
pub(crate) fn copies_max(version: u64) -> u8 {
    if version < version::DITTO_BLOCKS { 1 } else { 3 }
}

impl SyncTx<'_> {
    /// Raises the version of the pool to `version`, also to feature flags. Enables no feature.
    /// Between the versions 11 and 26, datasets got new objects: `convert` creates them, when the
    /// version is the new one already. It gets the version before.
    pub fn upgrade_version(&self, version: u64, convert: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let now = self.version();
        if !is_version(version) || version < now {
            return Err(Error::invalid(self.pool_name(), format!("property 'version' number {version} is invalid.")));
        }
        if version == now {
            return Ok(());
        }
        self.all_or_nothing(|| {
            self.shared.config.identity.lock().version = version;
            let done = self.convert(now, version).and_then(|()| convert(now));
            if done.is_err() {
                self.shared.config.identity.lock().version = now;
            }
            self.config_changed();
            done?;
            self.history("set", None, &format!("version={version}"))
        })
    }

    /// Converts what belongs to the pool as a whole.
    fn convert(&self, from: u64, to: u64) -> Result<()> {
        let crosses = |version: u64| from < version && to >= version;
        if crosses(version::RAIDZ_DEFLATE) {
            // Space that was counted before keeps its parity, as in OpenZFS.
            self.directory()?.update_u64(self.tx(), directory::DEFLATE.as_bytes(), 1)?;
            let tops = self.shared.config.root.lock().children.clone();
            let tree = self.shared.store.tree();
            let ratio = |id: u64| tops.iter().find(|top| top.id == id).map_or(512, crate::usable::deflate_ratio);
            self.shared.accounting.deflate.replace(tree.tops.iter().map(|vdev| ratio(vdev.id)).collect());
        }
        self.store().set_copies_max(copies_max(to));
        if crosses(VERSION_FEATURES) {
            LiveFeatures::create_zaps(self.mos(), self.tx())?;
        }
        if self.directory()?.lookup(directory::CHECKSUM_SALT)?.is_none() {
            let salt = host::random::bytes::<32>();
            let value = ZapValue { int_bytes: 1, ints: salt.iter().map(|b| u64::from(*b)).collect() };
            self.directory()?.update(self.tx(), directory::CHECKSUM_SALT, &value)?;
            self.store().set_salt(&salt);
        }
        Ok(())
    }
}
