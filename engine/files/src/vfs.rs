//! The one interface that servers see: a tree of nodes, read by node number.
//!
//! FUSE, NFS and the commands work on `dyn Vfs` and know nothing of datasets or blocks. Everything here is blocking and
//! thread-safe; node numbers stay valid as long as the `Vfs` lives.

use crate::Result;
use bytes::Bytes;

/// A node of a [`Vfs`]: object number in the low 48 bits, number of the file system within the tree above them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

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

/// A readable tree of files.
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
}
