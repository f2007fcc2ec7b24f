//! Current progress of scans. The pool itself records it only from time to time.

use crate::status::{Progress, ScanStatus};
use block::Store;
use block::vdev::Repaired;
use host::sync::Mutex;
use ondisk::removal::Rebuild;
use ondisk::scan::Scan;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Statistics of the active scan and of self-healing.
#[derive(Default)]
pub(crate) struct Figures {
    /// There is an active scan, which the other fields describe.
    is_active: AtomicBool,
    examined: AtomicU64,
    skipped: AtomicU64,
    processed: AtomicU64,
    errors: AtomicU64,
    pass: Pass,
    healed: Healed,
    /// Sequential rebuilds by number of the device: current state, and state when this process
    /// began.
    pub rebuilds: Mutex<BTreeMap<u64, (Rebuild, Rebuild)>>,
    /// A scrub of the error log is active.
    is_error_scrub: AtomicBool,
}

/// The pass of a scan. A pass begins when the pool is opened or the scan starts.
#[derive(Default)]
struct Pass {
    /// Seconds since 1970.
    start: AtomicU64,
    /// Bytes read before this pass.
    issued_before: AtomicU64,
    examined: AtomicU64,
    issued: AtomicU64,
    /// Seconds since 1970; 0: not paused.
    paused_since: AtomicU64,
    /// Seconds of this pass during which it was paused.
    paused_for: AtomicU64,
}

impl Pass {
    fn begin(&self, scan: &Scan, now: u64) {
        self.issued_before.store(scan.examined_bytes.saturating_sub(scan.skipped_bytes), Relaxed);
        for zero in [&self.examined, &self.issued, &self.paused_for] {
            zero.store(0, Relaxed);
        }
        self.start.store(now, Relaxed);
        self.paused_since.store(if scan.flags & Scan::FLAG_PAUSED != 0 { now } else { 0 }, Relaxed);
    }

    fn is_paused(&self) -> bool {
        self.paused_since.load(Relaxed) != 0
    }

    fn resume(&self, now: u64) {
        let since = self.paused_since.swap(0, Relaxed);
        if since != 0 {
            self.paused_for.fetch_add(now.saturating_sub(since), Relaxed);
        }
    }

    fn show(&self, status: &mut ScanStatus) {
        status.pass_start = self.start.load(Relaxed);
        status.pause_time = self.paused_since.load(Relaxed);
        status.spent_paused = self.paused_for.load(Relaxed);
        status.pass_examined_bytes = self.examined.load(Relaxed);
        status.pass_issued_bytes = self.issued.load(Relaxed);
        status.issued_now_bytes = Some(self.issued_before.load(Relaxed) + status.pass_issued_bytes);
    }
}

/// What self-healing has rewritten.
#[derive(Default)]
struct Healed {
    blocks: AtomicU64,
    bytes: AtomicU64,
}

impl Figures {
    /// Starts a pass, of a new or a resumed scan.
    pub fn begin(&self, scan: &Scan, now: u64) {
        self.reset(scan);
        self.pass.begin(scan, now);
        self.processed.store(scan.processed_bytes, Relaxed);
        self.errors.store(scan.errors, Relaxed);
        self.is_active.store(true, Relaxed);
    }

    /// Returns to the progress that the pool has recorded: what was examined since does not count.
    pub fn reset(&self, scan: &Scan) {
        self.examined.store(scan.examined_bytes, Relaxed);
        self.skipped.store(scan.skipped_bytes, Relaxed);
    }

    pub fn end(&self) {
        self.is_active.store(false, Relaxed);
    }

    /// Sets whether a scrub of the error log is active.
    pub fn error_scrub(&self, on: bool) {
        self.is_error_scrub.store(on, Relaxed);
    }

    /// Whether a scan is active and not paused.
    pub fn is_running(&self) -> bool {
        (self.is_active.load(Relaxed) && !self.pass.is_paused()) || self.is_error_scrub.load(Relaxed)
    }

    /// Sets the progress of a sequential rebuild.
    pub fn rebuild(&self, vdev: u64, now: Rebuild) {
        let mut rebuilds = self.rebuilds.lock();
        let known = rebuilds.entry(vdev).or_insert((now, now));
        // A new rebuild, or one that was restarted.
        if now.max_txg != known.1.max_txg {
            known.1 = now;
        }
        known.0 = now;
    }

    pub fn examined(&self, bytes: u64, is_skipped: bool) {
        self.examined.fetch_add(bytes, Relaxed);
        self.pass.examined.fetch_add(bytes, Relaxed);
        if is_skipped {
            self.skipped.fetch_add(bytes, Relaxed);
        }
    }

    pub fn issued(&self, bytes: u64) {
        self.pass.issued.fetch_add(bytes, Relaxed);
    }

    pub fn repaired(&self, repaired: &Repaired) {
        self.processed.fetch_add(repaired.written_bytes(), Relaxed);
    }

    pub fn error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    pub fn healed(&self, repaired: &Repaired) {
        if repaired.written_bytes() > 0 {
            self.healed.blocks.fetch_add(1, Relaxed);
            self.healed.bytes.fetch_add(repaired.written_bytes(), Relaxed);
        }
    }

    /// Blocks and bytes that self-healing has rewritten.
    pub fn healed_so_far(&self) -> (u64, u64) {
        (self.healed.blocks.load(Relaxed), self.healed.bytes.load(Relaxed))
    }

    pub fn paused(&self, now: u64) {
        self.pass.paused_since.store(now, Relaxed);
    }

    pub fn resumed(&self, now: u64) {
        self.pass.resume(now);
    }

    /// Copies the current counts to the state that the pool records.
    pub fn store_into(&self, scan: &mut Scan) {
        scan.examined_bytes = self.examined.load(Relaxed);
        scan.skipped_bytes = self.skipped.load(Relaxed);
        self.store_results(scan);
    }

    /// Copies only the results, which remain valid even if the position is not stored.
    pub fn store_results(&self, scan: &mut Scan) {
        scan.processed_bytes = self.processed.load(Relaxed);
        scan.errors = self.errors.load(Relaxed);
    }

    /// Updates `status` with progress newer than that in the pool.
    pub fn show(&self, status: &mut ScanStatus) {
        if !self.is_active.load(Relaxed) || status.state != Progress::Active {
            return;
        }
        status.examined_bytes = self.examined.load(Relaxed);
        status.skipped_bytes = self.skipped.load(Relaxed);
        status.processed_bytes = self.processed.load(Relaxed);
        status.errors = self.errors.load(Relaxed);
        self.pass.show(status);
    }
}

/// Counts rewritten bytes for each device.
pub(super) fn note_repaired(store: &Store, repaired: &Repaired, self_heal: bool, during_scan: bool) {
    let tree = store.tree();
    for (guid, bytes) in repaired.written.iter().chain(&repaired.written_for) {
        if let Some(log) = tree.find(*guid).and_then(|v| v.log()) {
            log.note_repaired(*bytes, self_heal, during_scan);
        }
    }
}
