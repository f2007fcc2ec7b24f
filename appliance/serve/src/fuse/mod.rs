//! FUSE: a [`files::vfs::Vfs`] as a mounted file system.
//!
//! Below: `files::vfs`, by node number. Above: the commands `mount` and `serve`. Outside: the kernel, through /dev/fuse.
//!
//! ```text
//!   process ── system call ── kernel (page, entry and attribute cache) ── /dev/fuse ── threads ── server ── dyn Vfs
//! ```
//!
//! Everything that a read-only tree shows stays true for as long as it is mounted. So the kernel is told to keep what it
//! has seen for a year, not to ask at open and close, and to come back only for what it has not read yet. Of a tree that can
//! be written this holds too, since what changes it comes by way of the kernel, which sees to what it keeps; it asks at open and
//! close, so that we know what is in use ([`held`]). Sizes on disk change by themselves, after a while ([`settle`]).
//!
//! Every write is given to the `Vfs` when the process makes it (unless [`MountOptions::write_back`] says otherwise): the
//! process hears of a full pool, other servers see the data, and there is one clock for times.
//!
//! Invariants:
//!   * nothing that writes reaches a `Vfs` that says it is read-only: the mount is, and the `Vfs` refuses on its own
//!   * the inode number of a node is its node number: unique within the mount, also where it shows several datasets
//!   * an answer is sent from the thread that took the request, without a queue, unless it waits for a disk or the kernel
//!
//! ```text
//!   attach, mount    the mount itself           session    the conversation through /dev/fuse; ring, slot: through io_uring
//!   wire, reply      bytes <-> requests, answers           server     a request's answer; ops, ioctl: what it means
//!   held, settle, slow, ahead, names                       what is remembered between requests
//!   figures                                                what was asked for, and how long it took
//! ```
//!
//! The protocol is spoken here and not by a library: the one that there is (fuser) has no way to birth times, to the kernel's
//! word on who keeps setuid, or to whose list of access takes setgid away.
//!
//! Where it is asked for, and Linux offers it, requests come by way of io_uring ([`ring`]): a thread then needs one system call for
//! each, not two, and works on the core that asks. Measured on 2 cores with a tree in memory (`MEDIA=memory PARTS=... bench/run fs` shows both):
//! create, stat and unlink 10-15 % more a second, 8 KiB reads past the kernel's cache twice as many.
//!
//! Not offered: locks that other machines see. `sync` and `syncfs` do not
//! reach a FUSE server (Linux keeps `FUSE_SYNCFS` to others): what they hand over is on disk with the next write round; `fsync`
//! waits for it.
//!
//! Inode numbers: FUSE gives its root the node number 1, ZFS gives another one (34, mostly); [`inode::InodeMap`] swaps the
//! two. The kernel shows what we say the inode number is, so `stat` sees the object number all the same.

mod ahead;
mod attach;
mod attr;
mod figures;
mod held;
mod inode;
mod ioctl;
mod mount;
mod names;
mod ops;
mod reply;
mod ring;
mod server;
mod session;
mod settle;
mod slot;
mod slow;
mod sys;
mod tree;
mod wire;

pub use figures::Figures;
pub use mount::{Changed, MountHandle, MountOptions, Unmounter, is_mount_point, mount, unmount_below, unmount_dead};
pub use sys::{Signals, leave_terminal};
pub use tree::{MountedTree, TreeUnmounter, mount_tree};

#[cfg(test)]
mod tests;
