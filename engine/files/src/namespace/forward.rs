//! Implements [`Vfs`] for the tree: each call is forwarded to the node's file system, with that
//! file system's own node number.
//!
//! Nodes that belong to no dataset (`.zfs`, the path to a child) are read-only, except for the
//! snapshot directory. A covered name is busy, like a mount point; files cannot be renamed from one
//! dataset to another.

use super::cookie::{self, Extras};
use super::layers::Source;
use super::nodes::{Door, Made, Nowhere};
use super::number::{self, Number};
use super::{CONTROL, Namespace, Opened, Place};
use crate::vfs::{
    Allocate, Attr, Caller, DirEntry, FileHandle, FileKind, NewNode, NodeId, Quota, QuotaOf, RenameFlags, SetAttr,
    SetXattr, StatFs, SyncKind, Time, Txgs, Vfs,
};
use bytes::Bytes;
use errors::{Error, Refusal, Result};
use ondisk::acl::Ace;
use ondisk::znode::Flags;
use std::sync::Arc;

impl Namespace {
    /// A node that can be changed.
    fn find_own(&self, node: NodeId) -> Result<(Arc<Opened>, NodeId)> {
        match self.find(node)? {
            Place::In(opened, local) => Ok((opened, local)),
            Place::Made(..) => Err(Refusal::ReadOnly.at(".zfs")),
        }
    }

    /// A directory that can be changed, in which `name` is its own entry.
    fn find_name(&self, dir: NodeId, name: &[u8], covered: Refusal) -> Result<(Arc<Opened>, NodeId)> {
        let (opened, local) = self.find_own(dir)?;
        if Self::is_root(&opened, local) && name == CONTROL && Self::has_control(&opened) {
            return Err(covered.at(".zfs"));
        }
        if !opened.covers.is_empty() && opened.covers.contains_key(&(opened.global(local)?, name.to_vec())) {
            return Err(covered.at(String::from_utf8_lossy(name)));
        }
        Ok((opened, local))
    }
}

fn same(a: &Opened, b: &Opened) -> Result<()> {
    if a.number == b.number { Ok(()) } else { Err(Refusal::CrossDevice.at("namespace")) }
}

impl Vfs for Namespace {
    fn root(&self) -> NodeId {
        self.root.vfs.root()
    }

    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let (opened, local) = match self.find(dir)? {
            Place::Made(node, made) => return self.made_lookup(node, made, name),
            Place::In(opened, local) => (opened, local),
        };
        if Self::is_root(&opened, local) {
            if name == b".." {
                return self.attr(self.parent_of(opened.number)?);
            }
            if name == CONTROL && Self::has_control(&opened) {
                let made = Made::Control(opened.number);
                return self.made_attr(self.made(made), made);
            }
        }
        if !opened.covers.is_empty()
            && let Some(&node) = opened.covers.get(&(opened.global(local)?, name.to_vec()))
        {
            return self.attr(node);
        }
        let attr = self.or_stale(&opened, opened.vfs.lookup(local, name))?;
        Ok(Attr { node: opened.global(attr.node)?, ..attr })
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.attr(local)),
            Place::Made(node, made) => self.made_attr(node, made),
        }
    }

    fn read_link(&self, node: NodeId) -> Result<Vec<u8>> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.read_link(local)),
            Place::Made(..) => Err(Error::invalid(".zfs", "not a symbolic link")),
        }
    }

    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.read(local, offset, len)),
            Place::Made(..) => Err(Error::invalid(".zfs", "not a file")),
        }
    }

    fn read_into(&self, node: NodeId, offset: u64, out: &mut [u8]) -> Result<usize> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.read_into(local, offset, out)),
            Place::Made(..) => Err(Error::invalid(".zfs", "not a file")),
        }
    }

    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        let (opened, local) = match self.find(dir)? {
            Place::Made(node, made) => return self.made_read_dir(node, made, cookie, sink),
            Place::In(opened, local) => (opened, local),
        };
        let global = opened.global(local)?;
        let is_root = Self::is_root(&opened, local);
        let mut wanted = true;
        if cookie < cookie::EXTRA {
            let mut trouble = None;
            let listed = opened.vfs.read_dir(local, cookie, &mut |mut entry| {
                let node = if is_root && entry.name == b".." {
                    self.parent_of(opened.number)
                } else {
                    opened.global(entry.node)
                };
                match node {
                    Ok(node) => entry.node = node,
                    Err(e) => {
                        trouble = Some(e);
                        return false;
                    }
                }
                if !opened.covers.is_empty()
                    && let Some(&node) = opened.covers.get(&(global, entry.name.clone()))
                {
                    entry.node = node;
                    entry.kind = FileKind::Directory;
                }
                wanted = sink(entry);
                wanted
            });
            self.or_stale(&opened, listed)?;
            if let Some(e) = trouble {
                return Err(e);
            }
        }
        for (number, name, node) in opened.extras.get(&global).into_iter().flat_map(Extras::iter) {
            let next_cookie = cookie::EXTRA + number;
            if !wanted {
                break;
            }
            if next_cookie > cookie && !self.is_hidden(&opened, name, node) {
                wanted = sink(DirEntry { name: name.to_vec(), node, kind: FileKind::Directory, next_cookie });
            }
        }
        Ok(())
    }

    fn snapshot_behind(&self, entry: NodeId) -> Result<Option<u64>> {
        let found = self.nodes.read().get(entry);
        match found {
            Some(Nowhere::Door(Door { above, source: source @ Source::Snapshot(_), .. })) => {
                let opened = self.open(above)?;
                opened.provider.as_ref().map_or(Ok(None), |provider| source.guid(&**provider))
            }
            _ => Ok(None),
        }
    }

    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.list_xattr(local)),
            Place::Made(..) => Ok(Vec::new()),
        }
    }

    fn nfs4_acl_beyond_mode(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        match self.find(node)? {
            Place::In(opened, local) => opened.vfs.nfs4_acl_beyond_mode(local),
            Place::Made(..) => Ok(None),
        }
    }

    fn set_nfs4_acl(&self, who: &Caller, node: NodeId, list: &[Ace]) -> Result<()> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.set_nfs4_acl(who, local, list)
    }

    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.get_xattr(local, name)),
            Place::Made(..) => Ok(None),
        }
    }

    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.seek_data(local, offset)),
            Place::Made(..) => Err(Error::invalid(".zfs", "not a file")),
        }
    }

    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        match self.find(node)? {
            Place::In(opened, local) => self.or_stale(&opened, opened.vfs.seek_hole(local, offset)),
            Place::Made(..) => Err(Error::invalid(".zfs", "not a file")),
        }
    }

    fn stat_fs(&self, node: NodeId) -> Result<StatFs> {
        match self.find(node)? {
            Place::In(opened, local) => opened.vfs.stat_fs(local),
            Place::Made(..) => self.root.vfs.stat_fs(self.root.vfs.root()),
        }
    }

    fn txgs(&self) -> Option<Txgs> {
        self.root.vfs.txgs()
    }

    fn quota(&self, node: NodeId, of: QuotaOf, id: u32) -> Result<Option<Quota>> {
        match self.find(node)? {
            Place::In(opened, local) => opened.vfs.quota(local, of, id),
            Place::Made(..) => Ok(None),
        }
    }

    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        self.handle_of(node)
    }

    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        self.attr_by_handle(handle)
    }

    fn home_of(&self, fs_guid: u64) -> Result<u64> {
        self.home(fs_guid)
    }

    fn is_node_read_only(&self, node: NodeId) -> bool {
        match self.find(node) {
            Ok(Place::In(opened, local)) => opened.vfs.is_node_read_only(local),
            Ok(Place::Made(_, Made::Snapshots(layer))) => !self.changes_snapshots(layer),
            _ => true,
        }
    }

    fn is_read_only(&self) -> bool {
        self.root.vfs.is_read_only()
    }

    fn never_changes(&self) -> bool {
        self.is_read_only() && !self.root.provider.as_ref().is_some_and(|p| p.changes_snapshots())
    }

    fn names_are_exact(&self) -> bool {
        self.root.vfs.names_are_exact()
    }

    fn ignores_case(&self, node: NodeId) -> bool {
        matches!(self.find(node), Ok(Place::In(opened, local)) if opened.vfs.ignores_case(local))
    }

    fn project_inherit(&self, dir: NodeId) -> Result<bool> {
        match self.find(dir)? {
            Place::In(opened, local) => opened.vfs.project_inherit(local),
            Place::Made(..) => Ok(false),
        }
    }

    fn dos_flags(&self, node: NodeId) -> Result<Flags> {
        match self.find(node)? {
            Place::In(opened, local) => opened.vfs.dos_flags(local),
            Place::Made(..) => Ok(Flags::empty()),
        }
    }

    fn create(&self, who: &Caller, dir: NodeId, name: &[u8], new: &NewNode, mode: u32, umask: u32) -> Result<Attr> {
        if let Some(layer) = self.lists_snapshots_of(dir)? {
            return self.take_snapshot(who, (layer, dir), name, new);
        }
        let (opened, local) = self.find_name(dir, name, Refusal::Exists)?;
        let attr = opened.vfs.create(who, local, name, new, mode, umask)?;
        Ok(Attr { node: opened.global(attr.node)?, ..attr })
    }

    fn create_marked(
        &self,
        who: &Caller,
        dir: NodeId,
        name: &[u8],
        mode: (u32, u32),
        times: (Time, Time),
    ) -> Result<Attr> {
        let (opened, local) = self.find_name(dir, name, Refusal::Exists)?;
        let attr = opened.vfs.create_marked(who, local, name, mode, times)?;
        Ok(Attr { node: opened.global(attr.node)?, ..attr })
    }

    fn create_unnamed(&self, who: &Caller, dir: NodeId, mode: u32, umask: u32) -> Result<Attr> {
        let (opened, local) = self.find_own(dir)?;
        let attr = opened.vfs.create_unnamed(who, local, mode, umask)?;
        Ok(Attr { node: opened.global(attr.node)?, ..attr })
    }

    fn link(&self, who: &Caller, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let (opened, local) = self.find_name(dir, name, Refusal::Exists)?;
        let (from, node) = self.find_own(node)?;
        same(&opened, &from)?;
        let attr = opened.vfs.link(who, node, local, name)?;
        Ok(Attr { node: opened.global(attr.node)?, ..attr })
    }

    fn unlink(&self, who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        let (opened, local) = self.find_name(dir, name, Refusal::Busy)?;
        opened.vfs.unlink(who, local, name)
    }

    fn rmdir(&self, who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        if let Some(layer) = self.lists_snapshots_of(dir)? {
            return self.destroy_snapshot(who, layer, name);
        }
        let (opened, local) = self.find_name(dir, name, Refusal::Busy)?;
        opened.vfs.rmdir(who, local, name)
    }

    fn rename(
        &self,
        who: &Caller,
        dir: NodeId,
        name: &[u8],
        to_dir: NodeId,
        to_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        if let (Some(layer), Some(to_layer)) = (self.lists_snapshots_of(dir)?, self.lists_snapshots_of(to_dir)?) {
            return self.rename_snapshot(who, (layer, name), (to_layer, to_name), flags);
        }
        let (opened, local) = self.find_name(dir, name, Refusal::Busy)?;
        let (to, to_local) = self.find_name(to_dir, to_name, Refusal::Busy)?;
        same(&opened, &to)?;
        opened.vfs.rename(who, local, name, to_local, to_name, flags)
    }

    fn set_attr(&self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        let (opened, local) = self.find_own(node)?;
        let attr = opened.vfs.set_attr(who, local, set)?;
        Ok(Attr { node: opened.global(attr.node)?, ..attr })
    }

    fn write(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.write(who, local, offset, data)
    }

    fn write_cached(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.write_cached(who, local, offset, data)
    }

    fn append(&self, who: &Caller, node: NodeId, data: &[u8]) -> Result<u64> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.append(who, local, data)
    }

    fn allocate(&self, who: &Caller, node: NodeId, what: Allocate, offset: u64, len: u64) -> Result<()> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.allocate(who, local, what, offset, len)
    }

    fn copy_range(
        &self,
        who: &Caller,
        from: NodeId,
        from_offset: u64,
        to: NodeId,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let (source, from) = self.find_own(from)?;
        let (opened, to) = self.find_own(to)?;
        // The caller then copies by reading and writing.
        same(&source, &opened)?;
        opened.vfs.copy_range(who, from, from_offset, to, to_offset, len)
    }

    fn set_xattr(&self, who: &Caller, node: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.set_xattr(who, local, name, value, how)
    }

    fn remove_xattr(&self, who: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        let (opened, local) = self.find_own(node)?;
        opened.vfs.remove_xattr(who, local, name)
    }

    /// Also keeps the number of the node's file system.
    fn open_node(&self, node: NodeId) -> Result<()> {
        match number::split(node) {
            Number::In { system: 0, object } => self.root.vfs.open_node(NodeId(object)),
            Number::In { system, object } => {
                let layer = self.refer(system)?;
                let result = self.open_layer(&layer).and_then(|opened| opened.vfs.open_node(NodeId(object)));
                if result.is_err() {
                    self.release(&layer);
                }
                result
            }
            Number::Nowhere => Ok(()),
        }
    }

    fn close_node(&self, node: NodeId) {
        match number::split(node) {
            Number::In { system: 0, object } => self.root.vfs.close_node(NodeId(object)),
            // Unless it is gone. A snapshot that was closed meanwhile is not opened for this: what
            // is read-only does not count its open nodes.
            Number::In { system, object } => {
                let Ok(layer) = self.layer_at(system) else { return };
                let opened = layer.opened.lock().clone();
                if let Some(opened) = opened {
                    opened.vfs.close_node(NodeId(object));
                }
                self.release(&layer);
            }
            Number::Nowhere => {}
        }
    }

    fn accessed(&self, node: NodeId) {
        if let Ok(Place::In(opened, local)) = self.find(node) {
            opened.vfs.accessed(local);
        }
    }

    fn sync_node(&self, node: NodeId, kind: SyncKind) -> Result<()> {
        match self.find(node)? {
            Place::In(opened, local) => opened.vfs.sync_node(local, kind),
            Place::Made(..) => Ok(()),
        }
    }

    fn sync_all(&self) -> Result<()> {
        let mut all = self.all_opened();
        all.push(self.root.clone());
        // Syncs all of them, even if one fails.
        all.iter().map(|opened| opened.vfs.sync_all()).fold(Ok(()), Result::and)
    }
}
