//! NFSACL version 3: POSIX ACLs in addition to NFS version 3, invented by Solaris and used by Linux
//! and Solaris clients for getfacl and setfacl. There is no RFC; facts: `nfs_common/nfsacl.c` and
//! `nfsd/nfs3acl.c` of Linux.
//!
//! ```text
//!   GETACL: handle, mask                  -> status, attributes, mask, access ACL, default ACL
//!   SETACL: handle, mask, both ACLs       -> status, attributes
//!   an ACL: number of entries, then the entries that are sent, preceded by their number:
//!           tag, id, permissions
//! ```
//! The mask selects the ACLs: 1 is the access ACL, 2 its number of entries; 4 and 8 are the same
//! for the default ACL.

use super::attr::{PostAttr, put_post};
use super::{Reply, changed, gone, handle, put_status, settle};
use crate::nfs::core::{At, Core};
use crate::nfs::rpc::{Call, Fault, Program};
use crate::nfs::status::{Result, Status};
use crate::nfs::xdr::{Malformed, Reader, Writer};
use errors::{Error, Refusal};
use files::posix_acl::{ACCESS, DEFAULT, PosixAcl};
use files::vfs::{FileKind, SetXattr};
use std::sync::Arc;

/// RPC program number of NFSACL.
pub const PROGRAM: u32 = 100_227;
const LIST: u32 = 1;
const LIST_COUNT: u32 = 2;
const DEFAULT_LIST: u32 = 4;
const DEFAULT_COUNT: u32 = 8;
const MASK_ALL: u32 = LIST | LIST_COUNT | DEFAULT_LIST | DEFAULT_COUNT;
/// Bit that is set in the tags of default ACLs.
const OF_DEFAULT: u32 = 0x1000;
/// Maximum number of entries, as in Linux.
const ENTRIES_MAX: usize = 1024;

mod tag {
    pub const OWNER: u32 = 0x01;
    pub const USER: u32 = 0x02;
    pub const OWNING_GROUP: u32 = 0x04;
    pub const GROUP: u32 = 0x08;
    pub const MASK: u32 = 0x10;
    pub const OTHERS: u32 = 0x20;
}

/// (tag, id, permissions).
type Entry = (u32, u32, u32);

/// See the module documentation.
pub struct SideAcl {
    core: Arc<Core>,
}

impl SideAcl {
    pub fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    fn get(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, mask) = (self.core.at(call, handle(args)?), args.u32()?);
        let lists = |at: &At| {
            if mask & !MASK_ALL != 0 {
                return Err(Status::INVAL);
            }
            let wants = |bits: u32| mask & bits != 0;
            let access = if wants(LIST | LIST_COUNT) { access_list(at)? } else { Vec::new() };
            let default = if wants(DEFAULT_LIST | DEFAULT_COUNT) { default_list(at)? } else { Vec::new() };
            Ok((access, default))
        };
        let post = at.as_ref().ok().map(|at| PostAttr { file: at.file, attr: at.attr });
        match at.as_ref().map_err(|status| *status).and_then(lists) {
            Ok((access, default)) => {
                put_status(out, Status::OK);
                put_post(out, post.as_ref());
                out.u32(mask);
                put_list(out, &access, mask & LIST != 0, 0);
                put_list(out, &default, mask & DEFAULT_LIST != 0, OF_DEFAULT);
            }
            Err(status) => {
                put_status(out, status);
                put_post(out, post.as_ref());
            }
        }
        Ok(())
    }

    fn set(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (at, mask) = (self.core.at(call, handle(args)?), args.u32()?);
        if mask & !MASK_ALL != 0 {
            return Err(Malformed.into());
        }
        let (access, default) = (get_list(args)?, get_list(args)?);
        let work = |at: &At| {
            at.check_writable()?;
            if at.attr.kind == FileKind::Symlink {
                return Err(Status::NOTSUPP);
            }
            if !at.who.privileged && at.who.uid != at.attr.uid {
                return Err(Status::PERM);
            }
            let is_dir = at.attr.kind == FileKind::Directory;
            // Validate both ACLs before setting one.
            let access = if mask & LIST != 0 { stored(access)? } else { None };
            let default = if mask & DEFAULT_LIST != 0 { Some(stored(default)?) } else { None };
            if let Some(Some(_)) = &default
                && !is_dir
            {
                return Err(Status::ACCES);
            }
            if let Some(list) = access {
                at.vfs().set_xattr(&at.who, at.node(), ACCESS, &list, SetXattr::Either).map_err(gone)?;
            }
            match default.filter(|_| is_dir) {
                None => {}
                Some(Some(list)) => {
                    at.vfs().set_xattr(&at.who, at.node(), DEFAULT, &list, SetXattr::Either).map_err(gone)?;
                }
                Some(None) => match at.vfs().remove_xattr(&at.who, at.node(), DEFAULT) {
                    Err(Error::Refused { why: Refusal::NoAttribute, .. }) | Ok(()) => {}
                    Err(e) => return Err(gone(e)),
                },
            }
            Ok(())
        };
        let result = match &at {
            Ok(at) => work(at).and_then(|()| settle(at)),
            Err(status) => Err(*status),
        };
        put_status(out, result.err().unwrap_or(Status::OK));
        put_post(out, at.ok().and_then(|at| changed(&self.core, &at)).as_ref());
        Ok(())
    }
}

/// The ACL of a node, or the one equivalent to its mode; always with a mask entry, which Solaris
/// clients expect.
fn access_list(at: &At) -> Result<Vec<Entry>> {
    let attr = &at.attr;
    let mut list = entries(at, ACCESS)?;
    if list.is_empty() {
        let bits = |shift: u32| attr.mode >> shift & 7;
        list = vec![(tag::OWNER, 0, bits(6)), (tag::OWNING_GROUP, 0, bits(3)), (tag::OTHERS, 0, bits(0))];
    }
    Ok(with_owners(list, attr.uid, attr.gid))
}

fn default_list(at: &At) -> Result<Vec<Entry>> {
    if at.attr.kind != FileKind::Directory {
        return Ok(Vec::new());
    }
    Ok(with_owners(entries(at, DEFAULT)?, at.attr.uid, at.attr.gid))
}

fn entries(at: &At, name: &[u8]) -> Result<Vec<Entry>> {
    if at.attr.kind == FileKind::Symlink {
        return Ok(Vec::new());
    }
    let Some(value) = at.vfs().get_xattr(at.node(), name).map_err(gone)? else { return Ok(Vec::new()) };
    if PosixAcl::parse(&value)?.is_none() {
        return Ok(Vec::new());
    }
    let (chunks, _) = value.get(4..).unwrap_or_default().as_chunks::<8>();
    let entry = |&[t0, t1, b0, b1, i0, i1, i2, i3]: &[u8; 8]| {
        (
            u32::from(u16::from_le_bytes([t0, t1])),
            u32::from_le_bytes([i0, i1, i2, i3]),
            u32::from(b0 & 7) | u32::from(b1) << 8,
        )
    };
    Ok(chunks.iter().map(entry).collect())
}

fn with_owners(list: Vec<Entry>, uid: u32, gid: u32) -> Vec<Entry> {
    let group = list.iter().find(|e| e.0 == tag::OWNING_GROUP).map_or(0, |e| e.2);
    let has_mask = list.iter().any(|e| e.0 == tag::MASK);
    let mut out = Vec::with_capacity(list.len() + 1);
    for (t, id, bits) in list {
        if t == tag::OTHERS && !has_mask {
            out.push((tag::MASK, 0, group));
        }
        let id = match t {
            tag::OWNER => uid,
            tag::OWNING_GROUP => gid,
            tag::USER | tag::GROUP => id,
            _ => 0,
        };
        out.push((t, id, bits));
    }
    out
}

fn put_list(out: &mut Writer, list: &[Entry], is_sent: bool, flag: u32) {
    out.u32(list.len() as u32);
    let sent = if is_sent { list } else { &[] };
    out.u32(sent.len() as u32);
    for (t, id, bits) in sent {
        [t | flag, *id, *bits].iter().for_each(|n| out.u32(*n));
    }
}

fn get_list(r: &mut Reader<'_>) -> crate::nfs::xdr::Result<Vec<Entry>> {
    let announced = r.u32()?;
    let count = r.list(ENTRIES_MAX, 12)?;
    if count != 0 && announced as usize != count {
        return Err(Malformed);
    }
    (0..count).map(|_| Ok((r.u32()? & !OF_DEFAULT, r.u32()?, r.u32()?))).collect()
}

/// Encodes an ACL for storage: sorted, without a mask that has no effect. `None` if there are no
/// entries.
fn stored(mut list: Vec<Entry>) -> Result<Option<Vec<u8>>> {
    if list.is_empty() {
        return Ok(None);
    }
    for (t, _, bits) in &mut list {
        // Solaris sets further bits in the mask.
        if *t == tag::MASK {
            *bits &= 7;
        }
        if *bits > 7 || *t > tag::OTHERS {
            return Err(Status::INVAL);
        }
    }
    list.sort_by_key(|e| (e.0, e.1));
    let bits = |list: &[Entry], wanted| list.iter().find(|e| e.0 == wanted).map(|e| e.2);
    if list.len() == 4 && bits(&list, tag::MASK).is_some() && bits(&list, tag::MASK) == bits(&list, tag::OWNING_GROUP) {
        list.retain(|e| e.0 != tag::MASK);
    }
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (t, id, bits) in list {
        let id = if matches!(t, tag::USER | tag::GROUP) { id } else { u32::MAX };
        value.extend((t as u16).to_le_bytes());
        value.extend((bits as u16).to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    match PosixAcl::parse(&value) {
        Ok(Some(_)) => Ok(Some(value)),
        _ => Err(Status::INVAL),
    }
}

impl Program for SideAcl {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        3
    }

    fn name(&self) -> &'static str {
        "nfsacl"
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["null", "getacl", "setacl"]
    }

    fn changes(&self, procedure: u32) -> bool {
        procedure == 2
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> std::result::Result<(), Fault> {
        match call.header.procedure {
            1 => self.get(call, args, out),
            2 => self.set(call, args, out),
            _ => Err(Fault::ProcedureUnavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Rig;
    use super::*;

    fn put(w: &mut Writer, file: &[u8], mask: u32, lists: [&[Entry]; 2]) {
        w.opaque(file);
        w.u32(mask);
        put_list(w, lists[0], true, 0);
        put_list(w, lists[1], true, OF_DEFAULT);
    }

    fn take(r: &mut Reader<'_>) -> Vec<Entry> {
        let (count, sent) = (r.u32().expect("a number"), r.u32().expect("a number"));
        assert_eq!(count, sent);
        (0..sent).map(|_| (r.u32().expect("tag"), r.u32().expect("id"), r.u32().expect("bits"))).collect()
    }

    fn get(rig: &Rig, file: &[u8]) -> (Vec<Entry>, Vec<Entry>) {
        let answer = rig.raw(PROGRAM, 1, |w| {
            w.opaque(file);
            w.u32(LIST | DEFAULT_LIST);
        });
        let mut r = Reader::new(&answer);
        assert_eq!((r.u32(), r.bool()), (Ok(0), Ok(true)));
        r.fixed::<84>().expect("attributes");
        assert_eq!(r.u32(), Ok(LIST | DEFAULT_LIST));
        let lists = (take(&mut r), take(&mut r));
        assert!(r.is_empty());
        lists
    }

    fn set(rig: &Rig, file: &[u8], mask: u32, lists: [&[Entry]; 2]) -> Status {
        let answer = rig.raw(PROGRAM, 2, |w| put(w, file, mask, lists));
        Status(Reader::new(&answer).u32().expect("a status"))
    }

    #[test]
    fn acls_are_set_and_returned_as_getfacl_expects() {
        let rig = Rig::new("rw");
        let root = rig.mount("/tank").expect("mounts");
        let file = rig.file(&root, "f", 0o640);
        let of_mode = vec![(1, 1000, 6), (4, 100, 4), (0x10, 0, 4), (0x20, 0, 0)];
        assert_eq!(get(&rig, &file), (of_mode, Vec::new()));
        // Not sorted, and with additional Solaris bits in the mask.
        let list = [(1, 0, 6), (0x20, 0, 0), (2, 77, 7), (4, 0, 4), (0x10, 0, 0xf6)];
        assert_eq!(set(&rig, &file, LIST, [&list, &[]]), Status::OK);
        let effective = vec![(1, 1000, 6), (2, 77, 7), (4, 100, 4), (0x10, 0, 6), (0x20, 0, 0)];
        assert_eq!(get(&rig, &file), (effective.clone(), Vec::new()));
        for bad in
            [&[(1, 0, 6)][..], &[(1, 0, 6), (2, 77, 7), (4, 0, 4), (0x20, 0, 0)], &[(1, 0, 9), (4, 0, 4), (0x20, 0, 0)]]
        {
            assert_eq!(set(&rig, &file, LIST, [bad, &[]]), Status::INVAL, "{bad:?}");
        }
        assert_eq!(set(&rig, &file, DEFAULT_LIST, [&[], &list]), Status::ACCES, "it is no directory");
        assert_eq!(get(&rig, &file).0, effective, "the refused request changed nothing");
        let rig = rig.user(1001);
        assert_eq!(set(&rig, &file, LIST, [&list, &[]]), Status::PERM, "not the owner");
    }

    #[test]
    fn directories_get_default_lists_and_lose_them() {
        let rig = Rig::new("rw");
        let root = rig.mount("/tank").expect("mounts");
        let dir = rig.dir(&root, "d", 0o750);
        let list = [(1, 0, 7), (2, 77, 5), (4, 0, 5), (0x10, 0, 5), (0x20, 0, 0)];
        assert_eq!(set(&rig, &dir, DEFAULT_LIST, [&[], &list]), Status::OK);
        let d = OF_DEFAULT;
        let effective = vec![(d | 1, 1000, 7), (d | 2, 77, 5), (d | 4, 100, 5), (d | 0x10, 0, 5), (d | 0x20, 0, 0)];
        assert_eq!(get(&rig, &dir).1, effective);
        for _ in 0..2 {
            assert_eq!(set(&rig, &dir, DEFAULT_LIST, [&[], &[]]), Status::OK);
            assert_eq!(get(&rig, &dir).1, Vec::new());
        }
    }
}
