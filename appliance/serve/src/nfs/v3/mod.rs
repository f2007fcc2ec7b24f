//! NFS version 3 (RFC 1813): all procedures.
//!
//! A procedure writes a status and its results. If it fails, it writes the status and the
//! attributes that belong to a failure, which keep the client's cache up to date. A procedure that
//! changes a node also locks it here, so that the attributes before, the change, and the attributes
//! after are atomic with respect to other NFS calls.
//!
//! Stable storage means the intent log, on all devices that it is written to. Create, remove and
//! rename are answered once they are there, as are writes unless the client requested UNSTABLE;
//! COMMIT waits for those.

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

/// RPC program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// Maximum size of a READ or WRITE.
pub const TRANSFER_BYTES: u32 = 1 << 20;
/// Maximum size of a version 3 file handle.
const HANDLE_MAX: usize = 64;
/// Longer names are malformed. The file system itself rejects names above its own limit.
const NAME_MAX: usize = 4096;
/// Maximum length of a symbolic link's target.
const TARGET_MAX: usize = 4096;
/// Number of locks for nodes. Nodes that hash to one lock wait for each other. Guessed.
const LOCKS: usize = 1024;

/// See the module documentation.
pub struct V3 {
    core: Arc<Core>,
    locks: Vec<Mutex<()>>,
}

impl V3 {
    pub fn new(core: Arc<Core>) -> Self {
        Self { core, locks: (0..LOCKS).map(|_| Mutex::default()).collect() }
    }

    /// The lock of the node of a verified handle. Its MAC serves as the hash.
    fn lock_number(handle: &[u8]) -> usize {
        handle.last_chunk::<8>().map_or(0, |mac| u64::from_le_bytes(*mac) as usize % LOCKS)
    }

    /// Resolves a handle and locks the node against other NFS changes. The handle is verified
    /// before the lock is taken.
    fn at_locked<'s>(&'s self, call: &Call<'_>, handle: &[u8]) -> Result<(At, MutexGuard<'s, ()>)> {
        let opened = self.core.handles.open(handle)?;
        let lock = self.locks[Self::lock_number(handle)].lock();
        Ok((self.core.at_opened(call, opened)?, lock))
    }

    /// Like [`Self::at_locked`], for two handles.
    fn at_both<'s>(&'s self, call: &Call<'_>, a: &[u8], b: &[u8]) -> (Vec<MutexGuard<'s, ()>>, Result<At>, Result<At>) {
        let opened = [a, b].map(|handle| self.core.handles.open(handle));
        let verified = [a, b].into_iter().zip(&opened).filter(|(_, opened)| opened.is_ok());
        let mut numbers: Vec<_> = verified.map(|(handle, _)| Self::lock_number(handle)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let locks = numbers.into_iter().map(|n| self.locks[n].lock()).collect();
        let [a, b] = opened.map(|opened| self.core.at_opened(call, opened?));
        (locks, a, b)
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
        // SETATTR, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK. Repeating a WRITE is
        // harmless, and caching it would fill the duplicate request cache.
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
            // WRITE with UNSTABLE.
            7 if stable(args) == Ok(0) => Wait::Maybe,
            // Procedures that are answered once the intent log is written.
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

/// Reads a file name.
fn name<'a>(args: &mut Reader<'a>) -> super::xdr::Result<&'a [u8]> {
    args.opaque(NAME_MAX)
}

fn handle<'a>(args: &mut Reader<'a>) -> super::xdr::Result<&'a [u8]> {
    args.opaque(HANDLE_MAX)
}

/// Rejects what cannot be a name in a directory.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&b'/') {
        return Err(Status::ACCES);
    }
    if name.contains(&0) { Err(Status::INVAL) } else { Ok(()) }
}

/// Maps "not found" to STALE, for operations on a node rather than a name.
fn gone(error: errors::Error) -> Status {
    match Status::from(error) {
        Status::NOENT => Status::STALE,
        other => other,
    }
}

/// The current attributes for the client's cache; `None` if they cannot be read.
fn after(at: &At) -> Option<PostAttr> {
    at.vfs().attr(at.node()).ok().map(|attr| PostAttr { file: at.file, attr })
}

/// Like [`after`], for a node that was changed. Also updates the change attribute of version 4.
fn changed(core: &Core, at: &At) -> Option<PostAttr> {
    let post = after(at);
    if let Some(post) = &post {
        core.changes.note(post.file, &post.attr);
    }
    post
}

/// Writes a change of a directory and its entries to stable storage.
fn settle(at: &At) -> Result<()> {
    if at.share.options.is_async {
        return Ok(());
    }
    at.vfs().sync_node(at.node(), SyncKind::All).map_err(gone)
}

/// Starts a reply with status OK; [`fail`] replaces it.
fn ok(out: &mut Writer) -> Mark {
    let mark = out.mark();
    out.u32(Status::OK.0);
    mark
}

fn put_status(out: &mut Writer, status: Status) {
    note::result(status.0.cast_signed());
    out.u32(status.0);
}

/// Handles a procedure that returns the attributes of one node, whether or not it succeeds.
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

/// Writes the rest of a reply after the attributes.
type Rest = Box<dyn FnOnce(&mut Writer)>;

/// Handles a procedure that changes one node: writes its attributes before and after. `settles`:
/// the reply waits until the change is on stable storage, without holding the node's lock.
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

/// Whether a node is the root of its share's file system.
fn is_share_root(at: &At) -> bool {
    at.file.fs_guid == at.share.fs_guid
        && at.vfs().by_handle(&at.share.root()).is_ok_and(|root: Attr| root.node == at.attr.node)
}
