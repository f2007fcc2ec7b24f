//! Answers the kernel's requests: maps node numbers to nodes and chooses the form of each answer.
//! [`super::ops`] implements the operations.
//!
//! A read-only tree needs no state for open files, so the kernel is asked not to send OPEN and
//! RELEASE. A writable tree receives both, so that it knows which files are in use and which are
//! being written (see [`super::kernel_refs`]).

use super::attr::device_number_parts;
use super::figures::Counted;
use super::inode::InodeMap;
use super::ops::{Ops, caller};
use super::reply::{Entries, Filled, OPEN_CACHE_DIR, OPEN_DIRECT, OPEN_KEEP, OPEN_PARALLEL, Reply, Shown};
use super::requests::Answer;
use super::session::can;
use super::wire::{Header, Op, SetAttrIn, forgets};
use errors::Error;
use files::namespace::is_synthetic;
use files::vfs::{Allocate, Caller, DirEntry, NewNode, NodeId, SetAttr, SetTime};
use rustix::io::Errno;
use std::sync::Arc;

/// `FUSE_NAME_MAX`.
const NAME_BYTES_MAX: usize = 1024;
/// Number of entries whose attributes are fetched in one batch for READDIRPLUS: about what fits
/// into a 32 KiB answer.
const PLUS_BATCH: usize = 128;
/// Maximum size of one copy: the answer has 32 bits for it, and no caller should wait for hours.
const COPY_BYTES_MAX: u64 = 1 << 30;
/// `FUSE_WRITE_KILL_SUIDGID`.
const WRITE_KILL_SETID: u32 = 1 << 2;
/// `FUSE_WRITE_CACHE`.
const WRITE_CACHE: u32 = 1;
/// `FUSE_IOCTL_UNRESTRICTED`: set only for character devices.
const IOCTL_UNRESTRICTED: u32 = 1 << 1;

/// Answers the requests of one mount.
pub(super) struct Server(pub Arc<Ops>);

fn entry_reply(result: Result<Shown, Errno>, reply: Reply) {
    match result {
        Ok(shown) => reply.entry(&shown),
        Err(errno) => reply.error(errno),
    }
}

fn writes(flags: u32) -> bool {
    flags as i32 & libc::O_ACCMODE != libc::O_RDONLY
}

/// Flags for OPEN's answer: O_DIRECT bypasses the kernel's cache and allows parallel writes;
/// otherwise the kernel keeps its cached pages, unless the tree is shared.
fn open_flags(flags: u32, shared: bool) -> u32 {
    match flags as i32 & libc::O_DIRECT {
        0 if shared => 0,
        0 => OPEN_KEEP,
        _ => OPEN_DIRECT | OPEN_PARALLEL,
    }
}

impl Answer for Server {
    fn answer(&self, header: &Header, op: Op<'_>, reply: Reply) {
        let node = self.0.inodes.to_node(header.node);
        let reply = reply.counted(Counted::start(&self.0.figures, &op, node, header.uid));
        match op {
            Op::Lookup { name } => self.lookup(node, name, reply),
            Op::Forget { times } => {
                self.forget(node, times);
                reply.none();
            }
            Op::BatchForget { pairs } => {
                for (number, times) in forgets(pairs) {
                    self.forget(self.0.inodes.to_node(number), times);
                }
                reply.none();
            }
            Op::GetAttr => match self.0.vfs.attr(node) {
                Ok(attr) => reply.attr(self.0.mode.attr_ttl(node), &attr, InodeMap::shown(node)),
                Err(e) => self.fail(node, &e, reply),
            },
            Op::Statx => match self.0.vfs.attr(node) {
                Ok(attr) => reply.statx(self.0.mode.attr_ttl(node), &attr, InodeMap::shown(node)),
                Err(e) => self.fail(node, &e, reply),
            },
            Op::SetAttr(set) => self.set_attr(header, node, set, reply),
            Op::ReadLink => match self.0.vfs.read_link(node) {
                Ok(target) => {
                    reply.data(&target);
                    self.accessed(node);
                }
                Err(e) => self.fail(node, &e, reply),
            },
            Op::Symlink { name, target } => {
                entry_reply(self.0.create(header, node, name, &NewNode::Symlink(target.to_vec()), 0o777, 0), reply);
            }
            Op::Mknod { mode, rdev, umask, name } => {
                let (major, minor) = device_number_parts(rdev);
                let new = match mode & libc::S_IFMT {
                    libc::S_IFREG | 0 => NewNode::Regular,
                    libc::S_IFIFO => NewNode::Fifo,
                    libc::S_IFSOCK => NewNode::Socket,
                    libc::S_IFCHR => NewNode::CharDevice { major, minor },
                    libc::S_IFBLK => NewNode::BlockDevice { major, minor },
                    _ => return reply.error(Errno::INVAL),
                };
                entry_reply(self.0.create(header, node, name, &new, mode, umask), reply);
            }
            Op::Mkdir { mode, umask, name } => {
                entry_reply(self.0.create(header, node, name, &NewNode::Directory, mode, umask), reply);
            }
            Op::Unlink { name } => self.done(node, self.0.vfs.unlink(&caller(header), node, name), reply),
            Op::Rmdir { name } => reply.empty(self.0.rmdir(header, node, name)),
            Op::Rename { to_dir, flags, name, to_name } => {
                let to = self.0.inodes.to_node(to_dir);
                reply.empty(self.0.rename(header, (node, name), (to, to_name), flags));
            }
            Op::Link { node: number, name } => {
                entry_reply(self.0.link(header, self.0.inodes.to_node(number), node, name), reply);
            }
            Op::Open { flags } => self.open(node, flags, reply),
            Op::Create { flags, mode, umask, name } => {
                let made = self.0.create(header, node, name, &NewNode::Regular, mode, umask);
                self.created(made, flags, reply);
            }
            Op::CreateUnnamed { flags, mode, umask } => {
                self.created(self.0.create_unnamed(header, node, mode, umask), flags, reply);
            }
            Op::Release { flags } => {
                if writes(flags) {
                    self.0.held.done_writing(node);
                }
                reply.empty(Ok(()));
            }
            Op::Read { offset, bytes, flags } => {
                let vfs = &self.0.vfs;
                match reply.fill(bytes as usize, |room| vfs.read_into(node, offset, room)) {
                    Filled::Done(bytes) => self.0.figures.read.add(bytes as u64),
                    Filled::Failed(reply, e) => return self.fail(node, &e, reply),
                    Filled::NoRoom(reply) => match vfs.read(node, offset, bytes as usize) {
                        Ok(data) => {
                            self.0.figures.read.add(data.len() as u64);
                            reply.data(&data);
                        }
                        Err(e) => return self.fail(node, &e, reply),
                    },
                }
                self.0.ahead.answered(node, offset, bytes, flags);
                self.accessed(node);
            }
            Op::Write { offset, flags, open_flags, data } => {
                // The kernel decides whether setuid is cleared.
                let kills = flags & WRITE_KILL_SETID != 0;
                let who = Caller { privileged: !kills, ..caller(header) };
                let past_cache = open_flags as i32 & libc::O_DIRECT != 0;
                // With write-back the kernel maintains file times, shows them, and sets them
                // itself. Without it, a write from the page cache comes from a mapping, and the
                // time is ours to set.
                let is_cached = self.0.mode.write_back && flags & WRITE_CACHE != 0;
                match self.0.write(&who, node, (offset, data), is_cached, kills && past_cache) {
                    Ok(()) => {
                        self.0.figures.written.add(data.len() as u64);
                        reply.written(data.len() as u32);
                    }
                    Err(errno) => reply.error(errno),
                }
            }
            Op::Fallocate { offset, len, mode } => self.allocate(header, node, (offset, len), mode as i32, reply),
            Op::CopyRange { from, to_node, to, len } => {
                let (target, len) = (self.0.inodes.to_node(to_node), len.min(COPY_BYTES_MAX));
                match self.0.vfs.copy_range(&caller(header), node, from, target, to, len) {
                    Ok(copied) => {
                        self.0.settle.written(&*self.0.vfs, target);
                        reply.written(u32::try_from(copied).unwrap_or(u32::MAX));
                    }
                    Err(e) => self.fail(target, &e, reply),
                }
            }
            Op::Fsync { data_only } | Op::FsyncDir { data_only } => {
                if self.0.mode.read_only {
                    return reply.empty(Ok(()));
                }
                self.0.sync(node, data_only, reply);
            }
            Op::OpenDir => self.open_dir(node, reply),
            Op::ReleaseDir => reply.empty(Ok(())),
            Op::ReadDir { offset, bytes } => self.read_dir(node, offset, bytes, reply),
            Op::ReadDirPlus { offset, bytes } => self.read_dir_plus(node, offset, bytes, reply),
            Op::StatFs => match self.0.vfs.stat_fs(node) {
                Ok(space) => reply.stat_fs(&space),
                Err(e) => self.fail(node, &e, reply),
            },
            Op::SetXattr { how, kill_setgid, name, value } => {
                reply.empty(self.0.set_xattr(header, node, (name, value), how, kill_setgid));
            }
            Op::RemoveXattr { name } => self.done(node, self.0.vfs.remove_xattr(&caller(header), node, name), reply),
            Op::GetXattr { bytes, name } => match self.0.vfs.get_xattr(node, name) {
                Ok(Some(value)) => reply.xattr(bytes, &value),
                Ok(None) | Err(Error::NotFound { .. }) => reply.error(Errno::NODATA),
                Err(e) => self.fail(node, &e, reply),
            },
            Op::ListXattr { bytes } => match self.0.vfs.list_xattr(node) {
                Ok(names) => {
                    let ended = |name: &Vec<u8>| name.iter().copied().chain([0]).collect::<Vec<u8>>();
                    reply.xattr(bytes, &names.iter().flat_map(ended).collect::<Vec<u8>>());
                }
                Err(e) => self.fail(node, &e, reply),
            },
            // Sent only if the kernel does not check permissions itself. Then everything is
            // allowed, except writing to a read-only tree.
            Op::Access { mask } if self.0.mode.read_only && mask as i32 & libc::W_OK != 0 => reply.error(Errno::ROFS),
            Op::Access { .. } => reply.empty(Ok(())),
            Op::Seek { offset, whence } => self.seek(node, offset, whence, reply),
            Op::Ioctl { flags, .. } if flags & IOCTL_UNRESTRICTED != 0 => reply.error(Errno::NOTTY),
            Op::Ioctl { command, out_bytes, data, .. } => match self.0.ioctl(&caller(header), node, command, data) {
                Ok(out) if out.len() <= out_bytes as usize => reply.ioctl(&out),
                Ok(_) => reply.error(Errno::INVAL),
                Err(errno) => reply.error(errno),
            },
            // Requests in progress finish soon anyway. An answer to INTERRUPT itself would mean
            // "send it again".
            Op::Interrupt => reply.none(),
            // FLUSH has nothing to do, because each write reached the `Vfs` when it arrived; ENOSYS
            // saves the round trip. Locks are handled only by the kernel: no other machine mounts
            // this tree.
            Op::Init { .. } | Op::Destroy | Op::Other => reply.error(Errno::NOSYS),
        }
    }
}

impl Server {
    /// The capabilities to request from the kernel.
    pub fn wanted(&self) -> u64 {
        let mut wanted = can::DO_READDIRPLUS
            | can::READDIRPLUS_AUTO
            | can::PARALLEL_DIROPS
            | can::CACHE_SYMLINKS
            | can::EXPORT_SUPPORT;
        if self.0.mode.read_only {
            // Not for a writable tree: pages read during a direct write would keep the old
            // contents.
            wanted |= can::NO_OPEN_SUPPORT | can::ASYNC_DIO;
            wanted |= if self.0.mode.frozen { can::NO_OPENDIR_SUPPORT } else { 0 };
        } else {
            // The umask does not apply in a directory with a default ACL, which the kernel does not
            // know of.
            wanted |= can::DONT_MASK;
            // Otherwise the kernel would request the attribute security.capability for each write.
            wanted |= can::HANDLE_KILLPRIV_V2;
            // Pages stay valid until we invalidate them, since all changes come through this
            // kernel. In a shared tree they stay valid until the kernel sees another size or change
            // time.
            wanted |= if self.0.mode.shared { can::AUTO_INVAL_DATA } else { can::EXPLICIT_INVAL_DATA };
            wanted |= can::DIRECT_IO_ALLOW_MMAP;
        }
        if self.0.mode.enforce {
            // This also makes the kernel check permissions. Without it, ACLs are plain attributes,
            // which are visible as well.
            wanted |= can::POSIX_ACL;
        }
        if self.0.mode.write_back {
            wanted |= can::WRITEBACK_CACHE;
        }
        wanted
    }

    /// Called when the connection ends: closes all nodes and syncs everything to disk.
    pub fn end(&self) -> errors::Result<()> {
        self.0.settle.end();
        self.0.held.forget_all();
        self.0.vfs.sync_all()
    }

    fn fail(&self, node: NodeId, error: &Error, reply: Reply) {
        reply.error(self.0.failed(node, error));
    }

    fn done(&self, node: NodeId, result: errors::Result<()>, reply: Reply) {
        reply.empty(result.map_err(|e| self.0.failed(node, &e)));
    }

    fn accessed(&self, node: NodeId) {
        if self.0.mode.keeps_access_times() {
            self.0.vfs.accessed(node);
        }
    }

    fn lookup(&self, dir: NodeId, name: &[u8], reply: Reply) {
        match self.0.vfs.lookup(dir, name) {
            Ok(attr) => entry_reply(self.0.show(dir, name, &attr), reply),
            Err(Error::NotFound { .. }) => reply.no_entry(self.0.mode.entry_ttl(dir, None)),
            Err(e) => self.fail(dir, &e, reply),
        }
    }

    fn forget(&self, node: NodeId, times: u64) {
        if self.0.is_held(node) {
            self.0.held.forget(node, times);
        }
    }

    fn set_attr(&self, header: &Header, node: NodeId, set: SetAttrIn, reply: Reply) {
        let mut who = caller(header);
        if set.is_empty {
            return match self.0.before_write(&who, node) {
                Ok(attr) => reply.attr(self.0.mode.attr_ttl(node), &attr, InodeMap::shown(node)),
                Err(errno) => reply.error(errno),
            };
        }
        if set.size.is_some() {
            // As for writing.
            who.privileged = !set.kill_setid;
        }
        let set = SetAttr {
            mode: set.mode.map(|m| m & 0o7777),
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            atime: set.atime,
            mtime: set.mtime,
            ctime: set.ctime.map(SetTime::To),
            ..SetAttr::default()
        };
        let answer = move |ops: &Ops| match ops.set_attr(&who, node, &set) {
            Ok(attr) => reply.attr(ops.mode.attr_ttl(node), &attr, InodeMap::shown(node)),
            Err(errno) => reply.error(errno),
        };
        if set.size.is_none() {
            return answer(&self.0);
        }
        let ops = self.0.clone();
        self.0.held.writing(node, move || {
            answer(&ops);
            ops.held.done_writing(node);
        });
    }

    /// For a read-only tree, ENOSYS makes the kernel send no more OPENs and keep a file's pages
    /// from one open to the next. (Opens for writing do not reach us then.)
    fn open(&self, node: NodeId, flags: u32, reply: Reply) {
        if self.0.mode.read_only {
            return reply.error(Errno::NOSYS);
        }
        let flags_out = open_flags(flags, self.0.mode.shared);
        let answer = move || reply.opened(flags_out);
        if !writes(flags) {
            self.0.opened_for_reading(node);
        }
        if writes(flags) { self.0.held.writing(node, answer) } else { answer() }
    }

    fn created(&self, made: Result<Shown, Errno>, flags: u32, reply: Reply) {
        match made {
            Ok(made) => {
                let node = made.attr.node;
                let flags_out = open_flags(flags, self.0.mode.shared);
                let answer = move || reply.created(&made, flags_out);
                if writes(flags) { self.0.held.writing(node, answer) } else { answer() }
            }
            Err(errno) => reply.error(errno),
        }
    }

    /// For a read-only tree the kernel caches the entries, as in [`Self::open`], except for
    /// snapshots that come and go. For a writable tree it requests them each time: Linux (seen with
    /// 6.18) sometimes lists a removed name from its cache if the directory is listed and changed
    /// concurrently.
    fn open_dir(&self, dir: NodeId, reply: Reply) {
        if self.0.mode.frozen {
            reply.error(Errno::NOSYS);
        } else if self.0.mode.read_only && !is_synthetic(dir) {
            reply.opened(OPEN_KEEP | OPEN_CACHE_DIR);
        } else {
            reply.opened(0);
        }
    }

    fn allocate(&self, header: &Header, node: NodeId, (offset, len): (u64, u64), mode: i32, reply: Reply) {
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let what = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => Allocate::Reserve { keep_size },
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => Allocate::Punch,
            libc::FALLOC_FL_ZERO_RANGE => Allocate::Zero { keep_size },
            _ => return reply.error(Errno::OPNOTSUPP),
        };
        let result = self.0.vfs.allocate(&caller(header), node, what, offset, len);
        self.0.settle.written(&*self.0.vfs, node);
        self.done(node, result, reply);
    }

    fn seek(&self, node: NodeId, from: u64, whence: u32, reply: Reply) {
        let answer = move |ops: &Ops| match ops.seek(node, from, whence) {
            Ok(at) => reply.offset(at),
            Err(errno) => reply.error(errno),
        };
        if !self.0.held.has_writers(node) {
            return answer(&self.0);
        }
        // A mapping may have been written to. Data that the kernel has not written back would look
        // like a hole to us.
        let ops = self.0.clone();
        self.0.slow.run(move || {
            ops.fetch_unwritten(node, from);
            answer(&ops);
        });
    }

    fn read_dir(&self, dir: NodeId, cookie: u64, bytes: u32, reply: Reply) {
        let mut entries = Entries::new(bytes);
        let result = self
            .0
            .vfs
            .read_dir(dir, cookie, &mut |e| !is_possible(&e.name) || entries.add(&e, InodeMap::shown(e.node)));
        match result {
            Ok(()) => {
                reply.data(entries.bytes());
                self.accessed(dir);
            }
            Err(e) => self.fail(dir, &e, reply),
        }
    }

    fn read_dir_plus(&self, dir: NodeId, mut cookie: u64, bytes: u32, reply: Reply) {
        let mut entries = Entries::new(bytes);
        let mut batch: Vec<DirEntry> = Vec::with_capacity(PLUS_BATCH);
        let mut room = true;
        while room {
            batch.clear();
            let result = self.0.vfs.read_dir(dir, cookie, &mut |entry| {
                batch.push(entry);
                batch.len() < PLUS_BATCH
            });
            if let Err(e) = result {
                return self.fail(dir, &e, reply);
            }
            for entry in &batch {
                cookie = entry.next_cookie;
                room = room && (!is_possible(&entry.name) || self.add_plus(dir, entry, &mut entries));
            }
            room = room && batch.len() == PLUS_BATCH;
        }
        reply.data(entries.bytes());
        self.accessed(dir);
    }

    /// Adds an entry with its attributes. Returns false if it does not fit.
    fn add_plus(&self, dir: NodeId, entry: &DirEntry, entries: &mut Entries) -> bool {
        let ino = InodeMap::shown(entry.node);
        // Without attributes the kernel takes only the name. That is all it uses for "." and "..".
        // For an entry in `.zfs/snapshot`, fetching attributes would open a snapshot, of which
        // there may be thousands. And a name exists even if its object cannot be read or was
        // removed meanwhile; a process that looks it up gets the error.
        if entry.name == b"." || entry.name == b".." || is_synthetic(entry.node) {
            return entries.add_plus(None, entry, ino);
        }
        let Ok(attr) = self.0.vfs.attr(entry.node) else { return entries.add_plus(None, entry, ino) };
        let Ok(shown) = self.0.show(dir, &entry.name, &attr) else { return entries.add_plus(None, entry, ino) };
        let added = entries.add_plus(Some(&shown), entry, ino);
        if !added {
            self.forget(attr.node, 1);
        }
        added
    }
}

/// Linux rejects a whole directory listing if one name is empty, is longer than FUSE allows, or
/// contains a slash. One damaged entry must not hide the others. Such a name cannot be looked up
/// either.
fn is_possible(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(&b'/') && !name.contains(&0)
}
