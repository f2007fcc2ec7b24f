//! File contents: READ, WRITE, COMMIT.

use super::attr::{PostAttr, put_post};
use super::{Reply, TRANSFER_BYTES, V3, gone, handle, put_status, with_post, with_wcc};
use crate::nfs::access;
use crate::nfs::core::At;
use crate::nfs::rpc::Call;
use crate::nfs::status::{Result, Status};
use crate::nfs::xdr::{Malformed, Reader, Writer};
use files::vfs::{FileKind, SyncKind};
use observe::event::note;

const UNSTABLE: u32 = 0;
const FILE_SYNC: u32 = 2;

/// Fails unless the node is a regular file.
fn check_regular(at: &At) -> Result<()> {
    match at.attr.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Status::ISDIR),
        _ => Err(Status::INVAL),
    }
}

impl V3 {
    pub(super) fn read(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, offset, count) = (self.core.at(call, handle(args)?), args.u64()?, args.u32()?);
        note::span(offset, count as usize);
        with_post(out, at, |at, out| {
            check_regular(at)?;
            access::check_read(at.vfs(), &at.attr, &at.who)?;
            let wanted = u64::from(count.min(TRANSFER_BYTES)).min(at.attr.size.saturating_sub(offset));
            let pieces = read_pieces(at, offset, wanted as usize)?;
            let len: usize = pieces.iter().map(bytes::Bytes::len).sum();
            at.vfs().accessed(at.node());
            if len > 0 {
                note::span(offset, len);
                self.core.figures.read.add(len as u64);
                call.peer.client.read.add(len as u64);
            }
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            out.u32(len as u32);
            out.bool(offset.saturating_add(len as u64) >= at.attr.size);
            out.opaque_pieces(pieces);
            Ok(())
        })
    }

    pub(super) fn write(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, offset, count, stable) = (handle(args)?, args.u64()?, args.u32()?, args.u32()?);
        if stable > FILE_SYNC {
            return Err(Malformed.into());
        }
        let data = args.opaque(TRANSFER_BYTES as usize)?;
        let data = &data[..data.len().min(count as usize)];
        note::span(offset, data.len());
        let verifier = self.core.verifier;
        let at = self.at_locked(call, handle);
        let is_stable = stable != UNSTABLE;
        with_wcc(&self.core, out, at, is_stable, true, |at| {
            check_regular(at)?;
            at.check_writable()?;
            access::check_write(at.vfs(), &at.attr, &at.who)?;
            if offset.checked_add(data.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
                return Err(Status::FBIG);
            }
            if !data.is_empty() {
                at.vfs().write(&at.who, at.node(), offset, data).map_err(gone)?;
            }
            let len = data.len() as u32;
            self.core.figures.written.add(u64::from(len));
            call.peer.client.written.add(u64::from(len));
            Ok(Box::new(move |out| {
                out.u32(len);
                out.u32(if is_stable { FILE_SYNC } else { UNSTABLE });
                out.fixed(&verifier);
            }))
        })
    }

    pub(super) fn commit(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, _offset, _count) = (handle(args)?, args.u64()?, args.u32()?);
        let verifier = self.core.verifier;
        // COMMIT changes nothing, so it takes no lock: other calls would wait for it while devices
        // write.
        let at = match self.core.at(call, handle) {
            Ok(at) => at,
            Err(status) => {
                put_status(out, status);
                super::put_wcc(out, None, None);
                return Ok(());
            }
        };
        let work = |at: &At| {
            check_regular(at)?;
            if at.check_writable().is_err() {
                return Ok(());
            }
            access::check_write(at.vfs(), &at.attr, &at.who)?;
            if at.share.options.is_async {
                return Ok(());
            }
            at.vfs().sync_node(at.node(), SyncKind::All).map_err(gone)
        };
        let result = work(&at);
        put_status(out, result.err().unwrap_or(Status::OK));
        super::put_wcc(out, Some(&at.attr), super::after(&at).as_ref());
        if result.is_ok() {
            out.fixed(&verifier);
        }
        Ok(())
    }
}

/// Reads a range block by block: a part of one block is returned as a reference to the cache,
/// whereas a range across blocks would have to be copied into one buffer.
fn read_pieces(at: &At, offset: u64, len: usize) -> Result<Vec<bytes::Bytes>> {
    let block = u64::from(at.attr.block_bytes.max(512));
    let (mut pieces, mut from) = (Vec::with_capacity(1 + len / block as usize), offset);
    let end = offset.saturating_add(len as u64);
    // Small blocks would need more pieces than one gathering write takes.
    let unit = if block < 16 << 10 { u64::from(TRANSFER_BYTES) } else { block };
    while from < end {
        let to = end.min((from / unit + 1).saturating_mul(unit));
        let piece = at.vfs().read(at.node(), from, (to - from) as usize).map_err(gone)?;
        let (wanted, got) = (to - from, piece.len() as u64);
        if got > 0 {
            pieces.push(piece);
        }
        from += got;
        // The file was truncated meanwhile.
        if got < wanted {
            break;
        }
    }
    Ok(pieces)
}
