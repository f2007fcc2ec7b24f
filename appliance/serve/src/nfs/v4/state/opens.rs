//! Opens and their share reservations (RFC 7530 sections 9.7 to 9.11, RFC 8881 sections 9.7 to
//! 9.11).

mod requests;

use super::seqid::OwnerKey;
use files::vfs::FileHandle;
use std::any::Any;
use std::sync::Arc;

/// Read, as `share_access` or `share_deny`.
pub(crate) const READ: u32 = 1;
pub(crate) const WRITE: u32 = 2;
pub(crate) const BOTH: u32 = 3;

/// Keeps an open file from being freed; dropped with the last open.
pub(crate) type Held = Arc<dyn Any + Send + Sync>;

pub(super) struct Open {
    pub client: u64,
    pub owner: OwnerKey,
    pub file: FileHandle,
    pub access: u32,
    pub deny: u32,
    /// A bit for each combination of access and deny that OPEN was called with: what OPEN_DOWNGRADE
    /// may return to.
    seen: u16,
    pub seqid: u32,
    /// Lock states of this open.
    pub locks: Vec<u64>,
}

/// Arguments of an open.
pub(crate) struct OpenRequest<'a> {
    pub owner: &'a OwnerKey,
    pub file: FileHandle,
    pub access: u32,
    pub deny: u32,
    /// CLAIM_PREVIOUS: reclaims an open after a restart of the server.
    pub reclaims: bool,
    /// Keeps the file from being freed while it is open.
    pub held: Held,
}

/// The kind of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoWant {
    Read,
    Write,
}

fn combination(access: u32, deny: u32) -> u16 {
    1 << (access & BOTH | (deny & BOTH) << 2)
}

/// The next seqid. Zero is skipped: it stands for the current one.
pub(super) fn next(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}
