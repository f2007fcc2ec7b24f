//! What a file system that can be written needs of its dataset: transactions, the intent log, settings, limits, the time.
//!
//! Below: whoever keeps the dataset live implements [`Backing`]. Above: the operations of [`FileSystem`](super::FileSystem).

use super::Space;
pub use super::trivial_acl::{AclInherit, AclMode};
use crate::Result;
use crate::vfs::{Quota, Time};
pub use dataset::intent_log::{Encoded, Reach};
use dataset::quota::Principal;
use object::Tx;
use ondisk::zil::{Body, RecordType};
use std::sync::Arc;

/// Where extended attributes are put (`xattr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XattrMode {
    /// None of the user namespace.
    Off,
    /// In a hidden directory.
    Dir,
    /// Among the file's attributes, as far as they fit.
    #[default]
    Sa,
}

/// When reading moves the access time (`atime`, `relatime`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtimeMode {
    /// Never.
    Off,
    /// When it is older than the last change, or than a day.
    #[default]
    Relative,
    /// Always.
    Always,
}

/// What properties say of how a dataset is written. They may change at any time: operations ask anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Nothing may change (`readonly`).
    pub read_only: bool,
    /// `recordsize`.
    pub record_bytes: u32,
    /// `atime` and `relatime`.
    pub atime: AtimeMode,
    /// `xattr`.
    pub xattr: XattrMode,
    /// `acltype=posix`.
    pub posix_acl: bool,
    /// `aclmode`.
    pub acl_mode: AclMode,
    /// `aclinherit`.
    pub acl_inherit: AclInherit,
    /// 512-byte slots of a new dnode (`dnodesize`; `auto` is 2).
    pub dnode_slots: u8,
    /// `longname=on`: names of up to 1023 bytes.
    pub long_names: bool,
    /// `sync=always`: operations return when they are on stable storage.
    pub sync_always: bool,
    /// Blocks may be used by several files (`block_cloning` is enabled).
    pub clones: bool,
    /// Files have projects (`project_quota` is enabled, and the dataset counts by project).
    pub projects: bool,
}

impl Default for Settings {
    /// As a new dataset with no property set.
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
    /// Bytes of data and metadata that it may write.
    pub bytes: u64,
    /// It gives back more than it takes: allowed where space is out.
    pub frees: bool,
}

/// The dataset below a file system that can be written.
pub trait Backing: Send + Sync {
    /// Begins a transaction. May wait for room in the open txg; refuses when space or the dataset's quota is out.
    fn begin(&self, estimate: Estimate) -> Result<Tx>;
    /// Puts a record into the intent log. `node`: the file that it is about, whose sync must bring it to stable storage.
    /// While the log is replayed, this notes that a record of it was done again.
    fn record(&self, tx: &Tx, node: u64, kind: RecordType, body: &Body<'_>);
    /// Puts records into the intent log of which a crash leaves all or none: one change of `node`, which other files see as far
    /// as `reach` says.
    fn record_together(&self, tx: &Tx, node: u64, reach: Reach, records: Vec<Encoded>);
    /// Something was done to `node` that no record describes: its commits must wait for the txg.
    fn unloggable(&self, tx: &Tx, node: u64) {
        let _ = (tx, node);
    }
    /// The same where records of any file may build on it: all commits must wait for the txg.
    fn unloggable_for_all(&self, tx: &Tx) {
        let _ = tx;
    }
    /// A file was freed: what was written to it need not reach the log any more.
    fn forget(&self, node: u64) {
        let _ = node;
    }
    /// Returns once all records so far about `node` (`None`: all), and those that they build on, are on stable storage.
    fn commit(&self, node: Option<u64>) -> Result<()>;
    /// Much waits for the next txg: it should come before its time. Waits for nothing.
    fn sync_soon(&self) {}
    /// The properties now.
    fn settings(&self) -> Arc<Settings>;
    /// Space for statfs.
    fn space(&self) -> Space;
    /// Whether a user, group or project has used up its space, or (`objects`) its number of files.
    fn is_over_quota(&self, principal: Principal, id: u64, objects: bool) -> Result<bool> {
        let _ = (principal, id, objects);
        Ok(false)
    }
    /// What a user or group uses and may use; `None` when it has no limit.
    fn quota(&self, principal: Principal, id: u64) -> Result<Option<Quota>> {
        let _ = (principal, id);
        Ok(None)
    }
    /// Sets such a limit; 0: none.
    fn set_quota(&self, tx: &Tx, principal: Principal, id: u64, objects: bool, limit: u64) -> Result<()> {
        let _ = (tx, id, objects, limit);
        Err(crate::Error::unsupported(format!("{principal:?}"), "quotas"))
    }
    /// A name of more than 255 bytes was given to a file.
    fn uses_long_name(&self) {}
    /// The time.
    fn now(&self) -> Time {
        time_now()
    }
}

/// The time of day.
pub(super) fn time_now() -> Time {
    Time::now()
}
