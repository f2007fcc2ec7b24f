//! READDIR of shares and of the pseudo tree.

use super::super::attr;
use super::super::bitmap::{Bitmap, FSID, MOUNTED_ON_FILEID, ONLY_SET, RDATTR_ERROR, TYPE, supported};
use super::super::node::{Node, Place, mounted_on_root};
use super::super::place::stale;
use super::super::rights;
use super::super::status::{Result, Status};
use super::Compound;
use crate::nfs::xdr::{Reader, Writer};
use files::namespace::is_door;
use files::vfs::{Attr, DirEntry};

/// Cookies 1 and 2 are reserved (RFC 7530 section 16.24.4); other systems use them for `.` and
/// `..`.
const COOKIE_SHIFT: u64 = 3;
/// Size of a reply without entries: verifier and end marks.
const FRAME_BYTES: usize = 16;
/// Number of entries fetched from the `Vfs` at a time.
const BATCH: usize = 256;
/// Attributes of a snapshot that are known without opening it. A client that lists names requests
/// no others: Linux `rdattr_error` and `mounted_on_fileid`.
const OF_UNOPENED: Bitmap = Bitmap::of(&[RDATTR_ERROR, MOUNTED_ON_FILEID, TYPE, FSID]);

struct Args {
    cookie: u64,
    names_bytes: usize,
    reply_bytes: usize,
    wanted: Bitmap,
}

impl Compound<'_> {
    pub(super) fn readdir(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (cookie, _verifier) = (r.u64()?, r.fixed::<8>()?);
        let (names_bytes, reply_bytes) = (r.u32()? as usize, r.u32()? as usize);
        let wanted = Bitmap::read(r)?;
        let place = self.current()?.clone();
        if let Place::Node(node) = &place {
            let attr = node.attr()?;
            if attr.kind != files::vfs::FileKind::Directory {
                return Err(Status::NOTDIR);
            }
            rights::check(node, &attr, rights::READ)?;
        }
        if !wanted.and(ONLY_SET).is_empty() {
            return Err(Status::INVAL);
        }
        if cookie != 0 && cookie < COOKIE_SHIFT {
            return Err(Status::BAD_COOKIE);
        }
        // `maxcount` limits the whole result.
        let (room, requested_bytes) = (self.room(w), reply_bytes.min(attr::IO_BYTES_MAX as usize));
        let reply_bytes = requested_bytes.min(room);
        let too_small = if room < requested_bytes { self.too_big() } else { Status::TOOSMALL };
        if reply_bytes < FRAME_BYTES {
            return Err(too_small);
        }
        let args = Args { cookie, names_bytes, reply_bytes, wanted };
        let start = w.mark();
        // The verifier is constant, because cookies stay valid as long as the directory exists.
        w.fixed(&[0; 8]);
        let (count, is_end) = match &place {
            Place::Node(node) => self.list_node(w, node, &args, start)?,
            Place::Pseudo(index) => self.list_pseudo(w, *index, &args, start)?,
        };
        if count == 0 && !is_end {
            return Err(too_small);
        }
        w.bool(false);
        w.bool(is_end);
        Ok(())
    }

    fn list_node(
        &self,
        w: &mut Writer,
        node: &Node,
        args: &Args,
        start: crate::nfs::xdr::Mark,
    ) -> Result<(usize, bool)> {
        let (mut count, mut names_bytes) = (0, 0);
        let mut cookie = if args.cookie == 0 { 0 } else { args.cookie - COOKIE_SHIFT };
        loop {
            let mut batch: Vec<DirEntry> = Vec::new();
            node.vfs().read_dir(node.id, cookie, &mut |entry| {
                batch.push(entry);
                batch.len() < BATCH
            })?;
            if batch.is_empty() {
                return Ok((count, true));
            }
            for entry in batch {
                cookie = entry.next_cookie;
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                names_bytes += entry.name.len() + 16;
                let mark = w.mark();
                let is_listed = self.put_entry(w, node, &entry, args);
                let is_full = w.since(start) + 8 > args.reply_bytes
                    || count > 0 && args.names_bytes != 0 && names_bytes > args.names_bytes;
                if is_full {
                    w.rollback(mark);
                    return Ok((count, false));
                }
                match is_listed? {
                    true => count += 1,
                    false => w.rollback(mark),
                }
            }
        }
    }

    /// Writes an entry. Returns false if it is to be skipped, for example because it was removed
    /// meanwhile.
    fn put_entry(&self, w: &mut Writer, dir: &Node, entry: &DirEntry, args: &Args) -> Result<bool> {
        w.bool(true);
        w.u64(entry.next_cookie.saturating_add(COOKIE_SHIFT));
        w.opaque(&entry.name);
        if args.wanted.is_empty() {
            args.wanted.write(w);
            w.u32(0);
            return Ok(true);
        }
        let mark = w.mark();
        let written = (|| {
            if self.put_unopened(w, dir, entry, args.wanted)? {
                return Ok(());
            }
            let attr = dir
                .vfs()
                .attr(entry.node)
                .map_err(|e| if super::super::node::is_gone(&e) { Status::STALE } else { Status::of(&e) })?;
            let place = self.node_from(dir, attr)?;
            self.write_attr(w, args.wanted, &place, &attr)
        })();
        match written {
            Ok(()) => Ok(true),
            Err(Status::STALE) => Ok(false),
            // A child file system that is not shared with this client.
            Err(Status::NOENT | Status::ACCESS | Status::WRONGSEC) if !args.wanted.has(RDATTR_ERROR) => Ok(false),
            Err(status) if args.wanted.has(RDATTR_ERROR) => {
                w.rollback(mark);
                attr::write_error(w, args.wanted, status);
                Ok(true)
            }
            Err(status) => Err(status),
        }
    }

    /// Writes the attributes of a snapshot without opening it. Returns false if it is none, or has
    /// to be opened for what is requested.
    fn put_unopened(&self, w: &mut Writer, dir: &Node, entry: &DirEntry, wanted: Bitmap) -> Result<bool> {
        if !is_door(entry.node) || !wanted.and(supported(self.minor)).minus(OF_UNOPENED).is_empty() {
            return Ok(false);
        }
        let behind = dir.vfs().snapshot_behind(entry.node).map_err(|e| stale(&e))?;
        let Some(fs_guid) = behind else { return Ok(false) };
        // It is shared as its file system is. Of these attributes only the kind is used.
        let attr = Attr { kind: entry.kind, ..dir.attr()? };
        let subject = attr::Subject {
            minor: self.minor,
            attr: &attr,
            change: 0,
            handle: &[],
            fsid: (fs_guid, 0),
            mounted_on: mounted_on_root(fs_guid),
            vfs: None,
            lease_seconds: self.server.config.lease_seconds,
        };
        attr::write(w, wanted, &subject)?;
        Ok(true)
    }

    fn list_pseudo(
        &self,
        w: &mut Writer,
        index: usize,
        args: &Args,
        start: crate::nfs::xdr::Mark,
    ) -> Result<(usize, bool)> {
        self.tree().dir(index).ok_or(Status::STALE)?;
        let mut count = 0;
        for (cookie, name, child) in self.tree().entries_after(index, args.cookie) {
            let mark = w.mark();
            w.bool(true);
            w.u64(cookie);
            w.opaque(name);
            let written = self.pseudo(child).and_then(|place| {
                let attr = self.attr_of(&place)?;
                self.write_attr(w, args.wanted, &place, &attr)
            });
            if written.is_err() {
                // Not shared with this client, or not readable now: hidden from the client.
                w.rollback(mark);
                continue;
            }
            if w.since(start) + 8 > args.reply_bytes {
                w.rollback(mark);
                return Ok((count, false));
            }
            count += 1;
        }
        Ok((count, true))
    }
}
