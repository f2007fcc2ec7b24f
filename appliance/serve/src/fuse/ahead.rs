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

mod store;

use files::vfs::NodeId;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Reads up to this size count as random. The kernel's read-ahead soon makes sequential reads
/// larger.
const SMALL_BYTES: u32 = 16 << 10;
/// Queued reads. Guessed: few, since late read-ahead does not help.
const QUEUE: usize = 16;

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
