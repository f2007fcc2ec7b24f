//! Managing snapshots through their directory: `mkdir` in `.zfs/snapshot` takes one, `mv` renames
//! it, `rmdir` destroys it.
//!
//! As in OpenZFS with `zfs_admin_snapshot` on: for root, and for users to whom it was delegated
//! (`zfs allow`), which the provider checks. Over NFS for root only, and only where root is not
//! squashed. Facts: module/os/linux/zfs/zfs_ctldir.c.
//!
//! Invariants:
//!   * a destroyed snapshot is stale for every user with open nodes in it
//!   * nothing is changed for a caller that is neither privileged nor identified by the kernel

use super::layers::Source;
use super::nodes::Made;
use super::{Namespace, Place};
use crate::vfs::{Attr, Caller, NewNode, NodeId, RenameFlags, Vfs};
use errors::{Error, Refusal, Result};

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
    if who.privileged || who.is_local { Ok(()) } else { Err(Refusal::PermissionDenied.at(place(name))) }
}

impl Namespace {
    /// The layer whose snapshots `dir` lists, if it is such a directory.
    pub(super) fn lists_snapshots_of(&self, dir: NodeId) -> Result<Option<u64>> {
        Ok(match self.find(dir)? {
            Place::Made(_, Made::Snapshots(layer)) => Some(layer),
            _ => None,
        })
    }

    /// Whether snapshots of `layer` can be changed.
    pub(super) fn changes_snapshots(&self, layer: u64) -> bool {
        self.open(layer).is_ok_and(|opened| opened.provider.as_ref().is_some_and(|p| p.changes_snapshots()))
    }

    fn with_provider<R>(&self, layer: u64, run: impl FnOnce(&dyn super::Provider) -> Result<R>) -> Result<R> {
        let opened = self.open(layer)?;
        match &opened.provider {
            Some(provider) if provider.changes_snapshots() => run(&**provider),
            _ => Err(Refusal::ReadOnly.at(".zfs")),
        }
    }

    pub(super) fn take_snapshot(
        &self,
        who: &Caller,
        (layer, dir): (u64, NodeId),
        name: &[u8],
        new: &NewNode,
    ) -> Result<Attr> {
        self.with_provider(layer, |provider| {
            if *new != NewNode::Directory {
                return Err(Refusal::NotPermitted.at(place(name)));
            }
            may(who, name)?;
            provider.take_snapshot(who, short(name)?)
        })?;
        self.lookup(dir, name)
    }

    pub(super) fn destroy_snapshot(&self, who: &Caller, layer: u64, name: &[u8]) -> Result<()> {
        let guid = self.with_provider(layer, |provider| {
            may(who, name)?;
            let name = short(name)?;
            let guid = provider.snapshot_guid(name).ok();
            provider.destroy_snapshot(who, name)?;
            Ok(guid)
        })?;
        // Under whatever name it was opened.
        guid.into_iter().for_each(|guid| self.drop_destroyed(guid));
        Ok(())
    }

    pub(super) fn rename_snapshot(
        &self,
        who: &Caller,
        (layer, name): (u64, &[u8]),
        (to_layer, to_name): (u64, &[u8]),
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
            if from == to { Ok(()) } else { provider.rename_snapshot(who, from, to) }
        })?;
        self.forget_name(layer, Source::Snapshot(short(name)?.into()));
        Ok(())
    }
}
