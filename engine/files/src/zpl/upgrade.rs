//! Raising the ZPL version of a mounted file system.
//!
//! Below: the master node has the version. Above: `zfs upgrade`, `zfs set version`. Facts:
//! zfs_set_version.
//!
//! Files and names that exist keep their form: a reader of the newer version accepts it. A znode
//! becomes system attributes when its file is next changed, see
//! [`old_znode`](super::state::old_znode).

use super::backing::Estimate;
use super::live::InTransaction;
use super::{FileSystem, MASTER_NODE, Version};
use errors::{Error, Result};
use object::zap::ZapSpec;
use object::{Tx, Zap};
use ondisk::ObjectType;
use std::sync::atomic::Ordering;

/// Bytes that an upgrade may write: the master node and an empty ZAP. Guessed.
const UPGRADE_BYTES: u64 = 64 << 10;

impl FileSystem {
    /// Raises the ZPL version to `version`, also of a file system with `readonly=on`. Fails with
    /// [`Error::Invalid`] if it is newer already.
    pub fn upgrade(&self, version: Version) -> Result<()> {
        self.named(self.upgrade_inner(version))
    }

    fn upgrade_inner(&self, version: Version) -> Result<()> {
        let live = self.live()?;
        if !(Version(1)..=Version::MAX).contains(&version) {
            return Err(Error::invalid("", format!("there is no ZPL version {}", version.0)));
        }
        if version < self.version() {
            return Err(Error::invalid("", format!("Can not downgrade; already at version {}", self.version().0)));
        }
        if version == self.version() {
            return Ok(());
        }
        let _in_transaction = InTransaction::begin();
        let tx = live.backing.begin(Estimate { bytes: UPGRADE_BYTES, frees: false })?;
        let tables = match version.has_system_attributes() {
            true => Some(self.create_tables(&tx)?),
            false => None,
        };
        let changed = self.master_zap().and_then(|master| master.update_u64(&tx, "VERSION", version.0));
        if let Err(error) = changed {
            if let Some(id) = tables {
                let removed = self.master_zap().and_then(|master| master.remove(&tx, "SA_ATTRS"));
                let _ = removed.and_then(|()| self.objset.free_object(&tx, id));
            }
            return Err(error);
        }
        if let Some(id) = tables {
            self.sa.set_home(&self.objset, id);
        }
        self.version.store(version.0, Ordering::SeqCst);
        // No record describes the upgrade, and records that follow need it.
        live.backing.unloggable_for_all(&tx);
        Ok(())
    }

    fn master_zap(&self) -> Result<Zap> {
        Zap::open(self.object(MASTER_NODE)?)
    }

    /// Creates the object in which the tables of attributes will be found.
    fn create_tables(&self, tx: &Tx) -> Result<u64> {
        let spec = ZapSpec::new(ObjectType::SA_MASTER_NODE);
        let tables = Zap::create_linked(&self.objset, tx, &spec, &self.master_zap()?, "SA_ATTRS")?;
        Ok(tables.object().map_or(0, object::Object::id))
    }
}
