//! The files of a dataset as a [`Vfs`].

use super::data::Times;
use super::live::{Live, Slot};
use super::{FileSystem, dir};
use crate::vfs::{
    Allocate, Attr, Caller, DirEntry, FileHandle, FileKind, NewNode, NodeId, Quota, QuotaOf, RenameFlags, SetAttr,
    SetXattr, StatFs, SyncKind, Time, Txgs, Vfs,
};
use bytes::Bytes;
use errors::{Error, Refusal, Result};
use ondisk::acl::Ace;
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// Directory entries read at once under the directory's lock. Few at first, because a server may
/// request no more than fit into 8 KiB and entries that it does not take were read for nothing.
/// Doubles each time, up to the second number.
const ENTRIES_AT_ONCE: (usize, usize) = (16, 256);

impl FileSystem {
    fn takes_long_names(&self) -> bool {
        self.live.as_ref().map_or(self.options.long_names, |live| live.backing.settings().long_names)
    }

    /// Runs `look` while no other thread changes the file.
    fn undisturbed<R>(&self, id: u64, look: impl FnOnce() -> Result<R>) -> Result<R> {
        let Some(live) = &self.live else { return look() };
        let node = live.node(id);
        let _state = self.look(&node)?;
        look()
    }

    /// The usage and limits of the project that a node hands on; `None`: it hands none on, or that
    /// has no limits.
    fn project_quota(&self, node: NodeId) -> Result<Option<Quota>> {
        let Some(live) = &self.live else { return Ok(None) };
        let project = match self.project_inherit(node) {
            Ok(true) => self.attr(node)?.project,
            // The file system has a size whatever is wrong with the node.
            Ok(false) | Err(_) => 0,
        };
        match project {
            0 => Ok(None),
            project => self.named(live.backing.quota(dataset::quota::Principal::Project, project)),
        }
    }

    fn fs_guid(&self) -> u64 {
        self.options.space.fsid_guid
    }

    /// The attributes of an object given by number. An object that is not a file, or is part of
    /// another file, is not found.
    fn handled(&self, id: u64) -> Result<Attr> {
        let missing = || Error::not_found("", format!("file {id}"));
        // Necessary for a live file system too: the number may have been reused for something else
        // by now.
        let known = self.live.as_ref().and_then(|live| live.known(id));
        let is_known = known.is_some_and(|n| n.slot.try_read().is_some_and(|s| matches!(*s, Slot::Loaded(_))));
        if !is_known {
            if !self.is_file(id)? {
                return Err(missing());
            }
            let file = self.znode(id)?;
            let flags = Flags::from_bits_retain(file.attributes().need_u64(Sa::Flags)?);
            if flags.contains(Flags::XATTR) {
                return Err(missing());
            }
        }
        let attr = self.attr_inner(id)?;
        // A file without a name is known only to clients that have it open.
        let is_open = || {
            let known = self.live.as_ref().and_then(|live| live.known(id));
            known.is_some_and(|n| n.opens.load(std::sync::atomic::Ordering::SeqCst) > 0)
        };
        let names = if attr.kind == FileKind::Directory { attr.links.saturating_sub(1) } else { attr.links };
        if names == 0 && !is_open() { Err(missing()) } else { Ok(attr) }
    }

    fn attr_inner(&self, id: u64) -> Result<Attr> {
        match &self.live {
            None => self.znode(id)?.attr(self.options.record_bytes),
            Some(live) => {
                let node = live.node(id);
                self.attr_of(&*self.look(&node)?, self.options.record_bytes)
            }
        }
    }

    /// The attributes of the target of `name` at a single point in time: while `name` is being
    /// replaced, either the old or the new target is found.
    fn lookup_live(&self, live: &Live, dir: u64, name: &[u8]) -> Result<Attr> {
        let node = live.node(dir);
        let mut missing = None;
        loop {
            let id = {
                let _names = self.look(&node)?;
                let id = self.find(dir, name)?;
                // Must not wait for it while the directory is locked.
                if let Some(slot) = live.node(id).slot.try_read()
                    && let Slot::Loaded(file) = &*slot
                {
                    return self.attr_of(file, self.options.record_bytes);
                }
                id
            };
            match self.attr_inner(id) {
                // Its number may have been reused for another file since.
                Ok(attr) if self.undisturbed(dir, || self.find(dir, name)).is_ok_and(|now| now == id) => {
                    return Ok(attr);
                }
                Ok(_) => {}
                Err(e @ (Error::NotFound { .. } | Error::Refused { why: Refusal::Stale, .. })) => {
                    if missing == Some(id) {
                        return Err(dir::dangling(e, dir, name));
                    }
                    missing = Some(id);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn read_inner(&self, live: &Live, id: u64, offset: u64, len: usize) -> Result<Bytes> {
        let node = live.node(id);
        let file = self.look(&node)?;
        Self::check_readable(&file)?;
        self.read_in(&file, offset, len)
    }

    fn read_into_inner(&self, live: &Live, id: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        let node = live.node(id);
        let file = self.look(&node)?;
        Self::check_readable(&file)?;
        self.read_into_in(&file, offset, out)
    }

    /// Lists the entries after `cookie`. The directory is not locked while `sink` runs, because it
    /// may read their attributes.
    fn list_live(&self, dir: u64, mut cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        let mut at_once = ENTRIES_AT_ONCE.0;
        loop {
            let mut entries = Vec::with_capacity(at_once);
            self.undisturbed(dir, || {
                self.list(dir, cookie, &mut |entry| {
                    entries.push(entry);
                    entries.len() < at_once
                })
            })?;
            let is_last = entries.len() < at_once;
            at_once = (2 * at_once).min(ENTRIES_AT_ONCE.1);
            for entry in entries {
                cookie = entry.next_cookie;
                if !sink(entry) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

impl Vfs for FileSystem {
    fn root(&self) -> NodeId {
        NodeId(self.master.root)
    }

    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr> {
        self.named(super::names::check_length(name, self.takes_long_names()).and_then(|()| match &self.live {
            None => {
                self.find(dir.0, name).and_then(|id| self.attr_inner(id).map_err(|e| dir::dangling(e, dir.0, name)))
            }
            Some(live) => self.lookup_live(live, dir.0, name),
        }))
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        self.named(self.attr_inner(node.0))
    }

    fn read_link(&self, node: NodeId) -> Result<Vec<u8>> {
        self.named(self.undisturbed(node.0, || self.znode(node.0)?.link_target()))
    }

    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        self.named(match &self.live {
            None => self.regular(node).and_then(|z| z.read(offset, len)),
            Some(live) => self.read_inner(live, node.0, offset, len),
        })
    }

    fn read_into(&self, node: NodeId, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.named(match &self.live {
            None => self.regular(node).and_then(|z| z.read_into(offset, out)),
            Some(live) => self.read_into_inner(live, node.0, offset, out),
        })
    }

    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        self.named(match &self.live {
            None => self.list(dir.0, cookie, sink),
            Some(_) => self.list_live(dir.0, cookie, sink),
        })
    }

    fn nfs4_acl_beyond_mode(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        self.named(match &self.live {
            None => self.acl_beyond_mode(node.0),
            Some(live) => {
                let node = live.node(node.0);
                let file = self.look(&node);
                match file {
                    // Checked for each request of a user other than root: most files have none.
                    Ok(file) if file.flags.contains(Flags::ACL_TRIVIAL) => Ok(None),
                    Ok(_file) => self.acl_beyond_mode(node.id),
                    Err(e) => Err(e),
                }
            }
        })
    }

    fn set_nfs4_acl(&self, _who: &Caller, node: NodeId, list: &[Ace]) -> Result<()> {
        self.named(self.set_entries(node.0, list))
    }

    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        self.named(self.undisturbed(node.0, || self.xattr_names(&self.znode(node.0)?)))
    }

    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.named(self.undisturbed(node.0, || self.xattr(&self.znode(node.0)?, name)))
    }

    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        self.named(self.undisturbed(node.0, || self.regular(node)?.seek_data(offset)))
    }

    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        self.named(self.undisturbed(node.0, || self.regular(node)?.seek_hole(offset)))
    }

    fn txgs(&self) -> Option<Txgs> {
        self.live.as_ref()?.backing.txgs()
    }

    /// Of a node that hands its project on, the limits of the project are the size. Facts:
    /// `zfs_statfs_project`.
    fn stat_fs(&self, node: NodeId) -> Result<StatFs> {
        let space = self.live.as_ref().map_or(self.options.space, |live| live.backing.space());
        let unit = u64::from(self.options.record_bytes.max(512));
        // Referenced bytes are rounded up, so that no file system has 0 blocks. An object requires
        // at least a dnode's slot.
        let referenced = space.referenced_bytes.div_ceil(unit).saturating_mul(unit);
        let free_files = (space.available_bytes >> 9).min((1 << 48) - space.objects.min(1 << 48));
        let mut found = StatFs {
            block_bytes: unit,
            blocks: referenced.saturating_add(space.available_bytes) / unit,
            blocks_free: space.available_bytes / unit,
            files: free_files.saturating_add(space.objects),
            files_free: free_files,
            name_max: if self.takes_long_names() { 1023 } else { 255 },
            fsid: space.fsid_guid,
        };
        let Some(project) = self.project_quota(node)? else { return Ok(found) };
        if let Some(limit) = project.bytes_max {
            (found.blocks, found.blocks_free) = (limit / unit, limit.saturating_sub(project.bytes) / unit);
        }
        if let Some(limit) = project.objects_max {
            // The node is one, whether or not a txg has counted it.
            (found.files, found.files_free) = (limit, limit.saturating_sub(project.objects.max(1)));
        }
        Ok(found)
    }

    fn quota(&self, _node: NodeId, of: QuotaOf, id: u32) -> Result<Option<Quota>> {
        let Some(live) = &self.live else { return Ok(None) };
        let principal = match of {
            QuotaOf::User => dataset::quota::Principal::User,
            QuotaOf::Group => dataset::quota::Principal::Group,
        };
        self.named(live.backing.quota(principal, u64::from(id)))
    }

    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        let attr = self.attr(node)?;
        Ok(FileHandle { fs_guid: self.fs_guid(), object: node.0, generation: attr.generation })
    }

    fn parent(&self, node: NodeId) -> Result<Option<NodeId>> {
        let (parent, is_xattr_dir) = self.parent_for_path(node.0)?;
        Ok((!is_xattr_dir).then_some(NodeId(parent)))
    }

    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        let stale = || Refusal::Stale.at(format!("object {} of {:#x}", handle.object, handle.fs_guid));
        if handle.fs_guid != self.fs_guid() {
            return Err(stale());
        }
        if handle.object == FileHandle::ROOT {
            return self.attr(self.root());
        }
        let found = self.handled(handle.object);
        match found {
            Ok(attr) if attr.generation == handle.generation => Ok(attr),
            Ok(_) | Err(Error::NotFound { .. }) => self.named(Err(stale())),
            Err(e) => self.named(Err(e)),
        }
    }

    fn is_read_only(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.backing.settings().read_only)
    }

    fn names_are_exact(&self) -> bool {
        self.master.names.are_exact()
    }

    fn ignores_case(&self, _node: NodeId) -> bool {
        self.master.names.case() == super::CaseSensitivity::Insensitive
    }

    fn project_inherit(&self, dir: NodeId) -> Result<bool> {
        let inherits = || {
            let flags = self.znode(dir.0)?.attributes().need_u64(Sa::Flags)?;
            Ok(Flags::from_bits_retain(flags).contains(Flags::PROJINHERIT))
        };
        self.named(self.undisturbed(dir.0, inherits))
    }

    fn dos_flags(&self, node: NodeId) -> Result<Flags> {
        let flags = || Ok(Flags::from_bits_retain(self.znode(node.0)?.attributes().need_u64(Sa::Flags)?) & Flags::DOS);
        self.named(self.undisturbed(node.0, flags))
    }

    fn create(&self, who: &Caller, dir: NodeId, name: &[u8], new: &NewNode, mode: u32, umask: u32) -> Result<Attr> {
        self.named(self.make_named(who, dir.0, name, new, (mode, umask, None)))
    }

    fn create_marked(
        &self,
        who: &Caller,
        dir: NodeId,
        name: &[u8],
        mode: (u32, u32),
        times: (Time, Time),
    ) -> Result<Attr> {
        self.named(self.make_marked(who, dir.0, name, mode, times))
    }

    fn create_unnamed(&self, who: &Caller, dir: NodeId, mode: u32, umask: u32) -> Result<Attr> {
        self.named(self.make_unnamed(who, dir.0, mode, umask))
    }

    fn link(&self, _who: &Caller, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Attr> {
        self.named(self.link_named(node.0, dir.0, name))
    }

    fn unlink(&self, _who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        self.named(self.remove_named(dir.0, name, false))
    }

    fn rmdir(&self, _who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        self.named(self.remove_named(dir.0, name, true))
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
        self.named(self.rename_named(who, (dir.0, name), (to_dir.0, to_name), flags, None))
    }

    fn set_attr(&self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        self.named(self.set_attributes(who, node.0, set, false))
    }

    fn write(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.named(self.write_data(who, node.0, Some(offset), data, Times::Move).map(|_| ()))
    }

    fn write_cached(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.named(self.write_data(who, node.0, Some(offset), data, Times::Stay).map(|_| ()))
    }

    fn append(&self, who: &Caller, node: NodeId, data: &[u8]) -> Result<u64> {
        self.named(self.write_data(who, node.0, None, data, Times::Move))
    }

    fn allocate(&self, who: &Caller, node: NodeId, what: Allocate, offset: u64, len: u64) -> Result<()> {
        self.named(self.allocate_in_file(who, node.0, what, offset, len))
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
        self.named(self.copy(who, (from.0, from_offset), (to.0, to_offset), len))
    }

    fn set_xattr(&self, who: &Caller, node: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.named(self.change_xattr(who, node.0, name, Some(value), how))
    }

    fn remove_xattr(&self, who: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        self.named(self.change_xattr(who, node.0, name, None, SetXattr::Either))
    }

    fn open_node(&self, node: NodeId) -> Result<()> {
        self.named(self.opened(node.0))
    }

    fn close_node(&self, node: NodeId) {
        if let Err(error) = self.named(self.closed(node.0)) {
            tracing::warn!(%error, "closing a file");
        }
    }

    fn accessed(&self, node: NodeId) {
        if self.live.is_some()
            && let Err(error) = self.named(self.note_access(node.0))
        {
            tracing::debug!(%error, "moving an access time");
        }
    }

    fn sync_node(&self, node: NodeId, _kind: SyncKind) -> Result<()> {
        match &self.live {
            Some(live) => self.named(live.backing.commit(Some(node.0))),
            None => Ok(()),
        }
    }

    fn sync_all(&self) -> Result<()> {
        match &self.live {
            Some(live) => self.named(live.backing.commit(None)),
            None => Ok(()),
        }
    }
}
