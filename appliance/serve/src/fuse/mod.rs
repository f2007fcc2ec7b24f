//! FUSE: mounts a [`files::vfs::Vfs`] as a file system.
//!
//! Below: `files::vfs`, by node number. Above: the commands `mount` and `serve`. Outside: the
//! kernel, through /dev/fuse.
//!
//! ```text
//! process ── system call ── kernel (page, entry and attribute cache)
//!         ── /dev/fuse ── threads ── server ── dyn Vfs
//! ```
//!
//! Nothing in a read-only tree changes while it is mounted. So the kernel caches everything for a
//! year, sends no OPEN and RELEASE, and requests only what it has not read yet. The caches stay
//! valid for a writable tree too, since all changes come through the kernel, which updates them; it
//! sends OPEN and RELEASE so that we know what is in use ([`kernel_refs`]). The space used on disk
//! changes later, without a request ([`settle`]).
//!
//! Each write reaches the `Vfs` when the process makes it (unless [`MountOptions::write_back`] is
//! set): the process gets the error of a full pool, other servers see the data, and all timestamps
//! come from one clock.
//!
//! Invariants:
//!   * no write reaches a `Vfs` that is read-only: the mount is read-only, and the `Vfs` refuses on
//!     its own
//!   * the inode number of a node is its node number: unique within the mount, even if it shows
//!     several datasets
//!   * an answer is sent from the thread that took the request, without a queue, unless it waits
//!     for a disk or the kernel
//!
//! ```text
//!   attach, mount                      the mount itself
//!   session; ring, slot                the session through /dev/fuse; through io_uring
//!   wire, reply                        bytes <-> requests, answers
//!   server; ops, ioctl                 a request's answer; what it does
//!   held, settle, slow, ahead, names   state kept between requests
//!   figures                            counts and latencies of requests
//! ```
//!
//! The protocol is implemented here because the available library (fuser) does not support birth
//! times, the kernel's decision on who keeps setuid, or clearing setgid when an ACL is set.
//!
//! If requested and supported by Linux, requests arrive over io_uring ([`ring`]): a thread then
//! needs one system call per request instead of two, and works on the core of the caller. Measured
//! on 2 cores with a tree in memory (`MEDIA=memory PARTS=... bench/run fs` shows both): create,
//! stat and unlink 10-15 % more per second, 8 KiB reads that bypass the kernel's cache twice as
//! many.
//!
//! Locks that other machines see are not supported. `sync` and `syncfs` do not reach a FUSE server
//! (Linux sends `FUSE_SYNCFS` only to other kinds of servers, such as virtiofs): their data is on
//! disk with the next transaction group. `fsync` waits for its data.
//!
//! Inode numbers: FUSE requires node number 1 for the root, ZFS uses another (usually 34).
//! [`inode::InodeMap`] swaps the two. The kernel shows the inode number that we return, so `stat`
//! still shows the object number.

mod ahead;
mod attach;
mod attr;
mod error_log;
mod figures;
mod inode;
mod ioctl;
mod kernel_refs;
mod mode;
mod mount;
mod names;
mod ops;
mod options;
mod reply;
mod requests;
mod ring;
mod server;
mod session;
mod settle;
mod slot;
mod slow;
mod sync_slots;
mod sys;
mod threads;
mod tree;
mod wire;

pub use figures::Figures;
pub use mount::{Changed, MountHandle, Unmounter, is_mount_point, mount, unmount_below, unmount_dead};
pub use options::MountOptions;
pub use sys::{Signals, leave_terminal};
pub use tree::{MountedTree, TreeUnmounter, mount_tree};

#[cfg(test)]
mod tests;
