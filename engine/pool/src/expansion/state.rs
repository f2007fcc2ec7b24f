//! The state of the expansion in memory.

use crate::Pool;
use block::vdev::raidz::Moving;
use block::vdev::{Kind, Vdev};
use errors::Result;
use host::sync::{Condvar, Mutex};
use host::threads::JoinHandle;
use object::zap::Zap;
use ondisk::pool_dir::{config, vdev_top};
use std::sync::{Arc, Weak};

/// Bytes to move in a txg: the first budget, and the limit.
pub(super) const BUDGET_BYTES: std::ops::Range<u64> = 16 << 20..1 << 30;

/// The expansion of a pool: there is at most one.
#[derive(Default)]
pub(crate) struct Expansion {
    pub(super) state: Mutex<Option<Running>>,
    pub(super) changed: Condvar,
    pub(super) thread: Mutex<(Option<JoinHandle<()>>, bool)>,
}

/// A running expansion.
pub(super) struct Running {
    /// Number of the top-level device.
    pub vdev: u64,
    pub moving: Arc<Moving>,
    /// Bytes moved so far.
    pub copied_bytes: u64,
    /// Progress in the uberblock on disk.
    pub synced_bytes: u64,
    /// The device before the expansion: readers that still use it do not know about moved sectors.
    pub before: Option<Weak<Vdev>>,
    /// A child is unavailable, or its DTL is not empty.
    pub waits: bool,
    /// Bytes to move in a txg.
    pub budget_bytes: u64,
}

impl Expansion {
    /// Loads the state of a pool that is being opened.
    pub fn load(pool: &Pool) -> Result<Self> {
        let tree = pool.store().tree();
        for top in &pool.root_vdev().children {
            let moving = match tree.tops.get(top.id as usize).map(|v| &v.kind) {
                Some(Kind::Raidz(g)) => g.moving().cloned(),
                _ => None,
            };
            let Some(moving) = moving.filter(|_| top.all.contains(config::RAIDZ_EXPANDING)) else { continue };
            let zap = Zap::open(pool.mos().object(top.number(config::VDEV_TOP_ZAP))?)?;
            let copied_bytes = zap.lookup_u64(vdev_top::RAIDZ_EXPAND_BYTES_COPIED)?.unwrap_or(0);
            let running = Running::new(top.id, moving, copied_bytes, None);
            return Ok(Self { state: Mutex::new(Some(running)), ..Self::default() });
        }
        Ok(Self::default())
    }

    /// Progress that the pool's device trees share.
    pub fn moving(&self) -> Option<Arc<Moving>> {
        self.state.lock().as_ref().map(|running| running.moving.clone())
    }

    /// Whether a raidz is being expanded.
    pub fn is_active(&self) -> bool {
        self.state.lock().is_some()
    }
}

impl Running {
    pub fn new(vdev: u64, moving: Arc<Moving>, copied_bytes: u64, before: Option<Weak<Vdev>>) -> Self {
        let synced_bytes = moving.now().offset_bytes;
        let budget_bytes = BUDGET_BYTES.start;
        Self { vdev, moving, copied_bytes, synced_bytes, before, waits: false, budget_bytes }
    }
}
