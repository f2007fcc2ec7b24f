//! What a writable file system requires of its dataset: transactions, the intent log, settings,
//! limits, the time.
//!
//! Below: the owner of the live dataset implements [`Backing`]. Above: the operations of
//! [`FileSystem`](super::FileSystem).

use super::options::Space;
pub use super::trivial_acl::{AclInherit, AclMode};
use crate::vfs::{Quota, Time, Txgs};
use dataset::intent_log::{Encoded, Reach};
use dataset::quota::Principal;
use errors::Result;
use object::Tx;
use ondisk::zil::{Body, RecordType};
use std::sync::Arc;

/// Where extended attributes are stored (`xattr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XattrMode {
    /// Extended attributes of the user namespace are disabled.
    Off,
    /// In a hidden directory.
    Dir,
    /// Among the file's attributes, if they fit.
    #[default]
    Sa,
}

/// When reading updates the access time (`atime`, `relatime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtimeMode {
    Off,
    /// If it is older than the last change, or than a day.
    #[default]
    Relative,
    Always,
}

/// Properties that control how a dataset is written. They may change at any time, so each operation
/// reads them again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The dataset is read-only (`readonly`).
    pub read_only: bool,
    /// `recordsize`.
    pub record_bytes: u32,
    /// `atime` and `relatime`.
    pub atime: AtimeMode,
    pub xattr: XattrMode,
    /// `acltype=posix`.
    pub posix_acl: bool,
    pub acl_mode: AclMode,
    pub acl_inherit: AclInherit,
    /// 512-byte slots of a new dnode (`dnodesize`; `auto` is 2).
    pub dnode_slots: u8,
    /// `longname=on`: names of up to 1023 bytes.
    pub long_names: bool,
    /// `sync=always`: operations return when their changes are on stable storage.
    pub sync_always: bool,
    /// Files may share blocks (`block_cloning` is enabled).
    pub clones: bool,
    /// Files have projects (`project_quota` is enabled, and the dataset counts by project).
    pub projects: bool,
}

impl Default for Settings {
    /// The settings of a new dataset with no property set.
    fn default() -> Self {
        Self {
            read_only: false,
            record_bytes: 128 << 10,
            atime: AtimeMode::default(),
            xattr: XattrMode::default(),
            posix_acl: false,
            acl_mode: AclMode::default(),
            acl_inherit: AclInherit::default(),
            dnode_slots: 1,
            long_names: false,
            sync_always: false,
            clones: false,
            projects: true,
        }
    }
}

/// A transaction about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of data and metadata that the transaction may write.
    pub bytes: u64,
    /// The transaction frees more than it allocates: allowed when no space is left.
    pub frees: bool,
}

/// The dataset below a writable file system.
pub trait Backing: Send + Sync {
    /// Begins a transaction. May wait for room in the open txg. Fails if the pool is out of space
    /// or the dataset is over its quota.
    fn begin(&self, estimate: Estimate) -> Result<Tx>;
    /// Adds a record to the intent log. `node` is the file that the record is about, whose sync
    /// must bring it to stable storage. During replay, this notes instead that a record was
    /// replayed.
    fn record(&self, tx: &Tx, node: u64, kind: RecordType, body: &Body<'_>);
    /// Adds records to the intent log atomically: after a crash, all of them are there or none.
    /// They are one change of `node`, which other files see as far as `reach` says.
    fn record_together(&self, tx: &Tx, node: u64, reach: Reach, records: Vec<Encoded>);
    /// Notes a change of `node` that no record describes: its commits must wait for the txg.
    fn unloggable(&self, tx: &Tx, node: u64) {
        let _ = (tx, node);
    }
    /// Does the same if records of any file may depend on the change: all commits must wait for the
    /// txg.
    fn unloggable_for_all(&self, tx: &Tx) {
        let _ = tx;
    }
    /// Notes that a file was freed: data written to it need no longer reach the log.
    fn forget(&self, node: u64) {
        let _ = node;
    }
    /// Returns once all records so far about `node` (`None`: all), and the records they depend on,
    /// are on stable storage.
    fn commit(&self, node: Option<u64>) -> Result<()>;
    /// Requests an early sync because much data is waiting for the next txg. Does not wait.
    fn sync_soon(&self) {}
    /// The current properties. The result does not follow later changes.
    fn settings(&self) -> Arc<Settings>;
    /// Current space, for statfs.
    fn space(&self) -> Space;
    /// The transaction groups of the pool, if there is one.
    fn txgs(&self) -> Option<Txgs> {
        None
    }
    /// Whether a user, group or project has used up its space or, if `objects`, its number of
    /// files.
    fn is_over_quota(&self, principal: Principal, id: u64, objects: bool) -> Result<bool> {
        let _ = (principal, id, objects);
        Ok(false)
    }
    /// Usage and limit of a user or group; `None` if it has no limit.
    fn quota(&self, principal: Principal, id: u64) -> Result<Option<Quota>> {
        let _ = (principal, id);
        Ok(None)
    }
    /// Sets a quota; 0 means no limit.
    fn set_quota(&self, tx: &Tx, principal: Principal, id: u64, objects: bool, limit: u64) -> Result<()> {
        let _ = (tx, id, objects, limit);
        Err(errors::Error::unsupported(format!("{principal:?}"), "quotas"))
    }
    /// Notes that a file got a name of more than 255 bytes.
    fn uses_long_name(&self) {}
    fn now(&self) -> Time {
        time_now()
    }
}

/// The current time of day.
pub(super) fn time_now() -> Time {
    Time::now()
}
