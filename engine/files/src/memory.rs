//! A tree in memory: what servers, commands and [`crate::namespace`] are tested with, and how they read to a person who
//! wonders what a [`Vfs`] has to do.
//!
//! Built first, through `&mut self`, then served. Files are pieces of data with holes between; a range can be made to fail,
//! as a damaged block does.

use crate::vfs::{Attr, DirEntry, FileKind, NodeId, StatFs, Time, Vfs};
use crate::{Error, Result};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Object number of the root, as ZFS mostly has it.
const ROOT: u64 = 34;
/// Unit of data, holes and failures, as a record is in ZFS.
const RECORD_BYTES: u64 = 128 << 10;

struct Node {
    attr: Attr,
    parent: NodeId,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    entries: Vec<(Vec<u8>, NodeId)>,
    index: BTreeMap<Vec<u8>, NodeId>,
    data: BTreeMap<u64, Bytes>,
    broken: Vec<(Range<u64>, Error)>,
}

/// A file system in memory.
pub struct MemoryVfs {
    nodes: BTreeMap<NodeId, Node>,
    next: u64,
}

impl Default for MemoryVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryVfs {
    /// With an empty root directory.
    pub fn new() -> Self {
        let mut this = Self { nodes: BTreeMap::new(), next: ROOT };
        this.insert_node(NodeId(ROOT), FileKind::Directory, 0o755);
        this
    }

    fn insert_node(&mut self, parent: NodeId, kind: FileKind, mode: u32) -> NodeId {
        let node = NodeId(self.next);
        self.next += 1;
        let time = Time { seconds: 1_700_000_000, nanoseconds: 123_456_789 };
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
        let node_data = Node {
            attr,
            parent,
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            entries: Vec::new(),
            index: BTreeMap::new(),
            data: BTreeMap::new(),
            broken: Vec::new(),
        };
        self.nodes.insert(node, node_data);
        node
    }

    fn enter(&mut self, dir: NodeId, name: &[u8], node: NodeId) {
        let is_dir = self.attr_mut(node).kind == FileKind::Directory;
        let parent = self.nodes.get_mut(&dir).expect("the builder's caller names a directory that it made");
        parent.entries.push((name.to_vec(), node));
        parent.index.insert(name.to_vec(), node);
        parent.attr.size += 1;
        parent.attr.links += u32::from(is_dir);
    }

    /// A new node of `kind` in `dir`, with permission bits.
    pub fn add(&mut self, dir: NodeId, name: impl AsRef<[u8]>, kind: FileKind, mode: u32) -> NodeId {
        let node = self.insert_node(dir, kind, mode);
        self.enter(dir, name.as_ref(), node);
        node
    }

    /// A new directory.
    pub fn add_dir(&mut self, dir: NodeId, name: impl AsRef<[u8]>) -> NodeId {
        self.add(dir, name, FileKind::Directory, 0o755)
    }

    /// A new file with contents.
    pub fn add_file(&mut self, dir: NodeId, name: impl AsRef<[u8]>, contents: impl Into<Bytes>) -> NodeId {
        let contents = contents.into();
        let size = contents.len() as u64;
        let node = self.add(dir, name, FileKind::Regular, 0o644);
        self.put(node, 0, contents);
        self.attr_mut(node).size = size;
        node
    }

    /// A new symbolic link.
    pub fn add_symlink(&mut self, dir: NodeId, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> NodeId {
        let node = self.add(dir, name, FileKind::Symlink, 0o777);
        let data = self.nodes.get_mut(&node).expect("just made");
        data.target = target.as_ref().to_vec();
        data.attr.size = data.target.len() as u64;
        node
    }

    /// Another name for `node`.
    pub fn add_link(&mut self, dir: NodeId, name: impl AsRef<[u8]>, node: NodeId) {
        self.enter(dir, name.as_ref(), node);
        self.attr_mut(node).links += 1;
    }

    /// Puts data at `offset`, which should be a multiple of 128 KiB; what lies between pieces is a hole.
    pub fn put(&mut self, node: NodeId, offset: u64, data: impl Into<Bytes>) {
        let data = data.into();
        let node = self.nodes.get_mut(&node).expect("the builder's caller names a node that it made");
        node.attr.size = node.attr.size.max(offset + data.len() as u64);
        if !data.is_empty() {
            node.data.insert(offset, data);
        }
    }

    /// Reading any of `range` fails with `error`.
    pub fn break_range(&mut self, node: NodeId, range: Range<u64>, error: Error) {
        let node = self.nodes.get_mut(&node).expect("the builder's caller names a node that it made");
        node.broken.push((range, error));
    }

    /// Sets an extended attribute.
    pub fn put_xattr(&mut self, node: NodeId, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let node = self.nodes.get_mut(&node).expect("the builder's caller names a node that it made");
        node.xattrs.insert(name.as_ref().to_vec(), value.as_ref().to_vec());
    }

    /// Attributes, to change them while building.
    pub fn attr_mut(&mut self, node: NodeId) -> &mut Attr {
        &mut self.nodes.get_mut(&node).expect("the builder's caller names a node that it made").attr
    }

    fn node(&self, node: NodeId) -> Result<&Node> {
        self.nodes.get(&node).ok_or_else(|| Error::not_found("memory", format!("object {}", node.0)))
    }
}

impl Vfs for MemoryVfs {
    fn root(&self) -> NodeId {
        NodeId(ROOT)
    }

    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr> {
        let node = self.node(dir)?;
        let found = match name {
            b"." => dir,
            b".." => node.parent,
            name => *node
                .index
                .get(name)
                .ok_or_else(|| Error::not_found("memory", String::from_utf8_lossy(name).into_owned()))?,
        };
        self.attr(found)
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        Ok(self.node(node)?.attr)
    }

    fn read_link(&self, node: NodeId) -> Result<Vec<u8>> {
        Ok(self.node(node)?.target.clone())
    }

    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        let node = self.node(node)?;
        let end = offset.saturating_add(len as u64).min(node.attr.size);
        if let Some((_, error)) = node.broken.iter().find(|(r, _)| r.start < end && offset < r.end) {
            return Err(error.clone());
        }
        if end <= offset {
            return Ok(Bytes::new());
        }
        let mut out = vec![0; (end - offset) as usize];
        for (&at, piece) in node.data.range(..end) {
            let piece_end = at + piece.len() as u64;
            let (from, to) = (at.max(offset), piece_end.min(end));
            if from < to {
                let source = piece.slice((from - at) as usize..(to - at) as usize);
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&source);
            }
        }
        Ok(out.into())
    }

    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        let node = self.node(dir)?;
        let dots = [(b".".to_vec(), dir), (b"..".to_vec(), node.parent)];
        for (i, (name, entry)) in dots.iter().chain(&node.entries).enumerate().skip(cookie as usize) {
            let kind = self.node(*entry)?.attr.kind;
            if !sink(DirEntry { name: name.clone(), node: *entry, kind, next_cookie: i as u64 + 1 }) {
                break;
            }
        }
        Ok(())
    }

    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        Ok(self.node(node)?.xattrs.keys().cloned().collect())
    }

    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.node(node)?.xattrs.get(name).cloned())
    }

    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        let node = self.node(node)?;
        let in_data = |&(&at, piece): &(&u64, &Bytes)| offset < at + piece.len() as u64;
        Ok(node.data.iter().find(in_data).map(|(&at, _)| at.max(offset)).filter(|&at| at < node.attr.size))
    }

    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        let node = self.node(node)?;
        let mut hole = offset;
        for (&at, piece) in &node.data {
            let end = (at + piece.len() as u64).next_multiple_of(RECORD_BYTES);
            if at <= hole && hole < end {
                hole = end;
            }
        }
        Ok(hole.min(node.attr.size))
    }

    fn stat_fs(&self, _node: NodeId) -> Result<StatFs> {
        let files = self.nodes.len() as u64;
        Ok(StatFs {
            block_bytes: 512,
            blocks: 1 << 20,
            blocks_free: 1 << 19,
            files,
            files_free: 1000,
            name_max: 255,
            fsid: 42,
        })
    }
}
