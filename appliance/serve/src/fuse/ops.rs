//! The meaning of each request, in terms of the [`Vfs`]. [`super::server`] decodes requests and
//! sends answers.

use super::ahead::Ahead;
use super::attr::errno;
use super::error_log::ErrorLog;
use super::figures::Figures;
use super::inode::InodeMap;
use super::kernel_refs::KernelRefs;
use super::mode::MountMode;
use super::names::Names;
use super::options::MountOptions;
use super::reply::{Notifier, Reply, Shown};
use super::settle::Settle;
use super::slow::Slow;
use super::sync_slots::SyncSlots;
use super::wire::Header;
use errors::Error;
use files::namespace::{file_system_of, is_synthetic};
use files::vfs::{Attr, Caller, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetXattr, SyncKind, Vfs};
use rustix::io::Errno;
use std::sync::{Arc, OnceLock};

/// State that the serving threads share.
pub(super) struct Ops {
    pub vfs: Arc<dyn Vfs>,
    pub inodes: InodeMap,
    pub mode: MountMode,
    error_log: ErrorLog,
    pub names: Names,
    pub ahead: Ahead,
    pub held: KernelRefs,
    pub slow: Slow,
    sync_slots: SyncSlots,
    pub settle: Settle,
    pub figures: Arc<Figures>,
    /// Set once the tree is mounted.
    pub kernel: OnceLock<Notifier>,
}

impl Ops {
    /// `threads` is the number of serving threads.
    pub fn new(vfs: Arc<dyn Vfs>, how: &MountOptions, enforce: bool, threads: usize, ahead: Ahead) -> Self {
        Self {
            inodes: InodeMap::new(vfs.root()),
            mode: MountMode::new(&*vfs, how, enforce),
            error_log: ErrorLog::new(how.name.clone()),
            names: Names::new(),
            ahead,
            held: KernelRefs::new(vfs.clone()),
            slow: Slow::new(),
            sync_slots: SyncSlots::new(threads),
            settle: Settle::default(),
            figures: how.figures.clone(),
            kernel: OnceLock::new(),
            vfs,
        }
    }

    /// Returns the errno for the process. Logs errors that a disk or the machine caused.
    pub fn failed(&self, node: NodeId, error: &Error) -> Errno {
        let errno = errno(error);
        if errno == Errno::IO {
            self.error_log.report(node, error.to_string(), || self.names.path(&*self.vfs, node));
        }
        errno
    }

    /// Whether references of the kernel to the node are counted. A file of a read-only tree
    /// exists without them, but the number of its file system may depend on them.
    pub fn is_held(&self, node: NodeId) -> bool {
        match file_system_of(node) {
            None => false,
            Some(0) => !self.mode.read_only && node != self.vfs.root(),
            Some(_) => true,
        }
    }

    /// Takes a reference for the kernel, which holds the node until it forgets it.
    pub fn hold(&self, node: NodeId) -> Result<(), Errno> {
        if !self.is_held(node) {
            return Ok(());
        }
        self.held.hold(node).map_err(|e| self.failed(node, &e))
    }

    /// References `node`, found in `dir` as `name`, and prepares its entry for the kernel.
    pub fn show(&self, dir: NodeId, name: &[u8], attr: &Attr) -> Result<Shown, Errno> {
        let shown = self.shown(dir, attr)?;
        self.hold(attr.node)?;
        if name != b"." && name != b".." {
            self.names.remember(attr.node, dir, name);
        }
        Ok(shown)
    }

    fn shown(&self, dir: NodeId, attr: &Attr) -> Result<Shown, Errno> {
        Ok(Shown {
            entry_ttl: self.mode.entry_ttl(dir, Some(attr.node)),
            attr_ttl: self.mode.attr_ttl(attr.node),
            node: self.inodes.to_fuse(attr.node),
            generation: self.generation(attr).map_err(|e| self.failed(attr.node, &e))?,
            attr: *attr,
        })
    }

    /// The generation to give to the kernel.
    fn generation(&self, attr: &Attr) -> errors::Result<u64> {
        match file_system_of(attr.node) {
            None | Some(0) => Ok(attr.generation),
            Some(_) => Ok(InodeMap::generation(attr.generation, self.vfs.handle(attr.node)?.fs_guid)),
        }
    }

    pub fn create(
        &self,
        req: &Header,
        dir: NodeId,
        name: &[u8],
        new: &NewNode,
        mode: u32,
        umask: u32,
    ) -> Result<Shown, Errno> {
        let who = if is_synthetic(dir) { manager(req) } else { creator(req) };
        let made = self.vfs.create(&who, dir, name, new, mode & 0o7777, umask & 0o777);
        let attr = made.map_err(|e| self.failed(dir, &e))?;
        self.show(dir, name, &attr)
    }

    pub fn create_unnamed(&self, req: &Header, dir: NodeId, mode: u32, umask: u32) -> Result<Shown, Errno> {
        let made = self.vfs.create_unnamed(&creator(req), dir, mode & 0o7777, umask & 0o777);
        let attr = made.map_err(|e| self.failed(dir, &e))?;
        let shown = self.shown(dir, &attr)?;
        self.hold(attr.node)?;
        Ok(shown)
    }

    pub fn link(&self, req: &Header, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Shown, Errno> {
        let attr = self.vfs.link(&caller(req), node, dir, name).map_err(|e| self.failed(dir, &e))?;
        self.show(dir, name, &attr)
    }

    pub fn rename(
        &self,
        req: &Header,
        (dir, name): (NodeId, &[u8]),
        (to_dir, to_name): (NodeId, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        let flags = RenameFlags {
            no_replace: flags & libc::RENAME_NOREPLACE != 0,
            exchange: flags & libc::RENAME_EXCHANGE != 0,
            whiteout: flags & libc::RENAME_WHITEOUT != 0,
        };
        self.vfs.rename(&remover(req, dir), dir, name, to_dir, to_name, flags).map_err(|e| self.failed(dir, &e))
    }

    pub fn rmdir(&self, req: &Header, dir: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.vfs.rmdir(&remover(req, dir), dir, name).map_err(|e| self.failed(dir, &e))
    }

    pub fn set_attr(&self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr, Errno> {
        let attr = self.vfs.set_attr(who, node, set).map_err(|e| self.failed(node, &e))?;
        if set.size.is_some() {
            self.settle.written(&*self.vfs, node);
        }
        Ok(attr)
    }

    /// The kernel announces that `who` is about to write to a file with setuid, setgid or
    /// capabilities, by a SETATTR that sets nothing. It caches the mode in our answer, so setuid
    /// and setgid must be cleared now.
    pub fn before_write(&self, who: &Caller, node: NodeId) -> Result<Attr, Errno> {
        let attr = self.vfs.attr(node).map_err(|e| self.failed(node, &e))?;
        let setgid = if attr.mode & libc::S_IXGRP != 0 { libc::S_ISGID } else { 0 };
        let mode = attr.mode & !(libc::S_ISUID | setgid);
        if who.privileged || attr.kind != FileKind::Regular || mode == attr.mode {
            return Ok(attr);
        }
        self.set_attr(
            &Caller { privileged: true, ..who.clone() },
            node,
            &SetAttr { mode: Some(mode), ..SetAttr::default() },
        )
    }

    /// Writes. `unannounced`: [`Self::before_write`] was not called, although setuid and setgid may
    /// have to be cleared. `is_cached`: the data comes from the kernel's write-back cache, and the
    /// kernel sets the times of the file itself.
    pub fn write(
        &self,
        who: &Caller,
        node: NodeId,
        (offset, data): (u64, &[u8]),
        is_cached: bool,
        unannounced: bool,
    ) -> Result<(), Errno> {
        let failed = |e| self.failed(node, &e);
        let has_setid = unannounced && self.vfs.attr(node).map_err(failed)?.mode & (libc::S_ISUID | libc::S_ISGID) != 0;
        match is_cached {
            true => self.vfs.write_cached(who, node, offset, data).map_err(failed)?,
            false => self.vfs.write(who, node, offset, data).map_err(failed)?,
        }
        self.settle.written(&*self.vfs, node);
        if has_setid && let Some(kernel) = self.kernel.get() {
            // The kernel still caches the old mode. A negative offset invalidates only attributes.
            if let Err(error) = kernel.invalidate(self.inodes.to_fuse(node), -1) {
                tracing::debug!(%error, "the kernel rejected it");
            }
        }
        Ok(())
    }

    /// A file was opened for reading. The kernel sends no READ for an empty file, so the open
    /// counts as the access.
    pub fn opened_for_reading(&self, node: NodeId) {
        if !self.mode.keeps_access_times() {
            return;
        }
        let Ok(before) = self.vfs.attr(node) else { return };
        if before.size != 0 || before.kind != FileKind::Regular {
            return;
        }
        self.vfs.accessed(node);
        let moved = self.vfs.attr(node).is_ok_and(|now| now.atime != before.atime);
        if let Some(kernel) = self.kernel.get().filter(|_| moved)
            && let Err(error) = kernel.invalidate(self.inodes.to_fuse(node), -1)
        {
            tracing::debug!(%error, "the kernel rejected it");
        }
    }

    pub fn set_xattr(
        &self,
        req: &Header,
        node: NodeId,
        (name, value): (&[u8], &[u8]),
        how: u32,
        kill_setgid: bool,
    ) -> Result<(), Errno> {
        let how = match how as i32 {
            0 => SetXattr::Either,
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => return Err(Errno::INVAL),
        };
        let (who, failed) = (caller(req), |e| self.failed(node, &e));
        self.vfs.set_xattr(&who, node, name, value, how).map_err(failed)?;
        if kill_setgid {
            // The user who set the ACL is not in the file's group: setgid must be cleared, as in
            // chmod(2).
            let mode = self.vfs.attr(node).map_err(failed)?.mode;
            if mode & libc::S_ISGID != 0 {
                let set = SetAttr { mode: Some(mode & 0o7777 & !libc::S_ISGID), ..SetAttr::default() };
                self.vfs.set_attr(&who, node, &set).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Answers once the node is on stable storage. Runs on this thread if enough other threads
    /// remain to serve, which saves waking one.
    pub fn sync(self: &Arc<Self>, node: NodeId, data_only: bool, reply: Reply) {
        let kind = if data_only { SyncKind::Data } else { SyncKind::All };
        let ops = self.clone();
        let job = move || {
            let result = ops.vfs.sync_node(node, kind).map_err(|e| ops.failed(node, &e));
            ops.sync_slots.end();
            reply.empty(result);
        };
        if self.sync_slots.begin() { job() } else { self.slow.run(job) }
    }

    /// Makes the kernel write back its dirty data from `offset` on, by invalidating those pages: no
    /// other notification does that. Must not run on a thread that the kernel needs for these
    /// writes.
    pub fn fetch_unwritten(&self, node: NodeId, offset: u64) {
        let Some(kernel) = self.kernel.get() else { return };
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        if let Err(error) = kernel.invalidate(self.inodes.to_fuse(node), offset) {
            tracing::debug!(%error, "the kernel does not write");
        }
    }

    /// Makes the kernel drop all pages of the mount, after writing those that are dirty. Must not
    /// run on a thread that the kernel needs for these writes.
    pub fn drop_pages(&self) {
        self.held.known().into_iter().for_each(|node| self.fetch_unwritten(node, 0));
    }

    /// Offset of the first data, or of the first hole, at or after `from` (`SEEK_DATA`,
    /// `SEEK_HOLE`).
    pub fn seek(&self, node: NodeId, from: u64, whence: u32) -> Result<u64, Errno> {
        if i64::try_from(from).is_err() {
            return Err(Errno::NXIO);
        }
        let found = match whence as i32 {
            libc::SEEK_DATA => self.vfs.seek_data(node, from),
            libc::SEEK_HOLE => match self.vfs.attr(node) {
                Ok(attr) if from >= attr.size => Ok(None),
                Ok(_) => self.vfs.seek_hole(node, from).map(Some),
                Err(e) => Err(e),
            },
            _ => return Err(Errno::INVAL),
        };
        match found {
            Ok(Some(at)) => Ok(at),
            Ok(None) => Err(Errno::NXIO),
            Err(e) => Err(self.failed(node, &e)),
        }
    }
}

/// The caller of a request. Root is privileged.
pub(super) fn caller(req: &Header) -> Caller {
    Caller { uid: req.uid, gid: req.gid, privileged: req.uid == 0, ..Caller::default() }
}

/// The caller for renaming or removing a directory in `dir`.
fn remover(req: &Header, dir: NodeId) -> Caller {
    if is_synthetic(dir) { manager(req) } else { caller(req) }
}

/// The caller for changing snapshots by their directory. Privileged are root and the user of this
/// process, which owns the pool; what others may do depends on what was delegated to them and to
/// their groups. The thread waits for the answer, so its groups do not change meanwhile.
fn manager(req: &Header) -> Caller {
    let privileged = req.uid == 0 || req.uid == rustix::process::geteuid().as_raw();
    let groups = if privileged { None } else { host::proc::groups_of_thread(req.thread, req.uid, req.gid) };
    // A thread of another user may act for a user of another machine, as those of NFS do.
    let is_local = groups.is_some();
    Caller { uid: req.uid, gid: req.gid, groups: groups.unwrap_or_default(), privileged, is_local }
}

/// The caller for creating a file. Privileged, because the kernel has already cleared setgid where
/// the user may not set it; only the kernel knows all groups of the user.
fn creator(req: &Header) -> Caller {
    Caller { privileged: true, ..caller(req) }
}
