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
        // Without a transaction if nothing is to be done, but only a hint.
        if !self.is_newer(version)? {
            return Ok(());
        }
        let _in_transaction = InTransaction::begin();
        let tx = live.backing.begin(Estimate { bytes: UPGRADE_BYTES, frees: false })?;
        // Not before the transaction: see the order of locks in `live`.
        let _no_operation = self.version_lock.write();
        if !self.is_newer(version)? {
            return Ok(());
        }
        let master = self.master_zap()?;
        let tables = match version.has_system_attributes() {
            true => Some(self.tables(&tx, &master)?),
            false => None,
        };
        if let Err(error) = master.update_u64(&tx, "VERSION", version.0) {
            if let Some(Tables { id, is_new: true }) = tables {
                let _ = master.remove(&tx, "SA_ATTRS").and_then(|()| self.objset.free_object(&tx, id));
            }
            return Err(error);
        }
        if let Some(tables) = tables {
            self.sa.set_home(&self.objset, tables.id);
        }
        self.version.store(version.0, Ordering::SeqCst);
        // No record describes the upgrade, and records that follow need it.
        live.backing.unloggable_for_all(&tx);
        Ok(())
    }

    /// Whether `version` is newer than that of the file system. Fails if it is older.
    fn is_newer(&self, version: Version) -> Result<bool> {
        let now = self.version();
        match version < now {
            true => Err(Error::invalid("", format!("Can not downgrade; already at version {}", now.0))),
            false => Ok(version > now),
        }
    }

    fn master_zap(&self) -> Result<Zap> {
        Zap::open(self.object(MASTER_NODE)?)
    }

    /// The object in which the tables of attributes are found: that of the master node, which was
    /// loaded with the file system, or a new one.
    fn tables(&self, tx: &Tx, master: &Zap) -> Result<Tables> {
        if let Some(id) = master.lookup_u64("SA_ATTRS")?.filter(|id| *id != 0) {
            let object = self.object(id)?;
            let found = object.dnode().object_type;
            if found != ObjectType::SA_MASTER_NODE {
                let what = format!("SA_ATTRS has type {}, expected {}", found.0, ObjectType::SA_MASTER_NODE.0);
                return Err(Error::corrupt(object.place(), what));
            }
            return Ok(Tables { id, is_new: false });
        }
        let zap = Zap::create(&self.objset, tx, &ZapSpec::new(ObjectType::SA_MASTER_NODE))?;
        let id = zap.object().map_or(0, object::Object::id);
        // Not inserted, because an earlier value of 0 stands for none.
        master.update_u64(tx, "SA_ATTRS", id).inspect_err(|_| {
            let _ = self.objset.free_object(tx, id);
        })?;
        Ok(Tables { id, is_new: true })
    }
}

/// The object `SA_ATTRS`.
struct Tables {
    id: u64,
    is_new: bool,
}
