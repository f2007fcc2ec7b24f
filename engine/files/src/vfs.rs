//! The one interface that servers see: a tree of nodes, read and changed by node number.
//!
//! FUSE, NFS and the commands work on `dyn Vfs` and know nothing of datasets or blocks. Everything here is blocking and
//! thread-safe; node numbers stay valid as long as the `Vfs` lives.

use crate::nfs4_acl::{self, Ace};
use crate::{Refusal, Result};
use bytes::Bytes;

/// A node of a [`Vfs`]: object number in the low 48 bits, number of the file system within the tree above them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// What names a node for good: it leads to the same node after a restart, a rename of its dataset, or in another [`Vfs`] that
/// shows the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    /// The file system: `ds_fsid_guid` of its dataset, snapshot or volume. ([`StatFs::fsid`] is the same.)
    pub fs_guid: u64,
    /// The object; [`FileHandle::ROOT`]: the file system's root. From [`FileHandle::MADE`] on: a directory that only a
    /// namespace has, such as `.zfs`.
    pub object: u64,
    /// Generation of the object; of a root that is asked for by [`FileHandle::ROOT`], 0.
    pub generation: u64,
}

impl FileHandle {
    /// No object has this number: it stands for the root.
    pub const ROOT: u64 = 0;
    /// Objects below this are those of datasets.
    pub const MADE: u64 = 1 << 63;

    /// The root of a file system.
    pub fn root_of(fs_guid: u64) -> Self {
        Self { fs_guid, object: Self::ROOT, generation: 0 }
    }
}

/// What kind of file a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // As in stat(2).
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

/// A point in time as on disk: may lie before 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Time {
    /// The time of day as Linux gives it to files: that of its last tick. A kernel that writes for us (write-back over FUSE)
    /// takes the same, and of two changes the later one must not seem the earlier.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        Self { seconds: now.tv_sec, nanoseconds: now.tv_nsec as u32 }
    }
}

/// What stat(2) and statx(2) tell of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The node.
    pub node: NodeId,
    /// Inode number to show: the object number.
    pub ino: u64,
    /// Generation: differs when an object number is used again.
    pub generation: u64,
    /// Kind of file.
    pub kind: FileKind,
    /// Permission bits with setuid, setgid and sticky (07777).
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Project; 0 where the dataset has none.
    pub project: u64,
    /// Device number of a device node (Linux `dev_t` as `major << 20 | minor` split below).
    pub rdev_major: u32,
    /// Minor device number.
    pub rdev_minor: u32,
    /// Size in bytes; of a directory, entries + 2 as OpenZFS shows it.
    pub size: u64,
    /// 512-byte units used on disk.
    pub blocks_512: u64,
    /// Preferred I/O size.
    pub block_bytes: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of attributes.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
}

/// An entry that [`Vfs::read_dir`] hands out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name as stored; not always UTF-8.
    pub name: Vec<u8>,
    /// The node it names.
    pub node: NodeId,
    /// Kind, from the directory itself.
    pub kind: FileKind,
    /// Pass this to [`Vfs::read_dir`] to go on behind this entry.
    pub next_cookie: u64,
}

/// What statfs(2) tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatFs {
    /// Unit of the next three, in bytes.
    pub block_bytes: u64,
    /// Size of the file system.
    pub blocks: u64,
    /// Free.
    pub blocks_free: u64,
    /// Objects in use and free.
    pub files: u64,
    /// Free objects.
    pub files_free: u64,
    /// Longest name, in bytes.
    pub name_max: u32,
    /// Identity (`f_fsid`).
    pub fsid: u64,
}

/// Whose quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaOf {
    /// A user's.
    User,
    /// A group's.
    Group,
}

/// What somebody uses of a file system, and what he may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes in use, as of the last txg.
    pub bytes: u64,
    /// The most that he may use.
    pub bytes_max: Option<u64>,
    /// Objects in use.
    pub objects: u64,
    /// The most that he may have.
    pub objects_max: Option<u64>,
}

/// Who asks for a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Further groups, where the server knows them.
    pub groups: Vec<u32>,
    /// May do what only root may: keep setuid and setgid bits, use reserved names of attributes.
    pub privileged: bool,
}

/// What to make in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewNode {
    /// An empty file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link to this target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the change.
    Now,
    /// This.
    To(Time),
}

/// Attributes to set; `None` is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits with setuid, setgid and sticky (07777).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: cuts, or grows with a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of contents.
    pub mtime: Option<SetTime>,
    /// Last change of attributes; otherwise the time of the change.
    pub ctime: Option<SetTime>,
    /// Birth.
    pub btime: Option<Time>,
    /// Project.
    pub project: Option<u64>,
    /// New files in this directory take its project (`FS_XFLAG_PROJINHERIT`).
    pub project_inherit: Option<bool>,
}

/// How to rename: as renameat2(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenameFlags {
    /// Refuse when the new name is there (`RENAME_NOREPLACE`).
    pub no_replace: bool,
    /// Both names change places (`RENAME_EXCHANGE`).
    pub exchange: bool,
    /// Leave a whiteout behind (`RENAME_WHITEOUT`).
    pub whiteout: bool,
}

/// How to set an attribute: as setxattr(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Whether or not it is there.
    Either,
    /// It must not be there (`XATTR_CREATE`).
    Create,
    /// It must be there (`XATTR_REPLACE`).
    Replace,
}

/// What fallocate(2) may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocate {
    /// Space for the range; grows the file unless `keep_size`.
    Reserve {
        /// Size stays.
        keep_size: bool,
    },
    /// A hole; size stays.
    Punch,
    /// Zeros; grows the file unless `keep_size`.
    Zero {
        /// Size stays.
        keep_size: bool,
    },
}

/// What must be on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncKind {
    /// Contents, and attributes needed to read them (fdatasync).
    Data,
    /// All of the node (fsync).
    All,
}

/// A tree of files. Methods that change it refuse with [`Refusal::ReadOnly`] unless the tree can be written.
///
/// A change is visible to all callers once the method has returned, and survives a crash once [`Vfs::sync_node`] or
/// [`Vfs::sync_all`] has returned after it. Permission is the server's to check; what belongs to the file system is not: quotas,
/// setuid bits that a change clears, groups inherited from directories.
pub trait Vfs: Send + Sync {
    /// The root directory.
    fn root(&self) -> NodeId;
    /// The node called `name` in `dir`; `.` and `..` are served too.
    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr>;
    /// Attributes of a node.
    fn attr(&self, node: NodeId) -> Result<Attr>;
    /// Target of a symbolic link.
    fn read_link(&self, node: NodeId) -> Result<Vec<u8>>;
    /// Up to `len` bytes from `offset`; shorter only at the end of the file.
    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes>;
    /// The same, into `out`: how many bytes it was. For those who have a place for them.
    fn read_into(&self, node: NodeId, offset: u64, out: &mut [u8]) -> Result<usize> {
        let data = self.read(node, offset, out.len())?;
        let room = out.get_mut(..data.len()).ok_or_else(|| crate::Error::invalid("a read", "it gave too much"))?;
        room.copy_from_slice(&data);
        Ok(data.len())
    }
    /// Calls `sink` with each entry behind `cookie` (0: from the start; `.` and `..` first) until it returns false.
    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()>;
    /// Names of the extended attributes, with their namespace (`user.`, `trusted.`, `security.`, `system.posix_acl_access` …).
    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>>;
    /// Value of one, or `None`.
    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>>;
    /// First offset at or behind `offset` that is data (`SEEK_DATA`); `None` beyond the last.
    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>>;
    /// First offset at or behind `offset` that is a hole (`SEEK_HOLE`); the size when there is none.
    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64>;
    /// Space and objects.
    fn stat_fs(&self, node: NodeId) -> Result<StatFs>;

    /// The directory that a node was last put into, if it says; its name there may be gone.
    fn parent(&self, node: NodeId) -> Result<Option<NodeId>> {
        let _ = node;
        Ok(None)
    }

    /// What a user or group uses of the node's file system; `None` when no limit is set for him.
    fn quota(&self, node: NodeId, of: QuotaOf, id: u32) -> Result<Option<Quota>> {
        let _ = (node, of, id);
        Ok(None)
    }

    /// What leads to a node for good.
    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        Err(crate::Error::unsupported(format!("node {}", node.0), "file handles"))
    }
    /// The node of a handle, with its attributes. [`Refusal::Stale`] when it is gone, or its file system is not in this tree.
    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        let _ = handle;
        Err(crate::Error::unsupported("", "file handles"))
    }
    /// The file system that `fs_guid` belongs to: itself, or, of a snapshot or a volume, the one whose `.zfs` has it.
    fn home_of(&self, fs_guid: u64) -> Result<u64> {
        Ok(fs_guid)
    }
    /// Whether changes to this node are refused because of the file system that it is in.
    fn is_node_read_only(&self, node: NodeId) -> bool {
        let _ = node;
        self.is_read_only()
    }

    /// Whether changes are refused.
    fn is_read_only(&self) -> bool {
        true
    }
    /// Whether each name is spelled in one way only. No where case or Unicode forms do not count: who caches names must
    /// ask again then, since what is done under one spelling shows under all.
    fn names_are_exact(&self) -> bool {
        true
    }
    /// Whether names that differ in case only are the same in the file system of this node.
    fn ignores_case(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }
    /// Whether new files in this directory take its project (`FS_XFLAG_PROJINHERIT`).
    fn project_inherit(&self, dir: NodeId) -> Result<bool> {
        let _ = dir;
        Ok(false)
    }
    /// Makes a node. `mode`: permission bits with setuid, setgid, sticky, before default ACLs and `umask`.
    fn create(&self, who: &Caller, dir: NodeId, name: &[u8], new: &NewNode, mode: u32, umask: u32) -> Result<Attr> {
        let _ = (who, name, new, mode, umask);
        read_only(dir)
    }
    /// Makes a file with this mode (`umask` beside it), and with these times of access and modification: all of that or nothing, whatever crashes. By the
    /// times, an exclusive create of NFS that comes again knows its file.
    fn create_marked(
        &self,
        who: &Caller,
        dir: NodeId,
        name: &[u8],
        (mode, umask): (u32, u32),
        (atime, mtime): (Time, Time),
    ) -> Result<Attr> {
        let made = self.create(who, dir, name, &NewNode::Regular, mode, umask)?;
        let (atime, mtime) = (Some(SetTime::To(atime)), Some(SetTime::To(mtime)));
        self.set_attr(who, made.node, &SetAttr { atime, mtime, ..SetAttr::default() })
    }
    /// Makes a file without a name (`O_TMPFILE`), with owner, permissions and project as if made in `dir`. It is gone unless
    /// [`Vfs::open_node`] or [`Vfs::link`] follow; a crash takes it too.
    fn create_unnamed(&self, who: &Caller, dir: NodeId, mode: u32, umask: u32) -> Result<Attr> {
        let _ = (who, mode, umask);
        Err(crate::Error::unsupported(format!("node {}", dir.0), "a file without a name"))
    }
    /// Another name for `node`, which is no directory.
    fn link(&self, who: &Caller, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let _ = (who, node, name);
        read_only(dir)
    }
    /// Removes a name of something that is no directory. The node lives on while it is open.
    fn unlink(&self, who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        let _ = (who, name);
        read_only(dir)
    }
    /// Removes an empty directory.
    fn rmdir(&self, who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        let _ = (who, name);
        read_only(dir)
    }
    /// Gives `name` in `dir` the name `to_name` in `to_dir`, in one step that a crash does not divide.
    fn rename(
        &self,
        who: &Caller,
        dir: NodeId,
        name: &[u8],
        to_dir: NodeId,
        to_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let _ = (who, name, to_dir, to_name, flags);
        read_only(dir)
    }
    /// Sets attributes, and returns them as they are then.
    fn set_attr(&self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        let _ = (who, set);
        read_only(node)
    }
    /// Writes all of `data` at `offset`.
    fn write(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        let _ = (who, offset, data);
        read_only(node)
    }
    /// Writes all of `data` at `offset`, as [`Vfs::write`], from the cache of a kernel that owns the file's times: the time of
    /// the change was before, the kernel has shown it, and sets it itself. So no time moves here.
    fn write_cached(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.write(who, node, offset, data)
    }
    /// Writes all of `data` behind the end; returns where that was.
    fn append(&self, who: &Caller, node: NodeId, data: &[u8]) -> Result<u64> {
        let _ = (who, data);
        read_only(node)
    }
    /// fallocate(2).
    fn allocate(&self, who: &Caller, node: NodeId, what: Allocate, offset: u64, len: u64) -> Result<()> {
        let _ = (who, what, offset, len);
        read_only(node)
    }
    /// Copies a range of a file within the tree; returns how much, less only at the end of `from`.
    fn copy_range(
        &self,
        who: &Caller,
        from: NodeId,
        from_offset: u64,
        to: NodeId,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let _ = (who, from, from_offset, to_offset, len);
        read_only(to)
    }
    /// Sets an extended attribute. POSIX ACLs come as `system.posix_acl_access` and `system.posix_acl_default`.
    fn set_xattr(&self, who: &Caller, node: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (who, name, value, how);
        read_only(node)
    }
    /// Removes an extended attribute.
    fn remove_xattr(&self, who: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        let _ = (who, name);
        read_only(node)
    }
    /// ZFS's own access list (NFSv4 style). Of a node that has none, the one that its mode stands for.
    fn nfs4_acl(&self, node: NodeId) -> Result<Vec<Ace>> {
        if let Some(list) = self.nfs4_acl_beyond_mode(node)? {
            return Ok(list);
        }
        let attr = self.attr(node)?;
        Ok(nfs4_acl::of_mode(attr.mode, attr.kind == FileKind::Directory))
    }
    /// The same, but nothing where the mode says all that it says: then nobody has to look at it.
    fn nfs4_acl_beyond_mode(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        let _ = node;
        Ok(None)
    }
    /// Sets it, and the mode that goes with it.
    fn set_nfs4_acl(&self, who: &Caller, node: NodeId, list: &[Ace]) -> Result<()> {
        let _ = (who, list);
        Err(crate::Error::unsupported(format!("node {}", node.0), "access lists of NFSv4"))
    }
    /// The node is in use: what was unlinked is kept until as many [`Vfs::close_node`] follow.
    fn open_node(&self, node: NodeId) -> Result<()> {
        let _ = node;
        Ok(())
    }
    /// The node is in use once less.
    fn close_node(&self, node: NodeId) {
        let _ = node;
    }
    /// What was read from `node`, which decides whether its access time moves (`atime`, `relatime`).
    fn accessed(&self, node: NodeId) {
        let _ = node;
    }
    /// Returns once every change to `node` so far is on stable storage.
    fn sync_node(&self, node: NodeId, kind: SyncKind) -> Result<()> {
        let _ = (node, kind);
        Ok(())
    }
    /// Returns once every change so far is on stable storage.
    fn sync_all(&self) -> Result<()> {
        Ok(())
    }
}

fn read_only<T>(node: NodeId) -> Result<T> {
    Err(Refusal::ReadOnly.at(format!("node {}", node.0)))
}
