//! How far a scan is, as of this moment: what the pool keeps of it is only told from time to time.

use crate::status::{Progress, ScanStatus};
use block::vdev::Mended;
use ondisk::removal::Rebuild;
use ondisk::scan::Scan;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Numbers of the scan under way, and of healing.
#[derive(Default)]
pub(crate) struct Figures {
    /// There is a scan, and the rest is about it.
    is_active: AtomicBool,
    examined: AtomicU64,
    skipped: AtomicU64,
    processed: AtomicU64,
    errors: AtomicU64,
    /// Bytes read before this pass: since the pool was opened, or the scan began.
    issued_before: AtomicU64,
    pass_start: AtomicU64,
    pass_examined: AtomicU64,
    pass_issued: AtomicU64,
    /// Seconds since 1970; 0: not paused.
    paused_since: AtomicU64,
    /// Seconds of the pass in which it was paused.
    paused_for: AtomicU64,
    healed_blocks: AtomicU64,
    healed_bytes: AtomicU64,
    /// Sequential rebuilds, by number of the device: now, and as they were when this process began.
    pub rebuilds: Mutex<BTreeMap<u64, (Rebuild, Rebuild)>>,
    /// A scrub of the error log is under way.
    is_error_scrub: AtomicBool,
}

impl Figures {
    /// A pass begins: of a scan that began now, or that goes on.
    pub fn begin(&self, scan: &Scan, now: u64) {
        self.reset(scan);
        self.issued_before.store(scan.examined_bytes.saturating_sub(scan.skipped_bytes), Relaxed);
        for zero in [&self.pass_examined, &self.pass_issued, &self.paused_for] {
            zero.store(0, Relaxed);
        }
        self.processed.store(scan.processed_bytes, Relaxed);
        self.errors.store(scan.errors, Relaxed);
        self.pass_start.store(now, Relaxed);
        self.paused_since.store(if scan.flags & Scan::FLAG_PAUSED != 0 { now } else { 0 }, Relaxed);
        self.is_active.store(true, Relaxed);
    }

    /// Back to what the pool keeps: what was examined since does not count.
    pub fn reset(&self, scan: &Scan) {
        self.examined.store(scan.examined_bytes, Relaxed);
        self.skipped.store(scan.skipped_bytes, Relaxed);
    }

    pub fn end(&self) {
        self.is_active.store(false, Relaxed);
    }

    /// A scrub of the error log begins or ends.
    pub fn error_scrub(&self, on: bool) {
        self.is_error_scrub.store(on, Relaxed);
    }

    /// Whether a scan is under way, and not paused.
    pub fn is_running(&self) -> bool {
        (self.is_active.load(Relaxed) && self.paused_since.load(Relaxed) == 0) || self.is_error_scrub.load(Relaxed)
    }

    /// How far a sequential rebuild is.
    pub fn rebuild(&self, vdev: u64, now: Rebuild) {
        let mut rebuilds = self.rebuilds.lock();
        let known = rebuilds.entry(vdev).or_insert((now, now));
        // Another one, or the same anew.
        if now.max_txg != known.1.max_txg {
            known.1 = now;
        }
        known.0 = now;
    }

    pub fn examined(&self, bytes: u64, is_skipped: bool) {
        self.examined.fetch_add(bytes, Relaxed);
        self.pass_examined.fetch_add(bytes, Relaxed);
        if is_skipped {
            self.skipped.fetch_add(bytes, Relaxed);
        }
    }

    pub fn issued(&self, bytes: u64) {
        self.pass_issued.fetch_add(bytes, Relaxed);
    }

    pub fn mended(&self, mended: &Mended) {
        self.processed.fetch_add(mended.written_bytes(), Relaxed);
    }

    pub fn error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    pub fn healed(&self, mended: &Mended) {
        if mended.written_bytes() > 0 {
            self.healed_blocks.fetch_add(1, Relaxed);
            self.healed_bytes.fetch_add(mended.written_bytes(), Relaxed);
        }
    }

    /// Blocks and bytes that reads had written over.
    pub fn healed_so_far(&self) -> (u64, u64) {
        (self.healed_blocks.load(Relaxed), self.healed_bytes.load(Relaxed))
    }

    pub fn paused(&self, now: u64) {
        self.paused_since.store(now, Relaxed);
    }

    pub fn resumed(&self, now: u64) {
        let since = self.paused_since.swap(0, Relaxed);
        if since != 0 {
            self.paused_for.fetch_add(now.saturating_sub(since), Relaxed);
        }
    }

    /// Puts the counts of now into what the pool is to keep.
    pub fn store_into(&self, scan: &mut Scan) {
        scan.examined_bytes = self.examined.load(Relaxed);
        scan.skipped_bytes = self.skipped.load(Relaxed);
        self.store_results(scan);
    }

    /// Only what was done: it stays done when the place is not kept.
    pub fn store_results(&self, scan: &mut Scan) {
        scan.processed_bytes = self.processed.load(Relaxed);
        scan.errors = self.errors.load(Relaxed);
    }

    /// Tells in `status` what is newer than what the pool keeps.
    pub fn show(&self, status: &mut ScanStatus) {
        if !self.is_active.load(Relaxed) || status.state != Progress::Active {
            return;
        }
        status.examined_bytes = self.examined.load(Relaxed);
        status.skipped_bytes = self.skipped.load(Relaxed);
        status.processed_bytes = self.processed.load(Relaxed);
        status.errors = self.errors.load(Relaxed);
        status.pass_start = self.pass_start.load(Relaxed);
        status.pause_time = self.paused_since.load(Relaxed);
        status.spent_paused = self.paused_for.load(Relaxed);
        status.pass_examined_bytes = self.pass_examined.load(Relaxed);
        status.pass_issued_bytes = self.pass_issued.load(Relaxed);
        status.issued_now_bytes = Some(self.issued_before.load(Relaxed) + status.pass_issued_bytes);
    }
}
