//! Gives the kernel the rest of a record of which it asked for a small part.
//!
//! To answer 8 KiB at a random place, the whole record (128 KiB, mostly) was read, verified and decompressed. The kernel
//! keeps the 8 KiB, and each neighbour costs another round trip through /dev/fuse, which takes many times longer than
//! copying them. So the others are put into its page cache, unasked (FUSE_NOTIFY_STORE).
//!
//! Measured on a busy machine of 2 cores: 50,000 random reads of 8 KiB in a file of 400 MiB went from 8,000 to 38,000 a
//! second. It costs about 150 us of a core for 128 KiB, so files that do not fit into memory well are left alone: there, what
//! is given is thrown out before it is read.
//!
//! Never to a file that somebody may write to, whose newer pages only the kernel has ([`super::held`] sees to it).
//!
//! On one thread, beside those that answer: storing waits for pages that the kernel has locked until a read is answered,
//! so whoever answers reads must not wait for it. When it cannot keep up, requests are dropped: nobody waits for them.

use super::ops::Ops;
use super::reply::Notifier;
use files::vfs::NodeId;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Reads up to this size look like random ones: a sequential reader's grow beyond it at once, by the kernel's read-ahead.
const SMALL_BYTES: u32 = 16 << 10;
/// As much is given at most, aligned, of a larger record: copying has a price, too. Guessed.
const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// A window that is not larger than this many reads is not worth a message of its own.
const WINDOW_READS_MIN: u64 = 4;
/// Reads that wait. Guessed: few, since late help is no help.
const QUEUE: usize = 16;
/// Windows remembered as given, to not give them again for reads that were under way by then.
const GIVEN: usize = 256;
/// After that, a read of such a window means that the kernel has dropped it.
const GIVEN_FOR: Duration = Duration::from_millis(200);

/// A small read that was answered.
struct Read {
    node: NodeId,
    offset: u64,
    bytes: u32,
}

/// Where answered reads are told.
pub(super) struct Ahead(SyncSender<Read>);

/// What the thread works on.
pub(super) struct Work(Receiver<Read>);

/// Both ends.
pub(super) fn channel() -> (Ahead, Work) {
    let (sender, receiver) = sync_channel(QUEUE);
    (Ahead(sender), Work(receiver))
}

impl Ahead {
    /// A read was answered. Not the first of a file: whoever reads on from there, reads in sequence.
    pub fn answered(&self, node: NodeId, offset: u64, bytes: u32, flags: u32) {
        if bytes <= SMALL_BYTES && offset > 0 && flags & libc::O_DIRECT as u32 == 0 {
            // Full: it is busy with others.
            let _ = self.0.try_send(Read { node, offset, bytes });
        }
    }
}

impl Work {
    /// Works until the server is gone.
    pub fn run(self, ops: &Weak<Ops>, kernel: &Notifier) {
        let largest = memory_bytes() / 4;
        let mut given: Vec<Option<(NodeId, u64, Instant)>> = vec![None; GIVEN];
        for read in self.0 {
            let Some(ops) = ops.upgrade() else { return };
            let mut gone = false;
            let mut give = || {
                let Ok(attr) = ops.vfs.attr(read.node) else { return };
                let window = u64::from(attr.block_bytes).min(WINDOW_BYTES_MAX);
                if attr.size > largest || window < u64::from(read.bytes).saturating_mul(WINDOW_READS_MIN) {
                    return;
                }
                let start = read.offset / window * window;
                // Never beyond the end: the kernel would take it for a longer file.
                let end = start.saturating_add(window).min(attr.size);
                let Some(bytes) = end.checked_sub(start).filter(|&n| n > 0) else { return };
                let hash = ((start / window) ^ read.node.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
                let Some(slot) = given.get_mut(hash as usize % GIVEN) else { return };
                if slot.is_some_and(|(node, at, when)| node == read.node && at == start && when.elapsed() < GIVEN_FOR) {
                    return;
                }
                *slot = Some((read.node, start, Instant::now()));
                // What is wrong with the record, the reader is told when it gets there.
                if let Ok(data) = ops.vfs.read(read.node, start, bytes as usize)
                    && let Err(error) = kernel.store(ops.inodes.to_fuse(read.node), start, &data)
                {
                    tracing::debug!(%error, "the kernel does not take pages");
                    gone = error.raw_os_error() == Some(libc::ENODEV);
                }
            };
            if ops.read_only {
                give();
            } else {
                ops.held.store(read.node, give);
            }
            if gone {
                return;
            }
        }
    }
}

/// Memory of this machine; if that cannot be told, of a small one.
fn memory_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    total.unwrap_or(1 << 20) << 10
}
