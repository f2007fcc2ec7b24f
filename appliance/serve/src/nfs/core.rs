//! What all NFS versions share: the steps from a file handle to a node that the caller may access.
//!
//! ```text
//!   handle ─ HandleKey (is it ours?) ─ Table (is its file system shared?)
//!          ─ Granted (with this client?) ─ squash ─ Vfs::by_handle ─> At
//! ```
//! All steps run for each call, so a share that is removed is gone with the next call.

use super::changes::Changes;
use super::exports::options::Squash;
use super::exports::{Granted, Share, Table, Watched};
use super::figures::Figures;
use super::grace::Grace;
use super::handle::{HANDLE_BYTES, HandleKey, WireHandle};
use super::locks::LockTable;
use super::rpc::{Call, Credential};
use super::status::{Result, Status};
use files::namespace::{file_system_of, object_of};
use files::vfs::{Attr, Caller, FileHandle, NodeId, Vfs};
use std::sync::Arc;

/// State of a server that all programs share.
pub struct Core {
    /// Shares and the permissions of clients.
    pub exports: Watched,
    /// Key of the file handles.
    pub handles: HandleKey,
    pub locks: Arc<LockTable>,
    /// The grace period, in which locks may only be reclaimed.
    pub grace: Arc<Grace>,
    /// Write verifier: different after each start of the server, so that clients learn that
    /// uncommitted writes may be lost.
    pub verifier: [u8; 8],
    /// Changes made by clients of any version, for the change attribute of version 4.
    pub changes: Changes,
    pub figures: Arc<Figures>,
}

/// The node that a call operates on, and what its caller may do.
#[derive(Debug, Clone)]
pub struct At {
    /// The share that contains the node.
    pub share: Arc<Share>,
    /// What the client may do with the share.
    pub granted: Granted,
    /// The user after squashing.
    pub who: Caller,
    pub file: FileHandle,
    /// Attributes at the start of the call.
    pub attr: Attr,
}

impl At {
    /// The tree that contains the node.
    pub fn vfs(&self) -> &dyn Vfs {
        &*self.share.vfs
    }

    /// Number of the node in its tree.
    pub fn node(&self) -> NodeId {
        self.attr.node
    }

    /// Fails with [`Status::ROFS`] if the share is read-only for this client or the file system is
    /// read-only.
    pub fn check_writable(&self) -> Result<()> {
        if self.granted.read_only || self.share.vfs.is_node_read_only(self.attr.node) {
            Err(Status::ROFS)
        } else {
            Ok(())
        }
    }
}

impl Core {
    /// Resolves `handle` for the caller of `call`.
    pub fn at(&self, call: &Call<'_>, handle: &[u8]) -> Result<At> {
        self.at_opened(call, self.handles.open(handle)?)
    }

    /// Like [`Self::at`], for a handle that was verified.
    pub fn at_opened(&self, call: &Call<'_>, handle: WireHandle) -> Result<At> {
        let WireHandle { pool_guid, file } = handle;
        let share = self.exports.table().of(pool_guid, file.fs_guid)?.ok_or(Status::STALE)?;
        self.at_file(call, share, file)
    }

    /// Like [`Self::at`], for a file in a known share.
    pub fn at_file(&self, call: &Call<'_>, share: Arc<Share>, file: FileHandle) -> Result<At> {
        let granted = self.exports.granted(&share, call.peer.address).ok_or(Status::ACCES)?;
        let who = caller(&call.header.credential, &share, granted)?;
        self.figures.note_file(share.fs_guid, &share.dataset, file.object);
        let attr = share.vfs.by_handle(&file).map_err(|e| match e {
            // A snapshot or dataset that was destroyed, or that needs a key to be opened, looks as
            // if it were not mounted.
            errors::Error::NotFound { .. } | errors::Error::KeyUnavailable { .. } => Status::STALE,
            other => other.into(),
        })?;
        Ok(At { share, granted, who, file, attr })
    }

    /// The handle of a node that was reached from `at`, and its share: the share of `at`, or
    /// another one (a child dataset, or the parent) if the client may access it.
    pub fn reached(&self, call: &Call<'_>, at: &At, attr: &Attr) -> Result<(Arc<Share>, FileHandle)> {
        let file = file_of(at, attr)?;
        if file.fs_guid == at.file.fs_guid {
            return Ok((at.share.clone(), file));
        }
        let share = self.exports.table().of(at.share.pool_guid, file.fs_guid)?.ok_or(Status::ACCES)?;
        if share.fs_guid != at.share.fs_guid {
            self.exports.granted(&share, call.peer.address).ok_or(Status::ACCES)?;
        }
        Ok((share, file))
    }

    /// Encodes and signs a file handle.
    pub fn seal(&self, share: &Share, file: FileHandle) -> [u8; HANDLE_BYTES] {
        self.handles.seal(&WireHandle { pool_guid: share.pool_guid, file })
    }

    /// The current shares; see [`Watched::table`].
    pub fn table(&self) -> Arc<Table> {
        self.exports.table()
    }
}

/// The handle of a node that was reached from `at`.
pub fn file_of(at: &At, attr: &Attr) -> Result<FileHandle> {
    let system = file_system_of(attr.node);
    if system.is_some() && system == file_system_of(at.attr.node) {
        // Saves reading the attributes again.
        let object = object_of(attr.node);
        return Ok(FileHandle { fs_guid: at.file.fs_guid, object, generation: attr.generation });
    }
    Ok(at.vfs().handle(attr.node)?)
}

/// Maps the caller's credential to a user according to the squash options of the share.
pub(crate) fn caller(credential: &Credential, share: &Share, granted: Granted) -> Result<Caller> {
    let options = &share.options;
    let nobody = Caller { uid: options.anon_uid, gid: options.anon_gid, ..Caller::default() };
    let sys = match credential {
        Credential::Sys(sys) => sys,
        Credential::None if options.takes_nobody => return Ok(nobody),
        Credential::None => return Err(Status::ACCES),
    };
    if options.squash == Squash::All {
        return Ok(nobody);
    }
    if granted.trusts_root {
        let (uid, gid, groups) = (sys.uid, sys.gid, sys.groups().to_vec());
        return Ok(Caller { uid, gid, groups, privileged: uid == 0, ..Caller::default() });
    }
    let squashed = |id: u32, anon: u32| if id == 0 { anon } else { id };
    let groups = sys.groups().iter().map(|&gid| squashed(gid, options.anon_gid)).collect();
    Ok(Caller {
        uid: squashed(sys.uid, options.anon_uid),
        gid: squashed(sys.gid, options.anon_gid),
        groups,
        ..Caller::default()
    })
}
