//! Takes the kernel's requests apart, and answers them: the form, of which [`super::ops`] is the meaning.
//!
//! A read-only tree needs no state: the kernel is told not to ask at open and close. A tree that changes is told of each, so
//! that it knows what is in use and what is being written (see [`super::held`]).

use super::attr::{device_number_parts, entry_attr, file_type, time};
use super::inode::InodeMap;
use super::ops::{FOREVER, NOT_AT_ALL, Ops, Shown, caller};
use files::Error;
use files::namespace::is_door;
use files::vfs::{Allocate, Caller, DirEntry, FileKind, NewNode, NodeId, SetAttr, SetTime};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyBmap,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Largest request: what Linux allows without raising `fs.fuse.max_pages_limit`.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel may have under way for read-ahead and write-back. Guessed: two 1 MiB pieces for each of 32 streams.
const BACKGROUND_MAX: u16 = 64;
/// `FUSE_NAME_MAX`.
const NAME_BYTES_MAX: usize = 1024;
/// Entries whose attributes are fetched in one go for readdirplus; about what a 32 KiB answer takes.
const PLUS_BATCH: usize = 128;
/// As much is copied in one call at most: it is told in 32 bits, and nobody should wait for hours.
const COPY_BYTES_MAX: u64 = 1 << 30;

/// The file system that the kernel talks to.
pub(super) struct Server(pub Arc<Ops>);

fn xattr_reply(size: u32, value: &[u8], reply: ReplyXattr) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(_) => reply.error(Errno::E2BIG),
    }
}

fn entry_reply(result: Result<Shown, Errno>, reply: ReplyEntry) {
    match result {
        Ok(s) => reply.entry_with_ttls(&FOREVER, &s.ttl, &s.attr, s.generation),
        Err(errno) => reply.error(errno),
    }
}

fn empty_reply(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn writes(flags: OpenFlags) -> bool {
    flags.acc_mode() != OpenAccMode::O_RDONLY
}

impl Server {
    fn node(&self, ino: INodeNo) -> NodeId {
        self.0.inodes.to_node(ino)
    }

    /// O_DIRECT past the kernel's cache, many at a time; otherwise the kernel keeps what it has.
    fn open_flags(flags: i32) -> FopenFlags {
        if flags & libc::O_DIRECT != 0 {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::FOPEN_KEEP_CACHE
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let always = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPORT_SUPPORT,
        ];
        let unchanging = [InitFlags::FUSE_NO_OPEN_SUPPORT, InitFlags::FUSE_NO_OPENDIR_SUPPORT];
        let changing = [
            // The umask has no say where a directory has a default ACL, of which the kernel does not know.
            InitFlags::FUSE_DONT_MASK,
            // Else the kernel would ask for the attribute security.capability at each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            // Pages stay until we say otherwise: all changes come by way of this kernel.
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ];
        let ops = &self.0;
        let by_kind = if ops.read_only { &unchanging[..] } else { &changing[..] };
        // The kernel takes this for an order to check permissions. Without it ACLs are plain attributes, which show as well.
        let acl = ops.enforce.then_some(InitFlags::FUSE_POSIX_ACL);
        let write_back = ops.write_back.then_some(InitFlags::FUSE_WRITEBACK_CACHE);
        for flag in always.iter().chain(by_kind).copied().chain(acl).chain(write_back) {
            if config.add_capabilities(flag).is_err() {
                tracing::debug!(?flag, "the kernel's FUSE does not have it");
            }
        }
        // These fail for a size of 0 or beyond fuser's own limit (16 MiB) only. fuser derives from `max_write` how many
        // pages a read may ask for, too. Read-ahead has the kernel's limit already; `mount` raises it where it may.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.settle.end();
        self.0.held.forget_all();
        if let Err(error) = self.0.vfs.sync_all() {
            *self.0.last_sync.lock() = Some(error);
        }
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let dir = self.node(parent);
        match self.0.vfs.lookup(dir, name.as_bytes()) {
            Ok(attr) => entry_reply(self.0.show(dir, name.as_bytes(), &attr), reply),
            // Node number 0 says "there is no such name", to be remembered too.
            Err(Error::NotFound { .. }) => {
                let ttl = self.0.entry_ttl(dir, None);
                reply.entry(&ttl, &entry_attr(FileKind::Regular, INodeNo(0)), Generation(0));
            }
            Err(e) => reply.error(self.0.failed(dir, &e)),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        if !self.0.read_only {
            self.0.held.forget(self.node(ino), nlookup);
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let node = self.node(ino);
        match self.0.vfs.attr(node) {
            Ok(attr) => reply.attr(&self.0.attr_ttl(node), &Ops::stat_attr(&attr)),
            Err(e) => reply.error(self.0.failed(node, &e)),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let node = self.node(ino);
        let time_set = |t| match t {
            TimeOrNow::Now => SetTime::Now,
            TimeOrNow::SpecificTime(t) => SetTime::To(time(t)),
        };
        let set = SetAttr {
            mode: mode.map(|m| m & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(time_set),
            mtime: mtime.map(time_set),
            ctime: ctime.map(|t| SetTime::To(time(t))),
            ..SetAttr::default()
        };
        let who = caller(req);
        let ttl = self.0.attr_ttl(node);
        let answer = move |ops: &Ops| match ops.set_attr(&who, node, &set) {
            Ok(attr) => reply.attr(&ttl, &attr),
            Err(errno) => reply.error(errno),
        };
        if size.is_none() {
            return answer(&self.0);
        }
        let ops = self.0.clone();
        self.0.held.writing(node, move || {
            answer(&ops);
            ops.held.done_writing(node);
        });
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let node = self.node(ino);
        match self.0.vfs.read_link(node) {
            Ok(target) => {
                reply.data(&target);
                self.accessed(node);
            }
            Err(e) => reply.error(self.0.failed(node, &e)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        let (major, minor) = device_number_parts(rdev);
        let new = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => NewNode::Regular,
            libc::S_IFIFO => NewNode::Fifo,
            libc::S_IFSOCK => NewNode::Socket,
            libc::S_IFCHR => NewNode::CharDevice { major, minor },
            libc::S_IFBLK => NewNode::BlockDevice { major, minor },
            _ => return reply.error(Errno::EINVAL),
        };
        let dir = self.node(parent);
        entry_reply(self.0.create(req, dir, name.as_bytes(), &new, mode, umask), reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let dir = self.node(parent);
        entry_reply(self.0.create(req, dir, name.as_bytes(), &NewNode::Directory, mode, umask), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let new = NewNode::Symlink(target.as_os_str().as_bytes().to_vec());
        entry_reply(self.0.create(req, self.node(parent), name.as_bytes(), &new, 0o777, 0), reply);
    }

    fn link(&self, req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        entry_reply(self.0.link(req, self.node(ino), self.node(newparent), newname.as_bytes()), reply);
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let dir = self.node(parent);
        let result = self.0.vfs.unlink(&caller(req), dir, name.as_bytes());
        empty_reply(result.map_err(|e| self.0.failed(dir, &e)), reply);
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let dir = self.node(parent);
        let result = self.0.vfs.rmdir(&caller(req), dir, name.as_bytes());
        empty_reply(result.map_err(|e| self.0.failed(dir, &e)), reply);
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((self.node(parent), name.as_bytes()), (self.node(newparent), newname.as_bytes()));
        empty_reply(self.0.rename(req, from, to, flags), reply);
    }

    /// Of a read-only tree, ENOSYS tells the kernel never to ask again, and to keep a file's pages from one open to the
    /// next. (Opening for writing does not come here then.)
    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.0.read_only {
            return reply.error(Errno::ENOSYS);
        }
        let answer = move || reply.opened(FileHandle(0), Self::open_flags(flags.0));
        if writes(flags) { self.0.held.writing(self.node(ino), answer) } else { answer() }
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let dir = self.node(parent);
        match self.0.create(req, dir, name.as_bytes(), &NewNode::Regular, mode, umask) {
            Ok(made) => {
                let answer = move || {
                    reply.created(&made.ttl, &made.attr, made.generation, FileHandle(0), Self::open_flags(flags))
                };
                let node = self.node(made.attr.ino);
                if writes(OpenFlags(flags)) { self.0.held.writing(node, answer) } else { answer() }
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if writes(flags) {
            self.0.held.done_writing(self.node(ino));
        }
        reply.ok();
    }

    /// As [`Self::open`]: the kernel keeps the entries. But for what others change.
    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.0.read_only {
            return reply.error(Errno::ENOSYS);
        }
        let made_up = is_door(self.node(ino));
        let keep = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
        reply.opened(FileHandle(0), if made_up { FopenFlags::empty() } else { keep });
    }

    /// Each write was given to the `Vfs` when it came: nothing to flush. ENOSYS spares a round trip at each close.
    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let node = self.node(ino);
        match self.0.vfs.read(node, offset, size as usize) {
            Ok(data) => {
                reply.data(&data);
                self.0.ahead.answered(node, offset, size, flags.0);
                self.accessed(node);
            }
            Err(e) => reply.error(self.0.failed(node, &e)),
        }
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Whether setuid goes is the kernel's to say here.
        let privileged = !write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let who = Caller { privileged, ..caller(req) };
        match self.0.write(&who, self.node(ino), offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let what = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocate::Reserve { keep_size },
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => Allocate::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero { keep_size },
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let node = self.node(ino);
        let result = self.0.vfs.allocate(&caller(req), node, what, offset, length);
        self.0.settle.written(node);
        empty_reply(result.map_err(|e| self.0.failed(node, &e)), reply);
    }

    fn copy_file_range(
        &self,
        req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = (self.node(ino_in), self.node(ino_out));
        let len = len.min(COPY_BYTES_MAX);
        match self.0.vfs.copy_range(&caller(req), from, offset_in, to, offset_out, len) {
            Ok(copied) => {
                self.0.settle.written(to);
                reply.written(u32::try_from(copied).unwrap_or(u32::MAX));
            }
            Err(e) => reply.error(self.0.failed(to, &e)),
        }
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        if self.0.read_only {
            return reply.ok();
        }
        let (ops, node) = (self.0.clone(), self.node(ino));
        self.0.slow.run(move || empty_reply(ops.sync(node, datasync), reply));
    }

    fn fsyncdir(&self, req: &Request, ino: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.fsync(req, ino, fh, datasync, reply);
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let dir = self.node(ino);
        let result = self.0.vfs.read_dir(dir, offset, &mut |e| {
            !is_possible(&e.name)
                || !reply.add(InodeMap::shown(e.node), e.next_cookie, file_type(e.kind), OsStr::from_bytes(&e.name))
        });
        match result {
            Ok(()) => {
                reply.ok();
                self.accessed(dir);
            }
            Err(e) => reply.error(self.0.failed(dir, &e)),
        }
    }

    fn readdirplus(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let dir = self.node(ino);
        let mut cookie = offset;
        let mut batch: Vec<DirEntry> = Vec::with_capacity(PLUS_BATCH);
        loop {
            batch.clear();
            let result = self.0.vfs.read_dir(dir, cookie, &mut |entry| {
                batch.push(entry);
                batch.len() < PLUS_BATCH
            });
            if let Err(e) = result {
                return reply.error(self.0.failed(dir, &e));
            }
            for entry in &batch {
                cookie = entry.next_cookie;
                if is_possible(&entry.name) && self.add_plus(dir, entry, &mut reply) {
                    reply.ok();
                    return self.accessed(dir);
                }
            }
            if batch.len() < PLUS_BATCH {
                reply.ok();
                return self.accessed(dir);
            }
        }
    }

    fn statfs(&self, _req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let node = self.node(ino);
        match self.0.vfs.stat_fs(node) {
            Ok(s) => {
                let unit = u32::try_from(s.block_bytes).unwrap_or(4096);
                reply.statfs(s.blocks, s.blocks_free, s.blocks_free, s.files, s.files_free, unit, s.name_max, unit);
            }
            Err(e) => reply.error(self.0.failed(node, &e)),
        }
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        empty_reply(self.0.set_xattr(req, self.node(ino), name.as_bytes(), value, flags), reply);
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let node = self.node(ino);
        let result = self.0.vfs.remove_xattr(&caller(req), node, name.as_bytes());
        empty_reply(result.map_err(|e| self.0.failed(node, &e)), reply);
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let node = self.node(ino);
        match self.0.vfs.get_xattr(node, name.as_bytes()) {
            Ok(Some(value)) => xattr_reply(size, &value, reply),
            Ok(None) | Err(Error::NotFound { .. }) => reply.error(Errno::ENODATA),
            Err(e) => reply.error(self.0.failed(node, &e)),
        }
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let node = self.node(ino);
        match self.0.vfs.list_xattr(node) {
            Ok(names) => {
                let mut list = Vec::with_capacity(names.iter().map(|n| n.len() + 1).sum());
                for name in &names {
                    list.extend_from_slice(name);
                    list.push(0);
                }
                xattr_reply(size, &list, reply);
            }
            Err(e) => reply.error(self.0.failed(node, &e)),
        }
    }

    /// Asked only where the kernel does not check permissions itself: then all is allowed, as far as it can be done.
    fn access(&self, _req: &Request, _ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        if self.0.read_only && mask.contains(AccessFlags::W_OK) { reply.error(Errno::EROFS) } else { reply.ok() }
    }

    fn lseek(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let node = self.node(ino);
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let answer = move |ops: &Ops| match ops.seek(node, from, whence) {
            Ok(at) => reply.offset(at),
            Err(errno) => reply.error(errno),
        };
        if !self.0.held.has_writers(node) {
            return answer(&self.0);
        }
        // Where somebody has written to a mapping, we would take for a hole what the kernel has not written yet.
        let ops = self.0.clone();
        self.0.slow.run(move || {
            ops.fetch_unwritten(node, from);
            answer(&ops);
        });
    }

    fn ioctl(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        match self.0.ioctl(&caller(req), self.node(ino), cmd, in_data) {
            Ok(data) if data.len() <= out_size as usize => reply.ioctl(0, &data),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(errno),
        }
    }

    fn bmap(&self, _req: &Request, _ino: INodeNo, _block_bytes: u32, _index: u64, reply: ReplyBmap) {
        reply.error(Errno::ENOSYS);
    }
}

impl Server {
    fn accessed(&self, node: NodeId) {
        if !self.0.read_only {
            self.0.vfs.accessed(node);
        }
    }

    /// Adds an entry with its attributes; whether there was no room for it.
    fn add_plus(&self, dir: NodeId, entry: &DirEntry, reply: &mut ReplyDirectoryPlus) -> bool {
        let name = OsStr::from_bytes(&entry.name);
        // Without a node number the kernel takes the name alone. That is all it wants of these two; a door's attributes would
        // open a snapshot, of which there may be thousands; and a name is there even if its object cannot be read, or is
        // removed by now. Whoever wants more asks, and gets the error.
        let mut plain = || {
            let attr = entry_attr(entry.kind, InodeMap::shown(entry.node));
            reply.add(INodeNo(0), entry.next_cookie, name, &NOT_AT_ALL, &attr, Generation(0))
        };
        if entry.name == b"." || entry.name == b".." || is_door(entry.node) {
            return plain();
        }
        let Ok(attr) = self.0.vfs.attr(entry.node) else { return plain() };
        let Ok(shown) = self.0.show(dir, &entry.name, &attr) else { return plain() };
        let full = reply.add(shown.attr.ino, entry.next_cookie, name, &shown.ttl, &shown.attr, shown.generation);
        if full && !self.0.read_only {
            self.0.held.forget(attr.node, 1);
        }
        full
    }
}

/// Linux refuses a whole directory if one of its names is empty, longer than FUSE allows, or has a slash: damage to one entry
/// must not hide the others. Such a name cannot be asked for, either.
fn is_possible(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(&b'/') && !name.contains(&0)
}
