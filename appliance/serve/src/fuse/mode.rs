//! How a tree is mounted: what may change, and what the kernel may cache therefore.

use super::options::MountOptions;
use files::namespace::is_synthetic;
use files::vfs::{NodeId, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Cache lifetime if all changes come through the kernel, which updates its own caches: one year.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// Cache lifetime of what others change too: attributes in `.zfs/snapshot`, and shared trees.
const SHORTLY: Duration = Duration::from_secs(1);
/// No caching: for what could not be read, has names that the kernel does not know, or is a name in
/// `.zfs/snapshot`.
const NOT_AT_ALL: Duration = Duration::ZERO;

/// Fixed while the tree is mounted, access times excepted.
pub(super) struct MountMode {
    /// The kernel checks permissions, including ACLs.
    pub enforce: bool,
    pub read_only: bool,
    /// Nothing changes: not a file, and not which snapshots there are.
    pub frozen: bool,
    /// Write-back: the kernel caches writes for a while. Never if `read_only` or `shared`.
    pub write_back: bool,
    /// Others change the tree too.
    pub shared: bool,
    /// Reading changes no access times. The only one that may change while the tree is mounted.
    no_atime: Arc<AtomicBool>,
    /// Names are equal only if all their bytes are, as the kernel assumes.
    exact: bool,
}

impl MountMode {
    pub fn new(vfs: &dyn Vfs, how: &MountOptions, enforce: bool) -> Self {
        let read_only = vfs.is_read_only();
        Self {
            enforce,
            read_only,
            frozen: vfs.never_changes(),
            write_back: how.write_back && !read_only && !how.shared,
            shared: how.shared,
            no_atime: how.no_atime.clone(),
            exact: vfs.names_are_exact(),
        }
    }

    /// Whether reading may change access times.
    pub fn keeps_access_times(&self) -> bool {
        !self.read_only && !self.no_atime.load(Ordering::Relaxed)
    }

    /// How long the kernel may cache that a name in `dir` is `node`, or that it does not exist.
    pub fn entry_ttl(&self, dir: NodeId, node: Option<NodeId>) -> Duration {
        if !self.exact || !self.frozen && (is_synthetic(dir) || node.is_some_and(is_synthetic)) {
            // Snapshots must appear and disappear immediately.
            NOT_AT_ALL
        } else if self.shared {
            SHORTLY
        } else {
            FOREVER
        }
    }

    /// How long the kernel may cache the attributes of `node`.
    pub fn attr_ttl(&self, node: NodeId) -> Duration {
        if self.shared || !self.frozen && is_synthetic(node) { SHORTLY } else { FOREVER }
    }
}
