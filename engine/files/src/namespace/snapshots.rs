//! Managing snapshots through their directory: `mkdir` in `.zfs/snapshot` takes one, `mv` renames
//! it, `rmdir` destroys it.
//!
//! As in OpenZFS with `zfs_admin_snapshot` on: for root only, and over NFS only where root is not
//! squashed. Facts: module/os/linux/zfs/zfs_ctldir.c.
//!
//! Invariants:
//!   * a destroyed snapshot is stale for every user with open nodes in it; its number is never
//!     reused
//!   * a snapshot that was closed to make room for others is found again by its identity, even
//!     after a rename

use super::{Layer, Made, Namespace, Opened, Place, Provider, SNAPSHOTS_OPEN, Source, Way};
use crate::vfs::{Attr, Caller, NewNode, NodeId, RenameFlags, Vfs};
use crate::{Error, Refusal, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn place(name: &[u8]) -> String {
    format!(".zfs/snapshot/{}", String::from_utf8_lossy(name))
}

/// Basic validation of a snapshot name; the provider that takes the snapshot checks the rest.
fn short(name: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(name).map_err(|_| Refusal::NameNotUtf8.at(place(name)))?;
    match text {
        "." | ".." | "" => Err(Error::invalid(place(name), "no name of a snapshot")),
        text if text.contains(['/', '@', '#', '%']) => Err(Error::invalid(place(name), "no name of a snapshot")),
        text => Ok(text),
    }
}

fn may(who: &Caller, name: &[u8]) -> Result<()> {
    if who.privileged { Ok(()) } else { Err(Refusal::NotPermitted.at(place(name))) }
}

fn stale(opened: &Opened) -> Error {
    Refusal::Stale.at(format!("file system {} of the tree", opened.index))
}

impl Namespace {
    /// The layer whose snapshots `dir` lists, if it is such a directory.
    pub(super) fn lists_snapshots_of(&self, dir: NodeId) -> Result<Option<usize>> {
        Ok(match self.find(dir)? {
            Place::Made(_, Made::Snapshots(layer)) => Some(layer),
            _ => None,
        })
    }

    /// Whether snapshots of `layer` can be changed.
    pub(super) fn changes_snapshots(&self, layer: usize) -> bool {
        self.open(layer).is_ok_and(|opened| opened.provider.as_ref().is_some_and(|p| p.changes_snapshots()))
    }

    fn with_provider<R>(&self, layer: usize, run: impl FnOnce(&dyn super::Provider) -> Result<R>) -> Result<R> {
        let opened = self.open(layer)?;
        match &opened.provider {
            Some(provider) if provider.changes_snapshots() => run(&**provider),
            _ => Err(Refusal::ReadOnly.at(".zfs")),
        }
    }

    pub(super) fn take_snapshot(
        &self,
        who: &Caller,
        (layer, dir): (usize, NodeId),
        name: &[u8],
        new: &NewNode,
    ) -> Result<Attr> {
        self.with_provider(layer, |provider| {
            if *new != NewNode::Directory {
                return Err(Refusal::NotPermitted.at(place(name)));
            }
            may(who, name)?;
            provider.take_snapshot(short(name)?)
        })?;
        self.lookup(dir, name)
    }

    pub(super) fn destroy_snapshot(&self, who: &Caller, layer: usize, name: &[u8]) -> Result<()> {
        self.with_provider(layer, |provider| {
            may(who, name)?;
            provider.destroy_snapshot(short(name)?)
        })?;
        self.forget_snapshot(layer, short(name)?, true)
    }

    pub(super) fn rename_snapshot(
        &self,
        who: &Caller,
        (layer, name): (usize, &[u8]),
        (to_layer, to_name): (usize, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        if layer != to_layer {
            return Err(Refusal::CrossDevice.at(".zfs"));
        }
        if flags.exchange || flags.whiteout {
            return Err(Error::invalid(place(name), "snapshots do not change places"));
        }
        self.with_provider(layer, |provider| {
            may(who, name)?;
            let (from, to) = (short(name)?, short(to_name)?);
            if from == to { Ok(()) } else { provider.rename_snapshot(from, to) }
        })?;
        self.forget_snapshot(layer, short(name)?, false)
    }

    /// Makes the name no longer lead to its old target. With `gone`, open nodes of that target
    /// become stale too.
    fn forget_snapshot(&self, layer: usize, name: &str, gone: bool) -> Result<()> {
        let door = self.known.lock().remove(&(layer, Source::Snapshot(name.to_owned())));
        let Some(index) = door.and_then(|door| self.behind(door)) else { return Ok(()) };
        self.by_guid.lock().retain(|_, known| *known != index);
        if gone {
            self.layer_at(index)?.let_go();
        }
        Ok(())
    }

    /// Reports to a reader of a snapshot that was destroyed in the meantime that it is stale,
    /// instead of returning the data found where its blocks were.
    pub(super) fn told<T>(&self, opened: &Opened, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::Corrupt { .. } | Error::Io { .. }) if self.is_gone(opened) => Err(stale(opened)),
            result => result,
        }
    }

    /// Called just after snapshot `opened` was opened: closes snapshots that were not used recently
    /// while too many are open. Calls that use one of them complete first, since each holds a
    /// reference to what it uses.
    pub(super) fn close_unused_snapshots(&self, opened: usize) {
        let mut open = self.open_snapshots.lock();
        open.push_back(opened);
        // Two passes: the first pass only marks those that were used.
        for _ in 0..2 * open.len() {
            if open.len() <= SNAPSHOTS_OPEN {
                return;
            }
            let Some(index) = open.pop_front() else { return };
            let Ok(layer) = self.layer_at(index) else { continue };
            if index == opened || layer.used.swap(false, Ordering::Relaxed) {
                open.push_back(index);
                continue;
            }
            // Does not wait: the thread that holds the slot may wait for this list.
            match layer.opened.try_lock() {
                Some(mut slot) => *slot = None,
                None => open.push_back(index),
            }
        }
    }

    fn is_gone(&self, opened: &Opened) -> bool {
        let Ok(layer) = self.layer_at(opened.index) else { return false };
        if !matches!(layer.source, Source::Snapshot(_)) {
            return false;
        }
        let Ok(guid) = Self::guid_of(opened) else { return false };
        let provider = self.open(layer.above).ok().and_then(|above| above.provider.clone());
        // By its identity: it may have been renamed.
        let gone = provider.is_some_and(|provider| provider.way_to(guid).is_ok_and(|way| way.is_none()));
        if gone {
            layer.let_go();
        }
        gone
    }
}

impl Layer {
    /// Opens the snapshot called `name`, or the one that this layer had open before, whatever its
    /// current name. The caller holds the lock of `opened`.
    pub(super) fn open_snapshot(&self, index: usize, provider: &dyn Provider, name: &str) -> Result<Arc<dyn Vfs>> {
        let guid_of = |vfs: &Arc<dyn Vfs>| vfs.handle(vfs.root()).ok().map(|handle| handle.fs_guid);
        let Some(&guid) = self.guid.get() else {
            let vfs = provider.open_snapshot(name)?;
            if let Some(guid) = guid_of(&vfs) {
                let _ = self.guid.set(guid);
            }
            return Ok(vfs);
        };
        match provider.open_snapshot(name) {
            Ok(vfs) if guid_of(&vfs) == Some(guid) => return Ok(vfs),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Some(Way::Snapshot(name)) = provider.way_to(guid)? {
            let vfs = provider.open_snapshot(&name)?;
            if guid_of(&vfs) == Some(guid) {
                return Ok(vfs);
            }
        }
        self.gone.store(true, Ordering::Release);
        Err(Refusal::Stale.at(format!("file system {index} of the tree")))
    }

    /// Marks it as gone; it is never opened again.
    fn let_go(&self) {
        self.gone.store(true, Ordering::Release);
        *self.opened.lock() = None;
    }

    /// Refuses access to a snapshot that is gone.
    pub(super) fn check(self: &Arc<Self>, index: usize) -> Result<()> {
        match self.gone.load(Ordering::Acquire) {
            true => Err(Refusal::Stale.at(format!("file system {index} of the tree"))),
            false => Ok(()),
        }
    }
}
