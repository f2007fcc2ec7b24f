//! Data operations of 4.2: holes, allocation, copies (RFC 7862).

use super::super::attr::IO_BYTES_MAX;
use super::super::rights;
use super::super::state::IoWant;
use super::super::status::{Result, Status};
use super::Compound;
use super::data::OFFSET_MAX;
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{Allocate, SyncKind};

/// `data_content4`.
const CONTENT_DATA: u32 = 0;
const CONTENT_HOLE: u32 = 1;
/// Maximum size of one COPY; clients send another for the rest. Guessed: some seconds on slow
/// disks.
const COPY_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of the `netloc4` of a copy between servers.
const NETLOC_BYTES_MAX: usize = 4096;

impl Compound<'_> {
    /// ALLOCATE, or DEALLOCATE if `reserve` is false.
    pub(super) fn allocate(&mut self, r: &mut Reader<'_>, reserve: bool) -> Result<()> {
        let (id, offset, length) = (self.state_id(r)?, r.u64()?, r.u64()?);
        let node = self.node()?;
        let attr = node.is_regular().map_err(|e| if e == Status::INVAL { Status::WRONG_TYPE } else { e })?;
        node.check_writable()?;
        if length == 0 || offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
            return Err(if length == 0 { Status::INVAL } else { Status::FBIG });
        }
        self.check_io(&id, node.key, IoWant::Write)?;
        rights::check_write(node, &attr)?;
        node.changes();
        let what = if reserve { Allocate::Reserve { keep_size: false } } else { Allocate::Punch };
        node.vfs().allocate(node.who(), node.id, what, offset, length)?;
        self.changed(node)?;
        self.settle(node)
    }

    pub(super) fn seek(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (id, offset, what) = (self.state_id(r)?, r.u64()?, r.u32()?);
        let node = self.node()?;
        let attr = node.is_regular().map_err(|e| if e == Status::INVAL { Status::WRONG_TYPE } else { e })?;
        self.check_io(&id, node.key, IoWant::Read)?;
        rights::check_read(node, &attr)?;
        if offset >= attr.size {
            return Err(Status::NXIO);
        }
        let found = match what {
            CONTENT_DATA => node.vfs().seek_data(node.id, offset)?,
            CONTENT_HOLE => Some(node.vfs().seek_hole(node.id, offset)?),
            _ => return Err(Status::UNION_NOTSUPP),
        };
        // If no data follows, returns the end of the file and EOF.
        let at = found.unwrap_or(attr.size);
        w.bool(at >= attr.size);
        w.u64(at);
        Ok(())
    }

    /// READ_PLUS: alternating segments of data and holes.
    pub(super) fn read_plus(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (id, offset, count) = (self.state_id(r)?, r.u64()?, r.u32()?);
        let node = self.node()?;
        let attr = node.is_regular()?;
        self.check_io(&id, node.key, IoWant::Read)?;
        rights::check_read(node, &attr)?;
        let room = self.room(w).saturating_sub(64);
        let wanted = u64::from(count.min(IO_BYTES_MAX)).min(room as u64);
        let end = offset.saturating_add(wanted).min(attr.size);
        let is_end = w.mark();
        w.bool(false);
        let pieces = w.mark();
        w.u32(0);
        let (mut at, mut count) = (offset, 0);
        // Two segments cover most reads. More would make files with small holes expensive.
        while at < end && count < 2 {
            let vfs = node.vfs();
            let data = vfs.seek_data(node.id, at)?.unwrap_or(attr.size).min(end);
            if data > at {
                w.u32(CONTENT_HOLE);
                w.u64(at);
                w.u64(data - at);
                at = data;
            } else {
                let hole = vfs.seek_hole(node.id, at)?.clamp(at + 1, end);
                let bytes = vfs.read(node.id, at, (hole - at) as usize)?;
                if bytes.is_empty() {
                    break;
                }
                w.u32(CONTENT_DATA);
                w.u64(at);
                at += bytes.len() as u64;
                w.opaque_shared(bytes);
            }
            count += 1;
        }
        node.vfs().accessed(node.id);
        w.patch(is_end, u32::from(at >= attr.size || offset >= attr.size));
        w.patch(pieces, count);
        Ok(())
    }

    /// COPY within this server; synchronous.
    pub(super) fn copy(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (from_id, to_id) = (self.state_id(r)?, self.state_id(r)?);
        let (from_offset, to_offset, length) = (r.u64()?, r.u64()?, r.u64()?);
        let (_consecutive, _synchronous) = (r.bool()?, r.bool()?);
        let servers = r.list(16, 4)?;
        for _ in 0..servers {
            match r.u32()? {
                1 | 2 => {
                    r.opaque(NETLOC_BYTES_MAX)?;
                }
                3 => {
                    r.opaque(NETLOC_BYTES_MAX)?;
                    r.opaque(NETLOC_BYTES_MAX)?;
                }
                _ => return Err(Status::BADXDR),
            }
        }
        if servers > 0 {
            return Err(Status::NOTSUPP);
        }
        let (from, to) = (self.saved_node()?, self.node()?);
        let (from_attr, to_attr) = (from.is_regular()?, to.is_regular()?);
        to.check_writable()?;
        self.check_io(&from_id, from.key, IoWant::Read)?;
        self.check_io(&to_id, to.key, IoWant::Write)?;
        rights::check_read(from, &from_attr)?;
        rights::check_write(to, &to_attr)?;
        if from.key.fs_guid != to.key.fs_guid {
            return Err(Status::NOTSUPP);
        }
        let past_end = from_offset.checked_add(length).is_none_or(|end| end > from_attr.size);
        if from_offset > from_attr.size || length != 0 && past_end {
            return Err(Status::INVAL);
        }
        // Length 0 means "to the end of the file".
        let wanted = if length == 0 { from_attr.size - from_offset } else { length }.min(COPY_BYTES_MAX);
        if to_offset.checked_add(wanted).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Status::FBIG);
        }
        if from.key == to.key && from_offset < to_offset + wanted && to_offset < from_offset + wanted {
            return Err(Status::INVAL);
        }
        to.changes();
        let mut copied = 0;
        while copied < wanted {
            let step = wanted - copied;
            let n = to.vfs().copy_range(to.who(), from.id, from_offset + copied, to.id, to_offset + copied, step)?;
            if n == 0 {
                break;
            }
            copied += n;
        }
        if !to.granted.is_async {
            to.vfs().sync_node(to.id, SyncKind::All)?;
        }
        self.changed(to)?;
        // No callback ID, then: bytes copied, FILE_SYNC4, write verifier, consecutive, synchronous.
        w.u32(0);
        w.u64(copied);
        w.u32(2);
        w.fixed(&self.server.core.verifier);
        w.bool(true);
        w.bool(true);
        Ok(())
    }

    /// IO_ADVISE: validated and otherwise ignored.
    pub(super) fn io_advise(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (id, _offset, _count) = (self.state_id(r)?, r.u64()?, r.u64()?);
        super::super::bitmap::Bitmap::read(r)?;
        let node = self.node()?;
        node.is_regular()?;
        self.check_io(&id, node.key, IoWant::Read)?;
        super::super::bitmap::Bitmap::default().write(w);
        Ok(())
    }
}
