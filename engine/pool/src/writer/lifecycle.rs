//! Starts the syncing thread of a pool open for writing, and ends it when the pool is closed,
//! exported or destroyed.
//!
//! Invariants:
//!   * a pool that was closed, exported or destroyed without an error has every change on disk for
//!     which a transaction could begin, and no transaction is left

use super::config::{DESTROYED, EXPORTED};
use super::spa::{Shared, Writer};
use crate::mmp::MultihostPool;
use crate::txg::sync;
use errors::{Error, Result};
use host::sync::Mutex;
use observe::{Collector, Info, Source, Unit, Value};
use std::sync::Arc;

impl Writer {
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Arc<Self>> {
        let weak = Arc::downgrade(&shared);
        let ask = move |e: &Error, begun| weak.upgrade().is_some_and(|shared| shared.suspended(e, begun));
        shared.store.set_on_write_failure(Some(Arc::new(ask)));
        shared.report_identity();
        shared.report_failmode();
        shared.report_states();
        let thread = host::threads::spawn("txg-sync", {
            let shared = shared.clone();
            move || {
                let _doing = block::doing(block::Task::Background);
                sync::run(&shared);
            }
        });
        let thread = thread.map_err(|e| Error::io(shared.store.name(), e))?;
        let guid = shared.config.identity.lock().guid;
        shared.store.reader().start_second(guid, true)?;
        let pool: Arc<dyn MultihostPool> = shared.clone();
        shared.background.heartbeats.start(&pool)?;
        shared.background_work().iter().for_each(|work| work.start(&shared));
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Syncs and stops. The labels keep saying that this host uses the pool.
    pub fn close(&self) -> Result<()> {
        self.shared.stop_background();
        let result = self.sync().and_then(|()| self.last_sync());
        self.stop();
        self.check_end(&result);
        result
    }

    /// Syncs, marks the pool as exported, and stops. A pool that cannot write is closed too, in the
    /// state of the last synced txg, and the error gives the reason.
    pub fn export(&self) -> Result<()> {
        self.leave(EXPORTED)
    }

    /// Syncs, marks the pool as destroyed, and stops.
    pub fn destroy(&self) -> Result<()> {
        self.leave(DESTROYED)
    }

    fn leave(&self, state: u64) -> Result<()> {
        self.shared.stop_background();
        let result = self.sync().and_then(|()| {
            self.shared.config.identity.lock().state = state;
            if state == EXPORTED {
                self.shared.allocator.flush_all_next();
            }
            self.change_config()?;
            self.last_sync()
        });
        self.stop();
        self.check_end(&result);
        result
    }

    /// Lets no further transaction begin, and syncs those that began since the last txg.
    fn last_sync(&self) -> Result<()> {
        let gate = &self.shared.txgs.gate;
        gate.shut();
        // Without transactions in the open txg, the one before may still be on its way.
        if gate.entered() > 0 { self.sync() } else { self.wait(gate.open() - 1) }
    }

    /// Asserts that nothing is left behind by a pool whose last txg is on disk.
    fn check_end(&self, result: &Result<()>) {
        if result.is_err() {
            return;
        }
        let (gate, store) = (&self.shared.txgs.gate, &self.shared.store);
        let entered = gate.entered();
        assert!(entered == 0, "{}: closed with {entered} transactions that were not synced", store.name());
        let synced = self.shared.txgs.progress.synced();
        let unflushed = store.unflushed(synced);
        assert!(unflushed == 0, "{}: closed with {unflushed} blocks of txg {synced} unflushed", store.name());
        let held = self.shared.allocator.held_units();
        assert!(held == 0, "{}: closed while {held} units of free space are held", store.name());
    }

    fn stop(&self) {
        self.shared.txgs.gate.shut();
        let thread = self.thread.lock().take();
        if thread.as_ref().is_some_and(|thread| thread.is_current()) {
            // In the middle of a txg, for which what runs in the background may wait.
            self.shared.txgs.progress.stop_and_release();
            return;
        }
        self.shared.stop_background();
        self.shared.txgs.progress.stop();
        if let Some(thread) = thread {
            // An error means that it panicked; threads that waited for it know that already.
            let _ = thread.join();
        }
        self.shared.release();
    }
}

static SUSPENDED: Info = Info {
    name: "pool_suspended",
    unit: Unit::Number,
    help: "1 while the pool is suspended because it cannot write; unwritten data waits in memory.",
};
static SYNCED: Info = Info { name: "txg_synced", unit: Unit::Number, help: "Number of the last synced txg." };

static DIRTY_CAP: Info = Info {
    name: "txg_dirty_cap",
    unit: Unit::Bytes,
    help: "Limit of dirty data in memory; writers wait while it is reached.",
};

/// Statistics of the pool: its txgs, cache and devices.
impl Source for Writer {
    fn collect(&self, out: &mut Collector<'_>) {
        out.put(&SUSPENDED, &[], Value::Level(u64::from(self.failure().is_some())));
        out.put(&SYNCED, &[], Value::Level(self.synced_txg()));
        out.put(&DIRTY_CAP, &[], Value::Level(self.dirty_max_bytes()));
        self.shared.txgs.stats.collect(out);
        self.shared.store.collect(out);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}
