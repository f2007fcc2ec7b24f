//! Directories: READDIR, READDIRPLUS.
//!
//! Cookies are those of the `Vfs`, which stay valid while names are added and removed. So the
//! verifier is constant, and a client may continue a listing after any time.

use super::attr::{PostAttr, file_id, put_post};
use super::{Reply, V3, handle, is_share_root, with_post};
use crate::nfs::access::{self, READ};
use crate::nfs::core::{At, file_of};
use crate::nfs::rpc::Call;
use crate::nfs::status::{Result, Status};
use crate::nfs::xdr::{Reader, Writer};
use files::namespace::{is_door, is_synthetic, object_of};
use files::vfs::{DirEntry, FileHandle, FileKind};

/// Maximum length of a reply, whatever the client requests.
const REPLY_BYTES_MAX: usize = 1 << 20;
const VERIFIER: [u8; 8] = [0; 8];
/// Size of what follows the entries: the end of the list and the EOF flag.
const END_BYTES: usize = 8;

impl V3 {
    pub(super) fn readdir(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, cookie) = (self.core.at(call, handle(args)?), args.u64()?);
        let (verifier, count) = (args.fixed::<8>()?, args.u32()?);
        with_post(out, at, |at, out| self.list(at, (cookie, verifier), usize::MAX, count as usize, out, false))
    }

    pub(super) fn readdirplus(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, cookie) = (self.core.at(call, handle(args)?), args.u64()?);
        let (verifier, dir_count, max_count) = (args.fixed::<8>()?, args.u32()?, args.u32()?);
        // Old clients send no useful `dircount`.
        let dir_count = if dir_count == 0 { usize::MAX } else { dir_count as usize };
        with_post(out, at, |at, out| self.list(at, (cookie, verifier), dir_count, max_count as usize, out, true))
    }

    /// Lists entries after a cookie, up to `max` bytes of reply and `dir_max` bytes of names and
    /// numbers.
    fn list(
        &self,
        at: &At,
        (cookie, verifier): (u64, [u8; 8]),
        dir_max: usize,
        max: usize,
        out: &mut Writer,
        plus: bool,
    ) -> Result<()> {
        if at.attr.kind != FileKind::Directory {
            return Err(Status::NOTDIR);
        }
        access::check(at.vfs(), &at.attr, &at.who, READ)?;
        if cookie != 0 && verifier != VERIFIER {
            return Err(Status::BAD_COOKIE);
        }
        // The status has already been written.
        let max = max.min(REPLY_BYTES_MAX).saturating_sub(4);
        let start = out.mark();
        put_post(out, Some(&PostAttr { file: at.file, attr: at.attr }));
        out.fixed(&VERIFIER);
        let (mut dir_bytes, mut count, mut is_all) = (0, 0, true);
        let is_root = is_share_root(at);
        at.vfs().read_dir(at.node(), cookie, &mut |entry| {
            let before = out.mark();
            let own_bytes = 24 + entry.name.len().next_multiple_of(4);
            self.put_entry(at, &entry, is_root, out, plus);
            dir_bytes += own_bytes;
            if out.since(start) + END_BYTES > max || dir_bytes > dir_max && count > 0 {
                out.rollback(before);
                is_all = false;
                return false;
            }
            count += 1;
            true
        })?;
        if count == 0 && !is_all {
            return Err(Status::TOOSMALL);
        }
        out.bool(false);
        out.bool(is_all);
        Ok(())
    }

    fn put_entry(&self, at: &At, entry: &DirEntry, is_root: bool, out: &mut Writer, plus: bool) {
        let is_self = entry.name == b"." || entry.name == b".." && is_root;
        // Entries in `.zfs/snapshot` may not be open, and listing them must not open them.
        let known = match is_self {
            true => Some(PostAttr { file: at.file, attr: at.attr }),
            false if plus && !is_synthetic(entry.node) => known(at, entry),
            false => None,
        };
        out.bool(true);
        out.u64(known.as_ref().map_or_else(|| entry_id(at, entry), |k| file_id(&k.file, &k.attr)));
        out.opaque(&entry.name);
        out.u64(entry.next_cookie);
        if plus {
            put_post(out, known.as_ref());
            out.bool(known.is_some());
            if let Some(known) = known {
                out.opaque(&self.core.seal(&at.share, known.file));
            }
        }
    }
}

/// Attributes and handle of an entry, if it is in the same file system as its directory.
fn known(at: &At, entry: &DirEntry) -> Option<PostAttr> {
    let attr = at.vfs().attr(entry.node).ok()?;
    let file = file_of(at, &attr).ok().filter(|file| file.fs_guid == at.file.fs_guid)?;
    Some(PostAttr { file, attr })
}

/// The inode number of an entry whose attributes are not known.
fn entry_id(at: &At, entry: &DirEntry) -> u64 {
    if !is_synthetic(entry.node) {
        return object_of(entry.node);
    }
    if is_door(entry.node) {
        // Its handle would open it.
        return entry.node.0;
    }
    match at.vfs().handle(entry.node) {
        // A synthetic directory.
        Ok(file) if file.object >= FileHandle::MADE && at.file.object >= FileHandle::MADE => file.object,
        _ => entry.node.0,
    }
}
