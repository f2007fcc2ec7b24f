//! File contents: READ, WRITE, COMMIT.

use super::super::attr::IO_BYTES_MAX;
use super::super::rights;
use super::super::state::{IoWant, StateId};
use super::super::status::{Result, Status};
use super::Compound;
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{FileHandle, SyncKind};
use observe::event::note;

/// `UNSTABLE4`, `DATA_SYNC4`, `FILE_SYNC4`.
const UNSTABLE: u32 = 0;
const DATA_SYNC: u32 = 1;
const FILE_SYNC: u32 = 2;
/// Maximum size of a file. A WRITE beyond it gets `FBIG`.
pub(super) const OFFSET_MAX: u64 = i64::MAX as u64;

impl Compound<'_> {
    /// Whether the stateid permits I/O to the file.
    pub(super) fn check_io(&self, id: &StateId, file: FileHandle, want: IoWant) -> Result<()> {
        let asker = self.asker();
        self.server.with(|state| state.check_io(asker, id, file, want))
    }

    pub(super) fn read(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (id, offset, count) = (self.state_id(r)?, r.u64()?, r.u32()?);
        let node = self.node()?;
        let attr = node.is_regular()?;
        self.check_io(&id, node.key, IoWant::Read)?;
        rights::check_read(node, &attr)?;
        let room = self.room(w).saturating_sub(16);
        if room == 0 {
            return Err(self.too_big());
        }
        let count = (count.min(IO_BYTES_MAX) as usize).min(room);
        if offset >= attr.size || count == 0 {
            node.vfs().accessed(node.id);
            w.bool(offset >= attr.size);
            w.u32(0);
            return Ok(());
        }
        let data = node.vfs().read(node.id, offset, count)?;
        note::span(offset, data.len());
        node.vfs().accessed(node.id);
        let end = offset + data.len() as u64;
        // The file may have grown meanwhile.
        w.bool(data.len() < count || end >= attr.size && end >= node.attr()?.size);
        w.opaque_shared(data);
        Ok(())
    }

    pub(super) fn write(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (id, offset, stable) = (self.state_id(r)?, r.u64()?, r.u32()?);
        let data = r.opaque(IO_BYTES_MAX as usize)?;
        if stable > FILE_SYNC {
            return Err(Status::BADXDR);
        }
        note::span(offset, data.len());
        let node = self.node()?;
        let attr = node.is_regular()?;
        node.check_writable()?;
        self.check_io(&id, node.key, IoWant::Write)?;
        rights::check_write(node, &attr)?;
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > OFFSET_MAX) {
            return Err(Status::FBIG);
        }
        node.changes();
        if !data.is_empty() {
            node.vfs().write(node.who(), node.id, offset, data)?;
            self.changed(node)?;
        }
        let done = match stable {
            _ if node.granted.is_async => FILE_SYNC,
            UNSTABLE => UNSTABLE,
            DATA_SYNC => {
                node.vfs().sync_node(node.id, SyncKind::Data)?;
                DATA_SYNC
            }
            _ => {
                node.vfs().sync_node(node.id, SyncKind::All)?;
                FILE_SYNC
            }
        };
        w.u32(data.len() as u32);
        w.u32(done);
        w.fixed(&self.server.core.verifier);
        Ok(())
    }

    pub(super) fn commit(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (offset, count) = (r.u64()?, r.u32()?);
        let node = self.node()?;
        node.is_regular()?;
        if offset.checked_add(u64::from(count)).is_none() {
            return Err(Status::INVAL);
        }
        if !node.granted.is_async {
            node.vfs().sync_node(node.id, SyncKind::Data)?;
        }
        w.fixed(&self.server.core.verifier);
        Ok(())
    }

    /// Writes a change of a directory to stable storage before the reply.
    pub(super) fn settle(&self, node: &super::super::node::Node) -> Result<()> {
        if node.granted.is_async { Ok(()) } else { Ok(node.vfs().sync_node(node.id, SyncKind::All)?) }
    }
}
