//! What a file handle refers to, and what the client may do with it.

use super::status::{Result, Status};
use crate::nfs::exports::Share;
use crate::nfs::figures::Figures;
use errors::{Error, Refusal};
use files::vfs::{Attr, Caller, FileHandle, FileKind, NodeId, Vfs};
use std::cell::Cell;
use std::sync::Arc;

/// The object that a file handle refers to.
#[derive(Clone)]
pub(super) enum Place {
    /// A directory above the shares, by its index in the tree.
    Pseudo(usize),
    /// A file or directory in a share.
    Node(Node),
}

/// A node of a share that this client may access.
#[derive(Clone)]
pub(super) struct Node {
    pub share: Arc<Share>,
    pub granted: Arc<Granted>,
    pub key: FileHandle,
    pub id: NodeId,
    /// Attributes that were just read; used once.
    pub fresh: Cell<Option<Attr>>,
}

impl Node {
    pub fn vfs(&self) -> &dyn Vfs {
        &*self.share.vfs
    }

    /// Records the node as the target of the current operation, for statistics.
    pub fn note(&self, figures: &Figures) {
        figures.note_file(self.share.fs_guid, &self.share.dataset, self.key.object);
    }

    /// Takes the attributes that [`Self::keep`] cached, if any; otherwise reads them.
    pub fn attr(&self) -> Result<Attr> {
        match self.fresh.take() {
            Some(attr) => Ok(attr),
            None => Ok(self.vfs().attr(self.id)?),
        }
    }

    /// Caches attributes that were just read.
    pub fn keep(&self, attr: Attr) {
        self.fresh.set(Some(attr));
    }

    /// Drops cached attributes before a change.
    pub fn changes(&self) {
        self.fresh.set(None);
    }

    pub fn who(&self) -> &Caller {
        &self.granted.who
    }

    /// Fails if the share or the file system is read-only.
    pub fn check_writable(&self) -> Result<()> {
        if self.granted.read_only || self.vfs().is_node_read_only(self.id) { Err(Status::ROFS) } else { Ok(()) }
    }

    pub fn is_regular(&self) -> Result<Attr> {
        let attr = self.attr()?;
        match attr.kind {
            FileKind::Regular => Ok(attr),
            FileKind::Directory => Err(Status::ISDIR),
            FileKind::Symlink => Err(Status::SYMLINK),
            _ => Err(Status::INVAL),
        }
    }

    pub fn is_directory(&self) -> Result<Attr> {
        let attr = self.attr()?;
        match attr.kind {
            FileKind::Directory => Ok(attr),
            FileKind::Symlink => Err(Status::SYMLINK),
            _ => Err(Status::NOTDIR),
        }
    }

    pub fn fsid(&self) -> (u64, u64) {
        (self.key.fs_guid, 0)
    }
}

/// `mounted_on_fileid` of the root of a file system.
pub(super) fn mounted_on_root(fs_guid: u64) -> u64 {
    fs_guid & (i64::MAX as u64) | 1 << 62
}

/// Whether an error of a `Vfs` means that the node no longer exists.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Refused { why: Refusal::Stale, .. })
}

/// The user's identity in a share after squashing, and the permissions there.
#[derive(Debug)]
pub(crate) struct Granted {
    pub who: Caller,
    pub read_only: bool,
    /// Writes are reported as stable before they are.
    pub is_async: bool,
}

/// Keeps a file open in the `Vfs`, so that it is not freed.
pub(super) struct KeptOpen {
    /// GUID of the pool.
    pub pool_guid: u64,
    vfs: Arc<dyn Vfs>,
    node: NodeId,
}

impl KeptOpen {
    /// For a node that was opened ([`Vfs::open_node`]).
    pub fn of(node: &Node) -> Self {
        Self { pool_guid: node.share.pool_guid, vfs: node.share.vfs.clone(), node: node.id }
    }
}

impl Drop for KeptOpen {
    fn drop(&mut self) {
        self.vfs.close_node(self.node);
    }
}
