//! Self-healing: a copy that a read found to be bad, while another one was correct, is rewritten in
//! the background.
//!
//! ```text
//!   read ── a copy was wrong ──> queue (bounded, each block once) ──> a thread: freed space is kept from here on
//!          ─> does the current tree of the pool still contain that block? ─> all copies are checked, wrong ones rewritten
//! ```
//!
//! Invariants:
//!   * a block is rewritten only while the last synced tree contains it and freed space is kept:
//!     nothing else can be in its place
//!   * readers never wait for self-healing
//!
//! Data that devices missed while they were unavailable is left to the resilver.

use crate::Pool;
use crate::writer::Shared;
use block::vdev::Mend;
use block::{Bookmark, Watch};
use ondisk::BlkPtr;
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Limit for waiting blocks. Blocks beyond it are reported again by the next read.
const WAITING_MAX: usize = 1024;
/// Blocks that are repaired with one view of the pool. Guessed: blocks freed meanwhile are kept for
/// that time.
const AT_ONCE: usize = 64;

/// Receives bad blocks and repairs them.
pub(crate) struct Healer {
    shared: Weak<Shared>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(BlkPtr, Bookmark)>,
    /// First DVAs and birth txgs of the waiting blocks.
    known: HashSet<(u32, u64, u64)>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
    stop: bool,
}

fn key(bp: &BlkPtr) -> (u32, u64, u64) {
    let dva = bp.dva(0);
    (dva.vdev, dva.offset_bytes, bp.physical_birth().0)
}

impl Healer {
    pub fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared: Arc::downgrade(shared), queue: Mutex::default() })
    }

    fn offer(self: &Arc<Self>, bp: &BlkPtr, at: &Bookmark) {
        let mut queue = self.queue.lock();
        if queue.stop || queue.waiting.len() >= WAITING_MAX || !queue.known.insert(key(bp)) {
            return;
        }
        queue.waiting.push_back((*bp, *at));
        if !queue.is_running {
            let healer = self.clone();
            let thread = std::thread::Builder::new().name("heal".into()).spawn(move || {
                let _doing = block::doing(block::Task::Scrub);
                healer.run();
            });
            queue.is_running = thread.is_ok();
            // A previous thread has ended.
            queue.thread = thread.ok();
        }
    }

    /// Stops. Waiting blocks are found again by the next read.
    pub fn stop(&self) {
        let thread = {
            let mut queue = self.queue.lock();
            queue.stop = true;
            queue.waiting.clear();
            queue.thread.take()
        };
        // This may be the healing thread itself, if it held the last reference to the pool.
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Whether no block is waiting or being repaired.
    pub fn is_idle(&self) -> bool {
        !self.queue.lock().is_running
    }

    fn run(&self) {
        loop {
            let some: Vec<_> = {
                let mut queue = self.queue.lock();
                let count = queue.waiting.len().min(AT_ONCE);
                if count == 0 || queue.stop {
                    queue.is_running = false;
                    queue.known.clear();
                    return;
                }
                queue.waiting.drain(..count).collect()
            };
            if let Some(shared) = self.shared.upgrade() {
                self.mend(&shared, &some);
            }
            let mut queue = self.queue.lock();
            some.iter().for_each(|(bp, _)| {
                queue.known.remove(&key(bp));
            });
        }
    }

    fn mend(&self, shared: &Shared, blocks: &[(BlkPtr, Bookmark)]) {
        let kept = shared.allocator.keep_freed();
        let Ok(pool) = shared.pool() else { return };
        for (bp, at) in blocks {
            if self.queue.lock().stop {
                return;
            }
            if !is_there(&pool, bp, at) {
                continue;
            }
            let mended = kept.while_kept(|| shared.store.repair(bp, Mend::Wrong { is_known: true }));
            let Some(mended) = mended else { return };
            super::note_mended(&shared.store, &mended, true, false);
            shared.scan.figures.healed(&mended);
            if mended.written_bytes() > 0 {
                tracing::info!(pool = %shared.store.name(), block = %at, bytes = mended.written_bytes(), "healed");
            }
        }
    }
}

/// Whether the tree of `pool` contains this very block.
fn is_there(pool: &Pool, bp: &BlkPtr, at: &Bookmark) -> bool {
    matches!(pool.find_block(at), Ok(Some(found)) if key(&found) == key(bp) && found.checksum() == bp.checksum())
}

/// The healer as the store sees it.
pub(crate) struct Told(pub Arc<Healer>);

impl Watch for Told {
    fn met_bad(&self, bp: &BlkPtr, at: &Bookmark) {
        // Blocks of the intent log are replayed or freed soon.
        if at.level >= -1 && !bp.is_embedded() && !bp.is_hole() {
            self.0.offer(bp, at);
        }
    }

    fn lost(&self, bp: &BlkPtr, at: &Bookmark) {
        if at.level < -1 {
            return;
        }
        if let Some(shared) = self.0.shared.upgrade() {
            let during_scan = shared.scan.is_running();
            shared.scan.errors.add(at, bp.logical_birth().0, during_scan);
        }
    }
}
