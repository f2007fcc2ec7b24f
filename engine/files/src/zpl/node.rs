//! A single file: its attributes, its contents, and its target if it is a symbolic link.

use crate::vfs::{Attr, FileKind, NodeId, Time};
use bytes::Bytes;
use errors::{Error, Place, Result};
use object::Attributes;
use ondisk::sa::Attr as Sa;
use ondisk::znode::{Flags, Fuid, LEGACY_BYTES};

/// Longest target of a symbolic link that is accepted. Linux and OpenZFS accept 4095 bytes.
const TARGET_BYTES_MAX: u64 = 65536;

/// An existing file whose type is known.
pub(super) struct Znode<'t> {
    attributes: Attributes<'t>,
    mode: u64,
    kind: FileKind,
}

impl<'t> Znode<'t> {
    pub(super) fn new(attributes: Attributes<'t>) -> Result<Self> {
        let mode = attributes.need_u64(Sa::Mode)?;
        let kind = kind_of((mode >> 12 & 15) as u8).ok_or_else(|| {
            Error::corrupt(attributes.object().place(), format!("mode is {mode:#o}, which is no type of file"))
        })?;
        Ok(Self { attributes, mode, kind })
    }

    pub(super) fn attributes(&self) -> &Attributes<'t> {
        &self.attributes
    }

    pub(super) fn kind(&self) -> FileKind {
        self.kind
    }

    pub(super) fn place(&self) -> String {
        self.attributes.object().place()
    }

    pub(super) fn size(&self) -> Result<u64> {
        self.attributes.need_u64(Sa::Size)
    }

    pub(super) fn parent(&self) -> Result<u64> {
        self.attributes.need_u64(Sa::Parent)
    }

    pub(super) fn attr(&self, record_bytes: u32) -> Result<Attr> {
        let a = &self.attributes;
        let (object, dnode) = (a.object(), a.object().dnode());
        let flags = Flags::from_bits_retain(a.need_u64(Sa::Flags)?);
        let rdev = match self.kind {
            // Linux stores its own dev_t, of which the kernel uses 32 bits.
            FileKind::CharDevice | FileKind::BlockDevice => a.get_u64(Sa::Rdev)?.unwrap_or(0) as u32,
            _ => 0,
        };
        let time = |attr| a.get_time(attr).map(|(seconds, nanoseconds)| Time { seconds, nanoseconds });
        Ok(Attr {
            node: NodeId(object.id()),
            ino: object.id(),
            generation: a.need_u64(Sa::Gen)?,
            kind: self.kind,
            mode: (self.mode & 0o7777) as u32,
            links: a.need_u64(Sa::Links)? as u32,
            uid: Fuid(a.need_u64(Sa::Uid)?).id(),
            gid: Fuid(a.need_u64(Sa::Gid)?).id(),
            project: if flags.contains(Flags::PROJID) { a.get_u64(Sa::Projid)?.unwrap_or(0) } else { 0 },
            rdev_major: rdev >> 20,
            rdev_minor: rdev & 0xf_ffff,
            size: self.size()?,
            // As in OpenZFS: rounded to sectors, plus the dnode's own slots.
            blocks_512: (dnode.used_bytes.saturating_add(256) >> 9) + u64::from(dnode.slots),
            block_bytes: if dnode.data_block_bytes == 0 { record_bytes } else { dnode.data_block_bytes },
            atime: time(Sa::Atime)?,
            mtime: time(Sa::Mtime)?,
            ctime: time(Sa::Ctime)?,
            btime: time(Sa::Crtime)?,
        })
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Result<Bytes> {
        let rest = self.size()?.saturating_sub(offset);
        let len = len.min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(Bytes::new());
        }
        self.attributes.object().read_bytes(offset, len)
    }

    /// Does the same, into `out`.
    pub(super) fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = self.size()?.saturating_sub(offset);
        let len = out.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        if len > 0 {
            self.attributes.object().read_at(offset, &mut out[..len])?;
        }
        Ok(len)
    }

    pub(super) fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        let size = self.size()?;
        if offset >= size {
            return Ok(None);
        }
        Ok(self.attributes.object().next_data(offset)?.filter(|at| *at < size))
    }

    pub(super) fn seek_hole(&self, offset: u64) -> Result<u64> {
        let size = self.size()?;
        if offset >= size {
            return Ok(size);
        }
        Ok(self.attributes.object().next_hole(offset)?.min(size))
    }

    pub(super) fn link_target(&self) -> Result<Vec<u8>> {
        if self.kind != FileKind::Symlink {
            return Err(Error::invalid(self.place(), format!("is {:?}, expected a symbolic link", self.kind)));
        }
        if let Some((target, _)) = self.attributes.get(Sa::Symlink)? {
            return Ok(target.to_vec());
        }
        // An old znode stores it after the znode if it fits there, else in the first block.
        let (size, object) = (self.size()?, self.attributes.object());
        if size > TARGET_BYTES_MAX {
            let what = format!("the link's target has {size} bytes, expected at most {TARGET_BYTES_MAX}");
            return Err(Error::corrupt(self.place(), what));
        }
        let size = size as usize;
        match object.bonus().get(LEGACY_BYTES..LEGACY_BYTES + size) {
            Some(target) if !self.attributes.is_sa() => Ok(target.to_vec()),
            _ => object.read_vec(0, size).at("link target"),
        }
    }
}

/// The file type for a `DT_` number, which is also the top of a mode.
pub(super) fn kind_of(number: u8) -> Option<FileKind> {
    Some(match number {
        1 => FileKind::Fifo,
        2 => FileKind::CharDevice,
        4 => FileKind::Directory,
        6 => FileKind::BlockDevice,
        8 => FileKind::Regular,
        10 => FileKind::Symlink,
        12 => FileKind::Socket,
        _ => return None,
    })
}
