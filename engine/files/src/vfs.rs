//! The only interface that servers see: a tree of nodes, read and changed by node number.
//!
//! FUSE, NFS and the commands work on `dyn Vfs` and know nothing of datasets or blocks. All methods
//! are blocking and thread-safe; node numbers stay valid for the lifetime of the `Vfs`.

mod caller;

pub use caller::Caller;

use crate::nfs4_acl;
use bytes::Bytes;
use errors::{Refusal, Result};
use ondisk::acl::Ace;
use ondisk::znode::Flags;

/// A node of a [`Vfs`]. In a single file system it is the object number; [`crate::namespace`] adds
/// the number of the file system within the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

/// A persistent reference to a node: it leads to the same node after a restart, after a rename of
/// its dataset, or in another [`Vfs`] that shows the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    /// The file system: `ds_fsid_guid` of its dataset, snapshot or volume (the same as
    /// [`StatFs::fsid`]).
    pub fs_guid: u64,
    /// The object number. [`FileHandle::ROOT`] is the file system's root. Numbers from
    /// [`FileHandle::MADE`] on are directories that exist only in a namespace, such as `.zfs`.
    pub object: u64,
    /// Generation of the object; 0 for a root requested by [`FileHandle::ROOT`].
    pub generation: u64,
}

impl FileHandle {
    /// Reserved number that no object has; it represents the root.
    pub const ROOT: u64 = 0;
    /// Numbers below this are objects of datasets.
    pub const MADE: u64 = 1 << 63;

    /// The root of a file system.
    pub fn root_of(fs_guid: u64) -> Self {
        Self { fs_guid, object: Self::ROOT, generation: 0 }
    }
}

/// File type of a node.
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

/// A point in time as stored on disk; it may be before 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Time {
    /// The time of day as Linux assigns it to files: that of the last tick. A kernel that caches
    /// writes (write-back over FUSE) uses the same clock, and the later of two changes must not
    /// appear to be the earlier.
    pub fn now() -> Self {
        let (seconds, nanoseconds) = host::clock::file_time();
        Self { seconds, nanoseconds }
    }
}

/// The attributes of a node, as reported by stat(2) and statx(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    pub node: NodeId,
    /// Inode number to report: the object number.
    pub ino: u64,
    /// Generation; it differs when an object number is reused.
    pub generation: u64,
    pub kind: FileKind,
    /// Permission bits with setuid, setgid and sticky (07777).
    pub mode: u32,
    /// Number of hard links.
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Project; 0 if the dataset has no projects.
    pub project: u64,
    /// Major number of a device node, as Linux numbers them; 0 for other files.
    pub rdev_major: u32,
    pub rdev_minor: u32,
    /// Size in bytes; of a directory, entries + 2 as OpenZFS shows it.
    pub size: u64,
    /// 512-byte units used on disk.
    pub blocks_512: u64,
    /// Preferred I/O size (`st_blksize`).
    pub block_bytes: u32,
    /// Time of last access.
    pub atime: Time,
    /// Time of the last change of contents.
    pub mtime: Time,
    /// Time of the last change of attributes.
    pub ctime: Time,
    /// Creation time.
    pub btime: Time,
}

/// Transaction groups of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Txgs {
    /// The one that changes belong to that end now, at the earliest.
    pub open: u64,
    /// The last one that is on disk.
    pub synced: u64,
}

/// An entry that [`Vfs::read_dir`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name as stored; not always UTF-8.
    pub name: Vec<u8>,
    /// The node it names.
    pub node: NodeId,
    /// File type, as recorded in the directory.
    pub kind: FileKind,
    /// Pass this to [`Vfs::read_dir`] to continue after this entry.
    pub next_cookie: u64,
}

/// The result of statfs(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatFs {
    /// Unit of the next two fields, in bytes.
    pub block_bytes: u64,
    /// Size of the file system.
    pub blocks: u64,
    /// Space that can still be written.
    pub blocks_free: u64,
    /// Objects in use and free.
    pub files: u64,
    /// Objects that can still be created.
    pub files_free: u64,
    /// Longest name, in bytes.
    pub name_max: u32,
    /// Identity (`f_fsid`).
    pub fsid: u64,
}

/// The subject of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaOf {
    User,
    Group,
}

/// Space and objects used by a user or group, and their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Bytes in use, as of the last txg.
    pub bytes: u64,
    /// Limit in bytes; `None`: no limit.
    pub bytes_max: Option<u64>,
    /// Objects in use, as of the last txg.
    pub objects: u64,
    /// Limit in objects; `None`: no limit.
    pub objects_max: Option<u64>,
}

/// What to create in a directory. A symbolic link has its target, a device its numbers in Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewNode {
    Regular,
    Directory,
    Symlink(Vec<u8>),
    Fifo,
    Socket,
    CharDevice { major: u32, minor: u32 },
    BlockDevice { major: u32, minor: u32 },
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the change.
    Now,
    To(Time),
}

/// Attributes to set; `None` leaves an attribute unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits with setuid, setgid and sticky (07777).
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Size: truncates, or extends with a hole.
    pub size: Option<u64>,
    /// Time of last access.
    pub atime: Option<SetTime>,
    /// Time of the last change of contents.
    pub mtime: Option<SetTime>,
    /// Time of the last change of attributes; defaults to the time of the change.
    pub ctime: Option<SetTime>,
    /// Creation time.
    pub btime: Option<Time>,
    pub project: Option<u64>,
    /// New files in this directory inherit its project (`FS_XFLAG_PROJINHERIT`).
    pub project_inherit: Option<bool>,
    /// Flags to set and to clear, of [`Flags::DOS`].
    pub set_flags: Flags,
    pub clear_flags: Flags,
}

/// Rename mode, as in renameat2(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenameFlags {
    /// Fail if the new name exists (`RENAME_NOREPLACE`).
    pub no_replace: bool,
    /// Exchange both names (`RENAME_EXCHANGE`).
    pub exchange: bool,
    /// Leave a whiteout behind (`RENAME_WHITEOUT`).
    pub whiteout: bool,
}

/// How to set an extended attribute, as in setxattr(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Create or replace.
    Either,
    /// It must not be there (`XATTR_CREATE`).
    Create,
    /// It must be there (`XATTR_REPLACE`).
    Replace,
}

/// Modes of fallocate(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocate {
    /// Allocate space for the range; extends the file unless `keep_size`.
    Reserve {
        /// Do not change the size.
        keep_size: bool,
    },
    /// Punch a hole; the size does not change.
    Punch,
    /// Zero the range; extends the file unless `keep_size`.
    Zero {
        /// Do not change the size.
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

/// A tree of files. Methods that change it fail with [`Refusal::ReadOnly`] unless the tree is
/// writable.
///
/// A change is visible to all callers once the method has returned, and survives a crash once a
/// later [`Vfs::sync_node`] or [`Vfs::sync_all`] has returned. The server checks permissions; the
/// file system enforces what belongs to it: quotas, setuid bits that a change clears, groups
/// inherited from directories.
pub trait Vfs: Send + Sync {
    fn root(&self) -> NodeId;
    /// The node called `name` in `dir`; `.` and `..` are supported.
    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr>;
    /// Attributes of a node.
    fn attr(&self, node: NodeId) -> Result<Attr>;
    /// Target of a symbolic link.
    fn read_link(&self, node: NodeId) -> Result<Vec<u8>>;
    /// Reads up to `len` bytes from `offset`; returns fewer only at the end of the file.
    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes>;
    /// Like `read`, but into `out`, for callers that have a buffer; returns the number of bytes.
    fn read_into(&self, node: NodeId, offset: u64, out: &mut [u8]) -> Result<usize> {
        let data = self.read(node, offset, out.len())?;
        let room = out.get_mut(..data.len()).ok_or_else(|| errors::Error::invalid("a read", "it gave too much"))?;
        room.copy_from_slice(&data);
        Ok(data.len())
    }
    /// Calls `sink` with each entry after `cookie` (0: from the start; `.` and `..` first) until it
    /// returns false.
    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()>;
    /// The `fs_guid` of the snapshot that an entry of [`Vfs::read_dir`] leads to, without opening
    /// it. `None`: the entry is no snapshot.
    fn snapshot_behind(&self, entry: NodeId) -> Result<Option<u64>> {
        let _ = entry;
        Ok(None)
    }
    /// Names of the extended attributes, with their namespace (`user.`, `trusted.`,
    /// `security.`, `system.posix_acl_access` …).
    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>>;
    /// Value of an extended attribute, or `None`.
    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>>;
    /// First data offset at or after `offset` (`SEEK_DATA`); `None` after the last.
    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>>;
    /// First hole offset at or after `offset` (`SEEK_HOLE`); the size if there is none.
    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64>;
    /// Space and objects of the file system that contains `node`; of a node that hands its project
    /// on ([`Vfs::project_inherit`]), what the project's quotas leave of them.
    fn stat_fs(&self, node: NodeId) -> Result<StatFs>;

    /// The transaction groups of the pool, if the tree is on disk and can change.
    fn txgs(&self) -> Option<Txgs> {
        None
    }

    /// The directory in which a node was last given a name, if known; that name may be gone.
    fn parent(&self, node: NodeId) -> Result<Option<NodeId>> {
        let _ = node;
        Ok(None)
    }

    /// Usage of the node's file system by a user or group; `None` if no limit is set for it.
    fn quota(&self, node: NodeId, of: QuotaOf, id: u32) -> Result<Option<Quota>> {
        let _ = (node, of, id);
        Ok(None)
    }

    /// The persistent handle of a node.
    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        Err(errors::Error::unsupported(format!("node {}", node.0), "file handles"))
    }
    /// The node of a handle, with its attributes. Fails with [`Refusal::Stale`] if it is gone, or
    /// its file system is not in this tree.
    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        let _ = handle;
        Err(errors::Error::unsupported("", "file handles"))
    }
    /// The file system that `fs_guid` belongs to: itself, or, for a snapshot or volume, the file
    /// system whose `.zfs` contains it.
    fn home_of(&self, fs_guid: u64) -> Result<u64> {
        Ok(fs_guid)
    }
    /// Whether this node is read-only because of the file system it is in.
    fn is_node_read_only(&self, node: NodeId) -> bool {
        let _ = node;
        self.is_read_only()
    }

    /// Whether the tree is read-only.
    fn is_read_only(&self) -> bool {
        true
    }
    /// Whether nothing in the tree ever changes, including which snapshots it shows.
    fn never_changes(&self) -> bool {
        self.is_read_only()
    }
    /// Whether each name has exactly one spelling. False if the file system ignores case or
    /// normalizes Unicode: clients that cache names must then revalidate them, since a change under
    /// one spelling affects all spellings.
    fn names_are_exact(&self) -> bool {
        true
    }
    /// Whether the file system of this node treats names that differ only in case as equal.
    fn ignores_case(&self, node: NodeId) -> bool {
        let _ = node;
        false
    }
    /// Whether new files in this directory inherit its project (`FS_XFLAG_PROJINHERIT`). A regular
    /// file has the flag too, without effect.
    fn project_inherit(&self, dir: NodeId) -> Result<bool> {
        let _ = dir;
        Ok(false)
    }
    /// The flags of a file, of [`Flags::DOS`].
    fn dos_flags(&self, node: NodeId) -> Result<Flags> {
        let _ = node;
        Ok(Flags::empty())
    }
    /// Creates a node. `mode`: permission bits with setuid, setgid, sticky, before default ACLs and
    /// `umask`.
    fn create(&self, who: &Caller, dir: NodeId, name: &[u8], new: &NewNode, mode: u32, umask: u32) -> Result<Attr> {
        let _ = (who, name, new, mode, umask);
        read_only(dir)
    }
    /// Creates a file with this mode (subject to `umask`) and these access and modification times,
    /// atomically even if there is a crash. A retried exclusive create over NFS recognizes its file
    /// by these times.
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
    /// Creates a file without a name (`O_TMPFILE`), with owner, permissions and project as if
    /// created in `dir`. It is removed unless [`Vfs::open_node`] or [`Vfs::link`] follow; a crash
    /// removes it too.
    fn create_unnamed(&self, who: &Caller, dir: NodeId, mode: u32, umask: u32) -> Result<Attr> {
        let _ = (who, mode, umask);
        Err(errors::Error::unsupported(format!("node {}", dir.0), "a file without a name"))
    }
    /// Creates a hard link to `node`, which must not be a directory.
    fn link(&self, who: &Caller, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let _ = (who, node, name);
        read_only(dir)
    }
    /// Removes a name of anything but a directory. The node continues to exist while it is open.
    fn unlink(&self, who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        let _ = (who, name);
        read_only(dir)
    }
    /// Removes an empty directory.
    fn rmdir(&self, who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        let _ = (who, name);
        read_only(dir)
    }
    /// Renames `name` in `dir` to `to_name` in `to_dir`; atomic even if there is a crash.
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
    /// Sets attributes, and returns the resulting attributes.
    fn set_attr(&self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        let _ = (who, set);
        read_only(node)
    }
    /// Writes all of `data` at `offset`.
    fn write(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        let _ = (who, offset, data);
        read_only(node)
    }
    /// Writes all of `data` at `offset`, like [`Vfs::write`], on behalf of a kernel whose
    /// write-back cache owns the file's times. The change happened earlier, the kernel has already
    /// reported its time and sets it itself, so this method changes no times.
    fn write_cached(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.write(who, node, offset, data)
    }
    /// Appends all of `data` to the file; returns the offset at which it was written.
    fn append(&self, who: &Caller, node: NodeId, data: &[u8]) -> Result<u64> {
        let _ = (who, data);
        read_only(node)
    }
    /// fallocate(2).
    fn allocate(&self, who: &Caller, node: NodeId, what: Allocate, offset: u64, len: u64) -> Result<()> {
        let _ = (who, what, offset, len);
        read_only(node)
    }
    /// Copies a range of a file within the tree; returns the number of bytes, fewer than requested
    /// only at the end of `from`.
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
    /// Sets an extended attribute. POSIX ACLs are passed as `system.posix_acl_access` and
    /// `system.posix_acl_default`.
    fn set_xattr(&self, who: &Caller, node: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (who, name, value, how);
        read_only(node)
    }
    fn remove_xattr(&self, who: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        let _ = (who, name);
        read_only(node)
    }
    /// ZFS's own ACL (NFSv4 style). For a node that has none, the ACL equivalent to its mode.
    fn nfs4_acl(&self, node: NodeId) -> Result<Vec<Ace>> {
        if let Some(list) = self.nfs4_acl_beyond_mode(node)? {
            return Ok(list);
        }
        let attr = self.attr(node)?;
        Ok(nfs4_acl::of_mode(attr.mode, attr.kind == FileKind::Directory))
    }
    /// Like the above, but `None` if the mode expresses the whole list, so that callers can skip
    /// it.
    fn nfs4_acl_beyond_mode(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        let _ = node;
        Ok(None)
    }
    /// Sets the ACL and the corresponding mode.
    fn set_nfs4_acl(&self, who: &Caller, node: NodeId, list: &[Ace]) -> Result<()> {
        let _ = (who, list);
        Err(errors::Error::unsupported(format!("node {}", node.0), "access lists of NFSv4"))
    }
    /// Marks the node as in use: an unlinked node is kept until the same number of
    /// [`Vfs::close_node`] calls follow.
    fn open_node(&self, node: NodeId) -> Result<()> {
        let _ = node;
        Ok(())
    }
    /// Releases one use of the node.
    fn close_node(&self, node: NodeId) {
        let _ = node;
    }
    /// Reports what was read from `node`, which decides whether its access time is updated
    /// (`atime`, `relatime`).
    fn accessed(&self, node: NodeId) {
        let _ = node;
    }
    /// Returns once every change made to `node` so far is on stable storage.
    fn sync_node(&self, node: NodeId, kind: SyncKind) -> Result<()> {
        let _ = (node, kind);
        Ok(())
    }
    /// Returns once every change made so far is on stable storage.
    fn sync_all(&self) -> Result<()> {
        Ok(())
    }
}

fn read_only<T>(node: NodeId) -> Result<T> {
    Err(Refusal::ReadOnly.at(format!("node {}", node.0)))
}
