//! Read-ahead for small random reads: pushes the rest of the record into the kernel's page cache.
//!
//! To answer 8 KiB at a random offset, the whole record (usually 128 KiB) is read, verified and
//! decompressed. The kernel keeps only the 8 KiB, and each neighbouring block would cost another
//! round trip through /dev/fuse, which takes many times longer than copying it. So the neighbours
//! are stored in the page cache without a request (`FUSE_NOTIFY_STORE`).
//!
//! Measured on a busy machine with 2 cores: 50,000 random reads of 8 KiB in a file of 400 MiB rose
//! from 8,000 to 38,000 reads per second. The cost is about 150 us of one core for 128 KiB, so
//! files that do not fit comfortably into memory are excluded: their pages would be evicted before
//! they are read.
//!
//! Pages are never stored for a file that is open for writing, because only the kernel has its
//! newer pages ([`super::kernel_refs`] enforces this).
//!
//! This work runs on its own thread. Storing waits for pages that the kernel keeps locked until a
//! read is answered, so a thread that answers reads must not wait for it. When this thread falls
//! behind, requests are dropped: no reader depends on them.

use super::ops::Ops;
use super::reply::Notifier;
use files::vfs::NodeId;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Reads up to this size count as random. The kernel's read-ahead soon makes sequential reads
/// larger.
const SMALL_BYTES: u32 = 16 << 10;
/// Largest aligned window that is stored for a larger record, since copying has a cost too.
/// Guessed.
const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// A window must be larger than this many reads to be worth a message.
const WINDOW_READS_MIN: u64 = 4;
/// Queued reads. Guessed: few, since late read-ahead does not help.
const QUEUE: usize = 16;
/// Recently stored windows, remembered so that reads already in flight do not store them again.
const GIVEN: usize = 256;
/// After this time, a read inside a stored window means that the kernel has evicted it.
const GIVEN_FOR: Duration = Duration::from_millis(200);

/// A small read that was answered.
struct Read {
    node: NodeId,
    offset: u64,
    bytes: u32,
}

/// Sends answered reads to the read-ahead thread.
pub(super) struct Ahead(SyncSender<Read>);

/// The receiving end, used by the read-ahead thread.
pub(super) struct Work(Receiver<Read>);

/// Creates both ends of the queue.
pub(super) fn channel() -> (Ahead, Work) {
    let (sender, receiver) = sync_channel(QUEUE);
    (Ahead(sender), Work(receiver))
}

impl Ahead {
    /// Reports an answered read. Reads at offset 0 are ignored, because a reader that starts there
    /// is usually sequential.
    pub fn answered(&self, node: NodeId, offset: u64, bytes: u32, flags: u32) {
        if bytes <= SMALL_BYTES && offset > 0 && flags & libc::O_DIRECT as u32 == 0 {
            // If the queue is full, the thread is busy and this read is dropped.
            let _ = self.0.try_send(Read { node, offset, bytes });
        }
    }
}

impl Work {
    /// Runs until the server is dropped.
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
                // Never past the end of the file: the kernel would extend the file.
                let end = start.saturating_add(window).min(attr.size);
                let Some(bytes) = end.checked_sub(start).filter(|&n| n > 0) else { return };
                let hash = ((start / window) ^ read.node.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
                let Some(slot) = given.get_mut(hash as usize % GIVEN) else { return };
                if slot.is_some_and(|(node, at, when)| node == read.node && at == start && when.elapsed() < GIVEN_FOR) {
                    return;
                }
                *slot = Some((read.node, start, Instant::now()));
                // Errors are ignored here. The reader gets the error when it reaches that part of
                // the record.
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

/// Total memory of this machine in bytes; 1 GiB if it cannot be determined.
fn memory_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    total.unwrap_or(1 << 20) << 10
}
