//! Operations that change names and attributes: SETATTR, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE,
//! RMDIR, RENAME, LINK.

use super::attr::{PostAttr, get_guard, get_set, is_time, put_post, put_wcc};
use super::{Reply, TARGET_MAX, V3, after, changed, check_name, gone, handle, name, put_status, settle, with_wcc};
use crate::nfs::access::{self, WRITE};
use crate::nfs::core::At;
use crate::nfs::rpc::Call;
use crate::nfs::status::{Result, Status};
use crate::nfs::xdr::{Malformed, Reader, Writer};
use errors::{Error, Refusal};
use files::vfs::{Attr, Caller, FileKind, NewNode, RenameFlags, SetAttr, Time};

/// How CREATE handles an existing name (`createmode3`).
enum How {
    Unchecked(SetAttr),
    Guarded(SetAttr),
    Exclusive([u8; 8]),
}

/// An exclusive create stores its verifier in the times until the client sets them, so that a
/// repeated request is recognised even after a restart.
fn verifier_times(verifier: [u8; 8]) -> (Time, Time) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let time = |bytes| Time { seconds: i64::from(u32::from_be_bytes(bytes)), nanoseconds: 0 };
    (time([a, b, c, d]), time([e, f, g, h]))
}

impl V3 {
    pub(super) fn setattr(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, mut set, guard) = (handle(args)?, get_set(args)?, get_guard(args)?);
        let at = self.at_locked(call, handle);
        with_wcc(&self.core, out, at, true, true, |at| {
            if guard.is_some_and(|guard| !is_time(guard, at.attr.ctime)) {
                return Err(Status::NOT_SYNC);
            }
            at.check_writable()?;
            access::check_set(at.vfs(), &at.attr, &at.who, &mut set)?;
            if set != SetAttr::default() {
                at.vfs().set_attr(&at.who, at.node(), &set).map_err(gone)?;
            }
            Ok(Box::new(|_| ()))
        })
    }

    /// Handles a procedure that creates a node in a directory: writes the node's handle and
    /// attributes, and the directory's attributes.
    fn make(
        &self,
        call: &Call<'_>,
        (handle, name): (&[u8], &[u8]),
        out: &mut Writer,
        make: impl FnOnce(&At) -> Result<Attr>,
    ) -> Reply {
        let at = self.at_locked(call, handle);
        with_wcc(&self.core, out, at, true, false, |at| {
            check_name(name)?;
            if at.attr.kind != FileKind::Directory {
                return Err(Status::NOTDIR);
            }
            if name == b"." || name == b".." {
                return Err(Status::EXIST);
            }
            at.check_writable()?;
            let attr = make(at)?;
            let (share, file) = self.core.reached(call, at, &attr)?;
            let sealed = self.core.seal(&share, file);
            Ok(Box::new(move |out| {
                out.bool(true);
                out.opaque(&sealed);
                put_post(out, Some(&PostAttr { file, attr }));
            }))
        })
    }

    pub(super) fn create(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, name) = (handle(args)?, name(args)?);
        let how = match args.u32()? {
            0 => How::Unchecked(get_set(args)?),
            1 => How::Guarded(get_set(args)?),
            2 => How::Exclusive(args.fixed()?),
            _ => return Err(Malformed.into()),
        };
        self.make(call, (handle, name), out, |at| create(at, name, &how))
    }

    pub(super) fn mkdir(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, name, set) = (handle(args)?, name(args)?, get_set(args)?);
        self.make(call, (handle, name), out, |at| new(at, name, &NewNode::Directory, &set))
    }

    pub(super) fn symlink(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, name, set) = (handle(args)?, name(args)?, get_set(args)?);
        let target = args.opaque(TARGET_MAX)?;
        self.make(call, (handle, name), out, |at| {
            if target.is_empty() || target.contains(&0) {
                return Err(Status::INVAL);
            }
            // The mode of a symbolic link has no meaning.
            let set = SetAttr { mode: Some(0o777), size: None, ..set };
            new(at, name, &NewNode::Symlink(target.to_vec()), &set)
        })
    }

    pub(super) fn mknod(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (handle, name, kind) = (handle(args)?, name(args)?, args.u32()?);
        let (made, set) = match kind {
            3 | 4 => {
                let set = get_set(args)?;
                let (major, minor) = (args.u32()?, args.u32()?);
                let device = if kind == 3 {
                    NewNode::BlockDevice { major, minor }
                } else {
                    NewNode::CharDevice { major, minor }
                };
                (Some(device), set)
            }
            6 => (Some(NewNode::Socket), get_set(args)?),
            7 => (Some(NewNode::Fifo), get_set(args)?),
            _ => (None, SetAttr::default()),
        };
        self.make(call, (handle, name), out, |at| {
            let made = made.ok_or(Status::BADTYPE)?;
            let is_device = matches!(made, NewNode::BlockDevice { .. } | NewNode::CharDevice { .. });
            if is_device && !at.who.privileged {
                return Err(Status::PERM);
            }
            if let NewNode::BlockDevice { major, minor } | NewNode::CharDevice { major, minor } = made
                && (major >= 1 << 12 || minor >= 1 << 20)
            {
                return Err(Status::INVAL);
            }
            new(at, name, &made, &set)
        })
    }

    pub(super) fn remove(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer, is_dir: bool) -> Reply {
        let (handle, name) = (handle(args)?, name(args)?);
        let at = self.at_locked(call, handle);
        with_wcc(&self.core, out, at, true, true, |at| {
            check_name(name)?;
            match name {
                b"." => return Err(Status::INVAL),
                b".." => return Err(Status::EXIST),
                _ => {}
            }
            if at.attr.kind != FileKind::Directory {
                return Err(Status::NOTDIR);
            }
            at.check_writable()?;
            access::check(at.vfs(), &at.attr, &at.who, access::EXECUTE)?;
            let child = at.vfs().lookup(at.node(), name)?;
            access::check_remove(at.vfs(), &at.attr, &child, &at.who)?;
            match is_dir {
                true => at.vfs().rmdir(&at.who, at.node(), name)?,
                false => at.vfs().unlink(&at.who, at.node(), name)?,
            }
            Ok(Box::new(|_| ()))
        })
    }

    pub(super) fn rename(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (from_handle, from_name) = (handle(args)?, name(args)?);
        let (to_handle, to_name) = (handle(args)?, name(args)?);
        let (locks, from, to) = self.at_both(call, from_handle, to_handle);
        let mut result = match (&from, &to) {
            (Ok(from), Ok(to)) => rename(from, from_name, to, to_name),
            (Err(status), _) | (_, Err(status)) => Err(*status),
        };
        let now = |at: &At| if result.is_ok() { changed(&self.core, at) } else { after(at) };
        let wcc = [&from, &to].map(|at| at.as_ref().ok().map(|at| (at.attr, now(at))));
        drop(locks);
        if let (Ok(()), Ok(from), Ok(to)) = (result, &from, &to) {
            result = settle(from).and_then(|()| if from.node() == to.node() { Ok(()) } else { settle(to) });
        }
        put_status(out, result.err().unwrap_or(Status::OK));
        for dir in wcc {
            put_wcc(out, dir.as_ref().map(|d| &d.0), dir.as_ref().and_then(|d| d.1.as_ref()));
        }
        Ok(())
    }

    pub(super) fn link(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Reply {
        let (node_handle, dir_handle, name) = (handle(args)?, handle(args)?, name(args)?);
        let (locks, node, dir) = self.at_both(call, node_handle, dir_handle);
        let mut result = match (&node, &dir) {
            (Ok(node), Ok(dir)) => link(node, dir, name),
            (Err(status), _) | (_, Err(status)) => Err(*status),
        };
        let now = |at: &At| if result.is_ok() { changed(&self.core, at) } else { after(at) };
        let post = node.as_ref().ok().and_then(now);
        let wcc = dir.as_ref().ok().map(|at| (at.attr, now(at)));
        drop(locks);
        if let (Ok(()), Ok(dir)) = (result, &dir) {
            result = settle(dir);
        }
        put_status(out, result.err().unwrap_or(Status::OK));
        put_post(out, post.as_ref());
        put_wcc(out, wcc.as_ref().map(|d| &d.0), wcc.as_ref().and_then(|d| d.1.as_ref()));
        Ok(())
    }
}

/// The attributes of a CREATE that the caller may set on the new node, except for the mode, which
/// is set when the node is created.
fn settable(who: &Caller, set: &SetAttr, made: &Attr) -> SetAttr {
    let mut rest = SetAttr { mode: None, ..*set };
    if !who.privileged {
        rest.uid = None;
        rest.gid = rest.gid.filter(|gid| access::is_in_group(who, *gid));
    }
    rest.uid = rest.uid.filter(|uid| *uid != made.uid);
    rest.gid = rest.gid.filter(|gid| *gid != made.gid);
    if made.kind != FileKind::Regular || rest.size == Some(made.size) {
        rest.size = None;
    }
    rest
}

fn new(at: &At, name: &[u8], kind: &NewNode, set: &SetAttr) -> Result<Attr> {
    access::check_add(at.vfs(), &at.attr, &at.who, matches!(kind, NewNode::Directory))?;
    let mode = set.mode.unwrap_or(0);
    let made = at.vfs().create(&at.who, at.node(), name, kind, mode, 0)?;
    let rest = settable(&at.who, set, &made);
    if rest == SetAttr::default() { Ok(made) } else { at.vfs().set_attr(&at.who, made.node, &rest).map_err(gone) }
}

fn create(at: &At, name: &[u8], how: &How) -> Result<Attr> {
    let set = match how {
        How::Unchecked(set) | How::Guarded(set) => *set,
        How::Exclusive(_) => SetAttr::default(),
    };
    access::check(at.vfs(), &at.attr, &at.who, access::EXECUTE)?;
    let there = match at.vfs().lookup(at.node(), name) {
        Ok(there) => there,
        Err(Error::NotFound { .. }) => match make_file(at, name, how, &set) {
            // Another client was faster.
            Err(Status::EXIST) => at.vfs().lookup(at.node(), name)?,
            made => return made,
        },
        Err(e) => return Err(e.into()),
    };
    match how {
        How::Guarded(_) => Err(Status::EXIST),
        How::Exclusive(verifier) => {
            let is_it = there.kind == FileKind::Regular
                && there.size == 0
                && (there.mtime, there.atime) == verifier_times(*verifier);
            if is_it { Ok(there) } else { Err(Status::EXIST) }
        }
        How::Unchecked(set) => {
            // Only the size is applied, because the file may belong to another user.
            let Some(size) = set.size.filter(|_| there.kind == FileKind::Regular) else { return Ok(there) };
            let mut cut = SetAttr { size: Some(size), ..SetAttr::default() };
            access::check_set(at.vfs(), &there, &at.who, &mut cut)?;
            at.vfs().set_attr(&at.who, there.node, &cut).map_err(gone)
        }
    }
}

/// Creates a file. For an exclusive create, the verifier is stored in the same transaction, so that
/// it survives a crash of this server.
fn make_file(at: &At, name: &[u8], how: &How, set: &SetAttr) -> Result<Attr> {
    let How::Exclusive(verifier) = how else { return new(at, name, &NewNode::Regular, set) };
    access::check_add(at.vfs(), &at.attr, &at.who, false)?;
    let (mtime, atime) = verifier_times(*verifier);
    Ok(at.vfs().create_marked(&at.who, at.node(), name, (0, 0), (atime, mtime))?)
}

fn rename(from: &At, from_name: &[u8], to: &At, to_name: &[u8]) -> Result<()> {
    check_name(from_name)?;
    check_name(to_name)?;
    if from.attr.kind != FileKind::Directory || to.attr.kind != FileKind::Directory {
        return Err(Status::NOTDIR);
    }
    if from.file.fs_guid != to.file.fs_guid || from.share.pool_guid != to.share.pool_guid {
        return Err(Status::XDEV);
    }
    let is_dot = |name: &[u8]| name == b"." || name == b"..";
    if is_dot(from_name) || is_dot(to_name) {
        return Err(Status::INVAL);
    }
    from.check_writable()?;
    to.check_writable()?;
    access::check(from.vfs(), &from.attr, &from.who, access::EXECUTE)?;
    let moved = from.vfs().lookup(from.node(), from_name)?;
    access::check_add(to.vfs(), &to.attr, &to.who, moved.kind == FileKind::Directory)?;
    access::check_remove(from.vfs(), &from.attr, &moved, &from.who)?;
    match to.vfs().lookup(to.node(), to_name) {
        Ok(replaced) => access::check_remove(to.vfs(), &to.attr, &replaced, &to.who)?,
        Err(Error::NotFound { .. }) => {}
        Err(e) => return Err(e.into()),
    }
    // Moving a directory to another parent also changes the directory itself.
    if moved.kind == FileKind::Directory && from.node() != to.node() {
        access::check(from.vfs(), &moved, &from.who, WRITE)?;
    }
    Ok(from.vfs().rename(&from.who, from.node(), from_name, to.node(), to_name, RenameFlags::default())?)
}

fn link(node: &At, dir: &At, name: &[u8]) -> Result<()> {
    check_name(name)?;
    if dir.attr.kind != FileKind::Directory {
        return Err(Status::NOTDIR);
    }
    if name == b"." || name == b".." {
        return Err(Status::EXIST);
    }
    if node.file.fs_guid != dir.file.fs_guid || node.share.pool_guid != dir.share.pool_guid {
        return Err(Status::XDEV);
    }
    dir.check_writable()?;
    access::check_add(dir.vfs(), &dir.attr, &dir.who, false)?;
    if node.attr.kind == FileKind::Directory {
        return Err(Status::PERM);
    }
    dir.vfs().link(&dir.who, node.node(), dir.node(), name).map_err(|e| match e.refusal() {
        Some(Refusal::Stale) => Status::STALE,
        _ => e.into(),
    })?;
    Ok(())
}
