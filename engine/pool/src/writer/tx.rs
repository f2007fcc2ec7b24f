//! What changes of the pool's own objects work with, while their txg is being synced.

use super::Shared;
use crate::{Error, Refusal, Result, SpaceCheck};
use block::Store;
use object::zap::Zap;
use object::{ObjectSet, Tx};
use ondisk::feature;
use ondisk::history::keys;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{DIRECTORY_OBJECT, config};
use ondisk::{BlkPtr, Txg};
use parking_lot::Mutex;
use std::sync::Arc;

/// The txg being synced, for those who change the pool's own objects. Only one thread has it.
pub struct SyncTx<'a> {
    pub(super) shared: &'a Shared,
    pub(super) tx: &'a Tx,
    /// Why the txg must not be finished.
    pub(super) broken: Mutex<Option<Error>>,
    /// Bytes that all datasets together use, as the last synced txg left it.
    used_before: u64,
}

/// A block of the pool's own objects in three copies, for estimates. As OpenZFS (`DST_AVG_BLKSHIFT`).
const MOS_BLOCK_BYTES: u64 = 3 * (16 << 10);

impl<'a> SyncTx<'a> {
    pub(super) fn new(shared: &'a Shared, tx: &'a Tx) -> Self {
        // While a pool is being made it has no root directory.
        let used_before = shared.used_bytes().unwrap_or(0);
        Self { shared, tx, broken: Mutex::new(None), used_before }
    }
}

impl SyncTx<'_> {
    /// To change objects with.
    pub fn tx(&self) -> &Tx {
        self.tx
    }

    /// Runs the part of a task that changes things, once everything was checked. When it fails half-way, the txg is given up
    /// and the pool suspended: what the last txg left stays whole, and no half of a change reaches the disk.
    pub fn all_or_nothing<R>(&self, change: impl FnOnce() -> Result<R>) -> Result<R> {
        change().inspect_err(|e| {
            self.broken.lock().get_or_insert_with(|| e.clone());
        })
    }

    /// The error, if a change failed half-way.
    pub(super) fn check_whole(&self) -> Result<()> {
        self.broken.lock().take().map_or(Ok(()), Err)
    }

    /// Number of the txg.
    pub fn txg(&self) -> u64 {
        self.tx.txg()
    }

    /// The pool's own objects, as this txg leaves them so far.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.shared.mos
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// The pool's name.
    pub fn pool_name(&self) -> String {
        self.shared.identity.lock().name.clone()
    }

    /// On-disk version of the pool.
    pub fn version(&self) -> u64 {
        self.shared.identity.lock().version
    }

    /// The object directory.
    pub fn directory(&self) -> Result<Zap> {
        Zap::open(self.mos().object(DIRECTORY_OBJECT)?)
    }

    /// A number in the object directory.
    pub fn directory_entry(&self, name: &str) -> Result<Option<u64>> {
        self.directory()?.lookup_u64(name)
    }

    /// Gives back the space of a block that nothing points at any more.
    pub fn free(&self, bp: &BlkPtr) -> Result<()> {
        self.store().free(self.txg(), bp)
    }

    /// Space that a block counts for: what it takes, with parity taken off.
    pub fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.shared.space_bytes(bp)
    }

    /// Bytes of a top-level device in whole metaslabs; 0: there is no such device.
    pub(crate) fn device_bytes(&self, vdev: u64) -> u64 {
        let root = self.shared.root.lock();
        let top = root.children.iter().find(|top| top.id == vdev);
        top.map_or(0, |top| {
            let shift = top.number(config::METASLAB_SHIFT).min(63);
            top.number(config::ASIZE) >> shift << shift
        })
    }

    /// Whether a feature may be used.
    pub fn feature_enabled(&self, name: &str) -> bool {
        feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some())
    }

    /// Whether a feature is in use.
    pub fn feature_active(&self, name: &str) -> bool {
        feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some_and(|n| n > 0))
    }

    /// One more thing uses the feature of that name; refused if it is not enabled.
    pub fn feature_increment(&self, name: &str) -> Result<()> {
        self.feature_add(name, 1)
    }

    /// One thing less uses it.
    pub fn feature_decrement(&self, name: &str) -> Result<()> {
        self.feature_add(name, -1)
    }

    /// So many things more, or less, use it.
    pub fn feature_add(&self, name: &str, delta: i64) -> Result<()> {
        let feature = feature::by_name(name).ok_or_else(|| Error::invalid(name, "is no feature"))?;
        self.shared.features.add(self.mos(), self.tx, feature, delta)
    }

    /// Enables a feature and those that it needs.
    pub fn feature_enable(&self, name: &str) -> Result<()> {
        let feature = feature::by_name(name).ok_or_else(|| Error::invalid(name, "is no feature"))?;
        self.shared.features.enable(self.mos(), self.tx, feature)
    }

    /// The configuration of devices or pool changed: it is written with this txg, into the MOS and all labels.
    pub fn config_changed(&self) {
        self.shared.config_dirty.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// Adds an internal event to the pool's history: `name` (`create`, `set` …), the dataset it concerns, and what happened.
    pub fn history(&self, name: &str, dataset: Option<(&str, u64)>, text: &str) -> Result<()> {
        let mut list = Nvlist::new();
        list.put(keys::TIME, self.shared.now());
        if let Some((name, id)) = dataset {
            list.put(keys::DATASET_NAME, name);
            list.put(keys::DATASET_ID, id);
        }
        list.put(keys::INTERNAL_NAME, name);
        list.put(keys::INTERNAL_TEXT, text);
        list.put(keys::TXG, self.txg());
        self.history_record(list)
    }

    /// Adds a command to the pool's history.
    pub fn history_command(&self, command: &str) -> Result<()> {
        let mut list = Nvlist::new();
        list.put(keys::TIME, self.shared.now());
        list.put(keys::COMMAND, command);
        list.put(keys::WHO, u64::from(host::user()));
        list.put(keys::HOST, host::name().as_str());
        self.history_record(list)
    }

    fn history_record(&self, mut list: Nvlist) -> Result<()> {
        list.put(keys::HOST, host::name().as_str());
        super::history::append(self, &list)?;
        self.shared.tell_history(&list);
        Ok(())
    }

    /// Space of the pool's own objects since the last call, for the directory `$MOS`: used, compressed, uncompressed.
    pub fn take_mos_space(&self) -> (i64, i64, i64) {
        std::mem::take(&mut *self.shared.mos_space.lock())
    }

    /// Whether pointers to holes tell when the hole was made.
    pub fn hole_birth(&self) -> bool {
        self.feature_active("hole_birth")
    }

    /// What all datasets together may use, as the allocator has it now.
    pub fn pool_bytes(&self) -> u64 {
        self.shared.usable_bytes(SpaceCheck::Normal)
    }

    /// Refuses a change of about `blocks` blocks of the pool's own objects when what was used before this txg leaves too
    /// little of the slop. Facts: `dsl_sync_task_sync`.
    pub fn check_space(&self, place: &str, blocks: u64, check: SpaceCheck) -> Result<()> {
        let asked = blocks.saturating_mul(MOS_BLOCK_BYTES);
        match self.used_before.saturating_add(asked) > self.shared.usable_bytes(check) {
            true => Err(Refusal::NoSpace.at(place)),
            false => Ok(()),
        }
    }

    /// Where metadata goes: to special devices where the pool has some.
    pub fn metadata_class(&self) -> block::Class {
        match self.shared.allocator.totals().class(block::Class::Special).size_bytes {
            0 => block::Class::Normal,
            _ => block::Class::Special,
        }
    }

    /// The txg as on disk.
    pub fn birth(&self) -> Txg {
        Txg(self.txg())
    }
}
