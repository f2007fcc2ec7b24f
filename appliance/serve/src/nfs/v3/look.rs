//! Read-only operations: GETATTR, LOOKUP, ACCESS, READLINK, FSSTAT, FSINFO, PATHCONF.

use super::attr::{PostAttr, put_attr, put_post};
use super::{Reply, TRANSFER_BYTES, V3, check_name, gone, handle, is_share_root, name, put_status, with_post};
use crate::nfs::access::{self, EXECUTE, READ, WRITE};
use crate::nfs::core::At;
use crate::nfs::rpc::Call;
use crate::nfs::status::{Result, Status};
use crate::nfs::xdr::{Reader, Writer};
use files::vfs::{Attr, FileKind};

/// Bits of ACCESS (RFC 1813, section 3.3.4).
mod may {
    pub const READ: u32 = 0x01;
    pub const LOOKUP: u32 = 0x02;
    pub const MODIFY: u32 = 0x04;
    pub const EXTEND: u32 = 0x08;
    pub const DELETE: u32 = 0x10;
    pub const EXECUTE: u32 = 0x20;
}

/// FSF3_LINK, FSF3_SYMLINK, FSF3_HOMOGENEOUS, FSF3_CANSETTIME.
const PROPERTIES: u32 = 0x01 | 0x02 | 0x08 | 0x10;
/// The largest link count that the attributes can represent.
const LINKS_MAX: u32 = i32::MAX as u32;

impl V3 {
    pub(super) fn getattr(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        match self.core.at(call, handle(args)?) {
            Ok(at) => {
                put_status(out, Status::OK);
                put_attr(out, &PostAttr { file: at.file, attr: at.attr });
            }
            Err(status) => put_status(out, status),
        }
        Ok(())
    }

    pub(super) fn lookup(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, name) = (self.core.at(call, handle(args)?), name(args)?);
        with_post(out, at, |at, out| {
            let attr = find(at, name)?;
            let (share, file) = self.core.reached(call, at, &attr)?;
            out.opaque(&self.core.seal(&share, file));
            put_post(out, Some(&PostAttr { file, attr }));
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            Ok(())
        })
    }

    pub(super) fn access(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, requested) = (self.core.at(call, handle(args)?), args.u32()?);
        with_post(out, at, |at, out| {
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            out.u32(granted(at, requested)?);
            Ok(())
        })
    }

    pub(super) fn readlink(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let at = self.core.at(call, handle(args)?);
        with_post(out, at, |at, out| {
            if at.attr.kind != FileKind::Symlink {
                return Err(Status::INVAL);
            }
            let target = at.vfs().read_link(at.node()).map_err(gone)?;
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            out.opaque(&target);
            Ok(())
        })
    }

    pub(super) fn fsstat(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let at = self.core.at(call, handle(args)?);
        with_post(out, at, |at, out| {
            let space = at.vfs().stat_fs(at.node()).map_err(gone)?;
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            let bytes = |blocks: u64| blocks.saturating_mul(space.block_bytes);
            for n in [
                bytes(space.blocks),
                bytes(space.blocks_free),
                bytes(space.blocks_free),
                space.files,
                space.files_free,
                space.files_free,
            ] {
                out.u64(n);
            }
            // `invarsec` 0: the values may change at any time.
            out.u32(0);
            Ok(())
        })
    }

    pub(super) fn fsinfo(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let at = self.core.at(call, handle(args)?);
        with_post(out, at, |at, out| {
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            let (max, multiple) = (TRANSFER_BYTES, 4096);
            // Maximum, preferred and multiple sizes for READ and WRITE, then the preferred size for
            // READDIR.
            for n in [max, max, multiple, max, max, multiple, 128 << 10] {
                out.u32(n);
            }
            out.u64(i64::MAX as u64);
            // `time_delta`: 1 ns.
            out.u32(0);
            out.u32(1);
            out.u32(PROPERTIES);
            Ok(())
        })
    }

    pub(super) fn pathconf(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let at = self.core.at(call, handle(args)?);
        with_post(out, at, |at, out| {
            let space = at.vfs().stat_fs(at.node()).map_err(gone)?;
            put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
            out.u32(LINKS_MAX);
            out.u32(space.name_max);
            // `no_trunc` and `chown_restricted`; then `case_insensitive` and `case_preserving`.
            out.bool(true);
            out.bool(true);
            out.bool(at.vfs().ignores_case(at.node()));
            out.bool(true);
            Ok(())
        })
    }
}

/// The node that `name` resolves to.
fn find(at: &At, name: &[u8]) -> Result<Attr> {
    if at.attr.kind != FileKind::Directory {
        return Err(Status::NOTDIR);
    }
    check_name(name)?;
    access::check(at.vfs(), &at.attr, &at.who, EXECUTE)?;
    if name == b"." || name == b".." && is_share_root(at) {
        return Ok(at.attr);
    }
    Ok(at.vfs().lookup(at.node(), name)?)
}

/// The bits of `requested` that the caller is granted.
fn granted(at: &At, requested: u32) -> Result<u32> {
    let is_dir = at.attr.kind == FileKind::Directory;
    let known: &[(u32, u32)] = if is_dir {
        &[
            (may::READ, READ),
            (may::LOOKUP, EXECUTE),
            (may::MODIFY, WRITE | EXECUTE),
            (may::EXTEND, WRITE | EXECUTE),
            (may::DELETE, WRITE | EXECUTE),
        ]
    } else {
        &[(may::READ, READ), (may::MODIFY, WRITE), (may::EXTEND, WRITE), (may::EXECUTE, EXECUTE)]
    };
    let is_writable = at.check_writable().is_ok();
    let mut given = 0;
    for (bit, want) in known.iter().filter(|(bit, _)| requested & bit != 0) {
        // Devices, pipes and sockets are written on the client, so a read-only share does not
        // matter.
        let here = is_dir || matches!(at.attr.kind, FileKind::Regular | FileKind::Symlink);
        let may_change = is_writable || want & WRITE == 0 || !here;
        if may_change && access::permits(at.vfs(), &at.attr, &at.who, *want)? {
            given |= bit;
        }
    }
    Ok(given)
}
