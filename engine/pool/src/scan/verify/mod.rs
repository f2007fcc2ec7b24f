//! Verifies a pool: the copies and parity of every block, space maps against reachable blocks,
//! accounting against blocks.
//!
//! Above: `weir verify`. Checks what `zdb -bcc` checks, and also parity and each side of a mirror.
//!
//! A checksum proves that the bytes of a block are those that were written. It does not prove that
//! a reader can use them. Therefore each block is also decompressed, and decrypted if its key is
//! loaded, on the thread that read it.
//!
//! Invariants:
//!   * a clean result means: every copy and parity column of every block was read and is correct;
//!     every block whose key is not missing decrypts and decompresses; the allocated space is
//!     exactly the reachable space; and shared blocks are referenced as often as their tables say
//!   * memory is bounded: a bit for each allocation unit, a counter for each block that a table
//!     counts as shared, and lists cut at [`LISTED_MAX`], whose full length is counted
//!   * workers hold no common lock for long: each keeps its own sums, which are added at the end

mod progress;
mod references;
mod report;
mod space;
mod spread;

pub use progress::{OnProgress, Phase, Progress};
pub use report::{Accounting, Damage, DeviceFaults, LISTED_MAX, Leak, Report, WrongReferences};

use super::walk::{Visit, Visitor, walk};
use super::{Root, RootKind, roots};
use crate::Pool;
use crate::space::Space;
use block::Bookmark;
use block::crypt::DatasetKeys;
use block::vdev::{BlockReport, Contents, Fault};
use errors::Result;
use host::sync::Mutex;
use ondisk::BlkPtr;
use progress::Meter;
use references::References;
use space::Used;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Number of threads; 0: one for each processor.
    pub threads: usize,
}

/// Returns the keys of the dataset or snapshot with this object number, if they are loaded.
pub type KeysOf<'a> = dyn Fn(u64) -> Option<Arc<DatasetKeys>> + Sync + 'a;

/// A worker reports progress after this many bytes. Guessed: a few times a second on one slow disk.
const PROGRESS_BYTES: u64 = 8 << 20;
/// Level that the walk assigns to blocks of intent logs and the blocks that their records refer to.
const LOG_LEVEL: i64 = -2;

/// Verifies the pool without any keys.
pub fn verify(pool: &Pool, options: &Options, progress: &OnProgress<'_>) -> Result<Report> {
    verify_with(pool, options, &|_| None, progress)
}

/// Verifies the pool, and decrypts the blocks whose keys `keys` returns.
pub fn verify_with(pool: &Pool, options: &Options, keys: &KeysOf<'_>, progress: &OnProgress<'_>) -> Result<Report> {
    progress(Progress { phase: Phase::SpaceMaps, done_bytes: 0, total_bytes: 0 });
    let mut unknown = Vec::new();
    let mut space = Space::load(pool).unwrap_or_else(|e| {
        unknown.push(e.to_string());
        Space::default()
    });
    let (all, broken) = roots(pool)?;
    unknown.extend(broken);
    let total_bytes = space.devices.iter().map(|d| d.allocated.count() << d.shift).sum();
    let (references, problem) = References::load(pool);
    unknown.extend(problem);
    let threads = match options.threads {
        0 => host::processors(),
        n => n,
    };
    let anomalies = std::mem::take(&mut space.anomalies);
    let checker = Checker {
        pool,
        used: Used::new(pool, &space),
        references,
        roots: &all,
        deflate: pool.deflate_ratios(),
        born: all.iter().map(|_| AtomicU64::new(0)).collect(),
        keys_of: keys,
        keys: all.iter().map(|_| OnceLock::new()).collect(),
        tallies: (0..threads.max(1)).map(|_| Mutex::default()).collect(),
        meter: Meter::new(progress, total_bytes),
    };
    if let Err(e) = checker.used.pending_frees(|bp| checker.references.count(bp.dvas().next(), |_| ())) {
        unknown.push(e.to_string());
    }
    walk(pool.store(), &all, threads, &checker);
    progress(Progress { phase: Phase::Compare, done_bytes: total_bytes, total_bytes });
    let mut report = checker.finish(unknown);
    report.space_anomalies = anomalies;
    spread::find_shared(pool, &all, &mut report.damage);
    Ok(report)
}

/// Results of one worker.
#[derive(Default)]
struct Tally {
    report: Report,
    unreported_bytes: u64,
}

struct Checker<'a> {
    pool: &'a Pool,
    used: Used<'a>,
    references: References,
    roots: &'a [Root],
    deflate: Vec<u64>,
    /// Deflated bytes of the blocks of each root.
    born: Vec<AtomicU64>,
    keys_of: &'a KeysOf<'a>,
    /// Keys of each root that has encrypted blocks.
    keys: Vec<OnceLock<Option<Arc<DatasetKeys>>>>,
    tallies: Vec<Mutex<Tally>>,
    meter: Meter<'a>,
}

impl Checker<'_> {
    fn deflated(&self, bp: &BlkPtr) -> u64 {
        let ratio = |vdev: u32| self.deflate.get(vdev as usize).copied().unwrap_or(512);
        bp.dvas().map(|d| (d.asize_bytes >> 9).saturating_mul(ratio(d.vdev))).fold(0, u64::saturating_add)
    }

    /// Reads every copy of the block, decrypts it if its key is loaded, and decompresses it.
    fn examine(&self, visit: &Visit<'_>) -> BlockReport {
        let keys = match visit.bp.uses_crypt() {
            true => self.keys[visit.root].get_or_init(|| (self.keys_of)(self.roots[visit.root].objset)).as_deref(),
            false => None,
        };
        self.pool.store().verify_contents(visit.bp, keys)
    }

    fn note_progress(&self, tally: &mut Tally, bytes: u64) {
        tally.unreported_bytes += bytes;
        if tally.unreported_bytes < PROGRESS_BYTES {
            return;
        }
        self.meter.add(std::mem::take(&mut tally.unreported_bytes));
    }

    fn finish(self, mut unknown: Vec<String>) -> Report {
        let mut report = Report::default();
        for tally in self.tallies {
            report.merge(tally.into_inner().report);
        }
        report.damage.sort_by_key(|d| d.at);
        report.stopped = self.meter.is_stopped();
        if report.stopped {
            unknown.push("stopped early".into());
        }
        // Lost data blocks were still marked as used; blocks below lost metadata were not.
        let is_metadata = |at: &Bookmark| at.level != LOG_LEVEL && (at.level != 0 || at.object == 0);
        if report.damage.iter().any(|d| is_metadata(&d.at) || (d.at.level == 0 && d.span_bytes == 0)) {
            unknown.push("some metadata cannot be read, and what it references is unknown".into());
        }
        self.used.note_beyond(&mut report);
        if unknown.is_empty() {
            self.used.compare(&mut report);
            self.references.compare(&mut report);
            check_accounting(self.roots, &self.born, &mut report);
        } else {
            report.space_unknown = Some(unknown.join("; "));
        }
        report
    }

    /// Checks a block of an intent log. Returns false where the log ended in the last synced txg.
    fn log_block(&self, visit: &Visit<'_>) -> bool {
        let bp = visit.bp;
        // The block was allocated after the last synced txg: it is not in the space maps yet. The
        // birth txg does not show this: a block claimed at import was born in a txg that was never
        // synced.
        if !self.used.is_allocated(bp) {
            return false;
        }
        self.used.block(bp);
        let seen = self.examine(visit);
        let mut tally = self.tallies[visit.worker].lock();
        tally.report.log_blocks += 1;
        // A block whose write was interrupted by power loss fails its checksum. A block with a
        // correct checksum that does not decrypt or decompress was written so, and replay stops at
        // it.
        note_contents(&mut tally.report, visit, &seen, 0);
        // The last block of a chain is reserved but not written: it cannot be read, and so ends the
        // chain. The write of the block before may have been interrupted: a side or column without
        // it is no damage.
        seen.readable
    }
}

fn note_faults(report: &mut Report, bp: &BlkPtr, seen: &BlockReport) {
    report.read_bytes += seen.bytes_read;
    for fault in &seen.faults {
        let device = report.devices.entry(fault.leaf).or_default();
        match fault.fault {
            Fault::Missing => device.missing += 1,
            Fault::Unreadable => device.unreadable += 1,
            Fault::Wrong => device.wrong += 1,
            Fault::Stale => device.stale += 1,
        }
    }
    // A copy may be bad without a device to blame: if too many raidz columns are wrong, it is
    // unknown which ones.
    if seen.readable && (!seen.faults.is_empty() || seen.good_copies < bp.dvas().count()) {
        report.repairable_blocks += 1;
    }
}

/// Counts a block that does not decrypt or decompress, or whose key is missing. Unreadable blocks
/// are not counted here.
fn note_contents(report: &mut Report, visit: &Visit<'_>, seen: &BlockReport, span_bytes: u64) {
    match seen.contents {
        Contents::NotTried | Contents::Whole => {}
        Contents::Sealed => report.sealed_blocks += 1,
        Contents::Malformed => {
            report.malformed_blocks += 1;
            let error = seen.error.clone().unwrap_or_default();
            report.lost(Damage { at: visit.at, span_bytes, error, also_in: Vec::new() });
        }
    }
}

/// Bytes of the object that the block spans; 0 if it belongs to no object.
fn span_below(visit: &Visit<'_>) -> u64 {
    visit.dnode.map_or(0, |d| span(d, visit.at.level))
}

impl Visitor for Checker<'_> {
    fn block(&self, visit: &Visit<'_>) -> bool {
        let bp = visit.bp;
        if bp.is_redacted() {
            return true;
        }
        if bp.is_embedded() {
            let seen = self.examine(visit);
            note_contents(&mut self.tallies[visit.worker].lock().report, visit, &seen, span_below(visit));
            return seen.readable;
        }
        if visit.at.level == LOG_LEVEL {
            return self.log_block(visit);
        }
        let is_destroyed = self.roots[visit.root].kind == RootKind::Destroyed;
        // Part of a tree that is being freed is already gone.
        if is_destroyed && !self.used.is_allocated(bp) {
            return false;
        }
        let bytes = bp.asize_bytes();
        self.born[visit.root].fetch_add(self.deflated(bp), Ordering::Relaxed);
        let first = bp.dvas().next();
        let (met, fresh) = self.references.count(first, |met| {
            if met == Some(true) {
                self.used.further_copies(bp);
                return (met, false);
            }
            (met, self.used.block(bp))
        });
        let mut tally = self.tallies[visit.worker].lock();
        tally.report.blocks += 1;
        tally.report.logical_bytes += bp.lsize_bytes();
        if met == Some(true) {
            tally.report.shared_blocks += 1;
            return false;
        }
        // A shared block that is found for the first time must be in unused space, too.
        if !fresh
            && !is_destroyed
            && let Some(d) = first
        {
            let leak = Leak { vdev: u64::from(d.vdev), offset_bytes: d.offset_bytes, size_bytes: d.asize_bytes };
            tally.report.doubly_used(leak);
        }
        let seen = self.examine(visit);
        tally.report.allocated_bytes += bytes;
        note_faults(&mut tally.report, bp, &seen);
        note_contents(&mut tally.report, visit, &seen, span_below(visit));
        if !seen.readable && seen.contents != Contents::Malformed {
            let error = seen.error.clone().unwrap_or_default();
            tally.report.lost(Damage { at: visit.at, span_bytes: span_below(visit), error, also_in: Vec::new() });
        }
        self.note_progress(&mut tally, bytes);
        // The blocks below a block that is found again were walked the first time. Otherwise
        // pointers that form a circle would be followed forever.
        seen.readable && fresh
    }

    fn broken(&self, worker: usize, at: Bookmark, error: &errors::Error) {
        let damage = Damage { at, span_bytes: 0, error: error.to_string(), also_in: Vec::new() };
        self.tallies[worker].lock().report.lost(damage);
    }

    fn cancelled(&self) -> bool {
        self.meter.is_stopped()
    }
}

/// Checks that a dataset references what the previous snapshot references, minus the blocks that
/// died since, plus the blocks born since.
fn check_accounting(all: &[Root], born: &[AtomicU64], report: &mut Report) {
    let says: HashMap<u64, u64> = all
        .iter()
        .filter_map(|r| match r.kind {
            RootKind::Dataset { referenced_bytes, .. } => Some((r.objset, referenced_bytes)),
            _ => None,
        })
        .collect();
    for (root, born) in all.iter().zip(born) {
        let RootKind::Dataset { previous, referenced_bytes, dead_bytes, is_inconsistent, .. } = root.kind else {
            continue;
        };
        if is_inconsistent || root.bp.is_hole() {
            continue;
        }
        let before = if previous == 0 { 0 } else { says.get(&previous).copied().unwrap_or(0) };
        let found = before.saturating_add(born.load(Ordering::Relaxed)).saturating_sub(dead_bytes);
        if found != referenced_bytes {
            let wrong = Accounting { objset: root.objset, says_bytes: referenced_bytes, found_bytes: found };
            report::push(&mut report.accounting, wrong);
        }
    }
}

fn span(dnode: &ondisk::Dnode, level: i64) -> u64 {
    let shift = dnode.pointers_per_indirect().checked_ilog2().unwrap_or(0).saturating_mul(level.clamp(0, 30) as u32);
    match u64::from(dnode.data_block_bytes) {
        bytes if shift >= bytes.leading_zeros() => u64::MAX,
        bytes => bytes << shift,
    }
}
