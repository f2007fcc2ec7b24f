//! On whose behalf something is changed.

/// The identity of the client that requests a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups, if the server knows them.
    pub groups: Vec<u32>,
    /// Has root's privileges: may keep setuid and setgid bits, and use reserved attribute names.
    pub privileged: bool,
    /// This machine's kernel identified the user and all its groups, so that permissions delegated
    /// with `zfs allow` count. Of a user that an NFS client names, they do not.
    pub is_local: bool,
}
