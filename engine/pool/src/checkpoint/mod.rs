//! The pool's checkpoint: `zpool checkpoint`, `zpool checkpoint -d`, `zpool import
//! --rewind-to-checkpoint`.
//!
//! ```text
//!   created:    the uberblock of the last synced txg is stored in the object directory, before
//!               this txg frees anything
//!   exists:     blocks that it leads to stay allocated when they are freed:
//!               `space::alloc::checkpoint`
//!   discarded:  the uberblock is removed from the directory, then its space is freed, a part in
//!               each txg; then the feature is no longer active
//!   rewound:    that uberblock, with the number of the next txg, is written to the labels, and the
//!               pool is opened from it
//! ```
//! The next importer of the pool continues to discard, OpenZFS too. Facts:
//! module/zfs/spa_checkpoint.c, spa_ld_checkpoint_rewind (spa.c).
//!
//! Invariants:
//!   * a checkpoint's uberblock is that of the txg before the one in which it is created
//!   * the feature is active while there is a checkpoint, or space that a discarded one held

mod state;

pub(crate) use state::{CHECKPOINT_GUID, Discarding};

use crate::Pool;
use crate::import::open::NO_CHECKPOINT;
use crate::space::alloc::LiveMaps;
use crate::writer::background::Background;
use crate::writer::exclusion::DISCARDING;
use crate::writer::maps::with_maps;
use crate::writer::spa::{SyncTx, Writer};
use crate::writer::writable::check;
use block::label::sync_uberblock;
use errors::{Error, Result};
use ondisk::pool_dir::directory;
use ondisk::uberblock::Uberblock;
use ondisk::zap::Value as ZapValue;

const FEATURE: &str = "zpool_checkpoint";

impl Writer {
    /// Creates a checkpoint of all earlier changes (`zpool checkpoint`).
    pub fn checkpoint(&self) -> Result<()> {
        self.sync()?;
        self.shared.task_among(&self.shared.txgs.early_jobs, make)
    }

    /// Discards the checkpoint (`zpool checkpoint -d`). Its space is freed in the background, while
    /// [`Writer::is_discarding`] returns true.
    pub fn discard_checkpoint(&self) -> Result<()> {
        self.shared.task_among(&self.shared.txgs.early_jobs, discard)
    }

    /// Whether space of a discarded checkpoint is still to be freed.
    pub fn is_discarding(&self) -> bool {
        self.shared.background.discarding.is_active()
    }

    /// Waits until the space of a discarded checkpoint is freed, `is_given_up` returns true, or the
    /// pool cannot be written.
    pub fn finish_discarding(&self, is_given_up: &dyn Fn() -> bool) -> Result<()> {
        while self.is_discarding() && !is_given_up() {
            self.sync()?;
        }
        Ok(())
    }
}

impl SyncTx<'_> {
    /// Whether the pool is full up to its slop and has a checkpoint, so that freeing makes no space
    /// available (`spa_suspend_async_destroy`).
    pub fn is_full_with_checkpoint(&self) -> bool {
        self.shared.allocator.is_full_with_checkpoint()
    }
}

fn make(cx: &SyncTx<'_>) -> Result<()> {
    let shared = cx.shared;
    let refused = |why: &str| Error::invalid(shared.store.name(), why);
    if shared.background.expansion.is_active() {
        return Err(refused("raidz expansion in progress"));
    }
    if !cx.feature_enabled(FEATURE) {
        return Err(refused("operation not supported on this type of pool"));
    }
    if !cx.feature_active("spacemap_v2") && shared.allocator.exceeds_one_word_entries() {
        return Err(refused("device exceeds supported size"));
    }
    shared.refuse_while_removing()?;
    shared.refuse_with_checkpoint()?;
    if shared.allocator.lacks_place_for_checkpoint() {
        return Err(Error::unsupported(shared.store.name(), "a checkpoint of devices without objects of their own"));
    }
    let last: Uberblock = shared.config.uberblock.lock().clone();
    if last.txg.0 + 1 != cx.txg() {
        return Err(refused("the last synced txg is not the one before"));
    }
    let checkpoint = Uberblock { checkpoint_txg: last.txg, ..last };
    cx.all_or_nothing(|| {
        shared.allocator.set_checkpoint(checkpoint.txg.0);
        let value = ZapValue { int_bytes: 8, ints: checkpoint.to_words() };
        cx.directory()?.insert(cx.tx(), directory::ZPOOL_CHECKPOINT, &value)?;
        cx.feature_increment(FEATURE)?;
        cx.history("spa checkpoint", None, &format!("checkpointed uberblock txg={}", checkpoint.txg))
    })
}

fn discard(cx: &SyncTx<'_>) -> Result<()> {
    let shared = cx.shared;
    let refused = |why: &str| Err(Error::invalid(shared.store.name(), why));
    if shared.background.discarding.is_active() {
        return refused(DISCARDING);
    }
    if cx.directory()?.lookup(directory::ZPOOL_CHECKPOINT)?.is_none() {
        return refused(NO_CHECKPOINT);
    }
    cx.all_or_nothing(|| {
        shared.allocator.forget_checkpoint();
        cx.directory()?.remove(cx.tx(), directory::ZPOOL_CHECKPOINT)?;
        shared.background.discarding.set_active(true);
        cx.history("spa discard checkpoint", None, "started discarding checkpointed state from the pool")
    })
}

impl Background for Discarding {
    fn is_dirty(&self) -> bool {
        self.is_active()
    }

    fn wants_txgs(&self) -> bool {
        self.is_active()
    }

    /// One step of discarding, in each txg until nothing is left.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        if !self.is_active() {
            return Ok(());
        }
        let read = |id| cx.mos().object(id);
        let more = with_maps(cx, |maps: &LiveMaps<'_>| cx.shared.allocator.discard(cx.txg(), maps, &read))?;
        if !more {
            cx.feature_decrement(FEATURE)?;
            cx.history("spa discard checkpoint", None, "finished discarding checkpointed state from the pool")?;
            self.set_active(false);
            // Devices that only the checkpoint needed may be detached.
            crate::writer::detach::after_resilver(cx)?;
        }
        Ok(())
    }
}

/// Makes the checkpoint, in whose state the pool was opened, its newest state. This cannot be
/// undone.
///
/// It comes before everything else: blocks written since the checkpoint are free now, and the first
/// txg may overwrite them.
pub(crate) fn wind_back(pool: &Pool) -> Result<()> {
    check(pool)?;
    let tree = pool.store().tree();
    let tops: Vec<u32> = tree.tops.iter().map(|top| top.id as u32).collect();
    sync_uberblock(&tree, &tops, pool.uberblock(), pool.is_on("multihost")?)?;
    Ok(())
}
