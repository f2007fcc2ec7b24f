//! Options of a mount.

use super::figures::Figures;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of a mount.
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// Source shown by `mount` and `df`: POOL/DATASET.
    pub name: String,
    /// Allow access by other users; `None`: only if we are root.
    pub allow_other: Option<bool>,
    /// Check owners, modes and ACLs of files; `None`: if other users are allowed. A user who mounts
    /// a pool only for themselves can read its disks anyway, and would be locked out of files that
    /// belong to users of another machine.
    pub enforce_permissions: Option<bool>,
    /// Device nodes work as devices. Off by default, since the disks may come from another machine.
    /// The nodes are visible in any case.
    pub devices: bool,
    /// Honour setuid and setgid bits. Off by default for the same reason.
    pub setuid: bool,
    /// Refuse to execute programs (`MS_NOEXEC`).
    pub no_exec: bool,
    /// Reading through this mount changes no access times. May change while it is mounted.
    pub no_atime: Arc<AtomicBool>,
    /// Number of serving threads; `None`: one per core, with a minimum of a few.
    pub threads: Option<usize>,
    /// Mount read-only even if the tree is writable.
    pub read_only: bool,
    /// Let the kernel cache writes for a while and combine small ones. Errors, including a full
    /// pool, are then reported when the file is synced or closed.
    pub write_back: bool,
    /// Others, such as an NFS server, change the tree too. The kernel revalidates after one second
    /// and at each open, as an NFS client does, and does not cache writes.
    pub shared: bool,
    /// Use io_uring for requests if the kernel supports it; otherwise, and by default, /dev/fuse is
    /// used. io_uring is faster, but with Linux up to at least 6.18 a server that is killed as the
    /// last process of a mount namespace never exits, and every sync(2) on the machine hangs with
    /// it (docs/upstream/fuse-io-uring-kill.md).
    pub uring: bool,
    /// Statistics that count the kernel's requests.
    pub figures: Arc<Figures>,
}
