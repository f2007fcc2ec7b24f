//! Verifying a pool: every block's copies and parity, space maps against what is reachable, accounting against blocks.
//!
//! Above: `weir verify`. What `zdb -bcc` checks, and parity and each mirror side besides.
//!
//! Invariants:
//!   * a clean verdict means: every copy and parity column of every block was read and is right, and allocated space is
//!     exactly what is reachable
//!   * memory is bounded: a bit for each allocation unit, and lists cut at [`LISTED_MAX`] with the count kept

use super::walk::{Visit, Visitor, walk};
use super::{Root, RootKind, roots};
use crate::space::bits::{Bits, Run};
use crate::space::{Space, for_each_entry};
use crate::{Bookmark, Pool, Result};
use block::vdev::{Fault, Kind};
use object::zap::Zap;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::{BlkPtr, Dva, bpobj};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Entries kept of each list; the counts go on.
pub const LISTED_MAX: usize = 100_000;

/// How to verify.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Threads; 0: one for each processor.
    pub threads: usize,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Loading space maps.
    SpaceMaps,
    /// Reading blocks.
    Blocks,
    /// Comparing.
    Compare,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Allocated bytes looked at.
    pub done_bytes: u64,
    /// Allocated bytes in all.
    pub total_bytes: u64,
}

/// Something that cannot be read, or not walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub at: Bookmark,
    /// Bytes of the object that one block of that level spans, from `at.blkid` times this; 0 when unknown.
    pub span_bytes: u64,
    /// Why.
    pub error: String,
}

/// Wrong copies and columns of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFaults {
    /// Blocks for which the device was not there.
    pub missing: u64,
    /// Blocks that could not be read from it.
    pub unreadable: u64,
    /// Blocks of which it holds wrong bytes.
    pub wrong: u64,
    /// Blocks written while it was away.
    pub stale: u64,
}

/// Space that is not what the space maps say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leak {
    /// Top-level device.
    pub vdev: u64,
    /// Offset on it.
    pub offset_bytes: u64,
    /// Length.
    pub size_bytes: u64,
}

/// A dataset's accounting and its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounting {
    /// The dataset's object number.
    pub objset: u64,
    /// What it says it references.
    pub says_bytes: u64,
    /// What its blocks add up to.
    pub found_bytes: u64,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Blocks visited.
    pub blocks: u64,
    /// Bytes before compression.
    pub logical_bytes: u64,
    /// Bytes allocated, parity included.
    pub allocated_bytes: u64,
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Blocks with at least one wrong or missing copy or column that are readable all the same.
    pub repairable_blocks: u64,
    /// Blocks that cannot be read at all.
    pub lost_blocks: u64,
    /// The first of them.
    pub damage: Vec<Damage>,
    /// Wrong copies and columns by device guid.
    pub devices: BTreeMap<u64, DeviceFaults>,
    /// Allocated, but nothing leads there.
    pub leaked: Vec<Leak>,
    /// Bytes of it.
    pub leaked_bytes: u64,
    /// In use, but free by the space maps: the next write would destroy it.
    pub unallocated: Vec<Leak>,
    /// Bytes of it.
    pub unallocated_bytes: u64,
    /// Used by two blocks that do not know of each other.
    pub doubly_used: Vec<Leak>,
    /// Bytes of it.
    pub doubly_used_bytes: u64,
    /// Entries of space maps that cannot be.
    pub space_anomalies: Vec<String>,
    /// Why space could not be compared, if so.
    pub space_unknown: Option<String>,
    /// Datasets whose accounting does not fit.
    pub accounting: Vec<Accounting>,
    /// Blocks seen again: dedup and clones.
    pub shared_blocks: u64,
}

impl Report {
    /// Everything is readable and as it should be.
    pub fn is_clean(&self) -> bool {
        self.repairable_blocks == 0 && self.lost_blocks == 0 && self.is_consistent()
    }

    /// Space and accounting fit what was found.
    pub fn is_consistent(&self) -> bool {
        self.leaked_bytes == 0
            && self.unallocated_bytes == 0
            && self.doubly_used_bytes == 0
            && self.space_anomalies.is_empty()
            && self.accounting.is_empty()
    }
}

/// Verifies the pool. `progress` is called now and then from some thread; when it returns false, verifying ends early.
pub fn verify(pool: &Pool, options: &Options, progress: &(dyn Fn(Progress) -> bool + Sync)) -> Result<Report> {
    progress(Progress { phase: Phase::SpaceMaps, done_bytes: 0, total_bytes: 0 });
    let mut report = Report::default();
    let space = match Space::load(pool) {
        Ok(space) => space,
        Err(e) => {
            report.space_unknown = Some(e.to_string());
            Space::default()
        }
    };
    let all = roots(pool)?;
    let total_bytes = space.devices.iter().map(|d| d.allocated.count() << d.shift).sum();
    let checker = Checker::new(pool, &all, &space, total_bytes, progress);
    checker.pending_frees(pool, &mut report);
    let threads = if options.threads == 0 { host::processors() } else { options.threads };
    walk(pool.store(), &all, threads, &checker);
    progress(Progress { phase: Phase::Compare, done_bytes: total_bytes, total_bytes });
    checker.finish(&all, &mut report);
    report.space_anomalies = space.anomalies;
    Ok(report)
}

struct Checker<'a> {
    pool: &'a Pool,
    /// Units that something leads to, by device number.
    used: HashMap<u64, Mutex<Bits>>,
    /// Bits of the space maps, to judge log blocks by.
    space: &'a Space,
    deflate: Vec<u64>,
    per_root: Vec<AtomicU64>,
    found: Mutex<Found>,
    cloned: HashMap<(u64, u64), u64>,
    done: AtomicU64,
    total: u64,
    progress: &'a (dyn Fn(Progress) -> bool + Sync),
    stop: AtomicBool,
}

#[derive(Default)]
struct Found {
    report: Report,
    next_progress: u64,
}

impl<'a> Checker<'a> {
    fn new(
        pool: &'a Pool,
        all: &[Root],
        space: &'a Space,
        total: u64,
        progress: &'a (dyn Fn(Progress) -> bool + Sync),
    ) -> Self {
        let used = space.devices.iter().map(|d| (d.vdev, Mutex::new(Bits::new(d.size_bytes >> d.shift)))).collect();
        Self {
            pool,
            used,
            space,
            deflate: pool.deflate_ratios(),
            per_root: all.iter().map(|_| AtomicU64::new(0)).collect(),
            found: Mutex::default(),
            cloned: crate::clones::references(pool).unwrap_or_default(),
            done: AtomicU64::new(0),
            total,
            progress,
            stop: AtomicBool::new(false),
        }
    }

    /// Marks the space behind an address as used. False: some of it was used before.
    fn mark(&self, vdev: u64, offset: u64, size: u64) -> bool {
        let Some(top) = self.pool.store().tree().tops.get(vdev as usize) else { return true };
        if let Kind::Indirect(mapping) = &top.kind {
            let mapping = mapping.read().clone();
            let Some(Ok(pieces)) = mapping.map(|m| m.resolve(offset, size)) else { return true };
            let mut fresh = true;
            for p in pieces {
                fresh &= self.mark(u64::from(p.vdev), p.offset_bytes, p.size_bytes);
            }
            return fresh;
        }
        let (Some(bits), Some(device)) = (self.used.get(&vdev), self.space.device(vdev)) else { return true };
        let run = Run { start: offset >> device.shift, len: size.div_ceil(1 << device.shift) };
        if run.start.saturating_add(run.len) > device.size_bytes >> device.shift {
            let mut found = self.found.lock();
            found.report.unallocated_bytes += size;
            push(&mut found.report.unallocated, Leak { vdev, offset_bytes: offset, size_bytes: size });
            return true;
        }
        bits.lock().set(run, true) == 0
    }

    /// Space of one address: a gang block's header, or the whole. The members mark their own.
    fn mark_dva(&self, dva: &Dva) -> bool {
        let size = match dva.is_gang {
            true => self.gang_header_bytes(dva),
            false => dva.asize_bytes,
        };
        self.mark(u64::from(dva.vdev), dva.offset_bytes, size)
    }

    fn gang_header_bytes(&self, dva: &Dva) -> u64 {
        self.pool.store().tree().tops.get(dva.vdev as usize).map_or(512, |top| match &top.kind {
            Kind::Raidz(g) => g.asize_bytes(512, u64::MAX),
            Kind::Draid(g) => g.asize_bytes(512),
            _ => 1 << top.ashift.min(16),
        })
    }

    fn mark_block(&self, bp: &BlkPtr, depth: u32) -> bool {
        let mut fresh = true;
        for dva in bp.dvas() {
            fresh &= self.mark_dva(&dva);
            if dva.is_gang && depth < 16 {
                for member in block::gang_members(self.pool.store(), bp, &dva).unwrap_or_default() {
                    self.mark_block(&member, depth + 1);
                }
            }
        }
        fresh
    }

    /// Blocks that nothing leads to any more but that are not freed yet.
    fn pending_frees(&self, pool: &Pool, report: &mut Report) {
        for name in [directory::SYNC_BPOBJ, directory::FREE_BPOBJ] {
            let walked = match pool.directory().lookup_u64(name) {
                Ok(Some(id)) if id != 0 => self.mark_list(id, 0),
                Ok(_) => Ok(()),
                Err(e) => Err(e),
            };
            if let Err(e) = walked {
                report.space_unknown.get_or_insert(e.to_string());
            }
        }
        if let Err(e) = self.checkpoint_frees(pool) {
            report.space_unknown.get_or_insert(e.to_string());
        }
    }

    fn mark_list(&self, id: u64, depth: u32) -> Result<()> {
        let object = self.pool.mos().object(id)?;
        let header = bpobj::Header::parse(object.bonus(), object.endian())?;
        let bytes = header.subobjects.as_ref().map_or(0, |s| s.count);
        let own =
            header.entries.min(object.max_block_id().saturating_add(1).saturating_mul(object.block_bytes()) / 128);
        let mut at = 0;
        while at < own * 128 && object.block_bytes() > 0 {
            if let Some(block) = object.block(at / object.block_bytes())? {
                let len = (own * 128 - at).min(block.data.len() as u64) as usize;
                for bp in bpobj::entries(&block.data[..len], block.endian) {
                    self.mark_block(&bp, 0);
                }
            }
            at += object.block_bytes();
        }
        if bytes > 0
            && depth < 8
            && let Some(sub) = header.subobjects
        {
            let list = self.pool.mos().object(sub.object)?;
            let holds = list.max_block_id().saturating_add(1).saturating_mul(list.block_bytes()) / 8;
            for id in list.read_words(sub.count.min(holds))? {
                self.mark_list(id, depth + 1)?;
            }
        }
        Ok(())
    }

    /// What was freed since a checkpoint stays allocated until the checkpoint is discarded.
    fn checkpoint_frees(&self, pool: &Pool) -> Result<()> {
        for top in &pool.root_vdev().children {
            let zap = top.number(config::VDEV_TOP_ZAP);
            if zap == 0 {
                continue;
            }
            let Some(id) = Zap::open(pool.mos().object(zap)?)?.lookup_u64(vdev_top::POOL_CHECKPOINT_SM)? else {
                continue;
            };
            let shift = top.number(config::ASHIFT).min(16);
            for_each_entry(&pool.mos().object(id)?, |e| {
                self.mark(top.id, e.offset << shift, e.run << shift);
            })?;
        }
        Ok(())
    }

    fn note_progress(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut found = self.found.lock();
        if done >= found.next_progress {
            found.next_progress = done + (self.total / 1000).max(4 << 20);
            drop(found);
            let p = Progress { phase: Phase::Blocks, done_bytes: done.min(self.total), total_bytes: self.total };
            if !(self.progress)(p) {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    fn deflated(&self, bp: &BlkPtr) -> u64 {
        bp.dvas()
            .map(|d| (d.asize_bytes >> 9).saturating_mul(self.deflate.get(d.vdev as usize).copied().unwrap_or(512)))
            .sum()
    }

    fn finish(self, all: &[Root], report: &mut Report) {
        let unknown = report.space_unknown.take();
        *report = self.found.into_inner().report;
        report.space_unknown = unknown;
        let stopped = self.stop.load(Ordering::Relaxed);
        if stopped {
            report.space_unknown.get_or_insert("stopped early".into());
        }
        if report.lost_blocks > 0 || report.damage.iter().any(|d| d.at.level != 0) {
            report
                .space_unknown
                .get_or_insert("some metadata cannot be read, so that what lies below it is not known".into());
        }
        if report.space_unknown.is_none() {
            compare_space(&self.used, self.space, report);
            check_accounting(all, &self.per_root, report);
        }
    }
}

fn compare_space(used: &HashMap<u64, Mutex<Bits>>, space: &Space, report: &mut Report) {
    for device in &space.devices {
        let Some(bits) = used.get(&device.vdev) else { continue };
        let bits = bits.lock();
        let leak = |run: Run| Leak {
            vdev: device.vdev,
            offset_bytes: run.start << device.shift,
            size_bytes: run.len << device.shift,
        };
        for run in device.allocated.minus(&bits) {
            report.leaked_bytes += run.len << device.shift;
            push(&mut report.leaked, leak(run));
        }
        for run in bits.minus(&device.allocated) {
            report.unallocated_bytes += run.len << device.shift;
            push(&mut report.unallocated, leak(run));
        }
    }
}

/// A dataset references what the snapshot before it did, less what died since, and what was born since.
fn check_accounting(all: &[Root], per_root: &[AtomicU64], report: &mut Report) {
    let says: HashMap<u64, u64> = all
        .iter()
        .filter_map(|r| match r.kind {
            RootKind::Dataset { referenced_bytes, .. } => Some((r.objset, referenced_bytes)),
            RootKind::Mos => None,
        })
        .collect();
    for (root, born) in all.iter().zip(per_root) {
        let RootKind::Dataset { previous, referenced_bytes, dead_bytes, is_inconsistent, .. } = root.kind else {
            continue;
        };
        if is_inconsistent || root.bp.is_hole() {
            continue;
        }
        let before = if previous == 0 { 0 } else { says.get(&previous).copied().unwrap_or(0) };
        let found = (before + born.load(Ordering::Relaxed)).saturating_sub(dead_bytes);
        if found != referenced_bytes {
            report.accounting.push(Accounting {
                objset: root.objset,
                says_bytes: referenced_bytes,
                found_bytes: found,
            });
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < LISTED_MAX {
        list.push(item);
    }
}

impl Visitor for Checker<'_> {
    fn block(&self, visit: &Visit<'_>) -> bool {
        let bp = visit.bp;
        if bp.is_embedded() {
            return true;
        }
        if visit.at.level == -2 {
            // Written since the last txg was synced, perhaps: then the space maps do not know it yet.
            if bp.dvas().all(|d| self.is_allocated(&d)) {
                self.mark_block(bp, 0);
            }
            return true;
        }
        let asize = bp.asize_bytes();
        self.per_root[visit.root].fetch_add(self.deflated(bp), Ordering::Relaxed);
        let fresh = self.mark_block(bp, 0);
        let shared = !fresh
            && (bp.is_dedup()
                || bp.dvas().next().is_some_and(|d| self.cloned.contains_key(&(u64::from(d.vdev), d.offset_bytes))));
        if shared {
            let mut found = self.found.lock();
            found.report.blocks += 1;
            found.report.shared_blocks += 1;
            found.report.logical_bytes += bp.lsize_bytes();
            return true;
        }
        let seen = self.pool.store().verify(bp);
        let mut found = self.found.lock();
        let report = &mut found.report;
        report.blocks += 1;
        report.logical_bytes += bp.lsize_bytes();
        report.allocated_bytes += asize;
        report.read_bytes += seen.bytes_read;
        if !fresh && let Some(d) = bp.dvas().next() {
            report.doubly_used_bytes += d.asize_bytes;
            push(
                &mut report.doubly_used,
                Leak { vdev: u64::from(d.vdev), offset_bytes: d.offset_bytes, size_bytes: d.asize_bytes },
            );
        }
        for fault in &seen.faults {
            let device = report.devices.entry(fault.leaf).or_default();
            match fault.fault {
                Fault::Missing => device.missing += 1,
                Fault::Unreadable => device.unreadable += 1,
                Fault::Wrong => device.wrong += 1,
                Fault::Stale => device.stale += 1,
            }
        }
        if !seen.readable {
            report.lost_blocks += 1;
            let span_bytes = visit.dnode.map_or(0, |d| span(d, visit.at.level));
            let error = seen.error.unwrap_or_default();
            push(&mut report.damage, Damage { at: visit.at, span_bytes, error });
        } else if !seen.faults.is_empty() {
            report.repairable_blocks += 1;
        }
        drop(found);
        self.note_progress(asize);
        seen.readable
    }

    fn broken(&self, at: Bookmark, _root: usize, error: &crate::Error) {
        let mut found = self.found.lock();
        found.report.lost_blocks += 1;
        push(&mut found.report.damage, Damage { at, span_bytes: 0, error: error.to_string() });
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Checker<'_> {
    fn is_allocated(&self, dva: &Dva) -> bool {
        self.space.device(u64::from(dva.vdev)).is_some_and(|d| d.allocated.contains(dva.offset_bytes >> d.shift))
    }
}

fn span(dnode: &ondisk::Dnode, level: i64) -> u64 {
    let shift = dnode.pointers_per_indirect().ilog2().saturating_mul(level.clamp(0, 30) as u32);
    u64::from(dnode.data_block_bytes).checked_shl(shift).unwrap_or(u64::MAX)
}
