//! Resolves file handles and navigates between them: the pseudo tree, shares, and the transitions
//! between them.
//!
//! The permissions of a client are checked each time a handle is used: a client that was removed
//! from a host list cannot use an old handle.

use super::compound::Compound;
use super::node::{Granted, Node, Place, mounted_on_root};
use super::pseudo::PseudoTree;
use super::rights;
use super::status::{Result, Status};
use crate::nfs::exports::Share;
use crate::nfs::handle::WireHandle;
use errors::Error;
use files::vfs::{Attr, FileHandle, FileKind, NodeId, Time};
use std::cell::Cell;
use std::sync::Arc;

/// File system number of the pseudo tree in file handles.
const PSEUDO_FS: u64 = 0x5765_6972_0000_0004;
/// `fsid` of the pseudo tree.
const PSEUDO_FSID: (u64, u64) = (0x5765_6972, 4);

/// The status of an error of a node whose name or number was found before.
pub(super) fn stale(error: &Error) -> Status {
    match error {
        Error::NotFound { .. } => Status::STALE,
        other => Status::of(other),
    }
}

impl Compound<'_> {
    pub(super) fn tree(&self) -> &PseudoTree {
        &self.tree
    }

    /// Encodes the file handle of a place.
    pub(super) fn handle_of(&self, place: &Place) -> Result<Vec<u8>> {
        let handle = match place {
            Place::Node(node) => node.key,
            Place::Pseudo(index) => {
                let id = self.tree().dir(*index).ok_or(Status::STALE)?.id;
                FileHandle { fs_guid: PSEUDO_FS, object: id, generation: 0 }
            }
        };
        let pool_guid = match place {
            Place::Node(node) => node.share.pool_guid,
            Place::Pseudo(_) => 0,
        };
        Ok(self.server.core.handles.seal(&WireHandle { pool_guid, file: handle }).to_vec())
    }

    /// Resolves a file handle.
    pub(super) fn find(&self, bytes: &[u8]) -> Result<Place> {
        let WireHandle { pool_guid, file: handle } = self.server.core.handles.open(bytes).map_err(|e| Status(e.0))?;
        if handle.fs_guid == PSEUDO_FS {
            return self.tree().by_id(handle.object).map(Place::Pseudo).ok_or(Status::STALE);
        }
        let shared = self.share_of(pool_guid, handle.fs_guid);
        let (share, granted) = shared.map_err(|e| if e == Status::NOENT { Status::STALE } else { e })?;
        let attr = share.vfs.by_handle(&handle).map_err(|e| stale(&e))?;
        Ok(Place::Node(Node { share, granted, key: handle, id: attr.node, fresh: Cell::new(Some(attr)) }))
    }

    /// The share of a file system, with this client's permissions. `NOENT`: the file system is not
    /// shared. `ACCESS`: it is not shared with this client.
    fn share_of(&self, pool_guid: u64, fs_guid: u64) -> Result<(Arc<Share>, Arc<Granted>)> {
        if let Some((key, share, granted)) = &*self.last_share.borrow()
            && *key == (pool_guid, fs_guid)
        {
            return Ok((share.clone(), granted.clone()));
        }
        let share = self.shares.of(pool_guid, fs_guid).map_err(|e| Status(e.0))?.ok_or(Status::NOENT)?;
        let granted = Arc::new(self.server.grant(&share, self.call)?);
        *self.last_share.borrow_mut() = Some(((pool_guid, fs_guid), share.clone(), granted.clone()));
        Ok((share, granted))
    }

    /// The place of a node that was reached from another node of the same tree.
    pub(super) fn node_from(&self, from: &Node, attr: Attr) -> Result<Place> {
        let key = from.vfs().handle(attr.node)?;
        if key.fs_guid == from.key.fs_guid {
            let (share, granted) = (from.share.clone(), from.granted.clone());
            return Ok(Place::Node(Node { share, granted, key, id: attr.node, fresh: Cell::new(Some(attr)) }));
        }
        let (share, granted) = self.share_of(from.share.pool_guid, key.fs_guid)?;
        // The share may use another tree, with different node numbers.
        let attr = if Arc::ptr_eq(&share.vfs, &from.share.vfs) { attr } else { share.vfs.by_handle(&key)? };
        Ok(Place::Node(Node { share, granted, key, id: attr.node, fresh: Cell::new(Some(attr)) }))
    }

    /// A directory of the pseudo tree, or the root of the share at that place.
    pub(super) fn pseudo(&self, index: usize) -> Result<Place> {
        let dir = self.tree().dir(index).ok_or(Status::STALE)?;
        let Some(share) = dir.share.and_then(|i| self.shares.shares().get(i)) else { return Ok(Place::Pseudo(index)) };
        let (share, granted) = self.share_of(share.pool_guid, share.fs_guid)?;
        let attr = share.vfs.by_handle(&share.root())?;
        let key = share.vfs.handle(attr.node)?;
        Ok(Place::Node(Node { share, granted, key, id: attr.node, fresh: Cell::new(Some(attr)) }))
    }

    /// LOOKUP.
    pub(super) fn step(&self, from: &Place, name: &[u8]) -> Result<Place> {
        let node = match from {
            Place::Pseudo(_) if name.len() > 255 => return Err(Status::NAMETOOLONG),
            Place::Pseudo(index) => return self.pseudo(self.tree().child(*index, name).ok_or(Status::NOENT)?),
            Place::Node(node) => node,
        };
        let attr = node.is_directory()?;
        rights::check(node, &attr, rights::EXECUTE)?;
        let found = node.vfs().lookup(node.id, name).map_err(Status::from).and_then(|attr| self.node_from(node, attr));
        match found {
            // A share that is not part of this share's tree may be mounted below it.
            Err(Status::NOENT) => match self.beneath_root(node, name) {
                Some(index) => self.pseudo(index),
                None if name.len() > 255 && name.len() > node.vfs().stat_fs(node.id)?.name_max as usize => {
                    Err(Status::NAMETOOLONG)
                }
                None => Err(Status::NOENT),
            },
            found => found,
        }
    }

    /// The index of `name` in the pseudo tree, if `node` is the root of a share.
    fn beneath_root(&self, node: &Node, name: &[u8]) -> Option<usize> {
        let is_root = self.server.root_number(node.vfs(), node.key.fs_guid) == Some(node.key.object);
        if !is_root || node.key.fs_guid != node.share.fs_guid {
            return None;
        }
        let share = self.shares.shares().iter().position(|s| Arc::ptr_eq(s, &node.share))?;
        self.tree().child(self.tree().place_of(share)?, name)
    }

    /// LOOKUPP.
    pub(super) fn step_up(&self, from: &Place) -> Result<Place> {
        let node = match from {
            Place::Pseudo(0) => return Err(Status::NOENT),
            Place::Pseudo(index) => return self.pseudo(self.tree().dir(*index).ok_or(Status::STALE)?.parent),
            Place::Node(node) => node,
        };
        let attr = node.is_directory()?;
        rights::check(node, &attr, rights::EXECUTE)?;
        let above = node.vfs().lookup(node.id, b"..")?;
        if above.node != node.id
            && let Ok(place) = self.node_from(node, above)
        {
            return Ok(place);
        }
        let share = self.shares.shares().iter().position(|s| Arc::ptr_eq(s, &node.share)).ok_or(Status::STALE)?;
        match self.tree().place_of(share) {
            Some(0) | None => Err(Status::NOENT),
            Some(index) => self.pseudo(self.tree().dir(index).ok_or(Status::STALE)?.parent),
        }
    }

    /// The attributes of a place, except for those that only its `Vfs` knows.
    pub(super) fn attr_of(&self, place: &Place) -> Result<Attr> {
        match place {
            Place::Node(node) => node.attr(),
            Place::Pseudo(index) => {
                let dir = self.tree().dir(*index).ok_or(Status::STALE)?;
                let time = self.server.started;
                // A new tree gets a new change time, so that clients revalidate.
                let version = self.tree().version;
                let ctime = Time { seconds: time.seconds, nanoseconds: (version % 1_000_000_000) as u32 };
                Ok(Attr {
                    node: NodeId(dir.id),
                    ino: dir.id & i64::MAX as u64,
                    generation: 0,
                    kind: FileKind::Directory,
                    mode: 0o555,
                    links: 2 + dir.children.len() as u32,
                    uid: 0,
                    gid: 0,
                    project: 0,
                    rdev_major: 0,
                    rdev_minor: 0,
                    size: 2 + dir.children.len() as u64,
                    blocks_512: 0,
                    block_bytes: 512,
                    atime: time,
                    mtime: ctime,
                    ctime,
                    btime: time,
                })
            }
        }
    }

    pub(super) fn fsid_of(&self, place: &Place) -> (u64, u64) {
        match place {
            Place::Node(node) => node.fsid(),
            Place::Pseudo(_) => PSEUDO_FSID,
        }
    }

    /// `mounted_on_fileid`: for the root of a file system a number that no file has, otherwise the
    /// file's own.
    pub(super) fn mounted_on(&self, place: &Place, attr: &Attr) -> u64 {
        match place {
            Place::Node(node) if attr.kind == FileKind::Directory => {
                match self.server.root_number(node.vfs(), node.key.fs_guid) {
                    Some(root) if root == node.key.object => mounted_on_root(node.key.fs_guid),
                    _ => attr.ino,
                }
            }
            _ => attr.ino,
        }
    }

    /// The current place, which must be in a share.
    pub(super) fn node(&self) -> Result<&Node> {
        match self.current.as_ref().ok_or(Status::NOFILEHANDLE)? {
            Place::Node(node) => Ok(node),
            Place::Pseudo(_) => Err(Status::ROFS),
        }
    }

    pub(super) fn saved_node(&self) -> Result<&Node> {
        match self.saved.as_ref().ok_or(Status::NOFILEHANDLE)? {
            Place::Node(node) => Ok(node),
            Place::Pseudo(_) => Err(Status::ROFS),
        }
    }

    pub(super) fn current(&self) -> Result<&Place> {
        self.current.as_ref().ok_or(Status::NOFILEHANDLE)
    }
}
