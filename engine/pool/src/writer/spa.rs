//! What all parts of a pool open for writing share: its state in memory, the syncing txg, and the
//! interface of those that take part in txgs.
//!
//! Below: the state of each feature (scans, trim, expansion, removal, clones, dedup), which knows
//! nothing of txgs. Above: `txg`, then the features themselves, then `sync`, which calls them.
//! ZFS name: spa_t (spa_impl.h).

use super::accounting::Accounting;
use super::background_state::BackgroundState;
use super::config::this_host;
use super::farewell::Farewell;
use super::features::LiveFeatures;
use super::live_config::LiveConfig;
use super::view_cache::Views;
use crate::Pool;
use crate::space::Allocator;
use crate::txg::gate::Gate;
use crate::txg::progress::Progress;
use crate::txg::stats::Stats;
use block::WriteStore;
use block::l2::Secondary;
use errors::{Error, Result};
use host::sync::Mutex;
use object::{ObjectSet, Tx};
use ondisk::BlkPtr;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// An object whose changes are part of txgs: a dataset open for writing.
pub trait Participant: Send + Sync {
    /// Called before the open txg is closed, if it has any changes. The participant may still
    /// change something in it. The calling thread closes the txg, so this must not wait for a txg.
    fn before_close(&self) {}
    /// Whether the participant has changes in `txg`.
    fn is_dirty(&self, txg: u64) -> bool;
    /// `txg` is closed: no thread changes anything in it any more. Hands the changes over. It must
    /// return quickly, because all writers wait.
    fn quiesce(&self, txg: u64);
    /// `txg` is closed: calls `visit` for each data block that the txg references once more than
    /// before. Called for all participants before the first one frees anything.
    fn cloned(&self, txg: u64, visit: &mut dyn FnMut(&BlkPtr) -> Result<()>) -> Result<()> {
        let _ = (txg, visit);
        Ok(())
    }
    /// Writes the changes of the txg. Called even if there are none.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()>;
    /// The uberblock of `txg` is on disk.
    fn synced(&self, txg: u64) {
        let _ = txg;
    }
}

/// Claims the blocks of all intent logs in the first txg of an opened pool, whose number is given,
/// before anything else allocates from the store. The returned participant takes part in that txg
/// and records the claim. `None`: there was nothing to claim.
///
/// The logs belong to datasets, which this crate does not know.
pub type ClaimLogs = fn(&Arc<Pool>, &WriteStore, u64) -> Result<Option<Arc<dyn Participant>>>;

#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Claims the intent logs. Without it, intent logs are overwritten: only for pools that have
    /// none.
    pub claim_logs: Option<ClaimLogs>,
    /// Limit for dirty data in memory. `None`: 64 MiB less than the cache, between 16 MiB and 256
    /// MiB, so that a small cache means little memory.
    pub dirty_max_bytes: Option<u64>,
    /// Time between txgs if none is requested.
    pub interval: Duration,
    /// ID and name of the host that opens the pool; `None`: of this one.
    pub host: Option<(u64, String)>,
}

impl Default for WriteOptions {
    /// A txg every 5 s.
    fn default() -> Self {
        Self { claim_logs: None, dirty_max_bytes: None, interval: Duration::from_secs(5), host: None }
    }
}

impl WriteOptions {
    /// ID, 0 if it has none, and name of the host that opens the pool.
    pub(crate) fn this_host(&self) -> (u64, String) {
        self.host.clone().unwrap_or_else(this_host)
    }

    /// The limit for dirty data, for a pool with this cache size.
    pub(crate) fn dirty_bytes(&self, cache_bytes: u64) -> u64 {
        self.dirty_max_bytes.unwrap_or(cache_bytes.saturating_sub(64 << 20).clamp(DIRTY_BYTES.start, DIRTY_BYTES.end))
    }
}

/// Range of the default limit for dirty data: one block of the largest size must fit, and more than
/// the upper limit gains nothing. Guessed.
const DIRTY_BYTES: std::ops::Range<u64> = 16 << 20..256 << 20;

/// The syncing txg, for changes of the MOS. Only one thread has it.
pub struct SyncTx<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) tx: &'a Tx,
    /// Why the txg must be aborted.
    pub(crate) broken: Mutex<Option<Error>>,
    /// Bytes that all datasets together used as of the last synced txg.
    pub(crate) used_before: u64,
}

pub(crate) type Job = Box<dyn FnOnce(&SyncTx<'_>) + Send>;

/// Tasks for a coming txg. They run in the order of their addition.
pub(crate) type Jobs = Mutex<Vec<Job>>;

/// The txg engine: the open txg, what takes part in it, and how far the earlier ones are. ZFS name:
/// tx_state_t.
pub(crate) struct Txgs {
    pub(crate) gate: Arc<Gate>,
    pub(crate) progress: Progress,
    pub(crate) participants: Mutex<Vec<Arc<dyn Participant>>>,
    pub(crate) jobs: Jobs,
    /// Jobs that run before anything is changed or freed in their txg.
    pub(crate) early_jobs: Jobs,
    pub(crate) stats: Stats,
    /// The last txg whose uberblock is written, once the pool is frozen.
    pub(crate) frozen: OnceLock<u64>,
}

impl Txgs {
    /// The engine of a pool with `synced` as its last txg.
    pub(crate) fn new(synced: u64, gate: Arc<Gate>, participants: Vec<Arc<dyn Participant>>) -> Self {
        Self {
            gate,
            progress: Progress::new(synced),
            participants: Mutex::new(participants),
            jobs: Mutex::default(),
            early_jobs: Mutex::default(),
            stats: Stats::default(),
            frozen: OnceLock::new(),
        }
    }
}

/// The state of a pool open for writing. Each part guards itself.
pub(crate) struct Shared {
    pub(crate) store: Arc<WriteStore>,
    pub(crate) mos: Arc<ObjectSet>,
    pub(crate) allocator: Arc<Allocator>,
    pub(crate) features: LiveFeatures,
    pub(crate) txgs: Txgs,
    pub(crate) config: LiveConfig,
    pub(crate) background: BackgroundState,
    pub(crate) accounting: Accounting,
    /// Devices that leave the pool with the syncing txg.
    pub(crate) farewells: Mutex<Vec<Farewell>>,
    /// States of the pool for readers.
    pub(crate) views: Views,
    /// Options with which it was opened.
    pub(crate) options: WriteOptions,
    /// The state of each leaf that was last reported (`vdev_state_t`), by guid.
    pub(crate) states: Mutex<HashMap<u64, u64>>,
}

/// A pool open for writing.
pub struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: Mutex<Option<host::threads::JoinHandle<()>>>,
}

impl Writer {
    /// The pool's blocks.
    pub fn store(&self) -> &Arc<WriteStore> {
        &self.shared.store
    }

    pub fn allocator(&self) -> &Arc<Allocator> {
        &self.shared.allocator
    }

    /// The live MOS: for the syncing thread, and for reading changes that are about to be synced.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.shared.mos
    }

    /// On-disk version of the pool, as of the txg that is being synced.
    pub fn version(&self) -> u64 {
        self.shared.config.identity.lock().version
    }

    /// Whether a feature is enabled.
    pub fn feature_enabled(&self, name: &str) -> bool {
        ondisk::feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some())
    }

    /// Whether a feature is active.
    pub fn feature_active(&self, name: &str) -> bool {
        ondisk::feature::by_name(name).is_some_and(|f| self.shared.features.count(f.guid).is_some_and(|n| n > 0))
    }

    /// Sets which blocks of `dataset` the cache devices store: `setting` is the number of the
    /// property `secondarycache`.
    pub fn set_secondary_cache(&self, dataset: u64, setting: u64) {
        self.store().second().set_policy(dataset, Secondary::from_number(setting));
    }

    /// A random number from the operating system.
    pub fn random(&self) -> u64 {
        host::random::u64()
    }
}
