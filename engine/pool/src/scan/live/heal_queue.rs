//! Bad blocks that wait for self-healing.

use block::Bookmark;
use host::sync::Mutex;
use host::threads::JoinHandle;
use ondisk::BlkPtr;
use std::collections::{HashSet, VecDeque};

/// Limit for waiting blocks. Blocks beyond it are reported again by the next read.
const WAITING_MAX: usize = 1024;
/// Blocks that are repaired with one view of the pool. Guessed: blocks freed meanwhile are kept for
/// that time.
const AT_ONCE: usize = 64;

/// The queue, and the thread that empties it.
#[derive(Default)]
pub(super) struct HealQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(BlkPtr, Bookmark)>,
    /// First DVAs and birth txgs of the waiting blocks.
    known: HashSet<(u32, u64, u64)>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
    stop: bool,
}

/// First DVA and birth txg of a block.
pub(super) fn key(bp: &BlkPtr) -> (u32, u64, u64) {
    let dva = bp.dva(0);
    (dva.vdev, dva.offset_bytes, bp.physical_birth().0)
}

impl HealQueue {
    /// Adds a block unless it waits already. `run` is called in a thread if none is running, and
    /// must take blocks until there are none.
    pub fn offer(&self, bp: &BlkPtr, at: &Bookmark, run: impl FnOnce() + Send + 'static) {
        let mut queue = self.0.lock();
        if queue.stop || queue.waiting.len() >= WAITING_MAX || !queue.known.insert(key(bp)) {
            return;
        }
        queue.waiting.push_back((*bp, *at));
        if !queue.is_running {
            let thread = host::threads::spawn("heal", run);
            queue.is_running = thread.is_ok();
            // A previous thread has ended.
            queue.thread = thread.ok();
        }
    }

    /// Takes the next blocks. `None`: there are none, and the thread must end.
    pub fn take(&self) -> Option<Vec<(BlkPtr, Bookmark)>> {
        let mut queue = self.0.lock();
        let count = queue.waiting.len().min(AT_ONCE);
        if count == 0 || queue.stop {
            queue.is_running = false;
            queue.known.clear();
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }

    /// These blocks were repaired or given up.
    pub fn done(&self, some: &[(BlkPtr, Bookmark)]) {
        let mut queue = self.0.lock();
        some.iter().for_each(|(bp, _)| {
            queue.known.remove(&key(bp));
        });
    }

    /// Stops, and waits for the thread. Waiting blocks are found again by the next read.
    pub fn stop(&self) {
        let thread = {
            let mut queue = self.0.lock();
            queue.stop = true;
            queue.waiting.clear();
            queue.thread.take()
        };
        // This may be the healing thread itself, if it held the last reference to the pool.
        if let Some(thread) = thread.filter(|t| !t.is_current()) {
            let _ = thread.join();
        }
    }

    /// Whether the queue was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.lock().stop
    }

    /// Whether no block is waiting or being repaired.
    pub fn is_idle(&self) -> bool {
        !self.0.lock().is_running
    }
}
