//! What a tree of datasets requires of each of them.

use crate::vfs::{Caller, Time, Vfs};
use errors::{Error, Refusal, Result};
use std::sync::Arc;

/// Visibility of a dataset's `.zfs`, from the property `snapdir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// No `.zfs`: a snapshot has no snapshots.
    Absent,
    /// Reachable by name but not listed.
    Hidden,
    /// Listed.
    Visible,
}

/// A dataset to show below another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Path relative to the root of the parent dataset: `home`, or `a/b`.
    pub place: Vec<u8>,
    /// The key to pass to [`Provider::open_child`].
    pub key: String,
}

/// A snapshot or volume in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedName {
    pub name: String,
    /// Distinguishes it from all others in the listing for as long as it exists, also under another
    /// name and after a restart: the number of its object in the pool. Below 2^48, not 0.
    pub number: u64,
}

/// How a file system is reached from a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The dataset's own file system.
    Here,
    /// One of its snapshots.
    Snapshot(String),
    /// One of its volumes.
    Volume(String),
    /// One of its children (by key), or a file system below that child.
    Child(String),
}

/// One dataset, and what can be opened from it.
pub trait Provider: Send + Sync {
    /// Full name, for messages and the mount table.
    fn name(&self) -> String;
    /// Opens the dataset's files. Fails if it is encrypted and its key is not loaded.
    fn root(&self) -> Result<Arc<dyn Vfs>>;
    /// Visibility of `.zfs`.
    fn control(&self) -> Control;
    /// Datasets to show below this one.
    fn children(&self) -> Result<Vec<Child>>;
    /// The snapshots, in any order. A name is the part after the `@`.
    fn snapshots(&self) -> Result<Vec<NumberedName>>;
    /// The volumes below, and their snapshots as `NAME@SNAPSHOT`, in any order.
    fn volumes(&self) -> Result<Vec<NumberedName>>;
    /// Opens one of [`Self::children`].
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>>;
    /// Opens one of [`Self::snapshots`].
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>>;
    /// The `fs_guid` of the snapshot that currently has this name; the name may have belonged to
    /// another snapshot before.
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        if !self.snapshots()?.iter().any(|entry| entry.name == name) {
            return Err(Error::not_found(self.name(), format!("snapshot '{name}'")));
        }
        let vfs = self.open_snapshot(name)?;
        Ok(vfs.handle(vfs.root())?.fs_guid)
    }
    /// The same for one of [`Self::volumes`].
    fn volume_guid(&self, name: &str) -> Result<u64> {
        if !self.volumes()?.iter().any(|entry| entry.name == name) {
            return Err(Error::not_found(self.name(), format!("volume '{name}'")));
        }
        let vfs = self.open_volume(name)?;
        Ok(vfs.handle(vfs.root())?.fs_guid)
    }
    /// When a snapshot was last taken, renamed or destroyed; 1970 if that never happened. `None` if
    /// it is not known.
    fn snapshots_changed(&self) -> Result<Option<Time>> {
        Ok(None)
    }
    /// Whether snapshots can be taken, renamed and destroyed.
    fn changes_snapshots(&self) -> bool {
        false
    }
    /// Takes a snapshot. Returns [`Refusal::NotPermitted`] unless `who` is privileged or has been
    /// delegated the permission; the same holds for the next two.
    fn take_snapshot(&self, who: &Caller, name: &str) -> Result<()> {
        let _ = who;
        Err(Refusal::ReadOnly.at(format!("{}@{name}", self.name())))
    }
    fn rename_snapshot(&self, who: &Caller, from: &str, to: &str) -> Result<()> {
        let _ = (who, to);
        Err(Refusal::ReadOnly.at(format!("{}@{from}", self.name())))
    }
    /// Destroys a snapshot. Returns [`Refusal::Busy`] if it is held or has clones.
    fn destroy_snapshot(&self, who: &Caller, name: &str) -> Result<()> {
        let _ = who;
        Err(Refusal::ReadOnly.at(format!("{}@{name}", self.name())))
    }
    /// Opens one of [`Self::volumes`]; its root is a regular file.
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>>;
    /// How to reach the file system whose handles have this `fs_guid`, or `None` if there is none.
    /// The default opens every file system until it finds a match.
    fn way_to(&self, fs_guid: u64) -> Result<Option<Way>> {
        let is_it = |vfs: Result<Arc<dyn Vfs>>| {
            vfs.and_then(|vfs| vfs.handle(vfs.root())).is_ok_and(|handle| handle.fs_guid == fs_guid)
        };
        if is_it(self.root()) {
            return Ok(Some(Way::Here));
        }
        for NumberedName { name, .. } in self.snapshots()? {
            if is_it(self.open_snapshot(&name)) {
                return Ok(Some(Way::Snapshot(name)));
            }
        }
        for NumberedName { name, .. } in self.volumes()? {
            if is_it(self.open_volume(&name)) {
                return Ok(Some(Way::Volume(name)));
            }
        }
        for child in self.children()? {
            if self.open_child(&child.key).and_then(|c| c.way_to(fs_guid)).is_ok_and(|way| way.is_some()) {
                return Ok(Some(Way::Child(child.key)));
            }
        }
        Ok(None)
    }
}
