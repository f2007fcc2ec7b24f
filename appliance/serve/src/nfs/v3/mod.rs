//! NFS version 3 (RFC 1813): all procedures.
//!
//! A procedure writes status and results; when it fails, the status and what goes with failures (attributes, so that the client's cache
//! does not grow old). What changes a node locks it here as well, so that the attributes before, the change, and the attributes
//! after are of one moment among all that come over NFS.
//!
//! Stable means in the intent log, on every device that it is written to: what makes, removes or renames is answered when it is
//! there, as is a write unless the client said UNSTABLE; COMMIT waits for the rest.

mod attr;
mod change;
mod data;
mod list;
mod look;
pub mod side_acl;
#[cfg(test)]
mod tests;

use super::core::{At, Core};
use super::rpc::{Call, Fault, Program, Wait};
use super::status::{Result, Status};
use super::xdr::{Mark, Reader, Writer};
use attr::{PostAttr, put_post, put_wcc};
use files::vfs::{Attr, SyncKind};
use observe::event::note;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Number of NFS.
pub const PROGRAM: u32 = 100_003;
/// Longest transfer.
pub const TRANSFER_BYTES: u32 = 1 << 20;
/// Longest handle that version 3 has.
const HANDLE_MAX: usize = 64;
/// Longer names cannot be; what is too long for the file system, it says itself.
const NAME_MAX: usize = 4096;
/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4096;
/// Locks of nodes; two nodes with one lock wait for each other. Guessed.
const LOCKS: usize = 1024;

/// See the module.
pub struct V3 {
    core: Arc<Core>,
    locks: Vec<Mutex<()>>,
}

impl V3 {
    /// Over this state.
    pub fn new(core: Arc<Core>) -> Self {
        Self { core, locks: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }

    fn lock_number(&self, handle: &[u8]) -> usize {
        // The MAC is as good as a hash.
        handle.last_chunk::<8>().map_or(0, |mac| u64::from_le_bytes(*mac) as usize % LOCKS)
    }

    /// The node, while nobody else changes it over NFS.
    fn at_locked<'s>(&'s self, call: &Call<'_>, handle: &[u8]) -> Result<(At, MutexGuard<'s, ()>)> {
        // First without the lock: it may have to be opened.
        self.core.handles.open(handle)?;
        let lock = self.locks[self.lock_number(handle)].lock();
        Ok((self.core.at(call, handle)?, lock))
    }

    /// The same, of two.
    fn at_both<'s>(&'s self, call: &Call<'_>, a: &[u8], b: &[u8]) -> (Vec<MutexGuard<'s, ()>>, Result<At>, Result<At>) {
        let mut numbers = vec![self.lock_number(a), self.lock_number(b)];
        numbers.sort_unstable();
        numbers.dedup();
        let locks = numbers.into_iter().map(|n| self.locks[n].lock()).collect();
        (locks, self.core.at(call, a), self.core.at(call, b))
    }
}

impl Program for V3 {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        3
    }

    fn name(&self) -> &'static str {
        "nfs"
    }

    fn procedures(&self) -> &'static [&'static str] {
        observe::Layer::Nfs3.operations()
    }

    fn changes(&self, procedure: u32) -> bool {
        // SETATTR, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK. Writing the same again does no harm, and would fill
        // what is remembered.
        matches!(procedure, 2 | 8..=15)
    }

    fn may_wait(&self, procedure: u32) -> bool {
        matches!(procedure, 2 | 7..=15 | 21)
    }

    fn waits(&self, procedure: u32, args: &mut Reader<'_>) -> Wait {
        let stable = |args: &mut Reader<'_>| -> super::xdr::Result<u32> {
            let (_handle, _offset, _count) = (handle(args)?, args.u64()?, args.u32()?);
            args.u32()
        };
        match procedure {
            // WRITE that is UNSTABLE.
            7 if stable(args) == Ok(0) => Wait::Maybe,
            // What is answered when the intent log has it.
            2 | 7..=15 | 21 => Wait::Yes,
            _ => Wait::No,
        }
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> std::result::Result<(), Fault> {
        match call.header.procedure {
            1 => self.getattr(call, args, out),
            2 => self.setattr(call, args, out),
            3 => self.lookup(call, args, out),
            4 => self.access(call, args, out),
            5 => self.readlink(call, args, out),
            6 => self.read(call, args, out),
            7 => self.write(call, args, out),
            8 => self.create(call, args, out),
            9 => self.mkdir(call, args, out),
            10 => self.symlink(call, args, out),
            11 => self.mknod(call, args, out),
            12 => self.remove(call, args, out, false),
            13 => self.remove(call, args, out, true),
            14 => self.rename(call, args, out),
            15 => self.link(call, args, out),
            16 => self.readdir(call, args, out),
            17 => self.readdirplus(call, args, out),
            18 => self.fsstat(call, args, out),
            19 => self.fsinfo(call, args, out),
            20 => self.pathconf(call, args, out),
            21 => self.commit(call, args, out),
            _ => Err(Fault::ProcedureUnavailable),
        }
    }
}

type Reply = std::result::Result<(), Fault>;

/// A name in a directory, as the client sent it.
fn name<'a>(args: &mut Reader<'a>) -> super::xdr::Result<&'a [u8]> {
    args.opaque(NAME_MAX)
}

fn handle<'a>(args: &mut Reader<'a>) -> super::xdr::Result<&'a [u8]> {
    args.opaque(HANDLE_MAX)
}

/// Fails for what is no name in a directory.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&b'/') {
        return Err(Status::ACCES);
    }
    if name.contains(&0) { Err(Status::INVAL) } else { Ok(()) }
}

/// The node is gone: what an operation on a node tells, that found no object.
fn gone(error: files::Error) -> Status {
    match Status::from(error) {
        Status::NOENT => Status::STALE,
        other => other,
    }
}

/// Attributes now, for the client's cache; none when they cannot be had.
fn after(at: &At) -> Option<PostAttr> {
    at.vfs().attr(at.node()).ok().map(|attr| PostAttr { file: at.file, attr })
}

/// The same of a node that was changed, which clients of version 4 are to know.
fn changed(core: &Core, at: &At) -> Option<PostAttr> {
    let post = after(at);
    if let Some(post) = &post {
        core.changes.note(post.file, &post.attr);
    }
    post
}

/// Brings a change of a directory, and of what is in it, to stable storage.
fn settle(at: &At) -> Result<()> {
    if at.share.options.is_async {
        return Ok(());
    }
    at.vfs().sync_node(at.node(), SyncKind::All).map_err(gone)
}

/// Begins a reply with success; [`fail`] takes it back.
fn ok(out: &mut Writer) -> Mark {
    let mark = out.mark();
    out.u32(Status::OK.0);
    mark
}

fn put_status(out: &mut Writer, status: Status) {
    note::result(status.0.cast_signed());
    out.u32(status.0);
}

/// The reply of a procedure that tells the attributes of one node, whether or not it succeeds.
fn with_post(out: &mut Writer, at: Result<At>, work: impl FnOnce(&At, &mut Writer) -> Result<()>) -> Reply {
    let mark = ok(out);
    let (status, post) = match &at {
        Err(status) => (*status, None),
        Ok(at) => match work(at, out) {
            Ok(()) => return Ok(()),
            Err(status) => (status, Some(PostAttr { file: at.file, attr: at.attr })),
        },
    };
    out.rollback(mark);
    put_status(out, status);
    put_post(out, post.as_ref());
    Ok(())
}

/// What a change adds to its reply.
type Rest = Box<dyn FnOnce(&mut Writer)>;

/// The reply of a procedure that changes one node: with its attributes before and after. `settles`: it is answered when the change
/// is on stable storage, for which others need not wait.
fn with_wcc(
    core: &Core,
    out: &mut Writer,
    at: Result<(At, MutexGuard<'_, ()>)>,
    settles: bool,
    is_wcc_first: bool,
    work: impl FnOnce(&At) -> Result<Rest>,
) -> Reply {
    let (at, lock) = match at {
        Ok(found) => found,
        Err(status) => {
            put_status(out, status);
            put_wcc(out, None, None);
            return Ok(());
        }
    };
    let result = work(&at);
    let post = if result.is_ok() { changed(core, &at) } else { after(&at) };
    drop(lock);
    let result = match (result, settles) {
        (Ok(rest), true) => settle(&at).map(|()| rest),
        (result, _) => result,
    };
    match result {
        Ok(rest) => {
            put_status(out, Status::OK);
            if is_wcc_first {
                put_wcc(out, Some(&at.attr), post.as_ref());
                rest(out);
            } else {
                rest(out);
                put_wcc(out, Some(&at.attr), post.as_ref());
            }
        }
        Err(status) => {
            put_status(out, status);
            put_wcc(out, Some(&at.attr), post.as_ref());
        }
    }
    Ok(())
}

/// Whether a node is the root of the file system that its share is.
fn is_share_root(at: &At) -> bool {
    at.file.fs_guid == at.share.fs_guid
        && at.vfs().by_handle(&at.share.root()).is_ok_and(|root: Attr| root.node == at.attr.node)
}
