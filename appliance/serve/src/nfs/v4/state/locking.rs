//! Byte-range locks (RFC 7530 sections 9.1 to 9.5 and 16.10 to 16.12, RFC 8881 sections 18.10 to
//! 18.12, 18.38, 18.48).

mod requests;

use super::seqid::OwnerKey;
use super::stateid::StateId;
use crate::nfs::locks::HeldLock;
use files::vfs::FileHandle;
use std::sync::Arc;

pub(super) struct LockState {
    pub client: u64,
    pub owner: OwnerKey,
    /// The open that the lock stateid belongs to.
    pub open: u64,
    pub file: FileHandle,
    pub seqid: u32,
}

/// The owner of a LOCK request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockWho {
    /// An owner that has no lock stateid for the file yet, with its open stateid.
    New { open: StateId, owner: Arc<[u8]> },
    /// An owner that has a lock stateid.
    Known(StateId),
}

/// Result of LOCK and LOCKT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockAnswer {
    Locked(StateId),
    Free,
    /// Refused because of this lock.
    Denied(HeldLock),
}
