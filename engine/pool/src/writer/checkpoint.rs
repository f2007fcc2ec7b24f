//! The pool's checkpoint: `zpool checkpoint`, `zpool checkpoint -d`, `zpool import --rewind-to-checkpoint`.
//!
//! ```text
//!   made:       the uberblock of the last synced txg goes into the object directory, before anything of this txg is freed
//!   there:      what it leads to stays allocated, though freed: `space::alloc::checkpoint`
//!   discarded:  the uberblock goes from the directory, then what was kept, a part in each txg; then the feature is at rest again
//!   wound back: that uberblock, with the next txg's number, goes into the labels, and the pool is opened by it
//! ```
//! Discarding goes on with whoever has the pool next, OpenZFS too. Facts: module/zfs/spa_checkpoint.c, spa_ld_checkpoint_rewind
//! (spa.c).
//!
//! Invariants:
//!   * a checkpoint's uberblock is that of the txg before the one in which it is made
//!   * the feature is active while there is a checkpoint or anything that one kept

use super::open::check;
use super::tx::SyncTx;
use super::{Shared, Writer};
use crate::import::open::NO_CHECKPOINT;
use crate::space::alloc::LiveMaps;
use crate::{Error, Pool, Result};
use block::label::sync_uberblock;
use object::zap::ZapValue;
use ondisk::pool_dir::directory;
use ondisk::uberblock::Uberblock;
use std::sync::atomic::Ordering;

const FEATURE: &str = "zpool_checkpoint";
const GUID: &str = "com.delphix:zpool_checkpoint";
/// What OpenZFS says: `EZFS_CHECKPOINT_EXISTS`, `EZFS_DISCARDING_CHECKPOINT`.
const EXISTS: &str = "checkpoint exists";
const DISCARDING: &str = "currently discarding checkpoint";

impl Writer {
    /// Makes a checkpoint of all that was changed before (`zpool checkpoint`).
    pub fn checkpoint(&self) -> Result<()> {
        self.sync()?;
        self.shared.task_among(&self.shared.early_jobs, make)
    }

    /// Lets the checkpoint go (`zpool checkpoint -d`). What it kept is freed behind this, as [`Writer::is_discarding`] tells.
    pub fn discard_checkpoint(&self) -> Result<()> {
        self.shared.task_among(&self.shared.early_jobs, discard)
    }

    /// Whether something that a checkpoint kept is still to be freed.
    pub fn is_discarding(&self) -> bool {
        self.shared.discarding.load(Ordering::SeqCst)
    }

    /// Returns once nothing is left of a checkpoint that was discarded, or `is_given_up` says so, or the pool cannot be written.
    pub fn finish_discarding(&self, is_given_up: &dyn Fn() -> bool) -> Result<()> {
        while self.is_discarding() && !is_given_up() {
            self.sync()?;
        }
        Ok(())
    }
}

/// Whether a pool was left while it discarded its checkpoint.
pub(super) fn is_discarding(pool: &Pool) -> Result<bool> {
    Ok(pool.features().is_active(GUID) && pool.checkpoint()?.is_none())
}

impl SyncTx<'_> {
    /// Whether the pool is full to its reserve while it has a checkpoint, so that freeing makes no room (`spa_suspend_async_destroy`).
    pub fn is_full_with_checkpoint(&self) -> bool {
        self.shared.allocator.is_full_with_checkpoint()
    }
}

impl Shared {
    /// Refuses what would make a checkpoint worthless: devices that leave, another identity.
    pub(super) fn refuse_with_checkpoint(&self) -> Result<()> {
        let why = match self.features.count(GUID).is_some_and(|n| n > 0) {
            false => return Ok(()),
            true if self.discarding.load(Ordering::SeqCst) => DISCARDING,
            true => EXISTS,
        };
        Err(Error::invalid(self.identity.lock().name.clone(), why))
    }
}

fn make(cx: &SyncTx<'_>) -> Result<()> {
    let shared = cx.shared;
    let refused = |why: &str| Error::invalid(shared.store.name(), why);
    if shared.expansion.is_active() {
        return Err(refused("raidz expansion in progress"));
    }
    if !cx.feature_enabled(FEATURE) {
        return Err(refused("operation not supported on this type of pool"));
    }
    shared.refuse_while_removing()?;
    shared.refuse_with_checkpoint()?;
    if shared.allocator.lacks_place_for_checkpoint() {
        return Err(Error::unsupported(shared.store.name(), "a checkpoint of devices without objects of their own"));
    }
    let last: Uberblock = shared.uberblock.lock().clone();
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
    if shared.discarding.load(Ordering::SeqCst) {
        return refused(DISCARDING);
    }
    if cx.directory()?.lookup(directory::ZPOOL_CHECKPOINT)?.is_none() {
        return refused(NO_CHECKPOINT);
    }
    cx.all_or_nothing(|| {
        shared.allocator.forget_checkpoint();
        cx.directory()?.remove(cx.tx(), directory::ZPOOL_CHECKPOINT)?;
        shared.discarding.store(true, Ordering::SeqCst);
        cx.history("spa discard checkpoint", None, "started discarding checkpointed state from the pool")
    })
}

/// A step of discarding, in each txg until nothing is left.
pub(super) fn sync(cx: &SyncTx<'_>) -> Result<()> {
    let shared = cx.shared;
    if !shared.discarding.load(Ordering::SeqCst) {
        return Ok(());
    }
    let read = |id| cx.mos().object(id);
    let more = super::maps::with_maps(cx, |maps: &LiveMaps<'_>| shared.allocator.discard(cx.txg(), maps, &read))?;
    if !more {
        cx.feature_decrement(FEATURE)?;
        cx.history("spa discard checkpoint", None, "finished discarding checkpointed state from the pool")?;
        shared.discarding.store(false, Ordering::SeqCst);
        // Devices that only the checkpoint needed may leave.
        super::replaced::after_resilver(cx)?;
    }
    Ok(())
}

/// Makes the state in which a pool was opened, that of its checkpoint, its newest. From here on there is no way back.
///
/// Before anything else: what was written since the checkpoint is free now, and the first txg may write over it.
pub(super) fn wind_back(pool: &Pool) -> Result<()> {
    check(pool)?;
    let tree = pool.store().tree();
    let tops: Vec<u32> = tree.tops.iter().map(|top| top.id as u32).collect();
    sync_uberblock(&tree, &tops, pool.uberblock(), false)?;
    Ok(())
}
