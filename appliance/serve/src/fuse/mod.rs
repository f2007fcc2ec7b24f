//! FUSE: a [`files::vfs::Vfs`] as a mounted file system.
//!
//! Below: `files::vfs`, by node number. Above: the commands `mount` and `serve`. Outside: the kernel, through /dev/fuse.
//!
//! ```text
//!   process ── system call ── kernel (page, entry and attribute cache) ── /dev/fuse ── threads ── server ── dyn Vfs
//! ```
//!
//! Everything that a read-only tree shows stays true for as long as it is mounted. So the kernel is told to keep what it
//! has seen for a year, not to ask at open and close, and to come back only for what it has not read yet.
//!
//! Invariants:
//!   * nothing that writes reaches the `Vfs`: the mount is read-only, and each writing call is answered with EROFS
//!   * the inode number of a node is its node number: unique within the mount, also where it shows several datasets
//!   * an answer is sent from the thread that took the request, without a queue
//!
//! Inode numbers: FUSE gives its root the node number 1, ZFS gives another one (34, mostly); [`inode::InodeMap`] swaps the
//! two. The kernel shows what we say the inode number is, so `stat` sees the object number all the same.

mod ahead;
mod attr;
mod inode;
mod mount;
mod names;
mod server;
mod sys;
mod tree;

pub use mount::{MountHandle, MountOptions, Unmounter, is_mount_point, mount, unmount_below};
pub use sys::{Signals, leave_terminal};
pub use tree::{MountedTree, TreeUnmounter, mount_tree};

#[cfg(test)]
mod tests;
