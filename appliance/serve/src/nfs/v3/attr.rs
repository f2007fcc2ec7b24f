//! Encoding of version 3 attributes.

use crate::nfs::kind_number;
use crate::nfs::xdr::{Malformed, Reader, Result, Writer};
use files::vfs::{Attr, FileHandle, SetAttr, SetTime, Time};

/// Attributes with the file handle of the node. Inode numbers are derived from the handle.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostAttr {
    pub file: FileHandle,
    pub attr: Attr,
}

fn put_time(out: &mut Writer, time: Time) {
    // Truncated to 32 bits, as the Linux server does.
    out.u32(time.seconds as u32);
    out.u32(time.nanoseconds);
}

fn get_time(r: &mut Reader<'_>) -> Result<Time> {
    let time = Time { seconds: i64::from(r.u32()?), nanoseconds: r.u32()? };
    if time.nanoseconds < 1_000_000_000 { Ok(time) } else { Err(Malformed) }
}

/// The inode number that clients see. It is stable even for synthetic directories, which no dataset
/// contains.
pub(super) fn file_id(file: &FileHandle, attr: &Attr) -> u64 {
    if file.object >= FileHandle::MADE { file.object } else { attr.ino }
}

/// Writes `fattr3`.
pub(super) fn put_attr(out: &mut Writer, post: &PostAttr) {
    let PostAttr { file, attr } = post;
    for n in [kind_number(attr.kind), attr.mode, attr.links, attr.uid, attr.gid] {
        out.u32(n);
    }
    out.u64(attr.size);
    out.u64(attr.blocks_512.saturating_mul(512));
    out.u32(attr.rdev_major);
    out.u32(attr.rdev_minor);
    out.u64(file.fs_guid);
    out.u64(file_id(file, attr));
    put_time(out, attr.atime);
    put_time(out, attr.mtime);
    put_time(out, attr.ctime);
}

/// Writes `post_op_attr`.
pub(super) fn put_post(out: &mut Writer, post: Option<&PostAttr>) {
    out.bool(post.is_some());
    if let Some(post) = post {
        put_attr(out, post);
    }
}

/// Writes `wcc_data`.
pub(super) fn put_wcc(out: &mut Writer, before: Option<&Attr>, after: Option<&PostAttr>) {
    out.bool(before.is_some());
    if let Some(before) = before {
        out.u64(before.size);
        put_time(out, before.mtime);
        put_time(out, before.ctime);
    }
    put_post(out, after);
}

/// Reads `sattr3`.
pub(super) fn get_set(r: &mut Reader<'_>) -> Result<SetAttr> {
    fn optional<'a, T>(r: &mut Reader<'a>, get: fn(&mut Reader<'a>) -> Result<T>) -> Result<Option<T>> {
        if r.bool()? { get(r).map(Some) } else { Ok(None) }
    }
    fn time(r: &mut Reader<'_>) -> Result<Option<SetTime>> {
        match r.u32()? {
            0 => Ok(None),
            1 => Ok(Some(SetTime::Now)),
            2 => Ok(Some(SetTime::To(get_time(r)?))),
            _ => Err(Malformed),
        }
    }
    Ok(SetAttr {
        mode: optional(r, Reader::u32)?.map(|mode| mode & 0o7777),
        uid: optional(r, Reader::u32)?,
        gid: optional(r, Reader::u32)?,
        size: optional(r, Reader::u64)?,
        atime: time(r)?,
        mtime: time(r)?,
        ..SetAttr::default()
    })
}

/// Reads `sattrguard3`: the change time that the client expects.
pub(super) fn get_guard(r: &mut Reader<'_>) -> Result<Option<Time>> {
    if r.bool()? { get_time(r).map(Some) } else { Ok(None) }
}

/// Whether a guard matches the change time, of which clients see 32 bits of seconds.
pub(super) fn is_time(guard: Time, ctime: Time) -> bool {
    guard.seconds as u32 == ctime.seconds as u32 && guard.nanoseconds == ctime.nanoseconds
}
