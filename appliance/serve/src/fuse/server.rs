//! Answers the kernel's requests from a [`Vfs`].
//!
//! Stateless: no table of open files, no reference counts. A node number says all, and stays valid as long as the mount.

use super::ahead::Ahead;
use super::attr::{entry_attr, errno, file_attr, file_type};
use super::inode::InodeMap;
use super::names::Names;
use files::Error;
use files::namespace::is_door;
use files::vfs::{Attr, DirEntry, FileKind, NodeId, Vfs};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Nothing changes below a read-only mount: the kernel may believe what it was told for a year.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// For what could not be read: ask again.
const NOT_AT_ALL: Duration = Duration::ZERO;
/// Largest request: what Linux allows without raising `fs.fuse.max_pages_limit`.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests that the kernel may have under way for read-ahead. Guessed: two 1 MiB pieces for each of 32 streams.
const BACKGROUND_MAX: u16 = 64;
/// `FUSE_NAME_MAX`.
const NAME_BYTES_MAX: usize = 1024;
/// Entries whose attributes are fetched in one go for readdirplus; about what a 32 KiB answer takes.
const PLUS_BATCH: usize = 128;

/// The file system that the kernel talks to.
pub(super) struct Server {
    vfs: Arc<dyn Vfs>,
    inodes: InodeMap,
    /// Shown in the log: POOL/DATASET.
    label: String,
    /// The kernel checks permissions, by ACLs too.
    enforce: bool,
    names: Names,
    ahead: Ahead,
    /// The node and message logged last: the kernel asks for a broken page many times.
    last_logged: Mutex<(NodeId, String)>,
}

impl Server {
    pub fn new(vfs: Arc<dyn Vfs>, label: String, enforce: bool, ahead: Ahead) -> Self {
        let inodes = InodeMap::new(vfs.root());
        Self {
            vfs,
            inodes,
            label,
            enforce,
            names: Names::new(),
            ahead,
            last_logged: Mutex::new((NodeId(0), String::new())),
        }
    }

    /// The error number for the process, and a line for the person when the disk or the machine is to blame.
    fn failed(&self, node: NodeId, error: &Error) -> Errno {
        let errno = errno(error);
        if errno == Errno::EIO {
            let message = error.to_string();
            let mut last = self.last_logged.lock();
            if last.0 != node || last.1 != message {
                let path = self.names.path(&*self.vfs, node);
                tracing::error!(file_system = %self.label, %path, %message, "read failed");
                *last = (node, message);
            }
        }
        errno
    }

    /// The inode number in an entry is FUSE's node number and what `stat` shows, in one; they differ for the root alone,
    /// which is never an entry.
    fn entry_attr_of(&self, attr: &Attr) -> fuser::FileAttr {
        file_attr(attr, self.inodes.to_fuse(attr.node))
    }

    fn xattr_reply(size: u32, value: &[u8], reply: ReplyXattr) {
        match u32::try_from(value.len()) {
            Ok(len) if size == 0 => reply.size(len),
            Ok(len) if len <= size => reply.data(value),
            Ok(_) => reply.error(Errno::ERANGE),
            Err(_) => reply.error(Errno::E2BIG),
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPORT_SUPPORT,
        ];
        // The kernel takes this for an order to check permissions. Without it ACLs are plain attributes, which show as well.
        let acl = self.enforce.then_some(InitFlags::FUSE_POSIX_ACL);
        for flag in wanted.into_iter().chain(acl) {
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

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let dir = self.inodes.to_node(parent);
        match self.vfs.lookup(dir, name.as_bytes()) {
            Ok(attr) => {
                if name != "." && name != ".." {
                    self.names.remember(attr.node, dir, name.as_bytes());
                }
                reply.entry(&FOREVER, &self.entry_attr_of(&attr), Generation(attr.generation));
            }
            // Node number 0 says "there is no such name", to be remembered too.
            Err(Error::NotFound { .. }) => {
                reply.entry(&FOREVER, &entry_attr(FileKind::Regular, INodeNo(0)), Generation(0));
            }
            Err(e) => reply.error(self.failed(dir, &e)),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let node = self.inodes.to_node(ino);
        match self.vfs.attr(node) {
            Ok(attr) => reply.attr(&FOREVER, &file_attr(&attr, InodeMap::shown(node))),
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let node = self.inodes.to_node(ino);
        match self.vfs.read_link(node) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    /// ENOSYS tells the kernel never to ask again, and to keep a file's pages from one open to the next.
    /// (Opening for writing does not come here: the mount is read-only.)
    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    /// As [`Self::open`]: the kernel keeps the entries.
    fn opendir(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    /// Nothing to flush: ENOSYS spares a round trip at each close.
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
        let node = self.inodes.to_node(ino);
        match self.vfs.read(node, offset, size as usize) {
            Ok(data) => {
                reply.data(&data);
                self.ahead.answered(node, offset, size, flags.0);
            }
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let dir = self.inodes.to_node(ino);
        let result = self.vfs.read_dir(dir, offset, &mut |e| {
            !is_possible(&e.name)
                || !reply.add(InodeMap::shown(e.node), e.next_cookie, file_type(e.kind), OsStr::from_bytes(&e.name))
        });
        match result {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(self.failed(dir, &e)),
        }
    }

    fn readdirplus(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let dir = self.inodes.to_node(ino);
        let mut cookie = offset;
        let mut batch: Vec<DirEntry> = Vec::with_capacity(PLUS_BATCH);
        loop {
            batch.clear();
            let result = self.vfs.read_dir(dir, cookie, &mut |entry| {
                batch.push(entry);
                batch.len() < PLUS_BATCH
            });
            if let Err(e) = result {
                return reply.error(self.failed(dir, &e));
            }
            for entry in &batch {
                cookie = entry.next_cookie;
                if !is_possible(&entry.name) {
                    continue;
                }
                let name = OsStr::from_bytes(&entry.name);
                let full = if entry.name == b"." || entry.name == b".." {
                    // The kernel takes the name and the number of these, no more.
                    let attr = entry_attr(entry.kind, InodeMap::shown(entry.node));
                    reply.add(attr.ino, entry.next_cookie, name, &NOT_AT_ALL, &attr, Generation(0))
                } else if is_door(entry.node) {
                    // Its attributes would open a snapshot, of which there may be thousands: only for those who ask.
                    let attr = entry_attr(entry.kind, self.inodes.to_fuse(entry.node));
                    reply.add(attr.ino, entry.next_cookie, name, &NOT_AT_ALL, &attr, Generation(0))
                } else {
                    match self.vfs.attr(entry.node) {
                        Ok(attr) => {
                            self.names.remember(entry.node, dir, &entry.name);
                            let generation = Generation(attr.generation);
                            let attr = self.entry_attr_of(&attr);
                            reply.add(attr.ino, entry.next_cookie, name, &FOREVER, &attr, generation)
                        }
                        // The name is there even if its object cannot be read; whoever wants more asks and gets the error.
                        Err(_) => {
                            let attr = entry_attr(entry.kind, self.inodes.to_fuse(entry.node));
                            reply.add(attr.ino, entry.next_cookie, name, &NOT_AT_ALL, &attr, Generation(0))
                        }
                    }
                };
                if full {
                    return reply.ok();
                }
            }
            if batch.len() < PLUS_BATCH {
                return reply.ok();
            }
        }
    }

    fn statfs(&self, _req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let node = self.inodes.to_node(ino);
        match self.vfs.stat_fs(node) {
            Ok(s) => {
                let unit = u32::try_from(s.block_bytes).unwrap_or(4096);
                reply.statfs(s.blocks, s.blocks_free, s.blocks_free, s.files, s.files_free, unit, s.name_max, unit);
            }
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let node = self.inodes.to_node(ino);
        match self.vfs.get_xattr(node, name.as_bytes()) {
            Ok(Some(value)) => Self::xattr_reply(size, &value, reply),
            Ok(None) => reply.error(Errno::ENODATA),
            Err(Error::NotFound { .. }) => reply.error(Errno::ENODATA),
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let node = self.inodes.to_node(ino);
        match self.vfs.list_xattr(node) {
            Ok(names) => {
                let mut list = Vec::with_capacity(names.iter().map(|n| n.len() + 1).sum());
                for name in &names {
                    list.extend_from_slice(name);
                    list.push(0);
                }
                Self::xattr_reply(size, &list, reply);
            }
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    /// Asked only where the kernel does not check permissions itself: then all is allowed but writing.
    fn access(&self, _req: &Request, _ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        if mask.contains(AccessFlags::W_OK) { reply.error(Errno::EROFS) } else { reply.ok() }
    }

    fn lseek(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let node = self.inodes.to_node(ino);
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match whence {
            libc::SEEK_DATA => self.vfs.seek_data(node, from),
            libc::SEEK_HOLE => match self.vfs.attr(node) {
                Ok(attr) if from >= attr.size => Ok(None),
                Ok(_) => self.vfs.seek_hole(node, from).map(Some),
                Err(e) => Err(e),
            },
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            Ok(Some(at)) => match i64::try_from(at) {
                Ok(at) => reply.offset(at),
                Err(_) => reply.error(Errno::EOVERFLOW),
            },
            Ok(None) => reply.error(Errno::ENXIO),
            Err(e) => reply.error(self.failed(node, &e)),
        }
    }

    fn ioctl(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn bmap(&self, _req: &Request, _ino: INodeNo, _block_bytes: u32, _index: u64, reply: ReplyBmap) {
        reply.error(Errno::ENOSYS);
    }

    // ---- What writes. The mount is read-only, so the kernel hardly ever sends these. ----

    fn setattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(Errno::EROFS);
    }

    fn mknod(
        &self,
        _req: &Request,
        _dir: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EROFS);
    }

    fn mkdir(&self, _req: &Request, _dir: INodeNo, _name: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn unlink(&self, _req: &Request, _dir: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn rmdir(&self, _req: &Request, _dir: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn symlink(&self, _req: &Request, _dir: INodeNo, _name: &OsStr, _target: &Path, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn rename(
        &self,
        _req: &Request,
        _dir: INodeNo,
        _name: &OsStr,
        _new_dir: INodeNo,
        _new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn link(&self, _req: &Request, _ino: INodeNo, _dir: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    fn create(
        &self,
        _req: &Request,
        _dir: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EROFS);
    }

    fn setxattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn removexattr(&self, _req: &Request, _ino: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        _length: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _ino_in: INodeNo,
        _fh_in: FileHandle,
        _offset_in: u64,
        _ino_out: INodeNo,
        _fh_out: FileHandle,
        _offset_out: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    /// A snapshot has nothing that is not on disk.
    fn fsync(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    /// As [`Self::fsync`].
    fn fsyncdir(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// Linux refuses a whole directory if one of its names is empty, longer than FUSE allows, or has a slash: damage to one entry
/// must not hide the others. Such a name cannot be asked for, either.
fn is_possible(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(&b'/') && !name.contains(&0)
}
