//! A volume as a [`Vfs`] that is one regular file: for `.zfs/volume`, and for copying a
//! volume into an image file.

use crate::Volume;
use crate::vfs::{Attr, DirEntry, FileHandle, FileKind, NodeId, StatFs, Time, Vfs};
use bytes::Bytes;
use errors::{Error, Refusal, Result};
use std::sync::Arc;

/// Number of the only node: the object that holds the data.
const NODE: NodeId = NodeId(1);

/// A volume whose root is a regular file.
pub struct VolumeFile {
    volume: Arc<Volume>,
    used_bytes: u64,
    created: Time,
    fsid: u64,
}

impl VolumeFile {
    /// `used_bytes` is the space the volume takes on disk; its creation time is used for all file
    /// times.
    pub fn new(volume: Arc<Volume>, used_bytes: u64, created: Time, fsid: u64) -> Self {
        Self { volume, used_bytes, created, fsid }
    }

    fn is_file(&self, node: NodeId) -> Result<()> {
        if node == NODE { Ok(()) } else { Err(Error::not_found("volume", format!("object {}", node.0))) }
    }
}

impl Vfs for VolumeFile {
    fn root(&self) -> NodeId {
        NODE
    }

    fn lookup(&self, _dir: NodeId, _name: &[u8]) -> Result<Attr> {
        Err(Error::invalid("volume", "it is a file, not a directory"))
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        self.is_file(node)?;
        Ok(Attr {
            node,
            ino: node.0,
            generation: 0,
            kind: FileKind::Regular,
            // Like a disk device: accessible to its owner, and read-only as everything here.
            mode: 0o600,
            links: 1,
            uid: 0,
            gid: 0,
            project: 0,
            rdev_major: 0,
            rdev_minor: 0,
            size: self.volume.size(),
            blocks_512: self.used_bytes / 512,
            block_bytes: u32::try_from(self.volume.block_bytes()).unwrap_or(u32::MAX),
            atime: self.created,
            mtime: self.created,
            ctime: self.created,
            btime: self.created,
        })
    }

    fn read_link(&self, _node: NodeId) -> Result<Vec<u8>> {
        Err(Error::invalid("volume", "it is a file, not a symbolic link"))
    }

    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        self.is_file(node)?;
        self.volume.read(offset, len)
    }

    fn read_dir(&self, _dir: NodeId, _cookie: u64, _sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        Err(Error::invalid("volume", "it is a file, not a directory"))
    }

    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        self.is_file(node).map(|()| Vec::new())
    }

    fn get_xattr(&self, node: NodeId, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.is_file(node).map(|()| None)
    }

    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        self.is_file(node)?;
        self.volume.seek_data(offset)
    }

    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        self.is_file(node)?;
        self.volume.seek_hole(offset)
    }

    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        self.is_file(node)?;
        Ok(FileHandle { fs_guid: self.fsid, object: node.0, generation: 0 })
    }

    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        let is_it = handle.object == FileHandle::ROOT || handle.object == NODE.0;
        if handle.fs_guid == self.fsid && is_it && handle.generation == 0 {
            return self.attr(NODE);
        }
        Err(Refusal::Stale.at("volume"))
    }

    fn stat_fs(&self, _node: NodeId) -> Result<StatFs> {
        let blocks = self.volume.size() / 512;
        Ok(StatFs { block_bytes: 512, blocks, blocks_free: 0, files: 1, files_free: 0, name_max: 255, fsid: self.fsid })
    }
}
