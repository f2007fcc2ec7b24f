//! The process at the other end of a Unix socket, as the kernel identifies it.

/// The process at the other end of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    pub gid: u32,
    /// Process id, if known.
    pub pid: Option<i32>,
}

impl Peer {
    /// Whether it has all permissions of this process: it has the same user, or is root.
    pub fn is_owner(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}
