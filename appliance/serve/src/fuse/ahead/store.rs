//! The thread that stores the neighbours of answered reads in the page cache.

use super::Work;
use crate::fuse::ops::Ops;
use crate::fuse::reply::Notifier;
use files::vfs::NodeId;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Largest aligned window that is stored for a larger record, since copying has a cost too.
/// Guessed.
const WINDOW_BYTES_MAX: u64 = 256 << 10;

/// A window must be larger than this many reads to be worth a message.
const WINDOW_READS_MIN: u64 = 4;

/// Recently stored windows, remembered so that reads already in flight do not store them again.
const GIVEN: usize = 256;

/// After this time, a read inside a stored window means that the kernel has evicted it.
const GIVEN_FOR: Duration = Duration::from_millis(200);

impl Work {
    /// Runs until the server is dropped.
    pub(in crate::fuse) fn run(self, ops: &Weak<Ops>, kernel: &Notifier) {
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
                    tracing::debug!(%error, "the kernel rejected pages");
                    gone = error.raw_os_error() == Some(libc::ENODEV);
                }
            };
            if ops.mode.read_only {
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
