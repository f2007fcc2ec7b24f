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

use super::figures::note_repaired;
use super::heal_queue::{HealQueue, key};
use crate::Pool;
use crate::writer::Shared;
use block::vdev::RepairPurpose;
use block::{Bookmark, Watch};
use ondisk::BlkPtr;
use std::sync::{Arc, Weak};

/// Receives bad blocks and repairs them.
#[derive(Clone)]
pub(super) struct Healer {
    shared: Weak<Shared>,
    queue: Arc<HealQueue>,
}

impl Healer {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared), queue: shared.background.scan.heals.clone() }
    }

    fn run(&self) {
        let _doing = block::doing(block::Task::Scrub);
        while let Some(some) = self.queue.take() {
            if let Some(shared) = self.shared.upgrade() {
                self.repair(&shared, &some);
            }
            self.queue.done(&some);
        }
    }

    fn repair(&self, shared: &Shared, blocks: &[(BlkPtr, Bookmark)]) {
        let kept = shared.allocator.keep_freed();
        let Ok(pool) = shared.pool() else { return };
        for (bp, at) in blocks {
            if self.queue.is_stopped() {
                return;
            }
            if !is_there(&pool, bp, at) {
                continue;
            }
            let repaired = kept.while_kept(|| shared.store.repair(bp, at, RepairPurpose::Wrong { is_known: true }));
            let Some(repaired) = repaired else { return };
            note_repaired(&shared.store, &repaired, true, false);
            shared.background.scan.figures.healed(&repaired);
            if repaired.written_bytes() > 0 {
                tracing::info!(pool = %shared.store.name(), block = %at, bytes = repaired.written_bytes(), "healed");
            }
        }
    }
}

/// Whether the tree of `pool` contains this very block.
fn is_there(pool: &Pool, bp: &BlkPtr, at: &Bookmark) -> bool {
    matches!(pool.find_block(at), Ok(Some(found)) if key(&found) == key(bp) && found.checksum() == bp.checksum())
}

/// The healer as the store sees it.
impl Watch for Healer {
    fn met_bad(&self, bp: &BlkPtr, at: &Bookmark) {
        // Blocks of the intent log are replayed or freed soon.
        if at.level >= -1 && !bp.is_embedded() && !bp.is_hole() {
            let healer = self.clone();
            self.queue.offer(bp, at, move || healer.run());
        }
    }

    fn lost(&self, bp: &BlkPtr, at: &Bookmark) {
        if at.level < -1 {
            return;
        }
        if let Some(shared) = self.shared.upgrade() {
            let during_scan = shared.background.scan.is_running();
            shared.background.scan.errors.add(at, bp.physical_birth().0, during_scan);
        }
    }
}
