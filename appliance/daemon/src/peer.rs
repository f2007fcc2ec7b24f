//! The process at the other end of a Unix socket, as the kernel identifies it.

use std::sync::Arc;

/// The process at the other end of a Unix socket, as it was when it connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups. None if the kernel does not report them.
    pub groups: Arc<[u32]>,
    /// Process id, if known.
    pub pid: Option<i32>,
}

impl Peer {
    /// A caller that cannot be identified, or that is no user of this machine.
    pub fn unknown() -> Self {
        Self { uid: u32::MAX, gid: u32::MAX, groups: Arc::new([]), pid: None }
    }

    /// This process itself.
    pub fn this() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { uid, gid, groups: Arc::new([]), pid: None }
    }

    /// Whether it has all permissions of this process: it has the same user, or is root.
    pub fn is_owner(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Whether it is a user of this machine, to whom something may have been delegated.
    pub fn is_known(&self) -> bool {
        self.uid != u32::MAX
    }
}
