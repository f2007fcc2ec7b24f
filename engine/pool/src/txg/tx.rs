//! Context for changes of the MOS while their txg is being synced.

use crate::SpaceCheck;
use crate::scan::live::upgrade_error_logs;
use crate::writer::spa::{Shared, SyncTx};
use block::WriteStore;
use errors::{Error, Refusal, Result};
use host::sync::Mutex;
use object::zap::Zap;
use object::{ObjectSet, Tx};
use ondisk::feature;
use ondisk::pool_dir::{DIRECTORY_OBJECT, config};
use ondisk::{BlkPtr, Txg};
use std::sync::Arc;

/// A block of the MOS in three copies, for estimates. As OpenZFS (`DST_AVG_BLKSHIFT`).
const MOS_BLOCK_BYTES: u64 = 3 * (16 << 10);

impl<'a> SyncTx<'a> {
    pub(crate) fn new(shared: &'a Shared, tx: &'a Tx) -> Self {
        // A pool that is being created has no root directory yet.
        let used_before = shared.used_bytes().unwrap_or(0);
        Self { shared, tx, broken: Mutex::new(None), used_before }
    }
}

impl SyncTx<'_> {
    /// Transaction for changing objects.
    pub fn tx(&self) -> &Tx {
        self.tx
    }

    /// Runs the part of a task that makes changes, after all checks. If it fails halfway, the txg
    /// is aborted and the pool suspended: the last txg stays intact, and no half of a change
    /// reaches the disk.
    pub fn all_or_nothing<R>(&self, change: impl FnOnce() -> Result<R>) -> Result<R> {
        change().inspect_err(|e| {
            self.broken.lock().get_or_insert_with(|| e.clone());
        })
    }

    /// Returns the error of a change that failed halfway.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.broken.lock().take().map_or(Ok(()), Err)
    }

    /// Number of the txg.
    pub fn txg(&self) -> u64 {
        self.tx.txg()
    }

    /// The live MOS, with the changes of this txg so far.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.shared.mos
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<WriteStore> {
        &self.shared.store
    }

    pub fn pool_name(&self) -> String {
        self.shared.config.identity.lock().name.clone()
    }

    /// On-disk version of the pool.
    pub fn version(&self) -> u64 {
        self.shared.config.identity.lock().version
    }

    /// The object directory of the MOS. Each call opens it.
    pub fn directory(&self) -> Result<Zap> {
        Zap::open(self.mos().object(DIRECTORY_OBJECT)?)
    }

    /// A number in the object directory.
    pub fn directory_entry(&self, name: &str) -> Result<Option<u64>> {
        self.directory()?.lookup_u64(name)
    }

    /// Frees a block to which no pointer refers any more.
    pub fn free(&self, bp: &BlkPtr) -> Result<()> {
        self.store().free(self.txg(), bp)
    }

    /// Space of a block without parity, in bytes.
    pub fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.shared.space_bytes(bp)
    }

    /// Size of a top-level device in bytes, in whole metaslabs; 0 if there is no such device.
    pub(crate) fn device_bytes(&self, vdev: u64) -> u64 {
        let root = self.shared.config.root.lock();
        let top = root.children.iter().find(|top| top.id == vdev);
        top.map_or(0, |top| {
            let shift = top.number(config::METASLAB_SHIFT).min(63);
            top.number(config::ASIZE) >> shift << shift
        })
    }

    /// Whether a feature is enabled.
    pub fn feature_enabled(&self, name: &str) -> bool {
        feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some())
    }

    /// Whether a feature is active.
    pub fn feature_active(&self, name: &str) -> bool {
        feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some_and(|n| n > 0))
    }

    /// Increments the reference count of a feature. Fails if it is not enabled.
    pub fn feature_increment(&self, name: &str) -> Result<()> {
        self.feature_add(name, 1)
    }

    /// Decrements the reference count of a feature.
    pub fn feature_decrement(&self, name: &str) -> Result<()> {
        self.feature_add(name, -1)
    }

    /// Adds to the reference count of a feature.
    pub fn feature_add(&self, name: &str, delta: i64) -> Result<()> {
        let feature = feature::by_name(name).ok_or_else(|| Error::invalid(name, "is no feature"))?;
        self.shared.features.add(self.mos(), self.tx, feature, delta)
    }

    /// Enables a feature and its dependencies.
    pub fn feature_enable(&self, name: &str) -> Result<()> {
        let feature = feature::by_name(name).ok_or_else(|| Error::invalid(name, "is no feature"))?;
        let had_head_errlog = self.feature_enabled("head_errlog");
        self.shared.features.enable(self.mos(), self.tx, feature)?;
        match !had_head_errlog && self.feature_enabled("head_errlog") {
            true => upgrade_error_logs(self),
            false => Ok(()),
        }
    }

    /// Marks the configuration of the devices or the pool as changed: this txg writes it to the MOS
    /// and to all labels.
    pub fn config_changed(&self) {
        self.shared.config.mark_dirty();
    }

    /// Change of the MOS's space since the last call, for the DSL directory `$MOS`: used,
    /// compressed, uncompressed bytes.
    pub fn take_mos_space(&self) -> (i64, i64, i64) {
        self.shared.accounting.take_mos()
    }

    /// Whether pointers to holes record the birth of the hole.
    pub fn hole_birth(&self) -> bool {
        self.feature_active("hole_birth")
    }

    /// Bytes that all datasets together may use, from the current state of the allocator.
    pub fn pool_bytes(&self) -> u64 {
        self.shared.usable_bytes(SpaceCheck::Normal)
    }

    /// Refuses a change of about `blocks` blocks of the MOS if the space used before this txg
    /// leaves too little of the slop. Facts: `dsl_sync_task_sync`.
    pub fn check_space(&self, place: &str, blocks: u64, check: SpaceCheck) -> Result<()> {
        let requested = blocks.saturating_mul(MOS_BLOCK_BYTES);
        match self.used_before.saturating_add(requested) > self.shared.usable_bytes(check) {
            true => Err(Refusal::NoSpace.at(place)),
            false => Ok(()),
        }
    }

    /// Allocation class for metadata: special, if the pool has special devices.
    pub fn metadata_class(&self) -> block::Class {
        match self.shared.allocator.totals().class(block::Class::Special).size_bytes {
            0 => block::Class::Normal,
            _ => block::Class::Special,
        }
    }

    /// Number of the txg, as a birth txg.
    pub fn birth(&self) -> Txg {
        Txg(self.txg())
    }
}
