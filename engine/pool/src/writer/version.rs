//! Raising the version of a pool.
//!
//! Facts: spa_sync_version, spa_sync_upgrades.

use super::features::LiveFeatures;
use super::spa::SyncTx;
use errors::{Error, Result};
use ondisk::pool_dir::directory;
use ondisk::zap::Value as ZapValue;

/// Version of pools with feature flags.
pub const VERSION_FEATURES: u64 = ondisk::uberblock::VERSION_FEATURES;
/// The last version before feature flags. Pools of older versions are not created.
pub const VERSION_LAST_NUMBERED: u64 = 28;
/// First version whose datasets have all lists that newer versions expect: from earlier ones on,
/// an upgrade would have to find the clones of each snapshot.
const VERSION_DIR_CLONES: u64 = 26;

/// Whether there is such a version.
pub fn is_version(version: u64) -> bool {
    (1..=VERSION_LAST_NUMBERED).contains(&version) || version == VERSION_FEATURES
}

impl SyncTx<'_> {
    /// Raises the version of the pool to `version`, also to feature flags. Enables no feature.
    pub fn upgrade_version(&self, version: u64) -> Result<()> {
        if self.check_upgrade(version)? {
            self.all_or_nothing(|| self.upgrade_to(version))?;
        }
        Ok(())
    }

    /// Whether `version` is newer than that of the pool. Fails if there is no upgrade to it.
    pub(crate) fn check_upgrade(&self, version: u64) -> Result<bool> {
        let now = self.version();
        if !is_version(version) || version < now {
            return Err(Error::invalid(self.pool_name(), format!("property 'version' number {version} is invalid.")));
        }
        if version > now && now < VERSION_DIR_CLONES {
            let what = format!("upgrading pools of version {now} (known: from {VERSION_DIR_CLONES} on)");
            return Err(Error::unsupported(self.pool_name(), what));
        }
        Ok(version > now)
    }

    /// Makes an upgrade that was checked. The version rises last: if this fails, it is as before.
    pub(crate) fn upgrade_to(&self, version: u64) -> Result<()> {
        let directory = self.directory()?;
        if version >= VERSION_FEATURES {
            LiveFeatures::create_zaps(self.mos(), self.tx())?;
        }
        let lacks_salt = directory.lookup(directory::CHECKSUM_SALT)?.is_none();
        let salt = lacks_salt.then(host::random::bytes::<32>);
        if let Some(salt) = &salt {
            let value = ZapValue { int_bytes: 1, ints: salt.iter().map(|b| u64::from(*b)).collect() };
            self.directory()?.update(self.tx(), directory::CHECKSUM_SALT, &value)?;
        }
        self.history("set", None, &format!("version={version}"))?;
        if let Some(salt) = &salt {
            self.store().set_salt(salt);
        }
        self.shared.config.identity.lock().version = version;
        self.config_changed();
        Ok(())
    }
}
