//! A tree in memory. It is used to test servers, commands and [`crate::namespace`], and serves as a
//! readable reference for what a [`Vfs`] must do: it shows what system calls expect of a change
//! without any disk code.
//!
//! The tree is built first, through `&mut self`, then served. Clients can change it only after
//! [`MemoryVfs::writable`]. Files are records with holes between them; a range can be made to fail,
//! as a damaged block does.
//!
//! Invariants:
//!   * a directory's link count is its number of subdirectories plus two
//!   * a node is dropped when it has no name left and is not open
//!   * a directory cookie is never reused for another entry: listings continue where they were
//!     while names are added and removed

use crate::vfs::{
    Allocate, Attr, Caller, DirEntry, FileHandle, FileKind, NewNode, NodeId, RenameFlags, SetAttr, SetXattr, StatFs,
    Time, Vfs,
};
use bytes::Bytes;
use errors::{Error, Refusal, Result};
use host::sync::{RwLock, RwLockWriteGuard};
use ondisk::acl::Ace;
use ondisk::znode::Flags;
use std::collections::BTreeMap;
use std::ops::Range;

mod change;
mod data;
#[cfg(test)]
mod tests;

/// Object number of the root, the usual one in ZFS.
const ROOT: u64 = 34;
/// Unit of data, holes and failures, like a record in ZFS.
const RECORD_BYTES: u64 = 128 << 10;
/// First cookie of a named entry; those of `.` and `..` come before it.
const FIRST_COOKIE: u64 = 3;
/// Identity of the file system, unless [`MemoryVfs::identity`] sets another.
const FS_GUID: u64 = 42;
/// Size of the file system, unless [`MemoryVfs::limit`] sets another.
const SPACE_BYTES: u64 = 512 << 20;

#[derive(Default)]
struct Data {
    /// Records by number; a record is stored shorter if the rest is zeros.
    records: BTreeMap<u64, Vec<u8>>,
}

struct Node {
    attr: Attr,
    parent: NodeId,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// ZFS's own ACL, if it expresses more than the mode.
    aces: Option<Vec<Ace>>,
    /// By cookie.
    entries: BTreeMap<u64, (Vec<u8>, NodeId)>,
    index: BTreeMap<Vec<u8>, u64>,
    next_cookie: u64,
    data: Data,
    broken: Vec<(Range<u64>, Error)>,
    opens: u64,
    project_inherit: bool,
    flags: Flags,
    /// Created without a name (`O_TMPFILE`) and may be given one.
    unnamed: bool,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<NodeId, Node>,
    next: u64,
}

/// A file system in memory.
pub struct MemoryVfs {
    state: RwLock<State>,
    writable: bool,
    space_bytes: Option<u64>,
    fs_guid: u64,
}

impl Default for MemoryVfs {
    fn default() -> Self {
        Self::new()
    }
}

fn missing(what: impl Into<String>) -> Error {
    Error::not_found("memory", what)
}

fn now() -> Time {
    Time::now()
}

impl State {
    fn node(&self, node: NodeId) -> Result<&Node> {
        self.nodes.get(&node).ok_or_else(|| missing(format!("object {}", node.0)))
    }

    fn node_mut(&mut self, node: NodeId) -> Result<&mut Node> {
        self.nodes.get_mut(&node).ok_or_else(|| missing(format!("object {}", node.0)))
    }

    fn insert(&mut self, parent: NodeId, kind: FileKind, mode: u32, time: Time) -> NodeId {
        let node = NodeId(self.next);
        self.next += 1;
        let attr = Attr {
            node,
            ino: node.0,
            generation: 7,
            kind,
            mode,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            uid: 0,
            gid: 0,
            project: 0,
            rdev_major: 0,
            rdev_minor: 0,
            size: if kind == FileKind::Directory { 2 } else { 0 },
            blocks_512: 1,
            block_bytes: RECORD_BYTES as u32,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        };
        let new = Node {
            attr,
            parent,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            aces: None,
            entries: BTreeMap::new(),
            index: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
            data: Data::default(),
            broken: Vec::new(),
            opens: 0,
            project_inherit: false,
            flags: Flags::empty(),
            unnamed: false,
        };
        self.nodes.insert(node, new);
        node
    }

    /// Adds a name to `dir`; the caller updates the node's own link count.
    fn enter(&mut self, dir: NodeId, name: &[u8], node: NodeId) -> Result<()> {
        let is_dir = self.node(node)?.attr.kind == FileKind::Directory;
        let parent = self.node_mut(dir)?;
        let cookie = parent.next_cookie;
        parent.next_cookie += 1;
        parent.entries.insert(cookie, (name.to_vec(), node));
        parent.index.insert(name.to_vec(), cookie);
        parent.attr.size += 1;
        parent.attr.links += u32::from(is_dir);
        Ok(())
    }
}

impl MemoryVfs {
    /// With an empty root directory.
    pub fn new() -> Self {
        let mut state = State { nodes: BTreeMap::new(), next: ROOT };
        state.insert(NodeId(ROOT), FileKind::Directory, 0o755, built());
        Self { state: RwLock::new(state), writable: false, space_bytes: None, fs_guid: FS_GUID }
    }

    /// Lets clients change it.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// Refuses data beyond `bytes` (whole records count) with [`Refusal::NoSpace`].
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.space_bytes = Some(bytes);
        self
    }

    /// Sets the identity that handles and `statfs` report.
    #[must_use]
    pub fn identity(mut self, fs_guid: u64) -> Self {
        self.fs_guid = fs_guid;
        self
    }

    fn built_mut(&mut self, node: NodeId) -> &mut Node {
        self.state.get_mut().nodes.get_mut(&node).expect("the builder's caller names a node that it made")
    }

    /// Creates a node of `kind` in `dir`, with permission bits.
    pub fn add(&mut self, dir: NodeId, name: impl AsRef<[u8]>, kind: FileKind, mode: u32) -> NodeId {
        let state = self.state.get_mut();
        let node = state.insert(dir, kind, mode, built());
        state.enter(dir, name.as_ref(), node).expect("the builder's caller names a directory that it made");
        node
    }

    /// Creates a directory with mode 0755.
    pub fn add_dir(&mut self, dir: NodeId, name: impl AsRef<[u8]>) -> NodeId {
        self.add(dir, name, FileKind::Directory, 0o755)
    }

    /// Creates a file with contents.
    pub fn add_file(&mut self, dir: NodeId, name: impl AsRef<[u8]>, contents: impl Into<Bytes>) -> NodeId {
        let contents = contents.into();
        let size = contents.len() as u64;
        let node = self.add(dir, name, FileKind::Regular, 0o644);
        self.put(node, 0, contents);
        self.attr_mut(node).size = size;
        node
    }

    /// Creates a symbolic link.
    pub fn add_symlink(&mut self, dir: NodeId, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> NodeId {
        let node = self.add(dir, name, FileKind::Symlink, 0o777);
        let new = self.built_mut(node);
        new.target = target.as_ref().to_vec();
        new.attr.size = new.target.len() as u64;
        node
    }

    /// Another name for `node`.
    pub fn add_link(&mut self, dir: NodeId, name: impl AsRef<[u8]>, node: NodeId) {
        self.state.get_mut().enter(dir, name.as_ref(), node).expect("the builder's caller names nodes that it made");
        self.attr_mut(node).links += 1;
    }

    /// Writes data at `offset`; records of 128 KiB that it does not touch remain holes.
    pub fn put(&mut self, node: NodeId, offset: u64, data: impl Into<Bytes>) {
        let data = data.into();
        let node = self.built_mut(node);
        node.attr.size = node.attr.size.max(offset + data.len() as u64);
        node.data.write(offset, &data);
    }

    /// Makes every read of any part of `range` fail with `error`.
    pub fn break_range(&mut self, node: NodeId, range: Range<u64>, error: Error) {
        self.built_mut(node).broken.push((range, error));
    }

    /// Sets an extended attribute.
    pub fn put_xattr(&mut self, node: NodeId, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.built_mut(node).xattrs.insert(name.as_ref().to_vec(), value.as_ref().to_vec());
    }

    /// Mutable attributes, for use while building the tree.
    pub fn attr_mut(&mut self, node: NodeId) -> &mut Attr {
        &mut self.built_mut(node).attr
    }

    /// Number of existing nodes, including those without a name.
    pub fn node_count(&self) -> usize {
        self.state.read().nodes.len()
    }

    fn change(&self) -> Result<RwLockWriteGuard<'_, State>> {
        if self.writable { Ok(self.state.write()) } else { Err(Refusal::ReadOnly.at("memory")) }
    }
}

/// Fixed timestamps for trees built by tests, so that output is the same each time.
fn built() -> Time {
    Time { seconds: 1_700_000_000, nanoseconds: 123_456_789 }
}

impl MemoryVfs {
    /// Up to `most` entries of a directory after `cookie`.
    fn entries(&self, dir: NodeId, cookie: u64, most: usize) -> Result<Vec<DirEntry>> {
        let state = self.state.read();
        let node = state.node(dir)?;
        let dots = [(1, &b"."[..], dir), (2, &b".."[..], node.parent)].into_iter().filter(|d| d.0 > cookie);
        let entries = node.entries.range(cookie.saturating_add(1)..).map(|(&at, (name, node))| (at, &name[..], *node));
        let entry = |(next_cookie, name, entry): (u64, &[u8], NodeId)| {
            // The parent of a removed directory may be gone.
            let kind = state.node(entry).map_or(FileKind::Directory, |n| n.attr.kind);
            DirEntry { name: name.to_vec(), node: entry, kind, next_cookie }
        };
        Ok(dots.chain(entries).take(most).map(entry).collect())
    }
}

impl Vfs for MemoryVfs {
    fn root(&self) -> NodeId {
        NodeId(ROOT)
    }

    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let state = self.state.read();
        Ok(state.node(state.find(dir, name)?)?.attr)
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        Ok(self.state.read().node(node)?.attr)
    }

    fn read_link(&self, node: NodeId) -> Result<Vec<u8>> {
        Ok(self.state.read().node(node)?.target.clone())
    }

    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        let state = self.state.read();
        let node = state.node(node)?;
        let end = offset.saturating_add(len as u64).min(node.attr.size);
        if let Some((_, error)) = node.broken.iter().find(|(r, _)| r.start < end && offset < r.end) {
            return Err(error.clone());
        }
        Ok(node.data.read(offset..end.max(offset)).into())
    }

    fn read_dir(&self, dir: NodeId, mut cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        loop {
            // The callback asks for the entries' attributes: a lock held here would deadlock
            // with a waiting writer.
            for entry in self.entries(dir, cookie, 256)? {
                cookie = entry.next_cookie;
                if !sink(entry) {
                    return Ok(());
                }
            }
            if self.entries(dir, cookie, 1)?.is_empty() {
                return Ok(());
            }
        }
    }

    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        Ok(self.state.read().node(node)?.xattrs.keys().cloned().collect())
    }

    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.state.read().node(node)?.xattrs.get(name).cloned())
    }

    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        let state = self.state.read();
        let node = state.node(node)?;
        Ok(node.data.next_data(offset).filter(|&at| at < node.attr.size))
    }

    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        let state = self.state.read();
        let node = state.node(node)?;
        Ok(node.data.next_hole(offset).min(node.attr.size))
    }

    fn stat_fs(&self, _node: NodeId) -> Result<StatFs> {
        let state = self.state.read();
        let total = self.space_bytes.unwrap_or(SPACE_BYTES);
        let free = match self.space_bytes {
            Some(limit) => limit.saturating_sub(state.used_bytes()),
            None => total / 2,
        };
        Ok(StatFs {
            block_bytes: 512,
            blocks: total / 512,
            blocks_free: free / 512,
            files: state.nodes.len() as u64,
            files_free: 1000,
            name_max: 255,
            fsid: self.fs_guid,
        })
    }

    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        let generation = self.attr(node)?.generation;
        Ok(FileHandle { fs_guid: self.fs_guid, object: node.0, generation })
    }

    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        let stale = || Refusal::Stale.at(format!("memory object {}", handle.object));
        if handle.fs_guid != self.fs_guid {
            return Err(stale());
        }
        if handle.object == FileHandle::ROOT {
            return self.attr(self.root());
        }
        // Nodes without a name exist only while they are open.
        let attr = self.attr(NodeId(handle.object)).map_err(|_| stale())?;
        if attr.generation == handle.generation { Ok(attr) } else { Err(stale()) }
    }

    fn is_read_only(&self) -> bool {
        !self.writable
    }

    fn project_inherit(&self, dir: NodeId) -> Result<bool> {
        Ok(self.state.read().node(dir)?.project_inherit)
    }

    fn dos_flags(&self, node: NodeId) -> Result<Flags> {
        Ok(self.state.read().node(node)?.flags)
    }

    fn create(&self, who: &Caller, dir: NodeId, name: &[u8], new: &NewNode, mode: u32, umask: u32) -> Result<Attr> {
        self.change()?.create(who, dir, name, new, mode, umask)
    }

    fn create_unnamed(&self, who: &Caller, dir: NodeId, mode: u32, umask: u32) -> Result<Attr> {
        self.change()?.create_unnamed(who, dir, mode, umask)
    }

    fn link(&self, _who: &Caller, node: NodeId, dir: NodeId, name: &[u8]) -> Result<Attr> {
        self.change()?.link(node, dir, name)
    }

    fn unlink(&self, _who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        self.change()?.unlink(dir, name)
    }

    fn rmdir(&self, _who: &Caller, dir: NodeId, name: &[u8]) -> Result<()> {
        self.change()?.rmdir(dir, name)
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
        self.change()?.rename(who, (dir, name), (to_dir, to_name), flags)
    }

    fn set_attr(&self, who: &Caller, node: NodeId, set: &SetAttr) -> Result<Attr> {
        self.change()?.set_attr(who, node, set)
    }

    fn write(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        self.change()?.write(who, node, offset, data, self.space_bytes)
    }

    fn write_cached(&self, who: &Caller, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.change()?;
        let before = state.node(node)?.attr;
        state.write(who, node, offset, data, self.space_bytes)?;
        state.set_times(node, before.mtime, before.ctime)
    }

    fn append(&self, who: &Caller, node: NodeId, data: &[u8]) -> Result<u64> {
        let mut state = self.change()?;
        let end = state.node(node)?.attr.size;
        state.write(who, node, end, data, self.space_bytes)?;
        Ok(end)
    }

    fn allocate(&self, who: &Caller, node: NodeId, what: Allocate, offset: u64, len: u64) -> Result<()> {
        self.change()?.allocate(who, node, what, offset, len)
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
        let mut state = self.change()?;
        let source = state.regular(from)?;
        let end = from_offset.saturating_add(len).min(source.attr.size).max(from_offset);
        let copied = end - from_offset;
        if from == to && from_offset < to_offset.saturating_add(copied) && to_offset < end {
            return Err(Error::invalid("memory", "ranges of one file overlap"));
        }
        let bytes = source.data.read(from_offset..end);
        state.write(who, to, to_offset, &bytes, self.space_bytes)?;
        Ok(copied)
    }

    fn nfs4_acl_beyond_mode(&self, node: NodeId) -> Result<Option<Vec<Ace>>> {
        Ok(self.state.read().node(node)?.aces.clone())
    }

    fn set_nfs4_acl(&self, _who: &Caller, node: NodeId, list: &[Ace]) -> Result<()> {
        self.change()?.set_entries(node, list)
    }

    fn set_xattr(&self, _who: &Caller, node: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.change()?.set_xattr(node, name, value, how)
    }

    fn remove_xattr(&self, _who: &Caller, node: NodeId, name: &[u8]) -> Result<()> {
        self.change()?.remove_xattr(node, name)
    }

    fn open_node(&self, node: NodeId) -> Result<()> {
        self.state.write().node_mut(node)?.opens += 1;
        Ok(())
    }

    fn close_node(&self, node: NodeId) {
        self.state.write().close(node);
    }

    fn accessed(&self, node: NodeId) {
        // As relatime: once after each change, and once a day.
        const DAY: i64 = 86_400;
        let old =
            |a: &Attr, now: Time| a.atime <= a.mtime.max(a.ctime) || a.atime.seconds.saturating_add(DAY) <= now.seconds;
        if self.writable
            && let Ok(node) = self.state.write().node_mut(node)
            && let now = now()
            && old(&node.attr, now)
        {
            node.attr.atime = now;
        }
    }
}
